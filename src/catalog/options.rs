//! How a catalog is read: what becomes of conflicts, whom to trust, and the operator's own aliases.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::aliases::{OperatorAliases, is_reserved};
use super::changes::{ChangeError, Changes};
use super::definition::{Alias, Tool};
use super::error::{CatalogError, CatalogFault, FaultKind, Position};
use super::files::CatalogFile;
use super::format::{self, Entry};
use super::reader::DocumentReader;
use super::sources::Sources;
use super::unknown::UnknownValue;
use super::{Catalog, conflicts, entry};
use crate::ranking::ToolId;
use crate::schema::SchemaCompiler;

/// What becomes of names and aliases that two tools claim.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Conflicts {
    /// The catalog is refused; suits files.
    #[default]
    Strict,
    /// Who comes first keeps the name, the other tool or alias is left out and stands in
    /// [`Catalog::notices`]; suits live sources, of which one must not take down the others. Tools
    /// that are trusted come before those that are not.
    Warn,
}

/// How a catalog is read.
///
/// ```
/// use picktools::CatalogOptions;
///
/// let options = CatalogOptions { untrusted_sources: ["stranger".to_owned()].into(), ..CatalogOptions::default() };
/// let entries = br#"[{"name": "run", "source": "stranger", "aliases": ["bash"], "parameters": {}}]"#;
/// let catalog = options.read(entries, "tools.json")?;
/// assert!(catalog.tools()[0].untrusted && catalog.tools()[0].aliases.is_empty());
/// println!("{}", catalog.notices()[0]);
/// # Ok::<(), picktools::catalog::CatalogError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CatalogOptions {
    /// What becomes of names and aliases that two tools claim.
    pub conflicts: Conflicts,
    /// Untrusted sources, and all that look like one: their tools become [`Tool::untrusted`].
    pub untrusted_sources: BTreeSet<String>,
    /// Whether aliases that untrusted sources claim count, ecosystem names (`bash`, `read_file`)
    /// excepted.
    pub allow_claimed_aliases: bool,
    /// The operator's aliases, which count above all others.
    pub aliases: Option<OperatorAliases>,
    /// The source of tools that name none.
    pub default_source: Option<String>,
    /// Makes what arguments of calls are held to; `JsonSchema` if it is `None`.
    pub schema_compiler: Option<Arc<dyn SchemaCompiler>>,
    /// Readers of document formats that are no lists of tools, such as OpenAPI
    /// (`picktools_import::readers`).
    pub readers: Vec<Arc<dyn DocumentReader>>,
}

/// What was read before anything was settled between the tools.
#[derive(Default)]
pub struct Entries {
    /// Each with its position.
    pub(crate) tools: Vec<(Position, Tool)>,
    pub(crate) faults: Vec<CatalogFault>,
    /// Tools of the provider, and operations that make no tool.
    pub(crate) left_out: Vec<CatalogFault>,
}

/// Everything that is wrong with what was read, and the tools as they were before anything gave
/// way.
pub struct Examined {
    /// Each with its position.
    pub tools: Vec<(Position, Arc<Tool>)>,
    /// What is wrong with each entry by itself.
    pub faults: Vec<CatalogFault>,
    /// What is wrong between them.
    pub conflicts: Vec<CatalogFault>,
    /// What is wrong with the operator's aliases.
    pub alias_faults: Vec<CatalogFault>,
    /// Tools of the provider.
    pub left_out: Vec<CatalogFault>,
    /// Untrusted sources that are none of the catalog's.
    pub unknown_values: Vec<UnknownValue>,
}

