//! Example requests of tools: requests that a tool served before, or that were written for it.
//!
//! The text of a tool describes its function, and a request describes a goal. The two often share
//! no word, but two requests for one tool often do. So a tool may have examples: in its definition
//! (`examples`), from a file, or learned while the engine runs
//! ([`Engine::learn`](crate::Engine::learn)). Each example is a document of its own in the keyword
//! and the semantic ranking. Models that receive picks never see examples.
//!
//! The number of examples that count for a tool is bounded: its first [`MAX_PER_TOOL`] different
//! examples. Examples in the definition come before those of files, and requests of users before
//! those that a model wrote. So a caller who repeats a request a thousand times adds no more than
//! that, and displaces no earlier example. Two examples are equal if they differ only in names,
//! numbers and punctuation.
//!
//! [`Examples`] reads and writes files; [`mask()`] hides private values. `Examples::popular` has
//! requests for the tools of popular MCP servers.

mod mask;
mod pack;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
#[cfg(feature = "popular-examples")]
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use self::mask::{Vocabulary, mask};
use self::pack::ExamplePack;
use crate::catalog::{Catalog, Tool, ToolId};
use crate::excerpt::one_line;
use crate::function_words::has_content_word;
use crate::json;
use crate::names::NameTable;
use crate::saved::SavedError;
use crate::text::words;

/// The most examples that count for one tool.
pub const MAX_PER_TOOL: usize = 50;
/// The length of the part of an example that is read, in characters.
pub const MAX_EXAMPLE_CHARS: usize = 300;
/// The most examples that a file may have.
const MAX_LINES: usize = 1_000_000;
/// The name of the built-in pack, in place of a file.
#[cfg(feature = "popular-examples")]
const POPULAR: &str = "popular";
/// The similarity of names (Jaro–Winkler) from which a missing file may be a misspelt pack.
#[cfg(feature = "popular-examples")]
const MISSPELT: f64 = 0.85;

/// The pack of the popular MCP servers.
#[cfg(feature = "popular-examples")]
static POPULAR_PACK: LazyLock<Arc<ExamplePack>> = LazyLock::new(|| {
    let pack = ExamplePack::parse(picktools_models::POPULAR_EXAMPLES.into());
    Arc::new(pack.expect("a test reads the built-in pack"))
});

/// An error from reading examples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExamplesError {
    /// The file cannot be read.
    #[error(
        "cannot read the examples {}{}",
        path.display(),
        suggestion.map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
    )]
    Read {
        /// The path.
        path: PathBuf,
        /// The name of the built-in examples, if the path is similar to it.
        suggestion: Option<&'static str>,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not an example.
    #[error("{origin}: line {line}: {message}; give {{\"tool\": NAME, \"request\": TEXT}}")]
    Line {
        /// The origin of the text.
        origin: String,
        /// The line number, from 1.
        line: usize,
        /// The fault of the line.
        message: String,
    },
    /// A line of a pack is malformed.
    #[error("{origin}: line {line}: {message}; make the pack again with pack.py")]
    PackLine {
        /// The origin of the text.
        origin: String,
        /// The line number, from 1.
        line: usize,
        /// The fault of the line.
        message: String,
    },
    /// The text has more examples than the limit.
    #[error("{origin}: more than {most} examples; a tool counts {MAX_PER_TOOL} of them at most")]
    TooMany {
        /// The origin of the text.
        origin: String,
        /// The limit.
        most: usize,
    },
}

/// An example request of a tool: a line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The tool, by id, name or alias.
    pub tool: String,
    /// The request.
    pub request: String,
    /// `true` if a language model wrote the request, and no user has made it yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthetic: bool,
    /// The digest of the definition and the model from which a synthetic example was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Example {
    /// Makes an example from a request of a user.
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
/// let is_new = examples.learn("get_forecast", "do I need a coat in Rome", &Default::default());
/// assert!(!is_new, "only the name differs");
/// assert_eq!(examples.len(), 2);
/// # Ok::<(), picktools::examples::ExamplesError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Examples {
    list: Vec<Example>,
    /// Examples of tools that are known by the fingerprints of their definitions.
    packs: Vec<Arc<ExamplePack>>,
    /// The keys of each tool's examples, by the tool's name.
    by_tool: HashMap<String, ExampleKeys>,
}

