//! Programs that are started as servers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use picktools_mcp::{Connection, Handshake, Limits, SilentHandler};

/// Returns what a program without a handshake wrote to standard error.
async fn stderr_of(script: &str, handshake: Handshake) -> String {
    let server = Server {
        name: "test".to_owned(),
        transport: ServerTransport::Stdio {
            command: "python3".to_owned(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            variables: BTreeMap::from([("OWN".to_owned(), "own".to_owned())]),
            folder: None,
        },
        tools: ToolFilter::default(),
        call_timeout: None,
        scope: None,
    };
    let environment = |name: &str| match name {
        "PATH" => std::env::var_os("PATH"),
        "HTTPS_PROXY" | "XDG_CONFIG_HOME" | "SSH_AUTH_SOCK" | "API_KEY" => {
            Some(OsString::from("callers"))
        }
        _ => None,
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    let limits = Limits::default();
    let opened = Connection::open(
        &server,
        &environment,
        deadline,
        &limits,
        handshake,
        SilentHandler,
    );
    opened.await.expect_err("it ends").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn program_inherits_what_it_needs_for_the_network_and_no_secrets() {
    let script = "import os, sys\nprint(sorted(k for k, v in os.environ.items() if v in ('callers', 'own')), file=sys.stderr)";
    let said = stderr_of(script, Handshake::LegacyFirst).await;
    assert!(
        said.contains("['HTTPS_PROXY', 'OWN', 'SSH_AUTH_SOCK', 'XDG_CONFIG_HOME']"),
        "{said}"
    );
    assert!(said.contains("it ended before it answered"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_ends_at_the_newest_handshake_gets_the_older_one() {
    let script =
        "import json, sys\nprint(json.loads(sys.stdin.readline())['method'], file=sys.stderr)";
    let said = stderr_of(script, Handshake::NewestFirst).await;
    assert!(said.contains("\n  initialize"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_ends_at_once_is_described_in_plain_words() {
    for script in [
        "",
        "import sys; sys.stdin.close()",
        "import os; os._exit(0)",
    ] {
        for handshake in [Handshake::NewestFirst, Handshake::LegacyFirst] {
            let said = stderr_of(script, handshake).await;
            assert!(said.contains("it ended before it answered"), "{said}");
        }
    }
}
