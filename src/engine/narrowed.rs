//! Tests that scoring only the nearby tools of a large catalog gives the same picks as scoring all.

use std::sync::Arc;

use super::Engine;
use super::embeddings::Embeddings;
use super::report::Report;
use super::request::ResolvedRequest;
use super::retrieval::{RequestRetriever, Retrieval};
use super::skills::SkillIndex;
use crate::access::Access;
use crate::catalog::{Catalog, Tool};
use crate::embed::StaticEmbedder;
use crate::index::{Index, IndexConfig, Vectors};
use crate::names::Skill;
use crate::names::skills::AllowedTool;
use crate::options::PickOptions;
use crate::query::Query;
use crate::ranking::ToolId;
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

/// The trade and the noun of each of 180 sources.
fn sources() -> Vec<(&'static str, &'static str)> {
    let mut sources = Vec::new();
    for trade in TRADES {
        for noun in NOUNS {
            sources.push((trade, noun));
        }
    }
    sources
}

/// A catalog of 3,600 tools of 180 sources. One in nine is destructive, and some require others.
fn catalog() -> Catalog {
    let mut tools = Vec::new();
    for (source, (trade, noun)) in sources().into_iter().enumerate() {
        for (number, verb) in VERBS.into_iter().enumerate() {
            let mut tool = Tool::without_arguments(
                format!("{verb}_{noun}"),
                format!("{verb} a {noun} of the {trade}"),
            );
            tool.source = Some(format!("{}-{noun}", trade.replace(' ', "-")));
            tool.id = tool.qualified_name();
            tool.annotations.destructive_hint = Some((source + number) % 9 == 0);
            if verb == "merge" {
                let prefix = trade.replace(' ', "-");
                tool.requires = vec![
                    format!("{prefix}-podcast/tag_podcast"),
                    format!("{prefix}-bridge/sign_bridge"),
                    format!("{prefix}-museum/list_museum"),
                ];
            }
            tools.push(tool);
        }
    }
    Catalog::from_tools(tools).expect("ids differ")
}

/// An engine that scores all tools, and one that treats the catalog as large.
fn engines() -> (Engine, Engine) {
    engines_with_skills(&[])
}

fn engines_with_skills(skills: &[Arc<Skill>]) -> (Engine, Engine) {
    let engine = |is_large: bool| {
        let embedders: Vec<Arc<dyn crate::embed::Embedder>> =
            vec![StaticEmbedder::shared().expect("the model is valid")];
        let config = IndexConfig {
            embedders,
            ..IndexConfig::default()
        };
        let mut index = Index::build(catalog(), config).expect("it can be indexed");
        let config = index.same_models(None);
        let mut skill_index =
            SkillIndex::build(skills.to_vec(), &index, config).expect("they can be indexed");
        if is_large {
            index.vectors.iter_mut().for_each(Vectors::force_overview);
            skill_index.force_overview();
        }
        let empty = Engine::new(Catalog::from_tools([]).expect("none")).expect("it can be indexed");
        Engine {
            index: Arc::new(index),
            skills: (!skills.is_empty()).then(|| Arc::new(skill_index)),
            ..empty
        }
    };
    (engine(false), engine(true))
}

fn ids(selection: &Selection) -> Vec<&str> {
    let picks_and_required = selection.picks.iter().chain(&selection.required);
    picks_and_required
        .map(|pick| pick.tool.id.as_str())
        .collect()
}

/// Checks that both engines pick the same tools in the same order with nearly the same evidence.
fn check((full, narrowed): &(Engine, Engine), query: &Query, options: &PickOptions) -> Selection {
    let [expected, actual] =
        [full, narrowed].map(|engine| engine.pick(query, options).expect("it picks"));
    assert_eq!(ids(&actual), ids(&expected), "{query:?}");
    for (actual, expected) in actual
        .picks
        .iter()
        .zip(&expected.picks)
        .chain(actual.required.iter().zip(&expected.required))
    {
        assert!(
            (actual.score - expected.score).abs() < 1e-4,
            "{}: {} {}",
            actual.tool.id,
            actual.score,
            expected.score
        );
        assert_eq!(
            actual.provenance.covers.is_some(),
            expected.provenance.covers.is_some(),
            "{}",
            actual.tool.id
        );
        let terms = |pick: &Pick| Some(pick.provenance.keyword.as_ref()?.terms.len());
        assert_eq!(terms(actual), terms(expected), "{}", actual.tool.id);
    }
    assert!(
        (actual.answerable.unwrap_or_default() - expected.answerable.unwrap_or_default()).abs()
            < 1e-4
    );
    assert_eq!(
        actual.blocked.as_ref().map(|blocked| &blocked.tool_id),
        expected.blocked.as_ref().map(|blocked| &blocked.tool_id)
    );
    assert_eq!(
        (actual.ineligible.total, &actual.ineligible.counts),
        (expected.ineligible.total, &expected.ineligible.counts)
    );
    actual
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
fn narrowed_pick_equals_full_pick() {
    let engines = engines();
    for request in REQUESTS {
        let mut options = PickOptions::default();
        check(&engines, &Query::new(request), &options);
        (options.max_candidates, options.reasons) = (10, false);
        check(&engines, &Query::new(request), &options);
    }
}

#[test]
fn narrowed_pick_for_narrow_role_finds_distant_tools() {
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
        let selection = check(&engines, &Query::new(request), &options);
        assert!(!selection.picks.is_empty(), "{request}");
    }
}

