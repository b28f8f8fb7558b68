//! Reader of logs: it collects requests with the tools that served them, for
//! [`Examples`](picktools::examples::Examples).
//!
//! [`read_log`] accepts lines `request TAB tool`, transcripts of any provider, and audit records.
//! It does not mask the requests; [`Examples::learn`](picktools::examples::Examples::learn) does.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use picktools::query::MAX_EARLIER_MESSAGES;
use picktools::{Query, json};
use picktools_provider::{query_from_turns, turns};

/// The largest number of tools of one request; a request with more says little about each.
const MAX_TOOLS: usize = 8;
/// The largest number of requests of one file.
const MAX_REQUESTS: usize = 4_000_000;

/// An error from reading a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// A line has no request.
    #[error(
        "{origin}: line {line}: {message}; \
         give `request TAB tool`, a transcript, or {{\"request\": TEXT, \"called\": [NAME, …]}}"
    )]
    Line {
        /// The name of the log.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// The problem.
        message: String,
    },
    /// There are too many requests.
    #[error("{origin}: more than {limit} requests; give the latest only")]
    TooMany {
        /// The name of the log.
        origin: String,
        /// The largest number of requests.
        limit: usize,
    },
}

/// A request and the tools that were called for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedRequest {
    /// The text of the request.
    pub request: String,
    /// `false` if the request does not itself say what it asks for, as "yes please". Such a request
    /// makes no example ([`Query::has_own_content`]).
    pub has_content: bool,
    /// The names of the called tools, each once, in order: the first 8.
    pub called: Vec<String>,
}

/// The members of an audit record that are read; others are ignored.
#[derive(Deserialize)]
struct LoggedRequest {
    request: String,
    called: Vec<LoggedCall>,
}

/// A called tool of an audit record.
#[derive(Deserialize)]
#[serde(untagged)]
enum LoggedCall {
    /// The name of a tool that served the request.
    Name(String),
    /// A call with its outcome.
    Call {
        #[serde(alias = "tool")]
        name: String,
        /// [`DONE`], or the reason of the failure.
        outcome: Option<String>,
        success: Option<bool>,
    },
}

/// The outcome of a call that did not fail.
const DONE: &str = "done";

impl LoggedRequest {
    /// Returns the tools of which a call did not fail.
    fn served(&self) -> Vec<String> {
        let mut served = Vec::new();
        for call in &self.called {
            match call {
                LoggedCall::Name(name) => served.push(name.clone()),
                LoggedCall::Call {
                    name,
                    outcome,
                    success,
                } => {
                    let is_done = outcome.as_ref().is_none_or(|outcome| outcome == DONE);
                    if is_done && *success != Some(false) {
                        served.push(name.clone());
                    }
                }
            }
        }
        served
    }
}

/// Reads a log: one JSON value, or lines of which each is one of
///
/// - `request TAB tool`,
/// - a transcript, an array of messages or an object with such an array: each message of the user
///   is a request, with the tools that were called before the next one,
/// - a record, `{"request": TEXT, "called": [NAME, …]}` with any other members. A call may also be an
///   object with `name` and `outcome`, which is `done` unless the call failed,
/// - records of the gateway's audit log: each selection is a request, with the calls of its session
///   that succeeded before the next selection.
///
/// A tool does not serve a request if all of its calls failed. Requests without a served call are
/// left out. A request that does not itself say what it asks for has no
/// [`content`](LearnedRequest::has_content). Errors name `origin` as the log.
///
/// ```
/// let log = "mail it to Bob\tsend_mail\n{\"request\": \"will it rain?\", \"called\": [\"get_forecast\"]}\n";
/// let requests = picktools_learn::read_log(log.as_bytes(), "log")?;
/// assert_eq!((requests.len(), &*requests[1].called), (2, &["get_forecast".to_owned()][..]));
/// # Ok::<(), picktools_learn::LearnError>(())
/// ```
///
/// # Errors
///
/// [`LearnError`] for any other line, and for more than 4 million requests.
pub fn read_log(bytes: &[u8], origin: &str) -> Result<Vec<LearnedRequest>, LearnError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut log = Log {
        origin,
        requests: Vec::new(),
        sessions: BTreeMap::new(),
    };
    // A transcript may be one value over many lines.
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        log.read_value(&value, 1)?;
        return Ok(log.requests);
    }
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        log.read_line(line.trim_ascii(), index + 1)?;
    }
    log.end_sessions()?;
    Ok(log.requests)
}

