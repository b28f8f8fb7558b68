//! The servers within the text of a file: found, shown without what may be secret, checked, and
//! replaced by the gateway's entry. Bytes outside the servers' object are never touched.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use anyhow::{anyhow, bail, ensure};
use jsonc_parser::ast::{Object, ObjectProp, Value as Node};
use jsonc_parser::{CollectOptions, ParseOptions};
use picktools_import::mcp;
use picktools_import::mcp::{McpConfigError, Surroundings};
use serde::Serialize;
use serde_json::{Value, json};

use super::places::{Client, GEMINI, Scope};

/// What the gateway's entry is called.
const ENTRY: &str = "picktools";
/// With which arguments the gateway is started, before the file of its servers.
const ARGUMENTS: [&str; 2] = ["mcp", "--config"];
/// Stands for the value of every variable: an address or a program, and never the value itself.
const ANY_VALUE: &str = "https://variable";

/// What the text of a file has to say of servers.
#[derive(Debug)]
pub(super) enum Found {
    /// There are none.
    Nothing,
    /// The gateway's entry stands alone.
    Gateway,
    Servers(Servers),
}

/// The servers of a file.
#[derive(Debug)]
pub(super) struct Servers {
    /// Where their object stands in the text.
    range: Range<usize>,
    pub(super) shown: Vec<Shown>,
    /// The variables that they ask for.
    pub(super) variables: BTreeSet<String>,
}

/// What is shown of a server: no argument, variable or header, of an address no more than the host,
/// and of a command that is a whole line no more than the program.
#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) name: String,
    /// The command or the address.
    pub(super) at: String,
    pub(super) disabled: bool,
}

/// Finds the servers of a client in the text of its file.
pub(super) fn find(
    text: &str,
    client: &Client,
    scope: Scope,
    upstreams: &Path,
) -> anyhow::Result<Found> {
    // Ranges are those of the text after the mark.
    let mark = text.len() - text.trim_start_matches('\u{feff}').len();
    let text = &text[mark..];
    ensure!(!text.trim().is_empty(), "it is empty");
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &strict())
        .map_err(|error| anyhow!("it is not JSON: {error}"))?;
    let Some(Node::Object(root)) = parsed.value else {
        bail!("it is not an object")
    };
    let mut members = root
        .properties
        .iter()
        .filter(|property| property.name.as_str() == client.member);
    let Some(member) = members.next() else {
        return Ok(Found::Nothing);
    };
    ensure!(
        members.next().is_none(),
        "`{}` stands twice; remove one of them",
        client.member
    );
    let Node::Object(servers) = &member.value else {
        bail!("`{}` is not an object", client.member)
    };
    if servers.properties.is_empty() {
        return Ok(Found::Nothing);
    }
    if servers.properties.iter().any(is_gateway) {
        let beside: Vec<_> = servers
            .properties
            .iter()
            .filter(|entry| !is_gateway(entry))
            .map(|entry| entry.name.as_str())
            .collect();
        if beside.is_empty() {
            return Ok(Found::Gateway);
        }
        let (names, file) = (beside.join(", "), upstreams.display());
        bail!(
            "beside picktools stand other servers ({names}); move them to {file}, or run with --undo first"
        );
    }
    let verbatim = &text[servers.range.start..servers.range.end];
    let variables = check(verbatim, client)?;
    if scope == Scope::User {
        servers
            .properties
            .iter()
            .try_for_each(|server| check_absolute(server, text))?;
    }
    Ok(Found::Servers(Servers {
        range: mark + servers.range.start..mark + servers.range.end,
        shown: servers.properties.iter().map(shown).collect(),
        variables,
    }))
}

impl Servers {
    /// The file that the gateway reads: the servers as they stand, comments and names of variables
    /// included.
    pub(super) fn upstreams(&self, text: &str, client: &Client) -> String {
        format!("{{\"{}\": {}}}\n", client.member, &text[self.range.clone()])
    }

    /// The client's file with the gateway's entry in place of the servers.
    pub(super) fn replaced(&self, text: &str, entry: &Value) -> String {
        let (before, servers, after) = (
            &text[..self.range.start],
            &text[self.range.clone()],
            &text[self.range.end..],
        );
        if !servers.contains('\n') {
            return format!("{before}{{\"{ENTRY}\": {entry}}}{after}");
        }
        let end = if servers.contains("\r\n") {
            "\r\n"
        } else {
            "\n"
        };
        let line = before.rsplit('\n').next().unwrap_or_default();
        let outer: String = line
            .chars()
            .take_while(|c| matches!(c, ' ' | '\t'))
            .collect();
        // A member of the file's own object stands one step in.
        let step = if outer.is_empty() { "  " } else { &outer };
        format!("{before}{{{end}{outer}{step}\"{ENTRY}\": {entry}{end}{outer}}}{after}")
    }
}

