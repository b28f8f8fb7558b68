//! The forms by which values are known.

use std::ops::Range;

use super::endings::is_ending;
use super::{MAX_QUOTED_BYTES, ValueKind};

/// Ends of names of hosts that are no English words and no endings of names of files.
const DOMAINS: [&str; 42] = [
    "com", "org", "net", "edu", "gov", "int", "io", "dev", "app", "ai", "co", "uk", "de", "fr",
    "es", "it", "nl", "eu", "at", "ch", "be", "se", "dk", "fi", "pl", "cz", "pt", "gr", "ie", "us",
    "ca", "au", "nz", "jp", "cn", "kr", "in", "br", "info", "example", "test", "local",
];
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const QUOTES: [(char, &str); 10] = [
    ('"', "\""),
    ('\'', "'"),
    ('“', "”"),
    ('‘', "’"),
    ('„', "“”"),
    ('«', "»"),
    ('»', "«"),
    ('‹', "›"),
    ('`', "`"),
    ('「', "」"),
];

/// Returns how long the ending of a file's name is, with its full stop, if the word is a path; 0
/// where it has none.
pub(super) fn path(word: &str) -> Option<usize> {
    if !word.bytes().any(|byte| matches!(byte, b'.' | b'/' | b'\\')) {
        return None;
    }
    let ending = ending(word);
    let has_letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count() >= 2;
    if word.contains("://") || word.contains('@') && !word.contains(['/', '\\']) {
        return None;
    }
    let letters = word.as_bytes();
    let from_drive =
        letters.len() > 3 && letters[0].is_ascii_alphabetic() && &letters[1..3] == b":\\";
    let from_root = ["~/", "/", "./", "../", "\\\\"]
        .iter()
        .any(|root| word.strip_prefix(root).is_some_and(has_letters));
    if from_drive || from_root {
        return Some(ending.unwrap_or(0));
    }
    let parts = word.split(['/', '\\']).count();
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_alphanumeric() || "_@.+~*-%".contains(c))
    };
    if parts > 1 {
        let is_path = (ending.is_some() || parts > 2)
            && has_letters(word)
            && word.split(['/', '\\']).all(is_part);
        return is_path.then(|| ending.unwrap_or(0));
    }
    let ending = ending?;
    let name = &word[..word.len() - ending];
    (ending > 3 || name.contains(char::is_alphabetic)).then_some(ending)
}

/// Returns how long the ending of a file's name is, with its full stop.
fn ending(word: &str) -> Option<usize> {
    let (name, ending) = word.rsplit_once('.')?;
    let is_name = name.ends_with(|c: char| c.is_alphanumeric() || "_-)]*".contains(c));
    (is_name && is_ending(ending)).then_some(ending.len() + 1)
}

/// Tells what a word is that is a value by itself, and where in the word it stands.
pub(super) fn single(word: &str) -> Option<(ValueKind, Range<usize>)> {
    let whole = 0..word.len();
    if word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    if let Some(scheme) = word.find("://") {
        let named = word[..scheme]
            .bytes()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(byte));
        let start = scheme - named.count();
        return (start < scheme).then_some((ValueKind::Url, start..word.len()));
    }
    if word.starts_with("www.") {
        return Some((ValueKind::Url, whole));
    }
    if let Some((user, host)) = word.split_once('@') {
        let is_part = |part: &str| {
            part.chars()
                .all(|c| c.is_alphanumeric() || "_.+-".contains(c))
        };
        return (!user.is_empty() && is_part(user) && is_part(host))
            .then_some((ValueKind::Email, whole));
    }
    if !word.bytes().any(|byte| byte.is_ascii_digit()) {
        return is_host(word).then_some((ValueKind::Url, whole));
    }
    let kind = if is_number(word) {
        ValueKind::Number
    } else if is_host(word) {
        ValueKind::Url
    } else if is_id(word) {
        ValueKind::Id
    } else {
        return None;
    };
    Some((kind, whole))
}

