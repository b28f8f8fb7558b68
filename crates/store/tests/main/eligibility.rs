//! What may be seen is decided as by a local engine, whatever the policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picktools::access::Access;
use picktools::catalog::ThreatLevel;
use picktools::names::NameTable;
use picktools::{Catalog, CatalogOptions, Engine, PickOptions, Query, Tool};
use picktools_store::publish;
use picktools_testing::store::StoreServer;
use picktools_testing::tool;
use proptest::prelude::*;

use crate::support::{ids, pick, shared, store, wide};

const WORDS: [&str; 8] = [
    "read", "file", "mail", "send", "book", "room", "list", "branch",
];
const SOURCES: [&str; 6] = ["chat", "Chat", "mail", "files", "\u{441}hat", "CHAT "];

fn tools() -> impl Strategy<Value = Vec<Tool>> {
    let policy = (
        0..64_u8,
        prop::option::of(0..3_u8),
        prop::option::of(0..4_u8),
        any::<bool>(),
    );
    let one = (
        0..SOURCES.len(),
        prop::collection::vec(0..WORDS.len(), 1..5),
        policy,
    );
    prop::collection::vec(one, 60..90).prop_map(|tools| {
        let made = tools.into_iter().enumerate().map(
            |(number, (source, words, (bits, cost, level, untrusted)))| {
                let words: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
                let mut made = tool(
                    SOURCES[source],
                    &format!("{}_{}", words[0], number % 40),
                    &words.join(" "),
                );
                made.id = format!("{}#{number}", made.id);
                made.safe = (bits & 1 != 0).then_some(bits & 2 == 0);
                made.annotations.read_only_hint = (bits & 4 != 0).then_some(bits & 8 == 0);
                if bits & 16 != 0 {
                    made.allowed_roles =
                        BTreeSet::from([if bits & 32 != 0 { "admin" } else { "ops" }.to_owned()]);
                }
                made.cost = cost.map(f64::from);
                made.safety = level.map(|level| picktools::catalog::Safety {
                    threat_level: Some(
                        [
                            ThreatLevel::Low,
                            ThreatLevel::Medium,
                            ThreatLevel::High,
                            ThreatLevel::Critical,
                        ][usize::from(level)],
                    ),
                    required_approvals: Vec::new(),
                });
                made.untrusted = untrusted && bits & 1 != 0;
                made
            },
        );
        made.collect()
    })
}

/// Who asks; tools are named by their numbers.
type Asking = (u8, Vec<usize>, Vec<usize>, Vec<usize>, Option<u8>);

fn asking() -> impl Strategy<Value = Asking> {
    let sources = || prop::collection::vec(0..SOURCES.len(), 0..3);
    (
        any::<u8>(),
        sources(),
        sources(),
        prop::collection::vec(0..60_usize, 0..3),
        prop::option::of(0..3_u8),
    )
}

fn access((bits, allow, deny, tools, cost): &Asking, catalog: &Catalog) -> Access {
    let sources = |of: &[usize]| {
        of.iter()
            .map(|&source| SOURCES[source].to_owned())
            .collect()
    };
    let named: Vec<String> = tools
        .iter()
        .filter_map(|&tool| Some(catalog.tools().get(tool)?.id.clone()))
        .collect();
    let mut access = Access {
        allow_unsafe: bits & 1 != 0,
        execution_mode: (bits & 2 != 0).then(|| "read-only".to_owned()),
        max_threat_level: (bits & 4 != 0).then_some(ThreatLevel::Medium),
        max_cost: cost.map(f64::from),
        allow_sources: sources(allow),
        deny_sources: sources(deny),
        ..Access::default()
    };
    access
        .roles
        .extend((bits & 8 != 0).then(|| "admin".to_owned()));
    for (place, name) in named.into_iter().enumerate() {
        match place {
            0 => drop(access.exclude.insert(name)),
            1 => drop(access.quarantine.insert(name)),
            _ => drop(access.quotas.insert(name, 0)),
        }
    }
    access
}

