//! Locks that no panic leaves unusable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what no panic leaves half-changed.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
