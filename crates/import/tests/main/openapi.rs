//! Tools of OpenAPI documents.

use picktools::catalog::http::ArgumentLocation;
use picktools::catalog::{CatalogError, CatalogFile, FaultKind};
use picktools::{Access, Catalog, CatalogOptions, Engine, PickOptions, Query};
use picktools_check::CheckReport;
use picktools_import::openapi::{self, Document, OpenApiError};
use picktools_provider::{Provider, TranslateOptions, translate};
use picktools_testing::fixture;
use serde_json::{Value, json};

fn options() -> CatalogOptions {
    CatalogOptions {
        readers: picktools_import::readers(),
        ..CatalogOptions::default()
    }
}

fn open(name: &str) -> Catalog {
    options()
        .open(fixture(&format!("openapi/{name}")))
        .expect("it is a document")
}

fn schema(catalog: &Catalog, name: &str) -> Value {
    let tool = catalog
        .tools()
        .expect("readable")
        .iter()
        .find(|tool| tool.name == name)
        .unwrap_or_else(|| panic!("no {name}"));
    tool.parameters.clone().expect("it has a schema")
}

/// Returns a version 3.1 document with one operation, which has this query parameter and these
/// schemas.
fn with_parameter(parameter: &Value, schemas: &Value) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/a": {"get": {"parameters": [{"name": "p", "in": "query", "schema": parameter}]}}},
        "components": {"schemas": schemas},
    })
}

fn parameter(parameter: &Value, schemas: &Value) -> Value {
    let document =
        openapi::from_value(&with_parameter(parameter, schemas)).expect("it is a document");
    assert_eq!(document.left_out, []);
    document.operations[0].parameters.clone()
}

#[test]
fn operation_becomes_a_tool_with_argument_locations() {
    let catalog = open("library.yaml");
    let names: Vec<_> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.id.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "books_search",
            "addBook",
            "delete_books_by_id",
            "patch_books_by_id",
            "putCover",
            "planShelves"
        ]
        .map(|name| format!("library/{name}"))
    );
    let search = &catalog.tools().expect("readable")[0];
    assert_eq!(search.title.as_deref(), Some("Find books"));
    assert_eq!(
        search.description,
        "Finds books by title, author or shelf.\nAt most 50 at a time."
    );
    assert_eq!(search.tags, ["catalogue"]);
    assert_eq!(
        search.parameters,
        Some(json!({
            "type": "object",
            "properties": {
                "q": {"type": "string", "minLength": 2},
                "filter_year": {"type": "integer", "exclusiveMinimum": 1450},
                "shelves": {"type": "array", "items": {"type": ["string", "null"], "enum": ["a1", "a2", null]}},
                "lang": {"type": "string", "pattern": "^[a-z]{2}$", "description": "Two letters"},
            },
            "additionalProperties": false,
            "required": ["q"],
        }))
    );
    let http = search.http.as_ref().expect("it is an operation");
    assert_eq!(
        (http.method.as_str(), http.url.as_str()),
        ("GET", "https://north.library.example/v4/books")
    );
    assert_eq!(
        http.arguments["filter_year"].name.as_deref(),
        Some("filter[year]")
    );
    assert_eq!(
        http.arguments["shelves"].style.as_deref(),
        Some("pipeDelimited")
    );
    let key = &http.security[0]["key"];
    assert_eq!(
        (key.kind.as_str(), key.name.as_deref()),
        ("apiKey", Some("X-Api-Key"))
    );
}

