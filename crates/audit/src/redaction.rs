//! Texts without what looks like a key, a token, a password or an address of somebody.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";
/// From how many characters on letters and digits that are mixed look like a key, where no sign
/// parts them, and where some do.
const LONG: usize = 32;
const LONG_WITH_SIGNS: usize = 40;

/// Each with what of a match stays: nothing, or the group `kept`.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        // Private keys, as PEM.
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
        // Keys that say by their beginning what they are.
        r"\bpk_[0-9a-fA-F]{16,}|\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{16,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}|\bxox[a-z]-[A-Za-z0-9-]{8,}|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{30,}|\bhf_[A-Za-z0-9]{16,}|\bnpm_[A-Za-z0-9]{16,}",
        // JSON Web Tokens.
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?",
        r"(?i)(?P<kept>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}",
        // What is called a secret.
        r#"(?i)(?P<kept>\b[\w-]*(?:password|passwd|passphrase|secret|api[ _-]?key|access[ _-]?key|token|credentials?|pwd)\b["']?\s*(?:=|:|\bis\b)\s*["']?)[^\s"',;]+"#,
        // Addresses of machines with a password.
        r"(?P<kept>[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@:]*:[^\s/@]+(?:@)",
        // Addresses of people.
        r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)+",
    ];
    // Each of them is a pattern, which a test sees to.
    patterns
        .into_iter()
        .filter_map(|pattern| Regex::new(pattern).ok())
        .collect()
});

/// What may be a key that nothing else tells of.
static RUN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[A-Za-z0-9_+=-]{32,}").ok());

/// Replaces what looks like a secret or an address of somebody.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut told = Cow::Borrowed(text);
    for pattern in &*PATTERNS {
        let put = |found: &Captures<'_>| {
            let kept = found.name("kept").map_or("", |kept| kept.as_str());
            format!("{kept}{REDACTED}")
        };
        if let Cow::Owned(without) = pattern.replace_all(&told, put) {
            told = Cow::Owned(without);
        }
    }
    if let Some(run) = &*RUN {
        let put = |found: &Captures<'_>| match looks_random(&found[0]) {
            true => REDACTED.to_owned(),
            false => found[0].to_owned(),
        };
        if let Cow::Owned(without) = run.replace_all(&told, put)
            && without != told
        {
            told = Cow::Owned(without);
        }
    }
    told
}

/// Letters and digits that no word and no number has.
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
    is_mixed && longest >= LONG || digits && lower && upper && run.len() >= LONG_WITH_SIGNS
}

/// Replaces it in all texts of a value, and cuts each to so many bytes. Returns `true` if something
/// was replaced.
pub fn redact_value(value: &mut Value, most: usize) -> bool {
    match value {
        Value::String(text) => {
            let mut told = redact(text).into_owned();
            let has_secret = told != *text;
            if told.len() > most {
                told.truncate(told.floor_char_boundary(most));
                told.push('…');
            }
            *text = told;
            has_secret
        }
        // All are looked at, whatever the first has.
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |any, item| redact_value(item, most) | any),
        Value::Object(members) => members
            .values_mut()
            .fold(false, |any, member| redact_value(member, most) | any),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_patterns_are_patterns() {
        assert_eq!(PATTERNS.len(), 8);
        assert!(RUN.is_some());
    }

    #[test]
    fn what_looks_like_a_secret_or_an_address_is_replaced() {
        let jwt =
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U";
        let pem =
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----";
        for (text, told) in [
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
            assert_eq!(redact(text), told, "{text}");
        }
    }

    #[test]
    fn what_does_not_stays_as_it_is() {
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
    fn texts_within_values_are_replaced_and_cut() {
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
