//! Load shedding: picks while late work blocks all threads for work with a deadline. The test has
//! its own process because it blocks all of them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use picktools::embed::{EmbedError, EmbedProgress, Embedder, TextRole};
use picktools::scorer::{Score, ScoreFuture, Scorer};
use picktools::selection::Stage;
use picktools::{Catalog, Engine, PickOptions, Query, Selection, Tool};

const AT_MOST: Duration = Duration::from_secs(60);

/// A scorer that blocks its thread until the test releases it.
#[derive(Default)]
struct BlockingScorer {
    released: Mutex<bool>,
    changed: Condvar,
}

impl Scorer for BlockingScorer {
    fn name(&self) -> &str {
        "blocks"
    }

    fn score<'a>(&'a self, _: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        let released = self.released.lock().expect("nobody panicked");
        drop(self.changed.wait_while(released, |released| !*released));
        Box::pin(async move { Ok(vec![Score::new(1.0); tools.len()]) })
    }
}

/// A model that is not known to be fast.
struct OneVector;

impl Embedder for OneVector {
    fn identity(&self) -> &str {
        "one vector"
    }

    fn dimensions(&self) -> usize {
        1
    }

    fn embed(
        &self,
        _: TextRole,
        texts: &[&str],
        _: EmbedProgress<'_>,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(vec![vec![1.0]; texts.len()])
    }
}

fn pick(engine: &Engine, timeout: Duration) -> Selection {
    let options = PickOptions {
        timeout: Some(timeout),
        ..PickOptions::default()
    };
    engine
        .pick(&Query::new("send a mail"), &options)
        .expect("being late is not an error")
}

#[test]
fn new_work_while_late_work_blocks_threads_is_rejected() {
    let tools = [
        Tool::without_arguments("send_mail", "Sends a mail"),
        Tool::without_arguments("play_music", "Plays music"),
    ];
    let catalog = Catalog::from_tools(tools).expect("the tools are valid");
    let blocks = Arc::new(BlockingScorer::default());
    let scored = Engine::builder(catalog.clone())
        .keyword_only()
        .scorer(Arc::clone(&blocks) as Arc<dyn Scorer>);
    let scored = scored.build().expect("it builds");
    let begun = Instant::now();
    let refused = loop {
        let selection = pick(&scored, Duration::from_millis(5));
        let [degraded] = &selection.degraded[..] else {
            panic!("one stage is degraded: {:?}", selection.degraded)
        };
        assert_eq!(degraded.stage, Stage::Scorer);
        if degraded
            .reason
            .contains("earlier requests are still being answered")
        {
            break selection;
        }
        assert!(
            degraded.reason.contains("the deadline passed"),
            "{}",
            degraded.reason
        );
        assert!(begun.elapsed() < AT_MOST, "there is no bound");
    };
    assert_eq!(refused.picks.len(), 2, "the catalog's order stands in");

    // Other engines of the process skip models that need a thread, and report so at once.
    let hybrid = Engine::builder(catalog.clone()).embedder(Arc::new(OneVector));
    let hybrid = hybrid.build().expect("it builds");
    let begun = Instant::now();
    let selection = pick(&hybrid, AT_MOST);
    assert!(begun.elapsed() < AT_MOST / 2, "a thread was waited for");
    let degraded = selection
        .degraded
        .iter()
        .find(|degraded| degraded.stage == Stage::Semantic);
    assert!(
        degraded.is_some_and(|degraded| {
            degraded
                .reason
                .contains("earlier requests are still being answered")
        }),
        "{degraded:?}"
    );
    assert_eq!(selection.picks[0].tool.name, "send_mail");
    let built_in = pick(&Engine::new(catalog).expect("it builds"), AT_MOST);
    assert!(built_in.degraded.is_empty(), "it needs no other thread");

    *blocks.released.lock().expect("nobody panicked") = true;
    blocks.changed.notify_all();
    while !pick(&hybrid, AT_MOST).degraded.is_empty() {
        assert!(begun.elapsed() < AT_MOST, "threads are not freed");
    }
    assert!(pick(&scored, AT_MOST).degraded.is_empty());
}
