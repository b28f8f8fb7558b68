//! `picktools status`: the state of the servers behind a running gateway.

use std::process::Output;

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::Place;
use crate::gateway_http::{Serving, digest};

/// Runs the command with a key in the variable `KEY`.
fn status(url: &str, arguments: &[&str]) -> Output {
    let arguments = [&["status", "--url", url], arguments].concat();
    picktools(&arguments)
        .env("KEY", "first")
        .env("OTHER", "second")
        .env_remove("PICKTOOLS_API_KEY")
        .output()
        .expect("it runs")
}

#[test]
fn status_needs_an_operator_and_prints_each_server() {
    let place = Place::faulty();
    let keys = json!([
        {"name": "ops", "sha256": digest("first"), "role": "operator"},
        {"name": "dev", "sha256": digest("second")},
    ]);
    let roles = json!({"operator": {"operator": true}});
    place.write("settings.json", &json!({"keys": keys, "roles": roles}));
    let serving = Serving::start(place, &[]);
    crate::gateway::eventually("the gateway asks its server", || {
        let output = status(&serving.url(), &["--bearer", "KEY", "--json"]);
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap_or_default();
        report["servers"][0]["state"] == "ok"
    });
    let output = status(&serving.url(), &["--bearer", "KEY"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let out = stdout(&output);
    for expected in ["server", "up", "25", "1 of 1 servers can be used: 25 tools"] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    for arguments in [&[][..], &["--bearer", "OTHER"]] {
        let output = status(&serving.url(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains("operator"), "{}", stderr(&output));
    }
}

#[test]
fn status_without_a_gateway_says_why() {
    for (url, arguments, reason) in [
        ("http://127.0.0.1:9", &[][..], "picktools serve"),
        ("ftp://127.0.0.1", &[], "not an http"),
        (
            "http://gateway.example",
            &["--bearer", "KEY"],
            "unencrypted",
        ),
        ("http://127.0.0.1:9", &["--bearer", "NOT_SET"], "NOT_SET"),
    ] {
        let output = status(url, arguments);
        assert_eq!(output.status.code(), Some(2), "{url} {arguments:?}");
        let err = stderr(&output);
        assert!(err.contains(reason), "{reason}: {err}");
        assert!(!err.contains("reqwest"), "{err}");
    }
}
