//! Which files a catalog is read from.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::CatalogError;
use crate::excerpt::{MAX_NAME_CHARS, marked};

/// File names that stand for all of a folder, in this order: a set of an evaluation has other files
/// beside them.
const FOLDER_FILES: [&str; 2] = ["tools.jsonl", "tools.json"];

/// The endings of the files that are read of a folder.
const ENDINGS: [&str; 4] = ["json", "jsonl", "yaml", "yml"];

/// File names without their ending that do not tell what an OpenAPI document describes: its title
/// does.
const SILENT_NAMES: [&str; 6] = ["openapi", "swagger", "api", "spec", "api-docs", "apispec"];

/// What MCP has of a tool, and a catalog too.
///
/// Source: `modelcontextprotocol.io/specification`, revision 2026-07-28, `Tool`; `icons` and
/// `_meta` are for others.
const MEMBERS_OF_MCP: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// A file of a catalog, or what stands for one.
#[derive(Debug, Clone)]
pub struct CatalogFile {
    pub(super) origin: String,
    pub(super) bytes: Vec<u8>,
    /// The source of tools that name none, where nothing else is said.
    pub(super) source: Option<String>,
    /// Whether one entry that makes no valid tool is left out instead of refusing all.
    pub(super) is_live: bool,
}

impl CatalogFile {
    /// Makes a file of what was read elsewhere; `origin` names it in messages.
    pub fn new(origin: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            origin: origin.into(),
            bytes: bytes.into(),
            source: None,
            is_live: false,
        }
    }

    /// Makes a file of the tools that an MCP server sent. What the protocol does not have is left
    /// out: a server must not say whom to trust, or that its tools come from another. One that
    /// makes no valid tool, or has the name of one before it, is left out and stands in
    /// [`Catalog::notices`](super::Catalog::notices).
    pub fn of_server(name: &str, tools: &[Value]) -> Self {
        let own = |tool: &Value| match tool {
            Value::Object(members) => {
                let known = members
                    .iter()
                    .filter(|(key, _)| MEMBERS_OF_MCP.contains(&key.as_str()));
                Value::Object(
                    known
                        .map(|(key, value)| (key.clone(), value.clone()))
                        .collect(),
                )
            }
            other => other.clone(),
        };
        let tools = Value::Array(tools.iter().map(own).collect());
        let origin = format!("MCP server {}", marked(name, MAX_NAME_CHARS));
        Self {
            origin,
            bytes: tools.to_string().into_bytes(),
            source: Some(name.to_owned()),
            is_live: true,
        }
    }

    /// Whether its tools were sent by a server.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the name of the file in messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads a file, or the files of a folder: its `tools.jsonl` or `tools.json` where it holds
    /// one, else all that end in `.json`, `.jsonl`, `.yaml` or `.yml`, in the order of their names.
    /// Hidden files and folders within are not read.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] when something cannot be read, or a folder holds nothing to read.
    pub fn open(path: impl AsRef<Path>) -> Result<Vec<Self>, CatalogError> {
        Self::paths(path)?
            .iter()
            .map(|file| Self::read(file))
            .collect()
    }

    /// Returns which files [`open`](Self::open) reads.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] when a folder cannot be read, or holds nothing to read.
    pub fn paths(path: impl AsRef<Path>) -> Result<Vec<PathBuf>, CatalogError> {
        let path = path.as_ref();
        if path.is_dir() {
            of_folder(path)
        } else {
            Ok(vec![path.to_owned()])
        }
    }

    fn read(path: &Path) -> Result<Self, CatalogError> {
        let bytes = fs::read(path).map_err(|source| CatalogError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            origin: path.display().to_string(),
            bytes,
            source: default_source(path),
            is_live: false,
        })
    }
}

fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    if let Some(file) = FOLDER_FILES
        .iter()
        .map(|name| folder.join(name))
        .find(|file| file.is_file())
    {
        return Ok(vec![file]);
    }
    let error = |source| CatalogError::Read {
        path: folder.to_owned(),
        source,
    };
    let paths = fs::read_dir(folder)
        .map_err(error)?
        .map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(error)?;
    paths.retain(|path| is_catalog(path));
    paths.sort();
    if paths.is_empty() {
        return Err(CatalogError::NoCatalogInFolder {
            path: folder.to_owned(),
        });
    }
    Ok(paths)
}

fn is_catalog(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let ending = path
        .extension()
        .is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    ending && !hidden && path.is_file()
}

/// The folder's name for a file of a usual name, else the file's name without its ending.
fn default_source(file: &Path) -> Option<String> {
    // `tools.json` alone does not tell its folder.
    let file = file.canonicalize().ok()?;
    let usual = FOLDER_FILES.iter().any(|name| file.ends_with(name));
    let name = if usual {
        file.parent()?.file_name()
    } else {
        file.file_stem()
    };
    let name = name.map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !SILENT_NAMES.contains(&name.to_lowercase().as_str()))
}
