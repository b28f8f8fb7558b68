//! Pins: the approved and the quarantined definitions.
//!
//! A model reads the definitions of an upstream, so they are pinned. The first listing is trusted,
//! or no listing is, depending on the settings. A definition that is new or different afterwards is
//! quarantined until an operator approves it. Meanwhile its tool can be neither found nor called.

mod code_variables;
mod review;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use picktools_import::mcp::{Server, ServerTransport};
use picktools_state::keys::now;
use picktools_state::{
    Purpose, SharedFile, SharedState, StateError, StateHandle, StateLocation, StateStamp,
    StateStore, StoreHash, StoreRollback, lock,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::settings::Trust;

use self::code_variables::code_variables;
pub(crate) use self::review::{DefinitionFindings, ReviewedListing, ServerListing};

/// The name under which the instructions of a server are pinned, like a tool.
pub const INSTRUCTIONS: &str = "@instructions";

const VERSION: u32 = 1;
const REMEDY: &str = "restore a copy, or remove the file to treat all servers as new";
/// The most endpoints from which a tool is known.
const MAX_ENDPOINTS: usize = 16;
/// The most scopes in which a server of one name is used for the first time.
const MAX_SCOPES: usize = 64;
/// The members of a definition that a model sees, or that decide about a call.
const MEMBERS: [&str; 6] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
];

/// The approved and the quarantined definitions, in a folder or store that gateways share.
#[derive(Debug, Clone)]
pub struct Pins {
    shared: StateHandle<PinsFile>,
    /// The definition of each tool that this gateway saw last, by `source/tool`. Another gateway
    /// may see another definition, whose quarantine this gateway then leaves unchanged.
    seen: Arc<Mutex<HashMap<String, SeenDefinition>>>,
}

/// A definition, by its digest, from an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeenDefinition {
    digest: String,
    #[serde(rename = "way")]
    endpoint_digest: String,
}

/// A quarantined definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct QuarantinedDefinition {
    /// The reason for the quarantine.
    #[serde(rename = "why")]
    pub reason: HoldReason,
    /// The time at which it was first seen, in seconds since 1970.
    #[serde(rename = "seen")]
    pub first_seen: u64,
    /// Its digest.
    pub digest: String,
    /// The digest of the program with its arguments and folder, or of the URL, from which it came.
    #[serde(rename = "way")]
    pub endpoint_digest: String,
    /// The members of the definition that a model sees, or that decide about a call.
    pub definition: Value,
    /// The errors and warnings of `check`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<String>,
    /// `true` if an operator denied it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
}

/// The end of the reason for the quarantine of a definition that an operator refused.
pub const REFUSED: &str = ", refused";

impl QuarantinedDefinition {
    /// Returns the reason for the quarantine. It ends with [`REFUSED`] if an operator refused the
    /// definition.
    pub fn describe_reason(&self) -> String {
        let refused = if self.denied { REFUSED } else { "" };
        format!("{}{refused}", self.reason)
    }

    /// Returns a digest of the definition and of the program or URL that sends it. An approval must
    /// state it, so that it holds for what was shown.
    pub fn version(&self) -> String {
        sha256(&format!("{} {}", self.digest, self.endpoint_digest))
    }

    fn seen_definition(&self) -> SeenDefinition {
        SeenDefinition {
            digest: self.digest.clone(),
            endpoint_digest: self.endpoint_digest.clone(),
        }
    }
}

/// The reason why a definition is quarantined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HoldReason {
    /// It differs from the approved definition.
    Changed,
    /// The first listing of the upstream did not contain it.
    New,
    /// The settings trust no definition without an approval.
    Unapproved,
    /// The configuration now names another program or URL.
    Moved,
    /// `check` finds an error in it, or a text that deceives the model or asks for too much.
    Finding,
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "changed since it was approved",
            Self::New => "new",
            Self::Unapproved => "not approved yet",
            Self::Moved => "its server now has another command or URL",
            Self::Finding => "check finds a fault or a suspicious text in it",
        })
    }
}

type DeniedDefinitions = BTreeMap<String, BTreeSet<SeenDefinition>>;

fn is_denied(denied_definitions: &DeniedDefinitions, id: &str, seen: &SeenDefinition) -> bool {
    denied_definitions
        .get(id)
        .is_some_and(|denied| denied.contains(seen))
}

