//! Which servers other gateways leave alone, because they failed often: so that not each of many
//! gateways finds that out by itself.
//!
//! Each has a key that lives as long as the server is left alone. Nothing that a client waits for
//! asks the store.

use std::sync::Arc;
use std::time::Duration;

use picktools_state::keys::{digest, hex};
use picktools_state::{Answer, Failure, Purpose, Store};
use tokio::time::sleep;

use crate::hub::Hub;
use crate::pins::way;
use crate::upstream::{News, Upstream};

/// How often is looked.
const LOOK: Duration = Duration::from_secs(1);

/// How many milliseconds each of the keys lives yet.
const LEFT: &str = "\
local left = {}
for place, key in ipairs(KEYS) do left[place] = redis.call('PTTL', key) end
return left";

/// Tells other gateways which servers are left alone here, and leaves alone which others leave
/// alone.
pub(crate) async fn follow(hub: Arc<Hub>, store: Store) {
    loop {
        sleep(LOOK).await;
        let upstreams = hub.upstreams();
        let of = upstreams.clone();
        let asked = store
            .soon(Purpose::Circuits, move |store| look(store, &of))
            .await;
        // Where nobody can say anything each does as it sees fit itself.
        let left = asked.unwrap_or_else(|_| vec![None; upstreams.len()]);
        for (upstream, left) in upstreams.iter().zip(left) {
            upstream.leave_alone(left);
        }
    }
}

/// Tells what is new, and returns for how long each server is left alone by anybody.
fn look(store: &Store, upstreams: &[Arc<Upstream>]) -> Result<Vec<Option<Duration>>, Failure> {
    let key = |upstream: &Arc<Upstream>| {
        let way = hex(&digest(&way(&upstream.server)));
        store.key(&format!("circuit:{}", &way[..32]))
    };
    let keys: Vec<String> = upstreams.iter().map(key).collect();
    for (upstream, key) in upstreams.iter().zip(&keys) {
        let told = match upstream.take_news() {
            Some(News::LeftAlone(time)) => {
                let time = time.as_millis().max(1).to_string();
                store.ask(
                    Purpose::Circuits,
                    &[b"SET", key.as_bytes(), b"open", b"PX", time.as_bytes()],
                )
            }
            Some(News::Answers) => store.ask(Purpose::Circuits, &[b"DEL", key.as_bytes()]),
            None => continue,
        };
        if let Err(failure) = told {
            upstream.keep_news();
            return Err(failure);
        }
    }
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let answer = store.run(Purpose::Circuits, LEFT, &keys, &[])?;
    // A key that never ends was not written by a gateway.
    let left = |answer: &Answer| match answer {
        Answer::Number(left @ 1..) => u64::try_from(*left).ok().map(Duration::from_millis),
        _ => None,
    };
    Ok(answer.parts().iter().map(left).collect())
}
