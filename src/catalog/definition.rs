//! Tools: their definitions and their policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::spelling::normalise;
use crate::catalog::http::HttpOperation;

/// A tool's definition.
///
/// The schemas are kept verbatim and never changed. Reading a catalog makes tools
/// ([`Catalog::from_slice`](crate::Catalog::from_slice)). So do [`Tool::with_parameters`] and
/// [`Tool::without_arguments`] with the public fields.
///
/// ```
/// use picktools::Tool;
/// use serde_json::json;
///
/// let properties = json!({"to": {"type": "string"}});
/// let schema = json!({"type": "object", "properties": properties, "required": ["to"]});
/// let mut tool = Tool::with_parameters("send_email", "Sends an email", schema);
/// tool.source = Some("mail".to_owned());
/// tool.id = tool.qualified_name();
/// let json = serde_json::to_string(&tool)?;
/// assert_eq!(serde_json::from_str::<Tool>(&json)?, tool);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tool {
    /// The unique id in a catalog; by default `source/name`, or the name if there is no source.
    pub id: String,
    /// The canonical name.
    pub name: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description of the tool; may be empty.
    pub description: String,
    /// Other names of this tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
    /// Topics of the tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Example requests for the tool, in the words of users; models never see them. Examples of an
    /// untrusted source are ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// The JSON Schema of the arguments; `{}` means that the tool takes none. Absent only with
    /// [`Tool::no_schema_mode`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// A compact schema for the model; never used to validate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_schema: Option<Value>,
    /// The JSON Schema of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The server or file that the tool comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `true` if the source is untrusted: its aliases are ignored, and other tools win name
    /// conflicts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// `true` if the provider should enforce the schema on the model; `None` leaves it to the
    /// provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// The permitted calls of a tool without a schema. Serialised together with
    /// `allow_no_schema: true`.
    #[serde(flatten, serialize_with = "serialize_no_schema_mode")]
    pub no_schema_mode: Option<NoSchemaMode>,
    /// The operator's judgement of the tool's safety.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe: Option<bool>,
    /// The threat level and the required approvals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety: Option<Safety>,
    /// MCP hints; an absent hint is unknown, not dangerous.
    #[serde(skip_serializing_if = "Annotations::is_empty")]
    pub annotations: Annotations,
    /// Abilities beyond a plain call, for example `streaming`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub capabilities: BTreeSet<String>,
    /// The roles that may see the tool; an empty set admits everyone.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub allowed_roles: BTreeSet<String>,
    /// The execution modes that the tool fits; an empty set means all.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub modes: BTreeSet<String>,
    /// The cost of a call, in the operator's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The ids or names of tools that this tool needs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// The HTTP operation behind the tool, if there is one; models never see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Arc<HttpOperation>>,
}

impl Tool {
    /// Makes a tool that takes no arguments and is visible to everyone.
    pub fn without_arguments(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::with_parameters(name, description, Value::Object(serde_json::Map::new()))
    }

    /// Makes a tool whose arguments are validated against this JSON Schema, and that is visible to
    /// everyone.
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
    /// A hint can only restrict, so `safe: true` does not override `destructiveHint: true`.
    pub fn is_unsafe(&self) -> bool {
        self.safe == Some(false) || self.annotations.destructive_hint == Some(true)
    }

    /// Returns the tool's threat level. A tool that is marked unsafe and has no threat level counts
    /// as high.
    pub(crate) fn threat_level(&self) -> Option<ThreatLevel> {
        let stated = self.safety.as_ref().and_then(|safety| safety.threat_level);
        stated.or_else(|| self.is_unsafe().then_some(ThreatLevel::High))
    }

    /// Returns the known effects of the tool. Any source can declare that a tool writes. Only a
    /// trusted source can declare that a tool only reads: by `readOnlyHint: true`, or by the
    /// execution mode `read-only` among the tool's modes.
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

    /// Returns `source/name`, which identifies a tool if its bare name is ambiguous; without a
    /// source, returns the name.
    pub fn qualified_name(&self) -> String {
        match &self.source {
            Some(source) => format!("{source}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns `true` if the id is the qualified name.
    pub(crate) fn has_qualified_id(&self) -> bool {
        let Some(source) = &self.source else {
            return self.id == self.name;
        };
        let rest = self.id.strip_prefix(source.as_str());
        rest.is_some_and(|rest| rest.strip_prefix('/') == Some(&self.name))
    }
}

/// Another name of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// The name.
    pub name: String,
    /// `true` if a use of the alias should cause a warning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
}

/// The permitted calls of a tool without a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoSchemaMode {
    /// Only if the tool has no side effects.
    ReadOnly,
    /// Only after a person approved the call.
    HumanApproval,
    /// Always.
    Full,
}

/// The danger of a tool, and the approvals that it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Safety {
    /// The harm that a wrong call can do.
    #[serde(alias = "threatLevel", skip_serializing_if = "Option::is_none")]
    pub threat_level: Option<ThreatLevel>,
    /// The required approvals of a call, such as `owner`.
    #[serde(
        alias = "requiredApprovals",
        default,
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required_approvals: Vec<String>,
}

/// The harm that a wrong call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ThreatLevel {
    /// Negligible harm.
    Low,
    /// Some harm, easily undone.
    Medium,
    /// Much harm, or harm that is hard to undo.
    High,
    /// Irreparable harm.
    Critical,
}

impl ThreatLevel {
    /// All levels, in ascending order.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// Returns the name in definitions.
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
    /// Returns the name in definitions.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::HumanApproval => "human-approval",
            Self::Full => "full",
        }
    }
}

/// The known effects of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effects {
    /// The tool changes nothing.
    OnlyReads,
    /// The tool changes something.
    Writes,
    /// The tool may change something.
    Unknown,
}

/// The execution mode in which tools change nothing.
pub const READ_ONLY: &str = "read-only";

/// Returns `true` for the execution mode [`READ_ONLY`], without regard to case and separators.
pub fn is_read_only(mode: &str) -> bool {
    normalise(mode) == "readonly"
}

/// The hints of an MCP tool; `None` means unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// A second call with the same arguments has no further effect.
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
