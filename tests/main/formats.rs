//! Catalog formats: all give the same tools, every fault is reported with its place and a remedy,
//! and the digest detects changes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use picktools::catalog::{
    CatalogError, CatalogFault, MAX_SCHEMA_DEPTH, NoSchemaMode, Position, ThreatLevel,
};
use picktools::{Catalog, CatalogOptions, Tool};
use serde_json::{Value, json};

use crate::support::{catalog, fixture, set, tool};

fn open(path: &str) -> Catalog {
    Catalog::open(fixture(path)).unwrap_or_else(|error| panic!("{path} is sound, but: {error}"))
}

fn open_error(path: &str) -> CatalogError {
    Catalog::open(fixture(path)).expect_err("the file is broken")
}

fn read(value: &Value) -> Result<Catalog, CatalogError> {
    Catalog::from_slice(value.to_string().as_bytes(), "here", None)
}

/// Returns the faults of a catalog whose entries are readable.
fn faults(result: Result<Catalog, CatalogError>) -> Vec<CatalogFault> {
    match result.expect_err("the catalog is at fault") {
        CatalogError::Invalid { faults, .. } => faults,
        other => panic!("expected faults of entries, got: {other}"),
    }
}

/// Returns the tool of a catalog with one entry.
fn one(entry: Value) -> Arc<Tool> {
    let catalog = read(&json!([entry])).expect("the entry is valid");
    assert_eq!(catalog.len(), 1);
    Arc::clone(&catalog.tools().expect("readable")[0])
}

/// Returns the fault of a catalog with one entry, as `pointer: message; remedy`.
fn one_fault(entry: Value) -> String {
    let text = entry.to_string();
    let faults = faults(read(&json!([entry])));
    assert_eq!(faults.len(), 1, "{text}: {faults:?}");
    format!(
        "{}: {}; {}",
        faults[0].pointer, faults[0].message, faults[0].remedy
    )
}

const NAMES: [&str; 3] = ["get_forecast", "convertUnits", "list-open-orders"];

#[test]
fn catalog_formats_give_the_same_tools() {
    let raw = fs::read(fixture("formats/native.json")).expect("the fixture is there");
    let raw: Vec<Value> = serde_json::from_slice(&raw).expect("the fixture is JSON");
    for (path, source) in [
        ("native.json", "samples"),
        ("native.jsonl", "samples"),
        ("native-object.json", "samples"),
        ("layout", "samples"),
        ("layout/tools.jsonl", "samples"),
        ("mcp.json", "mcp"),
        ("mcp-rpc.json", "mcp-rpc"),
        ("openai-chat.json", "openai-chat"),
        ("openai-responses.json", "openai-responses"),
        ("openai-request.json", "openai-request"),
        ("anthropic.json", "anthropic"),
    ] {
        let catalog = open(&format!("formats/{path}"));
        assert_eq!(catalog.len(), 3, "{path}");
        for ((tool, raw), name) in catalog
            .tools()
            .expect("readable")
            .iter()
            .zip(&raw)
            .zip(NAMES)
        {
            assert_eq!(
                (tool.name.as_str(), raw["name"].as_str()),
                (name, Some(name)),
                "{path}"
            );
            assert_eq!(
                Some(tool.description.as_str()),
                raw["description"].as_str(),
                "{path}"
            );
            assert_eq!(tool.parameters.as_ref(), Some(&raw["parameters"]), "{path}");
            assert_eq!(tool.source.as_deref(), Some(source), "{path}");
            assert_eq!(tool.id, format!("{source}/{name}"), "{path}");
            assert_eq!(
                catalog
                    .find(&tool.id)
                    .map(|id| catalog.tool(id).expect("readable").name.clone()),
                Some(name.to_owned())
            );
        }
    }
}

