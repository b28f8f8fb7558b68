//! Shared parts of the HTTP clients: options, connections, error descriptions.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::{HeaderValue, Uri};
use picktools_net::{FetchError, FetchErrorKind};
use reqwest::Client;
use serde_json::Value;

use picktools::excerpt::one_line;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest quotation of untrusted text, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// The reason for a URL with a user name or a password.
pub(crate) const HAS_USER: &str = "the URL has a user name";
/// The reason for a text that is not a URL.
pub(crate) const NOT_A_URL: &str = "it is not a URL";

/// Options of an HTTP endpoint for embeddings or a language model.
#[derive(Clone)]
pub struct EndpointOptions {
    /// The key, sent in the form that the endpoint expects; an empty one counts as none. No message
    /// contains it.
    pub api_key: Option<String>,
    /// The timeout of one request, from connecting to the last byte; two minutes by default.
    pub timeout: Duration,
    /// `true` to use the proxy of the environment (`ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY`),
    /// except for the hosts of `NO_PROXY` and this machine. By default the environment is not read.
    pub proxy_from_env: bool,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            api_key: None,
            timeout: Duration::from_secs(120),
            proxy_from_env: false,
        }
    }
}

impl fmt::Debug for EndpointOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointOptions")
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl EndpointOptions {
    /// Creates the client for an endpoint, or returns the reason of the failure.
    pub(crate) fn client(&self, uri: &Uri) -> Result<Client, String> {
        let builder = picktools_net::client_builder()?
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(self.timeout);
        let uses_proxy = self.proxy_from_env && !is_this_machine(uri);
        let builder = if uses_proxy {
            builder
        } else {
            builder.no_proxy()
        };
        builder
            .build()
            .map_err(|error| format!("cannot create an HTTP client: {error}"))
    }
}

/// Parses the base URL of an API, or returns the reason why it is not valid.
pub(crate) fn base_url(url: &str) -> Result<Uri, &'static str> {
    let uri: Uri = url.trim().parse().map_err(|_| NOT_A_URL)?;
    let (Some("http" | "https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("the URL does not start with http:// or https:// and a host");
    };
    if authority.as_str().contains('@') {
        return Err(HAS_USER);
    }
    if uri.query().is_some() {
        return Err("the URL has a query");
    }
    Ok(uri)
}

/// Describes why there is no complete answer.
pub(crate) fn describe_failure(error: &FetchError, timeout: Duration) -> String {
    match error.kind {
        FetchErrorKind::ConnectTimeout => {
            format!("no connection within {:?}", CONNECT_TIMEOUT.min(timeout))
        }
        FetchErrorKind::Timeout => format!("no complete answer within {timeout:?}"),
        FetchErrorKind::Connection => format!("the connection failed: {error}"),
        _ => format!("the request failed: {error}"),
    }
}

fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Formats a URL for messages: without user, password, query and fragment, and of limited length.
pub(crate) fn printable(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, url),
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => host,
        None => rest,
    };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    match scheme {
        Some(scheme) if !scheme.is_empty() => shortened(&format!("{scheme}://{rest}")),
        _ => shortened(rest),
    }
}

/// Shortens a text to one line of at most [`MAX_EXCERPT_CHARS`].
pub(crate) fn shortened(text: &str) -> String {
    one_line(text, MAX_EXCERPT_CHARS)
}

/// A key; no message contains it.
pub(crate) struct Secret(String);

impl Secret {
    /// Creates a key; an empty text counts as none.
    pub(crate) fn new(key: Option<&str>) -> Option<Self> {
        match key?.trim() {
            "" => None,
            key => Some(Self(key.to_owned())),
        }
    }

    /// Returns the header value with the key after `scheme`, or an error if the key has characters
    /// that cannot be sent.
    pub(crate) fn header(&self, scheme: &str) -> Result<HeaderValue, ()> {
        let mut header = HeaderValue::from_str(&format!("{scheme}{}", self.0)).map_err(|_| ())?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// Removes the key from a text.
pub(crate) fn redact<'a>(secret: Option<&Secret>, text: &'a str) -> Cow<'a, str> {
    match secret {
        Some(Secret(key)) => text.replace(key, "***").into(),
        None => text.into(),
    }
}

/// Extracts the message of an error body in one line without the key: that of an error object,
/// otherwise the text itself.
pub(crate) fn error_message(secret: Option<&Secret>, body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    for pointer in ["/error/message", "/error", "/message", "/detail"] {
        if let Some(message) = value.pointer(pointer).and_then(Value::as_str) {
            return shortened(&redact(secret, message));
        }
    }
    shortened(&redact(secret, &String::from_utf8_lossy(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_shown_without_its_secrets() {
        for url in [
            "http://me:hunter2@example.org/v1",
            "http://me:hunter2@example.org/v1?key=hunter2#hunter2",
            "me:hunter2@example.org/v1",
            "http://me:hun@hunter2@example.org/v1",
            "http://me:hunter2?@example.org/v1",
        ] {
            let shown_url = printable(url);
            assert!(
                shown_url.contains("example.org/v1") && !shown_url.contains("hunter2"),
                "{shown_url}"
            );
        }
        assert!(printable(&"x".repeat(100_000)).chars().count() <= MAX_EXCERPT_CHARS + 1);
    }

    #[test]
    fn this_machine_needs_no_proxy() {
        let is_local = |url: &str| is_this_machine(&url.parse().expect("the URL is valid"));
        assert!(is_local("http://localhost:1/"));
        assert!(is_local("http://127.0.0.9/") && is_local("http://[::1]:8/"));
        assert!(!is_local("http://localhost.example.org/") && !is_local("http://10.0.0.1/"));
    }
}
