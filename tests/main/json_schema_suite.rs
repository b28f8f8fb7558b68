//! The figures of the JSON-Schema-Test-Suite (`scripts/check-json-schema.sh`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use picktools::Catalog;
use picktools::catalog::FaultKind;
use picktools::schema::{JsonSchema, SchemaCompiler};
use serde_json::{Value, json};

/// The folders of the drafts, each with the identifier of its schemas.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    (
        "draft2019-09",
        "https://json-schema.org/draft/2019-09/schema",
    ),
    (
        "draft2020-12",
        "https://json-schema.org/draft/2020-12/schema",
    ),
];

/// The counts of a draft.
#[derive(Debug, Default)]
struct Counts {
    /// Tests in all.
    tests: usize,
    /// Tests with the right result.
    right: usize,
    /// Tests of schemas that are no objects, which a tool cannot have.
    no_object: usize,
    /// Tests of schemas that are refused, such as those with remote references.
    refused: usize,
    /// Tests with a wrong result of a schema with reported keywords.
    reported: usize,
    /// Tests with a wrong result that nothing reports.
    wrong: usize,
}

#[test]
#[ignore = "needs the suite, which scripts/check-json-schema.sh fetches"]
fn json_schema_suite_has_no_silent_errors() {
    let suite = std::env::var("PICKTOOLS_JSON_SCHEMA_SUITE").expect("the script sets the folder");
    println!("| draft | tests | right | no object | refused | reported | wrong |");
    println!("|---|---|---|---|---|---|---|");
    for (draft, identifier) in DRAFTS {
        let mut counts = Counts::default();
        let mut wrong: BTreeMap<String, usize> = BTreeMap::new();
        for entry in fs::read_dir(Path::new(&suite).join(draft)).expect("the suite has the draft") {
            let path = entry.expect("the folder is readable").path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let bytes = fs::read(&path).expect("the file is readable");
            let cases: Vec<Value> = serde_json::from_slice(&bytes).expect("it is JSON");
            let file = path.file_stem().expect("it has a name").to_string_lossy();
            for case in cases {
                let before = counts.wrong;
                run(&case, identifier, &mut counts);
                if counts.wrong > before {
                    *wrong.entry(file.to_string()).or_default() += counts.wrong - before;
                }
            }
        }
        println!(
            "| {draft} | {} | {} | {} | {} | {} | {} |",
            counts.tests,
            counts.right,
            counts.no_object,
            counts.refused,
            counts.reported,
            counts.wrong
        );
        assert_eq!(counts.wrong, 0, "{draft}: wrong by file: {wrong:?}");
        assert!(counts.tests > 600 && counts.right * 100 > counts.tests * 89);
    }
}

/// Runs the tests of one schema.
fn run(case: &Value, identifier: &str, counts: &mut Counts) {
    let tests = case["tests"].as_array().expect("a case has tests");
    counts.tests += tests.len();
    let mut schema = case["schema"].clone();
    let Some(object) = schema.as_object_mut() else {
        counts.no_object += tests.len();
        return;
    };
    object.entry("$schema").or_insert_with(|| identifier.into());
    let tool = json!([{"name": "tool", "parameters": schema}]);
    let Ok(catalog) = Catalog::from_slice(tool.to_string().as_bytes(), "suite", None) else {
        counts.refused += tests.len();
        return;
    };
    let has_notice = catalog
        .notices()
        .iter()
        .any(|notice| notice.kind == FaultKind::UncheckedKeyword);
    let Ok(validator) = JsonSchema.compile(&schema) else {
        counts.refused += tests.len();
        return;
    };
    for test in tests {
        let is_right = Value::Bool(validator.accepts(&test["data"])) == test["valid"];
        match (is_right, has_notice) {
            (true, _) => counts.right += 1,
            (false, true) => counts.reported += 1,
            (false, false) => counts.wrong += 1,
        }
    }
}
