//! `picktools eval`: measures that agree with the written run, minimum quality, comparison, and
//! errors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::{WORKPLACE, answer, json, picktools, refusal, stderr, stdout};
use crate::support::fixture;

/// The lowest allowed nDCG@10 by catalog and mode: the measured value minus 0.01.
///
/// The default is hybrid with the static model. Raise the values when the ranking improves; never
/// lower them to make a change pass.
const NDCG_FLOORS: [(&str, &str, f64); 4] = [
    (WORKPLACE, "keyword", 0.4726),
    (WORKPLACE, "hybrid", 0.5715),
    (MULTILINGUAL, "keyword", 0.4559),
    (MULTILINGUAL, "hybrid", 0.4721),
];

/// Requests in several languages, with emoji and code, of one word and of thousands.
const MULTILINGUAL: &str = "fixtures/catalogs/multilingual";

/// Runs `eval` on the fixture catalog as one folder.
fn eval(more: &[&str]) -> Value {
    json(&[&["eval", WORKPLACE, "--json"], more].concat())
}

fn without_latency(mut report: Value) -> Value {
    for set in report["sets"]
        .as_object_mut()
        .expect("sets are an object")
        .values_mut()
    {
        set.as_object_mut()
            .expect("a set is an object")
            .remove("latency_us")
            .expect("latency is reported");
    }
    report
}

#[test]
fn eval_reports_standard_measures_at_any_k() {
    for k in ["1", "3", "10", "25"] {
        let report = eval(&["-k", k]);
        assert_eq!(report["version"], 1);
        let set = &report["sets"]["workplace"];
        assert_eq!(
            (&set["tools"], &set["queries"], &set["no_answer"]),
            (&220.into(), &236.into(), &14.into()),
            "k = {k}"
        );
        for measure in [
            "nDCG@5",
            "nDCG@10",
            "R@1",
            "R@3",
            "R@5",
            "R@10",
            "Success@1",
            "Completeness@10",
            "RR@10",
        ] {
            let value = set["measures"][measure]
                .as_f64()
                .unwrap_or_else(|| panic!("{measure} is missing at k = {k}"));
            assert!(value > 0.0 && value <= 1.0, "{measure} = {value}");
            assert_eq!(report["mean"][measure], set["measures"][measure]);
        }
        assert!(
            set["measures"][format!("nDCG@{k}")].is_number(),
            "the cutoff asked for is measured"
        );
        for percentile in ["p50", "p99"] {
            assert!(
                set["latency_us"][percentile]
                    .as_f64()
                    .is_some_and(|time| time > 0.0),
                "{percentile}"
            );
        }
    }
}

#[test]
fn eval_standard_measures_do_not_depend_on_k() {
    // The choice of a set depends on the number of picks.
    let (few, many) = (
        eval(&["-k", "1", "--choice", "best"]),
        eval(&["-k", "50", "--choice", "best"]),
    );
    for measure in ["nDCG@10", "R@10", "Completeness@10", "RR@10", "AP@10"] {
        assert_eq!(few["mean"][measure], many["mean"][measure], "{measure}");
    }
}

#[test]
fn eval_quality_reaches_the_recorded_figures() {
    for (set, mode, floor) in NDCG_FLOORS {
        let ndcg = json(&["eval", set, "--mode", mode, "--json"])["mean"]["nDCG@10"]
            .as_f64()
            .expect("it is a number");
        assert!(
            ndcg >= floor,
            "nDCG@10 by {mode} on {set} fell to {ndcg:.4}; the floor is {floor}"
        );
    }
    assert_eq!(
        eval(&[])["mean"],
        eval(&["--mode", "hybrid", "--model", "static"])["mean"]
    );
}

#[test]
fn eval_of_transcripts_ignores_tools_in_use() {
    let folder = fixture("transcripts/choosing");
    let file = |name: &str| folder.join(name).to_str().expect("it is UTF-8").to_owned();
    let (queries, qrels) = (file("queries.jsonl"), file("qrels.tsv"));
    let set = [
        "--catalog",
        WORKPLACE,
        "--queries",
        &queries,
        "--qrels",
        &qrels,
        "--json",
    ];
    let ndcg = |more: &[&str]| {
        let report = json(&[&["eval"], &set[..], more].concat());
        report["mean"]["nDCG@10"].as_f64().expect("it is a number")
    };
    let reached = ndcg(&[]);
    assert!(
        reached >= 0.858,
        "nDCG@10 fell to {reached:.4}; the last messages alone reach 0.53"
    );
    let in_use = ndcg(&["--in-use", "lingua/translate_text"]);
    assert!(
        in_use < reached,
        "a tool that is in use is not found: {in_use:.4}"
    );
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let habits = temporary.path().join("habits.jsonl");
    let path = habits.to_str().expect("the path is plain");
    fs::write(
        &habits,
        "[\"travel/search-hotels\", \"travel/book-hotel\"]\n".repeat(9),
    )
    .expect("it can be written");
    assert!(ndcg(&["--sequences", path]) >= reached);
    fs::write(&habits, "[1]\n").expect("it can be written");
    let error = refusal(&[&["eval"], &set[..], &["--sequences", path]].concat());
    assert!(error.contains("habits.jsonl: line 1"), "{error}");
}

