//! The definitions of a catalog's tools: in memory, or as they are serialised until they are
//! needed, in a saved index or in the rows of a store.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, LazyLock, OnceLock};

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::definition::Tool;
use crate::saved::{SavedError, SavedFile};

/// The SHA-256 of a definition, as it is serialised.
pub(crate) type Digest = [u8; 32];

/// The definitions of a catalog's tools, in registration order.
#[derive(Debug, Clone)]
pub(super) enum Definitions {
    Read(Vec<Arc<Tool>>),
    Saved(Arc<SavedDefinitions>),
    Lazy(Arc<LazyDefinitions>),
}

/// Definitions that lie in a saved index. One that was needed stays in memory.
#[derive(Debug)]
pub(super) struct SavedDefinitions {
    file: Arc<SavedFile>,
    /// Where each definition ends.
    ends: Vec<u64>,
    digests: Arc<[Digest]>,
    needed: Vec<OnceLock<Arc<Tool>>>,
    /// All of them, once somebody needs all.
    all: OnceLock<Vec<Arc<Tool>>>,
    /// What was wrong first, as the catalog tells.
    fault: Arc<OnceLock<SavedError>>,
}

/// Definitions of which outlines were read.
#[derive(Debug)]
pub(super) struct LazyDefinitions {
    tools: Vec<Arc<LazyTool>>,
    /// All of them, once somebody needs all.
    all: OnceLock<Vec<Arc<Tool>>>,
    /// What was wrong first, as the catalog tells.
    fault: Arc<OnceLock<SavedError>>,
}

/// A definition of which what names the tool and decides on it is there at once, and the rest once
/// somebody needs it.
#[derive(Debug)]
pub struct LazyTool {
    /// Without description, schemas and how it is called over HTTP, unless it is the whole.
    outline: Arc<Tool>,
    /// As it is serialised; empty where the outline is the whole.
    serialised: Box<[u8]>,
    /// All of it, or why it cannot be read.
    whole: OnceLock<Result<Arc<Tool>, String>>,
}

impl From<Arc<Tool>> for LazyTool {
    fn from(tool: Arc<Tool>) -> Self {
        Self {
            outline: Arc::clone(&tool),
            serialised: Box::default(),
            whole: OnceLock::from(Ok(tool)),
        }
    }
}

impl LazyTool {
    /// Reads the outline of a definition. What is wrong with the rest, [`whole`](Self::whole)
    /// tells.
    pub(crate) fn of_serialised(serialised: &[u8]) -> Result<Self, serde_json::Error> {
        let outline = Arc::new(Tool::read_outline(serialised)?);
        Ok(Self {
            outline,
            serialised: serialised.into(),
            whole: OnceLock::new(),
        })
    }

    /// Returns what names the tool and decides on it; description and schemas may be left out.
    pub fn outline(&self) -> &Tool {
        &self.outline
    }

    /// Returns all of the tool, or why it cannot be read.
    pub(crate) fn whole(&self) -> Result<&Arc<Tool>, &str> {
        let read = || {
            serde_json::from_slice(&self.serialised)
                .map(Arc::new)
                .map_err(|error| error.to_string())
        };
        self.whole
            .get_or_init(read)
            .as_ref()
            .map_err(String::as_str)
    }

    /// Whether somebody needed all of it, and it cannot be read.
    pub fn is_damaged(&self) -> bool {
        matches!(self.whole.get(), Some(Err(_)))
    }

    /// Returns it as it is digested and saved.
    pub(crate) fn serialised(&self) -> Cow<'_, [u8]> {
        if self.serialised.is_empty() {
            serialise(&self.outline).into()
        } else {
            (&*self.serialised).into()
        }
    }
}

/// The section that holds the definitions, and the one of where they end.
pub(super) const DEFINITIONS: &str = "catalog.definitions";
pub(super) const ENDS: &str = "catalog.definition-ends";

