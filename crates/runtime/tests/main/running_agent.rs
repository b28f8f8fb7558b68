//! Tests of the loop of an agent, and of the tool `agent`, against a scripted model.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picktools::{Access, Tool};
use picktools_call::client::{ClientFuture, ToolClient};
use picktools_provider::{Arguments, Provider, ToolCall};
use picktools_runtime::{
    AgentEnd, AgentLimits, AgentLoop, AgentTool, ErrorType, EventType, ExecutedCall, FunctionTool,
    RunnableTool, ToolManager, ToolManagerBuilder, ToolResult, Topic,
};
use serde_json::{Value, json};

/// A model that gives the answers of a script, and the last one again and again.
struct ScriptedModel {
    provider: Provider,
    answers: Mutex<VecDeque<Value>>,
    requests: Mutex<Vec<Value>>,
    delay: Duration,
}

impl ToolClient for ScriptedModel {
    fn provider(&self) -> Provider {
        self.provider
    }

    fn send(&self, body: Value) -> ClientFuture<'_> {
        self.requests.lock().expect("no panic").push(body);
        let mut answers = self.answers.lock().expect("no panic");
        let answer = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop_front().expect("the script has an answer"),
        };
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            Ok(answer)
        })
    }
}

fn model_of(provider: Provider, answers: impl IntoIterator<Item = Value>) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel {
        provider,
        answers: Mutex::new(answers.into_iter().collect()),
        requests: Mutex::default(),
        delay: Duration::ZERO,
    })
}

fn model(answers: impl IntoIterator<Item = Value>) -> Arc<ScriptedModel> {
    model_of(Provider::OpenAiChat, answers)
}

/// Returns an answer of a model with calls without arguments.
fn calls(names: &[&str]) -> Value {
    let call = |(index, name): (usize, &&str)| {
        let arguments = match *name {
            "agent" => json!({"task": "look for notes"}),
            _ => json!({}),
        };
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"id": format!("id{index}"), "type": "function", "function": function})
    };
    let calls: Vec<Value> = names.iter().enumerate().map(call).collect();
    let message = json!({"role": "assistant", "content": "working", "tool_calls": calls});
    json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
}

fn text(text: &str) -> Value {
    json!({"choices": [{"message": {"role": "assistant", "content": text}}]})
}

fn answers_with(definition: Tool, field: &'static str) -> impl RunnableTool + 'static {
    FunctionTool::new(definition, move |_, context| async move {
        context.emit_output_chunk("output\n");
        ToolResult::success().field("found", field)
    })
}

fn notes() -> impl RunnableTool + 'static {
    let definition = Tool::without_arguments("find_notes", "Looks for notes");
    answers_with(definition, "a note")
}

fn wipe() -> impl RunnableTool + 'static {
    let mut definition = Tool::without_arguments("wipe_notes", "Deletes notes");
    definition.safe = Some(false);
    answers_with(definition, "nothing")
}

fn allowed() -> Access {
    Access {
        allow_unsafe: true,
        ..Access::default()
    }
}

fn built(builder: ToolManagerBuilder) -> ToolManager {
    builder.build().expect("the tools are valid")
}

async fn run_agent(manager: &ToolManager) -> ExecutedCall {
    let call = ToolCall {
        id: None,
        name: "agent".to_owned(),
        arguments: Arguments::Json(json!({"task": "look for notes, delete notes"})),
    };
    manager.execute(&call).await
}

