//! Property test: a tool that is ineligible for a caller does not run under any name.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};

use picktools::catalog::{Alias, Safety, ThreatLevel};
use picktools::names::Advertising;
use picktools::{Access, Catalog, CatalogOptions, Engine, PickOptions, Query, Tool};
use picktools_call::PendingCall;
use picktools_provider::{Arguments, Provider, ToolCall, TranslateOptions};
use picktools_runtime::{
    ConfirmationDecision, FunctionTool, RunnableTool, ToolManager, ToolResult,
};
use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("it can be started"));

fn words() -> impl Strategy<Value = BTreeSet<String>> {
    btree_set(
        prop::sample::select(vec!["admin", "finance", "chat", "batch"]).prop_map(str::to_owned),
        0..3,
    )
}

fn level() -> impl Strategy<Value = Option<ThreatLevel>> {
    of(prop::sample::select(vec![
        ThreatLevel::Low,
        ThreatLevel::Medium,
        ThreatLevel::High,
        ThreatLevel::Critical,
    ]))
}

fn source() -> impl Strategy<Value = Option<String>> {
    of(prop::sample::select(vec!["alpha", "beta", "Alpha"]).prop_map(str::to_owned))
}

/// Generates tools with few different names, so that names and aliases conflict.
fn tool() -> impl Strategy<Value = Tool> {
    let names = prop::sample::select(vec![
        "read_file",
        "readFile",
        "send-mail",
        "wipe",
        "run",
        "pay",
    ]);
    let policy = (
        of(any::<bool>()),
        words(),
        words(),
        words(),
        level(),
        of(0.0..3.0_f64),
    );
    (names.clone(), vec(names, 0..2), source(), policy).prop_map(
        |(name, aliases, source, policy)| {
            let mut tool = Tool::without_arguments(name, "Does what its name says");
            let (safe, roles, modes, capabilities, threat_level, cost) = policy;
            tool.aliases = aliases
                .into_iter()
                .map(|name| Alias {
                    name: name.to_owned(),
                    deprecated: false,
                })
                .collect();
            tool.source = source;
            tool.id = tool.qualified_name();
            (tool.safe, tool.allowed_roles, tool.modes, tool.capabilities) =
                (safe, roles, modes, capabilities);
            tool.safety = threat_level.map(|level| Safety {
                threat_level: Some(level),
                required_approvals: Vec::new(),
            });
            tool.cost = cost;
            tool
        },
    )
}

fn access() -> impl Strategy<Value = Access> {
    let one = || of(prop::sample::select(vec!["chat", "batch"]).prop_map(str::to_owned));
    let sources = || {
        btree_set(
            prop::sample::select(vec!["alpha", "beta"]).prop_map(str::to_owned),
            0..2,
        )
    };
    let first = (
        any::<bool>(),
        words(),
        one(),
        btree_set(Just("admin".to_owned()), 0..1),
        level(),
    );
    (first, of(0.0..3.0_f64), sources(), sources()).prop_map(
        |(first, max_cost, allow_sources, deny_sources)| {
            let (allow_unsafe, roles, execution_mode, capabilities, max_threat_level) = first;
            Access {
                allow_unsafe,
                roles,
                execution_mode,
                capabilities,
                max_cost,
                max_threat_level,
                allow_sources,
                deny_sources,
                ..Access::default()
            }
        },
    )
}

/// Calls every name of every tool, and returns the ids of the tools that ran.
fn ran(catalog: &Catalog, access: &Access, translated: bool) -> BTreeSet<String> {
    let ran = Arc::new(Mutex::new(BTreeSet::new()));
    let runners = catalog.tools().expect("readable").iter().map(|tool| {
        let (id, ran) = (tool.id.clone(), Arc::clone(&ran));
        let runs = FunctionTool::new(
            Tool::without_arguments("run", "Notes that it ran"),
            move |_, _| {
                ran.lock().expect("nobody panicked").insert(id.clone());
                async { ToolResult::success() }
            },
        );
        (tool.id.clone(), Arc::new(runs) as Arc<dyn RunnableTool>)
    });
    let builder =
        ToolManager::builder(access.clone()).catalog(catalog.clone(), runners.collect::<Vec<_>>());
    let mut manager = builder
        .confirm(|_: &PendingCall| ConfirmationDecision::Allow)
        .build()
        .expect("it is valid");
    let mut names: BTreeSet<String> = BTreeSet::new();
    for tool in catalog.tools().expect("readable") {
        names.extend([
            tool.id.clone(),
            tool.name.clone(),
            tool.qualified_name(),
            tool.name.to_uppercase(),
        ]);
        names.extend(tool.aliases.iter().map(|alias| alias.name.clone()));
        names.insert(tool.name.replace(['_', '-'], ""));
    }
    if translated {
        // As if the model had been shown every tool.
        let options = TranslateOptions {
            advertising: Advertising::Expanded,
            ..TranslateOptions::default()
        };
        if let Ok(translation) = picktools_provider::translate(
            catalog.tools().expect("readable"),
            Provider::Anthropic,
            &options,
        ) {
            names.extend(translation.names.keys().cloned());
            manager = manager.translated(&translation);
        }
    }
    let call = |name: String| ToolCall {
        id: None,
        name,
        arguments: Arguments::Json(json!({})),
    };
    let calls: Vec<ToolCall> = names.into_iter().map(call).collect();
    for executed in RUNTIME.block_on(manager.execute_all(&calls)) {
        assert_eq!(
            executed.result.is_success(),
            executed.result.error().is_empty()
        );
    }
    ran.lock().expect("nobody panicked").clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn nothing_runs_that_a_pick_calls_ineligible(
        tools in vec(tool(), 1..7), untrusted in btree_set(Just("beta".to_owned()), 0..2), access in access(),
        translated in any::<bool>(),
    ) {
        let options = CatalogOptions {
            conflicts: picktools::catalog::Conflicts::Warn,
            untrusted_sources: untrusted,
            ..CatalogOptions::default()
        };
        let Ok(catalog) = options.collect(tools) else { return Ok(()) };
        let engine = Engine::builder(catalog.clone()).build().expect("it can be indexed");
        let picks = PickOptions { access: access.clone(), ..PickOptions::default() };
        let selection = engine.pick(&Query::new("read, send, wipe, run and pay"), &picks).expect("it can be picked");
        let ineligible: BTreeSet<String> =
            selection.ineligible.tools.iter().map(|tool| tool.tool_id.clone()).collect();
        let ran = ran(&catalog, &access, translated);
        prop_assert!(ran.is_disjoint(&ineligible), "{:?} ran of {:?}", ran, ineligible);
        // Eligible tools run at least by their id, so the test can fail.
        if !translated {
            let all = catalog.tools().expect("readable").iter().map(|tool| tool.id.clone());
            let eligible: BTreeSet<String> = all.filter(|id| !ineligible.contains(id)).collect();
            prop_assert_eq!(ran, eligible);
        }
    }
}
