//! Answers of token endpoints, with lifetimes that programs understand and without the client's
//! secret.

use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::Value;

/// The longest lifetime of a token, in seconds. A longer one means the same.
const MAX_LIFETIME: f64 = 31_536_000.0;
/// The members that are tokens.
const TOKENS: [&str; 3] = ["access_token", "refresh_token", "id_token"];
/// The shortest secret that is searched for. A shorter one is part of ordinary words.
const MIN_SECRET_CHARS: usize = 4;
/// The replacement for the secret.
const REDACTED: &str = "[redacted]";

/// A client of a token endpoint that corrects the answers.
pub(super) struct TokenClient<C> {
    client: C,
    secret: String,
}

impl<C> TokenClient<C> {
    pub(super) fn new(client: C, secret: String) -> Self {
        Self { client, secret }
    }
}

impl<C: OAuthHttpClient> OAuthHttpClient for TokenClient<C> {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let response = self.client.execute(request).await?;
            Ok(response.map(|body| corrected(body, &self.secret)))
        })
    }
}

/// Returns an answer with a lifetime in whole seconds, and without the secret.
fn corrected(body: Vec<u8>, secret: &str) -> Vec<u8> {
    let Ok(mut answer) = serde_json::from_slice::<Value>(&body) else {
        let text = String::from_utf8_lossy(&body);
        return match is_contained(&text, secret) {
            true => text.replace(secret, REDACTED).into_bytes(),
            false => body,
        };
    };
    if let Some(members) = answer.as_object_mut() {
        if let Some(lifetime) = members.remove("expires_in")
            && let Some(seconds) = lifetime_seconds(&lifetime)
        {
            members.insert("expires_in".to_owned(), seconds.into());
        }
        for (name, member) in members {
            if !TOKENS.contains(&name.as_str()) {
                remove_secret(member, secret);
            }
        }
    }
    answer.to_string().into_bytes()
}

/// Returns a lifetime in whole seconds. Without a positive number, the token holds until the server
/// rejects it.
fn lifetime_seconds(lifetime: &Value) -> Option<u64> {
    let seconds = match lifetime {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    let is_positive = seconds.is_finite() && seconds > 0.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 1 and a year"
    )]
    is_positive.then(|| seconds.clamp(1.0, MAX_LIFETIME) as u64)
}

fn is_contained(text: &str, secret: &str) -> bool {
    secret.chars().count() >= MIN_SECRET_CHARS && text.contains(secret)
}

fn remove_secret(value: &mut Value, secret: &str) {
    match value {
        Value::String(text) if is_contained(text, secret) => {
            *text = text.replace(secret, REDACTED);
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| remove_secret(item, secret)),
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| remove_secret(member, secret)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn corrected_json(answer: &Value) -> Value {
        let body = corrected(answer.to_string().into_bytes(), "hunter2");
        serde_json::from_slice(&body).expect("JSON")
    }

    #[test]
    fn lifetimes_become_whole_seconds() {
        for (lifetime, expected) in [
            (json!(3600), json!(3600)),
            (json!("3600"), json!(3600)),
            (json!(" 60 "), json!(60)),
            (json!(59.9), json!(59)),
            (json!("0.5"), json!(1)),
            (json!(0), Value::Null),
            (json!(-5), Value::Null),
            (json!("soon"), Value::Null),
            (json!(null), Value::Null),
            (json!(1e300), json!(31_536_000)),
            (json!(u64::MAX), json!(31_536_000)),
        ] {
            let answer = json!({"access_token": "a", "expires_in": lifetime});
            assert_eq!(corrected_json(&answer)["expires_in"], expected, "{answer}");
        }
    }

    #[test]
    fn echoed_secret_is_removed() {
        let answer = json!({
            "error": "invalid_client",
            "error_description": "wrong secret hunter2 of client one",
            "more": [{"sent": "hunter2"}]
        });
        assert!(!corrected_json(&answer).to_string().contains("hunter2"));
        let page = corrected(b"<p>secret hunter2".to_vec(), "hunter2");
        assert_eq!(page, b"<p>secret [redacted]");
        let tokens = json!({"access_token": "hunter2-token"});
        assert_eq!(corrected_json(&tokens), tokens);
    }
}
