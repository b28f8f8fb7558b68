//! Ranking by meaning: the rules that hold for any embedding model, shown with a made-up one, and the real MiniLM on
//! ONNX Runtime.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use picktools::{
    CacheStatus, EmbedError, Embedder, Engine, IndexError, Mode, PickError, PickOptions, Role, Selection, Stage,
    StageStatus,
};

use crate::support::{WORKPLACE, catalog, ids, pick, public_ids, tool, workplace};

const DIMENSIONS: usize = 64;

/// What is wrong with a [`Fake`].
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    OneVectorTooFew,
    WrongDimensions,
    NotANumber,
    FailsOnTools,
    FailsOnRequests,
    HangsOnRequests,
    PanicsOnRequests,
}

/// Adds up one direction a word, so that texts are as similar as they share words; counts what it embeds.
struct Fake {
    trouble: Trouble,
    documents: AtomicUsize,
    requests: AtomicUsize,
}

impl Fake {
    fn new(trouble: Trouble) -> Arc<Self> {
        Arc::new(Self { trouble, documents: AtomicUsize::new(0), requests: AtomicUsize::new(0) })
    }

    fn documents(&self) -> usize {
        self.documents.load(Ordering::Relaxed)
    }
}

fn fake_vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.01; DIMENSIONS];
    for word in text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let hash = word
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        vector[(hash >> 32) as usize % DIMENSIONS] += 1.0;
    }
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    vector.iter().map(|value| value / length).collect()
}

impl Embedder for Fake {
    fn identity(&self) -> &str {
        "fake:1"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(
        &self,
        role: Role,
        texts: &[&str],
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let counter = if role == Role::Document { &self.documents } else { &self.requests };
        counter.fetch_add(texts.len(), Ordering::Relaxed);
        let failed = || Err(EmbedError::Inference { model: "fake:1".to_owned(), reason: "out of order".to_owned() });
        match (self.trouble, role) {
            (Trouble::FailsOnTools, Role::Document) | (Trouble::FailsOnRequests, Role::Query) => return failed(),
            (Trouble::HangsOnRequests, Role::Query) => thread::sleep(Duration::from_secs(10)),
            (Trouble::PanicsOnRequests, Role::Query) => panic!("on purpose"),
            _ => {}
        }
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| fake_vector(text)).collect();
        match (self.trouble, vectors.last_mut()) {
            (Trouble::OneVectorTooFew, _) => drop(vectors.pop()),
            (Trouble::WrongDimensions, Some(last)) => last.push(0.0),
            (Trouble::NotANumber, Some(last)) => last[7] = f32::NAN,
            _ => {}
        }
        progress(texts.len());
        Ok(vectors)
    }
}

fn engine(embedder: &Arc<Fake>) -> Engine {
    Engine::builder(workplace()).embedder(Arc::clone(embedder) as Arc<dyn Embedder>).build().expect("the fake works")
}

fn engine_with_cache(embedder: &Arc<Fake>, folder: &Path) -> (Engine, CacheStatus) {
    let builder = Engine::builder(workplace()).embedder(Arc::clone(embedder) as Arc<dyn Embedder>);
    let engine = builder.cache_dir(folder).build().expect("a cache never fails a build");
    let cache = engine.stats().cache.expect("a cache is used");
    (engine, cache)
}

fn in_mode(mode: Mode) -> PickOptions {
    PickOptions { mode: Some(mode), ..PickOptions::default() }
}

fn json(selection: &Selection) -> String {
    serde_json::to_string(selection).expect("a selection serialises")
}