/// Statistics about the examples of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExampleStats {
    /// The number of examples that count.
    pub examples: usize,
    /// The number of tools with examples.
    pub tools: usize,
    /// The distinct names that match no tool of the catalog, or several, in the order of the
    /// examples.
    pub unknown: Vec<String>,
    /// The number of examples that repeat an earlier example of the tool, or have no content.
    pub repeated: usize,
    /// The number of examples beyond the limit of a tool.
    pub over: usize,
    /// The number of tools with examples of a pack. `None` without a pack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack_tools: Option<usize>,
}

/// The keys of the examples that count for one tool.
#[derive(Debug, Clone, Default)]
struct ExampleKeys(HashSet<String>);

/// The treatment of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExampleStatus {
    Accepted,
    /// The example repeats one that counts, or has no content.
    Repeated,
    /// The tool has the largest number of examples.
    OverLimit,
}

impl ExampleKeys {
    fn add(&mut self, request: &str) -> ExampleStatus {
        let key = comparison_key(request);
        if key.is_empty() || self.0.contains(&key) {
            ExampleStatus::Repeated
        } else if self.0.len() >= MAX_PER_TOOL {
            ExampleStatus::OverLimit
        } else {
            self.0.insert(key);
            ExampleStatus::Accepted
        }
    }
}

/// Returns the key that equal examples share: the words in lower case, without masked values.
fn comparison_key(request: &str) -> String {
    if !has_content_word(request) {
        return String::new();
    }
    let masked = mask(request, &Vocabulary::default());
    let words = words(&masked).map(|(start, end)| masked[start..end].to_lowercase());
    let key = words.collect::<Vec<_>>().join(" ");
    // A request of names alone is compared by these.
    if key.is_empty() {
        request.trim().to_lowercase()
    } else {
        key
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, ExamplesError> {
    fs::read(path).map_err(|source| ExamplesError::Read {
        path: path.to_owned(),
        suggestion: suggestion(path),
        source,
    })
}

/// Returns the name of the built-in examples if a path is similar to it.
#[cfg(feature = "popular-examples")]
fn suggestion(path: &Path) -> Option<&'static str> {
    let name = path.to_str()?.to_lowercase();
    (strsim::jaro_winkler(&name, POPULAR) >= MISSPELT).then_some(POPULAR)
}

#[cfg(not(feature = "popular-examples"))]
fn suggestion(_path: &Path) -> Option<&'static str> {
    None
}

/// Returns the part of an example that is read: one line of bounded length.
fn shorten(request: &str) -> String {
    one_line(request, MAX_EXAMPLE_CHARS)
}

