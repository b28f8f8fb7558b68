//! What publishing writes, and what is left behind when it is cut off.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use foldhash::HashMap;
use redis::{Connection, Pipeline, Value};

use super::keys::{Generation, row_arguments};
use super::mending::number;
use super::search::{
    self, EXAMPLE_WORDS, NAME_WORDS, NAMES, POLICY, ROW, SOURCE, WORDS, tag, vector_field,
};
use super::{OOM, ROWS_AT_ONCE, RedisStore, kind, vector_bytes};
use crate::first_stage::name_tag;
use crate::head::{Current, Head, policy_tag, source_tag};
use crate::{Collected, Store as _, StoreError};
use picktools::shard::{Row, RowKey, SourceKey, SourceRow};

/// How long a write may take: many rows go into an index at once.
pub(super) const WRITE: Duration = Duration::from_secs(30);
/// For how long a publisher has the lock that is not heard of any more.
const LOCKED_MS: u64 = 60_000;
/// How many rows are written at once.
const ROWS_A_WRITE: usize = 200;
/// The most times that a word stands in a document.
const MOST_REPEATS: u16 = 4;

/// By how much the counts of a term change: of tools, of sources, and of examples.
pub(crate) type TermChanges = HashMap<u64, [i64; 3]>;

/// A publisher's hold on a tenant's part of a store; let go of when it is dropped.
pub(crate) struct Publishing<'s> {
    pub(super) store: &'s RedisStore,
    hold: Hold,
}

/// By what is known that nobody else publishes.
enum Hold {
    /// The lock, with this in it.
    Lock(String),
    /// Nothing, in a store that is too full for a lock: each write is done only while nobody has
    /// one and this is the snapshot still.
    Snapshot(Option<Current>),
}

/// Which snapshot must be the current one for a write to be done.
#[derive(Clone, Copy)]
enum Expected<'c> {
    Any,
    This(Option<&'c Current>),
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        if let Hold::Snapshot(_) = self.hold {
            return;
        }
        // One that cannot be let go of runs out by itself.
        let mut free = redis::pipe();
        free.atomic().cmd("DEL").arg(self.store.keys.lock());
        if let Err(error) = self.transact(self.store.timeout, Expected::Any, &free) {
            tracing::warn!(target: "picktools::store", %error, "the lock of a publication runs out in a minute");
        }
    }
}

impl RedisStore {
    /// Begins to publish, as the only one who does.
    pub(crate) fn begin(&self) -> Result<Publishing<'_>, StoreError> {
        let token = format!("{:016x}", RandomState::new().build_hasher().finish());
        let key = self.keys.lock();
        let taken: Option<String> = self.ask(self.timeout, |connection| {
            redis::cmd("SET")
                .arg(&key)
                .arg(&token)
                .arg("NX")
                .arg("PX")
                .arg(LOCKED_MS)
                .query(connection)
        })?;
        match taken {
            Some(_) => Ok(Publishing {
                store: self,
                hold: Hold::Lock(token),
            }),
            None => {
                self.let_lock_run_out()?;
                let reason = format!(
                    "somebody else publishes a catalog of the tenant {:?}",
                    self.keys.tenant
                );
                Err(StoreError::Busy {
                    address: self.shown.clone(),
                    reason,
                })
            }
        }
    }

    /// Begins to remove, as the only one who writes. In a store that is full there is no room for a
    /// lock: nothing more is removed then once somebody else has begun to publish.
    pub(crate) fn begin_to_remove(&self) -> Result<Publishing<'_>, StoreError> {
        match self.begin() {
            Err(StoreError::Unavailable { reason, .. }) if reason.contains(OOM) => {
                self.let_lock_run_out()?;
                Ok(Publishing {
                    store: self,
                    hold: Hold::Snapshot(self.current(WRITE)?),
                })
            }
            begun => begun,
        }
    }

    /// Gives a lock an end that has none: no publication leaves one that does not run out by
    /// itself.
    fn let_lock_run_out(&self) -> Result<(), StoreError> {
        let key = self.keys.lock();
        self.ask(self.timeout, |connection| {
            let left: i64 = redis::cmd("PTTL").arg(&key).query(connection)?;
            if left == -1 {
                redis::cmd("PEXPIRE")
                    .arg(&key)
                    .arg(LOCKED_MS)
                    .exec(connection)
            } else {
                Ok(())
            }
        })
    }
}

