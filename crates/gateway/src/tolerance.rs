//! Tolerance for the mistakes that models make with the front tools.

use picktools::names::name_forms;
use picktools_provider::{Arguments, ToolCall};
use serde_json::{Map, Value};

use crate::naming;
use crate::refusal::{Code, Refusal};

/// Other names of `name` that models use.
const NAMES: [&str; 6] = [
    "name",
    "tool",
    "tool_name",
    "toolName",
    "function_name",
    "id",
];
/// Other names of `arguments`.
const ARGUMENTS: [&str; 6] = [
    "arguments",
    "args",
    "params",
    "parameters",
    "input",
    "tool_input",
];
/// Members in which models wrap a call.
const WRAPPERS: [&str; 4] = ["function", "tool_call", "toolCall", "call"];
/// The most levels of wrapping.
const MAX_LEVELS: usize = 3;
/// The most tools that are described at once.
pub(crate) const MAX_DESCRIBED: usize = 5;

/// The arguments of a search.
#[derive(Debug, PartialEq)]
pub(crate) struct Search {
    pub(crate) query: String,
    pub(crate) limit: usize,
    pub(crate) server: Option<String>,
}

/// Creates a refusal for invalid arguments.
fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidArguments, message)
}

/// Parses the arguments of a search.
pub(crate) fn parse_search(
    arguments: &Map<String, Value>,
    max_limit: usize,
    default_limit: usize,
) -> Result<Search, Refusal> {
    let query = match arguments
        .get("query")
        .or_else(|| arguments.get("q"))
        .or_else(|| arguments.get("task"))
    {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(texts)) if texts.iter().all(Value::is_string) => texts
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join("; "),
        _ => String::new(),
    };
    if query.trim().is_empty() {
        return Err(invalid(
            "describe what you want to do, for example {\"query\": \"list open pull requests\"}",
        ));
    }
    let limit = match arguments.get("limit") {
        None | Some(Value::Null) => default_limit,
        Some(value) => {
            let number = finite_number(value)
                .ok_or_else(|| invalid("limit must be a number, for example {\"limit\": 8}"))?;
            // The limit is clamped to 1 and `max_limit`.
            (1..=max_limit)
                .rev()
                .find(|&limit| number >= limit as f64)
                .unwrap_or(1)
        }
    };
    let server = match arguments.get("server") {
        Some(Value::String(name)) if !name.trim().is_empty() => Some(name.clone()),
        _ => None,
    };
    Ok(Search {
        query,
        limit,
        server,
    })
}

/// Returns the finite number in a value, which may be text.
fn finite_number(value: &Value) -> Option<f64> {
    let number: f64 = match value {
        Value::String(text) => text.trim().parse().ok()?,
        other => other.as_f64()?,
    };
    number.is_finite().then_some(number)
}

/// Returns the value under the first of the keys that an object has.
fn first_value<'a>(object: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().find_map(|key| object.get(*key))
}

/// Parses the names of the tools to describe.
pub(crate) fn parse_names(arguments: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let value =
        first_value(arguments, &NAMES).or_else(|| first_value(arguments, &["names", "tools"]));
    let mut names: Vec<String> = Vec::new();
    match value {
        Some(Value::String(text)) => {
            for name in text.split(',') {
                names.push(name.trim().to_owned());
            }
        }
        Some(Value::Array(items)) => {
            for item in items {
                if let Value::String(name) = item {
                    names.push(name.clone());
                }
            }
        }
        _ => {}
    }
    names.retain(|name| !name.is_empty());
    match names.len() {
        0 => Err(invalid(
            "name the tool, for example {\"name\": \"git__git_log\"}",
        )),
        1..=MAX_DESCRIBED => Ok(names),
        count => Err(invalid(format!(
            "{count} tools are too many at once; name at most {MAX_DESCRIBED}"
        ))),
    }
}

