//! Arguments of a call: parsed, repaired, decoded and validated against a schema with every
//! keyword.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use picktools::{Access, Catalog};
use picktools_call::{HydratedCall, Hydrator};
use picktools_provider::{Arguments, ToolCall};

static HYDRATOR: LazyLock<Hydrator> = LazyLock::new(|| {
    let entries = include_bytes!("../tools.json");
    Hydrator::new(
        Catalog::from_slice(entries, "tools.json", None).expect("the entries are valid"),
        &Access::default(),
    )
    .expect("the access policy is valid")
});

fuzz_target!(|text: &str| {
    let call = ToolCall {
        id: None,
        name: "everything".to_owned(),
        arguments: Arguments::Text(text.to_owned()),
    };
    match HYDRATOR.hydrate(&call) {
        Ok(HydratedCall::Ready(valid)) => {
            // Accepted arguments are accepted again without a change.
            let repeated_call = ToolCall {
                arguments: Arguments::Json(valid.arguments().clone()),
                ..call
            };
            let repeated = HYDRATOR.hydrate(&repeated_call);
            assert!(
                matches!(repeated, Ok(HydratedCall::Ready(valid)) if valid.repaired().is_empty())
            );
        }
        Ok(other) => panic!("the tool has a schema: {other:?}"),
        Err(error) => assert!(error.to_string().len() < 16 * 1024),
    }
});
