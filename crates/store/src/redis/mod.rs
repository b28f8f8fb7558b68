//! A store in Redis 8, or in Redis or Valkey with RediSearch 2.10 or newer.

mod keys;
mod number;
mod repair;
mod search;
mod writing;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use picktools_net::{RedisConnection, RedisLimits};
use redis::{ErrorKind, Pipeline, Value};

use self::keys::{GenerationKeys, TenantKeys, row_arguments};
pub(super) use self::writing::{GenerationChanges, Publisher, TermChanges};
use super::first_stage::{FirstStage, WordQuery};
use super::head::{CurrentSnapshot, FORMAT, SnapshotHead};
use super::{MAX_CANDIDATES, Store, StoreError, Values, lock};
use picktools::shard::{RowKey, SourceKey, TermCounts};

/// The largest number of idle connections.
const MAX_IDLE: usize = 16;
/// The most bytes of the answers to the commands of one use of a connection.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// The number of keys per command or pipeline.
const ROWS_AT_ONCE: usize = 1_000;

/// The address and the tenant of a store.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS.
    pub address: String,
    /// The tenant: 1 to 64 lower-case letters, digits and hyphens.
    pub tenant: String,
    /// The timeout of a command. The deadline of a pick may shorten it.
    pub timeout: Duration,
}

impl RedisOptions {
    /// Returns options for an address, with the tenant `default` and a timeout of 500 ms.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            tenant: "default".to_owned(),
            timeout: Duration::from_millis(500),
        }
    }
}

/// The error code of a full store.
const OOM: &str = "OOM";
/// Parts of errors that mean damaged data.
const DAMAGE_ERRORS: [&str; 5] = [
    "wrongtype",
    "no such index",
    "index name",
    "not an integer",
    "would overflow",
];

/// The data of a tenant in Redis or Valkey. Clones are cheap and share connections.
#[derive(Clone)]
pub struct RedisStore {
    client: redis::Client,
    /// The address without user and password.
    address: String,
    keys: TenantKeys,
    timeout: Duration,
    idle: Arc<Mutex<Vec<RedisConnection>>>,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", &self.address)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// Returns an address without user and password.
fn redact_address(address: &str) -> String {
    let start = address.find("://").map_or(0, |scheme| scheme + "://".len());
    let (scheme, rest) = address.split_at(start);
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!(
        "{scheme}{}",
        host.split(['?', '#']).next().unwrap_or_default()
    )
}

impl RedisStore {
    /// Creates a store. It connects with the first command.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the address or the name of the tenant is invalid.
    pub fn new(options: RedisOptions) -> Result<Self, StoreError> {
        let address = redact_address(&options.address);
        let invalid = |reason: String| StoreError::Address {
            address: address.clone(),
            reason,
        };
        if options.address.contains(['?', '#']) {
            return Err(invalid("unexpected text after the database".to_owned()));
        }
        // A program that uses the library may have installed a TLS backend already.
        picktools_net::install_tls_backend();
        let client =
            redis::Client::open(options.address).map_err(|error| invalid(error.to_string()))?;
        let keys = TenantKeys::new(&options.tenant)?;
        Ok(Self {
            client,
            address,
            keys,
            timeout: options.timeout,
            idle: Arc::default(),
        })
    }

    /// Returns the address, without user and password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the tenant.
    pub fn tenant(&self) -> &str {
        &self.keys.tenant
    }

