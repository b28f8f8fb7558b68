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

const EXAMPLES: &str = "\
Examples:
  picktools index --catalog tools.json --out tools.index
  picktools index --catalog fixtures/catalogs/workplace --store env";

/// Index a catalog and save or publish the index.
///
/// A saved index starts faster than a catalog. The command also fills the embedding cache of a slow
/// model.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct IndexCommand {
    #[command(flatten)]
    catalog: CatalogArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Save the index in this folder, and replace an index that is there.
    ///
    /// Afterwards `--index DIR` works wherever `--catalog PATH` does.
    #[arg(long, value_name = "DIR", help_heading = heading::OUTPUT)]
    out: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Write the complete snapshot again, even if parts are in the store.
    #[arg(long, requires = "store", help_heading = heading::STORE)]
    anew: bool,
    /// Print details: times, model, cached vectors, catalog digest and memory.
    #[arg(long, help_heading = heading::OUTPUT)]
    stats: bool,
    /// Print JSON, including the details.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

#[derive(Serialize)]
struct IndexReport {
    version: u32,
    #[serde(flatten)]
    stats: IndexStats,
    memory: Vec<MemoryPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<Publication>,
}

/// Formats a number of bytes for people.
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
        let origin = if self.out.is_some() {
            self.catalog.origin()?
        } else {
            None
        };
        let started = Instant::now();
        let catalog = self.catalog.open_for_picks()?;
        let reading_time = started.elapsed();
        let engine = model.engine(catalog)?;
        let (stats, memory) = (engine.stats(), engine.memory());
        // Times are shown on a terminal and with --stats.
        if self.stats || io::stderr().is_terminal() {
            output::note(format!(
                "read in {reading_time:.1?}, indexed in {:.1?}",
                started.elapsed() - reading_time
            ));
        }
        if let Some(folder) = &self.out {
            let started = Instant::now();
            engine.save(folder, serde_json::to_value(origin)?)?;
            if self.stats || io::stderr().is_terminal() {
                output::note(format!("saved in {:.1?}", started.elapsed()));
            }
        }
        let published = self.publish(&engine)?;
        if self.json {
            return output::json(&IndexReport {
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
            output::answer(describe_publication(&published))?;
        }
        if !self.stats {
            return Ok(());
        }
        if let (Some(model), Some(dimensions)) = (&stats.model, stats.dimensions) {
            output::answer(format!("vectors with {dimensions} dimensions by {model}"))?;
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
            "{} of memory without the definitions, {} bytes per tool",
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

    /// Publishes the index, if a store is named.
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

/// Describes a publication for people.
fn describe_publication(published: &Publication) -> String {
    let Publication {
        version,
        written,
        removed,
        anew,
        took_ms,
        ..
    } = published;
    let changed = match (anew, written, removed) {
        (true, ..) => "written completely".to_owned(),
        (false, 0, 0) => "no changes".to_owned(),
        (false, written, removed) => format!("{written} tools written, {removed} removed"),
    };
    format!(
        "published as snapshot {version}: {changed}, in {:.1} s",
        *took_ms as f64 / 1e3
    )
}
