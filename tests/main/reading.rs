//! Origins of catalogs: provider requests, pages of a list, several files.

use std::fs;

use picktools::catalog::{CatalogError, CatalogFault, CatalogFile, FaultKind};
use picktools::{Catalog, CatalogOptions};
use serde_json::{Value, json};

fn read(text: &str) -> Result<Catalog, CatalogError> {
    Catalog::from_slice(text.as_bytes(), "here", None)
}

fn faults(result: Result<Catalog, CatalogError>) -> Vec<String> {
    match result.expect_err("the catalog is at fault") {
        CatalogError::Invalid { faults, .. } => {
            faults.iter().map(CatalogFault::to_string).collect()
        }
        other => panic!("expected faults of entries, got: {other}"),
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.name.as_str())
        .collect()
}

/// A catalog of two files.
fn two_files(first: &str, second: &str) -> [CatalogFile; 2] {
    [("one.json", first), ("two.jsonl", second)]
        .map(|(origin, text)| CatalogFile::new(origin, text))
}

#[test]
fn gemini_schemas_become_json_schemas() {
    let catalog = read(
        &json!({"tools": [{"functionDeclarations": [
            {"name": "a", "description": "A", "parameters": {"type": "OBJECT", "required": ["x"], "properties": {
                "x": {"type": "STRING", "nullable": true, "enum": ["p", "q"]},
                "y": {"type": "ARRAY", "items": {"type": "INTEGER", "format": "int32"}, "maxItems": "3"},
                "z": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}], "nullable": true},
                "type": {"type": "BOOLEAN"},
            }}},
            {"name": "b", "description": "B"},
            {"name": "c", "description": "C", "parametersJsonSchema": {"type": "object", "properties": {}}},
        ]}]})
        .to_string(),
    )
    .expect("it can be read");
    let parameters: Vec<&Value> = catalog
        .tools()
        .expect("readable")
        .iter()
        .filter_map(|tool| tool.parameters.as_ref())
        .collect();
    assert_eq!(
        parameters,
        [
            &json!({"type": "object", "required": ["x"], "properties": {
                "x": {"type": ["string", "null"], "enum": ["p", "q", null]},
                "y": {"type": "array", "items": {"type": "integer", "format": "int32"}, "maxItems": 3},
                "z": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
                "type": {"type": "boolean"},
            }}),
            &json!({}),
            &json!({"type": "object", "properties": {}}),
        ]
    );
}

#[test]
fn policy_next_to_declarations_is_rejected() {
    let declaration = json!({"name": "a", "description": "A", "safe": false});
    let catalog = read(&json!([{"function_declarations": [declaration]}]).to_string())
        .expect("it can be read");
    assert!(catalog.tools().expect("readable")[0].is_unsafe());
    let reported = faults(read(
        &json!([{"functionDeclarations": [declaration], "allowed_roles": ["admin"]}]).to_string(),
    ));
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(
        reported[0].contains("/allowed_roles")
            && reported[0].contains("move it into each declaration"),
        "{reported:?}"
    );
}

#[test]
fn list_pages_are_read_line_by_line() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool("a"), tool("b")], "nextCursor": "2"}});
    let pages = format!(
        "{response}\n\n{}\n{}\n",
        json!({"tools": [tool("c")], "source": "s"}),
        tool("d")
    );
    let catalog = read(&pages).expect("the pages can be read");
    assert_eq!(names(&catalog), ["a", "b", "c", "d"]);
    let sources: Vec<_> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.source.as_deref())
        .collect();
    assert_eq!(sources, [None, None, Some("s"), None]);
    let broken = format!(
        "{response}\n{}\n{}\n{}",
        json!({"tools": [tool("c"), {"name": "x"}]}),
        json!({"tools": {}}),
        r#"{"tools": [{"name": "y", "inputSchema": {}, "safe": true, "safe": false}], "source": "s", "source": "t"}"#,
    );
    let reported = faults(read(&broken));
    assert_eq!(reported.len(), 4, "{reported:?}");
    assert!(
        reported[0].starts_with("line 2, tool 2 (\"x\"): `parameters` is missing"),
        "{reported:?}"
    );
    assert!(
        reported[1].starts_with("line 3 at /tools: it is an object, not an array"),
        "{reported:?}"
    );
    assert!(
        reported[2].starts_with("line 4 at /source: duplicate key"),
        "{reported:?}"
    );
    assert!(
        reported[3].starts_with("line 4, tool 1 (\"y\") at /safe: duplicate key"),
        "{reported:?}"
    );
}

