//! Several gateways and a store: what they share, and what becomes of it when the store fails in
//! every way that we know. The store is the real one that `scripts/fetch-store.sh` installs.

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
