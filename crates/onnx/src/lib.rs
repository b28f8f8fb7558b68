//! Embedding models and cross-encoders in ONNX form.
//!
//! They run on ONNX Runtime, which is loaded at run time.

mod cross_encoder;
mod embedder;
mod onnx;

pub use cross_encoder::CrossEncoder;
pub use embedder::{FastEmbedder, HubModel};
pub use onnx::OnnxOptions;
