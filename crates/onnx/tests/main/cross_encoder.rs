//! Cross-encoders on ONNX Runtime: scores, reranked picks and errors.
//!
//! The model `overlap` knows a few words, and counts those that occur in both texts.

use std::fs;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use picktools::rerank::{Rerank, RerankError, RerankScore, Reranker};
use picktools::{Engine, PickOptions, Query, Tool};
use picktools_onnx::CrossEncoder;
use picktools_testing::{catalog, fixture, ids, pick, tool};

use crate::minilm::{models, options};

static OVERLAP: LazyLock<Arc<CrossEncoder>> = LazyLock::new(|| {
    Arc::new(
        CrossEncoder::from_folder(fixture("rerankers/overlap"), &options())
            .expect("the model is valid"),
    )
});

const REQUEST: &str = "Book a room and send the weather forecast";

fn tools() -> Vec<Tool> {
    let tools = [
        ("send_mail", "Writes a mail"),
        ("reserve", "Book a meeting room"),
        ("outlook", "Weather forecast, to send or to book by room"),
        ("other", "Nothing that it knows"),
    ];
    tools
        .map(|(name, description)| tool("a", name, description))
        .into()
}

fn rerank(
    query: &str,
    window: &[Tool],
    deadline: Option<Instant>,
) -> Result<Vec<RerankScore>, RerankError> {
    let window: Vec<Arc<Tool>> = window.iter().cloned().map(Arc::new).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be started");
    runtime.block_on(OVERLAP.rerank(&Query::new(query), &window, deadline))
}

fn scores(query: &str, window: &[Tool]) -> Vec<f32> {
    let mut scores = rerank(query, window, None).expect("the model works");
    scores.sort_by_key(|score| score.candidate);
    scores.into_iter().map(|score| score.score).collect()
}

#[test]
fn candidate_score_does_not_depend_on_other_candidates() {
    assert_eq!(scores(REQUEST, &tools()), [1.0, 2.0, 5.0, 0.0]);
    for (index, tool) in tools().into_iter().enumerate() {
        assert_eq!(scores(REQUEST, &[tool]), [[1.0, 2.0, 5.0, 0.0][index]]);
    }
    let many: Vec<Tool> = tools().into_iter().cycle().take(100).collect();
    assert_eq!(scores(REQUEST, &many), [1.0, 2.0, 5.0, 0.0].repeat(25));
    assert!(scores(REQUEST, &[]).is_empty());
}

#[test]
fn odd_and_long_texts_get_finite_scores() {
    let long = "room weather ".repeat(100_000);
    for query in ["", "\u{0}\u{200b}", "查询 订单", &"é".repeat(5_000), &long] {
        let odd = [
            tool("a", "long", &long),
            tool("a", "empty", ""),
            tool("a", "emoji", "🚀🎉"),
        ];
        assert!(
            scores(query, &odd).iter().all(|score| score.is_finite()),
            "{query:.20}"
        );
    }
    assert_eq!(scores("room", &[tool("a", "long", &long)]), [1.0]);
}

#[test]
fn reranked_pick_has_the_order_of_the_model() {
    let engine =
        Engine::builder(catalog(tools())).reranker(Arc::clone(&*OVERLAP) as Arc<dyn Reranker>);
    let engine = engine.build().expect("the static model needs nothing");
    let options = PickOptions {
        rerank: Rerank::Always,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let selection = pick(&engine, REQUEST, &options);
    assert_eq!(ids(&selection), ["a/outlook", "a/reserve", "a/send_mail"]);
    let evidence = selection.picks[0]
        .provenance
        .rerank
        .as_ref()
        .expect("it was reranked");
    assert!((evidence.score - 5.0).abs() < 1e-6 && evidence.after == 1);
    assert!(
        selection
            .rerank
            .expect("it reports")
            .reranker
            .ends_with("overlap")
    );
}

#[test]
fn reranking_stops_at_the_deadline() {
    let past = Instant::now();
    let error = rerank(REQUEST, &tools(), Some(past)).expect_err("the deadline has passed");
    assert!(error.to_string().contains("the deadline passed"), "{error}");
}

#[test]
fn invalid_cross_encoder_is_refused_with_name_and_reason() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let refusal = || {
        CrossEncoder::from_folder(temporary.path(), &options())
            .expect_err("it is not a cross-encoder")
            .to_string()
    };
    assert!(
        refusal().contains("lacks model.onnx and tokenizer.json"),
        "{}",
        refusal()
    );
    let copy = |file: &str, bytes: &[u8]| {
        fs::write(temporary.path().join(file), bytes).expect("it can be written");
    };
    let read =
        |file: &str| fs::read(fixture("rerankers/overlap").join(file)).expect("it can be read");
    let (weights, tokenizer) = (read("model.onnx"), read("tokenizer.json"));
    copy("tokenizer.json", &tokenizer);
    for end in [0, 10, weights.len() / 2, weights.len() - 20] {
        copy("model.onnx", &weights[..end]);
        assert!(
            refusal().starts_with("cannot load the model "),
            "{end}: {}",
            refusal()
        );
    }
    copy("model.onnx", &weights);
    copy("tokenizer.json", &tokenizer[..tokenizer.len() / 2]);
    assert!(refusal().contains("tokenizer.json"), "{}", refusal());
    // An embedding model returns vectors instead of a score.
    let error = CrossEncoder::from_folder(models().join("minilm"), &options())
        .expect_err("it is an embedding model")
        .to_string();
    assert!(
        error.contains("it is not a cross-encoder") && error.contains("logits"),
        "{error}"
    );
    let error = CrossEncoder::from_name("bge-reranker-bas", &options())
        .expect_err("the name is unknown")
        .to_string();
    assert!(
        error.contains("did you mean \"bge-reranker-base\"")
            && error.contains("JINARerankerV1TurboEn"),
        "{error}"
    );
}

#[cfg(not(feature = "onnx-download"))]
#[test]
fn cross_encoder_without_download_names_the_files() {
    for name in [
        "BGERerankerBase",
        "BAAI/bge-reranker-base",
        "bge-reranker-base",
    ] {
        let error = CrossEncoder::from_name(name, &options())
            .expect_err("it cannot be fetched")
            .to_string();
        assert!(
            error.contains("onnx-download") && error.contains("onnx/model.onnx"),
            "{error}"
        );
    }
}
