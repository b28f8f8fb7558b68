//! MCP servers: real ones, and a fake one that fails in many ways.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::support::root;

/// The result of an import: tools, messages, and exit code.
struct Import {
    tools: Vec<Value>,
    said: String,
    code: Option<i32>,
}

impl Import {
    fn names(&self) -> Vec<&str> {
        self.tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect()
    }
}

fn import(arguments: &[&str]) -> Import {
    let output = picktools(&[&["import", "mcp"], arguments].concat())
        .env("PATH", std::env::var_os("PATH").expect("it is set"))
        .output()
        .expect("it runs");
    let tools = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    Import {
        tools,
        said: stderr(&output),
        code: output.status.code(),
    }
}

fn fake() -> String {
    root("crates/cli/tests/servers/fake.py")
        .display()
        .to_string()
}

/// Imports from the fake server in a mode in which it fails.
fn wrong(mode: &str) -> Import {
    import(&[
        "--source",
        "fake",
        "--server-timeout-ms",
        "20000",
        "--",
        "python3",
        &fake(),
        mode,
    ])
}

#[test]
fn import_mcp_reads_every_page() {
    let all = wrong("pages");
    assert_eq!((all.names().len(), all.code), (5, Some(0)), "{}", all.said);
    assert!(
        all.said.contains("imported 5 tools from 1 of 1 servers"),
        "{}",
        all.said
    );
    let one = wrong("plain");
    assert_eq!(one.tools[0]["id"], "fake/greet");
    assert_eq!(
        (
            &one.tools[0]["title"],
            &one.tools[0]["output_schema"]["type"]
        ),
        (&json!("Greet"), &json!("object"))
    );
}

#[test]
fn import_mcp_from_failing_server_keeps_sent_tools() {
    for (mode, names, said) in [
        (
            "dies_between_pages",
            vec!["first"],
            "some of its tools are missing: it ended, or closed the connection",
        ),
        ("circle", vec!["again"], "its list repeats a cursor"),
        ("same_names", vec!["twice", "once"], "twice"),
        ("odd_schemas", vec!["odd_3", "sound"], "odd_0"),
    ] {
        let found = wrong(mode);
        assert_eq!(
            (found.names(), found.code),
            (names, Some(1)),
            "{mode}: {}",
            found.said
        );
        assert!(found.said.contains(said), "{mode}: {}", found.said);
    }
    let endless = wrong("endless");
    assert_eq!((endless.names().len(), endless.code), (500, Some(1)));
}

#[test]
fn import_mcp_from_dead_server_reports_its_output() {
    for (mode, said) in [("ends", "no such database"), ("long_description", "fake")] {
        let found = import(&[
            "--source",
            "fake",
            "--server-timeout-ms",
            "5000",
            "--",
            "python3",
            &fake(),
            mode,
        ]);
        assert_eq!((found.tools.len(), found.code), (0, Some(1)), "{mode}");
        assert!(found.said.contains(said), "{mode}: {}", found.said);
        assert!(found.said.len() < 4_000, "{mode}: {}", found.said.len());
    }
    let none = import(&["--", "no-such-program-anywhere"]);
    assert!(
        none.said.contains("cannot be started") && none.said.contains("install it"),
        "{}",
        none.said
    );
    assert_eq!(none.code, Some(1));
    let nowhere = import(&[
        "--url",
        "http://127.0.0.1:9/mcp",
        "--server-timeout-ms",
        "5000",
    ]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.said.contains("127.0.0.1: "), "{}", nowhere.said);
}

#[test]
fn import_mcp_ignores_noise_on_the_streams() {
    for mode in ["stderr_flood", "stdout_logs"] {
        let found = wrong(mode);
        assert_eq!(
            (found.names(), found.code),
            (vec!["greet"], Some(0)),
            "{mode}: {}",
            found.said
        );
    }
}

#[test]
fn import_mcp_waits_for_a_slow_server() {
    let found = import(&[
        "--server-timeout-ms",
        "60000",
        "--",
        "python3",
        &fake(),
        "slow_start",
    ]);
    assert_eq!(
        (found.names(), found.code),
        (vec!["greet"], Some(0)),
        "{}",
        found.said
    );
}

#[test]
fn import_mcp_ignores_members_outside_the_protocol() {
    let found = wrong("claims");
    assert_eq!(
        found.tools,
        [json!({
            "id": "fake/claims",
            "name": "claims",
            "description": "Does claims",
            "parameters": {"type": "object"},
            "source": "fake",
            "annotations": {"title": "Friendly", "readOnlyHint": true},
        })]
    );
}

