//! The vocabulary of the wording rules: concepts that a sentence may express, with patterns in the
//! languages of catalogs.
//!
//! A concept is a set of patterns, matched against folded text (`fold`). Before matching, each
//! identifier gets a marker: `xownx` before the tool's own name, `xsiblingx` before another tool of
//! its source, `xforeignx` before one of another source, and `xotherx` before any other identifier.
//!
//! The concepts follow the literature: direct injection, concealment, shadowing of other tools,
//! exfiltration, manipulation of the selection (OWASP LLM01 and the OWASP MCP Top 10, Invariant
//! Labs on tool poisoning).

use std::sync::{LazyLock, OnceLock};

use regex::{Regex, RegexBuilder};

use super::literals::Literals;

macro_rules! concepts {
    ($(#[doc = $doc:literal] $name:ident,)*) => {
                /// A concept that a sentence may express.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u32)]
        pub(super) enum Concept {
            $(#[doc = $doc] $name,)*
        }

                /// Every concept, with its heading in the pattern file.
        const CONCEPT_NAMES: &[(Concept, &str)] = &[$((Concept::$name, stringify!($name))),*];
    };
}

/// The pattern file: one pattern a line, below the name of its concept.
const PATTERNS: &str = include_str!("lexicon.txt");

concepts! {
        /// Addresses a model.
        Addressed,
        /// The name of an assistant as in a chat: `assistant: …`.
        RolePrefix,
        /// Markup around messages to a model: chat templates, tags of roles and instructions.
        RoleMarkup,
        /// Tags of roles and instructions, which a document may use too.
        RoleTag,
        /// Says what the model should answer.
        Answering,
        /// Describes how something is written.
        Documenting,
        /// Demands to ignore or break something.
        Overriding,
        /// Earlier instructions to a model.
        Orders,
        /// Claims that rules are suspended.
        Suspended,
        /// Claims that checks are off, or do not matter.
        ChecksOff,
        /// Demands to hide something from the user.
        Concealing,
        /// Demands to act without asking.
        Unasked,
        /// Demands a false statement to the user.
        Deceiving,
        /// Claims authority.
        Authority,
        /// Other tools in general.
        OtherTools,
        /// Before or after other calls.
        AroundCalls,
        /// Another tool, by an identifier.
        OtherName,
        /// At every call.
        EachCall,
        /// An obligation.
        Obliging,
        /// Demands to change the arguments of another tool.
        Rewriting,
        /// Replaces other tools.
        Replacing,
        /// Advises against another tool, by name or in general.
        AgainstOthers,
        /// Calls another tool, or passes something to it.
        UsesOther,
        /// Demands to skip another tool.
        SkipOthers,
        /// Claims that something is broken.
        Broken,
        /// Always, first, in every case.
        Always,
        /// Demands to call this tool.
        CallMe,
        /// Demands to choose this tool and no other.
        ChooseMe,
        /// Tries to influence the ranking of tools.
        Rigging,
        /// Praise of the tool.
        Praise,
        /// The conversation, or the prompt of the model.
        Conversation,
        /// The transcript of a conversation, or a secret prompt.
        History,
        /// A justification for data that the purpose does not need.
        Justifying,
        /// Local files of the user.
        LocalFiles,
        /// All of something.
        Whole,
        /// Files and values that are secret in any context.
        Secrets,
        /// Keys and passwords, which a service may have of its own.
        Credentials,
        /// Data that only payments, banks, doctors and offices need.
        Personal,
        /// Something in addition to the tool's purpose.
        Besides,
        /// Sending or handing over.
        Sending,
        /// A destination outside.
        Elsewhere,
        /// Data of the user.
        UserData,
        /// A call of a tool on the condition that it exists.
        IfThere,
        /// Demands to call another tool too.
        CallOther,
        /// Demands to decode and obey.
        Decoding,
        /// A command that no description needs.
        Commanding,
        /// Speaks of attacks that it guards against.
        Guarding,
}

/// Words that introduce a quotation as an example.
static EXAMPLES: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"\b(?:such as|for example|for instance|e\.g\.|phrases?|sentences?|wording|words?|strings?|patterns?|attempts?|examples?|like|say|says|saying|style of|kind of|jailbreaks?|injections?|inputs?|detect\w*|finds?|flags?|scans?|lints?|matches|etwa|zum beispiel|z\. ?b\.|satz|satze|wie|par exemple|comme|phrase|por ejemplo|como|frases?|ad esempio|per esempio|например|фраз\w*|типа)\b|(?:例如|比如|诸如|如|短语|例えば|などの|예를 들어)",
    )
});

