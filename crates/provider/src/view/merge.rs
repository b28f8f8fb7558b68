//! Merging of schemas: conjunctions (`allOf`) and alternatives (`anyOf`, `oneOf`).

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::builder::{ExpandedNode, MAX_CONSTRAINT_BYTES, ViewBuilder};
use super::node::{includes, properties, required};
use crate::changes::ChangeCode;
use picktools::schema::{MAX_SCHEMA_DEPTH, resolve};

impl ViewBuilder<'_> {
    /// Resolves the references of a node and merges its `allOf`.
    ///
    /// Followed references stay recorded until the walk leaves the position (`below`).
    pub(super) fn expand<'n>(&mut self, node: &'n Map<String, Value>) -> ExpandedNode<'n> {
        if !node.contains_key("$ref") && !node.contains_key("allOf") {
            return ExpandedNode {
                node: Cow::Borrowed(node),
                cut: false,
            };
        }
        let mut merged = node.clone();
        let reference = merged.shift_remove("$ref");
        let all_of = merged.shift_remove("allOf");
        let mut cut = false;
        if let Some(Value::String(reference)) = reference {
            match self.follow(&reference) {
                Some(Value::Object(target)) => {
                    let target = self.expand(target);
                    cut |= target.cut;
                    into(self, &mut merged, &target.node);
                }
                Some(_) => {}
                None => {
                    cut = true;
                    // The type of the target is known even if the reference is not followed.
                    if let Some(kind) =
                        resolve(self.root, &reference).and_then(|target| target.get("type"))
                    {
                        merged.entry("type").or_insert_with(|| kind.clone());
                    }
                }
            }
        }
        if let Some(Value::Array(parts)) = all_of {
            for part in &parts {
                if self.budget == 0 || self.following.len() > MAX_SCHEMA_DEPTH {
                    cut = true;
                    break;
                }
                self.budget -= 1;
                if let Value::Object(part) = part {
                    let part = self.expand(part);
                    cut |= part.cut;
                    into(self, &mut merged, &part.node);
                }
            }
        }
        ExpandedNode {
            node: Cow::Owned(merged),
            cut,
        }
    }

    /// Merges the alternatives at the root into one object, because providers accept nothing else
    /// there.
    ///
    /// All properties of all alternatives are allowed, and the names that all alternatives require
    /// are required. A note describes which arguments belong together.
    pub(super) fn merge_root(&mut self, mut node: Map<String, Value>) -> Map<String, Value> {
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(alternatives)) = node.shift_remove(keyword) else {
                continue;
            };
            let mut branches: Vec<Map<String, Value>> = Vec::new();
            for (index, alternative) in alternatives.iter().enumerate() {
                let Value::Object(alternative) = alternative else {
                    continue;
                };
                let expanded = self.below(&[keyword, &index.to_string()], |view| {
                    view.expand(alternative).node.into_owned()
                });
                let kind = expanded.get("type");
                if kind.is_none_or(|kind| includes(kind, "object")) {
                    branches.push(expanded);
                }
            }
            let sets: Vec<String> = branches
                .iter()
                .map(|branch| required(branch).join(" and "))
                .collect();
            let combinations = sets
                .iter()
                .filter(|set| !set.is_empty())
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("; or ");
            if !combinations.is_empty() && combinations.len() <= 2 * MAX_CONSTRAINT_BYTES {
                self.notes
                    .push(format!("Arguments that go together: {combinations}."));
            }
            let detail =
                "the provider does not support alternatives here; they are merged into one object";
            self.below(&[keyword], |view| {
                view.change(ChangeCode::AlternativesMerged, detail);
            });
            self::alternatives(&mut node, &branches);
        }
        for keyword in ["not", "if", "then", "else", "enum", "const"] {
            if node.shift_remove(keyword).is_some() {
                self.dropped(keyword);
            }
        }
        node.shift_remove("nullable");
        node.insert("type".to_owned(), json!("object"));
        node
    }
}

