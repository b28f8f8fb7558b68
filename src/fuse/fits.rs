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
    /// That a request which no tool serves lies near the subject of a source, where sources tell something, and as many such requests
    /// do as are out of the scope of all.
    pub(super) near: Evidence,
}

/// What turns values and signals into a score and an estimate for the request.
#[derive(Debug)]
pub(super) struct Calibration {
    /// That tools serve such a request at all, by the request alone.
    pub(super) scope: Scope,
    /// That one of these tools serves it, if any would.
    pub(super) answerable: Evidence,
    /// That a tool is relevant, if tools serve such a request.
    pub(super) relevance: Relevance,
}

/// The share of requests that a tool answers is four in five, in the fit one in two: so many times are the odds.
pub(super) const ODDS: f32 = 4.0;

/// A logistic function of what a model says of a request alone.
#[derive(Debug)]
pub(super) struct Scope {
    slope: f32,
    intercept: f32,
}

impl Scope {
    pub(super) fn probability(&self, said: f32) -> f32 {
        super::logistic(self.slope * said + self.intercept)
    }
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

/// A linear function of what is known of a request, of which a logistic function makes a probability.
#[derive(Debug)]
pub(super) struct Evidence {
    /// Of the signals of the best tool.
    pub(super) signals: Weights,
    /// Of the same, times the coverage: the more of a request's words are known, the more its best tool's signals tell.
    pub(super) covered: Weights,
    /// Of what the retrievers say of its source.
    pub(super) sources: Weights,
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
const fn fit(
    value: [f32; 3],
    sources: [f32; 3],
    softening: f32,
    calibrations: [Calibration; 2],
    near: Evidence,
) -> Fit {
    Fit { value: Weights(value), sources: Weights(sources), softening, calibrations, near }
}

const fn evidence(signals: [f32; 3], covered: [f32; 3], sources: [f32; 3], rest: [f32; 3]) -> Evidence {
    let [coverage, crowd, intercept] = rest;
    let [signals, covered, sources] = [Weights(signals), Weights(covered), Weights(sources)];
    Evidence { signals, covered, sources, coverage, crowd, intercept }
}

const fn near(signals: [f32; 3], sources: [f32; 3], rest: [f32; 2]) -> Evidence {
    let [coverage, intercept] = rest;
    evidence(signals, [0.0; 3], sources, [coverage, 0.0, intercept])
}

const fn calibration(
    scope: [f32; 2],
    relevance: [f32; 4],
    signals: [f32; 3],
    covered: [f32; 3],
    sources: [f32; 3],
    rest: [f32; 3],
) -> Calibration {
    let [distance, of_answerable, crowd, intercept] = relevance;
    let relevance = Relevance { distance, answerable: of_answerable, crowd, intercept };
    let [slope, intercept] = scope;
    let scope = Scope { slope, intercept };
    Calibration { scope, relevance, answerable: evidence(signals, covered, sources, rest) }
}

/// One set for each combination of retrievers, at one less than the sum of `1 << retriever`.
#[rustfmt::skip]
static FITS: [Fit; 7] = [
    // keyword
    fit([0.4758, 0.0000, 0.0000], [0.2909, 0.0000, 0.0000], 0.0000, [
        calibration([0.0000, 30.0000], [0.4054, 0.6075, -1.4348, 0.3154], [0.0133, 0.0000, 0.0000], [0.1521, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [1.0918, 0.0000, -1.2294]),
        calibration([0.0000, 30.0000], [0.4297, 0.7495, -1.5837, 0.0537], [0.0077, 0.0000, 0.0000], [0.1512, 0.0000, 0.0000], [0.0307, 0.0000, 0.0000], [0.2650, -0.1966, -0.5472]),
    ], near([0.2984, 0.0000, 0.0000], [0.1479, 0.0000, 0.0000], [-2.6905, -2.1896])),
    // static
    fit([0.0000, 25.4547, 0.0000], [0.0000, 16.9857, 0.0000], 0.0000, [
        calibration([1.1391, 3.1687], [0.7206, 0.5948, -1.9133, 1.2137], [0.0000, 4.3251, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, -2.1789]),
        calibration([1.1391, 3.1687], [0.7105, 0.6359, -1.8640, 0.8096], [0.0000, 3.2020, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, -0.3125, 0.0000], [0.0000, -0.2681, -0.7895]),
    ], near([0.0000, 7.2997, 0.0000], [0.0000, 13.7632, 0.0000], [0.0000, -4.0935])),
    // keyword, static
    fit([0.1766, 25.6419, 0.0000], [0.2251, 17.7398, 0.0000], 0.0427, [
        calibration([1.0463, 2.8004], [0.7666, 0.3693, -1.9691, 1.4669], [0.0112, 1.1392, 0.0000], [0.1095, 2.1796, 0.0000], [0.0000, 0.0000, 0.0000], [0.6892, 0.0000, -1.6486]),
        calibration([1.0463, 2.8004], [0.7444, 0.4024, -2.0548, 1.0991], [0.0164, -0.1852, 0.0000], [0.0869, 3.8756, 0.0000], [-0.0070, 1.3059, 0.0000], [-0.3795, -0.2933, -0.1899]),
    ], near([0.1381, 2.3713, 0.0000], [0.1791, 14.1492, 0.0000], [-1.3776, -3.2941])),
    // model
    fit([0.0000, 0.0000, 25.4020], [0.0000, 0.0000, 16.7126], 0.0000, [
        calibration([0.0000, 30.0000], [0.7797, 0.4338, -2.0240, 1.5106], [0.0000, 0.0000, 5.7313], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, -2.9164]),
        calibration([0.0000, 30.0000], [0.7822, 0.4263, -2.0393, 1.1891], [0.0000, 0.0000, 5.0814], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 2.7547], [0.0000, -0.3533, -2.4818]),
    ], near([0.0000, 0.0000, 12.4375], [0.0000, 0.0000, 5.6298], [0.0000, -5.4896])),
    // keyword, model
    fit([0.1452, 0.0000, 27.6689], [0.2193, 0.0000, 17.0404], 0.0335, [
        calibration([0.0000, 30.0000], [0.8229, 0.3810, -2.0673, 1.7137], [0.0142, 0.0000, 2.0266], [0.0699, 0.0000, 5.5447], [0.0000, 0.0000, 0.0000], [-0.8214, 0.0000, -2.0499]),
        calibration([0.0000, 30.0000], [0.8151, 0.4424, -2.0627, 1.3325], [0.0118, 0.0000, 2.0214], [0.0756, 0.0000, 4.0171], [-0.0014, 0.0000, 4.2290], [-0.8921, -0.3816, -1.7110]),
    ], near([0.0941, 0.0000, 8.8808], [0.2626, 0.0000, 6.6494], [-0.8314, -4.9984])),
    // static, model
    fit([0.0000, 8.5184, 19.0257], [0.0000, 8.7932, 12.1857], 0.0000, [
        calibration([1.1295, 3.5448], [0.7680, 0.4413, -2.0490, 1.5427], [0.0000, 0.9004, 4.8363], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, -2.8543]),
        calibration([1.1295, 3.5448], [0.7706, 0.3884, -2.0741, 1.2272], [0.0000, 0.7448, 4.1714], [0.0000, 0.0000, 0.0000], [0.0000, -3.0979, 4.1446], [0.0000, -0.4055, -2.0371]),
    ], near([0.0000, 1.5214, 9.5604], [0.0000, 14.8784, 0.3090], [0.0000, -5.6205])),
    // keyword, static, model
    fit([0.1205, 7.2090, 24.5152], [0.1957, 8.9368, 14.1117], 0.0362, [
        calibration([1.0287, 3.0815], [0.8477, 0.3130, -2.1190, 1.7943], [0.0146, 0.5881, 1.0807], [0.0725, -4.6564, 10.2193], [0.0000, 0.0000, 0.0000], [-0.6637, 0.0000, -1.9009]),
        calibration([1.0287, 3.0815], [0.8278, 0.3471, -2.1313, 1.3993], [0.0161, -0.4761, 1.7521], [0.0685, -0.7048, 5.7086], [-0.0029, -2.0143, 4.5944], [-0.9681, -0.4164, -1.2298]),
    ], near([0.1135, -2.2825, 9.6882], [0.2288, 12.1701, 0.0875], [-0.9122, -4.9420])),
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
                let of_kinds = [&fit.near.signals, &fit.near.sources].map(|weights| weights.of(retriever).abs() > 0.0);
                assert_eq!(of_kinds, [in_it(retriever); 2], "{combination:?}: {retriever:?}");
                let of_sources = [without, with].map(|fit| fit.answerable.sources.of(retriever).abs() > 0.0);
                assert_eq!(of_sources, [false, in_it(retriever)], "{combination:?}: {retriever:?}");
            }
            for Calibration { answerable, .. } in &fit.calibrations {
                let with_keyword = in_it(Retriever::Keyword);
                assert_eq!(answerable.coverage.abs() > 0.0, with_keyword, "{combination:?}");
                for retriever in all {
                    let covered = answerable.covered.of(retriever).abs() > 0.0;
                    assert_eq!(covered, with_keyword && in_it(retriever), "{combination:?}: {retriever:?}");
                }
            }
            assert_eq!(fit.softening > 0.0, in_it(Retriever::Keyword) && combination.len() > 1, "{combination:?}");
        }
    }
}
