//! The built-in tools that change files: `write`, `edit` and `undo`.

mod edit;
mod matching;
mod replacing;
mod undo;
mod write;

use std::fs::Metadata;
use std::io::Read;

use picktools::catalog::Tool;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_runtime::{Context, ErrorType, FileChange, ToolResult};
use serde_json::{Value, json};

pub use self::edit::Edit;
pub use self::undo::Undo;
pub use self::write::Write;

use crate::root::{FileFailure, WriteTarget};

/// The largest file that is changed, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The content of an existing file, and its metadata before it was read.
struct ExistingFile {
    content: String,
    metadata: Metadata,
}

/// Makes the definition of a tool that changes files. Such a tool is unsafe.
fn changing_tool(name: &str, description: &str, parameters: Value) -> Tool {
    let mut tool = Tool::with_parameters(name, description, parameters);
    tool.safe = Some(false);
    tool.annotations.destructive_hint = Some(true);
    tool.annotations.read_only_hint = Some(false);
    tool
}

/// Returns the schema of the argument `file_path`.
fn file_path_schema() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "description": "Path of the file, relative to the working folder",
    })
}

/// Changes the file that the argument `file_path` names. The result has the path.
fn change_file(
    change: fn(&str, &Value, &Context) -> Result<ToolResult, FileFailure>,
    arguments: &Value,
    context: &Context,
) -> ToolResult {
    let path = arguments["file_path"].as_str().unwrap_or_default();
    let path_text = marked(path, MAX_NAME_CHARS);
    match change(path, arguments, context) {
        Ok(result) => result.field("file_path", &*path_text),
        Err(failure) => failure.into_result(&path_text),
    }
}

/// Reads a file that a tool will change; `None` if it does not exist. A tool must have read it, and
/// it must be unchanged since.
fn read_known(
    target: &WriteTarget,
    context: &Context,
) -> Result<Option<ExistingFile>, FileFailure> {
    let Some((file, metadata)) = target.open()? else {
        return Ok(None);
    };
    if let Err(error) = context.files().check_unchanged(&target.path, &metadata) {
        let message = match error {
            picktools_runtime::FileError::NotRead { .. } => "it was not read yet",
            _ => "it was changed since it was read",
        };
        return Err(FileFailure::new(
            ErrorType::Validation,
            message,
            "Read the file first, then change it.",
        ));
    }
    let content = read_bytes(file, &metadata)?;
    let content = String::from_utf8(content)
        .ok()
        .filter(|text| !text.contains('\0'));
    let Some(content) = content else {
        return Err(FileFailure::new(
            ErrorType::User,
            "it is a binary file, or a text that is not UTF-8",
            "Change only UTF-8 text files.",
        ));
    };
    Ok(Some(ExistingFile { content, metadata }))
}

/// Reads a file of limited size.
fn read_bytes(file: std::fs::File, metadata: &Metadata) -> Result<Vec<u8>, FileFailure> {
    let mut content = Vec::new();
    let mut reader = file.take(MAX_FILE_BYTES + 1);
    let result = reader.read_to_end(&mut content);
    result.map_err(|error| FileFailure::from_io(&error))?;
    if content.len() as u64 > MAX_FILE_BYTES {
        let bytes = metadata.len();
        return Err(FileFailure::new(
            ErrorType::User,
            format!("it has {bytes} bytes; files of more than {MAX_FILE_BYTES} are not changed"),
            "Use a program for large files.",
        ));
    }
    Ok(content)
}

/// Replaces the content of a file, and records the change for later writes and for `undo`.
fn write_and_record(
    target: &WriteTarget,
    content: &[u8],
    existing: Option<ExistingFile>,
    context: &Context,
) -> Result<(), FileFailure> {
    let current = existing.as_ref().map(|existing| &existing.metadata);
    let metadata = replacing::replace(target, content, current, context)?;
    context.files().note_write(&target.path, &metadata);
    let earlier_content = existing.map(|existing| existing.content.into_bytes());
    let change = FileChange::new(target.relative_path.clone(), earlier_content, content);
    context.changes().push(change);
    Ok(())
}
