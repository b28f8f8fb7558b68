//! What a policy names and no tool of a catalog has.

use std::fmt;

use serde::Serialize;

/// How alike a known value is to be suggested, 0..1 (Jaro–Winkler).
const SUGGESTION_SIMILARITY: f64 = 0.8;

/// A value of a policy that no tool of the catalog has, such as a misspelt role or source. It is
/// not an error, and never lets more be seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct UnknownValue {
    /// The field of the policy.
    pub field: &'static str,
    /// The value as it was given.
    pub value: String,
    /// The nearest value that the catalog has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl UnknownValue {
    pub(crate) fn new<'a>(
        field: &'static str,
        value: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let lower = value.to_lowercase();
        let near = known.map(|known| (strsim::jaro_winkler(&lower, &known.to_lowercase()), known));
        let near = near.filter(|(similarity, _)| *similarity >= SUGGESTION_SIMILARITY);
        let nearest = near
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
            .map(|(_, known)| known.to_owned());
        Self {
            field,
            value: value.to_owned(),
            nearest,
        }
    }
}

impl fmt::Display for UnknownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: no tool of the catalog has {:?}",
            self.field, self.value
        )?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean {nearest:?}?)"),
            None => Ok(()),
        }
    }
}
