//! Limits of depth and size, which are checked before a schema is compiled.

use serde_json::Value;

use super::fault::SchemaFault;
use super::pointer::pointer_part;

/// The most levels of JSON nesting in a schema. A property of a property of the arguments is at
/// level 4.
pub const MAX_SCHEMA_DEPTH: usize = 64;

/// The most JSON values in a schema.
pub const MAX_SCHEMA_NODES: usize = 20_000;

/// Returns every violation of the limits. Depth and size are reported once.
pub(super) fn check(schema: &Value) -> Vec<SchemaFault> {
    let mut walk = LimitCheck {
        nodes: 0,
        too_deep: false,
        faults: Vec::new(),
        path: Vec::new(),
    };
    walk.visit(schema, 0);
    if walk.nodes > MAX_SCHEMA_NODES {
        walk.faults.push(SchemaFault {
            pointer: String::new(),
            message: format!("the schema holds more than {MAX_SCHEMA_NODES} values"),
            remedy: "split the tool, or shorten its enumerations",
        });
    }
    walk.faults
}

struct LimitCheck<'a> {
    nodes: usize,
    too_deep: bool,
    faults: Vec<SchemaFault>,
    path: Vec<Step<'a>>,
}

/// A step from a value to one inside it.
enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

impl<'a> LimitCheck<'a> {
    fn visit(&mut self, value: &'a Value, depth: usize) {
        self.nodes += 1;
        if self.nodes > MAX_SCHEMA_NODES {
            return;
        }
        if depth > MAX_SCHEMA_DEPTH {
            if !self.too_deep {
                self.too_deep = true;
                self.fault(
                    format!("the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels"),
                    "flatten it, or move the inner part to $defs",
                );
            }
            return;
        }
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    self.path.push(Step::Member(key));
                    if let ("$ref" | "$dynamicRef" | "$recursiveRef", Some(target)) =
                        (key.as_str(), member.as_str())
                        && !target.starts_with('#')
                    {
                        self.fault(
                            format!("the reference {target:?} leaves the schema"),
                            "copy its target into $defs and refer to it as #/$defs/NAME",
                        );
                    }
                    self.visit(member, depth + 1);
                    self.path.pop();
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.path.push(Step::Item(index));
                    self.visit(item, depth + 1);
                    self.path.pop();
                }
            }
            _ => {}
        }
    }

    fn fault(&mut self, message: String, remedy: &'static str) {
        let step = |step: &Step<'_>| match step {
            Step::Member(key) => format!("/{}", pointer_part(key)),
            Step::Item(index) => format!("/{index}"),
        };
        self.faults.push(SchemaFault {
            pointer: self.path.iter().map(step).collect(),
            message,
            remedy,
        });
    }
}
