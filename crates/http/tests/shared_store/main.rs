//! Gateways that share a store, in normal operation and with all known failures of the store.
//!
//! The store is a real server that `scripts/fetch-store.sh` installs.

// Gateways with a shared store, and their clients.
mod gateways;
// Reports of changes in a store.
mod changes;
// Approvals, and calls that wait for the operator.
mod approvals;
// The audit records of all gateways.
mod audit;
// The rate limits of keys at all gateways.
mod limits;
// Sessions that continue at another gateway.
mod sessions;
// Circuit breakers that all gateways share.
mod circuits;
