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

/// The largest number of documents that are read in parallel.
const MAX_PARALLEL_DOCUMENTS: usize = 8;
/// The largest total size of documents that are read in parallel. Their tools take up to a hundred
/// times as much memory. A larger document is read alone.
const MAX_PARALLEL_BYTES: u64 = 8 << 20;
/// The file extensions of documents in a folder.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

pub(super) const EXAMPLES: &str = "\
Examples:
  picktools import openapi fixtures/openapi/library.yaml > tools.jsonl
  picktools import openapi fixtures/openapi --only 'library/*' --except '*_id' > tools.jsonl";

/// The arguments of `picktools import openapi`.
#[derive(Args)]
pub(super) struct OpenApiCommand {
    /// Documents, folders of documents, or - for standard input.
    ///
    /// In a folder, all *.json, *.yaml and *.yml files are read, also those in subfolders.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Source of the tools [default: the name of the file].
    ///
    /// If the file has a generic name, such as openapi or swagger, the title of the document is the
    /// default.
    #[arg(long, value_name = "NAME", help_heading = heading::CATALOG)]
    source: Option<String>,
    /// Do not mark operations that delete as unsafe.
    #[arg(long, help_heading = heading::CATALOG)]
    allow_deletes: bool,
}

/// The counts of an import.
#[derive(Default)]
struct ImportReport {
    documents: usize,
    tools: usize,
    left_out: usize,
    refused: usize,
    /// The number of left-out operations per reason.
    reasons: BTreeMap<String, usize>,
}

/// The result of one document.
struct ImportedDocument {
    /// The tools, one per line.
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
        let mut report = ImportReport::default();
        let mut warnings = Vec::new();
        for group in groups(&documents) {
            let results: Vec<_> = group
                .par_iter()
                .map(|path| self.import(path, &filter))
                .collect();
            for (path, imported) in group.iter().zip(results) {
                progress.inc(1);
                match imported {
                    Ok(imported) => {
                        report.documents += 1;
                        report.tools += imported.lines.len();
                        report.left_out += imported.left_out.len();
                        imported.lines.iter().try_for_each(output::json_text)?;
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

    fn import(&self, path: &Path, filter: &Filter) -> anyhow::Result<ImportedDocument> {
        let files = if path == Path::new("-") {
            vec![CatalogFile::new(
                "standard input",
                reading::read_input(path)?,
            )]
        } else {
            CatalogFile::open(path)?
        };
        let options = CatalogOptions {
            // A name conflict within one document must not refuse the others.
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
        let tools = catalog.tools()?;
        if tools.iter().any(|tool| tool.http.is_none()) {
            anyhow::bail!(
                "{}: it is a catalog, not an OpenAPI document; pass it to --catalog",
                path.display()
            );
        }
        let mut lines = Vec::new();
        for tool in tools {
            if filter.takes(tool) {
                lines.push(self.line(tool)?);
            }
        }
        let mut left_out = Vec::new();
        for notice in catalog.notices() {
            left_out.push((notice.to_string(), notice.remedy.clone()));
        }
        Ok(ImportedDocument { lines, left_out })
    }

    /// Returns a tool as a line of JSON.
    fn line(&self, tool: &Arc<Tool>) -> serde_json::Result<String> {
        let mut tool = Arc::clone(tool);
        if self.allow_deletes && tool.annotations.destructive_hint.is_some() {
            Arc::make_mut(&mut tool).annotations.destructive_hint = None;
        }
        serde_json::to_string(&tool)
    }
}

impl ImportReport {
    fn write(&self) {
        let Self {
            documents,
            tools,
            left_out,
            refused,
            ..
        } = self;
        output::note(format!(
            "imported {tools} tools from {documents} documents; {left_out} operations left out, \
             {refused} documents refused"
        ));
        for (reason, count) in &self.reasons {
            output::note(format!("  {count} left out: {reason}"));
        }
    }
}

/// Splits the documents into groups that are read in parallel.
fn groups(documents: &[PathBuf]) -> impl Iterator<Item = &[PathBuf]> {
    let bytes = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let mut rest = documents;
    std::iter::from_fn(move || {
        let mut sum = 0;
        let fits = |path: &&PathBuf| {
            sum += bytes(path);
            sum <= MAX_PARALLEL_BYTES
        };
        let count = rest
            .iter()
            .take(MAX_PARALLEL_DOCUMENTS)
            .take_while(fits)
            .count()
            .max(1)
            .min(rest.len());
        let (group, others) = rest.split_at(count);
        rest = others;
        (!group.is_empty()).then_some(group)
    })
}

/// Returns the documents that the paths name; those of a folder in the order of their names.
fn documents(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut documents = Vec::new();
    for path in paths {
        if !path.is_dir() {
            documents.push(path.clone());
            continue;
        }
        let previous_count = documents.len();
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry =
                entry.with_context(|| format!("cannot read the folder {}", path.display()))?;
            let is_document = entry
                .path()
                .extension()
                .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
            if is_document && entry.file_type().is_file() {
                documents.push(entry.into_path());
            }
        }
        if documents.len() == previous_count {
            anyhow::bail!(
                "the folder {} contains no *.json, *.yaml or *.yml file",
                path.display()
            );
        }
    }
    Ok(documents)
}
