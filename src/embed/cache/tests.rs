//! Tests of the cache with damage, concurrent handles and unusable folders.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{array, thread};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const MODEL: &str = "test-model@1";
const DIMENSIONS: usize = 3;

fn root() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn open(root: &TempDir) -> VectorCache {
    VectorCache::open(root.path(), MODEL, DIMENSIONS)
}

fn put(cache: &mut VectorCache, text: &str, vector: [f32; DIMENSIONS]) {
    cache
        .insert_all(TextRole::Document, [(text, vector)])
        .expect("a vector of the right shape");
}

fn cached_bits(cache: &VectorCache, text: &str) -> Option<Vec<u32>> {
    cache
        .get(TextRole::Document, text)
        .map(|vector| vector.iter().map(|value| value.to_bits()).collect())
}

fn bits(vector: [f32; DIMENSIONS]) -> Option<Vec<u32>> {
    Some(vector.iter().map(|value| value.to_bits()).collect())
}

fn files(cache: &VectorCache) -> Vec<PathBuf> {
    fs::read_dir(&cache.folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

/// Writes `content` with its digest as a segment into the folder.
fn write_segment(cache: &VectorCache, mut content: Vec<u8>) {
    let digest = Sha256::digest(&content);
    content.extend_from_slice(&digest);
    let name = format!("{:016x}-{}.vec", 1, hex(&digest));
    fs::write(cache.folder.join(name), content).expect("a written segment");
}

fn any_header(version: u32, dimensions: u32, count: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for word in [version, dimensions, count] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[test]
fn inserted_vectors_are_found_before_and_after_reopening() {
    let root = root();
    let mut cache = open(&root);
    assert_eq!(cache.get(TextRole::Document, "weather"), None);
    put(&mut cache, "weather", [1.0, -0.0, f32::MIN_POSITIVE]);
    cache
        .insert_all(
            TextRole::Query,
            vec![(String::from("weather"), vec![4.0, 5.0, 6.0])],
        )
        .expect("a query");

    for cache in [cache, open(&root)] {
        assert_eq!(
            cached_bits(&cache, "weather"),
            bits([1.0, -0.0, f32::MIN_POSITIVE])
        );
        assert_eq!(
            cache.get(TextRole::Query, "weather"),
            Some(&[4.0, 5.0, 6.0][..])
        );
        assert_eq!(cache.get(TextRole::Query, "mail"), None);
        assert_eq!(
            cache.status(),
            CacheStatus {
                entries: 2,
                segments: 2,
                ..CacheStatus::default()
            }
        );
    }
}

#[test]
fn models_and_dimensions_do_not_share_vectors() {
    let root = root();
    put(&mut open(&root), "a", [1.0; 3]);
    let mut other = VectorCache::open(root.path(), "test-model@2", DIMENSIONS);
    let mut shorter = VectorCache::open(root.path(), MODEL, 2);
    assert_eq!((other.status().entries, shorter.status().entries), (0, 0));
    put(&mut other, "a", [2.0; 3]);
    shorter
        .insert_all(TextRole::Document, [("a", [3.0; 2])])
        .expect("two dimensions");
    assert_eq!(cached_bits(&open(&root), "a"), bits([1.0; 3]));
    assert_eq!(open(&root).status().damaged_segments, 0);
}

#[test]
fn batch_writes_one_file_and_known_vectors_write_none() {
    let root = root();
    let mut cache = open(&root);
    let batch: Vec<(String, [f32; 3])> = (0..100u8)
        .map(|n| (n.to_string(), [f32::from(n); 3]))
        .collect();
    cache
        .insert_all(TextRole::Document, batch.clone())
        .expect("a batch");
    assert_eq!(files(&cache).len(), 1);
    cache
        .insert_all(TextRole::Document, batch.clone())
        .expect("the same batch");
    open(&root)
        .insert_all(TextRole::Document, batch)
        .expect("the same batch elsewhere");
    cache
        .insert_all(TextRole::Document, Vec::<(&str, Vec<f32>)>::new())
        .expect("an empty batch");
    assert_eq!(files(&cache).len(), 1);
    assert_eq!(open(&root).status().entries, 100);
}

#[test]
fn equal_batches_make_equal_files_in_any_order() {
    let names = [["a", "b", "c"], ["c", "a", "b"]].map(|order| {
        let root = root();
        let mut cache = open(&root);
        cache
            .insert_all(TextRole::Document, order.map(|text| (text, [1.0; 3])))
            .expect("a batch");
        cache.segments.into_keys().collect::<Vec<_>>()
    });
    assert_eq!(names[0], names[1]);
}

#[test]
fn invalid_vector_rejects_the_batch() {
    let root = root();
    let mut cache = open(&root);
    let wrong = cache.insert_all(
        TextRole::Document,
        [("a", vec![1.0; 3]), ("b", vec![1.0; 4])],
    );
    assert_eq!(
        wrong,
        Err(CacheError::Dimensions {
            entry: 1,
            expected: 3,
            actual: 4
        })
    );
    for value in [f32::NAN, f32::INFINITY] {
        let wrong = cache.insert_all(TextRole::Document, [("a", [1.0, value, 1.0])]);
        assert_eq!(wrong, Err(CacheError::NotFinite { entry: 0 }));
    }
    assert_eq!(cache.status(), CacheStatus::default());
    assert!(files(&cache).is_empty());
}

#[test]
fn two_handles_keep_all_entries_and_the_later_vector() {
    let root = root();
    let (mut left, mut right) = (open(&root), open(&root));
    put(&mut left, "left", [1.0; 3]);
    put(&mut right, "right", [2.0; 3]);
    assert_eq!(
        cached_bits(&right, "left"),
        bits([1.0; 3]),
        "an insert also reads the writes of others"
    );
    for n in 0..40u8 {
        put(&mut left, "both", [f32::from(n); 3]);
        put(&mut right, "both", [f32::from(n) + 0.5; 3]);
    }
    let cache = open(&root);
    assert_eq!(cached_bits(&cache, "both"), bits([39.5; 3]));
    assert_eq!(
        (cached_bits(&cache, "left"), cached_bits(&cache, "right")),
        (bits([1.0; 3]), bits([2.0; 3]))
    );
    assert!(files(&cache).len() <= MAX_SEGMENTS);
}

#[test]
fn late_segment_of_an_older_generation_does_not_win() {
    let root = root();
    let mut slow = open(&root);
    let mut cache = open(&root);
    put(&mut cache, "a", [1.0; 3]);
    put(&mut cache, "a", [2.0; 3]);
    // This simulates that `slow` chose its generation before either write.
    slow.generation = 1;
    slow.store(key(TextRole::Document, "a"), &[0.5; 3], 1);
    slow.unsaved.insert(key(TextRole::Document, "a"));
    slow.save().expect("a folder to write to");
    put(&mut cache, "b", [3.0; 3]);
    assert_eq!(cached_bits(&cache, "a"), bits([2.0; 3]));
    assert_eq!(cached_bits(&open(&root), "a"), bits([2.0; 3]));
}

#[test]
fn concurrent_writers_and_readers_lose_nothing() {
    const WRITERS: usize = 3;
    const WRITES: usize = 60;
    let root = root();
    let path = root.path();
    let written: [AtomicUsize; WRITERS] = array::from_fn(|_| AtomicUsize::new(0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let written = &written[writer];
                scope.spawn(move || {
                    let mut cache = VectorCache::open(path, MODEL, DIMENSIONS);
                    for n in 0..WRITES {
                        put(&mut cache, &format!("{writer}/{n}"), [1.0; 3]);
                        written.store(n + 1, Ordering::SeqCst);
                    }
                    assert_eq!(cache.status().write_error, None);
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let written_counts: [usize; WRITERS] =
                    array::from_fn(|writer| written[writer].load(Ordering::SeqCst));
                let cache = VectorCache::open(path, MODEL, DIMENSIONS);
                for (writer, count) in written_counts.into_iter().enumerate() {
                    for n in 0..count {
                        assert!(
                            cached_bits(&cache, &format!("{writer}/{n}")).is_some(),
                            "{writer}/{n} is missing"
                        );
                    }
                }
                assert_eq!(cache.status().damaged_segments, 0);
            }
        });
        let outcomes: Vec<_> = writers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::SeqCst);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    let cache = open(&root);
    assert_eq!(cache.status().entries, WRITERS * WRITES);
    assert!(files(&cache).len() < MAX_SEGMENTS + WRITERS);
}

#[test]
fn merging_bounds_files_and_keeps_large_segments() {
    let root = root();
    let mut cache = open(&root);
    let catalog = (0..500u16).map(|n| (format!("tool {n}"), [f32::from(n); 3]));
    cache
        .insert_all(TextRole::Document, catalog)
        .expect("a catalog");
    let large = files(&cache);
    for n in 0..200u8 {
        put(&mut cache, &format!("query {n}"), [f32::from(n); 3]);
        assert!(files(&cache).len() <= MAX_SEGMENTS);
        assert_eq!(files(&cache).len(), cache.status().segments);
    }
    assert!(files(&cache).contains(&large[0]));
    let cache = open(&root);
    assert_eq!(cache.status().entries, 700);
    for n in 0..200u8 {
        assert_eq!(
            cached_bits(&cache, &format!("query {n}")),
            bits([f32::from(n); 3])
        );
    }
}

#[test]
fn merging_removes_only_stale_temporary_files() {
    let root = root();
    let mut cache = open(&root);
    let [stale, fresh] = ["segment-stale.tmp", "segment-fresh.tmp"].map(|name| {
        let path = cache.folder.join(name);
        fs::write(&path, b"half").expect("a temporary file");
        path
    });
    let file = File::options()
        .write(true)
        .open(&stale)
        .expect("the stale file");
    let stale_time = file
        .metadata()
        .and_then(|metadata| metadata.modified())
        .expect("a modification time")
        - 2 * STALE_AFTER;
    file.set_modified(stale_time).expect("an older time");
    for n in 0..=MAX_SEGMENTS {
        put(&mut cache, &n.to_string(), [1.0; 3]);
    }
    assert_eq!((stale.exists(), fresh.exists()), (false, true));
    assert_eq!(cache.status().damaged_segments, 0);
}

/// Damages the only segment of a cache, and asserts that the damage is counted and removed, and
/// that the cache stays usable.
fn assert_heals(damage: impl FnOnce(&VectorCache, &Path)) {
    let root = root();
    let mut cache = open(&root);
    put(&mut cache, "lost", [1.0; 3]);
    let segment = files(&cache).remove(0);
    damage(&cache, &segment);

    let mut cache = open(&root);
    assert_eq!(cache.status().damaged_segments, 1);
    let lost = cache.status().entries == 0;
    assert_eq!(cache.status().segments, usize::from(!lost));
    assert_eq!(
        files(&cache).len(),
        usize::from(!lost),
        "damaged segments are removed"
    );
    put(&mut cache, "lost", [1.0; 3]);
    put(&mut cache, "new", [2.0; 3]);
    let cache = open(&root);
    assert_eq!(
        (cached_bits(&cache, "lost"), cached_bits(&cache, "new")),
        (bits([1.0; 3]), bits([2.0; 3]))
    );
    let healthy = CacheStatus {
        entries: 2,
        segments: 2,
        ..CacheStatus::default()
    };
    assert_eq!(cache.status(), healthy);
}

#[test]
fn truncated_segments_are_replaced() {
    let complete = HEADER_BYTES + DIGEST_BYTES + 4 * DIMENSIONS + DIGEST_BYTES;
    for length in 0..complete {
        assert_heals(|_, segment| {
            let bytes = fs::read(segment).expect("the segment");
            assert_eq!(bytes.len(), complete);
            fs::write(segment, &bytes[..length]).expect("a cut segment");
        });
    }
}

#[test]
fn segments_with_changed_or_extra_bytes_are_replaced() {
    for position in 0..HEADER_BYTES + DIGEST_BYTES + 4 * DIMENSIONS + DIGEST_BYTES {
        assert_heals(|_, segment| {
            let mut bytes = fs::read(segment).expect("the segment");
            bytes[position] ^= 0x10;
            fs::write(segment, bytes).expect("a flipped byte");
        });
    }
    assert_heals(|_, segment| {
        let mut bytes = fs::read(segment).expect("the segment");
        bytes.push(0);
        fs::write(segment, bytes).expect("a longer segment");
    });
}

#[test]
fn files_without_a_segment_are_replaced() {
    for content in [&b""[..], b"garbage", &[0xff; 4096], MAGIC] {
        assert_heals(|cache, _| {
            fs::write(cache.folder.join("garbage.vec"), content).expect("a garbage file");
        });
    }
    assert_heals(|_, segment| {
        fs::rename(segment, segment.with_file_name("renamed.vec")).expect("another name");
    });
    assert_heals(|cache, segment| {
        let other = format!("{:016x}-{}.vec", 7, "0".repeat(64));
        fs::rename(segment, cache.folder.join(other)).expect("another digest");
    });
}

#[test]
fn segments_with_false_headers_are_replaced() {
    let one = |version, dimensions: u32, value: f32| {
        let mut bytes = any_header(version, dimensions, 1);
        bytes.extend_from_slice(&[7; DIGEST_BYTES]);
        (0..dimensions).for_each(|_| bytes.extend_from_slice(&value.to_le_bytes()));
        bytes
    };
    assert_heals(|cache, _| write_segment(cache, one(FORMAT_VERSION, 4, 1.0)));
    assert_heals(|cache, _| write_segment(cache, one(FORMAT_VERSION, 2, 1.0)));
    assert_heals(|cache, _| write_segment(cache, one(FORMAT_VERSION + 1, 3, 1.0)));
    assert_heals(|cache, _| write_segment(cache, one(FORMAT_VERSION, 3, f32::NAN)));
    assert_heals(|cache, _| write_segment(cache, any_header(FORMAT_VERSION, 3, u32::MAX)));
    assert_heals(|cache, _| write_segment(cache, any_header(FORMAT_VERSION, u32::MAX, u32::MAX)));
    assert_heals(|cache, _| write_segment(cache, any_header(FORMAT_VERSION, 0, u32::MAX)));
}

#[test]
fn unremovable_damaged_segment_is_counted_once() {
    let root = root();
    let mut cache = open(&root);
    fs::create_dir(cache.folder.join("folder.vec")).expect("a folder in the way");
    for n in 0..40 {
        put(&mut cache, &n.to_string(), [1.0; 3]);
    }
    assert_eq!(cache.status().damaged_segments, 1);
    assert_eq!(
        (cache.status().entries, cache.status().write_error),
        (40, None)
    );
    assert_eq!(open(&root).status().entries, 40);
}

#[test]
fn cache_without_a_folder_works_in_memory_and_reports_it() {
    let root = root();
    let file = root.path().join("file");
    fs::write(&file, b"in the way").expect("a file");
    let mut cache = VectorCache::open(&file.join("cache"), MODEL, DIMENSIONS);
    assert!(
        cache
            .status()
            .write_error
            .is_some_and(|error| error.starts_with("cannot create "))
    );
    put(&mut cache, "a", [1.0; 3]);
    assert_eq!(cached_bits(&cache, "a"), bits([1.0; 3]));
    assert_eq!((cache.status().entries, cache.status().unsaved), (1, 1));
    assert!(cache.status().write_error.is_some());

    fs::remove_file(&file).expect("the file away");
    put(&mut cache, "b", [2.0; 3]);
    assert_eq!(
        cache.status(),
        CacheStatus {
            entries: 2,
            segments: 1,
            ..CacheStatus::default()
        }
    );
    let reopened = VectorCache::open(&file.join("cache"), MODEL, DIMENSIONS);
    assert_eq!(
        reopened.status().entries,
        2,
        "the next batch saves unsaved vectors"
    );
}

#[test]
fn folder_removed_during_use_is_created_again() {
    let root = root();
    let mut cache = open(&root);
    put(&mut cache, "a", [1.0; 3]);
    fs::remove_dir_all(&cache.folder).expect("the folder away");
    put(&mut cache, "a", [2.0; 3]);
    assert_eq!(cached_bits(&cache, "a"), bits([2.0; 3]));
    assert_eq!(cached_bits(&open(&root), "a"), bits([2.0; 3]));
}

#[cfg(unix)]
#[test]
fn read_only_folder_is_read_and_reported() {
    use std::os::unix::fs::PermissionsExt;
    let root = root();
    let mut cache = open(&root);
    put(&mut cache, "a", [1.0; 3]);
    fs::set_permissions(&cache.folder, fs::Permissions::from_mode(0o555)).expect("no writing");
    // Permissions do not apply to root, which may run the tests.
    let is_protected = File::create(cache.folder.join("probe")).is_err();

    let mut cache = open(&root);
    assert_eq!(cached_bits(&cache, "a"), bits([1.0; 3]));
    put(&mut cache, "b", [2.0; 3]);
    assert_eq!(cached_bits(&cache, "b"), bits([2.0; 3]));
    assert_eq!(cache.status().write_error.is_some(), is_protected);
    assert_eq!(cache.status().unsaved, usize::from(is_protected));
    fs::set_permissions(&cache.folder, fs::Permissions::from_mode(0o755)).expect("writing");
}

#[derive(Debug, Clone)]
enum CacheStep {
    Insert {
        handle: usize,
        role: TextRole,
        batch: Vec<(u8, f32)>,
    },
    Reopen {
        handle: usize,
    },
}

fn step() -> impl Strategy<Value = CacheStep> {
    let role = prop_oneof![Just(TextRole::Document), Just(TextRole::Query)];
    let batch = prop::collection::vec((0..12u8, -1e3f32..1e3), 0..4);
    prop_oneof![
        4 => (0..2usize, role, batch)
            .prop_map(|(handle, role, batch)| CacheStep::Insert { handle, role, batch }),
        1 => (0..2usize).prop_map(|handle| CacheStep::Reopen { handle }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The oracle is a map with the last write of any handle; every current handle agrees with it.
    #[test]
    fn any_sequence_of_steps_returns_the_last_write(steps in prop::collection::vec(step(), 0..60)) {
        let root = root();
        let mut handles = [open(&root), open(&root)];
        let mut oracle: HashMap<(TextRole, u8), u32> = HashMap::new();
        for step in steps {
            let handle = match step {
                CacheStep::Insert { handle, role, batch } => {
                    for (text, value) in &batch {
                        oracle.insert((role, *text), value.to_bits());
                    }
                    let entries = batch
                        .into_iter()
                        .map(|(text, value)| (text.to_string(), [value; DIMENSIONS]));
                    handles[handle].insert_all(role, entries).expect("a batch");
                    handle
                }
                CacheStep::Reopen { handle } => {
                    handles[handle] = open(&root);
                    handle
                }
            };
            let cache = &handles[handle];
            prop_assert!(files(cache).len() <= MAX_SEGMENTS);
            prop_assert_eq!(cache.status().entries, oracle.len());
            for ((role, text), value) in &oracle {
                let vector = cache.get(*role, &text.to_string());
                let cached = vector.map(|vector| vector[DIMENSIONS - 1].to_bits());
                prop_assert_eq!(cached, Some(*value));
            }
        }
    }
}
