//! From the arguments of a view back to those of the canonical schema.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::Provider;
use super::naming::NameRule;
use super::view;
use picktools::schema;
use picktools::schema::pointer_part;

/// How deep arguments are walked.
const MAX_DEPTH: usize = 128;
/// How many steps are taken in the schema in all, however often its references lead on.
const MAX_STEPS: usize = 2_000_000;
/// The most schemas that are looked at for one place.
const MAX_SAID: usize = 256;
/// The most bytes of pointers that are listed.
const MAX_POINTER_BYTES: usize = 1 << 20;

impl Provider {
    /// Undoes in `arguments` what the provider's view of `schema` made of them, and returns the
    /// JSON pointers of what it changed, as they are afterwards.
    ///
    /// Renamed properties get their names back. A null is removed where it stands for an optional
    /// property that cannot be null, which is how a strict view leaves one out. For Gemini, listed
    /// values that are no strings and JSON text for what has no shape there become what they stand
    /// for. `schema` is the canonical one; nothing is validated.
    ///
    /// The work is bounded: where arguments are nested deeper than 128 levels, or a hostile schema
    /// leads on and on, what lies beyond is left as it is. The list is cut where it would grow
    /// beyond a mebibyte.
    pub fn restore_arguments(self, schema: &Value, arguments: &mut Value) -> Vec<String> {
        let rules = self.format().rules();
        let mut walk = Walk {
            root: schema,
            keys: rules.property_keys,
            decode: rules.dialect == view::Dialect::Gemini,
            steps: MAX_STEPS,
            pointer: String::new(),
            bytes: 0,
            changed: Vec::new(),
        };
        walk.restore(arguments, &[schema], 0);
        walk.changed
    }
}

/// The schema of what nothing is said of.
static ANY: Value = Value::Bool(true);

struct Walk<'s> {
    root: &'s Value,
    keys: Option<NameRule>,
    decode: bool,
    steps: usize,
    pointer: String,
    bytes: usize,
    changed: Vec<String>,
}

/// What is said of one place: by schemas that all hold, and by alternatives of which one holds.
#[derive(Default)]
struct Said<'s> {
    all: Vec<&'s Map<String, Value>>,
    some: Vec<&'s Map<String, Value>>,
}

impl<'s> Said<'s> {
    fn nodes(&self) -> impl Iterator<Item = &'s Map<String, Value>> {
        self.all.iter().chain(&self.some).copied()
    }

    /// The schemas of a property; any value is taken for one that is only required.
    fn of_property(&self, key: &str, required: &HashSet<&str>) -> Vec<&'s Value> {
        let named: Vec<&Value> = self
            .nodes()
            .filter_map(|node| node.get("properties")?.get(key))
            .collect();
        if !named.is_empty() {
            return named;
        }
        let more: Vec<&Value> = self
            .nodes()
            .filter_map(|node| node.get("additionalProperties"))
            .collect();
        if more.is_empty() && required.contains(key) {
            vec![&ANY]
        } else {
            more
        }
    }

    /// The schemas of an item; any value is taken where none is given.
    fn of_item(&self, index: usize) -> Vec<&'s Value> {
        let item = |node: &'s Map<String, Value>| {
            let tuple = node
                .get("prefixItems")
                .or_else(|| node.get("items"))
                .and_then(Value::as_array);
            tuple
                .and_then(|tuple| tuple.get(index))
                .or_else(|| node.get("items").filter(|items| items.is_object()))
        };
        let given: Vec<&Value> = self.nodes().filter_map(item).collect();
        if given.is_empty() { vec![&ANY] } else { given }
    }

    /// Whether nothing tells of what kind the value is.
    fn tells_nothing(&self) -> bool {
        self.nodes()
            .all(|node| view::kinds(node) == (Vec::new(), false))
    }
}

