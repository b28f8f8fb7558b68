//! References within a document.

use serde_json::{Map, Value};

use super::error::{OperationError, OperationProblem};
use picktools::excerpt::marked;
use picktools::schema::{decode_fragment, kind, pointer_part};

/// The longest chain of references.
const MAX_HOPS: usize = 32;
/// The longest excerpt of a reference, in characters.
const MAX_EXCERPT_CHARS: usize = 120;

/// Resolver for the references of a document.
#[derive(Clone, Copy)]
pub(super) struct References<'d> {
    root: &'d Value,
}

impl<'d> References<'d> {
    pub(super) fn new(root: &'d Value) -> Self {
        Self { root }
    }

    /// Returns the target of one reference.
    pub(super) fn target(&self, reference: &str, at: &str) -> Result<&'d Value, OperationError> {
        let excerpt = || marked(reference, MAX_EXCERPT_CHARS).into_owned();
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(OperationError::new(
                at,
                OperationProblem::OtherDocument(excerpt()),
            ));
        };
        let fragment = decode_fragment(fragment);
        let is_pointer = fragment.is_empty() || fragment.starts_with('/');
        match self.root.pointer(&fragment) {
            Some(target) if is_pointer => Ok(target),
            _ => Err(OperationError::new(
                at,
                OperationProblem::BrokenReference(excerpt()),
            )),
        }
    }

    /// Follows references from a value to the value that they lead to.
    pub(super) fn follow(&self, value: &'d Value, at: &str) -> Result<&'d Value, OperationError> {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            match reference(value) {
                Some(reference) => value = self.target(reference, at)?,
                None => return Ok(value),
            }
        }
        let last = reference(value).unwrap_or_default();
        Err(OperationError::new(
            at,
            OperationProblem::CircularReference(marked(last, MAX_EXCERPT_CHARS).into_owned()),
        ))
    }

    /// Follows references to an object.
    pub(super) fn object(
        &self,
        value: &'d Value,
        at: &str,
    ) -> Result<&'d Map<String, Value>, OperationError> {
        let value = self.follow(value, at)?;
        let not_an_object = || OperationProblem::WrongKind {
            found: kind(value),
            expected: "an object",
        };
        value
            .as_object()
            .ok_or_else(|| OperationError::new(at, not_an_object()))
    }
}

/// Returns the reference that a value consists of.
pub(super) fn reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()
}

/// Returns the text of a member; `None` if it is absent or has another type.
pub(super) fn text_member<'d>(members: &'d Map<String, Value>, key: &str) -> Option<&'d str> {
    members.get(key)?.as_str()
}

/// Returns the items of an array; empty if the member is absent or has another type.
pub(super) fn array_member<'d>(members: &'d Map<String, Value>, key: &str) -> &'d [Value] {
    match members.get(key) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

/// Returns the entries of an object; empty if the member is absent or has another type.
pub(super) fn object_member<'d>(
    members: &'d Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'d String, &'d Value)> + use<'d> {
    let object = members.get(key).and_then(Value::as_object);
    object.into_iter().flatten()
}

/// Escapes a key for a JSON pointer.
pub(super) fn part(key: &str) -> String {
    pointer_part(&marked(key, MAX_EXCERPT_CHARS))
}
