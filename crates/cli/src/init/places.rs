//! The locations of clients' configuration files, and of the files that `init` writes.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::Context;
use picktools_state::keys::hex;
use sha2::{Digest, Sha256};

use super::clients::{
    CLAUDE_CODE, CLAUDE_DESKTOP, CLINE, CODEX, COPILOT, CURSOR, ClientConfig, GEMINI, GOOSE,
    McpClient, Notation, OPENCODE, ROO, Scope, VS_CODE, WINDSURF, ZED,
};
use super::entry::{ENTRY, LOCAL_ENTRY, PROJECT_ENTRY, SECOND_ENTRY, SECOND_PROJECT_ENTRY};
use super::files::bounded_text;
use super::json_file::{PROJECTS, projects_with_servers};
/// The files of extensions, below VS Code's folder for them.
const CLINE_FILE: &str = "saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
const ROO_FILE: &str = "rooveterinaryinc.roo-cline/settings/mcp_settings.json";

/// The values of `--client`.
pub(super) const NAMES: [&str; 13] = [
    CLAUDE_DESKTOP.name,
    CLAUDE_CODE.name,
    CURSOR.name,
    VS_CODE.name,
    WINDSURF.name,
    ZED.name,
    GEMINI.name,
    COPILOT.name,
    CLINE.name,
    ROO.name,
    CODEX.name,
    OPENCODE.name,
    GOOSE.name,
];

/// Returns the possible files of these clients, or of all clients if none is named. Files of the
/// project in the working folder come after those of the user.
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
        inside: Vec::new(),
        entry: ENTRY,
        backups: None,
        roots: vec![home.clone(), config.clone()],
        upstreams: upstreams.join(format!("{}.{}", client.name, extension(client))),
        record: upstreams.join(format!("{}.init.json", client.name)),
        scope: Scope::User,
    };
    // Relative values of a project's file (a command, `cwd`, `${workspaceFolder}`) depend on the
    // folder, so its servers stay in the same folder.
    let project = |client: &'static McpClient, folder: &str, stem: &str| ClientConfig {
        client,
        file: working.join(folder).join(format!("{stem}.json")),
        inside: Vec::new(),
        entry: PROJECT_ENTRY,
        // A backup beside the file could be published with the project.
        backups: Some(upstreams.join("backups").join(digest(&working))),
        roots: vec![working.clone()],
        upstreams: working.join(folder).join(format!("{stem}.upstreams.json")),
        record: upstreams
            .join("backups")
            .join(digest(&working))
            .join(format!("{}.{stem}.init.json", client.name)),
        scope: Scope::Project,
    };
    let zed = if cfg!(target_os = "macos") {
        home.join(".config/zed")
    } else {
        config.join(zed_folder())
    };
    let extensions = config.join("Code/User/globalStorage");
    let xdg = absolute_variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let codex = absolute_variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
    let goose = match cfg!(windows) {
        true => config.join("Block/goose/config"),
        false => xdg.join("goose"),
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
        user(&COPILOT, home.join(".copilot/mcp-config.json")),
        user(&CLINE, extensions.join(CLINE_FILE)),
        user(&ROO, extensions.join(ROO_FILE)),
        user(&CODEX, codex.join("config.toml")),
        user(&OPENCODE, xdg.join("opencode/opencode.json")),
        project(&OPENCODE, "", "opencode"),
        user(&GOOSE, goose.join("config.yaml")),
    ];
    for place in &mut places {
        match place.client.name {
            _ if place.scope == Scope::Project => {}
            "codex" => place.roots.push(codex.clone()),
            "opencode" | "goose" => place.roots.push(xdg.clone()),
            _ => {}
        }
    }
    let second: Vec<_> = places.iter().filter_map(second_place).collect();
    places.extend(second);
    places.extend(local_places(&home.join(".claude.json"), &upstreams, &home));
    places.sort_by_key(|place| place.scope == Scope::Project);
    places
        .retain(|place| clients.is_empty() || clients.iter().any(|name| name == place.client.name));
    // In the home folder, the user's file and the project's file are the same.
    let at_home = same(&home, &working);
    places.retain(|place| {
        !(at_home && place.scope == Scope::Project && place.client.name == CURSOR.name)
    });
    Ok(places)
}

/// Returns the file `opencode.jsonc`, which opencode reads besides `opencode.json`.
fn second_place(place: &ClientConfig) -> Option<ClientConfig> {
    if place.client.name != OPENCODE.name {
        return None;
    }
    let entry = match (place.file.exists(), place.scope) {
        (false, _) => place.entry,
        (true, Scope::User) => SECOND_ENTRY,
        (true, Scope::Project) => SECOND_PROJECT_ENTRY,
    };
    let renamed = |path: &Path, from: &str, to: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.with_file_name(name.replacen(from, to, 1))
    };
    Some(ClientConfig {
        client: place.client,
        file: place.file.with_extension("jsonc"),
        inside: Vec::new(),
        entry,
        backups: place.backups.clone(),
        roots: place.roots.clone(),
        upstreams: renamed(&place.upstreams, "opencode", "opencode-jsonc"),
        record: renamed(&place.record, ".init", "-jsonc.init"),
        scope: place.scope,
    })
}

const fn extension(client: &McpClient) -> &'static str {
    match client.notation {
        Notation::Json => "json",
        Notation::Toml => "toml",
        Notation::Yaml => "yaml",
    }
}

/// Returns the path of an environment variable, if it is absolute.
fn absolute_variable(name: &str) -> Option<PathBuf> {
    let path = env::var_os(name).map(PathBuf::from);
    path.filter(|path| path.is_absolute())
}

/// Returns the parts of Claude Code's file that hold for one project each. An unreadable file is
/// reported for its other part.
fn local_places(file: &Path, upstreams: &Path, home: &Path) -> Vec<ClientConfig> {
    let projects = bounded_text(file).and_then(|text| projects_with_servers(&text).ok());
    let mut places = Vec::new();
    for project in projects.unwrap_or_default() {
        let stem = format!("claude-code.local-{}", digest(Path::new(&project)));
        places.push(ClientConfig {
            client: &CLAUDE_CODE,
            file: file.to_owned(),
            inside: vec![PROJECTS.to_owned(), project],
            entry: LOCAL_ENTRY,
            backups: None,
            roots: vec![home.to_owned()],
            upstreams: upstreams.join(format!("{stem}.json")),
            record: upstreams.join(format!("{stem}.init.json")),
            scope: Scope::User,
        });
    }
    places
}

/// Returns a short digest of a path, for the name of a file.
fn digest(path: &Path) -> String {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    hex(&digest[..6])
}

fn same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

const fn zed_folder() -> &'static str {
    if cfg!(windows) { "Zed" } else { "zed" }
}

/// Returns the system's folder for configuration files.
fn config_dir(home: &Path) -> PathBuf {
    if cfg!(windows) {
        absolute_variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming"))
    } else if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else {
        absolute_variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"))
    }
}
