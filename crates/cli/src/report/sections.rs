//! The summary parts of the page.

use std::collections::BTreeMap;

use super::charts;
use super::content::{MEASURE, ReportPage};
use super::tables::{Cell, ChartWithTable, Table};
use picktools_eval::{
    ConfidenceInterval, ConfigurationReport, Latency, Measure, ScoreCalibration, cumulative, shares,
};

/// The most points of a curve.
const CURVE_POINTS: usize = 240;

/// The number of bins of estimates.
const ESTIMATE_BINS: usize = 20;

/// A set with its counts.
pub(super) struct SetCounts {
    pub(super) name: String,
    pub(super) tools: String,
    pub(super) queries: String,
}

/// Returns the sets with their counts.
pub(super) fn sets(page: &ReportPage<'_>) -> Vec<SetCounts> {
    let mut counts = Vec::new();
    for (name, set) in page.subject().report.sets() {
        counts.push(SetCounts {
            name: name.clone(),
            tools: grouped(set.tools),
            queries: grouped(set.queries),
        });
    }
    counts
}

/// Returns the measure of every configuration on every set.
pub(super) fn comparison(page: &ReportPage<'_>) -> ChartWithTable {
    let mut names = Vec::new();
    for configuration in page.configurations {
        names.push(configuration.name.as_str());
    }
    let mut head = vec!["set"];
    head.extend(&names);
    let mut table = Table::new(head);
    let mut groups = Vec::new();
    for (index, set) in page.sets.iter().enumerate() {
        let mut scores = Vec::new();
        for configuration in page.configurations {
            scores.push(set_score(configuration, index));
        }
        table.row(best_marked(set.name, &scores));
        groups.push((set.name, bar_heights(&scores)));
    }
    let means: Vec<Option<f64>> = page.configurations.iter().map(mean_score).collect();
    table.sum(best_marked("mean", &means));
    groups.push(("mean", bar_heights(&means)));
    let chart = charts::bars(
        &format!("{MEASURE} by set and ranking"),
        &MEASURE.to_string(),
        &groups,
        &names,
    );
    ChartWithTable { chart, table }
}

/// Returns the heights of bars. A missing score has no bar.
fn bar_heights(scores: &[Option<f64>]) -> Vec<f64> {
    let mut heights = Vec::new();
    for score in scores {
        heights.push(score.unwrap_or_default());
    }
    heights
}

/// Returns the other figures of each configuration.
pub(super) fn means(page: &ReportPage<'_>) -> Table {
    let mut head = vec!["ranking".to_owned()];
    for measure in &Measure::SUMMARY {
        head.push(measure.to_string());
    }
    head.extend(["ECE", "AUROC", "p50 µs", "p99 µs"].map(str::to_owned));
    let mut table = Table::new(head);
    for configuration in page.configurations {
        let means = configuration.report.mean();
        let mut row = vec![Cell::name(&configuration.name)];
        for measure in &Measure::SUMMARY {
            row.push(number(means.get(measure).copied()));
        }
        row.push(number(configuration.ece()));
        row.push(number(configuration.auroc()));
        row.push(time(configuration.latency_us(|latency| latency.p50)));
        row.push(time(configuration.latency_us(|latency| latency.p99)));
        table.row(row);
    }
    table
}

/// Returns the measures of the subject with their confidence intervals, or `None` if no set has
/// enough requests for them.
pub(super) fn intervals(page: &ReportPage<'_>) -> Option<Table> {
    let report = &page.subject().report;
    let mut head = vec!["set".to_owned()];
    for measure in &Measure::SUMMARY {
        head.push(measure.to_string());
    }
    let mut table = Table::new(head);
    let mut has_interval = false;
    for (name, set) in report.sets() {
        has_interval |= !set.intervals.is_empty();
        table.row(interval_row(name, &set.measures, &set.intervals));
    }
    table.sum(interval_row("mean", report.mean(), report.mean_intervals()));
    has_interval.then_some(table)
}

