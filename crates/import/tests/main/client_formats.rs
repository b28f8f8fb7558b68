//! The files of clients with a format of their own: Codex, opencode and Goose.

use std::path::Path;
use std::time::Duration;

use picktools_import::mcp;
use picktools_import::mcp::{
    ConfigEnvironment, Configuration, McpConfigError, Server, ServerTransport,
};

fn parse(text: &str) -> Result<Configuration, McpConfigError> {
    let variable = |name: &str| match name {
        "KEY" => Some("s3cret".to_owned()),
        "REGION" => Some("eu".to_owned()),
        _ => None,
    };
    let environment = ConfigEnvironment {
        variable: &variable,
        folder: Path::new("/home/ada"),
        read: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    mcp::parse_configuration(text, &environment)
}

fn server<'a>(configuration: &'a Configuration, name: &str) -> &'a Server {
    let server = configuration
        .servers
        .iter()
        .find(|server| server.name == name);
    server.unwrap_or_else(|| panic!("{name}: {configuration:?}"))
}

/// Returns the command line and the variables of a server.
fn program(configuration: &Configuration, name: &str) -> (Vec<String>, Vec<(String, String)>) {
    let ServerTransport::Stdio {
        command,
        arguments,
        variables,
        ..
    } = &server(configuration, name).transport
    else {
        panic!("{name} is a program: {configuration:?}")
    };
    let mut line = vec![command.clone()];
    line.extend(arguments.iter().cloned());
    (line, variables.clone().into_iter().collect())
}

/// Returns the address and the headers of a server.
fn address(configuration: &Configuration, name: &str) -> (String, Vec<(String, String)>) {
    let ServerTransport::Http { url, headers, .. } = &server(configuration, name).transport else {
        panic!("{name} has an address: {configuration:?}")
    };
    (url.clone(), headers.clone().into_iter().collect())
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    pairs.iter().map(owned).collect()
}

fn fault(configuration: &Configuration, name: &str) -> String {
    let fault = configuration
        .faults
        .iter()
        .find(|fault| fault.server == name);
    fault.map_or_else(|| panic!("{name}: {configuration:?}"), ToString::to_string)
}

#[test]
fn servers_of_codex_are_read() {
    let text = r#"
# The model.
model = "gpt-5.5"
projects = { "/work" = { trust_level = "trusted" } }

[mcp_servers.files] # local
command = "npx"
args = ["-y", 'files', 8080]
env_vars = ["REGION", "NOT_SET"]
tool_timeout_sec = 5_000
startup_timeout_sec = 20
disabled_tools = ["wipe"]
default_tools_approval_mode = "prompt"

[mcp_servers.files.env]
MODE = "fast"

[mcp_servers.files.tools.list]
approval_mode = "approve"

[mcp_servers."mail.eu"]
url = "https://mail.example/mcp"
bearer_token_env_var = "KEY"
http_headers = { "X-Team" = "a" }
env_http_headers = { "X-Region" = "REGION", "X-None" = "NOT_SET" }

[mcp_servers.off]
command = "x"
enabled = false

[mcp_servers.login]
url = "https://login.example/mcp"
scopes = ["read"]

[mcp_servers.plain]
command = "x"
args = ["${HOME}"]
"#;
    assert!(mcp::is_configuration(text));
    let configuration = parse(text).expect("a configuration");
    assert_eq!(
        program(&configuration, "files"),
        (
            texts(&["npx", "-y", "files", "8080"]),
            pairs(&[("MODE", "fast")])
        )
    );
    let ServerTransport::Stdio { inherit, .. } = &server(&configuration, "files").transport else {
        panic!("a program: {configuration:?}");
    };
    assert_eq!(inherit, &["REGION", "NOT_SET"]);
    let files = server(&configuration, "files");
    assert_eq!(files.call_timeout, Some(Duration::from_secs(5_000)));
    assert!(files.tools.permits("list") && !files.tools.permits("wipe"));
    assert_eq!(
        address(&configuration, "mail.eu"),
        (
            "https://mail.example/mcp".to_owned(),
            pairs(&[
                ("Authorization", "Bearer s3cret"),
                ("X-Region", "eu"),
                ("X-Team", "a"),
            ])
        )
    );
    assert_eq!(configuration.disabled, ["off"]);
    assert_eq!(configuration.warnings, []);
    assert!(fault(&configuration, "login").contains("login"));
    // Codex passes such a text on as it is.
    assert!(fault(&configuration, "plain").contains("${"));
    assert_eq!(configuration.faults.len(), 2);
}

