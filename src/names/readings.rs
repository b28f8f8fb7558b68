//! Readings of a name as models write it: with a server, and with affixes.

use super::NameTable;
use super::resolution::{Resolution, ResolvedTool, ResolvedVia};
use super::scope::NameScope;
use crate::catalog::spelling::normalise;
use crate::ranking::ToolId;
use crate::saved::SavedError;

/// The separators between a server and its tool, as models and clients write them.
const SEPARATORS: [&str; 6] = ["__", "/", ".", ":", "-", "_"];
/// The word that clients write in front of a server's name.
const CLIENT_PREFIX: &str = "mcp";
/// The words that models write in front of a tool's name.
const PREFIXES: [&str; 6] = [
    "functions",
    "function",
    "default_api",
    "tools",
    "tool",
    "assistant",
];
/// The separators after such a word.
const PREFIX_SEPARATORS: [char; 3] = ['.', ':', '/'];
/// The most such words that are removed from one name.
const MAX_PREFIXES: usize = 2;
/// The most positions in a name that are tried as the end of its server.
const MAX_SPLITS: usize = 48;

/// The tools of one form of a name.
struct FoundTools {
    tools: Vec<ResolvedTool>,
    /// `true` if the model saw exactly this form, or it is the tool's id.
    is_exact: bool,
}

impl NameTable {
    /// Resolves a name in a scope. The order is: a shown name or an id; a name with its server,
    /// with any separator; a name or an alias, first exactly, then in a variant spelling. If the
    /// name means nothing, the affixes that models add are removed and the rest is resolved.
    ///
    /// # Errors
    ///
    /// [`SavedError`] if the definition of a tool cannot be read.
    pub fn resolve_in(&self, name: &str, scope: &NameScope<'_>) -> Result<Resolution, SavedError> {
        if let Some(tool) = self.resolve_seen(name, scope)? {
            return Ok(Resolution::Tool(tool));
        }
        let forms = name_forms(name);
        for (index, form) in forms.iter().enumerate() {
            let FoundTools {
                mut tools,
                is_exact,
            } = self.read(form, scope)?;
            if !is_exact || index > 0 {
                for tool in &mut tools {
                    tool.via = ResolvedVia::Normalised;
                }
            }
            match tools[..] {
                [] => {}
                [tool] => return Ok(Resolution::Tool(tool)),
                _ => {
                    let tools = tools.iter().map(|found| found.tool);
                    return Ok(Resolution::Ambiguous(tools.collect()));
                }
            }
        }
        let bare = forms.last().copied().unwrap_or(name);
        Ok(Resolution::Unknown {
            suggestions: self.suggest(bare, scope.may_suggest),
        })
    }

    /// Finds the tool that the model saw under exactly a name, which is the usual case.
    fn resolve_seen(
        &self,
        name: &str,
        scope: &NameScope<'_>,
    ) -> Result<Option<ResolvedTool>, SavedError> {
        if let Some(shown) = scope.shown {
            return Ok(shown(name).map(advertised));
        }
        let Some(&[tool]) = self.tools.get(name) else {
            return Ok(None);
        };
        let is_trusted = !scope.is_untrusted(tool)?;
        Ok((is_trusted && (scope.may_mean)(tool.tool)).then_some(tool))
    }

    /// Finds the tools of one form of a name.
    fn read(&self, form: &str, scope: &NameScope<'_>) -> Result<FoundTools, SavedError> {
        let exact = |tools| FoundTools {
            tools,
            is_exact: true,
        };
        if let Some(tool) = scope.shown.and_then(|shown| shown(form)) {
            return Ok(exact(vec![advertised(tool)]));
        }
        let has_name = self.tools.get(form).is_some();
        let mut plain = self.owners(form).to_vec();
        plain.retain(|owner| (scope.may_mean)(owner.tool));
        if has_name {
            for owner in &plain {
                if scope.has_id(owner.tool, form)? {
                    return Ok(exact(plain));
                }
            }
        }
        let qualified = self.qualified_readings(form, scope);
        let ([reading], [first, ..]) = (&qualified[..], &plain[..]) else {
            return Ok(match qualified.is_empty() {
                true if plain.is_empty() => self.read_behind_client(form, scope),
                true => FoundTools {
                    tools: plain,
                    is_exact: has_name,
                },
                false => FoundTools {
                    tools: qualified,
                    is_exact: false,
                },
            });
        };
        let source = |found: &ResolvedTool| scope.catalog.source(found.tool);
        let is_same = plain.len() == 1 && source(first) == source(reading);
        // A model that saw canonical names means the canonical name. An untrusted tool gets no
        // calls that name a trusted server.
        let is_seen = scope.shown.is_none() && has_name;
        let is_untrusted = !is_same && scope.is_untrusted(*reading)?;
        if is_same || (is_seen && (is_untrusted || scope.count_untrusted(&plain)? == 0)) {
            return Ok(FoundTools {
                tools: plain,
                is_exact: has_name,
            });
        }
        let mut tools = qualified;
        if is_untrusted && scope.count_untrusted(&plain)? < plain.len() {
            tools.append(&mut plain);
        }
        Ok(FoundTools {
            tools,
            is_exact: false,
        })
    }

