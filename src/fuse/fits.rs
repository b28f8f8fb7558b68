//! The fitted constants, one set per combination of signals. `models/train/fusion/fit.py` prints
//! the sets.

use super::retriever::Retriever;

/// The constants for one combination of retrievers.
#[derive(Debug)]
pub(super) struct Fit {
    /// The weight of each signal in the value; for semantic signals, before softening.
    value: Weights,
    /// The weight of each retriever's source score; for semantic signals, before softening.
    sources: Weights,
    /// The decline of the semantic weights: at a best keyword score of `b`, they are multiplied by
    /// `1 / (1 + softening * b)`.
    softening: f32,
    /// The calibrations without and with source scoring.
    calibrations: [CalibrationFit; 2],
    /// The evidence that an unanswerable request is near the topic of a source, with source
    /// scoring. It was fitted on equally many requests near a topic and far from all topics.
    pub(super) near: EvidenceWeights,
}

/// The constants that turn values and signals into a score and an estimate for the request.
#[derive(Debug)]
pub(super) struct CalibrationFit {
    /// The evidence that one of these tools answers the request, if tools serve such requests.
    pub(super) answerable: EvidenceWeights,
    /// The weight of the logarithm of the number of rivals in that evidence.
    pub(super) rivals: f32,
    /// The calibration of a tool's score.
    pub(super) relevance: Relevance,
}

/// The factor on the odds: four in five requests are answerable, but only one in two in the fitted
/// data.
pub(super) const ODDS: f32 = 4.0;

/// A weight per retriever for a unit of its signal (BM25, or a cosine of 1), in the order of
/// [`Retriever`]; 0 for retrievers outside the combination.
#[derive(Debug)]
pub(super) struct Weights([f32; 3]);

impl Weights {
    pub(super) fn get(&self, retriever: Retriever) -> f32 {
        self.0[retriever as usize]
    }
}

/// A logistic function (Platt 1999) that gives the probability that a tool is relevant.
#[derive(Debug)]
pub(super) struct Relevance {
    /// The weight of the difference between the tool's value and the best value, which is never
    /// positive.
    pub(super) distance: f32,
    /// The weight of the evidence that any tool is relevant.
    pub(super) answerable: f32,
    /// The weight of the logarithm of the number of rivals.
    pub(super) crowd: f32,
    pub(super) intercept: f32,
}

/// A linear function of the evidence for a request; a logistic function turns it into a
/// probability.
#[derive(Debug)]
pub(super) struct EvidenceWeights {
    /// The weights of the best tool's signals.
    pub(super) signals: Weights,
    /// The additional weights of the same signals, times the keyword coverage. The more of a
    /// request's words are known, the more its best tool's signals say.
    pub(super) covered: Weights,
    /// The weights of the source scores of the best tool.
    pub(super) sources: Weights,
    /// The weight of the keyword coverage.
    pub(super) coverage: f32,
    pub(super) intercept: f32,
}

impl Fit {
    /// Returns the constants for a combination of retrievers.
    pub(super) fn for_retrievers(retrievers: &[Retriever]) -> &'static Self {
        let combination: usize = retrievers
            .iter()
            .map(|&retriever| 1 << retriever as usize)
            .sum();
        // Without signals there is nothing to weigh, and any set will do.
        &FITS[combination.saturating_sub(1)]
    }

    /// Returns the calibration with or without source scoring.
    pub(super) fn calibration(&'static self, with_sources: bool) -> &'static CalibrationFit {
        &self.calibrations[usize::from(with_sources)]
    }

    /// Returns the weight of the retriever's signal for a request with the best keyword score
    /// `best_keyword`.
    pub(super) fn weight(&self, retriever: Retriever, best_keyword: f32) -> f32 {
        self.value.get(retriever) * self.softened(retriever, best_keyword)
    }

    /// Returns the weight of the retriever's source score.
    pub(super) fn source_weight(&self, retriever: Retriever, best_keyword: f32) -> f32 {
        self.sources.get(retriever) * self.softened(retriever, best_keyword)
    }

    fn softened(&self, retriever: Retriever, best_keyword: f32) -> f32 {
        match retriever {
            Retriever::Keyword => 1.0,
            Retriever::Static | Retriever::Model => 1.0 / (1.0 + self.softening * best_keyword),
        }
    }
}

