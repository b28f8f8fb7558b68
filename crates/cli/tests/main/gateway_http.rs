//! The gateway over HTTP: keys, sessions, and the isolation of clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::cli::{stderr, stdout};
use crate::gateway::{Place, gateway_program, upstream};

/// A running gateway.
pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) place: Place,
    /// The lines that it prints after its start.
    lines: Mutex<Receiver<String>>,
}

impl Serving {
    pub(crate) fn start(place: Place, more: &[&str]) -> Self {
        Self::listening(place, "127.0.0.1:0", more)
    }

    fn listening(place: Place, address: &str, more: &[&str]) -> Self {
        let mut child = gateway_program()
            .args(["serve", "--listen", address])
            .args(place.arguments())
            .args(more)
            .env("PICKTOOLS_CACHE_DIR", place.path("cache"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                line.split("://")
                    .nth(1)?
                    .trim_end_matches("/mcp")
                    .parse()
                    .ok()
            })
            .expect("it says where it listens");
        let (tell, heard) = channel();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .for_each(|line| drop(tell.send(line)));
        });
        Self {
            child,
            address,
            place,
            lines: Mutex::new(heard),
        }
    }

    /// Returns the rest of the next line that starts with `start`.
    pub(crate) fn said(&self, beginning: &str) -> String {
        loop {
            let line = self
                .lines
                .lock()
                .expect("nothing panicked")
                .recv_timeout(Duration::from_secs(20))
                .expect("it says so");
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
    }

    /// Sends a signal to the gateway.
    pub(crate) fn signal(&self, name: &str) {
        crate::endings::signal(self.child.id(), name);
    }

    /// Returns the process id of the gateway.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the gateway to end.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        crate::gateway::ended(&mut self.child)
    }

    /// Starts a gateway in front of the faulty server, with these settings.
    pub(crate) fn with(settings: &Value) -> Self {
        let place = Place::with(&json!({"up": upstream()}));
        place.write("settings.json", settings);
        Self::start(place, &[])
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Sends raw bytes, and returns status, head and body.
    pub(crate) fn raw(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let (answer, ended) = send(self.address, method, path, headers, body);
        ended.expect("it answers");
        let answer = String::from_utf8(answer).expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status");
        Answer {
            status,
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn post(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        let accept = [
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        self.raw(
            "POST",
            "/mcp",
            &[&accept, headers].concat(),
            &message.to_string(),
        )
    }

    /// Sends a request without a session, and returns its answer.
    pub(crate) fn request(&self, headers: &[(&str, &str)], method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post(headers, &request).message(1)
    }

    /// Starts a session of a protocol revision.
    pub(crate) fn session(&self, version: &str, headers: &[(&str, &str)]) -> Session<'_> {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let hello = self.post(
            headers,
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        );
        assert_eq!(hello.status, 200, "{}", hello.body);
        assert_eq!(hello.message(0)["result"]["protocolVersion"], version);
        let id = hello
            .header("mcp-session-id")
            .expect("a session")
            .to_owned();
        let key = headers
            .iter()
            .find(|(name, _)| *name == "Authorization")
            .map(|(_, value)| (*value).to_owned());
        let session = Session {
            serving: self,
            id,
            version: version.to_owned(),
            key,
        };
        session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }
}

/// Sends raw bytes, and returns the answer and `true` if it is complete.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (Vec<u8>, std::io::Result<usize>) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(40)))
        .expect("a limit");
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    if headers.iter().all(|(name, _)| *name != "Host") {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream
        .write_all(format!("{head}\r\n{body}").as_bytes())
        .expect("it is read");
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer);
    (answer, ended)
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .expect("it can be ended");
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| {
                line.split_once(": ")
                    .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            })
            .map(|it| it.1)
    }

    /// Returns the message with this id from an event stream or a JSON body.
    fn message(&self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let texts = self
            .body
            .lines()
            .map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let mut messages = texts.filter_map(|text| serde_json::from_str::<Value>(text).ok());
        messages
            .find(|message| message["id"] == id)
            .unwrap_or_else(|| panic!("{id}: {}", self.body))
    }
}

pub(crate) struct Session<'a> {
    serving: &'a Serving,
    pub(crate) id: String,
    version: String,
    key: Option<String>,
}

