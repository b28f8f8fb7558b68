//! Custom scorers: valid scores count, invalid ones do not, and no scorer can block a pick.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use picktools::engine::BuiltInScorer;
use picktools::options::SelectionMode;
use picktools::scorer::{Score, ScoreFuture, Scorer, ScorerError, per_tool};
use picktools::selection::{Stage, StageStatus};
use picktools::{Access, Engine, Mode, PickError, PickOptions, Query, Selection, Tool, pick_tools};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::support::{KEYWORDS, WORKPLACE, ids, in_mode, pick, public_ids, scored_by, set, tool};

/// The longest time of a pick with a deadline of 200 ms. A bench measures the real overrun.
pub(crate) const AT_MOST: Duration = Duration::from_secs(2);
pub(crate) const DEADLINE: Duration = Duration::from_millis(200);
const FAR_TOO_LONG: Duration = Duration::from_secs(10);

pub(crate) type Answer = Result<Vec<Score>, ScorerError>;

/// A scorer with a scripted answer.
pub(crate) struct Scripted<F>(pub(crate) F);

impl<F: Fn(&Query, &[Arc<Tool>]) -> Answer + Send + Sync> Scorer for Scripted<F> {
    fn name(&self) -> &str {
        "scripted"
    }

    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move { (self.0)(query, tools) })
    }
}

fn engine(scorer: impl Scorer + 'static) -> Engine {
    scored_by(Arc::new(scorer))
}

fn scripted(answer: impl Fn(&Query, &[Arc<Tool>]) -> Answer + Send + Sync + 'static) -> Engine {
    engine(Scripted(answer))
}

/// Returns an engine with a score for each tool by its id.
fn by_id(score: impl Fn(&str) -> f32 + Send + Sync + 'static) -> Engine {
    scripted(move |_, tools| {
        Ok(tools
            .iter()
            .map(|tool| Score::new(score(&tool.id)))
            .collect())
    })
}

fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.enable_all().build().expect("a runtime starts"))
}

/// Checks that the scorer's stage failed for this reason, and that the first eligible tools are the
/// fallback.
fn check_fallback(selection: &Selection, reason: &str, most: usize) {
    assert_eq!(ids(selection), public_ids(WORKPLACE.catalog())[..most]);
    let [degraded] = &selection.degraded[..] else {
        panic!("one stage is degraded: {:?}", selection.degraded)
    };
    assert_eq!(degraded.stage, Stage::Scorer);
    assert!(degraded.reason.contains(reason), "{}", degraded.reason);
    assert!(
        degraded.reason.contains("registration order"),
        "{}",
        degraded.reason
    );
    let report = selection
        .stages
        .iter()
        .find(|report| report.stage == Stage::Scorer);
    assert!(matches!(
        report.map(|report| &report.status),
        Some(StageStatus::Failed { .. })
    ));
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| pick.reason.contains("ranking failed"))
    );
}

#[test]
fn scorer_replaces_the_ranking() {
    let engine = by_id(|id| match id {
        "home/playMusic" => 0.9,
        "mail/send_email" => 0.8,
        "chat/list_users" => 0.04,
        _ => 0.0,
    });
    let selection = pick(&engine, "book a meeting room", &PickOptions::default());
    assert_eq!(
        ids(&selection),
        ["home/playMusic", "mail/send_email"],
        "what scores below 0.05 is left out"
    );
    assert_eq!(selection.scorer, "scripted");
    assert_eq!(selection.picks[0].score.to_bits(), 0.9_f32.to_bits());
    assert!(
        selection.picks[0].provenance.keyword.is_none()
            && selection.picks[0].provenance.fusion.is_none()
    );
    assert_eq!(
        selection.below_threshold,
        public_ids(WORKPLACE.catalog()).len() - 2
    );
    for stage in [Stage::Keyword, Stage::Semantic, Stage::Fuse] {
        let report = selection
            .stages
            .iter()
            .find(|report| report.stage == stage)
            .expect("every stage reports");
        assert!(
            matches!(&report.status, StageStatus::Skipped { reason } if reason.contains("custom scorer"))
        );
    }
}

