//! Definitions of a catalog's tools.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::definition::Tool;
use super::grouping::Grouping;
use super::stats::ShardContext;
use crate::saved::{SavedError, SavedFile};

/// The SHA-256 of a serialised definition.
pub(crate) type Digest = [u8; 32];

/// The definitions of a catalog's tools, in registration order. Reading one can fail unless all
/// are in memory.
pub(super) trait Definitions: Debug + Send + Sync {
    /// Returns the number of tools.
    fn len(&self) -> usize;

    /// Returns the id of a tool.
    fn id(&self, index: usize) -> &str;

    /// Returns the names and the policy of a tool, without reading more than necessary. The
    /// description, the schemas and the HTTP operation may be missing.
    fn outline(&self, index: usize) -> Result<&Tool, SavedError> {
        Ok(self.definition(index)?)
    }

    /// Returns a tool. It stays in memory after its first use.
    fn definition(&self, index: usize) -> Result<&Arc<Tool>, SavedError>;

    /// Returns all tools, and reads those that are not in memory.
    fn all(&self) -> Result<&[Arc<Tool>], SavedError>;

    /// Returns a serialised definition.
    fn serialised(&self, index: usize) -> Result<Cow<'_, [u8]>, SavedError>;

    /// Returns the tools grouped by policy and source.
    fn grouping(&self) -> &Arc<Grouping>;

    /// Returns the memory for finding definitions that are not in memory, in bytes.
    fn memory(&self) -> usize {
        0
    }

    /// Returns the saved index that has the definitions.
    fn saved(&self) -> Option<&Arc<SavedFile>> {
        None
    }

    /// Returns the facts about the full catalog, if these are the definitions of a shard.
    fn shard(&self) -> Option<&ShardContext> {
        None
    }
}

/// Definitions that are all in memory.
#[derive(Debug)]
pub(super) struct DefinitionsInMemory {
    tools: Vec<Arc<Tool>>,
    /// Computed at its first use, because many catalogs are replaced before it is needed.
    grouping: OnceLock<Arc<Grouping>>,
}

impl From<Vec<Arc<Tool>>> for DefinitionsInMemory {
    fn from(tools: Vec<Arc<Tool>>) -> Self {
        Self {
            tools,
            grouping: OnceLock::new(),
        }
    }
}

impl Definitions for DefinitionsInMemory {
    fn len(&self) -> usize {
        self.tools.len()
    }

    fn id(&self, index: usize) -> &str {
        &self.tools[index].id
    }

    fn definition(&self, index: usize) -> Result<&Arc<Tool>, SavedError> {
        Ok(&self.tools[index])
    }

    fn all(&self) -> Result<&[Arc<Tool>], SavedError> {
        Ok(&self.tools)
    }

    fn serialised(&self, index: usize) -> Result<Cow<'_, [u8]>, SavedError> {
        Ok(serialise(&self.tools[index]).into())
    }

    fn grouping(&self) -> &Arc<Grouping> {
        let tools = self.tools.iter().map(|tool| &**tool);
        self.grouping.get_or_init(|| Arc::new(Grouping::new(tools)))
    }
}

/// Definitions that are collected when all are used for the first time.
#[derive(Debug, Default)]
pub(super) struct AllDefinitions(OnceLock<Vec<Arc<Tool>>>);

impl AllDefinitions {
    /// Returns all definitions of `source`.
    pub(super) fn get_or_read(
        &self,
        source: &impl Definitions,
    ) -> Result<&[Arc<Tool>], SavedError> {
        if let Some(tools) = self.0.get() {
            return Ok(tools);
        }
        // All are read before the first error is returned, so that the error is always the same.
        let read: Vec<Result<Arc<Tool>, SavedError>> = (0..source.len())
            .into_par_iter()
            .map(|index| source.definition(index).map(Arc::clone))
            .collect();
        let tools = read.into_iter().collect::<Result<_, _>>()?;
        Ok(self.0.get_or_init(|| tools))
    }
}

/// A definition whose outline (names and policy) is in memory, and which is read on first use.
#[derive(Debug)]
pub struct LazyTool {
    /// The outline, without description, schemas and HTTP operation; or the complete definition.
    outline: Arc<Tool>,
    /// The serialised definition; empty if the outline is the complete definition.
    serialised: Box<[u8]>,
    /// The complete definition, or the reason why it cannot be read.
    definition: OnceLock<Result<Arc<Tool>, String>>,
}

