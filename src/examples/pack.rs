//! Packs of examples: requests for tools that are known by a fingerprint of their definition.
//!
//! A pack has neither names nor definitions, so it can have requests for tools of other authors.
//! The name of a tool or a server alone gives a tool no request: anyone can choose a name. A tool
//! whose definition changed has another fingerprint and gets no request either.
//! `models/train/real/pack.py` writes packs.

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::catalog::{Catalog, Tool, ToolId};
use crate::saved::SavedError;

/// The first line of a pack.
const HEADER: &str = "picktools examples 1";
/// The bytes of the first part of a fingerprint: a digest of the tool's name. It tells without the
/// definition that a pack does not have a tool.
const NAME_BYTES: usize = 4;
/// The bytes of a fingerprint. The digest of the definition is long enough that no one can find
/// another definition with the same digest.
const FINGERPRINT_BYTES: usize = NAME_BYTES + 16;

/// The digests of a tool's name, and of the text that says what the tool does.
type Fingerprint = [u8; FINGERPRINT_BYTES];

/// Example requests by the fingerprints of tools.
pub(super) struct ExamplePack {
    text: Cow<'static, str>,
    /// The fingerprints, ascending, each with the position of its requests in the text.
    entries: Vec<(Fingerprint, usize)>,
}

impl fmt::Debug for ExamplePack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExamplePack")
            .field("tools", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl ExamplePack {
    /// Returns `true` if a file is a pack.
    pub(super) fn is_pack(bytes: &[u8]) -> bool {
        bytes
            .split(|&byte| byte == b'\n')
            .next()
            .is_some_and(|line| line.trim_ascii_end() == HEADER.as_bytes())
    }

    /// Reads a pack: after the header, a line for each tool with its fingerprint and its requests,
    /// separated by tabs. The error is the number of a line, from 1, and its fault.
    pub(super) fn parse(text: Cow<'static, str>) -> Result<Self, (usize, String)> {
        let mut entries: Vec<(Fingerprint, usize)> = Vec::new();
        let mut start = 0;
        for (index, line) in text.split('\n').enumerate() {
            let line_start = start;
            start += line.len() + 1;
            if index == 0 || line.trim_ascii().is_empty() {
                continue;
            }
            let fault = |message: &str| (index + 1, message.to_owned());
            let (digits, requests) = line
                .split_once('\t')
                .ok_or_else(|| fault("there is no tab after the fingerprint"))?;
            let fingerprint = fingerprint_from_hex(digits)
                .ok_or_else(|| fault("the fingerprint does not have 40 hexadecimal digits"))?;
            if requests
                .split('\t')
                .any(|request| request.trim().is_empty())
            {
                return Err(fault("a request is empty"));
            }
            if entries.last().is_some_and(|(last, _)| *last >= fingerprint) {
                return Err(fault("the fingerprints do not ascend"));
            }
            entries.push((fingerprint, line_start + digits.len() + 1));
        }
        Ok(Self { text, entries })
    }

    /// Returns the requests for the tools of a catalog, by tool.
    ///
    /// Tools of untrusted sources get none. Their text would give them requests that make them
    /// outrank other tools, and anyone can copy a definition.
    pub(super) fn requests(
        &self,
        catalog: &Catalog,
    ) -> Result<Vec<(ToolId, Vec<&str>)>, SavedError> {
        let mut by_tool = Vec::new();
        for tool in catalog.ids() {
            let outline = catalog.outline(tool)?;
            if outline.untrusted || !self.has_name(&outline.name) {
                continue;
            }
            let requests = self.requests_of(&fingerprint(catalog.tool(tool)?));
            if !requests.is_empty() {
                by_tool.push((tool, requests));
            }
        }
        Ok(by_tool)
    }

    /// Returns `true` if the pack may have a tool of this name.
    fn has_name(&self, name: &str) -> bool {
        let digest = Sha256::digest(normalize(name));
        let name_digest = &digest[..NAME_BYTES];
        let first = self
            .entries
            .partition_point(|(known, _)| &known[..NAME_BYTES] < name_digest);
        self.entries
            .get(first)
            .is_some_and(|(known, _)| &known[..NAME_BYTES] == name_digest)
    }

    fn requests_of(&self, fingerprint: &Fingerprint) -> Vec<&str> {
        let entry = self
            .entries
            .binary_search_by(|(known, _)| known.cmp(fingerprint));
        let Ok(position) = entry else {
            return Vec::new();
        };
        let requests = &self.text[self.entries[position].1..];
        let line = requests.lines().next().unwrap_or_default();
        line.split('\t').collect()
    }
}

/// Returns the fingerprint of a tool: its name, and the text and the parameters that say what it
/// does. Other parts may differ without a difference in what the tool does.
fn fingerprint(tool: &Tool) -> Fingerprint {
    let name = normalize(&tool.name);
    let title = tool.title.as_deref().or(tool.annotations.title.as_deref());
    // The same title rule as in the text that is embedded.
    let title = title.filter(|title| *title != tool.name);
    let mut definition = [
        name.clone(),
        normalize(title.unwrap_or_default()),
        normalize(&tool.description),
    ]
    .join("\n");
    let parameters = tool.parameters.as_ref();
    let properties = parameters.and_then(|parameters| parameters.get("properties")?.as_object());
    let mut parameter_names: Vec<String> = properties
        .into_iter()
        .flat_map(|properties| properties.keys())
        .map(|name| normalize(name))
        .collect();
    parameter_names.sort_unstable();
    for parameter in parameter_names {
        definition.push('\n');
        definition.push_str(&parameter);
    }
    let mut fingerprint = Fingerprint::default();
    let (name_part, definition_part) = fingerprint.split_at_mut(NAME_BYTES);
    name_part.copy_from_slice(&Sha256::digest(name)[..NAME_BYTES]);
    let length = definition_part.len();
    definition_part.copy_from_slice(&Sha256::digest(definition)[..length]);
    fingerprint
}

/// Returns a text on one line. White space may differ between environments of one server: Python
/// 3.12 and 3.13 indent descriptions differently.
fn normalize(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn fingerprint_from_hex(digits: &str) -> Option<Fingerprint> {
    if digits.len() != 2 * FINGERPRINT_BYTES || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut fingerprint = Fingerprint::default();
    for (index, byte) in fingerprint.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CatalogOptions;

    const PACK: &str = include_str!("../../fixtures/examples/pack.tsv");
    const TOOLS: &str = include_str!("../../fixtures/examples/tools.jsonl");

    fn pack() -> ExamplePack {
        ExamplePack::parse(PACK.into()).expect("the fixture is a pack")
    }

    /// Returns the requests for a catalog, by the ids of the tools.
    fn requests(tools: &str, untrusted: &[&str]) -> Vec<(String, Vec<String>)> {
        let options = CatalogOptions {
            untrusted_sources: untrusted.iter().map(|&name| name.to_owned()).collect(),
            ..CatalogOptions::default()
        };
        let catalog = options.read(tools.as_bytes(), "tools.jsonl");
        let catalog = catalog.expect("valid");
        let pack = pack();
        let by_tool = pack.requests(&catalog).expect("in memory");
        by_tool
            .into_iter()
            .map(|(tool, requests)| {
                let requests = requests.into_iter().map(str::to_owned).collect();
                (catalog.tool_id(tool).to_owned(), requests)
            })
            .collect()
    }

    fn ids(tools: &str, untrusted: &[&str]) -> Vec<String> {
        let by_tool = requests(tools, untrusted);
        by_tool.into_iter().map(|(tool, _)| tool).collect()
    }

    #[test]
    fn script_and_engine_compute_the_same_fingerprints() {
        let matched = requests(TOOLS, &[]);
        let ids: Vec<&str> = matched.iter().map(|(tool, _)| tool.as_str()).collect();
        let all = [
            "bakery/order_bread",
            "bakery/list_orders",
            "ferry/find_crossing",
            "ferry/status",
            "harbour/find_berth",
            "harbour/status",
        ];
        assert_eq!(ids, all);
        let bread = [
            "two sourdoughs for Saturday please",
            "we run out of rolls, get a dozen",
        ];
        assert_eq!(matched[0].1, bread);
        // Equal definitions of two servers share their requests.
        assert_eq!(matched[3].1.len(), 2);
        assert_eq!(matched[3].1, matched[5].1);
    }

    #[test]
    fn changed_definitions_get_no_requests() {
        for (part, changed) in [
            ("\"order_bread\"", "\"order_breads\""),
            ("Order  bread", "Order cake"),
            ("Places an order", "Places an order."),
            ("\"loaf\"", "\"loaves\""),
            ("\"loaf\": {\"type\": \"string\"}, ", ""),
        ] {
            let tools = TOOLS.replacen(part, changed, 2);
            assert_ne!(tools, TOOLS, "{part}");
            let matched = ids(&tools, &[]);
            assert!(
                !matched.contains(&"bakery/order_bread".to_owned()),
                "{part}"
            );
            assert_eq!(matched.len(), 5, "{part}");
        }
    }

    #[test]
    fn space_and_other_parts_do_not_change_a_fingerprint() {
        let tools = TOOLS
            .replace("Loaves are ready\\tthe", "Loaves  are ready the")
            .replace("{\"type\": \"integer\"}", "{\"type\": \"number\"}")
            .replace("\"source\": \"bakery\"", "\"source\": \"other\"");
        assert_eq!(ids(&tools, &[]).len(), 6);
    }

    #[test]
    fn tools_of_untrusted_sources_get_no_requests() {
        let trusted = [
            "ferry/find_crossing",
            "ferry/status",
            "harbour/find_berth",
            "harbour/status",
        ];
        assert_eq!(ids(TOOLS, &["bakery"]), trusted);
    }

    #[test]
    fn malformed_packs_are_refused_with_the_line() {
        let first = PACK.lines().nth(1).expect("an entry");
        for (lines, line, expected) in [
            ("abc".to_owned(), 2, "no tab"),
            ("abc\trequest".to_owned(), 2, "40 hexadecimal"),
            (format!("{}é\trequest", "0".repeat(38)), 2, "40 hexadecimal"),
            (first.replacen('\t', "\t\t", 1), 2, "empty"),
            (format!("{first}\n\n{first}"), 4, "ascend"),
        ] {
            let text = format!("{HEADER}\n{lines}\n");
            assert!(ExamplePack::is_pack(text.as_bytes()));
            let (fault_line, message) =
                ExamplePack::parse(text.into()).expect_err("it is malformed");
            assert!(message.contains(expected), "{message}");
            assert_eq!(fault_line, line, "{message}");
        }
        assert!(!ExamplePack::is_pack(
            b"{\"tool\": \"a\", \"request\": \"b\"}"
        ));
    }
}