impl Definitions {
    /// Finds definitions in an index; each has its digest. What is wrong with the first that cannot
    /// be read is put into `fault`.
    pub(super) fn open(
        file: &Arc<SavedFile>,
        digests: &Arc<[Digest]>,
        fault: &Arc<OnceLock<SavedError>>,
    ) -> Result<Self, SavedError> {
        let ends: Vec<u64> = file.numbers(ENDS)?;
        let whole = ends.last().copied().unwrap_or_default() == file.bytes(DEFINITIONS)?;
        file.ensure(
            whole && ends.len() == digests.len() && ends.is_sorted(),
            ENDS,
        )?;
        let needed = ends.iter().map(|_| OnceLock::new()).collect();
        let (file, digests, fault) = (Arc::clone(file), Arc::clone(digests), Arc::clone(fault));
        let all = OnceLock::new();
        Ok(Self::Saved(Arc::new(SavedDefinitions {
            file,
            ends,
            digests,
            needed,
            all,
            fault,
        })))
    }

    /// Takes definitions whose rest is read when it is needed. What is wrong with the first that
    /// cannot be read is put into `fault`.
    pub(super) fn lazy(tools: Vec<Arc<LazyTool>>, fault: &Arc<OnceLock<SavedError>>) -> Self {
        Self::Lazy(Arc::new(LazyDefinitions {
            tools,
            all: OnceLock::new(),
            fault: Arc::clone(fault),
        }))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Read(tools) => tools.len(),
            Self::Saved(saved) => saved.ends.len(),
            Self::Lazy(lazy) => lazy.tools.len(),
        }
    }

    /// Returns how many bytes are taken to find definitions that are not read yet.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Read(_) => 0,
            Self::Saved(saved) => size_of_val(&*saved.ends) + size_of_val(&*saved.needed),
            Self::Lazy(lazy) => size_of_val(&*lazy.tools),
        }
    }

    pub(super) fn tool(&self, place: usize) -> &Arc<Tool> {
        match self {
            Self::Read(tools) => &tools[place],
            Self::Saved(saved) => saved.needed[place].get_or_init(|| saved.read(place)),
            Self::Lazy(lazy) => lazy.whole(place),
        }
    }

    /// Returns what names a tool and decides on it, without reading more than is needed for that.
    pub(super) fn outline(&self, place: usize) -> &Tool {
        match self {
            Self::Lazy(lazy) => lazy.tools[place].outline(),
            Self::Read(_) | Self::Saved(_) => self.tool(place),
        }
    }

    pub(super) fn all(&self) -> &[Arc<Tool>] {
        match self {
            Self::Read(tools) => tools,
            Self::Saved(saved) => saved.all.get_or_init(|| self.read_all()),
            Self::Lazy(lazy) => lazy.all.get_or_init(|| self.read_all()),
        }
    }

    fn read_all(&self) -> Vec<Arc<Tool>> {
        (0..self.len())
            .into_par_iter()
            .map(|place| Arc::clone(self.tool(place)))
            .collect()
    }

    /// Returns a definition as it is serialised.
    pub(super) fn serialised(&self, place: usize) -> Result<Vec<u8>, SavedError> {
        match self {
            Self::Read(tools) => Ok(serialise(&tools[place])),
            Self::Saved(saved) => saved.bytes(place),
            Self::Lazy(lazy) => Ok(lazy.tools[place].serialised().into_owned()),
        }
    }
}

impl LazyDefinitions {
    /// Reads a definition; what cannot be read is a tool that nobody may see or call, and is
    /// remembered as the fault.
    fn whole(&self, place: usize) -> &Arc<Tool> {
        let tool = &self.tools[place];
        tool.whole().unwrap_or_else(|reason| {
            let (tool, reason) = (tool.outline().id.clone(), reason.to_owned());
            self.fault
                .get_or_init(|| SavedError::Definition { tool, reason });
            unreadable()
        })
    }
}

