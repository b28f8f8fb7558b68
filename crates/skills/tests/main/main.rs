//! Integration tests of skills.

// Reading, compatibility with a catalog, and picks.
mod skills;
// The instructions of skills in picks, and large folders.
mod bodies;