/// Returns `true` if a definition was denied at any endpoint.
fn is_denied_anywhere(denied_definitions: &DeniedDefinitions, id: &str, digest: &str) -> bool {
    let denied = denied_definitions.get(id);
    denied.is_some_and(|denied| denied.iter().any(|seen| seen.digest == digest))
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PinsFile {
    upstreams: BTreeMap<String, ServerPins>,
    /// By `source/tool`. If several gateways quarantine different definitions of a tool, one of
    /// them is stored.
    #[serde(rename = "held")]
    quarantined: BTreeMap<String, QuarantinedDefinition>,
    /// The denied definitions, by `source/tool`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "refused")]
    denied_definitions: DeniedDefinitions,
    /// A rollback of the store, until an operator resolves it. Until then, no definition is trusted
    /// on first use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "lost")]
    rollback: Option<StoreRollback>,
}

impl SharedState for PinsFile {
    fn on_rollback(&mut self, rollback: &StoreRollback) {
        self.rollback.get_or_insert_with(|| rollback.clone());
    }

    fn rollback(&self) -> Option<&StoreRollback> {
        self.rollback.as_ref()
    }
}

/// The pins of an upstream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerPins {
    first_seen: u64,
    /// Each tool has one pin for each endpoint, because configurations may use one name for
    /// different servers.
    tools: BTreeMap<String, Vec<Pin>>,
    /// The digests of the endpoints that each scope used, by the digest of the scope. A file of an
    /// earlier version has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    scopes: BTreeMap<String, BTreeSet<String>>,
}

impl ServerPins {
    fn new(first_seen: u64) -> Self {
        Self {
            first_seen,
            tools: BTreeMap::new(),
            scopes: BTreeMap::new(),
        }
    }

    fn pin(&self, tool: &str, endpoint_digest: &str) -> Option<&Pin> {
        self.tools
            .get(tool)?
            .iter()
            .find(|pin| pin.endpoint_digest == endpoint_digest)
    }

    fn put(&mut self, tool: &str, pin: Pin) {
        let pins = self.tools.entry(tool.to_owned()).or_default();
        pins.retain(|other| other.endpoint_digest != pin.endpoint_digest);
        pins.push(pin);
        let surplus = pins.len().saturating_sub(MAX_ENDPOINTS);
        pins.drain(..surplus);
    }

    /// Records that a scope uses an endpoint.
    fn record_use(&mut self, scope: &str, endpoint_digest: &str) {
        let endpoints = self.scopes.entry(scope.to_owned()).or_default();
        if endpoints.len() < MAX_ENDPOINTS {
            endpoints.insert(endpoint_digest.to_owned());
        }
    }

    /// Returns `true` if a scope that is not known yet uses an endpoint that is not known either.
    /// Its server is another one than those of the same name in other scopes.
    fn is_first_use(&self, scope: &str, endpoint_digest: &str) -> bool {
        let is_known = |pin: &Pin| pin.endpoint_digest == endpoint_digest;
        !self.scopes.is_empty()
            && self.scopes.len() < MAX_SCOPES
            && !self.scopes.contains_key(scope)
            && !self.tools.values().flatten().any(is_known)
    }

    /// Returns `true` if the scope did not use this endpoint before, other endpoints have pins, and
    /// this one has none except approvals of the operator. The approval of one definition does not
    /// extend to the others.
    fn has_moved_to(&self, scope: &str, endpoint_digest: &str) -> bool {
        let pins = || self.tools.values().flatten();
        let known = self.scopes.get(scope);
        known.is_none_or(|known| !known.contains(endpoint_digest))
            && pins().any(|pin| pin.endpoint_digest != endpoint_digest)
            && !pins().any(|pin| {
                pin.endpoint_digest == endpoint_digest && pin.by != ApprovalOrigin::Operator
            })
    }
}

