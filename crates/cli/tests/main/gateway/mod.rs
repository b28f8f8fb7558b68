//! The gateway on standard input and output, in front of a faulty server and of real ones.

mod accounts;
mod approvals;
mod calls;
pub(crate) mod carried;
mod instructions;
mod lists;
mod no_schema;
mod normalised;
mod overrides;
mod parallel;
mod remembered;
mod scanned;
mod tokens;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::root;

/// The time limit of every step.
const TIME: Duration = Duration::from_secs(40);

/// A folder with a configuration of servers, settings, and the gateway's state.
pub(crate) struct Place {
    folder: TempDir,
}

/// Initialises a session of a client with these capabilities.
fn begin(client: Client, capabilities: &Value) -> Client {
    begin_with_answer(client, capabilities).0
}

/// Initialises a session, and returns the result of the handshake too.
fn begin_with_answer(client: Client, capabilities: &Value) -> (Client, Value) {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"}});
    begin_with_params(client, &params)
}

/// Initialises a session with these parameters, and returns the result of the handshake too.
fn begin_with_params(mut client: Client, params: &Value) -> (Client, Value) {
    let hello = client.ask("initialize", params);
    assert_eq!(
        hello["result"]["serverInfo"]["name"], "picktools",
        "{hello}"
    );
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    (client, hello["result"].clone())
}

/// Returns the command of the faulty server.
pub(crate) fn upstream() -> Value {
    json!({"command": "python3", "args": [root("crates/cli/tests/servers/upstream.py")]})
}

impl Place {
    /// Creates a folder with these servers.
    pub(crate) fn with(servers: &Value) -> Self {
        let place = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        place.write("mcp.json", &json!({"mcpServers": servers}));
        place
    }

    /// Creates a folder with only the faulty server, named `up`.
    pub(crate) fn faulty() -> Self {
        let place = Self::with(&json!({}));
        let mut server = upstream();
        server["env"] =
            json!({"UPSTREAM_LOG": place.path("log"), "UPSTREAM_CHANGES": place.path("changes")});
        place.write("mcp.json", &json!({"mcpServers": {"up": server}}));
        place
    }

    /// Changes the command of the server that `faulty` configured, and returns a client.
    pub(crate) fn client_after_move(&self) -> Client {
        let mut server = upstream();
        server["args"] = json!([root("crates/cli/tests/servers/upstream.py"), "--evil"]);
        self.write("mcp.json", &json!({"mcpServers": {"up": server}}));
        let mut client = self.client(&json!({}));
        let echo = client.run("up__echo", json!({"text": "a"}));
        assert_eq!(code(&echo), "quarantined");
        client
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, value: &Value) {
        fs::write(self.path(name), value.to_string()).expect("a file");
    }

    /// Returns the command-line arguments for this folder.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let shown = |name: &str| self.path(name).display().to_string();
        let mut arguments = vec![
            "--config".to_owned(),
            shown("mcp.json"),
            "--state-dir".to_owned(),
            shown("state"),
        ];
        if self.path("settings.json").exists() {
            arguments.extend(["--settings".to_owned(), shown("settings.json")]);
        }
        arguments
    }

    /// Starts a gateway for a client with these capabilities.
    pub(crate) fn client(&self, capabilities: &Value) -> Client {
        begin(self.silent_client(), capabilities)
    }

    /// Starts a gateway with another configuration of servers in the folder.
    pub(crate) fn client_with(&self, config: &str) -> Client {
        self.client_of(&self.path(config).display().to_string())
    }

    /// Starts a gateway with the configuration of servers at a path.
    pub(crate) fn client_of(&self, config: &str) -> Client {
        let mut arguments = self.arguments();
        config.clone_into(&mut arguments[1]);
        begin(self.start(&arguments), &json!({}))
    }

    /// Starts a gateway for a client, and returns the gateway's instructions too.
    pub(crate) fn client_with_instructions(&self) -> (Client, String) {
        let (client, hello) = begin_with_answer(self.silent_client(), &json!({}));
        (client, text(&hello["instructions"]))
    }

    /// Starts a gateway for a client that can ask a person, with a name and a protocol revision.
    pub(crate) fn client_named(&self, name: &str, revision: &str) -> Client {
        let params = json!({"protocolVersion": revision, "capabilities": {"elicitation": {}},
            "clientInfo": {"name": name, "version": "1"}});
        begin_with_params(self.silent_client(), &params).0
    }

    /// Starts a gateway with more command-line arguments.
    pub(crate) fn client_with_options(&self, more: &[&str]) -> Client {
        begin(self.start_with_options(more), &json!({}))
    }

    /// Starts a gateway with more command-line arguments, for a person who allows every call.
    pub(crate) fn client_of_allowing_person(&self, more: &[&str]) -> Client {
        let mut client = self.start_with_options(more);
        client.elicit = Some(json!({"action": "accept", "content": {"run": true}}));
        begin(client, &json!({"elicitation": {}}))
    }

    fn start_with_options(&self, more: &[&str]) -> Client {
        let mut arguments = self.arguments();
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        self.start(&arguments)
    }

    /// Starts a gateway whose client has sent nothing yet.
    fn silent_client(&self) -> Client {
        self.start(&self.arguments())
    }

    fn start(&self, arguments: &[String]) -> Client {
        let mut child = gateway_program()
            .arg("mcp")
            .args(arguments)
            .env("PICKTOOLS_CACHE_DIR", self.path("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(self.path("stderr")).expect("a file"))
            .spawn()
            .expect("it starts");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (tell, messages) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("each line is a message");
                if tell.send(message).is_err() {
                    return;
                }
            }
        });
        Client {
            input: child.stdin.take(),
            child,
            messages,
            heard: Vec::new(),
            next: 0,
            elicit: None,
        }
    }

    /// Returns the events of the server.
    fn happened(&self, event: &str) -> Vec<Value> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"))
            .filter(|line| line["event"] == event)
            .collect()
    }
}

