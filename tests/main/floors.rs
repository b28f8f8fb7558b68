//! Floors: tools that are always included, and fallbacks, by name and by glob.

use std::sync::LazyLock;

use picktools::names::PatternError;
use picktools::{Access, Engine, PickError, PickOptions, Query, Selection};

use crate::support::{catalog, engine, ids, pick, tool, workplace};

static WORKPLACE: LazyLock<Engine> = LazyLock::new(|| engine(workplace()));

/// A request that tools of the fixture serve, one that none does, one for which all scores are low,
/// and small talk.
const SERVED: &str = "what is the weather in Oslo tomorrow";
const UNSERVED: &str = "how high is mount everest";
const UNLIKELY: &str = "price of bread";
const SMALL_TALK: &str = "hi, how are you";

fn always(names: &[&str]) -> PickOptions {
    PickOptions {
        max_candidates: 12,
        always_include: names.iter().map(|&name| name.to_owned()).collect(),
        ..PickOptions::default()
    }
}

fn fallbacks(names: &[&str]) -> PickOptions {
    PickOptions {
        fallbacks: names.iter().map(|&name| name.to_owned()).collect(),
        ..PickOptions::default()
    }
}

fn included(selection: &Selection) -> Vec<&str> {
    let mut included = Vec::new();
    for pick in &selection.picks {
        if pick.provenance.always_included {
            included.push(pick.tool.id.as_str());
        }
    }
    included.sort_unstable();
    included
}

/// Returns the fallbacks among the picks.
fn picked_fallbacks(selection: &Selection) -> Vec<&str> {
    let mut picked = Vec::new();
    for pick in &selection.picks {
        if pick.provenance.fallback {
            assert!(pick.reason.starts_with("fallback"), "{}", pick.reason);
            picked.push(pick.tool.id.as_str());
        }
    }
    picked
}

