//! The outer forms in which models put the arguments of a call.

use serde_json::{Map, Value};

use super::argument_schema::ArgumentSchema;
use super::properties::{Properties, spelling};
use crate::{Repair, arguments};

/// The members in which models put the arguments of a call, besides the tool's name.
const WRAPPERS: [&str; 10] = [
    "arguments",
    "args",
    "input",
    "parameters",
    "params",
    "kwargs",
    "tool_input",
    "toolInput",
    "tool_args",
    "function",
];
/// The members beside such a wrapper that name the tool or the call.
const LABELS: [&str; 7] = [
    "name",
    "tool",
    "tool_name",
    "toolName",
    "function",
    "type",
    "id",
];
/// The labels that are not the name of the tool.
const OTHER_LABELS: [&str; 2] = ["type", "id"];

/// Removes one outer form: JSON text, a list of one, or a member in which the arguments are.
pub(super) fn unwrap(schema: &ArgumentSchema<'_>, outer: &Value) -> Option<(Value, Repair)> {
    match outer {
        Value::String(text) => {
            let inner = match text.trim() {
                "" => Value::Null,
                text => arguments::parse(text).ok()?,
            };
            let pointer = String::new();
            Some((inner, Repair::Decoded { pointer }))
        }
        Value::Array(items) => {
            let [only] = &items[..] else { return None };
            let pointer = "/0".to_owned();
            Some((only.clone(), Repair::Unwrapped { pointer }))
        }
        Value::Object(members) => {
            let wrapper = wrapper(schema, members)?;
            let pointer = format!("/{}", picktools::schema::pointer_part(wrapper));
            Some((members[wrapper].clone(), Repair::Unwrapped { pointer }))
        }
        _ => None,
    }
}

/// Returns the only member that can be a wrapper, if all others name the tool or the call.
fn wrapper<'m>(schema: &ArgumentSchema<'_>, members: &'m Map<String, Value>) -> Option<&'m str> {
    let listed = Properties::at(schema.schema, "");
    let tool = spelling(schema.tool);
    // The name may have its server in front.
    let names_tool = |text: &str| !tool.is_empty() && spelling(text).ends_with(&tool);
    let is_wrapper = |name: &str| WRAPPERS.contains(&name) || names_tool(name);
    let mut wrapper = None;
    for (name, value) in members {
        if listed.lists(name) {
            return None;
        }
        let is_label = LABELS.contains(&name.as_str())
            && value
                .as_str()
                .is_some_and(|text| OTHER_LABELS.contains(&name.as_str()) || names_tool(text));
        if is_label {
            continue;
        }
        let is_structure = matches!(value, Value::Object(_) | Value::Array(_) | Value::String(_));
        if !is_wrapper(name) || !is_structure || wrapper.is_some() {
            return None;
        }
        wrapper = Some(name.as_str());
    }
    wrapper
}
