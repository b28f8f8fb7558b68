//! Redaction of keys, tokens, passwords and e-mail addresses in texts.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// The replacement for a secret.
const REDACTED: &str = "[redacted]";
/// The least length of mixed letters and digits that look like a key: one run without a separator,
/// and a text with separators.
const MIN_RUN: usize = 32;
const MIN_RUN_WITH_SEPARATORS: usize = 40;

/// Patterns of secrets. The group `kept`, if any, is not replaced.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        // Private keys, as PEM.
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        // Keys with a known prefix.
        r"\bpk_[0-9a-fA-F]{16,}|\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{16,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}|\bxox[a-z]-[A-Za-z0-9-]{8,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{30,}|\bhf_[A-Za-z0-9]{16,}|\bnpm_[A-Za-z0-9]{16,}",
        // JSON Web Tokens.
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?",
        r"(?i)(?P<kept>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}",
        // Values that a name marks as secret.
        r#"(?i)(?P<kept>\b[\w-]*(?:password|passwd|passphrase|secret|api[ _-]?key|access[ _-]?key|token|credentials?|pwd)\b["']?\s*(?:=|:|\bis\b)\s*["']?)[^\s"',;]+"#,
        // URLs with a password.
        r"(?P<kept>[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@:]*:[^\s/@]+(?:@)",
        // E-mail addresses.
        r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)+",
    ];
    // A test checks that every pattern is valid.
    patterns
        .into_iter()
        .filter_map(|pattern| Regex::new(pattern).ok())
        .collect()
});

/// A run of characters that may be an unmarked key.
static RUN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[A-Za-z0-9_+=-]{32,}").ok());

/// Replaces texts that look like a secret or an e-mail address.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut redacted = Cow::Borrowed(text);
    for pattern in &*PATTERNS {
        let replacement = |captures: &Captures<'_>| {
            let prefix = captures.name("kept").map_or("", |prefix| prefix.as_str());
            format!("{prefix}{REDACTED}")
        };
        if let Cow::Owned(replaced) = pattern.replace_all(&redacted, replacement) {
            redacted = Cow::Owned(replaced);
        }
    }
    if let Some(run) = &*RUN {
        let replacement = |captures: &Captures<'_>| match looks_random(&captures[0]) {
            true => REDACTED.to_owned(),
            false => captures[0].to_owned(),
        };
        if let Cow::Owned(replaced) = run.replace_all(&redacted, replacement)
            && replaced != redacted
        {
            redacted = Cow::Owned(replaced);
        }
    }
    redacted
}

/// Returns `true` for a mix of letters and digits that is neither a word nor a number.
fn looks_random(run: &str) -> bool {
    let has = |is: fn(&char) -> bool| run.chars().any(|c| is(&c));
    let (digits, lower, upper) = (
        has(char::is_ascii_digit),
        has(char::is_ascii_lowercase),
        has(char::is_ascii_uppercase),
    );
    let longest = run
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(str::len)
        .max()
        .unwrap_or_default();
    let is_mixed = digits && (lower || upper);
    is_mixed && longest >= MIN_RUN
        || digits && lower && upper && run.len() >= MIN_RUN_WITH_SEPARATORS
}

/// Redacts all texts of a value and cuts each to a number of bytes. Returns `true` if something was
/// redacted.
pub fn redact_value(value: &mut Value, max_bytes: usize) -> bool {
    match value {
        Value::String(text) => {
            let mut redacted = redact(text).into_owned();
            let has_secret = redacted != *text;
            if redacted.len() > max_bytes {
                redacted.truncate(redacted.floor_char_boundary(max_bytes));
                redacted.push('…');
            }
            *text = redacted;
            has_secret
        }
        // Every item is visited, even after a hit.
        Value::Array(items) => {
            let mut any_redacted = false;
            for item in items {
                any_redacted |= redact_value(item, max_bytes);
            }
            any_redacted
        }
        Value::Object(members) => {
            let mut any_redacted = false;
            for member in members.values_mut() {
                any_redacted |= redact_value(member, max_bytes);
            }
            any_redacted
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_patterns_compile() {
        assert_eq!(PATTERNS.len(), 8);
        assert!(RUN.is_some());
    }

    #[test]
    fn secrets_and_addresses_are_replaced() {
        let jwt =
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";
        let pem =
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----";
        for (text, expected) in [
            (
                "use sk-proj-abcdefghijklmnop1234 for it",
                "use [redacted] for it",
            ),
            ("ghp_abcdefghijklmnopqrst1234", "[redacted]"),
            ("key AKIAIOSFODNN7EXAMPLE now", "key [redacted] now"),
            (&format!("send {jwt} on"), "send [redacted] on"),
            (
                &format!("sign with\n{pem}\nplease"),
                "sign with\n[redacted]\nplease",
            ),
            (
                "Authorization: Bearer abcdef123456.xyz",
                "Authorization: Bearer [redacted]",
            ),
            (
                "my password is hunter2, log me in",
                "my password is [redacted], log me in",
            ),
            ("{\"api_key\": \"abc\"}", "{\"api_key\": \"[redacted]\"}"),
            ("DB_PASSWORD=s3cr3t psql", "DB_PASSWORD=[redacted] psql"),
            (
                "clone https://ada:pw@example.org/x",
                "clone https://[redacted]example.org/x",
            ),
            (
                "mail ada.lovelace@example.org today",
                "mail [redacted] today",
            ),
            ("mail jürgen@müller.example", "mail [redacted]"),
            ("0123456789abcdef0123456789abcdef is it", "[redacted] is it"),
            ("a1B2c3D4-e5F6g7H8_i9J0k1L2-m3N4o5P6q7R8s9T0", "[redacted]"),
        ] {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn other_texts_are_unchanged() {
        for text in [
            "",
            "list the open pull requests of picktools",
            "what does the token budget mean?",
            "reset the password of a user",
            "read /usr/share/doc/a-long-name-of-a-folder/report-2024-final-version.txt",
            "the invoice 20240131000000000000000000000000000000",
            "https://example.org/a?page=2 and @ada",
            "delete 550e8400-e29b-41d4-a716-446655440000",
            "a_very_long_name_of_a_function_that_nobody_would_write_2",
            "日本語のテキスト",
        ] {
            assert_eq!(redact(text), text);
        }
    }

    #[test]
    fn texts_in_values_are_redacted_and_cut() {
        let mut value = json!({"to": ["ada@example.org", 1], "body": "x".repeat(50), "n": null});
        assert!(redact_value(&mut value, 10));
        assert_eq!(
            value,
            json!({"to": ["[redacted]", 1], "body": format!("{}…", "x".repeat(10)), "n": null})
        );
        assert!(
            !redact_value(&mut json!({"a": "long enough to be cut"}), 4),
            "what is cut is no secret"
        );
    }
}
