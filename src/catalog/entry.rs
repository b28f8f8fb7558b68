//! From one entry to one tool, whatever published shape the entry has.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::definition::{Alias, Annotations, NoSchemaMode, Safety, Tool};
use super::error::FaultKind;
use super::policy::{self, Holder, camel_case, is_field, is_policy};
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
    pub(super) fn new(pointer: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (pointer, message, remedy) = (pointer.into(), message.into(), remedy.into());
        Self { kind: FaultKind::InvalidEntry, name: None, pointer, message, remedy }
    }

    /// The same fault, of another kind.
    pub(super) fn of(self, kind: FaultKind) -> Self {
        Self { kind, ..self }
    }
}

/// A published shape of a tool definition.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Native,
    Mcp,
    OpenAi,
    Anthropic,
}

impl Shape {
    fn schema_key(self) -> &'static str {
        match self {
            Self::Native | Self::OpenAi => "parameters",
            Self::Mcp => "inputSchema",
            Self::Anthropic => "input_schema",
        }
    }
}

/// Reads one entry; gives the tool where it has at least a name, and everything that is wrong.
pub(super) fn read(value: &Value, default_source: Option<&str>) -> (Option<Tool>, Vec<EntryFault>) {
    let Some(object) = value.as_object() else {
        let fault =
            EntryFault::new("", format!("the entry is {}, not an object", kind(value)), "give a tool definition");
        return (None, vec![fault]);
    };
    let (shape, objects) = match detect(object) {
        Ok(found) => found,
        Err(fault) => return (None, vec![fault]),
    };
    let mut fields = Fields { objects, faults: Vec::new() };
    let Some(name) = fields.name() else {
        return (None, fields.faults);
    };
    let mut tool = Tool::new(name, fields.string("description").unwrap_or_default());
    tool.parameters = fields.json(shape.schema_key());
    match shape {
        Shape::Native => fields.native(&mut tool),
        Shape::Mcp => {
            tool.title = fields.string("title");
            tool.output_schema = fields.json("outputSchema");
        }
        Shape::OpenAi => {
            tool.strict = fields.boolean("strict");
            // OpenAI's reference: leaving `parameters` out defines a function with an empty parameter list.
            tool.parameters.get_or_insert_with(|| Value::Object(Map::new()));
        }
        Shape::Anthropic => tool.strict = fields.boolean("strict"),
    }
    fields.policy(&mut tool);
    tool.source = tool.source.or_else(|| default_source.map(str::to_owned));
    tool.id = fields.string("id").filter(|_| shape == Shape::Native).unwrap_or_else(|| tool.qualified_name());
    let mut faults = fields.faults;
    faults.extend(check(&tool));
    (Some(tool), faults)
}

/// The fault of a member that stands twice.
pub(super) fn repeated(pointer: &String) -> EntryFault {
    EntryFault::new(pointer, "the member stands twice", "remove one of them")
}

/// Reads a tool in the form in which it is serialised, where every member must be known.
pub(super) fn read_native(Json { value, repeated }: &Json) -> Result<Tool, Vec<EntryFault>> {
    let members = value.as_object().into_iter().flat_map(Map::keys);
    let unknown = members.filter(|key| !is_policy(key) && !NATIVE_FIELDS.iter().any(|field| is_field(key, field)));
    let unknown =
        unknown.map(|key| EntryFault::new(format!("/{key}"), format!("the field {key:?} is unknown"), "remove it"));
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
    if tool.id != tool.qualified_name() {
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
    if tool.cost.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
        faults.push(EntryFault::new("/cost", "the cost is not a number from 0", "give the cost of one call"));
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
    let kind = if hidden.is_control() { "control" } else { "invisible" };
    Some(format!("it holds the {kind} character U+{:04X}", u32::from(hidden)))
}

/// Objects, each with the pointer to it.
type Objects<'a> = Vec<(&'static str, &'a Map<String, Value>)>;

/// Tells the shape of an entry and returns the object that holds its name, and after it what stands around that.
fn detect(object: &Map<String, Value>) -> Result<(Shape, Objects<'_>), EntryFault> {
    match (object.get("type").and_then(Value::as_str), object.get("function")) {
        (_, Some(Value::Object(function))) => return Ok((Shape::OpenAi, vec![("/function", function), ("", object)])),
        (Some("function"), None) => return Ok((Shape::OpenAi, vec![("", object)])),
        _ => {}
    }
    if object.contains_key("inputSchema") {
        return Ok((Shape::Mcp, vec![("", object)]));
    }
    if object.contains_key("input_schema") {
        return Ok((Shape::Anthropic, vec![("", object)]));
    }
    match provider_tools::fault(object).filter(|_| !object.contains_key("parameters")) {
        Some(fault) => Err(fault),
        None => Ok((Shape::Native, vec![("", object)])),
    }
}

/// The native fields that are no policy.
const NATIVE_FIELDS: [&str; 11] = [
    "id",
    "name",
    "title",
    "description",
    "tags",
    "parameters",
    "provider_schema",
    "output_schema",
    "source",
    "strict",
    "http",
];

/// Typed access to the members of an entry; what has the wrong type is reported and left out.
struct Fields<'a> {
    /// The definition, and what stands around it.
    objects: Objects<'a>,
    faults: Vec<EntryFault>,
}