#[test]
fn mcp_servers_get_a_minimal_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = json!({"command": "python3", "args": [fake(), "environment"], "env": {"MINE": "${GIVEN}"}, "cwd": "."});
    fs::write(
        folder.path().join("mcp.json"),
        json!({"mcpServers": {"a": server}}).to_string(),
    )
    .expect("a file");
    let output = picktools(&[
        "import",
        "mcp",
        "--config",
        &folder.path().join("mcp.json").display().to_string(),
    ])
    .env("PATH", std::env::var_os("PATH").expect("it is set"))
    .envs([("GIVEN", "1"), ("API_KEY", "2"), ("HOME", "/nowhere")])
    .output()
    .expect("it runs");
    let said = stderr(&output);
    assert!(
        said.contains("\"MINE\"") && said.contains("\"HOME\"") && !said.contains("API_KEY"),
        "{said}"
    );
    let within = folder
        .path()
        .canonicalize()
        .expect("it is there")
        .display()
        .to_string();
    assert!(said.contains(&within), "{said}");
}

/// Returns `true` if a process runs and is not a zombie.
#[cfg(target_os = "linux")]
fn is_running(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Returns `true` if a condition holds soon. A killed process ends as soon as the system has time
/// for it, which may be after the process that killed it has ended.
#[cfg(target_os = "linux")]
fn holds_soon(condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !condition() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
#[cfg(target_os = "linux")]
fn import_mcp_leaves_no_process_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("child").display().to_string();
    for (mode, code) in [("children", 0), ("children", 0)] {
        let found = import(&["--", "python3", &fake(), mode, &file]);
        assert_eq!(found.code, Some(code), "{}", found.said);
        let child = fs::read_to_string(&file).expect("it was started");
        let has_ended = holds_soon(|| !is_running(&child));
        assert!(has_ended, "{mode}: the child {child} still runs");
    }
    let started = Instant::now();
    // A server that answers has time to start.
    for (mode, timeout) in [
        ("hangs", "1500"),
        ("hangs_later", "1500"),
        ("stays", "20000"),
    ] {
        let found = import(&[
            "--server-timeout-ms",
            timeout,
            "--source",
            "x",
            "--",
            "python3",
            &fake(),
            mode,
        ]);
        let (tools, code) = if mode == "stays" {
            (1, Some(0))
        } else {
            (0, Some(1))
        };
        assert_eq!(
            (found.tools.len(), found.code),
            (tools, code),
            "{mode}: {}",
            found.said
        );
    }
    assert!(started.elapsed().as_secs() < 60, "each has its limit");
    let is_running = || {
        let mut processes = fs::read_dir("/proc").expect("it is there").flatten();
        processes.any(|process| {
            let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            command.contains(&fake()) && command.contains("\0hangs")
        })
    };
    let has_ended = holds_soon(|| !is_running());
    assert!(has_ended, "a server that hangs still runs");
}

/// Picks from a configuration, with a cache.
fn pick(arguments: &[&str], config: &Path, cache: &Path) -> (Vec<String>, String, Option<i32>) {
    let config = config.display().to_string();
    let output = picktools(
        &[
            &["pick", "greet somebody", "--catalog", &config, "--json"],
            arguments,
        ]
        .concat(),
    )
    .env("PATH", std::env::var_os("PATH").expect("it is set"))
    .env("PICKTOOLS_CACHE_DIR", cache)
    .output()
    .expect("it runs");
    let answer: Value = serde_json::from_str(&stdout(&output)).expect("the answer is JSON");
    let picks = answer["picks"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pick| pick["tool"]["id"].as_str());
    (
        picks.map(str::to_owned).collect(),
        stderr(&output) + &answer["error"].to_string(),
        output.status.code(),
    )
}

#[test]
fn mcp_configuration_is_a_catalog_despite_a_failed_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("mcp.json");
    let server = |mode: &str| json!({"command": "python3", "args": [fake(), mode]});
    let write = |first: &str| {
        let servers =
            json!({"wiki": server(first), "broken": server("ends"), "off": {"disabled": true}});
        fs::write(&config, json!({"mcpServers": servers}).to_string()).expect("a file");
    };
    write("plain");
    let cache = folder.path().join("cache");
    assert!(
        pick(&["--offline"], &config, &cache)
            .1
            .contains("its tools are not in the cache")
    );
    let bare = picktools(&["resolve", "greet", "--catalog", "mcp.json"])
        .current_dir(folder.path())
        .env("PATH", std::env::var_os("PATH").expect("it is set"))
        .output()
        .expect("it runs");
    assert!(
        stdout(&bare).contains("wiki/greet"),
        "a file is found by its bare name: {}",
        stderr(&bare)
    );
    let (picks, said, code) = pick(&[], &config, &cache);
    assert_eq!(
        (picks, code),
        (vec!["wiki/greet".to_owned()], Some(0)),
        "{said}"
    );
    assert!(
        said.contains("no such database") && said.contains("disabled: off"),
        "{said}"
    );
    let (picks, said, _) = pick(&["--offline"], &config, &cache);
    assert_eq!(picks, ["wiki/greet"], "{said}");
    let kept = fs::read_dir(cache.join("mcp"))
        .expect("it is there")
        .flatten()
        .next()
        .expect("one was kept")
        .path();
    // A cache file that was changed is ignored.
    let changed = fs::read_to_string(&kept)
        .expect("it can be read")
        .replace("Does greet", "Does harm");
    fs::write(&kept, changed).expect("it can be written");
    assert!(
        pick(&["--offline"], &config, &cache)
            .1
            .contains("its tools are not in the cache")
    );
    write("ends");
    let (picks, said, code) = pick(&[], &config, &cache);
    assert_eq!((picks.len(), code), (0, Some(2)));
    assert!(
        said.contains("no MCP server of") && said.contains("no such database"),
        "{said}"
    );
}

