//! Requests and tasks with the tools that they called, from an audit log.

use std::collections::{HashMap, VecDeque};

use picktools::Query;
use picktools::query::Message;
use picktools_audit::{CallRecord, NumberedRecord, Record, SelectionRecord};
use picktools_eval::Qrels;
use serde_json::{Value, json};

/// The time after a request within which a call belongs to it, in milliseconds.
const REQUEST_MS: u64 = 10 * 60 * 1_000;
/// The time without a call after which a new task begins, in milliseconds.
const TASK_MS: u64 = 30 * 60 * 1_000;
/// The number of requests of a session that wait for calls. Searches may run in parallel.
const MAX_OPEN_REQUESTS: usize = 8;
/// The most tools of one request.
const MAX_TOOLS: usize = 8;
/// The number of sessions in memory above which ended sessions are closed.
const MAX_SESSIONS: usize = 10_000;

/// A request, and the tools that were called for it.
pub(super) struct ServedRequest {
    record: u64,
    at_ms: u64,
    query: Query,
    picks: Vec<String>,
    called: Vec<String>,
}

/// The open requests and the current task of a session.
#[derive(Default)]
struct OpenSession {
    open: VecDeque<ServedRequest>,
    task: Vec<String>,
    last_ms: u64,
}

impl OpenSession {
    /// Returns the latest request that picked the tool, or else the latest request.
    fn request_with_pick(&mut self, tool: &str) -> Option<&mut ServedRequest> {
        let picked = |request: &ServedRequest| request.picks.iter().any(|pick| pick == tool);
        match self.open.iter().rposition(picked) {
            Some(position) => self.open.get_mut(position),
            None => self.open.back_mut(),
        }
    }
}

/// The requests and tasks of the records that were read.
#[derive(Default)]
pub(super) struct ServedLog {
    sessions: HashMap<String, OpenSession>,
    pub(super) requests: Vec<ServedRequest>,
    pub(super) tasks: Vec<Vec<String>>,
}

impl ServedLog {
    /// Processes a record.
    pub(super) fn take(&mut self, read: NumberedRecord) {
        match read.record {
            Record::Selection(selection) => self.add_request(read.number, read.at_ms, *selection),
            Record::Call(call) => self.add_call(read.at_ms, *call),
            // Another run of the gateway uses the same session names.
            Record::Policy(policy) if policy.changed.iter().any(|changed| changed == "start") => {
                self.end_sessions();
            }
            _ => {}
        }
    }

    /// Opens a request, and closes the oldest one of its session if too many are open.
    fn add_request(&mut self, record: u64, at_ms: u64, selection: SelectionRecord) {
        let Some(query) = selection.query else { return };
        let name = match selection.session {
            Some(name) => name,
            None => format!("key {}", selection.key),
        };
        let picks = selection.picks.into_iter().map(|pick| pick.tool).collect();
        let session = self.session(name, at_ms);
        session.open.push_back(ServedRequest {
            record,
            at_ms,
            query,
            picks,
            called: Vec::new(),
        });
        if session.open.len() <= MAX_OPEN_REQUESTS {
            return;
        }
        if let Some(oldest) = session.open.pop_front()
            && oldest.is_served()
        {
            self.requests.push(oldest);
        }
    }

    /// Adds the tool of a successful call to its request and to the task.
    fn add_call(&mut self, at_ms: u64, call: CallRecord) {
        let Some(tool) = call.tool else { return };
        if call.outcome != "done" {
            return;
        }
        let session = self.session(call.session, at_ms);
        if let Some(request) = session.request_with_pick(&tool)
            && at_ms.saturating_sub(request.at_ms) <= REQUEST_MS
            && request.called.len() < MAX_TOOLS
            && !request.called.contains(&tool)
        {
            request.called.push(tool.clone());
        }
        session.task.push(tool);
    }

    /// Returns the session with this name, and ends its task after a long pause.
    fn session(&mut self, name: String, at_ms: u64) -> &mut OpenSession {
        if self.sessions.len() >= MAX_SESSIONS {
            let mut ended = Vec::new();
            for (name, session) in &self.sessions {
                if at_ms.saturating_sub(session.last_ms) > TASK_MS {
                    ended.push(name.clone());
                }
            }
            for name in ended {
                if let Some(session) = self.sessions.remove(&name) {
                    self.close(session);
                }
            }
        }
        let session = self.sessions.entry(name).or_default();
        if at_ms.saturating_sub(session.last_ms) > TASK_MS && !session.task.is_empty() {
            self.tasks.push(std::mem::take(&mut session.task));
        }
        session.last_ms = at_ms;
        session
    }