/// Returns `true` if a text introduces examples.
pub(super) fn speaks_of_examples(folded: &str) -> bool {
    EXAMPLES.is_match(folded)
}

/// A pattern, compiled on first use.
///
/// One expression for all patterns has more states than its cache holds, and runs a hundred times
/// slower.
struct Pattern {
    concept: Concept,
    text: String,
    expression: OnceLock<Regex>,
}

impl Pattern {
    fn is_match(&self, folded: &str) -> bool {
        let compile = || {
            RegexBuilder::new(&self.text)
                .dfa_size_limit(8 << 20)
                .build()
                .expect("a test compiles it")
        };
        self.expression.get_or_init(compile).is_match(folded)
    }
}

/// All patterns, with a prefilter that finds those that may match.
struct Lexicon {
    patterns: Vec<Pattern>,
    literals: Literals,
}

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let mut patterns = Vec::new();
    for &(concept, name) in CONCEPT_NAMES {
        let heading = format!("= {name}");
        let lines = PATTERNS.lines().skip_while(|line| *line != heading);
        for line in lines.skip(1).take_while(|line| !line.is_empty()) {
            patterns.push(Pattern {
                concept,
                text: ascii_bounds(line),
                expression: OnceLock::new(),
            });
        }
    }
    let literals = Literals::new(patterns.iter().map(|pattern| pattern.text.as_str()));
    Lexicon { patterns, literals }
});

/// Replaces word bounds by those of ASCII, which folded Latin text is. They keep the automaton
/// fast.
fn ascii_bounds(pattern: &str) -> String {
    pattern
        .replace(r"\b", r"(?-u:\b)")
        .replace(r"\w", "[a-z0-9_а-я]")
}

fn compile(pattern: &str) -> Regex {
    Regex::new(&ascii_bounds(pattern)).expect("a test compiles it")
}

/// A set of concepts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Concepts(u64);

/// A folded sentence with the patterns that may match it.
pub(super) struct FoldedSentence {
    folded: String,
    patterns: Vec<usize>,
}

impl FoldedSentence {
    pub(super) fn new(folded: String) -> Self {
        Self {
            patterns: LEXICON.literals.in_text(&folded),
            folded,
        }
    }

    /// Returns the concepts that the sentence may express; it expresses no others.
    pub(super) fn possible_concepts(&self) -> Concepts {
        let mut concepts = Concepts::default();
        for &pattern in &self.patterns {
            concepts = concepts.union(Concepts::one(LEXICON.patterns[pattern].concept));
        }
        concepts
    }

    /// Returns those of `requested` that the sentence expresses.
    pub(super) fn find_concepts(&self, requested: Concepts) -> Concepts {
        let mut concepts = Concepts::default();
        for &pattern in &self.patterns {
            let pattern = &LEXICON.patterns[pattern];
            let concept = Concepts::one(pattern.concept);
            if requested.has_any(concept)
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
    /// Finds the concepts of a folded sentence.
    pub(super) fn in_sentence(folded: String) -> Self {
        let sentence = FoldedSentence::new(folded);
        sentence.find_concepts(sentence.possible_concepts())
    }

    const fn one(concept: Concept) -> Self {
        Self(1 << concept as u32)
    }

    pub(super) const fn all(concepts: &[Concept]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < concepts.len() {
            bits |= Self::one(concepts[index]).0;
            index += 1;
        }
        Self(bits)
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    pub(super) const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
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
    fn prefilter_keeps_every_pattern_that_matches() {
        let files = ["attacks", "benign", "second-attacks", "second-benign"];
        for file in files.map(|file| {
            format!(
                "{}/../../fixtures/hostile/{file}.jsonl",
                env!("CARGO_MANIFEST_DIR")
            )
        }) {
            let text = std::fs::read_to_string(file).expect("the fixture exists");
            for sentence in text.lines().flat_map(sentences) {
                let folded = fold(sentence);
                let mut expected = Concepts::default();
                for pattern in &LEXICON.patterns {
                    if pattern.is_match(&folded) {
                        expected = expected.union(Concepts::one(pattern.concept));
                    }
                }
                assert_eq!(Concepts::in_sentence(folded.clone()), expected, "{folded}");
                let possible = FoldedSentence::new(folded).possible_concepts();
                assert!(possible.has_all(expected));
            }
        }
    }
}
