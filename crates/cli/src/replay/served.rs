//! What tools served: which were called after a request, and which together.

use std::collections::{HashMap, VecDeque};

use picktools::Query;
use picktools_audit::{Read, Record};
use picktools_eval::Qrels;
use serde_json::{Value, json};

/// Within which time after a request a call is made for it, in milliseconds.
const FOR_IT_MS: u64 = 10 * 60 * 1_000;
/// After which time without a call another task begins.
const TASK_MS: u64 = 30 * 60 * 1_000;
/// How many requests of a session wait for calls: searches may be sent side by side.
const OPEN: usize = 8;
/// The most tools that count of one request.
const MAX_TOOLS: usize = 8;
/// How many sessions are looked after at once; over it, those that ended are.
const MAX_SESSIONS: usize = 10_000;

/// A request, and the tools that were called for it.
pub(super) struct ServedRequest {
    record: u64,
    at_ms: u64,
    query: Query,
    picks: Vec<String>,
    called: Vec<String>,
}

/// What is going on in a session.
#[derive(Default)]
struct Session {
    open: VecDeque<ServedRequest>,
    task: Vec<String>,
    last_ms: u64,
}

/// What tools served, as far as the records were read.
#[derive(Default)]
pub(super) struct Served {
    sessions: HashMap<String, Session>,
    pub(super) requests: Vec<ServedRequest>,
    pub(super) tasks: Vec<Vec<String>>,
}

impl Served {
    /// Goes on with a record.
    pub(super) fn take(&mut self, read: Read) {
        match read.record {
            Record::Selection(selection) => {
                let Some(query) = selection.query else { return };
                let name = selection
                    .session
                    .unwrap_or_else(|| format!("key {}", selection.key));
                let picks = selection.picks.into_iter().map(|pick| pick.tool).collect();
                let (record, at_ms) = (read.number, read.at_ms);
                let session = self.session(name, at_ms);
                session.open.push_back(ServedRequest {
                    record,
                    at_ms,
                    query,
                    picks,
                    called: Vec::new(),
                });
                let oldest = if session.open.len() > OPEN {
                    session.open.pop_front()
                } else {
                    None
                };
                self.requests
                    .extend(oldest.filter(ServedRequest::is_served));
            }
            Record::Call(call) => {
                let Some(tool) = call.tool.filter(|_| call.outcome == "done") else {
                    return;
                };
                let at_ms = read.at_ms;
                let session = self.session(call.session, at_ms);
                let is_recent =
                    |request: &&mut ServedRequest| at_ms.saturating_sub(request.at_ms) <= FOR_IT_MS;
                let found_it = |request: &ServedRequest| request.picks.contains(&tool);
                // The latest that found the tool, else the latest.
                let place = session
                    .open
                    .iter()
                    .rposition(found_it)
                    .or(session.open.len().checked_sub(1));
                let request = place
                    .and_then(|place| session.open.get_mut(place))
                    .filter(is_recent);
                if let Some(request) = request
                    && request.called.len() < MAX_TOOLS
                    && !request.called.contains(&tool)
                {
                    request.called.push(tool.clone());
                }
                session.task.push(tool);
            }
            // Sessions of another run have the same names.
            Record::Policy(policy) if policy.changed.iter().any(|changed| changed == "start") => {
                self.end_sessions()
            }
            _ => {}
        }
    }

    /// A session that something is going on in.
    fn session(&mut self, name: String, at_ms: u64) -> &mut Session {
        if self.sessions.len() >= MAX_SESSIONS {
            let ended: Vec<String> = self
                .sessions
                .iter()
                .filter(|(_, session)| at_ms.saturating_sub(session.last_ms) > TASK_MS)
                .map(|(name, _)| name.clone())
                .collect();
            for name in ended {
                let session = self.sessions.remove(&name);
                self.close(session);
            }
        }
        let session = self.sessions.entry(name).or_default();
        if at_ms.saturating_sub(session.last_ms) > TASK_MS && !session.task.is_empty() {
            self.tasks.push(std::mem::take(&mut session.task));
        }
        session.last_ms = at_ms;
        session
    }

    fn close(&mut self, session: Option<Session>) {
        let Some(Session { open, task, .. }) = session else {
            return;
        };
        self.requests
            .extend(open.into_iter().filter(ServedRequest::is_served));
        self.tasks.extend((!task.is_empty()).then_some(task));
    }

    fn end_sessions(&mut self) {
        let mut sessions: Vec<(String, Session)> = self.sessions.drain().collect();
        sessions.sort_by(|a, b| a.0.cmp(&b.0));
        for (_, session) in sessions {
            self.close(Some(session));
        }
    }

    /// All of it, in the order of the records.
    pub(super) fn end(mut self) -> Self {
        self.end_sessions();
        self.requests.sort_by_key(|request| request.record);
        self
    }

    /// The requests, as `picktools eval --queries` reads them.
    pub(super) fn queries(&self) -> serde_json::Result<String> {
        lines(self.requests.iter().map(ServedRequest::line))
    }

    /// Which tools served them, as `picktools eval --qrels` reads it.
    pub(super) fn qrels(&self) -> Qrels {
        let mut qrels = Qrels::default();
        for request in &self.requests {
            for tool in &request.called {
                qrels.insert(request.id(), tool.clone(), 1);
            }
        }
        qrels
    }

    /// What tasks called, as `picktools pick --sequences` reads it.
    pub(super) fn sequences(&self) -> serde_json::Result<String> {
        lines(self.tasks.iter().map(|task| json!(task)))
    }
}

fn lines(values: impl Iterator<Item = Value>) -> serde_json::Result<String> {
    values
        .map(|value| Ok(format!("{}\n", serde_json::to_string(&value)?)))
        .collect()
}

impl ServedRequest {
    fn is_served(&self) -> bool {
        !self.called.is_empty()
    }

    fn id(&self) -> String {
        format!("record-{}", self.record)
    }

    /// A line of queries: the text alone, or the transcript that it ends.
    fn line(&self) -> Value {
        let query = &self.query;
        if query.context().is_empty() && query.called().is_empty() {
            return json!({"id": self.id(), "text": query.text()});
        }
        let said = |text: &str| json!({"role": "user", "content": text});
        let mut messages = Vec::new();
        messages.extend((!query.context().is_empty()).then(|| said(query.context())));
        let calls: Vec<Value> = query
            .called()
            .iter()
            .map(|name| json!({"type": "function", "function": {"name": name}}))
            .collect();
        messages.extend(
            (!calls.is_empty())
                .then(|| json!({"role": "assistant", "content": "", "tool_calls": calls})),
        );
        messages.push(said(query.text()));
        json!({"id": self.id(), "messages": messages})
    }
}

#[cfg(test)]
mod tests {
    use picktools_eval::QuerySet;

    use super::*;

    #[test]
    fn a_request_is_the_same_when_it_is_read_again() {
        let say = |role: &str, text: &str| json!({"role": role, "content": text});
        let call = json!({"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "function": {"name": "get_forecast"}},
            {"type": "function", "function": {"name": "book"}},
        ]});
        let talk = json!([
            say("user", "Weather in Nice?"),
            call,
            say("user", "hm"),
            say("user", "and in\nTurin?")
        ]);
        let only_called = json!([say("user", " "), call, say("user", "go on")]);
        for query in [
            Query::new("a\tb\n\u{0}c"),
            picktools_provider::query_from_value(&talk),
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
            let read = QuerySet::parse(text.as_bytes(), std::path::Path::new("queries.jsonl"))
                .expect("a line");
            assert_eq!(read.as_slice()[0].query(), query, "{text}");
        }
    }
}
