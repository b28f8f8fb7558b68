//! The gateway: it connects upstreams with clients, and builds the snapshots that clients see.

mod rebuild;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use picktools::Catalog;
use picktools::excerpt::{MAX_NAME_CHARS, marked};
use picktools_audit::{AuditUploader, AuditWriter};
use picktools_call::Repairer;
use picktools_import::mcp::Server;
use picktools_mcp::ToolListCache;
use picktools_provider::Tokenizer;
use picktools_state::{StateChanges, StateLocation, StateStore, StoreFault, lock};
use rmcp::serve_server;
use rmcp::transport::io::stdio_pipes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use self::rebuild::{NoticeLog, rebuild_snapshots};
use crate::active_requests::ActiveRequests;
use crate::api_keys::ApiKeys;
use crate::approvals::Approvals;
use crate::calls::Caller;
use crate::circuits;
use crate::client_messages::StdioClient;
use crate::decisions::DecisionWatcher;
use crate::error::GatewayError;
use crate::handler::Handler;
use crate::hub::{CallState, Hub};
use crate::journal::Journal;
use crate::listener::ClientAbilities;
use crate::metrics::{Counters, GatewayEvent, Meter};
use crate::naming;
use crate::pins::Pins;
use crate::queue::CallQueue;
use crate::registry::Registry;
use crate::sessions::Sessions;
use crate::settings::{DEFAULT_ROLE, NameStyle, Settings, Share};
use crate::snapshot::Snapshot;
use crate::upstream::{Environment, Owner, UpstreamContext, UpstreamListing};
use crate::upstreams::{PlannedUpstreams, Upstreams};

/// The time in which the last answers are written.
const FLUSH_TIME: Duration = Duration::from_millis(100);
/// The time in which the rest of the audit log is sent.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The parts of a gateway.
pub struct GatewayOptions {
    /// The servers behind the gateway.
    pub servers: Vec<Server>,
    /// The operator's settings.
    pub settings: Settings,
    /// A catalog of tools that no server runs: they can be picked but not called. Its sources keep
    /// their trust.
    pub catalog: Option<Catalog>,
    /// The environment from which started programs inherit some variables.
    pub environment: Arc<Environment>,
    /// The folder in which the tools of servers are cached, so that lists are complete before the
    /// servers are up. It also remembers which handshake worked with a server.
    pub tool_cache: Option<PathBuf>,
    /// Approved tool definitions. If `None`, every definition is trusted.
    pub pins: Option<Pins>,
    /// The repairer of invalid arguments, such as a language model. It is asked once per call, and
    /// never about unsafe tools.
    pub repairer: Option<Arc<dyn Repairer>>,
    /// The queue for unsafe calls of clients that cannot ask a person. If `None`, such calls are
    /// refused.
    pub queue: Option<CallQueue>,
    /// The store for state other than approvals and pending calls: rate limits, circuit breakers,
    /// sessions and the audit stream.
    pub store: Option<StateStore>,
    /// The receiver of events.
    pub meter: Arc<dyn Meter>,
    /// The default for sharing connections. One client can share all of them; with several clients,
    /// the state of one must stay invisible to the others.
    pub share: Share,
    /// The time from the start in which lists and searches wait for servers that have not reported
    /// yet. A slower server delays only its own tools: clients are told when they arrive.
    pub list_wait: Duration,
    /// A callback that runs after the gateway has published a new snapshot of its tools. A program
    /// can return free memory to the system in it.
    pub on_snapshot: Arc<dyn Fn() + Send + Sync>,
}

impl GatewayOptions {
    /// Creates the options of a gateway without servers. It keeps no state, and one client shares
    /// its connections.
    pub fn new(settings: Settings) -> Self {
        Self {
            servers: Vec::new(),
            settings,
            catalog: None,
            environment: Arc::new(|_: &str| None),
            tool_cache: None,
            pins: None,
            repairer: None,
            queue: None,
            store: None,
            meter: Arc::new(Counters::default()),
            share: Share::All,
            list_wait: Duration::from_secs(2),
            on_snapshot: Arc::new(|| {}),
        }
    }
}

