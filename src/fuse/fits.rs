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
    fit([0.4517, 0.0000, 0.0000], [0.2709, 0.0000, 0.0000], 0.0000, [
        calibration([0.4240, 1.0815, -1.1976, -1.6461], [0.0453, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [2.3976, 0.1662]),
        calibration([0.4199, 0.3949, -1.9673, -0.4431], [0.0476, 0.0000, 0.0000], [0.1238, 0.0000, 0.0000], [0.9395, 0.8577]),
    ]),
    // static
    fit([0.0000, 23.6453, 0.0000], [0.0000, 10.9724, 0.0000], 0.0000, [
        calibration([0.7418, 0.4993, -1.8400, 0.3385], [0.0000, 4.7217, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, -0.8665]),
        calibration([0.7296, -0.1161, -2.2581, 1.3953], [0.0000, 3.4925, 0.0000], [0.0000, 4.7637, 0.0000], [0.0000, 0.2199]),
    ]),
    // keyword, static
    fit([0.1840, 22.9381, 0.0000], [0.2498, 10.3010, 0.0000], 0.0489, [
        calibration([0.7862, 0.6594, -1.8131, 0.2306], [0.0338, 2.2471, 0.0000], [0.0000, 0.0000, 0.0000], [2.0158, -0.6594]),
        calibration([0.7505, 0.2973, -2.3453, 0.6999], [0.0389, 1.0759, 0.0000], [0.0737, 3.5242, 0.0000], [0.7983, 0.4889]),
    ]),
    // model
    fit([0.0000, 0.0000, 25.4049], [0.0000, 0.0000, 14.3126], 0.0000, [
        calibration([0.7816, 0.4186, -2.0304, 0.7992], [0.0000, 0.0000, 6.0128], [0.0000, 0.0000, 0.0000], [0.0000, -1.3404]),
        calibration([0.7802, 0.0517, -2.3509, 1.3466], [0.0000, 0.0000, 6.4155], [0.0000, 0.0000, 7.2682], [0.0000, -1.9907]),
    ]),
    // keyword, model
    fit([0.1298, 0.0000, 28.2565], [0.1980, 0.0000, 15.5860], 0.0324, [
        calibration([0.8426, 0.5366, -2.0566, 0.7873], [0.0279, 0.0000, 3.7083], [0.0000, 0.0000, 0.0000], [1.7407, -1.1026]),
        calibration([0.8166, 0.2079, -2.3978, 1.1580], [0.0247, 0.0000, 4.5799], [0.0388, 0.0000, 7.4462], [0.6207, -1.5970]),
    ]),
    // static, model
    fit([0.0000, 6.0495, 20.9274], [0.0000, 0.4152, 14.4416], 0.0000, [
        calibration([0.7715, 0.4209, -2.0197, 0.8110], [0.0000, 1.1993, 5.0213], [0.0000, 0.0000, 0.0000], [0.0000, -1.4411]),
        calibration([0.7703, 0.0467, -2.3531, 1.3706], [0.0000, 0.6629, 5.8071], [0.0000, -2.1972, 8.4750], [0.0000, -1.8419]),
    ]),
    // keyword, static, model
    fit([0.1172, 3.5795, 26.5769], [0.1921, -1.0759, 16.3017], 0.0331, [
        calibration([0.8601, 0.5077, -2.0859, 0.8908], [0.0271, 0.2599, 3.5596], [0.0000, 0.0000, 0.0000], [1.7235, -1.1392]),
        calibration([0.8277, 0.2047, -2.3954, 1.1831], [0.0266, -0.3431, 4.7336], [0.0557, -2.8802, 8.5628], [0.6773, -1.4795]),
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
