//! Minimal arguments that a model could send for a translated definition.

use serde_json::{Map, Value, json};

/// Strings of many kinds; the first one that a schema accepts is used.
const TEXTS: [&str; 23] = [
    "a",
    "abc",
    "AB12",
    "OPS",
    "OPS-12",
    "1234",
    "12345",
    "2026-01",
    "13800000000",
    "9780306406157",
    "0123456789abcdef",
    "DE44500105175407324931",
    "i-0123456789",
    "2026-01-31",
    "2026-01-31T10:00:00Z",
    "10:00:00",
    "guest@example.org",
    "https://example.org/",
    "192.0.2.1",
    "2001:db8::1",
    "5f0c9f4e-6c3a-4b0e-9d2a-1f2e3d4c5b6a",
    "P1D",
    "example.org",
];

/// Returns the minimal arguments of a definition; an empty object if it has no schema.
pub(super) fn arguments(schema: Option<&Value>) -> Value {
    schema.map_or_else(
        || json!({}),
        |schema| sample(schema, schema, 0).unwrap_or_else(|| panic!("no sample: {schema}")),
    )
}

fn sample(schema: &Value, root: &Value, depth: usize) -> Option<Value> {
    let node = match schema {
        Value::Object(node) => node,
        Value::Bool(true) => return Some(json!("any")),
        _ => return None,
    };
    if depth > 40 {
        return None;
    }
    if let Some(target) = node.get("$ref").and_then(Value::as_str) {
        return sample(root.pointer(target.strip_prefix('#')?)?, root, depth + 1);
    }
    if let Some(parts) = node.get("allOf").and_then(Value::as_array) {
        let mut whole = node.clone();
        whole.remove("allOf");
        for part in parts {
            let part = part
                .get("$ref")
                .and_then(Value::as_str)
                .map_or(Some(part), |to| root.pointer(&to[1..]))?;
            merge(&mut whole, part.as_object()?);
        }
        return sample(&Value::Object(whole), root, depth + 1);
    }
    if let Some(ways) = node
        .get("anyOf")
        .or_else(|| node.get("oneOf"))
        .and_then(Value::as_array)
    {
        if node.contains_key("properties") {
            let mut whole = node.clone();
            whole.retain(|keyword, _| !["anyOf", "oneOf"].contains(&keyword.as_str()));
            merge(&mut whole, ways.first()?.as_object()?);
            return sample(&Value::Object(whole), root, depth + 1);
        }
        // Null comes first because it is the shortest value.
        let null = ways
            .iter()
            .find(|way| way.get("type") == Some(&json!("null")));
        return null
            .into_iter()
            .chain(ways)
            .find_map(|way| sample(way, root, depth + 1));
    }
    if let Some(only) = node.get("const") {
        return Some(only.clone());
    }
    if let Some(values) = node.get("enum").and_then(Value::as_array) {
        return values
            .iter()
            .find(|value| value.is_null())
            .or(values.first())
            .cloned();
    }
    let kind = match node.get("type") {
        Some(Value::String(kind)) => kind.to_lowercase(),
        Some(Value::Array(kinds)) if kinds.contains(&json!("null")) => return Some(Value::Null),
        Some(Value::Array(kinds)) => kinds.first()?.as_str()?.to_owned(),
        _ if node.contains_key("properties") || node.contains_key("required") => {
            "object".to_owned()
        }
        _ if node.contains_key("items") => "array".to_owned(),
        _ => return Some(json!("any")),
    };
    let constraints = constraints(node);
    match kind.as_str() {
        "null" => Some(Value::Null),
        "boolean" => Some(json!(true)),
        "object" => object(node, root, depth),
        "array" => {
            let least = constraints
                .get("minItems")
                .and_then(Value::as_u64)
                .unwrap_or(0);
            let item_schema =
                |index: u64| match node.get("prefixItems")?.get(usize::try_from(index).ok()?) {
                    Some(item_schema) => Some(item_schema),
                    None => node.get("items"),
                };
            (0..least)
                .map(|index| match item_schema(index).or(node.get("items")) {
                    Some(items) => sample(items, root, depth + 1),
                    None => Some(json!("any")),
                })
                .collect()
        }
        "integer" | "number" => number(&kind, constraints),
        _ => text(node, constraints),
    }
}

