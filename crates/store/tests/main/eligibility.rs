//! Access decisions of the store equal those of a local engine.

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
        let tools = tools.into_iter().enumerate().map(
            |(number, (source, words, (bits, cost, level, untrusted)))| {
                let words: Vec<&str> = words.into_iter().map(|word| WORDS[word]).collect();
                let mut generated = tool(
                    SOURCES[source],
                    &format!("{}_{}", words[0], number % 40),
                    &words.join(" "),
                );
                generated.id = format!("{}#{number}", generated.id);
                generated.safe = (bits & 1 != 0).then_some(bits & 2 == 0);
                generated.annotations.read_only_hint = (bits & 4 != 0).then_some(bits & 8 == 0);
                if bits & 16 != 0 {
                    generated.allowed_roles =
                        BTreeSet::from([if bits & 32 != 0 { "admin" } else { "ops" }.to_owned()]);
                }
                generated.cost = cost.map(f64::from);
                generated.safety = level.map(|level| picktools::catalog::Safety {
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
                generated.untrusted = untrusted && bits & 1 != 0;
                generated
            },
        );
        tools.collect()
    })
}

/// The caller's access; tools are named by their numbers.
type CallerParts = (u8, Vec<usize>, Vec<usize>, Vec<usize>, Option<u8>);

fn callers() -> impl Strategy<Value = CallerParts> {
    let sources = || prop::collection::vec(0..SOURCES.len(), 0..3);
    (
        any::<u8>(),
        sources(),
        sources(),
        prop::collection::vec(0..60_usize, 0..3),
        prop::option::of(0..3_u8),
    )
}

fn access((bits, allow, deny, tools, cost): &CallerParts, catalog: &Catalog) -> Access {
    let sources = |numbers: &[usize]| {
        numbers
            .iter()
            .map(|&source| SOURCES[source].to_owned())
            .collect()
    };
    let names: Vec<String> = tools
        .iter()
        .filter_map(|&tool| Some(catalog.tools().expect("readable").get(tool)?.id.clone()))
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
    for (number, name) in names.into_iter().enumerate() {
        match number {
            0 => drop(access.exclude.insert(name)),
            1 => drop(access.quarantine.insert(name)),
            _ => drop(access.quotas.insert(name, 0)),
        }
    }
    access
}

/// Returns a name in lower case, with letters and digits only.
fn plain_name(name: &str) -> String {
    name.chars()
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[test]
fn store_decides_access_like_a_local_engine() {
    let server = StoreServer::with_search(&[]);
    let config = ProptestConfig {
        cases: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(tools in tools(), callers in prop::collection::vec(callers(), 6))| {
        server.ask(&["FLUSHALL"]);
        let options = CatalogOptions {
            conflicts: picktools::catalog::Conflicts::Warn,
            ..CatalogOptions::default()
        };
        let catalog = options.collect(tools).expect("conflicting names are omitted");
        let local = Engine::new(catalog).expect("it is indexed");
        publish(&local, &store(&server.url(), "acme"), &|_, _| {}).expect("it is published");
        let engine = shared(&server.url(), 0);
        let names = NameTable::new(local.catalog()).expect("readable");
        for caller in callers {
            let access = access(&caller, local.catalog());
            let eligibility = access.decide(local.catalog(), &names).expect("all names are known");
            for request in ["read a file", "send the mail, then book a room", "list `branch_7`"] {
                let options = PickOptions { access: access.clone(), debug: true, ..wide() };
                let local_selection = local.pick(&Query::new(request), &options).expect("it picks");
                let remote_selection = pick(&engine, request, &options);
                prop_assert_eq!(ids(&remote_selection), ids(&local_selection), "{} {:?}", request, access);
                prop_assert_eq!(&remote_selection.ineligible.counts, &local_selection.ineligible.counts, "{:?}", access);
                prop_assert_eq!(remote_selection.ineligible.total, local_selection.ineligible.total);
                prop_assert_eq!(&remote_selection.unknown_values, &local_selection.unknown_values);
                let catalog = local.catalog();
                let mut eligible: BTreeMap<&str, bool> = BTreeMap::new();
                for tool in catalog.tools().expect("readable") {
                    let id = catalog.find(&tool.id).expect("it exists");
                    eligible.insert(tool.id.as_str(), eligibility.admits(id));
                }
                // The store returns ineligible tools only if they were requested by name.
                for considered in remote_selection.considered.iter().flatten() {
                    let id = considered.tool_id.as_str();
                    prop_assert!(eligible[id], "{} was considered", id);
                }
                for ineligible in &remote_selection.ineligible.tools {
                    let id = &ineligible.tool_id;
                    let plain_id = plain_name(id);
                    let name = id.split(['/', '#']).nth(1).map(plain_name);
                    let qualified = id.split('#').next().map(plain_name);
                    let names = access
                        .exclude
                        .iter()
                        .chain(&access.quarantine)
                        .chain(access.quotas.keys());
                    let is_named = names
                        .map(|name| plain_name(name))
                        .any(|name| Some(&name) == qualified.as_ref() || name == plain_id);
                    let mut request_words = request.split([' ', '`']).map(plain_name);
                    let is_mentioned = request_words.any(|word| Some(word) == name);
                    // The originals of untrusted duplicates are returned too.
                    let words = |tool: &Tool| {
                        let words = tool.description.split(' ').map(str::to_owned);
                        words.collect::<BTreeSet<_>>()
                    };
                    let original = catalog.tool(catalog.find(id).expect("it exists")).expect("readable");
                    let may_duplicate = |tool: &Arc<Tool>| {
                        tool.untrusted && !words(tool).is_disjoint(&words(original))
                    };
                    let is_original =
                        !original.untrusted && catalog.tools().expect("readable").iter().any(may_duplicate);
                    prop_assert!(
                        is_named || is_mentioned || is_original,
                        "{:?} was returned for {} {:?}",
                        ineligible,
                        request,
                        access
                    );
                }
            }
        }
    });
}

#[test]
fn many_names_and_ambiguous_names_are_decided_like_locally() {
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
    // A chain of required tools.
    for (name, requires) in [
        ("alpha", "beta"),
        ("beta", "gamma"),
        ("gamma", "delta"),
        ("delta", "alpha"),
    ] {
        let mut link = tool(
            "chain",
            name,
            if name == "alpha" {
                "Zorks the frobnicator"
            } else {
                "Of no use by itself"
            },
        );
        link.requires = vec![format!("chain/{requires}")];
        tools.push(link);
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
    let quotas = |quota: u64| {
        names(700)
            .into_iter()
            .map(|name| (name, quota))
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
            let remote_selection = pick(&shared, request, &options);
            let local_selection = local
                .pick(&Query::new(request), &options)
                .expect("it picks");
            assert_eq!(
                ids(&remote_selection),
                ids(&local_selection),
                "{number}: {request}"
            );
            assert_eq!(
                remote_selection.ineligible.counts, local_selection.ineligible.counts,
                "{number}: {request}"
            );
            let required = |selection: &picktools::Selection| {
                selection
                    .required
                    .iter()
                    .map(|pick| pick.tool.id.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                required(&remote_selection),
                required(&local_selection),
                "{number}: {request}"
            );
            assert!(
                request != "zork the frobnicator" || required(&remote_selection).len() == 3,
                "{:?}",
                required(&remote_selection)
            );
        }
    }
}
