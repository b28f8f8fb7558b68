//! Names: which tool a word means, and which tools a request names outright.
//!
//! Built once for a catalog; each look-up is one hash probe. Canonical names, qualified names (`source/name`) and
//! ids mean their tool; an alias means the tool that has it. Names win over aliases, which the catalog's reader
//! guarantees by refusing an alias that is another tool's name.

use std::collections::HashMap;

use crate::catalog::Catalog;
use crate::ranking::ToolId;

/// How far off a word may be to count as a misspelt name, as Jaro–Winkler similarity (0..1).
const SUGGESTION_SIMILARITY: f64 = 0.8;

/// From names to tools.
#[derive(Debug)]
pub(crate) struct NameTable {
    /// Several tools under one name come from different sources, in registration order.
    tools: HashMap<String, Vec<ToolId>>,
}

/// What a name means.
pub(crate) enum Resolution {
    Tool(ToolId),
    Ambiguous(Vec<ToolId>),
    Unknown { suggestion: Option<String> },
}

/// A tool that a request names outright, and the name it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) name: String,
    pub(crate) tool: ToolId,
}

impl NameTable {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut tools: HashMap<String, Vec<ToolId>> = HashMap::with_capacity(catalog.len() * 2);
        let mut add = |name: String, id: ToolId| {
            let owners = tools.entry(name).or_default();
            if !owners.contains(&id) {
                owners.push(id);
            }
        };
        for (id, tool) in catalog.ids().zip(catalog.tools()) {
            add(tool.name.clone(), id);
            add(tool.qualified_name(), id);
            for alias in &tool.aliases {
                add(alias.name.clone(), id);
            }
        }
        // An id is unique, so it means its tool even where it is also another's name.
        for (id, tool) in catalog.ids().zip(catalog.tools()) {
            tools.insert(tool.id.clone(), vec![id]);
        }
        Self { tools }
    }

    /// Resolves an id, a qualified name, a name or an alias.
    pub(crate) fn resolve(&self, name: &str) -> Resolution {
        match self.tools.get(name).map(Vec::as_slice) {
            Some([tool]) => Resolution::Tool(*tool),
            Some(several) => Resolution::Ambiguous(several.to_vec()),
            None => Resolution::Unknown { suggestion: self.suggest(name) },
        }
    }

    fn suggest(&self, name: &str) -> Option<String> {
        self.tools
            .keys()
            .map(|known| (strsim::jaro_winkler(known, name), known))
            .filter(|(similarity, _)| *similarity >= SUGGESTION_SIMILARITY)
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
            .map(|(_, known)| known.clone())
    }

    /// Finds the tools that `text` names outright, each once, in order of appearance.
    ///
    /// A name counts when it is the whole text, when it stands in quotation marks or backticks, or when it
    /// stands free and is shaped like an identifier. A plain word that happens to be a name or an alias
    /// ("run", "search") does not: people mean the word.
    pub(crate) fn mentions(&self, text: &str) -> Vec<Mention> {
        let mut mentions: Vec<Mention> = Vec::new();
        let free = text.split_whitespace().flat_map(|word| self.identifiers(word));
        for name in std::iter::once(text.trim()).chain(quoted(text)).chain(free) {
            for &tool in self.tools.get(name).into_iter().flatten() {
                if mentions.iter().all(|mention| mention.tool != tool) {
                    mentions.push(Mention { name: name.to_owned(), tool });
                }
            }
        }
        mentions
    }

    /// The names that stand in `word` as identifiers: the word itself, or else what is left of it when it is cut at
    /// brackets and commas, then at letters of other scripts, then at dots and strokes.
    fn identifiers<'t>(&self, word: &'t str) -> Vec<&'t str> {
        const CUTS: [fn(char) -> bool; 4] = [
            |_| false,
            |c| !(c.is_alphanumeric() || "_-.:/".contains(c)),
            |c| !(c.is_ascii_alphanumeric() || "_-.:/".contains(c)),
            |c| !(c.is_ascii_alphanumeric() || "_-".contains(c)),
        ];
        let known = |part: &&str| is_identifier(part) && self.tools.contains_key(*part);
        CUTS.into_iter()
            .map(|is_cut| {
                let parts = word.split(is_cut);
                let parts = parts.flat_map(|part| [part, part.trim_matches(['.', ':', '/', '-'])]);
                parts.filter(known).collect::<Vec<_>>()
            })
            .find(|names| !names.is_empty())
            .unwrap_or_default()
    }
}

/// Tells whether `word` is written as only identifiers are: with `_`, an inner `-`, `.`, `:` or `/`, a digit, or a
/// capital after a small letter.
fn is_identifier(word: &str) -> bool {
    word.contains(['_', '-', '.', ':', '/'])
        || word.contains(|c: char| c.is_ascii_digit())
        || word.chars().zip(word.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase())
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
            // The closing mark may open the next text: `a"b"c` has one quoted text however it is read.
            rest = &rest[start + length + if open == close { 0 } else { close.len_utf8() }..];
            Some(inner)
        })
        .filter(|inner| !inner.is_empty() && !inner.contains('\n'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Alias, Tool};

    fn table() -> NameTable {
        let mut terminal = Tool::new("terminalRun", "Runs a command");
        terminal.aliases =
            ["bash", "run", "shell exec"].map(|name| Alias { name: name.into(), deprecated: false }).into();
        let mut here = Tool::new("get_forecast", "");
        here.source = Some("weather".into());
        here.id = here.qualified_name();
        let mut there = here.clone();
        there.source = Some("sky".into());
        there.id = there.qualified_name();
        let tools = [terminal, here, there, Tool::new("read_file", ""), Tool::new("search", "")];
        NameTable::new(&Catalog::from_tools(tools).expect("valid"))
    }

    fn named(text: &str) -> Vec<usize> {
        table().mentions(text).into_iter().map(|mention| mention.tool.index()).collect()
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
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn names_resolve_with_suggestions() {
        assert!(matches!(table().resolve("bash"), Resolution::Tool(tool) if tool.index() == 0));
        assert!(matches!(table().resolve("get_forecast"), Resolution::Ambiguous(tools) if tools.len() == 2));
        assert!(matches!(table().resolve("sky/get_forecast"), Resolution::Tool(tool) if tool.index() == 2));
        assert!(
            matches!(table().resolve("read_flie"), Resolution::Unknown { suggestion: Some(name) } if name == "read_file")
        );
        assert!(matches!(table().resolve("zzz"), Resolution::Unknown { suggestion: None }));
    }
}
