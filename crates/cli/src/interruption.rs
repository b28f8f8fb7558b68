//! Interruption of the program by a signal.

/// Waits for Ctrl-C or a termination signal.
pub(super) async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminated = signal(SignalKind::terminate()).ok();
        let terminated = async {
            match &mut terminated {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            () = terminated => {}
        }
    }
    #[cfg(not(unix))]
    let _interrupted = tokio::signal::ctrl_c().await;
}
