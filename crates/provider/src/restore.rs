//! Conversion of arguments from a view back to the canonical schema.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::Provider;
use super::naming::NameRule;
use super::view;
use picktools::json::first_long_number;
use picktools::schema;
use picktools::schema::pointer_part;

/// The deepest nesting of arguments that is converted.
const MAX_DEPTH: usize = 128;
/// The largest number of steps through the schema, including repeated references.
const MAX_STEPS: usize = 2_000_000;
/// The largest number of schemas for one value.
const MAX_SCHEMAS_PER_VALUE: usize = 256;
/// The largest total size of the listed pointers, in bytes.
const MAX_POINTER_BYTES: usize = 1 << 20;

impl Provider {
    /// Converts `arguments` from the provider's view of `schema` to the canonical schema, and
    /// returns the JSON pointers of the changed values.
    ///
    /// Renamed properties get their original names. A null is removed if it represents an absent
    /// optional property in a strict view. For Gemini, strings that represent other listed values,
    /// or values without a Gemini type, are decoded. Nothing is validated.
    ///
    /// The work is bounded. Values that are nested deeper than 128 levels, or beyond the step
    /// limit, stay unchanged. The list of pointers is cut at one mebibyte.
    pub fn restore_arguments(self, schema: &Value, arguments: &mut Value) -> Vec<String> {
        let rules = self.format().rules();
        let mut restorer = ArgumentRestorer {
            root: schema,
            keys: rules.property_keys,
            decode: rules.dialect == view::Dialect::Gemini,
            steps: MAX_STEPS,
            pointer: String::new(),
            bytes: 0,
            changed: Vec::new(),
        };
        restorer.restore(arguments, &[schema], 0);
        restorer.changed
    }
}

/// The schema of a value without constraints.
static ANY: Value = Value::Bool(true);

struct ArgumentRestorer<'s> {
    root: &'s Value,
    keys: Option<NameRule>,
    decode: bool,
    steps: usize,
    pointer: String,
    bytes: usize,
    changed: Vec<String>,
}

/// The schemas that apply to one value: those that must hold, and alternatives.
#[derive(Default)]
struct ApplicableSchemas<'s> {
    all: Vec<&'s Map<String, Value>>,
    some: Vec<&'s Map<String, Value>>,
}

impl<'s> ApplicableSchemas<'s> {
    fn nodes(&self) -> impl Iterator<Item = &'s Map<String, Value>> {
        self.all.iter().chain(&self.some).copied()
    }

    /// Returns the schemas that `properties` gives to a property.
    fn own_schemas(&self, key: &str) -> Vec<&'s Value> {
        self.nodes()
            .filter_map(|node| node.get("properties")?.get(key))
            .collect()
    }

    /// Returns the schemas of a property; any value is allowed if the property is only required.
    fn property_schemas(&self, key: &str, required: &HashSet<&str>) -> Vec<&'s Value> {
        let own_schemas = self.own_schemas(key);
        if !own_schemas.is_empty() {
            return own_schemas;
        }
        let additional: Vec<&Value> = self
            .nodes()
            .filter_map(|node| node.get("additionalProperties"))
            .collect();
        if additional.is_empty() && required.contains(key) {
            vec![&ANY]
        } else {
            additional
        }
    }

    /// Returns the schemas of an item; any value is allowed if no schema applies.
    fn item_schemas(&self, index: usize) -> Vec<&'s Value> {
        let mut item_schemas: Vec<&Value> = Vec::new();
        for node in self.nodes() {
            item_schemas.extend(item_schema(node, index));
        }
        if item_schemas.is_empty() {
            vec![&ANY]
        } else {
            item_schemas
        }
    }

    /// Returns `true` if the schemas do not restrict the type.
    fn has_no_type(&self) -> bool {
        self.nodes()
            .all(|node| view::kinds(node) == (Vec::new(), false))
    }
}