/// A front end for clients that accepts the keys of the settings.
pub trait ClientFrontend: Send + Sync {
    /// Creates the keys for new settings. Unchanged keys keep their state.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] if the settings cannot be used.
    fn api_keys(&self, settings: &Settings) -> Result<ApiKeys, GatewayError>;

    /// Replaces the accepted keys. Sessions of removed keys end.
    fn replace(&self, api_keys: ApiKeys);
}

/// One MCP server in front of several. When dropped, it stops everything that it started.
///
/// Its futures are boxed: the code of an `async fn` is compiled again in each crate that awaits it.
pub struct Gateway {
    hub: Arc<Hub>,
    rebuild_task: JoinHandle<()>,
    /// Records the decisions of operators.
    decision_task: JoinHandle<()>,
    /// Shares circuit breakers with other gateways.
    circuits: Option<JoinHandle<()>>,
    /// Sends the audit log to the store.
    audit_uploader: Mutex<Option<AuditUploader>>,
    frontends: Mutex<Vec<Weak<dyn ClientFrontend>>>,
}

/// Returns the names of servers that look like the name of another server, and reports them. Of names
/// that look alike, the one in the settings is used, otherwise the first.
fn look_alikes(servers: &[Server], settings: &Settings) -> BTreeSet<String> {
    let mut used: Vec<&String> = Vec::new();
    let mut left_out = BTreeSet::new();
    for is_in_settings in [true, false] {
        for server in servers {
            let name = &server.name;
            if settings.upstreams.contains_key(name) != is_in_settings {
                continue;
            }
            let Some(other) = used.iter().find(|other| naming::look_alike(name, other)) else {
                used.push(name);
                continue;
            };
            if *other == name || !left_out.insert(name.clone()) {
                continue;
            }
            tracing::error!(
                target: "picktools::gateway", server = %marked(name, MAX_NAME_CHARS), %other,
                "the server is left out, because its name looks like that of another server; \
                 rename it"
            );
        }
    }
    left_out
}

/// Returns the servers with their rules, by name. A server with an unusable name is left out.
fn plan_upstreams(
    servers: Vec<Server>,
    settings: &Settings,
) -> Result<PlannedUpstreams, GatewayError> {
    let mut planned = PlannedUpstreams::new();
    let mut left_out = look_alikes(&servers, settings);
    for mut server in servers {
        if left_out.contains(&server.name) {
            continue;
        }
        settings.add_inherited(&mut server);
        let name = server.name.clone();
        let refuse = |reason: &str| GatewayError::Server {
            name: name.clone(),
            reason: reason.to_owned(),
        };
        if let Some(reason) = naming::name_fault(&name) {
            tracing::error!(
                target: "picktools::gateway", server = %marked(&name, MAX_NAME_CHARS), %reason,
                "the server is left out; rename it"
            );
            left_out.insert(name);
            continue;
        }
        let rules = settings.rules_of(&server);
        if planned.insert(name.clone(), (server, rules)).is_some() {
            return Err(refuse("two servers have this name; rename one of them"));
        }
    }
    if settings.names == NameStyle::Bare && planned.len() != 1 {
        return Err(GatewayError::Settings(
            "\"names\": \"bare\" requires exactly one server".to_owned(),
        ));
    }
    let is_unknown =
        |name: &&String| *name != "*" && !planned.contains_key(*name) && !left_out.contains(*name);
    if let Some(unknown) = settings.upstreams.keys().find(is_unknown) {
        let names: Vec<&String> = planned.keys().collect();
        let message =
            format!("unknown upstream {unknown:?} in the settings; the servers are {names:?}");
        return Err(GatewayError::Settings(message));
    }
    Ok(planned)
}

/// Opens the journal with its audit log, and begins the upload of the audit log if there is a
/// store.
fn open_journal(
    settings: &Settings,
    store: Option<&StateStore>,
) -> Result<(Journal, Option<AuditUploader>), GatewayError> {
    let audit_error = |error: &dyn fmt::Display| GatewayError::Audit(error.to_string());
    let Some(audit_settings) = &settings.audit else {
        let journal = Journal::open(None).map_err(|error| audit_error(&error))?;
        return Ok((journal, None));
    };
    let mut audit =
        AuditWriter::open(audit_settings.clone()).map_err(|error| audit_error(&error))?;
    let mut audit_uploader = None;
    if let Some(store) = store {
        let uploader = AuditUploader::begin(&audit_settings.folder, store.clone())
            .map_err(|error| audit_error(&error))?;
        audit.keep_unsent(uploader.sent_number());
        audit_uploader = Some(uploader);
    }
    if let Some(remnant) = audit.remnant() {
        let (file, bytes) = (&remnant.file, remnant.bytes);
        tracing::error!(
            target: "picktools::audit", %file, bytes,
            "moved an incomplete record at the end of the audit log to another file"
        );
    }
    let journal = Journal::open(Some(audit)).map_err(|error| audit_error(&error))?;
    Ok((journal, audit_uploader))
}

