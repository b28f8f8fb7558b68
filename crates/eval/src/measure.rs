//! Measures: parsing, printing and scoring of one ranking.

use std::collections::HashSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::files::excerpt;
use super::{EvalError, Judgments};

/// The largest grade with a gain of its own; larger grades gain as much.
///
/// The gain `2^g - 1` would overflow to infinity at 1,024, and so would the mean. Usual grades are
/// 1 to 4.
const MAX_GRADE: i32 = 100;

/// The quantity that a [`Measure`] computes within its cutoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MeasureKind {
    /// `nDCG`: graded usefulness, discounted by rank, relative to the best possible ranking.
    Ndcg,
    /// `R`: the share of the relevant tools that were ranked.
    Recall,
    /// `Success`: 1 if any relevant tool was ranked.
    Success,
    /// `Completeness`: 1 if every relevant tool was ranked.
    Completeness,
    /// `RR`: one over the rank of the first relevant tool.
    ReciprocalRank,
    /// `AP`: precision averaged over the ranks of the relevant tools.
    AveragePrecision,
}

impl MeasureKind {
    /// Every kind, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Ndcg,
        Self::Recall,
        Self::Success,
        Self::Completeness,
        Self::ReciprocalRank,
        Self::AveragePrecision,
    ];

    /// Returns the name, which is printed before the `@`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ndcg => "nDCG",
            Self::Recall => "R",
            Self::Success => "Success",
            Self::Completeness => "Completeness",
            Self::ReciprocalRank => "RR",
            Self::AveragePrecision => "AP",
        }
    }
}

/// A measure with its cutoff, such as `nDCG@10`.
///
/// It is parsed from its printed form, ignoring case in the name, and serialised as that string.
/// Measures are ordered by kind, then cutoff, as in [`Measure::STANDARD`]. An ordered map of
/// measures therefore has the order of a report.
///
/// All scores are between 0 and 1. With `k` the cutoff, `g(i)` the grade at rank `i` (from 1; 0 for
/// an unjudged tool or a negative grade) and `N` the number of relevant tools:
///
/// | measure | score |
/// |---|---|
/// | `nDCG@k` | `DCG / ideal DCG`, `DCG = Σ_{i≤k} (2^g(i) - 1) / log2(i + 1)`; the ideal ranks all judged tools by grade |
/// | `R@k` | relevant within `k`, over `N` |
/// | `Success@k` | 1 if any relevant tool is within `k` |
/// | `Completeness@k` | 1 if all `N` are within `k`; 0 when `N > k` |
/// | `RR@k` | `1 / i` for the first relevant `i ≤ k`, otherwise 0 |
/// | `AP@k` | `Σ_{relevant i≤k} precision(i) / N`, dividing by all `N` even when `N > k` |
///
/// Discounted gain is Järvelin and Kekäläinen, *Cumulated gain-based evaluation of IR techniques*,
/// ACM TOIS 20(4), 2002, with the exponential gain of Burges et al., *Learning to rank using
/// gradient descent*, ICML 2005. Reciprocal rank is Voorhees, *The TREC-8 question answering track
/// report*, 1999; average precision is Buckley and Voorhees, *Evaluating evaluation measure
/// stability*, SIGIR 2000; completeness is the COMP@k of Qu et al., *Towards completeness-oriented
/// tool retrieval for large language models*, CIKM 2024. Names follow `ir_measures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Measure {
    kind: MeasureKind,
    cutoff: NonZeroUsize,
}

impl Measure {
    /// The measures that every report shows, in their order.
    pub const STANDARD: [Self; 11] = [
        Self::at(MeasureKind::Ndcg, 5),
        Self::at(MeasureKind::Ndcg, 10),
        Self::at(MeasureKind::Recall, 1),
        Self::at(MeasureKind::Recall, 3),
        Self::at(MeasureKind::Recall, 5),
        Self::at(MeasureKind::Recall, 10),
        Self::at(MeasureKind::Success, 1),
        Self::at(MeasureKind::Success, 5),
        Self::at(MeasureKind::Completeness, 10),
        Self::at(MeasureKind::ReciprocalRank, 10),
        Self::at(MeasureKind::AveragePrecision, 10),
    ];

    /// The measures for a quick comparison of rankings; if there is room for only one, the first.
    pub const SUMMARY: [Self; 5] = [
        Self::at(MeasureKind::Ndcg, 10),
        Self::at(MeasureKind::Recall, 5),
        Self::at(MeasureKind::Recall, 10),
        Self::at(MeasureKind::Success, 1),
        Self::at(MeasureKind::Completeness, 10),
    ];

