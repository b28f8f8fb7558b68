//! Semantic ranking: the default model, and the rules for any embedding model, tested with a fake
//! one.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use picktools::embed::{CacheStatus, EmbedError, EmbedProgress, Embedder, ModelKind, TextRole};
use picktools::engine::IndexError;
use picktools::selection::{Stage, StageStatus};
use picktools::{Engine, Mode, PickError, PickOptions, Selection};

use crate::support::{
    DIMENSIONS, KEYWORDS, WORKPLACE, catalog, fake_vector, files, ids, in_mode, pick, public_ids,
    scored_by, tool, workplace,
};

/// The defect of a [`FakeEmbedder`].
#[derive(Clone, Copy, PartialEq)]
enum FakeDefect {
    None,
    OneVectorTooFew,
    WrongDimensions,
    NotANumber,
    FailsOnTools,
    FailsOnRequests,
    HangsOnRequests,
    PanicsOnRequests,
}

/// A model that sums one direction per word, so that texts are similar if they share words. It
/// counts the texts that it embeds.
struct FakeEmbedder {
    trouble: FakeDefect,
    documents: AtomicUsize,
    requests: AtomicUsize,
}

impl FakeEmbedder {
    fn new(trouble: FakeDefect) -> Arc<Self> {
        Arc::new(Self {
            trouble,
            documents: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        })
    }

    fn documents(&self) -> usize {
        self.documents.load(Ordering::Relaxed)
    }
}

impl Embedder for FakeEmbedder {
    fn identity(&self) -> &str {
        "fake:1"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn reads(&self, text: &str) -> bool {
        text.is_ascii()
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let counter = if role == TextRole::Document {
            &self.documents
        } else {
            &self.requests
        };
        counter.fetch_add(texts.len(), Ordering::Relaxed);
        let failed = || {
            Err(EmbedError::Inference {
                model: "fake:1".to_owned(),
                reason: "out of order".to_owned(),
            })
        };
        match (self.trouble, role) {
            (FakeDefect::FailsOnTools, TextRole::Document)
            | (FakeDefect::FailsOnRequests, TextRole::Query) => {
                return failed();
            }
            (FakeDefect::HangsOnRequests, TextRole::Query) => {
                thread::sleep(Duration::from_secs(10));
            }
            (FakeDefect::PanicsOnRequests, TextRole::Query) => panic!("on purpose"),
            _ => {}
        }
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| fake_vector(text)).collect();
        match (self.trouble, vectors.last_mut()) {
            (FakeDefect::OneVectorTooFew, _) => drop(vectors.pop()),
            (FakeDefect::WrongDimensions, Some(last)) => last.push(0.0),
            (FakeDefect::NotANumber, Some(last)) => last[7] = f32::NAN,
            _ => {}
        }
        progress(texts.len());
        Ok(vectors)
    }
}

fn engine(embedder: &Arc<FakeEmbedder>) -> Engine {
    Engine::builder(workplace())
        .embedder(Arc::clone(embedder) as Arc<dyn Embedder>)
        .build()
        .expect("the fake works")
}

fn engine_with_cache(embedder: &Arc<FakeEmbedder>, folder: &Path) -> (Engine, CacheStatus) {
    let builder = Engine::builder(workplace()).embedder(Arc::clone(embedder) as Arc<dyn Embedder>);
    let engine = builder
        .cache_dir(folder)
        .build()
        .expect("a cache never fails a build");
    let cache = engine.stats().cache.expect("a cache is used");
    (engine, cache)
}

fn json(selection: &Selection) -> String {
    serde_json::to_string(selection).expect("a selection serialises")
}

