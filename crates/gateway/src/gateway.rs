//! The gateway: upstreams on one side, clients on the other, and between them what there is now.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use picktools::Catalog;
use picktools_audit::{AuditWriter, Sending};
use picktools_import::mcp::Server;
use picktools_mcp::KeptTools;
use picktools_state::{Fault, Stamp, Store, lock};
use rmcp::serve_server;
use rmcp::transport::io::stdio_pipes;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::calls::Caller;
use crate::circuits;
use crate::decisions::Decisions;
use crate::error::GatewayError;
use crate::guests::Guests;
use crate::handler::Handler;
use crate::hub::Hub;
use crate::journal::Journal;
use crate::listener::Asks;
use crate::metrics::{Event, Meter};
use crate::naming;
use crate::pins::Pins;
use crate::queue::CallQueue;
use crate::rounds::Rounds;
use crate::sessions::Sessions;
use crate::settings::{DEFAULT_ROLE, Names, Settings, Share, UpstreamRules};
use crate::snapshot::{Sent, Snapshot};
use crate::upstream::{Environment, Listed, Owner, Upstream};

/// What comes within this time is made one snapshot of.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often is looked whether somebody approved something.
const LOOK: Duration = Duration::from_millis(500);
/// After how long it is tried again to hold what upstreams sent to what was approved.
const AGAIN: Duration = Duration::from_secs(2);
/// How long upstreams may take to end.
const END: Duration = Duration::from_secs(5);

/// What a gateway is made of.
pub struct GatewayOptions {
    /// The servers that it stands before.
    pub servers: Vec<Server>,
    /// What the operator says.
    pub settings: Settings,
    /// Tools that none of the servers has, of untrusted sources where it was read so: they can be
    /// picked, and not called.
    pub catalog: Option<Catalog>,
    /// Where programs that are started find the variables that tell of user, language and temporary
    /// files.
    pub environment: Arc<Environment>,
    /// Where what servers sent is kept, so that a list is there before they are up.
    pub kept: Option<PathBuf>,
    /// Which definitions were approved; without it all are believed.
    pub pins: Option<Pins>,
    /// Where calls wait for the operator that may do damage and come from a client that cannot ask;
    /// without it they are refused.
    pub queue: Option<CallQueue>,
    /// What is shared with other gateways besides approvals and the queue: limits of keys, servers
    /// that are left alone, sessions and the audit.
    pub store: Option<Store>,
    /// Who hears what happens.
    pub meter: Arc<dyn Meter>,
    /// Whose connections are shared where the settings say nothing: with one client all can be,
    /// with several what one does must not be seen by another.
    pub share: Share,
}

/// A way in for clients, which lets in whom the settings name.
pub trait Entrance: Send + Sync {
    /// Returns who may come in under these settings. Whose key is as it was stays who they are.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] when nobody could be let in so.
    fn guests(&self, settings: &Settings) -> Result<Guests, GatewayError>;

    /// Lets others in. Sessions of those who may not come any longer end.
    fn replace(&self, guests: Guests);
}

/// One server before many. Dropped, it ends what it started.
///
/// Its futures are boxed: what is within an `async fn` is compiled once more in each crate that
/// awaits it, and here that is nearly all.
pub struct Gateway {
    hub: Arc<Hub>,
    kept: Option<KeptTools>,
    tell: mpsc::Sender<Listed>,
    building: JoinHandle<()>,
    /// What sees the decisions of operators.
    deciding: JoinHandle<()>,
    /// What tells other gateways which servers are left alone, and hears it.
    circuits: Option<JoinHandle<()>>,
    /// What sends the audit to the store.
    sending: Mutex<Option<Sending>>,
    /// What follows each upstream.
    following: Mutex<BTreeMap<String, JoinHandle<()>>>,
    entrances: Mutex<Vec<Weak<dyn Entrance>>>,
}

/// The servers that can stand behind a gateway under these settings, by name.
fn plan(
    servers: Vec<Server>,
    settings: &Settings,
) -> Result<BTreeMap<String, (Server, UpstreamRules)>, GatewayError> {
    let mut planned = BTreeMap::new();
    for server in servers {
        let name = server.name.clone();
        let refuse = |reason: &str| GatewayError::Server {
            name: name.clone(),
            reason: reason.to_owned(),
        };
        if let Some(reason) = naming::fault(&name) {
            return Err(refuse(reason));
        }
        let rules = settings.upstream(&name);
        if planned.insert(name.clone(), (server, rules)).is_some() {
            return Err(refuse("two servers have this name; rename one of them"));
        }
    }
    if settings.names == Names::Bare && planned.len() != 1 {
        return Err(GatewayError::Settings(
            "\"names\": \"bare\" is for one server only".to_owned(),
        ));
    }
    let is_unknown = |name: &&String| *name != "*" && !planned.contains_key(*name);
    if let Some(unknown) = settings.upstreams.keys().find(is_unknown) {
        let names: Vec<&String> = planned.keys().collect();
        let message = format!("the settings speak of an upstream {unknown:?}; there are {names:?}");
        return Err(GatewayError::Settings(message));
    }
    Ok(planned)
}

