//! What did the model mean? The mistakes that models make with the front tools, and which call each
//! stands for.

use picktools_provider::{Arguments, ToolCall};
use serde_json::{Map, Value};

use crate::refusal::{Code, Refusal};

/// Other names of `name`, as models have them.
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
/// What a call may be wrapped in.
const WRAPPERS: [&str; 4] = ["function", "tool_call", "toolCall", "call"];
/// How deep it may be wrapped.
const MAX_LEVELS: usize = 3;
/// The most tools that are described at once.
pub(crate) const MAX_DESCRIBED: usize = 5;

/// What a search asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct Search {
    pub(crate) query: String,
    pub(crate) limit: usize,
    pub(crate) server: Option<String>,
}

/// What a front tool is called by, in errors.
fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::InvalidArguments, message)
}

/// Reads the arguments of a search.
pub(crate) fn search(
    arguments: &Map<String, Value>,
    most: usize,
    usual: usize,
) -> Result<Search, Refusal> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
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
        return Err(wrong(
            "say what you want to do, for example {\"query\": \"list open pull requests\"}",
        ));
    }
    let limit = match arguments.get("limit") {
        None | Some(Value::Null) => usual,
        Some(value) => {
            let number = value
                .as_f64()
                .or_else(|| value.as_str()?.trim().parse().ok());
            let number = number.filter(|number: &f64| number.is_finite());
            let number = number
                .ok_or_else(|| wrong("limit must be a number, for example {\"limit\": 8}"))?;
            // Within 1 and `most`, whatever was asked.
            (1..=most)
                .rev()
                .find(|&limit| number >= limit as f64)
                .unwrap_or(1)
        }
    };
    Ok(Search {
        query,
        limit,
        server: arguments
            .get("server")
            .and_then(text)
            .filter(|name| !name.trim().is_empty()),
    })
}

/// Reads which tools are to be described.
pub(crate) fn described(arguments: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let named = NAMES
        .iter()
        .chain(&["names", "tools"])
        .find_map(|key| arguments.get(*key));
    let names: Vec<String> = match named {
        Some(Value::String(text)) => text.split(',').map(|name| name.trim().to_owned()).collect(),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    };
    let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    match names.len() {
        0 => Err(wrong(
            "name the tool, for example {\"name\": \"git__git_log\"}",
        )),
        1..=MAX_DESCRIBED => Ok(names),
        many => Err(wrong(format!(
            "{many} tools at once are too many; name at most {MAX_DESCRIBED}"
        ))),
    }
}

/// Reads which tool is to be called, and with what. `has_both` tells whether a tool itself takes
/// both a name and arguments.
pub(crate) fn called(
    arguments: &Map<String, Value>,
    front: &str,
    has_both: &dyn Fn(&str) -> bool,
) -> Result<ToolCall, Refusal> {
    let mut at = arguments.clone();
    for _ in 0..MAX_LEVELS {
        if let Some(inner) = wrapped(&at, front, has_both) {
            at = inner;
        } else {
            break;
        }
    }
    let name = one_of(&at, &NAMES)?
        .and_then(Value::as_str)
        .map(str::to_owned);
    let name = name.filter(|name| !name.trim().is_empty()).ok_or_else(|| {
        wrong("name the tool and give its arguments, for example {\"name\": \"git__git_log\", \"arguments\": {\"repo_path\": \"/work\"}}")
    })?;
    let given = match one_of(&at, &ARGUMENTS)? {
        Some(Value::String(text)) => Arguments::Text(text.clone()),
        Some(Value::Null) | None => {
            // What stands beside the name can only be the arguments.
            let rest = at.iter().filter(|(key, _)| {
                !NAMES.contains(&key.as_str()) && !ARGUMENTS.contains(&key.as_str())
            });
            Arguments::Json(Value::Object(
                rest.map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            ))
        }
        Some(other) => Arguments::Json(other.clone()),
    };
    Ok(ToolCall {
        id: None,
        name,
        arguments: given,
    })
}

/// The call within what a model wrapped it in.
fn wrapped(
    at: &Map<String, Value>,
    front: &str,
    has_both: &dyn Fn(&str) -> bool,
) -> Option<Map<String, Value>> {
    if let Some(inner) = at.get("name").and_then(Value::as_object) {
        return Some(inner.clone());
    }
    let name = NAMES
        .iter()
        .find_map(|key| at.get(*key))
        .and_then(Value::as_str);
    if name.is_none()
        && let Some(inner) = WRAPPERS
            .iter()
            .find_map(|key| at.get(*key))
            .and_then(Value::as_object)
    {
        return Some(inner.clone());
    }
    let inner = ARGUMENTS
        .iter()
        .find_map(|key| at.get(*key))
        .and_then(Value::as_object)?;
    let inner_name = NAMES
        .iter()
        .take(4)
        .find_map(|key| inner.get(*key))
        .and_then(Value::as_str);
    let holds_call = inner_name.is_some() && ARGUMENTS.iter().any(|key| inner.contains_key(*key));
    let is_wrapped = match name {
        None => inner_name.is_some(),
        Some(name) if name == front => holds_call,
        Some(name) => holds_call && inner_name == Some(name) && !has_both(name),
    };
    is_wrapped.then(|| inner.clone())
}

