//! The end of the program by signals, and of the servers that it started.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::gateway::{Place, ended, eventually, gateway_program, said};
use crate::gateway_http::{Serving, read_head};

/// A server that answers no list of tools, and ignores the end of its input and SIGTERM. It writes
/// its process id, and that of a process that it started, to the file of `PIDS`.
const STUBBORN_SERVER: &str = r#"
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        print(json.dumps({**answer, "result": {"protocolVersion": "2025-06-18", **info}}), flush=True)
    elif message["method"] == "tools/list":
        open(os.environ["PIDS"], "w").write(f"{os.getpid()} {child.pid}")
        break
    else:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({**answer, "error": error}), flush=True)
time.sleep(600)
"#;

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status();
    assert!(status.expect("it runs").success());
}

/// Returns `true` if a process runs. A zombie does not.
fn runs(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !state.is_empty() && !state.starts_with('Z')
}

/// Starts the program with a stubborn server, ends it by a signal, and checks that the server ends.
fn assert_server_ends(command: &[&str], signal_name: &str) {
    let place = Place::with(&json!({}));
    let pids = place.path("pids");
    place.write(
        "mcp.json",
        &json!({"mcpServers": {"stubborn": {
            "command": "python3", "args": ["-c", STUBBORN_SERVER], "env": {"PIDS": pids}}}}),
    );
    let config = place.path("mcp.json").display().to_string();
    let arguments = command
        .iter()
        .map(|argument| argument.replace("CONFIG", &config));
    let mut child = gateway_program()
        .args(arguments)
        .env("PICKTOOLS_CACHE_DIR", place.path("cache"))
        .env("PICKTOOLS_DATA_DIR", place.path("data"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let read_pids = || fs::read_to_string(&pids).unwrap_or_default();
    eventually("the server is asked for its tools", || {
        !read_pids().is_empty()
    });
    let pids = read_pids();
    let processes: Vec<&str> = pids.split(' ').collect();
    assert!(processes.iter().all(|process| runs(process)), "{pids}");
    signal(child.id(), signal_name);
    eventually(&format!("servers end: {command:?} {signal_name}"), || {
        !processes.iter().any(|process| runs(process))
    });
    ended(&mut child);
}

const COMMANDS: [&[&str]; 5] = [
    &["mcp", "--config", "CONFIG"],
    &["serve", "--listen", "127.0.0.1:0", "--config", "CONFIG"],
    &["import", "mcp", "--config", "CONFIG"],
    &["pick", "greet", "--catalog", "CONFIG"],
    &["call", "greet", "--catalog", "CONFIG"],
];

#[cfg(target_os = "linux")]
#[test]
fn servers_end_if_the_program_is_killed() {
    for command in COMMANDS {
        assert_server_ends(command, "KILL");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn servers_end_at_each_signal_that_ends_the_program() {
    for command in COMMANDS {
        assert_server_ends(command, "QUIT");
    }
    for signal in ["HUP", "INT", "TERM"] {
        assert_server_ends(COMMANDS[2], signal);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn program_that_cannot_be_started_is_named() {
    let output = crate::cli::picktools(&["import", "mcp", "--", "no-such-program-here"])
        .output()
        .expect("it runs");
    let said = crate::cli::stderr(&output);
    assert!(
        said.contains("\"no-such-program-here\" cannot be started: No such file"),
        "{said}"
    );
    assert!(said.contains("install it, or give its full path"), "{said}");
    assert!(!said.contains("supervise"), "{said}");
}

#[test]
fn gateway_finishes_calls_under_way_at_sigterm() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    let arguments = json!({"name": "up__echo", "arguments": {"text": "late", "seconds": 2}});
    let call = json!({"name": "call_tool", "arguments": arguments});
    client.run("up__echo", json!({"text": "the server is up"}));
    let id = client.begin("tools/call", &call);
    std::thread::sleep(Duration::from_millis(500));
    client.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    let refused = client.call("call_tool", json!({"name": "up__echo", "arguments": {}}));
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(
        said(&refused).contains("the gateway is shutting down"),
        "{refused}"
    );
    assert_eq!(said(&client.answer(id)["result"]), "late");
    assert_eq!(client.ended(), Some(0));
}

#[test]
fn http_gateway_finishes_calls_under_way_at_sigterm() {
    let place = Place::faulty();
    place.write("settings.json", &json!({"http": {"calls": true}}));
    let mut serving = Serving::start(place, &[]);
    let call = |seconds: u32| {
        let arguments = json!({"text": "late", "seconds": seconds});
        json!({"name": "up__echo", "arguments": arguments}).to_string()
    };
    let headers = [("Content-Type", "application/json")];
    let first = serving.raw("POST", "/v1/call", &headers, &call(0));
    assert_eq!(first.status, 200, "{}", first.body);
    std::thread::scope(|scope| {
        let late = scope.spawn(|| serving.raw("POST", "/v1/call", &headers, &call(2)));
        std::thread::sleep(Duration::from_millis(500));
        serving.signal("TERM");
        let late = late.join().expect("it is answered");
        assert_eq!(late.status, 200, "{}", late.body);
        assert!(late.body.contains("late"), "{}", late.body);
    });
    assert_eq!(serving.ended(), Some(0));
}

/// Sends a request on an open connection, and returns the head of the response in lower case.
fn ask_on(connection: &mut TcpStream, method: &str, path: &str) -> String {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
    let sent = connection.write_all(request.as_bytes());
    sent.expect("the connection is open");
    read_head(connection)
}

#[test]
fn http_gateway_answers_open_connections_after_sigterm() {
    let mut serving = Serving::start(Place::faulty(), &[]);
    let requests = [
        ("POST", "/mcp"),
        ("POST", "/v1/pick"),
        ("GET", "/ready"),
        ("GET", "/health"),
    ];
    let mut connections: Vec<TcpStream> = Vec::new();
    for _ in requests {
        let mut connection = TcpStream::connect(serving.address).expect("it listens");
        let head = ask_on(&mut connection, "GET", "/health");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        connections.push(connection);
    }
    let started = Instant::now();
    serving.signal("TERM");
    std::thread::sleep(Duration::from_millis(300));
    for ((method, path), connection) in requests.iter().zip(&mut connections) {
        let head = ask_on(connection, method, path);
        let status = if *path == "/health" { "200" } else { "503" };
        assert!(
            head.starts_with(&format!("http/1.1 {status}")),
            "{path}: {head}"
        );
        assert!(head.contains("connection: close"), "{path}: {head}");
    }
    drop(connections);
    assert_eq!(serving.ended(), Some(0));
    let time = started.elapsed();
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn second_signal_ends_the_gateway_at_once() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    client.run("up__echo", json!({"text": "the server is up"}));
    let arguments = json!({"name": "up__echo", "arguments": {"text": "never", "seconds": 30}});
    client.begin(
        "tools/call",
        &json!({"name": "call_tool", "arguments": arguments}),
    );
    std::thread::sleep(Duration::from_millis(500));
    let started = Instant::now();
    client.signal("INT");
    std::thread::sleep(Duration::from_millis(300));
    client.signal("TERM");
    assert_eq!(client.ended(), Some(0));
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn hangup_reloads_the_configuration_and_ends_nothing() {
    let place = Place::faulty();
    let mut client = place.client(&json!({}));
    client.run("up__echo", json!({"text": "the server is up"}));
    for _ in 0..2 {
        client.signal("HUP");
    }
    let stderr = place.path("stderr");
    eventually("it reloads", || {
        let text = fs::read_to_string(&stderr).unwrap_or_default();
        text.contains("reloaded the configuration")
    });
    let echo = client.run("up__echo", json!({"text": "still here"}));
    assert_eq!(said(&echo), "still here");
}
