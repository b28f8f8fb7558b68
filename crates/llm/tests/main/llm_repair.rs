//! A language model as the repairer of calls. The model is a test server with each provider's
//! format and every kind of bad answer. Only valid arguments become a call, and its changes are
//! reported.

use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::{Access, Catalog};
use picktools_call::client::{ClientFuture, ToolClient};
use picktools_call::{
    CallError, HydratedCall, Hydrator, Repair, ToolCallOptions, ValidCall, tool_call,
};
use picktools_llm::{EndpointOptions, LlmRepairer, ProviderClient};
use picktools_provider::{Arguments, Provider, ToolCall};
use picktools_testing::server::{Reply, TestServer};
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

/// Returns a hydrator for a caller that may run unsafe tools too.
fn hydrator() -> Hydrator {
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    Hydrator::new(catalog(), &access).expect("the access policy is valid")
}

/// Returns the call, which must be ready to run.
fn ready(hydrated: Result<HydratedCall, CallError>) -> ValidCall {
    match hydrated {
        Ok(HydratedCall::Ready(call)) => call,
        other => panic!("the call is not ready: {other:?}"),
    }
}

fn repairer(provider: Provider, server: &TestServer) -> LlmRepairer {
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

/// Returns an answer with a text in the provider's format.
fn text_answer(provider: Provider, text: &str) -> Value {
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
async fn every_provider_has_its_own_format_and_changes_are_reported() {
    for (provider, path, schema_at) in [
        (
            Provider::OpenAiChat,
            "/v1/chat/completions",
            "/response_format/json_schema/schema",
        ),
        (Provider::Anthropic, "/v1/messages", "/tools/0/input_schema"),
        (Provider::Ollama, "/v1/api/chat", "/format"),
    ] {
        let repaired = json!({"arguments": {"city": "Bern", "days": 3}}).to_string();
        let server = TestServer::new(move |_, _| Reply::Json(text_answer(provider, &repaired)));
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
        let changes_text = valid
            .repaired()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(
            changes_text,
            "rewritten by llm:m-1: /days changed from \"three\" to 3; /unit removed (was \"C\")",
            "{provider}"
        );
        let audit = serde_json::to_value(&valid).expect("a call serialises");
        let changes = json!([{"pointer": "/days", "from": "three", "to": 3}, {"pointer": "/unit", "from": "C"}]);
        assert_eq!(
            audit["repaired"],
            json!([{"change": "rewritten", "by": "llm:m-1", "changes": changes}])
        );

        let [request] = &server.requests()[..] else {
            panic!("the model gets one request")
        };
        assert!(
            request.head.starts_with(&format!("post {path} http/1.1")),
            "{provider}: {}",
            request.head
        );
        let schema = request
            .body
            .pointer(schema_at)
            .expect("the request has a schema");
        assert_eq!(schema["required"], json!(["arguments"]), "{provider}");
        let body = request.body.to_string();
        assert!(
            body.contains("minimum") && body.contains("three") && body.contains("expected"),
            "{body}"
        );
        assert!(
            !body.contains("weather"),
            "sources are not revealed: {body}"
        );
    }
}

#[tokio::test]
async fn text_that_is_not_json_is_repaired() {
    let repaired = json!({"arguments": {"city": "Bern", "days": 1}}).to_string();
    let server =
        TestServer::new(move |_, _| Reply::Json(text_answer(Provider::OpenAiChat, &repaired)));
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
async fn bad_answer_leaves_the_call_refused_with_its_own_fault() {
    type BadReply = fn() -> Reply;
    let cases: &[(BadReply, &str)] = &[
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
            || Reply::Json(text_answer(Provider::OpenAiChat, "I would not do that.")),
            "I would not do that.",
        ),
        (
            || Reply::Json(text_answer(Provider::OpenAiChat, "{\"arguments\": null}")),
            "it says that they cannot be repaired",
        ),
        (
            || {
                Reply::Json(text_answer(
                    Provider::OpenAiChat,
                    "{\"city\": \"Bern\", \"days\": 1}",
                ))
            },
            "an answer that is not",
        ),
        (
            || {
                Reply::Json(text_answer(
                    Provider::OpenAiChat,
                    "{\"arguments\": {\"city\": \"Bern\", \"days\": 0}}",
                ))
            },
            "do not match its schema",
        ),
        (
            || {
                Reply::Json(text_answer(
                    Provider::OpenAiChat,
                    "{\"arguments\": {}, \"tool\": \"set_forecast\"}",
                ))
            },
            "an answer that is not",
        ),
        (
            || Reply::Json(text_answer(Provider::OpenAiChat, &"[".repeat(500_000))),
            "an answer that is not JSON",
        ),
    ];
    for (bad, part) in cases {
        let server = TestServer::new(move |_, _| bad());
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
        assert_eq!(server.requests().len(), 1, "one attempt");
    }
}

#[tokio::test]
async fn hanging_model_is_a_timeout() {
    let server = TestServer::new(|_, _| Reply::Hang);
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
async fn model_is_paused_after_three_failures() {
    let server =
        TestServer::new(|_, _| Reply::status("500 Internal Server Error", "out of memory"));
    let repairer = repairer(Provider::OpenAiChat, &server);
    for _ in 0..5 {
        hydrator()
            .hydrate_with(&call("get_forecast", "{}"), &repairer)
            .await
            .expect_err("the repair fails");
    }
    let error = hydrator()
        .hydrate_with(&call("get_forecast", "{}"), &repairer)
        .await
        .expect_err("the repair fails");
    assert!(
        error.to_string().contains("it failed 3 times in a row"),
        "{error}"
    );
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn unsuitable_calls_are_not_sent_to_the_model() {
    let server = TestServer::new(|_, _| {
        Reply::Json(text_answer(Provider::OpenAiChat, "{\"arguments\": {}}"))
    });
    let repairer = repairer(Provider::OpenAiChat, &server);
    for wrong in [
        call("set_forecast", "{\"city\": \"Bern\", \"days\": \"many\"}"),
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
            .expect_err("the call is refused");
    }
    ready(
        hydrator()
            .hydrate_with(
                &call("get_forecast", "{\"city\": \"Bern\", \"days\": 3}"),
                &repairer,
            )
            .await,
    );
    assert!(
        server.requests().is_empty(),
        "{}",
        server.requests()[0].body
    );
}

#[test]
fn unusable_model_is_refused_at_construction() {
    let client =
        |provider| ProviderClient::new(provider, "http://localhost:1", &EndpointOptions::default());
    let error = LlmRepairer::new(
        client(Provider::Gemini).expect("the provider has a chat"),
        "m",
    )
    .expect_err("the format is not supported");
    assert!(
        error
            .to_string()
            .contains("openai, anthropic and ollama, not in that of gemini"),
        "{error}"
    );
    let error = LlmRepairer::new(
        client(Provider::Ollama).expect("the provider has a chat"),
        " ",
    )
    .expect_err("the model has no name");
    assert!(error.to_string().contains("no name"), "{error}");
}

/// A model that makes many invalid calls in one answer.
struct FloodingModel;

impl ToolClient for FloodingModel {
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
async fn repairs_of_one_answer_are_limited() {
    let repaired = json!({"arguments": {"city": "Bern", "days": 1}}).to_string();
    let server =
        TestServer::new(move |_, _| Reply::Json(text_answer(Provider::OpenAiChat, &repaired)));
    let repairer = Arc::new(repairer(Provider::OpenAiChat, &server));
    let options = ToolCallOptions {
        repairer: Some(repairer),
        ..ToolCallOptions::default()
    };
    let hydrator =
        Hydrator::new(catalog(), &Access::default()).expect("the access policy is valid");
    let tools = &hydrator.catalog().tools().expect("readable")[..1];
    let answer = tool_call(
        &FloodingModel,
        json!({"messages": []}),
        &hydrator,
        tools,
        &options,
    )
    .await
    .expect("the model answers");
    let valid_calls = answer.calls.iter().filter(|call| call.is_ok()).count();
    assert_eq!(
        (answer.calls.len(), valid_calls, server.requests().len()),
        (100, 16, 16)
    );
}
