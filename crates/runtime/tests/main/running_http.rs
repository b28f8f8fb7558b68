//! Tests of HTTP operations, run against a test server.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use picktools::{Access, Catalog, CatalogOptions};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{
    ErrorType, HttpClient, HttpOptions, HttpTool, RunnableTool, ToolManager, ToolResult,
};
use serde_json::{Value, json};

/// A request to the test server: its head and body.
#[derive(Clone, Debug)]
struct RecordedRequest {
    head: String,
    body: String,
}

impl RecordedRequest {
    fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    fn has(&self, header: &str) -> bool {
        self.head
            .lines()
            .any(|line| line.eq_ignore_ascii_case(header))
    }
}

/// A server that answers each request with a function, and records the requests.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Server {
    fn new(answer: impl Fn(&RecordedRequest, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), Arc::clone(&asked));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || {
                    if let Some(asked) = read(&stream) {
                        log.lock().expect("nobody panicked").push(asked.clone());
                        answer(&asked, &mut stream);
                    }
                });
            }
        });
        Self { port, asked }
    }

    /// Answers every request with a head and a body.
    fn saying(head: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self::new(move |_, stream| {
            let length = body.len();
            let head =
                format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _gone = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&body));
        })
    }

    fn ok() -> Self {
        Self::saying(
            "200 OK\r\ncontent-type: application/json",
            "{\"done\": true}",
        )
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn asked(&self) -> Vec<RecordedRequest> {
        self.asked.lock().expect("nobody panicked").clone()
    }

    fn last(&self) -> RecordedRequest {
        self.asked().pop().expect("it was asked")
    }
}

fn read(stream: &TcpStream) -> Option<RecordedRequest> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(RecordedRequest {
        head,
        body: String::from_utf8(body).ok()?,
    })
}

/// Returns a document with one operation, `op`.
fn document(server: &str, path: &str, method: &str, operation: Value) -> Value {
    let mut operation = operation;
    operation["operationId"] = "op".into();
    json!({"openapi": "3.0.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": server}],
        "paths": {path: {method: operation}}, "components": {"securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"},
            "key": {"type": "apiKey", "in": "query", "name": "api_key"},
            "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "session"},
            "host": {"type": "apiKey", "in": "header", "name": "Host"}}}})
}

fn here() -> HttpOptions {
    HttpOptions {
        allow_private: true,
        ..HttpOptions::default()
    }
}

fn with_variables(variables: &'static [(&'static str, &'static str)]) -> HttpOptions {
    let variable = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    HttpOptions {
        variable: Box::new(variable),
        ..here()
    }
}

fn catalog(document: &Value) -> Catalog {
    let options = CatalogOptions {
        readers: picktools_import::readers(),
        default_source: Some("shop".to_owned()),
        ..CatalogOptions::default()
    };
    options
        .read(document.to_string().as_bytes(), "api.json")
        .expect("it is a catalog")
}

fn manager(catalog: Catalog, options: HttpOptions, limit: Duration) -> ToolManager {
    let client = Arc::new(HttpClient::new(options));
    let tools: Vec<_> = catalog.tools().expect("readable").to_vec();
    let runner = |tool: &Arc<picktools::Tool>| {
        let runner =
            HttpTool::new(tool.as_ref().clone(), Arc::clone(&client)).expect("it is an operation");
        (tool.id.clone(), Arc::new(runner) as Arc<dyn RunnableTool>)
    };
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    let builder = ToolManager::builder(access).time_limit(limit);
    builder
        .catalog(catalog, tools.iter().map(runner).collect::<Vec<_>>())
        .build()
        .expect("it is valid")
}

async fn run(manager: &ToolManager, arguments: Value) -> ToolResult {
    let call = ToolCall {
        id: None,
        name: "op".to_owned(),
        arguments: Arguments::Json(arguments),
    };
    manager.clear_current_turn();
    manager.execute(&call).await.result.as_ref().clone()
}

/// Runs the operation of a document once.
async fn once(document: &Value, options: HttpOptions, arguments: Value) -> ToolResult {
    run(
        &manager(catalog(document), options, Duration::from_secs(20)),
        arguments,
    )
    .await
}

