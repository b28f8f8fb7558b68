//! Reading of catalogs, files and standard input.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::Args;

use super::live::{self, LiveArgs};
use super::origin::Origin;
use super::recorded_reading::{ConflictsArg, NoSchemaArg, RecordedReading, aliases_file};
use super::{heading, output};
use picktools::catalog::{CatalogFile, Conflicts, InvalidEntries, NoSchemaMode, OperatorAliases};
use picktools::{Catalog, CatalogOptions};
use picktools_import::mcp::Server;
use picktools_mcp::Limits;

/// A catalog, and the options of its reading.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct CatalogArgs {
    /// Catalog: tools, an OpenAPI document, MCP servers, a folder, or - for stdin.
    ///
    /// A file contains tools, an OpenAPI document, or a configuration of MCP servers, which are
    /// asked for their tools. In a folder, tools.jsonl is read. Without it, tools.json is read, or
    /// else all *.json, *.jsonl, *.yaml and *.yml files. The folder of an index that `picktools
    /// index --out` saved is a catalog, too. May be repeated.
    #[arg(long, visible_alias = "index", value_name = "PATH", required = true)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// The options of reading a catalog.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct ReadingArgs {
    /// Alias file, or `ecosystem` for well-known names.
    ///
    /// The file is a JSON object from aliases to tools, such as {"bash": "terminalRun"}.
    /// `ecosystem` contains the names that skills and models use for the usual tools of agents,
    /// such as `bash` and `read_file`.
    #[arg(long, value_name = "FILE|ecosystem")]
    aliases: Option<PathBuf>,
    /// On a name conflict: refuse the catalog, or keep the first tool and warn.
    ///
    /// A name conflict: two tools of a source have the same name, or an alias is the name or alias
    /// of another tool. Tools of several sources may share a name. The default is `strict`, or `warn`
    /// if the catalog has MCP servers, because one server must not take down the others. With `warn`,
    /// the tool that is first in the catalog keeps the name or alias, and the other tool or alias is
    /// left out. A tool of a trusted source takes precedence over one of an untrusted source.
    #[arg(long, value_enum, value_name = "HOW")]
    conflicts: Option<ConflictsArg>,
    /// Refuse a catalog with an entry that is not a valid tool.
    ///
    /// Otherwise the entry is left out with a warning, and the other tools are used.
    #[arg(long)]
    strict_catalog: bool,
    /// Accept tools without a schema of their arguments, in this mode.
    ///
    /// The mode says how such a tool may be called: its calls cannot be validated. It does not apply
    /// to a tool that sets `allow_no_schema` itself. By default a tool without a schema is not valid.
    #[arg(long, value_enum, value_name = "MODE")]
    allow_no_schema: Option<NoSchemaArg>,
    /// Treat this source as untrusted; may be repeated.
    ///
    /// Sources are trusted by default. A source with a confusable name, such as one with a Cyrillic
    /// letter, is untrusted, too. The aliases of an untrusted source are ignored unless
    /// --allow-claimed-aliases is given.
    #[arg(long = "untrusted-source", value_name = "SOURCE")]
    untrusted_sources: Vec<String>,
    /// Accept aliases that untrusted sources claim, except well-known names.
    ///
    /// The well-known names are those of `--aliases ecosystem`.
    #[arg(long)]
    allow_claimed_aliases: bool,
    #[command(flatten)]
    live: LiveArgs,
    /// `true` if the command itself applies the aliases.
    #[arg(skip)]
    leaves_aliases: bool,
    /// The MCP servers that sent tools, each with its tools.
    #[arg(skip)]
    live_servers: std::cell::RefCell<Vec<(Server, CatalogFile)>>,
}

impl CatalogArgs {
    /// Reads the catalog.
    pub(super) fn open(&self) -> anyhow::Result<Catalog> {
        self.reading.open(&self.catalog)
    }

    /// Reads the catalog; of an index only the parts that picks need.
    pub(super) fn open_for_picks(&self) -> anyhow::Result<Catalog> {
        self.reading.open_for_picks(&self.catalog)
    }

    /// Returns the origin of the catalog, for an index of it, or `None` if a saved index does not
    /// record its origin.
    pub(super) fn origin(&self) -> anyhow::Result<Option<Origin>> {
        let Some(folder) = saved(&self.catalog)? else {
            let origin = Origin::record(&self.catalog, self.reading.note())?;
            return Ok(Some(origin));
        };
        match recorded_origin(folder, &Catalog::open_saved(folder)?)? {
            Some(origin) if origin.changed().is_some() => {
                Ok(Some(Origin::record(&origin.paths, origin.reading)?))
            }
            origin => Ok(origin),
        }
    }