#[test]
fn scorer_reason_and_details_are_returned() {
    let engine = scripted(|_, tools| {
        Ok(tools
            .iter()
            .map(|tool| Score {
                reason: Some(format!("it is called {}", tool.name)),
                details: Some(json!({"length": tool.name.len()})),
                ..Score::new(0.5)
            })
            .collect())
    });
    let selection = pick(&engine, "anything", &PickOptions::default());
    assert_eq!(selection.picks[0].reason, "it is called create_issue");
    assert_eq!(
        selection.picks[0].provenance.details,
        Some(json!({"length": 12}))
    );
    assert_eq!(selection.picks[0].provenance.scorer, "scripted");
    let plain = pick(&by_id(|_| 0.5), "anything", &PickOptions::default());
    assert_eq!(
        plain.picks[0].reason, "score 0.50 from scripted",
        "a general sentence stands in"
    );
}

#[test]
fn invalid_score_excludes_its_tool_and_is_reported() {
    for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.01, 1.01] {
        let engine = by_id(move |id| if id == "home/playMusic" { wrong } else { 0.5 });
        let selection = pick(
            &engine,
            "anything",
            &PickOptions {
                max_candidates: 500,
                ..PickOptions::default()
            },
        );
        assert!(!ids(&selection).contains(&"home/playMusic"), "{wrong}");
        assert_eq!(
            selection.picks.len(),
            public_ids(WORKPLACE.catalog()).len() - 1,
            "the others are ranked"
        );
        let [error] = &selection.scorer_errors[..] else {
            panic!("one error: {:?}", selection.scorer_errors)
        };
        assert!(
            error.contains("scripted") && error.contains("home/playMusic"),
            "{error}"
        );
        assert!(error.contains("not a number from 0 to 1"), "{error}");
        assert!(selection.degraded.is_empty(), "{:?}", selection.degraded);
    }
    for edge in [0.0, 1.0] {
        let options = PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        };
        assert_eq!(
            pick(&by_id(move |_| edge), "anything", &options)
                .picks
                .len(),
            3,
            "{edge} is a score"
        );
    }
}

#[test]
fn failing_scorer_falls_back_to_catalog_order() {
    let boom = || ScorerError::Failed {
        scorer: "scripted".to_owned(),
        reason: "the model is away".to_owned(),
    };
    let too_few = |_: &Query, _: &[Arc<Tool>]| Ok(vec![Score::new(0.5)]);
    let too_many = |_: &Query, tools: &[Arc<Tool>]| Ok(vec![Score::new(0.5); tools.len() + 1]);
    let eligible = public_ids(WORKPLACE.catalog()).len();
    for (engine, reason) in [
        (
            scripted(move |_, _| Err(boom())),
            "the scorer scripted failed: the model is away".to_owned(),
        ),
        (
            scripted(|_, _| panic!("on purpose")),
            "the scorer scripted failed: it panicked".to_owned(),
        ),
        (
            scripted(too_few),
            format!("the scorer scripted gave 1 scores for {eligible} tools"),
        ),
        (
            scripted(too_many),
            format!(
                "the scorer scripted gave {} scores for {eligible} tools",
                eligible + 1
            ),
        ),
    ] {
        for timeout in [None, Some(FAR_TOO_LONG)] {
            let options = PickOptions {
                timeout,
                max_candidates: 4,
                ..PickOptions::default()
            };
            check_fallback(&pick(&engine, "book a meeting room", &options), &reason, 4);
        }
    }
}

/// A scorer that waits asynchronously.
struct WaitingScorer;

impl Scorer for WaitingScorer {
    fn name(&self) -> &str {
        "waits"
    }

    fn score<'a>(&'a self, _: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move {
            tokio::time::sleep(FAR_TOO_LONG).await;
            Ok(vec![Score::new(1.0); tools.len()])
        })
    }
}

/// A scorer that blocks its thread.
pub(crate) struct BlockingScorer;

impl Scorer for BlockingScorer {
    fn name(&self) -> &str {
        "blocks"
    }

    fn score<'a>(&'a self, _: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        thread::sleep(FAR_TOO_LONG);
        Box::pin(async move { Ok(vec![Score::new(1.0); tools.len()]) })
    }
}

