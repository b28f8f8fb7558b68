//! The walk over one schema: its limits, the references that it follows, and the list of changes.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::node::{includes, kind_of};
use crate::Provider;
use crate::changes::ChangeCode;
use crate::naming::{self, NameRule};
use picktools::excerpt::cut;
use picktools::schema::{MAX_SCHEMA_DEPTH, MAX_SCHEMA_NODES, pointer_part, resolve};

/// The largest number of changes that are listed for one tool.
pub(super) const MAX_LISTED_CHANGES: usize = 200;
/// The largest size of the constraints in a description, in bytes.
pub(super) const MAX_CONSTRAINT_BYTES: usize = 300;
/// The longest part of a pointer, in bytes.
pub(super) const MAX_POINTER_PART: usize = 200;
/// The most characters of an omitted value in a change.
pub(super) const MAX_SHOWN_VALUE_CHARS: usize = 100;

/// The view of a tool's arguments.
pub(crate) struct SchemaView {
    /// The schema; `None` if the provider requires its absence for a tool without arguments.
    pub(crate) schema: Option<Value>,
    /// `true` if the provider can enforce the schema.
    pub(crate) strict: bool,
    /// Sentences for the tool's description.
    pub(crate) notes: Vec<String>,
    pub(crate) changes: Vec<ViewChange>,
}

/// A change that a view made to a schema.
#[derive(Debug)]
pub(crate) struct ViewChange {
    pub(crate) pointer: String,
    pub(crate) code: ChangeCode,
    pub(crate) detail: String,
}

/// Builder that walks over one schema.
pub(super) struct ViewBuilder<'s> {
    pub(super) provider: Provider,
    pub(super) root: &'s Value,
    pub(super) keys: Option<NameRule>,
    /// The number of nodes that may still be built.
    pub(super) budget: usize,
    pub(super) depth: usize,
    pub(super) pointer: String,
    /// The references that are being followed, which reveal recursion.
    pub(super) following: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) changes: Vec<ViewChange>,
    pub(super) more_changes: usize,
}

/// The position of the walk before it descended.
pub(super) struct WalkPosition {
    pointer: usize,
    following: usize,
}

/// A node with resolved references and merged `allOf`.
pub(super) struct ExpandedNode<'n> {
    pub(super) node: Cow<'n, Map<String, Value>>,
    /// `true` if a reference was not followed: it is circular, has no target, or the chain is too
    /// long.
    pub(super) cut: bool,
}

impl<'s> ViewBuilder<'s> {
    pub(super) fn new(provider: Provider, root: &'s Value) -> Self {
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

    pub(super) fn finish(mut self, schema: Option<Value>, strict: bool) -> SchemaView {
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

    pub(super) fn change(&mut self, code: ChangeCode, detail: impl Into<String>) {
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
    pub(super) fn dropped(&mut self, keyword: &str) {
        let (code, detail) = (
            ChangeCode::KeywordDropped,
            format!("{} does not support {keyword:?} here", self.provider),
        );
        self.below(&[keyword], |view| view.change(code, detail));
    }

    /// Runs a function at a position below the current one.
    pub(super) fn below<T>(&mut self, parts: &[&str], work: impl FnOnce(&mut Self) -> T) -> T {
        let position = self.enter(parts);
        let result = work(self);
        self.leave(position);
        result
    }

    pub(super) fn enter(&mut self, parts: &[&str]) -> WalkPosition {
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

    pub(super) fn leave(&mut self, position: WalkPosition) {
        self.depth -= 1;
        self.pointer.truncate(position.pointer);
        self.following.truncate(position.following);
    }

    /// Counts a node; returns `true` if it is within the limits.
    pub(super) fn count_node(&mut self) -> bool {
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

    /// Follows a reference unless it is circular, has no target, or the chain is too long.
    pub(super) fn follow(&mut self, reference: &str) -> Option<&'s Value> {
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
    pub(super) fn property_names(
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

    /// Returns the values that `enum` or `const` lists and `type` allows; `None` if neither lists
    /// such a value.
    /// Records that other values are omitted.
    pub(super) fn listed_values<'n>(
        &mut self,
        node: &'n Map<String, Value>,
    ) -> Option<Vec<&'n Value>> {
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
    pub(super) fn description(
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
}

/// Keywords that do not constrain a value; omitting them is not a change.
pub(super) const ANNOTATIONS: [&str; 10] = [
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
pub(super) const CONSTRAINTS: [&str; 17] = [
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
