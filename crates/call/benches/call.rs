//! Benchmarks of tool call validation and of translation.
//!
//! - Measured: the validation of one call (name, parsing, schema) as text, as JSON, and with
//!   mistakes that are repaired; a refused call with its faults and an example; the translation of
//!   a catalog for each provider.
//! - Data: the fixture catalog of 220 tools. The call is one of `forge/create_issue`, which has six
//!   parameters, two of them arrays and three required. It sets five of them, with 200 bytes of
//!   text.
//! - Not measured: the compilation of the schema, which happens in the first call of a tool.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use picktools::{Access, Catalog};
use picktools_call::Hydrator;
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, translate};
use serde_json::json;

fn catalog() -> Catalog {
    picktools_testing::workplace()
}

fn hydrate(criterion: &mut Criterion) {
    let hydrator = Hydrator::new(catalog(), &Access::default()).expect("it names no tool");
    let good = json!({
        "owner": "harbour", "repo": "tide-tables", "title": "The table of March is a day late",
        "body": "Low water on the 3rd is listed for the 4th.\n\nAll later days follow suit.", "labels": ["bug", "data"],
    });
    let text = Arguments::Text(good.to_string());
    let fenced = Arguments::Text(format!("```json\n{good}\n```"));
    let mut nested = good.clone();
    nested["labels"] = json!("[\"bug\", \"data\"]");
    let bad = Arguments::Text(json!({"owner": "harbour", "title": 7}).to_string());
    let mut group = criterion.benchmark_group("hydrate");
    for (name, arguments, fits) in [
        ("text", text, true),
        ("json", Arguments::Json(good), true),
        ("repaired_syntax", fenced, true),
        ("repaired_nested", Arguments::Json(nested), true),
        ("refused", bad, false),
    ] {
        let call = ToolCall {
            id: None,
            name: "forge/create_issue".to_owned(),
            arguments,
        };
        assert_eq!(hydrator.hydrate(&call).is_ok(), fits, "{name}");
        group.bench_function(name, |bencher| {
            bencher.iter(|| hydrator.hydrate(black_box(&call)));
        });
    }
}

fn translation(criterion: &mut Criterion) {
    let catalog = catalog();
    let mut group = criterion.benchmark_group("translate");
    for provider in Provider::ALL {
        let options = TranslateOptions {
            strict: Some(provider.has_strict()),
            ..TranslateOptions::default()
        };
        let translated = translate(catalog.tools().expect("readable"), provider, &options)
            .expect("the tools can be shown");
        assert_eq!(translated.names.len(), catalog.len());
        group.bench_function(provider.name(), |bencher| {
            bencher.iter(|| {
                translate(
                    black_box(catalog.tools().expect("readable")),
                    provider,
                    &options,
                )
            });
        });
    }
}

criterion_group!(benches, hydrate, translation);
criterion_main!(benches);
