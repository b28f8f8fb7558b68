//! Outlines: the names and the policy of a definition, read without the rest.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};
use serde_json::{Map, Value};

use super::definition::{Alias, Annotations, NoSchemaMode, Safety, Tool};
use super::entry;

/// A tool in its serialised form only, without other spellings. The description, the schemas and
/// the HTTP operation are skipped.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outline {
    id: String,
    name: String,
    title: Option<String>,
    #[serde(rename = "description")]
    _description: IgnoredAny,
    #[serde(default)]
    aliases: Vec<Alias>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    examples: Vec<String>,
    parameters: Option<IgnoredAny>,
    #[serde(rename = "provider_schema")]
    _provider_schema: Option<IgnoredAny>,
    #[serde(rename = "output_schema")]
    _output_schema: Option<IgnoredAny>,
    source: Option<String>,
    #[serde(default)]
    untrusted: bool,
    strict: Option<bool>,
    #[serde(default)]
    allow_no_schema: bool,
    no_schema_mode: Option<NoSchemaMode>,
    safe: Option<bool>,
    safety: Option<Safety>,
    #[serde(default, with = "Hints")]
    annotations: Annotations,
    #[serde(default)]
    capabilities: BTreeSet<String>,
    #[serde(default)]
    allowed_roles: BTreeSet<String>,
    #[serde(default)]
    modes: BTreeSet<String>,
    cost: Option<f64>,
    #[serde(default)]
    requires: Vec<String>,
    #[serde(rename = "http")]
    _http: Option<IgnoredAny>,
}

/// The MCP hints; other members are rejected, because they may be misspelt hints.
#[derive(Deserialize)]
#[serde(remote = "Annotations", rename_all = "camelCase", deny_unknown_fields)]
struct Hints {
    title: Option<String>,
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
    open_world_hint: Option<bool>,
}

impl Tool {
    /// Reads the outline of a serialised tool. Parameters are `{}` if the tool has any.
    pub(super) fn read_outline(serialised: &[u8]) -> Result<Self, serde_json::Error> {
        let outline: Outline = serde_json::from_slice(serialised)?;
        let tool = Self {
            id: outline.id,
            name: outline.name,
            title: outline.title,
            description: String::new(),
            aliases: outline.aliases,
            tags: outline.tags,
            examples: outline.examples,
            parameters: outline.parameters.map(|_| Value::Object(Map::new())),
            provider_schema: None,
            output_schema: None,
            source: outline.source,
            untrusted: outline.untrusted,
            strict: outline.strict,
            no_schema_mode: outline.no_schema_mode.filter(|_| outline.allow_no_schema),
            safe: outline.safe,
            safety: outline.safety,
            annotations: outline.annotations,
            capabilities: outline.capabilities,
            allowed_roles: outline.allowed_roles,
            modes: outline.modes,
            cost: outline.cost,
            requires: outline.requires,
            http: None,
        };
        let faults = entry::check(&tool);
        match faults.iter().find(|fault| !fault.kind.is_notice()) {
            Some(fault) => Err(serde_json::Error::custom(format!(
                "{}: {}",
                fault.pointer, fault.message
            ))),
            None => Ok(tool),
        }
    }

    /// Returns the outline that [`Tool::read_outline`] reads for this tool.
    #[cfg(test)]
    pub(super) fn outline(&self) -> Self {
        Self {
            description: String::new(),
            parameters: self.parameters.as_ref().map(|_| Value::Object(Map::new())),
            provider_schema: None,
            output_schema: None,
            http: None,
            ..self.clone()
        }
    }
}
