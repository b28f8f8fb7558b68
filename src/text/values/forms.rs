//! Recognition of values by their form.

use std::ops::Range;

use super::extensions::is_extension;
use super::kind::ValueKind;

/// The longest quotation that is a value, in bytes.
const MAX_QUOTED_BYTES: usize = 300;
/// Top-level domains that are neither common English words nor file extensions.
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

/// Returns the length of the file extension, including its full stop, if the word is a path; 0 if
/// the path has no extension.
pub(super) fn path_extension_length(word: &str) -> Option<usize> {
    if !word.bytes().any(|byte| matches!(byte, b'.' | b'/' | b'\\')) {
        return None;
    }
    let extension = extension_length(word);
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
        return Some(extension.unwrap_or(0));
    }
    let parts = word.split(['/', '\\']).count();
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_alphanumeric() || "_@.+~*-%".contains(c))
    };
    if parts > 1 {
        let is_path = (extension.is_some() || parts > 2)
            && has_letters(word)
            && word.split(['/', '\\']).all(is_part);
        return is_path.then(|| extension.unwrap_or(0));
    }
    let extension = extension?;
    let name = &word[..word.len() - extension];
    (extension > 3 || name.contains(char::is_alphabetic)).then_some(extension)
}

/// Returns the length of the file extension of a word, including its full stop.
fn extension_length(word: &str) -> Option<usize> {
    let (name, extension) = word.rsplit_once('.')?;
    let is_name = name.ends_with(|c: char| c.is_alphanumeric() || "_-)]*".contains(c));
    (is_name && is_extension(extension)).then_some(extension.len() + 1)
}

/// Returns the kind and range of the value in a word, if the word is a value other than a path or
/// date.
pub(super) fn classify_word(word: &str) -> Option<(ValueKind, Range<usize>)> {
    let complete = 0..word.len();
    if word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    if let Some(scheme) = word.find("://") {
        let scheme_bytes = word[..scheme]
            .bytes()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(byte));
        let start = scheme - scheme_bytes.count();
        return (start < scheme).then_some((ValueKind::Url, start..word.len()));
    }
    if word.starts_with("www.") {
        return Some((ValueKind::Url, complete));
    }
    if let Some((user, host)) = word.split_once('@') {
        let is_part = |part: &str| {
            part.chars()
                .all(|c| c.is_alphanumeric() || "_.+-".contains(c))
        };
        return (!user.is_empty() && is_part(user) && is_part(host))
            .then_some((ValueKind::Email, complete));
    }
    if !word.bytes().any(|byte| byte.is_ascii_digit()) {
        return is_host(word).then_some((ValueKind::Url, complete));
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
    Some((kind, complete))
}

/// Returns `true` for a host name, with or without a path.
fn is_host(word: &str) -> bool {
    let host = word.split('/').next().unwrap_or(word);
    let Some((name, domain)) = host.rsplit_once('.') else {
        return false;
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-')
    };
    name.bytes().filter(u8::is_ascii_alphabetic).count() >= 3
        && DOMAINS.contains(&domain)
        && name.split('.').all(is_label)
}

/// Returns `true` for a number or a range of two numbers.
///
/// A number may have a sign, a currency, separators between its digits, and a short unit after it.
fn is_number(word: &str) -> bool {
    if let Some((from, to)) = word.split_once('-')
        && !from.is_empty()
    {
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
    // A number with five or more digits usually is an order number or the like, not an amount.
    let is_long =
        unit.is_empty() && word.len() >= 5 && word.bytes().all(|byte| byte.is_ascii_digit());
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && is_short
        && !is_long
}

/// Returns `true` for an identifier: it has digits, and is neither a number nor a word with a
/// number at its end, such as `user2`.
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
    // `s3_put_object` and `log4j-api` are names. An identifier has digits in its last part, or is
    // in capitals.
    let ends_in_number = parts
        .next_back()
        .is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_digit()));
    let is_long_code = digits >= 2 && body.len() >= 16;
    ends_in_number
        || is_long_code
        || has_capitals && !body.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// Returns the range of the date or time that begins with the first of `words`, and the number of
