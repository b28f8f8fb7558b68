//! Policies of a catalog: none is overlooked, whatever its spelling, place and format. A policy
//! that names a source also restricts sources with confusable names.

use picktools::catalog::{CatalogError, NoSchemaMode, Position};
use picktools::{Catalog, Tool};
use serde_json::{Value, json};

use crate::support::set;

fn parse(text: &str) -> Result<Catalog, CatalogError> {
    Catalog::from_slice(text.as_bytes(), "here", None)
}

/// Returns the pointers of the faults for which a catalog is rejected, with the positions.
fn places(text: &str) -> Vec<(Position, String)> {
    match parse(text) {
        Err(CatalogError::Invalid { faults, .. }) => faults
            .into_iter()
            .map(|fault| (fault.position, fault.pointer))
            .collect(),
        Err(other) => panic!("{text}: expected faults of entries, got {other}"),
        Ok(_) => panic!("{text}: it is accepted"),
    }
}

#[test]
fn duplicate_key_in_any_format_and_depth_is_rejected() {
    let good = r#"{"name": "b", "parameters": {}}"#;
    let twice = r#"{"name": "a", "parameters": {}, "safe": false, "safe": true}"#;
    for text in [
        format!("[{good}, {twice}]"),
        format!(r#"{{"tools": [{good}, {twice}]}}"#),
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"tools": [{good}, {twice}]}}}}"#),
    ] {
        assert_eq!(
            places(&text),
            [(Position::Entry(2), "/safe".to_owned())],
            "{text}"
        );
    }
    assert_eq!(
        places(&format!("{good}\n{twice}\n")),
        [(Position::Line(2), "/safe".to_owned())]
    );
    assert_eq!(places(twice), [(Position::Entry(1), "/safe".to_owned())]);
    for (entry, pointer) in [
        (
            r#"{"name": "a", "inputSchema": {}, "annotations": {"destructiveHint": true, "destructiveHint": false}}"#,
            "/annotations/destructiveHint",
        ),
        (
            r#"{"name": "a", "parameters": {}, "safety": {"threat_level": "high", "threat_level": "low"}}"#,
            "/safety/threat_level",
        ),
        (
            r#"{"type": "function", "function": {"name": "a", "safe": false, "safe": true}}"#,
            "/function/safe",
        ),
        (
            r#"{"name": "a", "input_schema": {"required": ["x"], "required": []}}"#,
            "/input_schema/required",
        ),
        (r#"{"name": "a", "name": "b", "parameters": {}}"#, "/name"),
    ] {
        assert_eq!(
            places(&format!("[{entry}]")),
            [(Position::Entry(1), pointer.to_owned())],
            "{entry}"
        );
    }
    let error = serde_json::from_str::<Tool>(twice)
        .expect_err("so is a tool by itself")
        .to_string();
    assert!(error.contains("/safe: duplicate key"), "{error}");
}

