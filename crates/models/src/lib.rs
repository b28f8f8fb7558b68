//! The model weights, token tables and sample requests of picktools, as bytes.

/// The static embedding model: a table of token vectors (`static/README.md`).
#[cfg(feature = "static")]
pub static STATIC_MODEL: &[u8] = include_bytes!("../static/model.bin");

/// The reader of requests: linear models of what a message asks for (`reader/README.md`).
#[cfg(feature = "static")]
pub static READER_MODEL: &[u8] = include_bytes!("../reader/model.bin");

/// Sample requests for the tools of popular MCP servers (`examples/README.md`).
#[cfg(feature = "examples")]
pub static POPULAR_EXAMPLES: &str = include_str!("../examples/popular.tsv");

/// The tuned embedding model: a small transformer in ONNX form (`tuned/README.md`).
///
/// It is `None` in a registry's package, because the size of packages is limited.
#[cfg(all(feature = "tuned", tuned_in_program))]
pub static TUNED_MODEL: Option<&[u8]> = Some(include_bytes!("../tuned/model.onnx"));
/// The tuned embedding model, which this package does not contain.
#[cfg(all(feature = "tuned", not(tuned_in_program)))]
pub static TUNED_MODEL: Option<&[u8]> = None;

/// The SHA-256 of the tuned model's file, in the format of `sha256sum`.
pub const TUNED_SHA256: &str = include_str!("../tuned/model.sha256");

/// The vocabulary of the tokenizer `o200k_base`: GPT-4o and all models since.
pub static O200K_BASE: &[u8] = include_bytes!("../tokens/o200k_base.bin");

/// The vocabulary of the tokenizer `cl100k_base`: GPT-4 and GPT-3.5.
pub static CL100K_BASE: &[u8] = include_bytes!("../tokens/cl100k_base.bin");
