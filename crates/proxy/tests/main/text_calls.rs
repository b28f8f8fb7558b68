//! Calls in the text of answers, complete and as streams of the three APIs.

use picktools_provider::{Answer, CallStream, EventReader, Provider};
use picktools_proxy::ModelApi;
use serde_json::{Value, json};

use crate::provider::{Function, ProxyClient, definitions, request, say};

const CALL: &str =
    "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";

const APIS: [(ModelApi, Provider); 3] = [
    (ModelApi::Chat, Provider::OpenAiChat),
    (ModelApi::Responses, Provider::OpenAiResponses),
    (ModelApi::Messages, Provider::Anthropic),
];

/// Returns a request with one function.
fn asked(api: ModelApi, more: &Value) -> Value {
    let tools = definitions(
        api,
        &[Function::new("weather", "Returns the weather of a city")],
    );
    request(api, &json!([say("What is the weather?")]), &tools, more)
}

fn complete(api: ModelApi, text: &str) -> Value {
    match api {
        ModelApi::Chat => json!({"id": "x", "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": text}}], "usage": {"total_tokens": 9}}),
        ModelApi::Responses => {
            json!({"id": "x", "status": "completed", "output": [{"type": "message",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}]})
        }
        _ => json!({"id": "x", "type": "message", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": text}]}),
    }
}

/// Writes a stream whose text arrives in pieces of a few characters.
fn streamed(api: ModelApi, text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters
        .chunks(3)
        .map(|piece| piece.iter().collect::<String>());
    let mut events = Vec::new();
    match api {
        ModelApi::Chat => {
            let chunk = |delta: Value, finish: Value| {
                json!({"id": "x", "object": "chat.completion.chunk", "model": "m",
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            };
            events.push(chunk(
                json!({"role": "assistant", "content": ""}),
                json!(null),
            ));
            events.extend(pieces.map(|piece| chunk(json!({"content": piece}), json!(null))));
            events.push(chunk(json!({}), json!("stop")));
            events.push(json!({"id": "x", "choices": [], "usage": {"total_tokens": 9}}));
        }
        ModelApi::Responses => {
            let item =
                json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
            let added = json!({"type": "message", "content": []});
            events.push(
                json!({"type": "response.output_item.added", "output_index": 0, "item": added}),
            );
            events.extend(pieces.map(|piece| {
                json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece})
            }));
            events.push(
                json!({"type": "response.output_text.done", "output_index": 0, "text": text}),
            );
            events.push(
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
            );
            let response = complete(api, text);
            events.push(json!({"type": "response.completed", "response": response}));
        }
        _ => {
            events.push(json!({"type": "message_start", "message": {"content": []}}));
            let start = json!({"type": "text", "text": ""});
            events.push(json!({"type": "content_block_start", "index": 0, "content_block": start}));
            events.extend(pieces.map(|piece| {
                json!({"type": "content_block_delta", "index": 0,
                    "delta": {"type": "text_delta", "text": piece}})
            }));
            events.push(json!({"type": "content_block_stop", "index": 0}));
            events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
            events.push(json!({"type": "message_stop"}));
        }
    }
    let mut stream: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    if api == ModelApi::Chat {
        stream.push_str("data: [DONE]\n\n");
    }
    stream
}

fn assemble(provider: Provider, stream: &[u8]) -> Answer {
    let (mut reader, mut assembled) = (EventReader::new(), CallStream::new(provider));
    for event in reader.push(stream).expect("events") {
        assembled.push(&event).expect("an event of the provider");
    }
    assembled.finish_answer().expect("a complete stream")
}

