//! Duplicates: one tool that is offered more than once.
//!
//! Two servers may offer the same tool, or one server may be connected twice. Each duplicate takes
//! the place of a tool that does something else. Two tools are duplicates only if name, description
//! and arguments are equal for a model. The source name in front of a name, case and separators are
//! ignored. Different operations on one kind of object have different names. A short description
//! may mean something else at another source and never makes a duplicate.

use foldhash::{HashMap, HashMapExt};
use sha2::{Digest, Sha256};

use super::segment::Segments;
use crate::catalog::spelling::normalise;
use crate::catalog::{Catalog, Tool};
use crate::ranking::ToolId;
use crate::saved::{SavedError, Writer};

/// The fewest words with which a description identifies a tool, whatever its source.
const MIN_IDENTIFYING_WORDS: usize = 5;

/// The section of a saved index that holds pairs of a tool and the first tool of its group.
const SECTION: &str = "twins";

/// The groups of duplicates in a catalog: the first tool of the group, by tool.
#[derive(Debug)]
pub(crate) struct DuplicateGroups(HashMap<ToolId, ToolId>);

impl DuplicateGroups {
    /// Reads the groups from the index that the catalog was opened from, or compares the tools.
    pub(super) fn load_or_build(
        catalog: &Catalog,
        segments: &Segments,
    ) -> Result<Self, SavedError> {
        let Some(file) = catalog.saved() else {
            return Ok(Self::new(segments));
        };
        let numbers: Vec<u32> = file.numbers(SECTION)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        file.ensure(
            rest.is_empty() && numbers.iter().all(|&tool| (tool as usize) < catalog.len()),
            SECTION,
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
        writer.numbers(SECTION, pairs.as_flattened())
    }

    /// Compares every tool with every other, in linear time.
    pub(super) fn new(segments: &Segments) -> Self {
        let mut firsts: HashMap<DefinitionFingerprint, ToolId> = HashMap::new();
        let mut groups = HashMap::new();
        for (index, fingerprint) in segments
            .iter()
            .flat_map(|(_, segment)| &segment.fingerprints)
            .enumerate()
        {
            let (Some(fingerprint), id) = (*fingerprint, ToolId::from_index(index)) else {
                continue;
            };
            let first = *firsts.entry(fingerprint).or_insert(id);
            if first != id {
                groups.insert(id, first);
                groups.insert(first, first);
            }
        }
        Self(groups)
    }

    /// Returns the number of tools that have a duplicate.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the first tool of a tool's group; `None` if it has no duplicate.
    pub(crate) fn group(&self, tool: ToolId) -> Option<ToolId> {
        self.0.get(&tool).copied()
    }
}

/// A digest of the parts of a definition that a model sees.
pub(super) type DefinitionFingerprint = [u8; 32];

/// Returns the definition fingerprint of a tool; `None` if the description is too short.
pub(super) fn definition_fingerprint(tool: &Tool) -> Option<DefinitionFingerprint> {
    let words = tool.description.split_whitespace();
    if words.clone().take(MIN_IDENTIFYING_WORDS).count() < MIN_IDENTIFYING_WORDS {
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

    fn find_duplicates(tools: &[(&str, &str, &str, Value)]) -> Vec<Option<usize>> {
        let tools = tools.iter().map(|(source, name, description, parameters)| {
            let mut tool = Tool::without_arguments(*name, *description);
            tool.source = Some((*source).to_owned());
            tool.parameters = Some(parameters.clone());
            tool.id = tool.qualified_name();
            tool
        });
        let catalog = Catalog::from_tools(tools).expect("valid");
        let segments =
            Segments::cut(catalog.tools(), &[2], &IndexConfig::default()).expect("indexed");
        let groups = DuplicateGroups::new(&segments);
        catalog
            .ids()
            .map(|tool| groups.group(tool).map(ToolId::index))
            .collect()
    }

    const TEXT: &str = "Makes an issue in a repository";

    #[test]
    fn equal_tools_of_several_sources_are_one_group() {
        let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
        let duplicates = find_duplicates(&[
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
        assert_eq!(duplicates, [Some(0), Some(0), Some(0), None]);
    }

    #[test]
    fn tools_with_different_names_are_not_duplicates() {
        let text = "Works on the users of an account";
        let duplicates = find_duplicates(&[
            ("hub", "get_user", text, json!({})),
            ("hub", "delete_user", text, json!({})),
            ("hub", "update_user", text, json!({})),
        ]);
        assert_eq!(duplicates, [None, None, None]);
    }

    #[test]
    fn tools_with_short_descriptions_are_not_duplicates() {
        assert_eq!(
            find_duplicates(&[
                ("mail", "search", "Search", json!({})),
                ("web", "search", "Search", json!({}))
            ]),
            [None, None]
        );
    }
}
