//! Names of servers and tools: shown names are accepted by models, and different tools have
//! different ones.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools_gateway::{name_fault, qualified_name};

fuzz_target!(|names: (&str, &str, &str, &str)| {
    let (source, name, other_source, other_name) = names;
    if name_fault(source).is_some() || name_fault(other_source).is_some() {
        return;
    }
    let shown = qualified_name(source, name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(!shown.is_empty() && shown.len() <= 64, "{shown}");
    assert!(shown.chars().all(is_plain), "{shown}");
    let is_same = (source, name) == (other_source, other_name);
    assert_eq!(shown == qualified_name(other_source, other_name), is_same);
});
