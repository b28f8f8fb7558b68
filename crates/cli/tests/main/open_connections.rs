//! The connections of an ending gateway: the next request after a late answer is refused, not lost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::{stderr, stdout};
use crate::gateway::Place;
use crate::gateway_http::Serving;

const VERSION: &str = "2025-06-18";
/// The pause after which a gateway that ends closes idle connections.
const PAUSE: Duration = Duration::from_secs(1);

/// A client with a session, on a connection that it keeps.
struct KeptConnection {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    session: String,
}

impl KeptConnection {
    /// Connects and begins a session.
    fn open(serving: &Serving) -> Self {
        let stream = TcpStream::connect(serving.address).expect("it listens");
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("a limit");
        let session = serving.session(VERSION, &[]);
        Self {
            stream: BufReader::new(stream),
            address: serving.address,
            session: session.id.clone(),
        }
    }

    /// Returns a request of the session.
    fn request(&self, method: &str, path: &str, body: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nMcp-Session-Id: {}\r\n\
             MCP-Protocol-Version: {VERSION}\r\n\r\n{body}",
            self.address,
            body.len(),
            self.session
        )
    }

    fn send(&mut self, text: &str) {
        let sent = self.stream.get_mut().write_all(text.as_bytes());
        sent.expect("the connection is open");
    }

    /// Sends a call that takes this time.
    fn call(&mut self, seconds: u32) {
        let message = echo_message(seconds);
        let request = self.request("POST", "/mcp", &message);
        self.send(&request);
    }

    /// Reads the head of a response in lower case. It is empty if the connection is closed.
    fn read_head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).unwrap_or_default() == 0 {
                return String::new();
            }
        }
        head.make_ascii_lowercase();
        head
    }

    /// Reads a body in chunks to its end.
    fn read_chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size).expect("a chunk");
            let size = usize::from_str_radix(size.trim(), 16).expect("a size");
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).expect("a chunk");
            if size == 0 {
                return body;
            }
            body.push_str(&String::from_utf8_lossy(&chunk[..size]));
        }
    }

    /// Checks that a response refuses the request because the gateway ends.
    fn assert_refused(&mut self) {
        let head = self.read_head();
        assert!(head.starts_with("http/1.1 503"), "{head:?}");
        assert!(head.contains("\r\nconnection: close"), "{head}");
    }
}

