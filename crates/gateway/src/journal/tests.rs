//! Tests of written entries, of watchers, and of a disk that refuses.

use picktools::{Catalog, Engine, PickOptions, Query, Tool};
use picktools_audit::{AuditSettings, Record, verify};
use picktools_provider::Arguments;
use picktools_state::StateError;
use serde_json::{Value, json};

use super::entry::RewrittenArguments;
use super::*;
use crate::settings::Settings;
use crate::snapshot::UpstreamTools;

fn engine() -> Engine {
    let tools = (0..60).map(|number| {
        let mut tool =
            Tool::without_arguments(format!("tool_{number}"), format!("Does the thing {number}"));
        tool.source = Some("up".to_owned());
        tool.id = tool.qualified_name();
        tool
    });
    Engine::new(Catalog::from_tools(tools).expect("a catalog")).expect("an engine")
}

fn snapshot(engine: &Engine, settings: Settings) -> Arc<Snapshot> {
    let tools = engine.catalog().tools().expect("readable").iter();
    let tools = tools
        .map(|tool| json!({"name": tool.name, "description": tool.description, "inputSchema": {}}));
    let transport = picktools_import::mcp::ServerTransport::Stdio {
        command: "up".to_owned(),
        arguments: Vec::new(),
        variables: std::collections::BTreeMap::new(),
        folder: None,
        inherit: Vec::new(),
    };
    let server = picktools_import::mcp::Server {
        name: "up".to_owned(),
        transport,
        tools: picktools_import::mcp::ToolFilter::default(),
        call_timeout: None,
        scope: None,
    };
    let rules = settings.upstream("up");
    let upstream_tools = [UpstreamTools {
        server,
        rules,
        tools: tools.collect(),
        instructions: None,
    }];
    Arc::new(
        Snapshot::build(Arc::new(settings), None, &upstream_tools, None, None).expect("a snapshot"),
    )
}

fn select(journal: &Journal, engine: &Engine, request: &str) {
    let (query, options) = (Query::new(request), PickOptions::default());
    let selection = engine.pick(&query, &options).expect("a selection");
    let (session, time) = (Some("session 1"), Duration::from_micros(200));
    let (query, options, selection) = (&query, &options, &selection);
    journal.record_selection(&SelectionEvent {
        key: "ci",
        role: "default",
        engine,
        session,
        via: RequestRoute::Pick,
        query,
        options,
        selection,
        time,
    });
}

fn audit(settings: &AuditSettings) -> Option<AuditWriter> {
    Some(AuditWriter::open(settings.clone()).expect("it opens"))
}

fn read_records(settings: &AuditSettings) -> Vec<Value> {
    let verified = verify(&settings.folder, &mut |_| ()).expect("an audit");
    assert_eq!(verified.broken, [], "the chain is intact");
    let mut records = Vec::new();
    for entry in std::fs::read_dir(&settings.folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path
            .extension()
            .is_some_and(|extension| extension == "jsonl")
        {
            let text = std::fs::read_to_string(path).expect("UTF-8");
            records.extend(
                text.lines()
                    .map(|line| serde_json::from_str::<Value>(line).expect("JSON")),
            );
        }
    }
    records.sort_by_key(|record| record["number"].as_u64());
    records
}

#[test]
fn watchers_receive_written_entries() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings::new(folder.path().join("audit"));
    let journal = Journal::open(audit(&settings)).expect("a journal");
    let mut watched = journal.subscribe();
    let engine = engine();
    let snapshot = snapshot(&engine, Settings::default());
    journal.record_policy(&snapshot);
    journal.record_policy(&snapshot);
    select(
        &journal,
        &snapshot.engine,
        "do the thing 7\n\u{0}\u{2028}with \"quotes\"",
    );
    journal.flush();
    drop(journal);
    let records = read_records(&settings);
    let kinds: Vec<&str> = records
        .iter()
        .filter_map(|record| record["kind"].as_str())
        .collect();
    // An access policy that no role has gets an entry of its own before its first use.
    assert_eq!(kinds, ["policy", "policy", "selection"], "{records:?}");
    for record in records {
        let mut entry =
            serde_json::to_value(&*watched.try_recv().expect("an entry")).expect("JSON");
        let chained = ["version", "previous"].map(|name| (name.to_owned(), record[name].clone()));
        entry.as_object_mut().expect("an object").extend(chained);
        assert_eq!(entry, record);
    }
    assert!(watched.try_recv().is_err());
}

