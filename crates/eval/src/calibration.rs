//! ScoreCalibration of scores, and the ability of an engine to abstain.

use serde::Serialize;

use super::{Qrels, Run};

/// The number of bins of a reliability table; each has the same number of tools.
pub const RELIABILITY_BINS: usize = 15;

/// The agreement of scores, read as probabilities of relevance, with the judgments of the returned
/// tools.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScoreCalibration {
    /// Returned tools of the judged queries, at least 1.
    pub tools: usize,
    /// The share of them that is relevant, 0..1; a tool without a judgment counts as not relevant.
    pub base_rate: f64,
    /// Expected calibration error, 0..1: the mean distance between score and share of relevant
    /// tools over [`RELIABILITY_BINS`] bins of equal mass (Naeini, Cooper, Hauskrecht, *Obtaining
    /// well calibrated probabilities using Bayesian binning*, AAAI 2015).
    pub ece: f64,
    /// The mean squared distance between score and relevance, 0..1 (Brier 1950).
    pub brier: f64,
    /// The Brier score of always saying the base rate.
    pub base_rate_brier: f64,
    /// The reliability table, in order of score.
    pub bins: Vec<ReliabilityBin>,
}

/// Returned tools of similar score.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReliabilityBin {
    /// The number of tools.
    pub tools: usize,
    /// Their mean score.
    pub score: f64,
    /// The share of them that is relevant.
    pub relevant: f64,
}

impl ScoreCalibration {
    /// Compares the scores of a run with the judgments; `None` if no judged query has a tool.
    /// Scores must be probabilities.
    ///
    /// Queries that no tool answers are left out, as in the measures.
    pub fn new(run: &Run, qrels: &Qrels) -> Option<Self> {
        Self::from_sets([(run, qrels)])
    }

    /// Compares several sets together; every returned tool has the same weight.
    pub fn from_sets<'a>(sets: impl IntoIterator<Item = (&'a Run, &'a Qrels)>) -> Option<Self> {
        let mut tools = Vec::new();
        for (run, qrels) in sets {
            for (query, judgments) in qrels.iter() {
                if judgments.relevant_len() == 0 {
                    continue;
                }
                for entry in run.get(query).unwrap_or_default() {
                    let is_relevant = judgments.grade(&entry.tool).is_some_and(|grade| grade > 0);
                    tools.push(ScoredTool {
                        score: entry.score,
                        relevance: f64::from(is_relevant),
                    });
                }
            }
        }
        if tools.is_empty() {
            return None;
        }
        // The sort is stable, so that equal runs have equal bins.
        tools.sort_by(|a, b| a.score.total_cmp(&b.score));
        let count = tools.len() as f64;
        let base_rate = mean(&tools, |tool| tool.relevance);
        let bin_count = RELIABILITY_BINS.min(tools.len());
        let mut bins = Vec::new();
        let mut ece = 0.0;
        for bin in 0..bin_count {
            let start = bin * tools.len() / bin_count;
            let end = (bin + 1) * tools.len() / bin_count;
            let part = &tools[start..end];
            let bin = ReliabilityBin {
                tools: part.len(),
                score: mean(part, |tool| tool.score),
                relevant: mean(part, |tool| tool.relevance),
            };
            ece += bin.tools as f64 / count * (bin.score - bin.relevant).abs();
            bins.push(bin);
        }
        Some(Self {
            tools: tools.len(),
            base_rate,
            ece,
            brier: mean(&tools, |tool| (tool.score - tool.relevance).powi(2)),
            base_rate_brier: mean(&tools, |tool| (base_rate - tool.relevance).powi(2)),
            bins,
        })
    }
}

/// A returned tool with its score and its relevance, 0 or 1.
struct ScoredTool {
    score: f64,
    relevance: f64,
}

fn mean(tools: &[ScoredTool], value: impl Fn(&ScoredTool) -> f64) -> f64 {
    tools.iter().map(value).sum::<f64>() / tools.len() as f64
}

/// The ability of an estimate to separate queries that a tool answers from the same queries without
/// those tools.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Abstention {
    /// The number of queries that were asked with and without their tools.
    pub queries: usize,
    /// The probability that a query with its tools has a higher estimate than another without (the
    /// area under the receiver operating characteristic); ties count half. 0.5 is chance, 1 is
    /// perfect.
    pub auroc: f64,
}