async fn answer(api: ModelApi, provider: Provider, text: &str, stream: bool) -> (Answer, String) {
    let written = if stream {
        streamed(api, text)
    } else {
        complete(api, text).to_string()
    };
    let client = ProxyClient::reading_text(&written);
    let exchange = client
        .send(api, &asked(api, &json!({"stream": stream})))
        .await;
    let body = String::from_utf8(exchange.answer.to_vec()).expect("text");
    let answer = if stream {
        assemble(provider, body.as_bytes())
    } else {
        provider
            .answer(&serde_json::from_str(&body).expect("JSON"))
            .expect("an answer")
    };
    (answer, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_text_become_calls_in_every_api() {
    for (api, provider) in APIS {
        for stream in [false, true] {
            for (text, rest) in [
                (
                    format!("Let me look.\n{CALL}\nThat is all."),
                    Some("Let me look.\n\nThat is all."),
                ),
                (CALL.to_owned(), None),
                (format!("{CALL}\n{CALL}"), None),
                (
                    format!("I use <b>tools</b>: [1]\n{CALL}"),
                    Some("I use <b>tools</b>: [1]"),
                ),
                ("weather\n{\"city\": \"Oslo\"}".to_owned(), None),
                ("Hm.\n[weather(city='Oslo')]".to_owned(), Some("Hm.")),
                (
                    "Hm.<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}]".to_owned(),
                    Some("Hm."),
                ),
                (
                    "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Oslo\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>".to_owned(),
                    Some("Hm."),
                ),
            ] {
                let (answer, body) = answer(api, provider, &text, stream).await;
                let label = format!("{provider}, {stream}: {text}: {body}");
                let count = if text.matches(CALL).count() == 2 {
                    2
                } else {
                    1
                };
                assert_eq!(answer.calls.len(), count, "{label}");
                let mut ids: Vec<&str> = answer
                    .calls
                    .iter()
                    .filter_map(|call| call.id.as_deref())
                    .collect();
                ids.dedup();
                assert_eq!(ids.len(), count, "{label}");
                for call in &answer.calls {
                    assert_eq!(call.name, "weather", "{label}");
                    let arguments = serde_json::to_string(&call.arguments).expect("JSON");
                    assert!(arguments.contains("Oslo"), "{label}");
                }
                let rest_of_answer = answer.text.filter(|text| !text.trim().is_empty());
                assert_eq!(rest_of_answer.as_deref().map(str::trim), rest, "{label}");
                assert!(!body.contains("tool_call>"), "{label}");
                let ends = [
                    "\"finish_reason\":\"tool_calls\"",
                    "\"stop_reason\":\"tool_use\"",
                ];
                assert!(
                    api == ModelApi::Responses || ends.iter().any(|end| body.contains(end)),
                    "{label}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_answers_pass_byte_for_byte() {
    for (api, _) in APIS {
        for text in [
            "It is 5 < 6 and a[0] > {}.".to_owned(),
            CALL.replace("weather", "delete_all"),
            format!("Example:\n```\n{CALL}\n```"),
            "<tool_call>".to_owned(),
            String::new(),
        ] {
            let (body, stream) = (complete(api, &text).to_string(), streamed(api, &text));
            for (written, is_stream) in [(body, false), (stream, true)] {
                let client = ProxyClient::reading_text(&written);
                let exchange = client
                    .send(api, &asked(api, &json!({"stream": is_stream})))
                    .await;
                let answer = String::from_utf8_lossy(&exchange.answer);
                assert_eq!(answer, written, "{api:?}");
            }
        }
    }
    let plain = json!({"choices": [{"message": {"content": CALL}}]}).to_string();
    let client = ProxyClient::reading_text(&plain);
    let without_tools = json!({"messages": [say("Hello")]});
    let exchange = client.send(ModelApi::Chat, &without_tools).await;
    assert_eq!(exchange.answer, plain.as_bytes(), "a request without tools");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_numbers_of_calls_in_text_keep_their_digits() {
    for (api, provider) in APIS {
        for stream in [false, true] {
            for number in ["12345678901234567890123", "0.12345678901234567890123"] {
                for text in [
                    format!(
                        "<tool_call>{{\"name\": \"weather\", \"arguments\": {{\"y\": {number}}}}}</tool_call>"
                    ),
                    format!(
                        "<tool_call>{{\"name\": \"weather\", \"arguments\": \"{{\\\"y\\\": {number}}}\"}}</tool_call>"
                    ),
                    format!("weather\n{{\"y\": {number}}}"),
                    format!("weather\n{{\"x\": \"a\", \"y\": [{number}]}}"),
                    format!("[weather(y={number})]"),
                ] {
                    let (answer, body) = answer(api, provider, &text, stream).await;
                    let label = format!("{provider}, {stream}: {text}: {body}");
                    assert_eq!(answer.calls.len(), 1, "{label}");
                    let arguments = serde_json::to_string(&answer.calls[0].arguments);
                    assert!(arguments.expect("JSON").contains(number), "{label}");
                }
            }
        }
    }
}

/// Adds members with long numbers to an answer or to an event, beside its text.
fn add_long_numbers(document: &mut Value) {
    document["metadata"] = json!({"id": "@LONG", "ratio": ["@DECIMAL"]});
    document["usage"]["total_tokens"] = json!("@LONG");
    if let Some(Value::Array(blocks)) = document.get_mut("content") {
        let input = json!({"id": "@LONG"});
        let block = json!({"type": "server_tool_use", "id": "s", "name": "n", "input": input});
        blocks.insert(0, block);
    }
    if let Some(Value::Array(items)) = document.get_mut("output") {
        let item = json!({"type": "web_search_call", "action": {"id": "@LONG"}});
        items.insert(0, item);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_numbers_beside_calls_in_text_keep_their_digits() {
    let numbers = [
        ("\"@LONG\"", "12345678901234567890123"),
        ("\"@DECIMAL\"", "0.12345678901234567890123"),
    ];
    for (api, provider) in APIS {
        for is_stream in [false, true] {
            let mut written = match is_stream {
                true => {
                    let stream = streamed(api, CALL);
                    let events = stream.split_terminator("\n\n").map(|event| {
                        let data = event.trim_start_matches("data: ");
                        let Ok(mut data) = serde_json::from_str::<Value>(data) else {
                            return format!("{event}\n\n");
                        };
                        add_long_numbers(&mut data);
                        format!("data: {data}\n\n")
                    });
                    events.collect()
                }
                false => {
                    let mut body = complete(api, CALL);
                    add_long_numbers(&mut body);
                    body.to_string()
                }
            };
            for (mark, number) in numbers {
                written = written.replace(mark, number);
            }
            let client = ProxyClient::reading_text(&written);
            let body = asked(api, &json!({"stream": is_stream}));
            let exchange = client.send(api, &body).await;
            let answer = String::from_utf8_lossy(&exchange.answer);
            assert!(!answer.contains("<tool_call>"), "{provider}: {answer}");
            assert!(answer.contains("Oslo"), "{provider}: {answer}");
            for (_, number) in numbers {
                let count = |text: &str| text.matches(number).count();
                assert!(count(&answer) >= count(&written), "{provider}: {answer}");
            }
            for rounded in ["1.2345678901234568e", "0.12345678901234568", "@"] {
                assert!(!answer.contains(rounded), "{provider}: {answer}");
            }
        }
    }
}
