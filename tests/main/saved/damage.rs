//! Damaged, truncated or hostile indexes: they give an error, and never a panic or another answer.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use picktools::{Access, Catalog, Engine, PickOptions, Query};
use proptest::prelude::*;
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use super::{FILE, REQUESTS, save, scratch, varied};
use crate::support::engine;

fn index(number: u64) -> usize {
    usize::try_from(number).expect("what is in memory has a place there")
}

/// The parts of a saved index.
pub(super) struct Parts {
    start: Vec<u8>,
    pub(super) header: Value,
    sections: Vec<(String, Vec<u8>)>,
}

impl Parts {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let trailer = &bytes[bytes.len() - 24..];
        let number = |at: usize| {
            index(u64::from_le_bytes(
                trailer[at..at + 8].try_into().expect("eight bytes"),
            ))
        };
        let header: Value =
            serde_json::from_slice(&bytes[number(0)..][..number(8)]).expect("the header is JSON");
        let mut at = 24;
        let sections = header["sections"]
            .as_array()
            .expect("there are sections")
            .iter()
            .map(|section| {
                let length = index(section["bytes"].as_u64().expect("a length"));
                let bytes = bytes[at..at + length].to_vec();
                at += length;
                (section["name"].as_str().expect("a name").to_owned(), bytes)
            });
        Self {
            start: bytes[..24].to_vec(),
            sections: sections.collect(),
            header: header.clone(),
        }
    }

    /// Assembles the index with correct checksums.
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

/// The outcome of opening a file: answers, or the point of failure.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    NotOpened(String),
    NotBuilt(String),
    Answers(Vec<String>),
}

/// Opens an index, picks from it, resolves names, and reads all definitions.
fn outcome(folder: &Path) -> Outcome {
    let catalog = match Catalog::open_saved(folder) {
        Ok(catalog) => catalog,
        Err(error) => return Outcome::NotOpened(error.to_string()),
    };
    let engine = match Engine::new(catalog) {
        Ok(engine) => engine,
        Err(error) => return Outcome::NotBuilt(error.to_string()),
    };
    let options = PickOptions {
        debug: true,
        max_candidates: 7,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let options = PickOptions {
        access: Access {
            allow_unsafe: true,
            ..Access::default()
        },
        ..options
    };
    let mut answers: Vec<String> = REQUESTS[1..4]
        .iter()
        .map(
            |request| match engine.pick(&Query::new(*request), &options) {
                Ok(selection) => serde_json::to_string(&selection).expect("it serialises"),
                Err(error) => format!("refused: {error}"),
            },
        )
        .collect();
    answers.push(match engine.catalog().tools() {
        Ok(tools) => serde_json::to_string(tools).expect("it serialises"),
        Err(error) => format!("refused: {error}"),
    });
    Outcome::Answers(answers)
}

pub(super) fn varied_index() -> (tempfile::TempDir, Vec<u8>, Outcome) {
    let folder = scratch();
    save(&engine(varied()), folder.path());
    let (bytes, intact) = (
        fs::read(folder.path().join(FILE)).expect("it was saved"),
        outcome(folder.path()),
    );
    assert!(
        matches!(&intact, Outcome::Answers(answers) if answers.iter().all(|answer| !answer.starts_with("refused")))
    );
    (folder, bytes, intact)
}

/// Returns `true` if each answer is the same or missing.
fn is_no_other(outcome: &Outcome, intact: &Outcome) -> bool {
    match (outcome, intact) {
        (Outcome::Answers(found), Outcome::Answers(intact)) => found
            .iter()
            .zip(intact)
            .all(|(found, intact)| found == intact || found.starts_with("refused: the index")),
        (Outcome::NotOpened(error) | Outcome::NotBuilt(error), _) => error.contains("index"),
        (Outcome::Answers(_), _) => false,
    }
}

#[test]
fn flipped_bit_in_index_is_error_or_same_answer() {
    let (folder, bytes, intact) = varied_index();
    let mut file = File::options()
        .write(true)
        .open(folder.path().join(FILE))
        .expect("it can be opened");
    let mut put = |at: usize, byte: u8| {
        file.seek(SeekFrom::Start(at as u64))
            .and_then(|_| file.write_all(&[byte]))
            .expect("it can be written");
    };
    let mut detected = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        put(at, byte ^ (1 << (at % 8)));
        let outcome = outcome(folder.path());
        assert!(is_no_other(&outcome, &intact), "byte {at}: {outcome:?}");
        detected += usize::from(outcome != intact);
        put(at, byte);
    }
    assert_eq!(detected, bytes.len(), "every byte counts");
}

#[test]
fn damaged_range_in_index_is_error_or_same_answer() {
    let (folder, bytes, intact) = varied_index();
    let check = |what: String, damaged: Vec<u8>| {
        if damaged == bytes {
            return;
        }
        fs::write(folder.path().join(FILE), damaged).expect("it can be written");
        let outcome = outcome(folder.path());
        assert!(
            is_no_other(&outcome, &intact) && outcome != intact,
            "{what}: {outcome:?}"
        );
    };
    for length in (0..bytes.len())
        .step_by(97)
        .chain([bytes.len() - 1, 23, 24, 25, 47, 48])
    {
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
        check(
            format!("{start}..{end} gone"),
            [&bytes[..start], &bytes[end..]].concat(),
        );
        check(
            format!("{start}..{end} twice"),
            [&bytes[..end], range, &bytes[end..]].concat(),
        );
    }
}

/// Checks that any content with correct checksums gives an error or an answer within a time limit.
fn survives(folder: &Path, parts: &Parts) {
    fs::write(folder.join(FILE), parts.bytes()).expect("it can be written");
    drop(outcome(folder));
}

#[test]
fn hostile_index_with_checksums_does_not_panic() {
    let (folder, bytes, _) = varied_index();
    let intact = || Parts::of(&bytes);
    assert_eq!(intact().bytes().len(), bytes.len());
    let names: Vec<String> = intact()
        .sections
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    for (place, name) in names.iter().enumerate() {
        let length = intact().sections[place].1.len();
        let change = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut parts = intact();
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
            // The first, a middle and the last number become as large as possible, or one larger
            // than before.
            for at in [0, length / 2 / unit * unit, length.saturating_sub(unit)] {
                change(&|section| {
                    section
                        .iter_mut()
                        .skip(at)
                        .take(unit)
                        .for_each(|byte| *byte = 0xff);
                });
                change(&|section| {
                    section
                        .iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|byte| *byte = byte.wrapping_add(1));
                });
            }
        }
        let mut parts = intact();
        parts.sections.remove(place);
        survives(folder.path(), &parts);
        let mut parts = intact();
        let repeated_section = (name.clone(), parts.sections[place].1.clone());
        parts.sections.push(repeated_section);
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
        let mut parts = intact();
        parts.header[member] = value;
        survives(folder.path(), &parts);
    }
    let mut parts = intact();
    for model in parts.header["models"]
        .as_array_mut()
        .expect("there are models")
    {
        model["dimensions"] = json!(u32::MAX);
    }
    survives(folder.path(), &parts);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn arbitrary_numbers_in_index_do_not_panic(
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
