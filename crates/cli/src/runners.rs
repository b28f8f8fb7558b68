//! The runners of a catalog's tools: HTTP clients for OpenAPI operations, and MCP servers.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context;
use picktools::Catalog;
use picktools::catalog::{CatalogFile, Conflicts, NoSchemaMode};
use picktools::saved::SavedError;
use picktools::{CatalogOptions, Tool};
use picktools_import::mcp::Server;
use picktools_mcp::Limits;
use picktools_runtime::{HttpClient, HttpOptions, HttpTool, RunnableTool};
use picktools_runtime::{McpServer, McpTool};

use super::live;
use super::reading::ReadingArgs;

/// The variable that lists hosts with addresses of this machine or of private networks; `*` allows
/// all.
const PRIVATE_HOSTS: &str = "PICKTOOLS_PRIVATE_HOSTS";

/// The id of a tool, with its runner.
type Runner = (String, Arc<dyn RunnableTool>);

/// Returns the runners of a catalog that was read with `reading`. Nothing is started or called yet.
pub(super) fn runners(reading: &ReadingArgs, catalog: &Catalog) -> anyhow::Result<Vec<Runner>> {
    let mut runners = operation_runners(catalog)?;
    runners.extend(server_runners(
        reading.live_servers(),
        reading.server_limits(),
        catalog,
        reading.allow_no_schema(),
    )?);
    Ok(runners)
}

fn operation_runners(catalog: &Catalog) -> Result<Vec<Runner>, SavedError> {
    let variable = std::env::var(PRIVATE_HOSTS).unwrap_or_default();
    let mut hosts = Vec::new();
    for host in variable.split(',') {
        let host = host.trim();
        if !host.is_empty() {
            hosts.push(host.to_owned());
        }
    }
    let client = Arc::new(HttpClient::new(HttpOptions {
        variable: Box::new(|name| std::env::var(name).ok()),
        allow_private: hosts.iter().any(|host| host == "*"),
        private_hosts: hosts.into_iter().collect(),
        ..HttpOptions::default()
    }));
    let mut runners: Vec<Runner> = Vec::new();
    for tool in catalog.tools()? {
        if let Some(runner) = HttpTool::new(tool.as_ref().clone(), Arc::clone(&client)) {
            runners.push((tool.id.clone(), Arc::new(runner)));
        }
    }
    Ok(runners)
}

/// Returns runners for the tools that the catalog contains exactly as a server sent them.
///
/// Another source may claim the same name. The server must not run what that source describes.
fn server_runners(
    servers: Vec<(Server, CatalogFile)>,
    limits: Limits,
    catalog: &Catalog,
    allow_no_schema: Option<NoSchemaMode>,
) -> anyhow::Result<Vec<Runner>> {
    let mut runners = Vec::new();
    let mut known_ways = HashMap::new();
    for (server, file) in servers {
        if known_ways
            .insert(server.name.clone(), server.transport.clone())
            .is_some_and(|way| way != server.transport)
        {
            anyhow::bail!(
                "two configurations define an MCP server {:?}; rename one of them",
                server.name
            );
        }
        let options = CatalogOptions {
            conflicts: Conflicts::Warn,
            allow_no_schema,
            ..CatalogOptions::default()
        };
        let sent_catalog = options.read_files(&[file]).with_context(|| {
            format!("cannot read the tools of the MCP server {:?}", server.name)
        })?;
        let mut server = McpServer::new(server)
            .environment(|name| std::env::var_os(name))
            .limits(limits);
        if let Some(cache) = live::cache() {
            server = server.cache(cache);
        }
        let server = Arc::new(server);
        for tool in sent_catalog.tools()? {
            if let Some(found) = catalog.find(&tool.id)
                && is_same(catalog.tool(found)?, tool)
            {
                let runner = McpTool::new(tool.as_ref().clone(), Arc::clone(&server));
                runners.push((tool.id.clone(), Arc::new(runner) as Arc<dyn RunnableTool>));
            }
        }
    }
    Ok(runners)
}

/// Returns `true` if two definitions agree apart from trust and aliases, which depend on the
/// catalog's options.
fn is_same(found: &Tool, sent: &Tool) -> bool {
    let definition = |tool: &Tool| {
        (
            tool.source.clone(),
            tool.name.clone(),
            tool.description.clone(),
            tool.parameters.clone(),
            tool.annotations.clone(),
        )
    };
    definition(found) == definition(sent)
}

#[cfg(test)]
mod tests {
    use picktools_import::mcp::{ServerTransport, ToolFilter};
    use serde_json::{Value, json};

    use super::*;

    fn server(name: &str, url: &str) -> (Server, CatalogFile) {
        let way = ServerTransport::Http {
            url: url.to_owned(),
            headers: Default::default(),
            credentials: None,
        };
        let tool =
            json!({"name": "greet", "description": "Greets", "inputSchema": {"type": "object"}});
        (
            Server {
                name: name.to_owned(),
                transport: way,
                tools: ToolFilter::default(),
                call_timeout: None,
                scope: None,
            },
            CatalogFile::from_server(name, &[tool]),
        )
    }

    /// Returns a catalog of these tools and of the servers' tools.
    fn catalog(tools: &Value, asked: &[(Server, CatalogFile)]) -> Catalog {
        let files: Vec<_> = std::iter::once(CatalogFile::new("tools.json", tools.to_string()))
            .chain(asked.iter().map(|(_, file)| file.clone()))
            .collect();
        let options = CatalogOptions {
            conflicts: Conflicts::Warn,
            ..CatalogOptions::default()
        };
        options.read_files(&files).expect("they are valid")
    }

    fn ids(runners: Vec<Runner>) -> Vec<String> {
        runners.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn runners_come_from_the_source_of_each_tool() {
        let http = json!({"method": "GET", "url": "https://shop.example/books"});
        let tools = json!([
            {
                "name": "books", "source": "shop", "description": "Lists books",
                "parameters": {}, "http": http,
            },
            {
                "name": "plain", "source": "shop", "description": "Has no runner",
                "parameters": {},
            },
        ]);
        let asked = vec![
            server("wiki", "https://wiki.example"),
            server("mail", "https://mail.example"),
        ];
        let catalog = catalog(&tools, &asked);
        assert_eq!(
            ids(operation_runners(&catalog).expect("in memory")),
            ["shop/books"]
        );
        let from_servers =
            server_runners(asked, Limits::default(), &catalog, None).expect("their names differ");
        assert_eq!(ids(from_servers), ["wiki/greet", "mail/greet"]);
    }

    #[test]
    fn server_runners_skip_tools_of_other_sources() {
        let claim = json!([{
            "name": "greet", "source": "wiki", "description": "Reads mail", "parameters": {},
        }]);
        let asked = vec![server("wiki", "https://wiki.example")];
        let catalog = catalog(&claim, &asked);
        assert_eq!(
            catalog.tools().expect("in memory")[0].description,
            "Reads mail"
        );
        let runners =
            server_runners(asked, Limits::default(), &catalog, None).expect("there is one server");
        assert!(runners.is_empty(), "{:?}", ids(runners));
    }

    #[test]
    fn server_runners_refuse_duplicate_server_names() {
        let asked = vec![
            server("wiki", "https://wiki.example"),
            server("wiki", "https://other.example"),
        ];
        let catalog = catalog(&json!([]), &asked);
        let refused = server_runners(asked, Limits::default(), &catalog, None)
            .map(ids)
            .expect_err("which is meant?");
        assert!(
            refused
                .to_string()
                .contains("two configurations define an MCP server \"wiki\""),
            "{refused}"
        );
    }
}