#[test]
fn with_a_model_the_ranking_is_hybrid_and_says_what_each_retriever_said() {
    let engine = engine(&Fake::new(Trouble::None));
    let selection = pick(&engine, "book a meeting room", &PickOptions::default());
    assert_eq!((selection.scorer.as_str(), ids(&selection)[0]), ("hybrid", "calendar/book_meeting_room"));
    let provenance = &selection.picks[0].provenance;
    let keyword = provenance.keyword.as_ref().expect("keywords are evidence");
    let semantic = provenance.semantic.as_ref().expect("meaning is evidence");
    assert_eq!((keyword.rank, semantic.rank, semantic.model.as_str()), (Some(1), Some(1), "fake:1"));
    assert!(semantic.score > 0.3 && semantic.score <= 1.0, "{}", semantic.score);
    let fusion = provenance.fusion.as_ref().expect("fusion is evidence");
    assert!(fusion.parts.keys().eq(["keyword", "semantic"].iter()), "{:?}", fusion.parts);
    let sum: f32 = fusion.parts.values().map(|part| part.weight * part.standardised).sum();
    assert!((sum - fusion.value).abs() < 1e-4, "{sum} against {}", fusion.value);
    let weights: f32 = fusion.parts.values().map(|part| part.weight).sum();
    assert!((weights - 1.0).abs() < 1e-6, "{weights}");
    assert_eq!(json(&selection), json(&pick(&engine, "book a meeting room", &in_mode(Mode::Hybrid))));
}

#[test]
fn a_mode_uses_its_retrievers_and_no_others() {
    let fake = Fake::new(Trouble::None);
    let engine = engine(&fake);
    let semantic = pick(&engine, "book a meeting room", &in_mode(Mode::Semantic));
    assert_eq!((semantic.scorer.as_str(), ids(&semantic)[0]), ("semantic", "calendar/book_meeting_room"));
    assert!(semantic.picks.iter().all(|pick| pick.provenance.keyword.is_none() && pick.provenance.semantic.is_some()));
    let asked = fake.requests.load(Ordering::Relaxed);
    let keyword = pick(&engine, "book a meeting room", &in_mode(Mode::Keyword));
    assert_eq!(fake.requests.load(Ordering::Relaxed), asked, "keywords ask no model");
    assert_eq!(json(&keyword), json(&pick(&WORKPLACE, "book a meeting room", &PickOptions::default())));
    for (stage, selection) in [(Stage::Keyword, &semantic), (Stage::Semantic, &keyword)] {
        let report = selection.stages.iter().find(|report| report.stage == stage).expect("every stage reports");
        assert!(matches!(report.status, StageStatus::Skipped { .. }), "{report:?}");
    }
}

#[test]
fn a_blank_request_asks_no_model() {
    let fake = Fake::new(Trouble::None);
    let engine = engine(&fake);
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let selection = pick(&engine, " \n", &in_mode(mode));
        assert!(selection.picks.is_empty() && selection.degraded.is_empty());
    }
    assert_eq!(fake.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn exclusions_hold_in_every_mode() {
    let engine = engine(&Fake::new(Trouble::None));
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let options = PickOptions { min_score: 0.0, max_candidates: 1_000, ..in_mode(mode) };
        let all = pick(&engine, "`delete_file` or book a meeting room", &options);
        assert!(ids(&all).iter().all(|id| public_ids(engine.catalog()).contains(id)));
        assert_eq!(all.ineligible.tools[0].named.as_deref(), Some("delete_file"));
        assert!(all.picks.is_sorted_by(|a, b| a.score >= b.score));
    }
}

#[test]
fn named_and_always_included_tools_are_picked_in_every_mode() {
    let engine = engine(&Fake::new(Trouble::None));
    for mode in [Mode::Semantic, Mode::Hybrid] {
        for min_score in [0.0, 1.0] {
            let options =
                PickOptions { min_score, always_include: vec!["dm".to_owned()], max_candidates: 2, ..in_mode(mode) };
            let named = pick(&engine, "book a meeting room with a projector for the review, then use `ps`", &options);
            let mut found = ids(&named);
            found.sort_unstable();
            assert_eq!(found, ["chat/send_direct_message", "terminal/terminalListProcesses"], "{mode:?} {min_score}");
        }
    }
}

