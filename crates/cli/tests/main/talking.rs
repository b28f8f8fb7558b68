//! `picktools eval --talk`: rates that agree with single picks, catalogs, and errors with their
//! place.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{answer, json as json_answer, picktools, refusal, stderr, stdout};
use crate::support::fixture;

const TALK: &str = "fixtures/talk";
const CATALOGS: &str = "fixtures/catalogs";
const TOOL: &str = r#"{"id":"water_plants","name":"water_plants","description":"Waters the plants","parameters":{}}"#;

fn talk(more: &[&str]) -> Value {
    json_answer(
        &[
            &["eval", "--talk", TALK, "--catalogs", CATALOGS, "--json"],
            more,
        ]
        .concat(),
    )
}

/// Returns the cases of a fixture file.
fn cases(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(fixture("talk").join(name)).expect("the fixture is there");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"))
        .collect()
}

/// Writes files below a folder, and returns its path.
fn write_all(folder: &Path, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("a folder");
        fs::write(path, text).expect("it can be written");
    }
    folder.to_str().expect("the path is plain").to_owned()
}

#[test]
fn eval_talk_reports_each_kind_with_its_cases() {
    let report = talk(&[]);
    assert_eq!(
        (&report["version"], &report["catalogs"], &report["missing"]),
        (&json!(1), &json!(["workplace"]), &json!([]))
    );
    for (kind, measure, cases) in [
        ("small_talk", "no_pick", 6),
        ("small_talk", "low_answerability", 6),
        ("small_talk", "no_likely_pick", 6),
        ("conversations", "needed_in_8", 3),
        ("conversations", "idle_without_new_pick", 2),
        ("conversations", "idle_without_likely_new_pick", 2),
        ("paste", "needed_in_5", 3),
        ("paste", "ask_alone_in_5", 3),
        ("parts", "all_served_in_8", 3),
        ("parts", "served_in_8", 3),
        ("parts", "asked_alone_in_8", 7),
    ] {
        let rate = &report[kind][measure];
        assert_eq!(rate["n"], cases, "{kind}.{measure}");
        let value = rate["rate"].as_f64().expect("there are cases");
        assert!(value > 0.5 && value <= 1.0, "{kind}.{measure}: {value}");
    }
    assert_eq!(
        report["conversations"]["needed_in_8_by_kind"]["consent"]["n"],
        1
    );
    assert!(report["paste"]["share_of_ask_alone"].is_number());
    assert_eq!(report, talk(&[]), "equal input, equal output");
}

#[test]
fn eval_talk_of_conversations_picks_like_pick() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let input = temporary.path().join("input.json");
    let input = input.to_str().expect("the path is plain");
    let picked = |messages: &[Value], mode: &str| -> Vec<Value> {
        fs::write(input, json!({"messages": messages}).to_string()).expect("it can be written");
        let catalog = format!("{CATALOGS}/workplace");
        let fixed = [
            "pick",
            "--input",
            input,
            "--catalog",
            &catalog,
            "--allow-unsafe",
        ];
        let selection = json_answer(&[&fixed[..], &["-k", "8", "--mode", mode, "--json"]].concat());
        let picks = selection["picks"].as_array().expect("picks are a list");
        picks
            .iter()
            .map(|pick| pick["tool"]["id"].clone())
            .collect()
    };
    for mode in ["keyword", "hybrid"] {
        let (mut hits, mut needed, mut quiet, mut idle) = (0.0, 0, 0, 0);
        for case in cases("conversations.jsonl") {
            let messages = case["messages"].as_array().expect("messages are a list");
            let tools = case["tools"].as_array().expect("tools are a list");
            let ids = picked(messages, mode);
            if tools.is_empty() {
                let before = match &messages[..messages.len() - 1] {
                    [] => Vec::new(),
                    earlier => picked(earlier, mode),
                };
                idle += 1;
                quiet += usize::from(ids.iter().all(|id| before.contains(id)));
            } else {
                needed += 1;
                let hit = tools.iter().filter(|tool| ids.contains(tool)).count();
                hits += hit as f64 / tools.len() as f64;
            }
        }
        let rates = talk(&["--mode", mode])["conversations"].clone();
        let expected = json!({"n": needed, "rate": hits / f64::from(needed)});
        assert_eq!(rates["needed_in_8"], expected, "{mode}");
        let expected = json!({"n": idle, "rate": quiet as f64 / f64::from(idle)});
        assert_eq!(rates["idle_without_new_pick"], expected, "{mode}");
    }
}

