//! Tests that picks are identical, bit by bit, however the tools are divided into runs.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::Engine;
use super::request::CatalogIndexes;
use super::retrieval::plain_signals;
use crate::catalog::{Catalog, Tool};
use crate::embed::{EmbedError, EmbedProgress, Embedder, StaticEmbedder, TextRole};
use crate::fuse::{Mode, Signals};
use crate::index::{Index, IndexConfig};
use crate::options::{PickOptions, SelectionMode};
use crate::query::Query;

/// A model that is not static: it embeds the first word of a text only.
struct FirstWord(Arc<StaticEmbedder>);

impl Embedder for FirstWord {
    fn identity(&self) -> &str {
        "first-word:1"
    }

    fn dimensions(&self) -> usize {
        self.0.dimensions()
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let words: Vec<&str> = texts
            .iter()
            .map(|text| text.split_whitespace().next().unwrap_or_default())
            .collect();
        self.0.embed(role, &words, progress)
    }
}

fn catalogs() -> impl Strategy<Value = Catalog> {
    let word = prop::sample::select(vec![
        "read", "file", "readFile", "the", "send", "mail", "weather", "city", "report",
    ]);
    let text = move || prop::collection::vec(word.clone(), 1..8).prop_map(|words| words.join(" "));
    let tool = (text(), text(), text(), 0..3_usize);
    prop::collection::vec(tool, 0..10).prop_map(|tools| {
        let mut definitions = Vec::new();
        for (index, (name, description, parameter, source)) in tools.into_iter().enumerate() {
            // Names repeat in groups of three, so that some tools are duplicates.
            let first_word = name.split(' ').next().unwrap_or("x");
            let mut tool =
                Tool::without_arguments(format!("{first_word}_{}", index / 3), description);
            tool.source = Some(format!("s{source}_{}", index % 3));
            tool.parameters =
                Some(json!({"type": "object", "properties": {"p": {"description": parameter}}}));
            tool.id = tool.qualified_name();
            definitions.push(tool);
        }
        Catalog::from_tools(definitions).expect("ids differ")
    })
}

fn queries() -> impl Strategy<Value = Query> {
    let texts = [
        "read the file",
        "Send a mail. Report the weather of the city!",
        "readFile and send it",
        "?",
        "absent",
    ];
    let text = prop::sample::select(texts.to_vec());
    let earlier = prop::option::of(prop::sample::select(texts.to_vec()));
    (text, earlier).prop_map(|(text, earlier)| match earlier {
        Some(earlier) => Query::new(text).with_context(&[earlier]),
        None => Query::new(text),
    })
}

fn bits(signals: &Signals) -> Vec<(String, u32, Vec<u32>)> {
    let mut retriever_bits = Vec::new();
    for (retriever, signal) in signals {
        retriever_bits.push((
            format!("{retriever:?}"),
            signal.ceiling.to_bits(),
            signal.scores.iter().map(|score| score.to_bits()).collect(),
        ));
    }
    retriever_bits
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn scores_and_picks_do_not_depend_on_runs(
        catalog in catalogs(),
        queries in prop::collection::vec(queries(), 1..4),
        cuts in prop::collection::vec(0..10_usize, 1..4),
    ) {
        let fixed = StaticEmbedder::shared().expect("the model is valid");
        let model: Arc<dyn Embedder> = Arc::new(FirstWord(Arc::clone(&fixed)));
        let full = Engine::builder(catalog.clone())
            .embedder(Arc::clone(&model))
            .build()
            .expect("it can be indexed");
        let config = IndexConfig { embedders: vec![fixed, model], ..IndexConfig::default() };
        let index = Index::build_cut(catalog, &cuts, config).expect("it can be indexed");
        let cut = Engine { index: Arc::new(index), ..full.clone() };
        prop_assert_eq!(full.stats(), cut.stats());
        for query in &queries {
            for mode in [Mode::Keyword, Mode::Semantic, Mode::Hybrid] {
                let signals = |engine: &Engine| {
                    plain_signals(CatalogIndexes::new(&engine.index, None), query, mode)
                        .map(|(_, signals)| bits(&signals))
                };
                prop_assert_eq!(signals(&full), signals(&cut));
                for choice in [SelectionMode::Best, SelectionMode::Set] {
                    let mut options = PickOptions::default();
                    (options.mode, options.choice, options.debug) = (Some(mode), choice, true);
                    options.max_candidates = 3;
                    let json = |engine: &Engine| {
                        let selection = engine.pick(query, &options).expect("it picks");
                        serde_json::to_string(&selection).expect("it serialises")
                    };
                    prop_assert_eq!(json(&full), json(&cut));
                }
            }
        }
    }
}
