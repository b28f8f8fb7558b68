//! The fitted constants, one set for each combination of signals. `models/train/fusion/fit.py` prints the sets.

use super::Retriever;

/// What turns the signals of one combination of retrievers into a value, a score and an estimate for the request.
#[derive(Debug)]
pub(super) struct Fit {
    /// What a unit of each signal adds to the value; of the semantic ones, before softening.
    value: Weights,
    /// How fast the semantic signals lose weight: at a best keyword score of `b`, they have `1 / (1 + softening * b)`.
    softening: f32,
    pub(super) relevance: Relevance,
    pub(super) answerable: Answerable,
}

/// One weight a retriever: for a unit of BM25, and for a cosine of 1; 0 where the combination is without it.
#[derive(Debug)]
pub(super) struct Weights {
    keyword: f32,
    static_model: f32,
    model: f32,
}

impl Weights {
    pub(super) fn of(&self, retriever: Retriever) -> f32 {
        match retriever {
            Retriever::Keyword => self.keyword,
            Retriever::Static => self.static_model,
            Retriever::Model => self.model,
        }
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
    pub(super) intercept: f32,
}

impl Fit {
    /// Returns the set for a combination of retrievers.
    pub(super) fn of(retrievers: &[Retriever]) -> &'static Self {
        match retrievers {
            [Retriever::Keyword] => &KEYWORD,
            [Retriever::Static] => &STATIC,
            [Retriever::Model] => &MODEL,
            [Retriever::Keyword, Retriever::Static] => &KEYWORD_STATIC,
            _ => &KEYWORD_STATIC_MODEL,
        }
    }

    /// Returns what a unit of the retriever's signal adds to the value, at a request whose best keyword score is
    /// `best_keyword`.
    pub(super) fn weight(&self, retriever: Retriever, best_keyword: f32) -> f32 {
        let softened = match retriever {
            Retriever::Keyword => 1.0,
            Retriever::Static | Retriever::Model => 1.0 / (1.0 + self.softening * best_keyword),
        };
        self.value.of(retriever) * softened
    }
}

const KEYWORD: Fit = Fit {
    value: Weights { keyword: 0.5114, static_model: 0.0000, model: 0.0000 },
    softening: 0.0000,
    relevance: Relevance { distance: 0.3735, answerable: 0.6029, crowd: -1.5001, intercept: -0.5730 },
    answerable: Answerable {
        signals: Weights { keyword: 0.0387, static_model: 0.0000, model: 0.0000 },
        coverage: 3.5663,
        intercept: -0.2966,
    },
};

const STATIC: Fit = Fit {
    value: Weights { keyword: 0.0000, static_model: 24.7405, model: 0.0000 },
    softening: 0.0000,
    relevance: Relevance { distance: 0.7238, answerable: 0.5761, crowd: -1.8516, intercept: 0.3800 },
    answerable: Answerable {
        signals: Weights { keyword: 0.0000, static_model: 4.1489, model: 0.0000 },
        coverage: 0.0000,
        intercept: -0.9173,
    },
};

const MODEL: Fit = Fit {
    value: Weights { keyword: 0.0000, static_model: 0.0000, model: 25.3861 },
    softening: 0.0000,
    relevance: Relevance { distance: 0.7878, answerable: 0.4776, crowd: -1.9826, intercept: 0.8158 },
    answerable: Answerable {
        signals: Weights { keyword: 0.0000, static_model: 0.0000, model: 5.3312 },
        coverage: 0.0000,
        intercept: -1.3995,
    },
};

const KEYWORD_STATIC: Fit = Fit {
    value: Weights { keyword: 0.2036, static_model: 26.8051, model: 0.0000 },
    softening: 0.0641,
    relevance: Relevance { distance: 0.7403, answerable: 0.4778, crowd: -1.8867, intercept: 0.6776 },
    answerable: Answerable {
        signals: Weights { keyword: 0.0292, static_model: 1.9968, model: 0.0000 },
        coverage: 3.1455,
        intercept: -1.0495,
    },
};

const KEYWORD_STATIC_MODEL: Fit = Fit {
    value: Weights { keyword: 0.1313, static_model: 6.9145, model: 26.0372 },
    softening: 0.0460,
    relevance: Relevance { distance: 0.8256, answerable: 0.4056, crowd: -1.9974, intercept: 1.0850 },
    answerable: Answerable {
        signals: Weights { keyword: 0.0243, static_model: -0.0820, model: 3.2930 },
        coverage: 2.8317,
        intercept: -1.4270,
    },
};
