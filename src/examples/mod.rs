//! Requests that a tool is for: what it served before, or was written to say what it would serve.
//!
//! A tool's text says what it does, and a request says what somebody wants. The two often share no
//! word, but two requests for one tool often do. So a tool may have examples: in its definition
//! (`examples`), from a file, or learned while the engine runs
//! ([`Engine::learn`](crate::Engine::learn)). Each is a document of its own, by words and by
//! meaning. No model that picks are for sees them.
//!
//! What counts of a tool is bounded: its first [`MAX_PER_TOOL`] different examples, its
//! definition's before those of files, those that were asked before those that a model wrote. So
//! whoever asks for one tool a thousand times moves no more than that, and displaces nothing that
//! was there. Two are the same where they differ in names, numbers and punctuation alone.
//!
//! [`Examples`] reads and writes files; [`mask()`] hides what says who asked.

mod mask;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::mask::{Vocabulary, mask};
use crate::catalog::{Catalog, Tool, ToolId};
use crate::excerpt::one_line;
use crate::function_words::says_something;
use crate::json;
use crate::names::NameTable;
use crate::text::words;

/// The most examples of one tool that count.
pub const MAX_PER_TOOL: usize = 50;
/// The most characters of an example that are read.
pub const MAX_EXAMPLE_CHARS: usize = 300;
/// The most lines of a file.
const MAX_LINES: usize = 1_000_000;

/// An error from reading examples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExamplesError {
    /// The file cannot be read.
    #[error("cannot read the examples {}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A line is not an example.
    #[error("{origin}: line {line}: {message}; give {{\"tool\": NAME, \"request\": TEXT}}")]
    Line {
        /// Where the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// There are too many.
    #[error("{origin}: more than {most} examples; a tool counts {MAX_PER_TOOL} of them at most")]
    TooMany {
        /// Where the text comes from.
        origin: String,
        /// The most.
        most: usize,
    },
}

/// One request that a tool is for: a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The tool, by id, name or alias.
    pub tool: String,
    /// The request.
    pub request: String,
    /// Whether a language model wrote it; nobody has asked so yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// What a synthetic one was written from: the definition and the model, as a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Example {
    /// Makes an example that was asked.
    pub fn new(tool: impl Into<String>, request: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            request: request.into(),
            synthetic: false,
            digest: None,
        }
    }
}

/// Examples of tools, by the tools' names.
///
/// ```
/// use picktools::examples::Examples;
///
/// let file = br#"{"tool": "get_forecast", "request": "do I need an umbrella tomorrow?"}"#;
/// let mut examples = Examples::from_slice(file, "examples.jsonl")?;
/// assert!(examples.learn("get_forecast", "Do I need a coat in Oslo?", &Default::default()));
/// assert!(!examples.learn("get_forecast", "do I need a coat in Rome", &Default::default()), "it is the same but for the name");
/// assert_eq!(examples.len(), 2);
/// # Ok::<(), picktools::examples::ExamplesError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Examples {
    list: Vec<Example>,
    /// What is known of each tool, by its name.
    by_tool: HashMap<String, Counted>,
}

/// What of the examples a catalog knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExampleStats {
    /// Examples that count.
    pub examples: usize,
    /// Tools that have some.
    pub tools: usize,
    /// Names that no tool of the catalog has, or several, each once in the order of the examples.
    pub unknown: Vec<String>,
    /// Examples that say the same as an earlier one of the tool, or nothing.
    pub repeated: usize,
    /// Examples beyond the most that a tool may have.
    pub over: usize,
}

/// The examples of one tool, as far as they are counted.
#[derive(Debug, Clone, Default)]
struct Counted(HashSet<String>);

/// What becomes of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Counts,
    /// It says the same as one that counts, or nothing.
    Repeated,
    /// The tool has its share.
    Over,
}

impl Counted {
    fn count(&mut self, request: &str) -> Fate {
        let key = key(request);
        if key.is_empty() || self.0.contains(&key) {
            Fate::Repeated
        } else if self.0.len() >= MAX_PER_TOOL {
            Fate::Over
        } else {
            self.0.insert(key);
            Fate::Counts
        }
    }
}

/// What two examples that say the same have in common: the words, in small letters, without what is
/// masked.
fn key(request: &str) -> String {
    if !says_something(request) {
        return String::new();
    }
    let masked = mask(request, &Vocabulary::default());
    let words = words(&masked).map(|(start, end)| masked[start..end].to_lowercase());
    let key = words.collect::<Vec<_>>().join(" ");
    // A request of names alone is known by these.
    if key.is_empty() {
        request.trim().to_lowercase()
    } else {
        key
    }
}

/// An example as it is read: one line, and not too long.
fn read(request: &str) -> String {
    one_line(request, MAX_EXAMPLE_CHARS)
}

