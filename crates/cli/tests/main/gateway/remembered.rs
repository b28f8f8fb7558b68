//! Approvals of unsafe calls that hold for a session, or always for a client.

use std::process::Output;

use serde_json::{Value, json};

use super::{Client, Place, code, eventually, said, text};
use crate::cli::{picktools, stderr, stdout};
use crate::gateway_http::{Serving, digest};

/// The revision whose choices have titles.
const REVISION: &str = "2025-11-25";

/// Returns a place whose server has two unsafe tools.
fn place() -> Place {
    let place = Place::faulty();
    place.write("settings.json", &unsafe_count());
    place
}

fn unsafe_count() -> Value {
    json!({"upstreams": {"up": {"tools": {"count": {"hints": {"destructive": true}}}}}})
}

fn accept(scope: &Value) -> Option<Value> {
    let mut content = json!({"run": true});
    if !scope.is_null() {
        content["scope"] = scope.clone();
    }
    Some(json!({"action": "accept", "content": content}))
}

/// Calls an unsafe tool, and returns the number of questions that the person was asked.
fn questions(client: &mut Client, tool: &str) -> usize {
    client.heard.clear();
    let answer = client.run(tool, json!({"name": "orders"}));
    assert_ne!(answer["isError"], true, "{answer}");
    client.told("elicitation/create").len()
}

fn approve(place: &Place, arguments: &[&str]) -> Output {
    let state = place.path("state").display().to_string();
    let output = picktools(&[&["approve", "--state-dir", &state], arguments].concat()).output();
    output.expect("it runs")
}

fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// Returns the id of the pending call.
fn pending_id(place: &Place) -> String {
    let listed = stdout(&approve(place, &["--json"]));
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
    let calls = listed["calls"].as_object().expect("calls");
    assert_eq!(calls.len(), 1, "{listed}");
    calls.keys().next().expect("a call").clone()
}

#[test]
fn approval_holds_for_the_chosen_calls_of_the_session() {
    let place = place();
    let mut client = place.client_named("test", REVISION);
    client.elicit = accept(&Value::Null);
    assert_eq!(questions(&mut client, "up__delete_everything"), 1);
    let schema = client.told("elicitation/create")[0]["params"]["requestedSchema"].clone();
    let choices = schema["properties"]["scope"]["oneOf"]
        .as_array()
        .expect("choices");
    let names: Vec<&Value> = choices.iter().map(|choice| &choice["const"]).collect();
    assert_eq!(json!(names), json!(["call", "tool", "server", "always"]));
    assert_eq!(choices[0]["title"], "Only this call");
    assert_eq!(schema["required"], json!(["run"]));
    assert_eq!(
        questions(&mut client, "up__delete_everything"),
        1,
        "that held once"
    );
    client.elicit = accept(&json!("tool"));
    assert_eq!(questions(&mut client, "up__delete_everything"), 1);
    assert_eq!(questions(&mut client, "up/delete_everything"), 0);
    assert_eq!(questions(&mut client, "up__count"), 1, "another tool");
    drop(client);
    let mut client = place.client_named("test", REVISION);
    client.elicit = accept(&json!("server"));
    assert_eq!(questions(&mut client, "up__count"), 1, "another session");
    assert_eq!(questions(&mut client, "up__delete_everything"), 0);
    // An unknown choice is the narrowest one.
    let mut client = place.client_named("test", REVISION);
    for scope in [json!("ever"), json!(1), json!(["tool"]), json!("Tool")] {
        client.elicit = accept(&scope);
        assert_eq!(questions(&mut client, "up__count"), 1, "{scope}");
    }
    client.elicit = Some(json!({"action": "decline", "content": {"run": true, "scope": "tool"}}));
    assert_eq!(code(&client.run("up__count", json!({}))), "not_confirmed");
    client.elicit = accept(&Value::Null);
    assert_eq!(questions(&mut client, "up__count"), 1);
}

#[test]
fn older_client_gets_the_names_of_choices() {
    let place = place();
    let mut client = place.client_named("test", "2025-06-18");
    client.elicit = accept(&json!("tool"));
    assert_eq!(questions(&mut client, "up__count"), 1);
    let schema = &client.told("elicitation/create")[0]["params"]["requestedSchema"];
    let scope = &schema["properties"]["scope"];
    assert_eq!(scope["enum"], json!(["call", "tool", "server", "always"]));
    assert_eq!(scope["enumNames"][0], "Only this call", "{scope}");
    assert_eq!(questions(&mut client, "up__count"), 0);
}

#[test]
fn approval_of_a_client_holds_until_it_is_revoked() {
    let place = place();
    let tool = "up__delete_everything";
    let mut client = place.client_named("test", REVISION);
    client.elicit = accept(&json!("always"));
    assert_eq!(questions(&mut client, tool), 1);
    assert_eq!(questions(&mut client, tool), 0);
    assert_eq!(questions(&mut client, "up__count"), 1);
    let listed = done(&approve(&place, &["--remembered"]));
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(
        listed.contains("up/delete_everything for local test"),
        "{listed}"
    );
    assert_eq!(approve(&place, &[]).status.code(), Some(0), "nothing waits");
    drop(client);
    let mut client = place.client_named("test", REVISION);
    client.elicit = accept(&Value::Null);
    assert_eq!(questions(&mut client, tool), 0, "another session");
    let mut other = place.client_named("other", REVISION);
    other.elicit = accept(&Value::Null);
    assert_eq!(questions(&mut other, tool), 1, "another client");
    let line = listed
        .lines()
        .find(|line| line.contains("delete_everything"));
    let (id, _) = line.and_then(|line| line.split_once(':')).expect("an id");
    done(&approve(&place, &["--revoke", id]));
    assert_eq!(questions(&mut client, tool), 1, "it was revoked");
    assert_eq!(approve(&place, &["--revoke", id]).status.code(), Some(2));
    // A role that hides unsafe tools hides them nevertheless.
    client.elicit = accept(&json!("always"));
    assert_eq!(questions(&mut client, tool), 1);
    let mut settings = unsafe_count();
    settings["roles"] = json!({"default": {"unsafe": "deny"}});
    place.write("settings.json", &settings);
    eventually("the tool is hidden", || {
        client.run(tool, json!({"name": "orders"}))["isError"] == true
    });
    let refused = client.run(tool, json!({"name": "orders"}));
    assert_eq!(code(&refused), "unknown_tool");
}

