//! Accounts: one program as two servers of the gateway.

use std::fs;

use serde_json::{Value, json};

use super::{Place, code, said, upstream};

/// Creates a folder with the faulty server under each name. Each instance has its own log.
fn accounts(names: &[&str]) -> Place {
    let place = Place::with(&json!({}));
    let mut servers = json!({});
    for name in names {
        let mut server = upstream();
        server["env"] = json!({"UPSTREAM_LOG": place.path(&format!("log-{name}"))});
        servers[name] = server;
    }
    place.write("mcp.json", &json!({"mcpServers": servers}));
    place
}

/// Returns the definitions of these tools in a list, in its order.
fn definitions<'a>(list: &'a Value, name_part: &str) -> Vec<&'a Value> {
    let mut definitions = Vec::new();
    for definition in list.as_array().expect("a list") {
        if definition["name"]
            .as_str()
            .is_some_and(|name| name.contains(name_part))
        {
            definitions.push(definition);
        }
    }
    definitions
}

#[test]
fn same_server_twice_is_shown_with_both_names() {
    let place = accounts(&["acme", "globex"]);
    let mut client = place.client(&json!({}));
    let found = client.search("give a text back");
    let found = definitions(&found["tools"], "echo");
    assert_eq!(found.len(), 2, "{found:?}");
    for (definition, server) in found.iter().zip(["acme", "globex"]) {
        assert_eq!(definition["name"], format!("{server}__echo"));
        assert_eq!(definition["server"], server);
        assert_eq!(definition["description"], "Gives a text back");
    }
    assert_eq!(said(&client.run("globex__echo", json!({"text": "a"}))), "a");
}

#[test]
fn server_is_described_if_the_shown_name_cannot_contain_it() {
    let place = accounts(&["acme chat", "globex chat"]);
    place.write("settings.json", &json!({"mode": "pass-through"}));
    let mut client = place.client(&json!({}));
    let listed = client.ask("tools/list", &json!({}));
    let found = client.search("give a text back");
    for list in [&listed["result"]["tools"], &found["tools"]] {
        let shown = definitions(list, "echo");
        assert_eq!(shown.len(), 2, "{list}");
        for (definition, server) in shown.iter().zip(["acme", "globex"]) {
            assert_eq!(
                definition["description"],
                format!("(server: {server} chat) Gives a text back")
            );
        }
    }
    let name = definitions(&listed["result"]["tools"], "echo")[1]["name"].clone();
    let described = client.call("describe_tool", json!({"name": name}));
    assert_eq!(
        described["structuredContent"]["description"],
        "(server: globex chat) Gives a text back"
    );
}

/// Returns the arguments of the calls that reached a server.
fn reached(place: &Place, server: &str) -> Vec<Value> {
    let log = fs::read_to_string(place.path(&format!("log-{server}"))).unwrap_or_default();
    let mut calls = Vec::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).expect("a line is JSON");
        if event["event"] == "call" {
            calls.push(json!([event["name"], event["arguments"]]));
        }
    }
    calls
}

/// Creates a folder with two accounts that are merged.
fn merged_accounts(settings: &Value) -> Place {
    let place = accounts(&["acme", "globex"]);
    let mut merged = settings.clone();
    merged["merge_accounts"] = json!(true);
    place.write("settings.json", &merged);
    place
}

#[test]
fn merged_tool_is_listed_once_with_its_servers() {
    let place = merged_accounts(&json!({"mode": "pass-through"}));
    let mut client = place.client(&json!({}));
    let listed = client.ask("tools/list", &json!({}));
    let found = client.search("give a text back");
    let described = client.call("describe_tool", json!({"name": "acme__echo"}));
    let described = json!([described["structuredContent"]]);
    for list in [&listed["result"]["tools"], &found["tools"], &described] {
        let shown = definitions(list, "echo");
        assert_eq!(shown.len(), 1, "{list}");
        assert_eq!(shown[0]["name"], "echo");
        assert_eq!(shown[0]["description"], "Gives a text back");
        let schema = &shown[0]["inputSchema"];
        assert_eq!(
            schema["properties"]["server"]["enum"],
            json!(["acme", "globex"])
        );
        assert_eq!(schema["required"], json!(["text", "server"]));
    }
    assert_eq!(
        definitions(&found["tools"], "echo")[0]["servers"],
        json!(["acme", "globex"])
    );
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(25));
    let two = client.call(
        "search_tools",
        json!({"query": "give a text back", "limit": 2}),
    );
    let two = two["structuredContent"]["tools"].as_array().cloned();
    assert_eq!(
        two.map(|tools| tools.len()),
        Some(2),
        "other tools keep their place"
    );
    let one = json!({"query": "give a text back", "server": "globex"});
    let one = client.call("search_tools", one);
    let one = definitions(&one["structuredContent"]["tools"], "echo").len();
    assert_eq!(one, 1);
}

