//! Gateways that share a store, and a client of each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools_gateway::settings::Share;
use picktools_gateway::{CallQueue, Counters, Gateway, GatewayOptions, Pins, Settings};
use picktools_http::{Http, Serving, serve};
use picktools_import::mcp::{Server, Way};
use picktools_mcp::{Connection, Handshake, Limits, ToolChanges};
use picktools_state::Store;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A gateway of a tenant, before the server whose tools go right and wrong.
pub(crate) struct One {
    pub(crate) gateway: Gateway,
    pub(crate) serving: Serving,
    pub(crate) store: Store,
    pub(crate) pins: Pins,
    folder: TempDir,
}

impl One {
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
        let way = Way::Stdio {
            command,
            arguments: vec![script.display().to_string()],
            variables,
            folder: None,
        };
        let servers = vec![Server {
            name: "up".to_owned(),
            way,
        }];
        Self::before(servers, folder, url, tenant, settings).await
    }

    pub(crate) async fn before(
        servers: Vec<Server>,
        folder: TempDir,
        url: &str,
        tenant: &str,
        settings: &Value,
    ) -> Self {
        let store = Store::open(url, tenant)
            .expect("a store")
            .remembers(folder.path().join("state"));
        let of = store.clone();
        let opened = tokio::task::spawn_blocking(move || (Pins::of(&of), CallQueue::of(&of)))
            .await
            .expect("no panic");
        let (pins, queue) = (opened.0.expect("approvals"), opened.1.expect("a queue"));
        let mut settings = settings.clone();
        if settings.get("audit").is_some_and(Value::is_boolean) {
            settings["audit"] = json!({"folder": folder.path().join("audit")});
        }
        settings["mode"] = settings.get("mode").cloned().unwrap_or(json!("search"));
        let gateway = Gateway::open(options(servers, &settings, &store, (pins.clone(), queue)));
        let gateway = gateway.expect("a gateway");
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let http = Http {
            listen,
            tls: None,
            plain: false,
            console: None,
        };
        let serving = serve(&gateway, &http).await.expect("it listens");
        Self {
            gateway,
            serving,
            store,
            pins,
            folder,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes the tools of its server.
    pub(crate) fn change(&self, changes: &Value) {
        let path = self.path("changes");
        std::fs::write(path.with_extension("new"), changes.to_string()).expect("it is written");
        std::fs::rename(path.with_extension("new"), path).expect("it is put in place");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.serving.address())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = reqwest::get(self.url(path)).await.expect("an answer");
        (
            answer.status().as_u16(),
            answer.text().await.expect("a body"),
        )
    }

    pub(crate) async fn client(&self) -> Client {
        let way = Way::Http {
            url: self.url("/mcp"),
            headers: BTreeMap::new(),
            credentials: None,
        };
        let server = Server {
            name: "gateway".to_owned(),
            way,
        };
        let (limits, deadline) = (Limits::default(), Instant::now() + Duration::from_secs(60));
        let tells = ToolChanges::default();
        let connection = Connection::open(
            &server,
            &|_| None,
            deadline,
            &limits,
            Handshake::KnownFirst,
            tells,
        )
        .await;
        Client(connection.expect("it is reached"))
    }

    /// Ends it, and leaves its folder.
    pub(crate) async fn end(self) -> TempDir {
        drop(self.serving);
        self.gateway.end().await;
        self.folder
    }
}

/// What a gateway is made of.
pub(crate) fn options(
    servers: Vec<Server>,
    settings: &Value,
    store: &Store,
    (pins, queue): (Pins, CallQueue),
) -> GatewayOptions {
    GatewayOptions {
        servers,
        settings: Settings::read(&settings.to_string()).expect("settings"),
        catalog: None,
        environment: Arc::new(|name: &str| std::env::var_os(name)),
        kept: None,
        pins: Some(pins),
        queue: Some(queue),
        store: Some(store.clone()),
        meter: Arc::new(Counters::default()),
        share: Share::Owner,
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
        let begun = self
            .0
            .begin(request, PeerRequestOptions::no_options(), |_| {})
            .await
            .expect("it is sent");
        serde_json::to_value(begun.answer().await.expect("an answer")).expect("JSON")
    }

    /// Calls the tool that gives a text back, and returns that, or the code of the refusal.
    pub(crate) async fn echo(&self) -> String {
        said(&self.call("up__echo", json!({"text": "right"})).await)
    }
}

/// What a result says, or the code of a refusal.
pub(crate) fn said(result: &Value) -> String {
    let code = result["_meta"]["picktools/error"]["code"]
        .as_str()
        .or(result["_meta"]["picktools/error"].as_str());
    code.or(result["content"][0]["text"].as_str())
        .unwrap_or_else(|| panic!("{result}"))
        .to_owned()
}

/// Waits until something is so, for this time at most.
pub(crate) async fn within(time: Duration, what: &str, is_so: impl AsyncFn() -> bool) {
    let until = Instant::now() + time;
    while !is_so().await {
        assert!(Instant::now() < until, "it takes too long until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Does what blocks where nobody is held up by it.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}
