//! Files of examples: `learn` creates them from logs, `enrich` with a language model, `pick` and
//! `eval` use them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{WORKPLACE, answer, json, picktools, refusal, stderr, stdout};
use picktools_testing::server::{Reply, TestServer};

const LOG: &str = "the gizmo of Bob Smith is bust\tcreate_ticket\nThe gizmo of Ann is bust!\thelpdesk/create_ticket\n\
    mail it to Ann\tno_such_tool\nfree \"the new one\" for Lou at 12:30?\tbook_meeting_room\n\
    {\"time\": 1, \"request\": \"push it to GitHub\", \"called\": [\"create_pull_request\"]}\n";

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}

#[test]
fn learn_writes_masked_examples_for_pick_and_eval() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, file) = (
        folder.path().join("log"),
        folder.path().join("examples.jsonl"),
    );
    fs::write(&log, LOG).expect("it is written");
    let learn = [
        "learn",
        text(&log),
        "--catalog",
        WORKPLACE,
        "--out",
        text(&file),
    ];
    let output = picktools(&learn).output().expect("it runs");
    assert_eq!(
        (output.status.code(), &*stdout(&output)),
        (Some(0), ""),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("ambiguous in the catalog: no_such_tool"),
        "{}",
        stderr(&output)
    );
    let learned = lines(&fs::read_to_string(&file).expect("it was written"));
    let gizmo = json!({"tool": "helpdesk/create_ticket", "request": "the gizmo of … is bust"});
    assert_eq!(learned[0], gizmo);
    assert_eq!(
        learned[1],
        json!({"tool": "calendar/book_meeting_room", "request": "free … for … at …?"})
    );
    assert_eq!(learned[2]["tool"], "forge/create_pull_request");
    assert_eq!(learned.len(), 3);

    // Later examples are appended.
    let more = ["learn", text(&log), "--examples", text(&file)];
    assert_eq!(lines(&answer(&more))[..3], learned[..]);

    let request = "my gizmo is bust again, who can have a look?";
    let pick = [
        "pick",
        request,
        "--catalog",
        WORKPLACE,
        "--examples",
        text(&file),
        "--json",
    ];
    let first = &json(&pick)["picks"][0];
    assert_eq!(first["tool"]["id"], "helpdesk/create_ticket");
    assert_eq!(
        first["provenance"]["examples"]["nearest"],
        "the gizmo of … is bust"
    );
    let explained = answer(&[
        "pick",
        request,
        "--catalog",
        WORKPLACE,
        "--examples",
        text(&file),
        "--explain",
    ]);
    assert!(
        explained.contains("similar to a request it served")
            && explained.contains("nearest: the gizmo of … is bust"),
        "{explained}"
    );
    let eval = ["eval", WORKPLACE, "--examples", text(&file), "--json"];
    assert!(json(&eval)["mean"]["nDCG@10"].as_f64().expect("a number") > 0.5);
}

#[test]
fn examples_with_unknown_names_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("examples.jsonl");
    let pick = [
        "pick",
        "rain?",
        "--catalog",
        WORKPLACE,
        "--examples",
        text(&file),
    ];
    fs::write(&file, "{\"tool\": \"nobody\", \"request\": \"rain\"}\n").expect("it is written");
    let output = picktools(&pick).output().expect("it runs");
    assert!(
        output.status.success() && stderr(&output).contains("or ambiguous in the catalog: nobody"),
        "{}",
        stderr(&output)
    );
    fs::write(&file, "{\"tool\": \"nobody\"}\n").expect("it is written");
    assert!(
        refusal(&pick).contains("line 1: missing field `request`"),
        "{}",
        refusal(&pick)
    );
    assert!(refusal(&["learn", text(&folder.path().join("none"))]).contains("cannot read"));
    let log = folder.path().join("log");
    fs::write(&log, "no tab\n").expect("it is written");
    assert!(refusal(&["learn", text(&log)]).contains("line 1: it has no tab"));
}

#[test]
fn pack_gives_examples_to_equal_definitions_of_trusted_sources() {
    let pick = [
        "pick",
        "there are no rolls left, a dozen please",
        "--catalog",
        "fixtures/examples/tools.jsonl",
        "--json",
    ];
    let run = |more: &[&str]| {
        let output = picktools(&[&pick[..], more].concat())
            .output()
            .expect("it runs");
        let selection: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        (selection, stderr(&output))
    };
    let fixture = ["--examples", "fixtures/examples/pack.tsv"];

    let (selection, told) = run(&fixture);
    // The definition of the seventh tool is too short for a pack.
    assert!(told.contains("requests for 6 of 7 tools"), "{told}");
    assert_eq!(selection["pack_tools"], 6);
    let first = &selection["picks"][0];
    assert_eq!(first["tool"]["id"], "bakery/order_bread");
    let examples = &first["provenance"]["examples"];
    assert_eq!(examples["nearest"], "we run out of rolls, get a dozen");
    assert_eq!(examples["origin"], "synthetic");

    let (selection, _) = run(&[&fixture[..], &["--untrusted-source", "bakery"]].concat());
    assert_eq!(selection["pack_tools"], 4);
    for pick in selection["picks"].as_array().expect("picks") {
        let is_untrusted = pick["tool"]["source"] == "bakery";
        assert!(!is_untrusted || pick["provenance"]["examples"].is_null());
    }

    let (selection, told) = run(&["--examples", "popular"]);
    assert!(told.contains("requests for 0 of 7 tools"), "{told}");
    assert_eq!(selection["pack_tools"], 0);
    let (selection, told) = run(&[]);
    assert!(!told.contains("pack"), "{told}");
    assert!(selection["pack_tools"].is_null());

    let misspelt = refusal(&[&pick[..], &["--examples", "populer"]].concat());
    let expected = "cannot read the examples populer (did you mean \"popular\"?): ";
    assert!(misspelt.contains(expected), "{misspelt}");
    let other = refusal(&[&pick[..], &["--examples", "served.jsonl"]].concat());
    assert!(!other.contains("did you mean"), "{other}");
    // `learn` continues a file of lines, which a pack is not.
    let learn = [
        "learn",
        "fixtures/examples/requests.jsonl",
        "--examples",
        fixture[1],
    ];
    assert!(refusal(&learn).contains("line 1"));
}

