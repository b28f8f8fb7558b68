//! Translation of tools: every definition follows the provider's rules, and every call resolves and
//! validates.

mod rules;
mod samples;

use std::sync::Arc;

use picktools::names::Advertising;
use picktools::{Catalog, Tool};
use picktools_provider::{ChangeCode, Provider, TranslateError, TranslateOptions, translate};
use picktools_testing::{catalog, fixture, tool};
use proptest::prelude::*;
use serde_json::{Value, json};

const CATALOGS: [&str; 3] = ["workplace", "multilingual", "odd-schemas"];

fn open(name: &str) -> Catalog {
    Catalog::open(fixture("catalogs").join(name)).expect("the fixture catalog is valid")
}

fn with_strict(strict: bool) -> TranslateOptions {
    TranslateOptions {
        strict: Some(strict),
        ..TranslateOptions::default()
    }
}

/// Returns every provider with and without strict mode.
fn provider_modes() -> impl Iterator<Item = (Provider, bool)> {
    Provider::ALL
        .into_iter()
        .flat_map(|provider| [(provider, false), (provider, true)])
}

#[test]
fn every_definition_follows_its_provider_rules() {
    for (name, (provider, strict)) in CATALOGS
        .into_iter()
        .flat_map(|name| provider_modes().map(move |way| (name, way)))
    {
        let catalog = open(name);
        let translation = translate(
            catalog.tools().expect("readable"),
            provider,
            &with_strict(strict),
        )
        .expect("it can be translated");
        let faults = rules::faults(provider, &translation.tools);
        assert!(
            faults.is_empty(),
            "{name}, strict {strict}:\n{}",
            faults.join("\n")
        );
        assert_eq!(
            rules::definitions(provider, &translation.tools).len(),
            catalog.len()
        );
    }
}

#[test]
fn call_of_every_definition_resolves_and_validates() {
    for name in CATALOGS {
        let catalog = open(name);
        for (provider, strict) in provider_modes() {
            let translation = translate(
                catalog.tools().expect("readable"),
                provider,
                &with_strict(strict),
            )
            .expect("it can be translated");
            let mut strict_ones = 0;
            for (definition, tool) in rules::definitions(provider, &translation.tools)
                .into_iter()
                .zip(catalog.tools().expect("readable"))
            {
                strict_ones += usize::from(definition["strict"] == true);
                let shown_name = definition["name"].as_str().expect("it has a name");
                assert_eq!(translation.names[shown_name], tool.id);
                let Some(schema) = &tool.parameters else {
                    continue;
                };
                // Merged alternatives describe only in words which arguments belong together.
                let is_described_in_words = |change: &picktools_provider::Change| {
                    change.code == ChangeCode::AlternativesMerged
                        && change.tool.as_ref() == Some(&tool.id)
                };
                if translation.changes.iter().any(is_described_in_words) {
                    continue;
                }
                let sampled = samples::arguments(rules::schema_of(provider, definition));
                let mut arguments = sampled.clone();
                provider.restore_arguments(schema, &mut arguments);
                let validator = jsonschema::options()
                    .build(schema)
                    .expect("the catalog is valid");
                if let Err(error) = validator.validate(&arguments) {
                    panic!(
                        "{provider}, strict {strict}, {}: {error}\n{sampled}\n{arguments}\n{definition}",
                        tool.id
                    );
                }
            }
            assert_eq!(
                strict_ones > 0,
                strict && provider.has_strict(),
                "{name}, {provider}, strict {strict}"
            );
        }
    }
}