    /// Returns the timeout of a command.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    fn unavailable(&self, reason: impl fmt::Display) -> StoreError {
        StoreError::Unavailable {
            address: self.address.clone(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn damaged(
        &self,
        place: impl Into<String>,
        reason: impl fmt::Display,
    ) -> StoreError {
        StoreError::Damaged {
            address: self.address.clone(),
            place: place.into(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn empty(&self) -> StoreError {
        StoreError::Empty {
            address: self.address.clone(),
            tenant: self.keys.tenant.clone(),
        }
    }

    /// Executes commands on a connection. After an error, the connection is closed.
    fn execute<T>(
        &self,
        within: Duration,
        command: impl FnOnce(&mut RedisConnection) -> redis::RedisResult<T>,
    ) -> Result<T, StoreError> {
        if within.is_zero() {
            return Err(self.unavailable("the deadline has passed"));
        }
        let failed = |error: redis::RedisError| self.command_error(&error, within);
        // A connection that the server closed meanwhile says nothing about the store.
        let idle = std::iter::from_fn(|| lock(&self.idle).pop()).find(RedisConnection::is_usable);
        let started = Instant::now();
        let mut limits = RedisLimits {
            time: within,
            bytes: MAX_ANSWER_BYTES,
        };
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                RedisConnection::open(self.client.get_connection_info(), limits).map_err(failed)?
            }
        };
        limits.time = within.saturating_sub(started.elapsed());
        connection.begin(limits);
        let answer = command(&mut connection).map_err(failed)?;
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
        Ok(answer)
    }

    /// Converts an error of a command to one with a remedy.
    fn command_error(&self, error: &redis::RedisError, within: Duration) -> StoreError {
        let message = error.to_string().to_ascii_lowercase();
        if error.is_timeout() {
            self.unavailable(format!("no answer within {} ms", within.as_millis()))
        } else if DAMAGE_ERRORS.iter().any(|part| message.contains(part)) {
            self.damaged(format!("a key of {}", self.keys.prefix()), error)
        } else if message.contains("maxmemory") {
            self.unavailable(format!(
                "it is full ({OOM}: maxmemory is reached); \
                 remove garbage with: picktools store gc, or give it more memory"
            ))
        } else if message.contains("unknown command") {
            self.unavailable(format!(
                "{error}; install RediSearch 2.10 or newer, or use Redis 8"
            ))
        } else if error.is_connection_refusal() {
            self.unavailable("connection refused; start the server, or correct the address")
        } else if error.kind() == ErrorKind::AuthenticationFailed || message.contains("noauth") {
            self.unavailable(format!("{error}; give user and password in the address"))
        } else {
            self.unavailable(error)
        }
    }

    /// Executes a pipeline, and returns the answers.
    fn execute_all(&self, pipeline: &Pipeline, within: Duration) -> Result<Vec<Value>, StoreError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        self.execute(within, |connection| pipeline.query(connection))
    }

    fn generation(&self, head: &SnapshotHead) -> GenerationKeys {
        self.keys.generation(head.current.generation)
    }

    /// Returns the value of each key, or of a field of each key.
    fn values(
        &self,
        keys: impl Iterator<Item = String>,
        field: Option<&str>,
        within: Duration,
    ) -> Result<Values, StoreError> {
        let keys: Vec<String> = keys.collect();
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(ROWS_AT_ONCE) {
            let mut pipeline = redis::pipe();
            for key in keys {
                match field {
                    Some(field) => pipeline.cmd("HGET").arg(key).arg(field),
                    None => pipeline.cmd("GET").arg(key),
                };
            }
            let expected = if field.is_some() { "hash" } else { "string" };
            let answers = self
                .execute_all(&pipeline, within)
                .map_err(|error| self.locate_damage(error, keys, expected))?;
            for (answer, key) in answers.into_iter().zip(keys) {
                values.push(self.parse_value(answer, key)?);
            }
        }
        Ok(values)
    }

    /// Parses the answer for a key; `None` if the key is missing.
    fn parse_value(&self, answer: Value, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match answer {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            other => Err(self.damaged(key, format!("it is {}", describe(&other)))),
        }
    }

    /// Adds the first key with an unexpected type to an error.
    fn locate_damage(&self, error: StoreError, keys: &[String], expected: &str) -> StoreError {
        if !matches!(error, StoreError::Damaged { .. }) {
            return error;
        }
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("TYPE").arg(key);
        }
        let types: Vec<String> = self
            .execute(self.timeout, |connection| pipeline.query(connection))
            .unwrap_or_default();
        let wrong = keys
            .iter()
            .zip(types)
            .find(|(_, kind)| kind != expected && kind != "none");
        wrong.map_or(error, |(key, kind)| {
            self.damaged(key, format!("it is a {kind}, not a {expected}"))
        })
    }

    /// Parses the keys in the answer of a search.
    fn parse_search(
        &self,
        generation: &GenerationKeys,
        answer: &Value,
    ) -> Result<Vec<RowKey>, StoreError> {
        let unexpected = |value: &Value| {
            let reason = format!("a search returned {}", describe(value));
            self.damaged(generation.index(), reason)
        };
        let Value::Array(items) = answer else {
            return Err(unexpected(answer));
        };
        let parse_key = |item: &Value| match item {
            Value::BulkString(key) => generation
                .parse_row_key(key)
                .ok_or_else(|| unexpected(item)),
            other => Err(unexpected(other)),
        };
        items.iter().skip(1).map(parse_key).collect()
    }
}

/// Describes an answer in a message.
fn describe(value: &Value) -> String {
    match value {
        Value::Nil => "nothing".to_owned(),
        Value::Int(_) => "a number".to_owned(),
        Value::BulkString(_) => "an unexpected text".to_owned(),
        Value::Array(_) | Value::Set(_) => "a list".to_owned(),
        Value::ServerError(error) => format!("an error: {error}"),
        other => format!(
            "an unexpected value: {}",
            picktools::excerpt::one_line(&format!("{other:?}"), 80)
        ),
    }
}

impl Store for RedisStore {
    fn current(&self, within: Duration) -> Result<Option<CurrentSnapshot>, StoreError> {
        let key = self.keys.current();
        let bytes = self
            .values(std::iter::once(key.clone()), None, within)?
            .pop()
            .flatten();
        let current = |bytes: Vec<u8>| {
            serde_json::from_slice(&bytes).map_err(|error| self.damaged(&key, error))
        };
        bytes.map(current).transpose()
    }

