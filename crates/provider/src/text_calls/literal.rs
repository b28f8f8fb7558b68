//! A bounded parser of literals: JSON, and the values that Python writes in its place.

use picktools::json::quote_long_numbers;
use serde_json::{Map, Value};

/// The deepest nesting of a literal.
const MAX_DEPTH: usize = 64;

/// A position in a text, which moves as its content is parsed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

impl<'t> Cursor<'t> {
    /// Returns the text from the position on.
    pub(super) fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Returns the next byte.
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Moves behind a text, if it is next.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    /// Moves behind a text, or fails.
    pub(super) fn expect(&mut self, text: &str) -> Option<()> {
        self.skip(text).then_some(())
    }

    /// Moves behind white space.
    pub(super) fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Moves behind spaces and tabs.
    pub(super) fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
    }

    /// Takes the bytes for which a test holds.
    pub(super) fn take_while(&mut self, test: fn(u8) -> bool) -> &'t str {
        let rest = self.rest();
        let end = rest
            .bytes()
            .position(|byte| !test(byte))
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes the text up to the first of several ends, and returns it without moving behind the end.
    /// Without any of them it moves to the end of the text and fails.
    pub(super) fn take_until(&mut self, ends: &[&str]) -> Option<&'t str> {
        let rest = self.rest();
        let starts = |at: usize| ends.iter().any(|end| rest[at..].starts_with(end));
        let first = |byte: u8| ends.iter().any(|end| end.as_bytes().first() == Some(&byte));
        let found = (0..rest.len())
            .find(|&at| first(rest.as_bytes()[at]) && rest.is_char_boundary(at) && starts(at));
        self.at += found.unwrap_or(rest.len());
        Some(&rest[..found?])
    }

    /// Parses a literal.
    pub(super) fn literal(&mut self) -> Option<Value> {
        self.value(0)
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_space();
        match self.peek()? {
            b'{' => self.object(depth),
            b'[' => self.array(depth),
            quote @ (b'"' | b'\'') => self.string(quote).map(Value::String),
            b'-' | b'0'..=b'9' => self.number(),
            _ => match self.take_while(|byte| byte.is_ascii_alphabetic()) {
                "true" | "True" => Some(Value::Bool(true)),
                "false" | "False" => Some(Value::Bool(false)),
                "null" | "None" => Some(Value::Null),
                _ => None,
            },
        }
    }

    fn object(&mut self, depth: usize) -> Option<Value> {
        self.expect("{")?;
        let mut members = Map::new();
        loop {
            self.skip_space();
            match self.peek()? {
                b'}' => break,
                quote @ (b'"' | b'\'') => {
                    let key = self.string(quote)?;
                    self.skip_space();
                    self.expect(":")?;
                    let value = self.value(depth + 1)?;
                    if members.insert(key, value).is_some() {
                        return None;
                    }
                }
                _ => return None,
            }
            self.separate("}")?;
        }
        self.expect("}")?;
        Some(Value::Object(members))
    }

    fn array(&mut self, depth: usize) -> Option<Value> {
        self.expect("[")?;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            if self.peek()? == b']' {
                break;
            }
            items.push(self.value(depth + 1)?);
            self.separate("]")?;
        }
        self.expect("]")?;
        Some(Value::Array(items))
    }

    /// Moves behind a comma, which only the last item lacks.
    pub(super) fn separate(&mut self, close: &str) -> Option<()> {
        self.skip_space();
        (self.skip(",") || self.rest().starts_with(close)).then_some(())
    }

    fn string(&mut self, quote: u8) -> Option<String> {
        self.at += 1;
        let mut content = String::new();
        loop {
            let rest = self.rest();
            let end = rest.bytes().position(|byte| byte == quote || byte == b'\\');
            let Some(end) = end else {
                self.at = self.text.len();
                return None;
            };
            content.push_str(&rest[..end]);
            self.at += end + 1;
            if rest.as_bytes()[end] == quote {
                return Some(content);
            }
            self.escape(&mut content)?;
        }
    }

    fn escape(&mut self, content: &mut String) -> Option<()> {
        let escaped = self.rest().chars().next()?;
        self.at += escaped.len_utf8();
        match escaped {
            'n' => content.push('\n'),
            't' => content.push('\t'),
            'r' => content.push('\r'),
            'b' => content.push('\u{8}'),
            'f' => content.push('\u{c}'),
            '"' | '\'' | '\\' | '/' => content.push(escaped),
            'x' => content.push(char::from_u32(self.hexadecimal(2)?)?),
            'u' => {
                let unit = self.hexadecimal(4)?;
                let is_high = (0xd800..0xdc00).contains(&unit);
                let code = if is_high && self.skip("\\u") {
                    let low = self.hexadecimal(4)?.checked_sub(0xdc00)?;
                    0x1_0000 + ((unit - 0xd800) << 10) + low
                } else {
                    unit
                };
                content.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // Python keeps the backslash of an unknown escape.
            other => content.extend(['\\', other]),
        }
        Some(())
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let text = self.rest().get(..digits)?;
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += digits;
        u32::from_str_radix(text, 16).ok()
    }

    fn number(&mut self) -> Option<Value> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let token = self.take_while(is_part);
        serde_json::from_slice(&quote_long_numbers(token.as_bytes())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(text: &str) -> Option<Value> {
        let mut cursor = Cursor { text, at: 0 };
        let value = cursor.literal()?;
        cursor.skip_space();
        cursor.rest().is_empty().then_some(value)
    }

    #[test]
    fn literals_of_python_are_parsed() {
        for (text, expected) in [
            (
                "{'a': True, 'b': None, 'c': [1, 2.5,],}",
                json!({"a": true, "b": null, "c": [1, 2.5]}),
            ),
            (r#"'it\'s \x41 \d'"#, json!("it's A \\d")),
            (r#""\ud83d\ude00 \u00e9""#, json!("\u{1f600} é")),
            ("\"two\nlines\"", json!("two\nlines")),
            (
                "1000000000000000000000000000001",
                json!("1000000000000000000000000000001"),
            ),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "{",
            "[1",
            "{1: 2}",
            "{'a': 1, 'a': 2}",
            "__import__('os')",
            "f'{x}'",
            "(1,)",
            "1+1",
            "\"\\u12",
            "'a' 'b'",
            "-",
            "[,]",
            "open('x')",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"[".repeat(100_000)), None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(|value| json!(value)),
            any::<i64>().prop_map(|value| json!(value)),
            any::<String>().prop_map(|value| json!(value)),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| json!(members)),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_json_is_parsed(value in any_json()) {
            prop_assert_eq!(parse(&value.to_string()), Some(value.clone()));
            prop_assert_eq!(parse(&format!("{value:#}")), Some(value));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "[\\[\\]{}\",:a-c0-9 tfn\\\\xué'-]{0,40}") {
            let _parsed = parse(&text);
        }
    }
}
