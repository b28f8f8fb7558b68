//! Values in requests: they indicate which arguments a tool accepts, and little else.

use picktools::selection::ValueKind;
use picktools::{Catalog, Mode, PickOptions, Tool};
use serde_json::{Value, json};

use crate::support::{catalog, engine, ids, in_mode, pick, tool};

fn taking(source: &str, name: &str, description: &str, parameters: Value) -> Tool {
    let mut tool = tool(source, name, description);
    tool.parameters = Some(json!({"type": "object", "properties": parameters}));
    tool
}

/// Tools that the words of values match by mistake: notes, logs, servers and lines are the business
/// of other tools.
fn tools() -> Vec<Tool> {
    let text = |what: &str| json!({"type": "string", "description": what});
    let (id, words) = (text("which one"), text("the words"));
    let disk = |name, description, parameters| taking("disk", name, description, parameters);
    vec![
        taking(
            "diary",
            "write_note",
            "Writes a note in the diary",
            json!({"heading": words, "entry": words}),
        ),
        taking(
            "diary",
            "find_notes",
            "Finds notes of a year, such as 2024",
            json!({"words": words}),
        ),
        taking(
            "clinic",
            "log_treatment",
            "Logs a treatment of a patient",
            json!({"patient": id, "remark": words}),
        ),
        taking(
            "clinic",
            "log_symptom",
            "Logs what a patient complains of",
            json!({"patient": id}),
        ),
        taking(
            "racks",
            "restart_server",
            "Restarts a server in a rack",
            json!({"host": id}),
        ),
        taking(
            "racks",
            "server_status",
            "Says how a server fares",
            json!({"host": id}),
        ),
        disk(
            "move_file",
            "Moves a file, or renames it",
            json!({"path": text("from"), "target_path": text("to")}),
        ),
        disk(
            "read_lines",
            "Shows some lines of a file",
            json!({"path": text(""), "from": {"type": "integer"}}),
        ),
        disk(
            "remove_file",
            "Removes a file for good",
            json!({"path": text("")}),
        ),
        taking(
            "post",
            "send_letter",
            "Sends a letter by e-mail",
            json!({"to": {"format": "email"}, "body": words}),
        ),
        taking(
            "post",
            "fetch_letters",
            "Fetches new letters",
            json!({"since": {"format": "date"}}),
        ),
        taking(
            "web",
            "save_bookmark",
            "Keeps a page for later",
            json!({"page": {"format": "uri"}}),
        ),
        taking("web", "look_up", "Looks words up", json!({"words": words})),
    ]
}

#[test]
fn file_names_do_not_mislead_the_ranking() {
    let engine = engine(catalog(tools()));
    for (request, wanted) in [
        ("rename notes.txt to notes-2024.txt", "disk/move_file"),
        ("lines 300-340 of server.log", "disk/read_lines"),
        ("remove /clinic/treatment/log.md", "disk/remove_file"),
    ] {
        let selection = pick(&engine, request, &in_mode(Mode::Keyword));
        assert_eq!(ids(&selection)[0], wanted, "{request}");
    }
}

#[test]
fn value_finds_tool_that_accepts_it_with_reason() {
    let engine = engine(catalog(tools()));
    for (request, wanted, kind, reason) in [
        (
            "get rid of old/report.pdf",
            "disk",
            ValueKind::Path,
            r#"accepts a path ("old/report.pdf")"#,
        ),
        (
            "jo@example.org",
            "post/send_letter",
            ValueKind::Email,
            r#"accepts an e-mail address ("jo@example.org")"#,
        ),
        (
            "anything after 2024-05-01?",
            "post/fetch_letters",
            ValueKind::Date,
            r#"accepts a date ("2024-05-01")"#,
        ),
        (
            "https://example.org/a",
            "web/save_bookmark",
            ValueKind::Url,
            r#"accepts a URL ("https://example.org/a")"#,
        ),
    ] {
        let all = PickOptions {
            min_score: 0.0,
            ..in_mode(Mode::Keyword)
        };
        let selection = pick(&engine, request, &all);
        let best = &selection.picks[0];
        assert!(
            best.tool.id.starts_with(wanted),
            "{request}: {}",
            best.tool.id
        );
        let keyword = best.provenance.keyword.as_ref().expect("keywords found it");
        let value = keyword
            .terms
            .iter()
            .find(|term| term.value == Some(kind))
            .expect("a parameter takes it");
        assert!(
            value.contribution > 0.0 && best.tool.parameters.is_some(),
            "{value:?}"
        );
        let parameters = best
            .tool
            .parameters
            .as_ref()
            .map(|schema| &schema["properties"]);
        assert!(
            parameters.is_some_and(|parameters| parameters.get(&value.meets).is_some()),
            "{value:?}"
        );
        assert!(best.reason.contains(reason), "{request}: {}", best.reason);
    }
}

#[test]
fn tool_named_in_quotes_or_as_identifier_is_found() {
    let mut all = tools();
    all.push(tool("racks", "job-4711", "Does what nobody else does"));
    let engine = engine(catalog(all));
    let options = PickOptions {
        max_candidates: 1,
        ..PickOptions::default()
    };
    for (request, wanted) in [
        (
            "with 'write_note', not with /tmp/a.txt or https://example.org",
            "diary/write_note",
        ),
        (
            "please use `save_bookmark` for jo@example.org",
            "web/save_bookmark",
        ),
        ("run job-4711 on notes.txt", "racks/job-4711"),
    ] {
        assert_eq!(
            ids(&pick(&engine, request, &options)),
            [wanted],
            "{request}"
        );
    }
}

#[test]
fn hostile_values_do_not_fail() {
    let engine = engine(Catalog::from_tools(tools()).expect("the tools are valid"));
    for part in [
        "\"", "'a ", "“", "a@", "://", "/a", "#1", "3 May ", "1-", "«x» ",
    ] {
        let selection = pick(
            &engine,
            &part.repeat((1 << 20) / part.len()),
            &PickOptions::default(),
        );
        assert!(selection.picks.len() <= 3, "{part:?}");
    }
}
