//! Tests of the tool `read`: its behaviours with the numbers of docs/reference/requirements.md,
//! attempts to read files outside the root, and special, endless or changing files.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use picktools::Access;
use picktools_provider::{Arguments, Tokenizer, ToolCall};
use picktools_runtime::{ErrorType, ExecutedCall, RunnableTool, ToolManager, Topic};
use picktools_shell::{Read, ReadOptions};
use picktools_testing::fixture;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

const FAR: Duration = Duration::from_secs(30);
const SECRET: &str = "OUTSIDE-SECRET";

/// A folder with the root, `root`, and files outside the root.
struct TestFolder {
    folder: TempDir,
    root: PathBuf,
}

impl TestFolder {
    fn new() -> Self {
        let folder = TempDir::new().expect("the folder is writable");
        let base = folder.path().canonicalize().expect("it is there");
        let root = base.join("root");
        for made in ["root/folder", "outside", "rootx"] {
            fs::create_dir_all(base.join(made)).expect("it is writable");
        }
        for secret in ["secret.txt", "outside/secret.txt", "rootx/secret.txt"] {
            fs::write(base.join(secret), SECRET).expect("it is writable");
        }
        let place = Self { folder, root };
        place.write("inside.txt", "one\ntwo\nthree\n");
        place
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.root.join(name), content).expect("it is writable");
    }

    fn manager(&self) -> ToolManager {
        self.manager_with(ReadOptions::default(), FAR)
    }

    fn manager_with(&self, options: ReadOptions, time: Duration) -> ToolManager {
        let builder = ToolManager::builder(Access::default()).tool(Read::new(options));
        builder
            .root(&self.root)
            .time_limit(time)
            .build()
            .expect("it is valid")
    }
}

fn call(arguments: Value) -> ToolCall {
    ToolCall {
        id: None,
        name: "read".to_owned(),
        arguments: Arguments::Json(arguments),
    }
}

async fn run(manager: &ToolManager, arguments: Value) -> ExecutedCall {
    timeout(FAR, manager.execute(&call(arguments)))
        .await
        .expect("it does not hang")
}

/// Returns the content for one file, without its heading.
async fn shown(manager: &ToolManager, path: &str) -> String {
    let executed = run(manager, json!({"file_paths": [path]})).await;
    let content = content(&executed);
    content
        .strip_prefix(&format!("=== {path} ===\n"))
        .unwrap_or_else(|| panic!("{:?}", executed.result))
        .to_owned()
}

