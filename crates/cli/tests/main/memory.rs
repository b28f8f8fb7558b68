//! The memory of a gateway.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gateway::Place;
use crate::gateway_http::{Serving, Session};
use crate::support::root;

/// The sessions of a test, and the memory that they may take together.
const SESSIONS: usize = 60;
const MAX_GROWTH_KB: u64 = 30_000;

/// Returns the number in a line of the status of a process.
fn status_number(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the status of a process.
fn status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).expect("a process")
}

/// Waits until the server has written its status to a file.
fn wait_for_status(path: &Path) -> String {
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        let status = fs::read_to_string(path).unwrap_or_default();
        if status.contains("voluntary_ctxt_switches") {
            return status;
        }
        sleep(Duration::from_millis(50));
    }
    panic!("the server does not start")
}

/// Creates a folder with a server that writes its status to the file `status`.
fn place_with_status() -> Place {
    let place = Place::with(&json!({}));
    let server = root("crates/cli/tests/servers/upstream.py");
    let script = format!(
        "cat /proc/self/status > '{}'; exec python3 '{}'",
        place.path("status").display(),
        server.display()
    );
    let servers = json!({"up": {"command": "sh", "args": ["-c", script]}});
    place.write("mcp.json", &json!({"mcpServers": servers}));
    place
}

fn assert_huge_pages(gateway: &str, server: &str) {
    let enabled = "THP_enabled:";
    assert_eq!(status_number(gateway, enabled), Some(0), "{gateway}");
    assert_eq!(status_number(server, enabled), Some(1), "{server}");
}

#[test]
fn only_servers_of_a_gateway_have_huge_pages() {
    let serving = Serving::start(place_with_status(), &[]);
    let server = wait_for_status(&serving.place.path("status"));
    assert_huge_pages(&status(serving.pid()), &server);

    let place = place_with_status();
    let client = place.client(&json!({}));
    let server = wait_for_status(&place.path("status"));
    assert_huge_pages(&status(client.pid()), &server);
}

#[test]
fn sessions_keep_no_copy_of_the_definitions() {
    let tools: Vec<Value> = (0..500)
        .map(|number| {
            let description = format!("Reads the list {number}: {}", "a few words ".repeat(150));
            json!({"name": format!("tool_{number}"), "description": description, "parameters": {}})
        })
        .collect();
    let place = Place::with(&json!({}));
    place.write("catalog.json", &json!({ "tools": tools }));
    let catalog = place.path("catalog.json").display().to_string();
    let serving = Serving::start(place, &["--catalog", &catalog]);
    let memory_kb = || status_number(&status(serving.pid()), "VmRSS:").expect("a number");
    let begin = || {
        let session = serving.session("2025-11-25", &[]);
        session.ask("ping", &json!({}));
        session
    };
    let mut sessions: Vec<Session<'_>> = (0..5).map(|_| begin()).collect();
    let before_kb = memory_kb();
    sessions.extend((0..SESSIONS).map(|_| begin()));
    let growth_kb = memory_kb().saturating_sub(before_kb);
    assert!(
        growth_kb < MAX_GROWTH_KB,
        "{SESSIONS} sessions took {growth_kb} kB"
    );
}
