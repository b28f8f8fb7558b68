//! The changes that a translation makes to tools.

use serde::Serialize;

/// A difference between a definition, or the API request, and the original tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The tool's id; `None` if the change concerns the API request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// JSON pointer into the tool's definition.
    pub pointer: String,
    /// The kind of change.
    pub code: ChangeCode,
    /// A description of the change.
    pub detail: String,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeCode {
    /// The name contains characters that the provider rejects, or is too long.
    NameMended,
    /// Several tools would have the same name, which is now qualified or numbered.
    NameQualified,
    /// The description exceeds the provider's limit.
    DescriptionShortened,
    /// The provider requires a description, and the tool has none.
    DescriptionFilled,
    /// The description names the server, because tools of several servers have the same name.
    ServerNamed,
    /// A property has another name.
    PropertyRenamed,
    /// A keyword is omitted; a simple constraint is moved to the description.
    KeywordDropped,
    /// A value or object of any shape is not declared as such.
    ValueOpened,
    /// A listed value is omitted.
    ValueDropped,
    /// Listed values of other types are shown as strings.
    ValuesAsText,
    /// A value without a matching type in the format is a string that contains JSON.
    JsonText,
    /// The alternatives of the root are merged into one object.
    AlternativesMerged,
    /// The root is converted to a plain object.
    RootMadeObject,
    /// A reference is replaced by its target.
    ReferenceInlined,
    /// A circular or broken reference is not followed.
    ReferenceCut,
    /// Several types, or a schema for each position, are shown as alternatives.
    TypesMadeAnyOf,
    /// `oneOf` is shown as `anyOf`.
    OneOfMadeAnyOf,
    /// `const` is shown as `enum`.
    ConstMadeEnum,
    /// A keyword of an older draft is converted to 2020-12.
    OlderDraft,
    /// An optional property may be null instead of absent.
    OptionalMadeNullable,
    /// An object does not allow additional properties.
    ObjectClosed,
    /// The schema is too large or too deep to be shown completely.
    TooLarge,
    /// A strict definition was requested, but the schema cannot be expressed as one.
    NotStrict,
    /// A strict definition was requested, but the provider does not support it.
    StrictUnavailable,
    /// The output schema is omitted.
    OutputSchemaDropped,
    /// The API request has more tools than the provider accepts.
    TooManyTools,
    /// The strict tools together exceed the provider's limits.
    TooMuchStrict,
    /// The tool has more changes than are listed.
    MoreChanges,
}

/// The changes of one tool.
pub(super) struct ChangeLog<'a> {
    pub(super) tool: &'a str,
    pub(super) all: &'a mut Vec<Change>,
}

impl ChangeLog<'_> {
    pub(super) fn add(
        &mut self,
        pointer: impl Into<String>,
        code: ChangeCode,
        detail: impl Into<String>,
    ) {
        let (pointer, detail) = (pointer.into(), detail.into());
        self.all.push(Change {
            tool: Some(self.tool.to_owned()),
            pointer,
            code,
            detail,
        });
    }
}