#[test]
fn concurrent_entries_are_numbered_without_gaps() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings {
        max_bytes: 40_000,
        keep: 3,
        ..AuditSettings::new(folder.path().join("audit"))
    };
    let journal = Journal::open(audit(&settings)).expect("a journal");
    let engine = engine();
    let snapshot = snapshot(&engine, Settings::default());
    journal.record_policy(&snapshot);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (journal, snapshot) = (&journal, &snapshot);
            scope.spawn(move || {
                for number in 0..100 {
                    select(
                        journal,
                        &snapshot.engine,
                        &format!("do the thing {number} for {thread}"),
                    );
                }
            });
        }
    });
    drop(journal);
    let records = read_records(&settings);
    let numbers: Vec<u64> = records
        .iter()
        .filter_map(|record| record["number"].as_u64())
        .collect();
    assert!(numbers[0] > 1, "the first files were removed");
    assert_eq!(
        numbers,
        (numbers[0]..=*numbers.last().expect("records")).collect::<Vec<_>>()
    );
    assert_eq!(
        (&records[0]["kind"], &records[0]["changed"]),
        (&json!("policy"), &json!(["file"]))
    );
    assert_eq!(
        std::fs::read_dir(&settings.folder)
            .expect("the folder")
            .count(),
        3 + 3,
        "head, lock and catalogs"
    );
    // Every remaining selection can be replayed with the remaining records.
    let mut accesses = std::collections::BTreeSet::new();
    picktools_audit::records::<StateError>(&settings.folder, |read| {
        match read.record {
            Record::Policy(policy) => accesses.extend(policy.access.into_keys()),
            Record::Selection(selection) => {
                assert!(
                    accesses.contains(&selection.access.expect("a digest")),
                    "{}",
                    read.number
                );
            }
            _ => {}
        }
        Ok(true)
    })
    .expect("it is read");
    let catalog = picktools_audit::catalog(&settings.folder, snapshot.engine.catalog().digest())
        .expect("a catalog");
    assert_eq!(catalog.digest(), snapshot.engine.catalog().digest());
}

#[test]
fn secrets_are_redacted_and_sizes_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings::new(folder.path().join("audit"));
    let journal = Journal::open(audit(&settings)).expect("a journal");
    let engine = engine();
    select(
        &journal,
        &engine,
        "do the thing 3 with sk-live-abcdefghijklmnop1234 for ada@example.org",
    );
    select(
        &journal,
        &engine,
        &"\u{1}".repeat(picktools::query::MAX_QUERY_BYTES),
    );
    let called = |arguments: Arguments| CallEntry {
        key: "ci".into(),
        role: "default".into(),
        session: "session 1".into(),
        requested: "up__tool_1".to_owned(),
        tool: None,
        deprecated: false,
        arguments,
        rewritten: None,
    };
    let secret = json!({"user": "ada", "password": "hunter2", "note": "Bearer abcdefgh12345678", "n": [1, {"otp": 7}]});
    journal
        .record_call(|| called(Arguments::Json(secret.clone())))
        .finish("done");
    journal
        .record_call(|| called(Arguments::Text(secret.to_string())))
        .finish("failed");
    journal
        .record_call(|| called(Arguments::Json(json!({"a": vec!["x".repeat(5_000); 50]}))))
        .finish("done");
    drop(journal.record_call(|| called(Arguments::Json(json!({})))));
    drop(journal);
    let records = read_records(&settings);
    let text = json!(records).to_string();
    for secret in ["sk-live", "ada@example", "hunter2", "abcdefgh12345678"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert_eq!(records[1]["redacted"], true);
    assert_eq!(
        records[1]["query"]["text"],
        "do the thing 3 with [redacted] for [redacted]"
    );
    assert!(
        records[2].get("query").is_none() && records[2]["too_large"].is_u64(),
        "{}",
        records[2]
    );
    let descriptions = json!({"user": "ada", "password": "[redacted]", "note": "Bearer [redacted]", "n": [1, {"otp": "[redacted]"}]});
    assert_eq!(
        (&records[3]["arguments"], &records[3]["outcome"]),
        (&descriptions, &json!("done"))
    );
    assert_eq!(
        (&records[4]["arguments"], &records[4]["outcome"]),
        (&descriptions, &json!("failed"))
    );
    assert!(records[5]["arguments_too_large"].is_u64());
    assert_eq!(records[6]["outcome"], "cancelled", "the caller went away");
}