#[test]
fn every_notation_of_a_table_is_read() {
    for text in [
        "mcp_servers.a = {command = \"x\"}",
        "mcp_servers = {a = {command = \"x\"}}",
        "mcp_servers.a.command = \"x\"",
        "[mcp_servers]\na.command = \"x\"",
        "[ mcp_servers . a ]\r\n\"command\" = \"x\"\r\n",
        "\u{feff}# a note\n[mcp_servers.a]\ncommand = '''x'''",
    ] {
        let configuration = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(program(&configuration, "a").0, ["x"], "{text}");
    }
}

#[test]
fn servers_of_opencode_are_read() {
    let servers = r#"{
        // A note.
        "files": {"type": "local", "command": ["npx", "-y", "files"], "enabled": true,
            "environment": {"TOKEN": "{env:KEY}", "NONE": "{env:NOT_SET}"}, "timeout": 5000},
        "mail": {"type": "remote", "url": "https://mail.example/mcp", "oauth": false,
            "headers": {"Authorization": "Bearer {env:KEY}"}},
        "off": {"type": "local", "command": ["x"], "enabled": false},
        "also_off": {"type": "local", "command": ["x"], "disabled": true},
        "secret": {"type": "local", "command": ["x"], "environment": {"A": "{file:~/key}"}},
        "login": {"type": "remote", "url": "https://a.example", "oauth": {"scope": "a"}},
        "empty": {"type": "local", "command": []},
        "number": 3,
    }"#;
    for text in [
        format!("{{\"$schema\": \"https://opencode.ai/config.json\", \"mcp\": {servers}}}"),
        format!("{{\"mcp\": {{\"servers\": {servers}}}}}"),
    ] {
        assert!(mcp::is_configuration(&text), "{text}");
        let configuration = parse(&text).expect("a configuration");
        assert_eq!(
            program(&configuration, "files"),
            (
                texts(&["npx", "-y", "files"]),
                pairs(&[("NONE", ""), ("TOKEN", "s3cret")])
            )
        );
        // It limits the start, not the calls.
        assert_eq!(server(&configuration, "files").call_timeout, None);
        assert_eq!(
            address(&configuration, "mail"),
            (
                "https://mail.example/mcp".to_owned(),
                pairs(&[("Authorization", "Bearer s3cret")])
            )
        );
        assert_eq!(configuration.disabled, ["off", "also_off"]);
        assert!(fault(&configuration, "secret").contains("{file:"));
        for name in ["login", "empty", "number"] {
            fault(&configuration, name);
        }
        assert_eq!(configuration.servers.len(), 2);
        assert_eq!(configuration.warnings, []);
    }
    // A server may have any name.
    let text = r#"{"mcp": {"servers": {"type": "local", "command": ["x"]}}}"#;
    assert_eq!(
        program(&parse(text).expect("one"), "servers").0,
        ["x".to_owned()]
    );
}

#[test]
fn extensions_of_goose_are_read() {
    let text = r#"
GOOSE_PROVIDER: anthropic
extensions:
  developer: # Goose's own
    type: builtin
    enabled: true
    name: developer
    bundled: true
    timeout: 300
  todo:
    {type: platform, name: todo, enabled: true, description: A list}
  files:
    type: stdio
    enabled: true
    name: Files
    cmd: npx
    args: [-y, files, 8080]
    envs: {MODE: fast}
    env_keys: [KEY]
    timeout: 1200
    available_tools: []
    bundled: null
    description: Reads files.
  few:
    {type: stdio, enabled: true, name: few, cmd: x, args: [], available_tools: [list]}
  unset:
    {type: stdio, enabled: true, name: unset, cmd: x, args: [], env_keys: [NOT_SET]}
  mail:
    type: streamable_http
    enabled: true
    name: mail
    uri: https://mail.example/mcp
    envs: {TEAM: a}
    headers:
      Authorization: Bearer ${KEY}
      X-Team: team ${TEAM}
  old:
    {type: sse, enabled: true, name: old, uri: "https://old.example/sse"}
  off:
    {type: stdio, enabled: false, name: off, cmd: x, args: []}
"#;
    assert!(mcp::is_configuration(text));
    let configuration = parse(text).expect("a configuration");
    assert_eq!(configuration.built_in, ["developer", "todo"]);
    assert_eq!(
        program(&configuration, "files"),
        (
            texts(&["npx", "-y", "files", "8080"]),
            pairs(&[("KEY", "s3cret"), ("MODE", "fast")])
        )
    );
    let files = server(&configuration, "files");
    assert_eq!(files.call_timeout, Some(Duration::from_secs(1_200)));
    assert!(files.tools.permits("list"), "an empty list allows all");
    let few = server(&configuration, "few");
    assert!(few.tools.permits("list") && !few.tools.permits("wipe"));
    assert_eq!(
        address(&configuration, "mail"),
        (
            "https://mail.example/mcp".to_owned(),
            pairs(&[("Authorization", "Bearer s3cret"), ("X-Team", "team a")])
        )
    );
    assert!(fault(&configuration, "unset").contains("NOT_SET"));
    assert!(fault(&configuration, "old").contains("SSE"));
    assert_eq!(configuration.disabled, ["off"]);
    assert_eq!(configuration.warnings, []);
}