#[test]
fn built_in_semantic_scorers_rank_as_their_modes_do() {
    let engine = engine(&Fake::new(Trouble::None));
    for mode in [Mode::Semantic, Mode::Hybrid] {
        let plain = pick(&engine, "list the files of a folder", &in_mode(mode));
        let scorer = PickOptions { scorer: Some(Arc::new(engine.scorer(mode))), ..PickOptions::default() };
        assert_eq!(ids(&plain), ids(&pick(&engine, "list the files of a folder", &scorer)), "{mode:?}");
    }
}

#[test]
fn a_model_that_errs_on_tools_is_an_error_of_the_index() {
    for (trouble, message) in [
        (Trouble::OneVectorTooFew, "it gave 219 vectors for 220 texts"),
        (Trouble::WrongDimensions, "it gave a vector of 65 dimensions instead of 64"),
        (Trouble::NotANumber, "no number"),
        (Trouble::FailsOnTools, "out of order"),
    ] {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let builder = Engine::builder(workplace()).embedder(Fake::new(trouble) as Arc<dyn Embedder>);
        let error = builder.cache_dir(temporary.path()).build().expect_err("the model errs");
        assert!(
            matches!(&error, IndexError::Embed(EmbedError::Inference { model, .. }) if model == "fake:1"),
            "{error}"
        );
        assert!(error.to_string().contains(message), "{error}");
        let (_, cache) = engine_with_cache(&Fake::new(Trouble::None), temporary.path());
        assert_eq!((cache.entries, cache.damaged_segments), (220, 0), "nothing wrong was kept");
    }
}

#[test]
fn a_model_that_errs_on_a_request_leaves_the_keywords() {
    let keyword = pick(&WORKPLACE, "book a meeting room", &PickOptions { max_candidates: 1, ..PickOptions::default() });
    for (trouble, reason) in [
        (Trouble::FailsOnRequests, "out of order"),
        (Trouble::HangsOnRequests, "deadline"),
        (Trouble::PanicsOnRequests, "panicked"),
    ] {
        let engine = engine(&Fake::new(trouble));
        let options =
            PickOptions { timeout: Some(Duration::from_millis(200)), max_candidates: 1, ..PickOptions::default() };
        let started = Instant::now();
        let selection = pick(&engine, "book a meeting room", &options);
        assert!(started.elapsed() < Duration::from_secs(2), "{reason}: {:?}", started.elapsed());
        assert_eq!(ids(&selection), ids(&keyword), "{reason}");
        assert_eq!(
            selection.picks[0].score.to_bits(),
            keyword.picks[0].score.to_bits(),
            "scored as keywords alone are"
        );
        let [degraded] = &selection.degraded[..] else { panic!("one stage is degraded: {:?}", selection.degraded) };
        assert_eq!((degraded.stage, degraded.stage.to_string().as_str()), (Stage::Semantic, "semantic"));
        assert!(degraded.reason.contains(reason), "{}", degraded.reason);
        let semantic = pick(&engine, "book a meeting room", &PickOptions { mode: Some(Mode::Semantic), ..options });
        assert_eq!(
            ids(&semantic),
            public_ids(engine.catalog())[..1],
            "nothing ranked, so registration order stands in"
        );
    }
}

/// Checks that a model in trouble with requests leaves the keyword ranking, where there is no deadline.
fn check_without_deadline(trouble: Trouble) {
    let keyword = pick(&WORKPLACE, "book a meeting room", &PickOptions::default());
    let selection = pick(&engine(&Fake::new(trouble)), "book a meeting room", &PickOptions::default());
    assert_eq!(ids(&selection), ids(&keyword));
    assert_eq!(selection.degraded.iter().map(|degraded| degraded.stage).collect::<Vec<_>>(), [Stage::Semantic]);
}

#[test]
fn a_model_that_fails_is_survived_without_a_deadline_too() {
    check_without_deadline(Trouble::FailsOnRequests);
}

#[test]
fn a_model_that_panics_is_survived_without_a_deadline_too() {
    check_without_deadline(Trouble::PanicsOnRequests);
}

#[test]
fn a_mode_that_needs_a_model_is_refused_without_one() {
    let error = WORKPLACE.pick(&"anything".into(), &in_mode(Mode::Semantic)).expect_err("there is no model");
    assert!(matches!(error, PickError::NoEmbedder { mode: "semantic" }), "{error}");
}

