//! Checks for imitations: disguised names of other tools, and aliases that agents use for something
//! else.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use rayon::prelude::*;
use regex::Regex;
use unicode_normalization::UnicodeNormalization;

use super::finding::{ToolFinding, shorten};
use super::fold::{fold, is_mixed, letter_for, words};
use super::rules::{ALIAS_SQUATTING, CONFUSABLE_NAME, IMITATED_NAME, LOOK_ALIKE_SOURCE};
use picktools::catalog::spelling::normalise;
use picktools::catalog::{Sources, Tool, is_reserved, known_for, reserved};
use picktools::names::split_words;
use picktools::text::likeness::stem;

/// The largest number of names with one look that are compared.
const MAX_ALIKE: usize = 8;

/// Sources that are remote servers: an address, or the name of a host.
static REMOTE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?:[a-z][a-z0-9+.-]*://.+|(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?(?:/.*)?)$")
        .expect("a test compiles it")
});

fn is_remote(tool: &Tool) -> bool {
    let has_remote_source = || match &tool.source {
        Some(source) => REMOTE.is_match(source),
        None => false,
    };
    tool.untrusted || has_remote_source()
}

/// Checks tools for imitations; `findings` has an entry for each tool.
pub(super) fn check(tools: &[&Tool], findings: &mut [Vec<ToolFinding>]) {
    check_imitations(tools, findings);
    check_sources(tools, findings);
    check_aliases(tools, findings);
}

/// Removes the disguises of ASCII from a name: digits for letters, and pairs that look like one
/// letter.
fn undisguised(name: &str) -> String {
    let plain: String = normalise(name).chars().map(letter_for).collect();
    plain
        .replace("rn", "m")
        .replace("vv", "w")
        .replace("cl", "d")
        .replace(['l', 'j'], "i")
}

/// Names with their owners, by their undisguised form. The owner is a source or "the ecosystem".
type NamesByLook<'a> = HashMap<String, Vec<(String, Option<&'a str>)>>;

/// Collects the names that others may imitate: those of the ecosystem and of all sources.
fn names_by_look<'a>(tools: &[&'a Tool]) -> NamesByLook<'a> {
    let mut names = NamesByLook::new();
    for name in reserved() {
        let owners = names.entry(undisguised(name)).or_default();
        owners.push((name.to_owned(), Some("the ecosystem")));
    }
    for tool in tools {
        let owners = names.entry(undisguised(&tool.name)).or_default();
        let owner = (normalise(&tool.name), tool.source.as_deref());
        if owners.len() < MAX_ALIKE && !owners.contains(&owner) {
            owners.push(owner);
        }
    }
    names
}

/// Finds the name that a tool's name imitates.
fn find_imitated_name(tool: &Tool, names: &NamesByLook<'_>) -> Option<String> {
    let name = normalise(&tool.name);
    for (other, source) in names.get(&undisguised(&tool.name)).into_iter().flatten() {
        if *other != name && *source != tool.source.as_deref() && is_disguise(&name, other) {
            return Some(other.clone());
        }
    }
    if let Some(reserved) = find_misspelt_name(&name) {
        return Some(reserved.to_owned());
    }
    let folded = fold(&tool.name);
    let mut parts = folded.split(|c: char| !c.is_alphanumeric());
    parts.find_map(disguised_word).map(str::to_owned)
}

fn check_imitations(tools: &[&Tool], findings: &mut [Vec<ToolFinding>]) {
    let names = names_by_look(tools);
    let imitated_sources = imitated_sources(tools);
    tools.par_iter().zip(findings).for_each(|(tool, findings)| {
        if let Some(other) = find_imitated_name(tool, &names) {
            let message = format!("the name looks like {:?}", shorten(&other));
            findings.push(ToolFinding {
                message,
                ..ToolFinding::new(&IMITATED_NAME, "/name", &tool.name)
            });
        }
        let source = tool.source.as_deref().unwrap_or_default();
        if let Some(other) = imitated_sources.get(source) {
            let message = format!("the source looks like {:?}", shorten(other));
            findings.push(ToolFinding {
                message,
                ..ToolFinding::new(&IMITATED_NAME, "/source", source)
            });
        }
        check_scripts(tool, findings);
    });
}

