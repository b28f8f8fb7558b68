//! Validation of a model's tool calls: name resolution, access policy, parsing, schema and repair.
//!
//! A model's call is untrusted text. A [`Hydrator`] resolves the tool name and checks the access
//! policy of the caller ([`Access`]). It parses the arguments within limits and validates them
//! against the tool's own schema.
//!
//! The result is a [`ValidCall`], which only this crate can create, or a [`PendingCall`], which
//! becomes valid only with a [`Confirmation`]. Every other call is a [`CallError`] with a message
//! from which a model can correct the call. Nothing in this crate runs a tool.
//!
//! Arguments with one meaning under the schema are normalised, such as text for a number, JSON as
//! text for an object, or `orderId` for `order_id`. Nearly valid JSON is repaired, and a
//! [`Repairer`], such as another model, may rewrite arguments once. Each change is reported, and
//! changed arguments are validated too. Calls of unsafe tools are normalised, but never repaired.

mod approval;
pub mod arguments;
mod calls;
mod changes;
mod definition;
mod dispatch;
mod error;
mod normalise;
pub mod client;
pub mod repair;
mod repairer;
mod parallel;
mod pending;
mod resolution;
mod results;
mod revalidation;
mod typed;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

pub use approval::{ApprovalError, ApprovalQueue};
pub use arguments::{MAX_ARGUMENT_BYTES, size};
pub use calls::{
    CallDecider, CallNames, Confirmation, DeciderFuture, OtherCallError, PendingCall, ValidCall,
};
pub use changes::{ArgumentChange, Repair};
pub use dispatch::{ToolCallError, ToolCallOptions, ToolCalls, tool_call};
pub use error::{CallError, RepairError};
pub use normalise::UnknownProperty;
pub use parallel::join_results;
pub use pending::PendingReason;
pub use repairer::{FaultyCall, LimitedRepairer, RepairFuture, Repairer};

use self::normalise::{ArgumentSchema, MAX_WORK, unknown_properties};
use picktools::ToolId;
use picktools::access::{Access, AccessError, Eligibility, IneligibleReason};
use picktools::catalog::{Catalog, Tool};
use picktools::names::{NameTable, ResolvedTool, ResolvedVia, log_use};
pub use picktools::schema::{ArgumentFault, ArgumentValidator, JsonSchema, SchemaCompiler};
use picktools_provider::{Arguments, Provider, ToolCall, Translation};

/// Arguments that match the schema of their tool.
struct CheckedArguments {
    value: Value,
    repaired: Vec<Repair>,
    unknown: Vec<UnknownProperty>,
}

/// A validated call of a catalog's tool.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum HydratedCall {
    /// The call can run.
    Ready(ValidCall),
    /// A person must approve the call first.
    NeedsApproval(PendingCall),
}

impl HydratedCall {
    /// Returns the call's id, under which its result must be returned, if the provider gave one.
    pub fn id(&self) -> Option<&str> {
        self.content().id()
    }

    /// Returns the tool.
    pub fn tool(&self) -> &Arc<Tool> {
        self.content().tool()
    }

    /// Returns the names of the call's tool.
    pub fn names(&self) -> &CallNames {
        self.content().names()
    }

    /// Returns the arguments, which match the tool's schema if it has one.
    pub fn arguments(&self) -> &Value {
        self.content().arguments()
    }

    /// Returns the changes of the arguments; empty if none was needed.
    pub fn repaired(&self) -> &[Repair] {
        self.content().repaired()
    }

    /// Returns the call, which may still have to wait. It must not leave this crate.
    fn content(&self) -> &ValidCall {
        match self {
            Self::Ready(call) => call,
            Self::NeedsApproval(pending) => &pending.call,
        }
    }
}

