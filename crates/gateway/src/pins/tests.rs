//! Tests of gateways that share pins.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use picktools_import::mcp::{Server, ServerTransport, ToolFilter};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::digests::{digest, endpoint_digest, pinned_members};
use super::file::{HoldReason, MAX_SCOPES, PinsFile, SeenDefinition, SeenDigest};
use super::{DefinitionFindings, ServerListing};
use crate::settings::{NewTools, Settings, Trust};

const TOOLS: [&str; 3] = ["read", "write", "grown"];

fn definition(tool: &str, text: u8) -> Value {
    json!({"name": tool, "description": format!("text {text}"), "inputSchema": {"type": "object"}})
}

/// A simulated gateway: its endpoint for the server `up`, that server's listing, and the
/// definitions that the gateway saw last.
#[derive(Clone)]
struct TestGateway {
    command: &'static str,
    scope: &'static str,
    trusted: bool,
    /// The version of each tool's description.
    texts: BTreeMap<&'static str, u8>,
    seen: HashMap<String, SeenDigest>,
}

impl TestGateway {
    fn new(command: &'static str) -> Self {
        let texts = [("read", 0), ("write", 0)].into();
        Self {
            command,
            scope: "a.json",
            trusted: false,
            texts,
            seen: HashMap::new(),
        }
    }

    fn server(&self) -> Server {
        let command = self.command.to_owned();
        let transport = ServerTransport::Stdio {
            command,
            arguments: Vec::new(),
            variables: BTreeMap::new(),
            folder: None,
            inherit: Vec::new(),
        };
        Server {
            name: "up".to_owned(),
            transport,
            tools: ToolFilter::default(),
            call_timeout: None,
            scope: None,
        }
    }

    /// Reviews the server's listing, and returns the tools that may be called, each with its
    /// version.
    fn list_callable(
        &mut self,
        file: &mut PinsFile,
        new_tools: NewTools,
    ) -> BTreeMap<&'static str, u8> {
        let (server, mut rules) = (self.server(), Settings::default().upstream("up"));
        (rules.trusted, rules.new_tools) = (self.trusted, new_tools);
        let tools: Vec<Value> = self
            .texts
            .iter()
            .map(|(tool, text)| definition(tool, *text))
            .collect();
        let listing = ServerListing {
            server: &server,
            scope: self.scope.to_owned(),
            rules,
            tools: &tools,
            instructions: None,
        };
        let (reviewed, seen_now) = file
            .review(
                &[listing],
                Trust::FirstUse,
                &|_, _| DefinitionFindings::default(),
                &self.seen,
            )
            .swap_remove(0);
        self.seen.extend(seen_now);
        let is_listed =
            |tool: &str, text: u8| reviewed.definitions.contains(&definition(tool, text));
        let callable = self
            .texts
            .iter()
            .filter(|(tool, _)| !reviewed.quarantined.contains(**tool));
        callable
            .map(|(tool, text)| (*tool, *text))
            .inspect(|(tool, text)| assert!(is_listed(tool, *text)))
            .collect()
    }
}

/// Decides about the quarantined definition of a tool, as an operator would.
fn decide(file: &mut PinsFile, id: &str, approve: bool) -> Option<SeenDefinition> {
    let quarantined = file.quarantined.get(id)?;
    let decided = quarantined.seen_definition();
    let version = quarantined.version();
    if approve {
        file.approve(id, &version)
    } else {
        file.deny(id, &version)
    }
    .expect("it is what is shown");
    Some(decided)
}

#[test]
fn same_name_in_another_configuration_is_another_server() {
    let mut file = PinsFile::default();
    let mut first = TestGateway::new("one");
    assert_eq!(first.list_callable(&mut file, NewTools::Hold).len(), 2);
    let mut second = TestGateway::new("two");
    second.scope = "b.json";
    for _ in 0..3 {
        let callable = second.list_callable(&mut file, NewTools::Hold);
        assert_eq!(callable.len(), 2, "the first use in this configuration");
        assert_eq!(first.list_callable(&mut file, NewTools::Hold).len(), 2);
    }
    // Another command in the same configuration has moved, even if another one uses a third.
    second.command = "three";
    for new_tools in [NewTools::Hold, NewTools::Approve] {
        assert!(second.list_callable(&mut file, new_tools).is_empty());
    }
    assert!(
        file.quarantined
            .values()
            .all(|held| held.reason == HoldReason::Moved)
    );
    // The command of another configuration is known with its definitions.
    let mut third = TestGateway::new("one");
    third.scope = "c.json";
    third.texts.insert("read", 1);
    let callable = third.list_callable(&mut file, NewTools::Hold);
    assert_eq!(callable.into_keys().collect::<Vec<_>>(), ["write"]);
}

