//! The last 64 bytes of a sealed segment.
//!
//! May touch `fault`, `segment` (versions), ids.

use bytemuck::{Pod, Zeroable};

use crate::format::FORMAT_VERSION;
use crate::format::fault::{Fault, ensure};
use crate::format::frame::FRAME_ALIGN;
use crate::format::segment::check_features;
use crate::ids::SegmentId;

/// Bytes of a trailer.
pub(crate) const TRAILER_BYTES: usize = 64;

const TRAILER_LEN: u64 = 64;
const MAGIC: [u8; 8] = *b"\xf5RolFtr\x1a";
const CRC_OFFSET: usize = TRAILER_BYTES - 4;

/// Where a footer's payload lies, as its trailer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrailerInfo {
    /// Byte offset of the payload in the file: the end of the frames.
    pub(crate) offset: u64,
    /// Bytes of the payload, without its padding.
    pub(crate) len: u64,
    /// CRC-32 of the payload.
    pub(crate) crc: u32,
}

/// The trailer as it lies on disk.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawTrailer {
    magic: [u8; 8],
    format_version: u32,
    segment: u32,
    salt: u64,
    payload_offset: u64,
    payload_len: u64,
    payload_crc: u32,
    zeros: [u8; 16],
    crc: u32,
}

const _: () = assert!(size_of::<RawTrailer>() == TRAILER_BYTES, "the layout has no gaps");

impl TrailerInfo {
    /// Whether the segment was sealed without a footer, because it has more rows than an archive takes.
    pub(crate) const fn is_left_out(&self) -> bool {
        self.len == 0
    }

    pub(super) fn encode(&self, segment: SegmentId, salt: u64) -> [u8; TRAILER_BYTES] {
        let mut raw = RawTrailer {
            magic: MAGIC,
            format_version: FORMAT_VERSION,
            segment: segment.0,
            salt,
            payload_offset: self.offset,
            payload_len: self.len,
            payload_crc: self.crc,
            zeros: [0; 16],
            crc: 0,
        };
        raw.crc = crc(bytemuck::cast_ref(&raw));
        bytemuck::cast(raw)
    }

    /// Whether payload, padding and trailer end where a file of this length does.
    fn fills(&self, file_len: u64) -> bool {
        let end = self
            .len
            .checked_next_multiple_of(FRAME_ALIGN)
            .and_then(|padded| padded.checked_add(self.offset))
            .and_then(|trailer| trailer.checked_add(TRAILER_LEN));
        self.offset.is_multiple_of(FRAME_ALIGN) && end == Some(file_len)
    }
}

/// Reads the last 64 bytes of the segment with this number, salt and length.
pub(crate) fn decode_trailer(
    bytes: &[u8; TRAILER_BYTES],
    segment: SegmentId,
    salt: u64,
    file_len: u64,
) -> Result<TrailerInfo, Fault> {
    let raw: RawTrailer = bytemuck::pod_read_unaligned(bytes);
    let magic = format_args!("{}", MAGIC.escape_ascii());
    ensure(raw.magic == MAGIC, "footer magic", 0, magic, raw.magic.escape_ascii())?;
    let computed = crc(bytes);
    if raw.crc != computed {
        return Err(Fault::checksum("footer trailer", 60, raw.crc, computed));
    }
    check_features(raw.format_version, 0)?;
    if raw.zeros != [0; 16] {
        return Err(Fault::too_new("footer trailer field", "in its reserved bytes"));
    }
    ensure(raw.segment == segment.0, "footer segment", 12, segment.0, raw.segment)?;
    let salts = (format_args!("{salt:#018x}"), format_args!("{:#018x}", raw.salt));
    ensure(raw.salt == salt, "footer salt", 16, salts.0, salts.1)?;
    let trailer = TrailerInfo { offset: raw.payload_offset, len: raw.payload_len, crc: raw.payload_crc };
    let found = format_args!("{} bytes at {}", trailer.len, trailer.offset);
    ensure(trailer.fills(file_len), "footer place", 24, format_args!("a footer up to {file_len}"), found)?;
    Ok(trailer)
}

fn crc(bytes: &[u8; TRAILER_BYTES]) -> u32 {
    let (covered, _) = bytes.split_at(CRC_OFFSET);
    crc32fast::hash(covered)
}
