//! The thread that makes records of what is noted, and writes them.

use std::collections::{HashSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools::Access;
use picktools_audit::AuditWriter;
use picktools_state::lock;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::entry::{Entry, Noted, Policy, What, digest_of, policy};
use crate::snapshot::Snapshot;

/// How often what was written is brought onto the disk, and how long until what could not be
/// written is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The most entries that are kept while they cannot be written; then whoever notes another one
/// waits.
const MAX_KEPT: usize = 16_384;
/// How many different accesses are remembered with their digests.
const MAX_RECENT: usize = 16;

/// What the thread is told.
pub(super) enum Message {
    /// Something was decided, at this time.
    Note(u64, Noted),
    /// Whoever waits for it is told when all before it was written.
    Flush(SyncSender<()>),
}

/// Makes records and writes them.
pub(super) struct Recorder {
    audit: Option<AuditWriter>,
    live: broadcast::Sender<Arc<Entry>>,
    fault: Arc<Mutex<Option<String>>>,
    /// How many entries there were, where there is no audit that numbers them.
    number: u64,
    /// What holds, as it was written last.
    policy: Option<Policy>,
    /// Where that was read from.
    snapshot: Option<Arc<Snapshot>>,
    /// The digests of what the file that is written to says who may see what.
    accesses: HashSet<String>,
    /// Whether a new file has to begin with what holds, and with which record those begin that are
    /// kept.
    restate: Option<u64>,
    recent: VecDeque<(Access, String)>,
}

impl Recorder {
    pub(super) fn new(
        audit: Option<AuditWriter>,
        live: broadcast::Sender<Arc<Entry>>,
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

    /// Writes what it is told, until nobody can tell it anything any longer.
    pub(super) fn run(mut self, told: &Receiver<Message>) {
        let mut kept: VecDeque<(u64, Noted)> = VecDeque::new();
        let mut waiting: Vec<SyncSender<()>> = Vec::new();
        let (mut synced, mut failed): (Instant, Option<Instant>) = (Instant::now(), None);
        loop {
            let mut has_ended = false;
            if kept.len() < MAX_KEPT {
                match told.recv_timeout(PAUSE) {
                    Ok(Message::Note(at_ms, noted)) => kept.push_back((at_ms, noted)),
                    Ok(Message::Flush(done)) => waiting.push(done),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => has_ended = true,
                }
            } else {
                std::thread::sleep(PAUSE);
            }
            let is_asked = has_ended || !waiting.is_empty();
            if failed.is_some_and(|at| at.elapsed() < PAUSE) && !is_asked {
                continue;
            }
            let mut written = self.write(&mut kept);
            if written.is_ok() && (is_asked || failed.is_some() || synced.elapsed() >= PAUSE) {
                written = self.audit.as_mut().map_or(Ok(()), |audit| {
                    audit.sync().map_err(|error| error.to_string())
                });
                synced = Instant::now();
            }
            if let Err(message) = &written
                && failed.is_none()
            {
                tracing::error!(target: "picktools::audit", %message, "what is done cannot be recorded; nothing is until it can");
            }
            failed = written.is_err().then(Instant::now);
            *lock(&self.fault) = written.err();
            // Whoever waits may have gone.
            for done in waiting.drain(..) {
                let _gone = done.send(());
            }
            if has_ended {
                return;
            }
        }
    }

    /// Writes what is kept, the oldest first.
    fn write(&mut self, kept: &mut VecDeque<(u64, Noted)>) -> Result<(), String> {
        while let Some((at_ms, noted)) = kept.pop_front() {
            if let Err((message, noted)) = self.write_one(at_ms, noted) {
                kept.push_front((at_ms, noted));
                return Err(message);
            }
        }
        Ok(())
    }

    /// Writes one; what cannot be written is given back.
    fn write_one(&mut self, at_ms: u64, noted: Noted) -> Result<(), (String, Noted)> {
        if let Err(message) = self.begin_file(at_ms) {
            return Err((message, noted));
        }
        match noted {
            Noted::Selected(picked) => {
                let written = self.name(at_ms, picked.access()).and_then(|access| {
                    let what = picked.told(&access).map_err(|error| error.to_string())?;
                    self.record(at_ms, what)
                });
                written.map_err(|message| (message, Noted::Selected(picked)))
            }
            Noted::Changed(snapshot) => self
                .change(at_ms, &snapshot)
                .map_err(|message| (message, Noted::Changed(snapshot))),
            // What is told of these is small, and made anew where it has to be.
            Noted::Called(called, outcome, time) => {
                let again = called.clone();
                self.record(at_ms, called.told(outcome, time))
                    .map_err(|message| (message, Noted::Called(again, outcome, time)))
            }
            Noted::Narrowed(narrowing) => {
                let again = narrowing.clone();
                self.record(at_ms, narrowing.told())
                    .map_err(|message| (message, Noted::Narrowed(again)))
            }
            Noted::Approved(approval) => {
                let again = approval.clone();
                self.record(at_ms, approval.told())
                    .map_err(|message| (message, Noted::Approved(again)))
            }
        }
    }

    /// Writes an entry, and tells whoever watches what was written.
    fn record(&mut self, at_ms: u64, what: What) -> Result<(), String> {
        let mut entry = Entry {
            number: None,
            at_ms,
            what,
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
        // Nobody may be watching.
        drop(self.live.send(Arc::new(entry)));
        Ok(())
    }

    /// Begins a new file where the one that is written to is full: with what holds, so that it can
    /// be read without those before.
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
            self.restate = Some(audit.first_kept().map_err(|error| error.to_string())?);
            self.accesses.clear();
        }
        let Some(first) = self.restate else {
            return Ok(());
        };
        if let Some(policy) = self.policy.clone() {
            let mut told = policy.told.clone();
            told["changed"] = json!(["file"]);
            told["first"] = json!(first);
            self.record(at_ms, What::Policy(told))?;
            self.know(&policy);
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

    /// Writes what holds from now on, where it is something else than before.
    fn change(&mut self, at_ms: u64, snapshot: &Arc<Snapshot>) -> Result<(), String> {
        let now = policy(snapshot)?;
        let mut changed = Vec::new();
        match &self.policy {
            None => changed.push("start"),
            Some(before) => {
                let is_other = |name: &str| before.told[name] != now.told[name];
                changed.extend((before.settings != now.settings).then_some("settings"));
                changed.extend((before.catalog != now.catalog).then_some("catalog"));
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
        let mut told = now.told.clone();
        told["changed"] = json!(changed);
        if let Some(remnant) = self
            .audit
            .as_ref()
            .and_then(AuditWriter::remnant)
            .filter(|_| self.policy.is_none())
        {
            told["remnant"] = json!(remnant);
        }
        self.record(at_ms, What::Policy(told))?;
        self.know(&now);
        self.policy = Some(now);
        Ok(())
    }

    /// Notes which accesses have been written.
    fn know(&mut self, policy: &Policy) {
        let accesses = policy.told["access"].as_object().into_iter().flatten();
        self.accesses
            .extend(accesses.map(|(digest, _)| digest.clone()));
    }

    /// The digest of who may see what, which is written before it is first used.
    fn name(&mut self, at_ms: u64, access: &Access) -> Result<String, String> {
        let known = self
            .recent
            .iter()
            .find(|(known, _)| known == access)
            .map(|(_, digest)| digest.clone());
        let digest = match known {
            Some(digest) => digest,
            None => {
                let digest = digest_of(access).map_err(|error| error.to_string())?;
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
                What::Policy(json!({"changed": ["access"], "access": accesses})),
            )?;
            self.accesses.insert(digest.clone());
        }
        Ok(digest)
    }
}