impl Session<'_> {
    fn post(&self, message: &Value) -> Answer {
        let mut headers = vec![
            ("Mcp-Session-Id", self.id.as_str()),
            ("MCP-Protocol-Version", self.version.as_str()),
        ];
        headers.extend(self.key.as_deref().map(|key| ("Authorization", key)));
        self.serving.post(&headers, message)
    }

    pub(crate) fn ask(&self, method: &str, params: &Value) -> Value {
        self.post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
            .message(1)
    }

    fn call(&self, name: &str, arguments: &Value) -> String {
        let answer = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }
}

pub(crate) fn digest(key: &str) -> String {
    Sha256::digest(key)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn ipv6_address_is_an_allowed_host_and_health_allows_every_host() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let place = Place::with(&json!({"up": upstream()}));
    let serving = Serving::listening(place, "[::1]:0", &[]);
    let port = serving.address.port();
    for host in [
        format!("[::1]:{port}"),
        format!("localhost:{port}"),
        "[::1]".to_owned(),
    ] {
        let host = [("Host", host.as_str())];
        assert_eq!(
            serving.raw("GET", "/v1/tools", &host, "").status,
            200,
            "{host:?}"
        );
        assert_ne!(
            serving.raw("GET", "/console", &host, "").status,
            403,
            "{host:?}"
        );
    }
    for host in ["evil.example", "[::1].evil.example", "[::2]", "::1"] {
        let host = [("Host", host)];
        assert_eq!(
            serving.raw("GET", "/v1/tools", &host, "").status,
            403,
            "{host:?}"
        );
        assert_eq!(
            serving.raw("GET", "/health", &host, "").status,
            200,
            "{host:?}"
        );
    }
}

#[test]
fn foreign_origins_and_hosts_are_refused() {
    let serving = Serving::with(&json!({}));
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    for header in [
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1:1"),
        ("Origin", "https://localhost"),
        ("Host", "evil.example"),
        ("Host", "127.0.0.1.evil.example"),
    ] {
        assert_eq!(serving.post(&[header], &hello).status, 403, "{header:?}");
    }
    let own = format!("http://{}", serving.address);
    assert_ne!(serving.post(&[("Origin", &own)], &hello).status, 403);
    assert_eq!(serving.raw("GET", "/health", &[], "").status, 200);
    assert_eq!(serving.raw("GET", "/other", &[], "").status, 404);
}

#[test]
fn allowed_page_may_read_responses() {
    let serving = Serving::with(&json!({
        "http": {"origins": ["https://app.example"]},
        "keys": [{"name": "page", "sha256": digest("the key of a page")}],
    }));
    let preflight = |origin| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            (
                "Access-Control-Request-Headers",
                "authorization,mcp-session-id",
            ),
        ];
        serving.raw("OPTIONS", "/mcp", &headers, "")
    };
    let allowed = preflight("https://app.example");
    assert_eq!(allowed.status, 200, "it needs no key: {}", allowed.head);
    let header = |name| allowed.header(name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(header("access-control-allow-origin"), "https://app.example");
    assert!(header("access-control-allow-methods").contains("POST"));
    assert_eq!(
        header("access-control-allow-headers"),
        "authorization,mcp-session-id"
    );
    let foreign = preflight("https://evil.example");
    assert_eq!(foreign.header("access-control-allow-origin"), None);
    let ping = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let refused = serving.post(&[("Origin", "https://app.example")], &ping);
    assert_eq!(refused.status, 401);
    assert_eq!(
        refused.header("access-control-allow-origin"),
        Some("https://app.example"),
        "a page can read errors, too"
    );
    assert!(
        refused
            .header("access-control-expose-headers")
            .is_some_and(|exposed| exposed.contains("mcp-session-id"))
    );
}

