//! Eligibility: ineligible tools are hidden on every path, and the reasons are reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picktools::access::MAX_LISTED_INELIGIBLE;
use picktools::options::Fusion;
use picktools::scorer::{Score, ScoreFuture, Scorer};
use picktools::{Access, Mode, PickOptions, Query, Tool};
use serde_json::{Value, json};

use crate::support::{
    WORKPLACE, catalog, engine, fixture, ids, pick, public_ids, scored_by, set, tool,
};

/// A scorer that gives every tool the best score and records the tools it receives.
#[derive(Default)]
struct RecordingScorer(Mutex<Vec<String>>);

impl Scorer for RecordingScorer {
    fn name(&self) -> &str {
        "witness"
    }

    fn score<'a>(&'a self, _: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        self.0
            .lock()
            .expect("nobody panicked")
            .extend(tools.iter().map(|tool| tool.id.clone()));
        Box::pin(async move { Ok(vec![Score::new(1.0); tools.len()]) })
    }
}

/// Checks that no path reaches `tool`, which is ineligible for the reason `code`.
fn check_ineligible(tool: &str, code: &str, options: &PickOptions) {
    let name = tool.rsplit('/').next().expect("it has a name");
    let witness = Arc::new(RecordingScorer::default());
    let scored = scored_by(Arc::clone(&witness) as Arc<dyn Scorer>);
    let base = PickOptions {
        max_candidates: 1_000,
        min_score: 0.0,
        debug: true,
        ..options.clone()
    };
    for (path, engine, options) in [
        ("hybrid", &*WORKPLACE, base.clone()),
        (
            "keyword",
            &WORKPLACE,
            PickOptions {
                mode: Some(Mode::Keyword),
                ..base.clone()
            },
        ),
        (
            "always_include",
            &WORKPLACE,
            PickOptions {
                always_include: vec![tool.to_owned()],
                ..base.clone()
            },
        ),
        (
            "rrf",
            &WORKPLACE,
            PickOptions {
                fusion: Fusion::Rrf { k: 60 },
                ..base.clone()
            },
        ),
        (
            "max_per_source",
            &WORKPLACE,
            PickOptions {
                max_per_source: Some(50),
                ..base.clone()
            },
        ),
        ("scorer", &scored, base.clone()),
        (
            "no time",
            &WORKPLACE,
            PickOptions {
                timeout: Some(Duration::ZERO),
                ..base.clone()
            },
        ),
    ] {
        let selection = pick(
            engine,
            &format!("use `{tool}`, or any other {name}"),
            &options,
        );
        assert!(
            !ids(&selection).contains(&tool),
            "{tool} was picked by {path}"
        );
        let considered = selection.considered.as_ref().expect("debug is on");
        assert!(
            considered
                .iter()
                .all(|considered| considered.tool_id != tool),
            "{tool} was considered by {path}"
        );
        let report = selection
            .ineligible
            .tools
            .iter()
            .find(|ineligible| ineligible.tool_id == tool);
        let report =
            report.unwrap_or_else(|| panic!("{tool} is named, and not reported by {path}"));
        assert!(
            report.reasons.iter().any(|reason| reason.code() == code),
            "{path}: {:?}",
            report.reasons
        );
        assert!(report.named.is_some(), "{path}");
        assert!(selection.ineligible.counts[code] > 0, "{path}");
    }
    assert!(!witness.0.lock().expect("nobody panicked").is_empty());
    assert!(
        !witness
            .0
            .lock()
            .expect("nobody panicked")
            .iter()
            .any(|seen| seen == tool),
        "{tool} was shown to a scorer"
    );
}