#[test]
fn eval_poison_reports_effects_with_a_seed() {
    let poison = |kind: &str, more: &[&str]| {
        let set = fixture("formats/layout");
        json(
            &[
                &[
                    "eval",
                    set.to_str().expect("it is UTF-8"),
                    "--poison",
                    kind,
                    "--json",
                ],
                more,
            ]
            .concat(),
        )
    };
    let copied = poison("copy", &[]);
    assert_eq!(
        (&copied["poison"], &copied["max_per_source"]),
        (&"copy".into(), &1.into())
    );
    let set = &copied["sets"][0];
    assert_eq!(
        (&set["set"], &set["requests"]),
        (&"layout".into(), &3.into()),
        "those that have an answer"
    );
    // With three tools and one hostile tool, all fit into ten picks.
    assert_eq!(
        (&set["clean_recall"], &set["poisoned_recall"]),
        (&1.0.into(), &1.0.into())
    );
    assert_eq!(
        (&set["hostile_first"], &set["first_changed"]),
        (&1.0.into(), &1.0.into()),
        "a copy fits best"
    );
    assert_eq!(poison("copy", &[]), copied);
    assert_eq!(
        poison("copy", &["--max-per-source", "3"])["max_per_source"],
        3
    );
    assert_eq!(
        (&set["clean_ndcg"], &set["places_risen"]),
        (&1.0.into(), &3.0.into()),
        "from behind three picks"
    );
    let praised = &poison("praise", &[])["sets"][0];
    assert_eq!(
        (&praised["poisoned_ndcg"], &praised["first_changed"]),
        (&1.0.into(), &0.0.into())
    );
    let table = answer(&["eval", "fixtures/formats/layout", "--poison", "repeat"]);
    assert!(
        table.contains("hostile first") && table.contains("layout") && table.contains("mean"),
        "{table}"
    );
    let error = refusal(&[
        "eval",
        "fixtures/formats/layout",
        "--poison",
        "copy",
        "--abstention",
    ]);
    assert!(error.contains("--abstention"), "{error}");
}

/// Returns the shape and the values of a NumPy array.
fn npy(path: &Path) -> (String, Vec<f32>) {
    let bytes = fs::read(path).expect("it was written");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(
        bytes.starts_with(b"\x93NUMPY\x01\x00") && (10 + length).is_multiple_of(64),
        "{}",
        path.display()
    );
    let (header, values) = bytes[10..].split_at(length);
    let values = values
        .as_chunks::<4>()
        .0
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect();
    (String::from_utf8_lossy(header).into_owned(), values)
}

#[test]
fn eval_signals_out_covers_every_query_and_tool() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    answer(&[
        "eval",
        WORKPLACE,
        "--signals-out",
        &folder.path().to_string_lossy(),
    ]);
    let set = folder.path().join("workplace");
    let (tools, queries): (Vec<String>, Vec<String>) =
        serde_json::from_slice(&fs::read(set.join("ids.json")).expect("it was written"))
            .expect("two lists of ids");
    assert_eq!((tools.len(), queries.len()), (220, 260));
    for name in ["keyword", "static"] {
        let (header, values) = npy(&set.join(name).with_extension("npy"));
        assert!(
            header.contains("'shape': (260,220,)") && header.contains("'<f4'"),
            "{header}"
        );
        assert_eq!(values.len(), 260 * 220);
        assert!(
            values.iter().all(|value| value.is_finite()) && values.iter().any(|&value| value > 0.1),
            "{name}"
        );
    }
    let (header, ceilings) = npy(&set.join("ceiling.npy"));
    let keyword = npy(&set.join("keyword.npy")).1;
    assert!(header.contains("'shape': (260,)"), "{header}");
    for (ceiling, scores) in ceilings.iter().zip(keyword.chunks(220)) {
        assert!(
            scores.iter().all(|score| score <= ceiling),
            "no tool scores more than the words could"
        );
    }
}

