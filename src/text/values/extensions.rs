//! Kinds of files, by file extension and by the words that tools use for them.

use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};

use super::super::analysis::words;
use super::kind::ValueKind::{
    self, Archive, Audio, Code, Document, Image, Presentation, Spreadsheet, Video,
};

/// The length of the longest file extension, in bytes.
const MAX_EXTENSION_BYTES: usize = 10;
/// The length of the longest word for a kind of file, in bytes.
const MAX_WORD_BYTES: usize = 16;

/// The file extensions, each with the kind of file if tools have a word for the kind.
static EXTENSIONS: LazyLock<HashMap<&str, Option<ValueKind>>> = LazyLock::new(|| {
    let mut extensions = HashMap::new();
    for line in include_str!("extensions.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let (kind_word, list) = line.split_once(' ').unwrap_or((line, ""));
        let kind = file_kind_from_word(kind_word);
        extensions.extend(list.split_whitespace().map(|extension| (extension, kind)));
    }
    extensions
});

fn look_up(extension: &str) -> Option<&Option<ValueKind>> {
    if extension.len() > MAX_EXTENSION_BYTES {
        return None;
    }
    EXTENSIONS
        .get(extension)
        .or_else(|| EXTENSIONS.get(extension.to_ascii_lowercase().as_str()))
}

/// Returns `true` for a file extension, which is given without its full stop.
pub(super) fn is_extension(extension: &str) -> bool {
    look_up(extension).is_some()
}

/// Returns the kind of file for an extension, which is given with its full stop.
pub(super) fn file_kind_from_extension(extension: &str) -> Option<ValueKind> {
    *look_up(extension.strip_prefix('.')?)?
}

/// Returns the kind of file that a lower-case word stands for.
fn file_kind_from_word(word: &str) -> Option<ValueKind> {
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

/// Returns the kinds of files that a text of a tool mentions, each with the word.
pub(super) fn file_kinds_in_text(text: &str) -> impl Iterator<Item = (ValueKind, &str)> {
    let short_words = words(text)
        .map(|(start, end)| &text[start..end])
        .filter(|word| word.len() <= MAX_WORD_BYTES);
    short_words.filter_map(|word| Some((file_kind_from_word(&word.to_ascii_lowercase())?, word)))
}
