//! The commands of a publisher: rows, counts, transactions and the removal of garbage.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use foldhash::HashMap;
use picktools_net::RedisConnection;
use redis::{Pipeline, Value};

use super::keys::{GenerationKeys, row_arguments};
use super::number::parse_number;
use super::search::{
    self, EXAMPLE_WORDS, NAME_WORDS, NAMES, POLICY, ROW, SOURCE, WORDS, tag, vector_bytes,
    vector_field,
};
use super::{OOM, ROWS_AT_ONCE, RedisStore, describe};
use crate::first_stage::name_tag;
use crate::head::{CurrentSnapshot, SnapshotHead, policy_tag, source_tag};
use crate::{GarbageReport, Store as _, StoreError};
use picktools::shard::{Row, RowKey, SourceKey, SourceRow};

/// The timeout of a write, which may add many rows to an index.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time after which the lock of a silent publisher expires, in milliseconds.
const LOCK_MS: u64 = 60_000;
/// The number of rows per write.
const ROWS_PER_WRITE: usize = 200;
/// The largest number of repetitions of a word in a document.
const MAX_REPEATS: u16 = 4;

/// The changes of the counts of each term: by tools, by sources and by examples.
pub(crate) type TermChanges = HashMap<u64, [i64; 3]>;

/// The exclusive right to write the data of a tenant. It ends when this value is dropped.
pub(crate) struct Publisher<'s> {
    pub(super) store: &'s RedisStore,
    guard: PublishGuard,
}

/// The guarantee that no other publisher is active.
enum PublishGuard {
    /// The lock, with this token as its value.
    Lock(String),
    /// No lock, because the store is full.
    ///
    /// Each write is only executed if nobody has the lock and this is still the current snapshot.
    Snapshot(Option<CurrentSnapshot>),
}

/// The changes of a small publication within a generation.
pub(crate) struct GenerationChanges<'c> {
    pub(crate) added: &'c [RowKey],
    pub(crate) removed: &'c [RowKey],
    pub(crate) changed_sources: &'c [(SourceKey, SourceRow)],
    pub(crate) removed_sources: &'c [SourceKey],
    pub(crate) terms: &'c TermChanges,
}

/// The current snapshot that a write requires.
#[derive(Clone, Copy)]
enum ExpectedSnapshot<'c> {
    Any,
    This(Option<&'c CurrentSnapshot>),
}

impl Drop for Publisher<'_> {
    fn drop(&mut self) {
        if let PublishGuard::Snapshot(_) = self.guard {
            return;
        }
        // If the lock cannot be released, it expires.
        let mut release = redis::pipe();
        release.atomic().cmd("DEL").arg(self.store.keys.lock());
        if let Err(error) = self.transact(self.store.timeout, ExpectedSnapshot::Any, &release) {
            tracing::warn!(
                target: "picktools::store", %error,
                "releasing the publication lock failed; it expires in a minute"
            );
        }
    }
}

impl RedisStore {
    /// Takes the lock of publishers.
    pub(crate) fn begin(&self) -> Result<Publisher<'_>, StoreError> {
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        let key = self.keys.lock();
        let locked: Option<String> = self.execute(self.timeout, |connection| {
            redis::cmd("SET")
                .arg(&key)
                .arg(&token)
                .arg("NX")
                .arg("PX")
                .arg(LOCK_MS)
                .query(connection)
        })?;
        match locked {
            Some(_) => Ok(Publisher {
                store: self,
                guard: PublishGuard::Lock(token),
            }),
            None => {
                self.ensure_lock_expires()?;
                let reason = format!(
                    "another publisher writes the catalog of the tenant {:?}",
                    self.keys.tenant
                );
                Err(StoreError::Busy {
                    address: self.address.clone(),
                    reason,
                })
            }
        }
    }

    /// Starts a removal of garbage.
    ///
    /// A full store has no room for a lock. The removal then stops as soon as another publisher
    /// starts.
    pub(crate) fn begin_removal(&self) -> Result<Publisher<'_>, StoreError> {
        match self.begin() {
            Err(StoreError::Unavailable { reason, .. }) if reason.contains(OOM) => {
                self.ensure_lock_expires()?;
                Ok(Publisher {
                    store: self,
                    guard: PublishGuard::Snapshot(self.current(WRITE_TIMEOUT)?),
                })
            }
            result => result,
        }
    }

    /// Sets an expiry for a lock without one. No publisher of this program leaves such a lock.
    fn ensure_lock_expires(&self) -> Result<(), StoreError> {
        let key = self.keys.lock();
        self.execute(self.timeout, |connection| {
            let remaining: i64 = redis::cmd("PTTL").arg(&key).query(connection)?;
            if remaining == -1 {
                redis::cmd("PEXPIRE")
                    .arg(&key)
                    .arg(LOCK_MS)
                    .exec(connection)
            } else {
                Ok(())
            }
        })
    }
}

