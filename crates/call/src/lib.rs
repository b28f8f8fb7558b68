//! From what a model called to a call that may be run: resolve, parse, validate, repair.
//!
//! A model's call is text from a stranger. A [`Hydrator`] finds the tool that its name means,
//! refuses it unless the caller may see and run it ([`Access`]), reads its arguments within bounds
//! and holds them to the tool's own schema. What comes out is a [`ValidCall`], which nothing else
//! can make; a call that only a person may let through is a [`PendingCall`]; all else is a
//! [`CallError`] that says what would have been right, in words that a model can act on. Nothing
//! here runs a tool.
//!
//! Slips that have one meaning are repaired, and the outcome says which: text that is nearly JSON,
//! and JSON as text where the schema wants an object or an array. A [`Repairer`], such as another
//! model, may be asked once. What was repaired is validated like all else, and nothing is ever
//! repaired for a tool that is marked unsafe.

mod approval;
pub mod arguments;
mod awaited;
mod changes;
mod dispatch;
mod error;
pub mod client;
pub mod repair;
mod repairer;
mod results;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use approval::{ApprovalError, ApprovalQueue};
pub use arguments::{MAX_ARGUMENT_BYTES, size};
pub use awaited::Awaited;
pub use changes::ArgumentChange;
pub use dispatch::{ToolCallError, ToolCallOptions, ToolCalls, tool_call};
pub use error::{CallError, RepairError};
pub use repairer::{FaultyCall, RepairFuture, Repairer};

use picktools::ToolId;
use picktools::access::{Access, AccessError, Eligibility};
use picktools::catalog::{Catalog, Effects, NoSchemaMode, Tool};
use picktools::excerpt::{marked, shows};
use picktools::names::{NameTable, Resolution, Resolved, ResolvedVia, log_unknown, log_use};
use picktools::schema::Check;
pub use picktools::schema::{ArgumentFault, ArgumentValidator, JsonSchema, SchemaCompiler};
use picktools_provider::{Arguments, Provider, ToolCall, Translation};

/// How often nested text is decoded in one call: once per level.
const MAX_DECODED_LEVELS: usize = 4;

/// A call whose arguments were held to the tool's schema, or whose tool may be called without one.
#[derive(Debug, Clone, Serialize)]
pub struct ValidCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(serialize_with = "id_of")]
    tool: Arc<Tool>,
    #[serde(rename = "unsafe", skip_serializing_if = "std::ops::Not::not")]
    marked_unsafe: bool,
    names: CallNames,
    resolved_via: ResolvedVia,
    deprecated: bool,
    arguments: Value,
    validated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_schema_mode: Option<NoSchemaMode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repaired: Vec<Repair>,
}

/// The names of a call's tool, for logs and audits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallNames {
    /// What was called.
    pub requested: String,
    /// What the model was shown, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised: Option<String>,
    /// The tool's own.
    pub canonical: String,
}

/// One change that was made to a call's arguments before they fitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repair {
    /// The text was nearly JSON.
    Syntax {
        /// What was changed.
        changes: Vec<&'static str>,
    },
    /// JSON stood as text where the schema wants an object or an array.
    Decoded {
        /// JSON pointer to it.
        pointer: String,
    },
    /// A [`Repairer`] wrote the arguments anew.
    Rewritten {
        /// Its name.
        by: String,
        /// What is otherwise than the model had it.
        changes: Vec<ArgumentChange>,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { changes } => write!(f, "repaired: {}", changes.join(", ")),
            Self::Decoded { pointer } => write!(f, "repaired: {pointer} was JSON as text"),
            Self::Rewritten { by, changes } => {
                write!(f, "rewritten by {by}: {}", changes::told(changes))
            }
        }
    }
}

impl ValidCall {
    /// Returns what the result must be returned under, where the provider gave something.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the names of the tool that were in play.
    pub fn names(&self) -> &CallNames {
        &self.names
    }

    /// Returns how the called name led to the tool.
    pub fn resolved_via(&self) -> ResolvedVia {
        self.resolved_via
    }

    /// Returns `true` if the called name is an alias that shall no longer be used.
    pub fn deprecated(&self) -> bool {
        self.deprecated
    }

    /// Returns the arguments.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Returns the arguments as a type of the caller's.
    ///
    /// # Errors
    ///
    /// [`CallError::Typed`] when they do not fit it, which a schema may allow.
    pub fn arguments_as<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        T::deserialize(&self.arguments).map_err(|error| CallError::Typed {
            tool: self.tool.id.clone(),
            reason: error.to_string(),
        })
    }

    /// Returns `true` if the arguments were held to a schema; they were not where the tool has
    /// none.
    pub fn validated(&self) -> bool {
        self.validated
    }

    /// Returns how a tool without a schema may be called.
    pub fn no_schema_mode(&self) -> Option<NoSchemaMode> {
        self.no_schema_mode
    }

    /// Returns what was changed before the arguments fitted; nothing where they came as they
    /// should.
    pub fn repaired(&self) -> &[Repair] {
        &self.repaired
    }
}

