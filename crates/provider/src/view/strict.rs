//! The strict view: a schema that a provider can hold the model to, or the reason why there is
//! none.
//!
//! OpenAI wants every property required, so an optional one becomes nullable, and no property
//! beside them. Anthropic leaves optional properties optional, and knows fewer constraints. Neither
//! can express an open map, a value of any kind, or a list with a schema for each place; a tool
//! that needs one is not strict.
//!
//! Sources: `developers.openai.com`, "Structured model outputs", Supported schemas;
//! `platform.claude.com`, "Structured outputs", JSON Schema limitations.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{ChangeCode, Dialect, View, is_open_root, kinds, listed, properties, required};
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
/// Anthropic: numeric and length constraints are not supported, `minItems` only as 0 or 1.
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

/// Why a schema has no strict view, and where.
pub(super) struct Inexpressible {
    pub(super) pointer: String,
    pub(super) reason: String,
}

type Strict<T> = Result<T, Inexpressible>;

/// What OpenAI counts.
#[derive(Default)]
pub(crate) struct Counts {
    properties: usize,
    enum_values: usize,
    characters: usize,
}

struct Strictly<'v, 's> {
    view: &'v mut View<'s>,
    openai: bool,
    counts: Counts,
    nesting: usize,
}

pub(super) fn root(view: &mut View<'_>) -> Strict<Value> {
    let openai = view.provider.format().rules().dialect == Dialect::OpenAi;
    let Value::Object(root) = view.root else {
        return Err(Inexpressible {
            pointer: String::new(),
            reason: "the schema is not an object".to_owned(),
        });
    };
    let expanded = view.expand(root);
    if expanded.cut {
        return Err(Inexpressible {
            pointer: String::new(),
            reason: "the root leads back to itself".to_owned(),
        });
    }
    let alternatives = ["anyOf", "oneOf"]
        .iter()
        .any(|keyword| expanded.node.contains_key(*keyword));
    if alternatives {
        return Err(Inexpressible {
            pointer: String::new(),
            reason: "the root has alternatives".to_owned(),
        });
    }
    if is_open_root(&expanded.node) {
        return Err(Inexpressible {
            pointer: String::new(),
            reason: OPEN.to_owned(),
        });
    }
    let mut root = view.one_object(expanded.node.into_owned());
    view.following.clear();
    if properties(&root).is_none_or(Map::is_empty) {
        // A root that names nothing and says nothing of other keys takes no arguments.
        root.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    let definitions: Map<String, Value> = DEFINITIONS
        .into_iter()
        .filter_map(|holder| Some((holder.to_owned(), root.shift_remove(holder)?)))
        .collect();
    let mut strictly = Strictly {
        view,
        openai,
        counts: Counts::default(),
        nesting: 1,
    };
    let mut shown = strictly.object(&root)?;
    let definitions = strictly.definitions(&shown, &definitions)?;
    shown.extend(definitions);
    if !openai && is_recursive(&Value::Object(shown.clone())) {
        return strictly.refuse("recursive schemas are not supported");
    }
    strictly.check_counts()?;
    Ok(Value::Object(shown))
}

const OPEN: &str = "an open map cannot be expressed: any key is taken";

impl Strictly<'_, '_> {
    fn refuse<T>(&self, reason: impl Into<String>) -> Strict<T> {
        Err(Inexpressible {
            pointer: self.view.pointer.clone(),
            reason: reason.into(),
        })
    }

    fn below<T>(&mut self, parts: &[&str], work: impl FnOnce(&mut Self) -> T) -> T {
        let place = self.view.enter(parts);
        let done = work(self);
        self.view.leave(place);
        done
    }

    /// Shows the definitions that what is shown leads to, and no others.
    fn definitions(
        &mut self,
        shown: &Map<String, Value>,
        definitions: &Map<String, Value>,
    ) -> Strict<Map<String, Value>> {
        let mut wanted = Vec::new();
        shown
            .values()
            .for_each(|schema| targets(schema, &mut wanted));
        let mut found: Map<String, Value> = Map::new();
        while let Some(target) = wanted.pop() {
            let path = target
                .strip_prefix("#/")
                .and_then(|path| path.split_once('/'));
            let Some((holder, name)) = path else { continue };
            let key = schema::decoded(name).replace("~1", "/").replace("~0", "~");
            let Some(schema) = definitions.get(holder).and_then(|named| named.get(&key)) else {
                continue;
            };
            let kept = found
                .entry(holder)
                .or_insert_with(|| Value::Object(Map::new()));
            if kept.get(&key).is_some() {
                continue;
            }
            self.counts.characters += key.chars().count();
            let schema = self.below(&[holder, &key], |strictly| strictly.schema(schema))?;
            targets(&schema, &mut wanted);
            if let Some(kept) = found.get_mut(holder).and_then(Value::as_object_mut) {
                kept.insert(key, schema);
            }
        }
        Ok(found)
    }

    fn schema(&mut self, schema: &Value) -> Strict<Value> {
        let Value::Object(node) = schema else {
            return self.refuse("a value of any kind, or none, cannot be expressed");
        };
        if !self.view.may_go_on() {
            return self.refuse("the schema is too large or too deep");
        }
        if let Some(kept) = self.kept_reference(node) {
            return Ok(kept);
        }
        let expanded = self.view.expand(node);
        if expanded.cut {
            return self.refuse("a reference leads back to itself, or nowhere");
        }
        let node = &*expanded.node;
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(ways)) = node.get(keyword) {
                return self.any_of(node, keyword, ways);
            }
        }
        if let Some(values) = listed(node) {
            return self.one_of(node, &values);
        }
        let (kinds, nullable) = kinds(node);
        let mut shown = match kinds[..] {
            [] if nullable => Map::from_iter([("type".to_owned(), json!("null"))]),
            [] => return self.refuse("a value of any kind cannot be expressed"),
            [kind] => self.of_kind(kind, node)?,
            [..] => {
                let ways: Strict<Vec<Value>> = kinds
                    .iter()
                    .map(|kind| self.of_kind(kind, node).map(Value::Object))
                    .collect();
                let mut shown = Map::from_iter([("anyOf".to_owned(), Value::Array(ways?))]);
                self.describe(node, &mut shown);
                shown
            }
        };
        if nullable && !kinds.is_empty() {
            shown = nullable_too(shown);
        }
        Ok(Value::Object(shown))
    }

    /// A reference to a definition stays one; what stands beside it goes.
    fn kept_reference(&mut self, node: &Map<String, Value>) -> Option<Value> {
        let reference = node.get("$ref")?.as_str()?;
        let definition = reference
            .strip_prefix("#/$defs/")
            .or_else(|| reference.strip_prefix("#/definitions/"))?;
        let plain = node.keys().all(|key| {
            super::NOTES.contains(&key.as_str()) || key == "$ref" || key == "description"
        });
        if definition.contains('/')
            || !plain
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

    fn any_of(
        &mut self,
        node: &Map<String, Value>,
        keyword: &str,
        ways: &[Value],
    ) -> Strict<Value> {
        if properties(node).is_some() || node.contains_key("items") {
            return self.refuse("alternatives beside properties cannot be expressed");
        }
        if ways.is_empty() {
            return self.refuse("a choice without alternatives cannot be expressed");
        }
        if keyword == "oneOf" {
            self.view.change(
                ChangeCode::OneOfMadeAnyOf,
                "\"oneOf\" is shown as \"anyOf\"",
            );
        }
        let mut shown_ways = Vec::with_capacity(ways.len());
        for (index, way) in ways.iter().enumerate() {
            let mut way = way.clone();
            // The kind may stand beside the alternatives.
            if let (Value::Object(way), Some(kind)) = (&mut way, node.get("type"))
                && !way.contains_key("$ref")
            {
                way.entry("type").or_insert_with(|| kind.clone());
            }
            let index = index.to_string();
            shown_ways.push(self.below(&[keyword, &index], |strictly| strictly.schema(&way))?);
        }
        let mut shown = Map::new();
        self.describe(node, &mut shown);
        for keyword in node
            .keys()
            .filter(|key| !["anyOf", "oneOf", "type", "description"].contains(&key.as_str()))
        {
            if !super::NOTES.contains(&keyword.as_str()) {
                self.view.dropped(keyword);
            }
        }
        shown.insert("anyOf".to_owned(), Value::Array(shown_ways));
        Ok(Value::Object(
            if node.get("nullable") == Some(&Value::Bool(true)) {
                nullable_too(shown)
            } else {
                shown
            },
        ))
    }

    /// A value out of a list.
    fn one_of(&mut self, node: &Map<String, Value>, values: &[&Value]) -> Strict<Value> {
        if values.is_empty()
            || values
                .iter()
                .any(|value| value.is_object() || value.is_array())
        {
            return self.refuse("a list of values that are no plain ones cannot be expressed");
        }
        let characters = values
            .iter()
            .map(|value| value.as_str().map_or(0, |text| text.chars().count()))
            .sum::<usize>();
        self.counts.enum_values += values.len();
        self.counts.characters += characters;
        if self.openai && values.len() > LONG_ENUM && characters > MAX_LONG_ENUM_CHARACTERS {
            return self.refuse(format!(
                "a list of more than {LONG_ENUM} values may have {MAX_LONG_ENUM_CHARACTERS} characters"
            ));
        }
        let mut kinds: Vec<&str> = Vec::new();
        for value in values {
            let kind = super::kind_of(value);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut shown = Map::new();
        let kind = if let [one] = kinds[..] {
            json!(one)
        } else {
            json!(kinds)
        };
        shown.insert("type".to_owned(), kind);
        self.describe_all_but(node, &mut shown, |keyword| {
            ["type", "enum", "const"].contains(&keyword)
        });
        shown.insert("enum".to_owned(), json!(values));
        if node.get("nullable") == Some(&Value::Bool(true)) {
            shown = nullable_too(shown);
        }
        Ok(Value::Object(shown))
    }

    fn of_kind(&mut self, kind: &str, node: &Map<String, Value>) -> Strict<Map<String, Value>> {
        match kind {
            "object" => self.object(node),
            "array" => self.array(node),
            "string" | "number" | "integer" | "boolean" => {
                let mut shown = Map::from_iter([("type".to_owned(), json!(kind))]);
                self.constrain(kind, node, &mut shown);
                Ok(shown)
            }
            _ => self.refuse(format!("{kind:?} is not a type")),
        }
    }

    fn array(&mut self, node: &Map<String, Value>) -> Strict<Map<String, Value>> {
        let items = match node.get("items") {
            Some(items @ Value::Object(_)) if !node.contains_key("prefixItems") => items,
            _ => return self.refuse(
                "a list of values of any kind, or of one kind at each place, cannot be expressed",
            ),
        };
        let mut shown = Map::from_iter([("type".to_owned(), json!("array"))]);
        self.constrain("array", node, &mut shown);
        let items =
            self.nested(|strictly| strictly.below(&["items"], |strictly| strictly.schema(items)))?;
        shown.insert("items".to_owned(), items);
        Ok(shown)
    }

    fn object(&mut self, node: &Map<String, Value>) -> Strict<Map<String, Value>> {
        let open = match node.get("additionalProperties") {
            Some(Value::Bool(false)) => false,
            Some(_) => true,
            None => properties(node).is_none_or(Map::is_empty),
        };
        if open || node.contains_key("patternProperties") {
            return self.refuse(OPEN);
        }
        let mut shown = Map::from_iter([("type".to_owned(), json!("object"))]);
        self.constrain("object", node, &mut shown);
        if !node.contains_key("additionalProperties") {
            self.view.change(
                ChangeCode::ObjectClosed,
                "properties beside the named ones are not allowed",
            );
        }
        let empty = Map::new();
        let properties = properties(node).unwrap_or(&empty);
        let names = self.view.property_names(properties);
        let needed = required(node);
        if let Some(missing) = needed.iter().find(|name| !properties.contains_key(**name)) {
            return self.refuse(format!("{missing:?} is required and has no schema"));
        }
        let (mut all, mut shown_required) = (Map::new(), Vec::new());
        for (key, schema) in properties {
            self.counts.properties += 1;
            self.counts.characters += key.chars().count();
            let optional = !needed.contains(&key.as_str());
            let name = names.get(key).unwrap_or(key);
            let schema = self.nested(|strictly| {
                strictly.below(&["properties", key], |strictly| {
                    let schema = strictly.schema(schema)?;
                    if !(optional && strictly.openai) {
                        return Ok(schema);
                    }
                    strictly.view.change(
                        ChangeCode::OptionalMadeNullable,
                        "optional: null stands for leaving it out",
                    );
                    let Value::Object(schema) = schema else {
                        return Ok(schema);
                    };
                    Ok(Value::Object(nullable_too(schema)))
                })
            })?;
            if !optional || self.openai {
                shown_required.push(name.clone());
            }
            all.insert(name.clone(), schema);
        }
        shown.insert("properties".to_owned(), Value::Object(all));
        shown.insert("required".to_owned(), json!(shown_required));
        shown.insert("additionalProperties".to_owned(), Value::Bool(false));
        Ok(shown)
    }

    fn nested<T>(&mut self, work: impl FnOnce(&mut Self) -> Strict<T>) -> Strict<T> {
        self.nesting += 1;
        if self.openai && self.nesting > MAX_NESTING {
            return self.refuse(format!("it is nested deeper than {MAX_NESTING} levels"));
        }
        let done = work(self);
        self.nesting -= 1;
        done
    }

    /// Copies the constraints that the provider knows; the others go into the description.
    fn constrain(&mut self, kind: &str, node: &Map<String, Value>, shown: &mut Map<String, Value>) {
        let of_kind: &[&str] = match kind {
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
        let known = |keyword: &str, value: &Value| {
            of_kind.contains(&keyword)
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
            SHAPE.contains(&keyword) || node.get(keyword).is_some_and(|value| known(keyword, value))
        };
        self.describe_all_but(node, shown, keep);
        for (keyword, value) in node {
            if known(keyword, value) {
                shown.insert(keyword.clone(), value.clone());
            }
        }
    }

    fn describe(&mut self, node: &Map<String, Value>, shown: &mut Map<String, Value>) {
        if let Some(text) = node.get("description").filter(|text| text.is_string()) {
            shown.insert("description".to_owned(), text.clone());
        }
    }

    fn describe_all_but(
        &mut self,
        node: &Map<String, Value>,
        shown: &mut Map<String, Value>,
        keep: impl Fn(&str) -> bool,
    ) {
        let keep =
            |keyword: &str| keyword == "description" || keyword == "nullable" || keep(keyword);
        if let Some(text) = self.view.description(node, keep) {
            shown.insert("description".to_owned(), Value::String(text));
        }
    }

    fn check_counts(&self) -> Strict<()> {
        if !self.openai {
            return Ok(());
        }
        let Counts {
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

/// Lets a shown schema take null as well.
fn nullable_too(mut shown: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(ways)) = shown.get_mut("anyOf") {
        if !ways.iter().any(|way| {
            way.get("type")
                .is_some_and(|kind| super::includes(kind, "null"))
        }) {
            ways.push(json!({"type": "null"}));
        }
        return shown;
    }
    if shown.contains_key("$ref") {
        return Map::from_iter([("anyOf".to_owned(), json!([shown, {"type": "null"}]))]);
    }
    if let Some(kind) = shown.get_mut("type") {
        match kind {
            Value::Array(kinds) if !kinds.contains(&json!("null")) => kinds.push(json!("null")),
            Value::String(one) if one != "null" => *kind = json!([one, "null"]),
            _ => {}
        }
    }
    if let Some(Value::Array(values)) = shown.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    shown
}

/// Where the references of a schema lead.
fn targets(schema: &Value, found: &mut Vec<String>) {
    found.extend(
        schema
            .get("$ref")
            .and_then(Value::as_str)
            .map(str::to_owned),
    );
    within(schema).for_each(|value| targets(value, found));
}

/// Whether a definition leads back to itself.
fn is_recursive(schema: &Value) -> bool {
    let holders = DEFINITIONS
        .into_iter()
        .filter_map(|holder| Some((holder, schema.get(holder)?.as_object()?)));
    let edges: HashMap<String, Vec<String>> = holders
        .flat_map(|(holder, named)| {
            named.iter().map(move |(name, schema)| {
                let mut found = Vec::new();
                targets(schema, &mut found);
                (format!("#/{holder}/{}", pointer_part(name)), found)
            })
        })
        .collect();
    // Definitions that refer to none that is left are taken away until nothing changes; what stays
    // is a circle.
    let mut left: HashSet<&str> = edges.keys().map(String::as_str).collect();
    loop {
        let before = left.len();
        let ends: Vec<&str> = left
            .iter()
            .copied()
            .filter(|name| {
                edges
                    .get(*name)
                    .is_none_or(|to| to.iter().all(|target| !left.contains(target.as_str())))
            })
            .collect();
        ends.iter().for_each(|name| {
            left.remove(name);
        });
        if left.len() == before || left.is_empty() {
            return !left.is_empty();
        }
    }
}