#[test]
fn format_specific_fields_are_kept() {
    for path in [
        "native.json",
        "native.jsonl",
        "native-object.json",
        "mcp.json",
        "mcp-rpc.json",
    ] {
        let forecast = &open(&format!("formats/{path}")).tools().expect("readable")[0].clone();
        assert_eq!(
            forecast.title.as_deref(),
            Some("Weather forecast"),
            "{path}"
        );
        assert_eq!(forecast.annotations.read_only_hint, Some(true), "{path}");
        assert_eq!(
            forecast.annotations.destructive_hint, None,
            "an absent hint is unknown: {path}"
        );
    }
    for path in [
        "openai-chat.json",
        "openai-responses.json",
        "openai-request.json",
    ] {
        assert!(
            open(&format!("formats/{path}"))
                .tools()
                .expect("readable")
                .iter()
                .all(|tool| tool.strict == Some(true)),
            "{path}"
        );
    }
    assert!(
        open("formats/anthropic.json")
            .tools()
            .expect("readable")
            .iter()
            .all(|tool| tool.strict.is_none())
    );
    let native = open("formats/native.json");
    assert_eq!(
        native.tools().expect("readable")[1].aliases[0].name,
        "convert"
    );
    assert_eq!(
        native.tools().expect("readable")[1].tags,
        ["measures", "arithmetic"]
    );
}

#[test]
fn tool_id_is_identity_and_source_qualifies_others() {
    let catalog = read(&json!([
        {"id": "x-1", "name": "a", "source": "s", "parameters": {}},
        {"name": "a", "source": "t", "parameters": {}},
        {"name": "a", "parameters": {}},
    ]))
    .expect("the same name in other sources is not a conflict");
    let ids: Vec<&str> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.id.as_str())
        .collect();
    assert_eq!(ids, ["x-1", "t/a", "a"]);
    assert_eq!(
        catalog.tools().expect("readable")[0].qualified_name(),
        "s/a"
    );
    assert!(catalog.find("s/a").is_none());
}

#[test]
fn tools_without_source_get_file_or_folder_name() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let entry = br#"{"name": "a", "parameters": {}}"#;
    for (file, source) in [
        ("payments.json", "payments"),
        ("wiki/tools.jsonl", "wiki"),
        ("wiki2/tools.json", "wiki2"),
    ] {
        let path = temporary.path().join(file);
        fs::create_dir_all(path.parent().expect("it lies in a folder"))
            .expect("a folder can be made");
        fs::write(&path, entry).expect("a file can be written");
        let open = |path: &Path| {
            Catalog::open(path)
                .expect("the catalog is valid")
                .tools()
                .expect("readable")[0]
                .source
                .clone()
        };
        assert_eq!(open(&path).as_deref(), Some(source), "{file}");
        if file.contains("/tools.") {
            assert_eq!(
                open(path.parent().expect("it lies in a folder")).as_deref(),
                Some(source),
                "folder of {file}"
            );
        }
    }
}

#[test]
fn source_from_folder_uses_complete_name() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let folder = temporary.path().join("release-1.2");
    fs::create_dir(&folder).expect("a folder can be made");
    fs::write(
        folder.join("tools.jsonl"),
        br#"{"name": "a", "parameters": {}}"#,
    )
    .expect("a file can be written");
    let catalog = Catalog::open(&folder).expect("the catalog is valid");
    assert_eq!(
        catalog.tools().expect("readable")[0].source.as_deref(),
        Some("release-1.2")
    );
}

#[test]
fn syntax_error_names_line_and_column() {
    match open_error("broken/syntax.json") {
        CatalogError::Syntax {
            origin,
            line,
            column,
            message,
        } => {
            assert!(origin.ends_with("syntax.json"), "{origin}");
            assert_eq!((line, column, message.as_str()), (4, 19, "expected `:`"));
        }
        other => panic!("expected a syntax error, got: {other}"),
    }
    assert!(
        open_error("broken/syntax.json")
            .to_string()
            .ends_with("syntax.json: line 4, column 19: expected `:`")
    );
    let reported = faults(Catalog::open(fixture("broken/syntax.jsonl")));
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(reported[0].position, Position::Line(3));
    assert!(
        reported[0]
            .message
            .starts_with("not valid JSON at column 106"),
        "{}",
        reported[0].message
    );
}

