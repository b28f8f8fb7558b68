//! Storage of a catalog's definitions. They are in memory, or serialised in a saved index or in the
//! rows of a store until they are needed.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock};

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::definition::Tool;
use crate::saved::{SavedError, SavedFile};

/// The SHA-256 of a serialised definition.
pub(crate) type Digest = [u8; 32];

/// The definitions of a catalog's tools, in registration order.
#[derive(Debug, Clone)]
pub(super) enum Definitions {
    InMemory(Vec<Arc<Tool>>),
    Saved(Arc<SavedDefinitions>),
    Lazy(Arc<LazyDefinitions>),
}

/// Definitions in a saved index. A definition stays in memory after its first use.
#[derive(Debug)]
pub(super) struct SavedDefinitions {
    file: Arc<SavedFile>,
    /// The end offset of each definition.
    ends: Vec<u64>,
    digests: Arc<[Digest]>,
    loaded: Vec<OnceLock<Arc<Tool>>>,
    /// All definitions, after the first use of all.
    all: OnceLock<Vec<Arc<Tool>>>,
    /// The first error, which the catalog reports.
    fault: Arc<OnceLock<SavedError>>,
}

/// Definitions whose outlines are in memory.
#[derive(Debug)]
pub(super) struct LazyDefinitions {
    tools: Vec<Arc<LazyTool>>,
    /// All definitions, after the first use of all.
    all: OnceLock<Vec<Arc<Tool>>>,
    /// The first error, which the catalog reports.
    fault: Arc<OnceLock<SavedError>>,
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

/// The sections of a saved index with the definitions and with their end offsets.
pub(super) const DEFINITIONS: &str = "catalog.definitions";
pub(super) const ENDS: &str = "catalog.definition-ends";

impl Definitions {
    /// Opens the definitions in a saved index, each with its digest. The first error of a read is
    /// stored in `fault`.
    pub(super) fn open(
        file: &Arc<SavedFile>,
        digests: &Arc<[Digest]>,
        fault: &Arc<OnceLock<SavedError>>,
    ) -> Result<Self, SavedError> {
        let ends: Vec<u64> = file.numbers(ENDS)?;
        let is_complete = ends.last().copied().unwrap_or_default() == file.bytes(DEFINITIONS)?;
        file.ensure(
            is_complete && ends.len() == digests.len() && ends.is_sorted(),
            ENDS,
        )?;
        let loaded = ends.iter().map(|_| OnceLock::new()).collect();
        let (file, digests, fault) = (Arc::clone(file), Arc::clone(digests), Arc::clone(fault));
        let all = OnceLock::new();
        Ok(Self::Saved(Arc::new(SavedDefinitions {
            file,
            ends,
            digests,
            loaded,
            all,
            fault,
        })))
    }

    /// Makes definitions that are read on first use. The first error of a read is stored in
    /// `fault`.
    pub(super) fn lazy(tools: Vec<Arc<LazyTool>>, fault: &Arc<OnceLock<SavedError>>) -> Self {
        Self::Lazy(Arc::new(LazyDefinitions {
            tools,
            all: OnceLock::new(),
            fault: Arc::clone(fault),
        }))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::InMemory(tools) => tools.len(),
            Self::Saved(saved) => saved.ends.len(),
            Self::Lazy(lazy) => lazy.tools.len(),
        }
    }

