//! Saved indexes: an opened one answers to the byte as the one that was saved, and what is damaged, hostile, older or foreign is
//! an error and never a panic or another answer.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use picktools::catalog::{CatalogOptions, Changes, Conflicts};
use picktools::embed::{EmbedError, EmbedProgress, Embedder, Role, StaticEmbedder};
use picktools::examples::Examples;
use picktools::names::{NameTable, Resolution};
use picktools::options::TellBlocked;
use picktools::saved::SavedError;
use picktools::{Access, Catalog, CatalogOptions as Options, Engine, Mode, PickOptions, Query, Tool};
use proptest::prelude::*;
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

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

/// All that an engine answers, as text.
fn answers(engine: &Engine) -> Vec<String> {
    let roles = Access { roles: ["finance".to_owned(), "admin".to_owned()].into(), ..Access::default() };
    let denied = Access { deny_sources: ["chat".to_owned()].into(), allow_unsafe: true, ..Access::default() };
    let accesses = [Access::default(), roles, denied];
    let modes: &[Mode] = match engine.stats().model {
        Some(_) => &[Mode::Keyword, Mode::Semantic, Mode::Hybrid],
        None => &[Mode::Keyword],
    };
    let mut all = Vec::new();
    for request in REQUESTS {
        for (mode, access) in modes.iter().flat_map(|mode| accesses.iter().map(move |access| (mode, access))) {
            let (mode, access) = (Some(*mode), access.clone());
            let options = PickOptions { mode, access, debug: true, max_candidates: 4, ..PickOptions::default() };
            all.push(match engine.pick(&Query::new(request), &options) {
                Ok(selection) => serde_json::to_string(&selection).expect("it serialises"),
                Err(error) => error.to_string(),
            });
        }
    }
    all
}

fn save(engine: &Engine, folder: &Path) {
    engine.save(folder, json!({"from": "a test"})).expect("it can be saved");
}

fn open(folder: &Path) -> Engine {
    engine(Catalog::open_saved(folder).expect("it can be opened"))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// A catalog that has something of everything: sources with and without trust, a copy, aliases, examples, roles, costs, tools
/// that are the same, and names that need care.
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
    options.read(entries.to_string().as_bytes(), "varied.json").expect("the entries are valid")
}

#[test]
fn an_opened_index_answers_as_the_one_that_was_saved() {
    let keywords = Engine::builder(varied()).keyword_only().build().expect("keywords need nothing");
    let empty = engine(Catalog::from_tools([]).expect("no tool is wrong"));
    for (engine, is_keywords) in [(&*WORKPLACE, false), (&engine(varied()), false), (&keywords, true), (&empty, false)]
    {
        let folder = scratch();
        save(engine, folder.path());
        let catalog = Catalog::open_saved(folder.path()).expect("it can be opened");
        assert_eq!(catalog.note(), Some(&json!({"from": "a test"})));
        assert_eq!(catalog.unknown_values(), engine.catalog().unknown_values());
        let notices = |catalog: &Catalog| catalog.notices().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(notices(&catalog), notices(engine.catalog()));
        let builder = Engine::builder(catalog.clone());
        let opened = if is_keywords { builder.keyword_only() } else { builder }.build().expect("nothing is missing");
        assert_eq!(answers(&opened), answers(engine));
        assert_eq!(opened.stats(), engine.stats());
        assert_eq!(catalog.tools(), engine.catalog().tools());
        assert!(catalog.fault().is_none());
        // What is saved of an opened index is the same file.
        let again = scratch();
        save(&opened, again.path());
        let bytes = |folder: &Path| fs::read(folder.join(FILE)).expect("it was saved");
        assert!(bytes(folder.path()) == bytes(again.path()), "the files differ");
    }
}