#[test]
fn usual_spellings_of_path_and_accept_work() {
    let serving = Serving::with(&json!({}));
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"}}})
    .to_string();
    let json = ("Content-Type", "application/json");
    let both = ("Accept", "application/json, text/event-stream");
    for (path, headers) in [
        ("/mcp/", vec![json, both]),
        ("/mcp", vec![json, ("Accept", "*/*")]),
        ("/mcp", vec![json, ("Accept", "application/*, text/*")]),
        ("/mcp", vec![json]),
    ] {
        let answer = serving.raw("POST", path, &headers, &hello);
        assert_eq!(answer.status, 200, "{path} {headers:?}: {}", answer.body);
        assert_eq!(
            answer.message(0)["result"]["serverInfo"]["name"],
            "picktools"
        );
    }
    let only_text = [json, ("Accept", "text/plain")];
    assert_eq!(serving.raw("POST", "/mcp", &only_text, &hello).status, 406);
    // A client that accepts JSON alone gets no event stream.
    let answer = serving.raw(
        "POST",
        "/mcp",
        &[json, ("Accept", "application/json")],
        &hello,
    );
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.message(0)["result"]["serverInfo"]["name"],
        "picktools"
    );
    assert!(!answer.body.contains("data:"), "{}", answer.body);
}

#[test]
fn root_leads_to_the_console() {
    let serving = Serving::with(&json!({}));
    let answer = serving.raw("GET", "/", &[], "");
    assert_eq!(answer.status, 307);
    assert_eq!(answer.header("location"), Some("/console"));
}

#[test]
fn options_of_a_server_come_from_variables() {
    let refused = |variable: &str, value: &str| {
        let output = crate::cli::picktools(&["serve", "--catalog", "no-such-file"])
            .env(variable, value)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        crate::cli::stderr(&output)
    };
    assert!(refused("PICKTOOLS_LISTEN", ":80").contains("the host is missing"));
    assert!(
        refused("PICKTOOLS_MODE", "").contains("no-such-file"),
        "empty is unset"
    );
    assert!(refused("PICKTOOLS_MODE", "all").contains("pass-through"));
    assert!(refused("PICKTOOLS_SETTINGS", "/no/such/settings.json").contains("settings.json"));
    assert!(refused("PICKTOOLS_NEW_KEY", "x").contains("no-such-file"));
}

#[test]
fn unreadable_messages_are_answered() {
    let serving = Serving::with(&json!({}));
    let headers = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    for (message, status, id, code) in [
        ("{oops", 400, Value::Null, -32700),
        ("", 400, Value::Null, -32700),
        ("[]", 400, Value::Null, -32600),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"tools/call"}"#,
            200,
            json!(5),
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            400,
            Value::Null,
            -32600,
        ),
    ] {
        let answer = serving.raw("POST", "/mcp", &headers, message);
        assert_eq!(answer.status, status, "{message}: {}", answer.body);
        let error = answer.message(id.clone());
        assert_eq!(error["error"]["code"], code, "{message}: {error}");
    }
}