    fn head(
        &self,
        current: &CurrentSnapshot,
        within: Duration,
    ) -> Result<SnapshotHead, StoreError> {
        if !current.is_readable() {
            let reason = format!(
                "it has format {}, but this program reads {FORMAT}",
                current.format
            );
            return Err(self.damaged(self.keys.current(), reason));
        }
        let key = self.keys.generation(current.generation).head();
        let bytes = self
            .values(std::iter::once(key.clone()), None, within)?
            .pop()
            .flatten();
        let bytes = bytes.ok_or_else(|| self.damaged(&key, "it is missing"))?;
        serde_json::from_slice(&bytes).map_err(|error| self.damaged(key, error))
    }

    fn term_counts(
        &self,
        head: &SnapshotHead,
        terms: &[u64],
        within: Duration,
    ) -> Result<Vec<TermCounts>, StoreError> {
        let generation = self.generation(head);
        let mut pipeline = redis::pipe();
        for &term in terms {
            let bucket = head.bucket(term);
            for key in generation.term_counts(bucket) {
                pipeline.cmd("HGET").arg(key).arg(&term.to_le_bytes());
            }
        }
        let count = |answer: &Value| match answer {
            Value::Nil => Ok(0),
            answer => redis::from_redis_value_ref::<u32>(answer)
                .map_err(|error| self.damaged(format!("{}df", generation.prefix), error)),
        };
        let answers = self.execute_all(&pipeline, within)?;
        let counts = |[tools, sources, examples]: &[Value; 3]| {
            Ok(TermCounts {
                tools: count(tools)?,
                sources: count(sources)?,
                examples: count(examples)?,
            })
        };
        answers.as_chunks::<3>().0.iter().map(counts).collect()
    }

