//! A provider that records requests, and a client that sends them through the proxy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use picktools_gateway::api_keys::RequestIdentity;
use picktools_gateway::{Gateway, GatewayOptions, Settings};
use picktools_proxy::{ModelApi, Proxy};
use serde_json::{Map, Value, json};

/// The stream that the provider answers with.
pub(crate) const STREAM: &str =
    ": a comment\r\n\r\nevent: x\r\ndata: {\"a\":\"é\"}\r\n\r\ndata: [DONE]\r\n\r\n";

/// A proxy in front of a recording provider.
pub(crate) struct ProxyClient {
    proxy: Arc<Proxy>,
    bodies: Mutex<Receiver<String>>,
    /// The gateway of the proxy, which must not end before it.
    _gateway: Gateway,
}

/// A response of the proxy, with the request that the provider received.
pub(crate) struct Exchange {
    pub(crate) headers: HeaderMap,
    pub(crate) answer: Bytes,
    /// The body that the provider received.
    pub(crate) sent: String,
}

impl ProxyClient {
    /// Starts a proxy in mode `narrow` with these settings of `proxy`.
    pub(crate) fn new(settings: &Value) -> Self {
        Self::with_modes(settings, "narrow", "narrow")
    }

    /// Starts a proxy that reads calls in text, in front of a provider with this answer.
    pub(crate) fn reading_text(answer: &str) -> Self {
        let provider = json!({"mode": "off", "text_calls": true});
        Self::start(
            &json!({}),
            [provider.clone(), provider],
            Some(answer.to_owned()),
        )
    }

    /// Starts a proxy with these settings of `proxy` and these modes.
    pub(crate) fn with_modes(settings: &Value, openai: &str, anthropic: &str) -> Self {
        let providers = [openai, anthropic].map(|mode| json!({"mode": mode}));
        Self::start(settings, providers, None)
    }

    fn start(settings: &Value, providers: [Value; 2], answer: Option<String>) -> Self {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let (sender, bodies) = channel();
        std::thread::spawn(move || serve(&listener, &sender, answer.as_deref()));
        let mut proxy = settings.clone();
        for (name, mut provider) in ["openai", "anthropic"].into_iter().zip(providers) {
            provider["url"] = json!(url);
            proxy[name] = provider;
        }
        let settings = json!({ "proxy": proxy }).to_string();
        let gateway = Gateway::open(GatewayOptions::new(
            Settings::parse(&settings).expect("valid settings"),
        ));
        let gateway = gateway.expect("a gateway");
        let proxy = Proxy::new(Arc::clone(gateway.hub())).expect("a proxy");
        Self {
            proxy: Arc::new(proxy),
            bodies: Mutex::new(bodies),
            _gateway: gateway,
        }
    }

    /// Sends a request.
    pub(crate) async fn send(&self, api: ModelApi, body: &Value) -> Exchange {
        self.send_text(api, &body.to_string()).await
    }

    /// Sends the text of a request.
    pub(crate) async fn send_text(&self, api: ModelApi, body: &str) -> Exchange {
        let sender = RequestIdentity {
            role: "default".into(),
            key: "anonymous".into(),
        };
        let request = Request::new(Body::from(body.to_owned()));
        let response = self.proxy.forward(api, &sender, request).await;
        let (head, body) = response.into_parts();
        let answer = axum::body::to_bytes(body, usize::MAX).await;
        Exchange {
            headers: head.headers,
            answer: answer.expect("a complete answer"),
            sent: self
                .bodies
                .lock()
                .expect("nothing panicked")
                .try_recv()
                .expect("the provider received the request"),
        }
    }
}

impl Exchange {
    /// Returns a header of the response.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        Some(self.headers.get(name)?.to_str().expect("ASCII"))
    }

    /// Returns the request that the provider received.
    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.sent).expect("JSON")
    }

    /// Returns the names of the tools that the provider received; the type of a tool without name.
    pub(crate) fn tools(&self) -> Vec<String> {
        let body = self.body();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(name_of).collect()
    }

    /// Returns the number of left-out functions in the header.
    pub(crate) fn left_out(&self) -> usize {
        let count = self.header("picktools-left-out").expect("a header");
        count.parse().expect("a number")
    }
}

/// Returns the name of a tool in a request; the type of a tool without name.
pub(crate) fn name_of(tool: &Value) -> String {
    let function = tool.get("function").unwrap_or(tool);
    let name = function.get("name").or_else(|| function.get("type"));
    name.and_then(Value::as_str).expect("a name").to_owned()
}

/// Answers requests, each on a connection of its own.
fn serve(listener: &TcpListener, bodies: &Sender<String>, answer: Option<&str>) {
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let body = read_body(&mut stream);
        let kind = if body.contains("\"stream\":true") {
            "text/event-stream"
        } else {
            "application/json"
        };
        let answer = match answer {
            Some(answer) => answer,
            None if kind == "text/event-stream" => STREAM,
            None => "{}",
        };
        if bodies.send(body).is_err() {
            return;
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\npicktools-left-out: 999\r\n\
             connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        for chunk in answer.as_bytes().chunks(7) {
            let size = format!("{:x}\r\n", chunk.len());
            let chunk = [size.as_bytes(), chunk, b"\r\n"].concat();
            stream.write_all(&chunk).expect("it is sent");
        }
        stream.write_all(b"0\r\n\r\n").expect("it is sent");
    }
}

