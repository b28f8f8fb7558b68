//! Values in a policy that no tool of the catalog has.

use std::fmt;

use serde::Serialize;

/// The lowest similarity of a suggested value, 0..1 (Jaro–Winkler).
const SUGGESTION_SIMILARITY: f64 = 0.8;

/// A value in a policy that no tool of the catalog has, such as a misspelt role or source. It is
/// not an error, and it never admits more tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct UnknownValue {
    /// The field of the policy.
    pub field: &'static str,
    /// The unknown value.
    pub value: String,
    /// The nearest value in the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl UnknownValue {
    pub(crate) fn new<'a>(
        field: &'static str,
        value: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) -> Self {
        let lower = value.to_lowercase();
        let similarity = |candidate: &str| strsim::jaro_winkler(&lower, &candidate.to_lowercase());
        let scored = candidates.map(|candidate| (similarity(candidate), candidate));
        let similar = scored.filter(|(similarity, _)| *similarity >= SUGGESTION_SIMILARITY);
        let nearest = similar
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
            .map(|(_, candidate)| candidate.to_owned());
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
