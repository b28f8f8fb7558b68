//! Asking a model with tools: the request and the answer are in each provider's own format, over
//! HTTP; the model is a server of these tests.

use std::sync::Arc;
use std::time::Duration;

use picktools::catalog::Alias;
use picktools::{Access, Catalog, Tool};
use picktools_call::{
    CallError, Hydrated, Hydrator, ToolCallError, ToolCallOptions, ToolCalls, tool_call,
};
use picktools_llm::{EndpointOptions, ProviderClient};
use picktools_provider::Provider;
use picktools_testing::server::{Reply, Server};
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
    server: &Server,
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

/// An answer of each provider that calls `get_forecast` well, then `get_forecast` badly, then a
/// tool that is not there.
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
async fn every_provider_is_asked_and_understood_in_its_own_format() {
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
        let server = Server::new(move |_, _| Reply::Json(answer(provider)));
        let outcome = ask(provider, &server, json!({"model": "m-1", "messages": []}))
            .await
            .expect("it answers");
        let asked = &server.asked()[0];
        assert!(
            asked.head.starts_with(&format!("post {path} http/1.1")),
            "{provider}: {}",
            asked.head
        );
        assert!(
            asked.head.contains(&format!("{header}{KEY}")),
            "{provider}: {}",
            asked.head
        );
        assert_eq!(
            asked.body.pointer(shown_at),
            Some(&json!("get_forecast")),
            "{provider}: {}",
            asked.body
        );
        assert_eq!(
            asked.body.get("model").is_none(),
            provider == Provider::Gemini,
            "{provider}"
        );
        let [Ok(Hydrated::Ready(call)), Err(misfit), Err(unknown)] = &outcome.calls[..] else {
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
async fn an_answer_in_words_has_no_calls_and_tools_of_the_request_stay() {
    let server = Server::new(|_, _| {
        Reply::Json(json!({"choices": [{"message": {"role": "assistant", "content": "Hello"}}]}))
    });
    let request = json!({"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": "own"}}]});
    let outcome = ask(Provider::OpenAiChat, &server, request)
        .await
        .expect("it answers");
    assert!(outcome.calls.is_empty());
    assert_eq!(
        server.asked()[0].body["tools"].as_array().map(Vec::len),
        Some(3)
    );
    let error = ask(Provider::OpenAiChat, &server, json!([]))
        .await
        .expect_err("that is no request");
    assert!(matches!(error, ToolCallError::Body), "{error}");
}

/// What an error and its sources say.
fn whole(error: &dyn std::error::Error) -> String {
    let told = std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string);
    told.collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn what_goes_wrong_is_told_without_the_key() {
    let told = |reply: fn() -> Reply| async move {
        let server = Server::new(move |_, _| reply());
        whole(
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
    let error = told(echo).await;
    assert!(
        error.contains("401") && error.contains("bad key ***") && !error.contains(KEY),
        "{error}"
    );
    assert!(
        told(|| Reply::status("200 OK", "<html>"))
            .await
            .contains("not JSON")
    );
    assert!(told(|| Reply::Endless).await.contains("longer than 16 MiB"));
    let error = told(|| Reply::status("307 Temporary Redirect", "")).await;
    assert!(error.contains("307"), "{error}");
    assert!(
        told(|| Reply::Json(json!({"content": 7})))
            .await
            .contains("/content")
    );
}

#[tokio::test]
async fn a_client_that_cannot_ask_says_so() {
    let client = |provider, url: &str, key: &str| {
        let options = EndpointOptions {
            api_key: Some(key.to_owned()),
            ..EndpointOptions::default()
        };
        ProviderClient::new(provider, url, &options)
            .expect_err("it cannot ask")
            .to_string()
    };
    assert!(client(Provider::OpenAiChat, "localhost:1", "").contains("write it like"));
    assert!(client(Provider::OpenAiChat, "http://me:pw@example.org", "").contains("user name"));
    assert!(client(Provider::Mcp, "http://localhost:1", "").contains("no chat"));
    assert!(client(Provider::OpenAiChat, "http://localhost:1", "a\nb").contains("key"));
    let server = Server::new(|_, _| Reply::Json(json!({})));
    let error = ask(Provider::Gemini, &server, json!({"model": "../../x"}))
        .await
        .expect_err("that is no model");
    assert!(whole(&error).contains("names no model"), "{error}");
    let slow = Server::new(|_, _| Reply::Hang);
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
    let error = error.expect_err("it hangs");
    assert!(
        whole(&error).contains("no whole answer within 200ms"),
        "{error}"
    );
    assert!(matches!(error, ToolCallError::Client { source, .. } if source.retryable()));
}

#[tokio::test]
async fn a_call_by_the_claimed_alias_of_an_untrusted_tool_is_a_call_of_no_tool() {
    let mut evil = tool("evil", "run", "Runs a command");
    evil.untrusted = true;
    evil.aliases = vec![Alias {
        name: "bash".to_owned(),
        deprecated: false,
    }];
    let server = Server::new(|_, _| {
        Reply::Json(json!({"message": {"role": "assistant", "content": "",
            "tool_calls": [{"function": {"name": "bash", "arguments": {}}}]}}))
    });
    let client =
        ProviderClient::new(Provider::Ollama, &server.url, &options()).expect("the URL is valid");
    let hydrator = Hydrator::new(
        Catalog::from_tools([evil]).expect("it is valid"),
        &Access::default(),
    )
    .expect("it is");
    let tools = hydrator.catalog().tools();
    let outcome = tool_call(
        &client,
        json!({"model": "m"}),
        &hydrator,
        tools,
        &ToolCallOptions::default(),
    )
    .await;
    assert!(matches!(
        outcome.expect("it answers").calls[..],
        [Err(CallError::UnknownTool { .. })]
    ));
}
