//! The text of a `SKILL.md`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools::skills::skills_section;

fuzz_target!(|text: &str| {
    if let Ok(parsed) = picktools_skills::parse(text, "fuzz/SKILL.md") {
        assert!(
            skills_section([&parsed.skill]).lines().count() < 6,
            "no description adds a line"
        );
    }
});
