//! Forms of OpenAPI documents that people write: discriminators, texts that look like numbers in
//! YAML, newer members, names in other scripts.

use picktools::schema::{JsonSchema, SchemaCompiler};
use picktools_import::openapi::{self, Document, Operation, OperationProblem};
use serde_json::{Value, json};

fn read(text: &str) -> Document {
    openapi::parse_document(text).expect("it is a document")
}

fn only(document: &Document) -> &Operation {
    assert_eq!(document.left_out, []);
    assert_eq!(document.operations.len(), 1);
    &document.operations[0]
}

/// Returns a document with one operation, whose body has this schema.
fn with_body(schema: &Value, schemas: &Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/a": {"post": {"operationId": "create", "requestBody": {
            "required": true,
            "content": {"application/json": {"schema": schema}},
        }}}},
        "components": {"schemas": schemas},
    })
}

fn body(schema: &Value, schemas: &Value) -> Value {
    let document = openapi::from_value(&with_body(schema, schemas)).expect("it is a document");
    only(&document).parameters.clone()
}

fn accepts(schema: &Value, arguments: &Value) -> bool {
    let validator = JsonSchema.compile(schema).expect("it is a schema");
    validator.accepts(arguments)
}

fn pets(discriminator: &Value) -> Value {
    json!({
        "Pet": {
            "type": "object",
            "required": ["petType"],
            "properties": {"petType": {"type": "string", "description": "The species"}},
            "discriminator": discriminator,
        },
        "Cat": {"allOf": [
            {"$ref": "#/components/schemas/Pet"},
            {"type": "object", "required": ["meowVolume"], "properties": {"meowVolume": {"type": "integer"}}},
        ]},
        "Dog": {"allOf": [
            {"$ref": "#/components/schemas/Pet"},
            {"type": "object", "properties": {"packSize": {"type": "integer"}}},
        ]},
        "Wolf": {"allOf": [
            {"$ref": "#/components/schemas/Dog"},
            {"type": "object", "properties": {"howls": {"type": "boolean"}}},
        ]},
    })
}

fn pet() -> Value {
    json!({"$ref": "#/components/schemas/Pet"})
}

#[test]
fn parent_takes_the_members_of_its_variants() {
    let mapping = json!({"propertyName": "petType", "mapping": {
        "cat": "#/components/schemas/Cat", "dog": "Dog", "wolf": "#/components/schemas/Wolf",
    }});
    let schema = body(&pet(), &pets(&mapping));
    assert_eq!(
        schema["properties"]["petType"]["enum"],
        json!(["cat", "dog", "wolf"])
    );
    assert_eq!(schema["required"], json!(["petType"]));
    for call in [
        json!({"petType": "cat", "meowVolume": 7}),
        json!({"petType": "dog", "packSize": 3}),
        json!({"petType": "wolf", "packSize": 3, "howls": true}),
    ] {
        assert!(accepts(&schema, &call), "{call} by {schema}");
    }
    assert!(!accepts(&schema, &json!({"petType": "fish"})));
    assert!(!accepts(&schema, &json!({"petType": "cat", "fins": 2})));
    let description = schema["properties"]["meowVolume"]["description"].as_str();
    assert_eq!(description, Some("For petType \"cat\", which needs it."));
}

#[test]
fn variants_without_a_mapping_are_named_by_their_schemas() {
    for discriminator in [json!({"propertyName": "petType"}), json!("petType")] {
        let schema = body(&pet(), &pets(&discriminator));
        let names = &schema["properties"]["petType"]["enum"];
        assert_eq!(*names, json!(["Cat", "Dog", "Wolf"]), "{discriminator}");
        assert!(accepts(&schema, &json!({"petType": "Wolf", "howls": true})));
    }
}

