//! What can go wrong, once.
//!
//! One enum a seam. Every message says where and what, and how to mend it where that is not plain.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

/// An error from reading sequences of calls.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SequencesError {
    /// The file cannot be read.
    #[error("cannot read the sequences {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A line is no task.
    #[error("{origin}: line {line}: {message}")]
    Line {
        /// Where the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// What the parser expected.
        message: String,
    },
    /// There are too many calls to count.
    #[error("{origin}: more than {most} calls; give the latest tasks only")]
    TooMany {
        /// Where the text comes from.
        origin: String,
        /// The most.
        most: usize,
    },
}

/// An error from reading or validating a catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The file or folder cannot be read.
    #[error("cannot read the catalog {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file of the operator's aliases cannot be read.
    #[error("cannot read the aliases {}: {source}", path.display())]
    ReadAliases {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Aliases of the operator are no names, or mean no tool of the catalog.
    #[error("{}", FaultList("the operator's aliases", faults))]
    Aliases {
        /// Every fault found, in the order of the file.
        faults: Vec<CatalogFault>,
    },
    /// The folder holds no catalog file.
    #[error("the folder {} holds no tools.jsonl or tools.json; name a catalog file or a folder that has one", path.display())]
    NoCatalogInFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The bytes are not UTF-8.
    #[error("{origin}: line {line} is not valid UTF-8 (byte {column} of the line); save the file as UTF-8")]
    NotUtf8 {
        /// Where the bytes come from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Byte in the line, from 1.
        column: usize,
    },
    /// The text is not JSON.
    #[error("{origin}: line {line}, column {column}: {message}")]
    Syntax {
        /// Where the text comes from.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the parser expected.
        message: String,
    },
    /// The JSON is of no known catalog format.
    #[error(
        "{origin}: no catalog format recognised ({found}); expected tool definitions as a JSON array, JSON Lines, \
         an object with `tools`, an MCP tools/list result, or OpenAI or Anthropic tools"
    )]
    UnknownFormat {
        /// Where the text comes from.
        origin: String,
        /// What was found instead.
        found: String,
    },
    /// One or more entries are not valid.
    #[error("{}", FaultList(origin, faults))]
    Invalid {
        /// Where the entries come from.
        origin: String,
        /// Every fault found, in the order of the entries.
        faults: Vec<CatalogFault>,
    },
}

/// One fault of one catalog entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CatalogFault {
    /// Where the entry stands: `line 3`, `entry 4`.
    pub position: String,
    /// The entry's name, where it has one.
    pub name: Option<String>,
    /// JSON pointer into the entry; empty for the whole entry.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub remedy: String,
}

impl fmt::Display for CatalogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.position)?;
        if let Some(name) = &self.name {
            write!(f, " ({name:?})")?;
        }
        if !self.pointer.is_empty() {
            write!(f, " at {}", self.pointer)?;
        }
        write!(f, ": {}; {}", self.message, self.remedy)
    }
}

struct FaultList<'a>(&'a str, &'a Vec<CatalogFault>);

