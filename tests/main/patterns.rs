//! Names and patterns of tools: every option and every skill reads them alike.

use picktools::access::AccessError;
use picktools::names::NameTable;
use picktools::skills::ToolMeaning;
use picktools::{Access, Catalog, Engine, PickError, PickOptions, Query, Tool};

use crate::support::{PatternCase, PatternTable, engine, set};

fn open_table() -> (Catalog, Vec<PatternCase>) {
    let table = PatternTable::open();
    (table.catalog(), table.patterns)
}

/// Returns the ids of the tools that are ineligible, or `None` if the policy is refused.
fn ineligible(catalog: &Catalog, access: &Access) -> Option<Vec<String>> {
    let eligibility = match access.decide(catalog, &NameTable::new(catalog).expect("readable")) {
        Ok(eligibility) => eligibility,
        Err(AccessError::UnknownTool { .. }) => return None,
        Err(error) => panic!("{error}"),
    };
    let mut ids = Vec::new();
    for id in catalog.ids() {
        if !eligibility.admits(id) {
            ids.push(catalog.tool(id).expect("readable").id.clone());
        }
    }
    Some(ids)
}

/// Returns the ids of the tools that are always included; none if the name is unknown.
fn included(engine: &Engine, pattern: &str) -> Vec<String> {
    let options = PickOptions {
        always_include: vec![pattern.to_owned()],
        min_score: 1.0,
        max_candidates: 50,
        ..PickOptions::default()
    };
    let selection = match engine.pick(&Query::new("zzz"), &options) {
        Ok(selection) => selection,
        Err(PickError::Access(AccessError::UnknownTool { .. })) => return Vec::new(),
        Err(error) => panic!("{error}"),
    };
    let mut ids: Vec<String> = selection
        .picks
        .iter()
        .map(|pick| pick.tool.id.clone())
        .collect();
    ids.sort();
    ids
}

#[test]
fn patterns_match_the_same_tools_in_access_options_and_skills() {
    let (catalog, patterns) = open_table();
    let names = NameTable::new(&catalog).expect("readable");
    let engine = engine(catalog.clone());
    for PatternCase { pattern, tools } in &patterns {
        let expected = (!tools.is_empty()).then(|| tools.clone());
        let policies = [
            Access {
                exclude: set(&[pattern]),
                ..Access::default()
            },
            Access {
                quarantine: set(&[pattern]),
                ..Access::default()
            },
            Access {
                quotas: [(pattern.clone(), 0)].into(),
                ..Access::default()
            },
        ];
        for access in policies {
            assert_eq!(ineligible(&catalog, &access), expected, "{access:?}");
        }
        assert_eq!(
            included(&engine, pattern),
            *tools,
            "always_include {pattern}"
        );
        let meaning = match ToolMeaning::resolve(pattern, &catalog, &names).expect("readable") {
            ToolMeaning::Tool { tool, .. } => vec![tool],
            ToolMeaning::Matched { tools } => tools,
            _ => Vec::new(),
        };
        assert_eq!(meaning, *tools, "a skill with {pattern}");
    }
}

#[test]
fn pattern_without_a_tool_and_invalid_pattern_are_refused() {
    let (catalog, _) = open_table();
    let names = NameTable::new(&catalog).expect("readable");
    for (pattern, message) in [
        (
            "mcp__githb",
            "exclude names \"mcp__githb\", which matches no tool of the catalog",
        ),
        (
            "calendar/*",
            "exclude names \"calendar/*\", which matches no tool of the catalog",
        ),
        ("list_[", "exclude: invalid pattern \"list_[\""),
    ] {
        let access = Access {
            exclude: set(&[pattern]),
            ..Access::default()
        };
        let error = access.decide(&catalog, &names).expect_err(pattern);
        assert!(error.to_string().starts_with(message), "{error}");
    }
}

#[test]
fn tool_with_the_name_of_a_pattern_is_meant_alone() {
    let mut tools = Vec::new();
    for name in ["a*", "ab", "mcp__a"] {
        tools.push(Tool::without_arguments(name, "Handles things"));
    }
    let catalog = Catalog::from_tools(tools).expect("the tools are valid");
    for name in ["a*", "mcp__a"] {
        let access = Access {
            exclude: set(&[name]),
            ..Access::default()
        };
        assert_eq!(ineligible(&catalog, &access), Some(vec![name.to_owned()]));
    }
}
