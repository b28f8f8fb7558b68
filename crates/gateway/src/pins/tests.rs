//! What gateways that share approvals make of what their servers say.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use picktools_import::mcp::{Server, Way};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Arrival, PinsFile, Seen, digest, own, way};
use crate::settings::{NewTools, Settings, Trust};

const TOOLS: [&str; 3] = ["read", "write", "grown"];

fn definition(tool: &str, text: u8) -> Value {
    json!({"name": tool, "description": format!("text {text}"), "inputSchema": {"type": "object"}})
}

/// A gateway: how it reaches the server `up`, what that says, and what the gateway saw of it last.
#[derive(Clone)]
struct Gateway {
    command: &'static str,
    trusted: bool,
    /// A text for each tool that there is.
    texts: BTreeMap<&'static str, u8>,
    seen: HashMap<String, Seen>,
}

impl Gateway {
    fn new(command: &'static str) -> Self {
        let texts = [("read", 0), ("write", 0)].into();
        Self {
            command,
            trusted: false,
            texts,
            seen: HashMap::new(),
        }
    }

    fn server(&self) -> Server {
        let command = self.command.to_owned();
        let way = Way::Stdio {
            command,
            arguments: Vec::new(),
            variables: BTreeMap::new(),
            folder: None,
        };
        Server {
            name: "up".to_owned(),
            way,
        }
    }

    /// Judges what the server says, and returns what may be called, each with its text.
    fn look(&mut self, file: &mut PinsFile, new_tools: NewTools) -> BTreeMap<&'static str, u8> {
        let (server, mut rules) = (self.server(), Settings::default().upstream("up"));
        (rules.trusted, rules.new_tools) = (self.trusted, new_tools);
        let tools: Vec<Value> = self
            .texts
            .iter()
            .map(|(tool, text)| definition(tool, *text))
            .collect();
        let arrival = Arrival {
            server: &server,
            rules,
            tools: &tools,
        };
        let (judged, saw) = file
            .judge(&[arrival], Trust::FirstUse, &|_, _| Vec::new(), &self.seen)
            .swap_remove(0);
        self.seen.extend(saw);
        let shown = |tool: &str, text: u8| judged.definitions.contains(&definition(tool, text));
        let free = self
            .texts
            .iter()
            .filter(|(tool, _)| !judged.held.contains(**tool));
        free.map(|(tool, text)| (*tool, *text))
            .inspect(|(tool, text)| assert!(shown(tool, *text)))
            .collect()
    }
}

/// What an operator does, by what is listed.
fn decide(file: &mut PinsFile, id: &str, approve: bool) -> Option<Seen> {
    let held = file.held.get(id)?;
    let seen = held.seen();
    if approve {
        file.approve(id, &seen.digest)
    } else {
        file.deny(id, &seen.digest)
    }
    .expect("it is what is shown");
    Some(seen)
}

#[test]
fn what_a_person_approves_of_a_server_that_moved_speaks_for_nothing_else_of_it() {
    for new_tools in [NewTools::Hold, NewTools::Approve] {
        let mut file = PinsFile::default();
        let mut gateway = Gateway::new("one");
        assert_eq!(
            gateway.look(&mut file, new_tools).len(),
            2,
            "the first listing is believed"
        );
        gateway.command = "other";
        gateway.texts.insert("grown", 0);
        assert!(gateway.look(&mut file, new_tools).is_empty());
        decide(&mut file, "up/write", false).expect("it waits");
        decide(&mut file, "up/read", true).expect("it waits");
        for _ in 0..3 {
            assert_eq!(
                gateway
                    .look(&mut file, new_tools)
                    .into_keys()
                    .collect::<Vec<_>>(),
                ["read"]
            );
        }
        // Nor does what is refused come free where its server is trusted.
        gateway.trusted = true;
        assert_eq!(
            gateway
                .look(&mut file, new_tools)
                .into_keys()
                .collect::<Vec<_>>(),
            ["grown", "read"]
        );
    }
}

#[test]
fn what_was_refused_is_refused_whatever_came_in_between_and_until_it_is_approved() {
    let mut file = PinsFile::default();
    let mut gateway = Gateway::new("one");
    gateway.look(&mut file, NewTools::Hold);
    let mut see = |file: &mut PinsFile, text: u8| {
        gateway.texts.insert("read", text);
        gateway.look(file, NewTools::Hold).contains_key("read")
    };
    assert!(!see(&mut file, 1));
    decide(&mut file, "up/read", false).expect("it waits");
    assert!(!see(&mut file, 2) && !file.held["up/read"].denied);
    assert!(!see(&mut file, 1) && file.held["up/read"].denied);
    assert!(
        see(&mut file, 0) && !file.held.contains_key("up/read"),
        "it is as it was"
    );
    assert!(!see(&mut file, 1) && file.held["up/read"].denied);
    // As a file of before has it, which knows of no other refusals.
    file.refused.clear();
    assert!(!see(&mut file, 2) && !see(&mut file, 1) && file.held["up/read"].denied);
    let mut later = file.clone();
    later
        .upstreams
        .values_mut()
        .flat_map(|known| known.tools.values_mut())
        .flatten()
        .for_each(|pin| pin.approved = 1);
    decide(&mut file, "up/read", true).expect("it is there");
    assert!(see(&mut file, 1), "a person says otherwise");
    file.put_back(&later);
    assert!(see(&mut file, 1), "what was decided since counts");
    let mut lost = PinsFile::default();
    lost.put_back(&later);
    assert!(
        !see(&mut lost, 1) && lost.held["up/read"].denied,
        "a refusal that was lost is put back"
    );
}

