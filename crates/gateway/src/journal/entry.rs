//! Entries of the journal: bounded, on one line, and without secrets.

use std::sync::Arc;
use std::time::Duration;

use picktools::json::quote_long_numbers;
use picktools::{Access, Catalog, Engine, PickOptions, Query, Selection, Tool};
use picktools_audit::{redact, redact_value, sha256};
use picktools_provider::Arguments;
use picktools_runtime::redact_arguments;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::snapshot::Snapshot;

/// The outcome of a call whose caller went away.
pub(super) const CANCELLED: &str = "cancelled";
/// The most tools of a selection that are listed.
const MAX_PICKS: usize = 64;
/// The most bytes of a name, of a text within arguments, and of all arguments.
const MAX_NAME: usize = 512;
const MAX_TEXT: usize = 2_000;
const MAX_ARGUMENTS: usize = 16 << 10;
/// The most bytes of a request with its options; a larger one cannot be replayed.
const MAX_REQUEST: usize = 128 << 10;

/// An entry of the journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JournalEntry {
    /// The number in the audit log; without one, the number since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
    /// The time, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    #[serde(flatten)]
    pub(crate) content: EntryContent,
}

/// The content of an entry, by kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum EntryContent {
    /// Tools were picked.
    Selection(Value),
    /// A tool was called.
    Call(Value),
    /// An operator decided about a definition or a call.
    Approval(Value),
    /// The policy changed.
    Policy(Value),
}

/// The route of a request for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestRoute {
    /// The gateway's `search_tools`.
    Search,
    /// The HTTP interface.
    Pick,
    /// An API request to a model.
    Model,
}

/// An event that becomes an entry.
pub(super) enum JournalEvent {
    Selection(Box<SelectionDraft>),
    Narrowing(Box<Narrowing>),
    /// With the outcome and the duration.
    Call(Box<CallEntry>, &'static str, Duration),
    Approval(Box<Approval>),
    PolicyChange(Arc<Snapshot>),
}

/// A selection with its caller.
pub struct SelectionEvent<'a> {
    /// The name of the caller's key.
    pub key: &'a str,
    /// The caller's role.
    pub role: &'a str,
    /// The engine that made the selection.
    pub engine: &'a Engine,
    /// The owner of its state, if that is not the key.
    pub session: Option<&'a str>,
    /// The route of the request.
    pub via: RequestRoute,
    /// The request.
    pub query: &'a Query,
    /// The pick options.
    pub options: &'a PickOptions,
    /// The selection.
    pub selection: &'a Selection,
    /// The duration.
    pub time: Duration,
}

/// A selection that becomes an entry.
pub(super) struct SelectionDraft {
    key: String,
    role: String,
    engine: Engine,
    session: Option<String>,
    via: RequestRoute,
    query: Query,
    options: PickOptions,
    selection: Selection,
    time: Duration,
}

/// An API request to a model.
#[derive(Clone)]
pub struct Narrowing {
    /// The name of the caller's key.
    pub key: Arc<str>,
    /// The caller's role.
    pub role: Arc<str>,
    /// The path of the request, such as `/chat/completions`.
    pub api: &'static str,
    /// The names of the functions that the model is shown, and the total number; or the reason why
    /// the request was passed on unchanged.
    pub shown: Result<(Vec<String>, usize), &'static str>,
    /// The duration.
    pub time: Duration,
}

/// A call that becomes an entry.
#[derive(Clone)]
pub(crate) struct CallEntry {
    pub(crate) key: Arc<str>,
    pub(crate) role: Arc<str>,
    /// The owner of the caller's state: a session, or a key.
    pub(crate) session: Arc<str>,
    /// The name that the caller requested.
    pub(crate) requested: String,
    /// The tool that the name refers to, if it is known.
    pub(crate) tool: Option<Arc<Tool>>,
    /// `true` if the name is a deprecated alias of the tool.
    pub(crate) deprecated: bool,
    pub(crate) arguments: Arguments,
    /// The arguments with which the tool runs, if a repairer changed them.
    pub(crate) rewritten: Option<RewrittenArguments>,
}

/// The arguments of a call after a repair.
#[derive(Clone)]
pub(crate) struct RewrittenArguments {
    /// The name of the repairer.
    pub(crate) by: String,
    pub(crate) arguments: Value,
}

/// A decision of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The subject of the decision.
    pub subject: ApprovalSubject,
    /// `approved`, `denied` or `forgotten`; for a call `allowed` or `denied`, or `allowed_tool`,
    /// `allowed_server` or `allowed_always` if later calls run too; `revoked` for such an approval.
    pub decision: &'static str,
    /// The name of the key that decided; `None` if the decision was made on the gateway's machine.
    pub by: Option<String>,
}

