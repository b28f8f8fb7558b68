//! What happens while tools run, told to whoever listens.
//!
//! Each call tells of itself in this order: `tool_call_start`, chunks of output, and then
//! `tool_call_end` or `error`. A call that is refused before it runs has no start, only its
//! `error`. Nobody who listens holds up a run: who is slow loses events, and is told how many.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use tokio::sync::Notify;

use super::lock;
use super::result::ToolResult;
use picktools::catalog::NoSchemaMode;
use picktools_call::CallNames;

/// The most chunks that wait for a subscriber; of other events twice as many may.
const MAX_WAITING: usize = 1_024;

/// The call that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallInfo {
    /// Unique among the calls of a [`ToolManager`](super::ToolManager), whatever the provider sent.
    pub call_id: String,
    /// What the provider sent.
    pub provider_id: Option<String>,
    /// The tool's names that are in play. Of a tool that is not known, `canonical` is what was
    /// called.
    pub names: CallNames,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The call that it is about.
    pub call: Arc<CallInfo>,
    /// When it happened.
    pub time: SystemTime,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A tool begins to run.
    Start {
        /// With secrets redacted.
        arguments: Value,
        /// Whether they were held to a schema.
        validated: bool,
        /// How a tool without one may be called.
        no_schema_mode: Option<NoSchemaMode>,
    },
    /// A piece of what it puts out.
    Chunk {
        /// The piece.
        chunk: String,
    },
    /// It did what it should.
    End {
        /// What it gave.
        result: Arc<ToolResult>,
    },
    /// It did not, or never ran.
    Error {
        /// Why.
        result: Arc<ToolResult>,
    },
}

/// The type of an event, by which it is subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `tool_call_start`.
    Start,
    /// `tool_output_chunk`.
    Chunk,
    /// `tool_call_end`.
    End,
    /// `error`.
    Error,
}

/// A word that is no type of event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no type of event; write tool_call_start, tool_output_chunk, tool_call_end, error, or * for all of them"
)]
pub struct UnknownTopic(String);

/// Which events are subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// All of them, which is written `*`.
    All,
    /// Those of one type.
    Only(EventType),
}

impl EventType {
    const ALL: [Self; 4] = [Self::Start, Self::Chunk, Self::End, Self::Error];

    /// Returns the name as it stands in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "tool_call_start",
            Self::Chunk => "tool_output_chunk",
            Self::End => "tool_call_end",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Topic {
    type Err = UnknownTopic;

    fn from_str(text: &str) -> Result<Self, UnknownTopic> {
        let known = EventType::ALL
            .into_iter()
            .find(|known| known.name() == text)
            .map(Self::Only);
        known
            .or((text == "*").then_some(Self::All))
            .ok_or_else(|| UnknownTopic(text.to_owned()))
    }
}

impl Topic {
    /// Returns `true` if an event of this type belongs to the topic.
    pub fn holds(self, event: EventType) -> bool {
        match self {
            Self::All => true,
            Self::Only(wanted) => wanted == event,
        }
    }
}

impl Event {
    /// Returns the event's type.
    pub fn event_type(&self) -> EventType {
        match self.kind {
            EventKind::Start { .. } => EventType::Start,
            EventKind::Chunk { .. } => EventType::Chunk,
            EventKind::End { .. } => EventType::End,
            EventKind::Error { .. } => EventType::Error,
        }
    }
}

/// `{"type": …, "data": {…}}`, with the call's id, its names and the time in milliseconds since
/// 1970 in each.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", self.event_type().name())?;
        map.serialize_entry("data", &Data(self))?;
        map.end()
    }
}

struct Data<'a>(&'a Event);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Event { call, time, kind } = self.0;
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("call_id", &call.call_id)?;
        if let Some(id) = &call.provider_id {
            map.serialize_entry("provider_id", id)?;
        }
        map.serialize_entry("tool_name", &call.names.canonical)?;
        map.serialize_entry("names", &call.names)?;
        map.serialize_entry(
            "time_ms",
            &u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        )?;
        match kind {
            EventKind::Start {
                arguments,
                validated,
                no_schema_mode,
            } => {
                map.serialize_entry("arguments", arguments)?;
                map.serialize_entry("validated", validated)?;
                if let Some(mode) = no_schema_mode {
                    map.serialize_entry("no_schema_mode", mode)?;
                }
            }
            EventKind::Chunk { chunk } => map.serialize_entry("chunk", chunk)?,
            EventKind::End { result } => {
                map.serialize_entry("success", &true)?;
                map.serialize_entry("result", result.as_ref())?;
            }
            EventKind::Error { result } => {
                map.serialize_entry("success", &false)?;
                map.serialize_entry("error", result.error())?;
                map.serialize_entry("result", result.as_ref())?;
            }
        }
        map.end()
    }
}

