//! `picktools translate`.

use serde_json::{Value, json};

use crate::cli::{WORKPLACE, answer, json, picktools, refusal, stderr, stdout};

const ODD: &str = "fixtures/catalogs/odd-schemas";

#[test]
fn translate_prints_definitions_and_reports_changes() {
    let output = picktools(&[
        "translate",
        "--catalog",
        ODD,
        "--provider",
        "openai",
        "--strict",
    ])
    .output()
    .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let tools: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
    let first = &tools[0]["function"];
    assert!(
        first["name"].is_string() && first["parameters"]["additionalProperties"] == false,
        "{first}"
    );
    assert!(
        stderr(&output)
            .contains("odd/add_branch /parameters/properties/children/items: not strict: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn translate_json_contains_the_reverse_map() {
    let arguments = [
        "translate",
        "--catalog",
        WORKPLACE,
        "--provider",
        "gemini",
        "--names",
        "primary-alias",
        "--json",
    ];
    let report = json(&arguments);
    assert_eq!(
        (&report["version"], &report["provider"]),
        (&json!(1), &json!("gemini"))
    );
    assert_eq!(
        (&report["names_strategy"], &report["names"]["dm"]),
        (&json!("primary-alias"), &json!("chat/send_direct_message"))
    );
    assert!(report["tools"][0]["functionDeclarations"].is_array() && report["changes"].is_array());
    assert!(
        report["tokens"]["o200k_base"].as_u64() > Some(1_000),
        "{}",
        report["tokens"]
    );
    assert_eq!(
        answer(&arguments),
        answer(&arguments),
        "the same inputs give the same bytes"
    );
}

#[test]
fn translate_reads_names_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("names.json");
    std::fs::write(&file, r#"{"forge/create_issue": "open_ticket"}"#).expect("it can be written");
    let file = file.to_str().expect("it is UTF-8");
    let base = [
        "translate",
        "--catalog",
        WORKPLACE,
        "--provider",
        "ollama",
        "--names",
        "provider-map",
        "--json",
        "--name-map",
    ];
    let report = json(&[&base[..], &[file]].concat());
    assert_eq!(report["names"]["open_ticket"], "forge/create_issue");
    std::fs::write(file, r#"{"create_issue": "open_ticket"}"#).expect("it can be written");
    assert!(refusal(&[&base[..], &[file]].concat()).contains(
        "ambiguous tool in the name map: \"create_issue\"; write one of: forge/create_issue, "
    ));
    std::fs::write(file, "[]").expect("it can be written");
    assert!(
        refusal(&[&base[..], &[file]].concat())
            .contains("expected a JSON object from tools to names")
    );
    assert!(refusal(&base[..8]).contains("--name-map FILE"));
    let other = [
        "translate",
        "--catalog",
        WORKPLACE,
        "--provider",
        "ollama",
        "--name-map",
        file,
    ];
    assert!(refusal(&other).contains("provider-map"));
}

#[test]
fn translate_with_invalid_options_is_refused() {
    let error = refusal(&[
        "translate",
        "--catalog",
        WORKPLACE,
        "--provider",
        "gemini",
        "--deferred",
    ]);
    assert!(
        error.contains("gemini does not support deferred loading"),
        "{error}"
    );
    let output = picktools(&["translate", "--catalog", WORKPLACE, "--provider", "openia"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("unknown provider \"openia\""),
        "{}",
        stderr(&output)
    );
}

#[test]
fn translate_costs_compares_the_strategies() {
    let report = json(&[
        "translate",
        "--catalog",
        WORKPLACE,
        "--provider",
        "openai",
        "--costs",
        "--json",
    ]);
    let tokens = |index: usize| {
        report["costs"][index]["tokens"]["o200k_base"]
            .as_u64()
            .expect("it is counted")
    };
    let strategies: Vec<&Value> = report["costs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|cost| &cost["names_strategy"])
        .collect();
    assert_eq!(
        strategies,
        ["canonical", "primary-alias", "expanded", "described"]
    );
    assert!(
        tokens(2) > tokens(3) && tokens(3) > tokens(0),
        "a definition for each alias costs most"
    );
    let table = answer(&[
        "translate",
        "--catalog",
        WORKPLACE,
        "--provider",
        "openai",
        "--costs",
    ]);
    assert!(
        table.lines().count() == 5 && table.contains("expanded"),
        "{table}"
    );
}
