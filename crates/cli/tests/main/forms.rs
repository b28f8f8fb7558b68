//! The forms of calls in `fixtures/calls/forms.json`: each command and server reads them alike.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use picktools_testing::calls::{CallForm, CallForms, CallOutcome};
use serde_json::{Value, json};

use crate::cli::{picktools, stderr, stdout};
use crate::gateway::{Client, Place, said};
use crate::gateway_http::Serving;
use crate::support::files;

/// The number of processes that run at once.
const PROCESSES: usize = 4;

/// Returns a folder with the configuration of the servers of the forms.
fn servers(forms: &CallForms) -> Place {
    let mut servers = Vec::new();
    for (name, tools) in &forms.servers {
        servers.push((name.as_str(), json!({"tools": tools})));
    }
    Place::hostile(&servers)
}

/// Returns the outcome of a call that reached a server, which answers with what it got.
fn outcome_of_run(form: &CallForm, text: &str) -> CallOutcome {
    let ran: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"));
    let name = ran["ran"].as_str().unwrap_or_default();
    let tool = match &form.outcome {
        CallOutcome::Valid(id, _) if id.ends_with(&format!("/{name}")) => id.clone(),
        _ => name.to_owned(),
    };
    CallOutcome::Valid(tool, ran["arguments"].clone())
}

/// Returns the outcome of a call that was refused with a message.
fn outcome_of_message(message: &str) -> CallOutcome {
    let code = match message {
        unknown if unknown.contains("Unknown tool") => "unknown_tool",
        ambiguous if ambiguous.contains("is ambiguous; call one of") => "ambiguous_tool",
        other if other.contains("the same call was already made") => "redundant",
        _ => "invalid_arguments",
    };
    CallOutcome::Refused(code.to_owned())
}

/// Returns the outcome of the last event of a call.
fn outcome_of_event(form: &CallForm, event: &Value) -> CallOutcome {
    let result = &event["data"]["result"];
    match result["text"].as_str() {
        Some(text) if result["success"] == true => outcome_of_run(form, text),
        _ => outcome_of_message(result["error"].as_str().unwrap_or_default()),
    }
}

/// Returns the outcome of a validated call, from the answer of a command or a server.
fn outcome_of_validation(call: &Value) -> CallOutcome {
    if call["status"] == "ready" {
        let tool = call["tool"].as_str().unwrap_or_default().to_owned();
        return CallOutcome::Valid(tool, call["arguments"].clone());
    }
    let code = match call["error"]["code"].as_str().unwrap_or_default() {
        "invalid" | "malformed" => "invalid_arguments",
        other => other,
    };
    CallOutcome::Refused(code.to_owned())
}

#[test]
fn call_forms_have_their_outcome_in_validate() {
    let forms = CallForms::open();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let catalog = path("tools.jsonl", forms.native_catalog());
    let calls = path("calls.jsonl", forms.lines());
    let arguments = ["validate", "--catalog", &catalog, "--calls", &calls];
    for more in [
        &[][..],
        &["--provider", "anthropic"],
        &["--provider", "openai"],
    ] {
        let arguments = [&arguments[..], &["--json"], more].concat();
        let output = picktools(&arguments).output().expect("it runs");
        let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        let calls = report["calls"].as_array().expect("calls");
        let outcomes: Vec<CallOutcome> = calls.iter().map(outcome_of_validation).collect();
        forms.assert_outcomes(&outcomes);
    }
}

#[test]
fn call_forms_have_their_outcome_in_run() {
    let forms = CallForms::open();
    let place = servers(&forms);
    let catalog = place.path("mcp.json").display().to_string();
    let mut outcomes: Vec<Option<CallOutcome>> = forms.forms.iter().map(|_| None).collect();
    let mut open: Vec<usize> = (0..outcomes.len()).collect();
    while !open.is_empty() {
        // A turn refuses a second call that is the same.
        let mut different = HashSet::new();
        let is_new = |index: &usize| different.insert(format!("{:?}", forms.forms[*index].outcome));
        let (batch, later): (Vec<usize>, Vec<usize>) = open.into_iter().partition(is_new);
        let lines = batch
            .iter()
            .map(|&index| format!("{}\n", forms.forms[index].call()));
        let file = place.path("calls.jsonl");
        fs::write(&file, lines.collect::<String>()).expect("a file");
        let file = file.display().to_string();
        let run = picktools(&["run", &file, "--catalog", &catalog, "--json"]).output();
        let run = run.expect("it runs");
        for line in stdout(&run).lines() {
            let event: Value = serde_json::from_str(line).expect("an event");
            let kind = event["type"].as_str().unwrap_or_default();
            if !["tool_call_end", "error"].contains(&kind) {
                continue;
            }
            let id = event["data"]["call_id"].as_str().unwrap_or_default();
            let number: usize = id.trim_start_matches("call_").parse().expect("a number");
            let index = batch[number - 1];
            outcomes[index] = Some(outcome_of_event(&forms.forms[index], &event));
        }
        open = later;
    }
    let outcomes: Option<Vec<CallOutcome>> = outcomes.into_iter().collect();
    forms.assert_outcomes(&outcomes.expect("every call ends"));
}