#[test]
fn key_opens_only_its_own_sessions() {
    let keys = json!([
        {"name": "one", "sha256": digest("first")},
        {"name": "two", "sha256": digest("second"), "role": "reader"},
        {"name": "old", "sha256": digest("third"), "expires": 1},
    ]);
    let roles = json!({"reader": {"unsafe": "deny", "deny": ["up/e*"]}});
    let serving = Serving::with(&json!({"mode": "search", "keys": keys, "roles": roles}));
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    for headers in [
        vec![],
        vec![("Authorization", "Bearer wrong")],
        vec![("Authorization", "Bearer ")],
        vec![("Authorization", "Basic first")],
        vec![("Authorization", "Bearer third")],
        vec![
            ("Authorization", "Bearer first"),
            ("Authorization", "Bearer second"),
        ],
        vec![("X-Api-Key", "first")],
    ] {
        let refused = serving.post(&headers, &hello);
        assert_eq!(refused.status, 401, "{headers:?}");
        assert_eq!(refused.header("WWW-Authenticate"), Some("Bearer"));
    }
    assert_eq!(serving.raw("POST", "/mcp?key=first", &[], "{}").status, 401);

    let one = serving.session("2025-11-25", &[("Authorization", "Bearer first")]);
    let two = serving.session("2025-11-25", &[("Authorization", "Bearer second")]);
    assert_eq!(one.call("up__echo", &json!({"text": "mine"})), "mine");
    let refused = two.ask(
        "tools/call",
        &json!({"name": "up__echo", "arguments": {"text": "x"}}),
    );
    assert_eq!(
        refused["error"]["code"], -32602,
        "its role has no such tool: {refused}"
    );
    assert_eq!(two.call("up__count", &json!({})), "1");
    for (method, body) in [
        ("POST", hello.to_string()),
        ("GET", String::new()),
        ("DELETE", String::new()),
    ] {
        let headers = [
            ("Authorization", "Bearer second"),
            ("Mcp-Session-Id", one.id.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("Last-Event-ID", "0"),
        ];
        assert_eq!(
            serving.raw(method, "/mcp", &headers, &body).status,
            404,
            "{method}: as if it did not exist"
        );
    }
    assert_eq!(
        one.call("up__echo", &json!({"text": "still mine"})),
        "still mine"
    );
}

#[test]
fn clients_are_isolated_from_each_other() {
    let serving = Serving::with(&json!({}));
    let (one, two) = (
        serving.session("2025-11-25", &[]),
        serving.session("2025-11-25", &[]),
    );
    for count in 1..=3 {
        assert_eq!(one.call("up__count", &json!({})), count.to_string());
        assert_eq!(two.call("up__count", &json!({})), count.to_string());
    }
    let shared = Serving::with(&json!({"upstreams": {"*": {"share": "all"}}}));
    let (one, two) = (
        shared.session("2025-11-25", &[]),
        shared.session("2025-11-25", &[]),
    );
    assert_eq!(
        (
            one.call("up__count", &json!({})),
            two.call("up__count", &json!({}))
        ),
        ("1".to_owned(), "2".to_owned())
    );

    std::thread::scope(|scope| {
        for user in 0..8 {
            let serving = &serving;
            scope.spawn(move || {
                let session = serving.session("2025-11-25", &[]);
                for round in 0..20 {
                    let text = format!("{user} in {round}");
                    assert_eq!(session.call("up__echo", &json!({"text": text})), text);
                }
            });
        }
    });
}

#[test]
fn every_protocol_revision_works() {
    let serving = Serving::with(&json!({}));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = serving.session(version, &[]);
        assert_eq!(session.call("up__echo", &json!({"text": version})), version);
    }
    let ask = |id: u64, method: &str, name: Option<&str>, mut params: Value| {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut headers = vec![
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        serving.post(&headers, &message).message(id)
    };
    let found = ask(1, "server/discover", None, json!({}));
    assert!(
        found["result"]["supportedVersions"]
            .to_string()
            .contains("2026-07-28"),
        "{found}"
    );
    let listed = ask(2, "tools/list", None, json!({}));
    assert_eq!(
        listed["result"]["tools"].as_array().map(Vec::len),
        Some(25),
        "{listed}"
    );
    for count in 1..=2 {
        let counted = ask(
            3,
            "tools/call",
            Some("up__count"),
            json!({"name": "up__count", "arguments": {}}),
        );
        assert_eq!(
            counted["result"]["content"][0]["text"],
            count.to_string(),
            "the key's own connection: {counted}"
        );
    }
}

/// Sends a request of the revision 2026-07-28, which has no session, and returns the answer.
fn later(serving: &Serving, key: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    let name = params["name"].as_str().expect("a name").to_owned();
    let key = format!("Bearer {key}");
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", &name),
        ("Authorization", &key),
    ];
    serving.request(&headers, "tools/call", &params)
}

