//! An MCP server on standard input and output.

use std::io::{BufRead, StdoutLock, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::options::Options;
use crate::synthetic::SyntheticTool;

/// The parts of a message that decide the answer.
#[derive(Deserialize)]
struct ServerMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<&'a str>,
}

struct SyntheticServer {
    /// The list of tools without the first one, as JSON.
    tools: String,
    /// Number of changes of the list so far.
    version: Arc<AtomicU64>,
    call_time: Duration,
}

/// Serves until standard input ends.
pub(crate) fn serve(options: &Options) -> Result<(), String> {
    let (tools, seed) = (options.get_or("tools", 1)?, options.get_or("seed", 1)?);
    let milliseconds = |name| Ok::<_, String>(Duration::from_millis(options.get_or(name, 0)?));
    let change_pause = milliseconds("change-every-ms")?;
    let server = Arc::new(SyntheticServer {
        tools: further_tools(tools, seed),
        version: Arc::default(),
        call_time: milliseconds("call-ms")?,
    });
    thread::sleep(milliseconds("start-delay-ms")?);
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("cannot read: {error}"))?;
        let Ok(message) = serde_json::from_str::<ServerMessage<'_>>(&line) else {
            continue;
        };
        let method = message.method.unwrap_or_default();
        if method == "notifications/initialized" && !change_pause.is_zero() {
            let version = Arc::clone(&server.version);
            thread::spawn(move || change_forever(&version, change_pause));
        }
        let Some(id) = message.id else { continue };
        if method == "tools/call" && !server.call_time.is_zero() {
            let (server, id) = (Arc::clone(&server), id.to_owned());
            thread::spawn(move || {
                thread::sleep(server.call_time);
                send(&server.answer("tools/call", id.get()));
            });
        } else if !method.is_empty() && !send(&server.answer(method, id.get())) {
            break;
        }
    }
    Ok(())
}

/// Returns the tools after the first one, which is `echo`.
fn further_tools(count: usize, seed: u64) -> String {
    let mut tools = String::new();
    for number in 1..count {
        tools.push(',');
        tools.push_str(&SyntheticTool::new(seed, number).for_mcp().to_string());
    }
    tools
}

/// Changes the list of tools again and again, and says so.
fn change_forever(version: &AtomicU64, pause: Duration) {
    loop {
        thread::sleep(pause);
        version.fetch_add(1, Ordering::Relaxed);
        if !send(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#) {
            return;
        }
    }
}

/// Sends a message. Returns whether somebody reads it.
fn send(message: &str) -> bool {
    let mut output: StdoutLock<'_> = std::io::stdout().lock();
    let mut line = message.as_bytes().to_vec();
    line.push(b'\n');
    output.write_all(&line).is_ok() && output.flush().is_ok()
}

impl SyntheticServer {
    fn answer(&self, method: &str, id: &str) -> String {
        let result = match method {
            "initialize" => initialize_result().to_string(),
            "tools/list" => self.tool_list(),
            "tools/call" => {
                r#"{"content":[{"type":"text","text":"the answer to the call"}]}"#.to_owned()
            }
            "ping" => "{}".to_owned(),
            _ => {
                let error = json!({"code": -32601, "message": "unknown method"});
                return format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
            }
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
    }

    fn tool_list(&self) -> String {
        let version = self.version.load(Ordering::Relaxed);
        let echo = json!({
            "name": "echo",
            "description": format!("Answer with a text, version {version}"),
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
        });
        format!(r#"{{"tools":[{echo}{}]}}"#, self.tools)
    }
}

fn initialize_result() -> Value {
    json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": true}},
        "serverInfo": {"name": "synthetic", "version": "1"},
    })
}
