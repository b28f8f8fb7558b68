//! Catalogs from several files, from folders and from standard input.

use std::fs;

use serde_json::Value;

use crate::cli::{WORKPLACE, answer, json, picktools, refusal, says, stderr, stdout};

const SAMPLES: &str = "fixtures/formats/layout";

#[test]
fn translate_output_is_a_catalog() {
    for provider in [
        "openai",
        "openai-responses",
        "anthropic",
        "gemini",
        "ollama",
        "mcp",
    ] {
        let written = answer(&["translate", "--catalog", WORKPLACE, "--provider", provider]);
        let pick = [
            "pick",
            "book a meeting room",
            "--catalog",
            "-",
            "--json",
            "--allow-unsafe",
        ];
        let output = picktools(&pick)
            .stdin(says(written))
            .output()
            .expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{provider}: {}",
            stderr(&output)
        );
        let picked: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        assert_eq!(
            picked["picks"][0]["tool"]["name"], "book_meeting_room",
            "{provider}"
        );
    }
    for provider in ["openai-responses", "anthropic"] {
        let written = answer(&[
            "translate",
            "--catalog",
            WORKPLACE,
            "--provider",
            provider,
            "--deferred",
        ]);
        let output = picktools(&["index", "--catalog", "-"])
            .stdin(says(written))
            .output()
            .expect("it runs");
        assert!(
            stderr(&output).contains("warning: entry 1")
                && stderr(&output).contains("provider tool")
        );
        assert!(
            stdout(&output).starts_with("220 tools"),
            "{}",
            stdout(&output)
        );
    }
}

#[test]
fn several_catalogs_are_merged() {
    let both = json(&[
        "index",
        "--catalog",
        WORKPLACE,
        "--catalog",
        SAMPLES,
        "--json",
    ]);
    let count = |path: &str| {
        json(&["index", "--catalog", path, "--json"])["tools"]
            .as_u64()
            .expect("it is counted")
    };
    assert_eq!(
        both["tools"].as_u64(),
        Some(count(WORKPLACE) + count(SAMPLES))
    );
    let twice = refusal(&["index", "--catalog", SAMPLES, "--catalog", SAMPLES]);
    assert!(
        twice.contains("2 files: ") && twice.contains("layout/tools.json"),
        "{twice}"
    );
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().to_str().expect("it is UTF-8");
    assert!(
        refusal(&["index", "--catalog", path]).contains("no *.json, *.jsonl, *.yaml or *.yml file")
    );
    fs::write(
        folder.path().join("b.json"),
        r#"[{"name": "b", "parameters": []}]"#,
    )
    .expect("it can be written");
    fs::write(
        folder.path().join("a.jsonl"),
        r#"{"name": "list_a", "parameters": {}}"#,
    )
    .expect("it can be written");
    let place = "b.json: entry 1 (\"b\") at /parameters";
    assert!(refusal(&["index", "--catalog", path, "--strict-catalog"]).contains(place));
    let output = picktools(&["pick", "list", "--catalog", path, "--min-score", "0"])
        .output()
        .expect("it runs");
    assert!(stdout(&output).contains("list_a"), "the other tools stay");
    assert!(stderr(&output).contains(place), "{}", stderr(&output));
    let output = picktools(&["check", "--catalog", path, "--sarif"])
        .output()
        .expect("it runs");
    let sarif: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
    let location = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
        ["uri"];
    assert!(
        location.as_str().is_some_and(|uri| uri.ends_with("b.json")),
        "{sarif}"
    );
}

#[test]
fn standard_input_for_two_arguments_is_refused() {
    let refused = |arguments: &[&str]| {
        let output = picktools(arguments)
            .stdin(says(r#"{"name": "a", "parameters": {}}"#))
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).contains("can be read only once"),
            "{}",
            stderr(&output)
        );
    };
    refused(&["index", "--catalog", "-", "--catalog", "-"]);
    refused(&["pick", "--input", "-", "--catalog", "-"]);
    refused(&["validate", "--calls", "-", "--catalog", "-"]);
    let output = picktools(&["pick", "do a", "--catalog", "-"])
        .stdin(says("{"))
        .output()
        .expect("it runs");
    assert!(
        stderr(&output).starts_with("error: standard input: line 1"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn catalog_without_schemas_is_accepted_in_a_mode() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tools.json");
    let tools = r#"[{"name": "find_flight", "description": "Finds flights"},
                    {"name": "book_room", "description": "Books a room"}]"#;
    std::fs::write(&path, tools).expect("the folder is there");
    let path = path.to_str().expect("the path is UTF-8");
    let error = refusal(&["pick", "find a flight", "--catalog", path]);
    assert!(error.contains("`--allow-no-schema MODE`"), "{error}");
    for mode in ["read-only", "human-approval", "full"] {
        let pick = [
            "pick",
            "find a flight",
            "--catalog",
            path,
            "--allow-no-schema",
            mode,
        ];
        assert!(answer(&pick).contains("find_flight"), "{mode}");
    }
    let index = folder.path().join("index");
    let index = index.to_str().expect("the path is UTF-8");
    answer(&[
        "index",
        "--catalog",
        path,
        "--allow-no-schema",
        "full",
        "--out",
        index,
    ]);
    assert!(answer(&["pick", "find a flight", "--index", index]).contains("find_flight"));
    let other = [
        "pick",
        "find a flight",
        "--index",
        index,
        "--allow-no-schema",
        "read-only",
    ];
    assert!(refusal(&other).contains("--allow-no-schema full"));
}
