//! A language model as the repairer of calls. The model is a server of these tests: it answers in
//! each provider's format, and badly in every way. Whatever it does, only what fits the schema is a
//! call, and what it changed is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::{Access, Catalog};
use picktools_call::client::{ClientFuture, ToolClient};
use picktools_call::{
    CallError, Hydrated, Hydrator, Repair, ToolCallOptions, ValidCall, tool_call,
};
use picktools_llm::{EndpointOptions, LlmRepairer, ProviderClient};
use picktools_provider::{Arguments, Provider, ToolCall};
use picktools_testing::server::{Reply, Server};
use serde_json::{Value, json};

const KEY: &str = "sk-secret-0123456789";

fn catalog() -> Catalog {
    let parameters = json!({"type": "object", "required": ["city", "days"], "additionalProperties": false, "properties":
        {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}});
    let entries = json!([
        {"name": "get_forecast", "source": "weather", "parameters": parameters},
        {"name": "set_forecast", "source": "weather", "parameters": parameters, "safe": false},
        {"name": "legacy", "allow_no_schema": true, "no_schema_mode": "full"},
    ]);
    Catalog::from_slice(entries.to_string().as_bytes(), "here", None)
        .expect("the entries are valid")
}

/// A hydrator for a caller who may run unsafe tools too.
fn hydrator() -> Hydrator {
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    Hydrator::new(catalog(), &access).expect("the access names no tool")
}

/// The call that may be run.
fn ready(hydrated: Result<Hydrated, CallError>) -> ValidCall {
    match hydrated {
        Ok(Hydrated::Ready(call)) => call,
        other => panic!("it may be run, but is {other:?}"),
    }
}

fn repairer(provider: Provider, server: &Server) -> LlmRepairer {
    let options = EndpointOptions {
        api_key: Some(KEY.to_owned()),
        ..Default::default()
    };
    let client = ProviderClient::new(provider, &server.url, &options).expect("the URL is valid");
    LlmRepairer::new(client, "m-1")
        .expect("the provider is known")
        .timeout(Duration::from_secs(20))
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: Some("1".to_owned()),
        name: name.to_owned(),
        arguments: Arguments::Text(arguments.to_owned()),
    }
}

/// An answer in words, as each provider wraps it.
fn says(provider: Provider, text: &str) -> Value {
    match provider {
        Provider::Anthropic => {
            json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
            {"type": "tool_use", "id": "t", "name": "give_arguments",
                "input": serde_json::from_str::<Value>(text).unwrap_or_default()}]})
        }
        Provider::Ollama => {
            json!({"model": "m-1", "done": true, "message": {"role": "assistant", "content": text}})
        }
        _ => json!({"choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": text}}]}),
    }
}

#[tokio::test]
async fn every_provider_is_asked_in_its_own_format_and_what_it_changed_is_told() {
    for (provider, path, held_at) in [
        (
            Provider::OpenAiChat,
            "/v1/chat/completions",
            "/response_format/json_schema/schema",
        ),
        (Provider::Anthropic, "/v1/messages", "/tools/0/input_schema"),
        (Provider::Ollama, "/v1/api/chat", "/format"),
    ] {
        let mended = json!({"arguments": {"city": "Bern", "days": 3}}).to_string();
        let server = Server::new(move |_, _| Reply::Json(says(provider, &mended)));
        let wrong = call(
            "get_forecast",
            r#"{"city": "Bern", "days": "three", "unit": "C"}"#,
        );
        let valid = ready(
            hydrator()
                .hydrate_with(&wrong, &repairer(provider, &server))
                .await,
        );
        assert_eq!(
            (valid.arguments(), valid.validated()),
            (&json!({"city": "Bern", "days": 3}), true)
        );
        let told = valid
            .repaired()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(
            told, "rewritten by llm:m-1: /days was \"three\", is 3; /unit was \"C\", is left out",
            "{provider}"
        );
        let audit = serde_json::to_value(&valid).expect("it serialises");
        let changes = json!([{"pointer": "/days", "from": "three", "to": 3}, {"pointer": "/unit", "from": "C"}]);
        assert_eq!(
            audit["repaired"],
            json!([{"change": "rewritten", "by": "llm:m-1", "changes": changes}])
        );

        let [asked] = &server.asked()[..] else {
            panic!("it is asked once")
        };
        assert!(
            asked.head.starts_with(&format!("post {path} http/1.1")),
            "{provider}: {}",
            asked.head
        );
        let schema = asked.body.pointer(held_at).expect("it is held to a schema");
        assert_eq!(schema["required"], json!(["arguments"]), "{provider}");
        let body = asked.body.to_string();
        assert!(
            body.contains("minimum") && body.contains("three") && body.contains("expected"),
            "{body}"
        );
        assert!(!body.contains("weather"), "sources are not told: {body}");
    }
}

