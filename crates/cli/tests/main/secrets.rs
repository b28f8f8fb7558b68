//! Secrets of configurations, which no output may contain.

use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::Place;
use crate::gateway_http::Serving;

/// The secrets: of a query, a user, a password, a header and a variable.
const SECRETS: [&str; 5] = [
    "Zq9x7-of-query",
    "Zq9x7-of-user",
    "Zq9x7-of-password",
    "Zq9x7-of-header",
    "Zq9x7-of-variable",
];

/// Returns servers that fail in several ways.
fn servers() -> Value {
    let [query, user, password, header, variable] = SECRETS;
    let http = |address: &str| {
        let headers = json!({"Authorization": format!("Bearer {header}")});
        json!({"url": format!("http://{address}/mcp?key={query}"), "headers": headers})
    };
    let script = "import os, sys; sys.exit('cannot log in with ' + os.environ['LOGIN'])";
    json!({
        "closed": http("127.0.0.1:1"),
        "login": http(&format!("{user}:{password}@127.0.0.1:1")),
        "unknown": http("no-host.invalid"),
        "invalid": http("[::1"),
        "program": {"command": "python3", "args": ["-c", script], "env": {"LOGIN": variable}},
        "missing": {"command": "/no/such/program", "env": {"LOGIN": variable}},
    })
}

fn assert_no_secrets(what: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{what}: {secret} in {text}");
    }
}

fn run(place: &Place, arguments: &[&str]) -> Output {
    let configuration = place.path("mcp.json").display().to_string();
    picktools(&[arguments, &["--config", &configuration]].concat())
        .env("RUST_LOG", "debug")
        .env("PICKTOOLS_CACHE_DIR", place.path("cache"))
        .env("PICKTOOLS_DATA_DIR", place.path("data"))
        .stdin(Stdio::null())
        .output()
        .expect("it runs")
}

#[test]
fn outputs_contain_no_secrets_of_the_configuration() {
    let place = Place::with(&servers());
    for arguments in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["import", "mcp"],
        &["mcp"],
    ] {
        let output = run(&place, arguments);
        let text = format!("{}\n{}", stdout(&output), stderr(&output));
        let reports_servers = arguments != ["mcp"];
        assert!(!reports_servers || text.contains("program"), "{text}");
        assert_no_secrets(&arguments.join(" "), &text);
    }
    place.write("settings.json", &json!({"http": {"calls": true}}));
    let serving = Serving::start(place, &[]);
    for path in ["/health", "/v1/tools", "/metrics"] {
        let answer = serving.raw("GET", path, &[], "");
        assert_no_secrets(path, &answer.body);
    }
    for server in ["closed", "login", "program"] {
        let call = json!({"name": format!("{server}__echo"), "arguments": {}});
        let headers = [("Content-Type", "application/json")];
        let answer = serving.raw("POST", "/v1/call", &headers, &call.to_string());
        assert_no_secrets(server, &answer.body);
    }
}
