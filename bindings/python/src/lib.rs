//! The engine for Python.
//!
//! Python values are converted to and from JSON in the formats of the library (`convert`). So
//! options, tools and results have the same meaning as in JSON. Long work runs while the
//! interpreter's lock is released.

mod answers;
mod approvals;
mod calls;
mod catalog;
mod convert;
mod engine;
mod errors;
mod measuring;
mod model;
mod scorer;
mod tool;
mod work;

use pyo3::prelude::*;

/// The allocator. A pick makes many short allocations, and takes a quarter less time with this one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::answers::{Pick, Selection};
    #[pymodule_export]
    use crate::approvals::ApprovalTickets;
    #[pymodule_export]
    use crate::calls::{Call, ModelResult, Translation, results};
    #[pymodule_export]
    use crate::catalog::{Catalog, check};
    #[pymodule_export]
    use crate::engine::{Engine, restore_engine};
    #[pymodule_export]
    use crate::measuring::evaluate;
    #[pymodule_export]
    use crate::tool::Tool;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
