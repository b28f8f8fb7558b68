//! What the ending of a file's name says, and which words of tools say the same.

use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};

use super::super::analysis::words;
use super::ValueKind::{
    self, Archive, Audio, Code, Document, Image, Presentation, Spreadsheet, Video,
};

/// Longer endings are none.
const MAX_ENDING_BYTES: usize = 10;
/// Longer words name no kind of file.
const MAX_WORD_BYTES: usize = 16;

/// What kind of file has an ending, where that is one that tools speak of.
static ENDINGS: LazyLock<HashMap<&str, Option<ValueKind>>> = LazyLock::new(|| {
    let mut endings = HashMap::new();
    for line in include_str!("endings.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let (kind, those) = line.split_once(' ').unwrap_or((line, ""));
        let kind = spoken_of(kind);
        endings.extend(those.split_whitespace().map(|ending| (ending, kind)));
    }
    endings
});

fn look_up(ending: &str) -> Option<&Option<ValueKind>> {
    if ending.len() > MAX_ENDING_BYTES {
        return None;
    }
    ENDINGS
        .get(ending)
        .or_else(|| ENDINGS.get(ending.to_ascii_lowercase().as_str()))
}

/// Returns `true` for the ending of a file's name, without its full stop.
pub(super) fn is_ending(ending: &str) -> bool {
    look_up(ending).is_some()
}

/// Returns what a file is, by the ending of its name with the full stop.
pub(super) fn of_file(ending: &str) -> Option<ValueKind> {
    *look_up(ending.strip_prefix('.')?)?
}

/// Returns the kind of file that a word in lower case speaks of.
fn spoken_of(word: &str) -> Option<ValueKind> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "image" | "photo" | "picture" => Image,
        "audio" | "sound" => Audio,
        "video" => Video,
        "spreadsheet" | "workbook" | "sheet" | "table" => Spreadsheet,
        "document" => Document,
        "presentation" | "slide" | "deck" => Presentation,
        "archive" | "unpack" | "compress" => Archive,
        "code" => Code,
        _ => return None,
    })
}

/// Returns the kinds of files that a text of a tool speaks of, each with the word.
pub(super) fn spoken_of_in(text: &str) -> impl Iterator<Item = (ValueKind, &str)> {
    let short = words(text)
        .map(|(start, end)| &text[start..end])
        .filter(|word| word.len() <= MAX_WORD_BYTES);
    short.filter_map(|word| Some((spoken_of(&word.to_ascii_lowercase())?, word)))
}
