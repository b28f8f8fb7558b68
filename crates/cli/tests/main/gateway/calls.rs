//! Calls through the gateway, and the isolation of failures.

#[cfg(target_os = "linux")]
use std::fs;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::Command;

use serde_json::{Value, json};

use super::{Place, code, eventually, said, text, upstream};

#[test]
fn unreadable_lines_of_a_client_are_answered_and_the_session_goes_on() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    let call = |id: u64, text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"up__echo","arguments":{{"text":"{text}"}}}}}}"#
        )
    };
    client.write(&format!("{}\n", call(901, "cut \\ud83d")));
    assert_eq!(said(&client.answer(901)["result"]), "cut \u{fffd}");
    client.write("{\"jsonrpc\":\"2.0\",\"id\":902,\"method\":\"tools/call\"}\n");
    assert_eq!(client.answer(902)["error"]["code"], -32602);
    client.write("{\"jsonrpc\":\"2.0\",\"id\":903,\"method\":\"foo/bar\"}\n");
    assert_eq!(client.answer(903)["error"]["code"], -32601);
    client.write("{\"id\":904, oops\n\n");
    assert_eq!(client.answer(904)["error"]["code"], -32700);
    client.write(&format!("{}\r\n", call(905, "a")));
    assert_eq!(said(&client.answer(905)["result"]), "a");
}

#[test]
fn large_result_is_cut_and_its_rest_is_read() {
    for mode in ["search", "pass-through", "dynamic"] {
        let place = Place::faulty();
        place.write(
            "settings.json",
            &json!({"mode": mode, "results": {"max_tokens": 500}}),
        );
        let mut client = place.client(&json!({}));
        let listed = client.listed().len();
        let rows: Vec<Value> = (0..800).map(|row| json!({"row": row})).collect();
        let text = json!(rows).to_string();
        let result = client.run("up__echo", json!({"text": text}));
        let shown: Vec<Value> = serde_json::from_str(&said(&result)).expect("a list");
        assert!((10..400).contains(&shown.len()), "{}", shown.len());
        let parts = result["content"].as_array().expect("parts");
        let note = self::text(&parts[parts.len() - 1]["text"]);
        assert!(note.contains("of 800 rows are shown"), "{note}");
        let (_, id) = note.split_once("\"id\": \"").expect("an id");
        let id = id.split('"').next().expect("an id");
        let found = client.run("read_result", json!({"id": id, "search": "\"row\":777"}));
        assert!(said(&found).contains("{\"row\":777}"), "{found}");
        let read = client.ask(
            "resources/read",
            &json!({"uri": format!("picktools://result/{id}")}),
        );
        assert_eq!(read["result"]["contents"][0]["text"], text, "{read}");
        let names = client.listed();
        let is_listed = names.contains(&"read_result".to_owned());
        assert_eq!(is_listed, mode != "search", "{mode}");
        assert!(names.len() >= listed);
        if is_listed {
            let piece = client.call("read_result", json!({"id": id, "offset": 3}));
            assert!(said(&piece).len() < text.len(), "{piece}");
        }
        let unknown = client.run("read_result", json!({"id": "none"}));
        assert_eq!(code(&unknown), "invalid_arguments");
    }
}