#[test]
fn variant_has_its_own_members_only() {
    let mapping =
        json!({"propertyName": "petType", "mapping": {"cat": "#/components/schemas/Cat"}});
    let cat = json!({"$ref": "#/components/schemas/Cat"});
    let schema = body(&cat, &pets(&mapping));
    let names: Vec<_> = schema["properties"]
        .as_object()
        .expect("it has properties")
        .keys()
        .collect();
    assert_eq!(names, ["petType", "meowVolume"]);
    assert_eq!(schema["required"], json!(["petType", "meowVolume"]));
}

#[test]
fn parent_within_a_body_shows_its_variants_too() {
    let mapping = json!({"propertyName": "petType", "mapping": {
        "cat": "#/components/schemas/Cat", "dog": "#/components/schemas/Dog",
    }});
    for reference in [pet(), json!({"allOf": [pet()], "description": "The pet"})] {
        let visit = json!({"type": "object", "required": ["pet"], "properties": {
            "pet": reference, "others": {"type": "array", "items": pet()},
        }});
        let schema = body(&visit, &pets(&mapping));
        let text = schema.to_string();
        assert!(text.matches("meowVolume").count() >= 2, "{schema}");
        assert!(
            accepts(
                &schema,
                &json!({"pet": {"petType": "cat", "meowVolume": 7}})
            ),
            "{schema}"
        );
        assert!(
            !accepts(&schema, &json!({"pet": {"petType": "fish"}})),
            "{schema}"
        );
    }
}

#[test]
fn parent_that_lists_its_variants_is_read_once() {
    let mut schemas = pets(&json!({"propertyName": "petType"}));
    schemas["Pet"]["oneOf"] =
        json!([{"$ref": "#/components/schemas/Cat"}, {"$ref": "#/components/schemas/Dog"}]);
    let schema = body(&pet(), &schemas);
    assert!(
        accepts(&schema, &json!({"petType": "Cat", "meowVolume": 7})),
        "{schema}"
    );
}

#[test]
fn properties_that_variants_define_differently_take_either() {
    let mut schemas = pets(&json!({"propertyName": "petType"}));
    schemas["Dog"]["allOf"][1]["properties"]["meowVolume"] = json!({"type": "string"});
    schemas["Pet"]["additionalProperties"] = json!(false);
    let schema = body(&pet(), &schemas);
    assert!(
        accepts(&schema, &json!({"petType": "Cat", "meowVolume": 7})),
        "{schema}"
    );
    assert!(
        accepts(&schema, &json!({"petType": "Dog", "meowVolume": "none"})),
        "{schema}"
    );
}

#[test]
fn own_values_of_a_variant_are_its_names() {
    let mut schemas = pets(&json!({"propertyName": "petType"}));
    schemas["Cat"]["allOf"][1]["properties"]["petType"] = json!({"const": "cat"});
    schemas["Dog"]["allOf"][1]["properties"]["petType"] =
        json!({"type": "string", "enum": ["dog", "puppy"]});
    let schema = body(&pet(), &schemas);
    assert_eq!(
        schema["properties"]["petType"]["enum"],
        json!(["cat", "dog", "puppy"])
    );
}

#[test]
fn discriminators_in_circles_end() {
    let schemas = json!({
        "A": {"type": "object", "properties": {"kind": {"type": "string"}}, "discriminator": {"propertyName": "kind"},
              "allOf": [{"$ref": "#/components/schemas/B"}]},
        "B": {"type": "object", "properties": {"x": {"type": "string"}}, "discriminator": {"propertyName": "kind"},
              "allOf": [{"$ref": "#/components/schemas/A"}]},
    });
    let document = openapi::from_value(&with_body(
        &json!({"$ref": "#/components/schemas/A"}),
        &schemas,
    ));
    assert!(document.is_ok());
}

/// Returns a document in YAML with one operation and this parameter.
fn with_yaml_parameter(schema: &str) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: genes, version: 1.0}}\npaths:\n  /q:\n    get:\n      operationId: q\n      \
         parameters:\n        - {{name: p, in: query, schema: {schema}}}\n"
    )
}

fn yaml_parameter(schema: &str) -> Value {
    only(&read(&with_yaml_parameter(schema))).parameters["properties"]["p"].clone()
}

