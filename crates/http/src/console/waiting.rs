//! The Waiting section: quarantined definitions and pending calls, and the decisions on them.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use axum::{Extension, Json};
use picktools::excerpt::marked;
use picktools_gateway::api_keys::RequestIdentity;
use picktools_gateway::hub::Hub;
use picktools_gateway::journal::Approval;
use picktools_gateway::{
    ApprovalScope, CallDecision, CallQueue, Pins, QuarantinedDefinition, QueuedCall, changes,
    journal,
};
use picktools_state::StateError;
use picktools_state::keys::now;
use serde::Deserialize;
use serde_json::Value;

use super::answer::{ConsoleError, render, run_blocking};
use super::filters;

/// The largest length of each shown part of a value, in characters.
const MAX_VALUE_CHARS: usize = 20_000;
/// The largest number of changed members of a definition that are shown.
const MAX_CHANGES: usize = 100;

/// Everything that waits for a decision, as a fragment.
#[derive(Template)]
#[template(path = "console/waiting.html")]
struct WaitingFragment {
    definitions: Vec<DefinitionView>,
    /// The definitions that an operator refused.
    refused: Vec<DefinitionView>,
    calls: Vec<CallView>,
    /// The approvals that hold always.
    remembered: Vec<RememberedView>,
}

/// A quarantined definition.
struct DefinitionView {
    id: String,
    digest: String,
    /// The version that a decision must state.
    version: String,
    reason: String,
    age: String,
    findings: Vec<String>,
    changes: Vec<ChangeView>,
    /// The number of changes that are not shown.
    more: usize,
    /// `true` if an earlier definition of this tool was approved.
    has_approved: bool,
}

/// The change of one member of a definition.
struct ChangeView {
    pointer: String,
    approved: Option<DiffText>,
    current: Option<DiffText>,
}

/// A text with the part that differs from another text.
struct DiffText {
    start: String,
    different: String,
    end: String,
}

impl DiffText {
    /// Returns `true` if the text is shown in a scrolling box.
    fn is_long(&self) -> bool {
        self.start.len() + self.different.len() + self.end.len() > 1_000
    }
}

/// A pending call.
struct CallView {
    id: String,
    tool: String,
    shown: String,
    age: String,
    /// The names and titles of the scopes that an approval may have.
    scopes: Vec<(&'static str, &'static str)>,
}

impl CallView {
    fn new(id: String, call: QueuedCall) -> Self {
        let scopes = call.scopes.iter();
        Self {
            id,
            tool: call.tool,
            shown: call.shown,
            age: format_age(call.at),
            scopes: scopes.map(|scope| (scope.name(), scope.title())).collect(),
        }
    }
}

/// An approval that holds always.
struct RememberedView {
    id: String,
    tool: String,
    client: String,
    age: String,
}

fn state_error(error: &StateError) -> ConsoleError {
    ConsoleError::new(StatusCode::CONFLICT, error.to_string())
}

/// Returns the pins, or an error if the gateway quarantines no definitions.
fn require_pins(hub: &Hub) -> Result<Pins, ConsoleError> {
    let disabled = || {
        ConsoleError::new(
            StatusCode::CONFLICT,
            "this gateway trusts all definitions; none is quarantined",
        )
    };
    hub.approvals.pins.clone().ok_or_else(disabled)
}

/// Returns the queue, or an error if calls do not wait for an operator.
fn require_queue(hub: &Hub) -> Result<CallQueue, ConsoleError> {
    let disabled = || {
        ConsoleError::new(
            StatusCode::CONFLICT,
            "this gateway does not queue calls for an operator",
        )
    };
    hub.approvals.queue.clone().ok_or_else(disabled)
}

/// Refuses a decision if the audit log cannot record it.
fn check_journal(hub: &Hub) -> Result<(), ConsoleError> {
    hub.journal
        .ready()
        .map_err(|refusal| ConsoleError::new(StatusCode::SERVICE_UNAVAILABLE, refusal.message))
}

/// Records a decision, with the key of the operator.
fn record_decision(
    hub: &Hub,
    sender: &RequestIdentity,
    subject: journal::ApprovalSubject,
    decision: &'static str,
) {
    tracing::info!(target: "picktools::console", key = %sender.key, ?subject, decision);
    hub.journal.record_approval(Approval {
        subject,
        decision,
        by: Some(sender.key.to_string()),
    });
}