fn echo_message(seconds: u32) -> String {
    let call =
        json!({"name": "up__echo", "arguments": {"text": "late answer", "seconds": seconds}});
    let params = json!({"name": "call_tool", "arguments": call});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// Starts a gateway and one call on each of several connections. Their responses have begun.
fn start_calls(settings: &serde_json::Value, calls: &[u32]) -> (Serving, Vec<KeptConnection>) {
    let place = Place::faulty();
    place.write("settings.json", settings);
    let serving = Serving::start(place, &[]);
    let mut warm = KeptConnection::open(&serving);
    warm.call(0);
    warm.read_head();
    let begin = |seconds: &u32| {
        let mut connection = KeptConnection::open(&serving);
        connection.call(*seconds);
        let head = connection.read_head();
        assert!(head.starts_with("http/1.1 200"), "{head:?}");
        assert!(!head.contains("connection: close"), "{head}");
        connection
    };
    let connections = calls.iter().map(begin).collect();
    (serving, connections)
}

#[test]
fn request_after_late_answer_is_refused_not_lost() {
    for signal in ["TERM", "INT"] {
        let (mut serving, mut connections) = start_calls(&json!({}), &[2, 2, 3]);
        serving.signal(signal);
        for (connection, pause_ms) in connections.iter_mut().zip([0, 700, 0]) {
            let body = connection.read_chunks();
            assert!(body.contains("late answer"), "{body}");
            sleep(Duration::from_millis(pause_ms));
            connection.call(0);
            connection.assert_refused();
            assert_eq!(connection.read_head(), "", "it is closed");
        }
        assert_eq!(serving.ended(), Some(0));
    }
}

#[test]
fn request_after_ended_event_stream_is_refused_not_lost() {
    let serving = Serving::start(Place::faulty(), &[]);
    let mut listener = KeptConnection::open(&serving);
    let request = listener.request("GET", "/mcp", "");
    listener.send(&request);
    let head = listener.read_head();
    assert!(head.contains("text/event-stream"), "{head:?}");
    serving.signal("TERM");
    listener.read_chunks();
    listener.send(&request);
    listener.assert_refused();
}

#[test]
fn pipelined_request_is_refused_not_lost() {
    let (serving, mut connections) = start_calls(&json!({}), &[2]);
    let connection = &mut connections[0];
    connection.call(0);
    serving.signal("TERM");
    connection.read_chunks();
    connection.assert_refused();
}

#[test]
fn body_sent_after_the_pause_is_answered() {
    let (serving, _connections) = start_calls(&json!({}), &[]);
    let mut connection = KeptConnection::open(&serving);
    let request = connection.request("POST", "/mcp", &echo_message(0));
    let (start, rest) = request.split_at(request.len() - 10);
    connection.send(start);
    sleep(Duration::from_millis(300));
    serving.signal("TERM");
    sleep(PAUSE * 2);
    connection.send(rest);
    let head = connection.read_head();
    assert!(head.starts_with("http/1.1 200"), "{head:?}");
    assert!(connection.read_chunks().contains("late answer"));
}

#[test]
fn ending_gateway_waits_for_no_silent_connection() {
    let (mut serving, mut connections) = start_calls(&json!({}), &[2]);
    let silent: Vec<TcpStream> = (0..3)
        .map(|_| TcpStream::connect(serving.address).expect("it listens"))
        .collect();
    serving.signal("TERM");
    connections[0].read_chunks();
    let answered = Instant::now();
    assert!(
        TcpStream::connect(serving.address).is_err(),
        "no new connections after the pause"
    );
    assert_eq!(serving.ended(), Some(0));
    let time = answered.elapsed();
    assert!(time < PAUSE * 4, "{time:?}");
    assert_eq!(connections[0].read_head(), "", "it was idle for a second");
    drop(silent);
}

#[test]
fn call_under_way_does_not_exceed_the_time_to_end() {
    let (mut serving, _connections) = start_calls(&json!({"drain_s": 1}), &[30, 0]);
    let started = Instant::now();
    serving.signal("TERM");
    assert_eq!(serving.ended(), Some(0));
    let time = started.elapsed();
    assert!(time < Duration::from_secs(8), "{time:?}");
}

#[test]
fn second_signal_ends_the_wait_for_connections() {
    let (mut serving, _connections) = start_calls(&json!({}), &[9]);
    serving.signal("TERM");
    sleep(PAUSE * 2);
    let started = Instant::now();
    serving.signal("INT");
    assert_eq!(serving.ended(), Some(0));
    let time = started.elapsed();
    assert!(time < Duration::from_secs(4), "{time:?}");
}

/// Calls over TLS on one connection, prints a line when the response has begun, and calls again
/// after its end.
const TLS_CLIENT: &str = r#"
import http.client, json, ssl, sys
certificate, port, message, version = sys.argv[1:]
context = ssl.create_default_context(cafile=certificate)
connection = http.client.HTTPSConnection("localhost", port, timeout=20, context=context)
headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
def post(body):
    connection.request("POST", "/mcp", body, headers)
    return connection.getresponse()
info = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
hello = post(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info}))
hello.read()
headers.update({"Mcp-Session-Id": hello.getheader("Mcp-Session-Id"), "MCP-Protocol-Version": version})
post(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})).read()
late = post(message)
print("begun", flush=True)
assert b"late answer" in late.read()
refused = post(message)
print(refused.status, refused.getheader("Connection"))
"#;

#[test]
fn request_after_late_answer_over_tls_is_refused_not_lost() {
    let place = Place::faulty();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (place.path("c.pem"), place.path("k.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let shown = [certificate.display().to_string(), key.display().to_string()];
    let serving = Serving::start(place, &["--tls-cert", &shown[0], "--tls-key", &shown[1]]);
    let port = serving.address.port().to_string();
    let mut client = Command::new("python3")
        .args(["-c", TLS_CLIENT, &shown[0], &port])
        .args([echo_message(2).as_str(), VERSION])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut begun = [0; 6];
    let output = client.stdout.as_mut().expect("it is piped");
    drop(output.read_exact(&mut begun));
    serving.signal("TERM");
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(stdout(&output).trim(), "503 close", "{}", stderr(&output));
}