#[test]
fn search_mode_finds_describes_and_calls_tools() {
    let place = Place::faulty();
    place.write("settings.json", &json!({"mode": "search"}));
    let mut client = place.client(&json!({}));
    assert_eq!(
        client.listed(),
        ["search_tools", "describe_tool", "call_tool"]
    );
    let found = client.search("sum of two numbers");
    let first = &found["tools"][0];
    assert_eq!(first["name"], "up__add");
    assert_eq!(first["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(
        (&first["server"], &found["total"]),
        (&json!("up"), &json!(25))
    );
    assert!(
        first["score"].as_f64().is_some_and(|score| score > 0.0)
            && !text(&first["reason"]).is_empty(),
        "{first}"
    );
    assert!(
        first.get("outputSchema").is_none(),
        "only a description has it"
    );
    let whole =
        client.call("describe_tool", json!({"name": "up__add"}))["structuredContent"].clone();
    assert_eq!(whole["outputSchema"]["required"], json!(["sum"]));
    let result = client.run("up__add", json!({"a": 2, "b": 3}));
    assert_eq!(result["structuredContent"], json!({"sum": 5}));
    assert_eq!(result["_meta"]["picktools/tool"], "up/add");
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn wrong_calls_are_repaired_or_explained() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    for call in [
        json!({"name": "up__add", "arguments": "{\"a\": 2, \"b\": 3}"}),
        json!({"name": "up__add", "arguments": "{'a': 2, 'b': 3,}"}),
        json!({"name": "up__add", "args": {"a": 2, "b": 3}}),
        json!({"name": "up__add", "a": 2, "b": 3}),
        json!({"name": "add", "arguments": {"a": 2, "b": 3}}),
        json!({"name": "up/add", "arguments": {"a": 2, "b": 3}}),
        json!({"name": "up.add", "arguments": {"a": 2, "b": 3}}),
        json!({"name": "up:add", "arguments": {"a": 2, "b": 3}}),
        json!({"name": "up-add", "arguments": {"a": 2, "b": 3}}),
        json!({"name": "Up__Add", "arguments": {"a": 2, "b": 3}}),
        json!({"name": "mcp__picktools__up__add", "arguments": {"a": 2, "b": 3}}),
        json!({"function": {"name": "up__add", "arguments": {"a": 2, "b": 3}}}),
        json!({"name": "call_tool", "arguments": {"name": "up__add", "arguments": {"a": 2, "b": 3}}}),
    ] {
        let result = client.call("call_tool", call.clone());
        assert_eq!(
            result["structuredContent"],
            json!({"sum": 5}),
            "{call}: {result}"
        );
    }
    let direct = client.call("up__add", json!({"a": 2, "b": 3}));
    assert_eq!(direct["structuredContent"], json!({"sum": 5}));
    let inner = client.call(
        "call_tool",
        json!({"name": "search_tools", "arguments": {"query": "sum of two numbers"}}),
    );
    assert_eq!(inner["structuredContent"]["tools"][0]["name"], "up__add");

    let wrong = client.run("up__add", json!({"a": 2}));
    assert_eq!(code(&wrong), "invalid_arguments");
    assert!(
        said(&wrong).contains("b") && said(&wrong).contains("example of correct arguments"),
        "{wrong}"
    );
    assert_eq!(code(&client.run("up__ad", json!({}))), "unknown_tool");
    assert_eq!(
        code(&client.call("call_tool", json!({}))),
        "invalid_arguments"
    );
    assert_eq!(
        code(&client.call("search_tools", json!({"query": "add", "server": "nobody"}))),
        "invalid_arguments"
    );
    let unknown = client.ask("tools/call", &json!({"name": "nobody", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[test]
fn upstream_notifications_reach_the_client_in_order() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    let params = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "mine"}});
    let id = client.begin("tools/call", &params("up__progress", json!({"steps": 100})));
    let answer = client.answer(id);
    assert_eq!(said(&answer["result"]), "done");
    let steps: Vec<f64> = client
        .told("notifications/progress")
        .iter()
        .map(|told| {
            assert_eq!(told["params"]["progressToken"], "mine");
            told["params"]["progress"].as_f64().unwrap_or(-1.0)
        })
        .collect();
    assert_eq!(steps, (1..=100).map(f64::from).collect::<Vec<_>>());

    client.heard.clear();
    client.ask("tools/call", &params("up__progress_unordered", json!({})));
    let steps: Vec<f64> = client
        .told("notifications/progress")
        .iter()
        .filter_map(|told| told["params"]["progress"].as_f64())
        .collect();
    assert_eq!(steps, [1.0, 3.0, 5.0], "progress grows");
    client.heard.clear();
    client.ask("tools/call", &params("up__progress_after", json!({})));
    client.heard.clear();
    client.run("up__progress", json!({"steps": 3}));
    client.ask(
        "tools/call",
        &json!({"name": "up__log_message", "arguments": {"level": "warning"}}),
    );
    assert!(
        client.told("notifications/progress").is_empty(),
        "nobody asked for it, or it came too late"
    );
    let line = client.told("notifications/message");
    assert_eq!(line[0]["params"]["logger"], "up: worker");
    assert_eq!(line[0]["params"]["data"], "a line");
    client.ask("logging/setLevel", &json!({"level": "error"}));
    client.heard.clear();
    client.ask(
        "tools/call",
        &json!({"name": "up__log_message", "arguments": {"level": "warning"}}),
    );
    assert!(
        client.told("notifications/message").is_empty(),
        "it is below the level"
    );
    let result = client.ask("tools/call", &params("up__storm", json!({"count": 20_000})));
    assert_eq!(said(&result["result"]), "done");
}

#[test]
fn results_are_passed_unchanged() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    let parts = client.run("up__parts", json!({}));
    let kinds: Vec<&Value> = parts["content"]
        .as_array()
        .expect("parts")
        .iter()
        .map(|part| &part["type"])
        .collect();
    assert_eq!(
        json!(kinds),
        json!(["text", "image", "audio", "resource_link", "resource"])
    );
    assert_eq!(parts["content"][0]["annotations"]["priority"], 0.5);
    assert_eq!(parts["_meta"]["example/key"], 1);
    assert_eq!(parts["content"][3]["uri"], "picktools://up/file:///a");
    let odd = client.run("up__hologram", json!({}));
    assert!(
        odd["content"][1]["text"]
            .as_str()
            .is_some_and(|text| text.contains("hologram")),
        "{odd}"
    );
    let failed = client.run("up__fails", json!({}));
    assert_eq!(
        (&failed["isError"], said(&failed).as_str()),
        (&json!(true), "no such city; try Bergen")
    );
    assert!(
        failed["_meta"].get("picktools/error").is_none(),
        "the tool ran"
    );
    let refused = client.run("up__refuses", json!({}));
    assert_eq!(code(&refused), "upstream_error");
    assert!(said(&refused).contains("the city is not known"));
    let long = client.run("up__huge", json!({"bytes": 3_000_000}));
    assert!(long.to_string().len() < 1_100_000 && said(&long).contains("bytes left out"));
    let meta = json!({"traceparent": "00-1-2-01", "progressToken": 5, "secret/key": "x"});
    let told = client.ask(
        "tools/call",
        &json!({"name": "up__meta", "arguments": {}, "_meta": meta}),
    );
    let told: Value = serde_json::from_str(&said(&told["result"])).expect("JSON");
    assert_eq!(told["traceparent"], "00-1-2-01");
    assert!(
        told.get("secret/key").is_none() && told["progressToken"] != 5,
        "{told}"
    );
}