#[test]
fn journal_refuses_while_entries_cannot_be_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings::new(folder.path().join("audit"));
    let journal = Journal::open(audit(&settings)).expect("a journal");
    let engine = engine();
    select(&journal, &engine, "do the thing 1");
    journal.flush();
    journal.ready().expect("the journal is ready");
    std::fs::remove_dir_all(&settings.folder).expect("it is removed");
    std::fs::write(&settings.folder, "in its place").expect("a file");
    select(&journal, &engine, "do the thing 2");
    journal.flush();
    let refusal = journal.ready().expect_err("it cannot be written");
    assert_eq!(refusal.code.name(), "not_audited");
    assert!(journal.fault().is_some());
    std::fs::remove_file(&settings.folder).expect("it is removed");
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while journal.ready().is_err() && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    journal.ready().expect("there is a folder again");
    drop(journal);
    let text =
        std::fs::read_to_string(settings.folder.join("audit-000000000003.jsonl")).expect("a file");
    assert!(
        text.contains("do the thing 2"),
        "the kept entry is written: {text}"
    );
    let verified = verify(&settings.folder, &mut |_| ()).expect("an audit");
    assert!(
        !verified.broken.is_empty(),
        "the missing records are reported"
    );
}

#[test]
fn decision_is_recorded_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = AuditSettings::new(folder.path().join("audit"));
    let journal = Journal::open(audit(&settings)).expect("a journal");
    let definition = || ApprovalSubject::Definition {
        id: "up/a".to_owned(),
        digest: "1".to_owned(),
    };
    let call = || ApprovalSubject::Call {
        id: "7".to_owned(),
        tool: "up/a".to_owned(),
        shown: "up/a()".to_owned(),
    };
    for (subject, decision, by) in [
        (definition(), "denied", Some("ops")),
        (definition(), "denied", None),
        (definition(), "approved", None),
        (definition(), "approved", None),
        (call(), "allowed", None),
        (call(), "allowed", None),
    ] {
        journal.record_approval(Approval {
            subject,
            decision,
            by: by.map(str::to_owned),
        });
    }
    drop(journal);
    let descriptions: Vec<String> = read_records(&settings)
        .iter()
        .map(|record| format!("{} {} {}", record["of"], record["decision"], record["by"]))
        .collect();
    assert_eq!(
        descriptions,
        [
            "\"definition\" \"denied\" {\"key\":\"ops\"}",
            "\"definition\" \"approved\" \"operator\"",
            "\"definition\" \"approved\" \"operator\"",
            "\"call\" \"allowed\" \"operator\"",
        ]
    );
}

#[test]
fn call_by_a_deprecated_alias_is_marked() {
    let entry = |deprecated: bool| CallEntry {
        key: "ci".into(),
        role: "default".into(),
        session: "session 1".into(),
        requested: "old_name".to_owned(),
        tool: Some(Arc::new(Tool::without_arguments("new_name", ""))),
        deprecated,
        arguments: Arguments::Json(json!({})),
        rewritten: None,
    };
    for deprecated in [true, false] {
        let content = entry(deprecated).into_content("done", Duration::ZERO);
        let super::entry::EntryContent::Call(content) = content else {
            panic!("it is a call")
        };
        assert_eq!(content.get("deprecated").is_some(), deprecated, "{content}");
    }
}

#[test]
fn rewritten_arguments_are_recorded_without_secrets() {
    let entry = |arguments: Value| CallEntry {
        key: "ci".into(),
        role: "default".into(),
        session: "session 1".into(),
        requested: "log_in".to_owned(),
        tool: None,
        deprecated: false,
        arguments: Arguments::Json(json!({"User": "ada"})),
        rewritten: Some(RewrittenArguments {
            by: "llm:m-1".to_owned(),
            arguments,
        }),
    };
    let content = |arguments: Value| match entry(arguments).into_content("done", Duration::ZERO) {
        super::entry::EntryContent::Call(content) => content,
        _ => panic!("it is a call"),
    };
    let recorded = content(json!({"user": "ada", "password": "hunter22"}));
    let redacted = json!({"user": "ada", "password": "[redacted]"});
    assert_eq!(
        recorded["rewritten"],
        json!({"by": "llm:m-1", "arguments": redacted})
    );
    assert_eq!(recorded["arguments"], json!({"User": "ada"}));
    let large = content(json!({"a": vec!["x".repeat(1_000); 100]}));
    assert!(
        large["rewritten"]["arguments_too_large"].is_u64(),
        "{large}"
    );
}