impl From<Arc<Tool>> for LazyTool {
    fn from(tool: Arc<Tool>) -> Self {
        Self {
            outline: Arc::clone(&tool),
            serialised: Box::default(),
            definition: OnceLock::from(Ok(tool)),
        }
    }
}

impl LazyTool {
    /// Reads the outline of a serialised definition. `load` reports errors in the rest.
    pub(crate) fn from_serialised(serialised: &[u8]) -> Result<Self, serde_json::Error> {
        let outline = Arc::new(Tool::read_outline(serialised)?);
        Ok(Self {
            outline,
            serialised: serialised.into(),
            definition: OnceLock::new(),
        })
    }

    /// Returns the names and the policy of the tool; description and schemas may be missing.
    pub fn outline(&self) -> &Tool {
        &self.outline
    }

    /// Returns the complete tool, or the reason why it cannot be read.
    pub(crate) fn load(&self) -> Result<&Arc<Tool>, &str> {
        let parse = || {
            serde_json::from_slice(&self.serialised)
                .map(Arc::new)
                .map_err(|error| error.to_string())
        };
        self.definition
            .get_or_init(parse)
            .as_ref()
            .map_err(String::as_str)
    }

    /// Returns `true` if an earlier `load` failed.
    pub fn is_damaged(&self) -> bool {
        matches!(self.definition.get(), Some(Err(_)))
    }

    /// Returns the serialised definition, which is digested and saved.
    pub(crate) fn serialised(&self) -> Cow<'_, [u8]> {
        if self.serialised.is_empty() {
            serialise(&self.outline).into()
        } else {
            (&*self.serialised).into()
        }
    }
}

