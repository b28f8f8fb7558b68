//! The context of a running call: its id, deadline, cancellation, and output events.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::changes::TurnChanges;
use super::confirmation::DecisionFuture;
use super::events::{CallInfo, EventKind, EventType, Events, OuterCall};
use super::files::FileLedger;
use super::folders::{SessionFolders, open_root};
use super::lock;
use super::manager::ManagerError;
use picktools::access::Access;
use picktools_call::{PendingCall, ValidCall};

/// The default time limit of a call.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(120);
/// The most bytes of one chunk; longer output becomes several chunks.
const MAX_CHUNK_BYTES: usize = 16 << 10;
/// The most bytes of output that the events of one call carry.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// The context of one running call.
///
/// A manager makes the contexts of its calls. [`Context::new`] makes one to run a tool without a
/// manager, for example in a test of the tool:
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use picktools::{Access, Catalog, Tool};
/// use picktools_call::{HydratedCall, Hydrator};
/// use picktools_provider::{Arguments, ToolCall};
/// use picktools_runtime::{Context, FunctionTool, RunnableTool, ToolResult};
/// use serde_json::json;
///
/// let list = Tool::without_arguments("list", "Lists the working folder");
/// let hydrator = Hydrator::new(Catalog::from_tools([list.clone()])?, &Access::default())?;
/// let arguments = Arguments::Json(json!({}));
/// let call = ToolCall { id: None, name: "list".to_owned(), arguments };
/// let HydratedCall::Ready(call) = hydrator.hydrate(&call)? else { unreachable!() };
///
/// let list = FunctionTool::new(list, |_, context: Context| async move {
///     ToolResult::success().field("files", context.root().read_dir().into_iter().count())
/// });
/// let context = Context::new(&call, ".")?;
/// assert!(list.run(&call, &context).await.is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    pub(super) call: Arc<CallInfo>,
    /// The manager that runs the call, if there is one.
    pub(super) manager: Option<Arc<dyn OuterManager>>,
    pub(super) events: Events,
    pub(super) cancellation: CancellationToken,
    pub(super) deadline: Instant,
    pub(super) root: Arc<Path>,
    pub(super) files: FileLedger,
    pub(super) changes: TurnChanges,
    pub(super) folders: SessionFolders,
    pub(super) output: Arc<Output>,
}

/// A manager that runs a call, for the managers of agents inside the call.
pub(super) trait OuterManager: fmt::Debug + Send + Sync {
    /// Returns the access policy of the caller.
    fn access(&self) -> &Access;

    /// Returns the number of agents that may be inside each other in the manager.
    fn agent_depth(&self) -> usize;

    /// Decides on a pending call.
    fn decide<'a>(&'a self, call: &'a PendingCall) -> DecisionFuture<'a>;
}

/// The output that a call has published so far.
#[derive(Debug, Default)]
pub(super) struct Output(Mutex<OutputState>);

#[derive(Debug, Default)]
struct OutputState {
    bytes: usize,
    /// The call has ended; later output is ignored.
    closed: bool,
}

impl Output {
    pub(super) fn close(&self) {
        lock(&self.0).closed = true;
    }
}

impl Context {
    /// Makes the context of a call without a manager, with a working folder. Its deadline is in two
    /// minutes, nothing cancels it, and its output is dropped.
    ///
    /// The caller of the tool has to do what a manager does around a call: ask for confirmations,
    /// refuse repeated calls, check the [files](Self::files) that the tool
    /// [writes](super::RunnableTool::writes), and enforce the deadline.
    ///
    /// # Errors
    ///
    /// [`ManagerError::Root`] if the working folder is not a folder that can be opened.
    pub fn new(call: &ValidCall, root: impl AsRef<Path>) -> Result<Self, ManagerError> {
        let events = Events::default();
        Ok(Self {
            call: Arc::new(CallInfo::new(call, &events)),
            manager: None,
            events,
            cancellation: CancellationToken::new(),
            deadline: Instant::now() + TIME_LIMIT,
            root: open_root(root.as_ref())?,
            files: FileLedger::default(),
            changes: TurnChanges::default(),
            folders: SessionFolders::default(),
            output: Arc::default(),
        })
    }

    /// Returns a context for another call of the same session. It shares the working folder, the
    /// records of files, the cancellation and the events.
    #[must_use]
    pub fn for_call(&self, call: &ValidCall) -> Self {
        Self {
            call: Arc::new(CallInfo::new(call, &self.events)),
            output: Arc::default(),
            ..self.clone()
        }
    }

    /// Sets the point in time at which the call is cancelled. Tools can read it; without a manager
    /// nothing enforces it.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the token that cancels the call.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: CancellationToken) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// Sets the events that receive the output of the call. Start and end of a call are published
    /// only by managers.
    #[must_use]
    pub fn with_events(mut self, events: Events) -> Self {
        let call = CallInfo {
            call_id: events.next_call_id(),
            ..CallInfo::clone(&self.call)
        };
        self.call = Arc::new(call);
        self.events = events;
        self
    }

    /// Returns the call's id, which all its events carry.
    pub fn call_id(&self) -> &str {
        &self.call.call_id
    }

    /// Publishes output at once. Output beyond 16 MiB of one call is dropped, and the last chunk
    /// says so.
    pub fn emit_output_chunk(&self, text: &str) {
        if text.is_empty() || !self.events.has_subscribers(EventType::Chunk) {
            return;
        }
        // The lock is held while publishing, so that no chunk follows the end of the call.
        let mut output = lock(&self.output.0);
        if output.closed || output.bytes >= MAX_OUTPUT_BYTES {
            return;
        }
        let mut rest = &text[..text.floor_char_boundary(MAX_OUTPUT_BYTES - output.bytes)];
        output.bytes += text.len();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.floor_char_boundary(MAX_CHUNK_BYTES));
            self.publish_chunk(chunk);
            rest = after;
        }
        if output.bytes >= MAX_OUTPUT_BYTES {
            self.publish_chunk("\n[more output of this call is not shown]\n");
        }
    }

    fn publish_chunk(&self, chunk: &str) {
        self.events.publish(
            &self.call,
            EventKind::Chunk {
                chunk: chunk.to_owned(),
            },
        );
    }

    /// Returns `true` once the manager no longer waits for the result: the call was cancelled or
    /// reached its deadline.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until the call is cancelled or reaches its deadline.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancellation.cancelled()
    }

    /// Returns the point in time at which the call is cancelled.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the working folder of tools. The built-in tools stay inside it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the record of files that tools have read and written.
    pub fn files(&self) -> &FileLedger {
        &self.files
    }

    /// Returns the changes of files in this turn, which the tool `undo` takes back.
    pub fn changes(&self) -> &TurnChanges {
        &self.changes
    }

    /// Returns the working folders of terminal sessions, which the tool `cd` changes.
    pub fn folders(&self) -> &SessionFolders {
        &self.folders
    }
}

impl OuterCall for Context {
    fn has_subscribers(&self, event: EventType) -> bool {
        self.events.has_subscribers(event)
    }

    fn publish_inner(&self, call: &CallInfo, kind: EventKind) {
        // The lock is held while publishing, so that no inner event follows the end of the call.
        let output = lock(&self.output.0);
        if output.closed {
            return;
        }
        let inner = CallInfo {
            call_id: format!("{}.{}", self.call.call_id, call.call_id),
            parent_call_id: Some(self.call.call_id.clone()),
            ..call.clone()
        };
        self.events.publish(&Arc::new(inner), kind);
    }
}
