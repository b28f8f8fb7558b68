//! Names of operations.

use std::collections::{HashMap, HashSet};

use super::operation::Operation;
use super::prose;

/// The longest name, in characters.
const MAX_NAME_CHARS: usize = 128;

/// Returns the name of an operation: its id, or else its method and path; of letters, digits, `_`
/// and `-`.
pub(super) fn name(id: Option<&str>, method: &str, path: &str) -> String {
    let id = id.map(plain).unwrap_or_default();
    if id.is_empty() {
        name_from_path(method, path)
    } else {
        id
    }
}

/// Returns the words of a name of which [`plain`] drops letters.
pub(super) fn lost_name(name: Option<&str>) -> Option<String> {
    let name = name?;
    let is_lost = |c: char| c.is_alphanumeric() && !c.is_ascii();
    name.contains(is_lost)
        .then(|| prose::clean(name, MAX_NAME_CHARS))
}

/// Makes a name from a method and a path: `get` and `/users/{id}/posts` become
/// `get_users_by_id_posts`.
fn name_from_path(method: &str, path: &str) -> String {
    let mut name = method.to_owned();
    for segment in path.split('/').map(str::trim) {
        if segment.is_empty() {
            continue;
        }
        name.push_str(if segment.starts_with('{') {
            "_by_"
        } else {
            "_"
        });
        name.push_str(segment);
    }
    plain(&name)
}

/// Replaces all characters that a name may not contain by `_`.
pub(super) fn plain(text: &str) -> String {
    let mut name = String::with_capacity(text.len().min(MAX_NAME_CHARS));
    let mut gap = false;
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
            if std::mem::take(&mut gap) && !name.is_empty() && !name.ends_with('_') && c != '_' {
                name.push('_');
            }
            name.push(c);
        } else {
            gap = true;
        }
        if name.len() >= MAX_NAME_CHARS {
            break;
        }
    }
    name
}

/// Makes the names unique.
///
/// The first operation keeps a shared name. The others are named by method and path, and numbered
/// if that name is used too.
pub(super) fn make_unique(operations: &mut [Operation]) {
    let mut used: HashSet<String> = HashSet::with_capacity(operations.len());
    let mut last: HashMap<String, usize> = HashMap::new();
    for operation in operations {
        if used.contains(&operation.name) {
            operation.name = operation
                .label
                .split_once(' ')
                .map_or_else(String::new, |(method, path)| {
                    name_from_path(&method.to_lowercase(), path)
                });
        }
        if used.contains(&operation.name) {
            let number = last.entry(operation.name.clone()).or_insert(1);
            let numbered = |number: usize| format!("{}_{number}", operation.name);
            while used.contains(&numbered(*number + 1)) {
                *number += 1;
            }
            *number += 1;
            operation.name = numbered(*number);
        }
        used.insert(operation.name.clone());
    }
}
