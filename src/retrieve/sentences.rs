//! From what each term of a request contributes to one score per document.
//!
//! A term contributes to the whole request and to each sentence that it stands in. Sentences are
//! summed one after the other, so that a posting touches two sums at most, and a request of one
//! sentence is one sum.

use super::terms::QueryTerm;

/// Scores so many documents by the terms of a request of `sentences` sentences: half the sum of
/// what all terms contribute, and half that of the terms of one sentence, of the one where it is
/// largest.
///
/// `contributions` gives the place of every document that has a term, and what the term contributes
/// to its score, which is never negative. Whatever is summed, is summed in the order of the terms.
pub(super) fn half_best<'t, 'q: 't, T, I: Iterator<Item = (usize, f32)>>(
    documents: usize,
    sentences: usize,
    terms: &'t [T],
    query: impl Fn(&T) -> &QueryTerm<'q>,
    contributions: impl Fn(&'t T) -> I,
) -> Vec<f32> {
    let mut whole = vec![0.0; documents];
    if sentences < 2 {
        for term in terms {
            contributions(term)
                .for_each(|(document, contribution)| whole[document] += contribution);
        }
        return whole;
    }
    let (mut best, mut own) = (vec![0.0_f32; documents], vec![0.0; documents]);
    for sentence in 0..sentences {
        for term in terms.iter().filter(|term| query(term).is_in(sentence)) {
            let contributions = contributions(term);
            // A sentence has its new terms behind those before, so that the whole is summed in
            // order as well.
            if query(term).first_sentence() == sentence {
                contributions.for_each(|(document, contribution)| {
                    whole[document] += contribution;
                    own[document] += contribution;
                });
            } else {
                contributions.for_each(|(document, contribution)| own[document] += contribution);
            }
        }
        for (best, own) in best.iter_mut().zip(&mut own) {
            *best = best.max(std::mem::take(own));
        }
    }
    whole
        .iter_mut()
        .zip(best)
        .for_each(|(whole, best)| *whole = f32::midpoint(*whole, best));
    whole
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::MAX_SENTENCES;
    use crate::retrieve::query_terms;

    /// The same, with all sums side by side.
    fn naive(documents: usize, terms: &[QueryTerm], contributions: &[Vec<f32>]) -> Vec<f32> {
        let score = |document: usize| {
            let (mut whole, mut by_sentence) = (0.0, [0.0_f32; MAX_SENTENCES]);
            for (term, contributions) in terms.iter().zip(contributions) {
                whole += contributions[document];
                term.sentences()
                    .for_each(|sentence| by_sentence[sentence] += contributions[document]);
            }
            f32::midpoint(whole, by_sentence.into_iter().fold(0.0, f32::max))
        };
        (0..documents).map(score).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn a_score_is_half_the_whole_and_half_the_best_sentence(
            sentences in prop::collection::vec("([a-e]x ){0,6}", 1..5), seeds in prop::collection::vec(0.0..3.0_f32, 90),
        ) {
            let terms = query_terms(&sentences.iter().map(String::as_str).collect::<Vec<_>>());
            let contributions: Vec<Vec<f32>> = (0..terms.len()).map(|term| {
                // A third of the documents have a term.
                (0..3).map(|document| seeds[(7 * term + 31 * document) % 90]).map(|c| (c - 2.0).max(0.0)).collect()
            }).collect();
            let of = |term: &QueryTerm| terms.iter().position(|other| other == term).expect("it is one of them");
            let scores = half_best(3, sentences.len(), &terms, |term| term, |term| {
                contributions[of(term)].iter().copied().enumerate()
            });
            let bits = |scores: Vec<f32>| scores.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            prop_assert_eq!(bits(scores), bits(naive(3, &terms, &contributions)));
        }
    }
}
