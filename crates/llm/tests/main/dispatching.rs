//! Requests with tools: request and answer have each provider's own format, over HTTP. The model is
//! a test server.

use std::sync::Arc;
use std::time::Duration;

use picktools::catalog::Alias;
use picktools::{Access, Catalog, Tool};
use picktools_call::{
    CallError, HydratedCall, Hydrator, ToolCallError, ToolCallOptions, ToolCalls, tool_call,
};
use picktools_llm::{EndpointOptions, ProviderClient};
use picktools_provider::Provider;
use picktools_testing::server::{Reply, TestServer};
use picktools_testing::tool;
use serde_json::{Value, json};

const KEY: &str = "sk-secret-0123456789";

fn hydrator() -> Hydrator {
    let catalog = Catalog::from_tools(tools().iter().map(|tool| tool.as_ref().clone()))
        .expect("they are valid");
    Hydrator::new(catalog, &Access::default()).expect("it names no tool")
}

fn tools() -> Vec<Arc<Tool>> {
    let mut forecast = tool("sky", "get_forecast", "Weather for the coming days");
    forecast.parameters = Some(
        json!({"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}),
    );
    vec![
        Arc::new(forecast),
        Arc::new(tool("clock", "now", "The time")),
    ]
}

fn options() -> EndpointOptions {
    EndpointOptions {
        api_key: Some(KEY.to_owned()),
        timeout: Duration::from_secs(20),
        ..Default::default()
    }
}

async fn ask(
    provider: Provider,
    server: &TestServer,
    request: Value,
) -> Result<ToolCalls, ToolCallError> {
    let client = ProviderClient::new(provider, &server.url, &options()).expect("the URL is valid");
    tool_call(
        &client,
        request,
        &hydrator(),
        &tools(),
        &ToolCallOptions::default(),
    )
    .await
}

/// Returns a provider's answer with a valid call of `get_forecast`, an invalid one, and a call of
/// an unknown tool.
fn answer(provider: Provider) -> Value {
    let calls = [
        ("get_forecast", json!({"city": "Bern"})),
        ("get_forecast", json!({"town": "Bern"})),
        ("gett_forecast", json!({})),
    ];
    let each = |call: fn(&str, &Value) -> Value| {
        calls
            .iter()
            .map(|(name, arguments)| call(name, arguments))
            .collect::<Vec<_>>()
    };
    match provider {
        Provider::OpenAiChat => {
            json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant",
            "content": null, "tool_calls": each(|name, arguments| json!({"id": "c", "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}}))}}]})
        }
        Provider::OpenAiResponses => json!({"object": "response", "status": "completed",
            "output": each(|name, arguments| json!({"type": "function_call", "id": "f", "call_id": "c", "name": name,
                "arguments": arguments.to_string()}))}),
        Provider::Anthropic => {
            json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
            "content": each(|name, arguments| json!({"type": "tool_use", "id": "c", "name": name, "input": arguments}))})
        }
        Provider::Gemini => json!({"candidates": [{"content": {"role": "model",
            "parts": each(|name, arguments| json!({"functionCall": {"name": name, "args": arguments}}))}}]}),
        Provider::Ollama => {
            json!({"model": "m", "done": true, "message": {"role": "assistant", "content": "",
            "tool_calls": each(|name, arguments| json!({"function": {"name": name, "arguments": arguments}}))}})
        }
        other => panic!("{other} has no chat"),
    }
}

#[tokio::test]
async fn every_provider_has_its_own_request_and_answer_format() {
    for (provider, path, header, shown_at) in [
        (
            Provider::OpenAiChat,
            "/v1/chat/completions",
            "authorization: bearer ",
            "/tools/0/function/name",
        ),
        (
            Provider::OpenAiResponses,
            "/v1/responses",
            "authorization: bearer ",
            "/tools/0/name",
        ),
        (
            Provider::Anthropic,
            "/v1/messages",
            "x-api-key: ",
            "/tools/0/name",
        ),
        (
            Provider::Gemini,
            "/v1/models/m-1:generatecontent",
            "x-goog-api-key: ",
            "/tools/0/functionDeclarations/0/name",
        ),
        (
            Provider::Ollama,
            "/v1/api/chat",
            "authorization: bearer ",
            "/tools/0/function/name",
        ),
    ] {
        let server = TestServer::new(move |_, _| Reply::Json(answer(provider)));
        let outcome = ask(provider, &server, json!({"model": "m-1", "messages": []}))
            .await
            .expect("the model answers");
        let request = &server.requests()[0];
        assert!(
            request.head.starts_with(&format!("post {path} http/1.1")),
            "{provider}: {}",
            request.head
        );
        assert!(
            request.head.contains(&format!("{header}{KEY}")),
            "{provider}: {}",
            request.head
        );
        assert_eq!(
            request.body.pointer(shown_at),
            Some(&json!("get_forecast")),
            "{provider}: {}",
            request.body
        );
        assert_eq!(
            request.body.get("model").is_none(),
            provider == Provider::Gemini,
            "{provider}"
        );
        let [Ok(HydratedCall::Ready(call)), Err(misfit), Err(unknown)] = &outcome.calls[..] else {
            panic!("{provider}: {:?}", outcome.calls);
        };
        assert_eq!(
            (call.tool().id.as_str(), call.arguments()),
            ("sky/get_forecast", &json!({"city": "Bern"}))
        );
        assert!(
            misfit.to_string().contains("the member \"city\""),
            "{provider}: {misfit}"
        );
        assert!(
            unknown.to_string().contains("did you mean get_forecast"),
            "{provider}: {unknown}"
        );
        assert_eq!(outcome.response, answer(provider));
    }
}

#[tokio::test]
async fn answer_without_calls_keeps_tools_of_the_request() {
    let server = TestServer::new(|_, _| {
        Reply::Json(json!({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]}))
    });
    let request = json!({"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": "own"}}]});
    let outcome = ask(Provider::OpenAiChat, &server, request)
        .await
        .expect("the model answers");
    assert!(outcome.calls.is_empty());
    assert_eq!(
        server.requests()[0].body["tools"].as_array().map(Vec::len),
        Some(3)
    );
    let error = ask(Provider::OpenAiChat, &server, json!([]))
        .await
        .expect_err("an array is not a request");
    assert!(matches!(error, ToolCallError::Body), "{error}");
}

