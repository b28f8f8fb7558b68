//! The locations of clients' configuration files, and of the files that `init` writes.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A program that is configured with MCP servers.
#[derive(Debug)]
pub(super) struct McpClient {
    /// The value for `--client`.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The member of its file that contains the servers.
    pub(super) member: &'static str,
    /// A member that an entry needs in addition to the command.
    pub(super) extra_member: Option<(&'static str, &'static str)>,
}

const CLAUDE_DESKTOP: McpClient = client("claude-desktop", "Claude Desktop");
const CLAUDE_CODE: McpClient = client("claude-code", "Claude Code");
const CURSOR: McpClient = client("cursor", "Cursor");
const VS_CODE: McpClient = McpClient {
    name: "vscode",
    title: "VS Code",
    member: "servers",
    extra_member: Some(("type", "stdio")),
};
const WINDSURF: McpClient = client("windsurf", "Windsurf");
const ZED: McpClient = McpClient {
    name: "zed",
    title: "Zed",
    member: "context_servers",
    extra_member: Some(("source", "custom")),
};
pub(super) const GEMINI: McpClient = client("gemini", "Gemini CLI");

/// The values of `--client`.
pub(super) const NAMES: [&str; 7] = [
    CLAUDE_DESKTOP.name,
    CLAUDE_CODE.name,
    CURSOR.name,
    VS_CODE.name,
    WINDSURF.name,
    ZED.name,
    GEMINI.name,
];

const fn client(name: &'static str, title: &'static str) -> McpClient {
    McpClient {
        name,
        title,
        member: "mcpServers",
        extra_member: None,
    }
}

/// A configuration file that a client may have.
#[derive(Debug)]
pub(super) struct ClientConfig {
    pub(super) client: &'static McpClient,
    pub(super) file: PathBuf,
    /// The folders that a link must not leave.
    pub(super) roots: Vec<PathBuf>,
    /// The file to which its servers move.
    pub(super) upstreams: PathBuf,
    /// The record of the written file, for `--undo`.
    pub(super) record: PathBuf,
    pub(super) scope: Scope,
}

/// The owner of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    User,
    Project,
}

/// Returns the possible files of these clients, or of all clients if none is named.
pub(super) fn places(clients: &[String]) -> anyhow::Result<Vec<ClientConfig>> {
    let home = env::home_dir()
        .filter(|home| home.is_absolute())
        .context("no home folder found; set HOME")?;
    let working = env::current_dir().context("the working folder does not exist")?;
    let config = config_dir(&home);
    let upstreams = crate::args::data_dir()?.join("upstreams");
    let user = |client: &'static McpClient, file: PathBuf| ClientConfig {
        client,
        file,
        roots: vec![home.clone(), config.clone()],
        upstreams: upstreams.join(format!("{}.json", client.name)),
        record: upstreams.join(format!("{}.init.json", client.name)),
        scope: Scope::User,
    };
    // Relative values of a project's file (a command, `cwd`, `${workspaceFolder}`) depend on the
    // folder, so its servers stay in the same folder.
    let project = |client: &'static McpClient, folder: &str, stem: &str| ClientConfig {
        client,
        file: working.join(folder).join(format!("{stem}.json")),
        roots: vec![working.clone()],
        upstreams: working.join(folder).join(format!("{stem}.upstreams.json")),
        record: working.join(folder).join(format!("{stem}.init.json")),
        scope: Scope::Project,
    };
    let zed = if cfg!(target_os = "macos") {
        home.join(".config/zed")
    } else {
        config.join(zed_folder())
    };
    let mut places = vec![
        user(
            &CLAUDE_DESKTOP,
            config.join("Claude/claude_desktop_config.json"),
        ),
        user(&CLAUDE_CODE, home.join(".claude.json")),
        project(&CLAUDE_CODE, "", ".mcp"),
        user(&CURSOR, home.join(".cursor/mcp.json")),
        project(&CURSOR, ".cursor", "mcp"),
        user(&VS_CODE, config.join("Code/User/mcp.json")),
        project(&VS_CODE, ".vscode", "mcp"),
        user(&WINDSURF, home.join(".codeium/windsurf/mcp_config.json")),
        user(&ZED, zed.join("settings.json")),
        user(&GEMINI, home.join(".gemini/settings.json")),
    ];
    places
        .retain(|place| clients.is_empty() || clients.iter().any(|name| name == place.client.name));
    // In the home folder, the user's file and the project's file are the same.
    let at_home = same(&home, &working);
    places.retain(|place| {
        !(at_home && place.scope == Scope::Project && place.client.name == CURSOR.name)
    });
    Ok(places)
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

const fn zed_folder() -> &'static str {
    if cfg!(windows) { "Zed" } else { "zed" }
}

/// Returns the system's folder for configuration files.
fn config_dir(home: &Path) -> PathBuf {
    let variable = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    if cfg!(windows) {
        variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming"))
    } else if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else {
        variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
    }
}
