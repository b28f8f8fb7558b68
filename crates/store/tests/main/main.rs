//! Tests of shared catalogs against a real server, which `scripts/fetch-store.sh` fetches.

mod eligibility;
mod faults;
mod hostile;
mod publishing;
mod support;
