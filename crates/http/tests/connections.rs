//! The limits of connections and of their silence.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use picktools_gateway::{Gateway, GatewayOptions, Settings};
use picktools_http::{HttpServer, HttpServerOptions, serve};

/// Serves a gateway without servers.
async fn serve_gateway(settings: &str) -> (Gateway, HttpServer) {
    let gateway = Gateway::open(GatewayOptions::new(
        Settings::parse(settings).expect("settings"),
    ));
    let gateway = gateway.expect("a gateway");
    let options = HttpServerOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        tls: None,
        plain: false,
        console: None,
    };
    let server = serve(&gateway, &options).await.expect("it listens");
    (gateway, server)
}

fn connect(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(bytes).expect("it is sent");
    stream
}

/// Returns `true` if the gateway ends the connection within a time.
fn ends_within(mut stream: &TcpStream, time: Duration) -> bool {
    let end = Instant::now() + time;
    let mut buffer = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        stream.set_read_timeout(Some(left)).expect("a time");
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return true,
        }
    }
}

/// Returns the first bytes of the answer to a request for a path.
fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut stream = connect(address, request.as_bytes());
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a time");
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_end_after_the_time_for_headers() {
    let (gateway, server) = serve_gateway(r#"{"http": {"headers_s": 1}}"#).await;
    let address = server.address();
    let health = format!("GET /health HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let settings_frame = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let kinds: [(&str, &[u8]); 6] = [
        ("silent", b""),
        ("one byte", b"G"),
        ("half of an HTTP/2 preface", b"PRI * HTTP/2.0\r\n"),
        ("an HTTP/2 preface", settings_frame),
        ("unfinished headers", b"GET /health HTTP/1.1\r\nHost: x\r\n"),
        ("idle after a request", health.as_bytes()),
    ];
    let open: Vec<_> = kinds
        .iter()
        .map(|(name, bytes)| (name, connect(address, bytes)))
        .collect();
    let left: Vec<_> = open
        .iter()
        .filter(|(_, stream)| !ends_within(stream, Duration::from_secs(5)))
        .map(|(name, _)| name)
        .collect();
    assert!(left.is_empty(), "still open: {left:?}");
    gateway.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_answers_beside_many_silent_connections() {
    let settings = r#"{"http": {"max_connections": 20, "max_connections_per_address": 10}}"#;
    let (gateway, server) = serve_gateway(settings).await;
    let address = server.address();
    let open: Vec<_> = (0..60).map(|_| connect(address, b"")).collect();
    let answer = get(address, "/health");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let ended = open
        .iter()
        .filter(|stream| ends_within(stream, Duration::from_millis(50)));
    assert!(ended.count() >= 50, "the oldest ones made room");
    gateway.end().await;
}