/// The subject of an operator's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalSubject {
    /// The definition of a tool.
    Definition {
        /// The tool, as `source/tool`.
        id: String,
        /// The digest of the definition.
        digest: String,
    },
    /// All definitions of a server.
    Server {
        /// The name of the server.
        name: String,
    },
    /// A call.
    Call {
        /// The id of the call.
        id: String,
        /// The id of the tool.
        tool: String,
        /// The call in readable form.
        shown: String,
    },
    /// An approval that holds for later calls.
    Remembered {
        /// The id of the tool.
        tool: String,
        /// The client, or an empty text for a session of an unknown client.
        client: String,
    },
}

impl Approval {
    pub(super) fn is_call(&self) -> bool {
        matches!(self.subject, ApprovalSubject::Call { .. })
    }

    /// Returns a text that identifies the decision.
    pub(super) fn identity(&self) -> String {
        let decision = self.decision;
        match &self.subject {
            ApprovalSubject::Definition { id, digest } => format!("{decision} {id} {digest}"),
            ApprovalSubject::Server { name } => format!("{decision} {name}"),
            ApprovalSubject::Call { id, .. } => format!("call {id}"),
            ApprovalSubject::Remembered { tool, client } => {
                format!("remembered {decision} {tool} {client}")
            }
        }
    }

    pub(super) fn into_content(self) -> EntryContent {
        let mut content = match self.subject {
            ApprovalSubject::Definition { id, digest } => {
                json!({"of": "definition", "tool": id, "digest": digest})
            }
            ApprovalSubject::Server { name } => json!({"of": "server", "server": name}),
            ApprovalSubject::Call { id, tool, shown } => {
                json!({"of": "call", "call": id, "tool": tool, "shown": redact(&shown)})
            }
            ApprovalSubject::Remembered { tool, client } => {
                json!({"of": "remembered", "tool": tool, "client": client})
            }
        };
        content["decision"] = json!(self.decision);
        content["by"] = self
            .by
            .map_or_else(|| json!("operator"), |key| json!({"key": key}));
        EntryContent::Approval(content)
    }
}

impl From<&SelectionEvent<'_>> for SelectionDraft {
    fn from(event: &SelectionEvent<'_>) -> Self {
        Self {
            key: event.key.to_owned(),
            role: event.role.to_owned(),
            engine: event.engine.clone(),
            session: event.session.map(str::to_owned),
            via: event.via,
            query: event.query.clone(),
            options: event.options.clone(),
            selection: event.selection.clone(),
            time: event.time,
        }
    }
}

impl SelectionDraft {
    pub(super) fn access(&self) -> &Access {
        &self.options.access
    }

    /// Returns the catalog of the selection: the tools that the role may know.
    pub(super) fn catalog(&self) -> &Catalog {
        self.engine.catalog()
    }

    /// Returns the entry's content. `access` is the digest of the access policy.
    pub(super) fn to_content(&self, access: &str) -> Result<EntryContent, serde_json::Error> {
        let Self {
            key,
            role,
            session,
            via,
            query,
            options,
            selection,
            time,
            ..
        } = self;
        let mut content = json!({"via": via, "key": key, "role": role});
        if let Some(session) = session {
            content["session"] = json!(session);
        }
        let mut query = serde_json::to_value(query)?;
        let mut options = serde_json::to_value(options)?;
        if let Some(options) = options.as_object_mut() {
            drop(options.shift_remove("access"));
        }
        let is_redacted = redact_value(&mut query, usize::MAX);
        let bytes = query.to_string().len() + options.to_string().len();
        if bytes > MAX_REQUEST {
            content["too_large"] = json!(bytes);
        } else {
            content["query"] = query;
            content["options"] = options;
        }
        if is_redacted {
            content["redacted"] = json!(true);
        }
        content["access"] = json!(access);
        content["catalog"] = json!(selection.catalog_digest);
        let picks = selection.picks.iter().take(MAX_PICKS);
        content["picks"] = picks
            .map(|pick| json!({"tool": pick.tool.id, "score": rounded(pick.score)}))
            .collect();
        let more = selection.picks.len().saturating_sub(MAX_PICKS);
        if more > 0 {
            content["more_picks"] = json!(more);
        }
        if !selection.required.is_empty() {
            let required = selection.required.iter();
            content["required"] = required.map(|pick| json!(pick.tool.id)).collect();
        }
        content["selection"] = json!(sha256(&serde_json::to_vec(selection)?));
        if !selection.degraded.is_empty() {
            content["degraded"] = json!(true);
        }
        content["time_us"] = micros(*time);
        Ok(EntryContent::Selection(content))
    }
}

