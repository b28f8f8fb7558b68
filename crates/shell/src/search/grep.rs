//! The built-in tool `grep`.

use std::io;
use std::path::Path;

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use picktools::catalog::{Annotations, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, RunFuture, RunnableTool, ToolResult};
use serde_json::{Value, json};

use super::walk::SearchPlace;
use super::{SearchLimit, SearchOptions, TimeLimit, compile_glob};
use crate::root::{FileFailure, session_schema};

/// The most bytes of one line in a result.
const MAX_LINE_BYTES: usize = 500;
/// The most lines of context around a matching line.
const MAX_CONTEXT: u64 = 20;
/// The most memory of a compiled regular expression, in bytes.
const MAX_REGEX_BYTES: usize = 10 << 20;
/// The most memory for one line of a file, in bytes.
const MAX_HEAP_BYTES: usize = 16 << 20;

/// The tool `grep`. It finds the lines of text files that match a regular expression.
///
/// Its result has the fields `content`, with lines of the form `path:line:text`, `matches` and
/// `files_searched`. `truncated` says that a limit stopped it, and `files_skipped` counts files that
/// could not be searched.
#[derive(Debug)]
pub struct Grep {
    definition: Tool,
    options: SearchOptions,
}

impl Default for Grep {
    fn default() -> Self {
        Self::new(SearchOptions::default())
    }
}

impl Grep {
    /// Makes the tool.
    pub fn new(options: SearchOptions) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Regular expression, as of ripgrep",
                },
                "path": {
                    "type": "string",
                    "description": "Folder or file to search; the working folder unless given",
                },
                "glob": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Search only files that match, such as *.rs or src/**/*.{js,ts}",
                },
                "ignore_case": {"type": "boolean", "description": "Ignore case"},
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MAX_CONTEXT,
                    "description": "Lines to show before and after each match",
                },
                "sessionId": session_schema(),
            },
            "required": ["pattern"],
            "additionalProperties": false,
        });
        let description = "Searches text files for a regular expression, and shows the matching \
                           lines with their numbers. Hidden files and files that .gitignore \
                           excludes are left out.";
        let mut definition = Tool::with_parameters("grep", description, parameters);
        definition.annotations = Annotations {
            read_only_hint: Some(true),
            ..Annotations::default()
        };
        Self {
            definition,
            options,
        }
    }

    fn search(&self, arguments: &Value, context: &Context) -> Result<ToolResult, FileFailure> {
        let matcher = compile(arguments)?;
        let glob = arguments["glob"].as_str().map(compile_glob).transpose()?;
        let place = SearchPlace::open(arguments, context)?;
        let mut search = LineSearch {
            limits: self.options,
            time: TimeLimit::new(&self.options, context),
            content: String::new(),
            matches: 0,
            stopped_by: None,
        };
        let mut searcher = searcher(arguments);
        let (mut searched, mut skipped) = (0, 0);
        for file in place.files() {
            if search.time.is_over() {
                search.stopped_by = Some(SearchLimit::Time);
            }
            if search.stopped_by.is_some() {
                break;
            }
            if file.is_link || !is_wanted(glob.as_ref(), &place, &file.relative_path) {
                continue;
            }
            let searched_file = search.file(&place, &file.relative_path, &matcher, &mut searcher);
            match searched_file {
                Ok(()) => searched += 1,
                Err(_) if !place.is_file => skipped += 1,
                Err(failure) => return Err(failure),
            }
        }
        let mut result = ToolResult::success();
        if let Some(limit) = search.stopped_by {
            search.content.push_str(&format!("[{}]\n", limit.note()));
            result = result.field("truncated", true);
        }
        if skipped > 0 {
            result = result.field("files_skipped", skipped);
        }
        Ok(result
            .field("content", search.content)
            .field("matches", search.matches)
            .field("files_searched", searched))
    }
}

impl RunnableTool for Grep {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move {
            match self.search(call.arguments(), context) {
                Ok(result) => result,
                Err(failure) => {
                    let path = call.arguments()["path"].as_str().unwrap_or_default();
                    failure.into_result(&marked(path, MAX_NAME_CHARS))
                }
            }
        })
    }
}

