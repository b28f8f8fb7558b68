//! Repair of text that is nearly JSON.
//!
//! Models wrap JSON in code fences, quote as Python does, add or omit commas, and forget inner
//! brackets. They write one bracket too many, or the tags of their own format after the JSON. These
//! mistakes have one meaning; they are repaired, and each kind of change is reported.
//!
//! Text with several possible meanings is rejected. Truncated text may lack the part that matters:
//! `15` may be the start of `1500`. Prose around JSON may say not to run it. `NaN` has no value,
//! and a duplicate key has two.

use std::collections::BTreeSet;

use picktools::json::is_long_number;
use serde_json::{Map, Number, Value};

/// The deepest nesting.
const MAX_DEPTH: usize = 127;

/// Repairs text and returns the value with the kinds of changes; `None` if the text has no single
/// meaning.
pub fn repair(text: &str) -> Option<(Value, Vec<&'static str>)> {
    if text.trim() == "None" {
        return Some((Value::Null, vec!["converted Python literals"]));
    }
    let mut changes = BTreeSet::new();
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => {
            changes.insert("removed a byte order mark");
            rest
        }
        None => text,
    };
    let start = text.find(['{', '['])?;
    let mut parser = LenientParser {
        text,
        at: start,
        depth: 0,
        changes,
    };
    let mut value = parser.value()?;
    let is_empty = value.as_object().is_some_and(Map::is_empty);
    if is_empty && parser.rest().trim_start().starts_with('{') {
        value = parser.value()?;
        parser.changes.insert("removed an empty object");
    }
    let mut after = text[parser.at..].trim();
    match text[..start].trim() {
        "" => {}
        before if before.eq_ignore_ascii_case("json") => {
            parser.changes.insert("removed a code fence");
        }
        before if is_fence(before) => {
            after = after.strip_prefix("```")?.trim_start();
            parser.changes.insert("removed a code fence");
        }
        _ => return None,
    }
    if let Some(rest) = after.strip_prefix(['}', ']']) {
        after = rest.trim_start();
        parser.changes.insert("removed a bracket");
    }
    while !after.is_empty() {
        after = after_tag(after)?.trim_start();
        parser.changes.insert("removed trailing tags");
    }
    Some((value, parser.changes.into_iter().collect()))
}

/// Returns the text after a closing tag, such as `</tool_call>`, or a control token, such as
/// `<|im_end|>`.
fn after_tag(text: &str) -> Option<&str> {
    let (name, rest) = match text.strip_prefix("</") {
        Some(tag) => tag.split_once('>')?,
        None => text.strip_prefix("<|")?.split_once("|>")?,
    };
    let is_name = |c: char| c.is_alphanumeric() || "_-:".contains(c);
    (!name.is_empty() && name.chars().all(is_name)).then_some(rest)
}

/// Returns `true` if a text opens a code fence: three backticks and at most one word.
fn is_fence(text: &str) -> bool {
    text.strip_prefix("```")
        .is_some_and(|word| word.chars().all(char::is_alphanumeric))
}

struct LenientParser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    changes: BTreeSet<&'static str>,
}

