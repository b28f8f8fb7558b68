//! What a task has done before: arguments of `pick` and `eval`.

use std::path::PathBuf;

use clap::Args;

use super::heading;
use super::output;
use picktools::sequences::Sequences;
use picktools::{Engine, PickOptions};

#[derive(Args)]
#[command(next_help_heading = heading::RANKING)]
pub(super) struct HistoryArgs {
    /// A tool that the task has called before, the latest last: it stays, beside those picked; may be repeated.
    #[arg(long = "in-use", value_name = "NAME")]
    in_use: Vec<String>,
    /// What earlier tasks called, as JSON Lines: a line is an array of the tools that one task called. It raises tools
    /// that go with those in use.
    #[arg(long, value_name = "FILE")]
    sequences: Option<PathBuf>,
}

impl HistoryArgs {
    pub(super) fn apply(&self, options: &mut PickOptions) {
        options.in_use.extend(self.in_use.iter().cloned());
    }

    /// Reads the sequences, where there are some.
    pub(super) fn sequences(&self) -> anyhow::Result<Option<Sequences>> {
        Ok(self.sequences.as_ref().map(Sequences::open).transpose()?)
    }

    /// Warns of sequences that the engine's catalog knows too little of.
    pub(super) fn warn_of_strangers(&self, engine: &Engine) {
        if let (Some(path), Some(stats)) = (&self.sequences, engine.sequence_stats())
            && stats.unknown > 0
        {
            let path = path.display();
            output::warn(format!("{path}: {} names are no tools of the catalog, or ambiguous", stats.unknown));
        }
    }
}