#[test]
fn narrowed_pick_scores_named_and_required_tools() {
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
    let selection = check(
        &engines,
        &Query::new("merge the contracts of the city council"),
        &options,
    );
    let required = selection
        .required
        .iter()
        .find(|pick| pick.tool.id == "city-council-podcast/tag_podcast");
    assert!(
        required.is_some_and(|pick| pick.score > 0.0),
        "{:?}",
        ids(&selection)
    );
    check(
        &engines,
        &Query::new("tell me about farm-battery/tag_battery and the invoice of the clinic"),
        &options,
    );
}

/// A skill that needs two tools, which are far from most requests.
fn skill(name: &str, description: &str) -> Arc<Skill> {
    let tool = |name: &str| AllowedTool {
        name: name.to_owned(),
        scope: None,
    };
    let tools = ["farm-battery/tag_battery", "school-museum/list_museum"].map(tool);
    Arc::new(Skill {
        name: name.to_owned(),
        description: description.to_owned(),
        path: format!("{name}/SKILL.md"),
        allowed_tools: tools.into(),
        body: String::new(),
    })
}

#[test]
fn narrowed_pick_scores_tools_of_skills() {
    let mut skills: Vec<Arc<Skill>> = Vec::new();
    for number in 0..2 {
        for (trade, noun) in sources() {
            let description = format!("Instructions {number} for the {noun} of a {trade}");
            skills.push(skill(&format!("{trade}-{noun}-{number}"), &description));
        }
    }
    skills.push(skill(
        "billing",
        "Sends and archives the invoices of a clinic",
    ));
    let engines = engines_with_skills(&skills);
    for request in [
        "send the invoices of the clinic",
        "Archive the invoices of the clinic. And cancel the hotel of the airline!",
    ] {
        let options = PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        };
        let selection = check(&engines, &Query::new(request), &options);
        let skills = selection.skills.as_deref().unwrap_or_default();
        let names: Vec<&str> = skills.iter().map(|pick| pick.skill.name.as_str()).collect();
        assert!(names.contains(&"billing"), "{request}: {names:?}");
        assert_eq!(skills[0].tool_ids.len(), 2, "{request}");
        for pick in &selection.picks {
            assert!(pick.score > 0.0, "{request}: {}", pick.tool.id);
        }
    }
}

fn retrieve<'q>(engine: &'q Engine, query: &'q Query, options: &'q PickOptions) -> Retrieval<'q> {
    let request =
        ResolvedRequest::new(engine.indexes(), query, options).expect("the options are valid");
    let mut embeddings = Embeddings::default();
    RequestRetriever::new(&mut embeddings).retrieve(&request, &mut Report::new())
}

#[test]
fn extended_retrieval_scores_tools_as_full_retrieval() {
    let (full, narrowed) = engines();
    let options = PickOptions::default();
    for request in REQUESTS {
        let query = Query::new(request);
        let all = retrieve(&full, &query, &options);
        let near = retrieve(&narrowed, &query, &options);
        let mut scored: Vec<ToolId> = narrowed.catalog().ids().collect();
        scored.retain(|&tool| near.scored.position(tool).is_some());
        let mut distant: Vec<ToolId> = narrowed.catalog().ids().collect();
        distant.retain(|tool| !scored.contains(tool) && tool.index() % 7 == 0);
        assert!(!distant.is_empty(), "{request}");
        let extended = near.extend(&distant);
        scored.extend(&distant);
        assert_eq!(extended.scored.len(), scored.len(), "{request}");
        assert_eq!(extended.subqueries.len(), all.subqueries.len(), "{request}");
        let mut signals = extended.signals;
        let mut expected = all.signals;
        for (subquery, other) in extended.subqueries.into_iter().zip(all.subqueries) {
            signals.extend(subquery.signals);
            expected.extend(other.signals);
        }
        assert_eq!(signals.len(), expected.len(), "{request}");
        for ((_, signal), (retriever, expected)) in signals.iter().zip(&expected) {
            for &tool in &scored {
                let difference = signal.score(tool) - expected.score(tool);
                assert!(difference.abs() < 1e-6, "{request}: {retriever:?}");
            }
        }
    }
}

#[test]
fn narrowed_pick_scores_distant_fallbacks() {
    let engines = engines();
    let options = PickOptions {
        fallbacks: ["farm-battery/tag_battery", "school-museum/list_museum"]
            .map(str::to_owned)
            .into(),
        ..PickOptions::default()
    };
    for request in REQUESTS {
        check(&engines, &Query::new(request), &options);
    }
}

#[test]
fn pick_with_context_or_tools_in_use_scores_all_tools() {
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