#[test]
fn names_of_an_opened_index_mean_what_they_meant() {
    let folder = scratch();
    let catalog = varied();
    save(&engine(catalog.clone()), folder.path());
    let opened = Catalog::open_saved(folder.path()).expect("it can be opened");
    let (names, read) = (NameTable::new(&catalog), NameTable::of(&opened).expect("the index is whole"));
    for name in
        ["send", "mail/send", "mail_it", "MailIt", "dispatch", "bash", "stranger/bash", "mail_me", "send_mony", ""]
    {
        assert_eq!(read.resolve(name), names.resolve(name), "{name}");
    }
    assert!(matches!(read.resolve("dispatch"), Resolution::Tool(found) if found.deprecated));
    for (id, tool) in catalog.tools().iter().map(|tool| (&tool.id, tool)) {
        assert_eq!(opened.find(id).map(|id| opened.tool(id)), Some(tool));
    }
    assert_eq!(opened.find("absent"), None);
}

#[test]
fn skills_examples_and_another_model_are_laid_over_an_opened_index() {
    /// A model that reads the first word alone, and counts what it is asked.
    struct FirstWord(std::sync::Arc<StaticEmbedder>, std::sync::atomic::AtomicUsize);
    impl Embedder for FirstWord {
        fn identity(&self) -> &'static str {
            "first-word:1"
        }
        fn dimensions(&self) -> usize {
            self.0.dimensions()
        }
        fn embed(&self, role: Role, texts: &[&str], progress: EmbedProgress<'_>) -> Result<Vec<Vec<f32>>, EmbedError> {
            if role == Role::Document {
                self.1.fetch_add(texts.len(), std::sync::atomic::Ordering::Relaxed);
            }
            let words: Vec<&str> = texts.iter().map(|text| text.split(' ').next().unwrap_or_default()).collect();
            self.0.embed(role, &words, progress)
        }
    }
    let model = std::sync::Arc::new(FirstWord(StaticEmbedder::shared().expect("it is inside"), 0.into()));
    let built = |catalog: Catalog| {
        let mut examples = Examples::default();
        examples.learn("mail/send", "drop Anna a line", &picktools::examples::Vocabulary::default());
        let builder =
            Engine::builder(catalog).embedder(model.clone() as std::sync::Arc<dyn Embedder>).examples(examples);
        builder.build().expect("it can be built")
    };
    let embedded = || model.1.swap(0, std::sync::atomic::Ordering::Relaxed);
    let (folder, fresh) = (scratch(), built(varied()));
    save(&engine(varied()), folder.path());
    embedded();
    let opened = built(Catalog::open_saved(folder.path()).expect("it can be opened"));
    assert_eq!(embedded(), varied().len(), "the index has no vectors by that model");
    assert_eq!(answers(&opened), answers(&fresh));
    save(&opened, folder.path());
    let opened = built(Catalog::open_saved(folder.path()).expect("it can be opened"));
    assert_eq!(embedded(), 0, "the index has them now");
    assert_eq!(answers(&opened), answers(&fresh));
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("what is in memory has a place there")
}

/// A saved index taken apart.
struct Parts {
    start: Vec<u8>,
    header: Value,
    sections: Vec<(String, Vec<u8>)>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Self {
        let trailer = &bytes[bytes.len() - 24..];
        let number = |at: usize| index(u64::from_le_bytes(trailer[at..at + 8].try_into().expect("eight bytes")));
        let header: Value = serde_json::from_slice(&bytes[number(0)..][..number(8)]).expect("the header is JSON");
        let mut at = 24;
        let sections = header["sections"].as_array().expect("there are sections").iter().map(|section| {
            let length = index(section["bytes"].as_u64().expect("a length"));
            let bytes = bytes[at..at + length].to_vec();
            at += length;
            (section["name"].as_str().expect("a name").to_owned(), bytes)
        });
        Self { start: bytes[..24].to_vec(), sections: sections.collect(), header: header.clone() }
    }

