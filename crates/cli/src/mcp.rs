//! `picktools mcp`: the gateway for one client, on standard input and output.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use clap::Args;
use picktools::Catalog;
use picktools::catalog::NoSchemaMode;
use picktools_audit::AuditSettings;
use picktools_call::Repairer;
use picktools_gateway::settings::{Mode, ProviderSettings, ProxySettings, Role, Share, Unsafe};
use picktools_gateway::{CallQueue, Counters, Gateway, GatewayOptions, Pins, Settings};
use picktools_import::mcp::Configuration;
use picktools_state::{FileChanges, StateChanges, StateLocation, StateStore, StoreFault};
use picktools_store::{RedisStore, SharedCatalog, SnapshotStatus, StoreError};
use tokio::sync::Notify;

use crate::interruption::{SignalRequest, Signals};
use crate::llm::RepairArgs;
use crate::reading::{self, ReadingArgs};
use crate::recorded_reading::{NoSchemaArg, aliases_file};
use crate::servers::ServerArgs;
use crate::store_args::StoreArgs;
use crate::{args, heading, memory, output};

/// Changes of files within this time become one reload.
const BATCH_WINDOW: Duration = Duration::from_millis(200);
/// The pause before a store that failed is asked for a new snapshot again.
const STORE_BACKOFF: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  picktools mcp --config .mcp.json
  picktools mcp --mode search -- npx -y @modelcontextprotocol/server-memory";

/// Run the MCP gateway on standard input and output.
///
/// One client connects to the gateway, which forwards to many MCP servers. The client sees all
/// tools if they are few, and otherwise three tools to search, describe and call them (see --mode).
/// docs/how-to/run-the-gateway.md describes the gateway. `picktools init` configures your clients
/// to start it.
#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct McpCommand {
    #[command(flatten)]
    servers: ServerArgs,
    #[command(flatten)]
    gateway: GatewayArgs,
    /// Alias file, or `ecosystem` for well-known names.
    ///
    /// The file is a JSON object from aliases to tools, such as {"bash": "terminalRun"}. An alias of
    /// a tool that no server has is reported and left out. `ecosystem` contains the names that
    /// skills and models use for the usual tools of agents, such as `bash` and `read_file`.
    #[arg(long, value_name = "FILE|ecosystem", help_heading = heading::GATEWAY)]
    aliases: Option<PathBuf>,
    /// Accept tools of servers without a schema of their arguments, in this mode.
    ///
    /// The mode says how such a tool may be called: its calls cannot be validated. By default a tool
    /// without a schema is left out.
    #[arg(long, value_enum, value_name = "MODE", help_heading = heading::GATEWAY)]
    allow_no_schema: Option<NoSchemaArg>,
}

