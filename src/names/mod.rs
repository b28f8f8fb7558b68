//! Name resolution: the tool for a name, and the mentions in a request.
//!
//! The table is built once for a catalog. Each look-up is one or two searches of sorted hashes.
//! Canonical names, qualified names (`source/name`) and ids resolve to their tool, and an alias
//! resolves to the tool that has it. Names win over aliases: the catalog's reader refuses an alias
//! that is another tool's name. All other names win over the bare name of an untrusted tool. Such a
//! tool never gets a reserved name (`bash`, `read_file`); it is available as `source/name`. An
//! unknown name is looked up a second time without case and separators, so `readFile` and
//! `READ-FILE` resolve to `read_file`. The forms in which models write names, such as
//! `mcp__files__read_file` and `functions.read_file`, are read on top of the table (`readings`).

mod advertising;
mod error;
mod owners;
mod patterns;
mod prompt;
mod readings;
mod resolution;
mod scope;
pub mod skills;
mod usage;

use std::borrow::Cow;
use std::collections::BTreeSet;

use foldhash::HashSet;
use rayon::prelude::*;

pub use advertising::shown_aliases;
pub use advertising::{AdvertisedTool, Advertising};
pub use error::AdvertisingError;
pub use patterns::{PatternError, ToolPatterns, is_glob};
pub use prompt::tools_section;
pub use prompt::{ListedTool, section};
pub use readings::name_forms;
pub use resolution::{Resolution, ResolvedTool, ResolvedVia};
pub use scope::{NameScope, ShownNames};
pub use skills::{Skill, SkillReport, ToolMeaning};
pub use usage::{log_registered, log_unknown, log_use};

use self::owners::Owners;
use crate::catalog::spelling::normalise;
use crate::catalog::{Alias, Catalog, is_reserved};
use crate::ranking::ToolId;
use crate::saved::{MIN_PARALLEL, SavedError, Writer};

/// The lowest similarity (0 to 1) at which a name is suggested for an unknown one.
const SUGGESTION_SIMILARITY: f64 = 0.8;
/// The most positions in a name that are tried as the end of its source.
const MAX_SLASHES: usize = 16;
/// The most suggestions for an unknown name.
const MAX_SUGGESTIONS: usize = 3;

/// A table from names to tools.
///
/// ```
/// use picktools::names::{NameTable, Resolution};
/// use picktools::{Catalog, Tool};
///
/// let catalog = Catalog::from_tools([Tool::without_arguments("read_file", "Reads a file")])?;
/// let names = NameTable::new(&catalog)?;
/// let Resolution::Tool(resolved) = names.resolve("readFile", &catalog)? else { panic!() };
/// assert_eq!(catalog.tool(resolved.tool)?.name, "read_file");
/// let Resolution::Unknown { suggestions } = names.resolve("read_flie", &catalog)? else { panic!() };
/// assert_eq!(suggestions, ["read_file"]);
/// # Ok::<(), picktools::catalog::CatalogError>(())
/// ```
#[derive(Debug)]
pub struct NameTable {
    /// The tools by exact name. Several tools with one name come from different sources, in
    /// registration order.
    tools: Owners,
    /// The tools by normalised name, without case and separators.
    normalised: Owners,
}

/// The sections of a saved index that contain names.
const NAMES: &str = "names.written";
const NORMALISED: &str = "names.normalised";

/// A tool name inside a request, with the tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) name: String,
    pub(crate) tool: ToolId,
}

/// A claim of a tool to a name.
enum NameClaim {
    /// A tool's name, qualified name or alias, which other tools may have as well.
    Shared(ResolvedTool),
    /// A tool's id, which is unique. Ids are listed after all shared claims.
    Id(ResolvedTool),
}

impl NameTable {
    /// Collects the names of a catalog, or reads them from the saved index of the catalog.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the index is damaged. Catalogs in memory never fail.
    pub fn new(catalog: &Catalog) -> Result<Self, SavedError> {
        log_registered(catalog);
        Self::unlogged(catalog)
    }

    /// Does the same as [`new`](Self::new), without logging.
    ///
    /// It may run on another thread, which can have another log than the caller; see
    /// [`log_registered`].
    pub(crate) fn unlogged(catalog: &Catalog) -> Result<Self, SavedError> {
        match catalog.saved() {
            None => Self::collect(catalog),
            Some(file) => Ok(Self {
                tools: Owners::open(NAMES, file)?,
                normalised: Owners::open(NORMALISED, file)?,
            }),
        }
    }

