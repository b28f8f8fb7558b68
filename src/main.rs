//! The command-line program; everything is in [`picktools::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    picktools::cli::main()
}
