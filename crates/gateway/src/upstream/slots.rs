//! The slots of an upstream's connections: one for all clients, or one per owner.
//!
//! A slot is in use from the moment it is chosen until the call ends, so it is never given to
//! another owner in between. If all slots are taken, new owners wait in the order in which they
//! came, for a slot that is unused and whose owner has had it for a while. So more owners than
//! slots take turns, and owners that call all the time do not start a server for each call.
//!
//! A turn ends early if its owner does not use the slot. Slots that are used until the end of their
//! turn change hands a few at a time, because a slot serves nobody while its server starts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools_mcp::{Connection, Handshake};
use picktools_state::lock;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::owner::Owner;
use super::turns::{Availability, SlotState, max_starting};
use crate::fair_shares::largest_holder;
use crate::listener::Listener;

/// The number of slots of each key, whatever the other keys have.
const GUARANTEED: usize = 4;

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
    wake_up: Arc<WakeUp>,
}

/// Wakes the owner that gets the next slot.
#[derive(Default)]
pub(super) struct WakeUp {
    changed: Notify,
    /// `true` if the owner would take a slot whose turn is over once its call ends.
    waits_for_call: AtomicBool,
}

impl WakeUp {
    /// Reports the end of a call in a slot whose turn is over.
    fn report_call_end(&self) {
        let waits = &self.waits_for_call;
        if waits.load(Ordering::Relaxed) && waits.swap(false, Ordering::Relaxed) {
            self.changed.notify_one();
        }
    }
}

impl Slot {
    pub(super) fn new(
        listener: Listener,
        handshake: Handshake,
        holder: Arc<str>,
        wake_up: Arc<WakeUp>,
    ) -> Self {
        Self {
            connection: tokio::sync::Mutex::default(),
            listener,
            handshake,
            holder,
            unanswered: AtomicBool::new(false),
            state: Mutex::new(SlotState::new(Instant::now())),
            wake_up,
        }
    }

    /// Begins the turn of the owner, whose server took this time to start.
    pub(super) fn begin_turn(&self, start_time: Duration) {
        self.begin_turn_at(start_time, Instant::now());
    }

    fn begin_turn_at(&self, start_time: Duration, now: Instant) {
        lock(&self.state).begin_turn(start_time, now);
        // An owner that waits must wait for the end of this turn, too.
        self.wake_up.changed.notify_one();
    }

    fn end_call(&self, now: Instant) {
        let mut state = lock(&self.state);
        state.end_call(now);
        match state.availability(now) {
            Availability::Unused => self.wake_up.changed.notify_one(),
            Availability::TurnOver => self.wake_up.report_call_end(),
            Availability::Starting | Availability::Taken => {}
        }
    }

    /// Returns the time at which the last call ended.
    pub(super) fn last_use(&self) -> Instant {
        lock(&self.state).last_use()
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
    pub(super) fn new(slot: &Arc<Slot>, now: Instant) -> Self {
        lock(&slot.state).begin_call(now);
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
        self.0.end_call(Instant::now());
    }
}

/// The slots of owners, up to a number.
pub(super) struct OwnedSlots {
    slots: Mutex<HashMap<Owner, Arc<Slot>>>,
    most: usize,
    /// Held by the owner that gets the next slot.
    queue: tokio::sync::Mutex<()>,
    /// The number of calls in the queue.
    waiting: AtomicUsize,
    wake_up: Arc<WakeUp>,
}

/// The wish of an owner for a slot.
pub(super) struct SlotRequest<'a, C> {
    pub(super) owner: &'a Owner,
    /// The key that the slot counts for.
    pub(super) holder: Arc<str>,
    /// Creates a slot, which wakes the next owner.
    pub(super) create: C,
}

/// The slots that an owner may take from others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evictable {
    /// Those that are not used.
    Unused,
    /// Also those whose turn is over.
    TurnOver,
}

/// A call that waits for a slot.
struct WaitingCall<'a>(&'a AtomicUsize);