#[test]
fn provider_tools_are_excluded_with_notice() {
    let caller_tools = [
        json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5}),
        json!({"type": "bash_20250124", "name": "bash"}),
        json!({"type": "computer_20251124", "name": "computer", "display_width_px": 1024}),
        json!({"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
        json!({"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}),
        json!({"type": "mcp_toolset", "mcp_server_name": "s"}),
        json!({"type": "web_search"}),
        json!({"type": "web_search_preview_2025_03_11"}),
        json!({"type": "file_search", "vector_store_ids": ["v"]}),
        json!({"type": "code_interpreter", "container": {"type": "auto"}}),
        json!({"type": "mcp", "server_label": "s", "server_url": "u", "require_approval": "never"}),
        json!({"type": "tool_search"}),
        json!({"googleSearch": {}}),
        json!({"code_execution": {}}),
    ];
    let deferred_tool =
        json!({"type": "function", "name": "kept", "parameters": {}, "defer_loading": true});
    let claude =
        json!({"type": "custom", "name": "kept_too", "input_schema": {}, "defer_loading": true});
    let entries: Vec<Value> = caller_tools
        .iter()
        .cloned()
        .chain([deferred_tool.clone(), claude])
        .collect();
    let catalog = read(&json!({"tools": entries}).to_string()).expect("the rest can be read");
    assert_eq!(names(&catalog), ["kept", "kept_too"]);
    assert_eq!(catalog.notices().len(), caller_tools.len());
    assert!(
        catalog
            .notices()
            .iter()
            .all(|notice| notice.kind == FaultKind::ProviderTool)
    );
    let first = catalog.notices()[0].to_string();
    assert!(
        first.starts_with(
            "entry 1 (\"web_search\") at /type: \"web_search_20250305\" is left out: a provider tool"
        ),
        "{first}"
    );
    assert!(
        catalog.notices()[12].to_string().contains("googleSearch"),
        "{}",
        catalog.notices()[12]
    );
    let catalog =
        read(&json!([{"functionDeclarations": [], "googleSearch": {}}, deferred_tool]).to_string())
            .expect("it can be read");
    assert_eq!(
        (names(&catalog), catalog.notices().len()),
        (vec!["kept"], 1)
    );
}

#[test]
fn caller_tool_is_not_taken_for_provider_tool() {
    for entry in [
        json!({"type": "functoin", "name": "a", "description": "A"}),
        json!({"type": "web_serach", "name": "a"}),
        json!({"type": "shell", "name": "a", "description": "Runs a command"}),
        json!({"type": "bash_20250124", "name": "bash", "allowed_roles": ["admin"]}),
        json!({"type": "bash_20250124", "name": "bash", "unsafe": true}),
        json!({"type": "custom", "name": "a", "format": {"type": "text"}}),
        json!({"type": "namespace", "name": "a", "tools": [{"type": "function", "name": "b", "parameters": {}}]}),
        json!({"googleSearch": {}, "safe": false}),
    ] {
        let reported = faults(read(
            &json!([entry, {"name": "b", "parameters": {}}]).to_string(),
        ));
        assert_eq!(reported.len(), 1, "{entry}: {reported:?}");
    }
}

#[test]
fn several_files_form_one_catalog_and_faults_name_file() {
    let options = CatalogOptions::default();
    let files = two_files(
        r#"[{"name": "a", "parameters": {}}]"#,
        r#"{"name": "b", "parameters": {}}"#,
    );
    assert_eq!(
        names(&options.read_files(&files).expect("both can be read")),
        ["a", "b"]
    );
    let files = two_files(
        r#"[{"name": "a", "source": "s", "parameters": {}}, {"name": "c"}]"#,
        r#"{"tools": [{"name": "a", "source": "s", "parameters": {}}]}"#,
    );
    let reported = faults(options.read_files(&files));
    assert!(
        reported[0].starts_with("one.json: entry 2 (\"c\"): `parameters` is missing"),
        "{reported:?}"
    );
    assert!(
        reported[1].starts_with("two.jsonl: entry 1 (\"a\")")
            && reported[1].contains("one.json: entry 1"),
        "{reported:?}"
    );
    let error = options
        .read_files(&two_files("[]", "{"))
        .expect_err("the second is no JSON")
        .to_string();
    assert!(error.starts_with("two.jsonl: line 1"), "{error}");
    assert!(
        options
            .read_files(&[])
            .expect("nothing is wrong with nothing")
            .is_empty()
    );
}

#[test]
fn folder_files_are_read_in_order_or_only_the_usual_one() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("a file can be written");
    };
    let error = Catalog::open(folder.path())
        .expect_err("there is nothing to read")
        .to_string();
    assert!(error.contains("*.json"), "{error}");
    write("b.jsonl", r#"{"name": "b", "parameters": {}}"#);
    write("a.json", r#"[{"name": "a", "parameters": {}}]"#);
    write(".hidden.json", "{");
    write("notes.md", "# Notes");
    fs::create_dir(folder.path().join("c.json")).expect("a folder can be made");
    let catalog = Catalog::open(folder.path()).expect("both files can be read");
    let ids: Vec<&str> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.id.as_str())
        .collect();
    assert_eq!(ids, ["a/a", "b/b"]);
    write("tools.json", r#"[{"name": "t", "parameters": {}}]"#);
    assert_eq!(
        names(&Catalog::open(folder.path()).expect("it can be read")),
        ["t"]
    );
}
