//! What a text says: the rules of wording, sentence by sentence.

use std::collections::HashMap;
use std::iter;
use std::sync::LazyLock;

use regex::Regex;

use super::fold::{fold, sentences, without_digits_for_letters, without_examples, words};
use super::lexicon::{Concept, Concepts, Reading};
use super::rules::{ENCODED_TEXT, Place, Severity, WORDINGS, Wording};
use super::texts::{Kind, Text, parameter_names};
use super::{Found, copies, hidden};
use picktools::catalog::Tool;
use picktools::catalog::spelling::normalise;

/// The most of one text that is read, in bytes; a longer one is too long anyway.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// Fewer words of a title or value are no order.
const LEAST_ORDER: usize = 4;

/// Words of purposes that need secrets, in folded text.
static NEEDS_SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:ssh|instance|machine|clipboard|browser|cookie|contact|histor|otp|2fa|mfa|key|secret|credential|env|aws|s3|cloud|git|deploy|config|vault|leak|scan|log.?in|log.?on|sign.?(?:in|up)|auth|token|password|passw|encrypt|decrypt|crypt|wallet|mnemonic|account|session|cert|kube|docker|server|host|database|connect|registry|publish|install|user|register|api|oauth|identity|protect|unlock|security|wifi|ftp|smtp|mail|schlussel|zugang|kennwort|passwort|secret|密|登录|парол)",
    )
});

/// Words of purposes that need what was said.
static NEEDS_CONVERSATION: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:chat|convers|messag|dialog|transcri|prompt|memor|thread|mail|sms|forum|comment|history|assistant|agent|llm|model|complet|generat|answer|reply|respond|summar|gpt|bot|slack|discord|telegram|inbox|session|talk|speech|nachricht|gesprach|mensaje|conversa|historial|消息|对话|聊天|сообщ|диалог|чат)",
    )
});

/// Words of purposes that need files.
static NEEDS_FILES: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:file|folder|director|document|project|repo|code|upload|sync|backup|workspace|disk|storage|archive|commit|datei|fichier|archivo|文件)",
    )
});

/// Words of purposes that need payments or identities.
static NEEDS_PERSONAL: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:pay|card|bank|account|book|order|buy|purchas|checkout|customer|person|profile|employ|deliver|insur|loan|credit|tax|identi|verif|kyc|passport|visa|travel|flight|ticket|reserv|subscri|bill|invoice|transfer|donat|charge|refund|financ|user|register|applicant|patient|benefit|ssn|social|fraud|valid|hotel|rent|wallet|transact|cvv|merchant|stripe|loyalty|citizen|hire|candidate|medic|health|member|sign)",
    )
});

/// Words of purposes that send to an address.
static NEEDS_ADDRESS: LazyLock<Regex> = LazyLock::new(|| regex(r"web[ _-]?hook|callback"));

/// What a parameter is called that takes the key or the password of the tool's own service.
static CREDENTIAL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?:key|token|secret|passw|credential|connectionstring|auth)"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a test compiles it")
}

/// The names of a catalog's tools and their sources.
pub(super) struct Names<'a>(HashMap<String, Option<&'a str>>);

impl<'a> Names<'a> {
    pub(super) fn new(tools: impl Iterator<Item = &'a Tool>) -> Self {
        let mut names = HashMap::new();
        for tool in tools {
            names
                .entry(normalise(&tool.name))
                .or_insert(tool.source.as_deref());
        }
        Self(names)
    }
}

