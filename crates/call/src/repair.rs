//! Mending text that is nearly JSON.
//!
//! Models wrap JSON in code fences, quote as Python does, leave commas too many or too few, and
//! forget a bracket within another. All of that has one meaning and is mended, each kind of change
//! named. What has not is refused: text that breaks off may lack the half that matters (of `15` as
//! of a list), prose around JSON may say not to run it, `NaN` has no value, and a member that
//! stands twice has two.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 127;

/// JSON that was mended, and the kinds of changes.
pub fn repair(text: &str) -> Option<(Value, Vec<&'static str>)> {
    let start = text.find(['{', '['])?;
    let mut reader = Reader {
        text,
        at: start,
        depth: 0,
        changes: BTreeSet::new(),
    };
    let value = reader.value()?;
    match (text[..start].trim(), text[reader.at..].trim()) {
        ("", "") => {}
        (before, "```") if is_fence(before) => {
            reader.changes.insert("a code fence was left out");
        }
        _ => return None,
    }
    Some((value, reader.changes.into_iter().collect()))
}

/// Returns `true` if a text opens a code fence: three backticks and at most one word.
fn is_fence(text: &str) -> bool {
    text.strip_prefix("```")
        .is_some_and(|word| word.chars().all(char::is_alphanumeric))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    changes: BTreeSet<&'static str>,
}

impl Reader<'_> {
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

    /// Passes over white space and comments.
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
            self.changes.insert("comments were left out");
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

    /// Whether what is open ends here: at its bracket, or at that of what is around it; `None`
    /// where the text breaks off.
    fn ends(&mut self, bracket: char, other: char) -> Option<bool> {
        self.skip();
        match self.peek() {
            Some(next) if next == bracket => {
                self.take();
                Some(true)
            }
            Some(next) if next == other && self.depth > 1 => {
                self.changes.insert("brackets were closed");
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
                self.changes.insert("commas were left out");
            }
            return Some(());
        }
        match self.peek() {
            Some('"' | '\'' | '{' | '[') => {
                self.changes.insert("commas were put in");
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
        self.changes.insert("names were quoted");
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
            self.changes.insert("quotation marks were changed");
        }
        let mut text = String::new();
        loop {
            match self.take()? {
                end if end == close => return Some(text),
                '\\' => self.escape(&mut text)?,
                control if control.is_control() => {
                    self.changes.insert("control characters were escaped");
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
                        let back = self.at;
                        self.at += 2;
                        let low = self.hex()?;
                        if !(0xdc00..0xe000).contains(&low) {
                            self.at = back;
                        }
                        char::decode_utf16([unit, low]).next()?.ok()
                    }
                    _ => char::from_u32(u32::from(unit)),
                };
                if pair.is_none() {
                    self.changes.insert("half characters were replaced");
                }
                text.push(pair.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => {
                self.changes.insert("backslashes were escaped");
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

    /// A number or one of the words for truth and nothing.
    fn word(&mut self) -> Option<Value> {
        let rest = self.rest();
        let length = rest
            .find(|c: char| c.is_whitespace() || ",:{}[]\"'".contains(c))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let (value, as_python) = match word {
            "true" => (Value::Bool(true), false),
            "false" => (Value::Bool(false), false),
            "null" => (Value::Null, false),
            "True" => (Value::Bool(true), true),
            "False" => (Value::Bool(false), true),
            "None" => (Value::Null, true),
            number => (Value::Number(number.parse::<Number>().ok()?), false),
        };
        if as_python {
            self.changes.insert("Python's words were changed");
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
    fn slips_of_one_meaning_are_mended_and_named() {
        for (text, value, change) in [
            (
                "```json\n{\"a\": 1}\n```",
                json!({"a": 1}),
                "a code fence was left out",
            ),
            (
                " ```\n{\"a\": 1}\n```\n",
                json!({"a": 1}),
                "a code fence was left out",
            ),
            (
                "{'a': 'it\\'s'}",
                json!({"a": "it's"}),
                "quotation marks were changed",
            ),
            (
                "{“a”: “b”}",
                json!({"a": "b"}),
                "quotation marks were changed",
            ),
            (
                "{a: 1, b_c: 2}",
                json!({"a": 1, "b_c": 2}),
                "names were quoted",
            ),
            (
                "{\"a\": [1, 2,], }",
                json!({"a": [1, 2]}),
                "commas were left out",
            ),
            (
                "{\"a\": 1 \"b\": 2}",
                json!({"a": 1, "b": 2}),
                "commas were put in",
            ),
            (
                "{\"a\": True, \"b\": None}",
                json!({"a": true, "b": null}),
                "Python's words were changed",
            ),
            (
                "{\"a\": [1, 2}",
                json!({"a": [1, 2]}),
                "brackets were closed",
            ),
            (
                "{\"a\": 1, // one\n\"b\": 2 /* two */}",
                json!({"a": 1, "b": 2}),
                "comments were left out",
            ),
            (
                "{\"a\": \"line\nline\"}",
                json!({"a": "line\nline"}),
                "control characters were escaped",
            ),
            (
                "{\"a\": \"C:\\data\"}",
                json!({"a": "C:\\data"}),
                "backslashes were escaped",
            ),
            (
                "{\"a\": \"\\ud83d\\ude80 \\ud800\"}",
                json!({"a": "🚀 \u{fffd}"}),
                "half characters were replaced",
            ),
        ] {
            let (found, changes) = repair(text).unwrap_or_else(|| panic!("{text} can be mended"));
            assert_eq!(found, value, "{text}");
            assert!(changes.contains(&change), "{text}: {changes:?}");
        }
    }

    #[test]
    fn what_has_no_one_meaning_is_refused() {
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
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": }",
            "{\"a\"}",
            "{\"a\": 1} {\"a\": 2}",
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
        fn arbitrary_text_is_survived(text in ".{0,60}", json in "[\\[\\]{}:,'\"“”au0-9\\\\/*\\n -]{0,60}") {
            let _mended = (repair(&text), repair(&json));
        }
    }
}
