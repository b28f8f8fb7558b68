//! The tolerant reading of front matter that is not valid YAML.
//!
//! Authors and generators write values as plain text, such as `description: Use when: it rains`,
//! and other hosts read them. This reading takes simple `key: value` lines. The value of each key is
//! read as YAML by itself first, and as plain text only if it has no meaning in YAML. A value that
//! could mean two things is refused.

use crate::SkillFault;
use crate::allowed_tools::{is_separator, split_entries};
use crate::located::Located;
use crate::members::{FrontMatter, Members};
use crate::yaml::{is_attack, parse_yaml, wrong_type};

/// The members of the front matter, with warnings about values that are read as plain text.
pub(super) struct TolerantReading {
    pub(super) members: Members,
    pub(super) warnings: Vec<SkillFault>,
}

/// Reads front matter that is not valid YAML, because of `cause`.
pub(super) fn read_lines(
    yaml: &str,
    cause: &SkillFault,
) -> Result<TolerantReading, Vec<SkillFault>> {
    let mut members = Members::default();
    let mut warnings = Vec::new();
    let mut faults = Vec::new();
    for block in split_blocks(yaml, cause)? {
        let is_repeated = match block.key {
            "name" => members.name.is_some(),
            "description" => members.description.is_some(),
            "allowed-tools" => members.allowed_tools.is_some(),
            _ => continue,
        };
        if is_repeated {
            faults.push(block.fault("duplicate key", "keep one of them"));
            continue;
        }
        let value = match block.parse_value() {
            Ok(value) => value,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        if value.is_plain {
            warnings.push(block.fault(
                &format!(
                    "the value of `{}` is not valid YAML and is read as plain text",
                    block.key
                ),
                "put it in quotation marks",
            ));
        }
        members.merge(value.members);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    if warnings.is_empty() {
        warnings.push(SkillFault {
            line: cause.line,
            message: "a line that is not valid YAML is ignored".to_owned(),
            remedy: "put its value in quotation marks".to_owned(),
        });
    }
    Ok(TolerantReading { members, warnings })
}

/// A key with its value: the rest of the line, and the lines that continue it.
struct Block<'a> {
    /// Line of the key, from 1.
    line: usize,
    key: &'a str,
    value: &'a str,
    continuation: Vec<&'a str>,
}

/// The members of one block.
struct BlockValue {
    members: Members,
    /// `true` if the value was read as plain text.
    is_plain: bool,
}

/// Splits front matter into blocks. `cause` is the fault of a text that does not begin with a key.
fn split_blocks<'a>(yaml: &'a str, cause: &SkillFault) -> Result<Vec<Block<'a>>, Vec<SkillFault>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    // The first line is the fence.
    for (index, line) in yaml.lines().enumerate().skip(1) {
        if line.starts_with('#') {
            continue;
        }
        let is_continuation = line.trim().is_empty()
            || line.starts_with([' ', '\t'])
            || line.starts_with("- ")
            || line == "-";
        if is_continuation {
            match blocks.last_mut() {
                Some(block) => block.continuation.push(line),
                None if line.trim().is_empty() => {}
                None => return Err(vec![cause.clone()]),
            }
            continue;
        }
        let Some((key, value)) = split_key(line) else {
            return Err(vec![SkillFault {
                line: Some(index + 1),
                message: "the line is neither `key: value` nor an indented continuation".to_owned(),
                remedy: "indent it by two spaces, or write the value on one line".to_owned(),
            }]);
        };
        blocks.push(Block {
            line: index + 1,
            key,
            value,
            continuation: Vec::new(),
        });
    }
    Ok(blocks)
}

/// Splits `key: value`, with a key of one word.
fn split_key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let is_key = !key.is_empty() && key.chars().all(is_word);
    let is_separated = value.is_empty() || value.starts_with([' ', '\t']);
    (is_key && is_separated).then(|| (key, value.trim()))
}

