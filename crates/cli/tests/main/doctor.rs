//! `picktools doctor`: the state of every configured server, with the reason and the remedy.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Place, upstream};
use crate::machine::Machine;

impl Machine {
    fn doctor(&self, arguments: &[&str]) -> (Value, Output) {
        let arguments = [&["doctor", "--json"], arguments].concat();
        let output = self.command(&arguments).output().expect("it runs");
        let report = serde_json::from_str(&stdout(&output)).expect("JSON");
        (report, output)
    }
}

/// Servers in every state.
fn servers() -> Value {
    let failing = "import sys; sys.stderr.write('API key missing\\n'); sys.exit(3)";
    json!({"mcpServers": {
        "good": upstream(),
        "missing": {"command": "no-such-program", "args": ["s3cret"]},
        "failing": {"command": "python3", "args": ["-c", failing]},
        "ends": {"command": "true"},
        "refused": {"url": "http://me:s3cret@127.0.0.1:9/mcp?apiKey=s3cret"},
        "unset": {"command": "x", "env": {"K": "${PICKTOOLS_TEST_UNSET}"}},
        "off": {"command": "x", "disabled": true},
        "odd": {"command": "true", "colour": "red"},
    }})
}

#[test]
fn state_of_each_server_is_reported_with_reason() {
    let machine = Machine::new();
    machine.write_json("project/servers.json", &servers());
    let (report, output) = machine.doctor(&["--config", "servers.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let configurations = report["configurations"].as_array().expect("a list");
    assert_eq!(configurations.len(), 1);
    let reports = configurations[0]["servers"].as_array().expect("a list");
    let server = |name: &str| {
        let report = reports.iter().find(|report| report["server"] == name);
        report.unwrap_or_else(|| panic!("{name}: {report:?}"))
    };
    for (name, state, why) in [
        ("missing", "down", "cannot be started"),
        ("failing", "down", "API key missing"),
        ("ends", "down", "it ended before it answered"),
        ("refused", "down", "connection refused"),
        ("unset", "invalid", "PICKTOOLS_TEST_UNSET"),
    ] {
        let report = server(name);
        assert_eq!(report["state"], state, "{report}");
        assert!(report["why"].to_string().contains(why), "{report}");
    }
    assert_eq!(server("off")["state"], "disabled");
    let good = server("good");
    assert_eq!((&good["state"], &good["tools"]), (&json!("ok"), &json!(25)));
    assert!(good["tokens"].as_u64() > Some(500), "{good}");
    assert!(server("odd")["warnings"].to_string().contains("colour"));
    assert_eq!(server("refused")["at"], "127.0.0.1:9");
    let text = machine
        .command(&["doctor", "--config", "servers.json"])
        .output()
        .expect("it runs");
    let text = stdout(&text);
    let row = |name: &str| {
        let is_row = |line: &&str| line.split_whitespace().next() == Some(name);
        let row = text.lines().find(is_row);
        row.unwrap_or_else(|| panic!("{name}: {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(row("server"), "server tools tokens state findings");
    let tokens = &good["tokens"];
    assert_eq!(row("good"), format!("good 25 {tokens} ok"));
    assert_eq!(row("missing"), "missing – – cannot be used");
    assert!(row("odd").ends_with("1 ignored"), "{text}");
    assert!(
        text.contains("  failing: ") && text.contains("API key missing"),
        "{text}"
    );
    assert!(
        text.contains("1 of 7 servers can be used: 25 tools"),
        "{text}"
    );
    for shown in [&text, &report.to_string()] {
        assert!(
            !shown.contains("s3cret") && !shown.contains("rmcp"),
            "{shown}"
        );
    }
}

#[test]
fn servers_of_clients_and_behind_the_gateway_are_found() {
    let machine = Machine::new();
    machine.write_json(
        "home/.cursor/mcp.json",
        &json!({"mcpServers": {"up": upstream()}}),
    );
    machine.write_json("home/.gemini/settings.json", &json!({"theme": "dark"}));
    let (report, output) = machine.doctor(&[]);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert_eq!(report["configurations"][0]["client"], "Cursor");
    assert_eq!(report["configurations"].as_array().map(Vec::len), Some(1));
    let moved = machine
        .command(&["init", "--yes"])
        .output()
        .expect("it runs");
    assert_eq!(moved.status.code(), Some(0), "{}", stderr(&moved));
    let (report, output) = machine.doctor(&[]);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let configurations = report["configurations"].as_array().expect("a list");
    assert_eq!(
        configurations.len(),
        1,
        "the gateway itself is no server: {report}"
    );
    assert_eq!(configurations[0]["behind_gateway"], true);
    assert_eq!(configurations[0]["servers"][0]["tools"], 25);
}

#[test]
fn programs_of_a_project_are_not_started_without_a_request() {
    let machine = Machine::new();
    let touch = json!({"command": "touch", "args": [machine.path("started")]});
    machine.write_json("project/.mcp.json", &json!({"mcpServers": {"p": touch}}));
    // Neither are those of a file that looks like the one behind a gateway.
    machine.write_json(
        "project/.mcp.upstreams.json",
        &json!({"mcpServers": {"q": touch}}),
    );
    let (report, output) = machine.doctor(&[]);
    assert_eq!(output.status.code(), Some(1));
    let problem = report["configurations"][0]["problem"].to_string();
    assert!(problem.contains("--config"), "{report}");
    assert!(!machine.path("started").exists());
    machine.doctor(&["--config", ".mcp.json"]);
    assert!(machine.path("started").exists());
}

#[test]
fn unreadable_file_of_a_client_does_not_hide_the_others() {
    let machine = Machine::new();
    machine.write_json(
        "home/.cursor/mcp.json",
        &json!({"mcpServers": {"up": upstream()}}),
    );
    fs::write(machine.path("home/.claude.json"), "{\"mcpServers\": ").expect("it is written");
    let (report, output) = machine.doctor(&[]);
    assert_eq!(output.status.code(), Some(1));
    let configurations = report["configurations"].as_array().expect("a list");
    assert!(configurations[0]["problem"].is_string(), "{report}");
    assert_eq!(configurations[1]["servers"][0]["state"], "ok");
}

#[test]
fn quarantined_tools_are_listed_for_their_server_only() {
    let place = Place::faulty();
    drop(place.client(&json!({})).listed());
    let _client = place.client_after_move();
    let doctor = |config: &str| {
        let path = place.path(config).display().to_string();
        let state = place.path("state").display().to_string();
        let output = picktools(&["doctor", "--json", "--config", &path, "--state-dir", &state])
            .output()
            .expect("it runs");
        let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        (report["configurations"][0]["servers"][0].clone(), output)
    };
    let (report, output) = doctor("mcp.json");
    assert_eq!(output.status.code(), Some(1));
    let reason = report["quarantined"]["echo"].to_string();
    assert!(reason.contains("another command or URL"), "{report}");
    place.write("other.json", &json!({"mcpServers": {"up": upstream()}}));
    assert_eq!(doctor("other.json").0["quarantined"], json!({}));
}

#[test]
fn gateway_entry_of_a_clients_file_is_not_started() {
    let machine = Machine::new();
    machine.write_json(
        "home/.cursor/mcp.json",
        &json!({"mcpServers": {
            "up": upstream(),
            "picktools": {"command": "touch", "args": ["mcp", "--config", machine.path("x")]},
        }}),
    );
    let file = machine.path("home/.cursor/mcp.json").display().to_string();
    let (report, output) = machine.doctor(&["--config", &file]);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let servers = report["configurations"][0]["servers"].as_array();
    assert_eq!(servers.map(Vec::len), Some(1), "{report}");
    assert!(
        stderr(&output).contains("starts the picktools gateway"),
        "{}",
        stderr(&output)
    );
    assert!(!machine.path("x").exists());
}

#[test]
fn extensions_of_goose_are_checked_or_named_as_its_own() {
    let machine = Machine::new();
    let up = json!({"command": upstream()["command"], "args": upstream()["args"]});
    machine.write(
        "home/.config/goose/config.yaml",
        format!(
            "extensions:\n  developer: {{type: builtin, enabled: true, name: developer}}\n  up:\n    \
             {{type: stdio, enabled: true, name: up, cmd: {}, args: {}}}\n",
            up["command"], up["args"]
        ),
    );
    let file = machine
        .path("home/.config/goose/config.yaml")
        .display()
        .to_string();
    let (report, output) = machine.doctor(&["--config", &file]);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let servers = &report["configurations"][0]["servers"];
    assert_eq!(servers[0]["tools"], 25, "{report}");
    assert_eq!(
        (&servers[1]["server"], &servers[1]["state"]),
        (&json!("developer"), &json!("built_in"))
    );
    let output = machine
        .command(&["import", "mcp", "--config", &file])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("developer"), "{}", stderr(&output));
}

#[test]
fn nothing_configured_is_said() {
    let machine = Machine::new();
    let output = machine.command(&["doctor"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("no MCP servers found"));
}
