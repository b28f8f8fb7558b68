//! Rerankers: they only permute the best candidates, run under their condition, and never delay a
//! pick beyond its deadline.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use picktools::rerank::{CircuitBreaker, Rerank, RerankError, RerankFuture, RerankScore, Reranker};
use picktools::selection::{Stage, StageStatus};
use picktools::{Access, Engine, PickError, PickOptions, Query, Selection, Tool};
use proptest::prelude::*;

use crate::support::{ids, pick, workplace};

/// The request of these tests, which several tools serve.
const REQUEST: &str = "send a message to a colleague about the meeting";

type Answer = Vec<(usize, f32)>;

/// A reranker with a scripted answer.
struct Scripted<F>(F);

impl<F: Fn(&[Arc<Tool>]) -> Result<Answer, String> + Send + Sync> Reranker for Scripted<F> {
    fn name(&self) -> &str {
        "scripted"
    }

    fn rerank<'a>(
        &'a self,
        _: &'a Query,
        window: &'a [Arc<Tool>],
        _: Option<Instant>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            let answer = (self.0)(window).map_err(|reason| RerankError::Failed {
                reranker: "scripted".into(),
                reason,
            })?;
            Ok(answer
                .into_iter()
                .map(|(candidate, score)| RerankScore { candidate, score })
                .collect())
        })
    }
}

fn with_reranker(reranker: impl Reranker + 'static) -> Engine {
    Engine::builder(workplace())
        .reranker(Arc::new(reranker))
        .build()
        .expect("the static model needs nothing")
}

fn scripted(
    answer: impl Fn(&[Arc<Tool>]) -> Result<Answer, String> + Send + Sync + 'static,
) -> Engine {
    with_reranker(Scripted(answer))
}

/// Reverses the window.
fn backwards(window: &[Arc<Tool>]) -> Result<Answer, String> {
    Ok((0..window.len())
        .map(|place| (place, place as f32))
        .collect())
}

fn always(most: usize) -> PickOptions {
    PickOptions {
        rerank: Rerank::Always,
        ..never(most)
    }
}

fn never(most: usize) -> PickOptions {
    PickOptions {
        max_candidates: most,
        min_score: 0.0,
        ..PickOptions::default()
    }
}

fn status(selection: &Selection) -> &StageStatus {
    let report = selection
        .stages
        .iter()
        .find(|report| report.stage == Stage::Rerank);
    &report.expect("every stage reports").status
}

fn check_prior_order(selection: &Selection, prior: &Selection, reason: &str) {
    assert_eq!(ids(selection), ids(prior));
    let [degraded] = &selection.degraded[..] else {
        panic!("one stage is degraded: {:?}", selection.degraded)
    };
    assert_eq!(degraded.stage, Stage::Rerank);
    assert!(
        degraded.reason.contains(reason),
        "{} lacks {reason:?}",
        degraded.reason
    );
    assert!(
        degraded.reason.ends_with("the previous order is kept"),
        "{}",
        degraded.reason
    );
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| pick.provenance.rerank.is_none())
    );
}

#[test]
fn reranker_reorders_window_and_keeps_scores() {
    let engine = scripted(backwards);
    let prior = pick(&engine, REQUEST, &never(8));
    let options = PickOptions {
        rerank_window: 5,
        ..always(8)
    };
    let selection = pick(&engine, REQUEST, &options);
    let mut expected = ids(&prior);
    assert_eq!(expected.len(), 8);
    expected[..5].reverse();
    assert_eq!(ids(&selection), expected);
    assert_eq!(*status(&selection), StageStatus::Ran);
    for pick in &selection.picks {
        let previous = prior
            .picks
            .iter()
            .find(|prior| prior.tool.id == pick.tool.id)
            .expect("nothing is new");
        assert_eq!(
            pick.score.to_bits(),
            previous.score.to_bits(),
            "the calibrated score stays"
        );
    }
    let places: Vec<Option<(usize, usize)>> = selection
        .picks
        .iter()
        .map(|pick| {
            pick.provenance
                .rerank
                .map(|rerank| (rerank.before, rerank.after))
        })
        .collect();
    let moved = [(5, 1), (4, 2), (3, 3), (2, 4), (1, 5)].map(Some);
    assert_eq!(
        places,
        [&moved[..], &[None; 3]].concat(),
        "what lies behind the window is not touched"
    );
    assert!(
        selection.picks[0]
            .reason
            .contains("reranked from place 5 to 1 by scripted"),
        "{}",
        selection.picks[0].reason
    );
    assert!(
        !selection.picks[2].reason.contains("reranked"),
        "it stays where it was"
    );
    let report = selection.rerank.expect("reranking was asked for");
    assert_eq!(
        (report.reranker.as_str(), report.window, report.reordered),
        ("scripted", 5, true)
    );
}

