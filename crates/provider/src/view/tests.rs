//! Examples of nodes in each dialect.

use super::*;
use serde_json::{Map, json};

use crate::view::builder::MAX_LISTED_CHANGES;
use picktools::schema::MAX_SCHEMA_DEPTH;

/// Returns the view of an object with one required property, and the view of the property.
fn property_view(provider: Provider, strict: bool, property: Value) -> (SchemaView, Value) {
    let schema = json!({"type": "object", "properties": {"x": property}, "required": ["x"],
        "$defs": {"name": {"type": "string"}, "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}}});
    let viewed = make(provider, &schema, strict);
    let property = viewed.schema.as_ref().expect("there is a schema")["properties"]["x"].clone();
    (viewed, property)
}

fn check(provider: Provider, strict: bool, examples: &[(Value, Value)]) {
    for (property, expected) in examples {
        let (viewed, actual) = property_view(provider, strict, property.clone());
        assert_eq!(actual, *expected, "{provider}, from {property}");
        assert_eq!(viewed.strict, strict, "{provider}, from {property}");
    }
}

#[test]
fn openai_strict_keeps_its_subset() {
    check(
        Provider::OpenAiChat,
        true,
        &[
            (
                json!({"type": "string", "pattern": "^a", "minLength": 2, "format": "uri", "description": "A name."}),
                json!({"type": "string", "description": "A name. Constraints: {\"minLength\":2,\"format\":\"uri\"}", "pattern": "^a"}),
            ),
            (
                json!({"properties": {"a": {"type": "integer"}, "b": {"enum": ["u", "v"]}}, "required": ["a"]}),
                json!({"type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": ["string", "null"], "enum": ["u", "v", null]}},
                    "required": ["a", "b"], "additionalProperties": false}),
            ),
            (json!({"const": 3}), json!({"type": "integer", "enum": [3]})),
            (
                json!({"$ref": "#/$defs/name", "description": "Beside."}),
                json!({"$ref": "#/$defs/name"}),
            ),
            (
                json!({"oneOf": [{"type": "string"}, {"type": "integer", "exclusiveMinimum": 0}]}),
                json!({"anyOf": [{"type": "string"}, {"type": "integer", "exclusiveMinimum": 0}]}),
            ),
            (
                json!({"type": ["string", "number", "null"]}),
                json!({"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]}),
            ),
            (
                json!({"allOf": [{"$ref": "#/$defs/name"}, {"description": "Both.", "pattern": "b"}]}),
                json!({"type": "string", "description": "Both.", "pattern": "b"}),
            ),
            // Values that the type does not allow are dropped.
            (
                json!({"type": "integer", "enum": ["1", 2]}),
                json!({"type": "integer", "enum": [2]}),
            ),
        ],
    );
}

#[test]
fn gemini_reports_what_it_omits() {
    for (property, pointer) in [
        (json!({"type": "string", "enum": ["a", 1]}), ""),
        (json!({"type": "integer", "enum": [1, "a"]}), ""),
        (json!({"type": "string", "enum": ["a", ""]}), ""),
        (json!({"type": "string", "const": 1}), ""),
        (
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            "/anyOf",
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "oneOf": [{"required": ["a"]}]}),
            "/oneOf",
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}], "oneOf": [{"minLength": 1}, {"minimum": 2}]}),
            "/oneOf",
        ),
        (
            json!({"anyOf": [{"$ref": "#/$defs/name"}, {"type": "integer"}], "not": {"const": "x"}}),
            "/not",
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}),
            "/items",
        ),
        (
            json!({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}),
            "/additionalItems",
        ),
        (
            json!({"type": "array", "items": {}, "uniqueItems": true}),
            "/uniqueItems",
        ),
        (json!({"type": "string", "format": "uri"}), "/format"),
        (json!({"type": "number", "multipleOf": 2}), "/multipleOf"),
        (
            json!({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
            "/additionalProperties",
        ),
        (
            json!({"properties": {"a": {}}, "dependentRequired": {"a": ["b"]}}),
            "/dependentRequired",
        ),
    ] {
        let (viewed, _) = property_view(Provider::Gemini, false, property.clone());
        let pointer = format!("/properties/x{pointer}");
        let codes = [ChangeCode::ValueDropped, ChangeCode::KeywordDropped];
        let is_reported =
            |change: &ViewChange| change.pointer == pointer && codes.contains(&change.code);
        assert!(
            viewed.changes.iter().any(is_reported),
            "{property}: {:?}",
            viewed.changes
        );
    }
    // What is in the view is not reported.
    for property in [
        json!({"type": "string", "enum": ["a", null], "nullable": true}),
        json!({"type": ["string", "null"], "enum": ["a", null]}),
        json!({"type": "object", "anyOf": [{"$ref": "#/$defs/name"}, {"type": "null"}]}),
    ] {
        let (viewed, _) = property_view(Provider::Gemini, false, property.clone());
        let codes = [ChangeCode::ValueDropped, ChangeCode::KeywordDropped];
        assert!(
            !viewed
                .changes
                .iter()
                .any(|change| codes.contains(&change.code)),
            "{property}: {:?}",
            viewed.changes
        );
    }
}