/// Maps each source that imitates another to the imitated one.
fn imitated_sources<'a>(tools: &[&'a Tool]) -> HashMap<&'a str, &'a str> {
    let sources: BTreeSet<&str> = tools
        .iter()
        .filter_map(|tool| tool.source.as_deref())
        .collect();
    let mut by_look: HashMap<String, Vec<&str>> = HashMap::new();
    for &source in &sources {
        by_look.entry(undisguised(source)).or_default().push(source);
    }
    let mut imitated = HashMap::new();
    for alike in by_look.values() {
        for &source in alike {
            let name = normalise(source);
            let original = alike
                .iter()
                .find(|other| is_disguise(&name, &normalise(other)));
            if let Some(original) = original {
                imitated.insert(source, *original);
            }
        }
    }
    imitated
}

/// Reports sources that differ only in case, spaces or letters of another script, each once. The
/// trusted or first source is the original.
fn check_sources(tools: &[&Tool], findings: &mut [Vec<ToolFinding>]) {
    let sources = Sources::new(tools.iter().map(|tool| tool.source.as_deref()));
    let mut order: Vec<usize> = (0..tools.len()).collect();
    order.sort_by_key(|&index| tools[index].untrusted);
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut reported: BTreeSet<&str> = BTreeSet::new();
    for index in order {
        let Some(source) = tools[index].source.as_deref() else {
            continue;
        };
        let Some(look) = sources.skeleton(Some(source)) else {
            continue;
        };
        let other = *first.entry(look).or_insert(source);
        // Digits for letters and letter pairs are reported as imitations.
        let in_disguise =
            source.is_ascii() && other.is_ascii() && normalise(source) != normalise(other);
        if other != source && !in_disguise && reported.insert(source) {
            let message = format!("the source looks like {:?}", shorten(other));
            findings[index].push(ToolFinding {
                message,
                ..ToolFinding::new(&LOOK_ALIKE_SOURCE, "/source", source)
            });
        }
    }
}

/// Returns `true` if the first of two names that look alike is the disguised one: it has more
/// digits, or is longer because of letter pairs.
fn is_disguise(name: &str, other: &str) -> bool {
    let digits = |name: &str| name.bytes().filter(u8::is_ascii_digit).count();
    name.len() > 2 && (digits(name), name.len()) > (digits(other), other.len())
}

/// Finds the name of the ecosystem that differs by one typing error: a letter replaced, added or
/// left out, or two swapped.
fn find_misspelt_name(name: &str) -> Option<&'static str> {
    if name.len() < 6 || is_reserved(name) {
        return None;
    }
    for known in reserved() {
        if known.len() < 6 || known.len().abs_diff(name.len()) > 1 {
            continue;
        }
        let inflected = name.strip_prefix(known).or(known.strip_prefix(name));
        if inflected.is_none() && strsim::osa_distance(known, name) == 1 {
            return Some(known);
        }
    }
    None
}

/// Common words in names of tools.
const COMMON: [&str; 44] = [
    "account", "admin", "calendar", "code", "command", "comment", "commit", "create", "database",
    "delete", "deploy", "document", "download", "edit", "email", "execute", "fetch", "file",
    "image", "invoice", "issue", "list", "login", "mail", "make", "memory", "merge", "message",
    "modify", "move", "password", "payment", "query", "remove", "rename", "review", "search",
    "send", "system", "terminal", "transfer", "update", "upload", "write",
];

/// The common words by their undisguised form.
static COMMON_BY_LOOK: LazyLock<HashMap<String, &'static str>> =
    LazyLock::new(|| HashMap::from(COMMON.map(|word| (undisguised(word), word))));
/// Returns the common word that a word disguises: `wr1te`, `rnerge`.
fn disguised_word(word: &str) -> Option<&'static str> {
    let common = *COMMON_BY_LOOK.get(&undisguised(word))?;
    is_disguise(word, common).then_some(common)
}

