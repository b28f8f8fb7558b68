//! Merging of schemas: conjunctions (`allOf`) and alternatives (`anyOf`, `oneOf`).

use serde_json::{Map, Value, json};

use super::{ChangeCode, ViewBuilder, properties, required};

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
