//! Views: schemas as a provider sees them.
//!
//! A view is built in one walk over the original schema. There are four dialects. `plain` keeps
//! nearly everything (OpenAI and Anthropic without strict mode). `strict` keeps what these two can
//! enforce, or reports why they cannot. `gemini` and `ollama` write their own subsets.
//!
//! `builder` contains the common parts: limits, references and the list of changes. `merge` resolves
//! the references of a node and merges its `allOf`.
//!
//! Schemas are untrusted. A walk is limited in depth and in the number of nodes, even if references
//! are repeated. Parts beyond the limits are cut and reported.

mod builder;
mod dialect;
mod gemini;
mod merge;
mod node;
mod ollama;
mod plain;
mod strict;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::builder::{SchemaView, ViewBuilder, ViewChange};
use super::Provider;
use super::changes::ChangeCode;

pub(super) use self::dialect::Dialect;
pub(super) use self::node::{array_member, includes, kind_of, kinds, properties, text_member};

/// Builds the view of `schema` for `provider`. If a strict view is impossible, a loose one reports
/// the reason.
pub(super) fn make(provider: Provider, schema: &Value, strict: bool) -> SchemaView {
    let mut refusal = None;
    if strict && provider.has_strict() {
        let mut view = ViewBuilder::new(provider, schema);
        match strict::root(&mut view) {
            Ok(schema) => return view.finish(Some(schema), true),
            Err(error) => refusal = Some(error),
        }
    }
    let mut view = ViewBuilder::new(provider, schema);
    if let Some(strict::StrictError { pointer, reason }) = refusal {
        view.changes.push(ViewChange {
            pointer,
            code: ChangeCode::NotStrict,
            detail: format!("not strict: {reason}"),
        });
    } else if strict {
        let detail =
            format!("{provider} does not support strict schemas; calls are validated anyway");
        view.change(ChangeCode::StrictUnavailable, detail);
    }
    let schema = match provider.format().rules().dialect {
        Dialect::OpenAi | Dialect::Anthropic => Some(plain::root(&mut view)),
        Dialect::Gemini => gemini::root(&mut view),
        Dialect::Ollama => Some(ollama::root(&mut view)),
        Dialect::JsonSchema => Some(plain::json_schema(&mut view)),
    };
    view.finish(schema, false)
}
