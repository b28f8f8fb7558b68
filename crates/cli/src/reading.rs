//! What is read: catalogs, and files or standard input.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::live::{self, LiveArgs};
use super::origin::Origin;
use super::{heading, output};
use picktools::catalog::{CatalogFile, Conflicts, OperatorAliases};
use picktools::{Catalog, CatalogOptions};
use picktools_import::mcp::Server;
use picktools_mcp::Limits;

/// A catalog and how it is read.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct CatalogArgs {
    /// A file of tools, an OpenAPI document, or a configuration of MCP servers, which are asked for
    /// their tools; `-` for standard input; or a folder: its tools.jsonl or tools.json, else all
    /// its *.json, *.jsonl, *.yaml and *.yml files; may be repeated. Or the folder of an index that
    /// `picktools index --out` saved.
    #[arg(long, visible_alias = "index", value_name = "PATH", required = true)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// How catalogs are read.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct ReadingArgs {
    /// Aliases of your own: a JSON object from aliases to tools, such as {"bash": "terminalRun"};
    /// or `ecosystem`, the names that skills and models use for the tools that nearly every host
    /// has.
    #[arg(long, value_name = "FILE|ecosystem")]
    aliases: Option<PathBuf>,
    /// What becomes of names and aliases that two tools claim: refuse the catalog (strict), or keep
    /// the first and warn, as is done where MCP servers are asked: one of them must not take down
    /// the others.
    #[arg(long, value_enum, value_name = "HOW")]
    conflicts: Option<ConflictsArg>,
    /// An untrusted source, with all that look like it: its aliases do not count, its names give
    /// way; may be repeated.
    #[arg(long = "untrusted-source", value_name = "SOURCE")]
    untrusted_sources: Vec<String>,
    /// Let aliases that untrusted sources claim count, but for those of the ecosystem.
    #[arg(long)]
    allow_claimed_aliases: bool,
    #[command(flatten)]
    live: LiveArgs,
    /// The servers that were asked, each with what it sent.
    #[arg(skip)]
    asked: std::cell::RefCell<Vec<(Server, CatalogFile)>>,
}

/// What becomes of conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
enum ConflictsArg {
    Strict,
    Warn,
}

impl CatalogArgs {
    /// Reads the catalog.
    pub(super) fn open(&self) -> anyhow::Result<Catalog> {
        self.reading.open(&self.catalog)
    }

    /// Reads the catalog; of an index as much as is needed.
    pub(super) fn open_for_picks(&self) -> anyhow::Result<Catalog> {
        self.reading.open_for_picks(&self.catalog)
    }

    /// What it is read from and how, for an index that is made of it; `None` where an index does
    /// not tell.
    pub(super) fn origin(&self) -> anyhow::Result<Option<Origin>> {
        let Some(folder) = saved(&self.catalog)? else {
            return Origin::note(&self.catalog, self.reading.note()).map(Some);
        };
        match origin_of(folder, &Catalog::open_saved(folder)?)? {
            Some(origin) if origin.changed().is_some() => {
                Origin::note(&origin.paths, origin.reading).map(Some)
            }
            origin => Ok(origin),
        }
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
    /// The options by which files are read, for who has none of these.
    pub(super) const NAMES: &str =
        "--aliases, --conflicts, --untrusted-source and --allow-claimed-aliases";

    /// Whether anything is said of how files are read.
    pub(super) fn says_something(&self) -> bool {
        self.note() != ReadingNote::default()
    }

    /// Reads a catalog, and warns of what was left out.
    pub(super) fn open(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        let catalog = self.open_for_picks(paths)?;
        match catalog.read_all() {
            Ok(_) => Ok(catalog),
            Err(error) => bail!("{error}"),
        }
    }

    /// As [`open`](Self::open), but for the definitions of an index, which are read when they are
    /// needed.
    pub(super) fn open_for_picks(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        match saved(paths)? {
            Some(folder) => self.open_saved(folder),
            None => self.read(paths),
        }
    }

    fn read(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        let files = self.files(paths)?;
        let catalog = self.options(&files)?.read_files(&files)?;
        output::warnings(catalog.notices(), "; `picktools check` lists them all");
        output::warn_of_unknown(&catalog.unknown_values());
        Ok(catalog)
    }

    /// Opens an index. What it was made of is read again where it has changed since.
    fn open_saved(&self, folder: &Path) -> anyhow::Result<Catalog> {
        let catalog = Catalog::open_saved(folder)?;
        let given = self.note();
        let Some(origin) = origin_of(folder, &catalog)? else {
            if given == ReadingNote::default() {
                return Ok(catalog);
            }
            bail!(
                "how the index {} was read is not noted in it; leave out how it is to be read",
                folder.display()
            );
        };
        if given != ReadingNote::default() && given != origin.reading {
            bail!(
                "the index {} was read in another way than is asked for ({}); build it again that way, or leave out how",
                folder.display(),
                origin.reading
            );
        }
        let Some(changed) = origin.changed() else {
            return Ok(catalog);
        };
        output::warn(format!(
            "the index {} is stale, as {changed}: the catalog is read and indexed again; `picktools index` with `--out` makes it quick",
            folder.display()
        ));
        self.again(origin.reading).read(&origin.paths)
    }

    /// As this, with what an index notes.
    fn again(&self, note: ReadingNote) -> Self {
        let ReadingNote {
            aliases,
            conflicts,
            untrusted_sources,
            allow_claimed_aliases,
        } = note;
        Self {
            aliases,
            conflicts,
            untrusted_sources,
            allow_claimed_aliases,
            live: self.live.clone(),
            asked: std::cell::RefCell::default(),
        }
    }

    /// How catalogs are read, for an index to note.
    fn note(&self) -> ReadingNote {
        ReadingNote {
            // Where it is, wherever the index is opened.
            aliases: self.aliases.as_ref().map(|path| match aliases_file(path) {
                Some(file) => std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
                None => path.clone(),
            }),
            conflicts: self.conflicts,
            untrusted_sources: self.untrusted_sources.clone(),
            allow_claimed_aliases: self.allow_claimed_aliases,
        }
    }

    /// The servers that were asked when the catalog was read, each with what it sent.
    pub(super) fn asked(&self) -> Vec<(Server, CatalogFile)> {
        self.asked.borrow().clone()
    }

    /// How long an MCP server may take.
    pub(super) fn server_limits(&self) -> Limits {
        self.live.limits()
    }

    fn files(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<CatalogFile>> {
        if let Some(folder) = saved(paths)? {
            return Ok(vec![definitions(folder, &self.open_saved(folder)?)?]);
        }
        let mut files = Vec::new();
        for path in paths {
            let opened = if path == Path::new("-") {
                vec![CatalogFile::new("standard input", read_input(path)?)]
            } else {
                CatalogFile::open(path)?
            };
            for file in opened {
                match picktools_import::mcp::configuration_text(&file) {
                    Some(text) => files.extend(self.live(path, text)?),
                    _ => files.push(file),
                }
            }
        }
        Ok(files)
    }

    /// Asks the servers of a configuration; what is missing is said.
    fn live(&self, path: &Path, text: &str) -> anyhow::Result<Vec<CatalogFile>> {
        let answers = self.live.tools(&live::configuration(path, text)?)?;
        if answers.files.is_empty() {
            let reasons = answers
                .missing
                .iter()
                .map(|missing| format!("\n  {missing}"))
                .collect::<String>();
            bail!("no MCP server of {} gave tools{reasons}", path.display());
        }
        output::warnings(answers.missing, "; `picktools import mcp` lists them all");
        self.asked.borrow_mut().extend(
            answers
                .servers
                .into_iter()
                .zip(answers.files.iter().cloned()),
        );
        Ok(answers.files)
    }

    fn options(&self, files: &[CatalogFile]) -> anyhow::Result<CatalogOptions> {
        let aliases = match self.aliases.as_deref() {
            Some(path) => Some(match aliases_file(path) {
                Some(file) => OperatorAliases::open(file)?,
                None => OperatorAliases::ecosystem(),
            }),
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
            readers: picktools_import::readers(),
            ..CatalogOptions::default()
        })
    }
}

/// How a catalog was read, as an index notes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadingNote {
    aliases: Option<PathBuf>,
    conflicts: Option<ConflictsArg>,
    untrusted_sources: Vec<String>,
    allow_claimed_aliases: bool,
}

