//! Sessions that go on at another gateway.

use std::time::Duration;

use picktools_gateway::CallQueue;
use picktools_state::Store;
use reqwest::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateways::{One, aside, said, within};
use picktools_testing::store::StoreServer;

fn settings() -> Value {
    let key = |name: &str| {
        let sha256: String = Sha256::digest(name)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        json!({"name": name, "sha256": sha256})
    };
    json!({"mode": "dynamic", "keys": [key("ada"), key("bob")]})
}

async fn post(one: &One, key: &str, session: Option<&str>, message: &Value) -> Response {
    let request = reqwest::Client::new()
        .post(one.url("/mcp"))
        .bearer_auth(key)
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "application/json")
        .body(message.to_string());
    let request = match session {
        Some(session) => request
            .header("Mcp-Session-Id", session)
            .header("MCP-Protocol-Version", "2025-06-18"),
        None => request,
    };
    request.send().await.expect("an answer")
}

/// Begins a session, and returns its id.
async fn begin(one: &One, key: &str) -> String {
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = post(one, key, None, &hello).await;
    assert_eq!(answer.status(), 200);
    let session = answer.headers()["mcp-session-id"]
        .to_str()
        .expect("text")
        .to_owned();
    let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert!(
        post(one, key, Some(&session), &begun)
            .await
            .status()
            .is_success()
    );
    session
}

/// The result of a request; `None` where there is no such session.
async fn ask(one: &One, key: &str, session: &str, method: &str, params: Value) -> Option<Value> {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let answer = post(one, key, Some(session), &message).await;
    if answer.status() == 404 {
        return None;
    }
    let body = answer.text().await.expect("a body");
    let texts = body
        .lines()
        .map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let mut messages = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
    let answer = messages
        .find(|message| message["id"] == 7)
        .unwrap_or_else(|| panic!("{body}"));
    Some(answer["result"].clone())
}

async fn names(one: &One, key: &str, session: &str) -> Vec<String> {
    let list = ask(one, key, session, "tools/list", json!({}))
        .await
        .expect("a list");
    let tools = list["tools"].as_array().expect("tools");
    tools
        .iter()
        .filter_map(|tool| Some(tool["name"].as_str()?.to_owned()))
        .collect()
}

async fn call(one: &One, session: &str, name: &str) -> Option<Value> {
    ask(
        one,
        "ada",
        session,
        "tools/call",
        json!({"name": name, "arguments": {"text": "x", "a": 1, "b": 2}}),
    )
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_at_another_gateway_with_the_list_that_it_had() {
    let server = StoreServer::start(&[]);
    let one = One::start(&server.url(), "acme", &settings()).await;
    let other = One::start(&server.url(), "acme", &settings()).await;
    let stranger = One::start(&server.url(), "other", &settings()).await;
    let session = begin(&one, "ada").await;
    let first = names(&one, "ada", &session).await;
    assert_eq!(first.len(), 3);
    call(&one, &session, "up__echo")
        .await
        .expect("it is called");
    call(&other, &session, "up__add")
        .await
        .expect("it is called at the other");
    let at_one = names(&one, "ada", &session).await;
    assert_eq!(
        at_one[3..],
        ["up__echo", "up__add"],
        "the list only grows, wherever"
    );
    assert_eq!(names(&other, "ada", &session).await, at_one);
    assert_eq!(
        ask(&other, "bob", &session, "tools/list", json!({})).await,
        None,
        "it is another's"
    );
    assert_eq!(
        ask(&stranger, "ada", &session, "tools/list", json!({})).await,
        None,
        "another tenant knows nothing of it"
    );
    assert!(
        server.keys().iter().all(|key| !key.contains(&session)),
        "ids are secret"
    );
    one.end().await;
    assert_eq!(
        names(&other, "ada", &session).await,
        at_one,
        "also when the first has ended"
    );
    let third = One::start(&server.url(), "acme", &settings()).await;
    within(Duration::from_secs(10), "it is up", async || {
        call(&third, &session, "up__echo")
            .await
            .is_some_and(|answer| answer["isError"] != true)
    })
    .await;
    other.end().await;
    third.end().await;
    stranger.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_a_session_stays_where_it_is_and_what_is_not_ours_is_no_session() {
    let mut server = StoreServer::start(&[]);
    let one = One::start(&server.url(), "acme", &settings()).await;
    let other = One::start(&server.url(), "acme", &settings()).await;
    let session = begin(&one, "ada").await;
    let key = server
        .keys()
        .into_iter()
        .find(|key| key.contains(":session:"))
        .expect("a key");
    for command in [&["SET", &key, "x"][..], &["HSET", &key, "guest", "x"]] {
        server.ask(&["DEL", &key]);
        server.ask(command);
        assert_eq!(
            ask(&other, "ada", &session, "tools/list", json!({})).await,
            None,
            "{command:?}"
        );
        assert_eq!(names(&one, "ada", &session).await.len(), 3, "{command:?}");
    }
    server.kill();
    assert_eq!(names(&one, "ada", &session).await.len(), 3);
    assert_eq!(
        ask(&other, "ada", &session, "tools/list", json!({})).await,
        None
    );
    let session = begin(&other, "ada").await;
    assert_eq!(names(&other, "ada", &session).await.len(), 3);
    let (status, told) = other.get("/ready").await;
    assert_eq!(status, 200);
    assert!(
        told.starts_with("ready\nstore: ")
            && told.contains("away (")
            && !told.contains("127.0.0.1"),
        "{told}"
    );
    one.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_allowed_once_runs_once_however_many_gateways_it_comes_to() {
    let server = StoreServer::start(&[]);
    let one = One::start(&server.url(), "acme", &settings()).await;
    let other = One::start(&server.url(), "acme", &settings()).await;
    let session = begin(&one, "ada").await;
    let delete = async |gateway: &One| {
        let params = json!({"name": "up__delete_everything", "arguments": {"name": "orders"}});
        said(
            &ask(gateway, "ada", &session, "tools/call", params)
                .await
                .expect("an answer"),
        )
    };
    for round in 0..10 {
        assert_eq!(delete(&one).await, "not_confirmed", "{round}");
        assert_eq!(delete(&other).await, "not_confirmed", "{round}");
        let store = Store::open(&server.url(), "acme").expect("a store");
        aside(move || {
            let queue = CallQueue::of(&store).expect("a queue");
            let waiting = queue.waiting().expect("it is read");
            assert_eq!(waiting.len(), 1, "it is the same call at both");
            queue
                .decide(waiting.keys().next().expect("it waits"), true)
                .expect("it is decided");
        })
        .await;
        let (at_one, at_other) = tokio::join!(delete(&one), delete(&other));
        let ran = [at_one, at_other]
            .into_iter()
            .filter(|said| said != "not_confirmed")
            .count();
        assert_eq!(ran, 1, "{round}");
        // That the other one asked made it wait anew, which is refused.
        let store = Store::open(&server.url(), "acme").expect("a store");
        aside(move || {
            let queue = CallQueue::of(&store).expect("a queue");
            for id in queue.waiting().expect("it is read").keys() {
                queue.decide(id, false).expect("it is decided");
            }
        })
        .await;
        assert_eq!(delete(&one).await, "not_confirmed", "{round}");
    }
    one.end().await;
    other.end().await;
}
