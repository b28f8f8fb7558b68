//! The HTML report of an evaluation: one page that loads nothing, in light and dark.
//!
//! Texts of catalogs and requests are untrusted. They reach the page through the template, which
//! escapes them and spells out odd characters ([`filters`]). The labels of charts are escaped, too.
//! The page has no date, so that equal results produce equal pages apart from latencies.

mod charts;
mod content;
mod filters;
mod requests;
mod sections;
mod tables;

use askama::Template;
use picktools_eval::ConfigurationReport;

use self::content::MEASURE;
pub(super) use self::content::{PageSet, ReportPage, Side};
use self::requests::Differences;
use self::sections::SetCounts;
use self::tables::{CellContent, ChartWithTable, Table};

const STYLE: &str = include_str!("report/style.css");

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
