//! The sources of a catalog, and their lookup by the names in a policy.
//!
//! People write `Chat` and `chat ` for `chat`, and a hostile source may call itself `сhat` with a
//! Cyrillic letter. So a restriction applies to every source with a confusable name. A permission
//! never does: it needs the exact name, or the name without case and spaces if only one source has
//! that name.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::spelling::skeleton;
use crate::excerpt::shows;
use crate::saved::{SavedError, SavedFile, Writer};

/// The sources of a catalog's tools.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    known: Arc<KnownSources>,
    /// The index of each tool's source, or [`NONE`].
    numbers: Vec<u32>,
}

/// The sources of a catalog by name, without their tools.
#[derive(Debug, Default)]
pub struct KnownSources {
    by_name: HashMap<String, Source>,
    /// The sources of each skeleton, in order.
    by_skeleton: HashMap<String, Vec<String>>,
    /// The sources of each plain name, in order.
    by_plain: HashMap<String, Vec<String>>,
    /// The names of all sources, in the order of the tools.
    names: Vec<String>,
}

#[derive(Debug)]
struct Source {
    /// The index in the list of sources.
    number: u32,
    /// The skeleton of its name, which confusable names share.
    skeleton: String,
}

/// The number of a missing source.
const NONE: u32 = u32::MAX;

/// The sections of a saved index that hold sources.
const NAMES: &str = "sources.names";
const NUMBERS: &str = "sources.of";

impl Sources {
    /// Collects the source of each tool.
    pub fn new<'a>(sources: impl Iterator<Item = Option<&'a str>>) -> Self {
        let (mut numbers_by_name, mut names) = (HashMap::new(), Vec::new());
        let mut last = (None, NONE);
        let number = |source: Option<&'a str>| {
            // The tools of a source mostly follow each other.
            if source != last.0 {
                let number = match source {
                    Some(source) => *numbers_by_name.entry(source).or_insert_with(|| {
                        names.push(source.to_owned());
                        u32::try_from(names.len() - 1)
                            .expect("a catalog holds fewer than 2^32 tools")
                    }),
                    None => NONE,
                };
                last = (source, number);
            }
            last.1
        };
        let numbers = sources.map(number).collect();
        Self::from_numbers(names, numbers)
    }

    fn from_numbers(names: Vec<String>, numbers: Vec<u32>) -> Self {
        Self {
            known: Arc::new(KnownSources::new(names)),
            numbers,
        }
    }

    /// Collects the source of each tool, with the numbers of the sources of a full catalog.
    pub(crate) fn among<'a>(
        known: &Arc<KnownSources>,
        sources: impl Iterator<Item = Option<&'a str>>,
    ) -> Self {
        let number = |source| known.by_name.get(source).map(|source| source.number);
        let numbers = sources.map(|source: Option<&str>| source.and_then(number).unwrap_or(NONE));
        Self {
            numbers: numbers.collect(),
            known: Arc::clone(known),
        }
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        writer.json(NAMES, &self.known.names)?;
        writer.numbers(NUMBERS, &self.numbers)
    }

    pub(super) fn open(file: &SavedFile, tools: usize) -> Result<Self, SavedError> {
        let (names, numbers): (Vec<String>, Vec<u32>) = (file.json(NAMES)?, file.numbers(NUMBERS)?);
        let is_known = |&number: &u32| number == NONE || (number as usize) < names.len();
        file.ensure(
            numbers.len() == tools && numbers.iter().all(is_known),
            NUMBERS,
        )?;
        Ok(Self::from_numbers(names, numbers))
    }

    /// Returns the source of a tool.
    pub(crate) fn source(&self, tool: usize) -> Option<&str> {
        let name = self.known.names.get(self.numbers[tool] as usize)?;
        Some(name)
    }

    /// Returns the index of a tool's source in [`all`](Self::all).
    pub(crate) fn number(&self, tool: usize) -> Option<usize> {
        match self.numbers[tool] {
            NONE => None,
            number => Some(number as usize),
        }
    }

    /// Returns the names of all sources, in the order of the tools.
    pub(crate) fn all(&self) -> &[String] {
        &self.known.names
    }

    /// Returns the number of sources; tools without a source count as one.
    pub(crate) fn count(&self) -> usize {
        self.known.by_name.len() + usize::from(self.numbers.contains(&NONE))
    }

    /// Returns the sources without their tools.
    pub(crate) fn known_sources(&self) -> &Arc<KnownSources> {
        &self.known
    }

    /// Returns [`KnownSources::restricted`].
    pub(crate) fn restricted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        self.known.restricted(names)
    }

    /// Returns [`KnownSources::permitted`].
    pub(crate) fn permitted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        self.known.permitted(names)
    }

    /// Returns the skeleton of a source of the catalog, which confusable names share.
    pub fn skeleton(&self, source: Option<&str>) -> Option<&str> {
        Some(&self.known.by_name.get(source?)?.skeleton)
    }

    /// Returns `true` if a name restricts no source.
    pub(crate) fn restricts_none(&self, name: &str) -> bool {
        !self.known.by_skeleton.contains_key(&source_skeleton(name))
    }

    /// Returns `true` if a name permits no source.
    pub(crate) fn permits_none(&self, name: &str) -> bool {
        self.known.find_permitted(name).is_none()
    }

    /// Returns the sources, in any order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.by_name.keys().map(String::as_str)
    }
}

