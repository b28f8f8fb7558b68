//! What a tool is: its definition and its policy data.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::entry::{self, EntryFault};
use super::spelling::normalise;
use crate::catalog::http::HttpOperation;
use crate::json::Json;

/// A tool's definition.
///
/// The schemas are kept verbatim and never changed. A tool is made by reading a catalog
/// ([`Catalog::from_slice`](crate::Catalog::from_slice)), or with [`Tool::with_parameters`],
/// [`Tool::without_arguments`] and its public fields.
///
/// ```
/// use picktools::Tool;
/// use serde_json::json;
///
/// let schema = json!({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]});
/// let mut tool = Tool::with_parameters("send_email", "Sends an email", schema);
/// tool.source = Some("mail".to_owned());
/// tool.id = tool.qualified_name();
/// let json = serde_json::to_string(&tool)?;
/// assert_eq!(serde_json::from_str::<Tool>(&json)?, tool);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tool {
    /// Identity within a catalog: given, else `source/name`, else the name.
    pub id: String,
    /// Canonical name.
    pub name: String,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does; may be empty.
    pub description: String,
    /// Other names that mean this tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
    /// Subjects that the tool belongs to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Requests that the tool is for, as people make them; no model is shown them. Those of an
    /// untrusted source do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// JSON Schema of the arguments; `{}` means that the tool takes none. Absent only with
    /// [`Tool::no_schema_mode`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// A compact schema for the model; never used to validate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_schema: Option<Value>,
    /// JSON Schema of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The server or file that the tool comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Whether the source is untrusted: its aliases do not count, and its names give way to those
    /// of others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Whether a provider shall hold the model to the schema; `None` leaves it to the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// How a tool without a schema may be called. Serialised together with `allow_no_schema: true`.
    #[serde(flatten, serialize_with = "serialize_no_schema_mode")]
    pub no_schema_mode: Option<NoSchemaMode>,
    /// What the operator says of the tool's safety.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe: Option<bool>,
    /// Threat level and approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety: Option<Safety>,
    /// MCP hints; an absent hint is unknown, not dangerous.
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    pub annotations: Annotations,
    /// What the tool can do beyond a plain call, for example `streaming`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<String>,
    /// Who may see the tool; empty means everyone.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_roles: BTreeSet<String>,
    /// Execution modes that the tool fits; empty means all.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub modes: BTreeSet<String>,
    /// Cost of a call, in the operator's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Ids or names of tools that this one needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// How the tool is called over HTTP, where it is an operation of an interface; no model sees
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Arc<HttpOperation>>,
}

impl Tool {
    /// Makes a tool that takes no arguments and that everyone may see.
    pub fn without_arguments(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::with_parameters(name, description, Value::Object(serde_json::Map::new()))
    }

    /// Makes a tool whose arguments are held to this JSON Schema, and that everyone may see.
    pub fn with_parameters(
        name: impl Into<String>,
        description: impl Into<String>,
        parameters: Value,
    ) -> Self {
        let name = name.into();
        Self {
            id: name.clone(),
            name,
            title: None,
            description: description.into(),
            aliases: Vec::new(),
            tags: Vec::new(),
            examples: Vec::new(),
            parameters: Some(parameters),
            provider_schema: None,
            output_schema: None,
            source: None,
            untrusted: false,
            strict: None,
            no_schema_mode: None,
            safe: None,
            safety: None,
            annotations: Annotations::default(),
            capabilities: BTreeSet::new(),
            allowed_roles: BTreeSet::new(),
            modes: BTreeSet::new(),
            cost: None,
            requires: Vec::new(),
            http: None,
        }
    }

    /// Returns `true` if the tool is marked unsafe: `safe: false`, or an MCP
    /// `destructiveHint: true`.
    ///
    /// A hint may only tighten, so `safe: true` does not undo `destructiveHint: true`.
    pub fn is_unsafe(&self) -> bool {
        self.safe == Some(false) || self.annotations.destructive_hint == Some(true)
    }

