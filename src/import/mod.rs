//! Tools from what people already have: descriptions of HTTP interfaces.
//!
//! What is here reads text and no more: it starts no process and opens no connection.

pub mod openapi;