/// The gateway's entry.
pub(super) fn entry(client: &Client, program: &str, upstreams: &str) -> Value {
    let mut entry = json!({});
    if let Some((key, value)) = client.besides {
        entry[key] = json!(value);
    }
    entry["command"] = json!(program);
    entry["args"] = json!([ARGUMENTS[0], ARGUMENTS[1], upstreams]);
    entry
}

/// JSON as the library reads it from such files: comments and commas at ends, and nothing else.
fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_extended_string_escapes: false,
        allow_non_finite_numbers: false,
    }
}

fn is_gateway(entry: &ObjectProp<'_>) -> bool {
    let Node::Object(server) = &entry.value else {
        return false;
    };
    let Some(arguments) = server.get_array("args") else {
        return false;
    };
    let mut arguments = arguments
        .elements
        .iter()
        .map(|argument| argument.as_string_lit().map(|text| text.value.as_ref()));
    entry.name.as_str() == ENTRY
        && ARGUMENTS
            .iter()
            .all(|&one| arguments.next() == Some(Some(one)))
}

/// Fails where the gateway could not reach each server that the client reaches; returns the
/// variables they ask for.
fn check(servers: &str, client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let wanted = RefCell::new(BTreeSet::new());
    let variable = |name: &str| {
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| {
            wanted.borrow_mut().insert(name.to_owned());
            ANY_VALUE.to_owned()
        })
    };
    let surroundings = Surroundings {
        variable: &variable,
        folder: Path::new(""),
    };
    let read =
        mcp::read(&format!("{{\"mcpServers\": {servers}}}"), &surroundings).map_err(|error| {
            match error {
                McpConfigError::Syntax(error) => anyhow!("it is not JSON: {error}"),
                other => other.into(),
            }
        })?;
    if let Some(fault) = read.faults.first() {
        bail!("the gateway could not reach its server {fault}");
    }
    let is_dollar_name = |(at, _): (usize, &str)| {
        servers[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    if client.name == GEMINI.name && servers.match_indices('$').any(is_dollar_name) {
        bail!(
            "a variable is named as in $KEY, which only {} reads; write ${{KEY}}",
            client.title
        );
    }
    Ok(wanted.into_inner())
}

/// Fails where a server of a user's file would mean something else from the folder that it moves
/// to.
fn check_absolute(server: &ObjectProp<'_>, text: &str) -> anyhow::Result<()> {
    let Node::Object(members) = &server.value else {
        return Ok(());
    };
    let is_relative =
        |value: &str| !(Path::new(value).is_absolute() || value.starts_with(['~', '$', '/']));
    let value = |key| members.get_string(key).map(|text| text.value.as_ref());
    let within = &text[members.range.start..members.range.end];
    let what = if value("cwd").is_some_and(is_relative) {
        "`cwd`"
    } else if value("command")
        .is_some_and(|command| command.contains(['/', '\\']) && is_relative(command))
    {
        "`command`"
    } else if ["${workspaceFolder", "${workspaceRoot"]
        .iter()
        .any(|name| within.contains(name))
    {
        "`${workspaceFolder}`"
    } else {
        return Ok(());
    };
    bail!(
        "{}: {what} would mean another folder once it is moved; write an absolute path",
        server.name.as_str()
    );
}

fn shown(server: &ObjectProp<'_>) -> Shown {
    let name = server.name.as_str().to_owned();
    let Node::Object(members) = &server.value else {
        return Shown {
            name,
            at: String::new(),
            disabled: false,
        };
    };
    let text =
        |object: &Object<'_>, key: &str| object.get_string(key).map(|text| text.value.to_string());
    // Zed's older files have all of it within `command`.
    let command = text(members, "command")
        .or_else(|| {
            members
                .get_object("command")
                .and_then(|command| text(command, "path"))
        })
        .map(|command| program(&command));
    let address = || {
        ["url", "serverUrl", "httpUrl"]
            .into_iter()
            .find_map(|key| text(members, key))
    };
    let at = command
        .or_else(|| address().map(|address| host(&address)))
        .unwrap_or_default();
    let is = |key: &str, value: bool| {
        members
            .get_boolean(key)
            .is_some_and(|found| found.value == value)
    };
    Shown {
        name,
        at,
        disabled: is("disabled", true) || is("enabled", false),
    }
}

/// Some write the arguments into the command.
fn program(command: &str) -> String {
    match command.trim().split_once(char::is_whitespace) {
        Some((program, _)) => format!("{program} …"),
        None => command.trim().to_owned(),
    }
}

/// The scheme and host of an address: paths and queries hold keys.
fn host(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    // Of a name in braces no more than the name is told.
    let host = host.split(":-").next().unwrap_or_default();
    if scheme.is_empty() || scheme.contains(|c: char| !c.is_ascii_alphabetic()) {
        return "an address".to_owned();
    }
    format!("{scheme}://{host}")
}