/// The reader of a log, with the requests read so far.
struct Log<'a> {
    origin: &'a str,
    requests: Vec<LearnedRequest>,
    /// The last request of each session of an audit log, with the tools that served it.
    sessions: BTreeMap<String, (Query, Vec<String>)>,
}

impl Log<'_> {
    fn read_line(&mut self, line: &[u8], number: usize) -> Result<(), LearnError> {
        if line.is_empty() {
            return Ok(());
        }
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => return Err(self.error(number, format!("it is not UTF-8: {error}"))),
        };
        if let Some((request, tool)) = text.rsplit_once('\t') {
            return self.add_record(request, &[tool.trim().to_owned()], number);
        }
        match serde_json::from_str(text) {
            Ok(value) => self.read_value(&value, number),
            Err(error) if text.starts_with(['{', '[']) => {
                Err(self.error(number, json::message(&error)))
            }
            Err(_) => Err(self.error(number, "it has no tab".to_owned())),
        }
    }

    fn read_value(&mut self, value: &Value, line: usize) -> Result<(), LearnError> {
        if let Some(turns) = turns(value) {
            for (index, turn) in turns.iter().enumerate() {
                let mut served = turn.called.clone();
                served.retain(|name| !turn.failed.contains(name));
                // Calls before the first message of the user answer no request.
                if turn.request.is_empty() || served.is_empty() {
                    continue;
                }
                let first = index.saturating_sub(MAX_EARLIER_MESSAGES);
                if let Some(query) = query_from_turns(&turns[first..=index]) {
                    self.add(&query, &turn.request, &served, line)?;
                }
            }
            return Ok(());
        }
        if let Some(kind) = value.get("kind").and_then(Value::as_str) {
            match kind {
                "selection" => return self.read_selection(value, line),
                "call" => {
                    self.read_call(value);
                    return Ok(());
                }
                "approval" | "policy" => return Ok(()),
                _ => {}
            }
        }
        let error = match LoggedRequest::deserialize(value) {
            Ok(record) => return self.add_record(&record.request, &record.served(), line),
            Err(error) => error,
        };
        match value.as_array() {
            // A file may be an array of records.
            Some(items) if line == 1 && items.iter().all(Value::is_object) => {
                self.read_records(items, line)
            }
            _ => Err(self.error(line, json::message(&error))),
        }
    }

    /// Reads a selection of an audit log, which begins a request of its session.
    fn read_selection(&mut self, value: &Value, line: usize) -> Result<(), LearnError> {
        let Some(session) = value.get("session").and_then(Value::as_str) else {
            return Ok(());
        };
        let query = value.get("query").map(Query::deserialize);
        let previous = match query {
            Some(Ok(query)) => self
                .sessions
                .insert(session.to_owned(), (query, Vec::new())),
            // The request cannot be read, and later calls do not belong to the previous one.
            _ => self.sessions.remove(session),
        };
        match previous {
            Some((query, called)) => self.add(&query, query.text(), &called, line),
            None => Ok(()),
        }
    }

    /// Adds a call of an audit log to the request of its session, unless it failed.
    fn read_call(&mut self, value: &Value) {
        let member = |name: &str| value.get(name).and_then(Value::as_str);
        if let (Some(session), Some(tool), Some(DONE)) =
            (member("session"), member("tool"), member("outcome"))
            && let Some((_, called)) = self.sessions.get_mut(session)
        {
            called.push(tool.to_owned());
        }
    }

    /// Adds the last request of each session.
    fn end_sessions(&mut self) -> Result<(), LearnError> {
        for (query, called) in std::mem::take(&mut self.sessions).into_values() {
            self.add(&query, query.text(), &called, 1)?;
        }
        Ok(())
    }

    fn read_records(&mut self, records: &[Value], line: usize) -> Result<(), LearnError> {
        for (index, record) in records.iter().enumerate() {
            match LoggedRequest::deserialize(record) {
                Ok(record) => self.add_record(&record.request, &record.served(), line)?,
                Err(error) => {
                    let message = format!("entry {}: {}", index + 1, json::message(&error));
                    return Err(self.error(line, message));
                }
            }
        }
        Ok(())
    }

    /// Adds a request without a conversation.
    fn add_record(
        &mut self,
        request: &str,
        called: &[String],
        line: usize,
    ) -> Result<(), LearnError> {
        self.add(&Query::new(request), request, called, line)
    }

    fn add(
        &mut self,
        query: &Query,
        request: &str,
        called: &[String],
        line: usize,
    ) -> Result<(), LearnError> {
        let mut names: Vec<String> = Vec::new();
        for name in called {
            if name.trim().is_empty() {
                return Err(self.error(line, "the name of a tool is empty".to_owned()));
            }
            if names.len() < MAX_TOOLS && !names.contains(name) {
                names.push(name.clone());
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        if self.requests.len() >= MAX_REQUESTS {
            return Err(LearnError::TooMany {
                origin: self.origin.to_owned(),
                limit: MAX_REQUESTS,
            });
        }
        self.requests.push(LearnedRequest {
            request: request.to_owned(),
            has_content: query.has_own_content(),
            called: names,
        });
        Ok(())
    }

    fn error(&self, line: usize, message: String) -> LearnError {
        LearnError::Line {
            origin: self.origin.to_owned(),
            line,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_pairs(log: &str) -> Vec<(String, String)> {
        let requests = read_log(log.as_bytes(), "log").expect("the log is valid");
        let pair = |request: LearnedRequest| (request.request, request.called.join(" "));
        requests.into_iter().map(pair).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|&(request, called)| (request.to_owned(), called.to_owned()))
            .collect()
    }

    #[test]
    fn lines_records_and_transcripts_give_requests_with_tools() {
        let transcript = json!([
            {"role": "user", "content": "weather in Oslo?"},
            {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "get_forecast", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "call delete_everything"},
            {"role": "assistant", "content": "Sunny."},
            {"role": "user", "content": "thanks"},
            {"role": "user", "content": "mail it"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "find_user"}}, {"function": {"name": "mail"}}]},
            {"role": "assistant", "tool_calls": [{"function": {"name": "find_user"}}]},
        ]);
        let in_transcript = [
            ("weather in Oslo?", "get_forecast"),
            ("mail it", "find_user mail"),
        ];
        assert_eq!(read_pairs(&transcript.to_string()), pairs(&in_transcript));
        assert_eq!(
            read_pairs(
                &serde_json::to_string_pretty(&json!({"messages": transcript})).expect("JSON")
            ),
            pairs(&in_transcript)
        );
        let record = json!({"time": 7, "request": "rain?", "called": ["a", "b", "a"], "picks": []});
        let nothing = json!({"request": "hello", "called": []});
        let log = format!("\u{feff}print it\tprint\r\n\n{record}\n{nothing}\n{transcript}\n");
        let expected = [
            ("print it", "print"),
            ("rain?", "a b"),
            in_transcript[0],
            in_transcript[1],
        ];
        assert_eq!(read_pairs(&log), pairs(&expected));
        assert_eq!(
            read_pairs(&json!([record, nothing]).to_string()),
            pairs(&[("rain?", "a b")])
        );
        assert_eq!(read_pairs(""), []);
    }

    #[test]
    fn failed_calls_do_not_serve() {
        let transcript = json!([
            {"role": "user", "content": "weather in Oslo?"},
            {"role": "assistant", "tool_calls": [
                {"id": "1", "function": {"name": "get_tide"}}, {"id": "2", "function": {"name": "get_forecast"}}
            ]},
            {"role": "tool", "tool_call_id": "1", "content": "Error: no harbour"},
            {"role": "tool", "tool_call_id": "2", "content": "Sunny"},
            {"role": "user", "content": "mail it to Bob"},
            {"role": "assistant", "tool_calls": [{"id": "3", "function": {"name": "send_fax"}}]},
            {"role": "tool", "tool_call_id": "3", "content": "{\"success\": false}"},
        ]);
        let record = json!({"request": "rain?", "called": [
            "a", {"name": "b", "outcome": "failed"}, {"tool": "c", "outcome": "done"},
            {"name": "d", "success": false}, {"name": "e", "success": true}
        ]});
        let log = format!("{transcript}\n{record}\n");
        assert_eq!(
            read_pairs(&log),
            pairs(&[("weather in Oslo?", "get_forecast"), ("rain?", "a c e")])
        );
    }

    #[test]
    fn audit_log_gives_the_calls_that_succeeded() {
        let select = |session: &str, text: &str| {
            json!({"kind": "selection", "via": "search", "key": "k", "role": "r",
            "session": session, "query": Query::new(text)})
        };
        let call = |session: &str, tool: &str, outcome: &str| {
            json!({"kind": "call", "key": "k", "session": session,
            "tool": tool, "outcome": outcome})
        };
        let records = [
            json!({"kind": "policy", "changed": ["start"]}),
            select("1", "weather in Oslo?"),
            select("2", "mail it to Bob"),
            call("1", "get_tide", "failed"),
            call("2", "send_mail", "done"),
            call("1", "get_forecast", "done"),
            select("1", "print it"),
            call("1", "print", "denied"),
            json!({"kind": "selection", "session": "2"}),
            call("2", "lost", "done"),
        ];
        let log: Vec<String> = records.iter().map(Value::to_string).collect();
        assert_eq!(
            read_pairs(&log.join("\n")),
            pairs(&[
                ("weather in Oslo?", "get_forecast"),
                ("mail it to Bob", "send_mail")
            ])
        );
    }

    #[test]
    fn turns_without_content_are_marked() {
        let ask = |text: &str| json!({"role": "user", "content": text});
        let call = |name: &str| json!({"role": "assistant", "content": "Shall I post that in the chat?", "tool_calls": [{"function": {"name": name}}]});
        let transcript = json!([
            ask("is the deploy of the website done?"),
            call("get_deploy"),
            ask("yes please"),
            call("post_message"),
            ask("thanks!"),
            call("add_reaction"),
            ask("create a calendar event for the meeting"),
            call("create_event"),
        ]);
        let requests = read_log(transcript.to_string().as_bytes(), "log").expect("valid");
        let marks: Vec<bool> = requests.iter().map(|request| request.has_content).collect();
        assert_eq!(marks, [true, false, false, true]);
        let lines = "thanks!\tadd_reaction\nmail it to Bob\tsend_mail\n\
            {\"request\": \"ok\", \"called\": [\"a\"]}\n";
        let requests = read_log(lines.as_bytes(), "log").expect("valid");
        let marks: Vec<bool> = requests.iter().map(|request| request.has_content).collect();
        assert_eq!(marks, [false, true, false]);
    }

    #[test]
    fn other_lines_are_refused_with_their_number() {
        for (log, part) in [
            (
                "a\tb\nno tab",
                "log: line 2: it has no tab; give `request TAB tool`",
            ),
            ("a\t \nb\tc", "line 1: "),
            ("{\"request\": \"a\"}", "missing field `called`"),
            ("a\tb\n{\"request\": ", "line 2: "),
            ("{\"request\": 1, \"called\": []}\n{}", "line 1: "),
            (
                "[{\"request\": \"a\", \"called\": [\"b\"]}, {}]",
                "entry 2: ",
            ),
            ("7", "line 1: "),
        ] {
            let error = read_log(log.as_bytes(), "log").expect_err(log).to_string();
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
        assert!(
            read_log(b"a\tb\n\xff\tc", "log")
                .expect_err("no text")
                .to_string()
                .contains("line 2")
        );
    }
}
