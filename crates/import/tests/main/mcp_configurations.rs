//! Configuration files of MCP servers from several editors.

use std::path::Path;
use std::time::Duration;

use picktools_import::mcp;
use picktools_import::mcp::{
    ConfigEnvironment, Configuration, McpConfigError, Server, ServerTransport,
};

fn parse(text: &str) -> Result<Configuration, McpConfigError> {
    let variable = |name: &str| match name {
        "KEY" => Some("s3cret".to_owned()),
        "EMPTY" => Some(String::new()),
        "NESTED" => Some("${KEY}".to_owned()),
        "HOME" => Some("/home/ada".to_owned()),
        _ => None,
    };
    mcp::parse_configuration(
        text,
        &ConfigEnvironment {
            variable: &variable,
            folder: Path::new("/work/project/.cursor"),
            read: &|path| match path.to_str() {
                Some("/work/project/.cursor/keys.env") => {
                    Ok("KEY=of the file\nOTHER=1\n".to_owned())
                }
                Some("/home/ada/keys.env") => Ok("HOME_KEY=2\n".to_owned()),
                _ => Err(std::io::ErrorKind::NotFound.into()),
            },
        },
    )
}

fn servers(text: &str) -> Vec<Server> {
    let configuration = parse(text).expect("it is a configuration");
    assert!(
        configuration.faults.is_empty(),
        "{:?}",
        configuration.faults
    );
    configuration.servers
}

/// Returns the error of a configuration with one server.
fn fault(server: &str) -> String {
    let configuration = parse(&format!("{{\"mcpServers\": {{\"one\": {server}}}}}"))
        .expect("it is a configuration");
    let [fault] = &configuration.faults[..] else {
        panic!("{server}: {configuration:?}")
    };
    fault.to_string()
}

fn stdio(server: &Server) -> (&str, &[String], Option<&Path>) {
    let ServerTransport::Stdio {
        command,
        arguments,
        folder,
        ..
    } = &server.transport
    else {
        panic!("{server:?}")
    };
    (command, arguments, folder.as_deref())
}

fn http(server: &Server) -> (&str, Option<&str>) {
    let ServerTransport::Http { url, headers, .. } = &server.transport else {
        panic!("{server:?}")
    };
    (url, headers.get("Authorization").map(String::as_str))
}

#[test]
fn configuration_files_of_all_editors_are_parsed() {
    let claude = servers(
        r#"{"mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server-files", "${userHome}/notes"], "env": {"LEVEL": 3}},
            "wiki": {"type": "http", "url": "https://wiki.example/mcp", "headers": {"Authorization": "Bearer ${KEY}"}}
        }}"#,
    );
    assert_eq!(stdio(&claude[0]).1[2], "/home/ada/notes");
    assert_eq!(
        http(&claude[1]),
        ("https://wiki.example/mcp", Some("Bearer s3cret"))
    );
    let windsurf = servers(r#"{"mcpServers": {"a": {"serverUrl": "https://a.example/mcp"}}}"#);
    assert_eq!(http(&windsurf[0]).0, "https://a.example/mcp");
    let vs_code = servers(
        "// servers of the project\n{\"servers\": {\"a\": {\"type\": \"stdio\", \"command\": \"uvx\", \"args\": [\"a\",], \
         \"cwd\": \"${workspaceFolder}/tools\"}, /* more */ }, \"inputs\": []}",
    );
    assert_eq!(
        stdio(&vs_code[0]),
        (
            "uvx",
            &["a".to_owned()][..],
            Some(Path::new("/work/project/tools"))
        )
    );
    let settings =
        servers(r#"{"editor.fontSize": 12, "mcp": {"servers": {"a": {"command": "a"}}}}"#);
    assert_eq!(settings[0].name, "a");
    let zed = servers(
        r#"{"theme": "x", "context_servers": {
            "old": {"command": {"path": "run", "args": ["--fast"], "env": {"A": "b"}}},
            "new": {"source": "custom", "command": "run", "args": []}}}"#,
    );
    assert_eq!(stdio(&zed[0]).0, "run");
    assert_eq!(stdio(&zed[0]).1, ["--fast"]);
    assert_eq!(stdio(&zed[1]).0, "run");
}