/// What happens.
#[derive(Debug, Clone)]
enum Event {
    /// A server says something else of a tool, or has it no longer.
    Says {
        gateway: usize,
        tool: usize,
        text: Option<u8>,
    },
    /// A gateway starts anew.
    Starts { gateway: usize },
    /// It reaches its server by another command.
    Moves { gateway: usize },
    /// Its settings trust the server, or no longer.
    Trusts { gateway: usize },
    /// An operator decides on what is listed of a tool.
    Decides { tool: usize, approve: bool },
}

fn event() -> impl Strategy<Value = Event> {
    let (gateway, tool) = (|| 0..3_usize, || 0..TOOLS.len());
    prop_oneof![
        6 => (gateway(), tool(), prop::option::weighted(0.9, 0..3_u8))
            .prop_map(|(gateway, tool, text)| Event::Says { gateway, tool, text }),
        2 => gateway().prop_map(|gateway| Event::Starts { gateway }),
        1 => gateway().prop_map(|gateway| Event::Moves { gateway }),
        1 => gateway().prop_map(|gateway| Event::Trusts { gateway }),
        6 => (tool(), any::<bool>()).prop_map(|(tool, approve)| Event::Decides { tool, approve }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_called_that_nobody_approved_and_whatever_waits_is_listed_in_the_end(
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut file = PinsFile::default();
        let mut gateways = [Gateway::new("one"), Gateway::new("one"), Gateway::new("other")];
        // What the first listing of all was believed to say, and what was decided since.
        gateways[0].look(&mut file, NewTools::Hold);
        let known = |gateway: &Gateway, tool: &str, text: u8| {
            (format!("up/{tool}"), Seen { digest: digest(&own(&definition(tool, text))), way: way(&gateway.server()) })
        };
        let mut believed: BTreeSet<(String, Seen)> =
            ["read", "write"].map(|tool| known(&gateways[0], tool, 0)).into();
        let mut refused: BTreeSet<(String, Seen)> = BTreeSet::new();
        for event in events {
            match event {
                Event::Says { gateway, tool, text: Some(text) } => drop(gateways[gateway].texts.insert(TOOLS[tool], text)),
                Event::Says { gateway, tool, text: None } => drop(gateways[gateway].texts.remove(TOOLS[tool])),
                Event::Starts { gateway } => gateways[gateway].seen.clear(),
                Event::Moves { gateway } => {
                    let moving = &mut gateways[gateway];
                    moving.command = if moving.command == "one" { "other" } else { "one" };
                }
                Event::Trusts { gateway } => gateways[gateway].trusted = !gateways[gateway].trusted,
                Event::Decides { tool, approve } => {
                    let id = format!("up/{}", TOOLS[tool]);
                    if let Some(seen) = decide(&mut file, &id, approve) {
                        let (into, from) = if approve { (&mut believed, &mut refused) } else { (&mut refused, &mut believed) };
                        from.remove(&(id.clone(), seen.clone()));
                        into.insert((id, seen));
                    }
                }
            }
            // All gateways look until nothing is written any more, which takes few rounds.
            let mut free = Vec::new();
            for round in 0.. {
                prop_assert!(round < 6, "they write without end");
                let before = file.clone();
                free = gateways.iter_mut().map(|gateway| gateway.look(&mut file, NewTools::Hold)).collect();
                if file == before {
                    break;
                }
            }
            // What settings believe is believed of this server from now on.
            for gateway in gateways.iter().filter(|gateway| gateway.trusted) {
                believed.extend(gateway.texts.iter().map(|(tool, text)| known(gateway, tool, *text)));
            }
            for (gateway, free) in gateways.iter().zip(&free) {
                for (tool, text) in &gateway.texts {
                    let this = known(gateway, tool, *text);
                    let is_free = free.contains_key(tool);
                    prop_assert!(!is_free || !refused.contains(&this), "{this:?} was refused");
                    if gateway.trusted {
                        prop_assert!(is_free || refused.contains(&this));
                        continue;
                    }
                    prop_assert!(!is_free || believed.contains(&this), "nobody approved {this:?}");
                    let listed = file.held.get(&this.0).filter(|held| !held.denied);
                    let waits = !is_free && !refused.contains(&this);
                    prop_assert!(!waits || listed.is_some(), "{this:?} waits, and nothing of its name is listed");
                }
            }
        }
    }
}
