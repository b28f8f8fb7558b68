//! A saved index with changed bytes: it is refused, or it gives picks; it never panics.

#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use picktools::{Catalog, Engine, PickOptions, Query, Tool};
use tempfile::TempDir;

/// A saved index: its folder, the path of its file, and the valid content.
static SAVED: LazyLock<(TempDir, PathBuf, Vec<u8>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let tools = vec![
        Tool::without_arguments("find_flights", "Find flights to a city"),
        Tool::without_arguments("send_mail", "Send a message to a colleague"),
    ];
    let catalog = Catalog::from_tools(tools).expect("the tools are valid");
    let engine = Engine::new(catalog).expect("the catalog can be indexed");
    engine
        .save(folder.path(), serde_json::Value::Null)
        .expect("it is saved");
    let entries = fs::read_dir(folder.path()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let path = paths
        .filter(|path| path.is_file())
        .max_by_key(|path| fs::metadata(path).map_or(0, |metadata| metadata.len()))
        .expect("a file");
    let content = fs::read(&path).expect("it is read");
    (folder, path, content)
});

fuzz_target!(|input: (u32, bool, &[u8])| {
    let (place, is_cut, bytes) = input;
    let (folder, path, valid) = &*SAVED;
    let mut changed = valid.clone();
    let start = place as usize % changed.len();
    let end = changed.len().min(start + bytes.len());
    changed[start..end].copy_from_slice(&bytes[..end - start]);
    if is_cut {
        changed.truncate(end);
    }
    fs::write(path, &changed).expect("it is written");
    let Ok(catalog) = Catalog::open_saved(folder.path()) else {
        return;
    };
    let Ok(engine) = Engine::new(catalog) else {
        return;
    };
    let query = Query::new("a flight to Rome");
    if let Ok(selection) = engine.pick(&query, &PickOptions::default()) {
        assert!(selection.picks.len() <= 2);
    }
});
