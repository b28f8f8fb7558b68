//! Names that a provider accepts for tools and for property keys.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::changes::{Change, ChangeCode};
use picktools::excerpt::cut;
use picktools::names::AdvertisedTool;

/// The number of hexadecimal digits of the digest that keeps a shortened name unique.
const DIGEST_LETTERS: usize = 8;

/// The rule of a provider for names.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameRule {
    /// The longest name, in characters, all of which are ASCII.
    pub(super) max_length: usize,
    /// The allowed characters in addition to ASCII letters, digits and `_`.
    pub(super) extra_chars: &'static str,
    /// `true` if a name must start with a letter or `_`.
    pub(super) starts_with_letter: bool,
}

impl NameRule {
    fn allows_char(&self, c: char) -> bool {
        c.is_ascii_alphanumeric() || c == '_' || self.extra_chars.contains(c)
    }

    pub(super) fn allows(&self, name: &str) -> bool {
        (1..=self.max_length).contains(&name.len())
            && name.chars().all(|c| self.allows_char(c))
            && !(self.starts_with_letter
                && name.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_'))
    }

    /// Converts a name to an allowed one: other characters become `_`, and a long name is cut and
    /// gets a digest.
    pub(super) fn sanitize(&self, name: &str) -> String {
        if self.allows(name) {
            return name.to_owned();
        }
        // A long name is cut first; the digest covers the rest.
        let start = &name[..name.floor_char_boundary(4 * self.max_length)];
        let mut sanitized: String = start
            .chars()
            .map(|c| if self.allows_char(c) { c } else { '_' })
            .collect();
        if !start.chars().any(|c| c.is_ascii_alphanumeric()) {
            // The remaining characters do not distinguish the name from others.
            sanitized = format!("_{}", digest(name));
        } else if self.starts_with_letter
            && sanitized.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_')
        {
            sanitized.insert(0, '_');
        }
        if sanitized.len() > self.max_length || start.len() < name.len() {
            self.with_digest(&sanitized, name)
        } else {
            sanitized
        }
    }

    /// Converts a name to an allowed one that is unique because of a digest.
    fn sanitize_uniquely(&self, name: &str) -> String {
        if self.allows(name) {
            name.to_owned()
        } else {
            self.with_digest(&self.sanitize(name), name)
        }
    }

    fn with_digest(&self, sanitized: &str, name: &str) -> String {
        self.with_end(sanitized, &format!("_{}", digest(name)))
    }

    /// Appends `end` to a sanitized name, which is cut if the result is too long.
    fn with_end(&self, sanitized: &str, end: &str) -> String {
        format!(
            "{}{end}",
            &sanitized[..sanitized.len().min(self.max_length - end.len())]
        )
    }

    /// Returns the names to which a key may be converted, depending on the other keys.
    pub(super) fn possible_names(&self, key: &str) -> [String; 2] {
        [self.sanitize(key), self.sanitize_uniquely(key)]
    }
}

fn digest(name: &str) -> String {
    let digest = Sha256::digest(name);
    digest
        .iter()
        .take(DIGEST_LETTERS / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the names of those property keys that the rule does not allow.
///
/// A name that two keys share, or that is a key already, gets a digest. The original key can
/// therefore be found from the key and its name alone, independent of the other keys.
pub(super) fn property_keys<'k>(
    rule: Option<NameRule>,
    keys: impl Iterator<Item = &'k String> + Clone,
) -> HashMap<&'k str, String> {
    let Some(rule) = rule else {
        return HashMap::new();
    };
    let mut sanitized_counts: HashMap<String, usize> = HashMap::new();
    let renamed_keys = keys.clone().filter(|key| !rule.allows(key));
    for key in renamed_keys.clone() {
        *sanitized_counts.entry(rule.sanitize(key)).or_default() += 1;
    }
    let mut names = HashMap::new();
    if sanitized_counts.is_empty() {
        return names;
    }
    let mut allowed_keys: HashSet<&str> = HashSet::new();
    for key in keys {
        if rule.allows(key) {
            allowed_keys.insert(key);
        }
    }
    for key in renamed_keys {
        let sanitized = rule.sanitize(key);
        let is_unique = sanitized_counts.get(&sanitized) == Some(&1)
            && !allowed_keys.contains(sanitized.as_str());
        let name = if is_unique {
            sanitized
        } else {
            rule.sanitize_uniquely(key)
        };
        names.insert(key.as_str(), name);
    }
    names
}

/// Gives every advertised tool a name that the provider accepts and no other tool has, in order.
///
/// `reserved` names are not used. Names that would be equal are qualified with the tools' sources,
/// and numbered if that is not enough.
pub(super) fn tool_names(
    rule: NameRule,
    advertised: &[AdvertisedTool],
    reserved: &[&str],
    changes: &mut Vec<Change>,
) -> Vec<String> {
    let sanitized: Vec<String> = advertised
        .iter()
        .map(|tool| rule.sanitize(&tool.name))
        .collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &sanitized {
        *counts.entry(name).or_default() += 1;
    }
    let mut used: HashSet<String> = HashSet::new();
    for name in reserved {
        *counts.entry(name).or_default() += 1;
        used.insert((*name).to_owned());
    }
    let is_unique = |name: &str| counts.get(name) == Some(&1);
    for name in &sanitized {
        if is_unique(name) {
            used.insert(name.clone());
        }
    }
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::with_capacity(advertised.len());
    for (advertised_tool, sanitized) in advertised.iter().zip(&sanitized) {
        let name = if is_unique(sanitized) {
            sanitized.clone()
        } else {
            let qualified = match &advertised_tool.tool.source {
                Some(source) => rule.sanitize(&format!("{source}_{}", advertised_tool.name)),
                None => sanitized.clone(),
            };
            let number = next.entry(qualified.clone()).or_insert(1);
            let mut name = qualified.clone();
            while !used.insert(name.clone()) {
                *number += 1;
                name = rule.with_end(&qualified, &format!("_{number}"));
            }
            name
        };
        if name != advertised_tool.name {
            let (code, reason) = if is_unique(sanitized) {
                (
                    ChangeCode::NameMended,
                    format!(
                        "the provider does not accept {:?}",
                        cut(&advertised_tool.name, 100)
                    ),
                )
            } else {
                (
                    ChangeCode::NameQualified,
                    format!("several tools would have the name {sanitized:?}"),
                )
            };
            let detail = format!("renamed to {name:?}: {reason}");
            changes.push(Change {
                tool: Some(advertised_tool.tool.id.clone()),
                pointer: "/name".to_owned(),
                code,
                detail,
            });
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::Provider;
    use picktools::catalog::Tool;
    use picktools::names::Advertising;

    fn tool_names_for(provider: Provider, tools: &[(&str, &str)]) -> Vec<String> {
        let advertised = tools.iter().map(|&(source, name)| {
            let mut tool = Tool::without_arguments(name, "");
            tool.source = (!source.is_empty()).then(|| source.to_owned());
            Arc::new(tool)
        });
        let advertised = Advertising::Canonical
            .apply(&advertised.collect::<Vec<_>>())
            .expect("names are valid");
        tool_names(
            provider.format().rules().tool_names,
            &advertised,
            &["tool_search"],
            &mut Vec::new(),
        )
    }

    #[test]
    fn tool_names_replace_invalid_characters_and_cut() {
        assert_eq!(
            tool_names_for(Provider::OpenAiChat, &[("", "files.read/all")]),
            ["files_read_all"]
        );
        assert_eq!(
            tool_names_for(Provider::Gemini, &[("", "files.read"), ("", "3d print")]),
            ["files.read", "_3d_print"]
        );
        assert_eq!(
            tool_names_for(Provider::Mcp, &[("", "files.read")]),
            ["files.read"]
        );
        let long = [
            ("", "a".repeat(63) + "é1"),
            ("", "a".repeat(63) + "é2"),
            ("", "b".repeat(100_000)),
        ];
        let long: Vec<(&str, &str)> = long
            .iter()
            .map(|(source, name)| (*source, name.as_str()))
            .collect();
        let names = tool_names_for(Provider::Anthropic, &long);
        assert!(
            names
                .iter()
                .all(|name| name.len() == 64 || name.len() == 65 - 1),
            "{names:?}"
        );
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 3, "{names:?}");
        assert_eq!(
            names,
            tool_names_for(Provider::Anthropic, &long),
            "they are stable"
        );
        let chinese = tool_names_for(Provider::OpenAiChat, &[("", "搜索"), ("", "天气")]);
        assert!(
            chinese[0] != chinese[1] && chinese.iter().all(|name| name.len() == 9),
            "{chinese:?}"
        );
    }

    #[test]
    fn tool_names_that_collide_are_qualified_or_numbered() {
        let tools = [
            ("forge", "create_issue"),
            ("desk", "create_issue"),
            ("desk", "close"),
            ("desk", "create.issue"),
        ];
        assert_eq!(
            tool_names_for(Provider::OpenAiChat, &tools),
            [
                "forge_create_issue",
                "desk_create_issue",
                "close",
                "desk_create_issue_2"
            ]
        );
        assert_eq!(
            tool_names_for(Provider::Ollama, &[("", "a b"), ("", "a/b"), ("", "a_b_2")]),
            ["a_b", "a_b_3", "a_b_2"]
        );
        assert_eq!(
            tool_names_for(Provider::Ollama, &[("s", "tool_search")]),
            ["s_tool_search"]
        );
    }

    #[test]
    fn property_keys_are_mended_and_stay_unique() {
        let rule = Provider::Anthropic.format().rules().property_keys;
        let keys = ["$top", "@id", "#id", "filter[name]", "plain", "_x", "$x"].map(str::to_owned);
        let renamed = property_keys(rule, keys.iter());
        assert_eq!(
            (renamed["$top"].as_str(), renamed["filter[name]"].as_str()),
            ("_top", "filter_name_")
        );
        assert!(!renamed.contains_key("plain"));
        assert!(
            renamed["@id"] != renamed["#id"] && renamed["@id"].starts_with("_id_"),
            "{renamed:?}"
        );
        assert!(renamed["$x"].starts_with("_x_"), "{renamed:?}");
        let rule = rule.expect("Anthropic has one");
        assert!(renamed.iter().all(
            |(key, renamed)| rule.allows(renamed) && rule.possible_names(key).contains(renamed)
        ));
    }

    proptest! {
        #[test]
        fn tool_names_are_always_allowed(names in prop::collection::vec(".{0,80}", 1..20)) {
            for provider in Provider::ALL {
                let tools: Vec<(&str, &str)> = names.iter().map(|name| ("s/1", name.as_str())).collect();
                let tool_names = tool_names_for(provider, &tools);
                let rule = provider.format().rules().tool_names;
                prop_assert!(tool_names.iter().all(|name| rule.allows(name)), "{:?}", tool_names);
                prop_assert_eq!(tool_names.iter().collect::<HashSet<_>>().len(), tool_names.len());
                if let Some(rule) = provider.format().rules().property_keys {
                    let keys = property_keys(Some(rule), names.iter());
                    prop_assert!(keys.values().all(|key| rule.allows(key)), "{:?}", keys);
                }
            }
        }
    }
}