/// Where events are told and subscribed to; clones tell the same subscribers.
///
/// ```
/// use picktools_runtime::{EventType, Events, Topic};
///
/// let events = Events::default();
/// let starts = events.subscribe(Topic::Only(EventType::Start));
/// let all = events.subscribe("*".parse()?);
/// assert_eq!(events.subscribers(), 2);
/// drop(starts);
/// assert_eq!(events.subscribers(), 1);
/// # Ok::<(), picktools_runtime::UnknownTopic>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Events {
    subscribers: Arc<Subscribers>,
}

/// Who listens, for as long as there is somebody who could tell anything.
#[derive(Debug, Default)]
struct Subscribers(Mutex<Vec<(Topic, Weak<Waiting>)>>);

impl Drop for Subscribers {
    fn drop(&mut self) {
        for (_, subscriber) in lock(&self.0).iter() {
            if let Some(waiting) = subscriber.upgrade() {
                waiting.arrived.notify_one();
            }
        }
    }
}

/// What waits for a subscriber.
#[derive(Debug, Default)]
struct Waiting {
    state: Mutex<WaitingState>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct WaitingState {
    events: VecDeque<Received>,
    chunks: usize,
    /// Events that there was no room for since the last that there was.
    lost: u64,
}

/// An event as a subscriber gets it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Received {
    /// The event.
    pub event: Arc<Event>,
    /// How many events were lost just before it, because the subscriber was slow.
    pub lost: u64,
}

/// Gets events until it is dropped, which ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    waiting: Arc<Waiting>,
    hub: Weak<Subscribers>,
}

impl Events {
    /// Subscribes to events from now on.
    pub fn subscribe(&self, topic: Topic) -> Subscription {
        let waiting = Arc::new(Waiting::default());
        lock(&self.subscribers.0).push((topic, Arc::downgrade(&waiting)));
        Subscription {
            waiting,
            hub: Arc::downgrade(&self.subscribers),
        }
    }

    /// Returns the number of subscriptions.
    pub fn subscribers(&self) -> usize {
        lock(&self.subscribers.0).len()
    }

    /// Returns `true` if somebody listens to events of this type.
    pub(super) fn are_heard(&self, event: EventType) -> bool {
        lock(&self.subscribers.0)
            .iter()
            .any(|(topic, _)| topic.holds(event))
    }

    pub(super) fn tell(&self, call: &Arc<CallInfo>, kind: EventKind) {
        let event = Event {
            call: Arc::clone(call),
            time: SystemTime::now(),
            kind,
        };
        let event_type = event.event_type();
        let event = Arc::new(event);
        for (topic, subscriber) in lock(&self.subscribers.0).iter() {
            if topic.holds(event_type)
                && let Some(waiting) = subscriber.upgrade()
            {
                waiting.add(&event);
            }
        }
    }
}

impl Waiting {
    fn add(&self, event: &Arc<Event>) {
        let mut state = lock(&self.state);
        let is_chunk = event.event_type() == EventType::Chunk;
        let is_full = if is_chunk {
            state.chunks >= MAX_WAITING
        } else {
            state.events.len() >= 3 * MAX_WAITING
        };
        if is_full {
            state.lost += 1;
            return;
        }
        state.chunks += usize::from(is_chunk);
        let lost = std::mem::take(&mut state.lost);
        state.events.push_back(Received {
            event: Arc::clone(event),
            lost,
        });
        drop(state);
        self.arrived.notify_one();
    }
}

impl Subscription {
    /// Waits for the next event; `None` once there are no more, because all that could tell any is
    /// gone.
    pub async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(received) = self.try_next() {
                return Some(received);
            }
            if self.hub.strong_count() == 0 {
                return self.try_next();
            }
            self.waiting.arrived.notified().await;
        }
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Received> {
        let mut state = lock(&self.waiting.state);
        let received = state.events.pop_front()?;
        state.chunks -= usize::from(received.event.event_type() == EventType::Chunk);
        Some(received)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(hub) = self.hub.upgrade() {
            lock(&hub.0).retain(|(_, subscriber)| {
                !std::ptr::eq(subscriber.as_ptr(), Arc::as_ptr(&self.waiting))
            });
        }
    }
}
