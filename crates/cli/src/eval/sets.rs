//! The files of evaluation sets.

use std::path::Path;

use anyhow::{Context, bail};

use super::EvalCommand;
use super::set_paths::SetPaths;

impl EvalCommand {
    /// Returns the sets that the options name.
    pub(super) fn sets(&self) -> anyhow::Result<Vec<SetPaths>> {
        if let ([first, ..], Some(queries), Some(qrels)) =
            (&self.catalog[..], &self.queries, &self.qrels)
        {
            let (catalog, queries, qrels) = (self.catalog.clone(), queries.clone(), qrels.clone());
            return Ok(vec![SetPaths {
                name: set_name(first)?,
                catalog,
                queries,
                qrels,
            }]);
        }
        if !self.catalog.is_empty() {
            bail!("--catalog needs --queries and --qrels, or --talk");
        }
        let mut sets = Vec::new();
        for folder in &self.sets {
            if !folder.is_dir() {
                bail!(
                    "{} is not a folder; pass folders with tools.jsonl, queries.jsonl and \
                     qrels.tsv",
                    folder.display()
                );
            }
            sets.push(SetPaths {
                name: set_name(folder)?,
                catalog: vec![folder.clone()],
                queries: folder.join("queries.jsonl"),
                qrels: folder.join("qrels.tsv"),
            });
        }
        Ok(sets)
    }
}

/// Returns the name of a set: that of its folder or catalog file.
pub(super) fn set_name(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        return Ok("set".to_owned());
    }
    let path = path
        .canonicalize()
        .with_context(|| format!("cannot read {}", path.display()))?;
    let stem = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    Ok(stem.map_or_else(
        || "set".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    ))
}
