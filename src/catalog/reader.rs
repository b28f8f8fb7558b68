//! Readers of documents that describe tools in a format of their own, such as OpenAPI.

use std::error::Error;
use std::fmt;

use serde_json::Value;

/// A reader of one document format.
///
/// A catalog tries the readers of [`CatalogOptions::readers`](super::CatalogOptions::readers) on
/// every file. `picktools-import` has the reader of OpenAPI.
pub trait DocumentReader: fmt::Debug + Send + Sync {
    /// Returns the name of the format, a noun such as `OpenAPI document`.
    fn format(&self) -> &'static str;

    /// Returns `true` if a JSON value is a document of this format.
    fn recognizes(&self, document: &Value) -> bool;

    /// Returns `true` if a text that is not JSON looks like a document of this format.
    fn recognizes_text(&self, text: &str) -> bool;

    /// Reads a document that [`recognizes`](Self::recognizes) accepted.
    ///
    /// # Errors
    ///
    /// The reason why nothing of the document can be read.
    fn read(&self, document: &Value) -> Result<ToolDocument, DocumentError>;

    /// Reads a text that [`recognizes_text`](Self::recognizes_text) accepted.
    ///
    /// # Errors
    ///
    /// The reason why nothing of the document can be read.
    fn read_text(&self, text: &str) -> Result<ToolDocument, DocumentError>;
}

/// An error of a [`DocumentReader`].
pub type DocumentError = Box<dyn Error + Send + Sync>;

/// The tools of a document.
#[derive(Debug, Clone, Default)]
pub struct ToolDocument {
    /// The source of the tools if the caller gives none.
    pub source: Option<String>,
    /// The operations, in the order in which the catalog registers them.
    pub operations: Vec<DocumentOperation>,
}

/// An operation of a document.
#[derive(Debug, Clone)]
pub struct DocumentOperation {
    /// The name in messages, such as `GET /pets`.
    pub label: String,
    /// The tool definition as JSON, or the reason why the operation makes no tool.
    pub tool: Result<Value, OperationFault>,
}

/// The reason why an operation makes no tool.
#[derive(Debug, Clone)]
pub struct OperationFault {
    /// The JSON pointer into the document.
    pub pointer: String,
    /// The fault.
    pub message: String,
    /// The fix.
    pub remedy: String,
}
