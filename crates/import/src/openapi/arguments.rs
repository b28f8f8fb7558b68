//! Parameters and body of an operation as one schema, and where each argument goes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::error::{Fault, Refusal};
use super::naming::plain;
use super::references::part;
use super::schemas::{Schemas, Stop, Style, is_read_only};
use super::{Found, Reader, Version, prose};
use picktools::catalog::http::{Argument, Place, SecurityScheme};
use picktools::schema;
use picktools::schema::MAX_SCHEMA_NODES;

/// The most characters of a parameter's description.
const MAX_DESCRIPTION_CHARS: usize = 1_000;
/// The longest name of an argument that every provider takes.
const MAX_ARGUMENT_CHARS: usize = 64;
/// The most `allOf` within one another of which a body may be composed.
const MAX_COMPOSED: usize = 8;
/// Headers that the specification takes out of the parameters: others say what stands in them.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];
/// The argument that is a body which cannot be taken apart.
const BODY: &str = "body";
/// Members of a schema beside which its properties may be taken out of it.
const BESIDE_PROPERTIES: [&str; 13] = [
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
    "discriminator",
    "nullable",
    "allOf",
];

/// What an operation takes.
pub(super) struct Arguments {
    pub(super) schema: Value,
    pub(super) places: BTreeMap<String, Argument>,
    pub(super) content_type: Option<String>,
    pub(super) patterns_left_out: usize,
}

/// Reads the arguments: references written out where that is not too much, else bundled.
pub(super) fn read<'d>(
    reader: &Reader<'d>,
    found: &Found<'d>,
    operation: &'d Map<String, Value>,
    security: &[BTreeMap<String, SecurityScheme>],
) -> Result<Arguments, Fault> {
    let parameters = parameters(reader, found, operation)?;
    let body = body(reader, found, operation, &parameters)?;
    for style in [Style::Inline, Style::Bundled] {
        let collector = Collector {
            schemas: Schemas::new(reader.references, style),
            properties: Map::new(),
            required: Vec::new(),
            places: BTreeMap::new(),
        };
        match collector.collect(reader, &parameters, body.as_ref(), security) {
            Ok(arguments) => return Ok(arguments),
            Err(Stop::TooLarge) => {}
            Err(Stop::Fault(fault)) => return Err(fault),
        }
    }
    Err(Fault::new(&*found.at, Refusal::TooLarge))
}

/// A parameter as it stands in the document.
struct Parameter<'d> {
    name: &'d str,
    place: Place,
    members: &'d Map<String, Value>,
    at: String,
}

/// The parameters of the operation, and those of its path that it does not have itself.
fn parameters<'d>(
    reader: &Reader<'d>,
    found: &Found<'d>,
    operation: &'d Map<String, Value>,
) -> Result<Vec<Parameter<'d>>, Fault> {
    let path_at = found.at.rsplit_once('/').map_or("", |(path, _)| path);
    let mut parameters: Vec<Parameter<'_>> = Vec::new();
    for (holder, at) in [(operation, &*found.at), (found.item, path_at)] {
        let list = holder.get("parameters").and_then(Value::as_array);
        for (index, parameter) in list.into_iter().flatten().enumerate() {
            let at = format!("{at}/parameters/{index}");
            let members = reader.references.object(parameter, &at)?;
            let text = |key| members.get(key).and_then(Value::as_str);
            let name = text("name").ok_or_else(|| Fault::new(&*at, Refusal::NamelessParameter))?;
            let place = match text("in") {
                Some("path") => Place::Path,
                Some("query") => Place::Query,
                Some("header") => Place::Header,
                Some("cookie") => Place::Cookie,
                Some("body") if reader.version == Version::Two => Place::Body,
                Some("formData") if reader.version == Version::Two => Place::Field,
                _ => return Err(Fault::new(at, Refusal::PlacelessParameter)),
            };
            if !parameters
                .iter()
                .any(|known| (known.name, known.place) == (name, place))
            {
                parameters.push(Parameter {
                    name,
                    place,
                    members,
                    at,
                });
            }
        }
    }
    Ok(parameters)
}