impl<'a> WaitingCall<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OwnedSlots {
    /// Creates room for this many slots.
    pub(super) fn new(most: usize) -> Self {
        Self {
            slots: Mutex::default(),
            most,
            queue: tokio::sync::Mutex::default(),
            waiting: AtomicUsize::new(0),
            wake_up: Arc::default(),
        }
    }

    /// Returns the slot of an owner. If it has none and there is no room, waits for the slot of
    /// another owner. Returns `None` at the deadline.
    pub(super) async fn take<C: Fn(Arc<WakeUp>) -> Slot>(
        &self,
        request: &SlotRequest<'_, C>,
        deadline: Instant,
    ) -> Option<SlotUse> {
        if let Some(slot_use) = self.take_without_waiting(request) {
            return Some(slot_use);
        }
        let _waiting = WaitingCall::begin(&self.waiting);
        let _queue = timeout_at(deadline.into(), self.queue.lock()).await.ok()?;
        loop {
            let changed = self.wake_up.changed.notified();
            let now = Instant::now();
            let next_change = match self.take_in_turn(request, now) {
                Ok(slot_use) => return Some(slot_use),
                Err(next_change) => next_change,
            };
            if now >= deadline {
                return None;
            }
            let until = next_change.map_or(deadline, |next_change| next_change.min(deadline));
            drop(timeout_at(until.into(), changed).await);
        }
    }

    /// Returns the slot of an owner, or a new one if there is room, or if its key has fewer than it
    /// is guaranteed.
    fn take_without_waiting<C: Fn(Arc<WakeUp>) -> Slot>(
        &self,
        request: &SlotRequest<'_, C>,
    ) -> Option<SlotUse> {
        self.own_slot(&mut lock(&self.slots), request, Instant::now())
    }

    /// Returns the slot of the owner that is the next one, if another owner can give up its slot.
    /// Otherwise returns the time at which the next one may be free, unless only a start or a call
    /// can change that.
    fn take_in_turn<C: Fn(Arc<WakeUp>) -> Slot>(
        &self,
        request: &SlotRequest<'_, C>,
        now: Instant,
    ) -> Result<SlotUse, Option<Instant>> {
        let mut slots = lock(&self.slots);
        loop {
            if let Some(slot_use) = self.own_slot(&mut slots, request, now) {
                return Ok(slot_use);
            }
            let evictable = self.evictable(&slots, now);
            let waits_for_call = &self.wake_up.waits_for_call;
            waits_for_call.store(evictable == Evictable::TurnOver, Ordering::Relaxed);
            evict(&mut slots, &request.holder, evictable, now)?;
        }
    }

    /// Returns the slots that the next owner may take.
    fn evictable(&self, slots: &HashMap<Owner, Arc<Slot>>, now: Instant) -> Evictable {
        let states = || slots.values().map(|slot| lock(&slot.state));
        let mut start_times: Vec<Duration> =
            states().filter_map(|state| state.start_time()).collect();
        start_times.sort_unstable();
        let usual_time = start_times.get(start_times.len() / 2);
        let usual_time = usual_time.copied().unwrap_or_default();
        let starting = states().filter(|state| state.starts_as_usual(usual_time, now));
        let waiting = self.waiting.load(Ordering::Relaxed);
        if starting.count() < max_starting(waiting, self.most, usual_time) {
            Evictable::TurnOver
        } else {
            Evictable::Unused
        }
    }

    fn own_slot<C: Fn(Arc<WakeUp>) -> Slot>(
        &self,
        slots: &mut HashMap<Owner, Arc<Slot>>,
        request: &SlotRequest<'_, C>,
        now: Instant,
    ) -> Option<SlotUse> {
        if let Some(slot) = slots.get(request.owner) {
            return Some(SlotUse::new(slot, now));
        }
        if slots.len() >= self.most {
            let held = slots.values().filter(|slot| slot.holder == request.holder);
            if held.count() >= GUARANTEED {
                return None;
            }
            // If no slot can be evicted, there are more than usual for a while.
            let _evicted = evict(slots, &request.holder, Evictable::TurnOver, now);
        }
        let slot = Arc::new((request.create)(Arc::clone(&self.wake_up)));
        slots.insert(request.owner.clone(), Arc::clone(&slot));
        Some(SlotUse::new(&slot, now))
    }

    /// Removes the slot of an owner, and ends its connection.
    pub(super) fn forget(&self, owner: &Owner) {
        if let Some(slot) = lock(&self.slots).remove(owner) {
            slot.end_in_background();
            self.wake_up.changed.notify_one();
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
/// that has been unused for the longest time among those of the key that has the most. If no slot
/// can be removed, returns the time at which the next one may be, unless only a start or a call can
/// change that.
fn evict(
    slots: &mut HashMap<Owner, Arc<Slot>>,
    holder: &Arc<str>,
    evictable: Evictable,
    now: Instant,
) -> Result<(), Option<Instant>> {
    let mut unused = Vec::new();
    let mut next_change: Option<Instant> = None;
    for (owner, slot) in &*slots {
        let state = lock(&slot.state);
        let is_evictable = match state.availability(now) {
            Availability::Unused => true,
            Availability::TurnOver => evictable == Evictable::TurnOver,
            Availability::Starting | Availability::Taken => false,
        };
        if is_evictable {
            unused.push((state.last_use(), &slot.holder, owner));
        } else if let Some(change) = state.next_change(now) {
            next_change = Some(next_change.map_or(change, |next| next.min(change)));
        }
    }
    let largest = largest_holder(unused.iter().map(|(_, holder, _)| *holder), &holder);
    let of_largest = unused
        .iter()
        .filter(|(_, holder, _)| largest == Some(*holder));
    let oldest = of_largest.min_by_key(|(last_use, _, _)| *last_use);
    let owner = oldest.map(|(_, _, owner)| Owner::clone(owner));
    let slot = owner.and_then(|owner| slots.remove(&owner));
    slot.map(Slot::end_in_background).ok_or(next_change)
}

#[cfg(test)]
mod tests;