#[test]
fn invalid_utf8_is_rejected_with_its_position() {
    match open_error("broken/invalid-utf8.jsonl") {
        CatalogError::NotUtf8 {
            origin,
            line,
            column,
        } => {
            assert!(origin.ends_with("invalid-utf8.jsonl"), "{origin}");
            assert_eq!((line, column), (2, 76));
        }
        other => panic!("expected an error of encoding, got: {other}"),
    }
}

#[test]
fn catalog_faults_are_all_reported_with_place_and_remedy() {
    let error = open_error("broken/many-faults.json").to_string();
    let reported = faults(Catalog::open(fixture("broken/many-faults.json")));
    let expected = [
        (
            "entry 2",
            None,
            "",
            "`name` is missing",
            "give the tool a name",
        ),
        (
            "entry 3",
            Some("gate_status"),
            "",
            "`parameters` is missing",
            "`{}` for none",
        ),
        (
            "entry 4",
            Some("ask_porter"),
            "",
            "is missing",
            "no_schema_mode of read-only, human-approval or full",
        ),
        (
            "entry 5",
            Some("book_bay"),
            "/parameters/properties/visitor/$ref",
            "leaves the schema",
            "$defs",
        ),
        (
            "entry 7",
            Some("open_gate"),
            "",
            "Duplicate tool \"carpark/open_gate\", first at entry 1",
            "rename",
        ),
        (
            "entry 8",
            Some("gate_console"),
            "/aliases/0",
            "Duplicate tool alias 'bash'",
            "keep it in one tool only",
        ),
        (
            "entry 9",
            Some("print_ticket"),
            "/parameters",
            "an array, not an object",
            "JSON Schema object",
        ),
        (
            "entry 10",
            Some("find_car"),
            "/output_schema",
            "a string, not an object",
            "JSON Schema object",
        ),
    ];
    for (fault, (position, name, pointer, message, remedy)) in reported.iter().zip(expected) {
        assert_eq!(
            (
                fault.position.to_string().as_str(),
                fault.name.as_deref(),
                fault.pointer.as_str()
            ),
            (position, name, pointer)
        );
        assert!(
            fault.message.contains(message),
            "{position}: {}",
            fault.message
        );
        assert!(
            fault.remedy.contains(remedy),
            "{position}: {}",
            fault.remedy
        );
        assert!(
            error.contains(&fault.to_string()),
            "the error text leaves out {fault}"
        );
    }
    assert_eq!(
        reported.len(),
        expected.len(),
        "each fault is reported once, in the order of the entries: {error}"
    );
    assert!(error.contains("many-faults.json: 8 faults"), "{error}");
}

#[test]
fn documents_without_catalog_are_distinguished() {
    for (bytes, reported) in [
        (&b""[..], "the file is empty"),
        (b"  \n ", "the file is empty"),
        (b"7", "a number"),
        (b"\"tools\"", "a string"),
        (b"{\"tools\": 3}", "`tools` is a number, not an array"),
        (b"{\"recipe\": 1}", "recipe"),
    ] {
        let error = Catalog::from_slice(bytes, "here", None).expect_err("it is no catalog");
        assert!(
            matches!(&error, CatalogError::UnknownFormat { found: text, .. } if text.contains(reported)),
            "{error}"
        );
    }
    let error = open_error("broken/not-a-catalog.json").to_string();
    assert!(
        error.contains("not-a-catalog.json: no catalog format recognised")
            && error.contains("recipe"),
        "{error}"
    );
    assert!(
        open("broken/empty.json").is_empty(),
        "an empty catalog is a catalog"
    );
    let entries = json!([7, null, {"type": "web_serach", "name": "web_search"}, {"name": "a", "parameters": {}}]);
    let positions: Vec<String> = faults(read(&entries))
        .into_iter()
        .map(|fault| fault.position.to_string())
        .collect();
    assert_eq!(positions, ["entry 1", "entry 2", "entry 3"]);
}

