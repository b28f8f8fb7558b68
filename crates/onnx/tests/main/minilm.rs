//! The real MiniLM on ONNX Runtime: vectors, model folders and errors.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use std::{env, fs};

use picktools::embed::{EmbedError, Embedder, TextRole};
use picktools::{Engine, Mode, PickOptions, Selection};
use picktools_onnx::{FastEmbedder, OnnxOptions};
use picktools_testing::{ids, in_mode, pick, root, workplace};

static MODEL: LazyLock<Arc<FastEmbedder>> = LazyLock::new(|| {
    Arc::new(
        FastEmbedder::from_folder(models().join("minilm"), &options()).expect("the model is valid"),
    )
});

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let embedder = Arc::clone(&*MODEL) as Arc<dyn Embedder>;
    Engine::builder(workplace())
        .embedder(embedder)
        .build()
        .expect("the model works")
});

/// The folder that `scripts/fetch-models.sh` fills.
pub(crate) fn models() -> PathBuf {
    let folder =
        env::var_os("PICKTOOLS_TEST_MODELS").map_or_else(|| root("target/models"), PathBuf::from);
    for file in [
        "minilm/model.onnx",
        "minilm/tokenizer.json",
        "libonnxruntime.so",
    ] {
        let path = folder.join(file);
        assert!(
            path.is_file(),
            "{} is missing; run scripts/fetch-models.sh",
            path.display()
        );
    }
    folder
}

pub(crate) fn options() -> OnnxOptions {
    OnnxOptions {
        runtime: Some(models().join("libonnxruntime.so")),
        ..OnnxOptions::default()
    }
}

fn embed(role: TextRole, texts: &[&str]) -> Vec<Vec<f32>> {
    MODEL.embed(role, texts, &|_| {}).expect("the model works")
}

