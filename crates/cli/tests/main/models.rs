//! Models by name: listing and downloading them, and ranking with the tuned model.

use serde_json::Value;

use crate::cli::{WORKPLACE, answer, json, picktools, refusal, stdout};

/// Returns the entry of a model in `models list --json`.
fn listed(name: &str) -> Value {
    let json = json(&["models", "list", "--json"]);
    assert_eq!(json["version"], 1);
    let models = json["models"].as_array().expect("models are a list");
    models
        .iter()
        .find(|model| model["name"] == name)
        .unwrap_or_else(|| panic!("{name} is not in {json}"))
        .clone()
}

#[test]
fn models_list_describes_every_model() {
    let own = listed("static");
    assert_eq!(
        (&own["dimensions"], &own["place"], &own["licence"]),
        (&256.into(), &"in_program".into(), &"Apache-2.0".into())
    );
    assert!(
        own["bytes"].as_u64().is_some_and(|bytes| bytes > 1_000_000)
            && own["description"].is_string(),
        "{own}"
    );
    let text = answer(&["models", "list"]);
    let line = |name: &str| {
        let line = text
            .lines()
            .find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name} is not in:\n{text}"))
    };
    assert!(
        line("static").contains("256") && line("static").contains("built in"),
        "{}",
        line("static")
    );
    assert!(line("tuned").contains("384") && line("model").contains("dimensions"));
    assert_eq!(text, answer(&["models", "list"]));
}

#[test]
fn models_pull_of_built_in_model_does_nothing() {
    let none = answer(&["models", "pull", "static"]);
    assert_eq!(none.trim_end(), "static is built in; nothing to download");
}

#[test]
fn models_pull_with_unknown_name_suggests_one() {
    for arguments in [&["models"][..], &["models", "pull"], &["models", "push"]] {
        let output = picktools(arguments).output().expect("it runs");
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{arguments:?}"
        );
    }
    for name in ["tuend", "Static"] {
        let own = if name == "tuend" { "tuned" } else { "static" };
        for arguments in [
            &["models", "pull", name][..],
            &["pick", "x", "--catalog", WORKPLACE, "--model", name],
        ] {
            let message = refusal(arguments);
            assert!(
                message.contains(&format!("did you mean {own:?}?")),
                "{arguments:?}: {message}"
            );
        }
    }
    let message = refusal(&["models", "pull", "BGESmallENV15", "--from", "x"]);
    assert!(
        message.contains("--from is only for the model tuned"),
        "{message}"
    );
}

#[cfg(feature = "onnx")]
#[test]
fn fastembed_models_are_listed_and_suggested() {
    let model = listed("BGESmallENV15");
    assert_eq!(
        (&model["dimensions"], &model["place"]),
        (&384.into(), &"not_here".into()),
        "{model}"
    );
    assert!(
        model["description"]
            .as_str()
            .is_some_and(|text| text.contains("Xenova/bge-small-en-v1.5")),
        "{model}"
    );
    let remedy = if cfg!(feature = "onnx-download") {
        "models pull BGESmallENV15"
    } else {
        "onnx-download"
    };
    assert!(
        model["remedy"]
            .as_str()
            .is_some_and(|text| text.contains(remedy)),
        "{model}"
    );
    let message = refusal(&["models", "pull", "BGESmalENV15"]);
    assert!(
        message.contains("did you mean \"BGESmallENV15\"?")
            && message.contains("one of: static, tuned, "),
        "{message}"
    );
}

/// A model in the folder structure of the hub's clients is found in the folder of the hub's
/// variable.
#[cfg(feature = "onnx-download")]
#[test]
fn downloaded_model_is_listed_with_path_and_size() {
    use std::fs;
    use std::path::Path;

    let temporary = tempfile::tempdir().expect("a folder can be made");
    let list = |hub_home: Option<&Path>| -> Value {
        let mut command = picktools(&["models", "list", "--json"]);
        command
            .env("PICKTOOLS_CACHE_DIR", temporary.path())
            .envs(hub_home.map(|home| ("HF_HOME", home)));
        let output = command.output().expect("it runs");
        let json: Value = serde_json::from_slice(&output.stdout).expect("the answer is JSON");
        let models = json["models"]
            .as_array()
            .expect("models are a list")
            .clone();
        models
            .into_iter()
            .find(|model| model["name"] == "BGESmallENV15")
            .expect("it is listed")
    };
    let elsewhere = temporary.path().join("elsewhere");
    for (home, hub) in [
        (None, temporary.path().join("models")),
        (Some(elsewhere.as_path()), elsewhere.clone()),
    ] {
        let repository = hub.join("models--Xenova--bge-small-en-v1.5");
        let snapshot = repository.join("snapshots/abc");
        fs::create_dir_all(snapshot.join("onnx")).expect("a folder can be made");
        fs::create_dir_all(repository.join("refs")).expect("a folder can be made");
        fs::write(repository.join("refs/main"), "abc").expect("it can be written");
        let more = [
            "tokenizer.json",
            "config.json",
            "special_tokens_map.json",
            "tokenizer_config.json",
        ];
        for file in more {
            fs::write(snapshot.join(file), b"{}").expect("it can be written");
        }
        assert_eq!(list(home)["place"], "not_here", "its weights are not there");
        fs::write(snapshot.join("onnx/model.onnx"), [0; 100]).expect("it can be written");
        let model = list(home);
        assert_eq!(
            (&model["place"], &model["bytes"]),
            (&"on_disk".into(), &108.into()),
            "{model}"
        );
        assert_eq!(
            model["path"].as_str(),
            snapshot.join("onnx/model.onnx").to_str()
        );
    }
}

