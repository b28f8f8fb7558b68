//! `picktools resolve`: names, aliases, and unknown or ambiguous names.

use serde_json::{Value, json};

use crate::cli::{WORKPLACE, answer, picktools, refusal, stderr, stdout};

#[test]
fn resolve_accepts_names_aliases_and_spellings() {
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
fn resolve_warns_about_a_deprecated_alias() {
    let output = picktools(&["resolve", "sh", "--catalog", WORKPLACE])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stdout(&output).starts_with("sh: ") && stdout(&output).contains("(alias)"),
        "{}",
        stdout(&output)
    );
    assert!(
        stderr(&output).contains("\"sh\" is a deprecated alias of"),
        "{}",
        stderr(&output)
    );
}

/// Writes a file to a temporary folder, and returns both.
fn file(name: &str, content: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("it can be made");
    std::fs::write(&path, content).expect("it can be written");
    let path = path.to_str().expect("the path is UTF-8").to_owned();
    (folder, path)
}

#[test]
fn deprecated_alias_is_warned_about_on_every_path() {
    let skill = "---\nname: shell\ndescription: Runs a shell command.\nallowed-tools: sh\n---\nDo.";
    let (skills, _) = file("shell/SKILL.md", skill);
    let skills = skills.path().to_str().expect("the path is UTF-8");
    let (_folder, calls) = file(
        "calls.jsonl",
        r#"{"name": "sh", "arguments": {"command": "ls"}}"#,
    );
    for (arguments, user) in [
        (&["pick", "use `sh`"][..], "used by the request"),
        (
            &["pick", "list the files", "--always-include", "sh"],
            "used by the caller",
        ),
        (
            &["pick", "list the files", "--quota", "sh=3"],
            "used by the caller",
        ),
        (
            &["pick", "list the files", "--in-use", "sh"],
            "used by the task",
        ),
        (
            &["pick", "run a shell command", "--skills", skills],
            "used by a picked skill",
        ),
        (
            &["validate", "--calls", &calls, "--allow-unsafe"],
            "use the tool's name",
        ),
    ] {
        let arguments = [arguments, &["--catalog", WORKPLACE]].concat();
        let warned = stderr(&picktools(&arguments).output().expect("it runs"));
        let warning = warned
            .lines()
            .find(|line| line.starts_with("warning: \"sh\" is a deprecated alias of"));
        assert!(
            warning.is_some_and(|warning| warning.contains(user)),
            "{arguments:?}: {warned}"
        );
    }
    let found = answer(&["check", "--catalog", WORKPLACE, "--skills", skills]);
    assert!(
        found.contains("warning deprecated-alias: the skill \"shell\" calls"),
        "{found}"
    );
}

#[test]
fn quota_of_zero_forbids_picks_and_calls() {
    let pick = |quota: &str| {
        let named = [
            "pick",
            "use `book_meeting_room`",
            "--quota",
            quota,
            "--catalog",
            WORKPLACE,
        ];
        answer(&named)
    };
    assert!(
        pick("book_meeting_room=1").starts_with(" 1. calendar/book_meeting_room"),
        "{}",
        pick("book_meeting_room=1")
    );
    let none = pick("calendar/book_meeting_room=0");
    assert!(
        none.contains("calendar/book_meeting_room (named in the request) is not eligible: "),
        "{none}"
    );
    assert!(none.contains("quota 1"), "{none}");
    let (_folder, calls) = file(
        "calls.jsonl",
        r#"{"name": "book_meeting_room", "arguments": {}}"#,
    );
    let quotas = [
        "--quota",
        "book_meeting_room=5",
        "--quota",
        "book_meeting_room=0",
    ];
    let arguments = [
        &["validate", "--catalog", WORKPLACE, "--calls", &calls][..],
        &quotas,
    ]
    .concat();
    let output = picktools(&arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("quota"), "{}", stdout(&output));
    for wrong in [
        "book_meeting_room",
        "book_meeting_room=-1",
        "book_meeting_room=many",
        "no_such_tool=3",
    ] {
        refusal(&["pick", "x", "--quota", wrong, "--catalog", WORKPLACE]);
    }
}