    fn collect(catalog: &Catalog) -> Result<Self, SavedError> {
        let outlines = catalog.outlines()?;
        let outlines = || catalog.ids().zip(&outlines);
        let by_name = |tool: ToolId| ResolvedTool {
            tool,
            via: ResolvedVia::Name,
            deprecated: false,
        };
        let mut names: Vec<(Cow<'_, str>, NameClaim)> = Vec::with_capacity(catalog.len() * 3);
        for (id, tool) in outlines() {
            let owner = by_name(id);
            if !tool.untrusted {
                names.push((Cow::Borrowed(&tool.name), NameClaim::Shared(owner)));
            }
            // A qualified name that is the tool's id is added below, as an id.
            if tool.source.is_some() && !tool.has_qualified_id() {
                names.push((Cow::Owned(tool.qualified_name()), NameClaim::Shared(owner)));
            }
            for Alias { name, deprecated } in &tool.aliases {
                let alias = ResolvedTool {
                    via: ResolvedVia::Alias,
                    deprecated: *deprecated,
                    ..owner
                };
                names.push((Cow::Borrowed(name), NameClaim::Shared(alias)));
            }
        }
        // An untrusted tool gets its bare name only if no other tool has the name and the name is
        // not reserved.
        if outlines().any(|(_, tool)| tool.untrusted) {
            let used_names: HashSet<String> = names
                .par_iter()
                .with_min_len(MIN_PARALLEL)
                .map(|(name, _)| normalise(name))
                .collect();
            for (id, tool) in outlines() {
                let may_claim =
                    tool.untrusted && catalog.may_have_bare_name(id) && !is_reserved(&tool.name);
                if may_claim && !used_names.contains(&normalise(&tool.name)) {
                    names.push((Cow::Borrowed(&tool.name), NameClaim::Shared(by_name(id))));
                }
            }
        }
        // An id is unique, so it wins over another tool's equal name. An exception is the id of an
        // untrusted tool that is only the bare name.
        for (id, tool) in outlines() {
            if !tool.untrusted || tool.id != tool.name {
                names.push((Cow::Borrowed(&tool.id), NameClaim::Id(by_name(id))));
            }
        }
        let tools = Owners::new(names, |claims, owners| {
            for claim in claims {
                match claim {
                    NameClaim::Id(owner) => {
                        owners.clear();
                        owners.push(owner);
                    }
                    NameClaim::Shared(owner) => {
                        if owners.iter().all(|other| other.tool != owner.tool) {
                            owners.push(owner);
                        }
                    }
                }
            }
        });
        let normalised = Self::normalise_owners(&tools);
        Ok(Self { tools, normalised })
    }

    /// Merges the owners of names that are equal without case and separators.
    fn normalise_owners(tools: &Owners) -> Owners {
        let exact: Vec<(&str, &[ResolvedTool])> = tools.iter().collect();
        let normalised = exact
            .into_par_iter()
            .with_min_len(MIN_PARALLEL)
            .map(|(name, owners)| (Cow::Owned(normalise(name)), owners));
        let mut normalised: Vec<(Cow<'_, str>, &[ResolvedTool])> = normalised.collect();
        normalised.retain(|(name, _)| !name.is_empty());
        Owners::new(normalised, |groups, owners: &mut Vec<ResolvedTool>| {
            for owner in groups.flatten() {
                match owners.iter_mut().find(|other| other.tool == owner.tool) {
                    // A name that is not deprecated wins, in any order of the table.
                    Some(other) => other.deprecated &= owner.deprecated,
                    None => owners.push(ResolvedTool {
                        via: ResolvedVia::Normalised,
                        ..*owner
                    }),
                }
            }
            owners.sort_by_key(|owner| owner.tool);
        })
    }

    /// Returns the memory of the table, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tools.memory() + self.normalised.memory()
    }

    pub(crate) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        self.tools.save(NAMES, writer)?;
        self.normalised.save(NORMALISED, writer)
    }

    /// Resolves an id, a qualified name, a name or an alias of any tool of the catalog, of which
    /// this is the table; see [`NameTable::resolve_in`].
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn resolve(&self, name: &str, catalog: &Catalog) -> Result<Resolution, SavedError> {
        self.resolve_in(name, &NameScope::all(catalog))
    }

    /// Resolves a name that a tool of `source` uses. If the name is ambiguous, the tool of the same
    /// source wins.
    pub(crate) fn resolve_in_source(
        &self,
        name: &str,
        source: Option<&str>,
        catalog: &Catalog,
    ) -> Option<ToolId> {
        match self.owners(name) {
            [resolved] => Some(resolved.tool),
            several => {
                let mut of_same_source = several
                    .iter()
                    .filter(|resolved| catalog.source(resolved.tool) == source);
                let first = of_same_source.next()?;
                if of_same_source.next().is_some() {
                    return None;
                }
                Some(first.tool)
            }
        }
    }