#[test]
fn lossy_view_changes_are_reported_with_pointers() {
    let catalog = open("odd-schemas");
    let change = |provider: Provider, tool: &str, code: ChangeCode| {
        let translation = translate(
            catalog.tools().expect("readable"),
            provider,
            &with_strict(true),
        )
        .expect("it can be translated");
        let change = translation
            .changes
            .into_iter()
            .find(|change| change.tool.as_deref() == Some(tool) && change.code == code);
        change
            .unwrap_or_else(|| panic!("{provider} does not say {code:?} of {tool}"))
            .pointer
    };
    for (provider, tool, code, pointer) in [
        (
            Provider::OpenAiChat,
            "odd/label_box",
            ChangeCode::NotStrict,
            "/parameters/properties/labels",
        ),
        (
            Provider::OpenAiChat,
            "odd/keep_anything",
            ChangeCode::NotStrict,
            "/parameters/properties/value",
        ),
        (
            Provider::OpenAiResponses,
            "odd/dig",
            ChangeCode::NotStrict,
            "",
        ),
        (
            Provider::OpenAiChat,
            "odd/pay",
            ChangeCode::AlternativesMerged,
            "/parameters/oneOf",
        ),
        (
            Provider::OpenAiChat,
            "disk/list.files.all",
            ChangeCode::NameQualified,
            "/name",
        ),
        (
            Provider::OpenAiChat,
            "odd/register",
            ChangeCode::KeywordDropped,
            "/parameters/properties/site/format",
        ),
        (
            Provider::OpenAiChat,
            "odd/plan_trip",
            ChangeCode::ObjectClosed,
            "/provider_schema",
        ),
        (
            Provider::OpenAiChat,
            "odd/book_table",
            ChangeCode::DescriptionShortened,
            "/description",
        ),
        (
            Provider::Anthropic,
            "odd/draw_chart",
            ChangeCode::NotStrict,
            "/parameters",
        ),
        (
            Provider::Anthropic,
            "odd/odata.query",
            ChangeCode::PropertyRenamed,
            "/parameters/properties/$top",
        ),
        (
            Provider::Gemini,
            "odd/add_branch",
            ChangeCode::ReferenceCut,
            "/parameters/properties/children/items",
        ),
        (
            Provider::Gemini,
            "odd/set_level",
            ChangeCode::ValuesAsText,
            "/parameters/properties/level",
        ),
        (
            Provider::Gemini,
            "odd/label_box",
            ChangeCode::JsonText,
            "/parameters/properties/labels",
        ),
        (
            Provider::Gemini,
            "odd/say",
            ChangeCode::DescriptionFilled,
            "/description",
        ),
        (
            Provider::Gemini,
            "odd/run_script",
            ChangeCode::StrictUnavailable,
            "/parameters",
        ),
        (
            Provider::Ollama,
            "odd/set_level",
            ChangeCode::ConstMadeEnum,
            "/parameters/properties/mode",
        ),
        (
            Provider::Mcp,
            "odd/stop_all",
            ChangeCode::StrictUnavailable,
            "/parameters",
        ),
    ] {
        let pointer_found = change(provider, tool, code);
        assert!(
            pointer_found.starts_with(pointer),
            "{provider}, {tool}, {code:?}: {pointer_found}"
        );
    }
}

#[test]
fn strictness_precedence_is_caller_tool_provider() {
    let tool = |strict: Option<bool>| {
        let mut tool = Tool::without_arguments("go", "");
        tool.strict = strict;
        Arc::new(tool)
    };
    let strict = |provider: Provider, asked: Option<bool>, own: Option<bool>| {
        let options = TranslateOptions {
            strict: asked,
            ..TranslateOptions::default()
        };
        let translation =
            translate(&[tool(own)], provider, &options).expect("it can be translated");
        rules::definitions(provider, &translation.tools)[0]["strict"].clone()
    };
    assert_eq!(strict(Provider::OpenAiChat, None, None), Value::Null);
    assert_eq!(strict(Provider::OpenAiChat, None, Some(true)), json!(true));
    assert_eq!(
        strict(Provider::OpenAiChat, Some(false), Some(true)),
        Value::Null
    );
    assert_eq!(strict(Provider::OpenAiResponses, None, None), json!(true));
    assert_eq!(
        strict(Provider::OpenAiResponses, None, Some(false)),
        json!(false)
    );
    assert_eq!(strict(Provider::Anthropic, Some(true), None), json!(true));
    assert_eq!(strict(Provider::Ollama, Some(true), None), Value::Null);
}

