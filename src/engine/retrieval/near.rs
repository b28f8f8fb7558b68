//! The search of a large catalog: only the tools that may be near the request are scored. More
//! tools can be scored later.

use std::collections::BTreeSet;

use ndarray::s;

use super::super::request::ResolvedRequest;
use super::subqueries::{SearchRows, SubqueryRetrieval, mix};
use crate::fuse::{Retriever, Signals};
use crate::index::{Cosines, Index, Vectors};
use crate::ranking::{ToolId, ToolSet};
use crate::retrieve::{self, FoundTerm, Signal};

/// The number of tools with the best keyword scores whose vectors are always compared.
const PROMISING: usize = 256;

/// A search that can score any tool of a large catalog by one model and by keywords.
pub(in super::super) struct NearSearch<'q> {
    pub(super) index: &'q Index,
    pub(super) vectors: &'q Vectors,
    /// The model's estimate from the request alone.
    pub(super) scope: Option<f32>,
    pub(super) rows: SearchRows,
    /// The keyword signal of the request for all tools.
    pub(super) keyword: Option<Signal>,
    /// The keyword signals of the subqueries for all tools.
    pub(super) subquery_keyword: Vec<Option<Signal>>,
}

/// The signals of some tools, for the request and for its subqueries.
pub(super) struct NearSignals<'q> {
    pub(super) request: Signals,
    pub(super) subqueries: Vec<SubqueryRetrieval<'q>>,
}

/// A subquery with the terms that the index contains.
pub(super) struct SubqueryTerms<'q> {
    pub(super) text: &'q str,
    pub(super) terms: Vec<FoundTerm<'q>>,
}

impl<'q> NearSearch<'q> {
    /// Scores the tools near the request.
    pub(super) fn nearest(
        &self,
        request: &ResolvedRequest<'_>,
        subqueries: Vec<SubqueryTerms<'q>>,
    ) -> NearSignals<'q> {
        let cosines = self.vectors.nearest(
            self.rows.rows.view(),
            request.rankable().flags(),
            self.promising_tools(request),
            self.index.sources.as_ref(),
        );
        self.signals(cosines, subqueries)
    }

    /// Scores exactly these tools.
    pub(super) fn score(
        &self,
        tools: BTreeSet<ToolId>,
        subqueries: Vec<SubqueryTerms<'q>>,
    ) -> NearSignals<'q> {
        let tools: Vec<ToolId> = tools.into_iter().collect();
        let sources = self.index.sources.as_ref();
        let cosines = self
            .vectors
            .cosines_to(self.rows.rows.view(), tools, sources);
        self.signals(cosines, subqueries)
    }

    /// Returns the tools whose vectors are always compared: those with the best keyword scores,
    /// those with the most similar tags, those of sources with the best scores, mentioned tools, and
    /// tools that the caller includes.
    fn promising_tools(&self, request: &ResolvedRequest<'_>) -> ToolSet {
        let mut tools = ToolSet::new(self.index.catalog.len());
        for tool in request.named.mandatory() {
            tools.add(tool);
        }
        for &tool in request.named.fallbacks.keys() {
            tools.add(tool);
        }
        let flags = request.rankable().flags();
        if let Some(tags) = &self.index.tags {
            let rows = self.rows.rows.view();
            for tool in tags.nearest_tools(self.vectors.model(), rows, flags, PROMISING) {
                tools.add(tool);
            }
        }
        let of_subqueries = self.subquery_keyword.iter().flatten();
        let signals = self.keyword.iter().chain(of_subqueries);
        let lists = signals
            .clone()
            .map(|signal| (&*signal.scores, signal.floor));
        tools.add_best(lists, flags, PROMISING);
        for sources in signals.filter_map(|signal| signal.sources.as_ref()) {
            sources.add_best(&mut tools);
        }
        tools
    }

    /// Makes the signals of the tools that have cosines.
    fn signals(&self, cosines: Cosines, subqueries: Vec<SubqueryTerms<'q>>) -> NearSignals<'q> {
        let scored = cosines.scored.clone();
        let (request_cosines, cosines_by_subquery) = self.rows.divide(cosines);
        let mut request = Signals::new();
        if let Some(keyword) = &self.keyword {
            request.push((Retriever::Keyword, keyword.restricted(&scored)));
        }
        let rows = &self.rows.rows;
        let request_rows = rows.slice(s![..self.rows.request_rows, ..]);
        let input = (request_rows, request_cosines);
        let semantic = Signal {
            scope: self.scope,
            ..retrieve::semantic(self.index, self.vectors, input, None)
        };
        let retriever = Retriever::from_embedder(self.vectors.embedder().as_ref());
        request.push((retriever, semantic));
        let mut finished = Vec::with_capacity(subqueries.len());
        let searched = self.rows.subquery_rows.iter().zip(cosines_by_subquery);
        let searched = searched.zip(&self.subquery_keyword);
        for (SubqueryTerms { text, terms }, ((&row, cosines), keyword)) in
            subqueries.into_iter().zip(searched)
        {
            let row = rows.slice(s![row..=row, ..]);
            let semantic = Signal::cosines(cosines, self.index, self.vectors, row);
            let keyword = keyword.as_ref().map(|signal| signal.restricted(&scored));
            finished.push(SubqueryRetrieval {
                text,
                terms,
                signals: mix(keyword, Some(semantic), &request),
            });
        }
        NearSignals {
            request,
            subqueries: finished,
        }
    }
}
