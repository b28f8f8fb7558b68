//! Output: bounded, printable, and errors as JSON.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::cli::{WORKPLACE, answer, picktools, says, stderr, stdout};
use crate::support::fixture;

/// Writes a catalog and returns its path.
fn catalog(folder: &Path, entries: impl Iterator<Item = Value>) -> String {
    let path = folder.join("odd.json");
    fs::write(&path, Value::from_iter(entries).to_string()).expect("it can be written");
    path.to_str().expect("the path is plain").to_owned()
}

fn run(arguments: &[&str]) -> Output {
    picktools(arguments).output().expect("it runs")
}

fn is_printable(text: &str) -> bool {
    text.chars()
        .all(|c| c == '\n' || !(c.is_control() || "\u{200b}\u{202e}".contains(c)))
}

#[test]
fn long_lists_are_cut_with_a_count() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let names: Vec<String> = (0..500)
        .map(|number| format!("tool_number_{number}"))
        .collect();
    let tools = |safe: bool| {
        names
            .iter()
            .map(move |name| json!({"name": name, "parameters": {}, "safe": safe}))
    };
    let request = names.join(" ");
    for safe in [true, false] {
        let path = catalog(folder.path(), tools(safe));
        let output = run(&["pick", &request, "--catalog", &path]);
        let text = stdout(&output);
        let left_out = text
            .lines()
            .filter(|line| line.contains(" is not eligible: "))
            .count();
        assert!(
            left_out <= 21 && text.contains("more; --json lists them all"),
            "{text}"
        );
    }
    let path = catalog(
        folder.path(),
        names.iter().map(|name| json!({"name": name})),
    );
    let message = stderr(&run(&["index", "--catalog", &path]));
    assert!(
        message.lines().count() == 22 && message.ends_with("… and 480 more\n"),
        "{message}"
    );
    let findings = answer_of_check(&path);
    assert!(
        findings.lines().count() < 250 && findings.contains("500 errors"),
        "{findings}"
    );
    assert!(
        findings.contains("… and 400 more; --json and --sarif list them all"),
        "{findings}"
    );
    let own = (0..500)
        .map(|_| json!({"type": "web_search"}))
        .chain([json!({"name": "kept", "parameters": {}})]);
    let path = catalog(folder.path(), own);
    let notes = stderr(&run(&["index", "--catalog", &path]));
    assert!(
        notes.lines().count() == 21 && notes.contains("warning: … and 480 more"),
        "{notes}"
    );
    let path = catalog(
        folder.path(),
        names
            .iter()
            .map(|name| json!({"name": format!("{name} !"), "parameters": {}})),
    );
    let notes = stderr(&run(&[
        "translate",
        "--catalog",
        &path,
        "--provider",
        "openai",
    ]));
    assert!(
        notes.lines().count() == 21 && notes.contains("… and 481 more; --json lists them all"),
        "{notes}"
    );
    let many = names
        .iter()
        .map(|name| json!({"name": "same", "source": name, "parameters": {}}));
    let path = catalog(folder.path(), many);
    for arguments in [
        &["resolve", "same", "--catalog", &path][..],
        &["pick", "x", "--always-include", "same", "--catalog", &path],
    ] {
        let output = run(arguments);
        let text = stdout(&output) + &stderr(&output);
        assert!(
            text.len() < 1_000 && text.contains("tool_number_19/same, … and 480 more"),
            "{text}"
        );
    }
}

fn answer_of_check(path: &str) -> String {
    let output = run(&["check", "--catalog", path]);
    assert_eq!(output.status.code(), Some(1));
    stdout(&output)
}

#[test]
fn untrusted_text_is_printed_safely_and_short() {
    let odd = format!("a\nb\u{200b}\u{1b}[31m{}", "x".repeat(5_000));
    let value = odd.replace('\n', "");
    let folder = tempfile::tempdir().expect("a folder can be made");
    let calls = folder.path().join("calls.jsonl");
    let lines = [
        json!({"name": odd, "arguments": {}}),
        json!({"name": "files/delete_file", "arguments": odd}),
    ];
    fs::write(&calls, lines.map(|line| line.to_string()).join("\n")).expect("it can be written");
    let calls = calls.to_str().expect("the path is plain");
    let broken = catalog(
        folder.path(),
        [json!({"name": odd, "parameters": {}, "safe": odd})].into_iter(),
    );
    for (arguments, most) in [
        (&["resolve", &odd, "--catalog", WORKPLACE][..], 1),
        (&["validate", "--calls", calls, "--catalog", WORKPLACE], 3),
        (&["index", "--catalog", &broken], 3),
        (&["pick", "x", "--catalog", &value], 1),
        (
            &["pick", "x", "--catalog", WORKPLACE, "--exclude", &value],
            1,
        ),
        (&["pick", "x", "--catalog", WORKPLACE, "--role", &value], 9),
        (&["pick", "x", "--catalog", WORKPLACE, "--model", &value], 1),
        (&[&value], 9),
        (
            &["pick", "x", "--catalog", WORKPLACE, "--in-use", &value],
            9,
        ),
        (&["check", "--catalog", &broken], 12),
    ] {
        let output = run(arguments);
        for text in [stdout(&output), stderr(&output)] {
            assert!(is_printable(&text), "{text:?}");
            assert!(
                text.lines().count() <= most
                    && text.lines().all(|line| line.chars().count() <= 1_001),
                "{text}"
            );
        }
    }
}