impl SavedDefinitions {
    /// Reads a definition; what cannot be read is a tool that nobody may see or call, and is
    /// remembered as the fault.
    fn read(&self, place: usize) -> Arc<Tool> {
        let tool = self.bytes(place).and_then(|bytes| {
            serde_json::from_slice(&bytes)
                .map(Arc::new)
                .map_err(|error| self.file.damaged(format!("{}: {error}", of(place))))
        });
        tool.unwrap_or_else(|error| {
            // Only the first is told.
            self.fault.get_or_init(|| error);
            Arc::clone(unreadable())
        })
    }

    fn bytes(&self, place: usize) -> Result<Vec<u8>, SavedError> {
        let bytes = self.file.part(DEFINITIONS, self.range(place))?;
        if Sha256::digest(&bytes)[..] != self.digests[place] {
            return Err(self
                .file
                .damaged(format!("{} does not have its digest", of(place))));
        }
        Ok(bytes)
    }

    fn range(&self, place: usize) -> Range<u64> {
        place.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[place]
    }
}

fn of(place: usize) -> String {
    format!("the definition of tool {}", place + 1)
}

/// What stands for a tool that cannot be read: unsafe, and without a schema that a call could be
/// held to.
fn unreadable() -> &'static Arc<Tool> {
    static UNREADABLE: LazyLock<Arc<Tool>> = LazyLock::new(|| {
        let mut tool = Tool::without_arguments("unreadable", "");
        (tool.parameters, tool.safe, tool.untrusted) = (None, Some(false), true);
        Arc::new(tool)
    });
    &UNREADABLE
}

