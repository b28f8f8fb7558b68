//! Duplicates: one tool that is offered more than once.
//!
//! Two servers may offer the same tool, or one server may be connected twice. Each duplicate takes
//! the place of a tool that does something else. Two tools are equal only if name, description and
//! arguments are equal for a model. The source name in front of a name, case and separators are
//! ignored. Different operations on one kind of object have different names. A short description
//! may mean something else at another source and never makes a duplicate.
//!
//! Equal tools of one source are duplicates. Those of several sources may serve different accounts,
//! such as the production and the staging database. They are duplicates only if they only read.

use std::collections::BTreeMap;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::record::DefinitionFingerprint;
use crate::catalog::{Catalog, Effects};
use crate::ranking::ToolId;
use crate::saved::{SavedError, Writer};

/// The section of a saved index that holds pairs of a tool and the first tool that equals it.
const SECTION: &str = "twins";

/// The equal tools of a catalog, and those among them that are duplicates.
#[derive(Debug)]
pub(crate) struct DuplicateGroups {
    /// The first equal tool, by tool. The first tool itself is included.
    equals: BTreeMap<ToolId, ToolId>,
    /// The first tool of the group of duplicates, by tool.
    groups: HashMap<ToolId, ToolId>,
}

impl DuplicateGroups {
    /// Reads the equal tools from the index that the catalog was opened from, or compares the
    /// tools.
    pub(super) fn load_or_build(
        catalog: &Catalog,
        fingerprints: &[Option<DefinitionFingerprint>],
    ) -> Result<Self, SavedError> {
        let Some(file) = catalog.saved() else {
            return Self::new(catalog, fingerprints);
        };
        let numbers: Vec<u32> = file.numbers(SECTION)?;
        let (pairs, rest) = numbers.as_chunks::<2>();
        file.ensure(
            rest.is_empty() && numbers.iter().all(|&tool| (tool as usize) < catalog.len()),
            SECTION,
        )?;
        let mut equals = BTreeMap::new();
        for &[tool, first] in pairs {
            equals.insert(ToolId(tool), ToolId(first));
        }
        Self::from_equals(catalog, equals)
    }

    pub(super) fn save(&self, writer: &mut Writer) -> Result<(), SavedError> {
        let mut pairs: Vec<[u32; 2]> = Vec::with_capacity(self.equals.len());
        for (tool, first) in &self.equals {
            pairs.push([tool.0, first.0]);
        }
        writer.numbers(SECTION, pairs.as_flattened())
    }

    /// Compares every tool with every other, in linear time.
    pub(super) fn new(
        catalog: &Catalog,
        fingerprints: &[Option<DefinitionFingerprint>],
    ) -> Result<Self, SavedError> {
        let mut firsts: HashMap<DefinitionFingerprint, ToolId> = HashMap::new();
        let mut equals = BTreeMap::new();
        for (id, fingerprint) in catalog.ids().zip(fingerprints) {
            let Some(fingerprint) = *fingerprint else {
                continue;
            };
            let first = *firsts.entry(fingerprint).or_insert(id);
            if first != id {
                equals.insert(id, first);
                equals.insert(first, first);
            }
        }
        Self::from_equals(catalog, equals)
    }

    /// Groups equal tools: those of one source, and those of all sources whose tools only read.
    fn from_equals(
        catalog: &Catalog,
        equals: BTreeMap<ToolId, ToolId>,
    ) -> Result<Self, SavedError> {
        let mut accounts: HashSet<(ToolId, Option<&str>)> = HashSet::new();
        for (&tool, &first) in &equals {
            if catalog.outline(tool)?.effects() != Effects::OnlyReads {
                accounts.insert((first, catalog.source(tool)));
            }
        }
        let mut firsts: HashMap<(ToolId, bool, Option<&str>), ToolId> = HashMap::new();
        let mut groups = HashMap::new();
        for (&tool, &first) in &equals {
            let source = catalog.source(tool);
            let is_account = accounts.contains(&(first, source));
            let key = (first, is_account, source.filter(|_| is_account));
            let first_of_group = *firsts.entry(key).or_insert(tool);
            if first_of_group != tool {
                groups.insert(tool, first_of_group);
                groups.insert(first_of_group, first_of_group);
            }
        }
        Ok(Self { equals, groups })
    }

