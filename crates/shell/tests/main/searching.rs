//! Tests of the tools `grep` and `glob`: ignored files, limits, and links out of the root.

use std::time::Duration;

use picktools_runtime::{ErrorType, RunnableTool};
use picktools_shell::{Glob, Grep, SearchOptions};
use serde_json::{Value, json};

use crate::workspace::{Workspace, assert_fails, assert_succeeds, text};

fn project() -> Workspace {
    project_with(SearchOptions::default())
}

fn project_with(options: SearchOptions) -> Workspace {
    let space = Workspace::with_limits(options);
    space.put(".gitignore", "/target\n*.log\n");
    space.put("src/main.rs", "fn main() {\n    run();\n}\n");
    space.put("src/deep/lib.rs", "pub fn run() {}\r\n");
    space.put("src/deep/.gitignore", "secret.rs\n");
    space.put("src/deep/secret.rs", "fn run() {}\n");
    space.put("target/out.rs", "fn run() {}\n");
    space.put("run.log", "run\n");
    space.put(".hidden/run.rs", "fn run() {}\n");
    space.put("docs/README.md", "Run `run`.\n");
    space.put("data.bin", b"\0\x01run\n");
    space
}

fn files(executed: &picktools_runtime::ExecutedCall) -> Value {
    executed.result.fields["files"].clone()
}

