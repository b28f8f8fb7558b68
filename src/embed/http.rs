//! What the clients of HTTP share: how they connect, and how they tell of what went wrong.

use std::time::Duration;

use ureq::http::Uri;
use ureq::{Agent, Proxy, Timeout};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What is told of foreign text, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// How to connect.
pub(super) struct Connection {
    /// From connecting to the last byte.
    pub(super) timeout: Duration,
    /// How many redirects are followed.
    pub(super) redirects: u32,
    /// Whether the proxy that the environment names is used, but for this machine.
    pub(super) proxy_from_env: bool,
}

impl Connection {
    pub(super) fn agent(&self, uri: &Uri) -> Agent {
        let proxy = (self.proxy_from_env && !is_this_machine(uri)).then(Proxy::try_from_env).flatten();
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(self.timeout))
            .max_redirects(self.redirects)
            .http_status_as_error(false)
            .proxy(proxy)
            .user_agent(concat!("picktools/", env!("CARGO_PKG_VERSION")))
            .build();
        config.new_agent()
    }
}

/// Says why there is no answer, or not all of it.
pub(super) fn reason(error: &ureq::Error, timeout: Duration) -> String {
    match error {
        ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
            format!("no connection within {CONNECT_TIMEOUT:?}")
        }
        ureq::Error::Timeout(_) => format!("no whole answer within {timeout:?}"),
        ureq::Error::Io(error) => format!("the connection failed: {error}"),
        other => format!("the request failed: {other}"),
    }
}

fn is_this_machine(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// A URL for people: without user, password, query and fragment, and of bounded length.
pub(super) fn printable(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    shortened(&if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") })
}

/// One line of at most [`MAX_EXCERPT_CHARS`], without control characters.
pub(super) fn shortened(text: &str) -> String {
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        if line.len() > 4 * MAX_EXCERPT_CHARS {
            break;
        }
        line.push(' ');
        line.push_str(word);
    }
    match line.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
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
            assert!(told.contains("example.org/v1") && !told.contains("hunter2"), "{told}");
        }
        assert!(printable(&"x".repeat(100_000)).chars().count() <= MAX_EXCERPT_CHARS + 1);
    }

    #[test]
    fn this_machine_needs_no_proxy() {
        let this = |url: &str| is_this_machine(&url.parse().expect("it is a URL"));
        assert!(this("http://localhost:1/") && this("http://127.0.0.9/") && this("http://[::1]:8/"));
        assert!(!this("http://localhost.example.org/") && !this("http://10.0.0.1/"));
    }
}