impl Block<'_> {
    fn fault(&self, message: &str, remedy: &str) -> SkillFault {
        SkillFault {
            line: Some(self.line),
            message: message.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    /// Returns the fault of a value with several meanings.
    fn ambiguous(&self, meanings: &str) -> SkillFault {
        self.fault(
            &format!(
                "the value of `{}` is not valid YAML and could be {meanings}",
                self.key
            ),
            "put the complete value in double quotation marks, and write \\\" for one inside",
        )
    }

    /// Reads the value as YAML, or else as plain text.
    fn parse_value(&self) -> Result<BlockValue, SkillFault> {
        let mut yaml = format!("{}: {}", self.key, self.value);
        for line in &self.continuation {
            yaml.push('\n');
            yaml.push_str(line);
        }
        let cause = match parse_yaml::<FrontMatter>(&yaml) {
            Ok(front_matter) => {
                let mut members = Members::from(front_matter);
                members.set_line(self.line);
                return Ok(BlockValue {
                    members,
                    is_plain: false,
                });
            }
            Err(error) => error,
        };
        if is_attack(&cause) {
            return Err(self.fault(
                "the value is too large or too deep, or its aliases multiply it",
                "write short plain lines",
            ));
        }
        let mut members = Members::default();
        match self.key {
            "name" => members.name = Some(self.located(self.plain_text()?)),
            "description" => members.description = Some(self.located(self.plain_text()?)),
            _ => members.allowed_tools = Some(self.located(self.plain_entries()?)),
        }
        Ok(BlockValue {
            members,
            is_plain: true,
        })
    }

    fn located<T>(&self, value: T) -> Located<T> {
        Located {
            line: Some(self.line),
            value,
        }
    }

    /// Returns the lines of the value that are not blank.
    fn lines(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.value)
            .chain(self.continuation.iter().copied())
            .map(str::trim)
            .filter(|line| !line.is_empty())
    }

    /// Returns the value as one line of text.
    fn plain_text(&self) -> Result<String, SkillFault> {
        let text = self.lines().collect::<Vec<_>>().join(" ");
        let is_nested = self.value.is_empty()
            && self
                .lines()
                .next()
                .is_some_and(|line| split_key(line).is_some() || is_list_item(line));
        if is_nested || is_list_item(&text) {
            return Err(wrong_type(Some(self.line)));
        }
        self.check_plain(&text)?;
        Ok(text)
    }

    /// Returns the entries of `allowed-tools`.
    fn plain_entries(&self) -> Result<Vec<String>, SkillFault> {
        let mut entries = Vec::new();
        if self.value.is_empty() && self.lines().all(is_list_item) {
            for line in self.lines() {
                entries.push(self.entry(line[1..].trim())?);
            }
            return Ok(entries);
        }
        let text = self.lines().collect::<Vec<_>>().join(" ");
        if let Some(list) = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'))
        {
            for entry in split_entries(list, |c| c == ',') {
                entries.push(self.entry(entry.trim())?);
            }
            return Ok(entries);
        }
        let text = self.plain_text()?;
        for entry in split_entries(&text, is_separator) {
            entries.push(entry.to_owned());
        }
        Ok(entries)
    }

    /// Returns an entry of a list, without its quotation marks.
    fn entry(&self, text: &str) -> Result<String, SkillFault> {
        for mark in ['"', '\''] {
            let inner = text.strip_prefix(mark);
            if let Some(inner) = inner.and_then(|text| text.strip_suffix(mark))
                && !inner.contains([mark, '\\'])
            {
                return Ok(inner.to_owned());
            }
        }
        self.check_plain(text)?;
        Ok(text.to_owned())
    }

    /// Refuses a text that could also mean something else.
    fn check_plain(&self, text: &str) -> Result<(), SkillFault> {
        let Some(first) = text.chars().next() else {
            return Ok(());
        };
        let rest = &text[first.len_utf8()..];
        match first {
            '"' | '\'' if !is_quoted_word(first, rest) => {
                return Err(self.ambiguous("text in quotation marks or with quotation marks"));
            }
            '[' | '{' if !has_text_after_bracket(text) => return Err(wrong_type(Some(self.line))),
            '|' | '>' => return Err(self.ambiguous("a block of lines or text")),
            '!' | '&' => return Err(self.ambiguous("a tag, an anchor or text")),
            '*' if !rest.is_empty() && !rest.contains(char::is_whitespace) => {
                return Err(self.ambiguous("an alias or text"));
            }
            _ => {}
        }
        let has_comment = |line: &str| line.starts_with('#') || line.contains(" #");
        if has_comment(text) || text.contains("\t#") {
            return Err(self.ambiguous("text with a comment or text with `#`"));
        }
        Ok(())
    }
}

