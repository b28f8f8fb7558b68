//! `picktools index`.

use std::io::{self, IsTerminal};
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use super::args::ModelArgs;
use super::reading::CatalogArgs;
use super::{heading, output};
use picktools::engine::IndexStats;

#[derive(Args)]
pub(super) struct IndexCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Tell more: the model, the cached vectors and the digest of the catalog.
    #[arg(long, help_heading = heading::OUTPUT)]
    stats: bool,
    /// Print JSON, with all of it.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    #[serde(flatten)]
    stats: IndexStats,
}

impl IndexCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let model = self.model.open()?;
        let started = Instant::now();
        let catalog = self.catalog.open()?;
        let read = started.elapsed();
        let stats = model.engine(catalog)?.stats();
        // Times are for whoever waits, and for whoever asks.
        if self.stats || io::stderr().is_terminal() {
            output::note(format!("read in {read:.1?}, indexed in {:.1?}", started.elapsed() - read));
        }
        if self.json {
            return output::json(&Report { version: 1, stats });
        }
        output::answer(format!("{} tools of {} sources, {} terms", stats.tools, stats.sources, stats.terms))?;
        if !self.stats {
            return Ok(());
        }
        if let (Some(model), Some(dimensions)) = (&stats.model, stats.dimensions) {
            output::answer(format!("vectors of {dimensions} dimensions by {model}"))?;
        }
        if let Some(cache) = &stats.cache {
            output::answer(format!("{} vectors in the cache", cache.entries - cache.unsaved))?;
        }
        output::answer(format!("catalog {}", stats.catalog))
    }
}
