//! Tool calls from the command line: one call, and all calls of a model's answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{picktools, stderr, stdout};
use crate::support::root;

/// Writes a configuration of the test server with callable tools.
fn configuration() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("there is room");
    let server = root("crates/cli/tests/servers/fake.py")
        .display()
        .to_string();
    let noted = folder.path().join("child").display().to_string();
    let servers =
        json!({"mcpServers": {"fake": {"command": "python3", "args": [server, "calls", noted]}}});
    let path = folder.path().join(".mcp.json");
    fs::write(&path, servers.to_string()).expect("it can be written");
    (folder, path.display().to_string())
}

fn run(arguments: &[&str]) -> Output {
    let path = std::env::var_os("PATH").expect("it is set");
    picktools(arguments)
        .env("PATH", path)
        .output()
        .expect("it runs")
}

fn written(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("answer.json");
    fs::write(&path, text).expect("it can be written");
    path
}

#[test]
fn call_prints_the_result_of_the_tool() {
    let (_folder, catalog) = configuration();
    let arguments = r#"{"name": "Ada"}"#;
    let done = run(&["call", "greet", "--args", arguments, "--catalog", &catalog]);
    assert_eq!(
        (done.status.code(), stdout(&done).trim_end()),
        (Some(0), "Hello Ada"),
        "{}",
        stderr(&done)
    );
    assert!(
        stderr(&done).contains(r#"greet {"name":"Ada"}"#),
        "it is told that it runs: {}",
        stderr(&done)
    );
    let events = run(&[
        "call",
        "fake/greet",
        "--args",
        arguments,
        "--catalog",
        &catalog,
        "--json",
    ]);
    let events: Vec<Value> = stdout(&events)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an event"))
        .collect();
    let types: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap_or_default())
        // A slow machine reports that it waits for the server.
        .filter(|kind| *kind != "tool_output_chunk")
        .collect();
    assert_eq!(types, ["tool_call_start", "tool_call_end"]);
    let last = events.last().expect("there are events");
    assert_eq!(last["data"]["result"]["text"], "Hello Ada");
}

#[test]
fn call_of_several_tools_prints_each_result() {
    let (_folder, catalog) = configuration();
    let uses = |second: &str| {
        json!({"tool_uses": [
            {"recipient_name": "functions.greet", "parameters": {"name": "Ada"}},
            {"recipient_name": second, "parameters": {"name": "Bob"}},
        ]})
    };
    let parallel = |second| {
        let arguments = uses(second).to_string();
        let call = ["call", "multi_tool_use.parallel", "--args", &arguments];
        run(&[&call[..], &["--catalog", &catalog]].concat())
    };
    let done = parallel("greet");
    assert_eq!(
        (done.status.code(), stdout(&done).trim_end()),
        (
            Some(0),
            "[1] functions.greet\nHello Ada\n[2] greet\nHello Bob"
        ),
        "{}",
        stderr(&done)
    );
    let failed = parallel("no_such");
    assert_eq!(failed.status.code(), Some(1));
    assert!(stdout(&failed).contains("Hello Ada"));
    assert!(stderr(&failed).contains("Unknown tool"));
}

#[test]
fn call_built_in_works_with_and_without_catalog() {
    let (folder, catalog) = configuration();
    fs::write(folder.path().join("notes.txt"), "one\ntwo\n").expect("it can be written");
    let place = folder.path().display().to_string();
    let call = |name: &str, arguments: &str, more: &[&str]| {
        run(&[&["call", name, "--args", arguments, "--root", &place], more].concat())
    };
    let files = r#"{"file_paths": ["notes.txt"]}"#;
    let read = call("read", files, &["--built-in"]);
    assert_eq!(read.status.code(), Some(0), "{}", stderr(&read));
    assert!(
        stdout(&read).contains("     2    two\n"),
        "{}",
        stdout(&read)
    );
    let beside = call(
        "greet",
        r#"{"name": "Ada"}"#,
        &["--built-in", "--catalog", &catalog],
    );
    assert_eq!(
        stdout(&beside).trim_end(),
        "Hello Ada",
        "{}",
        stderr(&beside)
    );
    let neither = call("read", files, &[]);
    assert_eq!(neither.status.code(), Some(2));
    assert!(
        stderr(&neither).contains("--catalog"),
        "{}",
        stderr(&neither)
    );
}

