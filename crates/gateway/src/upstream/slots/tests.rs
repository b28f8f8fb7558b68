//! Tests of turns over simulated time.

use std::collections::{BTreeMap, VecDeque};
use std::mem::ManuallyDrop;

use super::*;
use crate::listener::ClientAbilities;

const SLOTS: usize = 32;
const STEP: Duration = Duration::from_millis(10);
const START: Duration = Duration::from_millis(500);

/// An owner with a slot.
struct SlotOwner {
    slot: Arc<Slot>,
    /// The time at which its server has started.
    started_at: Instant,
    is_started: bool,
}

/// Owners that share slots, over simulated time.
struct Simulation {
    slots: OwnedSlots,
    now: Instant,
    owners: BTreeMap<usize, SlotOwner>,
    /// The owners that wait, with the time since when.
    queue: VecDeque<(usize, Instant)>,
    longest_wait: Duration,
    most_starting: usize,
    starts: usize,
}

impl Simulation {
    /// Lets this many owners begin at the same time.
    fn new(owners: usize) -> Self {
        let now = Instant::now();
        Self {
            slots: OwnedSlots::new(SLOTS),
            now,
            owners: BTreeMap::new(),
            queue: (0..owners).map(|owner| (owner, now)).collect(),
            longest_wait: Duration::ZERO,
            most_starting: 0,
            starts: 0,
        }
    }

    /// Gives slots to waiting owners in their order.
    fn serve_queue(&mut self) {
        while let Some(&(number, since)) = self.queue.front() {
            self.slots
                .waiting
                .store(self.queue.len(), Ordering::Relaxed);
            let request = SlotRequest {
                owner: &owner(number),
                holder: "key".into(),
                create: new_slot,
            };
            let Ok(slot_use) = self.slots.take_in_turn(&request, self.now) else {
                return;
            };
            self.queue.pop_front();
            self.longest_wait = self.longest_wait.max(self.now - since);
            self.starts += 1;
            // The call ends at a simulated time.
            let slot_use = ManuallyDrop::new(slot_use);
            let slot_owner = SlotOwner {
                slot: Arc::clone(&slot_use.0),
                started_at: self.now + START,
                is_started: false,
            };
            self.owners.insert(number, slot_owner);
        }
    }

    /// Ends the call of each owner whose server runs. `calls_again` decides which owners call again.
    fn step(&mut self, calls_again: impl Fn(usize) -> bool) {
        self.now += STEP;
        self.serve_queue();
        let numbers: Vec<usize> = self.owners.keys().copied().collect();
        for number in numbers {
            let Some(slot_owner) = self.owners.get_mut(&number) else {
                continue;
            };
            if slot_owner.started_at > self.now {
                continue;
            }
            if !slot_owner.is_started {
                slot_owner.is_started = true;
                slot_owner.slot.begin_turn_at(START, self.now);
            }
            slot_owner.slot.end_call(self.now);
            self.serve_queue();
            self.continue_owner(number, calls_again(number));
        }
        let starting = self.owners.values().filter(|owner| !owner.is_started);
        self.most_starting = self.most_starting.max(starting.count());
    }

    /// Begins the next call of an owner, or lets it wait if its slot was given to another one.
    fn continue_owner(&mut self, number: usize, calls_again: bool) {
        if !calls_again {
            self.owners.remove(&number);
            return;
        }
        match lock(&self.slots.slots).get(&owner(number)) {
            Some(slot) => lock(&slot.state).begin_call(self.now),
            None => {
                self.owners.remove(&number);
                self.queue.push_back((number, self.now));
            }
        }
    }

    fn forget_figures(&mut self) {
        (self.most_starting, self.starts) = (0, 0);
        self.longest_wait = Duration::ZERO;
    }

    /// Lets all owners call for this time.
    fn call_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step(|_| true);
        }
    }
}

fn owner(number: usize) -> Owner {
    Owner(format!("session {number}").into())
}

fn new_slot(wake_up: Arc<WakeUp>) -> Slot {
    let listener = Listener::new(ClientAbilities::default());
    Slot::new(listener, Handshake::LegacyFirst, "key".into(), wake_up)
}

#[test]
fn one_more_owner_than_slots_starts_one_server_at_a_time() {
    let mut simulation = Simulation::new(SLOTS + 1);
    simulation.call_for(Duration::from_secs(3));
    simulation.forget_figures();
    simulation.call_for(Duration::from_secs(30));
    assert_eq!(simulation.most_starting, 1);
    assert!(simulation.starts <= 60, "{}", simulation.starts);
    assert!(simulation.longest_wait <= Duration::from_secs(1));
}

#[test]
fn few_slots_change_hands_at_a_time_and_all_owners_get_turns() {
    for (owners, starting, wait_s) in [(40, 2, 3), (128, 7, 10), (256, 7, 20)] {
        let mut simulation = Simulation::new(owners);
        simulation.call_for(Duration::from_secs(10));
        simulation.forget_figures();
        simulation.call_for(Duration::from_secs(30));
        assert_eq!(simulation.most_starting, starting, "{owners}");
        let wait = simulation.longest_wait;
        assert!(wait <= Duration::from_secs(wait_s), "{owners}: {wait:?}");
    }
}

#[test]
fn server_that_does_not_start_delays_no_other_start() {
    let mut simulation = Simulation::new(SLOTS + 1);
    simulation.call_for(Duration::from_secs(3));
    while simulation.owners.values().all(|owner| owner.is_started) {
        simulation.step(|_| true);
    }
    for owner in simulation
        .owners
        .values_mut()
        .filter(|owner| !owner.is_started)
    {
        owner.started_at += Duration::from_secs(3_600);
    }
    simulation.forget_figures();
    simulation.call_for(Duration::from_secs(30));
    assert!(simulation.longest_wait <= Duration::from_secs(5));
    assert!(simulation.starts > 10, "{}", simulation.starts);
}

#[test]
fn owners_that_call_once_give_their_slots_up_at_once() {
    let mut simulation = Simulation::new(4 * SLOTS);
    let begin = simulation.now;
    while !simulation.queue.is_empty() || !simulation.owners.is_empty() {
        simulation.step(|_| false);
    }
    // Four starts, and three pauses of half a start.
    let time = simulation.now - begin;
    assert!(time <= Duration::from_millis(2_900), "{time:?}");
}
