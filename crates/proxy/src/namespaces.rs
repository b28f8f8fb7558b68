//! The namespaces in tool names: they distinguish a client's own tools from those of servers.

use std::collections::HashMap;

/// A form of names with a namespace. A name has the first form of [`NameForm::ALL`] that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NameForm {
    /// `mcp__server__tool`.
    McpPrefix,
    /// `server__tool`.
    DoubleUnderscore,
    /// `mcp_server_tool`.
    McpWord,
    /// `tool_mcp_server`.
    McpInfix,
    /// `server/tool`.
    Slash,
    /// `server.tool`.
    Dot,
    /// `server:tool`.
    Colon,
}

/// The least number of tools of one namespace. One name with a separator is not a namespace.
const MIN_TOOLS: usize = 2;
/// The largest number of tools for each name with a punctuation mark. Such marks also occur in
/// names without a namespace.
const MAX_TOOLS_PER_MARK: usize = 10;

impl NameForm {
    const ALL: [Self; 7] = [
        Self::McpPrefix,
        Self::DoubleUnderscore,
        Self::McpWord,
        Self::McpInfix,
        Self::Slash,
        Self::Dot,
        Self::Colon,
    ];

    /// Returns the form of a name, with its namespace.
    fn parse(name: &str) -> Option<(Self, &str)> {
        Self::ALL
            .into_iter()
            .find_map(|form| Some((form, form.namespace(name)?)))
    }

    /// Returns the namespace of a name of this form.
    fn namespace(self, name: &str) -> Option<&str> {
        let (namespace, tool) = match self {
            Self::McpPrefix => {
                let rest = strip_prefix_ignoring_case(name, "mcp__")?;
                // Without a server, the prefix alone is the namespace.
                rest.split_once("__").unwrap_or((&name[..3], rest))
            }
            Self::DoubleUnderscore => name.split_once("__")?,
            Self::McpWord => strip_prefix_ignoring_case(name, "mcp_")?.split_once('_')?,
            Self::McpInfix => {
                let (tool, server) = name.rsplit_once("_mcp_")?;
                (server, tool)
            }
            Self::Slash => name.split_once('/')?,
            Self::Dot => name.split_once('.')?,
            Self::Colon => name.split_once(':')?,
        };
        // Clients replace the letters of other scripts, so a tool may consist of `_` alone.
        let has_letters = namespace.contains(char::is_alphanumeric);
        (has_letters && !tool.is_empty()).then_some(namespace)
    }

    fn is_punctuation(self) -> bool {
        matches!(self, Self::Slash | Self::Dot | Self::Colon)
    }
}

/// Returns the rest of a text after an ASCII prefix in any case.
fn strip_prefix_ignoring_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The forms in which a list of tools gives namespaces.
#[derive(Debug, Default)]
pub(crate) struct NamespaceForms(Vec<NameForm>);

impl NamespaceForms {
    /// Detects the forms in the names of a list.
    ///
    /// `mcp__` always counts. Any other form counts if two tools share a namespace. A punctuation
    /// mark must also be in a tenth of the names, so that a few odd names decide nothing.
    pub(crate) fn detect<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        let mut total = 0;
        let mut namespaces: HashMap<(NameForm, &str), usize> = HashMap::new();
        let mut uses: HashMap<NameForm, usize> = HashMap::new();
        for name in names {
            total += 1;
            if let Some((form, namespace)) = NameForm::parse(name) {
                *namespaces.entry((form, namespace)).or_default() += 1;
                *uses.entry(form).or_default() += 1;
            }
        }
        let mut forms = Vec::new();
        for form in NameForm::ALL {
            let Some(&used) = uses.get(&form) else {
                continue;
            };
            let is_shared = namespaces
                .iter()
                .any(|(&(other, _), &tools)| other == form && tools >= MIN_TOOLS);
            let is_frequent = !form.is_punctuation() || used * MAX_TOOLS_PER_MARK >= total;
            if form == NameForm::McpPrefix || (is_shared && is_frequent) {
                forms.push(form);
            }
        }
        Self(forms)
    }

    /// Returns `true` for a tool of the client itself: its name has no namespace, although the list
    /// has namespaces.
    pub(crate) fn is_host_tool(&self, name: &str) -> bool {
        let has_namespace = NameForm::parse(name).is_some_and(|(form, _)| self.0.contains(&form));
        !self.0.is_empty() && !has_namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_tools(names: &[&str]) -> Vec<String> {
        let forms = NamespaceForms::detect(names.iter().copied());
        let is_host = |name: &&&str| forms.is_host_tool(name);
        names
            .iter()
            .filter(is_host)
            .map(|&name| name.to_owned())
            .collect()
    }

    #[test]
    fn names_without_namespace_are_host_tools_for_each_form() {
        for names in [
            ["mcp__git__log", "mcp__git__add"],
            ["mcp__log", "MCP__git__add"],
            ["git__log", "git__add"],
            ["mcp_git_log", "mcp_git_add"],
            ["log_mcp_git", "add_mcp_git"],
            ["git/log", "git/add"],
            ["git.log", "git.add"],
            ["git:log", "git:add"],
        ] {
            let names = [names[0], "Bash", "read_file", names[1], "web-search"];
            assert_eq!(
                host_tools(&names),
                ["Bash", "read_file", "web-search"],
                "{names:?}"
            );
        }
    }

    #[test]
    fn all_forms_of_a_mixed_list_count() {
        let names = [
            "git__log",
            "git__add",
            "mail/send",
            "mail/list",
            "sky.now",
            "sky.week",
            "Bash",
        ];
        assert_eq!(host_tools(&names), ["Bash"]);
    }

    #[test]
    fn list_with_one_kind_of_names_has_no_host_tools() {
        assert!(host_tools(&["git__log", "git__add", "sky__now"]).is_empty());
        assert!(host_tools(&["git_log", "git-add", "readFile", "Bash"]).is_empty());
        assert!(host_tools(&[]).is_empty());
    }

    #[test]
    fn odd_names_among_plain_ones_are_no_namespaces() {
        let plain: Vec<String> = (0..300).map(|number| format!("tool_{number}")).collect();
        for odd in [
            &["users.list"][..],
            &["v1.get", "v1.set"],
            &["a/b", "c/d", "e:f"],
            &["user__name"],
            &[
                "__init__", "__main__", "a__", "__", "mcp__", "mcp_", "_mcp_", ".", "/x", "y:",
            ],
            &["mcp_reload", "mcp_status"],
        ] {
            let mut names: Vec<&str> = plain.iter().map(String::as_str).collect();
            names.extend(odd);
            assert!(host_tools(&names).is_empty(), "{odd:?}");
        }
    }

    #[test]
    fn odd_name_beside_namespaces_is_a_host_tool() {
        let names = [
            "mcp__git__log",
            "mcp__git__add",
            "computer__click",
            "browser.open",
            "é__",
        ];
        assert_eq!(
            host_tools(&names),
            ["computer__click", "browser.open", "é__"]
        );
    }
}