fn id_of<S: serde::Serializer>(tool: &Arc<Tool>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&tool.id)
}

/// A call that waits for a person; see [`ApprovalQueue`].
#[derive(Debug, Clone, Serialize)]
pub struct PendingCall {
    #[serde(flatten)]
    call: ValidCall,
    awaits: Awaited,
}

impl PendingCall {
    /// Makes a valid call wait.
    pub fn new(call: ValidCall, awaits: Awaited) -> Self {
        Self { call, awaits }
    }

    /// The call, which somebody has approved, and why it waited.
    pub fn into_parts(self) -> (ValidCall, Awaited) {
        (self.call, self.awaits)
    }

    /// Returns the tool.
    pub fn tool(&self) -> &Arc<Tool> {
        self.call.tool()
    }

    /// Returns the arguments, for which a schema vouches where the tool has one.
    pub fn arguments(&self) -> &Value {
        self.call.arguments()
    }

    /// Returns why it waits.
    pub fn awaits(&self) -> &Awaited {
        &self.awaits
    }

    /// Returns the names of the tool that were in play.
    pub fn names(&self) -> &CallNames {
        self.call.names()
    }

    /// Returns `true` if the called name is an alias that shall no longer be used.
    pub fn deprecated(&self) -> bool {
        self.call.deprecated()
    }
}

/// A call of a known tool.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Hydrated {
    /// It may be run.
    Ready(ValidCall),
    /// A person must approve it first.
    NeedsApproval(PendingCall),
}

/// Turns what models call into calls of the tools of a catalog.
///
/// ```
/// use picktools_call::{CallError, Hydrated};
/// use picktools_provider::{Arguments, ToolCall};
/// use picktools::{Access, Catalog};
/// use picktools_call::Hydrator;
/// use serde_json::json;
///
/// let entries = br#"[{"name": "send_email", "parameters": {
///     "type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}}]"#;
/// let hydrator = Hydrator::new(Catalog::from_slice(entries, "tools.json", None)?, &Access::default())?;
/// let call = |arguments| ToolCall { id: None, name: "sendEmail".to_owned(), arguments: Arguments::Json(arguments) };
/// let Hydrated::Ready(valid) = hydrator.hydrate(&call(json!({"to": "ada@example.org"})))? else { unreachable!() };
/// assert_eq!(valid.names().canonical, "send_email");
/// assert!(matches!(hydrator.hydrate(&call(json!({}))), Err(CallError::Invalid { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Hydrator {
    callable: Arc<Callable>,
    /// From names that the model was shown.
    advertised: HashMap<String, ToolId>,
    /// The first of these of each tool.
    shown: HashMap<ToolId, String>,
    provider: Option<Provider>,
    max_argument_bytes: usize,
}

/// What may be called by one caller: made once, and shared by the hydrators of all its requests.
#[derive(Debug)]
struct Callable {
    catalog: Catalog,
    names: NameTable,
    access: Access,
    eligibility: Eligibility,
}

impl Hydrator {
    /// Makes a hydrator for calls by name, alias, or a variant spelling of either, of tools that
    /// `access` may see.
    ///
    /// # Errors
    ///
    /// [`AccessError`] when `access` cannot be decided on for this catalog.
    pub fn new(catalog: Catalog, access: &Access) -> Result<Self, AccessError> {
        let names = NameTable::new(&catalog);
        let eligibility = access.decide(&catalog, &names)?;
        Ok(Self {
            callable: Arc::new(Callable {
                catalog,
                names,
                access: access.clone(),
                eligibility,
            }),
            advertised: HashMap::new(),
            shown: HashMap::new(),
            provider: None,
            max_argument_bytes: MAX_ARGUMENT_BYTES,
        })
    }

    /// Expects calls of what the model was shown: by the names of `translation`, with the arguments
    /// in its form, and of no other tool. The arguments are held to the catalog's own schemas,
    /// however little of them was shown.
    #[must_use]
    pub fn translated(&self, translation: &Translation) -> Self {
        let mut hydrator = self.clone();
        hydrator.show(translation);
        hydrator
    }

    fn show(&mut self, translation: &Translation) {
        let known = translation
            .names
            .iter()
            .filter_map(|(name, id)| Some((name.clone(), self.callable.catalog.find(id)?)));
        self.advertised = known.collect();
        // In the order of the names, which is the same everywhere.
        for (name, id) in &translation.names {
            if let Some(tool) = self.callable.catalog.find(id) {
                self.shown.entry(tool).or_insert_with(|| name.clone());
            }
        }
        self.provider = Some(translation.provider);
    }

