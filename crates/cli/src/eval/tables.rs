//! Results as text.

use comfy_table::{CellAlignment, Table, presets};

use picktools_eval::{Comparison, ConfigurationReport, EvalReport, Latency, Measure};

/// What was measured on each set.
pub(super) fn table(report: &EvalReport) -> String {
    let measures: Vec<Measure> = report.mean().keys().copied().collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["set".to_owned(), "tools".to_owned(), "queries".to_owned()];
    header.extend(measures.iter().map(ToString::to_string));
    let calibrated = report
        .sets()
        .iter()
        .any(|(_, set)| set.calibration.is_some());
    let abstained = report
        .sets()
        .iter()
        .any(|(_, set)| set.abstention.is_some());
    header.extend(calibrated.then(|| "ECE".to_owned()));
    header.extend(abstained.then(|| "AUROC".to_owned()));
    header.extend(["p50 µs".to_owned(), "p99 µs".to_owned()]);
    table.set_header(header);
    for (name, set) in report.sets() {
        let mut row = vec![name.clone(), set.tools.to_string(), set.queries.to_string()];
        row.extend(
            measures
                .iter()
                .map(|measure| figure(set.measures.get(measure))),
        );
        let calibration = set.calibration.as_ref().map(|calibration| calibration.ece);
        row.extend(calibrated.then(|| figure(calibration.as_ref())));
        let abstention = set.abstention.as_ref().map(|abstention| abstention.auroc);
        row.extend(abstained.then(|| figure(abstention.as_ref())));
        let latency = |pick: fn(&Latency) -> f64| {
            set.latency_us
                .as_ref()
                .map_or("–".to_owned(), |l| format!("{:.0}", pick(l)))
        };
        row.extend([latency(|l| l.p50), latency(|l| l.p99)]);
        table.add_row(row);
    }
    let mut mean = vec!["mean".to_owned(), String::new(), String::new()];
    mean.extend(
        measures
            .iter()
            .map(|measure| figure(report.mean().get(measure))),
    );
    table.add_row(mean);
    align(&mut table)
}

/// How an earlier run differs.
pub(super) fn comparison_table(comparison: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "measure",
        "then",
        "now",
        "difference",
        "p",
        "better",
        "same",
        "worse",
    ]);
    for (measure, row) in &comparison.measures {
        table.add_row([
            measure.to_string(),
            format!("{:.4}", row.baseline),
            format!("{:.4}", row.candidate),
            format!("{:+.4}", row.difference),
            format!("{:.4}", row.p),
            row.wins.to_string(),
            row.ties.to_string(),
            row.losses.to_string(),
        ]);
    }
    align(&mut table)
}

/// The ways of ranking beside each other, as Markdown.
pub(super) fn configurations_table(configurations: &[ConfigurationReport]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut header = vec!["ranking".to_owned()];
    header.extend(Measure::SUMMARY.iter().map(ToString::to_string));
    header.extend(["ECE", "AUROC", "p50 µs", "p99 µs"].map(str::to_owned));
    table.set_header(header);
    for configuration in configurations {
        let mean = configuration.report.mean();
        let mut row = vec![configuration.name.clone()];
        row.extend(
            Measure::SUMMARY
                .iter()
                .map(|measure| figure(mean.get(measure))),
        );
        row.extend(
            [configuration.ece(), configuration.auroc()].map(|value| figure(value.as_ref())),
        );
        let times = [
            configuration.latency_us(|l| l.p50),
            configuration.latency_us(|l| l.p99),
        ];
        row.extend(
            times.map(|time| time.map_or_else(|| "–".to_owned(), |time| format!("{time:.0}"))),
        );
        table.add_row(row);
    }
    align(&mut table)
}

fn figure(value: Option<&f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"))
}

/// Figures stand to the right, names to the left.
pub(super) fn align(table: &mut Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