#[test]
fn scalars_under_a_text_type_keep_their_text() {
    let p = yaml_parameter("{type: string, enum: [1, 2, 22, X, Y]}");
    assert_eq!(p["enum"], json!(["1", "2", "22", "X", "Y"]));
    let p = yaml_parameter("{type: string, enum: [1.0, 1.10], default: 1.10}");
    assert_eq!(
        (&p["enum"], &p["default"]),
        (&json!(["1.0", "1.10"]), &json!("1.10"))
    );
    let p = yaml_parameter("{type: string, example: 01234, default: 0123}");
    assert_eq!(
        (&p["examples"], &p["default"]),
        (&json!(["01234"]), &json!("0123"))
    );
    let p = yaml_parameter(
        "{type: string, enum: [on, off, yes, no, true, 0x1F, 2024-01-02, 1e3, .5, 123456789012345678901234567890]}",
    );
    assert_eq!(
        p["enum"],
        json!([
            "on",
            "off",
            "yes",
            "no",
            "true",
            "0x1F",
            "2024-01-02",
            "1e3",
            ".5",
            "123456789012345678901234567890"
        ])
    );
    let p =
        yaml_parameter("{type: array, items: {type: string}, default: [1.10, a], example: [007]}");
    assert_eq!(
        (&p["default"], &p["examples"]),
        (&json!(["1.10", "a"]), &json!([["007"]]))
    );
    let p = yaml_parameter(
        "{type: object, properties: {v: {type: string}, n: {type: integer}}, default: {v: 1.10, n: 2}}",
    );
    assert_eq!(p["default"], json!({"v": "1.10", "n": 2}));
}

#[test]
fn scalars_under_other_types_keep_their_type() {
    let p = yaml_parameter("{type: integer, enum: [1, 2], default: 1}");
    assert_eq!((&p["enum"], &p["default"]), (&json!([1, 2]), &json!(1)));
    let p = yaml_parameter("{type: string, nullable: true, enum: [null, 1], default: null}");
    assert_eq!(
        (&p["enum"], &p["default"]),
        (&json!([null, "1"]), &Value::Null)
    );
    let p = yaml_parameter("{enum: [1, a]}");
    assert_eq!(p["enum"], json!([1, "a"]));
}

#[test]
fn numbers_under_a_text_type_in_json_are_texts() {
    let schema = json!({"type": "object", "properties": {"v": {"type": ["string", "null"], "enum": [1, "a", null]}}});
    let parameters = body(&schema, &json!({}));
    assert_eq!(
        parameters["properties"]["v"]["enum"],
        json!(["1", "a", null])
    );
}

#[test]
fn names_in_yaml_that_look_like_other_values_are_names() {
    let text = "openapi: 3.0.3\ninfo: {title: 2048, version: 1}\npaths:\n  /q/{01}:\n    get:\n      operationId: 0123\n      \
                summary: 1.10\n      tags: [2024, on]\n      parameters:\n        - {name: 01, in: path, required: true, schema: {type: string}}\n        \
                - {name: on, in: query, schema: {type: object, required: [1, true], properties: {1: {type: string}, true: {type: string}}}}\n";
    let document = read(text);
    let operation = only(&document);
    assert_eq!(document.title, "2048");
    assert_eq!(
        (&*operation.name, &*operation.description),
        ("0123", "1.10")
    );
    assert_eq!(operation.tags, ["2024", "on"]);
    let properties = &operation.parameters["properties"];
    assert!(
        properties.get("01").is_some() && properties.get("on").is_some(),
        "{properties}"
    );
    assert_eq!(properties["on"]["required"], json!(["1", "true"]));
}

#[test]
fn aliases_keep_texts_too() {
    let text = "openapi: 3.0.3\ninfo: {title: t, version: 1}\nx-v: &v {type: string, enum: [1.10]}\npaths:\n  /q:\n    get:\n      \
                operationId: q\n      parameters:\n        - {name: p, in: query, schema: *v}\n";
    assert_eq!(
        only(&read(text)).parameters["properties"]["p"]["enum"],
        json!(["1.10"])
    );
}

