//! Policy members, which decide which callers may see and run a tool, and their misspellings.
//!
//! A misspelt policy member would be ignored and admit everyone. So a member that resembles a
//! policy member is an error that gives the right name. Other unknown members are ignored.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::entry_fault::EntryFault;
use super::spelling::{normalise, skeleton};

/// The objects that hold policy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Tool,
    Annotations,
    Safety,
}

/// A policy member.
struct Member {
    holder: Holder,
    /// The name; a name in snake case is also read in camel case.
    name: &'static str,
    /// An example of the member in JSON.
    example: &'static str,
    /// The names in other formats, without case and separators.
    foreign: &'static [&'static str],
}

const fn member(
    holder: Holder,
    name: &'static str,
    example: &'static str,
    foreign: &'static [&'static str],
) -> Member {
    Member {
        holder,
        name,
        example,
        foreign,
    }
}

use Holder::{Annotations, Safety, Tool};

static MEMBERS: [Member; 18] = [
    member(
        Tool,
        "safe",
        "\"safe\": false",
        &[
            "unsafe",
            "issafe",
            "isunsafe",
            "dangerous",
            "isdangerous",
            "harmful",
        ],
    ),
    member(
        Annotations,
        "destructiveHint",
        "\"annotations\": {\"destructiveHint\": true}",
        &["destructive", "isdestructive"],
    ),
    member(
        Annotations,
        "readOnlyHint",
        "\"annotations\": {\"readOnlyHint\": false}",
        &["readonly", "isreadonly"],
    ),
    member(
        Annotations,
        "idempotentHint",
        "\"annotations\": {\"idempotentHint\": false}",
        &["idempotent"],
    ),
    member(
        Annotations,
        "openWorldHint",
        "\"annotations\": {\"openWorldHint\": true}",
        &["openworld"],
    ),
    member(
        Safety,
        "threat_level",
        "\"safety\": {\"threat_level\": \"high\"}",
        &["threat", "risk", "risklevel", "dangerlevel", "safetylevel"],
    ),
    member(
        Safety,
        "required_approvals",
        "\"safety\": {\"required_approvals\": [\"owner\"]}",
        &[
            "requiredapproval",
            "requiresapproval",
            "requireapproval",
            "needsapproval",
            "approvalrequired",
            "approvals",
            "approvers",
            "humanapproval",
            "requireconfirmation",
            "requiresconfirmation",
            "needsconfirmation",
            "confirmationrequired",
        ],
    ),
    member(
        Tool,
        "allowed_roles",
        "\"allowed_roles\": [\"admin\"]",
        &[
            "role",
            "roles",
            "requiredrole",
            "requiredroles",
            "permittedroles",
            "rolesallowed",
            "allowroles",
            "userroles",
            "deniedroles",
            "denyroles",
            "forbiddenroles",
            "excludedroles",
        ],
    ),
    member(
        Tool,
        "modes",
        "\"modes\": [\"batch\"]",
        &["mode", "executionmode", "executionmodes", "allowedmodes"],
    ),
    member(
        Tool,
        "capabilities",
        "\"capabilities\": [\"streaming\"]",
        &["capability", "requiredcapability", "requiredcapabilities"],
    ),
    member(
        Tool,
        "cost",
        "\"cost\": 1",
        &["costs", "price", "costpercall", "callcost", "maxcost"],
    ),
    member(
        Tool,
        "untrusted",
        "\"untrusted\": true",
        &["trusted", "istrusted", "isuntrusted", "trust", "trustlevel"],
    ),
    member(Tool, "safety", "\"safety\": {}", &[]),
    member(Tool, "annotations", "\"annotations\": {}", &[]),
    member(Tool, "requires", "\"requires\": []", &[]),
    member(Tool, "allow_no_schema", "\"allow_no_schema\": true", &[]),
    member(
        Tool,
        "no_schema_mode",
        "\"no_schema_mode\": \"read-only\"",
        &[],
    ),
    member(Tool, "aliases", "\"aliases\": []", &[]),
];

/// Frequent members apart from policy. `required` is one letter away from `requires`, and `model`
/// from `modes`.
const OTHER_MEMBERS: [&str; 17] = [
    "name",
    "description",
    "parameters",
    "inputSchema",
    "input_schema",
    "outputSchema",
    "output_schema",
    "provider_schema",
    "id",
    "title",
    "tags",
    "source",
    "strict",
    "type",
    "function",
    "required",
    "model",
];