/// Makes a set of constants, in the order of the fields of [`Fit`].
const fn fit(
    value: [f32; 3],
    sources: [f32; 3],
    softening: f32,
    calibrations: [CalibrationFit; 2],
    near: EvidenceWeights,
) -> Fit {
    Fit {
        value: Weights(value),
        sources: Weights(sources),
        softening,
        calibrations,
        near,
    }
}

const fn evidence(
    signals: [f32; 3],
    covered: [f32; 3],
    sources: [f32; 3],
    rest: [f32; 2],
) -> EvidenceWeights {
    let [coverage, intercept] = rest;
    let [signals, covered, sources] = [Weights(signals), Weights(covered), Weights(sources)];
    EvidenceWeights {
        signals,
        covered,
        sources,
        coverage,
        intercept,
    }
}

const fn near(signals: [f32; 3], sources: [f32; 3], rest: [f32; 2]) -> EvidenceWeights {
    evidence(signals, [0.0; 3], sources, rest)
}

const fn calibration(
    relevance: [f32; 4],
    signals: [f32; 3],
    covered: [f32; 3],
    sources: [f32; 3],
    rest: [f32; 3],
) -> CalibrationFit {
    let [distance, answerable_weight, crowd, intercept] = relevance;
    let relevance = Relevance {
        distance,
        answerable: answerable_weight,
        crowd,
        intercept,
    };
    let [coverage, rivals, intercept] = rest;
    let answerable = evidence(signals, covered, sources, [coverage, intercept]);
    CalibrationFit {
        answerable,
        rivals,
        relevance,
    }
}

