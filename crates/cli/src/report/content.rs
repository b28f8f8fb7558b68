//! The content of the report.

use std::time::Duration;

use picktools_eval::{ConfigurationReport, Measure, PerQuery, Qrels, QuerySet, Run};

/// The measure by which configurations are compared.
pub(super) const MEASURE: Measure = Measure::SUMMARY[0];

/// The content of the report.
pub(crate) struct ReportPage<'a> {
    pub(crate) configurations: &'a [ConfigurationReport],
    /// The index of the configuration that most of the page describes.
    pub(crate) subject: usize,
    /// The index of the configuration with which the subject is compared per request.
    pub(crate) baseline: usize,
    /// The index of the configuration that uses every signal.
    pub(crate) full: usize,
    /// The configurations without one of the signals, with their descriptions.
    pub(crate) ablations: &'a [(String, usize)],
    /// The names and identities of the models.
    pub(crate) models: Vec<(&'a str, &'a str)>,
    /// The warnings about the judgments of the sets.
    pub(crate) warnings: Vec<&'a str>,
    /// The sets, in the order of the reports.
    pub(crate) sets: Vec<PageSet<'a>>,
}

/// One set, with the answers of the subject and the baseline.
pub(crate) struct PageSet<'a> {
    pub(crate) name: &'a str,
    pub(crate) queries: &'a QuerySet,
    pub(crate) qrels: &'a Qrels,
    pub(crate) subject: Side<'a>,
    pub(crate) baseline: Side<'a>,
    /// The time that the subject took for each request.
    pub(crate) times: &'a [Duration],
    /// The subject's answerability estimates, with and without the tools that answer the requests.
    pub(crate) estimates: Option<(&'a [f64], &'a [f64])>,
}

/// The answers of one configuration.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) run: &'a Run,
    pub(crate) scores: &'a PerQuery,
}