/// The policy members by their names and foreign names, folded and as skeletons.
static BY_NAME: LazyLock<HashMap<String, &'static Member>> = LazyLock::new(|| {
    let mut by_name = HashMap::new();
    for member in &MEMBERS {
        for name in member.foreign {
            by_name.insert(skeleton(name), member);
            by_name.insert((*name).to_owned(), member);
        }
        let own_name = fold(member.name);
        by_name.insert(skeleton(&own_name), member);
        by_name.insert(own_name, member);
    }
    by_name
});

/// Returns `true` if a key is the name of a policy member of a tool.
pub(super) fn is_policy(key: &str) -> bool {
    MEMBERS
        .iter()
        .any(|member| member.holder == Tool && is_field(key, member.name))
}

/// Returns the policy members of a tool.
#[cfg(test)]
pub(super) fn policy_fields() -> impl Iterator<Item = &'static str> {
    MEMBERS
        .iter()
        .filter(|member| member.holder == Tool)
        .map(|member| member.name)
}

/// Finds the misspelt policy members and the duplicates in two spellings. `objects` are of one
/// kind, each with its pointer.
pub(super) fn faults(
    holder: Holder,
    objects: &[(impl fmt::Display, &Map<String, Value>)],
) -> Vec<EntryFault> {
    let keys = || {
        objects
            .iter()
            .flat_map(|(pointer, object)| object.keys().map(move |key| (pointer, key)))
    };
    let mut faults = Vec::new();
    for (pointer, key) in keys() {
        if let Some(member) = resembled_member(holder, key) {
            let message = format!("unknown field {key:?}, which resembles {:?}", member.name);
            let remedy = format!("write {}, or give the field another name", member.example);
            faults.push(EntryFault::new(format!("{pointer}/{key}"), message, remedy));
        }
    }
    for member in &MEMBERS {
        if member.holder != holder {
            continue;
        }
        let mut spellings = keys().filter(|(_, key)| is_field(key, member.name));
        if let (Some((first_pointer, first_key)), Some((pointer, key))) =
            (spellings.next(), spellings.next())
        {
            let message = format!(
                "duplicate field {:?}, first at {first_pointer}/{first_key}",
                member.name
            );
            let pointer = format!("{pointer}/{key}");
            faults.push(EntryFault::new(pointer, message, "remove one of them"));
        }
    }
    faults
}

/// Returns the policy member that an unknown key resembles.
fn resembled_member(holder: Holder, key: &str) -> Option<&'static Member> {
    let holder_members = || MEMBERS.iter().filter(move |member| member.holder == holder);
    if OTHER_MEMBERS.contains(&key) || holder_members().any(|member| is_field(key, member.name)) {
        return None;
    }
    let similar =
        || holder_members().find(|member| is_similar(&snake_case(key), &snake_case(member.name)));
    BY_NAME.get(&fold(key)).copied().or_else(similar)
}

/// Returns `true` if a key is the field's name, or its camel-case form.
pub(super) fn is_field(key: &str, field: &str) -> bool {
    // Most keys fail this cheap comparison.
    let may_be = key.len() < field.len() && key.as_bytes().first() == field.as_bytes().first();
    key == field || (may_be && key == camel_case(field))
}

/// Returns a key without case, separators and invisible characters; a key that is not ASCII becomes
/// its skeleton.
fn fold(key: &str) -> String {
    let folded = normalise(key);
    if folded.is_ascii() {
        folded
    } else {
        skeleton(&folded)
    }
}

/// Returns `true` for at most two slips in a long word, or one slip in a short word with the same
/// first letter.
fn is_similar(key: &str, field: &str) -> bool {
    let slips = strsim::osa_distance(key, field);
    if field.len() < 6 {
        slips == 1 && key.as_bytes().first() == field.as_bytes().first()
    } else {
        slips <= 2
    }
}

pub(super) fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            camel.push(first.to_ascii_uppercase());
        }
        camel.push_str(letters.as_str());
    }
    camel
}

fn snake_case(key: &str) -> String {
    let mut snake = String::new();
    for letter in key.chars() {
        if letter.is_ascii_uppercase()
            && snake.ends_with(|previous: char| previous.is_ascii_lowercase())
        {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_refer_to_one_member_each() {
        let foreign = || {
            MEMBERS
                .iter()
                .flat_map(|member| member.foreign.iter().map(move |name| (*name, member.name)))
        };
        for (name, right) in foreign() {
            assert_eq!(fold(name), name, "the name is folded");
            assert_eq!(
                resembled_member(Holder::Tool, name).map(|member| member.name),
                Some(right),
                "{name}"
            );
        }
    }
}
