//! Reading of one entry as a tool. The published shapes name the schema differently, and OpenAI's
//! shape puts the definition into a wrapper. Every field of a tool counts in every shape, inside
//! the wrapper and outside it.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::definition::{Alias, Annotations, NoSchemaMode, Safety, Tool};
use super::entry_fault::EntryFault;
use super::error::FaultKind;
use super::policy::{self, Holder, is_field, is_policy};
use super::provider_tools;
use crate::excerpt::{is_invisible, marked};
use crate::json::Json;
use crate::schema::{self, kind};

/// The length of a name, id, source or alias, in characters.
const MAX_NAME_CHARS: usize = 512;
/// The length of a quoted parser message, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Reads one entry. Returns the tool if it has at least a name, and every fault. A tool without a
/// schema gets the mode `allow_no_schema`, unless it has such a field itself.
pub(super) fn read_entry(
    mut value: Value,
    default_source: Option<&str>,
    allow_no_schema: Option<NoSchemaMode>,
) -> (Option<Tool>, Vec<EntryFault>) {
    let Some(object) = value.as_object() else {
        let fault = EntryFault::new(
            "",
            format!("the entry is {}, not an object", kind(&value)),
            "give a tool definition",
        );
        return (None, vec![fault]);
    };
    let objects = match definition_objects(object) {
        Ok(objects) => objects,
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
    // OpenAI's reference: omitting `parameters` defines a function with an empty parameter list.
    let mentions_no_schema = fields.mentions_no_schema();
    let has_no_parameters = is_openai(object) && !mentions_no_schema;
    let schemas =
        ["parameters", "provider_schema", "output_schema"].map(|field| fields.find(field));
    let mut faults = fields.faults;
    // Schemas are the largest part of an entry, so they are moved instead of copied.
    let [parameters, provider_schema, output_schema] = schemas.map(|location| {
        let (pointer, key) = location?;
        Some(value.pointer_mut(pointer)?.get_mut(key)?.take())
    });
    tool.parameters = parameters.or_else(|| has_no_parameters.then(|| Value::Object(Map::new())));
    (tool.provider_schema, tool.output_schema) = (provider_schema, output_schema);
    if tool.parameters.is_none() && !mentions_no_schema {
        tool.no_schema_mode = allow_no_schema;
    }
    faults.extend(check(&tool));
    (Some(tool), faults)
}

/// Returns the fault of a duplicate key.
pub(super) fn duplicate_key(pointer: &String) -> EntryFault {
    EntryFault::new(pointer, "duplicate key", "remove one of them")
}

/// Returns the fault of a policy field outside the tools of a list.
pub(super) fn policy_outside_tools(pointer: &String) -> EntryFault {
    let message = "a policy field outside the list of tools has no effect";
    EntryFault::new(pointer, message, "move it into each tool, or remove it")
}

/// Reads a tool in its serialised form, in which every member must be known.
pub(super) fn read_native(Json { value, repeated }: Json) -> Result<Tool, Vec<EntryFault>> {
    let mut faults: Vec<EntryFault> = repeated.iter().map(duplicate_key).collect();
    for key in value.as_object().into_iter().flat_map(Map::keys) {
        if is_policy(key) || NATIVE_FIELDS.iter().any(|field| is_field(key, field)) {
            continue;
        }
        let message = format!("unknown field {key:?}");
        faults.push(EntryFault::new(format!("/{key}"), message, "remove it"));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    match read_entry(value, None, None) {
        (Some(tool), faults) if faults.iter().all(|fault| fault.kind.is_notice()) => Ok(tool),
        (_, faults) => Err(faults),
    }
}

/// Checks the requirements that a tool must meet by itself, from any origin.
pub(super) fn check(tool: &Tool) -> Vec<EntryFault> {
    let mut faults = Vec::new();
    let mut check_name = |pointer: String, name: &str| {
        if let Some(problem) = name_problem(name) {
            let fault = EntryFault::new(pointer, problem, "give a short printable name");
            faults.push(fault.with_kind(FaultKind::InvalidName));
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
            "give the JSON Schema of the arguments (`{}` for none), or set allow_no_schema with a \
             no_schema_mode of read-only, human-approval or full; `--allow-no-schema MODE` (in \
             Python allow_no_schema=MODE) allows it for the complete catalog",
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
            "the cost is not a finite number of at least 0",
            "give the cost of one call",
        ));
    }
    faults
}

/// Returns the problem of a name, an id, a source or an alias, if it has one.
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

/// Objects, each with its pointer.
type Objects<'a> = Vec<(&'static str, &'a Map<String, Value>)>;

/// Returns the object with an entry's definition, followed by the object around it.
fn definition_objects(object: &Map<String, Value>) -> Result<Objects<'_>, EntryFault> {
    if let Some(Value::Object(function)) = object.get("function") {
        return Ok(vec![("/function", function), ("", object)]);
    }
    let is_definition =
        is_openai(object) || SCHEMA_KEYS.iter().any(|key| object.contains_key(*key));
    match provider_tools::fault(object) {
        Some(fault) if !is_definition => Err(fault),
        _ => Ok(vec![("", object)]),
    }
}

