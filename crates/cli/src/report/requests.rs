//! The part of the page about single requests.

use std::collections::BTreeMap;

use super::charts;
use super::content::{MEASURE, PageSet, ReportPage, Side};
use super::tables::{Cell, CellContent, ChartWithTable, Table, cut};
use picktools_eval::{
    CompareOptions, Judgments, QueryDifference, RunEntry, TIE, compare,
    differences as query_differences,
};

/// The number of won and of lost requests per set.
const MAX_SHOWN: usize = 10;

/// The number of picks per configuration.
const PICKS: usize = 5;

/// The number of relevant tools per request.
const RELEVANT: usize = 6;

/// The most characters of a request, and of the id of a tool.
const TEXT_CHARS: usize = 280;
const ID_CHARS: usize = 80;

/// The most points of the chart.
const CHART_POINTS: usize = 600;

/// The requests of a set with the largest gains and losses.
pub(super) struct SetPart {
    pub(super) name: String,
    /// The tables with their titles; `None` if a table is empty.
    pub(super) parts: Vec<(&'static str, Option<Table>)>,
}

/// The requests on which the subject and the baseline differ.
pub(super) struct Differences {
    pub(super) chart_with_table: ChartWithTable,
    pub(super) sets: Vec<SetPart>,
}

/// Compares the subject with the baseline per request. Returns `None` if no request was scored.
pub(super) fn differences(page: &ReportPage<'_>) -> Option<Differences> {
    let mut all = Vec::new();
    let mut table = Table::new(["set", "won", "equal", "lost", "difference", "p"]);
    let mut sets = Vec::new();
    for set in &page.sets {
        let set_differences = query_differences(set.baseline.scores, set.subject.scores, MEASURE);
        all.extend(set_differences.iter().map(QueryDifference::difference));
        if let Some(row) = counts(set) {
            table.row(row);
        }
        sets.push(set_part(page, set, &set_differences));
    }
    if all.is_empty() {
        return None;
    }
    all.sort_by(|a, b| b.total_cmp(a));
    let chart = charts::differences(
        &format!("Differences in {MEASURE} by request"),
        &MEASURE.to_string(),
        &thinned(&all),
    );
    Some(Differences {
        chart_with_table: ChartWithTable { chart, table },
        sets,
    })
}

/// Returns the counts of a set, or `None` if no request was scored.
fn counts(set: &PageSet<'_>) -> Option<Vec<Cell>> {
    let comparison = compare(
        set.baseline.scores,
        set.subject.scores,
        CompareOptions::default(),
    )
    .ok()?;
    let row = comparison.measures.get(&MEASURE)?;
    Some(vec![
        Cell::name(set.name),
        Cell::figure(row.wins),
        Cell::figure(row.ties),
        Cell::figure(row.losses),
        Cell::difference(row.difference),
        Cell::figure(format_args!("{:.4}", row.p)),
    ])
}

/// Returns the sorted differences with their ranks; of many, evenly spaced ones and the last.
fn thinned(sorted: &[f64]) -> Vec<(f64, f64)> {
    let step = sorted.len().div_ceil(CHART_POINTS).max(1);
    let last = sorted.len() - 1;
    let mut points = Vec::new();
    for (index, difference) in sorted.iter().enumerate() {
        if index % step == 0 || index == last {
            points.push(((index + 1) as f64, *difference));
        }
    }
    points
}

fn set_part(page: &ReportPage<'_>, set: &PageSet<'_>, differences: &[QueryDifference]) -> SetPart {
    let mut texts = BTreeMap::new();
    for query in set.queries {
        texts.insert(query.id.as_str(), query.text.as_str());
    }
    let won: Vec<_> = differences
        .iter()
        .take(MAX_SHOWN)
        .filter(|one| one.difference() > TIE)
        .collect();
    let lost: Vec<_> = differences
        .iter()
        .rev()
        .take(MAX_SHOWN)
        .filter(|one| one.difference() < -TIE)
        .collect();
    let (subject, baseline) = (&page.subject().name, &page.baseline().name);
    let part = |requests: Vec<&QueryDifference>| {
        let mut table = Table::new(["difference", "request", "relevant tools", subject, baseline]);
        for one in &requests {
            let text = texts.get(one.query.as_str()).copied().unwrap_or_default();
            table.row(row(set, one, text));
        }
        (!requests.is_empty()).then_some(table)
    };
    SetPart {
        name: set.name.to_owned(),
        parts: vec![("won most", part(won)), ("lost most", part(lost))],
    }
}

fn row(set: &PageSet<'_>, one: &QueryDifference, text: &str) -> Vec<Cell> {
    let request = CellContent::Request {
        text: cut(text, TEXT_CHARS).into_owned(),
        id: cut(&one.query, ID_CHARS).into_owned(),
    };
    let unjudged = Judgments::default();
    let judgments = set.qrels.get(&one.query).unwrap_or(&unjudged);
    vec![
        Cell::difference(one.difference()),
        Cell::new(request),
        Cell::new(relevant(set, &one.query, judgments)),
        Cell::new(picks(set.subject, &one.query, judgments)),
        Cell::new(picks(set.baseline, &one.query, judgments)),
    ]
}

/// Returns the relevant tools with their ranks by the subject and by the baseline.
fn relevant(set: &PageSet<'_>, query: &str, judgments: &Judgments) -> CellContent {
    let mut tools = Vec::new();
    let mut more = 0;
    for (tool, grade) in judgments.iter() {
        if grade <= 0 {
            continue;
        }
        if tools.len() == RELEVANT {
            more += 1;
            continue;
        }
        let subject_rank = rank(set.subject, query, tool);
        let baseline_rank = rank(set.baseline, query, tool);
        let ranks = format!("{subject_rank} / {baseline_rank}");
        tools.push((cut(tool, ID_CHARS).into_owned(), ranks));
    }
    CellContent::Relevant { tools, more }
}

/// Returns the rank of a tool, or a dash if it is not in the ranking.
fn rank(side: Side<'_>, query: &str, tool: &str) -> String {
    let mut entries = ranking(side, query).iter();
    match entries.position(|entry| entry.tool == tool) {
        Some(index) => (index + 1).to_string(),
        None => "–".to_owned(),
    }
}

/// Returns the first picks, with a mark at relevant ones.
fn picks(side: Side<'_>, query: &str, judgments: &Judgments) -> CellContent {
    let mut picks = Vec::new();
    for entry in ranking(side, query).iter().take(PICKS) {
        let is_relevant = judgments.grade(&entry.tool).is_some_and(|grade| grade > 0);
        picks.push((cut(&entry.tool, ID_CHARS).into_owned(), is_relevant));
    }
    CellContent::Picks(picks)
}

fn ranking<'a>(side: Side<'a>, query: &str) -> &'a [RunEntry] {
    side.run.get(query).unwrap_or_default()
}