#[test]
fn one_bad_entry_does_not_affect_its_neighbours() {
    for text in [
        "[mcp_servers.good]\ncommand = \"x\"\n[mcp_servers.bad]\ncommand = 1\n[mcp_servers.odd]\nurl = 1979-05-27",
        "mcp_servers.good = {command = 'x'}\nmcp_servers.bad = {command = 'x', env_vars = 'A'}\n\
         mcp_servers.odd = {url = 'https://a', env_http_headers = ['A']}",
        "mcp_servers.bad = 3\nmcp_servers.odd = []\nmcp_servers.good.command = \"x\"",
        r#"{"mcp": {"good": {"type": "local", "command": ["x"]}, "bad": {"type": "local", "command": [1]}, "odd": {"type": "remote"}}}"#,
        "extensions:\n  good: {type: stdio, cmd: x}\n  bad: {type: stdio, cmd: 1}\n  odd: 3\n",
    ] {
        let configuration = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(configuration.servers.len(), 1, "{configuration:?}");
        assert_eq!(configuration.faults.len(), 2, "{configuration:?}");
    }
}

#[test]
fn files_without_servers_or_with_bad_syntax_are_errors() {
    for text in [
        "model = \"gpt-5\"\n",
        "# nothing\n\n[projects.\"/a\"]\nx = 1",
        "GOOSE_MODE: auto\n",
        "---\nextensions: {}\n",
        "extensions: []\n",
    ] {
        let is_empty = match parse(text) {
            Ok(configuration) => configuration.servers.is_empty(),
            Err(error) => matches!(
                error,
                McpConfigError::NoServers | McpConfigError::NoObject { .. }
            ),
        };
        assert!(is_empty, "{text}: {:?}", parse(text));
    }
    for (text, expected) in [
        ("[mcp_servers.a]\ncommand = \"s3cret", "line 2"),
        ("[mcp_servers.a]\ncommand = 1\ncommand = 2", "line 3"),
        ("[mcp_servers.a]\n[mcp_servers.a]", "line 2"),
        ("extensions:\n  a: [s3cret\n", "line"),
        ("extensions:\n  a: 1\n  a: 2\n", "duplicate key"),
        ("nonsense", "line 1"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
        assert!(!mcp::is_configuration(text), "{text}");
    }
    let deep = format!("mcp_servers.a = {}", "[".repeat(10_000));
    assert!(parse(&deep).is_err());
    let bomb = "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
                c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
                e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                extensions: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    assert!(parse(bomb).is_err());
}

#[test]
fn documents_of_other_kinds_are_not_configurations() {
    for text in [
        "[package]\nname = \"a\"\n[dependencies]\nb = \"1\"",
        "openapi: 3.1.0\ninfo: {title: a}\nservers: [{url: 'https://a'}]\n",
        "extensions:\n  - a\n",
        "extensions:\n  a: {path: b}\n",
        r#"{"extensions": {"a": {"type": "x"}}}"#,
        r#"{"mcp": {"inputs": []}}"#,
        r#"{"mcp": {}}"#,
        r#"{"mcp": true}"#,
    ] {
        assert!(!mcp::is_configuration(text), "{text}");
    }
}
