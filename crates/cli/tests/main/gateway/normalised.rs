//! Confirmations of calls whose arguments had to be normalised: a person sees the arguments with which
//! the tool runs.

use serde_json::{Value, json};

use super::{Place, code, said, text};
use crate::cli::{picktools, stdout};
use crate::gateway_http::{Serving, digest};
use crate::support::root;

/// The call as every confirmation shows it.
const SHOWN: &str = "up/drop(count=5)";

/// Creates a folder with a server of one unsafe tool.
fn place() -> Place {
    let schema = json!({"type": "object", "properties": {"count": {"type": "integer"}}});
    let tool = json!({"name": "drop", "description": "Drops rows", "inputSchema": schema,
        "annotations": {"destructiveHint": true}});
    Place::hostile(&[("up", json!({"tools": [tool]}))])
}

/// The arguments as a model writes them.
fn sent() -> Value {
    json!({"Count": "5"})
}

/// Asserts that the tool ran with the normalised arguments.
fn assert_ran(result: &Value) {
    let ran: Value = serde_json::from_str(&said(result)).expect("JSON");
    assert_eq!(ran["arguments"], json!({"count": 5}));
}

/// Asserts that the operator sees the normalised call among the pending ones.
fn assert_pending(place: &Place) {
    let state = place.path("state").display().to_string();
    let pending = picktools(&["approve", "--state-dir", &state, "--json"]).output();
    let pending = stdout(&pending.expect("it runs"));
    let pending: Value = serde_json::from_str(&pending).expect("JSON");
    let calls = pending["calls"].as_object().expect("calls");
    let shown: Vec<String> = calls.values().map(|call| text(&call["shown"])).collect();
    assert_eq!(shown, [SHOWN]);
}

#[test]
fn question_to_the_client_shows_the_normalised_call() {
    let place = place();
    let mut client = place.client_of_allowing_person(&[]);
    assert_ran(&client.call("up__drop", sent()));
    assert_ran(&client.run("up__drop", json!(sent().to_string())));
    let asked = client.told("elicitation/create");
    assert_eq!(asked.len(), 2);
    for question in asked {
        let message = text(&question["params"]["message"]);
        assert!(message.contains(SHOWN), "{message}");
    }
}

#[test]
fn pending_call_shows_the_normalised_arguments() {
    let place = place();
    let mut client = place.client(&json!({}));
    assert_eq!(code(&client.call("up__drop", sent())), "not_confirmed");
    assert_pending(&place);
}

#[test]
fn pending_call_over_http_shows_the_normalised_arguments() {
    let place = place();
    let key = json!({"name": "ops", "sha256": digest("first"), "role": "operator"});
    let roles = json!({"operator": {"operator": true}});
    let settings = json!({"keys": [key], "roles": roles, "http": {"calls": true}});
    place.write("settings.json", &settings);
    let serving = Serving::start(place, &[]);
    let key = ("Authorization", "Bearer first");
    let body = json!({"name": "up/drop", "arguments": sent()});
    let (_, refused) = serving.json("/v1/call", &[key], &body);
    assert_eq!(refused["code"], "not_confirmed", "{refused}");
    assert_pending(&serving.place);
    let console = serving.raw("GET", "/console/waiting", &[key], "");
    assert!(console.body.contains(SHOWN), "{}", console.body);
    let params = json!({"name": "up__drop", "arguments": sent(),
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}});
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "up__drop"),
        key,
    ];
    let asked = serving.request(&headers, "tools/call", &params);
    let question = &asked["result"]["inputRequests"]["run"]["params"]["message"];
    assert!(text(question).contains(SHOWN), "{asked}");
}

#[cfg(unix)]
#[test]
fn prompts_of_call_and_run_show_the_normalised_call() {
    let place = place();
    let path = |name: &str| place.path(name).display().to_string();
    let calls = json!([{"name": "drop", "arguments": sent()}]);
    place.write("calls.json", &calls);
    let arguments = sent().to_string();
    let (calls, servers) = (path("calls.json"), path("mcp.json"));
    for command in [
        &["call", "drop", "--args", &arguments][..],
        &["run", &calls],
    ] {
        let more = ["--catalog", &servers, "--allow-unsafe"];
        // A terminal on which a person types `y`.
        let output = std::process::Command::new("python3")
            .arg(root("crates/cli/tests/servers/terminal.py"))
            .arg(env!("CARGO_BIN_EXE_picktools"))
            .args(command)
            .args(more)
            .output();
        let shown = stdout(&output.expect("it runs"));
        let (question, _) = shown.split_once("Run it? [y/N]").expect("a question");
        assert!(question.contains("up/drop {\"count\":5}"), "{shown}");
        assert!(shown.contains("\"arguments\": {\"count\": 5}"), "{shown}");
    }
}
