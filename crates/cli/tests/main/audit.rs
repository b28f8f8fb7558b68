//! The audit log of a gateway: recorded decisions, detected tampering, and the replay of
//! selections.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Client, Place, code, eventually, gateway_program, said};
use crate::gateway_http::{Serving, digest};
use crate::support::fixture;

/// Creates a workspace whose gateway writes an audit log to `audit`, with further settings.
fn audited(more: &Value) -> Place {
    let place = Place::faulty();
    let mut settings = json!({"mode": "search", "audit": {"folder": place.path("audit")}});
    for (name, value) in more.as_object().into_iter().flatten() {
        match name.strip_prefix("audit.") {
            Some(name) => settings["audit"][name] = value.clone(),
            None => settings[name] = value.clone(),
        }
    }
    place.write("settings.json", &settings);
    place
}

/// Returns the files of an audit log in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
        .collect();
    files.sort();
    files
}

fn lines(folder: &Path) -> Vec<String> {
    let text = |path: &PathBuf| fs::read_to_string(path).expect("UTF-8");
    files(folder)
        .iter()
        .map(text)
        .collect::<String>()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn records(folder: &Path) -> Vec<Value> {
    lines(folder)
        .iter()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

fn of_kind(folder: &Path, kind: &str) -> Vec<Value> {
    records(folder)
        .into_iter()
        .filter(|record| record["kind"] == kind)
        .collect()
}

fn replay(folder: &Path, more: &[&str]) -> Output {
    picktools(&["replay", &folder.display().to_string()])
        .args(more)
        .output()
        .expect("it runs")
}

/// Runs a replay, and returns its JSON answer.
fn replayed(folder: &Path, more: &[&str], exit: i32) -> Value {
    let output = replay(folder, &[&["--json"], more].concat());
    assert_eq!(
        output.status.code(),
        Some(exit),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// Returns the message of a gateway that does not start.
fn refused(place: &Place) -> String {
    let output = gateway_program()
        .arg("mcp")
        .args(place.arguments())
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    stderr(&output)
}

fn search_all(client: &mut Client, requests: &[&str]) {
    for request in requests {
        assert!(client.search(request)["tools"].is_array(), "{request}");
    }
}

const REQUESTS: [&str; 5] = [
    "sum of two numbers",
    "give the text back",
    "how far is it",
    "delete all rows of a table",
    "count rows",
];

#[test]
fn audit_records_decisions_without_secrets_and_replays() {
    let place = audited(&json!({}));
    let folder = place.path("audit");
    let mut client = place.client(&json!({}));
    search_all(&mut client, &REQUESTS);
    search_all(
        &mut client,
        &["sum\r\nof\u{0}two\u{2028}\u{1b}[31m numbers {\"kind\":\"call\"}\n"],
    );
    search_all(
        &mut client,
        &["add with sk-live-abcdefghijklmnop1234 for ada@example.org"],
    );
    client.call(
        "search_tools",
        json!({"query": "sum of two numbers", "server": "up", "limit": 2}),
    );
    client.run("up__add", json!({"a": 2, "b": 3}));
    client.run(
        "up__fails",
        json!({"password": "hunter2", "note": "token=abcdef"}),
    );
    client.run("nobody", json!({}));
    let waits = client.run("up__delete_everything", json!({"name": "x"}));
    let call = said(&waits).split("--call ").nth(1).expect("an id")[..8].to_owned();
    let state = place.path("state").display().to_string();
    let approved = picktools(&["approve", "--call", &call, "--state-dir", &state])
        .output()
        .expect("it runs");
    assert!(approved.status.success(), "{}", stderr(&approved));
    // The decision is consumed at once, before anybody reads the state.
    client.run("up__delete_everything", json!({"name": "x"}));
    assert_eq!(client.leave(), Some(0));

    let text = lines(&folder).join("\n");
    for secret in ["sk-live", "ada@example", "hunter2", "abcdef\""] {
        assert!(!text.contains(secret), "{secret}");
    }
    let selections = of_kind(&folder, "selection");
    assert_eq!(selections.len(), REQUESTS.len() + 3);
    assert_eq!(
        (&selections[0]["picks"][0]["tool"], &selections[0]["key"]),
        (&json!("up/add"), &json!("client"))
    );
    assert_eq!(selections[6]["redacted"], true);
    assert_ne!(
        selections[7]["access"], selections[0]["access"],
        "fewer sources were asked for"
    );
    let outcomes: Vec<(Value, Value)> = of_kind(&folder, "call")
        .iter()
        .map(|call| (call["requested"].clone(), call["outcome"].clone()))
        .collect();
    let expected = [
        ("up__add", "done"),
        ("up__fails", "failed"),
        ("nobody", "unknown_tool"),
        ("up__delete_everything", "not_confirmed"),
        ("up__delete_everything", "done"),
    ];
    assert_eq!(
        outcomes,
        expected.map(|(name, outcome)| (json!(name), json!(outcome)))
    );
    let approvals = of_kind(&folder, "approval");
    assert_eq!(approvals.len(), 1, "it is noted once: {approvals:?}");
    assert_eq!(
        (&approvals[0]["decision"], &approvals[0]["call"]),
        (&json!("allowed"), &json!(call))
    );
    let policies = of_kind(&folder, "policy");
    assert_eq!(
        (&policies[0]["changed"], &policies[0]["program"]),
        (&json!(["start"]), &json!(env!("CARGO_PKG_VERSION")))
    );
    assert!(
        policies[0]["model"].is_string() && policies[0]["roles"]["default"]["access"].is_string()
    );

    let told = replayed(&folder, &[], 0);
    assert_eq!(told["audit"]["broken"], json!([]));
    let counts = &told["selections"];
    assert_eq!(
        (&counts["replayed"], &counts["failed"]),
        (&json!(8), &json!(0)),
        "{told}"
    );
    assert!(counts["identical"].as_u64() >= Some(7), "{told}");
    let shown = replay(&folder, &[]);
    assert!(
        stdout(&shown).contains("the chain is intact"),
        "{}",
        stdout(&shown)
    );
}

/// A manipulation of an audit log, and the expected message.
type Harm = (&'static str, fn(&Path), &'static str);

fn edit(folder: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let file = files(folder)[0].clone();
    let mut lines = lines(folder);
    change(&mut lines);
    fs::write(
        file,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .expect("it is written");
}

const HARMS: [Harm; 13] = [
    (
        "a line is removed",
        |folder| edit(folder, |lines| drop(lines.remove(3))),
        "line 4 has the number 5, expected 4",
    ),
    (
        "a line is altered",
        |folder| {
            edit(folder, |lines| {
                lines[3] = lines[3].replace("client", "nobody");
            });
        },
        "line 5 does not continue",
    ),
    (
        "lines are swapped",
        |folder| edit(folder, |lines| lines.swap(3, 4)),
        "line 4 has the number 5, expected 4",
    ),
    (
        "a line is repeated",
        |folder| edit(folder, |lines| lines.insert(3, lines[3].clone())),
        "line 5 has the number 4, expected 5",
    ),
    (
        "the end is cut off",
        |folder| edit(folder, |lines| drop(lines.pop())),
        "the end was cut off",
    ),
    (
        "the last line is altered",
        |folder| {
            edit(folder, |lines| {
                *lines.last_mut().expect("a line") =
                    lines[lines.len() - 1].replace("client", "nobody");
            });
        },
        "is not the record that head.json names",
    ),
    (
        "the beginning is removed",
        |folder| edit(folder, |lines| drop(lines.drain(..2))),
        "line 1 has the number 3, unlike the file's name",
    ),
    (
        "a line is put in",
        |folder| {
            edit(folder, |lines| {
                lines.insert(2, "{\"version\":1}".to_owned());
            });
        },
        "line 3 is not a record",
    ),
    (
        "a line is of another version",
        |folder| {
            edit(folder, |lines| {
                lines[3] = lines[3].replacen("\"version\":1", "\"version\":2", 1);
            });
        },
        "line 4 has the unsupported version 2",
    ),
    (
        "all is emptied",
        |folder| fs::write(&files(folder)[0], "").expect("it is written"),
        "the end was cut off",
    ),
    (
        "the head is removed",
        |folder| fs::remove_file(folder.join("head.json")).expect("it is removed"),
        "head.json is missing",
    ),
    (
        "the head is no head",
        |folder| fs::write(folder.join("head.json"), "{}").expect("it is written"),
        "invalid head of an audit log",
    ),
    (
        "a file of another audit is put beside",
        |folder| put(&files(folder)[0], &folder.join("audit-000000000099.jsonl")),
        "audit-000000000099.jsonl: line 1 has the number 1, expected",
    ),
];

/// Replaces a folder by a file, even if the gateway creates the folder again.
fn replace(folder: &Path) {
    for number in 0.. {
        fs::rename(folder, folder.with_extension(format!("gone-{number}"))).expect("it is moved");
        if fs::write(folder, "in its place").is_ok() {
            return;
        }
    }
}

fn put(from: &Path, to: &Path) {
    let _bytes = fs::copy(from, to).expect("it is copied");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the folder") {
        let entry = entry.expect("an entry").path();
        let name = entry.file_name().expect("a name").to_owned();
        if entry.is_dir() {
            copy(&entry, &to.join(name));
        } else {
            put(&entry, &to.join(name));
        }
    }
}

#[test]
fn replay_verify_reports_tampering_with_file_and_line() {
    let place = audited(&json!({}));
    let whole = place.path("audit");
    let mut client = place.client(&json!({}));
    search_all(&mut client, &REQUESTS);
    assert_eq!(client.leave(), Some(0));
    replayed(&whole, &["--verify"], 0);
    for (number, (what, harm, message)) in HARMS.into_iter().enumerate() {
        let folder = place.path(&format!("harmed-{number}"));
        copy(&whole, &folder);
        harm(&folder);
        let output = replay(&folder, &["--verify"]);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", stdout(&output));
        let said = stdout(&output);
        assert!(
            said.contains(message) && said.contains("BROKEN"),
            "{what}: {said}"
        );
        // A gateway does not continue a log that was changed at its end.
        let mut settings = json!({"mode": "search"});
        settings["audit"] = json!({"folder": folder});
        place.write("settings.json", &settings);
        assert!(refused(&place).contains("audit"), "{what}");
    }
    for (name, text) in [
        ("notes.txt", "mine"),
        ("audit-1.jsonl", "{}\n"),
        ("audit-000000000002.json", "{}\n"),
    ] {
        fs::write(whole.join(name), text).expect("a file");
        let output = replay(&whole, &["--verify"]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        assert!(
            stderr(&output).contains(&format!("{name} does not belong to the audit log")),
            "{}",
            stderr(&output)
        );
    }
    let nowhere = replay(&place.path("state"), &["--verify"]);
    assert_eq!(nowhere.status.code(), Some(2), "{}", stdout(&nowhere));
    assert!(
        stderr(&nowhere).contains("contains no audit log"),
        "{}",
        stderr(&nowhere)
    );
}

#[test]
fn audit_with_incomplete_last_line_continues() {
    let place = audited(&json!({}));
    let folder = place.path("audit");
    let mut client = place.client(&json!({}));
    search_all(&mut client, &REQUESTS[..2]);
    client.leave();
    let before = lines(&folder).len();
    for half in ["{\"version\":1,\"number\":", "\u{0}\u{0}\u{0}"] {
        let file = files(&folder)[0].clone();
        let whole = fs::read_to_string(&file).expect("UTF-8");
        fs::write(&file, format!("{whole}{half}")).expect("it is written");
        let output = replay(&folder, &["--verify"]);
        assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
        assert!(
            stderr(&output).contains("an incomplete line"),
            "{}",
            stderr(&output)
        );
        let mut client = place.client(&json!({}));
        search_all(&mut client, &REQUESTS[..1]);
        client.leave();
        replayed(&folder, &[], 0);
        let started = of_kind(&folder, "policy")
            .into_iter()
            .rfind(|record| record["changed"] == json!(["start"]));
        let remnant = started.expect("a start")["remnant"].clone();
        assert_eq!(remnant["bytes"], half.len(), "{remnant}");
        let aside = folder.join(remnant["file"].as_str().expect("a name"));
        assert_eq!(fs::read_to_string(aside).expect("it is kept"), half);
    }
    assert!(lines(&folder).len() > before);
}

#[test]
fn second_gateway_on_one_audit_is_refused() {
    let place = audited(&json!({}));
    let mut client = place.client(&json!({}));
    assert!(refused(&place).contains("another process writes this audit"));
    search_all(&mut client, &REQUESTS[..1]);
    assert_eq!(client.leave(), Some(0));
    replayed(&place.path("audit"), &[], 0);
}

#[test]
fn unwritable_audit_refuses_requests_until_it_recovers() {
    let place = audited(&json!({}));
    place.write("file", &json!("no folder"));
    place.write(
        "settings.json",
        &json!({"audit": {"folder": place.path("file").join("audit")}}),
    );
    assert!(refused(&place).contains("cannot be created"));
    for settings in [
        json!({"folder": ""}),
        json!({"folder": "x", "max_bytes": 5}),
        json!({"folder": "x", "kep": 1}),
        json!({}),
    ] {
        place.write("settings.json", &json!({"audit": settings}));
        assert!(refused(&place).contains("settings.json"), "{settings}");
    }

    let folder = place.path("audit");
    let settings = json!({"mode": "search", "audit": {"folder": folder},
        "proxy": {"openai": {"url": "http://127.0.0.1:9/v1"}}});
    place.write("settings.json", &settings);
    let mut client = place.client(&json!({}));
    search_all(&mut client, &REQUESTS);
    // Catalogs that are on disk are not written again.
    std::thread::sleep(Duration::from_secs(3));
    replace(&folder);
    eventually("it is noticed", || {
        client.call("search_tools", json!({"query": "sum"}))["isError"] == true
    });
    for result in [
        client.run("up__add", json!({"a": 1, "b": 2})),
        client.call("search_tools", json!({"query": "sum"})),
    ] {
        assert_eq!(code(&result), "not_audited", "{result}");
    }
    assert_ne!(
        client.call("describe_tool", json!({"name": "up__add"}))["isError"],
        true,
        "nothing is decided by it"
    );
    fs::remove_file(&folder).expect("it is removed");
    eventually("it goes on", || {
        client.run("up__add", json!({"a": 1, "b": 2}))["isError"] != true
    });
    client.leave();
    assert_eq!(
        replay(&folder, &["--verify"]).status.code(),
        Some(1),
        "what was there is gone"
    );
}

#[test]
fn model_proxy_requests_are_audited_like_others() {
    let place = Place::with(&json!({}));
    let folder = place.path("audit");
    let key = json!({"name": "agents", "sha256": digest("secret-of-ours"), "role": "reader"});
    place.write(
        "settings.json",
        &json!({"keys": [key], "roles": {"reader": {}},
        "audit": {"folder": folder}, "proxy": {"openai": {"url": "http://127.0.0.1:9/v1"}}}),
    );
    let serving = Serving::start(place, &[]);
    let tool = |number: usize| json!({"type": "function", "function": {"name": format!("tool_{number}"), "description": "Does it"}});
    let send = |tools: usize| {
        let body = json!({"messages": [{"role": "user", "content": "do it for ada@example.org"}],
            "tools": (0..tools).map(tool).collect::<Vec<_>>()});
        let headers = [
            ("Picktools-Key", "secret-of-ours"),
            ("Authorization", "Bearer sk-of-the-provider-1234567"),
        ];
        serving
            .raw("POST", "/v1/chat/completions", &headers, &body.to_string())
            .status
    };
    assert_eq!((send(40), send(3)), (502, 502), "nobody is there");
    eventually("both are recorded", || {
        of_kind(&folder, "selection").len() == 2
    });
    let recorded = of_kind(&folder, "selection");
    assert_eq!(
        (
            &recorded[0]["via"],
            &recorded[0]["key"],
            &recorded[0]["role"]
        ),
        (&json!("model"), &json!("agents"), &json!("reader"))
    );
    assert_eq!(
        (&recorded[0]["shown"], &recorded[0]["of"]),
        (&json!(12), &json!(40)),
        "{}",
        recorded[0]
    );
    assert_eq!(recorded[0]["tools"].as_array().map(Vec::len), Some(12));
    assert_eq!(recorded[1]["unchanged"], "few-tools");
    let text = lines(&folder).join("\n");
    for secret in [
        "secret-of-ours",
        "sk-of-the",
        "ada@example",
        &digest("secret-of-ours"),
    ] {
        assert!(!text.contains(secret), "{secret}");
    }
    replace(&folder);
    eventually("it is noticed", || send(40) == 503);
}

#[test]
fn audit_retention_keeps_remaining_files_replayable() {
    let place = audited(
        &json!({"audit.max_bytes": 12_000, "audit.keep": 2, "upstreams": {"up": {"untrusted": true}}}),
    );
    let folder = place.path("audit");
    let mut client = place.client(&json!({}));
    for _ in 0..12 {
        search_all(&mut client, &REQUESTS);
    }
    client.leave();
    assert_eq!(files(&folder).len(), 2);
    let told = replayed(&folder, &[], 0);
    assert!(told["audit"]["first"].as_u64() > Some(1), "{told}");
    assert_eq!(
        (&told["selections"]["failed"], &told["audit"]["broken"]),
        (&json!(0), &json!([]))
    );
    assert_eq!(
        told["selections"]["identical"],
        told["selections"]["replayed"]
    );
    // The recorded catalog is readable by the program and includes the trust of its sources.
    let catalog = files(&folder.join("catalogs"))[0].display().to_string();
    let picked = picktools(&[
        "pick",
        "sum of two numbers",
        "--catalog",
        &catalog,
        "--json",
    ])
    .output()
    .expect("it runs");
    let picked: Value = serde_json::from_str(&stdout(&picked)).expect("JSON");
    assert_eq!(picked["picks"][0]["tool"]["untrusted"], true, "{picked}");
    assert!(
        catalog.contains(picked["catalog_digest"].as_str().expect("a digest")),
        "it is the same catalog"
    );
    fs::remove_file(&files(&folder)[0]).expect("it is removed");
    let output = replay(&folder, &["--verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(
        stdout(&output).contains("not by `keep`"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn replay_with_other_inputs_reports_differences() {
    let place = audited(&json!({}));
    let folder = place.path("audit");
    let mut client = place.client(&json!({}));
    search_all(&mut client, &REQUESTS);
    client.leave();
    place.write(
        "other.json",
        &json!({"roles": {"default": {"deny": ["up/add"]}}}),
    );
    let other = place.path("other.json").display().to_string();
    let told = replayed(&folder, &["--settings", &other], 1);
    let difference = &told["differences"][0];
    assert_eq!(difference["differs_in"], "tools", "{told}");
    assert!(
        difference["then"].to_string().contains("up/add")
            && !difference["now"].to_string().contains("up/add")
    );
    place.write("same.json", &json!({"mode": "dynamic"}));
    let same = place.path("same.json").display().to_string();
    replayed(&folder, &["--settings", &same], 0);
    let catalog = place.path("audit/catalogs");
    let less = place.path("less.jsonl");
    let text = fs::read_to_string(&files(&catalog)[0]).expect("UTF-8");
    let without: String = text
        .lines()
        .filter(|line| !line.contains("up/add"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&less, without).expect("it is written");
    let told = replayed(&folder, &["--catalog", &less.display().to_string()], 1);
    assert!(
        told["selections"]["tools_differ"].as_u64() >= Some(1),
        "{told}"
    );
    let told = replayed(&folder, &["--mode", "keyword"], 1);
    assert_eq!(told["selections"]["identical"], 0, "{told}");
    let shown = replay(&folder, &["--settings", &other]);
    assert!(
        stdout(&shown).contains("The largest differences")
            && stdout(&shown).contains("sum of two numbers")
    );
    fs::write(&files(&catalog)[0], text.replace("Adds two", "Takes two")).expect("it is written");
    let told = replayed(&folder, &[], 1);
    assert!(
        told["differences"][0]["error"]
            .as_str()
            .is_some_and(|error| error.contains("was altered")),
        "{told}"
    );
}

#[test]
fn replay_keeps_tools_of_a_role_hidden() {
    let role = json!({"deny": ["up/add"], "unsafe": "deny"});
    let place = audited(&json!({"roles": {"default": role}}));
    let folder = place.path("audit");
    let mut client = place.client(&json!({}));
    search_all(&mut client, &REQUESTS);
    client.leave();
    let told = replayed(&folder, &[], 0);
    assert_eq!(told["selections"]["identical"], REQUESTS.len(), "{told}");
    let catalogs = files(&place.path("audit/catalogs"));
    let texts = catalogs
        .iter()
        .map(|path| fs::read_to_string(path).expect("UTF-8"));
    let complete = texts.max_by_key(String::len).expect("a catalog");
    assert!(
        complete.contains("up/add"),
        "the complete catalog is stored too"
    );
    place.write("same.json", &json!({"roles": {"default": role}}));
    let same = place.path("same.json").display().to_string();
    replayed(&folder, &["--settings", &same], 0);
    let catalog = place.path("complete.jsonl");
    fs::write(&catalog, complete).expect("it is written");
    replayed(&folder, &["--catalog", &catalog.display().to_string()], 0);
    place.write(
        "other.json",
        &json!({"roles": {"default": {"unsafe": "deny"}}}),
    );
    let other = place.path("other.json").display().to_string();
    let told = replayed(&folder, &["--settings", &other], 1);
    let difference = told["differences"].to_string();
    assert!(
        difference.contains("up/add"),
        "other settings show more: {told}"
    );
    assert!(!difference.contains("up/delete_everything"), "{told}");
}

#[test]
fn replay_writes_queries_qrels_and_sequences() {
    let place = audited(&json!({}));
    let folder = place.path("audit");
    let mut client = place.client(&json!({}));
    search_all(&mut client, &["sum of two numbers", "give the text back"]);
    client.run("up__add", json!({"a": 1, "b": 2}));
    client.run("up__add", json!({"a": 1, "b": 2}));
    client.run("up__echo", json!({"text": "x"}));
    client.run("up__fails", json!({}));
    search_all(&mut client, &["nothing comes of this"]);
    client.leave();
    let path = |name: &str| place.path(name).display().to_string();
    let (queries, qrels, sequences) = (
        path("queries.jsonl"),
        path("qrels.tsv"),
        path("sequences.jsonl"),
    );
    let told = replayed(
        &folder,
        &[
            "--queries",
            &queries,
            "--qrels",
            &qrels,
            "--sequences",
            &sequences,
        ],
        0,
    );
    assert_eq!(told["served"], json!({"requests": 2, "tasks": 1}), "{told}");
    let written = fs::read_to_string(&queries).expect("UTF-8");
    let texts: Vec<String> = written
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).expect("JSON")["text"]
                .as_str()
                .expect("a text")
                .to_owned()
        })
        .collect();
    assert_eq!(texts, ["sum of two numbers", "give the text back"]);
    let judged: BTreeSet<String> = fs::read_to_string(&qrels)
        .expect("UTF-8")
        .lines()
        .map(|line| line.split('\t').skip(2).take(1).collect())
        .collect();
    assert_eq!(judged, ["up/add".to_owned(), "up/echo".to_owned()].into());
    assert_eq!(
        fs::read_to_string(&sequences).expect("UTF-8"),
        "[\"up/add\",\"up/add\",\"up/echo\"]\n"
    );
    let catalog = files(&folder.join("catalogs"))[0].display().to_string();
    let set = [
        "--catalog",
        &catalog,
        "--queries",
        &queries,
        "--qrels",
        &qrels,
    ];
    let evaluated = picktools(&[&["eval", "--json"], &set[..]].concat())
        .output()
        .expect("it runs");
    let evaluated: Value = serde_json::from_str(&stdout(&evaluated))
        .unwrap_or_else(|_| panic!("{}", stderr(&evaluated)));
    let (_, measured) = evaluated["sets"]
        .as_object()
        .and_then(|sets| sets.iter().next())
        .expect("a set");
    assert_eq!(measured["queries"], 2, "{evaluated}");
    let picked = [
        "pick",
        "and add them",
        "--in-use",
        "up/echo",
        "--sequences",
        &sequences,
        "--catalog",
        &catalog,
        "--json",
    ];
    let picked = picktools(&picked).output().expect("it runs");
    assert!(
        stdout(&picked).contains("\"prior\"") && stderr(&picked).is_empty(),
        "{}",
        stderr(&picked)
    );
}

#[test]
fn audit_records_approvals_of_another_process() {
    let place = audited(&json!({}));
    let folder = place.path("audit");
    let mut client = place.client(&json!({}));
    search_all(&mut client, &REQUESTS[..1]);
    place.write(
        "changes",
        &json!({"descriptions": {"add": "Adds two integers", "echo": "Says it again"}}),
    );
    let state = place.path("state").display().to_string();
    let approve = |arguments: &[&str]| {
        let output = picktools(&[&["approve", "--state-dir", &state], arguments].concat())
            .output()
            .expect("it runs");
        (output.status.code(), stderr(&output))
    };
    eventually("both are held", || {
        approve(&["--json"]).0 == Some(1) && approve(&["--deny", "up/echo"]).0 == Some(0)
    });
    eventually("it is approved", || {
        approve(&["up/add", "--yes"]).0 == Some(0)
    });
    let decisions = || -> Vec<(Value, Value)> {
        of_kind(&folder, "approval")
            .iter()
            .map(|it| (it["decision"].clone(), it["tool"].clone()))
            .collect()
    };
    eventually("both are recorded", || decisions().len() == 2);
    let expected = BTreeSet::from(["approved up/add".to_owned(), "denied up/echo".to_owned()]);
    let told: BTreeSet<String> = decisions()
        .iter()
        .map(|(decision, tool)| {
            format!(
                "{} {}",
                decision.as_str().unwrap_or_default(),
                tool.as_str().unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(told, expected);
    // Two events within the same second would be indistinguishable.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(approve(&["--forget", "up"]).0, Some(0));
    eventually("it is recorded", || {
        of_kind(&folder, "approval")
            .iter()
            .any(|it| it["decision"] == "forgotten")
    });
    client.leave();
    let changes: Vec<Value> = of_kind(&folder, "policy")
        .iter()
        .map(|record| record["changed"].clone())
        .collect();
    assert!(
        changes.contains(&json!(["catalog"])) && changes.contains(&json!(["approvals"])),
        "{changes:?}"
    );
    replayed(&folder, &[], 0);
}

#[test]
fn replay_of_ten_thousand_selections_is_identical() {
    let place = audited(&json!({"audit.max_bytes": 2_000_000}));
    let folder = place.path("audit");
    let workplace = fs::read_to_string(fixture("catalogs/workplace/tools.jsonl")).expect("UTF-8");
    let add = workplace.lines().map(|line| {
        let tool: Value = serde_json::from_str(line).expect("JSON");
        json!({"name": tool["name"], "description": tool["description"], "inputSchema": {"type": "object"}})
    });
    place.write("changes", &json!({"add": add.collect::<Vec<_>>()}));
    let queries = fs::read_to_string(fixture("catalogs/workplace/queries.jsonl")).expect("UTF-8");
    let texts: Vec<String> = queries
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter_map(|query| query["text"].as_str().map(str::to_owned))
        // The redaction replaces an address, which changes the request.
        .filter(|text| !text.contains('@'))
        .collect();
    let mut client = place.client(&json!({}));
    let started = Instant::now();
    let params = |number: usize| {
        let query = format!("{} ({number})", texts[number % texts.len()]);
        json!({"name": "search_tools", "arguments": {"query": query, "limit": number % 9 + 1}})
    };
    for batch in 0..100 {
        let ids: Vec<u64> = (0..100)
            .map(|number| client.begin("tools/call", &params(batch * 100 + number)))
            .collect();
        for id in ids {
            assert!(client.answer(id)["result"]["structuredContent"]["tools"].is_array());
        }
    }
    let searched = started.elapsed();
    assert_eq!(client.leave(), Some(0));
    let started = Instant::now();
    let told = replayed(&folder, &[], 0);
    let replayed = started.elapsed();
    let counts = &told["selections"];
    assert_eq!(
        (&counts["replayed"], &counts["identical"]),
        (&json!(10_000), &json!(10_000)),
        "{counts}"
    );
    assert!(files(&folder).len() > 2);
    eprintln!("10,000 searches took {searched:?}, and their replay {replayed:?}: {counts}");
}