#[test]
fn paths_without_catalog_are_named() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let error = Catalog::open(temporary.path()).expect_err("the folder is empty");
    assert!(
        matches!(&error, CatalogError::NoCatalogInFolder { path } if path == temporary.path()),
        "{error}"
    );
    assert!(error.to_string().contains("*.jsonl"), "{error}");
    let missing = temporary.path().join("none.json");
    let error = Catalog::open(&missing).expect_err("the file is not there");
    assert!(
        matches!(&error, CatalogError::Read { path, .. } if *path == missing),
        "{error}"
    );
    assert!(error.to_string().contains("none.json"), "{error}");
}

#[test]
fn empty_schema_is_valid_and_missing_schema_is_a_fault() {
    assert_eq!(
        one(json!({"name": "a", "parameters": {}})).parameters,
        Some(json!({}))
    );
    assert_eq!(
        one(json!({"name": "a", "input_schema": {}})).parameters,
        Some(json!({}))
    );
    assert_eq!(
        one(json!({"name": "a", "inputSchema": {}})).parameters,
        Some(json!({}))
    );
    let published = one(json!({"type": "function", "function": {"name": "a"}}));
    assert_eq!(
        published.parameters,
        Some(json!({})),
        "OpenAI's reference says that leaving it out means none"
    );
    for entry in [
        json!({"name": "a"}),
        json!({"name": "a", "parameters": null}),
        json!({"name": "a", "description": "b"}),
    ] {
        let fault = one_fault(entry);
        assert!(fault.starts_with(": `parameters` is missing; "), "{fault}");
        assert!(
            fault.contains("allow_no_schema"),
            "the remedy names the way out: {fault}"
        );
    }
}

#[test]
fn catalog_option_allows_tools_without_schema() {
    let options = CatalogOptions {
        allow_no_schema: Some(NoSchemaMode::HumanApproval),
        ..CatalogOptions::default()
    };
    let read = |entries: &Value| options.read(entries.to_string().as_bytes(), "here");
    let entries = json!([
        {"name": "bare", "description": "Has a name and a description"},
        {"name": "null", "parameters": null},
        {"name": "own-mode", "allow_no_schema": true, "no_schema_mode": "read-only"},
        {"name": "with-schema", "parameters": {}},
        {"type": "function", "function": {"name": "openai"}},
    ]);
    let catalog = read(&entries).expect("every entry is valid");
    let modes: Vec<_> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| (tool.name.as_str(), tool.no_schema_mode))
        .collect();
    let expected = [
        ("bare", Some(NoSchemaMode::HumanApproval)),
        ("null", Some(NoSchemaMode::HumanApproval)),
        ("own-mode", Some(NoSchemaMode::ReadOnly)),
        ("with-schema", None),
        ("openai", None),
    ];
    assert_eq!(modes, expected);
    // A tool that refuses it itself, and a schema that is not valid, stay faults.
    for entry in [
        json!({"name": "a", "allow_no_schema": false}),
        json!({"name": "a", "parameters": "none"}),
    ] {
        assert_eq!(faults(read(&json!([entry]))).len(), 1, "{entry}");
    }
    let mut tool = Tool::without_arguments("in_memory", "");
    tool.parameters = None;
    let more = catalog
        .with_tools([tool])
        .expect("the option applies to later tools");
    assert_eq!(
        more.tools().expect("readable")[5].no_schema_mode,
        Some(NoSchemaMode::HumanApproval)
    );
    let fault = one_fault(json!({"name": "a", "description": "b"}));
    for name in ["`--allow-no-schema MODE`", "allow_no_schema=MODE"] {
        assert!(fault.contains(name), "{fault}");
    }
}

#[test]
fn tool_without_schema_in_stated_mode_is_valid() {
    for (name, mode) in [
        ("read-only", NoSchemaMode::ReadOnly),
        ("human-approval", NoSchemaMode::HumanApproval),
        ("full", NoSchemaMode::Full),
    ] {
        let tool = one(json!({"name": "a", "allow_no_schema": true, "no_schema_mode": name}));
        assert_eq!((tool.no_schema_mode, &tool.parameters), (Some(mode), &None));
        let written = serde_json::to_value(&*tool).expect("a tool serialises");
        assert_eq!(
            (&written["allow_no_schema"], &written["no_schema_mode"]),
            (&json!(true), &json!(name))
        );
    }
    for entry in [
        json!({"name": "a", "allow_no_schema": false, "no_schema_mode": "full"}),
        json!({"name": "a", "no_schema_mode": "full"}),
    ] {
        assert!(one_fault(entry).starts_with(": `parameters` is missing"));
    }
    let unknown = faults(read(
        &json!([{"name": "a", "allow_no_schema": true, "no_schema_mode": "sometimes"}]),
    ));
    assert_eq!(unknown[0].pointer, "/no_schema_mode");
    assert!(
        unknown[0].remedy.contains("human-approval"),
        "{}",
        unknown[0].remedy
    );
}