/// Parses the tool to call and its arguments. `has_both` returns `true` if a tool itself takes a
/// name and arguments.
pub(crate) fn parse_call(
    arguments: &Map<String, Value>,
    front: &str,
    has_both: &dyn Fn(&str) -> bool,
) -> Result<ToolCall, Refusal> {
    let mut object = arguments;
    for _ in 0..MAX_LEVELS {
        let Some(inner) = unwrap_call(object, front, has_both) else {
            break;
        };
        object = inner;
    }
    let name = match unique_value(object, &NAMES)? {
        Some(Value::String(name)) if !name.trim().is_empty() => name.clone(),
        _ => {
            return Err(invalid(
                "name the tool and give its arguments, for example {\"name\": \"git__git_log\", \
                 \"arguments\": {\"repo_path\": \"/work\"}}",
            ));
        }
    };
    let call_arguments = match unique_value(object, &ARGUMENTS)? {
        Some(Value::String(text)) => Arguments::Text(text.clone()),
        Some(Value::Null) | None => {
            // Other members beside the name can only be the arguments.
            let mut others = Map::new();
            for (key, value) in object {
                if !NAMES.contains(&key.as_str()) && !ARGUMENTS.contains(&key.as_str()) {
                    others.insert(key.clone(), value.clone());
                }
            }
            Arguments::Json(Value::Object(others))
        }
        Some(other) => Arguments::Json(other.clone()),
    };
    Ok(ToolCall {
        id: None,
        name,
        arguments: call_arguments,
    })
}

/// Returns the call that a model wrapped in another object.
fn unwrap_call<'a>(
    object: &'a Map<String, Value>,
    front: &str,
    has_both: &dyn Fn(&str) -> bool,
) -> Option<&'a Map<String, Value>> {
    if let Some(Value::Object(inner)) = object.get("name") {
        return Some(inner);
    }
    let name = first_value(object, &NAMES).and_then(Value::as_str);
    if name.is_none()
        && let Some(Value::Object(inner)) = first_value(object, &WRAPPERS)
    {
        return Some(inner);
    }
    let Some(Value::Object(inner)) = first_value(object, &ARGUMENTS) else {
        return None;
    };
    let inner_name = first_value(inner, &NAMES[..4]).and_then(Value::as_str);
    let holds_call = inner_name.is_some() && ARGUMENTS.iter().any(|key| inner.contains_key(*key));
    let is_wrapped = match name {
        None => inner_name.is_some(),
        Some(name) if name == front => holds_call,
        Some(name) => holds_call && inner_name == Some(name) && !has_both(name),
    };
    is_wrapped.then_some(inner)
}

/// Returns the value under one of the keys. Two different values are ambiguous.
fn unique_value<'a>(
    object: &'a Map<String, Value>,
    keys: &[&str],
) -> Result<Option<&'a Value>, Refusal> {
    let mut values = keys
        .iter()
        .filter_map(|key| Some((*key, object.get(*key)?)));
    let Some((first, value)) = values.next() else {
        return Ok(None);
    };
    match values.find(|(_, other)| *other != value) {
        // `id` and `input` are also names of parameters.
        Some((other, _)) if first == keys[0] && ["id", "input"].contains(&other) => Ok(Some(value)),
        Some((other, _)) => Err(invalid(format!(
            "{first:?} and {other:?} differ; give {:?} alone",
            keys[0]
        ))),
        None => Ok(Some(value)),
    }
}

/// Returns the gateway's own tool that a name means, without the affixes that clients and models
/// add; otherwise the name.
pub(crate) fn front_name(name: &str) -> &str {
    let mut own_names = name_forms(name)
        .into_iter()
        .flat_map(|form| [form, without_client_prefix(form)]);
    let own_name = own_names.find(|form| naming::is_own_name(form));
    own_name.unwrap_or(name.trim())
}

