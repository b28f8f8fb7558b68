//! An arbitrary schema and its arguments on two lines: compiled, validated, translated for each
//! provider and restored.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use picktools::{Access, Catalog, Tool};
use picktools_call::Hydrator;
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, translate};
use serde_json::Value;

fuzz_target!(|text: &str| {
    let (schema, arguments) = text.split_once('\n').unwrap_or((text, "{}"));
    let Ok(schema) = serde_json::from_str::<Value>(schema) else {
        return;
    };
    let mut tool = Tool::without_arguments("fuzzed", "");
    tool.parameters = Some(schema.clone());
    let Ok(catalog) = Catalog::from_tools([tool]) else {
        return;
    };
    let tools: Vec<Arc<Tool>> = catalog.tools().expect("readable").to_vec();
    let hydrator = Hydrator::new(catalog, &Access::default()).expect("the access policy is valid");
    let call = |arguments| ToolCall {
        id: None,
        name: "fuzzed".to_owned(),
        arguments,
    };
    let _hydrated = hydrator.hydrate(&call(Arguments::Text(arguments.to_owned())));
    for provider in Provider::ALL {
        for strict in [true, false] {
            let options = TranslateOptions {
                strict: Some(strict),
                ..TranslateOptions::default()
            };
            let _translation = translate(&tools, provider, &options);
        }
        if let Ok(mut arguments) = serde_json::from_str::<Value>(arguments) {
            provider.restore_arguments(&schema, &mut arguments);
        }
    }
    assert_eq!(
        tools[0].parameters.as_ref(),
        Some(&schema),
        "the canonical schema is unchanged"
    );
});
