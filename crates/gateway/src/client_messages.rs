//! Messages of clients: each one that cannot be read is answered, so that no client waits for an
//! answer in vain.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use picktools::excerpt::marked;
use picktools::json::{first_long_number, long_number_fault};
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, JsonRpcRequest,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::tool_page::write_message;

/// The largest message of a client on standard input, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// The longest shown reason, in characters.
const MAX_REASON_CHARS: usize = 300;

const PARSE_ERROR: i64 = -32700;
/// The code of an answer to a message that is no request of the protocol.
pub const INVALID_REQUEST: i64 = -32600;
/// The code of an answer to a request with wrong params.
pub const INVALID_PARAMS: i64 = -32602;
/// The code of an answer if the gateway failed.
pub const INTERNAL_ERROR: i64 = -32603;

/// The answer to a message that cannot be handled: a JSON-RPC error. `None` if the message was a
/// notification or an answer, which get none.
pub type ErrorAnswer = Option<Value>;

/// Reads a message, with the [repairs](picktools_mcp::mend) that answers of servers get. Also
/// returns its text.
///
/// # Errors
///
/// The answer to the client.
pub fn parse_message(message: &[u8]) -> Result<(ClientJsonRpcMessage, Cow<'_, str>), ErrorAnswer> {
    // Some clients on Windows begin with a byte order mark.
    let message = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
    let text = picktools_mcp::mend(message);
    if let Some(call) = parse_call(&text) {
        return Ok((call, text));
    }
    let value: Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(error) => {
            let id = picktools_mcp::message_id(message).unwrap_or_default();
            let reason = format!("the message cannot be read: {error}");
            return Err(Some(answer(id, PARSE_ERROR, &reason)));
        }
    };
    let id = match &value {
        Value::Object(members) => members.get("id"),
        Value::Array(_) => {
            let reason = "batches are not supported; send each message on its own";
            return Err(Some(answer(Value::Null, INVALID_REQUEST, reason)));
        }
        _ => {
            let reason = "the message is not a JSON object";
            return Err(Some(answer(Value::Null, INVALID_REQUEST, reason)));
        }
    };
    let (Some(method), Some(id)) = (value.get("method"), id) else {
        // A notification, or an answer to a request of the gateway. Neither gets an answer.
        return parse(&text)
            .map(|message| (message, text))
            .map_err(|_| None);
    };
    let is_valid_id = id.is_string() || id.as_i64().is_some();
    if !is_valid_id {
        let reason = "`id` must be a string or a whole number of at most 64 bits";
        return Err(Some(answer(Value::Null, INVALID_REQUEST, reason)));
    }
    let Some(method) = method.as_str() else {
        let reason = "`method` must be a string";
        return Err(Some(answer(id.clone(), INVALID_REQUEST, reason)));
    };
    if value["jsonrpc"] != "2.0" {
        let reason = "`jsonrpc` must be \"2.0\"";
        return Err(Some(answer(id.clone(), INVALID_REQUEST, reason)));
    }
    let invalid_params = |reason: &str| {
        let reason = format!("invalid `params` of {method}: {reason}");
        Err(Some(answer(id.clone(), INVALID_PARAMS, &reason)))
    };
    let params = value.get("params").filter(|params| !params.is_null());
    if params.is_some_and(|params| !params.is_object()) {
        return invalid_params("give an object");
    }
    if let Some(number) = first_long_number(&text) {
        return invalid_params(&long_number_fault(number));
    }
    match parse(&text) {
        Ok(message) if is_unread(&message) => match params {
            None => invalid_params("none are given"),
            Some(_) => invalid_params("a member is missing or has another type"),
        },
        Ok(message) => Ok((message, text)),
        Err(error) => invalid_params(&error),
    }
}

/// Reads a call of a tool, the most frequent message. The general form tries each known request in
/// turn, which takes most of the time of a short call.
fn parse_call(text: &str) -> Option<ClientJsonRpcMessage> {
    let call: JsonRpcRequest<CallToolRequest> = serde_json::from_str(text).ok()?;
    if first_long_number(text).is_some() {
        return None;
    }
    let request = ClientRequest::CallToolRequest(call.request);
    Some(JsonRpcMessage::request(request, call.id))
}