#[test]
fn confirmation_is_valid_once_for_call_and_caller() {
    let keys = json!([{"name": "one", "sha256": digest("first")}, {"name": "two", "sha256": digest("second")}]);
    let serving = Serving::with(&json!({"keys": keys}));
    let call = |arguments: Value| json!({"name": "up__delete_everything", "arguments": arguments});
    let orders = || call(json!({"name": "orders"}));
    let asked = |key: &str| {
        let answer = later(&serving, key, &orders());
        let request = &answer["result"]["inputRequests"]["run"];
        assert!(
            request["params"]["message"]
                .as_str()
                .is_some_and(|text| text.contains("orders")),
            "{answer}"
        );
        answer["result"]["requestState"]
            .as_str()
            .expect("a state")
            .to_owned()
    };
    let yes = json!({"run": {"action": "accept", "content": {"run": true}}});
    let again = |mut call: Value, state: &str, answers: &Value| {
        call["requestState"] = json!(state);
        call["inputResponses"] = answers.clone();
        call
    };
    let is_refused = |answer: &Value| {
        let code = &answer["result"]["_meta"]["picktools/error"]["code"];
        assert_eq!(code, "not_confirmed", "{answer}");
    };
    for answers in [
        json!({"run": {"action": "decline"}}),
        json!({"run": {"action": "accept", "content": {"run": "true"}}}),
        json!({"run": true}),
    ] {
        is_refused(&later(
            &serving,
            "first",
            &again(orders(), &asked("first"), &answers),
        ));
    }
    is_refused(&later(&serving, "first", &again(orders(), "made-up", &yes)));
    is_refused(&later(
        &serving,
        "second",
        &again(orders(), &asked("first"), &yes),
    ));
    is_refused(&later(
        &serving,
        "first",
        &again(call(json!({"name": "users"})), &asked("first"), &yes),
    ));
    let mut unasked = orders();
    unasked["inputResponses"] = yes.clone();
    assert!(
        later(&serving, "first", &unasked)["result"]
            .get("requestState")
            .is_some(),
        "it is asked all the same"
    );

    let state = asked("first");
    let done = later(&serving, "first", &again(orders(), &state, &yes));
    assert_eq!(
        done["result"]["content"][0]["text"], "1",
        "nothing ran before: {done}"
    );
    is_refused(&later(&serving, "first", &again(orders(), &state, &yes)));
}

#[test]
fn rate_limit_reports_when_to_retry() {
    let key = json!({"name": "one", "sha256": digest("first"), "per_minute": 6, "burst": 5});
    let serving = Serving::with(&json!({"keys": [key]}));
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let answers: Vec<Answer> = (0..8)
        .map(|_| serving.post(&[("Authorization", "Bearer first")], &hello))
        .collect();
    let refused: Vec<&Answer> = answers
        .iter()
        .filter(|answer| answer.status == 429)
        .collect();
    assert_eq!(refused.len(), 3);
    assert!(
        refused[0]
            .header("Retry-After")
            .and_then(|time| time.parse::<u64>().ok())
            .is_some_and(|time| time >= 1)
    );

    let key = json!({"name": "one", "sha256": digest("first"), "parallel": 2});
    let serving = Serving::with(&json!({"keys": [key]}));
    let session = serving.session("2025-11-25", &[("Authorization", "Bearer first")]);
    session.call("up__echo", &json!({"text": "it is up"}));
    let slow = |id: u64| {
        let params = json!({"name": "up__echo", "arguments": {"text": "slow", "seconds": 3}});
        session
            .post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            .status
    };
    std::thread::scope(|scope| {
        let slow = &slow;
        let calls: Vec<_> = (1..=2).map(|id| scope.spawn(move || slow(id))).collect();
        std::thread::sleep(Duration::from_secs(1));
        let refused = session.post(&json!({"jsonrpc": "2.0", "id": 9, "method": "ping"}));
        assert_eq!(
            refused.status, 429,
            "a call has its place until it is answered"
        );
        assert!(
            calls
                .into_iter()
                .all(|call| call.join().expect("it ends") == 200)
        );
    });
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    assert_eq!(session.post(&ping).status, 200, "and gives it back");
}

#[test]
fn reload_of_files_keeps_sessions() {
    let key = |name: &str, key: &str| json!({"name": name, "sha256": digest(key)});
    let settings = |keys: Value, deny: Value| json!({"mode": "search", "keys": keys, "roles": {"default": {"deny": deny}}});
    let both = json!([key("one", "first"), key("two", "second")]);
    let serving = Serving::with(&settings(both.clone(), json!([])));
    let one = serving.session("2025-11-25", &[("Authorization", "Bearer first")]);
    let two = serving.session("2025-11-25", &[("Authorization", "Bearer second")]);
    assert_eq!(one.call("up__count", &json!({})), "1");
    assert_eq!(two.call("up__count", &json!({})), "1");
    let eventually = |what: &str, holds: &dyn Fn() -> bool| {
        assert!(
            (0..200).any(|_| holds() || {
                std::thread::sleep(Duration::from_millis(100));
                false
            }),
            "{what}"
        );
    };
    let total = || {
        one.ask(
            "tools/call",
            &json!({"name": "search_tools", "arguments": {"query": "a"}}),
        )["result"]["structuredContent"]["total"]
            .as_u64()
    };
    assert_eq!(total(), Some(25));

    serving
        .place
        .write("settings.json", &settings(both.clone(), json!(["up/e*"])));
    eventually("the role's tools are others", &|| total() == Some(24));
    assert_eq!(
        one.call("up__count", &json!({})),
        "2",
        "its connection is the same"
    );
    serving.place.write(
        "mcp.json",
        &json!({"mcpServers": {"up": upstream(), "more": upstream()}}),
    );
    eventually("the new server's tools are there", &|| total() == Some(49));
    assert_eq!(one.call("up__count", &json!({})), "3");
    assert_eq!(one.call("more__count", &json!({})), "1");

    std::fs::write(serving.place.path("settings.json"), "{\"mode\": ").expect("a file");
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(total(), Some(49), "what cannot be read changes nothing");
    let only_one = json!([key("one", "first")]);
    serving
        .place
        .write("settings.json", &settings(only_one, json!(["up/e*"])));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    eventually("the key that left is not known", &|| {
        two.post(&ping).status == 401
    });
    serving
        .place
        .write("mcp.json", &json!({"mcpServers": {"up": upstream()}}));
    eventually("the server that left is not there", &|| total() == Some(24));
    assert_eq!(one.call("up__count", &json!({})), "4");
    let gone = one.ask(
        "tools/call",
        &json!({"name": "more__count", "arguments": {}}),
    );
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
}