impl Gateway {
    /// Starts the gateway. It must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] if a server cannot be used under its name, or the settings are invalid.
    pub fn open(options: GatewayOptions) -> Result<Self, GatewayError> {
        let GatewayOptions {
            servers,
            settings,
            catalog,
            environment,
            tool_cache,
            pins,
            repairer,
            queue,
            store,
            meter,
            share,
            list_wait,
            on_snapshot,
        } = options;
        if let Some(store) = &store {
            let meter = Arc::clone(&meter);
            store.set_fault_listener(Arc::new(move |purpose, fault| {
                meter.record(&GatewayEvent::Store {
                    purpose: purpose.name(),
                    fault: fault.map(StoreFault::name),
                });
            }));
        }
        let planned = plan_upstreams(servers, &settings)?;
        let (journal, audit_uploader) = open_journal(&settings, store.as_ref())?;
        let sessions = match &store {
            Some(store) if share == Share::Owner => {
                let idle = Duration::from_secs(settings.http.session_s.max(1));
                Some(Sessions::new(store.clone(), idle))
            }
            _ => None,
        };
        let first_snapshot = Snapshot::build(Arc::new(settings), catalog.as_ref(), &[], None, None)
            .map_err(GatewayError::Snapshot)?
            .with_store(store.clone());
        let list_deadline = Instant::now() + list_wait;
        let registry = Registry::new(first_snapshot, catalog, planned.is_empty(), list_deadline);
        let (listings_sender, listings) = mpsc::channel(64);
        // With only one client it is clear which client an upstream asks.
        let is_one = share == Share::All;
        let upstream_context = UpstreamContext {
            environment: Arc::clone(&environment),
            tool_cache: tool_cache.map(ToolListCache::new),
            abilities: ClientAbilities {
                person: is_one,
                model: is_one,
            },
            meter: Arc::clone(&meter),
            circuit_changed: Arc::default(),
        };
        let hub = Arc::new(Hub {
            upstreams: Upstreams::new(
                upstream_context,
                share,
                listings_sender,
                registry.completion(),
            ),
            registry,
            approvals: Approvals::new(pins, queue),
            calls: CallState::new(repairer),
            active: ActiveRequests::default(),
            sessions,
            store,
            meter,
            journal,
            environment,
        });
        let gateway = Self::start(hub, listings, audit_uploader, on_snapshot);
        gateway.hub.upstreams.replace(planned);
        Ok(gateway)
    }

    /// Starts the tasks of a gateway.
    fn start(
        hub: Arc<Hub>,
        listings: mpsc::Receiver<UpstreamListing>,
        audit_uploader: Option<AuditUploader>,
        on_snapshot: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        let snapshot = hub.registry.snapshot();
        hub.journal.record_policy(&snapshot);
        let mut notice_log = NoticeLog::default();
        notice_log.log(&snapshot, hub.registry.is_complete());
        let (pins, queue) = (hub.approvals.pins.clone(), hub.approvals.queue.clone());
        let locations = [
            pins.as_ref().map(Pins::location),
            queue.as_ref().map(CallQueue::location),
            hub.store.clone().map(StateLocation::Store),
        ];
        // The first list counts tokens. Reading the vocabulary takes milliseconds.
        drop(tokio::task::spawn_blocking(|| Tokenizer::O200k.count("")));
        // Changes after this point are reported.
        let state_changes = StateChanges::watch(locations.into_iter().flatten());
        let circuits = hub.store.clone().map(|store| {
            tokio::spawn(circuits::follow(
                Arc::clone(&hub),
                store,
                state_changes.clone(),
            ))
        });
        let decisions = DecisionWatcher::new(pins.clone(), queue);
        Self {
            rebuild_task: tokio::spawn(rebuild_snapshots(
                Arc::clone(&hub),
                pins,
                state_changes.clone(),
                listings,
                notice_log,
                on_snapshot,
            )),
            decision_task: tokio::spawn(decisions.follow(Arc::clone(&hub), state_changes)),
            circuits,
            audit_uploader: Mutex::new(audit_uploader),
            frontends: Mutex::default(),
            hub,
        }
    }

