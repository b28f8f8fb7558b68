//! An MCP configuration, and the same text as the tool list of a server.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use picktools::CatalogOptions;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools_import::mcp::{self, ConfigEnvironment, McpConfigError, ServerTransport};
use serde_json::Value;

/// A value that no server's address may show. It looks like a variable, but must not be expanded.
const SECRET: &str = "${s3cret}";

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let variable = |name: &str| (name.len() % 2 == 0).then(|| SECRET.to_owned());
    let result = mcp::parse_configuration(
        text,
        &ConfigEnvironment {
            variable: &variable,
            folder: Path::new("/work/.vscode"),
            read: &|_| Ok(text.to_owned()),
        },
    );
    if let Ok(configuration) = &result {
        let mut names: Vec<&str> = configuration
            .servers
            .iter()
            .map(|server| server.name.as_str())
            .collect();
        names.extend(configuration.disabled.iter().map(String::as_str));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a server is listed twice");
        for server in &configuration.servers {
            let debug_text = format!("{:?}", server.transport);
            assert!(
                matches!(server.transport, ServerTransport::Stdio { .. })
                    || !debug_text.contains(SECRET),
                "{debug_text}"
            );
        }
    }
    let is_refused = result.is_err_and(|error| error != McpConfigError::TooMany);
    assert!(
        !(is_refused && mcp::is_configuration(text)),
        "a recognised configuration can be read"
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
    let files = ["one", "two"].map(|name| CatalogFile::from_server(name, tools));
    let options = CatalogOptions {
        conflicts: Conflicts::Warn,
        ..CatalogOptions::default()
    };
    let catalog = options
        .read_files(&files)
        .expect("one server does not affect the tools of the other");
    assert!(catalog.len() <= 2 * tools.len());
    for tool in catalog.tools().expect("readable") {
        assert!(
            matches!(tool.source.as_deref(), Some("one" | "two")),
            "a server chose its own source: {tool:?}"
        );
        assert!(
            tool.aliases.is_empty()
                && tool.safe.is_none()
                && tool.allowed_roles.is_empty()
                && tool.http.is_none()
        );
    }
});
