//! Models on ONNX Runtime. A process loads the runtime only once, so these tests need processes of
//! their own.

use std::fs;
use std::path::PathBuf;

use crate::cli::{picktools, stderr, stdout};
use crate::support::{files, models, root};

#[test]
fn missing_onnx_runtime_names_the_remedy() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let no_library = temporary.path().join("text.so");
    fs::write(&no_library, b"no library").expect("it can be written");
    for library in [
        temporary.path().join("none.so"),
        no_library,
        temporary.path().to_owned(),
    ] {
        for by_name in [false, true] {
            let model = if by_name {
                PathBuf::from("BGESmallENV15")
            } else {
                models().join("minilm")
            };
            let mut command = picktools(&[
                "pick",
                "x",
                "--catalog",
                "fixtures/catalogs/workplace",
                "--model",
            ]);
            let output = command
                .arg(&model)
                .env("ORT_DYLIB_PATH", &library)
                .output()
                .expect("it runs");
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{text}");
            assert!(
                text.starts_with("error: cannot load ONNX Runtime from "),
                "{text}"
            );
            assert!(text.contains(&library.display().to_string()), "{text}");
            assert!(
                text.contains("pip install onnxruntime") && text.contains("ORT_DYLIB_PATH"),
                "{text}"
            );
        }
    }
}

#[test]
fn minilm_explains_both_retrievers_and_uses_the_cache() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let library = models().join("libonnxruntime.so");
    let model = models().join("minilm");
    let run = |arguments: &[&str]| {
        let mut command = picktools(arguments);
        command
            .arg("--catalog")
            .arg(root("fixtures/formats/native.json"))
            .arg("--model")
            .arg(&model);
        command
            .arg("--onnx-runtime")
            .arg(&library)
            .arg("--cache-dir")
            .arg(temporary.path());
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let pick = [
        "pick",
        "will it rain in Oslo",
        "--explain",
        "--min-score",
        "0",
    ];
    let first = run(&pick);
    for part in [
        "keyword   ",
        "semantic  rank 1, cosine 0.",
        "(onnx:",
        "fused     ",
        "keyword 0.",
        "(static:",
        "onnx:",
    ] {
        assert!(first.contains(part), "{part:?} is not in:\n{first}");
    }
    assert!(!files(temporary.path()).is_empty(), "the cache was written");
    assert_eq!(first, run(&pick));
    let index: serde_json::Value =
        serde_json::from_str(&run(&["index", "--json"])).expect("it is JSON");
    assert_eq!(
        (&index["dimensions"], &index["cache"]["entries"]),
        (&384.into(), &3.into()),
        "{index}"
    );
}
