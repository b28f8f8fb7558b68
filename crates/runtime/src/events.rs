//! The events of running calls, and the subscriptions to them.
//!
//! Each call has its events in this order: `tool_call_start`, chunks of output, and then
//! `tool_call_end` or `error`. A call that is refused before it runs has only an `error`. A
//! subscriber never delays a call: a slow subscriber loses events and receives their number.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use tokio::sync::Notify;

use super::lock;
use super::result::ToolResult;
use picktools::catalog::NoSchemaMode;
use picktools_call::{CallNames, ValidCall};

/// The most chunks in the queue of a subscriber. The queue also has room for twice as many other
/// events.
const MAX_QUEUED_CHUNKS: usize = 1_024;

/// The call that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallInfo {
    /// The manager's id, unique among the calls of all managers with the same [`Events`].
    pub call_id: String,
    /// The [name](super::ToolManagerBuilder::name) of the manager, if it has one.
    pub manager: Option<Arc<str>>,
    /// The manager's id of the call around this one, if a tool such as an agent made it. The
    /// `call_id` begins with it.
    pub parent_call_id: Option<String>,
    /// The provider's id of the call.
    pub provider_id: Option<String>,
    /// The names of the tool. For an unknown tool, `canonical` is the requested name.
    pub names: CallNames,
}

impl CallInfo {
    /// Makes the information about a call without a manager.
    pub(super) fn new(call: &ValidCall, events: &Events) -> Self {
        Self {
            call_id: events.next_call_id(),
            manager: None,
            parent_call_id: None,
            provider_id: call.id().map(str::to_owned),
            names: call.names().clone(),
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The call that the event is about.
    pub call: Arc<CallInfo>,
    /// The time of the event.
    pub time: SystemTime,
    /// The type of the event with its data.
    pub kind: EventKind,
}

/// The data of an event, by its type.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A tool starts to run.
    Start {
        /// The arguments, with redacted secrets.
        arguments: Value,
        /// `true` if the arguments were validated against a schema.
        validated: bool,
        /// The mode for calls of tools without a schema; `None` if the tool has a schema.
        no_schema_mode: Option<NoSchemaMode>,
        /// The changes of the arguments, one text for each, with redacted secrets.
        repaired: Vec<String>,
    },
    /// A piece of the tool's output.
    Chunk {
        /// The text.
        chunk: String,
    },
    /// The call succeeded.
    End {
        /// The result.
        result: Arc<ToolResult>,
    },
    /// The call failed, or did not run.
    Error {
        /// The result with the error.
        result: Arc<ToolResult>,
    },
}

/// The type of an event, used to subscribe to it.
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

/// An error from a text that is not an event type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown event type {0:?}; use tool_call_start, tool_output_chunk, tool_call_end, error, \
     or * for all"
)]
pub struct UnknownTopic(String);

/// The events of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Topic {
    /// All events, written `*`.
    All,
    /// The events of one type.
    Only(EventType),
}

impl EventType {
    const ALL: [Self; 4] = [Self::Start, Self::Chunk, Self::End, Self::Error];

    /// Returns the name of the type in JSON.
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
        if text == "*" {
            return Ok(Self::All);
        }
        for event_type in EventType::ALL {
            if event_type.name() == text {
                return Ok(Self::Only(event_type));
            }
        }
        Err(UnknownTopic(text.to_owned()))
    }
}

impl Topic {
    /// Returns `true` if an event of this type belongs to the topic.
    pub fn includes(self, event: EventType) -> bool {
        match self {
            Self::All => true,
            Self::Only(event_type) => event_type == event,
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

/// Writes `{"type": …, "data": {…}}`. The data always has the call's id, its names, and the time in
/// milliseconds since 1970.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("type", self.event_type().name())?;
        map.serialize_entry("data", &EventData(self))?;
        map.end()
    }
}

struct EventData<'a>(&'a Event);

