//! A user's machine: the folders `home`, `project` and `data`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::cli::picktools;

pub(crate) struct Machine(tempfile::TempDir);

impl Machine {
    pub(crate) fn new() -> Self {
        let machine = Self(tempfile::tempdir().expect("a folder"));
        for folder in ["home", "project", "data"] {
            fs::create_dir(machine.path(folder)).expect("it is new");
        }
        machine
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        let folder = self.0.path().canonicalize().expect("it is there");
        folder.join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }

    pub(crate) fn write_json(&self, path: &str, value: &Value) {
        self.write(path, value.to_string());
    }

    /// Returns the program, to run in the project.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = picktools(arguments);
        command
            .current_dir(self.path("project"))
            .env("HOME", self.path("home"))
            .env("PICKTOOLS_DATA_DIR", self.path("data"))
            .env_remove("XDG_CONFIG_HOME");
        command
    }
}