/// Removes the prefix that clients add to the names of a server's tools, such as `mcp__picktools__`.
pub(crate) fn without_client_prefix(name: &str) -> &str {
    let name = name.trim();
    let Some(rest) = name.strip_prefix("mcp__") else {
        return name;
    };
    match rest.split_once("__") {
        Some((_, tool_name)) if !tool_name.is_empty() => tool_name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: Value) -> Result<(String, Value), String> {
        let Value::Object(arguments) = arguments else {
            panic!("an object")
        };
        let has_both = |name: &str| name == "queue__submit";
        let call =
            parse_call(&arguments, "call_tool", &has_both).map_err(|refusal| refusal.message)?;
        Ok((
            call.name,
            match call.arguments {
                Arguments::Json(value) => value,
                Arguments::Text(text) => json!(text),
            },
        ))
    }

    #[test]
    fn common_call_mistakes_are_understood() {
        let log = ("git__git_log".to_owned(), json!({"repo_path": "/w"}));
        for input in [
            json!({"name": "git__git_log", "arguments": {"repo_path": "/w"}}),
            json!({"tool": "git__git_log", "args": {"repo_path": "/w"}}),
            json!({"tool_name": "git__git_log", "params": {"repo_path": "/w"}}),
            json!({"toolName": "git__git_log", "parameters": {"repo_path": "/w"}}),
            json!({"name": "git__git_log", "repo_path": "/w"}),
            json!({"name": "git__git_log", "arguments": null, "repo_path": "/w"}),
            json!({"name": {"name": "git__git_log", "arguments": {"repo_path": "/w"}}}),
            json!({"function": {"name": "git__git_log", "arguments": {"repo_path": "/w"}}}),
            json!({"tool_call": {"function": {"name": "git__git_log", "arguments": {"repo_path": "/w"}}}}),
            json!({"arguments": {"name": "git__git_log", "arguments": {"repo_path": "/w"}}}),
            json!({"name": "call_tool", "arguments": {"name": "git__git_log", "arguments": {"repo_path": "/w"}}}),
            json!({"name": "git__git_log", "arguments": {"name": "git__git_log", "arguments": {"repo_path": "/w"}}}),
            json!({"name": "git__git_log", "tool": "git__git_log", "arguments": {"repo_path": "/w"}}),
        ] {
            assert_eq!(call(input.clone()), Ok(log.clone()), "{input}");
        }
        let text = call(json!({"name": "git__git_log", "arguments": "{\"repo_path\": \"/w\"}"}));
        assert_eq!(
            text,
            Ok(("git__git_log".to_owned(), json!("{\"repo_path\": \"/w\"}")))
        );
    }

    #[test]
    fn tool_with_name_and_arguments_parameters_keeps_them() {
        let inner = json!({"name": "queue__submit", "arguments": {"x": 1}});
        let input = json!({"name": "queue__submit", "arguments": inner});
        assert_eq!(call(input), Ok(("queue__submit".to_owned(), inner)));
    }

    #[test]
    fn ambiguous_or_empty_call_is_refused_with_example() {
        for input in [
            json!({}),
            json!({"name": ""}),
            json!({"name": 3}),
            json!({"arguments": {"repo_path": "/w"}}),
            json!({"name": "a", "tool": "b"}),
            json!({"name": "a", "arguments": {"x": 1}, "args": {"x": 2}}),
            json!({"function": {"function": {"function": {"function": {"name": "a"}}}}}),
        ] {
            assert!(
                call(input.clone())
                    .is_err_and(|message| message.contains("name") || message.contains("alone")),
                "{input}"
            );
        }
    }

    #[test]
    fn search_accepts_other_types() {
        let parse = |value: Value| {
            let Value::Object(arguments) = value else {
                panic!("an object")
            };
            parse_search(&arguments, 50, 8)
        };
        for (limit, expected) in [
            (json!("8"), 8),
            (json!(8.0), 8),
            (json!(0), 1),
            (json!(-3), 1),
            (json!(500), 50),
            (json!(null), 8),
            (json!(1e300), 50),
        ] {
            assert_eq!(
                parse(json!({"query": "x", "limit": limit})).map(|search| search.limit),
                Ok(expected),
                "{limit}"
            );
        }
        let joined = parse(json!({"query": ["read a file", "send it"], "server": " "}));
        assert_eq!(
            joined,
            Ok(Search {
                query: "read a file; send it".to_owned(),
                limit: 8,
                server: None
            })
        );
        for bad in [
            json!({}),
            json!({"query": " "}),
            json!({"query": 3}),
            json!({"query": "x", "limit": "many"}),
        ] {
            assert!(parse(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn several_names_are_parsed() {
        let parse = |value: Value| {
            let Value::Object(arguments) = value else {
                panic!("an object")
            };
            parse_names(&arguments).map_err(|refusal| refusal.message)
        };
        assert_eq!(parse(json!({"name": "a"})), Ok(vec!["a".to_owned()]));
        assert_eq!(
            parse(json!({"name": "a, b"})),
            parse(json!({"names": ["a", "b"]}))
        );
        assert!(parse(json!({})).is_err() && parse(json!({"name": "a,b,c,d,e,f"})).is_err());
    }

    #[test]
    fn client_prefixes_are_removed() {
        assert_eq!(
            without_client_prefix("mcp__picktools__git__git_log"),
            "git__git_log"
        );
        assert_eq!(without_client_prefix("mcp__x"), "mcp__x");
        for own_name in [
            "mcp__picktools__call_tool",
            "functions.call_tool:0",
            " call_tool ",
        ] {
            assert_eq!(front_name(own_name), "call_tool");
        }
        assert_eq!(front_name(" git__git_log "), "git__git_log");
        assert_eq!(front_name("mcp__x__git_log"), "mcp__x__git_log");
    }
}
