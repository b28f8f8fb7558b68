//! The integration tests of the checks.

// What is found in hostile catalogs, and what is not in honest ones.
mod checking;