#[test]
fn eval_repeated_prints_the_same_json_except_latency() {
    assert_eq!(without_latency(eval(&[])), without_latency(eval(&[])));
}

#[test]
fn eval_of_custom_set_equals_eval_of_folder() {
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
    let rows: Vec<&str> = table
        .lines()
        .map(|line| line.split_whitespace().next().unwrap_or(""))
        .collect();
    assert_eq!(rows, ["set", "workplace", "layout", "mean"], "{table}");
}

#[test]
fn eval_applies_the_access_policy() {
    let granted = eval(&[
        "--allow-unsafe",
        "--role",
        "maintainer",
        "--role",
        "finance",
        "--role",
        "platform",
    ]);
    assert!(
        granted["mean"]["R@10"].as_f64() > eval(&["--deny-unsafe"])["mean"]["R@10"].as_f64(),
        "grants make more tools findable"
    );
}

/// Writes a set of three tools, of which one is unsafe and one is reserved for a role, with one
/// request for each.
fn write_guarded_set(folder: &Path) -> String {
    let set = folder.join("guarded");
    fs::create_dir(&set).expect("a folder can be made");
    let tools = [
        r#"{"id":"wipe_disk","name":"wipe_disk","description":"Erases a disk","safe":false,"parameters":{}}"#,
        r#"{"id":"pay_wages","name":"pay_wages","description":"Pays the wages","allowed_roles":["payroll"],"parameters":{}}"#,
        r#"{"id":"water_plants","name":"water_plants","description":"Waters the plants","parameters":{}}"#,
    ];
    let queries = [
        r#"{"id":"disk","text":"erase the disk"}"#,
        r#"{"id":"wages","text":"pay the wages"}"#,
        r#"{"id":"plants","text":"water the plants"}"#,
    ];
    let qrels = "disk\twipe_disk\t1\ndisk\twater_plants\t0\nwages\tpay_wages\t1\n\
                 wages\twater_plants\t1\nplants\twater_plants\t1\nplants\tpay_wages\t0\n";
    for (name, text) in [
        ("tools.jsonl", tools.join("\n")),
        ("queries.jsonl", queries.join("\n")),
        ("qrels.tsv", qrels.to_owned()),
    ] {
        fs::write(set.join(name), text).expect("it can be written");
    }
    set.to_str().expect("the path is plain").to_owned()
}

#[test]
fn eval_allows_unsafe_tools_unless_denied() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let set = write_guarded_set(temporary.path());
    let recall = |more: &[&str]| {
        let roles = ["eval", &set, "--role", "payroll", "--json"];
        json(&[&roles[..], more].concat())["mean"]["R@10"].clone()
    };
    assert_eq!(recall(&[]), 1.0);
    assert_eq!(
        recall(&["--allow-unsafe"]),
        1.0,
        "the old flag has no effect"
    );
    assert!(recall(&["--deny-unsafe"]).as_f64() < Some(0.7));
    let message = refusal(&["eval", &set, "--allow-unsafe", "--deny-unsafe"]);
    assert!(message.contains("cannot be used with"), "{message}");
    let file = |name: &str| format!("{set}/{name}");
    let own = json(&[
        "eval",
        "--catalog",
        &file("tools.jsonl"),
        "--queries",
        &file("queries.jsonl"),
        "--qrels",
        &file("qrels.tsv"),
        "--role",
        "payroll",
        "--json",
    ]);
    assert_eq!(own["mean"]["R@10"], 1.0, "a custom set is measured alike");
}

#[test]
fn eval_reports_ineligible_judged_tools() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let set = write_guarded_set(temporary.path());
    let output = picktools(&["eval", &set, "--deny-unsafe", "--json"])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
    assert_eq!(
        report["sets"]["guarded"]["ineligible_judged"],
        serde_json::json!({"tools": 2, "queries": 2, "unreachable_queries": 1,
            "counts": {"role": 1, "unsafe": 1}}),
        "a tool without relevance does not count"
    );
    let warning = report["warnings"][0].as_str().expect("it is a text");
    for part in [
        "never picked: 2 (role: 1, unsafe: 1)",
        "affected queries: 2, 1 of them without an eligible judged tool",
        "leave out --deny-unsafe and add --role, or remove their judgments",
    ] {
        assert!(warning.contains(part), "{part:?} is not in {warning}");
    }
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    let text = picktools(&["eval", &set]).output().expect("it runs");
    assert!(stdout(&text).contains(" ineligible "), "{}", stdout(&text));
    assert!(stderr(&text).contains("(role: 1)"), "{}", stderr(&text));
    let all = picktools(&["eval", &set, "--role", "payroll"]).output();
    let all = all.expect("it runs");
    assert!(!stdout(&all).contains("ineligible"), "{}", stdout(&all));
    assert_eq!(stderr(&all), "");
    let poisoned = picktools(&["eval", &set, "--poison", "copy", "--json"]).output();
    let poisoned = poisoned.expect("it runs");
    let report: Value = serde_json::from_str(&stdout(&poisoned)).expect("the answer is JSON");
    assert_eq!(report["sets"][0]["ineligible_judged"]["tools"], 1);
    assert!(
        stderr(&poisoned).contains("(role: 1)"),
        "{}",
        stderr(&poisoned)
    );
}

