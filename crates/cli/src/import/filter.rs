//! Selection of the tools to import.

use anyhow::Context;
use clap::Args;
use globset::{Glob, GlobSet, GlobSetBuilder};
use picktools::Tool;

use crate::heading;

/// The tools to import, by name or by source and name.
#[derive(Args)]
#[command(next_help_heading = heading::CATALOG)]
pub(super) struct FilterArgs {
    /// Import only tools that match this pattern; may be repeated.
    ///
    /// The pattern matches the name or SOURCE/NAME of a tool, as in `get_*` or `github/*`.
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Skip tools that match this pattern; may be repeated.
    ///
    /// The pattern matches the name or SOURCE/NAME of a tool.
    #[arg(long, value_name = "GLOB")]
    except: Vec<String>,
}

/// The compiled patterns of the tools to import.
pub(super) struct Filter {
    only: Option<GlobSet>,
    except: GlobSet,
}

impl FilterArgs {
    pub(super) fn filter(&self) -> anyhow::Result<Filter> {
        let only = if self.only.is_empty() {
            None
        } else {
            Some(globs("--only", &self.only)?)
        };
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
            Glob::new(pattern).with_context(|| format!("{option}: invalid pattern {pattern:?}"))?,
        );
    }
    Ok(set.build()?)
}

impl Filter {
    pub(super) fn takes(&self, tool: &Tool) -> bool {
        let matches =
            |set: &GlobSet| set.is_match(&tool.name) || set.is_match(tool.qualified_name());
        self.only.as_ref().is_none_or(matches) && !matches(&self.except)
    }
}
