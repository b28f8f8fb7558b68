//! `picktools eval --report`: a complete, self-contained and safe page, and the figures in the
//! JSON.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::cli::{WORKPLACE, answer, json, refusal};

/// The configurations with which the default model is compared.
const CONFIGURATIONS: [&str; 4] = [
    "keyword",
    "semantic, static",
    "hybrid, static",
    "hybrid, static, rank fusion",
];

/// Evaluates sets with a report below `folder`, and returns the JSON and the page.
fn report(folder: &Path, sets: &[&str], more: &[&str]) -> (Value, String) {
    let path = folder.join("report.html");
    let path = path.to_str().expect("the path is plain");
    let answer = json(&[&["eval", "--json", "--report", path], sets, more].concat());
    (
        answer,
        fs::read_to_string(path).expect("the report was written"),
    )
}

/// Checks that elements are nested correctly, text has no bare `<`, and attributes are quoted.
fn check_well_formed(page: &str) {
    let body = page.strip_prefix("<!DOCTYPE html>\n").expect("it is HTML");
    let mut open: Vec<&str> = Vec::new();
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        if rest.starts_with("<!--") {
            rest = &rest[rest.find("-->").expect("comments end")..];
            continue;
        }
        let end = rest.find('>').expect("tags end");
        let tag = &rest[1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        assert!(!tag.contains('<'), "<{tag}>");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap_or("");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes nothing");
        } else if !tag.ends_with('/') && name != "meta" {
            open.push(name);
        }
        rest = &rest[end + 1..];
        if name == "style" && !tag.starts_with('/') {
            rest = &rest[rest.find("</style>").expect("the style ends")..];
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
}

/// Checks that the page loads and runs nothing.
fn check_self_contained(page: &str) {
    for loads in [
        "<script", "<link", "<img", "<iframe", "<object", "<image", "src=", "href=", "@import",
        "http:", "https:",
    ] {
        assert!(!page.contains(loads), "{loads} is in the page");
    }
    for (at, _) in page.match_indices("url(") {
        assert!(page[at..].starts_with("url(#"), "{}", &page[at..at + 40]);
    }
    assert!(
        page.contains("default-src 'none'"),
        "the browser is told so too"
    );
}

#[test]
fn report_page_is_complete_and_self_contained() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let (json, page) = report(temporary.path(), &[WORKPLACE], &[]);
    check_well_formed(&page);
    check_self_contained(&page);
    assert!(page.contains("prefers-color-scheme: dark"));
    for name in CONFIGURATIONS {
        assert!(
            page.contains(&format!("<th scope=\"col\" class=\"figure\">{name}</th>")),
            "{name} heads no column"
        );
    }
    assert_eq!(
        page.matches("<svg ").count(),
        5,
        "comparison, calibration, latency, differences, abstention"
    );
    let ndcg = json["mean"]["nDCG@10"].as_f64().expect("it is a number");
    let best = format!("<td class=\"figure best\">{ndcg:.4}</td>");
    assert!(page.contains(&best), "{best} is the best of its row");
    for heading in ["won most", "lost most"] {
        assert!(
            page.contains(&format!("<h4>{heading}</h4>\n<div class=\"wide\"><table>")),
            "{heading}"
        );
    }
}

#[test]
fn eval_report_json_has_every_configuration() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let (report, _) = report(temporary.path(), &[WORKPLACE], &["--mode", "semantic"]);
    let configurations = report["configurations"]
        .as_array()
        .expect("they are a list");
    let names: Vec<&str> = configurations
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    assert_eq!(names, CONFIGURATIONS);
    let [keyword, semantic, hybrid, ranks] = &configurations[..] else {
        panic!("there are four")
    };
    for (configuration, arguments) in [
        (keyword, &["--mode", "keyword"][..]),
        (semantic, &["--mode", "semantic"]),
        (hybrid, &[]),
        (ranks, &["--fusion", "rrf"]),
    ] {
        let alone = json(&[&["eval", WORKPLACE, "--json"], arguments].concat());
        assert_eq!(configuration["mean"], alone["mean"], "{arguments:?}");
        let ece = &alone["sets"]["workplace"]["calibration"]["ece"];
        assert_eq!(&configuration["mean_ece"], ece, "{arguments:?}");
        assert!(
            configuration["mean_latency_us"]["p99"].as_f64() > Some(0.0),
            "{configuration}"
        );
    }
    assert_eq!(
        report["mean"], semantic["mean"],
        "the ranking that the options name is reported as ever"
    );
    assert!(semantic["mean_auroc"].as_f64() > Some(0.5) && hybrid["mean_auroc"].is_null());
    assert!(
        json(&["eval", WORKPLACE, "--json"])["configurations"].is_null(),
        "only a report compares"
    );
}

#[test]
fn report_compares_another_model_with_the_static_one() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let (json, page) = report(
        temporary.path(),
        &["fixtures/formats/layout"],
        &["--model", "tuned"],
    );
    let names: Vec<&str> = json["configurations"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["name"].as_str())
        .collect();
    let own = [
        "keyword",
        "semantic, tuned",
        "hybrid, tuned",
        "hybrid, tuned, rank fusion",
    ];
    assert_eq!(
        names,
        [&own[..], &["semantic, static", "hybrid, static"]].concat()
    );
    assert!(
        page.contains("without tuned, only static for semantic similarity"),
        "what the model is worth"
    );
}