impl Gateway {
    /// Starts what is to be started. Within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] when a server cannot stand behind a gateway as it is called, or the
    /// settings do not fit.
    pub fn open(options: GatewayOptions) -> Result<Self, GatewayError> {
        let GatewayOptions {
            servers,
            settings,
            catalog,
            environment,
            kept,
            pins,
            queue,
            store,
            meter,
            share,
        } = options;
        if let Some(store) = &store {
            let meter = Arc::clone(&meter);
            store.tell(Arc::new(move |purpose, fault| {
                meter.record(&Event::Store {
                    purpose: purpose.name(),
                    fault: fault.map(Fault::name),
                });
            }));
        }
        let planned = plan(servers, &settings)?;
        let failed = |error: &dyn fmt::Display| GatewayError::Audit(error.to_string());
        let mut audit = settings
            .audit
            .clone()
            .map(AuditWriter::open)
            .transpose()
            .map_err(|error| failed(&error))?;
        let mut sending = None;
        if let (Some(audit), Some(written), Some(store)) = (&mut audit, &settings.audit, &store) {
            let begun =
                Sending::begin(&written.folder, store.clone()).map_err(|error| failed(&error))?;
            audit.keep_unsent(begun.sent());
            sending = Some(begun);
        }
        if let Some(remnant) = audit.as_ref().and_then(AuditWriter::remnant) {
            let (file, bytes) = (&remnant.file, remnant.bytes);
            tracing::error!(target: "picktools::audit", %file, bytes, "half a record stood at the end, and was put aside");
        }
        let journal = Journal::open(audit).map_err(|error| failed(&error))?;
        let idle = Duration::from_secs(settings.http.session_s.max(1));
        let settings = Arc::new(settings);
        let first = Snapshot::build(Arc::clone(&settings), catalog.as_ref(), &[], None, None)
            .map_err(GatewayError::Snapshot)?
            .shared_in(store.clone());
        let hub = Arc::new(Hub {
            upstreams: RwLock::default(),
            settings: RwLock::new(settings),
            catalog: RwLock::new(catalog),
            replaced: Notify::new(),
            snapshot: watch::Sender::new(Arc::new(first)),
            complete: watch::Sender::new(planned.is_empty()),
            live: watch::Sender::default(),
            rounds: Rounds::default(),
            queue,
            sessions: store
                .clone()
                .filter(|_| share == Share::Owner)
                .map(|store| Sessions::new(store, idle)),
            store: store.clone(),
            pins: pins.clone(),
            share,
            meter,
            journal,
            environment,
        });
        hub.journal.changed(&hub.snapshot());
        let decisions = Decisions::new(pins.clone(), hub.queue.clone());
        let (tell, heard) = mpsc::channel(64);
        let gateway = Self {
            building: tokio::spawn(build(Arc::clone(&hub), pins, heard)),
            deciding: tokio::spawn(decisions.follow(Arc::clone(&hub))),
            circuits: store.map(|store| tokio::spawn(circuits::follow(Arc::clone(&hub), store))),
            kept: kept.map(KeptTools::new),
            sending: Mutex::new(sending),
            tell,
            following: Mutex::default(),
            entrances: Mutex::default(),
            hub,
        };
        gateway.replace_upstreams(planned);
        Ok(gateway)
    }

    /// Takes other servers, settings and tools of the operator's own. Servers that stay as they are
    /// keep their connections, and clients their sessions; calls under way come to their end. A
    /// session keeps the mode that it has.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] when they cannot be used: nothing is changed then.
    pub fn reload(
        &self,
        servers: Vec<Server>,
        settings: Settings,
        catalog: Option<Catalog>,
    ) -> Result<(), GatewayError> {
        let planned = plan(servers, &settings)?;
        if settings.audit != self.hub.settings().audit {
            let message =
                "`audit` holds from start to end; start the gateway again where it is to change";
            return Err(GatewayError::Settings(message.to_owned()));
        }
        let entrances: Vec<Arc<dyn Entrance>> = lock(&self.entrances)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let opened = entrances
            .iter()
            .map(|entrance| entrance.guests(&settings))
            .collect::<Result<Vec<_>, _>>()?;
        for (entrance, guests) in entrances.iter().zip(opened) {
            entrance.replace(guests);
        }
        *self
            .hub
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        *self
            .hub
            .catalog
            .write()
            .unwrap_or_else(PoisonError::into_inner) = catalog;
        self.replace_upstreams(planned);
        self.hub.replaced.notify_one();
        Ok(())
    }