#[cfg(unix)]
#[test]
fn call_bash_needs_permission_and_confirmation() {
    let folder = tempfile::tempdir().expect("there is room");
    let place = folder.path().display().to_string();
    let call = |command: &str, more: &[&str]| {
        let arguments = json!({ "command": command }).to_string();
        run(&[
            &[
                "call",
                "bash",
                "--built-in",
                "--root",
                &place,
                "--args",
                &arguments,
            ],
            more,
        ]
        .concat())
    };
    for (more, said) in [
        (&[][..], "permission_error"),
        (&["--allow-unsafe"], "pass --yes to confirm"),
        (&["--yes"], "unsafe"),
    ] {
        let refused = call("echo ran > ran", more);
        assert_eq!(refused.status.code(), Some(1), "{more:?}");
        assert!(
            stderr(&refused).contains(said),
            "{more:?}: {}",
            stderr(&refused)
        );
    }
    assert!(!folder.path().join("ran").exists());
    let both = ["--allow-unsafe", "--yes"];
    let done = call("echo ran; pwd", &both);
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert!(stdout(&done).contains("ran"), "{}", stdout(&done));
    let failed = call("echo no; exit 3", &both);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        stderr(&failed).contains("exit code 3"),
        "{}",
        stderr(&failed)
    );
    let refused = call("rm -rf /nothing-of-the-kind", &both);
    assert!(
        stderr(&refused).contains("nothing was started"),
        "{}",
        stderr(&refused)
    );
    let open = call(
        "true",
        &["--allow-unsafe", "--yes", "--sandbox", "off", "--json"],
    );
    assert!(
        stdout(&open).contains(r#""sandboxed":false"#),
        "{}",
        stdout(&open)
    );
}

#[test]
fn call_that_cannot_run_reports_the_cause() {
    let (folder, catalog) = configuration();
    let file = written(folder.path(), "{\"name\": [7]}");
    let from_file = format!("@{}", file.display());
    for (arguments, code, said) in [
        (
            vec!["greet"],
            1,
            "greet(): name is required (validation_error); Example: greet(name=\"text\")",
        ),
        (vec!["greet", "--args", &from_file], 1, "greet(name=[7])"),
        (vec!["greet", "--args", "@nothing.json"], 2, "nothing.json"),
        (vec!["great", "--args", "{}"], 1, "did you mean"),
        (vec!["wipe"], 1, "permission_error"),
        (vec!["wipe", "--allow-unsafe"], 1, "pass --yes to confirm"),
        (vec!["wipe", "--yes"], 1, "permission_error"),
        (
            vec![
                "greet",
                "--args",
                "{\"name\": \"Ada\"}",
                "--exclude",
                "greet",
            ],
            1,
            "permission_error",
        ),
    ] {
        let refused = run(&[&["call", "--catalog", &catalog], &arguments[..]].concat());
        assert_eq!(
            refused.status.code(),
            Some(code),
            "{arguments:?}: {}",
            stderr(&refused)
        );
        assert!(
            stderr(&refused).contains(said),
            "{arguments:?}: {}",
            stderr(&refused)
        );
        assert_eq!(stdout(&refused), "", "{arguments:?}");
    }
    let confirmed = run(&[
        "call",
        "--catalog",
        &catalog,
        "wipe",
        "--allow-unsafe",
        "--yes",
    ]);
    assert_eq!(
        (confirmed.status.code(), stdout(&confirmed).trim_end()),
        (Some(0), "all is gone"),
        "{}",
        stderr(&confirmed)
    );
    let nothing = run(&[
        "call",
        "chat/post_message",
        "--catalog",
        "fixtures/catalogs/workplace",
        "--args",
        "{\"channel\": \"a\", \"text\": \"b\"}",
    ]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        stderr(&nothing).contains("no runner is registered for this tool"),
        "{}",
        stderr(&nothing)
    );
}

