//! Integration tests of the built-in tools `bash` and `read`.

#[cfg(unix)]
mod running_bash;
mod running_read;
