//! `picktools import`, and the use of its inputs as catalogs.

use std::fs;

use serde_json::Value;

use crate::cli::{answer, json, picktools, refusal, says, stderr, stdout};

const LIBRARY: &str = "fixtures/openapi/library.yaml";

/// Imports, and returns the names of the tools, the messages, and the exit code.
fn import(arguments: &[&str]) -> (Vec<String>, String, Option<i32>) {
    let output = picktools(&[&["import", "openapi"], arguments].concat())
        .output()
        .expect("it runs");
    let tool =
        |line: &str| serde_json::from_str::<Value>(line).expect("a line is JSON")["id"].to_string();
    let names = stdout(&output)
        .lines()
        .map(|line| tool(line).trim_matches('"').to_owned())
        .collect();
    (names, stderr(&output), output.status.code())
}

#[test]
fn import_openapi_reports_left_out_operations() {
    let (tools, said, code) = import(&[LIBRARY]);
    assert_eq!((tools.len(), code), (6, Some(1)));
    assert!(
        said.contains("GET /loans") && said.contains("refers to another document"),
        "{said}"
    );
    assert!(
        said.contains(
            "imported 6 tools from 1 documents; 1 operations left out, 0 documents refused"
        ),
        "{said}"
    );
    assert_eq!(import(&["fixtures/openapi/kiosk.json"]).2, Some(0));
}

#[test]
fn import_openapi_selects_by_pattern() {
    let chosen = |arguments: &[&str]| import(&[&[LIBRARY], arguments].concat()).0;
    assert_eq!(
        chosen(&["--only", "add*", "--only", "library/put*"]),
        ["library/addBook", "library/putCover"]
    );
    assert_eq!(
        chosen(&["--only", "*ook*", "--except", "library/*_id"]),
        ["library/books_search", "library/addBook"]
    );
    assert_eq!(
        chosen(&["--only", "putCover", "--source", "mine"]),
        ["mine/putCover"]
    );
    assert!(
        refusal(&["import", "openapi", LIBRARY, "--only", "["])
            .contains("--only: invalid pattern \"[\"")
    );
}

#[test]
fn import_openapi_marks_deletes_as_unsafe() {
    let delete = |arguments: &[&str]| {
        let only = &["import", "openapi", LIBRARY, "--only", "delete*"];
        let output = picktools(&[only, arguments].concat())
            .output()
            .expect("it runs");
        serde_json::from_str::<Value>(&stdout(&output)).expect("it is one tool")["annotations"]["destructiveHint"]
            .clone()
    };
    assert_eq!(delete(&[]), true);
    assert_eq!(delete(&["--allow-deletes"]), Value::Null);
}

#[test]
fn import_openapi_folder_survives_a_bad_document() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("within")).expect("a folder");
    for (name, text) in [
        (
            "a.json",
            "{\"openapi\": \"3.0.0\", \"paths\": {\"/a\": {\"get\": {}}}}",
        ),
        ("broken.json", "{\"openapi\": \"3.0.0\", \"paths\": {"),
        ("other.yaml", "services: {}\n"),
        ("tools.json", "[{\"name\": \"a\", \"parameters\": {}}]"),
        ("within/b.yml", "openapi: 3.1.0\npaths: {/b: {post: {}}}\n"),
        ("within/README.md", "nothing"),
    ] {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let (tools, said, code) = import(&[&folder.path().display().to_string()]);
    assert_eq!(
        (tools, code),
        (vec!["a/get_a".to_owned(), "b/post_b".to_owned()], Some(1))
    );
    for (file, reason) in [
        ("broken.json", "line 1, column"),
        ("other.yaml", "not an OpenAPI document"),
        ("tools.json", "pass it to --catalog"),
    ] {
        assert!(
            said.lines()
                .any(|line| line.contains(file) && line.contains(reason)),
            "{file}: {said}"
        );
    }
    assert!(said.contains("3 documents refused"), "{said}");
}

#[test]
fn openapi_document_is_a_catalog_for_every_command() {
    let picks = json(&[
        "pick",
        "add a book to a shelf",
        "--catalog",
        LIBRARY,
        "--catalog",
        "fixtures/openapi/kiosk.json",
        "--json",
    ]);
    assert_eq!(picks["picks"][0]["tool"]["name"], "addBook");
    let said = picktools(&["pick", "books", "--catalog", LIBRARY])
        .output()
        .expect("it runs");
    assert!(stderr(&said).contains("GET /loans"), "{}", stderr(&said));
    let written = answer(&[
        "translate",
        "--provider",
        "openai",
        "--catalog",
        "fixtures/openapi/kiosk.json",
    ]);
    assert!(written.contains("buyTicket") && !written.contains("kiosk.example"));
    let yaml = fs::read_to_string(crate::support::fixture("openapi/library.yaml"))
        .expect("it can be read");
    let output = picktools(&["resolve", "addBook", "--catalog", "-"])
        .stdin(says(yaml))
        .output()
        .expect("it runs");
    assert!(
        stdout(&output).contains("town_library/addBook"),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
}
