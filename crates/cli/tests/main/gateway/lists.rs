//! The listed tools of a client by mode and role, and their changes.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Place, code, eventually, gateway_program, said, text, upstream};
use crate::cli::stderr;
use crate::support::root;

#[test]
fn pass_through_lists_few_tools_and_notifies_changes() {
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"upstreams": {"up": {"new_tools": "approve"}}}),
    );
    let mut client = place.client(&json!({}));
    assert_eq!(
        client.listed().len(),
        25,
        "they cost less than the threshold"
    );
    client.heard.clear();
    assert_eq!(said(&client.call("up__changes", json!({}))), "done");
    eventually("it is told", || {
        client.ask("ping", &json!({}));
        !client.told("notifications/tools/list_changed").is_empty()
    });
    assert!(client.listed().contains(&"up__grown".to_owned()));
    assert_eq!(said(&client.call("up__grown", json!({}))), "grown");
    assert_eq!(
        client.search("sum of two numbers")["tools"][0]["name"],
        "up__add",
        "the front answers, listed or not"
    );
}

#[test]
fn subscribed_client_is_notified_of_list_changes() {
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"upstreams": {"up": {"new_tools": "approve"}}}),
    );
    let mut client = place.silent_client();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let found = client.ask("server/discover", &json!({"_meta": meta}));
    assert_eq!(
        found["result"]["capabilities"]["tools"]["listChanged"], true,
        "{found}"
    );
    assert_eq!(
        client.ask("tools/list", &json!({"_meta": meta}))["result"]["tools"]
            .as_array()
            .map(Vec::len),
        Some(25)
    );
    client.begin(
        "subscriptions/listen",
        &json!({"_meta": meta, "notifications": {"toolsListChanged": true}}),
    );
    let added =
        json!({"name": "later", "description": "Came later", "inputSchema": {"type": "object"}});
    place.write("changes", &json!({"add": [added]}));
    eventually("it is told", || {
        client.ask("tools/list", &json!({"_meta": meta}));
        !client.told("notifications/tools/list_changed").is_empty()
    });
}

#[test]
fn single_server_keeps_its_tool_names() {
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"names": "bare", "mode": "pass-through"}),
    );
    let own =
        json!({"name": "search_tools", "description": "Own", "inputSchema": {"type": "object"}});
    place.write("changes", &json!({"add": [own]}));
    let mut client = place.client(&json!({}));
    assert!(client.listed().contains(&"echo".to_owned()));
    assert_eq!(said(&client.call("echo", json!({"text": "a"}))), "a");
    let reached = client.call("search_tools", json!({}));
    assert_eq!(
        code(&reached),
        "upstream_error",
        "it is asked, and does not know the tool: {reached}"
    );
    assert_eq!(
        client.ask("resources/read", &json!({"uri": "test://a"}))["result"]["contents"][0]["uri"],
        "test://a"
    );
}

#[test]
fn dynamic_list_grows_and_never_shrinks() {
    let place = Place::faulty();
    place.write("settings.json", &json!({"mode": "dynamic"}));
    let mut client = place.client(&json!({}));
    assert_eq!(client.listed().len(), 3);
    client.call("describe_tool", json!({"name": "up__add"}));
    client.run("up__echo", json!({"text": "a"}));
    let listed = client.listed();
    assert_eq!(
        listed[3..],
        ["up__add", "up__echo"],
        "appended, in the order in which they came"
    );
    assert!(!client.told("notifications/tools/list_changed").is_empty());
    place.write(
        "changes",
        &json!({"remove": ["add"], "descriptions": {"echo": "Something else"}}),
    );
    eventually("it is held", || {
        client.run("up__echo", json!({"text": "a"}))["isError"] == true
    });
    assert_eq!(client.listed(), listed);
    let definitions = client.ask("tools/list", &json!({}));
    assert_eq!(
        definitions["result"]["tools"][4]["description"], "Gives a text back",
        "as it was approved"
    );
    assert_eq!(
        code(&client.call("up__echo", json!({"text": "a"}))),
        "quarantined"
    );
}