    fn close(&mut self, session: OpenSession) {
        for request in session.open {
            if request.is_served() {
                self.requests.push(request);
            }
        }
        if !session.task.is_empty() {
            self.tasks.push(session.task);
        }
    }

    fn end_sessions(&mut self) {
        let mut sessions: Vec<(String, OpenSession)> = self.sessions.drain().collect();
        sessions.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, session) in sessions {
            self.close(session);
        }
    }

    /// Ends all sessions, and sorts the requests by record.
    pub(super) fn end(mut self) -> Self {
        self.end_sessions();
        self.requests.sort_by_key(|request| request.record);
        self
    }

    /// Returns the requests in the format of `picktools eval --queries`.
    pub(super) fn queries(&self) -> serde_json::Result<String> {
        lines(self.requests.iter().map(ServedRequest::line))
    }

    /// Returns the called tools in the format of `picktools eval --qrels`.
    pub(super) fn qrels(&self) -> Qrels {
        let mut qrels = Qrels::default();
        for request in &self.requests {
            for tool in &request.called {
                qrels.insert(request.id(), tool.clone(), 1);
            }
        }
        qrels
    }

    /// Returns the calls of tasks in the format of `picktools pick --sequences`.
    pub(super) fn sequences(&self) -> serde_json::Result<String> {
        lines(self.tasks.iter().map(|task| json!(task)))
    }
}

fn lines(values: impl Iterator<Item = Value>) -> serde_json::Result<String> {
    let mut lines = String::new();
    for value in values {
        lines.push_str(&serde_json::to_string(&value)?);
        lines.push('\n');
    }
    Ok(lines)
}

impl ServedRequest {
    fn is_served(&self) -> bool {
        !self.called.is_empty()
    }

    fn id(&self) -> String {
        format!("record-{}", self.record)
    }

    /// Returns a line of queries: the text alone, or a transcript that ends with it.
    fn line(&self) -> Value {
        let query = &self.query;
        if query.context().is_empty() && query.called().is_empty() {
            return json!({"id": self.id(), "text": query.text()});
        }
        let user_message = |text: &str| json!({"role": "user", "content": text});
        let mut messages = Vec::new();
        for Message { author, text } in query.earlier() {
            messages.push(json!({"role": author, "content": text}));
        }
        if messages.is_empty() && !query.context().is_empty() {
            messages.push(user_message(query.context()));
        }
        let mut calls = Vec::new();
        for name in query.called() {
            calls.push(json!({"type": "function", "function": {"name": name}}));
        }
        if !calls.is_empty() {
            messages.push(json!({"role": "assistant", "content": "", "tool_calls": calls}));
        }
        messages.push(user_message(query.text()));
        json!({"id": self.id(), "messages": messages})
    }
}

#[cfg(test)]
mod tests {
    use picktools_eval::QuerySet;

    use super::*;

    #[test]
    fn request_line_parses_to_the_same_query() {
        let message = |role: &str, text: &str| json!({"role": role, "content": text});
        let call = json!({"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "function": {"name": "get_forecast"}},
            {"type": "function", "function": {"name": "book"}},
        ]});
        let transcript = json!([
            message("user", "Weather in Nice?"),
            call,
            message("assistant", "Sunny. Shall I mail it?"),
            message("user", "hm"),
            message("user", "and in\nTurin?")
        ]);
        let only_called = json!([message("user", " "), call, message("user", "go on")]);
        for query in [
            Query::new("a\tb\n\u{0}c"),
            picktools_provider::query_from_value(&transcript),
            picktools_provider::query_from_value(&only_called),
        ] {
            let request = ServedRequest {
                record: 7,
                at_ms: 0,
                query: query.clone(),
                picks: Vec::new(),
                called: Vec::new(),
            };
            let text = lines(std::iter::once(request.line())).expect("JSON");
            let queries = QuerySet::parse(text.as_bytes(), std::path::Path::new("queries.jsonl"))
                .expect("a line");
            assert_eq!(queries.as_slice()[0].query(), query, "{text}");
        }
    }
}