/// An approved definition. Its pinned members are stored, so that differences can be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    digest: String,
    /// The digest of the program with its arguments and folder, or of the URL, from which it came.
    #[serde(rename = "way")]
    endpoint_digest: String,
    approved: u64,
    by: ApprovalOrigin,
    definition: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ApprovalOrigin {
    FirstUse,
    Operator,
    Trusted,
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

impl PinsFile {
    fn approve(&mut self, id: &str, version: &str) -> Result<(), String> {
        let Some(quarantined) = self
            .quarantined
            .get(id)
            .filter(|quarantined| quarantined.version() == version)
        else {
            return Err(format!(
                "{id} changed since it was shown; review it again before you approve it"
            ));
        };
        let (source, tool) = id.split_once('/').unwrap_or(("", id));
        let seen = quarantined.seen_definition();
        let SeenDefinition {
            digest,
            endpoint_digest,
        } = seen.clone();
        let pin = Pin {
            digest,
            endpoint_digest,
            approved: now(),
            by: ApprovalOrigin::Operator,
            definition: quarantined.definition.clone(),
        };
        let Some(approved) = self.upstreams.get_mut(source) else {
            return Err(format!("{id}: unknown server"));
        };
        approved.put(tool, pin);
        self.quarantined.remove(id);
        if let Some(denied) = self.denied_definitions.get_mut(id) {
            denied.remove(&seen);
        }
        Ok(())
    }

    fn deny(&mut self, id: &str, version: &str) -> Result<(), String> {
        let quarantined = self
            .quarantined
            .get_mut(id)
            .ok_or_else(|| format!("{id} is not quarantined"))?;
        if quarantined.version() != version {
            return Err(format!(
                "{id} changed since it was shown; review it again before you deny it"
            ));
        }
        quarantined.denied = true;
        self.record_denied();
        Ok(())
    }

    /// Records the denied definitions that are quarantined now.
    fn record_denied(&mut self) {
        for (id, quarantined) in self
            .quarantined
            .iter()
            .filter(|(_, quarantined)| quarantined.denied)
        {
            self.denied_definitions
                .entry(id.clone())
                .or_default()
                .insert(quarantined.seen_definition());
        }
    }

    /// Restores the approvals of a later copy that were neither approved nor denied differently
    /// here. Returns their number.
    fn restore_from(&mut self, later: &Self) -> usize {
        let mut count = 0;
        for (source, approved) in &later.upstreams {
            let first_seen = approved.first_seen;
            let server_pins = self.upstreams.entry(source.clone());
            let server_pins = server_pins.or_insert_with(|| ServerPins::new(first_seen));
            for (tool, pin) in approved
                .tools
                .iter()
                .flat_map(|(tool, pins)| pins.iter().map(move |pin| (tool, pin)))
            {
                let id = format!("{source}/{tool}");
                let seen = SeenDefinition {
                    digest: pin.digest.clone(),
                    endpoint_digest: pin.endpoint_digest.clone(),
                };
                let is_quarantined = self
                    .quarantined
                    .get(&id)
                    .is_some_and(|quarantined| quarantined.seen_definition() == seen);
                let is_newer = server_pins
                    .pin(tool, &pin.endpoint_digest)
                    .is_some_and(|current| current.approved > pin.approved);
                let is_pinned = server_pins
                    .pin(tool, &pin.endpoint_digest)
                    .is_some_and(|current| current.digest == pin.digest);
                if is_newer || is_pinned || is_denied(&self.denied_definitions, &id, &seen) {
                    continue;
                }
                if is_quarantined {
                    self.quarantined.remove(&id);
                }
                server_pins.put(tool, pin.clone());
                count += 1;
            }
        }
        for (id, seen) in later
            .denied_definitions
            .iter()
            .flat_map(|(id, denied)| denied.iter().map(move |seen| (id, seen)))
        {
            let (source, tool) = id.split_once('/').unwrap_or(("", id));
            let current = self
                .upstreams
                .get(source)
                .and_then(|server_pins| server_pins.pin(tool, &seen.endpoint_digest));
            if current.is_none_or(|pin| pin.digest != seen.digest) {
                self.denied_definitions
                    .entry(id.clone())
                    .or_default()
                    .insert(seen.clone());
            }
        }
        count
    }
}

/// Returns the pinned members of a definition.
fn pinned_members(definition: &Value) -> Value {
    let members = definition.as_object().into_iter().flatten();
    let members: Map<String, Value> = members
        .filter(|(key, _)| MEMBERS.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Value::Object(members)
}

/// Returns the digest of a value, independent of the order of members.
fn digest(value: &Value) -> String {
    fn ordered(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let sorted: BTreeMap<&String, &Value> = members.iter().collect();
                Value::Object(
                    sorted
                        .into_iter()
                        .map(|(key, value)| (key.clone(), ordered(value)))
                        .collect(),
                )
            }
            Value::Array(items) => Value::Array(items.iter().map(ordered).collect()),
            other => other.clone(),
        }
    }
    sha256(&ordered(value).to_string())
}

/// Returns the digest of a server's endpoint: its program with arguments and folder, or its URL.
/// Variables that make a program run other code belong to it. Other variables and headers, which
/// may be secret, are left out.
pub(crate) fn endpoint_digest(server: &Server) -> String {
    let endpoint = match &server.transport {
        ServerTransport::Stdio {
            command,
            arguments,
            folder,
            variables,
            inherit,
        } => {
            let code = code_variables(variables, inherit);
            match code.is_empty() {
                true => json!([command, arguments, folder]),
                false => json!([command, arguments, folder, code]),
            }
        }
        ServerTransport::Http { url, .. } => json!([url]),
    };
    sha256(&endpoint.to_string())
}

fn sha256(text: &str) -> String {
    format!("sha256:{}", picktools_audit::sha256(text.as_bytes()))
}
