//! The thread that turns events into entries and writes them.

use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools::Access;
use picktools_audit::AuditWriter;
use picktools_state::lock;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::entry::{
    EntryContent, JournalEntry, JournalEvent, PolicyEntry, SelectionDraft, access_digest, policy,
};
use crate::snapshot::Snapshot;

/// The interval between syncs to disk, and between attempts after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The most entries that are kept while they cannot be written. After that, callers wait.
const MAX_PENDING: usize = 16_384;
/// The number of recent access policies whose digests are remembered.
const MAX_RECENT: usize = 16;

/// A message to the thread.
pub(super) enum JournalMessage {
    /// An event, with its time in milliseconds since 1970.
    Note(u64, JournalEvent),
    /// A request to be notified once all earlier events are written.
    Flush(SyncSender<()>),
}

/// The writer of entries.
pub(super) struct JournalWriter {
    audit: Option<AuditWriter>,
    live: broadcast::Sender<Arc<JournalEntry>>,
    fault: Arc<Mutex<Option<String>>>,
    /// The number of entries, used without an audit log.
    number: u64,
    /// The policy that was written last.
    policy: Option<PolicyEntry>,
    /// The snapshot of that policy.
    snapshot: Option<Arc<Snapshot>>,
    /// The digests of the access policies in the current file.
    accesses: HashSet<String>,
    /// Set if a new file must begin with the policy: the number of the first record to keep.
    restate: Option<u64>,
    recent: VecDeque<(Access, String)>,
}

impl JournalWriter {
    pub(super) fn new(
        audit: Option<AuditWriter>,
        live: broadcast::Sender<Arc<JournalEntry>>,
        fault: Arc<Mutex<Option<String>>>,
    ) -> Self {
        let (accesses, recent) = (HashSet::new(), VecDeque::new());
        Self {
            audit,
            live,
            fault,
            number: 0,
            policy: None,
            snapshot: None,
            accesses,
            restate: None,
            recent,
        }
    }

    /// Writes entries until the journal is dropped.
    pub(super) fn run(mut self, messages: &Receiver<JournalMessage>) {
        let mut pending: VecDeque<(u64, JournalEvent)> = VecDeque::new();
        let mut flush_requests: Vec<SyncSender<()>> = Vec::new();
        let (mut last_sync, mut last_failure): (Instant, Option<Instant>) = (Instant::now(), None);
        loop {
            let mut has_ended = false;
            if pending.len() < MAX_PENDING {
                match self.receive(messages) {
                    Ok(JournalMessage::Note(at_ms, event)) => pending.push_back((at_ms, event)),
                    Ok(JournalMessage::Flush(done)) => flush_requests.push(done),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => has_ended = true,
                }
            } else {
                std::thread::sleep(RETRY_INTERVAL);
            }
            let must_write = has_ended || !flush_requests.is_empty();
            if last_failure.is_some_and(|at| at.elapsed() < RETRY_INTERVAL) && !must_write {
                continue;
            }
            let mut result = self.write(&mut pending);
            if result.is_ok()
                && (must_write || last_failure.is_some() || last_sync.elapsed() >= RETRY_INTERVAL)
            {
                if let Some(audit) = &mut self.audit {
                    result = audit.sync().map_err(|error| error.to_string());
                }
                last_sync = Instant::now();
            }
            if let Err(message) = &result
                && last_failure.is_none()
            {
                tracing::error!(
                    target: "picktools::audit", %message,
                    "cannot write the audit log; requests are refused until it can be written"
                );
            }
            last_failure = result.is_err().then(Instant::now);
            *lock(&self.fault) = result.err();
            // The waiting caller may be gone.
            for done in flush_requests.drain(..) {
                let _gone = done.send(());
            }
            if has_ended {
                return;
            }
        }
    }

    /// Waits for a message. An audit log is checked in between, so that its removal is noticed before
    /// the next call.
    fn receive(
        &self,
        messages: &Receiver<JournalMessage>,
    ) -> Result<JournalMessage, RecvTimeoutError> {
        match self.audit {
            Some(_) => messages.recv_timeout(RETRY_INTERVAL),
            None => messages
                .recv()
                .map_err(|_closed| RecvTimeoutError::Disconnected),
        }
    }

    /// Writes the kept events, the oldest first.
    fn write(&mut self, pending: &mut VecDeque<(u64, JournalEvent)>) -> Result<(), String> {
        while let Some((at_ms, event)) = pending.pop_front() {
            if let Err((message, event)) = self.write_one(at_ms, event) {
                pending.push_front((at_ms, event));
                return Err(message);
            }
        }
        Ok(())
    }

    /// Writes one event, and returns it if it cannot be written.
    fn write_one(&mut self, at_ms: u64, event: JournalEvent) -> Result<(), (String, JournalEvent)> {
        if let Err(message) = self.begin_file(at_ms) {
            return Err((message, event));
        }
        match event {
            JournalEvent::Selection(selection) => self
                .write_selection(at_ms, &selection)
                .map_err(|message| (message, JournalEvent::Selection(selection))),
            JournalEvent::PolicyChange(snapshot) => self
                .write_policy(at_ms, &snapshot)
                .map_err(|message| (message, JournalEvent::PolicyChange(snapshot))),
            // These entries are small, so a copy is kept for the next attempt.
            JournalEvent::Call(called, outcome, time) => {
                let copy = called.clone();
                self.record(at_ms, called.into_content(outcome, time))
                    .map_err(|message| (message, JournalEvent::Call(copy, outcome, time)))
            }
            JournalEvent::Narrowing(narrowing) => {
                let copy = narrowing.clone();
                self.record(at_ms, narrowing.into_content())
                    .map_err(|message| (message, JournalEvent::Narrowing(copy)))
            }
            JournalEvent::Approval(approval) => {
                let copy = approval.clone();
                self.record(at_ms, approval.into_content())
                    .map_err(|message| (message, JournalEvent::Approval(copy)))
            }
        }
    }

