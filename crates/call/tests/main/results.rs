//! What goes back to a model for its calls: every provider's form, and errors that a model can mend
//! its call from. `scripts/check-results.sh` holds the snapshots to the vendors' own types.

use picktools::names::Advertising;
use picktools::{Access, Catalog};
use picktools_call::client::{ClientFuture, ToolClient};
use picktools_call::{CallError, Hydrated, Hydrator, ToolCallOptions, tool_call};
use picktools_provider::{
    Arguments, CallResult, Provider, ResultError, ToolCall, TranslateOptions,
    query_from_transcript, translate,
};
use picktools_testing::{fixture, tool};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{hydrator_of, ready};

fn terminal() -> Catalog {
    Catalog::open(fixture("catalogs/terminal")).expect("the fixture is valid")
}

fn call(id: &str, name: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: Some(id.to_owned()),
        name: name.to_owned(),
        arguments: Arguments::Json(arguments.clone()),
    }
}

/// A hydrator for what a model was shown under the first alias of each tool.
fn shown_by_alias(provider: Provider) -> Hydrator {
    let catalog = terminal();
    let options = TranslateOptions {
        advertising: Advertising::PrimaryAlias,
        ..TranslateOptions::default()
    };
    let shown = translate(catalog.tools(), provider, &options).expect("it can be translated");
    hydrator_of(catalog).translated(&shown)
}

/// What a hydrator tells of a call that it refuses.
fn told(hydrator: &Hydrator, call: &ToolCall) -> String {
    let error = hydrator.hydrate(call).expect_err("it cannot be run");
    hydrator
        .error_result(call, &error)
        .outcome
        .expect_err("it is an error")
}

#[test]
fn every_provider_gets_results_in_its_own_form() {
    for provider in Provider::ALL {
        let hydrator = shown_by_alias(provider);
        let run = call("call_1", "bash", &json!({"command": "ls"}));
        let read = call("call_2", "read_file", &json!({"path": "a.txt"}));
        let change = call("call_4", "cd", &json!({"path": "/"}));
        let [run, read, change] = [run, read, change].map(|call| ready(hydrator.hydrate(&call)));
        let wrong = call(
            "call_3",
            "read_file",
            &json!({"file": "a.txt\u{202e}\n", "encoding": "utf7"}),
        );
        let error = hydrator.hydrate(&wrong).expect_err("it lacks its path");
        let results = [
            run.result(Ok(json!({"exitCode": 0, "stdout": "a.txt\n"}))),
            read.result(Ok("line one\nline \"two\"".into())),
            hydrator.error_result(&wrong, &error),
            change.result(Err(" ".to_owned())),
        ];
        let written = provider.results(&results).expect("every call has an id");
        let shown = serde_json::to_string_pretty(&written).expect("JSON");
        insta::assert_snapshot!(format!("results_{provider}"), shown);
        assert_eq!(provider.results(&[]), Ok(Vec::new()), "nothing is nothing");
        if provider != Provider::Mcp {
            let transcript = json!(
                [
                    vec![json!({"role": "user", "content": "list them"})],
                    written
                ]
                .concat()
            );
            let query = query_from_transcript(&transcript).expect("it is a transcript");
            assert_eq!(
                (query.text(), query.context()),
                ("list them", ""),
                "{provider}: no result is a request"
            );
        }
    }
}

#[test]
fn a_call_without_an_id_is_answered_by_its_name_where_the_provider_can() {
    let nameless = CallResult {
        id: None,
        name: "read\u{200b}_file".to_owned(),
        outcome: Ok(json!(1)),
    };
    for provider in [
        Provider::OpenAiChat,
        Provider::OpenAiResponses,
        Provider::Anthropic,
    ] {
        let error = provider
            .results(std::slice::from_ref(&nameless))
            .expect_err("it goes by ids");
        assert!(matches!(error, ResultError::NoId { .. }), "{error}");
        assert!(
            error
                .to_string()
                .contains("the call of read\u{fffd}_file has none"),
            "{error}"
        );
    }
    for provider in [Provider::Gemini, Provider::Ollama, Provider::Mcp] {
        let written = provider
            .results(std::slice::from_ref(&nameless))
            .expect("the name is enough");
        assert!(
            !written[0].to_string().contains("\"id\"")
                && !written[0].to_string().contains("call_id")
        );
    }
}

#[test]
fn an_error_tells_how_to_mend_the_call_under_the_names_that_the_model_was_shown() {
    let hydrator = shown_by_alias(Provider::OpenAiChat);
    let unknown = told(&hydrator, &call("1", "terminalReadFil", &json!({})));
    assert!(
        unknown.starts_with("Unknown tool: terminalReadFil; did you mean read_file"),
        "{unknown}"
    );
    assert!(
        !unknown.contains("terminalReadFile"),
        "that name it was not shown: {unknown}"
    );
    let invalid = told(
        &hydrator,
        &call("2", "read_file", &json!({"encoding": "utf-8"})),
    );
    assert!(
        invalid.starts_with("the arguments of read_file do not fit: "),
        "{invalid}"
    );
    assert!(
        invalid.contains("\"path\"") && invalid.contains("correct would be for example {"),
        "{invalid}"
    );
    let few = Access {
        exclude: ["write_file".to_owned()].into(),
        ..Access::default()
    };
    let hydrator = Hydrator::new(terminal(), &few).expect("the tool is there");
    let hidden = told(&hydrator, &call("3", "terminalWriteFile", &json!({})));
    assert!(
        hidden.starts_with("terminalWriteFile cannot be called: it is excluded"),
        "{hidden}"
    );
    let near = told(&hydrator, &call("4", "terminalWriteFil", &json!({})));
    assert!(
        !near.contains("Write,") && !near.contains("terminalWriteFile"),
        "{near}"
    );
}

