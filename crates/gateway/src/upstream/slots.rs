//! The slots of an upstream's connections: one for all clients, or one per owner.
//!
//! A slot is in use from the moment it is chosen until the call ends, so it is never given to
//! another owner in between. If all slots are taken, new owners wait in the order in which they
//! came, for a slot that is unused and whose owner has had it for a while. So more owners than
//! slots take turns, and do not start a server for each call.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools_mcp::{Connection, Handshake};
use picktools_state::lock;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::owner::Owner;
use crate::fair_shares::largest_holder;
use crate::listener::Listener;

/// The number of slots of each key, whatever the other keys have.
const GUARANTEED: usize = 4;
/// The time that an owner keeps a slot while others wait, as a multiple of the time that the server
/// took to start, with its limits.
const STARTS_PER_TURN: u32 = 4;
const MIN_TURN: Duration = Duration::from_millis(250);
const MAX_TURN: Duration = Duration::from_secs(4);

/// A slot for one connection.
pub(super) struct Slot {
    pub(super) connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    pub(super) listener: Listener,
    pub(super) handshake: Handshake,
    /// The key whose share of the connections it takes.
    holder: Arc<str>,
    /// `true` if a call was given up since the server last answered.
    unanswered: AtomicBool,
    state: Mutex<SlotState>,
    /// Notified when the slot is no longer in use, and may be given to another owner.
    freed: Arc<Notify>,
}

/// The use of a slot.
struct SlotState {
    uses: usize,
    last_use: Instant,
    /// The time before which the slot is not given to another owner.
    turn_end: Instant,
}

impl Slot {
    pub(super) fn new(
        listener: Listener,
        handshake: Handshake,
        holder: Arc<str>,
        freed: Arc<Notify>,
    ) -> Self {
        let now = Instant::now();
        Self {
            connection: tokio::sync::Mutex::default(),
            listener,
            handshake,
            holder,
            unanswered: AtomicBool::new(false),
            state: Mutex::new(SlotState {
                uses: 0,
                last_use: now,
                turn_end: now + MIN_TURN,
            }),
            freed,
        }
    }

    /// Begins the turn of the owner, whose server took this time to start.
    pub(super) fn begin_turn(&self, start_time: Duration) {
        let turn = start_time.saturating_mul(STARTS_PER_TURN);
        let turn = turn.clamp(MIN_TURN, MAX_TURN);
        lock(&self.state).turn_end = Instant::now() + turn;
        // An owner that waits must wait for the end of this turn, too.
        self.freed.notify_one();
    }

    /// Returns the time at which the last call ended.
    pub(super) fn last_use(&self) -> Instant {
        lock(&self.state).last_use
    }

    /// Records that a call was given up.
    pub(super) fn record_unanswered(&self) {
        self.unanswered.store(true, Ordering::Relaxed);
    }

    /// Returns `true`, once, if a call was given up since the server last answered.
    pub(super) fn take_unanswered(&self) -> bool {
        self.unanswered.swap(false, Ordering::Relaxed)
    }

    /// Ends the connection gracefully.
    pub(super) async fn end(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection {
            connection.end().await;
        }
    }

    fn end_in_background(self: Arc<Self>) {
        // Without a runtime the connection cannot end gracefully; dropping it kills the process.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(async move { self.end().await }));
        }
    }
}

/// The use of a slot by one call.
pub(super) struct SlotUse(Arc<Slot>);

impl SlotUse {
    pub(super) fn new(slot: &Arc<Slot>) -> Self {
        lock(&slot.state).uses += 1;
        Self(Arc::clone(slot))
    }
}

impl std::ops::Deref for SlotUse {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.0
    }
}

impl Drop for SlotUse {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = lock(&self.0.state);
        state.uses -= 1;
        state.last_use = now;
        if state.uses == 0 && state.turn_end <= now {
            self.0.freed.notify_one();
        }
    }
}

/// The slots of owners, up to a number.
pub(super) struct OwnedSlots {
    slots: Mutex<HashMap<Owner, Arc<Slot>>>,
    most: usize,
    /// Held by the owner that gets the next slot.
    queue: tokio::sync::Mutex<()>,
    freed: Arc<Notify>,
}

