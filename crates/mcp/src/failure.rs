//! Texts for failed connections and requests, in plain words and without names of types.

use std::error::Error;
use std::io;

use picktools::excerpt::marked;
use rmcp::transport::DynamicTransportError;

/// The longest text of an error, in characters.
pub(super) const MAX_MESSAGE_CHARS: usize = 300;
/// The text for a connection that the other side has closed.
pub(super) const CLOSED: &str = "it ended, or closed the connection";

/// Returns `true` if the other side of a connection has closed it.
pub(super) fn is_closed(error: &DynamicTransportError) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&*error.error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
            return matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
            );
        }
        cause = error.source();
    }
    false
}

/// Formats the error of a transport without the name of its type.
pub(super) fn transport_text(error: &DynamicTransportError) -> String {
    if is_closed(error) {
        return CLOSED.to_owned();
    }
    error_chain_text(&*error.error)
}

/// Formats an error with its causes. A server may have written any part of the text.
pub(super) fn error_chain_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    marked(&text, MAX_MESSAGE_CHARS).into_owned()
}
