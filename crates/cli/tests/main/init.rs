//! `picktools init`: the gateway in front of the servers that clients are configured with.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::cli::{stderr, stdout};
use crate::machine::Machine;

/// Servers in which every value is a secret.
const SERVERS: &str = r#"{
    // the wiki
    "wiki": {"command": "npx", "args": ["-y", "s3cret-argument"], "env": {"KEY": "s3cret-variable"}},
    "mail": {"url": "https://user:s3cret-password@mail.example/s3cret-path?key=s3cret-query",
             "headers": {"Authorization": "Bearer s3cret-header"}}, /* and no more */
  }"#;

struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Machine {
    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn init_command(&self, arguments: &[&str]) -> Command {
        self.command(&[&["init", "--no-check"], arguments].concat())
    }

    fn init(&self, arguments: &[&str]) -> Said {
        let output = self.init_command(arguments).output().expect("it runs");
        Said {
            out: stdout(&output),
            err: stderr(&output),
            code: output.status.code(),
        }
    }

    /// Returns the JSON report of `init`.
    fn json(&self, arguments: &[&str]) -> (Value, Option<i32>) {
        let said = self.init(&[&["--json"], arguments].concat());
        (
            serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}{}", said.out, said.err)),
            said.code,
        )
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder))
            .expect("it is there")
            .flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns the backups next to a file, oldest first.
    fn backups(&self, folder: &str) -> Vec<String> {
        let mut names = self.names(folder);
        names.retain(|name| name.contains(".picktools-backup-"));
        names
    }
}

/// Returns the gateway's entry in the file of Claude Code.
fn claude_entry(machine: &Machine, upstreams: &str) -> Value {
    let mut entry = entry(machine, upstreams);
    entry["alwaysLoad"] = json!(true);
    entry
}

/// Returns the gateway's entry of a file that has it under `mcpServers`.
fn entry(machine: &Machine, upstreams: &str) -> Value {
    json!({"command": env!("CARGO_BIN_EXE_picktools"), "args": ["mcp", "--config", machine.path(upstreams)]})
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn init_moves_servers_verbatim_and_keeps_other_bytes() {
    let before =
        "\u{feff}// mine\r\n{\r\n\t\"theme\" : \"dark\", // why not\r\n\t\"mcpServers\":  ";
    let after = "  /* done */,\r\n\t\"numbers\": [1.0, 1e2,],\r\n}\r\n\r\n";
    let servers = SERVERS.replace('\n', "\r\n");
    let whole = format!("{before}{servers}{after}");
    let machine = Machine::new();
    machine.write("home/.cursor/mcp.json", &whole);
    let said = machine.init(&["--yes"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let written = machine.read("home/.cursor/mcp.json");
    let member = written
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after));
    let member = member.unwrap_or_else(|| panic!("{written}"));
    assert!(
        member.contains("\r\n") && !member.replace("\r\n", "").contains('\n'),
        "{member:?}"
    );
    assert_eq!(
        parsed(member),
        json!({"picktools": entry(&machine, "data/upstreams/cursor.json")})
    );
    assert_eq!(
        machine.read("data/upstreams/cursor.json"),
        format!("{{\"mcpServers\": {servers}}}\n")
    );
    let backups = machine.backups("home/.cursor");
    assert_eq!(machine.read(&format!("home/.cursor/{}", backups[0])), whole);
    let time = backups[0]
        .strip_prefix("mcp.json.picktools-backup-")
        .expect("it is named after the file");
    let shape: String = time
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!((backups.len(), shape.as_str()), (1, "00000000T000000Z"));
}

#[test]
fn init_moves_what_it_can_and_names_what_stays() {
    let machine = Machine::new();
    machine.write(
        "home/.cursor/mcp.json",
        "{\n  \"mcpServers\": {\n    \"mail\": {\"command\": \"mail\", \"proxyy\": 1},\n    \
         \"old\": {\"type\": \"sse\", \"url\": \"https://old.example/sse\"},\n    \
         \"login\": {\"url\": \"https://login.example/mcp\", \"auth\": {\"CLIENT_ID\": \"a\"}},\n    \
         \"near\": {\"command\": \"./near\"},\n    \"asks\": {\"command\": \"asks\", \"env\": \
         {\"KEY\": \"${input:key}\"}}\n  }\n}\n",
    );
    let (report, code) = machine.json(&["--yes"]);
    assert_eq!(code, Some(0), "{report}");
    let file = &report["files"][0];
    assert_eq!(file["servers"][0]["name"], "mail");
    let staying: Vec<&str> = file["staying"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|server| server["name"].as_str())
        .collect();
    assert_eq!(staying, ["old", "login", "near", "asks"], "{file}");
    assert!(
        file["warnings"][0]
            .as_str()
            .is_some_and(|text| text.contains("proxyy")),
        "{file}"
    );
    let written = parsed(&machine.read("home/.cursor/mcp.json"));
    let left = written["mcpServers"].as_object().expect("servers");
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        ["picktools", "old", "login", "near", "asks"]
    );
    assert_eq!(
        left["picktools"],
        entry(&machine, "data/upstreams/cursor.json")
    );
    let moved = parsed(&machine.read("data/upstreams/cursor.json"));
    assert_eq!(
        moved["mcpServers"],
        json!({"mail": {"command": "mail", "proxyy": 1}})
    );
    let (report, _) = machine.json(&["--undo", "--yes"]);
    assert_eq!(report["files"][0]["status"], "restored", "{report}");
}