impl fmt::Display for FaultList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.1.len() == 1 { "fault" } else { "faults" };
        write!(f, "{}: {} {plural}", self.0, self.1.len())?;
        self.1.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// An error from reading skills.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The folder holds no skill.
    #[error("the folder {} holds no SKILL.md, nor does one below it; name a folder of skills", path.display())]
    NoSkills {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds more than is looked at.
    #[error("the folder {} holds more than {limit} {what}, the rest is passed over; name a smaller one", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
        /// What there is too much of.
        what: &'static str,
        /// How many are looked at.
        limit: usize,
    },
    /// A folder lies deeper than is looked at.
    #[error("what lies in {} is passed over: it is more than {limit} levels deep; move it up", path.display())]
    TooDeep {
        /// The first such folder.
        path: PathBuf,
        /// How deep is looked.
        limit: usize,
    },
    /// A symbolic link leads to a folder that it stands in.
    #[error("the symbolic link {} leads back to {} and is not followed; remove it", path.display(), ancestor.display())]
    Loop {
        /// The link.
        path: PathBuf,
        /// The folder.
        ancestor: PathBuf,
    },
    /// A file is too large.
    #[error("{} is larger than {limit} bytes; move what is long into files beside it", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes.
        limit: u64,
    },
    /// A file is not UTF-8.
    #[error("{} is not valid UTF-8; save it as UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
    },
    /// A file is not as a skill's must be.
    #[error("{}: {}", path.display(), OneLine(faults))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Every fault found.
        faults: Vec<SkillFault>,
    },
    /// A skill's folder has another name; the skill can be used all the same.
    #[error("{}: the skill is called {name:?} and its folder is not; give both the same name", path.display())]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// The skill's name.
        name: String,
    },
    /// A name is taken.
    #[error("{}: the name {name:?} is taken by {}; rename one of them", path.display(), first.display())]
    Duplicate {
        /// The file that is passed over.
        path: PathBuf,
        /// The name.
        name: String,
        /// The file that has it.
        first: PathBuf,
    },
}

/// One fault of one `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillFault {
    /// Line, from 1, where the fault has one.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// How to mend it.
    pub remedy: String,
}

impl fmt::Display for SkillFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}; {}", self.message, self.remedy)
    }
}

struct OneLine<'a>(&'a [SkillFault]);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&faults.join(". "))
    }
}

/// An error from an embedding model.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The ONNX Runtime library cannot be loaded.
    #[error(
        "cannot load ONNX Runtime{}: {reason}; install it (for example `pip install onnxruntime==1.31.1`) and name its \
         shared library, onnxruntime/capi/libonnxruntime.so.1.31.1, with --onnx-runtime or ORT_DYLIB_PATH",
        path.as_ref().map(|p| format!(" from {}", p.display())).unwrap_or_default()
    )]
    Runtime {
        /// The library that was to be loaded, where one was named.
        path: Option<PathBuf>,
        /// Why it failed.
        reason: String,
    },
    /// A model folder lacks files.
    #[error(
        "the model folder {} lacks {}; it needs an ONNX model (model.onnx) and its tokenizer (tokenizer.json)",
        path.display(), missing.join(" and ")
    )]
    MissingFiles {
        /// The folder.
        path: PathBuf,
        /// The files that are not there.
        missing: Vec<String>,
    },
    /// The model's name is not known.
    #[error("no model is called {name:?}{}; name a folder that holds model.onnx and tokenizer.json, or one of: {}",
        suggestion.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default(), known.join(", "))]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// The nearest known name.
        suggestion: Option<String>,
        /// All known names.
        known: Vec<String>,
    },
    /// The model cannot be fetched.
    #[error("cannot fetch the model {name:?}: {reason}; {remedy}")]
    Download {
        /// The model's name.
        name: String,
        /// Why it failed.
        reason: String,
        /// What to do instead.
        remedy: String,
    },
    /// A file of the model is damaged or of another kind.
    #[error("cannot load the model {name}: {reason}")]
    Load {
        /// The model's name or folder.
        name: String,
        /// Why it failed.
        reason: String,
    },
    /// An embedding endpoint cannot be asked: its URL, the model's name or the key is none.
    #[error("cannot use the embedding endpoint {url}: {reason}; {remedy}")]
    InvalidEndpoint {
        /// What was named, without user, password and query.
        url: String,
        /// What is wrong.
        reason: String,
        /// How to mend it.
        remedy: String,
    },
    /// An embedding endpoint did not give what it was asked for.
    #[error("cannot embed with the model {model:?} at {url}: {reason}; {remedy}")]
    Endpoint {
        /// Where it is, without user, password and query.
        url: String,
        /// The model it was asked for.
        model: String,
        /// Why it failed, with what came back, shortened.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The model failed on a text.
    #[error("the model {model} failed: {reason}")]
    Inference {
        /// The model's identity.
        model: String,
        /// Why it failed.
        reason: String,
    },
}