/// Formats an error with its sources.
fn error_chain(error: &dyn std::error::Error) -> String {
    let messages =
        std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    messages.collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn error_is_reported_without_the_key() {
    let ask_with_reply = |reply: fn() -> Reply| async move {
        let server = TestServer::new(move |_, _| reply());
        error_chain(
            &ask(Provider::Anthropic, &server, json!({"model": "m"}))
                .await
                .expect_err("there is no answer"),
        )
    };
    let echo = || {
        Reply::status(
            "401 Unauthorized",
            "{\"error\": {\"message\": \"bad key sk-secret-0123456789\"}}",
        )
    };
    let error = ask_with_reply(echo).await;
    assert!(
        error.contains("401") && error.contains("bad key ***") && !error.contains(KEY),
        "{error}"
    );
    assert!(
        ask_with_reply(|| Reply::status("200 OK", "<html>"))
            .await
            .contains("not JSON")
    );
    assert!(
        ask_with_reply(|| Reply::Endless)
            .await
            .contains("longer than 16 MiB")
    );
    let error = ask_with_reply(|| Reply::status("307 Temporary Redirect", "")).await;
    assert!(error.contains("307"), "{error}");
    assert!(
        ask_with_reply(|| Reply::Json(json!({"content": 7})))
            .await
            .contains("/content")
    );
}

#[tokio::test]
async fn unusable_client_is_reported() {
    let client = |provider, url: &str, key: &str| {
        let options = EndpointOptions {
            api_key: Some(key.to_owned()),
            ..EndpointOptions::default()
        };
        ProviderClient::new(provider, url, &options)
            .expect_err("the configuration is invalid")
            .to_string()
    };
    assert!(client(Provider::OpenAiChat, "localhost:1", "").contains("write it like"));
    assert!(client(Provider::OpenAiChat, "http://me:pw@example.org", "").contains("user name"));
    assert!(client(Provider::Mcp, "http://localhost:1", "").contains("no chat"));
    assert!(client(Provider::OpenAiChat, "http://localhost:1", "a\nb").contains("key"));
    let server = TestServer::new(|_, _| Reply::Json(json!({})));
    let error = ask(Provider::Gemini, &server, json!({"model": "../../x"}))
        .await
        .expect_err("the model name is invalid");
    assert!(error_chain(&error).contains("names no model"), "{error}");
    let slow = TestServer::new(|_, _| Reply::Hang);
    let options = EndpointOptions {
        timeout: Duration::from_millis(200),
        ..EndpointOptions::default()
    };
    let client =
        ProviderClient::new(Provider::Ollama, &slow.url, &options).expect("the URL is valid");
    let error = tool_call(
        &client,
        json!({"model": "m"}),
        &hydrator(),
        &tools(),
        &ToolCallOptions::default(),
    )
    .await;
    let error = error.expect_err("the server hangs");
    assert!(
        error_chain(&error).contains("no complete answer within 200ms"),
        "{error}"
    );
    assert!(matches!(error, ToolCallError::Client { source, .. } if source.retryable()));
}

#[tokio::test]
async fn alias_of_an_untrusted_tool_is_an_unknown_tool() {
    let mut evil = tool("evil", "run", "Runs a command");
    evil.untrusted = true;
    evil.aliases = vec![Alias {
        name: "bash".to_owned(),
        deprecated: false,
    }];
    let server = TestServer::new(|_, _| {
        Reply::Json(json!({"message": {"role": "assistant", "content": "",
            "tool_calls": [{"function": {"name": "bash", "arguments": {}}}]}}))
    });
    let client =
        ProviderClient::new(Provider::Ollama, &server.url, &options()).expect("the URL is valid");
    let hydrator = Hydrator::new(
        Catalog::from_tools([evil]).expect("the tool is valid"),
        &Access::default(),
    )
    .expect("the access policy is valid");
    let tools = hydrator.catalog().tools().expect("readable");
    let outcome = tool_call(
        &client,
        json!({"model": "m"}),
        &hydrator,
        tools,
        &ToolCallOptions::default(),
    )
    .await;
    assert!(matches!(
        outcome.expect("the model answers").calls[..],
        [Err(CallError::UnknownTool { .. })]
    ));
}

#[tokio::test]
async fn long_numbers_of_answers_keep_their_digits() {
    for provider in [
        Provider::OpenAiChat,
        Provider::OpenAiResponses,
        Provider::Anthropic,
        Provider::Gemini,
        Provider::Ollama,
    ] {
        let number = "12345678901234567890123";
        let body = answer(provider).to_string();
        let body = body
            .replace("\"Bern\"", number)
            .replace("\\\"Bern\\\"", number);
        let server = TestServer::new(move |_, _| {
            Reply::Raw(
                "200 OK",
                "content-type: application/json\r\n".to_owned(),
                body.clone(),
            )
        });
        let calls = ask(provider, &server, json!({"model": "m"})).await;
        let calls = calls.expect("an answer");
        let told = format!("{calls:?}");
        assert!(told.contains(number), "{provider}: {told}");
        assert!(
            !told.contains("1.2345678901234568e22"),
            "{provider}: {told}"
        );
    }
}
