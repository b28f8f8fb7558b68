//! What waits for the operator: definitions that are held, and calls; and what is decided of them.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use axum::{Extension, Json};
use picktools::excerpt::marked;
use picktools_gateway::guests::Sender;
use picktools_gateway::hub::Hub;
use picktools_gateway::journal::Approval;
use picktools_gateway::{CallQueue, Held, Pins, changes, journal};
use picktools_state::StateError;
use picktools_state::keys::now;
use serde::Deserialize;
use serde_json::Value;

use super::{Problem, blocking, filters, written};

/// The most characters of a value that are shown at either side.
const MAX_VALUE_CHARS: usize = 20_000;
/// The most members of a definition that are shown.
const MAX_CHANGES: usize = 100;

/// All that waits.
#[derive(Template)]
#[template(path = "console/waiting.html")]
struct Waiting {
    definitions: Vec<Definition>,
    /// Those that somebody refused.
    refused: Vec<Definition>,
    calls: Vec<Call>,
}

/// A definition that is held.
struct Definition {
    id: String,
    digest: String,
    why: String,
    age: String,
    findings: Vec<String>,
    changes: Vec<Change>,
    /// How many more there are.
    more: usize,
    has_approved: bool,
}

/// What became of one member.
struct Change {
    pointer: String,
    before: Option<Parts>,
    now: Option<Parts>,
}

/// A text, and what of it is not in the other one.
struct Parts {
    start: String,
    other: String,
    end: String,
}

impl Parts {
    /// Whether it is shown in a window of its own.
    fn is_long(&self) -> bool {
        self.start.len() + self.other.len() + self.end.len() > 1_000
    }
}

/// A call that waits.
struct Call {
    id: String,
    tool: String,
    shown: String,
    age: String,
}

fn failed(error: &StateError) -> Problem {
    Problem::new(StatusCode::CONFLICT, error.to_string())
}

fn pins(hub: &Hub) -> Result<Pins, Problem> {
    let none = || {
        Problem::new(
            StatusCode::CONFLICT,
            "this gateway believes all definitions, so that none is held",
        )
    };
    hub.pins.clone().ok_or_else(none)
}

fn queue(hub: &Hub) -> Result<CallQueue, Problem> {
    let none = || {
        Problem::new(
            StatusCode::CONFLICT,
            "calls do not wait for an operator at this gateway",
        )
    };
    hub.queue.clone().ok_or_else(none)
}

/// Refuses what could not be recorded.
fn ready(hub: &Hub) -> Result<(), Problem> {
    hub.journal
        .ready()
        .map_err(|refusal| Problem::new(StatusCode::SERVICE_UNAVAILABLE, refusal.message))
}

/// Notes who decided what.
fn note(hub: &Hub, sender: &Sender, of: journal::Waiting, decision: &'static str) {
    tracing::info!(target: "picktools::console", key = %sender.key, ?of, decision);
    hub.journal.approved(Approval {
        of,
        decision,
        by: Some(sender.key.to_string()),
    });
}

pub(super) async fn list(State(hub): State<Arc<Hub>>) -> Result<Html<String>, Problem> {
    blocking(move || written(&waiting(&hub)?)).await
}

/// How many definitions and calls wait.
pub(super) async fn count(State(hub): State<Arc<Hub>>) -> Result<String, Problem> {
    blocking(move || {
        let held = hub
            .pins
            .as_ref()
            .map(Pins::held)
            .transpose()
            .map_err(|error| failed(&error))?
            .unwrap_or_default();
        let calls = hub
            .queue
            .as_ref()
            .map(CallQueue::waiting)
            .transpose()
            .map_err(|error| failed(&error))?;
        let definitions = held.values().filter(|held| !held.denied).count();
        Ok((definitions + calls.unwrap_or_default().len()).to_string())
    })
    .await
}

fn waiting(hub: &Hub) -> Result<Waiting, Problem> {
    let mut waiting = Waiting {
        definitions: Vec::new(),
        refused: Vec::new(),
        calls: Vec::new(),
    };
    if let Some(pins) = &hub.pins {
        for (id, held) in pins.held().map_err(|error| failed(&error))? {
            let approved = pins.approved(&id).map_err(|error| failed(&error))?;
            let list = if held.denied {
                &mut waiting.refused
            } else {
                &mut waiting.definitions
            };
            list.push(definition(id, &held, approved.as_ref()));
        }
    }
    if let Some(queue) = &hub.queue {
        let calls = queue.waiting().map_err(|error| failed(&error))?;
        let call = |(id, call): (String, picktools_gateway::QueuedCall)| Call {
            id,
            tool: call.tool,
            shown: call.shown,
            age: age(call.at),
        };
        waiting.calls = calls.into_iter().map(call).collect();
    }
    Ok(waiting)
}

fn definition(id: String, held: &Held, approved: Option<&Value>) -> Definition {
    let changes = changes(approved, &held.definition);
    let more = changes.len().saturating_sub(MAX_CHANGES);
    let change = |(pointer, (before, now)): (String, (Option<Value>, Option<Value>))| {
        let text = |value: Value| match value {
            Value::String(text) => filters::lines(&text),
            other => filters::lines(&other.to_string()),
        };
        let (before, now) = parts(before.map(text), now.map(text));
        Change {
            pointer,
            before,
            now,
        }
    };
    Definition {
        id,
        digest: held.digest.clone(),
        why: held.why.to_string(),
        age: age(held.seen),
        findings: held.findings.clone(),
        changes: changes.into_iter().take(MAX_CHANGES).map(change).collect(),
        more,
        has_approved: approved.is_some(),
    }
}

