//! The rate limits of keys at all gateways.

use std::time::{Duration, Instant};

use picktools_state::{Purpose, StoreFault};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateways::{SharedGateway, within};
use picktools_testing::store::{Relay, RelayMode, StoreServer};

fn settings() -> Value {
    let key = |name: &str| {
        let sha256: String = Sha256::digest(name)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        json!({"name": name, "sha256": sha256, "per_minute": 6, "burst": 10})
    };
    json!({"keys": [key("ada"), key("bob"), key("eve"), key("joe")]})
}

/// Returns `true` if a request with the key is within the rate limit.
async fn may_request(one: &SharedGateway, key: &str) -> bool {
    let request = reqwest::Client::new()
        .post(one.url("/mcp"))
        .bearer_auth(key)
        .body("{}");
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    assert!(status != 429 || answer.headers().contains_key("retry-after"));
    status != 429
}

async fn count(gateways: &[&SharedGateway], key: &str, requests: usize) -> usize {
    let mut count = 0;
    for request in 0..requests {
        count += usize::from(may_request(gateways[request % gateways.len()], key).await);
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_counts_requests_at_all_gateways() {
    let server = StoreServer::start(&[]);
    let one = SharedGateway::start(&server.url(), "acme", &settings()).await;
    let other = SharedGateway::start(&server.url(), "acme", &settings()).await;
    let stranger = SharedGateway::start(&server.url(), "other", &settings()).await;
    assert_eq!(count(&[&one, &other], "ada", 30).await, 10);
    assert_eq!(count(&[&other], "bob", 5).await, 5, "each key has its own");
    assert_eq!(count(&[&stranger], "ada", 5).await, 5, "and each tenant");
    one.end().await;
    other.end().await;
    stranger.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limit_without_the_store_is_stricter_and_fast() {
    let mut server = StoreServer::start(&[]);
    let relay = Relay::to(server.address());
    let one = SharedGateway::start(&relay.url(), "acme", &settings()).await;
    for (mode, key) in [(RelayMode::Slow, "ada"), (RelayMode::Cut, "bob")] {
        relay.set_mode(mode);
        let started = Instant::now();
        assert!(may_request(&one, key).await);
        assert!(
            started.elapsed() < Duration::from_millis(900),
            "{:?}",
            started.elapsed()
        );
        let (started, allowed) = (Instant::now(), 1 + count(&[&one], key, 30).await);
        assert_eq!(allowed, 5, "each counts twice");
        assert!(
            started.elapsed() < Duration::from_secs(3),
            "not every request waits: {:?}",
            started.elapsed()
        );
        let (status, health) = one.get("/health").await;
        assert_eq!(status, 200);
        assert!(
            health.starts_with("ok\n") && health.contains("away"),
            "{health}"
        );
        relay.set_mode(RelayMode::Forward);
        within(
            Duration::from_secs(10),
            "the store is available again",
            async || one.store.faults().is_empty(),
        )
        .await;
    }
    assert_eq!(one.get("/health").await.1, "ok\n");
    let joe = async || may_request(&one, "joe").await;
    assert!(joe().await);
    // Foreign data of several types.
    let find_key = || {
        server
            .keys()
            .into_iter()
            .find(|key| key.contains(":rate:"))
            .expect("a key")
    };
    let key = find_key();
    server.ask(&["FLUSHALL"]);
    assert!(joe().await);
    let joe_key = find_key();
    for (command, value) in [("SET", "x"), ("LPUSH", "x"), ("SADD", "x")] {
        server.ask(&["DEL", &joe_key]);
        server.ask(&[command, &joe_key, value]);
        assert!(joe().await, "the gateway's own limit holds");
        assert!(
            one.store
                .faults()
                .contains(&(Purpose::Rates, StoreFault::Foreign)),
            "{command} {key}"
        );
    }
    // A time in the far future does not block the key forever.
    server.ask(&["SET", &joe_key, "1e300"]);
    assert!(!joe().await);
    let expiry: i64 = redis::from_redis_value(server.ask(&["PTTL", &joe_key])).expect("a time");
    assert!((1..=100_000).contains(&expiry), "{expiry}");
    assert!(
        one.store
            .faults()
            .iter()
            .all(|(purpose, _)| *purpose != Purpose::Rates)
    );
    server.kill();
    assert!(may_request(&one, "eve").await);
    assert_eq!(1 + count(&[&one], "eve", 30).await, 5);
    one.end().await;
}
