//! Which headers go on, and which are between two neighbours only.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::api::Api;

/// The header of a key of ours where the client sends one of its provider's besides.
pub(crate) const KEY: HeaderName = HeaderName::from_static("picktools-key");
/// Anthropic's header of a key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What is said to a neighbour, not to whoever is behind (RFC 9110, 7.6.1).
const HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];
/// What a provider is not told: who we are, what the browser of a page knows, and how long the
/// request was.
const OURS: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::COOKIE,
    header::ORIGIN,
    header::REFERER,
];

/// The headers that a message goes on with.
pub(crate) fn passes(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let stays = |name: &HeaderName| {
        // What we say ourselves nobody else says.
        HOP.contains(name) || named.contains(name) || name.as_str().starts_with("picktools-")
    };
    headers
        .iter()
        .filter(|(name, _)| !stays(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The headers that a request goes on with, and with the provider's key where it is ours to send.
pub(crate) fn to_provider(headers: &HeaderMap, api: Api, key: Option<&str>) -> HeaderMap {
    let mut headers = passes(headers);
    for name in OURS.iter().chain([&KEY]) {
        headers.remove(name);
    }
    let Some(key) = key else { return headers };
    headers.remove(header::AUTHORIZATION);
    headers.remove(API_KEY);
    let (name, value) = if api.is_openai() {
        (header::AUTHORIZATION, format!("Bearer {key}"))
    } else {
        (API_KEY, key.to_owned())
    };
    if let Ok(mut value) = HeaderValue::from_str(&value) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        given
            .iter()
            .map(|&(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect()
    }

    #[test]
    fn what_is_between_neighbours_does_not_go_on() {
        let given = headers(&[
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("picktools-tools", "1/2"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("content-encoding", "gzip"),
        ]);
        let expected = headers(&[
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("content-encoding", "gzip"),
        ]);
        assert_eq!(passes(&given), expected);
    }

    #[test]
    fn a_key_of_ours_stays_with_us_and_that_of_the_provider_goes_to_it() {
        let given = headers(&[
            ("authorization", "Bearer pk_1"),
            ("x-api-key", "pk_1"),
            ("picktools-key", "pk_1"),
            ("cookie", "session=1"),
            ("host", "127.0.0.1"),
            ("anthropic-version", "2023-06-01"),
        ]);
        let sent = to_provider(&given, Api::Messages, Some("sk"));
        assert_eq!(
            sent,
            headers(&[("x-api-key", "sk"), ("anthropic-version", "2023-06-01")])
        );
        let sent = to_provider(&given, Api::Chat, Some("sk"));
        assert_eq!(
            sent,
            headers(&[
                ("authorization", "Bearer sk"),
                ("anthropic-version", "2023-06-01")
            ])
        );
        let own = to_provider(&given, Api::Chat, None);
        assert_eq!(
            own["authorization"], "Bearer pk_1",
            "where clients send keys of their own, those go on"
        );
        assert!(
            !own.contains_key("picktools-key")
                && !own.contains_key("cookie")
                && !own.contains_key("host")
        );
    }
}