fn parse(text: &str) -> Result<ClientJsonRpcMessage, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Returns `true` if a request of a known method has params that do not fit, so that only its
/// method could be read.
fn is_unread(message: &ClientJsonRpcMessage) -> bool {
    let JsonRpcMessage::Request(request) = message else {
        return false;
    };
    let ClientRequest::CustomRequest(custom) = &request.request else {
        return false;
    };
    matches!(
        custom.method.as_str(),
        "initialize"
            | "completion/complete"
            | "logging/setLevel"
            | "prompts/get"
            | "prompts/list"
            | "resources/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/templates/list"
            | "resources/unsubscribe"
            | "tools/call"
            | "tools/list"
    )
}

/// Returns the answer to a message that was not handled.
pub fn answer(id: Value, code: i64, reason: &str) -> Value {
    let message = marked(reason, MAX_REASON_CHARS);
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// A client on standard input and output, one message per line.
pub(crate) struct StdioClient<R, W> {
    input: BufReader<R>,
    /// The beginning of the next line.
    line: Vec<u8>,
    is_too_long: bool,
    output: Arc<Mutex<Option<W>>>,
    /// An answer to a message that could not be handled, while it is written. The next message is
    /// read afterwards.
    error_answer: Option<JoinHandle<io::Result<()>>>,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Send + Unpin + 'static> StdioClient<R, W> {
    pub(crate) fn new(input: R, output: W) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            is_too_long: false,
            output: Arc::new(Mutex::new(Some(output))),
            error_answer: None,
        }
    }

    /// Reads until a line is complete; `false` at the end of the input. It can be cancelled at any
    /// time, because what was read is kept.
    async fn read_line(&mut self) -> bool {
        loop {
            let available = match self.input.fill_buf().await {
                Ok(available) if !available.is_empty() => available,
                _ => return false,
            };
            let end = available.iter().position(|&byte| byte == b'\n');
            let length = end.map_or(available.len(), |end| end + 1);
            self.is_too_long |= self.line.len() + length > MAX_LINE_BYTES;
            if self.is_too_long {
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(&available[..length]);
            }
            self.input.consume(length);
            if end.is_some() {
                return true;
            }
        }
    }

    /// Parses the line that was read, and begins the next one.
    fn parse_line(&mut self) -> Result<ClientJsonRpcMessage, ErrorAnswer> {
        let message = if self.is_too_long {
            let reason = format!("a message is longer than {MAX_LINE_BYTES} bytes");
            Err(Some(answer(Value::Null, INVALID_REQUEST, &reason)))
        } else if self.line.trim_ascii().is_empty() {
            Err(None)
        } else {
            parse_message(&self.line).map(|(message, _)| message)
        };
        self.line.clear();
        self.is_too_long = false;
        message
    }
}