#[cfg(unix)]
#[test]
fn call_of_unread_file_names_run() {
    let folder = tempfile::tempdir().expect("there is room");
    let note = folder.path().join("note.txt");
    fs::write(&note, "one\n").expect("it can be written");
    let folder_path = folder.path().display().to_string();
    let options = [
        "--built-in",
        "--root",
        &folder_path,
        "--allow-unsafe",
        "--yes",
    ];
    let edit = json!({"file_path": "note.txt", "old_string": "one", "new_string": "two"});
    let write = json!({"file_path": "note.txt", "content": "two\n"});
    for (name, arguments) in [("edit", &edit), ("str_replace", &edit), ("write", &write)] {
        for json in [&[][..], &["--json"]] {
            let arguments = arguments.to_string();
            let call = [&["call", name, "--args", &arguments], &options[..], json].concat();
            let refused = run(&call);
            assert_eq!(refused.status.code(), Some(1));
            assert!(
                stderr(&refused).contains("run both with `picktools run FILE`"),
                "{}",
                stderr(&refused)
            );
        }
        let text = fs::read_to_string(&note).expect("it is there");
        assert_eq!(text, "one\n", "{name}");
    }
    // Another refusal does not name it.
    let missing = json!({"file_path": "none.txt", "old_string": "one", "new_string": "two"});
    let call = ["call", "edit", "--args", &missing.to_string()];
    let refused = run(&[&call[..], &options[..]].concat());
    assert!(
        !stderr(&refused).contains("picktools run"),
        "{}",
        stderr(&refused)
    );
    // What the note says works.
    let calls = [
        json!({"name": "read", "arguments": {"file_paths": ["note.txt"]}}),
        json!({"name": "edit", "arguments": edit}),
    ];
    let file = written(
        folder.path(),
        &calls.map(|call| call.to_string()).join("\n"),
    );
    let file = file.display().to_string();
    let done = run(&[&["run", &file], &options[..]].concat());
    assert_eq!(done.status.code(), Some(0), "{}", stderr(&done));
    assert_eq!(fs::read_to_string(&note).expect("it is there"), "two\n");
}

#[test]
fn run_executes_all_calls_and_writes_results() {
    let (folder, catalog) = configuration();
    let answer = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "text", "text": "I greet them."},
        {"type": "tool_use", "id": "toolu_1", "name": "greet", "input": {"name": "Ada"}},
        {"type": "tool_use", "id": "toolu_2", "name": "greet", "input": {"nam": "Bob"}}]});
    let file = written(folder.path(), &answer.to_string());
    let file = file.to_str().expect("it is text");
    let results = run(&["run", file, "--catalog", &catalog, "--results"]);
    assert_eq!(results.status.code(), Some(1), "{}", stderr(&results));
    let messages: Value = serde_json::from_str(&stdout(&results)).expect("it is JSON");
    let content = messages[0]["content"]
        .as_array()
        .expect("it is one message");
    assert_eq!(
        (content[0]["tool_use_id"].as_str(), &content[0]["is_error"]),
        (Some("toolu_1"), &Value::Null)
    );
    assert_eq!(
        (content[1]["tool_use_id"].as_str(), &content[1]["is_error"]),
        (Some("toolu_2"), &json!(true))
    );
    let told = run(&["run", file, "--catalog", &catalog]);
    assert!(
        stdout(&told).contains("1. greet\nHello Ada\n2. greet\n"),
        "{}",
        stdout(&told)
    );
    let chat = json!({"choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "greet", "arguments": "{\"name\": \"Eve\"}"}}]}}]});
    let file = written(folder.path(), &chat.to_string());
    let done = run(&[
        "run",
        file.to_str().expect("it is text"),
        "--catalog",
        &catalog,
    ]);
    assert_eq!(
        (done.status.code(), stdout(&done).as_str()),
        (Some(0), "1. greet\nHello Eve\n"),
        "{}",
        stderr(&done)
    );
}

#[test]
fn run_reads_a_complete_answer_as_one_document() {
    let (folder, catalog) = configuration();
    let call = r#"{"name": "greet", "arguments": "{\"name\": \"Eve\"}"}"#;
    let answer = format!(
        "{{\"choices\": [{{\"message\": {{\"tool_calls\": [{{\"id\": \"a\", \"function\":\n{call}\n}}]}}}}]}}"
    );
    let file = written(folder.path(), &answer);
    let file = file.to_str().expect("it is text");
    for more in [&[][..], &["--provider", "openai"]] {
        let done = run(&[&["run", file, "--catalog", &catalog], more].concat());
        assert_eq!(
            (done.status.code(), stdout(&done).as_str()),
            (Some(0), "1. greet\nHello Eve\n"),
            "{}",
            stderr(&done)
        );
    }
}

