//! From one entry to one tool, whatever published shape the entry has: each names the schema in its
//! own way, and OpenAI's puts the definition into a wrapper. Every field of a tool counts in every
//! shape, within the wrapper and beside it.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::definition::{Alias, Annotations, NoSchemaMode, Safety, Tool};
use super::error::FaultKind;
use super::policy::{self, Holder, is_field, is_policy};
use super::{provider_tools, schema_faults};
use crate::excerpt::{is_invisible, marked};
use crate::json::Json;
use crate::schema::kind;

/// The longest name, id, source or alias, in characters.
const MAX_NAME_CHARS: usize = 512;
/// The most characters that are quoted of why a member cannot be read.
const MAX_MESSAGE_CHARS: usize = 200;

/// One thing wrong with an entry.
#[derive(Clone)]
pub(super) struct EntryFault {
    pub(super) kind: FaultKind,
    pub(super) name: Option<String>,
    pub(super) pointer: String,
    pub(super) message: String,
    pub(super) remedy: String,
}

impl EntryFault {
    pub(super) fn new(
        pointer: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (pointer, message, remedy) = (pointer.into(), message.into(), remedy.into());
        Self {
            kind: FaultKind::InvalidEntry,
            name: None,
            pointer,
            message,
            remedy,
        }
    }

    /// The same fault, of another kind.
    pub(super) fn of(self, kind: FaultKind) -> Self {
        Self { kind, ..self }
    }
}

/// Reads one entry; gives the tool where it has at least a name, and everything that is wrong.
pub(super) fn read(
    mut value: Value,
    default_source: Option<&str>,
) -> (Option<Tool>, Vec<EntryFault>) {
    let Some(object) = value.as_object() else {
        let fault = EntryFault::new(
            "",
            format!("the entry is {}, not an object", kind(&value)),
            "give a tool definition",
        );
        return (None, vec![fault]);
    };
    let objects = match objects(object) {
        Ok(found) => found,
        Err(fault) => return (None, vec![fault]),
    };
    let mut fields = Fields {
        objects,
        faults: Vec::new(),
    };
    let Some(name) = fields.name() else {
        return (None, fields.faults);
    };
    let mut tool = Tool::without_arguments(name, fields.string("description").unwrap_or_default());
    fields.definition(&mut tool);
    fields.policy(&mut tool);
    tool.source = tool.source.or_else(|| default_source.map(str::to_owned));
    tool.id = fields.string("id").unwrap_or_else(|| tool.qualified_name());
    // OpenAI's reference: leaving `parameters` out defines a function with an empty parameter list.
    let takes_nothing = is_openai(object) && !fields.speaks_of_no_schema();
    let schemas =
        ["parameters", "provider_schema", "output_schema"].map(|field| fields.place(field));
    let mut faults = fields.faults;
    // They are most of an entry, and are taken out of it rather than copied.
    let [parameters, provider_schema, output_schema] = schemas
        .map(|place| place.and_then(|(at, key)| Some(value.pointer_mut(at)?.get_mut(key)?.take())));
    tool.parameters = parameters.or_else(|| takes_nothing.then(|| Value::Object(Map::new())));
    (tool.provider_schema, tool.output_schema) = (provider_schema, output_schema);
    faults.extend(check(&tool));
    (Some(tool), faults)
}

/// The fault of a member that stands twice.
pub(super) fn repeated(pointer: &String) -> EntryFault {
    EntryFault::new(pointer, "the member stands twice", "remove one of them")
}

/// The fault of policy that stands beside a list of tools.
pub(super) fn beside_list(pointer: &String) -> EntryFault {
    let message = "it stands beside the list of tools, where it counts for nothing";
    EntryFault::new(pointer, message, "put it into each tool, or remove it")
}

/// Reads a tool in the form in which it is serialised, where every member must be known.
pub(super) fn read_native(Json { value, repeated }: Json) -> Result<Tool, Vec<EntryFault>> {
    let members = value.as_object().into_iter().flat_map(Map::keys);
    let unknown = members
        .filter(|key| !is_policy(key) && !NATIVE_FIELDS.iter().any(|field| is_field(key, field)));
    let unknown = unknown.map(|key| {
        EntryFault::new(
            format!("/{key}"),
            format!("the field {key:?} is unknown"),
            "remove it",
        )
    });
    let faults: Vec<EntryFault> = repeated.iter().map(self::repeated).chain(unknown).collect();
    if !faults.is_empty() {
        return Err(faults);
    }
    match read(value, None) {
        (Some(tool), faults) if faults.is_empty() => Ok(tool),
        (_, faults) => Err(faults),
    }
}

