//! A definition as in `tools/list`, with what is computed from it once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use picktools_provider::Tokenizer;
use serde_json::Value;

/// The definitions by tool id.
pub(super) type AdvertisedDefinitions = HashMap<String, Arc<AdvertisedDefinition>>;

/// A definition as in `tools/list`. It is kept as text, which takes a fraction of the memory of a
/// [`Value`].
pub struct AdvertisedDefinition {
    text: Box<str>,
    tokens: OnceLock<usize>,
}

impl AdvertisedDefinition {
    pub(super) fn new(definition: &Value) -> Self {
        Self {
            text: definition.to_string().into(),
            tokens: OnceLock::new(),
        }
    }

    /// Returns the JSON text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Parses the definition.
    pub fn value(&self) -> Value {
        // It was written from a value.
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Returns the number of tokens, which are counted once.
    pub fn tokens(&self) -> usize {
        *self
            .tokens
            .get_or_init(|| Tokenizer::O200k.count(&self.text))
    }
}

/// Replaces equal definitions by those of an earlier snapshot, whose tokens may be counted already.
pub(super) fn reuse(definitions: &mut AdvertisedDefinitions, earlier: &AdvertisedDefinitions) {
    for (id, definition) in definitions {
        if let Some(known) = earlier.get(id)
            && known.text == definition.text
        {
            *definition = Arc::clone(known);
        }
    }
}
