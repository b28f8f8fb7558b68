//! Written definitions can be parsed as a catalog again.

use picktools::{Catalog, Tool};
use picktools_provider::{Provider, TranslateOptions, translate};
use picktools_testing::workplace;
use serde_json::{Value, json};

const SERVED: &str = "the gizmo is bust";

/// Returns the written definitions without their wrappers.
fn definitions(tools: &Value) -> Vec<&Value> {
    let list = tools
        .pointer("/0/functionDeclarations")
        .unwrap_or(tools)
        .as_array()
        .expect("it is a list");
    let is_definition = |tool: &&Value| {
        !tool["type"]
            .as_str()
            .is_some_and(|kind| kind.starts_with("tool_search"))
    };
    list.iter()
        .filter(is_definition)
        .map(|tool| tool.get("function").unwrap_or(tool))
        .collect()
}

#[test]
fn written_definitions_can_be_read_back() {
    let tools = workplace();
    for provider in Provider::ALL {
        let deferred: &[bool] = if provider.has_deferred_loading() {
            &[false, true]
        } else {
            &[false]
        };
        for (strict, &deferred) in [false, true]
            .into_iter()
            .flat_map(|strict| deferred.iter().map(move |on| (strict, on)))
        {
            let options = TranslateOptions {
                strict: Some(strict),
                deferred,
                ..TranslateOptions::default()
            };
            let written = translate(tools.tools().expect("readable"), provider, &options)
                .expect("it can be written");
            let request = json!({"model": "m", "tools": written.tools}).to_string();
            for text in [written.tools.to_string(), request] {
                let back = Catalog::from_slice(text.as_bytes(), "here", None)
                    .unwrap_or_else(|error| panic!("{provider}: {error}"));
                assert_eq!(back.len(), tools.len(), "{provider}");
                let written_definitions = definitions(&written.tools);
                for ((tool, back), definition) in tools
                    .tools()
                    .expect("readable")
                    .iter()
                    .zip(back.tools().expect("readable"))
                    .zip(&written_definitions)
                {
                    assert_eq!(written.names[&back.name], tool.id, "{provider}");
                    assert!(
                        back.description.starts_with(&tool.description),
                        "{provider}: {}",
                        back.description
                    );
                    if let Some(schema) = definition
                        .get("parameters")
                        .or(definition.get("input_schema"))
                        && provider != Provider::Gemini
                    {
                        assert_eq!(back.parameters.as_ref(), Some(schema), "{provider}");
                    }
                }
                if !strict {
                    // Only what the provider cannot express is missing.
                    let again = translate(back.tools().expect("readable"), provider, &options)
                        .expect("it can be written");
                    for (again, shown) in definitions(&again.tools).iter().zip(&written_definitions)
                    {
                        assert_eq!(again, shown, "{provider}");
                    }
                }
                assert_eq!(
                    back.notices().len(),
                    usize::from(deferred),
                    "{provider}: {:?}",
                    back.notices()
                );
            }
        }
    }
    let written = translate(
        tools.tools().expect("readable"),
        Provider::Mcp,
        &TranslateOptions::default(),
    )
    .expect("it can be written");
    let back = Catalog::from_slice(written.tools.to_string().as_bytes(), "here", None)
        .expect("it can be read");
    for (tool, back) in tools
        .tools()
        .expect("readable")
        .iter()
        .zip(back.tools().expect("readable"))
    {
        assert_eq!(
            (&back.annotations, &back.title),
            (&tool.annotations, &tool.title),
            "{}",
            tool.id
        );
    }
}

#[test]
fn examples_are_kept_but_not_shown_to_models() {
    let entry = format!(
        "[{{\"name\": \"fetch\", \"description\": \"Fetches\", \"parameters\": {{}}, \"examples\": [{SERVED:?}]}}]"
    );
    let catalog = Catalog::from_slice(entry.as_bytes(), "here", None).expect("valid");
    let tool = &catalog.tools().expect("readable")[0];
    assert_eq!(tool.examples, [SERVED]);
    let form = serde_json::to_string(tool).expect("it serialises");
    assert_eq!(
        serde_json::from_str::<Tool>(&form).expect("it is read"),
        **tool
    );
    for provider in Provider::ALL {
        let translation = translate(
            catalog.tools().expect("readable"),
            provider,
            &TranslateOptions::default(),
        )
        .expect("it can be shown");
        assert!(
            !translation.tools.to_string().contains("gizmo"),
            "{provider}"
        );
    }
    let error = Catalog::from_slice(
        b"[{\"name\": \"a\", \"parameters\": {}, \"examples\": [7]}]",
        "here",
        None,
    )
    .expect_err("no text");
    assert!(error.to_string().contains("/examples"), "{error}");
}
