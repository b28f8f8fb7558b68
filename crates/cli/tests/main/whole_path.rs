//! The complete path of a request: picked, shown under another name, called by a model, validated,
//! and run; with audit log, metrics and replay.

use std::fs;

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Place, upstream};
use crate::gateway_http::{Serving, digest};
use crate::model_proxy::Provider;

const KEY: (&str, &str) = ("Authorization", "Bearer first");
const REQUEST: &str = "give this text back: tomorrow at ten";

fn post(serving: &Serving, path: &str, body: &Value) -> Value {
    let headers = [("Content-Type", "application/json"), KEY];
    let answer = serving.raw("POST", path, &headers, &body.to_string());
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

#[test]
fn every_interface_handles_a_request_alike() {
    let place = Place::with(&json!({"up": upstream()}));
    let provider = Provider::answering(
        &place,
        &json!({REQUEST: ["say_again"]}),
        r#"{'text': 'tomorrow at ten',}"#,
    );
    let audit = place.path("audit");
    place.write(
        "settings.json",
        &json!({
            "keys": [{"name": "agent", "sha256": digest("first"), "role": "agent"}],
            "roles": {"agent": {"operator": true}},
            "http": {"calls": true},
            "audit": {"folder": audit},
            "proxy": {"openai": {"url": provider.url()}},
        }),
    );
    let serving = Serving::start(place, &[]);

    // Picked, and shown to the model under an agent's name.
    let picked = post(
        &serving,
        "/v1/pick",
        &json!({"query": REQUEST, "options": {"max_candidates": 2}}),
    );
    let ids: Vec<&str> = picked["picks"]
        .as_array()
        .expect("picks")
        .iter()
        .filter_map(|pick| pick["tool"]["id"].as_str())
        .collect();
    assert_eq!(ids[0], "up/echo", "{picked}");
    let names = json!({"up/echo": "say_again"});
    let shown = post(
        &serving,
        "/v1/translate",
        &json!({"provider": "openai", "tools": ids, "names": names}),
    );

    // The model's answer passes the proxy, which does not narrow so few tools.
    let messages = json!([{"role": "user", "content": REQUEST}]);
    let body = json!({"model": "m", "messages": messages, "tools": shown["tools"]});
    let headers = [
        ("Content-Type", "application/json"),
        ("picktools-key", "first"),
        ("Authorization", "Bearer sk"),
    ];
    let answered = serving.raw("POST", "/v1/chat/completions", &headers, &body.to_string());
    assert_eq!(
        (answered.status, answered.header("picktools-unchanged")),
        (200, Some("few-tools")),
        "{}",
        answered.body
    );
    let answer: Value = serde_json::from_str(&answered.body).expect("JSON");
    assert_eq!(
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"],
        "say_again"
    );

    // Validated, repaired and run.
    let held = post(
        &serving,
        "/v1/validate",
        &json!({"provider": "openai", "answer": answer, "names": names}),
    );
    assert_eq!(
        (&held["ready"], &held["calls"][0]["tool"]),
        (&json!(1), &json!("up/echo")),
        "{held}"
    );
    let arguments = &held["calls"][0]["arguments"];
    assert_eq!(arguments, &json!({"text": "tomorrow at ten"}));
    let result = post(
        &serving,
        "/v1/call",
        &json!({"name": "up/echo", "arguments": arguments}),
    );
    assert_eq!(result["content"][0]["text"], "tomorrow at ten");

    // Metrics.
    let metrics = serving.raw("GET", "/metrics", &[KEY], "").body;
    for line in [
        "picktools_calls_total{upstream=\"up\",outcome=\"done\"} 1",
        "picktools_picks_total{outcome=\"found\"} 1",
        "picktools_model_requests_total{outcome=\"few-tools\"} 1",
        "picktools_requests_total{path=\"/v1/call\",status=\"200\"} 1",
        "picktools_upstream_up{upstream=\"up\"} 1",
    ] {
        assert!(
            metrics.lines().any(|told| told == line),
            "{line}: {metrics}"
        );
    }

    // The audit log in order, and its replay.
    let text = || -> String {
        let mut files: Vec<_> = fs::read_dir(&audit)
            .expect("an audit")
            .map(|entry| entry.expect("a file").path())
            .collect();
        files.retain(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        });
        files.sort();
        files
            .iter()
            .map(|path| fs::read_to_string(path).expect("UTF-8"))
            .collect()
    };
    let done = |text: &str| {
        text.lines()
            .filter(|line| line.contains("\"kind\":\"call\""))
            .count()
            == 1
    };
    let written = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        Some(text()).filter(|text| done(text))
    });
    let written = written.expect("the call is recorded");
    let records: Vec<Value> = written
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of = |kind: &str| {
        records
            .iter()
            .filter(|record| record["kind"] == kind)
            .collect::<Vec<_>>()
    };
    let selections = of("selection");
    assert_eq!(
        selections
            .iter()
            .map(|record| record["via"].as_str())
            .collect::<Vec<_>>(),
        [Some("pick"), Some("model")]
    );
    assert_eq!(
        (&selections[0]["key"], &selections[0]["role"]),
        (&json!("agent"), &json!("agent"))
    );
    let call = of("call")[0];
    assert_eq!(
        (&call["tool"], &call["key"]),
        (&json!("up/echo"), &json!("agent")),
        "{call}"
    );
    assert!(
        !written.contains("Bearer") && !written.contains("\"first\""),
        "no key is in it"
    );
    let folder = audit.display().to_string();
    let output = picktools(&["replay", &folder, "--json"])
        .output()
        .expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}
