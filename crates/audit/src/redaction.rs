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
        // Keys with a known prefix, also after `_`, as in names of files.
        r"(?P<kept>^|[^A-Za-z0-9])(?:pk_[0-9a-fA-F]{16,}|(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})",
        r"(?P<kept>^|[^A-Za-z0-9])(?:glpat-[A-Za-z0-9_-]{16,}|xox[a-z]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[0-9A-Z]{16}\b|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,})",
        // Keys and tokens of Google.
        r"(?P<kept>^|[^A-Za-z0-9])(?:AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z._-]{16,}|GOCSPX-[0-9A-Za-z_-]{16,}|1//0[0-9A-Za-z_-]{20,})",
        // JSON Web Tokens.
        r"(?P<kept>^|[^A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?",
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

/// Names of members with secret values: a name is secret if one of its words is one of these.
const SECRET_WORDS: [&str; 10] = [
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
];
/// Words before `key` that make a name secret.
const KEY_WORDS: [&str; 7] = [
    "access",
    "account",
    "api",
    "auth",
    "encryption",
    "private",
    "signing",
];

/// Returns `true` if the name of a member says that its value is secret, such as `clientSecret`.
fn names_secret(name: &str) -> bool {
    let words = split_words(name);
    let is_key = |pair: &[String]| match pair {
        [first, second] => second == "key" && KEY_WORDS.contains(&first.as_str()),
        _ => false,
    };
    words
        .iter()
        .any(|word| SECRET_WORDS.contains(&word.as_str()))
        || words.last().is_some_and(|word| word == "token")
        || words.windows(2).any(is_key)
}

/// Splits a name such as `clientSecret` or `client_secret` into words in small letters.
fn split_words(name: &str) -> Vec<String> {
    let (mut words, mut word, mut was_lower) = (Vec::new(), String::new(), false);
    for character in name.chars() {
        let begins = character.is_uppercase() && was_lower;
        if (begins || !character.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase() || character.is_numeric();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Replaces all texts and numbers of a value. Returns `true` if there were any.
fn redact_completely(value: &mut Value) -> bool {
    match value {
        Value::String(text) if text.is_empty() => false,
        Value::String(_) | Value::Number(_) => {
            *value = Value::String(REDACTED.to_owned());
            true
        }
        Value::Array(items) => {
            let mut any = false;
            for item in items {
                any |= redact_completely(item);
            }
            any
        }
        Value::Object(members) => {
            let mut any = false;
            for member in members.values_mut() {
                any |= redact_completely(member);
            }
            any
        }
        Value::Null | Value::Bool(_) => false,
    }
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
            for (name, member) in members {
                any_redacted |= match names_secret(name) {
                    true => redact_completely(member),
                    false => redact_value(member, max_bytes),
                };
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
        assert_eq!(PATTERNS.len(), 9);
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
            (
                "open backup_ghp_abcdefghijklmnopqrst1234",
                "open backup_[redacted]",
            ),
            ("ya29.a0AfH6SMBx-abcdefghij_k now", "[redacted] now"),
            (
                "use AIzaSyA-abcdefghijklmnopqrstuvwxyz12345 here",
                "use [redacted] here",
            ),
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
    fn members_with_secret_names_are_replaced() {
        let mut value = json!({
            "password": "x", "clientSecret": "y", "API_KEY": 12, "secretAccessKey": ["z"],
            "headers": {"Authorization": "short", "Accept": "text/html"},
            "token": "", "max_tokens": 5, "keyboard": "qwerty", "monkey": "chimp", "key": "PROJ-1"
        });
        assert!(redact_value(&mut value, 100));
        let redacted = "[redacted]";
        assert_eq!(
            value,
            json!({
                "password": redacted, "clientSecret": redacted, "API_KEY": redacted,
                "secretAccessKey": [redacted],
                "headers": {"Authorization": redacted, "Accept": "text/html"},
                "token": "", "max_tokens": 5, "keyboard": "qwerty", "monkey": "chimp",
                "key": "PROJ-1"
            })
        );
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
