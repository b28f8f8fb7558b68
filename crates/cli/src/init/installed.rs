//! The configuration files that exist on this machine.

use std::path::PathBuf;

use super::clients::Scope;
use super::places;

/// A configuration file with servers: that of a client, or that of the gateway behind it.
pub(crate) struct InstalledConfig {
    /// The client's name for people.
    pub(crate) title: &'static str,
    pub(crate) file: PathBuf,
    /// `true` if the file belongs to the project in the working folder.
    pub(crate) is_project: bool,
    /// `true` if the client's gateway uses it.
    pub(crate) behind_gateway: bool,
}

/// Returns the existing configuration files of all clients, and those of their gateways.
pub(crate) fn installed_configs() -> anyhow::Result<Vec<InstalledConfig>> {
    let mut configs: Vec<InstalledConfig> = Vec::new();
    for place in places::places(&[])? {
        for (file, behind_gateway) in [(&place.file, false), (&place.upstreams, true)] {
            // One file of Claude Code has the servers of several projects.
            let is_known = configs.iter().any(|config| config.file == *file);
            if file.is_file() && !is_known {
                configs.push(InstalledConfig {
                    title: place.client.title,
                    file: file.clone(),
                    is_project: place.scope == Scope::Project,
                    behind_gateway,
                });
            }
        }
    }
    Ok(configs)
}