#[test]
fn ranking_with_model_is_hybrid_with_evidence() {
    let engine = engine(&FakeEmbedder::new(FakeDefect::None));
    let selection = pick(&engine, "book a meeting room", &PickOptions::default());
    assert_eq!(
        (selection.scorer.as_str(), ids(&selection)[0]),
        ("hybrid", "calendar/book_meeting_room")
    );
    let provenance = &selection.picks[0].provenance;
    let keyword = provenance.keyword.as_ref().expect("keywords are evidence");
    let [helper, semantic] = &provenance.semantic[..] else {
        panic!("two models: {:?}", provenance.semantic)
    };
    assert!(helper.model.starts_with("static:"), "{}", helper.model);
    assert_eq!(
        (keyword.rank, semantic.rank, semantic.model.as_str()),
        (Some(1), Some(1), "fake:1")
    );
    assert!(
        semantic.score > 0.3 && semantic.score <= 1.0,
        "{}",
        semantic.score
    );
    let fusion = provenance.fusion.as_ref().expect("fusion is evidence");
    assert!(
        fusion.parts.keys().eq(["fake:1", "keyword", &helper.model]),
        "{:?}",
        fusion.parts
    );
    let source = fusion.source.expect("sources tell something");
    assert!(source.best && source.gain > 0.0, "{source:?}");
    let sum = fusion
        .parts
        .values()
        .map(|part| part.weight * part.score)
        .sum::<f32>()
        + source.gain;
    assert!(
        (sum - fusion.value).abs() < 1e-4,
        "{sum} against {}",
        fusion.value
    );
    assert_eq!(
        json(&selection),
        json(&pick(
            &engine,
            "book a meeting room",
            &in_mode(Mode::Hybrid)
        ))
    );
}

/// A [`FakeEmbedder`] with given properties.
struct DeclaredEmbedder {
    kind: ModelKind,
    cached: bool,
    scope: Option<f32>,
}

impl Embedder for DeclaredEmbedder {
    fn identity(&self) -> &str {
        "declared:1"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn kind(&self) -> ModelKind {
        self.kind
    }

    fn worth_caching(&self) -> bool {
        self.cached
    }

    fn scope(&self, _: &str) -> Option<f32> {
        self.scope
    }

    fn embed(
        &self,
        _: TextRole,
        texts: &[&str],
        _: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| fake_vector(text)).collect())
    }
}

#[test]
fn only_a_static_model_replaces_the_static_model() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (kind, cached) in [
        (ModelKind::Static, false),
        (ModelKind::Static, true),
        (ModelKind::Contextual, false),
        (ModelKind::Contextual, true),
    ] {
        let builder = Engine::builder(workplace()).embedder(Arc::new(DeclaredEmbedder {
            kind,
            cached,
            scope: None,
        }));
        let engine = builder
            .cache_dir(folder.path())
            .build()
            .expect("the model works");
        let selection = pick(&engine, "book a meeting room", &PickOptions::default());
        let models: Vec<&str> = selection.picks[0]
            .provenance
            .semantic
            .iter()
            .map(|evidence| evidence.model.as_str())
            .collect();
        let expected = if kind == ModelKind::Static { 1 } else { 2 };
        assert_eq!(
            (models.len(), models.last()),
            (expected, Some(&"declared:1")),
            "{kind:?} {cached}"
        );
        assert_eq!(engine.stats().cache.is_some(), cached, "{kind:?} {cached}");
    }
}

#[test]
fn model_scope_counts_if_it_is_a_number() {
    let answerable = |scope| {
        let model = DeclaredEmbedder {
            kind: ModelKind::Static,
            cached: false,
            scope,
        };
        let engine = Engine::builder(workplace())
            .embedder(Arc::new(model))
            .build()
            .expect("the model works");
        let selection = pick(&engine, "buy me a new router", &PickOptions::default());
        selection
            .answerable
            .expect("the built-in ranking estimates it")
    };
    let silent = answerable(None);
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(
            answerable(Some(wrong)).to_bits(),
            silent.to_bits(),
            "{wrong}"
        );
    }
    assert!(answerable(Some(-6.0)) < 0.8 * silent, "{silent}");
}

#[test]
fn reason_names_similar_words() {
    let hybrid = pick(
        &WORKPLACE,
        "make this picture smaller",
        &PickOptions::default(),
    );
    let reason = &hybrid.picks[0].reason;
    let expected = "(rank 1); similar words: \"smaller\" ~ \"size\" in description; \
                    best-matching server: media";
    assert!(reason.ends_with(expected), "{reason}");
    let words = &hybrid.picks[0].provenance.semantic[0].words;
    assert!(
        words.iter().any(|near| near.word == "picture"),
        "evidence has what the keywords have told, too: {words:?}"
    );
    let semantic = pick(
        &WORKPLACE,
        "make this picture smaller",
        &in_mode(Mode::Semantic),
    );
    let reason = &semantic.picks[0].reason;
    assert!(
        reason.contains("similar words: \"picture\" in description, \"smaller\" ~ "),
        "{reason}"
    );
}

