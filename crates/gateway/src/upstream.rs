//! An upstream: is it up, may it be asked, and how is it started again?

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools::excerpt::marked;
use picktools_import::mcp::{Server, Way};
use picktools_mcp::{Connection, Handshake, KeptTools, Limits, Listing};
use picktools_state::lock;
use rmcp::ServiceError;
use rmcp::model::{ClientRequest, PingRequest};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use crate::listener::{Asks, Heard, Listener};
use crate::metrics::{Event, Meter};
use crate::refusal::{Code, Refusal};
use crate::settings::{Share, Start, UpstreamRules};

/// How long a call waits for one of the places of its upstream.
const WAIT: Duration = Duration::from_secs(5);
/// How long a server that left a call unanswered may take to say that it is there.
const PING: Duration = Duration::from_secs(3);
/// The failures within a time after which it is left alone, for how long, and for how long at most.
const FAILURES: (usize, Duration) = (5, Duration::from_secs(60));
const OPEN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));
/// How long after a failure it is started again unasked, at first and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// What changes within this time is read together.
const TOGETHER: Duration = Duration::from_millis(300);
/// How often an upstream is asked that says nothing of changes.
const NOW_AND_THEN: Duration = Duration::from_secs(300);
/// How often is looked whether it is there.
const LOOK: Duration = Duration::from_millis(500);
/// The most connections of owners.
const MAX_OWNED: usize = 32;
/// What is heard of a call and not read yet.
const MAX_HEARD: usize = 256;

/// The environment of the gateway.
pub type Environment = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// Whoever must share no state with others: a session, or a key where there are no sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(pub Arc<str>);

/// How the names of those begin whom all gateways of a store know by the same name.
const OF_KEY: &str = "key ";
const OF_SESSION: &str = "session of all ";

impl Owner {
    /// Whoever has a key, where there are no sessions.
    pub(crate) fn of_key(name: &str) -> Self {
        Self(format!("{OF_KEY}{name}").into())
    }

    /// A session that may go on at another gateway, by what stands for its id, which is secret.
    pub(crate) fn of_shared_session(digest: &str) -> Self {
        Self(format!("{OF_SESSION}{digest}").into())
    }

    /// Whether all gateways of a store know it by this name.
    pub(crate) fn is_of_all(&self) -> bool {
        self.0.starts_with(OF_KEY) || self.0.starts_with(OF_SESSION)
    }
}

/// What is known of a client that matters to its connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client {
    pub(crate) asks: Asks,
    /// Whether it speaks 2026-07-28 or later.
    pub(crate) is_newest: bool,
}

/// What an upstream sent, or why it did not.
pub struct Listed {
    pub(crate) upstream: String,
    pub(crate) listing: Result<Listing, String>,
    /// Whether it was asked, or this is what it sent in the past.
    pub(crate) is_live: bool,
}

/// A server behind the gateway.
pub struct Upstream {
    /// The way to it.
    pub server: Server,
    /// The rules that hold for it.
    pub rules: UpstreamRules,
    environment: Arc<Environment>,
    meter: Arc<dyn Meter>,
    permits: Arc<Semaphore>,
    health: Mutex<Health>,
    shared: Arc<Slot>,
    owned: Mutex<HashMap<Owner, Arc<Slot>>>,
    wanted: Notify,
}

/// A place for one connection.
struct Slot {
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    listener: Listener,
    handshake: Handshake,
    /// Whether a call was given up since the server last showed that it answers.
    unanswered: AtomicBool,
    used: Mutex<Instant>,
}

impl Slot {
    fn new(listener: Listener, handshake: Handshake) -> Arc<Self> {
        Arc::new(Self {
            handshake,
            connection: tokio::sync::Mutex::default(),
            listener,
            unanswered: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
        })
    }
}

/// What is known of how an upstream does.
#[derive(Default)]
struct Health {
    failures: VecDeque<Instant>,
    open_until: Option<Instant>,
    /// How often it was left alone since it last answered.
    opened: u32,
    /// Why it cannot be reached.
    down: Option<String>,
    /// Until when another gateway leaves it alone.
    elsewhere: Option<Instant>,
    /// Whether other gateways are to know that it is left alone here, or no longer is.
    has_news: bool,
}

/// What other gateways are to know of an upstream.
pub(crate) enum News {
    /// It is left alone for this time.
    LeftAlone(Duration),
    /// It answers.
    Answers,
}

