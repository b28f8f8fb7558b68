//! The body of a request for a `/v1` route; the first byte selects the route. A fault is a JSON
//! object with a status.

#![no_main]

use libfuzzer_sys::fuzz_target;
use picktools_http::body_fault;
use serde_json::Value;

const ROUTES: [&str; 7] = [
    "/v1/pick",
    "/v1/pick/batch",
    "/v1/resolve",
    "/v1/validate",
    "/v1/translate",
    "/v1/call",
    "/v1/embeddings",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, body)) = bytes.split_first() else {
        return;
    };
    let route = ROUTES[usize::from(*first) % ROUTES.len()];
    let Some(fault) = body_fault(route, body) else {
        return;
    };
    let fault: Value = serde_json::from_str(&fault).expect("the fault is JSON");
    let status = fault["status"].as_u64();
    assert!(matches!(status, Some(400 | 422)), "{fault}");
    let detail = fault["detail"].as_str().expect("a fault has a detail");
    assert!(detail.chars().count() <= 600, "{detail}");
});
