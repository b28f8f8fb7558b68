//! The flows of `fixtures/calls/flows.json`: calls by alias, of skills, without a schema, repaired and
//! approved calls, and undo. The library, the commands and the gateway give the same results.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use picktools::catalog::{CatalogFile, NoSchemaMode, OperatorAliases};
use picktools::{Access, Catalog, CatalogOptions};
use picktools_call::PendingCall;
use picktools_llm::{EndpointOptions, LlmRepairer, ProviderClient};
use picktools_provider::{Arguments, Provider, ToolCall};
use picktools_runtime::{
    ConfirmationDecision, FunctionTool, RunnableTool, ToolManager, ToolManagerBuilder, ToolResult,
};
use picktools_shell::{Undo, Write};
use picktools_skills::SkillFolder;
use picktools_testing::fixture;
use picktools_testing::server::{Reply, TestServer};
use serde_json::{Map, Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Place, said};

/// The name of the server that has the tools.
const SERVER: &str = "terminal";

/// The flows, with the tools that they need.
struct Flows {
    /// The definitions of the tools as the server sends them.
    tools: Vec<Value>,
    /// The operator's aliases.
    aliases: Value,
    flows: Vec<Flow>,
}

/// Calls that a model makes in one turn.
struct Flow {
    title: String,
    calls: Vec<Value>,
    /// The arguments with which the language model repairs calls, if it has to.
    repair: Option<Value>,
    /// `true` if the calls are of built-in tools.
    is_built_in: bool,
    /// The result of the last call.
    result: Value,
    /// The parts of error messages, by entry point.
    refused: Map<String, Value>,
}

impl Flows {
    fn open() -> Self {
        let text = fs::read(fixture("calls/flows.json")).expect("the fixture is readable");
        let document: Value = serde_json::from_slice(&text).expect("the fixture is JSON");
        let skills = SkillFolder::open(fixture("skills-terminal")).expect("there are skills");
        let skill = skills.skills.iter();
        let mut skill = skill.filter(|skill| document["skill"] == skill.name.as_str());
        let skill = skill.next().expect("the skill exists");
        let names: Vec<_> = skill.allowed_tools.iter().map(|tool| &tool.name).collect();
        let read_call = |call: &Value| {
            let index = call["skill_tool"].as_u64().map(usize::try_from);
            let name = match index {
                Some(index) => json!(names[index.expect("a small number")]),
                None => call["name"].clone(),
            };
            json!({"name": name, "arguments": call["arguments"]})
        };
        let read_flow = |flow: &Value| Flow {
            title: flow["title"].as_str().expect("a title").to_owned(),
            calls: list(&flow["calls"]).iter().map(read_call).collect(),
            repair: flow.get("repair").cloned(),
            is_built_in: flow["built_in"] == true,
            result: flow["result"].clone(),
            refused: flow["refused"].as_object().cloned().unwrap_or_default(),
        };
        let (mut tools, aliases) = terminal_tools();
        tools.extend(list(&document["tools"]).iter().cloned());
        Self {
            tools,
            aliases,
            flows: list(&document["flows"]).iter().map(read_flow).collect(),
        }
    }

    /// Runs each flow with an entry point, and compares its last result.
    fn assert_results(
        &self,
        entry_point: &str,
        run: impl Fn(&Flow, &Place, &TestServer) -> Result<Value, String>,
    ) {
        for flow in &self.flows {
            let tools = match flow.is_built_in {
                // Tools of the server must not take the names of the built-in tools.
                true => &self.tools[self.tools.len() - 1..],
                false => &self.tools,
            };
            let place = Place::hostile(&[(SERVER, json!({"tools": tools}))]);
            place.write("aliases.json", &self.aliases);
            fs::create_dir(place.path("root")).expect("a folder");
            let model = flow.model();
            let result = run(flow, &place, &model);
            let title = &flow.title;
            match flow.refused.get(entry_point).and_then(Value::as_str) {
                None => assert_eq!(result.as_ref(), Ok(&flow.result), "{title}"),
                Some(part) => {
                    let message = result.expect_err(title);
                    assert!(message.contains(part), "{title}: {message}");
                }
            }
            let repairs = usize::from(flow.repair.is_some());
            assert_eq!(model.requests().len(), repairs, "{title}");
        }
    }
}

