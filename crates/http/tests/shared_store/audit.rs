//! The audit records of all gateways: each is in the store exactly once.

use std::collections::BTreeMap;
use std::time::Duration;

use picktools_audit as audit;
use picktools_gateway::Gateway;
use picktools_state::{Purpose, StateStore, StoreFault};
use redis::Value as Answer;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateways::{Client, GatewayState, SharedGateway, options, run_blocking, within};
use picktools_testing::store::{Relay, RelayMode, StoreServer};

const SOON: Duration = Duration::from_secs(60);

fn sha256(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the records of each gateway, and checks that their chains are complete.
fn records(server: &StoreServer) -> BTreeMap<String, Vec<Value>> {
    let answer = server.ask(&["XRANGE", "picktools:{acme}:gateway:audit", "-", "+"]);
    let entries: Vec<(String, Vec<String>)> = match answer {
        Answer::Nil => Vec::new(),
        answer => redis::from_redis_value(answer).expect("entries"),
    };
    let mut chains: BTreeMap<String, (Vec<Value>, String)> = BTreeMap::new();
    for (_, fields) in entries {
        let [gateway_name, gateway, record_name, record] = &fields[..] else {
            panic!("{fields:?}")
        };
        assert_eq!(
            (gateway_name.as_str(), record_name.as_str()),
            ("gateway", "record")
        );
        let (records, last) = chains.entry(gateway.clone()).or_default();
        let value: Value = serde_json::from_str(record).expect("JSON");
        if let Some(last_record) = records.last() {
            assert_eq!(
                value["number"].as_u64(),
                last_record["number"].as_u64().map(|number| number + 1),
                "no gap and no duplicate"
            );
            assert_eq!(value["previous"].as_str(), Some(last.as_str()));
        }
        *last = sha256(record);
        records.push(value);
    }
    chains
        .into_iter()
        .map(|(gateway, (records, _))| (gateway, records))
        .collect()
}

/// Returns the number of recorded calls.
fn calls(server: &StoreServer) -> usize {
    records(server)
        .values()
        .flatten()
        .filter(|record| record["kind"] == "call")
        .count()
}

/// Calls a tool several times. Refused calls are recorded too.
async fn call(client: &Client, count: usize) {
    for _ in 0..count {
        client.echo().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_records_of_all_gateways_continue_after_a_restart() {
    let server = StoreServer::start(&[]);
    let settings = json!({"audit": true});
    let one = SharedGateway::start(&server.url(), "acme", &settings).await;
    let other = SharedGateway::start(&server.url(), "acme", &settings).await;
    let (at_one, at_other) = (one.client().await, other.client().await);
    call(&at_one, 20).await;
    call(&at_other, 10).await;
    within(SOON, "all records arrive", async || calls(&server) == 30).await;
    assert_eq!(records(&server).len(), 2);
    call(&at_one, 5).await;
    let folder = one.end().await;
    assert_eq!(
        calls(&server),
        35,
        "all records are sent before the gateway ends"
    );
    let report = audit::verify(&folder.path().join("audit"), &mut |_| ()).expect("an audit");
    assert!(
        report.broken.is_empty() && report.notes.is_empty(),
        "{report:?}"
    );
    // Sessions of this process may still lock the folder, so the gateway continues with a copy.
    let copy = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(copy.path().join("audit")).expect("a folder");
    for entry in std::fs::read_dir(folder.path().join("audit"))
        .expect("a folder")
        .filter_map(Result::ok)
    {
        if entry.path().is_file() {
            std::fs::copy(
                entry.path(),
                copy.path().join("audit").join(entry.file_name()),
            )
            .expect("it is copied");
        }
    }
    // Another tenant must not use the folder, because it would send records of this tenant.
    let stranger = StateStore::open(&server.url(), "other").expect("a store");
    let opened_store = stranger.clone();
    let state = run_blocking(move || GatewayState::open(&opened_store)).await;
    let settings_of_copy = json!({"audit": {"folder": copy.path().join("audit")}});
    let error = Gateway::open(options(Vec::new(), &settings_of_copy, &stranger, state))
        .expect_err("the folder belongs to another tenant");
    assert!(error.to_string().contains("\"acme\""), "{error}");
    let is_free = async || {
        let lock = std::fs::File::open(copy.path().join("audit/lock")).expect("a file");
        lock.try_lock().is_ok()
    };
    within(SOON, "the folder is unlocked", is_free).await;
    let one = SharedGateway::start_in(copy, &server.url(), "acme", &settings).await;
    let at_one = one.client().await;
    call(&at_one, 5).await;
    within(SOON, "new records arrive", async || calls(&server) == 40).await;
    assert_eq!(records(&server).len(), 2, "under the same name");
    assert!(
        records(&server)
            .values()
            .all(|records| records[0]["number"] == 1)
    );
    one.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_records_are_exactly_once_after_store_failures() {
    let mut server = StoreServer::start(&[]);
    let relay = Relay::to(server.address());
    let one = SharedGateway::start(&relay.url(), "acme", &json!({"audit": true})).await;
    let client = one.client().await;
    call(&client, 10).await;
    within(SOON, "all records arrive", async || calls(&server) == 10).await;
    // First, answers arrive too late. Then nothing is forwarded.
    for mode in [RelayMode::Slow, RelayMode::Cut] {
        relay.set_mode(mode);
        let before = calls(&server);
        call(&client, 10).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        relay.set_mode(RelayMode::Forward);
        within(SOON, "all records arrive", async || {
            calls(&server) == before + 10
        })
        .await;
    }
    assert_eq!(calls(&server), 30);
    // A full store.
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    call(&client, 10).await;
    within(SOON, "the fault is reported", async || {
        one.store
            .faults()
            .contains(&(Purpose::Audit, StoreFault::Full))
    })
    .await;
    assert_eq!(calls(&server), 30);
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    within(SOON, "all records arrive", async || calls(&server) == 40).await;
    // A rolled-back store, and an empty one.
    server.save();
    call(&client, 10).await;
    within(SOON, "all records arrive", async || calls(&server) == 50).await;
    server.kill();
    call(&client, 5).await;
    server.restart();
    within(SOON, "the missing records are sent again", async || {
        calls(&server) == 55
    })
    .await;
    server.ask(&["FLUSHALL"]);
    within(SOON, "all records are sent again", async || {
        calls(&server) == 55
    })
    .await;
    assert!(
        records(&server)
            .values()
            .all(|records| records[0]["number"] == 1)
    );
    server.ask(&["DEL", "picktools:{acme}:gateway:audit"]);
    within(SOON, "all records are sent again", async || {
        calls(&server) == 55
    })
    .await;
    server.ask(&["XTRIM", "picktools:{acme}:gateway:audit", "MAXLEN", "0"]);
    call(&client, 1).await;
    within(SOON, "trimmed records are not sent again", async || {
        calls(&server) == 1
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(calls(&server), 1);
    // Foreign data.
    let key = "picktools:{acme}:gateway:audit";
    server.ask(&["DEL", key]);
    server.ask(&["SET", key, "x"]);
    call(&client, 1).await;
    within(SOON, "the fault is reported", async || {
        one.store
            .faults()
            .contains(&(Purpose::Audit, StoreFault::Foreign))
    })
    .await;
    call(&client, 5).await;
    server.ask(&["DEL", key]);
    within(SOON, "all records are sent again", async || {
        calls(&server) == 62
    })
    .await;
    let (status, metrics) = one.get("/metrics").await;
    assert_eq!(status, 200);
    let count = |fault: &str| {
        let name = format!("picktools_store_faults_total{{fault=\"{fault}\"}} ");
        metrics
            .lines()
            .find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok())
    };
    // A fault is counted when it begins, not for each attempt. A full store is a fault of the audit
    // log and of the rate limits.
    assert_eq!(
        (count("foreign"), count("full")),
        (Some(1), Some(2)),
        "{metrics}"
    );
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_files_are_removed_only_after_they_were_sent() {
    let mut server = StoreServer::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let audit_folder = folder.path().join("audit");
    let settings = json!({"audit": {"folder": audit_folder, "max_bytes": 10_000, "keep": 1}});
    let one = SharedGateway::start_in(folder, &server.url(), "acme", &settings).await;
    let client = one.client().await;
    call(&client, 1).await;
    within(SOON, "it is there", async || calls(&server) == 1).await;
    server.kill();
    call(&client, 150).await;
    let files = || {
        let names = std::fs::read_dir(&audit_folder)
            .expect("a folder")
            .filter_map(Result::ok);
        names
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("audit-"))
            .count()
    };
    within(SOON, "several files exist", async || files() > 2).await;
    server.restart();
    within(SOON, "all records arrive", async || calls(&server) == 151).await;
    // Files are removed when the next file is started.
    let are_removed = async || {
        call(&client, 5).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        files() <= 2
    };
    within(SOON * 2, "old files are removed", are_removed).await;
    let before = calls(&server);
    call(&client, 5).await;
    within(SOON, "all records arrive", async || {
        calls(&server) >= before + 5
    })
    .await;
    let _folder = one.end().await;
    let report = audit::verify(&audit_folder, &mut |_| ()).expect("an audit");
    assert!(report.broken.is_empty() && report.first > 1, "{report:?}");
}
