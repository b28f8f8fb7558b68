//! Names and patterns of excluded tools: the commands and the HTTP API read them alike.

use std::fs;

use picktools_testing::{PatternCase, PatternTable};
use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::Place;
use crate::gateway_http::Serving;

/// Returns the ids of the tools that a selection lists as excluded, in order.
fn excluded_tools(selection: &Value) -> Vec<String> {
    let tools = selection["ineligible"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("no ineligible tools: {selection}"));
    let mut ids = Vec::new();
    for tool in tools {
        ids.push(tool["tool_id"].as_str().expect("an id").to_owned());
    }
    ids.sort();
    ids
}

#[test]
fn excluded_patterns_match_the_same_tools_in_pick_and_validate() {
    let PatternTable { tools, patterns } = PatternTable::open();
    let folder = tempfile::tempdir().expect("a folder");
    let catalog = folder.path().join("tools.json");
    fs::write(&catalog, tools.to_string()).expect("a file");
    let catalog = catalog.display().to_string();
    let calls = folder.path().join("calls.jsonl");
    let mut lines = String::new();
    for tool in tools.as_array().expect("tools") {
        let id = format!("{}/{}", text(&tool["source"]), text(&tool["name"]));
        lines.push_str(&format!("{}\n", json!({"name": id, "arguments": {}})));
    }
    fs::write(&calls, lines).expect("a file");
    let calls = calls.display().to_string();
    for PatternCase { pattern, tools } in patterns {
        let exclude = ["--exclude", &pattern, "--catalog", &catalog, "--json"];
        let run = |command: &[&str]| {
            let output = picktools(&[command, &exclude].concat()).output();
            output.expect("it runs")
        };
        let pick = run(&["pick", "handle things"]);
        let validate = run(&["validate", "--calls", &calls]);
        if tools.is_empty() {
            for output in [pick, validate] {
                assert_eq!(output.status.code(), Some(2), "{pattern}");
                let message = stderr(&output) + &stdout(&output);
                assert!(message.contains("exclude names"), "{pattern}: {message}");
            }
            continue;
        }
        let selection: Value = serde_json::from_str(&stdout(&pick)).expect("JSON");
        assert_eq!(excluded_tools(&selection), tools, "{pattern}");
        let report: Value = serde_json::from_str(&stdout(&validate)).expect("JSON");
        let calls = report["calls"].as_array().expect("calls");
        let refused = calls.iter().filter(|call| call["status"] == "refused");
        assert_eq!(refused.count(), tools.len(), "{pattern}: {report}");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn excluded_patterns_match_the_same_tools_over_http() {
    let PatternTable { tools, patterns } = PatternTable::open();
    let place = Place::with(&json!({}));
    let catalog = place.path("tools.json");
    fs::write(&catalog, tools.to_string()).expect("a file");
    let catalog = catalog.display().to_string();
    let serving = Serving::start(place, &["--catalog", &catalog]);
    for PatternCase { pattern, tools } in patterns {
        let options = json!({"access": {"exclude": [pattern]}});
        let body = json!({"query": "handle things", "options": options});
        let (status, answer) = serving.json("/v1/pick", &[], &body);
        if tools.is_empty() {
            assert_eq!(status, 422, "{pattern}: {answer}");
            assert!(answer.to_string().contains("exclude"), "{answer}");
        } else {
            assert_eq!(status, 200, "{pattern}: {answer}");
            assert_eq!(excluded_tools(&answer), tools, "{pattern}");
        }
    }
}