/// The wish of an owner for a slot.
pub(super) struct SlotRequest<'a, C> {
    pub(super) owner: &'a Owner,
    /// The key that the slot counts for.
    pub(super) holder: Arc<str>,
    /// Creates a slot, which notifies when it becomes free.
    pub(super) create: C,
}

impl OwnedSlots {
    /// Creates room for this many slots.
    pub(super) fn new(most: usize) -> Self {
        Self {
            slots: Mutex::default(),
            most,
            queue: tokio::sync::Mutex::default(),
            freed: Arc::default(),
        }
    }

    /// Returns the slot of an owner. If it has none and there is no room, waits for the slot of
    /// another owner. Returns `None` at the deadline.
    pub(super) async fn take<C: Fn(Arc<Notify>) -> Slot>(
        &self,
        request: &SlotRequest<'_, C>,
        deadline: Instant,
    ) -> Option<SlotUse> {
        if let Some(slot_use) = self.take_without_eviction(request) {
            return Some(slot_use);
        }
        let _queue = timeout_at(deadline.into(), self.queue.lock()).await.ok()?;
        loop {
            let freed = self.freed.notified();
            if let Some(slot_use) = self.take_without_eviction(request) {
                return Some(slot_use);
            }
            let evicted = evict(&mut lock(&self.slots), &request.holder);
            let next_turn = match evicted {
                Ok(()) => continue,
                Err(next_turn) => next_turn,
            };
            if Instant::now() >= deadline {
                return None;
            }
            let until = next_turn.map_or(deadline, |next_turn| next_turn.min(deadline));
            drop(timeout_at(until.into(), freed).await);
        }
    }

    /// Returns the slot of an owner, or a new one if there is room, or if its key has fewer than it
    /// is guaranteed.
    fn take_without_eviction<C: Fn(Arc<Notify>) -> Slot>(
        &self,
        request: &SlotRequest<'_, C>,
    ) -> Option<SlotUse> {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(request.owner) {
            return Some(SlotUse::new(slot));
        }
        if slots.len() >= self.most {
            let held = slots.values().filter(|slot| slot.holder == request.holder);
            if held.count() >= GUARANTEED {
                return None;
            }
            // If no slot can be evicted, there are more than usual for a while.
            let _evicted = evict(&mut slots, &request.holder);
        }
        let slot = Arc::new((request.create)(Arc::clone(&self.freed)));
        slots.insert(request.owner.clone(), Arc::clone(&slot));
        Some(SlotUse::new(&slot))
    }

    /// Removes the slot of an owner, and ends its connection.
    pub(super) fn forget(&self, owner: &Owner) {
        if let Some(slot) = lock(&self.slots).remove(owner) {
            slot.end_in_background();
            self.freed.notify_one();
        }
    }

    #[cfg(test)]
    pub(super) fn owners(&self) -> Vec<Owner> {
        lock(&self.slots).keys().cloned().collect()
    }

    /// Removes and returns all slots.
    pub(super) fn remove_all(&self) -> Vec<Arc<Slot>> {
        let slots = std::mem::take(&mut *lock(&self.slots));
        slots.into_values().collect()
    }
}

/// Removes the slot that makes room for another one of a key, and ends its connection: the slot
/// that has been unused for the longest time among those of the key that has the most. A slot that
/// is in use or in its turn stays. If all do, returns the time at which the next turn ends; `None`
/// if all turns have ended.
fn evict(slots: &mut HashMap<Owner, Arc<Slot>>, holder: &Arc<str>) -> Result<(), Option<Instant>> {
    let now = Instant::now();
    let mut unused = Vec::new();
    let mut next_turn: Option<Instant> = None;
    for (owner, slot) in &*slots {
        let state = lock(&slot.state);
        if state.turn_end > now {
            next_turn = Some(next_turn.map_or(state.turn_end, |next| next.min(state.turn_end)));
        } else if state.uses == 0 {
            unused.push((state.last_use, &slot.holder, owner));
        }
    }
    let largest = largest_holder(unused.iter().map(|(_, holder, _)| *holder), &holder);
    let of_largest = unused
        .iter()
        .filter(|(_, holder, _)| largest == Some(*holder));
    let oldest = of_largest.min_by_key(|(last_use, _, _)| *last_use);
    let owner = oldest.map(|(_, _, owner)| Owner::clone(owner));
    let slot = owner.and_then(|owner| slots.remove(&owner));
    slot.map(Slot::end_in_background).ok_or(next_turn)
}
