//! Saved indexes: an opened index gives the same bytes as the saved one.

mod changes;
mod damage;

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;

use picktools::catalog::{CatalogOptions, Conflicts};
use picktools::embed::{EmbedError, EmbedProgress, Embedder, StaticEmbedder, TextRole};
use picktools::examples::Examples;
use picktools::names::{NameTable, Resolution};
use picktools::saved::SavedError;
use picktools::{Access, Catalog, CatalogOptions as Options, Engine, Mode, PickOptions, Query};
use serde_json::{Value, json};

use self::damage::{Parts, varied_index};
use crate::support::{WORKPLACE, engine, fixture, workplace};

const FILE: &str = "picktools.index";

const REQUESTS: [&str; 6] = [
    "make this picture smaller",
    "use terminate_instance on the old web server, then post in the chat that it is done",
    "Refund the order of 12 May. Tell the customer by mail. Put a meeting into the calendar for Monday!",
    "send_email",
    "wie wird das Wetter morgen?",
    "?",
];

/// Returns all answers of an engine as text.
fn answers(engine: &Engine) -> Vec<String> {
    let roles = Access {
        roles: ["finance".to_owned(), "admin".to_owned()].into(),
        ..Access::default()
    };
    let denied = Access {
        deny_sources: ["chat".to_owned()].into(),
        allow_unsafe: true,
        ..Access::default()
    };
    let accesses = [Access::default(), roles, denied];
    let modes: &[Mode] = match engine.stats().model {
        Some(_) => &[Mode::Keyword, Mode::Semantic, Mode::Hybrid],
        None => &[Mode::Keyword],
    };
    let mut all = Vec::new();
    for request in REQUESTS {
        for (mode, access) in modes
            .iter()
            .flat_map(|mode| accesses.iter().map(move |access| (mode, access)))
        {
            let (mode, access) = (Some(*mode), access.clone());
            let options = PickOptions {
                mode,
                access,
                debug: true,
                max_candidates: 4,
                ..PickOptions::default()
            };
            all.push(match engine.pick(&Query::new(request), &options) {
                Ok(selection) => serde_json::to_string(&selection).expect("it serialises"),
                Err(error) => error.to_string(),
            });
        }
    }
    all
}

fn save(engine: &Engine, folder: &Path) {
    engine
        .save(folder, json!({"from": "a test"}))
        .expect("it can be saved");
}

