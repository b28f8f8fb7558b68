//! The report of an evaluation as a page of HTML.

use picktools_eval::ConfigurationReport;

use super::super::report::{PageSet, ReportPage, Side};
use super::outcome::EvaluatedSet;
use super::plan::Plan;

/// Returns the report as a page of HTML.
pub(super) fn render(
    plan: &Plan,
    sets: &[EvaluatedSet],
    configurations: &[ConfigurationReport],
) -> anyhow::Result<String> {
    let mut warnings = Vec::new();
    for set in sets {
        warnings.extend(set.warnings.iter().map(String::as_str));
    }
    let mut models = Vec::new();
    for model in &plan.models {
        if let Some(identity) = model.identity() {
            models.push((model.name(), identity));
        }
    }
    let page = ReportPage {
        configurations,
        subject: plan.subject,
        baseline: plan.baseline,
        full: plan.full,
        ablations: &plan.ablations,
        models,
        warnings,
        sets: sets.iter().map(|set| page_set(plan, set)).collect(),
    };
    page.to_html()
}

/// Returns the part of the page about one set.
fn page_set<'a>(plan: &Plan, set: &'a EvaluatedSet) -> PageSet<'a> {
    let side = |index: usize| Side {
        run: &set.outcomes[index].answers.run,
        scores: &set.outcomes[index].scores,
    };
    let estimates = set.estimates.as_ref();
    PageSet {
        name: &set.name,
        queries: &set.queries,
        qrels: &set.qrels,
        subject: side(plan.subject),
        baseline: side(plan.baseline),
        times: &set.outcomes[plan.subject].answers.times,
        estimates: estimates.map(|estimates| (&estimates.with[..], &estimates.without[..])),
    }
}