#[test]
fn sessions_of_one_key_do_not_end_those_of_another() {
    let keys = json!([
        {"name": "modest", "sha256": digest("first"), "burst": 1_000},
        {"name": "greedy", "sha256": digest("second"), "burst": 1_000},
    ]);
    let serving = Serving::with(&json!({"keys": keys, "http": {"max_sessions": 5}}));
    let start = |key| serving.session("2025-11-25", &[("Authorization", key)]);
    let modest = start("Bearer first");
    let greedy: Vec<Session<'_>> = (0..12).map(|_| start("Bearer second")).collect();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(modest.post(&ping).status, 200);
    let alive = greedy
        .iter()
        .filter(|session| session.post(&ping).status == 200);
    assert_eq!(alive.count(), 4);
}

#[test]
fn idle_and_excess_sessions_are_ended() {
    let serving = Serving::with(&json!({"http": {"max_sessions": 3}}));
    let sessions: Vec<Session<'_>> = (0..6).map(|_| serving.session("2025-11-25", &[])).collect();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let alive: Vec<bool> = sessions
        .iter()
        .map(|session| session.post(&ping).status == 200)
        .collect();
    assert_eq!(alive, [false, false, false, true, true, true]);

    let serving = Serving::with(&json!({"http": {"session_s": 1}}));
    let session = serving.session("2025-11-25", &[]);
    let ended = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(1_500));
        session.post(&ping).status == 404
    });
    assert!(ended, "it ends where nothing is said for a second");
}

#[test]
fn public_address_needs_keys_and_tls() {
    let place = Place::with(&json!({}));
    let refused = |place: &Place, more: &[&str], expected: &str| {
        let output = gateway_program()
            .args(["serve", "--listen", "0.0.0.0:0"])
            .args(place.arguments())
            .args(more)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains(expected),
            "{expected}: {}",
            stderr(&output)
        );
    };
    refused(&place, &[], "must contain keys");
    let key = json!({"name": "one", "sha256": digest("first")});
    place.write("settings.json", &json!({"keys": [key]}));
    refused(&place, &[], "--tls-cert");
    place.write(
        "settings.json",
        &json!({"keys": [key], "anonymous": "default"}),
    );
    refused(&place, &["--plain-http"], "anonymous");
    place.write(
        "settings.json",
        &json!({"keys": [{"name": "one", "sha256": "first"}]}),
    );
    refused(&place, &["--plain-http"], "64 hexadecimal digits");
    place.write("settings.json", &json!({"keys": [key, key]}));
    refused(&place, &["--plain-http"], "duplicate key name");
    place.write(
        "settings.json",
        &json!({"keys": [{"name": "one", "sha256": digest("first"), "role": "boss"}]}),
    );
    refused(&place, &["--plain-http"], "boss");
    place.write("settings.json", &json!({"keys": [key]}));
    let missing = place.path("none.pem").display().to_string();
    refused(
        &place,
        &["--tls-cert", &missing, "--tls-key", &missing],
        "cannot read the certificate",
    );

    let made = gateway_program()
        .args(["serve", "--new-key", "ci"])
        .output()
        .expect("it runs");
    let key = stdout(&made).trim().to_owned();
    assert!(
        key.starts_with("pk_") && stderr(&made).contains(&digest(&key)),
        "{}",
        stderr(&made)
    );
}