#[test]
fn resources_and_prompts_are_namespaced_per_upstream() {
    let place = Place::with(&json!({"one": upstream(), "two": upstream()}));
    let mut client = place.client(&json!({}));
    let listed = client.ask("resources/list", &json!({}));
    let uris: BTreeSet<&str> = listed["result"]["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["uri"].as_str())
        .collect();
    assert_eq!(
        uris,
        BTreeSet::from(["picktools://one/test://a", "picktools://two/test://a"])
    );
    let read = client.ask(
        "resources/read",
        &json!({"uri": "picktools://two/test://a"}),
    );
    assert_eq!(read["result"]["contents"][0]["text"], "content of test://a");
    assert_eq!(
        read["result"]["contents"][0]["uri"],
        "picktools://two/test://a"
    );
    for uri in [
        "test://a",
        "picktools://three/test://a",
        "picktools://one",
        "picktools://one%2Ftwo/test://a",
        "",
    ] {
        let refused = client.ask("resources/read", &json!({"uri": uri}));
        assert!(refused.get("error").is_some(), "{uri}: {refused}");
    }
    let templates = client.ask("resources/templates/list", &json!({}));
    assert_eq!(
        templates["result"]["resourceTemplates"][0]["uriTemplate"],
        "picktools://one/test://{name}"
    );
    let prompts = client.ask("prompts/list", &json!({}));
    assert_eq!(prompts["result"]["prompts"][1]["name"], "two__greet");
    let prompt = client.ask(
        "prompts/get",
        &json!({"name": "two__greet", "arguments": {"name": "Ada"}}),
    );
    assert_eq!(
        prompt["result"]["messages"][0]["content"]["text"],
        "Hello Ada"
    );
    let refused = client.ask("prompts/get", &json!({"name": "greet"}));
    assert!(refused.get("error").is_some());
    let argument = json!({"name": "name", "value": "A"});
    let reference = json!({"type": "ref/prompt", "name": "one__greet"});
    let completed = client.ask(
        "completion/complete",
        &json!({"ref": reference, "argument": argument}),
    );
    assert_eq!(completed["result"]["completion"]["values"], json!(["Ala"]));
}

#[test]
fn always_included_tools_are_listed_and_fallbacks_are_found() {
    let place = Place::with(&json!({"one": upstream(), "two": upstream()}));
    place.write(
        "settings.json",
        &json!({
            "mode": "search", "always_include": ["one/add", "two__ec*", "down/*"],
            "fallbacks": ["two/echo"], "roles": {"default": {"deny": ["one/echo"]}}
        }),
    );
    let mut client = place.client(&json!({}));
    let listed = client.listed();
    assert_eq!(listed[3..], ["one__add", "two__echo"]);
    let names = |found: &Value| {
        let tools = found["tools"].as_array().expect("a list");
        let names = tools.iter().map(|tool| text(&tool["name"]));
        names.collect::<Vec<_>>()
    };
    let found = client.search("how high is mount everest");
    assert_eq!(names(&found), ["two__echo"], "{found}");
    let reason = text(&found["tools"][0]["reason"]);
    assert!(reason.starts_with("fallback"), "{reason}");
    let found = client.search("thanks a lot!");
    assert_eq!(names(&found), [""; 0], "{found}");
    let found = client.search("sum of two numbers");
    assert!(names(&found)[0].ends_with("__add"), "{found}");
    assert_eq!(said(&client.call("two__echo", json!({"text": "x"}))), "x");
}

#[test]
fn list_changes_of_always_included_tools_are_notified() {
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({
            "mode": "search", "always_include": ["up/grown"],
            "upstreams": {"up": {"new_tools": "approve"}}
        }),
    );
    let mut client = place.client(&json!({}));
    assert_eq!(client.listed().len(), 3);
    client.heard.clear();
    assert_eq!(said(&client.run("up__changes", json!({}))), "done");
    eventually("it is told", || {
        client.ask("ping", &json!({}));
        !client.told("notifications/tools/list_changed").is_empty()
    });
    assert_eq!(client.listed()[3..], ["up__grown"]);
}

