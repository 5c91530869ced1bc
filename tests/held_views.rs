//! A view reads the same bytes for as long as it lives, whatever becomes of its segment; its space is free afterwards
//! (F23).
//!
//! Method: views on real files, mapped and copied, held while the store rolls over, is checkpointed, closed and restored,
//! which unlinks their segments; the kernel's list of this process's maps and descriptors tells what is still held.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use rollstore::{Options, Reads, Reason, Rollout, RolloutStore};
use rollstore_testkit::scratch::Scratch;
use rollstore_testkit::store::{check_content, ids, recompute_all, rollout_of};

fn options(reads: Reads) -> Options {
    // Segments lose their names where this test says so.
    RolloutStore::options().window(8).segment_bytes(64 << 10).background_compaction(false).reads(reads)
}

/// A rollout that fills half a segment.
fn large(store: &RolloutStore, id: u64) -> Rollout {
    store.insert(rollout_of(id, 0, store.ref_version(), 4_000)).unwrap();
    store.get(id.into()).unwrap().unwrap()
}

fn segment_count(dir: &Path) -> usize {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("seg-")).count()
}

/// Maps and descriptors of segments in `dir` whose names are gone.
fn unlinked_held(dir: &Path) -> usize {
    let dir = dir.display().to_string();
    let is_ours = |line: &str| line.contains(&dir) && line.contains("/seg-") && line.ends_with("(deleted)");
    let maps = fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|line| is_ours(line)).count();
    let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    maps + links.filter(|link| is_ours(&link.to_string_lossy())).count()
}

/// Holds views while everything happens to their segments.
fn hold(reads: Reads) {
    let scratch = Scratch::new();
    let (dir, saved) = (scratch.store_dir(), scratch.path("saved"));
    let store = options(reads).open(&dir).unwrap();
    let kept = large(&store, 1);
    let first = kept.old_logps().unwrap();
    let (place, bytes) = (first.as_ptr(), first.to_vec());

    // The segment is sealed and others come; it is linked into a checkpoint; its rollout is recomputed and ends.
    for id in 2..6 {
        large(&store, id);
    }
    store.checkpoint(&saved).unwrap();
    store.advance_ref_version(1, None).unwrap();
    store.advance_ref_version(1, None).unwrap();
    recompute_all(&store, 1).unwrap();
    store.retire(&ids([1]), Reason::Trained).unwrap();
    assert!(segment_count(&dir) >= 4);
    assert_eq!(kept.old_logps().unwrap(), bytes);
    check_content(&kept);

    // The abandoned future's segments lose their names, each with a view.
    let abandoned: Vec<Rollout> = (10..16).map(|id| large(&store, id)).collect();
    let untouched = large(&store, 20);
    store.close().unwrap();
    let before = segment_count(&dir);
    RolloutStore::restore(&saved, &dir).unwrap();
    assert!(segment_count(&dir) + 3 <= before, "segments were unlinked");
    abandoned.iter().chain([&kept, &untouched]).for_each(check_content);

    // A new writer takes the place, and the checkpoint goes.
    let store = options(reads).open(&dir).unwrap();
    for id in 30..36 {
        large(&store, id);
    }
    fs::remove_dir_all(&saved).unwrap();
    abandoned.iter().chain([&kept, &untouched]).for_each(check_content);
    assert_eq!(kept.old_logps().unwrap().as_ptr(), place, "the slice that was handed out is still the one");
    let held = unlinked_held(&dir);
    assert!(held >= 3 || reads == Reads::Copied, "{held} unlinked segments are held for their views");

    drop((abandoned, untouched));
    assert_eq!(unlinked_held(&dir), 0, "the space of unlinked segments is free once their views are gone");
    assert_eq!(kept.old_logps().unwrap(), bytes);
}

#[test]
fn f23_a_mapped_view_outlives_roll_checkpoint_and_unlink_and_then_frees_its_space() {
    hold(Reads::Mapped);
}

#[test]
fn f23_a_copied_view_outlives_roll_checkpoint_and_unlink_and_then_frees_its_space() {
    hold(Reads::Copied);
}