    /// Finds the tools that a name means if it begins with their server.
    pub(super) fn qualified_readings(
        &self,
        form: &str,
        scope: &NameScope<'_>,
    ) -> Vec<ResolvedTool> {
        let mut readings: Vec<ResolvedTool> = Vec::new();
        let mut add = |server: &str, tool: &str| {
            let server_name = normalise(server);
            for owner in self.owners(&format!("{server}/{tool}")) {
                let source = scope.catalog.source(owner.tool).map(normalise);
                let is_of_server = source.is_some_and(|source| source == server_name);
                let is_new = readings.iter().all(|other| other.tool != owner.tool);
                if is_of_server && is_new && (scope.may_mean)(owner.tool) {
                    readings.push(*owner);
                }
            }
        };
        for (at, separator) in splits(form, &SEPARATORS) {
            add(&form[..at], &form[at + separator.len()..]);
        }
        if let Some((rest, separator)) = without_client_prefix(form) {
            for (at, separator) in splits(rest, &[separator]) {
                add(&rest[..at], &rest[at + separator.len()..]);
            }
        }
        readings.sort_by_key(|reading| reading.tool);
        readings
    }

    /// Finds the tool of a name such as `mcp__client__shown_name`, in which the server is the
    /// client's name for picktools. What follows must be a shown name or have its own server.
    fn read_behind_client(&self, form: &str, scope: &NameScope<'_>) -> FoundTools {
        let none = FoundTools {
            tools: Vec::new(),
            is_exact: false,
        };
        let Some((rest, "__")) = without_client_prefix(form) else {
            return none;
        };
        let Some((_, rest)) = rest.split_once("__").filter(|(_, rest)| !rest.is_empty()) else {
            return none;
        };
        let shown = scope.shown.filter(|_| scope.has_client_prefix);
        let shown = shown.and_then(|shown| shown(rest));
        let tools = match shown {
            Some(tool) => vec![advertised(tool)],
            None => self.qualified_readings(rest, scope),
        };
        FoundTools {
            tools,
            is_exact: false,
        }
    }
}

fn advertised(tool: ToolId) -> ResolvedTool {
    ResolvedTool {
        tool,
        via: ResolvedVia::Advertised,
        deprecated: false,
    }
}

