//! The Try section: the picks of a request for a role, with their evidence.

use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use picktools::catalog::Detail;
use picktools::options::BlockedReporting;
use picktools::selection::{ConsideredCandidate, TokenReport};
use picktools::{Pick, PickError, PickOptions, Query, Selection};
use picktools_gateway::front;
use picktools_gateway::hub::Hub;
use picktools_gateway::settings::DEFAULT_ROLE;
use picktools_gateway::snapshot::{Snapshot, View};
use serde::Deserialize;

use super::answer::{ConsoleError, render};
use super::filters;
use super::signals::{Bar, MatchedWord, Scale, matched_words, percent};

/// The largest number of picks.
const MAX_PICKS: usize = 50;
/// The timeout of a pick.
const PICK_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of candidates shown that were not picked.
const MAX_CONSIDERED: usize = 20;

/// The form of the section.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TryForm {
    request: String,
    picks: usize,
    role: String,
}

/// The selection for a request.
struct TryResult {
    selection: Selection,
    /// The same selection without threshold and token budget.
    all: Selection,
    /// A selection among the tools of all roles, for its ineligible tools.
    with_hidden: Selection,
    time: Duration,
}

/// The result, as a fragment.
#[derive(Template)]
#[template(path = "console/picks.html")]
struct PicksFragment {
    picks: Vec<PickView>,
    /// The text for an empty list of picks.
    none: &'static str,
    facts: Vec<Fact>,
    notes: Vec<String>,
    excluded: usize,
    counts: Vec<(&'static str, usize)>,
    ineligible: Vec<IneligibleView>,
    /// The best candidates that were not picked.
    considered: Vec<CandidateView>,
    stages: Vec<StageView>,
}

/// A tool that the role may not use.
struct IneligibleView {
    tool: String,
    reasons: String,
}

/// A candidate that was not picked.
struct CandidateView {
    tool: String,
    score: String,
    reason: String,
}

/// A stage of the pick.
struct StageView {
    stage: String,
    status: String,
    time: String,
}

/// A figure about the selection.
struct Fact {
    label: &'static str,
    figure: String,
    note: String,
    /// The length of the bar under the figure, in percent.
    percent: Option<u8>,
}

/// A pick with its evidence.
struct PickView {
    id: String,
    score: String,
    percent: u8,
    reason: String,
    description: String,
    bars: Vec<Bar>,
    words: Vec<MatchedWord>,
    flags: Vec<&'static str>,
    notes: Vec<String>,
}

pub(super) async fn try_request(
    State(hub): State<Arc<Hub>>,
    Json(form): Json<TryForm>,
) -> Result<Html<String>, ConsoleError> {
    if !role_names(&hub).contains(&form.role) {
        return Err(ConsoleError::new(
            StatusCode::BAD_REQUEST,
            "unknown role; reload the page",
        ));
    }
    let snapshot = hub.registry.snapshot();
    let view = snapshot
        .view(&form.role)
        .map_err(ConsoleError::from_refusal)?;
    let options = pick_options(&snapshot, &view, form.picks.clamp(1, MAX_PICKS));
    let query = Query::new(form.request);
    // A second pick without threshold shows the candidates below it.
    let options_for_all = PickOptions {
        min_score: 0.0,
        token_budget: None,
        ..options.clone()
    };
    let pick_error =
        |error: PickError| ConsoleError::new(StatusCode::BAD_REQUEST, error.to_string());
    let started = Instant::now();
    let selection = view
        .pick_async(query.clone(), options.clone())
        .await
        .map_err(ConsoleError::from_refusal)?;
    let time = started.elapsed();
    let all = view
        .pick_async(query.clone(), options_for_all)
        .await
        .map_err(ConsoleError::from_refusal)?;
    // The operator may know the tools that the role may not.
    let options_with_hidden = PickOptions {
        access: view.complete_access.clone(),
        ..options
    };
    let with_hidden = snapshot
        .engine
        .pick_async(query, options_with_hidden)
        .await
        .map_err(pick_error)?;
    let result = TryResult {
        selection,
        all,
        with_hidden,
        time,
    };
    render(&picks_fragment(&view, &result))
}

/// Returns the options of a search with this role, with all evidence.
fn pick_options(snapshot: &Snapshot, view: &View, picks: usize) -> PickOptions {
    PickOptions {
        timeout: Some(PICK_TIMEOUT),
        debug: true,
        tell_blocked: BlockedReporting::Always,
        ..front::options(snapshot, view, picks)
    }
}

fn picks_fragment(view: &View, result: &TryResult) -> PicksFragment {
    let TryResult {
        selection,
        all,
        with_hidden,
        time,
    } = result;
    let scale = Scale::from_selections(selection, all);
    let mut picks = Vec::new();
    for pick in &selection.picks {
        picks.push(pick_view(pick, false, &scale));
    }
    for pick in &selection.required {
        picks.push(pick_view(pick, true, &scale));
    }
    let ineligible = with_hidden.ineligible.tools.iter();
    let none = if view.tools.is_empty() {
        "This role may use no tools."
    } else {
        "No tool fits."
    };
    PicksFragment {
        picks,
        none,
        facts: facts(view, selection, *time),
        notes: notes(selection, with_hidden),
        excluded: with_hidden.ineligible.total,
        counts: with_hidden
            .ineligible
            .counts
            .iter()
            .map(|(code, count)| (*code, *count))
            .collect(),
        ineligible: ineligible
            .map(|tool| IneligibleView {
                tool: tool.tool_id.clone(),
                reasons: join_reasons(&tool.reasons),
            })
            .collect(),
        considered: considered(selection, all),
        stages: stages(selection),
    }
}

fn join_reasons(reasons: &[picktools::access::IneligibleReason]) -> String {
    reasons
        .iter()
        .map(picktools::access::IneligibleReason::describe)
        .collect::<Vec<_>>()
        .join("; ")
}

fn pick_view(pick: &Pick, is_required: bool, scale: &Scale) -> PickView {
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
            "complete"
        } else {
            definition.detail.name()
        };
        notes.push(format!(
            "definition: {detail}, {} tokens",
            definition.tokens
        ));
    }
    if let Some(covers) = &provenance.covers {
        notes.push(format!("serves the part “{}”", covers.part));
    }
    if !pick.same_as.is_empty() {
        notes.push(format!("duplicates: {}", pick.same_as.join(", ")));
    }
    if !provenance.requires_ineligible.is_empty() {
        notes.push(format!(
            "requires {}, which the role may not use",
            provenance.requires_ineligible.join(", ")
        ));
    }
    PickView {
        id: pick.tool.id.clone(),
        score: format!("{:.2}", pick.score),
        percent: percent(pick.score),
        reason: pick.reason.clone(),
        description: pick.tool.description.clone(),
        bars: scale.bars(provenance),
        words: matched_words(provenance),
        flags: flags
            .into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(flag, _)| flag)
            .collect(),
        notes,
    }
}