impl Fields<'_> {
    /// Finds a member by its snake-case name or the camel-case form of it; `null` counts as absent. Policy and the
    /// source may stand beside the definition.
    fn get(&self, key: &str) -> Option<(String, Value)> {
        let camel = key.contains('_').then(|| camel_case(key));
        let objects = if key == "source" || is_policy(key) { &self.objects[..] } else { &self.objects[..1] };
        objects.iter().find_map(|(at, object)| {
            [Some(key), camel.as_deref()].into_iter().flatten().find_map(|key| {
                object.get(key).filter(|value| !value.is_null()).map(|value| (format!("{at}/{key}"), value.clone()))
            })
        })
    }

    fn name(&mut self) -> Option<String> {
        if self.get("name").is_none() {
            self.faults.push(EntryFault::new("", "`name` is missing", "give the tool a name"));
        }
        self.string("name")
    }

    fn native(&mut self, tool: &mut Tool) {
        tool.title = self.string("title");
        tool.aliases = self.aliases();
        tool.tags = self.strings("tags");
        tool.provider_schema = self.json("provider_schema");
        tool.output_schema = self.json("output_schema");
        tool.strict = self.boolean("strict");
        tool.no_schema_mode = self.no_schema_mode();
        tool.requires = self.strings("requires");
        tool.http = self.typed("http", "how the tool is called over HTTP");
    }

    /// Reads what decides who may see and run the tool, whatever the shape.
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
        let objects: Vec<_> = self.objects.iter().map(|&(at, object)| (at.to_owned(), object)).collect();
        self.faults.extend(policy::faults(Holder::Tool, &objects));
    }

    fn typed<T: DeserializeOwned>(&mut self, key: &str, expected: &str) -> Option<T> {
        let (pointer, value) = self.get(key)?;
        match serde_json::from_value(value) {
            Ok(typed) => Some(typed),
            Err(error) => {
                let fault =
                    EntryFault::new(pointer, marked(&error.to_string(), MAX_MESSAGE_CHARS), format!("give {expected}"));
                let names = ["name", "id", "source"].contains(&key);
                self.faults.push(if names { fault.of(FaultKind::InvalidName) } else { fault });
                None
            }
        }
    }

    fn string(&mut self, key: &str) -> Option<String> {
        self.typed(key, "a string")
    }

    fn boolean(&mut self, key: &str) -> Option<bool> {
        self.typed(key, "true or false")
    }

    fn strings(&mut self, key: &str) -> Vec<String> {
        self.typed(key, "an array of strings").unwrap_or_default()
    }

    fn set(&mut self, key: &str) -> BTreeSet<String> {
        self.strings(key).into_iter().collect()
    }

    fn json(&self, key: &str) -> Option<Value> {
        self.get(key).map(|(_, value)| value)
    }

    fn annotations(&mut self) -> Annotations {
        self.holder("annotations", Holder::Annotations);
        self.typed("annotations", "MCP hints, each true or false").unwrap_or_default()
    }

    fn safety(&mut self) -> Option<Safety> {
        // What is mistaken for a member is not told twice.
        if self.holder("safety", Holder::Safety) {
            return None;
        }
        self.typed("safety", "an object with threat_level (low, medium, high, critical) and required_approvals")
    }

    /// Returns `true` if something within a member is mistaken for policy, and reports it.
    fn holder(&mut self, key: &str, holder: Holder) -> bool {
        let Some((pointer, Value::Object(object))) = self.get(key) else { return false };
        let found = policy::faults(holder, &[(pointer, &object)]);
        let any = !found.is_empty();
        self.faults.extend(found);
        any
    }

    /// Capabilities as a list, or as an object of booleans.
    fn capabilities(&mut self) -> BTreeSet<String> {
        match self.get("capabilities") {
            Some((_, Value::Object(flags))) => {
                flags.into_iter().filter(|(_, on)| *on == Value::Bool(true)).map(|(name, _)| name).collect()
            }
            _ => self.set("capabilities"),
        }
    }

    fn aliases(&mut self) -> Vec<Alias> {
        let Some((pointer, value)) = self.get("aliases") else {
            return Vec::new();
        };
        let read = |value: &Value| match value {
            Value::String(name) => Some(Alias { name: name.clone(), deprecated: false }),
            Value::Object(object) => Some(Alias {
                name: object.get("name")?.as_str()?.to_owned(),
                deprecated: object.get("deprecated").map_or(Some(false), Value::as_bool)?,
            }),
            _ => None,
        };
        let aliases = value.as_array().and_then(|items| items.iter().map(read).collect());
        aliases.unwrap_or_else(|| {
            let remedy = "give an array of names, or of objects {\"name\": …, \"deprecated\": true}";
            let fault = EntryFault::new(pointer, "the aliases are not a list of names", remedy);
            self.faults.push(fault.of(FaultKind::InvalidName));
            Vec::new()
        })
    }

    fn no_schema_mode(&mut self) -> Option<NoSchemaMode> {
        let allowed = self.boolean("allow_no_schema").unwrap_or(false);
        self.typed("no_schema_mode", "read-only, human-approval or full").filter(|_| allowed)
    }
}