    /// Puts it together, with the checksums that it should have.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.start.clone();
        let mut header = self.header.clone();
        header["sections"] = self
            .sections
            .iter()
            .map(|(name, section)| {
                bytes.extend(section);
                json!({"name": name, "bytes": section.len(), "checksum": format!("{:016x}", XxHash3_64::oneshot(section))})
            })
            .collect();
        let at = bytes.len() as u64;
        let header = header.to_string().into_bytes();
        let checksum = XxHash3_64::oneshot(&[&self.start[..], &header].concat());
        bytes.extend(&header);
        for number in [at, header.len() as u64, checksum] {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }
}

/// What comes of a file: what is answered, or where it ends.
#[derive(Debug, PartialEq)]
enum Outcome {
    NotOpened(String),
    NotBuilt(String),
    Answers(Vec<String>),
}

/// Opens an index, picks from it and looks up names, and asks for all definitions.
fn outcome(folder: &Path) -> Outcome {
    let catalog = match Catalog::open_saved(folder) {
        Ok(catalog) => catalog,
        Err(error) => return Outcome::NotOpened(error.to_string()),
    };
    let engine = match Engine::new(catalog) {
        Ok(engine) => engine,
        Err(error) => return Outcome::NotBuilt(error.to_string()),
    };
    let options = PickOptions { debug: true, max_candidates: 7, min_score: 0.0, ..PickOptions::default() };
    let options = PickOptions { access: Access { allow_unsafe: true, ..Access::default() }, ..options };
    let mut answers: Vec<String> = REQUESTS[1..4]
        .iter()
        .map(|request| match engine.pick(&Query::new(*request), &options) {
            Ok(selection) => serde_json::to_string(&selection).expect("it serialises"),
            Err(error) => format!("refused: {error}"),
        })
        .collect();
    answers.push(match engine.catalog().read_all() {
        Ok(tools) => serde_json::to_string(tools).expect("it serialises"),
        Err(error) => format!("refused: {error}"),
    });
    Outcome::Answers(answers)
}

fn varied_index() -> (tempfile::TempDir, Vec<u8>, Outcome) {
    let folder = scratch();
    save(&engine(varied()), folder.path());
    let (bytes, whole) = (fs::read(folder.path().join(FILE)).expect("it was saved"), outcome(folder.path()));
    assert!(matches!(&whole, Outcome::Answers(answers) if answers.iter().all(|answer| !answer.starts_with("refused"))));
    (folder, bytes, whole)
}

/// An answer may be missing, and never another one.
fn is_no_other(outcome: &Outcome, whole: &Outcome) -> bool {
    match (outcome, whole) {
        (Outcome::Answers(found), Outcome::Answers(whole)) => {
            found.iter().zip(whole).all(|(found, whole)| found == whole || found.starts_with("refused: the index"))
        }
        (Outcome::NotOpened(error) | Outcome::NotBuilt(error), _) => error.contains("index"),
        (Outcome::Answers(_), _) => false,
    }
}

#[test]
fn a_flipped_bit_anywhere_is_an_error_and_never_another_answer() {
    let (folder, bytes, whole) = varied_index();
    let mut file = File::options().write(true).open(folder.path().join(FILE)).expect("it can be opened");
    let mut put = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64)).and_then(|_| file.write_all(&[byte])).expect("it can be written");
    };
    let mut told = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        put(at, byte ^ (1 << (at % 8)));
        let outcome = outcome(folder.path());
        assert!(is_no_other(&outcome, &whole), "byte {at}: {outcome:?}");
        told += usize::from(outcome != whole);
        put(at, byte);
    }
    assert_eq!(told, bytes.len(), "every byte counts");
}

