//! Errors of HTTP requests, without the URL and the types of the libraries below.

use std::error::Error;
use std::io;

/// An error from an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct FetchError {
    /// The kind of failure.
    pub kind: FetchErrorKind,
    /// The innermost cause.
    pub reason: String,
}

/// A kind of failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// No connection within the connect timeout.
    ConnectTimeout,
    /// A connection, but no complete response within the timeout.
    Timeout,
    /// No connection, or a connection that broke.
    Connection,
    /// Any other failure, such as a response that is not HTTP or an invalid URL.
    Request,
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let is_broken = caused_by_io(&error);
        let kind = match error {
            _ if error.is_timeout() && error.is_connect() => FetchErrorKind::ConnectTimeout,
            _ if error.is_timeout() => FetchErrorKind::Timeout,
            _ if error.is_connect() || is_broken => FetchErrorKind::Connection,
            _ => FetchErrorKind::Request,
        };
        Self {
            kind,
            reason: innermost(&error),
        }
    }
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn caused_by_io(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        cause.is::<io::Error>() || cause.to_string() == "connection closed before message completed"
    })
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}
