//! The builder of a tool manager.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::super::changes::TurnChanges;
use super::super::confirmation::{Approvals, Confirm};
use super::super::events::Events;
use super::super::files::FileLedger;
use super::super::folders::SessionFolders;
use super::super::tool::RunnableTool;
use super::super::turn::TurnCalls;
use super::error::ManagerError;
use super::state::{ManagerState, ToolManager};
use crate::context::TIME_LIMIT;
use crate::folders::open_root;
use picktools::access::Access;
use picktools::catalog::{Catalog, CatalogError, CatalogOptions, OperatorAliases};
use picktools_call::{Hydrator, Repairer};

/// The default time that a call waits for a decision.
const APPROVAL_LIFETIME: Duration = Duration::from_secs(300);
/// The default number of calls that run at once.
const MAX_PARALLEL: usize = 16;

/// A builder of a [`ToolManager`].
#[must_use]
pub struct ToolManagerBuilder {
    access: Access,
    catalog: Option<Catalog>,
    aliases: Option<OperatorAliases>,
    tools: Vec<Arc<dyn RunnableTool>>,
    runners: HashMap<String, Arc<dyn RunnableTool>>,
    confirm: Option<Box<dyn Confirm>>,
    repairer: Option<Box<dyn Repairer>>,
    events: Events,
    name: Option<Arc<str>>,
    root: PathBuf,
    time_limit: Duration,
    approval_lifetime: Duration,
    max_parallel: usize,
    pub(super) agent_depth: usize,
}

impl ToolManager {
    /// Returns a builder of a manager for one caller.
    pub fn builder(access: Access) -> ToolManagerBuilder {
        ToolManagerBuilder::new(access)
    }
}

impl ToolManagerBuilder {
    pub(super) fn new(access: Access) -> Self {
        Self {
            access,
            catalog: None,
            aliases: None,
            tools: Vec::new(),
            runners: HashMap::new(),
            confirm: None,
            repairer: None,
            events: Events::default(),
            name: None,
            root: PathBuf::from("."),
            time_limit: TIME_LIMIT,
            approval_lifetime: APPROVAL_LIFETIME,
            max_parallel: MAX_PARALLEL,
            agent_depth: usize::MAX,
        }
    }

    /// Adds a tool with its own definition.
    pub fn tool(self, tool: impl RunnableTool + 'static) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// Adds a tool that is shared with other managers.
    pub fn shared_tool(mut self, tool: Arc<dyn RunnableTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Sets the catalog, and the runners of its tools by tool id. The catalog's definitions apply,
    /// not the runners' own. Calls of a tool without a runner are validated, but do not run.
    pub fn catalog(
        mut self,
        catalog: Catalog,
        runners: impl IntoIterator<Item = (String, Arc<dyn RunnableTool>)>,
    ) -> Self {
        self.catalog = Some(catalog);
        self.runners.extend(runners);
        self
    }

    /// Sets more aliases of the operator, for the tools of the catalog and for those that are added.
    /// Aliases that cannot be given become notices of the manager's catalog.
    pub fn aliases(mut self, aliases: OperatorAliases) -> Self {
        self.aliases = Some(aliases);
        self
    }

    /// Sets the decider on calls that need a confirmation. Without it, such calls are refused.
    pub fn confirm(mut self, confirm: impl Confirm + 'static) -> Self {
        self.confirm = Some(Box::new(confirm));
        self
    }

    /// Sets the repairer, such as a language model, that rewrites invalid arguments once before a call
    /// is refused. It is not asked about unsafe tools, and about at most 16 calls of an answer.
    pub fn repairer(mut self, repairer: impl Repairer + 'static) -> Self {
        self.repairer = Some(Box::new(repairer));
        self
    }

    /// Sets the events, which several managers may share. By default a manager has its own.
    pub fn events(mut self, events: Events) -> Self {
        self.events = events;
        self
    }

    /// Sets the name of the manager in its events, such as the caller or the agent. It tells managers
    /// apart that share their [events](Self::events).
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the working folder of tools. The default is the current folder.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// Sets the time limit of a call whose tool has none of its own. The default is two minutes.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = time;
        self
    }

    /// Sets the time that a call waits for a decision. The default is five minutes.
    pub fn approval_lifetime(mut self, time: Duration) -> Self {
        self.approval_lifetime = time;
        self
    }

    /// Sets the number of calls that run at once, at least one. The default is 16.
    pub fn max_parallel(mut self, calls: usize) -> Self {
        self.max_parallel = calls.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Makes the manager.
    ///
    /// # Errors
    ///
    /// [`ManagerError`] if tool names conflict, the access policy is invalid, a runner has no tool,
    /// or the root is not a folder.
    pub fn build(self) -> Result<ToolManager, ManagerError> {
        let definitions = self.tools.iter().map(|tool| tool.definition().clone());
        let first_added = self.catalog.as_ref().map_or(0, Catalog::len);
        let collected = match (self.catalog, &self.aliases) {
            (Some(catalog), None) => catalog.with_tools(definitions),
            (Some(catalog), Some(aliases)) => catalog.with_tools_and_aliases(definitions, aliases),
            (None, None) => CatalogOptions::default().collect(definitions),
            (None, Some(aliases)) => CatalogOptions::default()
                .collect([])
                .and_then(|catalog| catalog.with_tools_and_aliases(definitions, aliases)),
        };
        let catalog = collected.map_err(ManagerError::Catalog)?;
        let tools = catalog.tools().map_err(CatalogError::from);
        let tools = tools.map_err(ManagerError::Catalog)?;
        let mut runners = self.runners;
        if let Some(id) = runners.keys().find(|id| catalog.find(id).is_none()) {
            return Err(ManagerError::UnknownTool { id: id.clone() });
        }
        for tool in self.tools {
            let definition = tool.definition();
            // The catalog may have assigned a source and thus another id. A name conflict may have
            // removed the tool.
            let added = tools[first_added..]
                .iter()
                .find(|added| added.id == definition.id || added.name == definition.name);
            let Some(added) = added else {
                let id = definition.id.clone();
                return Err(ManagerError::UnknownTool { id });
            };
            runners.insert(added.id.clone(), tool);
        }
        let root = open_root(&self.root)?;
        let hydrator = Hydrator::new(catalog, &self.access).map_err(ManagerError::Access)?;
        let shared = ManagerState {
            runners,
            confirm: self.confirm,
            repairer: self.repairer,
            approvals: Approvals::new(self.approval_lifetime),
            events: self.events,
            files: FileLedger::default(),
            changes: TurnChanges::default(),
            folders: SessionFolders::default(),
            turn: TurnCalls::default(),
            root,
            time_limit: self.time_limit,
            running: Semaphore::new(self.max_parallel),
            name: self.name,
            access: self.access,
            agent_depth: self.agent_depth,
            cancellations: Mutex::default(),
        };
        Ok(ToolManager {
            hydrator,
            shared: Arc::new(shared),
        })
    }
}