#[test]
fn eval_talk_text_lists_rates_and_missed_cases() {
    let keyword = [
        "eval",
        "--talk",
        TALK,
        "--catalogs",
        CATALOGS,
        "--mode",
        "keyword",
    ];
    let text = answer(&keyword);
    for row in [
        "small talk: no pick ",
        "  kind consent ",
        "parts: all served in 8 ",
    ] {
        assert!(text.contains(row), "{row:?} is not in {text}");
    }
    assert!(!text.contains("missed"), "{text}");
    // Without unsafe tools, no pick serves this case.
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let line = r#"{"catalog":"workplace","text":"x","parts":[
        {"text":"end the process 4711","tools":["terminal/terminalKillProcess"]}]}"#;
    let folder = write_all(
        temporary.path(),
        &[("parts.jsonl", &line.replace('\n', ""))],
    );
    let fixed = [
        "eval",
        "--talk",
        &folder,
        "--catalogs",
        CATALOGS,
        "--deny-unsafe",
    ];
    let text = answer(&[&fixed[..], &["--missed", "1"]].concat());
    assert!(text.contains("missed (parts.all_served_in_8), "), "{text}");
    assert!(text.contains("parts.jsonl:1, catalog workplace"), "{text}");
    let report = json_answer(&[&fixed[..], &["--missed", "1", "--json"]].concat());
    assert_eq!(
        report["missed"][0]["needed"],
        json!(["terminal/terminalKillProcess"])
    );
    assert_eq!(
        report["ineligible_judged"]["workplace"]["counts"],
        json!({"unsafe": 1})
    );
    let warning = report["warnings"][0].as_str().expect("it is a text");
    assert!(warning.contains("leave out --deny-unsafe"), "{warning}");
    assert!(json_answer(&[&fixed[..], &["--json"]].concat())["missed"].is_null());
}

#[test]
fn eval_talk_finds_catalogs_beside_the_cases() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let folder = write_all(
        temporary.path(),
        &[
            ("catalogs/garden/tools.jsonl", TOOL),
            ("smalltalk.jsonl", r#"{"text":"good evening"}"#),
            ("notes.jsonl", "no JSON"),
        ],
    );
    let output = picktools(&["eval", "--talk", &folder, "--json"])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
    assert_eq!(
        report["catalogs"],
        json!(["garden"]),
        "small talk names no catalog"
    );
    assert_eq!(report["small_talk"]["no_pick"]["n"], 1);
    assert_eq!(
        report["missing"],
        json!(["conversations", "paste", "parts"])
    );
    assert_eq!(
        report["parts"]["served_in_8"],
        json!({"n": 0, "rate": null})
    );
    let notes = stderr(&output);
    for part in [
        "conversations*.jsonl",
        "paste*.jsonl",
        "parts*.jsonl",
        "notes.jsonl; its name",
    ] {
        assert!(notes.contains(part), "{part:?} is not in {notes}");
    }
}

#[test]
fn eval_talk_with_one_catalog_asks_all_cases_of_it() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let case = |catalog: &str| {
        format!(r#"{{{catalog}"text":"x","ask":"water the plants","tools":["water_plants"]}}"#)
    };
    let lines = format!("{}\n{}", case(r#""catalog":"other","#), case(""));
    let folder = write_all(
        temporary.path(),
        &[("paste.jsonl", &lines), ("garden.jsonl", TOOL)],
    );
    let catalog = format!("{folder}/garden.jsonl");
    let report = json_answer(&["eval", "--talk", &folder, "--catalog", &catalog, "--json"]);
    assert_eq!(report["catalogs"], json!(["garden"]));
    assert_eq!(
        report["paste"]["ask_alone_in_5"],
        json!({"n": 2, "rate": 1.0})
    );
}

#[test]
fn eval_talk_with_bad_input_names_the_place() {
    let case = |catalog: &str, tool: &str| {
        format!(r#"{{"catalog":"{catalog}","text":"x","ask":"y","tools":["{tool}"]}}"#)
    };
    let good = case("garden", "water_plants");
    for (name, line, part) in [
        (
            "paste.jsonl",
            "{\"text\":",
            "paste.jsonl:2: not a case of pasted content",
        ),
        (
            "paste.jsonl",
            &case("gardn", "water_plants"),
            "paste.jsonl:2: unknown catalog \"gardn\"",
        ),
        (
            "paste.jsonl",
            &case("../garden", "x"),
            "paste.jsonl:2: unknown catalog \"../garden\"",
        ),
        (
            "paste.jsonl",
            &case("garden", "water"),
            "paste.jsonl:2: unknown tool \"water\"",
        ),
        (
            "paste.jsonl",
            r#"{"text":"x","ask":"y","tools":["a"]}"#,
            "paste.jsonl:2: the case names",
        ),
    ] {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let text = format!("{good}\n{line}\n");
        let folder = write_all(
            temporary.path(),
            &[("catalogs/garden/tools.jsonl", TOOL), (name, &text)],
        );
        let message = refusal(&["eval", "--talk", &folder]);
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let empty = temporary.path().to_str().expect("the path is plain");
    assert!(refusal(&["eval", "--talk", empty]).contains("has no case"));
    assert!(refusal(&["eval", "--talk", "nowhere"]).contains("cannot read nowhere"));
    let message = refusal(&["eval", "--talk", TALK]);
    assert!(
        message.contains("fixtures/talk/catalogs is not a folder; pass --catalogs"),
        "{message}"
    );
    for arguments in [
        &["eval", "--talk", TALK, CATALOGS][..],
        &["eval", "--talk", TALK, "--catalogs", CATALOGS, "-k", "3"],
        &[
            "eval",
            "--talk",
            TALK,
            "--catalogs",
            CATALOGS,
            "--catalog",
            "x",
        ],
        &[
            "eval",
            "fixtures/catalogs/workplace",
            "--catalogs",
            CATALOGS,
        ],
    ] {
        assert!(refusal(arguments).contains("error: "), "{arguments:?}");
    }
}
