//! The report of an evaluation as a page: one file of HTML that loads nothing, in light and dark.
//!
//! Catalogs and requests are strangers' text: whatever of it reaches the page goes through [`html::escape`], or through
//! a chart's labels, which are escaped too. The page tells no time of day, so that equal results make equal pages but for
//! the latencies.

mod charts;
mod html;
mod requests;
mod sections;

use std::time::Duration;

use self::html::escape;
use picktools::eval::{ConfigurationReport, Measure, PerQuery, Qrels, QuerySet, Run};

const STYLE: &str = include_str!("report/style.css");

/// What configurations are compared by.
const MEASURE: Measure = Measure::SUMMARY[0];

/// What the page shows.
pub(super) struct Page<'a> {
    pub(super) configurations: &'a [ConfigurationReport],
    /// The configuration that most of the page is about.
    pub(super) subject: usize,
    /// The one that it is held against request by request.
    pub(super) baseline: usize,
    /// The one that uses every signal.
    pub(super) whole: usize,
    /// What is taken away from it, and the configuration that is left.
    pub(super) ablations: &'a [(String, usize)],
    /// Names and identities.
    pub(super) models: Vec<(&'a str, &'a str)>,
    /// In the order of the reports.
    pub(super) sets: Vec<PageSet<'a>>,
}

/// One set, as the subject and the baseline answered it.
pub(super) struct PageSet<'a> {
    pub(super) name: &'a str,
    pub(super) queries: &'a QuerySet,
    pub(super) qrels: &'a Qrels,
    pub(super) subject: Side<'a>,
    pub(super) baseline: Side<'a>,
    /// How long the subject took for each request.
    pub(super) times: &'a [Duration],
    /// The subject's estimates of whether a request can be answered, with and without the tools that answer it.
    pub(super) estimates: Option<(&'a [f64], &'a [f64])>,
}

/// What one configuration answered.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) run: &'a Run,
    pub(super) scores: &'a PerQuery,
}

impl Page<'_> {
    /// Writes the page.
    pub(super) fn to_html(&self) -> String {
        let subject = escape(&self.subject().name);
        let sections = [
            sections::head(self),
            sections::comparison(self),
            sections::ablation(self),
            sections::calibration(self),
            sections::latency(self),
            requests::differences(self),
            sections::abstention(self),
        ];
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>picktools: {subject}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}</main>\n\
             </body>\n</html>\n",
            sections.concat()
        )
    }

    fn subject(&self) -> &ConfigurationReport {
        &self.configurations[self.subject]
    }

    fn baseline(&self) -> &ConfigurationReport {
        &self.configurations[self.baseline]
    }
}