impl Narrowing {
    pub(super) fn into_content(self) -> EntryContent {
        let Self {
            key,
            role,
            api,
            shown,
            time,
        } = self;
        let mut content =
            json!({"via": RequestRoute::Model, "key": &*key, "role": &*role, "api": api});
        match shown {
            Ok((names, total)) => {
                content["shown"] = json!(names.len());
                content["of"] = json!(total);
                content["tools"] = names
                    .iter()
                    .take(MAX_PICKS)
                    .map(|name| json!(truncate(&redact(name), MAX_NAME)))
                    .collect();
            }
            Err(reason) => content["unchanged"] = json!(reason),
        }
        content["time_us"] = micros(time);
        EntryContent::Selection(content)
    }
}

impl CallEntry {
    pub(super) fn into_content(self, outcome: &'static str, time: Duration) -> EntryContent {
        let Self {
            key,
            role,
            session,
            requested,
            tool,
            deprecated,
            arguments,
            rewritten,
        } = self;
        let requested = truncate(&redact(&requested), MAX_NAME).to_owned();
        let mut content =
            json!({"key": &*key, "role": &*role, "session": &*session, "requested": requested});
        let mut schema = None;
        if let Some(tool) = &tool {
            content["tool"] = json!(tool.id);
            if deprecated {
                content["deprecated"] = json!(true);
            }
            if tool.parameters.is_none() {
                content["no_schema_mode"] = json!(tool.no_schema_mode);
            }
            schema = tool.parameters.as_ref();
        }
        // Text that is JSON is parsed, because member names reveal secrets.
        let arguments = match arguments {
            Arguments::Json(value) => value,
            Arguments::Text(text) => serde_json::from_slice(&quote_long_numbers(text.as_bytes()))
                .unwrap_or(Value::String(text)),
        };
        match bounded_arguments(&arguments, schema) {
            Ok(arguments) => content["arguments"] = arguments,
            Err(bytes) => content["arguments_too_large"] = json!(bytes),
        }
        if let Some(RewrittenArguments { by, arguments }) = rewritten {
            let mut rewrite = json!({"by": truncate(&redact(&by), MAX_NAME)});
            match bounded_arguments(&arguments, schema) {
                Ok(arguments) => rewrite["arguments"] = arguments,
                Err(bytes) => rewrite["arguments_too_large"] = json!(bytes),
            }
            content["rewritten"] = rewrite;
        }
        content["outcome"] = json!(outcome);
        content["time_us"] = micros(time);
        EntryContent::Call(content)
    }
}

/// Returns arguments with redacted secrets, or their size if they are too large.
fn bounded_arguments(arguments: &Value, schema: Option<&Value>) -> Result<Value, usize> {
    let mut arguments = redact_arguments(arguments, schema);
    redact_value(&mut arguments, MAX_TEXT);
    let bytes = arguments.to_string().len();
    match bytes > MAX_ARGUMENTS {
        true => Err(bytes),
        false => Ok(arguments),
    }
}

fn micros(time: Duration) -> Value {
    json!(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn rounded(score: f32) -> f64 {
    (f64::from(score) * 10_000.0).round() / 10_000.0
}

fn truncate(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Returns the policy of a snapshot.
pub(super) fn policy(snapshot: &Snapshot) -> Result<PolicyEntry, String> {
    let settings = &snapshot.settings;
    let (mut roles, mut access) = (Map::new(), Map::new());
    for (name, role) in snapshot.roles()? {
        let json = serde_json::to_value(&role.access).map_err(|error| error.to_string())?;
        let digest = access_digest(&role.access).map_err(|error| error.to_string())?;
        let marked_unsafe = format!("{:?}", role.marked_unsafe).to_lowercase();
        roles.insert(
            name,
            json!({"access": digest, "unsafe": marked_unsafe, "operator": role.operator}),
        );
        access.insert(digest, json);
    }
    let key = |key: &crate::settings::Key| json!({"name": key.name, "role": key.role});
    Ok(PolicyEntry {
        catalog: snapshot.engine.catalog().digest().to_owned(),
        settings: sha256(format!("{settings:?}").as_bytes()),
        content: json!({
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

/// The policy of a snapshot, with access policies by digest.
#[derive(Clone, PartialEq)]
pub(super) struct PolicyEntry {
    pub(super) catalog: String,
    pub(super) settings: String,
    pub(super) content: Value,
}

/// Returns the digest of an access policy.
pub(super) fn access_digest(access: &Access) -> Result<String, serde_json::Error> {
    Ok(sha256(&serde_json::to_vec(access)?))
}
