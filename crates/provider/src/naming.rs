//! Names that a provider takes: of tools, and of the properties of their arguments.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::translate::{Change, ChangeCode};
use picktools::excerpt::cut;
use picktools::names::Advertised;

/// The letters of a digest that keeps a shortened name unique.
const DIGEST_LETTERS: usize = 8;

/// What a provider takes for a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameRule {
    /// The most characters, all of which are ASCII.
    pub(super) most: usize,
    /// What is taken beside ASCII letters, digits and `_`.
    pub(super) others: &'static str,
    /// Whether a name must start with a letter or `_`.
    pub(super) starts_with_letter: bool,
}

impl NameRule {
    fn takes(&self, c: char) -> bool {
        c.is_ascii_alphanumeric() || c == '_' || self.others.contains(c)
    }

    pub(super) fn allows(&self, name: &str) -> bool {
        (1..=self.most).contains(&name.len())
            && name.chars().all(|c| self.takes(c))
            && !(self.starts_with_letter
                && name.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_'))
    }

    /// Makes `name` one that the rule allows: other characters become `_`, and what is too long is
    /// cut and gets a digest.
    pub(super) fn mend(&self, name: &str) -> String {
        if self.allows(name) {
            return name.to_owned();
        }
        // A long name is cut before it is looked at: the rest is in the digest.
        let start = &name[..name.floor_char_boundary(4 * self.most)];
        let mut mended: String = start
            .chars()
            .map(|c| if self.takes(c) { c } else { '_' })
            .collect();
        if !start.chars().any(|c| c.is_ascii_alphanumeric()) {
            // Nothing that tells one name from another is left of it.
            mended = format!("_{}", digest(name));
        } else if self.starts_with_letter
            && mended.starts_with(|c: char| !c.is_ascii_alphabetic() && c != '_')
        {
            mended.insert(0, '_');
        }
        if mended.len() > self.most || start.len() < name.len() {
            self.with_digest(&mended, name)
        } else {
            mended
        }
    }

    /// Makes `name` one that no other name is mended to.
    fn told_apart(&self, name: &str) -> String {
        if self.allows(name) {
            name.to_owned()
        } else {
            self.with_digest(&self.mend(name), name)
        }
    }

    fn with_digest(&self, mended: &str, name: &str) -> String {
        self.with_end(mended, &format!("_{}", digest(name)))
    }

    /// Puts `end` to a mended name, which is cut where the two are too long.
    fn with_end(&self, mended: &str, end: &str) -> String {
        format!(
            "{}{end}",
            &mended[..mended.len().min(self.most - end.len())]
        )
    }

    /// What a refused key may have become, depending on the keys beside it.
    pub(super) fn stands_for(&self, key: &str) -> [String; 2] {
        [self.mend(key), self.told_apart(key)]
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

/// What the property keys of one object are shown as, where they cannot be shown as they are.
///
/// A refused key is mended; two that come to the same, or one that comes to a key that there is,
/// get their digests. What a key becomes can so be told from the key and what it became, whatever
/// other keys there are.
pub(super) fn property_keys<'k>(
    rule: Option<NameRule>,
    keys: impl Iterator<Item = &'k String> + Clone,
) -> HashMap<&'k str, String> {
    let Some(rule) = rule else {
        return HashMap::new();
    };
    let mut wanted: HashMap<String, usize> = HashMap::new();
    let refused = keys.clone().filter(|key| !rule.allows(key));
    for key in refused.clone() {
        *wanted.entry(rule.mend(key)).or_default() += 1;
    }
    if wanted.is_empty() {
        return HashMap::new();
    }
    let kept: HashSet<&str> = keys
        .filter(|key| rule.allows(key))
        .map(String::as_str)
        .collect();
    let shown = refused.map(|key| {
        let mended = rule.mend(key);
        let alone = wanted.get(&mended) == Some(&1) && !kept.contains(mended.as_str());
        (
            key.as_str(),
            if alone { mended } else { rule.told_apart(key) },
        )
    });
    shown.collect()
}

/// Gives every advertised tool a name that the provider takes and no other has, in order;
/// `reserved` names go to none.
///
/// Names that come to the same are qualified with their tools' sources, and then numbered.
pub(super) fn tool_names(
    rule: NameRule,
    advertised: &[Advertised],
    reserved: &[&str],
    changes: &mut Vec<Change>,
) -> Vec<String> {
    let mended: Vec<String> = advertised
        .iter()
        .map(|shown| rule.mend(&shown.name))
        .collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in mended
        .iter()
        .map(String::as_str)
        .chain(reserved.iter().copied())
    {
        *counts.entry(name).or_default() += 1;
    }
    let alone = |name: &str| counts.get(name) == Some(&1);
    let mut taken: HashSet<String> = mended.iter().filter(|name| alone(name)).cloned().collect();
    taken.extend(reserved.iter().map(|&name| name.to_owned()));
    let mut next: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::with_capacity(advertised.len());
    for (shown, mended) in advertised.iter().zip(&mended) {
        let name = if alone(mended) {
            mended.clone()
        } else {
            let qualified = match &shown.tool.source {
                Some(source) => rule.mend(&format!("{source}_{}", shown.name)),
                None => mended.clone(),
            };
            let number = next.entry(qualified.clone()).or_insert(1);
            let mut name = qualified.clone();
            while !taken.insert(name.clone()) {
                *number += 1;
                name = rule.with_end(&qualified, &format!("_{number}"));
            }
            name
        };
        if name != shown.name {
            let (code, why) = if alone(mended) {
                (
                    ChangeCode::NameMended,
                    format!("the provider does not take {:?}", cut(&shown.name, 100)),
                )
            } else {
                (
                    ChangeCode::NameQualified,
                    format!("several tools would be called {mended:?}"),
                )
            };
            let detail = format!("shown as {name:?}: {why}");
            changes.push(Change {
                tool: Some(shown.tool.id.clone()),
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

    fn named(provider: Provider, tools: &[(&str, &str)]) -> Vec<String> {
        let shown = tools.iter().map(|&(source, name)| {
            let mut tool = Tool::without_arguments(name, "");
            tool.source = (!source.is_empty()).then(|| source.to_owned());
            Arc::new(tool)
        });
        let shown = Advertising::Canonical
            .apply(&shown.collect::<Vec<_>>())
            .expect("names may be shown as they are");
        tool_names(
            provider.format().rules().tool_names,
            &shown,
            &["tool_search"],
            &mut Vec::new(),
        )
    }

    #[test]
    fn refused_characters_are_replaced_and_long_names_cut() {
        assert_eq!(
            named(Provider::OpenAiChat, &[("", "files.read/all")]),
            ["files_read_all"]
        );
        assert_eq!(
            named(Provider::Gemini, &[("", "files.read"), ("", "3d print")]),
            ["files.read", "_3d_print"]
        );
        assert_eq!(named(Provider::Mcp, &[("", "files.read")]), ["files.read"]);
        let long = [
            ("", "a".repeat(63) + "é1"),
            ("", "a".repeat(63) + "é2"),
            ("", "b".repeat(100_000)),
        ];
        let long: Vec<(&str, &str)> = long
            .iter()
            .map(|(source, name)| (*source, name.as_str()))
            .collect();
        let names = named(Provider::Anthropic, &long);
        assert!(
            names
                .iter()
                .all(|name| name.len() == 64 || name.len() == 65 - 1),
            "{names:?}"
        );
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 3, "{names:?}");
        assert_eq!(names, named(Provider::Anthropic, &long), "they are stable");
        let chinese = named(Provider::OpenAiChat, &[("", "搜索"), ("", "天气")]);
        assert!(
            chinese[0] != chinese[1] && chinese.iter().all(|name| name.len() == 9),
            "{chinese:?}"
        );
    }

    #[test]
    fn names_that_collide_are_qualified_and_then_numbered() {
        let tools = [
            ("forge", "create_issue"),
            ("desk", "create_issue"),
            ("desk", "close"),
            ("desk", "create.issue"),
        ];
        assert_eq!(
            named(Provider::OpenAiChat, &tools),
            [
                "forge_create_issue",
                "desk_create_issue",
                "close",
                "desk_create_issue_2"
            ]
        );
        assert_eq!(
            named(Provider::Ollama, &[("", "a b"), ("", "a/b"), ("", "a_b_2")]),
            ["a_b", "a_b_3", "a_b_2"]
        );
        assert_eq!(
            named(Provider::Ollama, &[("s", "tool_search")]),
            ["s_tool_search"]
        );
    }

    #[test]
    fn keys_are_mended_and_told_apart() {
        let rule = Provider::Anthropic.format().rules().property_keys;
        let keys = ["$top", "@id", "#id", "filter[name]", "plain", "_x", "$x"].map(str::to_owned);
        let shown = property_keys(rule, keys.iter());
        assert_eq!(
            (shown["$top"].as_str(), shown["filter[name]"].as_str()),
            ("_top", "filter_name_")
        );
        assert!(!shown.contains_key("plain"));
        assert!(
            shown["@id"] != shown["#id"] && shown["@id"].starts_with("_id_"),
            "{shown:?}"
        );
        assert!(shown["$x"].starts_with("_x_"), "{shown:?}");
        let rule = rule.expect("Anthropic has one");
        assert!(
            shown
                .iter()
                .all(|(key, shown)| rule.allows(shown) && rule.stands_for(key).contains(shown))
        );
    }

    proptest! {
        #[test]
        fn every_name_is_mended_to_one_that_is_allowed(names in prop::collection::vec(".{0,80}", 1..20)) {
            for provider in Provider::ALL {
                let tools: Vec<(&str, &str)> = names.iter().map(|name| ("s/1", name.as_str())).collect();
                let shown = named(provider, &tools);
                let rule = provider.format().rules().tool_names;
                prop_assert!(shown.iter().all(|name| rule.allows(name)), "{:?}", shown);
                prop_assert_eq!(shown.iter().collect::<HashSet<_>>().len(), shown.len());
                if let Some(rule) = provider.format().rules().property_keys {
                    let keys = property_keys(Some(rule), names.iter());
                    prop_assert!(keys.values().all(|key| rule.allows(key)), "{:?}", keys);
                }
            }
        }
    }
}
