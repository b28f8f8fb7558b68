//! The words that rules are made of: what a sentence may say to a model, each in the languages that
//! catalogs are written in.
//!
//! A concept is a set of patterns, matched against folded text (`fold`), in which `xownx` stands
//! before the tool's own name, `xsiblingx` before another of its source, `xforeignx` before one of
//! another source, and `xotherx` before any other identifier. The kinds are those of the field:
//! direct injection, concealment, shadowing of other tools, exfiltration, manipulation of the
//! selection (OWASP LLM01 and the OWASP MCP Top 10, Invariant Labs on tool poisoning).

use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexBuilder};

use super::literals::Literals;

macro_rules! concepts {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
        /// What a sentence may say.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(super) enum Concept {
            $(#[doc = $doc] $name,)*
        }

        /// Every concept by its heading in the file of patterns.
        const CONCEPT_NAMES: &[(Concept, &str)] = &[$((Concept::$name, stringify!($name))),*];
    };
}

/// The patterns: below the name of each concept, one a line.
const PATTERNS: &str = include_str!("lexicon.txt");

concepts! {
    /// Whom it speaks to is a model.
    Addressed,
    /// An assistant's name as if in a chat: `assistant: …`.
    RolePrefix,
    /// Markup that frames messages to a model: chat templates, tags of roles and orders.
    RoleMarkup,
    /// Tags of roles and orders, which may be those of a document too.
    RoleTag,
    /// What the model is to say.
    Answering,
    /// Speaks of how something is written.
    Documenting,
    /// An order to ignore or to break.
    Overriding,
    /// What a model was told before.
    Orders,
    /// Rules that are said to be off.
    Suspended,
    /// Checks are said to be off, or not to matter.
    ChecksOff,
    /// The user shall not know.
    Concealing,
    /// Nobody shall be asked.
    Unasked,
    /// A false word to the user.
    Deceiving,
    /// Who speaks is in authority.
    Authority,
    /// Other tools, at large.
    OtherTools,
    /// Before or after other calls.
    AroundCalls,
    /// Another tool, by an identifier.
    OtherName,
    /// At every call.
    EachCall,
    /// Something has to be.
    Obliging,
    /// What was given to another tool is to be changed.
    Rewriting,
    /// In the place of others.
    Replacing,
    /// Not to use another tool, by name or at large.
    AgainstOthers,
    /// Another tool is called, or given something.
    UsesOther,
    /// To go without another tool.
    SkipOthers,
    /// Something said to be broken.
    Broken,
    /// Always, first, whatever else.
    Always,
    /// This tool is to be called.
    CallMe,
    /// To take this tool and no other.
    ChooseMe,
    /// To sway how tools are ranked.
    Rigging,
    /// Praise of the tool.
    Praise,
    /// What was said in the conversation, or to the model.
    Conversation,
    /// The record of a conversation, or what a model was told in secret.
    History,
    /// Why something is asked for that the purpose does not need.
    Justifying,
    /// Files that happen to be there.
    LocalFiles,
    /// All of it.
    Whole,
    /// Files and values that are secret wherever they stand.
    Secrets,
    /// Keys and passwords, which a service may have of its own.
    Credentials,
    /// What only payments, banks, doctors and offices need.
    Personal,
    /// Beyond what the tool is for.
    Besides,
    /// To hand over.
    Sending,
    /// Somewhere outside.
    Elsewhere,
    /// Whose data it would be.
    UserData,
    /// A tool that may be there is to be called.
    IfThere,
    /// Another tool is to be called too.
    CallOther,
    /// To decode and obey.
    Decoding,
    /// A command that no description needs.
    Commanding,
    /// Speaks of what it guards against.
    Guarding,
}

/// Words after which a quotation is an example of something.
static EXAMPLES: LazyLock<Regex> = LazyLock::new(|| {
    compiled(
        r"\b(?:such as|for example|for instance|e\.g\.|phrases?|sentences?|wording|words?|strings?|patterns?|attempts?|examples?|like|say|says|saying|style of|kind of|jailbreaks?|injections?|inputs?|detect\w*|finds?|flags?|scans?|lints?|matches|etwa|zum beispiel|z\. ?b\.|satz|satze|wie|par exemple|comme|phrase|por ejemplo|como|frases?|ad esempio|per esempio|например|фраз\w*|типа)\b|(?:例如|比如|诸如|如|短语|例えば|などの|예를 들어)",
    )
});

/// Returns `true` if a text speaks of examples.
pub(super) fn speaks_of_examples(folded: &str) -> bool {
    EXAMPLES.is_match(folded)
}

/// An expression for each pattern, made when it is first needed: one for all of them has more
/// states than its cache holds, and would run a hundred times slower.
struct Pattern {
    concept: Concept,
    text: String,
    expression: OnceLock<Regex>,
}

