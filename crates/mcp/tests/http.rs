//! Servers over HTTP that refuse, redirect and fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use picktools_mcp::{ConnectOptions, Connection, Handshake, HttpFailure, Limits, SilentHandler};
use picktools_testing::server::{RecordedRequest, Reply, TestServer};
use rmcp::ServiceError;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ServerResult};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

fn answer(request: &RecordedRequest, result: &Value) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).to_string();
    let headers = "content-type: application/json\r\nmcp-session-id: one\r\n".to_owned();
    Reply::Raw("200 OK", headers, body)
}

/// Returns the answer to the handshake.
fn initialized(request: &RecordedRequest) -> Reply {
    answer(
        request,
        &json!({
            "protocolVersion": request.body["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"}
        }),
    )
}

/// A server whose tools answer with `call`.
fn mcp_server(
    call: impl Fn(&str, &RecordedRequest) -> Reply + Send + Sync + 'static,
) -> TestServer {
    TestServer::new(move |_, request| match request.body["method"].as_str() {
        Some("initialize") => initialized(request),
        Some("tools/call") => {
            let name = request.body["params"]["name"].as_str().unwrap_or_default();
            call(name, request)
        }
        Some("ping") => answer(request, &json!({})),
        Some(_) if request.body["id"].is_null() => Reply::status("202 Accepted", ""),
        _ => Reply::status("405 Method Not Allowed", ""),
    })
}

async fn open(url: String) -> Result<Connection, String> {
    let transport = ServerTransport::Http {
        url,
        headers: BTreeMap::new(),
        credentials: None,
    };
    let server = Server {
        name: "test".to_owned(),
        transport,
        tools: ToolFilter::default(),
        call_timeout: None,
        scope: None,
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let options = ConnectOptions {
        environment: &|_| None,
        deadline,
        limits: &Limits::default(),
        handshake: Handshake::LegacyFirst,
        cache: None,
    };
    Connection::open(&server, &options, SilentHandler)
        .await
        .map_err(|error| error.to_string())
}

async fn call(connection: &Connection, tool: &'static str) -> Result<ServerResult, ServiceError> {
    let request =
        ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new(tool)));
    let pending = connection
        .begin(request, PeerRequestOptions::no_options(), |_| {})
        .await?;
    pending.answer().await
}