/// Returns `true` for the name of a host, with or without a path.
fn is_host(word: &str) -> bool {
    let host = word.split('/').next().unwrap_or(word);
    let Some((name, end)) = host.rsplit_once('.') else {
        return false;
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    name.bytes().filter(u8::is_ascii_alphabetic).count() >= 3
        && DOMAINS.contains(&end)
        && name.split('.').all(is_label)
}

/// Returns `true` for a number: with a sign, a currency, marks between digits, and a short unit
/// behind it; or two, from one to the other.
fn is_number(word: &str) -> bool {
    if let Some((from, to)) = word.split_once('-').filter(|(from, _)| !from.is_empty()) {
        return [from, to]
            .iter()
            .all(|end| is_digits(end) && end.len() <= 4);
    }
    let unsigned = word.trim_start_matches(['+', '-']);
    let bare = unsigned.trim_start_matches(['$', '€', '£', '¥']);
    let is_mark = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',');
    let unit = bare.trim_start_matches(is_mark);
    let digits = &bare[..bare.len() - unit.len()];
    let is_short = unit.chars().count() <= 3
        && unit
            .chars()
            .all(|c| c.is_alphabetic() || "%€$£¥°".contains(c));
    // A number of five digits and more is one of an order or a member rather than an amount.
    let is_long =
        unit.is_empty() && word.len() >= 5 && word.bytes().all(|byte| byte.is_ascii_digit());
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && is_short
        && !is_long
}

/// Returns `true` for what has digits and is no number, and no word with a number behind it such as
/// `user2`.
fn is_id(word: &str) -> bool {
    let body = word.strip_prefix('#').unwrap_or(word);
    let is_mark = |c: char| "-_:/.#".contains(c);
    if body.is_empty() || !body.chars().all(|c| c.is_alphanumeric() || is_mark(c)) {
        return false;
    }
    let letters = body.bytes().take_while(u8::is_ascii_lowercase).count();
    if letters >= 3 && body.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return false;
    }
    let digits = body.bytes().filter(u8::is_ascii_digit).count();
    let has_capitals = body.bytes().any(|byte| byte.is_ascii_uppercase());
    let mut parts = body.split(is_mark);
    // `s3_put_object` and `log4j-api` are names; a key has digits in its last parts, or is written
    // in capitals.
    let ends_in_number = parts
        .next_back()
        .is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_digit()));
    let is_long_code = digits >= 2 && body.len() >= 16;
    ends_in_number
        || is_long_code
        || has_capitals && !body.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Returns where a date or time stands that begins with the first of `words`, and of how many of
