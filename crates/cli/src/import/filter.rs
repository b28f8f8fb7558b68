//! Which tools are taken over.

use anyhow::Context;
use clap::Args;
use globset::{Glob, GlobSet, GlobSetBuilder};
use picktools::Tool;

use crate::heading;

/// Which tools are taken over: by name, or by source and name.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct FilterArgs {
    /// Take only tools whose name, or source/name, is like this: `get_*`, `github/*`; may be
    /// repeated.
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Leave out tools whose name, or source/name, is like this; may be repeated.
    #[arg(long, value_name = "GLOB")]
    except: Vec<String>,
}

/// The tools that are taken over.
pub(super) struct Filter {
    only: Option<GlobSet>,
    except: GlobSet,
}

impl FilterArgs {
    pub(super) fn filter(&self) -> anyhow::Result<Filter> {
        let only = (!self.only.is_empty())
            .then(|| globs("--only", &self.only))
            .transpose()?;
        Ok(Filter {
            only,
            except: globs("--except", &self.except)?,
        })
    }
}

fn globs(option: &str, patterns: &[String]) -> anyhow::Result<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(
            Glob::new(pattern)
                .with_context(|| format!("{option}: {pattern:?} is not a pattern of names"))?,
        );
    }
    Ok(set.build()?)
}

impl Filter {
    pub(super) fn takes(&self, tool: &Tool) -> bool {
        let among = |set: &GlobSet| set.is_match(&tool.name) || set.is_match(tool.qualified_name());
        self.only.as_ref().is_none_or(among) && !among(&self.except)
    }
}
