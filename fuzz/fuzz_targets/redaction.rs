//! Redaction: no secret of a known shape survives between two arbitrary texts.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools_audit::{redact, redact_value};
use serde_json::json;

/// Secrets, each with the part that must not survive.
const SECRETS: [(&str, &str); 12] = [
    ("sk-proj-q7Zk2LmX9vTcR4wB1nYd", "q7Zk2LmX9vTcR4wB1nYd"),
    ("ghp_q7Zk2LmX9vTcR4wB1nYd", "q7Zk2LmX9vTcR4wB1nYd"),
    ("github_pat_q7Zk2LmX9vTcR4wB1nYd", "q7Zk2LmX9vTcR4wB1nYd"),
    ("glpat-q7Zk2LmX9vTcR4wB1nYd", "q7Zk2LmX9vTcR4wB1nYd"),
    ("xoxb-q7Zk2LmX9vTcR4wB1nYd", "q7Zk2LmX9vTcR4wB1nYd"),
    ("AKIAQ7ZK2LMX9VTCR4WB", "Q7ZK2LMX9VTCR4WB"),
    (
        "AIzaq7Zk2LmX9vTcR4wB1nYdq7Zk2LmX9vTcR4w",
        "q7Zk2LmX9vTcR4wB1nYd",
    ),
    (
        "eyJhbGciOiJIUzI1NiJ9.q7Zk2LmX9vTcR4wB1nYd.c2ln",
        "q7Zk2LmX9vTcR4wB1nYd",
    ),
    ("Bearer q7Zk2LmX9vTcR4wB1nYd", "q7Zk2LmX9vTcR4wB1nYd"),
    ("password=q7Zk2LmX9vTcR4wB1nYd", "q7Zk2LmX9vTcR4wB1nYd"),
    (
        "https://me:q7Zk2LmX9vTcR4wB1nYd@example.com/",
        "q7Zk2LmX9vTcR4wB1nYd",
    ),
    (
        "q7Zk2LmX9vTcR4wB1nYdq7Zk2LmX9vTcR4wB1nYd",
        "q7Zk2LmX9vTcR4wB1nYd",
    ),
];

fuzz_target!(|input: (u8, &str, &str)| {
    let (choice, before, after) = input;
    let (secret, hidden) = SECRETS[usize::from(choice) % SECRETS.len()];
    let text = format!("{before}\n{secret}\n{after}");
    if before.contains(hidden) || after.contains(hidden) {
        return;
    }
    let redacted = redact(&text);
    assert!(!redacted.contains(hidden), "{text:?} became {redacted:?}");
    let mut value = json!({"text": [before, text], "client_secret": after});
    redact_value(&mut value, 100);
    let shown = value.to_string();
    assert!(!shown.contains(hidden), "{text:?} became {shown}");
});
