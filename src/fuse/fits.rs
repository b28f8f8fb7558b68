//! The fitted constants, one set for each combination of signals. `models/train/fusion/fit.py` prints the sets.

use super::Retriever;

/// What turns the signals of one combination of retrievers into a value, a score and an estimate for the request.
#[derive(Debug)]
pub(super) struct Fit {
    /// What a unit of each signal adds to the value; of the semantic ones, before softening.
    value: Weights,
    /// What a unit of what each retriever says of the tool's source adds; of the semantic ones, before softening.
    sources: Weights,
    /// How fast the semantic signals lose weight: at a best keyword score of `b`, they have `1 / (1 + softening * b)`.
    softening: f32,
    pub(super) relevance: Relevance,
    pub(super) answerable: Answerable,
}

/// A weight for a unit of each retriever's signal, BM25 or a cosine of 1, in the order of [`Retriever`]; 0 where the
/// combination is without it.
#[derive(Debug)]
pub(super) struct Weights([f32; 3]);

impl Weights {
    pub(super) fn of(&self, retriever: Retriever) -> f32 {
        self.0[retriever as usize]
    }
}

/// A logistic function (Platt 1999) that gives the probability that a tool is relevant.
#[derive(Debug)]
pub(super) struct Relevance {
    /// Of how far the tool's value lies above the best one: never positive.
    pub(super) distance: f32,
    /// Of the evidence that any tool is relevant.
    pub(super) answerable: f32,
    /// Of how many of the best tools rival the best one, as a logarithm.
    pub(super) crowd: f32,
    pub(super) intercept: f32,
}

/// A logistic function that gives the probability that any tool is relevant, where four requests of five have one.
#[derive(Debug)]
pub(super) struct Answerable {
    /// Of the signals of the best tool.
    pub(super) signals: Weights,
    /// Of the largest share that a tool has of what the request's words could score.
    pub(super) coverage: f32,
    /// Of how many of the best tools rival the best one, as a logarithm.
    pub(super) crowd: f32,
    pub(super) intercept: f32,
}

impl Fit {
    /// Returns the set for a combination of retrievers.
    pub(super) fn of(retrievers: &[Retriever]) -> &'static Self {
        let combination: usize = retrievers.iter().map(|&retriever| 1 << retriever as usize).sum();
        // Without a signal there is nothing to weigh, and any set does.
        &FITS[combination.saturating_sub(1)]
    }

    /// Returns what a unit of the retriever's signal adds to the value, at a request whose best keyword score is
    /// `best_keyword`.
    pub(super) fn weight(&self, retriever: Retriever, best_keyword: f32) -> f32 {
        self.value.of(retriever) * self.softened(retriever, best_keyword)
    }

    /// Returns what a unit of what the retriever says of the tool's source adds.
    pub(super) fn source_weight(&self, retriever: Retriever, best_keyword: f32) -> f32 {
        self.sources.of(retriever) * self.softened(retriever, best_keyword)
    }

    fn softened(&self, retriever: Retriever, best_keyword: f32) -> f32 {
        match retriever {
            Retriever::Keyword => 1.0,
            Retriever::Static | Retriever::Model => 1.0 / (1.0 + self.softening * best_keyword),
        }
    }
}

/// Numbers in the order in which [`Fit`] and its parts name them.
const fn fit(value: [f32; 3], sources: [f32; 3], softening: f32, relevance: [f32; 4], answerable: [f32; 6]) -> Fit {
    let [distance, of_answerable, crowd, intercept] = relevance;
    let relevance = Relevance { distance, answerable: of_answerable, crowd, intercept };
    let [keyword, static_model, model, coverage, crowd, intercept] = answerable;
    let answerable = Answerable { signals: Weights([keyword, static_model, model]), coverage, crowd, intercept };
    Fit { value: Weights(value), sources: Weights(sources), softening, relevance, answerable }
}

/// One set for each combination of retrievers, at one less than the sum of `1 << retriever`.
#[rustfmt::skip]
static FITS: [Fit; 7] = [
    // keyword
    fit([0.5114, 0.0000, 0.0000], [0.3000, 0.0000, 0.0000], 0.0000, [0.3735, 0.6029, -1.5001, -0.5730], [0.0387, 0.0000, 0.0000, 3.5663, 0.0000, -0.2966]),
    // static
    fit([0.0000, 24.7405, 0.0000], [0.0000, 10.0000, 0.0000], 0.0000, [0.7238, 0.5761, -1.8516, 0.3800], [0.0000, 4.1489, 0.0000, 0.0000, 0.0000, -0.9173]),
    // keyword, static
    fit([0.2036, 26.8051, 0.0000], [0.3000, 10.0000, 0.0000], 0.0641, [0.7403, 0.4778, -1.8867, 0.6776], [0.0292, 1.9968, 0.0000, 3.1455, 0.0000, -1.0495]),
    // model
    fit([0.0000, 0.0000, 25.3861], [0.0000, 0.0000, 10.0000], 0.0000, [0.7878, 0.4776, -1.9826, 0.8158], [0.0000, 0.0000, 5.3312, 0.0000, 0.0000, -1.3995]),
    // keyword, model
    fit([0.1462, 0.0000, 29.8935], [0.3000, 0.0000, 10.0000], 0.0429, [0.8149, 0.4377, -2.0014, 1.0124], [0.0239, 0.0000, 3.2907, 2.8226, 0.0000, -1.4623]),
    // static, model
    fit([0.0000, 7.3006, 19.3131], [0.0000, 10.0000, 10.0000], 0.0000, [0.7672, 0.4606, -1.9540, 0.8292], [0.0000, 0.8730, 4.5617, 0.0000, 0.0000, -1.4462]),
    // keyword, static, model
    fit([0.1313, 6.9145, 26.0372], [0.3000, 10.0000, 10.0000], 0.0460, [0.8256, 0.4056, -1.9974, 1.0850], [0.0243, -0.0820, 3.2930, 2.8317, 0.0000, -1.4270]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_signals_weighs_those_and_no_others() {
        let all = [Retriever::Keyword, Retriever::Static, Retriever::Model];
        for chosen in 1..8_usize {
            let in_it = |retriever: Retriever| chosen >> (retriever as usize) & 1 == 1;
            let combination: Vec<Retriever> = all.into_iter().filter(|&retriever| in_it(retriever)).collect();
            let fit = Fit::of(&combination);
            for retriever in all {
                let weights = [&fit.value, &fit.answerable.signals].map(|weights| weights.of(retriever).abs() > 0.0);
                assert_eq!(weights, [in_it(retriever); 2], "{combination:?}: {retriever:?}");
                assert_eq!(fit.sources.of(retriever) > 0.0, in_it(retriever), "{combination:?}: {retriever:?}");
            }
            assert_eq!(fit.answerable.coverage > 0.0, in_it(Retriever::Keyword), "{combination:?}");
            assert_eq!(fit.softening > 0.0, in_it(Retriever::Keyword) && combination.len() > 1, "{combination:?}");
        }
    }
}
