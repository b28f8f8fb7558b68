//! `--repair-llm` of the commands that validate or run calls, with an OpenAI-compatible language model
//! that these tests serve.

use std::fs;

use crate::cli::{picktools, refusal, stderr, stdout};
use crate::gateway::{Place, code, said};
use crate::gateway_http::Serving;
use picktools_testing::server::{Reply, TestServer};
use serde_json::{Value, json};

const TERMINAL: &str = "fixtures/catalogs/terminal";
const KEY: &str = "sk-secret-0123456789";

/// Serves a model that always answers with these arguments.
fn model(arguments: &Value) -> TestServer {
    let text = json!({"arguments": arguments}).to_string();
    let answer =
        json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]});
    TestServer::new(move |_, _| Reply::Json(answer.clone()))
}

/// Returns the options that repair calls with a model.
fn repair_options(server: &TestServer) -> [&str; 5] {
    let url = server.url.as_str();
    ["--repair-llm", "--llm-url", url, "--llm-model", "m-1"]
}

/// Runs the command with a model that always answers with these arguments.
fn validate(calls: &Value, arguments: &Value, more: &[&str]) -> (Option<i32>, String, usize) {
    let server = model(arguments);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calls.json");
    fs::write(&file, calls.to_string()).expect("it is written");
    let validate = [
        "validate",
        "--catalog",
        TERMINAL,
        "--calls",
        file.to_str().expect("the path is UTF-8"),
    ];
    let model = ["--llm-url", &server.url, "--llm-model", "m-1"];
    let output = picktools(&[&validate[..], &model, more].concat())
        .env("OPENAI_API_KEY", KEY)
        .output();
    let output = output.expect("it runs");
    assert!(!format!("{}{}", stdout(&output), stderr(&output)).contains(KEY));
    assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
    (
        output.status.code(),
        stdout(&output),
        server.requests().len(),
    )
}

#[test]
fn validate_repair_llm_repairs_and_reports() {
    let calls = json!([
        {"id": "1", "name": "read_file", "arguments": {"file": "a.txt"}},
        {"id": "2", "name": "rm", "arguments": {}},
    ]);
    let mended = json!({"path": "a.txt"});
    let (code, text, asked) = validate(&calls, &mended, &["--repair-llm"]);
    assert_eq!(
        (code, asked),
        (Some(1), 1),
        "an unknown tool is no matter of arguments: {text}"
    );
    let told = "valid; rewritten by llm:m-1: /file removed (was \"a.txt\"); /path added: \"a.txt\"";
    assert!(text.contains(told), "{text}");
    assert!(
        text.contains("1 valid (1 rewritten by a model), 0 waiting for approval, 1 refused"),
        "{text}"
    );

    let (_, text, _) = validate(&calls, &mended, &["--repair-llm", "--json"]);
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    let repaired = &report["calls"][0]["repaired"][0];
    assert_eq!(
        (&repaired["by"], &repaired["changes"][1]["pointer"]),
        (&json!("llm:m-1"), &json!("/path")),
        "{report}"
    );

    let (code, text, asked) = validate(&calls, &json!({"path": {"of": 7}}), &["--repair-llm"]);
    assert!(
        code == Some(1) && asked == 1 && text.contains("a repair failed: llm:m-1: "),
        "{text}"
    );
}