#[test]
fn compact_schema_is_shown_but_not_validated_against() {
    let catalog = open("odd-schemas");
    let trip: Vec<Arc<Tool>> = catalog
        .tools()
        .expect("readable")
        .iter()
        .filter(|tool| tool.name == "plan_trip")
        .cloned()
        .collect();
    let translation =
        translate(&trip, Provider::OpenAiChat, &with_strict(false)).expect("it can be translated");
    let shown_properties = &translation.tools[0]["function"]["parameters"]["properties"];
    assert_eq!(
        shown_properties
            .as_object()
            .expect("there are properties")
            .keys()
            .collect::<Vec<_>>(),
        ["from", "to"]
    );
}

#[test]
fn skill_names_are_shown_and_resolve_back() {
    let mut run = tool("", "terminalRun", "Runs a command.");
    run.source = None;
    run.id = "terminalRun".into();
    run.aliases = vec![picktools::catalog::Alias {
        name: "bash".into(),
        deprecated: false,
    }];
    let catalog = catalog([run]);
    let advertising = Advertising::PrimaryAlias;
    let options = TranslateOptions {
        advertising,
        ..TranslateOptions::default()
    };
    let translation = translate(
        catalog.tools().expect("readable"),
        Provider::OpenAiChat,
        &options,
    )
    .expect("it can be translated");
    assert_eq!(translation.tools[0]["function"]["name"], "bash");
    assert_eq!(translation.names["bash"], "terminalRun");
    let answer = json!({"choices": [{"message": {"tool_calls": [
        {"id": "1", "function": {"name": "bash", "arguments": "{\"command\": \"ls -la\"}"}}]}}]});
    let calls = Provider::OpenAiChat
        .calls(&answer)
        .expect("it is an answer");
    assert_eq!(translation.names[&calls[0].name], "terminalRun");
}

#[test]
fn definitions_are_deferred_if_the_provider_can_search() {
    let tools = [
        Arc::new(tool("s", "go", "Goes.")),
        Arc::new(tool("s", "tool_search", "Searches.")),
    ];
    let options = TranslateOptions {
        deferred: true,
        ..TranslateOptions::default()
    };
    let deferred = translate(&tools, Provider::Anthropic, &options)
        .expect("it can be deferred")
        .tools;
    let search = json!({"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"});
    assert_eq!(deferred[0], search);
    let go = json!({"name": "go", "description": "Goes.", "input_schema": {"type": "object", "properties": {}},
        "defer_loading": true});
    assert_eq!(deferred[1], go);
    let deferred = translate(&tools, Provider::OpenAiResponses, &options)
        .expect("it can be deferred")
        .tools;
    assert_eq!(deferred[0], json!({"type": "tool_search"}));
    assert_eq!(
        (&deferred[1]["defer_loading"], &deferred[2]["name"]),
        (&json!(true), &json!("s_tool_search"))
    );
    for provider in [
        Provider::OpenAiChat,
        Provider::Gemini,
        Provider::Ollama,
        Provider::Mcp,
    ] {
        let error = translate(&tools, provider, &options).expect_err("there is no such thing");
        assert_eq!(
            error,
            TranslateError::NoDeferredLoading {
                provider: provider.name()
            }
        );
    }
    let references = picktools_provider::tool_references(Provider::Anthropic, ["go"])
        .expect("Anthropic has them");
    assert_eq!(
        references,
        json!([{"type": "tool_reference", "tool_name": "go"}])
    );
    assert!(picktools_provider::tool_references(Provider::OpenAiResponses, ["go"]).is_err());
}

