//! Document scores from the contributions of a request's terms.
//!
//! A term contributes to the complete request and to each sentence that contains it. Sentences are
//! summed one after the other. So a posting changes two sums at most, and a request of one sentence
//! needs one sum.

use pulp::{Arch, NullaryFnOnce};

use super::query_term::QueryTerm;

/// Scores `documents` documents by the terms of a request with `sentences` sentences. The score is
/// half the sum over all terms and half the largest sum over the terms of one sentence.
///
/// `contributions` gives the position of every document that contains a term, with the term's
/// contribution to its score, which is never negative. Sums follow the order of the terms.
pub(super) fn half_best<'t, 'q: 't, T, I: Iterator<Item = (usize, f32)>>(
    documents: usize,
    sentences: usize,
    terms: &'t [T],
    query: impl Fn(&T) -> &QueryTerm<'q>,
    contributions: impl Fn(&'t T) -> I,
) -> Vec<f32> {
    let mut total = vec![0.0; documents];
    if sentences < 2 {
        for term in terms {
            contributions(term)
                .for_each(|(document, contribution)| total[document] += contribution);
        }
        return total;
    }
    let (mut best, mut sentence_sum) = (vec![0.0_f32; documents], vec![0.0; documents]);
    for sentence in 0..sentences {
        for term in terms.iter().filter(|term| query(term).is_in(sentence)) {
            let contributions = contributions(term);
            // New terms of a sentence come after those of earlier sentences. So the complete sum
            // follows the order of the terms as well.
            if query(term).first_sentence() == sentence {
                contributions.for_each(|(document, contribution)| {
                    total[document] += contribution;
                    sentence_sum[document] += contribution;
                });
            } else {
                contributions
                    .for_each(|(document, contribution)| sentence_sum[document] += contribution);
            }
        }
        Arch::new().dispatch(KeepLarger {
            best: &mut best,
            sentence_sum: &mut sentence_sum,
        });
    }
    Arch::new().dispatch(Midpoints {
        total: &mut total,
        best: &best,
    });
    total
}

/// The loop that keeps the larger sum of each document and clears the sums of the sentence. It is
/// compiled for each set of vector instructions, and the processor selects the version. The same
/// holds for [`Midpoints`].
struct KeepLarger<'a> {
    best: &'a mut [f32],
    sentence_sum: &'a mut [f32],
}

impl NullaryFnOnce for KeepLarger<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (best, sentence_sum) in self.best.iter_mut().zip(self.sentence_sum) {
            *best = if *sentence_sum > *best {
                *sentence_sum
            } else {
                *best
            };
            *sentence_sum = 0.0;
        }
    }
}

/// The loop that computes the midpoint of the complete sum and the best sum of each document.
struct Midpoints<'a> {
    total: &'a mut [f32],
    best: &'a [f32],
}

impl NullaryFnOnce for Midpoints<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (total, best) in self.total.iter_mut().zip(self.best) {
            *total = f32::midpoint(*total, *best);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::MAX_SENTENCES;
    use crate::retrieve::query_terms;

    /// Computes the same scores with all sums side by side.
    fn naive(documents: usize, terms: &[QueryTerm], contributions: &[Vec<f32>]) -> Vec<f32> {
        let score = |document: usize| {
            let (mut total, mut by_sentence) = (0.0, [0.0_f32; MAX_SENTENCES]);
            for (term, contributions) in terms.iter().zip(contributions) {
                total += contributions[document];
                term.sentences()
                    .for_each(|sentence| by_sentence[sentence] += contributions[document]);
            }
            f32::midpoint(total, by_sentence.into_iter().fold(0.0, f32::max))
        };
        (0..documents).map(score).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]
        #[test]
        fn score_is_half_the_total_and_half_the_best_sentence(
            sentences in prop::collection::vec("([a-e]x ){0,6}", 1..5),
            seeds in prop::collection::vec(0.0..3.0_f32, 90),
        ) {
            let terms = query_terms(&sentences.iter().map(String::as_str).collect::<Vec<_>>());
            // A third of the documents contain a term.
            let contribution = |term: usize, document: usize| {
                (seeds[(7 * term + 31 * document) % 90] - 2.0).max(0.0)
            };
            let contributions: Vec<Vec<f32>> = (0..terms.len())
                .map(|term| (0..3).map(|document| contribution(term, document)).collect())
                .collect();
            let index = |term: &QueryTerm| {
                terms.iter().position(|other| other == term).expect("a known term")
            };
            let scores = half_best(3, sentences.len(), &terms, |term| term, |term| {
                contributions[index(term)].iter().copied().enumerate()
            });
            let bits = |scores: Vec<f32>| scores.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            prop_assert_eq!(bits(scores), bits(naive(3, &terms, &contributions)));
        }
    }
}