#[test]
fn validate_repair_llm_with_bad_options_is_refused() {
    let validate = [
        "validate",
        "--catalog",
        TERMINAL,
        "--calls",
        "no-such-file",
        "--repair-llm",
    ];
    for (arguments, part) in [
        (
            &[][..],
            "repairing calls needs a language model; pass --llm-url URL and --llm-model NAME",
        ),
        (
            &["--llm-url", "localhost", "--llm-model", "m"],
            "write it like",
        ),
        (
            &[
                "--llm-url",
                "http://localhost",
                "--llm-model",
                "m",
                "--llm-provider",
                "gemini",
            ],
            "gemini",
        ),
        (
            &[
                "--llm-url",
                "http://localhost",
                "--llm-model",
                "m",
                "--llm-extra",
                "[]",
            ],
            "not a JSON object",
        ),
    ] {
        let message = refusal(&[&validate[..], arguments].concat());
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
}

#[test]
fn call_and_run_repair_llm_run_the_repaired_call() {
    let server = model(&json!({"file_paths": ["a.txt"]}));
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.txt"), "the text of a file\n").expect("it is written");
    let root = folder.path().display().to_string();
    let faulty = json!({"which": "a.txt"});
    let repair = repair_options(&server);
    let tools = ["--built-in", "--root", &root];
    let call = ["call", "read", "--args", &faulty.to_string()].map(str::to_owned);
    let call = call.each_ref().map(String::as_str);
    let output = picktools(&[&call[..], &tools, &repair].concat())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("the text of a file"),
        "{}",
        stdout(&output)
    );
    let report = "rewritten by llm:m-1: /which removed, /file_paths added";
    assert!(stderr(&output).contains(report), "{}", stderr(&output));
    assert_eq!(server.requests().len(), 1);

    let calls = folder.path().join("calls.json");
    let text = json!([{"name": "read", "arguments": faulty}]).to_string();
    fs::write(&calls, text).expect("it is written");
    let run = ["run", calls.to_str().expect("the path is UTF-8"), "--json"];
    let output = picktools(&[&run[..], &tools, &repair].concat())
        .output()
        .expect("it runs");
    let events = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(events.contains(report), "{events}");

    // The model is never asked about an unsafe tool.
    let write = ["call", "write", "--args", "{}", "--allow-unsafe", "--yes"];
    let output = picktools(&[&write[..], &tools, &repair].concat())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn gateway_repairs_faulty_calls_once_and_reports_it() {
    let server = model(&json!({"a": 2, "b": 3}));
    let place = Place::faulty();
    let audit = place.path("audit").display().to_string();
    let repair = repair_options(&server);
    let mut client = place.client_with_options(&[&repair[..], &["--audit", &audit]].concat());
    let faulty = json!({"a": 2, "second": "3"});
    for is_direct in [true, false] {
        let result = match is_direct {
            true => client.call("up__add", faulty.clone()),
            false => client.run("up__add", faulty.clone()),
        };
        assert_eq!(result["structuredContent"], json!({"sum": 5}), "{result}");
        let report = "rewritten by llm:m-1: /second removed (was \"3\"); /b added: 3";
        assert_eq!(result["_meta"]["picktools/repaired"], json!([report]));
        assert_eq!(server.requests().len(), 1 + usize::from(!is_direct));
    }
    let of_unsafe_tool = client.run("up__delete_everything", json!({"name": {"of": 7}}));
    assert_eq!(code(&of_unsafe_tool), "invalid_arguments");
    let correct = client.call("up__add", json!({"a": 1, "b": 1}));
    assert!(correct["_meta"].get("picktools/repaired").is_none());
    assert_eq!(server.requests().len(), 2, "only faulty calls are repaired");
    assert_eq!(client.leave(), Some(0));
    let mut recorded = 0;
    for entry in fs::read_dir(&audit).expect("a folder") {
        let text = fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(rewritten) = record.get("rewritten") {
                recorded += 1;
                let arguments = json!({"a": 2, "b": 3});
                let expected = json!({"by": "llm:m-1", "arguments": arguments});
                assert_eq!((rewritten, &record["arguments"]), (&expected, &faulty));
            }
        }
    }
    assert_eq!(recorded, 2);
}

#[test]
fn gateway_explains_a_call_that_cannot_be_repaired() {
    let server = model(&json!({"a": "two"}));
    let place = Place::faulty();
    let mut client = place.client_with_options(&repair_options(&server));
    let refused = client.run("up__add", json!({"a": 2}));
    assert_eq!(code(&refused), "invalid_arguments");
    let message = said(&refused);
    assert!(
        message.contains("the member \"b\"") && message.contains("(a repair failed: llm:m-1: "),
        "{message}"
    );
}

#[test]
fn http_call_is_repaired_by_serve() {
    let server = model(&json!({"a": 2, "b": 3}));
    let place = Place::faulty();
    place.write("settings.json", &json!({"http": {"calls": true}}));
    let serving = Serving::start(place, &repair_options(&server));
    let body = json!({"name": "up/add", "arguments": {"a": 2}});
    let (status, result) = serving.json("/v1/call", &[], &body);
    assert_eq!(
        (status, &result["structuredContent"]),
        (200, &json!({"sum": 5}))
    );
    assert_eq!(
        result["_meta"]["picktools/repaired"],
        json!(["rewritten by llm:m-1: /b added: 3"])
    );
}

