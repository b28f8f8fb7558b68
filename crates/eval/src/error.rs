//! Errors of evaluation.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// An error from reading, writing, scoring or comparing.
///
/// Every variant about a file has the `path` and, if there is one, the `line` (from 1). Quoted
/// values are shortened, so that a message stays readable for any file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A file could not be read.
    #[error("cannot read {path}; check that it exists and may be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file could not be written; an existing file is unchanged.
    #[error("cannot write {path}; check that its folder exists and may be written")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line is not valid UTF-8.
    #[error(
        "{path}:{line}: not valid UTF-8 from byte {byte} of the line; convert the file to UTF-8"
    )]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The first offending byte of the line, from 1.
        byte: usize,
    },
    /// A line has a number of columns that no known format has.
    #[error("{path}:{line}: {count} columns; write {expected}")]
    Columns {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The number of columns in the line.
        count: usize,
        /// The columns a line should have.
        expected: &'static str,
    },
    /// A column does not have the expected number.
    #[error(
        "{path}:{line}: {column} {value:?} is not {expected}; correct it, or remove a header line"
    )]
    BadNumber {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The name of the column.
        column: &'static str,
        /// The column as written, shortened.
        value: String,
        /// The expected kind of number.
        expected: &'static str,
    },
    /// A query or tool id in a file is unusable.
    #[error(
        "{path}:{line}: {column} id {value:?} {problem}; give every {column} a plain one-line id"
    )]
    BadId {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// `query` or `tool`.
        column: &'static str,
        /// The id as written, shortened.
        value: String,
        /// The reason why it cannot be used.
        problem: &'static str,
    },
    /// One tool has two grades for one query.
    #[error(
        "{path}:{line}: tool {tool:?} of query {query:?} has grade {second} here \
         and {first} before; keep one of them"
    )]
    ConflictingGrade {
        /// The file.
        path: PathBuf,
        /// The line of the second grade, from 1.
        line: usize,
        /// The query id, shortened.
        query: String,
        /// The tool id, shortened.
        tool: String,
        /// The first grade.
        first: i32,
        /// The grade on this line.
        second: i32,
    },
    /// A run ranks one tool twice for one query.
    #[error("{path}:{line}: tool {tool:?} is ranked twice for query {query:?}; keep its best rank")]
    DuplicateTool {
        /// The file.
        path: PathBuf,
        /// The line of the second occurrence, from 1.
        line: usize,
        /// The query id, shortened.
        query: String,
        /// The tool id, shortened.
        tool: String,
    },
    /// A run gives two tools of one query the same rank, so their order is unknown.
    #[error(
        "{path}:{line}: rank {rank} is given twice for query {query:?}; \
         number the tools of a query in order"
    )]
    DuplicateRank {
        /// The file.
        path: PathBuf,
        /// The line of the second occurrence, from 1.
        line: usize,
        /// The query id, shortened.
        query: String,
        /// The rank.
        rank: u64,
    },
    /// A line of a query file is not a query.
    #[error(
        r#"{path}:{line}: not a query; write one object a line, as {{"id": "q1", "text": "..."}}"#
    )]
    BadQuery {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The error of the JSON reader.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A query file uses one id twice.
    #[error("{path}:{line}: query id {id:?} was used on line {first}; give every query its own id")]
    DuplicateQuery {
        /// The file.
        path: PathBuf,
        /// The line of the second use, from 1.
        line: usize,
        /// The line of the first use, from 1.
        first: usize,
        /// The id, shortened.
        id: String,
    },
    /// A line of a file of conversations or requests is not a case.
    #[error("{path}:{line}: not a case of {kind}; write one object a line, as {form}")]
    BadTalkCase {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The kind of cases in the file.
        kind: &'static str,
        /// The form of a line.
        form: &'static str,
        /// The error of the JSON reader.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A folder has no case to measure.
    #[error(
        "{path} has no case; add smalltalk*.jsonl, conversations*.jsonl, paste*.jsonl or \
         parts*.jsonl"
    )]
    NoTalkCases {
        /// The folder.
        path: PathBuf,
    },
    /// A case names no catalog.
    #[error(r#"{path}:{line}: the case names no catalog; add "catalog": "NAME""#)]
    NoCatalog {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A case needs a tool that its catalog does not have.
    #[error(
        "{path}:{line}: unknown tool {tool:?}; write the id of a tool of the catalog {catalog:?}"
    )]
    UnknownTool {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The id, shortened.
        tool: String,
        /// The catalog.
        catalog: String,
    },
    /// A measure's name is not known.
    #[error(
        "unknown measure {text:?}; write one of nDCG@k, R@k, Success@k, Completeness@k, RR@k, \
         AP@k, such as nDCG@10"
    )]
    UnknownMeasure {
        /// The text that was parsed, shortened.
        text: String,
    },
    /// A measure's cutoff is missing, zero or not a number.
    #[error(
        "measure {text:?} has no usable cutoff; write a whole number of 1 or more after @, \
         as in {kind}@10"
    )]
    BadCutoff {
        /// The text that was parsed, shortened.
        text: String,
        /// The measure's name, which is valid.
        kind: &'static str,
    },
    /// An id cannot be written in a tab-separated file.
    #[error("{column} id {id:?} {problem}, so it cannot be written; rename it")]
    UnwritableId {
        /// `query` or `tool`.
        column: &'static str,
        /// The id, shortened.
        id: String,
        /// The reason why it cannot be written.
        problem: &'static str,
    },
    /// A run's tag cannot be written.
    #[error("run tag {tag:?} is empty or contains white space; use one word")]
    BadTag {
        /// The tag, shortened.
        tag: String,
    },
    /// A score is infinite or not a number.
    #[error(
        "the score of tool {tool:?} for query {query:?} is {score}; \
         scores must be finite to be written"
    )]
    NonFiniteScore {
        /// The query id, shortened.
        query: String,
        /// The tool id, shortened.
        tool: String,
        /// The score.
        score: f64,
    },
    /// Two sets of a report have the same name.
    #[error("two sets are named {name:?}; give every set its own name")]
    DuplicateSet {
        /// The name, shortened.
        name: String,
    },
    /// Two results have no query or no measure in common.
    #[error(
        "the two results share {queries} queries and {measures} measures; compare runs of one set"
    )]
    NothingInCommon {
        /// Queries scored in both.
        queries: usize,
        /// Measures scored in both.
        measures: usize,
    },
}