impl Examples {
    /// Reads a file; see [`Examples::from_slice`].
    ///
    /// # Errors
    ///
    /// [`ExamplesError`] if the file cannot be read, and as [`Examples::from_slice`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ExamplesError> {
        let path = path.as_ref();
        Self::from_slice(&read_file(path)?, &path.display().to_string())
    }

    /// Returns the examples that an option names: `popular` names the built-in examples
    /// (`Examples::popular`, with the feature `popular-examples`). Every other value is a file of
    /// examples, as for [`Examples::open`], or a pack.
    ///
    /// # Errors
    ///
    /// As [`Examples::open`], and [`ExamplesError::PackLine`] for a malformed pack.
    pub fn load(source: impl AsRef<Path>) -> Result<Self, ExamplesError> {
        let path = source.as_ref();
        #[cfg(feature = "popular-examples")]
        if path == Path::new(POPULAR) {
            return Ok(Self::popular());
        }
        let bytes = read_file(path)?;
        let origin = path.display().to_string();
        if !ExamplePack::is_pack(&bytes) {
            return Self::from_slice(&bytes, &origin);
        }
        let text = String::from_utf8(bytes).map_err(|_| (1, "it is not UTF-8".to_owned()));
        let pack = text.and_then(|text| ExamplePack::parse(text.into()));
        let pack = pack.map_err(|(line, message)| ExamplesError::PackLine {
            origin,
            line,
            message,
        })?;
        Ok(Self::from_pack(Arc::new(pack)))
    }

    /// Returns requests that were written for the tools of popular MCP servers.
    ///
    /// A tool gets its requests if its name, title, description and the names of its parameters
    /// are those of the server's version in `models/train/real/servers.tsv`, and its source is
    /// trusted. [`ExampleStats::pack_tools`] is the number of such tools.
    #[cfg(feature = "popular-examples")]
    pub fn popular() -> Self {
        Self::from_pack(Arc::clone(&POPULAR_PACK))
    }

    fn from_pack(pack: Arc<ExamplePack>) -> Self {
        Self {
            packs: vec![pack],
            ..Self::default()
        }
    }

    /// Adds all examples of `other`, also those of packs.
    pub fn append(&mut self, other: Self) {
        self.packs.extend(other.packs);
        for example in other.list {
            self.push(example);
        }
    }

    /// Reads JSON Lines with one [`Example`] a line; blank lines are skipped. `origin` names the
    /// text in errors. The requests are not masked: the author of a file decides about its content.
    ///
    /// # Errors
    ///
    /// [`ExamplesError`] for a line that is not an example, and for more than a million examples.
    pub fn from_slice(bytes: &[u8], origin: &str) -> Result<Self, ExamplesError> {
        let mut examples = Self::default();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            let fault = |message| ExamplesError::Line {
                origin: origin.to_owned(),
                line: index + 1,
                message,
            };
            let example: Example =
                serde_json::from_slice(line).map_err(|error| fault(json::message(&error)))?;
            for (field, text) in [("tool", &example.tool), ("request", &example.request)] {
                if text.trim().is_empty() {
                    return Err(fault(format!("`{field}` is empty")));
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

    /// Adds an example without masking it.
    pub fn push(&mut self, example: Example) {
        // A synthetic example must not block a request of a user.
        if !example.synthetic {
            self.by_tool
                .entry(example.tool.clone())
                .or_default()
                .add(&example.request);
        }
        self.list.push(example);
    }

    /// Adds a request that a tool served, [masked](mask()). It is not added if it repeats an
    /// earlier example of the tool, has no content, or the tool has [`MAX_PER_TOOL`] examples.
    /// Returns `true` if it was added.
    pub fn learn(&mut self, tool: &str, request: &str, vocabulary: &Vocabulary) -> bool {
        let masked = shorten(&mask(request, vocabulary));
        // Masked values are no content.
        if !has_content_word(&masked) {
            return false;
        }
        let keys = self.by_tool.entry(tool.to_owned()).or_default();
        if keys.add(&masked) != ExampleStatus::Accepted {
            return false;
        }
        self.list.push(Example::new(tool, masked));
        true
    }

    /// Returns the examples, in order, without those of packs.
    pub fn iter(&self) -> impl Iterator<Item = &Example> {
        self.list.iter()
    }

    /// Returns the number of examples, without those of packs.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns `true` if there are no examples and no packs.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.packs.is_empty()
    }

    /// Returns the examples as JSON Lines, one example a line, without those of packs.
    ///
    /// # Panics
    ///
    /// Never: text and flags are valid JSON.
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

/// The origin of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExampleOrigin {
    /// The tool's definition.
    Definition,
    /// A request of a user.
    Served,
    /// A request that was written for the tool, by a language model or for a pack. No user has sent
    /// it yet.
    Synthetic,
}

/// An example that counts for its tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveExample {
    pub(crate) tool: ToolId,
    pub(crate) request: String,
    pub(crate) origin: ExampleOrigin,
}

impl ActiveExample {
    /// Returns `true` if the example is in the tool's definition.
    pub(crate) fn is_from_definition(&self) -> bool {
        self.origin == ExampleOrigin::Definition
    }
}

/// Returns the examples in a tool's definition.
fn examples_in_definition(tool: ToolId, definition: &Tool) -> impl Iterator<Item = ActiveExample> {
    let example = move |request: &String| ActiveExample {
        tool,
        request: shorten(request),
        origin: ExampleOrigin::Definition,
    };
    definition.examples.iter().map(example)
}