/// Validates the calls of a model against the tools of a catalog.
///
/// ```
/// use picktools_call::{CallError, HydratedCall};
/// use picktools_provider::{Arguments, ToolCall};
/// use picktools::{Access, Catalog};
/// use picktools_call::Hydrator;
/// use serde_json::json;
///
/// let entries = br#"[{"name": "send_email", "parameters": {
///     "type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}}]"#;
/// let catalog = Catalog::from_slice(entries, "tools.json", None)?;
/// let hydrator = Hydrator::new(catalog, &Access::default())?;
/// let call = |arguments| ToolCall {
///     id: None,
///     name: "sendEmail".to_owned(),
///     arguments: Arguments::Json(arguments),
/// };
/// let hydrated = hydrator.hydrate(&call(json!({"to": "ada@example.org"})))?;
/// let HydratedCall::Ready(valid) = hydrated else { unreachable!() };
/// assert_eq!(valid.names().canonical, "send_email");
/// assert!(matches!(hydrator.hydrate(&call(json!({}))), Err(CallError::Invalid { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Hydrator {
    callable: Arc<CallableTools>,
    /// The tools by the names that the model was shown.
    advertised: HashMap<String, ToolId>,
    /// The first of these names for each tool.
    shown: HashMap<ToolId, String>,
    provider: Option<Provider>,
    max_argument_bytes: usize,
}

/// The tools that one caller may call; shared by the hydrators of all the caller's requests.
#[derive(Debug)]
struct CallableTools {
    catalog: Catalog,
    /// All tools of the catalog, which no longer depend on a saved index.
    tools: Vec<Arc<Tool>>,
    names: NameTable,
    access: Access,
    eligibility: Eligibility,
}

