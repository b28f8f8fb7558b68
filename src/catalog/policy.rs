//! The members that decide who may see and run a tool, and what is mistaken for them.
//!
//! A policy member of another spelling would go unread and let everyone see the tool. So each that
//! looks like one is an error that gives the right name; members that mean nothing to policy are
//! let be.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::entry::EntryFault;
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
    /// Its name; in snake case, its camel case is as good.
    name: &'static str,
    /// How it is written.
    example: &'static str,
    /// What it is elsewhere called, without case and separators.
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

/// Frequent members that are no policy, though `required` is one letter away from `requires` and
/// `model` from `modes`.
const OTHERS: [&str; 17] = [
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

/// The members by their names and foreign names, as [`fold`] leaves them and by their looks.
static BY_LOOK: LazyLock<HashMap<String, &'static Member>> = LazyLock::new(|| {
    let names = MEMBERS.iter().flat_map(|member| {
        let foreign = member.foreign.iter().map(|name| (*name).to_owned());
        foreign
            .chain([fold(member.name)])
            .map(move |name| (name, member))
    });
    names
        .flat_map(|(name, member)| [(skeleton(&name), member), (name, member)])
        .collect()
});

/// Returns `true` if a key is the name of a policy member of a tool.
pub(super) fn is_policy(key: &str) -> bool {
    MEMBERS
        .iter()
        .any(|member| member.holder == Tool && is_field(key, member.name))
}

/// The policy members of a tool.
#[cfg(test)]
pub(super) fn policy_fields() -> impl Iterator<Item = &'static str> {
    MEMBERS
        .iter()
        .filter(|member| member.holder == Tool)
        .map(|member| member.name)
}

/// Finds what is mistaken for policy in an object of an entry, and what stands twice in two
/// spellings. `objects` are of one kind, each with the pointer to it.
pub(super) fn faults(
    holder: Holder,
    objects: &[(impl fmt::Display, &Map<String, Value>)],
) -> Vec<EntryFault> {
    let keys = || {
        objects
            .iter()
            .flat_map(|(at, object)| object.keys().map(move |key| (at, key)))
    };
    let mistaken = keys().filter_map(|(at, key)| {
        let meant = meant(holder, key)?;
        let message = format!(
            "the field {key:?} is unknown and much like {:?}",
            meant.name
        );
        let remedy = format!("write {}, or give the field another name", meant.example);
        Some(EntryFault::new(format!("{at}/{key}"), message, remedy))
    });
    let own = MEMBERS.iter().filter(|member| member.holder == holder);
    let twice = own.filter_map(|member| {
        let mut places = keys().filter(|(_, key)| is_field(key, member.name));
        let ((first_at, first), (at, key)) = (places.next()?, places.next()?);
        let message = format!(
            "{:?} stands twice, first at {first_at}/{first}",
            member.name
        );
        Some(EntryFault::new(
            format!("{at}/{key}"),
            message,
            "remove one of them",
        ))
    });
    mistaken.chain(twice).collect()
}

/// The member that a key is mistaken for.
fn meant(holder: Holder, key: &str) -> Option<&'static Member> {
    let own = || MEMBERS.iter().filter(move |member| member.holder == holder);
    if OTHERS.contains(&key) || own().any(|member| is_field(key, member.name)) {
        return None;
    }
    let near = || own().find(|member| looks_like(&snake_case(key), &snake_case(member.name)));
    BY_LOOK.get(&fold(key)).copied().or_else(near)
}

/// Returns `true` if a key is the field's name, or the camel-case form of it.
pub(super) fn is_field(key: &str, field: &str) -> bool {
    // Most keys are far from it, which is quickly seen.
    let may_be = key.len() < field.len() && key.as_bytes().first() == field.as_bytes().first();
    key == field || (may_be && key == camel_case(field))
}

/// A key without case, separators and invisible characters; one that is not ASCII by its looks.
fn fold(key: &str) -> String {
    let folded = normalise(key);
    if folded.is_ascii() {
        folded
    } else {
        skeleton(&folded)
    }
}

/// Two slips in a long word, one in a short word that begins alike.
fn looks_like(key: &str, field: &str) -> bool {
    let slips = strsim::osa_distance(key, field);
    if field.len() < 6 {
        slips == 1 && key.as_bytes().first() == field.as_bytes().first()
    } else {
        slips <= 2
    }
}

pub(super) fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut camel, word| {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
        camel
    })
}

fn snake_case(key: &str) -> String {
    key.chars().fold(String::new(), |mut snake, letter| {
        if letter.is_ascii_uppercase()
            && snake.ends_with(|before: char| before.is_ascii_lowercase())
        {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
        snake
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_foreign_name_means_one_member() {
        let foreign = || {
            MEMBERS
                .iter()
                .flat_map(|member| member.foreign.iter().map(move |name| (*name, member.name)))
        };
        for (name, right) in foreign() {
            assert_eq!(fold(name), name, "it is written as it is compared");
            assert_eq!(
                meant(Holder::Tool, name).map(|member| member.name),
                Some(right),
                "{name}"
            );
        }
    }
}
