//! Sources that are allowed, denied and limited, for picks and calls alike.

use picktools::{Access, Catalog, CatalogOptions, PickOptions, Tool};
use picktools_call::{CallError, Hydrator};
use picktools_provider::{Arguments, ToolCall};
use picktools_testing::{catalog, engine, ids, pick, set, tool};
use serde_json::json;

/// One tool of each source, which differ in how they write `chat`, and one of another.
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

/// The sources whose tools a caller gets when asking for all, and may call.
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
    let known = one_of_each();
    let shown = SOURCES.into_iter().zip(known.tools()).filter(|(_, tool)| {
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
    shown.map(|(source, _)| source).collect()
}

#[test]
fn a_denied_source_is_denied_with_all_that_look_like_it() {
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
fn an_allowed_source_is_allowed_without_those_that_look_like_it() {
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
fn sources_that_look_alike_share_a_limit_and_no_trust() {
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
fn an_untrusted_source_is_untrusted_with_all_that_look_like_it() {
    let options = CatalogOptions {
        untrusted_sources: set(&["CHAT"]),
        ..CatalogOptions::default()
    };
    let read = options
        .collect(one_of_each().tools().iter().map(|tool| Tool::clone(tool)))
        .expect("the tools are valid");
    let untrusted: Vec<bool> = read.tools().iter().map(|tool| tool.untrusted).collect();
    assert_eq!(untrusted, [true, true, true, true, false]);
}
