//! Redis 8, or Redis or Valkey with RediSearch 2.10 and newer, as a store.

mod keys;
mod mending;
mod search;
mod writing;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use half::f16;
use redis::{Connection, ErrorKind, Pipeline, Value};

use self::keys::{Generation, Keys, row_arguments};
pub(super) use self::writing::TermChanges;
use super::first_stage::{FirstStage, Words};
use super::head::{Current, FORMAT, Head};
use super::{MAX_CANDIDATES, Store, StoreError, Values, lock};
use picktools::shard::{RowKey, SourceKey, TermCounts};

/// The most connections that are kept for the next call.
const MOST_IDLE: usize = 16;
/// How many rows are asked for at once.
const ROWS_AT_ONCE: usize = 1_000;

/// Where a store is, and whose part of it is meant.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, or `rediss://` for TLS.
    pub address: String,
    /// Whose catalog: 1 to 64 lower-case letters, digits and hyphens.
    pub tenant: String,
    /// How long one command may take that no deadline shortens.
    pub timeout: Duration,
}

impl RedisOptions {
    /// A store at this address, the tenant `default`, half a second a command.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            tenant: "default".to_owned(),
            timeout: Duration::from_millis(500),
        }
    }
}

/// What a full store answers.
const OOM: &str = "OOM";
/// What a store says of what is not as it was written.
const DAMAGE: [&str; 5] = [
    "wrongtype",
    "no such index",
    "index name",
    "not an integer",
    "would overflow",
];

/// A tenant's part of a Redis or Valkey. Cloning is cheap and shares connections.
#[derive(Clone)]
pub struct RedisStore {
    client: redis::Client,
    /// The address without the password.
    shown: String,
    keys: Keys,
    timeout: Duration,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("address", &self.shown)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// An address without user and password.
fn shown(address: &str) -> String {
    let start = address.find("://").map_or(0, |scheme| scheme + "://".len());
    let (scheme, rest) = address.split_at(start);
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!(
        "{scheme}{}",
        host.split(['?', '#']).next().unwrap_or_default()
    )
}

impl RedisStore {
    /// Names a store; it is first asked when something is wanted of it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the address cannot be read, or a tenant is not called so.
    pub fn new(options: RedisOptions) -> Result<Self, StoreError> {
        let shown = shown(&options.address);
        let wrong = |reason: String| StoreError::Address {
            address: shown.clone(),
            reason,
        };
        if options.address.contains(['?', '#']) {
            return Err(wrong("something stands behind the database".to_owned()));
        }
        // The provider of the process may be set already, by whoever uses the library.
        picktools_net::install_tls_backend();
        let client =
            redis::Client::open(options.address).map_err(|error| wrong(error.to_string()))?;
        let keys = Keys::new(&options.tenant)?;
        Ok(Self {
            client,
            shown,
            keys,
            timeout: options.timeout,
            idle: Arc::default(),
        })
    }

    /// Returns the address, without user and password.
    pub fn address(&self) -> &str {
        &self.shown
    }

    /// Returns the tenant.
    pub fn tenant(&self) -> &str {
        &self.keys.tenant
    }

