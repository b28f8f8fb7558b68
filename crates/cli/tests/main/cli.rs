//! The program except `eval`: answers on standard output, everything else on standard error, exit
//! codes, and invalid input.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Seek as _, Write as _};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{fixture, root};

pub(crate) const WORKPLACE: &str = "fixtures/catalogs/workplace";

/// Returns a command that runs the program in the folder of the crate, without the user's
/// environment.
pub(crate) fn picktools(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picktools"));
    command.current_dir(root("")).env_clear().args(arguments);
    // There is no cache by default: a file cannot contain a folder.
    command.env("PICKTOOLS_CACHE_DIR", root("Cargo.toml/cache"));
    // On a busy machine, a server starts slowly.
    command.env("PICKTOOLS_LIST_WAIT", "20");
    command
}

/// Returns a standard input with this text.
pub(crate) fn says(text: impl AsRef<[u8]>) -> Stdio {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(text.as_ref())
        .and_then(|()| file.rewind())
        .expect("it is written");
    file.into()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("answers are UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

/// Runs the program and returns its answer. Any other exit code than 0 fails the test.
pub(crate) fn answer(arguments: &[&str]) -> String {
    let output = picktools(arguments).output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        stderr(&output)
    );
    stdout(&output)
}

pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).expect("the answer is JSON")
}

/// Runs the program and returns its message. The test fails unless the exit code is 2 and the
/// answer is empty. With `--json` the message is the answer.
pub(crate) fn refusal(arguments: &[&str]) -> String {
    if !arguments.contains(&"--json") {
        return refusal_of(&mut picktools(arguments));
    }
    let output = picktools(arguments).output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(2),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    let answer: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
    let causes = answer["error"]["causes"]
        .as_array()
        .expect("they are listed")
        .iter()
        .filter_map(Value::as_str);
    let message = answer["error"]["message"].as_str().expect("there is one");
    format!(
        "error: {}",
        std::iter::once(message)
            .chain(causes)
            .collect::<Vec<_>>()
            .join(": ")
    )
}

fn refusal_of(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(2),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert_eq!(stdout(&output), "");
    let message = stderr(&output);
    assert!(message.starts_with("error: "), "{message}");
    message
}

// pick

#[test]
fn pick_prints_tools_with_scores_and_reasons() {
    let text = answer(&["pick", "book a meeting room", "--catalog", WORKPLACE]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with(" 1. calendar/book_meeting_room  0."),
        "{text}"
    );
    assert!(
        lines[1].starts_with("    name") && lines[1].contains(" match"),
        "{text}"
    );
    assert!(
        lines[1].ends_with(" (rank 1); best-matching server: calendar"),
        "{text}"
    );
    let last = lines[lines.len() - 1];
    assert!(
        last.contains(" picks by hybrid") && last.contains("not eligible (role 21, unsafe 17)"),
        "{last}"
    );
    assert!(!text.contains("stage "), "details come with --explain");
}

#[test]
fn pick_prints_versioned_json() {
    let json = json(&[
        "pick",
        "book a meeting room",
        "--catalog",
        WORKPLACE,
        "--json",
        "-k",
        "1",
    ]);
    assert_eq!(
        (&json["version"], &json["scorer"]),
        (&3.into(), &"hybrid".into())
    );
    assert_eq!(json["picks"].as_array().map(Vec::len), Some(1));
    assert!(
        json["answerable"]
            .as_f64()
            .is_some_and(|estimate| estimate > 0.5 && estimate < 1.0),
        "{json}"
    );
    let pick = &json["picks"][0];
    assert_eq!(pick["tool"]["id"], "calendar/book_meeting_room");
    assert!(
        pick["score"]
            .as_f64()
            .is_some_and(|score| score > 0.05 && score <= 1.0),
        "{pick}"
    );
    let provenance = &pick["provenance"];
    assert_eq!(
        (
            &provenance["keyword"]["rank"],
            &provenance["semantic"][0]["rank"]
        ),
        (&1.into(), &1.into()),
        "{pick}"
    );
    assert!(
        json["stages"].is_array()
            && json["ineligible"]["tools"].is_array()
            && json["catalog_digest"].is_string()
    );
    assert!(
        json.get("considered").is_none(),
        "evidence of the others comes with --explain"
    );
}