    /// Reads the files of the catalog without parsing them.
    pub(super) fn files(&self) -> anyhow::Result<Vec<CatalogFile>> {
        self.reading.files(&self.catalog)
    }

    /// Returns the options for reading these files.
    pub(super) fn options(&self, files: &[CatalogFile]) -> anyhow::Result<CatalogOptions> {
        self.reading.options(files)
    }
}

impl ReadingArgs {
    /// The command-line options of this struct, for messages.
    pub(super) const NAMES: &str = "--aliases, --conflicts, --strict-catalog, --allow-no-schema, --untrusted-source and \
         --allow-claimed-aliases";
    /// The command-line options of this struct that concern only the catalog, for messages.
    pub(super) const NAMES_OF_CATALOG: &str =
        "--conflicts, --strict-catalog, --untrusted-source and --allow-claimed-aliases";

    /// Returns the alias argument, for a command that applies it to more tools than those of its
    /// catalog. The catalog is then read without these aliases.
    pub(super) fn leave_aliases(&mut self) -> Option<PathBuf> {
        self.leaves_aliases = true;
        self.aliases.clone()
    }

    /// Returns `true` if any of the options is set that concern only the catalog.
    pub(super) fn is_set_for_catalog(&self) -> bool {
        let note = RecordedReading {
            aliases: None,
            allow_no_schema: None,
            ..self.note()
        };
        note != RecordedReading::default()
    }

    /// Returns `true` if any of the options is set.
    pub(super) fn is_set(&self) -> bool {
        self.note() != RecordedReading::default()
    }

    /// Reads a catalog, and warns of everything that was left out.
    pub(super) fn open(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        let catalog = self.open_for_picks(paths)?;
        catalog.tools()?;
        Ok(catalog)
    }

    /// Works as [`open`](Self::open), but reads the definitions of an index when they are needed.
    pub(super) fn open_for_picks(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        match saved(paths)? {
            Some(folder) => self.open_saved(folder),
            None => self.read_paths(paths),
        }
    }

    fn read_paths(&self, paths: &[PathBuf]) -> anyhow::Result<Catalog> {
        let files = self.files(paths)?;
        let catalog = self.options(&files)?.read_files(&files)?;
        output::warnings(catalog.notices(), "; `picktools check` lists them all");
        output::warn_of_unknown(&catalog.unknown_values());
        Ok(catalog)
    }

    /// Opens an index. If its files have changed, the catalog is read again.
    fn open_saved(&self, folder: &Path) -> anyhow::Result<Catalog> {
        let catalog = Catalog::open_saved(folder)?;
        let requested = self.note();
        let Some(origin) = recorded_origin(folder, &catalog)? else {
            if requested == RecordedReading::default() {
                return Ok(catalog);
            }
            bail!(
                "the index {} does not record its reading options; leave them out",
                folder.display()
            );
        };
        if requested != RecordedReading::default() && requested != origin.reading {
            bail!(
                "the index {} was read with other options ({}); rebuild it with these options, \
                 or leave them out",
                folder.display(),
                origin.reading
            );
        }
        let Some(changed) = origin.changed() else {
            return Ok(catalog);
        };
        output::warn(format!(
            "the index {} is stale ({changed}), so the catalog is read and indexed again; \
             update it with `picktools index --out`",
            folder.display()
        ));
        self.with_recorded(origin.reading).read_paths(&origin.paths)
    }

    /// Returns these options with the values that an index recorded.
    fn with_recorded(&self, note: RecordedReading) -> Self {
        let RecordedReading {
            aliases,
            conflicts,
            strict_catalog,
            allow_no_schema,
            untrusted_sources,
            allow_claimed_aliases,
        } = note;
        Self {
            aliases,
            conflicts,
            strict_catalog,
            allow_no_schema,
            untrusted_sources,
            allow_claimed_aliases,
            live: self.live.clone(),
            leaves_aliases: false,
            live_servers: std::cell::RefCell::default(),
        }
    }

    /// Returns the options in the form that an index records.
    fn note(&self) -> RecordedReading {
        RecordedReading {
            // An absolute path, because the index may be opened from another folder.
            aliases: self.aliases.as_ref().map(|path| match aliases_file(path) {
                Some(file) => std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
                None => path.clone(),
            }),
            conflicts: self.conflicts,
            strict_catalog: self.strict_catalog,
            allow_no_schema: self.allow_no_schema,
            untrusted_sources: self.untrusted_sources.clone(),
            allow_claimed_aliases: self.allow_claimed_aliases,
        }
    }