#[test]
fn strict_views_that_are_impossible_give_the_reason() {
    for (provider, property, reason) in [
        (Provider::OpenAiChat, json!({}), "a value of any type"),
        (Provider::OpenAiChat, json!(true), "a value of any type"),
        (
            Provider::OpenAiChat,
            json!({"type": "object"}),
            "an object with arbitrary keys",
        ),
        (
            Provider::OpenAiChat,
            json!({"properties": {"a": {}}, "additionalProperties": true}),
            "an object with arbitrary keys",
        ),
        (
            Provider::OpenAiChat,
            json!({"type": "array"}),
            "a list of values of any type",
        ),
        (
            Provider::OpenAiChat,
            json!({"enum": [{"a": 1}]}),
            "objects or arrays",
        ),
        (
            Provider::OpenAiChat,
            json!({"properties": {}, "required": ["a"], "additionalProperties": false}),
            "has no schema",
        ),
        (
            Provider::OpenAiChat,
            json!({"enum": (0..1001).collect::<Vec<_>>()}),
            "more than 1000 listed values",
        ),
        (
            Provider::OpenAiChat,
            json!({"enum": vec!["x".repeat(100); 251]}),
            "15000 characters",
        ),
        (
            Provider::OpenAiChat,
            json!({"const": "x".repeat(120_001)}),
            "more than 120000 characters",
        ),
        (Provider::OpenAiChat, json!({"$ref": "#"}), "is circular"),
        (
            Provider::Anthropic,
            json!({"$ref": "#/$defs/tree"}),
            "recursive schemas",
        ),
    ] {
        let (viewed, _) = property_view(provider, true, property.clone());
        let reasons: Vec<&str> = viewed
            .changes
            .iter()
            .filter(|change| change.code == ChangeCode::NotStrict)
            .map(|change| change.detail.as_str())
            .collect();
        assert!(
            !viewed.strict && reasons.len() == 1 && reasons[0].contains(reason),
            "{provider}, {property}: {reasons:?}"
        );
    }
    let (viewed, tree) = property_view(Provider::OpenAiChat, true, json!({"$ref": "#/$defs/tree"}));
    assert!(viewed.strict, "OpenAI knows recursion");
    let left_view = &viewed.schema.expect("there is one")["$defs"]["tree"]["properties"]["left"];
    assert_eq!(
        (tree, left_view),
        (
            json!({"$ref": "#/$defs/tree"}),
            &json!({"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]})
        )
    );
}

#[test]
fn anthropic_strict_keeps_optional_properties() {
    check(
        Provider::Anthropic,
        true,
        &[
            (
                json!({"type": "object", "properties": {"a b": {"type": "number", "minimum": 1}}}),
                json!({"type": "object", "properties": {"a_b": {"type": "number", "description": "Constraints: {\"minimum\":1}"}},
                    "required": [], "additionalProperties": false}),
            ),
            (
                json!({"type": "array", "items": {"type": "string", "format": "uri"}, "minItems": 2}),
                json!({"type": "array", "description": "Constraints: {\"minItems\":2}", "items": {"type": "string", "format": "uri"}}),
            ),
        ],
    );
}

#[test]
fn gemini_has_its_own_subset() {
    check(
        Provider::Gemini,
        false,
        &[
            (
                json!({"const": true}),
                json!({"type": "STRING", "enum": ["true"]}),
            ),
            (
                json!({"enum": [1, "a", "", null]}),
                json!({"type": "STRING", "enum": ["1", "a"], "nullable": true}),
            ),
            (
                json!({"type": ["integer", "null"], "format": "int32"}),
                json!({"type": "INTEGER", "format": "int32", "nullable": true}),
            ),
            (
                json!({"type": ["string", "integer"], "description": "Either."}),
                json!({"anyOf": [{"type": "STRING", "description": "Either."}, {"type": "INTEGER"}]}),
            ),
            (
                json!({"oneOf": [{"$ref": "#/$defs/name"}, {"type": "null"}], "description": "Of a person."}),
                json!({"type": "STRING", "description": "Of a person.", "nullable": true}),
            ),
            (
                json!({"type": "string", "format": "email", "minLength": 3}),
                json!({"type": "STRING", "description": "Constraints: {\"format\":\"email\"}", "minLength": 3}),
            ),
            (
                json!({"type": "object", "description": "Any."}),
                json!({"type": "STRING", "description": "Any. JSON text of an object."}),
            ),
            (
                json!({}),
                json!({"type": "STRING", "description": "JSON text of any value."}),
            ),
            (
                json!({"type": "array"}),
                json!({"type": "ARRAY", "items": {"type": "STRING", "description": "JSON text of any value."}}),
            ),
            (
                json!({"$ref": "#/$defs/tree"}),
                json!({"type": "OBJECT", "properties": {"left": {"type": "STRING", "description": "JSON text of an object."}}}),
            ),
            (
                json!({"type": "object", "required": ["a"]}),
                json!({"type": "OBJECT", "properties": {"a": {"type": "STRING", "description": "JSON text of any value."}}, "required": ["a"]}),
            ),
        ],
    );
    assert!(
        make(Provider::Gemini, &json!({}), false).schema.is_none(),
        "a function without arguments has no parameters"
    );
}

#[test]
fn ollama_keeps_what_its_structs_have() {
    check(
        Provider::Ollama,
        false,
        &[
            (json!(true), json!({})),
            (json!({"const": 1}), json!({"type": "integer", "enum": [1]})),
            (
                json!({"type": ["string", "null"]}),
                json!({"type": ["string", "null"]}),
            ),
            (
                json!({"type": "integer", "minimum": 0, "title": "T", "description": "D."}),
                json!({"type": "integer", "description": "D. Constraints: {\"minimum\":0}"}),
            ),
            (
                json!({"oneOf": [{"$ref": "#/$defs/name"}, {"type": "array", "items": {"type": "string"}}]}),
                json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
            ),
            (
                json!({"$ref": "#/$defs/tree"}),
                json!({"type": "object", "properties": {"left": {"type": "object"}}}),
            ),
        ],
    );
}

#[test]
fn loose_views_change_only_rejected_parts() {
    check(
        Provider::OpenAiChat,
        false,
        &[
            (
                json!({"type": "array"}),
                json!({"type": "array", "items": {}}),
            ),
            (
                json!({"not": false, "minLength": 1}),
                json!({"not": {"not": {}}, "minLength": 1}),
            ),
            (
                json!({"$ref": "#/$defs/tree", "description": "D."}),
                json!({"$ref": "#/$defs/tree", "description": "D."}),
            ),
            (
                json!({"items": [{"type": "string"}], "additionalItems": false}),
                json!({"prefixItems": [{"type": "string"}], "items": {"not": {}}}),
            ),
            (
                json!({"minimum": 1, "exclusiveMinimum": true}),
                json!({"exclusiveMinimum": 1}),
            ),
            (
                json!({"minimum": 1, "exclusiveMinimum": false}),
                json!({"minimum": 1}),
            ),
        ],
    );
    let roots = json!({"$ref": "#/definitions/a", "definitions": {"a": {"oneOf": [
        {"properties": {"x": {"type": "string"}}, "required": ["x"]}, {"properties": {"y": {}, "x": {"type": "integer"}}, "required": ["x", "y"]}]}}});
    let viewed = make(Provider::Anthropic, &roots, false);
    let schema = viewed.schema.expect("there is one");
    let x = json!({"anyOf": [{"type": "string"}, {"type": "integer"}]});
    assert_eq!(
        (&schema["type"], &schema["properties"]),
        (&json!("object"), &json!({"x": x, "y": {}}))
    );
    assert_eq!(schema["required"], json!(["x"]));
    assert_eq!(viewed.notes, ["Arguments that go together: x; or x and y."]);
}

#[test]
fn hostile_schemas_are_bounded() {
    // Each definition contains the next one twice: 2^60 nodes without limits.
    let mut definitions = Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        let definition = if level % 2 == 0 {
            json!({"allOf": [next, next]})
        } else {
            json!({"properties": {"a": next, "b": next}})
        };
        definitions.insert(format!("d{level}"), definition);
    }
    definitions.insert("d60".to_owned(), json!({"type": "string"}));
    let bomb = json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions});
    let mut deep = json!({"type": "string"});
    for _ in 0..MAX_SCHEMA_DEPTH {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let chain: Map<String, Value> = (0..5_000)
        .map(|link| {
            (
                format!("c{link}"),
                json!({"$ref": format!("#/$defs/c{}", link + 1)}),
            )
        })
        .collect();
    let chain = json!({"properties": {"x": {"$ref": "#/$defs/c0"}}, "$defs": chain});
    for schema in [&bomb, &deep, &chain] {
        for provider in Provider::ALL {
            for strict in [false, true] {
                let started = std::time::Instant::now();
                let viewed = make(provider, schema, strict);
                assert!(viewed.changes.len() <= MAX_LISTED_CHANGES + 1);
                assert!(started.elapsed().as_secs() < 20, "{provider}");
            }
        }
    }
}
