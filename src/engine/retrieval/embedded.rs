//! The texts of a request as models embed them.

use std::borrow::Cow;

use super::super::request::ResolvedRequest;
use crate::query::Query;
use crate::retrieve::{AnalyzedTexts, Rewording};

/// The texts of a request for embedding: misspelt and abbreviated words are replaced.
pub(super) struct EmbeddedTexts<'q> {
    pub(super) query: Cow<'q, Query>,
    pub(super) rewording: Rewording,
}

impl<'q> EmbeddedTexts<'q> {
    pub(super) fn new(request: &ResolvedRequest<'q>, analysed: &mut AnalyzedTexts<'q>) -> Self {
        let mut texts = Self {
            query: Cow::Borrowed(request.query),
            rewording: Rewording::default(),
        };
        if !request.models().is_empty() {
            texts.rewording = analysed.rewording(request.query);
            if !texts.rewording.is_empty() {
                let reword = |text: &str| texts.rewording.apply(text).into_owned();
                texts.query = Cow::Owned(request.query.reworded(reword));
            }
        }
        texts
    }
}
