//! The gateway: upstreams on one side, clients on the other, and between them what there is now.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use picktools::import::mcp::{KeptTools, Server};
use rmcp::serve_server;
use rmcp::transport::io::stdio_pipes;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::error::GatewayError;
use crate::handler::{Caller, Handler};
use crate::http::{self, Http};
use crate::hub::Hub;
use crate::listener::Asks;
use crate::naming;
use crate::pins::Pins;
use crate::rounds::Rounds;
use crate::settings::{DEFAULT_ROLE, Names, Settings, Share};
use crate::snapshot::{Sent, Snapshot};
use crate::upstream::{Environment, Listed, Owner, Upstream};

/// What comes within this time is made one snapshot of.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often is looked whether somebody approved something.
const LOOK: Duration = Duration::from_secs(1);
/// How long upstreams may take to end.
const END: Duration = Duration::from_secs(5);

/// What a gateway is made of.
pub struct GatewayOptions {
    /// The servers that it stands before.
    pub servers: Vec<Server>,
    /// What the operator says.
    pub settings: Settings,
    /// Where programs that are started find the variables that tell of user, language and temporary files.
    pub environment: Arc<Environment>,
    /// Where what servers sent is kept, so that a list is there before they are up.
    pub kept: Option<PathBuf>,
    /// Which definitions were approved; without it all are believed.
    pub pins: Option<Pins>,
    /// Whose connections are shared where the settings say nothing: with one client all can be, with several what one does
    /// must not be seen by another.
    pub share: Share,
}

/// A gateway that serves over HTTP, until this is dropped.
pub struct Serving(http::Listening);

impl Serving {
    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Waits until it can serve no longer.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`], why.
    pub async fn ended(&mut self) -> Result<(), GatewayError> {
        self.0.ended().await
    }
}

/// One server before many. Dropped, it ends what it started.
pub struct Gateway {
    hub: Arc<Hub>,
    settings: Arc<Settings>,
    tasks: Vec<JoinHandle<()>>,
}

impl Gateway {
    /// Starts what is to be started. Within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] when a server cannot stand behind a gateway as it is called, or the settings do not fit.
    pub fn open(options: GatewayOptions) -> Result<Self, GatewayError> {
        let GatewayOptions { servers, settings, environment, kept, pins, share } = options;
        // With one client there is no doubt who is asked.
        let asks = Asks { person: share == Share::All, model: share == Share::All };
        let mut upstreams: BTreeMap<String, Arc<Upstream>> = BTreeMap::new();
        for server in servers {
            let name = server.name.clone();
            let refuse = |reason: &str| GatewayError::Server { name: name.clone(), reason: reason.to_owned() };
            if let Some(reason) = naming::fault(&name) {
                return Err(refuse(reason));
            }
            let rules = settings.upstream(&name);
            let upstream = Upstream::new(server, rules, Arc::clone(&environment), asks);
            if upstreams.insert(name.clone(), upstream).is_some() {
                return Err(refuse("two servers have this name; rename one of them"));
            }
        }
        if settings.names == Names::Bare && upstreams.len() != 1 {
            return Err(GatewayError::Settings("\"names\": \"bare\" is for one server only".to_owned()));
        }
        let known = |name: &&String| *name != "*" && !upstreams.contains_key(*name);
        if let Some(unknown) = settings.upstreams.keys().find(known) {
            let names: Vec<&String> = upstreams.keys().collect();
            let message = format!("the settings speak of an upstream {unknown:?}; there are {names:?}");
            return Err(GatewayError::Settings(message));
        }
        let settings = Arc::new(settings);
        let first = Snapshot::build(Arc::clone(&settings), &[], None).map_err(GatewayError::Snapshot)?;
        let names: Vec<&str> = upstreams.keys().map(String::as_str).collect();
        let hub = Arc::new(Hub {
            instructions: instructions(&names),
            snapshot: watch::Sender::new(Arc::new(first)),
            complete: watch::Sender::new(upstreams.is_empty()),
            live: watch::Sender::default(),
            rounds: Rounds::default(),
            share,
            upstreams,
        });
        let (tell, heard) = mpsc::channel(64);
        let kept = kept.map(KeptTools::new);
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();
        for upstream in hub.upstreams.values() {
            tasks.push(tokio::spawn(Arc::clone(upstream).follow(kept.clone(), tell.clone())));
        }
        tasks.push(tokio::spawn(build(Arc::clone(&hub), Arc::clone(&settings), pins, heard)));
        Ok(Self { hub, settings, tasks })
    }

    /// Serves the client at standard input and output, until it goes.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Client`] when it says what cannot be understood before hands are shaken.
    pub async fn serve_stdio(&self) -> Result<(), GatewayError> {
        let caller = Caller { role: DEFAULT_ROLE.into(), owner: Owner("client".into()) };
        let handler = Handler::new(Arc::clone(&self.hub), caller);
        let failed = |error: &dyn fmt::Display| GatewayError::Client(error.to_string());
        let service = serve_server(handler, stdio_pipes()).await.map_err(|error| failed(&error))?;
        service.waiting().await.map_err(|error| failed(&error))?;
        Ok(())
    }

    /// Serves clients over HTTP, until it is dropped.
    ///
    /// # Errors
    ///
    /// [`GatewayError`] when the address cannot be listened on, or may not be as the settings are.
    pub async fn serve_http(&self, http: &Http) -> Result<Serving, GatewayError> {
        Ok(Serving(http::listen(&self.hub, &self.settings, http).await?))
    }

    /// Ends all upstreams in good order.
    pub async fn end(mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
        let ends = self.hub.upstreams.values().map(|upstream| upstream.end());
        drop(timeout(END, futures_util::future::join_all(ends)).await);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("upstreams", &self.hub.upstreams.keys()).finish_non_exhaustive()
    }
}

