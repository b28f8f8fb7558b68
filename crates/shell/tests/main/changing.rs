//! Tests of the tools `write`, `edit` and `undo`: protection of files, atomic writes, and attempts
//! to write outside the root.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use picktools::Access;
use picktools_runtime::{ErrorType, RunnableTool, ToolManager};
use picktools_shell::{Edit, Undo, Write};
use serde_json::json;

use crate::workspace::{Workspace, assert_fails, assert_succeeds, call, error_type};

#[test]
fn tools_that_change_files_are_unsafe() {
    let tools: [&dyn RunnableTool; 3] = [&Write::default(), &Edit::default(), &Undo::default()];
    for tool in tools {
        let definition = tool.definition();
        assert!(definition.is_unsafe() && tool.requires_confirmation());
        assert_eq!(definition.annotations.read_only_hint, Some(false));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changing_tools_need_access_and_a_confirmation() {
    let space = Workspace::new();
    let write = call("write", json!({"file_path": "a.txt", "content": "a"}));
    for allow_unsafe in [false, true] {
        let access = Access {
            allow_unsafe,
            ..Access::default()
        };
        let builder = ToolManager::builder(access).tool(Write::default());
        let manager = builder.root(&space.root).build().expect("it is valid");
        let executed = manager.execute(&write).await;
        assert_eq!(error_type(&executed), Some(ErrorType::Permission));
    }
    assert_eq!(space.get("a.txt"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_file_is_written_with_its_folders() {
    let space = Workspace::new();
    let arguments = json!({"file_path": "a/b/c.txt", "content": "one\r\ntwo"});
    let executed = space.call("write", arguments).await;
    assert_succeeds(&executed);
    assert_eq!(
        json!(executed.result.fields),
        json!({"file_path": "a/b/c.txt", "bytes": 8, "created": true})
    );
    assert_eq!(space.get("a/b/c.txt").as_deref(), Some("one\r\ntwo"));
    assert_eq!(space.names("a/b"), ["c.txt"], "no temporary file is left");
    // A file that a tool wrote is known.
    let arguments = json!({"file_path": "a/b/c.txt", "content": "three"});
    let executed = space.call("write", arguments).await;
    assert_eq!(executed.result.fields["created"], false);
    assert_eq!(space.get("a/b/c.txt").as_deref(), Some("three"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_or_changed_file_is_not_changed() {
    let space = Workspace::new();
    space.put("a.txt", "old text\n");
    let write = json!({"file_path": "a.txt", "content": "new"});
    let edit = json!({"file_path": "a.txt", "old_string": "old", "new_string": "new"});
    for (tool, arguments) in [("write", &write), ("edit", &edit)] {
        let executed = space.call(tool, arguments.clone()).await;
        assert_fails(&executed, ErrorType::Validation, "was not read yet");
    }
    assert_succeeds(&space.read("a.txt").await);
    space.put("a.txt", "old text of another\n");
    for (tool, arguments) in [("write", &write), ("edit", &edit)] {
        let executed = space.call(tool, arguments.clone()).await;
        assert_fails(
            &executed,
            ErrorType::Validation,
            "changed since it was read",
        );
    }
    // The same content and time in another file.
    let path = space.root.join("a.txt");
    assert_succeeds(&space.read("a.txt").await);
    let time = fs::metadata(&path).and_then(|metadata| metadata.modified());
    fs::write(space.root.join("b.txt"), "OLD TEXT OF ANOTHER\n").expect("it is writable");
    let other = fs::File::options()
        .write(true)
        .open(space.root.join("b.txt"));
    let other = other.expect("it is there");
    other
        .set_modified(time.expect("it has one"))
        .expect("it can be set");
    fs::rename(space.root.join("b.txt"), &path).expect("it is writable");
    #[cfg(unix)]
    {
        let executed = space.call("write", write.clone()).await;
        assert_fails(
            &executed,
            ErrorType::Validation,
            "changed since it was read",
        );
    }
    assert_eq!(space.get("a.txt").as_deref(), Some("OLD TEXT OF ANOTHER\n"));
    // In the same turn, the file can be read again.
    assert_succeeds(&space.read("a.txt").await);
    assert_succeeds(&space.call("write", write).await);
    assert_eq!(space.get("a.txt").as_deref(), Some("new"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_of_which_nothing_was_shown_is_not_changed() {
    let space = Workspace::new();
    space.put("a.txt", "one\n");
    let beyond = json!({"file_paths": ["a.txt"], "offset": 2});
    assert_succeeds(&space.call("read", beyond).await);
    assert_succeeds(&space.call("grep", json!({"pattern": "one"})).await);
    let write = json!({"file_path": "a.txt", "content": "x"});
    let executed = space.call("write", write.clone()).await;
    assert_fails(&executed, ErrorType::Validation, "was not read yet");
    // An empty file is shown completely.
    space.put("a.txt", "");
    assert_succeeds(&space.read("a.txt").await);
    assert_succeeds(&space.call("write", write).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edit_replaces_exactly_one_text() {
    let space = Workspace::new();
    space.put("a.txt", "one\r\ntwo\r\none\r\nlast");
    assert_succeeds(&space.read("a.txt").await);
    let edit = async |old: &str, new: &str, all: bool| {
        let arguments = json!({
            "file_path": "a.txt", "old_string": old, "new_string": new, "replace_all": all,
        });
        space.call("edit", arguments).await
    };
    assert_fails(
        &edit("three", "3", false).await,
        ErrorType::User,
        "does not occur",
    );
    assert_fails(
        &edit("one", "1", false).await,
        ErrorType::User,
        "occurs 2 times",
    );
    assert_fails(
        &edit("two", "two", false).await,
        ErrorType::Validation,
        "are equal",
    );
    assert_fails(
        &edit("", "x", false).await,
        ErrorType::Validation,
        "old_string",
    );
    let executed = edit("two\none", "2\n2b\n3", false).await;
    assert_succeeds(&executed);
    assert_eq!(
        json!(executed.result.fields),
        json!({"file_path": "a.txt", "replacements": 1, "line": 2})
    );
    assert_eq!(
        space.get("a.txt").as_deref(),
        Some("one\r\n2\r\n2b\r\n3\r\nlast")
    );
    let executed = edit("2", "zwei", true).await;
    assert_eq!(executed.result.fields["replacements"], 2);
    assert_eq!(
        space.get("a.txt").as_deref(),
        Some("one\r\nzwei\r\nzweib\r\n3\r\nlast")
    );
    let missing = json!({"file_path": "b.txt", "old_string": "a", "new_string": "b"});
    let executed = space.call("edit", missing).await;
    assert_fails(&executed, ErrorType::User, "no such file");
    assert_eq!(space.names("."), ["a.txt"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_and_other_encodings_are_refused() {
    let space = Workspace::new();
    for (name, content) in [
        ("western.txt", &b"caf\xe9 au lait, caf\xe9\n"[..]),
        ("wide.txt", b"\xff\xfea\0b\0"),
        ("late.txt", &[[b'a'; 9000].as_slice(), b"\0"].concat()),
    ] {
        space.put(name, content);
        assert_succeeds(&space.read(name).await);
        for (tool, arguments) in [
            ("write", json!({"file_path": name, "content": "x"})),
            (
                "edit",
                json!({"file_path": name, "old_string": "a", "new_string": "b"}),
            ),
        ] {
            let executed = space.call(tool, arguments).await;
            assert_fails(&executed, ErrorType::User, "not UTF-8");
        }
        assert_eq!(
            fs::read(space.root.join(name)).expect("it is there"),
            content
        );
    }
    // A binary file is not shown, so it was not read.
    space.put("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    assert_succeeds(&space.read("image.png").await);
    let arguments = json!({"file_path": "image.png", "content": "x"});
    let executed = space.call("write", arguments).await;
    assert_fails(&executed, ErrorType::Validation, "was not read yet");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_takes_back_the_changes_of_the_turn() {
    let space = Workspace::new();
    space.put("a.txt", "one\r\ntwo");
    let undo = async || space.call("undo", json!({})).await;
    assert_fails(&undo().await, ErrorType::User, "nothing was written");
    assert_succeeds(&space.read("a.txt").await);
    let edit =
        |old: &str, new: &str| json!({"file_path": "a.txt", "old_string": old, "new_string": new});
    assert_succeeds(&space.call("edit", edit("one", "1")).await);
    assert_succeeds(&space.call("edit", edit("two", "2")).await);
    let write = json!({"file_path": "new/b.txt", "content": "b"});
    assert_succeeds(&space.call("write", write).await);

    let executed = undo().await;
    assert_eq!(
        json!(executed.result.fields),
        json!({"file_path": "new/b.txt", "removed": true})
    );
    assert_eq!(space.get("new/b.txt"), None);
    assert_succeeds(&undo().await);
    assert_eq!(space.get("a.txt").as_deref(), Some("1\r\ntwo"));
    // After an undo, the file is still known.
    assert_succeeds(&space.call("edit", edit("two", "three")).await);
    assert_succeeds(&undo().await);
    assert_succeeds(&undo().await);
    assert_eq!(space.get("a.txt").as_deref(), Some("one\r\ntwo"));
    assert_fails(&undo().await, ErrorType::User, "nothing was written");

    assert_succeeds(&space.call("edit", edit("two", "four")).await);
    space.manager.clear_current_turn();
    assert_fails(&undo().await, ErrorType::User, "nothing was written");
    assert_eq!(space.get("a.txt").as_deref(), Some("one\r\nfour"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undo_keeps_files_that_have_changed_since() {
    let space = Workspace::new();
    let write = json!({"file_path": "a.txt", "content": "written"});
    assert_succeeds(&space.call("write", write).await);
    let undo = async || space.call("undo", json!({})).await;
    space.put("a.txt", "changed");
    assert_fails(&undo().await, ErrorType::User, "changed since");
    assert_eq!(space.get("a.txt").as_deref(), Some("changed"));
    fs::remove_file(space.root.join("a.txt")).expect("it is there");
    assert_fails(&undo().await, ErrorType::User, "changed since");
    // Other metadata do not matter.
    space.put("a.txt", "written");
    assert_succeeds(&undo().await);
    assert_eq!(space.get("a.txt"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_one_answer_change_files_in_order() {
    let space = Workspace::new();
    space.put("a.txt", "0");
    let mut calls = vec![call("read", json!({"file_paths": ["a.txt"]}))];
    for number in 0..20 {
        let (old, new) = (number.to_string(), (number + 1).to_string());
        calls.push(call(
            "edit",
            json!({"file_path": "a.txt", "old_string": old, "new_string": new}),
        ));
    }
    calls.push(call("undo", json!({})));
    calls.push(call("read", json!({"file_paths": ["a.txt"], "offset": 1})));
    let executed = space.manager.execute_all(&calls).await;
    executed.iter().for_each(assert_succeeds);
    assert_eq!(space.get("a.txt").as_deref(), Some("19"));
    assert!(
        executed[22].result.fields["content"]
            .to_string()
            .contains("\\t19")
    );
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::workspace::OUTSIDE;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn files_outside_the_root_are_not_written() {
        let space = Workspace::new();
        let outside = space.outside.display();
        for (link, target) in [
            ("link", "../outside/secret.txt".to_owned()),
            ("new", "../outside/new.txt".to_owned()),
            ("out", "../outside".to_owned()),
            ("absolute", format!("{outside}/secret.txt")),
            ("chain", "link".to_owned()),
            ("loop", "loop".to_owned()),
        ] {
            symlink(target, space.root.join(link)).expect("it is writable");
        }
        let made = std::process::Command::new("mkfifo")
            .arg(space.root.join("pipe"))
            .status();
        assert!(made.expect("mkfifo runs").success());
        let paths = [
            "../outside/secret.txt",
            "../outside/new.txt",
            "a/../../outside/new.txt",
            "link",
            "new",
            "chain",
            "absolute",
            "loop",
            "pipe",
            "out/secret.txt",
            "out/new.txt",
            "out/new/new.txt",
            &format!("{outside}/secret.txt"),
            &format!("{outside}/new.txt"),
            "",
            ".",
            "..",
            "folder/",
            "nul\0",
        ];
        for path in paths {
            for (tool, arguments) in [
                ("write", json!({"file_path": path, "content": "x"})),
                (
                    "edit",
                    json!({"file_path": path, "old_string": "E", "new_string": "x"}),
                ),
            ] {
                let executed = space.call(tool, arguments).await;
                assert!(!executed.result.is_success(), "{tool} {path}");
                assert!(!executed.result.error().contains("was not read"), "{path}");
            }
        }
        let names = fs::read_dir(&space.outside).expect("it is there").count();
        assert_eq!(names, 1);
        let secret = fs::read_to_string(space.outside.join("secret.txt"));
        assert_eq!(secret.expect("it is there"), OUTSIDE);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn folder_that_becomes_a_link_is_not_written_through() {
        let space = Workspace::new();
        fs::create_dir(space.root.join("real")).expect("it is writable");
        let done = Arc::new(AtomicBool::new(false));
        let swaps = {
            let (done, root) = (Arc::clone(&done), space.root.clone());
            std::thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    fs::rename(root.join("real"), root.join("aside")).expect("it is writable");
                    symlink("../outside", root.join("real")).expect("it is writable");
                    fs::remove_file(root.join("real")).expect("it is there");
                    fs::rename(root.join("aside"), root.join("real")).expect("it is writable");
                }
            })
        };
        for number in 0..300 {
            let path = format!("real/{number}.txt");
            let arguments = json!({"file_path": path, "content": "x"});
            // It may fail, but it may not leave the root.
            let _executed = space.call("write", arguments).await;
        }
        done.store(true, Ordering::Relaxed);
        // A call may have created the folder meanwhile.
        let _swapped = swaps.join();
        assert_eq!(
            fs::read_dir(&space.outside).expect("it is there").count(),
            1
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn links_in_the_root_stay_links() {
        let space = Workspace::new();
        space.put("folder/file.txt", "old");
        symlink("folder/file.txt", space.root.join("link")).expect("it is writable");
        assert_succeeds(&space.read("link").await);
        let arguments = json!({"file_path": "link", "content": "new"});
        assert_succeeds(&space.call("write", arguments).await);
        assert_eq!(space.get("folder/file.txt").as_deref(), Some("new"));
        assert!(space.root.join("link").is_symlink());
        symlink("nowhere", space.root.join("dangling")).expect("it is writable");
        let arguments = json!({"file_path": "dangling", "content": "new"});
        let executed = space.call("write", arguments).await;
        assert_fails(
            &executed,
            ErrorType::User,
            "a link to a file that does not exist",
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn mode_and_owner_of_a_file_are_kept() {
        let space = Workspace::new();
        space.put("run.sh", "echo 1\n");
        let path = space.root.join("run.sh");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).expect("it is ours");
        let before = fs::metadata(&path).expect("it is there");
        assert_succeeds(&space.read("run.sh").await);
        let edit = json!({"file_path": "run.sh", "old_string": "1", "new_string": "2"});
        assert_succeeds(&space.call("edit", edit).await);
        let after = fs::metadata(&path).expect("it is there");
        assert_eq!(after.mode(), before.mode());
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        // The file was replaced at once, so another name keeps the earlier content.
        assert_ne!(after.ino(), before.ino());
        assert_succeeds(&space.call("undo", json!({})).await);
        assert_eq!(
            fs::metadata(&path).expect("it is there").mode(),
            before.mode()
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn hard_link_to_a_file_outside_is_not_written_through() {
        let space = Workspace::new();
        let secret = space.outside.join("secret.txt");
        fs::hard_link(&secret, space.root.join("hard")).expect("it is writable");
        assert_succeeds(&space.read("hard").await);
        let arguments = json!({"file_path": "hard", "content": "new"});
        assert_succeeds(&space.call("write", arguments).await);
        assert_eq!(fs::read_to_string(secret).expect("it is there"), OUTSIDE);
    }
}