/// The options of a gateway.
#[derive(Args)]
pub(super) struct GatewayArgs {
    /// Settings file of the gateway.
    ///
    /// It sets roles, the keys of HTTP clients, and options of the gateway and of each server
    /// (docs/reference/settings.md). Options of the command line take precedence.
    #[arg(long, value_name = "FILE", help_heading = heading::GATEWAY)]
    settings: Option<PathBuf>,
    /// Tools that the client sees [default: auto].
    ///
    /// `pass-through` lists all tools. `search` lists three tools: search_tools, describe_tool and
    /// call_tool. `dynamic` lists these three, and adds each tool that the client finds, describes
    /// or calls. `auto` lists all tools if their definitions have at most 4,000 tokens (setting
    /// `pass_through_tokens`), and otherwise these three.
    #[arg(long, value_name = "MODE", value_parser = ["auto", "search", "dynamic", "pass-through"],
        help_heading = heading::GATEWAY)]
    mode: Option<String>,
    /// Treatment of unsafe tools [default: confirm].
    ///
    /// A tool is unsafe if it is marked `safe: false` or `destructiveHint: true`. `deny` hides
    /// unsafe tools, `confirm` asks a person before each call, `allow` runs the calls. If given,
    /// the option replaces `unsafe` of the role `default` in the settings. Callers without another
    /// role have this role.
    #[arg(long = "unsafe", value_name = "WHAT", value_parser = ["deny", "confirm", "allow"],
        help_heading = heading::GATEWAY)]
    marked_unsafe: Option<String>,
    #[command(flatten)]
    repair: RepairArgs,
    /// Time that lists and searches wait for servers that are starting, in seconds.
    ///
    /// It begins with the start of the gateway. Tools of slower servers arrive later, and clients are
    /// notified.
    #[arg(long, value_name = "SECONDS", default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(..=600), help_heading = heading::GATEWAY)]
    list_wait: u64,
    /// Folder for approved definitions and pending calls, in its subfolder `gateway`.
    ///
    /// The default is the data folder of picktools, such as ~/.local/share/picktools on Linux. With
    /// --store, these are in the store, and the folder keeps what the gateway saw there last.
    #[arg(long, value_name = "FOLDER", help_heading = heading::GATEWAY)]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// The catalog in the store.
    #[arg(skip)]
    published: Box<std::cell::RefCell<PublishedCatalog>>,
    /// Write the audit log to this folder.
    ///
    /// docs/how-to/audit-and-replay.md describes it. Each gateway needs a folder of its own. While
    /// the log cannot be written, nothing is picked or run.
    #[arg(long, value_name = "FOLDER", help_heading = heading::GATEWAY)]
    audit: Option<PathBuf>,
    /// The alias file, or `ecosystem`.
    #[arg(skip)]
    pub(super) aliases: Option<PathBuf>,
    /// The mode of servers' tools without a schema, if the command line sets it.
    #[arg(skip)]
    pub(super) allow_no_schema: Option<NoSchemaMode>,
    #[arg(skip)]
    pub(super) providers: Providers,
    /// The tools that no server has.
    #[arg(skip)]
    pub(super) catalog: Option<CatalogFiles>,
}

/// The state of a catalog in a store.
#[derive(Default)]
struct PublishedCatalog {
    /// The store, with connections that stay open.
    store: Option<RedisStore>,
    /// The catalog, or `None` if nothing was published yet.
    catalog: Option<SharedCatalog>,
    /// The gateways' store, which receives faults of the catalog.
    gateways: Option<StateStore>,
    /// `true` while the catalog cannot be followed.
    fails: bool,
}

impl PublishedCatalog {
    /// Loads the latest snapshot.
    fn follow(&mut self, args: &StoreArgs) -> anyhow::Result<()> {
        if self.store.is_none() {
            self.store = args.catalog_store()?;
        }
        match (&mut self.catalog, &self.store) {
            (Some(catalog), _) => drop(catalog.follow()?),
            (None, Some(store)) => match SharedCatalog::open(store.clone()) {
                Ok(catalog) => self.catalog = Some(catalog),
                Err(StoreError::Empty { .. }) => {}
                Err(error) => return Err(error.into()),
            },
            (None, None) => {}
        }
        Ok(())
    }
}

/// The files of a catalog, and their reading options.
pub(super) struct CatalogFiles {
    pub(super) paths: Vec<PathBuf>,
    pub(super) reading: ReadingArgs,
}

impl CatalogFiles {
    fn open(&self) -> anyhow::Result<Catalog> {
        self.reading.open(&self.paths)
    }

    /// Returns the files that may change, including those of folders.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in &self.paths {
            // Entries that cannot be read are skipped.
            for entry in walkdir::WalkDir::new(path)
                .max_depth(1)
                .into_iter()
                .flatten()
            {
                let path = entry.into_path();
                if path.is_file() {
                    files.push(path);
                }
            }
        }
        files
    }
}

/// The URLs of model providers from the command line.
#[derive(Debug, Clone, Default)]
pub(super) struct Providers {
    pub(super) openai: Option<String>,
    pub(super) anthropic: Option<String>,
}

impl Providers {
    /// Sets the URLs in the settings. Other settings of a provider stay.
    fn set(&self, proxy: &mut ProxySettings) {
        let urls = [
            (&self.openai, &mut proxy.openai),
            (&self.anthropic, &mut proxy.anthropic),
        ];
        for (url, provider) in urls {
            let Some(url) = url else { continue };
            match provider {
                Some(provider) => provider.url.clone_from(url),
                None => *provider = Some(ProviderSettings::new(url)),
            }
        }
    }
}