fn open(folder: &Path) -> Engine {
    engine(Catalog::open_saved(folder).expect("it can be opened"))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A catalog with every feature: trusted and untrusted sources, a copy, aliases, examples, roles,
/// costs, duplicates, and unusual names.
fn varied() -> Catalog {
    let text = "Sends a message with an attachment to a person outside the company";
    let tool = |source: &str, name: &str, more: Value| {
        let mut entry = json!({"source": source, "name": name, "description": text, "parameters": {"type": "object",
            "properties": {"to": {"type": "string", "description": "the address"}}}});
        let members = entry.as_object_mut().expect("it is an object");
        members.extend(more.as_object().expect("it is an object").clone());
        entry
    };
    let entries = json!([
        tool(
            "mail",
            "send",
            json!({"aliases": [{"name": "mail_it"}, {"name": "dispatch", "deprecated": true}], "examples": ["drop Anna a line"]})
        ),
        tool("post", "send", json!({})),
        tool(
            "bank",
            "send_money",
            json!({"description": "Pays somebody", "safe": false, "cost": 2.5, "allowed_roles": ["finance"]})
        ),
        tool(
            "bank",
            "get_balance",
            json!({"description": "What is on an account", "capabilities": ["streaming"], "modes": ["read-only"]})
        ),
        tool("stranger", "bash", json!({"aliases": ["mail_me"]})),
        tool("stranger", "send_message", json!({"examples": ["pay me"]})),
        tool(
            "wetter",
            "get_forecast_für_städte",
            json!({"description": "Das Wetter der nächsten Tage", "title": "Vorhersage"})
        ),
    ]);
    let options = CatalogOptions {
        untrusted_sources: ["stranger".to_owned()].into(),
        conflicts: Conflicts::Warn,
        ..Options::default()
    };
    options
        .read(entries.to_string().as_bytes(), "varied.json")
        .expect("the entries are valid")
}

#[test]
fn opened_index_equals_saved_index() {
    let keywords = Engine::builder(varied())
        .keyword_only()
        .build()
        .expect("keywords need nothing");
    let empty = engine(Catalog::from_tools([]).expect("no tool is wrong"));
    for (engine, is_keywords) in [
        (&*WORKPLACE, false),
        (&engine(varied()), false),
        (&keywords, true),
        (&empty, false),
    ] {
        let folder = scratch();
        save(engine, folder.path());
        let catalog = Catalog::open_saved(folder.path()).expect("it can be opened");
        assert_eq!(catalog.note(), Some(&json!({"from": "a test"})));
        assert_eq!(catalog.unknown_values(), engine.catalog().unknown_values());
        let notices = |catalog: &Catalog| {
            catalog
                .notices()
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(notices(&catalog), notices(engine.catalog()));
        let builder = Engine::builder(catalog.clone());
        let opened = if is_keywords {
            builder.keyword_only()
        } else {
            builder
        }
        .build()
        .expect("nothing is missing");
        assert_eq!(answers(&opened), answers(engine));
        assert_eq!(opened.stats(), engine.stats());
        assert_eq!(
            catalog.tools().expect("readable"),
            engine.catalog().tools().expect("readable")
        );
        // Saving an opened index gives the same file.
        let second_folder = scratch();
        save(&opened, second_folder.path());
        let bytes = |folder: &Path| fs::read(folder.join(FILE)).expect("it was saved");
        assert!(
            bytes(folder.path()) == bytes(second_folder.path()),
            "the files differ"
        );
    }
}

#[test]
fn names_in_opened_index_resolve_as_before() {
    let folder = scratch();
    let catalog = varied();
    save(&engine(catalog.clone()), folder.path());
    let opened = Catalog::open_saved(folder.path()).expect("it can be opened");
    let (names, read) = (
        NameTable::new(&catalog).expect("readable"),
        NameTable::new(&opened).expect("the index is whole"),
    );
    for name in [
        "send",
        "mail/send",
        "mail_it",
        "MailIt",
        "dispatch",
        "bash",
        "stranger/bash",
        "mail_me",
        "send_mony",
        "",
    ] {
        let resolved = names.resolve(name, &catalog).expect("readable");
        assert_eq!(
            read.resolve(name, &opened).expect("readable"),
            resolved,
            "{name}"
        );
    }
    let dispatch = read.resolve("dispatch", &opened).expect("readable");
    assert!(matches!(dispatch, Resolution::Tool(found) if found.deprecated));
    for (id, tool) in catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| (&tool.id, tool))
    {
        assert_eq!(
            opened.find(id).map(|id| opened.tool(id).expect("readable")),
            Some(tool)
        );
    }
    assert_eq!(opened.find("absent"), None);
}

#[test]
fn opened_index_accepts_skills_examples_and_model() {
    /// A model that embeds the first word only and counts its calls.
    struct FirstWord(
        std::sync::Arc<StaticEmbedder>,
        std::sync::atomic::AtomicUsize,
    );
    impl Embedder for FirstWord {
        fn identity(&self) -> &'static str {
            "first-word:1"
        }
        fn dimensions(&self) -> usize {
            self.0.dimensions()
        }
        fn embed(
            &self,
            role: TextRole,
            texts: &[&str],
            progress: EmbedProgress<'_>,
        ) -> Result<Vec<Vec<f32>>, EmbedError> {
            if role == TextRole::Document {
                self.1
                    .fetch_add(texts.len(), std::sync::atomic::Ordering::Relaxed);
            }
            let words: Vec<&str> = texts
                .iter()
                .map(|text| text.split(' ').next().unwrap_or_default())
                .collect();
            self.0.embed(role, &words, progress)
        }
    }
    let model = std::sync::Arc::new(FirstWord(
        StaticEmbedder::shared().expect("it is inside"),
        0.into(),
    ));
    let built = |catalog: Catalog| {
        let mut examples = Examples::default();
        examples.learn(
            "mail/send",
            "drop Anna a line",
            &picktools::examples::Vocabulary::default(),
        );
        let builder = Engine::builder(catalog)
            .embedder(model.clone() as std::sync::Arc<dyn Embedder>)
            .examples(examples);
        builder.build().expect("it can be built")
    };
    let embedded = || model.1.swap(0, std::sync::atomic::Ordering::Relaxed);
    let (folder, fresh) = (scratch(), built(varied()));
    save(&engine(varied()), folder.path());
    embedded();
    let opened = built(Catalog::open_saved(folder.path()).expect("it can be opened"));
    assert_eq!(
        embedded(),
        varied().len(),
        "the index has no vectors by that model"
    );
    assert_eq!(answers(&opened), answers(&fresh));
    save(&opened, folder.path());
    let opened = built(Catalog::open_saved(folder.path()).expect("it can be opened"));
    assert_eq!(embedded(), 0, "the index has them now");
    assert_eq!(answers(&opened), answers(&fresh));
}

#[test]
fn foreign_file_or_version_is_named_with_remedy() {
    let folder = scratch();
    let error = |folder: &Path| Catalog::open_saved(folder).expect_err("it cannot be opened");
    assert!(matches!(error(folder.path()), SavedError::Missing { .. }));
    assert!(matches!(
        error(&fixture("catalogs/workplace/tools.jsonl")),
        SavedError::Missing { .. }
    ));
    for (content, is_foreign) in [
        (&b""[..], true),
        (b"{}", true),
        (b"picktools index\n", false),
    ] {
        fs::write(folder.path().join(FILE), content).expect("it can be written");
        let error = error(folder.path());
        assert_eq!(
            matches!(error, SavedError::Foreign { .. }),
            is_foreign || content.len() < 20,
            "{error}"
        );
    }
    let (_kept, bytes, _) = varied_index();
    for version in [0, 1, 3, u32::MAX] {
        let mut other = bytes.clone();
        other[16..20].copy_from_slice(&version.to_le_bytes());
        fs::write(folder.path().join(FILE), other).expect("it can be written");
        let error = error(folder.path());
        assert!(
            matches!(error, SavedError::Version { found, .. } if found == version),
            "{error}"
        );
        assert!(
            error.to_string().contains("picktools index --out"),
            "{error}"
        );
    }
}

