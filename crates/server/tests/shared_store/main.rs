//! Several gateways and a store: what they share, and what becomes of it when the store fails in every way that we know. The store
//! is the real one that `scripts/fetch-store.sh` installs.

// The store, and a line to it that can be slow or cut, as the library's tests have it.
#[path = "../../../../tests/store/server.rs"]
#[allow(dead_code, reason = "others need more of it")]
mod server;
// Gateways before it, and their clients.
mod gateways;
// Approvals, and calls that wait for the operator.
mod approvals;
// The records of all gateways in one place.
mod audit;
// How many requests a key has at all gateways together.
mod limits;
// Sessions that go on at another gateway.
mod sessions;
// Servers that are left alone.
mod circuits;
