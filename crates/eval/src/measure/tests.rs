//! Measures compared with stored figures, a naive oracle and edge cases.

use proptest::prelude::*;

use super::super::{Qrels, Run, RunEntry, evaluate};
use super::*;

/// An independent implementation of the measures from their definitions.
mod naive {
    use std::collections::BTreeMap;

    pub(super) fn score(
        name: &str,
        k: usize,
        ranking: &[String],
        grades: &BTreeMap<String, i32>,
    ) -> f64 {
        let mut top: Vec<&String> = Vec::new();
        for tool in ranking {
            if !top.contains(&tool) {
                top.push(tool);
            }
        }
        top.truncate(k);
        let relevant: Vec<&String> = grades.keys().filter(|tool| grades[*tool] >= 1).collect();
        if relevant.is_empty() {
            return 0.0;
        }
        let hits = |n: usize| {
            top.iter()
                .take(n)
                .filter(|tool| relevant.contains(tool))
                .count() as f64
        };
        match name {
            "nDCG" => {
                let gained: Vec<i32> = top
                    .iter()
                    .map(|tool| *grades.get(*tool).unwrap_or(&0))
                    .collect();
                let mut best: Vec<i32> = grades.values().copied().collect();
                best.sort_by_key(|grade| -grade);
                best.truncate(k);
                dcg(&gained) / dcg(&best)
            }
            "R" => hits(k) / relevant.len() as f64,
            "Success" if hits(k) > 0.0 => 1.0,
            "Completeness" if relevant.iter().all(|tool| top.contains(tool)) => 1.0,
            "RR" => {
                let ranks = (1..=top.len()).map(|rank| {
                    if hits(rank) > 0.0 {
                        1.0 / rank as f64
                    } else {
                        0.0
                    }
                });
                ranks.fold(0.0, f64::max)
            }
            "AP" => {
                let mut sum = 0.0;
                for rank in 1..=top.len() {
                    if relevant.contains(&top[rank - 1]) {
                        sum += hits(rank) / rank as f64;
                    }
                }
                sum / relevant.len() as f64
            }
            _ => 0.0,
        }
    }

    fn dcg(grades: &[i32]) -> f64 {
        let mut sum = 0.0;
        for (index, grade) in grades.iter().enumerate() {
            let gain = if *grade > 0 {
                2_f64.powi(*grade) - 1.0
            } else {
                0.0
            };
            sum += gain * 2_f64.ln() / (index as f64 + 2.0).ln();
        }
        sum
    }
}

fn parse(text: &str) -> Measure {
    text.parse().expect("a known measure")
}

fn check_score(measure: &str, ranking: &[&str], grades: &[(&str, i32)], expected: f64) {
    let judgments: Judgments = grades.iter().copied().collect();
    let score = parse(measure).score(ranking, &judgments);
    assert!(
        (score - expected).abs() < 1e-9,
        "{measure} is {score}, not {expected}"
    );
}

#[test]
fn edge_cases_of_each_measure() {
    let three = [("a", 1), ("b", 1), ("c", 1)];
    check_score("R@1", &["a", "b"], &three, 1.0 / 3.0);
    check_score("Completeness@2", &["a", "b", "c"], &three, 0.0);
    check_score("Completeness@3", &["a", "b", "c"], &three, 1.0);
    check_score("AP@2", &["a", "b", "c"], &three, 2.0 / 3.0);
    check_score("AP@10", &["x", "a"], &three, 0.5 / 3.0);
    check_score("RR@1", &["x", "a"], &three, 0.0);
    check_score(
        "nDCG@10",
        &["b", "a"],
        &[("a", 2), ("b", 1)],
        0.796_707_580_990_113_7,
    );
    for measure in Measure::STANDARD.map(|measure| measure.to_string()) {
        check_score(&measure, &[], &three, 0.0);
        check_score(&measure, &["a"], &[], 0.0);
        check_score(&measure, &["a"], &[("a", 0), ("b", -1)], 0.0);
        check_score(&measure, &["a"], &[("a", 1), ("b", -1)], 1.0);
    }
}

#[test]
fn duplicate_counts_once_at_its_first_position() {
    check_score("AP@3", &["a", "a", "a", "b"], &[("a", 1), ("b", 1)], 1.0);
    check_score("R@2", &["x", "x", "a"], &[("a", 1)], 1.0);
}

#[test]
fn extreme_grades_and_cutoffs_stay_finite() {
    check_score(
        "nDCG@18446744073709551615",
        &["a", "b"],
        &[("a", i32::MAX), ("b", i32::MIN)],
        1.0,
    );
}

