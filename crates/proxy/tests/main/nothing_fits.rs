//! Conversations that no tool fits.

use picktools_proxy::ModelApi;
use serde_json::{Value, json};

use crate::provider::{
    ProxyClient, definitions, host_functions, mcp_functions, names, request, say,
};

/// Returns the messages of a conversation in which the assistant called a tool before the user's
/// last message.
fn talk_with_call(api: ModelApi, name: &str, last: &str) -> Value {
    let (first, last) = (
        json!({"role": "user", "content": "hello"}),
        json!({"role": "user", "content": last}),
    );
    match api {
        ModelApi::Chat => json!([first,
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "done"}, last]),
        ModelApi::Responses => json!([first,
            {"type": "function_call", "call_id": "1", "name": name, "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "done"}, last]),
        ModelApi::Messages | ModelApi::CountTokens => json!([first,
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "1", "name": name, "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1", "content": "done"}]}, last]),
    }
}

fn required(api: ModelApi) -> Value {
    match api {
        ModelApi::Chat | ModelApi::Responses => json!("required"),
        ModelApi::Messages | ModelApi::CountTokens => json!({"type": "any"}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_talk_is_sent_without_tools() {
    let client = ProxyClient::new(&json!({}));
    for api in ModelApi::ALL {
        let tools = json!(definitions(api, &mcp_functions())).to_string();
        let messages = request(api, &say("thanks!"), &[], &json!({}));
        let list = if api == ModelApi::Responses {
            "input"
        } else {
            "messages"
        };
        let messages = &messages[list];
        let rest = format!("\"{list}\" : {messages}, \"seed\":90071992547409931");
        let body = format!(
            "{{\"parallel_tool_calls\": true, \"tools\":{tools},{rest}, \"tool_choice\": \"auto\"}}"
        );
        let exchange = client.send_text(api, &body).await;
        assert_eq!(exchange.sent, format!("{{{rest}}}"), "{api:?}");
        assert_eq!(exchange.header("picktools-tools"), Some("0/219"));
        assert_eq!(exchange.left_out(), 219);
        assert_eq!(
            exchange.header("picktools-removed"),
            Some("tools, tool_choice, parallel_tool_calls")
        );
        assert_eq!(exchange.header("picktools-kept"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_talk_keeps_host_and_always_included_tools() {
    let client = ProxyClient::new(&json!({"always_include": ["mcp__mail__get_email"]}));
    let functions = [host_functions(), mcp_functions()].concat();
    let mut expected = names(&host_functions());
    expected.push("mcp__mail__get_email".to_owned());
    for api in ModelApi::ALL {
        let tools = definitions(api, &functions);
        let body = request(
            api,
            &say("thanks!"),
            &tools,
            &json!({"tool_choice": required(api)}),
        );
        let exchange = client.send(api, &body).await;
        assert_eq!(exchange.tools(), expected, "{api:?}");
        assert_eq!(exchange.body()["tool_choice"], required(api));
        assert_eq!(exchange.header("picktools-removed"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_needs_tools_stays_unchanged() {
    let client = ProxyClient::new(&json!({}));
    for api in ModelApi::ALL {
        let tools = definitions(api, &mcp_functions());
        let image = json!([{"role": "user", "content": [
            {"type": "text", "text": "thanks!"}, {"type": "image", "source": {}}]}]);
        for (reason, messages, more) in [
            (
                "no-tools",
                say("thanks!"),
                json!({"tool_choice": required(api)}),
            ),
            (
                "no-tools",
                talk_with_call(api, "tool_that_is_gone", "thanks!"),
                json!({}),
            ),
            ("conversation", image, json!({})),
        ] {
            let body = request(api, &messages, &tools, &more);
            let exchange = client.send(api, &body).await;
            assert_eq!(
                exchange.header("picktools-unchanged"),
                Some(reason),
                "{api:?} {messages}"
            );
            assert_eq!(exchange.sent, body.to_string());
            assert_eq!(exchange.header("picktools-left-out"), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_talk_after_a_call_keeps_the_called_tool() {
    let client = ProxyClient::new(&json!({}));
    let called = "mcp__mail__get_email";
    for api in ModelApi::ALL {
        let tools = definitions(api, &mcp_functions());
        let talk = talk_with_call(api, called, "thanks!");
        let exchange = client
            .send(api, &request(api, &talk, &tools, &json!({})))
            .await;
        assert_eq!(exchange.tools(), [called], "{api:?}");
        assert_eq!(exchange.header("picktools-kept"), Some("used=1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_request_after_small_talk_extends_the_list() {
    let client = ProxyClient::new(&json!({}));
    let answer = |text: &str| json!({"role": "assistant", "content": text});
    let ask = |text: &str| json!({"role": "user", "content": text});
    let talk = [
        ask("hi"),
        answer("Hello! How can I help you?"),
        ask("list the invoices"),
        answer("There are three."),
        ask("now create a calendar event for the meeting"),
        answer("Done."),
        ask("thank you!"),
    ];
    for api in ModelApi::ALL {
        let tools = definitions(api, &mcp_functions());
        let mut lists: Vec<Vec<String>> = Vec::new();
        for end in [1, 3, 5, 7] {
            let body = request(api, &json!(talk[..end]), &tools, &json!({}));
            lists.push(client.send(api, &body).await.tools());
        }
        assert!(lists[0].is_empty(), "{api:?} {:?}", lists[0]);
        for (list, wanted) in [
            (&lists[1], "mcp__billing__list_invoice"),
            (&lists[2], "mcp__calendar__create_event"),
        ] {
            assert!(
                list.contains(&wanted.to_owned()),
                "{api:?} {wanted}: {list:?}"
            );
        }
        for pair in lists.windows(2) {
            assert!(pair[1].starts_with(&pair[0]), "{api:?} {pair:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn small_talk_in_other_modes_needs_no_tools() {
    let client = ProxyClient::with_modes(&json!({}), "allowed", "defer");
    for api in [ModelApi::Chat, ModelApi::Responses] {
        let tools = definitions(api, &mcp_functions());
        let exchange = client
            .send(api, &request(api, &say("thanks!"), &tools, &json!({})))
            .await;
        assert_eq!(exchange.body()["tools"], json!(tools));
        assert_eq!(exchange.body()["tool_choice"], "none", "{api:?}");
        assert_eq!(exchange.left_out(), 219);
        let more = json!({"tool_choice": "required"});
        let exchange = client
            .send(api, &request(api, &say("thanks!"), &tools, &more))
            .await;
        assert_eq!(exchange.header("picktools-unchanged"), Some("no-tools"));
    }
    // The earlier turns of a stored conversation are unknown.
    let api = ModelApi::Responses;
    let tools = definitions(api, &mcp_functions());
    let more = json!({"previous_response_id": "r1"});
    let exchange = client
        .send(api, &request(api, &say("yes"), &tools, &more))
        .await;
    assert_eq!(exchange.header("picktools-unchanged"), Some("conversation"));
    let api = ModelApi::Messages;
    let tools = definitions(api, &mcp_functions());
    let exchange = client
        .send(api, &request(api, &say("thanks!"), &tools, &json!({})))
        .await;
    let sent = exchange.body()["tools"].as_array().expect("a list").clone();
    assert_eq!((sent.len(), &sent[1]["defer_loading"]), (220, &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn short_or_vague_request_keeps_its_tool() {
    let client = ProxyClient::new(&json!({}));
    let api = ModelApi::Chat;
    let tools = definitions(api, &mcp_functions());
    let talk = |text: &str| {
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"},
            {"role": "user", "content": text}])
    };
    for (text, server) in [
        ("which invoices are there?", "billing"),
        ("weather in Oslo?", "weather"),
        ("when do my plants need water?", "garden"),
        ("is there a route to Bergen?", "maps"),
    ] {
        for messages in [say(text), talk(text)] {
            let exchange = client
                .send(api, &request(api, &messages, &tools, &json!({})))
                .await;
            let shown = exchange.tools();
            assert!(
                shown.iter().any(|name| name.contains(server)),
                "{text}: {shown:?}"
            );
        }
    }
}
