//! The context of a running call: its id, deadline, cancellation, and output events.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::changes::TurnChanges;
use super::events::{CallInfo, EventKind, EventType, Events};
use super::files::FileLedger;
use super::folders::SessionFolders;
use super::lock;

/// The most bytes of one chunk; longer output becomes several chunks.
const MAX_CHUNK_BYTES: usize = 16 << 10;
/// The most bytes of output that the events of one call carry.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// The context of one running call.
#[derive(Debug, Clone)]
pub struct Context {
    pub(super) call: Arc<CallInfo>,
    pub(super) events: Events,
    pub(super) cancellation: CancellationToken,
    pub(super) deadline: Instant,
    pub(super) root: Arc<Path>,
    pub(super) files: FileLedger,
    pub(super) changes: TurnChanges,
    pub(super) folders: SessionFolders,
    pub(super) output: Arc<Output>,
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