#[test]
fn pick_explain_shows_ranks_terms_and_exclusions() {
    let text = answer(&[
        "pick",
        "book a meeting room",
        "--catalog",
        WORKPLACE,
        "--explain",
        "--min-score",
        "0",
    ]);
    for part in [
        "*  1. calendar/book_meeting_room  0.",
        "keyword   rank 1, BM25 ",
        "        meeting ",
        "semantic  rank 1, cosine 0.",
        "(static:",
        "fused     ",
        "   4. ",
        "keyword   rank 4, BM25 ",
        "stage keyword      ran",
        "stage semantic     ran",
        "stage rerank       skipped: no reranker is set",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    for (arguments, excluded) in [
        (&[][..], "files/delete_file is not eligible: unsafe tools"),
        (
            &[],
            "forge/merge_pull_request is not eligible: requires role maintainer",
        ),
        (
            &[],
            "forge/delete_repository is not eligible: unsafe tools are not allowed; requires role admin",
        ),
        (
            &["--execution-mode", "interactive"],
            "files/compress_folder is not eligible: requires execution mode batch",
        ),
        (
            &["--capability", "streaming"],
            "forge/create_issue is not eligible: lacks capability streaming",
        ),
        (
            &["--max-cost", "0.005"],
            "chat/summarize_thread is not eligible: too costly: a call costs 0.02, 0.005 is left",
        ),
        (
            &["--deny-source", "mail"],
            "mail/send_email is not eligible: source not allowed: mail",
        ),
        (
            &["--allow-source", "mail"],
            "forge/create_issue is not eligible: source not allowed: forge",
        ),
        (
            &["--exclude", "search_code"],
            "forge/search_code is not eligible: excluded by the caller",
        ),
    ] {
        let pick = [
            "pick",
            "book a meeting room",
            "--catalog",
            WORKPLACE,
            "--explain",
        ];
        let text = answer(&[&pick[..], arguments].concat());
        assert!(text.contains(excluded), "{excluded:?} is not in:\n{text}");
        let plain = answer(&[&pick[..4], arguments].concat());
        assert!(
            !plain.contains(excluded),
            "without --explain only what is named is told:\n{plain}"
        );
    }
    let door = ["pick", "lock the front door", "--catalog", WORKPLACE];
    let blocked = " -  home/lockDoor (best match, score 0.9";
    assert!(answer(&door).contains(blocked), "{}", answer(&door));
    let silent = answer(&[&door[..], &["--tell-blocked", "never"]].concat());
    assert!(!silent.contains("lockDoor"), "{silent}");
    let named = answer(&["pick", "`delete_file`", "--catalog", WORKPLACE]);
    assert!(
        named.contains("files/delete_file (named in the request) is not eligible: unsafe tools"),
        "{named}"
    );
}

/// Returns the ids of the picks on the fixture catalog.
fn picked(arguments: &[&str]) -> Vec<String> {
    let json = json(&[&["pick", "--catalog", WORKPLACE, "--json"], arguments].concat());
    let picks = json["picks"].as_array().expect("picks are a list");
    picks
        .iter()
        .filter_map(|pick| pick["tool"]["id"].as_str())
        .map(str::to_owned)
        .collect()
}

#[test]
fn pick_access_options_reach_the_engine() {
    for (name, without, with, tool) in [
        (
            "delete_file",
            &[][..],
            &["--allow-unsafe"][..],
            "files/delete_file",
        ),
        (
            "merge_pull_request",
            &["--role", "x"],
            &["--role", "maintainer", "--role", "x"],
            "forge/merge_pull_request",
        ),
        (
            "zip",
            &["--execution-mode", "interactive"],
            &["--execution-mode", "batch"],
            "files/compress_folder",
        ),
        (
            "ps",
            &["--capability", "streaming"],
            &[],
            "terminal/terminalListProcesses",
        ),
        (
            "sql",
            &["--max-cost", "0.01"],
            &["--max-cost", "0.05"],
            "warehouse/run_query",
        ),
        (
            "dm",
            &["--deny-source", "chat"],
            &["--deny-source", "mail"],
            "chat/send_direct_message",
        ),
        (
            "dm",
            &["--allow-source", "mail"],
            &["--allow-source", "mail", "--allow-source", "chat"],
            "chat/send_direct_message",
        ),
        ("dm", &["--exclude", "dm"], &[], "chat/send_direct_message"),
        (
            "🚀",
            &[],
            &["--always-include", "dm"],
            "chat/send_direct_message",
        ),
        (
            "book a meeting room",
            &["--min-score", "1"],
            &["--min-score", "0"],
            "calendar/book_meeting_room",
        ),
        (
            "use `dm` or `ps` or `sql`",
            &["-k", "1"],
            &["-k", "3"],
            "chat/send_direct_message",
        ),
        (
            "book a meeting room",
            &["--min-score", "1"],
            &["--fusion", "rrf"],
            "calendar/book_meeting_room",
        ),
    ] {
        let pick = |more: &[&str]| {
            picked(&[&[name], more].concat())
                .iter()
                .any(|id| id == tool)
        };
        assert!(!pick(without), "{tool} with {without:?}");
        assert!(pick(with), "{tool} with {with:?}");
    }
    let spread = picked(&[
        "create an issue",
        "--max-per-source",
        "1",
        "--min-score",
        "0",
        "-k",
        "6",
    ]);
    let sources: BTreeSet<&str> = spread
        .iter()
        .filter_map(|id| id.split('/').next())
        .collect();
    assert_eq!((spread.len(), sources.len()), (6, 6), "{spread:?}");
    let of_mail = |more: &[&str]| {
        let arguments = [
            "send and search mail",
            "--max-per-source",
            "1",
            "--min-score",
            "0",
            "-k",
            "6",
        ];
        picked(&[&arguments, more].concat())
            .iter()
            .filter(|id| id.starts_with("mail/"))
            .count()
    };
    assert!(
        of_mail(&[]) == 1 && of_mail(&["--trust-source", "mail"]) > 1,
        "a trusted source has no limit"
    );
}

#[test]
fn untrusted_tools_are_marked_in_every_output() {
    let pick = [
        "pick",
        "send a mail to a colleague",
        "--catalog",
        WORKPLACE,
        "--untrusted-source",
        "mail",
    ];
    let text = answer(&pick);
    let reason = text
        .lines()
        .skip_while(|line| !line.contains("mail/send_email"))
        .nth(1)
        .expect("it is picked");
    assert!(reason.ends_with("; untrusted source"), "{text}");
    let explained = answer(&[&pick[..], &["--explain"]].concat());
    let marked = |line: &&str| line.contains(". mail/") && line.ends_with("  untrusted source");
    assert!(explained.lines().any(|line| marked(&line)), "{explained}");
    let json = json(&[&pick[..], &["--explain", "--json"]].concat());
    assert!(
        json["considered"]
            .as_array()
            .expect("an array")
            .iter()
            .any(|tool| tool["untrusted"] == true),
        "{json}"
    );
    assert!(!answer(&pick[..4]).contains("untrusted"));
}

#[test]
fn unknown_option_values_are_warned_with_a_suggestion() {
    for (arguments, warning, nearest) in [
        (
            ["--deny-source", "mial"],
            "deny_sources: no tool of the catalog has \"mial\"",
            "mail",
        ),
        (
            ["--allow-source", "chta"],
            "allow_sources: no tool of the catalog has \"chta\"",
            "chat",
        ),
        (
            ["--trust-source", "m\u{430}il"],
            "trusted_sources: no tool of the catalog has \"m\u{430}il\"",
            "mail",
        ),
        (
            ["--untrusted-source", "calender"],
            "untrusted_sources: no tool of the catalog has \"calender\"",
            "calendar",
        ),
        (
            ["--role", "maintaner"],
            "roles: no tool of the catalog has \"maintaner\"",
            "maintainer",
        ),
        (
            ["--capability", "streeming"],
            "capabilities: no tool of the catalog has \"streeming\"",
            "streaming",
        ),
        (
            ["--execution-mode", "bacth"],
            "execution_mode: no tool of the catalog has \"bacth\"",
            "batch",
        ),
    ] {
        let warning = format!("warning: {warning} (did you mean {nearest:?}?)");
        let pick = ["pick", "send a mail", "--catalog", WORKPLACE, "--json"];
        let output = picktools(&[&pick[..], &arguments].concat())
            .output()
            .expect("it runs");
        assert_eq!(stderr(&output).trim_end(), warning);
        let selection: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
        if arguments[0] != "--untrusted-source" {
            assert_eq!(
                selection["unknown_values"][0]["nearest"], nearest,
                "{selection}"
            );
        }
        let known = [arguments[0], nearest];
        let output = picktools(&[&pick[..], &known].concat())
            .output()
            .expect("it runs");
        assert_eq!(stderr(&output), "", "{known:?}");
    }
    let check = picktools(&[
        "check",
        "--catalog",
        WORKPLACE,
        "--untrusted-source",
        "nobody",
    ])
    .output()
    .expect("it runs");
    assert_eq!(
        stderr(&check).trim_end(),
        "warning: untrusted_sources: no tool of the catalog has \"nobody\""
    );
}

#[test]
fn pick_repeated_prints_the_same_bytes() {
    for format in [&["--json", "--explain"][..], &["--explain"], &[]] {
        let arguments = [
            &[
                "pick",
                "send the invitation by mail",
                "--catalog",
                WORKPLACE,
            ],
            format,
        ]
        .concat();
        assert_eq!(answer(&arguments), answer(&arguments), "{format:?}");
    }
}

#[test]
fn pick_timings_go_to_standard_error() {
    let arguments = [
        "pick",
        "book a meeting room",
        "--catalog",
        WORKPLACE,
        "--json",
    ];
    let output = picktools(&[&arguments[..], &["--timings"]].concat())
        .output()
        .expect("it runs");
    assert_eq!(stdout(&output), answer(&arguments));
    assert!(
        stderr(&output)
            .lines()
            .any(|line| line.starts_with("keyword") && line.ends_with("µs")),
        "{}",
        stderr(&output)
    );
}

#[test]
fn pick_from_transcript_keeps_its_tools_in_use() {
    let transcript = r#"{"messages": [
        {"role": "user", "content": "What is the weather in Nice right now?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "bash", "input": {}},
            {"type": "tool_use", "id": "2", "name": "magic\u0007", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "19"}]},
        {"role": "user", "content": "and in Turin?"}]}"#;
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let habits = temporary.path().join("habits.jsonl");
    fs::write(
        &habits,
        "[\"bash\", \"weather/get_current_conditions\"]\n[\"other\"]\n[\"bash\"]\n[\"cat\"]\n",
    )
    .expect("it can be written");
    let sequences = ["--sequences", habits.to_str().expect("the path is plain")];
    let arguments = [
        &["pick", "--catalog", WORKPLACE, "--input", "-", "--explain"][..],
        &sequences,
    ]
    .concat();
    let output = picktools(&arguments)
        .stdin(says(transcript))
        .output()
        .expect("it runs");
    let (text, notes) = (stdout(&output), stderr(&output));
    assert!(text.contains("in use as \"bash\""), "{text}");
    assert!(text.starts_with(" 1. weather/"), "{text}");
    assert!(
        text.contains(" -  \"magic<U+0007>\" is in use but not in the catalog"),
        "{text}"
    );
    assert!(
        text.contains("common tasks: 1, expected by chance: 0.67") && text.contains("+ prior"),
        "{text}"
    );
    assert!(
        notes.contains("1 names are unknown or ambiguous in the catalog"),
        "{notes}"
    );
}

