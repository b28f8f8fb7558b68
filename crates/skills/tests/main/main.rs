//! The integration tests of skills.

// Reading them, what they need, and what picking one brings along.
mod skills;
