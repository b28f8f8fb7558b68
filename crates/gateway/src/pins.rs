//! Pins: the approved and the quarantined definitions.
//!
//! A model reads the definitions of an upstream, so they are pinned. The first listing is trusted,
//! or no listing is, depending on the settings. A definition that is new or different afterwards is
//! quarantined until an operator approves it. Meanwhile its tool can be neither found nor called.

mod code_variables;
mod digests;
mod file;
mod review;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use picktools_import::mcp::Server;
use picktools_state::{
    Purpose, SharedFile, StateError, StateHandle, StateLocation, StateStamp, StateStore, StoreHash,
    StoreRollback, lock,
};
use serde_json::Value;

use crate::settings::Trust;

pub(crate) use self::digests::endpoint_digest;
use self::digests::sha256;
use self::file::{ApprovalOrigin, PinsFile, SeenDigest};
pub use self::file::{HoldReason, INSTRUCTIONS, QuarantinedDefinition, REFUSED};
pub(crate) use self::review::{DefinitionFindings, ReviewedListing, ServerListing};

const VERSION: u32 = 1;
const REMEDY: &str = "restore a copy, or remove the file to treat all servers as new";

/// The approved and the quarantined definitions, in a folder or store that gateways share.
#[derive(Debug, Clone)]
pub struct Pins {
    shared: StateHandle<PinsFile>,
    /// The definition of each tool that this gateway saw last, by `source/tool`. Another gateway
    /// may see another definition, whose quarantine this gateway then leaves unchanged.
    seen: Arc<Mutex<HashMap<String, SeenDigest>>>,
}

/// The decisions of operators about definitions.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct PinDecisions {
    /// The denied definitions: `source/tool` and digest.
    pub(crate) denied: BTreeSet<(String, String)>,
    /// The approved definitions: `source/tool` and digest.
    pub(crate) approved: BTreeSet<(String, String)>,
    /// The time at which each server was first seen.
    pub(crate) first_seen: BTreeMap<String, u64>,
    /// `true` if a rollback of the store is unresolved.
    pub(crate) is_rolled_back: bool,
}

impl Pins {
    fn new(shared: StateHandle<PinsFile>) -> Self {
        Self {
            shared,
            seen: Arc::default(),
        }
    }

