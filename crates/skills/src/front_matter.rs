//! From the text of a `SKILL.md` to a [`Skill`], with every fault that it has.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use picktools::excerpt::cut;
use picktools::skills::{AllowedTool, Skill};

use crate::SkillFault;

/// The most characters of a name, as the specification has it.
const MAX_NAME_CHARS: usize = 64;
/// The most characters of a description, as the specification has it.
const MAX_DESCRIPTION_CHARS: usize = 1024;
/// The most bytes of front matter.
const MAX_FRONT_MATTER_BYTES: usize = 64 * 1024;
/// The most tools that a skill may name.
const MAX_ALLOWED_TOOLS: usize = 64;
/// The most characters of one of them.
const MAX_ALLOWED_TOOL_CHARS: usize = 512;
/// The line between which and the first line front matter stands.
const FENCE: &str = "---";

/// What is read of the front matter; other members are passed over.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct FrontMatter {
    name: Option<Spanned<String>>,
    description: Option<Spanned<String>>,
    allowed_tools: Option<Spanned<Entries>>,
}

/// The value of `allowed-tools`, in either form, as entries.
struct Entries(Vec<String>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EitherForm;

        impl<'de> Visitor<'de> for EitherForm {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a list of tools, or a text with the tools separated by blanks or commas",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Entries, E> {
                Ok(Entries(
                    split(text).into_iter().map(str::to_owned).collect(),
                ))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Entries, E> {
                Ok(Entries(Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element::<String>()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_any(EitherForm)
    }
}

/// Reads a `SKILL.md`. Its `path` is left empty.
pub(super) fn read(text: &str) -> Result<Skill, Vec<SkillFault>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (yaml, body) = split_fences(text).map_err(|fault| vec![fault])?;
    let read = serde_saphyr::from_str_with_options::<FrontMatter>(yaml, options());
    let front_matter = read.map_err(|error| vec![syntax(&error)])?;
    let mut faults = Vec::new();
    let given = [
        ("name", front_matter.name.is_some()),
        ("description", front_matter.description.is_some()),
    ];
    let name = front_matter
        .name
        .and_then(|name| check(&mut faults, &name, name_problem));
    let description = front_matter
        .description
        .and_then(|text| check(&mut faults, &text, description_problem));
    for (field, _) in given.into_iter().filter(|(_, given)| !given) {
        let message = format!("the {field} is missing");
        faults.push(SkillFault {
            line: None,
            message,
            remedy: format!("write `{field}: …` into the front matter"),
        });
    }
    let allowed_tools = front_matter
        .allowed_tools
        .map_or_else(Vec::new, |entries| allowed(&mut faults, &entries));
    if body.trim().is_empty() {
        let message = "nothing stands below the front matter".to_owned();
        faults.push(SkillFault {
            line: None,
            message,
            remedy: "write the instructions there".to_owned(),
        });
    }
    match (name, description) {
        (Some(name), Some(description)) if faults.is_empty() => Ok(Skill {
            name,
            description,
            path: String::new(),
            allowed_tools,
            body: body.to_owned(),
        }),
        _ => Err(faults),
    }
}

/// Parts the front matter, with the line that opens it so that lines keep their numbers, from the
/// body.
fn split_fences(text: &str) -> Result<(&str, &str), SkillFault> {
    let fault = |line, message: &str, remedy: &str| SkillFault {
        line: Some(line),
        message: message.to_owned(),
        remedy: remedy.to_owned(),
    };
    let mut end = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_fence = line.trim_end() == FENCE;
        if number == 0 && !is_fence {
            let message = "the file does not begin with front matter";
            return Err(fault(
                1,
                message,
                "begin with a line `---`, then name and description, then another `---`",
            ));
        }
        if number > 0 && is_fence {
            return Ok((&text[..end], &text[end + line.len()..]));
        }
        end += line.len();
        if end > MAX_FRONT_MATTER_BYTES {
            let message = format!("the front matter is longer than {MAX_FRONT_MATTER_BYTES} bytes");
            return Err(fault(
                number + 1,
                &message,
                "move what is long below the line that closes it",
            ));
        }
    }
    Err(fault(
        1,
        "the front matter has no end",
        "close it with a line `---`",
    ))
}

/// The reader's limits: front matter is small and flat, and whatever is not may be an attack.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_aliases: 100,
            max_anchors: 100,
            max_recorded_anchor_events: 20_000,
            max_recorded_anchor_bytes: 1024 * 1024,
            max_depth: 16,
            flow_nesting_limit: 16,
            max_documents: 1,
            max_nodes: 10_000,
            max_total_scalar_bytes: MAX_FRONT_MATTER_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 1_000,
            max_replay_stack_depth: 4,
            max_alias_expansions_per_anchor: 100,
        },
        with_snippet: false,
    }
}