/// What two texts have in common at their beginning and end, whole words of it, and what they do
/// not.
fn parts(before: Option<String>, now: Option<String>) -> (Option<Parts>, Option<Parts>) {
    let whole = |text: String| Parts {
        start: cut(&text),
        other: String::new(),
        end: String::new(),
    };
    let (Some(old), Some(new)) = (&before, &now) else {
        return (before.map(whole), now.map(whole));
    };
    let same = |(a, b): &(char, char)| a == b;
    let bytes = |(c, _): (char, char)| c.len_utf8();
    let mut start: usize = old
        .chars()
        .zip(new.chars())
        .take_while(same)
        .map(bytes)
        .sum();
    // No word is shown in two halves.
    if !(is_edge(old, start) && is_edge(new, start)) {
        let gap = old[..start]
            .char_indices()
            .rev()
            .find(|(_, c)| c.is_whitespace());
        start = gap.map_or(0, |(at, c)| at + c.len_utf8());
    }
    let ends = old[start..].chars().rev().zip(new[start..].chars().rev());
    let mut end: usize = ends.take_while(same).map(bytes).sum();
    if !(is_edge(old, old.len() - end) && is_edge(new, new.len() - end)) {
        end = old[old.len() - end..]
            .find(char::is_whitespace)
            .map_or(0, |at| end - at);
    }
    let split = |text: &str| {
        let last = text.len() - end;
        Some(Parts {
            start: cut(&text[..start]),
            other: cut(&text[start..last]),
            end: cut(&text[last..]),
        })
    };
    (split(old), split(new))
}

/// Whether a word begins or ends here.
fn is_edge(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    !before.ends_with(char::is_alphanumeric) || !after.starts_with(char::is_alphanumeric)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn age(at: u64) -> String {
    match now().saturating_sub(at) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// What is decided of a definition, by what was shown of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefinitionDecision {
    id: String,
    digest: String,
    approve: bool,
}

pub(super) async fn decide_definition(
    State(hub): State<Arc<Hub>>,
    Extension(sender): Extension<Sender>,
    Json(DefinitionDecision {
        id,
        digest,
        approve,
    }): Json<DefinitionDecision>,
) -> Result<String, Problem> {
    blocking(move || {
        let pins = pins(&hub)?;
        ready(&hub)?;
        let shown = digest.clone();
        let done = if approve {
            pins.approve(&[(id.clone(), digest)])
                .map_err(|error| failed(&error))?;
            "approved"
        } else {
            pins.deny(&id, &digest).map_err(|error| failed(&error))?;
            "refused"
        };
        let of = journal::Waiting::Definition {
            id: id.clone(),
            digest: shown,
        };
        note(
            &hub,
            &sender,
            of,
            if approve { "approved" } else { "denied" },
        );
        Ok(format!("{done}: {}", marked(&id, 200)))
    })
    .await
}

/// What is decided of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallDecision {
    id: String,
    run: bool,
}

pub(super) async fn decide_call(
    State(hub): State<Arc<Hub>>,
    Extension(sender): Extension<Sender>,
    Json(CallDecision { id, run }): Json<CallDecision>,
) -> Result<String, Problem> {
    blocking(move || {
        let queue = queue(&hub)?;
        ready(&hub)?;
        let call = queue.decide(&id, run).map_err(|error| failed(&error))?;
        let done = if run {
            "may run once, within ten minutes"
        } else {
            "refused"
        };
        let of = journal::Waiting::Call {
            id,
            tool: call.tool,
            shown: call.shown.clone(),
        };
        note(&hub, &sender, of, if run { "allowed" } else { "denied" });
        Ok(format!("{done}: {}", marked(&call.shown, 200)))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_shown_in_whole_words() {
        for (before, now, expected) in [
            (
                "Reads a file",
                "Reads a folder",
                ["Reads a [file]", "Reads a [folder]"],
            ),
            (
                "Reads a file",
                "Reads a big file",
                ["Reads a []file", "Reads a [big ]file"],
            ),
            (
                "Gives a text back",
                "Gives a text back in time",
                ["Gives a text back[]", "Gives a text back[ in time]"],
            ),
            ("größer als", "größte als", ["[größer] als", "[größte] als"]),
            ("a a a", "a a", ["a a[ a]", "a a[]"]),
            ("é b", "è b", ["[é] b", "[è] b"]),
            (
                "x\u{3000}yz",
                "x\u{3000}yw",
                ["x\u{3000}[yz]", "x\u{3000}[yw]"],
            ),
            ("", "new", ["[]", "[new]"]),
            ("the same", "the same", ["the same[]", "the same[]"]),
        ] {
            let (old, new) = parts(Some(before.to_owned()), Some(now.to_owned()));
            let shown = |parts: Option<Parts>| {
                parts.map(|it| format!("{}[{}]{}", it.start, it.other, it.end))
            };
            assert_eq!(
                [shown(old), shown(new)],
                expected.map(|text| Some(text.to_owned())),
                "{before:?} {now:?}"
            );
        }
    }
}