#[tokio::test]
async fn text_that_is_no_json_is_repaired_too() {
    let mended = json!({"arguments": {"city": "Bern", "days": 1}}).to_string();
    let server = Server::new(move |_, _| Reply::Json(says(Provider::OpenAiChat, &mended)));
    let wrong = call("get_forecast", "city is Bern, days is 1");
    let valid = ready(
        hydrator()
            .hydrate_with(&wrong, &repairer(Provider::OpenAiChat, &server))
            .await,
    );
    let [Repair::Rewritten { changes, .. }] = valid.repaired() else {
        panic!("{:?}", valid.repaired())
    };
    assert_eq!(
        (changes[0].pointer.as_str(), &changes[0].from),
        ("", &Some(json!("city is Bern, days is 1")))
    );
}

#[tokio::test]
async fn a_model_that_answers_badly_leaves_the_call_refused_with_its_own_fault() {
    type Bad = fn() -> Reply;
    let cases: &[(Bad, &str)] = &[
        (
            || Reply::status("500 Internal Server Error", "out of memory"),
            "500 Internal Server Error: out of memory",
        ),
        (
            || {
                Reply::status(
                    "401 Unauthorized",
                    "{\"error\": \"no such key: sk-secret-0123456789\"}",
                )
            },
            "no such key: ***",
        ),
        (|| Reply::status("200 OK", "<html>\u{7}garbage"), "not JSON"),
        (|| Reply::Json(json!([1, 2])), "no answer"),
        (|| Reply::Half, "the connection failed"),
        (|| Reply::Huge, "longer than 1 MiB"),
        (|| Reply::Endless, "longer than 1 MiB"),
        (
            || Reply::Json(says(Provider::OpenAiChat, "I would not do that.")),
            "I would not do that.",
        ),
        (
            || Reply::Json(says(Provider::OpenAiChat, "{\"arguments\": null}")),
            "it says that they cannot be mended",
        ),
        (
            || {
                Reply::Json(says(
                    Provider::OpenAiChat,
                    "{\"city\": \"Bern\", \"days\": 1}",
                ))
            },
            "an answer that is not",
        ),
        (
            || {
                Reply::Json(says(
                    Provider::OpenAiChat,
                    "{\"arguments\": {\"city\": \"Bern\", \"days\": 0}}",
                ))
            },
            "do not fit",
        ),
        (
            || {
                Reply::Json(says(
                    Provider::OpenAiChat,
                    "{\"arguments\": {}, \"tool\": \"set_forecast\"}",
                ))
            },
            "an answer that is not",
        ),
        (
            || Reply::Json(says(Provider::OpenAiChat, &"[".repeat(500_000))),
            "an answer that is not JSON",
        ),
    ];
    for (bad, part) in cases {
        let server = Server::new(move |_, _| bad());
        let repairer = repairer(Provider::OpenAiChat, &server);
        let error = hydrator()
            .hydrate_with(&call("get_forecast", "{\"city\": 1}"), &repairer)
            .await;
        let error = error.expect_err(part);
        let CallError::Invalid {
            failed_repair: Some(reason),
            faults,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert!(
            reason.starts_with("llm:m-1: ") && reason.contains(part),
            "{reason} lacks {part:?}"
        );
        assert!(
            reason.chars().count() < 1_500 && !error.to_string().contains(KEY),
            "{error}"
        );
        assert!(
            faults.iter().any(|fault| fault.pointer == "/city"),
            "the call's own fault: {error}"
        );
        assert_eq!(server.asked().len(), 1, "one attempt");
    }
}

#[tokio::test]
async fn a_model_that_hangs_is_not_waited_for() {
    let server = Server::new(|_, _| Reply::Hang);
    let repairer = repairer(Provider::OpenAiChat, &server).timeout(Duration::from_millis(200));
    let started = Instant::now();
    let error = hydrator()
        .hydrate_with(&call("get_forecast", "{}"), &repairer)
        .await
        .expect_err("it is late");
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "the server hangs for a minute"
    );
    assert!(
        error.to_string().contains("a repair failed: llm:m-1: "),
        "{error}"
    );
}

