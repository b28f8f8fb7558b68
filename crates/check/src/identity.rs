//! Whom a tool gives itself out for: names of others in disguise, and aliases that agents use for
//! something else.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use rayon::prelude::*;
use regex::Regex;
use unicode_normalization::UnicodeNormalization;

use super::Found;
use super::fold::{fold, is_mixed, letter_for, words};
use super::rules::{ALIAS_SQUATTING, CONFUSABLE_NAME, IMITATED_NAME, LOOK_ALIKE_SOURCE};
use picktools::catalog::spelling::normalise;
use picktools::catalog::{Sources, Tool, is_reserved, known_for, reserved};
use picktools::names::words_of;
use picktools::text::likeness::stem;

/// As many owners of one look are compared with the next.
const MOST_ALIKE: usize = 8;

/// A source that is a server elsewhere: an address, or the name of a host.
static REMOTE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:[a-z][a-z0-9+.-]*://.+|(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?(?:/.*)?)$")
        .expect("a test compiles it")
});

fn is_remote(tool: &Tool) -> bool {
    tool.untrusted
        || tool
            .source
            .as_deref()
            .is_some_and(|source| REMOTE.is_match(source))
}

/// Looks at whom tools give themselves out for; `found` has a place for each tool.
pub(super) fn check(tools: &[&Tool], found: &mut [Vec<Found>]) {
    imitations(tools, found);
    look_alike_sources(tools, found);
    squatting(tools, found);
}

/// What a name is without the disguises of ASCII: digits for letters, and pairs that look like one
/// letter.
fn undisguised(name: &str) -> String {
    let plain: String = normalise(name).chars().map(letter_for).collect();
    plain
        .replace("rn", "m")
        .replace("vv", "w")
        .replace("cl", "d")
        .replace(['l', 'j'], "i")
}

fn imitations(tools: &[&Tool], found: &mut [Vec<Found>]) {
    // Who is imitated: the ecosystem's names, and the names of other sources.
    let mut known: HashMap<String, Vec<(String, Option<&str>)>> = HashMap::new();
    for name in reserved() {
        known
            .entry(undisguised(name))
            .or_default()
            .push((name.to_owned(), Some("the ecosystem")));
    }
    for tool in tools {
        let owners = known.entry(undisguised(&tool.name)).or_default();
        let owner = (normalise(&tool.name), tool.source.as_deref());
        if owners.len() < MOST_ALIKE && !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    let imitated = imitated_sources(tools);
    tools.par_iter().zip(found).for_each(|(tool, found)| {
        let name = normalise(&tool.name);
        let like = known.get(&undisguised(&tool.name)).and_then(|owners| {
            owners.iter().find(|(other, source)| {
                *other != name && *source != tool.source.as_deref() && is_disguise(&name, other)
            })
        });
        let like = like
            .map(|(other, _)| other.clone())
            .or_else(|| slip_of(&name))
            .or_else(|| {
                fold(&tool.name)
                    .split(|c: char| !c.is_alphanumeric())
                    .find_map(|word| disguised_word(word).map(str::to_owned))
            });
        if let Some(other) = like {
            let message = format!("the name looks like {:?}", super::shown(&other));
            found.push(Found {
                message,
                ..Found::new(&IMITATED_NAME, "/name", &tool.name)
            });
        }
        let source = tool.source.as_deref().unwrap_or_default();
        if let Some(other) = imitated.get(source) {
            let message = format!("the source looks like {:?}", super::shown(other));
            found.push(Found {
                message,
                ..Found::new(&IMITATED_NAME, "/source", source)
            });
        }
        scripts(tool, found);
    });
}

/// The sources that are others in disguise, with these.
fn imitated_sources<'a>(tools: &[&'a Tool]) -> HashMap<&'a str, &'a str> {
    let sources: BTreeSet<&str> = tools
        .iter()
        .filter_map(|tool| tool.source.as_deref())
        .collect();
    let mut by_look: HashMap<String, Vec<&str>> = HashMap::new();
    for &source in &sources {
        by_look.entry(undisguised(source)).or_default().push(source);
    }
    let of_a_look = |alike: &Vec<&'a str>| -> Vec<(&'a str, &'a str)> {
        let other = |source| {
            alike
                .iter()
                .find(|other| is_disguise(&normalise(source), &normalise(other)))
        };
        alike
            .iter()
            .filter_map(|&source| Some((source, *other(source)?)))
            .collect()
    };
    by_look.values().flat_map(of_a_look).collect()
}

/// Sources that are told apart by case, spaces or letters of another script alone; each is reported
/// once. Who is trusted, and who came first, is not the copy.
fn look_alike_sources(tools: &[&Tool], found: &mut [Vec<Found>]) {
    let sources = Sources::new(tools.iter().map(|tool| tool.source.as_deref()));
    let mut order: Vec<usize> = (0..tools.len()).collect();
    order.sort_by_key(|&at| tools[at].untrusted);
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut told: BTreeSet<&str> = BTreeSet::new();
    for at in order {
        let Some(source) = tools[at].source.as_deref() else {
            continue;
        };
        let Some(look) = sources.look_of(Some(source)) else {
            continue;
        };
        let other = *first.entry(look).or_insert(source);
        // Digits for letters, and pairs for one, are an imitation.
        let in_disguise =
            source.is_ascii() && other.is_ascii() && normalise(source) != normalise(other);
        if other != source && !in_disguise && told.insert(source) {
            let message = format!("the source looks like {:?}", super::shown(other));
            found[at].push(Found {
                message,
                ..Found::new(&LOOK_ALIKE_SOURCE, "/source", source)
            });
        }
    }
}

