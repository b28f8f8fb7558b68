//! The Live section: a stream of picks, calls and approvals.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use picktools_gateway::hub::Hub;
use picktools_gateway::journal::JournalEntry;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout_at;

use super::filters;

/// The time after which a stream ends. The page then reconnects, and its key is checked again.
const MAX_STREAM_TIME: Duration = Duration::from_secs(300);
/// The number of picks of a selection that are shown.
const MAX_PICKS: usize = 8;

/// An entry of the journal as a row.
#[derive(Template, Default)]
#[template(path = "console/entry.html")]
struct JournalRow {
    at_ms: u64,
    kind: String,
    /// The outcome of a call, or the route of a request.
    tag: String,
    is_bad: bool,
    title: String,
    /// The key and the role of the caller.
    who: String,
    details: Vec<String>,
    time: String,
}

pub(super) async fn follow(
    State(hub): State<Arc<Hub>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let state = (hub.journal.subscribe(), Instant::now() + MAX_STREAM_TIME);
    let first = futures_util::stream::iter([Ok(Event::default().comment("listening"))]);
    let rows = unfold(state, |(mut entries, deadline)| async move {
        let event = next_event(&mut entries, deadline).await?;
        Some((event, (entries, deadline)))
    });
    Sse::new(futures_util::StreamExt::chain(first, rows)).keep_alive(KeepAlive::default())
}

/// Returns the next row as an event, or `None` at the end of the stream.
async fn next_event(
    entries: &mut Receiver<Arc<JournalEntry>>,
    deadline: Instant,
) -> Option<Result<Event, Infallible>> {
    loop {
        let row = match timeout_at(deadline.into(), entries.recv()).await.ok()? {
            // The row is built from the JSON form of the entry, as in the audit log.
            Ok(entry) => journal_row(&serde_json::to_value(&*entry).ok()?),
            Err(RecvError::Lagged(missed)) => JournalRow {
                kind: "missed".to_owned(),
                title: format!("{missed} entries were skipped: too many at once"),
                ..JournalRow::default()
            },
            Err(RecvError::Closed) => return None,
        };
        if let Ok(row) = row.render() {
            return Some(Ok(Event::default().data(row)));
        }
    }
}

fn journal_row(entry: &Value) -> JournalRow {
    let text = |member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    let time = entry["time_us"]
        .as_u64()
        .map_or_else(String::new, |us| match us {
            0..10_000 => format!("{}.{} ms", us / 1_000, us / 100 % 10),
            _ => format!("{} ms", us / 1_000),
        });
    let who: Vec<String> = [text("key"), text("role")]
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect();
    let mut row = JournalRow {
        at_ms: entry["at_ms"].as_u64().unwrap_or_default(),
        kind: text("kind"),
        who: who.join(" · "),
        time,
        ..JournalRow::default()
    };
    match row.kind.as_str() {
        "selection" => fill_selection(entry, &mut row),
        "call" => {
            row.title = if entry["tool"].is_string() {
                text("tool")
            } else {
                text("requested")
            };
            row.tag = text("outcome");
            row.is_bad = !["done", "asked"].contains(&row.tag.as_str());
            row.details.extend(short_text(&entry["arguments"]));
        }
        "approval" => {
            let subject = ["tool", "server", "call"]
                .into_iter()
                .find(|member| entry[*member].is_string());
            row.title = subject.map_or_else(String::new, text);
            row.tag = text("decision");
            row.details.extend(short_text(&entry["shown"]));
            row.who = entry["by"]["key"]
                .as_str()
                .or_else(|| entry["by"].as_str())
                .unwrap_or_default()
                .to_owned();
        }
        _ => {
            row.title = short_text(&entry["changed"])
                .map_or_else(String::new, |changed| format!("changed: {changed}"));
        }
    }
    row
}

fn fill_selection(entry: &Value, row: &mut JournalRow) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    row.tag = text(&entry["via"]).unwrap_or_default();
    let query = &entry["query"];
    let title = text(query)
        .or_else(|| text(&query["text"]))
        .or_else(|| text(&entry["api"]));
    row.title = title.unwrap_or_else(|| "request text not recorded".to_owned());
    if let Some(why) = entry["unchanged"].as_str() {
        row.details.push(format!("forwarded unchanged: {why}"));
    }
    if let (Some(shown), Some(total)) = (entry["shown"].as_u64(), entry["of"].as_u64()) {
        row.details.push(format!("{shown} of {total} tools"));
    }
    let picks = entry["picks"]
        .as_array()
        .into_iter()
        .flatten()
        .take(MAX_PICKS);
    row.details.extend(picks.filter_map(|pick| {
        match (pick["tool"].as_str(), pick["score"].as_f64()) {
            (Some(tool), Some(score)) => Some(format!("{tool} {score:.2}")),
            (tool, _) => tool.map(str::to_owned),
        }
    }));
    if entry["picks"].as_array().is_some_and(Vec::is_empty) {
        row.details.push("no tool fits".to_owned());
    }
    row.is_bad = entry["degraded"] == true;
}

/// Returns a value as short text, or `None` for `null`.
fn short_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(
            items
                .iter()
                .filter_map(short_text)
                .collect::<Vec<_>>()
                .join(", "),
        ),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entry_of_any_kind_becomes_a_row_with_escaped_text() {
        let hostile = "<img src=x onerror=alert(1)>\u{202e}";
        for (entry, expected) in [
            (
                json!({
                    "kind": "selection", "via": "search", "query": {"text": hostile},
                    "picks": [{"tool": "up/add", "score": 0.5}],
                }),
                ["&#60;img", "up/add 0.50", "search"],
            ),
            (
                json!({
                    "kind": "selection", "via": "model", "api": "/messages", "shown": 3, "of": 40,
                }),
                ["/messages", "3 of 40", "model"],
            ),
            (
                json!({
                    "kind": "call", "tool": hostile, "outcome": "timed_out", "time_us": 1_530,
                    "arguments": {"a": 1},
                }),
                ["&#60;img", "timed_out", "1.5 ms"],
            ),
            (
                json!({
                    "kind": "approval", "of": "definition", "tool": "up/grown",
                    "decision": "approved", "by": {"key": "ops"},
                }),
                ["up/grown", "approved", "ops"],
            ),
            (
                json!({"kind": "policy", "changed": ["settings", "catalog"]}),
                ["policy", "settings", "catalog"],
            ),
            (
                json!({"kind": "unknown kind"}),
                ["unknown kind", "entry", "<li"],
            ),
        ] {
            let html = journal_row(&entry).render().expect("it renders");
            for expected in expected {
                assert!(html.contains(expected), "{expected}: {html}");
            }
            assert!(
                !html.contains("<img") && !html.contains('\u{202e}'),
                "{html}"
            );
        }
    }
}