/// Returns a node's schema of an item: the one of its position, or the one of all items.
fn item_schema(node: &Map<String, Value>, index: usize) -> Option<&Value> {
    let items = node.get("items");
    if let Some(Value::Array(tuple)) = node.get("prefixItems").or(items)
        && let Some(schema) = tuple.get(index)
    {
        return Some(schema);
    }
    match items {
        Some(schema @ Value::Object(_)) => Some(schema),
        _ => None,
    }
}

/// The names of the properties of one value.
#[derive(Default)]
struct PropertyNames<'s> {
    originals: HashSet<&'s str>,
    /// The original name by shown name; `None` if it is ambiguous.
    by_shown_name: HashMap<String, Option<&'s str>>,
}

impl<'s> PropertyNames<'s> {
    fn add(&mut self, name: &'s str, rule: NameRule) {
        if !self.originals.insert(name) || rule.allows(name) {
            return;
        }
        for shown in rule.possible_names(name) {
            let original = self.by_shown_name.entry(shown).or_insert(Some(name));
            if *original != Some(name) {
                *original = None;
            }
        }
    }

    /// Returns the original name of a key; `None` if the key stays as it is.
    fn original(&self, key: &str, members: &Map<String, Value>) -> Option<&'s str> {
        let name = (*self.by_shown_name.get(key)?)?;
        (!self.originals.contains(key) && !members.contains_key(name)).then_some(name)
    }
}

impl<'s> ArgumentRestorer<'s> {
    fn restore(&mut self, value: &mut Value, schemas: &[&'s Value], depth: usize) {
        if depth > MAX_DEPTH || schemas.is_empty() || self.steps == 0 {
            return;
        }
        let mut applicable = ApplicableSchemas::default();
        for schema in schemas {
            self.collect(schema, schemas.len() == 1, 0, &mut applicable);
        }
        let decode = self.decode;
        if let (true, Value::String(text)) = (decode, &*value)
            && let Some(decoded) = self.decode_text(text, schemas, &applicable)
        {
            *value = decoded;
            self.record();
            // The text already contains JSON, so that nested strings are not decoded.
            self.decode = false;
        }
        self.restore_members(value, &applicable, depth);
        self.decode = decode;
    }

    fn restore_members(
        &mut self,
        value: &mut Value,
        applicable: &ApplicableSchemas<'s>,
        depth: usize,
    ) {
        match value {
            Value::Object(members) => {
                self.rename(members, applicable);
                self.remove_nulls(members, applicable);
                let Some(required) = self.required(applicable.nodes()) else {
                    return;
                };
                for (key, member) in members.iter_mut() {
                    if !self.spend(applicable.all.len() + applicable.some.len()) {
                        return;
                    }
                    self.below(key, |restorer| {
                        restorer.restore(
                            member,
                            &applicable.property_schemas(key, &required),
                            depth + 1,
                        );
                    });
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if !self.spend(applicable.all.len() + applicable.some.len()) {
                        return;
                    }
                    self.below(&index.to_string(), |restorer| {
                        restorer.restore(item, &applicable.item_schemas(index), depth + 1);
                    });
                }
            }
            _ => {}
        }
    }

    /// Collects the schemas that a schema applies to its value, following references.
    fn collect(
        &mut self,
        schema: &'s Value,
        holds: bool,
        depth: usize,
        applicable: &mut ApplicableSchemas<'s>,
    ) {
        let Value::Object(node) = schema else { return };
        let is_known = applicable.nodes().any(|other| std::ptr::eq(other, node));
        let is_full = applicable.all.len() + applicable.some.len() >= MAX_SCHEMAS_PER_VALUE;
        if is_known || is_full || depth > MAX_DEPTH || !self.spend(1) {
            return;
        }
        let list = if holds {
            &mut applicable.all
        } else {
            &mut applicable.some
        };
        list.push(node);
        if let Some(reference) = view::text_member(node, "$ref")
            && let Some(target) = schema::resolve(self.root, reference)
        {
            self.collect(target, holds, depth + 1, applicable);
        }
        for (keyword, holds) in [("allOf", holds), ("anyOf", false), ("oneOf", false)] {
            for part in view::array_member(node, keyword) {
                self.collect(part, holds, depth + 1, applicable);
            }
        }
        for keyword in ["then", "else"] {
            if let Some(part) = node.get(keyword) {
                self.collect(part, false, depth + 1, applicable);
            }
        }
    }

    /// Takes steps from the budget; returns `true` if enough were left.
    fn spend(&mut self, steps: usize) -> bool {
        let is_enough = self.steps > steps;
        self.steps = self.steps.saturating_sub(steps);
        is_enough
    }

    /// Collects the required names; `None` if the step budget is exhausted.
    fn required(
        &mut self,
        nodes: impl Iterator<Item = &'s Map<String, Value>>,
    ) -> Option<HashSet<&'s str>> {
        let mut lists: Vec<&Vec<Value>> = Vec::new();
        let mut steps = 0;
        for node in nodes {
            if let Some(Value::Array(list)) = node.get("required") {
                lists.push(list);
                steps += list.len();
            }
        }
        if !self.spend(steps) {
            return None;
        }
        let names = lists.into_iter().flatten();
        Some(names.filter_map(Value::as_str).collect())
    }