    /// Returns the tools that a name may stand for, in registration order.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn possible_tools(&self, name: &str, catalog: &Catalog) -> Result<Vec<ToolId>, SavedError> {
        let scope = NameScope {
            may_suggest: &|_| false,
            ..NameScope::all(catalog)
        };
        Ok(match self.resolve_in(name, &scope)? {
            Resolution::Tool(resolved) => vec![resolved.tool],
            Resolution::Ambiguous(tools) => tools,
            Resolution::Unknown { .. } => Vec::new(),
        })
    }

    /// Returns the tools that have a name exactly or, if there are no such tools, in a variant
    /// spelling.
    pub(crate) fn owners(&self, name: &str) -> &[ResolvedTool] {
        self.tools
            .get(name)
            .or_else(|| self.normalised.get(&normalise(name)))
            .unwrap_or_default()
    }

    /// Returns the names most similar to `name`: by Jaro–Winkler similarity, or by shared words
    /// (Dice).
    pub fn suggest(&self, name: &str, may_suggest: impl Fn(ToolId) -> bool) -> Vec<String> {
        let (name, words) = (name.to_lowercase(), split_words(name));
        let similarity = |other: &str| {
            let other_words = split_words(other);
            let shared = words.intersection(&other_words).count();
            let dice = 2.0 * shared as f64 / (words.len() + other_words.len()).max(1) as f64;
            dice.max(strsim::jaro_winkler(&name, &other.to_lowercase()))
        };
        let mut near: Vec<(f64, &str, &[ResolvedTool])> = Vec::new();
        for (other, owners) in self.tools.iter() {
            if !owners.iter().any(|owner| may_suggest(owner.tool)) {
                continue;
            }
            let similarity = similarity(other);
            if similarity >= SUGGESTION_SIMILARITY {
                near.push((similarity, other, owners));
            }
        }
        near.sort_by(|a, b| {
            let by_name = || (a.1.len(), a.1).cmp(&(b.1.len(), b.1));
            b.0.total_cmp(&a.0).then_with(by_name)
        });
        // Suggests one name per tool.
        let mut suggested = HashSet::default();
        near.retain(|(.., owners)| owners.iter().any(|owner| suggested.insert(owner.tool)));
        near.truncate(MAX_SUGGESTIONS);
        let mut names = Vec::with_capacity(near.len());
        for (_, other, _) in near {
            names.push(other.to_owned());
        }
        names
    }

    /// Finds the tools that `text` mentions by name, each once, in order of appearance.
    ///
    /// A name counts if it is the complete text, is in quotation marks or backticks, or has the
    /// form of an identifier. A plain word that is also a name or an alias ("run",
    /// "search") does not count: people use it as a word.
    pub(crate) fn mentions(&self, text: &str, catalog: &Catalog) -> Vec<Mention> {
        let mut mentions: Vec<Mention> = Vec::new();
        self.add_mentions(text.trim(), catalog, &mut mentions);
        for name in quoted(text) {
            self.add_mentions(name, catalog, &mut mentions);
        }
        for word in text.split_whitespace() {
            // A part of a word is an identifier only if the word is one.
            if is_identifier(word) {
                for name in self.identifiers(word, catalog) {
                    self.add_mentions(name, catalog, &mut mentions);
                }
            }
        }
        mentions
    }

    /// Adds the tools that a mentioned text names, unless they are mentioned already.
    fn add_mentions(&self, name: &str, catalog: &Catalog, mentions: &mut Vec<Mention>) {
        // A plain word in a variant spelling still is a plain word.
        let owners = if is_identifier(name) {
            self.owners_of_identifier(name, catalog)
        } else {
            Cow::Borrowed(self.tools.get(name).unwrap_or_default())
        };
        for &ResolvedTool { tool, .. } in owners.iter() {
            if mentions.iter().all(|mention| mention.tool != tool) {
                mentions.push(Mention {
                    name: name.to_owned(),
                    tool,
                });
            }
        }
    }

    /// Returns the tools that have a name or, if there are none, those that it means with their
    /// server.
    fn owners_of_identifier(&self, name: &str, catalog: &Catalog) -> Cow<'_, [ResolvedTool]> {
        match self.owners(name) {
            [] => Cow::Owned(self.qualified_readings(name, &NameScope::all(catalog))),
            owners => Cow::Borrowed(owners),
        }
    }

    /// Returns the tool names that `word` contains as identifiers: the word itself, or else its
    /// parts at the first cut that finds any.
    fn identifiers<'t>(&self, word: &'t str, catalog: &Catalog) -> Vec<&'t str> {
        let is_name = |part: &&str| {
            is_identifier(part) && !self.owners_of_identifier(part, catalog).is_empty()
        };
        for (level, &is_cut) in CUTS.iter().enumerate() {
            // Without further cut characters the parts are the same as at the previous level.
            if level > 0 && !word.contains(|c| is_cut(c) && !CUTS[level - 1](c)) {
                continue;
            }
            let names: Vec<&str> = parts(word, is_cut).filter(is_name).collect();
            if !names.is_empty() {
                return names;
            }
        }
        Vec::new()
    }
}

