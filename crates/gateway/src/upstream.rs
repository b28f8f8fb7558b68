//! Upstreams: their connections, health, circuit breakers and restarts.

mod change_pauses;
mod circuit;
mod owner;
mod slots;
mod stored_tools;
mod tool_list_watcher;
mod turns;

use std::ffi::OsString;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use picktools::excerpt::marked;
use picktools_import::mcp::{Server, ServerTransport};
use picktools_mcp::{ConnectOptions, Connection, Handshake, Limits, Listing, ToolListCache};
use picktools_state::keys::now;
use picktools_state::lock;
use rmcp::ServiceError;
use rmcp::model::{ClientRequest, PingRequest};
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{timeout, timeout_at};

pub(crate) use self::circuit::CircuitChange;
use self::circuit::UpstreamCircuit;
pub use self::owner::Owner;
use self::slots::{OwnedSlots, Slot, SlotRequest, SlotUse};
pub(crate) use self::stored_tools::StoredTools;
pub(crate) use self::tool_list_watcher::ToolListWatcher;
use crate::listener::{ClientAbilities, Listener, UpstreamEvent};
use crate::metrics::{GatewayEvent, Meter};
use crate::refusal::{Code, Refusal};
use crate::settings::{Share, UpstreamRules};
use crate::text_scan::TextScan;

/// The time that a call waits until the server runs fewer than `parallel` calls.
const PARALLEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that a server has to answer a ping after an unanswered call. The call that waits
/// for it must still have the time to start the server again.
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// The part of the time of a call in which a ping must be answered.
const PING_SHARE: u32 = 4;
/// The longest time that a call of a new owner waits for the connection of another one.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// The most unread messages of a call.
const MAX_UNREAD: usize = 256;

/// The environment of the gateway.
pub type Environment = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// The properties of a client that matter for connections.
#[derive(Debug, Clone)]
pub(crate) struct ClientTraits {
    /// The name of its key, if it has one.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) abilities: ClientAbilities,
    /// `true` if it speaks revision 2026-07-28 or later.
    pub(crate) is_newest: bool,
}

/// A listing of an upstream, or the reason why it failed.
pub struct UpstreamListing {
    pub(crate) upstream: String,
    pub(crate) result: Result<ReportedTools, String>,
    /// `true` if the upstream was asked; `false` for a cached listing.
    pub(crate) is_live: bool,
}

/// The tools and instructions that an upstream sent.
#[derive(Debug, Clone)]
pub(crate) struct ReportedTools {
    pub(crate) tools: StoredTools,
    /// The reason why tools are missing; `None` if the list is complete.
    pub(crate) incomplete: Option<String>,
    /// The instructions of the server, empty if it has none; `None` if they are not known.
    pub(crate) instructions: Option<String>,
}

impl ReportedTools {
    pub(crate) fn new(listing: Listing) -> Self {
        Self {
            tools: StoredTools::new(listing.tools),
            incomplete: listing.incomplete,
            instructions: listing.instructions,
        }
    }
}

/// A server that cannot be used.
#[derive(Debug, Clone, Serialize)]
pub struct ServerDown {
    pub(crate) server: String,
    /// The reason.
    pub(crate) why: String,
    /// The time since when, in seconds since 1970.
    pub(crate) since: u64,
    #[serde(skip)]
    pub(crate) is_starting: bool,
}

impl ServerDown {
    /// Creates the report about a server that has not answered since the start of the gateway.
    pub(crate) fn starting(server: &str, since: u64) -> Self {
        Self {
            server: server.to_owned(),
            why: "it is starting; try again in a few seconds".to_owned(),
            since,
            is_starting: true,
        }
    }

    /// Returns the name with the state, for a list.
    pub(crate) fn describe(&self) -> String {
        let state = match self.is_starting {
            true => "starting",
            false => "cannot be used",
        };
        format!("{} ({state})", self.server)
    }

    /// Returns `true` if a name is that of a tool of this server.
    pub(crate) fn may_have(&self, tool_name: &str) -> bool {
        let (server, name) = (self.server.to_lowercase(), tool_name.to_lowercase());
        let rest = name.strip_prefix(&server);
        rest.is_some_and(|rest| rest.starts_with(['/', '.', ':']) || rest.starts_with("__"))
    }

    pub(crate) fn refusal(&self) -> Refusal {
        let message = format!("the server {:?} cannot be used: {}", self.server, self.why);
        Refusal::new(Code::UpstreamDown, message)
    }
}

/// The parts of the gateway that an upstream uses.
#[derive(Clone)]
pub(crate) struct UpstreamContext {
    pub(crate) environment: Arc<Environment>,
    pub(crate) tool_cache: Option<ToolListCache>,
    /// The kinds of questions of the upstream that the only client can answer.
    pub(crate) abilities: ClientAbilities,
    pub(crate) meter: Arc<dyn Meter>,
    /// Notified when a circuit breaker changes that other gateways must learn of.
    pub(crate) circuit_changed: Arc<Notify>,
}

