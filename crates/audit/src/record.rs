//! What records tell, as they are read again.

use std::collections::BTreeMap;

use picktools::{Access, PickOptions, Query};
use serde::Deserialize;
use serde_json::Value;

/// A record. Members that are not named here are let be.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// Tools were picked.
    Selection(Box<SelectionRecord>),
    /// A tool was called.
    Call(Box<CallRecord>),
    /// Somebody decided of what waited.
    Approval(Value),
    /// What holds has become another.
    Policy(Box<PolicyRecord>),
}

/// Tools that were picked.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct SelectionRecord {
    /// Which way the request came: `search`, `pick` or `model`.
    pub via: String,
    /// The name of the caller's key.
    pub key: String,
    /// The caller's role.
    pub role: String,
    /// Whose state it was: a session, or a key.
    #[serde(default)]
    pub session: Option<String>,
    /// The request; absent where it cannot be run again: that of a model, or one that is too large.
    #[serde(default)]
    pub query: Option<Query>,
    /// Whether something was replaced in the request, so that it may be answered in another way.
    #[serde(default)]
    pub redacted: bool,
    /// How tools were to be picked, but for who may see them.
    #[serde(default)]
    pub options: Option<PickOptions>,
    /// The digest of who may see what.
    #[serde(default)]
    pub access: Option<String>,
    /// The digest of the catalog.
    #[serde(default)]
    pub catalog: Option<String>,
    /// The tools that were picked, the first 64.
    #[serde(default)]
    pub picks: Vec<Picked>,
    /// The SHA-256 of the whole selection as JSON.
    #[serde(default)]
    pub selection: Option<String>,
    /// Whether a stage failed or ran out of time.
    #[serde(default)]
    pub degraded: bool,
}

/// A tool that was picked.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Picked {
    /// Its id.
    pub tool: String,
    /// Its score, 0..1.
    pub score: f32,
}

/// A tool that was called.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct CallRecord {
    /// The name of the caller's key.
    pub key: String,
    /// Whose state it was: a session, or a key.
    pub session: String,
    /// The tool's id, where the name was that of one.
    #[serde(default)]
    pub tool: Option<String>,
    /// `done`; `failed` where the tool said so; `asked` where the call waits for the client; else
    /// the code of the refusal.
    pub outcome: String,
}

/// What holds from now on. Members that are left out stay as they were.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct PolicyRecord {
    /// What has become another: `start`, `settings`, `catalog`, `approvals`, `file`, `access`.
    pub changed: Vec<String>,
    /// The version of the program.
    pub program: Option<String>,
    /// What the vectors of its embedding model depend on.
    pub model: Option<String>,
    /// The digest of the catalog.
    pub catalog: Option<String>,
    /// What roles may do.
    pub roles: BTreeMap<String, RolePolicy>,
    /// Who may see what, by digest.
    pub access: BTreeMap<String, Access>,
}

/// What a role may do.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct RolePolicy {
    /// The digest of what it may see.
    pub access: String,
}
