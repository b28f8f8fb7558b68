//! Arguments about earlier calls and requests, for `pick` and `eval`.

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
    /// Tool in use, the latest last; may be repeated.
    ///
    /// A tool in use was called earlier in the task. It stays selected in addition to the picks.
    #[arg(long = "in-use", value_name = "NAME")]
    in_use: Vec<String>,
    /// Calls of earlier tasks, as JSON Lines.
    ///
    /// Each line has the tools that one task called: an array, or an object with `tools`. Tools
    /// that are often called together with the tools in use rank higher.
    #[arg(long, value_name = "FILE")]
    sequences: Option<PathBuf>,
    /// Rank tools higher that are called often in --sequences.
    ///
    /// The odds p / (1 - p) of a score p grow at most fourfold. A tool that is below the threshold
    /// without this option stays below. `picktools eval` measures whether it helps.
    #[arg(long, requires = "sequences")]
    popularity: bool,
    /// Examples: requests and the tools that serve them; repeatable.
    ///
    /// A file has JSON Lines, {"tool": NAME, "request": TEXT}; `picktools learn` and `picktools
    /// enrich` write such files. `popular` names the built-in sample requests for popular MCP
    /// servers. A tool ranks higher for requests that are similar to its examples.
    #[arg(long = "examples", value_name = "FILE")]
    examples: Vec<PathBuf>,
}

impl HistoryArgs {
    pub(super) fn apply(&self, options: &mut PickOptions) {
        options.in_use.extend(self.in_use.iter().cloned());
        options.popularity = self.popularity;
    }

    /// Returns `true` if sequences or examples are given.
    pub(super) fn reads_files(&self) -> bool {
        self.sequences.is_some() || !self.examples.is_empty()
    }

    /// Reads the sequences, if any are given.
    pub(super) fn sequences(&self) -> anyhow::Result<Option<Sequences>> {
        match &self.sequences {
            Some(path) => Ok(Some(Sequences::open(path)?)),
            None => Ok(None),
        }
    }

    /// Reads the examples, if any are given.
    pub(super) fn examples(&self) -> anyhow::Result<Option<Examples>> {
        let mut all: Option<Examples> = None;
        for path in &self.examples {
            all.get_or_insert_default().append(Examples::load(path)?);
        }
        Ok(all)
    }

    /// Warns of names in sequences and examples that do not resolve to one tool of the catalog, and
    /// tells how many tools have examples of a pack.
    pub(super) fn report_coverage(&self, engine: &Engine) {
        if let (Some(path), Some(stats)) = (&self.sequences, engine.sequence_stats())
            && stats.unknown > 0
        {
            let path = path.display();
            output::warn(format!(
                "{path}: {} names are unknown or ambiguous in the catalog",
                stats.unknown
            ));
        }
        if let Some(stats) = engine.example_stats()
            && !stats.unknown.is_empty()
        {
            let names = excerpt::list(&stats.unknown, ", ");
            output::warn(format!(
                "examples have names that are unknown or ambiguous in the catalog: {names}"
            ));
        }
        if let Some(covered) = pack_tools(engine) {
            let tools = engine.catalog().len();
            output::note(format!(
                "the pack of examples has requests for {covered} of {tools} tools"
            ));
        }
    }
}

/// Returns the number of tools that a pack of examples has requests for, if a pack is given.
pub(super) fn pack_tools(engine: &Engine) -> Option<usize> {
    engine.example_stats()?.pack_tools
}
