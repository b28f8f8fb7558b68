//! Saved indexes on the command line: equal answers, detected changes, and failures.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cli::{WORKPLACE, answer, json, picktools, refusal, stderr, stdout};
use crate::support::root;

const FILE: &str = "picktools.index";

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder can be made")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}

/// Returns an answer without the members that differ between runs.
fn timeless(mut answer: Value) -> Value {
    answer
        .as_object_mut()
        .expect("it is an object")
        .remove("timings");
    answer
}

#[test]
fn index_works_wherever_a_catalog_does() {
    let folder = scratch();
    let index = text(folder.path());
    let said = answer(&["index", "--catalog", WORKPLACE, "--out", index, "--stats"]);
    assert!(
        said.contains("bytes per tool") && said.contains("vectors"),
        "{said}"
    );
    for command in [
        &["pick", "book a meeting room", "--json"][..],
        &[
            "pick",
            "refund the order",
            "--role",
            "finance",
            "--explain",
            "--allow-unsafe",
            "--json",
        ],
        &[
            "pick",
            "book a meeting room",
            "--provider",
            "openai",
            "--json",
        ],
    ] {
        let of = |option, path| timeless(json(&[command, &[option, path]].concat()));
        assert_eq!(
            of("--index", index),
            of("--catalog", WORKPLACE),
            "{command:?}"
        );
        assert_eq!(of("--catalog", index), of("--index", index), "{command:?}");
    }
    for command in [
        &["resolve", "bookMeetingRoom"][..],
        &["translate", "--provider", "anthropic"],
        &["check"],
        &["index"],
    ] {
        let of = |path| {
            picktools(&[command, &["--catalog", path]].concat())
                .output()
                .expect("it runs")
        };
        let (saved, read) = (of(index), of(WORKPLACE));
        let is_told_apart = |line: &&str| !line.contains(index) && !line.contains(WORKPLACE);
        let lines = |text: &str| {
            text.lines()
                .filter(is_told_apart)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (saved.status.code(), lines(&stdout(&saved))),
            (read.status.code(), lines(&stdout(&read))),
            "{command:?}"
        );
    }
    // An index of an index is the same file apart from its origin.
    let again = scratch();
    answer(&["index", "--index", index, "--out", text(again.path())]);
    let of = |index| {
        timeless(json(&[
            "pick",
            "lock the front door",
            "--index",
            index,
            "--json",
        ]))
    };
    assert_eq!(of(text(again.path())), of(index));
}

#[test]
fn stale_index_is_detected() {
    let (folder, catalog) = (scratch(), scratch());
    let (index, file) = (text(folder.path()), catalog.path().join("tools.jsonl"));
    let entry = |name: &str| {
        format!(
            "{{\"name\": \"{name}\", \"description\": \"Looks up the weather\", \"parameters\": {{}}}}\n"
        )
    };
    fs::write(&file, entry("get_weather")).expect("it can be written");
    answer(&[
        "index",
        "--catalog",
        text(catalog.path()),
        "--out",
        index,
        "--conflicts",
        "warn",
    ]);
    let pick = |more: &[&str]| {
        let request = ["pick", "look up the weather", "--index", index];
        let output = picktools(&[&request[..], more].concat())
            .output()
            .expect("it runs");
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, said, warned) = pick(&[]);
    assert!(
        code == Some(0) && said.contains("get_weather") && warned.is_empty(),
        "{said}{warned}"
    );
    // The index was read with other options.
    let (code, _, refused) = pick(&["--untrusted-source", "weather"]);
    assert!(
        code == Some(2) && refused.contains("--conflicts warn"),
        "{refused}"
    );
    assert_eq!(pick(&["--conflicts", "warn"]).0, Some(0));
    // The file keeps its length and modification time.
    let then = fs::metadata(&file)
        .and_then(|data| data.modified())
        .expect("it is there");
    fs::write(&file, entry("get_climate")).expect("it can be written");
    fs::File::options()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_modified(then))
        .expect("its time can be set");
    for (change, named) in [
        ("changed", "tools.jsonl has changed"),
        ("gone", "has changed"),
        ("new", "is new"),
    ] {
        if change == "gone" {
            fs::write(
                catalog.path().join("other.json"),
                format!("[{}]", entry("get_storm")),
            )
            .expect("it can be written");
            fs::remove_file(&file).expect("it can be removed");
        } else if change == "new" {
            answer(&["index", "--catalog", text(catalog.path()), "--out", index]);
            fs::write(
                catalog.path().join("third.json"),
                format!("[{}]", entry("get_rain")),
            )
            .expect("it can be written");
        }
        let (code, said, warned) = pick(&[]);
        assert!(
            code == Some(0) && warned.contains("is stale") && warned.contains("--out"),
            "{change}: {warned}"
        );
        assert!(
            warned.contains(named) || warned.contains("is new"),
            "{change}: {warned}"
        );
        assert_eq!(
            said.contains("get_climate"),
            change == "changed",
            "{change}: {said}"
        );
        assert!(!said.contains("get_weather"), "{change}: {said}");
    }
    // A copied index works without its origin.
    drop(catalog);
    let (code, _, warned) = pick(&[]);
    assert!(code == Some(0) && warned.is_empty(), "{warned}");
}

