//! Checks of wording: applies the wording rules to each sentence of a text.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::finding::ToolFinding;
use super::fold::{fold, sentences, without_digits_for_letters, without_examples, words};
use super::lexicon::{Concept, Concepts, FoldedSentence};
use super::rules::{ENCODED_TEXT, Severity, WORDINGS, Wording, WordingScope};
use super::texts::{TextKind, ToolText, parameter_names};
use super::{copies, hidden};
use picktools::catalog::Tool;
use picktools::catalog::spelling::normalise;

/// The examined part of one text, in bytes; a longer one is reported as too long anyway.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// The smallest number of words of an instruction in a title or value.
const MIN_INSTRUCTION_WORDS: usize = 4;

/// Words of purposes that need secrets, in folded text.
static NEEDS_SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:ssh|instance|machine|clipboard|browser|cookie|contact|histor|otp|2fa|mfa|key|secret|credential|env|aws|s3|cloud|git|deploy|config|vault|leak|scan|log.?in|log.?on|sign.?(?:in|up)|auth|token|password|passw|encrypt|decrypt|crypt|wallet|mnemonic|account|session|cert|kube|docker|server|host|database|connect|registry|publish|install|user|register|api|oauth|identity|protect|unlock|security|wifi|ftp|smtp|mail|schlussel|zugang|kennwort|passwort|secret|密|登录|парол)",
    )
});

/// Words of purposes that need the conversation.
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

/// KnownNames of parameters for the key or password of the tool's own service.
static CREDENTIAL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?:key|token|secret|passw|credential|connectionstring|auth)"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a test compiles it")
}

/// The normalised names of a catalog's tools, with their sources.
pub(super) struct KnownNames<'a>(HashMap<String, Option<&'a str>>);

impl<'a> KnownNames<'a> {
    pub(super) fn new(tools: impl Iterator<Item = &'a Tool>) -> Self {
        let mut names = HashMap::new();
        for tool in tools {
            let name = normalise(&tool.name);
            names.entry(name).or_insert(tool.source.as_deref());
        }
        Self(names)
    }
}

