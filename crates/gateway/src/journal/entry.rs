//! What is noted, and what becomes of it in an entry: bounded, on one line, and without secrets.

use std::sync::Arc;
use std::time::Duration;

use picktools::{Access, PickOptions, Query, Selection, Tool};
use picktools_audit::{redact, redact_value, sha256};
use picktools_provider::Arguments;
use picktools_runtime::told_arguments;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Selected;
use crate::snapshot::Snapshot;

/// How a call ended that nobody waited for.
pub(super) const CANCELLED: &str = "cancelled";
/// The most tools that are listed of a selection.
const MAX_PICKS: usize = 64;
/// The most bytes of a name, of a text within arguments, and of all arguments.
const MAX_NAME: usize = 512;
const MAX_TEXT: usize = 2_000;
const MAX_ARGUMENTS: usize = 16 << 10;
/// The most bytes of a request with its options; a larger one is not run again.
const MAX_REQUEST: usize = 128 << 10;

/// Something that was decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its number in the audit; without one, since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum What {
    /// Tools were picked.
    Selection(Value),
    /// A tool was called.
    Call(Value),
    /// Somebody decided of what waited.
    Approval(Value),
    /// What holds has become another.
    Policy(Value),
}

/// The way on which a request for tools came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The gateway's `search_tools`.
    Search,
    /// The HTTP interface.
    Pick,
    /// A request to a model.
    Model,
}

/// What is noted.
pub(super) enum Noted {
    Selected(Box<Picked>),
    Narrowed(Box<Narrowing>),
    /// With how it ended, and after how long.
    Called(Box<Called>, &'static str, Duration),
    Approved(Box<Approval>),
    Changed(Arc<Snapshot>),
}

/// A pick, to be made a record of.
pub(super) struct Picked {
    key: String,
    role: String,
    session: Option<String>,
    via: Via,
    query: Query,
    options: PickOptions,
    selection: Selection,
    time: Duration,
}

/// A request to a model.
#[derive(Clone)]
pub struct Narrowing {
    /// The name of the caller's key.
    pub key: Arc<str>,
    /// The caller's role.
    pub role: Arc<str>,
    /// The path that it was sent to, such as `/chat/completions`.
    pub api: &'static str,
    /// The functions that the model is shown, by name, and of how many; or why the request went on
    /// as it came.
    pub shown: Result<(Vec<String>, usize), &'static str>,
    /// The time that it took.
    pub time: Duration,
}

/// A call.
#[derive(Clone)]
pub(crate) struct Called {
    pub(crate) key: Arc<str>,
    pub(crate) role: Arc<str>,
    /// Whose state it is: a session, or a key.
    pub(crate) session: Arc<str>,
    /// The name that the caller said.
    pub(crate) requested: String,
    /// The tool that is meant, where there is one.
    pub(crate) tool: Option<Arc<Tool>>,
    pub(crate) arguments: Arguments,
}

/// A decision of something that waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The matter that was decided.
    pub of: Waiting,
    /// `approved`, `denied`, `forgotten`; of a call `allowed` or `denied`.
    pub decision: &'static str,
    /// The name of the key by which it was decided; `None` where that was done on the gateway's
    /// machine.
    pub by: Option<String>,
}

/// A matter that waits for somebody to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// The definition of a tool.
    Definition {
        /// The tool, as `source/tool`.
        id: String,
        /// The digest of the definition.
        digest: String,
    },
    /// All of a server.
    Server {
        /// Its name.
        name: String,
    },
    /// A call.
    Call {
        /// Its id.
        id: String,
        /// The tool's id.
        tool: String,
        /// The call as a person reads it.
        shown: String,
    },
}

impl Approval {
    pub(super) fn is_of_call(&self) -> bool {
        matches!(self.of, Waiting::Call { .. })
    }

    /// What tells it from others.
    pub(super) fn identity(&self) -> String {
        let decision = self.decision;
        match &self.of {
            Waiting::Definition { id, digest } => format!("{decision} {id} {digest}"),
            Waiting::Server { name } => format!("{decision} {name}"),
            Waiting::Call { id, .. } => format!("call {id}"),
        }
    }

    pub(super) fn told(self) -> What {
        let mut told = match self.of {
            Waiting::Definition { id, digest } => {
                json!({"of": "definition", "tool": id, "digest": digest})
            }
            Waiting::Server { name } => json!({"of": "server", "server": name}),
            Waiting::Call { id, tool, shown } => {
                json!({"of": "call", "call": id, "tool": tool, "shown": redact(&shown)})
            }
        };
        told["decision"] = json!(self.decision);
        told["by"] = self
            .by
            .map_or_else(|| json!("operator"), |key| json!({"key": key}));
        What::Approval(told)
    }
}

impl From<&Selected<'_>> for Picked {
    fn from(selected: &Selected<'_>) -> Self {
        Self {
            key: selected.key.to_owned(),
            role: selected.role.to_owned(),
            session: selected.session.map(str::to_owned),
            via: selected.via,
            query: selected.query.clone(),
            options: selected.options.clone(),
            selection: selected.selection.clone(),
            time: selected.time,
        }
    }
}

impl Picked {
    pub(super) fn access(&self) -> &Access {
        &self.options.access
    }

