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

const EXAMPLES: &str = "\
Examples:
  picktools store status --store env
  picktools store verify --store redis://localhost:6379";

/// Manage a catalog in a shared store.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct StoreCommand {
    #[command(subcommand)]
    action: Action,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  picktools store status --store env
  picktools store status --store redis://localhost:6379 --tenant acme --json";
const GC_EXAMPLES: &str = "\
Examples:
  picktools store gc --store env
  picktools store gc --store redis://localhost:6379 --tenant acme";
const VERIFY_EXAMPLES: &str = "\
Examples:
  picktools store verify --store env
  picktools store verify --store redis://localhost:6379 --json";

#[derive(Subcommand)]
enum Action {
    /// Show the snapshot in a store: its version, age and models.
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status(StoreActionArgs),
    /// Remove data that no snapshot needs.
    ///
    /// These are former generations, and remains of interrupted publications.
    #[command(after_long_help = GC_EXAMPLES)]
    Gc(StoreActionArgs),
    /// Verify all data of the snapshot in a store.
    ///
    /// Every row is read and compared with its key. The exit code is 1 if a row is missing or
    /// damaged.
    #[command(after_long_help = VERIFY_EXAMPLES)]
    Verify(StoreActionArgs),
}

#[derive(Args)]
struct StoreActionArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// The JSON form of an answer.
#[derive(Serialize)]
struct StoreAnswer<T> {
    version: u32,
    #[serde(flatten)]
    answer: T,
}

impl StoreCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let (Action::Status(args) | Action::Gc(args) | Action::Verify(args)) = &self.action;
        let store = args.store.catalog_store()?.context(
            "no store is named; pass --store URL, or --store env to read PICKTOOLS_STORE",
        )?;
        match &self.action {
            Action::Status(_) => {
                let status = store::status(&store)?;
                if args.json {
                    output::json(&StoreAnswer {
                        version: 1,
                        answer: status,
                    })?;
                } else {
                    output::answer(describe_status(&status))?;
                }
            }
            Action::Gc(_) => {
                let removed = store::collect(&store)?;
                if args.json {
                    output::json(&StoreAnswer {
                        version: 1,
                        answer: removed,
                    })?;
                } else {
                    output::answer(format!(
                        "removed {} former generations and {} keys",
                        removed.generations, removed.keys
                    ))?;
                }
            }
            Action::Verify(_) => {
                let bar = progress_bar("reading");
                let verification = store::verify(&store, &|done, total| {
                    bar.set_length(total as u64);
                    bar.set_position(done as u64);
                });
                bar.finish_and_clear();
                let verification = verification?;
                let is_intact = verification.faults == 0;
                if args.json {
                    output::json(&StoreAnswer {
                        version: 1,
                        answer: verification,
                    })?;
                } else {
                    for fault in &verification.messages {
                        output::answer(output::line(fault))?;
                    }
                    output::answer(format!(
                        "verified {} tools and {} sources: {}",
                        verification.tools,
                        verification.sources,
                        if is_intact {
                            "intact".to_owned()
                        } else {
                            format!("{} faults", verification.faults)
                        }
                    ))?;
                }
                return Ok(if is_intact {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::from(1)
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Describes the content of a store for people.
fn describe_status(status: &StoreStatus) -> String {
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
        None => lines
            .push("no catalog is published; publish one with: picktools index --store".to_owned()),
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
            let age =
                SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_millis(*published));
            // If the clock of the publisher is ahead, the age is zero.
            lines.push(format!(
                "published {} ago",
                HumanDuration(age.unwrap_or_default())
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
    if let Some(indexed) = indexed {
        lines.push(format!("{indexed} documents in the index"));
    }
    if let Some(memory) = memory {
        lines.push(format!(
            "{:.1} MiB of memory used by the database",
            *memory as f64 / f64::from(1 << 20)
        ));
    }
    lines.join("\n")
}
