//! Limits of the specification.

/// The longest name of the specification, in characters.
pub(super) const MAX_NAME_CHARS: usize = 64;
/// The longest description of the specification, in characters.
pub(super) const MAX_DESCRIPTION_CHARS: usize = 1024;
