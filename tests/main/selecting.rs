//! Picks as a set: subqueries, duplicates, and required tools.

use picktools::options::SelectionMode;
use picktools::selection::{DropReason, NameOrigin};
use picktools::{Engine, PickOptions, Selection, Tool};

use crate::support::{WORKPLACE, catalog, engine, ids, pick, tool};

fn best() -> PickOptions {
    PickOptions {
        choice: SelectionMode::Best,
        ..PickOptions::default()
    }
}

/// Declares that a tool only reads.
fn reading(mut tool: Tool) -> Tool {
    tool.annotations.read_only_hint = Some(true);
    tool
}

/// Many tools for one purpose, and one for another.
fn weather_and_mail() -> Engine {
    let weather = ["forecast", "history", "alerts", "radar", "maps"].map(|what| {
        tool(
            "weather",
            &format!("weather_{what}"),
            &format!("Shows the weather {what} of a city for the coming days"),
        )
    });
    engine(catalog(weather.into_iter().chain([
        tool("mail", "send_message", "Sends a message to a colleague"),
        tool("files", "compress_folder", "Packs a folder into an archive"),
    ])))
}

#[test]
fn request_with_two_parts_gets_tools_for_both() {
    let engine = weather_and_mail();
    let query =
        "Show me the weather forecast of the city for the coming days and tell my colleague";
    let options = |choice| PickOptions {
        choice,
        min_score: 0.0,
        ..PickOptions::default()
    };
    assert!(
        !ids(&pick(&engine, query, &options(SelectionMode::Best))).contains(&"mail/send_message")
    );
    let set = pick(&engine, query, &options(SelectionMode::Set));
    assert_eq!(set.picks.len(), 3);
    assert_eq!(
        set.picks[0].tool.id, "weather/weather_forecast",
        "the best one stays"
    );
    let mail = set
        .picks
        .iter()
        .find(|pick| pick.tool.id == "mail/send_message")
        .expect("the second part has a tool");
    let covers = mail
        .provenance
        .covers
        .as_ref()
        .expect("it is there for a part");
    assert_eq!(covers.part, "tell my colleague");
    assert!(
        mail.reason
            .starts_with("serves the part \"tell my colleague\" (score "),
        "{}",
        mail.reason
    );
    let covered = set
        .dropped
        .iter()
        .filter(|dropped| dropped.reason == DropReason::Covered)
        .count();
    assert_eq!(covered, 1, "{:?}", set.dropped);
    assert!(set.picks.is_sorted_by(|a, b| a.score >= b.score));
}

#[test]
fn subquery_with_good_tool_gets_it_in_long_request() {
    let query = "translate this text to german and then summarize it and mail it to bob";
    let options = PickOptions {
        max_candidates: 4,
        ..PickOptions::default()
    };
    let selection = pick(&WORKPLACE, query, &options);
    assert_eq!(ids(&selection)[0], "lingua/translate_text");
    for (part, tool) in [
        ("summarize it", "chat/summarize_thread"),
        ("mail it to bob", "mail/send_email"),
    ] {
        let alone = pick(&WORKPLACE, part, &options);
        assert_eq!(ids(&alone)[0], tool);
        let pick = selection
            .picks
            .iter()
            .find(|pick| pick.tool.id == tool)
            .expect("its part has no better one");
        let covers = pick
            .provenance
            .covers
            .as_ref()
            .expect("it is there for its part");
        assert_eq!(covers.part, part);
        assert!(covers.score >= options.min_score, "{}", covers.score);
        assert!(
            pick.score < options.min_score,
            "as a tool for the whole request it would not be here"
        );
    }
    let strict = PickOptions {
        min_score: 0.75,
        ..options
    };
    assert_eq!(
        ids(&pick(&WORKPLACE, query, &strict)),
        ["lingua/translate_text"],
        "no part's tool reaches that"
    );
}