#[test]
fn init_keeps_a_file_on_one_line() {
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        r#"{"a":1,"mcpServers":{"x":{"command":"y"}},"projects":{"p":{"mcpServers":{}}}}"#,
    );
    assert_eq!(machine.init(&["--yes"]).code, Some(0));
    let written = machine.read("home/.claude.json");
    assert_eq!(written.lines().count(), 1, "{written}");
    let upstreams = "data/upstreams/claude-code.json";
    assert_eq!(
        parsed(&written),
        json!({"a": 1, "mcpServers": {"picktools": claude_entry(&machine, upstreams)}, "projects": {"p": {"mcpServers": {}}}})
    );
    assert_eq!(
        machine.read(upstreams),
        "{\"mcpServers\": {\"x\":{\"command\":\"y\"}}}\n"
    );
}

#[test]
fn init_prints_no_secrets() {
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        format!("{{\"mcpServers\": {SERVERS}}}"),
    );
    // Secrets in malformed or unusual positions.
    machine.write(
        "home/.cursor/mcp.json",
        r#"{"mcpServers": {"x": {"command": "npx --key=s3cret", "args": "s3cret"}}}"#,
    );
    machine.write(
        "home/.gemini/settings.json",
        r#"{"mcpServers": {"x": {"command": "npx", "env": {"A" "s3cret"}}}}"#,
    );
    let project =
        r#"{"mcpServers": {"x": {"command": "npx --key=s3cret", "env": {"A": "${B:-s3cret}"}}}}"#;
    machine.write("project/.mcp.json", project);
    for arguments in [
        &["--dry-run"][..],
        &["--dry-run", "--json"],
        &[],
        &["--yes"],
        &["--yes", "--json"],
        &["--undo"],
    ] {
        let said = machine.init(arguments);
        assert!(
            !format!("{}{}", said.out, said.err).contains("s3cret"),
            "{arguments:?}: {}{}",
            said.out,
            said.err
        );
        if arguments == ["--dry-run"] {
            for shown in [
                "wiki",
                "npx",
                "mail",
                "https://mail.example",
                "picktools",
                "claude-code.json",
            ] {
                assert!(said.out.contains(shown), "{shown}: {}", said.out);
            }
        }
    }
}

#[test]
fn init_without_confirmation_writes_nothing() {
    let machine = Machine::new();
    let text = format!("{{\"mcpServers\": {SERVERS}}}");
    machine.write("home/.claude.json", &text);
    for (arguments, code) in [
        (&[][..], 1),
        (&["--json"], 1),
        (&["--dry-run"], 0),
        (&["--dry-run", "--json"], 0),
    ] {
        let said = machine.init(arguments);
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.err);
        assert!(said.out.contains("wiki"), "{arguments:?}: {}", said.out);
    }
    assert_eq!(
        (
            machine.read("home/.claude.json"),
            machine.names("home").len()
        ),
        (text, 1)
    );
    assert!(machine.names("data").is_empty());
}

