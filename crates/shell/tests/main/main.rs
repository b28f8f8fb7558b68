//! Integration tests of the built-in tools.

mod changing;
#[cfg(unix)]
mod running_bash;
mod running_read;
#[cfg(target_os = "linux")]
mod sandbox;
mod searching;
#[cfg(unix)]
mod sessions;
#[cfg(unix)]
mod support;
mod without_manager;
mod workspace;
