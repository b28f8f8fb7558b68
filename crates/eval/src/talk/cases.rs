//! The cases of a folder: JSON Lines, one file or several for each kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::files::{excerpt, lines, read_file};
use super::super::{EvalError, Qrels};
use picktools_provider::query_from_transcript;

/// A kind of cases, with files of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TalkKind {
    /// Requests that need no tool.
    SmallTalk,
    /// Transcripts of which only the context tells what the last turn needs.
    Conversations,
    /// An ask beside pasted content.
    Paste,
    /// Requests with several asks.
    Parts,
}

impl TalkKind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 4] = [
        Self::SmallTalk,
        Self::Conversations,
        Self::Paste,
        Self::Parts,
    ];

    /// Returns the name in sentences.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SmallTalk => "small talk",
            Self::Conversations => "conversations",
            Self::Paste => "pasted content",
            Self::Parts => "requests with several parts",
        }
    }

    /// Returns the beginning of the names of its files, which end in `.jsonl`.
    pub const fn file_prefix(self) -> &'static str {
        match self {
            Self::SmallTalk => "smalltalk",
            Self::Conversations => "conversations",
            Self::Paste => "paste",
            Self::Parts => "parts",
        }
    }

    /// Returns the form of a line, for error messages.
    const fn form(self) -> &'static str {
        match self {
            Self::SmallTalk => r#"{"text": "..."}"#,
            Self::Conversations => {
                r#"{"catalog": "...", "messages": [{"role": "user", "content": "..."}], "tools": ["..."]}"#
            }
            Self::Paste => r#"{"catalog": "...", "text": "...", "ask": "...", "tools": ["..."]}"#,
            Self::Parts => {
                r#"{"catalog": "...", "text": "...", "parts": [{"text": "...", "tools": ["..."]}]}"#
            }
        }
    }
}

/// The file and line of a case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaseOrigin {
    path: Arc<Path>,
    line: usize,
}

impl CaseOrigin {
    /// Returns the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

impl fmt::Display for CaseOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}

/// A case with its origin.
#[derive(Clone, Debug)]
pub(super) struct Case<T> {
    pub(super) origin: CaseOrigin,
    /// The catalog that the case is about; `None` if it names none.
    pub(super) catalog: Option<String>,
    pub(super) content: T,
}

/// The catalog of a line, whatever its kind.
#[derive(Deserialize)]
struct CatalogMember {
    catalog: Option<String>,
}

/// A request that needs no tool.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SmallTalk {
    pub(super) text: String,
}

/// A transcript whose last turn is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ConversationLine")]
pub(super) struct Conversation {
    pub(super) kind: Option<String>,
    /// The array of messages; [`query_from_transcript`] reads it.
    pub(super) messages: Value,
    /// The messages before the last one; `None` if there is only one.
    pub(super) earlier: Option<Value>,
    /// The tools that the last turn needs; empty if it needs none.
    pub(super) tools: BTreeSet<String>,
}

#[derive(Deserialize)]
struct ConversationLine {
    kind: Option<String>,
    messages: Vec<Value>,
    tools: Option<BTreeSet<String>>,
    none: Option<bool>,
}

impl TryFrom<ConversationLine> for Conversation {
    type Error = &'static str;

    fn try_from(line: ConversationLine) -> Result<Self, Self::Error> {
        let tools = match (line.tools, line.none == Some(true)) {
            (_, true) => BTreeSet::new(),
            (Some(tools), false) => tools,
            (None, false) => {
                return Err("missing field `tools`; an empty list says that no tool is needed");
            }
        };
        let Some((_, before)) = line.messages.split_last() else {
            return Err("`messages` is empty");
        };
        let earlier = (!before.is_empty()).then(|| Value::Array(before.to_vec()));
        let messages = Value::Array(line.messages);
        for transcript in earlier.iter().chain([&messages]) {
            if query_from_transcript(transcript).is_none() {
                return Err("`messages` is not a transcript");
            }
        }
        Ok(Self {
            kind: line.kind,
            messages,
            earlier,
            tools,
        })
    }
}

/// A request beside pasted content.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PastedRequest {
    /// The complete request.
    pub(super) text: String,
    /// The request without the pasted content.
    pub(super) ask: String,
    pub(super) tools: NeededTools,
}

/// A request with several parts.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CompoundRequest {
    pub(super) text: String,
    pub(super) parts: RequestParts,
}

/// The parts of a request, at least one.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Vec<RequestPart>")]
pub(super) struct RequestParts(pub(super) Vec<RequestPart>);

impl TryFrom<Vec<RequestPart>> for RequestParts {
    type Error = &'static str;

    fn try_from(parts: Vec<RequestPart>) -> Result<Self, Self::Error> {
        if parts.is_empty() {
            return Err("`parts` is empty");
        }
        Ok(Self(parts))
    }
}