#[test]
fn search_tools_only_read() {
    let tools: [&dyn RunnableTool; 2] = [&Grep::default(), &Glob::default()];
    for tool in tools {
        let definition = tool.definition();
        assert!(!definition.is_unsafe() && !tool.requires_confirmation());
        assert_eq!(definition.annotations.read_only_hint, Some(true));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grep_shows_lines_and_honours_gitignore() {
    let space = project();
    let executed = space.call("grep", json!({"pattern": r"\brun\b"})).await;
    assert_eq!(
        text(&executed, "content"),
        "docs/README.md:1:Run `run`.\n\
         src/deep/lib.rs:1:pub fn run() {}\n\
         src/main.rs:2:    run();\n"
    );
    let fields = &executed.result.fields;
    assert_eq!(
        (&fields["matches"], fields.get("truncated")),
        (&json!(3), None)
    );
    for (arguments, expected) in [
        (
            json!({"pattern": "RUN", "glob": "*.md", "ignore_case": true}),
            "docs/README.md:1:Run `run`.\n",
        ),
        (
            json!({"pattern": "run", "path": "src", "glob": "deep/*.rs"}),
            "src/deep/lib.rs:1:pub fn run() {}\n",
        ),
        (
            json!({"pattern": "run", "path": "src/main.rs", "context": 1}),
            "src/main.rs-1-fn main() {\nsrc/main.rs:2:    run();\nsrc/main.rs-3-}\n",
        ),
        // A path that is named is searched, even if it is hidden or ignored.
        (
            json!({"pattern": "run", "path": ".hidden"}),
            ".hidden/run.rs:1:fn run() {}\n",
        ),
        (
            json!({"pattern": "run", "path": "run.log"}),
            "run.log:1:run\n",
        ),
        (json!({"pattern": "nothing"}), ""),
    ] {
        let executed = space.call("grep", arguments.clone()).await;
        assert_succeeds(&executed);
        assert_eq!(text(&executed, "content"), expected, "{arguments}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gitignore_above_the_place_of_a_search_counts() {
    let space = Workspace::new();
    space.put(".gitignore", "*.log\n/a/b/skip/\n");
    for name in ["a/b/c.log", "a/b/c.txt", "a/b/skip/d.txt"] {
        space.put(name, "x\n");
    }
    std::fs::write(space.root.join("../.gitignore"), "*.txt\n").expect("it is writable");
    let executed = space
        .call("grep", json!({"pattern": "x", "path": "a/b"}))
        .await;
    assert_eq!(text(&executed, "content"), "a/b/c.txt:1:x\n");
    let executed = space
        .call("glob", json!({"pattern": "**", "path": "a/b"}))
        .await;
    assert_eq!(files(&executed), json!(["a/b/c.txt"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn glob_lists_files_in_order() {
    let space = project();
    for (arguments, expected) in [
        (
            json!({"pattern": "*.rs"}),
            json!(["src/deep/lib.rs", "src/main.rs"]),
        ),
        (json!({"pattern": "src/*.rs"}), json!(["src/main.rs"])),
        (json!({"pattern": "./src/*.rs"}), json!(["src/main.rs"])),
        (
            json!({"pattern": "**/*.{md,bin}"}),
            json!(["data.bin", "docs/README.md"]),
        ),
        (
            json!({"pattern": "deep/**", "path": "src"}),
            json!(["src/deep/lib.rs"]),
        ),
        (json!({"pattern": "*.py"}), json!([])),
    ] {
        let executed = space.call("glob", arguments.clone()).await;
        assert_succeeds(&executed);
        assert_eq!(files(&executed), expected, "{arguments}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_searches_say_what_is_wrong() {
    let space = project();
    for (tool, arguments, message) in [
        (
            "grep",
            json!({"pattern": "a("}),
            "the pattern is invalid: unclosed group",
        ),
        ("grep", json!({"pattern": "a\nb"}), "the pattern is invalid"),
        (
            "grep",
            json!({"pattern": "(a{1000}){1000}"}),
            "the pattern is invalid",
        ),
        (
            "grep",
            json!({"pattern": "a", "glob": "{a"}),
            "the glob is invalid",
        ),
        ("glob", json!({"pattern": "[a"}), "the glob is invalid"),
    ] {
        let executed = space.call(tool, arguments).await;
        assert_fails(&executed, ErrorType::Validation, message);
        assert_eq!(executed.result.error().lines().count(), 1);
    }
    for tool in ["grep", "glob"] {
        let missing = space
            .call(tool, json!({"pattern": "a", "path": "none"}))
            .await;
        assert_fails(&missing, ErrorType::User, "none: there is no such file");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_stop_at_their_limits_and_say_so() {
    let limits = SearchOptions {
        max_results: 5,
        ..SearchOptions::default()
    };
    let space = project_with(limits);
    for number in 0..10 {
        space.put(&format!("many/{number}.txt"), "needle\nneedle\n");
    }
    let executed = space.call("grep", json!({"pattern": "needle"})).await;
    let fields = &executed.result.fields;
    assert_eq!(
        (&fields["matches"], &fields["truncated"]),
        (&json!(5), &json!(true))
    );
    assert!(
        text(&executed, "content")
            .ends_with("[stopped after 5 results; there may be more, narrow the search]\n")
    );
    let executed = space.call("glob", json!({"pattern": "many/*"})).await;
    assert_eq!(files(&executed).as_array().map(Vec::len), Some(5));
    assert!(text(&executed, "note").contains("stopped after 5 results"));
    let exact = space
        .call(
            "grep",
            json!({"pattern": "needle", "glob": "many/[01].txt"}),
        )
        .await;
    assert_eq!(exact.result.fields.get("truncated"), None);

    let limits = SearchOptions {
        max_bytes: 100,
        ..SearchOptions::default()
    };
    let space = project_with(limits);
    space.put(
        "long.txt",
        format!("needle{}\n", "é".repeat(1000)).repeat(10),
    );
    for number in 0..20 {
        space.put(&format!("many/{number}.txt"), "word\n".repeat(10));
    }
    let executed = space.call("grep", json!({"pattern": "word"})).await;
    assert!(text(&executed, "content").contains("stopped after 100 bytes"));
    assert!(text(&executed, "content").len() < 200);
    let executed = space.call("glob", json!({"pattern": "many/*"})).await;
    assert!(text(&executed, "note").contains("stopped after 100 bytes"));

    let limits = SearchOptions {
        max_time: Duration::ZERO,
        max_file_bytes: 10,
        ..SearchOptions::default()
    };
    let space = project_with(limits);
    let executed = space.call("grep", json!({"pattern": "run"})).await;
    assert!(text(&executed, "content").contains("time limit"));
    let executed = space.call("glob", json!({"pattern": "*"})).await;
    assert!(text(&executed, "note").contains("time limit"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_files_and_long_lines_are_cut_and_counted() {
    let limits = SearchOptions {
        max_file_bytes: 5_000,
        ..SearchOptions::default()
    };
    let space = Workspace::with_limits(limits);
    space.put("large.txt", "needle\n".repeat(1_000));
    space.put("long.txt", format!("needle{}\n", "é".repeat(1_000)));
    let executed = space.call("grep", json!({"pattern": "needle"})).await;
    assert_eq!(executed.result.fields["files_skipped"], 1);
    let content = text(&executed, "content");
    assert!(content.starts_with("long.txt:1:needleé"), "{content}");
    assert!(
        content.ends_with("é… [1506 more bytes of the line]\n"),
        "{content}"
    );
    let executed = space
        .call("grep", json!({"pattern": "needle", "path": "large.txt"}))
        .await;
    assert_fails(
        &executed,
        ErrorType::User,
        "files of more than 5000 are not searched",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn working_folder_of_a_session_is_kept() {
    let space = project();
    let cd = async |path: &str, session: Option<&str>| {
        let mut arguments = json!({"path": path});
        if let Some(session) = session {
            arguments["sessionId"] = session.into();
        }
        space.call("cd", arguments).await
    };
    assert_eq!(text(&cd("src", None).await, "folder"), "src");
    assert_eq!(text(&cd("docs", Some("a")).await, "folder"), "docs");
    let glob = json!({"pattern": "*"});
    assert_eq!(
        files(&space.call("glob", glob).await),
        json!(["deep/lib.rs", "main.rs"])
    );
    let glob = json!({"pattern": "*", "sessionId": "a"});
    assert_eq!(files(&space.call("glob", glob).await), json!(["README.md"]));
    assert_succeeds(&space.read("main.rs").await);
    let write = json!({"file_path": "new.txt", "content": "x", "sessionId": "a"});
    assert_succeeds(&space.call("write", write).await);
    assert_eq!(space.get("docs/new.txt").as_deref(), Some("x"));
    // A path that is not below the folder is absolute, so that it can be given again.
    let glob = json!({"pattern": "*.md", "path": "../docs"});
    let absolute = space.root.join("docs/README.md");
    assert_eq!(files(&space.call("glob", glob).await), json!([absolute]));
    assert_succeeds(&space.read(&absolute.display().to_string()).await);

    assert_eq!(text(&cd("deep", None).await, "folder"), "src/deep");
    assert_eq!(text(&cd("..", None).await, "folder"), "src");
    assert_eq!(text(&cd("..", None).await, "folder"), ".");
    assert_fails(&cd("..", None).await, ErrorType::Security, "outside");
    assert_fails(&cd("/", None).await, ErrorType::Security, "outside");
    assert_fails(&cd("run.log", None).await, ErrorType::User, "not a folder");
    assert_fails(&cd("none", None).await, ErrorType::User, "no such");
    space.manager.clear_state();
    let glob = json!({"pattern": "docs/*.md", "sessionId": "a"});
    assert_eq!(
        files(&space.call("glob", glob).await),
        json!(["docs/README.md"])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nearest_rules_of_gitignore_decide() {
    let space = Workspace::new();
    space.put(".gitignore", "*.txt\n!keep.txt\nbuild/\n/top\n");
    space.put("a/.gitignore", "!a.txt\nkeep.txt\n");
    space.put("a/.ignore", "b.md\n");
    for name in [
        "a.txt",
        "keep.txt",
        "top",
        "build/x",
        "a/a.txt",
        "a/keep.txt",
        "a/b.txt",
        "a/b.md",
        "a/top",
        "a/build/y",
        "a/c.md",
    ] {
        space.put(name, "");
    }
    let executed = space.call("glob", json!({"pattern": "*"})).await;
    assert_eq!(
        files(&executed),
        json!(["a/a.txt", "a/c.md", "a/top", "keep.txt"])
    );
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_are_links_or_pipes_are_not_read() {
    use std::os::unix::fs::symlink;
    let space = Workspace::new();
    for folder in ["endless", "foreign", "pipe"] {
        space.put(&format!("{folder}/a.txt"), "x\n");
    }
    std::fs::write(space.outside.join("rules"), "*\n").expect("it is writable");
    symlink("/dev/zero", space.root.join("endless/.gitignore")).expect("it is writable");
    symlink("../../outside/rules", space.root.join("foreign/.ignore")).expect("it is writable");
    let made = std::process::Command::new("mkfifo")
        .arg(space.root.join("pipe/.gitignore"))
        .status();
    assert!(made.expect("mkfifo runs").success());
    let executed = space.call("glob", json!({"pattern": "*"})).await;
    assert_eq!(
        files(&executed),
        json!(["endless/a.txt", "foreign/a.txt", "pipe/a.txt"])
    );
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_out_of_the_root_are_not_searched() {
    use std::os::unix::fs::symlink;
    let space = Workspace::new();
    space.put("inside.txt", "SECRET inside\n");
    for (link, target) in [
        ("link.txt", "../outside/secret.txt"),
        ("out", "../outside"),
        ("again.txt", "inside.txt"),
        ("loop", "."),
    ] {
        symlink(target, space.root.join(link)).expect("it is writable");
    }
    let made = std::process::Command::new("mkfifo")
        .arg(space.root.join("pipe"))
        .status();
    assert!(made.expect("mkfifo runs").success());
    let executed = space.call("grep", json!({"pattern": "SECRET"})).await;
    assert_eq!(text(&executed, "content"), "inside.txt:1:SECRET inside\n");
    let executed = space.call("glob", json!({"pattern": "**"})).await;
    assert_eq!(files(&executed), json!(["again.txt", "inside.txt"]));
    let outside = space.outside.display().to_string();
    for path in ["out", "link.txt", "..", "../outside", &outside] {
        for tool in ["grep", "glob"] {
            let executed = space
                .call(tool, json!({"pattern": "SECRET", "path": path}))
                .await;
            assert_fails(&executed, ErrorType::Security, "outside");
        }
    }
    let executed = space
        .call("grep", json!({"pattern": "SECRET", "path": "again.txt"}))
        .await;
    assert_eq!(text(&executed, "content"), "inside.txt:1:SECRET inside\n");
    let executed = space
        .call("grep", json!({"pattern": "SECRET", "path": "pipe"}))
        .await;
    assert!(!executed.result.is_success());
}
