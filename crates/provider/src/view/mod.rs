//! Views: what a provider is shown of a schema.
//!
//! A view is made in one walk over the schema, which is only read. Four dialects say what becomes
//! of a node: `plain` keeps nearly all (OpenAI and Anthropic where they hold the model to nothing),
//! `strict` keeps what they can hold a model to or says why they cannot, `gemini` and `ollama`
//! write their own subsets. This file has what they share: resolving references, merging what must
//! hold together, bounds, and the record of changes.
//!
//! Schemas come from anywhere. A walk is bounded in depth and in the number of nodes it makes,
//! however often references are followed; what lies beyond is cut, and said.

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
use picktools::schema::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES, pointer_part, resolve};

/// The most changes that are listed for one tool.
const MAX_LISTED_CHANGES: usize = 200;
/// The most bytes of constraints that are put into a description.
const MAX_TOLD_CONSTRAINTS: usize = 300;
/// The longest part of a pointer that is shown, in bytes.
const MAX_POINTER_PART: usize = 200;

/// What of JSON Schema a provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Nearly all, with OpenAI's subset where it is strict.
    OpenAi,
    /// Nearly all, with Anthropic's subset where it is strict.
    Anthropic,
    Gemini,
    Ollama,
    /// All of it.
    JsonSchema,
}

/// What a provider is shown of a tool's arguments.
pub(super) struct Viewed {
    /// The schema; `None` where the provider wants none for a tool without arguments.
    pub(super) schema: Option<Value>,
    /// Whether the provider can hold the model to it.
    pub(super) strict: bool,
    /// Sentences that belong into the tool's description.
    pub(super) notes: Vec<String>,
    pub(super) changes: Vec<ViewChange>,
}

/// A change of a view: where in the schema, which, and in words.
pub(super) struct ViewChange {
    pub(super) pointer: String,
    pub(super) code: ChangeCode,
    pub(super) detail: String,
}

/// Makes the view of `schema` for `provider`; one that cannot be strict becomes a loose one that
/// says why.
pub(super) fn make(provider: Provider, schema: &Value, strict: bool) -> Viewed {
    let mut refusal = None;
    if strict && provider.has_strict() {
        let mut view = View::new(provider, schema);
        match strict::root(&mut view) {
            Ok(schema) => return view.viewed(Some(schema), true),
            Err(inexpressible) => refusal = Some(inexpressible),
        }
    }
    let mut view = View::new(provider, schema);
    if let Some(strict::Inexpressible { pointer, reason }) = refusal {
        view.changes.push(ViewChange {
            pointer,
            code: ChangeCode::NotStrict,
            detail: format!("not strict: {reason}"),
        });
    } else if strict {
        let detail =
            format!("{provider} cannot hold a model to a schema; calls are validated all the same");
        view.change(ChangeCode::StrictUnavailable, detail);
    }
    let schema = match provider.format().rules().dialect {
        Dialect::OpenAi | Dialect::Anthropic => Some(plain::root(&mut view)),
        Dialect::Gemini => gemini::root(&mut view),
        Dialect::Ollama => Some(ollama::root(&mut view)),
        Dialect::JsonSchema => Some(plain::as_it_is(&mut view)),
    };
    view.viewed(schema, false)
}

/// A walk over one schema.
struct View<'s> {
    provider: Provider,
    root: &'s Value,
    keys: Option<NameRule>,
    /// How many more nodes may be made.
    budget: usize,
    depth: usize,
    pointer: String,
    /// The references that are being followed, so that recursion is seen.
    following: Vec<String>,
    notes: Vec<String>,
    changes: Vec<ViewChange>,
    more_changes: usize,
}

/// Where the walk was before it went below.
struct Place {
    pointer: usize,
    following: usize,
}

/// A node with its references followed and what must hold together merged.
struct Expanded<'n> {
    node: Cow<'n, Map<String, Value>>,
    /// A reference was not followed: it leads back to itself, nowhere, or too far.
    cut: bool,
}

impl<'s> View<'s> {
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