fn is_list_item(line: &str) -> bool {
    line.strip_prefix('-')
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Returns `true` if the text after an opening mark has exactly one more such mark, which ends a
/// quotation inside the text, as in `"Quick" review`.
fn is_quoted_word(mark: char, rest: &str) -> bool {
    match rest.split_once(mark) {
        Some((_, after)) => after.starts_with(' ') && !after.contains(mark),
        None => false,
    }
}

/// Returns `true` if the bracket at the beginning is closed and followed by text, as in
/// `[beta] Reviews plans`.
fn has_text_after_bracket(text: &str) -> bool {
    let mut depth = 0_usize;
    for (index, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let after = &text[index + 1..];
            return after.starts_with(' ') && !after.trim_start().starts_with(['#', ',']);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::front_matter::parse;
    use crate::{ParsedSkill, SkillFault};

    fn parse_members(front_matter: &str) -> Result<ParsedSkill, Vec<SkillFault>> {
        parse(&format!("---\n{front_matter}\n---\nDo this.\n"))
    }

    /// Returns the description of a skill, and the lines of its warnings.
    fn description(value: &str) -> (String, Vec<Option<usize>>) {
        let parsed = parse_members(&format!("name: a\ndescription: {value}"))
            .unwrap_or_else(|faults| panic!("{value}: {faults:?}"));
        let lines = parsed.warnings.iter().map(|warning| warning.line);
        (parsed.skill.description, lines.collect())
    }

    #[test]
    fn values_without_a_yaml_meaning_are_plain_text() {
        for (value, expected) in [
            ("Use when: it rains", "Use when: it rains"),
            ("One: two: three", "One: two: three"),
            ("[beta] Reviews plans", "[beta] Reviews plans"),
            ("{{name}} is greeted", "{{name}} is greeted"),
            ("*Important* for plans", "*Important* for plans"),
            ("@mentions people", "@mentions people"),
            ("`git` for beginners", "`git` for beginners"),
            ("%s is replaced", "%s is replaced"),
            ("\"Quick\" review: short", "\"Quick\" review: short"),
            ("Use when:\n  - it rains", "Use when: - it rains"),
            ("one\n\ttwo: three", "one two: three"),
            (
                "\n  Use \"this\". Pairs with that: yes.",
                "Use \"this\". Pairs with that: yes.",
            ),
            ("\n  One line\n  and: another", "One line and: another"),
        ] {
            let expected = (expected.to_owned(), vec![Some(3)]);
            assert_eq!(description(value), expected, "{value:?}");
            let with_returns =
                format!("name: a\ndescription: {value}\nlicense: x").replace('\n', "\r\n");
            let parsed = parse(&format!(
                "\u{feff}---\r\n{with_returns}\r\n---\r\nDo: this.\n---\n"
            ))
            .expect("the line ends do not matter");
            assert_eq!(parsed.skill.description, expected.0, "{value:?}");
            assert_eq!(parsed.skill.body, "Do: this.\n---\n");
        }
    }

    #[test]
    fn valid_yaml_is_read_as_yaml_without_a_warning() {
        for (value, expected) in [
            ("'It: is'", "It: is"),
            (
                ">-\n  Folded: here,\n  and a # hash",
                "Folded: here, and a # hash",
            ),
            ("one\n  two", "one two"),
            ("42", "42"),
            ("text # comment", "text"),
            ("a\ttab", "a\ttab"),
        ] {
            assert_eq!(description(value), (expected.to_owned(), Vec::new()));
        }
        let parsed = parse_members(
            "name: a\ndescription: >-\n  Folded: here,\n  and a # hash\nlicense: a: b",
        );
        let parsed = parsed.expect("the other member does not matter");
        assert_eq!(parsed.skill.description, "Folded: here, and a # hash");
        assert_eq!(parsed.warnings.len(), 1);
        assert!(parsed.warnings[0].message.contains("is ignored"));
    }

    #[test]
    fn values_with_several_meanings_are_refused_with_their_line() {
        for (value, part) in [
            ("'It's a user's tool: yes'", "quotation marks"),
            ("\"open: end", "quotation marks"),
            ("[a, b]", "wrong type"),
            ("[a, b", "wrong type"),
            ("{a: b}", "wrong type"),
            ("\n  - a\n  - b", "wrong type"),
            ("\n  short: a\n  long: b", "wrong type"),
            ("- a", "wrong type"),
            ("|x: y", "block of lines"),
            ("*name", "an alias"),
            ("!tag x: y: z", "a tag"),
            ("Fixes: issue #12, not #13 only: all #14", "comment"),
        ] {
            let faults = parse_members(&format!("name: a\nlicense: b\ndescription: {value}"))
                .expect_err(&format!("{value:?} is ambiguous"));
            assert_eq!(faults.len(), 1, "{value:?}: {faults:?}");
            assert_eq!(faults[0].line, Some(4), "{value:?}: {faults:?}");
            assert!(faults[0].message.contains(part), "{value:?}: {faults:?}");
            assert!(faults[0].remedy.contains("quotation marks"), "{faults:?}");
        }
        let faults = parse_members("name: a\ndescription: b: c\nand more\nlicense: d");
        let faults = faults.expect_err("a line is no member");
        assert_eq!(faults[0].line, Some(4), "{faults:?}");
        let faults = parse_members("name: a\ndescription: b: c\ndescription: d");
        assert!(
            faults.expect_err("two values")[0]
                .message
                .contains("duplicate")
        );
        let faults = parse("---\nname: a\ndescription: b: c\n\nDo this.\n").expect_err("no end");
        assert_eq!((faults[0].line, faults.len()), (Some(1), 1));
    }

    #[test]
    fn allowed_tools_are_read_however_they_are_written() {
        let expected = ["Bash(git add:*)", "mcp__github__*", "Read"];
        for (value, expected) in [
            ("Bash(git add:*) mcp__github__* Read", &expected[..]),
            ("Bash(git add:*), mcp__github__*,Read", &expected),
            ("[Bash(git add:*), mcp__github__*, Read]", &expected),
            ("[\"Bash(git add:*)\", 'mcp__github__*', Read]", &expected),
            (
                "\n  - Bash(git add:*)\n  - mcp__github__*\n  - Read",
                &expected,
            ),
            ("\n- Bash(git add:*)\n- mcp__github__*\n- Read", &expected),
            (
                "\n\t- Bash(git add:*)\n\t- mcp__github__*\n\t- 'Read'",
                &expected,
            ),
            ("Bash(echo \"a: b\") Read", &["Bash(echo \"a: b\")", "Read"]),
            ("[Bash(echo a: b), 'Read']", &["Bash(echo a: b)", "Read"]),
            (
                "\n  - Bash(echo a: b)\n  - \"Read\"",
                &["Bash(echo a: b)", "Read"],
            ),
            ("*", &["*"]),
        ] {
            let parsed = parse_members(&format!("name: a\ndescription: b\nallowed-tools: {value}"))
                .unwrap_or_else(|faults| panic!("{value:?}: {faults:?}"));
            let tools = parsed.skill.allowed_tools.iter().map(ToString::to_string);
            assert_eq!(tools.collect::<Vec<_>>(), expected, "{value:?}");
        }
        for value in [
            "*_file",
            "[Read, Write",
            "{Read: all}",
            "\n  - *_file\n  - Read",
        ] {
            let faults = parse_members(&format!("name: a\ndescription: b\nallowed-tools: {value}"))
                .expect_err(value);
            assert_eq!(faults[0].line, Some(4), "{value:?}: {faults:?}");
        }
    }

    #[test]
    fn attacks_are_read_quickly_in_parts_too() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let started = Instant::now();
        for text in [
            format!("name: a\ndescription: {deep}"),
            format!("name: a\ndescription: {}", "a: b ".repeat(10_000)),
            format!("name: a\ndescription: b: c\nallowed-tools: {deep}"),
        ] {
            assert!(parse_members(&text).is_err());
        }
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}
