//! Requests with the values that they contain. The requests were written before the code.

use proptest::prelude::*;

use super::ValueKind::{Date, Email, Id, Number, Path, Text, Url};
use super::{ValueKind, values};

/// Returns the values of a text, each with its kind.
fn kinds_and_texts(text: &str) -> Vec<(ValueKind, &str)> {
    values(text)
        .into_iter()
        .map(|value| (value.kind, &text[value.range]))
        .collect()
}

fn check(requests: &[(&str, &[(ValueKind, &str)])]) {
    for (text, expected) in requests {
        assert_eq!(kinds_and_texts(text), *expected, "{text}");
    }
}

#[test]
fn files_and_paths() {
    check(&[
        (
            "rename notes.txt to notes-2024.txt",
            &[(Path, "notes.txt"), (Path, "notes-2024.txt")],
        ),
        (
            "lines 300-340 of server.log",
            &[(Number, "300-340"), (Path, "server.log")],
        ),
        (
            "who wrote line 214 of src/billing/tax.py?",
            &[(Number, "214"), (Path, "src/billing/tax.py")],
        ),
        ("tar up /etc/postfix, please", &[(Path, "/etc/postfix")]),
        (
            "open ~/Movies and (./mobile).",
            &[(Path, "~/Movies"), (Path, "./mobile")],
        ),
        (
            r"copy C:\Users\ana\cv.docx",
            &[(Path, r"C:\Users\ana\cv.docx")],
        ),
        ("what's in offer_0412.docx", &[(Path, "offer_0412.docx")]),
        ("where is the key kv/prod/ldap", &[(Path, "kv/prod/ldap")]),
        (
            "the file résumé.pdf and 写真.jpg",
            &[(Path, "résumé.pdf"), (Path, "写真.jpg")],
        ),
        ("tea and/or coffee, yes/no", &[]),
        ("e.g. a file, i.e. text", &[]),
        ("a / b ~ c", &[]),
    ]);
}

#[test]
fn addresses() {
    check(&[
        (
            "shorten https://example.org/a?b=c.",
            &[(Url, "https://example.org/a?b=c")],
        ),
        ("see (www.example.org)", &[(Url, "www.example.org")]),
        (
            "the about page of novaquill.com changed",
            &[(Url, "novaquill.com")],
        ),
        (
            "is pricing.example.com/plans up?",
            &[(Url, "pricing.example.com/plans")],
        ),
        (
            "mail tl@corp.es, then jo.doe+x@mail.example.org.",
            &[(Email, "tl@corp.es"), (Email, "jo.doe+x@mail.example.org")],
        ),
        ("write to legal@ about it", &[(Email, "legal@")]),
        ("ping @marta", &[]),
        ("meet me @ noon", &[]),
        ("https:// is missing its host", &[(Url, "https://")]),
    ]);
}

#[test]
fn dates_and_times() {
    check(&[
        ("move it to 2024-05-01", &[(Date, "2024-05-01")]),
        (
            "at 2024-05-01T10:30:00Z sharp",
            &[(Date, "2024-05-01T10:30:00Z")],
        ),
        (
            "due 15 Aug 2034, or May 3rd",
            &[(Date, "15 Aug 2034"), (Date, "May 3rd")],
        ),
        ("from 3 to 14 August", &[(Number, "3"), (Date, "14 August")]),
        (
            "on the 4th of July at 6 pm",
            &[(Date, "4th of July"), (Date, "6 pm")],
        ),
        (
            "call at 10:14 or 7:30am",
            &[(Date, "10:14"), (Date, "7:30am")],
        ),
        (
            "born 4.5.1991, paid 3/14/24",
            &[(Date, "4.5.1991"), (Date, "3/14/24")],
        ),
        ("we may march on", &[]),
        ("there may be 3 of them", &[(Number, "3")]),
    ]);
}

#[test]
fn numbers_and_amounts() {
    check(&[
        (
            "pay 5,000 rather than 50.",
            &[(Number, "5,000"), (Number, "50")],
        ),
        (
            "$40 or 40€ or 20%",
            &[(Number, "$40"), (Number, "40€"), (Number, "20%")],
        ),
        ("carry 30 kg for 2.5 km", &[(Number, "30"), (Number, "2.5")]),
        (
            "250k users, 10GB, 3rd place",
            &[(Number, "250k"), (Number, "10GB"), (Number, "3rd")],
        ),
        ("at -3.5 degrees", &[(Number, "-3.5")]),
        ("a hundred", &[]),
    ]);
}