    /// Returns the memory for finding definitions that are not read yet, in bytes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::InMemory(_) => 0,
            Self::Saved(saved) => size_of_val(&*saved.ends) + size_of_val(&*saved.loaded),
            Self::Lazy(lazy) => size_of_val(&*lazy.tools),
        }
    }

    pub(super) fn tool(&self, index: usize) -> &Arc<Tool> {
        match self {
            Self::InMemory(tools) => &tools[index],
            Self::Saved(saved) => saved.loaded[index].get_or_init(|| saved.load(index)),
            Self::Lazy(lazy) => lazy.load(index),
        }
    }

    /// Returns the names and the policy of a tool, without reading more than necessary.
    pub(super) fn outline(&self, index: usize) -> &Tool {
        match self {
            Self::Lazy(lazy) => lazy.tools[index].outline(),
            Self::InMemory(_) | Self::Saved(_) => self.tool(index),
        }
    }

    pub(super) fn all(&self) -> &[Arc<Tool>] {
        match self {
            Self::InMemory(tools) => tools,
            Self::Saved(saved) => saved.all.get_or_init(|| self.read_all()),
            Self::Lazy(lazy) => lazy.all.get_or_init(|| self.read_all()),
        }
    }

    fn read_all(&self) -> Vec<Arc<Tool>> {
        (0..self.len())
            .into_par_iter()
            .map(|index| Arc::clone(self.tool(index)))
            .collect()
    }

    /// Returns a serialised definition.
    pub(super) fn serialised(&self, index: usize) -> Result<Vec<u8>, SavedError> {
        match self {
            Self::InMemory(tools) => Ok(serialise(&tools[index])),
            Self::Saved(saved) => saved.bytes(index),
            Self::Lazy(lazy) => Ok(lazy.tools[index].serialised().into_owned()),
        }
    }
}

impl LazyDefinitions {
    /// Reads a definition. If that fails, the error becomes the catalog's fault, and the result is
    /// a tool that no caller may see or call.
    fn load(&self, index: usize) -> &Arc<Tool> {
        let tool = &self.tools[index];
        tool.load().unwrap_or_else(|reason| {
            let (tool, reason) = (tool.outline().id.clone(), reason.to_owned());
            self.fault
                .get_or_init(|| SavedError::Definition { tool, reason });
            unreadable()
        })
    }
}

impl SavedDefinitions {
    /// Reads a definition. If that fails, the error becomes the catalog's fault, and the result is
    /// a tool that no caller may see or call.
    fn load(&self, index: usize) -> Arc<Tool> {
        let tool = self.bytes(index).and_then(|bytes| {
            serde_json::from_slice(&bytes)
                .map(Arc::new)
                .map_err(|error| {
                    let reason = format!("{}: {error}", describe_definition(index));
                    self.file.damaged(reason)
                })
        });
        tool.unwrap_or_else(|error| {
            // Only the first error is kept.
            self.fault.get_or_init(|| error);
            Arc::clone(unreadable())
        })
    }

    fn bytes(&self, index: usize) -> Result<Vec<u8>, SavedError> {
        let bytes = self.file.part(DEFINITIONS, self.range(index))?;
        if Sha256::digest(&bytes)[..] != self.digests[index] {
            let definition = describe_definition(index);
            let reason = format!("{definition} does not match its digest");
            return Err(self.file.damaged(reason));
        }
        Ok(bytes)
    }

    fn range(&self, index: usize) -> Range<u64> {
        let start = match index.checked_sub(1) {
            Some(previous) => self.ends[previous],
            None => 0,
        };
        start..self.ends[index]
    }
}

fn describe_definition(index: usize) -> String {
    format!("the definition of tool {}", index + 1)
}

/// Returns the placeholder for a tool that cannot be read: unsafe, and without a schema for
/// validating calls.
fn unreadable() -> &'static Arc<Tool> {
    static UNREADABLE: LazyLock<Arc<Tool>> = LazyLock::new(|| {
        let mut tool = Tool::without_arguments("unreadable", "");
        (tool.parameters, tool.safe, tool.untrusted) = (None, Some(false), true);
        Arc::new(tool)
    });
    &UNREADABLE
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
                    let fault = Arc::default();
                    let definitions = Definitions::lazy(vec![Arc::new(tool)], &fault);
                    assert_eq!(definitions.tool(0).name, "unreadable", "{definition}");
                    assert!(fault.get().is_some());
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
