//! The headers that report what was left out.

use picktools_proxy::ModelApi;
use serde_json::json;

use crate::provider::{Function, ProxyClient, STREAM, definitions, mcp_functions, request, say};

#[tokio::test(flavor = "multi_thread")]
async fn streamed_answer_has_headers_and_unchanged_bytes() {
    let client = ProxyClient::new(&json!({}));
    for api in [ModelApi::Chat, ModelApi::Responses, ModelApi::Messages] {
        let tools = definitions(api, &mcp_functions());
        for text in ["list the invoices", "thanks!"] {
            let body = request(api, &say(text), &tools, &json!({"stream": true}));
            let exchange = client.send(api, &body).await;
            assert_eq!(exchange.answer, STREAM, "{api:?}");
            assert_eq!(exchange.header("content-type"), Some("text/event-stream"));
            let shown = exchange.tools().len();
            assert_eq!(
                exchange.left_out(),
                219 - shown,
                "not what the provider says"
            );
            let counts = format!("{shown}/219");
            assert_eq!(exchange.header("picktools-tools"), Some(&*counts));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn left_out_names_are_plain_ascii_and_bounded() {
    let client = ProxyClient::new(&json!({}));
    let functions = functions_with(&["wörter, and 日本", "50% \"a\""]);
    let api = ModelApi::Chat;
    let tools = definitions(api, &functions);
    let body = request(api, &say("list the invoices"), &tools, &json!({}));
    let exchange = client.send(api, &body).await;
    let names = exchange.header("picktools-left-out-names").expect("names");
    assert!(
        names.starts_with("w%C3%B6rter%2C%20and%20%E6%97%A5%E6%9C%AC, 50%25%20%22a%22, mcp-"),
        "{names}"
    );
    assert!((900..=1_000).contains(&names.len()), "{}", names.len());
    let shown = exchange.tools();
    for name in names.split(", ") {
        assert!(!shown.contains(&name.to_owned()), "{name} is shown");
    }
    assert_eq!(exchange.left_out(), functions.len() - shown.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn tool_with_invalid_name_is_kept_and_others_are_narrowed() {
    let client = ProxyClient::new(&json!({}));
    let bad = ["bad\r\nset-cookie: a=1", "null\0", "zero\u{200b}width"];
    let functions = functions_with(&bad);
    for api in ModelApi::ALL {
        let tools = definitions(api, &functions);
        for (text, most) in [("list the invoices", 15), ("thanks!", 3)] {
            let exchange = client
                .send(api, &request(api, &say(text), &tools, &json!({})))
                .await;
            let shown = exchange.tools();
            assert_eq!(shown.get(..3), Some(&bad.map(str::to_owned)[..]), "{api:?}");
            assert!(shown.len() <= most, "{shown:?}");
            let kept = exchange.header("picktools-kept").expect("a header");
            assert!(kept.starts_with("unranked=3"), "{kept}");
            assert_eq!(exchange.headers.get("set-cookie"), None);
        }
    }
}

/// Returns the tools of servers in plain names, after tools of these names.
fn functions_with(names: &[&str]) -> Vec<Function> {
    let mut functions: Vec<Function> = names
        .iter()
        .map(|name| Function::new(name, "Paints a wall"))
        .collect();
    for function in mcp_functions() {
        let name = function.name.replace("__", "-");
        functions.push(Function { name, ..function });
    }
    functions
}
