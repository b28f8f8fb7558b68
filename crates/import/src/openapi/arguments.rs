//! Conversion of an operation's parameters and body to one schema, with the location of each
//! argument.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::error::{OperationError, OperationProblem};
use super::naming::{lost_name, plain};
use super::operation::{OperationEntry, OperationReader, Version};
use super::prose;
use super::references::{array_member, object_member, part, text_member};
use super::schemas::{SchemaError, Schemas, Style, is_read_only};
use picktools::catalog::http::{Argument, ArgumentLocation, SecurityScheme, ValueEncoding};
use picktools::schema;
use picktools::schema::MAX_SCHEMA_NODES;

/// The longest description of a parameter, in characters.
const MAX_DESCRIPTION_CHARS: usize = 1_000;
/// The longest argument name that every provider accepts.
const MAX_ARGUMENT_CHARS: usize = 64;
/// The deepest nesting of `allOf` in a body.
const MAX_COMPOSED: usize = 8;
/// Headers that the specification excludes from the parameters, because other members define them.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];
/// The argument for a body that cannot be split into its properties.
const BODY: &str = "body";
/// The keywords with which a schema can be replaced by its properties.
const OBJECT_KEYWORDS: [&str; 12] = [
    "type",
    "properties",
    "required",
    "title",
    "description",
    "example",
    "examples",
    "default",
    "xml",
    "externalDocs",
    "nullable",
    "allOf",
];

/// The arguments of an operation.
pub(super) struct OperationArguments {
    pub(super) schema: Value,
    pub(super) locations: BTreeMap<String, Argument>,
    pub(super) content_type: Option<String>,
    pub(super) patterns_left_out: usize,
}

/// Converts the arguments of an operation. References are inlined if the result is small enough,
/// and bundled otherwise.
pub(super) fn convert<'d>(
    reader: &OperationReader<'d>,
    entry: &OperationEntry<'d>,
    operation: &'d Map<String, Value>,
    security: &[BTreeMap<String, SecurityScheme>],
) -> Result<OperationArguments, OperationError> {
    let parameters = parameters(reader, entry, operation)?;
    let body = body(reader, entry, operation, &parameters)?;
    for style in [Style::Inline, Style::Bundled] {
        let collector = ArgumentCollector {
            schemas: Schemas::new(reader.references, style),
            properties: Map::new(),
            required: Vec::new(),
            locations: BTreeMap::new(),
        };
        match collector.collect(reader, &parameters, body.as_ref(), security) {
            Ok(arguments) => return Ok(arguments),
            Err(SchemaError::TooLarge) => {}
            Err(SchemaError::Operation(error)) => return Err(error),
        }
    }
    Err(OperationError::new(&*entry.at, OperationProblem::TooLarge))
}

/// A parameter of the document.
struct Parameter<'d> {
    name: &'d str,
    location: ArgumentLocation,
    members: &'d Map<String, Value>,
    at: String,
}

/// Collects the parameters of the operation, and those of its path that it does not override.
fn parameters<'d>(
    reader: &OperationReader<'d>,
    entry: &OperationEntry<'d>,
    operation: &'d Map<String, Value>,
) -> Result<Vec<Parameter<'d>>, OperationError> {
    let mut parameters: Vec<Parameter<'_>> = Vec::new();
    for (holder, at) in [(operation, &*entry.at), (entry.item, &*entry.item_at)] {
        for (index, parameter) in array_member(holder, "parameters").iter().enumerate() {
            let at = format!("{at}/parameters/{index}");
            let members = reader.references.object(parameter, &at)?;
            let name = text_member(members, "name")
                .ok_or_else(|| OperationError::new(&*at, OperationProblem::UnnamedParameter))?;
            let location = match text_member(members, "in") {
                Some("path") => ArgumentLocation::Path,
                Some("query") => ArgumentLocation::Query,
                Some("header") => ArgumentLocation::Header,
                Some("cookie") => ArgumentLocation::Cookie,
                Some("body") if reader.version == Version::Two => ArgumentLocation::Body,
                Some("formData") if reader.version == Version::Two => ArgumentLocation::Field,
                _ => {
                    return Err(OperationError::new(
                        at,
                        OperationProblem::UnknownParameterLocation,
                    ));
                }
            };
            let is_same = |existing: &Parameter<'_>| {
                existing.location == location && is_same_name(existing.name, name, location)
            };
            if !parameters.iter().any(is_same) {
                parameters.push(Parameter {
                    name,
                    location,
                    members,
                    at,
                });
            }
        }
    }
    Ok(parameters)
}

