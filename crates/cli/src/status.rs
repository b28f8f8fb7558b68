//! `picktools status`: the state of the servers behind a running gateway.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use picktools_import::mcp::is_private;
use picktools_net::{FetchErrorKind, client_builder, fetch};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

use crate::server_report::{ServerReport, print_servers, print_summary};
use crate::{heading, output};

/// The path of the answer.
const PATH: &str = "console/status";
/// The time for the answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 16 << 20;
/// The variable with the key, if no other is named.
const KEY: &str = "PICKTOOLS_API_KEY";

const EXAMPLES: &str = "\
Examples:
  picktools status
  picktools status --url https://gateway.example --bearer GATEWAY_KEY --json";

/// Print the state of the servers behind a running gateway.
///
/// The command asks a gateway that `picktools serve` runs. It needs the key of an operator, as the
/// console does. `picktools doctor` starts the servers itself and needs no gateway.
///
/// The exit code is 0 if all servers can be used and no definition waits for approval, and else 1.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct StatusCommand {
    /// URL of the gateway.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787",
        help_heading = heading::GATEWAY)]
    url: String,
    /// Name of the environment variable that contains the key.
    ///
    /// The default is PICKTOOLS_API_KEY. Without that variable, no key is sent.
    #[arg(long, value_name = "NAME", help_heading = heading::GATEWAY)]
    bearer: Option<String>,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// The version of the answer.
const VERSION: u32 = 1;

/// The answer of the gateway.
#[derive(Serialize, Deserialize)]
struct StatusAnswer {
    version: u32,
    servers: Vec<ServerReport>,
}

impl StatusCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let answer = self.ask()?;
        let needs_attention = answer.servers.iter().any(ServerReport::needs_attention);
        if self.json {
            output::json(&answer)?;
        } else if answer.servers.is_empty() {
            output::answer("the gateway has no MCP servers")?;
        } else {
            print_servers(&answer.servers)?;
            print_summary(answer.servers.iter())?;
        }
        Ok(ExitCode::from(u8::from(needs_attention)))
    }

    /// Asks the gateway for the state of its servers.
    fn ask(&self) -> anyhow::Result<StatusAnswer> {
        let base = self.url.trim_end_matches('/');
        let base = base.strip_suffix("/mcp").unwrap_or(base);
        ensure!(
            base.starts_with("http://") || base.starts_with("https://"),
            "--url: the text is not an http or https URL"
        );
        let client = client_builder().map_err(anyhow::Error::msg)?;
        let client = client.timeout(TIMEOUT).build();
        let client = client.map_err(|_| anyhow::anyhow!("cannot create an HTTP client"))?;
        let mut request = client.get(format!("{base}/{PATH}"));
        if let Some(key) = self.key()? {
            ensure!(
                is_private(base),
                "the key would be sent unencrypted; give a URL that starts with https://"
            );
            request = request.bearer_auth(key);
        }
        let response = fetch(request, MAX_ANSWER_BYTES).map_err(|error| {
            let reason = match error.kind {
                FetchErrorKind::Timeout => format!("no complete answer within {TIMEOUT:?}"),
                _ => error.to_string(),
            };
            anyhow::anyhow!(
                "cannot reach the gateway: {reason}; start it with `picktools serve`, or pass --url"
            )
        })?;
        match response.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => bail!(
                "the gateway refuses the request (HTTP {}); name the variable with the key of an \
                 operator by --bearer",
                response.status.as_u16()
            ),
            StatusCode::NOT_FOUND => bail!(
                "the server has no such page (HTTP 404); check that --url is that of a picktools \
                 gateway of this version"
            ),
            status => bail!("the gateway answers with HTTP {}", status.as_u16()),
        }
        let body = response.body.context("the answer is too long")?;
        let answer: StatusAnswer = serde_json::from_slice(&body).ok().context(
            "the answer is not that of a picktools gateway of this version; check --url",
        )?;
        ensure!(
            answer.version == VERSION,
            "the answer of the gateway has version {}, and this program reads version {VERSION}; \
             update one of them",
            answer.version
        );
        Ok(answer)
    }

    /// Returns the key, if there is one.
    fn key(&self) -> anyhow::Result<Option<String>> {
        let name = self.bearer.as_deref().unwrap_or(KEY);
        let key = std::env::var(name).ok().filter(|key| !key.is_empty());
        if self.bearer.is_some() && key.is_none() {
            bail!("--bearer: the variable {name:?} is not set");
        }
        Ok(key)
    }
}
