//! Accounts: equal tools of several sources, such as the chats of two companies.

use std::sync::Arc;

use picktools::scorer::{Score, ScoreFuture, Scorer};
use picktools::selection::DropReason;
use picktools::{Catalog, CatalogOptions, Engine, PickOptions, Query, Selection, Tool};
use serde_json::json;

use crate::support::{catalog, engine, ids, pick, set, tool};

/// The tools of one account of a chat.
fn chat(source: &str) -> Vec<Tool> {
    let mut list = tool(
        source,
        "list_channels",
        "Lists the channels of the workspace",
    );
    list.annotations.read_only_hint = Some(true);
    vec![
        tool(
            source,
            "post_message",
            "Posts a message to a channel of the workspace",
        ),
        list,
        tool(
            source,
            "add_reaction",
            "Adds an emoji to a message that was posted before",
        ),
    ]
}

fn chats(sources: &[&str]) -> Catalog {
    catalog(sources.iter().flat_map(|source| chat(source)))
}

fn limited_to(max_candidates: usize) -> PickOptions {
    PickOptions {
        max_candidates,
        ..PickOptions::default()
    }
}

fn dropped(selection: &Selection, reason: DropReason) -> Vec<&str> {
    let mut dropped = Vec::new();
    for tool in &selection.dropped {
        if tool.reason == reason {
            dropped.push(tool.tool_id.as_str());
        }
    }
    dropped
}

const POST: &str = "post a message to the channel of the workspace";

#[test]
fn equal_writing_tools_of_two_accounts_are_both_picked() {
    let engine = engine(chats(&["acme-chat", "globex-chat"]));
    let selection = pick(&engine, POST, &PickOptions::default());
    assert_eq!(
        ids(&selection)[..2],
        ["acme-chat/post_message", "globex-chat/post_message"]
    );
    assert!(selection.picks[0].same_as.is_empty());
    assert_eq!(dropped(&selection, DropReason::Account), [""; 0]);
}

#[test]
fn equal_reading_tools_of_two_accounts_take_one_place() {
    let engine = engine(chats(&["acme-chat", "globex-chat"]));
    let selection = pick(
        &engine,
        "list the channels of the workspace",
        &PickOptions::default(),
    );
    assert_eq!(ids(&selection)[0], "acme-chat/list_channels");
    assert_eq!(selection.picks[0].same_as, ["globex-chat/list_channels"]);
    assert_eq!(
        dropped(&selection, DropReason::Same),
        ["globex-chat/list_channels"]
    );
}

#[test]
fn accounts_without_a_place_are_reported() {
    let sources = [
        "acme-chat",
        "globex-chat",
        "hooli-chat",
        "initech-chat",
        "umbrella-chat",
    ];
    let engine = engine(chats(&sources));
    let selection = pick(&engine, POST, &limited_to(3));
    assert_eq!(
        ids(&selection),
        [
            "acme-chat/post_message",
            "globex-chat/post_message",
            "hooli-chat/post_message"
        ]
    );
    assert_eq!(
        dropped(&selection, DropReason::Account),
        ["initech-chat/post_message", "umbrella-chat/post_message"]
    );
    let all = pick(&engine, POST, &limited_to(15));
    assert_eq!(dropped(&all, DropReason::Account), [""; 0]);
    for source in sources {
        let id = format!("{source}/post_message");
        assert!(ids(&all).contains(&id.as_str()), "{:?}", ids(&all));
    }
}

#[test]
fn request_that_names_a_server_gets_its_tool_first() {
    let sources = ["acme-chat", "globex-chat", "initech-chat"];
    let engine = engine(chats(&sources));
    for source in sources {
        for request in [
            format!("post a message in the {source} workspace"),
            format!("post in the {} chat", source.trim_end_matches("-chat")),
        ] {
            let selection = pick(&engine, &request, &limited_to(1));
            assert_eq!(
                ids(&selection),
                [format!("{source}/post_message")],
                "{request}"
            );
        }
    }
}

#[test]
fn saved_index_keeps_accounts_apart() {
    let built = engine(chats(&["acme-chat", "globex-chat"]));
    let folder = tempfile::tempdir().expect("a folder");
    built.save(folder.path(), json!({})).expect("it is saved");
    let opened = engine(Catalog::open_saved(folder.path()).expect("it opens"));
    for request in [POST, "list the channels of the workspace"] {
        let [expected, actual] = [&built, &opened].map(|engine| {
            let selection = pick(engine, request, &limited_to(2));
            serde_json::to_string(&selection).expect("it serialises")
        });
        assert_eq!(actual, expected);
    }
}

/// A scorer that ranks the tools of the source `evil` first.
struct BiasedScorer;

impl Scorer for BiasedScorer {
    fn name(&self) -> &str {
        "biased"
    }

    fn score<'a>(&'a self, _: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        let is_evil = |tool: &Arc<Tool>| tool.source.as_deref() == Some("evil");
        let score = move |tool| Score::new(if is_evil(tool) { 1.0 } else { 0.5 });
        Box::pin(async move { Ok(tools.iter().map(score).collect()) })
    }
}

#[test]
fn untrusted_copies_of_account_tools_stay_excluded() {
    for hint in [None, Some(true), Some(false)] {
        let mut copies = chat("evil");
        for copy in &mut copies {
            copy.annotations.read_only_hint = hint;
        }
        let accounts = ["acme-chat", "globex-chat"];
        let accounts = accounts.iter().flat_map(|source| chat(source));
        // The copies are registered first, so that registration order favours them.
        let options = CatalogOptions {
            untrusted_sources: set(&["evil"]),
            ..CatalogOptions::default()
        };
        let catalog = options
            .collect(copies.into_iter().chain(accounts))
            .expect("the tools are valid");
        let biased = Engine::builder(catalog.clone())
            .scorer(Arc::new(BiasedScorer))
            .build()
            .expect("the scorer needs nothing");
        for engine in [engine(catalog), biased] {
            let selection = pick(&engine, POST, &limited_to(6));
            let picked = ids(&selection);
            assert!(
                picked.contains(&"acme-chat/post_message")
                    && picked.contains(&"globex-chat/post_message")
                    && !picked.iter().any(|id| id.starts_with("evil/")),
                "{hint:?}: {picked:?}"
            );
            assert!(
                dropped(&selection, DropReason::Copy).contains(&"evil/post_message"),
                "{hint:?}: {:?}",
                selection.dropped
            );
        }
    }
}