/// One part of a request; each of its tools serves it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct RequestPart {
    pub(super) text: String,
    pub(super) tools: NeededTools,
}

/// The tools that a request needs, at least one.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeSet<String>")]
pub(super) struct NeededTools(pub(super) BTreeSet<String>);

impl TryFrom<BTreeSet<String>> for NeededTools {
    type Error = &'static str;

    fn try_from(tools: BTreeSet<String>) -> Result<Self, Self::Error> {
        if tools.is_empty() {
            return Err("`tools` is empty; name a tool that serves the request");
        }
        Ok(Self(tools))
    }
}

/// The tools that a case names.
pub(super) trait NamesTools {
    fn named_tools(&self) -> Vec<&String>;
}

impl NamesTools for SmallTalk {
    fn named_tools(&self) -> Vec<&String> {
        Vec::new()
    }
}

impl NamesTools for Conversation {
    fn named_tools(&self) -> Vec<&String> {
        self.tools.iter().collect()
    }
}

impl NamesTools for PastedRequest {
    fn named_tools(&self) -> Vec<&String> {
        self.tools.0.iter().collect()
    }
}

impl NamesTools for CompoundRequest {
    fn named_tools(&self) -> Vec<&String> {
        let mut tools = Vec::new();
        for part in &self.parts.0 {
            tools.extend(&part.tools.0);
        }
        tools
    }
}

/// A case of which only origin, catalog and tools matter.
struct CaseTools<'a> {
    origin: &'a CaseOrigin,
    catalog: Option<&'a str>,
    tools: Vec<&'a String>,
}

/// The cases of a folder.
///
/// # Format
///
/// JSON Lines, in the files `smalltalk*.jsonl`, `conversations*.jsonl`, `paste*.jsonl` and
/// `parts*.jsonl`. Other members, other files and blank lines are ignored. A kind without a file is
/// [`missing`](Self::missing).
///
/// | kind | members |
/// |---|---|
/// | small talk | `text` |
/// | conversations | `catalog`, `messages`, `tools` (empty, or `none: true`, if nothing is needed), `kind` (optional) |
/// | paste | `catalog`, `text`, `ask` (the text without the pasted content), `tools` |
/// | parts | `catalog`, `text`, `parts` (`text` and `tools`, each of which serves the part) |
#[derive(Clone, Debug, Default)]
pub struct TalkCases {
    pub(super) small_talk: Vec<Case<SmallTalk>>,
    pub(super) conversations: Vec<Case<Conversation>>,
    pub(super) pastes: Vec<Case<PastedRequest>>,
    pub(super) compounds: Vec<Case<CompoundRequest>>,
    /// The JSON Lines files of the folder that no kind reads.
    ignored_files: Vec<PathBuf>,
}

impl TalkCases {
    /// Reads the cases of a folder.
    ///
    /// # Errors
    ///
    /// [`EvalError::Read`] if the folder or a file cannot be read, [`EvalError::NotUtf8`] or
    /// [`EvalError::BadTalkCase`] for a line that is not a case, and [`EvalError::NoTalkCases`] if
    /// the folder has no case.
    pub fn read(folder: &Path) -> Result<Self, EvalError> {
        let mut files = json_lines_files(folder)?;
        let mut cases = Self {
            small_talk: read_cases(TalkKind::SmallTalk, &mut files)?,
            conversations: read_cases(TalkKind::Conversations, &mut files)?,
            pastes: read_cases(TalkKind::Paste, &mut files)?,
            compounds: read_cases(TalkKind::Parts, &mut files)?,
            ignored_files: Vec::new(),
        };
        if cases.missing().len() == TalkKind::ALL.len() {
            return Err(EvalError::NoTalkCases {
                path: folder.to_path_buf(),
            });
        }
        for file in files {
            cases.ignored_files.push(file.path);
        }
        Ok(cases)
    }

    /// Returns the kinds without a case.
    pub fn missing(&self) -> Vec<TalkKind> {
        let mut missing = Vec::new();
        for kind in TalkKind::ALL {
            let cases = match kind {
                TalkKind::SmallTalk => self.small_talk.len(),
                TalkKind::Conversations => self.conversations.len(),
                TalkKind::Paste => self.pastes.len(),
                TalkKind::Parts => self.compounds.len(),
            };
            if cases == 0 {
                missing.push(kind);
            }
        }
        missing
    }

    /// Returns the JSON Lines files of the folder that no kind reads.
    pub fn ignored_files(&self) -> &[PathBuf] {
        &self.ignored_files
    }