/// Reads a settings file.
pub(super) fn read_settings(path: &Path) -> anyhow::Result<Settings> {
    let text = String::from_utf8(reading::read_input(path)?)
        .context("the settings are not valid UTF-8")?;
    Settings::parse(&text).with_context(|| format!("{}", path.display()))
}

/// Returns the folder of a gateway's state.
pub(super) fn state_folder(folder: Option<&Path>) -> anyhow::Result<PathBuf> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => args::data_dir()?,
    };
    Ok(folder.join("gateway"))
}

/// Opens the approvals and the pending calls, in the store or else in a folder.
pub(super) fn approvals(
    store: Option<&StateStore>,
    folder: &Path,
) -> anyhow::Result<(Pins, CallQueue)> {
    Ok(match store {
        Some(store) => (Pins::from_store(store)?, CallQueue::from_store(store)?),
        None => (Pins::open(folder)?, CallQueue::open(folder)?),
    })
}

/// Returns the servers of a gateway. A gateway with a catalog or a model proxy needs none.
fn configuration(
    servers: &ServerArgs,
    settings: &Settings,
    has_catalog: bool,
) -> anyhow::Result<Configuration> {
    let has_models = settings.proxy.openai.is_some() || settings.proxy.anthropic.is_some();
    if (has_models || has_catalog) && !servers.are_named() {
        return Ok(Configuration::default());
    }
    let configuration = servers.configuration()?;
    output::warnings(&configuration.faults, "");
    output::warnings(&configuration.warnings, "");
    Ok(configuration)
}

impl GatewayArgs {
    /// Returns the settings of the operator: the file and the command line.
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = match &self.settings {
            Some(path) => read_settings(path)?,
            None => Settings::default(),
        };
        if let Some(mode) = &self.mode {
            settings.mode = match mode.as_str() {
                "search" => Mode::Search,
                "dynamic" => Mode::Dynamic,
                "pass-through" => Mode::PassThrough,
                _ => Mode::Auto,
            };
        }
        if let Some(treatment) = &self.marked_unsafe {
            let role: &mut Role = settings
                .roles
                .entry(picktools_gateway::settings::DEFAULT_ROLE.to_owned())
                .or_default();
            role.marked_unsafe = match treatment.as_str() {
                "deny" => Unsafe::Deny,
                "allow" => Unsafe::Allow,
                _ => Unsafe::Confirm,
            };
        }
        if let Some(folder) = &self.audit {
            match &mut settings.audit {
                Some(audit) => audit.folder.clone_from(folder),
                None => settings.audit = Some(AuditSettings::new(folder)),
            }
        }
        if let Some(argument) = &self.aliases {
            settings.aliases = Some(reading::open_aliases(argument)?);
        }
        settings.allow_no_schema = self.allow_no_schema.or(settings.allow_no_schema);
        self.providers.set(&mut settings.proxy);
        settings.check()?;
        Ok(settings)
    }

    /// Returns the options of a gateway in front of these servers.
    pub(super) fn options(
        &self,
        servers: &ServerArgs,
        share: Share,
    ) -> anyhow::Result<GatewayOptions> {
        let settings = self.settings()?;
        let catalog = self.own_tools()?;
        let lacks_all = self.store.is_named() && catalog.is_none() && !servers.are_named();
        let configuration = configuration(servers, &settings, catalog.is_some());
        let configuration = configuration.map_err(|error| match lacks_all {
            true => error.context(
                "the store has no catalog (publish one with `picktools index --store`), and no MCP \
                 server is named",
            ),
            false => error,
        })?;
        let state = state_folder(self.state_dir.as_deref())?;
        let store = self.store.open()?.map(|store| store.with_memory(&state));
        {
            self.published.borrow_mut().gateways.clone_from(&store);
        }
        let (pins, queue) = approvals(store.as_ref(), &state)?;
        let repairer = self.repair.repairer()?;
        let repairer = repairer.map(|repairer| Arc::new(repairer) as Arc<dyn Repairer>);
        Ok(GatewayOptions {
            servers: configuration.servers,
            settings,
            catalog,
            environment: Arc::new(|name: &str| std::env::var_os(name)),
            tool_cache: args::default_cache_dir().map(|folder| folder.join("mcp")),
            share,
            list_wait: Duration::from_secs(self.list_wait),
            meter: Arc::new(Counters::default()),
            pins: Some(pins),
            repairer,
            queue: Some(queue),
            store,
            on_snapshot: Arc::new(memory::release),
        })
    }
}

