//! Tool calls of models: name resolution, limits, validation, repair, and errors that explain the
//! correct call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use picktools::catalog::{CatalogError, NoSchemaMode};
use picktools::names::ResolvedVia;
use picktools::{Catalog, Tool};
use picktools_call::{
    ApprovalError, ApprovalQueue, CallError, FaultyCall, HydratedCall, Hydrator,
    MAX_ARGUMENT_BYTES, Repair, RepairError, RepairFuture, Repairer,
};
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, translate};
use picktools_testing::{catalog, tool, workplace};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{hydrator_of, ready};

/// Parses native catalog entries.
fn parse_catalog(entries: &Value) -> Result<Catalog, CatalogError> {
    Catalog::from_slice(entries.to_string().as_bytes(), "here", None)
}

fn hydrator(entries: &Value) -> Hydrator {
    hydrator_of(parse_catalog(entries).expect("the entries are valid"))
}

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: Some("1".to_owned()),
        name: name.to_owned(),
        arguments: Arguments::Text(arguments.to_owned()),
    }
}

fn expect_error(hydrated: Result<HydratedCall, CallError>) -> CallError {
    hydrated.expect_err("it may not be run")
}

fn temperature() -> Value {
    json!([{"name": "get_temperature", "description": "Get the current temperature for a city", "parameters": {
    "type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "The name of the city"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "near": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        "options": {"anyOf": [{"type": "object", "properties": {"days": {"type": "integer"}}}, {"type": "null"}]},
    }}}])
}

