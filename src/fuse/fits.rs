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
    pub(super) relevance: Relevance,
    /// That any tool is relevant, where four requests of five have one.
    pub(super) answerable: Evidence,
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

const fn evidence(signals: [f32; 3], covered: [f32; 3], sources: [f32; 3], rest: [f32; 2]) -> Evidence {
    let [coverage, intercept] = rest;
    let [signals, covered, sources] = [Weights(signals), Weights(covered), Weights(sources)];
    Evidence { signals, covered, sources, coverage, intercept }
}

const fn near(signals: [f32; 3], sources: [f32; 3], rest: [f32; 2]) -> Evidence {
    evidence(signals, [0.0; 3], sources, rest)
}

const fn calibration(
    relevance: [f32; 4],
    signals: [f32; 3],
    covered: [f32; 3],
    sources: [f32; 3],
    rest: [f32; 2],
) -> Calibration {
    let [distance, of_answerable, crowd, intercept] = relevance;
    let relevance = Relevance { distance, answerable: of_answerable, crowd, intercept };
    Calibration { relevance, answerable: evidence(signals, covered, sources, rest) }
}

/// One set for each combination of retrievers, at one less than the sum of `1 << retriever`.
#[rustfmt::skip]
static FITS: [Fit; 7] = [
    // keyword
    fit([0.4758, 0.0000, 0.0000], [0.2909, 0.0000, 0.0000], 0.0000, [
        calibration([0.4205, 0.7652, -1.2976, -1.0230], [0.0174, 0.0000, 0.0000], [0.1598, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.4328, 0.5039]),
        calibration([0.4156, 0.3671, -1.9663, -0.4018], [0.0275, 0.0000, 0.0000], [0.1165, 0.0000, 0.0000], [0.1321, 0.0000, 0.0000], [-0.0593, 0.8716]),
    ], near([0.2767, 0.0000, 0.0000], [0.1731, 0.0000, 0.0000], [-2.5286, -2.1677])),
    // static
    fit([0.0000, 25.4547, 0.0000], [0.0000, 16.9857, 0.0000], 0.0000, [
        calibration([0.7229, 0.5403, -1.9234, 0.3132], [0.0000, 4.7824, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, -0.7199]),
        calibration([0.7125, 0.0258, -2.2084, 1.1050], [0.0000, 3.7734, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 6.1348, 0.0000], [0.0000, 0.1946]),
    ], near([0.0000, 6.9165, 0.0000], [0.0000, 12.9573, 0.0000], [0.0000, -3.8848])),
    // keyword, static
    fit([0.1766, 25.6419, 0.0000], [0.2251, 17.7398, 0.0000], 0.0427, [
        calibration([0.7762, 0.4744, -1.9185, 0.6451], [0.0155, 1.3493, 0.0000], [0.1188, 1.2941, 0.0000], [0.0000, 0.0000, 0.0000], [0.1880, 0.0143]),
        calibration([0.7432, 0.2685, -2.2701, 0.7602], [0.0280, 0.3802, 0.0000], [0.0679, 2.1481, 0.0000], [0.0759, 4.7689, 0.0000], [-0.4168, 0.7370]),
    ], near([0.1297, 1.9158, 0.0000], [0.1901, 13.3630, 0.0000], [-1.3096, -3.0919])),
    // model
    fit([0.0000, 0.0000, 25.4020], [0.0000, 0.0000, 16.7126], 0.0000, [
        calibration([0.7817, 0.4186, -2.0304, 0.7994], [0.0000, 0.0000, 6.0128], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, -1.3404]),
        calibration([0.7819, 0.0417, -2.3571, 1.3764], [0.0000, 0.0000, 6.3302], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 9.2276], [0.0000, -2.1011]),
    ], near([0.0000, 0.0000, 12.1463], [0.0000, 0.0000, 5.7414], [0.0000, -5.3972])),
    // keyword, model
    fit([0.1452, 0.0000, 27.6689], [0.2193, 0.0000, 17.0404], 0.0335, [
        calibration([0.8292, 0.4322, -2.0513, 0.9662], [0.0157, 0.0000, 2.2432], [0.0839, 0.0000, 4.3078], [0.0000, 0.0000, 0.0000], [-0.8978, -0.3642]),
        calibration([0.8106, 0.1764, -2.4037, 1.2291], [0.0140, 0.0000, 3.2867], [0.0772, 0.0000, 3.1062], [0.0419, 0.0000, 9.5931], [-1.0550, -1.2389]),
    ], near([0.0678, 0.0000, 8.8983], [0.2802, 0.0000, 6.2988], [-0.6512, -4.9806])),
    // static, model
    fit([0.0000, 8.5184, 19.0257], [0.0000, 8.7932, 12.1857], 0.0000, [
        calibration([0.7700, 0.4208, -2.0555, 0.8371], [0.0000, 1.0126, 5.1121], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, -1.3508]),
        calibration([0.7705, 0.0536, -2.3544, 1.3704], [0.0000, 0.9709, 5.2969], [0.0000, 0.0000, 0.0000], [0.0000, -3.1298, 11.0959], [0.0000, -1.8658]),
    ], near([0.0000, 1.3774, 9.5122], [0.0000, 14.5463, -0.0541], [0.0000, -5.4920])),
    // keyword, static, model
    fit([0.1205, 7.2090, 24.5152], [0.1957, 8.9368, 14.1117], 0.0362, [
        calibration([0.8549, 0.3708, -2.1034, 1.1589], [0.0163, 0.4799, 1.5903], [0.0881, -4.5001, 8.5523], [0.0000, 0.0000, 0.0000], [-0.8744, -0.2894]),
        calibration([0.8254, 0.1642, -2.3819, 1.2757], [0.0145, 0.0103, 2.9269], [0.0884, -2.4391, 5.3080], [0.0573, -3.8847, 11.0968], [-1.1056, -1.0242]),
    ], near([0.1001, -2.7784, 10.0614], [0.2312, 13.1015, -0.9732], [-0.7428, -4.9320])),
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