impl Serialize for EventData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Event { call, time, kind } = self.0;
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("call_id", &call.call_id)?;
        if let Some(manager) = &call.manager {
            map.serialize_entry("manager", &**manager)?;
        }
        if let Some(id) = &call.parent_call_id {
            map.serialize_entry("parent_call_id", id)?;
        }
        if let Some(id) = &call.provider_id {
            map.serialize_entry("provider_id", id)?;
        }
        map.serialize_entry("tool_name", &call.names.canonical)?;
        map.serialize_entry("names", &call.names)?;
        map.serialize_entry(
            "time_ms",
            &u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
        )?;
        match kind {
            EventKind::Start {
                arguments,
                validated,
                no_schema_mode,
                repaired,
            } => {
                map.serialize_entry("arguments", arguments)?;
                map.serialize_entry("validated", validated)?;
                if let Some(mode) = no_schema_mode {
                    map.serialize_entry("no_schema_mode", mode)?;
                }
                if !repaired.is_empty() {
                    map.serialize_entry("repaired", repaired)?;
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

/// The events of one or several managers: the place to subscribe. Clones share the subscribers.
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
    /// The call around the calls of these events, whose manager receives them too.
    outer: Option<Arc<dyn OuterCall>>,
}

/// A call around other calls, whose manager also receives the events of these calls.
pub(super) trait OuterCall: fmt::Debug + Send + Sync {
    /// Returns `true` if there is a subscription to events of this type.
    fn has_subscribers(&self, event: EventType) -> bool;

    /// Publishes an event of a call inside this one, until this call has ended.
    fn publish_inner(&self, call: &CallInfo, kind: EventKind);
}

/// The queues of all subscribers. They live as long as anything can publish events.
#[derive(Debug, Default)]
struct Subscribers {
    queues: Mutex<Vec<(Topic, Weak<EventQueue>)>>,
    /// The number of calls so far, from which the ids of calls are made.
    calls: AtomicU64,
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        for (_, subscriber) in lock(&self.queues).iter() {
            if let Some(queue) = subscriber.upgrade() {
                queue.arrived.notify_one();
            }
        }
    }
}

/// The queue of one subscriber.
#[derive(Debug, Default)]
struct EventQueue {
    state: Mutex<EventQueueState>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct EventQueueState {
    events: VecDeque<ReceivedEvent>,
    chunks: usize,
    /// The number of events that were dropped since the last event that fit.
    lost: u64,
}

/// An event in the queue of a subscriber.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedEvent {
    /// The event.
    pub event: Arc<Event>,
    /// The number of events that were lost just before it because the subscriber was slow.
    pub lost: u64,
}

/// A subscription to events. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<EventQueue>,
    subscribers: Weak<Subscribers>,
}

impl Events {
    /// Subscribes to future events.
    pub fn subscribe(&self, topic: Topic) -> Subscription {
        let queue = Arc::new(EventQueue::default());
        lock(&self.subscribers.queues).push((topic, Arc::downgrade(&queue)));
        Subscription {
            queue,
            subscribers: Arc::downgrade(&self.subscribers),
        }
    }

    /// Returns a new id of a call.
    pub(super) fn next_call_id(&self) -> String {
        let number = self.subscribers.calls.fetch_add(1, Ordering::Relaxed) + 1;
        format!("call_{number}")
    }

    /// Returns the number of subscriptions.
    pub fn subscribers(&self) -> usize {
        lock(&self.subscribers.queues).len()
    }

    /// Makes the events of calls inside a running call.
    pub(super) fn inside(outer: Arc<dyn OuterCall>) -> Self {
        Self {
            subscribers: Arc::default(),
            outer: Some(outer),
        }
    }

    /// Returns `true` if there is a subscription to events of this type.
    pub(super) fn has_subscribers(&self, event: EventType) -> bool {
        if let Some(outer) = &self.outer
            && outer.has_subscribers(event)
        {
            return true;
        }
        lock(&self.subscribers.queues)
            .iter()
            .any(|(topic, _)| topic.includes(event))
    }

    pub(super) fn publish(&self, call: &Arc<CallInfo>, kind: EventKind) {
        if let Some(outer) = &self.outer {
            outer.publish_inner(call, kind.clone());
        }
        let event = Event {
            call: Arc::clone(call),
            time: SystemTime::now(),
            kind,
        };
        let event_type = event.event_type();
        let event = Arc::new(event);
        for (topic, subscriber) in lock(&self.subscribers.queues).iter() {
            if topic.includes(event_type)
                && let Some(queue) = subscriber.upgrade()
            {
                queue.push(&event);
            }
        }
    }
}

impl EventQueue {
    fn push(&self, event: &Arc<Event>) {
        let mut state = lock(&self.state);
        let is_chunk = event.event_type() == EventType::Chunk;
        let is_full = if is_chunk {
            state.chunks >= MAX_QUEUED_CHUNKS
        } else {
            state.events.len() >= 3 * MAX_QUEUED_CHUNKS
        };
        if is_full {
            state.lost += 1;
            return;
        }
        state.chunks += usize::from(is_chunk);
        let lost = std::mem::take(&mut state.lost);
        state.events.push_back(ReceivedEvent {
            event: Arc::clone(event),
            lost,
        });
        drop(state);
        self.arrived.notify_one();
    }
}

impl Subscription {
    /// Waits for the next event; `None` once the queue is empty and nothing can publish events any
    /// longer.
    pub async fn next(&mut self) -> Option<ReceivedEvent> {
        loop {
            if let Some(received) = self.try_next() {
                return Some(received);
            }
            if self.subscribers.strong_count() == 0 {
                return self.try_next();
            }
            self.queue.arrived.notified().await;
        }
    }

    /// Returns the next event of the queue without waiting.
    pub fn try_next(&mut self) -> Option<ReceivedEvent> {
        let mut state = lock(&self.queue.state);
        let received = state.events.pop_front()?;
        state.chunks -= usize::from(received.event.event_type() == EventType::Chunk);
        Some(received)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(subscribers) = self.subscribers.upgrade() {
            lock(&subscribers.queues).retain(|(_, subscriber)| {
                !std::ptr::eq(subscriber.as_ptr(), Arc::as_ptr(&self.queue))
            });
        }
    }
}
