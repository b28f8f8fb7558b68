//! Progress reports of a tool that waits.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::context::Context;

/// The time until the first report.
const FIRST: Duration = Duration::from_secs(1);
/// The time between later reports.
const NEXT: Duration = Duration::from_secs(5);

/// Awaits `work`, and reports from time to time that the call waits for `subject`.
pub(super) async fn report_while<T>(
    context: &Context,
    subject: &str,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    let started = Instant::now();
    let mut pause = FIRST;
    loop {
        tokio::select! {
            biased;
            output = &mut work => return output,
            () = sleep(pause) => {
                let seconds = started.elapsed().as_secs();
                context.emit_output_chunk(&format!("waiting for {subject}: {seconds} s\n"));
                pause = NEXT;
            }
        }
    }
}
