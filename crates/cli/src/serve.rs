//! `picktools serve`: the gateway for many clients, over HTTP.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use picktools_gateway::Gateway;
use picktools_gateway::settings::{ProxySettings, Share};
use picktools_http::{HttpServerOptions, TlsFiles, serve};
use picktools_state::keys::new_key;
use serde_json::json;

use crate::interruption::Signals;
use crate::mcp::{CatalogFiles, GatewayArgs, Providers, gateway_runtime};
use crate::reading::ReadingArgs;
use crate::servers::ServerArgs;
use crate::{heading, memory, output};

const EXAMPLES: &str = "\
Examples:
  picktools serve --config .mcp.json --console
  picktools serve --store env --config .mcp.json --settings settings.json --audit audit";

/// Run the MCP gateway over HTTP.
///
/// Many clients connect to the gateway, which forwards to many MCP servers
/// (docs/how-to/run-the-gateway.md). It also serves the HTTP API (docs/reference/http.md), the
/// model proxy (docs/how-to/model-proxy.md) and the console
/// (docs/how-to/use-the-console.md).
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ServeCommand {
    #[command(flatten)]
    servers: ServerArgs,
    /// Catalog of tools that are not on an MCP server; may be repeated.
    ///
    /// A file of tools, an OpenAPI document, or a folder of such files, for example with the
    /// agents' own tools. The gateway finds and picks these tools, but cannot call them.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Address to listen on: HOST:PORT, with an IP address or a host name.
    ///
    /// An address that other machines can reach needs keys in the settings, and TLS.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787",
        value_parser = listen_address, help_heading = heading::GATEWAY)]
    listen: SocketAddr,
    /// File of the TLS certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = heading::GATEWAY)]
    tls_cert: Option<PathBuf>,
    /// File with the private key of the TLS certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = heading::GATEWAY)]
    tls_key: Option<PathBuf>,
    /// Allow clients on other machines without TLS.
    ///
    /// Use this only if a proxy in front of the gateway terminates TLS.
    #[arg(long, conflicts_with = "tls_cert", help_heading = heading::GATEWAY)]
    plain_http: bool,
    /// Base URL of an OpenAI-compatible provider for the model proxy.
    ///
    /// The model proxy forwards API requests there with only the tools that they need
    /// (docs/how-to/model-proxy.md).
    #[arg(long, value_name = "URL", help_heading = heading::GATEWAY)]
    openai_url: Option<String>,
    /// Base URL of an Anthropic-compatible provider for the model proxy.
    #[arg(long, value_name = "URL", help_heading = heading::GATEWAY)]
    anthropic_url: Option<String>,
    /// Create a temporary key for the console, and print a link that contains it.
    ///
    /// The key is valid while the gateway runs, and only on this machine
    /// (docs/how-to/use-the-console.md).
    #[arg(long, help_heading = heading::GATEWAY)]
    console: bool,
    /// Print a new key and its entry for the settings, then exit.
    #[arg(long, value_name = "NAME", help_heading = heading::GATEWAY)]
    new_key: Option<String>,
}

/// Returns the address of an IP address or host name with a port. Of several addresses of a name,
/// the first one of IP version 4 is used.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let form = "give HOST:PORT, such as 127.0.0.1:8787, localhost:8787 or [::]:8787";
    if text.starts_with(':') {
        return Err(format!("the host is missing; {form}"));
    }
    let addresses = text
        .to_socket_addrs()
        .map_err(|error| format!("{error}; {form}"))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    let first_v4 = addresses.iter().find(|address| address.is_ipv4());
    let address = first_v4.or_else(|| addresses.first());
    address
        .copied()
        .ok_or_else(|| format!("the name has no address; {form}"))
}

