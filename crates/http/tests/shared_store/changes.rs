//! Reports of changes in a store.

use std::time::Duration;

use picktools_state::{Purpose, StateChanges, StateLocation, StateStore};
use picktools_testing::store::StoreServer;
use tokio::time::timeout;

use crate::gateways::run_blocking;

/// The time within which a change is reported. It is shorter than the interval of reports without
/// a change.
const SOON: Duration = Duration::from_secs(5);

/// A store with a value, as one process sees it.
struct TestStore(StateStore);

impl TestStore {
    fn open(server: &StoreServer, tenant: &str) -> Self {
        Self::open_url(&server.url(), tenant)
    }

    fn open_url(url: &str, tenant: &str) -> Self {
        Self(StateStore::open(url, tenant).expect("a store"))
    }

    fn changes(&self) -> StateChanges {
        StateChanges::watch([StateLocation::Store(self.0.clone())])
    }

    /// Changes the value, and reports the change.
    async fn write(&self, value: &str) {
        let (store, value) = (self.0.clone(), value.to_owned());
        run_blocking(move || {
            let key = store.key("value");
            let command: [&[u8]; 3] = [b"SET", key.as_bytes(), value.as_bytes()];
            store.execute(Purpose::Calls, &command).expect("a reply");
            store.report_change(Purpose::Calls).expect("a reply");
        })
        .await;
    }

    async fn read(&self) -> Option<String> {
        let store = self.0.clone();
        run_blocking(move || {
            let key = store.key("value");
            let reply = store.execute(Purpose::Calls, &[b"GET", key.as_bytes()]);
            reply.expect("a reply").text().map(str::to_owned)
        })
        .await
    }

    /// Reads the value after each report, until it is the expected one.
    async fn wait_for(&self, changes: &mut StateChanges, expected: &str) {
        let reader = async {
            loop {
                changes.changed().await;
                if self.read().await.as_deref() == Some(expected) {
                    return;
                }
            }
        };
        let result = timeout(SOON, reader).await;
        result.unwrap_or_else(|_| panic!("the change to {expected:?} was not reported"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_at_another_process_is_reported() {
    let server = StoreServer::start(&[]);
    let (one, other) = (
        TestStore::open(&server, "acme"),
        TestStore::open(&server, "acme"),
    );
    let mut changes = one.changes();
    let mut clone = changes.clone();
    for value in ["1", "2", "3"] {
        other.write(value).await;
        one.wait_for(&mut changes, value).await;
        one.wait_for(&mut clone, value).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_before_the_connection_is_open_is_reported() {
    let server = StoreServer::start(&[]);
    for round in 0..20 {
        let tenant = format!("tenant-{round}");
        let (one, other) = (
            TestStore::open(&server, &tenant),
            TestStore::open(&server, &tenant),
        );
        other.write("first").await;
        let mut changes = one.changes();
        assert_eq!(one.read().await.as_deref(), Some("first"));
        other.write("second").await;
        one.wait_for(&mut changes, "second").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_while_the_connection_is_lost_is_reported() {
    let server = StoreServer::start(&[]);
    let (one, other) = (
        TestStore::open(&server, "acme"),
        TestStore::open(&server, "acme"),
    );
    let mut changes = one.changes();
    for value in ["1", "2", "3"] {
        server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        other.write(value).await;
        one.wait_for(&mut changes, value).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn store_that_refuses_to_wait_is_asked_at_intervals() {
    let server = StoreServer::start(&[]);
    let rules = ["on", ">secret", "~*", "+@all", "-xread"];
    server.ask(&[&["ACL", "SETUSER", "app"], &rules[..]].concat());
    let url = format!("redis://app:secret@{}/0", server.address());
    let (one, other) = (
        TestStore::open_url(&url, "acme"),
        TestStore::open_url(&url, "acme"),
    );
    let mut changes = one.changes();
    for value in ["1", "2", "3"] {
        other.write(value).await;
        one.wait_for(&mut changes, value).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let statistics: String =
        redis::from_redis_value(server.ask(&["INFO", "commandstats"])).expect("a text");
    let line = statistics.lines().find(|line| line.contains("_xread:"));
    let refused = line.and_then(|line| line.split("rejected_calls=").nth(1)?.split(',').next());
    let refused: usize = refused.expect("a number").parse().expect("a number");
    assert!((1..=15).contains(&refused), "{refused} requests");
}
