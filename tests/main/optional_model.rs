//! Best-effort models with a deadline: the engine skips a late model, reports that, and caches its
//! work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use picktools::embed::{EmbedError, EmbedProgress, Embedder, TextRole};
use picktools::engine::IndexError;
use picktools::selection::{Stage, StageStatus};
use picktools::skills::Skill;
use picktools::{Catalog, Engine, EngineBuilder, Mode, PickOptions, Selection};

use crate::support::{WORKPLACE, fake_vector, ids, in_mode, pick, workplace};

const REQUEST: &str = "book a meeting room";
/// The longest time for work whose deadline is a fraction of a second.
const AT_MOST: Duration = Duration::from_secs(20);

/// A slow model that counts the tools, and that may hang until the end of the test.
#[derive(Default)]
struct SlowEmbedder {
    per_tool: Duration,
    /// Texts on which it hangs.
    hangs_on: Option<&'static str>,
    tools: AtomicUsize,
}

impl Embedder for SlowEmbedder {
    fn identity(&self) -> &str {
        "slow:1"
    }

    fn dimensions(&self) -> usize {
        fake_vector("").len()
    }

    fn embed(
        &self,
        role: TextRole,
        texts: &[&str],
        progress: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        if role == TextRole::Document {
            self.tools.fetch_add(texts.len(), Ordering::Relaxed);
            thread::sleep(
                self.per_tool * u32::try_from(texts.len()).expect("few are embedded at once"),
            );
        }
        if self
            .hangs_on
            .is_some_and(|word| texts.iter().any(|text| text.contains(word)))
        {
            thread::sleep(3 * AT_MOST);
        }
        progress(texts.len());
        Ok(texts.iter().map(|text| fake_vector(text)).collect())
    }
}

fn after(milliseconds: u64) -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(milliseconds))
}

fn with(
    catalog: Catalog,
    deadline: Option<Instant>,
    embedder: &Arc<SlowEmbedder>,
) -> EngineBuilder {
    let embedder = Arc::clone(embedder) as Arc<dyn Embedder>;
    Engine::builder(catalog).optional_embedder(deadline, move || Ok(embedder))
}

/// Checks that a pick equals the one without the model, except for the stage that reports the
/// cause.
fn check_left_out(selection: &Selection, reason: &str) {
    let rest = pick(&WORKPLACE, REQUEST, &PickOptions::default());
    assert_eq!(ids(selection), ids(&rest));
    assert_eq!(
        selection.picks[0].score.to_bits(),
        rest.picks[0].score.to_bits()
    );
    let [degraded] = &selection.degraded[..] else {
        panic!("one stage is degraded: {:?}", selection.degraded)
    };
    assert!(
        degraded.stage == Stage::Semantic && degraded.reason.contains(reason),
        "{degraded:?}"
    );
    let stage = selection
        .stages
        .iter()
        .find(|report| report.stage == Stage::Semantic);
    assert!(
        matches!(
            stage.map(|stage| &stage.status),
            Some(StageStatus::Failed { .. })
        ),
        "{stage:?}"
    );
}

#[test]
fn late_model_falls_back_to_static_model() {
    let hangs = Arc::new(SlowEmbedder {
        hangs_on: Some(""),
        ..SlowEmbedder::default()
    });
    let started = Instant::now();
    let engine = with(workplace(), after(100), &hangs)
        .build()
        .expect("being late is no error");
    check_left_out(
        &pick(&engine, REQUEST, &PickOptions::default()),
        "the deadline passed before it had embedded a tool",
    );
    let semantic = pick(&engine, REQUEST, &in_mode(Mode::Semantic));
    assert_eq!(
        ids(&semantic)[0],
        "calendar/book_meeting_room",
        "the static model ranks alone"
    );
    let never = Engine::builder(workplace()).optional_embedder(after(100), || {
        thread::sleep(3 * AT_MOST);
        Err(EmbedError::Load {
            name: "never".to_owned(),
            reason: "nobody waits for it".to_owned(),
        })
    });
    let engine = never.build().expect("being late is no error");
    check_left_out(
        &pick(&engine, REQUEST, &PickOptions::default()),
        "not ready in time",
    );
    assert!(started.elapsed() < AT_MOST, "{:?}", started.elapsed());
}

#[test]
fn embeddings_before_deadline_are_cached_for_next_engine() {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let slow = Arc::new(SlowEmbedder {
        per_tool: Duration::from_millis(3),
        ..SlowEmbedder::default()
    });
    let tools = workplace().len();
    let built = |deadline| {
        with(workplace(), deadline, &slow)
            .cache_dir(temporary.path())
            .build()
            .expect("no error")
    };
    let engine = built(after(400));
    let message = format!("of {tools} tools when the deadline passed");
    check_left_out(&pick(&engine, REQUEST, &PickOptions::default()), &message);
    // The current batch may end after the deadline.
    thread::sleep(Duration::from_millis(300));
    let first = slow.tools.swap(0, Ordering::Relaxed);
    assert!(first < tools, "all {first} were embedded in time");
    assert!(
        pick(&built(None), REQUEST, &PickOptions::default())
            .degraded
            .is_empty()
    );
    let second = slow.tools.load(Ordering::Relaxed);
    assert!(
        second < tools,
        "{first} were embedded before, and {second} of {tools} again"
    );
}

#[test]
fn skills_and_tools_use_the_same_models() {
    let skill = Skill {
        name: "zebra-room".to_owned(),
        description: "Book a meeting room with a zebra in it".to_owned(),
        path: "zebra-room/SKILL.md".to_owned(),
        allowed_tools: Vec::new(),
        body: "Book it.".to_owned(),
    };
    for (hangs_on, late) in [(None, false), (Some("zebra"), true)] {
        let slow = Arc::new(SlowEmbedder {
            hangs_on,
            ..SlowEmbedder::default()
        });
        let builder = with(workplace(), after(if late { 500 } else { 600_000 }), &slow);
        let engine = builder
            .skills(vec![skill.clone()])
            .build()
            .expect("being late is no error");
        let selection = pick(&engine, REQUEST, &PickOptions::default());
        assert_eq!(
            selection
                .degraded
                .iter()
                .any(|degraded| degraded.stage == Stage::Semantic),
            late
        );
        assert_eq!(
            selection.picks[0].provenance.semantic.len(),
            if late { 1 } else { 2 }
        );
        assert_eq!(selection.skills.as_ref().map(Vec::len), Some(1));
    }
}

#[test]
fn best_effort_model_in_time_equals_required_model() {
    let json = |engine: Engine| {
        serde_json::to_string(&pick(&engine, REQUEST, &PickOptions::default()))
            .expect("a selection serialises")
    };
    let slow = Arc::<SlowEmbedder>::default();
    let required_model = Engine::builder(workplace())
        .embedder(Arc::clone(&slow) as Arc<dyn Embedder>)
        .build();
    let required_model = json(required_model.expect("it works"));
    for deadline in [None, after(600_000)] {
        assert_eq!(
            json(
                with(workplace(), deadline, &slow)
                    .build()
                    .expect("it works")
            ),
            required_model
        );
        let broken = || {
            Err(EmbedError::Load {
                name: "broken".to_owned(),
                reason: "it is damaged".to_owned(),
            })
        };
        let error = Engine::builder(workplace())
            .optional_embedder(deadline, broken)
            .build();
        let error = error.expect_err("that does not pass");
        assert!(
            matches!(error, IndexError::Model(EmbedError::Load { .. })),
            "{error}"
        );
    }
}
