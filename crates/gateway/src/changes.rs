//! Differences between two definitions, member by member.

use std::collections::{BTreeMap, BTreeSet};

use picktools::schema::pointer_part;
use serde_json::Value;

/// Returns the differences between two definitions: the value before and the value now, by JSON
/// pointer.
///
/// ```
/// use picktools_gateway::changes;
/// use serde_json::json;
///
/// let previous = json!({"name": "a", "description": "Reads"});
/// let current = json!({"name": "a", "description": "Sends"});
/// let changes = changes(Some(&previous), &current);
/// assert_eq!(changes["/description"], (Some(json!("Reads")), Some(json!("Sends"))));
/// assert_eq!(changes.len(), 1);
/// ```
pub fn changes(
    previous: Option<&Value>,
    current: &Value,
) -> BTreeMap<String, (Option<Value>, Option<Value>)> {
    fn leaves(value: &Value, pointer: &str, by_pointer: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (key, member) in members {
                    leaves(
                        member,
                        &format!("{pointer}/{}", pointer_part(key)),
                        by_pointer,
                    );
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    leaves(item, &format!("{pointer}/{index}"), by_pointer);
                }
            }
            leaf => drop(by_pointer.insert(pointer.to_owned(), leaf.clone())),
        }
    }
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    if let Some(previous) = previous {
        leaves(previous, "", &mut old);
    }
    leaves(current, "", &mut new);
    let pointers: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut changes = BTreeMap::new();
    for pointer in pointers {
        let (old_value, new_value) = (old.get(pointer), new.get(pointer));
        if old_value != new_value {
            changes.insert(pointer.clone(), (old_value.cloned(), new_value.cloned()));
        }
    }
    changes
}
