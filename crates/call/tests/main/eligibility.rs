//! Ineligible tools cannot be called.

use std::collections::{BTreeMap, BTreeSet};

use picktools::names::Advertising;
use picktools::{Access, PickOptions};
use picktools_call::{CallError, Hydrator};
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions, translate};
use picktools_testing::{WORKPLACE, pick, set};
use serde_json::json;

/// Checks that every ineligible tool is refused as a call, under all of its names and for the same
/// reasons. Returns the numbers of refused tools and names.
fn check_calls(access: &Access) -> (usize, usize) {
    let catalog = WORKPLACE.catalog();
    let hydrator =
        Hydrator::new(catalog.clone(), access).expect("the access names tools that there are");
    let translations = [Advertising::Canonical, Advertising::Expanded].map(|advertising| {
        let options = TranslateOptions {
            advertising,
            ..TranslateOptions::default()
        };
        translate(
            catalog.tools().expect("readable"),
            Provider::OpenAiChat,
            &options,
        )
        .expect("they can be shown")
    });
    let translations = translations.map(|translation| {
        let hydrator = Hydrator::new(catalog.clone(), access)
            .expect("as above")
            .translated(&translation);
        (translation, hydrator)
    });
    let (mut tools, mut names) = (0, 0);
    for tool in catalog.tools().expect("readable") {
        let options = PickOptions {
            access: access.clone(),
            ..PickOptions::default()
        };
        let selection = pick(&WORKPLACE, &format!("`{}`", tool.id), &options);
        let Some(refused) = selection
            .ineligible
            .tools
            .iter()
            .find(|ineligible| ineligible.tool_id == tool.id)
        else {
            continue;
        };
        let mut check = |hydrator: &Hydrator, name: &str| {
            let call = ToolCall {
                id: None,
                name: name.to_owned(),
                arguments: Arguments::Json(json!({})),
            };
            match hydrator.hydrate(&call).expect_err(name) {
                CallError::Ineligible { tool, reasons } => {
                    assert_eq!(
                        (tool, reasons),
                        (refused.tool_id.clone(), refused.reasons.clone()),
                        "{name}"
                    );
                }
                CallError::AmbiguousTool { .. } => {
                    assert_eq!(name, tool.name, "only a bare name may be shared");
                }
                other => panic!("{name}: {other}"),
            }
            names += 1;
        };
        check(&hydrator, &tool.id);
        check(&hydrator, &tool.name);
        check(&hydrator, &tool.qualified_name());
        tool.aliases
            .iter()
            .for_each(|alias| check(&hydrator, &alias.name));
        for (translation, hydrator) in &translations {
            translation
                .names
                .iter()
                .filter(|(_, id)| **id == tool.id)
                .for_each(|(name, _)| check(hydrator, name));
        }
        tools += 1;
    }
    (tools, names)
}

#[test]
fn ineligible_tools_are_refused_under_every_name() {
    let access = Access::default;
    for access in [
        access(),
        Access {
            roles: set(&["admin"]),
            allow_unsafe: true,
            ..access()
        },
        Access {
            execution_mode: Some("interactive".into()),
            ..access()
        },
        Access {
            execution_mode: Some("read-only".into()),
            allow_unsafe: true,
            ..access()
        },
        Access {
            capabilities: set(&["streaming"]),
            ..access()
        },
        Access {
            max_cost: Some(0.01),
            ..access()
        },
        Access {
            quotas: BTreeMap::from([("run_query".into(), 0)]),
            ..access()
        },
        Access {
            allow_sources: set(&["mail"]),
            ..access()
        },
        Access {
            deny_sources: set(&["mail", "terminal"]),
            ..access()
        },
        Access {
            exclude: set(&["bash", "create_issue"]),
            ..access()
        },
        Access {
            quarantine: set(&["terminal/terminalRun"]),
            allow_unsafe: true,
            ..access()
        },
    ] {
        let (tools, names) = check_calls(&access);
        assert!(
            tools > 0 && names >= 5 * tools,
            "{access:?}: {tools} tools under {names} names"
        );
    }
    let everything = Access {
        allow_unsafe: true,
        roles: all_roles(),
        ..access()
    };
    assert_eq!(
        check_calls(&everything),
        (0, 0),
        "a caller that may see all tools may call all tools"
    );
}

#[test]
fn unknown_name_suggests_no_ineligible_tool() {
    let hydrator = |access: &Access| {
        Hydrator::new(WORKPLACE.catalog().clone(), access).expect("it names no tool")
    };
    let call = ToolCall {
        id: None,
        name: "delete_fil".to_owned(),
        arguments: Arguments::Json(json!({})),
    };
    let suggested = |access: Access| match hydrator(&access).hydrate(&call) {
        Err(CallError::UnknownTool { suggestions, .. }) => suggestions,
        other => panic!("{other:?}"),
    };
    assert!(
        suggested(Access {
            allow_unsafe: true,
            ..Access::default()
        })
        .contains(&"delete_file".to_owned())
    );
    assert!(!suggested(Access::default()).contains(&"delete_file".to_owned()));
}

/// Returns every role that a tool requires.
fn all_roles() -> BTreeSet<String> {
    WORKPLACE
        .catalog()
        .tools()
        .expect("readable")
        .iter()
        .flat_map(|tool| tool.allowed_roles.clone())
        .collect()
}
