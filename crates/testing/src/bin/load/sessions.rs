//! MCP clients over HTTP, each with its session.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{HttpConnection, HttpMessage};
use crate::options::Options;
use crate::requests::{LoadOutcome, STACK_BYTES};

const PROTOCOL: &str = "2025-06-18";

/// A client with one session.
struct SessionClient {
    port: u16,
    open: Option<HttpConnection>,
    headers: String,
}

impl SessionClient {
    /// Begins a session.
    fn begin(port: u16) -> Result<Self, String> {
        let mut client = Self {
            port,
            open: None,
            headers: String::new(),
        };
        let answer = client.request(&initialize().to_string())?;
        let session = answer.session.ok_or("the answer has no session")?;
        client.headers =
            format!("Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: {PROTOCOL}\r\n");
        client.request(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(client)
    }

    fn request(&mut self, body: &str) -> Result<HttpMessage, String> {
        let answer = self.post(body).map_err(|error| error.to_string())?;
        if answer.status / 100 == 2 {
            return Ok(answer);
        }
        let text = String::from_utf8_lossy(&answer.body);
        Err(format!("{} {text:.300}", answer.status))
    }

    fn post(&mut self, body: &str) -> io::Result<HttpMessage> {
        let mut connection = match self.open.take() {
            Some(connection) => connection,
            None => HttpConnection::connect(self.port)?,
        };
        let answer = connection.post("/mcp", &self.headers, body.as_bytes())?;
        if !answer.closes {
            self.open = Some(connection);
        }
        Ok(answer)
    }

    /// Calls a tool of a server. An error of the gateway or of the tool is an error.
    fn call(&mut self, tool: &str) -> Result<(), String> {
        let arguments = json!({"name": tool, "arguments": {"text": "hello"}});
        let params = json!({"name": "call_tool", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = self.request(&call.to_string())?;
        let text = String::from_utf8_lossy(&answer.body);
        if text.contains(r#""content""#) && !text.contains(r#""isError":true"#) {
            return Ok(());
        }
        Err(text.into_owned())
    }
}

fn initialize() -> Value {
    let client = json!({"name": "load", "version": "1"});
    let params = json!({"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// Opens sessions, and calls a tool in all of them or holds them open.
pub(crate) fn measure(options: &Options) -> Result<Value, String> {
    let (port, sessions) = (options.require("port")?, options.require("sessions")?);
    if options.get_or("hold", 0)? != 0 {
        return hold(port, sessions);
    }
    let tool: String = options.require("tool")?;
    let requests = options.get_or("requests", usize::MAX)?;
    let time = Duration::from_secs(options.get_or("seconds", 5)?);
    let (begun, barrier) = (AtomicUsize::new(0), Arc::new(Barrier::new(sessions + 1)));
    let (begun, tool) = (&begun, tool.as_str());
    let mut outcome = LoadOutcome::default();
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..sessions {
            let barrier = Arc::clone(&barrier);
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            let client = builder.spawn_scoped(scope, move || {
                let client = begin_and_warm_up(port, tool);
                barrier.wait();
                let end = Instant::now() + time;
                call_all(client, tool, end, || {
                    begun.fetch_add(1, Ordering::Relaxed) < requests
                })
            });
            clients.push(client.map_err(|error| format!("cannot start a thread: {error}"))?);
        }
        barrier.wait();
        let started = Instant::now();
        for client in clients {
            outcome.add(client.join().map_err(|_panic| "a client panicked")?);
        }
        Ok(outcome.figures(started.elapsed().min(time)))
    })
}

fn begin_and_warm_up(port: u16, tool: &str) -> Result<SessionClient, String> {
    let mut client = SessionClient::begin(port)?;
    client.call(tool)?;
    Ok(client)
}

/// Calls a tool until `end`. A call that succeeds later is not counted, because fewer and fewer
/// sessions call then.
fn call_all(
    client: Result<SessionClient, String>,
    tool: &str,
    end: Instant,
    mut goes_on: impl FnMut() -> bool,
) -> LoadOutcome {
    let mut outcome = LoadOutcome::default();
    let mut client = match client {
        Ok(client) => client,
        Err(error) => {
            outcome.fail(|| format!("warm-up: {error}"));
            return outcome;
        }
    };
    while Instant::now() < end && goes_on() {
        let begin = Instant::now();
        match client.call(tool) {
            Ok(()) if Instant::now() > end => {}
            Ok(()) => outcome.times.push(begin.elapsed()),
            Err(error) => outcome.fail(|| error),
        }
    }
    outcome
}

/// Opens sessions one after the other. Prints a line, and keeps them until standard input ends.
fn hold(port: u16, sessions: usize) -> Result<Value, String> {
    for _ in 0..sessions {
        // The gateway keeps a session without a connection.
        SessionClient::begin(port)?;
    }
    let mut output = io::stdout();
    let _closed = writeln!(output, "open").and_then(|()| output.flush());
    let _end = io::stdin().read_to_end(&mut Vec::new());
    Ok(json!({"sessions": sessions}))
}
