//! The rules: every code of a finding, and the combinations of concepts that break a wording rule.

use serde::Serialize;

use super::lexicon::{Concept, Concepts};
use super::texts::TextKind;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Advice for the author.
    Note,
    /// A person should look at it.
    Warning,
    /// The reader rejects it, or it has no honest use.
    Error,
}

impl Severity {
    /// Returns its stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A rule: a code with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// The stable name.
    pub code: &'static str,
    /// The severity of its findings, unless a finding has another.
    pub severity: Severity,
    /// The meaning of the rule, in one sentence.
    pub summary: &'static str,
    /// The advice.
    pub remedy: &'static str,
}

macro_rules! rules {
    ($($name:ident = $code:literal, $severity:ident, $summary:literal, $remedy:literal;)*) => {
        $(pub(super) static $name: Rule = Rule {
            code: $code, severity: Severity::$severity, summary: $summary, remedy: $remedy,
        };)*

        /// Every rule, in the order of the documentation.
        pub(super) static ALL: &[&Rule] = &[$(&$name),*];
    };
}

rules! {
    INVALID_ENTRY = "invalid-entry", Error,
        "The entry is not a valid tool definition", "correct the entry";
    INVALID_NAME = "invalid-name", Error,
        "A name, source or alias is empty, too long or contains invisible characters",
        "use a short printable one";
    INVALID_SCHEMA = "invalid-schema", Error,
        "A schema is invalid, too large, or refers to something outside itself",
        "write a bounded JSON Schema";
    DUPLICATE_TOOL = "duplicate-tool", Error,
        "Two tools have one identity", "rename one of them";
    ALIAS_CONFLICT = "alias-conflict", Error,
        "An alias is claimed twice or is a tool's name", "give it to one tool";
    OPERATOR_ALIAS = "operator-alias", Error,
        "An alias of the operator matches no tool, or several", "name one tool of the catalog";
    PROVIDER_TOOL = "provider-tool", Note,
        "The entry is a tool of the provider without a definition",
        "send it to the provider together with the picks";
    LEFT_OUT = "left-out", Warning,
        "An operation of an OpenAPI document, or a tool of an MCP server, is not a valid tool",
        "correct it at its source";
    UNCHECKED_KEYWORD = "unchecked-keyword", Warning,
        "A keyword of a schema is not checked as it is written",
        "correct the schema at its source";
    UNSATISFIABLE = "unsatisfiable", Warning,
        "No value can match a schema, so that every call with it is refused",
        "correct the contradiction at its source";
    CONFUSABLE_NAME = "confusable-name", Error,
        "A name looks like another but is written differently",
        "write it in the letters of one script, or rename the tool";
    IMITATED_NAME = "imitated-name", Warning,
        "A name or source imitates another by digits for letters, letter pairs or a typing error",
        "make sure that the tool is the one it looks like";
    LOOK_ALIKE_SOURCE = "look-alike-source", Warning,
        "Two sources differ only in case, spaces or confusable letters",
        "make sure that they are one source, and write it in one way";
    ALIAS_SQUATTING = "alias-squatting", Warning,
        "An alias is a name that agents use for something else",
        "if you want it, add it to the aliases of the operator";
    OVERRIDES_INSTRUCTIONS = "overrides-instructions", Error,
        "The text tells the model to ignore its instructions",
        "remove the sentence, or do not use the tool";
    ROLE_MARKUP = "role-markup", Warning,
        "The text imitates a message of the system or the assistant", "remove the markup";
    ADDRESSES_MODEL = "addresses-model", Warning,
        "The text speaks to the model instead of describing the tool",
        "say what the tool does, and when it fits";
    CONCEALS = "conceals-from-user", Warning,
        "The text wants something hidden from the user or done without asking",
        "remove the sentence, or do not use the tool";
    INSTRUCTS_IN_VALUE = "instructions-in-value", Warning,
        "A title, tag or value contains an instruction", "use a short label or value";
    STEERS_OTHER_TOOLS = "steers-other-tools", Warning,
        "The text says how to use other tools", "leave other tools to their own descriptions";
    ASKS_FOR_CONVERSATION = "asks-for-conversation", Warning,
        "The tool asks for the conversation or the system prompt, which its purpose does not need",
        "ask for the necessary data only";
    ASKS_FOR_SECRETS = "asks-for-secrets", Warning,
        "The tool asks for secrets or their files, which its purpose does not need",
        "ask for the necessary data only";
    SENDS_ELSEWHERE = "sends-elsewhere", Warning,
        "The text wants data sent to an address", "remove the sentence, or do not use the tool";
    PROMOTES_ITSELF = "promotes-itself", Warning,
        "The text praises the tool or demands that it be chosen", "say what the tool does";
    KEYWORD_STUFFING = "keyword-stuffing", Warning,
        "Words are there only to be found", "say once what the tool does";
    LONG_TEXT = "long-text", Warning,
        "A text is so long that it displaces others, and only the model reads it completely",
        "shorten it, or move details to a place that is read on demand";
    HIDDEN_CHARACTERS = "hidden-characters", Error,
        "Invisible characters carry or break up text", "remove them";
    DISGUISED_WORDS = "disguised-words", Warning,
        "Words are written with letters of another script, or letter by letter",
        "write them in one script";
    HIDDEN_MARKUP = "hidden-markup", Warning,
        "A comment or style hides text from people but not from the model", "remove it";
    PADDED_TEXT = "padded-text", Warning,
        "White space pushes text out of sight", "remove the white space and read what follows";
    ENCODED_TEXT = "encoded-text", Warning,
        "A description contains encoded text", "write it as plain text";
    EMBEDDED_COMMAND = "embedded-command", Warning,
        "The text contains a shell command that downloads or deletes", "remove it";
    NEAR_DUPLICATE = "near-duplicate", Warning,
        "Another source has a tool with nearly the same text",
        "keep the one whose source is trusted";
    VAGUE_NAME = "vague-name", Note,
        "A name does not name an action and its object",
        "name both, as in terminalRun, and give the short name as an alias";
    UNPORTABLE_NAME = "unportable-name", Note,
        "Not every provider accepts the name",
        "start with a letter, and use at most 64 ASCII letters, digits, underscores and hyphens";
    MIXED_NAMES = "mixed-names", Note,
        "Names of one source have several styles", "use one style";
    UNCHECKED_CALLS = "unchecked-calls", Warning,
        "The tool may be called with any arguments, unchecked and unapproved",
        "give the JSON Schema of its arguments, or a no_schema_mode of read-only or human-approval";
    INVALID_SKILL = "invalid-skill", Error,
        "A SKILL.md cannot be read or used", "correct the file";
    MISNAMED_SKILL = "misnamed-skill", Warning,
        "A skill's folder has another name", "give both the same name";
    NON_YAML_SKILL = "non-yaml-skill", Warning,
        "The front matter of a SKILL.md is not valid YAML, and was read line by line",
        "write valid YAML, which every host reads";
    INCOMPATIBLE_SKILL = "incompatible-skill", Warning,
        "A skill needs a tool that the catalog does not have",
        "add an alias to the tool that it means";
    DEPRECATED_ALIAS = "deprecated-alias", Warning,
        "A skill calls a tool by a deprecated alias",
        "use the tool's name, or an alias that is not deprecated";
}