#[test]
fn bodies_are_split_and_equal_names_kept_apart() {
    let catalog = open("library.yaml");
    assert_eq!(
        schema(&catalog, "addBook"),
        json!({
            "type": "object",
            "properties": {
                "lang": {"type": "string", "description": "Language of titles"},
                "title": {"type": "string", "examples": ["The Tide"]},
                "isbn": {"type": "string"},
                "shelf": {"type": ["string", "null"], "enum": ["a1", "a2", null]},
            },
            "additionalProperties": false,
            "required": ["title"],
        }),
        "what only answers have is left out, and a pattern with look-ahead"
    );
    let patch = catalog
        .tools()
        .expect("readable")
        .iter()
        .find(|tool| tool.name == "patch_books_by_id")
        .expect("it is read");
    let http = patch.http.as_ref().expect("it is an operation");
    assert_eq!(
        http.content_type.as_deref(),
        Some("application/merge-patch+json")
    );
    let place = |argument: &str| {
        (
            http.arguments[argument].place,
            http.arguments[argument].name.as_deref(),
        )
    };
    assert_eq!(place("id"), (ArgumentLocation::Field, None));
    assert_eq!(place("id__path"), (ArgumentLocation::Path, Some("id")));
    assert_eq!(
        patch.parameters.as_ref().expect("it has one")["required"],
        json!(["id__path"]),
        "the body is optional"
    );
    assert_eq!(patch.tags, ["deprecated"]);

    let cover = schema(&catalog, "putCover");
    assert_eq!(
        cover["properties"]["body"]["description"],
        "The picture (the bytes in base64)"
    );
    assert_eq!(cover["required"], json!(["id", "body"]));
    let cover = catalog
        .tools()
        .expect("readable")
        .iter()
        .find(|tool| tool.name == "putCover")
        .and_then(|tool| tool.http.clone());
    assert!(
        cover.expect("it is an operation").security.is_empty(),
        "an empty list asks for nothing"
    );
}

#[test]
fn version_2_documents_are_supported() {
    let catalog = open("kiosk.json");
    let [buy, photo] = catalog.tools().expect("readable") else {
        panic!("it has two operations")
    };
    let http = buy.http.as_ref().expect("it is an operation");
    assert_eq!(http.url, "https://kiosk.example/api/tickets");
    assert_eq!(http.security[0]["login"].scheme.as_deref(), Some("basic"));
    let buy = buy.parameters.as_ref().expect("it has a schema");
    assert_eq!(buy["required"], json!(["day__query", "day", "seats"]));
    assert_eq!(buy["properties"]["seats"], json!({"type": "integer"}));
    assert_eq!(photo.name, "post_tickets_by_number_photo");
    let http = photo.http.as_ref().expect("it is an operation");
    assert_eq!(http.content_type.as_deref(), Some("multipart/form-data"));
    assert_eq!(http.arguments["photo"].place, ArgumentLocation::Field);
    assert_eq!(
        http.arguments["sizes"].style.as_deref(),
        Some("pipeDelimited")
    );
    let photo = photo.parameters.as_ref().expect("it has a schema");
    assert_eq!(
        photo["properties"]["photo"],
        json!({"type": "string", "contentEncoding": "base64", "description": "A portrait (the bytes in base64)"})
    );
    assert_eq!(photo["required"], json!(["number", "photo"]));
}

#[test]
fn delete_is_unsafe_and_get_is_read_only() {
    let engine = Engine::new(open("library.yaml")).expect("the catalog can be indexed");
    let names = |options: &PickOptions| {
        let selection = engine
            .pick(&Query::new("take a book off the shelves"), options)
            .expect("a pick");
        selection
            .picks
            .iter()
            .map(|pick| pick.tool.name.clone())
            .collect::<Vec<_>>()
    };
    let safe = PickOptions::default();
    let all = PickOptions {
        access: Access {
            allow_unsafe: true,
            ..Access::default()
        },
        ..PickOptions::default()
    };
    assert!(!names(&safe).contains(&"delete_books_by_id".to_owned()));
    assert_eq!(names(&all)[0], "delete_books_by_id");
    let catalog = open("library.yaml");
    let read_only = |index: usize| {
        catalog.tools().expect("readable")[index]
            .annotations
            .read_only_hint
    };
    assert_eq!((read_only(0), read_only(1)), (Some(true), None));
}

#[test]
fn invalid_operation_is_left_out_and_reported() {
    let catalog = open("library.yaml");
    let [notice] = catalog.notices() else {
        panic!("{:?}", catalog.notices())
    };
    assert_eq!(notice.kind, FaultKind::LeftOut);
    assert_eq!(
        notice.to_string(),
        "GET /loans at /paths/~1loans/get/parameters/0/schema: \"https://elsewhere.example/schemas.json#/Date\" refers to \
         another document, which is not fetched; bundle the documents into one"
    );
    let report =
        CheckReport::open(fixture("openapi/library.yaml"), &options()).expect("it is checked");
    assert!(
        report
            .findings
            .iter()
            .any(|finding| finding.code == "left-out")
    );
}

