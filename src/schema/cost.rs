//! How much work a schema can make of given arguments.
//!
//! A schema may apply many subschemas to one value, and through references they multiply with each
//! level: two ways to read each of sixty levels are 2^60 evaluations. What it comes to is bounded
//! here before a validator sees a value: for each depth, the most evaluations that one value at
//! that depth can meet.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaFault;
use super::keywords::{applies_in_place, children, within};

/// The deepest that arguments can be nested; JSON text that goes deeper is not read.
const MAX_DEPTH: usize = 128;
/// The most evaluations of subschemas that one validation may take: some seconds.
const MAX_EVALUATIONS: u64 = 20_000_000;

/// The most evaluations that one value meets, by its depth in the arguments. Values below the last
/// entry meet none.
#[derive(Debug)]
pub(crate) struct Cost(
    #[cfg_attr(
        not(feature = "json-schema"),
        expect(dead_code, reason = "only a validator reads it")
    )]
    Vec<u64>,
);

impl Cost {
    /// Counts for a schema that is within the limits of depth and size.
    pub(super) fn new(schema: &Value) -> Result<Self, SchemaFault> {
        let graph = Graph::new(schema);
        let order = graph.in_place_order().map_err(|pointer| SchemaFault {
            pointer,
            message: "the reference leads back to itself".to_owned(),
            remedy: "refer to another schema, or put the reference below a property or an item",
        })?;
        let mut by_depth = Vec::new();
        let mut below = vec![0_u64; graph.nodes.len()];
        for depth in 0..=MAX_DEPTH {
            let mut here = vec![0_u64; graph.nodes.len()];
            for &node in &order {
                let Node { in_place, groups } = &graph.nodes[node];
                let own = if depth == 0 {
                    1
                } else {
                    groups
                        .iter()
                        .map(|group| sum(group, &below))
                        .max()
                        .unwrap_or(0)
                };
                here[node] = own.saturating_add(sum(in_place, &here));
            }
            by_depth.push(here[0]);
            if here.iter().all(|&evaluations| evaluations == 0) {
                break;
            }
            below = here;
        }
        if by_depth[0] > MAX_EVALUATIONS {
            return Err(SchemaFault {
                pointer: String::new(),
                message: format!("one value can meet more than {MAX_EVALUATIONS} subschemas"),
                remedy: "combine fewer of anyOf, allOf, oneOf and references",
            });
        }
        Ok(Self(by_depth))
    }

    /// The most evaluations that `arguments` can take, or `None` where they are too many to try.
    #[cfg(feature = "json-schema")]
    pub(crate) fn of(&self, arguments: &Value) -> Option<u64> {
        let mut evaluations = 0_u64;
        let mut values = vec![(arguments, 0)];
        while let Some((value, depth)) = values.pop() {
            let Some(&here) = self.0.get(depth) else {
                continue;
            };
            evaluations = evaluations.saturating_add(here);
            if evaluations > MAX_EVALUATIONS {
                return None;
            }
            values.extend(within(value).map(|inner| (inner, depth + 1)));
        }
        Some(evaluations)
    }
}

fn sum(nodes: &[usize], evaluations: &[u64]) -> u64 {
    nodes
        .iter()
        .fold(0, |sum, &node| sum.saturating_add(evaluations[node]))
}

/// The subschemas of a schema, and which applies which; the root is the first.
struct Graph<'a> {
    nodes: Vec<Node>,
    pointers: Vec<String>,
    numbers: HashMap<*const Value, usize>,
    /// Schemas with `$anchor`.
    anchors: HashMap<&'a str, &'a Value>,
}