#[test]
fn model_without_word_vectors_names_no_words() {
    let selection = pick(
        &engine(&FakeEmbedder::new(FakeDefect::None)),
        "book a meeting room",
        &PickOptions::default(),
    );
    let [helper, model] = &selection.picks[0].provenance.semantic[..] else {
        panic!("two models: {selection:?}")
    };
    assert!(
        !helper.words.is_empty() && model.words.is_empty(),
        "{helper:?} {model:?}"
    );
}

#[test]
fn mode_uses_its_retrievers_only() {
    let fake = FakeEmbedder::new(FakeDefect::None);
    let engine = engine(&fake);
    let semantic = pick(&engine, "book a meeting room", &in_mode(Mode::Semantic));
    assert!(semantic.scorer == "semantic" && !semantic.picks.is_empty());
    assert!(
        semantic
            .picks
            .iter()
            .all(|pick| pick.provenance.keyword.is_none() && pick.provenance.semantic.len() == 1)
    );
    let request_count = fake.requests.load(Ordering::Relaxed);
    let keyword = pick(&engine, "book a meeting room", &in_mode(Mode::Keyword));
    assert_eq!(
        fake.requests.load(Ordering::Relaxed),
        request_count,
        "keywords ask no model"
    );
    assert_eq!(
        json(&keyword),
        json(&pick(
            &KEYWORDS,
            "book a meeting room",
            &PickOptions::default()
        ))
    );
    assert_eq!(
        json(&keyword),
        json(&pick(
            &WORKPLACE,
            "book a meeting room",
            &in_mode(Mode::Keyword)
        ))
    );
    for (stage, selection) in [(Stage::Keyword, &semantic), (Stage::Semantic, &keyword)] {
        let report = selection
            .stages
            .iter()
            .find(|report| report.stage == stage)
            .expect("every stage reports");
        assert!(
            matches!(report.status, StageStatus::Skipped { .. }),
            "{report:?}"
        );
    }
}

#[test]
fn model_without_request_language_is_skipped() {
    let fake = FakeEmbedder::new(FakeDefect::None);
    let engine = engine(&fake);
    let request = "réserver une salle de réunion";
    let hybrid = pick(&engine, request, &PickOptions::default());
    assert_eq!(
        (fake.requests.load(Ordering::Relaxed), hybrid.degraded.len()),
        (0, 0)
    );
    let picks =
        |selection: &Selection| serde_json::to_string(&selection.picks).expect("picks serialise");
    assert_eq!(
        picks(&hybrid),
        picks(&pick(&WORKPLACE, request, &PickOptions::default()))
    );
    assert_eq!(ids(&hybrid)[0], "calendar/book_meeting_room");
    let alone = pick(&engine, request, &in_mode(Mode::Semantic));
    assert!(
        fake.requests.load(Ordering::Relaxed) > 0 && alone.degraded.is_empty(),
        "alone, it is asked all the same"
    );
}

#[test]
fn blank_request_uses_no_model() {
    let fake = FakeEmbedder::new(FakeDefect::None);
    let engine = engine(&fake);
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let selection = pick(&engine, " \n", &in_mode(mode));
        assert!(selection.picks.is_empty() && selection.degraded.is_empty());
    }
    assert_eq!(fake.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn exclusions_in_any_mode_hold() {
    let engine = engine(&FakeEmbedder::new(FakeDefect::None));
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let options = PickOptions {
            min_score: 0.0,
            max_candidates: 1_000,
            ..in_mode(mode)
        };
        let all = pick(&engine, "`delete_file` or book a meeting room", &options);
        assert!(
            ids(&all)
                .iter()
                .all(|id| public_ids(engine.catalog()).contains(id))
        );
        assert_eq!(
            all.ineligible.tools[0].named.as_deref(),
            Some("delete_file")
        );
        assert!(all.picks.is_sorted_by(|a, b| a.score >= b.score));
    }
}