/// Returns `true` if the program was built with the tuned model, as in the repository.
fn tuned_is_inside() -> bool {
    picktools_tuned::TunedEmbedder::built_in_size().is_some()
}

/// The tuned model in a program that includes it.
mod tuned_inside {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::cli::stderr;
    use crate::support::{files, root};

    const MODEL: &str = "crates/models/tuned/model.onnx";

    /// Runs the program with a cache and further environment variables.
    fn run(arguments: &[&str], cache: &Path, variables: &[(&str, &str)]) -> (String, String) {
        let mut command = picktools(arguments);
        let output = command
            .env("PICKTOOLS_CACHE_DIR", cache)
            .envs(variables.iter().copied())
            .output();
        let output = output.expect("it runs");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        (stdout(&output), stderr(&output))
    }

    #[test]
    fn tuned_model_is_listed_as_built_in() {
        if !tuned_is_inside() {
            return;
        }
        let model = listed("tuned");
        assert_eq!(
            (&model["dimensions"], &model["place"]),
            (&384.into(), &"in_program".into()),
            "{model}"
        );
        let size = fs::metadata(root(MODEL)).expect("it is there").len();
        assert_eq!(model["bytes"].as_u64(), Some(size));
        for more in [&[][..], &["--from", "no/such/file"]] {
            let none = answer(&[&["models", "pull", "tuned"], more].concat());
            assert_eq!(none.trim_end(), "tuned is built in; nothing to download");
        }
    }

    #[test]
    fn pick_with_short_timeout_skips_the_tuned_model() {
        if !tuned_is_inside() {
            return;
        }
        let cache = tempfile::tempdir().expect("a folder can be made");
        let pick = [
            "pick",
            "book a meeting room",
            "--catalog",
            WORKPLACE,
            "--json",
            "--timeout-ms",
            "20",
        ];
        let (text, warned) = run(
            &[&pick[..], &["--model", "tuned"]].concat(),
            cache.path(),
            &[],
        );
        assert!(
            warned.contains("the model was not ready in time"),
            "{warned}"
        );
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let best = &json["picks"][0];
        assert_eq!(best["tool"]["id"], "calendar/book_meeting_room");
        let models = best["provenance"]["semantic"]
            .as_array()
            .expect("the static model stands in");
        assert!(
            matches!(&models[..], [one] if one["model"].as_str().is_some_and(|name| name.starts_with("static:")))
        );
    }

    #[test]
    fn tuned_model_works_in_every_command_with_cache() {
        if !tuned_is_inside() {
            return;
        }
        let cache = tempfile::tempdir().expect("a folder can be made");
        let model = [
            "--catalog",
            "fixtures/formats/native.json",
            "--model",
            "tuned",
        ];
        let pick = [
            &[
                "pick",
                "will it rain in Oslo",
                "--explain",
                "--json",
                "--min-score",
                "0",
            ],
            &model[..],
        ]
        .concat();
        let (first, _) = run(&pick, cache.path(), &[]);
        let answer: Value = serde_json::from_str(&first).expect("the answer is JSON");
        assert_eq!(
            (
                &answer["scorer"],
                answer["considered"].as_array().map(Vec::len)
            ),
            (&"hybrid".into(), Some(3))
        );
        let semantic = &answer["considered"][0]["provenance"]["semantic"][1];
        assert!(
            semantic["model"]
                .as_str()
                .is_some_and(|model| model.starts_with("tuned:")),
            "{answer}"
        );
        assert_eq!(
            files(&cache.path().join("embeddings")).len(),
            1,
            "the cache was written"
        );
        assert_eq!(run(&pick, cache.path(), &[]).0, first, "from the cache");
        let (index, _) = run(
            &[&["index", "--json"], &model[..]].concat(),
            cache.path(),
            &[],
        );
        let index: Value = serde_json::from_str(&index).expect("the answer is JSON");
        assert_eq!(
            (&index["dimensions"], &index["cache"]["entries"]),
            (&384.into(), &3.into()),
            "{index}"
        );
        assert!(
            index["model"]
                .as_str()
                .is_some_and(|model| model.starts_with("tuned:"))
        );
        let (eval, _) = run(
            &["eval", "fixtures/formats/layout", "--model", "tuned"],
            cache.path(),
            &[],
        );
        assert!(eval.contains("nDCG@10"), "{eval}");
    }

