//! Views: schemas as a provider sees them.
//!
//! A view is built in one walk over the original schema. There are four dialects. `plain` keeps
//! nearly everything (OpenAI and Anthropic without strict mode). `strict` keeps what these two can
//! enforce, or reports why they cannot. `gemini` and `ollama` write their own subsets.
//!
//! This file contains the common parts: resolving references, merging `allOf`, limits and the list
//! of changes.
//!
//! Schemas are untrusted. A walk is limited in depth and in the number of nodes, even if references
//! are repeated. Parts beyond the limits are cut and reported.

mod gemini;
mod merge;
mod ollama;
mod plain;
mod strict;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::Provider;
use super::naming::{self, NameRule};
use super::translate::ChangeCode;
use picktools::excerpt::cut;
use picktools::schema::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES, pointer_part, resolve};

/// The largest number of changes that are listed for one tool.
const MAX_LISTED_CHANGES: usize = 200;
/// The largest size of the constraints in a description, in bytes.
const MAX_CONSTRAINT_BYTES: usize = 300;
/// The longest part of a pointer, in bytes.
const MAX_POINTER_PART: usize = 200;
/// The most characters of an omitted value in a change.
const MAX_SHOWN_VALUE_CHARS: usize = 100;

/// The subset of JSON Schema that a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Nearly all keywords; OpenAI's subset in strict mode.
    OpenAi,
    /// Nearly all keywords; Anthropic's subset in strict mode.
    Anthropic,
    Gemini,
    Ollama,
    /// All keywords.
    JsonSchema,
}

/// The view of a tool's arguments.
pub(super) struct SchemaView {
    /// The schema; `None` if the provider requires its absence for a tool without arguments.
    pub(super) schema: Option<Value>,
    /// `true` if the provider can enforce the schema.
    pub(super) strict: bool,
    /// Sentences for the tool's description.
    pub(super) notes: Vec<String>,
    pub(super) changes: Vec<ViewChange>,
}

/// A change that a view made to a schema.
#[derive(Debug)]
pub(super) struct ViewChange {
    pub(super) pointer: String,
    pub(super) code: ChangeCode,
    pub(super) detail: String,
}

/// Builds the view of `schema` for `provider`. If a strict view is impossible, a loose one reports
/// the reason.
pub(super) fn make(provider: Provider, schema: &Value, strict: bool) -> SchemaView {
    let mut refusal = None;
    if strict && provider.has_strict() {
        let mut view = ViewBuilder::new(provider, schema);
        match strict::root(&mut view) {
            Ok(schema) => return view.finish(Some(schema), true),
            Err(error) => refusal = Some(error),
        }
    }
    let mut view = ViewBuilder::new(provider, schema);
    if let Some(strict::StrictError { pointer, reason }) = refusal {
        view.changes.push(ViewChange {
            pointer,
            code: ChangeCode::NotStrict,
            detail: format!("not strict: {reason}"),
        });
    } else if strict {
        let detail =
            format!("{provider} does not support strict schemas; calls are validated anyway");
        view.change(ChangeCode::StrictUnavailable, detail);
    }
    let schema = match provider.format().rules().dialect {
        Dialect::OpenAi | Dialect::Anthropic => Some(plain::root(&mut view)),
        Dialect::Gemini => gemini::root(&mut view),
        Dialect::Ollama => Some(ollama::root(&mut view)),
        Dialect::JsonSchema => Some(plain::json_schema(&mut view)),
    };
    view.finish(schema, false)
}

/// Builder that walks over one schema.
struct ViewBuilder<'s> {
    provider: Provider,
    root: &'s Value,
    keys: Option<NameRule>,
    /// The number of nodes that may still be built.
    budget: usize,
    depth: usize,
    pointer: String,
    /// The references that are being followed, which reveal recursion.
    following: Vec<String>,
    notes: Vec<String>,
    changes: Vec<ViewChange>,
    more_changes: usize,
}

/// The position of the walk before it descended.
struct WalkPosition {
    pointer: usize,
    following: usize,
}

/// A node with resolved references and merged `allOf`.
struct ExpandedNode<'n> {
    node: Cow<'n, Map<String, Value>>,
    /// `true` if a reference was not followed: it is circular, has no target, or the chain is too
    /// long.
    cut: bool,
}

impl<'s> ViewBuilder<'s> {
    fn new(provider: Provider, root: &'s Value) -> Self {
        Self {
            provider,
            root,
            keys: provider.format().rules().property_keys,
            budget: MAX_SCHEMA_NODES,
            depth: 0,
            pointer: String::new(),
            following: Vec::new(),
            notes: Vec::new(),
            changes: Vec::new(),
            more_changes: 0,
        }
    }

