//! The schema of a tool's arguments, and its alternatives.

use std::cell::Cell;

use picktools::schema::{ArgumentCheck, ArgumentFault};
use serde_json::Value;

use crate::Repair;

/// The schema of a tool's arguments.
#[derive(Clone, Copy)]
pub(crate) struct ArgumentSchema<'a> {
    pub(crate) check: &'a ArgumentCheck,
    pub(crate) schema: &'a Value,
    /// The name of the tool.
    pub(crate) tool: &'a str,
    /// The alternative of `anyOf` or `oneOf` in which a value is mended.
    pub(crate) alternative: Option<&'a Alternative<'a>>,
    /// The work in alternatives that is left for the call.
    pub(crate) work_left: &'a Cell<usize>,
}

/// An alternative of the value at a JSON pointer.
pub(crate) struct Alternative<'a> {
    /// The alternative that contains it.
    pub(super) outer: Option<&'a Self>,
    pub(super) pointer: &'a str,
    /// `anyOf` or `oneOf`.
    pub(super) keyword: &'a str,
    pub(super) index: usize,
}

impl Alternative<'_> {
    pub(super) fn level(&self) -> usize {
        1 + self.outer.map_or(0, Alternative::level)
    }

    /// Returns the faults in the alternative; none if the value matches one of the alternatives.
    pub(super) fn select(&self, faults: Vec<ArgumentFault>) -> Vec<ArgumentFault> {
        let faults = match self.outer {
            Some(outer) => outer.select(faults),
            None => faults,
        };
        let is_own =
            |fault: &ArgumentFault| fault.pointer == self.pointer && fault.keyword == self.keyword;
        let own = faults.into_iter().find(is_own);
        let mut alternatives = own.map(|fault| fault.alternatives).unwrap_or_default();
        if self.index >= alternatives.len() {
            return Vec::new();
        }
        alternatives.swap_remove(self.index)
    }
}

/// Normalised arguments, with the changes.
pub(super) type Normalised = (Value, Vec<Repair>);

/// Returns `true` if a place is a JSON pointer's, or inside its value.
pub(super) fn is_at_or_inside(place: &str, pointer: &str) -> bool {
    let rest = place.strip_prefix(pointer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
