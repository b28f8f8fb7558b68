//! `picktools init` for clients with a format of their own: Codex, opencode and Goose.

use std::fs;

use serde_json::{Value, json};

use crate::cli::{stderr, stdout};
use crate::gateway::upstream;
use crate::machine::Machine;

/// A file of Codex with comments, an order, and servers in several notations.
const CODEX: &str = r#"# My settings.
model = "gpt-5.5" # the best

# All servers.

# Files of the project.
[mcp_servers.files]
command = "files" # local
args = [
    "-y", # yes
]
env_vars = ["KEY"]

[mcp_servers.files.env]
TOKEN = "s3cret"

# Trust.
[projects."/work"]
trust_level = "trusted"

[mcp_servers."near"]
command = "./near"

[mcp_servers]
mail = { url = "https://mail.example/mcp", bearer_token_env_var = "MAIL" }

[[hooks]]
command = "x"
# The end.
"#;

impl Machine {
    fn init_formats(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let arguments = [&["init", "--no-check", "--json"], arguments].concat();
        let output = self.command(&arguments).output().expect("it runs");
        let report = serde_json::from_str(&stdout(&output));
        let report = report.unwrap_or_else(|_| panic!("{}{}", stdout(&output), stderr(&output)));
        (report, output.status.code())
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn shown_path(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }
}

#[test]
fn init_edits_the_toml_of_codex_in_place() {
    let machine = Machine::new();
    machine.write("home/.codex/config.toml", CODEX);
    let (report, code) = machine.init_formats(&["--yes"]);
    assert_eq!(code, Some(0), "{report}");
    let file = &report["files"][0];
    assert_eq!(file["client"], "codex");
    assert_eq!(file["staying"][0]["name"], "near", "{file}");
    assert_eq!(file["variables"], json!(["KEY", "MAIL"]));
    assert!(!report.to_string().contains("s3cret"));

    let expected = format!(
        r#"# My settings.
model = "gpt-5.5" # the best

# All servers.

[mcp_servers.picktools]
command = "{}"
args = ["mcp", "--config", "{}"]
env_vars = ["KEY", "MAIL"]

# Trust.
[projects."/work"]
trust_level = "trusted"

[mcp_servers."near"]
command = "./near"

[mcp_servers]

[[hooks]]
command = "x"
# The end.
"#,
        env!("CARGO_BIN_EXE_picktools"),
        machine.shown_path("data/upstreams/codex.toml")
    );
    assert_eq!(machine.text("home/.codex/config.toml"), expected);
    let moved = machine.text("data/upstreams/codex.toml");
    for kept in [
        "# Files of the project.\n[mcp_servers.files]\ncommand = \"files\" # local\n",
        "    \"-y\", # yes\n",
        "[mcp_servers.files.env]\nTOKEN = \"s3cret\"\n",
        "[mcp_servers.mail]\nurl = \"https://mail.example/mcp\"\n",
    ] {
        assert!(moved.contains(kept), "{kept}: {moved}");
    }
    let (report, code) = machine.init_formats(&["--yes"]);
    assert_eq!(
        (&report["files"][0]["status"], code),
        (&json!("already"), Some(0))
    );
    let (report, _) = machine.init_formats(&["--undo"]);
    assert_eq!(report["files"][0]["status"], "restored", "{report}");
    assert_eq!(machine.text("home/.codex/config.toml"), CODEX);
    assert!(!machine.path("data/upstreams/codex.toml").exists());
}

#[test]
fn init_takes_along_and_undoes_after_edits_of_codex() {
    let machine = Machine::new();
    let file = "home/.codex/config.toml";
    machine.write(file, CODEX.replace('\n', "\r\n"));
    assert_eq!(machine.init_formats(&["--yes"]).1, Some(0));
    let added = "\r\n[mcp_servers.later]\r\ncommand = \"later\"\r\nenv_vars = [\"LATER\"]\r\n";
    let edited = machine.text(file).replace("gpt-5.5", "gpt-6") + added;
    machine.write(file, edited);
    let (report, code) = machine.init_formats(&["--yes"]);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(report["files"][0]["servers"][0]["name"], "later");
    let text = machine.text(file);
    assert!(
        text.contains("env_vars = [\"KEY\", \"MAIL\", \"LATER\"]"),
        "{text}"
    );
    let moved = machine.text("data/upstreams/codex.toml");
    assert!(moved.contains("[mcp_servers.later]"), "{moved}");
    assert!(moved.contains("[mcp_servers.files]"), "{moved}");

    assert_eq!(machine.init_formats(&["--undo"]).1, Some(0));
    let text = machine.text(file);
    assert_eq!(
        text.replace("\r\n", "").find('\n'),
        None,
        "the file keeps its line ends: {text:?}"
    );
    assert!(!text.contains("picktools"), "{text}");
    let start = "# My settings.\r\nmodel = \"gpt-6\" # the best\r\n\r\n# All servers.\r\n\r\n\
                 # Files of the project.\r\n[mcp_servers.files]\r\n";
    assert!(text.starts_with(start), "{text}");
    let positions: Vec<_> = [
        "[mcp_servers.files]",
        "[mcp_servers.files.env]",
        "[mcp_servers.mail]",
        "[mcp_servers.later]",
        "# Trust.",
        "# The end.",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")))
    .collect();
    assert!(positions.is_sorted(), "{text}");
}

#[test]
fn init_edits_every_notation_of_codexs_servers() {
    for text in [
        "mcp_servers = {a = {command = \"x\"}}\nmodel = \"m\"\n",
        "mcp_servers.a.command = \"x\"\nmodel = \"m\"\n",
        "[mcp_servers.a]\ncommand = \"x\"",
        "[mcp_servers]\na.command = \"x\"\na.args = []\n[tui]\nb = 1\n",
        "\u{feff}[ mcp_servers . 'a' ] # note\ncommand = \"x\"\n",
        "[mcp_servers.'a']\ncommand = \"x\"\n[mcp_servers.'a'.tools.b]\nenabled = false\n",
    ] {
        let machine = Machine::new();
        let file = "home/.codex/config.toml";
        machine.write(file, text);
        let (report, code) = machine.init_formats(&["--yes"]);
        assert_eq!(code, Some(0), "{text}: {report}");
        let written = machine.text(file);
        assert!(written.contains("picktools"), "{written}");
        // The user adds a note, so the backup is no longer the former state.
        machine.write(file, format!("{written}\n# note\n"));
        assert_eq!(machine.init_formats(&["--undo"]).1, Some(0), "{text}");
        let restored = machine.text(file);
        assert!(!restored.contains("picktools"), "{restored}");
        let (report, _) = machine.init_formats(&["--dry-run"]);
        assert_eq!(report["files"][0]["servers"][0]["name"], "a", "{restored}");
        assert_eq!(report["files"][0]["servers"][0]["at"], "x", "{restored}");
    }
}

#[test]
fn init_leaves_files_of_codex_that_it_cannot_edit() {
    for (text, reason) in [
        ("[mcp_servers.a\ncommand = \"s3cret\"", "line 1"),
        (
            "[mcp_servers.a]\ncommand = 's3cret'\ncommand = 's3cret'",
            "line 3",
        ),
        (
            "a = 1\r\nb = 2\n[mcp_servers.a]\ncommand = \"x\"\n",
            "line ends",
        ),
        (
            "[mcp_servers.'a']\ncommand = \"x\"\n[mcp_servers.a.env]\nB = \"c\"\n",
            "spellings",
        ),
        ("mcp_servers = 3\n", "not a table"),
        (
            "[mcp_servers.a]\nurl = \"https://a\"\noauth = {a = 1}\n",
            "login",
        ),
    ] {
        let machine = Machine::new();
        machine.write("home/.codex/config.toml", text);
        let (report, code) = machine.init_formats(&["--yes"]);
        let file = &report["files"][0];
        assert_eq!(
            (&file["status"], code),
            (&json!("failed"), Some(2)),
            "{report}"
        );
        let message = file["message"].to_string();
        assert!(message.contains(reason), "{text}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
        assert_eq!(machine.text("home/.codex/config.toml"), text);
        assert!(!machine.path("data/upstreams").exists());
    }
}

#[test]
fn init_moves_servers_of_both_versions_of_opencode() {
    let servers = r#"{
      // The files.
      "files": {"type": "local", "command": ["files", "-y"], "environment": {"A": "{env:KEY}"}},
      "secret": {"type": "local", "command": ["x"], "environment": {"A": "{file:~/key}"}}
    }"#;
    for (file, text) in [
        (
            "opencode.json",
            format!("{{\n  \"theme\": \"a\",\n  \"mcp\": {servers}\n}}\n"),
        ),
        (
            "opencode.jsonc",
            format!("{{\n  \"mcp\": {{\n    // v2\n    \"servers\": {servers}\n  }}\n}}\n"),
        ),
    ] {
        let machine = Machine::new();
        let path = format!("home/.config/opencode/{file}");
        machine.write(&path, &text);
        let (report, code) = machine.init_formats(&["--yes"]);
        assert_eq!(code, Some(0), "{report}");
        let entry = &report["files"][0];
        assert_eq!(entry["client"], "opencode");
        assert_eq!(entry["servers"][0]["at"], "files", "{entry}");
        assert_eq!(entry["staying"][0]["name"], "secret", "{entry}");
        assert_eq!(entry["variables"], json!(["KEY"]));
        let upstreams = entry["upstreams"].as_str().expect("a path");
        let written = machine.text(&path);
        let expected = json!({"type": "local", "command":
            [env!("CARGO_BIN_EXE_picktools"), "mcp", "--config", upstreams]});
        assert!(
            written.contains(&format!("\"picktools\": {expected},")),
            "{written}"
        );
        let moved = fs::read_to_string(upstreams).expect("it is there");
        assert!(moved.contains("{env:KEY}"), "{moved}");
        // The gateway reads them.
        let output = machine
            .command(&["doctor", "--json", "--config", upstreams])
            .output()
            .expect("it runs");
        assert!(
            stdout(&output).contains("\"server\": \"files\""),
            "{}",
            stdout(&output)
        );
        machine.write(
            &path,
            written.replace("\"theme\": \"a\"", "\"theme\": \"b\""),
        );
        assert_eq!(machine.init_formats(&["--undo"]).1, Some(0));
        let restored = machine.text(&path);
        assert!(!restored.contains("picktools"), "{restored}");
        assert!(
            restored.contains("\"files\": {\"type\": \"local\""),
            "{restored}"
        );
    }
}

#[test]
fn init_gives_two_files_of_opencode_two_entries() {
    let machine = Machine::new();
    let servers = |name: &str| json!({"mcp": {name: {"type": "local", "command": ["x"]}}});
    machine.write_json("home/.config/opencode/opencode.json", &servers("a"));
    machine.write_json("home/.config/opencode/opencode.jsonc", &servers("b"));
    machine.write_json("project/opencode.json", &servers("c"));
    let (report, code) = machine.init_formats(&["--yes", "--project"]);
    assert_eq!(code, Some(0), "{report}");
    let entry = |path: &str| {
        let file: Value = serde_json::from_str(&machine.text(path)).expect("JSON");
        let servers = file["mcp"].as_object().expect("servers");
        let names: Vec<_> = servers.keys().cloned().collect();
        (names, servers.values().next().cloned().unwrap_or_default())
    };
    let (first, _) = entry("home/.config/opencode/opencode.json");
    let (second, _) = entry("home/.config/opencode/opencode.jsonc");
    let (third, command) = entry("project/opencode.json");
    assert_eq!(
        (first, second, third),
        (
            vec!["picktools".to_owned()],
            vec!["picktools-jsonc".to_owned()],
            vec!["picktools-project".to_owned()]
        )
    );
    assert_eq!(
        command["command"],
        json!(["picktools", "mcp", "--config", "opencode.upstreams.json"])
    );
    let (report, code) = machine.init_formats(&["--undo", "--project"]);
    assert_eq!(code, Some(0), "{report}");
    let restored: Value =
        serde_json::from_str(&machine.text("project/opencode.json")).expect("JSON");
    assert_eq!(restored, servers("c"));
}

#[test]
fn init_describes_the_change_of_gooses_file() {
    let machine = Machine::new();
    let file = "home/.config/goose/config.yaml";
    let text = "extensions:\n  developer: {type: builtin, enabled: true, name: developer}\n";
    machine.write(file, text);
    let (report, code) = machine.init_formats(&["--yes"]);
    assert_eq!(
        (&report["files"][0]["status"], code),
        (&json!("no_servers"), Some(1))
    );
    let up = format!(
        "{text}  up: {{type: stdio, enabled: true, name: up, cmd: {}, args: {}}}\n",
        upstream()["command"],
        upstream()["args"]
    );
    machine.write(file, &up);
    let (report, code) = machine.init_formats(&["--yes"]);
    assert_eq!(code, Some(1), "{report}");
    let entry = &report["files"][0];
    assert_eq!(entry["status"], "by_hand", "{report}");
    assert!(
        entry["message"].to_string().contains("goose.yaml"),
        "{entry}"
    );
    assert_eq!(machine.text(file), up, "it is not edited");

    // The user follows the message.
    let moved = up.replace(&text["extensions:\n".len()..], "");
    machine.write("data/upstreams/goose.yaml", moved);
    machine.write(file, format!("{text}  picktools: {}\n", entry["entry"]));
    let (report, code) = machine.init_formats(&["--yes"]);
    assert_eq!(
        (&report["files"][0]["status"], code),
        (&json!("already"), Some(0))
    );
    let output = machine
        .command(&["doctor", "--json"])
        .output()
        .expect("it runs");
    let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let configurations = report["configurations"].to_string();
    assert!(configurations.contains("\"tools\":25"), "{report}");
    assert!(!configurations.contains("\"picktools\""), "{report}");
    let (report, code) = machine.init_formats(&["--undo"]);
    assert_eq!(
        (&report["files"][0]["status"], code),
        (&json!("by_hand"), Some(1))
    );
}

#[test]
fn init_keeps_clients_from_deferring_the_gateways_tools() {
    let machine = Machine::new();
    let servers = json!({"mcpServers": {"x": {"command": "y"}}});
    machine.write_json("home/.claude.json", &servers);
    machine.write_json("home/.copilot/mcp-config.json", &servers);
    machine.write_json("project/.mcp.json", &servers);
    assert_eq!(machine.init_formats(&["--yes", "--project"]).1, Some(0));
    let entry = |path: &str, name: &str| {
        let file: Value = serde_json::from_str(&machine.text(path)).expect("JSON");
        file["mcpServers"][name].clone()
    };
    let code = entry("home/.claude.json", "picktools");
    assert_eq!(code["alwaysLoad"], true, "{code}");
    let project = entry("project/.mcp.json", "picktools-project");
    assert_eq!(project["alwaysLoad"], true, "{project}");
    let copilot = entry("home/.copilot/mcp-config.json", "picktools");
    assert_eq!(copilot["deferTools"], "never", "{copilot}");
    assert_eq!(copilot["tools"], json!(["*"]), "{copilot}");
    // Servers of the user with these members move without a warning.
    let servers = json!({"mcpServers": {"x":
        {"command": "y", "alwaysLoad": true, "deferTools": "auto"}}});
    machine.write_json("home/.cursor/mcp.json", &servers);
    let (report, _) = machine.init_formats(&["--dry-run", "--client", "cursor"]);
    assert_eq!(report["files"][0].get("warnings"), None, "{report}");
}

#[test]
fn init_undo_keeps_the_line_ends_of_an_edited_file() {
    let machine = Machine::new();
    let servers = "{\r\n  \"mcpServers\": {\r\n    \"a\": {\r\n      \"command\": \"x\"\r\n    },\r\n    \
                   \"b\": {\"command\": \"y\"}\r\n  }\r\n}\r\n";
    machine.write("home/.cursor/mcp.json", servers);
    assert_eq!(machine.init_formats(&["--yes"]).1, Some(0));
    let edited = machine.text("home/.cursor/mcp.json") + "\r\n";
    machine.write("home/.cursor/mcp.json", edited);
    assert_eq!(machine.init_formats(&["--undo"]).1, Some(0));
    let restored = machine.text("home/.cursor/mcp.json");
    assert_eq!(restored, format!("{servers}\r\n"));
}
