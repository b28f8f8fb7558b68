//! The choice among what the assistant offers: "the second one", "option 1", "the latter".

use super::sentences::sentence_ranges;

/// The largest number of words of a turn that only chooses.
const MAX_WORDS: usize = 6;
/// The least length of an alternative, in bytes.
const MIN_ALTERNATIVE_BYTES: usize = 3;

/// A place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// From the beginning, counted from 0.
    FromStart(usize),
    Middle,
    Last,
}

/// Words for places, in several languages.
const PLACES: [(Place, &[&str]); 6] = [
    (
        Place::FromStart(0),
        &[
            "first",
            "1st",
            "former",
            "erste",
            "ersten",
            "erstes",
            "premier",
            "première",
            "primero",
            "primera",
            "primo",
            "primeiro",
            "primeira",
            "eerste",
            "pierwszy",
            "pierwsza",
            "первый",
            "первая",
        ],
    ),
    (
        Place::FromStart(1),
        &[
            "second",
            "2nd",
            "latter",
            "zweite",
            "zweiten",
            "zweites",
            "deuxième",
            "seconde",
            "segundo",
            "segunda",
            "secondo",
            "seconda",
            "tweede",
            "drugi",
            "druga",
            "второй",
            "вторая",
        ],
    ),
    (
        Place::FromStart(2),
        &[
            "third",
            "3rd",
            "dritte",
            "dritten",
            "drittes",
            "troisième",
            "tercero",
            "tercera",
            "terzo",
            "terza",
            "terceiro",
            "terceira",
            "derde",
            "trzeci",
            "trzecia",
            "третий",
            "третья",
        ],
    ),
    (
        Place::FromStart(3),
        &[
            "fourth",
            "4th",
            "vierte",
            "vierten",
            "quatrième",
            "cuarto",
            "cuarta",
            "quarto",
            "quarta",
            "vierde",
        ],
    ),
    (
        Place::Middle,
        &["middle", "mittlere", "mittleren", "medio", "middelste"],
    ),
    (
        Place::Last,
        &[
            "last",
            "letzte",
            "letzten",
            "letztes",
            "dernier",
            "dernière",
            "último",
            "última",
            "ultimo",
            "ultima",
            "laatste",
            "ostatni",
            "последний",
        ],
    ),
];

/// Words before the number of an alternative.
const NUMBERED: [&str; 11] = [
    "option", "number", "nr", "variant", "choice", "nummer", "numéro", "número", "numero",
    "opción", "opção",
];

/// Numbers of alternatives, from 1 on.
const NUMBERS: [&[&str]; 4] = [
    &["1", "one", "eins", "un", "uno", "um", "een"],
    &["2", "two", "zwei", "deux", "dos", "due", "dois", "twee"],
    &["3", "three", "drei", "trois", "tres", "tre", "três", "drie"],
    &["4", "four", "vier", "quatre", "cuatro", "quattro", "quatro"],
];

/// Words that join alternatives. Words that mean something else in English are not among them.
const ALTERNATIVES: [&str; 9] = [
    "or", "oder", "ou", "o", "lub", "albo", "или", "eller", "veya",
];

/// Returns what a turn chooses by its place among the alternatives that the assistant's message
/// ends with. Returns `None` unless the turn does only that.
pub(super) fn chosen<'a>(answer: &'a str, turn: &str) -> Option<&'a str> {
    let place = place(turn)?;
    let alternatives = alternatives(answer);
    let (count, last) = (alternatives.len(), alternatives.len().checked_sub(1)?);
    if count < 2 {
        return None;
    }
    let position = match place {
        Place::FromStart(position) => position,
        Place::Middle if count % 2 == 1 => count / 2,
        Place::Middle => return None,
        Place::Last => last,
    };
    alternatives.get(position).copied()
}