    /// The catalog whose tools are called.
    pub fn catalog(&self) -> &Catalog {
        &self.callable.catalog
    }

    /// Finds the tool that a called name means, which the caller may run.
    ///
    /// # Errors
    ///
    /// [`CallError`] when there is none, or several.
    pub fn tool_of(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        self.resolve(name)
            .map(|found| self.callable.catalog.tool(found.tool))
    }

    /// Returns what is said of a name that no tool has: for a caller who must not learn that there
    /// is one.
    pub fn unknown(&self, name: &str) -> CallError {
        let suggestions = self.callable.names.suggest(name, |tool| self.admits(tool));
        CallError::UnknownTool {
            name: marked(name, 100).into_owned(),
            suggestions,
        }
    }

    /// Returns the tools that the caller may run, in the order of the catalog.
    pub fn admitted(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let tools = self.callable.catalog.tools().iter().enumerate();
        tools
            .filter(|(index, _)| self.admits(ToolId::from_index(*index)))
            .map(|(_, tool)| tool)
    }

    /// Returns `true` if the tool may be called: by this caller, and by a model that was shown some
    /// tools only.
    fn admits(&self, tool: ToolId) -> bool {
        self.callable.eligibility.admits(tool) && self.was_shown(tool)
    }

    fn was_shown(&self, tool: ToolId) -> bool {
        self.provider.is_none() || self.shown.contains_key(&tool)
    }

    /// Refuses arguments of more bytes than this unread; [`MAX_ARGUMENT_BYTES`] unless told
    /// otherwise.
    #[must_use]
    pub fn max_argument_bytes(mut self, bytes: usize) -> Self {
        self.max_argument_bytes = bytes;
        self
    }

    /// Hydrates a call.
    ///
    /// # Errors
    ///
    /// [`CallError`], which says what would have been right.
    pub fn hydrate(&self, call: &ToolCall) -> Result<Hydrated, CallError> {
        let found = self.resolve(&call.name)?;
        let (arguments, repaired) = self.arguments(found.tool, &call.arguments)?;
        self.finish(call, found, arguments, repaired)
    }

    /// Finds the tool that a called name means, which the caller may run: what the model was shown
    /// comes first.
    pub fn resolve(&self, name: &str) -> Result<Resolved, CallError> {
        let found = self.find(name).inspect_err(|error| {
            if let CallError::UnknownTool { name, .. } = error {
                log_unknown(name);
            }
        })?;
        if self.admits(found.tool) {
            return Ok(found);
        }
        if !self.was_shown(found.tool) {
            return Err(CallError::UnknownTool {
                name: marked(name, 100).into_owned(),
                suggestions: Vec::new(),
            });
        }
        let tool = self.callable.catalog.tool(found.tool).id.clone();
        Err(CallError::Ineligible {
            tool,
            reasons: self.callable.eligibility.reasons(found.tool),
        })
    }

    fn find(&self, name: &str) -> Result<Resolved, CallError> {
        if let Some(&tool) = self.advertised.get(name) {
            return Ok(Resolved {
                tool,
                via: ResolvedVia::Advertised,
                deprecated: false,
            });
        }
        let requested = || marked(name, 100).into_owned();
        let is_unseen = |c: char| c != ' ' && !shows(c);
        match self
            .callable
            .names
            .resolve_among(name, |tool| self.admits(tool))
        {
            Resolution::Tool(found) if found.via != ResolvedVia::Normalised => Ok(found),
            Resolution::Tool(found) => match name.trim().chars().find(|&c| is_unseen(c)) {
                None => Ok(found),
                Some(unseen) => Err(CallError::HiddenCharacter {
                    name: marked(&name.replace(is_unseen, "\u{fffd}"), 100).into_owned(),
                    character: format!("U+{:04X}", u32::from(unseen)),
                }),
            },
            Resolution::Ambiguous(tools) => {
                let candidates = tools
                    .into_iter()
                    .map(|tool| self.callable.catalog.tool(tool).id.clone())
                    .collect();
                Err(CallError::AmbiguousTool {
                    name: requested(),
                    candidates,
                })
            }
            Resolution::Unknown { suggestions } => Err(CallError::UnknownTool {
                name: requested(),
                suggestions,
            }),
        }
    }