#[test]
fn eval_counts_the_tools_of_a_pack() {
    let eval = ["eval", WORKPLACE, "--json"];
    let without = json(&eval);
    let with = json(&[&eval[..], &["--examples", "popular"]].concat());
    let set = &with["sets"]["workplace"];
    assert_eq!(set["pack_tools"], 0);
    assert_eq!(set["measures"], without["sets"]["workplace"]["measures"]);
    assert!(without["sets"]["workplace"]["pack_tools"].is_null());
}

#[test]
fn enrich_asks_once_per_tool_and_keeps_edits() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tools, file) = (
        folder.path().join("tools.json"),
        folder.path().join("examples.jsonl"),
    );
    let definition = |description: &str| {
        json!([{"name": "mend", "description": description, "parameters": {}},
               {"name": "stranger", "source": "s", "description": "x", "parameters": {}, "untrusted": true}])
    };
    fs::write(&tools, definition("Repairs").to_string()).expect("it is written");
    fs::write(
        &file,
        "{\"tool\":\"mend\",\"request\":\"asked by somebody\"}\n",
    )
    .expect("it is written");
    let server = TestServer::new(|number, _| {
        let text =
            json!({"requests": [format!("my gizmo is bust {}", "again ".repeat(number)), "mend that"]}).to_string();
        Reply::Json(json!({"choices": [{"message": {"role": "assistant", "content": text}}]}))
    });
    let enrich = [
        "enrich",
        "--catalog",
        text(&tools),
        "--out",
        text(&file),
        "--llm-url",
        &server.url,
        "--llm-model",
        "m-1",
    ];
    let run = || {
        let output = picktools(&enrich).output().expect("it runs");
        assert_eq!(
            (output.status.code(), &*stdout(&output)),
            (Some(0), ""),
            "{}",
            stderr(&output)
        );
        (
            lines(&fs::read_to_string(&file).expect("it is there")),
            stderr(&output),
        )
    };
    let (first, told) = run();
    assert!(
        told.contains("skipped 1 tools of untrusted sources"),
        "{told}"
    );
    assert_eq!(
        first[0],
        json!({"tool": "mend", "request": "asked by somebody"})
    );
    assert_eq!(
        (&first[1]["request"], &first[1]["synthetic"]),
        (&json!("my gizmo is bust"), &json!(true))
    );
    assert_eq!((first.len(), server.requests().len()), (3, 1));
    assert!(server.requests()[0].body.to_string().contains("Repairs"));

    // A line that a person removed stays removed.
    let edited: String = fs::read_to_string(&file)
        .expect("it is there")
        .lines()
        .take(2)
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&file, edited).expect("it is written");
    let (second, _) = run();
    assert_eq!((second.len(), server.requests().len()), (2, 1));

    // The model is asked again for a changed definition.
    fs::write(&tools, definition("Repairs things").to_string()).expect("it is written");
    let (third, _) = run();
    assert_eq!(
        (third.len(), server.requests().len(), &third[1]["request"]),
        (3, 2, &json!("my gizmo is bust again"))
    );
}

#[test]
fn enrich_with_unusable_answers_keeps_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("examples.jsonl");
    let server = TestServer::new(|_, _| {
        Reply::Json(json!({"choices": [{"message": {"content": "I will not."}}]}))
    });
    let enrich = [
        "enrich",
        "--catalog",
        WORKPLACE,
        "--out",
        text(&file),
        "--llm-url",
        &server.url,
        "--llm-model",
        "m-1",
    ];
    let output = picktools(&enrich).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        !file.exists() && stderr(&output).contains("an answer that is not JSON"),
        "{}",
        stderr(&output)
    );
    assert!(
        server.requests().len() < 12,
        "it is left alone: {}",
        server.requests().len()
    );
    assert!(
        refusal(&["enrich", "--catalog", WORKPLACE, "--out", text(&file)]).contains("--llm-url")
    );
    assert!(refusal(&[&enrich[..], &["--requests", "0"]].concat()).contains("give 1 to 20"));
}
