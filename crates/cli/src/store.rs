//! `picktools store`.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use indicatif::HumanDuration;
use picktools_store as store;
use picktools_store::{SnapshotStatus, StoreStatus};
use serde::Serialize;

use super::args::progress_bar;
use super::store_args::StoreArgs;
use super::{heading, output};

#[derive(Args)]
pub(super) struct StoreCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Tell what lies in a store: which snapshot, of when, by which models.
    Status(Common),
    /// Remove what nothing needs: what publications left behind that were cut off, and former
    /// generations.
    Gc(Common),
    /// Read all of the snapshot, and hold every row to its key; exit code 1 where one is missing or
    /// damaged.
    Verify(Common),
}

#[derive(Args)]
struct Common {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// An answer as JSON.
#[derive(Serialize)]
struct Answer<T> {
    version: u32,
    #[serde(flatten)]
    answer: T,
}

impl StoreCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let (Action::Status(common) | Action::Gc(common) | Action::Verify(common)) = &self.action;
        let store = common
            .store
            .catalog_store()?
            .context("say which store: --store URL, or --store env for that of PICKTOOLS_STORE")?;
        match &self.action {
            Action::Status(_) => {
                let status = store::status(&store)?;
                if common.json {
                    output::json(&Answer {
                        version: 1,
                        answer: status,
                    })?;
                } else {
                    output::answer(described(&status))?;
                }
            }
            Action::Gc(_) => {
                let collected = store::collect(&store)?;
                if common.json {
                    output::json(&Answer {
                        version: 1,
                        answer: collected,
                    })?;
                } else {
                    output::answer(format!(
                        "removed {} former generations, {} keys in all",
                        collected.generations, collected.keys
                    ))?;
                }
            }
            Action::Verify(_) => {
                let bar = progress_bar("reading");
                let found = store::verify(&store, &|done, total| {
                    bar.set_length(total as u64);
                    bar.set_position(done as u64);
                });
                bar.finish_and_clear();
                let found = found?;
                let is_whole = found.faults == 0;
                if common.json {
                    output::json(&Answer {
                        version: 1,
                        answer: found,
                    })?;
                } else {
                    for fault in &found.told {
                        output::answer(output::line(fault))?;
                    }
                    output::answer(format!(
                        "{} tools and {} sources read: {}",
                        found.tools,
                        found.sources,
                        if is_whole {
                            "whole".to_owned()
                        } else {
                            format!("{} faults", found.faults)
                        }
                    ))?;
                }
                return Ok(if is_whole {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::from(1)
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What lies in a store, for people.
fn described(status: &StoreStatus) -> String {
    let StoreStatus {
        address,
        tenant,
        snapshot,
        models,
        indexed,
        memory,
        ..
    } = status;
    let mut lines = vec![format!("{address}, tenant {tenant}")];
    match snapshot {
        None => lines.push(
            "nothing is published; publish a catalog with: picktools index --store".to_owned(),
        ),
        Some(SnapshotStatus {
            generation,
            version,
            catalog,
            tools,
            published,
            ..
        }) => {
            lines.push(format!(
                "snapshot {version} in generation {generation}: {tools} tools, catalog {catalog}"
            ));
            let since =
                SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_millis(*published));
            // Of a machine whose clock is ahead of this one's it is as good as now.
            lines.push(format!(
                "published {} ago",
                HumanDuration(since.unwrap_or_default())
            ));
            lines.push(format!(
                "models: {}",
                if models.is_empty() {
                    "none".to_owned()
                } else {
                    models.join(", ")
                }
            ));
        }
    }
    lines.extend(indexed.map(|indexed| format!("{indexed} documents in the index")));
    lines.extend(memory.map(|memory| {
        format!(
            "{:.1} MiB of memory, whoever's",
            memory as f64 / f64::from(1 << 20)
        )
    }));
    lines.join("\n")
}