    /// Replaces the servers, the settings and the operator's own catalog. Unchanged servers keep
    /// their connections, and clients keep their sessions; running calls complete. A session keeps
    /// its mode.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] if they cannot be used; then nothing changes.
    pub fn reload(
        &self,
        servers: Vec<Server>,
        settings: Settings,
        catalog: Option<Catalog>,
    ) -> Result<(), GatewayError> {
        let planned = plan_upstreams(servers, &settings)?;
        if settings.audit != self.hub.registry.settings().audit {
            let message =
                "`audit` cannot change while the gateway runs; restart the gateway to change it";
            return Err(GatewayError::Settings(message.to_owned()));
        }
        let frontends: Vec<Arc<dyn ClientFrontend>> = lock(&self.frontends)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let mut new_keys = Vec::with_capacity(frontends.len());
        for frontend in frontends {
            let api_keys = frontend.api_keys(&settings)?;
            new_keys.push((frontend, api_keys));
        }
        for (frontend, api_keys) in new_keys {
            frontend.replace(api_keys);
        }
        self.hub.registry.replace_sources(settings, catalog);
        self.hub.upstreams.replace(planned);
        self.hub.registry.request_rebuild();
        Ok(())
    }

    /// Serves the client at standard input and output until it disconnects.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`] if the handshake fails.
    pub fn serve_stdio(&self) -> BoxFuture<'_, Result<(), GatewayError>> {
        let caller = Caller {
            role: DEFAULT_ROLE.into(),
            key: "client".into(),
            owner: Owner("client".into()),
        };
        let handler = Handler::with_text_pages(Arc::clone(&self.hub), caller);
        let serve = async move {
            let failed = |error: &dyn fmt::Display| GatewayError::Client(error.to_string());
            let (input, output) = stdio_pipes();
            let service = serve_server(handler, StdioClient::new(input, output))
                .await
                .map_err(|error| failed(&error))?;
            service.waiting().await.map_err(|error| failed(&error))?;
            Ok(())
        };
        serve.boxed()
    }

    /// Returns the state that all clients share.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Registers a front end that is updated when the settings change, as long as it exists.
    pub fn add_frontend(&self, frontend: Weak<dyn ClientFrontend>) {
        lock(&self.frontends).push(frontend);
    }

    /// Accepts no more calls of the client at standard input, and finishes those under way, within
    /// the time of the settings.
    pub fn drain(&self) -> BoxFuture<'_, ()> {
        let drain = async move {
            self.hub.active.close();
            let time = self.hub.registry.settings().drain_time();
            drop(timeout(time, self.hub.active.finished()).await);
            // The answers are on their way to the client.
            sleep(FLUSH_TIME).await;
        };
        drain.boxed()
    }

    /// Writes the entries of the audit log so far.
    pub fn flush_audit(&self) {
        self.hub.journal.flush();
    }

    /// Stops all upstreams gracefully, and flushes the audit log.
    pub fn end(&self) -> BoxFuture<'_, ()> {
        let end = async move {
            self.stop();
            self.hub.upstreams.end().await;
            self.hub.journal.flush();
            let audit_uploader = lock(&self.audit_uploader).take();
            if let Some(audit_uploader) = audit_uploader {
                drop(
                    timeout(
                        SHUTDOWN_TIMEOUT,
                        tokio::task::spawn_blocking(|| audit_uploader.end()),
                    )
                    .await,
                );
            }
        };
        end.boxed()
    }

    fn stop(&self) {
        self.rebuild_task.abort();
        self.decision_task.abort();
        self.circuits.iter().for_each(JoinHandle::abort);
        self.hub.upstreams.stop_following();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("upstreams", &self.hub.upstreams.all())
            .finish_non_exhaustive()
    }
}
