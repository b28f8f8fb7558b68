//! A large catalog, of which only the tools that may be near a request are scored, is picked from
//! as if all were.

use std::sync::Arc;

use super::Engine;
use crate::access::Access;
use crate::catalog::{Catalog, Tool};
use crate::embed::StaticEmbedder;
use crate::index::{Index, IndexConfig, Vectors};
use crate::options::PickOptions;
use crate::query::Query;
use crate::selection::{Pick, Selection};

const VERBS: [&str; 20] = [
    "create",
    "delete",
    "list",
    "update",
    "search",
    "export",
    "archive",
    "restore",
    "share",
    "approve",
    "cancel",
    "assign",
    "merge",
    "print",
    "rename",
    "schedule",
    "send",
    "sign",
    "tag",
    "translate",
];
const NOUNS: [&str; 30] = [
    "invoice",
    "ticket",
    "contract",
    "meeting",
    "playlist",
    "parcel",
    "recipe",
    "photo",
    "payment",
    "employee",
    "server",
    "backup",
    "flight",
    "hotel",
    "patient",
    "lesson",
    "tournament",
    "warehouse",
    "garden",
    "orchestra",
    "bridge",
    "satellite",
    "forecast",
    "battery",
    "museum",
    "bakery",
    "harbour",
    "library",
    "election",
    "podcast",
];
const TRADES: [&str; 6] = [
    "clinic",
    "airline",
    "school",
    "city council",
    "film studio",
    "farm",
];

/// 3,600 tools of 180 sources; one in nine writes something, and some ask for others.
fn catalog() -> Catalog {
    let tools = TRADES
        .iter()
        .flat_map(|trade| NOUNS.iter().map(move |noun| (trade, noun)));
    let tools = tools.enumerate().flat_map(|(source, (trade, noun))| {
        VERBS.iter().enumerate().map(move |(number, verb)| {
            let mut tool = Tool::without_arguments(
                format!("{verb}_{noun}"),
                format!("{verb} a {noun} of the {trade}"),
            );
            tool.source = Some(format!("{}-{noun}", trade.replace(' ', "-")));
            tool.id = tool.qualified_name();
            tool.annotations.destructive_hint = Some((source + number) % 9 == 0);
            if *verb == "merge" {
                tool.requires = vec![format!("{}-podcast/tag_podcast", trade.replace(' ', "-"))];
            }
            tool
        })
    });
    Catalog::from_tools(tools).expect("ids differ")
}

/// An engine that scores all tools, and one that takes them for many.
fn engines() -> (Engine, Engine) {
    let engine = |take: bool| {
        let embedders: Vec<Arc<dyn crate::embed::Embedder>> =
            vec![StaticEmbedder::shared().expect("the model is valid")];
        let config = IndexConfig {
            embedders,
            ..IndexConfig::default()
        };
        let mut index = Index::build(catalog(), config).expect("it can be indexed");
        if take {
            index.vectors.iter_mut().for_each(Vectors::take_for_many);
        }
        let whole = Engine::new(Catalog::from_tools([]).expect("none")).expect("it can be indexed");
        Engine {
            index: Arc::new(index),
            ..whole
        }
    };
    (engine(false), engine(true))
}

fn ids(selection: &Selection) -> Vec<&str> {
    let both = selection.picks.iter().chain(&selection.required);
    both.map(|pick| pick.tool.id.as_str()).collect()
}