/// Returns a row of measures, each followed by its interval.
fn interval_row(
    name: &str,
    measures: &BTreeMap<Measure, f64>,
    intervals: &BTreeMap<Measure, ConfidenceInterval>,
) -> Vec<Cell> {
    let mut row = vec![Cell::name(name)];
    for measure in &Measure::SUMMARY {
        let value = measures.get(measure).copied();
        row.push(match (value, intervals.get(measure)) {
            (Some(value), Some(ConfidenceInterval { low, high, .. })) => {
                Cell::figure(format_args!("{value:.4} ({low:.4}–{high:.4})"))
            }
            _ => number(value),
        });
    }
    row
}

/// Returns the change of the measure without one of the signals.
pub(super) fn ablation(page: &ReportPage<'_>) -> Table {
    let full = &page.configurations[page.full];
    let mut head = vec!["set", &full.name];
    let mut reduced = Vec::new();
    for (name, index) in page.ablations {
        head.push(name);
        reduced.push(&page.configurations[*index]);
    }
    let mut table = Table::new(head);
    for (index, set) in page.sets.iter().enumerate() {
        let score = |configuration: &ConfigurationReport| set_score(configuration, index);
        table.row(ablation_row(set.name, full, &reduced, score));
    }
    table.sum(ablation_row("mean", full, &reduced, mean_score));
    table
}

/// Returns a row with the score of every signal together, and the change of each reduced
/// configuration.
fn ablation_row(
    name: &str,
    full: &ConfigurationReport,
    reduced: &[&ConfigurationReport],
    score: impl Fn(&ConfigurationReport) -> Option<f64>,
) -> Vec<Cell> {
    let full_score = score(full);
    let mut row = vec![Cell::name(name), number(full_score)];
    for configuration in reduced {
        row.push(match (score(configuration), full_score) {
            (Some(reduced_score), Some(full_score)) => Cell::difference(reduced_score - full_score),
            _ => number(None),
        });
    }
    row
}

/// Returns the calibration of the scores and the number of bins, or `None` if the scores are not
/// probabilities.
pub(super) fn calibration(page: &ReportPage<'_>) -> Option<(ChartWithTable, usize)> {
    let reports = page.subject().report.sets();
    page.subject().ece()?;
    let all =
        ScoreCalibration::from_sets(page.sets.iter().map(|set| (set.subject.run, set.qrels)))?;
    let mut table = Table::new([
        "set",
        "returned tools",
        "relevant",
        "ECE",
        "Brier",
        "Brier of the base rate",
    ]);
    for (name, report) in reports {
        if let Some(calibration) = &report.calibration {
            table.row(calibration_row(name, calibration));
        }
    }
    table.sum(calibration_row("all together", &all));
    let bins: Vec<(f64, f64)> = all
        .bins
        .iter()
        .map(|bin| (bin.score, bin.relevant))
        .collect();
    let chart = charts::reliability("Share of relevant tools by score", &bins);
    Some((ChartWithTable { chart, table }, bins.len()))
}

fn calibration_row(name: &str, calibration: &ScoreCalibration) -> Vec<Cell> {
    vec![
        Cell::name(name),
        Cell::figure(grouped(calibration.tools)),
        Cell::figure(format_args!("{:.1} %", calibration.base_rate * 100.0)),
        number(Some(calibration.ece)),
        number(Some(calibration.brier)),
        number(Some(calibration.base_rate_brier)),
    ]
}

/// Returns the latency of picks, or `None` if it was not measured.
pub(super) fn latency(page: &ReportPage<'_>) -> Option<ChartWithTable> {
    let mut times = Vec::new();
    for set in &page.sets {
        times.extend_from_slice(set.times);
    }
    let all = Latency::from_durations(&times)?;
    let mut table = Table::new([
        "set",
        "tools",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "mean µs",
        "longest µs",
    ]);
    for (name, report) in page.subject().report.sets() {
        if let Some(latency) = &report.latency_us {
            table.row(latency_row(name, grouped(report.tools), latency));
        }
    }
    table.sum(latency_row("all together", String::new(), &all));
    let microseconds: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    let marks = [("p50", all.p50), ("p90", all.p90), ("p99", all.p99)];
    let chart = charts::latency(
        "Share of picks by time",
        &cumulative(&microseconds, CURVE_POINTS),
        &marks,
    );
    Some(ChartWithTable { chart, table })
}

