//! Names: which tool a word means, and which tools a request names outright.
//!
//! Built once for a catalog; each look-up is one or two searches of sorted hashes. Canonical names,
//! qualified names (`source/name`) and ids mean their tool; an alias means the tool that has it.
//! Names win over aliases, which the catalog's reader guarantees by refusing an alias that is
//! another tool's name. The bare name of an untrusted tool gives way to all others, and never is
//! one of the ecosystem's (`bash`, `read_file`): such a tool is `source/name`. A name that nobody
//! has is looked up once more without case and separators, so that `readFile` and `READ-FILE` mean
//! `read_file`.

mod advertising;
mod error;
mod owners;
mod prompt;
pub mod skills;
mod usage;

use std::borrow::Cow;
use std::collections::BTreeSet;

use foldhash::HashSet;
use rayon::prelude::*;
use serde::Serialize;

pub use advertising::shown_aliases;
pub use advertising::{Advertised, Advertising};
pub use error::AdvertisingError;
pub use prompt::tools_section;
pub use prompt::{Listed, section};
pub use skills::{Skill, SkillReport, ToolMeaning};
pub use usage::{log_registered, log_unknown, log_use};

use self::owners::Owners;
use crate::catalog::spelling::normalise;
use crate::catalog::{Alias, Catalog, is_reserved};
use crate::ranking::ToolId;
use crate::saved::{FEW, SavedError, Writer};

/// How far off a word may be to count as a misspelt name, 0..1.
const SUGGESTION_SIMILARITY: f64 = 0.8;
/// The most places of a name at which its source may end.
const MAX_SLASHES: usize = 16;
/// The most suggestions for a name that nobody has.
const MAX_SUGGESTIONS: usize = 3;

/// From names to tools.
///
/// ```
/// use picktools::names::{NameTable, Resolution};
/// use picktools::{Catalog, Tool};
///
/// let catalog = Catalog::from_tools([Tool::without_arguments("read_file", "Reads a file")])?;
/// let names = NameTable::new(&catalog);
/// assert!(matches!(names.resolve("readFile"), Resolution::Tool(found) if catalog.tool(found.tool).name == "read_file"));
/// assert!(matches!(names.resolve("read_flie"), Resolution::Unknown { suggestions } if suggestions == ["read_file"]));
/// # Ok::<(), picktools::catalog::CatalogError>(())
/// ```
#[derive(Debug)]
pub struct NameTable {
    /// Several tools under one name come from different sources, in registration order.
    tools: Owners,
    /// The same without case and separators.
    normalised: Owners,
}

/// The sections of a saved index that hold names.
const NAMES: &str = "names.written";
const NORMALISED: &str = "names.normalised";

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// One tool.
    Tool(Resolved),
    /// Several tools, of different sources or with variant spellings of the name, in registration
    /// order.
    Ambiguous(Vec<ToolId>),
    /// None.
    Unknown {
        /// The nearest names that there are, best first.
        suggestions: Vec<String>,
    },
}

/// A tool, and how a name led to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// The tool.
    pub tool: ToolId,
    /// What the name is.
    pub via: ResolvedVia,
    /// Whether it is an alias that shall no longer be used.
    pub deprecated: bool,
}

/// How a name led to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResolvedVia {
    /// It is the tool's name, qualified name or id.
    Name,
    /// It is an alias.
    Alias,
    /// It is a name or an alias in a variant spelling.
    Normalised,
    /// It is what the model was shown.
    Advertised,
}

/// A tool that a request names outright, and the name it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) name: String,
    pub(crate) tool: ToolId,
}

/// What a catalog says of a name.
enum Given {
    /// A tool's name, qualified name or alias, which others may have as well.
    Claim(Resolved),
    /// A tool's id, which no other has. It comes behind what is claimed.
    Id(Resolved),
}

impl NameTable {
    /// Collects the names of a catalog.
    pub fn new(catalog: &Catalog) -> Self {
        log_registered(catalog);
        Self::collect(catalog)
    }

