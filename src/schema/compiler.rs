//! The interface of compilers of schemas.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::fault::ArgumentFault;

/// Compiles schemas to validators.
///
/// [`JsonSchema`](super::JsonSchema) is the default; a catalog's options can name another compiler. A compiler gets
/// schemas whose limits were checked when the catalog was read. Its validators get arguments whose
/// size was checked when the call was read.
pub trait SchemaCompiler: fmt::Debug + Send + Sync {
    /// Compiles a schema to a validator.
    ///
    /// # Errors
    ///
    /// The reason why the schema cannot be used. Calls of its tool are then refused.
    fn compile(&self, schema: &Value) -> Result<Arc<dyn ArgumentValidator>, String>;
}

/// Validates arguments, which are an object, against one schema.
pub trait ArgumentValidator: fmt::Debug + Send + Sync {
    /// Returns `true` if the arguments match the schema.
    fn accepts(&self, arguments: &Value) -> bool;

    /// Returns the first few faults of the arguments; at least one if
    /// [`ArgumentValidator::accepts`] returns `false`.
    fn faults(&self, arguments: &Value) -> Vec<ArgumentFault>;

    /// Returns JSON pointers to texts in places that need an object or an array.
    ///
    /// The caller parses such a text as JSON and tries the result in its place. The default
    /// implementation returns no pointers.
    fn texts_for_structures(&self, arguments: &Value) -> Vec<String> {
        let _ = arguments;
        Vec::new()
    }
}