/// A server behind the gateway.
pub struct Upstream {
    /// The server's configuration.
    pub server: Server,
    /// The settings of the server.
    pub rules: UpstreamRules,
    environment: Arc<Environment>,
    tool_cache: Option<ToolListCache>,
    meter: Arc<dyn Meter>,
    circuit_changed: Arc<Notify>,
    permits: Arc<Semaphore>,
    health: Mutex<UpstreamHealth>,
    shared: Arc<Slot>,
    owned: OwnedSlots,
    start_requested: Notify,
}

/// The health of an upstream.
#[derive(Default)]
struct UpstreamHealth {
    circuit: UpstreamCircuit,
    /// The reason why it is unreachable, and since when, in seconds since 1970.
    down: Option<(String, u64)>,
    /// The connection whose end was recorded last.
    ended: Option<Weak<Connection>>,
    sharing: Sharing,
}

/// The clients that can share one connection without a trace of each other, because the server
/// keeps nothing between requests.
#[derive(Clone, Copy, Default)]
enum Sharing {
    #[default]
    None,
    /// Those that speak a revision before 2026-07-28.
    Older,
    All,
}

impl Sharing {
    fn of_connection(connection: &Connection) -> Self {
        match (connection.is_stateless(), connection.is_older()) {
            (false, _) => Self::None,
            (true, true) => Self::Older,
            (true, false) => Self::All,
        }
    }

    fn includes(self, client: &ClientTraits) -> bool {
        match self {
            Self::None => false,
            Self::Older => !client.is_newest,
            Self::All => true,
        }
    }
}

/// The use of a connection by one call.
pub(crate) struct Lease {
    pub(crate) connection: Arc<Connection>,
    pub(crate) events: mpsc::Receiver<UpstreamEvent>,
    /// The channel for progress messages.
    pub(crate) event_sender: mpsc::Sender<UpstreamEvent>,
    slot: SlotUse,
    number: u64,
    answered: bool,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// Sets the channel for addresses of changed resources.
    pub(crate) fn set_update_channel(&self, sender: mpsc::Sender<String>) {
        self.slot.listener.set_update_channel(sender);
    }

    /// Records that the server answered, so that no ping is needed.
    pub(crate) fn record_answer(&mut self) {
        self.answered = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.answered {
            self.slot.record_unanswered();
        }
        self.slot.listener.calls.remove(self.number);
    }
}