fn content(executed: &ExecutedCall) -> &str {
    executed
        .result
        .fields
        .get("content")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn error_type(executed: &ExecutedCall) -> Option<ErrorType> {
    executed
        .result
        .failure
        .as_ref()
        .map(|failure| failure.error_type)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attempt {
    path: String,
    what: String,
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_outside_the_root_are_not_read() {
    use std::os::unix::fs::symlink;
    let place = TestFolder::new();
    let outside = place
        .folder
        .path()
        .canonicalize()
        .expect("it is there")
        .join("outside");
    let target = |name: &str| outside.join(name);
    for (link, target) in [
        ("folder/up", PathBuf::from("../..")),
        ("link", PathBuf::from("../outside/secret.txt")),
        ("chain", PathBuf::from("link")),
        ("out", PathBuf::from("../outside")),
        ("absolute", target("secret.txt")),
        ("self", PathBuf::from("/proc/self/cwd")),
        ("proc", PathBuf::from("/proc")),
        ("zero", PathBuf::from("/dev/zero")),
        ("loop", PathBuf::from("loop")),
        ("gone", PathBuf::from("nowhere")),
    ] {
        symlink(target, place.root.join(link)).expect("it is writable");
    }
    let made = std::process::Command::new("mkfifo")
        .arg(place.root.join("pipe"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is there");
    let manager = place.manager();
    let file = fixture("hostile/read-escapes.jsonl");
    let text = fs::read_to_string(file).expect("it is there");
    for line in text.lines() {
        let Attempt { path, what } = serde_json::from_str(line).expect("it is an attempt");
        let path = path.replace("{root}", &place.root.to_string_lossy());
        let path = path.replace("{outside}", &outside.to_string_lossy());
        let mut events = manager.events().subscribe(Topic::All);
        let executed = run(&manager, json!({"file_paths": [path]})).await;
        let told: Vec<Value> = std::iter::from_fn(|| events.try_next())
            .map(|event| json!(*event.event))
            .collect();
        assert!(
            error_type(&executed).is_some(),
            "{what}: {:?}",
            executed.result
        );
        let told = format!("{}{}", json!(executed.result), json!(told));
        assert!(
            !told.contains(SECRET) && !told.contains("root:x:"),
            "{what}: {told}"
        );
        assert!(executed.result.error().len() < 2000, "{what}");
    }
    // Files inside the root are read, even through links or dots.
    symlink("../inside.txt", place.root.join("folder/inside")).expect("it is writable");
    for path in [
        "folder/inside",
        "folder/../inside.txt",
        &place.root.join("inside.txt").to_string_lossy(),
    ] {
        assert!(
            run(&manager, json!({"file_paths": [path]}))
                .await
                .result
                .is_success(),
            "{path}"
        );
    }
}

// Checklist 53
#[test]
fn definition_of_read_has_its_arguments_and_is_read_only() {
    let read = Read::default();
    let definition = read.definition();
    assert_eq!(
        (definition.name.as_str(), read.requires_confirmation()),
        ("read", false)
    );
    assert_eq!(definition.annotations.read_only_hint, Some(true));
    let schema = definition.parameters.as_ref().expect("it has one");
    let mut names: Vec<&String> = schema["properties"]
        .as_object()
        .expect("it is one")
        .keys()
        .collect();
    names.sort();
    assert_eq!(names, ["file_paths", "limit", "offset", "sessionId"]);
    assert_eq!(schema["required"], json!(["file_paths"]));
}

// Checklist 54, 55, 58
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_in_the_order_of_the_paths_with_numbered_lines() {
    let place = TestFolder::new();
    place.write("folder/other.txt", "a\r\nb\n\nd");
    place.write("empty.txt", "");
    let manager = place.manager();
    let executed = run(
        &manager,
        json!({"file_paths": ["folder/other.txt", "inside.txt", "empty.txt"]}),
    )
    .await;
    let result = json!(executed.result);
    assert_eq!(
        (&result["success"], &result["error"], &result["files_read"]),
        (&json!(true), &json!(""), &json!(3))
    );
    let expected = "=== folder/other.txt ===\n     1\ta\n     2\tb\n     3\t\n     4\td\n\
                    === inside.txt ===\n     1\tone\n     2\ttwo\n     3\tthree\n=== empty.txt ===\n";
    assert_eq!(content(&executed), expected);
    assert!(result.get("truncated").is_none() && result.get("errors").is_none());
}

// Checklist 56, 57
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_and_offset_select_lines_of_each_file() {
    let place = TestFolder::new();
    let lines: String = (1..=20).map(|number| format!("line {number}\n")).collect();
    place.write("long.txt", lines);
    let manager = place.manager();
    let read = async |arguments: Value| run(&manager, arguments).await;
    let executed =
        read(json!({"file_paths": ["long.txt", "inside.txt"], "limit": 2, "offset": 2})).await;
    let expected = "=== long.txt ===\n     2\tline 2\n     3\tline 3\n[more lines follow; go on with offset=4]\n\
                    === inside.txt ===\n     2\ttwo\n     3\tthree\n";
    assert_eq!(
        (content(&executed), &executed.result.fields["truncated"]),
        (expected, &json!(true))
    );
    let whole = read(json!({"file_paths": ["long.txt"], "limit": 0})).await;
    assert_eq!(content(&whole).lines().count(), 21);
    let beyond = read(json!({"file_paths": ["inside.txt"], "offset": 9})).await;
    assert_eq!(
        content(&beyond),
        "=== inside.txt ===\n[the file has 3 lines]\n"
    );
    let last = read(json!({"file_paths": ["inside.txt"], "offset": 3, "limit": u64::MAX})).await;
    assert_eq!(content(&last), "=== inside.txt ===\n     3\tthree\n");
    let none = read(json!({"file_paths": ["inside.txt"], "offset": 0})).await;
    assert_eq!(error_type(&none), Some(ErrorType::Validation));
}

// Checklist 59
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_files_are_described_and_not_shown() {
    let place = TestFolder::new();
    place.write("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDRxxxx");
    place.write("data", b"text\0more text");
    place.write("program", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0");
    let manager = place.manager();
    assert_eq!(
        shown(&manager, "picture.png").await,
        "[a file of the type image/png, 20 bytes: not shown]\n"
    );
    assert_eq!(
        shown(&manager, "data").await,
        "[a binary file, 14 bytes: not shown]\n"
    );
    assert_eq!(
        shown(&manager, "program").await,
        "[a binary file, 18 bytes: not shown]\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_in_other_encodings_is_decoded() {
    let place = TestFolder::new();
    let utf_16 = |big: bool| {
        let unit = |unit: u16| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        };
        "\u{feff}naïve ☃\nend"
            .encode_utf16()
            .flat_map(unit)
            .collect::<Vec<u8>>()
    };
    place.write("bom.txt", "\u{feff}naïve ☃\nend");
    place.write("little.txt", utf_16(false));
    place.write("big.txt", utf_16(true));
    place.write(
        "western.txt",
        b"Le caf\xe9 est tr\xe8s bon, n'est-ce pas ?\n",
    );
    let japanese = b"\x82\xb1\x82\xea\x82\xcd\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x95\xb6\x8f\xcd\x82\xc5\x82\xb7\n";
    place.write("japanese.txt", japanese);
    place.write(
        "broken.txt",
        [b"a".repeat(8192).as_slice(), b"\n\xff\xfez\n"].concat(),
    );
    let manager = place.manager();
    assert_eq!(
        shown(&manager, "bom.txt").await,
        "     1\tnaïve ☃\n     2\tend\n"
    );
    assert_eq!(
        shown(&manager, "little.txt").await,
        "[read as UTF-16LE]\n     1\tnaïve ☃\n     2\tend\n"
    );
    assert_eq!(
        shown(&manager, "big.txt").await,
        "[read as UTF-16BE]\n     1\tnaïve ☃\n     2\tend\n"
    );
    let western = "[read as windows-1252]\n     1\tLe café est très bon, n'est-ce pas ?\n";
    assert_eq!(shown(&manager, "western.txt").await, western);
    assert_eq!(
        shown(&manager, "japanese.txt").await,
        "[read as Shift_JIS]\n     1\tこれは日本語の文章です\n"
    );
    assert!(
        shown(&manager, "broken.txt")
            .await
            .ends_with("     2\t\u{fffd}\u{fffd}z\n")
    );
}

// Checklist 60
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_stops_at_the_token_limit() {
    let place = TestFolder::new();
    place.write("many.txt", "0123456789012345678901\n".repeat(100));
    let options = ReadOptions { max_tokens: 130 };
    let manager = place.manager_with(options, FAR);
    let paths = json!({"file_paths": ["many.txt", "inside.txt", "inside.txt"]});
    let executed = run(&manager, paths).await;
    let line = |number| format!("     {number}\t0123456789012345678901\n");
    let fits: String = (1..=7).map(line).collect();
    let expected = format!(
        "=== many.txt ===\n{fits}\
         [more than 130 tokens; read less at once, or go on with offset=8]\n\
         [more than 130 tokens; the last files were not read: 2]\n"
    );
    assert_eq!(content(&executed), expected);
    let fields = &executed.result.fields;
    assert_eq!(
        (&fields["truncated"], &fields["files_read"]),
        (&json!(true), &json!(1))
    );
    let is_known = |name: &str| manager.files().get(&place.root.join(name)).is_some();
    assert!(is_known("many.txt") && !is_known("inside.txt"));

    place.write("wide.txt", format!("{}\nend\n", "é".repeat(1 << 20)));
    let manager = place.manager();
    let wide = shown(&manager, "wide.txt").await;
    assert!(
        wide.starts_with(&format!(
            "     1\t{}… [2093152 more bytes of the line]\n",
            "é".repeat(2000)
        )),
        "{wide}"
    );
    assert!(wide.ends_with("     2\tend\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_any_text_stay_within_the_limit() {
    let place = TestFolder::new();
    let max_tokens = 2_000;
    let manager = place.manager_with(ReadOptions { max_tokens }, FAR);
    for (name, line) in [
        (
            "prose.txt",
            "The weather in Bergen is often rainy, even in summer.\n",
        ),
        ("digits.csv", "7,1,4;9;0|3,8,2;5;6|1,1,3\n"),
        ("code.rs", "    if x<y&&z[i]!=w{a+=1;}\n"),
        ("chinese.txt", "\u{9f98}\u{9f49}\u{7228}\u{9ea4}\u{7c6a}\n"),
        (
            "symbols.txt",
            "\u{16a0}\u{16b1}\u{2603}\u{1f9ff}\u{10330}\n",
        ),
        ("empty lines.txt", "\n"),
        (
            "base64.txt",
            "aGVsbG8gd29ybGQhIFRoaXMgaXMgYmFzZTY0/+9xQ==\n",
        ),
    ] {
        place.write(name, line.repeat(10_000));
        let short = format!("short {name}");
        place.write(&short, line);
        let mut paths = vec![short; 30];
        paths.push(name.to_owned());
        let executed = run(&manager, json!({"file_paths": paths})).await;
        let tokens = Tokenizer::O200k.count(content(&executed));
        assert!(tokens <= max_tokens, "{name}: {tokens}");
        assert!(tokens > max_tokens * 9 / 10, "{name}: {tokens}");
    }
    let mut paths = Vec::new();
    for number in 0..100 {
        let name = format!("a file with a long name, and the number {number}.txt");
        place.write(&name, "x\n");
        paths.push(name);
    }
    for max_tokens in [50, 200, 1_000] {
        let manager = place.manager_with(ReadOptions { max_tokens }, FAR);
        let executed = run(&manager, json!({"file_paths": paths})).await;
        let tokens = Tokenizer::O200k.count(content(&executed));
        assert!(tokens <= max_tokens + 60, "{tokens}");
        assert!(content(&executed).contains("the last files were not read"));
    }
}

// Checklist 61
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_file_is_a_user_error_and_other_files_are_read() {
    let place = TestFolder::new();
    let manager = place.manager();
    let missing = run(&manager, json!({"file_paths": ["missing.txt"]})).await;
    let failure = missing.result.failure.as_ref().expect("it failed");
    assert_eq!(
        (failure.error_type, failure.suggestion.is_some()),
        (ErrorType::User, true)
    );
    assert!(
        failure.error.contains("missing.txt: there is no such file"),
        "{}",
        failure.error
    );

    let some = run(
        &manager,
        json!({"file_paths": ["missing.txt", "inside.txt", "../secret.txt"]}),
    )
    .await;
    let result = json!(some.result);
    assert_eq!(
        (&result["success"], &result["files_read"]),
        (&json!(true), &json!(1))
    );
    let errors: Vec<_> = result["errors"]
        .as_array()
        .expect("there are some")
        .iter()
        .collect();
    assert_eq!(
        (&errors[0]["path"], &errors[0]["error_type"]),
        (&json!("missing.txt"), &json!("user_error"))
    );
    assert_eq!(
        (&errors[1]["path"], &errors[1]["error_type"]),
        (&json!("../secret.txt"), &json!("security_error"))
    );
    assert!(content(&some).starts_with(
        "=== missing.txt ===\n[there is no such file]\n=== inside.txt ===\n     1\tone\n"
    ));
}

// Checklist 62
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_read_arguments_are_a_validation_error() {
    let place = TestFolder::new();
    let manager = place.manager();
    for arguments in [
        json!({}),
        json!({"file_paths": {"of": 1}}),
        json!({"file_paths": []}),
        json!({"file_paths": [{"of": 1}]}),
    ] {
        let executed = run(&manager, arguments.clone()).await;
        assert_eq!(
            error_type(&executed),
            Some(ErrorType::Validation),
            "{arguments}: {:?}",
            executed.result
        );
    }
    let executed = run(&manager, json!({})).await;
    assert!(
        executed.result.error().contains("file_paths is required"),
        "{}",
        executed.result.error()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_files_are_recorded_in_the_ledger() {
    let place = TestFolder::new();
    let manager = place.manager();
    let executed = run(&manager, json!({"file_paths": ["inside.txt"], "limit": 1})).await;
    assert!(executed.result.is_success());
    assert!(
        manager
            .files()
            .get(&place.root.join("inside.txt"))
            .is_some(),
        "{:?}",
        manager.files()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_files_are_read_in_part_within_the_time_limit() {
    let place = TestFolder::new();
    let ten_gigabytes = 10 << 30;
    let sparse = File::create(place.root.join("sparse")).expect("it is writable");
    sparse
        .set_len(ten_gigabytes)
        .expect("the file system has sparse files");
    let mut text = File::create(place.root.join("text")).expect("it is writable");
    text.write_all("word ".repeat(4000).as_bytes())
        .expect("it is writable");
    text.set_len(ten_gigabytes)
        .expect("the file system has sparse files");
    let manager = place.manager_with(ReadOptions::default(), Duration::from_millis(300));
    assert_eq!(
        shown(&manager, "sparse").await,
        "[a binary file, 10737418240 bytes: not shown]\n"
    );
    // One line of ten gigabytes takes longer than the time limit.
    let begun = Instant::now();
    let executed = run(&manager, json!({"file_paths": ["text"]})).await;
    assert_eq!(
        error_type(&executed),
        Some(ErrorType::System),
        "{:?}",
        executed.result
    );
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_that_changes_during_the_read_is_still_read() {
    let place = TestFolder::new();
    let path = place.root.join("changing.txt");
    let lines = "a line of the file\n".repeat(100_000);
    place.write("changing.txt", &lines);
    let manager = place.manager_with(
        ReadOptions {
            max_tokens: 10_000_000,
        },
        FAR,
    );
    let done = Arc::new(AtomicBool::new(false));
    let changes = {
        let (done, lines) = (Arc::clone(&done), lines.clone());
        std::thread::spawn(move || {
            let mut file = File::options().write(true).open(path).expect("it is there");
            while !done.load(Ordering::Relaxed) {
                file.set_len(7).expect("it is writable");
                file.seek(SeekFrom::Start(0)).expect("it can be sought");
                file.write_all(lines.as_bytes()).expect("it is writable");
            }
        })
    };
    for limit in 1..=50 {
        let executed = run(
            &manager,
            json!({"file_paths": ["changing.txt"], "limit": limit * 2000}),
        )
        .await;
        assert!(executed.result.is_success(), "{:?}", executed.result);
    }
    done.store(true, Ordering::Relaxed);
    changes.join().expect("it did not panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_concurrent_calls_get_their_own_lines() {
    let place = TestFolder::new();
    let numbers: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    place.write("numbers.txt", numbers);
    let manager = place.manager();
    let arguments = |line| json!({"file_paths": ["numbers.txt"], "offset": line, "limit": 1});
    let calls: Vec<ToolCall> = (1..=1000).map(|line| call(arguments(line))).collect();
    let executed = timeout(FAR, manager.execute_all(&calls))
        .await
        .expect("it does not hang");
    for (line, executed) in (1..=1000).zip(&executed) {
        assert!(
            content(executed).contains(&format!("\t{line}\n")),
            "{line}: {:?}",
            executed.result
        );
    }
}
