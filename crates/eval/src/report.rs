//! The report of an evaluation: plain data with a version, for JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::files::excerpt;
use super::{
    Abstention, ConfidenceInterval, EvalError, IneligibleJudgments, Measure, PerQuery,
    ScoreCalibration,
};

/// The version of the report's JSON form; it changes if a field changes its meaning or is removed.
pub const REPORT_VERSION: u32 = 1;

/// The latency of queries, in microseconds.
///
/// A percentile is by nearest rank: the smallest time that at least that share of the queries did
/// not exceed. It is therefore always a measured time (Hyndman and Fan, *Sample quantiles in
/// statistical packages*, The American Statistician 50(4), 1996, definition 1).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The longest time.
    pub max: f64,
}

impl Latency {
    /// Summarises the times of single queries, in any order; `None` without times.
    ///
    /// # Complexity
    ///
    /// `O(n log n)`.
    pub fn from_durations(durations: &[Duration]) -> Option<Self> {
        let mut nanoseconds: Vec<u128> = durations.iter().map(Duration::as_nanos).collect();
        nanoseconds.sort_unstable();
        let max = *nanoseconds.last()?;
        let count = nanoseconds.len();
        // Integers keep the rank exact: 0.9 × 10 in floating point need not be 9.
        let percentile = |percent: usize| {
            let rank = (percent * count).div_ceil(100);
            microseconds(nanoseconds[rank - 1])
        };
        let total: u128 = nanoseconds.iter().sum();
        Some(Self {
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
            mean: microseconds(total) / count as f64,
            max: microseconds(max),
        })
    }
}

fn microseconds(nanoseconds: u128) -> f64 {
    nanoseconds as f64 / 1000.0
}

/// The result on one set of queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetReport {
    /// Tools in the catalog.
    pub tools: usize,
    /// Tools that a pack of examples has requests for, if a pack was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack_tools: Option<usize>,
    /// Queries that were scored: those with a relevant judgment.
    pub queries: usize,
    /// Judged queries that no tool answers, left out of the measures; not serialised when 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_answer: usize,
    /// The mean of each measure over the scored queries, between 0 and 1; empty without queries.
    pub measures: BTreeMap<Measure, f64>,
    /// The confidence intervals of these means, if they were computed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub intervals: BTreeMap<Measure, ConfidenceInterval>,
    /// The relevant tools that the access policy excludes, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ineligible_judged: Option<IneligibleJudgments>,
    /// The latency of queries, in microseconds, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// The agreement of scores with the judgments, if scores are probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<ScoreCalibration>,
    /// The ability of the engine to abstain, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abstention: Option<Abstention>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl SetReport {
    /// Computes the means from the scores of each query; `tools` is the catalog's size.
    pub fn new(tools: usize, scores: &PerQuery, latency_us: Option<Latency>) -> Self {
        Self {
            tools,
            pack_tools: None,
            queries: scores.len(),
            no_answer: scores.no_answer(),
            measures: scores.mean(),
            intervals: BTreeMap::new(),
            ineligible_judged: None,
            latency_us,
            calibration: None,
            abstention: None,
        }
    }
}

/// The results on all sets, with the mean over them.
///
/// It serialises to
/// `{"version":1,"sets":{NAME:{"tools":N,"queries":N,"measures":{…},"latency_us":{…}}},"mean":{…}}`,
/// with `intervals` in each set and `mean_intervals` if they were computed. The sets have the given order, and the measures that of [`Measure::STANDARD`].
#[derive(Clone, Debug, PartialEq)]
pub struct EvalReport {
    sets: Vec<(String, SetReport)>,
    mean: BTreeMap<Measure, f64>,
    mean_intervals: BTreeMap<Measure, ConfidenceInterval>,
}

