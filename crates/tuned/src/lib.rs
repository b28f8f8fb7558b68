//! The tuned embedding model: a small transformer that was trained for picking tools, run in pure
//! Rust.

mod embedder;
mod onnx_file;

pub use embedder::TunedEmbedder;
