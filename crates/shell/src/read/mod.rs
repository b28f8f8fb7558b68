//! The built-in tool `read`. It returns text files of the working folder with numbered lines.

mod lines;
mod text;

use serde_json::{Value, json};

use self::lines::{LineRange, ReadBudget, StopReason};
use self::text::Content;
use crate::root::{FileFailure, RegularFile, Root, session_schema};
use picktools::catalog::{Annotations, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;
use picktools_runtime::{Context, RunFuture, RunnableTool, ToolResult};

/// The most files of one call.
const MAX_FILES: usize = 100;

/// The options of [`Read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// The most tokens of one result, counted with `o200k_base`. Longer content is cut, and a note
    /// says how to continue.
    pub max_tokens: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { max_tokens: 25_000 }
    }
}

/// The tool `read`. It returns several files with numbered lines, within a token budget.
///
/// Its result has the fields `content`, `files_read`, and `truncated` if something was cut. If some
/// files cannot be read, `errors` lists them with their errors. If no file can be read, the call
/// fails with the first error. A file that was shown in part counts as read for tools that write; a
/// binary file and a file that was not shown do not.
#[derive(Debug)]
pub struct Read {
    definition: Tool,
    options: ReadOptions,
}

impl Default for Read {
    fn default() -> Self {
        Self::new(ReadOptions::default())
    }
}

impl Read {
    /// Makes the tool.
    pub fn new(options: ReadOptions) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "file_paths": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "maxItems": MAX_FILES,
                    "description": "Paths of the files, relative to the working folder",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "The most lines of each file; 0 for all",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The first line to show, from 1",
                },
                "sessionId": session_schema(),
            },
            "required": ["file_paths"],
            "additionalProperties": false,
        });
        let description = "Reads text files, and shows their lines with numbers";
        let mut definition = Tool::with_parameters("read", description, parameters);
        definition.annotations = Annotations {
            read_only_hint: Some(true),
            ..Annotations::default()
        };
        Self {
            definition,
            options,
        }
    }

    /// Reads the files of a call.
    fn read_files(&self, arguments: &Value, context: &Context) -> ToolResult {
        let mut paths = Vec::new();
        for path in arguments["file_paths"].as_array().into_iter().flatten() {
            paths.extend(path.as_str());
        }
        let number = |name: &str| usize::try_from(arguments[name].as_u64()?).ok();
        let range = LineRange {
            offset: number("offset").unwrap_or(1),
            limit: match number("limit") {
                None | Some(0) => None,
                limit => limit,
            },
        };
        let root = match Root::open(arguments, context) {
            Ok(root) => root,
            Err(failure) => return failure.into_result(""),
        };
        let mut output = ReadOutput {
            content: String::new(),
            budget: ReadBudget::new(self.options.max_tokens),
            truncated: false,
            max_tokens: self.options.max_tokens,
        };
        let mut read_count = 0;
        let mut failures: Vec<(String, FileFailure)> = Vec::new();
        for (index, path) in paths.iter().enumerate() {
            if context.is_cancelled() {
                return FileFailure::stopped().into_result("");
            }
            if index > 0 && output.budget.is_used_up() {
                output.leave_out(paths.len() - index);
                break;
            }
            let path_text = marked(path, MAX_NAME_CHARS);
            output.note(&format!("=== {path_text} ==="));
            let opened = root.open_file(path);
            match opened.and_then(|file| output.append(file, range, context)) {
                Ok(()) => read_count += 1,
                Err(failure) => {
                    output.note(&format!("[{}]", failure.message));
                    failures.push((path_text.into_owned(), failure));
                }
            }
        }
        if read_count == 0 && !failures.is_empty() {
            let (path, failure) = failures.swap_remove(0);
            return failure.into_result(&path);
        }
        let mut result = ToolResult::success()
            .field("content", output.content)
            .field("files_read", read_count);
        if output.truncated {
            result = result.field("truncated", true);
        }
        if !failures.is_empty() {
            let mut errors = Vec::new();
            for (path, failure) in &failures {
                errors.push(json!({
                    "path": path,
                    "error": failure.message,
                    "error_type": failure.error_type,
                    "suggestion": failure.suggestion,
                }));
            }
            result = result.field("errors", errors);
        }
        result
    }
}

/// The content of a result so far.
struct ReadOutput {
    content: String,
    budget: ReadBudget,
    /// `true` if something is not shown.
    truncated: bool,
    max_tokens: usize,
}

impl ReadOutput {
    /// Appends the lines of a file, or the type of a binary file, and records the read.
    fn append(
        &mut self,
        file: RegularFile,
        range: LineRange,
        context: &Context,
    ) -> Result<(), FileFailure> {
        let from_io = |error| FileFailure::from_io(&error);
        let (reader, encoding) = match Content::detect(file.file).map_err(from_io)? {
            Content::Binary(description) => {
                let bytes = file.metadata.len();
                self.note(&format!("[{description}, {bytes} bytes: not shown]"));
                return Ok(());
            }
            Content::Text { reader, encoding } => (reader, encoding),
        };
        if let Some(encoding) = encoding {
            self.note(&format!("[read as {encoding}]"));
        }
        let bytes_before = self.content.len();
        let appended = lines::append(reader, range, &mut self.budget, &mut self.content, context);
        let stop_reason = appended.map_err(from_io)?;
        let is_shown = self.content.len() > bytes_before;
        if is_shown || matches!(stop_reason, StopReason::End) {
            context.files().note_read(&file.path, &file.metadata);
        }
        let note = match stop_reason {
            StopReason::End => return Ok(()),
            StopReason::Beyond { lines } => {
                self.note(&format!("[the file has {lines} lines]"));
                return Ok(());
            }
            StopReason::Limit { next } => {
                format!("[more lines follow; go on with offset={next}]")
            }
            StopReason::Budget { next } => {
                let max_tokens = self.max_tokens;
                format!(
                    "[more than {max_tokens} tokens; read less at once, \
                     or go on with offset={next}]"
                )
            }
        };
        self.truncated = true;
        self.note(&note);
        Ok(())
    }

    /// Appends a heading or a note.
    fn note(&mut self, note: &str) {
        let line = format!("{note}\n");
        self.budget.take_note(&line);
        self.content.push_str(&line);
    }

    /// Appends a note that the last files were not read.
    fn leave_out(&mut self, files: usize) {
        self.truncated = true;
        let max_tokens = self.max_tokens;
        self.note(&format!(
            "[more than {max_tokens} tokens; the last files were not read: {files}]"
        ));
    }
}

impl RunnableTool for Read {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move { self.read_files(call.arguments(), context) })
    }
}
