//! Words of requests that no tool contains as they are written: typos, abbreviations, other forms,
//! compounds and mixed languages.

use picktools::selection::{AlternativeKind, TermEvidence};
use picktools::{Catalog, Engine, PickOptions};

use crate::support::{catalog, engine, ids, pick, tool};

/// A catalog in which some tools have names and texts in other languages.
fn office() -> Catalog {
    catalog([
        tool(
            "mail",
            "send_email",
            "Writes an email to somebody and sends it.",
        ),
        tool("mail", "search_mailbox", "Looks for messages by words."),
        tool(
            "code",
            "create_pull_request",
            "Opens a pull request (PR) for a branch.",
        ),
        tool(
            "code",
            "review_pull_request",
            "Adds remarks to the pull request of a colleague.",
        ),
        tool("code", "close_issue", "Ends an issue with a comment."),
        tool(
            "air",
            "air_quality_index",
            "Tells how clean the outdoor breath of a city is: air quality index.",
        ),
        tool(
            "people",
            "request_leave",
            "Asks for paid time off: days on which somebody does not work.",
        ),
        tool(
            "calendar",
            "schedule_meeting",
            "Puts a meeting with several guests into the diary.",
        ),
        tool(
            "buero",
            "rechnung_erstellen",
            "Schreibt eine neue Rechnung für einen Kunden.",
        ),
        tool(
            "buero",
            "kunde_suchen",
            "Findet einen Kunden nach Namen oder Nummer.",
        ),
        tool(
            "buero",
            "lager_pruefen",
            "Zeigt den Bestand eines Artikels im Lager.",
        ),
        tool(
            "kontor",
            "faktura_opret",
            "Opretter en faktura til en kunde.",
        ),
        tool(
            "oficina",
            "crear_factura",
            "Crea una factura para un cliente.",
        ),
        tool(
            "ofis",
            "fatura_olustur",
            "Müşteri için yeni bir fatura hazırlar.",
        ),
        tool("офис", "создать_счёт", "Создаёт счёт для клиента."),
    ])
}

/// Returns options with which a tool of any score is picked.
fn all_scores() -> PickOptions {
    PickOptions {
        min_score: 0.0,
        ..PickOptions::default()
    }
}

fn by_keywords() -> Engine {
    let builder = Engine::builder(office()).keyword_only();
    builder.build().expect("keywords need nothing")
}

fn first(engine: &Engine, request: &str) -> String {
    let selection = pick(engine, request, &all_scores());
    ids(&selection)
        .first()
        .map(|&id| id.to_owned())
        .unwrap_or_default()
}

/// Returns the evidence of the words that are read as others, for the first pick.
fn readings(engine: &Engine, request: &str) -> Vec<TermEvidence> {
    let selection = pick(engine, request, &all_scores());
    let keyword = selection.picks[0].provenance.keyword.clone();
    let mut terms = keyword.expect("there are keywords").terms;
    terms.retain(|term| term.read_as.is_some());
    terms
}

#[test]
fn misspelt_words_find_their_tool() {
    for engine in [by_keywords(), engine(office())] {
        for (request, tool) in [
            ("sned an emial", "mail/send_email"),
            ("shcedule a meetign", "calendar/schedule_meeting"),
            ("creat a pull reqest", "code/create_pull_request"),
            ("serach my mailbx", "mail/search_mailbox"),
            ("neue Rechnugn schreiben", "buero/rechnung_erstellen"),
        ] {
            assert_eq!(first(&engine, request), tool, "{request}");
        }
    }
}