#[test]
fn tools_of_a_document_survive_a_round_trip() {
    let catalog = open("library.yaml");
    let lines: String = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| format!("{}\n", json!(tool)))
        .collect();
    let again = Catalog::from_slice(lines.as_bytes(), "lines", None).expect("it is a catalog");
    assert_eq!(
        again.tools().expect("readable"),
        catalog.tools().expect("readable")
    );
    let translation = translate(
        catalog.tools().expect("readable"),
        Provider::Mcp,
        &TranslateOptions::default(),
    )
    .expect("it is written");
    assert!(
        !translation.tools.to_string().contains("north.library"),
        "how it is called is not for a model"
    );
}

#[test]
fn title_is_the_source_unless_one_is_set() {
    let text = r#"{"openapi": "3.0.0", "info": {"title": "Town Library: API"}, "paths": {"/a": {"get": {}}}}"#;
    let source_id = |file| {
        options()
            .read_files(&[file])
            .expect("it is a catalog")
            .tools()
            .expect("readable")[0]
            .id
            .clone()
    };
    assert_eq!(
        source_id(CatalogFile::new("standard input", text)),
        "town_library_api/get_a"
    );
    let folder = tempfile::tempdir().expect("a folder");
    for (name, id) in [
        ("openapi.json", "town_library_api/get_a"),
        ("branch.json", "branch/get_a"),
    ] {
        std::fs::write(folder.path().join(name), text).expect("a file");
        let files = CatalogFile::open(folder.path().join(name)).expect("it can be read");
        assert_eq!(source_id(files[0].clone()), id);
    }
    let named_source = CatalogOptions {
        default_source: Some("mine".to_owned()),
        ..options()
    };
    assert_eq!(
        named_source
            .read(text.as_bytes(), "x")
            .expect("it is a catalog")
            .tools()
            .expect("readable")[0]
            .id,
        "mine/get_a"
    );
}

#[test]
fn circular_references_are_kept_as_definitions() {
    let room = schema(&open("library.yaml"), "planShelves");
    assert_eq!(
        room.pointer("/properties/body/oneOf/0/properties/rooms/items/$ref"),
        Some(&json!("#/$defs/Room"))
    );
    assert_eq!(
        room.pointer("/$defs/Room/oneOf/1/$ref"),
        Some(&json!("#/$defs/Shelf"))
    );
    assert!(room.pointer("/$defs/Shelf/enum").is_some());
}

#[test]
fn exponential_schemas_are_bundled() {
    // Each schema contains the next one twice: 2^40 schemas if they were inlined.
    let doubling: serde_json::Map<String, Value> = (0..40)
        .map(|n| {
            let next = json!({"$ref": format!("#/components/schemas/S{}", n + 1)});
            let one = if n == 39 {
                json!({"type": "string"})
            } else {
                json!({"properties": {"a": next, "b": next}})
            };
            (format!("S{n}"), one)
        })
        .collect();
    let schema = parameter(
        &json!({"$ref": "#/components/schemas/S0"}),
        &doubling.into(),
    );
    assert_eq!(
        schema["$defs"].as_object().map(serde_json::Map::len),
        Some(40)
    );
}

