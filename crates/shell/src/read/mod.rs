//! The built-in tool `read`. It returns text files of the working folder with numbered lines.
//!
//! Files are opened relative to the working folder with `cap-std`, which follows no link and no
//! `..` out of that folder, even if files change at the same time.

mod lines;
mod text;

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use serde_json::{Value, json};

use self::lines::{LineRange, ReadBudget, StopReason};
use self::text::Content;
use picktools::catalog::{Annotations, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, RunFuture, RunnableTool, ToolResult};

/// The most files of one call.
const MAX_FILES: usize = 100;

/// The options of [`Read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// The most tokens of one result, at four bytes each. Longer content is cut, and a note says
    /// how to continue.
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
/// fails with the first error. A file that was read in part counts as read for tools that write.
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
        let root = match Dir::open_ambient_dir(context.root(), ambient_authority()) {
            Ok(root) => root,
            Err(error) => {
                return ToolResult::failure(
                    ErrorType::System,
                    format!("the working folder cannot be opened: {error}"),
                );
            }
        };
        let mut budget = ReadBudget::new(self.options.max_tokens);
        let (mut content, mut read_count, mut truncated) = (String::new(), 0, false);
        let mut failures: Vec<(String, ReadFailure)> = Vec::new();
        for path in paths {
            if context.is_cancelled() {
                return ToolResult::failure(ErrorType::System, STOPPED);
            }
            let path_text = marked(path, MAX_NAME_CHARS);
            content.push_str(&format!("=== {path_text} ===\n"));
            let outcome = open(&root, context.root(), path).and_then(|file| {
                context.files().note_read(&file.path, &file.metadata);
                append_file(file, range, &mut budget, &mut content, context)
            });
            let note = match outcome {
                Ok(StopReason::End) => {
                    read_count += 1;
                    continue;
                }
                Ok(StopReason::Limit { next }) => {
                    (read_count, truncated) = (read_count + 1, true);
                    format!("more lines follow; go on with offset={next}")
                }
                Ok(StopReason::Budget { next }) => {
                    (read_count, truncated) = (read_count + 1, true);
                    let max_tokens = self.options.max_tokens;
                    format!(
                        "more than {max_tokens} tokens; read less at once, \
                         or go on with offset={next}"
                    )
                }
                Err(failure) => {
                    let message = failure.message.clone();
                    failures.push((path_text.into_owned(), failure));
                    message
                }
            };
            content.push_str(&format!("[{note}]\n"));
        }
        if let (0, Some((path, failure))) = (read_count, failures.first()) {
            return ToolResult::failure(failure.error_type, format!("{path}: {}", failure.message))
                .suggest(failure.suggestion);
        }
        let mut result = ToolResult::success()
            .field("content", content)
            .field("files_read", read_count);
        if truncated {
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

/// Appends the lines of a file, or the type of a binary file.
fn append_file(
    file: OpenedFile,
    range: LineRange,
    budget: &mut ReadBudget,
    content: &mut String,
    context: &Context,
) -> Result<StopReason, ReadFailure> {
    match file.content {
        Content::Binary(description) => {
            content.push_str(&format!(
                "[{description}, {} bytes: not shown]\n",
                file.metadata.len()
            ));
            Ok(StopReason::End)
        }
        Content::Text { reader, encoding } => {
            if let Some(encoding) = encoding {
                content.push_str(&format!("[read as {encoding}]\n"));
            }
            lines::append(reader, range, budget, content, context)
                .map_err(|error| ReadFailure::from_io(&error))
        }
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

/// The message of a call that was cancelled or reached its deadline.
const STOPPED: &str = "reading was stopped before the end";

/// An error from a file that cannot be read.
struct ReadFailure {
    error_type: ErrorType,
    message: String,
    suggestion: &'static str,
}

impl ReadFailure {
    fn new(error_type: ErrorType, message: impl Into<String>, suggestion: &'static str) -> Self {
        Self {
            error_type,
            message: message.into(),
            suggestion,
        }
    }

    fn outside() -> Self {
        Self::new(
            ErrorType::Security,
            "it is outside the working folder",
            "Give a path within the working folder.",
        )
    }

    fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::new(
                ErrorType::User,
                "there is no such file",
                "Check the path, and try again.",
            ),
            // `cap-std` returns an error without a code for a path that leads out of the folder.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => Self::outside(),
            io::ErrorKind::PermissionDenied => Self::new(
                ErrorType::Permission,
                "permission denied",
                "Give the path of a file that you may read.",
            ),
            io::ErrorKind::Interrupted | io::ErrorKind::TimedOut => {
                Self::new(ErrorType::System, STOPPED, "Read less at once.")
            }
            _ => Self::new(
                ErrorType::User,
                format!("it cannot be read: {error}"),
                "Check the path, and try again.",
            ),
        }
    }
}

/// An open file with its metadata.
struct OpenedFile {
    path: PathBuf,
    metadata: std::fs::Metadata,
    content: Content,
}

/// Opens a regular file inside the root. It does not block on other files, such as pipes.
fn open(root: &Dir, root_path: &Path, path: &str) -> Result<OpenedFile, ReadFailure> {
    let path = Path::new(path);
    let relative_path = match path.is_absolute() {
        true => path
            .strip_prefix(root_path)
            .map_err(|_| ReadFailure::outside())?,
        false => path,
    };
    if relative_path
        .components()
        .any(|part| matches!(part, Component::Prefix(_) | Component::RootDir))
    {
        return Err(ReadFailure::outside());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = root
        .open_with(relative_path, &options)
        .map_err(|error| ReadFailure::from_io(&error))?
        .into_std();
    let metadata = file
        .metadata()
        .map_err(|error| ReadFailure::from_io(&error))?;
    if metadata.is_dir() {
        return Err(ReadFailure::new(
            ErrorType::User,
            "it is a folder",
            "Give the paths of files.",
        ));
    }
    if !metadata.is_file() {
        return Err(ReadFailure::new(
            ErrorType::User,
            "it is not a regular file",
            "Give the paths of files.",
        ));
    }
    let content = Content::detect(file).map_err(|error| ReadFailure::from_io(&error))?;
    Ok(OpenedFile {
        path: root_path.join(relative_path),
        metadata,
        content,
    })
}
