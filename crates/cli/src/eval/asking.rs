//! Asking an engine the queries of a set.

use std::time::{Duration, Instant};

use super::super::args::progress_bar;
use super::super::output;
use picktools::options::Fusion;
use picktools::{Engine, PickError, PickOptions, Query, Selection};
use picktools_eval::{Qrels, QuerySet, Run, RunEntry};

/// What an engine answered to the queries of a set.
pub(super) struct Answers {
    pub(super) run: Run,
    pub(super) times: Vec<Duration>,
    /// The `answerable` estimate of each query, in order; none where scores are no probabilities.
    pub(super) estimates: Option<Vec<f64>>,
}

/// Picks for every query of a set, one after the other on one thread.
pub(super) fn pick_all(
    pick: impl Fn(&Query, &PickOptions) -> Result<Selection, PickError>,
    queries: &QuerySet,
    options: &PickOptions,
) -> anyhow::Result<Answers> {
    let mut run = Run::default();
    let mut times = Vec::with_capacity(queries.len());
    let mut estimates = Vec::with_capacity(queries.len());
    let mut degraded = Vec::new();
    let bar = progress_bar("picking");
    bar.set_length(queries.len() as u64);
    for query in queries {
        let asked = query.query();
        let started = Instant::now();
        let selection = pick(&asked, options)?;
        times.push(started.elapsed());
        degraded.extend(selection.degraded.into_iter().next());
        estimates.extend(selection.answerable.map(f64::from));
        // What is in use is there already, and what a pick brings along is not in answer to the
        // request.
        let new = selection
            .picks
            .iter()
            .filter(|pick| pick.provenance.in_use.is_none());
        let ranking = new.take(options.max_candidates);
        let ranking = ranking.map(|pick| RunEntry {
            tool: pick.tool.id.clone(),
            score: f64::from(pick.score),
        });
        run.insert(query.id.as_str(), ranking.collect());
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(first) = degraded.first() {
        let (count, all) = (degraded.len(), queries.len());
        output::warn(format!(
            "{count} of {all} picks are degraded, the first in the stage {}: {}",
            first.stage, first.reason
        ));
    }
    let probabilities = options.fusion == Fusion::Weighted && estimates.len() == queries.len();
    Ok(Answers {
        run,
        times,
        estimates: probabilities.then_some(estimates),
    })
}

/// Estimates of whether a request can be answered, of the same queries in the same order.
pub(super) struct Doubts {
    /// With the tools that answer it.
    pub(super) with: Vec<f64>,
    /// Without them.
    pub(super) without: Vec<f64>,
}

/// Asks every query again without the tools that answer it; `None` where scores are no
/// probabilities.
pub(super) fn doubts(
    engine: &Engine,
    queries: &QuerySet,
    qrels: &Qrels,
    answers: &Answers,
    options: &PickOptions,
) -> anyhow::Result<Option<Doubts>> {
    let Some(estimates) = &answers.estimates else {
        return Ok(None);
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut without_answers = PickOptions {
        max_candidates: 1,
        ..options.clone()
    };
    let bar = progress_bar("picking without the answers");
    bar.set_length(queries.len() as u64);
    for (query, &estimate) in queries.iter().zip(estimates) {
        bar.inc(1);
        let Some(judgments) = qrels
            .get(&query.id)
            .filter(|judgments| judgments.relevant_len() > 0)
        else {
            continue;
        };
        let relevant = judgments
            .iter()
            .filter(|(tool, grade)| *grade > 0 && engine.catalog().find(tool).is_some());
        let relevant = relevant.map(|(tool, _)| tool.to_owned());
        without_answers.access.exclude = options
            .access
            .exclude
            .iter()
            .cloned()
            .chain(relevant)
            .collect();
        let selection = engine.pick(&query.query(), &without_answers)?;
        with.push(estimate);
        without.extend(selection.answerable.map(f64::from));
    }
    bar.finish_and_clear();
    Ok(Some(Doubts { with, without }))
}
