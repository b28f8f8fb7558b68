//! The rules of the providers, checked without the code that writes the definitions.

use std::collections::{BTreeMap, BTreeSet};

use picktools_provider::Provider;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Returns the violations in the `tools` of a request.
pub(super) fn faults(provider: Provider, tools: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    for definition in definitions(provider, tools) {
        let name = definition["name"].as_str().unwrap_or_default();
        if !names.insert(name.to_owned()) {
            found.push(format!("{name} is there twice"));
        }
        let mut faults = Vec::new();
        match provider {
            Provider::OpenAiChat | Provider::OpenAiResponses => openai(definition, &mut faults),
            Provider::Anthropic => anthropic(definition, &mut faults),
            Provider::Gemini => gemini(definition, &mut faults),
            Provider::Ollama => ollama(definition, &mut faults),
            _ => mcp(definition, &mut faults),
        }
        found.extend(
            faults
                .into_iter()
                .map(|fault| format!("{provider} {name}: {fault}\n  {definition}")),
        );
    }
    found
}

/// Returns the functions of a request without their wrappers.
pub(super) fn definitions(provider: Provider, tools: &Value) -> Vec<&Value> {
    let list = tools.as_array().expect("tools are a list").iter();
    match provider {
        Provider::OpenAiChat | Provider::Ollama => list
            .map(|tool| {
                assert_eq!(tool["type"], "function", "{tool}");
                &tool["function"]
            })
            .collect(),
        Provider::OpenAiResponses => list
            .inspect(|tool| assert_eq!(tool["type"], "function", "{tool}"))
            .collect(),
        Provider::Gemini => {
            let groups = list.map(|group| {
                group["functionDeclarations"]
                    .as_array()
                    .expect("they are declared")
            });
            groups.flatten().collect()
        }
        _ => list.collect(),
    }
}

/// Returns the schema of a definition; `None` if Gemini gets none.
pub(super) fn schema_of(provider: Provider, definition: &Value) -> Option<&Value> {
    definition.get(match provider {
        Provider::Anthropic => "input_schema",
        Provider::Mcp => "inputSchema",
        _ => "parameters",
    })
}

fn is_name(text: &str, most: usize, others: &str, letter_first: bool) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || others.contains(c);
    let first = text
        .chars()
        .next()
        .is_some_and(|c| !letter_first || c.is_ascii_alphabetic() || c == '_');
    first && text.len() <= most && text.chars().all(fine)
}

/// Checks the rules of strict mode that OpenAI and Anthropic share, and those of OpenAI.
#[rustfmt::skip]
const ANTHROPIC_STRICT: &[&str] = &[
    "type", "description", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref",
    "$defs", "definitions", "format", "minItems", "title",
];
#[rustfmt::skip]
const OPENAI_STRICT: &[&str] = &[
    "pattern", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "maxItems",
];

fn openai(definition: &Value, faults: &mut Vec<String>) {
    only(
        definition,
        &["type", "name", "description", "parameters", "strict"],
        faults,
    );
    if !is_name(
        definition["name"].as_str().unwrap_or_default(),
        64,
        "-",
        false,
    ) {
        faults.push("the name is refused".to_owned());
    }
    if definition["description"]
        .as_str()
        .unwrap_or_default()
        .chars()
        .count()
        > 1024
    {
        faults.push("the description is too long".to_owned());
    }
    let schema = &definition["parameters"];
    plain_root(schema, faults);
    for (pointer, node) in nodes(schema) {
        if node.get("type") == Some(&json!("array")) && !node.contains_key("items") {
            faults.push(format!("{pointer}: array schema missing items"));
        }
    }
    if definition["strict"] == true {
        strict(
            schema,
            &[ANTHROPIC_STRICT, OPENAI_STRICT].concat(),
            true,
            faults,
        );
    }
}

fn anthropic(definition: &Value, faults: &mut Vec<String>) {
    only(
        definition,
        &["name", "description", "input_schema", "strict"],
        faults,
    );
    if !is_name(
        definition["name"].as_str().unwrap_or_default(),
        64,
        "-",
        false,
    ) {
        faults.push("the name is refused".to_owned());
    }
    let schema = &definition["input_schema"];
    plain_root(schema, faults);
    if !jsonschema::draft202012::meta::is_valid(schema) {
        faults.push("it is not JSON Schema 2020-12".to_owned());
    }
    for (pointer, node) in nodes(schema) {
        let keys = node
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys);
        for key in keys.filter(|key| !is_name(key, 64, "-.", false)) {
            faults.push(format!("{pointer}: the property key {key:?} is refused"));
        }
    }
    if definition["strict"] == true {
        strict(schema, ANTHROPIC_STRICT, false, faults);
    }
}