#[test]
fn policy_field_in_capitals_is_rejected() {
    let capitals = read(&json!([{"name": "wipe_disk", "parameters": {}, "Safe": false}]));
    assert!(
        capitals.is_err(),
        "the tool counts as safe although its catalog says that it is not"
    );
}

#[test]
fn policy_field_misspelt_is_rejected() {
    for (wrong, right) in [
        ("alowed_roles", "allowed_roles"),
        ("allowedRole", "allowed_roles"),
        ("safee", "safe"),
        ("saef", "safe"),
        ("capabilites", "capabilities"),
        ("mode", "modes"),
        ("costs", "cost"),
        ("anotations", "annotations"),
    ] {
        let mut entry = json!({"name": "a", "parameters": {}});
        entry[wrong] = json!(null);
        let Err(error) = read(&json!([entry])) else {
            panic!("{wrong} goes unnoticed")
        };
        let error = error.to_string();
        assert!(
            error.contains(&format!("at /{wrong}: ")) && error.contains(&format!("{right:?}")),
            "{error}"
        );
    }
    let tool =
        one(json!({"name": "a", "parameters": {}, "x-owner": "Mira", "notes": "y", "version": 3}));
    assert_eq!(tool.name, "a", "fields of one's own are no slips");
}

#[test]
fn fields_in_camel_case_equal_snake_case() {
    let snake = one(json!({
        "name": "a", "allow_no_schema": true, "no_schema_mode": "read-only", "allowed_roles": ["admin"],
        "provider_schema": {"type": "object"}, "output_schema": {"type": "string"},
        "safety": {"threat_level": "high", "required_approvals": ["owner"]},
    }));
    let camel = one(json!({
        "name": "a", "allowNoSchema": true, "noSchemaMode": "read-only", "allowedRoles": ["admin"],
        "providerSchema": {"type": "object"}, "outputSchema": {"type": "string"},
        "safety": {"threatLevel": "high", "requiredApprovals": ["owner"]},
    }));
    assert_eq!(snake, camel);
    assert_eq!(camel.allowed_roles, set(&["admin"]));
    assert_eq!(
        camel.safety.as_ref().and_then(|safety| safety.threat_level),
        Some(ThreatLevel::High)
    );
}

#[test]
fn fields_of_wrong_type_are_rejected_by_pointer() {
    for (field, value, pointer) in [
        ("safe", json!("no"), "/safe"),
        ("allowed_roles", json!("admin"), "/allowed_roles"),
        ("cost", json!("cheap"), "/cost"),
        ("cost", json!(-1), "/cost"),
        ("aliases", json!([1]), "/aliases"),
        ("aliases", json!([""]), "/aliases/0"),
        ("safety", json!({"threat_level": "mild"}), "/safety"),
        (
            "annotations",
            json!({"destructiveHint": "yes"}),
            "/annotations",
        ),
        ("description", json!(["a"]), "/description"),
        ("name", json!(" "), "/name"),
        ("name", json!("a\u{0}b"), "/name"),
        ("output_schema", json!("string"), "/output_schema"),
        (
            "parameters",
            json!({"$ref": "file:///etc/passwd"}),
            "/parameters/$ref",
        ),
    ] {
        let mut entry = json!({"name": "a", "parameters": {}});
        entry[field] = value;
        let text = entry.to_string();
        let reported = faults(read(&json!([entry])));
        assert!(
            reported
                .iter()
                .any(|fault| fault.pointer.starts_with(pointer)),
            "{text}: {reported:?}"
        );
    }
}

