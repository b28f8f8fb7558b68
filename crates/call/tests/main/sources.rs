//! Allowed, denied and limited sources, for picks and calls alike.

use picktools::{Access, Catalog, CatalogOptions, PickOptions, Tool};
use picktools_call::{CallError, Hydrator};
use picktools_provider::{Arguments, ToolCall};
use picktools_testing::{catalog, engine, ids, pick, set, tool};
use serde_json::json;

/// One tool of each source, where four sources are confusable spellings of `chat`.
const SOURCES: [&str; 5] = ["chat", "Chat", "chat ", "\u{441}hat", "mail"];

fn one_of_each() -> Catalog {
    let texts = ["post", "share", "tell", "shout", "send"];
    let tools = SOURCES.iter().zip(texts).map(|(source, verb)| {
        tool(
            source,
            &format!("{verb}_note"),
            &format!("Lets people {verb} a note to the group, {verb}ing it at once"),
        )
    });
    catalog(tools)
}

/// Returns the sources whose tools are picked when the caller asks for all of them, and may be
/// called.
fn sources(options: &PickOptions) -> Vec<&'static str> {
    let (engine, all) = (
        engine(one_of_each()),
        PickOptions {
            max_candidates: 9,
            min_score: 0.0,
            ..options.clone()
        },
    );
    let selection = pick(
        &engine,
        "post, share, tell, shout or send a note to the group",
        &all,
    );
    let picked = ids(&selection);
    let hydrator = Hydrator::new(one_of_each(), &options.access).expect("the access names no tool");
    let catalog = one_of_each();
    let picked_tools = SOURCES
        .into_iter()
        .zip(catalog.tools().expect("readable"))
        .filter(|(_, tool)| {
            let arguments = Arguments::Json(json!({}));
            let called = hydrator.hydrate(&ToolCall {
                id: None,
                name: tool.id.clone(),
                arguments,
            });
            let refused = matches!(called, Err(CallError::Ineligible { .. }));
            if options.max_per_source.is_none() {
                assert_eq!(
                    picked.contains(&tool.id.as_str()),
                    !refused,
                    "a call is decided as a pick is: {}",
                    tool.id
                );
            }
            picked.contains(&tool.id.as_str())
        });
    picked_tools.map(|(source, _)| source).collect()
}

#[test]
fn denied_source_includes_confusable_sources() {
    for name in ["chat", "CHAT", " chat", "\u{441}hat", "ch\u{200b}at"] {
        let access = Access {
            deny_sources: set(&[name]),
            ..Access::default()
        };
        assert_eq!(
            sources(&PickOptions {
                access,
                ..PickOptions::default()
            }),
            ["mail"],
            "{name:?}"
        );
    }
}

#[test]
fn allowed_source_excludes_confusable_sources() {
    for (name, allowed) in [
        ("chat", &["chat"][..]),
        ("Chat", &["Chat"]),
        ("CHAT", &[]),
        (" Mail ", &["mail"]),
        ("m\u{430}il", &[]),
    ] {
        let access = Access {
            allow_sources: set(&[name]),
            ..Access::default()
        };
        assert_eq!(
            sources(&PickOptions {
                access,
                ..PickOptions::default()
            }),
            allowed,
            "{name:?}"
        );
    }
}

#[test]
fn confusable_sources_share_a_limit_but_no_trust() {
    let options = |trusted: &[&str]| PickOptions {
        max_per_source: Some(1),
        trusted_sources: set(trusted),
        ..PickOptions::default()
    };
    assert_eq!(
        sources(&options(&[])).len(),
        2,
        "one that looks like chat, and one of mail"
    );
    let trusting = sources(&options(&["chat"]));
    assert!(
        trusting.contains(&"chat") && trusting.len() == 3,
        "{trusting:?}"
    );
    assert_eq!(
        sources(&options(&["CHAT"])).len(),
        2,
        "nobody knows which is meant"
    );
}

#[test]
fn untrusted_source_includes_confusable_sources() {
    let options = CatalogOptions {
        untrusted_sources: set(&["CHAT"]),
        ..CatalogOptions::default()
    };
    let catalog = options
        .collect(
            one_of_each()
                .tools()
                .expect("readable")
                .iter()
                .map(|tool| Tool::clone(tool)),
        )
        .expect("the tools are valid");
    let untrusted: Vec<bool> = catalog
        .tools()
        .expect("readable")
        .iter()
        .map(|tool| tool.untrusted)
        .collect();
    assert_eq!(untrusted, [true, true, true, true, false]);
}