#[test]
fn broken_index_is_refused_with_the_remedy() {
    let folder = scratch();
    let index = text(folder.path());
    answer(&["index", "--catalog", WORKPLACE, "--out", index]);
    let both = refusal(&["pick", "x", "--index", index, "--catalog", WORKPLACE]);
    assert!(
        both.contains("cannot be combined with other catalogs"),
        "{both}"
    );
    let path = folder.path().join(FILE);
    let whole = fs::read(&path).expect("it was saved");
    for (content, named) in [
        (&whole[..whole.len() / 2], "damaged"),
        (b"{}", "not an index of picktools"),
        (
            &[&whole[..16], &9_u32.to_le_bytes(), &whole[20..]].concat(),
            "format 9",
        ),
    ] {
        fs::write(&path, content).expect("it can be written");
        for command in [
            &["pick", "x"][..],
            &["check"],
            &["resolve", "x"],
            &["translate", "--provider", "mcp"],
        ] {
            let refused = refusal(&[command, &["--index", index]].concat());
            assert!(
                refused.contains(named) && refused.contains("picktools index"),
                "{command:?}: {refused}"
            );
        }
    }
}

#[test]
fn failed_save_keeps_the_previous_index() {
    let folder = scratch();
    let index = text(folder.path());
    answer(&[
        "index",
        "--catalog",
        "fixtures/catalogs/terminal",
        "--out",
        index,
    ]);
    let before = fs::read(folder.path().join(FILE)).expect("it was saved");
    // The file size limit is below the size of the index, so the write fails as on a full disk.
    let limited = format!(
        "trap '' XFSZ; ulimit -f 64; exec {} index --catalog {WORKPLACE} --out {index}",
        env!("CARGO_BIN_EXE_picktools")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &limited])
        .current_dir(root(""))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("cannot save the index; the previous index is unchanged"),
        "{said}"
    );
    assert_eq!(
        fs::read(folder.path().join(FILE)).expect("it is there"),
        before
    );
    let left: Vec<_> = fs::read_dir(folder.path())
        .expect("it is there")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let refused = refusal(&["index", "--catalog", WORKPLACE, "--out", "Cargo.toml/index"]);
    assert!(refused.contains("Cargo.toml/index"), "{refused}");
}

/// A process that is killed during a save leaves the old or the new index. `scripts/kill-index.py`
/// tests this a thousand times.
#[test]
fn killed_save_leaves_a_complete_index() {
    let folder = scratch();
    let index = text(folder.path());
    let digests = [WORKPLACE, "fixtures/catalogs/terminal"].map(|catalog| {
        let started = Instant::now();
        answer(&["index", "--catalog", catalog, "--out", index]);
        let digest = json(&["index", "--index", index, "--json"])["catalog"]
            .as_str()
            .expect("a digest")
            .to_owned();
        (catalog, digest, started.elapsed())
    });
    for round in 0..24_u32 {
        let (catalog, _, takes) = &digests[round as usize % 2];
        let mut writer = std::process::Command::new(env!("CARGO_BIN_EXE_picktools"))
            .args(["index", "--catalog", catalog, "--out", index])
            .current_dir(root(""))
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        std::thread::sleep(
            *takes * (round / 2) / 12 + Duration::from_micros(u64::from(round) * 137),
        );
        // The process may have ended already.
        writer.kill().ok();
        writer.wait().expect("it ends");
        let found = json(&["index", "--index", index, "--json"]);
        assert!(
            digests
                .iter()
                .any(|(_, digest, _)| found["catalog"] == **digest),
            "{found}"
        );
        let left = fs::read_dir(folder.path()).expect("it is there").count();
        assert!(left <= 3, "the index, its lock, and what one writer left");
    }
    answer(&["index", "--catalog", WORKPLACE, "--out", index]);
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 2);
}
