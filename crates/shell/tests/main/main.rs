//! The integration tests of the built-in tools of a host.

#[cfg(unix)]
mod running_bash;
mod running_read;
