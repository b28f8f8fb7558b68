//! `validate --repair-llm`, with an OpenAI-compatible language model that these tests serve.

use std::fs;

use crate::cli::{picktools, refusal, stderr, stdout};
use picktools_testing::server::{Reply, TestServer};
use serde_json::{Value, json};

const TERMINAL: &str = "fixtures/catalogs/terminal";
const KEY: &str = "sk-secret-0123456789";

/// Runs the command with a model that always answers with these arguments.
fn validate(calls: &Value, arguments: &Value, more: &[&str]) -> (Option<i32>, String, usize) {
    let text = json!({"arguments": arguments}).to_string();
    let answer =
        json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}}]});
    let server = TestServer::new(move |_, _| Reply::Json(answer.clone()));
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
    let (code, text, asked) = validate(&calls, &mended, &[]);
    assert!(
        code == Some(1) && asked == 0 && text.contains("0 valid"),
        "nobody asked for it: {text}"
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