    /// Starts to follow upstreams that are new or not as they were, and lets go of others.
    fn replace_upstreams(&self, planned: BTreeMap<String, (Server, UpstreamRules)>) {
        // With one client there is no doubt who is asked.
        let is_one = self.hub.share == Share::All;
        let asks = Asks {
            person: is_one,
            model: is_one,
        };
        let mut upstreams = self
            .hub
            .upstreams
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut following = lock(&self.following);
        let mut kept = BTreeMap::new();
        for (name, (server, rules)) in planned {
            let same = upstreams
                .get(&name)
                .filter(|upstream| upstream.server == server && upstream.rules == rules);
            if let Some(same) = same {
                kept.insert(name, Arc::clone(same));
                continue;
            }
            let upstream = Upstream::new(
                server,
                rules,
                Arc::clone(&self.hub.environment),
                asks,
                Arc::clone(&self.hub.meter),
            );
            self.hub.live.send_modify(|live| drop(live.remove(&name)));
            let task =
                tokio::spawn(Arc::clone(&upstream).follow(self.kept.clone(), self.tell.clone()));
            if let Some(before) = following.insert(name.clone(), task) {
                before.abort();
            }
            kept.insert(name, upstream);
        }
        let before = std::mem::replace(&mut *upstreams, kept);
        for (name, upstream) in before {
            if upstreams
                .get(&name)
                .is_some_and(|now| Arc::ptr_eq(now, &upstream))
            {
                continue;
            }
            if !upstreams.contains_key(&name)
                && let Some(task) = following.remove(&name)
            {
                task.abort();
            }
            drop(tokio::spawn(async move { upstream.retire().await }));
        }
    }

    /// Serves the client at standard input and output, until it goes.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`] when it says what cannot be understood before hands are shaken.
    pub fn serve_stdio(&self) -> BoxFuture<'_, Result<(), GatewayError>> {
        let caller = Caller {
            role: DEFAULT_ROLE.into(),
            key: "client".into(),
            owner: Owner("client".into()),
        };
        let handler = Handler::new(Arc::clone(&self.hub), caller);
        let serve = async move {
            let failed = |error: &dyn fmt::Display| GatewayError::Client(error.to_string());
            let service = serve_server(handler, stdio_pipes())
                .await
                .map_err(|error| failed(&error))?;
            service.waiting().await.map_err(|error| failed(&error))?;
            Ok(())
        };
        serve.boxed()
    }

    /// Returns what its clients share.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Has a way in follow the settings, as long as it is there.
    pub fn add_entrance(&self, entrance: Weak<dyn Entrance>) {
        lock(&self.entrances).push(entrance);
    }

    /// Ends all upstreams in good order.
    pub fn end(self) -> BoxFuture<'static, ()> {
        let end = async move {
            self.stop();
            let upstreams = self.hub.upstreams();
            drop(
                timeout(
                    END,
                    join_all(upstreams.iter().map(|upstream| upstream.end())),
                )
                .await,
            );
            self.hub.journal.flush();
            let sending = lock(&self.sending).take();
            if let Some(sending) = sending {
                drop(timeout(END, tokio::task::spawn_blocking(|| sending.end())).await);
            }
        };
        end.boxed()
    }

    fn stop(&self) {
        self.building.abort();
        self.deciding.abort();
        self.circuits.iter().for_each(JoinHandle::abort);
        lock(&self.following).values().for_each(JoinHandle::abort);
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
            .field("upstreams", &self.hub.upstreams())
            .finish_non_exhaustive()
    }
}

/// What was heard of upstreams.
#[derive(Default)]
struct HeardOf {
    tools: BTreeMap<String, Vec<Value>>,
    /// Those that have said something, if only that they cannot be reached.
    said: BTreeSet<String>,
    /// What those said that were asked, that they have tools or why not, until that is held to what
    /// was approved.
    live: BTreeMap<String, Result<(), String>>,
}

