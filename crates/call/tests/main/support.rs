//! Helpers for hydrators and valid calls.

use picktools::{Access, Catalog};
use picktools_call::{CallError, HydratedCall, Hydrator, ValidCall};

/// Returns a hydrator for a caller who may run unsafe tools.
pub(crate) fn hydrator_of(catalog: Catalog) -> Hydrator {
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    Hydrator::new(catalog, &access).expect("the access names no tool")
}

/// Returns a call that may run.
pub(crate) fn ready(hydrated: Result<HydratedCall, CallError>) -> ValidCall {
    match hydrated {
        Ok(HydratedCall::Ready(call)) => call,
        other => panic!("it may be run, but is {other:?}"),
    }
}
