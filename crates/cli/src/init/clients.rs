//! The clients, and the parts of their files that contain servers.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};

/// The notation of a client's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    /// JSON with comments.
    Json,
    Toml,
    /// Read, but not edited.
    Yaml,
}

/// The value of a member of the gateway's entry.
#[derive(Debug, Clone, Copy)]
pub(super) enum MemberValue {
    Text(&'static str),
    Texts(&'static [&'static str]),
    True,
}

impl MemberValue {
    pub(super) fn to_json(self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Texts(texts) => json!(texts),
            Self::True => json!(true),
        }
    }
}

/// A program that is configured with MCP servers.
#[derive(Debug)]
pub(super) struct McpClient {
    /// The value for `--client`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The way to let it read its file again.
    pub(super) restart: &'static str,
    pub(super) notation: Notation,
    /// The member of its file that contains the servers.
    pub(super) member: &'static str,
    /// The member inside that one with the servers, in files of some versions.
    pub(super) nested_member: Option<&'static str>,
    /// The members that an entry has in addition to the command, such as those that keep the tools
    /// of the gateway from being deferred.
    pub(super) extra_members: &'static [(&'static str, MemberValue)],
    /// `true` if the program and its arguments are one list.
    pub(super) has_command_list: bool,
}

pub(super) const CLAUDE_DESKTOP: McpClient = McpClient {
    restart: "quit it completely and open it again",
    ..client("claude-desktop", "Claude Desktop")
};

pub(super) const CLAUDE_CODE: McpClient = McpClient {
    extra_members: &[("alwaysLoad", MemberValue::True)],
    ..client("claude-code", "Claude Code")
};

pub(super) const CURSOR: McpClient = McpClient {
    restart: "quit it and open it again",
    ..client("cursor", "Cursor")
};

pub(super) const VS_CODE: McpClient = McpClient {
    restart: RELOAD_WINDOW,
    member: "servers",
    extra_members: &[("type", MemberValue::Text("stdio"))],
    ..client("vscode", "VS Code")
};

pub(super) const WINDSURF: McpClient = McpClient {
    restart: "quit it and open it again",
    ..client("windsurf", "Windsurf")
};

pub(super) const ZED: McpClient = McpClient {
    restart: "quit it and open it again",
    member: "context_servers",
    extra_members: &[("source", MemberValue::Text("custom"))],
    ..client("zed", "Zed")
};

pub(super) const GEMINI: McpClient = client("gemini", "Gemini CLI");
pub(super) const COPILOT: McpClient = McpClient {
    extra_members: &[
        ("type", MemberValue::Text("local")),
        ("tools", MemberValue::Texts(&["*"])),
        ("deferTools", MemberValue::Text("never")),
    ],
    ..client("copilot", "Copilot CLI")
};

pub(super) const CLINE: McpClient = McpClient {
    restart: RELOAD_WINDOW,
    ..client("cline", "Cline")
};

pub(super) const ROO: McpClient = McpClient {
    restart: RELOAD_WINDOW,
    ..client("roo", "Roo Code")
};

pub(super) const CODEX: McpClient = McpClient {
    notation: Notation::Toml,
    member: "mcp_servers",
    ..client("codex", "Codex")
};

pub(super) const OPENCODE: McpClient = McpClient {
    member: "mcp",
    nested_member: Some("servers"),
    extra_members: &[("type", MemberValue::Text("local"))],
    has_command_list: true,
    ..client("opencode", "opencode")
};

pub(super) const GOOSE: McpClient = McpClient {
    notation: Notation::Yaml,
    member: "extensions",
    ..client("goose", "Goose")
};

pub(super) const RELOAD_WINDOW: &str = "run `Developer: Reload Window` in VS Code";

/// The place of the servers in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServersPlace<'a> {
    pub(super) client: &'static McpClient,
    /// The members of the file that lead to the object with the servers' member.
    pub(super) inside: &'a [String],
}

/// A configuration file that a client may have.
#[derive(Debug)]
pub(super) struct ClientConfig {
    pub(super) client: &'static McpClient,
    pub(super) file: PathBuf,
    /// The members of the file that lead to the object with the servers' member.
    pub(super) inside: Vec<String>,
    /// The name of the gateway's entry.
    pub(super) entry: &'static str,
    /// The folder of backups; `None` for the folder of the file.
    pub(super) backups: Option<PathBuf>,
    /// The folders that a link must not leave.
    pub(super) roots: Vec<PathBuf>,
    /// The file to which its servers move.
    pub(super) upstreams: PathBuf,
    /// The record of the written file, for `--undo`.
    pub(super) record: PathBuf,
    pub(super) scope: Scope,
}

impl ClientConfig {
    pub(super) fn servers(&self) -> ServersPlace<'_> {
        ServersPlace {
            client: self.client,
            inside: &self.inside,
        }
    }

    /// Returns the gateway's program and the path of its configuration, as the client's file names
    /// them. A project's file may be used on other machines, so it has no paths of this one.
    pub(super) fn gateway_command<'a>(
        &'a self,
        program: &'a str,
    ) -> anyhow::Result<(&'a str, Cow<'a, str>)> {
        let path = self
            .upstreams
            .to_str()
            .context("the path of its upstreams file is not valid UTF-8")?;
        if self.scope == Scope::User {
            return Ok((program, Cow::Borrowed(path)));
        }
        let name = self.upstreams.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        let path = match self.client.name {
            "cursor" => format!("${{workspaceFolder}}/.cursor/{name}"),
            "vscode" => format!("${{workspaceFolder}}/.vscode/{name}"),
            // The client starts programs in the folder of the file (opencode: in that of the
            // project).
            _ => name.into_owned(),
        };
        Ok(("picktools", Cow::Owned(path)))
    }
}

/// The owner of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    User,
    Project,
}

pub(super) const fn client(name: &'static str, title: &'static str) -> McpClient {
    McpClient {
        name,
        title,
        restart: "start a new session",
        notation: Notation::Json,
        member: "mcpServers",
        nested_member: None,
        extra_members: &[],
        has_command_list: false,
    }
}
