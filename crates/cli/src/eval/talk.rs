//! Conversations and requests as people write them: `picktools eval --talk`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use picktools::selection::Degraded;
use picktools::{Catalog, PickOptions, Query};
use picktools_eval::{
    IneligibleJudgments, MissedCase, TalkCases, TalkKind, TalkMeasurement, TalkReport,
};
use serde::Serialize;

use super::super::args::progress_bar;
use super::super::output;
use super::sets::set_name;
use super::{EvalCommand, judged, tables};

/// The folder of catalogs in the folder of the cases.
const CATALOGS: &str = "catalogs";

/// A catalog that the cases are asked of.
struct TalkCatalog {
    name: String,
    catalog: Catalog,
    ineligible_judged: Option<IneligibleJudgments>,
}

#[derive(Serialize)]
struct TalkOutput<'a> {
    #[serde(flatten)]
    report: &'a TalkReport,
    /// The needed tools that the caller may not see, by catalog.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ineligible_judged: BTreeMap<&'a str, &'a IneligibleJudgments>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The picks that were degraded.
#[derive(Default)]
struct DegradedPicks {
    count: usize,
    first: Option<String>,
}

impl EvalCommand {
    /// Measures small talk, conversations, pasted content and parts of requests.
    pub(super) fn measure_talk(mut self, folder: &Path) -> anyhow::Result<()> {
        let mut options = self.options();
        options.min_score = self
            .min_score
            .unwrap_or_else(|| PickOptions::default().min_score);
        self.request.rerank.apply(&mut options);
        let mut cases = TalkCases::read(folder)?;
        if let Some(first) = self.catalog.first() {
            cases = cases.with_catalog(&set_name(first)?);
        }
        let catalogs = self.talk_catalogs(folder, &cases, &options)?;
        let model = self.request.ranking.open_model()?;
        let reranker = self
            .request
            .rerank
            .open(self.request.ranking.folders(), None)?;
        let extras = self.extras(reranker.as_ref())?;
        let mut measurement = TalkMeasurement::new(&cases, self.missed);
        let mut degraded = DegradedPicks::default();
        let bar = progress_bar("measuring");
        bar.set_length(catalogs.len() as u64);
        for TalkCatalog { name, catalog, .. } in &catalogs {
            let context = || format!("cannot measure with the catalog {name}");
            let engine = model.engine_with(catalog.clone(), extras.clone());
            let engine = engine.with_context(context)?;
            self.request.history.report_coverage(&engine);
            let mut pick = |query: &Query, max_candidates| {
                let options = PickOptions {
                    max_candidates,
                    ..options.clone()
                };
                let selection = engine.pick(query, &options)?;
                degraded.add(&selection.degraded);
                Ok(selection)
            };
            measurement
                .add_catalog(name, &mut pick)
                .with_context(context)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        degraded.warn();
        note_unread(folder, &cases);
        self.print_talk(&measurement.finish(), &catalogs)
    }

    /// Opens the catalogs, and checks that they have the tools that the cases need.
    fn talk_catalogs(
        &self,
        folder: &Path,
        cases: &TalkCases,
        options: &PickOptions,
    ) -> anyhow::Result<Vec<TalkCatalog>> {
        let mut catalogs = Vec::new();
        for (name, paths) in self.talk_paths(folder, cases)? {
            let context = || format!("cannot measure with the catalog {name}");
            let catalog = self.reading.open_for_picks(&paths).with_context(context)?;
            cases.check_tools(&name, |tool| catalog.find(tool).is_some())?;
            let unknown = options.unknown_values(&catalog)?;
            output::warnings(
                unknown.iter().map(|unknown| format!("{name}: {unknown}")),
                "",
            );
            let judgments = cases.judgments(&name);
            let ineligible_judged =
                judged::ineligible(&judgments, &catalog, &options.access).with_context(context)?;
            catalogs.push(TalkCatalog {
                name,
                catalog,
                ineligible_judged,
            });
        }
        Ok(catalogs)
    }

    /// Returns the paths of each catalog, by name.
    fn talk_paths(
        &self,
        folder: &Path,
        cases: &TalkCases,
    ) -> anyhow::Result<BTreeMap<String, Vec<PathBuf>>> {
        if let Some(first) = self.catalog.first() {
            return Ok(BTreeMap::from([(set_name(first)?, self.catalog.clone())]));
        }
        let catalogs = match &self.catalogs {
            Some(catalogs) => catalogs.clone(),
            None => folder.join(CATALOGS),
        };
        if !catalogs.is_dir() {
            bail!(
                "{} is not a folder; pass --catalogs DIR with a folder for each catalog, or \
                 --catalog PATH for one catalog",
                catalogs.display()
            );
        }
        let mut paths = BTreeMap::new();
        for (name, origin) in cases.catalogs()? {
            let path = catalogs.join(name);
            if !is_folder_name(name) || !path.is_dir() {
                bail!(
                    "{origin}: unknown catalog {:?}; name a folder of {}",
                    output::line(name),
                    catalogs.display()
                );
            }
            paths.insert(name.to_owned(), vec![path]);
        }
        if paths.is_empty() {
            return all_catalogs(&catalogs);
        }
        Ok(paths)
    }

    /// Prints the rates, and the missed cases that are listed.
    fn print_talk(&self, report: &TalkReport, catalogs: &[TalkCatalog]) -> anyhow::Result<()> {
        let mut ineligible_judged = BTreeMap::new();
        let mut warnings = Vec::new();
        for catalog in catalogs {
            if let Some(judged) = &catalog.ineligible_judged {
                ineligible_judged.insert(catalog.name.as_str(), judged);
                warnings.push(judged::ineligible_warning(&catalog.name, judged));
            }
        }
        output::warnings(&warnings, "");
        if self.json {
            return output::json(&TalkOutput {
                report,
                ineligible_judged,
                warnings,
            });
        }
        output::answer(tables::talk_table(report))?;
        for missed in &report.missed {
            output::answer(missed_lines(missed))?;
        }
        Ok(())
    }
}

impl DegradedPicks {
    fn add(&mut self, failures: &[Degraded]) {
        if let Some(failure) = failures.first() {
            self.count += 1;
            self.first.get_or_insert_with(|| {
                format!("the first in stage {}: {}", failure.stage, failure.reason)
            });
        }
    }