impl ServeCommand {
    pub(super) fn run(mut self) -> anyhow::Result<ExitCode> {
        if let Some(name) = &self.new_key {
            print_new_key(name)?;
            return Ok(ExitCode::SUCCESS);
        }
        memory::use_small_pages();
        memory::return_free_pages();
        let mut gateway_args = self.gateway;
        // These options are for all tools, also for those of servers.
        gateway_args.aliases = self.reading.leave_aliases();
        gateway_args.allow_no_schema = self.reading.allow_no_schema();
        if self.catalog.is_empty() && self.reading.is_set_for_catalog() {
            bail!(
                "{} need --catalog; for a catalog in a store pass them to `picktools index`, and \
                 name untrusted servers in the settings",
                ReadingArgs::NAMES_OF_CATALOG
            );
        }
        if !self.catalog.is_empty() {
            gateway_args.catalog = Some(CatalogFiles {
                paths: self.catalog,
                reading: self.reading,
            });
        }
        gateway_args.providers = Providers {
            openai: self.openai_url,
            anthropic: self.anthropic_url,
        };
        let mut options = gateway_args.options(&self.servers, Share::Owner)?;
        options.on_snapshot = Arc::new(memory::release_and_delay);
        let (console_key, digest) = if self.console {
            let (key, digest) = new_key()?;
            (Some(key), Some(digest))
        } else {
            (None, None)
        };
        let http = HttpServerOptions {
            listen: self.listen,
            tls: match (self.tls_cert, self.tls_key) {
                (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
                _ => None,
            },
            plain: self.plain_http,
            console: digest,
        };
        let scheme = if http.tls.is_some() { "https" } else { "http" };
        let proxy = options.settings.proxy.clone();
        let has_servers = !options.servers.is_empty();
        let runtime = gateway_runtime()?;
        let result = runtime.block_on(async {
            let mut signals = Signals::listen();
            let gateway = Gateway::open(options)?;
            // The tools of a catalog are read already.
            if !has_servers {
                memory::release_and_delay();
            }
            let mut server = match serve(&gateway, &http).await {
                Ok(server) => server,
                Err(error) => {
                    gateway.end().await;
                    return Err(error);
                }
            };
            let address = format!("{scheme}://{}", server.address());
            announce(&address, &proxy, console_key.as_deref());
            let result = gateway_args
                .run_until_stopped(&self.servers, &gateway, &mut signals, server.wait())
                .await;
            let end = async {
                if result.is_none() {
                    server
                        .drain(gateway.hub().registry.settings().drain_time())
                        .await;
                }
                gateway.end().await;
            };
            signals.end(&gateway, end).await;
            result.unwrap_or(Ok(()))
        });
        runtime.shutdown_background();
        result?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a new key and its entry for the settings.
fn print_new_key(name: &str) -> anyhow::Result<()> {
    let (key, stored) = new_key()?;
    output::note("the key, which is shown only once:");
    output::verbatim(&key)?;
    output::note(format!(
        "entry for `keys` in the settings: {}",
        json!({"name": name, "sha256": stored})
    ));
    Ok(())
}

/// Prints the URLs of the gateway, of its model proxies and of the console.
fn announce(address: &str, proxy: &ProxySettings, console_key: Option<&str>) {
    output::note(format!("serving {address}/mcp"));
    if proxy.openai.is_some() {
        output::note(format!("serving the OpenAI model proxy at {address}/v1"));
    }
    if proxy.anthropic.is_some() {
        output::note(format!("serving the Anthropic model proxy at {address}"));
    }
    if let Some(key) = console_key {
        output::note(format!("console: {address}/console#key={key}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_host_names_are_read() {
        let read = |text| listen_address(text).map(|address| address.to_string());
        assert_eq!(read("127.0.0.1:80"), Ok("127.0.0.1:80".to_owned()));
        assert_eq!(read("[::1]:80"), Ok("[::1]:80".to_owned()));
        assert_eq!(read("localhost:80"), Ok("127.0.0.1:80".to_owned()));
        for wrong in [
            "",
            ":80",
            "localhost",
            "127.0.0.1",
            "no.such.invalid:80",
            "localhost:x",
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.contains("HOST:PORT"), "{wrong}: {error}");
        }
    }
}