#[test]
fn tool_for_subquery_is_explained_by_its_words() {
    let query =
        "use terminate_instance on the old web server, then post in the chat that it is done";
    let selection = pick(
        &WORKPLACE,
        query,
        &PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        },
    );
    let covering: Vec<_> = selection
        .picks
        .iter()
        .filter_map(|pick| pick.provenance.covers.as_ref())
        .collect();
    assert!(!covering.is_empty(), "{:?}", ids(&selection));
    for covers in covering {
        let words = covers
            .keyword
            .iter()
            .flat_map(|keyword| keyword.terms.iter().map(|term| &term.word));
        let near = covers
            .semantic
            .iter()
            .flat_map(|semantic| semantic.words.iter().map(|word| &word.word));
        for word in words.chain(near) {
            assert!(
                covers.part.contains(word.as_str()),
                "{word:?} is not in {:?}",
                covers.part
            );
            assert!(
                !["them", "the", "to", "my", "and"].contains(&word.as_str()),
                "{word:?} carries no meaning"
            );
        }
    }
    let pronouns = "list the files and it is them";
    let selection = pick(
        &WORKPLACE,
        pronouns,
        &PickOptions {
            min_score: 0.0,
            ..PickOptions::default()
        },
    );
    assert!(
        selection
            .picks
            .iter()
            .all(|pick| pick.provenance.covers.is_none()),
        "the second part asks for nothing"
    );
}

#[test]
fn request_with_one_part_gets_the_best_tools() {
    let engine = weather_and_mail();
    let query = "the weather forecast of the city";
    let (set, best) = (
        pick(&engine, query, &PickOptions::default()),
        pick(&engine, query, &best()),
    );
    assert_eq!(ids(&set), ids(&best));
    assert!(set.dropped.is_empty());
}

#[test]
fn reading_duplicates_of_several_sources_take_one_place() {
    let text = "Makes an issue in a repository";
    let engine = engine(catalog([
        reading(tool("hub", "create_issue", text)),
        reading(tool("mirror", "create_issue", text)),
        reading(tool(
            "mirror",
            "mirror_create_issue",
            "Makes an issue  in a repository",
        )),
        tool("hub", "close_issue", "Closes an issue of a repository"),
        tool("hub", "list_issues", "Lists the issues of a repository"),
    ]));
    let low = PickOptions {
        min_score: 0.0,
        ..PickOptions::default()
    };
    let selection = pick(&engine, "make an issue in the repository", &low);
    // All tools of the mirror serve this request.
    assert_eq!(
        (selection.picks.len(), ids(&selection)[0]),
        (3, "mirror/create_issue")
    );
    assert_eq!(
        selection.picks[0].same_as,
        ["hub/create_issue", "mirror/mirror_create_issue"]
    );
    assert!(
        selection
            .dropped
            .iter()
            .all(|dropped| dropped.reason == DropReason::Same),
        "{:?}",
        selection.dropped
    );
    assert_eq!(selection.dropped.len(), 2);
    let options_for_both = PickOptions {
        always_include: vec!["mirror/create_issue".into()],
        ..PickOptions::default()
    };
    assert_eq!(
        ids(&pick(
            &engine,
            "make an issue in the repository",
            &options_for_both
        ))[0],
        "mirror/create_issue"
    );
    assert_eq!(
        pick(&engine, "make an issue in the repository", &best()).dropped,
        []
    );
}

#[test]
fn tools_with_same_description_are_no_duplicates() {
    let text = "Works on the customers of the shop";
    let engine = engine(catalog(
        ["get", "update", "delete"].map(|verb| tool("shop", &format!("{verb}_customer"), text)),
    ));
    assert_eq!(
        pick(
            &engine,
            "work on the customers of the shop",
            &PickOptions::default()
        )
        .picks
        .len(),
        3
    );
}

/// A tool that requires others.
fn requiring(tool: Tool, requires: &[&str]) -> Tool {
    Tool {
        requires: requires.iter().map(|&name| name.to_owned()).collect(),
        ..tool
    }
}

/// Returns the ids of the required tools that are not picks.
fn required(selection: &Selection) -> Vec<&str> {
    selection
        .required
        .iter()
        .map(|pick| pick.tool.id.as_str())
        .collect()
}