/// One set per combination of retrievers, at the index `sum(1 << retriever) - 1`.
#[rustfmt::skip]
static FITS: [Fit; 7] = [
    // keyword
    fit([0.4758, 0.0000, 0.0000], [0.2909, 0.0000, 0.0000], 0.0000, [
        calibration([0.4107, 0.6815, -1.3685, 0.2811], [0.0155, 0.0000, 0.0000], [0.1523, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.8854, 0.0000, -1.2183]),
        calibration([0.4341, 0.8600, -1.4787, -0.0304], [0.0103, 0.0000, 0.0000], [0.1463, 0.0000, 0.0000], [0.0473, 0.0000, 0.0000], [0.0343, -0.2217, -0.5940]),
    ], near([0.2984, 0.0000, 0.0000], [0.1479, 0.0000, 0.0000], [-2.6905, -2.1896])),
    // static
    fit([0.0000, 25.4547, 0.0000], [0.0000, 16.9857, 0.0000], 0.0000, [
        calibration([0.7207, 0.5825, -1.9134, 1.1889], [0.0000, 4.4202, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, -2.1840]),
        calibration([0.7105, 0.5240, -1.9305, 0.8399], [0.0000, 3.3206, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, -0.1117, 0.0000], [0.0000, -0.2572, -0.7687]),
    ], near([0.0000, 7.2997, 0.0000], [0.0000, 13.7632, 0.0000], [0.0000, -4.0935])),
    // keyword, static
    fit([0.1766, 25.6419, 0.0000], [0.2251, 17.7398, 0.0000], 0.0427, [
        calibration([0.7668, 0.3659, -1.9667, 1.4483], [0.0114, 1.1654, 0.0000], [0.1116, 2.3495, 0.0000], [0.0000, 0.0000, 0.0000], [0.5994, 0.0000, -1.6272]),
        calibration([0.7439, 0.3788, -2.0768, 1.0917], [0.0167, -0.1125, 0.0000], [0.0884, 3.8979, 0.0000], [-0.0023, 1.3823, 0.0000], [-0.4054, -0.2800, -0.1714]),
    ], near([0.1381, 2.3713, 0.0000], [0.1791, 14.1492, 0.0000], [-1.3776, -3.2941])),
    // model
    fit([0.0000, 0.0000, 25.4020], [0.0000, 0.0000, 16.7126], 0.0000, [
        calibration([0.7797, 0.4168, -2.0235, 1.5037], [0.0000, 0.0000, 5.9686], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, -3.0211]),
        calibration([0.7822, 0.3799, -2.0771, 1.2085], [0.0000, 0.0000, 5.4672], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 3.7050], [0.0000, -0.3212, -2.8215]),
    ], near([0.0000, 0.0000, 12.4375], [0.0000, 0.0000, 5.6298], [0.0000, -5.4896])),
    // keyword, model
    fit([0.1452, 0.0000, 27.6689], [0.2193, 0.0000, 17.0404], 0.0335, [
        calibration([0.8239, 0.3894, -2.0583, 1.7006], [0.0153, 0.0000, 2.2207], [0.0687, 0.0000, 5.7214], [0.0000, 0.0000, 0.0000], [-1.0812, 0.0000, -2.1064]),
        calibration([0.8156, 0.4433, -2.0630, 1.3188], [0.0128, 0.0000, 2.3528], [0.0732, 0.0000, 4.1248], [0.0091, 0.0000, 5.0330], [-1.1420, -0.3563, -2.0105]),
    ], near([0.0941, 0.0000, 8.8808], [0.2626, 0.0000, 6.6494], [-0.8314, -4.9984])),
    // static, model
    fit([0.0000, 8.5184, 19.0257], [0.0000, 8.7932, 12.1857], 0.0000, [
        calibration([0.7681, 0.4338, -2.0487, 1.5253], [0.0000, 0.9395, 4.9143], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, 0.0000], [0.0000, 0.0000, -2.8726]),
        calibration([0.7704, 0.3339, -2.1194, 1.2454], [0.0000, 0.7862, 4.2940], [0.0000, 0.0000, 0.0000], [0.0000, -3.2668, 4.6317], [0.0000, -0.3960, -2.0869]),
    ], near([0.0000, 1.5214, 9.5604], [0.0000, 14.8784, 0.3090], [0.0000, -5.6205])),
    // keyword, static, model
    fit([0.1205, 7.2090, 24.5152], [0.1957, 8.9368, 14.1117], 0.0362, [
        calibration([0.8480, 0.3104, -2.1174, 1.7800], [0.0148, 0.6309, 1.0879], [0.0741, -4.7151, 10.5331], [0.0000, 0.0000, 0.0000], [-0.8232, 0.0000, -1.8862]),
        calibration([0.8274, 0.3267, -2.1537, 1.3961], [0.0161, -0.3614, 1.7735], [0.0701, -1.0128, 6.1226], [0.0014, -2.3106, 5.1194], [-1.0802, -0.4014, -1.2777]),
    ], near([0.1135, -2.2825, 9.6882], [0.2288, 12.1701, 0.0875], [-0.9122, -4.9420])),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combination_weighs_its_own_signals_only() {
        let all = [Retriever::Keyword, Retriever::Static, Retriever::Model];
        for chosen in 1..8_usize {
            let is_chosen = |retriever: Retriever| chosen >> (retriever as usize) & 1 == 1;
            let combination: Vec<Retriever> = all
                .into_iter()
                .filter(|&retriever| is_chosen(retriever))
                .collect();
            let fit = Fit::for_retrievers(&combination);
            for retriever in all {
                let [without, with] = &fit.calibrations;
                let weights = [
                    &fit.value,
                    &fit.sources,
                    &without.answerable.signals,
                    &with.answerable.signals,
                ];
                let weights = weights.map(|weights| weights.get(retriever).abs() > 0.0);
                assert_eq!(
                    weights,
                    [is_chosen(retriever); 4],
                    "{combination:?}: {retriever:?}"
                );
                let near_weights = [&fit.near.signals, &fit.near.sources]
                    .map(|weights| weights.get(retriever).abs() > 0.0);
                assert_eq!(
                    near_weights,
                    [is_chosen(retriever); 2],
                    "{combination:?}: {retriever:?}"
                );
                let source_weights =
                    [without, with].map(|fit| fit.answerable.sources.get(retriever).abs() > 0.0);
                assert_eq!(
                    source_weights,
                    [false, is_chosen(retriever)],
                    "{combination:?}: {retriever:?}"
                );
            }
            let rivals = fit
                .calibrations
                .each_ref()
                .map(|calibration| calibration.rivals.abs() > 0.0);
            assert_eq!(rivals, [false, true], "{combination:?}");
            for CalibrationFit { answerable, .. } in &fit.calibrations {
                let with_keyword = is_chosen(Retriever::Keyword);
                assert_eq!(
                    answerable.coverage.abs() > 0.0,
                    with_keyword,
                    "{combination:?}"
                );
                for retriever in all {
                    let covered = answerable.covered.get(retriever).abs() > 0.0;
                    assert_eq!(
                        covered,
                        with_keyword && is_chosen(retriever),
                        "{combination:?}: {retriever:?}"
                    );
                }
            }
            assert_eq!(
                fit.softening > 0.0,
                is_chosen(Retriever::Keyword) && combination.len() > 1,
                "{combination:?}"
            );
        }
    }
}
