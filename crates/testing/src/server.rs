//! A fake HTTP server with answers from a closure.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A request that the server received.
#[derive(Clone)]
pub struct RecordedRequest {
    /// Request line and headers, in lower case.
    pub head: String,
    /// The body; `null` for a request without one.
    pub body: Value,
}

/// An answer of the server.
pub enum Reply {
    /// This JSON, with the status 200.
    Json(Value),
    /// Status line without the version, further headers, and the body.
    Raw(&'static str, String, String),
    /// An endless list.
    Endless,
    /// No answer for 60 seconds.
    Hang,
    /// No answer. Sends the time after which the client closed the connection.
    Watch(Sender<Duration>),
    /// A valid beginning, then one byte per second.
    Drip,
    /// A part of the announced answer.
    Half,
    /// An answer of 50 MB, with the correct length.
    Huge,
}

impl Reply {
    /// Returns an answer with a status line and a body.
    pub fn status(status: &'static str, body: &str) -> Self {
        Self::Raw(status, String::new(), body.to_owned())
    }
}

/// A server that answers each request with a closure, which gets the number of the request from 0.
pub struct TestServer {
    /// The base URL for the client.
    pub url: String,
    /// The requests so far.
    pub requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl TestServer {
    /// Starts a server on a free port.
    pub fn new(answer: impl Fn(usize, &RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || serve(&stream, answer.as_ref(), &log));
            }
        });
        Self { url, requests }
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().expect("nobody panicked").clone()
    }
}

fn serve(
    stream: &TcpStream,
    answer: &dyn Fn(usize, &RecordedRequest) -> Reply,
    log: &Mutex<Vec<RecordedRequest>>,
) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader
            .read_line(&mut head)
            .expect("the request can be read")
            == 0
        {
            return;
        }
    }
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().expect("a length is a number"));
    let mut body = vec![0; length];
    reader
        .read_exact(&mut body)
        .expect("the request can be read");
    let request = RecordedRequest {
        head,
        body: if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body).expect("the request is JSON")
        },
    };
    let n = {
        let mut log = log.lock().expect("nobody panicked");
        log.push(request.clone());
        log.len() - 1
    };
    let (status, headers, body) = match answer(n, &request) {
        Reply::Json(value) => ("200 OK", String::new(), value.to_string()),
        Reply::Raw(status, headers, body) => (status, headers, body),
        Reply::Endless => return endless(stream),
        Reply::Hang => return thread::sleep(Duration::from_secs(60)),
        Reply::Watch(sender) => return watch(&mut reader, &sender),
        Reply::Drip => return drip(stream),
        Reply::Half => {
            let text =
                "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\": [{\"message\": ";
            let _gone = (&mut &*stream).write_all(text.as_bytes());
            return;
        }
        Reply::Huge => (
            "200 OK",
            String::new(),
            format!("{{\"choices\": \"{}\"}}", "x".repeat(50_000_000)),
        ),
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    );
    // The client may have closed the connection already.
    let _gone = (&mut &*stream).write_all(text.as_bytes());
}

fn endless(mut stream: &TcpStream) {
    let head =
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"data\": [{\"index\": 0, \"embedding\": [0";
    let mut part = head.to_owned();
    while stream.write_all(part.as_bytes()).is_ok() {
        part = ",0.125".repeat(10_000);
    }
}

fn drip(mut stream: &TcpStream) {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{\"choices\": [";
    let mut part = head;
    while stream.write_all(part.as_bytes()).is_ok() {
        part = " ";
        thread::sleep(Duration::from_secs(1));
    }
}

/// Waits for the end of the connection, with or without an error.
fn watch(reader: &mut BufReader<&TcpStream>, sender: &Sender<Duration>) {
    let started = Instant::now();
    let _end = reader.read(&mut [0; 64]);
    let _no_receiver = sender.send(started.elapsed());
}

/// Returns the tools in a prompt for a model: a JSON object per line.
pub fn listed_tools(request: &RecordedRequest) -> Vec<Value> {
    let message = request.body["messages"]
        .as_array()
        .and_then(|all| all.last())
        .expect("there is a message");
    let text = message["content"].as_str().expect("it is text");
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &Value| line.get("id").is_some())
        .collect()
}

/// Returns scores for the tools in a prompt, by the names of the tools.
pub fn scores(request: &RecordedRequest, score: impl Fn(&str) -> u32) -> String {
    let scores = listed_tools(request).into_iter().map(|line| {
        let id = line["id"].as_str().expect("it is text").to_owned();
        (
            id,
            Value::from(score(line["name"].as_str().expect("it is text"))),
        )
    });
    Value::Object(scores.collect()).to_string()
}