#[test]
fn changed_definition_ends_its_approvals() {
    let tool = "up__delete_everything";
    for scope in ["tool", "server", "always"] {
        let place = place();
        let mut client = place.client_named("test", REVISION);
        client.elicit = accept(&json!(scope));
        assert_eq!(questions(&mut client, tool), 1);
        assert_eq!(questions(&mut client, tool), 0);
        let changed = json!({"descriptions": {"delete_everything": "Deletes all tables"}});
        place.write("changes", &changed);
        let refused = |client: &mut Client| client.run(tool, json!({"name": "orders"}));
        eventually("it is quarantined", || {
            refused(&mut client)["isError"] == true
        });
        assert_eq!(code(&refused(&mut client)), "quarantined");
        done(&approve(&place, &["up/delete_everything", "--yes"]));
        client.elicit = None;
        eventually("it waits for a person again", || {
            code(&refused(&mut client)) == "not_confirmed"
        });
    }
}

#[test]
fn operator_chooses_the_calls_of_an_approval() {
    let place = place();
    let mut client = place.client(&json!({}));
    let arguments = |name: &str| json!({"name": name});
    let tool = "up__delete_everything";
    let refused = client.run(tool, arguments("a"));
    assert_eq!(code(&refused), "not_confirmed");
    let listed = stdout(&approve(&place, &[]));
    assert!(
        listed.contains("--for accepts: call, tool, server, always"),
        "{listed}"
    );
    let id = pending_id(&place);
    done(&approve(&place, &["--call", &id, "--for", "tool"]));
    assert_eq!(said(&client.run(tool, arguments("a"))), "1");
    assert_eq!(
        said(&client.run(tool, arguments("b"))),
        "2",
        "other arguments"
    );
    assert_eq!(code(&client.run("up__count", json!({}))), "not_confirmed");
    let id = pending_id(&place);
    done(&approve(&place, &["--call", &id, "--for", "always"]));
    drop(client);
    let mut client = place.client(&json!({}));
    assert_eq!(said(&client.run("up__count", json!({}))), "1");
    assert_eq!(code(&client.run(tool, arguments("a"))), "not_confirmed");
    let id = pending_id(&place);
    done(&approve(&place, &["--deny-call", &id]));
    let refused = text(&client.run(tool, arguments("a"))["content"][0]["text"]);
    assert!(refused.contains("did not allow it"), "{refused}");
}

#[test]
fn approval_of_an_api_key_is_its_own() {
    let place = place();
    let mut settings = unsafe_count();
    settings["http"] = json!({"calls": true});
    settings["roles"] = json!({"operator": {"operator": true}});
    settings["keys"] = json!([
        {"name": "ops", "sha256": digest("first"), "role": "operator"},
        {"name": "dev", "sha256": digest("second")},
    ]);
    place.write("settings.json", &settings);
    let serving = Serving::start(place, &[]);
    let post = |path: &str, key: &str, body: &Value| {
        let authorization = format!("Bearer {key}");
        let headers = [
            ("Content-Type", "application/json"),
            ("Authorization", authorization.as_str()),
        ];
        serving.raw("POST", path, &headers, &body.to_string())
    };
    let call = |key: &str, name: &str| {
        let arguments = json!({"name": name});
        let body = json!({"name": "up/delete_everything", "arguments": arguments});
        post("/v1/call", key, &body).body
    };
    eventually("it waits for the operator", || {
        call("second", "a").contains("pending approval")
    });
    let id = pending_id(&serving.place);
    let decide = |scope: &str| {
        let body = json!({"id": id, "run": true, "scope": scope});
        post("/console/calls", "first", &body)
    };
    let refused = decide("tool");
    assert_eq!(
        refused.status, 409,
        "a call without a session: {}",
        refused.body
    );
    assert_eq!(decide("ever").status, 422);
    let approved = decide("always");
    assert_eq!(approved.status, 200, "{}", approved.body);
    assert!(
        call("second", "a").contains("\"1\""),
        "{}",
        call("second", "a")
    );
    assert!(!call("second", "b").contains("pending"), "other arguments");
    assert!(
        call("first", "a").contains("pending approval"),
        "another key"
    );
    let headers = [("Authorization", "Bearer first")];
    let waiting = || serving.raw("GET", "/console/waiting", &headers, "").body;
    let shown = waiting();
    assert!(shown.contains("key dev"), "{shown}");
    let (_, after) = shown.split_once("data-revoke=\"").expect("a button");
    let id = after.split('"').next().expect("an id");
    let revoke = |id: &str| post("/console/revoke", "first", &json!({"id": id})).status;
    assert_eq!(revoke(id), 200);
    assert_eq!(revoke(id), 409);
    assert!(!waiting().contains("data-revoke"));
    assert!(call("second", "c").contains("pending approval"));
}