fn read_body(stream: &mut TcpStream) -> String {
    let mut received = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = stream.read(&mut buffer).expect("a request");
        assert!(count > 0, "the request is complete");
        received.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&received);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length
            .and_then(|(_, value)| value.trim().parse().ok())
            .expect("a length");
        if body.len() >= length {
            return body.to_owned();
        }
    }
}

/// A function that a client offers.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) description: String,
}

impl Function {
    pub(crate) fn new(name: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
        }
    }

    /// Returns the definition in the format of an API.
    fn definition(&self, api: ModelApi) -> Value {
        let Self { name, description } = self;
        let parameters = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        match api {
            ModelApi::Chat => json!({"type": "function", "function": {
                "name": name, "description": description, "parameters": parameters}}),
            ModelApi::Responses => json!({"type": "function",
                "name": name, "description": description, "parameters": parameters}),
            ModelApi::Messages | ModelApi::CountTokens => json!({
                "name": name, "description": description, "input_schema": parameters}),
        }
    }
}

/// Returns the definitions of functions.
pub(crate) fn definitions(api: ModelApi, functions: &[Function]) -> Vec<Value> {
    functions
        .iter()
        .map(|function| function.definition(api))
        .collect()
}

/// Returns the names of functions.
pub(crate) fn names(functions: &[Function]) -> Vec<String> {
    functions
        .iter()
        .map(|function| function.name.clone())
        .collect()
}

/// The tools of a coding agent.
pub(crate) fn host_functions() -> Vec<Function> {
    [
        (
            "Bash",
            "Executes a bash command in a persistent shell session",
        ),
        ("Read", "Reads a file from the local filesystem"),
        ("Edit", "Performs exact string replacements in files"),
        ("Write", "Writes a file to the local filesystem"),
        (
            "Glob",
            "Fast file pattern matching that works with any codebase size",
        ),
        (
            "Grep",
            "Search file contents with regular expressions, built on ripgrep",
        ),
        (
            "Task",
            "Launch a new agent to handle complex, multi-step tasks autonomously",
        ),
        (
            "TodoWrite",
            "Create and manage a structured task list for the coding session",
        ),
        ("WebFetch", "Fetches content from a URL and processes it"),
        ("WebSearch", "Search the web"),
        ("NotebookEdit", "Replace a cell of a Jupyter notebook"),
        ("ExitPlanMode", "Leave plan mode once the plan is written"),
    ]
    .into_iter()
    .map(|(name, description)| Function::new(name, description))
    .collect()
}

/// 219 tools of 20 servers. `name` makes a name of a server and its tool.
pub(crate) fn server_functions(name: impl Fn(&str, &str) -> String) -> Vec<Function> {
    let servers = [
        ("calendar", "event"),
        ("mail", "email"),
        ("forge", "pull_request"),
        ("tracker", "issue"),
        ("weather", "forecast"),
        ("billing", "invoice"),
        ("travel", "flight"),
        ("photos", "album"),
        ("music", "playlist"),
        ("crm", "customer"),
        ("hr", "vacation"),
        ("warehouse", "parcel"),
        ("maps", "route"),
        ("bank", "transfer"),
        ("kitchen", "recipe"),
        ("fitness", "workout"),
        ("library", "book"),
        ("tickets", "concert"),
        ("garden", "plant"),
        ("office", "meeting_room"),
    ];
    let verbs = [
        ("create", "Creates"),
        ("list", "Lists"),
        ("get", "Returns"),
        ("update", "Changes"),
        ("delete", "Deletes"),
        ("search", "Searches for"),
        ("archive", "Archives"),
        ("export", "Exports"),
        ("share", "Shares"),
        ("copy", "Copies"),
        ("rate", "Rates"),
    ];
    let mut functions = Vec::new();
    for (server, object) in servers {
        for (verb, does) in verbs {
            let object_text = object.replace('_', " ");
            functions.push(Function {
                name: name(server, &format!("{verb}_{object}")),
                description: format!("{does} the {object_text} in the {server} service"),
            });
        }
    }
    functions.pop();
    functions
}

/// The same tools with the names that most clients give to tools of MCP servers.
pub(crate) fn mcp_functions() -> Vec<Function> {
    server_functions(|server, tool| format!("mcp__{server}__{tool}"))
}

/// Returns a request with these messages, tools and further members.
pub(crate) fn request(api: ModelApi, messages: &Value, tools: &[Value], more: &Value) -> Value {
    let list = if api == ModelApi::Responses {
        "input"
    } else {
        "messages"
    };
    let mut body = Map::new();
    body.insert("model".to_owned(), json!("m"));
    body.insert(list.to_owned(), messages.clone());
    body.insert("tools".to_owned(), json!(tools));
    body.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(body)
}

/// Returns the messages of a conversation with one message of the user.
pub(crate) fn say(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}