#[test]
fn approved_move_is_complete_once_nothing_waits() {
    let mut file = PinsFile::default();
    let mut gateway = TestGateway::new("one");
    gateway.list_callable(&mut file, NewTools::Approve);
    gateway.command = "other";
    assert!(
        gateway
            .list_callable(&mut file, NewTools::Approve)
            .is_empty()
    );
    for id in ["up/read", "up/write"] {
        decide(&mut file, id, true).expect("it is quarantined");
    }
    assert_eq!(gateway.list_callable(&mut file, NewTools::Approve).len(), 2);
    gateway.texts.insert("grown", 0);
    let callable = gateway.list_callable(&mut file, NewTools::Approve);
    assert_eq!(
        callable.len(),
        3,
        "later tools are treated as before the move"
    );
}

#[test]
fn held_endpoint_is_not_approved_by_its_first_use_elsewhere() {
    let mut file = PinsFile::default();
    let mut first = TestGateway::new("one");
    first.list_callable(&mut file, NewTools::Hold);
    first.command = "other";
    assert!(first.list_callable(&mut file, NewTools::Hold).is_empty());
    let mut second = TestGateway::new("other");
    second.scope = "b.json";
    for _ in 0..3 {
        assert!(second.list_callable(&mut file, NewTools::Hold).is_empty());
        assert!(first.list_callable(&mut file, NewTools::Hold).is_empty());
    }
}

#[test]
fn partial_listing_does_not_end_a_move() {
    let mut file = PinsFile::default();
    let mut gateway = TestGateway::new("one");
    gateway.list_callable(&mut file, NewTools::Approve);
    gateway.command = "other";
    gateway.list_callable(&mut file, NewTools::Approve);
    decide(&mut file, "up/read", true).expect("it is quarantined");
    gateway.texts.remove("write");
    assert_eq!(gateway.list_callable(&mut file, NewTools::Approve).len(), 1);
    gateway.texts.insert("write", 0);
    let callable = gateway.list_callable(&mut file, NewTools::Approve);
    assert_eq!(callable.into_keys().collect::<Vec<_>>(), ["read"]);
}

#[test]
fn two_endpoints_of_one_scope_do_not_change_the_file_forever() {
    let mut file = PinsFile::default();
    let mut gateways = ["one", "other"].map(TestGateway::new);
    for gateway in &mut gateways {
        gateway.list_callable(&mut file, NewTools::Hold);
    }
    for id in ["up/read", "up/write"] {
        decide(&mut file, id, true).expect("it is quarantined");
    }
    for _ in 0..3 {
        for gateway in &mut gateways {
            gateway.list_callable(&mut file, NewTools::Hold);
        }
    }
    let settled = file.clone();
    for gateway in &mut gateways {
        assert_eq!(gateway.list_callable(&mut file, NewTools::Hold).len(), 2);
    }
    assert_eq!(file, settled);
}

#[test]
fn denied_definition_is_not_approved_by_itself_at_another_endpoint() {
    let mut file = PinsFile::default();
    let mut gateway = TestGateway::new("one");
    gateway.list_callable(&mut file, NewTools::Hold);
    gateway.texts.insert("read", 1);
    gateway.list_callable(&mut file, NewTools::Hold);
    decide(&mut file, "up/read", false).expect("it is quarantined");
    let callable = |gateway: &mut TestGateway, file: &mut PinsFile| {
        let callable = gateway.list_callable(file, NewTools::Hold);
        callable.into_keys().collect::<Vec<_>>()
    };
    gateway.command = "other";
    gateway.trusted = true;
    assert_eq!(callable(&mut gateway, &mut file), ["write"], "trusted");
    let mut second = TestGateway::new("third");
    second.scope = "b.json";
    second.texts.insert("read", 1);
    assert_eq!(callable(&mut second, &mut file), ["write"], "first use");
    // The operator may still approve it.
    decide(&mut file, "up/read", true).expect("it is quarantined");
    assert_eq!(callable(&mut second, &mut file), ["read", "write"]);
}

