//! The parts of the page that sum up.

use super::tables::{Cell, Drawn, Table};
use super::{MEASURE, Page, charts};
use picktools_eval::{
    Calibration, ConfigurationReport, Latency, Measure, SetReport, cumulative, shares,
};

/// How many points a curve has at most.
const CURVE_POINTS: usize = 240;

/// Into how many parts estimates are sorted.
const ESTIMATE_BINS: usize = 20;

/// A set that was measured, with its counts.
pub(super) struct SetCounts {
    pub(super) name: String,
    pub(super) tools: String,
    pub(super) queries: String,
}

/// What was measured.
pub(super) fn sets(page: &Page<'_>) -> Vec<SetCounts> {
    let sets = page.subject().report.sets().iter();
    sets.map(|(name, set)| SetCounts {
        name: name.clone(),
        tools: grouped(set.tools),
        queries: grouped(set.queries),
    })
    .collect()
}

/// Every configuration on every set.
pub(super) fn comparison(page: &Page<'_>) -> Drawn {
    let names: Vec<&str> = page
        .configurations
        .iter()
        .map(|configuration| configuration.name.as_str())
        .collect();
    let mut table = Table::new(["set"].into_iter().chain(names.iter().copied()));
    let mut groups = Vec::new();
    for (index, set) in page.sets.iter().enumerate() {
        let value =
            |configuration: &ConfigurationReport| score(&configuration.report.sets()[index].1);
        let values: Vec<Option<f64>> = page.configurations.iter().map(value).collect();
        table.row(best_marked(set.name, &values));
        groups.push((
            set.name,
            values.into_iter().map(Option::unwrap_or_default).collect(),
        ));
    }
    let mean =
        |configuration: &ConfigurationReport| configuration.report.mean().get(&MEASURE).copied();
    let means: Vec<Option<f64>> = page.configurations.iter().map(mean).collect();
    table.sum(best_marked("mean", &means));
    groups.push((
        "mean",
        means.into_iter().map(Option::unwrap_or_default).collect(),
    ));
    let chart = charts::bars(
        &format!("{MEASURE} by set and ranking"),
        &MEASURE.to_string(),
        &groups,
        &names,
    );
    Drawn { chart, table }
}

/// The other figures of each configuration.
pub(super) fn means(page: &Page<'_>) -> Table {
    let head = ["ranking".to_owned()]
        .into_iter()
        .chain(Measure::SUMMARY.iter().map(ToString::to_string));
    let mut table = Table::new(head.chain(["ECE", "AUROC", "p50 µs", "p99 µs"].map(str::to_owned)));
    for configuration in page.configurations {
        let mut row = vec![Cell::name(&configuration.name)];
        row.extend(
            Measure::SUMMARY
                .iter()
                .map(|measure| number(configuration.report.mean().get(measure).copied())),
        );
        row.extend([configuration.ece(), configuration.auroc()].map(number));
        row.extend(
            [
                configuration.latency_us(|l| l.p50),
                configuration.latency_us(|l| l.p99),
            ]
            .map(time),
        );
        table.row(row);
    }
    table
}

/// What the whole loses without one of its signals.
pub(super) fn ablation(page: &Page<'_>) -> Table {
    let whole = &page.configurations[page.whole];
    let parts: Vec<(&str, &ConfigurationReport)> = page
        .ablations
        .iter()
        .map(|(name, left)| (name.as_str(), &page.configurations[*left]))
        .collect();
    let mut table = Table::new(
        ["set", &whole.name]
            .into_iter()
            .chain(parts.iter().map(|(name, _)| *name)),
    );
    let row = |name: &str, value: &dyn Fn(&ConfigurationReport) -> Option<f64>| {
        let mut row = vec![Cell::name(name), number(value(whole))];
        row.extend(
            parts
                .iter()
                .map(|(_, left)| match (value(left), value(whole)) {
                    (Some(left), Some(whole)) => Cell::difference(left - whole),
                    _ => number(None),
                }),
        );
        row
    };
    for (index, set) in page.sets.iter().enumerate() {
        table.row(row(set.name, &|configuration| {
            score(&configuration.report.sets()[index].1)
        }));
    }
    table.sum(row("mean", &|configuration| {
        configuration.report.mean().get(&MEASURE).copied()
    }));
    table
}

