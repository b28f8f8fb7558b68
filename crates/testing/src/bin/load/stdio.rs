//! An MCP client of a program on standard input and output.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::figures::{milliseconds, summary};
use crate::options::Options;
use crate::synthetic::query;

const WARM_UP: usize = 20;
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
const LIST_PAUSE: Duration = Duration::from_millis(50);

/// The parts of an answer that are needed.
#[derive(Deserialize)]
struct RpcAnswer<'a> {
    id: Option<u64>,
    method: Option<&'a str>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ListPage<'a> {
    #[serde(rename = "nextCursor")]
    next: Option<String>,
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

/// A program that was started, and its pipes.
struct StdioProgram {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    next_id: u64,
}

/// All pages of a list of tools.
struct ListedTools {
    tools: usize,
    page_times: Vec<Duration>,
}

impl StdioProgram {
    fn start(command: &[String]) -> Result<Self, String> {
        let (name, arguments) = command.split_first().ok_or("-- PROGRAM is missing")?;
        let mut child = Command::new(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {name}: {error}"))?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let output = child.stdout.take().ok_or("no standard output")?;
        Ok(Self {
            child,
            input,
            output: BufReader::with_capacity(64 << 10, output),
            line: String::new(),
            next_id: 0,
        })
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let line = format!("{message}\n");
        let sent = self.input.write_all(line.as_bytes());
        sent.map_err(|error| format!("cannot send: {error}"))
    }

    /// Sends a request and waits for its result.
    fn request(&mut self, method: &str, params: &Value) -> Result<&RawValue, String> {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            self.line.clear();
            let length = self.output.read_line(&mut self.line);
            if length.map_err(|error| format!("cannot receive: {error}"))? == 0 {
                return Err("the program ended".to_owned());
            }
            if self.answers(id) {
                break;
            }
        }
        let answer: RpcAnswer<'_> = parse(&self.line)?;
        answer.result.ok_or_else(|| format!("{:.300}", self.line))
    }

    fn answers(&self, id: u64) -> bool {
        let answer = serde_json::from_str::<RpcAnswer<'_>>(&self.line);
        answer.is_ok_and(|answer| answer.id == Some(id) && answer.method.is_none())
    }

    fn list(&mut self) -> Result<ListedTools, String> {
        let mut list = ListedTools {
            tools: 0,
            page_times: Vec::new(),
        };
        let mut params = json!({});
        loop {
            let begin = Instant::now();
            let page: ListPage<'_> = parse(self.request("tools/list", &params)?.get())?;
            list.page_times.push(begin.elapsed());
            list.tools += page.tools.len();
            let Some(next) = page.next else {
                return Ok(list);
            };
            params = json!({"cursor": next});
        }
    }

    /// Lists the tools until there are enough. A gateway does not wait for slow servers.
    fn list_of(&mut self, tools: usize) -> Result<ListedTools, String> {
        let started = Instant::now();
        loop {
            let list = self.list()?;
            if list.tools >= tools {
                return Ok(list);
            }
            if started.elapsed() > LIST_TIMEOUT {
                return Err(format!("{} of {tools} tools are listed", list.tools));
            }
            thread::sleep(LIST_PAUSE);
        }
    }

    /// Calls a tool several times. Returns the times without those of the first calls.
    fn calls(&mut self, count: usize, call: impl Fn(usize) -> Value) -> Result<Value, String> {
        let mut times = Vec::new();
        for number in 0..WARM_UP + count {
            let params = call(number);
            let begin = Instant::now();
            let result = self.request("tools/call", &params)?.get();
            let time = begin.elapsed();
            if result.contains(r#""isError":true"#) {
                return Err(format!("the call failed: {result:.300}"));
            }
            if number >= WARM_UP {
                times.push(time);
            }
        }
        Ok(summary(times))
    }

    /// Returns the resident memory of the program, in MiB.
    fn memory_mib(&self) -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
        let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib / 1024.0)
    }

    fn stop(mut self) {
        drop(self.input);
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{error}: {text:.300}"))
}

/// Starts a program, and measures its start, its list of tools, and calls.
pub(crate) fn measure(options: &Options) -> Result<Value, String> {
    let started = Instant::now();
    let mut program = StdioProgram::start(&options.command)?;
    let figures = measure_program(&mut program, options, started);
    program.stop();
    figures
}

fn measure_program(
    program: &mut StdioProgram,
    options: &Options,
    started: Instant,
) -> Result<Value, String> {
    let client = json!({"name": "load", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    program.request("initialize", &params)?;
    let initialized = Instant::now();
    program.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let list = program.list_of(options.get_or("tools", 0)?)?;
    let (list_time, first_list_time) = (initialized.elapsed(), started.elapsed());
    thread::sleep(Duration::from_millis(options.get_or("settle-ms", 0)?));
    let mut page_times = Vec::new();
    for _ in 0..options.get_or("rounds", 0)? {
        page_times.extend(program.list()?.page_times);
    }
    let mut figures = json!({
        "tools": list.tools, "pages": list.page_times.len(),
        "list_ms": milliseconds(list_time), "first_list_ms": milliseconds(first_list_time),
        "page_times": summary(page_times), "memory_mib": program.memory_mib(),
    });
    if let Some(tool) = options.get::<String>("tool")? {
        let call = |_number| match tool.split_once('/') {
            // A tool behind the tool `call_tool` of a gateway.
            Some((outer, inner)) => json!({"name": outer,
                "arguments": {"name": inner, "arguments": {"text": "hello"}}}),
            None => json!({"name": tool, "arguments": {"text": "hello"}}),
        };
        figures["calls"] = program.calls(options.get_or("requests", 1_000)?, call)?;
    }
    if let Some(searches) = options.get("searches")? {
        let search =
            |number| json!({"name": "search_tools", "arguments": {"query": query(number)}});
        figures["searches"] = program.calls(searches, search)?;
    }
    Ok(figures)
}
