//! `--rerank llm`, with an OpenAI-compatible language model that these tests serve.

use crate::cli::{WORKPLACE, picktools, refusal, stderr, stdout};
use picktools_testing::server::{RecordedRequest, Reply, TestServer, listed_tools, scores};
use serde_json::{Value, json};

const KEY: &str = "sk-secret-0123456789";

/// Returns an answer of the model with this text.
fn says(text: &str) -> Value {
    json!({"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})
}

#[test]
fn pick_rerank_llm_uses_the_key_and_reports() {
    let server = TestServer::new(|_, asked| {
        Reply::Json(says(&scores(asked, |name| {
            if name == "create_event" { 10 } else { 1 }
        })))
    });
    let run = |arguments: &[&str]| {
        let pick = [
            "pick",
            "tell the team about the meeting",
            "--catalog",
            WORKPLACE,
            "--min-score",
            "0",
        ];
        let model = [
            "--rerank",
            "llm",
            "--llm-url",
            &server.url,
            "--llm-model",
            "m-1",
        ];
        let mut command = picktools(&[&pick[..], &model, arguments].concat());
        let output = command
            .env("OPENAI_API_KEY", KEY)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(!format!("{}{}", stdout(&output), stderr(&output)).contains(KEY));
        stdout(&output)
    };
    let text = run(&[]);
    assert!(text.starts_with(" 1. calendar/create_event"), "{text}");
    assert!(
        text.contains("reranked from place ") && text.contains(" by llm:m-1"),
        "{text}"
    );
    assert!(
        server.requests()[0]
            .head
            .contains(&format!("authorization: bearer {KEY}"))
    );
    let text = run(&["--explain"]);
    for part in [
        "reranked  10.000, from place ",
        "stage rerank       ran",
        "reranker llm:m-1, shortlist 20, margin",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let json: Value = serde_json::from_str(&run(&["--json"])).expect("it is JSON");
    assert_eq!(json["picks"][0]["provenance"]["rerank"]["after"], 1);
    assert_eq!(
        (&json["rerank"]["when"], &json["rerank"]["reordered"]),
        (&json!("always"), &json!(true))
    );
    assert_eq!(
        (&json["rerank"]["window"], &json["version"]),
        (&json!(20), &json!(3))
    );
}

#[test]
fn pick_rerank_llm_failure_degrades_with_a_warning() {
    let server = TestServer::new(|_, _| Reply::Hang);
    let output = picktools(&[
        "pick",
        "book a meeting room",
        "--catalog",
        WORKPLACE,
        "--rerank",
        "llm",
        "--llm-url",
    ])
    .args([&server.url, "--llm-model", "m-1", "--timeout-ms", "400"])
    .output()
    .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).starts_with(" 1. calendar/book_meeting_room"),
        "{}",
        stdout(&output)
    );
    assert!(
        stderr(&output).contains("degraded in stage rerank: the "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn eval_rerank_llm_counts_degraded_picks() {
    let eval = |reply: fn(&RecordedRequest) -> Reply| {
        let server = TestServer::new(move |_, asked| reply(asked));
        let model = [
            "--rerank",
            "llm",
            "--llm-url",
            &server.url,
            "--llm-model",
            "m-1",
        ];
        let output = picktools(&[&["eval", WORKPLACE, "--json"][..], &model].concat())
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        (
            report["mean"]["nDCG@10"].as_f64().expect("it is measured"),
            stderr(&output),
        )
    };
    let plain: Value = crate::cli::json(&["eval", WORKPLACE, "--json"]);
    let plain = plain["mean"]["nDCG@10"].as_f64().expect("it is measured");
    let (backwards, told) = eval(|asked| {
        let last = listed_tools(asked).len() - 1;
        let scores = listed_tools(asked)
            .into_iter()
            .enumerate()
            .map(|(place, line)| {
                (
                    line["id"].as_str().expect("it is text").to_owned(),
                    Value::from(10 * place / last.max(1)),
                )
            });
        Reply::Json(says(&Value::Object(scores.collect()).to_string()))
    });
    assert!(backwards < plain - 0.2, "{backwards} {plain}");
    assert!(!told.contains("degraded"), "{told}");
    let (failing, told) = eval(|_| Reply::status("500 Internal Server Error", "out of memory"));
    assert!((failing - plain).abs() < 1e-9, "{failing} {plain}");
    assert!(
        told.contains(" picks are degraded, the first in stage rerank: ")
            && told.contains("out of memory")
    );
}

#[test]
fn pick_rerank_with_bad_options_is_refused() {
    let pick = ["pick", "x", "--catalog", WORKPLACE, "--rerank"];
    for (arguments, part) in [
        (&["local"][..], "needs --rerank-model NAME|DIR"),
        (&["llm"], "pass --llm-url URL and --llm-model NAME"),
        (&["auto"], "needs --rerank-model NAME|DIR, or --llm-url URL"),
        (
            &["auto", "--llm-url", "http://localhost:1"],
            "pass --llm-url URL and --llm-model NAME",
        ),
        (
            &[
                "auto",
                "--llm-url",
                "http://localhost:1",
                "--rerank-model",
                "x",
            ],
            "not both",
        ),
        (
            &["llm", "--llm-url", "localhost", "--llm-model", "m"],
            "write it like",
        ),
        (
            &[
                "llm",
                "--llm-url",
                "http://localhost",
                "--llm-model",
                "m",
                "--llm-provider",
                "gemini",
            ],
            "gemini",
        ),
        (
            &[
                "llm",
                "--llm-url",
                "http://localhost",
                "--llm-model",
                "m",
                "--llm-extra",
                "[]",
            ],
            "not a JSON object",
        ),
        (&["sometimes"], "never"),
    ] {
        let message = refusal(&[&pick[..], arguments].concat());
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
}
