//! Integration tests of models on ONNX Runtime, which `scripts/fetch-models.sh` fetches.

// The real MiniLM.
mod minilm;
mod cross_encoder;