#[test]
fn names_that_several_tools_share_are_told_as_they_were_shown() {
    let tools = ["mail", "chat"].map(|source| tool(source, "send", "Sends"));
    let catalog = Catalog::from_tools(tools).expect("the tools are valid");
    let shown = translate(
        catalog.tools(),
        Provider::Anthropic,
        &TranslateOptions::default(),
    )
    .expect("it can be");
    let hydrator = hydrator_of(catalog).translated(&shown);
    let told = told(&hydrator, &call("1", "send", &json!({})));
    assert!(
        told.ends_with("call one of: mail_send, chat_send"),
        "{told}"
    );
}

#[test]
fn a_call_that_is_not_approved_is_answered_too() {
    let entries =
        br#"[{"name": "wipe", "allow_no_schema": true, "no_schema_mode": "human-approval"}]"#;
    let hydrator = hydrator_of(Catalog::from_slice(entries, "here", None).expect("it is valid"));
    let Ok(Hydrated::NeedsApproval(pending)) = hydrator.hydrate(&call("9", "wipe", &json!({})))
    else {
        panic!("it waits for a person")
    };
    let written = Provider::Anthropic
        .results(&[pending.refused("nobody approved it")])
        .expect("it has an id");
    let block = json!({"type": "tool_result", "tool_use_id": "9", "content": "nobody approved it", "is_error": true});
    assert_eq!(written, [json!({"role": "user", "content": [block]})]);
}

/// A model that calls as it is told.
struct Model(Value);

impl ToolClient for Model {
    fn provider(&self) -> Provider {
        Provider::OpenAiChat
    }

    fn send(&self, _: Value) -> ClientFuture<'_> {
        Box::pin(async move { Ok(json!({"choices": [{"message": {"tool_calls": self.0}}]})) })
    }
}

#[tokio::test]
async fn a_tool_call_comes_with_what_the_model_is_told_of_the_refused_ones() {
    let call = |id: &str, name: &str| json!({"id": id, "function": {"name": name, "arguments": "{\"path\": \"/\"}"}});
    let model = Model(json!([
        call("a", "terminalCd"),
        call("b", "terminalRun"),
        call("c", "rm")
    ]));
    let body = json!({"model": "m", "messages": []});
    let options = ToolCallOptions::default();
    let hydrator = Hydrator::new(terminal(), &Access::default()).expect("it names no tool");
    let answer = tool_call(
        &model,
        body,
        &hydrator,
        hydrator.catalog().tools(),
        &options,
    )
    .await
    .expect("the model answers");
    assert!(answer.calls[0].is_ok() && matches!(answer.calls[1], Err(CallError::Invalid { .. })));
    let ids: Vec<Option<&str>> = answer
        .refused
        .iter()
        .map(|result| result.id.as_deref())
        .collect();
    assert_eq!(ids, [Some("b"), Some("c")]);
    let messages = Provider::OpenAiChat
        .results(&answer.refused)
        .expect("they have ids");
    let content = messages[1]["content"].as_str().expect("it is text");
    let content: Value = serde_json::from_str(content).expect("a failure is JSON");
    assert!(
        content["error"]
            .as_str()
            .is_some_and(|error| error.starts_with("Unknown tool: rm")),
        "{content}"
    );
}

proptest! {
    #[test]
    fn whatever_a_model_calls_the_error_is_one_short_line_without_hidden_characters(
        name in "(\\PC|[\n\u{0}\u{200b}\u{202e}]){0,300}",
        text in "(\\PC|[{}\":,\n\u{0}\u{202e}\u{e0041}]){0,3000}",
    ) {
        let hydrator = shown_by_alias(Provider::Anthropic);
        for (name, arguments) in [
            (name.as_str(), Arguments::Text(text.clone())),
            ("bash", Arguments::Text(text.clone())),
            ("read_file", Arguments::Json(json!({"path": 1, text.as_str(): text}))),
        ] {
            let call = ToolCall { id: Some("1".to_owned()), name: name.to_owned(), arguments };
            let Err(error) = hydrator.hydrate(&call) else { continue };
            let told = hydrator.error_result(&call, &error).outcome.expect_err("it is an error");
            prop_assert!(told.chars().count() <= 4_001);
            prop_assert!(!told.contains(|c: char| c.is_control() || "\u{200b}\u{202e}\u{e0041}".contains(c)), "{told:?}");
        }
    }
}
