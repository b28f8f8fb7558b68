//! The signals that end the program or reload its configuration.

use picktools_gateway::Gateway;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request to the program by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// The program must end: Ctrl-C, SIGTERM or SIGQUIT.
    Stop,
    /// The program must read its configuration again, or end if it has none: SIGHUP.
    Reload,
}

/// The receiver of signals. From its creation on, no signal ends the program by itself.
pub(super) struct Signals {
    #[cfg(unix)]
    interrupt: Option<Signal>,
    #[cfg(unix)]
    terminate: Option<Signal>,
    #[cfg(unix)]
    quit: Option<Signal>,
    #[cfg(unix)]
    hangup: Option<Signal>,
}

impl Signals {
    /// Starts to receive signals. It must be called within a tokio runtime, before the first server
    /// is started.
    pub(super) fn listen() -> Self {
        #[cfg(unix)]
        return Self {
            interrupt: signal(SignalKind::interrupt()).ok(),
            terminate: signal(SignalKind::terminate()).ok(),
            quit: signal(SignalKind::quit()).ok(),
            hangup: signal(SignalKind::hangup()).ok(),
        };
        #[cfg(not(unix))]
        Self {}
    }

    /// Waits for a signal.
    pub(super) async fn next(&mut self) -> SignalRequest {
        #[cfg(unix)]
        tokio::select! {
            () = received(&mut self.interrupt) => SignalRequest::Stop,
            () = received(&mut self.terminate) => SignalRequest::Stop,
            () = received(&mut self.quit) => SignalRequest::Stop,
            () = received(&mut self.hangup) => SignalRequest::Reload,
        }
        #[cfg(not(unix))]
        {
            let _interrupted = tokio::signal::ctrl_c().await;
            SignalRequest::Stop
        }
    }

    /// Ends a gateway by a future. A second signal ends it at once; then its servers end with it.
    pub(super) async fn end(&mut self, gateway: &Gateway, end: impl Future<Output = ()>) {
        tokio::select! {
            () = end => {}
            () = self.stopped() => gateway.flush_audit(),
        }
    }

    /// Waits for a signal that ends the program.
    pub(super) async fn stopped(&mut self) {
        while self.next().await != SignalRequest::Stop {}
    }
}

/// Waits for one kind of signal. A kind that cannot be received never arrives.
#[cfg(unix)]
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
