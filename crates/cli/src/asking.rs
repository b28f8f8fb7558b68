//! Arguments that `pick` and `eval` share: access, history and ranking.

use std::collections::BTreeMap;

use clap::Args;
use picktools::catalog::ThreatLevel;
use picktools::{Access, PickOptions};

use super::args::RankingArgs;
use super::heading;
use super::history::HistoryArgs;
use super::numbers::{integer, number};
use super::rerank::RerankArgs;

/// The arguments that decide how a request is answered.
#[derive(Args)]
pub(super) struct RequestArgs {
    #[command(flatten)]
    pub(super) access: AccessArgs,
    #[command(flatten)]
    pub(super) ranking: RankingArgs,
    #[command(flatten)]
    pub(super) history: HistoryArgs,
    #[command(flatten)]
    pub(super) rerank: RerankArgs,
    #[command(flatten)]
    pub(super) sources: SourceArgs,
}

/// The access policy of the caller.
#[derive(Args, Default, Clone)]
#[command(next_help_heading = heading::ACCESS)]
pub(super) struct AccessArgs {
    /// Allow unsafe tools.
    ///
    /// A tool is unsafe if it is marked `safe: false` or `destructiveHint: true`. By default,
    /// unsafe tools are neither picked nor called. The gateway has a setting of its own for them.
    #[arg(long)]
    allow_unsafe: bool,
    /// Role of the caller; may be repeated.
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Execution mode of the agent, such as read-only.
    ///
    /// Tools that are limited to other modes are neither picked nor called. In the mode read-only,
    /// tools that are marked as unsafe or as changing something are not picked or called either.
    ///
    /// All other tools may be picked in the mode read-only. Their calls need a confirmation, unless a
    /// trusted source marks the tool as read-only. `call` and `run` ask for the confirmation, or
    /// take --yes. `validate` reports the calls as waiting for approval.
    #[arg(long, value_name = "MODE")]
    execution_mode: Option<String>,
    /// Allow only tools with this capability; if repeated, with all of them.
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,
    /// Highest cost of one call, in the unit of `cost` in the catalog.
    ///
    /// A tool without `cost` costs nothing.
    #[arg(long, value_name = "COST", value_parser = number::<f64>, allow_negative_numbers = true)]
    max_cost: Option<f64>,
    /// Remaining calls of a tool; may be repeated.
    ///
    /// A tool without remaining calls is neither picked nor called. If the option is
    /// given several times for a tool, the smallest number applies.
    #[arg(long = "quota", value_name = "TOOL=CALLS", value_parser = quota)]
    quotas: Vec<(String, u64)>,
    /// Highest threat level of a tool.
    ///
    /// An unsafe tool without a threat level counts as high.
    #[arg(long, value_name = "LEVEL", value_parser = ["low", "medium", "high", "critical"])]
    max_threat_level: Option<String>,
    /// Allow only this source; may be repeated.
    ///
    /// A source is the server, document or file that a tool comes from.
    #[arg(long = "allow-source", value_name = "SOURCE")]
    allow_sources: Vec<String>,
    /// Deny this source and sources whose names look like it; may be repeated.
    #[arg(long = "deny-source", value_name = "SOURCE")]
    deny_sources: Vec<String>,
    /// Exclude this tool from picks and calls; may be repeated.
    ///
    /// A pattern excludes several tools: a glob such as 'github/list_*', or mcp__github for all
    /// tools of a server. A name or pattern without a tool is an error.
    #[arg(long = "exclude", value_name = "TOOL")]
    exclude: Vec<String>,
}

impl AccessArgs {
    /// Returns the access policy. If a tool has several quotas, the smallest applies.
    pub(super) fn access(self) -> Access {
        let mut quotas: BTreeMap<String, u64> = BTreeMap::new();
        for (tool, calls) in self.quotas {
            let least = quotas.entry(tool).or_insert(calls);
            *least = calls.min(*least);
        }
        Access {
            quotas,
            allow_unsafe: self.allow_unsafe,
            roles: self.roles.into_iter().collect(),
            execution_mode: self.execution_mode,
            capabilities: self.capabilities.into_iter().collect(),
            max_cost: self.max_cost,
            max_threat_level: self.max_threat_level.and_then(|level| {
                ThreatLevel::ALL
                    .into_iter()
                    .find(|known| known.name() == level)
            }),
            allow_sources: self.allow_sources.into_iter().collect(),
            deny_sources: self.deny_sources.into_iter().collect(),
            exclude: self.exclude.into_iter().collect(),
            ..Access::default()
        }
    }
}

/// Parses `TOOL=CALLS`. The name of a tool may contain `=`.
fn quota(text: &str) -> Result<(String, u64), &'static str> {
    let (tool, calls) = text
        .rsplit_once('=')
        .ok_or("give a tool and its remaining calls, as in send_email=3")?;
    Ok((tool.to_owned(), integer(calls)?))
}

/// The limit of picks per source.
#[derive(Args, Default, Clone)]
#[command(next_help_heading = heading::PICKS)]
pub(super) struct SourceArgs {
    /// Largest number of picks from one source, except those of --trust-source.
    #[arg(long, value_name = "N", value_parser = integer::<usize>, allow_negative_numbers = true)]
    max_per_source: Option<usize>,
    /// Exempt this source from --max-per-source (no other effect); may be repeated.
    #[arg(long = "trust-source", value_name = "SOURCE")]
    trusted_sources: Vec<String>,
}

impl SourceArgs {
    pub(super) fn apply(self, options: &mut PickOptions) {
        options.max_per_source = self.max_per_source;
        options.trusted_sources.extend(self.trusted_sources);
    }
}
