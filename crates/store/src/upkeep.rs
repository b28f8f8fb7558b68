//! What operators ask of a store: what lies there, whether it is whole, and to remove what nothing
//! needs.

use foldhash::{HashMap, HashMapExt};
use serde::Serialize;

use super::{READ, ROWS_AT_ONCE, RedisStore, SnapshotStatus, Store, StoreError, Values};
use picktools::shard::{DamagedRow, Row, RowKey, SourceKey, SourceRow, TermCounts};

/// The most faults that are told one by one.
const MOST_FAULTS: usize = 100;

/// What lies in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoreStatus {
    /// The address, without user and password.
    pub address: String,
    /// Whose part of it.
    pub tenant: String,
    /// What was published last; absent where nothing was.
    pub snapshot: Option<SnapshotStatus>,
    /// The models that it was published with.
    pub models: Vec<String>,
    /// How many documents the index has: those of the snapshot, and those that a publication which
    /// is going on has written.
    pub indexed: Option<u64>,
    /// How much memory the whole server takes, in bytes.
    pub memory: Option<u64>,
}

/// What was found where all of a snapshot was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verification {
    /// How many rows of tools were read.
    pub tools: usize,
    /// How many rows of sources were read.
    pub sources: usize,
    /// How many faults there are.
    pub faults: usize,
    /// The first hundred.
    pub told: Vec<String>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Collected {
    /// How many generations.
    pub generations: usize,
    /// How many keys.
    pub keys: usize,
}

/// Tells what lies in a store.
///
/// # Errors
///
/// [`StoreError`] when it cannot be reached, or what lies there cannot be read.
pub fn status(store: &RedisStore) -> Result<StoreStatus, StoreError> {
    let current = store.current(store.timeout())?;
    let head = current
        .as_ref()
        .map(|current| store.head(current, READ))
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
            .map(|head| store.indexed(head, READ))
            .transpose()?,
        // Not everybody may ask that.
        memory: store.memory(READ).unwrap_or_default(),
    })
}

/// Removes what publications left behind that were cut off, and all generations but the current
/// one; also from a store that is full.
///
/// # Errors
///
/// [`StoreError`] when it cannot be reached, or somebody publishes.
pub fn collect(store: &RedisStore) -> Result<Collected, StoreError> {
    let removing = store.begin_to_remove()?;
    removing.collect(store.current(READ)?.as_ref())
}

/// Reads all of a snapshot, and holds every row to its key. `progress` is told how many tools were
/// read, of how many.
///
/// # Errors
///
/// [`StoreError`] when it cannot be reached or is empty; what is wrong with rows is told in
/// [`Verification::told`].
pub fn verify(
    store: &RedisStore,
    progress: &dyn Fn(usize, usize),
) -> Result<Verification, StoreError> {
    let current = store.current(READ)?.ok_or_else(|| store.empty())?;
    let head = store.head(&current, READ)?;
    let mut found = Verification::default();
    let mut fault = |fault: String| {
        found.faults += 1;
        if found.told.len() < MOST_FAULTS {
            found.told.push(fault);
        }
    };
    head.whole()
        .err()
        .into_iter()
        .for_each(|reason| fault(format!("the snapshot: {reason}")));
    let keys: Vec<RowKey> = store.keys(&head, READ)?;
    if keys.len() != current.tools {
        fault(format!(
            "the snapshot has {} tools, and {} are listed",
            current.tools,
            keys.len()
        ));
    }
    let indexed = store.indexed(&head, READ)?;
    if indexed < keys.len() as u64 {
        fault(format!(
            "the index has {indexed} documents, and {} tools are listed",
            keys.len()
        ));
    }
    let mut sources: Vec<SourceKey> = Vec::new();
    let mut holding: HashMap<u64, (u32, u32)> = HashMap::new();
    let mut read = 0;
    let whole = |bytes: &[u8], key: RowKey| {
        let row = Row::of_bytes(bytes, key, &head.models)?;
        row.whole()?;
        Ok::<Row, DamagedRow>(row)
    };
    for keys in keys.chunks(ROWS_AT_ONCE) {
        for (key, bytes) in keys
            .iter()
            .zip(each(keys, &|keys| store.rows(&head, keys, READ))?)
        {
            match bytes.and_then(|bytes| whole(&bytes, *key).map_err(|damaged| damaged.to_string()))
            {
                Ok(row) => {
                    sources.extend(row.source);
                    row.terms()
                        .for_each(|(term, ..)| holding.entry(term).or_default().0 += 1);
                    row.example_terms()
                        .into_iter()
                        .flatten()
                        .for_each(|term| holding.entry(term).or_default().1 += 1);
                }
                Err(reason) => fault(format!("the row {key}: {reason}")),
            }
        }
        read += keys.len();
        progress(read, current.tools);
    }
    let terms: Vec<u64> = holding.keys().copied().collect();
    let mut miscounted = 0;
    for terms in terms.chunks(ROWS_AT_ONCE) {
        let counted = store.term_counts(&head, terms, READ)?;
        let is_wrong =
            |(term, counts): &(&u64, TermCounts)| holding[term] != (counts.tools, counts.examples);
        miscounted += terms.iter().zip(counted).filter(is_wrong).count();
    }
    if miscounted > 0 {
        fault(format!(
            "of {miscounted} words it is counted wrong how many tools hold them"
        ));
    }
    sources.sort_unstable();
    sources.dedup();
    for keys in sources.chunks(ROWS_AT_ONCE) {
        for (key, bytes) in keys
            .iter()
            .zip(each(keys, &|keys| store.sources(&head, keys, READ))?)
        {
            let row = bytes.and_then(|bytes| {
                SourceRow::of_bytes(&bytes, &head.models).map_err(|damaged| damaged.to_string())
            });
            row.err()
                .into_iter()
                .for_each(|reason| fault(format!("the source {key}: {reason}")));
        }
    }
    (found.tools, found.sources) = (read, sources.len());
    Ok(found)
}

/// Reads what lies under keys; where that cannot be read of all at once, of each by itself, with
/// what is wrong there.
fn each<K>(
    keys: &[K],
    read: &dyn Fn(&[K]) -> Result<Values, StoreError>,
) -> Result<Vec<Result<Vec<u8>, String>>, StoreError> {
    match (read(keys), keys) {
        (Ok(values), _) => Ok(values
            .into_iter()
            .map(|value| value.ok_or_else(|| "it is not there".to_owned()))
            .collect()),
        (Err(StoreError::Damaged { reason, .. }), [_]) => Ok(vec![Err(reason)]),
        (Err(StoreError::Damaged { .. }), _) => {
            let (one, other) = keys.split_at(keys.len() / 2);
            Ok([each(one, read)?, each(other, read)?]
                .into_iter()
                .flatten()
                .collect())
        }
        (Err(error), _) => Err(error),
    }
}
