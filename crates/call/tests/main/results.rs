//! Results of calls in the format of each provider, and error messages from which a model can
//! correct its call. `scripts/check-results.sh` checks the snapshots against the types of the
//! vendors.

use picktools::names::Advertising;
use picktools::{Access, Catalog};
use picktools_call::client::{ClientFuture, ToolClient};
use picktools_call::{CallError, HydratedCall, Hydrator, ToolCallOptions, tool_call};
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

/// Returns a hydrator for a model that was shown the primary alias of each tool.
fn shown_by_alias(provider: Provider) -> Hydrator {
    let catalog = terminal();
    let options = TranslateOptions {
        advertising: Advertising::PrimaryAlias,
        ..TranslateOptions::default()
    };
    let translation = translate(catalog.tools().expect("readable"), provider, &options)
        .expect("it can be translated");
    hydrator_of(catalog).translated(&translation)
}

/// Returns the error message for a refused call.
fn error_message(hydrator: &Hydrator, call: &ToolCall) -> String {
    let error = hydrator.hydrate(call).expect_err("it cannot be run");
    hydrator
        .error_result(call, &error)
        .outcome
        .expect_err("it is an error")
}

#[test]
fn results_have_the_form_of_each_provider() {
    for provider in Provider::ALL {
        let hydrator = shown_by_alias(provider);
        let run = call("call_1", "bash", &json!({"command": "ls"}));
        let read_call = call("call_2", "read_file", &json!({"path": "a.txt"}));
        let change = call("call_4", "cd", &json!({"path": "/"}));
        let [run, read_call, change] =
            [run, read_call, change].map(|call| ready(hydrator.hydrate(&call)));
        let wrong = call(
            "call_3",
            "read_file",
            &json!({"file": "a.txt\u{202e}\n", "encoding": "utf7"}),
        );
        let error = hydrator.hydrate(&wrong).expect_err("it lacks its path");
        let results = [
            run.result(Ok(json!({"exitCode": 0, "stdout": "a.txt\n"}))),
            read_call.result(Ok("line one\nline \"two\"".into())),
            hydrator.error_result(&wrong, &error),
            change.result(Err(" ".to_owned())),
        ];
        let written = provider.results(&results).expect("every call has an id");
        let text = serde_json::to_string_pretty(&written).expect("JSON");
        insta::assert_snapshot!(format!("results_{provider}"), text);
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
fn result_without_id_uses_the_name_if_supported() {
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
                .contains("the call of read<U+200B>_file has no id"),
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
fn error_result_uses_shown_names_and_gives_a_remedy() {
    let hydrator = shown_by_alias(Provider::OpenAiChat);
    let unknown = error_message(&hydrator, &call("1", "terminalReadFil", &json!({})));
    assert!(
        unknown.starts_with("Unknown tool: terminalReadFil; did you mean read_file"),
        "{unknown}"
    );
    assert!(
        !unknown.contains("terminalReadFile"),
        "that name it was not shown: {unknown}"
    );
    let invalid = error_message(
        &hydrator,
        &call("2", "read_file", &json!({"encoding": "utf-8"})),
    );
    assert!(
        invalid.starts_with("the arguments of read_file do not match its schema: "),
        "{invalid}"
    );
    assert!(
        invalid.contains("\"path\"") && invalid.contains("example of correct arguments: {"),
        "{invalid}"
    );
    let few = Access {
        exclude: ["write_file".to_owned()].into(),
        ..Access::default()
    };
    let hydrator = Hydrator::new(terminal(), &few).expect("the tool is there");
    let hidden = error_message(&hydrator, &call("3", "terminalWriteFile", &json!({})));
    assert!(
        hidden.starts_with("terminalWriteFile cannot be called: excluded"),
        "{hidden}"
    );
    let near = error_message(&hydrator, &call("4", "terminalWriteFil", &json!({})));
    assert!(
        !near.contains("Write,") && !near.contains("terminalWriteFile"),
        "{near}"
    );
}

#[test]
fn ambiguous_name_error_lists_shown_names() {
    let tools = ["mail", "chat"].map(|source| tool(source, "send", "Sends"));
    let catalog = Catalog::from_tools(tools).expect("the tools are valid");
    let translation = translate(
        catalog.tools().expect("readable"),
        Provider::Anthropic,
        &TranslateOptions::default(),
    )
    .expect("it can be");
    let hydrator = hydrator_of(catalog).translated(&translation);
    let message = error_message(&hydrator, &call("1", "send", &json!({})));
    assert!(
        message.ends_with("call one of: mail_send, chat_send"),
        "{message}"
    );
}

#[test]
fn denied_call_has_a_result() {
    let entries =
        br#"[{"name": "wipe", "allow_no_schema": true, "no_schema_mode": "human-approval"}]"#;
    let hydrator = hydrator_of(Catalog::from_slice(entries, "here", None).expect("it is valid"));
    let Ok(HydratedCall::NeedsApproval(pending)) = hydrator.hydrate(&call("9", "wipe", &json!({})))
    else {
        panic!("it waits for a person")
    };
    let written = Provider::Anthropic
        .results(&[pending.refused("nobody approved it")])
        .expect("it has an id");
    let block = json!({"type": "tool_result", "tool_use_id": "9", "content": "nobody approved it", "is_error": true});
    assert_eq!(written, [json!({"role": "user", "content": [block]})]);
}

/// A model that makes the calls of its script.
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
async fn tool_call_returns_results_of_refused_calls() {
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
        hydrator.catalog().tools().expect("readable"),
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
    fn error_results_are_one_short_line_without_hidden_text(
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
            let message = hydrator.error_result(&call, &error).outcome.expect_err("it is an error");
            prop_assert!(message.chars().count() <= 4_001);
            prop_assert!(!message.contains(|c: char| c.is_control() || "\u{200b}\u{202e}\u{e0041}".contains(c)), "{message:?}");
        }
    }
}