    fn candidates(
        &self,
        head: &SnapshotHead,
        first: &FirstStage,
        counts: &dyn Fn(u64) -> u32,
        within: Duration,
    ) -> Result<BTreeSet<RowKey>, StoreError> {
        let generation = self.generation(head);
        let index = generation.index();
        let mut searches = redis::pipe();
        let mut ranked = 0;
        if !search::excludes_all(&first.filter) {
            for WordQuery { terms, limit } in &first.texts {
                let terms: Vec<_> = terms
                    .iter()
                    .map(|&(term, weight)| (term, weight, counts(term)))
                    .collect();
                let search = search::search_words(&index, &first.filter, &terms, *limit);
                if let Some(search) = search {
                    searches.add_command(search);
                }
            }
            for vector in &first.vectors {
                searches.add_command(search::search_vector(&index, &first.filter, vector));
            }
            ranked = searches.len();
        }
        let names: Vec<u64> = first.names.iter().copied().collect();
        for names in names.chunks(search::NAMES_AT_ONCE) {
            searches.add_command(search::search_names(&index, names));
        }
        let answers = self.execute_all(&searches, within)?;
        let mut results = Vec::with_capacity(answers.len());
        for answer in &answers {
            results.push(self.parse_search(&generation, answer)?);
        }
        let (ranked, named) = results.split_at(ranked);
        let mut candidates: BTreeSet<RowKey> = named.iter().flatten().copied().collect();
        // Each search returns its best tools first. If there are too many, the best of each search
        // are used. Named tools do not count against the limit.
        let longest = ranked.iter().map(Vec::len).max().unwrap_or_default();
        let limit = MAX_CANDIDATES + candidates.len();
        for rank in 0..longest {
            for key in ranked.iter().filter_map(|found| found.get(rank)) {
                if candidates.len() == limit {
                    return Ok(candidates);
                }
                candidates.insert(*key);
            }
        }
        Ok(candidates)
    }

    fn keys(&self, head: &SnapshotHead, within: Duration) -> Result<Vec<RowKey>, StoreError> {
        let tools = self.generation(head).tools();
        let keys: Vec<Vec<u8>> = self
            .execute(within, |connection| {
                redis::cmd("SMEMBERS").arg(&tools).query(connection)
            })
            .map_err(|error| self.locate_damage(error, std::slice::from_ref(&tools), "set"))?;
        let key = |key: Vec<u8>| {
            key.try_into()
                .map(RowKey)
                .map_err(|_| self.damaged(&tools, "it contains an invalid row key"))
        };
        keys.into_iter().map(key).collect()
    }

    fn are_current(
        &self,
        head: &SnapshotHead,
        rows: &[RowKey],
        within: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        Ok(self.found_rows(head, rows, &[], within)?.0)
    }

    fn found_rows(
        &self,
        head: &SnapshotHead,
        found: &[RowKey],
        unknown: &[RowKey],
        within: Duration,
    ) -> Result<(Vec<bool>, Values), StoreError> {
        if found.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let generation = self.generation(head);
        let (tools, keys) = (
            generation.tools(),
            unknown
                .iter()
                .map(|&row| generation.tool(row))
                .collect::<Vec<String>>(),
        );
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("SMISMEMBER")
            .arg(&tools)
            .arg(row_arguments(found));
        for key in &keys {
            pipeline.cmd("HGET").arg(key).arg(search::ROW);
        }
        let locate = |error| {
            let error = self.locate_damage(error, std::slice::from_ref(&tools), "set");
            self.locate_damage(error, &keys, "hash")
        };
        let answers = self.execute_all(&pipeline, within).map_err(locate)?;
        let mut answers = answers.into_iter();
        let are_current: Option<Vec<bool>> = answers
            .next()
            .and_then(|answer| redis::from_redis_value(answer).ok());
        let are_current = are_current.filter(|flags| flags.len() == found.len());
        let are_current =
            are_current.ok_or_else(|| self.damaged(tools, "unexpected number of answers"))?;
        let rows = answers
            .zip(&keys)
            .map(|(answer, key)| self.parse_value(answer, key));
        Ok((are_current, rows.collect::<Result<Values, _>>()?))
    }

    fn rows(
        &self,
        head: &SnapshotHead,
        rows: &[RowKey],
        within: Duration,
    ) -> Result<Values, StoreError> {
        let generation = self.generation(head);
        self.values(
            rows.iter().map(|&row| generation.tool(row)),
            Some(search::ROW),
            within,
        )
    }

    fn sources(
        &self,
        head: &SnapshotHead,
        rows: &[SourceKey],
        within: Duration,
    ) -> Result<Values, StoreError> {
        let generation = self.generation(head);
        self.values(rows.iter().map(|&row| generation.source(row)), None, within)
    }
}