#[test]
fn slow_scorer_is_abandoned_at_deadline() {
    let query = || Query::new("book a meeting room");
    for scorer in [
        Arc::new(WaitingScorer) as Arc<dyn Scorer>,
        Arc::new(BlockingScorer),
    ] {
        let engine = scored_by(Arc::clone(&scorer));
        let options = PickOptions {
            timeout: Some(DEADLINE),
            max_candidates: 2,
            ..PickOptions::default()
        };
        let check = |form: &str, run: &dyn Fn() -> Result<Selection, PickError>| {
            let started = Instant::now();
            let selection = run().expect("being late is not an error");
            let took = started.elapsed();
            assert!(took < AT_MOST, "{} by {form} took {took:?}", scorer.name());
            assert!(
                took >= DEADLINE,
                "{} by {form} was not waited for at all: {took:?}",
                scorer.name()
            );
            check_fallback(&selection, "deadline", 2);
        };
        check("pick", &|| engine.pick(&query(), &options));
        for runtime in runtimes() {
            check("pick_async", &|| {
                runtime.block_on(engine.pick_async(query(), options.clone()))
            });
            // This is not the intended use, but it must not panic.
            check("pick within a runtime", &|| {
                runtime.block_on(async { engine.pick(&query(), &options) })
            });
        }
    }
}

#[test]
fn zero_timeout_gives_catalog_order() {
    let options = PickOptions {
        timeout: Some(Duration::ZERO),
        ..PickOptions::default()
    };
    check_fallback(
        &pick(&engine(WaitingScorer), "anything", &options),
        "deadline",
        3,
    );
    let selection = pick(&WORKPLACE, "book a meeting room", &options);
    assert_eq!(ids(&selection), public_ids(WORKPLACE.catalog())[..3]);
    let degraded: Vec<Stage> = selection
        .degraded
        .iter()
        .map(|degraded| degraded.stage)
        .collect();
    assert_eq!(degraded, [Stage::Keyword, Stage::Semantic]);
}

#[test]
fn ample_timeout_changes_nothing() {
    let scored = by_id(|id| if id == "home/playMusic" { 1.0 } else { 0.0 });
    for timeout in [FAR_TOO_LONG, Duration::MAX] {
        let plain = PickOptions::default();
        let timed = PickOptions {
            timeout: Some(timeout),
            ..PickOptions::default()
        };
        let [plain, timed] = [&plain, &timed].map(|options| {
            let selection = pick(&WORKPLACE, "book a meeting room", options);
            serde_json::to_string(&selection).expect("a selection serialises")
        });
        assert_eq!(plain, timed);
        let timed = PickOptions {
            timeout: Some(timeout),
            ..PickOptions::default()
        };
        assert_eq!(ids(&pick(&scored, "anything", &timed)), ["home/playMusic"]);
    }
}

#[test]
fn scorer_receives_request_and_eligible_tools_only() {
    let received = Arc::new(Mutex::new((String::new(), Vec::new())));
    let record = Arc::clone(&received);
    let engine = scripted(move |query, tools| {
        *record.lock().expect("nobody panicked") = (
            query.text().to_owned(),
            tools.iter().map(|tool| tool.id.clone()).collect(),
        );
        Ok(vec![Score::new(0.5); tools.len()])
    });
    pick(&engine, "book a meeting room", &PickOptions::default());
    let (query, tools) = received.lock().expect("nobody panicked").clone();
    assert_eq!(query, "book a meeting room");
    assert_eq!(tools, public_ids(WORKPLACE.catalog()));
}

#[test]
fn mandatory_tools_with_low_scores_are_picked() {
    let engine = by_id(|id| if id.starts_with("mail/") { 0.9 } else { 0.0 });
    let options = PickOptions {
        always_include: vec!["chat/list_users".to_owned()],
        ..PickOptions::default()
    };
    let selection = pick(&engine, "use `playMusic` for it", &options);
    let mut picked_ids = ids(&selection);
    assert_eq!(picked_ids[0], "mail/send_email", "{picked_ids:?}");
    picked_ids.sort_unstable();
    assert_eq!(
        picked_ids,
        ["chat/list_users", "home/playMusic", "mail/send_email"]
    );
}

/// The mean of two scorers.
struct Mean<A, B>(A, B);

impl<A: Scorer, B: Scorer> Scorer for Mean<A, B> {
    fn name(&self) -> &str {
        "mean"
    }

    fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        Box::pin(async move {
            let (first, second) = (
                self.0.score(query, tools).await?,
                self.1.score(query, tools).await?,
            );
            Ok(first
                .iter()
                .zip(&second)
                .map(|(a, b)| Score::new((a.score + b.score) / 2.0))
                .collect())
        })
    }
}

#[test]
fn built_in_scorers_can_be_combined() {
    let keyword = || -> BuiltInScorer { WORKPLACE.scorer(Mode::Keyword) };
    assert_eq!(keyword().name(), "keyword");
    let scored = [
        Arc::new(keyword()) as Arc<dyn Scorer>,
        Arc::new(Mean(keyword(), keyword())),
    ]
    .map(scored_by);
    for query in [
        "book a meeting room",
        "find the message about the contract",
        "welche Kunden haben noch nicht gezahlt?",
    ] {
        let plain = PickOptions {
            max_candidates: 5,
            ..in_mode(Mode::Keyword)
        };
        let plain = pick(&WORKPLACE, query, &plain);
        for engine in &scored {
            let scored = pick(
                engine,
                query,
                &PickOptions {
                    max_candidates: 5,
                    ..PickOptions::default()
                },
            );
            assert_eq!(ids(&plain), ids(&scored), "{query}");
            for (a, b) in plain.picks.iter().zip(&scored.picks) {
                assert!(
                    (a.score - b.score).abs() < 1e-6,
                    "{query}: {} against {}",
                    a.score,
                    b.score
                );
            }
        }
    }
    let favours = Scripted(|_: &Query, tools: &[Arc<Tool>]| {
        Ok(tools
            .iter()
            .map(|tool| {
                Score::new(if tool.source.as_deref() == Some("home") {
                    1.0
                } else {
                    0.0
                })
            })
            .collect())
    });
    let mixed = pick(
        &engine(Mean(keyword(), favours)),
        "book a meeting room",
        &PickOptions::default(),
    );
    assert!(
        ids(&mixed)[0].starts_with("home/"),
        "the other half counts too: {:?}",
        ids(&mixed)
    );
}

#[test]
fn wrapped_built_in_scorer_keeps_its_reasons() {
    /// A scorer that halves the scores of another and keeps its reasons.
    struct Halved(BuiltInScorer);

    impl Scorer for Halved {
        fn name(&self) -> &str {
            "halved"
        }

        fn score<'a>(&'a self, query: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
            Box::pin(async move {
                let scores = self.0.score(query, tools).await?;
                Ok(scores
                    .into_iter()
                    .map(|score| Score {
                        score: score.score / 2.0,
                        ..score
                    })
                    .collect())
            })
        }
    }

    for mode in [Mode::Keyword, Mode::Semantic, Mode::Hybrid] {
        let plain = pick(&WORKPLACE, "book a meeting room", &in_mode(mode));
        let composed = pick(
            &engine(Halved(WORKPLACE.scorer(mode))),
            "book a meeting room",
            &PickOptions::default(),
        );
        let reasons = |selection: &Selection| -> Vec<String> {
            selection
                .picks
                .iter()
                .map(|pick| pick.reason.clone())
                .collect()
        };
        assert_eq!(reasons(&composed)[0], reasons(&plain)[0], "{mode:?}");
        assert!(
            !reasons(&composed)[0].contains(" from halved"),
            "{:?}",
            reasons(&composed)
        );
    }
    let nothing = pick(
        &engine(Halved(WORKPLACE.scorer(Mode::Keyword))),
        "xyzzy",
        &PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        },
    );
    assert_eq!(
        nothing.picks[0].reason, "score 0.00 from halved",
        "nothing matches"
    );
}

#[test]
fn built_in_scorer_without_model_reports_failure() {
    let semantic = pick(
        &engine(KEYWORDS.scorer(Mode::Semantic)),
        "anything",
        &PickOptions::default(),
    );
    check_fallback(
        &semantic,
        "the scorer semantic failed: the engine has no embedding model",
        3,
    );
    let stranger = Engine::builder(crate::support::catalog([tool("elsewhere", "stranger", "")]));
    let stranger = stranger
        .scorer(Arc::new(WORKPLACE.scorer(Mode::Keyword)))
        .build()
        .expect("it can be built");
    let selection = pick(&stranger, "anything", &PickOptions::default());
    assert!(
        selection.degraded[0]
            .reason
            .contains("\"elsewhere/stranger\" is not in its catalog")
    );
}

