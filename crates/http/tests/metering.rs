//! The metrics of a gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools_gateway::{Counters, Gateway, GatewayOptions, Settings};
use picktools_http::{HttpServerOptions, serve};
use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use picktools_mcp::{ConnectOptions, Connection, Handshake, Limits, ToolChanges};
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_calls_searches_lists_and_sessions() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/servers/upstream.py");
    let transport = ServerTransport::Stdio {
        command: "python3".to_owned(),
        arguments: vec![script.display().to_string()],
        variables: BTreeMap::new(),
        folder: None,
        inherit: Vec::new(),
    };
    let counters = Arc::new(Counters::default());
    let gateway = Gateway::open(GatewayOptions {
        servers: vec![Server {
            name: "up".to_owned(),
            transport,
            tools: ToolFilter::default(),
            call_timeout: None,
            scope: None,
        }],
        environment: Arc::new(|name: &str| std::env::var_os(name)),
        meter: counters.clone(),
        list_wait: Duration::from_secs(20),
        ..GatewayOptions::new(Settings::parse(r#"{"mode": "search"}"#).expect("settings"))
    });
    let gateway = gateway.expect("a gateway");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let http_server = serve(
        &gateway,
        &HttpServerOptions {
            listen,
            tls: None,
            plain: false,
            console: None,
        },
    )
    .await
    .expect("it listens");
    let url = format!("http://{}/mcp", http_server.address());
    let server = Server {
        name: "gateway".to_owned(),
        transport: ServerTransport::Http {
            url,
            headers: BTreeMap::new(),
            credentials: None,
        },
        tools: ToolFilter::default(),
        call_timeout: None,
        scope: None,
    };
    let (limits, deadline) = (Limits::default(), Instant::now() + Duration::from_secs(60));
    let options = ConnectOptions {
        environment: &|_| None,
        deadline,
        limits: &limits,
        handshake: Handshake::LegacyFirst,
        cache: None,
    };
    let client = Connection::open(&server, &options, ToolChanges::default()).await;
    let client = client.expect("it is reached");
    client.tools(deadline, &limits).await.expect("a list");
    let call = async |name: &'static str, arguments: Value| {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let request =
            CallToolRequest::new(CallToolRequestParams::new(name).with_arguments(arguments));
        let request = ClientRequest::CallToolRequest(request);
        let sent = client
            .begin(request, PeerRequestOptions::no_options(), |_| {})
            .await
            .expect("it is sent");
        sent.answer().await.expect("an answer")
    };
    call("search_tools", json!({"query": "sum of two numbers"})).await;
    call("up__add", json!({"a": 1, "b": 2})).await;
    call("up__add", json!({"a": 1})).await;
    call("up__dies", json!({})).await;

    let counts = counters.counts();
    let up = &counts.upstreams["up"];
    assert_eq!(
        (
            up.calls,
            up.refused["invalid_arguments"],
            up.refused["upstream_died"]
        ),
        (3, 1, 1)
    );
    assert!(
        up.call_us > 0 && up.starts == 1 && !up.up,
        "the upstream died: {up:?}"
    );
    assert_eq!(
        (
            counts.searches,
            counts.empty_searches,
            counts.lists,
            counts.sessions
        ),
        (1, 0, 1, 1)
    );
    assert!(
        counts.listed_tokens > 100 && counts.whole_tokens > counts.listed_tokens,
        "{counts:?}"
    );
    assert_eq!(counts.open_sessions, 1);
    client.end().await;
    let wait_for_end = async || {
        while counters.counts().open_sessions > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait_for_end())
        .await
        .expect("a disconnected client is not counted");
    gateway.end().await;
}
