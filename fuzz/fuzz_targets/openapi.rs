//! An OpenAPI document in JSON or YAML, whose operations are then read as a catalog.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools::{Catalog, CatalogOptions};
use picktools_import::openapi;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(document) = openapi::parse_document(text) else {
        return;
    };
    for operation in &document.operations {
        for (argument, _) in &operation.http.arguments {
            assert!(
                operation.parameters["properties"].get(argument).is_some(),
                "{argument} is not in the schema"
            );
        }
    }
    let options = CatalogOptions {
        readers: picktools_import::readers(),
        ..CatalogOptions::default()
    };
    let catalog = options
        .read(data, "fuzz")
        .expect("an invalid operation is left out");
    assert_eq!(
        catalog.len() + catalog.notices().len(),
        document.operations.len() + document.left_out.len()
    );
    let lines: String = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| serde_json::to_string(tool).expect("JSON") + "\n")
        .collect();
    if !catalog.is_empty() {
        assert_eq!(
            Catalog::from_slice(lines.as_bytes(), "saved", None)
                .expect("its tools are valid")
                .tools()
                .expect("readable"),
            catalog.tools().expect("readable")
        );
    }
});