fn syntax(error: &serde_saphyr::Error) -> SkillFault {
    let line = error
        .location()
        .and_then(|location| usize::try_from(location.line()).ok())
        .filter(|&line| line > 0);
    use serde_saphyr::Error;
    let (message, remedy) = match error {
        Error::DuplicateMappingKey { .. } => ("a key stands twice", "keep one of them"),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => (
            "the front matter is too large or too deep, or its aliases multiply it",
            "write short plain lines",
        ),
        Error::SerdeInvalidType { .. }
        | Error::Unexpected { .. }
        | Error::NullIntoString { .. } => (
            "the value is of another kind than is expected here",
            "name and description are texts, allowed-tools a list of tools or a text",
        ),
        _ => (
            "the front matter cannot be read as YAML",
            "write `key: value` lines, and put a value that holds `: ` or `#` in quotation marks",
        ),
    };
    SkillFault {
        line,
        message: message.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// Returns the trimmed text, or adds what `problem` finds in it to the faults: what is wrong, and
/// the remedy.
fn check(
    faults: &mut Vec<SkillFault>,
    text: &Spanned<String>,
    problem: impl Fn(&str) -> Option<(String, String)>,
) -> Option<String> {
    let value = text.value.trim();
    match problem(value) {
        Some((message, remedy)) => {
            faults.push(SkillFault {
                line: line(text),
                message,
                remedy,
            });
            None
        }
        None => Some(value.to_owned()),
    }
}

fn line<T>(spanned: &Spanned<T>) -> Option<usize> {
    usize::try_from(spanned.referenced.line())
        .ok()
        .filter(|&line| line > 0)
}

fn name_problem(name: &str) -> Option<(String, String)> {
    let fine = |c: char| c == '-' || (c.is_alphanumeric() && !c.is_uppercase());
    let rule = "use lowercase letters, digits, and single hyphens between them";
    let length = name.chars().count();
    let problem = if length == 0 {
        "the name is empty".to_owned()
    } else if length > MAX_NAME_CHARS {
        return Some((
            format!("the name has {length} characters"),
            format!("shorten it to {MAX_NAME_CHARS}"),
        ));
    } else if let Some(c) = name.chars().find(|&c| !fine(c)) {
        format!("the name {name:?} holds {c:?}")
    } else if name.starts_with('-') || name.ends_with('-') {
        format!("the name {name:?} begins or ends with a hyphen")
    } else if name.contains("--") {
        format!("the name {name:?} holds two hyphens in a row")
    } else {
        return None;
    };
    Some((problem, rule.to_owned()))
}

fn description_problem(description: &str) -> Option<(String, String)> {
    let length = description.chars().count();
    if length == 0 {
        return Some((
            "the description is empty".to_owned(),
            "say what the skill does and when to use it".to_owned(),
        ));
    }
    (length > MAX_DESCRIPTION_CHARS).then(|| {
        let message = format!("the description has {length} characters");
        (message, format!("shorten it to {MAX_DESCRIPTION_CHARS}"))
    })
}

fn allowed(faults: &mut Vec<SkillFault>, entries: &Spanned<Entries>) -> Vec<AllowedTool> {
    let mut fault = |message: String, remedy: &str| {
        faults.push(SkillFault {
            line: line(entries),
            message,
            remedy: remedy.to_owned(),
        });
    };
    let count = entries.value.0.len();
    if count > MAX_ALLOWED_TOOLS {
        let message = format!("allowed-tools names {count} tools, more than {MAX_ALLOWED_TOOLS}");
        fault(message, "name only those that the skill needs");
        return Vec::new();
    }
    let mut tools = Vec::new();
    for entry in &entries.value.0 {
        match tool(entry.trim()) {
            Ok(tool) => tools.push(tool),
            Err(problem) => {
                let shown = cut(entry, MAX_NAME_CHARS);
                fault(
                    format!("allowed-tools has {shown:?}, {problem}"),
                    "write `Name` or `Name(scope)`",
                );
            }
        }
    }
    tools
}

/// Splits a text at blanks and commas that stand outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Reads `Name` or `Name(scope)`.
fn tool(entry: &str) -> Result<AllowedTool, &'static str> {
    if entry.chars().count() > MAX_ALLOWED_TOOL_CHARS {
        return Err("which is too long");
    }
    let (name, scope) = match entry.split_once('(') {
        Some((name, rest)) => (
            name,
            Some(
                rest.strip_suffix(')')
                    .ok_or("whose bracket is not closed at its end")?,
            ),
        ),
        None if entry.contains(')') => return Err("whose bracket is not opened"),
        None => (entry, None),
    };
    if name.trim().is_empty() {
        return Err("which has no name");
    }
    let scope = scope
        .map(str::trim)
        .filter(|scope| !scope.is_empty())
        .map(str::to_owned);
    Ok(AllowedTool {
        name: name.trim().to_owned(),
        scope,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn file(front_matter: &str) -> String {
        format!("---\n{front_matter}\n---\n\nDo this.\n")
    }

    fn tools(value: &str) -> Vec<String> {
        let text = file(&format!("name: a\ndescription: b\nallowed-tools: {value}"));
        let skill = read(&text).unwrap_or_else(|faults| panic!("{value}: {faults:?}"));
        skill
            .allowed_tools
            .iter()
            .map(|tool| format!("{}|{}", tool.name, tool.scope.as_deref().unwrap_or("")))
            .collect()
    }

    fn faults(text: &str) -> Vec<(Option<usize>, String)> {
        let faults = read(text).expect_err("it is not sound");
        faults
            .into_iter()
            .map(|fault| (fault.line, fault.message))
            .collect()
    }

    #[test]
    fn allowed_tools_are_a_list_or_a_text_and_may_have_a_scope() {
        let expected = ["Bash|git commit:*", "Read|", "Write|a, b"];
        assert_eq!(
            tools("['Bash(git commit:*)', Read, 'Write(a, b)']"),
            expected
        );
        assert_eq!(
            tools("\n  - Bash(git commit:*)\n  - Read\n  - Write(a, b)"),
            expected
        );
        assert_eq!(tools("Bash(git commit:*) Read Write(a, b)"), expected);
        assert_eq!(tools("Bash(git commit:*), Read,Write(a, b)"), expected);
        assert_eq!(
            tools("Bash(echo (now):*) Read()"),
            ["Bash|echo (now):*", "Read|"]
        );
        assert_eq!(
            tools("[shell exec]"),
            ["shell exec|"],
            "an entry of a list is one name"
        );
        assert_eq!(tools("[no, 12]"), ["no|", "12|"]);
        assert!(tools("[]").is_empty() && tools("''").is_empty() && tools("").is_empty());
    }

    #[test]
    fn other_members_are_passed_over_and_any_line_end_will_do() {
        let text = "\u{feff}---\r\nname: a-1\r\nlicense: MIT\r\nmetadata:\r\n  owner: {b: [c]}\r\n\
                    description: >\r\n  one\r\n  two\r\n---\r\nDo this.\r\n";
        let skill = read(text).expect("it is valid");
        assert_eq!(
            (skill.name.as_str(), skill.description.as_str()),
            ("a-1", "one two")
        );
        assert_eq!(skill.body, "Do this.\r\n");
    }

    #[test]
    fn all_faults_are_reported_with_their_lines() {
        let long = "x".repeat(1025);
        let text = format!(
            "---\nname: Deploy Now\ndescription: {long}\nallowed-tools: Read Bash(git (x\n---\n"
        );
        let found = faults(&text);
        let lines: Vec<_> = found.iter().map(|fault| fault.0).collect();
        assert_eq!(lines, [Some(2), Some(3), Some(4), None], "{found:?}");
        assert!(
            found[0].1.contains("holds 'D'")
                && found[1].1.contains("1025")
                && found[2].1.contains("not closed")
        );
        let found = faults("---\nlicense: MIT\n---\nDo this.");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn names_are_as_the_specification_wants_them() {
        for (name, part) in [
            ("-a", "hyphen"),
            ("a-", "hyphen"),
            ("a--b", "two hyphens"),
            ("a_b", "'_'"),
            ("''", "is empty"),
            (&*"a".repeat(65), "65 characters"),
        ] {
            let found = faults(&file(&format!("name: {name}\ndescription: b")));
            assert!(
                found.len() == 1 && found[0].0 == Some(2) && found[0].1.contains(part),
                "{name}: {found:?}"
            );
        }
        assert!(read(&file("name: größe-2\ndescription: b")).is_ok());
    }

    #[test]
    fn what_is_no_front_matter_is_told_with_its_line() {
        for (text, line, part) in [
            ("", None, "no end"),
            ("Do this.", Some(1), "does not begin with"),
            ("---\nname: a\n", Some(1), "no end"),
            (
                "---\nname: a\ndescription: Use when: it rains\n---\nx",
                Some(3),
                "as YAML",
            ),
            (
                "---\nname: a\nname: b\ndescription: c\n---\nx",
                Some(3),
                "twice",
            ),
            (
                "---\nname: [a]\ndescription: c\n---\nx",
                Some(2),
                "another kind",
            ),
            (
                "---\nname: a\ndescription: c\nallowed-tools: {a: b}\n---\nx",
                Some(4),
                "another kind",
            ),
            ("---\n- a\n---\nx", None, "another kind"),
        ] {
            let found = faults(text);
            assert!(
                found[0].1.contains(part) && (line.is_none() || found[0].0 == line),
                "{text:?}: {found:?}"
            );
        }
    }

    #[test]
    fn bombs_are_refused_in_no_time() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = level - 1;
            bomb.push_str(&format!(
                "a{level}: &a{level} [{}]\n",
                vec![format!("*a{before}"); 10].join(", ")
            ));
        }
        let deep = format!("x: {}{}", "[".repeat(30_000), "]".repeat(30_000));
        let braces = format!("x: {}", "{a: ".repeat(15_000));
        let long = format!("x: {}", "y".repeat(70_000));
        let began = Instant::now();
        for text in [bomb, deep, braces, long] {
            let text = file(&format!("{text}\nname: a\ndescription: b"));
            assert_eq!(read(&text).expect_err("it is refused").len(), 1);
        }
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "\\PC*", yaml in "[-a-z0-9:#&*!|>'\"%@{}\\[\\](), \n\t]{0,200}") {
            for text in [&text, &yaml, &file(&text), &file(&yaml), &file(&format!("allowed-tools: {yaml}"))] {
                if let Err(faults) = read(text) {
                    prop_assert!(!faults.is_empty());
                }
            }
            for part in split(&text).into_iter().chain(split(&yaml)) {
                prop_assert!(!part.is_empty());
                let _either = tool(part);
            }
        }

        #[test]
        fn what_is_written_with_blanks_or_commas_is_read_again(
            tools in proptest::collection::vec(("[A-Za-z_/]{1,9}", proptest::option::of("[a-z:* ,]{0,5}[a-z*]")), 0..9),
            comma in any::<bool>(),
        ) {
            let tools: Vec<AllowedTool> = tools
                .into_iter()
                .map(|(name, scope)| AllowedTool { name, scope: scope.map(|scope| scope.trim().to_owned()) })
                .collect();
            let written: Vec<String> = tools.iter().map(ToString::to_string).collect();
            let text = written.join(if comma { "," } else { " " });
            let read = split(&text).into_iter().map(|part| tool(part).expect("it is valid"));
            prop_assert_eq!(read.collect::<Vec<_>>(), tools);
        }
    }
}
