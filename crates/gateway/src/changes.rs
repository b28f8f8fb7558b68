//! What became of a definition since it was approved, member by member.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Returns what two definitions do not have in common: the value before and the value now, by JSON
/// pointer.
///
/// ```
/// use picktools_gateway::changes;
/// use serde_json::json;
///
/// let (before, now) = (json!({"name": "a", "description": "Reads"}), json!({"name": "a", "description": "Sends"}));
/// let changes = changes(Some(&before), &now);
/// assert_eq!(changes["/description"], (Some(json!("Reads")), Some(json!("Sends"))));
/// assert_eq!(changes.len(), 1);
/// ```
pub fn changes(
    before: Option<&Value>,
    now: &Value,
) -> BTreeMap<String, (Option<Value>, Option<Value>)> {
    fn leaves(value: &Value, pointer: &str, found: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (key, member) in members {
                    leaves(
                        member,
                        &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")),
                        found,
                    );
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    leaves(item, &format!("{pointer}/{index}"), found);
                }
            }
            leaf => drop(found.insert(pointer.to_owned(), leaf.clone())),
        }
    }
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    if let Some(before) = before {
        leaves(before, "", &mut old);
    }
    leaves(now, "", &mut new);
    let pointers: BTreeSet<String> = old.keys().chain(new.keys()).cloned().collect();
    let differs = |pointer: &String| old.get(pointer) != new.get(pointer);
    let pair = |pointer: String| {
        let values = (old.get(&pointer).cloned(), new.get(&pointer).cloned());
        (pointer, values)
    };
    pointers.into_iter().filter(differs).map(pair).collect()
}