/// Returns the examples in a tool's definition that count. They do not depend on other examples,
/// which come after them.
pub(crate) fn active_definition_examples(definition: &Tool) -> Vec<String> {
    let mut keys = ExampleKeys::default();
    let requests = examples_in_definition(ToolId(0), definition).map(|example| example.request);
    requests
        .filter(|request| keys.add(request) == ExampleStatus::Accepted)
        .collect()
}

/// Returns the examples that count, from a catalog's definitions and from `more`, in the order of
/// the tools. The statistics include the other examples.
pub(crate) fn active_examples(
    catalog: &Catalog,
    names: &NameTable,
    more: &Examples,
) -> Result<(Vec<ActiveExample>, ExampleStats), SavedError> {
    let mut stats = ExampleStats::default();
    let mut by_tool: Vec<Vec<ActiveExample>> = vec![Vec::new(); catalog.len()];
    for &tool in catalog.exemplified() {
        by_tool[tool.index()].extend(examples_in_definition(tool, catalog.outline(tool)?));
    }
    let mut unknown = HashSet::new();
    for example in more.iter() {
        match names.possible_tools(&example.tool, catalog)?[..] {
            [tool] => by_tool[tool.index()].push(ActiveExample {
                tool,
                request: shorten(&example.request),
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
    if !more.packs.is_empty() {
        stats.pack_tools = Some(add_pack_examples(catalog, &more.packs, &mut by_tool)?);
    }
    let mut active = Vec::new();
    for mut examples in by_tool {
        // The sort is stable: synthetic examples come after requests of users.
        examples.sort_by_key(|example| example.origin);
        let mut keys = ExampleKeys::default();
        for example in examples {
            match keys.add(&example.request) {
                ExampleStatus::Accepted => active.push(example),
                ExampleStatus::Repeated => stats.repeated += 1,
                ExampleStatus::OverLimit => stats.over += 1,
            }
        }
        stats.tools += usize::from(!keys.0.is_empty());
    }
    stats.examples = active.len();
    Ok((active, stats))
}

/// Adds the examples of packs, and returns the number of tools with such examples.
fn add_pack_examples(
    catalog: &Catalog,
    packs: &[Arc<ExamplePack>],
    by_tool: &mut [Vec<ActiveExample>],
) -> Result<usize, SavedError> {
    let mut covered = HashSet::new();
    for pack in packs {
        for (tool, requests) in pack.requests(catalog)? {
            covered.insert(tool);
            let examples = requests.into_iter().map(|request| ActiveExample {
                tool,
                request: shorten(request),
                origin: ExampleOrigin::Synthetic,
            });
            by_tool[tool.index()].extend(examples);
        }
    }
    Ok(covered.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let mut mail = Tool::without_arguments("mail", "Sends");
        mail.examples = vec!["tell Bob that I am late".to_owned()];
        Catalog::from_tools([mail, Tool::without_arguments("plot", "Draws")]).expect("valid")
    }

    fn active(catalog: &Catalog, more: &str) -> (Vec<(usize, String)>, ExampleStats) {
        let more = Examples::from_slice(more.as_bytes(), "e.jsonl").expect("well formed");
        let names = NameTable::new(catalog).expect("in memory");
        let (active, stats) = active_examples(catalog, &names, &more).expect("in memory");
        (
            active
                .into_iter()
                .map(|example| (example.tool.index(), example.request))
                .collect(),
            stats,
        )
    }

    #[test]
    fn active_examples_are_distinct_bounded_and_of_known_tools() {
        let mut lines =
            String::from("{\"tool\": \"mail\", \"request\": \"Tell Ann that I am late!\"}\n\n");
        lines += "{\"tool\": \"plot\", \"request\": \"made up\", \"synthetic\": true, ";
        lines += "\"digest\": \"x\"}\r\n";
        lines += "{\"tool\": \"fax\", \"request\": \"fax it\"}\n";
        lines += "{\"tool\": \"fax\", \"request\": \"fax that\"}\n";
        lines += "{\"tool\": \"plot\", \"request\": \"the\"}\n";
        let words = ('a'..='z')
            .flat_map(|first| ('a'..='z').map(move |second| format!("z{first}{second}")));
        for word in words.take(MAX_PER_TOOL + 7) {
            lines += &format!("{{\"tool\": \"plot\", \"request\": \"draw {word}\"}}\n");
        }
        let (active, stats) = active(&catalog(), &lines);
        assert_eq!(active[0], (0, "tell Bob that I am late".to_owned()));
        assert_eq!(
            (stats.examples, stats.tools, stats.unknown),
            (1 + MAX_PER_TOOL, 2, vec!["fax".to_owned()])
        );
        assert_eq!(
            (stats.repeated, stats.over),
            (2, 8),
            "synthetic examples come after requests of users"
        );
        assert!(active.iter().all(|(_, request)| request != "made up"));
    }

    #[test]
    fn examples_are_one_line_of_bounded_length() {
        let mut tool = Tool::without_arguments("mail", "");
        tool.examples = vec![format!("send\n{}", "long ".repeat(1_000))];
        let (active, _) = active(&Catalog::from_tools([tool]).expect("valid"), "");
        assert!(active[0].1.starts_with("send long"));
        assert!(
            active[0].1.chars().count() <= MAX_EXAMPLE_CHARS + 1,
            "an ellipsis marks the cut"
        );
    }

    #[test]
    fn learned_examples_are_masked_and_bounded() {
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
            "it has no content"
        );
        assert!(
            !examples.learn("mail", "\"Bob\" 12", &Vocabulary::default()),
            "it has only private values"
        );
        let reread = Examples::from_slice(written.as_bytes(), "e.jsonl").expect("well formed");
        assert_eq!(
            reread.iter().collect::<Vec<_>>(),
            examples.iter().collect::<Vec<_>>()
        );
    }

    #[cfg(feature = "popular-examples")]
    #[test]
    fn built_in_pack_is_read_and_matches_no_other_tool() {
        let examples = Examples::load("popular").expect("it is built in");
        assert!(!examples.is_empty());
        assert_eq!(examples.len(), 0, "a pack has no lines with names");
        let catalog = catalog();
        let names = NameTable::new(&catalog).expect("in memory");
        let (_, stats) = active_examples(&catalog, &names, &examples).expect("in memory");
        assert_eq!(stats.pack_tools, Some(0));
    }

    #[test]
    fn examples_of_a_pack_come_after_requests_of_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pack.tsv");
        fs::write(&path, include_str!("../../fixtures/examples/pack.tsv")).expect("written");
        let tools = include_str!("../../fixtures/examples/tools.jsonl");
        let catalog = crate::CatalogOptions::default().read(tools.as_bytes(), "tools.jsonl");
        let catalog = catalog.expect("valid");
        let names = NameTable::new(&catalog).expect("in memory");
        let mut examples = Examples::load(&path).expect("a pack");
        let mut more = Examples::default();
        more.push(Example::new(
            "bakery/order_bread",
            "the usual rye, from Ann",
        ));
        more.push(Example::new("list_orders", "Did my baguettes go through?"));
        examples.append(more);
        let (active, stats) = active_examples(&catalog, &names, &examples).expect("in memory");
        let of_bread: Vec<(&str, ExampleOrigin)> = active
            .iter()
            .filter(|example| example.tool == ToolId(0))
            .map(|example| (&*example.request, example.origin))
            .collect();
        assert_eq!(of_bread[0].1, ExampleOrigin::Served);
        assert_eq!(of_bread.len(), 3);
        // A request that a user sent, too, counts once, as the user's.
        assert_eq!((stats.repeated, stats.pack_tools), (1, Some(6)));
    }

    #[test]
    fn lines_without_an_example_are_rejected_with_their_line() {
        let parse_error = |text: &[u8]| {
            Examples::from_slice(text, "e.jsonl")
                .expect_err("the line is invalid")
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
            let error = parse_error(&[good, bad.as_bytes()].concat());
            assert!(
                error.starts_with("e.jsonl: line 2: ") && error.contains("give {\"tool\""),
                "{error}"
            );
        }
        assert!(parse_error(b"\xff").contains("line 1"));
        assert!(
            Examples::from_slice(b"\xef\xbb\xbf\n \n", "e.jsonl")
                .expect("empty")
                .is_empty()
        );
    }
}
