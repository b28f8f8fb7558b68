//! The memory of a gateway.

/// Lets the kernel give this process memory in small pages only.
///
/// The allocator asks for huge pages, and a huge page stays resident as long as a session uses some
/// bytes of it. With huge pages a session needs almost twice the memory. The programs of servers
/// keep huge pages, because their supervisors allow them again.
pub(super) fn use_small_pages() {
    // If a sandbox refuses it, the gateway only needs more memory.
    #[cfg(target_os = "linux")]
    let _refused = rustix::thread::disable_transparent_huge_pages(true);
}