    fn viewed(mut self, schema: Option<Value>, strict: bool) -> Viewed {
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
        Viewed {
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

    /// Records that a keyword of this node is not shown.
    fn dropped(&mut self, keyword: &str) {
        let (code, detail) = (
            ChangeCode::KeywordDropped,
            format!("{} has no {keyword:?} here", self.provider),
        );
        self.below(&[keyword], |view| view.change(code, detail));
    }

    /// Does something at a place below this one.
    fn below<T>(&mut self, parts: &[&str], work: impl FnOnce(&mut Self) -> T) -> T {
        let place = self.enter(parts);
        let done = work(self);
        self.leave(place);
        done
    }

    fn enter(&mut self, parts: &[&str]) -> Place {
        let place = Place {
            pointer: self.pointer.len(),
            following: self.following.len(),
        };
        for part in parts {
            self.pointer.push('/');
            let shown = &part[..part.floor_char_boundary(MAX_POINTER_PART)];
            self.pointer.push_str(&pointer_part(shown));
        }
        self.depth += 1;
        place
    }

    fn leave(&mut self, place: Place) {
        self.depth -= 1;
        self.pointer.truncate(place.pointer);
        self.following.truncate(place.following);
    }

    /// Counts a node; returns `true` if it may still be made.
    fn may_go_on(&mut self) -> bool {
        if self.budget == 0 || self.depth > MAX_SCHEMA_DEPTH {
            self.change(
                ChangeCode::TooLarge,
                "what lies deeper is not shown: the schema is too large or too deep",
            );
            return false;
        }
        self.budget -= 1;
        true
    }

    /// Follows the references of a node and merges its `allOf`.
    ///
    /// References that are followed stay recorded until the walk leaves the place (`below`).
    fn expand<'n>(&mut self, node: &'n Map<String, Value>) -> Expanded<'n> {
        if !node.contains_key("$ref") && !node.contains_key("allOf") {
            return Expanded {
                node: Cow::Borrowed(node),
                cut: false,
            };
        }
        let mut merged = node.clone();
        let reference = merged.shift_remove("$ref");
        let together = merged.shift_remove("allOf");
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
                    // Of what kind the value is can be told without going on.
                    if let Some(kind) =
                        resolve(self.root, &reference).and_then(|target| target.get("type"))
                    {
                        merged.entry("type").or_insert_with(|| kind.clone());
                    }
                }
            }
        }
        if let Some(Value::Array(parts)) = together {
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
        Expanded {
            node: Cow::Owned(merged),
            cut,
        }
    }

    /// Follows a reference, unless that leads into a circle, nowhere or too far.
    fn follow(&mut self, reference: &str) -> Option<&'s Value> {
        let too_far = self.budget == 0 || self.following.len() >= MAX_SCHEMA_DEPTH;
        let circle =
            self.following.iter().any(|followed| followed == reference) || reference == "#";
        let target = resolve(self.root, reference).filter(|_| !too_far && !circle);
        if target.is_none() {
            let why = if circle {
                "it leads back to itself"
            } else {
                "it leads nowhere, or too far"
            };
            self.change(
                ChangeCode::ReferenceCut,
                format!("the reference is not followed: {why}"),
            );
            return None;
        }
        self.budget -= 1;
        self.following.push(reference.to_owned());
        target
    }

    /// What property keys of an object are shown as; records those that change.
    fn property_names(
        &mut self,
        properties: &Map<String, Value>,
    ) -> std::collections::HashMap<String, String> {
        let shown = naming::property_keys(self.keys, properties.keys());
        let shown: std::collections::HashMap<String, String> = shown
            .into_iter()
            .map(|(key, shown)| (key.to_owned(), shown))
            .collect();
        for key in properties.keys() {
            if let Some(shown) = shown.get(key) {
                let detail = format!("shown as {shown:?}: the provider does not take the key");
                self.below(&["properties", key], |view| {
                    view.change(ChangeCode::PropertyRenamed, detail)
                });
            }
        }
        shown
    }

    /// Drops the keywords that `keep` does not name, and puts the plain ones into the description.
    ///
    /// Returns the description, if there is one then.
    fn description(
        &mut self,
        node: &Map<String, Value>,
        keep: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let mut told = Map::new();
        for (keyword, value) in node {
            if keep(keyword) || NOTES.contains(&keyword.as_str()) {
                continue;
            }
            self.dropped(keyword);
            let plain = !value.is_object() && !value.is_array() && *value != Value::Bool(false);
            let fits = plain
                && value
                    .as_str()
                    .is_none_or(|text| text.len() < MAX_TOLD_CONSTRAINTS);
            if fits && (CONSTRAINTS.contains(&keyword.as_str())) {
                told.insert(keyword.clone(), value.clone());
            }
        }
        let own = node
            .get("description")
            .and_then(Value::as_str)
            .map(str::trim_end)
            .filter(|text| !text.is_empty());
        let told = (!told.is_empty()).then(|| format!("Constraints: {}", Value::Object(told)));
        let told = told.filter(|text| text.len() <= MAX_TOLD_CONSTRAINTS);
        match (own, told) {
            (Some(own), Some(told)) => Some(format!("{own} {told}")),
            (own, told) => own.map(str::to_owned).or(told),
        }
    }

    /// Turns the alternatives at the root into one object, which is all that providers take there.
    ///
    /// Every property of every alternative may be given, those must be that all alternatives ask
    /// for; what goes together is told in words.
    fn one_object(&mut self, mut node: Map<String, Value>) -> Map<String, Value> {
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
            let told = sets
                .iter()
                .filter(|set| !set.is_empty())
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join("; or ");
            if !told.is_empty() && told.len() <= 2 * MAX_TOLD_CONSTRAINTS {
                self.notes
                    .push(format!("Arguments that go together: {told}."));
            }
            let detail = "the provider takes no alternatives here: they are merged into one object";
            self.below(&[keyword], |view| {
                view.change(ChangeCode::AlternativesMerged, detail)
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

/// Keywords that say nothing of a value; dropping them is no change.
const NOTES: [&str; 10] = [
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

/// Keywords that a description can say as well.
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

/// Whether a `type` includes `kind`.
pub(super) fn includes(types: &Value, kind: &str) -> bool {
    match types {
        Value::String(own) => own == kind,
        Value::Array(several) => several.iter().any(|own| own == kind),
        _ => false,
    }
}

/// The kinds of value that a node takes, without null, and whether it takes null; guessed from its
/// keywords where it does not say. No kinds means that it does not tell.
pub(super) fn kinds(node: &Map<String, Value>) -> (Vec<&str>, bool) {
    let mut nullable = node.get("nullable") == Some(&Value::Bool(true));
    let mut kinds: Vec<&str> = match node.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if kinds.is_empty() {
        let values = node.get("const").into_iter().chain(
            node.get("enum")
                .and_then(Value::as_array)
                .into_iter()
                .flatten(),
        );
        for value in values {
            let kind = kind_of(value);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    if kinds.is_empty() && !node.contains_key("anyOf") && !node.contains_key("oneOf") {
        const TELLING: [(&str, &[&str]); 4] = [
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
        let told = TELLING
            .iter()
            .find(|(_, keywords)| keywords.iter().any(|keyword| node.contains_key(*keyword)));
        kinds.extend(told.map(|(kind, _)| *kind));
    }
    nullable |= kinds.contains(&"null");
    kinds.retain(|kind| *kind != "null");
    // An integer is a number.
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

/// The names that a node requires, each once.
fn required(node: &Map<String, Value>) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let names = node
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    names.filter(|name| seen.insert(*name)).collect()
}

/// The values that a node lists, from `enum` or `const`; those that its type refuses are none, and
/// a list of no others is none either.
fn listed(node: &Map<String, Value>) -> Option<Vec<&Value>> {
    let values: Vec<&Value> = match (node.get("const"), node.get("enum")) {
        (Some(only), _) => vec![only],
        (None, Some(Value::Array(values))) => values.iter().collect(),
        _ => return None,
    };
    let Some(types) = node.get("type") else {
        return Some(values);
    };
    let taken = |value: &&Value| {
        let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
        includes(types, kind_of(value))
            || value.is_number()
                && (includes(types, "number") || whole && includes(types, "integer"))
    };
    let taken: Vec<&Value> = values.into_iter().filter(taken).collect();
    (!taken.is_empty()).then_some(taken)
}

/// The properties of a node.
fn properties(node: &Map<String, Value>) -> Option<&Map<String, Value>> {
    node.get("properties").and_then(Value::as_object)
}

/// Whether a root takes arguments that its properties do not name.
fn is_open_root(node: &Map<String, Value>) -> bool {
    let none = properties(node).is_none_or(Map::is_empty);
    let named = node
        .get("additionalProperties")
        .is_some_and(|more| *more != Value::Bool(false));
    none && (named || node.contains_key("patternProperties"))
}
