//! The tool `read`: text files of the working folder, with numbered lines.
//!
//! Paths are opened relative to the folder that the call works in, by a library that follows no
//! link and no `..` out of it (`cap-std`), whatever changes meanwhile.

mod lines;
mod text;

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use serde_json::{Value, json};

use self::lines::{Budget, Stopped};
use self::text::Content;
use picktools::catalog::{Annotations, Tool};
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_call::ValidCall;
use picktools_runtime::{Context, ErrorType, RunFuture, RunnableTool, ToolResult};

/// The most files of one call.
const MAX_FILES: usize = 100;

/// How much `read` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// The most tokens of one call, at four bytes each; what would not fit is left out, and how to
    /// go on is said.
    pub max_tokens: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { max_tokens: 25_000 }
    }
}

/// The tool `read`: several files, each line with its number, as much as fits into a number of
/// tokens.
///
/// Its result has `content`, `files_read`, and `truncated` where not all was given. Where some of
/// several files cannot be read, the others are, and `errors` lists what is wrong; where none can,
/// the call fails with the first error. What was read in part counts as read for tools that write.
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
                "limit": {"type": "integer", "minimum": 0, "description": "The most lines of each file; 0 for all"},
                "offset": {"type": "integer", "minimum": 1, "description": "The first line to show, from 1"},
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

    fn read(&self, arguments: &Value, context: &Context) -> ToolResult {
        let paths = arguments["file_paths"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let number = |name: &str| {
            arguments[name]
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
        };
        let (limit, offset) = (
            number("limit").filter(|limit| *limit > 0),
            number("offset").unwrap_or(1),
        );
        let root = match Dir::open_ambient_dir(context.root(), ambient_authority()) {
            Ok(root) => root,
            Err(error) => {
                return ToolResult::failure(
                    ErrorType::System,
                    format!("the working folder cannot be opened: {error}"),
                );
            }
        };
        let mut budget = Budget::new(self.options.max_tokens);
        let (mut content, mut read, mut truncated) = (String::new(), 0, false);
        let mut faults: Vec<(String, Fault)> = Vec::new();
        for path in paths {
            if context.is_cancelled() {
                return ToolResult::failure(ErrorType::System, "it was ended before all was read");
            }
            let shown = marked(path, MAX_NAME_CHARS);
            content.push_str(&format!("=== {shown} ===\n"));
            let stopped = open(&root, context.root(), path).and_then(|file| {
                context.files().note_read(&file.path, &file.metadata);
                show(file, (offset, limit), &mut budget, &mut content, context)
            });
            let (noted, fault) = match stopped {
                Ok(Stopped::End) => (None, None),
                Ok(Stopped::Limit { next }) => (
                    Some(format!("more lines follow; go on with offset={next}")),
                    None,
                ),
                Ok(Stopped::Budget { next }) => {
                    let most = self.options.max_tokens;
                    let note = format!(
                        "more than {most} tokens; read less at once, or go on with offset={next}"
                    );
                    (Some(note), None)
                }
                Err(fault) => (Some(fault.message.clone()), Some(fault)),
            };
            if let Some(note) = &noted {
                content.push_str(&format!("[{note}]\n"));
            }
            match fault {
                Some(fault) => faults.push((shown.into_owned(), fault)),
                None => {
                    read += 1;
                    truncated |= noted.is_some();
                }
            }
        }
        if let (0, Some((path, fault))) = (read, faults.first()) {
            return ToolResult::failure(fault.error_type, format!("{path}: {}", fault.message))
                .suggest(fault.suggestion);
        }
        let mut result = ToolResult::success()
            .field("content", content)
            .field("files_read", read);
        if truncated {
            result = result.field("truncated", true);
        }
        if !faults.is_empty() {
            let error = |(path, fault): &(String, Fault)| {
                let Fault {
                    error_type,
                    message,
                    suggestion,
                } = fault;
                json!({"path": path, "error": message, "error_type": error_type, "suggestion": suggestion})
            };
            result = result.field("errors", faults.iter().map(error).collect::<Vec<_>>());
        }
        result
    }
}

/// Writes what a file holds.
fn show(
    file: Opened,
    (offset, limit): (usize, Option<usize>),
    budget: &mut Budget,
    content: &mut String,
    context: &Context,
) -> Result<Stopped, Fault> {
    match file.content {
        Content::Binary(what) => {
            content.push_str(&format!(
                "[{what}, {} bytes: not shown]\n",
                file.metadata.len()
            ));
            Ok(Stopped::End)
        }
        Content::Text { reader, encoding } => {
            if let Some(encoding) = encoding {
                content.push_str(&format!("[read as {encoding}]\n"));
            }
            lines::write(reader, offset, limit, budget, content, context)
                .map_err(|error| Fault::of(&error))
        }
    }
}

impl RunnableTool for Read {
    fn definition(&self) -> &Tool {
        &self.definition
    }

    fn run<'a>(&'a self, call: &'a ValidCall, context: &'a Context) -> RunFuture<'a> {
        Box::pin(async move { self.read(call.arguments(), context) })
    }
}

/// Why a file is not read.
struct Fault {
    error_type: ErrorType,
    message: String,
    suggestion: &'static str,
}

impl Fault {
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

    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::new(
                ErrorType::User,
                "there is no such file",
                "Check the path, and try again.",
            ),
            // It is the library that refuses what leads out of the folder.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => Self::outside(),
            io::ErrorKind::PermissionDenied => Self::new(
                ErrorType::Permission,
                "it may not be read",
                "Give the path of a file that you may read.",
            ),
            io::ErrorKind::Interrupted | io::ErrorKind::TimedOut => Self::new(
                ErrorType::System,
                "it was ended before all was read",
                "Read less at once.",
            ),
            _ => Self::new(
                ErrorType::User,
                format!("it cannot be read: {error}"),
                "Check the path, and try again.",
            ),
        }
    }
}

/// A file that was opened.
struct Opened {
    path: PathBuf,
    metadata: std::fs::Metadata,
    content: Content,
}

/// Opens a regular file within the root, without waiting for what is none.
fn open(root: &Dir, root_path: &Path, path: &str) -> Result<Opened, Fault> {
    let asked = Path::new(path);
    let within = match asked.is_absolute() {
        true => asked
            .strip_prefix(root_path)
            .map_err(|_| Fault::outside())?,
        false => asked,
    };
    if within
        .components()
        .any(|part| matches!(part, Component::Prefix(_) | Component::RootDir))
    {
        return Err(Fault::outside());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = root
        .open_with(within, &options)
        .map_err(|error| Fault::of(&error))?
        .into_std();
    let metadata = file.metadata().map_err(|error| Fault::of(&error))?;
    if metadata.is_dir() {
        return Err(Fault::new(
            ErrorType::User,
            "it is a folder",
            "Give the paths of files.",
        ));
    }
    if !metadata.is_file() {
        return Err(Fault::new(
            ErrorType::User,
            "it is no regular file",
            "Give the paths of files.",
        ));
    }
    let content = Content::of(file).map_err(|error| Fault::of(&error))?;
    Ok(Opened {
        path: root_path.join(within),
        metadata,
        content,
    })
}