/// its words.
pub(super) fn find_date(text: &str, words: &[Range<usize>]) -> Option<(Range<usize>, usize)> {
    let word = |index: usize| words.get(index).map_or("", |word| &text[word.clone()]);
    // Between the words of a date there is only white space, a comma or a full stop.
    let follows = |index: usize| {
        let between = words
            .get(index)
            .map_or("?", |next| &text[words[index - 1].end..next.start]);
        between
            .chars()
            .all(|c| c.is_whitespace() || matches!(c, ',' | '.'))
    };
    let first = word(0);
    let begins_with_month = || first.starts_with(char::is_uppercase) && month(first).is_some();
    if !first.starts_with(|c: char| c.is_ascii_digit()) && !begins_with_month() {
        return None;
    }
    let is_year = |index: usize| follows(index) && word(index).len() == 4 && is_digits(word(index));
    let end = if is_date(first) || is_clock(first, ':') {
        usize::from(is_clock(first, ':') && follows(1) && is_am_or_pm(word(1)))
    } else if is_day(first) && follows(1) {
        // One word more in "4th of July".
        let skipped = usize::from(word(1).eq_ignore_ascii_case("of"));
        if month(word(1 + skipped)).is_some() && follows(1 + skipped) {
            1 + skipped + usize::from(is_year(2 + skipped))
        } else if is_digits(first) && is_am_or_pm(word(1)) {
            1
        } else {
            return None;
        }
    } else {
        if !begins_with_month() || !follows(1) || !is_day(word(1)) {
            return None;
        }
        1 + usize::from(is_year(2))
    };
    Some((words[0].start..words[end].end, end + 1))
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns `true` for `am` or `pm`.
fn is_am_or_pm(word: &str) -> bool {
    word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm")
}

/// Returns `true` for a day of a month: `3`, `14th`.
fn is_day(word: &str) -> bool {
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|end| word.strip_suffix(end))
        .unwrap_or(word);
    is_digits(digits) && digits.len() <= 2 && (1..=31).contains(&digits.parse().unwrap_or(0_u8))
}

/// Returns the index of an English month, which may be cut to three or four letters.
fn month(word: &str) -> Option<usize> {
    let matches = |month: &&str| {
        word.eq_ignore_ascii_case(month)
            || (3..=4).contains(&word.len())
                && month
                    .get(..word.len())
                    .is_some_and(|abbreviation| abbreviation.eq_ignore_ascii_case(word))
    };
    MONTHS.iter().position(matches)
}

/// Returns `true` for a date such as `2024-05-01`, `2024-05-01T10:30:00Z`, `4.5.1991` or `3/14/24`.
fn is_date(word: &str) -> bool {
    let (day, time) = match word.split_once(['T', 't']) {
        Some((day, time)) => (day, Some(time)),
        None => (word, None),
    };
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
        let all_match = lengths.iter().all(|lengths| {
            parts
                .next()
                .is_some_and(|part| is_digits(part) && lengths.contains(&part.len()))
        });
        all_match && parts.next().is_none()
    };
    let by_day = |mark| parts(mark, [&[1, 2], &[1, 2], &[2, 4]]) && time.is_none();
    is_time && (parts('-', [&[4], &[1, 2], &[1, 2]]) || by_day('.') || by_day('/'))
}

/// Returns `true` for a time such as `10:14`, `10:14:30`, `7:30am` or `6pm`.
fn is_clock(word: &str, mark: char) -> bool {
    let has_suffix = word.len() >= 2 && word.get(word.len() - 2..).is_some_and(is_am_or_pm);
    let digits = if has_suffix {
        &word[..word.len() - 2]
    } else {
        word
    };
    let count = digits.split(mark).count();
    let mut parts = digits.split(mark).enumerate();
    let are_valid = parts
        .all(|(index, part)| is_digits(part) && (part.len() == 2 || index == 0 && part.len() == 1));
    are_valid && ((2..=3).contains(&count) || has_suffix && count == 1)
}

/// Returns the ranges of the quoted texts, without their quotation marks.
pub(super) fn find_quoted(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut previous = ' ';
    let mut position = 0;
    while let Some(letter) = text[position..].chars().next() {
        let start = position + letter.len_utf8();
        if letter.is_alphanumeric() || letter == ' ' {
            (position, previous) = (start, letter);
            continue;
        }
        let may_open = !previous.is_alphanumeric() && !matches!(previous, '"' | '\'')
            || !letter.is_ascii() && is_wide(letter);
        let mut end = None;
        if let Some((_, closing)) = QUOTES.iter().find(|(opening, _)| *opening == letter)
            && may_open
        {
            end = closing_quote(text, start, closing);
        }
        match end {
            Some(end) => {
                ranges.push(start..end);
                let last = text[end..].chars().next().unwrap_or(letter);
                (position, previous) = (end + last.len_utf8(), last);
            }
            None => (position, previous) = (start, letter),
        }
    }
    ranges
}

/// Returns `true` for opening quotation marks of scripts without spaces.
fn is_wide(quote: char) -> bool {
    quote == '「'
}

/// Returns the end of the quoted text that begins at `start`, after its opening mark.
fn closing_quote(text: &str, start: usize, closing: &str) -> Option<usize> {
    let rest = &text[start..text.floor_char_boundary(start + MAX_QUOTED_BYTES)];
    if rest.starts_with(char::is_whitespace) {
        return None;
    }
    let mut previous = None;
    for (offset, letter) in rest.char_indices() {
        let after = start + offset + letter.len_utf8();
        let ends = || is_wide_end(letter) || !text[after..].starts_with(char::is_alphanumeric);
        if closing.contains(letter)
            && previous.is_some_and(|previous: char| !previous.is_whitespace())
            && ends()
        {
            return Some(start + offset);
        }
        previous = Some(letter);
    }
    None
}

/// Returns `true` for closing quotation marks of scripts without spaces.
fn is_wide_end(quote: char) -> bool {
    quote == '」'
}
