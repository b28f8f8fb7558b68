//! What can go wrong, once.
//!
//! One enum a seam. Every message says where and what, and how to mend it where that is not plain.

mod calling;
mod ranking;
mod reading;

pub use self::calling::{AdvertisingError, ArgumentFault, ResponseError, TranslateError, UnknownProvider};
pub use self::ranking::{EmbedError, IndexError, RerankError, ScorerError};
pub use self::reading::{CatalogError, CatalogFault, SequencesError, SkillError, SkillFault};
