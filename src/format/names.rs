//! The names of the files in a store's directory.
//!
//! May touch `ids`. A name is read only in the one form that is written, so that two names never mean one file.

use crate::ids::SegmentId;

/// The lock file: never removed, so that two holders cannot hold two files of one name.
pub(crate) const LOCK: &str = "LOCK";

/// The name of what becomes the lock file of an owner by heartbeat: `LOCK-0000000000000001`, the term in hexadecimal.
pub(crate) fn claim_file_name(term: u64) -> String {
    format!("{LOCK}-{term:016x}")
}

/// The term that a file name stands for; `None` where it is no claim's.
pub(crate) fn parse_claim_file_name(name: &str) -> Option<u64> {
    let term = u64::from_str_radix(name.strip_prefix("LOCK-")?, 16).ok()?;
    (claim_file_name(term) == name).then_some(term)
}

/// The name that a manifest is written under before it gets its own. Each owner by heartbeat has another one, so that
/// nobody renames what a later one writes; 0 is no such owner.
pub(crate) fn unfinished_file_name(owner: u64) -> String {
    if owner == 0 { "MANIFEST.tmp".to_owned() } else { format!("MANIFEST-{owner:016x}.tmp") }
}

/// The owner that writes under a file name; `None` where it is no unfinished manifest's.
pub(crate) fn parse_unfinished_file_name(name: &str) -> Option<u64> {
    let owner = match name.strip_prefix("MANIFEST")?.strip_suffix(".tmp")? {
        "" => 0,
        owner => u64::from_str_radix(owner.strip_prefix('-')?, 16).ok()?,
    };
    (unfinished_file_name(owner) == name).then_some(owner)
}

/// The index: derived from the log, and rebuilt where it is missing.
pub(crate) const INDEX: &str = "index.redb";

/// Space that is given up where the disk is full. What it holds means nothing.
pub(crate) const RESERVE: &str = "RESERVE";

/// The note of the last checkpoint: for people, and needed by nothing.
pub(crate) const CHECKPOINTED: &str = "CHECKPOINTED";

/// The name that such a note has until it is whole.
pub(crate) const UNFINISHED_CHECKPOINTED: &str = "CHECKPOINTED.tmp";

/// The name of a segment: `seg-00000001.log`.
pub(crate) fn segment_file_name(segment: SegmentId) -> String {
    format!("seg-{segment}.log")
}

/// The segment that a file name stands for; `None` where it is no segment's.
pub(crate) fn parse_segment_file_name(name: &str) -> Option<SegmentId> {
    let digits = name.strip_prefix("seg-")?.strip_suffix(".log")?;
    let segment = SegmentId(digits.parse().ok()?);
    (segment_file_name(segment) == name).then_some(segment)
}

/// The name of a manifest generation: `MANIFEST-0000000000000001`, in hexadecimal.
pub(crate) fn manifest_file_name(generation: u64) -> String {
    format!("MANIFEST-{generation:016x}")
}

/// The generation that a file name stands for; `None` where it is no manifest's.
pub(crate) fn parse_manifest_file_name(name: &str) -> Option<u64> {
    let generation = u64::from_str_radix(name.strip_prefix("MANIFEST-")?, 16).ok()?;
    (manifest_file_name(generation) == name).then_some(generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_format() {
        assert_eq!(segment_file_name(SegmentId(1)), "seg-00000001.log");
        assert_eq!(manifest_file_name(1), "MANIFEST-0000000000000001");
        assert_eq!(manifest_file_name(u64::MAX), "MANIFEST-ffffffffffffffff");
    }

    #[test]
    fn a_name_gives_back_its_number() {
        for number in [0, 1, 42, 99_999_999, 100_000_000, u32::MAX] {
            let (segment, generation) = (SegmentId(number), u64::from(number) << 20);
            assert_eq!(parse_segment_file_name(&segment_file_name(segment)), Some(segment));
            assert_eq!(parse_manifest_file_name(&manifest_file_name(generation)), Some(generation));
            assert_eq!(parse_claim_file_name(&claim_file_name(generation)), Some(generation));
            assert_eq!(parse_unfinished_file_name(&unfinished_file_name(generation)), Some(generation));
        }
    }

    #[test]
    fn another_spelling_of_a_number_is_no_name() {
        for name in ["seg-1.log", "seg-+0000001.log", "seg-0000000001.log", "seg-00000001.log.tmp", "seg-.log", ""] {
            assert_eq!(parse_segment_file_name(name), None, "{name}");
        }
        for name in ["MANIFEST-1", "MANIFEST-000000000000000A", "MANIFEST-+000000000000001", "MANIFEST-", "MANIFEST"] {
            assert_eq!(parse_manifest_file_name(name), None, "{name}");
        }
        for name in ["LOCK", "LOCK-1", "LOCK-", "MANIFEST-0000000000000000.tmp", "MANIFEST-1.tmp", "MANIFEST-.tmp"] {
            assert_eq!((parse_claim_file_name(name), parse_unfinished_file_name(name)), (None, None), "{name}");
        }
    }
}
