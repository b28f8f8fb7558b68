//! What is decided, as it happens: picks, calls and approvals, told to whoever watches.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use picktools_gateway::hub::Hub;
use picktools_gateway::journal::Entry;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout_at;

use super::filters;

/// After how long a stream ends: the page then comes again, with a key that must be good still.
const LONGEST: Duration = Duration::from_secs(300);
/// How many picks of a selection are shown.
const PICKS: usize = 8;

/// An entry of the journal, as a row.
#[derive(Template, Default)]
#[template(path = "console/entry.html")]
struct Row {
    at_ms: u64,
    kind: String,
    /// How a call ended, or which way a request came.
    tag: String,
    is_bad: bool,
    title: String,
    /// Who.
    who: String,
    details: Vec<String>,
    time: String,
}

pub(super) async fn follow(
    State(hub): State<Arc<Hub>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let heard = (hub.journal.subscribe(), Instant::now() + LONGEST);
    let first = futures_util::stream::iter([Ok(Event::default().comment("listening"))]);
    let rows = unfold(heard, |(mut heard, until)| async move {
        Some((next(&mut heard, until).await?, (heard, until)))
    });
    Sse::new(futures_util::StreamExt::chain(first, rows)).keep_alive(KeepAlive::default())
}

/// The next row; `None` at the end.
async fn next(
    heard: &mut Receiver<Arc<Entry>>,
    until: Instant,
) -> Option<Result<Event, Infallible>> {
    loop {
        let row = match timeout_at(until.into(), heard.recv()).await.ok()? {
            // By its form as JSON, which is that of the audit.
            Ok(entry) => row(&serde_json::to_value(&*entry).ok()?),
            Err(RecvError::Lagged(missed)) => Row {
                kind: "missed".to_owned(),
                title: format!("{missed} entries came too fast"),
                ..Row::default()
            },
            Err(RecvError::Closed) => return None,
        };
        if let Ok(row) = row.render() {
            return Some(Ok(Event::default().data(row)));
        }
    }
}

fn row(entry: &Value) -> Row {
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
    let mut row = Row {
        at_ms: entry["at_ms"].as_u64().unwrap_or_default(),
        kind: text("kind"),
        who: who.join(" · "),
        time,
        ..Row::default()
    };
    match row.kind.as_str() {
        "selection" => selection(entry, &mut row),
        "call" => {
            row.title = if entry["tool"].is_string() {
                text("tool")
            } else {
                text("requested")
            };
            row.tag = text("outcome");
            row.is_bad = !["done", "asked"].contains(&row.tag.as_str());
            row.details.extend(told(&entry["arguments"]));
        }
        "approval" => {
            let of = ["tool", "server", "call"]
                .into_iter()
                .find(|member| entry[*member].is_string());
            row.title = of.map_or_else(String::new, text);
            row.tag = text("decision");
            row.details.extend(told(&entry["shown"]));
            row.who = entry["by"]["key"]
                .as_str()
                .or_else(|| entry["by"].as_str())
                .unwrap_or_default()
                .to_owned();
        }
        _ => {
            row.title = told(&entry["changed"])
                .map_or_else(String::new, |changed| format!("changed: {changed}"))
        }
    }
    row
}

fn selection(entry: &Value, row: &mut Row) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    row.tag = text(&entry["via"]).unwrap_or_default();
    let query = &entry["query"];
    let title = text(query)
        .or_else(|| text(&query["text"]))
        .or_else(|| text(&entry["api"]));
    row.title = title.unwrap_or_else(|| "a request that is not kept".to_owned());
    if let Some(why) = entry["unchanged"].as_str() {
        row.details.push(format!("went on as it came: {why}"));
    }
    if let (Some(shown), Some(of)) = (entry["shown"].as_u64(), entry["of"].as_u64()) {
        row.details.push(format!("{shown} of {of} tools"));
    }
    let picks = entry["picks"].as_array().into_iter().flatten().take(PICKS);
    row.details.extend(picks.filter_map(|pick| {
        match (pick["tool"].as_str(), pick["score"].as_f64()) {
            (Some(tool), Some(score)) => Some(format!("{tool} {score:.2}")),
            (tool, _) => tool.map(str::to_owned),
        }
    }));
    if entry["picks"].as_array().is_some_and(Vec::is_empty) {
        row.details.push("nothing fits".to_owned());
    }
    row.is_bad = entry["degraded"] == true;
}

/// A value in few words; `None` where there is nothing in it.
fn told(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().filter_map(told).collect::<Vec<_>>().join(", ")),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_of_any_kind_is_a_row_and_its_text_stays_text() {
        let hostile = "<img src=x onerror=alert(1)>\u{202e}";
        for (entry, expected) in [
            (
                json!({"kind": "selection", "via": "search", "query": {"text": hostile}, "picks": [{"tool": "up/add", "score": 0.5}]}),
                ["&#60;img", "up/add 0.50", "search"],
            ),
            (
                json!({"kind": "selection", "via": "model", "api": "/messages", "shown": 3, "of": 40}),
                ["/messages", "3 of 40", "model"],
            ),
            (
                json!({"kind": "call", "tool": hostile, "outcome": "timed_out", "time_us": 1_530, "arguments": {"a": 1}}),
                ["&#60;img", "timed_out", "1.5 ms"],
            ),
            (
                json!({"kind": "approval", "of": "definition", "tool": "up/grown", "decision": "approved", "by": {"key": "ops"}}),
                ["up/grown", "approved", "ops"],
            ),
            (
                json!({"kind": "policy", "changed": ["settings", "catalog"]}),
                ["policy", "settings", "catalog"],
            ),
            (
                json!({"kind": "of another day"}),
                ["of another day", "entry", "<li"],
            ),
        ] {
            let written = row(&entry).render().expect("it is written");
            for expected in expected {
                assert!(written.contains(expected), "{expected}: {written}");
            }
            assert!(
                !written.contains("<img") && !written.contains('\u{202e}'),
                "{written}"
            );
        }
    }
}
