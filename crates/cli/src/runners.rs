//! What runs the tools of a catalog: operations of HTTP interfaces are called, and MCP servers asked to run theirs.

#[cfg(feature = "mcp")]
use std::collections::HashMap;
use std::sync::Arc;

#[cfg(feature = "mcp")]
use anyhow::Context;
use picktools::Catalog;
use picktools::runtime::{HttpClient, HttpOptions, HttpTool, RunnableTool};
#[cfg(feature = "mcp")]
use picktools::{
    CatalogOptions, Tool,
    catalog::Conflicts,
    runtime::{McpServer, McpTool},
};

use super::reading::CatalogArgs;

/// The variable that names the hosts which may have addresses of this machine and of private networks; `*` for all.
const PRIVATE_HOSTS: &str = "PICKTOOLS_PRIVATE_HOSTS";

/// A runner, by the id of its tool.
type Runner = (String, Arc<dyn RunnableTool>);

/// What runs the tools of a catalog that was opened from these arguments. Nothing is started or called yet.
pub(super) fn runners(catalog_args: &CatalogArgs, catalog: &Catalog) -> anyhow::Result<Vec<Runner>> {
    let mut runners = operations(catalog);
    #[cfg(feature = "mcp")]
    runners.extend(of_servers(catalog_args, catalog)?);
    #[cfg(not(feature = "mcp"))]
    let _no_servers = catalog_args;
    Ok(runners)
}

fn operations(catalog: &Catalog) -> Vec<Runner> {
    let named = std::env::var(PRIVATE_HOSTS).unwrap_or_default();
    let hosts = named.split(',').map(str::trim).filter(|host| !host.is_empty());
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

/// Those tools that are in the catalog as a server sent them: others may have its name, and would have what they describe
/// run by it.
#[cfg(feature = "mcp")]
fn of_servers(catalog_args: &CatalogArgs, catalog: &Catalog) -> anyhow::Result<Vec<Runner>> {
    let mut runners = Vec::new();
    let mut ways = HashMap::new();
    for (server, file) in catalog_args.asked() {
        if ways.insert(server.name.clone(), server.way.clone()).is_some_and(|way| way != server.way) {
            anyhow::bail!("two configurations have an MCP server {:?}; rename one of them", server.name);
        }
        let options = CatalogOptions { conflicts: Conflicts::Warn, ..CatalogOptions::default() };
        let sent = options.read_files(&[file]).with_context(|| format!("cannot read what {:?} sent", server.name))?;
        let server =
            McpServer::new(server).environment(|name| std::env::var_os(name)).limits(catalog_args.server_limits());
        let server = Arc::new(server);
        for tool in sent.tools() {
            if catalog.find(&tool.id).is_some_and(|found| is_same(catalog.tool(found), tool)) {
                let runner = McpTool::new(tool.as_ref().clone(), Arc::clone(&server));
                runners.push((tool.id.clone(), Arc::new(runner) as Arc<dyn RunnableTool>));
            }
        }
    }
    Ok(runners)
}

/// Whether two definitions promise the same, whatever this catalog's options say of trust and aliases.
#[cfg(feature = "mcp")]
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
