//! Picks for the queries of an evaluation set.

use std::time::{Duration, Instant};

use super::super::args::progress_bar;
use super::super::output;
use picktools::options::Fusion;
use picktools::{Engine, PickError, PickOptions, Query, Selection};
use picktools_eval::{Qrels, QuerySet, Run, RunEntry};

/// The picks of an engine for the queries of a set.
pub(super) struct SetAnswers {
    pub(super) run: Run,
    pub(super) times: Vec<Duration>,
    /// The `answerable` estimate of each query, in order; `None` if the scores are not
    /// probabilities.
    pub(super) estimates: Option<Vec<f64>>,
}

/// Picks for every query of a set, one after the other on one thread.
pub(super) fn pick_all(
    pick: impl Fn(&Query, &PickOptions) -> Result<Selection, PickError>,
    queries: &QuerySet,
    options: &PickOptions,
) -> anyhow::Result<SetAnswers> {
    let mut run = Run::default();
    let mut times = Vec::with_capacity(queries.len());
    let mut estimates = Vec::with_capacity(queries.len());
    let mut degraded = Vec::new();
    let bar = progress_bar("picking");
    bar.set_length(queries.len() as u64);
    for query in queries {
        let request = query.query();
        let started = Instant::now();
        let selection = pick(&request, options)?;
        times.push(started.elapsed());
        degraded.extend(selection.degraded.into_iter().next());
        if let Some(estimate) = selection.answerable {
            estimates.push(f64::from(estimate));
        }
        let mut ranking = Vec::new();
        for pick in &selection.picks {
            // Tools in use stay selected anyway, and required tools do not answer the request.
            let is_in_use = pick.provenance.in_use.is_some();
            if !is_in_use && ranking.len() < options.max_candidates {
                ranking.push(RunEntry {
                    tool: pick.tool.id.clone(),
                    score: f64::from(pick.score),
                });
            }
        }
        run.insert(query.id.as_str(), ranking);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(first) = degraded.first() {
        let (count, all) = (degraded.len(), queries.len());
        output::warn(format!(
            "{count} of {all} picks are degraded, the first in stage {}: {}",
            first.stage, first.reason
        ));
    }
    let probabilities = options.fusion == Fusion::Weighted && estimates.len() == queries.len();
    Ok(SetAnswers {
        run,
        times,
        estimates: probabilities.then_some(estimates),
    })
}

/// Answerability estimates of the same queries in the same order.
pub(super) struct AnswerabilityEstimates {
    /// The estimates with the tools that answer the query.
    pub(super) with: Vec<f64>,
    /// The estimates without these tools.
    pub(super) without: Vec<f64>,
}

/// Picks for every query without the tools that answer it. Returns `None` if the scores are not
/// probabilities.
pub(super) fn answerability_estimates(
    engine: &Engine,
    queries: &QuerySet,
    qrels: &Qrels,
    answers: &SetAnswers,
    options: &PickOptions,
) -> anyhow::Result<Option<AnswerabilityEstimates>> {
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
        let Some(judgments) = qrels.get(&query.id) else {
            continue;
        };
        if judgments.relevant_len() == 0 {
            continue;
        }
        let mut excluded = options.access.exclude.clone();
        for (tool, grade) in judgments.iter() {
            if grade > 0 && engine.catalog().find(tool).is_some() {
                excluded.insert(tool.to_owned());
            }
        }
        without_answers.access.exclude = excluded;
        let selection = engine.pick(&query.query(), &without_answers)?;
        with.push(estimate);
        if let Some(estimate) = selection.answerable {
            without.push(f64::from(estimate));
        }
    }
    bar.finish_and_clear();
    Ok(Some(AnswerabilityEstimates { with, without }))
}