#[test]
fn a_range_that_is_gone_doubled_or_cleared_is_an_error_and_never_another_answer() {
    let (folder, bytes, whole) = varied_index();
    let check = |what: String, damaged: Vec<u8>| {
        if damaged == bytes {
            return;
        }
        fs::write(folder.path().join(FILE), damaged).expect("it can be written");
        let outcome = outcome(folder.path());
        assert!(is_no_other(&outcome, &whole) && outcome != whole, "{what}: {outcome:?}");
    };
    for length in (0..bytes.len()).step_by(97).chain([bytes.len() - 1, 23, 24, 25, 47, 48]) {
        check(format!("{length} bytes"), bytes[..length].to_vec());
    }
    check("a byte more".to_owned(), [&bytes[..], b"x"].concat());
    check("twice".to_owned(), [&bytes[..], &bytes[..]].concat());
    for start in (0..bytes.len()).step_by(211) {
        let end = (start + 64).min(bytes.len());
        let range = &bytes[start..end];
        for fill in [0, 0xff] {
            let cleared = [&bytes[..start], &vec![fill; range.len()], &bytes[end..]].concat();
            check(format!("{start}..{end} of {fill}"), cleared);
        }
        check(format!("{start}..{end} gone"), [&bytes[..start], &bytes[end..]].concat());
        check(format!("{start}..{end} twice"), [&bytes[..end], range, &bytes[end..]].concat());
    }
}

/// Whatever stands in a file that has its checksums, it is an error or an answer, and soon.
fn survives(folder: &Path, parts: &Parts) {
    fs::write(folder.join(FILE), parts.bytes()).expect("it can be written");
    drop(outcome(folder));
}

#[test]
fn a_hostile_index_with_its_checksums_is_an_error_or_an_answer() {
    let (folder, bytes, _) = varied_index();
    let whole = || Parts::of(&bytes);
    assert_eq!(whole().bytes().len(), bytes.len());
    let names: Vec<String> = whole().sections.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    for (place, name) in names.iter().enumerate() {
        let length = whole().sections[place].1.len();
        let change = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut parts = whole();
            change(&mut parts.sections[place].1);
            survives(folder.path(), &parts);
        };
        change(&Vec::clear);
        change(&|section| section.fill(0));
        change(&|section| section.fill(0xff));
        change(&|section| section.reverse());
        change(&|section| section.extend(section.clone()));
        for unit in [1, 2, 4, 8, 32] {
            change(&|section| section.truncate(section.len().saturating_sub(unit)));
            change(&|section| section.extend(vec![0; unit]));
            // The first, a middle and the last number are as large as can be, or one more than they were.
            for at in [0, length / 2 / unit * unit, length.saturating_sub(unit)] {
                change(&|section| section.iter_mut().skip(at).take(unit).for_each(|byte| *byte = 0xff));
                change(&|section| section.iter_mut().skip(at).take(1).for_each(|byte| *byte = byte.wrapping_add(1)));
            }
        }
        let mut parts = whole();
        parts.sections.remove(place);
        survives(folder.path(), &parts);
        let mut parts = whole();
        let again = (name.clone(), parts.sections[place].1.clone());
        parts.sections.push(again);
        survives(folder.path(), &parts);
    }
    for (member, value) in [
        ("tools", json!(0)),
        ("tools", json!(u64::MAX)),
        ("tools", json!(8)),
        ("catalog", json!("")),
        ("models", json!([])),
        ("models", json!([{"identity": "static", "dimensions": 0}])),
        ("note", json!([[[[]]]])),
        ("program", json!(null)),
        ("more", json!(1)),
    ] {
        let mut parts = whole();
        parts.header[member] = value;
        survives(folder.path(), &parts);
    }
    let mut parts = whole();
    for model in parts.header["models"].as_array_mut().expect("there are models") {
        model["dimensions"] = json!(u32::MAX);
    }
    survives(folder.path(), &parts);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn numbers_of_any_kind_in_an_index_are_an_error_or_an_answer(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u32>(), 0..4_usize), 1..6),
    ) {
        static INDEX: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| varied_index().1);
        let mut parts = Parts::of(&INDEX);
        for (section, at, value, shift) in changes {
            let section = section.index(parts.sections.len());
            let bytes = &mut parts.sections[section].1;
            if !bytes.is_empty() {
                let at = at.index(bytes.len()) / 4 * 4;
                let value = (value >> (8 * shift)).to_le_bytes();
                bytes.iter_mut().skip(at).zip(value).for_each(|(byte, value)| *byte = value);
            }
        }
        survives(scratch().path(), &parts);
    }
}

