//! Text tables of evaluation results.

use comfy_table::{CellAlignment, Table, presets};

use picktools_eval::{Comparison, ConfigurationReport, EvalReport, Measure, TalkReport};

/// Returns a table of the measures of each set.
pub(super) fn table(report: &EvalReport) -> String {
    let measures: Vec<Measure> = report.mean().keys().copied().collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["set".to_owned(), "tools".to_owned(), "queries".to_owned()];
    for measure in &measures {
        header.push(measure.to_string());
    }
    let calibrated = report
        .sets()
        .iter()
        .any(|(_, set)| set.calibration.is_some());
    let abstained = report
        .sets()
        .iter()
        .any(|(_, set)| set.abstention.is_some());
    let has_ineligible = report
        .sets()
        .iter()
        .any(|(_, set)| set.ineligible_judged.is_some());
    if has_ineligible {
        header.insert(3, "ineligible".to_owned());
    }
    if calibrated {
        header.push("ECE".to_owned());
    }
    if abstained {
        header.push("AUROC".to_owned());
    }
    header.extend(["p50 µs".to_owned(), "p99 µs".to_owned()]);
    table.set_header(header);
    for (name, set) in report.sets() {
        let mut row = vec![name.clone(), set.tools.to_string(), set.queries.to_string()];
        if has_ineligible {
            let judged = set.ineligible_judged.as_ref();
            row.push(judged.map_or(0, |judged| judged.tools).to_string());
        }
        for measure in &measures {
            row.push(figure(set.measures.get(measure).copied()));
        }
        if calibrated {
            let calibration = set.calibration.as_ref();
            row.push(figure(calibration.map(|calibration| calibration.ece)));
        }
        if abstained {
            let abstention = set.abstention.as_ref();
            row.push(figure(abstention.map(|abstention| abstention.auroc)));
        }
        let latency = set.latency_us.as_ref();
        row.push(time(latency.map(|latency| latency.p50)));
        row.push(time(latency.map(|latency| latency.p99)));
        table.add_row(row);
    }
    let mut mean = vec!["mean".to_owned(), String::new(), String::new()];
    if has_ineligible {
        mean.push(String::new());
    }
    for measure in &measures {
        mean.push(figure(report.mean().get(measure).copied()));
    }
    table.add_row(mean);
    align(&mut table)
}

/// Returns a table of the comparison with an earlier run.
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

/// Returns a table of the rates of talk.
pub(super) fn talk_table(report: &TalkReport) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["measure", "cases", "rate"]);
    for row in report.rows() {
        let cases = row.rate.cases().to_string();
        table.add_row([row.measure, cases, figure(row.rate.mean())]);
    }
    if let Some(share) = report.paste.share_of_ask_alone() {
        table.add_row([
            "pasted content: share of what the ask alone finds".to_owned(),
            String::new(),
            figure(Some(share)),
        ]);
    }
    align(&mut table)
}

/// Returns a Markdown table that compares the configurations.
pub(super) fn configurations_table(configurations: &[ConfigurationReport]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut header = vec!["ranking".to_owned()];
    for measure in &Measure::SUMMARY {
        header.push(measure.to_string());
    }
    header.extend(["ECE", "AUROC", "p50 µs", "p99 µs"].map(str::to_owned));
    table.set_header(header);
    for configuration in configurations {
        let mean = configuration.report.mean();
        let mut row = vec![configuration.name.clone()];
        for measure in &Measure::SUMMARY {
            row.push(figure(mean.get(measure).copied()));
        }
        row.push(figure(configuration.ece()));
        row.push(figure(configuration.auroc()));
        row.push(time(configuration.latency_us(|latency| latency.p50)));
        row.push(time(configuration.latency_us(|latency| latency.p99)));
        table.add_row(row);
    }
    align(&mut table)
}

fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) => format!("{value:.4}"),
        None => "–".to_owned(),
    }
}

fn time(microseconds: Option<f64>) -> String {
    match microseconds {
        Some(microseconds) => format!("{microseconds:.0}"),
        None => "–".to_owned(),
    }
}

/// Aligns figures to the right and names to the left, and returns the table.
pub(super) fn align(table: &mut Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