    fn finish(mut self, schema: Option<Value>, strict: bool) -> SchemaView {
        if self.more_changes > 0 {
            self.changes.push(ViewChange {
                pointer: String::new(),
                code: ChangeCode::MoreChanges,
                detail: format!(
                    "{} more changes of this tool are not listed",
                    self.more_changes
                ),
            });
        }
        SchemaView {
            schema,
            strict,
            notes: self.notes,
            changes: self.changes,
        }
    }

    fn change(&mut self, code: ChangeCode, detail: impl Into<String>) {
        if self.changes.len() < MAX_LISTED_CHANGES {
            self.changes.push(ViewChange {
                pointer: self.pointer.clone(),
                code,
                detail: detail.into(),
            });
        } else {
            self.more_changes += 1;
        }
    }

    /// Records that a keyword of this node is omitted.
    fn dropped(&mut self, keyword: &str) {
        let (code, detail) = (
            ChangeCode::KeywordDropped,
            format!("{} does not support {keyword:?} here", self.provider),
        );
        self.below(&[keyword], |view| view.change(code, detail));
    }

    /// Runs a function at a position below the current one.
    fn below<T>(&mut self, parts: &[&str], work: impl FnOnce(&mut Self) -> T) -> T {
        let position = self.enter(parts);
        let result = work(self);
        self.leave(position);
        result
    }

    fn enter(&mut self, parts: &[&str]) -> WalkPosition {
        let position = WalkPosition {
            pointer: self.pointer.len(),
            following: self.following.len(),
        };
        for part in parts {
            self.pointer.push('/');
            let excerpt = &part[..part.floor_char_boundary(MAX_POINTER_PART)];
            self.pointer.push_str(&pointer_part(excerpt));
        }
        self.depth += 1;
        position
    }

    fn leave(&mut self, position: WalkPosition) {
        self.depth -= 1;
        self.pointer.truncate(position.pointer);
        self.following.truncate(position.following);
    }

    /// Counts a node; returns `true` if it is within the limits.
    fn count_node(&mut self) -> bool {
        if self.budget == 0 || self.depth > MAX_SCHEMA_DEPTH {
            self.change(
                ChangeCode::TooLarge,
                "the rest is not shown: the schema is too large or too deep",
            );
            return false;
        }
        self.budget -= 1;
        true
    }