#[test]
fn cached_tools_are_used_while_fresh_or_server_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, cache, broken) = (
        folder.path().join("mcp.json"),
        folder.path().join("cache"),
        folder.path().join("broken"),
    );
    // The server works until the file exists.
    let script = format!(
        "test ! -e {} && exec python3 {} plain; echo gone >&2; exit 1",
        broken.display(),
        fake()
    );
    let server = json!({"command": "sh", "args": ["-c", script]});
    fs::write(&config, json!({"mcpServers": {"wiki": server}}).to_string()).expect("a file");
    assert_eq!(pick(&[], &config, &cache).0, ["wiki/greet"]);
    fs::write(&broken, "").expect("a file");
    let (picks, said, _) = pick(&[], &config, &cache);
    assert_eq!(
        (picks, said.contains("gone")),
        (vec!["wiki/greet".to_owned()], false),
        "it is not asked: {said}"
    );
    let (picks, said, _) = pick(&["--refresh"], &config, &cache);
    assert_eq!(picks, ["wiki/greet"]);
    assert!(
        said.contains("gone") && said.contains("using its tools of 0 minutes ago"),
        "{said}"
    );
}

/// Returns a configuration of the servers that `scripts/fetch-servers.sh` installs.
pub(crate) fn installed(path: &str) -> String {
    let path = root("target/servers").join(path);
    assert!(
        path.exists(),
        "{} is missing; run scripts/fetch-servers.sh",
        path.display()
    );
    path.display().to_string()
}

pub(crate) fn npm(server: &str) -> String {
    installed(&format!(
        "npm/node_modules/@modelcontextprotocol/server-{server}/dist/index.js"
    ))
}

#[test]
fn real_mcp_servers_give_tools_and_sensible_picks() {
    let folder = tempfile::tempdir().expect("a folder");
    let notes = folder.path().join("notes");
    fs::create_dir(&notes).expect("a folder");
    let node = |server: &str, arguments: &[&str]| {
        let script = npm(server);
        let arguments = [&[script.as_str()], arguments].concat();
        json!({"command": "node", "args": arguments})
    };
    let python =
        |server: &str| json!({"command": installed(&format!("python/bin/mcp-server-{server}"))});
    let servers = json!({
        "everything": node("everything", &["stdio"]),
        "filesystem": node("filesystem", &[&notes.display().to_string()]),
        "memory": node("memory", &[]),
        "thinking": node("sequential-thinking", &[]),
        "git": python("git"),
        "time": python("time"),
        "fetch": python("fetch"),
    });
    let config = folder.path().join("mcp.json");
    fs::write(&config, json!({"mcpServers": servers}).to_string()).expect("a file");
    let all = import(&[
        "--config",
        &config.display().to_string(),
        "--server-timeout-ms",
        "120000",
    ]);
    assert!(
        all.said.contains("imported 52 tools from 7 of 7 servers"),
        "{}",
        all.said
    );
    assert_eq!(all.code, Some(0));
    let delete = all
        .tools
        .iter()
        .find(|tool| tool["id"] == "memory/delete_entities")
        .expect("it is there");
    assert_eq!(delete["annotations"]["destructiveHint"], true);

    let catalog = folder.path().join("tools.jsonl");
    let lines: String = all.tools.iter().map(|tool| format!("{tool}\n")).collect();
    fs::write(&catalog, lines).expect("a file");
    for (request, expected) in [
        (
            "record my staged changes with the message fix typo",
            "git/git_commit",
        ),
        ("show me the recent commits", "git/git_log"),
        ("start a new branch called release", "git/git_create_branch"),
        (
            "make a new folder called reports",
            "filesystem/create_directory",
        ),
        ("rename my draft to final", "filesystem/move_file"),
        ("find all files that end in .md", "filesystem/search_files"),
        ("what time is it in Tokyo", "time/get_current_time"),
        (
            "what is 9 am in Berlin in New York time",
            "time/convert_time",
        ),
        (
            "download https://example.org and tell me what it says",
            "fetch/fetch",
        ),
        (
            "think this problem through step by step",
            "thinking/sequentialthinking",
        ),
    ] {
        let catalog = catalog.display().to_string();
        let answer = crate::cli::json(&[
            "pick",
            request,
            "--allow-unsafe",
            "--catalog",
            &catalog,
            "--json",
        ]);
        let picks: Vec<&str> = answer["picks"]
            .as_array()
            .expect("they are listed")
            .iter()
            .filter_map(|pick| pick["tool"]["id"].as_str())
            .collect();
        assert!(picks.contains(&expected), "{request}: {picks:?}");
    }
}

