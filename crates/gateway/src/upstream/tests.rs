//! Tests of the connections of owners.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use picktools_import::mcp::ToolFilter;
use picktools_testing::server::{Reply, TestServer};
use serde_json::json;

use super::*;
use crate::metrics::Counters;
use crate::settings::Settings;

fn upstream() -> Arc<Upstream> {
    upstream_at(ServerTransport::Stdio {
        command: "none".to_owned(),
        arguments: Vec::new(),
        variables: BTreeMap::new(),
        folder: None,
        inherit: Vec::new(),
    })
}

fn upstream_at(transport: ServerTransport) -> Arc<Upstream> {
    let server = Server {
        name: "up".to_owned(),
        transport,
        tools: ToolFilter::default(),
        call_timeout: None,
        scope: None,
    };
    let context = UpstreamContext {
        circuit_changed: std::sync::Arc::default(),
        environment: Arc::new(|_: &str| None),
        tool_cache: None,
        abilities: ClientAbilities::default(),
        meter: Arc::new(Counters::default()),
    };
    Upstream::new(server, Settings::default().upstream("up"), context)
}

fn client(key: &str) -> ClientTraits {
    ClientTraits {
        key: Some(key.into()),
        abilities: ClientAbilities::default(),
        is_newest: false,
    }
}

/// Takes a slot for a session of a key, within a second.
async fn take(upstream: &Upstream, key: &str, session: usize) -> Option<SlotUse> {
    let owner = Owner(format!("{key} {session}").into());
    let deadline = Instant::now() + Duration::from_secs(1);
    let slot = upstream.owner_slot(&owner, client(key), deadline).await;
    slot.ok()
}

#[tokio::test]
async fn busy_sessions_of_one_key_leave_connections_to_others() {
    let upstream = upstream();
    let limit = upstream.rules.connections;
    let mut uses = Vec::new();
    for session in 0..limit {
        uses.push(take(&upstream, "greedy", session).await.expect("a slot"));
    }
    assert!(take(&upstream, "greedy", limit).await.is_none());
    for session in 0..4 {
        let started = Instant::now();
        uses.push(take(&upstream, "modest", session).await.expect("a slot"));
        assert!(started.elapsed() < Duration::from_millis(500), "{session}");
    }
    assert!(take(&upstream, "modest", 4).await.is_none());
}

#[tokio::test]
async fn unused_connection_of_the_largest_key_makes_room() {
    let upstream = upstream();
    for session in 0..upstream.rules.connections {
        let key = if session == 0 { "modest" } else { "greedy" };
        assert!(take(&upstream, key, session).await.is_some());
    }
    for (session, key) in [(100, "greedy"), (101, "other")] {
        assert!(take(&upstream, key, session).await.is_some(), "{key}");
        let owners = upstream.owned.owners();
        assert_eq!(owners.len(), upstream.rules.connections);
        assert!(owners.contains(&Owner("modest 0".into())), "{key}");
    }
}

#[tokio::test]
async fn owners_take_turns_in_the_order_in_which_they_came() {
    let upstream = upstream();
    let limit = upstream.rules.connections;
    for session in 0..limit {
        drop(take(&upstream, "one", session).await.expect("a slot"));
    }
    let slots = (limit..2 * limit).map(|session| take(&upstream, "one", session));
    let slots = futures_util::future::join_all(slots).await;
    assert!(slots.iter().all(Option::is_some));
    let is_last = |owner: &Owner| owner.0.ends_with(&format!(" {}", 2 * limit - 1));
    assert!(upstream.owned.owners().iter().any(is_last));
}

#[tokio::test]
async fn owner_waits_no_longer_than_a_turn_that_begins_meanwhile() {
    let upstream = upstream();
    let limit = upstream.rules.connections;
    let mut uses = Vec::new();
    for session in 0..limit {
        uses.push(take(&upstream, "one", session).await.expect("a slot"));
    }
    let start_servers = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        for slot in &uses {
            slot.begin_turn(Duration::from_millis(10));
        }
        drop(uses);
    };
    let owner = Owner("one more".into());
    let started = Instant::now();
    let deadline = started + Duration::from_secs(20);
    let slot = upstream.owner_slot(&owner, client("one"), deadline);
    let (slot, ()) = tokio::join!(slot, start_servers);
    assert!(slot.is_ok() && started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn chosen_slot_is_not_given_to_another_owner_before_its_call_begins() {
    let upstream = upstream();
    let limit = upstream.rules.connections;
    let mut uses = Vec::new();
    for session in 0..limit {
        uses.push(take(&upstream, "one", session).await.expect("a slot"));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(take(&upstream, "one", limit).await.is_none());
    uses.pop();
    assert!(take(&upstream, "one", limit).await.is_some());
    assert_eq!(upstream.owned.owners().len(), limit);
}

#[tokio::test]
async fn change_on_the_connection_of_an_owner_is_noticed() {
    let upstream = upstream();
    let slot = take(&upstream, "one", 1).await.expect("a slot");
    slot.listener.report_change();
    let noticed = timeout(Duration::from_secs(5), upstream.shared.listener.changed());
    noticed.await.expect("the tools are listed again");
}

/// Returns the number of connections to a server over HTTP after a listing and a call of each of
/// two owners.
async fn connections(session_header: &'static str, is_newest: bool) -> usize {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let server = TestServer::new(move |_, request| {
        let result = match request.body["method"].as_str() {
            Some("initialize") => {
                count.fetch_add(1, Ordering::Relaxed);
                json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "test", "version": "1"}
                })
            }
            Some("tools/list") => json!({"tools": []}),
            Some(_) if request.body["id"].is_null() => return Reply::status("202 Accepted", ""),
            _ => return Reply::status("405 Method Not Allowed", ""),
        };
        let answer = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result});
        let headers = format!("content-type: application/json\r\n{session_header}");
        Reply::Raw("200 OK", headers, answer.to_string())
    });
    let upstream = upstream_at(ServerTransport::Http {
        url: server.url.clone(),
        headers: BTreeMap::new(),
        credentials: None,
    });
    let deadline = Instant::now() + Duration::from_secs(20);
    let listing = upstream.listing_connection(deadline).await;
    assert!(listing.is_ok());
    for session in ["one", "two"] {
        let owner = Owner(session.into());
        let client = ClientTraits {
            is_newest,
            ..client("key")
        };
        let lease = upstream.lease(&owner, Share::Owner, client, deadline).await;
        assert!(lease.is_ok());
    }
    opened.load(Ordering::Relaxed)
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_share_the_connection_to_a_server_without_sessions() {
    assert_eq!(connections("", false).await, 1);
    assert_eq!(connections("mcp-session-id: one\r\n", false).await, 3);
    // The connection speaks an older revision than these clients.
    assert_eq!(connections("", true).await, 3);
}