    /// Resolves the references of a node and merges its `allOf`.
    ///
    /// Followed references stay recorded until the walk leaves the position (`below`).
    fn expand<'n>(&mut self, node: &'n Map<String, Value>) -> ExpandedNode<'n> {
        if !node.contains_key("$ref") && !node.contains_key("allOf") {
            return ExpandedNode {
                node: Cow::Borrowed(node),
                cut: false,
            };
        }
        let mut merged = node.clone();
        let reference = merged.shift_remove("$ref");
        let all_of = merged.shift_remove("allOf");
        let mut cut = false;
        if let Some(Value::String(reference)) = reference {
            match self.follow(&reference) {
                Some(Value::Object(target)) => {
                    let target = self.expand(target);
                    cut |= target.cut;
                    merge::into(self, &mut merged, &target.node);
                }
                Some(_) => {}
                None => {
                    cut = true;
                    // The type of the target is known even if the reference is not followed.
                    if let Some(kind) =
                        resolve(self.root, &reference).and_then(|target| target.get("type"))
                    {
                        merged.entry("type").or_insert_with(|| kind.clone());
                    }
                }
            }
        }
        if let Some(Value::Array(parts)) = all_of {
            for part in &parts {
                if self.budget == 0 || self.following.len() > MAX_SCHEMA_DEPTH {
                    cut = true;
                    break;
                }
                self.budget -= 1;
                if let Value::Object(part) = part {
                    let part = self.expand(part);
                    cut |= part.cut;
                    merge::into(self, &mut merged, &part.node);
                }
            }
        }
        ExpandedNode {
            node: Cow::Owned(merged),
            cut,
        }
    }

    /// Follows a reference unless it is circular, has no target, or the chain is too long.
    fn follow(&mut self, reference: &str) -> Option<&'s Value> {
        let is_too_far = self.budget == 0 || self.following.len() >= MAX_SCHEMA_DEPTH;
        let is_circular =
            self.following.iter().any(|followed| followed == reference) || reference == "#";
        let target = resolve(self.root, reference).filter(|_| !is_too_far && !is_circular);
        if target.is_none() {
            let reason = if is_circular {
                "it is circular"
            } else {
                "it has no target, or the chain is too long"
            };
            self.change(
                ChangeCode::ReferenceCut,
                format!("the reference is not followed: {reason}"),
            );
            return None;
        }
        self.budget -= 1;
        self.following.push(reference.to_owned());
        target
    }

    /// Returns the names of those property keys that the provider does not accept, and records
    /// them.
    fn property_names(
        &mut self,
        properties: &Map<String, Value>,
    ) -> std::collections::HashMap<String, String> {
        let names = naming::property_keys(self.keys, properties.keys());
        let names: std::collections::HashMap<String, String> = names
            .into_iter()
            .map(|(key, name)| (key.to_owned(), name))
            .collect();
        for key in properties.keys() {
            if let Some(name) = names.get(key) {
                let detail = format!("renamed to {name:?}: the provider does not accept the key");
                self.below(&["properties", key], |view| {
                    view.change(ChangeCode::PropertyRenamed, detail);
                });
            }
        }
        names
    }

    /// Returns the values that `enum` or `const` lists and `type` allows; `None` if there are none.
    /// Records that other values are omitted.
    fn listed_values<'n>(&mut self, node: &'n Map<String, Value>) -> Option<Vec<&'n Value>> {
        let values: Vec<&Value> = match (node.get("const"), node.get("enum")) {
            (Some(only), _) => vec![only],
            (None, Some(Value::Array(values))) => values.iter().collect(),
            _ => return None,
        };
        let Some(types) = node.get("type") else {
            return Some(values);
        };
        let is_allowed = |value: &Value| {
            let is_whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
            includes(types, kind_of(value))
                || value.is_number()
                    && (includes(types, "number") || is_whole && includes(types, "integer"))
                || value.is_null() && node.get("nullable") == Some(&Value::Bool(true))
        };
        let (allowed, others): (Vec<&Value>, Vec<&Value>) =
            values.into_iter().partition(|value| is_allowed(value));
        for value in others {
            let value = cut(&value.to_string(), MAX_SHOWN_VALUE_CHARS).into_owned();
            let detail = format!("the listed value {value} is not of the type, so it is omitted");
            self.change(ChangeCode::ValueDropped, detail);
        }
        (!allowed.is_empty()).then_some(allowed)
    }

    /// Omits all keywords except those that `keep` accepts, and adds simple constraints to the
    /// description.
    ///
    /// Returns the description, if there is one.
    fn description(
        &mut self,
        node: &Map<String, Value>,
        keep: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut constraints = Map::new();
        for (keyword, value) in node {
            if keep(keyword) || ANNOTATIONS.contains(&keyword.as_str()) {
                continue;
            }
            self.dropped(keyword);
            let is_simple = !value.is_object() && !value.is_array() && *value != Value::Bool(false);
            let is_short = is_simple
                && value
                    .as_str()
                    .is_none_or(|text| text.len() < MAX_CONSTRAINT_BYTES);
            if is_short && (CONSTRAINTS.contains(&keyword.as_str())) {
                constraints.insert(keyword.clone(), value.clone());
            }
        }
        let own_text = node
            .get("description")
            .and_then(Value::as_str)
            .map(str::trim_end)
            .filter(|text| !text.is_empty());
        let constraints = (!constraints.is_empty())
            .then(|| format!("Constraints: {}", Value::Object(constraints)));
        let constraints = constraints.filter(|text| text.len() <= MAX_CONSTRAINT_BYTES);
        match (own_text, constraints) {
            (Some(own_text), Some(constraints)) => Some(format!("{own_text} {constraints}")),
            (own_text, constraints) => own_text.map(str::to_owned).or(constraints),
        }
    }

    /// Merges the alternatives at the root into one object, because providers accept nothing else
    /// there.
    ///
    /// All properties of all alternatives are allowed, and the names that all alternatives require
    /// are required. A note describes which arguments belong together.
    fn merge_root(&mut self, mut node: Map<String, Value>) -> Map<String, Value> {
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(alternatives)) = node.shift_remove(keyword) else {
                continue;
            };
            let mut branches: Vec<Map<String, Value>> = Vec::new();
            for (index, alternative) in alternatives.iter().enumerate() {
                let Value::Object(alternative) = alternative else {
                    continue;
                };
                let expanded = self.below(&[keyword, &index.to_string()], |view| {
                    view.expand(alternative).node.into_owned()
                });
                let kind = expanded.get("type");
                if kind.is_none_or(|kind| includes(kind, "object")) {
                    branches.push(expanded);
                }
            }
            let sets: Vec<String> = branches
                .iter()
                .map(|branch| required(branch).join(" and "))
                .collect();
            let combinations = sets
                .iter()
                .filter(|set| !set.is_empty())
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("; or ");
            if !combinations.is_empty() && combinations.len() <= 2 * MAX_CONSTRAINT_BYTES {
                self.notes
                    .push(format!("Arguments that go together: {combinations}."));
            }
            let detail =
                "the provider does not support alternatives here; they are merged into one object";
            self.below(&[keyword], |view| {
                view.change(ChangeCode::AlternativesMerged, detail);
            });
            merge::alternatives(&mut node, &branches);
        }
        for keyword in ["not", "if", "then", "else", "enum", "const"] {
            if node.shift_remove(keyword).is_some() {
                self.dropped(keyword);
            }
        }
        node.shift_remove("nullable");
        node.insert("type".to_owned(), json!("object"));
        node
    }
}