/// Returns `true` if an entry is a tool in OpenAI's shape, with or without a wrapper.
fn is_openai(object: &Map<String, Value>) -> bool {
    match object.get("function") {
        Some(function) => function.is_object(),
        None => object.get("type").is_some_and(|kind| kind == "function"),
    }
}

/// The names of the arguments' schema: the native and OpenAI's, Anthropic's, and MCP's.
pub(super) const SCHEMA_KEYS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];

/// The native fields apart from policy.
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

/// The fields with several spellings: snake case, camel case, or the names in other formats.
const SPELLINGS: [&[&str]; 6] = [
    &SCHEMA_KEYS,
    &["provider_schema", "providerSchema"],
    &["output_schema", "outputSchema"],
    &["allow_no_schema", "allowNoSchema"],
    &["no_schema_mode", "noSchemaMode"],
    &["allowed_roles", "allowedRoles"],
];

/// Returns the spellings of a field.
fn spellings(field: &'static str) -> impl Iterator<Item = &'static str> {
    let others = match SPELLINGS.iter().find(|group| group[0] == field) {
        Some(group) => &group[1..],
        None => &[],
    };
    std::iter::once(field).chain(others.iter().copied())
}

/// Returns a member of an object. A linear search through a few keys is faster than a hash.
fn member<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    match object.len() {
        0..=8 => object
            .iter()
            .find_map(|(name, value)| (name == key).then_some(value)),
        _ => object.get(key),
    }
}

/// A field in an object: the pointer to the object, the key, and the value.
type FieldLocation<'a> = (&'static str, &'static str, &'a Value);

/// Typed access to the members of an entry; a value of the wrong type is reported and skipped.
struct Fields<'a> {
    /// The definition, and the object around it.
    objects: Objects<'a>,
    faults: Vec<EntryFault>,
}

