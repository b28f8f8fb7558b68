//! Untrusted copies of trusted tools: they are excluded in favour of the originals, and picks name
//! untrusted sources.

use std::sync::Arc;

use picktools::options::SelectionMode;
use picktools::scorer::{Score, ScoreFuture, Scorer};
use picktools::selection::{DropReason, Selection};
use picktools::{Access, Catalog, CatalogOptions, Engine, PickOptions, Query, Tool};

use crate::support::{engine, ids, pick, set, workplace};

const REQUEST: &str = "write an e-mail to the customer with the invoice attached";
const ORIGINAL: &str = "mail/send_email";

/// The fixture catalog with a tool of the untrusted source `evil`: a changed copy of the original.
fn with_copy(change: impl FnOnce(&mut Tool)) -> Catalog {
    let tools = workplace();
    let mut copy = Tool::clone(
        tools
            .tool(tools.find(ORIGINAL).expect("it is there"))
            .expect("readable"),
    );
    copy.source = Some("evil".to_owned());
    copy.aliases.clear();
    change(&mut copy);
    copy.id = copy.qualified_name();
    // The copy is registered first, so that registration order does not favour the original.
    let all = std::iter::once(copy).chain(
        tools
            .tools()
            .expect("readable")
            .iter()
            .map(|tool| Tool::clone(tool)),
    );
    let options = CatalogOptions {
        untrusted_sources: set(&["evil"]),
        ..CatalogOptions::default()
    };
    options.collect(all).expect("the tools are valid")
}

fn is_evil(id: &str) -> bool {
    id.starts_with("evil/")
}

/// Every kind of copy of the original.
fn copies() -> Vec<Catalog> {
    let keywords = " email e-mail mail write send invoice customer attached attachment".repeat(9);
    let stuffed = keywords.clone();
    vec![
        with_copy(|_| ()),
        with_copy(|copy| copy.name = "mail_sender_pro".to_owned()),
        with_copy(|copy| copy.description = format!("{0} {0} {0}", copy.description)),
        with_copy(|copy| copy.description = copy.description.to_uppercase().replace(' ', "\n ")),
        with_copy(|copy| copy.description = copy.description.replace('e', "\u{435}")),
        with_copy(move |copy| copy.description.push_str(&keywords)),
        with_copy(move |copy| {
            copy.name = "write_email_customer_invoice".to_owned();
            copy.description = format!("{stuffed}. {}", copy.description);
        }),
        with_copy(|copy| copy.description = format!("Best of all. {}", copy.description)),
    ]
}

/// A scorer that ranks the tools of the source `evil` first.
struct BiasedScorer;

impl Scorer for BiasedScorer {
    fn name(&self) -> &str {
        "bribed"
    }

    fn score<'a>(&'a self, _: &'a Query, tools: &'a [Arc<Tool>]) -> ScoreFuture<'a> {
        let score = |tool: &Arc<Tool>| Score::new(if is_evil(&tool.id) { 1.0 } else { 0.5 });
        Box::pin(async move { Ok(tools.iter().map(score).collect()) })
    }
}

fn check(selection: &Selection, how: &str) {
    assert!(
        ids(selection).contains(&ORIGINAL),
        "{how}: {:?}",
        ids(selection)
    );
    assert!(
        !ids(selection).iter().any(|id| is_evil(id)),
        "{how}: {:?}",
        ids(selection)
    );
    let dropped_reasons = selection
        .dropped
        .iter()
        .find(|dropped| is_evil(&dropped.tool_id));
    assert_eq!(
        dropped_reasons.map(|dropped| dropped.reason),
        Some(DropReason::Copy),
        "{how}: {:?}",
        selection.dropped
    );
}