impl Examples {
    /// Reads a file; see [`Examples::from_slice`].
    ///
    /// # Errors
    ///
    /// [`ExamplesError`] when the file cannot be read, and as [`Examples::from_slice`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ExamplesError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| ExamplesError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_slice(&bytes, &path.display().to_string())
    }

    /// Reads JSON Lines, each an [`Example`]; blank lines are let be. `origin` is what errors call
    /// it. What stands there is taken as it is: whoever edits a file decides what is in it.
    ///
    /// # Errors
    ///
    /// [`ExamplesError`] for a line that is no example, and for more than a million.
    pub fn from_slice(bytes: &[u8], origin: &str) -> Result<Self, ExamplesError> {
        let mut examples = Self::default();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for (place, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let fault = |message| ExamplesError::Line {
                origin: origin.to_owned(),
                line: place + 1,
                message,
            };
            let example: Example =
                serde_json::from_slice(line).map_err(|error| fault(json::message(&error)))?;
            for (what, text) in [("tool", &example.tool), ("request", &example.request)] {
                if text.trim().is_empty() {
                    return Err(fault(format!("`{what}` is empty")));
                }
            }
            if examples.list.len() >= MAX_LINES {
                return Err(ExamplesError::TooMany {
                    origin: origin.to_owned(),
                    most: MAX_LINES,
                });
            }
            examples.push(example);
        }
        Ok(examples)
    }

    /// Adds an example as it is.
    pub fn push(&mut self, example: Example) {
        // What a model wrote keeps out nothing that somebody asks.
        if !example.synthetic {
            self.by_tool
                .entry(example.tool.clone())
                .or_default()
                .count(&example.request);
        }
        self.list.push(example);
    }

    /// Adds a request that a tool served, [masked](mask()), unless it says the same as an earlier
    /// one of the tool, or nothing, or the tool has [`MAX_PER_TOOL`]; returns `true` if it was
    /// added.
    pub fn learn(&mut self, tool: &str, request: &str, vocabulary: &Vocabulary) -> bool {
        let masked = read(&mask(request, vocabulary));
        // What is masked says nothing by itself.
        if !says_something(&masked)
            || self
                .by_tool
                .entry(tool.to_owned())
                .or_default()
                .count(&masked)
                != Fate::Counts
        {
            return false;
        }
        self.list.push(Example::new(tool, masked));
        true
    }

    /// Returns the examples, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Example> {
        self.list.iter()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the file: JSON Lines, one example each.
    ///
    /// # Panics
    ///
    /// Never: text and flags can be written as JSON.
    pub fn to_json_lines(&self) -> String {
        let line = |example| serde_json::to_string(example).expect("an example serialises") + "\n";
        self.list.iter().map(line).collect()
    }
}

impl IntoIterator for Examples {
    type Item = Example;
    type IntoIter = std::vec::IntoIter<Example>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl Extend<Example> for Examples {
    fn extend<T: IntoIterator<Item = Example>>(&mut self, examples: T) {
        examples.into_iter().for_each(|example| self.push(example));
    }
}

/// Where an example comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExampleOrigin {
    /// The tool's definition.
    Definition,
    /// A request that was asked.
    Served,
    /// A language model wrote it.
    Synthetic,
}

/// An example that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counting {
    pub(crate) tool: ToolId,
    pub(crate) request: String,
    pub(crate) origin: ExampleOrigin,
}

impl Counting {
    /// Whether it stands in the tool's definition.
    pub(crate) fn is_of_definition(&self) -> bool {
        self.origin == ExampleOrigin::Definition
    }
}

/// The examples of a tool's definition.
fn defined(tool: ToolId, definition: &Tool) -> impl Iterator<Item = Counting> {
    let request = move |request: &String| Counting {
        tool,
        request: read(request),
        origin: ExampleOrigin::Definition,
    };
    definition.examples.iter().map(request)
}

/// The examples of a tool's definition that count, whatever others there are: those come after
/// them.
pub(crate) fn counting_of(definition: &Tool) -> Vec<String> {
    let mut counted = Counted::default();
    let requests = defined(ToolId(0), definition).map(|example| example.request);
    requests
        .filter(|request| counted.count(request) == Fate::Counts)
        .collect()
}

