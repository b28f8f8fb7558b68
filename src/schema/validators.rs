//! Validators: one for each schema, made when it is first needed and kept.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use lru::LruCache;
use serde_json::Value;

use super::fault::fault;
#[cfg(feature = "json-schema")]
use super::validate::Compiled;
use super::{ArgumentFault, example};
use crate::sync::lock;

/// How many are kept; those that were not needed for longest go first. One takes 0.7 to 3.4 kB
/// (public catalogs).
const MAX_KEPT: NonZeroUsize = NonZeroUsize::new(4_096).expect("it is not zero");

/// Makes validators of schemas.
///
/// [`JsonSchema`] is the one that is used unless a catalog's options name another. Whoever writes
/// one is given schemas that were bounded and checked when the catalog was read, and arguments that
/// were bounded when the call was.
pub trait SchemaCompiler: fmt::Debug + Send + Sync {
    /// Makes a validator.
    ///
    /// # Errors
    ///
    /// Why the schema cannot be used; calls of its tool are then refused.
    fn compile(&self, schema: &Value) -> Result<Arc<dyn ArgumentValidator>, String>;
}

/// Holds arguments, which are an object, to one schema.
pub trait ArgumentValidator: fmt::Debug + Send + Sync {
    /// Returns `true` if a call may have these arguments.
    fn accepts(&self, arguments: &Value) -> bool;

    /// Returns what does not fit, the first few of it; at least one where
    /// [`ArgumentValidator::accepts`] says no.
    fn faults(&self, arguments: &Value) -> Vec<ArgumentFault>;

    /// Returns JSON pointers to texts that stand where the schema wants an object or an array: JSON
    /// in them is read and tried in their place. None unless a validator can tell.
    fn texts_for_structures(&self, arguments: &Value) -> Vec<String> {
        let _ = arguments;
        Vec::new()
    }
}

/// JSON Schema, drafts 4 to 2020-12, in bounded time (the crate `jsonschema`).
#[cfg(feature = "json-schema")]
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonSchema;

/// The compiler of a build without one: every schema is refused, and so is every call of a tool
/// that takes arguments.
#[cfg(not(feature = "json-schema"))]
#[derive(Debug)]
struct NoCompiler;

#[cfg(not(feature = "json-schema"))]
impl SchemaCompiler for NoCompiler {
    fn compile(&self, _: &Value) -> Result<Arc<dyn ArgumentValidator>, String> {
        let reason = "this build has no validator for JSON Schema; enable the feature json-schema, or set \
                      CatalogOptions::schema_compiler";
        Err(reason.to_owned())
    }
}

/// Returns the compiler that is used if the options of a catalog name none.
fn default_compiler() -> Arc<dyn SchemaCompiler> {
    #[cfg(feature = "json-schema")]
    return Arc::new(JsonSchema);
    #[cfg(not(feature = "json-schema"))]
    return Arc::new(NoCompiler);
}

#[cfg(feature = "json-schema")]
impl SchemaCompiler for JsonSchema {
    fn compile(&self, schema: &Value) -> Result<Arc<dyn ArgumentValidator>, String> {
        Ok(Arc::new(Compiled::new(schema)?))
    }
}

/// What arguments are held to: that they are an object, that a tool which takes none is given none,
/// and the schema.
#[derive(Debug)]
pub struct Check {
    /// `None`: the tool takes no arguments.
    validator: Option<Arc<dyn ArgumentValidator>>,
}

impl Check {
    pub(super) fn new(schema: &Value, compiler: &dyn SchemaCompiler) -> Result<Self, String> {
        // JSON Schema alone would let any arguments pass.
        let takes_none = schema.as_object().is_some_and(serde_json::Map::is_empty);
        Ok(Self {
            validator: if takes_none {
                None
            } else {
                Some(compiler.compile(schema)?)
            },
        })
    }

    /// Returns `true` if a call may have these arguments.
    pub fn accepts(&self, arguments: &Value) -> bool {
        let Value::Object(members) = arguments else {
            return false;
        };
        self.validator
            .as_ref()
            .map_or(members.is_empty(), |validator| validator.accepts(arguments))
    }

    /// Returns the first few faults of the arguments.
    pub fn faults(&self, arguments: &Value) -> Vec<ArgumentFault> {
        let whole = |keyword: &str, expected: &str| {
            vec![fault(
                String::new(),
                keyword,
                expected.to_owned(),
                arguments,
            )]
        };
        let Value::Object(members) = arguments else {
            return whole("type", "an object of arguments");
        };
        match &self.validator {
            Some(validator) => validator.faults(arguments),
            None if members.is_empty() => Vec::new(),
            None => whole("maxProperties", "no arguments: the tool takes none"),
        }
    }

    /// Returns JSON pointers to texts in the place of an object or an array.
    pub fn texts_for_structures(&self, arguments: &Value) -> Vec<String> {
        self.validator.as_ref().map_or_else(Vec::new, |validator| {
            validator.texts_for_structures(arguments)
        })
    }

    /// The fewest arguments that fit, as far as they can be found.
    pub fn example(&self, schema: &Value) -> Option<Value> {
        example(schema, self)
    }
}

/// A check, or why there is none.
type Compilation = Result<Arc<Check>, String>;

/// Checks by what they are of, `T`, which lives as long as its check is kept.
pub struct Validators<T> {
    compiler: Arc<dyn SchemaCompiler>,
    kept: Mutex<LruCache<usize, (Arc<T>, Compilation)>>,
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
            kept: Mutex::new(LruCache::new(MAX_KEPT)),
        }
    }

    /// The check of `owner`, whose schema this is.
    pub(crate) fn get(&self, owner: &Arc<T>, schema: &Value) -> Compilation {
        // The owner is kept beside its check, so that nothing else can come to stand at its
        // address.
        let key = Arc::as_ptr(owner).addr();
        let kept = || lock(&self.kept);
        if let Some((_, check)) = kept().get(&key) {
            return check.clone();
        }
        // Not under the lock: a large schema takes a while.
        let check = Check::new(schema, self.compiler.as_ref()).map(Arc::new);
        kept().put(key, (Arc::clone(owner), check.clone()));
        check
    }
}

#[cfg(all(test, feature = "json-schema"))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    #[derive(Debug, Default)]
    struct Counts(AtomicUsize);

    impl SchemaCompiler for Counts {
        fn compile(&self, schema: &Value) -> Result<Arc<dyn ArgumentValidator>, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            JsonSchema.compile(schema)
        }
    }

    #[test]
    fn a_schema_is_compiled_once_and_a_bounded_number_is_kept() {
        let counts = Arc::new(Counts::default());
        let validators = Validators::new(Some(counts.clone()));
        let schema = json!({"type": "object", "required": ["a"]});
        let owners: Vec<Arc<usize>> = (0..MAX_KEPT.get() + 1).map(Arc::new).collect();
        for _ in 0..3 {
            assert!(
                validators
                    .get(&owners[0], &schema)
                    .expect("it is sound")
                    .accepts(&json!({"a": 1}))
            );
        }
        assert_eq!(counts.0.load(Ordering::Relaxed), 1);
        for owner in &owners {
            validators.get(owner, &schema).expect("it is sound");
        }
        assert_eq!(
            validators.kept.lock().expect("no panic").len(),
            MAX_KEPT.get()
        );
    }
}
