//! The arguments that picking and evaluating share: who asks, what was done before, and how tools
//! are ranked.

use std::collections::BTreeMap;

use clap::Args;
use picktools::catalog::ThreatLevel;
use picktools::{Access, PickOptions};

use super::args::RankingArgs;
use super::heading;
use super::history::HistoryArgs;
use super::numbers::{number, whole};
use super::rerank::RerankArgs;

/// How a request is answered.
#[derive(Args)]
pub(super) struct AskingArgs {
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

/// Who asks, and so what may be picked and called.
#[derive(Args, Default, Clone)]
#[command(next_help_heading = heading::ACCESS)]
pub(super) struct AccessArgs {
    /// Let tools that are marked unsafe be picked and called.
    #[arg(long)]
    allow_unsafe: bool,
    /// A role of the caller; may be repeated.
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// The mode that the agent runs in; with read-only, what changes things may be neither picked
    /// nor called, and calls of tools that are not known to change nothing wait for approval.
    #[arg(long, value_name = "MODE")]
    execution_mode: Option<String>,
    /// What every tool must be capable of; may be repeated.
    #[arg(long = "capability", value_name = "NAME")]
    capabilities: Vec<String>,
    /// The most that one call may cost.
    #[arg(long, value_name = "COST", value_parser = number::<f64>, allow_negative_numbers = true)]
    max_cost: Option<f64>,
    /// How many calls are left of a tool, which may be neither picked nor called where that is 0;
    /// may be repeated.
    #[arg(long = "quota", value_name = "TOOL=CALLS", value_parser = quota)]
    quotas: Vec<(String, u64)>,
    /// The highest threat level of a tool that may be picked and called; one that is marked unsafe
    /// and names none is high.
    #[arg(long, value_name = "LEVEL", value_parser = ["low", "medium", "high", "critical"])]
    max_threat_level: Option<String>,
    /// A source that is allowed, which forbids the others; may be repeated.
    #[arg(long = "allow-source", value_name = "SOURCE")]
    allow_sources: Vec<String>,
    /// A source that is not allowed, with all that look like it; may be repeated.
    #[arg(long = "deny-source", value_name = "SOURCE")]
    deny_sources: Vec<String>,
    /// A tool that may be neither picked nor called; may be repeated.
    #[arg(long = "exclude", value_name = "TOOL")]
    exclude: Vec<String>,
}

impl AccessArgs {
    /// Says who asks; of several quotas of one tool the least counts.
    pub(super) fn access(self) -> Access {
        let mut quotas: BTreeMap<String, u64> = BTreeMap::new();
        for (tool, left) in self.quotas {
            let least = quotas.entry(tool).or_insert(left);
            *least = left.min(*least);
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

/// Reads `TOOL=CALLS`; a tool's name may hold the sign.
fn quota(text: &str) -> Result<(String, u64), &'static str> {
    let (tool, calls) = text
        .rsplit_once('=')
        .ok_or("give a tool and how many calls are left of it, as send_email=3")?;
    Ok((tool.to_owned(), whole(calls)?))
}

/// How much of one source.
#[derive(Args, Default, Clone)]
#[command(next_help_heading = heading::PICKS)]
pub(super) struct SourceArgs {
    /// The most tools of one source, unless it is trusted.
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    max_per_source: Option<usize>,
    /// A source that --max-per-source does not limit; may be repeated.
    #[arg(long = "trust-source", value_name = "SOURCE")]
    trusted_sources: Vec<String>,
}

impl SourceArgs {
    pub(super) fn apply(self, options: &mut PickOptions) {
        options.max_per_source = self.max_per_source;
        options.trusted_sources.extend(self.trusted_sources);
    }
}