#[test]
fn broken_reference_leaves_out_only_its_operation() {
    for (reference, message) in [
        ("#/components/schemas/None", "has no target"),
        ("#None", "has no target"),
        ("other.yaml#/A", "refers to another document"),
        ("http://127.0.0.1:1/secret", "refers to another document"),
        ("file:///etc/passwd", "refers to another document"),
    ] {
        let mut document = with_parameter(&json!({"$ref": reference}), &json!({}));
        document["paths"]["/b"] = json!({"get": {"operationId": "b"}});
        let document = openapi::from_value(&document).expect("one operation is whole");
        assert_eq!(document.operations.len(), 1);
        let [left_out] = &document.left_out[..] else {
            panic!("{reference}: {:?}", document.left_out)
        };
        assert!(
            left_out.problem.to_string().contains(message),
            "{reference}: {}",
            left_out.problem
        );
        assert_eq!(
            (left_out.operation.as_str(), left_out.pointer.as_str()),
            ("GET /a", "/paths/~1a/get/parameters/0/schema")
        );
    }
    let circle = json!({"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "#/paths/~1a/get/parameters/0"}]}}}});
    let document = openapi::from_value(&circle).expect("it is a document");
    assert!(
        document.left_out[0]
            .problem
            .to_string()
            .contains("refers to itself")
    );
    let itself =
        json!({"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}});
    let document = with_parameter(&json!({"$ref": "#/components/schemas/A"}), &itself);
    let document = openapi::from_value(&document).expect("it is a document");
    assert!(
        document.left_out[0]
            .problem
            .to_string()
            .contains("refers to itself")
    );
}

#[test]
fn nonstandard_schemas_are_normalised() {
    for (odd, sound) in [
        (
            json!({"type": "int", "required": true, "enum": []}),
            json!({"type": "integer"}),
        ),
        (
            json!({"type": "any", "id": "x", "$id": "http://x", "pattern": 0}),
            json!({}),
        ),
        (
            json!({"nullable": true, "type": "string", "xml": {}, "x-a": 1}),
            json!({"type": ["string", "null"]}),
        ),
        (
            json!({"minimum": 1, "exclusiveMinimum": false, "example": 3}),
            json!({"minimum": 1, "examples": [3]}),
        ),
        (
            json!({"type": ["string", "null"]}),
            json!({"type": ["string", "null"]}),
        ),
        (
            json!({"properties": {"$ref": {"type": "string"}}}),
            json!({"properties": {"$ref": {"type": "string"}}}),
        ),
        (json!(true), json!(true)),
    ] {
        assert_eq!(
            parameter(&odd, &json!({}))["properties"]["p"],
            sound,
            "{odd}"
        );
    }
    let described = json!({"$ref": "#/components/schemas/A", "description": "of this place"});
    let schema = parameter(
        &described,
        &json!({"A": {"type": "string", "description": "of all"}}),
    );
    assert_eq!(
        schema["properties"]["p"],
        json!({"type": "string", "description": "of this place"})
    );
    for wrong in [json!(3), json!("text"), json!([])] {
        let document =
            openapi::from_value(&with_parameter(&wrong, &json!({}))).expect("it is a document");
        assert!(
            document.left_out[0]
                .problem
                .to_string()
                .contains("give a schema"),
            "{wrong}"
        );
    }
}

#[test]
fn operation_names_are_plain_and_unique() {
    let parse = |paths: Value| {
        openapi::from_value(&json!({"openapi": "3.0.0", "paths": paths})).expect("a document")
    };
    let names = |document: &Document| {
        document
            .operations
            .iter()
            .map(|one| one.name.clone())
            .collect::<Vec<_>>()
    };
    let document = parse(json!({
        "/a": {"get": {"operationId": "same"}, "post": {"operationId": "same"}, "put": {"operationId": "put_b"}},
        "/b": {"put": {"operationId": "same"}, "x-note": {}, "get": {"operationId": "drive.files/list all"}},
        "/c d/{x-y}/e": {"get": {"operationId": "€"}},
        "/": {"get": {}},
    }));
    assert_eq!(
        names(&document),
        [
            "same",
            "post_a",
            "put_b",
            "put_b_2",
            "drive_files_list_all",
            "get_c_d_by_x-y_e",
            "get"
        ]
    );
    let many = (0..10_000)
        .map(|n| (format!("/p{n}"), json!({"get": {"operationId": "x"}})))
        .collect();
    let mut many = names(&parse(Value::Object(many)));
    many.sort();
    many.dedup();
    assert_eq!(many.len(), 10_000);
}

#[test]
fn argument_names_are_valid_for_every_provider() {
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {}});
    let parameters = json!([
        query("a[b]"),
        query("a{b}"),
        query("€"),
        query(&"long".repeat(40)),
        query("$top")
    ]);
    let document =
        json!({"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": parameters}}}});
    let document = openapi::from_value(&document).expect("it is a document");
    let properties = document.operations[0].parameters["properties"]
        .as_object()
        .expect("it has some");
    let names: Vec<_> = properties.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["a_b", "a_b__query", "argument", &"long".repeat(16), "top"]
    );
    let original = |name: &str| document.operations[0].http.arguments[name].name.clone();
    assert_eq!(original("a_b__query").as_deref(), Some("a{b}"));
}