fn compile(arguments: &Value) -> Result<RegexMatcher, FileFailure> {
    let pattern = arguments["pattern"].as_str().unwrap_or_default();
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(arguments["ignore_case"] == true)
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES);
    builder.build(pattern).map_err(|error| {
        // The last line has the cause; the lines above repeat the pattern.
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        let cause = last.strip_prefix("error: ").unwrap_or(last);
        FileFailure::new(
            ErrorType::Validation,
            format!("the pattern is invalid: {cause}"),
            "Escape characters with a meaning in regular expressions, such as \\( and \\[.",
        )
    })
}

fn searcher(arguments: &Value) -> Searcher {
    let number = arguments["context"].as_u64().unwrap_or(0).min(MAX_CONTEXT);
    let lines = usize::try_from(number).unwrap_or(0);
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(b'\0'))
        .line_number(true)
        .before_context(lines)
        .after_context(lines)
        .heap_limit(Some(MAX_HEAP_BYTES))
        .build()
}

fn is_wanted(glob: Option<&GlobMatcher>, place: &SearchPlace, relative_path: &Path) -> bool {
    let Some(glob) = glob else { return true };
    match relative_path.strip_prefix(&place.start) {
        Ok(path) if !place.is_file => glob.is_match(path),
        _ => true,
    }
}

/// A search with its results so far.
struct LineSearch<'a> {
    limits: SearchOptions,
    time: TimeLimit<'a>,
    content: String,
    matches: usize,
    stopped_by: Option<SearchLimit>,
}

impl LineSearch<'_> {
    fn file(
        &mut self,
        place: &SearchPlace,
        relative_path: &Path,
        matcher: &RegexMatcher,
        searcher: &mut Searcher,
    ) -> Result<(), FileFailure> {
        let opened = place.root.open_relative(relative_path)?;
        if opened.metadata.len() > self.limits.max_file_bytes {
            let (bytes, most) = (opened.metadata.len(), self.limits.max_file_bytes);
            return Err(FileFailure::new(
                ErrorType::User,
                format!("it has {bytes} bytes; files of more than {most} are not searched"),
                "Use a program for large files.",
            ));
        }
        let path = place.root.path_for_calls(relative_path);
        let sink = FileSink {
            path: marked(&path, MAX_NAME_CHARS).into_owned(),
            search: self,
        };
        searcher
            .search_file(matcher, &opened.file, sink)
            .map_err(|error| FileFailure::from_io(&error))
    }

    /// Adds a line; returns `false` if the search ends.
    fn push(&mut self, path: &str, separator: char, number: Option<u64>, line: &[u8]) -> bool {
        if self.time.is_over() {
            self.stopped_by = Some(SearchLimit::Time);
            return false;
        }
        let number = number.unwrap_or_default();
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']).replace('\r', " ");
        let excerpt = &text[..text.floor_char_boundary(MAX_LINE_BYTES)];
        let mut shown_line = format!("{path}{separator}{number}{separator}{excerpt}");
        if excerpt.len() < text.len() {
            let more = text.len() - excerpt.len();
            shown_line.push_str(&format!("… [{more} more bytes of the line]"));
        }
        shown_line.push('\n');
        if self.content.len() + shown_line.len() > self.limits.max_bytes {
            self.stopped_by = Some(SearchLimit::Bytes(self.limits.max_bytes));
            return false;
        }
        self.content.push_str(&shown_line);
        true
    }
}

/// The matching lines of one file.
struct FileSink<'a, 'b> {
    path: String,
    search: &'a mut LineSearch<'b>,
}

impl Sink for FileSink<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let search = &mut *self.search;
        if search.matches == search.limits.max_results {
            search.stopped_by = Some(SearchLimit::Results(search.matches));
            return Ok(false);
        }
        let goes_on = search.push(&self.path, ':', line.line_number(), line.bytes());
        search.matches += usize::from(goes_on);
        Ok(goes_on)
    }

    fn context(&mut self, _searcher: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self
            .search
            .push(&self.path, '-', line.line_number(), line.bytes()))
    }
}
