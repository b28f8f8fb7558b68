//! A short run of `scripts/measure-load.py isolation`.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::root;

/// Other tests run at the same time, so the ratio of times is not checked.
#[cfg(target_os = "linux")]
#[test]
fn load_and_restarts_lose_no_call() {
    let output = Command::new("python3")
        .arg(root("scripts/measure-load.py"))
        .args([
            "isolation",
            "--minutes",
            "0.05",
            "--restarts",
            "1",
            "--json",
        ])
        .args(["--program", env!("CARGO_BIN_EXE_picktools")])
        .output()
        .expect("it runs");
    let message = String::from_utf8_lossy(&output.stderr);
    let figures: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {message}"));
    let (load, restarts) = (&figures["load"], &figures["restarts"]);
    assert_eq!(load["errors"], json!({}), "{message}");
    assert_eq!(load["loaded_calls"], 150, "{figures}");
    assert_eq!(restarts["lost_calls"], 0, "{message} {figures}");
    assert_eq!(restarts["restarts"], 2, "{figures}");
}
