//! What is read: catalogs, and files or standard input.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::{heading, output};
use picktools::catalog::{CatalogFile, Conflicts, OperatorAliases};
use picktools::{Catalog, CatalogOptions};

/// A catalog and how it is read.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct CatalogArgs {
    /// A file of tools or an OpenAPI document, `-` for standard input, or a folder: its tools.jsonl or tools.json, else all
    /// its *.json, *.jsonl, *.yaml and *.yml files; may be repeated.
    #[arg(long, value_name = "PATH", required = true)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// How catalogs are read.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct ReadingArgs {
    /// Aliases of your own: a JSON object from aliases to tools, such as {"bash": "terminalRun"}; or `ecosystem`, the
    /// names that skills and models use for the tools that nearly every host has.
    #[arg(long, value_name = "FILE|ecosystem")]
    aliases: Option<PathBuf>,
    /// What becomes of names and aliases that two tools claim: refuse the catalog, or keep the first and warn.
    #[arg(long, value_enum, value_name = "HOW", default_value = "strict")]
    conflicts: ConflictsArg,
    /// An untrusted source, with all that look like it: its aliases do not count, its names give way; may be repeated.
    #[arg(long = "untrusted-source", value_name = "SOURCE")]
    untrusted_sources: Vec<String>,
    /// Let aliases that untrusted sources claim count, but for those of the ecosystem.
    #[arg(long)]
    allow_claimed_aliases: bool,
}

/// What becomes of conflicts.
#[derive(Clone, Copy, ValueEnum)]
enum ConflictsArg {
    Strict,
    Warn,
}

impl CatalogArgs {
    /// Reads the catalog.
    pub(super) fn open(&self) -> anyhow::Result<Catalog> {
        self.reading.open(&self.catalog)
    }

    /// Reads its files and no more.
    pub(super) fn files(&self) -> anyhow::Result<Vec<CatalogFile>> {
        catalog_files(&self.catalog)
    }

    /// How it is read.
    pub(super) fn options(&self) -> anyhow::Result<CatalogOptions> {
        self.reading.options()
    }
}

impl ReadingArgs {
    /// Reads a catalog, and warns of what was left out.
    pub(super) fn open(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        let catalog = self.options()?.read_files(&catalog_files(paths)?)?;
        output::warnings(catalog.notices(), "; `picktools check` lists them all");
        output::warn_of_unknown(&catalog.unknown_values());
        Ok(catalog)
    }

    fn options(&self) -> anyhow::Result<CatalogOptions> {
        let aliases = match self.aliases.as_deref() {
            Some(path) if path == Path::new("ecosystem") => Some(OperatorAliases::ecosystem()),
            Some(path) => Some(OperatorAliases::open(path)?),
            None => None,
        };
        Ok(CatalogOptions {
            conflicts: match self.conflicts {
                ConflictsArg::Strict => Conflicts::Strict,
                ConflictsArg::Warn => Conflicts::Warn,
            },
            untrusted_sources: self.untrusted_sources.iter().cloned().collect(),
            allow_claimed_aliases: self.allow_claimed_aliases,
            aliases,
            default_source: None,
        })
    }
}

fn catalog_files(paths: &[PathBuf]) -> anyhow::Result<Vec<CatalogFile>> {
    let mut files = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            files.push(CatalogFile::new("standard input", read_input(path)?));
        } else {
            files.extend(CatalogFile::open(path)?);
        }
    }
    Ok(files)
}

/// Whether standard input, of which there is only one, has been read.
static INPUT_READ: AtomicBool = AtomicBool::new(false);

/// Reads a file, or standard input for `-`.
pub(super) fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        if INPUT_READ.swap(true, Ordering::Relaxed) {
            anyhow::bail!(
                "`-` stands for standard input, which can be read once only; name a file in one of the places"
            );
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
