//! Every limit, with its unit and its reason.
//!
//! Limits are checked before anything is written and again for every length that comes from disk.

use std::time::Duration;

/// Greatest size of one rollout's frame, in bytes: columns, descriptor and header. The largest rollouts seen in the
/// field hold half a gigabyte of expert-routing columns.
pub const RECORD_BYTES_MAX: u64 = 1 << 30;

/// Greatest size of one batch, in bytes of frames. A batch lies in one segment, and a location's offset counts 64-byte
/// units in 32 bits (256 GiB); the margin keeps the footer addressable too.
pub const BATCH_BYTES_MAX: u64 = 64 << 30;

/// Greatest number of frames in one batch: the count is stored in 32 bits.
pub const BATCH_FRAMES_MAX: u32 = 1 << 24;

/// Greatest number of values in one column: a record's limit holds fewer of any type, and the count is stored in 32 bits.
pub const COLUMN_VALUES_MAX: u64 = RECORD_BYTES_MAX;

/// Greatest number of named columns in one rollout.
pub const NAMED_COLUMNS_MAX: usize = 256;

/// Greatest number of provenances of one rollout: a column names its own in 8 bits, of which 0 says that it has none.
pub const PROVENANCES_MAX: usize = u8::MAX as usize;

/// Greatest length of a column name, engine name or string key, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// Greatest size of a rollout's user metadata, in bytes. It lies in the descriptor, which each read checks as a whole.
pub const METADATA_BYTES_MAX: usize = 1 << 20;

/// Greatest number of version spans of one rollout.
pub const SPANS_MAX: usize = 1 << 16;

/// Greatest size of a frame's descriptor, in bytes.
pub const META_BYTES_MAX: u64 = 16 << 20;

/// Greatest size of the cursor, in bytes. Every manifest generation carries it.
pub const CURSOR_BYTES_MAX: usize = 16 << 20;

/// Greatest size of the run identity, in bytes. Every manifest generation carries it.
pub const RUN_IDENTITY_BYTES_MAX: usize = 1 << 20;

/// Greatest size of a manifest, in bytes.
pub const MANIFEST_BYTES_MAX: u64 = 1 << 30;

/// Number of labels kept for [`crate::RolloutStore::ref_version_of`], the newest first to stay.
pub const LABELS_KEPT: usize = 4096;

/// Greatest number of retire lines that no later one made superfluous; steps that only grow need one. Beyond it, a line is
/// written as the ids that it ends.
pub(crate) const RETIRE_LINES_MAX: usize = 1024;

/// Greatest number of named sweeps whose progress is kept. Every manifest generation carries them; of finished ones the
/// oldest makes room for a new one.
pub const SWEEPS_MAX: usize = 256;

/// Size at which a segment is sealed and the next one begun, in bytes, unless the options say otherwise.
pub const SEGMENT_BYTES_DEFAULT: u64 = 256 << 20;

/// Smallest segment size that the options take, in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// Greatest segment size that the options take, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 16 << 30;

/// Greatest log-probability that is accepted, in nats. Rounding in a log-softmax gives values a little above zero.
pub const LOGP_POSITIVE_MAX: f32 = 1e-3;

/// Fewest tokens for which log-probs that are all zero are warned of. So many sampled tokens in a row are not all certain:
/// where an engine returned nothing, zeros were filled in.
pub const ZERO_LOGPS_TOKENS_MIN: usize = 16;

/// Greatest distance of a created or acted step above the clock, in steps, unless the options say otherwise.
pub const STEP_JUMP_MAX_DEFAULT: u64 = 10_000;

/// Steps by which a call's step may differ from the clock, unless the options say otherwise.
pub const STEP_SKEW_DEFAULT: u64 = 1;

/// Bytes that a Buffered store may have written and not yet made durable before commits wait, in bytes: what a power cut can
/// cost, and what a recovery writes again. A disk takes a second or two for so many.
pub const UNSYNCED_BYTES_MAX: u64 = 256 << 20;

/// Size of the file that is removed where the disk is full, in bytes, unless the options say otherwise: room for the footer of
/// a segment with 32,768 rollouts, two manifests with a large cursor each, and some retirements.
pub const RESERVE_BYTES_DEFAULT: u64 = 8 << 20;

/// Least size of values that [`crate::Rollout::writable`] maps instead of copying, in bytes. Below it a copy takes less time than
/// the system calls of a map and the page faults of its first use, and a process has some ten thousands of maps at most.
pub const WRITABLE_MAP_BYTES_MIN: usize = 256 << 10;