#[test]
fn pick_input_reads_a_file_or_standard_input() {
    let expected = answer(&["pick", "book a meeting room", "--catalog", WORKPLACE]);
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let file = temporary.path().join("request.txt");
    for text in [
        "book a meeting room",
        "\"book a meeting room\"",
        "  \"book a meeting room\"\n",
    ] {
        let pick = |path: &str| picktools(&["pick", "--catalog", WORKPLACE, "--input", path]);
        let output = pick("-").stdin(says(text)).output().expect("it runs");
        assert_eq!(stdout(&output), expected, "{text}");
        fs::write(&file, text).expect("it can be written");
        let output = pick(file.to_str().expect("the path is plain"))
            .output()
            .expect("it runs");
        assert_eq!(stdout(&output), expected, "{text}");
    }
    let object = r#"{"task": "book a meeting room", "seats": [12]}"#;
    let output = picktools(&["pick", "--catalog", WORKPLACE, "--input", "-"])
        .stdin(says(object))
        .output()
        .expect("it runs");
    assert!(
        stdout(&output).starts_with(" 1. calendar/book_meeting_room"),
        "{}",
        stdout(&output)
    );
    let megabyte = "book a meeting room ".repeat(60_000);
    let output = picktools(&["pick", "--catalog", WORKPLACE, "--input", "-"])
        .stdin(says(megabyte))
        .output()
        .expect("it runs");
    assert!(
        stdout(&output).starts_with(" 1. calendar/book_meeting_room"),
        "{}",
        stdout(&output)
    );
    assert!(
        stderr(&output).starts_with("warning: the request was cut to its first "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn pick_with_empty_request_is_refused() {
    for text in ["", " \n", "...", "\u{200b}"] {
        assert!(
            refusal(&["pick", text, "--catalog", WORKPLACE])
                .contains("the request is empty; describe the task")
        );
    }
    let bare = [
        r#"{"messages": []}"#,
        r#"{"contents": []}"#,
        r#"{"model": "m", "input": []}"#,
    ];
    for text in bare
        .into_iter()
        .chain([r#"[{"role": "assistant", "content": "Hello"}]"#, ""])
    {
        let message = refusal_of(
            picktools(&["pick", "--catalog", WORKPLACE, "--input", "-"]).stdin(says(text)),
        );
        assert!(
            message.contains("the request is empty"),
            "{text}: {message}"
        );
    }
    let question =
        r#"[{"role": "user", "content": "book a meeting room"}, {"role": "user", "content": "?"}]"#;
    let output = picktools(&["pick", "--catalog", WORKPLACE, "--input", "-"])
        .stdin(says(question))
        .output();
    assert!(
        stdout(&output.expect("it runs")).starts_with(" 1. calendar/book_meeting_room"),
        "what was said before counts"
    );
}

#[test]
fn pick_with_unreadable_request_is_refused() {
    let pick = ["pick", "--catalog", WORKPLACE, "--input"];
    let message = refusal_of(picktools(&[&pick[..], &["-"]].concat()).stdin(says(&b"caf\xe9"[..])));
    assert!(message.contains("not valid UTF-8"), "{message}");
    let message = refusal(&[&pick[..], &["nowhere/request.txt"]].concat());
    assert!(message.contains("nowhere/request.txt"), "{message}");
    for arguments in [
        &["pick", "--catalog", WORKPLACE][..],
        &["pick", "x", "--catalog", WORKPLACE, "--input", "-"],
        &["pick", "x"],
        &[],
    ] {
        let output = picktools(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn broken_catalogs_are_refused_with_file_and_position() {
    for (file, places) in [
        ("syntax.json", &["line 4, column 19"][..]),
        ("syntax.jsonl", &["line 3", "column 106"]),
        ("invalid-utf8.jsonl", &["line 2", "byte 76"]),
        (
            "not-a-catalog.json",
            &["no catalog format recognised", "recipe"],
        ),
        (
            "many-faults.json",
            &[
                "entry 2",
                "entry 3",
                "entry 4",
                "entry 5",
                "entry 7",
                "Duplicate tool alias 'bash'",
                "entry 9",
                "entry 10",
            ],
        ),
        ("none.json", &["cannot read"]),
    ] {
        let path = format!("fixtures/broken/{file}");
        for command in [
            &["pick", "x", "--strict-catalog", "--catalog"][..],
            &["index", "--strict-catalog", "--catalog"],
        ] {
            let message = refusal(&[command, &[&path]].concat());
            assert!(message.contains(&path), "{message}");
            assert!(
                places.iter().all(|place| message.contains(place)),
                "{places:?} in {message}"
            );
        }
    }
    let message = refusal(&["pick", "x", "--catalog", "fixtures"]);
    assert!(
        message.contains("fixtures has no *.json, *.jsonl, *.yaml or *.yml file"),
        "{message}"
    );
    let empty = answer(&["pick", "x", "--catalog", "fixtures/broken/empty.json"]);
    assert!(
        empty.starts_with("No tool fits: the catalog is empty."),
        "an empty catalog is not an error: {empty}"
    );
}

#[test]
fn pick_with_invalid_options_is_refused() {
    let pick = ["pick", "x", "--catalog", WORKPLACE];
    for (arguments, part) in [
        (&["-k", "0"][..], "max_candidates"),
        (&["--min-score", "1.5"], "min_score"),
        (&["--min-score", "NaN"], "min_score"),
        (&["--max-per-source", "0"], "max_per_source"),
        (&["--max-cost", "NaN"], "max_cost"),
        (
            &["--always-include", "list_usrs"],
            "did you mean \"list_users\"?",
        ),
        (&["--exclude", "list_usrs"], "did you mean \"list_users\"?"),
        (
            &["--always-include", "create_issue"],
            "forge/create_issue, tracker/create_issue",
        ),
        (&["-k", "many"], "many"),
        (&["--mode", "psychic"], "hybrid"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let message = refusal(&[&pick[..], arguments].concat());
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}

#[test]
fn working_folder_is_a_catalog() {
    let from_above = json(&[
        "pick",
        "forecast",
        "--catalog",
        "fixtures/formats/mcp.json",
        "--json",
    ]);
    assert_eq!(from_above["picks"][0]["tool"]["id"], "mcp/get_forecast");
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let folder = temporary.path().join("weather");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::copy(fixture("formats/mcp.json"), folder.join("tools.json")).expect("it can be copied");
    for path in [
        folder.to_str().expect("the path is plain"),
        ".",
        "tools.json",
        "./tools.json",
    ] {
        let mut command = picktools(&["pick", "forecast", "--json", "--catalog", path]);
        let output = command.current_dir(&folder).output().expect("it runs");
        let json: Value = serde_json::from_slice(&output.stdout).expect("the answer is JSON");
        assert_eq!(
            json["picks"][0]["tool"]["id"], "weather/get_forecast",
            "--catalog {path}"
        );
    }
}

#[test]
fn closed_output_is_not_an_error() {
    for arguments in [
        &[
            "pick",
            "book a meeting room",
            "--catalog",
            WORKPLACE,
            "--explain",
            "--json",
        ][..],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_picktools"));
        command
            .current_dir(root(""))
            .env_clear()
            .args(arguments)
            .stdout(writer)
            .stderr(Stdio::piped());
        let output = command.output().expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}

// index, completions

#[test]
fn index_prints_counts_and_stats() {
    let json = json(&["index", "--catalog", WORKPLACE, "--json"]);
    assert_eq!(
        (&json["version"], &json["tools"], &json["sources"]),
        (&1.into(), &220.into(), &28.into())
    );
    assert!(
        json["terms"].as_u64().is_some_and(|terms| terms > 1_000),
        "{json}"
    );
    assert!(
        json["model"]
            .as_str()
            .is_some_and(|model| model.starts_with("static:"))
            && json["dimensions"] == 256
    );
    assert_eq!(json["catalog"].as_str().map(str::len), Some(64));
    let text = answer(&["index", "--catalog", WORKPLACE]);
    assert!(
        text.starts_with("220 tools of 28 sources, ") && text.lines().count() == 1,
        "{text}"
    );
    let stats = answer(&["index", "--catalog", WORKPLACE, "--stats"]);
    assert!(
        stats.contains("vectors with 256 dimensions by static:") && stats.contains("\ncatalog "),
        "{stats}"
    );
    let empty = answer(&["index", "--catalog", "fixtures/broken/empty.json"]);
    assert!(
        empty.starts_with("0 tools of 0 sources, 0 terms"),
        "{empty}"
    );
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = answer(&["completions", shell]);
        assert!(
            script.contains("picktools") && script.contains("always-include"),
            "{shell}: {script}"
        );
    }
    assert!(refusal(&["completions", "abacus"]).contains("abacus"));
}

// Help, version and defaults

#[test]
fn help_and_version_exit_with_success() {
    assert!(answer(&["--version"]).starts_with("picktools "));
    for command in ["pick", "index", "eval", "models", "completions"] {
        assert!(answer(&["--help"]).contains(command));
        assert!(answer(&[command, "--help"]).contains("Usage: picktools"));
    }
}

#[test]
fn program_without_arguments_prints_an_overview() {
    let output = picktools(&[]).output().expect("it runs");
    let text = stderr(&output);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(2), ""),
        "{text}"
    );
    assert!(
        text.lines().count() <= 8 && text.contains("picktools init") && text.contains("--help"),
        "{text}"
    );
}

#[test]
fn help_lists_commands_in_groups() {
    let help = answer(&["--help"]);
    let headings: Vec<&str> = help
        .lines()
        .filter(|line| line.ends_with(':') && !line.starts_with(' '))
        .collect();
    assert_eq!(
        headings,
        [
            "Start:",
            "Tools:",
            "Catalogs:",
            "Quality:",
            "Operations:",
            "Options:"
        ]
    );
    assert!(help.contains("Exit codes: 0 success"), "{help}");
}

#[test]
fn pick_by_default_uses_the_built_in_model() {
    let request = [
        "pick",
        "make this picture smaller",
        "--catalog",
        WORKPLACE,
        "--json",
    ];
    let words = json(&[&request[..], &["--mode", "keyword"]].concat());
    assert_ne!(words["picks"][0]["tool"]["name"], "resize-image");
    let meaning = json(&request);
    let first = &meaning["picks"][0];
    assert_eq!(
        (&meaning["scorer"], &first["tool"]["name"]),
        (&"hybrid".into(), &"resize-image".into())
    );
    assert_eq!(first["provenance"]["semantic"][0]["rank"], 1);
    assert!(
        first["provenance"]["semantic"][0]["model"]
            .as_str()
            .is_some_and(|model| model.starts_with("static:"))
    );
    assert_eq!(
        answer(&request),
        answer(&[&request[..], &["--mode", "hybrid", "--model", "static"]].concat())
    );
    let home = tempfile::tempdir().expect("a folder can be made");
    for command in [
        &request[..],
        &["index", "--catalog", WORKPLACE],
        &["eval", "fixtures/formats/layout"],
    ] {
        for cache in [home.path().join("cache"), root("Cargo.toml/cache")] {
            let mut command = picktools(command);
            command
                .env("HOME", home.path())
                .env("XDG_CACHE_HOME", home.path())
                .env("PICKTOOLS_CACHE_DIR", cache);
            let output = command.output().expect("it runs");
            assert!(
                output.status.success() && !stderr(&output).contains("warning"),
                "{}",
                stderr(&output)
            );
        }
    }
    assert_eq!(
        fs::read_dir(home.path()).expect("it can be read").count(),
        0,
        "nothing is kept on disk"
    );
}

#[test]
fn keyword_mode_opens_no_model() {
    let keyword = [
        "--catalog",
        WORKPLACE,
        "--mode",
        "keyword",
        "--model",
        "no/such/model",
        "--json",
    ];
    let pick = json(&[&["pick", "book a meeting room"], &keyword[..]].concat());
    assert_eq!(
        (&pick["scorer"], &pick["stages"][2]["status"]),
        (&"keyword".into(), &"skipped".into())
    );
    assert_eq!(pick["stages"][2]["reason"], "the mode is keyword");
    let index = json(&[&["index"], &keyword[..]].concat());
    assert_eq!(
        (&index["model"], &index["dimensions"]),
        (&Value::Null, &Value::Null)
    );
    answer(&[
        "eval",
        "fixtures/formats/layout",
        "--mode",
        "keyword",
        "--model",
        "no/such/model",
    ]);
}

#[test]
fn pick_explain_is_bounded_and_consistent() {
    let named = [
        "pick",
        "read `get_balance` and all the files",
        "--catalog",
        WORKPLACE,
        "--min-score",
        "0",
    ];
    let considered = json(&[&named[..], &["--explain", "--json"]].concat())["considered"]
        .as_array()
        .expect("it explains")
        .clone();
    assert!(
        (100..=103).contains(&considered.len()),
        "{} candidates",
        considered.len()
    );
    assert_eq!(
        considered
            .iter()
            .filter(|candidate| candidate["picked"] == true)
            .count(),
        3
    );
    let ranks = answer(&[&named[..], &["--explain", "--fusion", "rrf"]].concat());
    assert!(ranks.contains(" from the ranks, k = 60"), "{ranks}");
    assert!(
        !ranks.contains("keyword 0.35 ×"),
        "a sum of ranks has no weights: {ranks}"
    );
}

#[test]
fn help_lists_options_under_headings() {
    for command in [
        "pick",
        "eval",
        "validate",
        "translate",
        "check",
        "index",
        "resolve",
    ] {
        let help = answer(&[command, "--help"]);
        let options = help.lines().skip_while(|line| *line != "Options:").skip(1);
        let general: Vec<&str> = options
            .take_while(|line| line.starts_with(' ') || line.is_empty())
            .filter(|line| line.contains("--"))
            .collect();
        assert!(
            general
                .iter()
                .all(|line| line.contains("--help") || line.contains("--version")),
            "{general:?}"
        );
    }
    let help = answer(&["pick", "--help"]);
    let headings: Vec<&str> = help
        .lines()
        .filter(|line| line.ends_with(':') && !line.starts_with(' '))
        .collect();
    assert_eq!(
        headings,
        [
            "Arguments:",
            "Options:",
            "Request:",
            "Catalog:",
            "Shared store:",
            "Access:",
            "Ranking:",
            "Models:",
            "Reranking:",
            "Language model:",
            "Picks:",
            "Definitions for a model:",
            "Output:",
            "Examples:"
        ]
    );
}
