//! A call of `multi_tool_use.parallel`: its uses run at once, and their results become one.

use futures_util::future::join_all;
use picktools_provider::ToolCall;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, MetaObject};
use serde_json::{Value, json};

use crate::api_keys::KeyRateLimit;
use crate::refusal::Refusal;

/// A use of a parallel call, with its result.
struct UseResult {
    name: String,
    result: CallToolResult,
}

impl UseResult {
    /// Creates the result of a use that the model calls `name`. A question to the client is not a
    /// result, see [`CallRunner::run_use`](crate::calls::CallRunner::run_use).
    fn new(name: String, response: Result<CallToolResponse, Refusal>) -> Self {
        let result = match response {
            Ok(CallToolResponse::Complete(result)) => result,
            Ok(_) => Refusal::question_in_use(&name).result(),
            Err(refusal) => refusal.result(),
        };
        Self { name, result }
    }

    fn has_failed(&self) -> bool {
        self.result.is_error == Some(true)
    }

    /// Returns the line in front of the result.
    fn label(&self, number: usize) -> ContentBlock {
        let failed = if self.has_failed() { " failed" } else { "" };
        ContentBlock::text(format!("[{number}] {}{failed}", self.name))
    }
}

/// Runs the uses of a parallel call, and joins their results. Each use counts as a request of the
/// caller's key; the first one is counted with the request itself.
pub async fn run_uses<F>(
    uses: Vec<ToolCall>,
    limit: Option<&KeyRateLimit>,
    run: impl Fn(ToolCall) -> F,
) -> CallToolResult
where
    F: Future<Output = Result<CallToolResponse, Refusal>>,
{
    let run = &run;
    let run_counted = |(index, call): (usize, ToolCall)| async move {
        let name = call.name.clone();
        let further = limit.filter(|_| index > 0);
        let response = match further {
            Some(limit) => match limit.count_more().await {
                Ok(()) => run(call).await,
                Err(refusal) => Err(refusal),
            },
            None => run(call).await,
        };
        UseResult::new(name, response)
    };
    join_uses(join_all(uses.into_iter().enumerate().map(run_counted)).await)
}

/// Joins the results of all uses. Each follows a line with its number and its tool. Its metadata is
/// in `picktools/uses`. The result is an error if every use failed.
fn join_uses(uses: Vec<UseResult>) -> CallToolResult {
    let have_all_failed = uses.iter().all(UseResult::has_failed);
    let mut content = Vec::new();
    let mut summaries = Vec::with_capacity(uses.len());
    for (index, each) in uses.into_iter().enumerate() {
        content.push(each.label(index + 1));
        summaries.push(summary(&each));
        let UseResult { result, .. } = each;
        // Structured content has no place of its own. Nearly all servers repeat it as text.
        if let Some(structured) = result.structured_content
            && result.content.is_empty()
        {
            content.push(ContentBlock::text(structured.to_string()));
        }
        content.extend(result.content);
    }
    let mut meta = MetaObject::new();
    meta.0.insert("picktools/uses".to_owned(), json!(summaries));
    let joined = match have_all_failed {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    joined.with_meta(Some(meta))
}

fn summary(each: &UseResult) -> Value {
    json!({
        "name": each.name,
        "isError": each.has_failed(),
        "_meta": each.result.meta.clone().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_content_without_text_is_kept() {
        let mut result = CallToolResult::success(Vec::new());
        result.structured_content = Some(json!({"sum": 3}));
        let uses = vec![UseResult::new("add".to_owned(), Ok(result.into()))];
        let joined = json!(join_uses(uses));
        assert_eq!(joined["content"][0]["text"], "[1] add");
        assert_eq!(joined["content"][1]["text"], "{\"sum\":3}");
    }
}