/// Changed index entries that start a flush of the index, in entries, unless the options say otherwise.
pub const INDEX_FLUSH_CHANGES_DEFAULT: usize = 10_000;

/// Bytes of the log behind the index that start a flush of it, in bytes: what an open after a kill has to read, about. Where
/// rollouts are large, they are fewer than [`INDEX_FLUSH_CHANGES_DEFAULT`].
pub const INDEX_FLUSH_BYTES: u64 = 32 << 20;

/// Greatest number of changed index entries that are listed for the next flush. Beyond it, a slow or failing flush costs no
/// more memory, and the next one writes every entry.
pub const INDEX_CHANGES_TRACKED_MAX: usize = 1 << 20;

/// Memory for pages of the index file, in bytes, unless the options say otherwise. Rows are read once, at open: more would
/// serve nobody.
pub const INDEX_CACHE_BYTES_DEFAULT: usize = 2 << 20;

/// Index entries that a flush copies under one hold of the index's lock, which takes about a millisecond, in entries.
pub(crate) const INDEX_ENTRIES_AT_A_TIME: usize = 8192;

/// Greatest factor by which failed flushes of the index put the next one off, as a power of two.
pub(crate) const INDEX_BACKOFF_MAX: u32 = 6;

const _: () =
    assert!(INDEX_FLUSH_CHANGES_DEFAULT < INDEX_CHANGES_TRACKED_MAX, "a flush comes before the list is given up");

/// Time between two beats of an owner by heartbeat, unless the options say otherwise.
pub const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(2);

/// Shortest and longest time between two beats that the options take. The lock file tells it in milliseconds.
pub const HEARTBEAT_MIN: Duration = Duration::from_millis(1);
/// See [`HEARTBEAT_MIN`].
pub const HEARTBEAT_MAX: Duration = Duration::from_hours(1);

/// Manifest generations, and segment numbers, between those of one owner by heartbeat and the next: more than an owner can
/// use up between two looks at the lock.
pub(crate) const TERM_NUMBERS: u64 = 256;

/// Greatest term that is believed: no counting of openings comes there.
pub(crate) const TERM_MAX: u64 = 1 << 32;

/// LSNs, versions and ids reserved at a time: a manifest generation is written when a reservation runs out.
pub(crate) const LSNS_RESERVED: u64 = 1 << 32;
pub(crate) const VERSIONS_RESERVED: u64 = 256;

/// Greatest LSN, version, epoch, generation, ceiling or segment id's next that is believed: counting up from 0 never comes
/// here, and what is counted up from here never overflows.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// Greatest id of a segment that is believed, for the same reason.
pub(crate) const SEGMENT_ID_MAX: u32 = 1 << 31;

const _: () = assert!(TERM_MAX * TERM_NUMBERS * 2 < NUMBER_MAX, "generations of all terms are believed");
const _: () = assert!(NUMBER_MAX + LSNS_RESERVED * 4 < u64::MAX / 2, "room to count on");
const _: () = assert!(META_BYTES_MAX < RECORD_BYTES_MAX, "a descriptor fits in a record");
const _: () = assert!(METADATA_BYTES_MAX as u64 * 4 < META_BYTES_MAX, "metadata and names fit in a descriptor");
const _: () = assert!(
    NAME_BYTES_MAX as u64 * (NAMED_COLUMNS_MAX + PROVENANCES_MAX) as u64 * 2 < META_BYTES_MAX,
    "names fit in a descriptor"
);
const _: () = assert!(RECORD_BYTES_MAX < BATCH_BYTES_MAX, "the largest record fits in a batch");
const _: () = assert!(BATCH_BYTES_MAX / 64 < u32::MAX as u64, "a batch fits in a location's offset");
const _: () =
    assert!(((NAME_BYTES_MAX + 64) * SWEEPS_MAX) as u64 * 64 < MANIFEST_BYTES_MAX, "all sweeps fit in a manifest");
const _: () = assert!(CURSOR_BYTES_MAX as u64 * 2 < MANIFEST_BYTES_MAX, "a cursor fits in a manifest");
const _: () =
    assert!(SEGMENT_BYTES_MIN < SEGMENT_BYTES_DEFAULT && SEGMENT_BYTES_DEFAULT < SEGMENT_BYTES_MAX, "ordered");
