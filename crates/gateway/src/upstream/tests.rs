//! Tests of the connections of owners.

use std::collections::BTreeMap;

use picktools_import::mcp::ToolFilter;

use super::*;
use crate::metrics::Counters;
use crate::settings::Settings;

fn upstream() -> Arc<Upstream> {
    let transport = ServerTransport::Stdio {
        command: "none".to_owned(),
        arguments: Vec::new(),
        variables: BTreeMap::new(),
        folder: None,
        inherit: Vec::new(),
    };
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

/// Opens a slot with a running call for each of these sessions of a key.
fn open_busy(upstream: &Upstream, key: &str, sessions: usize) -> usize {
    let opened = (0..sessions).filter_map(|session| {
        let owner = Owner(format!("{key} {session}").into());
        let slot = upstream.owner_slot(&owner, client(key)).ok()?;
        let (sender, _) = mpsc::channel(1);
        slot.listener.calls.add(session as u64, sender);
        Some(slot)
    });
    opened.count()
}

#[test]
fn busy_sessions_of_one_key_leave_connections_to_others() {
    let upstream = upstream();
    assert_eq!(open_busy(&upstream, "greedy", 40), MAX_OWNED);
    assert_eq!(open_busy(&upstream, "modest", 10), GUARANTEED);
}

#[test]
fn idle_connection_of_the_largest_key_makes_room() {
    let upstream = upstream();
    for session in 0..MAX_OWNED {
        let key = if session == 0 { "modest" } else { "greedy" };
        let owner = Owner(format!("{key} {session}").into());
        let slot = upstream.owner_slot(&owner, client(key));
        assert!(slot.is_ok());
    }
    for (session, key) in [(100, "greedy"), (101, "other")] {
        let owner = Owner(format!("{key} {session}").into());
        assert!(upstream.owner_slot(&owner, client(key)).is_ok());
        let owned = lock(&upstream.owned);
        assert_eq!(owned.len(), MAX_OWNED);
        assert!(owned.contains_key(&Owner("modest 0".into())), "{key}");
    }
}

#[tokio::test]
async fn change_on_the_connection_of_an_owner_is_noticed() {
    let upstream = upstream();
    let slot = upstream.owner_slot(&Owner("session 1".into()), client("one"));
    let slot = slot.unwrap_or_else(|refusal| panic!("{}", refusal.message));
    slot.listener.report_change();
    let noticed = timeout(Duration::from_secs(5), upstream.shared.listener.changed());
    noticed.await.expect("the tools are listed again");
}
