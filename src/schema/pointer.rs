//! JSON pointers (RFC 6901).

/// Escapes a member's name as a part of a JSON pointer (RFC 6901).
pub fn pointer_part(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns the member's name that a part of a JSON pointer stands for: the inverse of
/// [`pointer_part`].
pub fn name_from_pointer_part(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}
