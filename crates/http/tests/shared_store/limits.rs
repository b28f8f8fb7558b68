//! How many requests a key has at all gateways together.

use std::time::{Duration, Instant};

use picktools_state::{Fault, Purpose};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateways::{One, within};
use picktools_testing::store::{Line, Relay, StoreServer};

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

/// Whether a key may send a request.
async fn may(one: &One, key: &str) -> bool {
    let request = reqwest::Client::new()
        .post(one.url("/mcp"))
        .bearer_auth(key)
        .body("{}");
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    assert!(status != 429 || answer.headers().contains_key("retry-after"));
    status != 429
}

async fn count(gateways: &[&One], key: &str, requests: usize) -> usize {
    let mut count = 0;
    for request in 0..requests {
        count += usize::from(may(gateways[request % gateways.len()], key).await);
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_its_requests_once_and_not_once_for_each_gateway() {
    let server = StoreServer::start(&[]);
    let one = One::start(&server.url(), "acme", &settings()).await;
    let other = One::start(&server.url(), "acme", &settings()).await;
    let stranger = One::start(&server.url(), "other", &settings()).await;
    assert_eq!(count(&[&one, &other], "ada", 30).await, 10);
    assert_eq!(count(&[&other], "bob", 5).await, 5, "each key has its own");
    assert_eq!(count(&[&stranger], "ada", 5).await, 5, "and each tenant");
    one.end().await;
    other.end().await;
    stranger.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_store_a_gateway_is_stricter_and_never_unlimited_and_nobody_waits_long() {
    let mut server = StoreServer::start(&[]);
    let relay = Relay::to(server.address());
    let one = One::start(&relay.url(), "acme", &settings()).await;
    for (line, key) in [(Line::Slow, "ada"), (Line::Cut, "bob")] {
        relay.is(line);
        let asked = Instant::now();
        assert!(may(&one, key).await);
        assert!(
            asked.elapsed() < Duration::from_millis(900),
            "{:?}",
            asked.elapsed()
        );
        let (asked, allowed) = (Instant::now(), 1 + count(&[&one], key, 30).await);
        assert_eq!(allowed, 5, "each counts twice");
        assert!(
            asked.elapsed() < Duration::from_secs(3),
            "not each waits: {:?}",
            asked.elapsed()
        );
        let (status, told) = one.get("/health").await;
        assert_eq!(status, 200);
        assert!(told.starts_with("ok\n") && told.contains("away"), "{told}");
        relay.is(Line::Good);
        within(Duration::from_secs(10), "it is there again", async || {
            one.store.faults().is_empty()
        })
        .await;
    }
    assert_eq!(one.get("/health").await.1, "ok\n");
    let joe = async || may(&one, "joe").await;
    assert!(joe().await);
    // Somebody else's data, of each kind.
    let keys = || {
        server
            .keys()
            .into_iter()
            .find(|key| key.contains(":rate:"))
            .expect("a key")
    };
    let key = keys();
    server.ask(&["FLUSHALL"]);
    assert!(joe().await);
    let of_joe = keys();
    for (command, value) in [("SET", "x"), ("LPUSH", "x"), ("SADD", "x")] {
        server.ask(&["DEL", &of_joe]);
        server.ask(&[command, &of_joe, value]);
        assert!(joe().await, "the gateway's own limit holds");
        assert!(
            one.store
                .faults()
                .contains(&(Purpose::Rates, Fault::Foreign)),
            "{command} {key}"
        );
    }
    // A time far from now holds nobody up for ever.
    server.ask(&["SET", &of_joe, "1e300"]);
    assert!(!joe().await);
    let left: i64 = redis::from_redis_value(server.ask(&["PTTL", &of_joe])).expect("a time");
    assert!((1..=100_000).contains(&left), "{left}");
    assert!(
        one.store
            .faults()
            .iter()
            .all(|(purpose, _)| *purpose != Purpose::Rates)
    );
    server.kill();
    assert!(may(&one, "eve").await);
    assert_eq!(1 + count(&[&one], "eve", 30).await, 5);
    one.end().await;
}
