//! Faults of entries.

use super::definition::Tool;
use super::error::{CatalogFault, FaultKind, Position};

/// A fault of an entry.
#[derive(Clone)]
pub(super) struct EntryFault {
    pub(super) kind: FaultKind,
    pub(super) name: Option<String>,
    pub(super) pointer: String,
    pub(super) message: String,
    pub(super) remedy: String,
}

impl EntryFault {
    pub(super) fn new(
        pointer: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (pointer, message, remedy) = (pointer.into(), message.into(), remedy.into());
        Self {
            kind: FaultKind::InvalidEntry,
            name: None,
            pointer,
            message,
            remedy,
        }
    }

    /// Returns the same fault with another kind.
    pub(super) fn with_kind(self, kind: FaultKind) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn at(self, position: &Position, tool: Option<&Tool>) -> CatalogFault {
        CatalogFault {
            position: position.clone(),
            kind: self.kind,
            name: self.name.or_else(|| tool.map(|tool| tool.name.clone())),
            pointer: self.pointer,
            message: self.message,
            remedy: self.remedy,
        }
    }
}
