//! OpenAPI documents as files of a catalog.

use picktools::catalog::{
    DocumentError, DocumentOperation, DocumentReader, OperationFault, ToolDocument,
};
use serde_json::Value;

use super::{Document, LeftOut, from_value, is_document, is_yaml_document, read};

/// Reads OpenAPI documents, JSON or YAML: each operation becomes a tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenApiReader;

impl DocumentReader for OpenApiReader {
    fn format(&self) -> &'static str {
        "OpenAPI document"
    }

    fn recognizes(&self, document: &Value) -> bool {
        is_document(document)
    }

    fn recognizes_text(&self, text: &str) -> bool {
        is_yaml_document(text)
    }

    fn read(&self, document: &Value) -> Result<ToolDocument, DocumentError> {
        Ok(tools(from_value(document)?))
    }

    fn read_text(&self, text: &str) -> Result<ToolDocument, DocumentError> {
        Ok(tools(read(text)?))
    }
}

/// Lists the operations that were read, and behind them those that were not.
fn tools(document: Document) -> ToolDocument {
    let source = document.source();
    let read = document
        .operations
        .into_iter()
        .map(|operation| DocumentOperation {
            label: operation.label.clone(),
            tool: Ok(operation.into_tool()),
        });
    let left_out = document.left_out.into_iter().map(
        |LeftOut {
             operation,
             pointer,
             refusal,
         }| DocumentOperation {
            label: operation,
            tool: Err(OperationFault {
                pointer,
                message: refusal.message(),
                remedy: refusal.remedy(),
            }),
        },
    );
    ToolDocument {
        source,
        operations: read.chain(left_out).collect(),
    }
}
