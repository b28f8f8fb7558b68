//! Tests of reading cases, and of the rates of scripted picks.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;

use picktools::{Catalog, Engine, Mode, PickOptions, Tool};

use super::super::EvalError;
use super::super::files::scratch::Scratch;
use super::*;

const CONVERSATION: &str =
    r#"{"catalog":"c","messages":[{"role":"user","content":"hi"}],"tools":["a"]}"#;

/// Writes files into a folder, and reads its cases.
fn read(files: &[(&str, &str)]) -> Result<TalkCases, EvalError> {
    let folder = Scratch::new();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("it can be written");
    }
    TalkCases::read(folder.path())
}

/// Checks that a file is refused, with this place and cause.
fn check_refused(name: &str, text: &str, line: usize, part: &str) {
    let error = read(&[(name, text)]).expect_err("the line is refused");
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    let message = format!("{error}: {cause}");
    assert!(
        message.contains(&format!("{name}:{line}: ")) && message.contains(part),
        "{message}"
    );
}

/// A catalog, and the picks for each request with their scores.
struct Script {
    engine: Engine,
    picks: BTreeMap<&'static str, &'static [(&'static str, f32)]>,
    /// The numbers of picks that were asked for.
    depths: BTreeMap<String, usize>,
}

impl Script {
    fn new(picks: &[(&'static str, &'static [(&'static str, f32)])]) -> Self {
        let tools = ["a", "b", "c"].map(|name| Tool::without_arguments(name, "Does something"));
        let catalog = Catalog::from_tools(tools).expect("three names");
        let engine = Engine::builder(catalog).keyword_only().build();
        Self {
            engine: engine.expect("no model is needed"),
            picks: picks.iter().copied().collect(),
            depths: BTreeMap::new(),
        }
    }

    fn pick(&mut self, query: &Query, depth: usize) -> Result<Selection, PickError> {
        self.depths.insert(query.text().to_owned(), depth);
        let scripted = self.picks.get(query.text()).copied().unwrap_or_default();
        let options = PickOptions {
            max_candidates: depth,
            min_score: 1.0,
            mode: Some(Mode::Keyword),
            always_include: scripted.iter().map(|(id, _)| (*id).to_owned()).collect(),
            ..PickOptions::default()
        };
        let mut selection = self.engine.pick(query, &options)?;
        for pick in &mut selection.picks {
            let tool = scripted.iter().find(|(id, _)| *id == pick.tool.id);
            pick.score = tool.expect("only scripted tools are picked").1;
        }
        selection.answerable = Some(if scripted.is_empty() { 0.2 } else { 0.8 });
        Ok(selection)
    }

    fn measure(&mut self, cases: &TalkCases, max_missed: usize) -> TalkReport {
        let mut measurement = TalkMeasurement::new(cases, max_missed);
        let mut pick = |query: &Query, depth: usize| self.pick(query, depth);
        let measured = measurement.add_catalog("c", &mut pick);
        measured.expect("the options are valid");
        measurement.finish()
    }
}

/// Checks the number of cases and their mean.
fn check_rate(rate: TalkRate, cases: usize, mean: f64) {
    assert_eq!(rate.cases(), cases);
    let measured = rate.mean().expect("there are cases");
    assert!((measured - mean).abs() < 1e-12, "{measured}");
}

#[test]
fn small_talk_rates_count_requests_without_picks() {
    let cases = read(&[(
        "smalltalk.jsonl",
        "{\"text\":\"hello\"}\n{\"text\":\"weather\"}\n{\"text\":\"maybe\"}\n{\"text\":\"?!\"}\n",
    )]);
    let cases = cases.expect("four requests");
    let mut script = Script::new(&[("weather", &[("a", 0.9)]), ("maybe", &[("b", 0.3)])]);
    let report = script.measure(&cases, 1);
    check_rate(report.small_talk.no_pick, 4, 0.5);
    check_rate(report.small_talk.low_answerability, 4, 0.5);
    check_rate(report.small_talk.no_likely_pick, 4, 0.75);
    assert_eq!(
        script.depths.len(),
        3,
        "a request without content is not asked"
    );
    assert_eq!(script.depths["hello"], 5);
    let [missed] = &report.missed[..] else {
        panic!("one missed case is listed: {:?}", report.missed)
    };
    assert!(missed.case.ends_with("smalltalk.jsonl:2"), "{missed:?}");
    assert_eq!(
        (&*missed.request, &missed.picked[..]),
        ("weather", &["a".to_owned()][..])
    );
}

#[test]
fn conversation_rates_count_needed_and_new_tools() {
    let turn = |role: &str, text: &str| format!(r#"{{"role":"{role}","content":"{text}"}}"#);
    let (first, answer) = (turn("user", "forecast"), turn("assistant", "Shall I?"));
    let line = |text: &str, rest: &str| {
        let last = turn("user", text);
        format!(r#"{{"catalog":"c","messages":[{first},{answer},{last}],{rest}}}"#)
    };
    let lines = [
        line("yes", r#""kind":"consent","tools":["a","b"]"#),
        line("thanks", r#""tools":[]"#),
        line("hm", r#""tools":["a"],"none":true"#),
        r#"{"catalog":"c","messages":[{"role":"user","content":"morning"}],"tools":[]}"#.to_owned(),
        r#"{"catalog":"other","messages":[{"role":"user","content":"x"}],"tools":["z"]}"#
            .to_owned(),
    ];
    let cases = read(&[("conversations.dev.jsonl", &lines.join("\n"))]).expect("five cases");
    let mut script = Script::new(&[
        ("forecast", &[("a", 0.9)]),
        ("yes", &[("a", 0.9)]),
        ("thanks", &[("a", 0.9)]),
        ("hm", &[("a", 0.9), ("c", 0.2)]),
        ("morning", &[("b", 0.6)]),
    ]);
    let report = script.measure(&cases, 9);
    let rates = &report.conversations;
    check_rate(rates.needed_in_8, 1, 0.5);
    check_rate(rates.needed_in_8_by_kind["consent"], 1, 0.5);
    check_rate(rates.idle_without_new_pick, 3, 1.0 / 3.0);
    check_rate(rates.idle_without_likely_new_pick, 3, 2.0 / 3.0);
    assert!(
        script.depths.values().all(|depth| *depth == 8),
        "{:?}",
        script.depths
    );
    let picked: Vec<_> = report
        .missed
        .iter()
        .map(|missed| missed.picked.join(" "))
        .collect();
    assert_eq!(
        picked,
        ["a", "c", "b"],
        "the new picks of turns that need nothing"
    );
}

#[test]
fn paste_rates_compare_with_the_ask_alone() {
    let line = |text: &str, tools: &str| {
        format!(r#"{{"catalog":"c","text":"{text}","ask":"ask {text}","tools":{tools}}}"#)
    };
    let lines = [
        line("one", r#"["a","b"]"#),
        line("two", r#"["a"]"#),
        line("three", r#"["a"]"#),
    ];
    let cases = read(&[("paste.jsonl", &lines.join("\n"))]).expect("three cases");
    let mut script = Script::new(&[
        ("one", &[("a", 0.9)]),
        ("ask one", &[("a", 0.9), ("b", 0.9)]),
        ("two", &[("a", 0.9)]),
        ("ask two", &[("a", 0.9)]),
    ]);
    let report = script.measure(&cases, 9);
    check_rate(report.paste.needed_in_5, 3, 0.5);
    check_rate(report.paste.ask_alone_in_5, 3, 2.0 / 3.0);
    let share = report
        .paste
        .share_of_ask_alone()
        .expect("both are measured");
    assert!((share - 0.75).abs() < 1e-12, "{share}");
    assert_eq!(
        report.missed.len(),
        1,
        "the case that the ask alone serves better"
    );
}

#[test]
fn part_is_served_by_any_of_its_tools() {
    let line = r#"{"catalog":"c","text":"both","parts":[
        {"text":"left","tools":["a","b"]},{"text":"right","tools":["c"]}]}"#;
    let cases = read(&[("parts.jsonl", &line.replace('\n', ""))]).expect("one case");
    let mut script = Script::new(&[("both", &[("b", 0.9)]), ("right", &[("c", 0.9)])]);
    let report = script.measure(&cases, 9);
    check_rate(report.parts.all_served_in_8, 1, 0.0);
    check_rate(report.parts.served_in_8, 1, 0.5);
    check_rate(report.parts.asked_alone_in_8, 2, 0.5);
    assert_eq!(
        report.missed[0].needed,
        ["c"],
        "the tools of the part that is not served"
    );
}

#[test]
fn invalid_case_is_refused_with_its_place() {
    check_refused(
        "smalltalk.jsonl",
        "{\"text\":\"a\"}\n\n[1]",
        3,
        "not a case of small talk",
    );
    check_refused("smalltalk.jsonl", "{\"text\":\"a\"", 1, "EOF");
    check_refused(
        "smalltalk.jsonl",
        "{\"txt\":\"a\"}",
        1,
        "missing field `text`",
    );
    let no_tools = CONVERSATION.replace(r#","tools":["a"]"#, "");
    let lines = format!("{CONVERSATION}\n{no_tools}");
    check_refused("conversations.jsonl", &lines, 2, "missing field `tools`");
    for messages in ["[]", "[1]", r#"[1,{"role":"user","content":"x"}]"#] {
        let line = format!(r#"{{"catalog":"c","messages":{messages},"tools":[]}}"#);
        check_refused("conversations.jsonl", &line, 1, "`messages` is");
    }
    let line = r#"{"catalog":"c","text":"x","ask":"y","tools":[]}"#;
    check_refused("paste.jsonl", line, 1, "`tools` is empty");
    check_refused(
        "parts.jsonl",
        r#"{"text":"x","parts":[]}"#,
        1,
        "`parts` is empty",
    );
    let line = r#"{"text":"x","parts":[{"text":"y","tools":[]}]}"#;
    check_refused("parts.jsonl", line, 1, "`tools` is empty");
    check_refused(
        "parts.jsonl",
        r#"{"catalog":7}"#,
        1,
        "not a case of requests",
    );
}

#[test]
fn folder_without_cases_is_refused() {
    let error = read(&[("readme.md", "x"), ("smalltalk.jsonl", "\n")]).expect_err("no case");
    assert!(
        error
            .to_string()
            .contains("has no case; add smalltalk*.jsonl"),
        "{error}"
    );
    let nowhere = TalkCases::read(std::path::Path::new("nowhere")).expect_err("no folder");
    assert!(matches!(nowhere, EvalError::Read { .. }));
}

#[test]
fn unread_files_and_missing_kinds_are_listed() {
    let cases = read(&[
        ("conversations.a.jsonl", CONVERSATION),
        ("conversations.b.jsonl", CONVERSATION),
        ("long.jsonl", "no JSON"),
    ]);
    let cases = cases.expect("two cases");
    let (kinds, ignored) = (cases.missing(), cases.ignored_files());
    assert_eq!(
        kinds,
        [TalkKind::SmallTalk, TalkKind::Paste, TalkKind::Parts]
    );
    assert!(
        ignored.len() == 1 && ignored[0].ends_with("long.jsonl"),
        "{ignored:?}"
    );
    assert_eq!(cases.judgments("c").len(), 2, "both files are read");
}

#[test]
fn unknown_tools_and_catalogs_have_a_place() {
    let unnamed = CONVERSATION.replace(r#""catalog":"c","#, "");
    let lines = format!("{CONVERSATION}\n{unnamed}");
    let cases = read(&[("conversations.jsonl", &lines)]).expect("two cases");
    let error = cases.catalogs().expect_err("one names none").to_string();
    assert!(
        error.contains("conversations.jsonl:2: the case names no catalog"),
        "{error}"
    );
    let cases = cases.with_catalog("only");
    let names: Vec<&str> = cases.catalogs().expect("one name").into_keys().collect();
    assert_eq!(names, ["only"]);
    let error = cases
        .check_tools("only", |_| false)
        .expect_err("no tool is known");
    let error = error.to_string();
    assert!(
        error.contains("conversations.jsonl:1: unknown tool \"a\""),
        "{error}"
    );
    assert!(cases.check_tools("other", |_| false).is_ok());
}
