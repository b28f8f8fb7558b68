//! Reading of catalogs: files, entries, and the resolution of conflicts.

use std::path::Path;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use rayon::prelude::*;

use super::aliases::{OperatorAliases, is_reserved};
use super::changes::{ChangeError, Changes};
use super::definition::{Alias, NoSchemaMode, Tool};
use super::entry_fault::EntryFault;
use super::error::{CatalogError, CatalogFault, FaultKind, Position};
use super::files::CatalogFile;
use super::format::{self, Entry};
use super::options::{CatalogOptions, Conflicts, InvalidEntries};
use super::sources::Sources;
use super::unknown::UnknownValue;
use super::{Catalog, conflicts, entry};
use crate::ranking::ToolId;

/// The entries of files, before conflicts are resolved.
#[derive(Default)]
pub struct Entries {
    /// The tools, each with its position.
    pub(crate) tools: Vec<(Position, Tool)>,
    pub(crate) faults: Vec<CatalogFault>,
    /// Notices about provider tools, about operations that are not valid tools, and about keywords
    /// that are not checked.
    pub(crate) notices: Vec<CatalogFault>,
}

/// All faults of the entries, and the tools before conflicts are resolved.
pub struct CatalogExamination {
    /// The tools, each with its position.
    pub tools: Vec<(Position, Arc<Tool>)>,
    /// The faults of single entries.
    pub faults: Vec<CatalogFault>,
    /// The conflicts between tools.
    pub conflicts: Vec<CatalogFault>,
    /// The faults of the operator's aliases.
    pub alias_faults: Vec<CatalogFault>,
    /// Notices about provider tools, left out operations and keywords that are not checked.
    pub notices: Vec<CatalogFault>,
    /// Untrusted sources in the options that no tool has.
    pub unknown_values: Vec<UnknownValue>,
}

