//! The messages of a server that is a program: one on each line of its standard input and output.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, JsonRpcMessageCodec};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, Empty};
use tokio_util::bytes::BytesMut;
use tokio_util::codec::Decoder as _;

use crate::reading::readable;

/// A transport that repairs what the program prints. The connection ends at a message of more than
/// `max_bytes`. No memory is kept between messages, because the list of a large server's tools can
/// be megabytes.
pub(super) struct ProgramMessages<R, W: AsyncWrite> {
    output: BufReader<R>,
    /// The bytes since the last line end.
    line: Vec<u8>,
    /// The size of the longest line that is accepted.
    max_bytes: usize,
    /// Becomes `true` when a line is too long, so that the connection can report the cause.
    too_long: Arc<AtomicBool>,
    /// Writes messages, and reads none.
    input: AsyncRwTransport<RoleClient, Empty, W>,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> ProgramMessages<R, W> {
    pub(super) fn new(output: R, input: W, max_bytes: usize, too_long: Arc<AtomicBool>) -> Self {
        Self {
            output: BufReader::new(output),
            line: Vec::new(),
            max_bytes,
            too_long,
            input: AsyncRwTransport::new(tokio::io::empty(), input),
        }
    }

    /// Returns the next line, or `None` at the end. A caller may drop the future and call again.
    async fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let bytes = self.output.fill_buf().await?;
            let line_end = bytes.iter().position(|&byte| byte == b'\n');
            let count = line_end.map_or(bytes.len(), |end| end + 1);
            let has_ended = bytes.is_empty();
            if self.line.len() + count > self.max_bytes {
                self.too_long.store(true, Ordering::Relaxed);
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            self.line.extend_from_slice(&bytes[..count]);
            self.output.consume(count);
            if has_ended && self.line.is_empty() {
                return Ok(None);
            }
            if has_ended || line_end.is_some() {
                return Ok(Some(mem::take(&mut self.line)));
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleClient>
    for ProgramMessages<R, W>
{
    type Error = io::Error;

    fn name() -> Cow<'static, str> {
        "stdio".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.input.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.next_line().await {
                Ok(line) => line?,
                Err(error) => {
                    tracing::debug!(target: "picktools::mcp", %error, "reading from a server ended");
                    return None;
                }
            };
            if let Some(message) = parse(&line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.input.close().await
    }
}

/// Parses a line. Lines that are no message, such as those of a log, are skipped.
fn parse(line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
    if line.trim_ascii().is_empty() {
        return None;
    }
    let mut line = BytesMut::from(&*readable(line));
    if !line.ends_with(b"\n") {
        line.extend_from_slice(b"\n");
    }
    match JsonRpcMessageCodec::default().decode(&mut line) {
        Ok(message) => message,
        Err(error) => {
            tracing::debug!(target: "picktools::mcp", %error, "a line of a server is no message");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Reads the messages that a program prints, and returns whether a line was too long.
    async fn read_all(text: &str, max_bytes: usize) -> (Vec<Value>, bool) {
        let too_long = Arc::new(AtomicBool::new(false));
        let sink = tokio::io::sink();
        let mut program =
            ProgramMessages::new(text.as_bytes(), sink, max_bytes, Arc::clone(&too_long));
        let mut messages = Vec::new();
        while let Some(message) = program.receive().await {
            messages.push(serde_json::to_value(message).expect("a message serialises"));
        }
        assert_eq!(program.line.capacity(), 0, "memory is kept");
        (messages, too_long.load(Ordering::Relaxed))
    }

    fn response(id: u64, value: &str) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"a\":{value}}}}}")
    }

    #[tokio::test]
    async fn lines_are_messages_and_others_are_skipped() {
        let text = format!(
            "{}\r\n\nlog\n[1]\n{{\"jsonrpc\":\"2.0\",\"id\":2}}\n{}",
            response(1, "NaN"),
            response(3, "0")
        );
        let (messages, too_long) = read_all(&text, 1 << 10).await;
        let results = messages.iter().map(|message| &message["result"]);
        let expected = [json!({"a": null}), json!({"a": 0})];
        assert_eq!(
            results.collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
        assert!(!too_long);
    }

    #[tokio::test]
    async fn message_of_many_reads_is_complete() {
        let long = format!("\"{}\"", "x".repeat(100_000));
        let (messages, _) = read_all(&format!("{}\n", response(1, &long)), 1 << 20).await;
        assert_eq!(messages[0]["result"]["a"].to_string(), long);
    }

    #[tokio::test]
    async fn connection_ends_at_a_message_that_is_too_long() {
        assert_eq!(read_all(&"x".repeat(50), 40).await, (Vec::new(), true));
        let text = format!("{}\n{}", response(1, "0"), "x".repeat(50));
        let (messages, too_long) = read_all(&text, 49).await;
        assert_eq!((messages.len(), too_long), (1, true));
    }
}