#[test]
fn progress_prolongs_a_call_up_to_a_limit() {
    let place = Place::with(&json!({"up": upstream()}));
    place.write(
        "settings.json",
        &json!({"upstreams": {"up": {"call_s": 1}}}),
    );
    let mut client = place.client(&json!({}));
    let long = client.run("up__progress", json!({"steps": 5, "pause": 0.5}));
    assert_eq!(said(&long), "done");
    let endless = client.run("up__progress", json!({"steps": 60, "pause": 0.5}));
    assert_eq!(code(&endless), "timed_out");
    assert!(said(&endless).contains("within 10 s"), "{endless}");
}

#[test]
fn failing_upstream_fails_only_its_own_call() {
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"upstreams": {"up": {"call_s": 2}}}),
    );
    let mut client = place.client(&json!({}));
    for (name, arguments, expected) in [
        ("up__twice", json!({}), "once"),
        ("up__swapped", json!({}), "yours"),
        ("up__not_json", json!({}), "right"),
        ("up__late", json!({"seconds": 0.2}), "late"),
    ] {
        assert_eq!(said(&client.run(name, arguments)), expected, "{name}");
        assert_eq!(
            said(&client.run("up__echo", json!({"text": "still here"}))),
            "still here",
            "after {name}"
        );
    }
    let died = client.run("up__dies", json!({}));
    assert_eq!(code(&died), "upstream_died");
    assert!(said(&died).contains("out of memory"), "{died}");
    for (name, arguments) in [
        ("up__hangs", json!({})),
        ("up__wrong_id", json!({})),
        ("up__late", json!({"seconds": 4})),
    ] {
        assert_eq!(code(&client.run(name, arguments)), "timed_out", "{name}");
        assert_eq!(
            said(&client.run("up__echo", json!({"text": "again"}))),
            "again",
            "after {name}"
        );
    }
    let huge = client.run("up__huge", json!({"bytes": 20_000_000}));
    assert_eq!(code(&huge), "upstream_died");
    assert!(said(&huge).contains("more than 16777216 bytes"), "{huge}");
    assert_eq!(
        said(&client.run("up__echo", json!({"text": "and again"}))),
        "and again"
    );
    assert_eq!(
        place.happened("started").len(),
        3,
        "only the server that had ended was restarted"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn stopped_server_is_replaced_within_the_next_call() {
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"upstreams": {"up": {"call_s": 4}}}),
    );
    let mut client = place.client(&json!({}));
    let echo = json!({"text": "again"});
    assert_eq!(said(&client.run("up__echo", echo.clone())), "again");
    let started = place.happened("started");
    let stopped = started[started.len() - 1]["pid"].to_string();
    let stop = Command::new("kill").args(["-STOP", &stopped]).status();
    assert!(stop.is_ok_and(|status| status.success()), "{stopped}");
    let unanswered = client.run("up__echo", echo.clone());
    assert_eq!(code(&unanswered), "timed_out", "{unanswered}");
    let next = client.run("up__echo", echo);
    assert_eq!(said(&next), "again", "{next}");
    let command_line = fs::read(format!("/proc/{stopped}/cmdline"));
    assert_eq!(command_line.unwrap_or_default(), b"", "it is gone");
}

