//! Integration tests of skills.

// Reading, compatibility with a catalog, and picks.
mod skills;
