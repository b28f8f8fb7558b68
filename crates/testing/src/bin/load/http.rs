//! HTTP/1.1 on blocking connections.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Patience of a client for an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection, on either side.
pub(crate) struct HttpConnection {
    reader: BufReader<TcpStream>,
}

/// A request or a response.
#[derive(Default)]
pub(crate) struct HttpMessage {
    /// Status of a response; 0 for a request.
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) body: Vec<u8>,
    /// No further message follows on the connection.
    pub(crate) closes: bool,
}

impl HttpConnection {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        Self::new(TcpStream::connect(("127.0.0.1", port))?)
    }

    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        Ok(Self {
            reader: BufReader::with_capacity(16 << 10, stream),
        })
    }

    /// Sends a POST request. `headers` end with a line break each.
    pub(crate) fn post(
        &mut self,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> io::Result<HttpMessage> {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.send(&request)?;
        self.receive()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Receives a message with its body.
    pub(crate) fn receive(&mut self) -> io::Result<HttpMessage> {
        let mut message = HttpMessage::default();
        let start = self.line()?;
        if start.starts_with("HTTP/") {
            let status = start.split(' ').nth(1).and_then(|text| text.parse().ok());
            message.status = status.ok_or(io::ErrorKind::InvalidData)?;
        }
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap_or(0),
                "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
                "mcp-session-id" => message.session = Some(value.to_owned()),
                "connection" => message.closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        if is_chunked {
            self.read_chunks(&mut message.body)?;
        } else {
            message.body.resize(length, 0);
            self.reader.read_exact(&mut message.body)?;
        }
        Ok(message)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    fn read_chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            let end = body.len();
            body.resize(end + size, 0);
            self.reader.read_exact(&mut body[end..])?;
            self.line()?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