    /// Writes a selection, after the access policy and the catalog that it refers to.
    fn write_selection(&mut self, at_ms: u64, selection: &SelectionDraft) -> Result<(), String> {
        if let Some(audit) = &mut self.audit {
            let stored = audit.put_catalog(selection.catalog());
            stored.map_err(|error| error.to_string())?;
        }
        let access = self.digest_for(at_ms, selection.access())?;
        let content = selection
            .to_content(&access)
            .map_err(|error| error.to_string())?;
        self.record(at_ms, content)
    }

    /// Writes an entry, and informs watchers.
    fn record(&mut self, at_ms: u64, content: EntryContent) -> Result<(), String> {
        let mut entry = JournalEntry {
            number: None,
            at_ms,
            content,
        };
        match &mut self.audit {
            Some(audit) => {
                let number = audit.next();
                audit.append(&entry).map_err(|error| error.to_string())?;
                entry.number = Some(number);
            }
            None => {
                self.number += 1;
                entry.number = Some(self.number);
            }
        }
        // There may be no watcher.
        drop(self.live.send(Arc::new(entry)));
        Ok(())
    }

    /// Begins a new file if the current one is full. The file begins with the policy, so that it
    /// can be read without earlier files.
    fn begin_file(&mut self, at_ms: u64) -> Result<(), String> {
        let Some(audit) = &mut self.audit else {
            return Ok(());
        };
        if audit.take_lost() {
            self.restate = Some(1);
            self.accesses.clear();
        }
        if audit.is_full() && self.restate.is_none() {
            audit.begin_file().map_err(|error| error.to_string())?;
            self.restate = Some(audit.first_to_keep().map_err(|error| error.to_string())?);
            self.accesses.clear();
        }
        let Some(first) = self.restate else {
            return Ok(());
        };
        if let Some(policy) = self.policy.clone() {
            let mut content = policy.content.clone();
            content["changed"] = json!(["file"]);
            content["first"] = json!(first);
            self.record(at_ms, EntryContent::Policy(content))?;
            self.remember_accesses(&policy);
        }
        if let (Some(snapshot), Some(audit)) = (&self.snapshot, &mut self.audit) {
            audit
                .put_catalog(snapshot.engine.catalog())
                .map_err(|error| error.to_string())?;
        }
        if let Some(audit) = &self.audit {
            audit
                .remove_before(first)
                .map_err(|error| error.to_string())?;
        }
        self.restate = None;
        Ok(())
    }

    /// Writes the policy if it changed.
    fn write_policy(&mut self, at_ms: u64, snapshot: &Arc<Snapshot>) -> Result<(), String> {
        let current = policy(snapshot)?;
        let mut changed = Vec::new();
        match &self.policy {
            None => changed.push("start"),
            Some(previous) => {
                let is_other = |name: &str| previous.content[name] != current.content[name];
                changed.extend((previous.settings != current.settings).then_some("settings"));
                changed.extend((previous.catalog != current.catalog).then_some("catalog"));
                changed.extend((changed.is_empty() && is_other("roles")).then_some("approvals"));
            }
        }
        if let Some(audit) = &mut self.audit {
            audit
                .put_catalog(snapshot.engine.catalog())
                .map_err(|error| error.to_string())?;
        }
        if changed.is_empty() {
            return Ok(());
        }
        self.snapshot = Some(Arc::clone(snapshot));
        let mut content = current.content.clone();
        content["changed"] = json!(changed);
        if self.policy.is_none()
            && let Some(audit) = &self.audit
            && let Some(remnant) = audit.remnant()
        {
            content["remnant"] = json!(remnant);
        }
        self.record(at_ms, EntryContent::Policy(content))?;
        self.remember_accesses(&current);
        self.policy = Some(current);
        Ok(())
    }

    /// Remembers the access policies that have been written.
    fn remember_accesses(&mut self, policy: &PolicyEntry) {
        if let Some(accesses) = policy.content["access"].as_object() {
            self.accesses.extend(accesses.keys().cloned());
        }
    }

    /// Returns the digest of an access policy, and writes the policy before its first use.
    fn digest_for(&mut self, at_ms: u64, access: &Access) -> Result<String, String> {
        let remembered = self
            .recent
            .iter()
            .find(|(remembered, _)| remembered == access);
        let digest = match remembered {
            Some((_, digest)) => digest.clone(),
            None => {
                let digest = access_digest(access).map_err(|error| error.to_string())?;
                self.recent.push_back((access.clone(), digest.clone()));
                if self.recent.len() > MAX_RECENT {
                    self.recent.pop_front();
                }
                digest
            }
        };
        if self.audit.is_some() && !self.accesses.contains(&digest) {
            let json = serde_json::to_value(access).map_err(|error| error.to_string())?;
            let accesses = Value::Object([(digest.clone(), json)].into_iter().collect());
            self.record(
                at_ms,
                EntryContent::Policy(json!({"changed": ["access"], "access": accesses})),
            )?;
            self.accesses.insert(digest.clone());
        }
        Ok(digest)
    }
}
