//! The members of a server's entry, as the clients write them.

use std::time::Duration;

use serde_json::{Map, Value};

use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools::schema::kind;

use crate::entry_problem::{EntryProblem, problem};

/// Members that are read.
const READ: [&str; 23] = [
    "command",
    "args",
    "env",
    "envFile",
    "inherit",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "httpHeaders",
    "bearer_token_env_var",
    "bearerTokenEnvVar",
    "clientCredentials",
    "type",
    "transport",
    "disabled",
    "enabled",
    "timeout",
    "tool_timeout_sec",
    "env_vars",
    "env_http_headers",
];
/// Members that change nothing here: texts for people, and settings of a client's own windows and
/// questions.
const HARMLESS: [&str; 29] = [
    "$schema",
    "name",
    "title",
    "displayName",
    "description",
    "icon",
    "icons",
    "version",
    "source",
    "gallery",
    "dev",
    "trust",
    "category",
    "tags",
    "notes",
    "note",
    "comment",
    "_comment",
    "homepage",
    "repository",
    "author",
    "priority",
    "required",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "supports_parallel_tool_calls",
    "defer_loading",
    "alwaysLoad",
    "deferTools",
];
/// Members without which the client could not reach or would not trust the server, and which have
/// no counterpart here.
const UNSUPPORTED: [(&str, &str); 12] = [
    ("headersHelper", "a program that makes headers"),
    ("oauth", "a login in the browser"),
    ("oauth_resource", "a login in the browser"),
    ("scopes", "a login in the browser"),
    ("auth", "a login"),
    ("authProviderType", "a login of a provider"),
    ("targetAudience", "a login of a provider"),
    ("targetServiceAccount", "a login of a provider"),
    ("tcp", "a web socket"),
    ("sandbox", "a sandbox"),
    ("sandboxEnabled", "a sandbox"),
    ("container", "a container"),
];
/// A `timeout` from this number on is in milliseconds, a smaller one in seconds. Clients differ.
const MIN_MILLISECONDS: f64 = 1_000.0;

/// The longest time for a call.
const MAX_CALL_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Refuses an entry that the gateway would run differently from the client.
pub(crate) fn refuse_unsupported(entry: &Map<String, Value>) -> Result<(), EntryProblem> {
    for (member, what) in UNSUPPORTED {
        let is_set = entry.get(member).is_some_and(|value| {
            let is_off = value.get("enabled") == Some(&Value::Bool(false));
            !value.is_null() && *value != Value::Bool(false) && !is_off
        });
        if is_set {
            return Err(problem(
                format!("the entry needs {what} (`{member}`), which is not supported"),
                "leave the server in its client, or give it `headers` or `clientCredentials`",
            ));
        }
    }
    Ok(())
}

/// Returns the members that nothing reads. `is_filter` tells which ones restrict tools.
pub(crate) fn unknown<'a>(
    entry: &'a Map<String, Value>,
    is_filter: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<Item = &'a str> + 'a {
    entry.keys().map(String::as_str).filter(move |member| {
        !READ.contains(member)
            && !HARMLESS.contains(member)
            && !UNSUPPORTED.iter().any(|(name, _)| name == member)
            && !is_filter(member)
    })
}

/// Reads the names of the environment variables that a program inherits. Codex writes `env_vars`.
pub(crate) fn inherited(entry: &Map<String, Value>) -> Result<Vec<String>, EntryProblem> {
    let mut names = Vec::new();
    for member in ["inherit", "env_vars"] {
        let list = match entry.get(member) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(list)) => list,
            Some(other) => {
                return Err(problem(
                    format!("`{member}` is {}", kind(other)),
                    "give a list of names of environment variables",
                ));
            }
        };
        for name in list {
            let fault = match name {
                Value::String(name) => inherited_name_fault(name),
                other => Some(format!("{} is not a name", kind(other))),
            };
            if let Some(fault) = fault {
                return Err(problem(
                    format!("`{member}`: {fault}"),
                    "give names of environment variables; values go into `env`",
                ));
            }
            names.extend(name.as_str().map(str::to_owned));
        }
    }
    Ok(names)
}

/// Returns the reason why a text is not the name of an environment variable.
pub fn inherited_name_fault(name: &str) -> Option<String> {
    let is_valid = !name.trim().is_empty() && !name.contains(['=', '\0', '$', '*']);
    let shown = marked(name, MAX_NAME_CHARS);
    (!is_valid).then(|| format!("{shown:?} is not the name of an environment variable"))
}