#[test]
fn reranker_lifts_candidates_over_cutoff_not_threshold() {
    let engine = scripted(backwards);
    let prior = pick(&engine, REQUEST, &never(20));
    let selection = pick(&engine, REQUEST, &always(2));
    let mut expected = ids(&prior);
    expected.reverse();
    assert_eq!(ids(&selection), expected[..2]);
    assert_eq!(selection.below_threshold, prior.below_threshold);
    let least = prior.picks[2].score;
    let selection = pick(
        &engine,
        REQUEST,
        &PickOptions {
            min_score: least,
            ..always(9)
        },
    );
    assert_eq!(
        ids(&selection),
        [ids(&prior)[2], ids(&prior)[1], ids(&prior)[0]],
        "the threshold comes first"
    );
}

#[test]
fn mentioned_tools_after_reranking_stay() {
    let engine = scripted(backwards);
    let selection = pick(
        &engine,
        "use `playMusic` to send a message about the meeting",
        &always(1),
    );
    assert_eq!(ids(&selection), ["home/playMusic"]);
}

#[test]
fn reranker_receives_eligible_tools_only() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&received);
    let engine = scripted(move |window| {
        record
            .lock()
            .expect("nobody panicked")
            .extend(window.iter().map(|tool| tool.id.clone()));
        backwards(window)
    });
    let options = PickOptions {
        min_score: 0.0,
        rerank_window: 100,
        access: Access {
            exclude: ["mail/send_email".to_owned()].into(),
            ..Access::default()
        },
        ..always(3)
    };
    let selection = pick(&engine, REQUEST, &options);
    let received = received.lock().expect("nobody panicked").clone();
    assert!(
        received.len() > 20 && !received.contains(&"mail/send_email".to_owned()),
        "{received:?}"
    );
    let hidden = |id: &String| {
        let tool = engine
            .catalog()
            .tools()
            .expect("readable")
            .iter()
            .find(|tool| tool.id == *id)
            .expect("it is of the catalog");
        tool.is_unsafe() || !tool.allowed_roles.is_empty()
    };
    assert!(!received.iter().any(hidden));
    assert_eq!(selection.picks.len(), 3);
}

#[test]
fn reranker_runs_as_options_say() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let engine = scripted(move |window| {
        count.fetch_add(1, Ordering::SeqCst);
        backwards(window)
    });
    let run = |request: &str, options: &PickOptions| {
        let previous = calls.load(Ordering::SeqCst);
        let selection = pick(&engine, request, options);
        (calls.load(Ordering::SeqCst) - previous, selection)
    };
    let auto = |most: usize| PickOptions {
        rerank: Rerank::Auto,
        ..always(most)
    };
    let skipped = |selection: &Selection, why: &str| {
        let StageStatus::Skipped { reason } = status(selection) else {
            panic!("{:?}", status(selection))
        };
        assert!(reason.contains(why), "{reason}");
        assert!(selection.degraded.is_empty());
    };

    let (times, never) = run(REQUEST, &PickOptions::default());
    assert_eq!(times, 0);
    skipped(&never, "the options ask for no reranking");
    assert!(never.rerank.is_none());

    // One tool fits, far above the others.
    let clear = "book a meeting room";
    let (times, selection) = run(clear, &auto(1));
    assert_eq!(times, 0, "{:?}", selection.rerank);
    skipped(&selection, "the best candidate leads by 0.");
    let report = selection.rerank.expect("it was asked for");
    assert!(
        !report.reordered && report.top_margin.is_some_and(|margin| margin > 0.25),
        "{report:?}"
    );
    assert_eq!(
        report.cut_margin, report.top_margin,
        "with one pick the cut is behind the best"
    );
    assert_eq!(run(clear, &always(1)).0, 1, "always is always");

    let (times, selection) = run("tell the team about the meeting", &auto(3));
    assert_eq!(times, 1, "{:?}", selection.rerank);
    let report = selection.rerank.expect("it was asked for");
    let thin = [report.top_margin, report.cut_margin]
        .into_iter()
        .flatten()
        .any(|margin| margin < 0.25);
    assert!(
        report.reordered && thin && report.first_cut.is_some(),
        "{report:?}"
    );

    // The candidates on both sides of the cutoff have nearly the same low score.
    let (times, selection) = run(clear, &auto(4));
    assert_eq!(times, 0, "{:?}", selection.rerank);
    let report = selection.rerank.as_ref().expect("it was asked for");
    assert!(
        report.cut_margin.is_some_and(|margin| margin < 0.05),
        "{report:?}"
    );
    skipped(
        &selection,
        "the first candidate below the cutoff scores 0.0",
    );

    for rerank in [Rerank::Auto, Rerank::Always] {
        let options = PickOptions {
            rerank,
            min_score: 1.0,
            ..always(3)
        };
        let (times, selection) = run("nothing of all this", &options);
        assert_eq!(times, 0);
        skipped(&selection, "there is nothing to reorder");
    }
}

