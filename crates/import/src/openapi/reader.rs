//! The [`DocumentReader`] for OpenAPI documents.

use picktools::catalog::{
    DocumentError, DocumentOperation, DocumentReader, OperationFault, ToolDocument,
};
use serde_json::Value;

use super::{
    Document, SkippedOperation, from_value, is_document, is_yaml_document, parse_document,
};

/// Reader for OpenAPI documents in JSON or YAML: each operation becomes a tool.
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
        Ok(tools(parse_document(text)?))
    }
}

/// Lists the valid operations, followed by the invalid ones.
fn tools(document: Document) -> ToolDocument {
    let source = document.source();
    let count = document.operations.len() + document.left_out.len();
    let mut operations = Vec::with_capacity(count);
    for operation in document.operations {
        operations.push(DocumentOperation {
            label: operation.label.clone(),
            tool: Ok(operation.into_tool()),
        });
    }
    for skipped in document.left_out {
        let SkippedOperation {
            operation,
            pointer,
            problem,
        } = skipped;
        operations.push(DocumentOperation {
            label: operation,
            tool: Err(OperationFault {
                pointer,
                message: problem.message(),
                remedy: problem.remedy(),
            }),
        });
    }
    ToolDocument { source, operations }
}
