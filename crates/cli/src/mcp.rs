//! `picktools mcp`: the gateway for one client, on standard input and output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use clap::Args;
use picktools::Catalog;
use picktools_audit::AuditSettings;
use picktools_gateway::settings::{Mode, ProviderSettings, ProxySettings, Role, Share, Unsafe};
use picktools_gateway::{CallQueue, Counters, Gateway, GatewayOptions, Pins, Settings};
use picktools_import::mcp::Configuration;
use picktools_state::{Fault, Store};
use picktools_store::{RedisStore, SharedCatalog, StoreError};

use crate::interruption::interrupted;
use crate::reading::{self, ReadingArgs};
use crate::servers::ServerArgs;
use crate::store_args::StoreArgs;
use crate::{args, heading, output};

/// How often is looked whether another catalog was published.
const LOOK: Duration = Duration::from_millis(200);
/// Every how many looks it is looked whether a file has become another, and whether a store answers
/// again.
const LOOKS_AT_FILES: usize = 5;

#[derive(Args)]
pub(super) struct McpCommand {
    #[command(flatten)]
    servers: ServerArgs,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// How a gateway stands before its servers.
#[derive(Args)]
pub(super) struct GatewayArgs {
    /// A file of settings: what is shown, who may do what, how servers are kept (docs/gateway.md).
    #[arg(long, value_name = "FILE", help_heading = heading::GATEWAY)]
    settings: Option<PathBuf>,
    /// What the client is shown: all tools where they cost few tokens, and else tools that search
    /// and call; or one of these always.
    #[arg(long, value_name = "MODE", value_parser = ["auto", "search", "dynamic", "pass-through"], help_heading = heading::GATEWAY)]
    mode: Option<String>,
    /// What becomes of calls of tools that are marked as destructive.
    #[arg(long = "unsafe", value_name = "WHAT", value_parser = ["deny", "confirm", "allow"], help_heading = heading::GATEWAY)]
    marked_unsafe: Option<String>,
    /// The folder of what was approved [default: the user's folder of data].
    #[arg(long, value_name = "FOLDER", help_heading = heading::GATEWAY)]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// The catalog in the store.
    #[arg(skip)]
    published: Box<std::cell::RefCell<Published>>,
    /// Record what is decided in this folder, which no other gateway writes (docs/audit.md);
    /// nothing is picked or run while that cannot be done.
    #[arg(long, value_name = "FOLDER", help_heading = heading::GATEWAY)]
    audit: Option<PathBuf>,
    #[arg(skip)]
    pub(super) providers: Providers,
    /// Tools that no server has.
    #[arg(skip)]
    pub(super) catalog: Option<CatalogFiles>,
}

/// A catalog in a store, as far as it is known.
#[derive(Default)]
struct Published {
    /// Where it is looked for, on connections that are kept.
    store: Option<RedisStore>,
    /// None where nothing was published yet.
    catalog: Option<SharedCatalog>,
    /// Who is told what is wrong with it.
    gateways: Option<Store>,
    /// Whether it cannot be followed.
    fails: bool,
}

impl Published {
    /// Takes over what was published last.
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

/// The files of a catalog, and how they are read.
pub(super) struct CatalogFiles {
    pub(super) paths: Vec<PathBuf>,
    pub(super) reading: ReadingArgs,
}

impl CatalogFiles {
    fn open(&self) -> anyhow::Result<Catalog> {
        self.reading.open(&self.paths)
    }

    /// The files that can become others, those of folders among them.
    fn files(&self) -> Vec<PathBuf> {
        let walk = |path: &PathBuf| {
            walkdir::WalkDir::new(path)
                .max_depth(1)
                .into_iter()
                .filter_map(Result::ok)
        };
        self.paths
            .iter()
            .flat_map(walk)
            .map(walkdir::DirEntry::into_path)
            .filter(|path| path.is_file())
            .collect()
    }
}

/// The addresses of providers of models, where the command line has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Providers {
    pub(super) openai: Option<String>,
    pub(super) anthropic: Option<String>,
}

impl Providers {
    /// Puts the addresses into the settings; what those say of a provider besides stays.
    fn set(&self, proxy: &mut ProxySettings) {
        let given = [
            (&self.openai, &mut proxy.openai),
            (&self.anthropic, &mut proxy.anthropic),
        ];
        for (url, provider) in given {
            let Some(url) = url else { continue };
            match provider {
                Some(provider) => provider.url.clone_from(url),
                None => *provider = Some(ProviderSettings::new(url)),
            }
        }
    }
}

/// The folder of what gateways keep.
pub(super) fn state_folder(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    let folder = given.map_or_else(args::data_dir, |folder| Ok(folder.to_owned()))?;
    Ok(folder.join("gateway"))
}

/// What was approved, and which calls wait: in a store, where there is one, and else in a folder.
pub(super) fn approvals(store: Option<&Store>, folder: &Path) -> anyhow::Result<(Pins, CallQueue)> {
    Ok(match store {
        Some(store) => (Pins::of(store)?, CallQueue::of(store)?),
        None => (Pins::open(folder)?, CallQueue::open(folder)?),
    })
}

/// The servers of a gateway; where it has a catalog or stands before models, there may be none.
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
    output::warnings(configuration.faults.iter().map(ToString::to_string), "");
    Ok(configuration)
}