#[test]
fn unreadable_document_error_has_a_position() {
    let error = |text: &str| {
        openapi::parse_document(text)
            .expect_err("it is no document")
            .to_string()
    };
    assert!(error("{\"openapi\": \"3.0.0\",").contains("line 1, column"));
    assert!(error("openapi: 3.0.0\npaths: [").starts_with("line "));
    assert!(error("{\"openapi\": \"4.0.0\"}").contains("unsupported OpenAPI version 4.0.0"));
    assert!(error("{\"info\": {}}").contains("an object with the members"));
    assert!(error("{\"openapi\": \"3.0.0\", \"paths\": {}}").contains("has no operations"));
    assert!(error("{\"openapi\": \"3.0.0\", \"openapi\": \"3.0.0\"}").contains("duplicate key"));
    assert!(error("openapi: 3.0.0\nopenapi: 3.0.0\n").contains("duplicate key"));
    let mut bomb = "openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        bomb.push_str(&format!(
            "a{n}: &a{n} [{}]\n",
            format!("*a{}, ", n - 1).repeat(10)
        ));
    }
    assert!(
        error(&bomb).contains("aliases multiply it"),
        "{}",
        error(&bomb)
    );
    let deep = format!(
        "openapi: 3.0.0\npaths: {}{}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    assert!(error(&deep).contains("nested deeper"), "{}", error(&deep));
    let deep = format!(
        "{{\"openapi\": \"3.0.0\", \"paths\": {}{}}}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    assert!(error(&deep).contains("nested deeper"), "{}", error(&deep));
    let error = options()
        .read(b"openapi: 9.9.9\n", "here.yaml")
        .expect_err("nobody knows that version");
    assert_eq!(
        error.to_string(),
        "cannot read the OpenAPI document here.yaml"
    );
    let CatalogError::Document { source, .. } = error else {
        panic!("{error:?}")
    };
    assert!(
        matches!(source.downcast_ref(), Some(OpenApiError::Version { .. })),
        "{source}"
    );
}

#[test]
fn yaml_values_are_read_as_in_json() {
    let yaml = "swagger: 2.0\ninfo: {title: 12}\npaths:\n  /a:\n    get:\n      description: Off or on\n      responses:\n        \
                200: {description: yes}\n      parameters:\n      - {name: on, in: query, type: string, enum: [on, off, '1']}\n";
    let document = openapi::parse_document(yaml).expect("it is a document");
    let property = &document.operations[0].parameters["properties"]["on"];
    assert_eq!(
        property,
        &json!({"type": "string", "enum": ["on", "off", "1"]})
    );
}

#[test]
fn body_is_split_unless_constraints_would_be_lost() {
    let is_split = |more: Value| {
        let mut schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        schema
            .as_object_mut()
            .expect("it is one")
            .extend(more.as_object().expect("it is one").clone());
        let body = json!({"content": {"application/json": {"schema": schema}}});
        let document =
            json!({"openapi": "3.0.0", "paths": {"/a": {"post": {"requestBody": body}}}});
        let document = openapi::from_value(&document).expect("it is a document");
        document.operations[0].http.arguments.contains_key("a")
    };
    for more in [
        json!({}),
        json!({"nullable": true}),
        json!({"additionalProperties": true}),
        json!({"x-a": 1, "title": "A"}),
    ] {
        assert!(is_split(more.clone()), "{more}");
    }
    for more in [
        json!({"additionalProperties": {"type": "string"}}),
        json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({"minProperties": 1}),
        json!({"type": "array"}),
    ] {
        assert!(!is_split(more.clone()), "{more}");
    }
}
