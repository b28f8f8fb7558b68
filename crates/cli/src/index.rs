//! `picktools index`.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use super::args::ModelArgs;
use super::args::progress_bar;
use super::reading::CatalogArgs;
use super::store_args::StoreArgs;
use super::{heading, output};
use picktools::Engine;
use picktools::engine::{IndexStats, MemoryPart};
use picktools_store::Publication;

#[derive(Args)]
pub(super) struct IndexCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Save the index in this folder, in the place of one that is there; then `--index DIR` does
    /// wherever `--catalog PATH` does.
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Write all of it anew in the store, whatever lies there.
    #[arg(long, requires = "store", help_heading = heading::STORE)]
    anew: bool,
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
    memory: Vec<MemoryPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<Publication>,
}

/// A number of bytes for people.
fn size(bytes: usize) -> String {
    if bytes < 1 << 20 {
        format!("{:.1} KiB", bytes as f64 / 1024.0)
    } else {
        format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
    }
}

impl IndexCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let model = self.model.open()?;
        let origin = self
            .out
            .is_some()
            .then(|| self.catalog.origin())
            .transpose()?;
        let started = Instant::now();
        let catalog = self.catalog.open_for_picks()?;
        let read = started.elapsed();
        let engine = model.engine(catalog)?;
        let (stats, memory) = (engine.stats(), engine.memory());
        // Times are for whoever waits, and for whoever asks.
        if self.stats || io::stderr().is_terminal() {
            output::note(format!(
                "read in {read:.1?}, indexed in {:.1?}",
                started.elapsed() - read
            ));
        }
        if let Some(folder) = &self.out {
            let started = Instant::now();
            engine.save(folder, serde_json::to_value(origin.flatten())?)?;
            if self.stats || io::stderr().is_terminal() {
                output::note(format!("saved in {:.1?}", started.elapsed()));
            }
        }
        let published = self.publish(&engine)?;
        if self.json {
            return output::json(&Report {
                version: 1,
                stats,
                memory,
                published,
            });
        }
        output::answer(format!(
            "{} tools of {} sources, {} terms",
            stats.tools, stats.sources, stats.terms
        ))?;
        if let Some(published) = published {
            output::answer(told(&published))?;
        }
        if !self.stats {
            return Ok(());
        }
        if let (Some(model), Some(dimensions)) = (&stats.model, stats.dimensions) {
            output::answer(format!("vectors of {dimensions} dimensions by {model}"))?;
        }
        if let Some(cache) = &stats.cache {
            output::answer(format!(
                "{} vectors in the cache",
                cache.entries - cache.unsaved
            ))?;
        }
        output::answer(format!("catalog {}", stats.catalog))?;
        let total: usize = memory.iter().map(|part| part.bytes).sum();
        let per_tool = |bytes: usize| bytes / stats.tools.max(1);
        output::answer(format!(
            "{} in memory beside the definitions, {} bytes a tool",
            size(total),
            per_tool(total)
        ))?;
        for MemoryPart { part, bytes, .. } in memory {
            output::answer(format!(
                "  {part:<12} {:>10}  {:>5}",
                size(bytes),
                per_tool(bytes)
            ))?;
        }
        Ok(())
    }

    /// Publishes what was indexed, where a store is named.
    fn publish(&self, engine: &Engine) -> anyhow::Result<Option<Publication>> {
        let Some(store) = self.store.catalog_store()? else {
            return Ok(None);
        };
        let bar = progress_bar("publishing");
        let progress = |done: usize, total: usize| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        };
        let published = match self.anew {
            true => picktools_store::publish_anew(engine, &store, &progress),
            false => picktools_store::publish(engine, &store, &progress),
        };
        bar.finish_and_clear();
        Ok(Some(published?))
    }
}

/// What became of a publication, for people.
fn told(published: &Publication) -> String {
    let Publication {
        version,
        written,
        removed,
        anew,
        took_ms,
        ..
    } = published;
    let changed = match (anew, written, removed) {
        (true, ..) => "all of it written anew".to_owned(),
        (false, 0, 0) => "nothing has changed".to_owned(),
        (false, written, removed) => format!("{written} tools written, {removed} removed"),
    };
    format!(
        "published as snapshot {version}: {changed}, in {:.1} s",
        *took_ms as f64 / 1e3
    )
}