    /// How long one command may take that no deadline shortens.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    fn unavailable(&self, reason: impl fmt::Display) -> StoreError {
        StoreError::Unavailable {
            address: self.shown.clone(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn damaged(
        &self,
        place: impl Into<String>,
        reason: impl fmt::Display,
    ) -> StoreError {
        StoreError::Damaged {
            address: self.shown.clone(),
            place: place.into(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn empty(&self) -> StoreError {
        StoreError::Empty {
            address: self.shown.clone(),
            tenant: self.keys.tenant.clone(),
        }
    }

    /// Asks on a connection of its own, which goes on to the next where nothing went wrong.
    fn ask<T>(
        &self,
        within: Duration,
        ask: impl FnOnce(&mut Connection) -> redis::RedisResult<T>,
    ) -> Result<T, StoreError> {
        if within.is_zero() {
            return Err(self.unavailable("no time is left to ask it"));
        }
        let idle = lock(&self.idle).pop();
        let told = |error: redis::RedisError| {
            let said = error.to_string().to_ascii_lowercase();
            if error.is_timeout() {
                self.unavailable(format!(
                    "it did not answer within {} ms",
                    within.as_millis()
                ))
            } else if DAMAGE.iter().any(|what| said.contains(what)) {
                self.damaged(format!("a key of {}", self.keys.all()), error)
            } else if said.contains("maxmemory") {
                let remedy =
                    "remove what was left behind with: picktools store gc, or give it more memory";
                self.unavailable(format!(
                    "it is full ({OOM}: maxmemory is reached); {remedy}"
                ))
            } else if said.contains("unknown command") {
                self.unavailable(format!(
                    "{error}; it needs RediSearch 2.10 or newer, which Redis 8 has"
                ))
            } else if error.is_connection_refusal() {
                self.unavailable("nothing listens there; start the server, or correct the address")
            } else if error.kind() == ErrorKind::AuthenticationFailed || said.contains("noauth") {
                self.unavailable(format!(
                    "{error}; give its user and password in the address"
                ))
            } else {
                self.unavailable(error)
            }
        };
        let mut connection = match idle {
            Some(connection) => connection,
            None => self
                .client
                .get_connection_with_timeout(within)
                .map_err(told)?,
        };
        connection.set_read_timeout(Some(within)).map_err(told)?;
        connection.set_write_timeout(Some(within)).map_err(told)?;
        let answer = ask(&mut connection).map_err(told)?;
        let mut idle = lock(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.push(connection);
        }
        Ok(answer)
    }

    /// Asks for many things at once: what each answer is, whatever it is.
    fn ask_all(&self, pipeline: &Pipeline, within: Duration) -> Result<Vec<Value>, StoreError> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        self.ask(within, |connection| pipeline.query(connection))
    }

    fn generation(&self, head: &Head) -> Generation {
        self.keys.generation(head.current.generation)
    }

    /// Asks for a value that lies under each of so many keys, or in a field there.
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
                .ask_all(&pipeline, within)
                .map_err(|error| self.naming(error, keys, expected))?;
            for (answer, key) in answers.into_iter().zip(keys) {
                values.push(self.value(answer, key)?);
            }
        }
        Ok(values)
    }

    /// Reads what lies under a key; `None` where nothing does.
    fn value(&self, answer: Value, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match answer {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            other => Err(self.damaged(key, format!("it is {}", kind(&other)))),
        }
    }

    /// Names the first of some keys of which something else lies there than is expected.
    fn naming(&self, error: StoreError, keys: &[String], expected: &str) -> StoreError {
        if !matches!(error, StoreError::Damaged { .. }) {
            return error;
        }
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("TYPE").arg(key);
        }
        let found: Vec<String> = self
            .ask(self.timeout, |connection| pipeline.query(connection))
            .unwrap_or_default();
        let wrong = keys
            .iter()
            .zip(found)
            .find(|(_, found)| found != expected && found != "none");
        wrong.map_or(error, |(key, found)| {
            self.damaged(key, format!("it is a {found}, and no {expected}"))
        })
    }

    /// Reads the keys that a search found.
    fn found(&self, generation: &Generation, answer: &Value) -> Result<Vec<RowKey>, StoreError> {
        let wrong = |what: &Value| {
            self.damaged(generation.index(), format!("a search gave {}", kind(what)))
        };
        let Value::Array(found) = answer else {
            return Err(wrong(answer));
        };
        let key = |found: &Value| match found {
            Value::BulkString(key) => generation.row_key(key).ok_or_else(|| wrong(found)),
            other => Err(wrong(other)),
        };
        found.iter().skip(1).map(key).collect()
    }
}

/// What an answer is, for messages.
fn kind(value: &Value) -> String {
    match value {
        Value::Nil => "nothing".to_owned(),
        Value::Int(_) => "a number".to_owned(),
        Value::BulkString(_) => "a text that means nothing here".to_owned(),
        Value::Array(_) | Value::Set(_) => "a list".to_owned(),
        Value::ServerError(error) => format!("an error: {error}"),
        other => format!(
            "of another kind: {}",
            picktools::excerpt::one_line(&format!("{other:?}"), 80)
        ),
    }
}

/// A vector as it lies in the index.
fn vector_bytes(vector: &[f32]) -> Vec<u8> {
    vector
        .iter()
        .flat_map(|&value| f16::from_f32(value).to_le_bytes())
        .collect()
}

impl Store for RedisStore {
    fn current(&self, within: Duration) -> Result<Option<Current>, StoreError> {
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

    fn head(&self, current: &Current, within: Duration) -> Result<Head, StoreError> {
        if !current.is_readable() {
            let reason = format!(
                "it is of format {}, and this program reads {FORMAT}; publish the catalog again",
                current.format
            );
            return Err(self.damaged(self.keys.current(), reason));
        }
        let key = self.keys.generation(current.generation).head();
        let bytes = self
            .values(std::iter::once(key.clone()), None, within)?
            .pop()
            .flatten();
        let bytes = bytes.ok_or_else(|| self.damaged(&key, "it is not there"))?;
        serde_json::from_slice(&bytes).map_err(|error| self.damaged(key, error))
    }

    fn term_counts(
        &self,
        head: &Head,
        terms: &[u64],
        within: Duration,
    ) -> Result<Vec<TermCounts>, StoreError> {
        let generation = self.generation(head);
        let mut pipeline = redis::pipe();
        for &term in terms {
            let bucket = head.bucket(term);
            for key in generation.counts_of_terms(bucket) {
                pipeline.cmd("HGET").arg(key).arg(&term.to_le_bytes());
            }
        }
        let count = |answer: &Value| match answer {
            Value::Nil => Ok(0),
            answer => redis::from_redis_value_ref::<u32>(answer)
                .map_err(|error| self.damaged(format!("{}df", generation.prefix), error)),
        };
        let answers = self.ask_all(&pipeline, within)?;
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
        head: &Head,
        first: &FirstStage,
        counts: &dyn Fn(u64) -> u32,
        within: Duration,
    ) -> Result<BTreeSet<RowKey>, StoreError> {
        let generation = self.generation(head);
        let index = generation.index();
        let mut searches = redis::pipe();
        let mut ranked = 0;
        if !search::passes_none(&first.filter) {
            for Words { terms, most } in &first.texts {
                let terms: Vec<_> = terms
                    .iter()
                    .map(|&(term, weight)| (term, weight, counts(term)))
                    .collect();
                if let Some(words) = search::of_words(&index, &first.filter, &terms, *most) {
                    searches.add_command(words);
                }
            }
            for nearest in &first.vectors {
                searches.add_command(search::near(&index, &first.filter, nearest));
            }
            ranked = searches.len();
        }
        let names: Vec<u64> = first.names.iter().copied().collect();
        for names in names.chunks(search::NAMES_AT_ONCE) {
            searches.add_command(search::named(&index, names));
        }
        let answers = self.ask_all(&searches, within)?;
        let found = answers.iter().map(|answer| self.found(&generation, answer));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let (ranked, named) = found.split_at(ranked);
        let mut candidates: BTreeSet<RowKey> = named.iter().flatten().copied().collect();
        // Each search gives its best first: where they find too many, the best of each stay. What
        // is named takes no place of theirs.
        let longest = ranked.iter().map(Vec::len).max().unwrap_or_default();
        let most = MAX_CANDIDATES + candidates.len();
        for key in
            (0..longest).flat_map(|place| ranked.iter().filter_map(move |found| found.get(place)))
        {
            if candidates.len() == most {
                break;
            }
            candidates.insert(*key);
        }
        Ok(candidates)
    }

    fn keys(&self, head: &Head, within: Duration) -> Result<Vec<RowKey>, StoreError> {
        let place = self.generation(head).tools();
        let keys: Vec<Vec<u8>> = self
            .ask(within, |connection| {
                redis::cmd("SMEMBERS").arg(&place).query(connection)
            })
            .map_err(|error| self.naming(error, std::slice::from_ref(&place), "set"))?;
        let key = |key: Vec<u8>| {
            key.try_into()
                .map(RowKey)
                .map_err(|_| self.damaged(&place, "it holds no key of a row"))
        };
        keys.into_iter().map(key).collect()
    }

    fn are_current(
        &self,
        head: &Head,
        rows: &[RowKey],
        within: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        Ok(self.found_rows(head, rows, &[], within)?.0)
    }

    fn found_rows(
        &self,
        head: &Head,
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
        let naming = |error| {
            self.naming(
                self.naming(error, std::slice::from_ref(&tools), "set"),
                &keys,
                "hash",
            )
        };
        let mut answers = self.ask_all(&pipeline, within).map_err(naming)?.into_iter();
        let are_current: Option<Vec<bool>> = answers
            .next()
            .and_then(|answer| redis::from_redis_value(answer).ok());
        let are_current = are_current.filter(|are| are.len() == found.len());
        let are_current =
            are_current.ok_or_else(|| self.damaged(tools, "it answers for other tools"))?;
        let rows = answers
            .zip(&keys)
            .map(|(answer, key)| self.value(answer, key));
        Ok((are_current, rows.collect::<Result<Values, _>>()?))
    }

    fn rows(&self, head: &Head, rows: &[RowKey], within: Duration) -> Result<Values, StoreError> {
        let generation = self.generation(head);
        self.values(
            rows.iter().map(|&row| generation.tool(row)),
            Some(search::ROW),
            within,
        )
    }

    fn sources(
        &self,
        head: &Head,
        rows: &[SourceKey],
        within: Duration,
    ) -> Result<Values, StoreError> {
        let generation = self.generation(head);
        self.values(rows.iter().map(|&row| generation.source(row)), None, within)
    }
}