/// A body as it stands in the document.
struct Body<'d> {
    content_type: String,
    /// `None`: its fields stand among the parameters.
    content: Option<Content<'d>>,
}

/// What a body is.
struct Content<'d> {
    /// `None`: anything.
    schema: Option<&'d Value>,
    description: &'d str,
    required: bool,
    at: String,
}

fn body<'d>(
    reader: &Reader<'d>,
    found: &Found<'d>,
    operation: &'d Map<String, Value>,
    parameters: &[Parameter<'d>],
) -> Result<Option<Body<'d>>, Fault> {
    if reader.version == Version::Two {
        return Ok(body_of_two(reader, operation, parameters));
    }
    let Some(body) = operation.get("requestBody").filter(|body| !body.is_null()) else {
        return Ok(None);
    };
    let at = format!("{}/requestBody", found.at);
    let body = reader.references.object(body, &at)?;
    let content = body.get("content").and_then(Value::as_object);
    let preferred = content
        .into_iter()
        .flatten()
        .min_by_key(|(media_type, _)| preference(media_type));
    let Some((media_type, content)) = preferred else {
        return Ok(None);
    };
    let at = format!("{at}/content/{}/schema", part(media_type));
    let content = Content::of(body, content.get("schema"), at);
    Ok(Some(Body {
        content_type: media_type.clone(),
        content: Some(content),
    }))
}

fn body_of_two<'d>(
    reader: &Reader<'d>,
    operation: &'d Map<String, Value>,
    parameters: &[Parameter<'d>],
) -> Option<Body<'d>> {
    let consumes = operation
        .get("consumes")
        .or_else(|| reader.document.get("consumes"))
        .and_then(Value::as_array);
    let consumes = || consumes.into_iter().flatten().filter_map(Value::as_str);
    if let Some(body) = parameters
        .iter()
        .find(|parameter| parameter.place == Place::Body)
    {
        let preferred = consumes().min_by_key(|media_type| preference(media_type));
        let content = Content::of(
            body.members,
            body.members.get("schema"),
            format!("{}/schema", body.at),
        );
        return Some(Body {
            content_type: preferred.unwrap_or("application/json").to_owned(),
            content: Some(content),
        });
    }
    let mut fields = parameters
        .iter()
        .filter(|parameter| parameter.place == Place::Field);
    let first = fields.next()?;
    let file = std::iter::once(first)
        .chain(fields)
        .any(|field| field.members.get("type") == Some(&"file".into()));
    let form = if file {
        "multipart/form-data"
    } else {
        "application/x-www-form-urlencoded"
    };
    let given = consumes()
        .find(|media_type| media_type.contains("form"))
        .filter(|_| !file);
    Some(Body {
        content_type: given.unwrap_or(form).to_owned(),
        content: None,
    })
}

impl<'d> Content<'d> {
    fn of(holder: &'d Map<String, Value>, schema: Option<&'d Value>, at: String) -> Self {
        Self {
            schema,
            description: holder
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            required: holder.get("required") == Some(&Value::Bool(true)),
            at,
        }
    }
}

/// Which media type a body is sent in: the least is the best.
fn preference(media_type: &str) -> u8 {
    let media_type = media_type.to_ascii_lowercase();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    match essence {
        "application/json" => 0,
        essence if essence.ends_with("/json") || essence.ends_with("+json") => 1,
        "application/x-www-form-urlencoded" => 2,
        "multipart/form-data" => 3,
        "*/*" | "application/*" => 4,
        essence if essence.starts_with("text/") => 5,
        _ => 6,
    }
}

/// The members of a body that can be taken apart.
struct Fields<'d> {
    fields: Vec<(&'d str, &'d Value, String)>,
    required: Vec<&'d str>,
}

impl<'d> Fields<'d> {
    /// Returns the members of a schema that says nothing but its properties.
    fn of(reader: &Reader<'d>, schema: &'d Value, at: &str) -> Option<Self> {
        let mut fields = Self {
            fields: Vec::new(),
            required: Vec::new(),
        };
        (fields.add(reader, schema, at, 0) && !fields.fields.is_empty()).then_some(fields)
    }