    /// Assigns every case to one catalog, whatever catalog it names.
    #[must_use]
    pub fn with_catalog(mut self, name: &str) -> Self {
        assign(&mut self.conversations, name);
        assign(&mut self.pastes, name);
        assign(&mut self.compounds, name);
        self
    }

    /// Returns the named catalogs in order, each with the first case that names it.
    ///
    /// # Errors
    ///
    /// [`EvalError::NoCatalog`] for a case that names none. Small talk need not name one.
    pub fn catalogs(&self) -> Result<BTreeMap<&str, &CaseOrigin>, EvalError> {
        let mut catalogs = BTreeMap::new();
        for case in self.case_tools() {
            let Some(catalog) = case.catalog else {
                return Err(EvalError::NoCatalog {
                    path: case.origin.path().to_path_buf(),
                    line: case.origin.line,
                });
            };
            catalogs.entry(catalog).or_insert(case.origin);
        }
        Ok(catalogs)
    }

    /// Checks that a catalog has each tool that its cases name. `has_tool` takes the id of a tool.
    ///
    /// # Errors
    ///
    /// [`EvalError::UnknownTool`] for the first tool that the catalog does not have.
    pub fn check_tools(
        &self,
        catalog: &str,
        has_tool: impl Fn(&str) -> bool,
    ) -> Result<(), EvalError> {
        for case in self.case_tools() {
            if case.catalog != Some(catalog) {
                continue;
            }
            if let Some(tool) = case.tools.iter().find(|tool| !has_tool(tool)) {
                return Err(EvalError::UnknownTool {
                    path: case.origin.path().to_path_buf(),
                    line: case.origin.line,
                    tool: excerpt(tool),
                    catalog: excerpt(catalog),
                });
            }
        }
        Ok(())
    }

    /// Returns the needed tools of each case of a catalog. The id of a query is its file and line.
    pub fn judgments(&self, catalog: &str) -> Qrels {
        let mut qrels = Qrels::default();
        for case in self.case_tools() {
            if case.catalog == Some(catalog) {
                for tool in case.tools {
                    qrels.insert(case.origin.to_string(), tool.as_str(), 1);
                }
            }
        }
        qrels
    }

    /// Returns every case that names a catalog.
    fn case_tools(&self) -> Vec<CaseTools<'_>> {
        let mut all = Vec::new();
        all.extend(self.conversations.iter().map(case_tools));
        all.extend(self.pastes.iter().map(case_tools));
        all.extend(self.compounds.iter().map(case_tools));
        all
    }
}

fn case_tools<T: NamesTools>(case: &Case<T>) -> CaseTools<'_> {
    CaseTools {
        origin: &case.origin,
        catalog: case.catalog.as_deref(),
        tools: case.content.named_tools(),
    }
}

fn assign<T>(cases: &mut [Case<T>], catalog: &str) {
    for case in cases {
        case.catalog = Some(catalog.to_owned());
    }
}

/// A file of the folder.
struct TalkFile {
    name: String,
    path: PathBuf,
}

/// Lists the JSON Lines files of a folder, in order of name.
fn json_lines_files(folder: &Path) -> Result<Vec<TalkFile>, EvalError> {
    let unreadable = |source| EvalError::Read {
        path: folder.to_path_buf(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".jsonl") && path.is_file() {
            files.push(TalkFile {
                name: name.into_owned(),
                path,
            });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// Reads the files of one kind, and takes them off the list.
fn read_cases<T: DeserializeOwned>(
    kind: TalkKind,
    files: &mut Vec<TalkFile>,
) -> Result<Vec<Case<T>>, EvalError> {
    let mut cases = Vec::new();
    let mut others = Vec::new();
    for file in std::mem::take(files) {
        if !file.name.starts_with(kind.file_prefix()) {
            others.push(file);
            continue;
        }
        let bytes = read_file(&file.path)?;
        parse_cases(kind, &file.path, &bytes, &mut cases)?;
    }
    *files = others;
    Ok(cases)
}

/// Parses the lines of a file.
fn parse_cases<T: DeserializeOwned>(
    kind: TalkKind,
    path: &Path,
    bytes: &[u8],
    cases: &mut Vec<Case<T>>,
) -> Result<(), EvalError> {
    let shared: Arc<Path> = Arc::from(path);
    for line in lines(bytes, path) {
        let (line, text) = line?;
        let malformed = |source: serde_json::Error| EvalError::BadTalkCase {
            path: path.to_path_buf(),
            line,
            kind: kind.name(),
            form: kind.form(),
            source: source.into(),
        };
        let CatalogMember { catalog } = serde_json::from_str(text).map_err(malformed)?;
        cases.push(Case {
            origin: CaseOrigin {
                path: Arc::clone(&shared),
                line,
            },
            catalog,
            content: serde_json::from_str(text).map_err(malformed)?,
        });
    }
    Ok(())
}