    #[test]
    fn unwritable_embedding_cache_is_a_warning() {
        if !tuned_is_inside() {
            return;
        }
        let output = picktools(&[
            "pick",
            "x",
            "--catalog",
            "fixtures/formats/native.json",
            "--model",
            "tuned",
        ])
        .output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", stderr(&output));
        let told = stderr(&output);
        assert!(
            told.contains("warning: the embedding cache cannot be used fully"),
            "{told}"
        );
    }

    #[test]
    fn tuned_model_picks_do_not_depend_on_threads() {
        if !tuned_is_inside() {
            return;
        }
        let pick = [
            "pick",
            "book a meeting room",
            "--catalog",
            "fixtures/formats/mcp.json",
            "--model",
            "tuned",
        ];
        let pick = [
            &pick[..],
            &[
                "--mode",
                "semantic",
                "--explain",
                "--json",
                "--min-score",
                "0",
            ],
        ]
        .concat();
        let answers = ["1", "2"].map(|threads| {
            let cache = tempfile::tempdir().expect("a folder can be made");
            run(
                &pick,
                cache.path(),
                &[
                    ("RTEN_NUM_THREADS", threads),
                    ("RAYON_NUM_THREADS", threads),
                ],
            )
            .0
        });
        assert_eq!(answers[0], answers[1]);
    }

    #[test]
    fn tuned_model_file_works_and_damaged_file_is_refused() {
        if !tuned_is_inside() {
            return;
        }
        let temporary = tempfile::tempdir().expect("a folder can be made");
        let pick = [
            "pick",
            "will it rain",
            "--catalog",
            "fixtures/formats/native.json",
            "--json",
            "--model",
        ];
        let named = run(&[&pick[..], &["tuned"]].concat(), temporary.path(), &[]).0;
        assert_eq!(
            run(&[&pick[..], &[MODEL]].concat(), temporary.path(), &[]).0,
            named
        );
        let file = temporary.path().join("half.ONNX");
        let bytes = fs::read(root(MODEL)).expect("it is there");
        fs::write(&file, &bytes[..bytes.len() / 2]).expect("it can be written");
        let path = file.to_str().expect("the path is plain");
        let message = refusal(&[&pick[..], &[path]].concat());
        assert!(
            message.contains(path) && message.contains("damaged"),
            "{message}"
        );
        assert!(refusal(&[&pick[..], &["no/such.onnx"]].concat()).contains("no/such.onnx"));
    }

    #[test]
    fn tuned_model_skips_a_request_without_words() {
        if !tuned_is_inside() {
            return;
        }
        let pick = [
            "pick",
            "𝄞𝄢",
            "--catalog",
            "fixtures/formats/native.json",
            "--model",
            "tuned",
            "--json",
        ];
        let answer = json(&pick);
        let semantic = answer["stages"]
            .as_array()
            .and_then(|stages| stages.iter().find(|stage| stage["stage"] == "semantic"));
        assert!(
            semantic
                .is_some_and(|stage| stage["reason"] == "the model knows no word of the request"),
            "{answer}"
        );
    }
}

/// The tuned model in a program without its file.
mod tuned_outside {
    use std::fs;

    use super::*;
    use crate::cli::stderr;
    use crate::support::files;

    #[test]
    fn missing_tuned_model_names_the_remedy() {
        if tuned_is_inside() {
            return;
        }
        let model = listed("tuned");
        assert_eq!(
            (&model["dimensions"], &model["place"]),
            (&384.into(), &"not_here".into()),
            "{model}"
        );
        assert!(
            model["remedy"]
                .as_str()
                .is_some_and(|text| text.contains("models pull tuned --from")),
            "{model}"
        );
        let message = refusal(&["pick", "x", "--catalog", WORKPLACE, "--model", "tuned"]);
        assert!(
            message.contains("picktools models pull tuned --from")
                && message.contains("--model FILE.onnx"),
            "{message}"
        );
    }

    #[test]
    fn failed_models_pull_leaves_no_file() {
        if tuned_is_inside() {
            return;
        }
        let cache = tempfile::tempdir().expect("a folder can be made");
        let file = cache.path().join("other.onnx");
        fs::write(&file, b"another file").expect("it can be written");
        let other = file.to_str().expect("the path is plain");
        for (from, part) in [
            (None, "with --from"),
            (Some(other), "SHA-256"),
            (Some("no/such.onnx"), "no/such.onnx"),
        ] {
            let mut command = picktools(&["models", "pull", "tuned"]);
            command
                .env("PICKTOOLS_CACHE_DIR", cache.path())
                .args(from.map(|from| ["--from", from]).iter().flatten());
            let output = command.output().expect("it runs");
            assert_eq!(
                (output.status.code(), stdout(&output).as_str()),
                (Some(2), ""),
                "{from:?}"
            );
            assert!(
                stderr(&output).contains(part),
                "{from:?}: {}",
                stderr(&output)
            );
            assert_eq!(files(cache.path()), std::slice::from_ref(&file), "{from:?}");
        }
    }
}