    /// Collects the names of the properties; `None` if the step budget is exhausted.
    fn property_names(
        &mut self,
        rule: NameRule,
        applicable: &ApplicableSchemas<'s>,
    ) -> Option<PropertyNames<'s>> {
        let mut names = PropertyNames::default();
        for node in applicable.nodes() {
            for name in view::properties(node).into_iter().flat_map(Map::keys) {
                if !self.spend(1) {
                    return None;
                }
                names.add(name, rule);
            }
            // Properties that are only required are part of a view too.
            for name in view::array_member(node, "required") {
                let Value::String(name) = name else { continue };
                if !self.spend(1) {
                    return None;
                }
                names.add(name, rule);
            }
        }
        Some(names)
    }

    /// Restores the original names of renamed properties.
    fn rename(&mut self, members: &mut Map<String, Value>, applicable: &ApplicableSchemas<'s>) {
        let Some(rule) = self.keys else { return };
        let Some(known_names) = self.property_names(rule, applicable) else {
            return;
        };
        let names: Vec<Option<&str>> = members
            .keys()
            .map(|key| known_names.original(key, members))
            .collect();
        if names.iter().all(Option::is_none) {
            return;
        }
        // The map is rebuilt to keep the order.
        for ((key, value), name) in std::mem::take(members).into_iter().zip(names) {
            match name {
                Some(name) if !members.contains_key(name) => {
                    self.below(name, Self::record);
                    members.insert(name.to_owned(), value);
                }
                _ => {
                    members.insert(key, value);
                }
            }
        }
    }

    /// Removes nulls that represent absent properties.
    fn remove_nulls(
        &mut self,
        members: &mut Map<String, Value>,
        applicable: &ApplicableSchemas<'s>,
    ) {
        let mut nulls: Vec<String> = Vec::new();
        for (key, value) in members.iter() {
            if value.is_null() {
                nulls.push(key.clone());
            }
        }
        if nulls.is_empty() {
            return;
        }
        let Some(required) = self.required(applicable.all.iter().copied()) else {
            return;
        };
        for key in nulls {
            if !self.spend(applicable.all.len() + applicable.some.len()) {
                return;
            }
            let property_schemas = applicable.own_schemas(&key);
            let is_optional = !required.contains(key.as_str()) && !property_schemas.is_empty();
            if is_optional
                && !property_schemas
                    .iter()
                    .any(|schema| self.accepts(schema, "null", 0))
            {
                members.shift_remove(&key);
                self.below(&key, Self::record);
            }
        }
    }

    /// Decodes a string that represents another value; `None` if the string is meant literally.
    fn decode_text(
        &mut self,
        text: &str,
        schemas: &[&'s Value],
        applicable: &ApplicableSchemas<'s>,
    ) -> Option<Value> {
        let mut values: Vec<&Value> = Vec::new();
        for node in applicable.nodes() {
            values.extend(node.get("const"));
            values.extend(view::array_member(node, "enum"));
        }
        if !self.spend(values.len()) {
            return None;
        }
        if values.iter().any(|value| value.as_str() == Some(text)) {
            return None;
        }
        let is_same = |value: &&&Value| !value.is_string() && value.to_string() == text;
        if let Some(value) = values.iter().find(is_same) {
            return Some((**value).clone());
        }
        let is_untyped = applicable.has_no_type();
        if !is_untyped
            && schemas
                .iter()
                .any(|schema| self.accepts(schema, "string", 0))
        {
            return None;
        }
        // A text with a number that is rounded stays a text.
        if first_long_number(text).is_some() {
            return None;
        }
        let decoded: Value = serde_json::from_str(text).ok()?;
        if is_untyped {
            return Some(decoded);
        }
        let kind = match &decoded {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            _ => return None,
        };
        schemas
            .iter()
            .any(|schema| self.accepts(schema, kind, 0))
            .then_some(decoded)
    }

    /// Returns `true` if a schema accepts values of a type, judged by its types and listed values.
    fn accepts(&mut self, schema: &Value, kind: &str, depth: usize) -> bool {
        let Value::Object(node) = schema else {
            return *schema != Value::Bool(false);
        };
        if depth > MAX_DEPTH || self.steps == 0 {
            return true;
        }
        self.steps -= 1;
        if node
            .get("type")
            .is_some_and(|types| !view::includes(types, kind))
        {
            return false;
        }
        let is_kind = |value: &Value| view::kind_of(value) == kind;
        if node.get("const").is_some_and(|value| !is_kind(value)) {
            return false;
        }
        if let Some(Value::Array(values)) = node.get("enum")
            && !values.iter().any(is_kind)
        {
            return false;
        }
        if let Some(reference) = view::text_member(node, "$ref")
            && let Some(target) = schema::resolve(self.root, reference)
            && !self.accepts(target, kind, depth + 1)
        {
            return false;
        }
        let mut all_of = view::array_member(node, "allOf").iter();
        all_of.all(|part| self.accepts(part, kind, depth + 1))
            && self.accepts_any(view::array_member(node, "anyOf"), kind, depth)
            && self.accepts_any(view::array_member(node, "oneOf"), kind, depth)
    }

    /// Returns `true` if an alternative accepts values of a type, or if there are no alternatives.
    fn accepts_any(&mut self, alternatives: &[Value], kind: &str, depth: usize) -> bool {
        alternatives.is_empty()
            || alternatives
                .iter()
                .any(|alternative| self.accepts(alternative, kind, depth + 1))
    }

    fn below<T>(&mut self, part: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let end = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&pointer_part(part));
        let result = work(self);
        self.pointer.truncate(end);
        result
    }

    fn record(&mut self) {
        self.bytes = self.bytes.saturating_add(self.pointer.len());
        if self.bytes <= MAX_POINTER_BYTES {
            self.changed.push(self.pointer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn restore(provider: Provider, schema: &Value, mut arguments: Value) -> (Value, Vec<String>) {
        let changed = provider.restore_arguments(schema, &mut arguments);
        (arguments, changed)
    }

    #[test]
    fn restore_gives_renamed_properties_their_names() {
        let schema = json!({"properties": {"$top": {"type": "integer"}, "page": {}, "list": {"type": "array", "items":
            {"$ref": "#/$defs/entry"}}}, "$defs": {"entry": {"properties": {"the name": {}, "the/name": {}}}}});
        let keys = ["the name".to_owned(), "the/name".to_owned()];
        let rule = Provider::Anthropic.format().rules().property_keys;
        let one = crate::naming::property_keys(rule, keys.iter());
        let arguments = json!({"_top": 5, "page": 1, "list": [{one["the name"].clone(): 1, one["the/name"].clone(): 2}]});
        let (arguments, changed) = restore(Provider::Anthropic, &schema, arguments);
        assert_eq!(
            arguments,
            json!({"$top": 5, "page": 1, "list": [{"the name": 1, "the/name": 2}]})
        );
        assert_eq!(changed, ["/$top", "/list/0/the name", "/list/0/the~1name"]);
        // Keys that are not a renamed property stay.
        let odd = json!({"_top": 1, "$top": 2, "other": 3});
        assert_eq!(
            restore(Provider::Anthropic, &schema, odd.clone()),
            (odd, vec![])
        );
    }

    #[test]
    fn restore_removes_nulls_of_absent_properties() {
        let schema = json!({"required": ["must"], "properties": {
            "must": {"type": "string"}, "may": {"type": "string"}, "null": {"type": ["string", "null"]},
            "any": {}, "ref": {"$ref": "#/$defs/x"}, "way": {"anyOf": [{"type": "null"}, {"type": "object"}]},
            "one": {"enum": ["a"]}, "in": {"type": "object", "properties": {"may": {"type": "integer"}}}},
            "$defs": {"x": {"type": "integer"}}});
        let nulls = json!({"must": null, "may": null, "null": null, "any": null, "ref": null, "way": null, "one": null,
            "in": {"may": null}, "other": null});
        let (arguments, changed) = restore(Provider::OpenAiChat, &schema, nulls);
        assert_eq!(
            arguments,
            json!({"must": null, "null": null, "any": null, "way": null, "in": {}, "other": null})
        );
        assert_eq!(changed, ["/may", "/ref", "/one", "/in/may"]);
    }

    #[test]
    fn restore_keeps_text_with_a_long_number() {
        let schema = json!({"properties": {"any": {}}});
        let arguments = json!({"any": "[1000000000000000000000000000001]"});
        assert_eq!(
            restore(Provider::Gemini, &schema, arguments.clone()),
            (arguments, vec![])
        );
    }

    #[test]
    fn restore_decodes_text_for_gemini_only() {
        let schema = json!({"properties": {"level": {"enum": [1, 2.5, true, "3"]}, "map": {"type": "object"},
            "text": {"type": "string"}, "any": {}, "list": {"type": "array", "items": {"type": "array"}}}});
        let texts = json!({"level": "2.5", "map": "{\"a\": \"1\"}", "text": "{}", "any": "[\"1\"]", "list": ["[1]", "x"]});
        let (arguments, changed) = restore(Provider::Gemini, &schema, texts.clone());
        assert_eq!(
            arguments,
            json!({"level": 2.5, "map": {"a": "1"}, "text": "{}", "any": ["1"], "list": [[1], "x"]})
        );
        assert_eq!(changed, ["/level", "/map", "/any", "/list/0"]);
        assert_eq!(
            restore(Provider::Gemini, &schema, json!({"any": "Oslo"})).0,
            json!({"any": "Oslo"}),
            "that is not JSON"
        );
        assert_eq!(
            restore(Provider::Gemini, &schema, json!({"level": "3"})).0,
            json!({"level": "3"})
        );
        assert_eq!(
            restore(Provider::OpenAiChat, &schema, texts.clone()).0,
            texts,
            "others have no such texts"
        );
    }

    #[test]
    fn restore_ends_on_circles_and_deep_arguments() {
        let schema = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [
            {"$ref": "#/$defs/a"}, {"properties": {"next": {"$ref": "#"}, "may": {"type": "integer"}}}]}}});
        let mut deep = json!({"may": null});
        for _ in 0..500 {
            deep = json!({"next": deep, "may": null});
        }
        let changed = Provider::OpenAiChat.restore_arguments(&schema, &mut deep);
        assert_eq!(changed.len(), MAX_DEPTH + 1);
        let wide = json!({"properties": {"a": {"allOf": vec![json!({"$ref": "#"}); 1000]}}, "allOf": vec![json!({}); 1000]});
        Provider::Anthropic.restore_arguments(&wide, &mut json!({"a": {"a": {"a": null}}}));
        let names: Vec<String> = (0..20_000).map(|number| format!("${number}")).collect();
        let many = json!({"type": "array", "items": {"required": names, "properties": {"x": {"enum": names}}}});
        let mut objects = Value::Array(vec![json!({"x": "y", "_1": null}); 20_000]);
        let started = std::time::Instant::now();
        Provider::Gemini.restore_arguments(&many, &mut objects);
        assert!(started.elapsed().as_secs() < 60, "it would be hours");
    }
}
