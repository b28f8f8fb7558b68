//! The rules: every code that a finding may have, and what a sentence says that breaks a rule of
//! wording.

use serde::Serialize;

use super::lexicon::{Concept, Concepts};
use super::texts::Kind;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// A person should look at it.
    Warning,
    /// The catalog is refused, or almost certainly hostile.
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

/// A rule: what its code stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rule {
    /// The stable name.
    pub code: &'static str,
    /// How bad its findings are, unless one says otherwise.
    pub severity: Severity,
    /// What it finds.
    pub summary: &'static str,
    /// What to do.
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
        "The entry is no valid tool definition", "mend the entry";
    INVALID_NAME = "invalid-name", Error,
        "A name, source or alias is empty, too long or holds characters that nobody sees", "give a short printable one";
    INVALID_SCHEMA = "invalid-schema", Error,
        "A schema is invalid, too large, or refers to something outside itself", "write a bounded JSON Schema";
    DUPLICATE_TOOL = "duplicate-tool", Error,
        "Two tools have one identity", "rename one of them";
    ALIAS_CONFLICT = "alias-conflict", Error,
        "An alias is claimed twice or is a tool's name", "let one tool have it";
    OPERATOR_ALIAS = "operator-alias", Error,
        "An alias of the operator means no tool, or several", "name one tool of the catalog";
    PROVIDER_TOOL = "provider-tool", Note,
        "The entry is a tool of the provider without a definition", "give it to the provider beside the picks";
    LEFT_OUT = "left-out", Warning,
        "An operation of an OpenAPI document, or a tool of an MCP server, makes no valid tool", "mend it where it comes from";
    CONFUSABLE_NAME = "confusable-name", Error,
        "A name looks like another and is written otherwise", "write it in the letters of one script, or rename the tool";
    IMITATED_NAME = "imitated-name", Warning,
        "A name or source imitates another by digits for letters, letter pairs or a slip",
        "make sure that the tool is the one it looks like";
    LOOK_ALIKE_SOURCE = "look-alike-source", Warning,
        "Two sources differ only in case, spaces or letters that look alike",
        "make sure that both are one, and write it in one way";
    ALIAS_SQUATTING = "alias-squatting", Warning,
        "An alias is a name that agents use for something else", "give it in the operator's aliases where it is wanted";
    OVERRIDES_INSTRUCTIONS = "overrides-instructions", Error,
        "The text tells the model to ignore what it was told", "remove the sentence, or do not use the tool";
    ROLE_MARKUP = "role-markup", Warning,
        "The text is dressed up as a message of the system or the assistant", "remove the markup";
    ADDRESSES_MODEL = "addresses-model", Warning,
        "The text speaks to the model rather than of the tool", "say what the tool does, and to whom it matters";
    CONCEALS = "conceals-from-user", Warning,
        "The text wants something kept from the user or done unasked", "remove the sentence, or do not use the tool";
    INSTRUCTS_IN_VALUE = "instructions-in-value", Warning,
        "A title, tag or value holds an order", "give a short label or value";
    STEERS_OTHER_TOOLS = "steers-other-tools", Warning,
        "The text says how other tools are to be used", "leave other tools to their own descriptions";
    ASKS_FOR_CONVERSATION = "asks-for-conversation", Warning,
        "The tool asks for the conversation or the system prompt, which its purpose does not need", "ask for what is needed";
    ASKS_FOR_SECRETS = "asks-for-secrets", Warning,
        "The tool asks for secrets or their files, which its purpose does not need", "ask for what is needed";
    SENDS_ELSEWHERE = "sends-elsewhere", Warning,
        "The text has data sent to an address", "remove the sentence, or do not use the tool";
    PROMOTES_ITSELF = "promotes-itself", Warning,
        "The text praises the tool or demands that it be chosen", "say what the tool does";
    KEYWORD_STUFFING = "keyword-stuffing", Warning,
        "Words are there to be found rather than to be read", "say once what the tool does";
    LONG_TEXT = "long-text", Warning,
        "A text is so long that it crowds out others and nobody reads it", "shorten it, or move the details to the answer";
    HIDDEN_CHARACTERS = "hidden-characters", Error,
        "Characters that nobody sees carry or break up text", "remove them";
    DISGUISED_WORDS = "disguised-words", Warning,
        "Words are written with letters of another script, or letter by letter", "write them in one script";
    HIDDEN_MARKUP = "hidden-markup", Warning,
        "A comment or style hides text from people and not from the model", "remove it";
    PADDED_TEXT = "padded-text", Warning,
        "White space pushes text out of sight", "remove the white space and read what follows";
    ENCODED_TEXT = "encoded-text", Warning,
        "Encoded text stands in prose", "write it in the clear";
    EMBEDDED_COMMAND = "embedded-command", Warning,
        "The text holds a shell command that loads or deletes", "remove it";
    NEAR_DUPLICATE = "near-duplicate", Warning,
        "Another source has a tool of nearly the same text", "keep the one whose source is trusted";
    VAGUE_NAME = "vague-name", Note,
        "A name does not say what is done, and on what", "name both, as in terminalRun, and give the short name as an alias";
    UNPORTABLE_NAME = "unportable-name", Note,
        "A name is not one that every provider takes",
        "begin with a letter and use at most 64 letters, digits, underscores and hyphens of ASCII";
    MIXED_NAMES = "mixed-names", Note,
        "Names of one source are written in several ways", "write them all in one way";
    UNCHECKED_CALLS = "unchecked-calls", Warning,
        "The tool may be called with any arguments, unchecked and unapproved",
        "give the JSON Schema of its arguments, or a no_schema_mode of read-only or human-approval";
    INVALID_SKILL = "invalid-skill", Error,
        "A SKILL.md cannot be read or used", "mend the file";
    MISNAMED_SKILL = "misnamed-skill", Warning,
        "A skill's folder has another name", "give both the same name";
    INCOMPATIBLE_SKILL = "incompatible-skill", Warning,
        "A skill needs a tool that the catalog does not have", "give the tool that it means an alias";
    DEPRECATED_ALIAS = "deprecated-alias", Warning,
        "A skill calls a tool by a deprecated alias", "write the tool's name, or an alias that is not deprecated";
}

