//! What operations are called.

use std::collections::{HashMap, HashSet};

use super::Operation;

/// The longest name.
const MAX_NAME_CHARS: usize = 128;

/// The name of an operation: its id, else its method and path; of letters, digits, `_` and `-`.
pub(super) fn name(id: Option<&str>, method: &str, path: &str) -> String {
    let id = id.map(plain).unwrap_or_default();
    if id.is_empty() {
        of_path(method, path)
    } else {
        id
    }
}

/// `get` and `/users/{id}/posts` make `get_users_by_id_posts`.
fn of_path(method: &str, path: &str) -> String {
    let mut name = method.to_owned();
    for segment in path
        .split('/')
        .map(str::trim)
        .filter(|segment| !segment.is_empty())
    {
        name.push_str(if segment.starts_with('{') {
            "_by_"
        } else {
            "_"
        });
        name.push_str(segment);
    }
    plain(&name)
}

/// The text with `_` in place of whatever may not stand in a name.
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

/// Gives those that share a name their method and path instead, and those that still do a number.
/// The first keeps it.
pub(super) fn make_unique(operations: &mut [Operation]) {
    let mut taken: HashSet<String> = HashSet::with_capacity(operations.len());
    let mut last: HashMap<String, usize> = HashMap::new();
    for operation in operations {
        if taken.contains(&operation.name) {
            operation.name = operation
                .label
                .split_once(' ')
                .map_or_else(String::new, |(method, path)| {
                    of_path(&method.to_lowercase(), path)
                });
        }
        if taken.contains(&operation.name) {
            let number = last.entry(operation.name.clone()).or_insert(1);
            let numbered = |number: usize| format!("{}_{number}", operation.name);
            while taken.contains(&numbered(*number + 1)) {
                *number += 1;
            }
            *number += 1;
            operation.name = numbered(*number);
        }
        taken.insert(operation.name.clone());
    }
}