fn json(selection: &Selection) -> String {
    serde_json::to_string(selection).expect("a selection serialises")
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn similarities_equal_the_python_reference() {
    // Expected values by onnxruntime and tokenizers in Python, with mean pooling, on the same
    // files.
    for (a, b, expected) in [
        (
            "Send an e-mail to a colleague",
            "Write a message to a co-worker",
            0.5881,
        ),
        (
            "Send an e-mail to a colleague",
            "Weather forecast for the coming days",
            0.1064,
        ),
        (
            "read_file: Print a file of the local machine",
            "show me what is in this document",
            0.0784,
        ),
        (
            "convert currency",
            "How many yen are 250 Swiss francs?",
            0.4607,
        ),
        ("The cat sits on the mat", "The cat sits on the mat", 1.0),
    ] {
        let vectors = embed(TextRole::Document, &[a, b]);
        let similarity = dot(&vectors[0], &vectors[1]);
        assert!(
            (similarity - expected).abs() < 0.02,
            "{a} / {b}: {similarity} instead of {expected}"
        );
    }
    assert_eq!(MODEL.dimensions(), 384);
}

#[test]
fn vectors_have_unit_length_and_ignore_other_texts() {
    let long = "word ".repeat(5_000);
    let texts = [
        "",
        "a",
        "book a meeting room",
        "查询订单",
        "🚀",
        &long,
        "delete a file",
        "read_file",
        "Überweisung",
    ];
    let together = embed(TextRole::Document, &texts);
    for (text, vector) in texts.iter().zip(&together) {
        let length = dot(vector, vector).sqrt();
        assert!((length - 1.0).abs() < 1e-4, "{text:.20}: {length}");
        assert_eq!(
            &embed(TextRole::Document, &[text])[0],
            vector,
            "{text:.20} alone and with others"
        );
    }
    assert_eq!(together, embed(TextRole::Document, &texts), "repeated");
}

#[test]
fn semantic_ranking_finds_tools_without_common_words() {
    let query = "take a picture of the complete page, down to the footer";
    let keyword = pick(&ENGINE, query, &in_mode(Mode::Keyword));
    let hybrid = pick(&ENGINE, query, &PickOptions::default());
    assert!(
        !ids(&keyword).contains(&"browser/browser_screenshot"),
        "{:?}",
        ids(&keyword)
    );
    assert!(
        ids(&hybrid).contains(&"browser/browser_screenshot"),
        "{:?}",
        ids(&hybrid)
    );
    let semantic = hybrid.picks[0]
        .provenance
        .semantic
        .last()
        .expect("semantic evidence");
    assert!(semantic.model.starts_with("onnx:"), "{}", semantic.model);
}

#[test]
fn the_same_request_gives_the_same_bytes() {
    for query in [
        "book a meeting room",
        "où est mon colis",
        "the disk is full",
    ] {
        assert_eq!(
            json(&pick(&ENGINE, query, &PickOptions::default())),
            json(&pick(&ENGINE, query, &PickOptions::default()))
        );
    }
}

#[test]
fn long_deadline_does_not_change_the_pick() {
    let timed = PickOptions {
        timeout: Some(Duration::from_secs(60)),
        ..PickOptions::default()
    };
    let query = "book a meeting room";
    assert_eq!(
        json(&pick(&ENGINE, query, &PickOptions::default())),
        json(&pick(&ENGINE, query, &timed))
    );
}

/// Returns a model folder with some files of the real one.
fn folder(files: &[&str]) -> tempfile::TempDir {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    for file in files {
        fs::copy(
            models().join("minilm").join(file),
            temporary.path().join(file),
        )
        .expect("it can be copied");
    }
    temporary
}

#[test]
fn folder_without_model_files_names_them() {
    for (existing, expected_missing) in [
        (&[][..], &["model.onnx", "tokenizer.json"][..]),
        (&["tokenizer.json"], &["model.onnx"]),
        (&["model.onnx"], &["tokenizer.json"]),
    ] {
        let temporary = folder(existing);
        match FastEmbedder::from_folder(temporary.path(), &options()) {
            Err(error @ EmbedError::MissingFiles { .. }) => {
                assert!(
                    expected_missing
                        .iter()
                        .all(|file| error.to_string().contains(file)),
                    "{error}"
                );
                let EmbedError::MissingFiles { path, missing } = error else {
                    unreachable!("just matched")
                };
                assert_eq!(
                    (path.as_path(), &missing[..]),
                    (
                        temporary.path(),
                        &expected_missing
                            .iter()
                            .map(|&file| file.to_owned())
                            .collect::<Vec<_>>()[..]
                    )
                );
            }
            other => panic!("{existing:?}: {other:?}"),
        }
    }
}

#[test]
fn damaged_model_files_are_load_errors() {
    let complete = folder(&["model.onnx", "tokenizer.json"]);
    let damage = |file: &str, bytes: &[u8]| {
        let original = fs::read(complete.path().join(file)).ok();
        fs::write(complete.path().join(file), bytes).expect("it can be written");
        let error = FastEmbedder::from_folder(complete.path(), &options())
            .expect_err("the file is damaged");
        assert!(
            matches!(&error, EmbedError::Load { reason, .. } if !reason.is_empty()),
            "{file}: {error}"
        );
        assert!(
            error
                .to_string()
                .contains(&complete.path().display().to_string()),
            "{file}: {error}"
        );
        match original {
            Some(original) => {
                fs::write(complete.path().join(file), original).expect("it can be written");
            }
            None => fs::remove_file(complete.path().join(file)).expect("it can be removed"),
        }
    };
    let model = fs::read(complete.path().join("model.onnx")).expect("it was copied");
    damage("model.onnx", b"");
    damage("model.onnx", b"not a model");
    damage("model.onnx", &model[..model.len() / 2]);
    damage("tokenizer.json", b"{}");
    damage("tokenizer.json", b"{\"version\":");
    damage("config.json", b"[]");
    damage("tokenizer_config.json", b"{\"pad_token\":");
}

#[test]
fn model_identity_depends_on_content_not_on_the_folder() {
    let copy = folder(&["model.onnx", "tokenizer.json"]);
    let open = || FastEmbedder::from_folder(copy.path(), &options()).expect("the model is valid");
    assert_eq!(
        open().identity(),
        MODEL.identity(),
        "cached vectors do not depend on the path of the folder"
    );
    fs::write(
        copy.path().join("config_sentence_transformers.json"),
        br#"{"prompts": {"query": "query: "}}"#,
    )
    .expect("it can be written");
    let prompted = open();
    assert_ne!(prompted.identity(), MODEL.identity());
    let embed_with = |role| {
        prompted
            .embed(role, &["book a room"], &|_| {})
            .expect("the model works")
            .remove(0)
    };
    assert_eq!(
        embed_with(TextRole::Document),
        embed(TextRole::Document, &["book a room"])[0]
    );
    assert_eq!(
        embed_with(TextRole::Query),
        embed(TextRole::Query, &["query: book a room"])[0]
    );
}

#[test]
fn unknown_model_name_gets_a_suggestion() {
    match FastEmbedder::from_name("BGESmalENV15", &options()) {
        Err(EmbedError::UnknownModel {
            name,
            suggestion,
            known,
        }) => {
            assert_eq!(
                (name.as_str(), suggestion.as_deref()),
                ("BGESmalENV15", Some("BGESmallENV15"))
            );
            assert!(known.contains(&"AllMiniLML6V2".to_owned()), "{known:?}");
        }
        other => panic!("{other:?}"),
    }
    let error = FastEmbedder::from_name("☃", &options()).expect_err("there is no such model");
    assert!(
        !error.to_string().contains("did you mean") && error.to_string().contains("folder"),
        "{error}"
    );
}

#[cfg(not(feature = "onnx-download"))]
#[test]
fn known_model_without_download_names_the_remedy() {
    for name in [
        "BGESmallENV15",
        "Xenova/bge-small-en-v1.5",
        "bge-small-EN-v1.5",
    ] {
        let error =
            FastEmbedder::from_name(name, &options()).expect_err("this build cannot fetch models");
        assert!(
            matches!(&error, EmbedError::Download { name: reported, .. } if reported == name),
            "{error}"
        );
        assert!(error.to_string().contains("onnx-download"), "{error}");
        assert!(error.to_string().contains("tokenizer.json"), "{error}");
    }
}

#[test]
fn minilm_file_is_refused_as_tuned_model() {
    let error = picktools_tuned::TunedEmbedder::from_file(models().join("minilm/model.onnx"))
        .expect_err("it is not a tuned model");
    assert!(matches!(error, EmbedError::Load { .. }), "{error}");
    assert!(
        error.to_string().contains("not a model of this kind"),
        "{error}"
    );
}
