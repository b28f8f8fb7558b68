//! Helpers of the modules: the paths of the repository's files.

use std::path::{Path, PathBuf};

/// Returns a path below the workspace.
pub(crate) fn root(path: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("it is in a folder of crates");
    crates
        .parent()
        .expect("crates are in the workspace")
        .join(path)
}

pub(crate) fn fixture(path: &str) -> PathBuf {
    root("fixtures").join(path)
}

/// Returns every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("it can be read").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Returns the folder that `scripts/fetch-models.sh` fills.
#[cfg(feature = "onnx")]
pub(crate) fn models() -> PathBuf {
    std::env::var_os("PICKTOOLS_TEST_MODELS").map_or_else(|| root("target/models"), PathBuf::from)
}