#[test]
fn run_executes_calls_in_text_on_request() {
    let (folder, catalog) = configuration();
    let text = "Hello.\n[greet(name=\"Eve\")]";
    let answer = json!({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]});
    for (content, is_answer) in [(answer.to_string(), true), (text.to_owned(), false)] {
        let file = written(folder.path(), &content);
        let file = file.to_str().expect("it is text");
        let command = ["run", file, "--catalog", &catalog];
        let without = run(&command);
        assert_eq!(
            (without.status.code(), stdout(&without).as_str()),
            (Some(2), "")
        );
        if is_answer {
            let warning = stderr(&without);
            assert!(warning.contains("read it with --text-calls"), "{warning}");
        }
        let done = run(&[&command[..], &["--text-calls"]].concat());
        assert_eq!(
            (done.status.code(), stdout(&done).as_str()),
            (Some(0), "1. greet\nHello Eve\n"),
            "{}",
            stderr(&done)
        );
    }
    let file = written(folder.path(), &answer.to_string());
    let file = file.to_str().expect("it is text");
    let results = run(&[
        "run",
        file,
        "--catalog",
        &catalog,
        "--text-calls",
        "--results",
    ]);
    assert!(
        stdout(&results).contains("text_call_1"),
        "{}",
        stderr(&results)
    );
}

#[test]
fn run_of_incomplete_answer_executes_nothing() {
    let (folder, catalog) = configuration();
    let broken = json!({"role": "assistant", "stop_reason": "max_tokens", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "greet", "input": {"name": "Ad"}}]});
    for answer in [
        broken.to_string(),
        "{\"name\": \"greet\", \"arguments\": {\"name\": \"A\"}}\n{\"name\"".to_owned(),
        "{}".to_owned(),
    ] {
        let file = written(folder.path(), &answer);
        let refused = run(&[
            "run",
            file.to_str().expect("it is text"),
            "--catalog",
            &catalog,
        ]);
        assert_eq!(
            (refused.status.code(), stdout(&refused).as_str()),
            (Some(2), ""),
            "{answer}: {}",
            stderr(&refused)
        );
    }
}

/// Returns `true` if a process runs. A zombie does not run.
#[cfg(target_os = "linux")]
fn is_running(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
#[cfg(target_os = "linux")]
fn interrupted_call_leaves_no_process_behind() {
    let begun = Instant::now();
    let wait_until = |what: &str, done: &mut dyn FnMut() -> bool| {
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (folder, catalog) = configuration();
    let noted = folder.path().join("child");
    let (server, pid) = (
        root("crates/cli/tests/servers/fake.py")
            .display()
            .to_string(),
        noted.display().to_string(),
    );
    for (signal, arguments) in [
        ("-TERM", vec!["call", "wait", "--catalog", &catalog]),
        ("-INT", vec!["call", "wait", "--catalog", &catalog]),
        (
            "-TERM",
            vec![
                "import", "mcp", "--source", "x", "--", "python3", &server, "waits", &pid,
            ],
        ),
        (
            "-INT",
            vec![
                "import", "mcp", "--source", "x", "--", "python3", &server, "waits", &pid,
            ],
        ),
    ] {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_picktools"));
        let silent = program
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut program = silent.spawn().expect("it starts");
        let mut child = String::new();
        wait_until("its child is started", &mut || {
            child = fs::read_to_string(&noted).unwrap_or_default();
            !child.is_empty()
        });
        fs::remove_file(&noted).expect("it is there");
        assert!(is_running(&child), "{arguments:?}");
        let id = program.id().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &id])
            .status()
            .expect("it runs");
        assert!(sent.success(), "{signal} {arguments:?}");
        wait_until("the program ends", &mut || {
            program.try_wait().expect("it can be asked").is_some()
        });
        wait_until("the server's child ends", &mut || !is_running(&child));
    }
}

#[test]
fn deprecated_alias_warns_in_call_and_run_and_marks_events() {
    let (folder, catalog) = configuration();
    let aliases = folder.path().join("aliases.json");
    let old = json!({"say_hello": {"tool": "greet", "deprecated": true}});
    fs::write(&aliases, old.to_string()).expect("it can be written");
    let aliases = aliases.display().to_string();
    let more = ["--catalog", &catalog, "--aliases", &aliases, "--json"];
    let call = run(&[
        &["call", "say_hello", "--args", r#"{"name": "Ada"}"#],
        &more[..],
    ]
    .concat());
    let calls = written(
        folder.path(),
        r#"{"name": "say_hello", "arguments": {"name": "Ada"}}"#,
    );
    let calls = calls.display().to_string();
    let run = run(&[&["run", &calls], &more[..]].concat());
    for output in [call, run] {
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(
            text.contains("\"say_hello\" is a deprecated alias of greet"),
            "{text}"
        );
        for line in stdout(&output).lines() {
            let event: Value = serde_json::from_str(line).expect("an event");
            assert_eq!(event["data"]["names"]["deprecated"], true, "{event}");
        }
    }
}
