//! What a running tool knows of its call, and by what it tells how it goes.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::events::{CallInfo, EventKind, EventType, Events};
use super::files::FileLedger;
use super::lock;

/// The most bytes of one chunk; longer output is told in several.
const MAX_CHUNK_BYTES: usize = 16 << 10;
/// The most bytes of output that one call tells of.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// What a running tool knows of its call. Each call has its own.
#[derive(Debug, Clone)]
pub struct Context {
    pub(super) call: Arc<CallInfo>,
    pub(super) events: Events,
    pub(super) cancellation: CancellationToken,
    pub(super) deadline: Instant,
    pub(super) root: Arc<Path>,
    pub(super) files: FileLedger,
    pub(super) output: Arc<Output>,
}

/// What a call has told of its output.
#[derive(Debug, Default)]
pub(super) struct Output(Mutex<OutputState>);

#[derive(Debug, Default)]
struct OutputState {
    bytes: usize,
    /// The call has ended: what comes now comes too late.
    closed: bool,
}

impl Output {
    pub(super) fn close(&self) {
        lock(&self.0).closed = true;
    }
}

impl Context {
    /// Returns the call's id, which stands in all its events.
    pub fn call_id(&self) -> &str {
        &self.call.call_id
    }

    /// Tells of output at once. More than 16 MiB of one call is not told, which the last chunk
    /// says.
    pub fn emit_output_chunk(&self, text: &str) {
        if text.is_empty() || !self.events.are_heard(EventType::Chunk) {
            return;
        }
        // Held while it is told, so that no chunk comes behind the end of the call.
        let mut output = lock(&self.output.0);
        if output.closed || output.bytes >= MAX_OUTPUT_BYTES {
            return;
        }
        let mut rest = &text[..text.floor_char_boundary(MAX_OUTPUT_BYTES - output.bytes)];
        output.bytes += text.len();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.floor_char_boundary(MAX_CHUNK_BYTES));
            self.tell(chunk);
            rest = after;
        }
        if output.bytes >= MAX_OUTPUT_BYTES {
            self.tell("\n[more output of this call is not shown]\n");
        }
    }

    fn tell(&self, chunk: &str) {
        self.events.tell(
            &self.call,
            EventKind::Chunk {
                chunk: chunk.to_owned(),
            },
        );
    }

    /// Returns `true` once the result is no longer waited for: the call was cancelled, or its time
    /// is over.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// Waits until the result is no longer waited for.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancellation.cancelled()
    }

    /// Returns the point in time at which the call is cancelled.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the folder that tools work in, and that those of ours stay in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns which files were read and written.
    pub fn files(&self) -> &FileLedger {
        &self.files
    }
}