pub(super) async fn list(State(hub): State<Arc<Hub>>) -> Result<Html<String>, ConsoleError> {
    run_blocking(move || render(&waiting_fragment(&hub)?)).await
}

/// Returns the number of definitions and calls that wait for a decision.
pub(super) async fn count(State(hub): State<Arc<Hub>>) -> Result<String, ConsoleError> {
    run_blocking(move || {
        let quarantined = hub
            .approvals
            .pins
            .as_ref()
            .map(Pins::quarantined)
            .transpose()
            .map_err(|error| state_error(&error))?
            .unwrap_or_default();
        let calls = hub
            .approvals
            .queue
            .as_ref()
            .map(CallQueue::pending)
            .transpose()
            .map_err(|error| state_error(&error))?;
        let definitions = quarantined
            .values()
            .filter(|definition| !definition.denied)
            .count();
        Ok((definitions + calls.unwrap_or_default().len()).to_string())
    })
    .await
}

fn waiting_fragment(hub: &Hub) -> Result<WaitingFragment, ConsoleError> {
    let mut fragment = WaitingFragment {
        definitions: Vec::new(),
        refused: Vec::new(),
        calls: Vec::new(),
        remembered: Vec::new(),
    };
    if let Some(pins) = &hub.approvals.pins {
        for (id, quarantined) in pins.quarantined().map_err(|error| state_error(&error))? {
            let approved = pins.approved(&id).map_err(|error| state_error(&error))?;
            let list = if quarantined.denied {
                &mut fragment.refused
            } else {
                &mut fragment.definitions
            };
            list.push(definition_view(id, &quarantined, approved.as_ref()));
        }
    }
    if let Some(queue) = &hub.approvals.queue {
        for (id, call) in queue.pending().map_err(|error| state_error(&error))? {
            fragment.calls.push(CallView::new(id, call));
        }
        for (id, approval) in queue.remembered().map_err(|error| state_error(&error))? {
            fragment.remembered.push(RememberedView {
                id,
                tool: approval.tool,
                client: approval.client,
                age: format_age(approval.at),
            });
        }
    }
    Ok(fragment)
}

fn definition_view(
    id: String,
    quarantined: &QuarantinedDefinition,
    approved: Option<&Value>,
) -> DefinitionView {
    let text = |value: Value| match value {
        Value::String(text) => filters::lines(&text),
        other => filters::lines(&other.to_string()),
    };
    let changes = changes(approved, &quarantined.definition);
    let more = changes.len().saturating_sub(MAX_CHANGES);
    let mut views = Vec::new();
    for (pointer, (approved, current)) in changes.into_iter().take(MAX_CHANGES) {
        let (approved, current) = diff(approved.map(text), current.map(text));
        views.push(ChangeView {
            pointer,
            approved,
            current,
        });
    }
    DefinitionView {
        id,
        digest: quarantined.digest.clone(),
        version: quarantined.version(),
        reason: quarantined.reason.to_string(),
        age: format_age(quarantined.first_seen),
        findings: quarantined.findings.clone(),
        changes: views,
        more,
        has_approved: approved.is_some(),
    }
}

/// Splits two texts into their common beginning, the different part, and their common end.
///
/// The different part begins and ends at word boundaries.
fn diff(approved: Option<String>, current: Option<String>) -> (Option<DiffText>, Option<DiffText>) {
    let unmarked = |text: String| DiffText {
        start: truncate(&text),
        different: String::new(),
        end: String::new(),
    };
    let (Some(old), Some(new)) = (&approved, &current) else {
        return (approved.map(unmarked), current.map(unmarked));
    };
    let same = |(a, b): &(char, char)| a == b;
    let bytes = |(c, _): (char, char)| c.len_utf8();
    let mut start: usize = old
        .chars()
        .zip(new.chars())
        .take_while(same)
        .map(bytes)
        .sum();
    // A word is not split.
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
        Some(DiffText {
            start: truncate(&text[..start]),
            different: truncate(&text[start..last]),
            end: truncate(&text[last..]),
        })
    };
    (split(old), split(new))
}