    /// Returns the MCP servers that sent tools of this catalog, each with its tools.
    pub(super) fn live_servers(&self) -> Vec<(Server, CatalogFile)> {
        self.live_servers.borrow().clone()
    }

    /// Returns the mode of tools without a schema, if they are allowed.
    pub(super) fn allow_no_schema(&self) -> Option<NoSchemaMode> {
        self.allow_no_schema.map(NoSchemaArg::mode)
    }

    /// Returns the limits of an MCP server.
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

    /// Lists the tools of the servers of a configuration, and warns of missing ones.
    fn live(&self, path: &Path, text: &str) -> anyhow::Result<Vec<CatalogFile>> {
        let answers = self.live.tools(&live::configuration(path, text)?)?;
        if answers.files.is_empty() {
            let reasons = answers
                .missing
                .iter()
                .map(|missing| format!("\n  {missing}"))
                .collect::<String>();
            bail!("no MCP server of {} sent tools{reasons}", path.display());
        }
        output::warnings(answers.missing, "; `picktools import mcp` lists them all");
        self.live_servers.borrow_mut().extend(
            answers
                .servers
                .into_iter()
                .zip(answers.files.iter().cloned()),
        );
        Ok(answers.files)
    }

    fn options(&self, files: &[CatalogFile]) -> anyhow::Result<CatalogOptions> {
        let aliases = match &self.aliases {
            Some(argument) if !self.leaves_aliases => Some(open_aliases(argument)?),
            _ => None,
        };
        Ok(CatalogOptions {
            conflicts: match self.conflicts {
                Some(ConflictsArg::Strict) => Conflicts::Strict,
                Some(ConflictsArg::Warn) => Conflicts::Warn,
                None if files.iter().any(CatalogFile::is_live) => Conflicts::Warn,
                None => Conflicts::Strict,
            },
            invalid_entries: if self.strict_catalog {
                InvalidEntries::Refuse
            } else {
                InvalidEntries::LeaveOut
            },
            allow_no_schema: self.allow_no_schema(),
            untrusted_sources: self.untrusted_sources.iter().cloned().collect(),
            allow_claimed_aliases: self.allow_claimed_aliases,
            aliases,
            readers: picktools_import::readers(),
            ..CatalogOptions::default()
        })
    }
}

/// Returns the aliases that an argument of --aliases names.
pub(super) fn open_aliases(argument: &Path) -> anyhow::Result<OperatorAliases> {
    Ok(match aliases_file(argument) {
        Some(file) => OperatorAliases::open(file)?,
        None => OperatorAliases::ecosystem(),
    })
}

/// Returns the folder of the index if one is given. An index is a complete catalog and must be the
/// only argument.
fn saved(paths: &[PathBuf]) -> anyhow::Result<Option<&Path>> {
    let is_saved = |path: &&PathBuf| Catalog::is_saved(path);
    match (paths.iter().find(is_saved), paths) {
        (Some(folder), [_]) => Ok(Some(folder)),
        (Some(folder), _) => bail!(
            "{} is an index and cannot be combined with other catalogs; pass it alone, or index \
             all of them together",
            folder.display()
        ),
        (None, _) => Ok(None),
    }
}

/// Returns the origin of an index, if it is recorded.
fn recorded_origin(folder: &Path, index: &Catalog) -> anyhow::Result<Option<Origin>> {
    let Some(note) = index.note() else {
        return Ok(None);
    };
    if note.is_null() {
        return Ok(None);
    }
    let origin = serde_json::from_value(note.clone()).with_context(|| {
        format!(
            "cannot read the origin of the index {}; rebuild it with `picktools index`",
            folder.display()
        )
    })?;
    Ok(Some(origin))
}

/// Returns the definitions of an index as a file of tools.
fn definitions(folder: &Path, catalog: &Catalog) -> anyhow::Result<CatalogFile> {
    let mut lines = Vec::new();
    for tool in catalog.tools()? {
        serde_json::to_writer(&mut lines, tool)?;
        lines.push(b'\n');
    }
    Ok(CatalogFile::new(folder.display().to_string(), lines))
}

/// `true` once standard input was read, which is possible only once.
static INPUT_READ: AtomicBool = AtomicBool::new(false);

/// Reads a file, or standard input for `-`.
pub(super) fn read_input(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        if INPUT_READ.swap(true, Ordering::Relaxed) {
            bail!(
                "standard input (`-`) can be read only once; pass a file for one of the arguments"
            );
        }
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)
            .context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
