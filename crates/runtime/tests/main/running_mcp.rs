//! Tests of MCP tools, with a test server and with third-party servers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use picktools::{Access, Tool};
use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use picktools_provider::{Arguments, ToolCall};
use picktools_runtime::{ErrorType, EventType, McpServer, McpTool, ToolManager, ToolResult, Topic};
use picktools_testing::root;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tools of the test server.
const TOOLS: [&str; 11] = [
    "echo",
    "progress",
    "structured",
    "parts",
    "long",
    "fails",
    "dies",
    "huge",
    "pid",
    "invalid",
    "hangs",
];

fn server(command: &str, arguments: &[&str]) -> Arc<McpServer> {
    let way = ServerTransport::Stdio {
        command: command.to_owned(),
        arguments: arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect(),
        variables: BTreeMap::new(),
        folder: None,
        inherit: Vec::new(),
    };
    let server = McpServer::new(Server {
        name: "tools".to_owned(),
        transport: way,
        tools: ToolFilter::default(),
        call_timeout: None,
        scope: None,
    });
    // The library does not read the environment; the test does.
    Arc::new(server.environment(|name| std::env::var_os(name)))
}

fn open(name: &str) -> Tool {
    Tool::with_parameters(name, "", json!({"type": "object"}))
}

fn manager(server: &Arc<McpServer>, tools: &[&str], limit: Duration) -> ToolManager {
    let builder = ToolManager::builder(Access::default()).time_limit(limit);
    let add = |builder, name: &&str| {
        picktools_runtime::ToolManagerBuilder::tool(
            builder,
            McpTool::new(open(name), Arc::clone(server)),
        )
    };
    tools
        .iter()
        .fold(builder, add)
        .build()
        .expect("it is valid")
}

/// A test server, with the log of the messages that it receives.
struct TestServer {
    manager: ToolManager,
    server: Arc<McpServer>,
    folder: TempDir,
}

impl TestServer {
    fn new(limit: Duration) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log").display().to_string();
        let server = server(
            "python3",
            &[
                &root("crates/runtime/tests/servers/tools.py")
                    .display()
                    .to_string(),
                &log,
            ],
        );
        Self {
            manager: manager(&server, &TOOLS, limit),
            server,
            folder,
        }
    }

    fn patient() -> Self {
        Self::new(Duration::from_secs(60))
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn run(&self, name: &str, arguments: Value) -> ToolResult {
        run(&self.manager, name, arguments).await
    }
}

async fn run(manager: &ToolManager, name: &str, arguments: Value) -> ToolResult {
    let call = ToolCall {
        id: None,
        name: name.to_owned(),
        arguments: Arguments::Json(arguments),
    };
    manager.clear_current_turn();
    manager.execute(&call).await.result.as_ref().clone()
}

fn kind(result: &ToolResult) -> Option<ErrorType> {
    result.failure.as_ref().map(|failure| failure.error_type)
}