#[test]
fn cancelled_call_is_cancelled_upstream() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    let id = client.begin(
        "tools/call",
        &json!({"name": "up__echo", "arguments": {"text": "x", "seconds": 30}}),
    );
    eventually("it arrives", || place.happened("call").len() == 1);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    eventually("it is cancelled", || place.happened("cancelled").len() == 1);
    assert_eq!(
        said(&client.run("up__echo", json!({"text": "next"}))),
        "next"
    );
    assert!(
        client.heard.iter().all(|message| message["id"] != id),
        "{:?}",
        client.heard
    );
    assert_eq!(
        place.happened("started").len(),
        1,
        "it answers, and need not be started again"
    );
}

#[test]
fn unavailable_upstream_is_reported_and_others_work() {
    let place = Place::with(&json!({
        "gone": {"command": "no-such-program-here"},
        "up": upstream(),
        "dies": {"command": "python3", "args": ["-c", "import sys; print('no key', file=sys.stderr)"]},
    }));
    let mut client = place.client(&json!({}));
    assert_eq!(
        client.search("sum of two numbers")["tools"][0]["name"],
        "up__add"
    );
    assert_eq!(
        said(&client.run("up__echo", json!({"text": "here"}))),
        "here"
    );
    for name in ["gone__anything", "dies__anything"] {
        assert_eq!(
            code(&client.run(name, json!({}))),
            "upstream_down",
            "{name}"
        );
    }
    assert_eq!(
        code(&client.run("nowhere__anything", json!({}))),
        "unknown_tool"
    );
    let down = client.search("sum of two numbers")["servers_down"].clone();
    assert_eq!(
        (&down[0]["server"], &down[1]["server"]),
        (&json!("dies"), &json!("gone"))
    );
    assert_eq!(down[0]["why"], "it ended before it answered");
    assert!(
        down[1]["why"]
            .as_str()
            .is_some_and(|why| why.contains("cannot be started")),
        "{down}"
    );
    assert!(down[0]["since"].is_u64(), "{down}");

    let all_down = Place::with(&json!({"gone": {"command": "no-such-program-here"}}));
    let mut client = all_down.client(&json!({}));
    assert_eq!(client.listed().len(), 3);
    let found = client.search("anything");
    assert_eq!(found["tools"], json!([]));
    assert!(
        found["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("servers_down")),
        "{found}"
    );
    let none = Place::with(&json!({}));
    let mut client = none.client(&json!({}));
    assert_eq!(client.search("anything")["total"], 0);
}

#[test]
fn failing_upstream_opens_its_circuit_breaker() {
    let place = Place::faulty();
    place.write(
        "settings.json",
        &json!({"upstreams": {"up": {"parallel": 1}}}),
    );
    let mut client = place.client(&json!({}));
    let codes: Vec<String> = (0..7)
        .map(|_| code(&client.run("up__dies", json!({}))).to_owned())
        .collect();
    assert_eq!(
        codes[..5],
        ["upstream_died"; 5].map(str::to_owned),
        "{codes:?}"
    );
    assert_eq!(codes[6], "upstream_down", "{codes:?}");
    let down = client.run("up__echo", json!({"text": "x"}));
    assert!(
        down["_meta"]["picktools/error"]["retry_after_ms"]
            .as_u64()
            .is_some_and(|time| time > 1_000),
        "{down}"
    );
    assert_eq!(place.happened("started").len(), 5);
    let found = client.search("sum of two numbers");
    assert_eq!(
        found["tools"][0]["name"], "up__add",
        "its tools are still found"
    );
}

#[test]
fn concurrent_calls_are_bounded_and_not_mixed_up() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    client.listed();
    let mut ids = Vec::new();
    let mut all = String::new();
    for number in 0..500 {
        client.next += 1;
        let params = json!({"name": "up__echo", "arguments": {"text": format!("text {number}")}});
        let request =
            json!({"jsonrpc": "2.0", "id": client.next, "method": "tools/call", "params": params});
        all.push_str(&format!("{request}\n"));
        ids.push((client.next, format!("text {number}")));
    }
    client.write(&all);
    for (id, expected) in ids {
        let answer = client.answer(id);
        let result = &answer["result"];
        assert!(
            said(result) == expected || code(result) == "busy",
            "{answer}"
        );
    }
}

#[test]
fn malformed_frames_do_not_stop_the_gateway() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    client.write("this is no JSON\n");
    client.write("{\"jsonrpc\": \"2.0\", \"id\": 77, \"method\": 5}\n");
    client.write("{\"jsonrpc\": \"2.0\", \"id\": null, \"method\": \"tools/list\"}\n");
    client.write("\n\n[]\n");
    client.write(&format!(
        "{{\"jsonrpc\": \"2.0\", \"id\": 78, \"method\": \"{}\"}}\n",
        "x".repeat(1_000_000)
    ));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/nobody", "params": {"x": 1}}));
    let unknown = client.ask("nobody/knows", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
    assert_eq!(
        said(&client.run("up__echo", json!({"text": "here"}))),
        "here"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn disconnected_client_leaves_no_process_behind() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    client.begin("tools/call", &json!({"name": "up__hangs", "arguments": {}}));
    eventually("it arrives", || !place.happened("call").is_empty());
    let started: Vec<u64> = place
        .happened("started")
        .iter()
        .filter_map(|event| event["pid"].as_u64())
        .collect();
    assert_eq!(client.leave(), Some(0));
    assert!(!started.is_empty());
    for pid in started {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "{pid} is still there"
        );
    }
}