#[test]
fn mandatory_tools_in_any_mode_are_picked() {
    let engine = engine(&FakeEmbedder::new(FakeDefect::None));
    for mode in [Mode::Semantic, Mode::Hybrid] {
        for min_score in [0.0, 1.0] {
            let options = PickOptions {
                min_score,
                always_include: vec!["dm".to_owned()],
                max_candidates: 2,
                ..in_mode(mode)
            };
            let mentioning = pick(
                &engine,
                "book a meeting room with a projector for the review, then use `ps`",
                &options,
            );
            let mut actual = ids(&mentioning);
            actual.sort_unstable();
            assert_eq!(
                actual,
                ["chat/send_direct_message", "terminal/terminalListProcesses"],
                "{mode:?} {min_score}"
            );
        }
    }
}

#[test]
fn built_in_semantic_scorer_ranks_as_its_mode() {
    let engine = engine(&FakeEmbedder::new(FakeDefect::None));
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let plain = pick(&engine, "list the files of a folder", &in_mode(mode));
        let scored = pick(
            &scored_by(Arc::new(engine.scorer(mode))),
            "list the files of a folder",
            &PickOptions::default(),
        );
        assert_eq!(ids(&plain), ids(&scored), "{mode:?}");
    }
}

#[test]
fn model_failure_on_tools_is_index_error() {
    for (trouble, message) in [
        (
            FakeDefect::OneVectorTooFew,
            "it gave 219 vectors for 220 texts",
        ),
        (
            FakeDefect::WrongDimensions,
            "it gave a vector of 65 dimensions instead of 64",
        ),
        (FakeDefect::NotANumber, "not finite"),
        (FakeDefect::FailsOnTools, "out of order"),
    ] {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let builder =
            Engine::builder(workplace()).embedder(FakeEmbedder::new(trouble) as Arc<dyn Embedder>);
        let error = builder
            .cache_dir(temporary.path())
            .build()
            .expect_err("the model errs");
        assert!(
            matches!(&error, IndexError::Embed(EmbedError::Inference { model, .. }) if model == "fake:1"),
            "{error}"
        );
        let cause = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(
            cause.contains(message) && !error.to_string().contains(&cause),
            "{error}: {cause}"
        );
        let (_, cache) = engine_with_cache(&FakeEmbedder::new(FakeDefect::None), temporary.path());
        assert_eq!(
            (cache.entries, cache.damaged_segments),
            (220, 0),
            "nothing wrong was kept"
        );
    }
}

#[test]
fn model_failure_on_request_keeps_other_retrievers() {
    let rest = pick(
        &WORKPLACE,
        "book a meeting room",
        &PickOptions {
            max_candidates: 1,
            ..PickOptions::default()
        },
    );
    for (trouble, reason) in [
        (FakeDefect::FailsOnRequests, "out of order"),
        (FakeDefect::HangsOnRequests, "deadline"),
        (FakeDefect::PanicsOnRequests, "panicked"),
    ] {
        let engine = engine(&FakeEmbedder::new(trouble));
        let options = PickOptions {
            timeout: Some(Duration::from_millis(200)),
            max_candidates: 1,
            ..PickOptions::default()
        };
        let started = Instant::now();
        let selection = pick(&engine, "book a meeting room", &options);
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "{reason}: {:?}",
            started.elapsed()
        );
        assert_eq!(ids(&selection), ids(&rest), "{reason}");
        assert_eq!(
            selection.picks[0].score.to_bits(),
            rest.picks[0].score.to_bits(),
            "scored as without the model"
        );
        let [degraded] = &selection.degraded[..] else {
            panic!("one stage is degraded: {:?}", selection.degraded)
        };
        assert_eq!(
            (degraded.stage, degraded.stage.to_string().as_str()),
            (Stage::Semantic, "semantic")
        );
        assert!(degraded.reason.contains(reason), "{}", degraded.reason);
        for pick in &selection.picks {
            let Some(semantic) = pick.provenance.semantic.last() else {
                continue;
            };
            assert!(semantic.stands_in);
            let fallback = format!("fallback model {:?}", semantic.model);
            assert!(pick.reason.contains(&fallback), "{}", pick.reason);
        }
        let semantic = pick(
            &engine,
            "book a meeting room",
            &PickOptions {
                mode: Some(Mode::Semantic),
                ..options
            },
        );
        assert_eq!(
            ids(&semantic),
            public_ids(engine.catalog())[..1],
            "nothing ranked, so registration order stands in"
        );
    }
}