#[test]
fn call_of_merged_tool_reaches_the_chosen_server() {
    let place = merged_accounts(&json!({}));
    let mut client = place.client(&json!({}));
    let arguments = json!({"text": "a", "server": "globex"});
    for result in [
        client.run("echo", arguments.clone()),
        client.call("echo", arguments),
    ] {
        assert_eq!(said(&result), "a");
        assert_eq!(result["_meta"]["picktools/tool"], "globex/echo");
    }
    let echo = json!(["echo", {"text": "a"}]);
    assert_eq!(reached(&place, "globex"), [echo.clone(), echo.clone()]);
    assert!(reached(&place, "acme").is_empty());
    assert_eq!(said(&client.run("acme__echo", json!({"text": "a"}))), "a");
    assert_eq!(reached(&place, "acme"), [echo]);
}

#[test]
fn call_of_merged_tool_without_a_known_server_is_refused() {
    let place = merged_accounts(&json!({}));
    let mut client = place.client(&json!({}));
    for arguments in [
        json!({"text": "a"}),
        json!({"text": "a", "server": "initech"}),
        json!({"text": "a", "server": ["acme"]}),
        json!({"text": "a", "server": null}),
    ] {
        let refused = client.run("echo", arguments);
        assert_eq!(code(&refused), "invalid_arguments");
        assert!(said(&refused).contains("acme, globex"), "{refused}");
    }
    let invalid = client.run("echo", json!({"text": [5], "server": "acme", "more": []}));
    assert_eq!(code(&invalid), "invalid_arguments");
    for server in ["acme", "globex"] {
        assert!(reached(&place, server).is_empty());
    }
}

#[test]
fn merged_tool_has_only_the_servers_of_the_role() {
    let place = accounts(&["acme", "globex", "initech"]);
    let access = json!({"deny_sources": ["globex"]});
    place.write(
        "settings.json",
        &json!({"merge_accounts": true, "roles": {"default": {"access": access}}}),
    );
    let mut client = place.client(&json!({}));
    let described = client.call("describe_tool", json!({"name": "echo"}));
    assert_eq!(
        described["structuredContent"]["inputSchema"]["properties"]["server"]["enum"],
        json!(["acme", "initech"])
    );
    let refused = client.run("echo", json!({"text": "a", "server": "globex"}));
    assert!(!said(&refused).contains("globex"), "{refused}");
    assert!(reached(&place, "globex").is_empty());
}

#[test]
fn confirmation_of_merged_tool_names_the_real_tool() {
    let place = merged_accounts(&json!({}));
    let mut client = place.client(&json!({"elicitation": {}}));
    client.elicit = Some(json!({"action": "decline"}));
    let refused = client.run(
        "delete_everything",
        json!({"name": "a", "server": "globex"}),
    );
    assert_eq!(code(&refused), "not_confirmed");
    let asked = client.told("elicitation/create");
    let message = asked[0]["params"]["message"].to_string();
    assert!(
        message.contains("globex") && !message.contains("acme"),
        "{message}"
    );
    for server in ["acme", "globex"] {
        assert!(reached(&place, server).is_empty());
    }
}

#[test]
fn untrusted_server_is_not_merged() {
    let place = accounts(&["acme", "globex", "evil"]);
    place.write(
        "settings.json",
        &json!({"merge_accounts": true, "mode": "pass-through",
            "upstreams": {"evil": {"untrusted": true}}}),
    );
    let mut client = place.client(&json!({}));
    let listed = client.ask("tools/list", &json!({}));
    let shown = definitions(&listed["result"]["tools"], "echo");
    assert_eq!(shown.len(), 2, "{shown:?}");
    let merged = shown.iter().find(|definition| definition["name"] == "echo");
    let schema = &merged.expect("it is merged")["inputSchema"];
    assert_eq!(
        schema["properties"]["server"]["enum"],
        json!(["acme", "globex"])
    );
    let refused = client.run("echo", json!({"text": "a", "server": "evil"}));
    assert_eq!(code(&refused), "invalid_arguments");
    assert!(reached(&place, "evil").is_empty());
}

#[test]
fn dynamic_list_gets_the_merged_definition() {
    let place = merged_accounts(&json!({"mode": "dynamic"}));
    let mut client = place.client(&json!({}));
    assert_eq!(client.listed().len(), 3);
    client.run("echo", json!({"text": "a", "server": "globex"}));
    client.run("echo", json!({"text": "a", "server": "acme"}));
    assert_eq!(client.listed()[3..], ["echo"]);
}

#[test]
fn audit_log_has_the_real_tool_of_a_merged_call() {
    let place = accounts(&["acme", "globex"]);
    let folder = place.path("audit");
    place.write(
        "settings.json",
        &json!({"merge_accounts": true, "audit": {"folder": folder}}),
    );
    let mut client = place.client(&json!({}));
    client.run("echo", json!({"text": "a", "server": "globex"}));
    client.run("echo", json!({"text": "a"}));
    assert_eq!(client.leave(), Some(0));
    let mut calls = Vec::new();
    for entry in fs::read_dir(&folder).expect("a folder") {
        let text = fs::read_to_string(entry.expect("a file").path()).unwrap_or_default();
        for line in text.lines().filter(|line| line.contains("\"call\"")) {
            calls.push(line.to_owned());
        }
    }
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(
        calls[0].contains("globex/echo") && !calls[0].contains("acme/echo"),
        "{calls:?}"
    );
    assert!(
        !calls[1].contains("/echo") && calls[1].contains("invalid_arguments"),
        "{calls:?}"
    );
}