    fn collect(catalog: &Catalog) -> Self {
        let named = |tool: ToolId| Resolved {
            tool,
            via: ResolvedVia::Name,
            deprecated: false,
        };
        let mut names: Vec<(Cow<'_, str>, Given)> = Vec::with_capacity(catalog.len() * 3);
        for (id, tool) in catalog.outlines() {
            let named = named(id);
            if !tool.untrusted {
                names.push((Cow::Borrowed(&tool.name), Given::Claim(named)));
            }
            // Where it is the id, that counts more.
            if tool.source.is_some() && !tool.has_qualified_id() {
                names.push((Cow::Owned(tool.qualified_name()), Given::Claim(named)));
            }
            for Alias { name, deprecated } in &tool.aliases {
                let alias = Resolved {
                    via: ResolvedVia::Alias,
                    deprecated: *deprecated,
                    ..named
                };
                names.push((Cow::Borrowed(name), Given::Claim(alias)));
            }
        }
        // An untrusted name counts by itself only where nobody else has it and the ecosystem does
        // not.
        if catalog.outlines().any(|(_, tool)| tool.untrusted) {
            let known: HashSet<String> = names
                .par_iter()
                .with_min_len(FEW)
                .map(|(name, _)| normalise(name))
                .collect();
            for (id, tool) in catalog.outlines().filter(|(_, tool)| tool.untrusted) {
                let is_own = catalog.may_have_bare_name(id) && !is_reserved(&tool.name);
                if is_own && !known.contains(&normalise(&tool.name)) {
                    names.push((Cow::Borrowed(&tool.name), Given::Claim(named(id))));
                }
            }
        }
        // An id is unique, so it means its tool even where it is also another's name; but for an
        // untrusted one and that is no more than the bare name.
        for (id, tool) in catalog
            .outlines()
            .filter(|(_, tool)| !tool.untrusted || tool.id != tool.name)
        {
            names.push((Cow::Borrowed(&tool.id), Given::Id(named(id))));
        }
        let tools = Owners::new(names, |given, owners| {
            for given in given {
                match given {
                    Given::Id(owner) => {
                        owners.clear();
                        owners.push(owner);
                    }
                    Given::Claim(owner) if owners.iter().any(|known| known.tool == owner.tool) => {}
                    Given::Claim(owner) => owners.push(owner),
                }
            }
        });
        let written: Vec<(&str, &[Resolved])> = tools.iter().collect();
        let normalised = written
            .into_par_iter()
            .with_min_len(FEW)
            .map(|(name, owners)| (Cow::Owned(normalise(name)), owners));
        let mut normalised: Vec<(Cow<'_, str>, &[Resolved])> = normalised.collect();
        normalised.retain(|(normal, _)| !normal.is_empty());
        let normalised = Owners::new(normalised, |given, owners: &mut Vec<Resolved>| {
            for owner in given.flatten() {
                match owners.iter_mut().find(|known| known.tool == owner.tool) {
                    // What is still in use wins, whatever the order of the table.
                    Some(known) => known.deprecated &= owner.deprecated,
                    None => owners.push(Resolved {
                        via: ResolvedVia::Normalised,
                        ..*owner
                    }),
                }
            }
            owners.sort_by_key(|owner| owner.tool);
        });
        Self { tools, normalised }
    }

    /// Collects the names of a catalog, or reads them from the index that it was opened from.
    ///
    /// # Errors
    ///
    /// [`SavedError`] when the index is damaged.
    pub fn of(catalog: &Catalog) -> Result<Self, SavedError> {
        log_registered(catalog);
        Self::unlogged(catalog)
    }

    /// As [`of`](Self::of), on threads that may not be the caller's, whose log is another; see
    /// [`log_registered`].
    pub(crate) fn unlogged(catalog: &Catalog) -> Result<Self, SavedError> {
        let Some(file) = catalog.saved() else {
            return Ok(Self::collect(catalog));
        };
        Ok(Self {
            tools: Owners::open(NAMES, file)?,
            normalised: Owners::open(NORMALISED, file)?,
        })
    }

    /// Returns how many bytes it takes.
    pub(crate) fn memory(&self) -> usize {
        self.tools.memory() + self.normalised.memory()
    }

    pub(crate) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        self.tools.save(NAMES, writer)?;
        self.normalised.save(NORMALISED, writer)
    }

    /// Resolves an id, a qualified name, a name or an alias, as it is written or else without case
    /// and separators.
    pub fn resolve(&self, name: &str) -> Resolution {
        self.resolve_among(name, |_| true)
    }

    /// As [`NameTable::resolve`], and suggests only names of tools that `may_suggest` accepts.
    pub fn resolve_among(&self, name: &str, may_suggest: impl Fn(ToolId) -> bool) -> Resolution {
        match self.owners(name) {
            [] => Resolution::Unknown {
                suggestions: self.suggest(name, may_suggest),
            },
            [resolved] => Resolution::Tool(*resolved),
            several => {
                Resolution::Ambiguous(several.iter().map(|resolved| resolved.tool).collect())
            }
        }
    }

    /// Returns the tool that a name means in a tool of `source`: where there are several, the one
    /// of the same source.
    pub(crate) fn of_source(
        &self,
        name: &str,
        source: Option<&str>,
        catalog: &Catalog,
    ) -> Option<ToolId> {
        match self.owners(name) {
            [resolved] => Some(resolved.tool),
            several => {
                let mut own = several
                    .iter()
                    .filter(|resolved| catalog.source(resolved.tool) == source);
                own.next()
                    .filter(|_| own.next().is_none())
                    .map(|resolved| resolved.tool)
            }
        }
    }

    /// Returns the tools that a name may mean, in registration order. A name that nobody has may be
    /// a qualified one whose slash a provider's rules have changed, as in `weather_get_forecast`.
    pub fn meant(&self, name: &str) -> impl Iterator<Item = ToolId> {
        let mut qualified = qualified(name).map(|name| self.owners(&name));
        let mut owners = self.owners(name);
        if owners.is_empty() {
            owners = qualified
                .find(|owners| !owners.is_empty())
                .unwrap_or_default();
        }
        owners.iter().map(|owner| owner.tool)
    }

    /// Returns what a name may mean.
    pub(crate) fn owners(&self, name: &str) -> &[Resolved] {
        self.tools
            .of(name)
            .or_else(|| self.normalised.of(&normalise(name)))
            .unwrap_or_default()
    }

    /// Returns the names most like `name`: by Jaro–Winkler similarity, or by the words that they
    /// share (Dice).
    pub fn suggest(&self, name: &str, may_suggest: impl Fn(ToolId) -> bool) -> Vec<String> {
        let (name, words) = (name.to_lowercase(), words_of(name));
        let similarity = |known: &str| {
            let theirs = words_of(known);
            let shared = words.intersection(&theirs).count();
            let dice = 2.0 * shared as f64 / (words.len() + theirs.len()).max(1) as f64;
            dice.max(strsim::jaro_winkler(&name, &known.to_lowercase()))
        };
        let known = self
            .tools
            .iter()
            .filter(|(_, owners)| owners.iter().any(|owner| may_suggest(owner.tool)));
        let known = known.map(|(known, owners)| (similarity(known), known, owners));
        let mut near: Vec<(f64, &str, &[Resolved])> = known
            .filter(|(similarity, ..)| *similarity >= SUGGESTION_SIMILARITY)
            .collect();
        near.sort_by(|a, b| {
            b.0.total_cmp(&a.0)
                .then(a.1.len().cmp(&b.1.len()))
                .then(a.1.cmp(b.1))
        });
        // One name per tool is enough.
        let mut suggested = HashSet::default();
        near.retain(|(.., owners)| owners.iter().any(|owner| suggested.insert(owner.tool)));
        near.truncate(MAX_SUGGESTIONS);
        near.into_iter()
            .map(|(_, known, _)| known.to_owned())
            .collect()
    }

    /// Finds the tools that `text` names outright, each once, in order of appearance.
    ///
    /// A name counts when it is the whole text, when it stands in quotation marks or backticks, or
    /// when it stands free and is shaped like an identifier. A plain word that happens to be a name
    /// or an alias ("run", "search") does not: people mean the word.
    pub(crate) fn mentions(&self, text: &str) -> Vec<Mention> {
        let mut mentions: Vec<Mention> = Vec::new();
        // What is cut out of a word is no identifier unless the word is.
        let free = text
            .split_whitespace()
            .filter(|word| is_identifier(word))
            .flat_map(|word| self.identifiers(word));
        for name in std::iter::once(text.trim()).chain(quoted(text)).chain(free) {
            // A plain word in a variant spelling is a plain word.
            let owners = if is_identifier(name) {
                self.owners(name)
            } else {
                self.tools.of(name).unwrap_or_default()
            };
            for &Resolved { tool, .. } in owners {
                if mentions.iter().all(|mention| mention.tool != tool) {
                    mentions.push(Mention {
                        name: name.to_owned(),
                        tool,
                    });
                }
            }
        }
        mentions
    }

    /// The names that stand in `word` as identifiers: the word itself, or else what is left of it
    /// when it is cut.
    fn identifiers<'t>(&self, word: &'t str) -> Vec<&'t str> {
        let known = |part: &&str| is_identifier(part) && !self.owners(part).is_empty();
        // Where it is not cut at more places than before, it has the same parts.
        let cuts = (0..CUTS.len())
            .filter(|&cut| cut == 0 || word.contains(|c| CUTS[cut](c) && !CUTS[cut - 1](c)));
        let mut names = cuts.map(|cut| parts(word, CUTS[cut]).filter(known).collect::<Vec<_>>());
        names.find(|names| !names.is_empty()).unwrap_or_default()
    }
}

