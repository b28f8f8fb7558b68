//! What a task has done before: arguments of `pick` and `eval`.

use std::path::PathBuf;

use clap::Args;

use super::heading;
use super::output;
use picktools::examples::Examples;
use picktools::excerpt;
use picktools::sequences::Sequences;
use picktools::{Engine, PickOptions};

#[derive(Args)]
#[command(next_help_heading = heading::RANKING)]
pub(super) struct HistoryArgs {
    /// A tool that the task has called before, the latest last: it stays, beside those picked; may
    /// be repeated.
    #[arg(long = "in-use", value_name = "NAME")]
    in_use: Vec<String>,
    /// What earlier tasks called, as JSON Lines: a line is an array of the tools that one task
    /// called. It raises tools that go with those in use.
    #[arg(long, value_name = "FILE")]
    sequences: Option<PathBuf>,
    /// Let tools gain by being called often in --sequences: at most fourfold in odds, and those
    /// alone that are good enough without it. `eval` tells whether it helps.
    #[arg(long, requires = "sequences")]
    popularity: bool,
    /// Requests that tools served, as JSON Lines: {"tool": NAME, "request": TEXT}
    /// (`picktools learn` and `picktools enrich` write some); may be repeated. A request like one
    /// of them raises the tool.
    #[arg(long = "examples", value_name = "FILE")]
    examples: Vec<PathBuf>,
}

impl HistoryArgs {
    pub(super) fn apply(&self, options: &mut PickOptions) {
        options.in_use.extend(self.in_use.iter().cloned());
        options.popularity = self.popularity;
    }

    /// Returns `true` if there are files of what was asked and called before.
    pub(super) fn reads_files(&self) -> bool {
        self.sequences.is_some() || !self.examples.is_empty()
    }

    /// Reads the sequences, where there are some.
    pub(super) fn sequences(&self) -> anyhow::Result<Option<Sequences>> {
        Ok(self.sequences.as_ref().map(Sequences::open).transpose()?)
    }

    /// Reads the examples, where there are some.
    pub(super) fn examples(&self) -> anyhow::Result<Option<Examples>> {
        let mut all: Option<Examples> = None;
        for path in &self.examples {
            all.get_or_insert_default().extend(Examples::open(path)?);
        }
        Ok(all)
    }

    /// Warns of sequences and examples that the engine's catalog knows too little of.
    pub(super) fn warn_of_strangers(&self, engine: &Engine) {
        if let (Some(path), Some(stats)) = (&self.sequences, engine.sequence_stats())
            && stats.unknown > 0
        {
            let path = path.display();
            output::warn(format!(
                "{path}: {} names are no tools of the catalog, or ambiguous",
                stats.unknown
            ));
        }
        if let Some(stats) = engine
            .example_stats()
            .filter(|stats| !stats.unknown.is_empty())
        {
            let names = excerpt::list(&stats.unknown, ", ");
            output::warn(format!(
                "examples are of names that are no tools of the catalog, or ambiguous: {names}"
            ));
        }
    }
}
