//! Sets the `cfg` `tuned_in_program` if the file of the tuned model exists.
//!
//! The repository has the file. Packages of a registry are limited in size and do not have it.

use std::path::Path;

const MODEL: &str = "tuned/model.onnx";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(tuned_in_program)");
    println!("cargo::rerun-if-changed={MODEL}");
    if Path::new(MODEL).is_file() {
        println!("cargo::rustc-cfg=tuned_in_program");
    }
}