#[derive(Default)]
struct Node {
    /// What it applies to the same value.
    in_place: Vec<usize>,
    /// What it applies to the values one level below: each group may meet one and the same of them.
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
        within(value).for_each(|inner| self.find_anchors(inner));
    }

    /// The number of a subschema, with all that it applies. `resource` is what `#` means there.
    fn node(&mut self, schema: &'a Value, resource: &'a Value, pointer: String) -> usize {
        if let Some(&known) = self.numbers.get(&std::ptr::from_ref(schema)) {
            return known;
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
                    let target = self.target(reference, resource);
                    in_place.extend(target.map(|target| self.node(target, resource, pointer)));
                }
                ("dependencies", Value::Object(parts)) => {
                    in_place.extend(
                        parts
                            .values()
                            .map(|part| self.node(part, resource, pointer.clone())),
                    );
                }
                (key, _) if applies_in_place(key) => {
                    let parts = children(key, member).into_iter();
                    in_place.extend(parts.map(|part| self.node(part, resource, pointer.clone())));
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
        let mut every = |keys: &[&str]| -> Vec<usize> {
            let found = keys
                .iter()
                .filter_map(|key| Some((key, members.get(*key)?)));
            found
                .map(|(key, member)| self.node(member, resource, format!("{pointer}/{key}")))
                .collect()
        };
        let mut any_member = every(&[
            "additionalProperties",
            "unevaluatedProperties",
            "propertyNames",
        ]);
        let any_item = every(&["items", "additionalItems", "unevaluatedItems", "contains"]);
        if let Some(Value::Object(patterns)) = members.get("patternProperties") {
            any_member.extend(
                patterns
                    .values()
                    .map(|part| self.node(part, resource, format!("{pointer}/patternProperties"))),
            );
        }
        let mut groups = Vec::new();
        let with = |one: usize, all: &[usize]| {
            std::iter::once(one)
                .chain(all.iter().copied())
                .collect::<Vec<_>>()
        };
        if let Some(Value::Object(properties)) = members.get("properties") {
            for part in properties.values() {
                groups.push(with(
                    self.node(part, resource, format!("{pointer}/properties")),
                    &any_member,
                ));
            }
        }
        for key in ["prefixItems", "items"] {
            for part in members
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                groups.push(with(
                    self.node(part, resource, format!("{pointer}/{key}")),
                    &any_item,
                ));
            }
        }
        groups.extend([any_member, any_item]);
        groups
    }

    fn target(&self, reference: &str, resource: &'a Value) -> Option<&'a Value> {
        let fragment = reference.strip_prefix('#')?;
        if fragment.is_empty() || fragment.starts_with('/') {
            return resource.pointer(&super::reference::decoded(fragment));
        }
        self.anchors.get(fragment).copied()
    }

    /// The subschemas in an order in which each comes after all that it applies to its own value;
    /// else where one of them leads back to itself.
    fn in_place_order(&self) -> Result<Vec<usize>, String> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        for start in 0..self.nodes.len() {
            let mut path = vec![(start, 0)];
            while let Some((node, next)) = path.pop() {
                if states[node] == State::Done {
                    continue;
                }
                states[node] = State::Open;
                match self.nodes[node].in_place.get(next) {
                    Some(&part) if states[part] == State::Open => {
                        return Err(self.pointers[node].clone());
                    }
                    Some(&part) => path.extend([(node, next + 1), (part, 0)]),
                    None => {
                        states[node] = State::Done;
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
            .expect("it is bounded")
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
        let overlap = json!({"properties": {"a": {}}, "patternProperties": {"^a": {}}, "additionalProperties": {}});
        assert_eq!(by_depth(&overlap, 9), [1, 3, 0]);
        let list = json!({"properties": {"next": {"$ref": "#"}}});
        assert_eq!(
            by_depth(&list, 4),
            [1, 2, 2, 2],
            "the reference and what it refers to"
        );
        let part = json!({"properties": {"a": {"$ref": "#"}}});
        assert_eq!(
            by_depth(&json!({"anyOf": [part.clone(), part]}), 4),
            [3, 8, 16, 32]
        );
    }

    #[test]
    fn what_grows_without_end_is_told_before_it_is_tried() {
        let part = json!({"properties": {"a": {"$ref": "#"}}});
        let cost = Cost::new(&json!({"anyOf": [part.clone(), part]})).expect("it is bounded");
        let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(cost.of(&nested(5)).is_some() && cost.of(&nested(60)).is_none());
        let steps: Map<String, Value> = (0..40)
            .map(|n| (format!("d{n}"), json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}, {"$ref": format!("#/$defs/d{}", n + 1)}]})))
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
                    .expect_err("it never ends")
                    .message
                    .contains("back to itself")
            );
        }
    }
}