/// An error from building an index over a catalog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The keyword index could not be built or read.
    #[error("the keyword index failed: {reason}")]
    Keyword {
        /// What tantivy said.
        reason: String,
    },
    /// The tools could not be embedded.
    #[error("cannot embed the catalog: {0}")]
    Embed(#[from] EmbedError),
    /// The skills could not be indexed: two have one name, or one has none.
    #[error("cannot index the skills: {0}")]
    Skills(CatalogError),
}

impl From<tantivy::TantivyError> for IndexError {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Keyword { reason: error.to_string() }
    }
}

impl From<std::io::Error> for IndexError {
    fn from(error: std::io::Error) -> Self {
        Self::Keyword { reason: error.to_string() }
    }
}

/// An error from picking tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PickError {
    /// An option has a value that makes no sense.
    #[error("the option {option} is {value}: {remedy}")]
    InvalidOption {
        /// The option's name.
        option: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        remedy: &'static str,
    },
    /// `always_include`, `exclude` or a quota names a tool that the catalog does not have.
    #[error("{option} names {name:?}, which is no tool of the catalog{}; check the name, or write source/name",
        suggestion.as_ref().map(|s| format!(" (did you mean {s:?}?)")).unwrap_or_default())]
    UnknownTool {
        /// The option's name.
        option: &'static str,
        /// What it names.
        name: String,
        /// The nearest known name.
        suggestion: Option<String>,
    },
    /// A name stands for several tools.
    #[error("{option} names {name:?}, which is ambiguous; write one of: {}", candidates.join(", "))]
    AmbiguousTool {
        /// The option's name.
        option: &'static str,
        /// What it names.
        name: String,
        /// The ids of the tools it may mean.
        candidates: Vec<String>,
    },
    /// A semantic ranking was asked of an engine that was built for keywords only.
    #[error(
        "the mode {mode} needs an embedding model, and the engine was built for keywords only; build it with a model, \
         or use the mode keyword"
    )]
    NoEmbedder {
        /// The mode that was asked for.
        mode: &'static str,
    },
    /// Reranking was asked of an engine that has no reranker.
    #[error("the option rerank is always, and the engine has no reranker; build it with one, or use auto or never")]
    NoReranker,
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The definitions cannot be made whose tokens are to be counted.
    #[error(transparent)]
    Definitions(#[from] TranslateError),
    /// A worker could not be started or died.
    #[error("cannot run the pick: {reason}")]
    Worker {
        /// What happened.
        reason: String,
    },
}

/// An error from choosing the names that a model is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdvertisingError {
    /// The map of names has a key that is no tool.
    #[error("the name map has {name:?}, which is none of the tools; write a tool's id, source/name or name")]
    UnknownTool {
        /// The key.
        name: String,
    },
    /// The map of names has a key that is several tools.
    #[error("the name map has {name:?}, which is ambiguous; write one of: {}", candidates.join(", "))]
    AmbiguousTool {
        /// The key.
        name: String,
        /// The ids of the tools that it may mean.
        candidates: Vec<String>,
    },
    /// The map of names has two keys for one tool.
    #[error("the name map names the tool {tool} twice; keep one of its names")]
    NamedTwice {
        /// The tool's id.
        tool: String,
    },
    /// Two tools would be shown under one name.
    #[error("the tools {} would both be shown as {name:?}; give each a name of its own", tools.join(" and "))]
    SharedName {
        /// The name.
        name: String,
        /// The ids of the tools.
        tools: Vec<String>,
    },
    /// A tool has more aliases than can each have a definition.
    #[error(
        "the tool {tool} has {count} aliases, of which {limit} can have definitions of their own; tell them in the \
         descriptions instead (described)"
    )]
    TooManyAliases {
        /// The tool's id.
        tool: String,
        /// How many it has.
        count: usize,
        /// The most that can be expanded.
        limit: usize,
    },
    /// The map of names shows a tool under nothing.
    #[error("the name map shows the tool {tool} under an empty name; give it one, or leave it out of the map")]
    EmptyName {
        /// The tool's id.
        tool: String,
    },
}

