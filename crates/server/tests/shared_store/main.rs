//! Several gateways and a store: what they share, and what becomes of it when the store fails in every way that we know. The store
//! is the real one that `scripts/fetch-store.sh` installs.

// The store, and a line to it that can be slow or cut.
mod server;
// Gateways before it, and their clients.
mod gateways;
// Approvals, and calls that wait for the operator.
mod approvals;
