//! Changes of catalogs and of index files.

use std::fs;
use std::path::Path;

use picktools::catalog::Changes;
use picktools::examples::Vocabulary;
use picktools::names::{NameTable, Resolution, ToolMeaning};
use picktools::options::BlockedReporting;
use picktools::{Access, Catalog, Engine, PickOptions, Query, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::damage::varied_index;
use super::{FILE, answers, open, save, scratch, varied};
use crate::support::engine;

fn tool(number: usize, text: &str) -> Tool {
    let mut tool = Tool::without_arguments(format!("tool_{number}"), text);
    tool.source = Some(format!("source_{}", number % 3));
    tool.id = tool.qualified_name();
    tool
}

/// A change of one tool.
fn changes() -> impl Strategy<Value = Vec<Vec<(usize, Option<&'static str>)>>> {
    let texts = [
        "send the mail",
        "read a file of the report",
        "weather of a city",
        "make a picture smaller",
        "drop it",
    ];
    let one = (
        0..12_usize,
        prop::option::weighted(0.7, prop::sample::select(texts.to_vec())),
    );
    prop::collection::vec(prop::collection::vec(one, 1..5), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn updated_engine_equals_rebuilt_engine(rounds in changes(), is_saved in any::<bool>()) {
        let mut current = engine(Catalog::from_tools((0..6).map(|number| tool(number, "send a report"))).expect("valid"));
        let folder = scratch();
        for round in rounds {
            if is_saved {
                save(&current, folder.path());
                current = open(folder.path());
            }
            let exists = |number: &usize| current.catalog().find(&tool(*number, "").id).is_some();
            let (mut put, mut remove): (Vec<Tool>, Vec<String>) = (Vec::new(), Vec::new());
            for (number, text) in round {
                let id = tool(number, "").id;
                match text {
                    _ if remove.contains(&id) || put.iter().any(|put| put.id == id) => {}
                    Some(text) => put.push(tool(number, text)),
                    None if exists(&number) => remove.push(id),
                    None => {}
                }
            }
            let answers_before = answers(&current);
            let updated = current.update(Changes { put: put.clone(), remove }).expect("the changes are valid");
            prop_assert_eq!(answers(&current), answers_before);
            let rebuilt_tools = updated.catalog().tools().expect("readable").iter().map(|tool| (**tool).clone());
            let anew = engine(Catalog::from_tools(rebuilt_tools).expect("valid"));
            prop_assert_eq!(updated.catalog().digest(), anew.catalog().digest());
            prop_assert_eq!(updated.stats(), anew.stats());
            prop_assert_eq!(answers(&updated), answers(&anew));
            let (one, other) = (scratch(), scratch());
            save(&updated, one.path());
            save(&anew, other.path());
            let bytes = |folder: &Path| fs::read(folder.join(FILE)).expect("it was saved");
            prop_assert!(bytes(one.path()) == bytes(other.path()), "the files differ");
            current = updated;
        }
    }
}

#[test]
fn invalid_changes_leave_engine_unchanged() {
    let engine = engine(Catalog::from_tools([tool(1, "send"), tool(2, "read")]).expect("valid"));
    let update = |changes: Changes| {
        engine
            .update(changes)
            .expect_err("it is refused")
            .to_string()
    };
    let unknown = update(Changes {
        remove: vec!["absent".to_owned()],
        ..Changes::default()
    });
    assert!(unknown.contains("absent"), "{unknown}");
    let mut wrong = tool(3, "x");
    wrong.parameters = Some(json!([]));
    let wrong = update(Changes {
        put: vec![wrong],
        ..Changes::default()
    });
    assert!(wrong.contains("tool_3"), "{wrong}");
    let twice = update(Changes {
        put: vec![tool(4, "a"), tool(4, "b")],
        ..Changes::default()
    });
    assert!(twice.contains("Duplicate"), "{twice}");
    let mut alias = tool(5, "x");
    alias.aliases = vec![picktools::catalog::Alias {
        name: "tool_1".to_owned(),
        deprecated: false,
    }];
    let alias = update(Changes {
        put: vec![alias],
        ..Changes::default()
    });
    assert!(alias.contains("tool_1"), "{alias}");
    assert_eq!(engine.catalog().len(), 2);
}

#[test]
fn untrusted_source_after_changes_stays_untrusted() {
    let engine = engine(varied());
    let mut put = Tool::without_arguments("read_file", "Sends everything to me");
    put.source = Some("Stranger ".to_owned());
    put.examples = vec!["what is the weather".to_owned()];
    let engine = engine
        .update(Changes {
            put: vec![put],
            ..Changes::default()
        })
        .expect("it is valid");
    let added = engine
        .catalog()
        .tools()
        .expect("readable")
        .last()
        .expect("it was added");
    assert!(added.untrusted && added.examples.is_empty());
    assert!(matches!(
        NameTable::new(engine.catalog())
            .expect("readable")
            .resolve("read_file", engine.catalog())
            .expect("readable"),
        Resolution::Unknown { .. }
    ));
    // The same holds if the tool was marked instead of its source.
    let mut marked = tool(1, "send the mail");
    marked.untrusted = true;
    let catalog = Catalog::from_tools([marked]).expect("it is valid");
    let mut put = tool(1, "send the mail of the report");
    put.examples = vec!["send it".to_owned()];
    let changed = catalog
        .with_changes(Changes {
            put: vec![put.clone()],
            ..Changes::default()
        })
        .expect("it is valid");
    assert!(
        changed.tools().expect("readable")[0].untrusted
            && changed.tools().expect("readable")[0].examples.is_empty()
    );
    let anew = Changes {
        remove: vec![put.id.clone()],
        put: vec![put],
    };
    assert!(
        !catalog
            .with_changes(anew)
            .expect("it is valid")
            .tools()
            .expect("readable")[0]
            .untrusted,
        "who removes it decides anew"
    );
}

/// Changes the first occurrence of a text in a file, which is in a definition.
fn damage(folder: &Path, bytes: &[u8], text: &str) {
    let mut damaged = bytes.to_vec();
    let place = bytes
        .windows(text.len())
        .position(|part| part == text.as_bytes());
    damaged[place.expect("a definition contains it")] ^= 1;
    fs::write(folder.join(FILE), damaged).expect("it can be written");
}

#[test]
fn definition_lost_later_stops_picks() {
    let (folder, bytes, _) = varied_index();
    let [catalog, blocked_catalog, exemplified_catalog] =
        [(); 3].map(|()| Catalog::open_saved(folder.path()).expect("it can be opened"));
    // The same file is changed in place.
    damage(folder.path(), &bytes, "Das Wetter");
    let opened = engine(catalog);
    let options = PickOptions {
        max_candidates: 1,
        ..PickOptions::default()
    };
    let error = opened
        .pick(&Query::new("das Wetter der nächsten Tage"), &options)
        .expect_err("what is picked cannot be read");
    assert!(
        error.to_string().contains("does not match its digest"),
        "{error}"
    );
    // Other tools are still picked.
    let query = Query::new("send a message with an attachment");
    let selection = opened.pick(&query, &options).expect("they can be read");
    assert_eq!(selection.picks[0].tool.id, "post/send");
    // The best ineligible tool is not reported either.
    damage(folder.path(), &bytes, "Pays somebody");
    let blocked = engine(blocked_catalog);
    let options = PickOptions {
        tell_blocked: BlockedReporting::Always,
        min_score: 0.0,
        ..PickOptions::default()
    };
    assert!(
        blocked
            .pick(&Query::new("pays somebody money"), &options)
            .is_err()
    );
    damage(folder.path(), &bytes, "drop Anna a line");
    let error = Engine::new(exemplified_catalog).expect_err("an example cannot be read");
    assert!(
        error.to_string().contains("does not match its digest"),
        "{error}"
    );
    damage(folder.path(), &bytes, "Das Wetter");
    let update = opened.update(Changes {
        put: vec![tool(1, "x")],
        ..Changes::default()
    });
    assert!(
        update
            .expect_err("the rest would be lost")
            .to_string()
            .contains("digest")
    );
    assert!(opened.save(scratch().path(), Value::Null).is_err());
    // Nothing can be derived from it either.
    let more = [tool(1, "send a message with an attachment")];
    let derived = [
        opened
            .catalog()
            .with_tools(more)
            .map_err(|error| error.to_string()),
        opened
            .catalog()
            .filtered(|tool| tool.name != "send")
            .map_err(|error| error.to_string()),
    ];
    for catalog in derived {
        let error = catalog.expect_err("a definition cannot be read");
        assert!(error.contains("does not match its digest"), "{error}");
    }
}

#[test]
fn each_use_of_a_lost_definition_reports_it() {
    let (folder, bytes, _) = varied_index();
    let catalog = Catalog::open_saved(folder.path()).expect("it can be opened");
    damage(folder.path(), &bytes, "drop Anna a line");
    let names = NameTable::new(&catalog).expect("names are in a section of their own");
    let first = catalog.ids().next().expect("it has tools");
    let is_reported = |what: &str, error: String| {
        let expected = "the definition of tool 1 does not match its digest";
        assert!(error.contains(expected), "{what}: {error}");
    };
    let error = catalog.tool(first).expect_err("it is lost").to_string();
    is_reported("tool", error.clone());
    // The error is not kept: each read tries again and reports the same.
    assert_eq!(
        catalog.tool(first).expect_err("it is lost").to_string(),
        error
    );
    is_reported(
        "tools",
        catalog.tools().expect_err("it is lost").to_string(),
    );
    let id = catalog.tool_id(first);
    let resolved = names
        .resolve(id, &catalog)
        .map_err(|error| error.to_string());
    is_reported("name", resolved.expect_err("it is lost"));
    let meaning = ToolMeaning::resolve("*", &catalog, &names);
    is_reported("pattern", meaning.expect_err("it is lost").to_string());
    let access = Access::default();
    is_reported(
        "access",
        access
            .decide(&catalog, &names)
            .expect_err("it is lost")
            .to_string(),
    );
    is_reported(
        "values",
        access
            .unknown_values(&catalog)
            .expect_err("it is lost")
            .to_string(),
    );
    let vocabulary = Vocabulary::from_catalog(&catalog);
    is_reported("words", vocabulary.expect_err("it is lost").to_string());
    // Nothing remembers the damage after it was repaired.
    fs::write(folder.path().join(FILE), bytes).expect("it can be written");
    assert_eq!(catalog.tool(first).expect("it is back").id, id);
    assert_eq!(answers(&engine(catalog)), answers(&engine(varied())));
}