    /// Opens the pins of a folder. The folder is created for its owner only.
    ///
    /// # Errors
    ///
    /// [`StateError`] if it cannot be created or its content cannot be read; then no definition is
    /// approved.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StateError> {
        SharedFile::open(folder.into(), "pins.json", VERSION, REMEDY)
            .map(|file| Self::new(StateHandle::File(file)))
    }

    /// Opens the pins of a store.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the store does not reply or the content cannot be read; then no definition
    /// is approved.
    pub fn from_store(store: &StateStore) -> Result<Self, StateError> {
        StoreHash::open(store, Purpose::Pins, "pins", VERSION)
            .map(|stored| Self::new(StateHandle::Store(stored)))
    }

    /// Returns the location, for reports of changes.
    pub(crate) fn location(&self) -> StateLocation {
        self.shared.location()
    }

    /// Returns the rollback of the store that no operator has resolved yet. Until then, definitions
    /// that are not in the older copy are quarantined, even those of servers that are seen for the
    /// first time.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read.
    pub fn rollback(&self) -> Result<Option<StoreRollback>, StateError> {
        Ok(self.shared.read()?.rollback)
    }

    /// Resolves a rollback. With `restore`, the approvals that were known before are restored,
    /// except those that were decided differently since. Without it, the older copy stays. Returns
    /// the number of restored approvals.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read or written, or there is no rollback.
    pub fn resolve_rollback(&self, restore: bool) -> Result<usize, StateError> {
        let lost_version = if restore {
            self.shared.lost_version()?.unwrap_or_default()
        } else {
            PinsFile::default()
        };
        self.shared.change(|file| {
            if file.rollback.take().is_none() {
                return Err("there is no unresolved rollback".to_owned());
            }
            Ok(file.restore_from(&lost_version))
        })
    }

    /// Returns the quarantined definitions, by `source/tool`.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read.
    pub fn quarantined(&self) -> Result<BTreeMap<String, QuarantinedDefinition>, StateError> {
        Ok(self.shared.read()?.quarantined)
    }

    /// Returns the quarantined definitions of a server, by the names of the tools.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read.
    pub fn quarantined_of(
        &self,
        server: &Server,
    ) -> Result<BTreeMap<String, QuarantinedDefinition>, StateError> {
        let endpoint_digest = endpoint_digest(server);
        let mut definitions = BTreeMap::new();
        for (id, quarantined) in self.shared.read()?.quarantined {
            if let Some((source, tool)) = id.split_once('/')
                && source == server.name
                && quarantined.endpoint_digest == endpoint_digest
            {
                definitions.insert(tool.to_owned(), quarantined);
            }
        }
        Ok(definitions)
    }

    /// Returns the approved definition of a tool, by `source/tool`, even while another definition is
    /// quarantined.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read.
    pub fn approved(&self, id: &str) -> Result<Option<Value>, StateError> {
        let file = self.shared.read()?;
        let Some((source, tool)) = id.split_once('/') else {
            return Ok(None);
        };
        let Some(approved) = file.upstreams.get(source) else {
            return Ok(None);
        };
        let endpoint_pin = file
            .quarantined
            .get(id)
            .and_then(|quarantined| approved.pin(tool, &quarantined.endpoint_digest));
        let pin = endpoint_pin.or_else(|| approved.tools.get(tool)?.last());
        Ok(pin.map(|pin| pin.definition.clone()))
    }

    /// Approves quarantined definitions, each by its id and the version that was shown.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read or written, or a definition is no longer
    /// quarantined or has changed since it was shown. Then none of them is approved.
    pub fn approve(&self, shown: &[(String, String)]) -> Result<(), StateError> {
        self.shared.change(|file| {
            shown
                .iter()
                .try_for_each(|(id, version)| file.approve(id, version))
        })
    }

    /// Denies a quarantined definition, by the version that was shown. It is no longer listed as
    /// waiting for approval and stays quarantined, even if it returns after another definition.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read or written, or the definition is not quarantined
    /// or has changed since it was shown.
    pub fn deny(&self, id: &str, version: &str) -> Result<(), StateError> {
        self.shared.change(|file| file.deny(id, version))
    }

    /// Removes everything about an upstream: its next listing is its first.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the pins cannot be read or written, or the upstream is unknown.
    pub fn forget(&self, source: &str) -> Result<(), StateError> {
        self.shared.change(|file| {
            let prefix = format!("{source}/");
            file.quarantined.retain(|id, _| !id.starts_with(&prefix));
            file.denied_definitions
                .retain(|id, _| !id.starts_with(&prefix));
            file.upstreams
                .remove(source)
                .map(|_| ())
                .ok_or_else(|| format!("unknown server {source:?}"))
        })
    }

    /// Returns the decisions of operators so far.
    pub(crate) fn decisions(&self) -> Result<PinDecisions, StateError> {
        let PinsFile {
            upstreams,
            denied_definitions,
            rollback,
            ..
        } = self.shared.read()?;
        let denied_pairs = denied_definitions
            .into_iter()
            .flat_map(|(id, seen)| seen.into_iter().map(move |seen| (id.clone(), seen.digest)));
        let mut decisions = PinDecisions {
            denied: denied_pairs.collect(),
            is_rolled_back: rollback.is_some(),
            ..PinDecisions::default()
        };
        for (source, approved) in upstreams {
            for (tool, pins) in approved.tools {
                let operator_pins = pins
                    .into_iter()
                    .filter(|pin| pin.by == ApprovalOrigin::Operator);
                decisions
                    .approved
                    .extend(operator_pins.map(|pin| (format!("{source}/{tool}"), pin.digest)));
            }
            decisions.first_seen.insert(source, approved.first_seen);
        }
        Ok(decisions)
    }

    /// Returns the scope of a server's name. In a store, a name stands for one server: the machines
    /// that share it have different files.
    pub(crate) fn scope(&self, server: &Server) -> String {
        match (&self.shared, &server.scope) {
            // A scope may have a URL with a key.
            (StateHandle::File(_), Some(scope)) => sha256(scope),
            _ => String::new(),
        }
    }

    /// Returns a version stamp that changes with every approval.
    pub(crate) fn stamp(&self) -> StateStamp {
        self.shared.stamp()
    }

    /// Compares listings with the approved definitions, and records what is approved or quarantined
    /// by that. Returns the stamp of the pins that were used. `findings_of` returns the errors and
    /// warnings of `picktools check` for a definition of an upstream.
    pub(crate) fn review(
        &self,
        listings: &[ServerListing<'_>],
        trust: Trust,
        findings_of: &dyn Fn(&str, &str) -> DefinitionFindings,
    ) -> Result<(Vec<ReviewedListing>, StateStamp), StateError> {
        let mut last_seen = lock(&self.seen);
        let review =
            |file: &mut PinsFile| Ok(file.review(listings, trust, findings_of, &last_seen));
        let (reviewed, stamp) = self.shared.change_and_stamp(review)?;
        let (reviewed, seen_now): (Vec<ReviewedListing>, Vec<_>) = reviewed.into_iter().unzip();
        last_seen.extend(seen_now.into_iter().flatten());
        Ok((reviewed, stamp))
    }
}