impl EvalReport {
    /// Collects the sets, in the order of the report.
    ///
    /// The mean of a measure is unweighted over the sets that have it. A small set counts as much
    /// as a large one, and a set without a scored query does not count.
    ///
    /// # Errors
    ///
    /// [`EvalError::DuplicateSet`] if two sets have one name, since a JSON object cannot contain
    /// both.
    pub fn new(sets: Vec<(String, SetReport)>) -> Result<Self, EvalError> {
        let mut names = BTreeSet::new();
        if let Some((name, _)) = sets.iter().find(|(name, _)| !names.insert(name)) {
            return Err(EvalError::DuplicateSet {
                name: excerpt(name),
            });
        }
        let mut totals: BTreeMap<Measure, (f64, usize)> = BTreeMap::new();
        for (_, set) in &sets {
            for (&measure, &value) in &set.measures {
                let (sum, count) = totals.entry(measure).or_default();
                *sum += value;
                *count += 1;
            }
        }
        let mut mean = BTreeMap::new();
        for (measure, (sum, count)) in totals {
            mean.insert(measure, sum / count as f64);
        }
        Ok(Self {
            sets,
            mean,
            mean_intervals: BTreeMap::new(),
        })
    }

    /// Sets the confidence intervals of the means over the sets.
    #[must_use]
    pub fn with_mean_intervals(mut self, intervals: BTreeMap<Measure, ConfidenceInterval>) -> Self {
        self.mean_intervals = intervals;
        self
    }

    /// Returns the sets with their names, in the given order.
    pub fn sets(&self) -> &[(String, SetReport)] {
        &self.sets
    }

    /// Returns the unweighted mean of each measure over the sets that have it.
    pub fn mean(&self) -> &BTreeMap<Measure, f64> {
        &self.mean
    }

    /// Returns the confidence intervals of [`EvalReport::mean`]; empty if they were not computed.
    pub fn mean_intervals(&self) -> &BTreeMap<Measure, ConfidenceInterval> {
        &self.mean_intervals
    }

    /// Computes the unweighted mean of another figure over the sets that have it; `None` if no set
    /// has it.
    pub fn average(&self, figure: impl Fn(&SetReport) -> Option<f64>) -> Option<f64> {
        let mut figures = Vec::new();
        for (_, set) in &self.sets {
            figures.extend(figure(set));
        }
        if figures.is_empty() {
            return None;
        }
        Some(figures.iter().sum::<f64>() / figures.len() as f64)
    }
}

/// The report of one ranking configuration; several are evaluated on the same sets.
///
/// It serialises to
/// `{"name":NAME,"sets":{…},"mean":{…},"mean_ece":E,"mean_auroc":A,"mean_latency_us":{"p50":…,"p99":…}}`.
/// Figures that were not measured are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationReport {
    /// The unique name of the configuration.
    pub name: String,
    /// Its results.
    pub report: EvalReport,
}

impl ConfigurationReport {
    /// Returns the mean expected calibration error over the sets, if scores are probabilities.
    pub fn ece(&self) -> Option<f64> {
        self.report
            .average(|set| Some(set.calibration.as_ref()?.ece))
    }

    /// Returns the mean of [`Abstention::auroc`] over the sets, if it was measured.
    pub fn auroc(&self) -> Option<f64> {
        self.report.average(|set| Some(set.abstention?.auroc))
    }

    /// Returns the mean over the sets of a percentile of the latency, in microseconds, if it was
    /// measured.
    pub fn latency_us(&self, percentile: fn(&Latency) -> f64) -> Option<f64> {
        self.report
            .average(|set| Some(percentile(set.latency_us.as_ref()?)))
    }
}

impl Serialize for ConfigurationReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut configuration = serializer.serialize_map(None)?;
        configuration.serialize_entry("name", &self.name)?;
        configuration.serialize_entry("sets", &InOrder(&self.report.sets))?;
        configuration.serialize_entry("mean", &self.report.mean)?;
        if !self.report.mean_intervals.is_empty() {
            configuration.serialize_entry("mean_intervals", &self.report.mean_intervals)?;
        }
        for (name, figure) in [("mean_ece", self.ece()), ("mean_auroc", self.auroc())] {
            if let Some(figure) = figure {
                configuration.serialize_entry(name, &figure)?;
            }
        }
        if let (Some(p50), Some(p99)) = (
            self.latency_us(|latency| latency.p50),
            self.latency_us(|latency| latency.p99),
        ) {
            configuration.serialize_entry(
                "mean_latency_us",
                &BTreeMap::from([("p50", p50), ("p99", p99)]),
            )?;
        }
        configuration.end()
    }
}