#[test]
fn call_forms_have_their_outcome_in_call() {
    let forms = CallForms::open();
    let place = servers(&forms);
    let catalog = place.path("mcp.json").display().to_string();
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<(usize, CallOutcome)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(form) = forms.forms.get(index)
                {
                    let outcome = outcome_of_call(form, &catalog);
                    let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    outcomes.push((index, outcome));
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no thread failed");
    outcomes.sort_by_key(|(index, _)| *index);
    let outcomes: Vec<CallOutcome> = outcomes.into_iter().map(|(_, outcome)| outcome).collect();
    forms.assert_outcomes(&outcomes);
}

fn outcome_of_call(form: &CallForm, catalog: &str) -> CallOutcome {
    let text = match &form.arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let call = [
        "call",
        &form.name,
        "--args",
        &text,
        "--catalog",
        catalog,
        "--json",
    ];
    let output = picktools(&call).output().expect("it runs");
    let events = stdout(&output);
    let last = events
        .lines()
        .last()
        .unwrap_or_else(|| panic!("{}", stderr(&output)));
    outcome_of_event(form, &serde_json::from_str(last).expect("an event"))
}

#[test]
fn call_forms_have_their_outcome_in_the_gateway() {
    let forms = CallForms::open();
    for mode in ["search", "pass-through"] {
        let place = servers(&forms);
        place.write("settings.json", &json!({"mode": mode}));
        let mut client = place.client(&json!({}));
        let outcomes = forms
            .forms
            .iter()
            .map(|form| outcome_in_gateway(&mut client, form));
        forms.assert_outcomes(&outcomes.collect::<Vec<_>>());
    }
}

fn outcome_in_gateway(client: &mut Client, form: &CallForm) -> CallOutcome {
    let result = client.call("call_tool", form.call());
    match result["_meta"]["picktools/error"]["code"].as_str() {
        Some(code) => CallOutcome::Refused(code.to_owned()),
        None => outcome_of_run(form, &said(&result)),
    }
}

#[test]
fn called_names_have_their_tool_in_tools_call_and_resolve() {
    let forms = CallForms::open();
    let place = servers(&forms);
    place.write("settings.json", &json!({"mode": "pass-through"}));
    let mut client = place.client(&json!({}));
    for form in forms.forms.iter().filter(|form| form.arguments.is_object()) {
        let answer = client.ask(
            "tools/call",
            &json!({"name": form.name, "arguments": form.arguments}),
        );
        let code = answer["result"]["_meta"]["picktools/error"]["code"].as_str();
        let outcome = match (answer.get("error"), code) {
            (Some(_), _) => CallOutcome::Refused("unknown_tool".to_owned()),
            (None, Some(code)) => CallOutcome::Refused(code.to_owned()),
            (None, None) => outcome_of_run(form, &said(&answer["result"])),
        };
        assert_eq!(outcome, form.outcome, "{}: {answer}", form.title);
    }
}

#[test]
fn call_forms_have_their_outcome_over_http() {
    let forms = CallForms::open();
    let place = Place::with(&json!({}));
    let catalog = place.path("tools.jsonl");
    fs::write(&catalog, forms.native_catalog()).expect("a file");
    let catalog = catalog.display().to_string();
    let serving = Serving::start(place, &["--catalog", &catalog]);
    let calls: Vec<Value> = forms.forms.iter().map(CallForm::call).collect();
    let (status, report) = serving.json("/v1/validate", &[], &json!({"calls": calls}));
    assert_eq!(status, 200, "{report}");
    let calls = report["calls"].as_array().expect("calls");
    forms.assert_outcomes(&calls.iter().map(outcome_of_validation).collect::<Vec<_>>());
    let names: Vec<&str> = forms.forms.iter().map(|form| form.name.as_str()).collect();
    for (form, names) in forms.forms.iter().zip(names.chunks(1)) {
        let (_, report) = serving.json("/v1/resolve", &[], &json!({"names": names}));
        let resolved = &report["names"][0];
        match &form.outcome {
            CallOutcome::Valid(tool, _) => assert_eq!(&resolved["tool"], tool, "{report}"),
            CallOutcome::Refused(code) if code.ends_with("_tool") => {
                assert_eq!(&resolved["error"]["code"], code, "{report}");
            }
            CallOutcome::Refused(_) => assert!(resolved["tool"].is_string(), "{report}"),
        }
    }
}

/// A number with more digits than 64 bits keep.
const LONG: &str = "12345678901234567890123";

#[test]
fn long_number_over_http_keeps_its_digits_or_is_refused() {
    let forms = CallForms::open();
    let place = Place::with(&json!({}));
    let catalog = place.path("tools.jsonl");
    fs::write(&catalog, forms.native_catalog()).expect("a file");
    let catalog = catalog.display().to_string();
    let serving = Serving::start(place, &["--catalog", &catalog]);
    let validate = |name: &str, arguments: String| {
        let call = format!("{{\"name\": \"{name}\", \"arguments\": {arguments}}}");
        let body = format!("{{\"calls\": [{call}]}}");
        let headers = [("content-type", "application/json")];
        let answer = serving.raw("POST", "/v1/validate", &headers, &body);
        let report: Value = serde_json::from_str(&answer.body).expect("JSON");
        report["calls"][0].clone()
    };
    let refused = validate("list_orders", format!("{{\"limit\": {LONG}}}"));
    let message = refused["error"].to_string();
    assert!(message.contains(LONG), "{refused}");
    assert!(message.contains("that 64 bits keep"), "{refused}");
    let valid = validate("get_order", format!("{{\"order_id\": {LONG}}}"));
    assert_eq!(valid["arguments"], json!({"order_id": LONG}), "{valid}");
}

#[test]
fn long_number_in_the_gateway_is_refused_and_audited_with_its_digits() {
    let place = servers(&CallForms::open());
    let folder = place.path("audit").display().to_string();
    let mut client = place.client_with_options(&["--audit", &folder]);
    let direct = format!(
        "{{\"jsonrpc\": \"2.0\", \"id\": 901, \"method\": \"tools/call\", \"params\": {{\
         \"name\": \"orders__list_orders\", \"arguments\": {{\"limit\": {LONG}}}}}}}\n"
    );
    client.write(&direct);
    let answer = client.answer(901);
    assert!(answer["error"].to_string().contains(LONG), "{answer}");
    let text = format!("{{\"limit\": {LONG}}}");
    let result = client.run("orders__list_orders", json!(text));
    assert_eq!(crate::gateway::code(&result), "invalid_arguments");
    assert!(said(&result).contains(LONG), "{result}");
    client.leave();
    let files = files(place.path("audit").as_path());
    let log = files
        .iter()
        .map(|file| fs::read_to_string(file).expect("a file"));
    assert!(log.collect::<String>().contains(LONG));
    let replay = picktools(&["replay", &folder, "--verify"]).output();
    let replay = replay.expect("it runs");
    assert!(replay.status.success(), "{}", stderr(&replay));
}

#[test]
fn long_number_of_a_call_over_http_is_audited_with_its_digits() {
    let place = servers(&CallForms::open());
    let folder = place.path("audit").display().to_string();
    place.write("settings.json", &json!({"http": {"calls": true}}));
    let mut serving = Serving::start(place, &["--audit", &folder]);
    let call = |name: &str, member: &str| {
        let body = format!("{{\"name\": \"{name}\", \"arguments\": {{\"{member}\": {LONG}}}}}");
        let headers = [("content-type", "application/json")];
        serving.raw("POST", "/v1/call", &headers, &body)
    };
    let refused = call("orders/list_orders", "limit");
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body.contains(LONG), "{}", refused.body);
    // A string of digits is what the tool asks for.
    let ran = call("orders/get_order", "order_id");
    assert_eq!(ran.status, 200, "{}", ran.body);
    assert!(ran.body.contains(LONG), "{}", ran.body);
    serving.signal("TERM");
    assert_eq!(serving.ended(), Some(0));
    let mut recorded = Vec::new();
    for file in files(&serving.place.path("audit")) {
        for line in fs::read_to_string(file).expect("a file").lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_default();
            if record["kind"] == "call" {
                recorded.push(json!([record["arguments"], record["outcome"]]));
            }
        }
    }
    let expected = [
        json!([{"limit": LONG}, "invalid_arguments"]),
        json!([{"order_id": LONG}, "done"]),
    ];
    assert_eq!(recorded, expected);
    let replay = picktools(&["replay", &folder, "--verify"]).output();
    let replay = replay.expect("it runs");
    assert!(replay.status.success(), "{}", stderr(&replay));
}
