//! `picktools approve`: definitions and calls that wait for approval.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_gateway::{
    ApprovalScope, CallDecision, CallQueue, Pins, QuarantinedDefinition, QueuedCall,
    RememberedApproval, changes,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::store_args::StoreArgs;
use crate::{heading, mcp, output};

/// The most characters of a value in the output.
const MAX_VALUE_CHARS: usize = 2_000;

const EXAMPLES: &str = "\
Examples:
  picktools approve
  picktools approve github/create_issue --yes
  picktools approve --call 1f0c9a2b --for always";

/// Review quarantined tool definitions and pending calls.
///
/// The gateway quarantines new and changed definitions of MCP servers. A call becomes pending if it
/// needs a confirmation and its client cannot ask the user
/// (docs/concepts/approval-and-quarantine.md).
///
/// Without names, --all-of, --deny, --call, --deny-call, --revoke, --forget and --lost, the command
/// lists the definitions and calls that wait for a decision, with what changed since the last
/// approval. It then exits with 1 if there are any. SERVER/@instructions stands for the instructions
/// of a server.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ApproveCommand {
    /// Quarantined definitions to approve, as SERVER/TOOL.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Approve all quarantined definitions of a server, except refused ones.
    #[arg(long, value_name = "SERVER", help_heading = heading::GATEWAY)]
    all_of: Option<String>,
    /// Refuse a quarantined definition, as SERVER/TOOL; may be repeated.
    ///
    /// A refused definition stays in quarantine, so clients cannot use it. This command no longer
    /// lists it, and exits with 0 if there is nothing else. To approve it later, give its name.
    #[arg(long, value_name = "NAME", help_heading = heading::GATEWAY)]
    deny: Vec<String>,
    /// Approve a pending call by its id; may be repeated.
    ///
    /// The approval itself runs nothing. The client must send the same call again within ten
    /// minutes after the approval. It then runs once.
    #[arg(long, value_name = "ID", help_heading = heading::GATEWAY)]
    call: Vec<String>,
    /// Scope of the approval that --call gives.
    ///
    /// `call`: the call itself. `tool`: all calls of the tool in this session of the client.
    /// `server`: all calls of the tools of this server in this session. `always`: all calls of the
    /// tool by this client. The approval ends if a definition changes. The list of pending calls
    /// names the values that a call accepts.
    #[arg(long = "for", value_name = "CALLS", requires = "call", default_value = "call",
        value_parser = ["call", "tool", "server", "always"], help_heading = heading::GATEWAY)]
    scope: String,
    /// List permanent approvals, with their tool and client.
    #[arg(long, conflicts_with_all = ["names", "all_of"], help_heading = heading::GATEWAY)]
    remembered: bool,
    /// Revoke a permanent approval by its id; may be repeated.
    #[arg(long, value_name = "ID", help_heading = heading::GATEWAY)]
    revoke: Vec<String>,
    /// Refuse a pending call by its id; may be repeated.
    #[arg(long, value_name = "ID", help_heading = heading::GATEWAY)]
    deny_call: Vec<String>,
    /// Delete all decisions about a server; treat its next tool list as its first.
    ///
    /// With `"trust": "first-use"`, which is the default, that list is approved, even definitions
    /// that you refused. Definitions in which `picktools check` finds an error are quarantined.
    #[arg(long, value_name = "SERVER", help_heading = heading::GATEWAY)]
    forget: Option<String>,
    /// Folder with approved definitions and pending calls, in its subfolder `gateway`.
    ///
    /// The default is the data folder of picktools, such as ~/.local/share/picktools on Linux. With
    /// --store, they are in the store.
    #[arg(long, value_name = "FOLDER", help_heading = heading::GATEWAY)]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// With --store: decide what happens after the store lost approvals.
    ///
    /// The store has lost approvals if it restarted from an older copy. Gateways and this command
    /// report that. `restore` approves again what running gateways remember. `accept` continues
    /// with the older copy, so you must give the lost approvals again.
    #[arg(long, value_name = "WHAT", value_parser = ["restore", "accept"],
        help_heading = heading::GATEWAY)]
    lost: Option<String>,
    /// Approve definitions without asking; required without a terminal.
    #[arg(long, short, help_heading = heading::GATEWAY)]
    yes: bool,
    /// Print JSON.
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,
}

