//! The stored definitions: the approved and the quarantined ones, and the decisions of operators.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use picktools_state::keys::now;
use picktools_state::{SharedState, StoreRollback};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::digests::sha256;

/// The name under which the instructions of a server are pinned, like a tool.
pub const INSTRUCTIONS: &str = "@instructions";
/// The most endpoints from which a tool is known.
const MAX_ENDPOINTS: usize = 16;
/// The most scopes in which a server of one name is used for the first time.
pub(super) const MAX_SCOPES: usize = 64;

/// A definition, by its digest, from an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeenDefinition {
    pub(super) digest: String,
    #[serde(rename = "way")]
    pub(super) endpoint_digest: String,
}

impl SeenDefinition {
    /// Returns one digest of both, which takes little memory.
    pub(super) fn summary(&self) -> SeenDigest {
        Sha256::new_with_prefix(&self.digest)
            .chain_update(" ")
            .chain_update(&self.endpoint_digest)
            .finalize()
            .into()
    }
}

/// The digest of a [`SeenDefinition`].
pub(super) type SeenDigest = [u8; 32];

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

    pub(super) fn seen_definition(&self) -> SeenDefinition {
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

pub(super) fn is_denied(
    denied_definitions: &DeniedDefinitions,
    id: &str,
    seen: &SeenDefinition,
) -> bool {
    denied_definitions
        .get(id)
        .is_some_and(|denied| denied.contains(seen))
}

/// Returns `true` if a definition was denied at any endpoint.
pub(super) fn is_denied_anywhere(
    denied_definitions: &DeniedDefinitions,
    id: &str,
    digest: &str,
) -> bool {
    let denied = denied_definitions.get(id);
    denied.is_some_and(|denied| denied.iter().any(|seen| seen.digest == digest))
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PinsFile {
    pub(super) upstreams: BTreeMap<String, ServerPins>,
    /// By `source/tool`. If several gateways quarantine different definitions of a tool, one of
    /// them is stored.
    #[serde(rename = "held")]
    pub(super) quarantined: BTreeMap<String, QuarantinedDefinition>,
    /// The denied definitions, by `source/tool`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[serde(rename = "refused")]
    pub(super) denied_definitions: DeniedDefinitions,
    /// A rollback of the store, until an operator resolves it. Until then, no definition is trusted
    /// on first use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "lost")]
    pub(super) rollback: Option<StoreRollback>,
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
pub(super) struct ServerPins {
    pub(super) first_seen: u64,
    /// Each tool has one pin for each endpoint, because configurations may use one name for
    /// different servers.
    pub(super) tools: BTreeMap<String, Vec<Pin>>,
    /// The digests of the endpoints that each scope used, by the digest of the scope. A file of an
    /// earlier version has none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) scopes: BTreeMap<String, BTreeSet<String>>,
}

impl ServerPins {
    pub(super) fn new(first_seen: u64) -> Self {
        Self {
            first_seen,
            tools: BTreeMap::new(),
            scopes: BTreeMap::new(),
        }
    }

    pub(super) fn pin(&self, tool: &str, endpoint_digest: &str) -> Option<&Pin> {
        self.tools
            .get(tool)?
            .iter()
            .find(|pin| pin.endpoint_digest == endpoint_digest)
    }

    pub(super) fn put(&mut self, tool: &str, pin: Pin) {
        let pins = self.tools.entry(tool.to_owned()).or_default();
        pins.retain(|other| other.endpoint_digest != pin.endpoint_digest);
        pins.push(pin);
        let surplus = pins.len().saturating_sub(MAX_ENDPOINTS);
        pins.drain(..surplus);
    }

    /// Records that a scope uses an endpoint.
    pub(super) fn record_use(&mut self, scope: &str, endpoint_digest: &str) {
        let endpoints = self.scopes.entry(scope.to_owned()).or_default();
        if endpoints.len() < MAX_ENDPOINTS {
            endpoints.insert(endpoint_digest.to_owned());
        }
    }

    /// Returns `true` if a scope that is not known yet uses an endpoint that is not known either.
    /// Its server is another one than those of the same name in other scopes.
    pub(super) fn is_first_use(&self, scope: &str, endpoint_digest: &str) -> bool {
        let is_known = |pin: &Pin| pin.endpoint_digest == endpoint_digest;
        !self.scopes.is_empty()
            && self.scopes.len() < MAX_SCOPES
            && !self.scopes.contains_key(scope)
            && !self.tools.values().flatten().any(is_known)
    }

    /// Returns `true` if the scope did not use this endpoint before, other endpoints have pins, and
    /// this one has none except approvals of the operator. The approval of one definition does not
    /// extend to the others.
    pub(super) fn has_moved_to(&self, scope: &str, endpoint_digest: &str) -> bool {
        let pins = || self.tools.values().flatten();
        let endpoints = self.scopes.get(scope);
        endpoints.is_none_or(|endpoints| !endpoints.contains(endpoint_digest))
            && pins().any(|pin| pin.endpoint_digest != endpoint_digest)
            && !pins().any(|pin| {
                pin.endpoint_digest == endpoint_digest && pin.by != ApprovalOrigin::Operator
            })
    }
}

/// An approved definition. Its pinned members are stored, so that differences can be shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    pub(super) digest: String,
    /// The digest of the program with its arguments and folder, or of the URL, from which it came.
    #[serde(rename = "way")]
    pub(super) endpoint_digest: String,
    pub(super) approved: u64,
    pub(super) by: ApprovalOrigin,
    pub(super) definition: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ApprovalOrigin {
    FirstUse,
    Operator,
    Trusted,
}

impl PinsFile {
    pub(super) fn approve(&mut self, id: &str, version: &str) -> Result<(), String> {
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
        let definition = quarantined.seen_definition();
        let SeenDefinition {
            digest,
            endpoint_digest,
        } = definition.clone();
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
            denied.remove(&definition);
        }
        Ok(())
    }

    pub(super) fn deny(&mut self, id: &str, version: &str) -> Result<(), String> {
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
    pub(super) fn record_denied(&mut self) {
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
    pub(super) fn restore_from(&mut self, later: &Self) -> usize {
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
                let definition = SeenDefinition {
                    digest: pin.digest.clone(),
                    endpoint_digest: pin.endpoint_digest.clone(),
                };
                let is_quarantined = self
                    .quarantined
                    .get(&id)
                    .is_some_and(|quarantined| quarantined.seen_definition() == definition);
                let is_newer = server_pins
                    .pin(tool, &pin.endpoint_digest)
                    .is_some_and(|current| current.approved > pin.approved);
                let is_pinned = server_pins
                    .pin(tool, &pin.endpoint_digest)
                    .is_some_and(|current| current.digest == pin.digest);
                if is_newer || is_pinned || is_denied(&self.denied_definitions, &id, &definition) {
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