#[test]
#[cfg(target_os = "linux")]
fn init_on_a_terminal_asks_for_each_file() {
    const SCRIPT: &str = "
import os, pty, sys
process, terminal = pty.fork()
if process == 0: os.execv(sys.argv[1], sys.argv[1:])
said, answers = b'', [b'n\\n', b'y\\n']
while True:
    try: read = os.read(terminal, 4096)
    except OSError: break
    if not read: break
    said += read
    if answers and said.endswith(b'[y/N] '):
        said += b'|'
        os.write(terminal, answers.pop(0))
sys.stdout.buffer.write(said)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
";
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
    machine.write("home/.claude.json", text);
    machine.write("home/.cursor/mcp.json", text);
    let output = Command::new("python3")
        .args(["-c", SCRIPT, env!("CARGO_BIN_EXE_picktools"), "init"])
        .current_dir(machine.path("project"))
        .env("HOME", machine.path("home"))
        .env("PICKTOOLS_DATA_DIR", machine.path("data"))
        .output()
        .expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    assert_eq!(
        stdout(&output).matches("[y/N] ").count(),
        2,
        "{}",
        stdout(&output)
    );
    assert_eq!(machine.read("home/.claude.json"), text, "no was said");
    assert!(
        machine.read("home/.cursor/mcp.json").contains("picktools"),
        "yes was said"
    );
}

#[test]
fn init_repeated_changes_nothing() {
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        format!("{{\"mcpServers\": {SERVERS}}}"),
    );
    assert_eq!(machine.init(&["--yes"]).code, Some(0));
    let (first, upstreams) = (
        machine.read("home/.claude.json"),
        machine.read("data/upstreams/claude-code.json"),
    );
    let said = machine.init(&["--yes"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.out.contains("already uses the picktools gateway"),
        "{}",
        said.out
    );
    assert_eq!(machine.json(&[]).0["files"][0]["status"], "already");
    assert_eq!(machine.read("home/.claude.json"), first);
    assert_eq!(machine.read("data/upstreams/claude-code.json"), upstreams);
    assert_eq!(machine.backups("home").len(), 1);
}

#[test]
fn init_takes_servers_along_that_were_added_later() {
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        format!("{{\"mcpServers\": {SERVERS}}}"),
    );
    assert_eq!(machine.init(&["--yes"]).code, Some(0));
    let first = machine.read("home/.claude.json");
    let added = first.replacen(
        "\"picktools\"",
        "\"late\": {\"command\": \"y\"}, \"wiki\": {\"command\": \"other\"}, \"picktools\"",
        1,
    );
    machine.write("home/.claude.json", &added);
    let (found, code) = machine.json(&["--yes"]);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found["files"][0]["servers"][0]["name"], "late");
    // Two servers of one name cannot be behind one gateway.
    assert_eq!(found["files"][0]["staying"][0]["name"], "wiki");
    let client = parsed(&machine.read("home/.claude.json"));
    let names: Vec<&String> = client["mcpServers"]
        .as_object()
        .expect("an object")
        .keys()
        .collect();
    assert_eq!(names, ["wiki", "picktools"], "{client}");
    let upstreams = machine.read("data/upstreams/claude-code.json");
    let parsed_upstreams = machine.json(&["--dry-run"]);
    assert_eq!(parsed_upstreams.0["files"][0]["status"], "already");
    for name in ["\"wiki\"", "\"mail\"", "\"late\""] {
        assert_eq!(upstreams.matches(name).count(), 1, "{upstreams}");
    }
    // All three come back; the second wiki is the user's newer one.
    assert_eq!(machine.init(&["--undo"]).code, Some(0));
    let client = machine.read("home/.claude.json");
    for name in ["\"wiki\"", "\"mail\"", "\"late\""] {
        assert_eq!(client.matches(name).count(), 1, "{client}");
    }
    assert!(
        client.contains("\"other\"") && !client.contains("picktools"),
        "{client}"
    );
}

