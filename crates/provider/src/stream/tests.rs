use super::*;
use crate::Arguments;
use serde_json::json;

fn assemble(provider: Provider, events: &[Value]) -> Result<Vec<ToolCall>, ResponseError> {
    let mut stream = CallStream::new(provider);
    for event in events {
        stream.push(event)?;
    }
    stream.finish()
}

fn call(id: Option<&str>, name: &str, arguments: Arguments) -> ToolCall {
    ToolCall {
        id: id.map(str::to_owned),
        name: name.into(),
        arguments,
    }
}

fn text(text: &str) -> Arguments {
    Arguments::Text(text.to_owned())
}

fn chat(pieces: Value, end: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": {"tool_calls": pieces}, "finish_reason": end}]})
}

#[test]
fn chat_deltas_are_assembled_by_index() {
    let events = [
        json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
        chat(
            json!([{"index": 1, "id": "b", "function": {"name": "second", "arguments": ""}}]),
            json!(null),
        ),
        chat(
            json!([{"index": 0, "id": "a", "function": {"name": "first", "arguments": "{\"x\""}}]),
            json!(null),
        ),
        chat(
            json!([{"index": 1, "function": {"arguments": "{}"}}]),
            json!(null),
        ),
        chat(
            json!([{"index": 0, "function": {"arguments": ": 1}"}}]),
            json!(null),
        ),
    ];
    let broken = assemble(Provider::OpenAiChat, &events).expect_err("it did not end");
    assert!(
        matches!(broken, ResponseError::Truncated { ref name } if name == "first"),
        "{broken}"
    );
    let mut events = events.to_vec();
    events.push(chat(json!([]), json!("tool_calls")));
    events.push(json!({"choices": [], "usage": {}}));
    let expected = vec![
        call(Some("a"), "first", text("{\"x\": 1}")),
        call(Some("b"), "second", text("{}")),
    ];
    assert_eq!(assemble(Provider::OpenAiChat, &events), Ok(expected));
}

#[test]
fn chat_deltas_without_an_index_are_assembled_by_id() {
    let piece = |id: &str, arguments: &str| {
        chat(
            json!([{"id": id, "function": {"name": "same", "arguments": arguments}}]),
            json!("tool_calls"),
        )
    };
    let calls = assemble(
        Provider::OpenAiChat,
        &[piece("a", "{"), piece("a", "}"), piece("b", "{}")],
    );
    let expected = vec![
        call(Some("a"), "same", text("{}")),
        call(Some("b"), "same", text("{}")),
    ];
    assert_eq!(calls, Ok(expected));
}

#[test]
fn responses_and_anthropic_deltas_are_assembled() {
    let item = |arguments: &str| json!({"type": "function_call", "call_id": "c", "name": "go", "arguments": arguments});
    let mut events = vec![
        json!({"type": "response.created", "response": {"error": null}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": item("")}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{\"a\":"}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "1}"}),
    ];
    let provider = Provider::OpenAiResponses;
    assert!(matches!(
        assemble(provider, &events),
        Err(ResponseError::Truncated { .. })
    ));
    events.push(
        json!({"type": "response.output_item.done", "output_index": 1, "item": item("{\"a\":1}")}),
    );
    assert_eq!(
        assemble(provider, &events),
        Ok(vec![call(Some("c"), "go", text("{\"a\":1}"))])
    );

    let start = |index: u64, kind: &str| {
        json!({"type": "content_block_start", "index": index,
            "content_block": {"type": kind, "id": "t", "name": "go", "input": {}}})
    };
    let delta = |index: u64, text: &str| {
        json!({"type": "content_block_delta", "index": index,
            "delta": {"type": "input_json_delta", "partial_json": text}})
    };
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let mut events = vec![
        json!({"type": "ping"}),
        start(0, "server_tool_use"),
        delta(0, "{\"query\": 1}"),
        stop(0),
        start(1, "tool_use"),
        delta(1, ""),
        delta(1, "{\"a\": "),
        delta(1, "1}"),
    ];
    assert!(matches!(
        assemble(Provider::Anthropic, &events),
        Err(ResponseError::Truncated { .. })
    ));
    events.extend([stop(1), start(2, "tool_use"), stop(2)]);
    let expected = vec![
        call(Some("t"), "go", text("{\"a\": 1}")),
        call(Some("t"), "go", Arguments::Json(json!({}))),
    ];
    assert_eq!(assemble(Provider::Anthropic, &events), Ok(expected));
}

#[test]
fn complete_calls_of_other_providers_are_taken() {
    let expected = |id: Option<&str>| Ok(vec![call(id, "go", Arguments::Json(json!({"a": 1})))]);
    let gemini = [
        json!({"candidates": [{"content": {"parts": [{"text": "Hm"}]}}]}),
        json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "go", "args": {"a": 1}}}]}}]}),
        json!({"usageMetadata": {}}),
    ];
    assert_eq!(assemble(Provider::Gemini, &gemini), expected(None));
    let function = json!({"function": {"name": "go", "arguments": {"a": 1}}});
    let ollama = [
        json!({"message": {"content": "", "tool_calls": [function]}, "done": false}),
        json!({"done": true}),
    ];
    assert_eq!(assemble(Provider::Ollama, &ollama), expected(None));
    let params = json!({"name": "go", "arguments": {"a": 1}});
    let mcp = [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params}),
    ];
    assert_eq!(assemble(Provider::Mcp, &mcp), expected(Some("x")));
}

#[test]
fn push_hostile_streams_fails() {
    let end = json!("tool_calls");
    let far = chat(
        json!([{"index": u64::MAX, "function": {"name": "x", "arguments": "{}"}}]),
        end.clone(),
    );
    assert_eq!(
        assemble(Provider::OpenAiChat, &[far]).map(|calls| calls.len()),
        Ok(1)
    );
    let negative = chat(json!([{"index": -1}]), end.clone());
    let error = assemble(Provider::OpenAiChat, &[negative]).expect_err("no such place");
    assert!(
        error
            .to_string()
            .contains("/choices/0/delta/tool_calls/0/index is a number"),
        "{error}"
    );
    let many: Vec<Value> = (0..=MAX_CALLS)
        .map(|index| {
            chat(
                json!([{"index": index, "function": {"name": "x"}}]),
                json!(null),
            )
        })
        .collect();
    let error = assemble(Provider::OpenAiChat, &many).expect_err("they are too many");
    assert!(
        matches!(error, ResponseError::TooLarge { what: "calls", .. }),
        "{error}"
    );
    let piece = chat(
        json!([{"index": 0, "function": {"arguments": "x".repeat(1 << 20)}}]),
        end,
    );
    let error = assemble(Provider::OpenAiChat, &vec![piece; 5]).expect_err("they are too long");
    assert!(
        matches!(
            error,
            ResponseError::TooLarge {
                what: "bytes of arguments",
                ..
            }
        ),
        "{error}"
    );
    let failed = json!({"type": "response.failed", "response": {"error": {"message": "no"}}});
    let errors = [
        (Provider::OpenAiResponses, failed),
        (
            Provider::OpenAiResponses,
            json!({"type": "error", "message": "no"}),
        ),
        (
            Provider::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "no"}}),
        ),
        (Provider::Ollama, json!({"error": "no"})),
    ];
    for (provider, event) in errors {
        let error = assemble(provider, &[event]).expect_err("it failed");
        assert!(
            matches!(error, ResponseError::Refused { ref message, .. } if message == "no"),
            "{error}"
        );
    }
}