/// Returns a schema with `levels` levels of JSON nesting.
fn nested(levels: usize) -> Value {
    let mut schema = json!({});
    for _ in 0..levels {
        schema = json!({"not": schema});
    }
    schema
}

#[test]
fn deeply_nested_schema_is_rejected() {
    let entry = |levels| json!({"name": "deep", "parameters": nested(levels)});
    assert_eq!(one(entry(MAX_SCHEMA_DEPTH)).name, "deep");
    for levels in [MAX_SCHEMA_DEPTH + 1, 100] {
        let fault = one_fault(entry(levels));
        assert!(
            fault.contains("nested deeper than 64 levels; flatten it"),
            "{levels}: {fault}"
        );
        let mut tool = Tool::without_arguments("deep", "");
        tool.parameters = Some(nested(levels));
        let fault = faults(Catalog::from_tools([tool])).remove(0);
        assert!(
            fault.message.contains("nested deeper than 64 levels"),
            "{levels}: {fault}"
        );
    }
    // A hundred nested objects exceed the limit of the parser.
    let mut properties = json!({"type": "string"});
    for _ in 0..100 {
        properties = json!({"type": "object", "properties": {"inner": properties}});
    }
    let deep = json!({"name": "deep", "parameters": properties});
    let error = read(&json!([deep]))
        .expect_err("it is nested too deep")
        .to_string();
    assert!(
        error.starts_with("here: line 1, column ") && error.contains("deeper than 128 levels"),
        "{error}"
    );
    let lines = format!("{}\n{deep}\n", json!({"name": "a", "parameters": {}}));
    let reported = faults(Catalog::from_slice(lines.as_bytes(), "here", None));
    assert_eq!(
        (reported.len(), reported[0].position.clone()),
        (1, Position::Line(2))
    );
    assert!(
        reported[0].message.contains("deeper than 128 levels"),
        "{}",
        reported[0]
    );
    let unclosed = "[".repeat(1_000_000);
    let error =
        Catalog::from_slice(unclosed.as_bytes(), "here", None).expect_err("it is nested too deep");
    assert!(
        matches!(error, CatalogError::Syntax { line: 1, .. }),
        "{error}"
    );
}

#[test]
fn byte_order_mark_is_ignored() {
    for path in ["formats/native.json", "formats/native.jsonl"] {
        let mut bytes = b"\xef\xbb\xbf".to_vec();
        bytes.extend(fs::read(fixture(path)).expect("the fixture is there"));
        let with_mark = Catalog::from_slice(&bytes, "here", None).expect("a mark is no fault");
        assert_eq!(with_mark.digest(), open(path).digest(), "{path}");
    }
}

#[test]
fn line_endings_and_blank_lines_are_tolerated() {
    let text = "{\"name\": \"a\", \"parameters\": {}}\r\n\r\n  \n{\"name\": \"b\"}\r\n";
    let reported = faults(Catalog::from_slice(text.as_bytes(), "here", None));
    assert_eq!(
        (reported.len(), reported[0].position.clone()),
        (1, Position::Line(4))
    );
}

#[test]
fn ambiguous_aliases_and_names_are_rejected() {
    let entry = |name: &str, source: &str, aliases: &[&str]| json!({"name": name, "source": source, "aliases": aliases, "parameters": {}});
    for (entries, message) in [
        (
            json!([entry("a", "s", &["x"]), entry("b", "t", &["x"])]),
            "Duplicate tool alias 'x', already claimed by \"s/a\"",
        ),
        (
            json!([entry("a", "s", &[]), entry("b", "t", &["a"])]),
            "Duplicate tool alias 'a', which is the name of \"s/a\"",
        ),
        (
            json!([entry("a", "s", &["b"]), entry("b", "t", &[])]),
            "Duplicate tool alias 'b', which is the name of \"t/b\"",
        ),
        (
            json!([entry("a", "s", &[]), entry("a", "s", &[])]),
            "Duplicate tool \"s/a\", first at entry 1",
        ),
    ] {
        let reported = faults(read(&entries));
        assert_eq!(reported.len(), 1, "{entries}");
        assert_eq!(reported[0].message, message);
    }
}

