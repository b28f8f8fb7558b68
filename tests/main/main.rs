//! The integration tests: what a user of the library, or of the program, can see.

// Imports between the library's modules go one way, and the library neither prints nor reads the environment.
mod architecture;
// The program: answers, exit codes, bad input, evaluation.
#[cfg(feature = "cli")]
mod cli;
// Catalogs: every format, every fault with its place, identity and digest.
mod formats;
// Picks in keyword mode: guarantees, eligibility, the cut, determinism, odd requests.
mod picking;
// Custom scorers: composing, lying, failing, and being late.
mod scoring;
// Embedding models: a made-up one for the rules, the real MiniLM for the ONNX path.
mod semantic;
// What the modules above share.
mod support;