/// Checks that a model that fails on requests leaves the ranking of the other retrievers, without a
/// deadline.
fn check_without_deadline(trouble: FakeDefect) {
    let rest = pick(&WORKPLACE, "book a meeting room", &PickOptions::default());
    let selection = pick(
        &engine(&FakeEmbedder::new(trouble)),
        "book a meeting room",
        &PickOptions::default(),
    );
    assert_eq!(ids(&selection), ids(&rest));
    assert_eq!(
        selection
            .degraded
            .iter()
            .map(|degraded| degraded.stage)
            .collect::<Vec<_>>(),
        [Stage::Semantic]
    );
}

#[test]
fn model_error_without_deadline_is_survived() {
    check_without_deadline(FakeDefect::FailsOnRequests);
}

#[test]
fn model_panic_without_deadline_is_survived() {
    check_without_deadline(FakeDefect::PanicsOnRequests);
}

#[test]
fn semantic_mode_without_model_is_rejected() {
    for (mode, name) in [(Mode::Semantic, "semantic"), (Mode::Hybrid, "hybrid")] {
        let error = KEYWORDS
            .pick(&"anything".into(), &in_mode(mode))
            .expect_err("there is no model");
        assert!(
            matches!(error, PickError::NoEmbedder { mode } if mode == name),
            "{error}"
        );
        assert!(error.to_string().contains("keywords only"), "{error}");
    }
}

#[test]
fn default_engine_uses_the_static_model() {
    let default = WORKPLACE.stats();
    assert!(
        default
            .model
            .is_some_and(|model| model.starts_with("static:"))
    );
    let selection = pick(
        &WORKPLACE,
        "make this picture smaller",
        &PickOptions::default(),
    );
    assert_eq!(
        (selection.scorer.as_str(), ids(&selection)[0]),
        ("hybrid", "media/resize-image")
    );
    let keyword = KEYWORDS.stats();
    assert_eq!(
        (keyword.model, keyword.dimensions, keyword.cache),
        (None, None, None)
    );
    let last = Engine::builder(workplace())
        .keyword_only()
        .embedder(FakeEmbedder::new(FakeDefect::None) as Arc<dyn Embedder>);
    assert_eq!(
        last.build()
            .expect("the fake works")
            .stats()
            .model
            .as_deref(),
        Some("fake:1"),
        "the last word counts"
    );
}

#[test]
fn static_model_writes_no_cache() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let model = picktools::embed::StaticEmbedder::shared().expect("the model is valid");
    for builder in [
        Engine::builder(workplace()),
        Engine::builder(workplace()).embedder(model),
    ] {
        let engine = builder
            .cache_dir(temporary.path())
            .build()
            .expect("the model needs nothing");
        assert_eq!(engine.stats().cache, None);
        assert!(files(temporary.path()).is_empty());
    }
}

#[test]
fn request_unknown_to_model_is_reported() {
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let selection = pick(&WORKPLACE, "𝄞𝄢", &in_mode(mode));
        assert!(
            selection.picks.is_empty() && selection.degraded.is_empty(),
            "{mode:?}: {:?}",
            ids(&selection)
        );
        let semantic = selection
            .stages
            .iter()
            .find(|report| report.stage == Stage::Semantic)
            .expect("it reports");
        let reason = "the model knows no word of the request".to_owned();
        assert_eq!(semantic.status, StageStatus::Skipped { reason });
        let scored = scored_by(Arc::new(WORKPLACE.scorer(mode)));
        assert!(
            pick(&scored, "𝄞𝄢", &PickOptions::default())
                .picks
                .is_empty(),
            "{mode:?}"
        );
    }
}

#[test]
fn progress_is_reported_up_to_the_end() {
    let cached = Engine::builder(workplace())
        .embedder(FakeEmbedder::new(FakeDefect::None) as Arc<dyn Embedder>);
    for builder in [cached, Engine::builder(workplace())] {
        let last = Arc::new(std::sync::Mutex::new((0, 0)));
        let last_progress = Arc::clone(&last);
        let builder = builder.on_progress(move |done, total| {
            *last_progress.lock().expect("nobody panicked") = (done, total);
        });
        builder.build().expect("the models work");
        assert_eq!(*last.lock().expect("nobody panicked"), (220, 220));
    }
}

// The cache

