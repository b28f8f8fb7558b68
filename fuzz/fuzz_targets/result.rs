//! The answer of a server to a call: it is parsed, cut to its limit and scanned.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools_gateway::results;
use picktools_gateway::settings::Scan;
use rmcp::model::{CallToolResponse, ContentBlock, ServerResult};

/// The most bytes of a result.
const MAX_BYTES: usize = 200;
/// The most bytes of notes and marks that the gateway adds for each part of a result.
const MAX_NOTE_BYTES: usize = 2000;

fuzz_target!(|bytes: &[u8]| {
    let message = picktools_mcp::mend(bytes);
    let Ok(answer) = serde_json::from_str::<ServerResult>(&message) else {
        return;
    };
    let Ok(CallToolResponse::Complete(result)) = results::parse_answer(answer, "files") else {
        return;
    };
    let mut bounded = result;
    results::bound(&mut bounded, MAX_BYTES);
    assert!(bounded.content.len() <= 256);
    let structured = &bounded.structured_content;
    assert!(
        structured
            .as_ref()
            .is_none_or(|value| value.to_string().len() <= MAX_BYTES)
    );
    for part in &bounded.content {
        if let ContentBlock::Text(text) = part {
            assert!(text.text.len() <= MAX_BYTES + MAX_NOTE_BYTES);
        }
    }
    for scan in [Scan::Off, Scan::Mark] {
        let mut scanned = bounded.clone();
        results::scan(&mut scanned, scan, "files").expect("marked results are not refused");
        assert!(scanned.content.len() >= bounded.content.len());
    }
    let mut blocked = bounded.clone();
    if results::scan(&mut blocked, Scan::Block, "files").is_ok() {
        assert_eq!(blocked, bounded, "a result without findings is unchanged");
    }
});
