//! What is read: catalogs, and files or standard input.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::{Args, ValueEnum};

#[cfg(feature = "mcp")]
use super::live::{self, LiveArgs};
use super::{heading, output};
use picktools::catalog::{CatalogFile, Conflicts, OperatorAliases};
#[cfg(all(feature = "mcp", feature = "runtime"))]
use picktools::import::mcp::{Limits, Server};
use picktools::{Catalog, CatalogOptions};

/// A catalog and how it is read.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct CatalogArgs {
    /// A file of tools, an OpenAPI document, or a configuration of MCP servers, which are asked for their tools; `-` for
    /// standard input; or a folder: its tools.jsonl or tools.json, else all its *.json, *.jsonl, *.yaml and *.yml files;
    /// may be repeated.
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
    /// What becomes of names and aliases that two tools claim: refuse the catalog (strict), or keep the first and warn, as is
    /// done where MCP servers are asked: one of them must not take down the others.
    #[arg(long, value_enum, value_name = "HOW")]
    conflicts: Option<ConflictsArg>,
    /// An untrusted source, with all that look like it: its aliases do not count, its names give way; may be repeated.
    #[arg(long = "untrusted-source", value_name = "SOURCE")]
    untrusted_sources: Vec<String>,
    /// Let aliases that untrusted sources claim count, but for those of the ecosystem.
    #[arg(long)]
    allow_claimed_aliases: bool,
    #[cfg(feature = "mcp")]
    #[command(flatten)]
    live: LiveArgs,
    /// The servers that were asked, each with what it sent.
    #[cfg(all(feature = "mcp", feature = "runtime"))]
    #[arg(skip)]
    asked: std::cell::RefCell<Vec<(Server, CatalogFile)>>,
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
        self.reading.files(&self.catalog)
    }

    /// How they are read.
    pub(super) fn options(&self, files: &[CatalogFile]) -> anyhow::Result<CatalogOptions> {
        self.reading.options(files)
    }
}

impl ReadingArgs {
    /// Reads a catalog, and warns of what was left out.
    pub(super) fn open(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        let files = self.files(paths)?;
        let catalog = self.options(&files)?.read_files(&files)?;
        output::warnings(catalog.notices(), "; `picktools check` lists them all");
        output::warn_of_unknown(&catalog.unknown_values());
        Ok(catalog)
    }

    /// The servers that were asked when the catalog was read, each with what it sent.
    #[cfg(all(feature = "mcp", feature = "runtime"))]
    pub(super) fn asked(&self) -> Vec<(Server, CatalogFile)> {
        self.asked.borrow().clone()
    }

    /// How long an MCP server may take.
    #[cfg(all(feature = "mcp", feature = "runtime"))]
    pub(super) fn server_limits(&self) -> Limits {
        self.live.limits()
    }

    fn files(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<CatalogFile>> {
        let mut files = Vec::new();
        for path in paths {
            let opened = if path == Path::new("-") {
                vec![CatalogFile::new("standard input", read_input(path)?)]
            } else {
                CatalogFile::open(path)?
            };
            for file in opened {
                match file.mcp_configuration() {
                    #[cfg(feature = "mcp")]
                    Some(text) => files.extend(self.live(path, text)?),
                    _ => files.push(file),
                }
            }
        }
        Ok(files)
    }

    /// Asks the servers of a configuration; what is missing is said.
    #[cfg(feature = "mcp")]
    fn live(&self, path: &Path, text: &str) -> anyhow::Result<Vec<CatalogFile>> {
        let answers = self.live.tools(&live::configuration(path, text)?)?;
        if answers.files.is_empty() {
            let reasons = answers.missing.iter().map(|missing| format!("\n  {missing}")).collect::<String>();
            anyhow::bail!("no MCP server of {} gave tools{reasons}", path.display());
        }
        output::warnings(answers.missing, "; `picktools import mcp` lists them all");
        #[cfg(feature = "runtime")]
        self.asked.borrow_mut().extend(answers.servers.into_iter().zip(answers.files.iter().cloned()));
        Ok(answers.files)
    }

    fn options(&self, files: &[CatalogFile]) -> anyhow::Result<CatalogOptions> {
        let aliases = match self.aliases.as_deref() {
            Some(path) if path == Path::new("ecosystem") => Some(OperatorAliases::ecosystem()),
            Some(path) => Some(OperatorAliases::open(path)?),
            None => None,
        };
        Ok(CatalogOptions {
            conflicts: match self.conflicts {
                Some(ConflictsArg::Strict) => Conflicts::Strict,
                Some(ConflictsArg::Warn) => Conflicts::Warn,
                None if files.iter().any(CatalogFile::is_live) => Conflicts::Warn,
                None => Conflicts::Strict,
            },
            untrusted_sources: self.untrusted_sources.iter().cloned().collect(),
            allow_claimed_aliases: self.allow_claimed_aliases,
            aliases,
            ..CatalogOptions::default()
        })
    }
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