#[test]
fn digest_differs_only_for_changed_content() {
    let plain = open("formats/native.json");
    for same in ["native.jsonl", "native-object.json"] {
        assert_eq!(
            plain.digest(),
            open(&format!("formats/{same}")).digest(),
            "{same}"
        );
    }
    assert_eq!(plain.digest().len(), 64);
    let tools = || {
        plain
            .tools()
            .expect("readable")
            .iter()
            .map(|tool| Tool::clone(tool))
            .collect::<Vec<_>>()
    };
    assert_eq!(catalog(tools()).digest(), plain.digest());
    let change = |change: fn(&mut Vec<Tool>)| {
        let mut tools = tools();
        change(&mut tools);
        catalog(tools).digest().to_owned()
    };
    let changed = [
        change(|tools| tools[0].description.push('.')),
        change(|tools| tools[0].safe = Some(true)),
        change(|tools| tools[1].aliases.clear()),
        change(|tools| tools[1].allowed_roles = set(&["admin"])),
        change(|tools| tools[2].parameters = Some(json!({}))),
        change(|tools| tools[2].cost = Some(1.0)),
        change(|tools| tools.swap(0, 1)),
        change(|tools| drop(tools.pop())),
    ];
    for (index, digest) in changed.iter().enumerate() {
        assert_ne!(digest, plain.digest(), "change {index}");
        assert!(
            !changed[..index].contains(digest),
            "change {index} looks like another"
        );
    }
}

#[test]
fn changed_catalog_shares_unchanged_tools() {
    let old = open("formats/native.json");
    let new = old
        .with_tools([tool("samples", "extra", "")])
        .expect("there is not a conflict");
    assert_eq!(
        (old.len(), new.len()),
        (3, 4),
        "the old catalog stays as it is"
    );
    assert!(
        old.tools()
            .expect("readable")
            .iter()
            .zip(new.tools().expect("readable"))
            .all(|(a, b)| Arc::ptr_eq(a, b))
    );
    assert_eq!(new.find("samples/extra").map(|id| id.index()), Some(3));
    let filtered = new
        .filtered(|tool| tool.name != "convertUnits")
        .expect("readable");
    assert_eq!(filtered.len(), 3);
    assert!(Arc::ptr_eq(
        &filtered.tools().expect("readable")[1],
        &old.tools().expect("readable")[2]
    ));
    assert!(filtered.find("samples/convertUnits").is_none());
    assert_ne!(filtered.digest(), new.digest());
    let conflict = faults(old.with_tools([tool("samples", "get_forecast", "")]));
    assert_eq!(
        conflict[0].message,
        "Duplicate tool \"samples/get_forecast\", first at entry 1"
    );
}

#[test]
fn long_numbers_that_differ_in_one_digit_change_the_digest() {
    let digest = |default: &str, end: &str| {
        let text = format!(
            r#"{{"name": "pay", "description": "Pays.", "inputSchema": {{"type": "object", "properties": {{"amount": {{"default": {default}}}}}}}}}{end}"#
        );
        let catalog = Catalog::from_slice(text.as_bytes(), "pay.json", None);
        catalog.expect("the tool is valid").digest().to_owned()
    };
    for (number, other) in [
        (
            "1000000000000000000000000000000",
            "1000000000000000000000000000001",
        ),
        (
            "0.100000000000000000000000000001",
            "0.100000000000000000000000000002",
        ),
    ] {
        for end in [
            "",
            "\n{\"name\": \"end\", \"description\": \"Ends.\", \"inputSchema\": {}}",
        ] {
            assert_ne!(digest(number, end), digest(other, end), "{number}");
        }
    }
    let bound = br#"{"name": "pay", "description": "Pays.", "inputSchema": {"type": "object", "properties": {"amount": {"maximum": 1000000000000000000000000000001}}}}"#;
    let catalog = Catalog::from_slice(bound, "pay.json", None).expect("the tool is valid");
    let notice = &catalog.notices()[0];
    assert_eq!(notice.pointer, "/parameters/properties/amount/maximum");
}