impl Flow {
    /// Serves the language model that repairs calls.
    fn model(&self) -> TestServer {
        let text = json!({"arguments": self.repair}).to_string();
        let message = json!({"role": "assistant", "content": text});
        let answer = json!({"choices": [{"index": 0, "message": message}]});
        TestServer::new(move |_, _| Reply::Json(answer.clone()))
    }

    fn tool_calls(&self) -> Vec<ToolCall> {
        let tool_call = |call: &Value| ToolCall {
            id: None,
            name: call["name"].as_str().expect("a name").to_owned(),
            arguments: Arguments::Json(call["arguments"].clone()),
        };
        self.calls.iter().map(tool_call).collect()
    }

    /// Returns the options of `call`, `run` and the gateway.
    fn shared_options(&self, place: &Place, model: &TestServer) -> Vec<String> {
        let aliases = match self.is_built_in {
            true => "ecosystem".to_owned(),
            false => place.path("aliases.json").display().to_string(),
        };
        let options = ["--repair-llm", "--llm-model", "m", "--llm-url", &model.url];
        let options = options.into_iter().chain(["--aliases", &aliases]);
        let options = options.chain(["--allow-no-schema", "human-approval"]);
        options.map(str::to_owned).collect()
    }

    /// Returns the options of `call` and `run`.
    fn options(&self, place: &Place, model: &TestServer) -> Vec<String> {
        let path = |name: &str| place.path(name).display().to_string();
        let mut options = self.shared_options(place, model);
        options.extend(["--root".to_owned(), path("root")]);
        match self.is_built_in {
            true => options.push("--built-in".to_owned()),
            false => options.extend(["--catalog".to_owned(), path("mcp.json")]),
        }
        let more = ["--allow-unsafe", "--yes", "--json"];
        options.extend(more.map(str::to_owned));
        options
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Returns the tools of the terminal catalog as MCP definitions, and their aliases.
fn terminal_tools() -> (Vec<Value>, Value) {
    let catalog = Catalog::open(fixture("catalogs/terminal")).expect("the fixture is valid");
    let (mut tools, mut aliases) = (Vec::new(), json!({}));
    for tool in catalog.tools().expect("readable") {
        for alias in &tool.aliases {
            aliases[&alias.name] = json!(tool.name);
        }
        tools.push(json!({"name": tool.name, "description": tool.description,
            "inputSchema": tool.parameters, "annotations": tool.annotations}));
    }
    (tools, aliases)
}

/// Returns the fields of a tool's result, or its error.
fn outcome(result: &Value) -> Result<Value, String> {
    if result["success"] != true {
        return Err(result["error"].to_string());
    }
    if let Some(text) = result["text"].as_str() {
        return Ok(serde_json::from_str(text).expect("the server answers with JSON"));
    }
    let mut fields = result.as_object().expect("an object").clone();
    fields.retain(|name, _| !["success", "error"].contains(&name.as_str()));
    Ok(Value::Object(fields))
}

/// Runs a command, and returns the outcome of its call with this number.
fn outcome_of_command(arguments: &[String], number: usize) -> Result<Value, String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = picktools(&arguments).output().expect("it runs");
    let text = stdout(&output);
    let events = text
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).expect("JSON") });
    let id = format!("call_{number}");
    let mut events = events.filter(|event| event["data"]["call_id"] == id.as_str());
    let last = events
        .next_back()
        .unwrap_or_else(|| panic!("{text}{}", stderr(&output)));
    outcome(&last["data"]["result"])
}