/// Keywords that do not constrain a value; omitting them is not a change.
const ANNOTATIONS: [&str; 10] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "$anchor",
    "$vocabulary",
    "$dynamicAnchor",
    "title",
    "deprecated",
    "readOnly",
];

/// Constraints that can be stated in a description.
const CONSTRAINTS: [&str; 17] = [
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "default",
    "contentEncoding",
    "contentMediaType",
];

/// Returns the items of an array; empty if the member is absent or has another type.
pub(super) fn array_member<'v>(node: &'v Map<String, Value>, key: &str) -> &'v [Value] {
    match node.get(key) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

/// Returns the text of a member; `None` if it is absent or has another type.
pub(super) fn text_member<'v>(node: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    match node.get(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Returns `true` if a `type` includes `kind`.
pub(super) fn includes(types: &Value, kind: &str) -> bool {
    match types {
        Value::String(name) => name == kind,
        Value::Array(types) => types.iter().any(|name| name == kind),
        _ => false,
    }
}

/// Returns the types of a node without null, and `true` if null is allowed.
///
/// A node without `type` is classified by its keywords. An empty list means that the type is
/// unknown.
pub(super) fn kinds(node: &Map<String, Value>) -> (Vec<&str>, bool) {
    let mut nullable = node.get("nullable") == Some(&Value::Bool(true));
    let mut kinds: Vec<&str> = match node.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if kinds.is_empty() {
        let values = array_member(node, "enum");
        for value in node.get("const").into_iter().chain(values) {
            let kind = kind_of(value);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    if kinds.is_empty() && !node.contains_key("anyOf") && !node.contains_key("oneOf") {
        const TYPE_KEYWORDS: [(&str, &[&str]); 4] = [
            (
                "object",
                &[
                    "properties",
                    "required",
                    "additionalProperties",
                    "patternProperties",
                    "minProperties",
                ],
            ),
            (
                "array",
                &[
                    "items",
                    "prefixItems",
                    "minItems",
                    "maxItems",
                    "uniqueItems",
                ],
            ),
            ("string", &["pattern", "minLength", "maxLength", "format"]),
            (
                "number",
                &[
                    "minimum",
                    "maximum",
                    "multipleOf",
                    "exclusiveMinimum",
                    "exclusiveMaximum",
                ],
            ),
        ];
        let implied_kind = TYPE_KEYWORDS
            .iter()
            .find(|(_, keywords)| keywords.iter().any(|keyword| node.contains_key(*keyword)));
        kinds.extend(implied_kind.map(|(kind, _)| *kind));
    }
    nullable |= kinds.contains(&"null");
    kinds.retain(|kind| *kind != "null");
    // An integer is a number, too.
    if kinds.contains(&"number") {
        kinds.retain(|kind| *kind != "integer");
    }
    (kinds, nullable)
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the names that a node requires, each once.
fn required(node: &Map<String, Value>) -> Vec<&str> {
    let mut names_seen = std::collections::HashSet::new();
    let mut names = Vec::new();
    for name in array_member(node, "required") {
        if let Value::String(name) = name
            && names_seen.insert(name)
        {
            names.push(name.as_str());
        }
    }
    names
}

/// Returns the properties of a node.
pub(super) fn properties(node: &Map<String, Value>) -> Option<&Map<String, Value>> {
    node.get("properties")?.as_object()
}

/// Returns `true` if a root accepts arguments beyond its properties.
fn is_open_root(node: &Map<String, Value>) -> bool {
    let has_no_properties = properties(node).is_none_or(Map::is_empty);
    let allows_additional = node
        .get("additionalProperties")
        .is_some_and(|schema| *schema != Value::Bool(false));
    has_no_properties && (allows_additional || node.contains_key("patternProperties"))
}