#[test]
fn init_never_replaces_other_upstreams_files() {
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
    machine.write("home/.claude.json", text);
    machine.write("data/upstreams/claude-code.json", "mine");
    let said = machine.init(&["--yes"]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(
        said.err.contains("upstreams") && said.err.contains("other content"),
        "{}",
        said.err
    );
    assert_eq!(machine.read("home/.claude.json"), text);
    assert_eq!(machine.read("data/upstreams/claude-code.json"), "mine");
    assert!(machine.backups("home").is_empty());
}

#[test]
fn init_skips_faulty_files_and_continues() {
    let sound = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
    for (text, fault) in [
        (&b"{\"mcpServers\": {"[..], "invalid JSON"),
        (b"", "is empty"),
        (b"\xff\xfe{\0}\0", "UTF-8"),
        (b"[]", "not a JSON object"),
        (br#"{"mcpServers": []}"#, "not an object"),
        (
            br#"{"mcpServers": {"x": {"command": "y"}}, "mcpServers": {}}"#,
            "duplicate key",
        ),
        (
            br#"{"mcpServers": {"x": {"command": "y"}, "x": {"command": "z"}}}"#,
            "duplicate key",
        ),
        // Servers that the gateway could not reach would be lost.
        (
            br#"{"mcpServers": {"old": {"type": "sse", "url": "https://x"}}}"#,
            "old: the entry uses the HTTP+SSE",
        ),
        (
            br#"{"mcpServers": {"odd": {"settings": {}}}}"#,
            "odd: the entry has neither",
        ),
        (
            br#"{"mcpServers": {"asks": {"command": "y", "env": {"K": "${input:key}"}}}}"#,
            "asks",
        ),
        (
            br#"{"mcpServers": {"file": {"command": "y", "env": {"K": "${file:/key}"}}}}"#,
            "file",
        ),
        // Values that depend on the folder of the file.
        (
            br#"{"mcpServers": {"here": {"command": "y", "cwd": "sub"}}}"#,
            "here",
        ),
        (br#"{"mcpServers": {"here": {"command": "./y"}}}"#, "here"),
        (
            br#"{"mcpServers": {"here": {"command": "y", "args": ["${workspaceFolder}/a"]}}}"#,
            "here",
        ),
    ] {
        let machine = Machine::new();
        machine.write("home/.cursor/mcp.json", text);
        let alone = machine.init(&["--yes"]);
        assert_eq!(alone.code, Some(2), "{fault}: {}", alone.out);
        machine.write("home/.claude.json", sound);
        let said = machine.init(&["--yes"]);
        assert_eq!(said.code, Some(0), "{fault}: {}", said.err);
        assert!(
            said.err.contains(fault) && said.err.contains(".cursor"),
            "{fault}: {}",
            said.err
        );
        assert_eq!(
            fs::read(machine.path("home/.cursor/mcp.json")).expect("it is there"),
            text
        );
        assert!(
            machine.read("home/.claude.json").contains("picktools"),
            "{fault}"
        );
    }
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        format!("{sound}{}", " ".repeat(4 << 20)),
    );
    machine.write(
        "home/.gemini/settings.json",
        r#"{"mcpServers": {"x": {"command": "y", "env": {"K": "$KEY"}}}}"#,
    );
    fs::create_dir_all(machine.path("home/.cursor/mcp.json")).expect("a folder in place of a file");
    let (found, code) = machine.json(&["--yes"]);
    let messages = found["files"].to_string();
    assert_eq!(code, Some(2), "{messages}");
    for fault in ["4 MiB", "${KEY}", "not a file"] {
        assert!(messages.contains(fault), "{fault}: {messages}");
    }
    assert!(found["error"]["message"].is_string(), "{found}");
}

#[test]
fn init_without_servers_exits_with_1() {
    let machine = Machine::new();
    let said = machine.init(&["--yes"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    machine.write("home/.gemini/settings.json", r#"{"theme": "dark"}"#);
    machine.write("home/.claude.json", r#"{"mcpServers": {}}"#);
    let (found, code) = machine.json(&["--yes"]);
    assert_eq!(code, Some(1), "{found}");
    assert_eq!(
        (&found["files"][0]["status"], &found["files"][1]["status"]),
        (&json!("no_servers"), &json!("no_servers"))
    );
    assert!(machine.names("data").is_empty());
}

#[test]
fn init_leaves_read_only_files() {
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
    machine.write("home/.claude.json", text);
    let path = machine.path("home/.claude.json");
    let mut permissions = fs::metadata(&path).expect("it is there").permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).expect("it is ours");
    let said = machine.init(&["--yes"]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("read-only"), "{}", said.err);
    assert_eq!(
        (
            machine.read("home/.claude.json"),
            machine.names("home").len()
        ),
        (text.to_owned(), 1)
    );
}

#[test]
#[cfg(unix)]
fn init_follows_links_only_within_the_root() {
    use std::os::unix::fs::symlink;
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
    machine.write("home/dotfiles/claude.json", text);
    symlink("dotfiles/claude.json", machine.path("home/.claude.json")).expect("a link");
    machine.write("elsewhere.json", text);
    fs::create_dir(machine.path("home/.cursor")).expect("it is new");
    symlink(
        machine.path("elsewhere.json"),
        machine.path("home/.cursor/mcp.json"),
    )
    .expect("a link");
    fs::create_dir(machine.path("home/.gemini")).expect("it is new");
    symlink("nowhere", machine.path("home/.gemini/settings.json")).expect("a link");
    // Otherwise a project could give the owner's servers to its readers.
    symlink(
        machine.path("home/dotfiles/claude.json"),
        machine.path("project/.mcp.json"),
    )
    .expect("a link");
    let said = machine.init(&["--yes"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for left in [
        ".cursor/mcp.json",
        ".gemini/settings.json",
        "project/.mcp.json",
    ] {
        assert!(said.err.contains(left), "{left}: {}", said.err);
    }
    assert!(
        fs::symlink_metadata(machine.path("home/.claude.json"))
            .expect("it is there")
            .is_symlink()
    );
    assert!(
        machine
            .read("home/dotfiles/claude.json")
            .contains("picktools")
    );
    assert_eq!(machine.backups("home/dotfiles").len(), 1);
    assert_eq!(machine.read("elsewhere.json"), text);
    assert_eq!(machine.names("project"), [".mcp.json"]);
    let said = machine.init(&["--undo"]);
    assert_eq!(
        machine.read("home/dotfiles/claude.json"),
        text,
        "{}",
        said.err
    );
}

#[test]
fn init_undo_restores_the_backup() {
    let machine = Machine::new();
    let text = format!("{{\"mcpServers\": {SERVERS}}}");
    machine.write("home/.claude.json", &text);
    let said = machine.init(&["--undo"]);
    assert_eq!(said.code, Some(1), "there is nothing to undo: {}", said.err);
    assert_eq!(machine.init(&["--yes"]).code, Some(0));
    let written = machine.read("home/.claude.json");
    assert_eq!(machine.init(&["--undo", "--dry-run"]).code, Some(0));
    assert_eq!(machine.read("home/.claude.json"), written);
    let said = machine.init(&["--undo"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(machine.read("home/.claude.json"), text);
    assert_eq!(machine.backups("home").len(), 1, "the backup stays");
    assert!(!machine.path("data/upstreams/claude-code.json").exists());
    assert_eq!(
        machine.json(&["--undo"]).0["files"][0]["status"],
        "not_behind"
    );
    // After a kill between backup and replacement, the file is unchanged.
    let (found, code) = machine.json(&["--yes"]);
    assert_eq!(
        (&found["files"][0]["status"], code),
        (&json!("written"), Some(0)),
        "{found}"
    );
    assert_eq!(machine.read("home/.claude.json"), written);
}

#[test]
fn init_undo_does_not_restore_a_changed_backup() {
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
    machine.write("home/.claude.json", text);
    assert_eq!(machine.init(&["--yes"]).code, Some(0));
    let backups = machine.backups("home");
    let backup = backups.first().expect("a backup");
    let planted = r#"{"mcpServers": {"planted": {"command": "evil"}}}"#;
    machine.write(&format!("home/{backup}"), planted);
    let said = machine.init(&["--undo"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("is not the one that"), "{}", said.err);
    assert_eq!(parsed(&machine.read("home/.claude.json")), parsed(text));
}

#[test]
fn init_undo_keeps_later_changes_of_the_file() {
    for text in [
        r#"{"mcpServers": {"x": {"command": "y"}, "z": {"url": "https://z.example"}}}"#,
        "{\n  \"mcpServers\": {\n    \"x\": {\"command\": \"y\"},\n    \"z\": {\"url\": \"https://z.example\"}\n  }\n}\n",
    ] {
        let machine = Machine::new();
        machine.write("home/.claude.json", text);
        assert_eq!(machine.init(&["--yes"]).code, Some(0));
        let edited = machine
            .read("home/.claude.json")
            .replacen('{', "{\"theme\": \"dark\", ", 1);
        machine.write("home/.claude.json", &edited);
        let said = machine.init(&["--undo"]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let expected = text.replacen('{', "{\"theme\": \"dark\", ", 1);
        assert_eq!(machine.read("home/.claude.json"), expected);
        let names = machine.names("home");
        let undone = names
            .iter()
            .find(|name| name.contains(".picktools-undone-"));
        let undone = undone.expect("a copy is kept");
        assert_eq!(machine.read(&format!("home/{undone}")), edited);
    }
}

#[test]
fn init_undo_without_the_moved_servers_changes_nothing() {
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        r#"{"mcpServers": {"x": {"command": "y"}}}"#,
    );
    assert_eq!(machine.init(&["--yes"]).code, Some(0));
    let written = machine.read("home/.claude.json");
    fs::remove_file(machine.path("data/upstreams/claude-code.json")).expect("it is there");
    let said = machine.init(&["--undo"]);
    assert_eq!(said.code, Some(2), "{}", said.out);
    assert!(said.err.contains("is missing"), "{}", said.err);
    assert_eq!(machine.read("home/.claude.json"), written);
}

#[test]
fn init_moves_servers_of_claude_codes_projects_apart() {
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"all": {"command": "a"}},
  "projects": {"/work/one": {"history": [], "mcpServers": {"own": {"command": "b"}}},
    "/work/two": {"mcpServers": {}}, "/work/three": {"mcpServers": {"own": {"command": "c"}}}}}"#;
    machine.write("home/.claude.json", text);
    let (found, code) = machine.json(&["--yes"]);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found["files"].as_array().map(Vec::len), Some(3), "{found}");
    assert_eq!(found["files"][1]["project"], "/work/one");
    let client = parsed(&machine.read("home/.claude.json"));
    assert!(client["mcpServers"]["picktools"].is_object(), "{client}");
    for project in ["/work/one", "/work/three"] {
        let servers = &client["projects"][project]["mcpServers"];
        let names: Vec<&String> = servers.as_object().expect("an object").keys().collect();
        assert_eq!(names, ["picktools-local"], "no entry hides another");
    }
    let gateway_files: Vec<&Value> = ["/work/one", "/work/three"]
        .map(|project| &client["projects"][project]["mcpServers"]["picktools-local"]["args"][2])
        .into();
    assert_ne!(gateway_files[0], gateway_files[1]);
    assert_eq!(machine.json(&["--yes"]).1, Some(0), "nothing is left");
    assert_eq!(machine.init(&["--undo"]).code, Some(0));
    assert_eq!(parsed(&machine.read("home/.claude.json")), parsed(text));
}

#[test]
fn init_uninstall_restores_and_removes_everything() {
    let machine = Machine::new();
    let text = format!("{{\"mcpServers\": {SERVERS}}}");
    machine.write("home/.claude.json", &text);
    machine.write(
        "project/.mcp.json",
        r#"{"mcpServers": {"x": {"command": "y"}}}"#,
    );
    assert_eq!(machine.init(&["--yes", "--project"]).code, Some(0));
    machine.write("data/gateway/pins.json", "{}");
    let said = machine.init(&["--uninstall"]);
    assert!(said.out.contains("removes "), "{}{}", said.out, said.err);
    assert!(
        machine.path("data/gateway/pins.json").exists(),
        "no one agreed"
    );
    let said = machine.init(&["--uninstall", "--yes"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(machine.read("home/.claude.json"), text);
    assert!(machine.read("project/.mcp.json").contains("\"x\""));
    assert!(!machine.path("data/gateway").exists());
    // Files of others, and what is in no client's file, stay.
    machine.write("data/of-others.txt", "x");
    machine.write("data/upstreams/zed.json", "{}");
    machine.write("data/gateway/pins.json", "{}");
    let said = machine.init(&["--uninstall", "--yes"]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.err.contains("upstreams stays"), "{}", said.err);
    assert!(machine.path("data/of-others.txt").exists());
    assert!(machine.path("data/upstreams/zed.json").exists());
    assert!(!machine.path("data/gateway").exists());
}

#[test]
fn init_leaves_servers_that_the_gateway_cannot_name() {
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        r#"{"mcpServers": {"github.com/a/b": {"command": "x"}, "fine": {"command": "y"}}}"#,
    );
    let (found, code) = machine.json(&["--yes"]);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found["files"][0]["staying"][0]["name"], "github.com/a/b");
    assert!(machine.read("home/.claude.json").contains("github.com/a/b"));
    assert!(
        !machine
            .read("data/upstreams/claude-code.json")
            .contains("github.com")
    );
}

#[test]
fn init_undo_leaves_an_entry_of_the_users_own() {
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"picktools": {"command": "picktools", "args": ["mcp", "--config", "/home/ada/servers.json"]}}}"#;
    machine.write("home/.claude.json", text);
    let (found, code) = machine.json(&["--undo"]);
    assert_eq!(
        (&found["files"][0]["status"], code),
        (&json!("not_behind"), Some(1))
    );
    assert_eq!(machine.init(&["--uninstall", "--yes"]).code, Some(0));
    assert_eq!(machine.read("home/.claude.json"), text);
}

#[test]
fn init_tries_the_servers_and_says_how_to_go_on() {
    let machine = Machine::new();
    machine.write(
        "home/.claude.json",
        json!({"mcpServers": {"up": crate::gateway::upstream(), "bad": {"command": "no-such"}}})
            .to_string(),
    );
    let output = machine
        .init_command(&["--yes"])
        .args(["--client", "claude-code"])
        .output()
        .expect("it runs");
    assert!(!stdout(&output).contains("25 tools"), "it was not asked to");
    assert_eq!(machine.init(&["--undo"]).code, Some(0));
    let output = machine
        .command(&["init", "--yes"])
        .output()
        .expect("it runs");
    let out = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{out}");
    for expected in [
        "bad: \"no-such\" cannot be started",
        "1 of 2 servers can be used",
        "the gateway lists all of them directly",
        "Restart the clients",
        "  Claude Code: start a new session",
        "picktools init --undo",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let rows: Vec<Vec<&str>> = out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(
        rows.contains(&vec!["server", "tools", "tokens", "state", "findings"]),
        "{out}"
    );
    let is_up = |row: &Vec<&str>| row.starts_with(&["up", "25"]) && row.ends_with(&["ok"]);
    assert!(rows.iter().any(is_up), "{out}");
}

#[test]
fn init_keeps_project_servers_in_the_project() {
    let machine = Machine::new();
    let claude = r#"{"mcpServers": {"here": {"command": "./serve", "cwd": "sub"}}}"#;
    machine.write("project/.mcp.json", claude);
    let code = r#"{"servers": {"here": {"command": "y", "args": ["${workspaceFolder}/a"]}}}"#;
    machine.write("project/.vscode/mcp.json", code);
    let said = machine.init(&["--yes"]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.err.contains("pass --project"), "{}", said.err);
    let said = machine.init(&["--yes", "--project"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let claude: Value = parsed(&machine.read("project/.mcp.json"));
    // The project may be used on other machines.
    assert_eq!(
        claude["mcpServers"],
        json!({"picktools-project":
            {"alwaysLoad": true, "command": "picktools",
             "args": ["mcp", "--config", ".mcp.upstreams.json"]}})
    );
    let code: Value = parsed(&machine.read("project/.vscode/mcp.json"));
    let path = "${workspaceFolder}/.vscode/mcp.upstreams.json";
    assert_eq!(
        code["servers"],
        json!({"picktools-project":
            {"type": "stdio", "command": "picktools", "args": ["mcp", "--config", path]}})
    );
    assert!(
        machine
            .read("project/.mcp.upstreams.json")
            .contains(r#"{"here": {"command": "./serve", "cwd": "sub"}}"#)
    );
    assert!(
        machine
            .read("project/.vscode/mcp.upstreams.json")
            .starts_with("{\"servers\": ")
    );
    assert_eq!(
        machine.names("project"),
        [".mcp.json", ".mcp.upstreams.json", ".vscode"],
        "no backup is beside a file that may be published"
    );
    assert_eq!(machine.init(&["--undo", "--project"]).code, Some(0));
    assert!(machine.read("project/.mcp.json").contains("./serve"));
    assert!(!machine.path("project/.mcp.upstreams.json").exists());
}

#[test]
#[cfg(target_os = "linux")]
fn init_finds_each_client_and_writes_its_format() {
    let machine = Machine::new();
    let servers = r#"{"x": {"command": "y"}}"#;
    let places = [
        (
            "claude-desktop",
            "home/.config/Claude/claude_desktop_config.json",
            "mcpServers",
        ),
        ("claude-code", "home/.claude.json", "mcpServers"),
        ("cursor", "home/.cursor/mcp.json", "mcpServers"),
        ("vscode", "home/.config/Code/User/mcp.json", "servers"),
        (
            "windsurf",
            "home/.codeium/windsurf/mcp_config.json",
            "mcpServers",
        ),
        ("zed", "home/.config/zed/settings.json", "context_servers"),
        ("gemini", "home/.gemini/settings.json", "mcpServers"),
    ];
    for (_, file, member) in places {
        machine.write(file, format!("{{\"{member}\": {servers}}}"));
    }
    let (found, _) = machine.json(&["--dry-run", "--client", "zed", "--client", "cursor"]);
    let clients: Vec<_> = found["files"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|file| &file["client"])
        .collect();
    assert_eq!(clients, ["cursor", "zed"]);
    assert_eq!(machine.init(&["--client", "emacs"]).code, Some(2));
    assert_eq!(machine.init(&["--yes"]).code, Some(0));
    for (client, file, member) in places {
        let upstreams = format!("data/upstreams/{client}.json");
        let mut expected = entry(&machine, &upstreams);
        match client {
            "vscode" => expected["type"] = json!("stdio"),
            "zed" => expected["source"] = json!("custom"),
            "claude-code" => expected["alwaysLoad"] = json!(true),
            _ => {}
        }
        assert_eq!(
            parsed(&machine.read(file)),
            json!({member: {"picktools": expected}}),
            "{client}"
        );
        assert_eq!(
            machine.read(&upstreams),
            format!("{{\"{member}\": {servers}}}\n"),
            "{client}"
        );
    }
    // Only in the folder XDG_CONFIG_HOME.
    let elsewhere = Machine::new();
    elsewhere.write(
        "config/zed/settings.json",
        format!("{{\"context_servers\": {servers}}}"),
    );
    let output = elsewhere
        .init_command(&["--yes"])
        .env("XDG_CONFIG_HOME", elsewhere.path("config"))
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
#[cfg(unix)]
fn init_keeps_file_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new();
    let text = r#"{"mcpServers": {"x": {"command": "y"}}}"#;
    for (file, mode) in [
        ("home/.claude.json", 0o600),
        ("home/.cursor/mcp.json", 0o644),
        ("project/.mcp.json", 0o600),
    ] {
        machine.write(file, text);
        fs::set_permissions(machine.path(file), fs::Permissions::from_mode(mode))
            .expect("it is ours");
    }
    assert_eq!(machine.init(&["--yes", "--project"]).code, Some(0));
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    let backup = |folder: &str| machine.path(folder).join(&machine.backups(folder)[0]);
    for (path, expected) in [
        (machine.path("data/upstreams"), 0o700),
        (machine.path("data/upstreams/claude-code.json"), 0o600),
        (machine.path("data/upstreams/cursor.json"), 0o600),
        (machine.path("home/.claude.json"), 0o600),
        (backup("home"), 0o600),
        (machine.path("home/.cursor/mcp.json"), 0o644),
        (backup("home/.cursor"), 0o644),
        (machine.path("project/.mcp.upstreams.json"), 0o600),
    ] {
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}
