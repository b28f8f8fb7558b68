//! Tags and aliases: a request for one finds its tool, and other requests are not affected.

use picktools::catalog::Alias;
use picktools::options::SelectionMode;
use picktools::{Catalog, CatalogOptions, Engine, Mode, PickOptions, Tool};
use proptest::prelude::*;

use crate::support::{WORKPLACE, catalog, engine, in_mode, pick, tool, workplace};

const MODES: [Mode; 3] = [Mode::Keyword, Mode::Semantic, Mode::Hybrid];

/// Subjects that no tool of the fixture catalog has.
const FOREIGN: [&str; 6] = [
    "volcano",
    "horoscope",
    "knitting pattern",
    "dinosaur",
    "violin lessons",
    "beekeeping",
];

/// A kind of label.
#[derive(Debug, Clone, Copy)]
enum LabelKind {
    Tag,
    Alias,
}

/// Returns the fixture catalog with one more label; `None` if the label is another tool's name.
fn labelled(position: usize, kind: LabelKind, label: &str) -> Option<Engine> {
    let mut tools: Vec<Tool> = Vec::new();
    for tool in workplace().tools().expect("in memory") {
        tools.push(Tool::clone(tool));
    }
    add_label(&mut tools[position], kind, label);
    Catalog::from_tools(tools).ok().map(engine)
}

fn add_label(tool: &mut Tool, kind: LabelKind, label: &str) {
    match kind {
        LabelKind::Tag => tool.tags.push(label.to_owned()),
        LabelKind::Alias => tool.aliases.push(Alias {
            name: label.replace(' ', "_"),
            deprecated: false,
        }),
    }
}

/// Returns the position of a tool among all tools; the last one if it does not match.
fn rank(engine: &Engine, request: &str, mode: Mode, id: &str) -> usize {
    let tools = engine.catalog().len();
    let options = PickOptions {
        max_candidates: tools,
        min_score: 0.0,
        choice: SelectionMode::Best,
        reasons: false,
        access: picktools::Access {
            allow_unsafe: true,
            ..picktools::Access::default()
        },
        ..in_mode(mode)
    };
    let selection = pick(engine, request, &options);
    let mut ids = selection.picks.iter().map(|pick| pick.tool.id.as_str());
    ids.position(|other| other == id).unwrap_or(tools)
}

/// Words that tools of the catalog have, and words that none has.
fn label() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&FOREIGN[..]).prop_map(str::to_owned),
        (any::<prop::sample::Index>(), 0..20_usize, 1..3_usize).prop_map(|(tool, start, count)| {
            let catalog = WORKPLACE.catalog();
            let tools = catalog.tools().expect("in memory");
            let words = tools[tool.index(tools.len())].description.split(' ');
            let words = words.filter(|word| word.chars().all(char::is_alphabetic));
            let words: Vec<&str> = words.filter(|word| word.len() > 3).collect();
            if words.is_empty() {
                return "weather".to_owned();
            }
            let start = start % words.len();
            words[start..words.len().min(start + count)]
                .join(" ")
                .to_lowercase()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(40)
    })]
    #[test]
    fn label_never_lowers_its_tool_for_requests_with_it(
        position in any::<prop::sample::Index>(),
        kind in prop_oneof![Just(LabelKind::Tag), Just(LabelKind::Alias)],
        label in label(),
    ) {
        let position = position.index(WORKPLACE.catalog().len());
        let id = workplace().tools().expect("in memory")[position].id.clone();
        let labelled = labelled(position, kind, &label);
        prop_assume!(labelled.is_some());
        let labelled = labelled.expect("assumed");
        for request in [label.clone(), format!("I need something for {label}")] {
            // An alias is part of the embedded text, so it can lower similarities a little.
            let modes = match kind {
                LabelKind::Tag => &MODES[..],
                LabelKind::Alias => &[Mode::Keyword],
            };
            for &mode in modes {
                let without = rank(&WORKPLACE, &request, mode, &id);
                let with = rank(&labelled, &request, mode, &id);
                prop_assert!(with <= without, "{id}, {kind:?}, {request:?}, {mode:?}: {without} → {with}");
            }
        }
    }
}

#[test]
fn tool_with_the_requested_label_ranks_above_its_twin() {
    let twins = |kind, label: &str| {
        let mut tools = Vec::new();
        for (source, has_label) in [("a", false), ("b", true), ("c", false)] {
            let mut tool = tool(source, "convert", "Turns amounts of one kind into another");
            if has_label {
                add_label(&mut tool, kind, label);
            }
            tools.push(tool);
        }
        engine(catalog(tools))
    };
    for (kind, label, requests) in [
        (
            LabelKind::Tag,
            "currency",
            ["currency", "some currency, please"],
        ),
        (
            LabelKind::Tag,
            "exchange rate",
            ["exchange rate", "what is the exchange rate today"],
        ),
        (
            LabelKind::Alias,
            "currency",
            ["currency", "some currency, please"],
        ),
    ] {
        let engine = twins(kind, label);
        for request in requests {
            for mode in MODES {
                let rank = rank(&engine, request, mode, "b/convert");
                assert_eq!(rank, 0, "{kind:?}, {request:?}, {mode:?}");
            }
        }
    }
}

#[test]
fn tag_raises_its_tool_by_meaning() {
    let lookup = tool("a", "lookup", "Returns the value of a key");
    let others = ["address", "colour", "price", "owner"].map(|name| {
        tool(
            "a",
            &format!("get_{name}"),
            &format!("Returns the {name} of a key"),
        )
    });
    let rank_with = |tags: &[&str]| {
        let mut tagged = lookup.clone();
        tagged.tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        let engine = engine(catalog(others.clone().into_iter().chain([tagged])));
        let request = "is it going to rain tomorrow";
        rank(&engine, request, Mode::Semantic, "a/lookup")
    };
    assert!(rank_with(&["weather", "internal"]) < rank_with(&[]));
}

#[test]
fn aliases_of_untrusted_sources_change_no_pick() {
    let engine_with = |aliases: &str| {
        let entries = format!(
            r#"[{{"name": "convert", "source": "stranger", "description": "Turns amounts into others",
                  "aliases": [{aliases}], "parameters": {{}}}},
                {{"name": "rate", "source": "bank", "description": "Tells a rate", "parameters": {{}}}}]"#
        );
        let options = CatalogOptions {
            untrusted_sources: ["stranger".to_owned()].into(),
            ..CatalogOptions::default()
        };
        let catalog: Catalog = options.read(entries.as_bytes(), "here").expect("valid");
        engine(catalog)
    };
    let (without, with) = (
        engine_with(""),
        engine_with(r#""currency", "exchange_rate""#),
    );
    for request in ["currency", "exchange rate", "what is a currency worth"] {
        for mode in MODES {
            let options = PickOptions {
                min_score: 0.0,
                ..in_mode(mode)
            };
            let picks = |engine| serde_json::to_value(pick(engine, request, &options).picks);
            assert_eq!(
                picks(&with).expect("serialises"),
                picks(&without).expect("serialises")
            );
        }
    }
}
