//! The report of an evaluation as a page: one file of HTML that loads nothing, in light and dark.
//!
//! Catalogs and requests are strangers' text: whatever of it reaches the page goes through the
//! template, which escapes it and spells out what is odd ([`filters`]), or through a chart's
//! labels, which are escaped too. The page tells no time of day, so that equal results make equal
//! pages but for the latencies.

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
use self::tables::{Content, Drawn, Table};

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
    /// The subject's estimates of whether a request can be answered, with and without the tools
    /// that answer it.
    pub(super) estimates: Option<(&'a [f64], &'a [f64])>,
}

/// What one configuration answered.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) run: &'a Run,
    pub(super) scores: &'a PerQuery,
}

/// What the template writes.
#[derive(Template)]
#[template(path = "report/page.html")]
struct Written<'a> {
    style: &'static str,
    subject: &'a str,
    baseline: &'a str,
    whole: &'a str,
    measure: String,
    program: &'static str,
    models: &'a [(&'a str, &'a str)],
    sets: Vec<SetCounts>,
    comparison: Drawn,
    means: Table,
    ablation: Table,
    calibration: Option<Drawn>,
    bins: usize,
    latency: Option<Drawn>,
    differences: Option<Differences>,
    abstention: Option<Drawn>,
}

impl Page<'_> {
    /// Writes the page.
    pub(super) fn to_html(&self) -> anyhow::Result<String> {
        let (calibration, bins) = sections::calibration(self).unzip();
        let written = Written {
            style: STYLE,
            subject: &self.subject().name,
            baseline: &self.baseline().name,
            whole: &self.configurations[self.whole].name,
            measure: MEASURE.to_string(),
            program: env!("CARGO_PKG_VERSION"),
            models: &self.models,
            sets: sections::sets(self),
            comparison: sections::comparison(self),
            means: sections::means(self),
            ablation: sections::ablation(self),
            calibration,
            bins: bins.unwrap_or_default(),
            latency: sections::latency(self),
            differences: requests::differences(self),
            abstention: sections::abstention(self),
        };
        Ok(written.render()?)
    }

    fn subject(&self) -> &ConfigurationReport {
        &self.configurations[self.subject]
    }

    fn baseline(&self) -> &ConfigurationReport {
        &self.configurations[self.baseline]
    }
}