fn agent(model: &Arc<ScriptedModel>) -> AgentTool {
    AgentTool::new(
        Arc::clone(model) as Arc<dyn ToolClient>,
        json!({"model": "m"}),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_runs_calls_until_the_model_answers() {
    let model = model([calls(&["find_notes"]), text("There is a note.")]);
    let manager = built(ToolManager::builder(Access::default()).tool(notes()));
    let client = Arc::clone(&model) as Arc<dyn ToolClient>;
    let agent = AgentLoop::new(client, manager).expect("the tools can be indexed");
    let mut body = json!({"model": "m"});
    let turn = agent.run_turn(&mut body, "look for notes").await;
    let turn = turn.expect("the model answers");
    assert_eq!(
        (turn.rounds, turn.calls, turn.end),
        (2, 1, AgentEnd::Answered)
    );
    assert_eq!(turn.text, "There is a note.");
    let roles: Vec<&str> = body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| message["role"].as_str().expect("a role"))
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert_eq!(body["messages"][2]["content"], "a note");
    let requests = model.requests.lock().expect("no panic");
    assert_eq!(requests[0]["tools"][0]["function"]["name"], "find_notes");
    assert_eq!(requests[1]["messages"][2]["tool_call_id"], "id0");
}

#[tokio::test(flavor = "multi_thread")]
async fn turn_has_the_form_of_each_provider() {
    let name = "find_notes";
    let item = json!({"type": "function_call", "call_id": "1", "name": name, "arguments": "{}"});
    let output = json!([{"type": "output_text", "text": "done"}]);
    let message = json!({"type": "message", "role": "assistant", "content": output});
    let part = json!({"functionCall": {"name": name, "args": {}}});
    let content =
        |part: &Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}}]});
    let call = json!({"function": {"name": name, "arguments": {}}});
    for (provider, answers, member) in [
        (
            Provider::OpenAiResponses,
            [json!({"output": [item]}), json!({"output": [message]})],
            "input",
        ),
        (
            Provider::Anthropic,
            [
                json!({"content": [{"type": "tool_use", "id": "1", "name": name, "input": {}}]}),
                json!({"content": [{"type": "text", "text": "done"}]}),
            ],
            "messages",
        ),
        (
            Provider::Gemini,
            [content(&part), content(&json!({"text": "done"}))],
            "contents",
        ),
        (
            Provider::Ollama,
            [
                json!({"message": {"role": "assistant", "content": "", "tool_calls": [call]}}),
                json!({"message": {"role": "assistant", "content": "done"}}),
            ],
            "messages",
        ),
    ] {
        let model = model_of(provider, answers);
        let manager = built(ToolManager::builder(Access::default()).tool(notes()));
        let agent = AgentLoop::new(model, manager).expect("the tools can be indexed");
        let mut body = json!({"model": "m"});
        let turn = agent.run_turn(&mut body, "look for notes").await;
        let turn = turn.expect("the model answers");
        assert_eq!((turn.text.as_str(), turn.rounds), ("done", 2), "{provider}");
        let messages = body[member].as_array().expect("messages");
        assert_eq!(messages.len(), 4, "{provider}: {messages:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_reaches_each_of_its_limits() {
    let limits = AgentLimits::default();
    let slow = Arc::new(ScriptedModel {
        provider: Provider::OpenAiChat,
        answers: Mutex::new([text("late")].into()),
        requests: Mutex::default(),
        delay: Duration::from_secs(20),
    });
    let time = Duration::from_millis(200);
    for (model, limits, expected, rounds, calls) in [
        (
            model([calls(&["find_notes"])]),
            AgentLimits {
                rounds: 3,
                ..limits
            },
            "limit of 3 rounds",
            3,
            3,
        ),
        (
            model([calls(&["find_notes", "find_notes"])]),
            AgentLimits { calls: 3, ..limits },
            "limit of 3 calls",
            2,
            2,
        ),
        (slow, AgentLimits { time, ..limits }, "limit of 200ms", 0, 0),
    ] {
        let agent = agent(&model).tool(notes()).limits(limits);
        let manager = built(ToolManager::builder(Access::default()).tool(agent));
        let executed = run_agent(&manager).await;
        let result = &executed.result;
        assert!(result.error().contains(expected), "{}", result.error());
        assert_eq!(result.fields["rounds"], rounds, "{expected}");
        assert_eq!(result.fields["calls"], calls, "{expected}");
    }
    let long = model([text(&"é".repeat(100))]);
    let limits = AgentLimits {
        result_bytes: 15,
        ..limits
    };
    let manager = built(ToolManager::builder(Access::default()).tool(agent(&long).limits(limits)));
    let executed = run_agent(&manager).await;
    assert_eq!(executed.result.fields["result"], "é".repeat(7));
    assert_eq!(executed.result.fields["truncated"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_agent_name_the_call_around_them() {
    let model = model([calls(&["find_notes"]), text("done")]);
    let agent = agent(&model).tool(notes());
    let manager = built(ToolManager::builder(Access::default()).tool(agent));
    let mut events = manager.events().subscribe(Topic::All);
    let executed = run_agent(&manager).await;
    assert_eq!(executed.result.fields["result"], "done");
    let mut seen = Vec::new();
    while let Some(received) = events.try_next() {
        let event = json!(*received.event);
        let parent = event["data"]["parent_call_id"].as_str().map(str::to_owned);
        let (kind, call) = (&event["type"], &event["data"]["call_id"]);
        seen.push((format!("{kind} {call}").replace('"', ""), parent));
    }
    let outer = |kind: &str| (format!("{kind} call_1"), None);
    let inner = |kind: &str| (format!("{kind} call_1.call_1"), Some("call_1".to_owned()));
    let expected = [
        outer("tool_call_start"),
        inner("tool_call_start"),
        inner("tool_output_chunk"),
        inner("tool_call_end"),
        outer("tool_call_end"),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_may_do_no_more_than_its_caller() {
    let script = || model([calls(&["wipe_notes"]), text("done")]);
    let found = |model: &ScriptedModel| {
        let requests = model.requests.lock().expect("no panic");
        requests[1]["messages"][2]["content"].to_string()
    };
    let confirm_all = |_: &_| picktools_runtime::ConfirmationDecision::Allow;
    for (outer, inner, runs) in [
        (allowed(), allowed(), true),
        (Access::default(), allowed(), false),
        (allowed(), Access::default(), false),
    ] {
        let model = script();
        let agent = agent(&model).tool(wipe()).tool(notes()).access(inner);
        let builder = ToolManager::builder(outer).tool(agent);
        run_agent(&built(builder.confirm(confirm_all))).await;
        assert_eq!(found(&model).contains("nothing"), runs, "{}", found(&model));
    }
    // Exclusions of the caller hold in the agent, also if some name tools that it does not have.
    let model = script();
    let excluding = Access {
        exclude: ["wipe_notes".to_owned(), "other".to_owned()].into(),
        ..allowed()
    };
    let builder = ToolManager::builder(excluding)
        .tool(agent(&model).tool(wipe()).tool(notes()).access(allowed()))
        .tool(answers_with(
            Tool::without_arguments("other", "Another tool"),
            "x",
        ))
        .tool(wipe());
    run_agent(&built(builder.confirm(confirm_all))).await;
    assert!(!found(&model).contains("nothing"), "{}", found(&model));
    let unknown_role = Access {
        roles: ["admin".to_owned()].into(),
        ..Access::default()
    };
    let agent = agent(&model).tool(notes()).access(unknown_role);
    let executed = run_agent(&built(ToolManager::builder(Access::default()).tool(agent))).await;
    let failure = executed.result.failure.as_ref().expect("it is refused");
    assert_eq!(failure.error_type, ErrorType::Permission);
}

#[tokio::test(flavor = "multi_thread")]
async fn confirmations_of_an_agent_reach_its_caller() {
    let model = model([calls(&["wipe_notes"]), text("done")]);
    let agent = agent(&model).tool(wipe()).access(allowed());
    let builder = ToolManager::builder(allowed()).tool(agent);
    let manager = built(builder.confirm(|_: &_| picktools_runtime::ConfirmationDecision::Ask));
    let running = tokio::spawn({
        let manager = manager.clone();
        async move { run_agent(&manager).await }
    });
    manager.approvals().arrived().await;
    let waiting = manager.approvals().waiting();
    assert_eq!(waiting[0].1.tool().name, "wipe_notes");
    manager
        .approvals()
        .deny(waiting[0].0, "keep them")
        .expect("it waits");
    let executed = running.await.expect("no panic");
    assert_eq!(executed.result.fields["result"], "done");
    let requests = model.requests.lock().expect("no panic");
    let answer = requests[1]["messages"][2]["content"].to_string();
    assert!(answer.contains("keep them"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_start_no_agents_beyond_the_depth() {
    for (depth, refused) in [(1, true), (2, false)] {
        let inner_model = model([text("inner")]);
        let outer_model = model([calls(&["agent"]), text("outer")]);
        let inner = agent(&inner_model).tool(notes()).max_depth(9);
        let outer = agent(&outer_model).tool(inner).max_depth(depth);
        let manager = built(ToolManager::builder(Access::default()).tool(outer));
        let executed = run_agent(&manager).await;
        assert_eq!(executed.result.fields["result"], "outer");
        let requests = outer_model.requests.lock().expect("no panic");
        let answer = requests[1]["messages"][2]["content"].to_string();
        assert_eq!(answer.contains("limit of depth"), refused, "{answer}");
        assert_eq!(answer.contains("inner"), !refused, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_agent_cancels_its_calls() {
    let definition = Tool::without_arguments("wait_long", "Looks for notes, slowly");
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let waiting = FunctionTool::new(definition, move |_, context| {
        let started = started.clone();
        async move {
            started.send(()).expect("the test waits");
            context.cancelled().await;
            ToolResult::success()
        }
    });
    let model = model([calls(&["wait_long"])]);
    let manager = built(ToolManager::builder(Access::default()).tool(agent(&model).tool(waiting)));
    let mut events = manager.events().subscribe(Topic::All);
    let running = tokio::spawn({
        let manager = manager.clone();
        async move { run_agent(&manager).await }
    });
    starts.recv().await.expect("it starts");
    assert!(manager.cancel("call_1"));
    let executed = tokio::time::timeout(Duration::from_secs(10), running).await;
    let executed = executed.expect("it ends").expect("no panic");
    assert!(executed.result.error().contains("cancelled"));
    // No event of an inner call follows the end of the call around it.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut last = None;
    while let Some(received) = events.try_next() {
        last = Some(received.event);
    }
    let last = last.expect("there are events");
    assert_eq!(last.call.call_id, "call_1");
    assert_eq!(last.event_type(), EventType::Error);
}