#[test]
fn query_and_additional_operations_are_operations() {
    let document = openapi::from_value(&json!({
        "openapi": "3.2.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/a": {
            "query": {"operationId": "find", "summary": "Find", "requestBody": {"content": {"application/json": {"schema":
                {"type": "object", "properties": {"text": {"type": "string"}}}}}}},
            "additionalOperations": {"COPY": {"operationId": "copy", "summary": "Copy"}},
        }},
    }))
    .expect("it is a document");
    assert_eq!(document.left_out, []);
    let methods: Vec<_> = document
        .operations
        .iter()
        .map(|o| (&*o.name, &*o.http.method))
        .collect();
    assert_eq!(methods, [("find", "QUERY"), ("copy", "COPY")]);
    let tool = document.operations[0].clone().into_tool();
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    let tool = document.operations[1].clone().into_tool();
    assert_eq!(tool["annotations"].get("readOnlyHint"), None);
}

#[test]
fn unknown_members_of_a_path_are_reported() {
    let document = openapi::from_value(&json!({
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/a": {
            "summary": "s", "description": "d", "servers": [], "parameters": [], "x-note": 1,
            "get": {"operationId": "get_a"},
            "pots": {"operationId": "post_a"},
            "DELETE": {"operationId": "delete_a"},
            "additionalOperations": {"bad method": {}, "LINK": 3},
        }},
    }))
    .expect("it is a document");
    assert_eq!(document.operations.len(), 1);
    let found: Vec<_> = document
        .left_out
        .iter()
        .map(|skipped| {
            (
                &*skipped.operation,
                &*skipped.pointer,
                skipped.problem.clone(),
            )
        })
        .collect();
    let wrong_kind = OperationProblem::WrongKind {
        found: "a number",
        expected: "an object",
    };
    assert_eq!(
        found,
        [
            (
                "/a",
                "/paths/~1a/pots",
                OperationProblem::UnknownMember("pots".to_owned())
            ),
            (
                "/a",
                "/paths/~1a/DELETE",
                OperationProblem::UnknownMember("DELETE".to_owned())
            ),
            (
                "/a",
                "/paths/~1a/additionalOperations/bad method",
                OperationProblem::UnknownMember("bad method".to_owned())
            ),
            (
                "LINK /a",
                "/paths/~1a/additionalOperations/LINK",
                wrong_kind
            ),
        ]
    );
}

#[test]
fn names_in_other_scripts_keep_their_meaning() {
    let document = openapi::from_value(&json!({
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/t": {"post": {"operationId": "создать_задачу", "description": "Legt sie an",
            "parameters": [
                {"name": "название", "in": "query", "schema": {"type": "string"}},
                {"name": "größe", "in": "query", "schema": {"type": "string", "description": "How large"}},
                {"name": "plain", "in": "query", "schema": {"type": "string"}},
            ]}}},
    }))
    .expect("it is a document");
    let operation = only(&document);
    assert_eq!(operation.title.as_deref(), Some("создать_задачу"));
    let titles: Vec<_> = operation.parameters["properties"]
        .as_object()
        .expect("it has properties")
        .values()
        .map(|property| property["title"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(titles, ["название", "größe", ""]);
}

#[test]
fn header_names_that_differ_in_case_are_one_header() {
    let document = openapi::from_value(&json!({
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/t": {
            "parameters": [{"name": "X-Request-ID", "in": "header", "schema": {"type": "string"}},
                           {"name": "Q", "in": "query", "schema": {"type": "string"}}],
            "get": {"parameters": [{"name": "x-request-id", "in": "header", "schema": {"type": "integer"}},
                                   {"name": "q", "in": "query", "schema": {"type": "string"}}]},
        }},
    }))
    .expect("it is a document");
    let names: Vec<_> = only(&document).parameters["properties"]
        .as_object()
        .expect("it has properties")
        .keys()
        .cloned()
        .collect();
    assert_eq!(names, ["x-request-id", "q", "Q"]);
}
