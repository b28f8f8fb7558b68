//! Requests that block the calling thread.
//!
//! One thread with its own runtime sends them. They therefore work on any thread, inside or outside
//! a runtime, and reuse connections.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{LazyLock, mpsc};
use std::thread;

use http::{HeaderMap, StatusCode};
use reqwest::{RequestBuilder, Response};
use tokio::runtime::{Builder, Handle};

use crate::{FetchError, FetchErrorKind};

/// The number of pieces of a download that are read ahead.
const READ_AHEAD: usize = 16;

static RUNTIME: LazyLock<Result<Handle, String>> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let handle = runtime.handle().clone();
    let thread = thread::Builder::new().name("picktools-net".to_owned());
    match thread.spawn(move || runtime.block_on(std::future::pending::<()>())) {
        Ok(_) => Ok(handle),
        Err(error) => Err(error.to_string()),
    }
});

/// A complete response to a request.
#[derive(Debug, Clone)]
pub struct FetchedResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; `None` if it is longer than the limit.
    pub body: Option<Vec<u8>>,
}

/// Sends a request and waits for the complete response. A body over `limit` bytes is discarded.
///
/// # Errors
///
/// [`FetchError`] if there is no complete response.
pub fn fetch(request: RequestBuilder, limit: u64) -> Result<FetchedResponse, FetchError> {
    let (sender, receiver) = sync_channel(1);
    runtime()?.spawn(async move {
        let response = read_response(request, limit).await;
        drop(sender.send(response.map_err(FetchError::from)));
    });
    receiver
        .recv()
        .unwrap_or_else(|_| Err(dropped_request_error()))
}

async fn read_response(
    request: RequestBuilder,
    limit: u64,
) -> Result<FetchedResponse, reqwest::Error> {
    let mut response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if (body.len() + chunk.len()) as u64 > limit {
            return Ok(FetchedResponse {
                status,
                headers,
                body: None,
            });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(FetchedResponse {
        status,
        headers,
        body: Some(body),
    })
}

/// A response whose body is read piece by piece.
#[derive(Debug)]
pub struct Download {
    /// The status.
    pub status: StatusCode,
    /// The length of the body, if the server states it.
    pub length: Option<u64>,
    pieces: Receiver<Result<Vec<u8>, FetchError>>,
    piece: io::Cursor<Vec<u8>>,
}

impl Download {
    /// Sends a request and waits for the headers of the response.
    ///
    /// # Errors
    ///
    /// [`FetchError`] if there is no response.
    pub fn start(request: RequestBuilder) -> Result<Self, FetchError> {
        let (sender, receiver) = mpsc::channel();
        let (pieces_sender, pieces) = sync_channel(READ_AHEAD);
        runtime()?.spawn(async move {
            match request.send().await {
                Ok(response) => {
                    let head = (response.status(), response.content_length());
                    if sender.send(Ok(head)).is_ok() {
                        forward_body(response, pieces_sender).await;
                    }
                }
                Err(error) => drop(sender.send(Err(FetchError::from(error)))),
            }
        });
        let (status, length) = receiver
            .recv()
            .unwrap_or_else(|_| Err(dropped_request_error()))?;
        Ok(Self {
            status,
            length,
            pieces,
            piece: io::Cursor::default(),
        })
    }
}

/// Forwards the body until the receiver is dropped. A slow receiver blocks a thread of the blocking
/// pool, not the runtime.
async fn forward_body(mut response: Response, sender: SyncSender<Result<Vec<u8>, FetchError>>) {
    loop {
        let piece = match response.chunk().await {
            Ok(Some(chunk)) => Ok(chunk.to_vec()),
            Ok(None) => return,
            Err(error) => Err(FetchError::from(error)),
        };
        let sender = sender.clone();
        let is_received = tokio::task::spawn_blocking(move || sender.send(piece).is_ok()).await;
        if !is_received.unwrap_or(false) {
            return;
        }
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.piece.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.pieces.recv() {
                Ok(Ok(piece)) => self.piece = io::Cursor::new(piece),
                Ok(Err(error)) => return Err(io::Error::other(error)),
                Err(_) => return Ok(0),
            }
        }
    }
}

fn runtime() -> Result<&'static Handle, FetchError> {
    let start_error = |reason: &String| FetchError {
        kind: FetchErrorKind::Request,
        reason: format!("cannot start the thread of the HTTP client: {reason}"),
    };
    RUNTIME.as_ref().map_err(start_error)
}

/// Returns the error for a request whose task panicked.
fn dropped_request_error() -> FetchError {
    FetchError {
        kind: FetchErrorKind::Request,
        reason: "the request was dropped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Answers one connection with `answer`, and returns the server's URL.
    fn serve(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("the listener is bound");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut head = [0; 1024];
            drop(stream.read(&mut head));
            drop(stream.write_all(answer.as_bytes()));
        });
        format!("http://{address}/")
    }

    fn get(url: &str) -> RequestBuilder {
        let client = crate::client_builder()
            .expect("TLS is set up")
            .no_proxy()
            .build()
            .expect("a client");
        client.get(url).timeout(Duration::from_secs(5))
    }

    #[test]
    fn answer_within_the_limit_is_complete() {
        let url = serve("HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: 5\r\n\r\nhello");
        let fetched = fetch(get(&url), 5).expect("an answer");
        assert_eq!(
            (fetched.status.as_u16(), fetched.body.as_deref()),
            (200, Some(&b"hello"[..]))
        );
        assert_eq!(fetched.headers["x-a"], "b");
    }

    #[test]
    fn answer_beyond_the_limit_has_no_body() {
        let url = serve("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        assert!(fetch(get(&url), 4).expect("an answer").body.is_none());
    }

    #[test]
    fn broken_connection_is_an_error_without_the_url() {
        let url = serve("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe");
        let error = fetch(get(&url), 5).expect_err("the body is cut off");
        assert_eq!(error.kind, FetchErrorKind::Connection, "{error}");
        assert!(!error.to_string().contains("127.0.0.1"), "{error}");
    }

    #[test]
    fn refused_connection_is_a_connection_error() {
        let error = fetch(get("http://127.0.0.1:1/"), 5).expect_err("the port is closed");
        assert_eq!(error.kind, FetchErrorKind::Connection, "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
    }

    #[tokio::test]
    async fn request_from_within_a_runtime_is_answered() {
        let url = serve("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(fetch(get(&url), 0).expect("an answer").status.as_u16(), 204);
    }

    #[test]
    fn download_is_read_piece_by_piece() {
        let url = serve("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        let mut download = Download::start(get(&url)).expect("an answer");
        let mut text = String::new();
        download.read_to_string(&mut text).expect("the body");
        assert_eq!((download.length, text.as_str()), (Some(5), "hello"));
    }
}
