//! The time in which the body of a request must arrive.

use std::time::Duration;

/// The time in which a client has to send the body of a message to `/mcp` or to the HTTP API. The
/// model proxy has a limit of its own.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Describes a body that did not arrive in time.
pub(crate) fn describe_slow_body() -> String {
    format!(
        "the body did not arrive within {} s",
        BODY_TIMEOUT.as_secs()
    )
}