#[test]
fn per_tool_function_makes_a_scorer() {
    let scorer = per_tool("by length", |query: Query, tool: Arc<Tool>| async move {
        tokio::time::sleep(Duration::from_micros(1)).await;
        if query.text() == "fail" {
            return Err(ScorerError::Failed {
                scorer: "by length".to_owned(),
                reason: "asked to".to_owned(),
            });
        }
        Ok(Score::new(1.0 / (1.0 + tool.name.len() as f32)))
    });
    let (engine, options) = (
        engine(scorer),
        PickOptions {
            access: Access {
                allow_sources: set(&["home"]),
                ..Access::default()
            },
            ..PickOptions::default()
        },
    );
    let selection = pick(&engine, "anything", &options);
    let lengths: Vec<usize> = selection
        .picks
        .iter()
        .map(|pick| pick.tool.name.len())
        .collect();
    assert!(lengths.len() == 3 && lengths.is_sorted(), "{lengths:?}");
    assert_eq!(selection.scorer, "by length");
    assert!(
        pick(&engine, "fail", &options).degraded[0]
            .reason
            .contains("asked to")
    );
}

#[test]
fn per_tool_scores_concurrently_in_order_within_limit() {
    for (bound, most) in [(None, 8), (Some(3), 3), (Some(0), 1)] {
        let under_way = Arc::new(Mutex::new((0_usize, 0_usize)));
        let counted = Arc::clone(&under_way);
        let scorer = per_tool("counted", move |_, tool: Arc<Tool>| {
            let counted = Arc::clone(&counted);
            async move {
                {
                    let mut counted = counted.lock().expect("nobody panicked");
                    counted.0 += 1;
                    counted.1 = counted.1.max(counted.0);
                }
                // Later tools finish sooner.
                tokio::time::sleep(Duration::from_micros(5_000 / tool.name.len() as u64)).await;
                counted.lock().expect("nobody panicked").0 -= 1;
                Ok(Score::new(if tool.id == "home/playMusic" {
                    1.0
                } else {
                    0.1
                }))
            }
        });
        let scorer = match bound {
            Some(bound) => scorer.max_concurrent(bound),
            None => scorer,
        };
        let selection = pick(&engine(scorer), "anything", &PickOptions::default());
        assert!(selection.degraded.is_empty(), "{:?}", selection.degraded);
        assert_eq!(
            (ids(&selection)[0], selection.picks[0].score.to_bits()),
            ("home/playMusic", 1.0_f32.to_bits())
        );
        assert_eq!(under_way.lock().expect("nobody panicked").1, most);
    }
}

/// Returns an engine whose scorer receives a shortlist, and the record of it.
fn shortlisted(scorer: impl Scorer + 'static, most: usize) -> Engine {
    let builder = Engine::builder(crate::support::workplace())
        .scorer(Arc::new(scorer))
        .shortlist(most);
    builder.build().expect("the static model needs nothing")
}

