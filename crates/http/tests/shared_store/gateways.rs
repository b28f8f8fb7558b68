//! Gateways that share a store, and their clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools_gateway::settings::Share;
use picktools_gateway::{CallQueue, Gateway, GatewayOptions, Pins, Settings};
use picktools_http::{HttpServer, HttpServerOptions, serve};
use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use picktools_mcp::{ConnectOptions, Connection, Handshake, Limits, ToolChanges};
use picktools_state::StateStore;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A gateway of a tenant, in front of a test server.
pub(crate) struct SharedGateway {
    pub(crate) gateway: Gateway,
    pub(crate) http_server: HttpServer,
    pub(crate) store: StateStore,
    pub(crate) pins: Pins,
    folder: TempDir,
}

impl SharedGateway {
    pub(crate) async fn start(url: &str, tenant: &str, settings: &Value) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::start_in(folder, url, tenant, settings).await
    }

    pub(crate) async fn start_in(
        folder: TempDir,
        url: &str,
        tenant: &str,
        settings: &Value,
    ) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/servers/upstream.py");
        let changes = folder.path().join("changes").display().to_string();
        let variables = BTreeMap::from([("UPSTREAM_CHANGES".to_owned(), changes)]);
        let command = "python3".to_owned();
        let transport = ServerTransport::Stdio {
            command,
            arguments: vec![script.display().to_string()],
            variables,
            folder: None,
            inherit: Vec::new(),
        };
        let servers = vec![Server {
            name: "up".to_owned(),
            transport,
            tools: ToolFilter::default(),
            call_timeout: None,
            scope: None,
        }];
        Self::with_servers(servers, folder, url, tenant, settings).await
    }

    pub(crate) async fn with_servers(
        servers: Vec<Server>,
        folder: TempDir,
        url: &str,
        tenant: &str,
        settings: &Value,
    ) -> Self {
        let store = StateStore::open(url, tenant)
            .expect("a store")
            .with_memory(folder.path().join("state"));
        let opened_store = store.clone();
        let state = run_blocking(move || GatewayState::open(&opened_store)).await;
        let pins = state.pins.clone();
        let mut settings = settings.clone();
        if settings.get("audit").is_some_and(Value::is_boolean) {
            settings["audit"] = json!({"folder": folder.path().join("audit")});
        }
        settings["mode"] = settings.get("mode").cloned().unwrap_or(json!("search"));
        let gateway = Gateway::open(options(servers, &settings, &store, state));
        let gateway = gateway.expect("a gateway");
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let http_options = HttpServerOptions {
            listen,
            tls: None,
            plain: false,
            console: None,
        };
        let http_server = serve(&gateway, &http_options).await.expect("it listens");
        Self {
            gateway,
            http_server,
            store,
            pins,
            folder,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes the tools of the test server.
    pub(crate) fn change(&self, changes: &Value) {
        let path = self.path("changes");
        std::fs::write(path.with_extension("new"), changes.to_string()).expect("it is written");
        std::fs::rename(path.with_extension("new"), path).expect("it is put in place");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http_server.address())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = reqwest::get(self.url(path)).await.expect("an answer");
        (
            answer.status().as_u16(),
            answer.text().await.expect("a body"),
        )
    }

    pub(crate) async fn client(&self) -> Client {
        let transport = ServerTransport::Http {
            url: self.url("/mcp"),
            headers: BTreeMap::new(),
            credentials: None,
        };
        let server = Server {
            name: "gateway".to_owned(),
            transport,
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
        let connection = Connection::open(&server, &options, ToolChanges::default()).await;
        Client(connection.expect("it is reached"))
    }

    /// Ends the gateway, and returns its folder.
    pub(crate) async fn end(self) -> TempDir {
        drop(self.http_server);
        self.gateway.end().await;
        self.folder
    }
}

/// The approvals and the call queue of a tenant.
pub(crate) struct GatewayState {
    pub(crate) pins: Pins,
    pub(crate) queue: CallQueue,
}

impl GatewayState {
    pub(crate) fn open(store: &StateStore) -> Self {
        Self {
            pins: Pins::from_store(store).expect("approvals"),
            queue: CallQueue::from_store(store).expect("a queue"),
        }
    }
}

/// Returns the options of a gateway.
pub(crate) fn options(
    servers: Vec<Server>,
    settings: &Value,
    store: &StateStore,
    state: GatewayState,
) -> GatewayOptions {
    GatewayOptions {
        servers,
        environment: Arc::new(|name: &str| std::env::var_os(name)),
        pins: Some(state.pins),
        queue: Some(state.queue),
        store: Some(store.clone()),
        share: Share::Owner,
        list_wait: Duration::from_secs(20),
        ..GatewayOptions::new(Settings::parse(&settings.to_string()).expect("settings"))
    }
}

/// A client with a session.
pub(crate) struct Client(Connection);

impl Client {
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Value {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let request = CallToolRequest::new(
            CallToolRequestParams::new(name.to_owned()).with_arguments(arguments),
        );
        let request = ClientRequest::CallToolRequest(request);
        let sent = self
            .0
            .begin(request, PeerRequestOptions::no_options(), |_| {})
            .await
            .expect("it is sent");
        serde_json::to_value(sent.answer().await.expect("an answer")).expect("JSON")
    }

    /// Calls the echo tool, and returns its text or the code of the refusal.
    pub(crate) async fn echo(&self) -> String {
        text_or_code(&self.call("up__echo", json!({"text": "right"})).await)
    }
}

/// Returns the text of a result, or the code of a refusal.
pub(crate) fn text_or_code(result: &Value) -> String {
    let code = result["_meta"]["picktools/error"]["code"]
        .as_str()
        .or(result["_meta"]["picktools/error"].as_str());
    code.or(result["content"][0]["text"].as_str())
        .unwrap_or_else(|| panic!("{result}"))
        .to_owned()
}

/// Waits until a condition holds, and fails after this time.
pub(crate) async fn within(time: Duration, condition: &str, holds: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + time;
    while !holds().await {
        assert!(Instant::now() < deadline, "timeout: {condition}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs blocking work on a separate thread.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}
