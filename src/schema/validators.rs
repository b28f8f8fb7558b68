//! A cache of validators, each compiled when its schema is first needed.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use lru::LruCache;
use serde_json::Value;

use super::compiler::{ArgumentValidator, SchemaCompiler};
use super::fault::{ArgumentFault, fault};
#[cfg(feature = "json-schema")]
use super::validate::CompiledSchema;
use crate::sync::lock;

/// The most validators in the cache; the least recently used one is evicted first. A validator
/// takes 0.7 to 3.4 kB (public catalogs).
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(4_096).expect("the constant is not zero");

/// Compiler for JSON Schema, drafts 4 to 2020-12, in bounded time (the crate `jsonschema`).
#[cfg(feature = "json-schema")]
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonSchema;

/// Compiler of a build without JSON Schema. It refuses every schema, and so every call of a tool
/// that takes arguments is refused.
#[cfg(not(feature = "json-schema"))]
#[derive(Debug)]
struct NoCompiler;

#[cfg(not(feature = "json-schema"))]
impl SchemaCompiler for NoCompiler {
    fn compile(&self, _: &Value) -> Result<Arc<dyn ArgumentValidator>, String> {
        let reason = "this build has no validator for JSON Schema; enable the feature \
                      json-schema, or set CatalogOptions::schema_compiler";
        Err(reason.to_owned())
    }
}

/// Returns the compiler for catalogs whose options name none.
fn default_compiler() -> Arc<dyn SchemaCompiler> {
    #[cfg(feature = "json-schema")]
    return Arc::new(JsonSchema);
    #[cfg(not(feature = "json-schema"))]
    return Arc::new(NoCompiler);
}

#[cfg(feature = "json-schema")]
impl SchemaCompiler for JsonSchema {
    fn compile(&self, schema: &Value) -> Result<Arc<dyn ArgumentValidator>, String> {
        Ok(Arc::new(CompiledSchema::new(schema)?))
    }
}

/// All checks of a tool's arguments.
///
/// The arguments must be an object and match the schema. A tool without parameters must get no
/// arguments.
#[derive(Debug)]
pub struct ArgumentCheck {
    /// `None` if the tool takes no arguments.
    validator: Option<Arc<dyn ArgumentValidator>>,
}

impl ArgumentCheck {
    pub(super) fn new(schema: &Value, compiler: &dyn SchemaCompiler) -> Result<Self, String> {
        // In JSON Schema the empty schema accepts everything.
        let takes_none = schema.as_object().is_some_and(serde_json::Map::is_empty);
        Ok(Self {
            validator: if takes_none {
                None
            } else {
                Some(compiler.compile(schema)?)
            },
        })
    }

    /// Returns `true` if the arguments pass all checks.
    pub fn accepts(&self, arguments: &Value) -> bool {
        let Value::Object(members) = arguments else {
            return false;
        };
        match &self.validator {
            Some(validator) => validator.accepts(arguments),
            None => members.is_empty(),
        }
    }

    /// Returns the first few faults of the arguments.
    pub fn faults(&self, arguments: &Value) -> Vec<ArgumentFault> {
        let single_fault = |keyword: &str, expected: &str| {
            vec![fault(
                String::new(),
                keyword,
                expected.to_owned(),
                arguments,
            )]
        };
        let Value::Object(members) = arguments else {
            return single_fault("type", "an object of arguments");
        };
        match &self.validator {
            Some(validator) => validator.faults(arguments),
            None if members.is_empty() => Vec::new(),
            None => single_fault("maxProperties", "no arguments: the tool takes none"),
        }
    }

    /// Returns JSON pointers to texts in places that need an object or an array.
    pub fn texts_for_structures(&self, arguments: &Value) -> Vec<String> {
        match &self.validator {
            Some(validator) => validator.texts_for_structures(arguments),
            None => Vec::new(),
        }
    }
}

/// A check, or the reason why the schema does not compile.
type Compilation = Result<Arc<ArgumentCheck>, String>;

/// A cache of checks by the owner `T` of the schema, such as a tool. A cached check keeps its owner
/// alive.
pub struct Validators<T> {
    compiler: Arc<dyn SchemaCompiler>,
    cache: Mutex<LruCache<usize, (Arc<T>, Compilation)>>,
}

impl<T> fmt::Debug for Validators<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validators")
            .field("compiler", &self.compiler)
            .finish_non_exhaustive()
    }
}

impl<T> Validators<T> {
    pub(crate) fn new(compiler: Option<Arc<dyn SchemaCompiler>>) -> Self {
        Self {
            compiler: compiler.unwrap_or_else(default_compiler),
            cache: Mutex::new(LruCache::new(MAX_CACHED)),
        }
    }

    /// Returns the check for the schema of `owner`, from the cache or newly compiled.
    pub(crate) fn get(&self, owner: &Arc<T>, schema: &Value) -> Compilation {
        // The cache keeps the owner alive, so that no other value can get its address.
        let key = Arc::as_ptr(owner).addr();
        let cache = || lock(&self.cache);
        if let Some((_, check)) = cache().get(&key) {
            return check.clone();
        }
        // Compiled without the lock, because a large schema takes a while.
        let check = ArgumentCheck::new(schema, self.compiler.as_ref()).map(Arc::new);
        cache().put(key, (Arc::clone(owner), check.clone()));
        check
    }
}

#[cfg(all(test, feature = "json-schema"))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    #[derive(Debug, Default)]
    struct CountingCompiler(AtomicUsize);

    impl SchemaCompiler for CountingCompiler {
        fn compile(&self, schema: &Value) -> Result<Arc<dyn ArgumentValidator>, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            JsonSchema.compile(schema)
        }
    }

    #[test]
    fn schema_is_compiled_once_and_cache_size_is_bounded() {
        let compiler = Arc::new(CountingCompiler::default());
        let validators = Validators::new(Some(compiler.clone()));
        let schema = json!({"type": "object", "required": ["a"]});
        let owners: Vec<Arc<usize>> = (0..MAX_CACHED.get() + 1).map(Arc::new).collect();
        for _ in 0..3 {
            assert!(
                validators
                    .get(&owners[0], &schema)
                    .expect("the schema is valid")
                    .accepts(&json!({"a": 1}))
            );
        }
        assert_eq!(compiler.0.load(Ordering::Relaxed), 1);
        for owner in &owners {
            validators.get(owner, &schema).expect("the schema is valid");
        }
        assert_eq!(
            validators.cache.lock().expect("no panic").len(),
            MAX_CACHED.get()
        );
    }
}