/// Of two names that look alike, the one that is in disguise has the digits, or the letter pairs.
fn is_disguise(name: &str, other: &str) -> bool {
    let digits = |name: &str| name.bytes().filter(u8::is_ascii_digit).count();
    name.len() > 2 && (digits(name), name.len()) > (digits(other), other.len())
}

/// The ecosystem's name that a name is one slip away from: a letter exchanged, doubled or left out,
/// two swapped.
fn slip_of(name: &str) -> Option<String> {
    if name.len() < 6 || is_reserved(name) {
        return None;
    }
    reserved()
        .filter(|known| known.len() >= 6 && known.len().abs_diff(name.len()) <= 1)
        .find(|known| {
            let inflected = name.strip_prefix(known).or(known.strip_prefix(name));
            inflected.is_none() && strsim::osa_distance(known, name) == 1
        })
        .map(str::to_owned)
}

/// Words of many a tool's name.
const COMMON: [&str; 44] = [
    "account", "admin", "calendar", "code", "command", "comment", "commit", "create", "database",
    "delete", "deploy", "document", "download", "edit", "email", "execute", "fetch", "file",
    "image", "invoice", "issue", "list", "login", "mail", "make", "memory", "merge", "message",
    "modify", "move", "password", "payment", "query", "remove", "rename", "review", "search",
    "send", "system", "terminal", "transfer", "update", "upload", "write",
];

/// The common words by what they are without disguise.
static COMMON_BY_LOOK: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    COMMON
        .into_iter()
        .map(|word| (undisguised(word), word))
        .collect()
});

/// The common word that a word is in disguise: `wr1te`, `rnerge`.
fn disguised_word(word: &str) -> Option<&'static str> {
    COMMON_BY_LOOK
        .get(&undisguised(word))
        .copied()
        .filter(|common| is_disguise(word, common))
}

/// Names in letters that are not what they seem.
fn scripts(tool: &Tool, found: &mut Vec<Found>) {
    let names = std::iter::once(("/name".to_owned(), tool.name.as_str()));
    let aliases = tool
        .aliases
        .iter()
        .enumerate()
        .map(|(at, alias)| (format!("/aliases/{at}"), alias.name.as_str()));
    for (pointer, name) in names.chain(aliases).filter(|(_, name)| !name.is_ascii()) {
        let plain: String = name.nfkc().collect();
        let message = if plain.is_ascii() {
            format!("the name reads {:?} in plain letters", super::shown(&plain))
        } else if let Some(word) = words(name).find(|word| is_mixed(word)) {
            format!(
                "the word {:?} mixes Latin letters with others that look alike",
                super::shown(word)
            )
        } else {
            continue;
        };
        found.push(Found {
            message,
            ..Found::new(&CONFUSABLE_NAME, &pointer, name)
        });
    }
}

/// What hosts call the controls that no server has: asking people, ending a turn, looking for
/// tools.
const HOSTS: [&str; 20] = [
    "askuser",
    "askhuman",
    "asktheuser",
    "askapproval",
    "confirm",
    "humanapproval",
    "requestapproval",
    "getapproval",
    "requestpermission",
    "userinput",
    "humaninput",
    "finalanswer",
    "finish",
    "think",
    "listtools",
    "searchtools",
    "toolsearch",
    "calltool",
    "describetool",
    "systemprompt",
];

fn squatting(tools: &[&Tool], found: &mut [Vec<Found>]) {
    let mut owners: HashMap<String, Vec<Option<&str>>> = HashMap::new();
    for tool in tools {
        owners
            .entry(normalise(&tool.name))
            .or_default()
            .push(tool.source.as_deref());
    }
    for (tool, found) in tools.iter().zip(found) {
        for (index, alias) in tool.aliases.iter().enumerate() {
            let name = normalise(&alias.name);
            let others = owners.get(&name).is_some_and(|sources| {
                sources
                    .iter()
                    .any(|source| *source != tool.source.as_deref())
            });
            let message = if HOSTS.contains(&name.as_str()) {
                format!(
                    "{:?} is what a host calls its own controls",
                    super::shown(&alias.name)
                )
            } else if is_reserved(&alias.name) && is_remote(tool) {
                format!(
                    "a server elsewhere claims {:?}, which agents use for a tool of their own host",
                    super::shown(&alias.name)
                )
            } else if is_reserved(&alias.name) && !has_to_do(tool, &alias.name) {
                format!(
                    "agents use {:?} for something that this tool does not speak of",
                    super::shown(&alias.name)
                )
            } else if others {
                format!(
                    "the alias {:?} is the name of another source's tool",
                    super::shown(&alias.name)
                )
            } else {
                continue;
            };
            found.push(Found {
                message,
                ..Found::new(&ALIAS_SQUATTING, &format!("/aliases/{index}"), &alias.name)
            });
            break;
        }
    }
}

/// Words that every other tool has.
const SAYING_NOTHING: [&str; 12] = [
    "run", "exec", "execute", "get", "in", "to", "by", "do", "use", "a", "tool", "open",
];

/// Returns `true` if a tool's words are those of what a name of the ecosystem stands for.
fn has_to_do(tool: &Tool, reserved: &str) -> bool {
    let mut meant: BTreeSet<String> = words_of(reserved);
    meant.extend(known_for(reserved).iter().flat_map(|name| words_of(name)));
    meant.retain(|word| !SAYING_NOTHING.contains(&word.as_str()));
    let told = format!(
        "{} {} {}",
        tool.name,
        tool.title.as_deref().unwrap_or_default(),
        tool.description
    );
    let told = words_of(&told[..told.floor_char_boundary(1 << 12)]);
    // Agents' names are English; a tool that is described in another language cannot share their
    // words.
    !told.iter().all(|word| word.is_ascii())
        || told
            .iter()
            .any(|word| meant.iter().any(|other| stem(word) == stem(other)))
}