#[test]
fn serve_with_certificate_speaks_tls() {
    let place = Place::with(&json!({}));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (place.path("c.pem"), place.path("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let shown = [certificate.display().to_string(), key.display().to_string()];
    let serving = Serving::start(place, &["--tls-cert", &shown[0], "--tls-key", &shown[1]]);
    let script = "import ssl, sys, urllib.request as r; c = ssl.create_default_context(cafile=sys.argv[1]); \
                  print(r.urlopen(sys.argv[2], context=c).read().decode())";
    let url = format!("https://localhost:{}/health", serving.address.port());
    let output = Command::new("python3")
        .args(["-c", script, &shown[0], &url])
        .output()
        .expect("it runs");
    assert_eq!(stdout(&output).trim(), "ok", "{}", stderr(&output));
}

/// Reads a response with its body, and returns its head in lower case.
pub(crate) fn read_head(connection: &mut TcpStream) -> String {
    let mut response = BufReader::new(connection);
    let mut head = String::new();
    loop {
        let start = head.len();
        let length = response.read_line(&mut head).unwrap_or_default();
        if length == 0 || &head[start..] == "\r\n" {
            break;
        }
    }
    head.make_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    response.read_exact(&mut body).expect("the body arrives");
    head
}

/// Sends a request on an open connection in two parts, with a pause before the body. Returns the
/// head of the response in lower case.
fn ask_in_parts(connection: &mut TcpStream, head: &str, body: &[u8]) -> String {
    let length = body.len();
    let start = format!("{head}\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(start.as_bytes()).expect("it is open");
    std::thread::sleep(Duration::from_millis(100));
    drop(connection.write_all(body));
    read_head(connection)
}

#[test]
fn refused_request_does_not_end_its_connection() {
    let key = "secret";
    let digest = digest(key);
    let serving = Serving::with(&json!({"keys": [{"name": "ci", "sha256": digest}]}));
    let session = format!("Authorization: Bearer {key}\r\nMcp-Session-Id: unknown");
    let refused = [
        ("401", "POST /mcp HTTP/1.1".to_owned()),
        ("404", format!("POST /mcp HTTP/1.1\r\n{session}")),
        ("404", format!("POST /mcp/ HTTP/1.1\r\n{session}")),
        ("401", "POST /v1/pick HTTP/1.1".to_owned()),
        ("401", "GET /v1/tools HTTP/1.1".to_owned()),
        ("404", "POST /unknown HTTP/1.1".to_owned()),
        ("405", "POST /health HTTP/1.1".to_owned()),
        ("200", "GET /health HTTP/1.1".to_owned()),
    ];
    let mut connection = TcpStream::connect(serving.address).expect("it listens");
    for (status, head) in &refused {
        let response = ask_in_parts(&mut connection, head, b"{\"query\": \"a\"}");
        assert!(
            response.starts_with(&format!("http/1.1 {status}")),
            "{head}: {response}"
        );
        assert!(
            !response.contains("connection: close"),
            "{head}: {response}"
        );
    }
}

#[test]
fn connection_with_a_long_unread_body_is_said_to_end() {
    let digest = digest("secret");
    let serving = Serving::with(&json!({"keys": [{"name": "ci", "sha256": digest}]}));
    for path in ["/mcp", "/v1/pick", "/unknown"] {
        let mut connection = TcpStream::connect(serving.address).expect("it listens");
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n");
        connection.write_all(head.as_bytes()).expect("it is open");
        let response = read_head(&mut connection);
        assert!(response.starts_with("http/1.1 40"), "{path}: {response}");
        assert!(response.contains("connection: close"), "{path}: {response}");
        let mut connection = TcpStream::connect(serving.address).expect("it listens");
        let body = vec![b' '; 3 << 20];
        let head = format!("POST {path} HTTP/1.1");
        let response = ask_in_parts(&mut connection, &head, &body);
        assert!(response.contains("connection: close"), "{path}: {response}");
    }
}
