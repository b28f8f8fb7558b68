//! A configuration of MCP servers, and the same text as the list of tools that a server sends.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use picktools::CatalogOptions;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools_import::mcp::{self, McpConfigError, Surroundings, Way};
use serde_json::Value;

/// What no server's address shows; it looks like a variable itself, and must not be put in again.
const SECRET: &str = "${s3cret}";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let variable = |name: &str| (name.len() % 2 == 0).then(|| SECRET.to_owned());
    let read = mcp::read(
        text,
        &Surroundings {
            variable: &variable,
            folder: Path::new("/work/.vscode"),
        },
    );
    if let Ok(configuration) = &read {
        let mut names: Vec<&str> = configuration
            .servers
            .iter()
            .map(|server| server.name.as_str())
            .collect();
        names.extend(configuration.disabled.iter().map(String::as_str));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a server stands twice");
        for server in &configuration.servers {
            let shown = format!("{:?}", server.way);
            assert!(
                matches!(server.way, Way::Stdio { .. }) || !shown.contains(SECRET),
                "{shown}"
            );
        }
    }
    let refused = read.is_err_and(|error| error != McpConfigError::TooMany);
    assert!(
        !(refused && mcp::is_configuration(text)),
        "what is a configuration can be read"
    );

    let Ok(answer) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let Some(tools) = answer
        .as_array()
        .or_else(|| answer.get("tools")?.as_array())
    else {
        return;
    };
    let files = ["one", "two"].map(|name| CatalogFile::of_server(name, tools));
    let options = CatalogOptions {
        conflicts: Conflicts::Warn,
        ..CatalogOptions::default()
    };
    let catalog = options
        .read_files(&files)
        .expect("one server does not lose the other's tools");
    assert!(catalog.len() <= 2 * tools.len());
    for tool in catalog.tools() {
        assert!(
            matches!(tool.source.as_deref(), Some("one" | "two")),
            "a server says what it is: {tool:?}"
        );
        assert!(
            tool.aliases.is_empty()
                && tool.safe.is_none()
                && tool.allowed_roles.is_empty()
                && tool.http.is_none()
        );
    }
});