#[test]
fn errors_are_json_with_json_option() {
    let error = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(
            (output.status.code(), stderr(&output)),
            (Some(2), String::new()),
            "{arguments:?}"
        );
        let mut answer: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        let error = answer["error"].take();
        assert!(
            error["message"].is_string() && error["causes"].is_array(),
            "{error}"
        );
        error
    };
    let missing = error(&["pick", "x", "--catalog", "nowhere.json", "--json"]);
    assert_eq!(missing["message"], "cannot read the catalog nowhere.json");
    assert!(
        missing["causes"][0]
            .as_str()
            .is_some_and(|cause| cause.contains("No such file")),
        "{missing}"
    );
    for command in ["resolve", "translate", "validate", "check", "index", "eval"] {
        let usage = error(&[command, "--json", "--such-an-option"]);
        assert!(
            usage["message"]
                .as_str()
                .is_some_and(|message| message.contains("--such-an-option")),
            "{usage}"
        );
    }
    let usage = error(&["pick", "--json", "--catalog", WORKPLACE]);
    assert!(
        usage["message"]
            .as_str()
            .is_some_and(|message| message.contains("<QUERY>")),
        "{usage}"
    );
    assert_eq!(
        error(&["check", "--catalog", "nowhere.json", "--json"])["message"],
        missing["message"]
    );
    assert_eq!(error(&["eval", "nowhere", "--json"])["causes"], json!([]));
    let output = run(&["pick", "--catalog", "nowhere.json", "--", "--json"]);
    assert!(
        stdout(&output).is_empty() && stderr(&output).starts_with("error: cannot read"),
        "it is a request"
    );
}

#[test]
fn invalid_number_is_refused_with_the_expected_form() {
    for (option, value, wanted) in [
        ("-k", "-1", "a whole number, 0 or more"),
        ("-k", "three", "a whole number, 0 or more"),
        ("--max-per-source", "-2", "a whole number, 0 or more"),
        ("--token-budget", "1.5", "a whole number, 0 or more"),
        ("--timeout-ms", "-5", "a whole number, 0 or more"),
        ("--min-score", "high", "a number"),
        ("--max-cost", "much", "a number"),
    ] {
        let message = stderr(&run(&["pick", "x", "--catalog", WORKPLACE, option, value]));
        let expected = format!("error: invalid value '{value}' for '");
        assert!(
            message.starts_with(&expected) && message.contains(&format!(": give {wanted}\n")),
            "{message}"
        );
    }
    let message = stderr(&run(&["eval", "x", "-k", "0"]));
    assert!(
        message.contains(": give a whole number, 1 or more\n"),
        "{message}"
    );
    let message = stderr(&run(&[
        "pick",
        "x",
        "--catalog",
        WORKPLACE,
        "--min-score",
        "-1",
    ]));
    assert!(message.contains("0 to 1"), "{message}");
}

#[cfg(feature = "onnx")]
#[test]
fn missing_model_folder_is_named() {
    for model in ["some/dir", "/nowhere/model", "./model"] {
        for option in [
            &["--model", model][..],
            &["--rerank", "local", "--rerank-model", model],
        ] {
            let message = stderr(&run(
                &[&["pick", "x", "--catalog", WORKPLACE][..], option].concat()
            ));
            assert!(
                message.starts_with(&format!("error: no such folder: {model}")),
                "{message}"
            );
            assert!(
                message.ends_with("`picktools models list` lists the embedding models\n"),
                "{message}"
            );
        }
    }
}

#[test]
fn messages_contain_no_foreign_error_text() {
    let output = run(&[
        "pick",
        "x",
        "--catalog",
        WORKPLACE,
        "--skills",
        fixture("broken/skills").to_str().expect("plain"),
    ]);
    let notes = stderr(&output);
    assert!(
        notes.contains("alias-bomb")
            && !notes.contains("replay")
            && !notes.contains("mapping values"),
        "{notes}"
    );
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("file.json");
    for (text, option) in [
        ("{\"a\":", "--aliases"),
        ("{\"a\": 3}", "--aliases"),
        ("[3]", "--sequences"),
    ] {
        fs::write(&file, text).expect("it can be written");
        let path = file.to_str().expect("the path is plain");
        let message = stderr(&run(&["pick", "x", "--catalog", WORKPLACE, option, path]));
        assert!(
            !message.contains("at line") && !message.contains("untagged"),
            "{message}"
        );
    }
    let output = picktools(&["validate", "--catalog", WORKPLACE, "--calls", "-"]);
    let output = { output }
        .stdin(says(r#"{"name": "a", "arguments": {"x""#))
        .output()
        .expect("it runs");
    assert!(
        !stderr(&output).contains("at line 1 column"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn progress_is_printed_only_on_a_terminal() {
    let arguments = ["index", "--catalog", WORKPLACE];
    assert_eq!(
        stderr(&run(&arguments)),
        "",
        "nobody waits before a terminal"
    );
    assert!(answer(&arguments).ends_with(" terms\n"));
    assert!(stderr(&run(&[&arguments[..], &["--stats"]].concat())).starts_with("read in "));
}
