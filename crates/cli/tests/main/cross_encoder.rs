//! `--rerank local`: cross-encoders on ONNX Runtime.

use crate::cli::{picktools, stderr, stdout};
use crate::support::models;

#[test]
fn pick_reranks_with_a_cross_encoder_folder() {
    let run = |arguments: &[&str]| {
        let mut command = picktools(&[
            "pick",
            "book a room",
            "--catalog",
            "fixtures/catalogs/workplace",
        ]);
        command
            .args(["--rerank", "local"])
            .args(arguments)
            .env("ORT_DYLIB_PATH", models().join("libonnxruntime.so"));
        command.output().expect("it runs")
    };
    let output = run(&["--rerank-model", "fixtures/rerankers/overlap", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let selection: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
    let score = |place: usize| selection["picks"][place]["provenance"]["rerank"]["score"].as_f64();
    assert_eq!(selection["rerank"]["when"], "always");
    // The other tools are required by these.
    let [first, second, third] = [0, 1, 2].map(|place| score(place).expect("it was reranked"));
    assert!(
        first >= 2.0 && first >= second && second >= third,
        "{first} {second} {third}"
    );
    let mut command = picktools(&[
        "pick",
        "book a room",
        "--catalog",
        "fixtures/catalogs/workplace",
        "--json",
    ]);
    command.args([
        "--rerank",
        "auto",
        "--rerank-model",
        "fixtures/rerankers/overlap",
    ]);
    let output = command
        .env("ORT_DYLIB_PATH", models().join("libonnxruntime.so"))
        .output()
        .expect("it runs");
    let selection: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
    assert_eq!(selection["rerank"]["when"], "auto", "{}", stderr(&output));
    for (arguments, part) in [
        (&[][..], "--rerank local needs --rerank-model NAME|DIR"),
        (&["--rerank-model", "fixtures"], "lacks model.onnx"),
        (&["--rerank-model", "overlap"], "unknown model \"overlap\""),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains(part),
            "{part:?} is not in {}",
            stderr(&output)
        );
    }
}
