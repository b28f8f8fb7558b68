//! A configuration of MCP servers, and the same text as the list of tools that a server sends.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools::import::mcp::{self, Surroundings};
use picktools::CatalogOptions;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let variable = |name: &str| (name.len() % 2 == 0).then(|| format!("${{{name}}}"));
    let read = mcp::read(text, &Surroundings { variable: &variable, folder: Path::new("/work") });
    if let Ok(configuration) = &read {
        let mut names: Vec<&str> = configuration.servers.iter().map(|server| server.name.as_str()).collect();
        names.extend(configuration.disabled.iter().map(String::as_str));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "a server stands twice");
    }
    assert!(!mcp::is_configuration(text) || !matches!(read, Err(mcp::McpConfigError::NoServers)));

    let Ok(Value::Array(tools)) = serde_json::from_str(text) else { return };
    let file = CatalogFile::of_server("fuzz", &tools);
    let options = CatalogOptions { conflicts: Conflicts::Warn, ..CatalogOptions::default() };
    let catalog = options.read_files(&[file]).expect("what makes no tool is left out");
    assert!(catalog.len() <= tools.len());
    for tool in catalog.tools() {
        assert_eq!(tool.source.as_deref(), Some("fuzz"), "a server says what it is");
        assert!(tool.aliases.is_empty() && tool.safe.is_none() && tool.allowed_roles.is_empty() && tool.http.is_none());
    }
});