/// Whether scores mean what they say, and in how many bins; `None` where they are no probabilities.
pub(super) fn calibration(page: &Page<'_>) -> Option<(Drawn, usize)> {
    let reports = page.subject().report.sets();
    page.subject().ece()?;
    let all = Calibration::of_sets(page.sets.iter().map(|set| (set.subject.run, set.qrels)))?;
    let mut table = Table::new([
        "set",
        "returned tools",
        "relevant",
        "ECE",
        "Brier",
        "Brier of the base rate",
    ]);
    let row = |name: &str, of: &Calibration| {
        let relevant = Cell::figure(format_args!("{:.1} %", of.base_rate * 100.0));
        let figures = [of.ece, of.brier, of.base_rate_brier].map(|value| number(Some(value)));
        [Cell::name(name), Cell::figure(grouped(of.tools)), relevant]
            .into_iter()
            .chain(figures)
            .collect()
    };
    for (name, report) in reports {
        if let Some(calibration) = &report.calibration {
            table.row(row(name, calibration));
        }
    }
    table.sum(row("all together", &all));
    let bins: Vec<(f64, f64)> = all
        .bins
        .iter()
        .map(|bin| (bin.score, bin.relevant))
        .collect();
    let chart = charts::reliability("Share of relevant tools by score", &bins);
    Some((Drawn { chart, table }, bins.len()))
}

/// How long a pick takes; `None` where that was not measured.
pub(super) fn latency(page: &Page<'_>) -> Option<Drawn> {
    let times: Vec<_> = page
        .sets
        .iter()
        .flat_map(|set| set.times.iter().copied())
        .collect();
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
    let figures =
        |of: &Latency| [of.p50, of.p90, of.p99, of.mean, of.max].map(|value| time(Some(value)));
    for (name, report) in page.subject().report.sets() {
        if let Some(latency) = &report.latency_us {
            let names = [Cell::name(name), Cell::figure(grouped(report.tools))];
            table.row(names.into_iter().chain(figures(latency)).collect());
        }
    }
    let names = [Cell::name("all together"), Cell::figure("")];
    table.sum(names.into_iter().chain(figures(&all)).collect());
    let microseconds: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    let marks = [("p50", all.p50), ("p90", all.p90), ("p99", all.p99)];
    let chart = charts::latency(
        "Share of picks by time",
        &cumulative(&microseconds, CURVE_POINTS),
        &marks,
    );
    Some(Drawn { chart, table })
}

/// Whether the ranking knows when no tool answers; `None` where it gives no estimate.
pub(super) fn abstention(page: &Page<'_>) -> Option<Drawn> {
    let estimates = page.sets.iter().filter_map(|set| set.estimates);
    let (with, without): (Vec<&[f64]>, Vec<&[f64]>) = estimates.unzip();
    let (with, without) = (with.concat(), without.concat());
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
        "estimate that a tool answers",
        &series,
    );
    Some(Drawn { chart, table })
}

/// The outline of a histogram.
fn steps(values: &[f64]) -> Vec<(f64, f64)> {
    let shares = shares(values, ESTIMATE_BINS);
    let last = shares.last().copied().map(|share| (1.0, share));
    let steps = shares
        .iter()
        .enumerate()
        .map(|(bin, &share)| (bin as f64 / ESTIMATE_BINS as f64, share));
    steps.chain(last).collect()
}

fn score(set: &SetReport) -> Option<f64> {
    set.measures.get(&MEASURE).copied()
}

/// A row of figures of which the best, as it is printed, stands out.
fn best_marked(name: &str, values: &[Option<f64>]) -> Vec<Cell> {
    let printed: Vec<String> = values
        .iter()
        .map(|value| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}")))
        .collect();
    // The dash is not of figures, and comes after them in no order that matters.
    let best = printed.iter().filter(|text| *text != "–").max().cloned();
    let cell = |text: String| {
        if Some(&text) == best.as_ref() {
            Cell::best(text)
        } else {
            Cell::figure(text)
        }
    };
    std::iter::once(Cell::name(name))
        .chain(printed.into_iter().map(cell))
        .collect()
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

/// A count with its thousands apart.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