#[test]
fn pins_without_scopes_hold_other_endpoints() {
    let mut file = PinsFile::default();
    let mut first = TestGateway::new("one");
    first.list_callable(&mut file, NewTools::Hold);
    for pins in file.upstreams.values_mut() {
        pins.scopes.clear();
    }
    let mut second = TestGateway::new("two");
    second.scope = "b.json";
    assert!(second.list_callable(&mut file, NewTools::Hold).is_empty());
    assert_eq!(first.list_callable(&mut file, NewTools::Hold).len(), 2);
}

#[test]
fn number_of_first_uses_is_limited() {
    let mut file = PinsFile::default();
    TestGateway::new("one").list_callable(&mut file, NewTools::Hold);
    let mut callable = Vec::new();
    for number in 0..2 * MAX_SCOPES {
        let mut gateway = TestGateway::new(format!("command {number}").leak());
        gateway.scope = format!("{number}.json").leak();
        callable.push(gateway.list_callable(&mut file, NewTools::Hold).len());
    }
    assert_eq!(callable[0], 2);
    assert_eq!(*callable.last().expect("there are some"), 0);
}

#[test]
fn approval_for_moved_server_does_not_cover_its_other_tools() {
    for new_tools in [NewTools::Hold, NewTools::Approve] {
        let mut file = PinsFile::default();
        let mut gateway = TestGateway::new("one");
        assert_eq!(
            gateway.list_callable(&mut file, new_tools).len(),
            2,
            "the first listing is trusted"
        );
        gateway.command = "other";
        gateway.texts.insert("grown", 0);
        assert!(gateway.list_callable(&mut file, new_tools).is_empty());
        decide(&mut file, "up/write", false).expect("it is quarantined");
        decide(&mut file, "up/read", true).expect("it is quarantined");
        for _ in 0..3 {
            assert_eq!(
                gateway
                    .list_callable(&mut file, new_tools)
                    .into_keys()
                    .collect::<Vec<_>>(),
                ["read"]
            );
        }
        // A denied definition also stays blocked if its server becomes trusted.
        gateway.trusted = true;
        assert_eq!(
            gateway
                .list_callable(&mut file, new_tools)
                .into_keys()
                .collect::<Vec<_>>(),
            ["grown", "read"]
        );
    }
}

#[test]
fn denied_definition_stays_denied_until_approved() {
    let mut file = PinsFile::default();
    let mut gateway = TestGateway::new("one");
    gateway.list_callable(&mut file, NewTools::Hold);
    let mut sees = |file: &mut PinsFile, text: u8| {
        gateway.texts.insert("read", text);
        gateway
            .list_callable(file, NewTools::Hold)
            .contains_key("read")
    };
    assert!(!sees(&mut file, 1));
    decide(&mut file, "up/read", false).expect("it is quarantined");
    assert!(!sees(&mut file, 2) && !file.quarantined["up/read"].denied);
    assert!(!sees(&mut file, 1) && file.quarantined["up/read"].denied);
    assert!(
        sees(&mut file, 0) && !file.quarantined.contains_key("up/read"),
        "the approved definition is back"
    );
    assert!(!sees(&mut file, 1) && file.quarantined["up/read"].denied);
    // A file of an earlier version has no separate list of denied definitions.
    file.denied_definitions.clear();
    assert!(!sees(&mut file, 2) && !sees(&mut file, 1) && file.quarantined["up/read"].denied);
    let mut later = file.clone();
    later
        .upstreams
        .values_mut()
        .flat_map(|server_pins| server_pins.tools.values_mut())
        .flatten()
        .for_each(|pin| pin.approved = 1);
    decide(&mut file, "up/read", true).expect("it is there");
    assert!(sees(&mut file, 1), "the operator approved it");
    file.restore_from(&later);
    assert!(sees(&mut file, 1), "a later decision counts");
    let mut older = PinsFile::default();
    older.restore_from(&later);
    assert!(
        !sees(&mut older, 1) && older.quarantined["up/read"].denied,
        "the lost denial is restored"
    );
}