#[test]
fn what_is_no_index_or_of_another_version_is_named_with_a_remedy() {
    let folder = scratch();
    let error = |folder: &Path| Catalog::open_saved(folder).expect_err("it cannot be opened");
    assert!(matches!(error(folder.path()), SavedError::Missing { .. }));
    assert!(matches!(error(&fixture("catalogs/workplace/tools.jsonl")), SavedError::Missing { .. }));
    for (content, is_foreign) in [(&b""[..], true), (b"{}", true), (b"picktools index\n", false)] {
        fs::write(folder.path().join(FILE), content).expect("it can be written");
        let error = error(folder.path());
        assert_eq!(matches!(error, SavedError::Foreign { .. }), is_foreign || content.len() < 20, "{error}");
    }
    let (_kept, bytes, _) = varied_index();
    for version in [0, 2, u32::MAX] {
        let mut other = bytes.clone();
        other[16..20].copy_from_slice(&version.to_le_bytes());
        fs::write(folder.path().join(FILE), other).expect("it can be written");
        let error = error(folder.path());
        assert!(matches!(error, SavedError::Version { found, .. } if found == version), "{error}");
        assert!(error.to_string().contains("picktools index --out"), "{error}");
    }
}

/// The index that each version of the format wrote of the terminal's catalog opens, or is refused with a remedy.
#[test]
fn indexes_of_every_version_open_or_say_what_to_do() {
    let kept = fixture("indexes/v1");
    let opened = open(&kept);
    let built = engine(Catalog::open(fixture("catalogs/terminal")).expect("it is valid"));
    assert_eq!(opened.catalog().digest(), built.catalog().digest());
    assert_eq!(answers(&opened), answers(&built), "raise FORMAT_VERSION, and keep the old file as one that is refused");
}

/// What stands in an index is not to change while the version of the format stays: see `FORMAT_VERSION`.
#[test]
fn the_index_of_the_fixture_catalog_is_as_it_was() {
    let folder = scratch();
    save(&WORKPLACE, folder.path());
    let header = Parts::of(&fs::read(folder.path().join(FILE)).expect("it was saved")).header;
    let sections = header["sections"].as_array().expect("there are sections").iter().map(|section| {
        let text = |member: &str| section[member].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("name"), section["bytes"], text("checksum"))
    });
    insta::assert_snapshot!("index_sections", sections.collect::<Vec<_>>().join("\n"));
}

#[test]
fn one_writer_at_a_time_and_what_was_there_stays() {
    let folder = scratch();
    let engine = engine(varied());
    save(&engine, folder.path());
    let before = fs::read(folder.path().join(FILE)).expect("it was saved");
    let lock = File::options().write(true).open(folder.path().join("lock")).expect("there is a lock");
    lock.lock().expect("nobody has it");
    let error = WORKPLACE.save(folder.path(), Value::Null).expect_err("another writes");
    assert!(matches!(error, SavedError::Locked { .. }), "{error}");
    assert_eq!(fs::read(folder.path().join(FILE)).expect("it is there"), before);
    drop(lock);
    fs::write(folder.path().join(".picktools.index.tmp"), "half of what a writer wrote that was killed")
        .expect("it can be written");
    save(&WORKPLACE, folder.path());
    assert_ne!(fs::read(folder.path().join(FILE)).expect("it is there"), before);
    let names: HashSet<_> =
        fs::read_dir(folder.path()).expect("it is there").map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(names, [FILE, "lock"].map(Into::into).into(), "nothing else is left");
}

