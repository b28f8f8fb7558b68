//! A circuit breaker for rerankers.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::{RerankFuture, Reranker, order};
use crate::breaker::{Breaker, BreakerPause};
use crate::catalog::Tool;
use crate::query::Query;
use crate::rerank::RerankError;

/// A reranker that pauses another one for 30 seconds after three failures in a row.
///
/// Errors, answers that are not a permutation and late answers count as failures. After the pause
/// one request is let through. If it succeeds, all requests are let through again; otherwise the
/// next pause begins. Share one breaker between all engines that use the same model.
pub struct CircuitBreaker {
    reranker: Arc<dyn Reranker>,
    breaker: Breaker,
}

impl CircuitBreaker {
    /// Wraps a reranker.
    pub fn new(reranker: impl Reranker + 'static) -> Self {
        Self {
            reranker: Arc::new(reranker),
            breaker: Breaker::new(),
        }
    }

    /// Replaces the clock, for example in a test.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.breaker = self.breaker.clock(clock);
        self
    }

    fn paused(
        &self,
        BreakerPause {
            failures,
            seconds,
            reason,
        }: BreakerPause,
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
    use crate::rerank::{RerankFailure, RerankScore, run};

    /// The behaviour of the test's reranker.
    #[derive(Clone, Copy, PartialEq)]
    enum Behaviour {
        Answers,
        Fails,
        InvalidAnswer,
        Hangs,
        Panics,
    }

    struct Scripted {
        behaviour: Mutex<Behaviour>,
        calls: AtomicUsize,
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
            self.calls.fetch_add(1, Ordering::SeqCst);
            let behaviour = *self.behaviour.lock().expect("nobody panicked");
            Box::pin(async move {
                let scores = |count: usize| {
                    (0..count)
                        .map(|candidate| RerankScore {
                            candidate,
                            score: 1.0,
                        })
                        .collect()
                };
                match behaviour {
                    Behaviour::Answers => Ok(scores(window.len())),
                    Behaviour::Fails => Err(RerankError::Failed {
                        reranker: "scripted".to_owned(),
                        reason: "it is offline".to_owned(),
                    }),
                    Behaviour::InvalidAnswer => Ok(scores(window.len() + 1)),
                    Behaviour::Hangs => std::future::pending().await,
                    Behaviour::Panics => panic!("on purpose"),
                }
            })
        }
    }

    /// A wrapped reranker, its script, and a clock that the test moves.
    struct Scene {
        guarded: Arc<dyn Reranker>,
        script: Arc<Scripted>,
        now: Arc<Mutex<Instant>>,
    }

    impl Scene {
        fn new() -> Self {
            let script = Arc::new(Scripted {
                behaviour: Mutex::new(Behaviour::Answers),
                calls: AtomicUsize::new(0),
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

        fn run(&self, behaviour: Behaviour) -> Result<(), RerankFailure> {
            *self.script.behaviour.lock().expect("nobody panicked") = behaviour;
            let deadline = Deadline::after(
                (behaviour == Behaviour::Hangs).then_some(Duration::from_millis(20)),
            );
            let window = vec![
                Arc::new(Tool::without_arguments("a", "")),
                Arc::new(Tool::without_arguments("b", "")),
            ];
            let outcome = run(&self.guarded, &Query::new("x"), window, deadline).map(drop);
            if behaviour == Behaviour::Hangs {
                // The future is dropped on its own thread shortly after the deadline.
                std::thread::sleep(Duration::from_millis(300));
            }
            outcome
        }

        fn call_count(&self) -> usize {
            self.script.calls.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn breaker_after_three_failures_pauses_30_seconds() {
        for failure in [
            Behaviour::Fails,
            Behaviour::InvalidAnswer,
            Behaviour::Hangs,
            Behaviour::Panics,
        ] {
            let scene = Scene::new();
            for _ in 0..FAILURES {
                assert!(matches!(scene.run(failure), Err(RerankFailure::Failed(_))));
            }
            scene.pass(Duration::from_millis(500));
            let Err(RerankFailure::Paused(reason)) = scene.run(Behaviour::Answers) else {
                panic!("the breaker is open")
            };
            assert!(
                reason.contains("scripted failed 3 times in a row"),
                "{reason}"
            );
            assert!(reason.contains("for another 30 s"), "{reason}");
            assert_eq!(scene.call_count(), 3);
            scene.pass(Duration::from_secs(29));
            assert!(matches!(
                scene.run(Behaviour::Answers),
                Err(RerankFailure::Paused(_))
            ));
            scene.pass(Duration::from_secs(1));
            assert_eq!(scene.run(Behaviour::Answers), Ok(()), "the pause is over");
            assert_eq!(
                (scene.run(Behaviour::Answers), scene.call_count()),
                (Ok(()), 5)
            );
        }
    }

    #[test]
    fn breaker_between_successes_stays_closed() {
        let scene = Scene::new();
        for _ in 0..4 {
            assert!(scene.run(Behaviour::Fails).is_err());
            assert!(scene.run(Behaviour::InvalidAnswer).is_err());
            assert_eq!(scene.run(Behaviour::Answers), Ok(()));
        }
    }

    #[test]
    fn breaker_failure_after_pause_starts_next_pause() {
        let scene = Scene::new();
        for _ in 0..FAILURES {
            assert!(scene.run(Behaviour::Fails).is_err());
        }
        scene.pass(PAUSE);
        assert!(
            matches!(scene.run(Behaviour::Fails), Err(RerankFailure::Failed(_))),
            "one request is let through"
        );
        assert!(matches!(
            scene.run(Behaviour::Answers),
            Err(RerankFailure::Paused(_))
        ));
        assert_eq!(scene.call_count(), 4);
    }
}
