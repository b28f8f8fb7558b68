//! Tools that are one tool, offered more than once.
//!
//! Two servers may offer the same tool, or two copies of one server be connected; each copy takes
//! the place of a tool that does something else. Only what is the same in every way that a model
//! sees is taken for one: name (but for its source's name in front, case and separators),
//! description and arguments. Tools that do different things to one kind of thing differ in name. A
//! short description may mean something else at another source, and tells nothing.

use foldhash::{HashMap, HashMapExt};
use sha2::{Digest, Sha256};

use super::segment::Segments;
use crate::catalog::spelling::normalise;
use crate::catalog::{Catalog, Tool};
use crate::ranking::ToolId;
use crate::saved::{SavedError, Writer};

/// The fewest words of a description that tell what a tool does wherever it comes from.
const TELLING_WORDS: usize = 5;

/// The section of a saved index that holds pairs of tools, the second the first of those that are
/// the same.
const NAME: &str = "twins";

/// Which tools of a catalog are the same.
#[derive(Debug)]
pub(crate) struct Twins(HashMap<ToolId, ToolId>);

impl Twins {
    /// Reads which tools are the same from the index that the catalog was opened from, or compares
    /// them.
    pub(super) fn of_catalog(catalog: &Catalog, segments: &Segments) -> Result<Self, SavedError> {
        let Some(file) = catalog.saved() else {
            return Ok(Self::new(segments));
        };
        let numbers: Vec<u32> = file.numbers(NAME)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        file.ensure(
            rest.is_empty() && numbers.iter().all(|&tool| (tool as usize) < catalog.len()),
            NAME,
        )?;
        Ok(Self(
            pairs
                .iter()
                .map(|&[tool, first]| (ToolId(tool), ToolId(first)))
                .collect(),
        ))
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let mut pairs: Vec<[u32; 2]> = self
            .0
            .iter()
            .map(|(tool, first)| [tool.0, first.0])
            .collect();
        pairs.sort_unstable();
        writer.numbers(NAME, pairs.as_flattened())
    }

    /// Compares every tool with every other, in linear time.
    pub(super) fn new(segments: &Segments) -> Self {
        let mut firsts: HashMap<Likeness, ToolId> = HashMap::new();
        let mut twins = HashMap::new();
        for (index, likeness) in segments
            .iter()
            .flat_map(|(_, segment)| &segment.likenesses)
            .enumerate()
        {
            let (Some(likeness), id) = (*likeness, ToolId::from_index(index)) else {
                continue;
            };
            let first = *firsts.entry(likeness).or_insert(id);
            if first != id {
                twins.insert(id, first);
                twins.insert(first, first);
            }
        }
        Self(twins)
    }

    /// Returns how many tools have a twin.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns what the tool and its twins have in common and no other tool has; `None` where it
    /// has no twin.
    pub(crate) fn of(&self, tool: ToolId) -> Option<ToolId> {
        self.0.get(&tool).copied()
    }
}

/// A digest of what a model sees of a tool.
pub(super) type Likeness = [u8; 32];

/// Digests what a model sees of a tool; `None` where that tells too little.
pub(super) fn likeness(tool: &Tool) -> Option<Likeness> {
    let words = tool.description.split_whitespace();
    if words.clone().take(TELLING_WORDS).count() < TELLING_WORDS {
        return None;
    }
    let name = normalise(&tool.name);
    let source = tool.source.as_deref().map(normalise).unwrap_or_default();
    let name = name
        .strip_prefix(source.as_str())
        .filter(|rest| !rest.is_empty())
        .unwrap_or(&name);
    let mut digest = Sha256::new();
    digest.update(name);
    for word in words {
        digest.update(" ");
        digest.update(word.to_lowercase());
    }
    digest.update("\n");
    if let Some(parameters) = &tool.parameters {
        digest.update(parameters.to_string());
    }
    Some(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    use crate::index::IndexConfig;

    fn twins(tools: &[(&str, &str, &str, Value)]) -> Vec<Option<usize>> {
        let tools = tools.iter().map(|(source, name, description, parameters)| {
            let mut tool = Tool::without_arguments(*name, *description);
            tool.source = Some((*source).to_owned());
            tool.parameters = Some(parameters.clone());
            tool.id = tool.qualified_name();
            tool
        });
        let catalog = Catalog::from_tools(tools).expect("valid");
        let segments = Segments::cut(catalog.tools(), &[2], &IndexConfig::default())
            .expect("it can be indexed");
        let twins = Twins::new(&segments);
        catalog
            .ids()
            .map(|tool| twins.of(tool).map(ToolId::index))
            .collect()
    }

    const TEXT: &str = "Makes an issue in a repository";

    #[test]
    fn the_same_tool_of_two_sources_is_one() {
        let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
        let found = twins(&[
            ("hub", "create_issue", TEXT, schema.clone()),
            (
                "lab",
                "create_issue",
                "Makes an  issue in a Repository",
                schema.clone(),
            ),
            ("forge", "forge_createIssue", TEXT, schema.clone()),
            ("other", "create_issue", TEXT, json!({})),
        ]);
        assert_eq!(found, [Some(0), Some(0), Some(0), None]);
    }

    #[test]
    fn a_family_of_tools_is_not_one_tool() {
        let text = "Works on the users of an account";
        let found = twins(&[
            ("hub", "get_user", text, json!({})),
            ("hub", "delete_user", text, json!({})),
            ("hub", "update_user", text, json!({})),
        ]);
        assert_eq!(found, [None, None, None]);
    }

    #[test]
    fn short_descriptions_tell_nothing() {
        assert_eq!(
            twins(&[
                ("mail", "search", "Search", json!({})),
                ("web", "search", "Search", json!({}))
            ]),
            [None, None]
        );
    }
}