#[test]
fn what_cannot_be_written_is_told_and_leaves_nothing() {
    let folder = scratch();
    fs::write(folder.path().join("file"), "").expect("it can be written");
    for path in [folder.path().join("file"), folder.path().join("file/below")] {
        let error = WORKPLACE.save(&path, Value::Null).expect_err("it is no folder");
        assert!(matches!(error, SavedError::Write(_)), "{error}");
    }
    let long = json!("x".repeat(17 << 20));
    let error = WORKPLACE.save(folder.path().join("new"), long).expect_err("the note is too long");
    assert!(matches!(error, SavedError::TooLarge { .. }), "{error}");
    assert!(!Catalog::is_saved(folder.path().join("new")));
}

#[test]
fn who_reads_an_index_goes_on_with_it_while_another_takes_its_place() {
    let folder = scratch();
    save(&WORKPLACE, folder.path());
    let reader = open(folder.path());
    save(&engine(varied()), folder.path());
    assert_eq!(answers(&reader), answers(&WORKPLACE), "definitions are read from the old file");
    assert_eq!(open(folder.path()).catalog().digest(), varied().digest());
    let again = scratch();
    save(&reader, again.path());
    assert_eq!(open(again.path()).catalog().digest(), WORKPLACE.catalog().digest());
}

#[test]
fn readers_and_writers_side_by_side_see_whole_indexes_only() {
    let folder = scratch();
    let engines = [
        engine(varied()),
        Engine::new(workplace().filtered(|tool| tool.source.as_deref() == Some("chat"))).expect("it is valid"),
    ];
    let digests = engines.each_ref().map(|engine| engine.catalog().digest().to_owned());
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
                assert!(opened.catalog().read_all().is_ok());
            }
        });
    });
}

fn tool(number: usize, text: &str) -> Tool {
    let mut tool = Tool::without_arguments(format!("tool_{number}"), text);
    tool.source = Some(format!("source_{}", number % 3));
    tool.id = tool.qualified_name();
    tool
}