impl CatalogOptions {
    /// Reads a catalog file, or the files of a folder ([`CatalogFile::open`]).
    ///
    /// The format is detected from the content; see [`CatalogOptions::read`]. If
    /// [`CatalogOptions::default_source`] is not set, the source is the file name without its
    /// ending, or the folder's name for `tools.jsonl` and `tools.json`.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if the path cannot be read or its content is not a valid catalog; the error
    /// lists the faults of all entries.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Catalog, CatalogError> {
        self.read_files(&CatalogFile::open(path)?)
    }

    /// Reads a catalog from bytes.
    ///
    /// Accepts native tool definitions and MCP `tools/list` results, bare or as a JSON-RPC
    /// response. Accepts the tools of an API request to OpenAI (Chat Completions and Responses),
    /// Anthropic, Gemini or Ollama too. They come as a JSON array, as JSON Lines, or in the `tools`
    /// member of an object. A line may be a page of `tools/list`. Gemini's schemas are converted to
    /// JSON Schema.
    ///
    /// With the reader of `picktools-import` ([`CatalogOptions::readers`]), the operations of an
    /// OpenAPI document, JSON or YAML, become tools too. An operation that cannot be read is left
    /// out, with a notice in [`Catalog::notices`].
    ///
    /// Every field of a tool (`aliases`, `tags`, `requires`, `safe`, …) counts in each of these
    /// shapes: in snake or camel case, inside a wrapper such as `{"function": …}` and outside it.
    /// Policy outside the tools of a list is an error, and so are two different values of one
    /// field. Other members are ignored.
    ///
    /// A tool that the provider defines itself, such as `web_search`, is left out, with a notice in
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

    /// Makes a catalog from tools in memory, by the rules for files. A tool that is marked
    /// untrusted or has an untrusted source loses the aliases and the id that it claims.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Invalid`] with every fault: invalid schemas, missing schemas, and conflicts
    /// if [`CatalogOptions::conflicts`] is strict. [`CatalogError::Aliases`] if an alias of the
    /// operator refers to no tool.
    pub fn collect(&self, tools: impl IntoIterator<Item = Tool>) -> Result<Catalog, CatalogError> {
        self.append(None, tools)
    }

    /// Returns the options with more aliases of the operator. Invalid aliases then become notices.
    pub(super) fn with_aliases(&self, aliases: &OperatorAliases) -> Self {
        let mut all = aliases.clone();
        if let Some(own) = &self.aliases {
            all.add_missing(own);
        }
        Self {
            aliases: Some(all),
            invalid_aliases: InvalidEntries::LeaveOut,
            ..self.clone()
        }
    }

    /// Adds `more` tools to a catalog, whose tools stay as they are unless a conflict changes them.
    pub(super) fn append(
        &self,
        previous: Option<&Catalog>,
        more: impl IntoIterator<Item = Tool>,
    ) -> Result<Catalog, CatalogError> {
        let entries = self.check_tools(previous.map_or(0, Catalog::len), more);
        self.build(previous, entries, "tools")
    }

    /// Checks each of the tools in memory by itself. `first` is the number of tools in front of
    /// them.
    fn check_tools(&self, first: usize, more: impl IntoIterator<Item = Tool>) -> Entries {
        let mut tools: Vec<(Position, Tool)> = Vec::new();
        for (index, mut tool) in more.into_iter().enumerate() {
            if tool.source.is_none() && self.default_source.is_some() {
                let has_own_id = tool.id != tool.name;
                tool.source.clone_from(&self.default_source);
                if !has_own_id {
                    tool.id = tool.qualified_name();
                }
            }
            if tool.parameters.is_none() {
                tool.no_schema_mode = tool.no_schema_mode.or(self.allow_no_schema);
            }
            tools.push((Position::Entry(first + index + 1), tool));
        }
        let faults: Vec<CatalogFault> = tools
            .par_iter()
            .flat_map_iter(|(position, tool)| {
                entry::check(tool)
                    .into_iter()
                    .map(|fault| fault.at(position, Some(tool)))
            })
            .collect();
        let (notices, faults) = faults.into_iter().partition(|fault| fault.kind.is_notice());
        Entries {
            tools,
            faults,
            notices,
        }
    }

    /// Makes a catalog from `previous` and its changes.
    pub(super) fn change(
        &self,
        previous: &Catalog,
        Changes { put, remove }: Changes,
    ) -> Result<Catalog, ChangeError> {
        let previous_tools = previous.tools().map_err(CatalogError::from)?;
        let mut removed = HashSet::new();
        for id in remove {
            match previous.find(&id) {
                Some(tool) => removed.insert(tool),
                None => return Err(ChangeError::UnknownTool { id }),
            };
        }
        let mut entries = self.check_tools(previous_tools.len(), put);
        // The replacement of an untrusted tool is untrusted too.
        let is_untrusted =
            |id: ToolId| !removed.contains(&id) && previous_tools[id.index()].untrusted;
        for (_, tool) in &mut entries.tools {
            tool.untrusted |= previous.find(&tool.id).is_some_and(is_untrusted);
        }
        let (mut entries, notices) = self.apply_trust(entries);
        // The first replacement of a tool takes its position.
        let mut replacements: HashMap<ToolId, (Position, Arc<Tool>)> = HashMap::new();
        let mut added = Vec::new();
        for (position, tool) in entries.tools.drain(..) {
            let replaced = previous.find(&tool.id);
            let tool = (position, Arc::new(tool));
            match replaced {
                Some(id) if !removed.contains(&id) && !replacements.contains_key(&id) => {
                    replacements.insert(id, tool);
                }
                _ => added.push(tool),
            }
        }
        let mut tools = Vec::with_capacity(previous_tools.len() + added.len());
        for (id, tool) in previous.ids().zip(previous_tools) {
            if removed.contains(&id) {
                continue;
            }
            let unchanged = || (Position::Entry(id.index() + 1), Arc::clone(tool));
            tools.push(replacements.remove(&id).unwrap_or_else(unchanged));
        }
        tools.extend(added);
        let mut catalog = self.resolve(tools, entries.faults, "changes", Some(previous))?;
        catalog.notices.splice(..0, notices);
        Ok(catalog)
    }

    /// Reads the entries of files. Returns the origin for messages too.
    pub fn read_entries(&self, files: &[CatalogFile]) -> Result<(String, Entries), CatalogError> {
        let mut all = Entries::default();
        for (index, file) in files.iter().enumerate() {
            let origin: Arc<str> = file.origin.as_str().into();
            let locate = |position: Position| match files {
                [_] => position,
                _ => Position::File {
                    number: index + 1,
                    origin: Arc::clone(&origin),
                    position: Box::new(position),
                },
            };
            self.read_file(file, locate, &mut all)?;
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
        locate: impl Fn(Position) -> Position,
        all: &mut Entries,
    ) -> Result<(), CatalogError> {
        let entries = format::split(&file.bytes, &file.origin, &self.readers)?;
        let source = self.default_source.as_deref().or(file.source.as_deref());
        // Each entry is dropped on the thread that read it: dropping thousands of them takes as
        // long as reading them.
        let read_entries: Vec<ReadEntry> = entries
            .into_par_iter()
            .map(|entry| ReadEntry::new(entry, source, self.allow_no_schema))
            .collect();
        all.tools.reserve(read_entries.len());
        for entry in read_entries {
            let position = locate(entry.position);
            let may_leave_out = self.invalid_entries == InvalidEntries::LeaveOut;
            let is_optional =
                entry.is_operation || file.is_live || (may_leave_out && entry.is_readable);
            let is_left_out =
                is_optional && entry.faults.iter().any(|fault| !fault.kind.is_notice());
            for fault in entry.faults {
                let fault = if is_left_out && !fault.kind.is_notice() {
                    fault.with_kind(FaultKind::LeftOut)
                } else {
                    fault
                };
                let fault = fault.at(&position, entry.tool.as_ref());
                if fault.kind.is_notice() {
                    all.notices.push(fault);
                } else {
                    all.faults.push(fault);
                }
            }
            if let Some(tool) = entry.tool
                && !is_left_out
            {
                all.tools.push((position, tool));
            }
        }
        Ok(())
    }

    /// Builds every catalog: applies trust first, then resolves conflicts.
    fn build(
        &self,
        previous: Option<&Catalog>,
        entries: Entries,
        origin: &str,
    ) -> Result<Catalog, CatalogError> {
        let (
            Entries {
                tools, mut faults, ..
            },
            notices,
        ) = self.apply_trust(entries);
        if self.invalid_entries == InvalidEntries::LeaveOut && tools.is_empty() {
            let is_left_out = |fault: &CatalogFault| fault.kind == FaultKind::LeftOut;
            faults.extend(notices.iter().filter(|notice| is_left_out(notice)).cloned());
        }
        let previous_tools: &[Arc<Tool>] = match previous {
            Some(previous) => previous.tools()?,
            None => &[],
        };
        let mut all = Vec::with_capacity(previous_tools.len() + tools.len());
        for (index, tool) in previous_tools.iter().enumerate() {
            all.push((Position::Entry(index + 1), Arc::clone(tool)));
        }
        for (position, tool) in tools {
            all.push((position, Arc::new(tool)));
        }
        let mut catalog = self.resolve(all, faults, origin, previous)?;
        catalog.notices.splice(..0, notices);
        Ok(catalog)
    }

    /// Marks untrusted tools, and removes their ignored members. Returns the notices too.
    fn apply_trust(&self, mut entries: Entries) -> (Entries, Vec<CatalogFault>) {
        self.mark_untrusted(&mut entries.tools);
        let mut notices = std::mem::take(&mut entries.notices);
        for (position, tool) in &mut entries.tools {
            notices.append(&mut self.distrust(position, tool));
        }
        (entries, notices)
    }

    /// Finds all faults of entries, and leaves nothing out.
    pub fn examine(&self, entries: Entries) -> CatalogExamination {
        let Entries {
            mut tools,
            faults,
            notices,
        } = entries;
        let unknown_values = self.unknown_values(&self.mark_untrusted(&mut tools));
        let tools: Vec<(Position, Arc<Tool>)> = tools
            .into_iter()
            .map(|(position, tool)| (position, Arc::new(tool)))
            .collect();
        // Ignored aliases cause no conflicts.
        let trusted_parts = tools.iter().map(|(position, tool)| {
            let mut tool = Arc::clone(tool);
            if tool.untrusted {
                self.distrust(position, Arc::make_mut(&mut tool));
            }
            (position.clone(), tool)
        });
        let resolved = conflicts::resolve(trusted_parts.collect(), self.aliases.as_ref());
        let conflicts::ResolvedTools {
            conflicts,
            alias_faults,
            ..
        } = resolved;
        CatalogExamination {
            tools,
            faults,
            conflicts,
            alias_faults,
            notices,
            unknown_values,
        }
    }

    /// Marks the tools of untrusted sources, and returns all sources.
    fn mark_untrusted(&self, tools: &mut [(Position, Tool)]) -> Sources {
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

    /// Returns the untrusted sources that are not among `sources`.
    pub(super) fn unknown_values(&self, sources: &Sources) -> Vec<UnknownValue> {
        let mut unknown = Vec::new();
        for name in &self.untrusted_sources {
            if sources.restricts_none(name) {
                unknown.push(UnknownValue::new(
                    "untrusted_sources",
                    name,
                    sources.names(),
                ));
            }
        }
        unknown
    }

    /// Removes the examples and the ignored aliases of an untrusted tool, and returns notices about
    /// them. Its id becomes the qualified name, because an id of its own choice could be another
    /// tool's name.
    fn distrust(&self, position: &Position, tool: &mut Tool) -> Vec<CatalogFault> {
        if !tool.untrusted {
            return Vec::new();
        }
        tool.id = tool.qualified_name();
        let mut ignored = Vec::new();
        for (index, alias) in std::mem::take(&mut tool.aliases).into_iter().enumerate() {
            if self.allow_claimed_aliases && !is_reserved(&alias.name) {
                tool.aliases.push(alias);
            } else {
                ignored.push((index, alias));
            }
        }
        let examples = std::mem::take(&mut tool.examples);
        let notice = |kind, pointer, message, remedy: &str| CatalogFault {
            position: position.clone(),
            kind,
            name: Some(tool.name.clone()),
            pointer,
            message,
            remedy: remedy.to_owned(),
        };
        let mut notices = Vec::new();
        for (index, Alias { name, .. }) in ignored {
            let pointer = format!("/aliases/{index}");
            let message = format!("the alias '{name}' is ignored: its source is untrusted");
            let remedy = "add it to the operator's aliases to use it";
            notices.push(notice(FaultKind::UntrustedAlias, pointer, message, remedy));
        }
        if !examples.is_empty() {
            let pointer = "/examples".to_owned();
            let message = "the examples are ignored: their source is untrusted".to_owned();
            let remedy = "add them to an example file to use them";
            let kind = FaultKind::UntrustedExamples;
            notices.push(notice(kind, pointer, message, remedy));
        }
        notices
    }

    /// Resolves the conflicts between tools; `faults` are the faults of single tools.
    fn resolve(
        &self,
        tools: Vec<(Position, Arc<Tool>)>,
        mut faults: Vec<CatalogFault>,
        origin: &str,
        previous: Option<&Catalog>,
    ) -> Result<Catalog, CatalogError> {
        let resolved = conflicts::resolve(tools, self.aliases.as_ref());
        let mut notices = resolved.replaced_aliases;
        match self.conflicts {
            Conflicts::Strict => faults.extend(resolved.conflicts),
            Conflicts::Warn => notices.extend(resolved.conflicts),
        }
        if !faults.is_empty() {
            faults.sort_by(|a, b| a.position.cmp(&b.position));
            return Err(CatalogError::Invalid {
                origin: origin.to_owned(),
                faults,
            });
        }
        match self.invalid_aliases {
            InvalidEntries::LeaveOut => notices.extend(resolved.alias_faults),
            InvalidEntries::Refuse if resolved.alias_faults.is_empty() => {}
            InvalidEntries::Refuse => {
                return Err(CatalogError::Aliases {
                    faults: resolved.alias_faults,
                });
            }
        }
        Ok(Catalog {
            notices,
            ..Catalog::new(resolved.tools, self.clone(), previous)?
        })
    }
}

/// An entry after its tool was read.
struct ReadEntry {
    position: Position,
    is_operation: bool,
    /// `false` if the entry, or the list around it, could not be read.
    is_readable: bool,
    tool: Option<Tool>,
    faults: Vec<EntryFault>,
}

impl ReadEntry {
    /// Reads the tool of an entry. The default source takes precedence over the title of an
    /// OpenAPI document, but not over the source of a list.
    fn new(
        entry: Entry,
        default_source: Option<&str>,
        allow_no_schema: Option<NoSchemaMode>,
    ) -> Self {
        let Entry {
            position,
            value,
            repeated,
            source,
            is_operation,
        } = entry;
        let list_source = source.as_deref();
        let source = if is_operation {
            default_source.or(list_source)
        } else {
            list_source.or(default_source)
        };
        let is_readable = value.is_ok();
        let (tool, mut faults) = match value {
            Ok(value) => entry::read_entry(value, source, allow_no_schema),
            Err(fault) => (None, vec![fault]),
        };
        faults.extend(repeated.iter().map(entry::duplicate_key));
        Self {
            position,
            is_operation,
            is_readable,
            tool,
            faults,
        }
    }
}
