//! The records of all gateways in one place: each is there once, whatever happens to the store.

use std::collections::BTreeMap;
use std::time::Duration;

use picktools_audit as audit;
use picktools_gateway::{CallQueue, Gateway, Pins};
use picktools_state::{Fault, Purpose, Store};
use redis::Value as Answer;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::gateways::{Client, One, aside, options, within};
use picktools_testing::store::{Line, Relay, StoreServer};

const SOON: Duration = Duration::from_secs(15);

fn sha256(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The records of each gateway, whose chains are found to be whole from their first on.
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
        if let Some(before) = records.last() {
            assert_eq!(
                value["number"].as_u64(),
                before["number"].as_u64().map(|number| number + 1),
                "no gap, no twin"
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

/// How many calls the records tell of.
fn calls(server: &StoreServer) -> usize {
    records(server)
        .values()
        .flatten()
        .filter(|record| record["kind"] == "call")
        .count()
}

/// Calls a tool that often. A call that is refused, as when the store came back without approvals,
/// is recorded too.
async fn call(client: &Client, count: usize) {
    for _ in 0..count {
        client.echo().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_records_of_all_gateways_lie_in_one_stream_and_go_on_after_a_restart() {
    let server = StoreServer::start(&[]);
    let settings = json!({"audit": true});
    let one = One::start(&server.url(), "acme", &settings).await;
    let other = One::start(&server.url(), "acme", &settings).await;
    let (at_one, at_other) = (one.client().await, other.client().await);
    call(&at_one, 20).await;
    call(&at_other, 10).await;
    within(SOON, "all are there", async || calls(&server) == 30).await;
    assert_eq!(records(&server).len(), 2);
    call(&at_one, 5).await;
    let folder = one.end().await;
    assert_eq!(calls(&server), 35, "what is noted is sent before the end");
    let whole = audit::verify(&folder.path().join("audit"), &mut |_| ()).expect("an audit");
    assert!(
        whole.broken.is_empty() && whole.notes.is_empty(),
        "{whole:?}"
    );
    // In this process its sessions may hold the folder yet, so that it goes on with a copy.
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
    // Not under the name of another tenant, whose stream would get what is not its own.
    let stranger = Store::open(&server.url(), "other").expect("a store");
    let of = stranger.clone();
    let kept = aside(move || {
        (
            Pins::of(&of).expect("approvals"),
            CallQueue::of(&of).expect("a queue"),
        )
    })
    .await;
    let settings_of_copy = json!({"audit": {"folder": copy.path().join("audit")}});
    let error = Gateway::open(options(Vec::new(), &settings_of_copy, &stranger, kept))
        .expect_err("it is another's");
    assert!(error.to_string().contains("\"acme\""), "{error}");
    let is_free = async || {
        let lock = std::fs::File::open(copy.path().join("audit/lock")).expect("a file");
        lock.try_lock().is_ok()
    };
    within(SOON, "its folder is free", is_free).await;
    let one = One::start_in(copy, &server.url(), "acme", &settings).await;
    let at_one = one.client().await;
    call(&at_one, 5).await;
    within(SOON, "it goes on", async || calls(&server) == 40).await;
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
async fn no_record_is_lost_or_there_twice_whatever_happens_to_the_store() {
    let mut server = StoreServer::start(&[]);
    let relay = Relay::to(server.address());
    let one = One::start(&relay.url(), "acme", &json!({"audit": true})).await;
    let client = one.client().await;
    call(&client, 10).await;
    within(SOON, "all are there", async || calls(&server) == 10).await;
    // What is sent is taken, and the answer comes too late; then nothing comes through at all.
    for line in [Line::Slow, Line::Cut] {
        relay.is(line);
        let before = calls(&server);
        call(&client, 10).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        relay.is(Line::Good);
        within(SOON, "all are there", async || {
            calls(&server) == before + 10
        })
        .await;
    }
    assert_eq!(calls(&server), 30);
    // Full.
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    call(&client, 10).await;
    within(SOON, "it is told", async || {
        one.store.faults().contains(&(Purpose::Audit, Fault::Full))
    })
    .await;
    assert_eq!(calls(&server), 30);
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    within(SOON, "all are there", async || calls(&server) == 40).await;
    // An older copy, and one that is empty.
    server.save();
    call(&client, 10).await;
    within(SOON, "all are there", async || calls(&server) == 50).await;
    server.kill();
    call(&client, 5).await;
    server.restart();
    within(SOON, "what the copy lacks is there", async || {
        calls(&server) == 55
    })
    .await;
    server.ask(&["FLUSHALL"]);
    within(SOON, "all is there again", async || calls(&server) == 55).await;
    assert!(
        records(&server)
            .values()
            .all(|records| records[0]["number"] == 1)
    );
    server.ask(&["DEL", "picktools:{acme}:gateway:audit"]);
    within(SOON, "all is there again", async || calls(&server) == 55).await;
    server.ask(&["XTRIM", "picktools:{acme}:gateway:audit", "MAXLEN", "0"]);
    call(&client, 1).await;
    within(SOON, "what was trimmed is not sent again", async || {
        calls(&server) == 1
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(calls(&server), 1);
    // Somebody else's data.
    let key = "picktools:{acme}:gateway:audit";
    server.ask(&["DEL", key]);
    server.ask(&["SET", key, "x"]);
    call(&client, 1).await;
    within(SOON, "it is told", async || {
        one.store
            .faults()
            .contains(&(Purpose::Audit, Fault::Foreign))
    })
    .await;
    call(&client, 5).await;
    server.ask(&["DEL", key]);
    within(SOON, "all is there again", async || calls(&server) == 62).await;
    let (status, told) = one.get("/metrics").await;
    assert_eq!(status, 200);
    let count = |fault: &str| {
        let name = format!("picktools_store_faults_total{{fault=\"{fault}\"}} ");
        told.lines()
            .find_map(|line| line.strip_prefix(&name)?.parse::<u64>().ok())
    };
    // Told when it begins, for the audit and the limits of keys that a full store does not take
    // either; not for each attempt.
    assert_eq!(
        (count("foreign"), count("full")),
        (Some(1), Some(2)),
        "{told}"
    );
    one.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_stay_until_the_store_has_what_is_in_them() {
    let mut server = StoreServer::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let of_audit = folder.path().join("audit");
    let settings = json!({"audit": {"folder": of_audit, "max_bytes": 10_000, "keep": 1}});
    let one = One::start_in(folder, &server.url(), "acme", &settings).await;
    let client = one.client().await;
    call(&client, 1).await;
    within(SOON, "it is there", async || calls(&server) == 1).await;
    server.kill();
    call(&client, 150).await;
    let files = || {
        let names = std::fs::read_dir(&of_audit)
            .expect("a folder")
            .filter_map(Result::ok);
        names
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("audit-"))
            .count()
    };
    within(SOON, "there are files", async || files() > 2).await;
    server.restart();
    within(SOON, "all are there", async || calls(&server) == 151).await;
    // Files go when the next is begun.
    let goes = async || {
        call(&client, 5).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        files() <= 2
    };
    within(SOON * 2, "the rest goes", goes).await;
    let before = calls(&server);
    call(&client, 5).await;
    within(SOON, "all are there", async || calls(&server) >= before + 5).await;
    let _folder = one.end().await;
    let whole = audit::verify(&of_audit, &mut |_| ()).expect("an audit");
    assert!(whole.broken.is_empty() && whole.first > 1, "{whole:?}");
}