/// Applies the wording rules to the texts of a tool.
pub(super) fn check(
    tool: &Tool,
    texts: &[ToolText<'_>],
    names: &KnownNames<'_>,
) -> Vec<ToolFinding> {
    let parameters = parameter_names(texts);
    let tool_name = normalise(&tool.name);
    // In a family `a`, the tool `a.b` is called `b`.
    let family = copies::family(tool).map(normalise);
    let marker_for = |identifier: &str| {
        let name = normalise(identifier);
        let is_family_name = match &family {
            Some(family) => format!("{family}{name}") == tool_name,
            None => false,
        };
        match names.0.get(&name) {
            _ if name == tool_name || is_family_name => "xownx ",
            _ if parameters.contains(&name) => "",
            Some(source) if *source == tool.source.as_deref() => "xsiblingx ",
            Some(_) => "xforeignx ",
            None => "xotherx ",
        }
    };
    let mut findings = Vec::new();
    for text in texts {
        let bounded = &text.text[..text.text.floor_char_boundary(MAX_TEXT_BYTES)];
        check_sentences(text, bounded, &marker_for, tool, &mut findings);
        check_encoded(text, bounded, &mut findings);
    }
    findings
}

/// Returns `true` if the purpose of a tool explains the sensitive `concepts`. Its name, its title
/// and the first sentence of its description state the purpose.
fn covers(tool: &Tool, text: &ToolText<'_>, concepts: Concepts) -> bool {
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

/// Returns `true` if a text describes a parameter with the name of a credential.
fn is_declared(text: &ToolText<'_>) -> bool {
    let Some((_, path)) = text.pointer.rsplit_once("/properties/") else {
        return false;
    };
    let name = path.split('/').next().unwrap_or_default();
    CREDENTIAL.is_match(&normalise(name))
}

fn check_sentences(
    text: &ToolText<'_>,
    bounded: &str,
    marker_for: &dyn Fn(&str) -> &'static str,
    tool: &Tool,
    findings: &mut Vec<ToolFinding>,
) {
    let is_name = matches!(text.kind, TextKind::Name | TextKind::ParameterName);
    let mut previous = Sentence::default();
    for sentence in sentences(bounded) {
        let prepared = if is_name {
            sentence.replace(['_', '-'], " ")
        } else {
            add_markers(sentence, marker_for)
        };
        let current = Sentence::new(&fold(&prepared));
        // Only concepts of rules that may match are searched for: in most sentences, none.
        let mut needed = Concepts::default();
        for wording in WORDINGS {
            let possible = if wording.across {
                current.possible.union(previous.possible)
            } else {
                current.possible
            };
            if may_match(wording, possible, current.possible)
                && wording.scope.includes(text.kind, || false)
            {
                needed = needed
                    .union(wording.all)
                    .union(wording.any)
                    .union(wording.none);
            }
        }
        let concepts = SentenceConcepts {
            current: current.find_concepts(needed),
            previous: previous.find_concepts(needed),
        };
        apply_rules(text, sentence, concepts, tool, findings);
        previous = current;
    }
}

/// Checks the texts that are encoded inside a text.
fn check_encoded(text: &ToolText<'_>, bounded: &str, findings: &mut Vec<ToolFinding>) {
    for decoded in hidden::decoded(bounded) {
        let mut concepts = Concepts::default();
        for sentence in sentences(&decoded.text) {
            concepts = concepts.union(Concepts::in_sentence(fold(sentence)));
        }
        let breaks_rule = WORDINGS
            .iter()
            .any(|wording| !wording.across && matches(wording, concepts, concepts));
        let severity = if breaks_rule {
            Severity::Error
        } else if decoded.is_prose && text.kind != TextKind::Value {
            Severity::Warning
        } else {
            continue;
        };
        findings.push(ToolFinding {
            severity,
            message: format!("{} decodes to prose", decoded.encoding),
            ..ToolFinding::new(&ENCODED_TEXT, &text.pointer, &decoded.text)
        });
    }
}

/// A sentence in two variants: unchanged, and with digits replaced by the letters they imitate.
#[derive(Default)]
struct Sentence {
    variants: Vec<FoldedSentence>,
    /// The concepts that any variant may express.
    possible: Concepts,
}

impl Sentence {
    fn new(folded: &str) -> Self {
        let text = without_examples(folded).into_owned();
        let letters = without_digits_for_letters(&text);
        let mut variants = vec![FoldedSentence::new(text)];
        variants.extend(letters.map(FoldedSentence::new));
        let mut possible = Concepts::default();
        for variant in &variants {
            possible = possible.union(variant.possible_concepts());
        }
        Self { variants, possible }
    }

    /// Returns those of `requested` that a variant expresses.
    fn find_concepts(&self, requested: Concepts) -> Concepts {
        let mut concepts = Concepts::default();
        for variant in &self.variants {
            concepts = concepts.union(variant.find_concepts(requested));
        }
        concepts
    }
}

/// The concepts of a sentence and of the one before it.
struct SentenceConcepts {
    current: Concepts,
    previous: Concepts,
}

/// Returns `true` if a rule applies to `concepts`, of which the sentence itself expresses
/// `current`.
fn matches(wording: &Wording, concepts: Concepts, current: Concepts) -> bool {
    may_match(wording, concepts, current) && !concepts.has_any(wording.none)
}

/// Like [`matches`], but ignores the concepts that must not occur, which need not be known yet.
fn may_match(wording: &Wording, concepts: Concepts, current: Concepts) -> bool {
    concepts.has_all(wording.all)
        && (wording.any.is_empty() || concepts.has_any(wording.any))
        // The sentence itself must contribute a concept.
        && current.has_any(wording.all.union(wording.any))
}

fn apply_rules(
    text: &ToolText<'_>,
    sentence: &str,
    concepts: SentenceConcepts,
    tool: &Tool,
    findings: &mut Vec<ToolFinding>,
) {
    let SentenceConcepts { current, previous } = concepts;
    if current.is_empty() {
        return;
    }
    for wording in WORDINGS {
        let counted = if wording.across {
            current.union(previous)
        } else {
            current
        };
        let is_covered = || covers(tool, text, wording.all);
        if !matches(wording, counted, current) || !wording.scope.includes(text.kind, is_covered) {
            continue;
        }
        // "Forget password" is a title, not an instruction.
        let is_short = words(sentence).nth(MIN_INSTRUCTION_WORDS - 1).is_none();
        if wording.scope == WordingScope::Label && is_short {
            continue;
        }
        let finding = ToolFinding {
            severity: wording.severity,
            ..ToolFinding::new(wording.rule, &text.pointer, sentence.trim())
        };
        let same_rule =
            |other: &&mut ToolFinding| other.rule == wording.rule && other.pointer == text.pointer;
        match findings.iter_mut().find(same_rule) {
            Some(other) if other.severity < finding.severity => *other = finding,
            Some(_) => {}
            None => findings.push(finding),
        }
    }
}

/// Returns `true` if the text before an identifier makes it a value and not a tool:
/// `set to abc_def`, `type=abc_def`.
fn is_value(preceding: &str) -> bool {
    let preceding = preceding.trim_end_matches(['`', '\'', '"', ' ']);
    ["=", "set to", "equal to"]
        .iter()
        .any(|phrase| preceding.ends_with(phrase))
}

/// Puts a marker before each identifier that says which tool it names.
fn add_markers(sentence: &str, marker_for: &dyn Fn(&str) -> &'static str) -> String {
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
        let is_quoted = quoted && rest[end..].starts_with('`');
        if name.len() < 128
            && !text.ends_with(['<', '|', '/'])
            && (name.contains('_') || is_quoted || is_camel_case(name))
        {
            let marker = match marker_for(name) {
                "xotherx " if is_value(&text) => "",
                marker => marker,
            };
            // The marker goes before the opening backtick, which folds to a quotation mark.
            if text.ends_with('`') {
                text.pop();
                text.push_str(marker);
                text.push('`');
            } else {
                text.push_str(marker);
            }
        }
        quoted = false;
        text.push_str(word);
        rest = &rest[end..];
    }
    text
}

fn is_camel_case(name: &str) -> bool {
    let mut follows_lowercase = false;
    for c in name.chars() {
        if follows_lowercase && c.is_uppercase() {
            return true;
        }
        follows_lowercase = c.is_lowercase();
    }
    false
}
