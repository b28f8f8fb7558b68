//! What runs the tools of a catalog: operations of HTTP interfaces are called, and MCP servers
//! asked to run theirs.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context;
use picktools::Catalog;
use picktools::catalog::{CatalogFile, Conflicts};
use picktools::{CatalogOptions, Tool};
use picktools_import::mcp::Server;
use picktools_mcp::Limits;
use picktools_runtime::{HttpClient, HttpOptions, HttpTool, RunnableTool};
use picktools_runtime::{McpServer, McpTool};

use super::reading::ReadingArgs;

/// The variable that names the hosts which may have addresses of this machine and of private
/// networks; `*` for all.
const PRIVATE_HOSTS: &str = "PICKTOOLS_PRIVATE_HOSTS";

/// A runner, by the id of its tool.
type Runner = (String, Arc<dyn RunnableTool>);

/// What runs the tools of a catalog that was opened so. Nothing is started or called yet.
pub(super) fn runners(reading: &ReadingArgs, catalog: &Catalog) -> anyhow::Result<Vec<Runner>> {
    let mut runners = operations(catalog);
    runners.extend(of_servers(
        reading.asked(),
        reading.server_limits(),
        catalog,
    )?);
    Ok(runners)
}

fn operations(catalog: &Catalog) -> Vec<Runner> {
    let named = std::env::var(PRIVATE_HOSTS).unwrap_or_default();
    let hosts = named
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty());
    let client = Arc::new(HttpClient::new(HttpOptions {
        variable: Box::new(|name| std::env::var(name).ok()),
        allow_private: hosts.clone().any(|host| host == "*"),
        private_hosts: hosts.map(str::to_owned).collect(),
        ..HttpOptions::default()
    }));
    let runner = |tool: &Arc<picktools::Tool>| {
        let runner = HttpTool::new(tool.as_ref().clone(), Arc::clone(&client))?;
        Some((tool.id.clone(), Arc::new(runner) as Arc<dyn RunnableTool>))
    };
    catalog.tools().iter().filter_map(runner).collect()
}

/// Those tools that are in the catalog as a server sent them: others may have its name, and would
/// have what they describe run by it.
fn of_servers(
    asked: Vec<(Server, CatalogFile)>,
    limits: Limits,
    catalog: &Catalog,
) -> anyhow::Result<Vec<Runner>> {
    let mut runners = Vec::new();
    let mut ways = HashMap::new();
    for (server, file) in asked {
        if ways
            .insert(server.name.clone(), server.way.clone())
            .is_some_and(|way| way != server.way)
        {
            anyhow::bail!(
                "two configurations have an MCP server {:?}; rename one of them",
                server.name
            );
        }
        let options = CatalogOptions {
            conflicts: Conflicts::Warn,
            ..CatalogOptions::default()
        };
        let sent = options
            .read_files(&[file])
            .with_context(|| format!("cannot read what {:?} sent", server.name))?;
        let server = McpServer::new(server)
            .environment(|name| std::env::var_os(name))
            .limits(limits);
        let server = Arc::new(server);
        for tool in sent.tools() {
            if catalog
                .find(&tool.id)
                .is_some_and(|found| is_same(catalog.tool(found), tool))
            {
                let runner = McpTool::new(tool.as_ref().clone(), Arc::clone(&server));
                runners.push((tool.id.clone(), Arc::new(runner) as Arc<dyn RunnableTool>));
            }
        }
    }
    Ok(runners)
}

/// Whether two definitions promise the same, whatever this catalog's options say of trust and
/// aliases.
fn is_same(found: &Tool, sent: &Tool) -> bool {
    let promised = |tool: &Tool| {
        (
            tool.source.clone(),
            tool.name.clone(),
            tool.description.clone(),
            tool.parameters.clone(),
            tool.annotations.clone(),
        )
    };
    promised(found) == promised(sent)
}

#[cfg(test)]
mod tests {
    use picktools_import::mcp::Way;
    use serde_json::{Value, json};

    use super::*;

    fn server(name: &str, url: &str) -> (Server, CatalogFile) {
        let way = Way::Http {
            url: url.to_owned(),
            headers: Default::default(),
            credentials: None,
        };
        let tool =
            json!({"name": "greet", "description": "Greets", "inputSchema": {"type": "object"}});
        (
            Server {
                name: name.to_owned(),
                way,
            },
            CatalogFile::of_server(name, &[tool]),
        )
    }

    /// A catalog of these tools and of what the servers sent.
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
    fn what_runs_a_tool_is_what_sent_or_describes_it() {
        let http = json!({"method": "GET", "url": "https://shop.example/books"});
        let tools = json!([
            {"name": "books", "source": "shop", "description": "Lists books", "parameters": {}, "http": http},
            {"name": "plain", "source": "shop", "description": "Says nothing of how it is run", "parameters": {}},
        ]);
        let asked = vec![
            server("wiki", "https://wiki.example"),
            server("mail", "https://mail.example"),
        ];
        let catalog = catalog(&tools, &asked);
        assert_eq!(ids(operations(&catalog)), ["shop/books"]);
        let of_servers =
            of_servers(asked, Limits::default(), &catalog).expect("their names differ");
        assert_eq!(ids(of_servers), ["wiki/greet", "mail/greet"]);
    }

    #[test]
    fn what_only_has_the_name_of_a_servers_tool_is_not_run_by_it() {
        let claim = json!([{"name": "greet", "source": "wiki", "description": "Reads mail", "parameters": {}}]);
        let asked = vec![server("wiki", "https://wiki.example")];
        let catalog = catalog(&claim, &asked);
        assert_eq!(catalog.tools()[0].description, "Reads mail");
        let runners = of_servers(asked, Limits::default(), &catalog).expect("there is one server");
        assert!(runners.is_empty(), "{:?}", ids(runners));
    }

    #[test]
    fn two_servers_of_one_name_are_refused() {
        let asked = vec![
            server("wiki", "https://wiki.example"),
            server("wiki", "https://other.example"),
        ];
        let catalog = catalog(&json!([]), &asked);
        let refused = of_servers(asked, Limits::default(), &catalog)
            .map(ids)
            .expect_err("which is meant?");
        assert!(
            refused
                .to_string()
                .contains("two configurations have an MCP server \"wiki\""),
            "{refused}"
        );
    }
}
