//! Trying a request: what a search of a role would find, and why.

use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use picktools::catalog::Detail;
use picktools::options::TellBlocked;
use picktools::selection::{Considered, NothingFits, TokenReport};
use picktools::{Pick, PickError, PickOptions, Query, Selection};
use picktools_gateway::front;
use picktools_gateway::hub::Hub;
use picktools_gateway::snapshot::{Snapshot, View};
use serde::Deserialize;

use super::signals::{Bar, Scale, Word, percent, words};
use super::{Problem, filters, roles, written};

/// The most picks.
const MOST: usize = 50;
/// How long it may take.
const TIME: Duration = Duration::from_secs(10);
/// How many of those that were not picked are shown.
const NEXT: usize = 20;

/// What is tried.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attempt {
    request: String,
    picks: usize,
    role: String,
}

/// What was picked.
struct Tried {
    selection: Selection,
    /// With what is below the threshold.
    all: Selection,
    time: Duration,
}

/// What came of it.
#[derive(Template)]
#[template(path = "console/picks.html")]
struct Picks {
    picks: Vec<Shown>,
    none: &'static str,
    facts: Vec<Fact>,
    notes: Vec<String>,
    excluded: usize,
    counts: Vec<(&'static str, usize)>,
    /// Tools that the role may not see, and why.
    tools: Vec<(String, String)>,
    /// What was considered and not picked: the tool, its score, and why.
    next: Vec<(String, String, String)>,
    stages: Vec<(String, String, String)>,
}

/// A figure of the whole.
struct Fact {
    label: &'static str,
    figure: String,
    note: String,
    /// A bar under the figure, in percent.
    percent: Option<u8>,
}

/// A pick.
struct Shown {
    id: String,
    score: String,
    percent: u8,
    reason: String,
    description: String,
    bars: Vec<Bar>,
    words: Vec<Word>,
    flags: Vec<&'static str>,
    notes: Vec<String>,
}

pub(super) async fn attempt(
    State(hub): State<Arc<Hub>>,
    Json(asked): Json<Attempt>,
) -> Result<Html<String>, Problem> {
    if !roles(&hub).contains(&asked.role) {
        return Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "the settings have no such role; load the page again",
        ));
    }
    let snapshot = hub.snapshot();
    let view = snapshot.view(&asked.role).map_err(Problem::of)?;
    let options = options(&snapshot, &view, asked.picks.clamp(1, MOST));
    let query = Query::new(asked.request);
    // All that match at all, so that one sees what is below the threshold.
    let all = PickOptions {
        min_score: 0.0,
        token_budget: None,
        ..options.clone()
    };
    let failed = |error: PickError| Problem::new(StatusCode::BAD_REQUEST, error.to_string());
    let started = Instant::now();
    let selection = snapshot
        .pick_async(query.clone(), options)
        .await
        .map_err(failed)?;
    let time = started.elapsed();
    let all = snapshot.pick_async(query, all).await.map_err(failed)?;
    written(&told(
        &snapshot,
        &view,
        &Tried {
            selection,
            all,
            time,
        },
    ))
}

/// Picks as a search of the role does, with all that is known of it.
fn options(snapshot: &Snapshot, view: &View, picks: usize) -> PickOptions {
    let timeout = Some(TIME);
    PickOptions {
        timeout,
        debug: true,
        tell_blocked: TellBlocked::Always,
        ..front::options(snapshot, view, picks)
    }
}

fn told(snapshot: &Snapshot, view: &View, tried: &Tried) -> Picks {
    let Tried {
        selection,
        all,
        time,
    } = tried;
    let scale = Scale::of(selection, all);
    let required = selection.required.iter().map(|pick| (pick, true));
    let picks = selection
        .picks
        .iter()
        .map(|pick| (pick, false))
        .chain(required);
    let ineligible = selection.ineligible.tools.iter();
    let none = if view.tools.is_empty() {
        "This role may see no tool."
    } else {
        "No tool fits."
    };
    Picks {
        picks: picks
            .map(|(pick, is_required)| shown(pick, is_required, &scale))
            .collect(),
        none,
        facts: facts(snapshot, selection, *time),
        notes: notes(selection),
        excluded: selection.ineligible.total,
        counts: selection
            .ineligible
            .counts
            .iter()
            .map(|(code, count)| (*code, *count))
            .collect(),
        tools: ineligible
            .map(|tool| (tool.tool_id.clone(), reasons(&tool.reasons)))
            .collect(),
        next: next(selection, all),
        stages: stages(selection),
    }
}

fn reasons(reasons: &[picktools::access::IneligibleReason]) -> String {
    reasons
        .iter()
        .map(picktools::access::IneligibleReason::describe)
        .collect::<Vec<_>>()
        .join("; ")
}

