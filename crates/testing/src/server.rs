//! A server of the tests that answers over HTTP as it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What the server was sent.
#[derive(Clone)]
pub struct Asked {
    /// Request line and headers, in lower case.
    pub head: String,
    /// The body.
    pub body: Value,
}

/// What the server answers.
pub enum Reply {
    /// This JSON, with the status 200.
    Json(Value),
    /// Status line without the version, further headers, and the body.
    Raw(&'static str, String, String),
    /// A list that never ends.
    Endless,
    /// Nothing, for as long as the test lasts.
    Hang,
    /// Nothing; what is sent is how long it took until the client hung up.
    Watch(Sender<Duration>),
    /// A sound beginning, then a byte a second.
    Drip,
    /// Half of the answer that was announced.
    Half,
    /// An answer of 50 MB, announced as such.
    Huge,
}

impl Reply {
    /// A status line with a body and no further headers.
    pub fn status(status: &'static str, body: &str) -> Self {
        Self::Raw(status, String::new(), body.to_owned())
    }
}

/// A server that answers the n-th request, counted from 0, as it is told.
pub struct Server {
    /// The base that a user would name.
    pub url: String,
    /// All that the server was sent so far.
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Starts a server on a free port.
    pub fn new(answer: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || serve(&stream, answer.as_ref(), &log));
            }
        });
        Self { url, asked }
    }

    /// Returns all that the server was sent so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("nobody panicked").clone()
    }
}

fn serve(stream: &TcpStream, answer: &dyn Fn(usize, &Asked) -> Reply, log: &Mutex<Vec<Asked>>) {
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
        .expect("the length is told");
    let mut body = vec![0; length.parse().expect("a length is a number")];
    reader
        .read_exact(&mut body)
        .expect("the request can be read");
    let asked = Asked {
        head,
        body: serde_json::from_slice(&body).expect("the request is JSON"),
    };
    let n = {
        let mut log = log.lock().expect("nobody panicked");
        log.push(asked.clone());
        log.len() - 1
    };
    let (status, headers, body) = match answer(n, &asked) {
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
    // A client that has seen enough may have hung up.
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

/// Waits for the end of the connection, be it orderly or not.
fn watch(reader: &mut BufReader<&TcpStream>, sender: &Sender<Duration>) {
    let started = Instant::now();
    let _end = reader.read(&mut [0; 64]);
    let _nobody_asks = sender.send(started.elapsed());
}

/// What the model was told of the tools: a line of JSON each.
pub fn told(asked: &Asked) -> Vec<Value> {
    let message = asked.body["messages"]
        .as_array()
        .and_then(|all| all.last())
        .expect("there is a message");
    let text = message["content"].as_str().expect("it is text");
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &Value| line.get("id").is_some())
        .collect()
}

/// Scores of the tools by their names, for the ids that the model was told.
pub fn scores(asked: &Asked, score: impl Fn(&str) -> u32) -> String {
    let scores = told(asked).into_iter().map(|line| {
        let id = line["id"].as_str().expect("it is text").to_owned();
        (
            id,
            Value::from(score(line["name"].as_str().expect("it is text"))),
        )
    });
    Value::Object(scores.collect()).to_string()
}