/// Returns `true` if two parameters of one location are the same; headers do not differ in case.
fn is_same_name(a: &str, b: &str, location: ArgumentLocation) -> bool {
    match location {
        ArgumentLocation::Header => a.eq_ignore_ascii_case(b),
        _ => a == b,
    }
}

/// The body of a request.
struct RequestBody<'d> {
    content_type: String,
    /// `None` if the fields are parameters, as in form data of version 2.0.
    content: Option<BodyContent<'d>>,
}

/// The content of a body.
struct BodyContent<'d> {
    /// `None` if the body may be anything.
    schema: Option<&'d Value>,
    description: &'d str,
    required: bool,
    at: String,
}

fn body<'d>(
    reader: &OperationReader<'d>,
    entry: &OperationEntry<'d>,
    operation: &'d Map<String, Value>,
    parameters: &[Parameter<'d>],
) -> Result<Option<RequestBody<'d>>, OperationError> {
    if reader.version == Version::Two {
        return Ok(body_from_version_2(reader, operation, parameters));
    }
    let body = match operation.get("requestBody") {
        None | Some(Value::Null) => return Ok(None),
        Some(body) => body,
    };
    let at = format!("{}/requestBody", entry.at);
    let body = reader.references.object(body, &at)?;
    let preferred =
        object_member(body, "content").min_by_key(|(media_type, _)| preference(media_type));
    let Some((media_type, content)) = preferred else {
        return Ok(None);
    };
    let at = format!("{at}/content/{}/schema", part(media_type));
    let content = BodyContent::new(body, content.get("schema"), at);
    Ok(Some(RequestBody {
        content_type: media_type.clone(),
        content: Some(content),
    }))
}

fn body_from_version_2<'d>(
    reader: &OperationReader<'d>,
    operation: &'d Map<String, Value>,
    parameters: &[Parameter<'d>],
) -> Option<RequestBody<'d>> {
    let media_types = operation
        .get("consumes")
        .or_else(|| reader.document.get("consumes"));
    let media_types: &[Value] = match media_types {
        Some(Value::Array(media_types)) => media_types,
        _ => &[],
    };
    let mut media_types = media_types.iter().filter_map(Value::as_str);
    if let Some(body) = parameters
        .iter()
        .find(|parameter| parameter.location == ArgumentLocation::Body)
    {
        let preferred = media_types.min_by_key(|media_type| preference(media_type));
        let content = BodyContent::new(
            body.members,
            body.members.get("schema"),
            format!("{}/schema", body.at),
        );
        return Some(RequestBody {
            content_type: preferred.unwrap_or("application/json").to_owned(),
            content: Some(content),
        });
    }
    let (mut has_field, mut has_file) = (false, false);
    for parameter in parameters {
        if parameter.location == ArgumentLocation::Field {
            has_field = true;
            has_file |= text_member(parameter.members, "type") == Some("file");
        }
    }
    if !has_field {
        return None;
    }
    let form_type = media_types.find(|media_type| media_type.contains("form"));
    let content_type = match form_type {
        _ if has_file => "multipart/form-data",
        Some(form_type) => form_type,
        None => "application/x-www-form-urlencoded",
    };
    Some(RequestBody {
        content_type: content_type.to_owned(),
        content: None,
    })
}

impl<'d> BodyContent<'d> {
    fn new(holder: &'d Map<String, Value>, schema: Option<&'d Value>, at: String) -> Self {
        Self {
            schema,
            description: text_member(holder, "description").unwrap_or_default(),
            required: holder.get("required") == Some(&Value::Bool(true)),
            at,
        }
    }
}

