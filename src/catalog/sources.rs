//! The sources of a catalog, and which of them a policy means.
//!
//! People write `Chat` and `chat ` for `chat`, and a hostile source calls itself `сhat` with a
//! Cyrillic letter. So what restricts a source holds for every one that looks like it, while what
//! permits one never reaches a look-alike: it means the very name, or else the only source of that
//! name but for case and spaces.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::spelling::skeleton;
use crate::excerpt::shows;
use crate::saved::{SavedError, SavedFile, Writer};

/// The sources of a catalog by how they are written and how they look.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    known: Arc<Known>,
    /// The number of each tool's source; [`NONE`] where it has none.
    numbers: Vec<u32>,
}

/// Which sources there are, whatever tools they have.
#[derive(Debug, Default)]
pub struct Known {
    by_name: HashMap<String, Source>,
    /// The sources of a look, in order.
    by_look: HashMap<String, Vec<String>>,
    /// The sources of a plain name, in order.
    by_plain: HashMap<String, Vec<String>>,
    /// All of them, in the order of the tools.
    names: Vec<String>,
}

#[derive(Debug)]
struct Source {
    /// Its place among all.
    number: u32,
    /// What its name looks like.
    look: String,
}

/// Stands for no source.
const NONE: u32 = u32::MAX;

/// The sections of a saved index that hold sources.
const NAMES: &str = "sources.names";
const NUMBERS: &str = "sources.of";

impl Sources {
    /// Collects the source of each tool.
    pub fn new<'a>(sources: impl Iterator<Item = Option<&'a str>>) -> Self {
        let (mut known, mut names) = (HashMap::new(), Vec::new());
        let mut last = (None, NONE);
        let number = |source: Option<&'a str>| {
            // The tools of a source mostly stand together.
            if source != last.0 {
                let number = source.map_or(NONE, |source| {
                    *known.entry(source).or_insert_with(|| {
                        names.push(source.to_owned());
                        u32::try_from(names.len() - 1)
                            .expect("a catalog holds fewer than 2^32 tools")
                    })
                });
                last = (source, number);
            }
            last.1
        };
        let numbers = sources.map(number).collect();
        Self::of_numbers(names, numbers)
    }

    fn of_numbers(names: Vec<String>, numbers: Vec<u32>) -> Self {
        Self {
            known: Arc::new(Known::new(names)),
            numbers,
        }
    }

    /// Collects the source of each tool, as the sources of a larger catalog are numbered.
    pub(crate) fn among<'a>(
        known: &Arc<Known>,
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
        Ok(Self::of_numbers(names, numbers))
    }

    /// Returns the source of a tool.
    pub(crate) fn of(&self, tool: usize) -> Option<&str> {
        self.known
            .names
            .get(self.numbers[tool] as usize)
            .map(String::as_str)
    }

    /// Returns the number of a tool's source among [`all`](Self::all).
    pub(crate) fn number(&self, tool: usize) -> Option<usize> {
        Some(self.numbers[tool])
            .filter(|number| *number != NONE)
            .map(|number| number as usize)
    }

    /// Returns all of them, in the order of the tools.
    pub(crate) fn all(&self) -> &[String] {
        &self.known.names
    }

    /// Returns how many there are; having none counts as one.
    pub(crate) fn count(&self) -> usize {
        self.known.by_name.len() + usize::from(self.numbers.contains(&NONE))
    }

    /// Returns which there are.
    pub(crate) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// As [`Known::restricted`].
    pub(crate) fn restricted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        self.known.restricted(names)
    }

    /// As [`Known::permitted`].
    pub(crate) fn permitted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        self.known.permitted(names)
    }

    /// Returns what a source of the catalog shares with those that look like it.
    pub fn look_of(&self, source: Option<&str>) -> Option<&str> {
        self.known
            .by_name
            .get(source?)
            .map(|source| source.look.as_str())
    }

    /// Returns `true` if a name restricts no source.
    pub(crate) fn restricts_none(&self, name: &str) -> bool {
        !self.known.by_look.contains_key(&look(name))
    }

    /// Returns `true` if a name permits no source.
    pub(crate) fn permits_none(&self, name: &str) -> bool {
        self.known.named(name).is_none()
    }

    /// Returns the sources, in any order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.by_name.keys().map(String::as_str)
    }
}

impl Known {
    /// Takes the sources in order, each once.
    pub fn new(names: Vec<String>) -> Self {
        let distinct: BTreeMap<&String, u32> = names.iter().zip(0..).collect();
        let mut known = Self::default();
        for (name, number) in distinct {
            let look = look(name);
            known
                .by_look
                .entry(look.clone())
                .or_default()
                .push(name.clone());
            known
                .by_plain
                .entry(plain(name))
                .or_default()
                .push(name.clone());
            known.by_name.insert(name.clone(), Source { number, look });
        }
        Self { names, ..known }
    }

    /// Returns them in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the sources that `names` restrict: all that look like one of them.
    pub(crate) fn restricted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        let meant = names
            .iter()
            .filter_map(|name| self.by_look.get(&look(name)));
        meant.flatten().map(String::as_str).collect()
    }

    /// Returns the sources that `names` permit: each the one that is written so, and no look-alike.
    pub(crate) fn permitted(&self, names: &BTreeSet<String>) -> HashSet<&str> {
        names.iter().filter_map(|name| self.named(name)).collect()
    }

    fn named(&self, name: &str) -> Option<&str> {
        if let Some((source, _)) = self.by_name.get_key_value(name) {
            return Some(source);
        }
        match &self.by_plain.get(&plain(name))?[..] {
            [source] => Some(source),
            _ => None,
        }
    }
}

/// A source's name without case, spaces and characters that do not show.
fn plain(source: &str) -> String {
    source
        .chars()
        .filter(|&c| shows(c))
        .flat_map(char::to_lowercase)
        .collect()
}

/// What a source's name looks like.
fn look(source: &str) -> String {
    skeleton(&plain(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_restricts_reaches_look_alikes_and_what_permits_does_not() {
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
        assert_eq!(
            sources.look_of(Some("chat ")),
            sources.look_of(Some("\u{441}hat"))
        );
        assert_ne!(sources.look_of(Some("chat")), sources.look_of(Some("mail")));
    }
}