/// Returns the place that a short turn names.
fn place(turn: &str) -> Option<Place> {
    let lower = turn.to_lowercase();
    let words: Vec<&str> = lower
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    if words.len() > MAX_WORDS {
        return None;
    }
    let number = |word: &str| NUMBERS.iter().position(|names| names.contains(&word));
    for (position, word) in words.iter().enumerate() {
        let named = PLACES.iter().find(|(_, names)| names.contains(word));
        if let Some(&(place, _)) = named {
            return Some(place);
        }
        let is_numbered = position > 0 && NUMBERED.contains(&words[position - 1]);
        let is_digit = words.len() == 1 && word.chars().all(|letter| letter.is_ascii_digit());
        if (is_numbered || is_digit)
            && let Some(number) = number(word)
        {
            return Some(Place::FromStart(number));
        }
    }
    None
}

/// Returns the alternatives of the last list or of the last sentence that has any.
fn alternatives(answer: &str) -> Vec<&str> {
    let listed: Vec<&str> = answer.lines().filter_map(list_item).collect();
    if listed.len() > 1 {
        return listed;
    }
    let sentences = sentence_ranges(answer);
    let of_sentences = sentences
        .iter()
        .rev()
        .map(|range| joined(&answer[range.clone()]));
    of_sentences
        .into_iter()
        .find(|found| found.len() > 1)
        .unwrap_or_default()
}

/// Returns the text of a line with a bullet or a number.
fn list_item(line: &str) -> Option<&str> {
    let line = line.trim();
    if let Some(item) = line.strip_prefix(['-', '*', '•']) {
        return item.strip_prefix(' ').map(str::trim);
    }
    let (mark, item) = line.split_once(['.', ')'])?;
    let is_mark = mark.chars().all(|letter| letter.is_ascii_digit()) || mark.len() == 1;
    (is_mark && !mark.is_empty() && item.starts_with(' ')).then(|| item.trim())
}

/// Returns the alternatives that a sentence joins by words like `or`; those before the last pair
/// are separated by commas.
fn joined(sentence: &str) -> Vec<&str> {
    let mut alternatives = Vec::new();
    let (mut start, mut position) = (0, 0);
    let mut is_joined = false;
    for word in sentence.split_inclusive(char::is_whitespace) {
        let end = position + word.len();
        let bare = word.trim_end();
        if ALTERNATIVES
            .iter()
            .any(|join| join.eq_ignore_ascii_case(bare))
        {
            is_joined = true;
            alternatives.push(&sentence[start..position]);
            start = end;
        } else if bare.ends_with([',', ':', ';']) {
            alternatives.push(&sentence[start..end]);
            start = end;
        }
        position = end;
    }
    alternatives.push(&sentence[start..]);
    let trimmed = alternatives
        .into_iter()
        .map(|text| text.trim_matches(|letter: char| !letter.is_alphanumeric()));
    let mut alternatives: Vec<&str> = trimmed
        .filter(|text| text.len() >= MIN_ALTERNATIVE_BYTES)
        .collect();
    if !is_joined {
        alternatives.clear();
    }
    alternatives
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_among_the_alternatives_chooses_one() {
        let two = "Yes. I can post that in the #dev channel, or send an email to the team.";
        let three =
            "What next? Make it larger for print, crop it for a banner, or a few variations?";
        let list =
            "I found these:\n1. The Astra by the station\n2. The Lys in the centre\n\nWhich?";
        let german = "Soll ich ihn anrufen oder ihm schreiben?";
        for (answer, turn, chosen_text) in [
            (two, "the second one", Some("send an email to the team")),
            (
                two,
                "the former",
                Some("I can post that in the #dev channel"),
            ),
            (two, "option 2 please", Some("send an email to the team")),
            (two, "2", Some("send an email to the team")),
            (two, "the third one", None),
            (two, "both", None),
            (two, "no, one more time", None),
            ("Here is the state of the build.", "the first one", None),
            (two, "yes please", None),
            (two, "at 2 in the afternoon", None),
            (three, "the middle one", Some("crop it for a banner")),
            (three, "the last one!", Some("a few variations")),
            (list, "the first", Some("The Astra by the station")),
            (german, "das zweite", Some("ihm schreiben")),
            ("It is done.", "the first one", None),
            (
                two,
                "the second one of the three that you sent me yesterday evening",
                None,
            ),
        ] {
            assert_eq!(chosen(answer, turn), chosen_text, "{turn}");
        }
    }
}