impl GatewayArgs {
    /// Waits for the end of `serving`, and reloads the gateway after SIGHUP and changes of its files.
    /// Returns `None` at a signal that ends the gateway.
    pub(super) async fn run_until_stopped<F: Future + Unpin>(
        &self,
        servers: &ServerArgs,
        gateway: &Gateway,
        signals: &mut Signals,
        serving: F,
    ) -> Option<F::Output> {
        let reload_request = Notify::new();
        let stopped = async {
            loop {
                match signals.next().await {
                    SignalRequest::Stop => return,
                    SignalRequest::Reload => reload_request.notify_one(),
                }
            }
        };
        tokio::select! {
            result = serving => Some(result),
            () = stopped => {
                output::note("stopping: waiting for running calls; send the signal again to stop at once");
                None
            }
            () = self.follow_files(servers, gateway, &reload_request) => None,
        }
    }

    /// Follows the files of a gateway, and reloads it after a change.
    ///
    /// Also reloads it at each `reload_request`.
    async fn follow_files(&self, servers: &ServerArgs, gateway: &Gateway, reload_request: &Notify) {
        let mut files = Vec::new();
        for path in servers.files().iter().chain(&self.settings) {
            if path.is_file() {
                files.push(path.as_path());
            }
        }
        files.extend(self.aliases.as_deref().and_then(aliases_file));
        let read_state = || self.read_state(&files);
        let follow_store = || tokio::task::block_in_place(|| self.follow_store());
        // Changes after this point are reported.
        let mut file_changes = FileChanges::watch(self.watched_paths(&files));
        let mut store_changes = StateChanges::watch(self.published_location());
        let (mut last, mut last_published) = (read_state(), follow_store());
        let mut last_store_check = Instant::now();
        loop {
            let is_requested = tokio::select! {
                () = file_changes.changed() => {
                    // A file may be written in several steps.
                    tokio::time::sleep(BATCH_WINDOW).await;
                    false
                }
                () = store_changes.changed() => false,
                () = reload_request.notified() => true,
            };
            let is_backing_off =
                !self.store_answers() && last_store_check.elapsed() < STORE_BACKOFF;
            let published = if is_requested || !is_backing_off {
                last_store_check = Instant::now();
                follow_store()
            } else {
                last_published.clone()
            };
            let current = read_state();
            if !is_requested && current == last && published == last_published {
                continue;
            }
            match self.reload(servers, gateway) {
                Ok(()) => output::note("reloaded the configuration"),
                Err(error) => output::warn(format!(
                    "cannot reload the configuration: {error:#}; the previous one stays in use"
                )),
            }
            (last, last_published) = (current, published);
        }
    }

