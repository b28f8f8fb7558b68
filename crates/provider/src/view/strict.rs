//! The strict view: a schema that a provider can enforce, or the reason for which that is
//! impossible.
//!
//! OpenAI requires every property and allows no additional ones, so that optional properties become
//! nullable. Anthropic supports optional properties, but fewer constraints.
//!
//! Neither can express an object with arbitrary keys, a value of any type, or a list with a schema
//! for each position. A tool that needs one of these is not strict.
//!
//! Sources: `developers.openai.com`, "Structured model outputs", Supported schemas;
//! `platform.claude.com`, "Structured outputs", JSON Schema limitations.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::builder::{ANNOTATIONS, ViewBuilder};
use super::dialect::Dialect;
use super::node::{includes, is_open_root, kind_of, kinds, properties, required};
use crate::changes::ChangeCode;
use picktools::schema;
use picktools::schema::{DEFINITIONS, pointer_part, within};

/// OpenAI: "up to 5000 object properties total, with up to 10 levels of nesting".
const MAX_PROPERTIES: usize = 5_000;
const MAX_NESTING: usize = 10;
/// OpenAI: "up to 1000 enum values across all enum properties".
const MAX_ENUM_VALUES: usize = 1_000;
/// OpenAI: "total string length of all property names, definition names, enum values, and const
/// values cannot exceed 120,000 characters".
const MAX_CHARACTERS: usize = 120_000;
/// OpenAI: "for a single enum property with string values, the total string length of all enum
/// values cannot exceed 15,000 characters when there are more than 250 enum values".
const LONG_ENUM: usize = 250;
const MAX_LONG_ENUM_CHARACTERS: usize = 15_000;

/// OpenAI: "Supported properties" of strings, numbers and arrays.
const OPENAI_KEYWORDS: [&str; 9] = [
    "pattern",
    "format",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];
const OPENAI_FORMATS: [&str; 9] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];
/// Anthropic: numeric and length constraints are not supported; `minItems` only as 0 or 1.
const ANTHROPIC_KEYWORDS: [&str; 2] = ["format", "minItems"];
const ANTHROPIC_FORMATS: [&str; 10] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "uri",
    "ipv4",
    "ipv6",
    "uuid",
];

/// The reason for which a schema has no strict view, and its position.
pub(super) struct StrictError {
    pub(super) pointer: String,
    pub(super) reason: String,
}

type StrictResult<T> = Result<T, StrictError>;

/// The quantities that OpenAI limits.
#[derive(Default)]
pub(crate) struct OpenAiCounts {
    properties: usize,
    enum_values: usize,
    characters: usize,
}

/// Builder of a strict view.
struct StrictBuilder<'v, 's> {
    view: &'v mut ViewBuilder<'s>,
    openai: bool,
    counts: OpenAiCounts,
    nesting: usize,
}

