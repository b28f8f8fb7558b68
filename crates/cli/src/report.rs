//! The HTML report of an evaluation: one page that loads nothing, in light and dark.
//!
//! Texts of catalogs and requests are untrusted. They reach the page through the template, which
//! escapes them and spells out odd characters ([`filters`]). The labels of charts are escaped, too.
//! The page has no date, so that equal results produce equal pages apart from latencies.

mod charts;
mod filters;
mod requests;
mod sections;
mod tables;

use std::time::Duration;

use askama::Template;
use picktools_eval::{ConfigurationReport, Measure, PerQuery, Qrels, QuerySet, Run};

use self::requests::Differences;
use self::sections::SetCounts;
use self::tables::{CellContent, ChartWithTable, Table};

const STYLE: &str = include_str!("report/style.css");

/// The measure by which configurations are compared.
const MEASURE: Measure = Measure::SUMMARY[0];

/// The content of the report.
pub(super) struct ReportPage<'a> {
    pub(super) configurations: &'a [ConfigurationReport],
    /// The index of the configuration that most of the page describes.
    pub(super) subject: usize,
    /// The index of the configuration with which the subject is compared per request.
    pub(super) baseline: usize,
    /// The index of the configuration that uses every signal.
    pub(super) full: usize,
    /// The configurations without one of the signals, with their descriptions.
    pub(super) ablations: &'a [(String, usize)],
    /// The names and identities of the models.
    pub(super) models: Vec<(&'a str, &'a str)>,
    /// The warnings about the judgments of the sets.
    pub(super) warnings: Vec<&'a str>,
    /// The sets, in the order of the reports.
    pub(super) sets: Vec<PageSet<'a>>,
}

/// One set, with the answers of the subject and the baseline.
pub(super) struct PageSet<'a> {
    pub(super) name: &'a str,
    pub(super) queries: &'a QuerySet,
    pub(super) qrels: &'a Qrels,
    pub(super) subject: Side<'a>,
    pub(super) baseline: Side<'a>,
    /// The time that the subject took for each request.
    pub(super) times: &'a [Duration],
    /// The subject's answerability estimates, with and without the tools that answer the requests.
    pub(super) estimates: Option<(&'a [f64], &'a [f64])>,
}

/// The answers of one configuration.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) run: &'a Run,
    pub(super) scores: &'a PerQuery,
}

/// The values of the template.
#[derive(Template)]
#[template(path = "report/page.html")]
struct PageTemplate<'a> {
    style: &'static str,
    subject: &'a str,
    baseline: &'a str,
    full: &'a str,
    measure: String,
    program: &'static str,
    models: &'a [(&'a str, &'a str)],
    sets: Vec<SetCounts>,
    warnings: &'a [&'a str],
    comparison: ChartWithTable,
    means: Table,
    intervals: Option<Table>,
    ablation: Table,
    calibration: Option<ChartWithTable>,
    bins: usize,
    latency: Option<ChartWithTable>,
    differences: Option<Differences>,
    abstention: Option<ChartWithTable>,
}

impl ReportPage<'_> {
    /// Renders the page.
    pub(super) fn to_html(&self) -> anyhow::Result<String> {
        let (calibration, bins) = sections::calibration(self).unzip();
        let template = PageTemplate {
            style: STYLE,
            subject: &self.subject().name,
            baseline: &self.baseline().name,
            full: &self.configurations[self.full].name,
            measure: MEASURE.to_string(),
            program: env!("CARGO_PKG_VERSION"),
            models: &self.models,
            sets: sections::sets(self),
            warnings: &self.warnings,
            comparison: sections::comparison(self),
            means: sections::means(self),
            intervals: sections::intervals(self),
            ablation: sections::ablation(self),
            calibration,
            bins: bins.unwrap_or_default(),
            latency: sections::latency(self),
            differences: requests::differences(self),
            abstention: sections::abstention(self),
        };
        Ok(template.render()?)
    }

    fn subject(&self) -> &ConfigurationReport {
        &self.configurations[self.subject]
    }

    fn baseline(&self) -> &ConfigurationReport {
        &self.configurations[self.baseline]
    }
}
