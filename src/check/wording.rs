//! What a text says: the rules of wording, sentence by sentence.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::fold::{fold, sentences, without_digits_for_letters, without_examples, words};
use super::lexicon::{Concept, Concepts};
use super::rules::{ENCODED_TEXT, Place, Severity, WORDINGS};
use super::texts::{Kind, Text, parameter_names};
use super::{Found, hidden};
use crate::catalog::Tool;
use crate::catalog::spelling::normalise;

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

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a test compiles it")
}

/// The names of a catalog's tools and their sources.
pub(super) struct Names<'a>(HashMap<String, Option<&'a str>>);

impl<'a> Names<'a> {
    pub(super) fn new(tools: impl Iterator<Item = &'a Tool>) -> Self {
        let mut names = HashMap::new();
        for tool in tools {
            names.entry(normalise(&tool.name)).or_insert(tool.source.as_deref());
        }
        Self(names)
    }
}

/// Applies the rules of wording to the texts of a tool.
pub(super) fn check(tool: &Tool, texts: &[Text<'_>], names: &Names<'_>) -> Vec<Found> {
    let parameters = parameter_names(texts);
    let own = normalise(&tool.name);
    let marked = |identifier: &str| {
        let name = normalise(identifier);
        match names.0.get(&name) {
            _ if name == own => "xownx ",
            _ if parameters.contains(&name) => "",
            Some(source) if *source == tool.source.as_deref() => "xsiblingx ",
            Some(_) => "xforeignx ",
            None => "xotherx ",
        }
    };
    let purpose = purpose(tool);
    let mut found = Vec::new();
    for text in texts {
        let bounded = &text.text[..text.text.floor_char_boundary(MAX_TEXT_BYTES)];
        check_text(text, bounded, &marked, &purpose, &mut found);
    }
    found
}

/// What a tool says it is for: its name, its title, and the first sentence of its description.
struct Purpose {
    secrets: bool,
    conversation: bool,
    personal: bool,
    files: bool,
}

fn purpose(tool: &Tool) -> Purpose {
    let first = sentences(&tool.description).into_iter().next().unwrap_or_default();
    let title = tool.title.as_deref().unwrap_or_default();
    let text = fold(&format!("{} {title} {}", tool.name, &first[..first.floor_char_boundary(300)]));
    Purpose {
        secrets: NEEDS_SECRETS.is_match(&text),
        conversation: NEEDS_CONVERSATION.is_match(&text),
        personal: NEEDS_PERSONAL.is_match(&text),
        files: NEEDS_FILES.is_match(&text),
    }
}

impl Purpose {
    /// Whether what `concepts` ask for belongs to it.
    fn covers(&self, concepts: Concepts) -> bool {
        (self.secrets || !concepts.has_any(Concepts::all(&[Concept::Secrets])))
            && (self.conversation || !concepts.has_any(Concepts::all(&[Concept::Conversation, Concept::History])))
            && (self.files || !concepts.has_any(Concepts::all(&[Concept::LocalFiles])))
            && (self.personal || !concepts.has_any(Concepts::all(&[Concept::Personal])))
    }
}

fn check_text(
    text: &Text<'_>,
    bounded: &str,
    marked: &dyn Fn(&str) -> &'static str,
    purpose: &Purpose,
    found: &mut Vec<Found>,
) {
    let is_label = matches!(text.kind, Kind::Name | Kind::ParameterName);
    let mut before = Concepts::default();
    for sentence in sentences(bounded) {
        let spaced = if is_label { sentence.replace(['_', '-'], " ") } else { mark(sentence, marked) };
        let folded = fold(&spaced);
        let read = without_examples(&folded);
        let mut concepts = Concepts::of(&read);
        if let Some(letters) = without_digits_for_letters(&read) {
            concepts = concepts.union(Concepts::of(&letters));
        }
        apply(text, sentence, concepts, before, purpose, found);
        before = concepts;
    }
    for hidden in hidden::decoded(bounded) {
        let concepts = sentences(&hidden.text)
            .into_iter()
            .fold(Concepts::default(), |all, sentence| all.union(Concepts::of(&fold(sentence))));
        let speaks = WORDINGS.iter().any(|wording| !wording.across && matches(wording, concepts, concepts));
        if speaks || (hidden.is_prose && text.kind != Kind::Value) {
            let severity = if speaks { Severity::Error } else { Severity::Warning };
            found.push(Found {
                severity,
                message: format!("{} decodes to prose", hidden.encoding),
                ..Found::new(&ENCODED_TEXT, &text.pointer, &hidden.text)
            });
        }
    }
}

fn matches(wording: &super::rules::Wording, concepts: Concepts, own: Concepts) -> bool {
    concepts.has_all(wording.all)
        && (wording.any.is_empty() || concepts.has_any(wording.any))
        && !concepts.has_any(wording.none)
        // The sentence itself has a part in it.
        && own.has_any(wording.all.union(wording.any))
}

fn apply(
    text: &Text<'_>,
    sentence: &str,
    concepts: Concepts,
    before: Concepts,
    purpose: &Purpose,
    found: &mut Vec<Found>,
) {
    if concepts.is_empty() {
        return;
    }
    for wording in WORDINGS {
        let said = if wording.across { concepts.union(before) } else { concepts };
        let related = purpose.covers(wording.all);
        // "Forget password" is a title, and no order.
        let is_short = wording.place == Place::Label && words(sentence).nth(LEAST_ORDER - 1).is_none();
        if is_short || !wording.place.holds(text.kind, related) || !matches(wording, said, concepts) {
            continue;
        }
        let finding = Found { severity: wording.severity, ..Found::new(wording.rule, &text.pointer, sentence.trim()) };
        match found.iter_mut().find(|other| other.rule == wording.rule && other.pointer == text.pointer) {
            Some(other) if other.severity < finding.severity => *other = finding,
            Some(_) => {}
            None => found.push(finding),
        }
    }
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
        let camel = || name.chars().zip(name.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
        let is_quoted = quoted && rest[end..].starts_with('`');
        if name.len() < 128 && !text.ends_with(['<', '|', '/']) && (name.contains('_') || is_quoted || camel()) {
            // The mark stands before the opening backtick, which folds to a quotation mark.
            if text.ends_with('`') {
                text.pop();
                text.push_str(marked(name));
                text.push('`');
            } else {
                text.push_str(marked(name));
            }
        }
        quoted = false;
        text.push_str(word);
        rest = &rest[end..];
    }
    text
}
