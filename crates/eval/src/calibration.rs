//! Whether scores mean what they say, and whether an engine knows when to abstain.

use serde::Serialize;

use super::{Qrels, Run};

/// How many bins a reliability table has; each holds the same number of tools.
pub const RELIABILITY_BINS: usize = 15;

/// How well scores, read as probabilities of relevance, agree with the judgments of the tools
/// returned.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Calibration {
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
    /// How many there are.
    pub tools: usize,
    /// Their mean score.
    pub score: f64,
    /// The share of them that is relevant.
    pub relevant: f64,
}

impl Calibration {
    /// Compares the scores of a run with the judgments; `None` when no judged query has a tool.
    /// Scores must be probabilities.
    ///
    /// Queries that no tool answers are left out, as they are of the measures.
    pub fn new(run: &Run, qrels: &Qrels) -> Option<Self> {
        Self::of_sets([(run, qrels)])
    }

    /// Does the same over several sets together, where every returned tool counts alike.
    pub fn of_sets<'a>(sets: impl IntoIterator<Item = (&'a Run, &'a Qrels)>) -> Option<Self> {
        let mut tools: Vec<(f64, f64)> = Vec::new();
        for (run, qrels) in sets {
            for (query, judgments) in qrels
                .iter()
                .filter(|(_, judgments)| judgments.relevant_len() > 0)
            {
                let relevant =
                    |tool: &str| f64::from(judgments.grade(tool).is_some_and(|grade| grade > 0));
                let ranking = run.get(query).unwrap_or_default().iter();
                tools.extend(ranking.map(|entry| (entry.score, relevant(&entry.tool))));
            }
        }
        if tools.is_empty() {
            return None;
        }
        // The order within a score is that of the queries, so that equal runs have equal bins.
        tools.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count = tools.len() as f64;
        let base_rate = tools.iter().map(|tool| tool.1).sum::<f64>() / count;
        let brier = |estimate: &dyn Fn(f64) -> f64| {
            tools
                .iter()
                .map(|&(score, relevant)| (estimate(score) - relevant).powi(2))
                .sum::<f64>()
                / count
        };
        let bins = RELIABILITY_BINS.min(tools.len());
        let bins: Vec<ReliabilityBin> = (0..bins)
            .map(|bin| {
                let part = &tools[bin * tools.len() / bins..(bin + 1) * tools.len() / bins];
                let mean = |of: fn(&(f64, f64)) -> f64| {
                    part.iter().map(of).sum::<f64>() / part.len() as f64
                };
                ReliabilityBin {
                    tools: part.len(),
                    score: mean(|tool| tool.0),
                    relevant: mean(|tool| tool.1),
                }
            })
            .collect();
        let distance =
            |bin: &ReliabilityBin| bin.tools as f64 / count * (bin.score - bin.relevant).abs();
        Some(Self {
            tools: tools.len(),
            base_rate,
            ece: bins.iter().map(distance).sum(),
            brier: brier(&|score| score),
            base_rate_brier: brier(&|_| base_rate),
            bins,
        })
    }
}

/// How well an estimate tells queries that a tool answers from the same queries when those tools
/// are out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Abstention {
    /// How many queries were asked both ways.
    pub queries: usize,
    /// The probability that a query with its tools has a higher estimate than another without (the
    /// area under the receiver operating characteristic); ties count half. 0.5 is chance, 1 is
    /// perfect.
    pub auroc: f64,
}

impl Abstention {
    /// Compares the estimates with the relevant tools there and without; `None` when either is
    /// empty.
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
        // Twice the number of pairs won, ties once.
        let won = |estimate: &f64| {
            let below = sorted.partition_point(|other| other < estimate);
            below + sorted.partition_point(|other| other <= estimate)
        };
        let won: usize = with.iter().map(won).sum();
        Some(Self {
            queries: with.len(),
            auroc: won as f64 / 2.0 / (with.len() * without.len()) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::RunEntry;
    use super::*;
    use proptest::prelude::*;

    fn calibration(tools: &[(f64, bool)]) -> Option<Calibration> {
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
        Calibration::new(&run, &qrels)
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn figures_of_a_worked_example() {
        let found =
            calibration(&[(0.2, false), (0.9, true), (0.4, true)]).expect("there are tools");
        assert_eq!((found.tools, found.bins.len()), (3, 3));
        assert!(close(found.base_rate, 2.0 / 3.0));
        assert!(close(found.ece, (0.2 + 0.1 + 0.6) / 3.0), "{}", found.ece);
        assert!(
            close(found.brier, (0.04 + 0.01 + 0.36) / 3.0),
            "{}",
            found.brier
        );
        assert!(
            close(found.base_rate_brier, 2.0 / 9.0),
            "{}",
            found.base_rate_brier
        );
        assert!(calibration(&[]).is_none());
    }

    #[test]
    fn a_bin_averages_its_tools() {
        // 30 tools: two a bin, one of which is relevant.
        let tools: Vec<(f64, bool)> = (0..30)
            .map(|index| (f64::from(index / 2) / 15.0, index % 2 == 0))
            .collect();
        let found = calibration(&tools).expect("there are tools");
        assert_eq!(found.bins.len(), RELIABILITY_BINS);
        assert!(
            found
                .bins
                .iter()
                .all(|bin| bin.tools == 2 && close(bin.relevant, 0.5))
        );
        assert!(close(found.bins[3].score, 3.0 / 15.0));
    }

    #[test]
    fn sets_together_are_one_set_of_their_tools() {
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
        let together = Calibration::of_sets([(&first.0, &first.1), (&second.0, &second.1)]);
        assert_eq!(
            together,
            calibration(&[(0.2, false), (0.9, true), (0.4, true)])
        );
        assert!(Calibration::of_sets([]).is_none());
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
        assert!(Calibration::new(&run, &qrels).is_none());
    }

    #[test]
    fn abstention_is_the_share_of_pairs_in_order() {
        let found = Abstention::new(&[0.9, 0.5], &[0.1, 0.5, 0.7]).expect("both are there");
        assert_eq!(found.queries, 2);
        assert!(close(found.auroc, (3.0 + 1.5) / 6.0), "{}", found.auroc);
        assert!(Abstention::new(&[], &[0.5]).is_none());
    }

    proptest! {
        #[test]
        fn abstention_equals_its_definition(
            with in prop::collection::vec(0u8..6, 1..20),
            without in prop::collection::vec(0u8..6, 1..20),
        ) {
            let estimates = |of: &[u8]| of.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
            let pairs = with.iter().flat_map(|a| without.iter().map(move |b| (a, b)));
            let won: f64 = pairs.map(|(a, b)| if a > b { 1.0 } else if a == b { 0.5 } else { 0.0 }).sum();
            let expected = won / (with.len() * without.len()) as f64;
            let found = Abstention::new(&estimates(&with), &estimates(&without)).expect("both are there");
            prop_assert!(close(found.auroc, expected));
        }
    }
}
