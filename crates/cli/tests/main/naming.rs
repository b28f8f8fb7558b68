//! `picktools resolve`: what names mean, and what it says of those that mean nothing or too much.

use serde_json::{Value, json};

use crate::cli::{WORKPLACE, answer, picktools, refusal, stderr, stdout};

#[test]
fn names_aliases_and_other_writings_mean_their_tools() {
    let text = answer(&[
        "resolve",
        "forge/create_issue",
        "dm",
        "sendDirectMessage",
        "FORGE/Create-Issue",
        "--catalog",
        WORKPLACE,
    ]);
    let expected = [
        "forge/create_issue: forge/create_issue",
        "dm: chat/send_direct_message (alias)",
        "sendDirectMessage: chat/send_direct_message (in a variant spelling)",
        "FORGE/Create-Issue: forge/create_issue (in a variant spelling)",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_deprecated_alias_is_a_warning() {
    let output = picktools(&["resolve", "sh", "--catalog", WORKPLACE]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).starts_with("sh: ") && stdout(&output).contains("(alias)"), "{}", stdout(&output));
    assert!(stderr(&output).contains("\"sh\" is a deprecated alias of"), "{}", stderr(&output));
}

#[test]
fn what_is_no_tool_or_several_is_answered_with_one_and_told() {
    let arguments = ["resolve", "dm", "send_direct_mesage", "zzzz", "--catalog", WORKPLACE, "--json"];
    let output = picktools(&arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "not every name means a tool: {}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
    assert_eq!(report["version"], 1);
    let tool = json!({"name": "dm", "tool": "chat/send_direct_message", "via": "alias", "deprecated": false});
    assert_eq!(report["names"][0], tool);
    assert_eq!(report["names"][1]["suggestions"][0], "send_direct_message");
    assert_eq!(report["names"][2], json!({"name": "zzzz", "suggestions": []}));

    let output = picktools(&["resolve", "createIssue", "--catalog", WORKPLACE]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).starts_with("createIssue: ambiguous; write one of forge/create_issue, "),
        "{}",
        stdout(&output)
    );
    let error = refusal(&["resolve", "dm", "--catalog", "no/such.json"]);
    assert!(error.contains("no/such.json"), "{error}");
}

#[test]
fn a_request_names_a_tool_in_another_writing() {
    let picked = answer(&["pick", "please run sendDirectMessage", "--catalog", WORKPLACE, "-k", "1"]);
    assert!(
        picked.contains("chat/send_direct_message") && picked.contains("names it as \"sendDirectMessage\""),
        "{picked}"
    );
}

fn entry(name: &str, source: &str, aliases: &[&str]) -> Value {
    json!({"name": name, "source": source, "aliases": aliases, "parameters": {}})
}

#[test]
fn the_command_line_reads_aliases_and_distrusts_sources() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let entries = json!([entry("terminalRun", "host", &[]), entry("bash", "evil", &["cmd"])]);
    std::fs::write(path("tools.json"), entries.to_string()).expect("it is written");
    std::fs::write(path("aliases.json"), "{\"bash\": \"terminalRun\"}").expect("it is written");
    let resolve = |more: &[&str]| {
        let catalog = path("tools.json");
        let arguments = [&["resolve", "bash", "--catalog", &catalog], more].concat();
        answer(&arguments)
    };
    assert_eq!(resolve(&[]).trim(), "bash: evil/bash");
    let distrust = ["--untrusted-source", "evil"];
    assert_eq!(
        resolve(&[&distrust[..], &["--aliases", &path("aliases.json")]].concat()).trim(),
        "bash: host/terminalRun (alias)"
    );
    assert_eq!(
        resolve(&[&distrust[..], &["--aliases", "ecosystem"]].concat()).trim(),
        "bash: host/terminalRun (alias)"
    );
    let error = refusal(&["resolve", "x", "--catalog", &path("tools.json"), "--aliases", &path("aliases.json")]);
    assert!(error.contains("it is the name of \"evil/bash\""), "{error}");
    let error = refusal(&["resolve", "x", "--catalog", &path("tools.json"), "--aliases", "no/such.json"]);
    assert!(error.contains("cannot read the aliases no/such.json"), "{error}");
}