#[test]
fn glob_includes_the_eligible_tools_whose_id_or_name_matches() {
    let tools = [
        tool("git", "list_branches", "Lists branches"),
        tool("git", "list_tags", "Lists tags"),
        tool("mail", "list_drafts", "Lists drafts"),
        tool("mail", "send", "Sends a message"),
    ];
    let engine = engine(catalog(tools));
    let included = |names: &[&str]| {
        let selection = pick(&engine, "", &always(names));
        included(&selection)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(included(&["git/*"]), ["git/list_branches", "git/list_tags"]);
    assert_eq!(
        included(&["list_*"]),
        ["git/list_branches", "git/list_tags", "mail/list_drafts"]
    );
    assert_eq!(
        included(&["*/list_{tags,drafts}", "send"]),
        ["git/list_tags", "mail/list_drafts", "mail/send"]
    );
    assert_eq!(included(&["*"]).len(), 4);
}

#[test]
fn glob_includes_no_ineligible_tool() {
    let everything = |allow_unsafe| PickOptions {
        max_candidates: 1_000,
        access: Access {
            allow_unsafe,
            ..Access::default()
        },
        ..always(&["*"])
    };
    let strict = pick(&WORKPLACE, "", &everything(false));
    assert_eq!(strict.picks.len(), 190);
    assert!(pick(&WORKPLACE, "", &everything(true)).picks.len() > 190);
}

#[test]
fn tool_whose_name_looks_like_a_glob_is_included_by_its_name() {
    let engine = engine(catalog([
        tool("a", "read[0]", "Reads the first item"),
        tool("a", "read0", "Reads zero"),
    ]));
    let selection = pick(&engine, "", &always(&["a/read[0]"]));
    assert_eq!(included(&selection), ["a/read[0]"]);
}

#[test]
fn tool_whose_name_is_no_valid_glob_is_a_fallback_by_its_name() {
    let engine = engine(catalog([
        tool("a", "read[", "Reads the first item"),
        tool("a", "wash", "Washes the car"),
    ]));
    let selection = pick(&engine, UNSERVED, &fallbacks(&["a/read["]));
    assert_eq!(ids(&selection), ["a/read["]);
}

#[test]
fn glob_without_a_tool_is_an_unknown_value() {
    for options in [always(&["no_such/*"]), fallbacks(&["no_such/*"])] {
        let selection = pick(&WORKPLACE, SERVED, &options);
        let unknown: Vec<&str> = selection
            .unknown_values
            .iter()
            .map(|unknown| unknown.value.as_str())
            .collect();
        assert_eq!(unknown, ["no_such/*"]);
        assert!(!selection.picks.is_empty(), "the others are picked");
    }
}

#[test]
fn invalid_glob_and_unknown_name_are_errors_of_their_option() {
    for (option, options) in [
        ("always_include", always(&["files/["])),
        ("fallbacks", fallbacks(&["files/["])),
    ] {
        match WORKPLACE.pick(&Query::new(SERVED), &options) {
            Err(PickError::InvalidPattern {
                option: named,
                error: PatternError::Invalid { pattern, .. },
            }) => assert_eq!((named, pattern.as_str()), (option, "files/[")),
            other => panic!("{other:?}"),
        }
    }
    let error = WORKPLACE
        .pick(&Query::new(SERVED), &fallbacks(&["search_filez"]))
        .expect_err("no tool has this name")
        .to_string();
    assert!(
        error.contains("fallbacks") && error.contains("search_files"),
        "{error}"
    );
}

#[test]
fn fallbacks_are_picked_if_nothing_else_fits() {
    let options = fallbacks(&["files/search_files", "wiki/search_*"]);
    let selection = pick(&WORKPLACE, UNSERVED, &options);
    let mut picked = picked_fallbacks(&selection);
    assert_eq!(picked.len(), selection.picks.len());
    picked.sort_unstable();
    assert_eq!(picked, ["files/search_files", "wiki/search_pages"]);
    let without = pick(&WORKPLACE, UNSERVED, &PickOptions::default());
    assert!(without.picks.is_empty());
    assert_eq!(
        selection.answerable, without.answerable,
        "a fallback does not make a request answerable"
    );
    assert_eq!(
        selection.nothing_fits.map(|kind| kind.to_string()),
        without.nothing_fits.map(|kind| kind.to_string())
    );
}

#[test]
fn best_fallback_takes_a_place_if_no_tool_is_likely_to_fit() {
    let selection = pick(
        &WORKPLACE,
        UNLIKELY,
        &fallbacks(&["wiki/search_pages", "files/search_files"]),
    );
    assert_eq!(selection.picks.len(), 3);
    assert_eq!(picked_fallbacks(&selection).len(), 1);
}

#[test]
fn fallbacks_stay_away_from_served_requests_small_talk_and_named_tools() {
    let options = fallbacks(&["files/*", "wiki/search_pages"]);
    for request in [
        SERVED,
        SMALL_TALK,
        "thanks!",
        "",
        "use `reservar_sala` for mount everest",
    ] {
        let selection = pick(&WORKPLACE, request, &options);
        assert_eq!(picked_fallbacks(&selection), [""; 0], "{request:?}");
        let plain = pick(&WORKPLACE, request, &PickOptions::default());
        assert_eq!(ids(&selection), ids(&plain), "{request:?}");
    }
}

#[test]
fn tools_in_use_do_not_keep_fallbacks_away() {
    let options = PickOptions {
        in_use: vec!["chat/send_direct_message".to_owned()],
        ..fallbacks(&["wiki/search_pages"])
    };
    let selection = pick(&WORKPLACE, UNSERVED, &options);
    assert_eq!(picked_fallbacks(&selection), ["wiki/search_pages"]);
    assert!(ids(&selection).contains(&"chat/send_direct_message"));
}

#[test]
fn ineligible_fallback_is_not_picked() {
    let options = PickOptions {
        access: Access {
            deny_sources: ["wiki".to_owned()].into(),
            ..Access::default()
        },
        ..fallbacks(&["wiki/search_pages"])
    };
    let selection = pick(&WORKPLACE, UNSERVED, &options);
    assert_eq!(ids(&selection), [""; 0]);
}