impl LenientParser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start().len();
            let comment = &rest[blanks..];
            let length = if comment.starts_with("//") {
                comment.find('\n').unwrap_or(comment.len())
            } else if comment.starts_with("/*") {
                comment.find("*/").map_or(comment.len(), |end| end + 2)
            } else {
                0
            };
            self.at += blanks + length;
            if length == 0 {
                return;
            }
            self.changes.insert("removed comments");
        }
    }

    fn value(&mut self) -> Option<Value> {
        self.skip();
        match self.peek()? {
            '{' => self.nested(Self::object),
            '[' => self.nested(Self::array),
            '"' | '\'' | '“' | '‘' => self.string().map(Value::String),
            _ => self.word(),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Option<Value>) -> Option<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.take();
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Option<Value> {
        let mut members = Map::new();
        while !self.ends('}', ']')? {
            let key = match self.peek()? {
                '"' | '\'' | '“' | '‘' => self.string()?,
                _ => self.bare_key()?,
            };
            self.skip();
            if self.take()? != ':' {
                return None;
            }
            let value = self.value()?;
            if members.insert(key, value).is_some() {
                return None;
            }
            self.separator('}')?;
        }
        Some(Value::Object(members))
    }

    fn array(&mut self) -> Option<Value> {
        let mut items = Vec::new();
        while !self.ends(']', '}')? {
            items.push(self.value()?);
            self.separator(']')?;
        }
        Some(Value::Array(items))
    }

    /// Returns `true` if the open object or array ends here, at its own bracket or at that of its
    /// parent.
    ///
    /// `None` if the text is truncated.
    fn ends(&mut self, bracket: char, other: char) -> Option<bool> {
        self.skip();
        match self.peek() {
            Some(next) if next == bracket => {
                self.take();
                Some(true)
            }
            Some(next) if next == other && self.depth > 1 => {
                self.changes.insert("closed brackets");
                Some(true)
            }
            Some(next) if next == other => None,
            Some(_) => Some(false),
            None => None,
        }
    }

    fn separator(&mut self, bracket: char) -> Option<()> {
        self.skip();
        if self.peek() == Some(',') {
            self.take();
            self.skip();
            if self.peek().is_none_or(|next| next == bracket) {
                self.changes.insert("removed commas");
            }
            return Some(());
        }
        match self.peek() {
            Some('"' | '\'' | '{' | '[') => {
                self.changes.insert("added commas");
                Some(())
            }
            None | Some('}' | ']') => Some(()),
            Some(_) => None,
        }
    }

    fn bare_key(&mut self) -> Option<String> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$' || c == '-'))
            .unwrap_or(rest.len());
        let key = rest[..length].to_owned();
        self.at += length;
        self.changes.insert("quoted keys");
        (!key.is_empty()).then_some(key)
    }

    fn string(&mut self) -> Option<String> {
        let open = self.take()?;
        let close = match open {
            '“' => '”',
            '‘' => '’',
            other => other,
        };
        if open != '"' {
            self.changes.insert("replaced quotation marks");
        }
        let mut text = String::new();
        loop {
            match self.take()? {
                end if end == close => return Some(text),
                '\\' => self.escape(&mut text)?,
                control if control.is_control() => {
                    self.changes.insert("escaped control characters");
                    text.push(control);
                }
                other => text.push(other),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Option<()> {
        let escaped = self.take()?;
        match escaped {
            '"' | '\\' | '/' => text.push(escaped),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'u' => {
                let unit = self.hex()?;
                let pair = match unit {
                    0xd800..0xdc00 if self.rest().starts_with("\\u") => {
                        let start = self.at;
                        self.at += 2;
                        let low = self.hex()?;
                        if !(0xdc00..0xe000).contains(&low) {
                            self.at = start;
                        }
                        char::decode_utf16([unit, low]).next()?.ok()
                    }
                    _ => char::from_u32(u32::from(unit)),
                };
                if pair.is_none() {
                    self.changes.insert("replaced lone surrogates");
                }
                text.push(pair.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => {
                self.changes.insert("escaped backslashes");
                if other != '\'' {
                    text.push('\\');
                }
                text.push(other);
            }
        }
        Some(())
    }

    fn hex(&mut self) -> Option<u16> {
        let digits = self.rest().get(..4)?;
        let unit = digits
            .bytes()
            .all(|digit| digit.is_ascii_hexdigit())
            .then(|| u16::from_str_radix(digits, 16).ok());
        self.at += 4;
        unit?
    }

    /// Parses a number, a boolean or null, also as Python writes them.
    fn word(&mut self) -> Option<Value> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| c.is_whitespace() || ",:{}[]\"'".contains(c))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let (value, is_python) = match word {
            "true" => (Value::Bool(true), false),
            "false" => (Value::Bool(false), false),
            "null" => (Value::Null, false),
            "True" => (Value::Bool(true), true),
            "False" => (Value::Bool(false), true),
            "None" => (Value::Null, true),
            number if is_long_number(number) => return None,
            number => (Value::Number(number.parse::<Number>().ok()?), false),
        };
        if is_python {
            self.changes.insert("converted Python literals");
        }
        self.at += length;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn repair_unambiguous_mistakes_names_the_changes() {
        for (text, value, change) in [
            (
                "```json\n{\"a\": 1}\n```",
                json!({"a": 1}),
                "removed a code fence",
            ),
            (
                " ```\n{\"a\": 1}\n```\n",
                json!({"a": 1}),
                "removed a code fence",
            ),
            (
                "{'a': 'it\\'s'}",
                json!({"a": "it's"}),
                "replaced quotation marks",
            ),
            ("{“a”: “b”}", json!({"a": "b"}), "replaced quotation marks"),
            ("{a: 1, b_c: 2}", json!({"a": 1, "b_c": 2}), "quoted keys"),
            ("{\"a\": [1, 2,], }", json!({"a": [1, 2]}), "removed commas"),
            (
                "{\"a\": 1 \"b\": 2}",
                json!({"a": 1, "b": 2}),
                "added commas",
            ),
            (
                "{\"a\": True, \"b\": None}",
                json!({"a": true, "b": null}),
                "converted Python literals",
            ),
            ("{\"a\": [1, 2}", json!({"a": [1, 2]}), "closed brackets"),
            (
                "{\"a\": 1, // one\n\"b\": 2 /* two */}",
                json!({"a": 1, "b": 2}),
                "removed comments",
            ),
            (
                "{\"a\": \"line\nline\"}",
                json!({"a": "line\nline"}),
                "escaped control characters",
            ),
            (
                "{\"a\": \"C:\\data\"}",
                json!({"a": "C:\\data"}),
                "escaped backslashes",
            ),
            (
                "{\"a\": \"\\ud83d\\ude80 \\ud800\"}",
                json!({"a": "🚀 \u{fffd}"}),
                "replaced lone surrogates",
            ),
            (
                "{\"a\": 1}\n</tool_call>",
                json!({"a": 1}),
                "removed trailing tags",
            ),
            (
                "{\"a\": 1}</arguments></function><|im_end|>",
                json!({"a": 1}),
                "removed trailing tags",
            ),
            ("{\"a\": 1}}", json!({"a": 1}), "removed a bracket"),
            ("{\"a\": [1]}]", json!({"a": [1]}), "removed a bracket"),
            ("{} {\"a\": 1}", json!({"a": 1}), "removed an empty object"),
            ("json\n{\"a\": 1}", json!({"a": 1}), "removed a code fence"),
        ] {
            let (repaired, changes) =
                repair(text).unwrap_or_else(|| panic!("{text} cannot be repaired"));
            assert_eq!(repaired, value, "{text}");
            assert!(changes.contains(&change), "{text}: {changes:?}");
        }
    }

    #[test]
    fn repair_ambiguous_text_returns_none() {
        for text in [
            "",
            "no JSON",
            "Here you are: {\"a\": 1}. Done!",
            "{\"a\": 1}\n```",
            "```json\n{\"a\": 1}",
            "{\"a\": \"cut o",
            "{\"a\": {\"b\": [1, 2",
            "{\"a\": {\"b\": [1, 2]}",
            "{\"a\": 1",
            "[",
            "{\"a\": NaN}",
            "{\"a\": 1e999}",
            "{'a': 1000000000000000000000000000001}",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": }",
            "{\"a\"}",
            "{\"a\": 1} {\"a\": 2}",
            "{\"a\": 1}{\"a\": 1}",
            "{}{}{\"a\": 1}",
            "{\"a\": 1}}}",
            "{\"a\": 1} <b>no</b>",
            "{\"a\": 1} </no, not this>",
            "yaml {\"a\": 1}",
            "[1, 2}",
            "{a b: 1}",
            "{\"a\": yes}",
            "{\"a\": \"\\u12",
        ] {
            assert_eq!(repair(text), None, "{text}");
        }
        assert_eq!(repair(&"[".repeat(10_000)), None);
    }

    proptest! {
        #[test]
        fn repair_arbitrary_text_does_not_panic(
            text in ".{0,60}",
            json in "[\\[\\]{}:,'\"“”au0-9\\\\/*\\n -]{0,60}",
        ) {
            let _results = (repair(&text), repair(&json));
        }
    }
}