/// The examples that count of a catalog's own and of `more`, in the order of the tools; with what
/// became of the others.
pub(crate) fn counting(
    catalog: &Catalog,
    names: &NameTable,
    more: &Examples,
) -> (Vec<Counting>, ExampleStats) {
    let mut stats = ExampleStats::default();
    let mut of_tools: Vec<Vec<Counting>> = vec![Vec::new(); catalog.len()];
    for &tool in catalog.exemplified() {
        of_tools[tool.index()].extend(defined(tool, catalog.outline(tool)));
    }
    let mut unknown = HashSet::new();
    for example in more.iter() {
        let mut meant = names.meant(&example.tool);
        match (meant.next(), meant.next()) {
            (Some(tool), None) => of_tools[tool.index()].push(Counting {
                tool,
                request: read(&example.request),
                origin: if example.synthetic {
                    ExampleOrigin::Synthetic
                } else {
                    ExampleOrigin::Served
                },
            }),
            _ if unknown.insert(&example.tool) => stats.unknown.push(example.tool.clone()),
            _ => {}
        }
    }
    let mut counting = Vec::new();
    for mut examples in of_tools {
        // Stable: what nobody has asked yet comes after what somebody has.
        examples.sort_by_key(|example| example.origin);
        let mut counted = Counted::default();
        for example in examples {
            match counted.count(&example.request) {
                Fate::Counts => counting.push(example),
                Fate::Repeated => stats.repeated += 1,
                Fate::Over => stats.over += 1,
            }
        }
        stats.tools += usize::from(!counted.0.is_empty());
    }
    stats.examples = counting.len();
    (counting, stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let mut mail = Tool::without_arguments("mail", "Sends");
        mail.examples = vec!["tell Bob that I am late".to_owned()];
        Catalog::from_tools([mail, Tool::without_arguments("plot", "Draws")]).expect("valid")
    }

    fn counted(catalog: &Catalog, more: &str) -> (Vec<(usize, String)>, ExampleStats) {
        let more = Examples::from_slice(more.as_bytes(), "e.jsonl").expect("well formed");
        let (counting, stats) = counting(catalog, &NameTable::new(catalog), &more);
        (
            counting
                .into_iter()
                .map(|example| (example.tool.index(), example.request))
                .collect(),
            stats,
        )
    }

    #[test]
    fn what_counts_is_different_bounded_and_of_a_known_tool() {
        let mut lines =
            String::from("{\"tool\": \"mail\", \"request\": \"Tell Ann that I am late!\"}\n\n");
        lines += "{\"tool\": \"plot\", \"request\": \"made up\", \"synthetic\": true, \"digest\": \"x\"}\r\n";
        lines += "{\"tool\": \"fax\", \"request\": \"fax it\"}\n{\"tool\": \"fax\", \"request\": \"fax that\"}\n";
        lines += "{\"tool\": \"plot\", \"request\": \"the\"}\n";
        let words = ('a'..='z')
            .flat_map(|first| ('a'..='z').map(move |second| format!("z{first}{second}")));
        for word in words.take(MAX_PER_TOOL + 7) {
            lines += &format!("{{\"tool\": \"plot\", \"request\": \"draw {word}\"}}\n");
        }
        let (counting, stats) = counted(&catalog(), &lines);
        assert_eq!(counting[0], (0, "tell Bob that I am late".to_owned()));
        assert_eq!(
            (stats.examples, stats.tools, stats.unknown),
            (1 + MAX_PER_TOOL, 2, vec!["fax".to_owned()])
        );
        assert_eq!(
            (stats.repeated, stats.over),
            (2, 8),
            "what a model wrote gives way to what was asked"
        );
        assert!(counting.iter().all(|(_, request)| request != "made up"));
    }

    #[test]
    fn an_example_is_one_line_of_bounded_length() {
        let mut tool = Tool::without_arguments("mail", "");
        tool.examples = vec![format!("send\n{}", "long ".repeat(1_000))];
        let (counting, _) = counted(&Catalog::from_tools([tool]).expect("valid"), "");
        assert!(counting[0].1.starts_with("send long"));
        assert!(
            counting[0].1.chars().count() <= MAX_EXAMPLE_CHARS + 1,
            "and a mark that more was there"
        );
    }

    #[test]
    fn what_is_learned_is_masked_and_bounded() {
        let mut examples = Examples::default();
        for number in 0..1_000 {
            examples.learn(
                "mail",
                &format!("send mail number {number} to Bob"),
                &Vocabulary::default(),
            );
        }
        let written = "{\"tool\":\"mail\",\"request\":\"send mail number … to …\"}\n";
        assert_eq!(examples.to_json_lines(), written);
        assert!(
            !examples.learn("mail", "and then", &Vocabulary::default()),
            "it says nothing"
        );
        assert!(
            !examples.learn("mail", "\"Bob\" 12", &Vocabulary::default()),
            "it says nothing that may be kept"
        );
        let again = Examples::from_slice(written.as_bytes(), "e.jsonl").expect("well formed");
        assert_eq!(
            again.iter().collect::<Vec<_>>(),
            examples.iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn lines_that_are_no_example_are_refused_by_place() {
        let refused = |text: &[u8]| {
            Examples::from_slice(text, "e.jsonl")
                .expect_err("refused")
                .to_string()
        };
        let good = b"{\"tool\": \"a\", \"request\": \"b\"}\n";
        for bad in [
            "[1]",
            "{}",
            "{\"tool\": \"a\"}",
            "{\"tool\": \"a\", \"request\": \" \"}",
            "{\"tool\": \"a\", \"request\": \"b\", \"synthetik\": true}",
        ] {
            let error = refused(&[good, bad.as_bytes()].concat());
            assert!(
                error.starts_with("e.jsonl: line 2: ") && error.contains("give {\"tool\""),
                "{error}"
            );
        }
        assert!(refused(b"\xff").contains("line 1"));
        assert!(
            Examples::from_slice(b"\xef\xbb\xbf\n \n", "e.jsonl")
                .expect("empty")
                .is_empty()
        );
    }
}
