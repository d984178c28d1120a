//! Counts what the current thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    // The thread may be ending, when its counters are gone and nobody asks.
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

#[expect(unsafe_code, reason = "an allocator that counts can't be written without")]
// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`, and the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many bytes are allocated now, more than were freed.
#[allow(dead_code, reason = "most ask for the peak only")]
pub(crate) fn live() -> isize {
    LIVE.get()
}

/// The most bytes that were allocated at once while this ran, above what was before.
#[allow(dead_code, reason = "some ask for what stays")]
pub(crate) fn peak_of(run: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    run();
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}