fn kind(result: &ToolResult) -> Option<ErrorType> {
    result.failure.as_ref().map(|failure| failure.error_type)
}

fn parameter(place: &str, name: &str, more: Value) -> Value {
    let mut parameter =
        json!({"in": place, "name": name, "required": place == "path", "schema": {}});
    parameter
        .as_object_mut()
        .expect("it is one")
        .extend(more.as_object().expect("it is one").clone());
    parameter
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_go_to_the_locations_in_the_document() {
    let server = Server::ok();
    let parameters = json!([
        parameter("path", "id", json!({})),
        parameter("query", "tags", json!({})),
        parameter("query", "flat", json!({"explode": false})),
        parameter("query", "piped", json!({"style": "pipeDelimited"})),
        parameter("query", "filter", json!({"style": "deepObject"})),
        parameter("header", "X-Trace", json!({})),
        parameter("cookie", "theme", json!({})),
    ]);
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}}});
    let body = json!({"content": {"application/json": {"schema": schema}}});
    let operation = json!({"parameters": parameters, "requestBody": body});
    let document = document(
        &format!("{}/v1/", server.url()),
        "/books/{id}/copies",
        "post",
        operation,
    );
    let arguments = json!({"id": "a b/ü", "tags": ["x&y", 2], "flat": ["p", "q"], "piped": ["r", "s"],
        "filter": {"min": 1}, "X-Trace": "t-1", "theme": "dark; a=b", "title": "T", "pages": 3});
    let result = once(&document, here(), arguments).await;
    assert_eq!(
        json!(result),
        json!({"success": true, "error": "", "status": 200, "content_type": "application/json",
        "body": {"done": true}})
    );
    let asked = server.last();
    assert_eq!(
        asked.line(),
        "POST /v1/books/a%20b%2F%C3%BC/copies?tags=x%26y&tags=2&flat=p,q&piped=r%7Cs&filter%5Bmin%5D=1 HTTP/1.1"
    );
    assert!(
        asked.has("x-trace: t-1") && asked.has("cookie: theme=dark%3B%20a%3Db"),
        "{asked:?}"
    );
    assert!(asked.has("content-type: application/json"), "{asked:?}");
    assert_eq!(
        serde_json::from_str::<Value>(&asked.body).expect("it is JSON"),
        json!({"title": "T", "pages": 3})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_swagger_2_use_its_collection_formats() {
    let server = Server::ok();
    let list = |name: &str, format: Value| {
        let mut list =
            json!({"in": "query", "name": name, "type": "array", "items": {"type": "string"}});
        if !format.is_null() {
            list["collectionFormat"] = format;
        }
        list
    };
    let parameters = [
        list("a", Value::Null),
        list("b", json!("multi")),
        list("c", json!("ssv")),
        list("d", json!("tsv")),
    ];
    let document = json!({"swagger": "2.0", "info": {"title": "t", "version": "1"}, "schemes": ["http"],
        "host": format!("127.0.0.1:{}", server.port),
        "paths": {"/": {"get": {"operationId": "op", "parameters": parameters}}}});
    let result = once(
        &document,
        here(),
        json!({"a": ["1", "2"], "b": ["1", "2"], "c": ["1", "2"]}),
    )
    .await;
    assert!(result.is_success(), "{result:?}");
    assert_eq!(server.last().line(), "GET /?a=1,2&b=1&b=2&c=1%202 HTTP/1.1");
    let result = once(&document, here(), json!({"d": ["1", "2"]})).await;
    assert!(
        result.error().contains("tabDelimited") && result.error().contains("not supported"),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_parts_of_a_form() {
    let server = Server::ok();
    let schema = json!({"type": "object", "required": ["file"], "properties": {
        "file": {"type": "string", "format": "binary", "description": "The picture"},
        "more[]": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "note": {"type": "string"}, "count": {"type": "integer"}, "tags": {"type": "object"}}});
    let body = json!({"required": true, "content": {"multipart/form-data": {"schema": schema}}});
    let document = document(&server.url(), "/", "post", json!({"requestBody": body}));
    let arguments = json!({"file": "aGVsbG8=", "more": ["YQ==", "Yg=="], "note": "--picktools-boundary-0",
        "count": 2, "tags": {"a": 1}});
    let result = once(&document, here(), arguments).await;
    assert!(result.is_success(), "{result:?}");
    let asked = server.last();
    assert!(
        asked.has("content-type: multipart/form-data; boundary=picktools-boundary-1"),
        "{asked:?}"
    );
    for part in [
        "name=\"file\"; filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\nhello\r\n",
        "name=\"more[]\"; filename=\"more[]\"\r\nContent-Type: application/octet-stream\r\n\r\nb\r\n",
        "name=\"note\"\r\n\r\n--picktools-boundary-0\r\n",
        "name=\"count\"\r\n\r\n2\r\n",
        "name=\"tags\"\r\nContent-Type: application/json\r\n\r\n{\"a\":1}\r\n",
        "\r\n--picktools-boundary-1--\r\n",
    ] {
        assert!(asked.body.contains(part), "{part:?} in {asked:?}");
    }
    let result = once(&document, here(), json!({"file": "not base64!"})).await;
    assert_eq!(kind(&result), Some(ErrorType::Validation), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_and_json_are_sent_as_the_document_says() {
    let server = Server::ok();
    for content in [
        json!({}),
        json!({"schema": {"type": "string", "format": "binary"}}),
    ] {
        let body = json!({"required": true, "content": {"application/octet-stream": content}});
        let document = document(&server.url(), "/", "put", json!({"requestBody": body}));
        let result = once(&document, here(), json!({"body": "aGVsbG8="})).await;
        assert!(result.is_success(), "{result:?}");
        let asked = server.last();
        assert_eq!(asked.body, "hello");
        assert!(
            asked.has("content-type: application/octet-stream"),
            "{asked:?}"
        );
    }
    let filter = json!({"in": "query", "name": "filter", "content": {"application/json": {"schema": {
        "type": "object", "properties": {"min": {"type": "integer"}}}}}});
    let session = json!({"in": "cookie", "name": "s", "content": {"application/json": {"schema": {"type": "array"}}}});
    let operation = json!({"parameters": [filter, session]});
    let document = document(&server.url(), "/", "get", operation);
    let result = once(&document, here(), json!({"filter": {"min": 1}, "s": [1]})).await;
    assert!(result.is_success(), "{result:?}");
    let asked = server.last();
    assert_eq!(asked.line(), "GET /?filter=%7B%22min%22%3A1%7D HTTP/1.1");
    assert!(asked.has("cookie: s=%5B1%5D"), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_and_texts_are_sent_and_other_bodies_are_refused() {
    let server = Server::ok();
    let fields = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {}}}});
    for (media_type, schema, arguments, expected) in [
        (
            "application/x-www-form-urlencoded",
            &fields,
            json!({"a": "1&2", "b": ["x", "y"]}),
            Ok("a=1%262&b=x&b=y"),
        ),
        (
            "text/plain",
            &json!({"type": "string"}),
            json!({"body": "hello"}),
            Ok("hello"),
        ),
        (
            "application/json",
            &json!({"type": "array"}),
            json!({"body": [1, null]}),
            Ok("[1,null]"),
        ),
        (
            "multipart/mixed",
            &fields,
            json!({"a": "1"}),
            Err("multipart/mixed"),
        ),
        (
            "application/xml",
            &fields,
            json!({"a": "1"}),
            Err("application/xml"),
        ),
    ] {
        let body = json!({"content": {media_type: {"schema": schema}}});
        let document = document(&server.url(), "/", "post", json!({"requestBody": body}));
        let before = server.asked().len();
        let result = once(&document, here(), arguments).await;
        match expected {
            Ok(expected) => {
                assert_eq!(
                    (server.last().body.as_str(), result.error()),
                    (expected, ""),
                    "{media_type}"
                );
                assert!(
                    server.last().has(&format!("content-type: {media_type}")),
                    "{media_type}"
                );
            }
            Err(expected) => {
                assert!(
                    result.error().contains(expected) && result.error().contains("not supported"),
                    "{result:?}"
                );
                assert_eq!(server.asked().len(), before);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_cannot_change_the_target_of_a_request() {
    let server = Server::ok();
    let path = json!({"parameters": [parameter("path", "a", json!({})), parameter("path", "b", json!({}))]});
    let document_of_paths = document(&server.url(), "/users/{a}{b}/x", "get", path);
    for (a, b) in [
        ("..", "."),
        (".", "."),
        ("../..", "admin"),
        ("x/..", "y"),
        ("..\\admin", "x"),
        ("", "x"),
        ("a\r\nHost: evil", "x"),
        ("a\0", "x"),
    ] {
        let result = once(&document_of_paths, here(), json!({"a": a, "b": b})).await;
        assert_eq!(
            kind(&result),
            Some(ErrorType::Validation),
            "{a:?} {b:?}: {result:?}"
        );
    }
    assert!(server.asked().is_empty());
    for (value, expected) in [
        ("a?b#c", "/users/a%3Fb%23cz/x"),
        ("%2e%2e", "/users/%252e%252ez/x"),
        ("@evil.example", "/users/%40evil.examplez/x"),
        ("//evil.example", "/users/%2F%2Fevil.examplez/x"),
        ("...", "/users/...z/x"),
    ] {
        let result = once(&document_of_paths, here(), json!({"a": value, "b": "z"})).await;
        assert!(result.is_success(), "{value}: {result:?}");
        assert_eq!(server.last().line(), format!("GET {expected} HTTP/1.1"));
    }
    let query = json!({"parameters": [parameter("query", "q", json!({})), parameter("query", "role", json!({}))],
        "security": [{"key": []}]});
    let document_of_query = document(&server.url(), "/search", "get", query);
    let options = || with_variables(&[("PICKTOOLS_AUTH_SHOP_KEY", "k-123")]);
    once(
        &document_of_query,
        options(),
        json!({"q": "x&api_key=mine#"}),
    )
    .await;
    assert_eq!(
        server.last().line(),
        "GET /search?q=x%26api_key%3Dmine%23&api_key=k-123 HTTP/1.1"
    );
    let before = server.asked().len();
    for key in ["api_key", "role"] {
        let result = once(&document_of_query, options(), json!({"q": {key: "admin"}})).await;
        assert!(
            result.error().contains("another parameter's name"),
            "{result:?}"
        );
    }
    assert_eq!(server.asked().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_cannot_inject_or_override_headers() {
    let server = Server::ok();
    for (name, value, expected) in [
        ("X-Note", "a\r\nX-Admin: 1", ErrorType::Validation),
        ("X-Note", "a\nb", ErrorType::Validation),
        ("X-Note", "ü", ErrorType::Validation),
        ("Host", "evil.example", ErrorType::Security),
        ("Content-Length", "0", ErrorType::Security),
        ("transfer-encoding", "chunked", ErrorType::Security),
        ("Cookie", "session=1", ErrorType::Security),
        ("Proxy-Authorization", "x", ErrorType::Security),
        ("X-Forwarded-For", "127.0.0.1", ErrorType::Security),
        ("X-HTTP-Method-Override", "DELETE", ErrorType::Security),
        ("X Y: Z\r\n", "1", ErrorType::Security),
    ] {
        let operation = json!({"parameters": [parameter("header", name, json!({}))]});
        let document = document(&server.url(), "/", "get", operation);
        let catalog = catalog(&document);
        let argument = catalog.tools().expect("readable")[0]
            .http
            .as_ref()
            .expect("it has")
            .arguments
            .keys()
            .next()
            .expect("one")
            .clone();
        let result = once(&document, here(), json!({ argument: value })).await;
        assert_eq!(kind(&result), Some(expected), "{name}: {result:?}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_from_variables_and_appear_in_no_result() {
    let echo = Server::new(|asked, stream| {
        let body = format!("{{\"error\": {:?}}}", asked.head);
        let head = format!(
            "HTTP/1.1 500 Oops\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let _gone = stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(body.as_bytes()));
    });
    const VARIABLES: &[(&str, &str)] = &[
        ("PICKTOOLS_AUTH_SHOP_BEARER", "tok-secret"),
        ("PICKTOOLS_AUTH_SHOP_BASIC", "ann:pass-secret"),
        ("PICKTOOLS_AUTH_SHOP_KEY", "key&secret"),
        ("PICKTOOLS_AUTH_SHOP_HEADER", "hdr-secret"),
        ("PICKTOOLS_AUTH_SHOP_COOKIE", "cookie-secret"),
        ("PICKTOOLS_AUTH_SHOP_HOST", "evil.example"),
    ];
    for (scheme, sent) in [
        ("bearer", "authorization: Bearer tok-secret"),
        ("basic", "authorization: Basic YW5uOnBhc3Mtc2VjcmV0"),
        ("key", "GET /?api_key=key%26secret HTTP/1.1"),
        ("header", "x-key: hdr-secret"),
        ("cookie", "cookie: session=cookie-secret"),
    ] {
        // The first complete set is used. An empty set is used only if no other set is complete.
        let security = json!([{}, {"missing": []}, {scheme: []}]);
        let document = document(&echo.url(), "/", "get", json!({ "security": security }));
        let result = once(&document, with_variables(VARIABLES), json!({})).await;
        assert!(echo.last().has(sent), "{scheme}: {:?}", echo.last());
        assert_eq!(kind(&result), Some(ErrorType::System));
        let told = json!(result).to_string();
        assert!(
            told.contains("status 500") && told.contains("[redacted]"),
            "{told}"
        );
        assert!(
            !told.contains("secret") && !told.contains("YW5uOnBhc3"),
            "{scheme}: {told}"
        );
    }
    let before = echo.asked().len();
    let secured = |scheme: &str| {
        document(
            &echo.url(),
            "/",
            "get",
            json!({"security": [{ scheme: [] }]}),
        )
    };
    let result = once(&secured("bearer"), here(), json!({})).await;
    assert_eq!(kind(&result), Some(ErrorType::Permission));
    let suggestion = result
        .failure
        .expect("it failed")
        .suggestion
        .unwrap_or_default();
    assert!(
        suggestion.contains("PICKTOOLS_AUTH_SHOP_BEARER"),
        "{suggestion}"
    );
    let result = once(&secured("host"), with_variables(VARIABLES), json!({})).await;
    assert!(
        result.error().contains("unsupported security scheme"),
        "{result:?}"
    );
    assert_eq!(echo.asked().len(), before);
    let named = HttpOptions {
        credentials: BTreeMap::from([("shop/bearer".to_owned(), "MY_TOKEN".to_owned())]),
        ..with_variables(&[("MY_TOKEN", "tok-mine")])
    };
    once(&secured("bearer"), named, json!({})).await;
    assert!(echo.last().has("authorization: Bearer tok-mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_go_encrypted_to_one_host_of_a_trusted_tool() {
    const VARIABLES: &[(&str, &str)] = &[("PICKTOOLS_AUTH_SHOP_BEARER", "tok-secret")];
    let server = Server::ok();
    let security = json!({"security": [{"bearer": []}]});
    let plain = document("http://shop.example", "/", "get", security.clone());
    let result = once(&plain, with_variables(VARIABLES), json!({})).await;
    assert!(result.error().contains("without encryption"), "{result:?}");

    // Another document uses the same source name.
    let honest = catalog(&document(&server.url(), "/", "get", security.clone()));
    let hostile = catalog(&document(
        "https://evil.example",
        "/",
        "get",
        security.clone(),
    ));
    let of = |options: HttpOptions, untrusted: bool| {
        let client = Arc::new(HttpClient::new(options));
        let mut tools = [&honest, &hostile]
            .map(|catalog| catalog.tools().expect("readable")[0].as_ref().clone());
        tools[0].untrusted = untrusted;
        tools[1].name = "other".to_owned();
        tools[1].id = "shop/other".to_owned();
        let builder = ToolManager::builder(Access::default());
        let tools =
            tools.map(|tool| HttpTool::new(tool, Arc::clone(&client)).expect("it is an operation"));
        let [first, second] = tools;
        builder
            .tool(first)
            .tool(second)
            .build()
            .expect("it is valid")
    };
    let result = run(&of(with_variables(VARIABLES), false), json!({})).await;
    assert_eq!(kind(&result), Some(ErrorType::Security));
    assert!(
        result.error().contains("several hosts") && result.error().contains("evil.example"),
        "{result:?}"
    );
    const PINNED: &[(&str, &str)] = &[
        VARIABLES[0],
        ("PICKTOOLS_HOSTS_SHOP", "other.example, 127.0.0.1"),
    ];
    assert!(
        run(&of(with_variables(PINNED), false), json!({}))
            .await
            .is_success()
    );
    const ELSEWHERE: &[(&str, &str)] = &[VARIABLES[0], ("PICKTOOLS_HOSTS_SHOP", "other.example")];
    assert!(
        run(&of(with_variables(ELSEWHERE), false), json!({}))
            .await
            .error()
            .contains("does not list it")
    );
    assert!(
        run(&of(with_variables(VARIABLES), true), json!({}))
            .await
            .error()
            .contains("untrusted source")
    );
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn loopback_and_private_addresses_are_blocked() {
    let server = Server::ok();
    let port = server.port;
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "0x7f000001",
        "2130706433",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "127.0.0.1.",
        "127。0。0。1",
        "0.0.0.0",
    ] {
        let document = document(&format!("http://{host}:{port}"), "/", "get", json!({}));
        let result = once(&document, HttpOptions::default(), json!({})).await;
        assert_eq!(
            kind(&result),
            Some(ErrorType::Security),
            "{host}: {result:?}"
        );
        assert!(
            result.error().contains("not a public address"),
            "{host}: {result:?}"
        );
    }
    for url in [
        "http://169.254.169.254/latest/meta-data",
        "http://100.100.100.200",
        "http://10.0.0.1",
    ] {
        let result = once(
            &document(url, "/", "get", json!({})),
            HttpOptions::default(),
            json!({}),
        )
        .await;
        assert_eq!(
            kind(&result),
            Some(ErrorType::Security),
            "{url}: {result:?}"
        );
    }
    assert!(server.asked().is_empty());
    for host in ["127.0.0.1", "localhost"] {
        let options = HttpOptions {
            private_hosts: [host.to_owned()].into(),
            ..HttpOptions::default()
        };
        let document = document(&format!("http://{host}:{port}"), "/", "get", json!({}));
        assert!(
            once(&document, options, json!({})).await.is_success(),
            "{host}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_or_variable_url_is_refused() {
    for (url, said) in [
        ("https://{tenant}.example", "not fixed"),
        ("https://user:pass@example.org", "user name"),
        ("ftp://example.org", "not an HTTP URL"),
        ("https://exa mple.org", "characters"),
        ("https://example.org/#x", "characters"),
        ("/v1", "names no server"),
        ("", "names no server"),
    ] {
        let result = once(&document(url, "/", "get", json!({})), here(), json!({})).await;
        assert!(result.error().contains(said), "{url}: {result:?}");
    }
    let server = Server::ok();
    let base = format!("{}/base", server.url());
    let options = HttpOptions {
        variable: Box::new(move |name| (name == "PICKTOOLS_SERVER_SHOP").then(|| base.clone())),
        ..here()
    };
    assert!(
        once(&document("/v1", "/x", "get", json!({})), options, json!({}))
            .await
            .is_success()
    );
    assert_eq!(server.last().line(), "GET /base/v1/x HTTP/1.1");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_reported_and_not_followed() {
    let other = Server::ok();
    let location = format!("302 Found\r\nlocation: {}/stolen", other.url());
    let server = Server::saying(Box::leak(location.into_boxed_str()), "");
    let result = once(
        &document(&server.url(), "/", "get", json!({})),
        here(),
        json!({}),
    )
    .await;
    assert_eq!(
        (kind(&result), &result.fields["status"]),
        (Some(ErrorType::System), &json!(302))
    );
    assert!(
        result.error().contains("not followed") && result.error().contains("/stolen"),
        "{result:?}"
    );
    assert!(other.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_map_to_error_types() {
    for (head, body, expected, said) in [
        (
            "404 Not Found",
            "no such book",
            ErrorType::User,
            "status 404 Not Found: no such book",
        ),
        (
            "422 Unprocessable Entity",
            "{\"detail\": \"bad isbn\"}",
            ErrorType::User,
            "bad isbn",
        ),
        (
            "401 Unauthorized",
            "",
            ErrorType::Permission,
            "status 401 Unauthorized",
        ),
        (
            "403 Forbidden",
            "",
            ErrorType::Permission,
            "status 403 Forbidden",
        ),
        (
            "503 Service Unavailable\r\nretry-after: 7",
            "later",
            ErrorType::System,
            "status 503",
        ),
    ] {
        let server = Server::saying(head, body);
        let result = once(
            &document(&server.url(), "/", "get", json!({})),
            here(),
            json!({}),
        )
        .await;
        assert_eq!(kind(&result), Some(expected), "{head}");
        assert!(result.error().contains(said), "{result:?}");
        if head.starts_with("503") {
            assert!(
                result
                    .failure
                    .expect("it failed")
                    .suggestion
                    .is_some_and(|text| text.contains("after 7"))
            );
        }
    }
    let document = document("http://127.0.0.1:1", "/", "get", json!({}));
    let result = once(&document, here(), json!({})).await;
    assert_eq!(kind(&result), Some(ErrorType::System));
    assert!(result.error().contains("did not answer"), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_become_json_text_or_a_description() {
    for (head, body, expected) in [
        (
            "200 OK\r\ncontent-type: application/problem+json; charset=utf-8",
            &b"[1]"[..],
            json!([1]),
        ),
        (
            "200 OK\r\ncontent-type: application/json",
            b"{broken",
            json!("{broken"),
        ),
        (
            "200 OK\r\ncontent-type: text/html",
            b"<p>hi",
            json!("<p>hi"),
        ),
        (
            "200 OK\r\ncontent-type: text/plain",
            b"caf\xe9 au lait",
            json!("caf\u{fffd} au lait"),
        ),
        (
            "200 OK\r\ncontent-type: image/png",
            b"\x89PNG\0\0\xff\xfe",
            json!("[binary data: 8 bytes of image/png]"),
        ),
        // A body with a content encoding is not decompressed.
        (
            "200 OK\r\ncontent-encoding: gzip",
            b"\x1f\x8b\x08\0\0\0",
            json!("[binary data: 6 bytes of unknown type]"),
        ),
        ("204 No Content", b"", Value::Null),
    ] {
        let server = Server::saying(head, body);
        let result = once(
            &document(&server.url(), "/", "get", json!({})),
            here(),
            json!({}),
        )
        .await;
        assert_eq!(
            result.fields.get("body").cloned().unwrap_or_default(),
            expected,
            "{head}"
        );
        assert!(
            !server
                .last()
                .head
                .to_lowercase()
                .contains("accept-encoding"),
            "{:?}",
            server.last()
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_body_is_read_up_to_the_limit() {
    let server = Server::new(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        let mut part = head.to_owned().into_bytes();
        while stream.write_all(&part).is_ok() {
            part = "[0,".repeat(100_000).into_bytes();
        }
    });
    let options = HttpOptions {
        max_body_bytes: 10_000,
        ..here()
    };
    let result = once(
        &document(&server.url(), "/", "get", json!({})),
        options,
        json!({}),
    )
    .await;
    assert_eq!(result.fields["body"].as_str().map(str::len), Some(10_000));
    assert!(
        result.fields["truncated"]
            .as_str()
            .is_some_and(|text| text.contains("10000 bytes")),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_or_missing_response_ends_at_the_time_limit() {
    let slow = |head: &'static str| {
        Server::new(move |_, stream| {
            let mut part = head.as_bytes();
            while stream.write_all(part).is_ok() {
                part = b"x";
                thread::sleep(Duration::from_millis(50));
            }
        })
    };
    for server in [
        Server::new(|_, _| thread::sleep(Duration::from_secs(60))),
        slow("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"),
        slow("HTTP/1.1 200 OK\r\nx-"),
    ] {
        let catalog = catalog(&document(&server.url(), "/", "get", json!({})));
        let manager = manager(catalog, here(), Duration::from_millis(500));
        let started = Instant::now();
        let result = run(&manager, json!({})).await;
        assert_eq!(kind(&result), Some(ErrorType::System));
        assert!(
            result.error().contains("did not end within 500ms"),
            "{result:?}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "{:?}",
            started.elapsed()
        );
    }
}