/// A step of the simulation.
#[derive(Debug, Clone)]
enum ScenarioEvent {
    /// A server changes a tool, or removes it.
    Says {
        gateway: usize,
        tool: usize,
        text: Option<u8>,
    },
    /// A gateway restarts.
    Starts { gateway: usize },
    /// A gateway reaches its server by another command.
    Moves { gateway: usize },
    /// The settings of a gateway trust the server, or stop trusting it.
    Trusts { gateway: usize },
    /// An operator decides about the quarantined definition of a tool.
    Decides { tool: usize, approve: bool },
}

fn event() -> impl Strategy<Value = ScenarioEvent> {
    let (gateway, tool) = (|| 0..3_usize, || 0..TOOLS.len());
    prop_oneof![
        6 => (gateway(), tool(), prop::option::weighted(0.9, 0..3_u8))
            .prop_map(|(gateway, tool, text)| ScenarioEvent::Says { gateway, tool, text }),
        2 => gateway().prop_map(|gateway| ScenarioEvent::Starts { gateway }),
        1 => gateway().prop_map(|gateway| ScenarioEvent::Moves { gateway }),
        1 => gateway().prop_map(|gateway| ScenarioEvent::Trusts { gateway }),
        6 => (tool(), any::<bool>()).prop_map(|(tool, approve)| ScenarioEvent::Decides { tool, approve }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn unapproved_definitions_are_not_callable_and_pending_listed(
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut file = PinsFile::default();
        let mut gateways = ["one", "one", "other"].map(TestGateway::new);
        // The definitions that are trusted: the first listing, and all approvals since.
        gateways[0].list_callable(&mut file, NewTools::Hold);
        let seen_by = |gateway: &TestGateway, tool: &str, text: u8| {
            let seen = SeenDefinition {
                digest: digest(&pinned_members(&definition(tool, text))),
                endpoint_digest: endpoint_digest(&gateway.server()),
            };
            (format!("up/{tool}"), seen)
        };
        let mut trusted_definitions: BTreeSet<(String, SeenDefinition)> =
            ["read", "write"].map(|tool| seen_by(&gateways[0], tool, 0)).into();
        let mut denied_definitions: BTreeSet<(String, SeenDefinition)> = BTreeSet::new();
        for event in events {
            match event {
                ScenarioEvent::Says { gateway, tool, text: Some(text) } => drop(gateways[gateway].texts.insert(TOOLS[tool], text)),
                ScenarioEvent::Says { gateway, tool, text: None } => drop(gateways[gateway].texts.remove(TOOLS[tool])),
                ScenarioEvent::Starts { gateway } => gateways[gateway].seen.clear(),
                ScenarioEvent::Moves { gateway } => {
                    let moving = &mut gateways[gateway];
                    moving.command = if moving.command == "one" { "other" } else { "one" };
                }
                ScenarioEvent::Trusts { gateway } => gateways[gateway].trusted = !gateways[gateway].trusted,
                ScenarioEvent::Decides { tool, approve } => {
                    let id = format!("up/{}", TOOLS[tool]);
                    if let Some(seen) = decide(&mut file, &id, approve) {
                        let (into, from) = if approve {
                            (&mut trusted_definitions, &mut denied_definitions)
                        } else {
                            (&mut denied_definitions, &mut trusted_definitions)
                        };
                        from.remove(&(id.clone(), seen.clone()));
                        into.insert((id, seen));
                    }
                }
            }
            // All gateways review until no file changes, which takes few rounds.
            let mut callable = Vec::new();
            for round in 0.. {
                prop_assert!(round < 6, "the reviews do not converge");
                let previous = file.clone();
                callable = gateways
                    .iter_mut()
                    .map(|gateway| gateway.list_callable(&mut file, NewTools::Hold))
                    .collect();
                if file == previous {
                    break;
                }
            }
            // A definition that the settings trust stays trusted for this server.
            for (gateway, callable) in gateways.iter().zip(&callable) {
                if gateway.trusted {
                    trusted_definitions
                        .extend(callable.iter().map(|(tool, text)| seen_by(gateway, tool, *text)));
                }
            }
            for (gateway, callable) in gateways.iter().zip(&callable) {
                for (tool, text) in &gateway.texts {
                    let definition = seen_by(gateway, tool, *text);
                    let is_callable = callable.contains_key(tool);
                    prop_assert!(
                        !is_callable || !denied_definitions.contains(&definition),
                        "{definition:?} was denied"
                    );
                    if gateway.trusted {
                        let is_denied = denied_definitions
                            .iter()
                            .any(|(id, seen)| *id == definition.0 && seen.digest == definition.1.digest);
                        prop_assert!(is_callable || is_denied);
                        continue;
                    }
                    prop_assert!(!is_callable || trusted_definitions.contains(&definition), "no one approved {definition:?}");
                    let listed = file.quarantined.get(&definition.0);
                    let listed = listed.filter(|quarantined| !quarantined.denied);
                    let is_pending = !is_callable && !denied_definitions.contains(&definition);
                    prop_assert!(
                        !is_pending || listed.is_some(),
                        "{definition:?} is pending, but no definition of its name is listed"
                    );
                }
            }
        }
    }
}

/// Reviews a listing of the server `up` with these tools, and returns the quarantined ones.
fn review_tools(file: &mut PinsFile, server: &Server, tools: &[&str]) -> BTreeSet<String> {
    let tools: Vec<Value> = tools.iter().map(|tool| definition(tool, 0)).collect();
    let listing = ServerListing {
        server,
        scope: "a.json".to_owned(),
        rules: Settings::default().upstream("up"),
        tools: &tools,
        instructions: Some(""),
    };
    let nothing_seen = HashMap::new();
    let mut reviewed = file.review(
        &[listing],
        Trust::FirstUse,
        &|_, _| DefinitionFindings::default(),
        &nothing_seen,
    );
    reviewed.swap_remove(0).0.quarantined
}

#[test]
fn first_use_ends_with_an_empty_list() {
    let (mut file, server) = (PinsFile::default(), TestGateway::new("a").server());
    assert!(review_tools(&mut file, &server, &[]).is_empty());
    let quarantined = review_tools(&mut file, &server, &["read"]);
    assert_eq!(quarantined.into_iter().collect::<Vec<_>>(), ["read"]);
    let again = review_tools(&mut file, &server, &["read"]);
    assert_eq!(again.len(), 1, "it still waits");
}

/// Returns the server `up` with these variables, and an inherited one.
fn server_with(variables: &[(&str, &str)], inherited: &[&str]) -> Server {
    let mut server = TestGateway::new("a").server();
    if let ServerTransport::Stdio {
        variables: set,
        inherit,
        ..
    } = &mut server.transport
    {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        set.extend(variables.iter().map(owned));
        inherit.extend(inherited.iter().map(|name| (*name).to_owned()));
    }
    server
}

#[test]
fn variables_that_run_code_quarantine_a_server() {
    let plain = server_with(&[], &[]);
    let harmless = server_with(&[("API_KEY", "one")], &["HOME"]);
    assert_eq!(endpoint_digest(&plain), endpoint_digest(&harmless));
    for changed in [
        server_with(&[("NODE_OPTIONS", "--require /tmp/x.js")], &[]),
        server_with(&[("LD_PRELOAD", "/tmp/x.so")], &[]),
        server_with(&[], &["PYTHONPATH"]),
    ] {
        let mut file = PinsFile::default();
        assert!(review_tools(&mut file, &plain, &["read"]).is_empty());
        assert!(review_tools(&mut file, &harmless, &["read"]).is_empty());
        assert_eq!(review_tools(&mut file, &changed, &["read"]).len(), 1);
    }
    let (one, two) = ("--require a.js", "--require b.js");
    let with_value = |value| endpoint_digest(&server_with(&[("NODE_OPTIONS", value)], &[]));
    assert_ne!(with_value(one), with_value(two));
}
