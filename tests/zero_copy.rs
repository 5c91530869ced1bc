//! Arrays are read where they lie: inside the map of the segment, aligned, for as long as the view lives.
//!
//! Method: addresses of slices against the kernel's list of this process's maps.

#![cfg(target_os = "linux")]

use std::ops::Range;
use std::path::Path;

use rollstore::{Budget, NewRollout, Options, Reads, Reason, Results, RolloutStore};
use rollstore_testkit::values::logp;

const TOKENS: usize = 1_000;
const ALIGN_BYTES: usize = 64;
/// Small, so that a few rollouts fill a segment.
const SEGMENT_BYTES: u64 = 64 << 10;

fn options(reads: Reads) -> Options {
    RolloutStore::options().window(8).segment_bytes(SEGMENT_BYTES).reads(reads)
}

/// Log-probs that tell which rollout they belong to.
fn logps(id: u64) -> Vec<f32> {
    (0..TOKENS as u64).map(|token| logp(id) + logp(token) / 2_048.0).collect()
}

fn rollout(id: u64) -> NewRollout<'static> {
    // Odd lengths before the log-probs: alignment must not be a matter of luck.
    NewRollout::new(id, 1).prompt_ids(vec![7; 13]).loss_mask(vec![1; TOKENS]).old_logps(logps(id), 0)
}

fn addresses(values: &[f32]) -> Range<usize> {
    let range = values.as_ptr_range();
    range.start.addr()..range.end.addr()
}

/// Address ranges at which this process maps a segment file of `dir`.
fn segment_maps(dir: &Path) -> Vec<Range<usize>> {
    let dir = dir.canonicalize().unwrap().display().to_string();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of_segment = maps.lines().filter(|line| line.contains(&dir) && line.contains("/seg-"));
    let range = |line: &str| {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        usize::from_str_radix(start, 16).unwrap()..usize::from_str_radix(end, 16).unwrap()
    };
    of_segment.map(range).collect()
}

fn lies_in_map(values: &[f32], dir: &Path) -> bool {
    let values = addresses(values);
    segment_maps(dir).iter().any(|map| map.start <= values.start && values.end <= map.end)
}

/// Removes every file of a store. Its directory stays: a network file system hides in it what is still open.
fn unlink_all(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

#[test]
fn old_logps_lie_aligned_in_the_mapped_segment() {
    let dir = tempfile::tempdir().unwrap();
    let store = options(Reads::Mapped).open(dir.path()).unwrap();
    store.insert(rollout(1)).unwrap();
    let view = store.get(1.into()).unwrap().unwrap();
    let slice = view.old_logps().unwrap();
    assert_eq!(slice, logps(1));
    assert!(lies_in_map(slice, dir.path()), "the segment that is being written to");
    assert_eq!(addresses(slice).start % ALIGN_BYTES, 0);

    drop(view);
    store.close().unwrap();
    let store = options(Reads::Mapped).open(dir.path()).unwrap();
    let view = store.get(1.into()).unwrap().unwrap();
    let slice = view.old_logps().unwrap();
    assert_eq!(slice, logps(1));
    assert!(lies_in_map(slice, dir.path()), "a segment of an earlier process");
    assert_eq!(addresses(slice).start % ALIGN_BYTES, 0);
    let same = store.get(1.into()).unwrap().unwrap();
    assert_eq!(addresses(same.old_logps().unwrap()), addresses(slice), "two views read the same bytes");
}

#[test]
fn recomputed_logps_lie_aligned_in_a_mapped_segment_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = options(Reads::Mapped).open(dir.path()).unwrap();
    store.insert(rollout(1)).unwrap();
    let before = store.get(1.into()).unwrap().unwrap();
    store.advance_ref_version(2, None).unwrap();
    let new =
        |work: &rollstore::Plan| Ok::<_, rollstore::Error>(work.ids().map(|id| (id, logps(9))).collect::<Results>());
    assert_eq!(store.recompute(2, Budget::unlimited(), new).unwrap().computed, 1);

    let after = store.get(1.into()).unwrap().unwrap();
    let slice = after.old_logps().unwrap();
    assert_eq!(slice, logps(9));
    assert!(lies_in_map(slice, dir.path()));
    assert_eq!(addresses(slice).start % ALIGN_BYTES, 0);
    assert_eq!(before.old_logps().unwrap(), logps(1), "a view shows the state that it was made of");
}

#[test]
fn a_view_outlives_rolling_closing_dropping_and_unlinking() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rollouts");
    let store = options(Reads::Mapped).open(&path).unwrap();
    store.insert(rollout(1)).unwrap();
    let view = store.get(1.into()).unwrap().unwrap();
    let slice = view.old_logps().unwrap();
    let place = addresses(slice);

    let segments = store.stats().unwrap().segments;
    for id in 2..100 {
        store.insert(rollout(id)).unwrap();
    }
    assert!(store.stats().unwrap().segments > segments + 2, "several segments were rolled");
    assert_eq!(slice, logps(1), "after rolling");
    store.retire(&[1.into()], Reason::Trained).unwrap();
    assert_eq!(slice, logps(1), "after the rollout ended");
    store.close().unwrap();
    assert_eq!(slice, logps(1), "after close");
    unlink_all(&path);
    assert_eq!(slice, logps(1), "after its file was unlinked");
    assert_eq!(addresses(view.old_logps().unwrap()), place, "it never moved");
    assert_eq!(view.loss_mask().unwrap(), [1; TOKENS], "a column first touched only now is there too");

    drop(view);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = path.display().to_string();
    assert!(!maps.lines().any(|line| line.contains(&path)), "the last view let the map go");
}

#[test]
fn copied_reads_give_the_same_values_aligned() {
    let dir = tempfile::tempdir().unwrap();
    let store = options(Reads::Copied).open(dir.path()).unwrap();
    store.insert(rollout(1)).unwrap();
    store.close().unwrap();
    let store = options(Reads::Copied).open(dir.path()).unwrap();
    let view = store.get(1.into()).unwrap().unwrap();
    let slice = view.old_logps().unwrap();
    assert_eq!(slice, logps(1));
    assert_eq!(addresses(slice).start % ALIGN_BYTES, 0);
    assert!(!lies_in_map(slice, dir.path()));
    assert_eq!(addresses(view.old_logps().unwrap()), addresses(slice), "copied once a view");

    store.close().unwrap();
    unlink_all(dir.path());
    assert_eq!(slice, logps(1), "the view owns its copy");
    assert_eq!(view.prompt_ids().unwrap(), [7; 13], "and keeps its file open for what was not copied yet");
}

#[test]
fn a_page_that_the_medium_lost_is_an_error_and_no_signal() {
    let dir = tempfile::tempdir().unwrap();
    let store = options(Reads::Mapped).open(dir.path()).unwrap();
    store.insert(rollout(1)).unwrap();
    store.close().unwrap();
    let store = options(Reads::Mapped).open(dir.path()).unwrap();
    // Pages behind the end of a file fail as those of a broken medium do.
    let segment = std::fs::OpenOptions::new().write(true).open(dir.path().join("seg-00000001.log")).unwrap();
    segment.set_len(0).unwrap();
    let error = store.get(1.into()).unwrap_err();
    assert_eq!(error.kind(), rollstore::ErrorKind::Io, "{error}");
}
