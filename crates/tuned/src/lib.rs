//! The tuned embedding model: a small transformer, trained to pick tools, in pure Rust.

mod embedder;
mod onnx_file;

pub use embedder::TunedEmbedder;