/// A pending definition, and its changes since the approved one.
#[derive(Serialize)]
struct PendingDefinition<'a> {
    name: &'a str,
    #[serde(flatten)]
    quarantined: &'a QuarantinedDefinition,
    /// The approved value and the new one, by JSON pointer.
    changes: BTreeMap<String, (Option<Value>, Option<Value>)>,
}

/// All pending definitions and calls.
#[derive(Serialize)]
struct PendingList<'a> {
    definitions: &'a [PendingDefinition<'a>],
    calls: &'a BTreeMap<String, QueuedCall>,
}

impl ApproveCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let state = mcp::state_folder(self.state_dir.as_deref())?;
        let (pins, queue) = mcp::approvals(self.store.open()?.as_ref(), &state)?;
        let has_decided = self.decide(&pins, &queue)?;
        if self.remembered {
            self.print_remembered(&queue.remembered()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let quarantined = pins.quarantined()?;
        let selected = self.select(&quarantined)?;
        let is_listed = |name: &String, definition: &QuarantinedDefinition| {
            if selected.is_empty() {
                !definition.denied && !has_decided
            } else {
                selected.contains(name)
            }
        };
        let mut pending = Vec::new();
        for (name, definition) in &quarantined {
            if !is_listed(name, definition) {
                continue;
            }
            let approved = pins.approved(name)?;
            pending.push(PendingDefinition {
                name,
                quarantined: definition,
                changes: changes(approved.as_ref(), &definition.definition),
            });
        }
        let calls = if selected.is_empty() && !has_decided {
            queue.pending()?
        } else {
            BTreeMap::new()
        };
        self.print(&pending, &calls)?;
        if selected.is_empty() {
            let nothing_pending = pending.is_empty() && calls.is_empty();
            if !self.json && nothing_pending && !has_decided {
                output::note("nothing is pending");
            }
            return Ok(if nothing_pending {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        if !self.yes && !confirm(pending.len())? {
            output::note("nothing was approved");
            return Ok(ExitCode::FAILURE);
        }
        let mut approvals: Vec<(String, String)> = Vec::new();
        for definition in &pending {
            let version = definition.quarantined.version();
            approvals.push((definition.name.to_owned(), version));
        }
        pins.approve(&approvals)?;
        output::note(format!("approved {}", approvals.len()));
        Ok(ExitCode::SUCCESS)
    }

    /// Applies the decisions of the options, apart from approvals. Returns `true` if there are any.
    fn decide(&self, pins: &Pins, queue: &CallQueue) -> anyhow::Result<bool> {
        let mut has_decided = false;
        if let Some(resolution) = &self.lost {
            let restores = resolution == "restore";
            let count = pins.resolve_rollback(restores)?;
            output::note(if restores {
                format!("restored {count} approvals")
            } else {
                "the older copy stays".to_owned()
            });
            has_decided = true;
        } else if let Some(lost) = pins.rollback()? {
            let (expected, actual) = (lost.known_change, lost.found_change);
            output::warn(format!(
                "the store was rolled back to an older copy (change {actual} of {expected}), and \
                 new definitions are quarantined; pass --lost restore to write back the approvals \
                 that gateways know, or --lost accept to continue with the older copy"
            ));
        }
        has_decided |= self.decide_calls(queue)?;
        if let Some(source) = &self.forget {
            pins.forget(source)?;
            output::note(format!("forgot {source}"));
            has_decided = true;
        }
        for name in &self.deny {
            let quarantined = pins.quarantined()?;
            let definition = quarantined
                .get(name)
                .with_context(|| format!("{name:?} is not pending"))?;
            pins.deny(name, &definition.version())?;
            output::note(format!("refused {name}"));
            has_decided = true;
        }
        Ok(has_decided)
    }

    /// Applies the decisions about calls, and revokes approvals. Returns `true` if there are any.
    fn decide_calls(&self, queue: &CallQueue) -> anyhow::Result<bool> {
        let scope = ApprovalScope::from_name(&self.scope).unwrap_or_default();
        let approved = match scope {
            ApprovalScope::Call => "approved once".to_owned(),
            _ => format!("approved ({})", scope.title().to_lowercase()),
        };
        for (ids, decision, done) in [
            (&self.call, CallDecision::Allow(scope), approved.as_str()),
            (&self.deny_call, CallDecision::Deny, "refused"),
        ] {
            for id in ids {
                let call = queue.decide(id, decision)?;
                output::note(format!("{done}: {}", marked(&call.shown, MAX_VALUE_CHARS)));
            }
        }
        for id in &self.revoke {
            let revoked = queue.revoke(id)?;
            output::note(format!("revoked {id}: {}", describe_remembered(&revoked)));
        }
        Ok(!(self.call.is_empty() && self.deny_call.is_empty() && self.revoke.is_empty()))
    }

    /// Prints the approvals that hold always.
    fn print_remembered(
        &self,
        remembered: &BTreeMap<String, RememberedApproval>,
    ) -> anyhow::Result<()> {
        if self.json {
            return output::json(&json!({"remembered": remembered}));
        }
        for (id, approval) in remembered {
            output::answer(format!("{id}: {}", describe_remembered(approval)))?;
        }
        if remembered.is_empty() {
            output::note("no permanent approvals");
        }
        Ok(())
    }

    /// Returns the names of the definitions to approve.
    fn select<'a>(
        &'a self,
        quarantined: &'a BTreeMap<String, QuarantinedDefinition>,
    ) -> anyhow::Result<BTreeSet<&'a String>> {
        let mut selected: BTreeSet<&String> = self.names.iter().collect();
        if let Some(server) = &self.all_of {
            for (name, definition) in quarantined {
                // A refused definition is approved only by its name.
                if name.split('/').next() == Some(server) && !definition.denied {
                    selected.insert(name);
                }
            }
        }
        for name in &selected {
            anyhow::ensure!(
                quarantined.contains_key(*name),
                "{name:?} is not pending; `picktools approve` lists the pending definitions"
            );
        }
        anyhow::ensure!(
            self.all_of.is_none() || !selected.is_empty(),
            "no definition of {:?} is pending; `picktools approve` lists the pending ones",
            self.all_of.as_deref().unwrap_or_default()
        );
        Ok(selected)
    }

    /// Prints pending definitions and calls.
    fn print(
        &self,
        pending: &[PendingDefinition<'_>],
        calls: &BTreeMap<String, QueuedCall>,
    ) -> anyhow::Result<()> {
        if self.json {
            return output::json(&PendingList {
                definitions: pending,
                calls,
            });
        }
        pending.iter().try_for_each(show)?;
        for (id, call) in calls {
            let shown = marked(&call.shown, MAX_VALUE_CHARS);
            output::answer(format!("call {id}: {shown}"))?;
            let scopes = call
                .scopes
                .iter()
                .filter(|scope| **scope != ApprovalScope::Call);
            let scopes: Vec<&str> = scopes.map(|scope| scope.name()).collect();
            if !scopes.is_empty() {
                output::answer(format!("  --for accepts: call, {}", scopes.join(", ")))?;
            }
        }
        Ok(())
    }
}

/// Describes an approval that holds always.
fn describe_remembered(approval: &RememberedApproval) -> String {
    let tool = marked(&approval.tool, MAX_NAME_CHARS);
    format!("{tool} for {}", marked(&approval.client, MAX_NAME_CHARS))
}

/// Asks for confirmation on the terminal. Without a terminal the answer is no.
fn confirm(count: usize) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        output::note("cannot ask without a terminal; pass --yes to approve the listed definitions");
        return Ok(false);
    }
    write!(io::stderr(), "Approve {count} definitions as shown? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn show(pending: &PendingDefinition<'_>) -> anyhow::Result<()> {
    output::answer(format!(
        "{}: {}",
        marked(pending.name, 200),
        pending.quarantined.reason
    ))?;
    for finding in &pending.quarantined.findings {
        output::answer(format!("  ! {}", marked(finding, MAX_VALUE_CHARS)))?;
    }
    let value = |value: &Value| marked(&value.to_string(), MAX_VALUE_CHARS).into_owned();
    for (pointer, (approved, current)) in &pending.changes {
        let pointer = marked(pointer, 200);
        if let Some(approved) = approved {
            output::answer(format!("  - {pointer}: {}", value(approved)))?;
        }
        if let Some(current) = current {
            output::answer(format!("  + {pointer}: {}", value(current)))?;
        }
    }
    Ok(())
}
