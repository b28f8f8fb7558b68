//! Files of a catalog.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::CatalogError;
use crate::excerpt::{MAX_NAME_CHARS, marked};

/// File names that represent their folder, in this order of preference: the folder of an evaluation
/// set has other files too.
const FOLDER_FILES: [&str; 2] = ["tools.jsonl", "tools.json"];

/// The endings of the files that are read in a folder.
const ENDINGS: [&str; 4] = ["json", "jsonl", "yaml", "yml"];

/// File stems that do not identify an OpenAPI document; its title does.
const GENERIC_STEMS: [&str; 6] = ["openapi", "swagger", "api", "spec", "api-docs", "apispec"];

/// The members of an MCP tool that a catalog uses.
///
/// Source: `modelcontextprotocol.io/specification`, revision 2026-07-28, `Tool`. The other members,
/// `icons` and `_meta`, are not used.
const MCP_MEMBERS: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// A file of a catalog, or content from elsewhere in its place.
#[derive(Debug, Clone)]
pub struct CatalogFile {
    pub(super) origin: String,
    pub(super) bytes: Vec<u8>,
    /// The default source of tools, if the options have none.
    pub(super) source: Option<String>,
    /// `true` if an invalid entry is left out; otherwise it invalidates the catalog.
    pub(super) is_live: bool,
}

impl CatalogFile {
    /// Makes a file from content in memory; `origin` names it in messages.
    pub fn new(origin: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            origin: origin.into(),
            bytes: bytes.into(),
            source: None,
            is_live: false,
        }
    }

    /// Makes a file from the tools that an MCP server sent. Members that MCP lacks are removed: a
    /// server must not declare trust, or attribute its tools to another source. A tool is left out
    /// if it is invalid or has the name of an earlier one, with a notice in
    /// [`Catalog::notices`](super::Catalog::notices).
    pub fn from_server<'a>(name: &str, tools: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut text = String::from("[");
        for tool in tools {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&keep_mcp_members(tool).to_string());
        }
        text.push(']');
        let origin = format!("MCP server {}", marked(name, MAX_NAME_CHARS));
        Self {
            origin,
            bytes: text.into_bytes(),
            source: Some(name.to_owned()),
            is_live: true,
        }
    }

    /// Returns `true` if a server sent the tools.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the name of the file in messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the source of the tools, if the file sets it.
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }

    /// Returns the content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads a file, or the files of a folder: its `tools.jsonl` or `tools.json` if it has one,
    /// else all that end in `.json`, `.jsonl`, `.yaml` or `.yml`, in the order of their names.
    /// Hidden files and subfolders are skipped.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if something cannot be read, or a folder has no file to read.
    pub fn open(path: impl AsRef<Path>) -> Result<Vec<Self>, CatalogError> {
        Self::paths(path)?
            .iter()
            .map(|file| Self::read_file(file))
            .collect()
    }

    /// Returns the paths of the files that [`open`](Self::open) reads.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if a folder cannot be read, or has no file to read.
    pub fn paths(path: impl AsRef<Path>) -> Result<Vec<PathBuf>, CatalogError> {
        let path = path.as_ref();
        if path.is_dir() {
            folder_files(path)
        } else {
            Ok(vec![path.to_owned()])
        }
    }

    fn read_file(path: &Path) -> Result<Self, CatalogError> {
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

fn folder_files(folder: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    for name in FOLDER_FILES {
        let file = folder.join(name);
        if file.is_file() {
            return Ok(vec![file]);
        }
    }
    let error = |source| CatalogError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if is_catalog(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(CatalogError::NoCatalogInFolder {
            path: folder.to_owned(),
        });
    }
    Ok(paths)
}

/// Returns an MCP tool with the members that a catalog uses.
fn keep_mcp_members(tool: &Value) -> Value {
    let Value::Object(members) = tool else {
        return tool.clone();
    };
    let mut mcp_members = members.clone();
    mcp_members.retain(|key, _| MCP_MEMBERS.contains(&key.as_str()));
    Value::Object(mcp_members)
}

fn is_catalog(path: &Path) -> bool {
    let is_hidden = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let has_ending = path
        .extension()
        .is_some_and(|extension| ENDINGS.iter().any(|ending| extension == *ending));
    has_ending && !is_hidden && path.is_file()
}

/// Returns the folder's name for `tools.jsonl` and `tools.json`, else the file's name without its
/// ending.
fn default_source(file: &Path) -> Option<String> {
    // A relative path such as `tools.json` lacks the folder.
    let file = file.canonicalize().ok()?;
    let represents_folder = FOLDER_FILES.iter().any(|name| file.ends_with(name));
    let name = if represents_folder {
        file.parent()?.file_name()
    } else {
        file.file_stem()
    };
    let name = name?.to_string_lossy().into_owned();
    let is_generic = GENERIC_STEMS.contains(&name.to_lowercase().as_str());
    if is_generic { None } else { Some(name) }
}
