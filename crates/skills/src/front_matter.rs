//! The parser of a `SKILL.md`: it returns a [`Skill`], or every fault of the text.

use picktools::skills::Skill;

use crate::SkillFault;
use crate::allowed_tools::parse_allowed_tools;
use crate::located::Located;
use crate::members::FrontMatter;
use crate::specification::{MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS};
use crate::tolerant::{self, TolerantReading};
use crate::yaml::{MAX_FRONT_MATTER_BYTES, is_attack, parse_yaml, syntax_fault};
/// The line before and after front matter.
const FENCE: &str = "---";

/// A skill with the warnings of its parser.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParsedSkill {
    /// The skill.
    pub skill: Skill,
    /// Values of the front matter that are not valid YAML, and were read as plain text.
    pub warnings: Vec<SkillFault>,
}

/// Parses a `SKILL.md`. The `path` of the result is empty.
pub(super) fn parse(text: &str) -> Result<ParsedSkill, Vec<SkillFault>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (yaml, body) = split_fences(text).map_err(|fault| vec![fault])?;
    let TolerantReading { members, warnings } = read_members(yaml)?;
    let mut faults = Vec::new();
    let mut missing = Vec::new();
    let mut name = None;
    match &members.name {
        Some(text) => name = check(&mut faults, text, name_problem),
        None => missing.push("name"),
    }
    let mut description = None;
    match &members.description {
        Some(text) => description = check(&mut faults, text, description_problem),
        None => missing.push("description"),
    }
    for field in missing {
        faults.push(SkillFault {
            line: None,
            message: format!("the {field} is missing"),
            remedy: format!("write `{field}: …` into the front matter"),
        });
    }
    let allowed_tools = match &members.allowed_tools {
        Some(entries) => parse_allowed_tools(&mut faults, entries),
        None => Vec::new(),
    };
    if body.trim().is_empty() {
        faults.push(SkillFault {
            line: None,
            message: "the text below the front matter is empty".to_owned(),
            remedy: "write the instructions there".to_owned(),
        });
    }
    match (name, description) {
        (Some(name), Some(description)) if faults.is_empty() => Ok(ParsedSkill {
            skill: Skill {
                name,
                description,
                path: String::new(),
                allowed_tools,
                body: body.to_owned(),
            },
            warnings,
        }),
        _ => Err(faults),
    }
}

/// Reads front matter as YAML, and as simple `key: value` lines if it is not valid YAML.
fn read_members(yaml: &str) -> Result<TolerantReading, Vec<SkillFault>> {
    let error = match parse_yaml::<FrontMatter>(yaml) {
        Ok(front_matter) => {
            return Ok(TolerantReading {
                members: front_matter.into(),
                warnings: Vec::new(),
            });
        }
        Err(error) => error,
    };
    let fault = syntax_fault(&error);
    let is_final = matches!(error, serde_saphyr::Error::DuplicateMappingKey { .. });
    if is_final || is_attack(&error) {
        return Err(vec![fault]);
    }
    tolerant::read_lines(yaml, &fault)
}

/// Splits the front matter from the body. The front matter keeps its first line, so that line
/// numbers are right.
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
                "move long parts below the line that closes it",
            ));
        }
    }
    Err(fault(
        1,
        "the front matter has no end",
        "close it with a line `---`",
    ))
}

/// The fault of a value, without its line.
struct ValueProblem {
    message: String,
    remedy: String,
}

/// Returns the trimmed text, or adds the problem that `find_problem` finds in it to the faults.
fn check(
    faults: &mut Vec<SkillFault>,
    text: &Located<String>,
    find_problem: impl Fn(&str) -> Option<ValueProblem>,
) -> Option<String> {
    let value = text.value.trim();
    let Some(ValueProblem { message, remedy }) = find_problem(value) else {
        return Some(value.to_owned());
    };
    faults.push(SkillFault {
        line: text.line,
        message,
        remedy,
    });
    None
}