/// Merges `other` into `node`, so that both apply.
pub(super) fn into(
    view: &mut ViewBuilder<'_>,
    node: &mut Map<String, Value>,
    other: &Map<String, Value>,
) {
    for (keyword, theirs) in other {
        let Some(ours) = node.get_mut(keyword) else {
            node.insert(keyword.clone(), theirs.clone());
            continue;
        };
        if ours == theirs {
            continue;
        }
        match keyword.as_str() {
            "properties" | "patternProperties" => merge_properties(ours, theirs),
            "required" => {
                if let (Value::Array(ours), Value::Array(theirs)) = (ours, theirs) {
                    let own_count = ours.len();
                    for name in theirs {
                        if !ours[..own_count].contains(name) {
                            ours.push(name.clone());
                        }
                    }
                }
            }
            "type" => *ours = intersect_types(ours, theirs),
            "enum" => {
                if let (Value::Array(ours), Value::Array(theirs)) = (ours, theirs) {
                    ours.retain(|value| theirs.contains(value));
                }
            }
            "items" | "additionalProperties" if ours.is_object() && theirs.is_object() => {
                *ours = json!({"allOf": [ours.take(), theirs]});
            }
            "items" | "additionalProperties" => {
                if *theirs == Value::Bool(false) || *ours == Value::Bool(true) {
                    *ours = theirs.clone();
                }
            }
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                if theirs.as_f64() > ours.as_f64() {
                    *ours = theirs.clone();
                }
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                if theirs.as_f64() < ours.as_f64() {
                    *ours = theirs.clone();
                }
            }
            "title" | "description" | "default" | "examples" | "deprecated" | "$defs"
            | "definitions" => {}
            _ => {
                let detail = format!("two values of {keyword:?} apply; only the first is shown");
                view.change(ChangeCode::KeywordDropped, detail);
            }
        }
    }
}

/// Adds the properties of one object to another; a shared property must match both schemas.
fn merge_properties(ours: &mut Value, theirs: &Value) {
    let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) else {
        return;
    };
    for (key, theirs) in theirs {
        match ours.get_mut(key) {
            Some(ours) if ours != theirs => *ours = json!({"allOf": [ours.take(), theirs]}),
            Some(_) => {}
            None => {
                ours.insert(key.clone(), theirs.clone());
            }
        }
    }
}

fn intersect_types(ours: &Value, theirs: &Value) -> Value {
    let list = |types: &Value| match types {
        Value::Array(types) => types.clone(),
        single => vec![single.clone()],
    };
    let theirs = list(theirs);
    let has = |types: &[Value], kind: &str| types.iter().any(|other| other == kind);
    let common = list(ours)
        .into_iter()
        .filter_map(|kind| match kind.as_str() {
            _ if theirs.contains(&kind) => Some(kind),
            Some("integer") if has(&theirs, "number") => Some(kind),
            Some("number") if has(&theirs, "integer") => Some(json!("integer")),
            _ => None,
        });
    match &mut common.collect::<Vec<_>>()[..] {
        // No type satisfies both, so that either may be shown.
        [] => ours.clone(),
        [one] => one.take(),
        several => Value::Array(several.to_vec()),
    }
}

/// Merges alternatives into an object: all their properties, and the names that all of them
/// require.
pub(super) fn alternatives(node: &mut Map<String, Value>, branches: &[Map<String, Value>]) {
    let mut all = properties(node).cloned().unwrap_or_default();
    let own_keys: Vec<String> = all.keys().cloned().collect();
    for branch in branches {
        for (key, theirs) in properties(branch).into_iter().flatten() {
            // The object's own schema of a property applies to every alternative.
            if own_keys.contains(key) {
                continue;
            }
            match all.get_mut(key) {
                None => {
                    all.insert(key.clone(), theirs.clone());
                }
                Some(ours) if ours == theirs => {}
                Some(Value::Object(ours)) if ours.len() == 1 && ours.contains_key("anyOf") => {
                    if let Some(Value::Array(alternatives)) = ours.get_mut("anyOf")
                        && !alternatives.contains(theirs)
                    {
                        alternatives.push(theirs.clone());
                    }
                }
                Some(ours) => *ours = json!({"anyOf": [ours.take(), theirs]}),
            }
        }
    }
    let mut names: Vec<String> = required(node).into_iter().map(str::to_owned).collect();
    if let [first, others @ ..] = branches {
        for name in required(first) {
            if others.iter().all(|other| required(other).contains(&name))
                && !names.iter().any(|known| known == name)
            {
                names.push(name.to_owned());
            }
        }
    }
    node.insert("properties".to_owned(), Value::Object(all));
    if !names.is_empty() {
        node.insert("required".to_owned(), json!(names));
    }
}