impl Serialize for EvalReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_map(None)?;
        report.serialize_entry("version", &REPORT_VERSION)?;
        report.serialize_entry("sets", &InOrder(&self.sets))?;
        report.serialize_entry("mean", &self.mean)?;
        if !self.mean_intervals.is_empty() {
            report.serialize_entry("mean_intervals", &self.mean_intervals)?;
        }
        report.end()
    }
}

/// Named values as a JSON object in their order, which no map of the standard library keeps.
struct InOrder<'a, T>(&'a [(String, T)]);

impl<T: Serialize> Serialize for InOrder<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Qrels, Run, RunEntry, evaluate};
    use super::*;

    fn set(measure: &str, value: f64) -> SetReport {
        let measures = BTreeMap::from([(measure.parse().expect("a known measure"), value)]);
        SetReport {
            tools: 3,
            queries: 2,
            no_answer: 0,
            measures,
            intervals: BTreeMap::new(),
            ineligible_judged: None,
            latency_us: None,
            calibration: None,
            abstention: None,
            pack_tools: None,
        }
    }

    fn ranked(tools: &[&str]) -> Vec<RunEntry> {
        tools
            .iter()
            .map(|tool| RunEntry {
                tool: (*tool).to_owned(),
                score: 0.0,
            })
            .collect()
    }

    #[test]
    fn json_form_is_fixed() {
        let mut second = set("RR@10", 0.5);
        second
            .measures
            .insert("nDCG@10".parse().expect("a known measure"), 0.25);
        second.no_answer = 4;
        second.latency_us =
            Latency::from_durations(&[Duration::from_nanos(1_500), Duration::from_micros(3)]);
        let report = EvalReport::new(vec![
            ("zebra".to_owned(), set("nDCG@10", 0.75)),
            ("ant".to_owned(), second),
        ])
        .expect("two names");
        assert_eq!(
            serde_json::to_string(&report).expect("plain data"),
            concat!(
                r#"{"version":1,"sets":{"zebra":{"tools":3,"queries":2,"measures":{"nDCG@10":0.75}},"#,
                r#""ant":{"tools":3,"queries":2,"no_answer":4,"measures":{"nDCG@10":0.25,"RR@10":0.5},"#,
                r#""latency_us":{"p50":1.5,"p90":3.0,"p99":3.0,"mean":2.25,"max":3.0}}},"#,
                r#""mean":{"nDCG@10":0.5,"RR@10":0.5}}"#
            )
        );
    }

    #[test]
    fn configuration_has_means_over_its_measured_sets() {
        let (mut first, second) = (set("nDCG@10", 0.75), set("nDCG@10", 0.25));
        first.latency_us = Latency::from_durations(&[Duration::from_micros(3)]);
        first.abstention = Abstention::new(&[1.0], &[0.0]);
        let report = EvalReport::new(vec![("b".to_owned(), first), ("a".to_owned(), second)])
            .expect("two names");
        assert_eq!(report.average(|set| Some(set.tools as f64)), Some(3.0));
        let configuration = ConfigurationReport {
            name: "keyword".to_owned(),
            report,
        };
        assert_eq!(
            (configuration.auroc(), configuration.ece()),
            (Some(1.0), None)
        );
        let json = serde_json::to_string(&configuration).expect("plain data");
        assert!(
            json.starts_with(r#"{"name":"keyword","sets":{"b":{"tools":3,"#),
            "{json}"
        );
        let means =
            r#""mean":{"nDCG@10":0.5},"mean_auroc":1.0,"mean_latency_us":{"p50":3.0,"p99":3.0}}"#;
        assert!(json.ends_with(means), "{json}");
    }

    #[test]
    fn intervals_are_serialised_beside_the_means() {
        let recall: Measure = "R@1".parse().expect("a known measure");
        let intervals = BTreeMap::from([(
            recall,
            ConfidenceInterval {
                low: 0.25,
                high: 0.75,
            },
        )]);
        let mut measured = set("R@1", 0.5);
        measured.intervals.clone_from(&intervals);
        let report = EvalReport::new(vec![("a".to_owned(), measured)]).expect("one name");
        let report = report.with_mean_intervals(intervals);
        let json = serde_json::to_value(&report).expect("plain data");
        let interval = serde_json::json!({"R@1": {"low": 0.25, "high": 0.75}});
        assert_eq!(json["sets"]["a"]["intervals"], interval);
        assert_eq!(json["mean_intervals"], interval);
        let configuration = ConfigurationReport {
            name: "keyword".to_owned(),
            report,
        };
        let json = serde_json::to_value(&configuration).expect("plain data");
        assert_eq!(json["mean_intervals"], interval);
    }

    #[test]
    fn measures_print_in_the_standard_order() {
        let mut qrels = Qrels::default();
        qrels.insert("q", "a", 1);
        let scores = evaluate(&Run::default(), &qrels, &Measure::STANDARD);
        let json =
            serde_json::to_string(&SetReport::new(1, &scores, None).measures).expect("plain data");
        let printed: Vec<String> = Measure::STANDARD
            .iter()
            .map(|measure| format!("\"{measure}\":0.0"))
            .collect();
        assert_eq!(json, format!("{{{}}}", printed.join(",")));
    }

    #[test]
    fn duplicate_set_name_is_refused() {
        let sets = vec![
            ("a".to_owned(), set("R@1", 0.0)),
            ("a".to_owned(), set("R@1", 1.0)),
        ];
        assert!(matches!(
            EvalReport::new(sets),
            Err(EvalError::DuplicateSet { .. })
        ));
    }

    #[test]
    fn every_query_counts_as_documented() {
        let mut qrels = Qrels::default();
        for (query, grade) in [("answered", 1), ("missing", 1), ("unanswerable", 0)] {
            qrels.insert(query, "a", grade);
        }
        let mut run = Run::default();
        for query in ["answered", "unanswerable", "unjudged"] {
            run.insert(query, ranked(&["a"]));
        }
        let recall: Measure = "R@1".parse().expect("a known measure");
        let scores = evaluate(&run, &qrels, &[recall, recall]);
        assert_eq!(
            (
                scores.len(),
                scores.unanswered(),
                scores.no_answer(),
                scores.unjudged()
            ),
            (2, 1, 1, 1)
        );
        assert_eq!(
            (
                scores.get("answered", recall),
                scores.get("missing", recall)
            ),
            (Some(1.0), Some(0.0))
        );
        assert_eq!(scores.get("unanswerable", recall), None);
        let report = SetReport::new(9, &scores, None);
        assert_eq!((report.queries, report.no_answer), (2, 1));
        assert_eq!(report.measures, BTreeMap::from([(recall, 0.5)]));
    }

    #[test]
    fn set_without_scored_queries_does_not_lower_the_mean() {
        let empty = SetReport::new(
            1,
            &evaluate(&Run::default(), &Qrels::default(), &Measure::STANDARD),
            None,
        );
        assert!(empty.measures.is_empty());
        let sets = vec![("a".to_owned(), set("R@1", 0.5)), ("b".to_owned(), empty)];
        let report = EvalReport::new(sets).expect("two names");
        assert_eq!(report.mean().values().copied().collect::<Vec<_>>(), [0.5]);
        assert!(
            EvalReport::new(Vec::new())
                .expect("no sets")
                .mean()
                .is_empty()
        );
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
        let latency = Latency::from_durations(&times).expect("there are times");
        assert_eq!(
            latency,
            Latency {
                p50: 100.0,
                p90: 180.0,
                p99: 198.0,
                mean: 100.5,
                max: 200.0
            }
        );
        let one = Latency::from_durations(&times[..1]).expect("there is one");
        assert_eq!(
            one,
            Latency {
                p50: 200.0,
                p90: 200.0,
                p99: 200.0,
                mean: 200.0,
                max: 200.0
            }
        );
        assert_eq!(Latency::from_durations(&[]), None);
    }
}