#[test]
fn role_hides_tools_on_every_path() {
    let place = Place::with(&json!({"one": upstream(), "two": upstream()}));
    let role = json!({"access": {"deny_sources": ["two"]}, "deny": ["one/a*"]});
    place.write(
        "settings.json",
        &json!({"mode": "search", "roles": {"default": role}}),
    );
    let mut client = place.client(&json!({}));
    let found = client.search("sum of two numbers");
    assert!(
        !found.to_string().contains("two__") && !found.to_string().contains("one__add"),
        "{found}"
    );
    for name in [
        "two__echo",
        "two/echo",
        "two.echo",
        "one__add",
        "one/add",
        "add",
    ] {
        let refused = client.run(name, json!({"a": 1, "b": 2, "text": "x"}));
        assert_eq!(code(&refused), "unknown_tool", "{name}");
        let told = said(&refused).replace(name, "");
        assert!(!told.contains("two") && !told.contains("add"), "{refused}");
        assert_eq!(
            code(&client.call("describe_tool", json!({"name": name}))),
            "unknown_tool",
            "{name}"
        );
    }
    assert!(
        client
            .ask(
                "resources/read",
                &json!({"uri": "picktools://two/test://a"})
            )
            .get("error")
            .is_some()
    );
    assert!(
        client
            .ask("prompts/get", &json!({"name": "two__greet"}))
            .get("error")
            .is_some()
    );
    assert_eq!(said(&client.run("one__echo", json!({"text": "x"}))), "x");
    // Only one tool of this name exists for the caller.
    assert_eq!(said(&client.run("echo", json!({"text": "x"}))), "x");
}

#[test]
fn unusable_name_costs_only_its_server() {
    let place = Place::with(&json!({"a__b": upstream(), "c/d": upstream(), "up": upstream()}));
    place.write("settings.json", &json!({"mode": "pass-through"}));
    let mut client = place.client(&json!({}));
    let names = client.listed();
    let named = |start: &str| names.iter().find(|name| name.starts_with(start)).cloned();
    for start in ["up__echo", "a__b__echo"] {
        let name = named(start).unwrap_or_else(|| panic!("{start}: {names:?}"));
        assert_eq!(said(&client.call(&name, json!({"text": "x"}))), "x");
    }
    assert_eq!(named("c"), None, "{names:?}");
}

#[test]
fn misleading_settings_and_names_are_refused() {
    let refused = |servers: &Value, settings: &Value, expected: &str| {
        let place = Place::with(servers);
        place.write("settings.json", settings);
        let output = gateway_program()
            .arg("mcp")
            .args(place.arguments())
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{settings}");
        assert!(
            stderr(&output).contains(expected),
            "{expected}: {}",
            stderr(&output)
        );
    };
    let one = json!({"up": upstream()});
    refused(&one, &json!({"mod": "search"}), "mod");
    refused(&one, &json!({"mode": "serach"}), "serach");
    refused(&one, &json!({"upstreams": {"upp": {"call_s": 3}}}), "upp");
    refused(
        &one,
        &json!({"upstreams": {"up": {"call_s": 0}}}),
        "at least 1",
    );
    refused(
        &one,
        &json!({"upstreams": {"up": {"trusted": true, "untrusted": true}}}),
        "exclude each other",
    );
    refused(
        &one,
        &json!({"roles": {"default": {"access": {"exclude": ["x"]}}}}),
        "deny",
    );
    refused(
        &one,
        &json!({"roles": {"default": {"access": {"allow_unsafe": true}}}}),
        "unsafe",
    );
    refused(
        &one,
        &json!({"roles": {"default": {"access": {"rolls": ["x"]}}}}),
        "rolls",
    );
    refused(
        &one,
        &json!({"roles": {"default": {"deny": ["a["]}}}),
        "deny",
    );
    refused(
        &json!({"one": upstream(), "two": upstream()}),
        &json!({"names": "bare"}),
        "bare",
    );
    let place = Place::with(&one);
    let again = place.arguments()[1].clone();
    let mut program = gateway_program();
    program
        .arg("mcp")
        .args(place.arguments())
        .args(["--config", &again])
        .stdin(Stdio::null());
    let output = program.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("two servers have this name"),
        "{}",
        stderr(&output)
    );
}