/// Applies the rules of wording to the texts of a tool.
pub(super) fn check(tool: &Tool, texts: &[Text<'_>], names: &Names<'_>) -> Vec<Found> {
    let parameters = parameter_names(texts);
    let own = normalise(&tool.name);
    // In a family `a`, the tool `a.b` is called `b`.
    let family = copies::family(tool).map(normalise);
    let marked = |identifier: &str| {
        let name = normalise(identifier);
        let of_family = family.as_ref().map(|family| format!("{family}{name}"));
        match names.0.get(&name) {
            _ if name == own || of_family.as_ref() == Some(&own) => "xownx ",
            _ if parameters.contains(&name) => "",
            Some(source) if *source == tool.source.as_deref() => "xsiblingx ",
            Some(_) => "xforeignx ",
            None => "xotherx ",
        }
    };
    let mut found = Vec::new();
    for text in texts {
        let bounded = &text.text[..text.text.floor_char_boundary(MAX_TEXT_BYTES)];
        check_text(text, bounded, &marked, tool, &mut found);
    }
    found
}

/// Returns `true` if what `concepts` ask for belongs to what the tool says it is for: its name, its
/// title, and the first sentence of its description.
fn covers(tool: &Tool, text: &Text<'_>, concepts: Concepts) -> bool {
    let first = sentences(&tool.description)
        .into_iter()
        .next()
        .unwrap_or_default();
    let title = tool.title.as_deref().unwrap_or_default();
    let purpose = fold(&format!(
        "{} {title} {}",
        tool.name,
        &first[..first.floor_char_boundary(300)]
    ));
    let needs = |expression: &Regex, all: &[Concept]| {
        !concepts.has_any(Concepts::all(all)) || expression.is_match(&purpose)
    };
    needs(&NEEDS_SECRETS, &[Concept::Secrets])
        && (is_declared(text) || needs(&NEEDS_SECRETS, &[Concept::Credentials]))
        && needs(
            &NEEDS_CONVERSATION,
            &[Concept::Conversation, Concept::History],
        )
        && needs(&NEEDS_FILES, &[Concept::LocalFiles])
        && needs(&NEEDS_PERSONAL, &[Concept::Personal])
        && needs(&NEEDS_ADDRESS, &[Concept::Elsewhere])
}

/// Returns `true` if a text is about a parameter whose name says that it takes a credential.
fn is_declared(text: &Text<'_>) -> bool {
    let name = text
        .pointer
        .rsplit_once("/properties/")
        .map(|(_, rest)| rest.split('/').next().unwrap_or_default());
    name.is_some_and(|name| CREDENTIAL.is_match(&normalise(name)))
}

fn check_text(
    text: &Text<'_>,
    bounded: &str,
    marked: &dyn Fn(&str) -> &'static str,
    tool: &Tool,
    found: &mut Vec<Found>,
) {
    let is_label = matches!(text.kind, Kind::Name | Kind::ParameterName);
    let mut before = Sentence::default();
    for sentence in sentences(bounded) {
        let spaced = if is_label {
            sentence.replace(['_', '-'], " ")
        } else {
            mark(sentence, marked)
        };
        let read = Sentence::read(&fold(&spaced));
        // Only what may come to a finding is looked for: in most sentences, nothing.
        let may_match = |wording: &&Wording| {
            let said = if wording.across {
                read.may_say.union(before.may_say)
            } else {
                read.may_say
            };
            may_match(wording, said, read.may_say) && wording.place.holds(text.kind, || false)
        };
        let told_by = |wording: &Wording| wording.all.union(wording.any).union(wording.none);
        let wanted = WORDINGS
            .iter()
            .filter(may_match)
            .map(told_by)
            .fold(Concepts::default(), Concepts::union);
        apply(
            text,
            sentence,
            read.says(wanted),
            before.says(wanted),
            tool,
            found,
        );
        before = read;
    }
    for hidden in hidden::decoded(bounded) {
        let concepts = sentences(&hidden.text)
            .into_iter()
            .fold(Concepts::default(), |all, sentence| {
                all.union(Concepts::of(fold(sentence)))
            });
        let speaks = WORDINGS
            .iter()
            .any(|wording| !wording.across && matches(wording, concepts, concepts));
        if speaks || (hidden.is_prose && text.kind != Kind::Value) {
            let severity = if speaks {
                Severity::Error
            } else {
                Severity::Warning
            };
            found.push(Found {
                severity,
                message: format!("{} decodes to prose", hidden.encoding),
                ..Found::new(&ENCODED_TEXT, &text.pointer, &hidden.text)
            });
        }
    }
}

/// A sentence, as it stands and with its digits read as letters.
#[derive(Default)]
struct Sentence {
    readings: Vec<Reading>,
    may_say: Concepts,
}

impl Sentence {
    fn read(folded: &str) -> Self {
        let read = without_examples(folded).into_owned();
        let letters = without_digits_for_letters(&read).map(Reading::new);
        let readings: Vec<Reading> = iter::once(Reading::new(read)).chain(letters).collect();
        let may_say = readings
            .iter()
            .map(Reading::may_say)
            .fold(Concepts::default(), Concepts::union);
        Self { readings, may_say }
    }

    fn says(&self, wanted: Concepts) -> Concepts {
        self.readings
            .iter()
            .map(|reading| reading.says(wanted))
            .fold(Concepts::default(), Concepts::union)
    }
}

fn matches(wording: &Wording, concepts: Concepts, own: Concepts) -> bool {
    may_match(wording, concepts, own) && !concepts.has_any(wording.none)
}

/// Returns `true` if a sentence that says a part of `concepts`, of these `own` by itself, may
/// match.
fn may_match(wording: &Wording, concepts: Concepts, own: Concepts) -> bool {
    concepts.has_all(wording.all)
        && (wording.any.is_empty() || concepts.has_any(wording.any))
        // The sentence itself has a part in it.
        && own.has_any(wording.all.union(wording.any))
}

fn apply(
    text: &Text<'_>,
    sentence: &str,
    concepts: Concepts,
    before: Concepts,
    tool: &Tool,
    found: &mut Vec<Found>,
) {
    if concepts.is_empty() {
        return;
    }
    for wording in WORDINGS {
        let said = if wording.across {
            concepts.union(before)
        } else {
            concepts
        };
        if !matches(wording, said, concepts)
            || !wording
                .place
                .holds(text.kind, || covers(tool, text, wording.all))
        {
            continue;
        }
        // "Forget password" is a title, and no order.
        if wording.place == Place::Label && words(sentence).nth(LEAST_ORDER - 1).is_none() {
            continue;
        }
        let finding = Found {
            severity: wording.severity,
            ..Found::new(wording.rule, &text.pointer, sentence.trim())
        };
        match found
            .iter_mut()
            .find(|other| other.rule == wording.rule && other.pointer == text.pointer)
        {
            Some(other) if other.severity < finding.severity => *other = finding,
            Some(_) => {}
            None => found.push(finding),
        }
    }
}

/// Returns `true` if what stands before an identifier says that it is a value and no tool:
/// `set to abc_def`, `type=abc_def`.
fn is_value(before: &str) -> bool {
    let before = before.trim_end_matches(['`', '\'', '"', ' ']);
    before.ends_with('=')
        || ["set to", "equal to"]
            .iter()
            .any(|said| before.ends_with(said))
}

/// Puts before each identifier what it is.
fn mark(sentence: &str, marked: &dyn Fn(&str) -> &'static str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut text = String::with_capacity(sentence.len() + 16);
    let mut quoted = false;
    let mut rest = sentence;
    while let Some(c) = rest.chars().next() {
        if !is_part(c) {
            text.push(c);
            quoted = c == '`';
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let name = word.trim_matches(['.', '-']);
        let camel = || {
            name.chars()
                .zip(name.chars().skip(1))
                .any(|(a, b)| a.is_lowercase() && b.is_uppercase())
        };
        let is_quoted = quoted && rest[end..].starts_with('`');
        if name.len() < 128
            && !text.ends_with(['<', '|', '/'])
            && (name.contains('_') || is_quoted || camel())
        {
            let kind = match marked(name) {
                "xotherx " if is_value(&text) => "",
                kind => kind,
            };
            // The mark stands before the opening backtick, which folds to a quotation mark.
            if text.ends_with('`') {
                text.pop();
                text.push_str(kind);
                text.push('`');
            } else {
                text.push_str(kind);
            }
        }
        quoted = false;
        text.push_str(word);
        rest = &rest[end..];
    }
    text
}
