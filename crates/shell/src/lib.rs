//! The built-in tools of a host: [`Bash`] runs commands, [`Cd`] sets their folder, [`Read`],
//! [`Write`], [`Edit`] and [`Undo`] read and change files, [`Grep`] and [`Glob`] search them.

#[cfg(unix)]
mod bash;
mod cd;
mod change;
mod read;
mod root;
#[cfg(feature = "search")]
mod search;

#[cfg(unix)]
pub use bash::{Bash, BashOptions, Sandbox};
pub use cd::Cd;
pub use change::{Edit, Undo, Write};
pub use read::{Read, ReadOptions};
#[cfg(feature = "search")]
pub use search::{Glob, Grep, SearchOptions};

/// Runs the Rust blocks of the guide as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to/write-a-tool.md")]
struct WriteATool;