/// Returns the qualified names that `name` may stand for, if a provider's rules have replaced the
/// slash.
pub fn qualified(name: &str) -> impl Iterator<Item = String> {
    let separators = name.match_indices(['_', '-', '.']).take(MAX_SLASHES);
    separators.map(|(at, _)| format!("{}/{}", &name[..at], &name[at + 1..]))
}

/// Returns every text in `text` that could be a mention, for any catalog.
pub fn possible_mentions(text: &str) -> BTreeSet<&str> {
    let mut possible: BTreeSet<&str> = quoted(text).collect();
    possible.insert(text.trim());
    for word in text.split_whitespace() {
        for is_cut in CUTS {
            for part in parts(word, is_cut) {
                if is_identifier(part) {
                    possible.insert(part);
                }
            }
        }
    }
    possible
}

/// The levels at which a word is cut to find identifiers: not at all, at brackets and commas, at
/// letters of other scripts, and at dots and slashes. Each level includes the previous ones.
const CUTS: [fn(char) -> bool; 4] = [
    |_| false,
    |c| !(c.is_alphanumeric() || "_-.:/".contains(c)),
    |c| !(c.is_ascii_alphanumeric() || "_-.:/".contains(c)),
    |c| !(c.is_ascii_alphanumeric() || "_-".contains(c)),
];

/// Punctuation that occurs inside identifiers, and around any word.
const EDGES: [char; 4] = ['.', ':', '/', '-'];

/// Returns the parts of a word, each followed by the part without surrounding punctuation if that
/// differs.
fn parts(word: &str, is_cut: fn(char) -> bool) -> impl Iterator<Item = &str> {
    word.split(is_cut).flat_map(|part| {
        let bare = part.trim_matches(EDGES);
        std::iter::once(part).chain(Some(bare).filter(|bare| bare.len() < part.len()))
    })
}

/// Splits a name into its words, in lower case: at separators and at changes of case.
pub fn split_words(name: &str) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut word = String::new();
    let mut last_is_small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (last_is_small && c.is_uppercase()) {
            words.insert(std::mem::take(&mut word));
        }
        last_is_small = c.is_lowercase();
        word.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
    }
    words.insert(word);
    words.remove("");
    words
}

/// Returns `true` if `word` has the form of an identifier: with `_`, an inner `-`, `.`, `:` or `/`,
/// a digit, or a capital after a lowercase letter.
fn is_identifier(word: &str) -> bool {
    word.contains('_')
        || word.trim_matches(EDGES).contains(EDGES)
        || word.contains(|c: char| c.is_ascii_digit())
        || word
            .chars()
            .zip(word.chars().skip(1))
            .any(|(a, b)| a.is_lowercase() && b.is_uppercase())
}

