//! Runs an agent: it picks tools for a request, asks a model, runs the calls of its answers, and
//! returns the results to it, until the model answers or the limit of rounds is reached.
//!
//! The model is a script, so that the example needs no key. `picktools_llm::ProviderClient` is a
//! client of real models.
//!
//! ```console
//! $ cargo run -p picktools-examples --bin agent -- "will it rain in Bergen?"
//! ```

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;
use std::sync::Arc;

use picktools::{Access, Tool};
use picktools_call::client::{ClientFuture, ToolClient};
use picktools_provider::Provider;
use picktools_runtime::{
    AgentLimits, AgentLoop, EventKind, FunctionTool, ToolManager, ToolResult, Topic,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct WeatherArguments {
    /// The name of the city.
    city: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let request = std::env::args().nth(1);
    let request = request.unwrap_or_else(|| "will it rain in Bergen?".to_owned());
    for line in run(
        &request,
        AgentLimits {
            rounds: 5,
            ..AgentLimits::default()
        },
    )
    .await?
    {
        println!("{line}");
    }
    Ok(())
}

/// Runs one turn of the agent, and returns its calls and its answer as lines.
async fn run(request: &str, limits: AgentLimits) -> Result<Vec<String>, Box<dyn Error>> {
    // The schema of a tool comes from the type of its arguments.
    let weather = FunctionTool::typed::<WeatherArguments, _, _>(
        "get_weather",
        "The weather in a city",
        |arguments, _context| async move {
            ToolResult::success().field("weather", format!("rain in {}", arguments.city))
        },
    );
    let time = Tool::without_arguments("get_time", "The current time");
    let time = FunctionTool::new(time, |_, _| async {
        ToolResult::success().field("time", "12:00")
    });
    let access = Access::default();
    let manager = ToolManager::builder(access)
        .tool(weather)
        .tool(time)
        .build()?;
    let mut events = manager.events().subscribe(Topic::All);

    let agent = AgentLoop::new(Arc::new(ScriptedModel), manager)?.limits(limits);
    // The body is the conversation: the next turn continues it.
    let mut body = json!({"model": "scripted"});
    let turn = agent.run_turn(&mut body, request).await?;

    let mut lines = Vec::new();
    while let Some(received) = events.try_next() {
        let tool = &received.event.call.names.canonical;
        match &received.event.kind {
            EventKind::Start { arguments, .. } => lines.push(format!("{tool} {arguments}")),
            EventKind::Error { result } => lines.push(result.error().to_owned()),
            _ => {}
        }
    }
    lines.push(format!("{:?}: {}", turn.end, turn.text));
    lines.push(format!("{} rounds, {} calls", turn.rounds, turn.calls));
    Ok(lines)
}

/// A model that first makes an invalid call, then corrects it, and then answers with the result.
struct ScriptedModel;

impl ToolClient for ScriptedModel {
    fn provider(&self) -> Provider {
        Provider::OpenAiChat
    }

    fn send(&self, body: Value) -> ClientFuture<'_> {
        let results: Vec<Value> = body["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|message| message["role"] == "tool")
            .cloned()
            .collect();
        let message = match results.len() {
            0 => call("call_1", &json!({"town": 5})),
            1 => call("call_2", &json!({"city": "Bergen"})),
            _ => json!({"role": "assistant", "content": results[1]["content"]}),
        };
        Box::pin(async move { Ok(json!({"choices": [{"message": message}]})) })
    }
}

/// Returns the message of a model with one call.
fn call(id: &str, arguments: &Value) -> Value {
    let function = json!({"name": "get_weather", "arguments": arguments.to_string()});
    let call = json!({"id": id, "type": "function", "function": function});
    json!({"role": "assistant", "content": null, "tool_calls": [call]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn agent_corrects_its_call_and_answers() {
        let lines = run("will it rain in Bergen?", AgentLimits::default()).await;
        let expected = [
            "get_weather(town=5): city is required",
            r#"get_weather {"city":"Bergen"}"#,
            "Answered: rain in Bergen",
            "3 rounds, 2 calls",
        ];
        assert_eq!(lines.expect("the model answers"), expected);
    }

    #[tokio::test]
    async fn agent_ends_at_its_limit_of_rounds() {
        let limits = AgentLimits {
            rounds: 1,
            ..AgentLimits::default()
        };
        let lines = run("will it rain in Bergen?", limits).await;
        let lines = lines.expect("the model answers");
        assert_eq!(lines[1..], ["Rounds: ", "1 rounds, 1 calls"]);
    }
}