/// "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top
/// level".
fn plain_root(schema: &Value, faults: &mut Vec<String>) {
    if schema["type"] != "object" {
        faults.push("the root is no object".to_owned());
    }
    for keyword in ["oneOf", "anyOf", "allOf", "enum", "not", "$ref"] {
        if schema.get(keyword).is_some() {
            faults.push(format!("the root has {keyword}"));
        }
    }
}

fn strict(schema: &Value, keywords: &[&str], all_required: bool, faults: &mut Vec<String>) {
    for (pointer, node) in nodes(schema) {
        let mut fault = |text: String| faults.push(format!("strict, {pointer}: {text}"));
        for keyword in node
            .keys()
            .filter(|keyword| !keywords.contains(&keyword.as_str()))
        {
            fault(format!("{keyword} is not supported"));
        }
        if !["type", "anyOf", "$ref"]
            .iter()
            .any(|keyword| node.contains_key(*keyword))
        {
            fault("it has no type".to_owned());
        }
        if let Some(target) = node.get("$ref") {
            let target = target
                .as_str()
                .and_then(|target| target.strip_prefix('#'))
                .unwrap_or("nowhere");
            if schema.pointer(target).is_none() || node.len() > 1 {
                fault(format!(
                    "the reference to {target} is not alone or has no target"
                ));
            }
        }
        let listed = node.get("enum").and_then(Value::as_array);
        if listed.is_some_and(|values| {
            values.is_empty()
                || values
                    .iter()
                    .any(|value| value.is_object() || value.is_array())
        }) {
            fault("its values are no plain ones".to_owned());
        }
        let is_object = node
            .get("type")
            .is_some_and(|kind| *kind == "object" || *kind == json!(["object", "null"]));
        if is_object {
            let keys: BTreeSet<&str> = node
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(Map::keys)
                .map(String::as_str)
                .collect();
            let required: Vec<&str> = node
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let required_names: BTreeSet<&str> = required.iter().copied().collect();
            if node.get("additionalProperties") != Some(&json!(false)) {
                fault("it is open".to_owned());
            }
            if !required_names.is_subset(&keys)
                || (all_required && required_names != keys)
                || required_names.len() != required.len()
            {
                fault("not all its properties are required".to_owned());
            }
        }
        if all_required && pointer.matches("/properties/").count() > 10 {
            fault("it is nested too deep".to_owned());
        }
    }
}

fn gemini(definition: &Value, faults: &mut Vec<String>) {
    only(definition, &["name", "description", "parameters"], faults);
    if !is_name(
        definition["name"].as_str().unwrap_or_default(),
        64,
        "-.",
        true,
    ) {
        faults.push("the name is refused".to_owned());
    }
    if definition["description"].as_str().is_none_or(str::is_empty) {
        faults.push("there is no description".to_owned());
    }
    if let Some(schema) = definition.get("parameters") {
        if schema["type"] != "OBJECT" {
            faults.push("the root is no object".to_owned());
        }
        gemini_schema(schema, "", faults);
    }
}

fn gemini_schema(schema: &Value, pointer: &str, faults: &mut Vec<String>) {
    let mut fault = |text: &str| faults.push(format!("{pointer}: {text}"));
    let Some(node) = schema.as_object() else {
        return fault("it is no object");
    };
    if let Some(ways) = node.get("anyOf") {
        if node.len() > 1 {
            fault("anyOf is not the only field");
        }
        for way in ways.as_array().expect("they are a list") {
            gemini_schema(way, &format!("{pointer}/anyOf"), faults);
        }
        return;
    }
    let kind = node.get("type").and_then(Value::as_str).unwrap_or_default();
    let (fields, formats): (&[&str], &[&str]) = match kind {
        "STRING" => (
            &["enum", "pattern", "minLength", "maxLength"],
            &["date-time", "enum"],
        ),
        "NUMBER" => (&["minimum", "maximum"], &["float", "double"]),
        "INTEGER" => (&["minimum", "maximum"], &["int32", "int64"]),
        "BOOLEAN" => (&[], &[]),
        "ARRAY" => (&["items", "minItems", "maxItems"], &[]),
        "OBJECT" => (
            &["properties", "required", "minProperties", "maxProperties"],
            &[],
        ),
        _ => return fault("it has no type"),
    };
    for (field, value) in node {
        match field.as_str() {
            "type" => {}
            "description" if value.is_string() => {}
            "nullable" if value.is_boolean() => {}
            "format" if formats.iter().any(|format| value == format) => {}
            _ if fields.contains(&field.as_str()) => {}
            _ => fault(&format!("{kind} has no {field} such as {value}")),
        }
    }
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if node.get("enum").is_some_and(|values| {
        !values
            .as_array()
            .is_some_and(|values| values.iter().all(is_text))
    }) {
        fault("its values are no strings, or empty ones");
    }
    match (
        kind,
        node.get("items"),
        node.get("properties").and_then(Value::as_object),
    ) {
        ("ARRAY", Some(items), _) => gemini_schema(items, &format!("{pointer}/items"), faults),
        ("ARRAY", None, _) => fault("items: missing field"),
        ("OBJECT", _, Some(properties)) if !properties.is_empty() => {
            for name in node
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                if !properties.contains_key(name.as_str().unwrap_or_default()) {
                    fault(&format!("required: {name} is not defined"));
                }
            }
            for (key, schema) in properties {
                if !is_name(key, 64, "", true) {
                    faults.push(format!("{pointer}: the property key {key:?} is refused"));
                }
                gemini_schema(schema, &format!("{pointer}/properties/{key}"), faults);
            }
        }
        ("OBJECT", ..) => fault("properties: should be non-empty for OBJECT type"),
        _ => {}
    }
}

