//! Circuit breakers that gateways share, so that each gateway need not find out by itself that a
//! server fails.
//!
//! While the circuit of a server is open, the store has a key for it. The key expires when the
//! circuit may close again. The exchange takes place when a circuit of this gateway changes, or
//! another gateway reports a change. Requests of clients never wait for it.

use std::sync::Arc;
use std::time::Duration;

use crate::hub::Hub;
use crate::pins::endpoint_digest;
use crate::upstream::{CircuitChange, Upstream};
use picktools_state::keys::{digest, hex};
use picktools_state::{Purpose, StateChanges, StateStore, StoreFailure, StoreReply};

/// A script that returns the remaining lifetime of each key in milliseconds.
const READ_REMAINING: &str = "\
local left = {}
for place, key in ipairs(KEYS) do left[place] = redis.call('PTTL', key) end
return left";

/// Publishes the open circuits of this gateway, and applies those of other gateways.
///
/// `changes` reports changes in the store.
pub(crate) async fn follow(hub: Arc<Hub>, store: StateStore, mut changes: StateChanges) {
    let own_changes = hub.upstreams.circuit_changes();
    loop {
        let upstreams = hub.upstreams.all();
        let synced = upstreams.clone();
        let result = store
            .run_async(Purpose::Circuits, move |store| {
                sync_circuits(store, &synced)
            })
            .await;
        // Without a reply, each gateway relies on its own circuit breakers.
        let remaining = result.unwrap_or_else(|_| vec![None; upstreams.len()]);
        for (upstream, remaining) in upstreams.iter().zip(remaining) {
            upstream.open_remote_circuit(remaining);
        }
        tokio::select! {
            () = own_changes.notified() => {}
            () = changes.changed() => {}
        }
    }
}

/// Publishes changes. Returns how long the circuit of each server stays open, or `None` if no
/// gateway has opened it.
fn sync_circuits(
    store: &StateStore,
    upstreams: &[Arc<Upstream>],
) -> Result<Vec<Option<Duration>>, StoreFailure> {
    let mut keys = Vec::with_capacity(upstreams.len());
    for upstream in upstreams {
        let endpoint = hex(&digest(&endpoint_digest(&upstream.server)));
        let key = store.key(&format!("circuit:{}", &endpoint[..32]));
        publish_change(store, upstream, &key)?;
        keys.push(key);
    }
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let answer = store.run_script(Purpose::Circuits, READ_REMAINING, &keys, &[])?;
    // A key without an expiry did not come from a gateway, so it is ignored.
    let remaining = |answer: &StoreReply| match answer {
        StoreReply::Number(remaining @ 1..) => {
            Some(Duration::from_millis(remaining.unsigned_abs()))
        }
        _ => None,
    };
    Ok(answer.parts().iter().map(remaining).collect())
}

/// Publishes the change of a server's circuit, if there is one. After a failure the change is kept
/// for the next attempt.
fn publish_change(store: &StateStore, upstream: &Upstream, key: &str) -> Result<(), StoreFailure> {
    let result = match upstream.take_circuit_change() {
        Some(CircuitChange::Opened(time)) => {
            let time = time.as_millis().max(1).to_string();
            store.execute(
                Purpose::Circuits,
                &[b"SET", key.as_bytes(), b"open", b"PX", time.as_bytes()],
            )
        }
        Some(CircuitChange::Closed) => store.execute(Purpose::Circuits, &[b"DEL", key.as_bytes()]),
        None => return Ok(()),
    };
    if let Err(failure) = result {
        upstream.restore_circuit_change();
        return Err(failure);
    }
    // If the report fails, other gateways find the change at their next check.
    drop(store.report_change(Purpose::Circuits));
    Ok(())
}