/// Checks what a tool must satisfy by itself, wherever it comes from.
pub(super) fn check(tool: &Tool) -> Vec<EntryFault> {
    let mut faults = Vec::new();
    let mut check_name = |pointer: String, name: &str| {
        if let Some(problem) = name_problem(name) {
            let fault = EntryFault::new(pointer, problem, "give a short printable one");
            faults.push(fault.of(FaultKind::InvalidName));
        }
    };
    check_name("/name".to_owned(), &tool.name);
    if !tool.has_qualified_id() {
        check_name("/id".to_owned(), &tool.id);
    }
    if let Some(source) = &tool.source {
        check_name("/source".to_owned(), source);
    }
    for (index, alias) in tool.aliases.iter().enumerate() {
        check_name(format!("/aliases/{index}"), &alias.name);
    }
    if tool.parameters.is_none() && tool.no_schema_mode.is_none() {
        faults.push(EntryFault::new(
            "",
            "`parameters` is missing",
            "give the JSON Schema of the arguments (`{}` for none), or set allow_no_schema with a no_schema_mode of \
             read-only, human-approval or full",
        ));
    }
    for (field, schema) in [
        ("parameters", &tool.parameters),
        ("provider_schema", &tool.provider_schema),
        ("output_schema", &tool.output_schema),
    ] {
        if let Some(schema) = schema {
            faults.extend(schema_faults(field, schema));
        }
    }
    if tool
        .cost
        .is_some_and(|cost| !cost.is_finite() || cost < 0.0)
    {
        faults.push(EntryFault::new(
            "/cost",
            "the cost is not a number from 0",
            "give the cost of one call",
        ));
    }
    faults
}

/// What is wrong with a name, an id, a source or an alias.
pub(super) fn name_problem(name: &str) -> Option<String> {
    if name.trim().is_empty() {
        return Some("it is empty".to_owned());
    }
    if name.chars().count() > MAX_NAME_CHARS {
        return Some(format!("it is longer than {MAX_NAME_CHARS} characters"));
    }
    let hidden = name.chars().find(|&c| c.is_control() || is_invisible(c))?;
    let kind = if hidden.is_control() {
        "control"
    } else {
        "invisible"
    };
    Some(format!(
        "it holds the {kind} character U+{:04X}",
        u32::from(hidden)
    ))
}

/// Objects, each with the pointer to it.
type Objects<'a> = Vec<(&'static str, &'a Map<String, Value>)>;

/// Returns the object that holds an entry's definition, and after it what stands around that.
fn objects(object: &Map<String, Value>) -> Result<Objects<'_>, EntryFault> {
    if let Some(Value::Object(function)) = object.get("function") {
        return Ok(vec![("/function", function), ("", object)]);
    }
    let defines = is_openai(object) || SCHEMA_KEYS.iter().any(|key| object.contains_key(*key));
    match provider_tools::fault(object).filter(|_| !defines) {
        Some(fault) => Err(fault),
        None => Ok(vec![("", object)]),
    }
}

/// Returns `true` if an entry is a tool as OpenAI has it, with or without a wrapper.
fn is_openai(object: &Map<String, Value>) -> bool {
    match object.get("function") {
        Some(function) => function.is_object(),
        None => object.get("type").is_some_and(|kind| kind == "function"),
    }
}

/// What the schema of the arguments is called: by us and OpenAI, by Anthropic, and by MCP.
pub(super) const SCHEMA_KEYS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];

/// The native fields that are no policy.
const NATIVE_FIELDS: [&str; 12] = [
    "id",
    "name",
    "title",
    "description",
    "tags",
    "examples",
    "parameters",
    "provider_schema",
    "output_schema",
    "source",
    "strict",
    "http",
];

/// The fields that may be written in several ways: in snake case, in camel case, or as others call
/// them.
const SPELLINGS: [&[&str]; 6] = [
    &SCHEMA_KEYS,
    &["provider_schema", "providerSchema"],
    &["output_schema", "outputSchema"],
    &["allow_no_schema", "allowNoSchema"],
    &["no_schema_mode", "noSchemaMode"],
    &["allowed_roles", "allowedRoles"],
];