fn facts(view: &View, selection: &Selection, time: Duration) -> Vec<Fact> {
    let mut facts = Vec::new();
    let fact = |label, figure, note: String| Fact {
        label,
        figure,
        note,
        percent: None,
    };
    if let Some(answerable) = selection.answerable {
        let figure = format!("{answerable:.2}");
        let note = "probability that any tool of the role fits".to_owned();
        facts.push(Fact {
            label: "answerable",
            figure,
            note,
            percent: Some(percent(answerable)),
        });
    }
    facts.push(fact(
        "picked",
        selection.picks.len().to_string(),
        format!("of {} tools of the role", view.tools.len()),
    ));
    if selection.above_threshold > 0 {
        facts.push(fact(
            "more above the threshold",
            selection.above_threshold.to_string(),
            "no place was left".to_owned(),
        ));
    }
    facts.push(fact(
        "below the threshold",
        selection.below_threshold.to_string(),
        "or without a match".to_owned(),
    ));
    if let Some(TokenReport { picks, catalog, .. }) = &selection.tokens {
        let catalog = catalog.filter(|all| *all > 0);
        let note = catalog.map_or_else(String::new, |all| {
            format!("of {} for all tools", format_count(all))
        });
        let share = catalog.map(|all| percent(*picks as f32 / all as f32));
        facts.push(Fact {
            label: "tokens",
            figure: format_count(*picks),
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

/// Formats a count with separated thousands.
fn format_count(count: usize) -> String {
    let digits = count.to_string();
    let places = digits
        .char_indices()
        .map(|(place, digit)| match digits.len() - place {
            remaining if place > 0 && remaining.is_multiple_of(3) => format!(",{digit}"),
            _ => digit.to_string(),
        });
    places.collect()
}

fn notes(selection: &Selection, with_hidden: &Selection) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(kind) = &selection.nothing_fits {
        notes.push(format!("No tool fits: {kind}."));
    }
    if let Some(blocked) = &with_hidden.blocked {
        notes.push(format!(
            "{} is the best match (score {:.2}) but not eligible: {}.",
            blocked.tool_id,
            blocked.score,
            join_reasons(&blocked.reasons)
        ));
    }
    if let Some(why) = selection.uncalibrated {
        notes.push(format!("The scores are not probabilities: {why}."));
    }
    notes.extend(
        selection
            .degraded
            .iter()
            .map(|degraded| format!("{}: {}.", degraded.stage, degraded.reason)),
    );
    notes
}

/// Returns the best candidates that were not picked.
fn considered(selection: &Selection, all: &Selection) -> Vec<CandidateView> {
    let threshold = PickOptions::default().min_score;
    let reason = |candidate: &ConsideredCandidate| {
        let dropped = selection
            .dropped
            .iter()
            .find(|dropped| dropped.tool_id == candidate.tool_id);
        match dropped {
            Some(dropped) => dropped.reason.to_string(),
            None if candidate.score < threshold => format!("below the threshold of {threshold}"),
            None => "other tools rank higher".to_owned(),
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
    let view = |candidate: &ConsideredCandidate| CandidateView {
        tool: candidate.tool_id.clone(),
        score: format!("{:.3}", candidate.score),
        reason: reason(candidate),
    };
    others.take(MAX_CONSIDERED).map(view).collect()
}

fn stages(selection: &Selection) -> Vec<StageView> {
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
        .map(|report| StageView {
            stage: report.stage.to_string(),
            status: report.status.to_string(),
            time: time(report.stage),
        })
        .collect()
}

/// Returns the names of all roles, the default role first.
pub(super) fn role_names(hub: &Hub) -> Vec<String> {
    let settings = hub.registry.settings();
    let others = settings
        .roles
        .keys()
        .filter(|role| *role != DEFAULT_ROLE)
        .cloned();
    std::iter::once(DEFAULT_ROLE.to_owned())
        .chain(others)
        .collect()
}