/// Concepts that together break a rule when a sentence says them.
pub(super) struct Wording {
    pub(super) rule: &'static Rule,
    /// The severity here.
    pub(super) severity: Severity,
    /// All of these are said,
    pub(super) all: Concepts,
    /// and one of these, unless it is empty,
    pub(super) any: Concepts,
    /// and none of these.
    pub(super) none: Concepts,
    /// The sentence before counts too.
    pub(super) across: bool,
    pub(super) place: Place,
}

/// Where a rule of wording holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    /// In what is said of parameters, of a tool whose purpose has nothing to do with it.
    UnrelatedParameter,
    /// In any text of a tool whose purpose has nothing to do with it.
    Unrelated,
    /// In titles, labels and values.
    Label,
}

impl Place {
    pub(super) fn holds(self, kind: Kind, related: impl Fn() -> bool) -> bool {
        match self {
            Self::Anywhere => true,
            Self::UnrelatedParameter => {
                matches!(kind, Kind::Parameter | Kind::ParameterName | Kind::Value) && !related()
            }
            Self::Unrelated => !related(),
            Self::Label => matches!(kind, Kind::Title | Kind::Label | Kind::Value),
        }
    }
}

const fn said(rule: &'static Rule, all: &[Concept], any: &[Concept], none: &[Concept]) -> Wording {
    Wording {
        rule,
        severity: rule.severity,
        all: Concepts::all(all),
        any: Concepts::all(any),
        none: Concepts::all(none),
        across: false,
        place: Place::Anywhere,
    }
}

impl Wording {
    const fn across(self) -> Self {
        Self {
            across: true,
            ..self
        }
    }