/// A wording rule: concepts that break a rule when one sentence expresses them together.
pub(super) struct Wording {
    pub(super) rule: &'static Rule,
    /// The severity of this combination.
    pub(super) severity: Severity,
    /// The concepts that must all occur.
    pub(super) all: Concepts,
    /// The concepts of which one must occur, unless the set is empty.
    pub(super) any: Concepts,
    /// The concepts that must not occur.
    pub(super) none: Concepts,
    /// `true` if the concepts of the previous sentence count too.
    pub(super) across: bool,
    pub(super) scope: WordingScope,
}

/// The texts to which a wording rule applies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WordingScope {
    Anywhere,
    /// Descriptions, names and values of parameters, if the tool's purpose is unrelated.
    UnrelatedParameter,
    /// Any text of a tool with an unrelated purpose.
    Unrelated,
    /// Titles, labels and values.
    Label,
}

impl WordingScope {
    pub(super) fn includes(self, kind: TextKind, related: impl Fn() -> bool) -> bool {
        match self {
            Self::Anywhere => true,
            Self::UnrelatedParameter => {
                matches!(
                    kind,
                    TextKind::Parameter | TextKind::ParameterName | TextKind::Value
                ) && !related()
            }
            Self::Unrelated => !related(),
            Self::Label => matches!(kind, TextKind::Title | TextKind::Label | TextKind::Value),
        }
    }
}

