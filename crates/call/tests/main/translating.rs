//! Resolution of shown names.

use std::sync::Arc;

use picktools::Catalog;
use picktools::catalog::Alias;
use picktools::names::Advertising;
use picktools_call::CallError;
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, translate};
use picktools_testing::{catalog, fixture, tool};
use serde_json::json;

use crate::support::{hydrator_of, ready};

#[test]
fn names_in_the_prompt_section_resolve_to_their_tools() {
    let strategies = [
        Advertising::Canonical,
        Advertising::PrimaryAlias,
        Advertising::Expanded,
        Advertising::Described,
    ];
    let mut tools = Catalog::open(fixture("catalogs/terminal"))
        .expect("the fixture catalog is valid")
        .tools()
        .expect("readable")
        .to_vec();
    // One name in two sources, a name that providers do not accept, and an alias equal to its
    // replacement.
    let mut odd = tool("far away", "terminal/Run", "Runs far away");
    odd.aliases = ["far run", "far_run"]
        .map(|name| Alias {
            name: name.to_owned(),
            deprecated: false,
        })
        .into();
    tools.extend([odd, tool("far", "terminalCd", "Goes far")].map(Arc::new));
    let catalog = catalog(tools.iter().map(|tool| tool.as_ref().clone()));
    for (provider, advertising) in Provider::ALL
        .into_iter()
        .flat_map(|it| strategies.clone().map(|how| (it, how)))
    {
        let options = TranslateOptions {
            advertising,
            ..TranslateOptions::default()
        };
        let translation = translate(catalog.tools().expect("readable"), provider, &options)
            .expect("it can be translated");
        let section = translation.tools_section(catalog.tools().expect("readable"));
        let hydrator = hydrator_of(catalog.clone()).translated(&translation);
        let mut listed = 0;
        for (line, tool) in section
            .lines()
            .filter_map(|line| line.strip_prefix("- "))
            .zip(catalog.tools().expect("readable"))
        {
            let (names, _) = line.split_once(": ").expect("there is a description");
            let names = match names.strip_suffix(" (aliases") {
                Some(_) => line.split_once("): ").expect("there is a description").0,
                None => names,
            };
            let (name, aliases) = names.split_once(" (aliases: ").unwrap_or((names, ""));
            assert_eq!(
                translation.names.get(name),
                Some(&tool.id),
                "{provider}: {section}"
            );
            listed += 1;
            for name in aliases
                .trim_end_matches(')')
                .split(", ")
                .chain([name])
                .filter(|name| !name.is_empty())
            {
                let call = ToolCall {
                    id: None,
                    name: name.to_owned(),
                    arguments: Arguments::Json(json!({})),
                };
                let resolved = match hydrator.hydrate(&call) {
                    Ok(hydrated) => ready(Ok(hydrated)).tool().id.clone(),
                    Err(CallError::Invalid { tool, .. }) => tool,
                    Err(other) => panic!("{provider}: {name}: {other}"),
                };
                assert_eq!(resolved, tool.id, "{provider}: {name} in {section}");
            }
        }
        assert_eq!(listed, catalog.len(), "{provider}: {section}");
        assert!(
            translation
                .names
                .keys()
                .all(|name| section.contains(name.as_str())),
            "{provider}: {section}"
        );
    }
}