impl KnownSources {
    /// Makes a lookup of the sources, which are distinct and in order.
    pub fn new(names: Vec<String>) -> Self {
        let distinct: BTreeMap<&String, u32> = names.iter().zip(0..).collect();
        let mut lookup = Self::default();
        for (name, number) in distinct {
            let skeleton = source_skeleton(name);
            lookup
                .by_skeleton
                .entry(skeleton.clone())
                .or_default()
                .push(name.clone());
            lookup
                .by_plain
                .entry(plain(name))
                .or_default()
                .push(name.clone());
            lookup
                .by_name
                .insert(name.clone(), Source { number, skeleton });
        }
        Self { names, ..lookup }
    }

    /// Returns the names in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the sources that `names` restrict: all whose names are confusable with one of them.
    pub(crate) fn restricted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        let mut restricted = HashSet::new();
        for name in names {
            if let Some(confusable) = self.by_skeleton.get(&source_skeleton(name)) {
                restricted.extend(confusable.iter().map(String::as_str));
            }
        }
        restricted
    }

    /// Returns the sources that `names` permit: one at most for each name, without confusable
    /// names.
    pub(crate) fn permitted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        names
            .iter()
            .filter_map(|name| self.find_permitted(name))
            .collect()
    }

    fn find_permitted(&self, name: &str) -> Option<&str> {
        if let Some((source, _)) = self.by_name.get_key_value(name) {
            return Some(source);
        }
        match &self.by_plain.get(&plain(name))?[..] {
            [source] => Some(source),
            _ => None,
        }
    }
}

/// Returns a source's name without case, spaces and invisible characters.
fn plain(source: &str) -> String {
    source
        .chars()
        .filter(|&c| shows(c))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns the skeleton of a source's plain name.
fn source_skeleton(source: &str) -> String {
    skeleton(&plain(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn restrictions_cover_confusable_sources_and_permissions_do_not() {
        let sources = Sources::new(
            ["chat", "Chat", "chat ", "\u{441}hat", "mail", "Files"]
                .into_iter()
                .map(Some),
        );
        for name in [
            "chat",
            "CHAT",
            " chat",
            "\u{441}hat",
            "ch\u{200b}at",
            "c h a t",
            "chat\u{2800}",
            "ｃｈａｔ",
        ] {
            let restricted = sources.restricted(&set(&[name]));
            assert_eq!(
                restricted,
                ["chat", "Chat", "chat ", "\u{441}hat"].into(),
                "{name:?}"
            );
        }
        for (name, permitted) in [
            ("chat", &["chat"][..]),
            ("\u{441}hat", &["\u{441}hat"]),
            ("CHAT", &[]),
            ("MAIL ", &["mail"]),
            ("m\u{200b}ail", &["mail"]),
            ("files", &["Files"]),
            ("m\u{430}il", &[]),
            ("", &[]),
        ] {
            assert_eq!(
                sources.permitted(&set(&[name])),
                permitted.iter().copied().collect(),
                "{name:?}"
            );
        }
        let [spaced, cyrillic, latin, mail] =
            ["chat ", "\u{441}hat", "chat", "mail"].map(|name| sources.skeleton(Some(name)));
        assert_eq!(spaced, cyrillic);
        assert_ne!(latin, mail);
    }
}