#[test]
fn progress_is_told_up_to_the_end() {
    let last = Arc::new(std::sync::Mutex::new((0, 0)));
    let told = Arc::clone(&last);
    let builder = Engine::builder(workplace()).embedder(Fake::new(Trouble::None) as Arc<dyn Embedder>);
    let builder = builder.on_progress(move |done, total| *told.lock().expect("nobody panicked") = (done, total));
    builder.build().expect("the fake works");
    assert_eq!(*last.lock().expect("nobody panicked"), (220, 220));
}

// The cache

#[test]
fn nothing_is_embedded_twice() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let first = Fake::new(Trouble::None);
    let (one, cache) = engine_with_cache(&first, temporary.path());
    assert_eq!((first.documents(), cache.entries, cache.unsaved), (220, 220, 0));
    let second = Fake::new(Trouble::None);
    let (two, cache) = engine_with_cache(&second, temporary.path());
    assert_eq!((second.documents(), cache.entries), (0, 220));
    let query = "book a meeting room";
    assert_eq!(json(&pick(&one, query, &PickOptions::default())), json(&pick(&two, query, &PickOptions::default())));
    let third = Fake::new(Trouble::None);
    let more = workplace().with_tools([tool("extra", "brew_tea", "Makes tea")]).expect("there is no conflict");
    let builder = Engine::builder(more).embedder(Arc::clone(&third) as Arc<dyn Embedder>);
    builder.cache_dir(temporary.path()).build().expect("the fake works");
    assert_eq!(third.documents(), 1, "only what is new is embedded");
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("the folder can be read").map(|entry| entry.expect("it can be read").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_damaged_cache_heals() {
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
        let (sound, _) = engine_with_cache(&Fake::new(Trouble::None), temporary.path());
        let cached = files(temporary.path());
        assert!(!cached.is_empty());
        cached.iter().for_each(|file| damage(file));
        let again = Fake::new(Trouble::None);
        let (healed, cache) = engine_with_cache(&again, temporary.path());
        assert_eq!((again.documents(), cache.damaged_segments), (220, cached.len()), "damage {index}");
        let query = "book a meeting room";
        assert_eq!(
            json(&pick(&sound, query, &PickOptions::default())),
            json(&pick(&healed, query, &PickOptions::default()))
        );
        let after = Fake::new(Trouble::None);
        let (_, cache) = engine_with_cache(&after, temporary.path());
        assert_eq!((after.documents(), cache.damaged_segments), (0, 0), "damage {index}");
    }
}

#[test]
fn a_cache_that_cannot_be_used_is_reported_and_missed_by_nobody() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let file = temporary.path().join("file");
    fs::write(&file, b"in the way").expect("it can be written");
    let fake = Fake::new(Trouble::None);
    let (engine, cache) = engine_with_cache(&fake, &file.join("cache"));
    assert_eq!((fake.documents(), cache.entries, cache.unsaved), (220, 220, 220));
    let error = cache.write_error.expect("the reason is reported");
    assert!(error.contains("file"), "the error names the place: {error}");
    assert_eq!(ids(&pick(&engine, "book a meeting room", &PickOptions::default()))[0], "calendar/book_meeting_room");
    assert_eq!(fs::read(&file).expect("it can be read"), b"in the way", "what was there is untouched");
}

#[test]
fn two_at_once_share_a_cache() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (_, cache) = engine_with_cache(&Fake::new(Trouble::None), temporary.path());
                assert_eq!((cache.entries, cache.unsaved, cache.damaged_segments), (220, 0, 0));
            });
        }
    });
    let after = Fake::new(Trouble::None);
    engine_with_cache(&after, temporary.path());
    assert_eq!(after.documents(), 0);
}

#[test]
fn an_empty_catalog_needs_no_vectors() {
    let fake = Fake::new(Trouble::None);
    let engine =
        Engine::builder(catalog([])).embedder(Arc::clone(&fake) as Arc<dyn Embedder>).build().expect("it is sound");
    assert!(pick(&engine, "book a meeting room", &PickOptions::default()).picks.is_empty());
    assert_eq!(fake.documents(), 0);
}