#[test]
fn ineligible_tool_on_every_path_stays_hidden() {
    let options = PickOptions::default;
    check_ineligible("files/delete_file", "unsafe", &options());
    check_ineligible("browser/browser_clear_data", "unsafe", &options());
    check_ineligible("forge/merge_pull_request", "role", &options());
    check_ineligible(
        "forge/merge_pull_request",
        "role",
        &PickOptions {
            access: Access {
                roles: set(&["admin"]),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "files/compress_folder",
        "execution_mode",
        &PickOptions {
            access: Access {
                execution_mode: Some("interactive".into()),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "forge/create_issue",
        "not_read_only",
        &PickOptions {
            access: Access {
                execution_mode: Some("read-only".into()),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "files/search_files",
        "capability",
        &PickOptions {
            access: Access {
                capabilities: set(&["streaming"]),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "warehouse/run_query",
        "cost",
        &PickOptions {
            access: Access {
                max_cost: Some(0.01),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "warehouse/run_query",
        "quota",
        &PickOptions {
            access: Access {
                quotas: BTreeMap::from([("run_query".into(), 0)]),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "terminal/terminalRun",
        "quarantine",
        &PickOptions {
            access: Access {
                quarantine: set(&["bash"]),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "mail/send_email",
        "source",
        &PickOptions {
            access: Access {
                deny_sources: set(&["mail"]),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "chat/post_message",
        "source",
        &PickOptions {
            access: Access {
                allow_sources: set(&["mail"]),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "forge/search_code",
        "excluded",
        &PickOptions {
            access: Access {
                exclude: ["search_code".into()].into(),
                ..Access::default()
            },
            ..options()
        },
    );
    check_ineligible(
        "forge/create_issue",
        "excluded",
        &PickOptions {
            access: Access {
                exclude: ["create_issue".into()].into(),
                ..Access::default()
            },
            ..options()
        },
    );
}

#[test]
fn granted_tool_is_eligible() {
    let options = PickOptions::default;
    for (tool, options) in [
        (
            "files/delete_file",
            PickOptions {
                access: Access {
                    allow_unsafe: true,
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "forge/merge_pull_request",
            PickOptions {
                access: Access {
                    roles: set(&["maintainer"]),
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "forge/delete_repository",
            PickOptions {
                access: Access {
                    allow_unsafe: true,
                    roles: set(&["admin", "other"]),
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "files/compress_folder",
            PickOptions {
                access: Access {
                    execution_mode: Some("batch".into()),
                    ..Access::default()
                },
                ..options()
            },
        ),
        ("files/compress_folder", options()),
        (
            "files/search_files",
            PickOptions {
                access: Access {
                    execution_mode: Some("batch".into()),
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "terminal/terminalRun",
            PickOptions {
                access: Access {
                    capabilities: set(&["streaming"]),
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "warehouse/run_query",
            PickOptions {
                access: Access {
                    max_cost: Some(0.05),
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "files/search_files",
            PickOptions {
                access: Access {
                    max_cost: Some(0.0),
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "warehouse/run_query",
            PickOptions {
                access: Access {
                    quotas: BTreeMap::from([("run_query".into(), 1)]),
                    ..Access::default()
                },
                ..options()
            },
        ),
        (
            "mail/send_email",
            PickOptions {
                access: Access {
                    allow_sources: set(&["mail"]),
                    ..Access::default()
                },
                ..options()
            },
        ),
    ] {
        assert!(
            ids(&pick(&WORKPLACE, &format!("`{tool}`"), &options)).contains(&tool),
            "{tool}"
        );
    }
}

#[test]
fn ineligible_tools_are_all_counted_and_partly_listed() {
    let raw = std::fs::read_to_string(fixture("catalogs/workplace/tools.jsonl"))
        .expect("the fixture is there");
    let entries: Vec<Value> = raw
        .lines()
        .map(|line| serde_json::from_str(line).expect("the fixture is JSON"))
        .collect();
    let streams = |entry: &Value| {
        entry["capabilities"]
            .as_array()
            .is_some_and(|items| items.contains(&json!("streaming")))
    };
    let cannot = entries.iter().filter(|entry| !streams(entry)).count();
    assert!(
        cannot > MAX_LISTED_INELIGIBLE,
        "the fixture has enough tools"
    );
    let options = PickOptions {
        access: Access {
            capabilities: set(&["streaming"]),
            allow_unsafe: true,
            ..Access::default()
        },
        ..PickOptions::default()
    };
    let selection = pick(&WORKPLACE, "show the log", &options);
    assert_eq!(selection.ineligible.counts["capability"], cannot);
    assert_eq!(selection.ineligible.tools.len(), MAX_LISTED_INELIGIBLE);
    let eligible = entries
        .iter()
        .filter(|entry| streams(entry) && entry["allowed_roles"].is_null())
        .count();
    assert_eq!(selection.ineligible.total, entries.len() - eligible);
    let of_all = pick(&WORKPLACE, "show the log", &PickOptions::default());
    assert_eq!(
        of_all.ineligible.total,
        entries.len() - public_ids(WORKPLACE.catalog()).len()
    );
    assert_eq!(
        of_all.ineligible.tools.len(),
        of_all.ineligible.total,
        "a short list is whole"
    );
}

#[test]
fn ineligible_list_with_many_mentions_is_bounded() {
    let tools = (0..200).map(|i| Tool {
        allowed_roles: set(&["other"]),
        ..tool("s", &format!("tool_{i}"), "")
    });
    let engine = engine(catalog(tools));
    let query = (60..180).map(|i| format!("tool_{i} ")).collect::<String>();
    let selection = pick(&engine, &query, &PickOptions::default());
    assert_eq!(selection.ineligible.counts["role"], 200);
    assert_eq!(
        selection.ineligible.tools[0].named.as_deref(),
        Some("tool_60"),
        "the named ones come first"
    );
    assert!(
        selection.ineligible.tools.len() <= MAX_LISTED_INELIGIBLE,
        "{} are listed",
        selection.ineligible.tools.len()
    );
}

#[test]
fn role_with_few_tools_gets_its_best() {
    let visible = |i: usize| i % 200 == 77;
    let tools = (0..2_000).map(|i| {
        let description = match i {
            277 => "Export the quarterly sales report",
            1077 => "Export a quarterly report",
            1477 => "Plot last week's sales",
            _ if visible(i) => "Order new stationery",
            _ => "Export the quarterly sales report as a spreadsheet",
        };
        let roles = set(&[if visible(i) { "auditor" } else { "clerk" }]);
        Tool {
            allowed_roles: roles,
            ..tool("office", &format!("task-{i}"), description)
        }
    });
    let engine = engine(catalog(tools));
    let options = PickOptions {
        min_score: 0.0,
        access: Access {
            roles: set(&["auditor"]),
            ..Access::default()
        },
        ..PickOptions::default()
    };
    let selection = pick(&engine, "export the quarterly sales report", &options);
    assert_eq!(
        ids(&selection),
        ["office/task-277", "office/task-1077", "office/task-1477"]
    );
    assert_eq!(
        selection.ineligible.counts,
        BTreeMap::from([("role", 1_990)])
    );
    let rank = |index: usize| {
        selection.picks[index]
            .provenance
            .keyword
            .as_ref()
            .and_then(|keyword| keyword.rank)
    };
    assert_eq!(
        [rank(0), rank(1), rank(2)],
        [Some(1), Some(2), Some(3)],
        "ranks count eligible tools only"
    );
}