/// Returns a media type without its parameters, in lower case.
fn essence(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn is_json(essence: &str) -> bool {
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// Returns `true` if a body of a media type is bytes, not text.
fn is_binary(essence: &str) -> bool {
    let is_text = essence.starts_with("text/")
        || is_json(essence)
        || essence.ends_with("xml")
        || essence.ends_with("yaml")
        || essence.ends_with("*")
        || essence.contains("form");
    !is_text
}

/// Returns the schema for the bytes of a file, or of a list of files; `None` if a schema is for
/// something else.
fn bytes_schema(reader: &OperationReader<'_>, schema: &Value) -> Option<Value> {
    let target = reader.references.follow(schema, "").ok()?;
    if target["format"] == "binary" {
        return Some(bytes_of(target));
    }
    let items = target.get("items").filter(|_| target["type"] == "array")?;
    let items = bytes_schema(reader, items)?;
    Some(json!({"type": "array", "items": items}))
}

/// Returns the schema for bytes with the description of `schema`.
fn bytes_of(schema: &Value) -> Value {
    let description = schema["description"].as_str().unwrap_or_default();
    let description = prose::clean(description, MAX_DESCRIPTION_CHARS);
    let description = match description.is_empty() {
        true => "The bytes in base64.".to_owned(),
        false => format!("{description} (the bytes in base64)"),
    };
    json!({"type": "string", "contentEncoding": "base64", "description": description})
}

/// Returns the rank of a media type for a body; lower is better.
fn preference(media_type: &str) -> u8 {
    match essence(media_type).as_str() {
        "application/json" => 0,
        essence if is_json(essence) => 1,
        "application/x-www-form-urlencoded" => 2,
        "multipart/form-data" => 3,
        "*/*" | "application/*" => 4,
        essence if essence.starts_with("text/") => 5,
        _ => 6,
    }
}

/// The properties of a body that become arguments of their own.
struct BodyFields<'d> {
    fields: Vec<(&'d str, &'d Value, String)>,
    required: Vec<&'d str>,
}

impl<'d> BodyFields<'d> {
    /// Returns the properties of a schema; `None` if the schema has other constraints too.
    fn from_schema(reader: &OperationReader<'d>, schema: &'d Value, at: &str) -> Option<Self> {
        let mut fields = Self {
            fields: Vec::new(),
            required: Vec::new(),
        };
        (fields.add(reader, schema, at, 0) && !fields.fields.is_empty()).then_some(fields)
    }

    fn add(
        &mut self,
        reader: &OperationReader<'d>,
        schema: &'d Value,
        at: &str,
        depth: usize,
    ) -> bool {
        let Ok(members) = reader.references.object(schema, at) else {
            return false;
        };
        // What remains of a discriminator has variants that could not be listed.
        if depth > MAX_COMPOSED || !has_only_properties(members, |_| false) {
            return false;
        }
        for (index, composed) in array_member(members, "allOf").iter().enumerate() {
            if !self.add(reader, composed, &format!("{at}/allOf/{index}"), depth + 1) {
                return false;
            }
        }
        for (name, property) in object_member(members, "properties") {
            let field = (
                name.as_str(),
                property,
                format!("{at}/properties/{}", part(name)),
            );
            match self
                .fields
                .iter_mut()
                .find(|(existing, ..)| existing == name)
            {
                Some(existing) => *existing = field,
                None => self.fields.push(field),
            }
        }
        for name in array_member(members, "required") {
            self.required.extend(name.as_str());
        }
        true
    }
}

/// Returns `true` if a schema can be replaced by its properties; `is_known` names further keywords
/// that may stand there.
pub(super) fn has_only_properties(
    members: &Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
) -> bool {
    let is_object = members.get("type").is_none_or(|kind| kind == "object");
    is_object
        && members.iter().all(|(key, value)| {
            OBJECT_KEYWORDS.contains(&key.as_str())
                || key.starts_with("x-")
                || is_known(key)
                // Additional properties of any type are ignored; those of one type are a map,
                // which is kept as one argument.
                || (key == "additionalProperties" && (value.is_boolean() || *value == json!({})))
        })
}

/// Returns `true` if the model cannot set a parameter, because the client adds it: a credential, or
/// a header that other members define.
fn is_credential(parameter: &Parameter<'_>, security: &[BTreeMap<String, SecurityScheme>]) -> bool {
    let is_ignored = IGNORED_HEADERS
        .iter()
        .any(|header| parameter.name.eq_ignore_ascii_case(header));
    if parameter.location == ArgumentLocation::Header && is_ignored {
        return true;
    }
    let is_scheme = |scheme: &SecurityScheme| {
        let is_same_location = scheme.place.as_deref() == Some(parameter.location.name());
        is_same_location && scheme.name.as_deref() == Some(parameter.name)
    };
    security.iter().flat_map(BTreeMap::values).any(is_scheme)
}

/// Builder for the schema of all arguments.
struct ArgumentCollector<'d> {
    schemas: Schemas<'d>,
    properties: Map<String, Value>,
    required: Vec<String>,
    locations: BTreeMap<String, Argument>,
}

