//! Integration tests of the built-in tools `bash` and `read`.

#[cfg(unix)]
mod running_bash;
mod running_read;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(unix)]
mod support;