fn shown(pick: &Pick, is_required: bool, scale: &Scale) -> Shown {
    let provenance = &pick.provenance;
    let flags = [
        ("unsafe", pick.tool.is_unsafe()),
        ("untrusted", pick.tool.untrusted),
        ("required by a pick", is_required),
        ("named in the request", provenance.named.is_some()),
    ];
    let mut notes = Vec::new();
    if let Some(definition) = pick.definition {
        let detail = if definition.detail == Detail::Full {
            "whole"
        } else {
            definition.detail.name()
        };
        notes.push(format!(
            "definition: {detail}, {} tokens",
            definition.tokens
        ));
    }
    if let Some(covers) = &provenance.covers {
        notes.push(format!("for the part “{}”", covers.part));
    }
    if !pick.same_as.is_empty() {
        notes.push(format!("the same as {}", pick.same_as.join(", ")));
    }
    if !provenance.requires_ineligible.is_empty() {
        notes.push(format!(
            "requires {}, which the role may not see",
            provenance.requires_ineligible.join(", ")
        ));
    }
    Shown {
        id: pick.tool.id.clone(),
        score: format!("{:.2}", pick.score),
        percent: percent(pick.score),
        reason: pick.reason.clone(),
        description: pick.tool.description.clone(),
        bars: scale.bars(provenance),
        words: words(provenance),
        flags: flags
            .into_iter()
            .filter(|(_, holds)| *holds)
            .map(|(flag, _)| flag)
            .collect(),
        notes,
    }
}

fn facts(snapshot: &Snapshot, selection: &Selection, time: Duration) -> Vec<Fact> {
    let mut facts = Vec::new();
    let fact = |label, figure, note: String| Fact {
        label,
        figure,
        note,
        percent: None,
    };
    if let Some(answerable) = selection.answerable {
        let figure = format!("{answerable:.2}");
        let note = "that any tool of the role answers it".to_owned();
        facts.push(Fact {
            label: "answerable",
            figure,
            note,
            percent: Some(percent(answerable)),
        });
    }
    let considered = snapshot
        .engine
        .catalog()
        .len()
        .saturating_sub(selection.ineligible.total);
    facts.push(fact(
        "picked",
        selection.picks.len().to_string(),
        format!("of {considered} that the role may see"),
    ));
    facts.push(fact(
        "below the threshold",
        selection.below_threshold.to_string(),
        "or without a match".to_owned(),
    ));
    if let Some(TokenReport { picks, catalog, .. }) = &selection.tokens {
        let catalog = catalog.filter(|all| *all > 0);
        let note = catalog.map_or_else(String::new, |all| {
            format!("of {} for all tools", grouped(all))
        });
        let share = catalog.map(|all| percent(*picks as f32 / all as f32));
        facts.push(Fact {
            label: "tokens",
            figure: grouped(*picks),
            note,
            percent: share,
        });
    }
    let time = format!("{:.1} ms", time.as_secs_f64() * 1e3);
    facts.push(fact(
        "time",
        time,
        format!("ranked by {}", selection.scorer),
    ));
    facts
}

/// A count with its thousands apart.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let places = digits
        .char_indices()
        .map(|(place, digit)| match digits.len() - place {
            left if place > 0 && left.is_multiple_of(3) => format!(",{digit}"),
            _ => digit.to_string(),
        });
    places.collect()
}

fn notes(selection: &Selection) -> Vec<String> {
    let mut notes = Vec::new();
    match &selection.nothing_fits {
        Some(NothingFits::NearSource { source }) => {
            notes.push(format!(
                "Of all servers {source} is near what is asked for."
            ));
        }
        Some(NothingFits::OutOfScope) => {
            notes.push("No server is near what is asked for.".to_owned())
        }
        _ => {}
    }
    if let Some(blocked) = &selection.blocked {
        notes.push(format!(
            "{} would be the best, with a score of {:.2}, but is left out: {}.",
            blocked.tool_id,
            blocked.score,
            reasons(&blocked.reasons)
        ));
    }
    if let Some(why) = selection.uncalibrated {
        notes.push(format!("The scores are no probabilities: {why}."));
    }
    notes.extend(
        selection
            .degraded
            .iter()
            .map(|degraded| format!("{}: {}.", degraded.stage, degraded.reason)),
    );
    notes
}

/// The best of those that were not picked.
fn next(selection: &Selection, all: &Selection) -> Vec<(String, String, String)> {
    let least = PickOptions::default().min_score;
    let why = |candidate: &Considered| {
        let dropped = selection
            .dropped
            .iter()
            .find(|dropped| dropped.tool_id == candidate.tool_id);
        match dropped {
            Some(dropped) => dropped.reason.to_string(),
            None if candidate.score < least => format!("below the threshold of {least}"),
            None => "others rank higher".to_owned(),
        }
    };
    let picks: Vec<&str> = selection
        .picks
        .iter()
        .chain(&selection.required)
        .map(|pick| pick.tool.id.as_str())
        .collect();
    let others = all
        .considered
        .iter()
        .flatten()
        .filter(|candidate| !picks.contains(&candidate.tool_id.as_str()));
    let told = |candidate: &Considered| {
        (
            candidate.tool_id.clone(),
            format!("{:.3}", candidate.score),
            why(candidate),
        )
    };
    others.take(NEXT).map(told).collect()
}

fn stages(selection: &Selection) -> Vec<(String, String, String)> {
    let time = |stage| {
        let time = selection
            .timings
            .0
            .iter()
            .find(|(timed, _)| *timed == stage);
        time.map_or_else(String::new, |(_, time)| {
            format!("{:.2} ms", time.as_secs_f64() * 1e3)
        })
    };
    selection
        .stages
        .iter()
        .map(|report| {
            (
                report.stage.to_string(),
                report.status.to_string(),
                time(report.stage),
            )
        })
        .collect()
}
