//! Telling that something is waited for.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::context::Context;

/// When it is told for the first time, and how long after that each time.
const FIRST: Duration = Duration::from_secs(1);
const NEXT: Duration = Duration::from_secs(5);

/// Does the work, and tells from time to time that `what` is waited for.
pub(super) async fn telling<T>(context: &Context, what: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let started = Instant::now();
    let mut pause = FIRST;
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = sleep(pause) => {
                context.emit_output_chunk(&format!("waiting for {what}: {} s\n", started.elapsed().as_secs()));
                pause = NEXT;
            }
        }
    }
}