/// The value under one of the keys; two that differ have no one meaning.
fn one_of<'a>(at: &'a Map<String, Value>, keys: &[&str]) -> Result<Option<&'a Value>, Refusal> {
    let mut found = keys.iter().filter_map(|key| Some((*key, at.get(*key)?)));
    let Some((first, value)) = found.next() else {
        return Ok(None);
    };
    match found.find(|(_, other)| *other != value) {
        // `id` and `input` are names of parameters too.
        Some((other, _)) if first == keys[0] && ["id", "input"].contains(&other) => Ok(Some(value)),
        Some((other, _)) => Err(wrong(format!(
            "{first:?} and {other:?} are not the same; give {:?} alone",
            keys[0]
        ))),
        None => Ok(Some(value)),
    }
}

/// Takes off the prefix that clients put before the names of a server's tools.
pub(crate) fn without_prefix(name: &str) -> &str {
    let name = name.trim();
    match name
        .strip_prefix("mcp__")
        .and_then(|rest| rest.split_once("__"))
    {
        Some((_, own)) if !own.is_empty() => own,
        _ => name,
    }
}

/// What stands between a server and its tool, as models write it.
const SEPARATORS: [&str; 6] = ["/", ".", ":", "-", "__", "_"];

/// Returns the ids that a name may stand for, with any sign between the server and the tool.
pub(crate) fn spellings(name: &str) -> impl Iterator<Item = String> {
    SEPARATORS.iter().flat_map(move |separator| {
        let splits = name
            .match_indices(separator)
            .map(move |(at, sign)| (&name[..at], &name[at + sign.len()..]));
        splits
            .filter(|(source, tool)| !source.is_empty() && !tool.is_empty())
            .map(|(a, b)| format!("{a}/{b}"))
    })
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
        let call = called(&arguments, "call_tool", &has_both).map_err(|refusal| refusal.message)?;
        Ok((
            call.name,
            match call.arguments {
                Arguments::Json(value) => value,
                Arguments::Text(text) => json!(text),
            },
        ))
    }

    #[test]
    fn what_models_write_is_read_as_the_call_that_it_means() {
        let log = ("git__git_log".to_owned(), json!({"repo_path": "/w"}));
        for sent in [
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
            assert_eq!(call(sent.clone()), Ok(log.clone()), "{sent}");
        }
        let text = call(json!({"name": "git__git_log", "arguments": "{\"repo_path\": \"/w\"}"}));
        assert_eq!(
            text,
            Ok(("git__git_log".to_owned(), json!("{\"repo_path\": \"/w\"}")))
        );
    }

    #[test]
    fn a_tool_that_takes_a_name_and_arguments_itself_gets_them() {
        let inner = json!({"name": "queue__submit", "arguments": {"x": 1}});
        let sent = json!({"name": "queue__submit", "arguments": inner});
        assert_eq!(call(sent), Ok(("queue__submit".to_owned(), inner)));
    }

    #[test]
    fn what_has_two_meanings_or_none_is_refused_with_an_example() {
        for sent in [
            json!({}),
            json!({"name": ""}),
            json!({"name": 3}),
            json!({"arguments": {"repo_path": "/w"}}),
            json!({"name": "a", "tool": "b"}),
            json!({"name": "a", "arguments": {"x": 1}, "args": {"x": 2}}),
            json!({"function": {"function": {"function": {"function": {"name": "a"}}}}}),
        ] {
            assert!(
                call(sent.clone())
                    .is_err_and(|message| message.contains("name") || message.contains("alone")),
                "{sent}"
            );
        }
    }

    #[test]
    fn searches_are_read_whatever_types_a_model_takes() {
        let read = |value: Value| {
            let Value::Object(arguments) = value else {
                panic!("an object")
            };
            search(&arguments, 50, 8)
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
                read(json!({"query": "x", "limit": limit})).map(|search| search.limit),
                Ok(expected),
                "{limit}"
            );
        }
        let joined = read(json!({"query": ["read a file", "send it"], "server": " "}));
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
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn several_tools_may_be_described_at_once() {
        let read = |value: Value| {
            let Value::Object(arguments) = value else {
                panic!("an object")
            };
            described(&arguments).map_err(|refusal| refusal.message)
        };
        assert_eq!(read(json!({"name": "a"})), Ok(vec!["a".to_owned()]));
        assert_eq!(
            read(json!({"name": "a, b"})),
            read(json!({"names": ["a", "b"]}))
        );
        assert!(read(json!({})).is_err() && read(json!({"name": "a,b,c,d,e,f"})).is_err());
    }

    #[test]
    fn prefixes_of_clients_are_taken_off() {
        assert_eq!(
            without_prefix("mcp__picktools__git__git_log"),
            "git__git_log"
        );
        assert_eq!(without_prefix("mcp__picktools__call_tool"), "call_tool");
        assert_eq!(without_prefix(" git__git_log "), "git__git_log");
        assert_eq!(without_prefix("mcp__x"), "mcp__x");
    }
}
