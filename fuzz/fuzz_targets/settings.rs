//! Arbitrary text as the settings of a gateway. Accepted settings hold for every server and role.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools_gateway::Settings;

fuzz_target!(|text: &str| {
    let Ok(settings) = Settings::parse(text) else {
        return;
    };
    settings.check().expect("parsed settings are checked");
    assert!(
        !settings.role("no such role").operator,
        "an unknown role is no operator"
    );
    for name in ["files", "", "a/b", "*"] {
        let _rules = settings.upstream(name);
    }
});
