//! A credential of a request.

use reqwest::header::{HeaderName, HeaderValue};

/// A credential for one security scheme.
pub(super) struct Credential {
    pub(super) part: CredentialPart,
    /// Texts that no message may contain, longest first.
    pub(super) secrets: Vec<String>,
}

/// The part of a request that carries a credential.
pub(super) enum CredentialPart {
    Header(HeaderName, HeaderValue),
    Query(String, String),
    Cookie(String, String),
}

/// Returns the name of a variable: the parts in capitals, with `_` in place of all but letters and
/// digits.
pub(super) fn variable_name(parts: &[&str]) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let mut words = Vec::new();
    for part in parts {
        words.push(part.chars().map(plain).collect::<String>());
    }
    words.join("_")
}
