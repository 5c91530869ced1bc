//! The object that is a checkpoint: what it is made of, and the store's manifest.
//!
//! A line of JSON, the manifest's bytes as they are, and the CRC-32 of both. Knows nothing of where it lies.
//!
//! Always true:
//! - R1. Its checksum is tried before a byte of it is believed.

use rollstore::inspect::{Parts, SegmentPart};
use serde::{Deserialize, Serialize};

/// The only format there is.
const FORMAT: u32 = 1;

const CRC_BYTES: usize = 4;

/// Where segments lie.
pub(crate) const SEGMENTS: &str = "segments";

/// Where checkpoints lie.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// What a checkpoint is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) line: Line,
    /// The store's manifest file.
    pub(crate) manifest: Vec<u8>,
}

/// The line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) format: u32,
    /// The run's uuid in hexadecimal.
    pub(crate) run: String,
    /// Of the upload that made it: no other has it.
    pub(crate) upload: String,
    /// The trainer's clock.
    pub(crate) step: Option<u64>,
    /// Of the manifest.
    pub(crate) generation: u64,
    /// The caller's own text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) annotation: String,
    pub(crate) segments: Vec<SegmentLine>,
}

/// A segment that a checkpoint has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentLine {
    pub(crate) id: u32,
    /// In hexadecimal: JSON's numbers end at 53 bits in many readers.
    pub(crate) salt: String,
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// Why bytes are no checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// What was expected, and what was found.
    Damaged(String, String),
    /// A format that a later version of this program wrote.
    TooNew(u32),
}

/// The name of a checkpoint: its number in ten digits, so that names sort as numbers do.
pub(crate) fn checkpoint_key(number: u64) -> String {
    format!("{CHECKPOINTS}/{number:010}")
}

/// The number that a key stands for; `None` where it is no checkpoint's.
pub(crate) fn number_of(key: &str) -> Option<u64> {
    let number = key.strip_prefix(CHECKPOINTS)?.strip_prefix('/')?.parse().ok()?;
    (checkpoint_key(number) == key).then_some(number)
}

/// The run's uuid as it stands in names.
pub(crate) fn run_name(run: [u8; 16]) -> String {
    format!("{:032x}", u128::from_be_bytes(run))
}

/// The key of a segment: run, number, salt and length, which no two segments share.
pub(crate) fn segment_key(run: &str, part: &SegmentPart) -> String {
    format!("{SEGMENTS}/{run}/{:08}-{:016x}-{}", part.id, part.salt, part.bytes)
}

impl SegmentLine {
    pub(crate) fn new(part: &SegmentPart, crc32: u32) -> Self {
        Self { id: part.id, salt: format!("{:016x}", part.salt), bytes: part.bytes, crc32 }
    }

    /// The segment; its salt was checked when the line was read.
    pub(crate) fn part(&self) -> SegmentPart {
        let salt = u64::from_str_radix(&self.salt, 16).unwrap_or_default();
        SegmentPart { id: self.id, salt, bytes: self.bytes }
    }
}

impl Line {
    pub(crate) fn new(parts: &Parts, upload: String, annotation: String, segments: Vec<SegmentLine>) -> Self {
        let (run, step, generation) = (run_name(parts.run), parts.clock, parts.generation);
        Self { format: FORMAT, run, upload, step, generation, annotation, segments }
    }

    /// The keys of its segments, with what they must hold.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (String, &SegmentLine)> {
        self.segments.iter().map(|segment| (segment_key(&self.run, &segment.part()), segment))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.bytes))
    }

    fn is_sound(&self) -> bool {
        let run = self.run.len() == 32 && self.run.bytes().all(|byte| byte.is_ascii_hexdigit());
        run && self
            .segments
            .iter()
            .all(|segment| segment.salt.len() == 16 && u64::from_str_radix(&segment.salt, 16).is_ok())
    }
}

impl Record {
    pub(crate) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(&self.line)?;
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.manifest);
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        Ok(bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let damaged = |expected: &str, found: String| Unreadable::Damaged(expected.to_owned(), found);
        let Some((covered, crc)) = bytes.split_last_chunk::<CRC_BYTES>() else {
            return Err(damaged("a checkpoint", format!("{} bytes", bytes.len())));
        };
        let (stored, computed) = (u32::from_le_bytes(*crc), crc32fast::hash(covered));
        if stored != computed {
            return Err(damaged(&format!("checksum {stored:#010x}"), format!("{computed:#010x}")));
        }
        let end = covered.iter().position(|byte| *byte == b'\n').unwrap_or(covered.len());
        let (line, rest) = covered.split_at(end);
        let format =
            serde_json::from_slice::<Format>(line).map_err(|error| damaged("a line of JSON", error.to_string()))?;
        if format.format != FORMAT {
            return Err(Unreadable::TooNew(format.format));
        }
        let line: Line = serde_json::from_slice(line).map_err(|error| damaged("a line of JSON", error.to_string()))?;
        if !line.is_sound() {
            return Err(damaged("a run and salts in hexadecimal", "something else".to_owned()));
        }
        Ok(Self { line, manifest: rest.get(1..).unwrap_or_default().to_vec() })
    }
}

/// What is read first of a line.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let part = SegmentPart { id: 7, salt: u64::MAX, bytes: 9 };
        let parts = Parts { run: [3; 16], is_checkpoint: true, clock: Some(5), generation: 2, segments: vec![part] };
        let line = Line::new(&parts, "u".to_owned(), "said".to_owned(), vec![SegmentLine::new(&part, 1)]);
        Record { line, manifest: b"\n binary \xff\n".to_vec() }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = record();
        assert_eq!(Record::decode(&record.encode().unwrap()), Ok(record.clone()));
        assert_eq!(record.line.segments[0].part(), SegmentPart { id: 7, salt: u64::MAX, bytes: 9 });
    }

    #[test]
    fn every_flipped_bit_and_every_missing_end_is_damage() {
        let bytes = record().encode().unwrap();
        for place in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[place / 8] ^= 1 << (place % 8);
            assert!(matches!(Record::decode(&flipped), Err(Unreadable::Damaged(..))), "bit {place}");
        }
        for len in 0..bytes.len() {
            assert!(matches!(Record::decode(&bytes[..len]), Err(Unreadable::Damaged(..))), "{len} bytes");
        }
    }

    #[test]
    fn a_later_format_is_too_new_and_not_damaged() {
        let mut record = record();
        record.line.format = 2;
        assert_eq!(Record::decode(&record.encode().unwrap()), Err(Unreadable::TooNew(2)));
    }

    #[test]
    fn a_number_has_one_name() {
        assert_eq!(number_of(&checkpoint_key(12)), Some(12));
        for key in ["checkpoints/12", "checkpoints/0000000012.tmp", "checkpoints/", "segments/0000000012"] {
            assert_eq!(number_of(key), None, "{key}");
        }
    }
}
