//! Archived descriptors: the one place where rkyv writes and reads.
//!
//! May touch rkyv. Every archive has its root at its end, little-endian primitives and 32-bit relative pointers.
//!
//! Always true:
//! - R1. An archive is read through checked access alone: each pointer and length lies within the bytes given.

use rkyv::api::high::{HighSerializer, to_bytes_in};
use rkyv::api::low::{LowValidator, access};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Portable, Serialize};

use super::fault::Fault;

/// A value was too large for the format: nothing of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge {
    /// What was too large: "manifest".
    pub(crate) what: &'static str,
    /// The greatest size that the format takes.
    pub(crate) bytes_max: u64,
}

/// Serializers of archives into plain vectors.
pub(super) trait ToArchive: for<'a> Serialize<HighSerializer<Vec<u8>, ArenaHandle<'a>, Error>> {}

impl<T> ToArchive for T where T: for<'a> Serialize<HighSerializer<Vec<u8>, ArenaHandle<'a>, Error>> {}

/// Appends the archive of `value` to `prefix`, whose length keeps the archive's alignment. `None` where a pointer would
/// not reach over 2 GiB, which is the only way for an archive of vectors and primitives to fail.
pub(super) fn append(value: &impl ToArchive, prefix: Vec<u8>) -> Option<Vec<u8>> {
    debug_assert!(prefix.len().is_multiple_of(16), "the archive's own offsets are aligned from the vector's start");
    to_bytes_in(value, prefix).ok()
}

/// Reads an archive in place. The bytes start at an address that is a multiple of 8, as a frame's descriptor does.
pub(super) fn read<'a, T>(what: &'static str, bytes: &'a [u8]) -> Result<&'a T, Fault>
where
    T: Portable + for<'b> CheckBytes<LowValidator<'b, Error>>,
{
    debug_assert!(is_aligned(bytes), "{what}: the caller reads into aligned memory");
    access::<T, Error>(bytes).map_err(|error| {
        let found = error.to_string();
        Fault::damaged(what, 0, format_args!("an archive of {} bytes", bytes.len()), found.trim_end())
    })
}

/// The same bytes at an address that an archive can be read at: a copy, in `copy`, only where they are not there yet.
pub(super) fn aligned<'a>(bytes: &'a [u8], copy: &'a mut AlignedVec) -> &'a [u8] {
    if is_aligned(bytes) {
        return bytes;
    }
    copy.extend_from_slice(bytes);
    copy
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.is_empty() || bytes.as_ptr().addr().is_multiple_of(8)
}
