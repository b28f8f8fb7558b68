//! `picktools import openapi`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use picktools::catalog::{CatalogError, CatalogFile, Conflicts};
use picktools::{CatalogOptions, Tool};
use rayon::prelude::*;
use walkdir::WalkDir;

use super::filter::{Filter, FilterArgs};
use crate::{heading, output, reading};

/// How many documents are read side by side.
const MAX_AT_ONCE: usize = 8;
/// Of how many bytes together, of which the tools take up to a hundred times as much memory; a
/// larger one is read by itself.
const MAX_BYTES_AT_ONCE: u64 = 8 << 20;
/// The endings of documents in a folder.
const ENDINGS: [&str; 3] = ["json", "yaml", "yml"];

#[derive(Args)]
pub(super) struct OpenApiCommand {
    /// Documents, `-` for standard input, or folders: all their *.json, *.yaml and *.yml files,
    /// also those in folders within.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    /// The source of the tools; by default the file's name, or the title where that is openapi,
    /// swagger or the like.
    #[arg(long, value_name = "NAME", help_heading = heading::CATALOG)]
    source: Option<String>,
    /// Do not mark operations that delete as unsafe.
    #[arg(long, help_heading = heading::CATALOG)]
    allow_deletes: bool,
}

/// What became of the documents.
#[derive(Default)]
struct Report {
    documents: usize,
    tools: usize,
    left_out: usize,
    refused: usize,
    /// How often each reason was given.
    reasons: BTreeMap<String, usize>,
}

/// What one document gives.
struct Imported {
    /// A tool each.
    lines: Vec<String>,
    /// Warnings, each with its reason.
    left_out: Vec<(String, String)>,
}

impl OpenApiCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let filter = self.filter.filter()?;
        let documents = documents(&self.paths)?;
        let progress = ProgressBar::new(documents.len() as u64);
        progress.set_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} documents, {eta} left")
                .context("progress")?,
        );
        let mut report = Report::default();
        let mut warnings = Vec::new();
        for some in groups(&documents) {
            let read: Vec<_> = some
                .par_iter()
                .map(|path| self.import(path, &filter))
                .collect();
            for (path, imported) in some.iter().zip(read) {
                progress.inc(1);
                match imported {
                    Ok(imported) => {
                        report.documents += 1;
                        report.tools += imported.lines.len();
                        report.left_out += imported.left_out.len();
                        imported.lines.iter().try_for_each(output::verbatim)?;
                        for (warning, reason) in imported.left_out {
                            warnings.push(format!("{}: {warning}", path.display()));
                            *report.reasons.entry(reason).or_default() += 1;
                        }
                    }
                    Err(error) if documents.len() == 1 => return Err(error),
                    Err(error) => {
                        report.refused += 1;
                        warnings.push(format!("{error:#}"));
                    }
                }
            }
        }
        progress.finish_and_clear();
        let left_out = !warnings.is_empty();
        output::warnings(warnings, "");
        report.write();
        Ok(if left_out {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn import(&self, path: &Path, filter: &Filter) -> anyhow::Result<Imported> {
        let files = if path == Path::new("-") {
            vec![CatalogFile::new(
                "standard input",
                reading::read_input(path)?,
            )]
        } else {
            CatalogFile::open(path)?
        };
        let options = CatalogOptions {
            // Names that are alike within one document are no fault of the others.
            conflicts: Conflicts::Warn,
            default_source: self.source.clone(),
            readers: picktools_import::readers(),
            ..CatalogOptions::default()
        };
        let catalog = options.read_files(&files).map_err(|error| match error {
            CatalogError::UnknownFormat { .. } | CatalogError::Syntax { .. } => {
                anyhow::Error::new(error).context("it is not an OpenAPI document")
            }
            error => error.into(),
        })?;
        if catalog.tools().iter().any(|tool| tool.http.is_none()) {
            anyhow::bail!(
                "{}: it is a catalog of tools, not an OpenAPI document; give it to --catalog",
                path.display()
            );
        }
        let line = |tool: &Arc<Tool>| {
            let mut tool = Arc::clone(tool);
            if self.allow_deletes && tool.annotations.destructive_hint.is_some() {
                Arc::make_mut(&mut tool).annotations.destructive_hint = None;
            }
            serde_json::to_string(&tool)
        };
        let lines = catalog
            .tools()
            .iter()
            .filter(|tool| filter.takes(tool))
            .map(line)
            .collect::<Result<_, _>>()?;
        let left_out = catalog
            .notices()
            .iter()
            .map(|notice| (notice.to_string(), notice.remedy.clone()))
            .collect();
        Ok(Imported { lines, left_out })
    }
}

impl Report {
    fn write(&self) {
        let Self {
            documents,
            tools,
            left_out,
            refused,
            ..
        } = self;
        output::note(format!(
            "{tools} tools of {documents} documents; {left_out} operations left out, {refused} documents refused"
        ));
        for (reason, count) in &self.reasons {
            output::note(format!("  {count} left out: {reason}"));
        }
    }
}

/// Documents to be read side by side.
fn groups(documents: &[PathBuf]) -> impl Iterator<Item = &[PathBuf]> {
    let bytes = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let mut rest = documents;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = |path: &&PathBuf| {
            sum += bytes(path);
            sum <= MAX_BYTES_AT_ONCE
        };
        let count = rest
            .iter()
            .take(MAX_AT_ONCE)
            .take_while(fits)
            .count()
            .max(1)
            .min(rest.len());
        let (some, others) = rest.split_at(count);
        rest = others;
        (!some.is_empty()).then_some(some)
    })
}

/// The documents that paths name, those of a folder in the order of their names.
fn documents(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut documents = Vec::new();
    for path in paths {
        if !path.is_dir() {
            documents.push(path.clone());
            continue;
        }
        let before = documents.len();
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry =
                entry.with_context(|| format!("cannot read the folder {}", path.display()))?;
            let ending = entry
                .path()
                .extension()
                .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
            if ending && entry.file_type().is_file() {
                documents.push(entry.into_path());
            }
        }
        if documents.len() == before {
            anyhow::bail!(
                "the folder {} holds no *.json, *.yaml or *.yml file",
                path.display()
            );
        }
    }
    Ok(documents)
}