/// Returns the texts between quotation marks or backticks, except those that span lines.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    const MARKS: [(char, char); 5] = [('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('«', '»')];
    MARKS.into_iter().flat_map(move |(open, close)| {
        let mut rest = text;
        std::iter::from_fn(move || {
            let start = rest.find(open)? + open.len_utf8();
            let length = rest[start..].find(close)?;
            let inner = &rest[start..start + length];
            // The closing mark may also open the next text, so it is read again if both marks are
            // the same.
            rest = &rest[start + length + if open == close { 0 } else { close.len_utf8() }..];
            Some(inner)
        })
        .filter(|inner| !inner.is_empty() && !inner.contains('\n'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tool;

    fn table() -> (NameTable, Catalog) {
        let mut terminal = Tool::without_arguments("terminalRun", "Runs a command");
        terminal.aliases = ["bash", "run", "shell exec"]
            .map(|name| Alias {
                name: name.into(),
                deprecated: false,
            })
            .into();
        let mut weather = Tool::without_arguments("get_forecast", "");
        weather.source = Some("weather".into());
        weather.id = weather.qualified_name();
        let mut sky = weather.clone();
        sky.source = Some("sky".into());
        sky.id = sky.qualified_name();
        let tools = [
            terminal,
            weather,
            sky,
            Tool::without_arguments("read_file", ""),
            Tool::without_arguments("search", ""),
        ];
        let catalog = Catalog::from_tools(tools).expect("valid");
        (NameTable::new(&catalog).expect("in memory"), catalog)
    }

    fn resolve(name: &str) -> Resolution {
        let (table, catalog) = table();
        table.resolve(name, &catalog).expect("in memory")
    }

    fn mentioned(text: &str) -> Vec<usize> {
        let (table, catalog) = table();
        table
            .mentions(text, &catalog)
            .into_iter()
            .map(|mention| mention.tool.index())
            .collect()
    }

    #[test]
    fn identifiers_quoted_words_and_complete_texts_are_mentions() {
        for (text, expected) in [
            ("bash", vec![0]),
            ("  search ", vec![4]),
            ("use terminalRun, then (read_file).", vec![0, 3]),
            ("use `bash` for it", vec![0]),
            ("call \"search\" now", vec![4]),
            ("call 'shell exec' now", vec![0]),
            ("the weather/get_forecast tool", vec![1]),
            (
                "call mcp__weather__get_forecast, then `sky.getForecast`",
                vec![2, 1],
            ),
            (
                "with sky__get_forecast (or weather_get_forecast)",
                vec![2, 1],
            ),
            ("`get_forecast` please", vec![1, 2]),
            ("run a search in bash", vec![]),
            ("don't run what isn't mine", vec![]),
            ("read file", vec![]),
            ("no need to run a search.", vec![]),
            ("not for a search: run - search/ it...", vec![]),
            ("Search.", vec![]),
            (
                "it is done by terminal_run. And then by read_file:",
                vec![0, 3],
            ),
            ("- read_file - (terminalRun.)", vec![3, 0]),
        ] {
            assert_eq!(mentioned(text), expected, "{text}");
        }
    }

    #[test]
    fn names_resolve_exactly_and_then_in_a_variant_spelling() {
        let check = |name: &str, expected: usize, via: ResolvedVia| {
            let Resolution::Tool(resolved) = resolve(name) else {
                panic!("{name} is not one tool");
            };
            assert_eq!(
                (resolved.tool.index(), resolved.via),
                (expected, via),
                "{name}"
            );
        };
        check("terminalRun", 0, ResolvedVia::Name);
        check("sky/get_forecast", 2, ResolvedVia::Name);
        check("bash", 0, ResolvedVia::Alias);
        for (name, tool) in [
            ("terminal_run", 0),
            ("ShellExec", 0),
            ("READ-FILE", 3),
            ("sky/getForecast", 2),
            ("Search", 4),
        ] {
            check(name, tool, ResolvedVia::Normalised);
        }
        for name in ["get_forecast", "getForecast"] {
            assert!(
                matches!(resolve(name), Resolution::Ambiguous(tools) if tools.len() == 2),
                "{name}"
            );
        }
    }

    #[test]
    fn deprecated_alias_is_marked_unless_it_spells_the_name() {
        let mut tool = Tool::without_arguments("copy_file", "");
        tool.aliases = [("cp", true), ("copyFile", true)]
            .map(|(name, deprecated)| Alias {
                name: name.into(),
                deprecated,
            })
            .into();
        let catalog = Catalog::from_tools([tool]).expect("valid");
        let table = NameTable::new(&catalog).expect("in memory");
        let deprecated = |name: &str| {
            matches!(
                table.resolve(name, &catalog).expect("in memory"),
                Resolution::Tool(ResolvedTool {
                    deprecated: true,
                    ..
                })
            )
        };
        assert!(deprecated("cp") && deprecated("copyFile") && deprecated("CP"));
        assert!(!deprecated("copy_file") && !deprecated("copy-file"));
    }

    #[test]
    fn unknown_name_gets_the_most_similar_names() {
        let suggested = |name: &str| match resolve(name) {
            Resolution::Unknown { suggestions } => suggestions,
            resolution => panic!("{name} is {resolution:?}"),
        };
        assert_eq!(suggested("read_flie"), ["read_file"]);
        assert_eq!(
            suggested("file_read")[0],
            "read_file",
            "the words are the same"
        );
        assert!(
            suggested("zzz").is_empty() && suggested("").is_empty() && suggested("🚀").is_empty()
        );
    }

    #[test]
    fn variant_spelling_of_an_identifier_is_a_mention() {
        assert_eq!(mentioned("use terminal_run for it"), [0]);
        assert_eq!(mentioned("readFile"), [3]);
        assert!(mentioned("READ FILE").is_empty() && mentioned("`Search` it").is_empty());
    }
}
