//! The headers that are forwarded to the provider and back.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use picktools_state::keys::contains_key;

use crate::api::ModelApi;

/// The header of the gateway's key, for clients that also send a key of the provider.
pub(crate) const PICKTOOLS_KEY: HeaderName = HeaderName::from_static("picktools-key");
/// Anthropic's header of the API key.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// The hop-by-hop headers (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];
/// The headers that are not forwarded to a provider: they describe the request to the proxy, or
/// come from a browser.
const NOT_FORWARDED: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::COOKIE,
    header::ORIGIN,
    header::REFERER,
];

/// Returns the end-to-end headers of a message.
pub(crate) fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    let mut connection_names: Vec<HeaderName> = Vec::new();
    for value in headers.get_all(header::CONNECTION) {
        let names = value.to_str().unwrap_or_default().split(',');
        connection_names.extend(names.filter_map(|name| name.trim().parse().ok()));
    }
    let mut forwarded = HeaderMap::new();
    for (name, value) in headers {
        // Only the proxy itself sends `picktools-` headers.
        let is_dropped = HOP_BY_HOP.contains(name)
            || connection_names.contains(name)
            || name.as_str().starts_with("picktools-");
        if !is_dropped {
            forwarded.append(name.clone(), value.clone());
        }
    }
    forwarded
}

/// Returns the names of the headers that contain a key of a gateway. The provider must not get it.
fn names_with_gateway_key(headers: &HeaderMap) -> Vec<HeaderName> {
    let has_key = |value: &HeaderValue| contains_key(&String::from_utf8_lossy(value.as_bytes()));
    let with_key = headers.iter().filter(|(_, value)| has_key(value));
    with_key.map(|(name, _)| name.clone()).collect()
}

/// Returns `true` if a request authenticates at the provider with a key of a gateway.
pub(crate) fn sends_gateway_key(headers: &HeaderMap) -> bool {
    let names = names_with_gateway_key(headers);
    names.contains(&header::AUTHORIZATION) || names.contains(&API_KEY)
}

/// Returns the headers of a request to the provider.
///
/// If the gateway has the provider's key, it replaces the keys of the client.
pub(crate) fn provider_headers(headers: &HeaderMap, api: ModelApi, key: Option<&str>) -> HeaderMap {
    let mut headers = end_to_end_headers(headers);
    for name in NOT_FORWARDED.iter().chain([&PICKTOOLS_KEY]) {
        headers.remove(name);
    }
    for name in names_with_gateway_key(&headers) {
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

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
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
    fn hop_by_hop_headers_are_not_forwarded() {
        let received = headers(&[
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
        assert_eq!(end_to_end_headers(&received), expected);
    }

    #[test]
    fn gateway_key_is_never_forwarded() {
        let key = format!("pk_{}", "0123456789abcdef".repeat(4));
        let value = |text: String| HeaderValue::from_str(&text).expect("a value");
        let mut received = HeaderMap::new();
        received.insert(header::AUTHORIZATION, value(format!("Bearer {key}")));
        received.insert("api-key", value(key));
        received.insert("x-api-key", HeaderValue::from_static("sk-of-the-provider"));
        assert!(sends_gateway_key(&received));
        let sent = provider_headers(&received, ModelApi::Messages, None);
        assert_eq!(sent, headers(&[("x-api-key", "sk-of-the-provider")]));
    }

    #[test]
    fn gateway_key_is_replaced_by_the_key_of_the_provider() {
        let received = headers(&[
            ("authorization", "Bearer pk_1"),
            ("x-api-key", "pk_1"),
            ("picktools-key", "pk_1"),
            ("cookie", "session=1"),
            ("host", "127.0.0.1"),
            ("anthropic-version", "2023-06-01"),
        ]);
        let sent = provider_headers(&received, ModelApi::Messages, Some("sk"));
        assert_eq!(
            sent,
            headers(&[("x-api-key", "sk"), ("anthropic-version", "2023-06-01")])
        );
        let sent = provider_headers(&received, ModelApi::Chat, Some("sk"));
        assert_eq!(
            sent,
            headers(&[
                ("authorization", "Bearer sk"),
                ("anthropic-version", "2023-06-01")
            ])
        );
        let sent = provider_headers(&received, ModelApi::Chat, None);
        assert_eq!(
            sent["authorization"], "Bearer pk_1",
            "the client's own key is forwarded"
        );
        assert!(
            !sent.contains_key("picktools-key")
                && !sent.contains_key("cookie")
                && !sent.contains_key("host")
        );
    }
}
