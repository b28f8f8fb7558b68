//! A reranker that fails is left alone for a while.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::{RerankFuture, Reranker, order};
use crate::breaker::{Breaker, Paused};
use crate::catalog::Tool;
use crate::query::Query;
use crate::rerank::RerankError;

/// Asks another reranker, but not for 30 seconds once it has failed three times in a row.
///
/// Errors, answers that are no permutation and answers that come too late are failures. After the
/// pause one request goes through: if it succeeds all do again, else the next pause begins. Share
/// one breaker between the engines that use the same model.
pub struct CircuitBreaker {
    reranker: Arc<dyn Reranker>,
    breaker: Breaker,
}

impl CircuitBreaker {
    /// Guards a reranker.
    pub fn new(reranker: impl Reranker + 'static) -> Self {
        Self {
            reranker: Arc::new(reranker),
            breaker: Breaker::new(),
        }
    }

    /// Tells the time by another clock, such as one of a test.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.breaker = self.breaker.clock(clock);
        self
    }

    fn paused(
        &self,
        Paused {
            failures,
            seconds,
            reason,
        }: Paused,
    ) -> RerankError {
        RerankError::Paused {
            reranker: self.name().to_owned(),
            failures,
            seconds,
            reason,
        }
    }
}

impl fmt::Debug for CircuitBreaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBreaker")
            .field("reranker", &self.name())
            .finish_non_exhaustive()
    }
}

impl Reranker for CircuitBreaker {
    fn name(&self) -> &str {
        self.reranker.name()
    }

    fn rerank<'a>(
        &'a self,
        query: &'a Query,
        window: &'a [Arc<Tool>],
        deadline: Option<Instant>,
    ) -> RerankFuture<'a> {
        Box::pin(async move {
            let attempt = self.breaker.admit().map_err(|paused| self.paused(paused))?;
            let answer = self.reranker.rerank(query, window, deadline).await;
            let answer = answer.and_then(|scores| match order(&scores, window.len()) {
                Ok(_) => Ok(scores),
                Err(fault) => Err(RerankError::InvalidAnswer {
                    reranker: self.name().to_owned(),
                    fault,
                }),
            });
            attempt.end(answer.as_ref().err().map(ToString::to_string));
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::breaker::{FAILURES, PAUSE};
    use crate::deadline::Deadline;
    use crate::rerank::{NotReranked, RerankScore, run};

    /// What the reranker of a test does.
    #[derive(Clone, Copy, PartialEq)]
    enum Does {
        Answers,
        Fails,
        Lies,
        Hangs,
        Panics,
    }

    struct Scripted {
        does: Mutex<Does>,
        asked: AtomicUsize,
    }

    impl Reranker for Arc<Scripted> {
        fn name(&self) -> &str {
            "scripted"
        }

        fn rerank<'a>(
            &'a self,
            _: &'a Query,
            window: &'a [Arc<Tool>],
            _: Option<Instant>,
        ) -> RerankFuture<'a> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let does = *self.does.lock().expect("nobody panicked");
            Box::pin(async move {
                let scores = |count: usize| {
                    (0..count)
                        .map(|candidate| RerankScore {
                            candidate,
                            score: 1.0,
                        })
                        .collect()
                };
                match does {
                    Does::Answers => Ok(scores(window.len())),
                    Does::Fails => Err(RerankError::Failed {
                        reranker: "scripted".to_owned(),
                        reason: "it is away".to_owned(),
                    }),
                    Does::Lies => Ok(scores(window.len() + 1)),
                    Does::Hangs => std::future::pending().await,
                    Does::Panics => panic!("on purpose"),
                }
            })
        }
    }

    /// A guarded reranker, its script, and a clock that stands still until it is moved.
    struct Scene {
        guarded: Arc<dyn Reranker>,
        script: Arc<Scripted>,
        now: Arc<Mutex<Instant>>,
    }

    impl Scene {
        fn new() -> Self {
            let script = Arc::new(Scripted {
                does: Mutex::new(Does::Answers),
                asked: AtomicUsize::new(0),
            });
            let now = Arc::new(Mutex::new(Instant::now()));
            let clock = Arc::clone(&now);
            let guarded = CircuitBreaker::new(Arc::clone(&script))
                .clock(move || *clock.lock().expect("nobody panicked"));
            Self {
                guarded: Arc::new(guarded),
                script,
                now,
            }
        }

        fn pass(&self, time: Duration) {
            *self.now.lock().expect("nobody panicked") += time;
        }

        fn ask(&self, does: Does) -> Result<(), NotReranked> {
            *self.script.does.lock().expect("nobody panicked") = does;
            let deadline =
                Deadline::after((does == Does::Hangs).then_some(Duration::from_millis(20)));
            let window = vec![
                Arc::new(Tool::without_arguments("a", "")),
                Arc::new(Tool::without_arguments("b", "")),
            ];
            let outcome = run(&self.guarded, &Query::new("x"), window, deadline).map(drop);
            if does == Does::Hangs {
                // The future is dropped on its own thread, a moment after nobody waits for it any
                // more.
                std::thread::sleep(Duration::from_millis(300));
            }
            outcome
        }

        fn asked(&self) -> usize {
            self.script.asked.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn three_failures_in_a_row_stop_it_for_half_a_minute() {
        for failure in [Does::Fails, Does::Lies, Does::Hangs, Does::Panics] {
            let scene = Scene::new();
            for _ in 0..FAILURES {
                assert!(matches!(scene.ask(failure), Err(NotReranked::Failed(_))));
            }
            scene.pass(Duration::from_millis(500));
            let Err(NotReranked::Paused(reason)) = scene.ask(Does::Answers) else {
                panic!("it is left alone")
            };
            assert!(
                reason.contains("scripted failed 3 times in a row"),
                "{reason}"
            );
            assert!(reason.contains("for another 30 s"), "{reason}");
            assert_eq!(scene.asked(), 3);
            scene.pass(Duration::from_secs(29));
            assert!(matches!(
                scene.ask(Does::Answers),
                Err(NotReranked::Paused(_))
            ));
            scene.pass(Duration::from_secs(1));
            assert_eq!(scene.ask(Does::Answers), Ok(()), "the pause is over");
            assert_eq!((scene.ask(Does::Answers), scene.asked()), (Ok(()), 5));
        }
    }

    #[test]
    fn failures_count_only_in_a_row() {
        let scene = Scene::new();
        for _ in 0..4 {
            assert!(scene.ask(Does::Fails).is_err());
            assert!(scene.ask(Does::Lies).is_err());
            assert_eq!(scene.ask(Does::Answers), Ok(()));
        }
    }

    #[test]
    fn a_failure_after_the_pause_begins_the_next_one() {
        let scene = Scene::new();
        for _ in 0..FAILURES {
            assert!(scene.ask(Does::Fails).is_err());
        }
        scene.pass(PAUSE);
        assert!(
            matches!(scene.ask(Does::Fails), Err(NotReranked::Failed(_))),
            "it is asked once"
        );
        assert!(matches!(
            scene.ask(Does::Answers),
            Err(NotReranked::Paused(_))
        ));
        assert_eq!(scene.asked(), 4);
    }
}
