//! The result of a call: its size is bounded, and its texts are scanned.

use std::sync::Arc;

use picktools_call::ValidCall;
use rmcp::model::{CallToolResult, MetaObject};
use serde_json::json;

use super::authorise::AuthorisedCall;
use super::runner::{CallOutcome, CallRunner};
use crate::large_results::ResultOrigin;
use crate::refusal::Refusal;
use crate::{passthrough, results};

impl CallRunner<'_> {
    /// Bounds and scans the result of a call.
    pub(super) async fn bound_and_scan(
        &self,
        authorised: AuthorisedCall,
        call: &ValidCall,
        mut result: CallToolResult,
    ) -> Result<CallOutcome, Refusal> {
        let AuthorisedCall {
            snapshot, upstream, ..
        } = authorised;
        let settings = &snapshot.settings;
        passthrough::rewrite_uris(&mut result, settings.names, &upstream.server.name);
        let mut note = None;
        // Only a call over MCP has a context. Its result is for a model, so it is shortened; a
        // program that uses the HTTP API gets the complete result.
        if self.context.is_some() {
            let definition = snapshot.definition(call.tool());
            let origin = || ResultOrigin {
                owner: self.caller.owner.clone(),
                upstream: upstream.display_name(),
                scan: upstream.rules.scan,
                output_schema: definition
                    .and_then(|definition| definition.value().get("outputSchema").cloned()),
            };
            let results = &self.gateway.calls.large_results;
            let shortened = results
                .shorten_in_background(result, settings.results.max_tokens, origin)
                .await?;
            (result, note) = (shortened.result, shortened.note);
        }
        results::bound(&mut result, settings.results.max_bytes);
        let is_cut = note.is_some();
        result.content.extend(note);
        results::scan(&mut result, upstream.rules.scan, &upstream.display_name())?;
        add_call_meta(&mut result, call);
        Ok(CallOutcome {
            response: result.into(),
            is_cut,
            tool: Arc::clone(call.tool()),
            snapshot,
        })
    }
}

/// Adds the id of the tool, and the repairs of the arguments, to the result.
fn add_call_meta(result: &mut CallToolResult, call: &ValidCall) {
    let meta = result.meta.get_or_insert_with(MetaObject::new);
    meta.0
        .insert("picktools/tool".to_owned(), json!(call.tool().id));
    if !call.repaired().is_empty() {
        let repaired: Vec<String> = call.repaired().iter().map(ToString::to_string).collect();
        meta.0
            .insert("picktools/repaired".to_owned(), json!(repaired));
    }
}