impl Abstention {
    /// Compares the estimates with and without the relevant tools; `None` if either list is empty.
    ///
    /// # Complexity
    ///
    /// `O(n log n)`.
    pub fn new(with: &[f64], without: &[f64]) -> Option<Self> {
        if with.is_empty() || without.is_empty() {
            return None;
        }
        let mut sorted = without.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Twice the number of pairs in the right order; a tie counts once.
        let mut doubled_wins = 0;
        for estimate in with {
            doubled_wins += sorted.partition_point(|other| other < estimate);
            doubled_wins += sorted.partition_point(|other| other <= estimate);
        }
        Some(Self {
            queries: with.len(),
            auroc: doubled_wins as f64 / 2.0 / (with.len() * without.len()) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::RunEntry;
    use super::*;
    use proptest::prelude::*;

    fn calibrate(tools: &[(f64, bool)]) -> Option<ScoreCalibration> {
        let mut run = Run::default();
        let mut qrels = Qrels::default();
        for (index, &(score, relevant)) in tools.iter().enumerate() {
            let query = format!("q{index}");
            qrels.insert(&*query, "another", 1);
            qrels.insert(&*query, "tool", i32::from(relevant));
            run.insert(
                query,
                vec![RunEntry {
                    tool: "tool".to_owned(),
                    score,
                }],
            );
        }
        ScoreCalibration::new(&run, &qrels)
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn calibration_equals_a_worked_example() {
        let calibration =
            calibrate(&[(0.2, false), (0.9, true), (0.4, true)]).expect("there are tools");
        assert_eq!((calibration.tools, calibration.bins.len()), (3, 3));
        assert!(close(calibration.base_rate, 2.0 / 3.0));
        assert!(
            close(calibration.ece, (0.2 + 0.1 + 0.6) / 3.0),
            "{}",
            calibration.ece
        );
        assert!(
            close(calibration.brier, (0.04 + 0.01 + 0.36) / 3.0),
            "{}",
            calibration.brier
        );
        assert!(
            close(calibration.base_rate_brier, 2.0 / 9.0),
            "{}",
            calibration.base_rate_brier
        );
        assert!(calibrate(&[]).is_none());
    }

    #[test]
    fn bin_averages_its_tools() {
        // 30 tools: two a bin, one of which is relevant.
        let tools: Vec<(f64, bool)> = (0..30)
            .map(|index| (f64::from(index / 2) / 15.0, index % 2 == 0))
            .collect();
        let calibration = calibrate(&tools).expect("there are tools");
        assert_eq!(calibration.bins.len(), RELIABILITY_BINS);
        assert!(
            calibration
                .bins
                .iter()
                .all(|bin| bin.tools == 2 && close(bin.relevant, 0.5))
        );
        assert!(close(calibration.bins[3].score, 3.0 / 15.0));
    }

    #[test]
    fn several_sets_are_compared_like_one_set() {
        let part = |tools: &[(f64, bool)]| {
            let mut run = Run::default();
            let mut qrels = Qrels::default();
            for (index, &(score, relevant)) in tools.iter().enumerate() {
                qrels.insert(
                    format!("q{index}"),
                    if relevant { "tool" } else { "another" },
                    1,
                );
                run.insert(
                    format!("q{index}"),
                    vec![RunEntry {
                        tool: "tool".to_owned(),
                        score,
                    }],
                );
            }
            (run, qrels)
        };
        let (first, second) = (part(&[(0.2, false), (0.9, true)]), part(&[(0.4, true)]));
        let together = ScoreCalibration::from_sets([(&first.0, &first.1), (&second.0, &second.1)]);
        assert_eq!(
            together,
            calibrate(&[(0.2, false), (0.9, true), (0.4, true)])
        );
        assert!(ScoreCalibration::from_sets([]).is_none());
    }

    #[test]
    fn queries_without_an_answer_are_left_out() {
        let mut run = Run::default();
        run.insert(
            "q",
            vec![RunEntry {
                tool: "tool".to_owned(),
                score: 0.5,
            }],
        );
        let mut qrels = Qrels::default();
        qrels.insert("q", "tool", 0);
        assert!(ScoreCalibration::new(&run, &qrels).is_none());
    }

    #[test]
    fn abstention_is_the_share_of_ordered_pairs() {
        let abstention = Abstention::new(&[0.9, 0.5], &[0.1, 0.5, 0.7]).expect("both are there");
        assert_eq!(abstention.queries, 2);
        assert!(
            close(abstention.auroc, (3.0 + 1.5) / 6.0),
            "{}",
            abstention.auroc
        );
        assert!(Abstention::new(&[], &[0.5]).is_none());
    }

    proptest! {
        #[test]
        fn abstention_equals_its_definition(
            with in prop::collection::vec(0u8..6, 1..20),
            without in prop::collection::vec(0u8..6, 1..20),
        ) {
            let estimates = |values: &[u8]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let pairs = with.iter().flat_map(|a| without.iter().map(move |b| (a, b)));
            let won: f64 = pairs.map(|(a, b)| if a > b { 1.0 } else if a == b { 0.5 } else { 0.0 }).sum();
            let expected = won / (with.len() * without.len()) as f64;
            let abstention = Abstention::new(&estimates(&with), &estimates(&without)).expect("both are there");
            prop_assert!(close(abstention.auroc, expected));
        }
    }
}