/// Reports names with confusable letters of another script.
fn check_scripts(tool: &Tool, findings: &mut Vec<ToolFinding>) {
    let mut names = vec![("/name".to_owned(), tool.name.as_str())];
    for (index, alias) in tool.aliases.iter().enumerate() {
        names.push((format!("/aliases/{index}"), alias.name.as_str()));
    }
    for (pointer, name) in names {
        if name.is_ascii() {
            continue;
        }
        let plain: String = name.nfkc().collect();
        let message = if plain.is_ascii() {
            format!("the name reads {:?} in plain letters", shorten(&plain))
        } else if let Some(word) = words(name).find(|word| is_mixed(word)) {
            format!(
                "the word {:?} mixes Latin letters with others that look alike",
                shorten(word)
            )
        } else {
            continue;
        };
        findings.push(ToolFinding {
            message,
            ..ToolFinding::new(&CONFUSABLE_NAME, &pointer, name)
        });
    }
}

/// Names that hosts use for their own controls: asking people, ending a turn, searching for tools.
const HOST_CONTROLS: [&str; 20] = [
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

fn check_aliases(tools: &[&Tool], findings: &mut [Vec<ToolFinding>]) {
    let mut owners: HashMap<String, Vec<Option<&str>>> = HashMap::new();
    for tool in tools {
        let sources = owners.entry(normalise(&tool.name)).or_default();
        sources.push(tool.source.as_deref());
    }
    for (tool, findings) in tools.iter().zip(findings) {
        for (index, alias) in tool.aliases.iter().enumerate() {
            let name = normalise(&alias.name);
            let sources = owners.get(&name).map(Vec::as_slice).unwrap_or_default();
            let Some(message) = alias_problem(tool, &alias.name, sources) else {
                continue;
            };
            findings.push(ToolFinding {
                message,
                ..ToolFinding::new(&ALIAS_SQUATTING, &format!("/aliases/{index}"), &alias.name)
            });
            break;
        }
    }
}

/// Describes why an alias is misleading; `sources` are those of the tools with this name.
fn alias_problem(tool: &Tool, alias: &str, sources: &[Option<&str>]) -> Option<String> {
    let quoted = shorten(alias);
    if HOST_CONTROLS.contains(&normalise(alias).as_str()) {
        return Some(format!(
            "{quoted:?} is a name that hosts use for their own controls"
        ));
    }
    if is_reserved(alias) && is_remote(tool) {
        return Some(format!(
            "a remote server claims {quoted:?}, which agents use for a tool of their own host"
        ));
    }
    if is_reserved(alias) && !is_related(tool, alias) {
        return Some(format!(
            "agents use {quoted:?} for a purpose that this tool does not mention"
        ));
    }
    if sources
        .iter()
        .any(|source| *source != tool.source.as_deref())
    {
        return Some(format!(
            "the alias {quoted:?} is the name of another source's tool"
        ));
    }
    None
}

/// Words that many names share, and that do not relate two tools.
const GENERIC_WORDS: [&str; 12] = [
    "run", "exec", "execute", "get", "in", "to", "by", "do", "use", "a", "tool", "open",
];

/// Returns `true` if a tool mentions a word of a reserved name or of a name with the same meaning.
fn is_related(tool: &Tool, reserved: &str) -> bool {
    let mut expected_words: BTreeSet<String> = split_words(reserved);
    for name in known_for(reserved) {
        expected_words.extend(split_words(&name));
    }
    expected_words.retain(|word| !GENERIC_WORDS.contains(&word.as_str()));
    let description = format!(
        "{} {} {}",
        tool.name,
        tool.title.as_deref().unwrap_or_default(),
        tool.description
    );
    let described_words = split_words(&description[..description.floor_char_boundary(1 << 12)]);
    // Reserved names are English; a description in another language cannot share their words.
    if !described_words.iter().all(|word| word.is_ascii()) {
        return true;
    }
    described_words
        .iter()
        .any(|word| expected_words.iter().any(|other| stem(word) == stem(other)))
}