    /// Returns the level that the tool names, or what stands for it: one that is marked unsafe
    /// counts as high.
    pub(crate) fn threat_level(&self) -> Option<ThreatLevel> {
        let named = self.safety.as_ref().and_then(|safety| safety.threat_level);
        named.or_else(|| self.is_unsafe().then_some(ThreatLevel::High))
    }

    /// Returns what is known of the tool's effects. Whoever says that it writes is believed; that
    /// it only reads is believed of a trusted source, which says so by `readOnlyHint: true` or with
    /// the execution mode `read-only` among the tool's modes.
    pub fn effects(&self) -> Effects {
        let hint = self.annotations.read_only_hint;
        if self.is_unsafe() || hint == Some(false) {
            Effects::Writes
        } else if !self.untrusted
            && (hint == Some(true) || self.modes.iter().any(|mode| is_read_only(mode)))
        {
            Effects::OnlyReads
        } else {
            Effects::Unknown
        }
    }

    /// Returns `source/name`, which people type when a bare name is ambiguous; the name where there
    /// is no source.
    pub fn qualified_name(&self) -> String {
        match &self.source {
            Some(source) => format!("{source}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns `true` if the id is the qualified name.
    pub(crate) fn has_qualified_id(&self) -> bool {
        let rest = self
            .source
            .as_ref()
            .map_or(Some(self.id.as_str()), |source| {
                self.id
                    .strip_prefix(source.as_str())
                    .and_then(|rest| rest.strip_prefix('/'))
            });
        rest == Some(&self.name)
    }
}

impl<'de> Deserialize<'de> for Tool {
    /// Reads what was serialised. Unknown fields are refused, and what a tool must satisfy by
    /// itself is checked as it is for a catalog's file; an id that is left out is the qualified
    /// name.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        entry::read_native(json).map_err(|faults| {
            let faults = faults.iter().map(
                |EntryFault {
                     pointer,
                     message,
                     remedy,
                     ..
                 }| {
                    let at = if pointer.is_empty() {
                        String::new()
                    } else {
                        format!("{pointer}: ")
                    };
                    format!("{at}{message}; {remedy}")
                },
            );
            serde::de::Error::custom(faults.collect::<Vec<_>>().join("; "))
        })
    }
}

/// Another name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// The name.
    pub name: String,
    /// Whether its use shall be warned about.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}

/// How a tool that has no schema may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoSchemaMode {
    /// Only where it has no side effects.
    ReadOnly,
    /// Only after a person has approved the call.
    HumanApproval,
    /// Always.
    Full,
}

/// How dangerous a tool is, and whose approval it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Safety {
    /// How much harm a wrong call does.
    #[serde(alias = "threatLevel", skip_serializing_if = "Option::is_none")]
    pub threat_level: Option<ThreatLevel>,
    /// Who must approve a call.
    #[serde(
        alias = "requiredApprovals",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required_approvals: Vec<String>,
}

/// How much harm a wrong call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ThreatLevel {
    /// None to speak of.
    Low,
    /// Some, easily undone.
    Medium,
    /// Much, or hard to undo.
    High,
    /// Beyond repair.
    Critical,
}

impl ThreatLevel {
    /// All levels, the least first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// Returns its name, as it stands in definitions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

impl NoSchemaMode {
    /// Returns its name, as it stands in definitions.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::HumanApproval => "human-approval",
            Self::Full => "full",
        }
    }
}

/// What is known of a tool's effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effects {
    /// It changes nothing.
    OnlyReads,
    /// It changes things.
    Writes,
    /// It may change things.
    Unknown,
}

/// The execution mode in which tools change nothing.
pub const READ_ONLY: &str = "read-only";

/// Returns `true` for the execution mode [`READ_ONLY`], without regard to case and separators.
pub fn is_read_only(mode: &str) -> bool {
    normalise(mode) == "readonly"
}

/// The hints of an MCP tool; `None` is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it twice does no more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool reaches beyond its server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl Annotations {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn serialize_no_schema_mode<S: serde::Serializer>(
    mode: &Option<NoSchemaMode>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = serializer.serialize_map(None)?;
    if let Some(mode) = mode {
        map.serialize_entry("allow_no_schema", &true)?;
        map.serialize_entry("no_schema_mode", mode)?;
    }
    map.end()
}
