//! Calls of streamed answers, in the forms that servers really send.

use picktools_provider::{Arguments, CallStream, EventReader, Provider, ResponseError, ToolCall};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Makes an event of a stream from calls.
type EventMaker<'a> = &'a dyn Fn(&[Value]) -> Value;
/// The id, name and arguments of a call.
type Expected = (Option<&'static str>, &'static str, Value);

fn assemble(
    provider: Provider,
    stream: &[u8],
    cuts: &[usize],
) -> Result<Vec<ToolCall>, ResponseError> {
    let (mut reader, mut calls) = (EventReader::new(), CallStream::new(provider));
    let mut start = 0;
    for cut in cuts.iter().copied().chain([stream.len()]) {
        for event in reader.push(&stream[start..cut])? {
            calls.push(&event)?;
        }
        start = cut;
    }
    for event in reader.finish()? {
        calls.push(&event)?;
    }
    calls.finish()
}

fn server_sent(events: &[Value], end: &str) -> String {
    let mut text = String::new();
    for event in events {
        text.push_str(&format!("data: {event}\n\n"));
    }
    text + end
}

/// Returns the arguments as JSON; text that is not JSON as a string.
fn arguments(call: &ToolCall) -> Value {
    match &call.arguments {
        Arguments::Json(value) => value.clone(),
        Arguments::Text(text) if text.trim().is_empty() => json!({}),
        Arguments::Text(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
    }
}

fn check(provider: Provider, label: &str, events: &[Value], end: &str, expected: &[Expected]) {
    let text = server_sent(events, end);
    let calls = assemble(provider, text.as_bytes(), &[])
        .unwrap_or_else(|error| panic!("{provider}: {label}: {error}"));
    let actual: Vec<(Option<&str>, &str, Value)> = calls
        .iter()
        .map(|call| (call.id.as_deref(), call.name.as_str(), arguments(call)))
        .collect();
    assert_eq!(actual, expected, "{provider}: {label}");
}

/// Makes an event of Chat Completions from its entries of `tool_calls`.
fn chunk(pieces: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": {"tool_calls": pieces}, "finish_reason": null}]})
}

fn chat(label: &str, pieces: &[Value], expected: &[Expected]) {
    let mut events: Vec<Value> = pieces.iter().cloned().map(chunk).collect();
    check(
        Provider::OpenAiChat,
        label,
        &events,
        "data: [DONE]\n\n",
        expected,
    );
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    check(Provider::OpenAiChat, label, &events, "", expected);
}

/// Makes an entry of `tool_calls`; empty texts are left out.
fn piece(index: u64, id: &str, name: &str, arguments: &str) -> Value {
    let mut function = json!({"arguments": arguments});
    if !name.is_empty() {
        function["name"] = json!(name);
    }
    let mut piece = json!({"index": index, "function": function});
    if !id.is_empty() {
        piece["id"] = json!(id);
    }
    piece
}

#[test]
fn chat_calls_with_one_index_stay_apart() {
    let (a, b) = (r#"{"q":"A"}"#, r#"{"q":"B"}"#);
    let two = [
        (Some("a"), "search", json!({"q": "A"})),
        (Some("b"), "search", json!({"q": "B"})),
    ];
    let in_pieces = |index| {
        vec![
            json!([piece(0, "a", "search", "")]),
            json!([piece(0, "", "", r#"{"q":"#)]),
            json!([piece(0, "", "", r#""A"}"#)]),
            json!([piece(index, "b", "search", "")]),
            json!([piece(index, "", "", r#"{"q":"#)]),
            json!([piece(index, "", "", r#""B"}"#)]),
        ]
    };
    chat("another id", &in_pieces(0), &two);
    chat("another index", &in_pieces(1), &two);
    chat(
        "one chunk",
        &[json!([
            piece(0, "a", "search", a),
            piece(0, "b", "search", b)
        ])],
        &two,
    );
    chat(
        "interleaved by id",
        &[
            json!([piece(0, "a", "search", a)]),
            json!([piece(0, "b", "search", r#"{"q":"#)]),
            json!([piece(0, "a", "", " "), piece(0, "b", "", r#""B"}"#)]),
        ],
        &two,
    );
    chat(
        "id before the name",
        &[
            json!([piece(0, "a", "search", a)]),
            json!([{"index": 0, "id": "b"}]),
            json!([{"index": 0, "function": {"name": "search"}}]),
            json!([piece(0, "", "", b)]),
        ],
        &two,
    );
    chat(
        "name in pieces",
        &[
            json!([piece(0, "a", "search", a)]),
            json!([piece(0, "b", "sea", "")]),
            json!([piece(0, "", "rch", "")]),
            json!([piece(0, "", "", b)]),
        ],
        &two,
    );
    let no_ids = [
        (None, "search", json!({"q": "A"})),
        (None, "weather", json!({"q": "B"})),
    ];
    chat(
        "another name, no id",
        &[
            json!([piece(0, "", "search", a)]),
            json!([piece(0, "", "weather", b)]),
        ],
        &no_ids,
    );
    let same_name = [
        (None, "search", json!({"q": "A"})),
        (None, "search", json!({"q": "B"})),
    ];
    chat(
        "same name, no id",
        &[
            json!([piece(0, "", "search", a)]),
            json!([piece(0, "", "search", b)]),
        ],
        &same_name,
    );
    chat(
        "no index, no id, one entry each",
        &[
            json!([{"function": {"name": "search", "arguments": a}}]),
            json!([{"function": {"name": "search", "arguments": b}}]),
        ],
        &same_name,
    );
    chat(
        "without arguments",
        &[
            json!([piece(0, "a", "list", "")]),
            json!([piece(0, "b", "search", b)]),
        ],
        &[
            (Some("a"), "list", json!({})),
            (Some("b"), "search", json!({"q": "B"})),
        ],
    );
    chat(
        "empty object, then another call",
        &[
            json!([piece(0, "a", "list", "{}")]),
            json!([piece(0, "b", "list", "{}")]),
        ],
        &[
            (Some("a"), "list", json!({})),
            (Some("b"), "list", json!({})),
        ],
    );
}

#[test]
fn chat_pieces_of_one_call_stay_together() {
    let one = [(Some("a"), "search", json!({"q": "A"}))];
    chat(
        "no id on later indexes",
        &[
            json!([piece(0, "a", "search", "")]),
            json!([piece(1, "", "", r#"{"q":"#)]),
            json!([piece(2, "", "", r#""A"}"#)]),
        ],
        &one,
    );
    chat(
        "same id on later indexes",
        &[
            json!([piece(0, "a", "search", "")]),
            json!([piece(1, "a", "", r#"{"q":"#)]),
            json!([piece(2, "a", "", r#""A"}"#)]),
        ],
        &one,
    );
    chat(
        "ids that change, and a last empty piece",
        &[
            json!([piece(0, "a", "search", "")]),
            json!([piece(0, "b", "", r#"{"q":"#)]),
            json!([piece(0, "c", "", r#""A"}"#)]),
            json!([piece(0, "d", "", "")]),
        ],
        &one,
    );
    chat(
        "ids that change with the name repeated",
        &[
            json!([piece(0, "a", "search", r#"{"q":"#)]),
            json!([piece(0, "b", "search", r#""A"}"#)]),
            json!([piece(0, "c", "search", "")]),
        ],
        &one,
    );
    chat(
        "ids that change without an index",
        &[
            json!([{"id": "a", "function": {"name": "search", "arguments": r#"{"q":"#}}]),
            json!([{"id": "b", "function": {"arguments": r#""A"}"#}}]),
        ],
        &one,
    );
    chat(
        "id and name repeated",
        &[
            json!([piece(0, "a", "search", r#"{"q":"#)]),
            json!([piece(0, "a", "search", r#""A"}"#)]),
            json!([piece(0, "a", "search", "")]),
        ],
        &one,
    );
    chat(
        "brackets inside text",
        &[
            json!([piece(0, "a", "search", r#"{"q":"}"#)]),
            json!([piece(0, "b", "search", r#"\"}"}"#)]),
        ],
        &[(Some("a"), "search", json!({"q": "}\"}"}))],
    );
}

#[test]
fn chat_arguments_as_an_object_are_read() {
    let call = |id: &str, arguments: Value| json!({"index": 0, "id": id, "function": {"name": "search", "arguments": arguments}});
    chat(
        "one",
        &[json!([call("a", json!({"q": "A"}))])],
        &[(Some("a"), "search", json!({"q": "A"}))],
    );
    chat(
        "two with one index",
        &[
            json!([call("a", json!({"q": "A"}))]),
            json!([call("b", json!({"q": "B"}))]),
        ],
        &[
            (Some("a"), "search", json!({"q": "A"})),
            (Some("b"), "search", json!({"q": "B"})),
        ],
    );
    chat(
        "object after an empty start",
        &[
            json!([piece(0, "a", "search", "")]),
            json!([{"index": 0, "function": {"arguments": {"q": "A"}}}]),
        ],
        &[(Some("a"), "search", json!({"q": "A"}))],
    );
    chat(
        "text after an empty object",
        &[
            json!([call("a", json!({}))]),
            json!([piece(0, "", "", r#"{"q":"A"}"#)]),
        ],
        &[(Some("a"), "search", json!({"q": "A"}))],
    );
}

#[test]
fn chat_calls_of_the_older_api_are_read() {
    let delta = |call: Value| json!({"choices": [{"index": 0, "delta": {"function_call": call}}]});
    let events = [
        delta(json!({"name": "get_weather", "arguments": ""})),
        delta(json!({"arguments": "{\"city\": "})),
        delta(json!({"arguments": "\"Oslo\"}"})),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "function_call"}]}),
    ];
    let mut stream = CallStream::new(Provider::OpenAiChat);
    for event in &events {
        stream.push(event).expect("a valid event");
    }
    let streamed = stream.finish().expect("a complete answer");
    let function = json!({"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"});
    let message = json!({"role": "assistant", "content": null, "function_call": function});
    let answer = json!({"choices": [{"message": message, "finish_reason": "function_call"}]});
    let complete = Provider::OpenAiChat.calls(&answer).expect("valid");
    let both =
        json!({"function_call": function, "tool_calls": [{"id": "a", "function": function}]});
    let both = json!({"choices": [{"message": both, "finish_reason": "tool_calls"}]});
    let one = Provider::OpenAiChat.calls(&both).expect("valid");
    for calls in [streamed, complete, one] {
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].name, "get_weather");
        assert_eq!(arguments(&calls[0]), json!({"city": "Oslo"}));
    }
}

#[test]
fn chat_message_at_the_end_of_a_stream_is_read_once() {
    let function = json!({"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"});
    let calls = json!([{"index": 0, "id": "a", "type": "function", "function": function}]);
    let pieces = json!({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]});
    let last = json!({"choices": [{"index": 0, "message": {"tool_calls": calls},
        "finish_reason": "tool_calls"}]});
    for events in [vec![last.clone()], vec![pieces, last]] {
        let mut stream = CallStream::new(Provider::OpenAiChat);
        for event in &events {
            stream.push(event).expect("a valid event");
        }
        let calls = stream.finish().expect("a complete answer");
        assert_eq!(calls.len(), 1);
        assert_eq!(arguments(&calls[0]), json!({"city": "Oslo"}));
    }
}

fn block(index: u64, id: &str, name: &str, input: Value) -> Value {
    json!({"type": "content_block_start", "index": index,
        "content_block": {"type": "tool_use", "id": id, "name": name, "input": input}})
}

fn input(index: u64, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index,
        "delta": {"type": "input_json_delta", "partial_json": text}})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

#[test]
fn anthropic_streams_of_other_servers_are_read() {
    let end = json!({"type": "message_stop"});
    let run = |label: &str, events: &[Value], expected: &[Expected]| {
        let mut events = events.to_vec();
        check(
            Provider::Anthropic,
            label,
            &events,
            "data: [DONE]\n\n",
            expected,
        );
        events.push(end.clone());
        check(Provider::Anthropic, label, &events, "", expected);
    };
    let two = [
        (Some("a"), "search", json!({"q": "A"})),
        (Some("b"), "search", json!({"q": "B"})),
    ];
    run(
        "one index",
        &[
            block(0, "a", "search", json!({})),
            input(0, r#"{"q":"#),
            input(0, r#""A"}"#),
            stop(0),
            block(0, "b", "search", json!({})),
            input(0, r#"{"q":"B"}"#),
            stop(0),
        ],
        &two,
    );
    run(
        "one index without stops",
        &[
            block(0, "a", "search", json!({})),
            input(0, r#"{"q":"A"}"#),
            block(0, "b", "search", json!({})),
            input(0, r#"{"q":"B"}"#),
        ],
        &two,
    );
    run(
        "complete input at the start",
        &[
            block(0, "a", "search", json!({"q": "A"})),
            block(0, "b", "search", json!({"q": "B"})),
        ],
        &two,
    );
    run(
        "input as text at the start",
        &[
            block(0, "a", "search", json!(r#"{"q":"A"}"#)),
            block(1, "b", "search", json!(r#"{"q":"B"}"#)),
        ],
        &two,
    );
    let one = [(Some("a"), "search", json!({"q": "A"}))];
    run(
        "pieces on later indexes",
        &[
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            block(1, "a", "search", json!({})),
            input(2, r#"{"q":"#),
            input(3, r#""A"}"#),
        ],
        &one,
    );
    run(
        "other blocks at the index of a call",
        &[
            block(0, "a", "search", json!({})),
            input(0, r#"{"q":"A"}"#),
            stop(0),
            json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}}),
            input(0, r#"{"query":"x"}"#),
            stop(0),
        ],
        &one,
    );
    run(
        "input as an object",
        &[
            block(0, "a", "search", json!({})),
            json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": {"q": "A"}}}),
        ],
        &one,
    );
}

#[test]
fn responses_streams_of_other_servers_are_read() {
    let item = |kind: &str, index: u64, id: &str, arguments: Value| {
        json!({"type": format!("response.output_item.{kind}"), "output_index": index,
            "item": {"type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                "name": "search", "arguments": arguments}})
    };
    let delta = |index: u64, id: &str, text: &str| {
        json!({"type": "response.function_call_arguments.delta", "output_index": index,
            "item_id": format!("fc_{id}"), "delta": text})
    };
    let end =
        json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
    let run = |label: &str, events: &[Value], expected: &[Expected]| {
        let mut events = events.to_vec();
        check(
            Provider::OpenAiResponses,
            label,
            &events,
            "data: [DONE]\n\n",
            expected,
        );
        events.push(end.clone());
        check(Provider::OpenAiResponses, label, &events, "", expected);
    };
    let two = [
        (Some("a"), "search", json!({"q": "A"})),
        (Some("b"), "search", json!({"q": "B"})),
    ];
    let (a, b) = (json!(r#"{"q":"A"}"#), json!(r#"{"q":"B"}"#));
    run(
        "one index",
        &[
            item("added", 0, "a", json!("")),
            delta(0, "a", r#"{"q":"A"}"#),
            item("done", 0, "a", a.clone()),
            item("added", 0, "b", json!("")),
            delta(0, "b", r#"{"q":"#),
            delta(0, "b", r#""B"}"#),
            item("done", 0, "b", b.clone()),
        ],
        &two,
    );
    run(
        "one index, interleaved",
        &[
            item("added", 0, "a", json!("")),
            item("added", 0, "b", json!("")),
            delta(0, "a", r#"{"q":"#),
            delta(0, "b", r#"{"q":"B"}"#),
            delta(0, "a", r#""A"}"#),
        ],
        &two,
    );
    run(
        "only complete items",
        &[item("done", 0, "a", a.clone()), item("done", 0, "b", b)],
        &two,
    );
    let one = [(Some("a"), "search", json!({"q": "A"}))];
    run(
        "pieces on later indexes",
        &[
            item("added", 0, "a", json!("")),
            delta(1, "x", r#"{"q":"#),
            delta(2, "y", r#""A"}"#),
        ],
        &one,
    );
    run(
        "item ids that change",
        &[
            item("added", 1, "a", json!("")),
            delta(1, "b", r#"{"q":"#),
            delta(1, "c", r#""A"}"#),
            json!({"type": "response.function_call_arguments.done", "output_index": 1,
                "item_id": "fc_d", "arguments": r#"{"q":"A"}"#}),
            json!({"type": "response.output_item.done", "output_index": 1,
                "item": {"type": "function_call", "id": "fc_e", "call_id": "a", "name": "search",
                    "arguments": r#"{"q":"A"}"#}}),
        ],
        &one,
    );
    run(
        "arguments as an object",
        &[item("done", 0, "a", json!({"q": "A"}))],
        &one,
    );
    run(
        "arguments as an object at the end",
        &[
            item("added", 0, "a", json!("")),
            json!({"type": "response.function_call_arguments.done", "output_index": 0,
                "arguments": {"q": "A"}}),
        ],
        &one,
    );
    let completed = json!({"type": "response.completed", "response": {"status": "completed",
        "output": [{"type": "function_call", "call_id": "a", "name": "search", "arguments": a}]}});
    check(
        Provider::OpenAiResponses,
        "only the response",
        &[completed],
        "",
        &one,
    );
}

#[test]
fn gemini_and_ollama_streams_of_other_servers_are_read() {
    let gemini = |calls: &[Value]| {
        let parts: Vec<Value> = calls
            .iter()
            .map(|call| json!({"functionCall": call}))
            .collect();
        json!({"candidates": [{"content": {"parts": parts}}]})
    };
    let ollama = |calls: &[Value]| {
        let rename = |call: &Value| {
            let mut call = call.clone();
            if let Some(arguments) = call.as_object_mut().and_then(|call| call.remove("args")) {
                call["arguments"] = arguments;
            }
            let id = call.as_object_mut().and_then(|call| call.remove("id"));
            json!({"id": id, "function": call})
        };
        let calls: Vec<Value> = calls.iter().map(rename).collect();
        json!({"message": {"tool_calls": calls}, "done": false})
    };
    let (a, b) = (json!({"q": "A"}), json!({"q": "B"}));
    let named = |arguments: &Value| json!({"name": "search", "args": arguments});
    let two = [(None, "search", a.clone()), (None, "search", b.clone())];
    let makers: [(Provider, EventMaker<'_>); 2] =
        [(Provider::Gemini, &gemini), (Provider::Ollama, &ollama)];
    for (provider, event) in makers {
        let run = |label: &str, events: &[Value], expected: &[Expected]| {
            check(provider, label, events, "data: [DONE]\n\n", expected);
        };
        run(
            "several in one chunk",
            &[event(&[named(&a), named(&b)])],
            &two,
        );
        run(
            "one per chunk",
            &[event(&[named(&a)]), event(&[named(&b)])],
            &two,
        );
        run(
            "arguments as text",
            &[event(&[named(&json!(a.to_string()))]), event(&[named(&b)])],
            &two,
        );
        run(
            "arguments in later pieces without a name",
            &[
                event(&[json!({"name": "search"})]),
                event(&[json!({"args": "{\"q\":"})]),
                event(&[json!({"args": "\"A\"}"})]),
                event(&[named(&b)]),
            ],
            &two,
        );
        run(
            "arguments in a later object without a name",
            &[
                event(&[json!({"id": "a", "name": "search"})]),
                event(&[json!({"args": a})]),
            ],
            &[(Some("a"), "search", a.clone())],
        );
        run(
            "id and name repeated with more arguments",
            &[
                event(&[json!({"id": "a", "name": "search", "args": {}})]),
                event(&[json!({"id": "a", "name": "search", "args": a})]),
            ],
            &[(Some("a"), "search", a.clone())],
        );
    }
}

#[test]
fn streams_that_run_out_of_tokens_are_refused() {
    let call = json!([piece(0, "a", "search", r#"{"q":"A"}"#)]);
    let streams = [
        (
            Provider::OpenAiChat,
            vec![
                chunk(call),
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}),
            ],
        ),
        (
            Provider::Anthropic,
            vec![
                block(0, "a", "search", json!({})),
                input(0, r#"{"q":"A"}"#),
                stop(0),
                json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}),
            ],
        ),
        (
            Provider::Gemini,
            vec![json!({"candidates": [{"content": {"parts": [
                {"functionCall": {"name": "search", "args": {"q": "A"}}}]}, "finishReason": "MAX_TOKENS"}]})],
        ),
        (
            Provider::Ollama,
            vec![
                json!({"message": {"tool_calls": [{"function": {"name": "search", "arguments": {}}}]}}),
                json!({"done": true, "done_reason": "length"}),
            ],
        ),
    ];
    for (provider, events) in streams {
        let error = assemble(provider, server_sent(&events, "").as_bytes(), &[])
            .expect_err("the last call may lack its end");
        assert_eq!(
            error,
            ResponseError::Truncated {
                name: "search".into()
            },
            "{provider}"
        );
    }
}

/// A call to write as an answer, and the places at which its arguments are cut.
#[derive(Debug, Clone)]
struct WrittenCall {
    name: String,
    arguments: Value,
    pieces: Vec<String>,
}

fn split(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let ends: Vec<usize> = (0..=text.len())
        .filter(|&at| text.is_char_boundary(at))
        .collect();
    let mut ends_of_pieces: Vec<usize> =
        cuts.iter().map(|cut| ends[cut.index(ends.len())]).collect();
    ends_of_pieces.sort_unstable();
    let mut start = 0;
    let mut pieces = Vec::new();
    for end in ends_of_pieces.into_iter().chain([text.len()]) {
        pieces.push(text[start..end].to_owned());
        start = end;
    }
    pieces
}

fn written_call() -> impl Strategy<Value = WrittenCall> {
    let value = prop_oneof![
        any::<i32>().prop_map(|number| json!(number)),
        "[a-z{}\\[\\]\"\\\\é日 ]{0,12}".prop_map(|text| json!(text)),
        prop::collection::vec(any::<bool>(), 0..3).prop_map(|list| json!({"list": list})),
    ];
    let arguments = prop::collection::btree_map("[a-z]{1,6}", value, 0..4);
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..6);
    ("[a-z]{2,5}_[A-Z]{2,5}", arguments, cuts).prop_map(|(name, arguments, cuts)| {
        let arguments = json!(arguments);
        let pieces = split(&arguments.to_string(), &cuts);
        WrittenCall {
            name,
            arguments,
            pieces,
        }
    })
}

/// The forms in which servers write the pieces of a stream.
#[derive(Debug, Clone, Copy)]
struct Style {
    /// All calls have index 0.
    one_index: bool,
    /// The id is in each piece.
    repeats_id: bool,
    /// Each piece has an id of its own.
    changes_id: bool,
    /// The name of a call arrives in two pieces.
    splits_name: bool,
    /// Later pieces have the next index.
    moves_index: bool,
}

fn chat_events(calls: &[WrittenCall], style: Style) -> Vec<Value> {
    let mut events = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let index = if style.one_index {
            0
        } else {
            10 * number as u64
        };
        let id = format!("call_{number}");
        let (first, rest) = call.name.split_at(if style.splits_name {
            2
        } else {
            call.name.len()
        });
        events.push(chunk(json!([piece(index, &id, first, "")])));
        let later_id = if style.repeats_id { id.as_str() } else { "" };
        if !rest.is_empty() {
            events.push(chunk(json!([piece(index, later_id, rest, "")])));
        }
        for (at, text) in call.pieces.iter().enumerate() {
            let moved = if style.moves_index && !style.one_index {
                1 + at as u64 % 8
            } else {
                0
            };
            let other_id = format!("{id}_{at}");
            let piece_id = if style.changes_id {
                &other_id
            } else {
                later_id
            };
            events.push(chunk(json!([piece(index + moved, piece_id, "", text)])));
        }
    }
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    events
}

fn anthropic_events(calls: &[WrittenCall], style: Style) -> Vec<Value> {
    let mut events = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let index = if style.one_index {
            0
        } else {
            10 * number as u64
        };
        events.push(block(
            index,
            &format!("call_{number}"),
            &call.name,
            json!({}),
        ));
        for (at, text) in call.pieces.iter().enumerate() {
            let moved = if style.moves_index {
                1 + at as u64 % 8
            } else {
                0
            };
            events.push(input(index + moved, text));
        }
        events.push(stop(index));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events
}

fn responses_events(calls: &[WrittenCall], style: Style) -> Vec<Value> {
    let mut events = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        let index = if style.one_index {
            0
        } else {
            10 * number as u64
        };
        let item = |arguments: &str| {
            json!({"type": "function_call", "id": format!("fc_{number}"),
                "call_id": format!("call_{number}"), "name": call.name, "arguments": arguments})
        };
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": item("")}),
        );
        for (at, text) in call.pieces.iter().enumerate() {
            let moved = if style.moves_index {
                1 + at as u64 % 8
            } else {
                0
            };
            let mut event = json!({"type": "response.function_call_arguments.delta",
                "output_index": index + moved, "delta": text});
            if style.repeats_id {
                event["item_id"] = json!(format!("fc_{number}"));
            }
            events.push(event);
        }
        if !style.splits_name {
            let item = item(&call.arguments.to_string());
            events.push(
                json!({"type": "response.output_item.done", "output_index": index, "item": item}),
            );
        }
    }
    events.push(json!({"type": "response.completed", "response": {"status": "completed"}}));
    events
}

fn gemini_events(calls: &[WrittenCall]) -> Vec<Value> {
    let event =
        |call: Value| json!({"candidates": [{"content": {"parts": [{"functionCall": call}]}}]});
    let mut events = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        events.push(event(
            json!({"id": format!("call_{number}"), "name": call.name}),
        ));
        events.extend(call.pieces.iter().map(|text| event(json!({"args": text}))));
    }
    events
}

fn ollama_events(calls: &[WrittenCall]) -> Vec<Value> {
    let event = |call: Value| json!({"message": {"tool_calls": [call]}, "done": false});
    let mut events = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        events.push(event(
            json!({"id": format!("call_{number}"), "function": {"name": call.name}}),
        ));
        let pieces = call.pieces.iter();
        events.extend(pieces.map(|text| event(json!({"function": {"arguments": text}}))));
    }
    events
}

proptest! {
    #[test]
    fn cuts_of_a_stream_do_not_change_its_calls(
        calls in prop::collection::vec(written_call(), 0..4),
        style in any::<[bool; 5]>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        json_lines in any::<bool>(),
    ) {
        let [one_index, repeats_id, changes_id, splits_name, moves_index] = style;
        let style = Style {
            one_index,
            repeats_id,
            // A new id and a new name start a call.
            changes_id: changes_id && !repeats_id && !splits_name && !moves_index,
            splits_name,
            moves_index,
        };
        let streams = [
            (Provider::OpenAiChat, chat_events(&calls, style)),
            (Provider::Anthropic, anthropic_events(&calls, style)),
            (Provider::OpenAiResponses, responses_events(&calls, style)),
            (Provider::Gemini, gemini_events(&calls)),
            (Provider::Ollama, ollama_events(&calls)),
        ];
        for (provider, events) in streams {
            let text = if json_lines {
                events.iter().map(|event| format!("{event}\n")).collect()
            } else {
                server_sent(&events, "data: [DONE]\n\n")
            };
            let mut ends_of_pieces: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            ends_of_pieces.sort_unstable();
            let assembled = assemble(provider, text.as_bytes(), &ends_of_pieces).expect("a complete stream");
            let actual: Vec<_> = assembled
                .iter()
                .map(|call| (call.id.clone(), call.name.clone(), arguments(call)))
                .collect();
            let expected: Vec<_> = calls
                .iter()
                .enumerate()
                .map(|(number, call)| {
                    (Some(format!("call_{number}")), call.name.clone(), call.arguments.clone())
                })
                .collect();
            prop_assert_eq!(actual, expected, "{}: {}", provider, text);
        }
    }
}