#[test]
fn figures_equal_the_reference_script() {
    // The project's independent scoring script gave these on this run and these qrels, by query and
    // as the mean over all five; AP, which the script does not have, was computed from its reader.
    let qrels = "q1\ta\t1\nq1\tb\t2\nq1\tc\t0\nq1\td\t3\nq2\te\t1\nq2\tf\t1\nq2\tg\t1\nq3\tb\t1\n\
                 q4\th\t2\nq4\ti\t1\nq5\ttool with spaces\t1\nq5\ta\t1\n";
    let qrels = Qrels::parse(qrels.as_bytes(), "qrels.tsv".as_ref()).expect("well formed");
    let mut run = Run::default();
    for (query, ranking) in [
        ("q1", "x,b,a,b,d,c"),
        ("q2", "x1,x2,e,x3,x4,x5,f,x6,x7,x8,g"),
        ("q3", "b"),
        ("q5", "y,tool with spaces,a"),
    ] {
        let entry = |tool: &str| RunEntry {
            tool: tool.to_owned(),
            score: 0.0,
        };
        run.insert(query, ranking.split(',').map(entry).collect());
    }
    let scores = evaluate(&run, &qrels, &Measure::STANDARD);
    let mean = scores.mean();
    for (name, by_query, expected) in [
        ("nDCG@5", [0.5757, 0.2346, 1.0, 0.0, 0.6934], 0.5008),
        ("nDCG@10", [0.5757, 0.3911, 1.0, 0.0, 0.6934], 0.5320),
        ("R@1", [0.0, 0.0, 1.0, 0.0, 0.0], 0.2),
        ("R@3", [0.6667, 0.3333, 1.0, 0.0, 1.0], 0.6),
        ("R@5", [1.0, 0.3333, 1.0, 0.0, 1.0], 0.6667),
        ("R@10", [1.0, 0.6667, 1.0, 0.0, 1.0], 0.7333),
        ("Success@1", [0.0, 0.0, 1.0, 0.0, 0.0], 0.2),
        ("Success@5", [1.0, 1.0, 1.0, 0.0, 1.0], 0.8),
        ("Completeness@10", [1.0, 0.0, 1.0, 0.0, 1.0], 0.6),
        ("RR@10", [0.5, 0.3333, 1.0, 0.0, 0.5], 0.4667),
        ("AP@10", [0.6389, 0.2063, 1.0, 0.0, 0.5833], 0.4857),
    ] {
        let measure = parse(name);
        for (query, expected) in ["q1", "q2", "q3", "q4", "q5"].into_iter().zip(by_query) {
            let score = scores.get(query, measure).expect("the query was scored");
            assert!(
                (score - expected).abs() < 0.000_05,
                "{name} of {query} is {score}, not {expected}"
            );
        }
        assert!(
            (mean[&measure] - expected).abs() < 0.000_05,
            "{name} is {}",
            mean[&measure]
        );
    }
}

#[test]
fn standard_measures_are_ordered_and_round_trip() {
    let printed = Measure::STANDARD
        .map(|measure| measure.to_string())
        .join(" ");
    assert_eq!(
        printed,
        "nDCG@5 nDCG@10 R@1 R@3 R@5 R@10 Success@1 Success@5 Completeness@10 RR@10 AP@10"
    );
    assert!(Measure::STANDARD.is_sorted());
    assert!(
        Measure::STANDARD
            .iter()
            .eq(&printed.split(' ').map(parse).collect::<Vec<_>>())
    );
}

#[test]
fn names_ignore_case_and_pad() {
    assert_eq!(parse("ndcg@10"), parse("nDCG@10"));
    assert_eq!(format!("{:>8}|", parse("r@1")), "     R@1|");
}

#[test]
fn invalid_measure_is_explained() {
    for (text, message) in [
        (
            "MAP@10",
            "unknown measure \"MAP@10\"; write one of nDCG@k, R@k",
        ),
        ("", "unknown measure \"\""),
        (
            "R",
            "measure \"R\" has no usable cutoff; write a whole number of 1 or more after @, as in R@10",
        ),
        ("R@", "measure \"R@\" has no usable cutoff"),
        ("R@0", "measure \"R@0\" has no usable cutoff"),
        ("R@+1", "measure \"R@+1\" has no usable cutoff"),
        ("R@1@2", "measure \"R@1@2\" has no usable cutoff"),
        (
            "R@99999999999999999999",
            "measure \"R@99999999999999999999\" has no usable cutoff",
        ),
    ] {
        let error = text
            .parse::<Measure>()
            .expect_err("the text is refused")
            .to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn serde_uses_the_printed_form() {
    let json = serde_json::to_string(&Measure::STANDARD[..2]).expect("plain data");
    assert_eq!(json, r#"["nDCG@5","nDCG@10"]"#);
    let parsed: Vec<Measure> = serde_json::from_str(&json).expect("known measures");
    assert_eq!(parsed, Measure::STANDARD[..2]);
    assert!(serde_json::from_str::<Measure>("\"R@0\"").is_err());
}

proptest! {
    #[test]
    fn scores_equal_the_naive_oracle(
        ranking in prop::collection::vec("[a-j]", 0..20),
        grades in prop::collection::btree_map("[a-l]", -1..5_i32, 0..12),
        cutoff in 1..15_usize,
    ) {
        let judgments: Judgments = grades.clone().into_iter().collect();
        for kind in MeasureKind::ALL {
            let measure = parse(&format!("{}@{cutoff}", kind.name()));
            let score = measure.score(&ranking, &judgments);
            let expected = naive::score(kind.name(), cutoff, &ranking, &grades);
            prop_assert!((score - expected).abs() < 1e-12, "{measure} is {score}, not {expected}");
            prop_assert!((0.0..=1.0 + 1e-12).contains(&score));
        }
    }

    #[test]
    fn any_measure_round_trips(kind in prop::sample::select(&MeasureKind::ALL[..]), cutoff in 1..usize::MAX) {
        let measure = Measure::new(kind, NonZeroUsize::new(cutoff).expect("at least 1"));
        prop_assert_eq!(parse(&measure.to_string()), measure);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,12}@?\\PC{0,6}") {
        drop(text.parse::<Measure>());
    }
}