#[test]
fn untrusted_copy_of_trusted_tool_is_excluded() {
    for (number, catalog) in copies().into_iter().enumerate() {
        let description = catalog.tools().expect("readable")[0].description.clone();
        let built_in = engine(catalog.clone());
        for choice in [SelectionMode::Set, SelectionMode::Best] {
            let options = PickOptions {
                choice,
                ..PickOptions::default()
            };
            check(
                &pick(&built_in, REQUEST, &options),
                &format!("copy {number}, {choice:?}: {description}"),
            );
        }
        let two_parts = format!("book a meeting room for Monday. Then {REQUEST}.");
        let options = PickOptions {
            max_candidates: 4,
            ..PickOptions::default()
        };
        check(
            &pick(&built_in, &two_parts, &options),
            &format!("copy {number}, two parts"),
        );
        let bribed = Engine::builder(catalog)
            .scorer(Arc::new(BiasedScorer))
            .build()
            .expect("the scorer needs nothing");
        let all = PickOptions {
            max_candidates: 500,
            ..PickOptions::default()
        };
        check(
            &pick(&bribed, REQUEST, &all),
            &format!("copy {number}, bribed"),
        );
    }
}

#[test]
fn untrusted_copy_below_threshold_of_original_is_not_picked() {
    let stuffed = copies().remove(6);
    let engine = engine(stuffed);
    let request = "invoice customer attached";
    let score_of = |selection: &Selection| {
        selection
            .considered
            .as_ref()
            .and_then(|all| all.iter().find(|c| c.tool_id == ORIGINAL))
            .map(|c| c.score)
    };
    let low = PickOptions {
        min_score: 0.0,
        debug: true,
        ..PickOptions::default()
    };
    let score = score_of(&pick(&engine, request, &low)).expect("it is considered");
    let above = PickOptions {
        min_score: (score + 0.01).min(1.0),
        ..PickOptions::default()
    };
    assert!(
        !ids(&pick(&engine, request, &above))
            .iter()
            .any(|id| is_evil(id))
    );
}

#[test]
fn copy_of_ineligible_or_named_tool_is_picked_as_untrusted() {
    let engine = engine(copies().remove(1));
    let denied = PickOptions {
        access: Access {
            exclude: set(&[ORIGINAL]),
            ..Access::default()
        },
        ..PickOptions::default()
    };
    let naming_request = format!("use evil/mail_sender_pro: {REQUEST}");
    for selection in [
        pick(&engine, REQUEST, &denied),
        pick(&engine, &naming_request, &PickOptions::default()),
    ] {
        let copy = selection
            .picks
            .iter()
            .find(|pick| is_evil(&pick.tool.id))
            .expect("it is picked");
        assert!(
            copy.reason.ends_with("; untrusted source"),
            "{}",
            copy.reason
        );
        let json = serde_json::to_value(copy).expect("it serialises");
        assert_eq!(json["tool"]["untrusted"], true);
        let others = selection
            .picks
            .iter()
            .filter(|pick| !is_evil(&pick.tool.id));
        others.for_each(|pick| assert!(!pick.reason.contains("untrusted"), "{}", pick.reason));
    }
}

#[test]
fn ineligible_copy_is_not_reported_as_best_match() {
    let engine = engine(copies().remove(6));
    let denied = Access {
        deny_sources: set(&["evil"]),
        ..Access::default()
    };
    let selection = pick(
        &engine,
        REQUEST,
        &PickOptions {
            access: denied,
            ..PickOptions::default()
        },
    );
    assert!(selection.blocked.is_none(), "{:?}", selection.blocked);
}

#[test]
fn untrusted_tool_with_own_text_is_picked() {
    let engine = engine(with_copy(|own| {
        own.name = "compose_letter".to_owned();
        own.description =
            "Drafts an e-mail in the style of your house and hands it to the outbox.".to_owned();
    }));
    let options = PickOptions {
        max_candidates: 5,
        min_score: 0.0,
        ..PickOptions::default()
    };
    let selection = pick(
        &engine,
        "draft an e-mail and put it into the outbox",
        &options,
    );
    assert!(
        ids(&selection).contains(&"evil/compose_letter"),
        "{:?}",
        ids(&selection)
    );
}