#[test]
fn verbose_log_reports_aliases() {
    let (_folder, calls) = file("calls.jsonl", r#"{"name": "dm", "arguments": {}}"#);
    let arguments = ["validate", "--catalog", WORKPLACE, "--calls", &calls];
    let quiet = stderr(&picktools(&arguments).output().expect("it runs"));
    assert!(!quiet.contains("alias"), "{quiet}");
    let asked = |variable: Option<&str>, arguments: &[&str]| {
        let output = picktools(arguments)
            .envs(variable.map(|level| ("PICKTOOLS_LOG", level)))
            .output();
        stderr(&output.expect("it runs"))
    };
    for log in [
        asked(Some("picktools=debug"), &arguments),
        asked(None, &[&["--verbose"], &arguments[..]].concat()),
    ] {
        assert!(
            log.contains("registered alias alias=dm canonical=send_direct_message"),
            "{log}"
        );
    }
    let (_unknown, unknown) = file(
        "calls.jsonl",
        r#"{"name": "no_such_tool", "arguments": {}}"#,
    );
    let log = asked(
        None,
        &[
            "validate",
            "-v",
            "--catalog",
            WORKPLACE,
            "--calls",
            &unknown,
        ],
    );
    assert!(
        log.contains("WARN") && log.contains("unknown tool called requested=no_such_tool"),
        "{log}"
    );
    let (_other, sound) = file(
        "calls.jsonl",
        r#"{"name": "dm", "arguments": {"user": "ada", "text": "hello"}}"#,
    );
    let log = asked(
        None,
        &["validate", "-v", "--catalog", WORKPLACE, "--calls", &sound],
    );
    assert!(
        log.contains("tool alias used requested=dm canonical=send_direct_message"),
        "{log}"
    );
}

#[test]
fn resolve_of_unknown_or_ambiguous_name_exits_with_1() {
    let arguments = [
        "resolve",
        "dm",
        "send_direct_mesage",
        "zzzz",
        "--catalog",
        WORKPLACE,
        "--json",
    ];
    let output = picktools(&arguments).output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(1),
        "not every name means a tool: {}",
        stderr(&output)
    );
    let report: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
    assert_eq!(report["version"], 1);
    let tool = json!({"name": "dm", "tool": "chat/send_direct_message", "via": "alias", "deprecated": false});
    assert_eq!(report["names"][0], tool);
    assert_eq!(report["names"][1]["suggestions"][0], "send_direct_message");
    assert_eq!(
        report["names"][2],
        json!({"name": "zzzz", "suggestions": []})
    );

    let output = picktools(&["resolve", "createIssue", "--catalog", WORKPLACE])
        .output()
        .expect("it runs");
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
fn pick_recognises_a_mention_in_another_spelling() {
    let picked = answer(&[
        "pick",
        "please run sendDirectMessage",
        "--catalog",
        WORKPLACE,
        "-k",
        "1",
    ]);
    assert!(
        picked.contains("chat/send_direct_message")
            && picked.contains("named in the request as \"sendDirectMessage\""),
        "{picked}"
    );
}

fn entry(name: &str, source: &str, aliases: &[&str]) -> Value {
    json!({"name": name, "source": source, "aliases": aliases, "parameters": {}})
}

#[test]
fn alias_file_and_untrusted_sources_apply() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let entries = json!([
        entry("terminalRun", "host", &[]),
        entry("bash", "evil", &["cmd"])
    ]);
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
    let error = refusal(&[
        "resolve",
        "x",
        "--catalog",
        &path("tools.json"),
        "--aliases",
        &path("aliases.json"),
    ]);
    assert!(error.contains("it is the name of \"evil/bash\""), "{error}");
    let error = refusal(&[
        "resolve",
        "x",
        "--catalog",
        &path("tools.json"),
        "--aliases",
        "no/such.json",
    ]);
    assert!(
        error.contains("cannot read the aliases no/such.json"),
        "{error}"
    );
}

#[test]
fn alias_conflict_is_refused_or_warned_about() {
    let tool = |name: &str| {
        format!("{{\"name\": \"{name}\", \"aliases\": [\"shared\"], \"parameters\": {{}}}}")
    };
    let (_folder, catalog) = file("tools.json", &format!("[{}, {}]", tool("one"), tool("two")));
    let run = |more: &[&str]| {
        let output = picktools(&[&["resolve", "shared", "--catalog", &catalog], more].concat())
            .output()
            .expect("it runs");
        (stdout(&output), stderr(&output), output.status.code())
    };
    let (_, said, code) = run(&[]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("the alias \"shared\"") || said.contains("'shared'"),
        "{said}"
    );
    let (answer, said, code) = run(&["--conflicts", "warn"]);
    assert!(
        answer.contains("one") && !answer.contains("two") && code == Some(0),
        "{answer}"
    );
    assert!(
        said.starts_with("warning: ") && said.contains("shared"),
        "{said}"
    );
}