impl Upstream {
    pub(crate) fn new(server: Server, rules: UpstreamRules, context: UpstreamContext) -> Arc<Self> {
        let UpstreamContext {
            environment,
            tool_cache,
            abilities,
            meter,
            circuit_changed,
        } = context;
        Arc::new(Self {
            server,
            environment,
            tool_cache,
            meter,
            circuit_changed,
            permits: Arc::new(Semaphore::new(rules.parallel)),
            health: Mutex::default(),
            // Before 2026-07-28 servers report changes without a subscription; later revisions need
            // one.
            shared: Arc::new(Slot::new(
                Listener::new(abilities),
                Handshake::LegacyFirst,
                "".into(),
                Arc::default(),
            )),
            owned: OwnedSlots::new(rules.connections),
            start_requested: Notify::new(),
            rules,
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            time: Duration::from_secs(self.rules.start_s),
            ..Limits::default()
        }
    }

    /// Returns the scan of the server's texts.
    pub(crate) fn text_scan(&self) -> TextScan {
        TextScan::new(self.rules.scan, self.display_name())
    }

    /// Returns its name for messages.
    pub(crate) fn display_name(&self) -> String {
        format!("the server {:?}", marked(&self.server.name, 100))
    }

    /// Returns the reason why it is unreachable, or `None`.
    pub fn down_reason(&self) -> Option<String> {
        let (reason, _) = lock(&self.health).down.clone()?;
        Some(reason)
    }

    /// Returns the time since when it is unreachable, in seconds since 1970, or `None`.
    pub fn down_since(&self) -> Option<u64> {
        let (_, since) = lock(&self.health).down.clone()?;
        Some(since)
    }

    /// Returns what a model may know if it cannot be used.
    pub(crate) fn server_down(&self) -> Option<ServerDown> {
        let (reason, since) = lock(&self.health).down.clone()?;
        // What the server wrote is for the log.
        let first_line = reason.lines().next().unwrap_or_default().to_owned();
        let scanned = self.text_scan().text(first_line);
        Some(ServerDown {
            server: self.server.name.clone(),
            why: scanned.unwrap_or_else(|refusal| refusal.message),
            since,
            is_starting: false,
        })
    }

    /// Records the reason why it is unreachable, or that it is reachable. A change is logged.
    fn set_down(&self, reason: Option<&str>) {
        let name = &self.server.name;
        let mut health = lock(&self.health);
        match (&health.down, reason) {
            (Some((before, _)), Some(reason)) if before == reason => return,
            (_, Some(reason)) => {
                tracing::warn!(
                    target: "picktools::gateway", server = %name, %reason, "server cannot be used"
                );
            }
            (Some(_), None) => {
                tracing::warn!(target: "picktools::gateway", server = %name, "server can be used again");
            }
            (None, None) => return,
        }
        let since = health.down.take().map_or_else(now, |(_, since)| since);
        health.down = reason.map(|reason| (reason.to_owned(), since));
    }

    /// Takes a connection for a client, and one of the calls that the server runs at once, until a
    /// deadline.
    pub(crate) async fn lease(
        &self,
        owner: &Owner,
        share: Share,
        client: ClientTraits,
        deadline: Instant,
    ) -> Result<Lease, Refusal> {
        let is_shared = share == Share::All || lock(&self.health).sharing.includes(&client);
        let slot = if is_shared {
            SlotUse::new(&self.shared, Instant::now())
        } else {
            self.owner_slot(owner, client, deadline).await?
        };
        let permit_request = Arc::clone(&self.permits).acquire_owned();
        let Ok(Ok(permit)) = timeout_at(
            deadline.min(Instant::now() + PARALLEL_TIMEOUT).into(),
            permit_request,
        )
        .await
        else {
            let max_calls = self.rules.parallel;
            let message = format!(
                "{} already runs {max_calls} calls, which is its limit; call again later",
                self.display_name()
            );
            return Err(Refusal::new(Code::Busy, message).retry_after(PARALLEL_TIMEOUT));
        };
        self.request_start();
        let connection = self.connection(&slot, deadline).await?;
        let (event_sender, events) = mpsc::channel(MAX_UNREAD);
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        slot.listener.calls.add(number, event_sender.clone());
        Ok(Lease {
            connection,
            events,
            event_sender,
            slot,
            number,
            answered: false,
            _permit: permit,
        })
    }

    /// Starts a lazily started upstream.
    pub(crate) fn request_start(&self) {
        self.start_requested.notify_one();
    }

    /// Returns the connection for listings.
    pub(crate) async fn listing_connection(
        &self,
        deadline: Instant,
    ) -> Result<Arc<Connection>, Refusal> {
        self.connection(&self.shared, deadline).await
    }

    /// Returns the slot of an owner. If it has none and there is no room, waits for the slot of
    /// another owner.
    async fn owner_slot(
        &self,
        owner: &Owner,
        client: ClientTraits,
        deadline: Instant,
    ) -> Result<SlotUse, Refusal> {
        // The upstream is spoken to in the client's own protocol revision.
        let handshake = if client.is_newest {
            Handshake::NewestFirst
        } else {
            Handshake::LegacyFirst
        };
        let holder = client.key.unwrap_or_default();
        let request = SlotRequest {
            owner,
            holder: Arc::clone(&holder),
            create: |wake_up| {
                // A change that a server reports on this connection changes the tools of all.
                let listener = self.shared.listener.for_owner(client.abilities);
                Slot::new(listener, handshake, Arc::clone(&holder), wake_up)
            },
        };
        let deadline = deadline.min(Instant::now() + TURN_TIMEOUT);
        self.owned.take(&request, deadline).await.ok_or_else(|| {
            let message = format!(
                "{} has {} connections, all of them in use; call again later",
                self.display_name(),
                self.rules.connections
            );
            Refusal::new(Code::Busy, message).retry_after(PARALLEL_TIMEOUT)
        })
    }

    /// Ends the connection of an owner.
    pub(crate) fn forget(&self, owner: &Owner) {
        self.owned.forget(owner);
    }

    /// Waits for running calls, then ends the connections.
    pub(crate) async fn retire(&self) {
        let all = u32::try_from(self.rules.parallel).unwrap_or(u32::MAX);
        drop(timeout(self.rules.call_time(), self.permits.acquire_many(all)).await);
        self.end().await;
    }

    /// Ends all connections gracefully.
    pub(crate) async fn end(&self) {
        let owned = self.owned.remove_all();
        let slots = owned.iter().chain([&self.shared]);
        futures_util::future::join_all(slots.map(|slot| slot.end())).await;
    }

    /// Returns the connection of a slot, and opens a new one if there is none or it is closed.
    async fn connection(&self, slot: &Slot, deadline: Instant) -> Result<Arc<Connection>, Refusal> {
        let timed_out = || {
            Refusal::new(
                Code::TimedOut,
                format!("{} did not start in time", self.display_name()),
            )
        };
        let mut slot_connection = timeout_at(deadline.into(), slot.connection.lock())
            .await
            .map_err(|_| timed_out())?;
        if let Some(connection) = &*slot_connection
            && !connection.is_closed()
        {
            // A server that left a call unanswered may hang, so it is pinged, unless other calls
            // are still running.
            let is_in_doubt = slot.take_unanswered() && slot.listener.calls.is_empty();
            let remaining = deadline.saturating_duration_since(Instant::now());
            let ping_time = PING_TIMEOUT.min(remaining / PING_SHARE);
            if !is_in_doubt || answers_ping(connection, ping_time).await {
                return Ok(Arc::clone(connection));
            }
            self.record_failure("it answered neither a call nor a ping");
            connection.kill().await;
        }
        if let Some(old) = slot_connection.take() {
            // The old process ends before a new one starts.
            drop(timeout(PING_TIMEOUT, old.end()).await);
        }
        self.check_circuit()?;
        let deadline = deadline.min(Instant::now() + self.limits().time);
        let options = ConnectOptions {
            environment: &*self.environment,
            deadline,
            limits: &self.limits(),
            handshake: slot.handshake,
            cache: self.tool_cache.as_ref(),
        };
        let started = Instant::now();
        let result = Connection::open(&self.server, &options, slot.listener.clone()).await;
        match result {
            Ok(connection) => {
                self.set_down(None);
                slot.begin_turn(started.elapsed());
                if std::ptr::eq(slot, &raw const *self.shared) {
                    lock(&self.health).sharing = Sharing::of_connection(&connection);
                }
                let connection = Arc::new(connection);
                *slot_connection = Some(Arc::clone(&connection));
                self.meter.record(&GatewayEvent::Upstream {
                    name: &self.server.name,
                    up: true,
                });
                tracing::info!(
                    target: "picktools::gateway", server = %self.server.name, "server is reachable"
                );
                Ok(connection)
            }
            Err(error) => {
                let message = error.to_string();
                self.record_failure(&message);
                self.set_down(Some(&message));
                Err(Refusal::new(
                    Code::UpstreamDown,
                    format!("{} cannot be reached: {message}", self.display_name()),
                ))
            }
        }
    }

    /// Returns the change that other gateways must learn, once. A program is local to its gateway,
    /// so its failures say nothing about others.
    pub(crate) fn take_circuit_change(&self) -> Option<CircuitChange> {
        let change = lock(&self.health).circuit.take_change();
        let is_program = matches!(self.server.transport, ServerTransport::Stdio { .. });
        change.filter(|_| !is_program)
    }

    /// Keeps a change that could not be published.
    pub(crate) fn restore_circuit_change(&self) {
        lock(&self.health).circuit.restore_change();
    }

    /// Opens the circuit breaker for as long as another gateway's is open, up to a limit.
    pub(crate) fn open_remote_circuit(&self, time: Option<Duration>) {
        lock(&self.health).circuit.open_remote(time);
    }

    fn check_circuit(&self) -> Result<(), Refusal> {
        let health = lock(&self.health);
        let Some(remaining) = health.circuit.remaining() else {
            return Ok(());
        };
        let cause = match &health.down {
            Some((cause, _)) => format!(": {cause}"),
            None => String::new(),
        };
        let message = format!(
            "{} failed repeatedly, so calls to it are paused for {} more seconds{cause}",
            self.display_name(),
            remaining.as_secs().max(1)
        );
        Err(Refusal::new(Code::UpstreamDown, message).retry_after(remaining))
    }

    /// Records the end of a connection as one failure, whatever number of requests it failed.
    pub(crate) fn record_end(&self, connection: &Arc<Connection>, cause: &str) {
        let ended = Arc::downgrade(connection);
        let previous = lock(&self.health).ended.replace(ended.clone());
        if !previous.is_some_and(|previous| previous.ptr_eq(&ended)) {
            self.record_failure(cause);
        }
    }

    /// Records a failure.
    pub(crate) fn record_failure(&self, cause: &str) {
        self.meter.record(&GatewayEvent::Upstream {
            name: &self.server.name,
            up: false,
        });
        tracing::info!(
            target: "picktools::gateway", server = %self.server.name, cause, "server failed"
        );
        if lock(&self.health).circuit.record_failure(Instant::now()) {
            self.circuit_changed.notify_one();
        }
    }

    /// Records an answer.
    pub(crate) fn record_answer(&self) {
        if lock(&self.health).circuit.record_answer() {
            self.circuit_changed.notify_one();
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

/// Returns `true` if a server answers a ping. An error such as "unknown method" is an answer too.
async fn answers_ping(connection: &Connection, time: Duration) -> bool {
    let ping = connection
        .peer()
        .send_request(ClientRequest::PingRequest(PingRequest::default()));
    matches!(
        timeout(time, ping).await,
        Ok(Ok(_) | Err(ServiceError::McpError(_)))
    )
}

#[cfg(test)]
mod tests;
