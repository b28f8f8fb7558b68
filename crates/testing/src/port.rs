//! Ports for servers that a test starts as programs of their own.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns a free port outside the ephemeral range.
///
/// A port of that range can go to a client connection or to another test's server before the
/// program listens, or while it is down.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let offset = std::process::id()
            .wrapping_mul(37)
            .wrapping_add(u32::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        let port = 20_000 + u16::try_from(offset % 10_000).expect("it is small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