#[test]
fn picked_tool_adds_the_tools_it_requires() {
    let engine = engine(catalog([
        requiring(
            tool("ops", "deploy_service", "Rolls a service out"),
            &["log_in", "nowhere"],
        ),
        requiring(
            tool("ops", "log_in", "Opens a session"),
            &["choose_account", "ops/deploy_service"],
        ),
        tool("ops", "choose_account", "Sets who one is"),
        tool("web", "choose_account", "Sets who one is"),
    ]));
    let one = PickOptions {
        max_candidates: 1,
        debug: true,
        ..PickOptions::default()
    };
    let selection = pick(&engine, "roll the service out", &one);
    assert_eq!(ids(&selection), ["ops/deploy_service"]);
    let mut actual = required(&selection);
    actual.sort_unstable();
    assert_eq!(
        actual,
        ["ops/choose_account", "ops/log_in"],
        "the one of its own source"
    );
    let log_in = selection
        .required
        .iter()
        .find(|pick| pick.tool.id == "ops/log_in")
        .expect("it is required");
    assert_eq!(log_in.provenance.required_by, ["ops/deploy_service"]);
    assert!(
        log_in
            .reason
            .starts_with("required by \"ops/deploy_service\""),
        "{}",
        log_in.reason
    );
    assert_eq!(selection.below_threshold + selection.shown_tools().len(), 4);
    let considered = selection.considered.as_ref().expect("it is asked for");
    assert_eq!(considered.iter().filter(|one| one.picked).count(), 1);
    let shown_ids: Vec<String> = selection
        .shown_tools()
        .iter()
        .map(|tool| tool.id.clone())
        .collect();
    assert_eq!(
        (shown_ids.len(), shown_ids[0].as_str()),
        (3, "ops/deploy_service")
    );
    // A tool that is picked by itself is not listed as required.
    let mentioning = pick(
        &engine,
        "`deploy_service` after `log_in`",
        &PickOptions::default(),
    );
    assert!(
        ids(&mentioning).contains(&"ops/log_in") && !required(&mentioning).contains(&"ops/log_in"),
        "{mentioning:?}"
    );
    let alone = pick(
        &engine,
        "roll the service out",
        &PickOptions {
            choice: SelectionMode::Best,
            ..one
        },
    );
    assert_eq!(
        (ids(&alone), required(&alone)),
        (vec!["ops/deploy_service"], vec![])
    );
}

#[test]
fn ineligible_required_tool_is_reported_not_added() {
    let mut secret = tool("vault", "read_key", "Reads a key");
    secret.safe = Some(false);
    let engine = engine(catalog([
        requiring(
            tool("ops", "deploy_service", "Rolls a service out"),
            &["vault/read_key"],
        ),
        secret,
    ]));
    let selection = pick(&engine, "roll the service out", &PickOptions::default());
    assert_eq!(ids(&selection), ["ops/deploy_service"]);
    let refused = &selection.ineligible.tools[0];
    assert_eq!(
        (refused.named.as_deref(), refused.asked_by),
        (Some("vault/read_key"), Some(NameOrigin::Tool))
    );
    assert_eq!(refused.required_by, ["ops/deploy_service"]);
    let pick = &selection.picks[0];
    assert_eq!(pick.provenance.requires_ineligible, ["vault/read_key"]);
    assert!(
        pick.reason
            .contains("requires ineligible tool \"vault/read_key\""),
        "{}",
        pick.reason
    );
}

#[test]
fn required_tools_are_limited() {
    let names: Vec<String> = (0..100).map(|number| format!("helper_{number}")).collect();
    let greedy = requiring(
        tool("ops", "deploy_service", "Rolls a service out"),
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let helpers = names.iter().map(|name| tool("ops", name, "Helps"));
    let engine = engine(catalog(std::iter::once(greedy).chain(helpers)));
    let options = |max_per_source| PickOptions {
        max_candidates: 1,
        max_per_source,
        ..PickOptions::default()
    };
    let selection = pick(&engine, "roll the service out", &options(None));
    assert_eq!((selection.picks.len(), selection.required.len()), (1, 16));
    assert!(
        selection
            .dropped
            .iter()
            .any(|dropped| dropped.reason == DropReason::MaxRequired)
    );
    let bounded = pick(&engine, "roll the service out", &options(Some(2)));
    assert_eq!((bounded.picks.len(), bounded.required.len()), (1, 1));
    assert!(
        bounded
            .dropped
            .iter()
            .any(|dropped| dropped.reason == DropReason::MaxPerSource)
    );
}