/// Checks that both pick the same tools, in order, for about the same reasons.
fn check((whole, narrowed): &(Engine, Engine), query: &Query, options: &PickOptions) -> Selection {
    let [expected, found] =
        [whole, narrowed].map(|engine| engine.pick(query, options).expect("it picks"));
    assert_eq!(ids(&found), ids(&expected), "{query:?}");
    for (found, expected) in found
        .picks
        .iter()
        .zip(&expected.picks)
        .chain(found.required.iter().zip(&expected.required))
    {
        assert!(
            (found.score - expected.score).abs() < 1e-4,
            "{}: {} {}",
            found.tool.id,
            found.score,
            expected.score
        );
        assert_eq!(
            found.provenance.covers.is_some(),
            expected.provenance.covers.is_some(),
            "{}",
            found.tool.id
        );
        let terms = |pick: &Pick| {
            pick.provenance
                .keyword
                .as_ref()
                .map(|keyword| keyword.terms.len())
        };
        assert_eq!(terms(found), terms(expected), "{}", found.tool.id);
    }
    assert!(
        (found.answerable.unwrap_or_default() - expected.answerable.unwrap_or_default()).abs()
            < 1e-4
    );
    assert_eq!(
        found.blocked.as_ref().map(|blocked| &blocked.tool_id),
        expected.blocked.as_ref().map(|blocked| &blocked.tool_id)
    );
    assert_eq!(
        (found.ineligible.total, &found.ineligible.counts),
        (expected.ineligible.total, &expected.ineligible.counts)
    );
    found
}

const REQUESTS: [&str; 8] = [
    "send the invoice of the clinic",
    "Book me a flight with the airline. And cancel the hotel!",
    "translate the recipe, print the contract and archive every photo of the farm",
    "who won the tournament at school?",
    "delete the satellite of the film studio",
    "will it rain?",
    "I would like to hear some music. Then put the patient on the list. Is there bread left?",
    "quantum chromodynamics on a lattice",
];

#[test]
fn what_is_near_is_picked_as_if_all_were_scored() {
    let engines = engines();
    for request in REQUESTS {
        let mut options = PickOptions::default();
        check(&engines, &Query::new(request), &options);
        (options.max_candidates, options.reasons) = (10, false);
        check(&engines, &Query::new(request), &options);
    }
}

#[test]
fn a_narrow_role_sees_its_own_tools_however_far_they_are() {
    let engines = engines();
    let sources = ["farm-bridge", "clinic-podcast"];
    let access = Access {
        allow_sources: sources.map(str::to_owned).into(),
        ..Access::default()
    };
    let options = PickOptions {
        access,
        min_score: 0.0,
        ..PickOptions::default()
    };
    for request in REQUESTS {
        let found = check(&engines, &Query::new(request), &options);
        assert!(!found.picks.is_empty(), "{request}");
    }
}

#[test]
fn what_is_named_or_required_has_a_score_however_far_it_is() {
    let engines = engines();
    let mut options = PickOptions::default();
    options
        .always_include
        .push("farm-harbour/sign_harbour".to_owned());
    check(
        &engines,
        &Query::new("send the invoice of the clinic"),
        &options,
    );
    let found = check(
        &engines,
        &Query::new("merge the contracts of the city council"),
        &options,
    );
    let required = found
        .required
        .iter()
        .find(|pick| pick.tool.id == "city-council-podcast/tag_podcast");
    assert!(
        required.is_some_and(|pick| pick.score > 0.0),
        "{:?}",
        ids(&found)
    );
    check(
        &engines,
        &Query::new("tell me about farm-battery/tag_battery and the invoice of the clinic"),
        &options,
    );
}

#[test]
fn where_all_tools_are_to_have_scores_they_have() {
    let engines = engines();
    let query = Query::new("and the contract?").with_context(&["print the invoice of the clinic"]);
    let json = |engine: &Engine, query: &Query, options: &PickOptions| {
        serde_json::to_string(&engine.pick(query, options).expect("it picks"))
            .expect("it serialises")
    };
    let in_use = PickOptions {
        in_use: vec!["farm-recipe/print_recipe".to_owned()],
        ..PickOptions::default()
    };
    for (query, options) in [
        (&query, &PickOptions::default()),
        (&Query::new("archive it"), &in_use),
    ] {
        assert_eq!(
            json(&engines.0, query, options),
            json(&engines.1, query, options)
        );
    }
    let scores = engines
        .1
        .retriever_scores(&Query::new("archive it"), &PickOptions::default())
        .expect("it scores");
    assert!(scores.iter().all(|scores| scores.scores.len() == 3_600));
}
