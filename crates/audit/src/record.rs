//! The content of records, for readers.

use std::collections::BTreeMap;

use picktools::{Access, PickOptions, Query};
use serde::Deserialize;
use serde_json::Value;

/// A record. Unknown members are ignored.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// Tools were picked.
    Selection(Box<SelectionRecord>),
    /// A tool was called.
    Call(Box<CallRecord>),
    /// An operator decided about a definition or a call.
    Approval(Value),
    /// The policy changed.
    Policy(Box<PolicyRecord>),
}

/// A selection of tools.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SelectionRecord {
    /// The route of the request: `search`, `pick` or `model`.
    pub via: String,
    /// The name of the caller's key.
    pub key: String,
    /// The caller's role.
    pub role: String,
    /// The owner of the caller's state: a session, or a key.
    #[serde(default)]
    pub session: Option<String>,
    /// The request; absent if it cannot be replayed, because it went to a model or was too large.
    #[serde(default)]
    pub query: Option<Query>,
    /// `true` if a secret in the request was replaced, so that a replay may differ.
    #[serde(default)]
    pub redacted: bool,
    /// The pick options, without the access policy.
    #[serde(default)]
    pub options: Option<PickOptions>,
    /// The digest of the access policy.
    #[serde(default)]
    pub access: Option<String>,
    /// The digest of the catalog.
    #[serde(default)]
    pub catalog: Option<String>,
    /// The first 64 picked tools.
    #[serde(default)]
    pub picks: Vec<PickRecord>,
    /// The SHA-256 of the complete selection as JSON.
    #[serde(default)]
    pub selection: Option<String>,
    /// `true` if a stage failed or ran out of time.
    #[serde(default)]
    pub degraded: bool,
}

/// A picked tool.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct PickRecord {
    /// The id of the tool.
    pub tool: String,
    /// The score, 0 to 1.
    pub score: f32,
}

/// A tool that was called.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct CallRecord {
    /// The name of the caller's key.
    pub key: String,
    /// The owner of the caller's state: a session, or a key.
    pub session: String,
    /// The id of the tool, if the requested name was valid.
    #[serde(default)]
    pub tool: Option<String>,
    /// `done`; `failed` if the tool reported an error; `asked` if the call waits for the client;
    /// otherwise the code of the refusal.
    pub outcome: String,
}

/// A change of the policy. Members that are left out stay as they were.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PolicyRecord {
    /// The parts that changed: `start`, `settings`, `catalog`, `approvals`, `file`, `access`.
    pub changed: Vec<String>,
    /// The version of the program.
    pub program: Option<String>,
    /// The identity of the embedding model.
    pub model: Option<String>,
    /// The digest of the catalog.
    pub catalog: Option<String>,
    /// The policies of roles.
    pub roles: BTreeMap<String, RolePolicy>,
    /// The access policies by digest.
    pub access: BTreeMap<String, Access>,
}

/// The policy of a role.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct RolePolicy {
    /// The digest of the access policy.
    pub access: String,
}