/// Returns a manager of tools that answer as the server does.
fn manager(flows: &Flows, flow: &Flow, root: &Path, model: &TestServer) -> ToolManager {
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    let client = ProviderClient::new(
        Provider::OpenAiChat,
        &model.url,
        &EndpointOptions::default(),
    );
    let repairer = LlmRepairer::new(client.expect("a client"), "m").expect("a repairer");
    let builder = ToolManager::builder(access).repairer(repairer).root(root);
    let builder = builder.confirm(|_: &PendingCall| ConfirmationDecision::Ask);
    let builder = match flow.is_built_in {
        true => {
            let builder = builder.tool(Write::default()).tool(Undo::default());
            builder.aliases(OperatorAliases::ecosystem())
        }
        false => {
            let aliases = flows.aliases.to_string();
            let aliases = OperatorAliases::from_slice(aliases.as_bytes(), "aliases.json");
            with_server_tools(builder, flows).aliases(aliases.expect("they are valid"))
        }
    };
    builder.build().expect("it is valid")
}

fn with_server_tools(builder: ToolManagerBuilder, flows: &Flows) -> ToolManagerBuilder {
    let options = CatalogOptions {
        allow_no_schema: Some(NoSchemaMode::HumanApproval),
        ..CatalogOptions::default()
    };
    let file = CatalogFile::from_server(SERVER, &flows.tools);
    let catalog = options.read_files(&[file]).expect("it is valid");
    let runner = |tool: &Arc<picktools::Tool>| {
        let name = tool.name.clone();
        let runner = FunctionTool::new(tool.as_ref().clone(), move |arguments, _| {
            let ran = json!({"ran": name, "arguments": arguments}).to_string();
            async move { ToolResult::success().field("text", ran) }
        });
        (tool.id.clone(), Arc::new(runner) as Arc<dyn RunnableTool>)
    };
    let runners: Vec<_> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(runner)
        .collect();
    builder.catalog(catalog, runners)
}

/// Runs calls, and approves those that wait.
async fn run_approved(manager: &ToolManager, calls: &[ToolCall]) -> Value {
    let approve = async {
        loop {
            manager.approvals().arrived().await;
            for (ticket, _) in manager.approvals().waiting() {
                manager.approvals().approve(ticket).expect("it waits");
            }
        }
    };
    let executed = tokio::select! {
        executed = manager.execute_all(calls) => executed,
        () = approve => unreachable!("approving never ends"),
    };
    let last = executed.last().expect("a result");
    serde_json::to_value(&*last.result).expect("it is JSON")
}

#[test]
fn flows_have_their_result_in_the_library() {
    let flows = Flows::open();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    flows.assert_results("library", |flow, place, model| {
        let manager = manager(&flows, flow, &place.path("root"), model);
        outcome(&runtime.block_on(run_approved(&manager, &flow.tool_calls())))
    });
}

#[test]
fn flows_have_their_result_in_run() {
    Flows::open().assert_results("run", |flow, place, model| {
        place.write("calls.json", &json!(flow.calls));
        let file = place.path("calls.json").display().to_string();
        let mut arguments = vec!["run".to_owned(), file];
        arguments.extend(flow.options(place, model));
        outcome_of_command(&arguments, flow.calls.len())
    });
}

#[test]
fn flows_have_their_result_in_call() {
    Flows::open().assert_results("call", |flow, place, model| {
        let mut last = Err("no calls".to_owned());
        for call in flow.tool_calls() {
            let Arguments::Json(arguments) = call.arguments else {
                panic!("the fixture has JSON");
            };
            let call = ["call", &call.name, "--args", &arguments.to_string()].map(str::to_owned);
            let call = call.into_iter().chain(flow.options(place, model));
            last = outcome_of_command(&call.collect::<Vec<_>>(), 1);
        }
        last
    });
}

#[test]
fn flows_have_their_result_in_the_gateway() {
    Flows::open().assert_results("gateway", |flow, place, model| {
        let options = flow.shared_options(place, model);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let mut client = place.client_of_allowing_person(&options);
        let mut last = Err("no calls".to_owned());
        for call in &flow.calls {
            let result = client.call("call_tool", call.clone());
            let text = said(&result);
            last = match result["isError"] == true {
                true => Err(text),
                false => Ok(serde_json::from_str(&text).expect("the server answers with JSON")),
            };
        }
        last
    });
}