    fn warn(&self) {
        if let Some(first) = &self.first {
            output::warn(format!("{} picks are degraded, {first}", self.count));
        }
    }
}

/// Tells which kinds have no case, and which files were not read.
fn note_unread(folder: &Path, cases: &TalkCases) {
    let folder = folder.display();
    for kind in cases.missing() {
        output::note(format!(
            "not measured: {}; {folder} has no case in {}*.jsonl",
            kind.name(),
            kind.file_prefix()
        ));
    }
    let prefixes = TalkKind::ALL.map(TalkKind::file_prefix).join(", ");
    for file in cases.ignored_files() {
        output::note(format!(
            "not read: {}; its name does not begin with one of {prefixes}",
            file.display()
        ));
    }
}

/// Returns `true` if a name is that of an entry of a folder, and leads nowhere else.
fn is_folder_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let first = components.next();
    matches!(first, Some(std::path::Component::Normal(_))) && components.next().is_none()
}

/// Returns all folders in the folder of catalogs, for cases that name none.
fn all_catalogs(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<PathBuf>>> {
    let unreadable = || format!("cannot read {}", folder.display());
    let mut paths = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        if entry.path().is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            paths.insert(name, vec![entry.path()]);
        }
    }
    if paths.is_empty() {
        bail!(
            "{} has no catalog; add a folder with tools.jsonl",
            folder.display()
        );
    }
    Ok(paths)
}

/// Returns the lines about a missed case.
fn missed_lines(missed: &MissedCase) -> String {
    let list = |tools: &[String]| match tools {
        [] => "nothing".to_owned(),
        tools => tools.join(", "),
    };
    format!(
        "\nmissed ({}), {}, catalog {}:\n  {}\n  needed: {}\n  picked: {}",
        missed.measure,
        missed.case,
        missed.catalog,
        missed.request.replace(['\n', '\r'], " "),
        list(&missed.needed),
        list(&missed.picked)
    )
}