impl Publishing<'_> {
    /// Returns the next number, of a version or of a generation: larger than that of the snapshot
    /// before and of all generations, also where the counter is lost.
    pub(crate) fn next_number(&self, before: Option<&Current>) -> Result<u64, StoreError> {
        let key = self.store.keys.counter();
        let generations: BTreeSet<u64> = self.generations()?;
        let next =
            |connection: &mut Connection| redis::cmd("INCR").arg(&key).query::<u64>(connection);
        let number = self.store.ask(self.store.timeout, next)?;
        let last = before.map_or(0, |before| before.version.max(before.generation));
        let least = generations
            .last()
            .map_or(last, |&generation| generation.max(last))
            + 1;
        if number >= least {
            return Ok(number);
        }
        self.store.ask(self.store.timeout, |connection| {
            redis::cmd("SET").arg(&key).arg(least).exec(connection)
        })?;
        Ok(least)
    }

    /// The generations that there may be keys of.
    fn generations(&self) -> Result<BTreeSet<u64>, StoreError> {
        let key = self.store.keys.generations();
        let members: Vec<Vec<u8>> = self
            .store
            .ask(WRITE, |connection| {
                redis::cmd("SMEMBERS").arg(&key).query(connection)
            })
            .map_err(|error| self.store.naming(error, std::slice::from_ref(&key), "set"))?;
        let numbers: Option<BTreeSet<u64>> = members.iter().map(|member| number(member)).collect();
        numbers.ok_or_else(|| self.store.damaged(&key, "it holds what is no number"))
    }

    /// Says that the publication goes on.
    fn keep_lock(&self) -> Result<(), StoreError> {
        let key = self.store.keys.lock();
        let (holder, _): (Option<String>, Value) =
            self.store.ask(self.store.timeout, |connection| {
                redis::pipe()
                    .cmd("GET")
                    .arg(&key)
                    .cmd("PEXPIRE")
                    .arg(&key)
                    .arg(LOCKED_MS)
                    .query(connection)
            })?;
        if self.is_held(holder.as_deref()) {
            Ok(())
        } else {
            Err(self.lost())
        }
    }

    /// Whether the lock is as it must be.
    fn is_held(&self, holder: Option<&str>) -> bool {
        match &self.hold {
            Hold::Lock(token) => holder == Some(token),
            Hold::Snapshot(_) => holder.is_none(),
        }
    }

    fn lost(&self) -> StoreError {
        let reason =
            "somebody else has published meanwhile, and nothing of this publication counts"
                .to_owned();
        StoreError::Busy {
            address: self.store.shown.clone(),
            reason,
        }
    }

    /// Makes room for a generation.
    pub(crate) fn begin_generation(
        &self,
        generation: u64,
        dimensions: &[usize],
    ) -> Result<(), StoreError> {
        let keys = &self.store.keys;
        let made = keys.generation(generation);
        let create = search::create(&made.index(), &made.of_tools(), dimensions);
        self.drop_index(generation)?;
        self.store.ask(WRITE, |connection| {
            redis::cmd("SADD")
                .arg(keys.generations())
                .arg(generation)
                .exec(connection)?;
            create.exec(connection)
        })
    }

    /// Writes rows, which count for nothing before the publication is done.
    pub(crate) fn write_rows(
        &self,
        head: &Head,
        rows: impl Iterator<Item = (RowKey, Row)>,
        done: impl Fn(usize),
    ) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        let mut rows = rows.peekable();
        let mut written = 0;
        while rows.peek().is_some() {
            self.keep_lock()?;
            let batch: Vec<(RowKey, Row)> = rows.by_ref().take(ROWS_A_WRITE).collect();
            let mut writes = redis::pipe();
            let keys: Vec<RowKey> = batch.iter().map(|(key, _)| *key).collect();
            writes
                .cmd("SADD")
                .arg(generation.staged())
                .arg(row_arguments(&keys));
            batch
                .iter()
                .for_each(|(key, row)| write_row(&mut writes, &generation, *key, row));
            self.store
                .ask(WRITE, |connection| writes.exec(connection))?;
            written += batch.len();
            done(written);
        }
        Ok(())
    }

    /// Writes which tools and sources a new generation has and how many hold each term.
    pub(crate) fn write_counts(
        &self,
        head: &Head,
        tools: &[RowKey],
        sources: &[(SourceKey, SourceRow)],
        terms: [Vec<(u64, u32)>; 3],
    ) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        for tools in tools.chunks(10 * ROWS_AT_ONCE) {
            self.keep_lock()?;
            let add = |connection: &mut Connection| {
                redis::cmd("SADD")
                    .arg(generation.tools())
                    .arg(row_arguments(tools))
                    .exec(connection)
            };
            self.store.ask(WRITE, add)?;
        }
        for sources in sources.chunks(ROWS_AT_ONCE) {
            self.keep_lock()?;
            let mut writes = redis::pipe();
            for (key, row) in sources {
                writes
                    .cmd("SET")
                    .arg(generation.source(*key))
                    .arg(row.to_bytes());
            }
            self.store
                .ask(WRITE, |connection| writes.exec(connection))?;
        }
        let write = |(of, counts): (usize, Vec<(u64, u32)>)| {
            self.write_buckets(head, counts, |bucket| {
                std::mem::take(&mut generation.counts_of_terms(bucket)[of])
            })
        };
        terms.into_iter().enumerate().try_for_each(write)
    }

    fn write_buckets(
        &self,
        head: &Head,
        mut counts: Vec<(u64, u32)>,
        key: impl Fn(u64) -> String,
    ) -> Result<(), StoreError> {
        counts.sort_unstable_by_key(|&(term, _)| (head.bucket(term), term));
        let buckets: Vec<&[(u64, u32)]> = counts
            .chunk_by(|(one, _), (other, _)| head.bucket(*one) == head.bucket(*other))
            .collect();
        for buckets in buckets.chunks(ROWS_AT_ONCE) {
            self.keep_lock()?;
            let mut writes = redis::pipe();
            for bucket in buckets {
                let set = writes.cmd("HSET").arg(key(head.bucket(bucket[0].0)));
                for (term, count) in *bucket {
                    set.arg(&term.to_le_bytes()).arg(*count);
                }
            }
            self.store
                .ask(WRITE, |connection| writes.exec(connection))?;
        }
        Ok(())
    }

    /// Makes a new generation the current snapshot, in one step.
    pub(crate) fn switch(&self, before: Option<&Current>, head: &Head) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        let mut writes = self.switching(head)?;
        writes.cmd("DEL").arg(generation.staged());
        self.transact(WRITE, Expected::This(before), &writes)
    }

    /// Makes a change of the generation the current snapshot, in one step.
    pub(crate) fn change(
        &self,
        before: &Current,
        head: &Head,
        (come, gone): (&[RowKey], &[RowKey]),
        (put, left): (&[(SourceKey, SourceRow)], &[SourceKey]),
        terms: &TermChanges,
    ) -> Result<(), StoreError> {
        let generation = self.store.generation(head);
        let mut writes = self.switching(head)?;
        for (command, keys) in [("SADD", come), ("SREM", gone)] {
            if !keys.is_empty() {
                writes
                    .cmd(command)
                    .arg(generation.tools())
                    .arg(row_arguments(keys));
            }
        }
        for (key, row) in put {
            writes
                .cmd("SET")
                .arg(generation.source(*key))
                .arg(row.to_bytes());
        }
        for key in left {
            writes.cmd("DEL").arg(generation.source(*key));
        }
        for (&term, &changes) in terms {
            let counts = generation.counts_of_terms(head.bucket(term));
            for (key, by) in counts.into_iter().zip(changes).filter(|(_, by)| *by != 0) {
                writes
                    .cmd("HINCRBY")
                    .arg(key)
                    .arg(&term.to_le_bytes())
                    .arg(by);
            }
        }
        // What goes is noted before, so that it is removed also if this is cut off behind the
        // transaction.
        for gone in gone.chunks(10 * ROWS_AT_ONCE) {
            let add = |connection: &mut Connection| {
                redis::cmd("SADD")
                    .arg(generation.staged())
                    .arg(row_arguments(gone))
                    .exec(connection)
            };
            self.store.ask(WRITE, add)?;
        }
        self.transact(WRITE, Expected::This(Some(before)), &writes)?;
        // Whoever still has the snapshot before does without the rows that are gone.
        self.remove(
            gone.iter()
                .map(|key| generation.tool(*key))
                .chain([generation.staged()]),
        )
    }

    fn switching(&self, head: &Head) -> Result<Pipeline, StoreError> {
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

    /// Writes all or nothing: nothing where somebody else publishes by now, or another snapshot is
    /// the current one than is expected.
    fn transact(
        &self,
        within: Duration,
        expected: Expected<'_>,
        writes: &Pipeline,
    ) -> Result<(), StoreError> {
        let (current, lock) = (self.store.keys.current(), self.store.keys.lock());
        let expected = match &self.hold {
            Hold::Lock(_) => expected,
            Hold::Snapshot(before) => Expected::This(before.as_ref()),
        };
        let done = self.store.ask(within, |connection: &mut Connection| {
            redis::cmd("WATCH")
                .arg(&current)
                .arg(&lock)
                .exec(connection)?;
            let holder: Option<String> = redis::cmd("GET").arg(&lock).query(connection)?;
            let mut is_alone = self.is_held(holder.as_deref());
            if let Expected::This(before) = expected {
                let now: Option<Vec<u8>> = redis::cmd("GET").arg(&current).query(connection)?;
                let now: Option<Current> = now.and_then(|now| serde_json::from_slice(&now).ok());
                is_alone &= now.as_ref() == before;
            }
            if !is_alone {
                redis::cmd("UNWATCH").exec(connection)?;
                return Ok(false);
            }
            Ok(writes.query::<Option<Vec<Value>>>(connection)?.is_some())
        })?;
        if done { Ok(()) } else { Err(self.lost()) }
    }

    /// Removes keys.
    fn remove(&self, keys: impl Iterator<Item = String>) -> Result<(), StoreError> {
        let keys: Vec<String> = keys.collect();
        for keys in keys.chunks(ROWS_A_WRITE) {
            let mut removal = redis::pipe();
            removal
                .atomic()
                .cmd("PEXPIRE")
                .arg(self.store.keys.lock())
                .arg(LOCKED_MS)
                .cmd("UNLINK")
                .arg(keys);
            self.transact(WRITE, Expected::Any, &removal)?;
        }
        Ok(())
    }

    /// Forgets a generation.
    fn forget(&self, generation: u64) -> Result<(), StoreError> {
        let mut removal = redis::pipe();
        removal
            .atomic()
            .cmd("SREM")
            .arg(self.store.keys.generations())
            .arg(generation);
        self.transact(WRITE, Expected::Any, &removal)
    }

    /// Removes what publications left behind that were cut off, and generations that are not the
    /// current one's.
    pub(crate) fn collect(&self, current: Option<&Current>) -> Result<Collected, StoreError> {
        let keys = &self.store.keys;
        let mut garbage = Collected::default();
        for number in self.generations()? {
            let generation = keys.generation(number);
            if current.is_some_and(|current| current.generation == number) {
                let left: Vec<Vec<u8>> = self.store.ask(WRITE, |connection| {
                    redis::cmd("SDIFF")
                        .arg(generation.staged())
                        .arg(generation.tools())
                        .query(connection)
                })?;
                let rows = left
                    .into_iter()
                    .filter_map(|key| Some(RowKey(key.try_into().ok()?)));
                let rows: Vec<String> = rows.map(|key| generation.tool(key)).collect();
                garbage.keys += rows.len();
                self.remove(rows.into_iter().chain([generation.staged()]))?;
                continue;
            }
            // Without the index first, or it would be mended with each row that goes.
            self.drop_index(number)?;
            garbage.generations += 1;
            garbage.keys += self.remove_generation(&generation)?;
            self.forget(number)?;
        }
        Ok(garbage)
    }

    /// Removes all generations but one, known or not.
    pub(crate) fn remove_others(&self, number: u64) -> Result<(), StoreError> {
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
            keys.generation_of(key)
                .is_some_and(|generation| generation != number)
        };
        self.remove_all(keys.all(), is_other).map(drop)
    }

    fn drop_index(&self, generation: u64) -> Result<(), StoreError> {
        let mut removal = redis::pipe();
        removal
            .atomic()
            .cmd("FT.DROPINDEX")
            .arg(self.store.keys.generation(generation).index());
        match self.transact(WRITE, Expected::Any, &removal) {
            Err(StoreError::Damaged { reason, .. }) => {
                tracing::debug!(target: "picktools::store", %reason, generation, "there is no index of it");
                Ok(())
            }
            dropped => dropped,
        }
    }

    fn remove_generation(&self, generation: &Generation) -> Result<usize, StoreError> {
        self.remove_all(&generation.prefix, |_| true)
    }

    /// Removes the keys that begin so and that `goes` accepts.
    fn remove_all(
        &self,
        beginning: &str,
        goes: impl Fn(&str) -> bool,
    ) -> Result<usize, StoreError> {
        let mut removed = 0;
        self.each_key(beginning, |keys| {
            let keys: Vec<String> = keys.into_iter().filter(|key| goes(key)).collect();
            removed += keys.len();
            self.remove(keys.into_iter())
        })?;
        Ok(removed)
    }

    /// Tells the keys that begin so, many at a time.
    pub(super) fn each_key(
        &self,
        beginning: &str,
        mut tell: impl FnMut(Vec<String>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // What means something in a pattern stands for itself.
        let literal = |sign: char| {
            if "*?[]\\".contains(sign) {
                vec!['\\', sign]
            } else {
                vec![sign]
            }
        };
        let pattern: String = beginning.chars().flat_map(literal).chain(['*']).collect();
        let mut cursor = 0_u64;
        loop {
            let (next, keys): (u64, Vec<String>) = self.store.ask(WRITE, |connection| {
                redis::cmd("SCAN")
                    .arg(cursor)
                    .arg("MATCH")
                    .arg(&pattern)
                    .arg("COUNT")
                    .arg(ROWS_AT_ONCE)
                    .query(connection)
            })?;
            tell(keys)?;
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

impl RedisStore {
    /// Returns how many documents the index of a snapshot has.
    pub(crate) fn indexed(&self, head: &Head, within: Duration) -> Result<u64, StoreError> {
        let index = self.generation(head).index();
        let information: Value = self.ask(within, |connection| {
            redis::cmd("FT.INFO").arg(&index).query(connection)
        })?;
        let Value::Array(pairs) = &information else {
            return Err(self.damaged(index, kind(&information)));
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
        count.ok_or_else(|| self.damaged(index, "it does not tell how many documents it has"))
    }

    /// Returns whether a snapshot tells which tools it has.
    pub(crate) fn has_tools(&self, head: &Head, within: Duration) -> Result<bool, StoreError> {
        let tools = self.generation(head).tools();
        self.ask(within, |connection| {
            redis::cmd("EXISTS").arg(&tools).query(connection)
        })
    }

    /// Returns how much memory the whole server takes, in bytes.
    pub(crate) fn memory(&self, within: Duration) -> Result<Option<u64>, StoreError> {
        let text: String = self.ask(within, |connection| {
            redis::cmd("INFO").arg("memory").query(connection)
        })?;
        Ok(text
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok()))
    }
}

/// Writes the document of a tool: what it is found by, and its row.
fn write_row(writes: &mut Pipeline, generation: &Generation, key: RowKey, row: &Row) {
    let tool = row.tool.outline();
    let (mut of_name, mut others) = (String::new(), String::new());
    for (term, frequency, is_name) in row.terms() {
        let text = if is_name { &mut of_name } else { &mut others };
        for _ in 0..(frequency / 2).clamp(1, MOST_REPEATS) {
            text.push_str(&tag(term));
            text.push(' ');
        }
    }
    let of_examples: BTreeSet<String> = row.example_terms().concat().into_iter().map(tag).collect();
    let aliases = tool.aliases.iter().map(|alias| alias.name.as_str());
    let qualified = tool.qualified_name();
    let names = [tool.name.as_str(), tool.id.as_str(), qualified.as_str()]
        .into_iter()
        .chain(aliases);
    let names: BTreeSet<String> = names.map(|name| tag(name_tag(name))).collect();
    let set = writes.cmd("HSET").arg(generation.tool(key));
    set.arg(NAME_WORDS).arg(of_name).arg(WORDS).arg(others);
    set.arg(POLICY)
        .arg(tag(policy_tag(tool)))
        .arg(SOURCE)
        .arg(tag(source_tag(tool.source.as_deref())));
    if !of_examples.is_empty() {
        set.arg(EXAMPLE_WORDS)
            .arg(of_examples.into_iter().collect::<Vec<_>>().join(" "));
    }
    set.arg(NAMES)
        .arg(names.into_iter().collect::<Vec<_>>().join(","));
    for (model, vector) in row.vectors().enumerate() {
        set.arg(vector_field(model)).arg(vector_bytes(&vector));
    }
    set.arg(ROW).arg(row.to_bytes());
}