fn terminal() -> Value {
    let file =
        json!({"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}});
    json!([
        {"name": "terminalRun", "aliases": ["bash", "shell", "run"], "parameters": {"type": "object",
            "required": ["command"], "properties": {"command": {"type": "string"}}}},
        {"name": "terminalCd", "aliases": ["cd", {"name": "chdir", "deprecated": true}], "parameters": file},
        {"name": "terminalReadFile", "aliases": ["read_file", "cat"], "parameters": file},
    ])
}

#[test]
fn parse_validate_instantiate() {
    #[derive(Deserialize, PartialEq, Debug)]
    struct GetTemperature {
        city: String,
    }
    let valid =
        ready(hydrator(&temperature()).hydrate(&call("get_temperature", "{\"city\": \"Lugano\"}")));
    assert_eq!(
        valid.arguments_as::<GetTemperature>().expect("it fits"),
        GetTemperature {
            city: "Lugano".to_owned()
        }
    );
    assert!(valid.validated() && valid.repaired().is_empty() && valid.no_schema_mode().is_none());
    assert_eq!(
        (valid.id(), valid.tool().name.as_str()),
        (Some("1"), "get_temperature")
    );
    #[derive(Deserialize, Debug)]
    struct Wrong {
        #[expect(dead_code, reason = "it is never read")]
        city: u8,
    }
    let error = valid
        .arguments_as::<Wrong>()
        .expect_err("the program expects something else");
    assert!(
        matches!(&error, CallError::Typed { tool, pointer, .. }
            if tool == "get_temperature" && pointer == "/city"),
        "{error}"
    );
}

#[test]
fn arguments_as_a_type_name_the_property_that_differs() {
    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Step {
        Walk { meters: u32 },
        Wait(u8),
    }
    #[derive(Deserialize, Debug)]
    struct Route {
        steps: Vec<Step>,
    }
    let catalog = json!([{"name": "plan", "parameters": {"type": "object",
        "properties": {"steps": {"type": "array"}}}}]);
    let hydrator = hydrator(&catalog);
    let read_steps = |steps: Value| {
        let text = json!({"steps": steps}).to_string();
        let valid = ready(hydrator.hydrate(&call("plan", &text)));
        valid.arguments_as::<Route>()
    };
    for (steps, pointer) in [
        (json!([{"walk": {"meters": "far"}}]), "/steps/0/walk/meters"),
        (json!([{"wait": 1}, {"wait": 300}]), "/steps/1/wait"),
        (json!([{"wait": 1}, {"walk": {}}]), "/steps/1/walk"),
        (json!([{"walk": {"meters": 2.5}}]), "/steps/0/walk/meters"),
    ] {
        match read_steps(steps.clone()) {
            Err(CallError::Typed { pointer: named, .. }) => assert_eq!(named, pointer, "{steps}"),
            other => panic!("{steps}: {other:?}"),
        }
    }
    // JSON Schema takes 2.0 for an integer.
    let route = read_steps(json!([{"walk": {"meters": 2.0}}, {"wait": 3.0}]));
    let steps = route.expect("both numbers are whole").steps;
    assert_eq!(steps, [Step::Walk { meters: 2 }, Step::Wait(3)]);
}

#[test]
fn tool_names_resolve_by_alias_and_other_spellings() {
    let hydrator = hydrator(&terminal());
    for (name, tool, via) in [
        ("terminalRun", "terminalRun", ResolvedVia::Name),
        ("bash", "terminalRun", ResolvedVia::Alias),
        ("shell", "terminalRun", ResolvedVia::Alias),
        ("Bash", "terminalRun", ResolvedVia::Normalised),
    ] {
        let valid = ready(hydrator.hydrate(&call(name, "{\"command\": \"ls -la\"}")));
        assert_eq!(
            (valid.tool().name.as_str(), valid.resolved_via()),
            (tool, via),
            "{name}"
        );
        assert_eq!(
            (
                valid.names().requested.as_str(),
                valid.names().canonical.as_str()
            ),
            (name, tool)
        );
    }
    assert!(ready(hydrator.hydrate(&call("chdir", "{\"path\": \"/\"}"))).deprecated());
}

#[test]
fn tool_name_with_invisible_characters_is_refused() {
    let hydrator = hydrator(&temperature());
    for hidden in [
        '\u{200b}',
        '\u{ad}',
        '\u{202e}',
        '\u{2800}',
        '\u{e0041}',
        '\u{fe0f}',
        '\u{7}',
    ] {
        for name in [
            format!("get{hidden}_temperature"),
            format!("get_temperature{hidden}"),
        ] {
            let error =
                expect_error(hydrator.hydrate(&call(&name, "{\"city\": \"Lugano\"}"))).to_string();
            assert!(
                error.contains(&format!("U+{:04X}", u32::from(hidden))),
                "{error}"
            );
            assert!(!error.contains(hidden), "{error}");
        }
    }
    for name in ["get temperature", " getTemperature\n"] {
        ready(hydrator.hydrate(&call(name, "{\"city\": \"Lugano\"}")));
    }
    // The exact name of a tool still works.
    let heart = r#"[{"name": "send_\u2764\ufe0f", "parameters": {}}]"#;
    let heart = hydrator_of(
        Catalog::from_slice(heart.as_bytes(), "here", None).expect("the name can be seen"),
    );
    ready(heart.hydrate(&call("send_\u{2764}\u{fe0f}", "{}")));
}

#[test]
fn unknown_tool_error_suggests_similar_names() {
    let error = expect_error(hydrator(&terminal()).hydrate(&call("terminalReadFlie", "{}")));
    assert!(
        matches!(&error, CallError::UnknownTool { suggestions, .. } if suggestions[0] == "terminalReadFile")
    );
    assert!(
        error
            .to_string()
            .starts_with("Unknown tool: terminalReadFlie; did you mean terminalReadFile"),
        "{error}"
    );
    let error =
        expect_error(hydrator(&terminal()).hydrate(&call(&"x\u{1b}[31m".repeat(10_000), "{}")));
    assert!(
        error.to_string().len() < 1000 && !error.to_string().contains('\u{1b}'),
        "{error}"
    );
}

#[test]
fn ambiguous_tool_name_error_lists_the_candidates() {
    let hydrator = hydrator_of(catalog([tool("a", "search", ""), tool("b", "search", "")]));
    let error = expect_error(hydrator.hydrate(&call("search", "{}")));
    assert!(error.to_string().contains("a/search, b/search"), "{error}");
    ready(hydrator.hydrate(&call("b/search", "{}")));
}

#[test]
fn invalid_arguments_error_has_pointers_and_example() {
    let error = expect_error(
        hydrator(&temperature()).hydrate(&call("get_temperature", "{\"unit\": \"kelvin\"}")),
    );
    let text = error.to_string();
    for part in [
        "the member \"city\", which is required",
        "/unit: expected one of \"celsius\", \"fahrenheit\", received \"kelvin\"",
        "example of correct arguments: {\"city\":\"text\"}",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let as_json = serde_json::to_value(&error).expect("it serialises");
    assert_eq!(as_json["code"], "invalid");
    assert_eq!(as_json["faults"][0]["pointer"], "");
    assert_eq!(as_json["example"], json!({"city": "text"}));
}

#[test]
fn examples_in_errors_are_valid_arguments() {
    let workplace = workplace();
    let hydrator = hydrator_of(workplace.clone());
    let mut examples = 0;
    for tool in workplace.tools().expect("readable") {
        let Err(CallError::Invalid { example, .. }) =
            hydrator.hydrate(&call(&tool.id, "{\"zz\": 1, \"path\": []}"))
        else {
            continue;
        };
        let example = example.unwrap_or_else(|| panic!("{} has an example", tool.id));
        let hydrated = hydrator
            .hydrate(&call(&tool.id, &example.to_string()))
            .expect("the example fits");
        if let HydratedCall::Ready(valid) = hydrated {
            assert!(valid.repaired().is_empty(), "{}: {example}", tool.id);
        }
        examples += 1;
    }
    assert!(examples > 100, "{examples}");
}

#[test]
fn nearly_valid_json_is_repaired_and_reported() {
    let hydrator = hydrator(&temperature());
    let valid =
        ready(hydrator.hydrate(&call("get_temperature", "```json\n{'city': 'Bern',}\n```")));
    assert_eq!(valid.arguments(), &json!({"city": "Bern"}));
    let [Repair::Syntax { changes }] = valid.repaired() else {
        panic!("{:?}", valid.repaired())
    };
    assert_eq!(changes.len(), 3, "{changes:?}");

    let nested =
        json!({"city": "Bern", "near": "[{\"name\": \"Thun\"}]", "options": "{\"days\": 2}"});
    let valid = ready(hydrator.hydrate(&call("get_temperature", &nested.to_string())));
    assert_eq!(
        valid.arguments(),
        &json!({"city": "Bern", "near": [{"name": "Thun"}], "options": {"days": 2}})
    );
    let pointers = ["/near", "/options"].map(|pointer| Repair::Decoded {
        pointer: pointer.to_owned(),
    });
    assert_eq!(valid.repaired(), pointers);

    let nested_text = json!("{\"city\": \"Bern\"}").to_string();
    let valid = ready(hydrator.hydrate(&call("get_temperature", &nested_text)));
    assert_eq!(valid.arguments(), &json!({"city": "Bern"}), "text in text");
    let twice = json!({"city": "Bern", "near": "[\"{\\\"name\\\": \\\"Thun\\\"}\"]"});
    let valid = ready(hydrator.hydrate(&call("get_temperature", &twice.to_string())));
    assert_eq!(
        valid.arguments()["near"],
        json!([{"name": "Thun"}]),
        "text in text in text"
    );
}

#[test]
fn scalars_of_another_type_are_converted_and_reported() {
    for is_unsafe in [false, true] {
        let entries = json!([{"name": "wait", "safe": !is_unsafe, "parameters": {
            "type": "object", "additionalProperties": false, "required": ["seconds"],
            "properties": {
                "seconds": {"type": "number", "minimum": 0},
                "depth": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "full": {"type": "boolean"},
                "label": {"type": "string"},
                "kind": {"$ref": "#/$defs/kind"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "ids": {"type": "array", "items": {"type": "integer"}},
                "either": {"type": ["integer", "boolean"]}
            },
            "$defs": {"kind": {"type": "string", "enum": ["load", "idle"]}}}}]);
        let hydrator = hydrator(&entries);
        let hydrate = |arguments: &Value| hydrator.hydrate(&call("wait", &arguments.to_string()));
        for (sent, expected) in [
            (json!({"seconds": "5"}), json!({"seconds": 5})),
            (json!({"seconds": "2.5"}), json!({"seconds": 2.5})),
            (
                json!({"seconds": 5, "depth": "3"}),
                json!({"seconds": 5, "depth": 3}),
            ),
            (
                json!({"seconds": 5, "full": "true"}),
                json!({"seconds": 5, "full": true}),
            ),
            (
                json!({"seconds": 5, "full": "False"}),
                json!({"seconds": 5, "full": false}),
            ),
            (
                json!({"seconds": 5, "label": 1.000_001}),
                json!({"seconds": 5, "label": "1.000001"}),
            ),
            (
                json!({"seconds": 5, "label": true}),
                json!({"seconds": 5, "label": "true"}),
            ),
            (
                json!({"seconds": 5, "kind": "Idle"}),
                json!({"seconds": 5, "kind": "idle"}),
            ),
            (
                json!({"seconds": 5, "tags": "red"}),
                json!({"seconds": 5, "tags": ["red"]}),
            ),
            (
                json!({"seconds": "5", "ids": ["1", "2"]}),
                json!({"seconds": 5, "ids": [1, 2]}),
            ),
            (
                json!({"seconds": 5, "either": "7"}),
                json!({"seconds": 5, "either": 7}),
            ),
        ] {
            let valid = ready(hydrate(&sent));
            assert_eq!(valid.arguments(), &expected, "{sent}");
            let is_conversion = |repair: &Repair| matches!(repair, Repair::Converted { .. });
            assert!(valid.repaired().iter().all(is_conversion), "{sent}");
            assert!(!valid.repaired().is_empty(), "{sent}");
        }
        for refused in [
            json!({"seconds": "five"}),
            json!({"seconds": "5 s"}),
            json!({"seconds": ""}),
            json!({"seconds": "-1"}),
            json!({"seconds": "0x5"}),
            json!({"seconds": 5, "depth": "3.5"}),
            json!({"seconds": 5, "full": "yes"}),
            json!({"seconds": "1000000000000000000000000000001"}),
            json!({"seconds": 5, "kind": "busy"}),
            json!({"seconds": 5, "ids": ["1", "x"]}),
            json!({"seconds": "5", "extra": 1}),
        ] {
            hydrate(&refused).expect_err(&refused.to_string());
        }
    }
    let repair = Repair::Converted {
        pointer: "/seconds".to_owned(),
        from: json!("5"),
        to: json!(5),
    };
    assert_eq!(repair.to_string(), "repaired: /seconds: \"5\" became 5");
}

#[test]
fn truncated_text_and_json_in_prose_are_refused() {
    let entries = json!([{"name": "pay", "parameters": {"type": "object", "properties": {
        "to": {"type": "string"}, "amount": {"type": "integer"}, "tags": {"type": "array"}, "now": {"type": "boolean"}}}}]);
    let hydrator = hydrator(&entries);
    for text in [
        r#"{"to": "bob", "amount": 15"#,
        r#"{"to": "bob", "amount": 15,"#,
        r#"{"to": "bob", "now": true"#,
        r#"{"to": "bob", "tags": ["a", "b""#,
        r#"{"to": "bob", "tags": ["a", "b"]"#,
        r#"{"to": "bob""#,
        r#"{"to": "bo"#,
        "{",
        "```json\n{'to': 'bob', 'amount': 15\n```",
        r#"Do not run: {"to": "bob", "amount": 15}"#,
        r#"{"to": "bob", "amount": 15} is what I must not do"#,
    ] {
        let error = hydrator.hydrate(&call("pay", text)).expect_err(text);
        assert!(
            matches!(error, CallError::Malformed { .. }),
            "{text}: {error}"
        );
    }
    ready(hydrator.hydrate(&call("pay", "```json\n{'to': 'bob', 'tags': ['a'}\n```")));
}

#[test]
fn json_text_stays_text_if_the_schema_allows_text() {
    let hydrator = hydrator(&temperature());
    let valid = ready(hydrator.hydrate(&call("get_temperature", "{\"city\": \"{\\\"a\\\": 1}\"}")));
    assert_eq!(
        valid.arguments(),
        &json!({"city": "{\"a\": 1}"}),
        "a city may be called so"
    );
    let error = expect_error(hydrator.hydrate(&call(
        "get_temperature",
        "{\"city\": \"Bern\", \"near\": \"[1]\"}",
    )));
    let CallError::Invalid { faults, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (faults[0].pointer.as_str(), faults[0].received.as_str()),
        ("/near", "\"[1]\""),
        "told as it came"
    );
}

#[test]
fn unsafe_tools_get_normalised_but_never_repaired_arguments() {
    let mut entries = temperature();
    entries[0]["safe"] = json!(false);
    let hydrator = hydrator(&entries);
    for broken in [
        "{'city': 'Bern'}",
        "```json\n{\"city\": \"Bern\"}\n```",
        "{\"city\": \"Bern\"}}",
        "{\"city\": \"Bern\"}</tool_call>",
        "{}{\"city\": \"Bern\"}",
    ] {
        expect_error(hydrator.hydrate(&call("get_temperature", broken)));
    }
    for (normalised, expected) in [
        ("{\"city\": \"Bern\"}", json!({"city": "Bern"})),
        (
            "{\"city\": \"Bern\", \"near\": \"[]\"}",
            json!({"city": "Bern", "near": []}),
        ),
        ("\"{\\\"city\\\": \\\"Bern\\\"}\"", json!({"city": "Bern"})),
        (
            "{\"arguments\": {\"City\": \"Bern\"}}",
            json!({"city": "Bern"}),
        ),
    ] {
        let valid = ready(hydrator.hydrate(&call("get_temperature", normalised)));
        assert_eq!(valid.arguments(), &expected, "{normalised}");
    }
}

/// A repairer that returns a fixed answer and counts its calls.
struct Answering(&'static str, AtomicUsize);

impl Repairer for Answering {
    fn name(&self) -> &str {
        "answering"
    }

    fn repair<'a>(&'a self, request: FaultyCall<'a>) -> RepairFuture<'a> {
        self.1.fetch_add(1, Ordering::Relaxed);
        assert!(
            !request.tool.is_unsafe()
                && !request.problem.to_string().is_empty()
                && !request.arguments.is_empty()
        );
        Box::pin(async move {
            if self.0.is_empty() {
                Err(RepairError {
                    reason: "it is asleep".to_owned(),
                })
            } else {
                Ok(self.0.to_owned())
            }
        })
    }
}

#[tokio::test]
async fn repairer_is_called_once_and_its_answer_validated() {
    let hydrator = hydrator(&temperature());
    let wrong = call("get_temperature", "{\"town\": \"Bern\"}");
    let good = Answering("{\"city\": \"Bern\"}", AtomicUsize::new(0));
    let valid = ready(hydrator.hydrate_with(&wrong, &good).await);
    assert_eq!(valid.arguments(), &json!({"city": "Bern"}));
    let [Repair::Rewritten { by, changes }] = valid.repaired() else {
        panic!("one repair: {:?}", valid.repaired())
    };
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        (by.as_str(), changes.join("; ").as_str()),
        (
            "answering",
            "/town removed (was \"Bern\"); /city added: \"Bern\""
        )
    );
    assert_eq!(good.1.load(Ordering::Relaxed), 1);
    ready(
        hydrator
            .hydrate_with(&call("get_temperature", "{\"city\": \"Bern\"}"), &good)
            .await,
    );
    assert_eq!(
        good.1.load(Ordering::Relaxed),
        1,
        "what fits needs no repair"
    );

    for (answer, part) in [
        ("{\"town\": 1}", "do not match its schema"),
        ("", "it is asleep"),
        ("no", "cannot be read"),
    ] {
        let bad = Answering(answer, AtomicUsize::new(0));
        let error = expect_error(hydrator.hydrate_with(&wrong, &bad).await);
        assert!(
            matches!(&error, CallError::Invalid { failed_repair: Some(reason), .. } if reason.contains(part)),
            "{error}"
        );
        assert_eq!(bad.1.load(Ordering::Relaxed), 1, "one attempt");
    }
    expect_error(
        hydrator
            .hydrate_with(&call("no_such_tool", "{}"), &good)
            .await,
    );
    assert_eq!(good.1.load(Ordering::Relaxed), 1, "a name is not repaired");
}

#[tokio::test]
async fn repairer_is_never_called_for_unsafe_tools() {
    let mut entries = temperature();
    entries[0]["annotations"] = json!({"destructiveHint": true});
    let repairer = Answering("{\"city\": \"Bern\"}", AtomicUsize::new(0));
    expect_error(
        hydrator(&entries)
            .hydrate_with(&call("get_temperature", "{}"), &repairer)
            .await,
    );
    assert_eq!(repairer.1.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn repairer_is_never_called_without_a_schema() {
    let repairer = Answering("{\"city\": \"Bern\"}", AtomicUsize::new(0));
    let entries = json!([{"name": "legacy", "allow_no_schema": true, "no_schema_mode": "full"}]);
    expect_error(
        hydrator(&entries)
            .hydrate_with(&call("legacy", "city = Bern"), &repairer)
            .await,
    );
    assert_eq!(repairer.1.load(Ordering::Relaxed), 0);
}

#[test]
fn tool_without_schema_needs_an_opt_in() {
    let error = parse_catalog(&json!([{"name": "legacy"}]))
        .expect_err("it has no schema")
        .to_string();
    assert!(
        error.contains("`parameters` is missing") && error.contains("allow_no_schema"),
        "{error}"
    );
    let error = parse_catalog(&json!([{"name": "legacy", "allow_no_schema": true}]))
        .expect_err("it has no mode")
        .to_string();
    assert!(error.contains("no_schema_mode"), "{error}");
    let mut tool = Tool::without_arguments("legacy", "");
    tool.parameters = None;
    Catalog::from_tools([tool]).expect_err("nor in memory");
}

#[test]
fn calls_without_schema_are_flagged_and_follow_the_mode() {
    let entry = |mode: &str, hints: Value| {
        let entry = json!([{"name": "legacy", "allow_no_schema": true, "no_schema_mode": mode, "annotations": hints}]);
        hydrator(&entry).hydrate(&call("legacy", "{\"any\": [1]}"))
    };
    let valid = ready(entry("full", json!({})));
    assert_eq!(
        (valid.validated(), valid.no_schema_mode()),
        (false, Some(NoSchemaMode::Full))
    );
    let audit = serde_json::to_value(&valid).expect("it serialises");
    assert_eq!(
        (&audit["validated"], &audit["no_schema_mode"]),
        (&json!(false), &json!("full"))
    );
    assert!(!ready(entry("read-only", json!({"readOnlyHint": true}))).validated());
    for hints in [
        json!({"readOnlyHint": false}),
        json!({"destructiveHint": true}),
    ] {
        assert!(matches!(
            expect_error(entry("read-only", hints)),
            CallError::NotReadOnly { .. }
        ));
    }
    assert!(matches!(
        entry("human-approval", json!({})),
        Ok(HydratedCall::NeedsApproval(_))
    ));
    let no_object =
        hydrator(&json!([{"name": "x", "allow_no_schema": true, "no_schema_mode": "full"}]));
    assert!(
        expect_error(no_object.hydrate(&call("x", "[1]")))
            .to_string()
            .contains("an array, not an object")
    );
}

#[test]
fn pending_calls_are_decided_once_and_expire() {
    let entries =
        json!([{"name": "legacy", "allow_no_schema": true, "no_schema_mode": "human-approval"}]);
    let hydrator = hydrator(&entries);
    let pending = || match hydrator.hydrate(&call("legacy", "{\"a\": 1}")) {
        Ok(HydratedCall::NeedsApproval(call)) => call,
        other => panic!("{other:?}"),
    };
    let start = Instant::now();
    let mut queue = ApprovalQueue::new(Duration::from_secs(60));
    let tickets = [(); 3].map(|()| queue.push(pending(), start).expect("there is room"));
    assert_eq!(
        queue
            .waiting(start)
            .map(|(ticket, _)| ticket)
            .collect::<Vec<_>>(),
        tickets
    );
    let approved = queue
        .approve(tickets[0], start + Duration::from_secs(59))
        .expect("it waits still");
    assert!(!approved.validated() && approved.arguments() == &json!({"a": 1}));
    let again = queue
        .approve(tickets[0], start)
        .expect_err("it was decided on");
    assert_eq!(again, ApprovalError::NotWaiting { ticket: tickets[0] });
    queue.deny(tickets[1], start).expect("it waits still");
    queue
        .approve(tickets[2], start + Duration::from_secs(60))
        .expect_err("it has expired");
    while queue.push(pending(), start).is_ok() {}
    assert_eq!(queue.push(pending(), start), Err(ApprovalError::Full));
}

#[test]
fn hostile_arguments_are_refused_with_typed_errors() {
    let hydrator = hydrator(&temperature());
    let error = |text: &str| expect_error(hydrator.hydrate(&call("get_temperature", text)));
    let huge = format!("{{\"city\": \"{}\"}}", "x".repeat(10 << 20));
    assert!(
        matches!(error(&huge), CallError::TooLarge { bytes, most, .. } if bytes > 10 << 20 && most == MAX_ARGUMENT_BYTES)
    );
    let deep = format!("{{\"city\": {}{}}}", "[".repeat(1000), "]".repeat(1000));
    for (text, part) in [
        (deep.as_str(), "nested deeper"),
        ("{\"city\": \"\\ud800\", \"city\": 1}", "hex escape"),
        ("{\"city\": 1e999}", "out of range"),
        (
            "{\"city\": \"a\", \"city\": \"b\"}",
            "duplicate key \"/city\"",
        ),
        ("{\"city\": NaN}", "expected value"),
        ("please", "expected value"),
        ("{\"city\": \"cut of", "EOF"),
    ] {
        let error = error(text);
        assert!(
            matches!(error, CallError::Malformed { .. }) && error.to_string().contains(part),
            "{part}: {error}"
        );
    }
    let half = ready(hydrator.hydrate(&call("get_temperature", "{\"city\": \"\\ud800\"}")));
    assert_eq!(
        (&half.arguments()["city"], half.repaired().len()),
        (&json!("\u{fffd}"), 1),
        "half a character is told"
    );
    let value = |value: Value| ToolCall {
        arguments: Arguments::Json(value),
        ..call("get_temperature", "")
    };
    let too_large = hydrator.hydrate(&value(json!({"city": "x".repeat(2 << 20)})));
    assert!(matches!(
        expect_error(too_large),
        CallError::TooLarge { .. }
    ));
    let too_deep = (0..300).fold(json!(1), |inner, _| json!([inner]));
    assert!(matches!(
        expect_error(hydrator.hydrate(&value(too_deep))),
        CallError::Malformed { .. }
    ));
    assert!(matches!(
        expect_error(hydrator.hydrate(&value(json!("Bern")))),
        CallError::Invalid { .. }
    ));
    for nothing in ["", "  \n"] {
        assert!(
            matches!(error(nothing), CallError::Invalid { .. }),
            "no text is no arguments"
        );
    }
    let small = hydrator_of(parse_catalog(&temperature()).expect("valid")).max_argument_bytes(10);
    assert!(matches!(
        expect_error(small.hydrate(&call("get_temperature", "{\"city\": \"Bern\"}"))),
        CallError::TooLarge { .. }
    ));
}

#[test]
fn hostile_schemas_are_refused_or_bounded() {
    let schema_error = |schema: Value| {
        parse_catalog(&json!([{"name": "t", "parameters": schema}]))
            .expect_err("it is refused")
            .to_string()
    };
    assert!(
        schema_error(json!({"properties": {"a": {"$ref": "https://example.org/x.json"}}}))
            .contains("leaves the schema")
    );
    assert!(schema_error(json!({"allOf": [{"$ref": "#"}]})).contains("leads back to itself"));
    assert!(schema_error(json!(true)).contains("a boolean, not an object"));
    let bounded = |schema: Value, arguments: Value| {
        hydrator(&json!([{"name": "t", "parameters": schema}]))
            .hydrate(&call("t", &arguments.to_string()))
    };
    let slow = json!({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}});
    assert!(matches!(
        bounded(slow, json!({"a": format!("{}!", "a".repeat(50_000))})),
        Err(CallError::Invalid { .. })
    ));
    let unchecked = json!({"properties": {"a": {"type": "string", "pattern": "(?=x)"}}});
    ready(bounded(unchecked.clone(), json!({"a": "y"})));
    assert!(matches!(
        bounded(unchecked, json!({"a": [1]})),
        Err(CallError::Invalid { .. })
    ));
    ready(bounded(
        json!({"properties": {"a": true}}),
        json!({"a": [1]}),
    ));
    assert!(matches!(
        bounded(json!({"properties": {"a": false}}), json!({"a": 1})),
        Err(CallError::Invalid { .. })
    ));
    let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
    ready(bounded(
        tree,
        json!({"left": {"right": {}}, "right": {"left": {}}}),
    ));
    let circular = json!({"properties": {"a": {"$ref": "#"}}, "required": ["zz"]});
    let deep = (0..60).fold(json!({}), |inner, _| json!({"a": inner}));
    let error = bounded(json!({"anyOf": [circular.clone(), circular]}), deep)
        .expect_err("two ways at each of sixty levels");
    assert!(error.to_string().contains("takes too long"), "{error}");
}

#[test]
fn calls_are_validated_against_the_canonical_schema() {
    let entries = json!([{"name": "search", "source": "web", "parameters": {"type": "object", "required": ["q"],
        "properties": {"q": {"type": "string", "maxLength": 5}, "$top": {"type": "integer"}}}}]);
    let catalog = parse_catalog(&entries).expect("valid");
    let translation = translate(
        catalog.tools().expect("readable"),
        Provider::Anthropic,
        &TranslateOptions::default(),
    )
    .expect("it can be shown");
    let shown_properties = &translation.tools[0]["input_schema"]["properties"];
    let renamed = shown_properties
        .as_object()
        .expect("an object")
        .keys()
        .find(|key| key.contains("top"))
        .expect("it is there");
    assert_ne!(renamed, "$top", "the provider refuses it");
    let name = translation.names.keys().next().expect("one tool").clone();
    let hydrator = hydrator_of(catalog).translated(&translation);
    let valid =
        ready(hydrator.hydrate(&call(&name, &json!({"q": "lakes", renamed: 3}).to_string())));
    assert_eq!(valid.arguments(), &json!({"q": "lakes", "$top": 3}));
    assert_eq!(valid.resolved_via(), ResolvedVia::Advertised);
    assert_eq!(valid.names().advertised.as_deref(), Some(name.as_str()));
    expect_error(hydrator.hydrate(&call(&name, "{\"q\": \"too long\"}")));
}