    /// Reads the arguments and holds them to the tool's schema.
    fn arguments(&self, id: ToolId, given: &Arguments) -> Result<(Value, Vec<Repair>), CallError> {
        let tool = self.callable.catalog.tool(id);
        let (mut arguments, mut repaired) = self.read(tool, given)?;
        let Some(schema) = &tool.parameters else {
            return match arguments {
                Value::Object(_) => Ok((arguments, repaired)),
                other => Err(CallError::malformed(
                    &tool.id,
                    format!(
                        "they are {}, not an object",
                        picktools::schema::kind(&other)
                    ),
                )),
            };
        };
        let check = self.callable.catalog.check(id, schema);
        let check = check.map_err(|reason| CallError::malformed(&tool.id, reason))?;
        if let Some(provider) = self.provider {
            provider.restore_arguments(schema, &mut arguments);
        }
        if check.accepts(&arguments) {
            return Ok((arguments, repaired));
        }
        if !tool.is_unsafe()
            && let Some((decoded, pointers)) = decode(&check, &arguments)
        {
            repaired.extend(
                pointers
                    .into_iter()
                    .map(|pointer| Repair::Decoded { pointer }),
            );
            return Ok((decoded, repaired));
        }
        let faults = check.faults(&arguments);
        Err(CallError::Invalid {
            tool: tool.id.clone(),
            faults,
            example: check.example(schema).map(Box::new),
            failed_repair: None,
        })
    }

    /// Reads the arguments within bounds. No text at all is no arguments, as some providers send
    /// it.
    fn read(&self, tool: &Tool, given: &Arguments) -> Result<(Value, Vec<Repair>), CallError> {
        let most = self.max_argument_bytes;
        match given {
            Arguments::Text(text) if text.len() > most => Err(CallError::TooLarge {
                tool: tool.id.clone(),
                bytes: text.len(),
                most,
            }),
            Arguments::Text(text) if text.trim().is_empty() => {
                Ok((Value::Object(Map::new()), Vec::new()))
            }
            Arguments::Text(text) => match arguments::parse(text) {
                Ok(value) => Ok((value, Vec::new())),
                Err(reason) if tool.is_unsafe() => Err(CallError::malformed(&tool.id, reason)),
                Err(reason) => match repair::repair(text) {
                    Some((value, changes)) => Ok((value, vec![Repair::Syntax { changes }])),
                    None => Err(CallError::malformed(&tool.id, reason)),
                },
            },
            Arguments::Json(value) => match arguments::measure(value, most) {
                Ok(_) => Ok((value.clone(), Vec::new())),
                Err(arguments::Limit::Bytes(bytes)) => Err(CallError::TooLarge {
                    tool: tool.id.clone(),
                    bytes,
                    most,
                }),
                Err(limit) => Err(CallError::malformed(&tool.id, limit.to_string())),
            },
        }
    }

    fn finish(
        &self,
        call: &ToolCall,
        found: Resolved,
        arguments: Value,
        repaired: Vec<Repair>,
    ) -> Result<Hydrated, CallError> {
        let tool = Arc::clone(self.callable.catalog.tool(found.tool));
        let advertised = match found.via {
            ResolvedVia::Advertised => Some(call.name.clone()),
            _ => self.shown.get(&found.tool).cloned(),
        };
        log_use(&call.name, advertised.as_deref(), &tool, found.deprecated);
        let no_schema_mode = tool.no_schema_mode.filter(|_| tool.parameters.is_none());
        if no_schema_mode == Some(NoSchemaMode::ReadOnly) && tool.effects() == Effects::Writes {
            return Err(CallError::NotReadOnly {
                tool: tool.id.clone(),
            });
        }
        let awaits = Awaited::of(&tool, &self.callable.access, no_schema_mode);
        let call = ValidCall {
            id: call.id.clone(),
            marked_unsafe: tool.is_unsafe(),
            names: CallNames {
                requested: call.name.clone(),
                advertised,
                canonical: tool.name.clone(),
            },
            resolved_via: found.via,
            deprecated: found.deprecated,
            arguments,
            validated: tool.parameters.is_some(),
            no_schema_mode,
            repaired,
            tool,
        };
        Ok(match awaits {
            Some(awaits) => Hydrated::NeedsApproval(PendingCall { call, awaits }),
            None => Hydrated::Ready(call),
        })
    }
}

/// Decodes JSON that stands as text where the schema wants an object or an array; only what then
/// fits counts.
fn decode(check: &Check, arguments: &Value) -> Option<(Value, Vec<String>)> {
    let mut decoded = arguments.clone();
    let mut pointers = Vec::new();
    for _ in 0..MAX_DECODED_LEVELS {
        let places = check.texts_for_structures(&decoded);
        let before = pointers.len();
        for pointer in places {
            let Some(place) = decoded.pointer_mut(&pointer) else {
                continue;
            };
            let inner = place.as_str().and_then(|text| arguments::parse(text).ok());
            if let Some(inner @ (Value::Object(_) | Value::Array(_))) = inner {
                *place = inner;
                pointers.push(pointer);
            }
        }
        if pointers.len() == before {
            return None;
        }
        if check.accepts(&decoded) {
            return Some((decoded, pointers));
        }
    }
    None
}