impl<R, W> Transport<RoleServer> for StdioClient<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move { write(&output, write_message(message)?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(writing) = &mut self.error_answer {
                let is_written = matches!(writing.await, Ok(Ok(())));
                self.error_answer = None;
                if !is_written {
                    return None;
                }
            }
            if !self.read_line().await {
                return None;
            }
            match self.parse_line() {
                Ok(message) => return Some(message),
                Err(None) => {}
                Err(Some(answer)) => {
                    let output = Arc::clone(&self.output);
                    // In a task of its own, because a cancelled `receive` must not cut an answer.
                    self.error_answer = Some(tokio::spawn(async move {
                        write(&output, answer.to_string().into_bytes()).await
                    }));
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        if let Some(writing) = self.error_answer.take() {
            drop(writing.await);
        }
        drop(self.output.lock().await.take());
        Ok(())
    }
}

/// Writes a message on a line of its own.
async fn write<W: AsyncWrite + Unpin>(
    output: &Mutex<Option<W>>,
    mut message: Vec<u8>,
) -> io::Result<()> {
    // In one piece, so that the client does not wake up for half a line.
    message.push(b'\n');
    let mut output = output.lock().await;
    let Some(output) = output.as_mut() else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    output.write_all(&message).await?;
    output.flush().await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn error(message: &str) -> Value {
        match parse_message(message.as_bytes()) {
            Err(Some(answer)) => answer,
            other => panic!("{message}: {other:?}"),
        }
    }

    #[test]
    fn unreadable_messages_are_answered_with_their_id() {
        for (message, id, code) in [
            ("{oops", Value::Null, PARSE_ERROR),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"ping" oops}"#,
                json!(7),
                PARSE_ERROR,
            ),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#,
                json!("a"),
                INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
                json!(1),
                INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":1000000000000000000000000000001}}}"#,
                json!(1),
                INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"b":[0.100000000000000000000000000001]}}}"#,
                json!(1),
                INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#,
                json!(1),
                INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"resources/read"}"#,
                json!(1),
                INVALID_PARAMS,
            ),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
                Value::Null,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
                Value::Null,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
                Value::Null,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"}"#,
                Value::Null,
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#,
                json!(3),
                INVALID_REQUEST,
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":5}"#,
                json!(3),
                INVALID_REQUEST,
            ),
            ("7", Value::Null, INVALID_REQUEST),
        ] {
            let error = error(message);
            assert_eq!(
                (&error["id"], &error["error"]["code"]),
                (&id, &json!(code)),
                "{message}"
            );
        }
    }

    #[test]
    fn messages_are_mended_and_read() {
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"text":"\ud83d"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"foo/bar"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":-9223372036854775808,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        ] {
            parse_message(message.as_bytes())
                .unwrap_or_else(|answer| panic!("{message}: {answer:?}"));
        }
        let (message, _) =
            parse_message("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n".as_bytes())
                .expect("CRLF ends a line too");
        assert!(matches!(message, JsonRpcMessage::Request(_)));
    }

    #[test]
    fn notifications_and_answers_get_no_answer() {
        for message in [
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":7}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
        ] {
            if let Err(Some(answer)) = parse_message(message.as_bytes()) {
                panic!("{message}: {answer}");
            }
        }
    }

    #[test]
    fn call_reads_as_in_the_general_form() {
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"params":{"arguments":{"b":[1.5,{}]},"name":"a","_meta":{"progressToken":7,"x":1}},"method":"tools/call","id":"7","jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","task":{"ttl":5},"other":true},"more":1}"#,
        ] {
            let call = parse_call(message).expect(message);
            let general = parse(message).expect(message);
            assert_eq!(format!("{call:?}"), format!("{general:?}"), "{message}");
        }
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#,
        ] {
            assert!(parse_call(message).is_none(), "{message}");
        }
    }

    #[tokio::test]
    async fn cancelled_receive_loses_nothing() {
        let (mut writer, input) = tokio::io::duplex(1 << 10);
        let (output, mut answers) = tokio::io::duplex(1 << 10);
        let mut client = StdioClient::new(input, output);
        for part in [
            &b"{oops\n{\"jsonrpc\":"[..],
            b"\"2.0\",\"id\":1,",
            b"\"method\":\"ping\"}",
        ] {
            writer.write_all(part).await.expect("it is open");
            let cancelled = tokio::time::timeout(Duration::from_millis(20), client.receive());
            assert!(cancelled.await.is_err(), "no line is complete");
        }
        writer.write_all(b"\n").await.expect("it is open");
        let message = client.receive().await.expect("a message");
        assert!(matches!(message, JsonRpcMessage::Request(_)));
        client.close().await.expect("it closes");
        let mut said = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut answers, &mut said)
            .await
            .expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
    }

    #[tokio::test]
    async fn long_line_is_refused_and_the_next_one_read() {
        let long = format!("{{\"id\": 1, \"a\": \"{}\"}}\n", "x".repeat(MAX_LINE_BYTES));
        let input = format!("{long}\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}}\n");
        let (output, mut answers) = tokio::io::duplex(1 << 20);
        let mut client = StdioClient::new(io::Cursor::new(input.into_bytes()), output);
        let message = client.receive().await.expect("the second message");
        assert!(matches!(message, JsonRpcMessage::Request(_)));
        assert!(client.receive().await.is_none());
        let mut said = String::new();
        client.close().await.expect("it closes");
        tokio::io::AsyncReadExt::read_to_string(&mut answers, &mut said)
            .await
            .expect("text");
        assert!(
            said.contains("-32600") && said.contains("longer than"),
            "{said}"
        );
    }
}