/// The qualified names that `name` may be, where a provider's rules have changed a slash.
pub fn qualified(name: &str) -> impl Iterator<Item = String> {
    let slashes = name.match_indices(['_', '-', '.']).take(MAX_SLASHES);
    slashes.map(|(at, _)| format!("{}/{}", &name[..at], &name[at + 1..]))
}

/// Every name by which `text` could name a tool outright, whatever tools there are: the candidates
/// of mentions.
pub fn possible_mentions(text: &str) -> BTreeSet<&str> {
    let mut possible: BTreeSet<&str> = std::iter::once(text.trim()).chain(quoted(text)).collect();
    for word in text.split_whitespace() {
        for parts in CUTS.map(|is_cut| parts(word, is_cut)) {
            possible.extend(parts.filter(|part| is_identifier(part)));
        }
    }
    possible
}

/// Where a word is cut that may be an identifier: nowhere, or else at brackets and commas, then at
/// letters of other scripts, then at dots and slashes. Each cuts wherever those before it do.
const CUTS: [fn(char) -> bool; 4] = [
    |_| false,
    |c| !(c.is_alphanumeric() || "_-.:/".contains(c)),
    |c| !(c.is_ascii_alphanumeric() || "_-.:/".contains(c)),
    |c| !(c.is_ascii_alphanumeric() || "_-".contains(c)),
];

