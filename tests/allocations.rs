//! A read from a mapped store locates its array through the archived descriptor, without deserialising it.
//!
//! Method: an allocator that counts the bytes that this thread asks for. What a read allocates must not depend on the
//! number of columns, on their lengths, or on what else the descriptor holds.

#![expect(unsafe_code, reason = "a global allocator is an unsafe trait; this one forwards every call")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rollstore::{Column, NewRollout, Provenance, Reads, RolloutStore};

/// Greatest number of bytes that a read may allocate: some small boxes, far below any descriptor of the tests.
const READ_BYTES_MAX: u64 = 512;

struct Counting;

thread_local! {
    static ALLOCATED_BYTES: Cell<u64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ALLOCATED_BYTES.with(|allocated| allocated.set(allocated.get() + bytes as u64));
}

// SAFETY: every call is forwarded to the system's allocator with its arguments unchanged. The counter is a thread-local
// without a destructor, so that it never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        // SAFETY: the caller keeps the contract of `realloc`; the pointer came from `System`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `act` returns, and the bytes that this thread allocated in it.
fn allocated<T>(act: impl FnOnce() -> T) -> (T, u64) {
    let before = ALLOCATED_BYTES.with(Cell::get);
    let value = act();
    (value, ALLOCATED_BYTES.with(Cell::get) - before)
}

/// A store of three rollouts: small, long, and with a descriptor of some hundred kilobytes.
fn open(dir: &std::path::Path) -> RolloutStore {
    let options = || RolloutStore::options().window(8).reads(Reads::Mapped);
    let store = options().open(dir).unwrap();
    store.insert(NewRollout::new(1, 1).old_logps(vec![-0.5; 16], 0)).unwrap();
    store.insert(NewRollout::new(2, 1).completion_ids(vec![3; 200_000]).old_logps(vec![-0.5; 200_000], 0)).unwrap();
    let mut wide = NewRollout::new(3, 1)
        .old_logps(vec![-0.5; 100], 0)
        .metadata(&vec![7; 200_000])
        .provenance(Column::OldLogps, Provenance::raw("an engine"))
        .version_spans(&[(0, 1); 100]);
    let names: Vec<String> = (0..200).map(|at| format!("column {at}")).collect();
    for name in &names {
        wide = wide.column(name, vec![1_i32; 10]);
    }
    store.insert(wide).unwrap();
    store.close().unwrap();
    options().open(dir).unwrap()
}

#[test]
fn a_read_allocates_no_more_for_many_columns_or_long_ones() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let read = |id: u64| {
        allocated(|| {
            let view = store.get(id.into()).unwrap().unwrap();
            view.old_logps().unwrap().len()
        })
    };
    for id in [1, 2, 3] {
        // The first touch checks checksums and notes so in the segment's bitmap.
        read(id);
    }
    let (small, long, wide) = (read(1), read(2), read(3));
    assert_eq!((small.0, long.0, wide.0), (16, 200_000, 100));
    assert!(small.1 <= READ_BYTES_MAX, "{} bytes for one column of 16 values", small.1);
    assert_eq!(long.1, small.1, "the length of a column does not matter");
    assert_eq!(wide.1, small.1, "neither does the size of the descriptor");
}

#[test]
fn the_counter_counts() {
    let (bytes, counted) = allocated(|| vec![1_u8; 1_000]);
    assert_eq!(bytes.len(), 1_000);
    assert!(counted >= 1_000, "{counted}");
}

#[test]
fn the_first_touch_of_a_long_column_copies_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let segment_bytes: u64 = store.stats().unwrap().log_bytes;
    let (_, bytes) = allocated(|| store.get(2.into()).unwrap().unwrap().old_logps().unwrap().len());
    // One bit for each 64 bytes of the segment.
    assert!(bytes <= READ_BYTES_MAX + segment_bytes / 256, "{bytes} bytes, of a segment of {segment_bytes}");
}