/// Returns a definition as it is digested and saved.
pub(crate) fn serialise(tool: &Tool) -> Vec<u8> {
    serde_json::to_vec(tool).expect("a tool serialises")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: &str = r#"{"id": "files/read", "name": "read", "title": "Read", "description": "Reads a file", "aliases": [{"name": "cat"}],
        "tags": ["disk"], "examples": ["show me the file"], "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        "provider_schema": {"type": "object"}, "output_schema": {"type": "string"}, "source": "files", "untrusted": true,
        "strict": true, "safe": false, "safety": {"threat_level": "high"}, "annotations": {"destructiveHint": true},
        "capabilities": ["streaming"], "allowed_roles": ["ops"], "modes": ["read-only"], "cost": 2.5, "requires": ["list"],
        "http": {"method": "GET", "url": "/files"}}"#;

    /// Written down before outlines were read: none of these is a tool. Whether the outline tells
    /// or the rest, is beside each.
    #[test]
    fn what_is_no_tool_is_refused_by_its_outline_or_else_by_the_rest() {
        let with = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            WHOLE.replacen(from, to, 1)
        };
        for (definition, by_outline) in [
            // What decides on a tool.
            (
                with("\"safe\": false", "\"safe\": false, \"safe\": true"),
                true,
            ),
            (with("\"safe\": false", "\"safe\": \"no\""), true),
            (with("\"safe\"", "\"Safe\""), true),
            (
                with(
                    "\"allowed_roles\"",
                    "\"allowedRoles\": [\"all\"], \"allowed_roles\"",
                ),
                true,
            ),
            (with("\"allowed_roles\"", "\"allowed-roles\""), true),
            (
                with(
                    "\"threat_level\": \"high\"",
                    "\"threat_level\": \"high\", \"threat_level\": \"low\"",
                ),
                true,
            ),
            (
                with("\"destructiveHint\": true", "\"destructive_hint\": true"),
                true,
            ),
            (with("\"untrusted\": true", "\"untrusted\": 1"), true),
            (with("\"cost\": 2.5", "\"cost\": -1"), true),
            (
                with("\"name\": \"read\"", "\"name\": \"re\\u200bad\""),
                true,
            ),
            (with("[{\"name\": \"cat\"}]", "[{\"name\": 7}]"), true),
            (with("\"description\"", "\"descripton\""), true),
            (format!("{WHOLE}{WHOLE}"), true),
            (WHOLE[..WHOLE.len() - 1].to_owned(), true),
            (format!("[{WHOLE}]"), true),
            ("{}".to_owned(), true),
            (String::new(), true),
            // What is passed over at first, but for that it stands there once.
            (
                with("\"parameters\"", "\"parameters\": {}, \"parameters\""),
                true,
            ),
            (
                with("\"parameters\"", "\"p\\u0061rameters\": {}, \"parameters\""),
                true,
            ),
            (
                with("\"description\"", "\"description\": \"\", \"description\""),
                true,
            ),
            (
                with(
                    "\"parameters\"",
                    "\"inputSchema\": {\"type\": \"object\"}, \"parameters\"",
                ),
                true,
            ),
            (
                with("\"parameters\"", "\"inputSchema\": {}, \"parameters\""),
                true,
            ),
            (
                with(
                    "{\"type\": \"object\", \"prop",
                    "{\"type\": \"object\", \"type\": \"string\", \"prop",
                ),
                false,
            ),
            (
                with("{\"type\": \"object\", \"prop", "{\"type\": 7, \"prop"),
                false,
            ),
            (
                with(
                    "\"provider_schema\": {\"type\": \"object\"}",
                    "\"provider_schema\": 7",
                ),
                false,
            ),
            (
                with(
                    "\"output_schema\": {\"type\": \"string\"}",
                    "\"output_schema\": [true]",
                ),
                false,
            ),
            (
                with("\"description\": \"Reads a file\"", "\"description\": 7"),
                false,
            ),
            (with("Reads a file", "\\ud800"), false),
            (with("\"method\": \"GET\"", "\"method\": 7"), false),
            (
                with(
                    "{\"type\": \"string\"}",
                    &format!("{}1{}", "[".repeat(500), "]".repeat(500)),
                ),
                false,
            ),
        ] {
            serde_json::from_str::<Tool>(&definition).expect_err(&definition);
            match LazyTool::of_serialised(definition.as_bytes()) {
                Ok(tool) => {
                    assert!(!by_outline, "{definition}");
                    tool.whole().expect_err(&definition);
                    let fault = Arc::default();
                    let definitions = Definitions::lazy(vec![Arc::new(tool)], &fault);
                    assert_eq!(definitions.tool(0).name, "unreadable", "{definition}");
                    assert!(fault.get().is_some());
                }
                Err(_) => assert!(by_outline, "{definition}"),
            }
        }
        // What is read of a catalog's file, but is not serialised so.
        for definition in [
            with("\"allowed_roles\"", "\"allowedRoles\""),
            with("[{\"name\": \"cat\"}]", "[\"cat\"]"),
            with("[\"streaming\"]", "{\"streaming\": true}"),
            with("\"output_schema\"", "\"outputSchema\""),
            with("\"id\": \"files/read\", ", ""),
        ] {
            assert!(
                serde_json::from_str::<Tool>(&definition).is_ok(),
                "{definition}"
            );
            LazyTool::of_serialised(definition.as_bytes()).expect_err(&definition);
        }
    }

    #[test]
    fn an_outline_has_all_but_texts_and_schemas_and_the_rest_comes_when_it_is_needed() {
        let whole: Tool = serde_json::from_str(WHOLE).expect("it is a tool");
        let read = LazyTool::of_serialised(WHOLE.as_bytes()).expect("it is a tool");
        assert_eq!(*read.outline(), whole.outline());
        assert_eq!(**read.whole().expect("it is a tool"), whole);
        assert_eq!(&*read.serialised(), WHOLE.as_bytes());
        let made = LazyTool::from(Arc::new(whole.clone()));
        assert_eq!(
            (made.outline(), &*made.serialised()),
            (&whole, &*serialise(&whole))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]
        #[test]
        fn whatever_is_read_is_decided_on_as_the_whole_would_be(
            places in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"\"{}[]:,0\\ tx\xff".as_slice())), 1..4),
        ) {
            let mut bytes = WHOLE.as_bytes().to_vec();
            places.into_iter().for_each(|(place, byte)| bytes[place.index(WHOLE.len())] = byte);
            if let Ok(tool) = LazyTool::of_serialised(&bytes)
                && let Ok(whole) = tool.whole()
            {
                prop_assert_eq!(tool.outline(), &whole.outline());
            }
        }
    }
}
