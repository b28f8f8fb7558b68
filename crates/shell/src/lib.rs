//! The built-in tools of a host: [`Bash`] runs commands, [`Read`] reads files.

#[cfg(unix)]
mod bash;
mod read;

#[cfg(unix)]
pub use bash::{Bash, BashOptions, Sandbox};
pub use read::{Read, ReadOptions};