impl<'s> Walk<'s> {
    fn restore(&mut self, value: &mut Value, schemas: &[&'s Value], depth: usize) {
        if depth > MAX_DEPTH || schemas.is_empty() || self.steps == 0 {
            return;
        }
        let mut said = Said::default();
        for schema in schemas {
            self.collect(schema, schemas.len() == 1, 0, &mut said);
        }
        let decode = self.decode;
        if let (true, Value::String(text)) = (decode, &*value)
            && let Some(meant) = self.meant(text, schemas, &said)
        {
            *value = meant;
            self.record();
            // What stands in the text is JSON already.
            self.decode = false;
        }
        self.restore_members(value, &said, depth);
        self.decode = decode;
    }

    fn restore_members(&mut self, value: &mut Value, said: &Said<'s>, depth: usize) {
        match value {
            Value::Object(members) => {
                self.rename(members, said);
                self.remove_nulls(members, said);
                let Some(required) = self.required(said.nodes()) else {
                    return;
                };
                for (key, member) in members.iter_mut() {
                    if !self.spend(said.all.len() + said.some.len()) {
                        return;
                    }
                    self.below(key, |walk| {
                        walk.restore(member, &said.of_property(key, &required), depth + 1)
                    });
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if !self.spend(said.all.len() + said.some.len()) {
                        return;
                    }
                    self.below(&index.to_string(), |walk| {
                        walk.restore(item, &said.of_item(index), depth + 1)
                    });
                }
            }
            _ => {}
        }
    }

    /// Collects what a schema says of its place itself, with references followed.
    fn collect(&mut self, schema: &'s Value, holds: bool, depth: usize, said: &mut Said<'s>) {
        let Value::Object(node) = schema else { return };
        let known = said.nodes().any(|known| std::ptr::eq(known, node));
        let many = said.all.len() + said.some.len() >= MAX_SAID;
        if known || many || depth > MAX_DEPTH || !self.spend(1) {
            return;
        }
        let list = if holds { &mut said.all } else { &mut said.some };
        list.push(node);
        if let Some(target) = node
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|to| schema::resolve(self.root, to))
        {
            self.collect(target, holds, depth + 1, said);
        }
        for (keyword, holds) in [("allOf", holds), ("anyOf", false), ("oneOf", false)] {
            for part in node
                .get(keyword)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                self.collect(part, holds, depth + 1, said);
            }
        }
        for keyword in ["then", "else"] {
            if let Some(part) = node.get(keyword) {
                self.collect(part, false, depth + 1, said);
            }
        }
    }

    /// Takes steps; returns `true` if there were so many left.
    fn spend(&mut self, steps: usize) -> bool {
        let enough = self.steps > steps;
        self.steps = self.steps.saturating_sub(steps);
        enough
    }

    /// The names that nodes require, while there are steps left to collect them.
    fn required(
        &mut self,
        nodes: impl Iterator<Item = &'s Map<String, Value>>,
    ) -> Option<HashSet<&'s str>> {
        let lists: Vec<&Vec<Value>> = nodes
            .filter_map(|node| node.get("required")?.as_array())
            .collect();
        let names = || {
            lists
                .iter()
                .copied()
                .flatten()
                .filter_map(Value::as_str)
                .collect()
        };
        self.spend(lists.iter().map(|list| list.len()).sum())
            .then(names)
    }

    /// Gives renamed properties their names back.
    fn rename(&mut self, members: &mut Map<String, Value>, said: &Said<'s>) {
        let Some(rule) = self.keys else { return };
        // What is only required is shown as a property too.
        let names = said.nodes().flat_map(|node| {
            let properties = node
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Map::keys);
            let required = node
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            properties
                .map(String::as_str)
                .chain(required.filter_map(Value::as_str))
        });
        let mut known: HashSet<&str> = HashSet::new();
        // What a key stands for; nothing where that may be two.
        let mut meant: HashMap<String, Option<&str>> = HashMap::new();
        for name in names {
            if !self.spend(1) {
                return;
            }
            if !known.insert(name) || rule.allows(name) {
                continue;
            }
            for shown in rule.stands_for(name) {
                let owner = meant.entry(shown).or_insert(Some(name));
                *owner = owner.filter(|owner| *owner == name);
            }
        }
        let original = |key: &str, members: &Map<String, Value>| {
            let name = meant.get(key).copied().flatten()?;
            (!known.contains(key) && !members.contains_key(name)).then_some(name)
        };
        let names: Vec<Option<&str>> = members.keys().map(|key| original(key, members)).collect();
        if names.iter().all(Option::is_none) {
            return;
        }
        // Rebuilt, so that the order stays.
        for ((key, value), name) in std::mem::take(members).into_iter().zip(names) {
            match name.filter(|name| !members.contains_key(*name)) {
                Some(name) => {
                    self.below(name, Self::record);
                    members.insert(name.to_owned(), value);
                }
                None => {
                    members.insert(key, value);
                }
            }
        }
    }

    /// Removes nulls that stand for absent properties.
    fn remove_nulls(&mut self, members: &mut Map<String, Value>, said: &Said<'s>) {
        let nulls: Vec<String> = members
            .iter()
            .filter(|(_, value)| value.is_null())
            .map(|(key, _)| key.clone())
            .collect();
        if nulls.is_empty() {
            return;
        }
        let Some(required) = self.required(said.all.iter().copied()) else {
            return;
        };
        for key in nulls {
            if !self.spend(said.all.len() + said.some.len()) {
                return;
            }
            let named: Vec<&Value> = said
                .nodes()
                .filter_map(|node| node.get("properties")?.get(&key))
                .collect();
            let may_go = !required.contains(key.as_str()) && !named.is_empty();
            if may_go && !named.iter().any(|schema| self.takes(schema, "null", 0)) {
                members.shift_remove(&key);
                self.below(&key, Self::record);
            }
        }
    }

    /// What a string stands for where strings had to do for other things.
    fn meant(&mut self, text: &str, schemas: &[&'s Value], said: &Said<'s>) -> Option<Value> {
        let listed = |node: &'s Map<String, Value>| {
            let several = node
                .get("enum")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            node.get("const").into_iter().chain(several)
        };
        let values: Vec<&Value> = said.nodes().flat_map(listed).collect();
        if !self.spend(values.len()) {
            return None;
        }
        if values.iter().any(|value| value.as_str() == Some(text)) {
            return None;
        }
        let same = |value: &&&Value| !value.is_string() && value.to_string() == text;
        if let Some(value) = values.iter().find(same) {
            return Some((**value).clone());
        }
        let untold = said.tells_nothing();
        if !untold && schemas.iter().any(|schema| self.takes(schema, "string", 0)) {
            return None;
        }
        let decoded: Value = serde_json::from_str(text).ok()?;
        if untold {
            return Some(decoded);
        }
        let kind = match &decoded {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            _ => return None,
        };
        schemas
            .iter()
            .any(|schema| self.takes(schema, kind, 0))
            .then_some(decoded)
    }

    /// Whether a schema takes values of a kind, as far as its types and listed values tell.
    fn takes(&mut self, schema: &Value, kind: &str, depth: usize) -> bool {
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
        if node
            .get("enum")
            .and_then(Value::as_array)
            .is_some_and(|values| !values.iter().any(is_kind))
        {
            return false;
        }
        let target = node
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|to| schema::resolve(self.root, to));
        if target.is_some_and(|target| !self.takes(target, kind, depth + 1)) {
            return false;
        }
        let parts = |keyword: &str| {
            node.get(keyword)
                .and_then(Value::as_array)
                .map_or(&[][..], Vec::as_slice)
        };
        parts("allOf")
            .iter()
            .all(|part| self.takes(part, kind, depth + 1))
            && ["anyOf", "oneOf"].into_iter().all(|keyword| {
                let ways = parts(keyword);
                ways.is_empty() || ways.iter().any(|way| self.takes(way, kind, depth + 1))
            })
    }

    fn below<T>(&mut self, part: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let end = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&pointer_part(part));
        let done = work(self);
        self.pointer.truncate(end);
        done
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

    fn restored(provider: Provider, schema: &Value, mut arguments: Value) -> (Value, Vec<String>) {
        let changed = provider.restore_arguments(schema, &mut arguments);
        (arguments, changed)
    }

    #[test]
    fn renamed_properties_get_their_names_back() {
        let schema = json!({"properties": {"$top": {"type": "integer"}, "page": {}, "list": {"type": "array", "items":
            {"$ref": "#/$defs/entry"}}}, "$defs": {"entry": {"properties": {"the name": {}, "the/name": {}}}}});
        let keys = ["the name".to_owned(), "the/name".to_owned()];
        let rule = Provider::Anthropic.format().rules().property_keys;
        let one = crate::naming::property_keys(rule, keys.iter());
        let arguments = json!({"_top": 5, "page": 1, "list": [{one["the name"].clone(): 1, one["the/name"].clone(): 2}]});
        let (arguments, changed) = restored(Provider::Anthropic, &schema, arguments);
        assert_eq!(
            arguments,
            json!({"$top": 5, "page": 1, "list": [{"the name": 1, "the/name": 2}]})
        );
        assert_eq!(changed, ["/$top", "/list/0/the name", "/list/0/the~1name"]);
        // What is nobody's, or somebody's already, stays.
        let odd = json!({"_top": 1, "$top": 2, "other": 3});
        assert_eq!(
            restored(Provider::Anthropic, &schema, odd.clone()),
            (odd, vec![])
        );
    }

    #[test]
    fn nulls_are_removed_where_they_stand_for_nothing() {
        let schema = json!({"required": ["must"], "properties": {
            "must": {"type": "string"}, "may": {"type": "string"}, "null": {"type": ["string", "null"]},
            "any": {}, "ref": {"$ref": "#/$defs/x"}, "way": {"anyOf": [{"type": "null"}, {"type": "object"}]},
            "one": {"enum": ["a"]}, "in": {"type": "object", "properties": {"may": {"type": "integer"}}}},
            "$defs": {"x": {"type": "integer"}}});
        let nulls = json!({"must": null, "may": null, "null": null, "any": null, "ref": null, "way": null, "one": null,
            "in": {"may": null}, "other": null});
        let (arguments, changed) = restored(Provider::OpenAiChat, &schema, nulls);
        assert_eq!(
            arguments,
            json!({"must": null, "null": null, "any": null, "way": null, "in": {}, "other": null})
        );
        assert_eq!(changed, ["/may", "/ref", "/one", "/in/may"]);
    }

    #[test]
    fn gemini_s_texts_become_what_they_stand_for() {
        let schema = json!({"properties": {"level": {"enum": [1, 2.5, true, "3"]}, "map": {"type": "object"},
            "text": {"type": "string"}, "any": {}, "list": {"type": "array", "items": {"type": "array"}}}});
        let texts = json!({"level": "2.5", "map": "{\"a\": \"1\"}", "text": "{}", "any": "[\"1\"]", "list": ["[1]", "x"]});
        let (arguments, changed) = restored(Provider::Gemini, &schema, texts.clone());
        assert_eq!(
            arguments,
            json!({"level": 2.5, "map": {"a": "1"}, "text": "{}", "any": ["1"], "list": [[1], "x"]})
        );
        assert_eq!(changed, ["/level", "/map", "/any", "/list/0"]);
        assert_eq!(
            restored(Provider::Gemini, &schema, json!({"any": "Oslo"})).0,
            json!({"any": "Oslo"}),
            "that is not JSON"
        );
        assert_eq!(
            restored(Provider::Gemini, &schema, json!({"level": "3"})).0,
            json!({"level": "3"})
        );
        assert_eq!(
            restored(Provider::OpenAiChat, &schema, texts.clone()).0,
            texts,
            "others have no such texts"
        );
    }

    #[test]
    fn circles_and_depth_end() {
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