/// Checks that the index of each format version opens, or is rejected with a remedy.
#[test]
fn index_of_any_version_opens_or_names_remedy() {
    let refused = Catalog::open_saved(fixture("indexes/v1")).expect_err("an older format");
    assert!(
        matches!(refused, SavedError::Version { found: 1, .. }),
        "{refused}"
    );
    let stored = fixture("indexes/v2");
    let opened = open(&stored);
    let built = engine(Catalog::open(fixture("catalogs/terminal")).expect("it is valid"));
    assert_eq!(opened.catalog().digest(), built.catalog().digest());
    assert_eq!(
        answers(&opened),
        answers(&built),
        "raise FORMAT_VERSION, and keep the old file as one that is refused"
    );
}

/// Checks that the content of an index does not change within a format version: see
/// `FORMAT_VERSION`.
#[test]
fn index_of_fixture_catalog_is_unchanged() {
    let folder = scratch();
    save(&WORKPLACE, folder.path());
    let header = Parts::of(&fs::read(folder.path().join(FILE)).expect("it was saved")).header;
    let sections = header["sections"]
        .as_array()
        .expect("there are sections")
        .iter()
        .map(|section| {
            let text = |member: &str| section[member].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("name"), section["bytes"], text("checksum"))
        });
    insta::assert_snapshot!("index_sections", sections.collect::<Vec<_>>().join("\n"));
}

#[test]
fn second_writer_is_rejected_and_old_index_stays() {
    let folder = scratch();
    let engine = engine(varied());
    save(&engine, folder.path());
    let bytes_before = fs::read(folder.path().join(FILE)).expect("it was saved");
    let lock = File::options()
        .write(true)
        .open(folder.path().join("lock"))
        .expect("there is a lock");
    lock.lock().expect("nobody has it");
    let error = WORKPLACE
        .save(folder.path(), Value::Null)
        .expect_err("another writes");
    assert!(matches!(error, SavedError::Locked { .. }), "{error}");
    assert_eq!(
        fs::read(folder.path().join(FILE)).expect("it is there"),
        bytes_before
    );
    drop(lock);
    fs::write(
        folder.path().join(".picktools.index.tmp"),
        "half of what a writer wrote that was killed",
    )
    .expect("it can be written");
    save(&WORKPLACE, folder.path());
    assert_ne!(
        fs::read(folder.path().join(FILE)).expect("it is there"),
        bytes_before
    );
    let names: HashSet<_> = fs::read_dir(folder.path())
        .expect("it is there")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(
        names,
        [FILE, "lock"].map(Into::into).into(),
        "nothing else is left"
    );
}

#[test]
fn failed_write_is_reported_and_leaves_no_file() {
    let folder = scratch();
    fs::write(folder.path().join("file"), "").expect("it can be written");
    for path in [folder.path().join("file"), folder.path().join("file/below")] {
        let error = WORKPLACE
            .save(&path, Value::Null)
            .expect_err("it is no folder");
        assert!(matches!(error, SavedError::Write(_)), "{error}");
    }
    let long = json!("x".repeat(17 << 20));
    let error = WORKPLACE
        .save(folder.path().join("new"), long)
        .expect_err("the note is too long");
    assert!(matches!(error, SavedError::TooLarge { .. }), "{error}");
    assert!(!Catalog::is_saved(folder.path().join("new")));
}

#[test]
fn reader_keeps_old_index_during_replacement() {
    let folder = scratch();
    save(&WORKPLACE, folder.path());
    let reader = open(folder.path());
    save(&engine(varied()), folder.path());
    assert_eq!(
        answers(&reader),
        answers(&WORKPLACE),
        "definitions are read from the old file"
    );
    assert_eq!(open(folder.path()).catalog().digest(), varied().digest());
    let second_folder = scratch();
    save(&reader, second_folder.path());
    assert_eq!(
        open(second_folder.path()).catalog().digest(),
        WORKPLACE.catalog().digest()
    );
}

#[test]
fn concurrent_readers_see_complete_indexes_only() {
    let folder = scratch();
    let engines = [
        engine(varied()),
        engine(
            workplace()
                .filtered(|tool| tool.source.as_deref() == Some("chat"))
                .expect("readable"),
        ),
    ];
    let digests = engines
        .each_ref()
        .map(|engine| engine.catalog().digest().to_owned());
    save(&engines[0], folder.path());
    std::thread::scope(|scope| {
        for engine in &engines {
            scope.spawn(|| {
                for _ in 0..40 {
                    match engine.save(folder.path(), Value::Null) {
                        Ok(()) | Err(SavedError::Locked { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..80 {
                let opened = open(folder.path());
                assert!(digests.contains(&opened.catalog().digest().to_owned()));
                assert!(opened.catalog().tools().is_ok());
            }
        });
    });
}