    fn add(&mut self, reader: &Reader<'d>, schema: &'d Value, at: &str, depth: usize) -> bool {
        let Ok(members) = reader.references.object(schema, at) else {
            return false;
        };
        let known = |(key, value): (&String, &Value)| {
            BESIDE_PROPERTIES.contains(&key.as_str())
                || key.starts_with("x-")
                // Further members of any kind are not asked for; those of one kind are a map, which
                // stays whole.
                || (key == "additionalProperties" && (value.is_boolean() || *value == json!({})))
        };
        let is_object = members.get("type").is_none_or(|kind| kind == "object");
        if depth > MAX_COMPOSED || !is_object || !members.iter().all(known) {
            return false;
        }
        for (index, one) in members
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            if !self.add(reader, one, &format!("{at}/allOf/{index}"), depth + 1) {
                return false;
            }
        }
        for (name, property) in members
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let field = (
                name.as_str(),
                property,
                format!("{at}/properties/{}", part(name)),
            );
            match self.fields.iter_mut().find(|(known, ..)| known == name) {
                Some(known) => *known = field,
                None => self.fields.push(field),
            }
        }
        let required = members
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        self.required.extend(required.filter_map(Value::as_str));
        true
    }
}

/// Puts arguments into one schema.
struct Collector<'d> {
    schemas: Schemas<'d>,
    properties: Map<String, Value>,
    required: Vec<String>,
    places: BTreeMap<String, Argument>,
}

impl<'d> Collector<'d> {
    fn collect(
        mut self,
        reader: &Reader<'d>,
        parameters: &[Parameter<'d>],
        body: Option<&Body<'d>>,
        security: &[BTreeMap<String, SecurityScheme>],
    ) -> Result<Arguments, Stop> {
        let credential = |parameter: &Parameter<'_>| {
            let ignored = IGNORED_HEADERS
                .iter()
                .any(|header| parameter.name.eq_ignore_ascii_case(header));
            let key = |scheme: &SecurityScheme| {
                let place = scheme.place.as_deref() == Some(parameter.place.name());
                place && scheme.name.as_deref() == Some(parameter.name)
            };
            parameter.place == Place::Header && ignored
                || security.iter().flat_map(BTreeMap::values).any(key)
        };
        let content = body.and_then(|body| body.content.as_ref());
        let fields = content.and_then(|content| Fields::of(reader, content.schema?, &content.at));
        // The names of the body stay as they are; parameters of the same name give way.
        let taken: Vec<String> = match &fields {
            Some(fields) => fields
                .fields
                .iter()
                .map(|(name, ..)| argument_name(name))
                .collect(),
            None => content.iter().map(|_| BODY.to_owned()).collect(),
        };
        for parameter in parameters
            .iter()
            .filter(|parameter| parameter.place != Place::Body && !credential(parameter))
        {
            self.parameter(reader, parameter, &taken)?;
        }
        match (content, fields) {
            (Some(content), Some(fields)) => {
                for (name, schema, at) in &fields.fields {
                    if is_read_only(&reader.references, schema) {
                        continue;
                    }
                    let made = self.schemas.schema(schema, at)?;
                    let required = content.required && fields.required.contains(name);
                    let argument = self.unused(&argument_name(name), Place::Field, &[]);
                    self.add(argument, name, Place::Field, made, required);
                }
            }
            (Some(content), None) => {
                let mut made = match content.schema {
                    Some(schema) => self.schemas.schema(schema, &content.at)?,
                    None => json!({}),
                };
                describe(&mut made, content.description);
                self.add(BODY.to_owned(), BODY, Place::Body, made, content.required);
            }
            (None, _) => {}
        }
        self.finish(body)
    }