/// Makes a new snapshot whenever an upstream sent something else, or something was approved.
async fn build(hub: Arc<Hub>, settings: Arc<Settings>, pins: Option<Pins>, mut heard: mpsc::Receiver<Listed>) {
    let mut tools: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut said: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut stamp = pins.as_ref().and_then(stamp_of);
    loop {
        let mut news = Vec::new();
        tokio::select! {
            listed = heard.recv() => match listed {
                Some(listed) => news.push(listed),
                None => return,
            },
            () = sleep(LOOK), if pins.is_some() => {
                let now = pins.as_ref().and_then(stamp_of);
                if now == stamp {
                    continue;
                }
                stamp = now;
            }
        }
        while let Ok(Some(more)) = timeout(TOGETHER, heard.recv()).await {
            news.push(more);
        }
        let mut live = Vec::new();
        for Listed { upstream, listing, is_live } in news {
            if is_live {
                live.push((upstream.clone(), listing.as_ref().map(|_| ()).map_err(Clone::clone)));
            }
            let reason = match listing {
                Ok(listing) => {
                    tools.insert(upstream.clone(), listing.tools);
                    listing.incomplete
                }
                Err(reason) => Some(reason),
            };
            if let Some(reason) = &reason {
                tracing::warn!(target: "picktools::gateway", %upstream, %reason, "tools are missing");
            }
            said.insert(upstream, reason);
        }
        let sent = hub.upstreams.values().filter_map(|upstream| {
            let tools = tools.get(&upstream.server.name)?.clone();
            Some(Sent { server: upstream.server.clone(), rules: upstream.rules, tools })
        });
        let sent: Vec<Sent> = sent.collect();
        let (settings, pins_of_build) = (Arc::clone(&settings), pins.clone());
        let built = tokio::task::spawn_blocking(move || Snapshot::build(settings, &sent, pins_of_build.as_ref())).await;
        match built {
            Ok(Ok(snapshot)) => {
                // Written by this, it need not be read again.
                stamp = pins.as_ref().and_then(stamp_of);
                drop(hub.snapshot.send_replace(Arc::new(snapshot)));
            }
            Ok(Err(message)) => tracing::error!(target: "picktools::gateway", %message, "what there was stays"),
            Err(error) => tracing::error!(target: "picktools::gateway", %error, "what there was stays"),
        }
        if !live.is_empty() {
            hub.live.send_modify(|known| {
                for (upstream, said) in live {
                    // Once it was asked, what it has is known, and a call finds out whether it is there.
                    if known.get(&upstream) != Some(&Ok(())) {
                        known.insert(upstream, said);
                    }
                }
            });
        }
        if said.len() == hub.upstreams.len() {
            hub.complete.send_replace(true);
        }
    }
}

/// By what is told that a file has changed.
fn stamp_of(pins: &Pins) -> Option<(std::time::SystemTime, u64)> {
    let metadata = std::fs::metadata(pins.path()).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// What a model is told of the gateway. What upstreams say of themselves is not passed on: nobody has approved it.
fn instructions(names: &[&str]) -> String {
    let mut named = names.iter().take(20).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 20 {
        named.push_str(&format!(" and {} more", names.len() - 20));
    }
    let servers = if names.len() == 1 { "server" } else { "servers" };
    format!(
        "Tools of {} {servers}: {named}. Where search_tools is listed, find tools with it by what you want to do, and run \
         them with call_tool. Not carried: roots, tasks, subscriptions to resources.",
        names.len()
    )
}