/// Returns the forms of a name: as it is, without the suffix of a model, and without its prefixes.
pub fn name_forms(name: &str) -> Vec<&str> {
    let name = name.trim();
    let mut forms = vec![name];
    let without_suffix = without_suffix(name);
    let mut bare = without_suffix;
    for _ in 0..MAX_PREFIXES {
        let prefixes = PREFIXES.iter();
        let Some(rest) = prefixes
            .filter_map(|prefix| after_prefix(bare, prefix))
            .next()
        else {
            break;
        };
        bare = rest;
    }
    for form in [without_suffix, bare] {
        if !form.is_empty() && !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Removes what some models write after a name: a control token, and the number of the call.
fn without_suffix(name: &str) -> &str {
    let name = name.split("<|").next().unwrap_or(name).trim_end();
    match name.rsplit_once(':') {
        Some((rest, number)) if is_number(number) && !rest.is_empty() => rest,
        _ => name,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns what follows a prefix and its separator.
fn after_prefix<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let start = name.get(..prefix.len())?;
    let rest = name[prefix.len()..].strip_prefix(PREFIX_SEPARATORS)?;
    (start.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then_some(rest)
}

/// Removes `mcp` and the separator after it, which also separates the server from the tool.
fn without_client_prefix(name: &str) -> Option<(&str, &'static str)> {
    let start = name.get(..CLIENT_PREFIX.len())?;
    if !start.eq_ignore_ascii_case(CLIENT_PREFIX) {
        return None;
    }
    let rest = &name[CLIENT_PREFIX.len()..];
    let separator = SEPARATORS
        .iter()
        .find(|separator| rest.starts_with(**separator))?;
    Some((&rest[separator.len()..], separator))
}

/// Returns the places at which a name may be split in two parts that are not empty.
fn splits<'s>(name: &str, separators: &[&'s str]) -> Vec<(usize, &'s str)> {
    let mut splits = Vec::new();
    for &separator in separators {
        for (at, _) in name.match_indices(separator) {
            if at > 0 && at + separator.len() < name.len() {
                splits.push((at, separator));
            }
        }
    }
    splits.truncate(MAX_SPLITS);
    splits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, Tool};

    fn tool(id: &str) -> Tool {
        let (source, name) = id.split_once('/').expect("source/name");
        let mut tool = Tool::without_arguments(name, "");
        (tool.source, tool.id) = (Some(source.to_owned()), id.to_owned());
        tool
    }

    fn untrusted(id: &str) -> Tool {
        let mut tool = tool(id);
        tool.untrusted = true;
        tool
    }

    /// Returns the id of the resolved tool, the ids of several tools, or the suggestions after `?`.
    fn resolve(tools: &[Tool], name: &str) -> String {
        let catalog = Catalog::from_tools(tools.to_vec()).expect("valid");
        let id = |tool: &ToolId| catalog.tool_id(*tool).to_owned();
        let names = NameTable::new(&catalog).expect("in memory");
        match names.resolve(name, &catalog).expect("in memory") {
            Resolution::Tool(resolved) => id(&resolved.tool),
            Resolution::Ambiguous(tools) => tools.iter().map(id).collect::<Vec<_>>().join(","),
            Resolution::Unknown { suggestions } => format!("?{}", suggestions.join(",")),
        }
    }

    #[test]
    fn server_and_affixes_of_a_name_are_understood() {
        let tools = [
            "weather/get_weather",
            "files/read",
            "github/create_issue",
            "jira/create_issue",
            "my-server/list_all",
            "tools/list",
        ]
        .map(tool);
        for (name, expected) in [
            ("mcp__weather__get_weather", "weather/get_weather"),
            ("mcp_github_create_issue", "github/create_issue"),
            ("mcp.github.create_issue", "github/create_issue"),
            ("MCP__GitHub__createIssue", "github/create_issue"),
            ("github__create_issue", "github/create_issue"),
            ("github.create_issue", "github/create_issue"),
            ("github-create_issue", "github/create_issue"),
            ("github:create-issue", "github/create_issue"),
            ("github_create_issue", "github/create_issue"),
            ("functions.github__create_issue:3", "github/create_issue"),
            ("mcp__client__github__create_issue", "github/create_issue"),
            ("my_server__listAll", "my-server/list_all"),
            ("functions.get_weather", "weather/get_weather"),
            ("functions/get_weather", "weather/get_weather"),
            ("functions.read:0", "files/read"),
            ("Functions.read", "files/read"),
            ("default_api:get_weather", "weather/get_weather"),
            ("tool:get_weather", "weather/get_weather"),
            ("assistant.functions.get_weather", "weather/get_weather"),
            ("get_weather<|channel|>commentary", "weather/get_weather"),
            ("functions.getWeather<|channel|>json", "weather/get_weather"),
            ("tools.list", "tools/list"),
            (
                "functions.create_issue",
                "github/create_issue,jira/create_issue",
            ),
            ("functions.get_wether", "?get_weather"),
            ("mcp_github-create_issue", "?github/create_issue"),
            ("mcp__other__get_weather", "?get_weather"),
            ("get_weather({})x", "?get_weather"),
            ("functions.", "?"),
            (":0", "?"),
            ("<|channel|>", "?"),
            ("mcp__", "?"),
        ] {
            let resolved = resolve(&tools, name);
            let is_unknown = expected.starts_with('?') && resolved.starts_with('?');
            assert!(resolved == expected || is_unknown, "{name}: {resolved}");
        }
    }

    #[test]
    fn untrusted_tool_gets_no_calls_of_a_trusted_server() {
        for (tools, name, expected) in [
            // The untrusted server has the name of a trusted server and its tool.
            (
                vec![tool("git/log"), untrusted("evil/git__log")],
                "git__log",
                "git/log",
            ),
            (
                vec![tool("git/log"), untrusted("evil/git_log")],
                "git_log",
                "git/log",
            ),
            // The untrusted server is named like the start of a trusted tool.
            (
                vec![tool("vcs/git_log"), untrusted("git/log")],
                "git_log",
                "vcs/git_log",
            ),
            (
                vec![tool("vcs/git_log"), untrusted("git/log")],
                "gitLog",
                "vcs/git_log",
            ),
            (
                vec![tool("vcs/git_log"), untrusted("git/log")],
                "git-log",
                "git/log,vcs/git_log",
            ),
            // Two servers can be read from one name.
            (vec![tool("a/b_c"), tool("a_b/c")], "a_b_c", "a/b_c,a_b/c"),
            (
                vec![tool("a/log"), untrusted("evil/log")],
                "functions.log",
                "a/log",
            ),
            (vec![untrusted("evil/bash")], "functions.bash", "?"),
            (vec![untrusted("evil/bash")], "evil__bash", "evil/bash"),
        ] {
            let resolved = resolve(&tools, name);
            let is_unknown = expected == "?" && resolved.starts_with('?');
            let is_same = is_unknown
                || resolved
                    .split(',')
                    .all(|id| expected.split(',').any(|e| e == id));
            assert!(is_same, "{name}: {resolved}");
        }
    }
}
