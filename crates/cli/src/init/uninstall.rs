//! Removal of all data of picktools on this machine, for `--uninstall`.

use std::path::Path;

use anyhow::Context;

use super::InitCommand;
use super::client_report::{ClientReport, Status, printable};
use crate::output;

/// The folders that picktools keeps in its cache folder.
const CACHES: [&str; 3] = ["mcp", "models", "embeddings"];

impl InitCommand {
    /// Removes the data of picktools on this machine, if all servers are back in their files.
    /// Returns `false` if no one agreed.
    pub(super) fn remove_data(&self, reports: &[ClientReport]) -> anyhow::Result<bool> {
        let is_done = |report: &ClientReport| {
            matches!(
                report.status,
                Status::Restored | Status::NotBehind | Status::NoServers
            )
        };
        anyhow::ensure!(
            reports.iter().all(is_done),
            "not all servers are back in their files, so nothing is removed"
        );
        let mut folders = Vec::new();
        let data = crate::args::data_dir()?;
        folders.push(data.join("gateway"));
        if let Some(cache) = crate::args::default_cache_dir() {
            folders.extend(CACHES.map(|name| cache.join(name)));
        }
        let upstreams = data.join("upstreams");
        if !has_files(&upstreams) {
            folders.push(upstreams);
        } else if !self.json {
            output::note(format!(
                "{} stays: it has servers or backups that were not put back; remove it \
                 yourself if you do not need them",
                printable(&upstreams)
            ));
        }
        folders.retain(|folder| folder.is_dir());
        for folder in &folders {
            if !self.json {
                output::answer(format!("removes {}", printable(folder)))?;
            }
        }
        if !folders.is_empty() && !self.yes && !self.confirm("Remove these folders? [y/N] ")? {
            output::note("nothing was removed; pass --yes to remove without asking");
            return Ok(false);
        }
        for folder in &folders {
            std::fs::remove_dir_all(folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
            // The folder above may be shared with other programs, so it is removed only if empty.
            if let Some(parent) = folder.parent() {
                let _not_empty = std::fs::remove_dir(parent);
            }
        }
        output::note("to remove the program: cargo uninstall picktools-cli");
        Ok(true)
    }
}

/// Returns `true` if a folder has a file, at any depth.
fn has_files(folder: &Path) -> bool {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .flatten()
        .any(|entry| !entry.file_type().is_dir())
}
