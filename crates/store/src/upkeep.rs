//! Maintenance of a store: status, verification and the removal of garbage.

use foldhash::{HashMap, HashMapExt};
use serde::Serialize;

use super::{READ_TIMEOUT, ROWS_AT_ONCE, RedisStore, SnapshotStatus, Store, StoreError, Values};
use picktools::shard::{DamagedBytes, Row, RowKey, SourceKey, SourceRow};

/// The largest number of faults that are listed.
const MAX_FAULTS: usize = 100;

/// The content of a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreStatus {
    /// The address, without user and password.
    pub address: String,
    /// The tenant.
    pub tenant: String,
    /// The latest snapshot, or `None` if nothing was published.
    pub snapshot: Option<SnapshotStatus>,
    /// The models of the snapshot.
    pub models: Vec<String>,
    /// The number of documents in the index: those of the snapshot, and those of a publication in
    /// progress.
    pub indexed: Option<u64>,
    /// The memory of the server, in bytes.
    pub memory: Option<u64>,
}

/// The result of a verification of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// The number of tool rows that were read.
    pub tools: usize,
    /// The number of source rows that were read.
    pub sources: usize,
    /// The number of faults.
    pub faults: usize,
    /// The first hundred faults.
    #[serde(rename = "told")]
    pub messages: Vec<String>,
}

/// The number of removed objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GarbageReport {
    /// The number of removed generations.
    pub generations: usize,
    /// The number of removed keys.
    pub keys: usize,
}

/// Returns the content of a store.
///
/// # Errors
///
/// [`StoreError`] if the store cannot be reached or its data is damaged.
pub fn status(store: &RedisStore) -> Result<StoreStatus, StoreError> {
    let current = store.current(store.timeout())?;
    let head = current
        .as_ref()
        .map(|current| store.head(current, READ_TIMEOUT))
        .transpose()?;
    Ok(StoreStatus {
        address: store.address().to_owned(),
        tenant: store.tenant().to_owned(),
        snapshot: current.as_ref().map(SnapshotStatus::from),
        models: head
            .iter()
            .flat_map(|head| head.models.iter().map(|(model, _)| model.clone()))
            .collect(),
        indexed: head
            .as_ref()
            .map(|head| store.count_documents(head, READ_TIMEOUT))
            .transpose()?,
        // The user of the store may not have the permission for this command.
        memory: store.memory(READ_TIMEOUT).unwrap_or_default(),
    })
}

/// Removes the remains of interrupted publications, and all generations except the current one.
///
/// This also works if the store is full.
///
/// # Errors
///
/// [`StoreError`] if the store cannot be reached or another publisher is active.
pub fn collect(store: &RedisStore) -> Result<GarbageReport, StoreError> {
    let publisher = store.begin_removal()?;
    publisher.collect(store.current(READ_TIMEOUT)?.as_ref())
}

/// Reads the complete snapshot, and validates every row against its key.
///
/// `progress` receives the number of tools read and the number of all tools.
///
/// # Errors
///
/// [`StoreError`] if the store cannot be reached or is empty. Faults of rows are in
/// [`Verification::messages`].
pub fn verify(
    store: &RedisStore,
    progress: &dyn Fn(usize, usize),
) -> Result<Verification, StoreError> {
    let current = store.current(READ_TIMEOUT)?.ok_or_else(|| store.empty())?;
    let head = store.head(&current, READ_TIMEOUT)?;
    let mut verification = Verification::default();
    let mut add_fault = |fault: String| {
        verification.faults += 1;
        if verification.messages.len() < MAX_FAULTS {
            verification.messages.push(fault);
        }
    };
    if let Err(reason) = head.catalog_stats() {
        add_fault(format!("the snapshot: {reason}"));
    }
    let keys: Vec<RowKey> = store.keys(&head, READ_TIMEOUT)?;
    if keys.len() != current.tools {
        add_fault(format!(
            "the snapshot has {} tools, but {} are listed",
            current.tools,
            keys.len()
        ));
    }
    let indexed = store.count_documents(&head, READ_TIMEOUT)?;
    if indexed < keys.len() as u64 {
        add_fault(format!(
            "the index has {indexed} documents, but {} tools are listed",
            keys.len()
        ));
    }
    let mut sources: Vec<SourceKey> = Vec::new();
    let mut expected_counts: HashMap<u64, ExpectedCounts> = HashMap::new();
    let mut tools = 0;
    let parse_row = |bytes: &[u8], key: RowKey| {
        let row = Row::from_bytes(bytes, key, &head.models)?;
        row.definition()?;
        Ok::<Row, DamagedBytes>(row)
    };
    for keys in keys.chunks(ROWS_AT_ONCE) {
        for (key, bytes) in keys.iter().zip(read_each(keys, &|keys| {
            store.rows(&head, keys, READ_TIMEOUT)
        })?) {
            let row = bytes
                .and_then(|bytes| parse_row(&bytes, *key).map_err(|damaged| damaged.to_string()));
            match row {
                Ok(row) => {
                    sources.extend(row.source);
                    for (term, ..) in row.terms() {
                        expected_counts.entry(term).or_default().tools += 1;
                    }
                    for term in row.example_terms().into_iter().flatten() {
                        expected_counts.entry(term).or_default().examples += 1;
                    }
                }
                Err(reason) => add_fault(format!("the row {key}: {reason}")),
            }
        }
        tools += keys.len();
        progress(tools, current.tools);
    }
    let terms: Vec<u64> = expected_counts.keys().copied().collect();
    let mut miscounted = 0;
    for terms in terms.chunks(ROWS_AT_ONCE) {
        let counted = store.term_counts(&head, terms, READ_TIMEOUT)?;
        for (term, counts) in terms.iter().zip(counted) {
            let expected = &expected_counts[term];
            if expected.tools != counts.tools || expected.examples != counts.examples {
                miscounted += 1;
            }
        }
    }
    if miscounted > 0 {
        add_fault(format!("the counts of {miscounted} words are wrong"));
    }
    sources.sort_unstable();
    sources.dedup();
    for keys in sources.chunks(ROWS_AT_ONCE) {
        for (key, bytes) in keys.iter().zip(read_each(keys, &|keys| {
            store.sources(&head, keys, READ_TIMEOUT)
        })?) {
            let row = bytes.and_then(|bytes| {
                SourceRow::from_bytes(&bytes, &head.models).map_err(|damaged| damaged.to_string())
            });
            if let Err(reason) = row {
                add_fault(format!("the source {key}: {reason}"));
            }
        }
    }
    verification.tools = tools;
    verification.sources = sources.len();
    Ok(verification)
}

/// The counts of a term that the rows of a snapshot imply.
#[derive(Default)]
struct ExpectedCounts {
    tools: u32,
    examples: u32,
}

/// Reads the values of keys.
///
/// If a batch is damaged, reads smaller batches to find the damaged keys, with the reasons.
fn read_each<K>(
    keys: &[K],
    read: &dyn Fn(&[K]) -> Result<Values, StoreError>,
) -> Result<Vec<Result<Vec<u8>, String>>, StoreError> {
    match (read(keys), keys) {
        (Ok(values), _) => Ok(values
            .into_iter()
            .map(|value| value.ok_or_else(|| "it is missing".to_owned()))
            .collect()),
        (Err(StoreError::Damaged { reason, .. }), [_]) => Ok(vec![Err(reason)]),
        (Err(StoreError::Damaged { .. }), _) => {
            let (first, second) = keys.split_at(keys.len() / 2);
            let mut values = read_each(first, read)?;
            values.extend(read_each(second, read)?);
            Ok(values)
        }
        (Err(error), _) => Err(error),
    }
}
