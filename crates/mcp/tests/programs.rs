//! Programs that are started as servers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use picktools_mcp::{ConnectOptions, Connection, Handshake, Limits, SilentHandler, ToolListCache};

/// Returns a server that runs a Python script.
fn python(script: &str) -> Server {
    Server {
        name: "test".to_owned(),
        transport: ServerTransport::Stdio {
            command: "python3".to_owned(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            variables: BTreeMap::from([("OWN".to_owned(), "own".to_owned())]),
            folder: None,
            inherit: vec!["WIKI_KEY".to_owned(), "NOT_SET".to_owned()],
        },
        tools: ToolFilter::default(),
        call_timeout: None,
        scope: None,
    }
}

async fn open(
    server: &Server,
    handshake: Handshake,
    cache: Option<&ToolListCache>,
) -> Result<Connection, String> {
    let environment = |name: &str| match name {
        "PATH" => std::env::var_os("PATH"),
        "HTTPS_PROXY" | "XDG_CONFIG_HOME" | "SSH_AUTH_SOCK" | "API_KEY" | "WIKI_KEY" => {
            Some(OsString::from("callers"))
        }
        _ => None,
    };
    let options = ConnectOptions {
        environment: &environment,
        deadline: Instant::now() + Duration::from_secs(30),
        limits: &Limits::default(),
        handshake,
        cache,
    };
    let opened = Connection::open(server, &options, SilentHandler).await;
    opened.map_err(|error| error.to_string())
}

/// Returns what a program without a handshake wrote to standard error.
async fn stderr_of(script: &str, handshake: Handshake) -> String {
    let opened = open(&python(script), handshake, None).await;
    opened.expect_err("it ends")
}

/// A server that writes the method of its first message to a file, and ends if that is not
/// `accepted`, which is another file.
const PICKY_SERVER: &str = r#"
import json, sys
def send(id, result):
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
first = True
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if first:
        open(FOLDER + "/starts", "a").write(method + "\n")
        if method != open(FOLDER + "/accepted").read():
            sys.exit(1)
    first = False
    info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
    if method == "initialize":
        send(message["id"], {"protocolVersion": "2025-06-18", **info})
    elif method == "server/discover":
        send(message["id"], {"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "ttlMs": 0, "cacheScope": "private", **info})
"#;

#[tokio::test(flavor = "multi_thread")]
async fn handshake_that_worked_is_remembered_for_all_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    let server = python(&format!("FOLDER = {path:?}\n{PICKY_SERVER}"));
    let cache = ToolListCache::new(folder.path().join("cache"));
    let accept = |method: &str| {
        std::fs::write(folder.path().join("accepted"), method).expect("it is written");
        drop(std::fs::remove_file(folder.path().join("starts")));
    };
    let starts = || std::fs::read_to_string(folder.path().join("starts")).unwrap_or_default();
    let connect = async |handshake| {
        let connection = open(&server, handshake, Some(&cache)).await;
        connection.expect("it answers").end().await;
    };
    accept("initialize");
    connect(Handshake::NewestFirst).await;
    assert_eq!(starts(), "server/discover\ninitialize\n");
    accept("initialize");
    connect(Handshake::NewestFirst).await;
    connect(Handshake::LegacyFirst).await;
    connect(Handshake::NewestFirst).await;
    assert_eq!(starts(), "initialize\n".repeat(3));
    // A remembered handshake that fails is replaced by the other one.
    accept("server/discover");
    connect(Handshake::NewestFirst).await;
    assert_eq!(starts(), "initialize\nserver/discover\n");
    accept("server/discover");
    connect(Handshake::LegacyFirst).await;
    connect(Handshake::NewestFirst).await;
    assert_eq!(starts(), "server/discover\n".repeat(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn program_inherits_what_it_needs_for_the_network_and_no_secrets() {
    let script = "import os, sys\nprint(sorted(k for k, v in os.environ.items() if v in ('callers', 'own')), file=sys.stderr)";
    let said = stderr_of(script, Handshake::LegacyFirst).await;
    assert!(
        said.contains("['HTTPS_PROXY', 'OWN', 'SSH_AUTH_SOCK', 'WIKI_KEY', 'XDG_CONFIG_HOME']"),
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