impl Pattern {
    fn is_match(&self, folded: &str) -> bool {
        let make = || {
            RegexBuilder::new(&self.text)
                .dfa_size_limit(8 << 20)
                .build()
                .expect("a test compiles it")
        };
        self.expression.get_or_init(make).is_match(folded)
    }
}

/// All patterns, and what tells which of them may match.
struct Lexicon {
    patterns: Vec<Pattern>,
    literals: Literals,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let below = |concept: Concept, name: &str| {
        let heading = format!("= {name}");
        let lines = PATTERNS
            .lines()
            .skip_while(move |line| *line != heading)
            .skip(1);
        let lines = lines.take_while(|line| !line.is_empty());
        lines.map(move |line| Pattern {
            concept,
            text: ascii_bounds(line),
            expression: OnceLock::new(),
        })
    };
    let patterns: Vec<Pattern> = CONCEPT_NAMES
        .iter()
        .flat_map(|&(concept, name)| below(concept, name))
        .collect();
    let literals = Literals::new(patterns.iter().map(|pattern| pattern.text.as_str()));
    Lexicon { patterns, literals }
});

/// Word bounds by ASCII, which the folded text of Latin scripts is; they keep the automaton fast.
fn ascii_bounds(pattern: &str) -> String {
    pattern
        .replace(r"\b", r"(?-u:\b)")
        .replace(r"\w", "[a-z0-9_а-я]")
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(&ascii_bounds(pattern)).expect("a test compiles it")
}

/// A set of concepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Concepts(u64);

/// A folded sentence, and the patterns that may match it.
pub(super) struct Reading {
    folded: String,
    patterns: Vec<usize>,
}

impl Reading {
    pub(super) fn new(folded: String) -> Self {
        Self {
            patterns: LEXICON.literals.in_text(&folded),
            folded,
        }
    }

    /// What the sentence may say; it says nothing else.
    pub(super) fn may_say(&self) -> Concepts {
        let concepts = self
            .patterns
            .iter()
            .map(|&pattern| Concepts::one(LEXICON.patterns[pattern].concept));
        concepts.fold(Concepts::default(), Concepts::union)
    }

    /// Which of these concepts the sentence says.
    pub(super) fn says(&self, wanted: Concepts) -> Concepts {
        let mut concepts = Concepts::default();
        for &pattern in &self.patterns {
            let pattern = &LEXICON.patterns[pattern];
            let concept = Concepts::one(pattern.concept);
            if wanted.has_any(concept)
                && !concepts.has_any(concept)
                && pattern.is_match(&self.folded)
            {
                concepts = concepts.union(concept);
            }
        }
        concepts
    }
}

impl Concepts {
    /// What a folded sentence says.
    pub(super) fn of(folded: String) -> Self {
        let reading = Reading::new(folded);
        reading.says(reading.may_say())
    }

    const fn one(concept: Concept) -> Self {
        Self(1 << concept as u32)
    }

    pub(super) const fn all(concepts: &[Concept]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < concepts.len() {
            bits |= Self::one(concepts[at]).0;
            at += 1;
        }
        Self(bits)
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has_all(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    pub(super) const fn has_any(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::fold::{fold, sentences};
    use super::*;

    #[test]
    fn every_concept_has_patterns_and_every_heading_is_a_concept() {
        assert!(
            LEXICON.patterns.iter().all(|pattern| !pattern.is_match("")),
            "a pattern matches nothing at all"
        );
        let has_patterns = |concept| {
            LEXICON
                .patterns
                .iter()
                .any(|pattern| pattern.concept == concept)
        };
        assert!(
            CONCEPT_NAMES
                .iter()
                .all(|&(concept, _)| has_patterns(concept))
        );
        let headings: Vec<&str> = PATTERNS
            .lines()
            .filter_map(|line| line.strip_prefix("= "))
            .collect();
        assert_eq!(
            headings,
            CONCEPT_NAMES
                .iter()
                .map(|(_, name)| *name)
                .collect::<Vec<_>>()
        );
        assert!(headings.len() <= 64, "a set of concepts has 64 bits");
    }

    #[test]
    fn a_sentence_says_what_every_pattern_by_itself_finds_in_it() {
        let files = ["attacks", "benign", "second-attacks", "second-benign"];
        for file in files.map(|file| {
            format!(
                "{}/../../fixtures/hostile/{file}.jsonl",
                env!("CARGO_MANIFEST_DIR")
            )
        }) {
            let text = std::fs::read_to_string(file).expect("it is there");
            for sentence in text.lines().flat_map(sentences) {
                let folded = fold(sentence);
                let said = LEXICON
                    .patterns
                    .iter()
                    .filter(|pattern| pattern.is_match(&folded));
                let said = said.fold(Concepts::default(), |said, pattern| {
                    said.union(Concepts::one(pattern.concept))
                });
                assert_eq!(Concepts::of(folded.clone()), said, "{folded}");
                assert!(Reading::new(folded).may_say().has_all(said));
            }
        }
    }
}