    const fn at(self, place: Place) -> Self {
        Self { place, ..self }
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

/// The rules of wording. Each asks for several things said together, because each alone is what
/// honest tools say too.
pub(super) static WORDINGS: &[Wording] = &[
    // Direct injection: orders that do away with other orders.
    said(
        &OVERRIDES_INSTRUCTIONS,
        &[Overriding, Orders],
        &[],
        &[Guarding],
    )
    .warning(),
    said(
        &OVERRIDES_INSTRUCTIONS,
        &[Suspended, Orders],
        &[Addressed, RoleMarkup, RolePrefix, Unasked, Concealing],
        &[],
    )
    .across()
    .warning(),
    said(
        &OVERRIDES_INSTRUCTIONS,
        &[Overriding, Orders],
        &[Addressed, RoleMarkup, RolePrefix, Concealing],
        &[Guarding],
    )
    .across()
    .error(),
    said(&ROLE_MARKUP, &[RoleMarkup], &[], &[Guarding, Documenting]),
    said(
        &ROLE_MARKUP,
        &[RoleTag],
        &[
            Obliging, Orders, Overriding, Unasked, Concealing, Addressed, Suspended, ChooseMe,
            CallOther, Sending,
        ],
        &[Guarding],
    ),
    said(
        &ROLE_MARKUP,
        &[RolePrefix],
        &[Unasked, Concealing, Overriding, Always, Sending, Deceiving],
        &[],
    ),
    said(&ADDRESSES_MODEL, &[Addressed], &[], &[]),
    said(
        &ADDRESSES_MODEL,
        &[Answering],
        &[Obliging, Always, Unasked, Concealing, Overriding, Elsewhere],
        &[],
    ),
    said(&CONCEALS, &[Concealing], &[], &[]),
    said(&CONCEALS, &[ChecksOff], &[], &[]),
    said(&CONCEALS, &[Deceiving], &[Unasked, Answering], &[]),
    said(
        &INSTRUCTS_IN_VALUE,
        &[],
        &[Overriding, Deceiving, Unasked, Addressed, RolePrefix],
        &[],
    )
    .at(Place::Label),
    // Shadowing: what is said of other tools.
    said(
        &STEERS_OTHER_TOOLS,
        &[AgainstOthers],
        &[Broken, ChooseMe, Always, Praise, Replacing],
        &[],
    )
    .across(),
    said(
        &STEERS_OTHER_TOOLS,
        &[AroundCalls, OtherTools],
        &[Always, ChooseMe, Sending, CallOther],
        &[],
    ),
    said(&STEERS_OTHER_TOOLS, &[Replacing, OtherTools], &[], &[]),
    said(&STEERS_OTHER_TOOLS, &[Replacing, Broken], &[], &[]),
    said(
        &STEERS_OTHER_TOOLS,
        &[IfThere],
        &[Sending, CallOther, Always],
        &[],
    ),
    said(&STEERS_OTHER_TOOLS, &[CallOther], &[], &[]),
    said(
        &STEERS_OTHER_TOOLS,
        &[UsesOther],
        &[Obliging, Unasked, Concealing],
        &[],
    ),
    said(&STEERS_OTHER_TOOLS, &[UsesOther, Whole, Secrets], &[], &[]),
    said(&STEERS_OTHER_TOOLS, &[AroundCalls, OtherTools], &[], &[]),
    said(&STEERS_OTHER_TOOLS, &[SkipOthers], &[], &[]),
    said(
        &STEERS_OTHER_TOOLS,
        &[EachCall, Obliging],
        &[OtherTools, OtherName],
        &[],
    ),
    said(
        &STEERS_OTHER_TOOLS,
        &[EachCall, OtherName],
        &[Sending, CallMe],
        &[],
    ),
    said(&STEERS_OTHER_TOOLS, &[AgainstOthers, OtherTools], &[], &[]),
    said(&STEERS_OTHER_TOOLS, &[Replacing], &[OtherTools], &[]).across(),
    said(
        &STEERS_OTHER_TOOLS,
        &[Rewriting, Obliging, OtherName],
        &[],
        &[],
    ),
    said(
        &STEERS_OTHER_TOOLS,
        &[Rewriting, Obliging, OtherTools],
        &[],
        &[],
    ),
    // Exfiltration.
    said(&ASKS_FOR_CONVERSATION, &[Conversation, Whole], &[], &[]).at(Place::UnrelatedParameter),
    said(
        &ASKS_FOR_CONVERSATION,
        &[Conversation, Whole],
        &[Sending, Elsewhere],
        &[],
    )
    .at(Place::Unrelated),
    said(&ASKS_FOR_CONVERSATION, &[History], &[], &[]).at(Place::UnrelatedParameter),
    said(
        &ASKS_FOR_CONVERSATION,
        &[Conversation, Justifying],
        &[],
        &[],
    )
    .at(Place::UnrelatedParameter),
    said(
        &ASKS_FOR_CONVERSATION,
        &[History],
        &[Whole, Elsewhere, Sending],
        &[],
    )
    .at(Place::Unrelated),
    said(&ASKS_FOR_SECRETS, &[LocalFiles], &[], &[]).at(Place::UnrelatedParameter),
    said(&ASKS_FOR_SECRETS, &[Secrets], &[], &[]).at(Place::UnrelatedParameter),
    said(&ASKS_FOR_SECRETS, &[Secrets, Sending], &[], &[]).at(Place::Unrelated),
    said(&ASKS_FOR_SECRETS, &[Credentials], &[], &[]).at(Place::UnrelatedParameter),
    said(&ASKS_FOR_SECRETS, &[Credentials, Sending], &[], &[]).at(Place::Unrelated),
    said(&ASKS_FOR_SECRETS, &[Personal], &[], &[]).at(Place::UnrelatedParameter),
    said(
        &SENDS_ELSEWHERE,
        &[Sending, Elsewhere, UserData],
        &[Always, Whole, Besides],
        &[],
    )
    .at(Place::Unrelated),
    said(
        &SENDS_ELSEWHERE,
        &[Sending, Elsewhere, UserData],
        &[Unasked, Concealing],
        &[],
    ),
    // Manipulation of the selection.
    said(
        &PROMOTES_ITSELF,
        &[ChooseMe],
        &[Always, Praise, OtherTools, Replacing],
        &[],
    ),
    said(
        &PROMOTES_ITSELF,
        &[Praise],
        &[ChooseMe, SkipOthers, AgainstOthers],
        &[],
    )
    .across(),
    said(&PROMOTES_ITSELF, &[Praise, OtherTools], &[], &[]),
    said(&PROMOTES_ITSELF, &[Rigging], &[], &[]),
    said(
        &PROMOTES_ITSELF,
        &[Authority],
        &[Praise, ChooseMe, Always],
        &[],
    )
    .across(),
    said(&PROMOTES_ITSELF, &[ChooseMe], &[], &[]).at(Place::Label),
    // Hidden orders.
    said(&ENCODED_TEXT, &[Decoding], &[], &[]),
    said(&EMBEDDED_COMMAND, &[Commanding], &[], &[Guarding]),
];