impl<'a> Fields<'a> {
    /// Finds a field in the definition, or else around it.
    fn get(&self, field: &'static str) -> Option<FieldLocation<'a>> {
        self.locations(field).next()
    }

    /// Returns the location of a field: the pointer to the object, and the key.
    fn find(&self, field: &'static str) -> Option<(&'static str, &'static str)> {
        let (pointer, key, _) = self.get(field)?;
        Some((pointer, key))
    }

    /// Returns the locations of a field in any spelling. `null` counts as absent.
    fn locations(&self, field: &'static str) -> impl Iterator<Item = FieldLocation<'a>> {
        self.objects.iter().flat_map(move |&(pointer, object)| {
            spellings(field).filter_map(move |key| match member(object, key)? {
                Value::Null => None,
                value => Some((pointer, key, value)),
            })
        })
    }

    /// Reports the fields that have different values in two locations.
    fn contradictions(&mut self) {
        for field in NATIVE_FIELDS {
            let fault = self.contradiction(field);
            self.faults.extend(fault);
        }
    }

    fn contradiction(&self, field: &'static str) -> Option<EntryFault> {
        let mut locations = self.locations(field);
        let (first_pointer, first_key, value) = locations.next()?;
        let (pointer, key, _) = locations.find(|(.., other)| *other != value)?;
        let message =
            format!("the value differs from {first_pointer}/{first_key}, which is the same field");
        Some(EntryFault::new(
            format!("{pointer}/{key}"),
            message,
            "remove one of them",
        ))
    }

    /// Returns `true` if the entry has a field about missing schemas.
    fn mentions_no_schema(&self) -> bool {
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

    /// Reads the fields apart from policy, and the policy about names and schemas.
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

    /// Reads the policy that decides which callers may see and run the tool.
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
        let faults = policy::faults(Holder::Tool, &self.objects);
        self.faults.extend(faults);
    }

    fn typed<T: Deserialize<'a>>(&mut self, field: &'static str, expected: &str) -> Option<T> {
        let (pointer, key, value) = self.get(field)?;
        match T::deserialize(value) {
            Ok(typed) => Some(typed),
            Err(error) => {
                let error = error.to_string();
                let message = marked(&error, MAX_MESSAGE_CHARS);
                let remedy = format!("give {expected}");
                let fault = EntryFault::new(format!("{pointer}/{key}"), message, remedy);
                let is_name = ["name", "id", "source"].contains(&field);
                self.faults.push(if is_name {
                    fault.with_kind(FaultKind::InvalidName)
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
        self.report_misspelt("annotations", Holder::Annotations);
        self.typed("annotations", "MCP hints, each true or false")
            .unwrap_or_default()
    }

    fn safety(&mut self) -> Option<Safety> {
        // A member with a misspelt name is reported only once.
        if self.report_misspelt("safety", Holder::Safety) {
            return None;
        }
        self.typed(
            "safety",
            "an object with threat_level (low, medium, high, critical) and required_approvals",
        )
    }

    /// Reports the misspelt policy members of an object; returns `true` if it has some.
    fn report_misspelt(&mut self, field: &'static str, holder: Holder) -> bool {
        let Some((pointer, key, Value::Object(object))) = self.get(field) else {
            return false;
        };
        let faults = policy::faults(holder, &[(format!("{pointer}/{key}"), object)]);
        let has_faults = !faults.is_empty();
        self.faults.extend(faults);
        has_faults
    }

    /// Reads capabilities: a list, or an object of booleans.
    fn capabilities(&mut self) -> BTreeSet<String> {
        match self.get("capabilities") {
            Some((pointer, key, Value::Object(flags))) => {
                let mut capabilities = BTreeSet::new();
                for (name, flag) in flags {
                    let Value::Bool(has_capability) = flag else {
                        let message =
                            format!("the capability is {}, not true or false", kind(flag));
                        self.faults.push(EntryFault::new(
                            format!("{pointer}/{key}/{name}"),
                            message,
                            "give true if the tool has it, else false",
                        ));
                        continue;
                    };
                    if *has_capability {
                        capabilities.insert(name.clone());
                    }
                }
                capabilities
            }
            _ => self.set("capabilities"),
        }
    }

    fn aliases(&mut self) -> Vec<Alias> {
        let Some((pointer, key, value)) = self.get("aliases") else {
            return Vec::new();
        };
        let aliases = parse_aliases(value);
        aliases.unwrap_or_else(|| {
            let remedy =
                "give an array of names, or of objects {\"name\": …, \"deprecated\": true}";
            let fault = EntryFault::new(
                format!("{pointer}/{key}"),
                "the aliases are not a list of names",
                remedy,
            );
            self.faults.push(fault.with_kind(FaultKind::InvalidName));
            Vec::new()
        })
    }

    fn no_schema_mode(&mut self) -> Option<NoSchemaMode> {
        let allowed = self.boolean("allow_no_schema").unwrap_or(false);
        let mode = self.typed("no_schema_mode", "read-only, human-approval or full");
        if allowed { mode } else { None }
    }
}

/// Parses a list of names, or of objects with a name; `None` if an item is neither.
fn parse_aliases(value: &Value) -> Option<Vec<Alias>> {
    let items = value.as_array()?;
    let mut aliases = Vec::with_capacity(items.len());
    for item in items {
        aliases.push(match item {
            Value::String(name) => Alias {
                name: name.clone(),
                deprecated: false,
            },
            Value::Object(object) => Alias {
                name: object.get("name")?.as_str()?.to_owned(),
                deprecated: match object.get("deprecated") {
                    Some(flag) => flag.as_bool()?,
                    None => false,
                },
            },
            _ => return None,
        });
    }
    Some(aliases)
}

/// Returns the faults of a schema and the places that are not checked, with pointers below `field`.
fn schema_faults(field: &str, value: &serde_json::Value) -> Vec<EntryFault> {
    let mut faults = Vec::new();
    match schema::check(value) {
        Ok(slips) => {
            for slip in slips {
                let pointer = format!("/{field}{}", slip.pointer);
                let remedy = "correct the schema at its source";
                let notice = EntryFault::new(pointer, slip.message, remedy);
                faults.push(notice.with_kind(FaultKind::UncheckedKeyword));
            }
        }
        Err(schema_faults) => {
            for fault in schema_faults {
                let pointer = format!("/{field}{}", fault.pointer);
                let fault = EntryFault::new(pointer, fault.message, fault.remedy);
                faults.push(fault.with_kind(FaultKind::InvalidSchema));
            }
        }
    }
    faults
}

impl<'de> Deserialize<'de> for Tool {
    /// Reads a serialised tool. Unknown fields are rejected, and the checks of a catalog file
    /// apply. A missing id becomes the qualified name.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        read_native(json).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(describe_fault).collect();
            serde::de::Error::custom(faults.join("; "))
        })
    }
}

fn describe_fault(fault: &EntryFault) -> String {
    let EntryFault {
        pointer,
        message,
        remedy,
        ..
    } = fault;
    let separator = if pointer.is_empty() { "" } else { ": " };
    format!("{pointer}{separator}{message}; {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::policy::{camel_case, policy_fields};

    #[test]
    fn snake_case_fields_are_read_in_camel_case_too() {
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
