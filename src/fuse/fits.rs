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
    /// Where sources tell nothing, and where they do.
    calibrations: [Calibration; 2],
}

/// What turns values and signals into a score and an estimate for the request.
#[derive(Debug)]
pub(super) struct Calibration {
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
    /// Of what the retrievers say of its source.
    pub(super) sources: Weights,
    /// Of the largest share that a tool has of what the request's words could score.
    pub(super) coverage: f32,
    pub(super) intercept: f32,
}

impl Fit {
    /// Returns the set for a combination of retrievers.
    pub(super) fn of(retrievers: &[Retriever]) -> &'static Self {
        let combination: usize = retrievers.iter().map(|&retriever| 1 << retriever as usize).sum();
        // Without a signal there is nothing to weigh, and any set does.
        &FITS[combination.saturating_sub(1)]
    }

    /// Returns what holds where sources tell something, or do not.
    pub(super) fn calibration(&self, with_sources: bool) -> &Calibration {
        &self.calibrations[usize::from(with_sources)]
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
const fn fit(value: [f32; 3], sources: [f32; 3], softening: f32, calibrations: [Calibration; 2]) -> Fit {
    Fit { value: Weights(value), sources: Weights(sources), softening, calibrations }
}

const fn calibration(relevance: [f32; 4], signals: [f32; 3], sources: [f32; 3], rest: [f32; 2]) -> Calibration {
    let [distance, of_answerable, crowd, intercept] = relevance;
    let relevance = Relevance { distance, answerable: of_answerable, crowd, intercept };
    let [coverage, intercept] = rest;
    let answerable = Answerable { signals: Weights(signals), sources: Weights(sources), coverage, intercept };
    Calibration { relevance, answerable }
}

/// One set for each combination of retrievers, at one less than the sum of `1 << retriever`.
#[rustfmt::skip]
static FITS: [Fit; 7] = [
    // keyword
    fit([0.4513, 0.0000, 0.0000], [0.2708, 0.0000, 0.0000], 0.0000, [
        calibration([0.4244, 1.0813, -1.1980, -1.6451], [0.0453, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [2.3976, 0.1662]),
        calibration([0.4204, 0.3949, -1.9675, -0.4418], [0.0476, 0.0000, 0.0000], [0.1239, 0.0000, 0.0000], [0.9397, 0.8572]),
    ]),
    // static
    fit([0.0000, 23.6585, 0.0000], [0.0000, 11.8226, 0.0000], 0.0000, [
        calibration([0.7413, 0.4994, -1.8400, 0.3377], [0.0000, 4.7217, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, -0.8665]),
        calibration([0.7309, -0.1147, -2.2646, 1.4003], [0.0000, 3.4490, 0.0000], [0.0000, 5.6166, 0.0000], [0.0000, 0.2101]),
    ]),
    // keyword, static
    fit([0.1834, 22.9569, 0.0000], [0.2524, 10.3430, 0.0000], 0.0488, [
        calibration([0.7871, 0.6584, -1.8127, 0.2338], [0.0338, 2.2509, 0.0000], [0.0000, 0.0000, 0.0000], [2.0153, -0.6607]),
        calibration([0.7517, 0.2937, -2.3503, 0.7128], [0.0391, 1.0277, 0.0000], [0.0720, 4.2367, 0.0000], [0.8049, 0.4786]),
    ]),
    // model
    fit([0.0000, 0.0000, 25.4002], [0.0000, 0.0000, 16.7080], 0.0000, [
        calibration([0.7818, 0.4185, -2.0306, 0.7997], [0.0000, 0.0000, 6.0128], [0.0000, 0.0000, 0.0000], [0.0000, -1.3404]),
        calibration([0.7820, 0.0416, -2.3571, 1.3767], [0.0000, 0.0000, 6.3302], [0.0000, 0.0000, 9.2276], [0.0000, -2.1011]),
    ]),
    // keyword, model
    fit([0.1290, 0.0000, 28.1290], [0.1988, 0.0000, 17.4916], 0.0316, [
        calibration([0.8427, 0.5363, -2.0600, 0.7898], [0.0279, 0.0000, 3.7162], [0.0000, 0.0000, 0.0000], [1.7394, -1.1050]),
        calibration([0.8176, 0.1982, -2.4098, 1.1887], [0.0251, 0.0000, 4.4672], [0.0361, 0.0000, 9.5659], [0.6595, -1.7154]),
    ]),
    // static, model
    fit([0.0000, 5.9807, 20.9808], [0.0000, 1.2286, 16.6024], 0.0000, [
        calibration([0.7716, 0.4212, -2.0188, 0.8101], [0.0000, 1.1960, 5.0245], [0.0000, 0.0000, 0.0000], [0.0000, -1.4411]),
        calibration([0.7714, 0.0364, -2.3574, 1.3991], [0.0000, 0.6417, 5.7321], [0.0000, -2.1808, 10.5080], [0.0000, -1.9649]),
    ]),
    // keyword, static, model
    fit([0.1166, 3.4354, 26.5727], [0.1915, 0.0029, 17.8863], 0.0324, [
        calibration([0.8588, 0.5084, -2.0835, 0.8859], [0.0270, 0.2398, 3.5840], [0.0000, 0.0000, 0.0000], [1.7227, -1.1403]),
        calibration([0.8273, 0.1957, -2.4018, 1.2067], [0.0270, -0.3682, 4.6627], [0.0515, -2.8573, 10.5260], [0.7067, -1.5862]),
    ]),
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
                let [without, with] = &fit.calibrations;
                let weights = [&fit.value, &fit.sources, &without.answerable.signals, &with.answerable.signals];
                let weights = weights.map(|weights| weights.of(retriever).abs() > 0.0);
                assert_eq!(weights, [in_it(retriever); 4], "{combination:?}: {retriever:?}");
                let of_sources = [without, with].map(|fit| fit.answerable.sources.of(retriever).abs() > 0.0);
                assert_eq!(of_sources, [false, in_it(retriever)], "{combination:?}: {retriever:?}");
            }
            for calibration in &fit.calibrations {
                let covers = calibration.answerable.coverage > 0.0;
                assert_eq!(covers, in_it(Retriever::Keyword), "{combination:?}");
            }
            assert_eq!(fit.softening > 0.0, in_it(Retriever::Keyword) && combination.len() > 1, "{combination:?}");
        }
    }
}