#[test]
fn missing_reranker_is_error_for_always_not_auto() {
    let engine = crate::support::engine(workplace());
    let error = engine
        .pick(&Query::new(REQUEST), &always(3))
        .expect_err("there is none");
    assert!(matches!(error, PickError::NoReranker), "{error}");
    let selection = pick(
        &engine,
        REQUEST,
        &PickOptions {
            rerank: Rerank::Auto,
            ..PickOptions::default()
        },
    );
    assert!(
        matches!(status(&selection), StageStatus::Skipped { reason } if reason == "no reranker is set")
    );
    for rerank_window in [0, 1, 101] {
        let error = engine.pick(
            &Query::new(REQUEST),
            &PickOptions {
                rerank_window,
                ..PickOptions::default()
            },
        );
        assert!(matches!(
            error,
            Err(PickError::InvalidOption {
                option: "rerank_window",
                ..
            })
        ));
    }
}

#[test]
fn custom_scorer_ranking_is_reranked() {
    let scorer = crate::support::engine(workplace()).scorer(picktools::Mode::Keyword);
    let builder = Engine::builder(workplace())
        .scorer(Arc::new(scorer))
        .reranker(Arc::new(Scripted(backwards)));
    let engine = builder.build().expect("the static model needs nothing");
    let prior = pick(&engine, REQUEST, &never(20));
    let mut expected = ids(&prior);
    expected.reverse();
    assert_eq!(ids(&pick(&engine, REQUEST, &always(4))), expected[..4]);
}

/// Every kind of failure except a timeout.
#[test]
fn failing_reranker_keeps_previous_order() {
    let boom = |_: &[Arc<Tool>]| Err("the model is away".to_owned());
    let panics = |_: &[Arc<Tool>]| panic!("on purpose");
    for (engine, reason) in [
        (
            scripted(boom),
            "the reranker scripted failed: the model is away",
        ),
        (
            scripted(panics),
            "the reranker scripted failed: it panicked",
        ),
        (
            scripted(|_| Ok(Vec::new())),
            "the reranker scripted gave no score for the candidate 1 of",
        ),
    ] {
        let prior = pick(&engine, REQUEST, &never(3));
        for timeout in [None, Some(Duration::from_secs(10))] {
            check_prior_order(
                &pick(
                    &engine,
                    REQUEST,
                    &PickOptions {
                        timeout,
                        ..always(3)
                    },
                ),
                &prior,
                reason,
            );
        }
    }
}

