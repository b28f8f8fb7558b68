//! Where clients of MCP servers keep their configuration, and where what moves out of it goes.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A program that is configured with MCP servers.
#[derive(Debug)]
pub(super) struct Client {
    /// What `--client` calls it.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Under which member of its file the servers stand.
    pub(super) member: &'static str,
    /// What an entry has beside the command.
    pub(super) besides: Option<(&'static str, &'static str)>,
}

const CLAUDE_DESKTOP: Client = client("claude-desktop", "Claude Desktop");
const CLAUDE_CODE: Client = client("claude-code", "Claude Code");
const CURSOR: Client = client("cursor", "Cursor");
const VS_CODE: Client = Client {
    name: "vscode",
    title: "VS Code",
    member: "servers",
    besides: Some(("type", "stdio")),
};
const WINDSURF: Client = client("windsurf", "Windsurf");
const ZED: Client = Client {
    name: "zed",
    title: "Zed",
    member: "context_servers",
    besides: Some(("source", "custom")),
};
pub(super) const GEMINI: Client = client("gemini", "Gemini CLI");

/// What `--client` takes.
pub(super) const NAMES: [&str; 7] = [
    CLAUDE_DESKTOP.name,
    CLAUDE_CODE.name,
    CURSOR.name,
    VS_CODE.name,
    WINDSURF.name,
    ZED.name,
    GEMINI.name,
];

const fn client(name: &'static str, title: &'static str) -> Client {
    Client {
        name,
        title,
        member: "mcpServers",
        besides: None,
    }
}

/// A file that a client may have.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) client: &'static Client,
    pub(super) file: PathBuf,
    /// What a link may not lead out of.
    pub(super) roots: Vec<PathBuf>,
    /// Where its servers go.
    pub(super) upstreams: PathBuf,
    /// What was written, for `--undo`.
    pub(super) record: PathBuf,
    pub(super) scope: Scope,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    User,
    Project,
}

/// Returns the files of these clients, of all where none is named, whether or not they are there.
pub(super) fn places(clients: &[String]) -> anyhow::Result<Vec<Place>> {
    let home = env::home_dir()
        .filter(|home| home.is_absolute())
        .context("there is no home folder; set HOME")?;
    let working = env::current_dir().context("there is no working folder")?;
    let config = config_dir(&home);
    let upstreams = crate::args::data_dir()?.join("upstreams");
    let user = |client: &'static Client, file: PathBuf| Place {
        client,
        file,
        roots: vec![home.clone(), config.clone()],
        upstreams: upstreams.join(format!("{}.json", client.name)),
        record: upstreams.join(format!("{}.init.json", client.name)),
        scope: Scope::User,
    };
    // What is relative in a project's file (a command, `cwd`, `${workspaceFolder}`) would mean
    // something else from another folder, so its servers stay beside it.
    let project = |client: &'static Client, folder: &str, stem: &str| Place {
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
    // In the home folder the user's file is the project's as well.
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

/// The folder of the system that programs keep their configuration in.
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