#[test]
fn shortlist_has_best_and_protected_tools() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&received);
    let scorer = Scripted(move |_: &Query, tools: &[Arc<Tool>]| {
        *record.lock().expect("nobody panicked") =
            tools.iter().map(|tool| tool.id.clone()).collect();
        // The worst tool of the shortlist comes first.
        let position = |tool: &Tool| {
            if tool.id == "home/playMusic" {
                0.5
            } else {
                1.0 / tool.id.len() as f32
            }
        };
        Ok(tools
            .iter()
            .map(|tool| Score::new(position(tool)))
            .collect())
    });
    let engine = shortlisted(scorer, 5);
    let options = PickOptions {
        max_candidates: 500,
        min_score: 0.0,
        choice: SelectionMode::Best,
        ..PickOptions::default()
    };
    let selection = pick(&engine, "book a meeting room", &options);
    let received_ids = || received.lock().expect("nobody panicked").clone();
    let best = pick(
        &WORKPLACE,
        "book a meeting room",
        &PickOptions {
            max_candidates: 5,
            ..options
        },
    );
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    assert_eq!(
        sorted(received_ids()),
        sorted(ids(&best).into_iter().map(str::to_owned).collect())
    );
    assert_eq!(
        sorted(ids(&selection).into_iter().map(str::to_owned).collect()),
        sorted(received_ids())
    );
    assert_eq!(
        (selection.scorer.as_str(), selection.shortlisted),
        ("scripted", Some(5))
    );
    for stage in [Stage::Keyword, Stage::Semantic, Stage::Fuse, Stage::Scorer] {
        let report = selection
            .stages
            .iter()
            .find(|report| report.stage == stage)
            .expect("every stage reports");
        assert_eq!(report.status, StageStatus::Ran, "{stage}");
    }
    // Mentioned tools are scored too, at any rank of the built-in ranking.
    let selection = pick(
        &engine,
        "book a meeting room with `playMusic`",
        &PickOptions::default(),
    );
    assert!(
        received_ids().contains(&"home/playMusic".to_owned()) && received_ids().len() <= 6,
        "{:?}",
        received_ids()
    );
    assert_eq!(
        (ids(&selection)[0], selection.picks[0].score.to_bits()),
        ("home/playMusic", 0.5_f32.to_bits())
    );
    // Ineligible tools are never in the shortlist.
    let access = Access {
        deny_sources: set(&["calendar"]),
        ..Access::default()
    };
    pick(
        &engine,
        "book a meeting room",
        &PickOptions {
            access,
            ..PickOptions::default()
        },
    );
    assert!(
        received_ids().len() == 5 && received_ids().iter().all(|id| !id.starts_with("calendar/")),
        "{:?}",
        received_ids()
    );
}

#[test]
fn failing_scorer_with_shortlist_keeps_built_in_ranking() {
    let plain = pick(&WORKPLACE, "book a meeting room", &PickOptions::default());
    let options = PickOptions {
        timeout: Some(DEADLINE),
        ..PickOptions::default()
    };
    for (engine, reason) in [
        (
            shortlisted(Scripted(|_: &Query, _: &[Arc<Tool>]| Ok(Vec::new())), 5),
            "gave 0 scores for 5 tools",
        ),
        (
            shortlisted(WaitingScorer, 5),
            "the deadline passed before the scorer answered",
        ),
    ] {
        let selection = pick(&engine, "book a meeting room", &options);
        assert_eq!(
            (ids(&selection), &selection.scorer),
            (ids(&plain), &plain.scorer)
        );
        let [degraded] = &selection.degraded[..] else {
            panic!("one stage is degraded: {:?}", selection.degraded)
        };
        assert_eq!(degraded.stage, Stage::Scorer);
        assert!(degraded.reason.contains(reason), "{}", degraded.reason);
        assert!(
            degraded
                .reason
                .contains("the built-in ranking is used instead"),
            "{}",
            degraded.reason
        );
    }
}

#[test]
fn pick_tools_picks_from_given_tools() {
    let tools = || {
        vec![
            tool("s", "get_forecast", "Weather for the coming days"),
            tool("s", "book_room", "Books a meeting room"),
        ]
    };
    for runtime in runtimes() {
        let pick =
            |query: &str, tools| runtime.block_on(pick_tools(query, tools, PickOptions::default()));
        let selection = pick("will the weather hold?", tools()).expect("the tools are valid");
        assert_eq!(ids(&selection), ["s/get_forecast"]);
        let selection = pick("book a room", tools()).expect("the tools are valid");
        assert_eq!(ids(&selection)[0], "s/book_room");
        let twice = pick("anything", [tools(), tools()].concat());
        assert!(matches!(twice, Err(PickError::Catalog(_))), "{twice:?}");
        assert!(
            pick("anything", Vec::new())
                .expect("no tools are a catalog")
                .picks
                .is_empty()
        );
    }
}

#[tokio::test]
async fn pick_tools_timeout_includes_indexing() {
    let tools = (0..2_000).map(|n| {
        Tool::without_arguments(
            format!("tool_{n}"),
            format!("Does the thing with number {n}"),
        )
    });
    let options = PickOptions {
        timeout: Some(std::time::Duration::from_millis(1)),
        ..PickOptions::default()
    };
    let selection = pick_tools("do the thing with number 7", tools, options)
        .await
        .expect("it picks");
    assert!(
        !selection.degraded.is_empty(),
        "2,000 tools are not indexed within a millisecond"
    );
}
