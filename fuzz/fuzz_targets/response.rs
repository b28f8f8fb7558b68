//! The answer of a provider, complete and as a stream; the first byte selects the provider.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools_provider::{CallStream, EventReader, Provider, calls_in_text, possible_call};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let provider = Provider::ALL[usize::from(*first) % Provider::ALL.len()];
    if let Ok(answer) = serde_json::from_slice(rest) {
        let _calls = provider.calls(&answer);
    }
    if let Ok(text) = std::str::from_utf8(rest) {
        let _calls = calls_in_text(text, &|_| true);
        let _start = possible_call(text, 0);
    }
    let mut reader = EventReader::new();
    let mut stream = CallStream::new(provider);
    let (one, two) = rest.split_at(rest.len() / 2);
    for part in [one, two] {
        let Ok(events) = reader.push(part) else {
            return;
        };
        if events.iter().any(|event| stream.push(event).is_err()) {
            return;
        }
    }
    if let Ok(events) = reader.finish()
        && events.iter().all(|event| stream.push(event).is_ok())
    {
        let _calls = stream.finish();
    }
});