#[test]
fn cached_texts_are_not_embedded_again() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let first = FakeEmbedder::new(FakeDefect::None);
    let (one, cache) = engine_with_cache(&first, temporary.path());
    assert_eq!(
        (first.documents(), cache.entries, cache.unsaved),
        (220, 220, 0)
    );
    let second = FakeEmbedder::new(FakeDefect::None);
    let (two, cache) = engine_with_cache(&second, temporary.path());
    assert_eq!((second.documents(), cache.entries), (0, 220));
    let query = "book a meeting room";
    assert_eq!(
        json(&pick(&one, query, &PickOptions::default())),
        json(&pick(&two, query, &PickOptions::default()))
    );
    let third = FakeEmbedder::new(FakeDefect::None);
    let more = workplace()
        .with_tools([tool("extra", "brew_tea", "Makes tea")])
        .expect("there is not a conflict");
    let builder = Engine::builder(more).embedder(Arc::clone(&third) as Arc<dyn Embedder>);
    builder
        .cache_dir(temporary.path())
        .build()
        .expect("the fake works");
    assert_eq!(third.documents(), 1, "only what is new is embedded");
}

#[test]
fn damaged_cache_is_rebuilt() {
    let damage: [fn(&Path); 4] = [
        |file| fs::write(file, b"").expect("it can be written"),
        |file| fs::write(file, b"garbage").expect("it can be written"),
        |file| {
            let bytes = fs::read(file).expect("it can be read");
            fs::write(file, &bytes[..bytes.len() / 2]).expect("it can be written");
        },
        |file| {
            let mut bytes = fs::read(file).expect("it can be read");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x40;
            fs::write(file, bytes).expect("it can be written");
        },
    ];
    for (index, damage) in damage.iter().enumerate() {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let (sound, _) = engine_with_cache(&FakeEmbedder::new(FakeDefect::None), temporary.path());
        let cached = files(temporary.path());
        assert!(!cached.is_empty());
        cached.iter().for_each(|file| damage(file));
        let fresh = FakeEmbedder::new(FakeDefect::None);
        let (healed, cache) = engine_with_cache(&fresh, temporary.path());
        assert_eq!(
            (fresh.documents(), cache.damaged_segments),
            (220, cached.len()),
            "damage {index}"
        );
        let query = "book a meeting room";
        assert_eq!(
            json(&pick(&sound, query, &PickOptions::default())),
            json(&pick(&healed, query, &PickOptions::default()))
        );
        let after = FakeEmbedder::new(FakeDefect::None);
        let (_, cache) = engine_with_cache(&after, temporary.path());
        assert_eq!(
            (after.documents(), cache.damaged_segments),
            (0, 0),
            "damage {index}"
        );
    }
}

#[test]
fn unusable_cache_is_reported_without_failure() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let file = temporary.path().join("file");
    fs::write(&file, b"in the way").expect("it can be written");
    let fake = FakeEmbedder::new(FakeDefect::None);
    let (engine, cache) = engine_with_cache(&fake, &file.join("cache"));
    assert_eq!(
        (fake.documents(), cache.entries, cache.unsaved),
        (220, 220, 220)
    );
    let error = cache.write_error.expect("the reason is reported");
    assert!(error.contains("file"), "the error names the place: {error}");
    assert_eq!(
        ids(&pick(
            &engine,
            "book a meeting room",
            &PickOptions::default()
        ))[0],
        "calendar/book_meeting_room"
    );
    assert_eq!(
        fs::read(&file).expect("it can be read"),
        b"in the way",
        "what was there is untouched"
    );
}

#[test]
fn concurrent_engines_share_a_cache() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (_, cache) =
                    engine_with_cache(&FakeEmbedder::new(FakeDefect::None), temporary.path());
                assert_eq!(
                    (cache.entries, cache.unsaved, cache.damaged_segments),
                    (220, 0, 0)
                );
            });
        }
    });
    let after = FakeEmbedder::new(FakeDefect::None);
    engine_with_cache(&after, temporary.path());
    assert_eq!(after.documents(), 0);
}

#[test]
fn empty_catalog_has_no_vectors() {
    let fake = FakeEmbedder::new(FakeDefect::None);
    let engine = Engine::builder(catalog([]))
        .embedder(Arc::clone(&fake) as Arc<dyn Embedder>)
        .build()
        .expect("it is valid");
    assert!(
        pick(&engine, "book a meeting room", &PickOptions::default())
            .picks
            .is_empty()
    );
    assert_eq!(fake.documents(), 0);
}