    fn parameter(
        &mut self,
        reader: &Reader<'d>,
        parameter: &Parameter<'d>,
        taken: &[String],
    ) -> Result<(), Stop> {
        let Parameter {
            name,
            place,
            members,
            at,
        } = parameter;
        let mut made = match reader.version {
            Version::Two => self.schemas.parameter(members, at)?,
            Version::Three => {
                let media_type = || members.get("content")?.as_object()?.values().next();
                match members
                    .get("schema")
                    .or_else(|| media_type()?.get("schema"))
                {
                    Some(schema) => self.schemas.schema(schema, &format!("{at}/schema"))?,
                    None => json!({}),
                }
            }
        };
        describe(
            &mut made,
            members
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
        let argument = self.unused(&argument_name(name), *place, taken);
        let required = *place == Place::Path || members.get("required") == Some(&Value::Bool(true));
        self.add(argument.clone(), name, *place, made, required);
        if let Some(added) = self.places.get_mut(&argument) {
            added.style = members
                .get("style")
                .and_then(Value::as_str)
                .map(str::to_owned);
            added.explode = members.get("explode").and_then(Value::as_bool);
            // What version 2.0 calls the format of a collection.
            match members.get("collectionFormat").and_then(Value::as_str) {
                Some("multi") => added.explode = Some(true),
                Some("csv") => added.explode = Some(false),
                Some("ssv") => added.style = Some("spaceDelimited".to_owned()),
                Some("pipes") => added.style = Some("pipeDelimited".to_owned()),
                Some("tsv") => added.style = Some("tabDelimited".to_owned()),
                None if reader.version == Version::Two
                    && members.get("type") == Some(&"array".into()) =>
                {
                    added.explode = Some(false);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The name, with the place behind it, and a number if need be, where it is used already.
    fn unused(&self, name: &str, place: Place, taken: &[String]) -> String {
        let numbered = (2..).map(|number| format!("{name}__{}_{number}", place.name()));
        let mut names = [name.to_owned(), format!("{name}__{}", place.name())]
            .into_iter()
            .chain(numbered);
        let free = |name: &String| !taken.contains(name) && !self.properties.contains_key(name);
        names.find(free).unwrap_or_else(|| name.to_owned())
    }

    fn add(&mut self, argument: String, name: &str, place: Place, schema: Value, required: bool) {
        let name = Some(name.to_owned()).filter(|name| *name != argument);
        self.places.insert(
            argument.clone(),
            Argument {
                place,
                name,
                style: None,
                explode: None,
            },
        );
        if required {
            self.required.push(argument.clone());
        }
        self.properties.insert(argument, schema);
    }

    fn finish(self, body: Option<&Body<'_>>) -> Result<Arguments, Stop> {
        let Self {
            schemas,
            properties,
            required,
            places,
        } = self;
        let (definitions, patterns_left_out) = schemas.definitions()?;
        let content_type = body.map(|body| body.content_type.clone());
        if properties.is_empty() {
            // A tool that takes no arguments.
            return Ok(Arguments {
                schema: json!({}),
                places,
                content_type,
                patterns_left_out,
            });
        }
        let mut made =
            json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            made["required"] = required.into();
        }
        if !definitions.is_empty() {
            made["$defs"] = Value::Object(definitions);
        }
        if schema::values(&made) > MAX_SCHEMA_NODES {
            return Err(Stop::TooLarge);
        }
        Ok(Arguments {
            schema: made,
            places,
            content_type,
            patterns_left_out,
        })
    }
}

/// A name that every provider takes for an argument.
fn argument_name(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let fits = !name.is_empty() && name.chars().all(allowed) && name.len() <= MAX_ARGUMENT_CHARS;
    let mut made = if fits { name.to_owned() } else { plain(name) };
    made.truncate(MAX_ARGUMENT_CHARS);
    if made.is_empty() {
        "argument".to_owned()
    } else {
        made
    }
}

/// Says what an argument is, where its schema does not.
fn describe(schema: &mut Value, description: &str) {
    let description = prose::clean(description, MAX_DESCRIPTION_CHARS);
    match schema {
        Value::Object(members) if !description.is_empty() => {
            members
                .entry("description")
                .or_insert_with(|| description.into());
        }
        Value::Bool(true) if !description.is_empty() => {
            *schema = json!({"description": description})
        }
        _ => {}
    }
}