#[test]
fn report_of_rank_fusion_states_missing_probabilities() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let (_, page) = report(
        temporary.path(),
        &["fixtures/formats/layout"],
        &["--fusion", "rrf"],
    );
    check_well_formed(&page);
    assert!(page.contains("The scores of this ranking are not probabilities."));
    assert!(page.contains("This ranking gives no answerability estimates."));
}

#[test]
fn report_of_keywords_compares_with_hybrid() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let (_, page) = report(temporary.path(), &[WORKPLACE], &["--mode", "keyword"]);
    assert!(
        page.contains("by <b>keyword</b> minus that by <b>hybrid, static</b>"),
        "{page}"
    );
}

#[test]
fn report_shows_intervals_and_warnings() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let (json, page) = report(temporary.path(), &[WORKPLACE], &["--deny-unsafe"]);
    check_well_formed(&page);
    let ndcg = json["mean"]["nDCG@10"].as_f64().expect("it is a number");
    let bound = |name: &str| {
        let bound = &json["mean_intervals"]["nDCG@10"][name];
        bound.as_f64().expect("it is a number")
    };
    let cell = format!("{ndcg:.4} ({:.4}–{:.4})", bound("low"), bound("high"));
    assert!(page.contains(&cell), "{cell}");
    for configuration in json["configurations"].as_array().expect("a list") {
        let interval = &configuration["mean_intervals"]["nDCG@10"];
        assert!(
            interval["low"].as_f64() < interval["high"].as_f64(),
            "{interval}"
        );
    }
    let counts = &json["sets"]["workplace"]["ineligible_judged"]["counts"];
    let warning = format!("(role: {}, unsafe: {})", counts["role"], counts["unsafe"]);
    assert!(
        page.contains("<p class=\"warning\">Warning: workplace: ") && page.contains(&warning),
        "{warning}"
    );
    let (_, page) = report(temporary.path(), &["fixtures/formats/layout"], &[]);
    assert!(
        !page.contains("<p class=\"warning\">"),
        "nothing is ineligible"
    );
}

#[test]
fn report_escapes_a_hostile_catalog() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let set = temporary.path().join("se<t> & \"b\" $x$");
    fs::create_dir(&set).expect("a folder can be made");
    let id = "a\"'><script>alert(1)</script>";
    let tools = [
        (id, "Resizes a picture"),
        ("other", "Explains what an alert is"),
    ];
    let tools = tools.map(|(id, text)| {
        serde_json::json!({"id": id, "name": "send", "source": id, "description": text, "parameters": {}}).to_string()
    });
    fs::write(set.join("tools.jsonl"), tools.join("\n")).expect("it can be written");
    let text = "<img src=x onerror=alert(2)> & \"quoted\" 'letters' \u{202e}desrever\u{202c} \u{7} shrink the photo, reduce the image size";
    let queries = serde_json::json!({"id": "</table><q>", "text": text}).to_string();
    fs::write(set.join("queries.jsonl"), queries).expect("it can be written");
    fs::write(set.join("qrels.tsv"), format!("</table><q>\t{id}\t1\n")).expect("it can be written");
    let set = set.to_str().expect("the path is plain");
    let (json, page) = report(temporary.path(), &[set], &[]);
    // The test is valid only if the request is on the page.
    assert_ne!(
        json["configurations"][0]["mean"]["nDCG@10"], json["mean"]["nDCG@10"],
        "{json}"
    );
    check_well_formed(&page);
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("<q>"));
    assert!(
        page.contains("a&#34;&#39;&#62;&#60;script&#62;alert(1)&#60;/script&#62;"),
        "the id is shown as it is"
    );
    assert!(
        page.contains(
            "&#60;img src=x onerror=alert(2)&#62; &#38; &#34;quoted&#34; &#39;letters&#39;"
        )
    );
    assert!(
        page.contains(r"\u{202e}desrever\u{202c} \u{7}"),
        "what cannot be seen is spelt out"
    );
    assert!(!page.contains(['\u{202e}', '\u{202c}', '\u{7}']));
    assert!(
        page.contains(">se&lt;t&gt; &amp; &quot;b&quot; $x$</text>"),
        "in charts as well"
    );
}

#[test]
fn unwritable_report_is_refused_before_evaluation() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let folder = temporary.path().to_str().expect("the path is plain");
    // The folder is not a set. If the sets were read first, that would be the error.
    for path in [format!("{folder}/nowhere/report.html"), folder.to_owned()] {
        let message = refusal(&["eval", folder, "--report", &path]);
        assert!(
            message.starts_with(&format!("error: cannot write {path}")),
            "{message}"
        );
    }
    assert_eq!(
        fs::read_dir(folder).expect("it is there").count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn eval_report_prints_a_markdown_table() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let path = temporary.path().join("report.html");
    let text = answer(&[
        "eval",
        "fixtures/formats/layout",
        "--report",
        path.to_str().expect("the path is plain"),
    ]);
    let (_, table) = text
        .split_once("\n\n|")
        .expect("it stands below the others");
    assert!(
        table.starts_with(" ranking ") && table.contains("| nDCG@10 |"),
        "{text}"
    );
    let names: Vec<&str> = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split('|').nth(1))
        .map(str::trim)
        .collect();
    assert_eq!(names, CONFIGURATIONS, "{text}");
}