fn object(node: &Map<String, Value>, root: &Value, depth: usize) -> Option<Value> {
    let least = constraints(node)
        .get("minProperties")
        .and_then(Value::as_u64)
        .unwrap_or(0);
    let empty = Map::new();
    let properties = node
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let required = node
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let members = required.map(|name| {
        let value = properties
            .get(name)
            .map_or(Some(json!("any")), |schema| sample(schema, root, depth + 1))?;
        Some((name.to_owned(), value))
    });
    let mut members = members.collect::<Option<Map<String, Value>>>()?;
    // Null means absent, and therefore does not count.
    for (name, schema) in properties {
        if members.values().filter(|value| !value.is_null()).count() as u64 >= least {
            break;
        }
        members.insert(
            name.clone(),
            sample(&without_null(schema), root, depth + 1)?,
        );
    }
    Some(Value::Object(members))
}

fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
    }
    schema
}

/// Returns the constraints of a schema, including those in its description.
fn constraints(node: &Map<String, Value>) -> Map<String, Value> {
    let mut all_constraints = node.clone();
    let described = node
        .get("description")
        .and_then(Value::as_str)
        .and_then(|text| text.split_once("Constraints: "));
    if let Some((_, described)) = described {
        let described = serde_json::Deserializer::from_str(described)
            .into_iter::<Map<String, Value>>()
            .next();
        all_constraints.extend(
            described
                .expect("there are constraints")
                .expect("it is JSON"),
        );
    }
    all_constraints
}

fn number(kind: &str, mut constraints: Map<String, Value>) -> Option<Value> {
    constraints.retain(|keyword, _| {
        [
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ]
        .contains(&keyword.as_str())
    });
    // Older drafts use two keywords.
    for (exclusive, bound) in [
        ("exclusiveMinimum", "minimum"),
        ("exclusiveMaximum", "maximum"),
    ] {
        if constraints.get(exclusive) == Some(&json!(true)) {
            let limit = constraints.remove(bound)?;
            constraints.insert(exclusive.to_owned(), limit);
        }
    }
    constraints.insert("type".to_owned(), json!(kind));
    let near: Vec<f64> = constraints
        .values()
        .filter_map(Value::as_f64)
        .flat_map(|limit| [limit, limit + 1.0, limit - 1.0])
        .collect();
    let validator = jsonschema::draft202012::new(&Value::Object(constraints)).ok()?;
    let values = [0.0, 1.0, 0.5].into_iter().chain(near);
    values
        .map(|value| {
            if value.fract() == 0.0 {
                json!(format!("{value}").parse::<i64>().unwrap_or(0))
            } else {
                json!(value)
            }
        })
        .find(|value| validator.is_valid(value))
}

fn text(node: &Map<String, Value>, mut constraints: Map<String, Value>) -> Option<Value> {
    let described = node
        .get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    for (kind, text) in [
        ("an object", "{}"),
        ("an array", "[]"),
        ("any value", "any"),
        ("a value", "any"),
    ] {
        if described.ends_with(&format!("JSON text of {kind}.")) {
            return Some(json!(text));
        }
    }
    constraints.retain(|keyword, _| {
        ["pattern", "format", "minLength", "maxLength"].contains(&keyword.as_str())
    });
    let format = constraints.remove("format");
    let schema = Value::Object(constraints);
    let validator = jsonschema::draft202012::new(&schema).ok()?;
    let fits = |text: &&str| {
        validator.is_valid(&json!(text))
            && match format.as_ref().and_then(Value::as_str) {
                Some("date") => *text == "2026-01-31",
                Some("date-time") => text.ends_with('Z'),
                Some("time") => *text == "10:00:00",
                Some("email") => text.contains('@'),
                Some("uri" | "url" | "iri") => text.starts_with("https:"),
                Some("uuid") => text.starts_with("5f0c"),
                _ => true,
            }
    };
    let long = "x".repeat(
        usize::try_from(schema.get("minLength").and_then(Value::as_u64).unwrap_or(1)).ok()?,
    );
    TEXTS
        .into_iter()
        .chain([long.as_str()])
        .find(fits)
        .map(|text| json!(text))
}

fn merge(target: &mut Map<String, Value>, part: &Map<String, Value>) {
    for (keyword, theirs) in part {
        match (target.get_mut(keyword), theirs) {
            (Some(Value::Object(ours)), Value::Object(theirs)) => merge(ours, theirs),
            (Some(Value::Array(ours)), Value::Array(theirs)) => ours.extend(theirs.iter().cloned()),
            (Some(_), _) => {}
            (None, theirs) => {
                target.insert(keyword.clone(), theirs.clone());
            }
        }
    }
}
