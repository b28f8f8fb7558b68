//! Clients that post requests over HTTP, each on its connection.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::figures::{milliseconds, summary};
use crate::http::{HttpConnection, HttpMessage};
use crate::options::Options;
use crate::synthetic::{SyntheticTool, query};

/// Pause of a client after a refusal or a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(100);
/// Stack of a thread of a client.
pub(crate) const STACK_BYTES: usize = 256 << 10;

struct RequestPlan {
    port: u16,
    path: &'static str,
    bodies: Vec<Vec<u8>>,
    requests: usize,
    time: Duration,
    /// Number of requests that were begun.
    begun: AtomicUsize,
}

/// Results of one client, or of all.
#[derive(Default)]
pub(crate) struct LoadOutcome {
    pub(crate) times: Vec<Duration>,
    /// Number of refusals by status.
    pub(crate) refused: BTreeMap<u16, usize>,
    pub(crate) failed: usize,
    pub(crate) first_failure: Option<String>,
}

impl LoadOutcome {
    pub(crate) fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        for (status, count) in other.refused {
            *self.refused.entry(status).or_default() += count;
        }
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }

    pub(crate) fn fail(&mut self, failure: impl FnOnce() -> String) {
        self.failed += 1;
        self.first_failure.get_or_insert_with(failure);
    }

    fn add_answer(&mut self, answer: &HttpMessage, time: Duration) {
        match answer.status {
            200 => self.times.push(time),
            429 | 503 => *self.refused.entry(answer.status).or_default() += 1,
            status => {
                let text = String::from_utf8_lossy(&answer.body);
                self.fail(|| format!("{status} {text:.300}"));
            }
        }
    }

    /// Returns the figures of requests that took a time together.
    pub(crate) fn figures(self, time: Duration) -> Value {
        let per_second = self.times.len() as f64 / time.as_secs_f64();
        let refused: usize = self.refused.values().sum();
        json!({
            "per_second": per_second.round(), "seconds": milliseconds(time) / 1e3,
            "failed": self.failed, "first_failure": self.first_failure,
            "refused": refused, "refused_by_status": self.refused,
            "times": summary(self.times),
        })
    }
}

/// Posts requests over several connections at once.
pub(crate) fn measure(options: &Options) -> Result<Value, String> {
    let kind: String = options.require("kind")?;
    let size = options.get_or("size", 256)?;
    let (path, bodies) = match kind.as_str() {
        "pick" => ("/v1/pick", pick_bodies()),
        "batch" => ("/v1/pick/batch", vec![batch_body(size)]),
        "proxy" => ("/v1/chat/completions", proxy_bodies(size)),
        _ => return Err(format!("--kind is not valid: {kind}")),
    };
    let mut plan = RequestPlan {
        port: options.require("port")?,
        path,
        bodies,
        requests: options.get_or("warm-up", 0)?,
        time: Duration::from_secs(options.get_or("seconds", 10)?),
        begun: AtomicUsize::new(0),
    };
    if plan.requests > 0 {
        run(1, plan.port, &plan)?;
    }
    plan.requests = options.get_or("requests", usize::MAX)?;
    plan.begun = AtomicUsize::new(0);
    let started = Instant::now();
    let outcome = run(options.get_or("connections", 1)?, plan.port, &plan)?;
    Ok(outcome.figures(started.elapsed()))
}

/// Connects the clients, and lets them begin at the same time.
fn run(connections: usize, port: u16, plan: &RequestPlan) -> Result<LoadOutcome, String> {
    let barrier = Arc::new(Barrier::new(connections));
    let mut outcome = LoadOutcome::default();
    thread::scope(|scope| {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let barrier = Arc::clone(&barrier);
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            let client = builder.spawn_scoped(scope, move || {
                let connection = HttpConnection::connect(port);
                barrier.wait();
                post_all(plan, connection)
            });
            clients.push(client.map_err(|error| format!("cannot start a thread: {error}"))?);
        }
        for client in clients {
            outcome.add(client.join().map_err(|_panic| "a client panicked")?);
        }
        Ok(outcome)
    })
}

fn post_all(plan: &RequestPlan, first: io::Result<HttpConnection>) -> LoadOutcome {
    let mut outcome = LoadOutcome::default();
    let mut open = first.ok();
    let started = Instant::now();
    while started.elapsed() < plan.time {
        let number = plan.begun.fetch_add(1, Ordering::Relaxed);
        if number >= plan.requests {
            break;
        }
        let body = &plan.bodies[number % plan.bodies.len()];
        let answered = outcome.times.len();
        let begin = Instant::now();
        let connection = open
            .take()
            .map_or_else(|| HttpConnection::connect(plan.port), Ok);
        let answer = connection.and_then(|mut connection| {
            let answer = connection.post(plan.path, "", body)?;
            Ok((connection, answer))
        });
        match answer {
            Ok((connection, answer)) => {
                open = (!answer.closes).then_some(connection);
                outcome.add_answer(&answer, begin.elapsed());
            }
            Err(error) => outcome.fail(|| error.to_string()),
        }
        if outcome.times.len() == answered {
            thread::sleep(FAILURE_PAUSE);
        }
    }
    outcome
}

fn pick_body(number: usize) -> Value {
    json!({"query": query(number), "options": {"max_candidates": 3}})
}

fn pick_bodies() -> Vec<Vec<u8>> {
    (0..500)
        .map(|number| pick_body(number).to_string().into_bytes())
        .collect()
}

fn batch_body(size: usize) -> Vec<u8> {
    let requests: Vec<Value> = (0..size).map(pick_body).collect();
    json!({"requests": requests}).to_string().into_bytes()
}

/// Returns a request for each of several lists of 1,000 tools. Neighbouring lists share tools, as
/// those of agents do.
fn proxy_bodies(lists: usize) -> Vec<Vec<u8>> {
    let body = |list: usize| {
        let numbers = list * 300..list * 300 + 1_000;
        let tools: Vec<Value> = numbers
            .map(|number| SyntheticTool::new(1, number).for_openai())
            .collect();
        let messages = json!([{"role": "user", "content": query(list)}]);
        let body = json!({"model": "m", "messages": messages, "tools": tools});
        body.to_string().into_bytes()
    };
    (0..lists).map(body).collect()
}
