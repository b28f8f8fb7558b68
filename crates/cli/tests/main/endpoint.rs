//! `--embed-url`, with an embedding endpoint that these tests serve.

use std::time::{Duration, Instant};

use crate::cli::{WORKPLACE, picktools, stderr, stdout};
use picktools_testing::server::{RecordedRequest, Reply, TestServer};
use serde_json::{Value, json};

const KEY: &str = "sk-secret-0123456789";

/// Returns a valid answer with one vector per text.
fn sound(asked: &RecordedRequest) -> Reply {
    let texts = asked.body["input"]
        .as_array()
        .expect("texts are sent as a list")
        .iter();
    let vector = |text: &Value| {
        let length = text.as_str().expect("a text is a string").len() as f64;
        json!([length.sin(), length.cos(), 0.5])
    };
    let data = texts
        .enumerate()
        .map(|(index, text)| json!({"index": index, "embedding": vector(text)}));
    Reply::Json(json!({"data": data.collect::<Vec<_>>()}))
}

#[test]
fn embedding_endpoint_gets_the_key_of_the_environment() {
    let server = TestServer::new(|_, asked| sound(asked));
    let cache = tempfile::tempdir().expect("a folder can be made");
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = picktools(arguments);
        command
            .args(["--embed-url", &server.url, "--model", "fake"])
            .env("PICKTOOLS_CACHE_DIR", cache.path());
        let output = command
            .envs(variables.iter().copied())
            .env("PICKTOOLS_LOG", "trace")
            .output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(!stderr(&output).contains(KEY) && !stdout(&output).contains(KEY));
        stdout(&output)
    };
    let asked_with = |text: &str| {
        server
            .requests()
            .last()
            .is_some_and(|asked| asked.head.contains(text))
    };
    let own = [
        ("PICKTOOLS_EMBED_API_KEY", KEY),
        ("OPENAI_API_KEY", "other"),
    ];
    run(&["index", "--catalog", WORKPLACE], &own);
    assert!(server.requests().len() == 5 && asked_with(&format!("authorization: bearer {KEY}")));
    let text = run(
        &[
            "pick",
            "book a meeting room",
            "--catalog",
            WORKPLACE,
            "--json",
        ],
        &own[1..],
    );
    assert!(
        server.requests().len() == 7 && asked_with("authorization: bearer other"),
        "tools come from the cache"
    );
    let json: Value = serde_json::from_str(&text).expect("the answer is JSON");
    let model = json["picks"][0]["provenance"]["semantic"][1]["model"]
        .as_str()
        .expect("the model is named");
    assert!(
        json["scorer"] == "hybrid" && model.contains(&server.url),
        "{model}"
    );
    run(
        &["eval", "fixtures/formats/layout"],
        &[("PICKTOOLS_EMBED_API_KEY", ""), own[1]],
    );
    assert!(
        !asked_with("authorization"),
        "an empty key of our own keeps the other from being sent"
    );
}

#[test]
fn pick_with_failing_endpoint_degrades_and_index_fails() {
    // The endpoint fails when it is opened, for the tools, or for the request.
    for (from, to) in [(0, 0), (1, 1), (5, 9)] {
        let failing = move |n, asked: &_| match n {
            n if n >= from && n <= to => Reply::status("403 Forbidden", "closed"),
            _ => sound(asked),
        };
        let server = TestServer::new(failing);
        let endpoint = [
            "--catalog",
            WORKPLACE,
            "--embed-url",
            &server.url,
            "--model",
            "fake",
        ];
        let pick = ["pick", "book a meeting room", "--json"];
        let output = picktools(&[&pick[..], &endpoint].concat())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("warning: degraded in stage semantic: "),
            "{}",
            stderr(&output)
        );
        let json: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
        assert_eq!(
            (&json["degraded"][0]["stage"], &json["scorer"]),
            (&"semantic".into(), &"hybrid".into())
        );
        let reason = json["degraded"][0]["reason"]
            .as_str()
            .expect("a reason is told");
        assert!(
            reason.contains(&server.url) && reason.contains("403 Forbidden: closed"),
            "{reason}"
        );
        let default = picktools(&[&pick[..], &["--catalog", WORKPLACE]].concat()).output();
        let default: Value =
            serde_json::from_slice(&default.expect("it runs").stdout).expect("it is JSON");
        let best = |json: &Value| {
            (
                json["picks"][0]["tool"]["id"].clone(),
                json["picks"][0]["score"].clone(),
            )
        };
        assert_eq!(best(&json), best(&default));
    }
    for command in [
        &["index", "--catalog", WORKPLACE][..],
        &["eval", "fixtures/formats/layout"],
    ] {
        let server = TestServer::new(|_, _| Reply::status("403 Forbidden", "closed"));
        let more = ["--embed-url", server.url.as_str(), "--model", "fake"];
        let output = picktools(&[command, &more].concat())
            .output()
            .expect("it runs");
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{}",
            stderr(&output)
        );
        assert!(stderr(&output).starts_with("error: ") && stderr(&output).contains("closed"));
    }
}

#[test]
fn pick_timeout_bounds_a_hanging_endpoint() {
    // The endpoint hangs when it is opened, for the tools, or for the request.
    for from in [0, 1, 8] {
        let server =
            TestServer::new(move |n, asked| if n >= from { Reply::Hang } else { sound(asked) });
        let cache = tempfile::tempdir().expect("a folder can be made");
        let pick = [
            "pick",
            "book a meeting room",
            "--json",
            "--catalog",
            WORKPLACE,
            "--timeout-ms",
            "400",
        ];
        let mut command =
            picktools(&[&pick[..], &["--embed-url", &server.url, "--model", "fake"]].concat());
        let started = Instant::now();
        let output = command
            .env("PICKTOOLS_CACHE_DIR", cache.path())
            .output()
            .expect("it runs");
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{from}: {:?}",
            started.elapsed()
        );
        assert!(output.status.success(), "{}", stderr(&output));
        let json: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
        assert_eq!(
            json["picks"][0]["tool"]["id"], "calendar/book_meeting_room",
            "{from}"
        );
        assert_eq!(
            json["degraded"][0]["stage"], "semantic",
            "{from}: {}",
            json["degraded"]
        );
    }
}

#[test]
fn endpoint_errors_name_cause_and_remedy() {
    let server = TestServer::new(|_, _| Reply::status("401 Unauthorized", KEY));
    let index = ["index", "--catalog", WORKPLACE, "--embed-url"];
    for (more, part) in [
        (&[server.url.as_str()][..], "--embed-url needs --model"),
        (
            &["http://me:hunter2@localhost:1", "--model", "m"],
            "user name",
        ),
        (
            &[&server.url, "--model", "m"],
            "401 Unauthorized: ***; check the key",
        ),
    ] {
        let mut command = picktools(&[&index[..], more].concat());
        let output = command
            .env("OPENAI_API_KEY", KEY)
            .output()
            .expect("it runs");
        let text = stderr(&output);
        assert_eq!(
            (output.status.code(), stdout(&output).as_str()),
            (Some(2), ""),
            "{text}"
        );
        assert!(
            text.starts_with("error: ") && text.contains(part),
            "{part:?} is not in: {text}"
        );
        assert!(!text.contains("hunter2") && !text.contains(KEY), "{text}");
    }
    let asked = server.requests().len();
    let keyword = [&index[..], &[&server.url, "--mode", "keyword"]].concat();
    assert!(
        picktools(&keyword)
            .output()
            .expect("it runs")
            .status
            .success()
    );
    assert_eq!(
        server.requests().len(),
        asked,
        "the mode keyword asks nobody"
    );
}