/// A call's use of a connection.
pub(crate) struct Lease {
    pub(crate) connection: Arc<Connection>,
    pub(crate) heard: mpsc::Receiver<Heard>,
    /// What progress is told to.
    pub(crate) tell: mpsc::Sender<Heard>,
    slot: Arc<Slot>,
    number: u64,
    answered: bool,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Says who is told which resources of the server changed.
    pub(crate) fn tell_updates(&self, to: mpsc::Sender<String>) {
        self.slot.listener.tell_updates(to);
    }

    /// Says that the server answered: it need not be asked whether it is there.
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slot.listener.calls.leave(self.number);
        if !self.answered {
            self.slot.unanswered.store(true, Ordering::Relaxed);
        }
        *lock(&self.slot.used) = Instant::now();
    }
}

impl Upstream {
    pub(crate) fn new(
        server: Server,
        rules: UpstreamRules,
        environment: Arc<Environment>,
        asks: Asks,
        meter: Arc<dyn Meter>,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            environment,
            meter,
            permits: Arc::new(Semaphore::new(rules.parallel)),
            health: Mutex::default(),
            // What was told unasked of changes before 2026-07-28 must now be asked for.
            shared: Slot::new(Listener::new(asks), Handshake::KnownFirst),
            owned: Mutex::default(),
            wanted: Notify::new(),
            rules,
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_secs(self.rules.start_s),
            ..Limits::default()
        }
    }

    /// Its name in messages.
    pub(crate) fn shown(&self) -> String {
        format!("the server {:?}", marked(&self.server.name, 100))
    }

    /// Returns why it cannot be reached, where that is so.
    pub fn down(&self) -> Option<String> {
        lock(&self.health).down.clone()
    }

    /// A place for a call of a client, by a deadline.
    pub(crate) async fn lease(
        &self,
        owner: &Owner,
        share: Share,
        client: Client,
        deadline: Instant,
    ) -> Result<Lease, Refusal> {
        let waiting = Arc::clone(&self.permits).acquire_owned();
        let Ok(Ok(permit)) = timeout_at(deadline.min(Instant::now() + WAIT).into(), waiting).await
        else {
            let most = self.rules.parallel;
            let message = format!(
                "{} has {most} calls under way, which is as many as it may; call again later",
                self.shown()
            );
            return Err(Refusal::new(Code::Busy, message).retry_after(WAIT));
        };
        let slot = match share {
            Share::All => Arc::clone(&self.shared),
            Share::Owner => self.slot_of(owner, client)?,
        };
        self.wake();
        let connection = self.connection(&slot, deadline).await?;
        let (tell, heard) = mpsc::channel(MAX_HEARD);
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        slot.listener.calls.enter(number, tell.clone());
        Ok(Lease {
            connection,
            heard,
            tell,
            slot,
            number,
            answered: false,
            _permit: permit,
        })
    }

    /// Starts it, where it waits for a call to be started.
    pub(crate) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// The connection that lists are asked of.
    pub(crate) async fn listing(&self, deadline: Instant) -> Result<Arc<Connection>, Refusal> {
        self.connection(&self.shared, deadline).await
    }

    fn slot_of(&self, owner: &Owner, client: Client) -> Result<Arc<Slot>, Refusal> {
        let mut owned = lock(&self.owned);
        if let Some(slot) = owned.get(owner) {
            return Ok(Arc::clone(slot));
        }
        if owned.len() >= MAX_OWNED {
            let idle = |slot: &Arc<Slot>| slot.listener.calls.is_empty().then(|| *lock(&slot.used));
            let oldest = owned
                .iter()
                .filter_map(|(owner, slot)| Some((idle(slot)?, owner.clone())))
                .min_by_key(|it| it.0);
            let Some((_, oldest)) = oldest else {
                let message = format!(
                    "{} has {MAX_OWNED} connections, all of them in use; call again later",
                    self.shown()
                );
                return Err(Refusal::new(Code::Busy, message).retry_after(WAIT));
            };
            if let Some(slot) = owned.remove(&oldest) {
                end_in_background(slot);
            }
        }
        // A client is asked in the way of its own revision.
        let handshake = if client.is_newest {
            Handshake::NewestFirst
        } else {
            Handshake::KnownFirst
        };
        let slot = Slot::new(Listener::new(client.asks), handshake);
        owned.insert(owner.clone(), Arc::clone(&slot));
        Ok(slot)
    }

    /// Ends what an owner had.
    pub(crate) fn forget(&self, owner: &Owner) {
        if let Some(slot) = lock(&self.owned).remove(owner) {
            end_in_background(slot);
        }
    }

    /// Lets what is under way come to its end, and ends it.
    pub(crate) async fn retire(&self) {
        let all = u32::try_from(self.rules.parallel).unwrap_or(u32::MAX);
        drop(timeout(self.rules.call_time(), self.permits.acquire_many(all)).await);
        self.end().await;
    }

    /// Ends all its connections in good order.
    pub(crate) async fn end(&self) {
        let owned: Vec<_> = lock(&self.owned).drain().map(|(_, slot)| slot).collect();
        let slots = owned.iter().chain([&self.shared]);
        futures_util::future::join_all(slots.map(|slot| end(slot))).await;
    }

    /// The connection of a place; a new one where there is none, or none any longer.
    async fn connection(&self, slot: &Slot, deadline: Instant) -> Result<Arc<Connection>, Refusal> {
        let late = || {
            Refusal::new(
                Code::TimedOut,
                format!("{} was not up in time", self.shown()),
            )
        };
        let mut kept = timeout_at(deadline.into(), slot.connection.lock())
            .await
            .map_err(|_| late())?;
        if let Some(connection) = kept.as_ref().filter(|connection| !connection.is_closed()) {
            // What left a call without an answer may hang. While others wait for theirs it is let
            // be.
            let is_in_doubt =
                slot.unanswered.swap(false, Ordering::Relaxed) && slot.listener.calls.is_empty();
            if !is_in_doubt || is_there(connection).await {
                return Ok(Arc::clone(connection));
            }
            self.failed("it left a call unanswered, and answers no ping either");
        }
        if let Some(old) = kept.take() {
            // What is left of the old one ends before there is a new one.
            drop(timeout(PING, old.end()).await);
        }
        self.may_be_asked()?;
        let deadline = deadline.min(Instant::now() + self.limits().time);
        let (environment, limits, listener) =
            (&*self.environment, self.limits(), slot.listener.clone());
        let opened = Connection::open(
            &self.server,
            environment,
            deadline,
            &limits,
            slot.handshake,
            listener,
        )
        .await;
        match opened {
            Ok(connection) => {
                lock(&self.health).down = None;
                let connection = Arc::new(connection);
                *kept = Some(Arc::clone(&connection));
                self.meter.record(&Event::Upstream {
                    name: &self.server.name,
                    up: true,
                });
                tracing::info!(target: "picktools::gateway", upstream = %self.server.name, "up");
                Ok(connection)
            }
            Err(error) => {
                let message = error.to_string();
                self.failed(&message);
                lock(&self.health).down = Some(message.clone());
                Err(Refusal::new(
                    Code::UpstreamDown,
                    format!("{} cannot be reached: {message}", self.shown()),
                ))
            }
        }
    }

    /// What other gateways are to know, once. Programs are each gateway's own: what becomes of one
    /// says nothing of others.
    pub(crate) fn take_news(&self) -> Option<News> {
        let mut health = lock(&self.health);
        if !std::mem::take(&mut health.has_news) || matches!(self.server.way, Way::Stdio { .. }) {
            return None;
        }
        let left = health
            .open_until
            .map(|until| until.saturating_duration_since(Instant::now()));
        Some(
            left.filter(|left| !left.is_zero())
                .map_or(News::Answers, News::LeftAlone),
        )
    }

    /// Says that what was to be known could not be told.
    pub(crate) fn keep_news(&self) {
        lock(&self.health).has_news = true;
    }

    /// Leaves it alone for as long as another gateway does, but not for ever.
    pub(crate) fn leave_alone(&self, time: Option<Duration>) {
        lock(&self.health).elsewhere = time.map(|time| Instant::now() + time.min(OPEN.1));
    }

    fn may_be_asked(&self) -> Result<(), Refusal> {
        let health = lock(&self.health);
        let until = health.open_until.max(health.elsewhere);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            return Ok(());
        };
        let why = health
            .down
            .as_ref()
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        let message = format!(
            "{} failed often, and is left alone for {} s more{why}",
            self.shown(),
            left.as_secs().max(1)
        );
        Err(Refusal::new(Code::UpstreamDown, message).retry_after(left))
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, why: &str) {
        self.meter.record(&Event::Upstream {
            name: &self.server.name,
            up: false,
        });
        tracing::warn!(target: "picktools::gateway", upstream = %self.server.name, why, "failed");
        let now = Instant::now();
        let mut health = lock(&self.health);
        health.failures.push_back(now);
        while health
            .failures
            .front()
            .is_some_and(|&first| now.duration_since(first) > FAILURES.1)
        {
            health.failures.pop_front();
        }
        let was_open = health.open_until.take_if(|until| *until <= now).is_some();
        if was_open || health.failures.len() >= FAILURES.0 {
            let time = OPEN.0.saturating_mul(1 << health.opened.min(5)).min(OPEN.1);
            health.open_until = Some(now + time);
            health.has_news = true;
            health.opened += 1;
            health.failures.clear();
        }
    }

    /// Notes that a call was answered.
    pub(crate) fn answered(&self) {
        let mut health = lock(&self.health);
        if health.opened > 0 || !health.failures.is_empty() {
            health.has_news |= health.opened > 0;
            (health.failures, health.open_until, health.opened) = (VecDeque::new(), None, 0);
        }
    }

    /// Keeps it up, and tells of its tools whenever they may have changed.
    pub(crate) async fn follow(
        self: Arc<Self>,
        kept: Option<KeptTools>,
        tell: mpsc::Sender<Listed>,
    ) {
        let told = |listing, is_live| Listed {
            upstream: self.server.name.clone(),
            listing,
            is_live,
        };
        let mut last: Option<Listing> = None;
        if let Some((tools, _)) = kept.as_ref().and_then(|kept| kept.get(&self.server)) {
            let mut listing = Listing::default();
            listing.tools = tools;
            if tell.send(told(Ok(listing.clone()), false)).await.is_err() {
                return;
            }
            last = Some(listing);
        }
        let mut again = AGAIN.0;
        let mut has_asked = false;
        loop {
            if self.rules.start == Start::Lazy && last.is_some() {
                self.wanted.notified().await;
            }
            match self
                .connection(&self.shared, Instant::now() + self.limits().time)
                .await
            {
                Ok(connection) => {
                    while !connection.is_closed() {
                        let listed = connection
                            .tools(Instant::now() + self.limits().time, &self.limits())
                            .await;
                        let listed = match listed {
                            Ok(listing) => {
                                again = AGAIN.0;
                                if let (Some(kept), None) = (&kept, &listing.incomplete) {
                                    kept.put(&self.server, &listing.tools);
                                }
                                if has_asked
                                    && last
                                        .as_ref()
                                        .is_some_and(|last| last.tools == listing.tools)
                                {
                                    None
                                } else {
                                    Some(Ok(listing))
                                }
                            }
                            Err(message) => {
                                self.failed(&message);
                                Some(Err(message))
                            }
                        };
                        let is_failure = matches!(listed, Some(Err(_)));
                        has_asked = true;
                        if let Some(Ok(listing)) = &listed {
                            last = Some(listing.clone());
                        }
                        if let Some(listed) = listed
                            && tell.send(told(listed, true)).await.is_err()
                        {
                            return;
                        }
                        if is_failure {
                            break;
                        }
                        tokio::select! {
                            () = self.shared.listener.changed() => sleep(TOGETHER).await,
                            () = sleep(NOW_AND_THEN) => {}
                            () = closed(&connection) => {}
                            () = self.idle(), if self.rules.start == Start::Lazy => end(&self.shared).await,
                        }
                    }
                }
                Err(refusal) => {
                    if tell.send(told(Err(refusal.message), true)).await.is_err() {
                        return;
                    }
                }
            }
            sleep(again).await;
            again = (again * 2).min(AGAIN.1);
        }
    }

    /// Waits until nothing was called for a while.
    async fn idle(&self) {
        let time = Duration::from_secs(self.rules.idle_s);
        loop {
            let until = *lock(&self.shared.used) + time;
            if until <= Instant::now() && self.shared.listener.calls.is_empty() {
                return;
            }
            sleep_until(until.max(Instant::now() + LOOK).into()).await;
        }
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("name", &self.server.name)
            .finish_non_exhaustive()
    }
}

/// Whether a server answers at all; that it does not know the question is an answer too.
async fn is_there(connection: &Connection) -> bool {
    let ping = connection
        .peer()
        .send_request(ClientRequest::PingRequest(PingRequest::default()));
    matches!(
        timeout(PING, ping).await,
        Ok(Ok(_) | Err(ServiceError::McpError(_)))
    )
}

async fn closed(connection: &Connection) {
    while !connection.is_closed() {
        sleep(LOOK).await;
    }
}

async fn end(slot: &Slot) {
    let connection = slot.connection.lock().await.take();
    if let Some(connection) = connection {
        connection.end().await;
    }
}

fn end_in_background(slot: Arc<Slot>) {
    // Without a runtime there is nobody to wait, and dropping it kills it.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        drop(runtime.spawn(async move { end(&slot).await }));
    }
}