#[tokio::test]
async fn a_model_that_fails_three_times_in_a_row_is_left_alone() {
    let server = Server::new(|_, _| Reply::status("500 Internal Server Error", "out of memory"));
    let repairer = repairer(Provider::OpenAiChat, &server);
    for _ in 0..5 {
        hydrator()
            .hydrate_with(&call("get_forecast", "{}"), &repairer)
            .await
            .expect_err("it fails");
    }
    let error = hydrator()
        .hydrate_with(&call("get_forecast", "{}"), &repairer)
        .await
        .expect_err("it fails");
    assert!(
        error.to_string().contains("it failed 3 times in a row"),
        "{error}"
    );
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn no_model_is_asked_for_unsafe_tools_or_where_it_could_do_no_good() {
    let server = Server::new(|_, _| Reply::Json(says(Provider::OpenAiChat, "{\"arguments\": {}}")));
    let repairer = repairer(Provider::OpenAiChat, &server);
    for wrong in [
        call("set_forecast", "{\"city\": \"Bern\", \"days\": \"3\"}"),
        call("legacy", "no JSON"),
        call("no_such_tool", "{}"),
        call("get_forecast", "{\"city\": \"Bern\", \"days\": 1"),
        call(
            "get_forecast",
            &format!("{{\"city\": \"{}\"}}", "x".repeat(20_000)),
        ),
    ] {
        hydrator()
            .hydrate_with(&wrong, &repairer)
            .await
            .expect_err("it is refused");
    }
    ready(
        hydrator()
            .hydrate_with(
                &call("get_forecast", "{\"city\": \"Bern\", \"days\": 3}"),
                &repairer,
            )
            .await,
    );
    assert!(server.asked().is_empty(), "{}", server.asked()[0].body);
}

#[test]
fn what_cannot_be_asked_is_refused_when_the_repairer_is_made() {
    let client =
        |provider| ProviderClient::new(provider, "http://localhost:1", &EndpointOptions::default());
    let error = LlmRepairer::new(client(Provider::Gemini).expect("it has a chat"), "m")
        .expect_err("not its format");
    assert!(
        error
            .to_string()
            .contains("openai, anthropic and ollama, not in that of gemini"),
        "{error}"
    );
    let error = LlmRepairer::new(client(Provider::Ollama).expect("it has a chat"), " ")
        .expect_err("it has no name");
    assert!(error.to_string().contains("no name"), "{error}");
}

/// A model that makes many wrong calls at once.
struct Floods;

impl ToolClient for Floods {
    fn provider(&self) -> Provider {
        Provider::OpenAiChat
    }

    fn send(&self, _: Value) -> ClientFuture<'_> {
        let call = json!({"id": "c", "function": {"name": "get_forecast", "arguments": "{\"city\": \"Bern\"}"}});
        Box::pin(
            async move { Ok(json!({"choices": [{"message": {"tool_calls": vec![call; 100]}}]})) },
        )
    }
}

#[tokio::test]
async fn one_answer_has_a_bounded_number_of_repairs() {
    let mended = json!({"arguments": {"city": "Bern", "days": 1}}).to_string();
    let server = Server::new(move |_, _| Reply::Json(says(Provider::OpenAiChat, &mended)));
    let repairer = Arc::new(repairer(Provider::OpenAiChat, &server));
    let options = ToolCallOptions {
        repairer: Some(repairer),
        ..ToolCallOptions::default()
    };
    let hydrator = Hydrator::new(catalog(), &Access::default()).expect("it names no tool");
    let tools = &hydrator.catalog().tools()[..1];
    let answer = tool_call(&Floods, json!({"messages": []}), &hydrator, tools, &options)
        .await
        .expect("the model answers");
    let repaired = answer.calls.iter().filter(|call| call.is_ok()).count();
    assert_eq!(
        (answer.calls.len(), repaired, server.asked().len()),
        (100, 16, 16)
    );
}
