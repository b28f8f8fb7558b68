//! Sessions that continue at another gateway.

use std::time::Duration;

use picktools_gateway::{ApprovalScope, CallDecision, CallQueue};
use picktools_state::StateStore;
use reqwest::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateways::{SharedGateway, run_blocking, text_or_code, within};
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

async fn post(one: &SharedGateway, key: &str, session: Option<&str>, message: &Value) -> Response {
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
async fn begin(one: &SharedGateway, key: &str) -> String {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = post(one, key, None, &hello).await;
    assert_eq!(answer.status(), 200);
    let session = answer.headers()["mcp-session-id"]
        .to_str()
        .expect("text")
        .to_owned();
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert!(
        post(one, key, Some(&session), &initialized)
            .await
            .status()
            .is_success()
    );
    session
}

/// Returns the result of a request, or `None` if the session does not exist.
async fn ask(
    one: &SharedGateway,
    key: &str,
    session: &str,
    method: &str,
    params: Value,
) -> Option<Value> {
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

async fn names(one: &SharedGateway, key: &str, session: &str) -> Vec<String> {
    let list = ask(one, key, session, "tools/list", json!({}))
        .await
        .expect("a list");
    let tools = list["tools"].as_array().expect("tools");
    tools
        .iter()
        .filter_map(|tool| Some(tool["name"].as_str()?.to_owned()))
        .collect()
}

async fn call(one: &SharedGateway, session: &str, name: &str) -> Option<Value> {
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
async fn session_continues_at_another_gateway_with_its_list() {
    let server = StoreServer::start(&[]);
    let one = SharedGateway::start(&server.url(), "acme", &settings()).await;
    let other = SharedGateway::start(&server.url(), "acme", &settings()).await;
    let stranger = SharedGateway::start(&server.url(), "other", &settings()).await;
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
        "the list only grows at any gateway"
    );
    assert_eq!(names(&other, "ada", &session).await, at_one);
    assert_eq!(
        ask(&other, "bob", &session, "tools/list", json!({})).await,
        None,
        "the session belongs to another key"
    );
    assert_eq!(
        ask(&stranger, "ada", &session, "tools/list", json!({})).await,
        None,
        "another tenant does not have the session"
    );
    assert!(
        server.keys().iter().all(|key| !key.contains(&session)),
        "session ids are not stored in clear text"
    );
    one.end().await;
    assert_eq!(
        names(&other, "ada", &session).await,
        at_one,
        "the session outlives its first gateway"
    );
    let third = SharedGateway::start(&server.url(), "acme", &settings()).await;
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
async fn session_without_the_store_stays_at_its_gateway() {
    let mut server = StoreServer::start(&[]);
    let one = SharedGateway::start(&server.url(), "acme", &settings()).await;
    let other = SharedGateway::start(&server.url(), "acme", &settings()).await;
    // Without the store, a gateway cannot check the definitions of a server that lists them later.
    for gateway in [&one, &other] {
        within(Duration::from_secs(10), "it is ready", async || {
            gateway.get("/ready").await.0 == 200
        })
        .await;
    }
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
    let (status, ready) = other.get("/ready").await;
    assert_eq!(status, 200);
    assert!(
        ready.starts_with("ready\nstore: ")
            && ready.contains("away (")
            && !ready.contains("127.0.0.1"),
        "{ready}"
    );
    one.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_call_runs_once_at_several_gateways() {
    let server = StoreServer::start(&[]);
    let one = SharedGateway::start(&server.url(), "acme", &settings()).await;
    let other = SharedGateway::start(&server.url(), "acme", &settings()).await;
    let session = begin(&one, "ada").await;
    let delete = async |gateway: &SharedGateway| {
        let params = json!({"name": "up__delete_everything", "arguments": {"name": "orders"}});
        text_or_code(
            &ask(gateway, "ada", &session, "tools/call", params)
                .await
                .expect("an answer"),
        )
    };
    for round in 0..10 {
        assert_eq!(delete(&one).await, "not_confirmed", "{round}");
        assert_eq!(delete(&other).await, "not_confirmed", "{round}");
        let store = StateStore::open(&server.url(), "acme").expect("a store");
        run_blocking(move || {
            let queue = CallQueue::from_store(&store).expect("a queue");
            let waiting = queue.pending().expect("it is read");
            assert_eq!(waiting.len(), 1, "both gateways have the same call");
            queue
                .decide(
                    waiting.keys().next().expect("it is quarantined"),
                    CallDecision::Allow(ApprovalScope::Call),
                )
                .expect("it is decided");
        })
        .await;
        let (at_one, at_other) = tokio::join!(delete(&one), delete(&other));
        let ran = [at_one, at_other]
            .into_iter()
            .filter(|code| code != "not_confirmed")
            .count();
        assert_eq!(ran, 1, "{round}");
        // The second attempt queued the call again; it is refused.
        let store = StateStore::open(&server.url(), "acme").expect("a store");
        run_blocking(move || {
            let queue = CallQueue::from_store(&store).expect("a queue");
            for id in queue.pending().expect("it is read").keys() {
                queue.decide(id, CallDecision::Deny).expect("it is decided");
            }
        })
        .await;
        assert_eq!(delete(&one).await, "not_confirmed", "{round}");
    }
    one.end().await;
    other.end().await;
}