/// Returns a place with the faulty server, and one that starts only after some seconds.
fn with_slow_server(seconds: u32) -> Place {
    let program = root("crates/cli/tests/servers/upstream.py");
    let script = format!(
        "import runpy, time\ntime.sleep({seconds})\nrunpy.run_path({:?}, run_name='__main__')",
        program.display().to_string()
    );
    let place = Place::with(&json!({
        "up": upstream(),
        "slow": {"command": "python3", "args": ["-c", script]},
    }));
    place.write(
        "settings.json",
        &json!({"mode": "pass-through", "pass_through_tokens": 100_000}),
    );
    place
}

#[test]
fn slow_server_delays_only_itself() {
    let place = with_slow_server(15);
    let mut client = place.client_with_options(&["--list-wait", "2"]);
    let mut listed = Vec::new();
    eventually("the tools of the other server are listed", || {
        let started = Instant::now();
        listed = client.listed();
        let time = started.elapsed();
        assert!(time < Duration::from_secs(5), "{time:?}");
        listed.iter().any(|name| name == "up__echo")
    });
    let has = |names: &[String], name: &str| names.iter().any(|listed| listed == name);
    assert!(!has(&listed, "slow__echo"), "{listed:?}");
    assert_eq!(said(&client.call("up__echo", json!({"text": "a"}))), "a");
    // A call of a tool that is not known yet waits for its server.
    assert_eq!(said(&client.call("slow__echo", json!({"text": "b"}))), "b");
    assert!(has(&client.listed(), "slow__echo"));
    eventually("the client is told of the tools", || {
        client.listed();
        !client.told("notifications/tools/list_changed").is_empty()
    });
}

#[test]
fn slow_server_does_not_delay_lists_over_http() {
    let mut servings =
        crate::gateway_http::Serving::start(with_slow_server(15), &["--list-wait", "2"]);
    eventually("the tools of the other server are listed", || {
        let started = Instant::now();
        let tools = servings.raw("GET", "/v1/tools", &[], "");
        let time = started.elapsed();
        assert!(time < Duration::from_secs(5), "{time:?}");
        assert!(!tools.body.contains("slow/echo"), "{}", tools.body);
        tools.body.contains("up/echo")
    });
    eventually("the tools of the slow server arrive", || {
        let tools = servings.raw("GET", "/v1/tools", &[], "");
        tools.body.contains("slow/echo")
    });
    servings.signal("TERM");
    assert_eq!(servings.ended(), Some(0));
}

/// A server that reports a change of its tools after each list, and counts its lists in the file of
/// `LISTS`.
const RESTLESS_SERVER: &str = r#"
import json, os, sys
lists = 0
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "x", "version": "1"}}
        result["capabilities"] = {"tools": {"listChanged": True}}
    elif message["method"] == "tools/list":
        lists += 1
        open(os.environ["LISTS"], "w").write(str(lists))
        tool = {"name": "one", "description": f"Version {lists}", "inputSchema": {"type": "object"}}
        result = {"tools": [tool]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    if message["method"] == "tools/list":
        change = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        print(json.dumps(change), flush=True)
"#;

#[test]
fn server_that_reports_changes_without_end_is_listed_less() {
    let place = Place::with(&json!({}));
    let lists = place.path("lists");
    place.write(
        "mcp.json",
        &json!({"mcpServers": {"restless": {
            "command": "python3", "args": ["-c", RESTLESS_SERVER], "env": {"LISTS": lists}}}}),
    );
    let _client = place.client(&json!({}));
    let count = || -> usize {
        let text = fs::read_to_string(&lists).unwrap_or_default();
        text.parse().unwrap_or_default()
    };
    eventually("changes are read", || count() >= 3);
    std::thread::sleep(Duration::from_secs(4));
    // A list after each pause of 300 ms would make 13 or more.
    assert!((5..=10).contains(&count()), "{} lists", count());
}