#[test]
fn unset_variable_invalidates_only_its_server() {
    let address = |url: &str| {
        let servers = servers(&format!(
            "{{\"mcpServers\": {{\"a\": {{\"url\": \"{url}\"}}}}}}"
        ));
        http(&servers[0]).0.to_owned()
    };
    assert_eq!(
        address("https://${env:KEY}/${KEY:-x}"),
        "https://s3cret/s3cret"
    );
    assert_eq!(
        address("https://x/${MISSING:-y}${EMPTY:-z}"),
        "https://x/yz"
    );
    assert_eq!(
        address("https://x/${NESTED}"),
        "https://x/${KEY}",
        "the inserted value is not expanded again"
    );
    assert_eq!(address("https://x/$KEY"), "https://x/$KEY");
    let configuration =
        parse(r#"{"mcpServers": {"a": {"command": "${MISSING}"}, "b": {"command": "b"}}}"#)
            .expect("it is one");
    assert_eq!(configuration.servers.len(), 1);
    assert_eq!(
        configuration.faults[0].to_string(),
        "a: the variable \"MISSING\" is not set; set it in the environment"
    );
    assert!(
        fault(r#"{"command": "a", "args": ["${input:token}"]}"#)
            .contains("placeholder \"input:token\" needs input")
    );
    assert!(fault(r#"{"command": "${KEY"}"#).contains("is not closed"));
    for server in [
        r#"{"command": "a", "args": ["${MISSING:-${KEY}}"]}"#,
        r#"{"url": "https://x/${KEY:-${HOME}}"}"#,
        r#"{"command": "a", "env": {"A": "${MISSING:-${EMPTY:-${KEY}}}"}}"#,
    ] {
        let text =
            format!("{{\"mcpServers\": {{\"a\": {server}, \"b\": {{\"command\": \"b\"}}}}}}");
        let configuration = parse(&text).expect("it is a configuration");
        assert_eq!(configuration.servers.len(), 1, "{server}");
        let fault = configuration.faults[0].to_string();
        assert!(
            fault.contains("contains another placeholder; use one variable"),
            "{fault}"
        );
    }
}

#[test]
fn invalid_server_entries_give_the_reason() {
    for (server, message) in [
        ("{}", "neither a command nor a URL"),
        (
            r#"{"command": "a", "url": "https://a"}"#,
            "both a command and a URL",
        ),
        (r#"{"command": ""}"#, "`command` is empty"),
        (r#"{"command": 3}"#, "`command` is"),
        (r#"{"command": "a", "args": "b"}"#, "`args` is"),
        (r#"{"command": "a", "env": ["b"]}"#, "`env` is"),
        (r#"{"url": "file:///etc/passwd"}"#, "not an HTTP URL"),
        (
            r#"{"type": "sse", "url": "https://a/sse"}"#,
            "replaced in 2025",
        ),
        ("[]", "give an object"),
    ] {
        assert!(
            fault(server).contains(message),
            "{server}: {}",
            fault(server)
        );
    }
    let disabled = parse(
        r#"{"mcpServers": {"a": {"command": "a", "disabled": true}, "b": {"url": "x", "enabled": false}}}"#,
    );
    assert_eq!(
        disabled.expect("it is a configuration").disabled,
        ["a", "b"]
    );
}

#[test]
fn other_files_are_not_configurations() {
    assert!(mcp::is_configuration(r#"{"mcpServers": {}}"#));
    assert!(mcp::is_configuration(
        r#"{"servers": {"a": {"command": "a"}}, /* . */}"#
    ));
    for other in [
        r#"{"openapi": "3.0.0", "servers": [{"url": "https://a"}]}"#,
        r#"{"servers": {"a": 1}}"#,
        r#"{"tools": []}"#,
        "[]",
        "{",
        "",
    ] {
        assert!(!mcp::is_configuration(other), "{other}");
    }
    assert_eq!(
        parse("{}").expect_err("it has none"),
        McpConfigError::NoServers
    );
    let twice = r#"{"mcpServers": {"a": {"command": "a"}, "a": {"command": "b"}}}"#;
    assert_eq!(
        parse(twice).expect_err("it says two things"),
        McpConfigError::Repeated("/mcpServers/a".to_owned())
    );
    assert!(matches!(parse("{"), Err(McpConfigError::Syntax(_))));
    assert!(matches!(
        parse(r#"{"mcpServers": []}"#),
        Err(McpConfigError::NoObject { .. })
    ));
    let many = (0..1_001)
        .map(|n| format!("\"s{n}\": {{\"command\": \"a\"}}"))
        .collect::<Vec<_>>()
        .join(",");
    assert_eq!(
        parse(&format!("{{\"mcpServers\": {{{many}}}}}")).expect_err("they are many"),
        McpConfigError::TooMany
    );
    let deep = format!(
        "{{\"mcpServers\": {}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(parse(&deep).is_err());
}

#[test]
fn debug_output_hides_secrets() {
    let servers = servers(
        r#"{"mcpServers": {"a": {"url": "https://a/?k=${KEY}", "headers": {"X": "${KEY}"}},
        "b": {"command": "b", "args": ["--key=${KEY}"], "env": {"TOKEN": "${KEY}"}}}}"#,
    );
    let debug = format!("{servers:?}");
    assert!(
        debug.contains("TOKEN") && !debug.contains("s3cret"),
        "{debug}"
    );
}

#[test]
fn client_credentials_are_parsed_and_hidden() {
    let servers = servers(
        r#"{"mcpServers": {"a": {"url": "https://a.example/mcp", "clientCredentials": {"clientId": "robot",
            "clientSecret": "${KEY}", "scopes": ["read"], "tokenUrl": "https://login.example/token"}}}}"#,
    );
    let ServerTransport::Http {
        credentials: Some(credentials),
        ..
    } = &servers[0].transport
    else {
        panic!("{servers:?}")
    };
    assert_eq!(
        (credentials.id.as_str(), credentials.secret.as_str()),
        ("robot", "s3cret")
    );
    assert!(!format!("{servers:?} {credentials:?}").contains("s3cret"));
}

#[test]
fn incomplete_or_exposed_credentials_are_faults() {
    let with = |credentials: &str| {
        format!("{{\"url\": \"https://a.example/mcp\", \"clientCredentials\": {credentials}}}")
    };
    let to = |url: &str| {
        with(&format!(
            "{{\"clientId\": \"a\", \"clientSecret\": \"b\", \"tokenUrl\": {url:?}}}"
        ))
    };
    for (server, needle) in [
        (with("\"robot\""), "is a string"),
        (with("{\"clientId\": \"a\"}"), "no `clientSecret`"),
        (
            with("{\"clientId\": \"a\", \"clientSecret\": \"${EMPTY}\"}"),
            "`clientSecret` is empty",
        ),
        (
            with("{\"clientId\": \"a\", \"clientSecret\": \"b\", \"scope\": \"read\"}"),
            "unknown key \"scope\"",
        ),
        (to("http://login.example/token"), "not an HTTPS URL"),
        (
            to("http://localhost:1@login.example/token"),
            "not an HTTPS URL",
        ),
        (
            to("http://localhost.login.example/token"),
            "not an HTTPS URL",
        ),
        (to("http://localhost\\@login.example"), "not an HTTPS URL"),
        (to("file:///token"), "not an HTTPS URL"),
        (
            with(
                "{\"clientId\": \"a\", \"clientSecret\": \"b\"}, \"headers\": {\"authorization\": \"x\"}",
            ),
            "both `clientCredentials` and an `Authorization` header",
        ),
    ] {
        assert!(
            fault(&server).contains(needle),
            "{server}: {}",
            fault(&server)
        );
    }
}

#[test]
fn members_of_other_clients_are_honoured() {
    let servers = servers(
        r#"{"mcpServers": {
            "program": {"command": "run", "args": ["--port", 8080, true], "cwd": "~/data",
                        "envFile": "keys.env", "env": {"KEY": "own"}, "timeout": 600000},
            "home": {"command": "run", "envFile": "~/keys.env"},
            "site": {"type": "HTTP", "url": "https://a.example/mcp", "http_headers": {"X-A": "1"},
                     "bearer_token_env_var": "KEY", "tool_timeout_sec": 5}}}"#,
    );
    let ServerTransport::Stdio {
        arguments,
        variables,
        folder,
        ..
    } = &servers[0].transport
    else {
        panic!("{servers:?}")
    };
    assert_eq!(arguments, &["--port", "8080", "true"]);
    assert_eq!(folder.as_deref(), Some(Path::new("/home/ada/data")));
    assert_eq!(
        (variables["KEY"].as_str(), variables["OTHER"].as_str()),
        ("own", "1"),
        "`env` comes before `envFile`"
    );
    assert_eq!(servers[0].call_timeout, Some(Duration::from_secs(600)));
    let ServerTransport::Stdio { variables, .. } = &servers[1].transport else {
        panic!("{servers:?}")
    };
    assert_eq!(variables["HOME_KEY"], "2");
    let ServerTransport::Http { headers, .. } = &servers[2].transport else {
        panic!("{servers:?}")
    };
    assert_eq!(
        (headers["X-A"].as_str(), headers["Authorization"].as_str()),
        ("1", "Bearer s3cret")
    );
    assert_eq!(servers[2].call_timeout, Some(Duration::from_secs(5)));
}

#[test]
fn unknown_member_is_a_warning_and_an_unsupported_one_a_fault() {
    let configuration = parse(
        r#"{"mcpServers": {
            "odd": {"command": "run", "proxyy": "x", "description": "harmless"},
            "login": {"url": "https://a.example/mcp", "oauth": {"scopes": ["a"]}},
            "fine": {"command": "run", "disabledTools": ["wipe"], "alwaysAllow": ["read"]}}}"#,
    )
    .expect("it is a configuration");
    let names: Vec<&str> = configuration
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(names, ["odd", "fine"]);
    let warnings: Vec<String> = configuration
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        matches!(&warnings[..], [one] if one.contains("odd") && one.contains("\"proxyy\"")),
        "{warnings:?}"
    );
    let said = configuration.faults[0].to_string();
    assert!(said.contains("login") && said.contains("`oauth`"), "{said}");
    for (server, needle) in [
        (
            r#"{"command": "run", "envFile": "missing.env"}"#,
            "`envFile`",
        ),
        (
            r#"{"url": "https://a.example", "bearer_token_env_var": "UNSET"}"#,
            "\"UNSET\"",
        ),
        (r#"{"command": "run", "timeout": "soon"}"#, "`timeout`"),
        (r#"{"url": "https://a.example", "type": "SSE"}"#, "HTTP+SSE"),
    ] {
        assert!(
            fault(server).contains(needle),
            "{server}: {}",
            fault(server)
        );
    }
}

#[test]
fn names_of_inherited_variables_are_read_and_checked() {
    let servers = servers(
        r#"{"mcpServers": {
            "a": {"command": "run", "inherit": ["AWS_PROFILE", "GH_TOKEN"]},
            "b": {"command": "run", "env_vars": ["LOCAL_TOKEN"]},
            "c": {"command": "run", "inherit": null}}}"#,
    );
    let inherited = |number: usize| match &servers[number].transport {
        ServerTransport::Stdio { inherit, .. } => inherit.clone(),
        ServerTransport::Http { .. } => Vec::new(),
    };
    assert_eq!(inherited(0), ["AWS_PROFILE", "GH_TOKEN"]);
    assert_eq!(inherited(1), ["LOCAL_TOKEN"]);
    assert!(inherited(2).is_empty());
    for (list, expected) in [
        (r#""AWS_PROFILE""#, "`inherit` is a string"),
        (r#"[""]"#, "is not the name of an environment variable"),
        (
            r#"["A=secret"]"#,
            "is not the name of an environment variable",
        ),
        (r#"[5]"#, "is not a name"),
    ] {
        let fault = fault(&format!(r#"{{"command": "run", "inherit": {list}}}"#));
        assert!(fault.contains(expected), "{list}: {fault}");
    }
}