/// `api.ToolFunctionParameters` of Ollama.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "that it can be read is what is checked")]
struct GoParameters {
    r#type: String,
    #[serde(rename = "$defs")]
    defs: Option<Value>,
    items: Option<Value>,
    required: Option<Vec<String>>,
    properties: BTreeMap<String, GoProperty>,
}

/// `api.ToolProperty` of Ollama.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "that it can be read is what is checked")]
struct GoProperty {
    #[serde(rename = "anyOf")]
    any_of: Option<Vec<Self>>,
    r#type: Option<GoType>,
    items: Option<Box<Self>>,
    description: Option<String>,
    r#enum: Option<Vec<Value>>,
    properties: Option<BTreeMap<String, Self>>,
    required: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "that it can be read is what is checked")]
enum GoType {
    One(String),
    Several(Vec<String>),
}

fn ollama(definition: &Value, faults: &mut Vec<String>) {
    only(definition, &["name", "description", "parameters"], faults);
    match GoParameters::deserialize(&definition["parameters"]) {
        Ok(parameters) if parameters.r#type == "object" => {}
        Ok(_) => faults.push("the root is no object".to_owned()),
        Err(error) => faults.push(format!("it cannot be decoded: {error}")),
    }
}

fn mcp(definition: &Value, faults: &mut Vec<String>) {
    only(
        definition,
        &[
            "name",
            "title",
            "description",
            "inputSchema",
            "outputSchema",
            "annotations",
        ],
        faults,
    );
    if !is_name(
        definition["name"].as_str().unwrap_or_default(),
        128,
        "-.",
        false,
    ) {
        faults.push("the name is refused".to_owned());
    }
    for schema in [
        Some(&definition["inputSchema"]),
        definition.get("outputSchema"),
    ]
    .into_iter()
    .flatten()
    {
        if schema["type"] != "object" {
            faults.push("a schema's root is no object".to_owned());
        }
    }
}

fn only(definition: &Value, keys: &[&str], faults: &mut Vec<String>) {
    for key in definition
        .as_object()
        .expect("a definition is an object")
        .keys()
    {
        if !keys.contains(&key.as_str()) {
            faults.push(format!("there is no {key} in a definition"));
        }
    }
}

/// Returns every schema within a JSON Schema, with its pointer.
fn nodes(schema: &Value) -> Vec<(String, &Map<String, Value>)> {
    fn walk<'s>(
        schema: &'s Value,
        pointer: String,
        found: &mut Vec<(String, &'s Map<String, Value>)>,
    ) {
        let Value::Object(node) = schema else { return };
        for keyword in ["properties", "$defs", "definitions", "patternProperties"] {
            for (key, part) in node
                .get(keyword)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                walk(part, format!("{pointer}/{keyword}/{key}"), found);
            }
        }
        for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            for (index, part) in node
                .get(keyword)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .enumerate()
            {
                walk(part, format!("{pointer}/{keyword}/{index}"), found);
            }
        }
        for keyword in ["items", "additionalProperties", "not"] {
            if let Some(part) = node.get(keyword) {
                walk(part, format!("{pointer}/{keyword}"), found);
            }
        }
        found.push((pointer, node));
    }
    let mut found = Vec::new();
    walk(schema, String::new(), &mut found);
    found
}
