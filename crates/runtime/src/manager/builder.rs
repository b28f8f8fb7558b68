//! Putting a manager together.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::super::confirmation::{Approvals, Confirm};
use super::super::events::Events;
use super::super::files::FileLedger;
use super::super::tool::RunnableTool;
use super::super::turn::Turn;
use super::{Shared, ToolManager};
use picktools::access::{Access, AccessError};
use picktools::catalog::{Catalog, CatalogError, CatalogOptions};
use picktools_call::Hydrator;

/// How long a call may run unless told otherwise.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// How long a call waits for somebody to decide on it.
const APPROVAL_LIFETIME: Duration = Duration::from_secs(300);
/// How many calls run at once.
const MAX_PARALLEL: usize = 16;

/// What a [`ToolManager`] is made of.
#[must_use]
pub struct ToolManagerBuilder {
    access: Access,
    catalog: Option<Catalog>,
    tools: Vec<Arc<dyn RunnableTool>>,
    runners: HashMap<String, Arc<dyn RunnableTool>>,
    confirm: Option<Box<dyn Confirm>>,
    root: PathBuf,
    time_limit: Duration,
    approval_lifetime: Duration,
    max_parallel: usize,
}

/// Why there is no manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// The definitions are no catalog.
    #[error("the tools are no catalog: {0}")]
    Catalog(#[source] CatalogError),
    /// What the caller may use cannot be decided.
    #[error("what may be used cannot be decided: {0}")]
    Access(#[source] AccessError),
    /// Something shall run a tool that is not there.
    #[error("the catalog has no tool {id:?} to run")]
    UnknownTool {
        /// The tool's id.
        id: String,
    },
    /// The root is no folder.
    #[error("{root} cannot be worked in: {source}")]
    Root {
        /// The folder.
        root: String,
        /// Why.
        source: io::Error,
    },
}

impl ToolManagerBuilder {
    pub(super) fn new(access: Access) -> Self {
        Self {
            access,
            catalog: None,
            tools: Vec::new(),
            runners: HashMap::new(),
            confirm: None,
            root: PathBuf::from("."),
            time_limit: TIME_LIMIT,
            approval_lifetime: APPROVAL_LIFETIME,
            max_parallel: MAX_PARALLEL,
        }
    }

    /// Adds a tool, by its own definition.
    pub fn tool(self, tool: impl RunnableTool + 'static) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// Adds a tool that others have as well.
    pub fn shared_tool(mut self, tool: Arc<dyn RunnableTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Takes the definitions of a catalog, whose tools are run by what `runners` gives for their
    /// ids. The catalog's definitions count, not the runners' own. One for which there is none is
    /// resolved and validated, but not run.
    pub fn catalog(
        mut self,
        catalog: Catalog,
        runners: impl IntoIterator<Item = (String, Arc<dyn RunnableTool>)>,
    ) -> Self {
        self.catalog = Some(catalog);
        self.runners.extend(runners);
        self
    }

    /// Asks this before a tool runs that must not run unasked; without it such calls are refused.
    pub fn confirm(mut self, confirm: impl Confirm + 'static) -> Self {
        self.confirm = Some(Box::new(confirm));
        self
    }

    /// The folder that tools work in; the current one unless told otherwise.
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.root = root.into();
        self
    }

    /// How long a call may run whose tool names no time of its own; two minutes unless told
    /// otherwise.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.time_limit = time;
        self
    }

    /// How long a call waits for somebody to decide on it; five minutes unless told otherwise.
    pub fn approval_lifetime(mut self, time: Duration) -> Self {
        self.approval_lifetime = time;
        self
    }

    /// How many calls run at once, at least one; 16 unless told otherwise.
    pub fn max_parallel(mut self, calls: usize) -> Self {
        self.max_parallel = calls.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Makes the manager.
    ///
    /// # Errors
    ///
    /// [`ManagerError`]: tools whose names clash, access that cannot be decided, a runner without a tool, a root that is no
    /// folder.
    pub fn build(self) -> Result<ToolManager, ManagerError> {
        let definitions = self.tools.iter().map(|tool| tool.definition().clone());
        let (catalog, first) = match self.catalog {
            Some(catalog) => {
                let first = catalog.len();
                (
                    catalog
                        .with_tools(definitions)
                        .map_err(ManagerError::Catalog)?,
                    first,
                )
            }
            None => (
                CatalogOptions::default()
                    .collect(definitions)
                    .map_err(ManagerError::Catalog)?,
                0,
            ),
        };
        let mut runners = self.runners;
        if let Some(id) = runners.keys().find(|id| catalog.find(id).is_none()) {
            return Err(ManagerError::UnknownTool { id: id.clone() });
        }
        for tool in self.tools {
            let own = tool.definition();
            // A catalog may have given it a source, and so another id; and a clash may have left it
            // out.
            let added = catalog.tools()[first..]
                .iter()
                .find(|added| added.id == own.id || added.name == own.name);
            let Some(added) = added else {
                return Err(ManagerError::UnknownTool { id: own.id.clone() });
            };
            runners.insert(added.id.clone(), tool);
        }
        let root = self
            .root
            .canonicalize()
            .and_then(|root| match root.is_dir() {
                true => Ok(root),
                false => Err(io::ErrorKind::NotADirectory.into()),
            });
        let root = root.map_err(|source| ManagerError::Root {
            root: self.root.display().to_string(),
            source,
        })?;
        let hydrator = Hydrator::new(catalog, &self.access).map_err(ManagerError::Access)?;
        let shared = Shared {
            runners,
            confirm: self.confirm,
            approvals: Approvals::new(self.approval_lifetime),
            events: Events::default(),
            files: FileLedger::default(),
            turn: Turn::default(),
            root: root.into(),
            time_limit: self.time_limit,
            running: Semaphore::new(self.max_parallel),
            next_call: AtomicU64::new(1),
            under_way: Mutex::default(),
        };
        Ok(ToolManager {
            hydrator,
            shared: Arc::new(shared),
        })
    }
}
