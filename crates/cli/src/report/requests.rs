//! The part of the page that goes request by request.

use std::collections::BTreeMap;

use super::tables::{Cell, Content, Drawn, Table, cut};
use super::{MEASURE, Page, PageSet, Side, charts};
use picktools_eval::{
    CompareOptions, Judgments, QueryDifference, RunEntry, TIE, compare,
    differences as query_differences,
};

/// How many requests that won, and that lost, are shown of a set.
const SHOWN: usize = 10;

/// How many picks of each side are shown.
const PICKS: usize = 5;

/// How many relevant tools of a request are shown.
const RELEVANT: usize = 6;

/// The most characters of a request, and of a tool's id.
const TEXT_CHARS: usize = 280;
const ID_CHARS: usize = 80;

/// The most points of the chart.
const CHART_POINTS: usize = 600;

/// The requests of a set that won most and lost most.
pub(super) struct SetPart {
    pub(super) name: String,
    /// Each with a title; without a table where there are none.
    pub(super) parts: Vec<(&'static str, Option<Table>)>,
}

/// Where the subject is better than the baseline, and where it is worse.
pub(super) struct Differences {
    pub(super) drawn: Drawn,
    pub(super) sets: Vec<SetPart>,
}

/// Where the subject is better than the baseline, and where it is worse; `None` where no request
/// was scored.
pub(super) fn differences(page: &Page<'_>) -> Option<Differences> {
    let mut all = Vec::new();
    let mut table = Table::new(["set", "won", "equal", "lost", "difference", "p"]);
    let mut sets = Vec::new();
    for set in &page.sets {
        let found = query_differences(set.baseline.scores, set.subject.scores, MEASURE);
        all.extend(found.iter().map(QueryDifference::difference));
        if let Some(row) = counts(set) {
            table.row(row);
        }
        sets.push(set_part(page, set, &found));
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
        drawn: Drawn { chart, table },
        sets,
    })
}

/// The sums of a set; none where no request was scored.
fn counts(set: &PageSet<'_>) -> Option<Vec<Cell>> {
    let comparison = compare(
        set.baseline.scores,
        set.subject.scores,
        CompareOptions::default(),
    )
    .ok()?;
    let row = comparison.measures.get(&MEASURE)?;
    let counts = [row.wins, row.ties, row.losses].map(Cell::figure);
    let rest = [
        Cell::difference(row.difference),
        Cell::figure(format_args!("{:.4}", row.p)),
    ];
    Some(
        std::iter::once(Cell::name(set.name))
            .chain(counts)
            .chain(rest)
            .collect(),
    )
}

/// The sorted differences with their places; of many, evenly spaced ones and the last.
fn thinned(sorted: &[f64]) -> Vec<(f64, f64)> {
    let step = sorted.len().div_ceil(CHART_POINTS).max(1);
    let last = sorted.len() - 1;
    let places = (0..sorted.len()).filter(|place| place % step == 0 || *place == last);
    places
        .map(|place| ((place + 1) as f64, sorted[place]))
        .collect()
}

fn set_part(page: &Page<'_>, set: &PageSet<'_>, found: &[QueryDifference]) -> SetPart {
    let texts: BTreeMap<&str, &str> = set
        .queries
        .iter()
        .map(|query| (query.id.as_str(), query.text.as_str()))
        .collect();
    let won: Vec<_> = found
        .iter()
        .take(SHOWN)
        .filter(|one| one.difference() > TIE)
        .collect();
    let lost: Vec<_> = found
        .iter()
        .rev()
        .take(SHOWN)
        .filter(|one| one.difference() < -TIE)
        .collect();
    let [subject, baseline] = [page.subject(), page.baseline()].map(|side| side.name.as_str());
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
    let request = Content::Request {
        text: cut(text, TEXT_CHARS).into_owned(),
        id: cut(&one.query, ID_CHARS).into_owned(),
    };
    let unjudged = Judgments::default();
    let judgments = set.qrels.get(&one.query).unwrap_or(&unjudged);
    vec![
        Cell::difference(one.difference()),
        Cell::of(request),
        Cell::of(relevant(set, &one.query, judgments)),
        Cell::of(picks(set.subject, &one.query, judgments)),
        Cell::of(picks(set.baseline, &one.query, judgments)),
    ]
}

/// The relevant tools, with their ranks by the subject and by the baseline.
fn relevant(set: &PageSet<'_>, query: &str, judgments: &Judgments) -> Content {
    let rank = |side: Side<'_>, tool: &str| {
        let place = ranking(side, query)
            .iter()
            .position(|entry| entry.tool == tool);
        place.map_or_else(|| "–".to_owned(), |place| (place + 1).to_string())
    };
    let tools: Vec<&str> = judgments
        .iter()
        .filter(|(_, grade)| *grade > 0)
        .map(|(tool, _)| tool)
        .collect();
    let shown = tools.iter().take(RELEVANT).map(|tool| {
        let ranks = format!("{} / {}", rank(set.subject, tool), rank(set.baseline, tool));
        (cut(tool, ID_CHARS).into_owned(), ranks)
    });
    Content::Relevant {
        tools: shown.collect(),
        more: tools.len().saturating_sub(RELEVANT),
    }
}

/// The first picks; the relevant ones stand out.
fn picks(side: Side<'_>, query: &str, judgments: &Judgments) -> Content {
    let shown = ranking(side, query).iter().take(PICKS).map(|entry| {
        let is_relevant = judgments.grade(&entry.tool).is_some_and(|grade| grade > 0);
        (cut(&entry.tool, ID_CHARS).into_owned(), is_relevant)
    });
    Content::Picks(shown.collect())
}

fn ranking<'a>(side: Side<'a>, query: &str) -> &'a [RunEntry] {
    side.run.get(query).unwrap_or_default()
}