impl HeardOf {
    fn note(
        &mut self,
        Listed {
            upstream,
            listing,
            is_live,
        }: Listed,
    ) {
        if is_live {
            self.live.insert(
                upstream.clone(),
                listing.as_ref().map(|_| ()).map_err(Clone::clone),
            );
        }
        let reason = match listing {
            Ok(listing) => {
                self.tools.insert(upstream.clone(), listing.tools);
                listing.incomplete
            }
            Err(reason) => Some(reason),
        };
        if let Some(reason) = &reason {
            tracing::warn!(target: "picktools::gateway", %upstream, %reason, "tools are missing");
        }
        self.said.insert(upstream);
    }

    /// Tells what those said that were asked, or why it could not be held to what was approved.
    fn tell(&mut self, hub: &Hub, failed: Option<&String>) {
        if self.live.is_empty() {
            return;
        }
        hub.live.send_modify(|known| {
            for (upstream, said) in &self.live {
                match failed {
                    Some(message) => drop(known.insert(upstream.clone(), Err(message.clone()))),
                    // Once it was asked, what it has is known, and a call finds out whether it is
                    // there.
                    None if known.get(upstream) == Some(&Ok(())) => {}
                    None => drop(known.insert(upstream.clone(), said.clone())),
                }
            }
        });
        if failed.is_none() {
            self.live.clear();
        }
    }
}

/// By what is told that somebody approved something. Finding out may wait for a store.
async fn stamp_of(pins: &Option<Pins>) -> Option<Stamp> {
    let pins = pins.clone()?;
    tokio::task::spawn_blocking(move || pins.stamp()).await.ok()
}

/// Makes a new snapshot whenever an upstream sent something else, or something was approved.
async fn build(hub: Arc<Hub>, pins: Option<Pins>, mut heard: mpsc::Receiver<Listed>) {
    let mut heard_of = HeardOf::default();
    let mut stamp = stamp_of(&pins).await;
    // When it was last tried, and why that failed.
    let (mut tried, mut fault): (Instant, Option<String>) = (Instant::now(), None);
    loop {
        let mut news = Vec::new();
        tokio::select! {
            listed = heard.recv() => match listed {
                Some(listed) => news.push(listed),
                None => return,
            },
            () = hub.replaced.notified() => {}
            () = sleep(LOOK), if pins.is_some() => {
                let now = stamp_of(&pins).await;
                // What failed is tried again, as a store that was away may be there.
                if now == stamp && (fault.is_none() || tried.elapsed() < AGAIN) {
                    continue;
                }
                stamp = now;
            }
        }
        while let Ok(Some(more)) = timeout(TOGETHER, heard.recv()).await {
            news.push(more);
        }
        news.into_iter().for_each(|listed| heard_of.note(listed));
        let upstreams = hub.upstreams();
        let sent = upstreams.iter().filter_map(|upstream| {
            let tools = heard_of.tools.get(&upstream.server.name)?.clone();
            Some(Sent {
                server: upstream.server.clone(),
                rules: upstream.rules,
                tools,
            })
        });
        let sent: Vec<Sent> = sent.collect();
        let (settings, own, pins_of_build, store) = (
            hub.settings(),
            hub.catalog(),
            pins.clone(),
            hub.store.clone(),
        );
        let before = Arc::clone(&hub.snapshot.borrow());
        let built = tokio::task::spawn_blocking(move || {
            Snapshot::build(
                settings,
                own.as_ref(),
                &sent,
                pins_of_build.as_ref(),
                Some(&before.engine),
            )
            .map(|snapshot| snapshot.shared_in(store))
        });
        let built = built.await;
        tried = Instant::now();
        let failed = match built {
            Ok(Ok(snapshot)) => {
                // Written by this, they need not be read again; written by others meanwhile, they
                // must be.
                stamp.clone_from(&snapshot.approvals);
                let snapshot = Arc::new(snapshot);
                hub.journal.changed(&snapshot);
                drop(hub.snapshot.send_replace(snapshot));
                None
            }
            Ok(Err(message)) => Some(message),
            Err(error) => Some(error.to_string()),
        };
        if let Some(message) = failed
            .as_ref()
            .filter(|message| fault.as_ref() != Some(message))
        {
            tracing::error!(target: "picktools::gateway", %message, "what there was stays");
        }
        heard_of.tell(&hub, failed.as_ref());
        fault = failed;
        if upstreams
            .iter()
            .all(|upstream| heard_of.said.contains(&upstream.server.name))
        {
            hub.complete.send_replace(true);
        }
    }
}
