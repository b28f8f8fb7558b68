//! The memory of a gateway.

use std::ffi::{c_int, c_long};

/// The number of `mi_option_purge_delay` in `mimalloc.h`.
const PURGE_DELAY: c_int = 15;
/// The delay while many clients send requests. The allocator multiplies it by ten milliseconds.
const DELAY_BETWEEN_REQUESTS: c_long = 10;

#[expect(
    unsafe_code,
    reason = "the crate of the allocator does not declare these functions"
)]
// SAFETY: the allocator of the program is mimalloc, which declares these functions so. Every thread
// may call `mi_collect` at any time: it frees only memory that contains no value.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Lets the allocator return pages without values to the system at once. By default it does so a
/// second later, and only if memory is allocated then: an idle gateway would keep what it needed to
/// read the tools of its servers.
pub(super) fn return_free_pages() {
    #[expect(unsafe_code, reason = "the allocator has no other interface")]
    // SAFETY: commands call this before they start a thread that could read the option.
    unsafe {
        mi_option_set_default(PURGE_DELAY, 0);
    }
}

/// Returns free memory of this thread to the system, also of pages that the allocator keeps for it.
pub(super) fn release() {
    mi_collect(true);
}

/// Returns free memory like [`release`], and lets the allocator return pages a tenth of a second
/// later from then on. Picks of many clients from thousands of tools need the same pages again and
/// again, and would take twice the time without them.
pub(super) fn release_and_delay() {
    release();
    #[expect(unsafe_code, reason = "the allocator has no other interface")]
    // SAFETY: the option is one aligned number. A thread that reads it at the same time uses the
    // former or the new delay.
    unsafe {
        mi_option_set_default(PURGE_DELAY, DELAY_BETWEEN_REQUESTS);
    }
}

/// Lets the kernel give this process memory in small pages only.
///
/// Some systems use huge pages wherever they fit. A huge page stays resident as long as a session
/// uses some bytes of it, and a session needs almost twice the memory. The programs of servers keep
/// huge pages, because their supervisors allow them again.
pub(super) fn use_small_pages() {
    // If a sandbox refuses it, the gateway only needs more memory.
    #[cfg(target_os = "linux")]
    let _refused = rustix::thread::disable_transparent_huge_pages(true);
}