/// Reads the time for a call; `None` if the entry names none.
pub(crate) fn call_timeout(entry: &Map<String, Value>) -> Result<Option<Duration>, EntryProblem> {
    for (member, is_seconds) in [("timeout", false), ("tool_timeout_sec", true)] {
        let Some(value) = entry.get(member).filter(|value| !value.is_null()) else {
            continue;
        };
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let seconds = match number {
            Some(number) if !is_seconds && number >= MIN_MILLISECONDS => number / 1_000.0,
            Some(number) => number,
            None => f64::NAN,
        };
        let time = Duration::try_from_secs_f64(seconds).ok();
        let Some(time) = time.filter(|time| !time.is_zero()) else {
            let shown = match value {
                Value::Number(_) | Value::String(_) => value.to_string(),
                other => kind(other).to_owned(),
            };
            return Err(problem(
                format!("`{member}` is {}", marked(&shown, MAX_NAME_CHARS)),
                "give a number of milliseconds from 1000 on, or of seconds",
            ));
        };
        return Ok(Some(time.min(MAX_CALL_TIME)));
    }
    Ok(None)
}

/// Reads the lines of a file of variables: `NAME=value`, with `export` and quotes allowed, and
/// comments after `#` at the start of a line.
pub(crate) fn parse_env_file(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else {
            return Err(format!("line {} has no `=`", index + 1));
        };
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(format!("line {} has no name before `=`", index + 1));
        }
        let is_quoted =
            |quote: char| value.len() >= 2 && value.starts_with(quote) && value.ends_with(quote);
        let value = if is_quoted('"') || is_quoted('\'') {
            &value[1..value.len() - 1]
        } else {
            // A comment may follow an unquoted value.
            value.split(" #").next().unwrap_or(value).trim_end()
        };
        variables.push((name.to_owned(), value.to_owned()));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn members(entry: &Value) -> &Map<String, Value> {
        entry.as_object().expect("an object")
    }

    #[test]
    fn timeout_is_in_seconds_or_milliseconds() {
        for (entry, seconds) in [
            (json!({"timeout": 60}), Some(60.0)),
            (json!({"timeout": 60_000}), Some(60.0)),
            (json!({"timeout": "600000"}), Some(600.0)),
            (json!({"timeout": 0.5}), Some(0.5)),
            (json!({"tool_timeout_sec": 5_000}), Some(5_000.0)),
            (json!({"timeout": 1e18}), Some(86_400.0)),
            (json!({"timeout": null}), None),
        ] {
            let time = call_timeout(members(&entry));
            let time = time.unwrap_or_else(|problem| panic!("{}", problem.message));
            assert_eq!(time, seconds.map(Duration::from_secs_f64), "{entry}");
        }
        for entry in [
            json!({"timeout": -1}),
            json!({"timeout": 0}),
            json!({"timeout": "soon"}),
            json!({"timeout": []}),
            json!({"timeout": 1e300}),
        ] {
            assert!(call_timeout(members(&entry)).is_err(), "{entry}");
        }
    }

    #[test]
    fn env_file_has_comments_quotes_and_exports() {
        let text =
            "\u{feff}# keys\nA=1\r\nexport B = \"two words\" \n\nC='#3' \nD=four # note\nE=\n";
        let variables = parse_env_file(text).expect("valid");
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "#3"),
            ("D", "four"),
            ("E", ""),
        ];
        assert_eq!(
            variables,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        assert!(parse_env_file("A=1\nnonsense").is_err_and(|error| error.contains("line 2")));
        assert!(parse_env_file("=1").is_err());
    }

    #[test]
    fn members_are_read_harmless_unsupported_or_unknown() {
        let entry = json!({"command": "x", "title": "X", "proxy": "y", "disabledTools": []});
        let unknown: Vec<&str> =
            unknown(members(&entry), |member| member == "disabledTools").collect();
        assert_eq!(unknown, ["proxy"]);
        for entry in [
            json!({"url": "https://a.example", "headersHelper": "/bin/x"}),
            json!({"url": "https://a.example", "oauth": {"scopes": []}}),
            json!({"command": "x", "sandboxEnabled": true}),
        ] {
            assert!(refuse_unsupported(members(&entry)).is_err(), "{entry}");
        }
        for entry in [
            json!({"url": "https://a.example", "oauth": {"enabled": false}}),
            json!({"command": "x", "sandboxEnabled": false}),
        ] {
            assert!(refuse_unsupported(members(&entry)).is_ok(), "{entry}");
        }
    }
}
