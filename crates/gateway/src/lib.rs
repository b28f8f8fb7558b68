//! An MCP gateway: one server in front of several.
//!
//! A client that connects to twelve servers shows a model hundreds of tools. A [`Gateway`] is one
//! server in front of them. It lists three tools that search, describe and call the others, or all
//! tools if they are few. It validates each call against the tool's definition before it passes the
//! call on. It quarantines definitions that changed since they were approved.

#![expect(
    deprecated,
    reason = "clients of revisions before 2026-07-28 rely on log messages"
)]

// Modules are in reading order: each uses only those above it. The library's
// `tests/main/architecture.rs` checks this.
mod naming;
pub mod fair_shares;
pub mod settings;
mod error;
pub mod refusal;
pub mod metrics;
pub mod api_keys;
pub mod sessions;
mod pins;
mod changes;
pub mod active_requests;
mod listener;
mod text_scan;
pub mod upstream;
pub mod upstreams;
mod tolerance;
mod tool_page;
mod accounts;
pub mod pick_queue;
pub mod snapshot;
pub mod registry;
pub mod journal;
pub mod front;
pub mod results;
mod large_results;
pub mod elicitations;
mod remembered;
mod queue;
pub mod approvals;
mod repairs;
mod updates;
mod relay;
mod confirmation;
pub mod parallel_calls;
mod passthrough;
pub mod hub;
mod instructions;
mod circuits;
mod decisions;
pub mod calls;
pub mod handler;
pub mod client_messages;
mod gateway;

pub use changes::changes;
pub use error::GatewayError;
pub use gateway::{ClientFrontend, Gateway, GatewayOptions};
pub use metrics::{Counters, GatewayCounts, GatewayEvent, Meter, UpstreamCounts};
pub use naming::{name_fault, qualified_name};
pub use pins::{HoldReason, INSTRUCTIONS, Pins, QuarantinedDefinition, REFUSED};
pub use queue::{CallDecision, CallQueue, QueueDecision, QueuedCall, RememberedApproval};
pub use remembered::ApprovalScope;
pub use settings::{Settings, SettingsError};
