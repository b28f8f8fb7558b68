//! What the clients of HTTP share: how they connect, what they read, and how they tell of what went
//! wrong.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use http::{HeaderValue, Uri};
use picktools_net::{FetchError, FetchErrorKind};
use reqwest::Client;
use serde_json::Value;

use picktools::excerpt::one_line;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is told of foreign text, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// Why a URL cannot be asked.
pub(crate) const HOLDS_USER: &str = "the URL holds a user name";

/// How to reach an HTTP endpoint: of embeddings, or of a language model.
#[derive(Clone)]
pub struct EndpointOptions {
    /// The key, sent as the endpoint expects it; empty counts as none. It stands in no message.
    pub api_key: Option<String>,
    /// How long one request may take from connecting to the last byte; two minutes by default.
    pub timeout: Duration,
    /// Whether to go through the proxy that the environment names (`ALL_PROXY`, `HTTPS_PROXY`,
    /// `HTTP_PROXY`, but for the hosts of `NO_PROXY` and this machine); by default the environment
    /// is not read.
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
    /// Makes the client for an endpoint; an error says why there is none.
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
            .map_err(|error| format!("cannot make an HTTP client: {error}"))
    }
}

/// Reads the URL below which an API lies; else says why it cannot be asked.
pub(crate) fn base_url(url: &str) -> Result<Uri, &'static str> {
    let uri: Uri = url.trim().parse().map_err(|_| "the URL is none")?;
    let (Some("http" | "https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("the URL does not begin with http:// or https:// and a host");
    };
    if authority.as_str().contains('@') {
        return Err(HOLDS_USER);
    }
    if uri.query().is_some() {
        return Err("the URL holds a query");
    }
    Ok(uri)
}

/// Says why there is no answer, or not all of it.
pub(crate) fn reason(error: &FetchError, timeout: Duration) -> String {
    match error.kind {
        FetchErrorKind::ConnectTimeout => {
            format!("no connection within {:?}", CONNECT_TIMEOUT.min(timeout))
        }
        FetchErrorKind::Timeout => format!("no whole answer within {timeout:?}"),
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

/// A URL for people: without user, password, query and fragment, and of bounded length.
pub(crate) fn printable(url: &str) -> String {
    let (scheme, rest) = url
        .split_once("://")
        .map_or(("", url), |(scheme, rest)| (scheme, rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    shortened(&if scheme.is_empty() {
        rest.to_owned()
    } else {
        format!("{scheme}://{rest}")
    })
}

/// One line of at most [`MAX_EXCERPT_CHARS`].
pub(crate) fn shortened(text: &str) -> String {
    one_line(text, MAX_EXCERPT_CHARS)
}

/// A key, which stands in no message.
pub(crate) struct Secret(String);

impl Secret {
    /// Takes a key; empty counts as none.
    pub(crate) fn new(key: Option<&str>) -> Option<Self> {
        key.map(str::trim)
            .filter(|key| !key.is_empty())
            .map(|key| Self(key.to_owned()))
    }

    /// The key as the value of a header, behind `scheme`; an error where it holds characters that
    /// cannot be sent.
    pub(crate) fn header(&self, scheme: &str) -> Result<HeaderValue, ()> {
        let mut header = HeaderValue::from_str(&format!("{scheme}{}", self.0)).map_err(|_| ())?;
        header.set_sensitive(true);
        Ok(header)
    }
}

/// Text without the key.
pub(crate) fn without<'a>(secret: Option<&Secret>, text: &'a str) -> Cow<'a, str> {
    match secret {
        Some(Secret(key)) => text.replace(key, "***").into(),
        None => text.into(),
    }
}

/// What an answer that is none says, in one line without the key: the message of an error object,
/// else the text itself.
pub(crate) fn message(secret: Option<&Secret>, body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let places = ["/error/message", "/error", "/message", "/detail"];
    let told = places
        .iter()
        .find_map(|place| value.pointer(place)?.as_str())
        .map(Cow::from);
    shortened(&without(
        secret,
        &told.unwrap_or_else(|| String::from_utf8_lossy(body)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_told_without_its_secrets() {
        for url in [
            "http://me:hunter2@example.org/v1",
            "http://me:hunter2@example.org/v1?key=hunter2#hunter2",
            "me:hunter2@example.org/v1",
            "http://me:hun@hunter2@example.org/v1",
            "http://me:hunter2?@example.org/v1",
        ] {
            let told = printable(url);
            assert!(
                told.contains("example.org/v1") && !told.contains("hunter2"),
                "{told}"
            );
        }
        assert!(printable(&"x".repeat(100_000)).chars().count() <= MAX_EXCERPT_CHARS + 1);
    }

    #[test]
    fn this_machine_needs_no_proxy() {
        let this = |url: &str| is_this_machine(&url.parse().expect("it is a URL"));
        assert!(
            this("http://localhost:1/") && this("http://127.0.0.9/") && this("http://[::1]:8/")
        );
        assert!(!this("http://localhost.example.org/") && !this("http://10.0.0.1/"));
    }
}