/// them it is.
pub(super) fn date(text: &str, words: &[Range<usize>]) -> Option<(Range<usize>, usize)> {
    let word = |at: usize| words.get(at).map_or("", |word| &text[word.clone()]);
    // What stands between the words of a date: nothing but white space, or a comma.
    let follows = |at: usize| {
        let between = words
            .get(at)
            .map_or("?", |next| &text[words[at - 1].end..next.start]);
        between
            .chars()
            .all(|c| c.is_whitespace() || matches!(c, ',' | '.'))
    };
    let first = word(0);
    let begins_with_month = || first.starts_with(char::is_uppercase) && month(first).is_some();
    if !first.starts_with(|c: char| c.is_ascii_digit()) && !begins_with_month() {
        return None;
    }
    let year = |at: usize| follows(at) && word(at).len() == 4 && is_digits(word(at));
    let end = if is_date(first) || is_clock(first, ':') {
        usize::from(is_clock(first, ':') && follows(1) && is_half(word(1)))
    } else if is_day(first) && follows(1) {
        let of = usize::from(word(1).eq_ignore_ascii_case("of"));
        if month(word(1 + of)).is_some() && follows(1 + of) {
            1 + of + usize::from(year(2 + of))
        } else if is_digits(first) && is_half(word(1)) {
            1
        } else {
            return None;
        }
    } else {
        if !begins_with_month() || !follows(1) || !is_day(word(1)) {
            return None;
        }
        1 + usize::from(year(2))
    };
    Some((words[0].start..words[end].end, end + 1))
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// `am` or `pm`.
fn is_half(word: &str) -> bool {
    word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm")
}

/// A day of a month: `3`, `14th`.
fn is_day(word: &str) -> bool {
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .unwrap_or(word);
    is_digits(digits) && digits.len() <= 2 && (1..=31).contains(&digits.parse().unwrap_or(0_u8))
}

/// A month of English, or its beginning of three letters or four.
fn month(word: &str) -> Option<usize> {
    let is_it = |month: &&str| {
        word.eq_ignore_ascii_case(month)
            || (3..=4).contains(&word.len())
                && month
                    .get(..word.len())
                    .is_some_and(|own| own.eq_ignore_ascii_case(word))
    };
    MONTHS.iter().position(is_it)
}

/// `2024-05-01`, `2024-05-01T10:30:00Z`, `4.5.1991` or `3/14/24`.
fn is_date(word: &str) -> bool {
    let (day, time) = word
        .split_once(['T', 't'])
        .map_or((word, None), |(day, time)| (day, Some(time)));
    let is_time = time.is_none_or(|time| {
        is_clock(
            time.trim_end_matches(['Z', 'z'])
                .split(['+', '.'])
                .next()
                .unwrap_or(time),
            ':',
        )
    });
    let parts = |mark: char, lengths: [&[usize]; 3]| {
        let mut parts = day.split(mark);
        let all = lengths.iter().all(|lengths| {
            parts
                .next()
                .is_some_and(|part| is_digits(part) && lengths.contains(&part.len()))
        });
        all && parts.next().is_none()
    };
    let by_day = |mark| parts(mark, [&[1, 2], &[1, 2], &[2, 4]]) && time.is_none();
    is_time && (parts('-', [&[4], &[1, 2], &[1, 2]]) || by_day('.') || by_day('/'))
}

/// `10:14`, `10:14:30`, `7:30am` or `6pm`.
fn is_clock(word: &str, mark: char) -> bool {
    let half = word
        .len()
        .checked_sub(2)
        .and_then(|at| word.get(at..))
        .is_some_and(is_half);
    let digits = if half { &word[..word.len() - 2] } else { word };
    let parts = digits.split(mark).count();
    let mut all = digits.split(mark).enumerate();
    let fit = all
        .all(|(place, part)| is_digits(part) && (part.len() == 2 || place == 0 && part.len() == 1));
    fit && (2..=3).contains(&parts) || half && parts == 1 && fit
}

/// Returns where the quoted texts stand, without their quotes.
pub(super) fn quoted(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut before = ' ';
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        let start = at + letter.len_utf8();
        if letter.is_alphanumeric() || letter == ' ' {
            (at, before) = (start, letter);
            continue;
        }
        let closing = QUOTES
            .iter()
            .find(|(opening, _)| *opening == letter)
            .map(|(_, closing)| *closing);
        let may_open = !before.is_alphanumeric() && !matches!(before, '"' | '\'')
            || !letter.is_ascii() && is_wide(letter);
        let end = closing
            .filter(|_| may_open)
            .and_then(|closing| closing_quote(text, start, closing));
        match end {
            Some(end) => {
                found.push(start..end);
                let last = text[end..].chars().next().unwrap_or(letter);
                (at, before) = (end + last.len_utf8(), last);
            }
            None => (at, before) = (start, letter),
        }
    }
    found
}

/// Quotes of scripts that are written without spaces.
fn is_wide(quote: char) -> bool {
    quote == '「'
}

/// Returns where the text ends that a quote before `start` begins.
fn closing_quote(text: &str, start: usize, closing: &str) -> Option<usize> {
    let rest = &text[start..text.floor_char_boundary(start + MAX_QUOTED_BYTES)];
    if rest.starts_with(char::is_whitespace) {
        return None;
    }
    let mut before = None;
    for (at, letter) in rest.char_indices() {
        let behind = start + at + letter.len_utf8();
        let ends = || is_wide_end(letter) || !text[behind..].starts_with(char::is_alphanumeric);
        if closing.contains(letter)
            && before.is_some_and(|before: char| !before.is_whitespace())
            && ends()
        {
            return Some(start + at);
        }
        before = Some(letter);
    }
    None
}

fn is_wide_end(quote: char) -> bool {
    quote == '」'
}