    /// Creates a measure of the first `cutoff` tools.
    pub const fn new(kind: MeasureKind, cutoff: NonZeroUsize) -> Self {
        Self { kind, cutoff }
    }

    /// Creates a constant; `cutoff` is a literal of 1 or more.
    const fn at(kind: MeasureKind, cutoff: usize) -> Self {
        Self::new(kind, NonZeroUsize::MIN.saturating_add(cutoff - 1))
    }

    /// Returns the computed quantity.
    pub const fn kind(self) -> MeasureKind {
        self.kind
    }

    /// Returns the number of examined tools, from the top.
    pub const fn cutoff(self) -> usize {
        self.cutoff.get()
    }

    /// Scores one ranking, best first, between 0 and 1.
    ///
    /// A duplicate tool counts at its first position only, and the rest move up. Without a relevant
    /// judgment every measure is 0 by convention; [`evaluate`](super::evaluate()) leaves such
    /// queries out.
    ///
    /// # Complexity
    ///
    /// `O(k + j log j)` for `j` judgments, plus any duplicates that are skipped.
    pub fn score<S: AsRef<str>>(self, ranking: &[S], judgments: &Judgments) -> f64 {
        let cutoff = self.cutoff();
        let relevant = judgments.relevant_len();
        if relevant == 0 {
            return 0.0;
        }
        let grades = first_grades(ranking, judgments, cutoff);
        let hits = grades.iter().filter(|&&grade| grade > 0).count();
        match self.kind {
            MeasureKind::Ndcg => {
                let mut ideal = Vec::new();
                for (_, grade) in judgments.iter() {
                    ideal.push(grade);
                }
                ideal.sort_unstable_by(|a, b| b.cmp(a));
                ideal.truncate(cutoff);
                discounted_gain(&grades) / discounted_gain(&ideal)
            }
            MeasureKind::Recall => hits as f64 / relevant as f64,
            MeasureKind::Success => f64::from(u8::from(hits > 0)),
            MeasureKind::Completeness => f64::from(u8::from(hits == relevant)),
            MeasureKind::ReciprocalRank => match grades.iter().position(|&grade| grade > 0) {
                Some(index) => 1.0 / (index + 1) as f64,
                None => 0.0,
            },
            MeasureKind::AveragePrecision => precision_sum(&grades) / relevant as f64,
        }
    }
}

/// Returns the grades of the first `cutoff` distinct tools.
fn first_grades<S: AsRef<str>>(ranking: &[S], judgments: &Judgments, cutoff: usize) -> Vec<i32> {
    let mut ranked = HashSet::new();
    let mut grades = Vec::new();
    for tool in ranking {
        if grades.len() == cutoff {
            break;
        }
        if ranked.insert(tool.as_ref()) {
            grades.push(judgments.grade(tool.as_ref()).unwrap_or(0));
        }
    }
    grades
}

fn discounted_gain(grades: &[i32]) -> f64 {
    let mut sum = 0.0;
    for (index, &grade) in grades.iter().enumerate() {
        let gain = f64::from(grade.clamp(0, MAX_GRADE)).exp2() - 1.0;
        sum += gain / ((index + 2) as f64).log2();
    }
    sum
}

fn precision_sum(grades: &[i32]) -> f64 {
    let mut sum = 0.0;
    let mut hits = 0;
    for (index, &grade) in grades.iter().enumerate() {
        if grade > 0 {
            hits += 1;
            sum += f64::from(hits) / (index + 1) as f64;
        }
    }
    sum
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` respects a width in the format string, which aligns tables.
        f.pad(&format!("{}@{}", self.kind.name(), self.cutoff))
    }
}

impl FromStr for Measure {
    type Err = EvalError;

    /// Parses `name@cutoff`, ignoring the case of the name.
    ///
    /// # Errors
    ///
    /// [`EvalError::UnknownMeasure`] if the name is not one of [`MeasureKind::ALL`];
    /// [`EvalError::BadCutoff`] if the cutoff is missing, zero or not a whole number.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, digits) = text.split_once('@').unwrap_or((text, ""));
        let kind = MeasureKind::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name));
        let Some(kind) = kind else {
            return Err(EvalError::UnknownMeasure {
                text: excerpt(text),
            });
        };
        // `parse` alone would also accept a sign.
        let has_only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        match digits.parse() {
            Ok(cutoff) if has_only_digits => Ok(Self::new(kind, cutoff)),
            _ => Err(EvalError::BadCutoff {
                text: excerpt(text),
                kind: kind.name(),
            }),
        }
    }
}

impl Serialize for Measure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Measure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