/// How a field may be written.
fn spellings(field: &'static str) -> impl Iterator<Item = &'static str> {
    let all = SPELLINGS.iter().find(|all| all[0] == field);
    let others = all.map_or(&[][..], |all| &all[1..]);
    std::iter::once(field).chain(others.iter().copied())
}

/// Returns a member of an object. A few are looked through faster than a key is hashed.
fn member<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    match object.len() {
        0..=8 => object
            .iter()
            .find_map(|(name, value)| (name == key).then_some(value)),
        _ => object.get(key),
    }
}

/// A field: the pointer to the object that it stands in, its key, and its value.
type Place<'a> = (&'static str, &'static str, &'a Value);

/// Typed access to the members of an entry; what has the wrong type is reported and left out.
struct Fields<'a> {
    /// The definition, and what stands around it.
    objects: Objects<'a>,
    faults: Vec<EntryFault>,
}

impl<'a> Fields<'a> {
    /// Finds a field in the definition, or else beside it.
    fn get(&self, field: &'static str) -> Option<Place<'a>> {
        self.places(field).next()
    }

    /// Returns where a field stands: the pointer to the object, and the key.
    fn place(&self, field: &'static str) -> Option<(&'static str, &'static str)> {
        self.get(field).map(|(at, key, _)| (at, key))
    }

    /// Returns where a field stands, however it is written. `null` counts as absent.
    fn places(&self, field: &'static str) -> impl Iterator<Item = Place<'a>> {
        let around = self
            .objects
            .iter()
            .flat_map(move |&(at, object)| spellings(field).map(move |key| (at, object, key)));
        let found = around.filter_map(|(at, object, key)| Some((at, key, member(object, key)?)));
        found.filter(|(.., value)| !value.is_null())
    }

    /// Reports the fields that stand in two places and say different things.
    fn contradictions(&mut self) {
        let contradiction = |field: &&'static str| {
            let mut places = self.places(field);
            let (first_at, first, value) = places.next()?;
            let (at, key, _) = places.find(|(.., other)| *other != value)?;
            let message =
                format!("it says something else than {first_at}/{first}, which is the same field");
            Some(EntryFault::new(
                format!("{at}/{key}"),
                message,
                "remove one of them",
            ))
        };
        let found: Vec<EntryFault> = NATIVE_FIELDS.iter().filter_map(contradiction).collect();
        self.faults.extend(found);
    }

    /// Returns `true` if the entry says whether it may do without a schema.
    fn speaks_of_no_schema(&self) -> bool {
        ["allow_no_schema", "no_schema_mode"]
            .iter()
            .any(|field| self.get(field).is_some())
    }

    fn name(&mut self) -> Option<String> {
        if self.get("name").is_none() {
            self.faults.push(EntryFault::new(
                "",
                "`name` is missing",
                "give the tool a name",
            ));
        }
        self.string("name")
    }

    /// Reads what is no policy, and the policy that is about names and schemas.
    fn definition(&mut self, tool: &mut Tool) {
        self.contradictions();
        tool.title = self.string("title");
        tool.aliases = self.aliases();
        tool.tags = self.strings("tags");
        tool.examples = self.strings("examples");
        tool.strict = self.boolean("strict");
        tool.no_schema_mode = self.no_schema_mode();
        tool.requires = self.strings("requires");
        tool.http = self.typed("http", "how the tool is called over HTTP");
    }

    /// Reads what decides who may see and run the tool.
    fn policy(&mut self, tool: &mut Tool) {
        tool.source = self.string("source").filter(|source| !source.is_empty());
        tool.untrusted = self.boolean("untrusted").unwrap_or(false);
        tool.safe = self.boolean("safe");
        tool.safety = self.safety();
        tool.annotations = self.annotations();
        tool.capabilities = self.capabilities();
        tool.allowed_roles = self.set("allowed_roles");
        tool.modes = self.set("modes");
        tool.cost = self.typed("cost", "a number");
        let found = policy::faults(Holder::Tool, &self.objects);
        self.faults.extend(found);
    }

    fn typed<T: Deserialize<'a>>(&mut self, field: &'static str, expected: &str) -> Option<T> {
        let (at, key, value) = self.get(field)?;
        match T::deserialize(value) {
            Ok(typed) => Some(typed),
            Err(error) => {
                let error = error.to_string();
                let message = marked(&error, MAX_MESSAGE_CHARS);
                let fault =
                    EntryFault::new(format!("{at}/{key}"), message, format!("give {expected}"));
                let names = ["name", "id", "source"].contains(&field);
                self.faults.push(if names {
                    fault.of(FaultKind::InvalidName)
                } else {
                    fault
                });
                None
            }
        }
    }