#[test]
fn duplicate_key_around_tools_is_rejected() {
    for (text, pointer) in [
        (r#"{"source": "a", "source": "b", "tools": []}"#, "/source"),
        (
            r#"{"tools": [], "tools": [{"name": "a", "parameters": {}}]}"#,
            "/tools",
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert!(
            matches!(&error, CatalogError::DuplicateKey { pointer: at, .. } if at == pointer),
            "{error}"
        );
    }
}

#[test]
fn two_spellings_of_policy_key_are_rejected() {
    for (entry, pointer) in [
        (
            json!({"name": "a", "parameters": {}, "allowed_roles": [], "allowedRoles": ["admin"]}),
            "/allowedRoles",
        ),
        (
            json!({"type": "function", "function": {"name": "a", "safe": true}, "safe": false}),
            "/safe",
        ),
    ] {
        assert_eq!(
            places(&json!([entry]).to_string()),
            [(Position::Entry(1), pointer.to_owned())]
        );
    }
}

#[test]
fn policy_lookalike_is_rejected_with_name_and_place() {
    let shapes = [
        ("", json!({"name": "a", "parameters": {}})),
        ("", json!({"name": "a", "inputSchema": {}})),
        ("", json!({"name": "a", "input_schema": {}})),
        ("", json!({"type": "function", "function": {"name": "a"}})),
        (
            "/function",
            json!({"type": "function", "function": {"name": "a"}}),
        ),
    ];
    for (within, shape) in shapes {
        for (path, right) in [
            ("/unsafe", "safe"),
            ("/is_safe", "safe"),
            ("/Safe", "safe"),
            ("/\u{455}afe", "safe"),
            ("/sa\u{200b}fe", "safe"),
            ("/destructive", "destructiveHint"),
            ("/destructiveHint", "destructiveHint"),
            ("/read-only", "readOnlyHint"),
            ("/roles", "allowed_roles"),
            ("/requiredRoles", "allowed_roles"),
            ("/allowed-roles", "allowed_roles"),
            ("/threatLevel", "threat_level"),
            ("/requires_approval", "required_approvals"),
            ("/trusted", "untrusted"),
            ("/execution_mode", "modes"),
            ("/annotations/destructive_hint", "destructiveHint"),
            ("/annotations/destructive", "destructiveHint"),
            ("/annotations/destructivHint", "destructiveHint"),
            ("/annotations/readonlyHint", "readOnlyHint"),
            ("/annotations/safe", "safe"),
            ("/annotations/allowedRoles", "allowed_roles"),
            ("/safety/Threat-Level", "threat_level"),
            ("/safety/approvals", "required_approvals"),
            ("/safety/destructive", "destructiveHint"),
        ] {
            let mut entry = shape.clone();
            let mut target = entry.pointer_mut(within).expect("it is there");
            for key in path.split('/').skip(1) {
                target = &mut target[key];
            }
            *target = json!(true);
            let error = parse(&json!([entry]).to_string())
                .expect_err(&format!("{entry}"))
                .to_string();
            let path = path.replace('\u{200b}', "<U+200B>");
            assert!(
                error.contains(&format!("at {within}{path}: ")),
                "{entry}: {error}"
            );
            assert!(
                error.contains(&format!("which resembles {right:?}")),
                "{entry}: {error}"
            );
        }
    }
}

#[test]
fn keys_without_policy_meaning_are_ignored() {
    let all_fields = json!({
        "x-owner": "Mira", "model": "m", "notes": "y", "version": 3, "category": "mail", "required": ["a"],
        "_meta": {"safe": false}, "icons": [], "label": 1, "defer_loading": true, "cache_control": {}, "permission": "none", "timeout": 3,
    });
    for mut entry in [
        json!({"name": "a", "parameters": {}}),
        json!({"name": "a", "inputSchema": {}, "annotations": {"title": "A", "audience": ["user"], "priority": 1}}),
        json!({"type": "function", "function": {"name": "a"}}),
    ] {
        for (key, value) in all_fields.as_object().expect("an object") {
            entry[key] = value.clone();
        }
        parse(&json!([entry]).to_string()).unwrap_or_else(|error| panic!("{entry}: {error}"));
    }
}

#[test]
fn policy_in_any_format_or_wrapper_applies() {
    let policy = json!({"safe": false, "allowed_roles": ["admin"], "modes": ["batch"], "cost": 2.0, "source": "bank",
        "untrusted": true, "annotations": {"destructiveHint": true}, "capabilities": ["streaming"],
        "safety": {"threat_level": "high"}});
    let with = |mut entry: Value, within: &str| {
        let target = entry
            .pointer_mut(within)
            .and_then(Value::as_object_mut)
            .expect("an object");
        target.extend(policy.as_object().expect("an object").clone());
        entry
    };
    let tool = |entry: Value| {
        let catalog =
            parse(&json!([entry]).to_string()).unwrap_or_else(|error| panic!("{entry}: {error}"));
        Tool::clone(&catalog.tools().expect("readable")[0])
    };
    let native = tool(with(json!({"name": "pay", "parameters": {}}), ""));
    assert!(native.is_unsafe() && native.untrusted && native.allowed_roles == set(&["admin"]));
    for (within, entry) in [
        ("", json!({"name": "pay", "inputSchema": {}})),
        ("", json!({"name": "pay", "input_schema": {}})),
        (
            "",
            json!({"type": "function", "name": "pay", "parameters": {}}),
        ),
        (
            "",
            json!({"type": "function", "function": {"name": "pay", "parameters": {}}}),
        ),
        (
            "/function",
            json!({"type": "function", "function": {"name": "pay", "parameters": {}}}),
        ),
    ] {
        assert_eq!(
            tool(with(entry.clone(), within)),
            native,
            "{entry} in {within:?}"
        );
    }
}

#[test]
fn fields_in_any_format_or_wrapper_apply() {
    let fields = json!({"id": "p1", "title": "Pay", "description": "Pays", "tags": ["money"], "strict": true,
        "aliases": ["settle", {"name": "remit", "deprecated": true}], "requires": ["log_in"],
        "provider_schema": {"type": "object"}, "outputSchema": {"type": "object"}, "source": "bank"});
    let with = |mut entry: Value, within: &str| {
        let target = entry
            .pointer_mut(within)
            .and_then(Value::as_object_mut)
            .expect("an object");
        target.extend(fields.as_object().expect("an object").clone());
        entry
    };
    let tool = |entry: &Value| {
        let catalog =
            parse(&json!([entry]).to_string()).unwrap_or_else(|error| panic!("{entry}: {error}"));
        Tool::clone(&catalog.tools().expect("readable")[0])
    };
    let native = tool(&with(json!({"name": "pay", "parameters": {}}), ""));
    assert_eq!(
        (
            native.id.as_str(),
            native.aliases.len(),
            native.requires.len()
        ),
        ("p1", 2, 1)
    );
    for (within, entry) in [
        ("", json!({"name": "pay", "inputSchema": {}})),
        ("", json!({"name": "pay", "input_schema": {}})),
        (
            "",
            json!({"type": "function", "name": "pay", "parameters": {}}),
        ),
        ("", json!({"type": "function", "name": "pay"})),
        (
            "",
            json!({"type": "function", "function": {"name": "pay"}, "parameters": {}}),
        ),
        (
            "",
            json!({"type": "function", "function": {"name": "pay", "parameters": {}}}),
        ),
        (
            "/function",
            json!({"type": "function", "function": {"name": "pay", "parameters": {}}}),
        ),
        (
            "/functionDeclarations/0",
            json!({"functionDeclarations": [{"name": "pay"}]}),
        ),
    ] {
        assert_eq!(
            tool(&with(entry.clone(), within)),
            native,
            "{entry} in {within:?}"
        );
    }
    let declaration = json!({"name": "pay", "response": {"type": "OBJECT"}});
    assert_eq!(
        tool(&json!({"functionDeclarations": [declaration]})).output_schema,
        Some(json!({"type": "object"}))
    );
}

#[test]
fn tool_without_schema_in_any_format_is_recognised() {
    let mode = json!({"allowNoSchema": true, "noSchemaMode": "human-approval"});
    for (within, entry) in [
        ("", json!({"name": "pay"})),
        ("", json!({"type": "function", "name": "pay"})),
        ("", json!({"type": "function", "function": {"name": "pay"}})),
        (
            "/function",
            json!({"type": "function", "function": {"name": "pay"}}),
        ),
        (
            "/functionDeclarations/0",
            json!({"functionDeclarations": [{"name": "pay"}]}),
        ),
    ] {
        let with = |members: &Value| {
            let mut entry = entry.clone();
            let target = entry
                .pointer_mut(within)
                .and_then(Value::as_object_mut)
                .expect("an object");
            target.extend(members.as_object().expect("an object").clone());
            json!([entry]).to_string()
        };
        let catalog = parse(&with(&mode)).unwrap_or_else(|error| panic!("{entry}: {error}"));
        let tool = &catalog.tools().expect("readable")[0];
        assert_eq!(
            (&tool.parameters, tool.no_schema_mode),
            (&None, Some(NoSchemaMode::HumanApproval)),
            "{entry}"
        );
        // Half a permission does not count, and neither does a schema without arguments.
        let error = parse(&with(&json!({"allow_no_schema": true})))
            .expect_err("it has no mode")
            .to_string();
        assert!(
            error.contains("`parameters` is missing"),
            "{entry}: {error}"
        );
    }
}

#[test]
fn contradicting_values_of_field_are_rejected() {
    let wrapped = |beside: Value| {
        let mut entry =
            json!({"type": "function", "function": {"name": "a", "parameters": {}, "tags": ["x"]}});
        entry
            .as_object_mut()
            .expect("an object")
            .extend(beside.as_object().expect("an object").clone());
        entry
    };
    let pointer = |entry: &Value| {
        let rejected_places = places(&json!([entry]).to_string());
        assert_eq!(rejected_places.len(), 1, "{entry}: {rejected_places:?}");
        rejected_places[0].1.clone()
    };
    for (entry, expected) in [
        (wrapped(json!({"name": "b"})), "/name"),
        (
            wrapped(json!({"parameters": {"type": "object"}})),
            "/parameters",
        ),
        (
            wrapped(json!({"inputSchema": {"type": "object"}})),
            "/inputSchema",
        ),
        (wrapped(json!({"tags": ["y"]})), "/tags"),
        (
            json!({"name": "a", "inputSchema": {}, "input_schema": {"type": "object"}}),
            "/inputSchema",
        ),
        (
            json!({"name": "a", "parameters": {}, "input_schema": {"type": "object"}}),
            "/input_schema",
        ),
        (
            json!({"name": "a", "parameters": {}, "outputSchema": {}, "output_schema": {"type": "object"}}),
            "/outputSchema",
        ),
    ] {
        assert_eq!(pointer(&entry), expected, "{entry}");
    }
    for same in [
        json!({"name": "a", "tags": ["x"]}),
        json!({"parameters": {}}),
        json!({"parameters": null}),
    ] {
        parse(&json!([wrapped(same.clone())]).to_string())
            .unwrap_or_else(|error| panic!("{same}: {error}"));
    }
}

#[test]
fn policy_next_to_tool_list_is_rejected() {
    for text in [
        r#"{"tools": [{"name": "a", "parameters": {}}], "untrusted": true}"#,
        r#"{"result": {"tools": [{"name": "a", "inputSchema": {}}], "untrusted": true}}"#,
        r#"[{"tools": [{"name": "a", "inputSchema": {}}], "untrusted": true}]"#,
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(
            error.contains("untrusted") && error.contains("move it into each tool"),
            "{text}: {error}"
        );
    }
    let body = r#"{"model": "m", "messages": [], "metadata": {"safe": "no"}, "tools": [{"name": "a", "parameters": {}}]}"#;
    parse(body).expect("a request is a catalog too");
}

#[test]
fn capabilities_may_be_boolean_flags() {
    let parse = |capabilities: Value| {
        let entries = json!([{"name": "a", "parameters": {}, "capabilities": capabilities}]);
        Catalog::from_slice(entries.to_string().as_bytes(), "here", None)
    };
    let catalog = parse(json!({"streaming": true, "paging": false})).expect("they are flags");
    assert_eq!(
        catalog.tools().expect("readable")[0].capabilities,
        ["streaming".to_owned()].into()
    );
    let error = parse(json!({"streaming": "yes"}))
        .expect_err("it says neither")
        .to_string();
    assert!(
        error.contains("/capabilities/streaming: the capability is a string, not true or false"),
        "{error}"
    );
}