/// Signs that stand within identifiers, and around words of any kind.
const EDGES: [char; 4] = ['.', ':', '/', '-'];

/// The parts of a word, each as it is and without signs around it, where it has some.
fn parts(word: &str, is_cut: fn(char) -> bool) -> impl Iterator<Item = &str> {
    word.split(is_cut).flat_map(|part| {
        let bare = part.trim_matches(EDGES);
        std::iter::once(part).chain(Some(bare).filter(|bare| bare.len() < part.len()))
    })
}

/// The words of a name, in lowercase letters: what stands between separators and changes of case.
pub fn words_of(name: &str) -> BTreeSet<String> {
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

/// Returns `true` if `word` is written as only identifiers are: with `_`, an inner `-`, `.`, `:` or
/// `/`, a digit, or a capital after a lowercase letter.
fn is_identifier(word: &str) -> bool {
    word.contains('_')
        || word.trim_matches(EDGES).contains(EDGES)
        || word.contains(|c: char| c.is_ascii_digit())
        || word
            .chars()
            .zip(word.chars().skip(1))
            .any(|(a, b)| a.is_lowercase() && b.is_uppercase())
}

/// The texts between quotation marks or backticks, without those that span lines.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    const MARKS: [(char, char); 5] = [('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('«', '»')];
    MARKS.into_iter().flat_map(move |(open, close)| {
        let mut rest = text;
        std::iter::from_fn(move || {
            let start = rest.find(open)? + open.len_utf8();
            let length = rest[start..].find(close)?;
            let inner = &rest[start..start + length];
            // The closing mark may open the next text: `a"b"c` has one quoted text however it is
            // read.
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

    fn table() -> NameTable {
        let mut terminal = Tool::without_arguments("terminalRun", "Runs a command");
        terminal.aliases = ["bash", "run", "shell exec"]
            .map(|name| Alias {
                name: name.into(),
                deprecated: false,
            })
            .into();
        let mut here = Tool::without_arguments("get_forecast", "");
        here.source = Some("weather".into());
        here.id = here.qualified_name();
        let mut there = here.clone();
        there.source = Some("sky".into());
        there.id = there.qualified_name();
        let tools = [
            terminal,
            here,
            there,
            Tool::without_arguments("read_file", ""),
            Tool::without_arguments("search", ""),
        ];
        NameTable::new(&Catalog::from_tools(tools).expect("valid"))
    }

    fn named(text: &str) -> Vec<usize> {
        table()
            .mentions(text)
            .into_iter()
            .map(|mention| mention.tool.index())
            .collect()
    }

    #[test]
    fn identifiers_quoted_words_and_whole_queries_are_mentions() {
        for (text, expected) in [
            ("bash", vec![0]),
            ("  search ", vec![4]),
            ("use terminalRun, then (read_file).", vec![0, 3]),
            ("use `bash` for it", vec![0]),
            ("call \"search\" now", vec![4]),
            ("call 'shell exec' now", vec![0]),
            ("the weather/get_forecast tool", vec![1]),
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
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn names_resolve_as_written_then_in_another_writing() {
        let check = |name: &str, expected: usize, via: ResolvedVia| {
            let found = table().resolve(name);
            assert!(
                matches!(found, Resolution::Tool(found) if found.tool.index() == expected && found.via == via),
                "{name}: {found:?}"
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
                matches!(table().resolve(name), Resolution::Ambiguous(tools) if tools.len() == 2),
                "{name}"
            );
        }
    }

    #[test]
    fn a_deprecated_alias_is_told_unless_the_name_is_the_same_but_for_its_writing() {
        let mut tool = Tool::without_arguments("copy_file", "");
        tool.aliases = [("cp", true), ("copyFile", true)]
            .map(|(name, deprecated)| Alias {
                name: name.into(),
                deprecated,
            })
            .into();
        let table = NameTable::new(&Catalog::from_tools([tool]).expect("valid"));
        let deprecated = |name: &str| {
            matches!(
                table.resolve(name),
                Resolution::Tool(Resolved {
                    deprecated: true,
                    ..
                })
            )
        };
        assert!(deprecated("cp") && deprecated("copyFile") && deprecated("CP"));
        assert!(!deprecated("copy_file") && !deprecated("copy-file"));
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_ones() {
        let suggested = |name: &str| match table().resolve(name) {
            Resolution::Unknown { suggestions } => suggestions,
            known => panic!("{name} is {known:?}"),
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
    fn an_identifier_in_another_writing_is_a_mention_and_a_plain_word_is_not() {
        assert_eq!(named("use terminal_run for it"), [0]);
        assert_eq!(named("readFile"), [3]);
        assert!(named("READ FILE").is_empty() && named("`Search` it").is_empty());
    }
}