    /// Returns the number of tools that have an equal tool.
    pub(crate) fn len(&self) -> usize {
        self.equals.len()
    }

    /// Returns the first tool of a tool's group; `None` if it has no duplicate.
    pub(crate) fn group(&self, tool: ToolId) -> Option<ToolId> {
        self.groups.get(&tool).copied()
    }

    /// Returns the first tool that equals a tool, duplicate or not; `None` if no other tool does.
    pub(crate) fn first_equal(&self, tool: ToolId) -> Option<ToolId> {
        self.equals.get(&tool).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    use crate::catalog::Tool;
    use crate::index::columns::Columns;

    const TEXT: &str = "Lists the issues of a repository";

    fn tool(source: &str, name: &str, description: &str, parameters: Value) -> Tool {
        let mut tool = Tool::without_arguments(name, description);
        tool.source = Some(source.to_owned());
        tool.parameters = Some(parameters);
        tool.id = tool.qualified_name();
        tool
    }

    fn reading(source: &str, name: &str, description: &str, parameters: Value) -> Tool {
        let mut tool = tool(source, name, description, parameters);
        tool.annotations.read_only_hint = Some(true);
        tool
    }

    fn find_duplicates(tools: impl IntoIterator<Item = Tool>) -> Vec<Option<usize>> {
        let catalog = Catalog::from_tools(tools).expect("valid");
        let columns = Columns::analyze_cut(catalog.tools().expect("in memory"), &[2]);
        let groups = DuplicateGroups::new(&catalog, &columns.fingerprints).expect("in memory");
        catalog
            .ids()
            .map(|tool| groups.group(tool).map(ToolId::index))
            .collect()
    }

    #[test]
    fn equal_reading_tools_of_several_sources_are_one_group() {
        let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
        let duplicates = find_duplicates([
            reading("hub", "list_issues", TEXT, schema.clone()),
            reading(
                "lab",
                "list_issues",
                "Lists the  issues of a Repository",
                schema.clone(),
            ),
            reading("forge", "forge_listIssues", TEXT, schema.clone()),
            reading("other", "list_issues", TEXT, json!({})),
        ]);
        assert_eq!(duplicates, [Some(0), Some(0), Some(0), None]);
    }

    #[test]
    fn equal_tools_with_other_effects_are_grouped_by_source() {
        let same = |source: &str, name: &str| tool(source, name, TEXT, json!({}));
        assert_eq!(
            find_duplicates([
                same("hub", "list_issues"),
                same("lab", "list_issues"),
                same("lab", "lab_list_issues"),
            ]),
            [None, Some(1), Some(1)]
        );
        let changed = |source: &str, change: fn(&mut Tool)| {
            let mut tool = reading(source, "list_issues", TEXT, json!({}));
            change(&mut tool);
            tool
        };
        let changes: [fn(&mut Tool); 5] = [
            |tool| tool.annotations.read_only_hint = None,
            |tool| tool.annotations.read_only_hint = Some(false),
            |tool| tool.annotations.destructive_hint = Some(true),
            |tool| tool.safe = Some(false),
            |tool| tool.untrusted = true,
        ];
        for change in changes {
            let duplicates = find_duplicates([
                changed("hub", |_| ()),
                changed("lab", change),
                changed("forge", |_| ()),
            ]);
            assert_eq!(duplicates, [Some(0), None, Some(0)]);
        }
    }

    #[test]
    fn source_that_reads_in_part_stays_apart() {
        let duplicates = find_duplicates([
            reading("hub", "list_issues", TEXT, json!({})),
            reading("lab", "list_issues", TEXT, json!({})),
            tool("lab", "lab_list_issues", TEXT, json!({})),
        ]);
        assert_eq!(duplicates, [None, Some(1), Some(1)]);
    }

    #[test]
    fn tools_with_different_names_are_not_duplicates() {
        let text = "Works on the users of an account";
        let duplicates = find_duplicates(
            ["get_user", "delete_user", "update_user"]
                .map(|name| reading("hub", name, text, json!({}))),
        );
        assert_eq!(duplicates, [None, None, None]);
    }

    #[test]
    fn tools_with_short_descriptions_are_not_duplicates() {
        assert_eq!(
            find_duplicates(["mail", "web"].map(|source| reading(
                source,
                "search",
                "Search",
                json!({})
            ))),
            [None, None]
        );
    }
}