#[test]
fn repair_without_a_model_is_refused_by_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (calls, config, state) = (path("calls.json"), path("mcp.json"), path("state"));
    let text = json!([{"name": "read", "arguments": {}}]).to_string();
    fs::write(&calls, text).expect("it is written");
    fs::write(&config, json!({"mcpServers": {}}).to_string()).expect("it is written");
    let servers = ["--config", config.as_str(), "--state-dir", state.as_str()];
    for command in [
        &["call", "read", "--built-in"][..],
        &["run", &calls, "--built-in"],
        &["validate", "--catalog", TERMINAL, "--calls", &calls],
        &[&["mcp"][..], &servers].concat(),
        &[&["serve", "--listen", "127.0.0.1:0"][..], &servers].concat(),
    ] {
        let message = refusal(&[command, &["--repair-llm"]].concat());
        let expected = "repairing calls needs a language model; pass --llm-url URL";
        assert!(message.contains(expected), "{command:?}: {message}");
        let message = refusal(&[command, &["--llm-url", "http://localhost:1"]].concat());
        let expected = "--llm-url is used only with --repair-llm";
        assert!(message.contains(expected), "{command:?}: {message}");
    }
}

/// Serves a model whose every answer is another number for `b`.
fn changing_model() -> TestServer {
    TestServer::new(|number, _| {
        let text = json!({"arguments": {"a": 2, "b": number + 3}}).to_string();
        let message = json!({"role": "assistant", "content": text});
        Reply::Json(json!({"choices": [{"index": 0, "message": message}]}))
    })
}

/// Returns a folder for callers whose calls wait unless a tool is known to only read.
fn read_only() -> Place {
    let place = Place::faulty();
    let role = json!({"access": {"execution_mode": "read-only"}});
    let settings = json!({"roles": {"default": role}, "http": {"calls": true}});
    place.write("settings.json", &settings);
    place
}

/// Allows the only pending call, and returns its description.
fn allow_pending_call(place: &Place) -> String {
    let state = place.path("state").display().to_string();
    let pending = picktools(&["approve", "--state-dir", &state, "--json"]).output();
    let pending: Value = serde_json::from_str(&stdout(&pending.expect("it runs"))).expect("JSON");
    let calls = pending["calls"].as_object().expect("calls");
    let (id, call) = calls.iter().next().expect("a call is pending");
    assert_eq!(calls.len(), 1, "{pending}");
    let allow = ["approve", "--state-dir", &state, "--call", id];
    let allowed = picktools(&allow).output().expect("it runs");
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    call["shown"].as_str().expect("a text").to_owned()
}

#[test]
fn repaired_call_that_waits_is_the_same_when_it_is_repeated() {
    let server = changing_model();
    let place = read_only();
    let mut client = place.client_with_options(&repair_options(&server));
    let mut faulty = json!({"a": 2});
    assert_eq!(
        code(&client.run("up__add", faulty.clone())),
        "not_confirmed"
    );
    assert_eq!(
        code(&client.run("up__add", faulty.clone())),
        "not_confirmed"
    );
    assert_eq!(server.requests().len(), 1, "the repair is kept");
    let shown = allow_pending_call(&place);
    assert!(shown.contains("b=3"), "{shown}");
    let result = client.run("up__add", faulty.clone());
    assert_eq!(result["structuredContent"], json!({"sum": 5}), "{result}");
    assert_eq!(server.requests().len(), 1);
    assert_eq!(
        code(&client.run("up__add", faulty.clone())),
        "not_confirmed"
    );
    assert_eq!(server.requests().len(), 2, "a call that ran is forgotten");
    faulty["extra"] = json!(1);
    assert_eq!(code(&client.run("up__add", faulty)), "not_confirmed");
    assert_eq!(
        server.requests().len(),
        3,
        "other arguments are another call"
    );
}

#[test]
fn repaired_call_over_http_is_the_same_when_it_is_repeated() {
    let server = changing_model();
    let serving = Serving::start(read_only(), &repair_options(&server));
    let body = json!({"name": "up/add", "arguments": {"a": 2}});
    let (_, refused) = serving.json("/v1/call", &[], &body);
    assert_eq!(refused["code"], "not_confirmed", "{refused}");
    allow_pending_call(&serving.place);
    let (_, result) = serving.json("/v1/call", &[], &body);
    assert_eq!(result["structuredContent"], json!({"sum": 5}), "{result}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn repaired_call_is_the_same_after_a_question_to_the_client() {
    let server = changing_model();
    let serving = Serving::start(read_only(), &repair_options(&server));
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "up__add"),
    ];
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let mut params = json!({"name": "up__add", "arguments": {"a": 2}, "_meta": meta});
    let asked = serving.request(&headers, "tools/call", &params)["result"].clone();
    let question = &asked["inputRequests"]["run"]["params"]["message"];
    assert!(question.to_string().contains("b=3"), "{asked}");
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({"run": {"action": "accept", "content": {"run": true}}});
    let result = serving.request(&headers, "tools/call", &params)["result"].clone();
    assert_eq!(result["structuredContent"], json!({"sum": 5}), "{result}");
    assert_eq!(server.requests().len(), 1);
}
