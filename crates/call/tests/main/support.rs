//! What the modules share: hydrators, and calls that may be run.

use picktools::{Access, Catalog};
use picktools_call::{CallError, Hydrated, Hydrator, ValidCall};

/// A hydrator for a caller who may run unsafe tools too.
pub(crate) fn hydrator_of(catalog: Catalog) -> Hydrator {
    let access = Access {
        allow_unsafe: true,
        ..Access::default()
    };
    Hydrator::new(catalog, &access).expect("the access names no tool")
}

/// The call that may be run.
pub(crate) fn ready(hydrated: Result<Hydrated, CallError>) -> ValidCall {
    match hydrated {
        Ok(Hydrated::Ready(call)) => call,
        other => panic!("it may be run, but is {other:?}"),
    }
}