/// Waits until a condition becomes true; `false` after a timeout.
async fn becomes_true(what: impl Fn() -> bool) -> bool {
    for _ in 0..200 {
        if what() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn results_have_texts_structured_content_and_other_parts() {
    let fake = TestServer::patient();
    assert!(fake.log().is_empty(), "it is started by the first call");
    let echo = fake.run("echo", json!({"text": "hello"})).await;
    assert_eq!(
        json!(echo),
        json!({"success": true, "error": "", "text": "hello"})
    );
    let structured = fake.run("structured", json!({})).await;
    assert_eq!(
        json!(structured),
        json!({"success": true, "error": "", "structured": {"n": 1}})
    );
    let parts = fake.run("parts", json!({})).await;
    assert_eq!(
        json!(parts),
        json!({"success": true, "error": "", "text": "see", "parts": [
            {"type": "image", "mime_type": "image/png", "bytes": 5, "data": "aGVsbG8="},
            {"type": "audio", "mime_type": "audio/wav", "bytes": 1_500_000, "data_left_out": true},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mime_type": "text/plain", "bytes": 12},
            {"type": "resource", "uri": "file:///b", "bytes": 3, "text": "bee"},
            {"type": "hologram", "uri": "x"},
        ]})
    );
    let long = fake.run("long", json!({})).await;
    assert_eq!(long.fields["text"].as_str().map(str::len), Some(1 << 20));
    assert_eq!(
        long.fields["text_left_out"],
        format!("{} bytes", 3_000_000 - (1 << 20))
    );
    assert_eq!(fake.log(), ["started"], "all of them share one server");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_a_server_map_to_error_types() {
    let fake = TestServer::patient();
    let fails = fake.run("fails", json!({})).await;
    assert_eq!(kind(&fails), Some(ErrorType::User));
    assert!(
        fails.error().ends_with("no such city; try Bergen"),
        "{fails:?}"
    );
    let invalid = fake.run("invalid", json!({})).await;
    assert_eq!(kind(&invalid), Some(ErrorType::Validation));
    assert!(invalid.error().contains("city is required"), "{invalid:?}");
    let missing = server("no-such-program-anywhere", &[]);
    let missing = run(
        &manager(&missing, &["echo"], Duration::from_secs(60)),
        "echo",
        json!({}),
    )
    .await;
    assert_eq!(kind(&missing), Some(ErrorType::System));
    assert!(missing.error().contains("cannot be started"), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_becomes_output_chunks() {
    let fake = TestServer::patient();
    let mut chunks = fake
        .manager
        .events()
        .subscribe(Topic::Only(EventType::Chunk));
    fake.run("progress", json!({})).await;
    let told: Vec<Value> = std::iter::from_fn(|| chunks.try_next())
        .map(|received| json!(*received.event))
        .collect();
    let told: Vec<&str> = told
        .iter()
        .filter_map(|event| event["data"]["chunk"].as_str())
        .collect();
    // All notifications arrive in order, although the answer follows immediately.
    let expected: Vec<String> = (1..=100)
        .map(|step| format!("{step} of 100: step {step}\n"))
        .collect();
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_share_a_connection_and_get_their_answers() {
    let fake = TestServer::patient();
    let calls: Vec<ToolCall> = (0..8)
        .map(|n| ToolCall {
            id: None,
            name: "echo".to_owned(),
            // The first call takes longest.
            arguments: Arguments::Json(
                json!({"text": n.to_string(), "seconds": f64::from(8 - n) / 20.0}),
            ),
        })
        .collect();
    let executed = fake.manager.execute_all(&calls).await;
    let texts: Vec<&Value> = executed
        .iter()
        .map(|executed| &executed.result.fields["text"])
        .collect();
    assert_eq!(texts, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(fake.log(), ["started"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_server_is_reported_and_restarts_on_the_next_call() {
    let fake = TestServer::patient();
    let died = fake.run("dies", json!({})).await;
    assert_eq!(kind(&died), Some(ErrorType::System));
    assert!(
        died.error().contains("it ended") && died.error().contains("out of memory\n  bye"),
        "{died:?}"
    );
    assert_eq!(
        fake.run("echo", json!({"text": "again"})).await.fields["text"],
        "again"
    );
    let huge = fake.run("huge", json!({})).await;
    assert!(
        huge.error()
            .contains("a message of more than 16777216 bytes"),
        "{huge:?}"
    );
    assert_eq!(
        fake.run("echo", json!({"text": "and again"})).await.fields["text"],
        "and again"
    );
    assert_eq!(fake.log(), ["started"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn late_or_cancelled_call_is_cancelled_at_the_server() {
    let fake = TestServer::new(Duration::from_millis(1_500));
    assert!(answers_soon(&fake).await);
    let started = Instant::now();
    let late = fake.run("hangs", json!({})).await;
    assert!(late.error().contains("did not end within 1.5s"), "{late:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
    let is_cancelled = |count| {
        let log = fake.log();
        let ids: Vec<&str> = log
            .iter()
            .filter_map(|line| line.strip_prefix("hangs "))
            .collect();
        ids.len() == count
            && ids
                .iter()
                .all(|id| log.contains(&format!("cancelled {id}")))
    };
    assert!(becomes_true(|| is_cancelled(1)).await, "{:?}", fake.log());
    // A call whose future is dropped.
    drop(
        tokio::time::timeout(
            Duration::from_millis(300),
            fake.run("hangs", json!({"again": 1})),
        )
        .await,
    );
    assert!(becomes_true(|| is_cancelled(2)).await, "{:?}", fake.log());
    assert_eq!(
        fake.run("echo", json!({"text": "still"})).await.fields["text"],
        "still"
    );
    assert_eq!(
        fake.log().iter().filter(|line| *line == "started").count(),
        1
    );
}

/// Repeats a call until the server answers.
async fn answers_soon(fake: &TestServer) -> bool {
    for _ in 0..50 {
        if fake.run("echo", json!({})).await.is_success() {
            return true;
        }
    }
    false
}

/// Returns `true` if a process exists and is not a zombie.
#[cfg(target_os = "linux")]
fn is_running(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
#[cfg(target_os = "linux")]
async fn child_processes_end_with_their_server() {
    let fake = TestServer::patient();
    let pids = fake.run("pid", json!({})).await.fields["text"]
        .as_str()
        .expect("it is text")
        .to_owned();
    let pids: Vec<&str> = pids.split(' ').collect();
    assert!(pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    let TestServer {
        manager,
        server,
        folder: _folder,
    } = fake;
    drop((manager, server));
    assert!(
        becomes_true(|| pids.iter().all(|pid| !is_running(pid))).await,
        "{pids:?}"
    );

    let fake = TestServer::patient();
    fake.run("echo", json!({})).await;
    let pids = fake.run("pid", json!({})).await.fields["text"]
        .as_str()
        .expect("it is text")
        .to_owned();
    fake.server.end().await;
    assert!(
        becomes_true(|| pids.split(' ').all(|pid| !is_running(pid))).await,
        "{pids}"
    );
}

/// Returns the path of a file that `scripts/fetch-servers.sh` installs.
fn installed(path: &str) -> String {
    let path = root("target/servers").join(path);
    assert!(
        path.exists(),
        "{} is missing; run scripts/fetch-servers.sh",
        path.display()
    );
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_third_party_servers_run() {
    let everything =
        installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let everything = server("node", &[&everything, "stdio"]);
    let limit = Duration::from_secs(120);
    let sum = Tool::with_parameters("sum", "Adds", json!({"type": "object"}));
    let tools = ToolManager::builder(Access::default()).time_limit(limit);
    let tools = tools.tool(McpTool::new(sum, Arc::clone(&everything)).with_server_name("get-sum"));
    let tools = tools
        .tool(McpTool::new(open("echo"), Arc::clone(&everything)))
        .build()
        .expect("it is valid");
    let echo = run(&tools, "echo", json!({"message": "hello"})).await;
    assert_eq!(echo.fields["text"], "Echo: hello", "{echo:?}");
    let sum = run(&tools, "sum", json!({"a": 2, "b": 3})).await;
    assert!(
        sum.fields["text"]
            .as_str()
            .is_some_and(|text| text.contains('5')),
        "{sum:?}"
    );

    let time = server(&installed("python/bin/mcp-server-time"), &[]);
    let time = manager(&time, &["convert_time"], limit);
    let arguments =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted = run(&time, "convert_time", arguments).await;
    assert!(
        json!(converted).to_string().contains("T21:00:00+09:00"),
        "{converted:?}"
    );
    let wrong =
        json!({"source_timezone": "Nowhere", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    assert_eq!(
        kind(&run(&time, "convert_time", wrong).await),
        Some(ErrorType::User)
    );

    let git = server(&installed("python/bin/mcp-server-git"), &[]);
    let git = manager(&git, &["git_status"], limit);
    let nowhere = tempfile::tempdir().expect("a folder");
    let status = run(
        &git,
        "git_status",
        json!({"repo_path": Path::new(nowhere.path()).display().to_string()}),
    )
    .await;
    assert_eq!(kind(&status), Some(ErrorType::User), "{status:?}");
}

/// A process that is killed at the end of the test.
struct KillOnDrop(std::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0
            .kill()
            .and_then(|()| self.0.wait())
            .expect("it can be ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_server_tools_run_again_after_a_restart() {
    let port = picktools_testing::free_port();
    let script =
        installed("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let start = || {
        let mut command = std::process::Command::new("node");
        command
            .args([&script, "streamableHttp"])
            .env("PORT", port.to_string());
        let silent = std::process::Stdio::null;
        KillOnDrop(
            command
                .stdout(silent())
                .stderr(silent())
                .spawn()
                .expect("it starts"),
        )
    };
    let way = ServerTransport::Http {
        url: format!("http://127.0.0.1:{port}/mcp"),
        headers: BTreeMap::new(),
        credentials: None,
    };
    let server = Arc::new(McpServer::new(Server {
        name: "everything".to_owned(),
        transport: way,
        tools: ToolFilter::default(),
        call_timeout: None,
        scope: None,
    }));
    let manager = manager(&server, &["echo"], Duration::from_secs(15));
    let says = |message: &'static str| run(&manager, "echo", json!({ "message": message }));
    let nobody = says("x").await;
    assert_eq!(kind(&nobody), Some(ErrorType::System), "{nobody:?}");
    for message in ["one", "two"] {
        let _started = start();
        let ready =
            becomes_true(|| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
        assert!(ready, "it listens");
        let echo = says(message).await;
        assert!(echo.is_success(), "{echo:?}");
        assert_eq!(echo.fields["text"], format!("Echo: {message}"));
    }
}
