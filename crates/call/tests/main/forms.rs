//! The forms of calls in `fixtures/calls/forms.json`, as the library reads them.

use std::time::Instant;

use picktools::Catalog;
use picktools_call::{CallError, HydratedCall, Hydrator, join_results};
use picktools_provider::{CallResult, ToolCall};
use picktools_testing::calls::{CallForms, CallOutcome};
use serde_json::{Value, json};

use super::support::hydrator_of;

#[test]
fn call_forms_have_their_outcome_in_the_library() {
    let forms = CallForms::open();
    assert!(forms.forms.len() >= 100);
    let hydrator = hydrator_of_forms(&forms);
    let outcomes: Vec<CallOutcome> = forms
        .forms
        .iter()
        .map(|form| {
            let call: ToolCall = serde_json::from_value(form.call()).expect("a call");
            outcome(hydrator.hydrate(&call))
        })
        .collect();
    forms.assert_outcomes(&outcomes);
}

fn outcome(hydrated: Result<HydratedCall, CallError>) -> CallOutcome {
    match hydrated {
        Ok(HydratedCall::Ready(call)) => {
            CallOutcome::Valid(call.tool().id.clone(), call.arguments().clone())
        }
        Ok(HydratedCall::NeedsApproval(_)) => panic!("the tools only read"),
        Err(error) => {
            let error: Value = json!(error);
            let code = match error["code"].as_str().unwrap_or_default() {
                "invalid" | "malformed" => "invalid_arguments",
                other => other,
            };
            CallOutcome::Refused(code.to_owned())
        }
    }
}

fn hydrator_of_forms(forms: &CallForms) -> Hydrator {
    let catalog = Catalog::from_slice(forms.native_catalog().as_bytes(), "forms.jsonl", None);
    hydrator_of(catalog.expect("the tools are valid"))
}

#[test]
fn parallel_call_is_replaced_by_its_uses() {
    let hydrator = hydrator_of_forms(&CallForms::open());
    let expand = |name: &str, arguments: Value| {
        let call = json!({"id": "c1", "name": name, "arguments": arguments});
        hydrator.expand_parallel(vec![serde_json::from_value(call).expect("a call")])
    };
    let uses = json!({"tool_uses": [
        {"recipient_name": "functions.get_weather", "parameters": {"city": "Oslo"}},
        {"recipient_name": "functions.health"},
    ]});
    for name in [
        "multi_tool_use.parallel",
        "multi_tool_use_parallel",
        "functions.multi_tool_use.parallel:0",
    ] {
        for arguments in [uses.clone(), json!(uses.to_string())] {
            let calls = expand(name, arguments);
            let tools: Vec<String> = calls
                .iter()
                .map(|call| match outcome(hydrator.hydrate(call)) {
                    CallOutcome::Valid(tool, _) => tool,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(tools, ["weather/get_weather", "weather/health"], "{name}");
        }
    }
    for (name, arguments) in [
        ("multi_tool_use.parallel", json!({})),
        ("multi_tool_use.parallel", json!({"tool_uses": []})),
        (
            "multi_tool_use.parallel",
            json!({"tool_uses": [{"parameters": {}}]}),
        ),
        ("get_weather", uses.clone()),
    ] {
        assert_eq!(expand(name, arguments)[0].name, name);
    }
    let mut results = Vec::new();
    for call in expand("multi_tool_use.parallel", uses) {
        results.push(CallResult::new(&call, Ok(json!("done"))));
    }
    let joined = join_results(results);
    assert_eq!(joined.len(), 1);
    assert_eq!(joined[0].id.as_deref(), Some("c1"));
    let outputs = joined[0].outcome.as_ref().expect("a success");
    assert_eq!(
        outputs[1],
        json!({"tool": "functions.health", "output": "done"})
    );
}

#[test]
fn alternatives_inside_alternatives_take_bounded_time() {
    let alternative = |index: usize| {
        json!({"type": "object", "required": ["a", "b", "next"], "properties": {
            "a": {"type": "integer"}, "b": {"type": "integer", "maximum": index},
            "next": {"$ref": "#/$defs/any"}}})
    };
    let alternatives: Vec<Value> = (0..16).map(alternative).collect();
    let schema = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/any"}},
        "$defs": {"any": {"anyOf": alternatives}}});
    let tool = json!({"name": "nested", "description": "A tool", "parameters": schema});
    let catalog = Catalog::from_slice(tool.to_string().as_bytes(), "nested.jsonl", None);
    let hydrator = hydrator_of(catalog.expect("the tool is valid"));
    let mut value = json!({});
    for _ in 0..2 {
        value = json!({"a": "1", "b": "2", "next": value});
    }
    let call = json!({"name": "nested", "arguments": {"x": value}});
    let started = Instant::now();
    let hydrated = hydrator.hydrate(&serde_json::from_value(call).expect("a call"));
    assert!(hydrated.is_err());
    // Without a limit it takes minutes in a build without optimisation.
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}