/// An engine with a reranker whose answer can be replaced through the lock.
static LIAR: LazyLock<(Engine, Arc<Mutex<Answer>>)> = LazyLock::new(|| {
    let lie = Arc::new(Mutex::new(Answer::new()));
    let answer_handle = Arc::clone(&lie);
    (
        scripted(move |_| Ok(answer_handle.lock().expect("nobody panicked").clone())),
        lie,
    )
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn reranker_answer_loses_and_adds_no_tool(
        sound in any::<bool>(),
        order in Just((0..6usize).collect::<Vec<_>>()).prop_shuffle(),
        lie in prop::collection::vec(
            (prop_oneof![8 => 0usize..7, 1 => Just(usize::MAX)], prop_oneof![8 => -9f32..9.0, 1 => Just(f32::NAN), 1 => Just(f32::INFINITY)]),
            0..9,
        ),
        window in 2usize..7,
        most in 1usize..9,
    ) {
        let (engine, answer_handle) = &*LIAR;
        let answer = if sound {
            order.iter().filter(|&&place| place < window).enumerate().map(|(rank, &place)| (place, -(rank as f32))).collect()
        } else {
            lie
        };
        answer_handle.lock().expect("nobody panicked").clone_from(&answer);
        let prior = pick(engine, REQUEST, &never(20));
        prop_assert!(prior.picks.len() >= 9);
        let selection = pick(engine, REQUEST, &PickOptions { rerank_window: window, ..always(most) });
        let full = pick(engine, REQUEST, &PickOptions { rerank_window: window, ..always(20) });
        let is_permutation = answer.len() == window
            && (0..window).all(|place| answer.iter().any(|&(given, score)| given == place && score.is_finite()));
        prop_assert_eq!(selection.degraded.is_empty(), is_permutation);
        prop_assert_eq!(ids(&selection), ids(&full)[..most].to_vec(), "the cut takes the best of the new order");
        prop_assert_eq!(ids(&full)[window..].to_vec(), ids(&prior)[window..].to_vec(), "the rest keeps its order");
        let (mut previous, mut after) = (ids(&prior), ids(&full));
        if !is_permutation {
            prop_assert_eq!(&previous, &after);
        }
        previous.sort_unstable();
        after.sort_unstable();
        prop_assert_eq!(previous, after);
    }
}

/// A reranker that waits asynchronously, or blocks its thread.
struct LateReranker {
    blocks: bool,
}

impl Reranker for LateReranker {
    fn name(&self) -> &str {
        "late"
    }

    fn rerank<'a>(
        &'a self,
        _: &'a Query,
        window: &'a [Arc<Tool>],
        _: Option<Instant>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            if self.blocks {
                std::thread::sleep(Duration::from_secs(10));
            } else {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
            Ok((0..window.len())
                .map(|candidate| RerankScore {
                    candidate,
                    score: candidate as f32,
                })
                .collect())
        })
    }
}

#[test]
fn slow_reranker_is_abandoned_at_deadline() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    for blocks in [false, true] {
        let engine = with_reranker(LateReranker { blocks });
        let prior = pick(&engine, REQUEST, &never(3));
        let started = Instant::now();
        let selection = pick(
            &engine,
            REQUEST,
            &PickOptions {
                timeout: Some(TIMEOUT),
                ..always(3)
            },
        );
        let took = started.elapsed();
        assert!(took >= TIMEOUT && took < Duration::from_secs(2), "{took:?}");
        check_prior_order(
            &selection,
            &prior,
            "the deadline passed before the reranker late answered",
        );
    }
}

#[test]
fn repeatedly_failing_reranker_is_paused_and_reported() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let failing = Scripted(move |_: &[Arc<Tool>]| {
        count.fetch_add(1, Ordering::SeqCst);
        Err("the model is away".to_owned())
    });
    let now = Arc::new(Mutex::new(Instant::now()));
    let clock = Arc::clone(&now);
    let guarded =
        CircuitBreaker::new(failing).clock(move || *clock.lock().expect("nobody panicked"));
    let engine = with_reranker(guarded);
    let prior = pick(&engine, REQUEST, &never(3));
    for _ in 0..3 {
        check_prior_order(
            &pick(&engine, REQUEST, &always(3)),
            &prior,
            "the model is away",
        );
    }
    let selection = pick(&engine, REQUEST, &always(3));
    check_prior_order(
        &selection,
        &prior,
        "failed 3 times in a row and is paused for another 30 s",
    );
    assert!(matches!(status(&selection), StageStatus::Skipped { .. }));
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    *now.lock().expect("nobody panicked") += Duration::from_secs(30);
    check_prior_order(
        &pick(&engine, REQUEST, &always(3)),
        &prior,
        "the model is away",
    );
    assert_eq!(calls.load(Ordering::SeqCst), 4);
}