/// An error from translating tools for a provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// The names to show cannot be made.
    #[error(transparent)]
    Advertising(#[from] AdvertisingError),
    /// The provider cannot load definitions later.
    #[error("{provider} has no deferred loading of tools; anthropic and openai-responses have")]
    NoDeferredLoading {
        /// The provider's name.
        provider: &'static str,
    },
    /// The provider has no references to tools in the results of a search.
    #[error("{provider} has no references to deferred tools; only anthropic takes them in the result of a search")]
    NoToolReferences {
        /// The provider's name.
        provider: &'static str,
    },
}

/// No provider has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no provider is called {name:?}; name one of {}", known.join(", "))]
pub struct UnknownProvider {
    /// What was asked for.
    pub name: String,
    /// The names that there are.
    pub known: Vec<&'static str>,
}

/// An error from reading the tool calls of a provider's answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// The provider answered with an error.
    #[error("{provider} answered with an error: {message}")]
    Refused {
        /// The provider's name.
        provider: &'static str,
        /// What it said, shortened.
        message: String,
    },
    /// The answer is of another shape.
    #[error("the answer is none of {provider}: {pointer} is {found}, expected {expected}",
        pointer = if pointer.is_empty() { "the whole" } else { pointer })]
    Shape {
        /// The provider's name.
        provider: &'static str,
        /// JSON pointer into the answer, or into the event of a stream.
        pointer: String,
        /// What stands there.
        found: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
    /// The text of a stream is no JSON.
    #[error("the event {event} of the stream is not JSON: {reason}")]
    NotJson {
        /// Which event, from 1.
        event: usize,
        /// What the parser said.
        reason: String,
    },
    /// The answer is larger than any honest one.
    #[error("the answer has more than {limit} {what}; ask for fewer calls, or shorter arguments")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The most of it.
        limit: usize,
    },
    /// The stream broke off in the middle of a call.
    #[error("the stream ended before the call of {name:?} was whole; send the request again")]
    BrokenOff {
        /// The name as far as it is known.
        name: String,
    },
}

/// An error from a scorer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ScorerError {
    /// The scorer could not do its work.
    #[error("the scorer {scorer} failed: {reason}")]
    Failed {
        /// The scorer's name.
        scorer: String,
        /// Why it failed.
        reason: String,
    },
    /// A score is not a number from 0 to 1.
    #[error(
        "the scorer {scorer} gave {tool} the score {score}, which is not a number from 0 to 1; the tool is left out"
    )]
    InvalidScore {
        /// The scorer's name.
        scorer: String,
        /// The tool's id.
        tool: String,
        /// The score, as text because it may not be a number.
        score: String,
    },
    /// The scorer gave another number of scores than there are tools.
    #[error("the scorer {scorer} gave {scores} scores for {tools} tools; it must give one for each, in order")]
    WrongCount {
        /// The scorer's name.
        scorer: String,
        /// How many scores came.
        scores: usize,
        /// How many tools there are.
        tools: usize,
    },
}

/// An error from a reranker. The order that it was to change stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RerankError {
    /// The reranker could not do its work.
    #[error("the reranker {reranker} failed: {reason}")]
    Failed {
        /// The reranker's name.
        reranker: String,
        /// Why it failed.
        reason: String,
    },
    /// The answer does not score each candidate once.
    #[error("the reranker {reranker} gave {fault}; it must give each candidate one number")]
    InvalidAnswer {
        /// The reranker's name.
        reranker: String,
        /// What it gave.
        fault: String,
    },
    /// The reranker has failed of late, and is left alone for a while.
    #[error(
        "the reranker {reranker} failed {failures} times in a row and is not asked for another {seconds} s \
         (last: {reason})"
    )]
    Paused {
        /// The reranker's name.
        reranker: String,
        /// How often it failed.
        failures: u32,
        /// How long it is left alone from now, in seconds.
        seconds: u128,
        /// Its last failure.
        reason: String,
    },
    /// The provider's format is not one that a language model is asked to rerank in.
    #[error("language models rerank in the formats openai, anthropic and ollama, not in that of {provider}")]
    UnsupportedProvider {
        /// The provider's name.
        provider: &'static str,
    },
    /// The language model has no name.
    #[error("the language model has no name; name the model to ask for")]
    NoModelName,
}