#[test]
fn excess_tools_are_kept_and_reported() {
    let tools: Vec<Arc<Tool>> = (0..129)
        .map(|number| Arc::new(tool("s", &format!("tool_{number}"), "Goes.")))
        .collect();
    let too_many = |provider: Provider, strict: bool| {
        let translation =
            translate(&tools, provider, &with_strict(strict)).expect("it can be translated");
        assert_eq!(rules::definitions(provider, &translation.tools).len(), 129);
        let changes = translation
            .changes
            .into_iter()
            .filter(|change| change.tool.is_none());
        changes.map(|change| change.detail).collect::<Vec<_>>()
    };
    assert_eq!(
        too_many(Provider::OpenAiChat, false),
        ["openai accepts at most 128 tools per request, but there are 129"]
    );
    assert_eq!(
        too_many(Provider::Anthropic, true),
        ["anthropic accepts at most 20 strict tools per request, but there are 129"]
    );
    assert!(too_many(Provider::Gemini, false).is_empty());
}

/// Generates schemas of every shape, including meaningless ones.
fn schemas() -> impl Strategy<Value = Value> {
    let kinds = prop::sample::select(vec![
        "string", "integer", "number", "boolean", "null", "array", "object",
    ]);
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        kinds.clone().prop_map(|kind| json!({"type": kind})),
        (kinds.clone(), kinds).prop_map(|(one, other)| json!({"type": [one, other]})),
        prop::collection::vec(
            prop_oneof![
                Just(json!(null)),
                Just(json!("")),
                Just(json!("a")),
                Just(json!(1)),
                Just(json!([]))
            ],
            0..3
        )
        .prop_map(|values| json!({"enum": values})),
        Just(json!({"const": {"a": 1}})),
        prop::sample::select(vec![
            "#",
            "#/$defs/a",
            "#/$defs/b",
            "#/properties/x",
            "#/nowhere",
            "#a%2",
            "other"
        ])
        .prop_map(|target| json!({"$ref": target, "description": "Beside."})),
        Just(json!({"type": "string", "minLength": 2, "format": "uri", "default": "x"})),
        Just(json!({})),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let names = prop::sample::select(vec!["x", "$y", "_y", "a b", "z"]);
        let properties = prop::collection::btree_map(names.clone(), inner.clone(), 0..4);
        let list = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            (
                properties,
                prop::collection::vec(names, 0..3),
                prop::option::of(inner.clone())
            )
                .prop_map(|(properties, required, more)| {
                    let mut schema =
                        json!({"type": "object", "properties": properties, "required": required});
                    if let Some(more) = more {
                        schema["additionalProperties"] = more;
                    }
                    schema
                }),
            (
                prop::sample::select(vec!["anyOf", "oneOf", "allOf"]),
                list.clone()
            )
                .prop_map(|(keyword, list)| json!({keyword: list, "type": "object"})),
            (
                prop::sample::select(vec!["anyOf", "oneOf", "allOf", "items", "prefixItems"]),
                list
            )
                .prop_map(|(keyword, list)| json!({keyword: list})),
            inner.clone().prop_map(
                |items| json!({"type": ["array", "null"], "items": items, "minItems": 1})
            ),
            inner.prop_map(|schema| json!({"not": schema, "if": {}, "then": {"type": "object"}})),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_is_translated_and_left_unchanged(root in schemas(), a in schemas(), b in schemas()) {
        let mut root = root;
        if let Value::Object(root) = &mut root {
            root.insert("$defs".to_owned(), json!({"a": a, "b": b}));
        }
        let mut odd = Tool::without_arguments("odd", "An odd one.");
        odd.parameters = Some(root);
        let tools = [Arc::new(odd)];
        let original = serde_json::to_vec(&tools).expect("a tool serialises");
        for (provider, strict) in provider_modes() {
            let translation = translate(&tools, provider, &with_strict(strict)).expect("it can be translated");
            // A schema that is passed on unchanged may keep its meaningless parts.
            let passed_on = matches!(provider, Provider::OpenAiChat | Provider::OpenAiResponses | Provider::Anthropic | Provider::Mcp);
            let is_strict = rules::definitions(provider, &translation.tools)[0]["strict"] == true;
            if is_strict || !passed_on {
                let faults = rules::faults(provider, &translation.tools);
                prop_assert!(faults.is_empty(), "{}", faults.join("\n"));
            }
        }
        prop_assert_eq!(serde_json::to_vec(&tools).expect("a tool serialises"), original);
    }
}
