//! Arbitrary bytes as the file of pins: it is refused, or can be read and decided about.

#![no_main]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use picktools_gateway::Pins;
use tempfile::TempDir;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let path = FOLDER.path().join("pins.json");
    fs::write(&path, bytes).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is private");
    let Ok(pins) = Pins::open(FOLDER.path()) else {
        return;
    };
    let Ok(quarantined) = pins.quarantined() else {
        return;
    };
    for (id, definition) in quarantined {
        let _reason = definition.describe_reason();
        pins.approved(&id).expect("the pins can be read");
        pins.deny(&id, &definition.version())
            .expect("the shown version is denied");
        pins.approve(&[(id.clone(), definition.version())])
            .expect("the shown version is approved");
        let remaining = pins.quarantined().expect("the pins can be read");
        assert!(!remaining.contains_key(&id), "it is approved");
        pins.approved(&id).expect("the pins can be read");
    }
});
