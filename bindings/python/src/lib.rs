//! The engine in Python.
//!
//! What crosses is JSON in the forms of the library: `convert` reads Python's values into it and
//! writes answers from it, so that options, tools and outcomes mean here what they mean on the
//! wire. Whatever takes time runs without Python's lock.

mod answers;
mod calls;
mod catalog;
mod convert;
mod engine;
mod errors;
mod measuring;
mod model;
mod tool;
mod work;

use pyo3::prelude::*;

/// A pick allocates much and keeps little, which takes a quarter less time so than with the
/// system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::answers::{Pick, Selection};
    #[pymodule_export]
    use crate::calls::{Call, Translation};
    #[pymodule_export]
    use crate::catalog::{Catalog, check};
    #[pymodule_export]
    use crate::engine::{Engine, restored};
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