/// Returns the serialised definition, which is digested and saved.
pub(crate) fn serialise(tool: &Tool) -> Vec<u8> {
    serde_json::to_vec(tool).expect("a tool serialises")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DEFINITION: &str = r#"{"id": "files/read", "name": "read", "title": "Read",
        "description": "Reads a file", "aliases": [{"name": "cat"}],
        "tags": ["disk"], "examples": ["show me the file"],
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        "provider_schema": {"type": "object"}, "output_schema": {"type": "string"},
        "source": "files", "untrusted": true, "strict": true, "safe": false,
        "safety": {"threat_level": "high"}, "annotations": {"destructiveHint": true},
        "capabilities": ["streaming"], "allowed_roles": ["ops"], "modes": ["read-only"],
        "cost": 2.5, "requires": ["list"], "http": {"method": "GET", "url": "/files"}}"#;

    /// None of these definitions is a valid tool. The flag is `true` if the outline fails, and
    /// `false` if only the complete definition does. The list was written before outlines existed.
    #[test]
    fn invalid_definitions_fail_in_the_outline_or_on_load() {
        let replace = |from: &str, to: &str| {
            assert!(DEFINITION.contains(from), "{from}");
            DEFINITION.replacen(from, to, 1)
        };
        for (definition, by_outline) in [
            // Members of the policy.
            (
                replace("\"safe\": false", "\"safe\": false, \"safe\": true"),
                true,
            ),
            (replace("\"safe\": false", "\"safe\": \"no\""), true),
            (replace("\"safe\"", "\"Safe\""), true),
            (
                replace(
                    "\"allowed_roles\"",
                    "\"allowedRoles\": [\"all\"], \"allowed_roles\"",
                ),
                true,
            ),
            (replace("\"allowed_roles\"", "\"allowed-roles\""), true),
            (
                replace(
                    "\"threat_level\": \"high\"",
                    "\"threat_level\": \"high\", \"threat_level\": \"low\"",
                ),
                true,
            ),
            (
                replace("\"destructiveHint\": true", "\"destructive_hint\": true"),
                true,
            ),
            (replace("\"untrusted\": true", "\"untrusted\": 1"), true),
            (replace("\"cost\": 2.5", "\"cost\": -1"), true),
            (
                replace("\"name\": \"read\"", "\"name\": \"re\\u200bad\""),
                true,
            ),
            (replace("[{\"name\": \"cat\"}]", "[{\"name\": 7}]"), true),
            (replace("\"description\"", "\"descripton\""), true),
            (format!("{DEFINITION}{DEFINITION}"), true),
            (DEFINITION[..DEFINITION.len() - 1].to_owned(), true),
            (format!("[{DEFINITION}]"), true),
            ("{}".to_owned(), true),
            (String::new(), true),
            // Members that an outline skips, apart from duplicates of them.
            (
                replace("\"parameters\"", "\"parameters\": {}, \"parameters\""),
                true,
            ),
            (
                replace("\"parameters\"", "\"p\\u0061rameters\": {}, \"parameters\""),
                true,
            ),
            (
                replace("\"description\"", "\"description\": \"\", \"description\""),
                true,
            ),
            (
                replace(
                    "\"parameters\"",
                    "\"inputSchema\": {\"type\": \"object\"}, \"parameters\"",
                ),
                true,
            ),
            (
                replace("\"parameters\"", "\"inputSchema\": {}, \"parameters\""),
                true,
            ),
            (
                replace(
                    "{\"type\": \"object\", \"prop",
                    "{\"type\": \"object\", \"type\": \"string\", \"prop",
                ),
                false,
            ),
            (
                replace(
                    "{\"type\": \"object\", \"prop",
                    "{\"$ref\": \"file:///x\", \"prop",
                ),
                false,
            ),
            (
                replace(
                    "\"provider_schema\": {\"type\": \"object\"}",
                    "\"provider_schema\": 7",
                ),
                false,
            ),
            (
                replace(
                    "\"output_schema\": {\"type\": \"string\"}",
                    "\"output_schema\": [true]",
                ),
                false,
            ),
            (
                replace("\"description\": \"Reads a file\"", "\"description\": 7"),
                false,
            ),
            (replace("Reads a file", "\\ud800"), false),
            (replace("\"method\": \"GET\"", "\"method\": 7"), false),
            (
                replace(
                    "{\"type\": \"string\"}",
                    &format!("{}1{}", "[".repeat(500), "]".repeat(500)),
                ),
                false,
            ),
        ] {
            serde_json::from_str::<Tool>(&definition).expect_err(&definition);
            match LazyTool::from_serialised(definition.as_bytes()) {
                Ok(tool) => {
                    assert!(!by_outline, "{definition}");
                    tool.load().expect_err(&definition);
                }
                Err(_) => assert!(by_outline, "{definition}"),
            }
        }
        // Definitions that a catalog file may have, but that are never serialised so.
        for definition in [
            replace("\"allowed_roles\"", "\"allowedRoles\""),
            replace("[{\"name\": \"cat\"}]", "[\"cat\"]"),
            replace("[\"streaming\"]", "{\"streaming\": true}"),
            replace("\"output_schema\"", "\"outputSchema\""),
            replace("\"id\": \"files/read\", ", ""),
        ] {
            assert!(
                serde_json::from_str::<Tool>(&definition).is_ok(),
                "{definition}"
            );
            LazyTool::from_serialised(definition.as_bytes()).expect_err(&definition);
        }
    }

    #[test]
    fn outline_lacks_texts_and_schemas_and_load_reads_them() {
        let tool: Tool = serde_json::from_str(DEFINITION).expect("the definition is valid");
        let lazy =
            LazyTool::from_serialised(DEFINITION.as_bytes()).expect("the definition is valid");
        assert_eq!(*lazy.outline(), tool.outline());
        assert_eq!(**lazy.load().expect("the definition is valid"), tool);
        assert_eq!(&*lazy.serialised(), DEFINITION.as_bytes());
        let in_memory = LazyTool::from(Arc::new(tool.clone()));
        assert_eq!(
            (in_memory.outline(), &*in_memory.serialised()),
            (&tool, &*serialise(&tool))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            cases: 2_000,
            ..ProptestConfig::default()
        })]
        #[test]
        fn outline_of_a_loadable_definition_matches_it(
            changes in prop::collection::vec(
                (
                    any::<prop::sample::Index>(),
                    prop::sample::select(b"\"{}[]:,0\\ tx\xff".as_slice()),
                ),
                1..4,
            ),
        ) {
            let mut bytes = DEFINITION.as_bytes().to_vec();
            for (index, byte) in changes {
                bytes[index.index(DEFINITION.len())] = byte;
            }
            if let Ok(lazy) = LazyTool::from_serialised(&bytes)
                && let Ok(tool) = lazy.load()
            {
                prop_assert_eq!(lazy.outline(), &tool.outline());
            }
        }
    }
}