const fn wording(
    rule: &'static Rule,
    all: &[Concept],
    any: &[Concept],
    none: &[Concept],
) -> Wording {
    Wording {
        rule,
        severity: rule.severity,
        all: Concepts::all(all),
        any: Concepts::all(any),
        none: Concepts::all(none),
        across: false,
        scope: WordingScope::Anywhere,
    }
}

impl Wording {
    const fn across(self) -> Self {
        Self {
            across: true,
            ..self
        }
    }

    const fn within(self, scope: WordingScope) -> Self {
        Self { scope, ..self }
    }

    const fn warning(self) -> Self {
        Self {
            severity: Severity::Warning,
            ..self
        }
    }

    const fn error(self) -> Self {
        Self {
            severity: Severity::Error,
            ..self
        }
    }
}

use Concept::{
    Addressed, AgainstOthers, Always, Answering, AroundCalls, Authority, Besides, Broken, CallMe,
    CallOther, ChecksOff, ChooseMe, Commanding, Concealing, Conversation, Credentials, Deceiving,
    Decoding, Documenting, EachCall, Elsewhere, Guarding, History, IfThere, Justifying, LocalFiles,
    Obliging, Orders, OtherName, OtherTools, Overriding, Personal, Praise, Replacing, Rewriting,
    Rigging, RoleMarkup, RolePrefix, RoleTag, Secrets, Sending, SkipOthers, Suspended, Unasked,
    UserData, UsesOther, Whole,
};