/// One thing in a call's arguments that does not fit the tool's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ArgumentFault {
    /// JSON pointer into the arguments; empty for all of them.
    pub pointer: String,
    /// The schema's keyword that is not met, such as `type` or `required`.
    pub keyword: String,
    /// What the schema expects there.
    pub expected: String,
    /// What stands there, as JSON, shortened.
    pub received: String,
}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the arguments" } else { &self.pointer };
        write!(f, "{place}: expected {}, received {}", self.expected, self.received)
    }
}

/// Why a call of a model cannot be run. The message is written for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallError {
    /// No tool has the name.
    #[error("Unknown tool: {name}{}", did_you_mean(suggestions))]
    UnknownTool {
        /// What was called.
        name: String,
        /// The nearest names that there are, best first.
        suggestions: Vec<String>,
    },
    /// Several tools have the name.
    #[error("the tool name {name:?} is ambiguous; call one of: {}", candidates.join(", "))]
    AmbiguousTool {
        /// What was called.
        name: String,
        /// The ids of the tools that it may mean.
        candidates: Vec<String>,
    },
    /// The arguments are larger than is read.
    #[error("the arguments of {tool} are {bytes} bytes or more, and at most {most} are read; send less at once")]
    TooLarge {
        /// The tool's id.
        tool: String,
        /// How large they are, as far as they were measured.
        bytes: usize,
        /// How large they may be.
        most: usize,
    },
    /// The arguments are no JSON object.
    #[error("the arguments of {tool} cannot be read: {reason}; send one JSON object{}", repair_note(failed_repair))]
    Malformed {
        /// The tool's id.
        tool: String,
        /// What is wrong, with line and column.
        reason: String,
        /// Why they could not be repaired, where that was tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_repair: Option<String>,
    },
    /// The arguments do not fit the tool's schema.
    #[error(
        "the arguments of {tool} do not fit: {}{}{}",
        list(faults),
        correct_call(example),
        repair_note(failed_repair)
    )]
    Invalid {
        /// The tool's id.
        tool: String,
        /// What does not fit, the first few of it.
        faults: Vec<ArgumentFault>,
        /// Small arguments that would fit, where some are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        example: Option<Box<Value>>,
        /// Why they could not be repaired, where that was tried.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_repair: Option<String>,
    },
    /// A tool that may be called without a schema only to read says of itself that it writes.
    #[error("{tool} has no schema and may only read, but is marked as one that changes things; it cannot be called")]
    NotReadOnly {
        /// The tool's id.
        tool: String,
    },
    /// The arguments fit the schema, but not the type that the program reads them as.
    #[error("the arguments of {tool} are not what the program expects: {reason}")]
    Typed {
        /// The tool's id.
        tool: String,
        /// What does not fit.
        reason: String,
    },
}

impl CallError {
    pub(crate) fn malformed(tool: &str, reason: impl Into<String>) -> Self {
        Self::Malformed { tool: tool.to_owned(), reason: reason.into(), failed_repair: None }
    }

    /// The same error, with what became of an attempt to repair the arguments.
    pub(crate) fn with_failed_repair(mut self, by: &str, reason: &str) -> Self {
        if let Self::Malformed { failed_repair, .. } | Self::Invalid { failed_repair, .. } = &mut self {
            *failed_repair = Some(format!("{by}: {reason}"));
        }
        self
    }
}

fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    }
}

fn list(faults: &[ArgumentFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn correct_call(example: &Option<Box<Value>>) -> String {
    example.as_ref().map_or(String::new(), |example| format!("; correct would be for example {example}"))
}

fn repair_note(failed: &Option<String>) -> String {
    failed.as_ref().map_or(String::new(), |reason| format!(" (a repair failed: {reason})"))
}
