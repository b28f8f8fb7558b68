//! `picktools serve`: the gateway for many clients, over HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use picktools_gateway::Gateway;
use picktools_gateway::settings::Share;
use picktools_http::{Http, serve};
use picktools_state::keys::new_key;
use serde_json::json;

use crate::interruption::interrupted;
use crate::mcp::{CatalogFiles, GatewayArgs, Providers};
use crate::reading::ReadingArgs;
use crate::servers::ServerArgs;
use crate::{heading, output};

#[derive(Args)]
pub(super) struct ServeCommand {
    #[command(flatten)]
    servers: ServerArgs,
    /// Tools that no server has, such as those that agents bring themselves: a file of tools or an
    /// OpenAPI document, or a folder of such; may be repeated. They are found and can be picked,
    /// and not called.
    #[arg(long, visible_alias = "index", value_name = "PATH", help_heading = heading::CATALOG)]
    catalog: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// The address to listen on. Others than this machine need keys in the settings, and TLS.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8787", help_heading = heading::GATEWAY)]
    listen: SocketAddr,
    /// The file of a certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = heading::GATEWAY)]
    tls_cert: Option<PathBuf>,
    /// The file of its key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = heading::GATEWAY)]
    tls_key: Option<PathBuf>,
    /// Serve other machines without TLS, where something before this speaks TLS.
    #[arg(long, conflicts_with = "tls_cert", help_heading = heading::GATEWAY)]
    plain_http: bool,
    /// Pass requests to models that speak as OpenAI does on to this address, with the tools that
    /// they need (docs/proxy.md).
    #[arg(long, value_name = "URL", help_heading = heading::GATEWAY)]
    openai_url: Option<String>,
    /// Likewise for models that speak as Anthropic's do.
    #[arg(long, value_name = "URL", help_heading = heading::GATEWAY)]
    anthropic_url: Option<String>,
    /// Make a key for the console that is good as long as this runs, and print the link to it
    /// (docs/console.md). For this machine alone.
    #[arg(long, help_heading = heading::GATEWAY)]
    console: bool,
    /// Print a new key and the entry for the settings, and serve nothing.
    #[arg(long, value_name = "NAME", help_heading = heading::GATEWAY)]
    new_key: Option<String>,
}

impl ServeCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(name) = &self.new_key {
            let (key, stored) = new_key()?;
            output::note("the key, which is shown this once:");
            output::verbatim(&key)?;
            output::note(format!(
                "for `keys` of the settings: {}",
                json!({"name": name, "sha256": stored})
            ));
            return Ok(ExitCode::SUCCESS);
        }
        if self.catalog.is_empty() && self.reading.says_something() {
            bail!(
                "{} say how --catalog is read, which is not given; for a catalog in a store they are given where it is indexed, and \
                 which servers are untrusted stands in the settings",
                ReadingArgs::NAMES
            );
        }
        let mut given = self.gateway;
        given.catalog = Some(self.catalog)
            .filter(|paths| !paths.is_empty())
            .map(|paths| CatalogFiles {
                paths,
                reading: self.reading,
            });
        given.providers = Providers {
            openai: self.openai_url,
            anthropic: self.anthropic_url,
        };
        let options = given.options(&self.servers, Share::Owner)?;
        let (console, digest) = self.console.then(new_key).transpose()?.unzip();
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        let http = Http {
            listen: self.listen,
            tls,
            plain: self.plain_http,
            console: digest,
        };
        let proxy = &options.settings.proxy;
        let models = [
            ("OpenAI", "/v1", proxy.openai.is_some()),
            ("Anthropic", "", proxy.anthropic.is_some()),
        ];
        let models = models
            .into_iter()
            .filter(|&(_, _, is_set)| is_set)
            .map(|(name, base, _)| (name, base));
        let scheme = if http.tls.is_some() { "https" } else { "http" };
        let runtime = crate::gateway_runtime()?;
        runtime.block_on(async {
            let gateway = Gateway::open(options)?;
            let served = async {
                let mut serving = serve(&gateway, &http).await?;
                output::note(format!("serving {scheme}://{}/mcp", serving.address()));
                for (name, base) in models {
                    output::note(format!(
                        "serving models that speak as {name} does at {scheme}://{}{base}",
                        serving.address()
                    ));
                }
                if let Some(key) = &console {
                    output::note(format!(
                        "console: {scheme}://{}/console#key={key}",
                        serving.address()
                    ));
                }
                tokio::select! {
                    ended = serving.ended() => ended,
                    () = interrupted() => Ok(()),
                    () = given.follow_files(&self.servers, &gateway) => Ok(()),
                }
            };
            let served = served.await;
            gateway.end().await;
            served
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