fn latency_row(name: &str, tools: String, latency: &Latency) -> Vec<Cell> {
    vec![
        Cell::name(name),
        Cell::figure(tools),
        time(Some(latency.p50)),
        time(Some(latency.p90)),
        time(Some(latency.p99)),
        time(Some(latency.mean)),
        time(Some(latency.max)),
    ]
}

/// Returns the quality of the answerability estimates, or `None` without estimates.
pub(super) fn abstention(page: &ReportPage<'_>) -> Option<ChartWithTable> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for set in &page.sets {
        if let Some((set_with, set_without)) = set.estimates {
            with.extend_from_slice(set_with);
            without.extend_from_slice(set_without);
        }
    }
    if with.is_empty() || without.is_empty() {
        return None;
    }
    let mut table = Table::new(["set", "requests", "AUROC"]);
    for (name, report) in page.subject().report.sets() {
        if let Some(abstention) = &report.abstention {
            let requests = Cell::figure(grouped(abstention.queries));
            table.row(vec![
                Cell::name(name),
                requests,
                number(Some(abstention.auroc)),
            ]);
        }
    }
    table.sum(vec![
        Cell::name("mean"),
        Cell::figure(""),
        number(page.subject().auroc()),
    ]);
    let series = [
        ("with its tools", steps(&with)),
        ("without them", steps(&without)),
    ];
    let chart = charts::steps(
        "Estimates with and without the tools",
        "answerability estimate",
        &series,
    );
    Some(ChartWithTable { chart, table })
}

/// Returns the outline of a histogram.
fn steps(values: &[f64]) -> Vec<(f64, f64)> {
    let shares = shares(values, ESTIMATE_BINS);
    let mut steps = Vec::new();
    for (bin, share) in shares.iter().enumerate() {
        steps.push((bin as f64 / ESTIMATE_BINS as f64, *share));
    }
    if let Some(share) = shares.last() {
        steps.push((1.0, *share));
    }
    steps
}

/// Returns the measure of a configuration on the set with this index.
fn set_score(configuration: &ConfigurationReport, index: usize) -> Option<f64> {
    let (_, set) = &configuration.report.sets()[index];
    set.measures.get(&MEASURE).copied()
}

/// Returns the mean of the measure of a configuration.
fn mean_score(configuration: &ConfigurationReport) -> Option<f64> {
    configuration.report.mean().get(&MEASURE).copied()
}

/// Returns a row of figures with a mark at the best, compared as printed.
fn best_marked(name: &str, values: &[Option<f64>]) -> Vec<Cell> {
    let mut printed = Vec::new();
    for value in values {
        printed.push(match value {
            Some(value) => format!("{value:.4}"),
            None => "–".to_owned(),
        });
    }
    // The dash stands for a missing figure and is skipped.
    let best = printed.iter().filter(|text| *text != "–").max().cloned();
    let mut row = vec![Cell::name(name)];
    for text in printed {
        let is_best = Some(&text) == best.as_ref();
        row.push(if is_best {
            Cell::best(text)
        } else {
            Cell::figure(text)
        });
    }
    row
}

fn number(value: Option<f64>) -> Cell {
    value.map_or_else(
        || Cell::figure("–"),
        |value| Cell::figure(format_args!("{value:.4}")),
    )
}

fn time(value: Option<f64>) -> Cell {
    value.map_or_else(
        || Cell::figure("–"),
        |value| Cell::figure(format_args!("{value:.0}")),
    )
}

/// Formats a count with separators of thousands.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
