//! Several calls in one call of `multi_tool_use.parallel`, through the gateway.

use serde_json::{Value, json};

use super::{Client, Place, text};
use crate::gateway_http::{Serving, digest};
use crate::support::files;

const PARALLEL: &str = "multi_tool_use.parallel";

/// Returns the arguments of a call with these uses.
fn uses(uses: &[(&str, Value)]) -> Value {
    let mut tool_uses = Vec::new();
    for (name, parameters) in uses {
        tool_uses.push(json!({"recipient_name": name, "parameters": parameters}));
    }
    json!({"tool_uses": tool_uses})
}

/// Returns the texts of a result.
fn texts(result: &Value) -> Vec<String> {
    let parts = result["content"].as_array();
    let parts = parts.unwrap_or_else(|| panic!("a result: {result}"));
    parts.iter().map(|part| text(&part["text"])).collect()
}

/// Returns the outcome of each use, as the metadata has it: the called tool or the error's code.
fn outcomes(result: &Value) -> Vec<String> {
    let uses = result["_meta"]["picktools/uses"].as_array();
    let uses = uses.unwrap_or_else(|| panic!("uses: {result}"));
    let outcome = |used: &Value| match used["_meta"]["picktools/error"]["code"].as_str() {
        Some(code) => code.to_owned(),
        None => text(&used["_meta"]["picktools/tool"]),
    };
    uses.iter().map(outcome).collect()
}

#[test]
fn parallel_call_has_labelled_results_of_all_uses() {
    let both = || {
        uses(&[
            ("functions.up__echo", json!({"text": "first"})),
            ("up__add", json!("{\"a\": 1, \"b\": \"2\"}")),
            ("up__no_such", json!({})),
        ])
    };
    for mode in ["search", "pass-through"] {
        let place = Place::faulty();
        place.write("settings.json", &json!({"mode": mode}));
        let mut client = place.client(&json!({}));
        for result in [
            client.call(PARALLEL, both()),
            client.call("functions.multi_tool_use.parallel:0", both()),
            client.run(PARALLEL, both()),
            client.run("multi_tool_use_parallel", json!(both().to_string())),
        ] {
            let texts = texts(&result);
            assert_eq!(
                texts[..4],
                [
                    "[1] functions.up__echo",
                    "first",
                    "[2] up__add",
                    "{\"sum\": 3}"
                ]
            );
            assert_eq!(texts[4], "[3] up__no_such failed");
            assert!(texts[5].starts_with("Unknown tool"), "{texts:?}");
            assert_eq!(outcomes(&result), ["up/echo", "up/add", "unknown_tool"]);
            assert!(result["isError"] != true, "{result}");
        }
    }
}

#[test]
fn parallel_call_may_use_the_front_tools() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    let call = json!({"name": "up__echo", "arguments": {"text": "inner"}});
    let result = client.call(
        PARALLEL,
        uses(&[
            (
                "functions.search_tools",
                json!({"query": "add two numbers"}),
            ),
            ("functions.call_tool", call.clone()),
            ("functions.call_tool", json!(call.to_string())),
            ("mcp__picktools__describe_tool", json!({"name": "up__add"})),
        ]),
    );
    let texts = texts(&result);
    assert!(texts[1].contains("up__add"), "{texts:?}");
    assert_eq!((&*texts[3], &*texts[5]), ("inner", "inner"));
    assert!(texts[7].contains("inputSchema"), "{texts:?}");
}

#[test]
fn uses_of_a_parallel_call_cannot_contain_further_ones() {
    let mut client = Place::faulty().client(&json!({}));
    let inner = uses(&[("up__only_reads", json!({}))]);
    let wrapped = json!({"name": PARALLEL, "arguments": inner.clone()});
    for name in [PARALLEL, "functions.call_tool"] {
        let arguments = if name == PARALLEL { &inner } else { &wrapped };
        let result = client.call(PARALLEL, uses(&[(name, arguments.clone())]));
        assert_eq!(outcomes(&result), ["unknown_tool"], "{result}");
        assert_eq!(result["isError"], true, "every use failed");
    }
}