    /// Tells of it. `access` is the digest of who may see what.
    pub(super) fn told(&self, access: &str) -> Result<What, serde_json::Error> {
        let Self {
            key,
            role,
            session,
            via,
            query,
            options,
            selection,
            time,
        } = self;
        let mut told = json!({"via": via, "key": key, "role": role});
        put(
            &mut told,
            "session",
            session.as_ref().map(|session| json!(session)),
        );
        let mut query = serde_json::to_value(query)?;
        let mut options = serde_json::to_value(options)?;
        if let Some(options) = options.as_object_mut() {
            drop(options.shift_remove("access"));
        }
        let is_redacted = redact_value(&mut query, usize::MAX);
        let bytes = query.to_string().len() + options.to_string().len();
        if bytes > MAX_REQUEST {
            told["too_large"] = json!(bytes);
        } else {
            told["query"] = query;
            told["options"] = options;
        }
        put(&mut told, "redacted", is_redacted.then_some(json!(true)));
        told["access"] = json!(access);
        told["catalog"] = json!(selection.catalog_digest);
        let picks = selection.picks.iter().take(MAX_PICKS);
        told["picks"] = picks
            .map(|pick| json!({"tool": pick.tool.id, "score": rounded(pick.score)}))
            .collect();
        let more = selection.picks.len().saturating_sub(MAX_PICKS);
        put(&mut told, "more_picks", (more > 0).then(|| json!(more)));
        let required: Vec<&String> = selection
            .required
            .iter()
            .map(|pick| &pick.tool.id)
            .collect();
        put(
            &mut told,
            "required",
            (!required.is_empty()).then(|| json!(required)),
        );
        told["selection"] = json!(sha256(&serde_json::to_vec(selection)?));
        put(
            &mut told,
            "degraded",
            (!selection.degraded.is_empty()).then_some(json!(true)),
        );
        told["time_us"] = micros(*time);
        Ok(What::Selection(told))
    }
}

impl Narrowing {
    pub(super) fn told(self) -> What {
        let Self {
            key,
            role,
            api,
            shown,
            time,
        } = self;
        let mut told = json!({"via": Via::Model, "key": &*key, "role": &*role, "api": api});
        match shown {
            Ok((names, of)) => {
                told["shown"] = json!(names.len());
                told["of"] = json!(of);
                told["tools"] = names
                    .iter()
                    .take(MAX_PICKS)
                    .map(|name| json!(cut(&redact(name), MAX_NAME)))
                    .collect();
            }
            Err(why) => told["unchanged"] = json!(why),
        }
        told["time_us"] = micros(time);
        What::Selection(told)
    }
}

impl Called {
    pub(super) fn told(self, outcome: &'static str, time: Duration) -> What {
        let Self {
            key,
            role,
            session,
            requested,
            tool,
            arguments,
        } = self;
        let requested = cut(&redact(&requested), MAX_NAME).to_owned();
        let mut told =
            json!({"key": &*key, "role": &*role, "session": &*session, "requested": requested});
        put(&mut told, "tool", tool.as_ref().map(|tool| json!(tool.id)));
        let schema = tool.as_ref().and_then(|tool| tool.parameters.as_ref());
        // Text that is JSON has members by whose names secrets are known.
        let arguments = match arguments {
            Arguments::Json(value) => value,
            Arguments::Text(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        };
        let mut arguments = told_arguments(&arguments, schema);
        redact_value(&mut arguments, MAX_TEXT);
        let bytes = arguments.to_string().len();
        match bytes > MAX_ARGUMENTS {
            true => told["arguments_too_large"] = json!(bytes),
            false => told["arguments"] = arguments,
        }
        told["outcome"] = json!(outcome);
        told["time_us"] = micros(time);
        What::Call(told)
    }
}

fn put(told: &mut Value, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        told[name] = value;
    }
}

fn micros(time: Duration) -> Value {
    json!(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn rounded(score: f32) -> f64 {
    (f64::from(score) * 10_000.0).round() / 10_000.0
}

fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// What holds while there is a snapshot, but for who may see what, which is given by digest.
pub(super) fn policy(snapshot: &Snapshot) -> Result<Policy, String> {
    let settings = &snapshot.settings;
    let (mut roles, mut access) = (Map::new(), Map::new());
    for (name, role) in snapshot.roles()? {
        let json = serde_json::to_value(&role.access).map_err(|error| error.to_string())?;
        let digest = digest_of(&role.access).map_err(|error| error.to_string())?;
        let marked_unsafe = format!("{:?}", role.marked_unsafe).to_lowercase();
        roles.insert(
            name,
            json!({"access": digest, "unsafe": marked_unsafe, "operator": role.operator}),
        );
        access.insert(digest, json);
    }
    let key = |key: &crate::settings::Key| json!({"name": key.name, "role": key.role});
    Ok(Policy {
        catalog: snapshot.engine.catalog().digest().to_owned(),
        settings: sha256(format!("{settings:?}").as_bytes()),
        told: json!({
            "program": env!("CARGO_PKG_VERSION"),
            "model": snapshot.engine.stats().model,
            "catalog": snapshot.engine.catalog().digest(),
            "tools": snapshot.engine.catalog().len(),
            "settings": sha256(format!("{settings:?}").as_bytes()),
            "keys": settings.keys.iter().map(key).collect::<Vec<_>>(),
            "anonymous": settings.anonymous,
            "roles": roles,
            "access": access,
        }),
    })
}

/// What holds.
#[derive(Clone, PartialEq)]
pub(super) struct Policy {
    pub(super) catalog: String,
    pub(super) settings: String,
    pub(super) told: Value,
}

/// The digest of who may see what.
pub(super) fn digest_of(access: &Access) -> Result<String, serde_json::Error> {
    Ok(sha256(&serde_json::to_vec(access)?))
}