/// A process that ends with the test.
struct Started(std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        self.0
            .kill()
            .and_then(|()| self.0.wait())
            .expect("it can be ended");
    }
}

#[test]
fn real_mcp_server_over_http_gives_its_tools() {
    let port = picktools_testing::free_port();
    let server = std::process::Command::new("node")
        .args([npm("everything"), "streamableHttp".to_owned()])
        .env("PORT", port.to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let _server = Started(server);
    let url = format!("http://127.0.0.1:{port}/mcp");
    let ready = (0..300).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    assert!(ready, "it listens within half a minute");
    let found = import(&["--url", &url, "--source", "everything", "--only", "echo"]);
    assert_eq!(
        (found.names(), found.code),
        (vec!["echo"], Some(0)),
        "{}",
        found.said
    );
    assert_eq!(found.tools[0]["source"], "everything");
}

#[cfg(unix)]
#[test]
fn import_mcp_watch_follows_servers_and_stops_them() {
    let begun = Instant::now();
    let wait_until = |what: &str, done: &mut dyn FnMut() -> bool| {
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let folder = tempfile::tempdir().expect("there is room");
    let place = |name: &str| folder.path().join(name).display().to_string();
    let (names, catalog) = (place("names"), place("tools.jsonl"));
    let written = || -> Vec<String> {
        let text = fs::read_to_string(&catalog).unwrap_or_default();
        let tools = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
        tools
            .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
            .collect()
    };
    fs::write(&names, "first").expect("it can be written");
    let watch = [
        "--source",
        "fake",
        "--output",
        &catalog,
        "--watch",
        "--",
        "python3",
        &fake(),
        "changes",
        &names,
    ];
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_picktools"));
    program
        .args(["import", "mcp"])
        .args(watch)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let mut program = program.spawn().expect("it starts");
    wait_until("the tools are written", &mut || written() == ["first"]);
    fs::write(&names, "first second").expect("it can be written");
    wait_until("new tools are written", &mut || {
        written() == ["first", "second"]
    });
    // The tools of a server that ended stay until it runs again.
    fs::write(&names, "die").expect("it can be written");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(written(), ["first", "second"]);
    fs::write(&names, "third").expect("it can be written");
    wait_until("the server is started again", &mut || {
        written() == ["third"]
    });
    let sent = std::process::Command::new("kill")
        .args(["-TERM", &program.id().to_string()])
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
    wait_until("the program ends", &mut || {
        program.try_wait().expect("it can be asked").is_some()
    });
    let is_there = || {
        let lines = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut lines = lines.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| String::from_utf8_lossy(&line).contains(&names))
    };
    wait_until("the server ends", &mut || !is_there());
}

#[test]
fn import_mcp_output_writes_a_file() {
    let folder = tempfile::tempdir().expect("there is room");
    let catalog = folder.path().join("tools.jsonl").display().to_string();
    let server = ["--", "python3", &fake(), "plain"];
    let done = import(&[&["--source", "fake", "--output", &catalog], &server[..]].concat());
    assert_eq!((done.tools.len(), done.code), (0, Some(0)), "{}", done.said);
    assert!(
        fs::read_to_string(&catalog)
            .expect("it is written")
            .contains("\"greet\"")
    );
    let refused = import(&[&["--watch"], &server[..]].concat());
    assert_eq!(refused.code, Some(2));
    assert!(refused.said.contains("--output"), "{}", refused.said);
}