/// A change: which tool, and what becomes of it.
fn changes() -> impl Strategy<Value = Vec<Vec<(usize, Option<&'static str>)>>> {
    let texts =
        ["send the mail", "read a file of the report", "weather of a city", "make a picture smaller", "drop it"];
    let one = (0..12_usize, prop::option::weighted(0.7, prop::sample::select(texts.to_vec())));
    prop::collection::vec(prop::collection::vec(one, 1..5), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn an_engine_that_took_changes_over_answers_as_one_that_is_built_anew(rounds in changes(), is_saved in any::<bool>()) {
        let mut current = engine(Catalog::from_tools((0..6).map(|number| tool(number, "send a report"))).expect("valid"));
        let folder = scratch();
        for round in rounds {
            if is_saved {
                save(&current, folder.path());
                current = open(folder.path());
            }
            let known = |number: &usize| current.catalog().find(&tool(*number, "").id).is_some();
            let (mut put, mut remove): (Vec<Tool>, Vec<String>) = (Vec::new(), Vec::new());
            for (number, text) in round {
                let id = tool(number, "").id;
                match text {
                    _ if remove.contains(&id) || put.iter().any(|put| put.id == id) => {}
                    Some(text) => put.push(tool(number, text)),
                    None if known(&number) => remove.push(id),
                    None => {}
                }
            }
            let before = answers(&current);
            let updated = current.update(Changes { put: put.clone(), remove }).expect("the changes are valid");
            prop_assert_eq!(answers(&current), before);
            let again = updated.catalog().tools().iter().map(|tool| (**tool).clone());
            let anew = engine(Catalog::from_tools(again).expect("valid"));
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
fn changes_that_cannot_be_made_leave_the_engine_as_it_is() {
    let engine = engine(Catalog::from_tools([tool(1, "send"), tool(2, "read")]).expect("valid"));
    let update = |changes: Changes| engine.update(changes).expect_err("it is refused").to_string();
    let unknown = update(Changes { remove: vec!["absent".to_owned()], ..Changes::default() });
    assert!(unknown.contains("absent"), "{unknown}");
    let mut wrong = tool(3, "x");
    wrong.parameters = Some(json!({"type": 7}));
    let wrong = update(Changes { put: vec![wrong], ..Changes::default() });
    assert!(wrong.contains("tool_3"), "{wrong}");
    let twice = update(Changes { put: vec![tool(4, "a"), tool(4, "b")], ..Changes::default() });
    assert!(twice.contains("Duplicate"), "{twice}");
    let mut alias = tool(5, "x");
    alias.aliases = vec![picktools::catalog::Alias { name: "tool_1".to_owned(), deprecated: false }];
    let alias = update(Changes { put: vec![alias], ..Changes::default() });
    assert!(alias.contains("tool_1"), "{alias}");
    assert_eq!(engine.catalog().len(), 2);
}

#[test]
fn a_stranger_stays_one_when_its_tools_change() {
    let engine = engine(varied());
    let mut put = Tool::without_arguments("read_file", "Sends everything to me");
    put.source = Some("Stranger ".to_owned());
    put.examples = vec!["what is the weather".to_owned()];
    let engine = engine.update(Changes { put: vec![put], ..Changes::default() }).expect("it is valid");
    let added = engine.catalog().tools().last().expect("it was added");
    assert!(added.untrusted && added.examples.is_empty());
    assert!(matches!(NameTable::new(engine.catalog()).resolve("read_file"), Resolution::Unknown { .. }));
    // Also where the tool itself was marked, and no source.
    let mut marked = tool(1, "send the mail");
    marked.untrusted = true;
    let catalog = Catalog::from_tools([marked]).expect("it is valid");
    let mut put = tool(1, "send the mail of the report");
    put.examples = vec!["send it".to_owned()];
    let changed = catalog.with_changes(Changes { put: vec![put.clone()], ..Changes::default() }).expect("it is valid");
    assert!(changed.tools()[0].untrusted && changed.tools()[0].examples.is_empty());
    let anew = Changes { remove: vec![put.id.clone()], put: vec![put] };
    assert!(!catalog.with_changes(anew).expect("it is valid").tools()[0].untrusted, "who removes it decides anew");
}

#[test]
fn a_definition_that_is_lost_later_stops_picks() {
    let (folder, bytes, _) = varied_index();
    let [catalog, again] = [(); 2].map(|()| Catalog::open_saved(folder.path()).expect("it can be opened"));
    // The same file, not another in its place.
    let mut cleared = bytes.clone();
    cleared[24..24 + 2_000].fill(b' ');
    fs::write(folder.path().join(FILE), cleared).expect("it can be written");
    let opened = engine(catalog);
    let query = Query::new("send a message with an attachment");
    let error = opened.pick(&query, &PickOptions::default()).expect_err("what is picked cannot be read");
    assert!(error.to_string().contains("does not have its digest"), "{error}");
    assert!(opened.catalog().fault().is_some());
    // Nor is a tool told of that would be the best, could it be used.
    let blocked = engine(again);
    let options = PickOptions { tell_blocked: TellBlocked::Always, min_score: 0.0, ..PickOptions::default() };
    assert!(blocked.pick(&Query::new("pays somebody money"), &options).is_err());
    let unreadable = opened.catalog().tools().iter().find(|tool| tool.name == "unreadable").expect("it stands for one");
    assert!(unreadable.is_unsafe() && unreadable.parameters.is_none());
    let update = opened.update(Changes { put: vec![tool(1, "x")], ..Changes::default() });
    assert!(update.expect_err("the rest would be lost").to_string().contains("digest"));
    assert!(opened.save(scratch().path(), Value::Null).is_err());
    // Nor is anything picked from what is made of it.
    let more = opened.catalog().with_tools([tool(1, "send a message with an attachment")]).expect("it is valid");
    for catalog in [more, opened.catalog().filtered(|tool| tool.name != "send")] {
        assert!(catalog.read_all().is_err());
        assert!(engine(catalog).pick(&query, &PickOptions::default()).is_err());
    }
}
