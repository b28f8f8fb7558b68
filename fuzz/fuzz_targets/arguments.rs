//! The arguments of a call: parsed, repaired, decoded and validated against a schema that has
//! everything.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use picktools::{Access, Catalog};
use picktools_call::{Hydrated, Hydrator};
use picktools_provider::{Arguments, ToolCall};

static HYDRATOR: LazyLock<Hydrator> = LazyLock::new(|| {
    let entries = include_bytes!("../tools.json");
    Hydrator::new(
        Catalog::from_slice(entries, "tools.json", None).expect("the entries are valid"),
        &Access::default(),
    )
    .expect("it names no tool")
});

fuzz_target!(|text: &str| {
    let call = ToolCall {
        id: None,
        name: "everything".to_owned(),
        arguments: Arguments::Text(text.to_owned()),
    };
    match HYDRATOR.hydrate(&call) {
        Ok(Hydrated::Ready(valid)) => {
            // What was accepted is accepted as it is.
            let again = ToolCall {
                arguments: Arguments::Json(valid.arguments().clone()),
                ..call
            };
            let again = HYDRATOR.hydrate(&again);
            assert!(matches!(again, Ok(Hydrated::Ready(again)) if again.repaired().is_empty()));
        }
        Ok(other) => panic!("the tool has a schema: {other:?}"),
        Err(error) => assert!(error.to_string().len() < 16 * 1024),
    }
});