#[test]
fn unreadable_parallel_call_is_an_unknown_tool() {
    let mut client = Place::faulty().client(&json!({}));
    for arguments in [
        json!({}),
        json!({"tool_uses": []}),
        json!({"tool_uses": [{}]}),
    ] {
        let answer = client.ask(
            "tools/call",
            &json!({"name": PARALLEL, "arguments": arguments}),
        );
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

/// Calls a tool that asks first, and one that does not.
fn delete_and_echo(client: &mut Client) -> Value {
    client.call(
        PARALLEL,
        uses(&[
            ("up__delete_everything", json!({"name": "orders"})),
            ("up__echo", json!({"text": "a"})),
        ]),
    )
}

#[test]
fn each_use_of_a_parallel_call_is_confirmed_and_audited_alone() {
    let place = Place::faulty();
    let audit = place.path("audit");
    let options = ["--audit", &audit.display().to_string()];
    let mut client = place.client_with_options(&options);
    assert_eq!(
        outcomes(&delete_and_echo(&mut client)),
        ["not_confirmed", "up/echo"]
    );
    client.leave();
    let mut log = String::new();
    for file in files(&audit) {
        log.push_str(&std::fs::read_to_string(file).expect("a file"));
    }
    assert!(
        log.contains("up/delete_everything") && log.contains("up/echo"),
        "{log}"
    );
    assert!(!log.contains("multi_tool_use"), "{log}");

    let place = Place::faulty();
    let mut client = place.client(&json!({"elicitation": {}}));
    client.elicit = Some(json!({"action": "accept", "content": {"run": true}}));
    let result = delete_and_echo(&mut client);
    assert_eq!(outcomes(&result), ["up/delete_everything", "up/echo"]);
    assert_eq!(client.told("elicitation/create").len(), 1);
    drop(client);

    let place = Place::faulty();
    let denied = json!({"roles": {"default": {"unsafe": "deny"}}});
    place.write("settings.json", &denied);
    let mut client = place.client(&json!({}));
    assert_eq!(
        outcomes(&delete_and_echo(&mut client)),
        ["unknown_tool", "up/echo"]
    );
}

#[test]
fn use_that_asks_the_client_in_its_answer_is_refused() {
    let place = Place::faulty();
    let mut client = place.client_named("test", "2026-07-28");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let arguments = uses(&[
        ("up__delete_everything", json!({"name": "orders"})),
        ("up__echo", json!({"text": "a"})),
    ]);
    let params = json!({"name": PARALLEL, "arguments": arguments, "_meta": meta});
    let result = client.ask("tools/call", &params)["result"].clone();
    assert_eq!(outcomes(&result), ["not_confirmed", "up/echo"], "{result}");
    assert!(texts(&result)[1].contains("call it on its own"), "{result}");
}

#[test]
fn parallel_call_over_http_has_all_results() {
    let place = Place::faulty();
    place.write("settings.json", &json!({"http": {"calls": true}}));
    let serving = Serving::start(place, &[]);
    let arguments = uses(&[
        ("up__echo", json!({"text": "first"})),
        ("up__no_such", json!({})),
    ]);
    let call = json!({"name": PARALLEL, "arguments": arguments});
    let (status, result) = serving.json("/v1/call", &[], &call);
    assert_eq!(status, 200, "{result}");
    assert_eq!(texts(&result)[1], "first");
    assert_eq!(outcomes(&result), ["up/echo", "unknown_tool"]);
}

/// Returns the number of uses of a parallel call that a key with a burst of four can make, over MCP or over `/v1/call`.
fn uses_within_limit(is_mcp: bool) -> usize {
    let place = Place::faulty();
    let key = json!({"name": "one", "sha256": digest("first"), "per_minute": 1, "burst": 4});
    let settings = json!({"keys": [key], "http": {"calls": true}});
    place.write("settings.json", &settings);
    let serving = Serving::start(place, &[]);
    let key = ("Authorization", "Bearer first");
    let echo = |number: usize| ("up__echo", json!({"text": number.to_string()}));
    let call = json!({"name": PARALLEL, "arguments": uses(&[0, 1, 2, 3, 4].map(echo))});
    let result = match is_mcp {
        true => {
            let headers = [
                ("MCP-Protocol-Version", "2026-07-28"),
                ("Mcp-Method", "tools/call"),
                ("Mcp-Name", PARALLEL),
                key,
            ];
            let mut params = call;
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}});
            serving.request(&headers, "tools/call", &params)["result"].clone()
        }
        false => serving.json("/v1/call", &[key], &call).1,
    };
    let outcomes = outcomes(&result);
    let within = outcomes.iter().take_while(|outcome| *outcome == "up/echo");
    let within = within.count();
    assert!(
        outcomes[within..].iter().all(|outcome| outcome == "busy"),
        "{result}"
    );
    let refused = &result["_meta"]["picktools/uses"][within]["_meta"]["picktools/error"];
    assert!(refused["retry_after_ms"].as_u64() > Some(1_000), "{result}");
    within
}

#[test]
fn each_use_of_a_parallel_call_counts_against_the_rate_limit() {
    assert_eq!(uses_within_limit(true), 4);
    assert_eq!(uses_within_limit(false), 4);
}