#[test]
fn eval_json_has_confidence_intervals() {
    let sets = ["eval", WORKPLACE, MULTILINGUAL, "--json"];
    let report = json(&sets);
    assert_eq!(
        report["confidence"],
        serde_json::json!({"method": "percentile bootstrap over queries", "level": 0.95,
            "resamples": 1000, "seed": 0})
    );
    let check = |means: &Value, intervals: &Value| {
        let means = means.as_object().expect("measures are an object");
        for (measure, mean) in means {
            let (low, high) = (&intervals[measure]["low"], &intervals[measure]["high"]);
            let (low, high) = (low.as_f64().expect("low"), high.as_f64().expect("high"));
            let mean = mean.as_f64().expect("it is a number");
            assert!(
                0.0 <= low && low < mean && mean < high && high <= 1.0,
                "{measure}"
            );
            assert!(high - low < 0.25, "{measure}: {low} to {high}");
        }
    };
    for set in ["workplace", "multilingual"] {
        let set = &report["sets"][set];
        check(&set["measures"], &set["intervals"]);
    }
    check(&report["mean"], &report["mean_intervals"]);
    assert_eq!(
        without_latency(json(&sets)),
        without_latency(report.clone())
    );
    let other = json(&[&sets[..], &["--seed", "7"]].concat());
    assert_ne!(other["mean_intervals"], report["mean_intervals"]);
    assert_eq!(
        other["mean"], report["mean"],
        "the seed does not change the means"
    );
}

/// Computes nDCG@k from the two files independently: exponential gain, logarithmic discount, ideal
/// order by grade.
fn naive_ndcg(run: &str, qrels: &str, k: usize) -> f64 {
    let mut grades: BTreeMap<&str, BTreeMap<&str, i32>> = BTreeMap::new();
    for line in qrels.lines().filter(|line| !line.is_empty()) {
        let columns: Vec<&str> = line.split('\t').collect();
        grades
            .entry(columns[0])
            .or_default()
            .insert(columns[1], columns[2].parse().expect("a grade is a number"));
    }
    let mut ranked: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    for line in run.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let rank = columns[3].parse().expect("a rank is a number");
        ranked
            .entry(columns[0])
            .or_default()
            .push((rank, columns[2]));
    }
    let dcg = |grades: &[i32]| {
        let terms = grades.iter().take(k).enumerate();
        terms
            .map(|(place, &grade)| (2_f64.powi(grade) - 1.0) / (place as f64 + 2.0).log2())
            .sum::<f64>()
    };
    let mut scores = Vec::new();
    for (query, judged) in grades
        .iter()
        .filter(|(_, judged)| judged.values().any(|&grade| grade > 0))
    {
        let mut ranking = ranked.remove(query).unwrap_or_default();
        ranking.sort_unstable();
        let found: Vec<i32> = ranking
            .iter()
            .map(|(_, tool)| judged.get(tool).copied().unwrap_or(0))
            .collect();
        let mut ideal: Vec<i32> = judged.values().copied().collect();
        ideal.sort_unstable_by(|a, b| b.cmp(a));
        scores.push(dcg(&found) / dcg(&ideal));
    }
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// Evaluates the fixture catalog, and writes its run below `folder`.
fn written_run(folder: &Path, more: &[&str]) -> (Value, String) {
    let path = folder.to_str().expect("the path is plain");
    let report = eval(&[&["--run-out", path], more].concat());
    (
        report,
        fs::read_to_string(folder.join("workplace.trec")).expect("the run was written"),
    )
}

