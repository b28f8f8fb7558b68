//! `picktools approve`: the definitions of MCP servers that wait, and what changed; and the calls
//! that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools::excerpt::marked;
use picktools_gateway::{Held, QueuedCall, changes};
use serde::Serialize;
use serde_json::Value;

use crate::store_args::StoreArgs;
use crate::{heading, mcp, output};

/// The most characters of a value that are shown.
const MAX_VALUE_CHARS: usize = 2_000;

#[derive(Args)]
pub(super) struct ApproveCommand {
    /// What to approve, as `server/tool`; without any, what waits is shown.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Approve all that waits of a server, but for what was refused.
    #[arg(long, value_name = "SERVER", help_heading = heading::GATEWAY)]
    all_of: Option<String>,
    /// Refuse these: they stay held, and are no longer shown; by its name one can still be
    /// approved.
    #[arg(long, value_name = "NAME", help_heading = heading::GATEWAY)]
    deny: Vec<String>,
    /// Let a call that waits run once, by its id; it must come again within ten minutes.
    #[arg(long, value_name = "ID", help_heading = heading::GATEWAY)]
    call: Vec<String>,
    /// Refuse a call that waits, by its id.
    #[arg(long, value_name = "ID", help_heading = heading::GATEWAY)]
    deny_call: Vec<String>,
    /// Forget what is known of a server, so that its next listing is its first.
    #[arg(long, value_name = "SERVER", help_heading = heading::GATEWAY)]
    forget: Option<String>,
    /// The folder of what was approved [default: the user's folder of data].
    #[arg(long, value_name = "FOLDER", help_heading = heading::GATEWAY)]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// Say what becomes of approvals that the store lost when it came back with an older copy:
    /// those that gateways still knew are put back (restore), or the older copy holds (accept).
    #[arg(long, value_name = "WHAT", value_parser = ["restore", "accept"], help_heading = heading::GATEWAY)]
    lost: Option<String>,
    /// Do not ask.
    #[arg(long, short, help_heading = heading::GATEWAY)]
    yes: bool,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// A definition that waits, and how it differs from what was approved.
#[derive(Serialize)]
struct Waiting<'a> {
    name: &'a str,
    #[serde(flatten)]
    held: &'a Held,
    /// The approved value and the new one, by JSON pointer.
    changes: BTreeMap<String, (Option<Value>, Option<Value>)>,
}

/// All that waits.
#[derive(Serialize)]
struct Shown<'a> {
    definitions: &'a [Waiting<'a>],
    calls: &'a BTreeMap<String, QueuedCall>,
}

impl ApproveCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let state = mcp::state_folder(self.state_dir.as_deref())?;
        let (pins, queue) = mcp::approvals(self.store.open()?.as_ref(), &state)?;
        let mut has_decided = false;
        if let Some(what) = &self.lost {
            let count = pins.see_to_loss(what == "restore")?;
            output::note(format!("{count} approvals were put back"));
            has_decided = true;
        } else if let Some(lost) = pins.lost()? {
            let (known, found) = (lost.known, lost.found);
            output::warn(format!(
                "the store came back with an older copy (change {found} of {known}), and nothing new is believed: --lost restore \
                 puts approvals back that gateways knew, --lost accept goes on with the older copy"
            ));
        }
        for (ids, may_run, done) in [
            (&self.call, true, "may run once"),
            (&self.deny_call, false, "refused"),
        ] {
            for id in ids {
                let call = queue.decide(id, may_run)?;
                output::note(format!("{done}: {}", marked(&call.shown, MAX_VALUE_CHARS)));
                has_decided = true;
            }
        }
        if let Some(source) = &self.forget {
            pins.forget(source)?;
            output::note(format!("forgot {source}"));
            has_decided = true;
        }
        for name in &self.deny {
            let held = pins.held()?;
            let held = held
                .get(name)
                .with_context(|| format!("{name:?} does not wait"))?;
            pins.deny(name, &held.digest)?;
            output::note(format!("refused {name}"));
            has_decided = true;
        }
        let held = pins.held()?;
        let of_source = |name: &String| {
            self.all_of
                .as_ref()
                .is_some_and(|all| name.split('/').next() == Some(all))
        };
        // What was refused is approved by its name alone.
        let of_all = held
            .iter()
            .filter(|(name, held)| of_source(name) && !held.denied)
            .map(|(name, _)| name);
        let named: BTreeSet<&String> = self.names.iter().chain(of_all).collect();
        for name in &named {
            anyhow::ensure!(
                held.contains_key(*name),
                "{name:?} does not wait; `picktools approve` shows what does"
            );
        }
        anyhow::ensure!(
            self.all_of.is_none() || !named.is_empty(),
            "nothing of {:?} waits; `picktools approve` shows what does",
            self.all_of.as_deref().unwrap_or_default()
        );
        let is_shown = |name: &String, held: &Held| {
            if named.is_empty() {
                !held.denied && !has_decided
            } else {
                named.contains(name)
            }
        };
        let mut waiting = Vec::new();
        for (name, held) in held.iter().filter(|(name, held)| is_shown(name, held)) {
            let approved = pins.approved(name)?;
            waiting.push(Waiting {
                name,
                held,
                changes: changes(approved.as_ref(), &held.definition),
            });
        }
        let calls = if named.is_empty() && !has_decided {
            queue.waiting()?
        } else {
            BTreeMap::new()
        };
        if self.json {
            output::json(&Shown {
                definitions: &waiting,
                calls: &calls,
            })?;
        } else {
            waiting.iter().try_for_each(show)?;
            for (id, call) in &calls {
                output::answer(format!(
                    "call {id}: {}",
                    marked(&call.shown, MAX_VALUE_CHARS)
                ))?;
            }
        }
        if named.is_empty() {
            let nothing_waits = waiting.is_empty() && calls.is_empty();
            if !self.json && nothing_waits && !has_decided {
                output::note("nothing waits");
            }
            return Ok(if nothing_waits {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        if !self.yes && !asked(waiting.len())? {
            output::note("nothing was approved");
            return Ok(ExitCode::FAILURE);
        }
        let shown: Vec<(String, String)> = waiting
            .iter()
            .map(|waiting| (waiting.name.to_owned(), waiting.held.digest.clone()))
            .collect();
        pins.approve(&shown)?;
        output::note(format!("approved {}", shown.len()));
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks on a terminal; without one the answer is no.
fn asked(count: usize) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        output::note("there is no terminal to ask on; give --yes to approve what is shown");
        return Ok(false);
    }
    write!(io::stderr(), "Approve {count} definitions as shown? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn show(waiting: &Waiting<'_>) -> anyhow::Result<()> {
    output::answer(format!(
        "{}: {}",
        marked(waiting.name, 200),
        waiting.held.why
    ))?;
    for finding in &waiting.held.findings {
        output::answer(format!("  ! {}", marked(finding, MAX_VALUE_CHARS)))?;
    }
    let value = |value: &Value| marked(&value.to_string(), MAX_VALUE_CHARS).into_owned();
    for (pointer, (before, now)) in &waiting.changes {
        let pointer = marked(pointer, 200);
        if let Some(before) = before {
            output::answer(format!("  - {pointer}: {}", value(before)))?;
        }
        if let Some(now) = now {
            output::answer(format!("  + {pointer}: {}", value(now)))?;
        }
    }
    Ok(())
}