impl GatewayArgs {
    /// What the operator says.
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = match &self.settings {
            Some(path) => {
                let text = String::from_utf8(reading::read_input(path)?)
                    .context("the settings are not UTF-8")?;
                Settings::read(&text).with_context(|| format!("{}", path.display()))?
            }
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
        if let Some(what) = &self.marked_unsafe {
            let role: &mut Role = settings
                .roles
                .entry(picktools_gateway::settings::DEFAULT_ROLE.to_owned())
                .or_default();
            role.marked_unsafe = match what.as_str() {
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
        self.providers.set(&mut settings.proxy);
        settings.check()?;
        Ok(settings)
    }

    /// What a gateway before these servers is made of.
    pub(super) fn options(
        &self,
        servers: &ServerArgs,
        share: Share,
    ) -> anyhow::Result<GatewayOptions> {
        let settings = self.settings()?;
        let catalog = self.own_tools()?;
        let lacks_all = self.store.is_named() && catalog.is_none() && !servers.are_named();
        let configuration = configuration(servers, &settings, catalog.is_some()).map_err(|error| match lacks_all {
            true => {
                error.context("nothing is published in the store (`picktools index --store`), and there is no server")
            }
            false => error,
        })?;
        let state = state_folder(self.state_dir.as_deref())?;
        let store = self.store.open()?.map(|store| store.remembers(&state));
        {
            self.published.borrow_mut().gateways.clone_from(&store);
        }
        let (pins, queue) = approvals(store.as_ref(), &state)?;
        Ok(GatewayOptions {
            servers: configuration.servers,
            settings,
            catalog,
            environment: Arc::new(|name: &str| std::env::var_os(name)),
            kept: args::default_cache_dir().map(|folder| folder.join("mcp")),
            share,
            meter: Arc::new(Counters::default()),
            pins: Some(pins),
            queue: Some(queue),
            store,
        })
    }
}

impl GatewayArgs {
    /// Follows the files of a gateway: when one of them has become another, the gateway takes what
    /// they say now.
    pub(super) async fn follow_files(&self, servers: &ServerArgs, gateway: &Gateway) {
        let files: Vec<&PathBuf> = servers
            .files()
            .iter()
            .chain(&self.settings)
            .filter(|path| path.is_file())
            .collect();
        let read = || {
            let catalog = self.catalog.iter().flat_map(CatalogFiles::files);
            let catalog: Vec<_> = catalog.map(|path| (stamp(&path), path)).collect();
            (
                files
                    .iter()
                    .map(|path| std::fs::read(path).ok())
                    .collect::<Vec<_>>(),
                catalog,
            )
        };
        let follow_store = || tokio::task::block_in_place(|| self.follow_store());
        let (mut last, mut last_published) = (read(), follow_store());
        for look in 1_usize.. {
            tokio::time::sleep(LOOK).await;
            let is_slow_look = look.is_multiple_of(LOOKS_AT_FILES);
            let published = if is_slow_look || self.store_answers() {
                follow_store()
            } else {
                last_published
            };
            let now = if is_slow_look { read() } else { last.clone() };
            if now == last && published == last_published {
                continue;
            }
            let taken = self.settings().and_then(|settings| {
                let catalog = self.own_tools()?;
                let configuration = configuration(servers, &settings, catalog.is_some())?;
                Ok(gateway.reload(configuration.servers, settings, catalog)?)
            });
            match taken {
                Ok(()) => output::note("the configuration was read again"),
                Err(error) => output::warn(format!("the configuration stays as it was: {error:#}")),
            }
            (last, last_published) = (now, published);
        }
    }

    /// The tools that no server has: those of files, or else those that were published in the
    /// store.
    fn own_tools(&self) -> anyhow::Result<Option<Catalog>> {
        if let Some(files) = &self.catalog {
            return files.open().map(Some);
        }
        {
            let mut published = self.published.borrow_mut();
            if published.catalog.is_none() {
                published.follow(&self.store)?;
            }
            Ok(published
                .catalog
                .as_ref()
                .map(|shared| shared.catalog().clone()))
        }
    }

    /// Takes over what was published in the store; returns which snapshot the gateway's own tools
    /// are of. What is wrong with the store is told when it begins.
    fn follow_store(&self) -> Option<u64> {
        if self.catalog.is_some() {
            return None;
        }
        let mut published = self.published.borrow_mut();
        let fault = published.follow(&self.store).err().map(|error| {
            let fault = match error.downcast_ref::<StoreError>() {
                Some(StoreError::Empty { .. }) => Fault::Older,
                Some(StoreError::Damaged { .. }) => Fault::Foreign,
                _ => Fault::Away,
            };
            (fault, format!("the catalog stays as it was: {error:#}"))
        });
        published.fails = fault.is_some();
        if let Some(gateways) = &published.gateways {
            gateways.catalog_fault(fault);
        }
        published
            .catalog
            .as_ref()
            .map(|shared| shared.snapshot().version)
    }

    /// Whether the store can be asked at every look.
    fn store_answers(&self) -> bool {
        !self.published.borrow().fails
    }
}

/// What tells that a file has become another.
fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl McpCommand {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let options = self.gateway.options(&self.servers, Share::All)?;
        let runtime = crate::gateway_runtime()?;
        let served = runtime.block_on(async {
            let gateway = Gateway::open(options)?;
            let served = tokio::select! {
                served = gateway.serve_stdio() => served,
                () = interrupted() => Ok(()),
                () = self.gateway.follow_files(&self.servers, &gateway) => Ok(()),
            };
            gateway.end().await;
            served
        });
        // A pending read of standard input must not hold the end up.
        runtime.shutdown_background();
        served?;
        Ok(ExitCode::SUCCESS)
    }
}
