//! Programs that are started as servers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use picktools_mcp::{
    ConnectOptions, Connection, Handshake, Limits, ListKind, ListLimits, SilentHandler,
    ToolListCache,
};
use rmcp::model::{ElicitRequestParams, ElicitResult};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};

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
async fn last_output_has_no_values_of_variables() {
    let script =
        "import os, sys\nprint('no', os.environ['TOKEN'], os.environ['WIKI_KEY'], file=sys.stderr)";
    let mut server = python(script);
    if let ServerTransport::Stdio { variables, .. } = &mut server.transport {
        variables.insert("TOKEN".to_owned(), "hunter2-of-ada".to_owned());
    }
    let opened = open(&server, Handshake::LegacyFirst, None).await;
    let error = opened.expect_err("it ends");
    assert!(error.contains("no [redacted] [redacted]"), "{error}");
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

/// A server that lists endlessly. `CURSOR` is the expression of the next cursor.
const ENDLESS_SERVER: &str = r#"
import json, sys
page = 0
for line in sys.stdin:
    message = json.loads(line)
    method = message["method"]
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        answer["result"] = {"protocolVersion": "2025-06-18", **info}
    elif method == "tools/list" or method == "resources/list":
        page += 1
        name = f"n{page}-" + "x" * 1000
        items = [{"name": name, "uri": f"x://{page}", "inputSchema": {"type": "object"}}, {"bad": 1}]
        answer["result"] = {method.split("/")[0]: items, "nextCursor": CURSOR}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"#;

#[tokio::test(flavor = "multi_thread")]
async fn endless_lists_end_at_a_repeated_cursor_or_a_limit() {
    let limits = ListLimits {
        pages: 50,
        items: 30,
        bytes: 1 << 20,
    };
    let small = ListLimits {
        bytes: 10_000,
        items: 1_000,
        ..limits
    };
    for (cursor, limits, items, reason) in [
        ("\"same\"", limits, 4, "repeats a cursor"),
        ("\"\"", limits, 2, ""),
        ("str(page % 3)", limits, 8, "repeats a cursor"),
        ("str(page)", limits, 30, "more than 30 resources"),
        ("str(page)", small, 18, "more than 10000 bytes"),
        ("str(page) * 10000", limits, 2, "a cursor of its list"),
    ] {
        let server = python(&ENDLESS_SERVER.replace("CURSOR", cursor));
        let connection = open(&server, Handshake::LegacyFirst, None).await;
        let connection = connection.expect("it answers");
        let listing = connection.items(ListKind::Resources, &limits).await;
        let listing = listing.expect("a page");
        assert_eq!(listing.items.len(), items, "{cursor}");
        let incomplete = listing.incomplete.unwrap_or_default();
        assert!(incomplete.contains(reason), "{cursor}: {incomplete}");
        assert_eq!(incomplete.is_empty(), reason.is_empty(), "{incomplete}");
        let deadline = Instant::now() + Duration::from_secs(20);
        let tools = connection.tools(deadline, &Limits::default()).await;
        let tools = tools.expect("a page");
        let is_complete = tools.incomplete.is_none();
        assert_eq!(
            is_complete,
            reason.is_empty(),
            "{cursor}: {:?}",
            tools.incomplete
        );
        connection.end().await;
    }
}

/// A server that sends 500 requests before it reads an answer, then tells how many were refused in
/// the answer to a list of tools.
const FLOODING_SERVER: &str = r#"
import json, sys
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
refused = answered = 0
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        info = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
        send({"id": message["id"], "result": {"protocolVersion": "2025-06-18", **info}})
    elif method == "tools/list":
        asked = message["id"]
        for number in range(500):
            send({"id": f"p{number}", "method": METHOD, "params": PARAMS})
    elif method is None:
        refused += "error" in message and "at once" in message["error"]["message"]
        answered += 1
        if answered == COUNT:
            tool = {"name": f"refused {refused}", "inputSchema": {"type": "object"}}
            send({"id": asked, "result": {"tools": [tool]}})
"#;

#[derive(Clone)]
struct SlowHandler;

impl ClientHandler for SlowHandler {
    async fn create_elicitation(
        &self,
        _request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_server_above_the_limit_are_refused() {
    let script = FLOODING_SERVER
        .replace("METHOD", "\"elicitation/create\"")
        .replace(
            "PARAMS",
            r#"{"message": "?", "requestedSchema": {"type": "object", "properties": {}}}"#,
        )
        .replace("COUNT", "484");
    let options = ConnectOptions {
        environment: &|name: &str| std::env::var_os(name),
        deadline: Instant::now() + Duration::from_secs(30),
        limits: &Limits::default(),
        handshake: Handshake::LegacyFirst,
        cache: None,
    };
    let connection = Connection::open(&python(&script), &options, SlowHandler).await;
    let connection = connection.expect("it answers");
    let tools = connection.tools(options.deadline, options.limits).await;
    let tools = tools.expect("a list").tools;
    assert_eq!(tools[0]["name"], "refused 484");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_floods_without_reading_is_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let sent = folder.path().join("sent");
    let script = format!(
        r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        info = {{"capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "x", "version": "1"}}}}
        result = {{"protocolVersion": "2025-06-18", **info}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
    else:
        break
text = "x" * 10000
for number in range(10000):
    ping = {{"jsonrpc": "2.0", "id": number, "method": "ping", "params": {{"_meta": {{"a": text}}}}}}
    # The answers echo nothing, so the pipe of the answers fills late.
    print(json.dumps(ping), flush=True)
    open({sent:?}, "w").write(str(number + 1))
"#
    );
    let connection = open(&python(&script), Handshake::LegacyFirst, None).await;
    let connection = connection.expect("it answers");
    let deadline = Instant::now() + Duration::from_secs(6);
    drop(connection.tools(deadline, &Limits::default()).await);
    let count = || std::fs::read_to_string(&sent).unwrap_or_default();
    let before = count();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(before, count(), "the server is still read");
    let sent: u32 = before.parse().expect("a number");
    assert!(sent < 9_000, "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_floods_with_notifications_is_read_slowly() {
    let folder = tempfile::tempdir().expect("a folder");
    let sent = folder.path().join("sent");
    let script = format!(
        r#"
import json, sys, threading
def send(message):
    sys.stdout.write(json.dumps({{"jsonrpc": "2.0", **message}}) + "\n")
    sys.stdout.flush()
def flood():
    change = json.dumps({{"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}}) + "\n"
    answer = json.dumps({{"jsonrpc": "2.0", "id": "unknown", "result": {{}}}}) + "\n"
    sent = 0
    while True:
        sys.stdout.write((change + answer) * 50)
        sys.stdout.flush()
        sent += 100
        open({sent:?}, "w").write(f"{{sent:012}}")
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        info = {{"capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "x", "version": "1"}}}}
        send({{"id": message["id"], "result": {{"protocolVersion": "2025-06-18", **info}}}})
    elif message.get("method") == "tools/list":
        tool = {{"name": "one", "inputSchema": {{"type": "object"}}}}
        send({{"id": message["id"], "result": {{"tools": [tool]}}}})
        threading.Thread(target=flood, daemon=True).start()
"#
    );
    let connection = open(&python(&script), Handshake::LegacyFirst, None).await;
    let connection = connection.expect("it answers");
    let deadline = Instant::now() + Duration::from_secs(20);
    let tools = connection.tools(deadline, &Limits::default()).await;
    assert_eq!(tools.expect("a list").tools[0]["name"], "one");
    let count = || -> u64 {
        let text = std::fs::read_to_string(&sent).unwrap_or_default();
        text.parse().unwrap_or_default()
    };
    while count() < 22_000 {
        assert!(Instant::now() < deadline, "{}", count());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let before = count();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let read = count() - before;
    assert!((500..4_000).contains(&read), "{read} messages in 2 s");
}
