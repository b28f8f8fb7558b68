//! Several calls in one: `multi_tool_use.parallel`, a tool that OpenAI's models call although they
//! were not shown it.

use picktools::catalog::spelling::normalise;
use picktools::names::name_forms;
use picktools_provider::{Arguments, CallResult, ToolCall};
use serde_json::{Map, Value, json};

use crate::{CallError, Hydrator, arguments};

/// The name of the tool that contains other calls.
const PARALLEL: &str = "multi_tool_use.parallel";
/// The most calls in one.
const MAX_USES: usize = 32;

impl Hydrator {
    /// Returns the calls, with the uses of a call of `multi_tool_use.parallel` in its place. They
    /// have its id; see [`join_results`].
    pub fn expand_parallel(&self, calls: Vec<ToolCall>) -> Vec<ToolCall> {
        let mut expanded = Vec::with_capacity(calls.len());
        for call in calls {
            match self.parallel_uses(&call) {
                Some(mut uses) => expanded.append(&mut uses),
                None => expanded.push(call),
            }
        }
        expanded
    }

    /// Returns the uses of a call of `multi_tool_use.parallel`, unless a tool has this name or a
    /// use cannot be read.
    pub fn parallel_uses(&self, call: &ToolCall) -> Option<Vec<ToolCall>> {
        let forms = name_forms(&call.name);
        let is_parallel = forms
            .iter()
            .any(|form| normalise(form) == normalise(PARALLEL));
        if !is_parallel
            || !matches!(
                self.resolve_unlogged(&call.name),
                Err(CallError::UnknownTool { .. })
            )
        {
            return None;
        }
        let contents = match &call.arguments {
            Arguments::Json(value) => value.clone(),
            Arguments::Text(text) => arguments::parse(text).ok()?,
        };
        let uses = contents.get("tool_uses")?.as_array()?;
        if uses.is_empty() || uses.len() > MAX_USES {
            return None;
        }
        uses.iter().map(|each| read_use(call, each)).collect()
    }
}

fn read_use(call: &ToolCall, each: &Value) -> Option<ToolCall> {
    let name = each.get("recipient_name")?.as_str()?;
    let arguments = match each.get("parameters") {
        Some(Value::String(text)) => Arguments::Text(text.clone()),
        Some(value) => Arguments::Json(value.clone()),
        None => Arguments::Json(Value::Object(Map::new())),
    };
    Some(ToolCall {
        id: call.id.clone(),
        name: name.to_owned(),
        arguments,
    })
}

/// Joins adjacent results with one id, as a provider takes one result for each call.
pub fn join_results(results: Vec<CallResult>) -> Vec<CallResult> {
    let mut joined: Vec<Vec<CallResult>> = Vec::new();
    for result in results {
        match joined.last_mut() {
            Some(group) if result.id.is_some() && group[0].id == result.id => group.push(result),
            _ => joined.push(vec![result]),
        }
    }
    joined.into_iter().filter_map(join_group).collect()
}

fn join_group(mut group: Vec<CallResult>) -> Option<CallResult> {
    if group.len() < 2 {
        return group.pop();
    }
    let outputs = group.iter().map(|result| match &result.outcome {
        Ok(output) => json!({"tool": result.name, "output": output}),
        Err(error) => json!({"tool": result.name, "error": error}),
    });
    let outputs: Value = outputs.collect();
    let mut first = group.swap_remove(0);
    PARALLEL.clone_into(&mut first.name);
    first.outcome = Ok(outputs);
    Some(first)
}
