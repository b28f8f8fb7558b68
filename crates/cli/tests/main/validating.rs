//! `picktools validate`: one result per call, in every format of calls.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{WORKPLACE, picktools, refusal, stderr, stdout};

const TERMINAL: &str = "fixtures/catalogs/terminal";

/// Runs the command on a file of calls, and returns the exit code and the answer.
fn validate(catalog: &str, calls: &str, more: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calls.json");
    fs::write(&file, calls).expect("it is written");
    let file = file.to_str().expect("the path is UTF-8");
    let arguments = [&["validate", "--catalog", catalog, "--calls", file], more].concat();
    let output = picktools(&arguments).output().expect("it runs");
    assert_ne!(output.status.code(), Some(2), "{}", stderr(&output));
    (output.status.code(), stdout(&output))
}

fn report(catalog: &str, calls: &str, more: &[&str]) -> Value {
    let (_, text) = validate(catalog, calls, &[more, &["--json"]].concat());
    serde_json::from_str(&text).expect("the answer is JSON")
}

#[test]
fn validate_reports_each_call_and_sets_the_exit_code() {
    let calls = [
        json!({"id": "7", "name": "bash", "arguments": {"command": "ls"}}),
        json!({"name": "terminalReadFile", "arguments": "{'path': 'a.txt'}"}),
        json!({"name": "read_file", "arguments": {"encoding": "utf7"}}),
        json!({"name": "rm", "arguments": {}}),
    ];
    let lines = calls
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    let (code, text) = validate(TERMINAL, &lines, &[]);
    assert_eq!(code, Some(1));
    let text: Vec<&str> = text.lines().collect();
    assert_eq!(text.len(), 5, "{text:?}");
    assert!(
        text[0].ends_with("terminalRun (called bash): valid"),
        "{}",
        text[0]
    );
    assert!(
        text[1].contains("repaired: replaced quotation marks"),
        "{}",
        text[1]
    );
    assert!(
        text[2].contains("the member \"path\"") && text[2].contains("/encoding: expected one of"),
        "{}",
        text[2]
    );
    assert!(text[3].contains("Unknown tool: rm"), "{}", text[3]);
    assert_eq!(text[4], "2 valid, 0 waiting for approval, 2 refused");
    let (code, _) = validate(TERMINAL, &calls[0].to_string(), &[]);
    assert_eq!(code, Some(0));

    let openai = json!({"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}});
    let anthropic =
        json!({"type": "tool_use", "id": "2", "name": "bash", "input": {"command": "ls"}});
    let (code, text) = validate(TERMINAL, &format!("{openai}\n{anthropic}\n"), &[]);
    assert!(
        code == Some(0) && text.contains("2 valid"),
        "single calls as providers write them: {text}"
    );

    let report = report(TERMINAL, &json!(calls).to_string(), &[]);
    assert_eq!(
        (&report["version"], &report["ready"], &report["refused"]),
        (&json!(1), &json!(2), &json!(2))
    );
    let [first, second, third, last] = [0, 1, 2, 3].map(|index| &report["calls"][index]);
    assert_eq!(
        (&first["status"], &first["id"], &first["resolved_via"]),
        (&json!("ready"), &json!("7"), &json!("alias"))
    );
    assert_eq!(
        (&first["arguments"], &first["validated"]),
        (&json!({"command": "ls"}), &json!(true))
    );
    assert_eq!(
        first["names"],
        json!({"requested": "bash", "canonical": "terminalRun"})
    );
    assert_eq!(second["repaired"][0]["change"], "syntax");
    assert_eq!(
        (&third["status"], &third["error"]["code"]),
        (&json!("refused"), &json!("invalid"))
    );
    assert_eq!(third["error"]["example"], json!({"path": "text"}));
    assert_eq!(last["error"]["code"], "unknown_tool");
}

#[test]
fn validate_refuses_invalid_entries_and_continues() {
    let call = json!({"name": "bash", "arguments": {"command": "ls"}}).to_string();
    let twice = r#"{"name": "bash", "name": "rm", "arguments": {"command": "ls"}}"#;
    let lines = format!(
        "{{\"name\": \"bash\"\n{call}\n\n{{\"nam\": \"bash\"}}\n[1]\n{twice}\n\u{feff}{call}\n{call}"
    );
    let (code, text) = validate(TERMINAL, &lines, &[]);
    assert_eq!(code, Some(1));
    let told: Vec<&str> = text.lines().collect();
    assert_eq!(told.len(), 8, "{text}");
    for (at, place) in [
        (0, "line 1: "),
        (2, "line 4: the tool name is missing"),
        (3, "line 5: "),
        (4, "line 6: "),
        (5, "line 7: "),
    ] {
        assert!(
            told[at].starts_with(&format!("{:>2}. {place}", at + 1)),
            "{text}"
        );
    }
    assert!(told[4].contains("duplicate field `name`"), "{text}");
    assert!(
        told[1].ends_with("valid") && told[6].ends_with("valid"),
        "{text}"
    );
    assert_eq!(told[7], "2 valid, 0 waiting for approval, 5 refused");
    let report = report(TERMINAL, &lines, &[]);
    assert_eq!(
        (&report["ready"], &report["refused"]),
        (&json!(2), &json!(5))
    );
    assert_eq!(
        (&report["calls"][0]["status"], &report["calls"][0]["place"]),
        (&json!("refused"), &json!("line 1"))
    );
    let array = format!("[{call}, {{\"nam\": 1}}, 3, {call}]");
    let (code, text) = validate(TERMINAL, &array, &["--provider", "openai"]);
    assert!(
        code == Some(1) && text.contains(" 2. entry 2: the tool name is missing"),
        "{text}"
    );
    assert!(
        text.contains(" 3. entry 3: ")
            && text.ends_with("2 valid, 0 waiting for approval, 2 refused\n"),
        "{text}"
    );
    // A line that is not UTF-8 is refused, too.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calls.jsonl");
    fs::write(
        &file,
        [call.as_bytes(), b"\n\xff\xfe\n", call.as_bytes()].concat(),
    )
    .expect("it is written");
    let file = file.to_str().expect("the path is UTF-8");
    let output = picktools(&["validate", "--catalog", TERMINAL, "--calls", file])
        .output()
        .expect("it runs");
    assert!(
        stdout(&output).contains(" 2. line 2: "),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}

#[test]
fn validate_marks_calls_of_unsafe_tools() {
    let unsafe_call = json!({"name": "calendar/delete_event", "arguments": {"event_id": "7"}});
    let safe_call = json!({"name": "files/list_directory", "arguments": {"path": "a"}});
    let calls = json!([unsafe_call, safe_call]).to_string();
    let (_, text) = validate(WORKPLACE, &calls, &["--allow-unsafe"]);
    let told: Vec<&str> = text.lines().collect();
    assert_eq!(told[0], " 1. calendar/delete_event: valid; marked unsafe");
    assert!(!told[1].contains("unsafe"), "{text}");
    assert_eq!(
        told[2],
        "2 valid (1 of an unsafe tool), 0 waiting for approval, 0 refused"
    );
    let report = report(WORKPLACE, &calls, &["--allow-unsafe"]);
    assert_eq!(
        (&report["calls"][0]["unsafe"], &report["calls"][1]["unsafe"]),
        (&json!(true), &Value::Null)
    );
}

#[test]
fn validate_reads_provider_answers_and_streams() {
    let answer = json!({"content": [{"type": "text", "text": "I will."},
        {"type": "tool_use", "id": "t1", "name": "terminalRun", "input": {"command": "ls"}}]});
    let whole = report(TERMINAL, &answer.to_string(), &["--provider", "anthropic"]);
    assert_eq!(
        (&whole["ready"], &whole["calls"][0]["resolved_via"]),
        (&json!(1), &json!("advertised"))
    );
    let part = |text: &str| {
        let call = json!({"index": 0, "id": "c1", "function": {"name": "bash", "arguments": text}});
        format!(
            "data: {}\n\n",
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
        )
    };
    let mut second = part(" \"ls\"}");
    second = second
        .replace("\"id\":\"c1\",", "")
        .replace("\"name\":\"bash\"", "\"name\":null");
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let stream = format!(
        "{}{second}data: {end}\n\ndata: [DONE]\n\n",
        part("{\"command\":")
    );
    let streamed = report(
        TERMINAL,
        &stream,
        &["--provider", "openai", "--names", "primary-alias"],
    );
    assert_eq!(
        (&streamed["ready"], &streamed["calls"][0]["arguments"]),
        (&json!(1), &json!({"command": "ls"}))
    );
    let names = json!({"requested": "bash", "advertised": "bash", "canonical": "terminalRun"});
    assert_eq!(streamed["calls"][0]["names"], names);
}

#[test]
fn validate_reads_a_complete_answer_as_one_document() {
    // A line of the answer is a call by itself.
    let call = r#"{"name": "terminalRun", "arguments": "{\"command\": \"ls\"}"}"#;
    let chat = format!(
        "{{\"choices\": [{{\"message\": {{\"tool_calls\": [{{\"id\": \"a\", \"function\":\n{call}\n}}, \
         {{\"id\": \"b\", \"function\":\n{call}\n}}]}}}}]}}"
    );
    let responses = format!(
        "{{\"output\": [\n{}\n]}}",
        call.replacen('{', r#"{"type": "function_call", "call_id": "a", "#, 1)
    );
    let anthropic = "{\"content\": [\n{\"type\": \"tool_use\", \"id\": \"a\", \"name\": \"terminalRun\", \
                     \"input\": {\"command\": \"ls\"}}\n]}";
    let gemini = "{\"candidates\": [{\"content\": {\"parts\": [{\"functionCall\":\n{\"name\": \"terminalRun\", \
                  \"args\": {\"command\": \"ls\"}}\n}]}}]}";
    let ollama = format!("{{\"message\": {{\"tool_calls\": [{{\"function\":\n{call}\n}}]}}}}");
    let mcp = format!("{{\"method\": \"tools/call\", \"id\": \"a\", \"params\":\n{call}\n}}");
    for (provider, answer, count) in [
        ("openai", chat.as_str(), 2),
        ("openai-responses", &responses, 1),
        ("anthropic", anthropic, 1),
        ("gemini", gemini, 1),
        ("gemini", &format!("[{gemini},\n{gemini}]"), 2),
        ("ollama", &ollama, 1),
        ("mcp", &mcp, 1),
    ] {
        let report = report(TERMINAL, answer, &["--provider", provider]);
        let calls = &report["calls"];
        assert_eq!(
            (&report["ready"], &report["refused"]),
            (&json!(count), &json!(0)),
            "{report}"
        );
        let arguments = (0..count).all(|at| calls[at]["arguments"] == json!({"command": "ls"}));
        assert!(arguments, "{provider}: {report}");
    }
    // The events of a stream, one per line, also have lines that are calls by themselves.
    let item =
        r#"{"type": "function_call", "call_id": "a", "name": "terminalRun", "arguments": ""}"#;
    let stream = format!(
        "{}\n{}\n{}\n",
        format_args!(
            r#"{{"type": "response.output_item.added", "output_index": 0, "item": {item}}}"#
        ),
        call.replacen(
            '{',
            r#"{"type": "response.function_call_arguments.done", "output_index": 0, "#,
            1
        ),
        r#"{"type": "response.completed", "response": {"status": "completed"}}"#,
    );
    let streamed = report(TERMINAL, &stream, &["--provider", "openai-responses"]);
    assert_eq!(streamed["calls"][0]["id"], "a", "{streamed}");
    // Plain calls still are calls if a provider is named.
    for calls in [
        call.to_owned(),
        format!("{call}\n{call}"),
        format!("[{call}]"),
    ] {
        let plain = report(TERMINAL, &calls, &["--provider", "openai"]);
        assert_eq!(plain["refused"], 0, "{plain}");
    }
    // An answer without a provider is refused in one piece.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("answer.json");
    for answer in [chat.as_str(), &chat[..chat.len() - 1]] {
        fs::write(&file, answer).expect("it is written");
        let file = file.to_str().expect("the path is UTF-8");
        let error = refusal(&["validate", "--catalog", TERMINAL, "--calls", file]);
        assert!(error.contains("no calls found"), "{error}");
    }
}

#[test]
fn validate_reads_calls_in_text_on_request() {
    let call = r#"<tool_call>{"name": "terminalRun", "arguments": {"command": "ls"}}</tool_call>"#;
    let text = json!(format!("I look.\n{call}"));
    let stream: String = call
        .split_inclusive('"')
        .map(|part| {
            format!(
                "data: {}\n\n",
                json!({"choices": [{"delta": {"content": part}}]})
            )
        })
        .collect();
    let answers = [
        ("openai", json!({"choices": [{"message": {"content": text}}]}).to_string()),
        ("openai", stream + "data: [DONE]\n\n"),
        (
            "openai-responses",
            json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]})
                .to_string(),
        ),
        ("anthropic", json!({"content": [{"type": "text", "text": text}]}).to_string()),
        (
            "gemini",
            json!({"candidates": [{"content": {"parts": [{"text": text}]}}]}).to_string(),
        ),
        ("ollama", json!({"message": {"content": text}}).to_string()),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("answer.json");
    let run = |answer: &str, more: &[&str]| {
        fs::write(&file, answer).expect("it is written");
        let file = file.to_str().expect("the path is UTF-8");
        let arguments = ["validate", "--catalog", TERMINAL, "--calls", file, "--json"];
        picktools(&[&arguments, more].concat())
            .output()
            .expect("it runs")
    };
    for (provider, answer) in &answers {
        let options = ["--provider", provider];
        let without = run(answer, &options);
        assert_eq!(without.status.code(), Some(0), "{provider}");
        assert!(
            stdout(&without).contains("\"ready\": 0"),
            "{provider}: {}",
            stdout(&without)
        );
        assert!(
            stderr(&without)
                .contains("looks like a call of terminalRun; read it with --text-calls"),
            "{provider}: {}",
            stderr(&without)
        );
        let with = run(answer, &[&options[..], &["--text-calls"]].concat());
        assert!(
            stdout(&with).contains("\"ready\": 1"),
            "{provider}: {}",
            stdout(&with)
        );
        assert_eq!(stderr(&with), "", "{provider}");
        let unknown = answer.replace("terminalRun", "terminalFly");
        let unknown = run(&unknown, &[&options[..], &["--text-calls"]].concat());
        assert!(
            stdout(&unknown).contains("\"calls\": []"),
            "{provider}: {}",
            stdout(&unknown)
        );
        assert!(
            stderr(&unknown).contains("terminalFly, which is not a shown tool"),
            "{provider}: {}",
            stderr(&unknown)
        );
    }
    // The file may be the text itself, with or without a provider.
    let llama = r#"{"name": "terminalRun", "parameters": {"command": "ls"}}"#;
    let python = "[terminalRun(command='ls')]";
    for (text, more) in [
        (call, &["--text-calls"][..]),
        (call, &["--text-calls", "--provider", "openai"]),
        (llama, &["--text-calls"]),
        (python, &["--text-calls"]),
    ] {
        let output = run(text, more);
        assert!(
            stdout(&output).contains("\"ready\": 1"),
            "{text}: {}",
            stderr(&output)
        );
    }
    let error = run(call, &[]);
    assert_eq!(error.status.code(), Some(2));
    assert!(
        stdout(&error).contains("--text-calls"),
        "{}",
        stdout(&error)
    );
}

#[test]
fn validate_judges_arguments_as_written() {
    let calls = "{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\", \"command\": \"rm\"}}";
    let (code, text) = validate(TERMINAL, calls, &[]);
    assert!(
        code == Some(1) && text.contains("duplicate key \"/command\""),
        "{text}"
    );
    let long = json!({"name": "bash", "arguments": {"command": "x".repeat(2 << 20)}});
    let (code, text) = validate(TERMINAL, &long.to_string(), &[]);
    assert!(
        code == Some(1) && text.contains("the limit is 1048576 bytes"),
        "{text}"
    );
    let (code, _) = validate(
        TERMINAL,
        &long.to_string(),
        &["--max-argument-bytes", "4194304"],
    );
    assert_eq!(code, Some(0));
}

#[test]
fn validate_of_file_without_calls_names_the_position() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = |text: &str, more: &[&str]| {
        let file = folder.path().join("calls.jsonl");
        fs::write(&file, text).expect("it is written");
        let path = file.to_str().expect("the path is UTF-8").to_owned();
        refusal(
            &[
                &["validate", "--catalog", WORKPLACE, "--calls", &path],
                more,
            ]
            .concat(),
        )
    };
    let text = error("\n{\"nam\": \"dm\"}\n", &[]);
    assert!(
        text.contains("calls.jsonl") && text.contains("line 2") && text.contains("--provider"),
        "{text}"
    );
    let text = error(
        "{\"error\": {\"message\": \"overloaded\"}}",
        &["--provider", "openai"],
    );
    assert!(text.contains("overloaded"), "{text}");
    assert!(error("nonsense", &["--provider", "ollama"]).contains("not JSON"));
    assert!(!Path::new("no/such").exists());
    let text = refusal(&["validate", "--catalog", WORKPLACE, "--calls", "no/such"]);
    assert!(text.contains("cannot read no/such"), "{text}");
}

#[test]
fn calls_of_picked_definitions_are_valid() {
    let pick = [
        "pick",
        "read the file notes.txt",
        "--catalog",
        TERMINAL,
        "-k",
        "1",
        "--mode",
        "keyword",
    ];
    let definitions = crate::cli::answer(
        &[
            &pick[..],
            &["--provider", "anthropic", "--names", "primary-alias"],
        ]
        .concat(),
    );
    let definitions: Value = serde_json::from_str(&definitions).expect("the answer is JSON");
    assert_eq!(definitions[0]["name"], "read_file");
    assert_eq!(definitions[0]["input_schema"]["required"], json!(["path"]));
    let both =
        crate::cli::answer(&[&pick[..], &["--provider", "openai", "--strict", "--json"]].concat());
    let both: Value = serde_json::from_str(&both).expect("the answer is JSON");
    assert_eq!(both["picks"][0]["tool"]["name"], "terminalReadFile");
    assert_eq!(both["definitions"]["tools"][0]["function"]["strict"], true);
    assert_eq!(
        both["definitions"]["names"],
        json!({"terminalReadFile": "terminal/terminalReadFile"})
    );
    // A strict view represents an absent member as null.
    let call = json!({"name": "terminalReadFile", "arguments": {"path": "notes.txt", "encoding": null, "sessionId": null}});
    let report = report(
        TERMINAL,
        &call.to_string(),
        &["--provider", "openai", "--strict"],
    );
    assert_eq!(
        (&report["ready"], &report["calls"][0]["arguments"]),
        (&json!(1), &json!({"path": "notes.txt"}))
    );
}

#[test]
fn validate_refuses_calls_for_the_reasons_of_a_pick() {
    let call = json!({"name": "files/delete_file", "arguments": {"path": "a.txt"}}).to_string();
    let (code, text) = validate(WORKPLACE, &call, &[]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("files/delete_file cannot be called: unsafe tools"),
        "{text}"
    );
    let refused = report(WORKPLACE, &call, &[]);
    let error = &refused["calls"][0]["error"];
    assert_eq!(
        (&error["code"], &error["reasons"][0]["code"]),
        (&json!("ineligible"), &json!("unsafe"))
    );
    assert_eq!(validate(WORKPLACE, &call, &["--allow-unsafe"]).0, Some(0));

    let call = json!({"name": "merge_pull_request", "arguments": "{}"}).to_string();
    let (_, text) = validate(WORKPLACE, &call, &[]);
    assert!(text.contains("requires role"), "{text}");
    let (_, text) = validate(WORKPLACE, &call, &["--role", "maintainer"]);
    assert!(
        !text.contains("requires role")
            && text.contains("the arguments of forge/merge_pull_request"),
        "{text}"
    );
    let (_, text) = validate(
        WORKPLACE,
        &call,
        &["--role", "maintainer", "--deny-source", "forge"],
    );
    assert!(text.contains("source not allowed: forge"), "{text}");
}

#[test]
fn validate_results_follow_the_provider_format() {
    let calls = [
        json!({"id": "1", "name": "bash", "arguments": {"command": "ls"}}),
        json!({"id": "2", "name": "read_file", "arguments": {}}),
        json!({"id": "3", "name": "rm", "arguments": {}}),
    ];
    let lines = calls
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n");
    let names = ["--names", "primary-alias"];
    let (code, text) = validate(
        TERMINAL,
        &lines,
        &[&["--provider", "anthropic", "--results"], &names[..]].concat(),
    );
    let messages: Value = serde_json::from_str(&text).expect("it is JSON");
    let blocks = &messages[0]["content"];
    assert_eq!(
        (code, blocks.as_array().map(Vec::len)),
        (Some(1), Some(2)),
        "{messages}"
    );
    assert_eq!(
        (&blocks[0]["tool_use_id"], &blocks[1]["is_error"]),
        (&json!("2"), &json!(true))
    );
    let told = blocks[0]["content"].as_str().expect("it is text");
    assert!(
        told.starts_with("the arguments of read_file do not match its schema")
            && told.contains("example of correct arguments: {"),
        "{told}"
    );
    let report = report(TERMINAL, &lines, &["--provider", "openai", "--results"]);
    assert_eq!(
        (&report["results"][1]["tool_call_id"], &report["refused"]),
        (&json!("3"), &json!(2))
    );
    let (code, text) = validate(
        TERMINAL,
        &calls[0].to_string(),
        &["--provider", "openai", "--results"],
    );
    assert_eq!(
        (code, text.trim()),
        (Some(0), "[]"),
        "nothing is to be told"
    );

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("calls.json");
    fs::write(&file, r#"{"name": "rm", "arguments": {}}"#).expect("it is written");
    let validate = [
        "validate",
        "--catalog",
        TERMINAL,
        "--calls",
        file.to_str().expect("the path is UTF-8"),
    ];
    let message = refusal(&[&validate[..], &["--results", "--provider", "openai"]].concat());
    assert!(
        message.contains("the call of rm has no id, which openai requires for its result; keep the `id` of each call"),
        "{message}"
    );
    let message = refusal(&[&validate[..], &["--results"]].concat());
    assert!(message.contains("--provider"), "{message}");
}

#[test]
fn validate_of_call_without_schema_names_its_mode() {
    let folder = tempfile::tempdir().expect("a folder");
    let entry = |mode: &str| json!({"name": mode, "allow_no_schema": true, "no_schema_mode": mode});
    let tools = json!([entry("full"), entry("read-only"), entry("human-approval")]);
    let catalog = folder.path().join("tools.json");
    fs::write(&catalog, tools.to_string()).expect("it is written");
    let calls =
        ["full", "read-only", "human-approval"].map(|name| json!({"name": name, "arguments": {}}));
    let (_, text) = validate(
        catalog.to_str().expect("it is UTF-8"),
        &json!(calls).to_string(),
        &[],
    );
    let told: Vec<&str> = text.lines().collect();
    assert!(
        told[0].ends_with("full: not validated, because the tool has no schema (full)"),
        "{text}"
    );
    assert!(
        told[1].ends_with(
            "it has no schema and is not known to be read-only; a person must approve it"
        ),
        "{text}"
    );
    assert!(
        told[2].ends_with("it has no schema; a person must approve it"),
        "{text}"
    );
}

/// Writes a catalog, and returns its folder and its path.
fn catalog_of(tools: &[Value]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tools.json");
    fs::write(&file, json!(tools).to_string()).expect("it is written");
    let path = file.to_str().expect("the path is UTF-8").to_owned();
    (folder, path)
}

/// Returns the picked names of a request, and the names whose calls are valid.
fn picked_and_ready(
    catalog: &str,
    request: &str,
    names: &[&str],
    more: &[&str],
) -> [Vec<String>; 2] {
    let pick = [
        "pick",
        request,
        "--catalog",
        catalog,
        "--json",
        "--min-score",
        "0",
        "-k",
        "9",
    ];
    let picks = crate::cli::json(&[&pick[..], more].concat());
    let calls: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "arguments": {}}))
        .collect();
    let report = report(catalog, &json!(calls).to_string(), more);
    let texts = |list: &Value, pointer: &str, only_ready: Option<&str>| {
        let list = list.as_array().expect("a list").iter();
        let list = list.filter(|item| only_ready.is_none_or(|status| item["status"] == status));
        let mut names: Vec<String> = list
            .filter_map(|item| item.pointer(pointer)?.as_str())
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names
    };
    [
        texts(&picks["picks"], "/tool/name", None),
        texts(&report["calls"], "/names/canonical", Some("ready")),
    ]
}