#[test]
fn eval_run_out_reproduces_the_measures() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let qrels =
        fs::read_to_string(fixture("catalogs/workplace/qrels.tsv")).expect("the fixture is there");
    let (report, run) = written_run(&temporary.path().join("new/runs"), &["-k", "20"]);
    let mut last: Option<(String, usize, f64)> = None;
    for line in run.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [query, "Q0", tool, rank, score, tag] = columns[..] else {
            panic!("not a TREC line: {line}")
        };
        let (rank, score): (usize, f64) = (
            rank.parse().expect("a number"),
            score.parse().expect("a number"),
        );
        assert!(!tool.is_empty() && !tag.is_empty(), "{line}");
        match last.filter(|(before, ..)| before == query) {
            Some((_, above, better)) => assert!(rank == above + 1 && score <= better, "{line}"),
            None => assert_eq!(rank, 1, "{line}"),
        }
        assert!(rank <= 20, "{line}");
        last = Some((query.to_owned(), rank, score));
    }
    for k in [5, 10, 20] {
        let reported = report["sets"]["workplace"]["measures"][format!("nDCG@{k}")]
            .as_f64()
            .expect("it is a number");
        let naive = naive_ndcg(&run, &qrels, k);
        assert!(
            (reported - naive).abs() < 1e-4,
            "nDCG@{k}: {reported} is reported, the run gives {naive}"
        );
    }
}

#[test]
fn eval_compared_with_itself_shows_no_difference() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    written_run(temporary.path(), &[]);
    let folder = temporary.path().to_str().expect("the path is plain");
    let report = eval(&["--compare", folder]);
    let comparison = &report["comparisons"][0];
    assert_eq!(
        (&comparison["set"], &comparison["queries"]),
        (&"workplace".into(), &236.into())
    );
    let measures = comparison["measures"]
        .as_object()
        .expect("measures are an object");
    assert!(measures.contains_key("nDCG@10"));
    for (measure, row) in measures {
        assert_eq!(
            (row["p"].as_f64(), row["difference"].as_f64()),
            (Some(1.0), Some(0.0)),
            "{measure}"
        );
        assert_eq!(
            (&row["wins"], &row["losses"]),
            (&0.into(), &0.into()),
            "{measure}"
        );
    }
    assert!(
        answer(&["eval", WORKPLACE, "--compare", folder]).contains("workplace: compared with ")
    );
}

#[test]
fn eval_compared_with_worse_run_is_significant() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    written_run(
        temporary.path(),
        &["--allow-source", "mail", "--allow-source", "home"],
    );
    let folder = temporary.path().to_str().expect("the path is plain");
    let compare = || eval(&["--compare", folder, "--seed", "7"])["comparisons"].clone();
    let row = compare()[0]["measures"]["nDCG@10"].clone();
    assert!(
        row["difference"].as_f64() > Some(0.1) && row["p"].as_f64() < Some(0.01),
        "{row}"
    );
    assert_eq!(compare(), compare());
}

#[test]
fn eval_with_broken_input_names_the_file() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let empty = temporary.path().to_str().expect("the path is plain");
    let message = refusal(&["eval", WORKPLACE, "--compare", empty]);
    assert!(message.contains("workplace.trec"), "{message}");
    let message = refusal(&["eval", "fixtures/formats/layout", "--run-out", "Cargo.toml"]);
    assert!(message.contains("Cargo.toml"), "{message}");
    let message = refusal(&["eval", "nowhere"]);
    assert!(message.contains("nowhere is not a folder"), "{message}");
    let message = refusal(&["eval", WORKPLACE, WORKPLACE]);
    assert!(
        message.contains("two sets are named \"workplace\""),
        "{message}"
    );
    let queries = format!("{WORKPLACE}/queries.jsonl");
    for (queries, qrels, part) in [
        (queries.as_str(), "nowhere/qrels.tsv", "nowhere/qrels.tsv"),
        (
            "nowhere/queries.jsonl",
            "fixtures/formats/layout/qrels.tsv",
            "nowhere/queries.jsonl",
        ),
        (
            queries.as_str(),
            "fixtures/formats/layout/queries.jsonl",
            "queries.jsonl:1: ",
        ),
        (
            "fixtures/formats/layout/qrels.tsv",
            "fixtures/formats/layout/qrels.tsv",
            "qrels.tsv:1: not a query",
        ),
    ] {
        let message = refusal(&[
            "eval",
            "--catalog",
            WORKPLACE,
            "--queries",
            queries,
            "--qrels",
            qrels,
        ]);
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    fs::write(temporary.path().join("workplace.trec"), "q001\tQ0\tx\t1\n")
        .expect("it can be written");
    let message = refusal(&["eval", WORKPLACE, "--compare", empty]);
    assert!(message.contains("workplace.trec:1: 4 columns"), "{message}");
    for arguments in [
        &["eval"][..],
        &["eval", "--catalog", WORKPLACE],
        &["eval", WORKPLACE, "-k", "0"],
    ] {
        refusal(arguments);
    }
}