pub(super) fn root(view: &mut ViewBuilder<'_>) -> StrictResult<Value> {
    let openai = view.provider.format().rules().dialect == Dialect::OpenAi;
    let Value::Object(root) = view.root else {
        return Err(StrictError {
            pointer: String::new(),
            reason: "the schema is not an object".to_owned(),
        });
    };
    let expanded = view.expand(root);
    if expanded.cut {
        return Err(StrictError {
            pointer: String::new(),
            reason: "the root refers to itself".to_owned(),
        });
    }
    let has_alternatives = ["anyOf", "oneOf"]
        .iter()
        .any(|keyword| expanded.node.contains_key(*keyword));
    if has_alternatives {
        return Err(StrictError {
            pointer: String::new(),
            reason: "the root has alternatives".to_owned(),
        });
    }
    if is_open_root(&expanded.node) {
        return Err(StrictError {
            pointer: String::new(),
            reason: OPEN.to_owned(),
        });
    }
    let mut root = view.merge_root(expanded.node.into_owned());
    view.following.clear();
    if properties(&root).is_none_or(Map::is_empty) {
        // A root without properties and additional keys takes no arguments.
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    let mut definitions: Map<String, Value> = Map::new();
    for holder in DEFINITIONS {
        if let Some(named) = root.shift_remove(holder) {
            definitions.insert(holder.to_owned(), named);
        }
    }
    let mut builder = StrictBuilder {
        view,
        openai,
        counts: OpenAiCounts::default(),
        nesting: 1,
    };
    let mut fields = builder.object(&root)?;
    let definitions = builder.definitions(&fields, &definitions)?;
    fields.extend(definitions);
    if !openai && is_recursive(&Value::Object(fields.clone())) {
        return builder.refuse("recursive schemas are not supported");
    }
    builder.check_counts()?;
    Ok(Value::Object(fields))
}

const OPEN: &str = "an object with arbitrary keys cannot be expressed";
const UNTYPED_LIST: &str =
    "a list of values of any type, or with a schema for each position, cannot be expressed";

impl StrictBuilder<'_, '_> {
    fn refuse<T>(&self, reason: impl Into<String>) -> StrictResult<T> {
        Err(StrictError {
            pointer: self.view.pointer.clone(),
            reason: reason.into(),
        })
    }

    fn below<T>(&mut self, parts: &[&str], work: impl FnOnce(&mut Self) -> T) -> T {
        let position = self.view.enter(parts);
        let result = work(self);
        self.view.leave(position);
        result
    }

    /// Builds the definitions to which the view refers, and no others.
    fn definitions(
        &mut self,
        fields: &Map<String, Value>,
        definitions: &Map<String, Value>,
    ) -> StrictResult<Map<String, Value>> {
        let mut pending = Vec::new();
        fields
            .values()
            .for_each(|schema| collect_targets(schema, &mut pending));
        let mut definition_views: Map<String, Value> = Map::new();
        while let Some(target) = pending.pop() {
            let Some(path) = target.strip_prefix("#/") else {
                continue;
            };
            let Some((holder, name)) = path.split_once('/') else {
                continue;
            };
            let key = schema::name_from_pointer_part(&schema::decode_fragment(name));
            let Some(schema) = definitions.get(holder).and_then(|named| named.get(&key)) else {
                continue;
            };
            let group = definition_views
                .entry(holder)
                .or_insert_with(|| Value::Object(Map::new()));
            if group.get(&key).is_some() {
                continue;
            }
            self.counts.characters += key.chars().count();
            let schema = self.below(&[holder, &key], |builder| builder.schema(schema))?;
            collect_targets(&schema, &mut pending);
            if let Some(Value::Object(group)) = definition_views.get_mut(holder) {
                group.insert(key, schema);
            }
        }
        Ok(definition_views)
    }

    fn schema(&mut self, schema: &Value) -> StrictResult<Value> {
        let Value::Object(node) = schema else {
            return self.refuse("a value of any type, or of none, cannot be expressed");
        };
        if !self.view.count_node() {
            return self.refuse("the schema is too large or too deep");
        }
        if let Some(kept) = self.keep_reference(node) {
            return Ok(kept);
        }
        let expanded = self.view.expand(node);
        if expanded.cut {
            return self.refuse("a reference is circular, or has no target");
        }
        let node = &*expanded.node;
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = node.get(keyword) {
                return self.alternatives(node, keyword, branches);
            }
        }
        if let Some(values) = self.view.listed_values(node) {
            return self.enumeration(node, &values);
        }
        let (kinds, nullable) = kinds(node);
        let mut fields = match kinds[..] {
            [] if nullable => Map::from_iter([("type".to_owned(), json!("null"))]),
            [] => return self.refuse("a value of any type cannot be expressed"),
            [kind] => self.typed(kind, node)?,
            [..] => {
                let mut branches = Vec::with_capacity(kinds.len());
                for kind in &kinds {
                    branches.push(Value::Object(self.typed(kind, node)?));
                }
                let mut fields = Map::from_iter([("anyOf".to_owned(), Value::Array(branches))]);
                self.describe(node, &mut fields);
                fields
            }
        };
        if nullable && !kinds.is_empty() {
            fields = make_nullable(fields);
        }
        Ok(Value::Object(fields))
    }

    /// Keeps a reference to a definition, without other keywords.
    fn keep_reference(&mut self, node: &Map<String, Value>) -> Option<Value> {
        let reference = node.get("$ref")?.as_str()?;
        let definition = reference
            .strip_prefix("#/$defs/")
            .or_else(|| reference.strip_prefix("#/definitions/"))?;
        let is_plain = node.keys().all(|key| {
            ANNOTATIONS.contains(&key.as_str()) || key == "$ref" || key == "description"
        });
        if definition.contains('/')
            || !is_plain
            || schema::resolve(self.view.root, reference).is_none()
        {
            return None;
        }
        if node.contains_key("description") {
            // OpenAI: "$ref cannot have keywords {'description'}".
            self.view.dropped("description");
        }
        Some(json!({"$ref": reference}))
    }

    fn alternatives(
        &mut self,
        node: &Map<String, Value>,
        keyword: &str,
        branches: &[Value],
    ) -> StrictResult<Value> {
        if properties(node).is_some() || node.contains_key("items") {
            return self.refuse("alternatives next to properties cannot be expressed");
        }
        if branches.is_empty() {
            return self.refuse("a choice without alternatives cannot be expressed");
        }
        if keyword == "oneOf" {
            self.view.change(
                ChangeCode::OneOfMadeAnyOf,
                "\"oneOf\" is shown as \"anyOf\"",
            );
        }
        let mut branch_views = Vec::with_capacity(branches.len());
        for (index, branch) in branches.iter().enumerate() {
            let mut branch = branch.clone();
            // The type may be next to the alternatives.
            if let (Value::Object(branch), Some(kind)) = (&mut branch, node.get("type"))
                && !branch.contains_key("$ref")
            {
                branch.entry("type").or_insert_with(|| kind.clone());
            }
            let index = index.to_string();
            branch_views.push(self.below(&[keyword, &index], |builder| builder.schema(&branch))?);
        }
        let mut fields = Map::new();
        self.describe(node, &mut fields);
        for keyword in node.keys() {
            let is_shown = ["anyOf", "oneOf", "type", "description"].contains(&keyword.as_str());
            if !is_shown && !ANNOTATIONS.contains(&keyword.as_str()) {
                self.view.dropped(keyword);
            }
        }
        fields.insert("anyOf".to_owned(), Value::Array(branch_views));
        Ok(Value::Object(
            if node.get("nullable") == Some(&Value::Bool(true)) {
                make_nullable(fields)
            } else {
                fields
            },
        ))
    }

    /// Builds the schema of listed values.
    fn enumeration(&mut self, node: &Map<String, Value>, values: &[&Value]) -> StrictResult<Value> {
        if values.is_empty()
            || values
                .iter()
                .any(|value| value.is_object() || value.is_array())
        {
            return self
                .refuse("an enumeration of objects or arrays, or of nothing, cannot be expressed");
        }
        let mut characters = 0;
        for value in values {
            if let Value::String(text) = value {
                characters += text.chars().count();
            }
        }
        self.counts.enum_values += values.len();
        self.counts.characters += characters;
        if self.openai && values.len() > LONG_ENUM && characters > MAX_LONG_ENUM_CHARACTERS {
            return self.refuse(format!(
                "an enumeration of more than {LONG_ENUM} values may have at most \
                 {MAX_LONG_ENUM_CHARACTERS} characters"
            ));
        }
        let mut kinds: Vec<&str> = Vec::new();
        for value in values {
            let kind = kind_of(value);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut fields = Map::new();
        let kind = if let [single] = kinds[..] {
            json!(single)
        } else {
            json!(kinds)
        };
        fields.insert("type".to_owned(), kind);
        self.describe_except(node, &mut fields, |keyword| {
            ["type", "enum", "const"].contains(&keyword)
        });
        fields.insert("enum".to_owned(), json!(values));
        if node.get("nullable") == Some(&Value::Bool(true)) {
            fields = make_nullable(fields);
        }
        Ok(Value::Object(fields))
    }

    fn typed(&mut self, kind: &str, node: &Map<String, Value>) -> StrictResult<Map<String, Value>> {
        match kind {
            "object" => self.object(node),
            "array" => self.array(node),
            "string" | "number" | "integer" | "boolean" => {
                let mut fields = Map::from_iter([("type".to_owned(), json!(kind))]);
                self.constrain(kind, node, &mut fields);
                Ok(fields)
            }
            _ => self.refuse(format!("{kind:?} is not a type")),
        }
    }

    fn array(&mut self, node: &Map<String, Value>) -> StrictResult<Map<String, Value>> {
        let items = match node.get("items") {
            Some(items @ Value::Object(_)) if !node.contains_key("prefixItems") => items,
            _ => return self.refuse(UNTYPED_LIST),
        };
        let mut fields = Map::from_iter([("type".to_owned(), json!("array"))]);
        self.constrain("array", node, &mut fields);
        let items =
            self.nested(|builder| builder.below(&["items"], |builder| builder.schema(items)))?;
        fields.insert("items".to_owned(), items);
        Ok(fields)
    }

    fn object(&mut self, node: &Map<String, Value>) -> StrictResult<Map<String, Value>> {
        let is_open = match node.get("additionalProperties") {
            Some(Value::Bool(false)) => false,
            Some(_) => true,
            None => properties(node).is_none_or(Map::is_empty),
        };
        if is_open || node.contains_key("patternProperties") {
            return self.refuse(OPEN);
        }
        let mut fields = Map::from_iter([("type".to_owned(), json!("object"))]);
        self.constrain("object", node, &mut fields);
        if !node.contains_key("additionalProperties") {
            self.view.change(
                ChangeCode::ObjectClosed,
                "additional properties are not allowed",
            );
        }
        let empty = Map::new();
        let properties = properties(node).unwrap_or(&empty);
        let names = self.view.property_names(properties);
        let required_names = required(node);
        if let Some(missing) = required_names
            .iter()
            .find(|name| !properties.contains_key(**name))
        {
            return self.refuse(format!("the required property {missing:?} has no schema"));
        }
        let (mut all, mut shown_names) = (Map::new(), Vec::new());
        for (key, schema) in properties {
            self.counts.properties += 1;
            self.counts.characters += key.chars().count();
            let is_optional = !required_names.contains(&key.as_str());
            let name = names.get(key).unwrap_or(key);
            let schema = self.nested(|builder| {
                builder.below(&["properties", key], |builder| {
                    let schema = builder.schema(schema)?;
                    if !(is_optional && builder.openai) {
                        return Ok(schema);
                    }
                    builder.view.change(
                        ChangeCode::OptionalMadeNullable,
                        "optional: null means absent",
                    );
                    let Value::Object(schema) = schema else {
                        return Ok(schema);
                    };
                    Ok(Value::Object(make_nullable(schema)))
                })
            })?;
            if !is_optional || self.openai {
                shown_names.push(name.clone());
            }
            all.insert(name.clone(), schema);
        }
        fields.insert("properties".to_owned(), Value::Object(all));
        fields.insert("required".to_owned(), json!(shown_names));
        fields.insert("additionalProperties".to_owned(), Value::Bool(false));
        Ok(fields)
    }

    fn nested<T>(&mut self, work: impl FnOnce(&mut Self) -> StrictResult<T>) -> StrictResult<T> {
        self.nesting += 1;
        if self.openai && self.nesting > MAX_NESTING {
            return self.refuse(format!("it is nested deeper than {MAX_NESTING} levels"));
        }
        let result = work(self);
        self.nesting -= 1;
        result
    }

    /// Copies the constraints that the provider supports; the others go to the description.
    fn constrain(
        &mut self,
        kind: &str,
        node: &Map<String, Value>,
        fields: &mut Map<String, Value>,
    ) {
        let type_keywords: &[&str] = match kind {
            "string" => &["pattern", "format"],
            "number" | "integer" => &[
                "multipleOf",
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
            ],
            "array" => &["minItems", "maxItems"],
            _ => &[],
        };
        let openai = self.openai;
        let is_supported = |keyword: &str, value: &Value| {
            type_keywords.contains(&keyword)
                && match (openai, keyword, value) {
                    (true, "format", Value::String(format)) => {
                        OPENAI_FORMATS.contains(&format.as_str())
                    }
                    (false, "format", Value::String(format)) => {
                        ANTHROPIC_FORMATS.contains(&format.as_str())
                    }
                    (false, "minItems", value) => value.as_u64().is_some_and(|least| least <= 1),
                    (true, keyword, value) => {
                        OPENAI_KEYWORDS.contains(&keyword)
                            && (value.is_number() || value.is_string())
                    }
                    (false, keyword, _) => ANTHROPIC_KEYWORDS.contains(&keyword),
                }
        };
        const SHAPE: [&str; 8] = [
            "type",
            "description",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "nullable",
            "additionalItems",
        ];
        let keep = |keyword: &str| {
            SHAPE.contains(&keyword)
                || node
                    .get(keyword)
                    .is_some_and(|value| is_supported(keyword, value))
        };
        self.describe_except(node, fields, keep);
        for (keyword, value) in node {
            if is_supported(keyword, value) {
                fields.insert(keyword.clone(), value.clone());
            }
        }
    }

    fn describe(&mut self, node: &Map<String, Value>, fields: &mut Map<String, Value>) {
        if let Some(text @ Value::String(_)) = node.get("description") {
            fields.insert("description".to_owned(), text.clone());
        }
    }

    fn describe_except(
        &mut self,
        node: &Map<String, Value>,
        fields: &mut Map<String, Value>,
        keep: impl Fn(&str) -> bool,
    ) {
        let keep =
            |keyword: &str| keyword == "description" || keyword == "nullable" || keep(keyword);
        if let Some(text) = self.view.description(node, keep) {
            fields.insert("description".to_owned(), Value::String(text));
        }
    }

    fn check_counts(&self) -> StrictResult<()> {
        if !self.openai {
            return Ok(());
        }
        let OpenAiCounts {
            properties,
            enum_values,
            characters,
        } = self.counts;
        for (count, most, what) in [
            (properties, MAX_PROPERTIES, "properties"),
            (enum_values, MAX_ENUM_VALUES, "listed values"),
            (
                characters,
                MAX_CHARACTERS,
                "characters in names and listed values",
            ),
        ] {
            if count > most {
                return self.refuse(format!("it has more than {most} {what}"));
            }
        }
        Ok(())
    }
}

/// Allows null in a view in addition.
fn make_nullable(mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(alternatives)) = fields.get_mut("anyOf") {
        if !alternatives.iter().any(|alternative| {
            alternative
                .get("type")
                .is_some_and(|kind| includes(kind, "null"))
        }) {
            alternatives.push(json!({"type": "null"}));
        }
        return fields;
    }
    if fields.contains_key("$ref") {
        return Map::from_iter([("anyOf".to_owned(), json!([fields, {"type": "null"}]))]);
    }
    if let Some(kind) = fields.get_mut("type") {
        match kind {
            Value::Array(kinds) if !kinds.contains(&json!("null")) => kinds.push(json!("null")),
            Value::String(name) if name != "null" => *kind = json!([name, "null"]),
            _ => {}
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    fields
}

/// Collects the targets of the references in a schema.
fn collect_targets(schema: &Value, targets: &mut Vec<String>) {
    if let Some(Value::String(target)) = schema.get("$ref") {
        targets.push(target.clone());
    }
    for value in within(schema) {
        collect_targets(value, targets);
    }
}

/// Returns `true` if a definition refers to itself, directly or indirectly.
fn is_recursive(schema: &Value) -> bool {
    let mut edges: HashMap<String, Vec<String>> = HashMap::new();
    for holder in DEFINITIONS {
        let Some(Value::Object(named)) = schema.get(holder) else {
            continue;
        };
        for (name, schema) in named {
            let mut targets = Vec::new();
            collect_targets(schema, &mut targets);
            edges.insert(format!("#/{holder}/{}", pointer_part(name)), targets);
        }
    }
    // Repeatedly removes the definitions that refer to no remaining definition. The rest forms a
    // cycle.
    let mut remaining: HashSet<&str> = edges.keys().map(String::as_str).collect();
    loop {
        let previous_count = remaining.len();
        let leaves: Vec<&str> = remaining
            .iter()
            .copied()
            .filter(|name| {
                edges.get(*name).is_none_or(|targets| {
                    targets
                        .iter()
                        .all(|target| !remaining.contains(target.as_str()))
                })
            })
            .collect();
        leaves.iter().for_each(|name| {
            remaining.remove(name);
        });
        if remaining.len() == previous_count || remaining.is_empty() {
            return !remaining.is_empty();
        }
    }
}
