//! An upper bound for the work of validating arguments against a schema.
//!
//! A schema may apply many subschemas to one value, and references multiply them with each level:
//! two alternatives at each of sixty levels are 2^60 evaluations. So this module computes, for each
//! depth, the largest number of evaluations that one value at that depth can cause. The bound is
//! checked before a validator sees the value.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::fault::SchemaFault;
use super::keywords::{applies_in_place, children, within};

/// The deepest nesting of arguments. The JSON parser refuses text that is nested deeper.
const MAX_DEPTH: usize = 128;
/// The most subschema evaluations that one validation may take: a few seconds.
const MAX_EVALUATIONS: u64 = 20_000_000;

/// The most evaluations that one value causes, by its depth in the arguments. Values that are
/// deeper than the last entry cause none.
#[derive(Debug)]
pub(crate) struct Cost(
    #[cfg_attr(
        not(feature = "json-schema"),
        expect(dead_code, reason = "only a validator reads it")
    )]
    Vec<u64>,
);

impl Cost {
    /// Computes the cost of a schema that is within the limits of depth and size.
    pub(super) fn new(schema: &Value) -> Result<Self, SchemaFault> {
        let graph = Graph::new(schema);
        let order = graph.in_place_order().map_err(|pointer| SchemaFault {
            pointer,
            message: "the reference leads back to itself".to_owned(),
            remedy: "refer to another schema, or put the reference below a property or an item",
        })?;
        let mut by_depth = Vec::new();
        // The evaluations of each node at the previous depth.
        let mut previous = vec![0_u64; graph.nodes.len()];
        for depth in 0..=MAX_DEPTH {
            let mut current = vec![0_u64; graph.nodes.len()];
            for &node in &order {
                let Node { in_place, groups } = &graph.nodes[node];
                let from_parents = if depth == 0 {
                    1
                } else {
                    groups
                        .iter()
                        .map(|group| sum(group, &previous))
                        .max()
                        .unwrap_or(0)
                };
                current[node] = from_parents.saturating_add(sum(in_place, &current));
            }
            by_depth.push(current[0]);
            if current.iter().all(|&evaluations| evaluations == 0) {
                break;
            }
            previous = current;
        }
        if by_depth[0] > MAX_EVALUATIONS {
            return Err(SchemaFault {
                pointer: String::new(),
                message: format!(
                    "one value can cause more than {MAX_EVALUATIONS} subschema evaluations"
                ),
                remedy: "combine fewer of anyOf, allOf, oneOf and references",
            });
        }
        Ok(Self(by_depth))
    }

    /// Returns the most evaluations that `arguments` can cause, or `None` if that exceeds the
    /// limit.
    #[cfg(feature = "json-schema")]
    pub(crate) fn count_evaluations(&self, arguments: &Value) -> Option<u64> {
        let mut evaluations = 0_u64;
        let mut values = vec![(arguments, 0)];
        while let Some((value, depth)) = values.pop() {
            let Some(&at_depth) = self.0.get(depth) else {
                continue;
            };
            evaluations = evaluations.saturating_add(at_depth);
            if evaluations > MAX_EVALUATIONS {
                return None;
            }
            for inner in within(value) {
                values.push((inner, depth + 1));
            }
        }
        Some(evaluations)
    }
}

fn sum(nodes: &[usize], evaluations: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for &node in nodes {
        sum = sum.saturating_add(evaluations[node]);
    }
    sum
}

/// The subschemas of a schema, each with the subschemas that it applies. The root comes first.
struct Graph<'a> {
    nodes: Vec<Node>,
    pointers: Vec<String>,
    numbers: HashMap<*const Value, usize>,
    /// Schemas with `$anchor`.
    anchors: HashMap<&'a str, &'a Value>,
}

