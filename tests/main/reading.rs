//! Where catalogs come from: what providers were given, pages of a list, several files.

use std::fs;

use picktools::catalog::{CatalogError, CatalogFault, CatalogFile, FaultKind};
use picktools::check::{CheckReport, Severity};
use picktools::provider::TranslateOptions;
use picktools::{Catalog, CatalogOptions, Provider, translate};
use serde_json::{Value, json};

use crate::support::workplace;

fn read(text: &str) -> Result<Catalog, CatalogError> {
    Catalog::from_slice(text.as_bytes(), "here", None)
}

fn faults(result: Result<Catalog, CatalogError>) -> Vec<String> {
    match result.expect_err("the catalog is at fault") {
        CatalogError::Invalid { faults, .. } => faults.iter().map(CatalogFault::to_string).collect(),
        other => panic!("expected faults of entries, got: {other}"),
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools().iter().map(|tool| tool.name.as_str()).collect()
}

/// The definitions that were written, out of what stands around them.
fn definitions(tools: &Value) -> Vec<&Value> {
    let list = tools.pointer("/0/functionDeclarations").unwrap_or(tools).as_array().expect("it is a list");
    let own = |tool: &&Value| !tool["type"].as_str().is_some_and(|kind| kind.starts_with("tool_search"));
    list.iter().filter(own).map(|tool| tool.get("function").unwrap_or(tool)).collect()
}

/// A catalog of two files.
fn two_files(first: &str, second: &str) -> [CatalogFile; 2] {
    [("one.json", first), ("two.jsonl", second)].map(|(origin, text)| CatalogFile::new(origin, text))
}

#[test]
fn what_is_written_for_a_provider_can_be_read_back() {
    let tools = workplace();
    for provider in Provider::ALL {
        let deferred: &[bool] = if provider.has_deferred_loading() { &[false, true] } else { &[false] };
        for (strict, &deferred) in
            [false, true].into_iter().flat_map(|strict| deferred.iter().map(move |on| (strict, on)))
        {
            let options = TranslateOptions { strict: Some(strict), deferred, ..TranslateOptions::default() };
            let written = translate(tools.tools(), provider, &options).expect("it can be written");
            let whole = json!({"model": "m", "tools": written.tools}).to_string();
            for text in [written.tools.to_string(), whole] {
                let back = read(&text).unwrap_or_else(|error| panic!("{provider}: {error}"));
                assert_eq!(back.len(), tools.len(), "{provider}");
                let shown = definitions(&written.tools);
                for ((tool, back), shown) in tools.tools().iter().zip(back.tools()).zip(&shown) {
                    assert_eq!(written.names[&back.name], tool.id, "{provider}");
                    assert!(back.description.starts_with(&tool.description), "{provider}: {}", back.description);
                    if let Some(schema) = shown.get("parameters").or(shown.get("input_schema"))
                        && provider != Provider::Gemini
                    {
                        assert_eq!(back.parameters.as_ref(), Some(schema), "{provider}");
                    }
                }
                if !strict {
                    // What a provider cannot say is gone, and nothing more.
                    let again = translate(back.tools(), provider, &options).expect("it can be written");
                    for (again, shown) in definitions(&again.tools).iter().zip(&shown) {
                        assert_eq!(again, shown, "{provider}");
                    }
                }
                assert_eq!(back.notices().len(), usize::from(deferred), "{provider}: {:?}", back.notices());
            }
        }
    }
    let written = translate(tools.tools(), Provider::Mcp, &TranslateOptions::default()).expect("it can be written");
    let back = read(&written.tools.to_string()).expect("it can be read");
    for (tool, back) in tools.tools().iter().zip(back.tools()) {
        assert_eq!((&back.annotations, &back.title), (&tool.annotations, &tool.title), "{}", tool.id);
    }
}

#[test]
fn the_schemas_of_gemini_are_json_schemas_once_they_are_read() {
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
    let parameters: Vec<&Value> = catalog.tools().iter().filter_map(|tool| tool.parameters.as_ref()).collect();
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
fn policy_beside_declarations_is_refused_and_within_them_counts() {
    let declaration = json!({"name": "a", "description": "A", "safe": false});
    let catalog = read(&json!([{"function_declarations": [declaration]}]).to_string()).expect("it can be read");
    assert!(catalog.tools()[0].is_unsafe());
    let found = faults(read(&json!([{"functionDeclarations": [declaration], "allowed_roles": ["admin"]}]).to_string()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("/allowed_roles") && found[0].contains("put it into each declaration"), "{found:?}");
}

#[test]
fn pages_of_a_list_are_read_line_by_line() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool("a"), tool("b")], "nextCursor": "2"}});
    let pages = format!("{response}\n\n{}\n{}\n", json!({"tools": [tool("c")], "source": "s"}), tool("d"));
    let catalog = read(&pages).expect("the pages can be read");
    assert_eq!(names(&catalog), ["a", "b", "c", "d"]);
    let sources: Vec<_> = catalog.tools().iter().map(|tool| tool.source.as_deref()).collect();
    assert_eq!(sources, [None, None, Some("s"), None]);
    let broken = format!(
        "{response}\n{}\n{}\n{}",
        json!({"tools": [tool("c"), {"name": "x"}]}),
        json!({"tools": {}}),
        r#"{"tools": [{"name": "y", "inputSchema": {}, "safe": true, "safe": false}], "source": "s", "source": "t"}"#,
    );
    let found = faults(read(&broken));
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[0].starts_with("line 2, tool 2 (\"x\"): `parameters` is missing"), "{found:?}");
    assert!(found[1].starts_with("line 3 at /tools: it is an object, not an array"), "{found:?}");
    assert!(found[2].starts_with("line 4 at /source: the member stands twice"), "{found:?}");
    assert!(found[3].starts_with("line 4, tool 1 (\"y\") at /safe: the member stands twice"), "{found:?}");
}