impl CatalogOptions {
    /// Reads a catalog file, or the files of a folder ([`CatalogFile::open`]).
    ///
    /// The format is detected from the content; see [`CatalogOptions::read`]. Where
    /// [`CatalogOptions::default_source`] is not set, it is the file's name without its ending (the
    /// folder's name for `tools.jsonl` and `tools.json`).
    ///
    /// # Errors
    ///
    /// [`CatalogError`] when the path cannot be read or its content is not a valid catalog; faults
    /// of entries are reported all at once.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Catalog, CatalogError> {
        self.read_files(&CatalogFile::open(path)?)
    }

    /// Reads a catalog from bytes.
    ///
    /// Accepted are native tool definitions, MCP `tools/list` results (bare or as a JSON-RPC
    /// response), and the tools of an API request to OpenAI (Chat Completions and Responses),
    /// Anthropic, Gemini or Ollama: as a JSON array, as JSON Lines, or in the `tools` member of an
    /// object. A line may be a page of `tools/list`. Gemini's schemas are made JSON Schemas. The
    /// operations of an OpenAPI document, JSON or YAML, are tools as well with the reader of
    /// `picktools-import` ([`CatalogOptions::readers`]); one that cannot be read is left out and
    /// stands in [`Catalog::notices`].
    ///
    /// Every field of a tool (`aliases`, `tags`, `requires`, `safe`, …) counts in each of these
    /// shapes, in snake or camel case, within a wrapper such as `{"function": …}` and beside it.
    /// Policy beside a list of tools is refused, and so are two places that say different things of
    /// one field; members that are no field of a tool are let be.
    ///
    /// A tool that the provider defines itself, such as `web_search`, is left out and stands in
    /// [`Catalog::notices`]. `origin` names the bytes in messages.
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::open`].
    pub fn read(&self, bytes: &[u8], origin: &str) -> Result<Catalog, CatalogError> {
        let mut entries = Entries::default();
        self.read_file(
            &CatalogFile::new(origin, bytes),
            std::convert::identity,
            &mut entries,
        )?;
        self.build(None, entries, origin)
    }

    /// Reads several files as one catalog; each fault names its file.
    ///
    /// # Errors
    ///
    /// As [`CatalogOptions::open`].
    pub fn read_files(&self, files: &[CatalogFile]) -> Result<Catalog, CatalogError> {
        let (origin, entries) = self.read_entries(files)?;
        self.build(None, entries, &origin)
    }

    /// Makes a catalog of tools that are already in memory, by the same rules as those of a file: a
    /// tool that is marked untrusted, or whose source is, loses the aliases that it claims and an
    /// id of its own choice.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Invalid`] with every fault: schemas, missing schemas, and conflicts between
    /// the tools where [`CatalogOptions::conflicts`] is strict. [`CatalogError::Aliases`] when an
    /// alias of the operator means no tool.
    pub fn collect(&self, tools: impl IntoIterator<Item = Tool>) -> Result<Catalog, CatalogError> {
        self.append(None, tools)
    }

    /// Puts `more` behind tools that are settled already, which stay as they are unless a conflict
    /// changes them.
    pub(super) fn append(
        &self,
        known: Option<&Catalog>,
        more: impl IntoIterator<Item = Tool>,
    ) -> Result<Catalog, CatalogError> {
        let entries = self.entries(known.map_or(0, Catalog::len), more);
        self.build(known, entries, "tools")
    }

    /// Checks tools that are already in memory, each by itself; the first is behind `first` others.
    fn entries(&self, first: usize, more: impl IntoIterator<Item = Tool>) -> Entries {
        let placed = more.into_iter().enumerate().map(|(index, mut tool)| {
            if tool.source.is_none() && self.default_source.is_some() {
                let named = tool.id != tool.name;
                tool.source.clone_from(&self.default_source);
                tool.id = if named {
                    tool.id
                } else {
                    tool.qualified_name()
                };
            }
            (Position::Entry(first + index + 1), tool)
        });
        let tools: Vec<(Position, Tool)> = placed.collect();
        let faults = tools
            .par_iter()
            .flat_map_iter(|(position, tool)| {
                entry::check(tool)
                    .into_iter()
                    .map(|fault| fault.at(position, Some(tool)))
            })
            .collect();
        Entries {
            tools,
            faults,
            left_out: Vec::new(),
        }
    }

    /// Makes a catalog of what `known` has and `changes` change.
    pub(super) fn change(
        &self,
        known: &Catalog,
        Changes { put, remove }: Changes,
    ) -> Result<Catalog, ChangeError> {
        let tools = known.read_all().map_err(|fault| ChangeError::Damaged {
            reason: fault.to_string(),
        })?;
        let mut gone = HashSet::new();
        for id in remove {
            match known.find(&id) {
                Some(tool) => gone.insert(tool),
                None => return Err(ChangeError::UnknownTool { id }),
            };
        }
        let mut entries = self.entries(tools.len(), put);
        // What takes the place of an untrusted tool is no more to be trusted.
        let is_untrusted = |id: ToolId| !gone.contains(&id) && known.tool(id).untrusted;
        for (_, tool) in &mut entries.tools {
            tool.untrusted |= known.find(&tool.id).is_some_and(is_untrusted);
        }
        let (mut entries, notices) = self.marked(entries);
        // A tool that has been there keeps its place, once.
        let mut replacing: HashMap<ToolId, (Position, Arc<Tool>)> = HashMap::new();
        let mut more = Vec::new();
        for (position, tool) in entries.tools.drain(..) {
            let before = known
                .find(&tool.id)
                .filter(|tool| !gone.contains(tool) && !replacing.contains_key(tool));
            let tool = (position, Arc::new(tool));
            match before {
                Some(before) => drop(replacing.insert(before, tool)),
                None => more.push(tool),
            }
        }
        let kept = known
            .ids()
            .zip(tools)
            .filter(|(id, _)| !gone.contains(id))
            .map(|(id, tool)| {
                replacing
                    .remove(&id)
                    .unwrap_or_else(|| (Position::Entry(id.index() + 1), Arc::clone(tool)))
            });
        let tools = kept.collect::<Vec<_>>().into_iter().chain(more).collect();
        let mut catalog = self.settle(tools, entries.faults, "changes", Some(known))?;
        catalog.notices.splice(..0, notices);
        Ok(catalog)
    }

    /// Reads the entries of files, and says what they come from.
    pub fn read_entries(&self, files: &[CatalogFile]) -> Result<(String, Entries), CatalogError> {
        let mut all = Entries::default();
        for (index, file) in files.iter().enumerate() {
            let origin: Arc<str> = file.origin.as_str().into();
            let place = |position: Position| match files {
                [_] => position,
                _ => Position::File {
                    number: index + 1,
                    origin: Arc::clone(&origin),
                    position: Box::new(position),
                },
            };
            self.read_file(file, place, &mut all)?;
        }
        let origin = match files {
            [file] => file.origin.clone(),
            _ => format!("{} files", files.len()),
        };
        Ok((origin, all))
    }

    fn read_file(
        &self,
        file: &CatalogFile,
        place: impl Fn(Position) -> Position,
        all: &mut Entries,
    ) -> Result<(), CatalogError> {
        let entries = format::split(&file.bytes, &file.origin, &self.readers)?;
        let source = self.default_source.as_deref().or(file.source.as_deref());
        // Each entry is given up where it was read: thousands of them take as long to free as to
        // read.
        let read: Vec<_> = entries
            .into_par_iter()
            .map(
                |Entry {
                     position,
                     value,
                     repeated,
                     source: stated,
                     is_operation,
                 }| {
                    let stated = stated.as_deref();
                    let source = if is_operation {
                        source.or(stated)
                    } else {
                        stated.or(source)
                    };
                    let (tool, mut faults) = match value {
                        Ok(value) => entry::read(value, source),
                        Err(fault) => (None, vec![fault]),
                    };
                    faults.extend(repeated.iter().map(entry::repeated));
                    (position, is_operation, tool, faults)
                },
            )
            .collect();
        all.tools.reserve(read.len());
        for (position, is_operation, mut tool, faults) in read {
            let position = place(position);
            let left_out = (is_operation || file.is_live) && !faults.is_empty();
            for fault in faults {
                let fault = if left_out {
                    fault.of(FaultKind::LeftOut)
                } else {
                    fault
                };
                let fault = fault.at(&position, tool.as_ref());
                let notice = matches!(fault.kind, FaultKind::ProviderTool | FaultKind::LeftOut);
                if notice {
                    &mut all.left_out
                } else {
                    &mut all.faults
                }
                .push(fault);
            }
            if left_out {
                tool = None;
            }
            all.tools.extend(tool.map(|tool| (position, tool)));
        }
        Ok(())
    }

    /// The one way to a catalog: trust first, then what is wrong between the tools.
    fn build(
        &self,
        known: Option<&Catalog>,
        entries: Entries,
        origin: &str,
    ) -> Result<Catalog, CatalogError> {
        let (Entries { tools, faults, .. }, mut notices) = self.marked(entries);
        let placed = known.map_or(&[][..], Catalog::tools).iter().enumerate();
        let placed = placed.map(|(index, tool)| (Position::Entry(index + 1), Arc::clone(tool)));
        let more = tools
            .into_iter()
            .map(|(position, tool)| (position, Arc::new(tool)));
        let mut catalog = self.settle(placed.chain(more).collect(), faults, origin, known)?;
        notices.append(&mut catalog.notices);
        catalog.notices = notices;
        Ok(catalog)
    }

    /// Marks what is untrusted and takes from it what does not count; with what was left out.
    fn marked(&self, mut entries: Entries) -> (Entries, Vec<CatalogFault>) {
        self.mark(&mut entries.tools);
        let mut notices = std::mem::take(&mut entries.left_out);
        notices.extend(
            entries
                .tools
                .iter_mut()
                .flat_map(|(position, tool)| self.distrust(position, tool)),
        );
        (entries, notices)
    }

    /// Looks for everything that is wrong with what was read, and leaves nothing out.
    pub fn examine(&self, entries: Entries) -> Examined {
        let Entries {
            mut tools,
            faults,
            left_out,
        } = entries;
        let unknown_values = self.unknown_values(&self.mark(&mut tools));
        let tools: Vec<(Position, Arc<Tool>)> = tools
            .into_iter()
            .map(|(position, tool)| (position, Arc::new(tool)))
            .collect();
        // Aliases that do not count clash with none.
        let counting = tools.iter().map(|(position, tool)| {
            let mut tool = Arc::clone(tool);
            if tool.untrusted {
                self.distrust(position, Arc::make_mut(&mut tool));
            }
            (position.clone(), tool)
        });
        let settled = conflicts::settle(counting.collect(), self.aliases.as_ref());
        let conflicts::Settled {
            conflicts,
            alias_faults,
            ..
        } = settled;
        Examined {
            tools,
            faults,
            conflicts,
            alias_faults,
            left_out,
            unknown_values,
        }
    }

    /// Marks the tools of untrusted sources, and returns all sources.
    fn mark(&self, tools: &mut [(Position, Tool)]) -> Sources {
        let sources = Sources::new(tools.iter().map(|(_, tool)| tool.source.as_deref()));
        let untrusted = sources.restricted(&self.untrusted_sources);
        for (_, tool) in tools {
            tool.untrusted |= tool
                .source
                .as_deref()
                .is_some_and(|source| untrusted.contains(source));
        }
        sources
    }

    /// The untrusted sources that are not among `sources`.
    pub(super) fn unknown_values(&self, sources: &Sources) -> Vec<UnknownValue> {
        let unknown = self
            .untrusted_sources
            .iter()
            .filter(|name| sources.restricts_none(name));
        unknown
            .map(|name| UnknownValue::new("untrusted_sources", name, sources.names()))
            .collect()
    }

    /// Takes from an untrusted tool its examples and the aliases that do not count, and says which;
    /// an id of its own choice could be another's name.
    fn distrust(&self, position: &Position, tool: &mut Tool) -> Vec<CatalogFault> {
        if !tool.untrusted {
            return Vec::new();
        }
        tool.id = tool.qualified_name();
        let (counting, left_out): (Vec<_>, Vec<_>) = std::mem::take(&mut tool.aliases)
            .into_iter()
            .enumerate()
            .partition(|(_, alias)| self.allow_claimed_aliases && !is_reserved(&alias.name));
        tool.aliases = counting.into_iter().map(|(_, alias)| alias).collect();
        let examples = std::mem::take(&mut tool.examples);
        let notice = |kind, pointer, message, remedy: &str| CatalogFault {
            position: position.clone(),
            kind,
            name: Some(tool.name.clone()),
            pointer,
            message,
            remedy: remedy.to_owned(),
        };
        let of_alias = |(index, Alias { name, .. }): (usize, Alias)| {
            let message = format!(
                "the alias '{name}' is claimed by a source that is not trusted, and does not count"
            );
            let remedy = "give it in the operator's aliases where it is wanted";
            notice(
                FaultKind::UntrustedAlias,
                format!("/aliases/{index}"),
                message,
                remedy,
            )
        };
        let of_examples = (!examples.is_empty()).then(|| {
            let message =
                "the examples are given by a source that is not trusted, and do not count"
                    .to_owned();
            let remedy = "give those that are wanted in a file of examples";
            notice(
                FaultKind::UntrustedExamples,
                "/examples".to_owned(),
                message,
                remedy,
            )
        });
        left_out
            .into_iter()
            .map(of_alias)
            .chain(of_examples)
            .collect()
    }

    /// Settles what is wrong between the tools; `faults` is what is wrong with each by itself.
    fn settle(
        &self,
        tools: Vec<(Position, Arc<Tool>)>,
        mut faults: Vec<CatalogFault>,
        origin: &str,
        known: Option<&Catalog>,
    ) -> Result<Catalog, CatalogError> {
        let settled = conflicts::settle(tools, self.aliases.as_ref());
        let mut notices = settled.overruled;
        match self.conflicts {
            Conflicts::Strict => faults.extend(settled.conflicts),
            Conflicts::Warn => notices.extend(settled.conflicts),
        }
        if !faults.is_empty() {
            faults.sort_by(|a, b| a.position.cmp(&b.position));
            return Err(CatalogError::Invalid {
                origin: origin.to_owned(),
                faults,
            });
        }
        if !settled.alias_faults.is_empty() {
            return Err(CatalogError::Aliases {
                faults: settled.alias_faults,
            });
        }
        Ok(Catalog::new(settled.tools, notices, self.clone(), known))
    }
}