/// The wording rules. Each needs several concepts together, because honest tools express each one
/// alone.
pub(super) static WORDINGS: &[Wording] = &[
    // Direct injection: instructions that cancel other instructions.
    wording(
        &OVERRIDES_INSTRUCTIONS,
        &[Overriding, Orders],
        &[],
        &[Guarding],
    )
    .warning(),
    wording(
        &OVERRIDES_INSTRUCTIONS,
        &[Suspended, Orders],
        &[Addressed, RoleMarkup, RolePrefix, Unasked, Concealing],
        &[],
    )
    .across()
    .warning(),
    wording(
        &OVERRIDES_INSTRUCTIONS,
        &[Overriding, Orders],
        &[Addressed, RoleMarkup, RolePrefix, Concealing],
        &[Guarding],
    )
    .across()
    .error(),
    wording(&ROLE_MARKUP, &[RoleMarkup], &[], &[Guarding, Documenting]),
    wording(
        &ROLE_MARKUP,
        &[RoleTag],
        &[
            Obliging, Orders, Overriding, Unasked, Concealing, Addressed, Suspended, ChooseMe,
            CallOther, Sending,
        ],
        &[Guarding],
    ),
    wording(
        &ROLE_MARKUP,
        &[RolePrefix],
        &[Unasked, Concealing, Overriding, Always, Sending, Deceiving],
        &[],
    ),
    wording(&ADDRESSES_MODEL, &[Addressed], &[], &[]),
    wording(
        &ADDRESSES_MODEL,
        &[Answering],
        &[Obliging, Always, Unasked, Concealing, Overriding, Elsewhere],
        &[],
    ),
    wording(&CONCEALS, &[Concealing], &[], &[]),
    wording(&CONCEALS, &[ChecksOff], &[], &[]),
    wording(&CONCEALS, &[Deceiving], &[Unasked, Answering], &[]),
    wording(
        &INSTRUCTS_IN_VALUE,
        &[],
        &[Overriding, Deceiving, Unasked, Addressed, RolePrefix],
        &[],
    )
    .within(WordingScope::Label),
    // Shadowing: statements about other tools.
    wording(
        &STEERS_OTHER_TOOLS,
        &[AgainstOthers],
        &[Broken, ChooseMe, Always, Praise, Replacing],
        &[],
    )
    .across(),
    wording(
        &STEERS_OTHER_TOOLS,
        &[AroundCalls, OtherTools],
        &[Always, ChooseMe, Sending, CallOther],
        &[],
    ),
    wording(&STEERS_OTHER_TOOLS, &[Replacing, OtherTools], &[], &[]),
    wording(&STEERS_OTHER_TOOLS, &[Replacing, Broken], &[], &[]),
    wording(
        &STEERS_OTHER_TOOLS,
        &[IfThere],
        &[Sending, CallOther, Always],
        &[],
    ),
    wording(&STEERS_OTHER_TOOLS, &[CallOther], &[], &[]),
    wording(
        &STEERS_OTHER_TOOLS,
        &[UsesOther],
        &[Obliging, Unasked, Concealing],
        &[],
    ),
    wording(&STEERS_OTHER_TOOLS, &[UsesOther, Whole, Secrets], &[], &[]),
    wording(&STEERS_OTHER_TOOLS, &[AroundCalls, OtherTools], &[], &[]),
    wording(&STEERS_OTHER_TOOLS, &[SkipOthers], &[], &[]),
    wording(
        &STEERS_OTHER_TOOLS,
        &[EachCall, Obliging],
        &[OtherTools, OtherName],
        &[],
    ),
    wording(
        &STEERS_OTHER_TOOLS,
        &[EachCall, OtherName],
        &[Sending, CallMe],
        &[],
    ),
    wording(&STEERS_OTHER_TOOLS, &[AgainstOthers, OtherTools], &[], &[]),
    wording(&STEERS_OTHER_TOOLS, &[Replacing], &[OtherTools], &[]).across(),
    wording(
        &STEERS_OTHER_TOOLS,
        &[Rewriting, Obliging, OtherName],
        &[],
        &[],
    ),
    wording(
        &STEERS_OTHER_TOOLS,
        &[Rewriting, Obliging, OtherTools],
        &[],
        &[],
    ),
    // Exfiltration.
    wording(&ASKS_FOR_CONVERSATION, &[Conversation, Whole], &[], &[])
        .within(WordingScope::UnrelatedParameter),
    wording(
        &ASKS_FOR_CONVERSATION,
        &[Conversation, Whole],
        &[Sending, Elsewhere],
        &[],
    )
    .within(WordingScope::Unrelated),
    wording(&ASKS_FOR_CONVERSATION, &[History], &[], &[]).within(WordingScope::UnrelatedParameter),
    wording(
        &ASKS_FOR_CONVERSATION,
        &[Conversation, Justifying],
        &[],
        &[],
    )
    .within(WordingScope::UnrelatedParameter),
    wording(
        &ASKS_FOR_CONVERSATION,
        &[History],
        &[Whole, Elsewhere, Sending],
        &[],
    )
    .within(WordingScope::Unrelated),
    wording(&ASKS_FOR_SECRETS, &[LocalFiles], &[], &[]).within(WordingScope::UnrelatedParameter),
    wording(&ASKS_FOR_SECRETS, &[Secrets], &[], &[]).within(WordingScope::UnrelatedParameter),
    wording(&ASKS_FOR_SECRETS, &[Secrets, Sending], &[], &[]).within(WordingScope::Unrelated),
    wording(&ASKS_FOR_SECRETS, &[Credentials], &[], &[]).within(WordingScope::UnrelatedParameter),
    wording(&ASKS_FOR_SECRETS, &[Credentials, Sending], &[], &[]).within(WordingScope::Unrelated),
    wording(&ASKS_FOR_SECRETS, &[Personal], &[], &[]).within(WordingScope::UnrelatedParameter),
    wording(
        &SENDS_ELSEWHERE,
        &[Sending, Elsewhere, UserData],
        &[Always, Whole, Besides],
        &[],
    )
    .within(WordingScope::Unrelated),
    wording(
        &SENDS_ELSEWHERE,
        &[Sending, Elsewhere, UserData],
        &[Unasked, Concealing],
        &[],
    ),
    // Manipulation of the selection.
    wording(
        &PROMOTES_ITSELF,
        &[ChooseMe],
        &[Always, Praise, OtherTools, Replacing],
        &[],
    ),
    wording(
        &PROMOTES_ITSELF,
        &[Praise],
        &[ChooseMe, SkipOthers, AgainstOthers],
        &[],
    )
    .across(),
    wording(&PROMOTES_ITSELF, &[Praise, OtherTools], &[], &[]),
    wording(&PROMOTES_ITSELF, &[Rigging], &[], &[]),
    wording(
        &PROMOTES_ITSELF,
        &[Authority],
        &[Praise, ChooseMe, Always],
        &[],
    )
    .across(),
    wording(&PROMOTES_ITSELF, &[ChooseMe], &[], &[]).within(WordingScope::Label),
    // Hidden instructions.
    wording(&ENCODED_TEXT, &[Decoding], &[], &[]),
    wording(&EMBEDDED_COMMAND, &[Commanding], &[], &[Guarding]),
];