#[test]
fn threat_level_limits_picks_and_calls() {
    let names = [
        "restart_a_low",
        "restart_b_medium",
        "restart_c_high",
        "restart_d_critical",
        "restart_e_unrated",
    ];
    let tools = names.map(|name| {
        let level = name.rsplit('_').next().filter(|level| *level != "unrated");
        let safety = level.map_or(json!({}), |level| json!({"threat_level": level}));
        json!({"name": name, "description": "Restarts the machine", "parameters": {}, "safety": safety})
    });
    let (_folder, catalog) = catalog_of(&tools);
    for (level, most) in [("low", 0), ("medium", 1), ("high", 2), ("critical", 3)] {
        let allowed = [&names[..=most], &names[4..]].concat();
        let found = picked_and_ready(
            &catalog,
            "restart the machine",
            &names,
            &["--max-threat-level", level],
        );
        assert_eq!(found[0], allowed, "picks up to {level}");
        assert_eq!(found[1], allowed, "valid calls up to {level}");
    }
    let call = json!({"name": "restart_c_high", "arguments": {}}).to_string();
    let (code, text) = validate(&catalog, &call, &["--max-threat-level", "medium"]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("threat level high: the highest allowed level is medium"),
        "{text}"
    );
}

#[test]
fn read_only_mode_allows_only_known_readers() {
    let tool = |name: &str, annotations: Value| {
        let description = "Looks after the archive";
        json!({"name": name, "description": description, "parameters": {}, "annotations": annotations})
    };
    let names = ["archive_reads", "archive_silent", "archive_writes"];
    let tools = [
        tool(names[0], json!({"readOnlyHint": true})),
        tool(names[1], json!({})),
        tool(names[2], json!({"readOnlyHint": false})),
    ];
    let (_folder, catalog) = catalog_of(&tools);
    let found = picked_and_ready(
        &catalog,
        "look after the archive",
        &names,
        &["--execution-mode", "read-only"],
    );
    assert_eq!(found, [names[..2].to_vec(), names[..1].to_vec()]);
    let calls = json!(names.map(|name| json!({"name": name, "arguments": {}}))).to_string();
    let (code, text) = validate(&catalog, &calls, &["--execution-mode", "read-only"]);
    assert_eq!(code, Some(1));
    let told: Vec<&str> = text.lines().collect();
    assert!(told[0].ends_with("archive_reads: valid"), "{text}");
    assert!(
        told[1].ends_with(
            "the execution mode is read-only and the tool is not known to be read-only; a person must approve it"
        ),
        "{text}"
    );
    assert!(
        told[2].contains("not read-only: the execution mode is read-only"),
        "{text}"
    );
    assert_eq!(told[3], "1 valid, 1 waiting for approval, 1 refused");
    let pick = [
        "pick",
        "look after the archive",
        "--catalog",
        &catalog,
        "--execution-mode",
        "read-only",
    ];
    let output = picktools(&pick).output().expect("it runs");
    assert_eq!(stderr(&output), "", "every catalog knows the mode");
}

#[test]
fn call_in_text_that_cannot_be_read_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("answer.json");
    let file = file.to_str().expect("the path is UTF-8");
    let arguments = [
        "validate",
        "--catalog",
        TERMINAL,
        "--calls",
        file,
        "--provider",
        "openai",
    ];
    for (text, is_reported) in [
        (
            "<tool_call>\n{\"name\": \"terminalRun\", \"arguments\": {</tool_call>",
            true,
        ),
        ("[TOOL_CALLS]terminalRun: ls", true),
        ("Write `<tool_call>` in front of a call.", false),
    ] {
        let message = json!({"role": "assistant", "content": text});
        let answer = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
        fs::write(file, answer.to_string()).expect("a file");
        for more in [&[][..], &["--text-calls"]] {
            let output = picktools(&[&arguments[..], more].concat()).output();
            let message = stderr(&output.expect("it runs"));
            let reported = message.contains("has the mark of a call");
            assert_eq!(reported, is_reported, "{text}: {message}");
        }
    }
}
