//! References within a document.

use serde_json::{Map, Value};

use super::error::{Fault, Refusal};
use picktools::excerpt::marked;
use picktools::schema::{decoded, kind, pointer_part};

/// The most references that lead from one to the next.
const MAX_HOPS: usize = 32;
/// How much of a reference is shown.
const MAX_SHOWN_CHARS: usize = 120;

/// A document that references lead into.
#[derive(Clone, Copy)]
pub(super) struct References<'d> {
    root: &'d Value,
}

impl<'d> References<'d> {
    pub(super) fn new(root: &'d Value) -> Self {
        Self { root }
    }

    /// Where one reference leads.
    pub(super) fn target(&self, reference: &str, at: &str) -> Result<&'d Value, Fault> {
        let shown = || marked(reference, MAX_SHOWN_CHARS).into_owned();
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(Fault::new(at, Refusal::OtherDocument(shown())));
        };
        let fragment = decoded(fragment);
        let rooted = fragment.is_empty() || fragment.starts_with('/');
        let target = self.root.pointer(&fragment).filter(|_| rooted);
        target.ok_or_else(|| Fault::new(at, Refusal::BrokenReference(shown())))
    }

    /// The value itself, or where its references lead.
    pub(super) fn follow(&self, value: &'d Value, at: &str) -> Result<&'d Value, Fault> {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            match reference(value) {
                Some(reference) => value = self.target(reference, at)?,
                None => return Ok(value),
            }
        }
        let last = reference(value).unwrap_or_default();
        Err(Fault::new(
            at,
            Refusal::CircularReference(marked(last, MAX_SHOWN_CHARS).into_owned()),
        ))
    }

    /// As [`Self::follow`], of an object.
    pub(super) fn object(
        &self,
        value: &'d Value,
        at: &str,
    ) -> Result<&'d Map<String, Value>, Fault> {
        let value = self.follow(value, at)?;
        let wrong = || Refusal::WrongKind {
            found: kind(value),
            wanted: "an object",
        };
        value.as_object().ok_or_else(|| Fault::new(at, wrong()))
    }
}

/// The reference that a value is.
pub(super) fn reference(value: &Value) -> Option<&str> {
    value.get("$ref").and_then(Value::as_str)
}

/// A key as a part of a JSON pointer.
pub(super) fn part(key: &str) -> String {
    pointer_part(&marked(key, MAX_SHOWN_CHARS))
}