#[test]
fn the_providers_own_tools_are_left_out_with_a_notice() {
    let own = [
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
    let kept = json!({"type": "function", "name": "kept", "parameters": {}, "defer_loading": true});
    let claude = json!({"type": "custom", "name": "kept_too", "input_schema": {}, "defer_loading": true});
    let entries: Vec<Value> = own.iter().cloned().chain([kept.clone(), claude]).collect();
    let catalog = read(&json!({"tools": entries}).to_string()).expect("the rest can be read");
    assert_eq!(names(&catalog), ["kept", "kept_too"]);
    assert_eq!(catalog.notices().len(), own.len());
    assert!(catalog.notices().iter().all(|notice| notice.kind == FaultKind::ProviderTool));
    let first = catalog.notices()[0].to_string();
    assert!(
        first.starts_with("entry 1 (\"web_search\") at /type: \"web_search_20250305\" is a tool of the provider"),
        "{first}"
    );
    assert!(catalog.notices()[12].to_string().contains("googleSearch"), "{}", catalog.notices()[12]);
    let catalog =
        read(&json!([{"functionDeclarations": [], "googleSearch": {}}, kept]).to_string()).expect("it can be read");
    assert_eq!((names(&catalog), catalog.notices().len()), (vec!["kept"], 1));
    let report = CheckReport::read(json!([own[1], kept]).to_string().as_bytes(), "here", &CatalogOptions::default());
    let report = report.expect("it can be read");
    assert_eq!(report.findings[0].code, "provider-tool");
}

#[test]
fn what_may_be_a_tool_of_the_callers_own_is_not_taken_for_the_providers() {
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
        let found = faults(read(&json!([entry, {"name": "b", "parameters": {}}]).to_string()));
        assert_eq!(found.len(), 1, "{entry}: {found:?}");
    }
}

#[test]
fn several_files_are_one_catalog_and_faults_name_the_file() {
    let options = CatalogOptions::default();
    let files = two_files(r#"[{"name": "a", "parameters": {}}]"#, r#"{"name": "b", "parameters": {}}"#);
    assert_eq!(names(&options.read_files(&files).expect("both can be read")), ["a", "b"]);
    let files = two_files(
        r#"[{"name": "a", "source": "s", "parameters": {}}, {"name": "c"}]"#,
        r#"{"tools": [{"name": "a", "source": "s", "parameters": {}}]}"#,
    );
    let found = faults(options.read_files(&files));
    assert!(found[0].starts_with("one.json: entry 2 (\"c\"): `parameters` is missing"), "{found:?}");
    assert!(found[1].starts_with("two.jsonl: entry 1 (\"a\")") && found[1].contains("one.json: entry 1"), "{found:?}");
    let report = CheckReport::read_files(&files, &options).expect("they can be looked at");
    let errors = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let places: Vec<String> = errors.map(|finding| finding.position.to_string()).collect();
    assert_eq!(places, ["one.json: entry 2", "two.jsonl: entry 1"]);
    let error = options.read_files(&two_files("[]", "{")).expect_err("the second is no JSON").to_string();
    assert!(error.starts_with("two.jsonl: line 1"), "{error}");
    assert!(options.read_files(&[]).expect("nothing is wrong with nothing").is_empty());
}

#[test]
fn the_files_of_a_folder_are_read_in_order_unless_it_holds_one_of_the_usual_name() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file can be written");
    let error = Catalog::open(folder.path()).expect_err("there is nothing to read").to_string();
    assert!(error.contains("*.json"), "{error}");
    write("b.jsonl", r#"{"name": "b", "parameters": {}}"#);
    write("a.json", r#"[{"name": "a", "parameters": {}}]"#);
    write(".hidden.json", "{");
    write("notes.md", "# Notes");
    fs::create_dir(folder.path().join("c.json")).expect("a folder can be made");
    let catalog = Catalog::open(folder.path()).expect("both files can be read");
    let ids: Vec<&str> = catalog.tools().iter().map(|tool| tool.id.as_str()).collect();
    assert_eq!(ids, ["a/a", "b/b"]);
    write("tools.json", r#"[{"name": "t", "parameters": {}}]"#);
    assert_eq!(names(&Catalog::open(folder.path()).expect("it can be read")), ["t"]);
}
