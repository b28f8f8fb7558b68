//! Tells whether the tuned model is there to become part of the program: the repository has it, a
//! registry's package is too small for it.

use std::path::Path;

const MODEL: &str = "tuned/model.onnx";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(tuned_in_program)");
    println!("cargo::rerun-if-changed={MODEL}");
    if Path::new(MODEL).is_file() {
        println!("cargo::rustc-cfg=tuned_in_program");
    }
}