/// Returns `true` if the position is not inside a word.
fn is_edge(text: &str, at: usize) -> bool {
    let (start, end) = text.split_at(at);
    !start.ends_with(char::is_alphanumeric) || !end.starts_with(char::is_alphanumeric)
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn format_age(at: u64) -> String {
    match now().saturating_sub(at) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// A decision on a definition, identified by the version that was shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefinitionDecision {
    id: String,
    version: String,
    approve: bool,
}

pub(super) async fn decide_definition(
    State(hub): State<Arc<Hub>>,
    Extension(sender): Extension<RequestIdentity>,
    Json(DefinitionDecision {
        id,
        version,
        approve,
    }): Json<DefinitionDecision>,
) -> Result<String, ConsoleError> {
    run_blocking(move || {
        let pins = require_pins(&hub)?;
        check_journal(&hub)?;
        let quarantined = pins.quarantined().map_err(|error| state_error(&error))?;
        let digest = quarantined
            .get(&id)
            .map(|definition| definition.digest.clone());
        let subject = journal::ApprovalSubject::Definition {
            id: id.clone(),
            digest: digest.unwrap_or_default(),
        };
        if approve {
            pins.approve(&[(id.clone(), version)])
                .map_err(|error| state_error(&error))?;
        } else {
            pins.deny(&id, &version)
                .map_err(|error| state_error(&error))?;
        }
        let (decision, message) = if approve {
            ("approved", "approved")
        } else {
            ("denied", "refused")
        };
        record_decision(&hub, &sender, subject, decision);
        Ok(format!("{message}: {}", marked(&id, 200)))
    })
    .await
}

/// A decision on a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallForm {
    id: String,
    run: bool,
    /// The calls for which an approval holds.
    #[serde(default)]
    scope: ApprovalScope,
}

pub(super) async fn decide_call(
    State(hub): State<Arc<Hub>>,
    Extension(sender): Extension<RequestIdentity>,
    Json(CallForm { id, run, scope }): Json<CallForm>,
) -> Result<String, ConsoleError> {
    run_blocking(move || {
        let queue = require_queue(&hub)?;
        check_journal(&hub)?;
        let decision = match run {
            true => CallDecision::Allow(scope),
            false => CallDecision::Deny,
        };
        let call = queue
            .decide(&id, decision)
            .map_err(|error| state_error(&error))?;
        let (recorded, message) = match decision {
            CallDecision::Allow(ApprovalScope::Call) => {
                ("allowed", "may run once, within ten minutes".to_owned())
            }
            CallDecision::Allow(scope) => {
                let calls = scope.title().to_lowercase();
                (
                    scope.decision(),
                    format!("may run within ten minutes ({calls})"),
                )
            }
            CallDecision::Deny => ("denied", "refused".to_owned()),
        };
        let subject = journal::ApprovalSubject::Call {
            id,
            tool: call.tool,
            shown: call.shown.clone(),
        };
        record_decision(&hub, &sender, subject, recorded);
        Ok(format!("{message}: {}", marked(&call.shown, 200)))
    })
    .await
}

/// The revocation of an approval that holds always.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Revocation {
    id: String,
}

pub(super) async fn revoke(
    State(hub): State<Arc<Hub>>,
    Extension(sender): Extension<RequestIdentity>,
    Json(Revocation { id }): Json<Revocation>,
) -> Result<String, ConsoleError> {
    run_blocking(move || {
        let queue = require_queue(&hub)?;
        check_journal(&hub)?;
        let revoked = queue.revoke(&id).map_err(|error| state_error(&error))?;
        let message = format!("revoked: {}", marked(&revoked.tool, 200));
        let subject = journal::ApprovalSubject::Remembered {
            tool: revoked.tool,
            client: revoked.client,
        };
        record_decision(&hub, &sender, subject, "revoked");
        Ok(message)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_marks_complete_words() {
        for (approved, current, expected) in [
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
            let (old, new) = diff(Some(approved.to_owned()), Some(current.to_owned()));
            let format_diff = |text: Option<DiffText>| {
                text.map(|it| format!("{}[{}]{}", it.start, it.different, it.end))
            };
            assert_eq!(
                [format_diff(old), format_diff(new)],
                expected.map(|text| Some(text.to_owned())),
                "{approved:?} {current:?}"
            );
        }
    }
}