#[test]
fn reason_names_the_word_as_which_a_typo_is_read() {
    let selection = pick(&by_keywords(), "sned an emial", &all_scores());
    let reason = &selection.picks[0].reason;
    assert!(reason.contains(r#""emial" (read as "email")"#), "{reason}");
    assert!(reason.contains(r#""sned" (read as "send")"#), "{reason}");
}

#[test]
fn correct_words_are_never_read_as_others() {
    let engine = by_keywords();
    // The catalog has none of these words, and similar ones.
    for request in [
        "lend a mall",
        "Please ask Emila",
        "the meeting with Senda",
        "mail_sned",
    ] {
        let selection = pick(&engine, request, &all_scores());
        for picked in &selection.picks {
            let terms = picked
                .provenance
                .keyword
                .as_ref()
                .map(|keyword| &keyword.terms);
            let is_read =
                terms.is_some_and(|terms| terms.iter().any(|term| term.read_as.is_some()));
            assert!(!is_read, "{request}: {}", picked.reason);
        }
    }
}

#[test]
fn exact_word_outweighs_a_corrected_one() {
    let tools = [
        tool("a", "paint_wall", "Paints a wall."),
        tool("b", "print_page", "Prints a page."),
    ];
    let engine = Engine::builder(catalog(tools))
        .keyword_only()
        .build()
        .expect("valid");
    assert_eq!(first(&engine, "print or painz"), "b/print_page");
}

#[test]
fn abbreviations_find_their_meaning() {
    let engine = by_keywords();
    for (request, tool) in [
        ("create a PR", "code/create_pull_request"),
        ("review the pr of Ana", "code/review_pull_request"),
        ("what is the AQI in Turin", "air/air_quality_index"),
        ("PTO next Friday", "people/request_leave"),
    ] {
        assert_eq!(first(&engine, request), tool, "{request}");
    }
    let readings = readings(&engine, "review the PR");
    let reading = readings[0]
        .read_as
        .as_ref()
        .expect("only such terms are left");
    assert_eq!(reading.kind, AlternativeKind::Abbreviation);
    assert_eq!(reading.text, "pull request");
    let selection = pick(&engine, "review the PR", &all_scores());
    let reason = &selection.picks[0].reason;
    assert_eq!(
        reason.matches(r#""PR" (short for "pull request")"#).count(),
        1,
        "{reason}"
    );
}

#[test]
fn type_of_a_file_is_not_an_abbreviation() {
    let engine = by_keywords();
    for request in ["rename plan.pr", "review the request in notes.pr, please"] {
        let selection = pick(&engine, request, &all_scores());
        for pick in &selection.picks {
            assert!(!pick.reason.contains("short for"), "{}", pick.reason);
        }
    }
}

#[test]
fn other_forms_of_a_word_find_their_tool() {
    let engine = by_keywords();
    for (request, tool) in [
        ("Rechnungen", "buero/rechnung_erstellen"),
        (
            "zeige mir die Rechnungen für den Kunden",
            "buero/rechnung_erstellen",
        ),
        ("hacer las facturas del mes", "oficina/crear_factura"),
        ("müşterinin faturaları", "ofis/fatura_olustur"),
        ("создай счета для клиентов", "офис/создать_счёт"),
    ] {
        assert_eq!(first(&engine, request), tool, "{request}");
    }
}

#[test]
fn compounds_find_the_tools_of_their_parts() {
    let engine = by_keywords();
    for (request, tool) in [
        ("Kundenrechnung für Meier", "buero/rechnung_erstellen"),
        ("Lagerbestand", "buero/lager_pruefen"),
        ("vis mig kundefakturaer", "kontor/faktura_opret"),
    ] {
        assert_eq!(first(&engine, request), tool, "{request}");
    }
    let reading = readings(&engine, "Lagerbestand")
        .remove(0)
        .read_as
        .expect("it is read");
    assert_eq!(reading.kind, AlternativeKind::Compound);
}

#[test]
fn abbreviation_in_mixed_text_finds_its_tool() {
    for engine in [by_keywords(), engine(office())] {
        for request in [
            "帮我 create a PR",
            "帮我create一个PR",
            "ein PR für meinen Branch anlegen",
        ] {
            assert_eq!(
                first(&engine, request),
                "code/create_pull_request",
                "{request}"
            );
        }
    }
}

#[test]
fn updated_and_saved_engines_read_words_alike() {
    let office = office();
    let mut tools: Vec<_> = office
        .tools()
        .expect("in memory")
        .iter()
        .map(|tool| (**tool).clone())
        .collect();
    let removed = tools.split_off(9);
    let before = engine(catalog(removed.into_iter().chain([tool(
        "x",
        "sent_emails",
        "Lists them.",
    )])));
    let updated = before
        .with_catalog(catalog(tools.clone()))
        .expect("it can be indexed");
    let built = engine(catalog(tools));
    let folder = tempfile::tempdir().expect("there is space");
    built
        .save(folder.path(), serde_json::Value::Null)
        .expect("it can be written");
    let opened = engine(Catalog::open_saved(folder.path()).expect("intact"));
    for request in ["sned an emial", "Rechnungen", "create a PR", "Lagerbestand"] {
        let answer = |engine: &Engine| {
            let selection = pick(engine, request, &all_scores());
            serde_json::to_string(&selection.picks).expect("it serialises")
        };
        assert_eq!(answer(&updated), answer(&built), "{request}");
        assert_eq!(answer(&opened), answer(&built), "{request}");
    }
}