pub(crate) fn gateway_program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_picktools"));
    // On a busy machine, a server starts slowly.
    program.env("PICKTOOLS_LIST_WAIT", "20");
    program
}

/// A client that speaks the protocol line by line.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// The notifications and requests of the gateway.
    heard: Vec<Value>,
    next: u64,
    /// The answers of the person.
    elicit: Option<Value>,
}

impl Client {
    /// Returns the process id of the gateway.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    pub(crate) fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("it is open");
        input
            .write_all(text.as_bytes())
            .and_then(|()| input.flush())
            .expect("it is read");
    }

    /// Sends a request, and returns its id.
    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// Waits for the answer to a request.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        let until = Instant::now() + TIME;
        loop {
            if let Some(place) = self
                .heard
                .iter()
                .position(|message| message["id"] == id && message.get("method").is_none())
            {
                return self.heard.remove(place);
            }
            let message = self
                .messages
                .recv_timeout(until.saturating_duration_since(Instant::now()));
            let message = message
                .unwrap_or_else(|_| panic!("request {id} is answered; heard: {:?}", self.heard));
            if message["method"] == "elicitation/create" {
                let reply = self
                    .elicit
                    .clone()
                    .unwrap_or_else(|| json!({"action": "decline"}));
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": reply}));
            }
            self.heard.push(message);
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Calls a tool of the gateway or of a server.
    pub(crate) fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.ask("tools/call", &json!({"name": name, "arguments": arguments}))["result"].clone()
    }

    /// Calls a tool of a server through the gateway's call tool.
    pub(crate) fn run(&mut self, name: &str, arguments: Value) -> Value {
        self.call("call_tool", json!({"name": name, "arguments": arguments}))
    }

    pub(crate) fn search(&mut self, query: &str) -> Value {
        self.call("search_tools", json!({"query": query}))["structuredContent"].clone()
    }

    pub(crate) fn listed(&mut self) -> Vec<String> {
        let listed = self.ask("tools/list", &json!({}));
        listed["result"]["tools"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|tool| text(&tool["name"]))
            .collect()
    }

    /// Returns the notifications of a method.
    fn told(&self, method: &str) -> Vec<&Value> {
        self.heard
            .iter()
            .filter(|message| message["method"] == method)
            .collect()
    }

    /// Sends a signal to the gateway.
    pub(crate) fn signal(&self, name: &str) {
        crate::endings::signal(self.child.id(), name);
    }

    /// Waits for the gateway to end.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        ended(&mut self.child)
    }

    /// Closes the client's output, and waits for the gateway to end.
    pub(crate) fn leave(mut self) -> Option<i32> {
        self.input = None;
        ended(&mut self.child)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.input = None;
        if ended(&mut self.child).is_none() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    let until = Instant::now() + TIME;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("a text: {value}"))
        .to_owned()
}

/// Returns the text of a result.
pub(crate) fn said(result: &Value) -> String {
    text(&result["content"][0]["text"])
}

/// Returns the code of a refusal.
pub(crate) fn code(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    result["_meta"]["picktools/error"]["code"]
        .as_str()
        .unwrap_or_else(|| panic!("a refusal: {result}"))
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + TIME;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