#[tokio::test(flavor = "multi_thread")]
async fn status_of_one_call_is_its_answer_and_other_calls_go_on() {
    let own_errors = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&own_errors);
    let server = mcp_server(move |tool, request| match tool {
        "slow" => {
            std::thread::sleep(Duration::from_secs(2));
            answer(request, &json!({"content": []}))
        }
        "limited" => Reply::Raw(
            "429 Too Many Requests",
            "retry-after: 7\r\n".to_owned(),
            String::new(),
        ),
        "closed" => Reply::status("503 Service Unavailable", ""),
        "broken" => Reply::status("500 Internal Server Error", "<html>stack trace</html>"),
        _ => {
            counted.fetch_add(1, Ordering::Relaxed);
            let error = json!({"code": -32004, "message": "there is no such ticket"});
            let body = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error});
            Reply::Raw(
                "404 Not Found",
                "content-type: application/json\r\n".to_owned(),
                body.to_string(),
            )
        }
    });
    let connection = Arc::new(open(server.url.clone()).await.expect("it is reached"));
    let other = Arc::clone(&connection);
    let slow = tokio::spawn(async move { call(&other, "slow").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let failed = async |tool| match call(&connection, tool).await {
        Err(ServiceError::McpError(error)) => error,
        other => panic!("{tool}: {other:?}"),
    };
    let limited = HttpFailure::of(&failed("limited").await).expect("a status");
    assert_eq!(
        (limited.status, limited.retry_after, limited.is_busy()),
        (429, Some(Duration::from_secs(7)), true)
    );
    assert!(HttpFailure::of(&failed("closed").await).is_some_and(|failure| failure.is_busy()));
    let broken = failed("broken").await;
    assert_eq!(broken.message, "it failed (HTTP 500)");
    assert!(HttpFailure::of(&broken).is_some_and(|failure| !failure.is_busy()));
    let own = failed("missing").await;
    assert_eq!(own.message, "there is no such ticket");
    assert_eq!(
        (HttpFailure::of(&own), own_errors.load(Ordering::Relaxed)),
        (None, 1)
    );
    slow.await.expect("no panic").expect("it is answered");
    assert!(!connection.is_closed());
}

#[tokio::test(flavor = "multi_thread")]
async fn redirect_is_followed_within_the_origin_only() {
    let server = mcp_server(|_, request| answer(request, &json!({"content": []})));
    let moved = server.url.clone();
    let front = TestServer::new(move |_, _| {
        let location = format!("location: {moved}?key=secret\r\n");
        Reply::Raw("307 Temporary Redirect", location, String::new())
    });
    let error = open(front.url.clone()).await.expect_err("another origin");
    assert!(
        error.contains("it redirects to http://127.0.0.1:"),
        "{error}"
    );
    assert!(!error.contains("secret"), "{error}");
    assert!(server.requests().is_empty(), "credentials stay here");

    let within = TestServer::new(|_, request| {
        if request.head.starts_with("post /v1 ") {
            let location = "location: /v1/\r\n".to_owned();
            return Reply::Raw("308 Permanent Redirect", location, String::new());
        }
        match request.body["method"].as_str() {
            Some("initialize") => initialized(request),
            _ => Reply::status("202 Accepted", ""),
        }
    });
    open(within.url.clone()).await.expect("it is followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn reason_of_a_failure_is_in_plain_words() {
    for (status, headers, body, reason) in [
        (
            "401 Unauthorized",
            "",
            "",
            "it wants a login or a key (HTTP 401)",
        ),
        (
            "401 Unauthorized",
            "www-authenticate: Bearer\r\n",
            "",
            "it wants a login or a key (HTTP 401)",
        ),
        ("403 Forbidden", "", "", "it refuses access (HTTP 403)"),
        (
            "404 Not Found",
            "",
            "",
            "there is nothing at its address (HTTP 404)",
        ),
        (
            "405 Method Not Allowed",
            "",
            "",
            "its address accepts no messages (HTTP 405)",
        ),
        ("429 Too Many Requests", "", "", "it is busy (HTTP 429)"),
        ("502 Bad Gateway", "", "", "it failed (HTTP 502)"),
        (
            "400 Bad Request",
            "content-type: text/plain\r\n",
            "no such tenant",
            "it refused the message (HTTP 400): no such tenant",
        ),
        (
            "302 Found",
            "location: https://login.example/?next=a\r\n",
            "",
            "https://login.example/ ",
        ),
        (
            "200 OK",
            "content-type: text/html\r\n",
            "<html>",
            "a web page, perhaps to log in",
        ),
        (
            "200 OK",
            "content-type: application/json\r\n",
            "",
            "it answered with nothing",
        ),
        (
            "200 OK",
            "content-type: application/json\r\n",
            "{\"a\": }",
            "cannot be read",
        ),
    ] {
        let server =
            TestServer::new(move |_, _| Reply::Raw(status, headers.to_owned(), body.to_owned()));
        let error = open(server.url.clone()).await.expect_err(status);
        assert!(error.contains(reason), "{status} {headers}: {error}");
        assert!(
            !error.contains("rmcp") && !error.contains("Error {"),
            "{error}"
        );
    }
    let error = open("http://127.0.0.1:9/mcp".to_owned()).await;
    let error = error.expect_err("nothing listens");
    assert!(error.contains("connection refused"), "{error}");
    let error = open("http://nowhere.invalid/mcp".to_owned()).await;
    let error = error.expect_err("there is no such name");
    assert!(
        error.contains("\"nowhere.invalid\" cannot be found"),
        "{error}"
    );
}

/// Returns an event stream with this text.
fn event_stream(text: &str) -> Reply {
    let headers = "content-type: text/event-stream\r\n".to_owned();
    Reply::Raw("200 OK", headers, text.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_event_fails_its_call_at_once() {
    let server = mcp_server(|tool, request| {
        let id = &request.body["id"];
        match tool {
            "good" => event_stream(&format!(
                "data: still here\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}}}}\n\n"
            )),
            "cut" => event_stream("data: {\"jsonrpc\":\"2.0\",\"result\":{\"cont\n\n"),
            _ => event_stream(&format!("data: {{\"id\":{id},\"result\":{{}}}}\n\n")),
        }
    });
    let connection = open(server.url.clone()).await.expect("it is reached");
    for tool in ["cut", "other"] {
        let answer = tokio::time::timeout(Duration::from_secs(5), call(&connection, tool)).await;
        let Ok(Err(ServiceError::McpError(error))) = answer else {
            panic!("{tool}: {answer:?}")
        };
        assert!(
            error.message.contains("its answer cannot be read"),
            "{error:?}"
        );
    }
    call(&connection, "good").await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_stream_is_not_opened_more_than_once_a_second() {
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&opened);
    let server = TestServer::new(move |_, request| match request.body["method"].as_str() {
        Some("initialize") => initialized(request),
        Some(_) => Reply::status("202 Accepted", ""),
        None if request.head.starts_with("get") => {
            counted.fetch_add(1, Ordering::Relaxed);
            event_stream("retry: 0\nid: 1\ndata:\n\n")
        }
        None => Reply::status("405 Method Not Allowed", ""),
    });
    let connection = open(server.url.clone()).await.expect("it is reached");
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    let opened = opened.load(Ordering::Relaxed);
    assert!((1..=4).contains(&opened), "{opened}");
    connection.end().await;
}