#[test]
fn identifiers_and_keys() {
    check(&[
        (
            "close AP-7790 and D-8820",
            &[(Id, "AP-7790"), (Id, "D-8820")],
        ),
        ("is KB0009118 any use?", &[(Id, "KB0009118")]),
        ("order #10455 is broken", &[(Id, "#10455")]),
        ("who is 0x7be8aa44e1?", &[(Id, "0x7be8aa44e1")]),
        ("revert 3f9c2ab81", &[(Id, "3f9c2ab81")]),
        (
            "drop 123e4567-e89b-12d3-a456-426614174000",
            &[(Id, "123e4567-e89b-12d3-a456-426614174000")],
        ),
        ("member 39001001 is back", &[(Id, "39001001")]),
        ("WELD_SEAM_88 hits the clamp", &[(Id, "WELD_SEAM_88")]),
        ("my login is user2", &[]),
        ("call s3_put_object and read_file", &[]),
        ("HTTP and JSON", &[]),
    ]);
}

#[test]
fn quoted_text() {
    check(&[
        (
            r#"make a shelf "Rainy days" today"#,
            &[(Text, "Rainy days")],
        ),
        ("called 'Rain again', one line", &[(Text, "Rain again")]),
        (
            "say “It rained” and „Es regnete“ and «il a plu»",
            &[
                (Text, "It rained"),
                (Text, "Es regnete"),
                (Text, "il a plu"),
            ],
        ),
        ("don't touch Bob's and Ann's", &[]),
        ("the wings' tips aren't his'", &[]),
        ("send 'a.txt'", &[(Path, "a.txt")]),
        ("call `read_file` now", &[(Text, "read_file")]),
        (r#"an open "quote that goes on"#, &[]),
        (r#""" and '' are empty"#, &[]),
        (
            r#"write "at 10:14" there"#,
            &[(Text, "at 10:14"), (Date, "10:14")],
        ),
        ("訳して「おはよう」と", &[(Text, "おはよう")]),
        ("🚀 say 'go 🚀 now' 🎉", &[(Text, "go 🚀 now")]),
        ("'the whole request'", &[]),
    ]);
}

#[test]
fn file_extension_is_not_part_of_the_inner_range() {
    let extension = |text: &str| {
        let value = values(text).remove(0);
        text[value.range.start..value.range.end]
            .strip_prefix(&text[value.inner])
            .map(str::to_owned)
    };
    assert_eq!(extension("open offer.docx").as_deref(), Some(".docx"));
    assert_eq!(extension("open src/tax.py").as_deref(), Some(".py"));
    assert_eq!(extension("open /etc/postfix").as_deref(), Some(""));
    assert_eq!(extension("pay 5,000").as_deref(), Some(""));
}

#[test]
fn ranges_in_hostile_text_are_valid() {
    for part in [
        "\"", "'", "“", "a\"", "\" ", "'a ", "@", "a@", "/", "://", "1-", "#", ".", "3 ", "May ",
        "«»", "\u{0}", "ﷺ",
    ] {
        // Four times the longest text of a request.
        let text = part.repeat((1 << 18) / part.len());
        assert!(
            values(&text)
                .iter()
                .all(|value| text.get(value.range.clone()).is_some()),
            "{part:?}"
        );
    }
}

proptest! {
    #[test]
    fn values_lie_within_the_text(
        text in concat!(
            r#"((May|3rd|4|10:14|'|"|“|”|«|a\.txt|@|x@y|://|www\.|/|\\|~|#|-|AB|12|é|猫|🚀|\.|,| "#,
            r#"|\n|\PC){1,3}){0,24}"#,
        ),
    ) {
        let mut last = 0;
        for value in values(&text) {
            let (range, inner) = (&value.range, &value.inner);
            let is_part = text.get(range.clone()).is_some_and(|part| !part.is_empty());
            prop_assert!(is_part, "{:?}", value);
            prop_assert!(text.get(inner.clone()).is_some(), "{:?}", value);
            prop_assert!(range.start <= inner.start && inner.end <= range.end, "{:?}", value);
            prop_assert!(range.start >= last, "in order: {:?}", value);
            last = range.start;
        }
    }
}
