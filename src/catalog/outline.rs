//! What of a definition names a tool and decides on it, read without the rest.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny};
use serde_json::{Map, Value};

use super::definition::{Alias, Annotations, NoSchemaMode, Safety, Tool};
use super::entry;

/// A tool as it is serialised and in no other spelling. Description, schemas and how it is called
/// over HTTP are passed over.
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

/// Hints, and nothing that may be mistaken for one.
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
    /// Reads the outline of what was serialised. Parameters are `{}` where there are any.
    pub(super) fn read_outline(serialised: &[u8]) -> Result<Self, serde_json::Error> {
        let read: Outline = serde_json::from_slice(serialised)?;
        let tool = Self {
            id: read.id,
            name: read.name,
            title: read.title,
            description: String::new(),
            aliases: read.aliases,
            tags: read.tags,
            examples: read.examples,
            parameters: read.parameters.map(|_| Value::Object(Map::new())),
            provider_schema: None,
            output_schema: None,
            source: read.source,
            untrusted: read.untrusted,
            strict: read.strict,
            no_schema_mode: read.no_schema_mode.filter(|_| read.allow_no_schema),
            safe: read.safe,
            safety: read.safety,
            annotations: read.annotations,
            capabilities: read.capabilities,
            allowed_roles: read.allowed_roles,
            modes: read.modes,
            cost: read.cost,
            requires: read.requires,
            http: None,
        };
        match entry::check(&tool).first() {
            Some(fault) => Err(serde_json::Error::custom(format!(
                "{}: {}",
                fault.pointer, fault.message
            ))),
            None => Ok(tool),
        }
    }

    /// Returns what is read of it as its outline.
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