/// A name in one writing.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|sign| sign.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[test]
fn the_store_decides_as_a_local_engine_does() {
    let server = StoreServer::with_search(&[]);
    let config = ProptestConfig {
        cases: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(tools in tools(), askings in prop::collection::vec(asking(), 6))| {
        server.ask(&["FLUSHALL"]);
        let options = CatalogOptions { conflicts: picktools::catalog::Conflicts::Warn, ..CatalogOptions::default() };
        let local = Engine::new(options.collect(tools).expect("what clashes is left out")).expect("it is indexed");
        publish(&local, &store(&server.url(), "acme"), &|_, _| {}).expect("it is published");
        let engine = shared(&server.url(), 0);
        let names = NameTable::new(local.catalog());
        for asking in askings {
            let access = access(&asking, local.catalog());
            let eligibility = access.decide(local.catalog(), &names).expect("all names are known");
            for request in ["read a file", "send the mail, then book a room", "list `branch_7`"] {
                let options = PickOptions { access: access.clone(), debug: true, ..wide() };
                let here = local.pick(&Query::new(request), &options).expect("it picks");
                let there = pick(&engine, request, &options);
                prop_assert_eq!(ids(&there), ids(&here), "{} {:?}", request, access);
                prop_assert_eq!(&there.ineligible.counts, &here.ineligible.counts, "{:?}", access);
                prop_assert_eq!(there.ineligible.total, here.ineligible.total);
                prop_assert_eq!(&there.unknown_values, &here.unknown_values);
                let known: BTreeMap<&str, bool> =
                    local.catalog().tools().iter().map(|tool| (tool.id.as_str(), eligibility.admits(local.catalog().find(&tool.id).expect("it is there")))).collect();
                // Nothing that may not be seen left the store, but for what was asked for by name.
                for considered in there.considered.iter().flatten() {
                    prop_assert!(known[considered.tool_id.as_str()], "{} was considered", considered.tool_id);
                }
                for ineligible in &there.ineligible.tools {
                    let (id, name) = (plain(&ineligible.tool_id), ineligible.tool_id.split(['/', '#']).nth(1).map(plain));
                    let qualified = ineligible.tool_id.split('#').next().map(plain);
                    let named = access.exclude.iter().chain(&access.quarantine).chain(access.quotas.keys());
                    let is_named = named.map(|name| plain(name)).any(|name| Some(&name) == qualified.as_ref() || name == id);
                    let is_mentioned = request.split([' ', '`']).map(plain).any(|word| Some(word) == name);
                    // What an untrusted candidate may copy comes along, so that the copy is known
                    // for one.
                    let catalog = local.catalog();
                    let words = |tool: &Tool| tool.description.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
                    let own = catalog.tool(catalog.find(&ineligible.tool_id).expect("it is there"));
                    let may_copy = |tool: &&Arc<Tool>| tool.untrusted && !words(tool).is_disjoint(&words(own));
                    let is_copied = !own.untrusted && catalog.tools().iter().any(|tool| may_copy(&tool));
                    prop_assert!(is_named || is_mentioned || is_copied, "{:?} left the store for {} {:?}", ineligible, request, access);
                }
            }
        }
    });
}

#[test]
fn hundreds_of_names_and_a_name_of_many_tools_are_decided_as_locally() {
    let mut tools: Vec<Tool> = (0..1_500)
        .map(|number| {
            tool(
                "works",
                &format!("tool_{number}"),
                &format!("Files the parcel w{number} in the archive"),
            )
        })
        .collect();
    for number in 0..20 {
        let source = format!("s{number}");
        tools.push(tool(&source, "get-item", "Fetches an item of the shop"));
        tools.push(tool(&source, "search_x", "Searches the shop for x"));
    }
    tools.push(tool(
        "post",
        "get_item",
        "Fetches the parcel from the depot",
    ));
    tools.push(tool("post", "Search-X", "Searches the depot for x"));
    // What a tool requires requires others.
    for (name, requires) in [
        ("alpha", "beta"),
        ("beta", "gamma"),
        ("gamma", "delta"),
        ("delta", "alpha"),
    ] {
        let mut made = tool(
            "chain",
            name,
            if name == "alpha" {
                "Zorks the frobnicator"
            } else {
                "Of no use by itself"
            },
        );
        made.requires = vec![format!("chain/{requires}")];
        tools.push(made);
    }
    let server = StoreServer::with_search(&[]);
    let local = Engine::new(Catalog::from_tools(tools).expect("a catalog")).expect("it is indexed");
    publish(&local, &store(&server.url(), "acme"), &|_, _| {}).expect("it is published");
    let shared = shared(&server.url(), 0);
    let names = |count: usize| {
        (0..count)
            .map(|number| format!("works/tool_{number}"))
            .collect::<BTreeSet<String>>()
    };
    let excluding = |exclude: BTreeSet<String>| Access {
        exclude,
        ..Access::default()
    };
    let quotas = |left: u64| {
        names(700)
            .into_iter()
            .map(|name| (name, left))
            .collect::<BTreeMap<String, u64>>()
    };
    let accesses = [
        excluding(names(400)),
        excluding(names(700)),
        excluding(names(1_400)),
        Access {
            quarantine: names(700),
            ..Access::default()
        },
        Access {
            quotas: quotas(0),
            ..Access::default()
        },
        Access {
            quotas: quotas(5),
            ..Access::default()
        },
        excluding(["get-item".to_owned()].into()),
        excluding(["post/Search-X".to_owned()].into()),
        excluding(["Search-X".to_owned()].into()),
    ];
    for (number, access) in accesses.into_iter().enumerate() {
        for request in [
            "file the parcel w1499",
            "fetch the parcel from the depot",
            "search for x",
            "zork the frobnicator",
        ] {
            let options = PickOptions {
                access: access.clone(),
                ..PickOptions::default()
            };
            let there = pick(&shared, request, &options);
            let here = local
                .pick(&Query::new(request), &options)
                .expect("it picks");
            assert_eq!(ids(&there), ids(&here), "{number}: {request}");
            assert_eq!(
                there.ineligible.counts, here.ineligible.counts,
                "{number}: {request}"
            );
            let required = |selection: &picktools::Selection| {
                selection
                    .required
                    .iter()
                    .map(|pick| pick.tool.id.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(required(&there), required(&here), "{number}: {request}");
            assert!(
                request != "zork the frobnicator" || required(&there).len() == 3,
                "{:?}",
                required(&there)
            );
        }
    }
}