impl ReadingNote {
    /// The file of the aliases, where there is one.
    pub(super) fn aliases_file(&self) -> Option<&Path> {
        self.aliases.as_deref().and_then(aliases_file)
    }
}

impl fmt::Display for ReadingNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<String> = Vec::new();
        said.extend(
            self.aliases
                .iter()
                .map(|path| format!("--aliases {}", path.display())),
        );
        said.extend(
            self.conflicts
                .iter()
                .map(|how| format!("--conflicts {}", format!("{how:?}").to_lowercase())),
        );
        said.extend(
            self.untrusted_sources
                .iter()
                .map(|source| format!("--untrusted-source {source:?}")),
        );
        said.extend(
            self.allow_claimed_aliases
                .then(|| "--allow-claimed-aliases".to_owned()),
        );
        f.write_str(&if said.is_empty() {
            "with nothing set".to_owned()
        } else {
            said.join(" ")
        })
    }
}

/// The file of aliases that an argument names; `None` where it stands for those of the ecosystem.
fn aliases_file(argument: &Path) -> Option<&Path> {
    Some(argument).filter(|argument| *argument != Path::new("ecosystem"))
}

/// The folder of an index, where one is given; it is a catalog by itself.
fn saved(paths: &[PathBuf]) -> anyhow::Result<Option<&Path>> {
    let is_saved = |path: &&PathBuf| Catalog::is_saved(path);
    match (paths.iter().find(is_saved), paths) {
        (Some(folder), [_]) => Ok(Some(folder)),
        (Some(folder), _) => bail!(
            "{} is an index, which is a whole catalog; give it alone, or index all of them together",
            folder.display()
        ),
        (None, _) => Ok(None),
    }
}

/// What an index was made of, where that is noted.
fn origin_of(folder: &Path, index: &Catalog) -> anyhow::Result<Option<Origin>> {
    let note = index.note().filter(|note| !note.is_null()).cloned();
    note.map(serde_json::from_value)
        .transpose()
        .with_context(|| {
            format!(
                "the note of the index {} cannot be read; build it again with `picktools index`",
                folder.display()
            )
        })
}

/// The definitions of an index, as a file of them.
fn definitions(folder: &Path, catalog: &Catalog) -> anyhow::Result<CatalogFile> {
    let mut lines = Vec::new();
    for tool in catalog
        .read_all()
        .map_err(|error| anyhow::anyhow!("{error}"))?
    {
        serde_json::to_writer(&mut lines, tool)?;
        lines.push(b'\n');
    }
    Ok(CatalogFile::new(folder.display().to_string(), lines))
}

/// Whether standard input, of which there is only one, has been read.
static INPUT_READ: AtomicBool = AtomicBool::new(false);

/// Reads a file, or standard input for `-`.
pub(super) fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        if INPUT_READ.swap(true, Ordering::Relaxed) {
            bail!(
                "`-` stands for standard input, which can be read once only; name a file in one of the places"
            );
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)
            .context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