impl Hydrator {
    /// Makes a hydrator for the tools that `access` allows.
    ///
    /// Calls may use a tool's name, an alias, or another spelling of either.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if `access` is invalid for this catalog, or a definition of a saved index
    /// cannot be read.
    pub fn new(catalog: Catalog, access: &Access) -> Result<Self, AccessError> {
        let tools = catalog.tools()?.to_vec();
        let names = NameTable::new(&catalog)?;
        let eligibility = access.decide(&catalog, &names)?;
        Ok(Self {
            callable: Arc::new(CallableTools {
                catalog,
                tools,
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

    /// Returns a hydrator for the answers of a model that was shown `translation`.
    ///
    /// It resolves the names of the translation, converts arguments from the provider's view, and
    /// rejects every other tool. Arguments are validated against the catalog's own schemas, even if
    /// the translation shortened them.
    #[must_use]
    pub fn translated(&self, translation: &Translation) -> Self {
        let mut hydrator = self.clone();
        hydrator.show(translation);
        hydrator
    }

    fn show(&mut self, translation: &Translation) {
        self.advertised.clear();
        // A `BTreeMap`, so that the first name of a tool is always the same one.
        for (name, id) in &translation.names {
            if let Some(tool) = self.callable.catalog.find(id) {
                self.advertised.insert(name.clone(), tool);
                self.shown.entry(tool).or_insert_with(|| name.clone());
            }
        }
        self.provider = Some(translation.provider);
    }

    /// Returns the catalog of the tools.
    pub fn catalog(&self) -> &Catalog {
        &self.callable.catalog
    }

    /// Finds the tool with the called name that the caller may run.
    ///
    /// # Errors
    ///
    /// [`CallError`] if no tool or several tools have the name.
    pub fn find_tool(&self, name: &str) -> Result<&Arc<Tool>, CallError> {
        let resolved = self.resolve(name)?;
        Ok(self.tool(resolved.tool))
    }

    /// Returns the tools that the caller may run, in the order of the catalog.
    pub fn admitted(&self) -> impl Iterator<Item = &Arc<Tool>> {
        let tools = self.callable.tools.iter().enumerate();
        tools
            .filter(|(index, _)| self.admits(ToolId::from_index(*index)))
            .map(|(_, tool)| tool)
    }

    /// Returns the tool at `id`.
    ///
    /// # Panics
    ///
    /// If `id` comes from a larger catalog.
    pub fn tool(&self, id: ToolId) -> &Arc<Tool> {
        &self.callable.tools[id.index()]
    }

    /// Returns `true` if the caller may run the tool, and the model was shown it or may call any
    /// tool.
    fn admits(&self, tool: ToolId) -> bool {
        self.callable.eligibility.admits(tool) && self.was_shown(tool)
    }

    /// Returns `true` if the tool waits for the operator's approval. Its name stays taken, so that
    /// no other tool gets its calls.
    fn is_quarantined(&self, tool: ToolId) -> bool {
        let eligibility = &self.callable.eligibility;
        !eligibility.admits(tool)
            && eligibility
                .reasons(tool)
                .contains(&IneligibleReason::Quarantine)
    }

    fn was_shown(&self, tool: ToolId) -> bool {
        self.provider.is_none() || self.shown.contains_key(&tool)
    }

    /// Limits the size of a call's arguments, in bytes; the default is [`MAX_ARGUMENT_BYTES`].
    #[must_use]
    pub fn max_argument_bytes(mut self, bytes: usize) -> Self {
        self.max_argument_bytes = bytes;
        self
    }

    /// Validates a call.
    ///
    /// # Errors
    ///
    /// [`CallError`], whose message explains the correct call.
    pub fn hydrate(&self, call: &ToolCall) -> Result<HydratedCall, CallError> {
        let resolved = self.resolve(&call.name)?;
        let arguments = self.arguments(resolved.tool, &call.arguments)?;
        self.finish(call, resolved, arguments)
    }

    /// Parses the arguments and validates them against the tool's schema.
    fn arguments(&self, id: ToolId, sent: &Arguments) -> Result<CheckedArguments, CallError> {
        let tool = self.tool(id);
        let (mut arguments, mut repaired) = self.parse_arguments(tool, sent)?;
        let Some(schema) = &tool.parameters else {
            return match arguments {
                Value::Object(_) => Ok(CheckedArguments {
                    value: arguments,
                    repaired,
                    unknown: Vec::new(),
                }),
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
        let argument_schema = ArgumentSchema {
            check: &check,
            schema,
            tool: &tool.name,
            alternative: None,
            work_left: &Cell::new(MAX_WORK),
        };
        if let Some((value, mut changes)) = argument_schema.normalise(&arguments) {
            repaired.append(&mut changes);
            let unknown = unknown_properties(schema, &value);
            return Ok(CheckedArguments {
                value,
                repaired,
                unknown,
            });
        }
        Err(CallError::Invalid {
            tool: tool.id.clone(),
            faults: check.faults(&arguments),
            unknown: unknown_properties(schema, &arguments),
            example: check.example(schema).map(Box::new),
            failed_repair: None,
        })
    }

    /// Parses the arguments within the size limit. Empty text counts as an empty object, because
    /// some providers send it.
    fn parse_arguments(
        &self,
        tool: &Tool,
        sent: &Arguments,
    ) -> Result<(Value, Vec<Repair>), CallError> {
        let max_bytes = self.max_argument_bytes;
        match sent {
            Arguments::Text(text) if text.len() > max_bytes => Err(CallError::TooLarge {
                tool: tool.id.clone(),
                bytes: text.len(),
                most: max_bytes,
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
            Arguments::Json(value) => {
                self.check_size(tool, value)?;
                Ok((value.clone(), Vec::new()))
            }
        }
    }

    /// Checks the size and the depth of arguments.
    fn check_size(&self, tool: &Tool, arguments: &Value) -> Result<(), CallError> {
        let max_bytes = self.max_argument_bytes;
        match arguments::measure(arguments, max_bytes) {
            Ok(_) => Ok(()),
            Err(arguments::ExceededLimit::Bytes(bytes)) => Err(CallError::TooLarge {
                tool: tool.id.clone(),
                bytes,
                most: max_bytes,
            }),
            Err(limit) => Err(CallError::malformed(&tool.id, limit.to_string())),
        }
    }

    fn finish(
        &self,
        call: &ToolCall,
        resolved: ResolvedTool,
        arguments: CheckedArguments,
    ) -> Result<HydratedCall, CallError> {
        let tool = Arc::clone(self.tool(resolved.tool));
        let advertised = match resolved.via {
            ResolvedVia::Advertised => Some(call.name.clone()),
            _ => self.shown.get(&resolved.tool).cloned(),
        };
        log_use(
            &call.name,
            advertised.as_deref(),
            &tool,
            resolved.deprecated,
        );
        let no_schema_mode = tool.no_schema_mode.filter(|_| tool.parameters.is_none());
        let call = ValidCall {
            id: call.id.clone(),
            marked_unsafe: tool.is_unsafe(),
            names: CallNames {
                requested: call.name.clone(),
                advertised,
                canonical: tool.name.clone(),
                deprecated: resolved.deprecated,
            },
            resolved_via: resolved.via,
            deprecated: resolved.deprecated,
            arguments: arguments.value,
            validated: tool.parameters.is_some(),
            no_schema_mode,
            repaired: arguments.repaired,
            unknown: arguments.unknown,
            confirmation: None,
            tool,
        };
        self.apply_policy(call, None)
    }
}