    /// Returns the files and folders whose changes are reported: these files, and those of the
    /// catalog.
    fn watched_paths(&self, files: &[&Path]) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = files.iter().map(|path| path.to_path_buf()).collect();
        paths.extend(
            self.catalog
                .iter()
                .flat_map(|catalog| catalog.paths.clone()),
        );
        paths
    }

    /// Returns the store whose catalog is served, if one is.
    fn published_location(&self) -> Option<StateLocation> {
        if self.catalog.is_some() {
            return None;
        }
        let store = self.published.borrow().gateways.clone();
        store.map(StateLocation::Store)
    }

    /// Returns the contents of these files, and the states of the catalog's files.
    fn read_state(&self, files: &[&Path]) -> WatchedFiles {
        let mut state = WatchedFiles::default();
        for path in files {
            state.contents.push(std::fs::read(path).ok());
        }
        if let Some(catalog) = &self.catalog {
            for path in catalog.files() {
                state.catalog.push((stamp(&path), path));
            }
        }
        state
    }

    /// Reads the settings, the catalog and the servers again, and applies them.
    fn reload(&self, servers: &ServerArgs, gateway: &Gateway) -> anyhow::Result<()> {
        let settings = self.settings()?;
        let catalog = self.own_tools()?;
        let configuration = configuration(servers, &settings, catalog.is_some())?;
        Ok(gateway.reload(configuration.servers, settings, catalog)?)
    }

    /// Returns the tools that no server has: those of files, or else those of the store.
    fn own_tools(&self) -> anyhow::Result<Option<Catalog>> {
        if let Some(files) = &self.catalog {
            return Ok(Some(files.open()?));
        }
        let mut published = self.published.borrow_mut();
        if published.catalog.is_none() {
            published.follow(&self.store)?;
        }
        let catalog = published.catalog.as_ref();
        Ok(catalog.map(|shared| shared.catalog().clone()))
    }

    /// Loads the latest snapshot of the store, and returns the identity of the snapshot in use.
    /// Reports when a fault of the store begins.
    ///
    /// The version is not enough: it starts again at 1 in a store that was emptied.
    fn follow_store(&self) -> Option<SnapshotStatus> {
        if self.catalog.is_some() {
            return None;
        }
        let mut published = self.published.borrow_mut();
        let fault = match published.follow(&self.store) {
            Ok(()) => None,
            Err(error) => Some(describe_fault(&error)),
        };
        published.fails = fault.is_some();
        if let Some(gateways) = &published.gateways {
            gateways.report_catalog_fault(fault);
        }
        let shared = published.catalog.as_ref()?;
        Some(shared.snapshot())
    }

    /// Returns `true` if the store answered the last check.
    fn store_answers(&self) -> bool {
        !self.published.borrow().fails
    }
}

/// Returns the kind of a failure to follow the catalog of a store, and its message.
fn describe_fault(error: &anyhow::Error) -> (StoreFault, String) {
    let fault = match error.downcast_ref::<StoreError>() {
        Some(StoreError::Empty { .. }) => StoreFault::RolledBack,
        Some(StoreError::Damaged { .. }) => StoreFault::Foreign,
        _ => StoreFault::Unreachable,
    };
    let message = format!("cannot follow the catalog: {error:#}; the previous one stays in use");
    (fault, message)
}

/// The state of the files of a gateway, which shows a change.
#[derive(Clone, Default, PartialEq)]
struct WatchedFiles {
    /// The contents of the settings and of the configurations; `None` if one cannot be read.
    contents: Vec<Option<Vec<u8>>>,
    /// The files of the catalog.
    catalog: Vec<(Option<(SystemTime, u64)>, PathBuf)>,
}

/// Returns the modification time and size of a file, which show a change.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl McpCommand {
    pub(super) fn run(mut self) -> anyhow::Result<ExitCode> {
        memory::use_small_pages();
        memory::return_free_pages();
        self.gateway.aliases = self.aliases.take();
        self.gateway.allow_no_schema = self.allow_no_schema.map(NoSchemaArg::mode);
        let options = self.gateway.options(&self.servers, Share::All)?;
        let runtime = gateway_runtime()?;
        let result = runtime.block_on(async {
            let mut signals = Signals::listen();
            let gateway = Gateway::open(options)?;
            let mut serving = gateway.serve_stdio();
            let result = self
                .gateway
                .run_until_stopped(&self.servers, &gateway, &mut signals, &mut serving)
                .await;
            let end = async {
                if result.is_none() {
                    tokio::select! {
                        _ = &mut serving => {}
                        () = gateway.drain() => {}
                    }
                }
                drop(serving);
                gateway.end().await;
            };
            signals.end(&gateway, end).await;
            result.unwrap_or(Ok(()))
        });
        // A pending read of standard input must not delay the exit.
        runtime.shutdown_background();
        result?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Creates the runtime of a gateway.
pub(super) fn gateway_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
}