    fn string(&mut self, field: &'static str) -> Option<String> {
        self.typed(field, "a string")
    }

    fn boolean(&mut self, field: &'static str) -> Option<bool> {
        self.typed(field, "true or false")
    }

    fn strings(&mut self, field: &'static str) -> Vec<String> {
        self.typed(field, "an array of strings").unwrap_or_default()
    }

    fn set(&mut self, field: &'static str) -> BTreeSet<String> {
        self.strings(field).into_iter().collect()
    }

    fn annotations(&mut self) -> Annotations {
        self.holder("annotations", Holder::Annotations);
        self.typed("annotations", "MCP hints, each true or false")
            .unwrap_or_default()
    }

    fn safety(&mut self) -> Option<Safety> {
        // What is mistaken for a member is not told twice.
        if self.holder("safety", Holder::Safety) {
            return None;
        }
        self.typed(
            "safety",
            "an object with threat_level (low, medium, high, critical) and required_approvals",
        )
    }

    /// Returns `true` if something within a member is mistaken for policy, and reports it.
    fn holder(&mut self, field: &'static str, holder: Holder) -> bool {
        let Some((at, key, Value::Object(object))) = self.get(field) else {
            return false;
        };
        let found = policy::faults(holder, &[(format!("{at}/{key}"), object)]);
        let any = !found.is_empty();
        self.faults.extend(found);
        any
    }

    /// Capabilities as a list, or as an object of booleans.
    fn capabilities(&mut self) -> BTreeSet<String> {
        match self.get("capabilities") {
            Some((at, key, Value::Object(flags))) => {
                for (name, flag) in flags.iter().filter(|(_, flag)| !flag.is_boolean()) {
                    let message = format!("the capability is {}, not true or false", kind(flag));
                    self.faults.push(EntryFault::new(
                        format!("{at}/{key}/{name}"),
                        message,
                        "say whether the tool has it",
                    ));
                }
                flags
                    .iter()
                    .filter(|(_, on)| **on == Value::Bool(true))
                    .map(|(name, _)| name.clone())
                    .collect()
            }
            _ => self.set("capabilities"),
        }
    }

    fn aliases(&mut self) -> Vec<Alias> {
        let Some((at, key, value)) = self.get("aliases") else {
            return Vec::new();
        };
        let read = |value: &Value| match value {
            Value::String(name) => Some(Alias {
                name: name.clone(),
                deprecated: false,
            }),
            Value::Object(object) => Some(Alias {
                name: object.get("name")?.as_str()?.to_owned(),
                deprecated: object
                    .get("deprecated")
                    .map_or(Some(false), Value::as_bool)?,
            }),
            _ => None,
        };
        let aliases = value
            .as_array()
            .and_then(|items| items.iter().map(read).collect());
        aliases.unwrap_or_else(|| {
            let remedy =
                "give an array of names, or of objects {\"name\": …, \"deprecated\": true}";
            let fault = EntryFault::new(
                format!("{at}/{key}"),
                "the aliases are not a list of names",
                remedy,
            );
            self.faults.push(fault.of(FaultKind::InvalidName));
            Vec::new()
        })
    }

    fn no_schema_mode(&mut self) -> Option<NoSchemaMode> {
        let allowed = self.boolean("allow_no_schema").unwrap_or(false);
        self.typed("no_schema_mode", "read-only, human-approval or full")
            .filter(|_| allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::policy::{camel_case, policy_fields};

    #[test]
    fn a_field_of_several_words_is_read_in_camel_case_too() {
        let fields: Vec<&str> = NATIVE_FIELDS
            .into_iter()
            .chain(policy_fields())
            .filter(|field| field.contains('_'))
            .collect();
        assert!(fields.contains(&"output_schema") && fields.contains(&"allowed_roles"));
        for field in fields {
            assert!(
                spellings(field).any(|spelling| spelling == camel_case(field)),
                "{field}"
            );
        }
    }
}