#[derive(Default)]
struct Node {
    /// The subschemas that it applies to the same value.
    in_place: Vec<usize>,
    /// The subschemas that it applies to values one level deeper. All subschemas of a group can
    /// apply to one value.
    groups: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(root: &'a Value) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            pointers: Vec::new(),
            numbers: HashMap::new(),
            anchors: HashMap::new(),
        };
        graph.find_anchors(root);
        graph.node(root, root, String::new());
        graph
    }

    fn find_anchors(&mut self, value: &'a Value) {
        for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
            if let Some(Value::String(name)) = value.get(key) {
                self.anchors
                    .entry(name.trim_start_matches('#'))
                    .or_insert(value);
            }
        }
        for inner in within(value) {
            self.find_anchors(inner);
        }
    }

    /// Adds a subschema, with all that it applies, and returns its number. `resource` is the schema
    /// that `#` refers to.
    fn node(&mut self, schema: &'a Value, resource: &'a Value, pointer: String) -> usize {
        if let Some(&number) = self.numbers.get(&std::ptr::from_ref(schema)) {
            return number;
        }
        let number = self.nodes.len();
        self.numbers.insert(schema, number);
        self.nodes.push(Node::default());
        self.pointers.push(pointer.clone());
        if let Some(members) = schema.as_object() {
            let resource = if members.contains_key("$id") {
                schema
            } else {
                resource
            };
            let node = Node {
                in_place: self.in_place(members, resource, &pointer),
                groups: self.below(members, resource, &pointer),
            };
            self.nodes[number] = node;
        }
        number
    }

    fn in_place(
        &mut self,
        members: &'a Map<String, Value>,
        resource: &'a Value,
        pointer: &str,
    ) -> Vec<usize> {
        let mut in_place = Vec::new();
        for (key, member) in members {
            let pointer = format!("{pointer}/{key}");
            match (key.as_str(), member) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    if let Some(target) = self.target(reference, resource) {
                        in_place.push(self.node(target, resource, pointer));
                    }
                }
                ("dependencies", Value::Object(parts)) => {
                    for part in parts.values() {
                        in_place.push(self.node(part, resource, pointer.clone()));
                    }
                }
                (key, _) if applies_in_place(key) => {
                    for part in children(key, member) {
                        in_place.push(self.node(part, resource, pointer.clone()));
                    }
                }
                _ => {}
            }
        }
        in_place
    }

    fn below(
        &mut self,
        members: &'a Map<String, Value>,
        resource: &'a Value,
        pointer: &str,
    ) -> Vec<Vec<usize>> {
        let mut add_keywords = |keys: &[&str]| -> Vec<usize> {
            let mut nodes = Vec::new();
            for key in keys {
                if let Some(member) = members.get(*key) {
                    nodes.push(self.node(member, resource, format!("{pointer}/{key}")));
                }
            }
            nodes
        };
        let mut any_member = add_keywords(&[
            "additionalProperties",
            "unevaluatedProperties",
            "propertyNames",
        ]);
        let any_item = add_keywords(&["items", "additionalItems", "unevaluatedItems", "contains"]);
        if let Some(Value::Object(patterns)) = members.get("patternProperties") {
            for part in patterns.values() {
                let pointer = format!("{pointer}/patternProperties");
                any_member.push(self.node(part, resource, pointer));
            }
        }
        let mut groups = Vec::new();
        if let Some(Value::Object(properties)) = members.get("properties") {
            for part in properties.values() {
                let property = self.node(part, resource, format!("{pointer}/properties"));
                groups.push([&[property], &any_member[..]].concat());
            }
        }
        for key in ["prefixItems", "items"] {
            if let Some(Value::Array(parts)) = members.get(key) {
                for part in parts {
                    let item = self.node(part, resource, format!("{pointer}/{key}"));
                    groups.push([&[item], &any_item[..]].concat());
                }
            }
        }
        groups.extend([any_member, any_item]);
        groups
    }

    fn target(&self, reference: &str, resource: &'a Value) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return resource.pointer(&super::reference::decode_fragment(fragment));
        }
        self.anchors.get(fragment).copied()
    }

    /// Orders the subschemas so that each comes after all that it applies to its own value.
    ///
    /// If a subschema leads back to itself, returns the pointer to it as the error.
    fn in_place_order(&self) -> Result<Vec<usize>, String> {
        #[derive(Clone, Copy, PartialEq)]
        enum VisitState {
            New,
            Open,
            Done,
        }
        let mut states = vec![VisitState::New; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        for start in 0..self.nodes.len() {
            let mut path = vec![(start, 0)];
            while let Some((node, next)) = path.pop() {
                if states[node] == VisitState::Done {
                    continue;
                }
                states[node] = VisitState::Open;
                match self.nodes[node].in_place.get(next) {
                    Some(&part) if states[part] == VisitState::Open => {
                        return Err(self.pointers[node].clone());
                    }
                    Some(&part) => path.extend([(node, next + 1), (part, 0)]),
                    None => {
                        states[node] = VisitState::Done;
                        order.push(node);
                    }
                }
            }
        }
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn by_depth(schema: &Value, depth: usize) -> Vec<u64> {
        Cost::new(schema)
            .expect("the cost is bounded")
            .0
            .into_iter()
            .take(depth)
            .collect()
    }

    #[test]
    fn evaluations_are_counted_by_depth() {
        let plain =
            json!({"properties": {"a": {"type": "string"}, "b": {"items": {"type": "string"}}}});
        assert_eq!(by_depth(&plain, 9), [1, 1, 1, 0]);
        let two_ways =
            json!({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}});
        assert_eq!(by_depth(&two_ways, 9), [1, 3, 0]);
        let overlap = json!({
            "properties": {"a": {}},
            "patternProperties": {"^a": {}},
            "additionalProperties": {},
        });
        assert_eq!(by_depth(&overlap, 9), [1, 3, 0]);
        let list = json!({"properties": {"next": {"$ref": "#"}}});
        assert_eq!(
            by_depth(&list, 4),
            [1, 2, 2, 2],
            "the reference and its target"
        );
        let part = json!({"properties": {"a": {"$ref": "#"}}});
        assert_eq!(
            by_depth(&json!({"anyOf": [part.clone(), part]}), 4),
            [3, 8, 16, 32]
        );
    }

    #[test]
    fn endless_schema_is_refused_before_validation() {
        let part = json!({"properties": {"a": {"$ref": "#"}}});
        let cost = Cost::new(&json!({"anyOf": [part.clone(), part]})).expect("the cost is bounded");
        let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(
            cost.count_evaluations(&nested(5)).is_some()
                && cost.count_evaluations(&nested(60)).is_none()
        );
        let steps: Map<String, Value> = (0..40)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"allOf": [next.clone(), next]}))
            })
            .chain([("d40".to_owned(), json!({"required": ["zz"]}))])
            .collect();
        let fault =
            Cost::new(&json!({"$defs": steps, "$ref": "#/$defs/d0"})).expect_err("forty doublings");
        assert!(fault.message.contains("more than"), "{}", fault.message);
        for endless in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"not": {"$ref": "#"}}]}),
        ] {
            assert!(
                Cost::new(&endless)
                    .expect_err("validation never ends")
                    .message
                    .contains("back to itself")
            );
        }
    }
}