/// The real model.
#[cfg(feature = "fastembed")]
mod minilm {
    use std::env;
    use std::sync::LazyLock;

    use picktools::{FastEmbedder, FastEmbedderOptions};

    use super::*;
    use crate::support::root;

    static MODEL: LazyLock<Arc<FastEmbedder>> = LazyLock::new(|| {
        Arc::new(FastEmbedder::from_folder(models().join("minilm"), &options()).expect("the model is sound"))
    });

    static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
        let embedder = Arc::clone(&*MODEL) as Arc<dyn Embedder>;
        Engine::builder(workplace()).embedder(embedder).build().expect("the model works")
    });

    /// The folder that `scripts/fetch-models.sh` fills.
    fn models() -> PathBuf {
        let folder = env::var_os("PICKTOOLS_TEST_MODELS").map_or_else(|| root("target/models"), PathBuf::from);
        for file in ["minilm/model.onnx", "minilm/tokenizer.json", "libonnxruntime.so"] {
            let path = folder.join(file);
            assert!(path.is_file(), "{} is not there; run scripts/fetch-models.sh first", path.display());
        }
        folder
    }

    fn options() -> FastEmbedderOptions {
        FastEmbedderOptions { runtime: Some(models().join("libonnxruntime.so")), ..FastEmbedderOptions::default() }
    }

    fn embed(role: Role, texts: &[&str]) -> Vec<Vec<f32>> {
        MODEL.embed(role, texts, &|_| {}).expect("the model works")
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn similarities_are_those_of_the_reference() {
        // By onnxruntime and tokenizers in Python, mean pooling, on the same files.
        for (a, b, expected) in [
            ("Send an e-mail to a colleague", "Write a message to a co-worker", 0.5881),
            ("Send an e-mail to a colleague", "Weather forecast for the coming days", 0.1064),
            ("read_file: Print a file of the local machine", "show me what is in this document", 0.0784),
            ("convert currency", "How many yen are 250 Swiss francs?", 0.4607),
            ("The cat sits on the mat", "The cat sits on the mat", 1.0),
        ] {
            let vectors = embed(Role::Document, &[a, b]);
            let similarity = dot(&vectors[0], &vectors[1]);
            assert!((similarity - expected).abs() < 0.02, "{a} / {b}: {similarity} against {expected}");
        }
        assert_eq!(MODEL.dimensions(), 384);
    }

    #[test]
    fn vectors_have_unit_length_and_no_company() {
        let long = "word ".repeat(5_000);
        let texts =
            ["", "a", "book a meeting room", "查询订单", "🚀", &long, "delete a file", "read_file", "Überweisung"];
        let together = embed(Role::Document, &texts);
        for (text, vector) in texts.iter().zip(&together) {
            let length = dot(vector, vector).sqrt();
            assert!((length - 1.0).abs() < 1e-4, "{text:.20}: {length}");
            assert_eq!(&embed(Role::Document, &[text])[0], vector, "{text:.20} alone and among others");
        }
        assert_eq!(together, embed(Role::Document, &texts), "again");
    }

    #[test]
    fn meaning_finds_what_words_miss() {
        let query = "take a picture of the whole page, down to the footer";
        let keyword = pick(&ENGINE, query, &in_mode(Mode::Keyword));
        let hybrid = pick(&ENGINE, query, &PickOptions::default());
        assert!(!ids(&keyword).contains(&"browser/browser_screenshot"), "{:?}", ids(&keyword));
        assert!(ids(&hybrid).contains(&"browser/browser_screenshot"), "{:?}", ids(&hybrid));
        let semantic = hybrid.picks[0].provenance.semantic.as_ref().expect("meaning is evidence");
        assert!(semantic.model.starts_with("onnx:"), "{}", semantic.model);
    }

    #[test]
    fn the_same_request_gives_the_same_bytes() {
        for query in ["book a meeting room", "où est mon colis", "the disk is full"] {
            assert_eq!(
                json(&pick(&ENGINE, query, &PickOptions::default())),
                json(&pick(&ENGINE, query, &PickOptions::default()))
            );
        }
    }

    #[test]
    fn a_generous_deadline_changes_nothing() {
        let timed = PickOptions { timeout: Some(Duration::from_secs(60)), ..PickOptions::default() };
        let query = "book a meeting room";
        assert_eq!(json(&pick(&ENGINE, query, &PickOptions::default())), json(&pick(&ENGINE, query, &timed)));
    }

    /// A model folder with these files of the real one.
    fn folder(files: &[&str]) -> tempfile::TempDir {
        let temporary = tempfile::tempdir().expect("a folder can be made");
        for file in files {
            fs::copy(models().join("minilm").join(file), temporary.path().join(file)).expect("it can be copied");
        }
        temporary
    }

    #[test]
    fn a_folder_that_lacks_files_names_them() {
        for (there, lacking) in [
            (&[][..], &["model.onnx", "tokenizer.json"][..]),
            (&["tokenizer.json"], &["model.onnx"]),
            (&["model.onnx"], &["tokenizer.json"]),
        ] {
            let temporary = folder(there);
            match FastEmbedder::from_folder(temporary.path(), &options()) {
                Err(error @ EmbedError::MissingFiles { .. }) => {
                    assert!(lacking.iter().all(|file| error.to_string().contains(file)), "{error}");
                    let EmbedError::MissingFiles { path, missing } = error else { unreachable!("just matched") };
                    assert_eq!(
                        (path.as_path(), &missing[..]),
                        (temporary.path(), &lacking.iter().map(|&file| file.to_owned()).collect::<Vec<_>>()[..])
                    );
                }
                other => panic!("{there:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn damaged_files_are_errors_of_loading() {
        let whole = folder(&["model.onnx", "tokenizer.json"]);
        let damage = |file: &str, bytes: &[u8]| {
            let kept = fs::read(whole.path().join(file)).ok();
            fs::write(whole.path().join(file), bytes).expect("it can be written");
            let error = FastEmbedder::from_folder(whole.path(), &options()).expect_err("the file is damaged");
            assert!(matches!(&error, EmbedError::Load { reason, .. } if !reason.is_empty()), "{file}: {error}");
            assert!(error.to_string().contains(&whole.path().display().to_string()), "{file}: {error}");
            match kept {
                Some(kept) => fs::write(whole.path().join(file), kept).expect("it can be written"),
                None => fs::remove_file(whole.path().join(file)).expect("it can be removed"),
            }
        };
        let model = fs::read(whole.path().join("model.onnx")).expect("it was copied");
        damage("model.onnx", b"");
        damage("model.onnx", b"not a model");
        damage("model.onnx", &model[..model.len() / 2]);
        damage("tokenizer.json", b"{}");
        damage("tokenizer.json", b"{\"version\":");
        damage("config.json", b"[]");
        damage("tokenizer_config.json", b"{\"pad_token\":");
    }

    #[test]
    fn a_copied_folder_is_the_same_model_and_a_changed_one_is_not() {
        let copy = folder(&["model.onnx", "tokenizer.json"]);
        let open = || FastEmbedder::from_folder(copy.path(), &options()).expect("the model is sound");
        assert_eq!(open().identity(), MODEL.identity(), "cached vectors are good wherever the folder lies");
        fs::write(copy.path().join("config_sentence_transformers.json"), br#"{"prompts": {"query": "query: "}}"#)
            .expect("it can be written");
        let prompted = open();
        assert_ne!(prompted.identity(), MODEL.identity());
        let embed_with = |role| prompted.embed(role, &["book a room"], &|_| {}).expect("the model works").remove(0);
        assert_eq!(embed_with(Role::Document), embed(Role::Document, &["book a room"])[0]);
        assert_eq!(embed_with(Role::Query), embed(Role::Query, &["query: book a room"])[0]);
    }

    #[test]
    fn an_unknown_model_gets_a_suggestion() {
        match FastEmbedder::from_name("BGESmalENV15", &options()) {
            Err(EmbedError::UnknownModel { name, suggestion, known }) => {
                assert_eq!((name.as_str(), suggestion.as_deref()), ("BGESmalENV15", Some("BGESmallENV15")));
                assert!(known.contains(&"AllMiniLML6V2".to_owned()), "{known:?}");
            }
            other => panic!("{other:?}"),
        }
        let error = FastEmbedder::from_name("☃", &options()).expect_err("there is no such model");
        assert!(!error.to_string().contains("did you mean") && error.to_string().contains("folder"), "{error}");
    }

    #[cfg(not(feature = "fastembed-download"))]
    #[test]
    fn a_known_model_that_cannot_be_fetched_says_what_to_do() {
        for name in ["BGESmallENV15", "Xenova/bge-small-en-v1.5", "bge-small-EN-v1.5"] {
            let error = FastEmbedder::from_name(name, &options()).expect_err("this build fetches nothing");
            assert!(matches!(&error, EmbedError::Download { name: told, .. } if told == name), "{error}");
            assert!(error.to_string().contains("fastembed-download"), "{error}");
            assert!(error.to_string().contains("tokenizer.json"), "{error}");
        }
    }

    /// The program: a process loads ONNX Runtime only once, and these need processes of their own.
    #[cfg(feature = "cli")]
    mod program {
        use super::*;
        use crate::cli::{picktools, stderr, stdout};

        #[test]
        fn a_missing_runtime_says_how_to_get_it() {
            let temporary = tempfile::tempdir().expect("a folder can be made");
            let no_library = temporary.path().join("text.so");
            fs::write(&no_library, b"no library").expect("it can be written");
            for library in [temporary.path().join("none.so"), no_library, temporary.path().to_owned()] {
                for by_name in [false, true] {
                    let model = if by_name { PathBuf::from("BGESmallENV15") } else { models().join("minilm") };
                    let mut command = picktools(&["pick", "x", "--catalog", "fixtures/catalogs/workplace", "--model"]);
                    let output = command.arg(&model).env("ORT_DYLIB_PATH", &library).output().expect("it runs");
                    let text = stderr(&output);
                    assert_eq!(output.status.code(), Some(2), "{text}");
                    assert!(text.starts_with("error: cannot load ONNX Runtime from "), "{text}");
                    assert!(text.contains(&library.display().to_string()), "{text}");
                    assert!(text.contains("pip install onnxruntime") && text.contains("ORT_DYLIB_PATH"), "{text}");
                }
            }
        }

        #[test]
        fn explain_shows_both_retrievers_and_the_cache_serves_the_second_run() {
            let temporary = tempfile::tempdir().expect("a folder can be made");
            let library = models().join("libonnxruntime.so");
            let model = models().join("minilm");
            let run = |arguments: &[&str]| {
                let mut command = picktools(arguments);
                command.arg("--catalog").arg(root("fixtures/formats/native.json")).arg("--model").arg(&model);
                command.arg("--onnx-runtime").arg(&library).arg("--cache-dir").arg(temporary.path());
                let output = command.output().expect("it runs");
                assert!(output.status.success(), "{}", stderr(&output));
                stdout(&output)
            };
            let first = run(&["pick", "will it rain in Oslo", "--explain"]);
            for part in
                ["keyword   ", "semantic  rank 1, cosine 0.", "(onnx:", "fused     ", "keyword 0.", "semantic 0."]
            {
                assert!(first.contains(part), "{part:?} is not in:\n{first}");
            }
            assert!(!files(temporary.path()).is_empty(), "the cache was written");
            assert_eq!(first, run(&["pick", "will it rain in Oslo", "--explain"]));
            let index: serde_json::Value = serde_json::from_str(&run(&["index", "--json"])).expect("it is JSON");
            assert_eq!((&index["dimensions"], &index["cache"]["entries"]), (&384.into(), &3.into()), "{index}");
        }
    }
}