impl Publisher<'_> {
    /// Returns the store.
    pub(crate) fn store(&self) -> &RedisStore {
        self.store
    }

    /// Returns the next number of a version or a generation.
    ///
    /// It is larger than the numbers of the previous snapshot and of all generations, even if the
    /// counter was lost.
    pub(crate) fn next_number(&self, before: Option<&CurrentSnapshot>) -> Result<u64, StoreError> {
        let key = self.store.keys.counter();
        let generations: BTreeSet<u64> = self.generations()?;
        let next = |connection: &mut RedisConnection| {
            redis::cmd("INCR").arg(&key).query::<u64>(connection)
        };
        let number = self.store.execute(self.store.timeout, next)?;
        let last = before.map_or(0, |before| before.version.max(before.generation));
        let minimum = generations
            .last()
            .map_or(last, |&generation| generation.max(last))
            + 1;
        if number >= minimum {
            return Ok(number);
        }
        self.store.execute(self.store.timeout, |connection| {
            redis::cmd("SET").arg(&key).arg(minimum).exec(connection)
        })?;
        Ok(minimum)
    }

    /// Returns the generations that may have keys.
    fn generations(&self) -> Result<BTreeSet<u64>, StoreError> {
        let key = self.store.keys.generations();
        let members: Vec<Vec<u8>> = self
            .store
            .execute(WRITE_TIMEOUT, |connection| {
                redis::cmd("SMEMBERS").arg(&key).query(connection)
            })
            .map_err(|error| {
                self.store
                    .locate_damage(error, std::slice::from_ref(&key), "set")
            })?;
        let numbers: Option<BTreeSet<u64>> =
            members.iter().map(|member| parse_number(member)).collect();
        numbers.ok_or_else(|| self.store.damaged(&key, "it contains an invalid number"))
    }

    /// Extends the lock.
    fn extend_lock(&self) -> Result<(), StoreError> {
        let key = self.store.keys.lock();
        let (holder, _): (Option<String>, Value) =
            self.store.execute(self.store.timeout, |connection| {
                redis::pipe()
                    .cmd("GET")
                    .arg(&key)
                    .cmd("PEXPIRE")
                    .arg(&key)
                    .arg(LOCK_MS)
                    .query(connection)
            })?;
        if self.is_exclusive(holder.as_deref()) {
            Ok(())
        } else {
            Err(self.conflict())
        }
    }

    /// Returns `true` if the holder of the lock is this publisher, or nobody if it has no lock.
    fn is_exclusive(&self, holder: Option<&str>) -> bool {
        match &self.guard {
            PublishGuard::Lock(token) => holder == Some(token),
            PublishGuard::Snapshot(_) => holder.is_none(),
        }
    }

    fn conflict(&self) -> StoreError {
        let reason = "another publisher has published meanwhile; this publication was discarded";
        StoreError::Busy {
            address: self.store.address.clone(),
            reason: reason.to_owned(),
        }
    }

    /// Creates the index of a generation.
    pub(crate) fn begin_generation(
        &self,
        generation: u64,
        dimensions: &[usize],
    ) -> Result<(), StoreError> {
        let keys = &self.store.keys;
        let names = keys.generation(generation);
        let create = search::create_index(&names.index(), &names.tool_prefix(), dimensions);
        self.drop_index(generation)?;
        self.store.execute(WRITE_TIMEOUT, |connection| {
            redis::cmd("SADD")
                .arg(keys.generations())
                .arg(generation)
                .exec(connection)?;
            create.exec(connection)
        })
    }

    /// Writes rows. They are not visible before the publication is complete.
    pub(crate) fn write_rows(
        &self,
        head: &SnapshotHead,
        rows: impl Iterator<Item = (RowKey, Row)>,
        progress: impl Fn(usize),
    ) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        let mut rows = rows.peekable();
        let mut written = 0;
        while rows.peek().is_some() {
            self.extend_lock()?;
            let batch: Vec<(RowKey, Row)> = rows.by_ref().take(ROWS_PER_WRITE).collect();
            let mut writes = redis::pipe();
            let keys: Vec<RowKey> = batch.iter().map(|(key, _)| *key).collect();
            writes
                .cmd("SADD")
                .arg(generation.staged())
                .arg(row_arguments(&keys));
            for (key, row) in &batch {
                write_row(&mut writes, &generation, *key, row);
            }
            self.store
                .execute(WRITE_TIMEOUT, |connection| writes.exec(connection))?;
            written += batch.len();
            progress(written);
        }
        Ok(())
    }

    /// Writes the set of tools, the sources and the term counts of a new generation.
    pub(crate) fn write_counts(
        &self,
        head: &SnapshotHead,
        tools: &[RowKey],
        sources: &[(SourceKey, SourceRow)],
        terms: [Vec<(u64, u32)>; 3],
    ) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        for tools in tools.chunks(10 * ROWS_AT_ONCE) {
            self.extend_lock()?;
            let add = |connection: &mut RedisConnection| {
                redis::cmd("SADD")
                    .arg(generation.tools())
                    .arg(row_arguments(tools))
                    .exec(connection)
            };
            self.store.execute(WRITE_TIMEOUT, add)?;
        }
        for sources in sources.chunks(ROWS_AT_ONCE) {
            self.extend_lock()?;
            let mut writes = redis::pipe();
            for (key, row) in sources {
                writes
                    .cmd("SET")
                    .arg(generation.source(*key))
                    .arg(row.to_bytes());
            }
            self.store
                .execute(WRITE_TIMEOUT, |connection| writes.exec(connection))?;
        }
        for (kind, counts) in terms.into_iter().enumerate() {
            self.write_buckets(head, counts, |bucket| {
                std::mem::take(&mut generation.term_counts(bucket)[kind])
            })?;
        }
        Ok(())
    }

    /// Writes the counts of terms in their buckets.
    fn write_buckets(
        &self,
        head: &SnapshotHead,
        mut counts: Vec<(u64, u32)>,
        key: impl Fn(u64) -> String,
    ) -> Result<(), StoreError> {
        counts.sort_unstable_by_key(|&(term, _)| (head.bucket(term), term));
        let buckets: Vec<&[(u64, u32)]> = counts
            .chunk_by(|(one, _), (other, _)| head.bucket(*one) == head.bucket(*other))
            .collect();
        for buckets in buckets.chunks(ROWS_AT_ONCE) {
            self.extend_lock()?;
            let mut writes = redis::pipe();
            for bucket in buckets {
                let set = writes.cmd("HSET").arg(key(head.bucket(bucket[0].0)));
                for (term, count) in *bucket {
                    set.arg(&term.to_le_bytes()).arg(*count);
                }
            }
            self.store
                .execute(WRITE_TIMEOUT, |connection| writes.exec(connection))?;
        }
        Ok(())
    }

    /// Makes a new generation the current snapshot, in one transaction.
    pub(crate) fn switch(
        &self,
        before: Option<&CurrentSnapshot>,
        head: &SnapshotHead,
    ) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        let mut writes = self.head_writes(head)?;
        writes.cmd("DEL").arg(generation.staged());
        self.transact(WRITE_TIMEOUT, ExpectedSnapshot::This(before), &writes)
    }

    /// Applies the changes of a generation, in one transaction.
    pub(crate) fn change(
        &self,
        before: &CurrentSnapshot,
        head: &SnapshotHead,
        changes: &GenerationChanges<'_>,
    ) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        let mut writes = self.head_writes(head)?;
        for (command, keys) in [("SADD", changes.added), ("SREM", changes.removed)] {
            if !keys.is_empty() {
                writes
                    .cmd(command)
                    .arg(generation.tools())
                    .arg(row_arguments(keys));
            }
        }
        for (key, row) in changes.changed_sources {
            writes
                .cmd("SET")
                .arg(generation.source(*key))
                .arg(row.to_bytes());
        }
        for key in changes.removed_sources {
            writes.cmd("DEL").arg(generation.source(*key));
        }
        for (&term, &differences) in changes.terms {
            let counts = generation.term_counts(head.bucket(term));
            let differences = counts.into_iter().zip(differences);
            for (key, by) in differences.filter(|(_, by)| *by != 0) {
                writes
                    .cmd("HINCRBY")
                    .arg(key)
                    .arg(&term.to_le_bytes())
                    .arg(by);
            }
        }
        // Removed rows are staged before the transaction. So they are collected later if this
        // process ends directly after it.
        for removed in changes.removed.chunks(10 * ROWS_AT_ONCE) {
            let add = |connection: &mut RedisConnection| {
                redis::cmd("SADD")
                    .arg(generation.staged())
                    .arg(row_arguments(removed))
                    .exec(connection)
            };
            self.store.execute(WRITE_TIMEOUT, add)?;
        }
        self.transact(WRITE_TIMEOUT, ExpectedSnapshot::This(Some(before)), &writes)?;
        // Readers of the previous snapshot continue without the removed rows.
        let rows = changes.removed.iter().map(|key| generation.tool(*key));
        self.remove(rows.chain([generation.staged()]))
    }

    /// Starts a transaction with the head and the identity of the new snapshot.
    fn head_writes(&self, head: &SnapshotHead) -> Result<Pipeline, StoreError> {
        let generation = self.store.generation(head);
        let json = |value: serde_json::Result<Vec<u8>>| {
            value.map_err(|error| StoreError::Catalog {
                reason: error.to_string(),
            })
        };
        let mut writes = redis::pipe();
        writes.atomic();
        writes
            .cmd("SET")
            .arg(generation.head())
            .arg(json(serde_json::to_vec(head))?);
        writes
            .cmd("SET")
            .arg(self.store.keys.current())
            .arg(json(serde_json::to_vec(&head.current))?);
        Ok(writes)
    }

    /// Tells waiting gateways that the snapshot may have changed. They have created the stream. They
    /// also look by themselves from time to time, so a failure matters little.
    fn report_change(&self, connection: &mut RedisConnection) {
        let mut entry = redis::cmd("XADD");
        entry.arg(self.store.keys.changes());
        entry.arg("NOMKSTREAM").arg("MAXLEN").arg("~").arg(100);
        entry.arg("*").arg("changed").arg("catalog");
        drop(entry.exec(connection));
    }

    /// Executes a transaction, unless another publisher is active or the current snapshot is not
    /// the expected one.
    fn transact(
        &self,
        within: Duration,
        expected: ExpectedSnapshot<'_>,
        writes: &Pipeline,
    ) -> Result<(), StoreError> {
        let (current, lock) = (self.store.keys.current(), self.store.keys.lock());
        let expected = match &self.guard {
            PublishGuard::Lock(_) => expected,
            PublishGuard::Snapshot(before) => ExpectedSnapshot::This(before.as_ref()),
        };
        let done = self
            .store
            .execute(within, |connection: &mut RedisConnection| {
                redis::cmd("WATCH")
                    .arg(&current)
                    .arg(&lock)
                    .exec(connection)?;
                let holder: Option<String> = redis::cmd("GET").arg(&lock).query(connection)?;
                let mut may_write = self.is_exclusive(holder.as_deref());
                if let ExpectedSnapshot::This(before) = expected {
                    let now: Option<Vec<u8>> = redis::cmd("GET").arg(&current).query(connection)?;
                    let now: Option<CurrentSnapshot> =
                        now.and_then(|now| serde_json::from_slice(&now).ok());
                    may_write &= now.as_ref() == before;
                }
                if !may_write {
                    redis::cmd("UNWATCH").exec(connection)?;
                    return Ok(false);
                }
                let is_written = writes.query::<Option<Vec<Value>>>(connection)?.is_some();
                if is_written {
                    self.report_change(connection);
                }
                Ok(is_written)
            })?;
        if done { Ok(()) } else { Err(self.conflict()) }
    }

    /// Removes keys.
    fn remove(&self, keys: impl Iterator<Item = String>) -> Result<(), StoreError> {
        let keys: Vec<String> = keys.collect();
        for keys in keys.chunks(ROWS_PER_WRITE) {
            let mut removal = redis::pipe();
            removal
                .atomic()
                .cmd("PEXPIRE")
                .arg(self.store.keys.lock())
                .arg(LOCK_MS)
                .cmd("UNLINK")
                .arg(keys);
            self.transact(WRITE_TIMEOUT, ExpectedSnapshot::Any, &removal)?;
        }
        Ok(())
    }

    /// Removes a generation from the set of generations.
    fn forget(&self, generation: u64) -> Result<(), StoreError> {
        let mut removal = redis::pipe();
        removal
            .atomic()
            .cmd("SREM")
            .arg(self.store.keys.generations())
            .arg(generation);
        self.transact(WRITE_TIMEOUT, ExpectedSnapshot::Any, &removal)
    }

    /// Removes the remains of interrupted publications, and all generations except the current one.
    pub(crate) fn collect(
        &self,
        current: Option<&CurrentSnapshot>,
    ) -> Result<GarbageReport, StoreError> {
        let keys = &self.store.keys;
        let mut garbage = GarbageReport::default();
        for number in self.generations()? {
            let generation = keys.generation(number);
            if current.is_some_and(|current| current.generation == number) {
                let staged: Vec<Vec<u8>> = self.store.execute(WRITE_TIMEOUT, |connection| {
                    redis::cmd("SDIFF")
                        .arg(generation.staged())
                        .arg(generation.tools())
                        .query(connection)
                })?;
                let rows = staged
                    .into_iter()
                    .filter_map(|key| Some(RowKey(key.try_into().ok()?)));
                let rows: Vec<String> = rows.map(|key| generation.tool(key)).collect();
                garbage.keys += rows.len();
                self.remove(rows.into_iter().chain([generation.staged()]))?;
                continue;
            }
            // The index is removed first. Otherwise it would be updated for each removed row.
            self.drop_index(number)?;
            garbage.generations += 1;
            garbage.keys += self.remove_generation(&generation)?;
            self.forget(number)?;
        }
        Ok(garbage)
    }

    /// Removes all generations except one, including unlisted ones.
    pub(crate) fn remove_other_generations(&self, number: u64) -> Result<(), StoreError> {
        let keys = &self.store.keys;
        for other in self
            .generations()?
            .into_iter()
            .filter(|other| *other != number)
        {
            self.drop_index(other)?;
            self.forget(other)?;
        }
        let is_other = |key: &str| {
            keys.parse_generation(key)
                .is_some_and(|generation| generation != number)
        };
        self.remove_matching(keys.prefix(), is_other).map(drop)
    }

    /// Removes the index of a generation, if it has one.
    fn drop_index(&self, generation: u64) -> Result<(), StoreError> {
        let mut removal = redis::pipe();
        removal
            .atomic()
            .cmd("FT.DROPINDEX")
            .arg(self.store.keys.generation(generation).index());
        match self.transact(WRITE_TIMEOUT, ExpectedSnapshot::Any, &removal) {
            Err(StoreError::Damaged { reason, .. }) => {
                tracing::debug!(
                    target: "picktools::store", %reason, generation,
                    "the generation has no index"
                );
                Ok(())
            }
            result => result,
        }
    }

    fn remove_generation(&self, generation: &GenerationKeys) -> Result<usize, StoreError> {
        self.remove_matching(&generation.prefix, |_| true)
    }

    /// Removes the keys with this prefix that the predicate accepts.
    fn remove_matching(
        &self,
        prefix: &str,
        is_removed: impl Fn(&str) -> bool,
    ) -> Result<usize, StoreError> {
        let mut removed = 0;
        self.for_each_key(prefix, |keys| {
            let keys: Vec<String> = keys.into_iter().filter(|key| is_removed(key)).collect();
            removed += keys.len();
            self.remove(keys.into_iter())
        })?;
        Ok(removed)
    }

    /// Calls a function with the keys that have this prefix, in batches.
    pub(super) fn for_each_key(
        &self,
        prefix: &str,
        mut visit: impl FnMut(Vec<String>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut pattern = String::new();
        for character in prefix.chars() {
            if "*?[]\\".contains(character) {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        pattern.push('*');
        let mut cursor = 0_u64;
        loop {
            let (next, keys): (u64, Vec<String>) =
                self.store.execute(WRITE_TIMEOUT, |connection| {
                    redis::cmd("SCAN")
                        .arg(cursor)
                        .arg("MATCH")
                        .arg(&pattern)
                        .arg("COUNT")
                        .arg(ROWS_AT_ONCE)
                        .query(connection)
                })?;
            visit(keys)?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

impl RedisStore {
    /// Returns the number of documents in the index of a snapshot.
    pub(crate) fn count_documents(
        &self,
        head: &SnapshotHead,
        within: Duration,
    ) -> Result<u64, StoreError> {
        let index = self.generation(head).index();
        let information: Value = self.execute(within, |connection| {
            redis::cmd("FT.INFO").arg(&index).query(connection)
        })?;
        let Value::Array(pairs) = &information else {
            return Err(self.damaged(index, describe(&information)));
        };
        let is_count = |name: &Value| {
            matches!(name, Value::SimpleString(name) if name == "num_docs")
                || matches!(name, Value::BulkString(name) if name == b"num_docs")
        };
        let count = pairs
            .windows(2)
            .find(|pair| is_count(&pair[0]))
            .map(|pair| &pair[1]);
        let count = count.and_then(|count| redis::from_redis_value_ref::<u64>(count).ok());
        count.ok_or_else(|| self.damaged(index, "it does not report the number of documents"))
    }

    /// Returns `true` if the set of tools of a snapshot exists.
    pub(crate) fn has_tools(
        &self,
        head: &SnapshotHead,
        within: Duration,
    ) -> Result<bool, StoreError> {
        let tools = self.generation(head).tools();
        self.execute(within, |connection| {
            redis::cmd("EXISTS").arg(&tools).query(connection)
        })
    }

    /// Returns the memory of the server, in bytes.
    pub(crate) fn memory(&self, within: Duration) -> Result<Option<u64>, StoreError> {
        let text: String = self.execute(within, |connection| {
            redis::cmd("INFO").arg("memory").query(connection)
        })?;
        Ok(text
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok()))
    }
}

/// Writes the document of a tool: the searched fields, and its row.
fn write_row(writes: &mut Pipeline, generation: &GenerationKeys, key: RowKey, row: &Row) {
    let tool = row.tool.outline();
    let (mut name_words, mut words) = (String::new(), String::new());
    for (term, frequency, is_name) in row.terms() {
        let text = if is_name { &mut name_words } else { &mut words };
        for _ in 0..(frequency / 2).clamp(1, MAX_REPEATS) {
            text.push_str(&tag(term));
            text.push(' ');
        }
    }
    let example_terms = row.example_terms().concat();
    let example_words: BTreeSet<String> = example_terms.into_iter().map(tag).collect();
    let aliases = tool.aliases.iter().map(|alias| alias.name.as_str());
    let qualified = tool.qualified_name();
    let names = [tool.name.as_str(), tool.id.as_str(), qualified.as_str()]
        .into_iter()
        .chain(aliases);
    let names: BTreeSet<String> = names.map(|name| tag(name_tag(name))).collect();
    let set = writes.cmd("HSET").arg(generation.tool(key));
    set.arg(NAME_WORDS).arg(name_words).arg(WORDS).arg(words);
    set.arg(POLICY)
        .arg(tag(policy_tag(tool)))
        .arg(SOURCE)
        .arg(tag(source_tag(tool.source.as_deref())));
    if !example_words.is_empty() {
        set.arg(EXAMPLE_WORDS)
            .arg(example_words.into_iter().collect::<Vec<_>>().join(" "));
    }
    set.arg(NAMES)
        .arg(names.into_iter().collect::<Vec<_>>().join(","));
    for (model, vector) in row.vectors().enumerate() {
        set.arg(vector_field(model)).arg(vector_bytes(&vector));
    }
    set.arg(ROW).arg(row.to_bytes());
}