fn name_problem(name: &str) -> Option<ValueProblem> {
    let is_allowed = |c: char| c == '-' || (c.is_alphanumeric() && !c.is_uppercase());
    let rule = "use lowercase letters, digits, and single hyphens between them";
    let length = name.chars().count();
    let message = if length == 0 {
        "the name is empty".to_owned()
    } else if length > MAX_NAME_CHARS {
        return Some(ValueProblem {
            message: format!("the name has {length} characters"),
            remedy: format!("shorten it to {MAX_NAME_CHARS}"),
        });
    } else if let Some(c) = name.chars().find(|&c| !is_allowed(c)) {
        format!("the name {name:?} contains {c:?}")
    } else if name.starts_with('-') || name.ends_with('-') {
        format!("the name {name:?} begins or ends with a hyphen")
    } else if name.contains("--") {
        format!("the name {name:?} contains two hyphens in a row")
    } else {
        return None;
    };
    Some(ValueProblem {
        message,
        remedy: rule.to_owned(),
    })
}

fn description_problem(description: &str) -> Option<ValueProblem> {
    let length = description.chars().count();
    if length == 0 {
        return Some(ValueProblem {
            message: "the description is empty".to_owned(),
            remedy: "say what the skill does and when to use it".to_owned(),
        });
    }
    if length > MAX_DESCRIPTION_CHARS {
        return Some(ValueProblem {
            message: format!("the description has {length} characters"),
            remedy: format!("shorten it to {MAX_DESCRIPTION_CHARS}"),
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use picktools::skills::AllowedTool;
    use proptest::prelude::*;

    use super::*;
    use crate::allowed_tools::{is_separator, parse_tool, split_entries};

    fn file(front_matter: &str) -> String {
        format!("---\n{front_matter}\n---\n\nDo this.\n")
    }

    fn tools(value: &str) -> Vec<String> {
        let text = file(&format!("name: a\ndescription: b\nallowed-tools: {value}"));
        let parsed = parse(&text).unwrap_or_else(|faults| panic!("{value}: {faults:?}"));
        let skill = parsed.skill;
        skill
            .allowed_tools
            .iter()
            .map(|tool| format!("{}|{}", tool.name, tool.scope.as_deref().unwrap_or("")))
            .collect()
    }

    fn faults(text: &str) -> Vec<(Option<usize>, String)> {
        let faults = parse(text).expect_err("the text is not valid");
        faults
            .into_iter()
            .map(|fault| (fault.line, fault.message))
            .collect()
    }

    #[test]
    fn allowed_tools_are_a_list_or_a_text_with_optional_scopes() {
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
    fn other_members_are_ignored_and_any_line_end_is_accepted() {
        let text = "\u{feff}---\r\nname: a-1\r\nlicense: MIT\r\nmetadata:\r\n  owner: {b: [c]}\r\n\
                    description: >\r\n  one\r\n  two\r\n---\r\nDo this.\r\n";
        let skill = parse(text).expect("it is valid").skill;
        assert_eq!(
            (skill.name.as_str(), skill.description.as_str()),
            ("a-1", "one two")
        );
        assert_eq!(skill.body, "Do this.\r\n");
    }

    #[test]
    fn every_fault_has_its_line() {
        let long = "x".repeat(1025);
        let text = format!(
            "---\nname: Deploy Now\ndescription: {long}\nallowed-tools: Read Bash(git (x\n---\n"
        );
        let reported = faults(&text);
        let lines: Vec<_> = reported.iter().map(|fault| fault.0).collect();
        assert_eq!(lines, [Some(2), Some(3), Some(4), None], "{reported:?}");
        assert!(
            reported[0].1.contains("contains 'D'")
                && reported[1].1.contains("1025")
                && reported[2].1.contains("not closed")
        );
        let reported = faults("---\nlicense: MIT\n---\nDo this.");
        assert_eq!(reported.len(), 2, "{reported:?}");
    }

    #[test]
    fn names_follow_the_specification() {
        for (name, part) in [
            ("-a", "hyphen"),
            ("a-", "hyphen"),
            ("a--b", "two hyphens"),
            ("a_b", "'_'"),
            ("''", "is empty"),
            (&*"a".repeat(65), "65 characters"),
        ] {
            let reported = faults(&file(&format!("name: {name}\ndescription: b")));
            assert!(
                reported.len() == 1 && reported[0].0 == Some(2) && reported[0].1.contains(part),
                "{name}: {reported:?}"
            );
        }
        assert!(parse(&file("name: größe-2\ndescription: b")).is_ok());
    }

    #[test]
    fn invalid_front_matter_is_reported_with_its_line() {
        for (text, line, part) in [
            ("", None, "no end"),
            ("Do this.", Some(1), "does not begin with"),
            ("---\nname: a\n", Some(1), "no end"),
            (
                "---\nname: a\ndescription: 'a 'b': c'\n---\nx",
                Some(3),
                "is not valid YAML",
            ),
            (
                "---\nname: a\nname: b\ndescription: c\n---\nx",
                Some(3),
                "duplicate key",
            ),
            (
                "---\nname: [a]\ndescription: c\n---\nx",
                Some(2),
                "wrong type",
            ),
            (
                "---\nname: a\ndescription: c\nallowed-tools: {a: b}\n---\nx",
                Some(4),
                "wrong type",
            ),
            ("---\n- a\n---\nx", None, "wrong type"),
        ] {
            let reported = faults(text);
            assert!(
                reported[0].1.contains(part) && (line.is_none() || reported[0].0 == line),
                "{text:?}: {reported:?}"
            );
        }
    }

    #[test]
    fn expanding_documents_are_refused_quickly() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let previous = level - 1;
            bomb.push_str(&format!(
                "a{level}: &a{level} [{}]\n",
                vec![format!("*a{previous}"); 10].join(", ")
            ));
        }
        let deep = format!("x: {}{}", "[".repeat(30_000), "]".repeat(30_000));
        let braces = format!("x: {}", "{a: ".repeat(15_000));
        let long = format!("x: {}", "y".repeat(70_000));
        let started = Instant::now();
        let with_members = |text: &str| file(&format!("{text}\nname: a\ndescription: b"));
        for text in [bomb, braces, long] {
            let faults = parse(&with_members(&text)).expect_err("it is refused");
            assert_eq!(faults.len(), 1);
        }
        let parsed = parse(&with_members(&deep)).expect("the other member is not read");
        assert_eq!(parsed.warnings.len(), 1);
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", yaml in "[-a-z0-9:#&*!|>'\"%@{}\\[\\](), \n\t]{0,200}") {
            for text in [&text, &yaml, &file(&text), &file(&yaml), &file(&format!("allowed-tools: {yaml}"))] {
                if let Err(faults) = parse(text) {
                    prop_assert!(!faults.is_empty());
                }
            }
            for part in split_entries(&text, is_separator).into_iter().chain(split_entries(&yaml, is_separator)) {
                prop_assert!(!part.is_empty());
                let _either = parse_tool(part);
            }
        }

        #[test]
        fn tools_separated_by_spaces_or_commas_read_back(
            tools in proptest::collection::vec(("[A-Za-z_/]{1,9}", proptest::option::of("[a-z:* ,]{0,5}[a-z*]")), 0..9),
            comma in any::<bool>(),
        ) {
            let tools: Vec<AllowedTool> = tools
                .into_iter()
                .map(|(name, scope)| AllowedTool { name, scope: scope.map(|scope| scope.trim().to_owned()) })
                .collect();
            let written: Vec<String> = tools.iter().map(ToString::to_string).collect();
            let text = written.join(if comma { "," } else { " " });
            let parsed = split_entries(&text, is_separator).into_iter().map(|part| parse_tool(part).expect("it is valid"));
            prop_assert_eq!(parsed.collect::<Vec<_>>(), tools);
        }
    }
}