impl<'d> ArgumentCollector<'d> {
    fn collect(
        mut self,
        reader: &OperationReader<'d>,
        parameters: &[Parameter<'d>],
        body: Option<&RequestBody<'d>>,
        security: &[BTreeMap<String, SecurityScheme>],
    ) -> Result<OperationArguments, SchemaError> {
        let content = body.and_then(|body| body.content.as_ref());
        let fields = content
            .and_then(|content| BodyFields::from_schema(reader, content.schema?, &content.at));
        // Properties of the body keep their names; parameters with the same name are renamed.
        let mut reserved: Vec<String> = Vec::new();
        if let Some(fields) = &fields {
            for (name, ..) in &fields.fields {
                reserved.push(valid_argument_name(name));
            }
        } else if content.is_some() {
            reserved.push(BODY.to_owned());
        }
        for parameter in parameters {
            if parameter.location != ArgumentLocation::Body && !is_credential(parameter, security) {
                self.parameter(reader, parameter, &reserved)?;
            }
        }
        let media_type = essence(body.map_or("", |body| &*body.content_type));
        let multipart = media_type.starts_with("multipart/");
        match (content, fields) {
            (Some(content), Some(fields)) => {
                for (name, schema, at) in &fields.fields {
                    if is_read_only(&reader.references, schema) {
                        continue;
                    }
                    let bytes = multipart.then(|| bytes_schema(reader, schema)).flatten();
                    let encoding = bytes.is_some().then_some(ValueEncoding::Base64);
                    let field_schema = match bytes {
                        Some(bytes) => bytes,
                        None => self.schemas.schema(schema, at)?,
                    };
                    let required = content.required && fields.required.contains(name);
                    let argument =
                        self.unused(&valid_argument_name(name), ArgumentLocation::Field, &[]);
                    self.add(
                        argument,
                        name,
                        ArgumentLocation::Field,
                        field_schema,
                        required,
                        encoding,
                    );
                }
            }
            (Some(content), None) => {
                let is_bytes = is_binary(&media_type);
                let mut body_schema = match content.schema {
                    _ if is_bytes => bytes_of(&json!({"description": content.description})),
                    Some(schema) => self.schemas.schema(schema, &content.at)?,
                    None => json!({}),
                };
                describe(&mut body_schema, content.description);
                self.add(
                    BODY.to_owned(),
                    BODY,
                    ArgumentLocation::Body,
                    body_schema,
                    content.required,
                    is_bytes.then_some(ValueEncoding::Base64),
                );
            }
            (None, _) => {}
        }
        self.finish(body)
    }

    fn parameter(
        &mut self,
        reader: &OperationReader<'d>,
        parameter: &Parameter<'d>,
        reserved: &[String],
    ) -> Result<(), SchemaError> {
        let Parameter {
            name,
            location,
            members,
            at,
        } = parameter;
        let content = object_member(members, "content").min_by_key(|(kind, _)| preference(kind));
        let mut encoding = None;
        let mut parameter_schema = match reader.version {
            Version::Two if text_member(members, "type") == Some("file") => {
                encoding = Some(ValueEncoding::Base64);
                bytes_of(&Value::Object((*members).clone()))
            }
            Version::Two => self.schemas.parameter(members, at)?,
            Version::Three => {
                let in_content = content.and_then(|(_, content)| content.get("schema"));
                if content.is_some_and(|(kind, _)| is_json(&essence(kind))) {
                    encoding = Some(ValueEncoding::Json);
                }
                match members.get("schema").or(in_content) {
                    Some(schema) => self.schemas.schema(schema, &format!("{at}/schema"))?,
                    None => json!({}),
                }
            }
        };
        let description = text_member(members, "description").unwrap_or_default();
        describe(&mut parameter_schema, description);
        let argument_name = self.unused(&valid_argument_name(name), *location, reserved);
        let required = *location == ArgumentLocation::Path
            || members.get("required") == Some(&Value::Bool(true));
        self.add(
            argument_name.clone(),
            name,
            *location,
            parameter_schema,
            required,
            encoding,
        );
        if let Some(argument) = self.locations.get_mut(&argument_name) {
            argument.style = text_member(members, "style").map(str::to_owned);
            argument.explode = members.get("explode").and_then(Value::as_bool);
            // Version 2.0 has `collectionFormat` instead of `style` and `explode`.
            match text_member(members, "collectionFormat") {
                Some("multi") => argument.explode = Some(true),
                Some("csv") => argument.explode = Some(false),
                Some("ssv") => argument.style = Some("spaceDelimited".to_owned()),
                Some("pipes") => argument.style = Some("pipeDelimited".to_owned()),
                Some("tsv") => argument.style = Some("tabDelimited".to_owned()),
                None if reader.version == Version::Two
                    && members.get("type") == Some(&"array".into()) =>
                {
                    argument.explode = Some(false);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the name if it is unused; otherwise appends the location, and a number if necessary.
    fn unused(&self, name: &str, location: ArgumentLocation, reserved: &[String]) -> String {
        let is_used = |name: &String| reserved.contains(name) || self.properties.contains_key(name);
        let mut unused = name.to_owned();
        if !is_used(&unused) {
            return unused;
        }
        let qualified = format!("{name}__{}", location.name());
        unused.clone_from(&qualified);
        let mut number = 1;
        while is_used(&unused) {
            number += 1;
            unused = format!("{qualified}_{number}");
        }
        unused
    }

    fn add(
        &mut self,
        argument: String,
        name: &str,
        location: ArgumentLocation,
        schema: Value,
        required: bool,
        encoding: Option<ValueEncoding>,
    ) {
        let mut schema = schema;
        if let (Some(title), Value::Object(members)) = (lost_name(Some(name)), &mut schema) {
            members.entry("title").or_insert_with(|| title.into());
        }
        let name = (name != argument).then(|| name.to_owned());
        self.locations.insert(
            argument.clone(),
            Argument {
                place: location,
                name,
                style: None,
                explode: None,
                encoding,
            },
        );
        if required {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument, schema);
    }

    fn finish(self, body: Option<&RequestBody<'_>>) -> Result<OperationArguments, SchemaError> {
        let Self {
            schemas,
            properties,
            required,
            locations,
        } = self;
        let (definitions, patterns_left_out) = schemas.definitions()?;
        let content_type = body.map(|body| body.content_type.clone());
        if properties.is_empty() {
            // The tool takes no arguments.
            return Ok(OperationArguments {
                schema: json!({}),
                locations,
                content_type,
                patterns_left_out,
            });
        }
        let mut schema =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = required.into();
        }
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        if schema::count_values(&schema) > MAX_SCHEMA_NODES {
            return Err(SchemaError::TooLarge);
        }
        Ok(OperationArguments {
            schema,
            locations,
            content_type,
            patterns_left_out,
        })
    }
}

/// Converts a name to one that every provider accepts for an argument.
fn valid_argument_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_valid =
        !name.is_empty() && name.chars().all(is_allowed) && name.len() <= MAX_ARGUMENT_CHARS;
    let mut valid_name = if is_valid {
        name.to_owned()
    } else {
        plain(name)
    };
    valid_name.truncate(MAX_ARGUMENT_CHARS);
    if valid_name.is_empty() {
        "argument".to_owned()
    } else {
        valid_name
    }
}

/// Adds the description of an argument if its schema has none.
fn describe(schema: &mut Value, description: &str) {
    let description = prose::clean(description, MAX_DESCRIPTION_CHARS);
    match schema {
        Value::Object(members) if !description.is_empty() => {
            members
                .entry("description")
                .or_insert_with(|| description.into());
        }
        Value::Bool(true) if !description.is_empty() => {
            *schema = json!({"description": description});
        }
        _ => {}
    }
}
