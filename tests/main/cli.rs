//! The program: answers on standard output, everything else on standard error, exit codes, and no input that breaks
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{fixture, root};

/// The least nDCG@10 of the keyword ranking on the fixture catalog: what it reached when this was last set (0.4826),
/// less 0.01. Raise it when the ranking gets better; never lower it to make a change pass.
const NDCG_FLOOR: f64 = 0.4726;

/// The same with the static model (0.5775 when this was last set).
const STATIC_NDCG_FLOOR: f64 = 0.5675;

const WORKPLACE: &str = "fixtures/catalogs/workplace";

/// The program, in the folder of the crate, with nothing of the user's environment.
pub(crate) fn picktools(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picktools"));
    command.current_dir(root("")).env_clear().args(arguments);
    // Where nothing else is said there is no cache: below a file there can be no folder.
    command.env("PICKTOOLS_CACHE_DIR", root("Cargo.toml/cache"));
    command
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("answers are UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

/// Runs the program and returns its answer; anything but success is a failure of the test.
fn answer(arguments: &[&str]) -> String {
    let output = picktools(arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).expect("the answer is JSON")
}

/// Runs the program and returns its message; anything but exit code 2 and an empty answer is a failure of the test.
fn refusal(arguments: &[&str]) -> String {
    refusal_of(&mut picktools(arguments))
}

fn refusal_of(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}{}", stdout(&output), stderr(&output));
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
    assert!(lines[0].starts_with(" 1. calendar/book_meeting_room  0."), "{text}");
    assert!(lines[1].starts_with("    \"") && lines[1].contains(" match in its name"), "{text}");
    let last = lines[lines.len() - 1];
    assert!(last.contains("picked by keyword") && last.contains("not eligible (role 21, unsafe 17)"), "{last}");
    assert!(!text.contains("stage "), "details come with --explain");
}

#[test]
fn pick_prints_versioned_json() {
    let json = json(&["pick", "book a meeting room", "--catalog", WORKPLACE, "--json", "-k", "1"]);
    assert_eq!((&json["version"], &json["scorer"]), (&1.into(), &"keyword".into()));
    assert_eq!(json["picks"].as_array().map(Vec::len), Some(1));
    let pick = &json["picks"][0];
    assert_eq!(pick["tool"]["id"], "calendar/book_meeting_room");
    assert!(pick["score"].as_f64().is_some_and(|score| score > 0.05 && score <= 1.0), "{pick}");
    assert!(pick["reason"].is_string() && pick["provenance"]["keyword"]["rank"] == 1, "{pick}");
    assert!(json["stages"].is_array() && json["ineligible"]["tools"].is_array() && json["catalog"].is_string());
    assert!(json.get("considered").is_none(), "evidence of the others comes with --explain");
}

#[test]
fn explain_shows_ranks_terms_and_every_exclusion() {
    let text = answer(&["pick", "book a meeting room", "--catalog", WORKPLACE, "--explain", "--min-score", "0"]);
    for part in [
        "*  1. calendar/book_meeting_room  0.",
        "keyword   rank 1, BM25 ",
        "        meeting ",
        "fused     ",
        "   4. ",
        "keyword   rank 4, BM25 ",
        "stage keyword      ran",
        "stage semantic     skipped: the mode is keyword",
        "stage rerank       skipped: no reranker is set",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    for (arguments, excluded) in [
        (&[][..], "files/delete_file is left out: marked unsafe"),
        (&[], "forge/merge_pull_request is left out: only for the roles maintainer"),
        (
            &[],
            "forge/delete_repository is left out: marked unsafe, and unsafe tools are not allowed; only for the roles admin",
        ),
        (&["--execution-mode", "interactive"], "files/compress_folder is left out: only for the execution modes batch"),
        (&["--capability", "streaming"], "forge/create_issue is left out: without the capabilities streaming"),
        (
            &["--max-cost", "0.005"],
            "chat/summarize_thread is left out: too costly: a call costs 0.02, and 0.005 is left",
        ),
        (&["--deny-source", "mail"], "mail/send_email is left out: from a source that is not allowed: mail"),
        (&["--allow-source", "mail"], "forge/create_issue is left out: from a source that is not allowed: forge"),
        (&["--exclude", "search_code"], "forge/search_code is left out: excluded by the caller"),
    ] {
        let pick = ["pick", "book a meeting room", "--catalog", WORKPLACE, "--explain"];
        let text = answer(&[&pick[..], arguments].concat());
        assert!(text.contains(excluded), "{excluded:?} is not in:\n{text}");
        let plain = answer(&[&pick[..4], arguments].concat());
        assert!(!plain.contains(excluded), "without --explain only what is named is told:\n{plain}");
    }
    let named = answer(&["pick", "`delete_file`", "--catalog", WORKPLACE]);
    assert!(named.contains("files/delete_file is left out, though named: marked unsafe"), "{named}");
}

/// The ids that `pick` answers with on the fixture catalog.
fn picked(arguments: &[&str]) -> Vec<String> {
    let json = json(&[&["pick", "--catalog", WORKPLACE, "--json"], arguments].concat());
    let picks = json["picks"].as_array().expect("picks are a list");
    picks.iter().filter_map(|pick| pick["tool"]["id"].as_str()).map(str::to_owned).collect()
}

#[test]
fn grants_and_limits_reach_the_engine() {
    for (name, without, with, tool) in [
        ("delete_file", &[][..], &["--allow-unsafe"][..], "files/delete_file"),
        ("merge_pull_request", &["--role", "x"], &["--role", "maintainer", "--role", "x"], "forge/merge_pull_request"),
        ("zip", &["--execution-mode", "interactive"], &["--execution-mode", "batch"], "files/compress_folder"),
        ("ps", &["--capability", "streaming"], &[], "terminal/terminalListProcesses"),
        ("sql", &["--max-cost", "0.01"], &["--max-cost", "0.05"], "warehouse/run_query"),
        ("dm", &["--deny-source", "chat"], &["--deny-source", "mail"], "chat/send_direct_message"),
        (
            "dm",
            &["--allow-source", "mail"],
            &["--allow-source", "mail", "--allow-source", "chat"],
            "chat/send_direct_message",
        ),
        ("dm", &["--exclude", "dm"], &[], "chat/send_direct_message"),
        ("🚀", &[], &["--always-include", "dm"], "chat/send_direct_message"),
        ("book a meeting room", &["--min-score", "1"], &["--min-score", "0"], "calendar/book_meeting_room"),
        ("use `dm` or `ps` or `sql`", &["-k", "1"], &["-k", "3"], "terminal/terminalListProcesses"),
        ("book a meeting room", &["--min-score", "1"], &["--fusion", "rrf"], "calendar/book_meeting_room"),
    ] {
        let pick = |more: &[&str]| picked(&[&[name], more].concat()).iter().any(|id| id == tool);
        assert!(!pick(without), "{tool} with {without:?}");
        assert!(pick(with), "{tool} with {with:?}");
    }
    let spread = picked(&["create an issue", "--max-per-source", "1", "--min-score", "0", "-k", "6"]);
    let sources: BTreeSet<&str> = spread.iter().filter_map(|id| id.split('/').next()).collect();
    assert_eq!((spread.len(), sources.len()), (6, 6), "{spread:?}");
}

#[test]
fn the_same_command_gives_the_same_bytes() {
    for format in [&["--json", "--explain"][..], &["--explain"], &[]] {
        let arguments = [&["pick", "send the invitation by mail", "--catalog", WORKPLACE], format].concat();
        assert_eq!(answer(&arguments), answer(&arguments), "{format:?}");
    }
}

#[test]
fn timings_stand_apart_from_the_answer() {
    let arguments = ["pick", "book a meeting room", "--catalog", WORKPLACE, "--json"];
    let output = picktools(&[&arguments[..], &["--timings"]].concat()).output().expect("it runs");
    assert_eq!(stdout(&output), answer(&arguments));
    assert!(
        stderr(&output).lines().any(|line| line.starts_with("keyword") && line.ends_with("µs")),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_request_may_come_from_a_file_or_standard_input() {
    let expected = answer(&["pick", "book a meeting room", "--catalog", WORKPLACE]);
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let file = temporary.path().join("request.txt");
    for text in ["book a meeting room", "\"book a meeting room\"", "  \"book a meeting room\"\n"] {
        let pick = |path: &str| picktools(&["pick", "--catalog", WORKPLACE, "--input", path]);
        let output = pick("-").write_stdin(text).output().expect("it runs");
        assert_eq!(stdout(&output), expected, "{text}");
        fs::write(&file, text).expect("it can be written");
        let output = pick(file.to_str().expect("the path is plain")).output().expect("it runs");
        assert_eq!(stdout(&output), expected, "{text}");
    }
    let object = r#"{"task": "book a meeting room", "seats": [12]}"#;
    let output =
        picktools(&["pick", "--catalog", WORKPLACE, "--input", "-"]).write_stdin(object).output().expect("it runs");
    assert!(stdout(&output).starts_with(" 1. calendar/book_meeting_room"), "{}", stdout(&output));
    let output =
        picktools(&["pick", "--catalog", WORKPLACE, "--input", "-"]).write_stdin("").output().expect("it runs");
    assert!(output.status.success() && stdout(&output).starts_with("No tool fits"), "{}", stdout(&output));
    let megabyte = "book a meeting room ".repeat(60_000);
    let output =
        picktools(&["pick", "--catalog", WORKPLACE, "--input", "-"]).write_stdin(megabyte).output().expect("it runs");
    assert!(stdout(&output).starts_with(" 1. calendar/book_meeting_room"), "{}", stdout(&output));
    assert!(stderr(&output).starts_with("warning: only the first "), "{}", stderr(&output));
}

#[test]
fn a_request_that_cannot_be_read_is_refused() {
    let pick = ["pick", "--catalog", WORKPLACE, "--input"];
    let message = refusal_of(picktools(&[&pick[..], &["-"]].concat()).write_stdin(&b"caf\xe9"[..]));
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
fn broken_catalogs_are_refused_by_file_and_place() {
    for (file, places) in [
        ("syntax.json", &["line 4, column 19"][..]),
        ("syntax.jsonl", &["line 3", "column 106"]),
        ("invalid-utf8.jsonl", &["line 2", "byte 76"]),
        ("not-a-catalog.json", &["no catalog format recognised", "recipe"]),
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
        for command in [&["pick", "x", "--catalog"][..], &["index", "--catalog"]] {
            let message = refusal(&[command, &[&path]].concat());
            assert!(message.contains(&path), "{message}");
            assert!(places.iter().all(|place| message.contains(place)), "{places:?} in {message}");
        }
    }
    let message = refusal(&["pick", "x", "--catalog", "fixtures"]);
    assert!(message.contains("fixtures holds no tools.jsonl"), "{message}");
    let empty = answer(&["pick", "x", "--catalog", "fixtures/broken/empty.json"]);
    assert!(empty.starts_with("No tool fits: the catalog is empty."), "an empty catalog is no error: {empty}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let pick = ["pick", "x", "--catalog", WORKPLACE];
    for (arguments, part) in [
        (&["-k", "0"][..], "max_candidates"),
        (&["--min-score", "1.5"], "min_score"),
        (&["--min-score", "NaN"], "min_score"),
        (&["--max-per-source", "0"], "max_per_source"),
        (&["--max-cost", "NaN"], "max_cost"),
        (&["--always-include", "list_usrs"], "did you mean \"list_users\"?"),
        (&["--exclude", "list_usrs"], "did you mean \"list_users\"?"),
        (&["--always-include", "create_issue"], "forge/create_issue, tracker/create_issue"),
        (&["--mode", "semantic"], "--model"),
        (&["-k", "many"], "many"),
        (&["--mode", "psychic"], "hybrid"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let message = refusal(&[&pick[..], arguments].concat());
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}

#[test]
fn the_folder_one_stands_in_is_a_catalog_like_any_other() {
    let from_above = json(&["pick", "forecast", "--catalog", "fixtures/formats/mcp.json", "--json"]);
    assert_eq!(from_above["picks"][0]["tool"]["id"], "mcp/get_forecast");
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let folder = temporary.path().join("weather");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::copy(fixture("formats/mcp.json"), folder.join("tools.json")).expect("it can be copied");
    for path in [folder.to_str().expect("the path is plain"), ".", "tools.json", "./tools.json"] {
        let mut command = picktools(&["pick", "forecast", "--json", "--catalog", path]);
        let output = command.current_dir(&folder).output().expect("it runs");
        let json: Value = serde_json::from_slice(&output.stdout).expect("the answer is JSON");
        assert_eq!(json["picks"][0]["tool"]["id"], "weather/get_forecast", "--catalog {path}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in
        [&["pick", "book a meeting room", "--catalog", WORKPLACE, "--explain", "--json"][..], &["completions", "bash"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_picktools"));
        command.current_dir(root("")).env_clear().args(arguments).stdout(writer).stderr(Stdio::piped());
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{arguments:?}");
    }
}

// index, completions

#[test]
fn index_tells_what_it_holds() {
    let json = json(&["index", "--catalog", WORKPLACE, "--json"]);
    assert_eq!((&json["version"], &json["tools"], &json["sources"]), (&1.into(), &220.into(), &28.into()));
    assert!(json["terms"].as_u64().is_some_and(|terms| terms > 1_000), "{json}");
    assert_eq!((&json["model"], &json["dimensions"]), (&Value::Null, &Value::Null));
    assert_eq!(json["catalog"].as_str().map(str::len), Some(64));
    let text = answer(&["index", "--catalog", WORKPLACE]);
    assert!(text.starts_with("220 tools of 28 sources, ") && text.lines().count() == 1, "{text}");
    let stats = answer(&["index", "--catalog", WORKPLACE, "--stats", "--model", "static"]);
    assert!(stats.contains("vectors of 256 dimensions by static:") && stats.contains("\ncatalog "), "{stats}");
    let empty = answer(&["index", "--catalog", "fixtures/broken/empty.json"]);
    assert!(empty.starts_with("0 tools of 0 sources, 0 terms"), "{empty}");
}

#[test]
fn completions_are_written_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = answer(&["completions", shell]);
        assert!(script.contains("picktools") && script.contains("always-include"), "{shell}: {script}");
    }
    assert!(refusal(&["completions", "abacus"]).contains("abacus"));
}

// eval

/// `eval` on the fixture catalog as one folder.
fn eval(more: &[&str]) -> Value {
    json(&[&["eval", WORKPLACE, "--json"], more].concat())
}

fn without_latency(mut report: Value) -> Value {
    for set in report["sets"].as_object_mut().expect("sets are an object").values_mut() {
        set.as_object_mut().expect("a set is an object").remove("latency_us").expect("latency is reported");
    }
    report
}

#[test]
fn eval_reports_the_promised_measures_whatever_k_is() {
    for k in ["1", "3", "10", "25"] {
        let report = eval(&["-k", k]);
        assert_eq!(report["version"], 1);
        let set = &report["sets"]["workplace"];
        assert_eq!(
            (&set["tools"], &set["queries"], &set["no_answer"]),
            (&220.into(), &236.into(), &14.into()),
            "k = {k}"
        );
        for measure in ["nDCG@5", "nDCG@10", "R@1", "R@3", "R@5", "R@10", "Success@1", "Completeness@10", "RR@10"] {
            let value = set["measures"][measure].as_f64().unwrap_or_else(|| panic!("{measure} is missing at k = {k}"));
            assert!(value > 0.0 && value <= 1.0, "{measure} = {value}");
            assert_eq!(report["mean"][measure], set["measures"][measure]);
        }
        assert!(set["measures"][format!("nDCG@{k}")].is_number(), "the cutoff asked for is measured");
        for percentile in ["p50", "p99"] {
            assert!(set["latency_us"][percentile].as_f64().is_some_and(|time| time > 0.0), "{percentile}");
        }
    }
}

#[test]
fn the_standard_measures_do_not_depend_on_k() {
    let (few, many) = (eval(&["-k", "1"]), eval(&["-k", "50"]));
    for measure in ["nDCG@10", "R@10", "Completeness@10", "RR@10", "AP@10"] {
        assert_eq!(few["mean"][measure], many["mean"][measure], "{measure}");
    }
}

#[test]
fn the_keyword_ranking_is_as_good_as_it_was() {
    let ndcg = eval(&[])["sets"]["workplace"]["measures"]["nDCG@10"].as_f64().expect("it is a number");
    assert!(ndcg >= NDCG_FLOOR, "nDCG@10 on the fixture catalog fell to {ndcg:.4}; the floor is {NDCG_FLOOR}");
}

#[test]
fn eval_gives_the_same_json_but_for_latency() {
    assert_eq!(without_latency(eval(&[])), without_latency(eval(&[])));
}

#[test]
fn a_set_of_ones_own_is_evaluated_like_a_folder() {
    let file = |name: &str| format!("{WORKPLACE}/{name}");
    let own = json(&[
        "eval",
        "--catalog",
        WORKPLACE,
        "--queries",
        &file("queries.jsonl"),
        "--qrels",
        &file("qrels.tsv"),
        "--json",
    ]);
    assert_eq!(without_latency(own), without_latency(eval(&[])));
    let own = json(&[
        "eval",
        "--catalog",
        &file("tools.jsonl"),
        "--queries",
        &file("queries.jsonl"),
        "--qrels",
        &file("qrels.tsv"),
        "--json",
    ]);
    assert_eq!(own["mean"], eval(&[])["mean"]);
    let table = answer(&["eval", WORKPLACE, "fixtures/formats/layout"]);
    let rows: Vec<&str> = table.lines().map(|line| line.split_whitespace().next().unwrap_or("")).collect();
    assert_eq!(rows, ["set", "workplace", "layout", "mean"], "{table}");
}

#[test]
fn what_may_not_be_seen_is_not_evaluated_either() {
    let granted = eval(&["--allow-unsafe", "--role", "maintainer", "--role", "finance", "--role", "platform"]);
    assert!(granted["mean"]["R@10"].as_f64() > eval(&[])["mean"]["R@10"].as_f64(), "grants make more tools findable");
}

/// nDCG@k, worked out once more from the two files: exponential gain, logarithmic discount, ideal by grade.
fn naive_ndcg(run: &str, qrels: &str, k: usize) -> f64 {
    let mut grades: BTreeMap<&str, BTreeMap<&str, i32>> = BTreeMap::new();
    for line in qrels.lines().filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        grades.entry(columns[0]).or_default().insert(columns[1], columns[2].parse().expect("a grade is a number"));
    }
    let mut ranked: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for line in run.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let rank = columns[3].parse().expect("a rank is a number");
        ranked.entry(columns[0]).or_default().push((rank, columns[2]));
    }
    let dcg = |grades: &[i32]| {
        let terms = grades.iter().take(k).enumerate();
        terms.map(|(place, &grade)| (2_f64.powi(grade) - 1.0) / (place as f64 + 2.0).log2()).sum::<f64>()
    };
    let mut scores = Vec::new();
    for (query, judged) in grades.iter().filter(|(_, judged)| judged.values().any(|&grade| grade > 0)) {
        let mut ranking = ranked.remove(query).unwrap_or_default();
        ranking.sort_unstable();
        let found: Vec<i32> = ranking.iter().map(|(_, tool)| judged.get(tool).copied().unwrap_or(0)).collect();
        let mut ideal: Vec<i32> = judged.values().copied().collect();
        ideal.sort_unstable_by(|a, b| b.cmp(a));
        scores.push(dcg(&found) / dcg(&ideal));
    }
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// Evaluates the fixture catalog and writes its run below `folder`.
fn written_run(folder: &Path, more: &[&str]) -> (Value, String) {
    let path = folder.to_str().expect("the path is plain");
    let report = eval(&[&["--run-out", path], more].concat());
    (report, fs::read_to_string(folder.join("workplace.trec")).expect("the run was written"))
}

#[test]
fn the_written_run_gives_the_reported_figures() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let qrels = fs::read_to_string(fixture("catalogs/workplace/qrels.tsv")).expect("the fixture is there");
    let (report, run) = written_run(&temporary.path().join("new/runs"), &["-k", "20"]);
    let mut last: Option<(String, usize, f64)> = None;
    for line in run.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [query, "Q0", tool, rank, score, tag] = columns[..] else { panic!("not a TREC line: {line}") };
        let (rank, score): (usize, f64) = (rank.parse().expect("a number"), score.parse().expect("a number"));
        assert!(!tool.is_empty() && !tag.is_empty(), "{line}");
        match last.filter(|(before, ..)| before == query) {
            Some((_, above, better)) => assert!(rank == above + 1 && score <= better, "{line}"),
            None => assert_eq!(rank, 1, "{line}"),
        }
        assert!(rank <= 20, "{line}");
        last = Some((query.to_owned(), rank, score));
    }
    for k in [5, 10, 20] {
        let reported = report["sets"]["workplace"]["measures"][format!("nDCG@{k}")].as_f64().expect("it is a number");
        let naive = naive_ndcg(&run, &qrels, k);
        assert!((reported - naive).abs() < 1e-4, "nDCG@{k}: {reported} is reported, the run gives {naive}");
    }
}

#[test]
fn a_run_compared_with_itself_is_no_different() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    written_run(temporary.path(), &[]);
    let folder = temporary.path().to_str().expect("the path is plain");
    let report = eval(&["--compare", folder]);
    let comparison = &report["comparisons"][0];
    assert_eq!((&comparison["set"], &comparison["queries"]), (&"workplace".into(), &236.into()));
    let measures = comparison["measures"].as_object().expect("measures are an object");
    assert!(measures.contains_key("nDCG@10"));
    for (measure, row) in measures {
        assert_eq!((row["p"].as_f64(), row["difference"].as_f64()), (Some(1.0), Some(0.0)), "{measure}");
        assert_eq!((&row["wins"], &row["losses"]), (&0.into(), &0.into()), "{measure}");
    }
    assert!(answer(&["eval", WORKPLACE, "--compare", folder]).contains("workplace: against "));
}

#[test]
fn a_clearly_worse_run_is_told_and_the_seed_repeats_it() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    written_run(temporary.path(), &["--allow-source", "mail", "--allow-source", "home"]);
    let folder = temporary.path().to_str().expect("the path is plain");
    let compare = || eval(&["--compare", folder, "--seed", "7"])["comparisons"].clone();
    let row = compare()[0]["measures"]["nDCG@10"].clone();
    assert!(row["difference"].as_f64() > Some(0.1) && row["p"].as_f64() < Some(0.01), "{row}");
    assert_eq!(compare(), compare());
}

#[test]
fn evaluation_refuses_what_is_missing_or_broken_by_name() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let empty = temporary.path().to_str().expect("the path is plain");
    let message = refusal(&["eval", WORKPLACE, "--compare", empty]);
    assert!(message.contains("workplace.trec"), "{message}");
    let message = refusal(&["eval", "fixtures/formats/layout", "--run-out", "Cargo.toml"]);
    assert!(message.contains("Cargo.toml"), "{message}");
    let message = refusal(&["eval", "nowhere"]);
    assert!(message.contains("nowhere is no folder"), "{message}");
    let message = refusal(&["eval", WORKPLACE, WORKPLACE]);
    assert!(message.contains("two sets are named \"workplace\""), "{message}");
    let queries = format!("{WORKPLACE}/queries.jsonl");
    for (queries, qrels, part) in [
        (queries.as_str(), "nowhere/qrels.tsv", "nowhere/qrels.tsv"),
        ("nowhere/queries.jsonl", "fixtures/formats/layout/qrels.tsv", "nowhere/queries.jsonl"),
        (queries.as_str(), "fixtures/formats/layout/queries.jsonl", "queries.jsonl:1: "),
        ("fixtures/formats/layout/qrels.tsv", "fixtures/formats/layout/qrels.tsv", "qrels.tsv:1: not a query"),
    ] {
        let message = refusal(&["eval", "--catalog", WORKPLACE, "--queries", queries, "--qrels", qrels]);
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    fs::write(temporary.path().join("workplace.trec"), "q001\tQ0\tx\t1\n").expect("it can be written");
    let message = refusal(&["eval", WORKPLACE, "--compare", empty]);
    assert!(message.contains("workplace.trec:1: 4 columns"), "{message}");
    for arguments in [&["eval"][..], &["eval", "--catalog", WORKPLACE], &["eval", WORKPLACE, "-k", "0"]] {
        refusal(arguments);
    }
}

// The program as a whole

#[test]
fn help_and_version_are_answers() {
    assert!(answer(&["--version"]).starts_with("picktools "));
    for command in ["pick", "index", "eval", "completions"] {
        assert!(answer(&["--help"]).contains(command));
        assert!(answer(&[command, "--help"]).contains("Usage: picktools"));
    }
}

#[test]
fn the_static_model_needs_nothing_but_the_program() {
    let request = ["pick", "make this picture smaller", "--catalog", WORKPLACE, "--json"];
    let words = json(&request);
    assert_ne!(words["picks"][0]["tool"]["name"], "resize-image");
    let meaning = json(&[&request[..], &["--model", "static"]].concat());
    let first = &meaning["picks"][0];
    assert_eq!((&meaning["scorer"], &first["tool"]["name"]), (&"hybrid".into(), &"resize-image".into()));
    assert_eq!(first["provenance"]["semantic"]["rank"], 1);
    assert!(first["provenance"]["semantic"]["model"].as_str().is_some_and(|model| model.starts_with("static:")));
    let ndcg = eval(&["--model", "static"])["mean"]["nDCG@10"].as_f64().expect("it is measured");
    assert!(ndcg >= STATIC_NDCG_FLOOR, "nDCG@10 with the static model fell to {ndcg:.4}");
}

#[test]
fn explanations_stay_bounded_and_true() {
    let named = ["pick", "read `get_balance` and all the files", "--catalog", WORKPLACE, "--min-score", "0"];
    let model = ["--model", "static", "--explain", "--json"];
    let considered = json(&[&named[..], &model].concat())["considered"].as_array().expect("it explains").clone();
    assert!((100..=103).contains(&considered.len()), "{} candidates", considered.len());
    assert_eq!(considered.iter().filter(|candidate| candidate["picked"] == true).count(), 3);
    let ranks = answer(&[&named[..], &["--model", "static", "--explain", "--fusion", "rrf"]].concat());
    assert!(ranks.contains(" from the ranks, k = 60"), "{ranks}");
    assert!(!ranks.contains("keyword 0.35 ×"), "a sum of ranks has no weights: {ranks}");
}
