//! What operations cost, in writes, syncs, bytes and index entries: numbers that do not depend on the machine.
//!
//! Method: a disk that counts. The index on disk is written behind by a thread of its own and is left out of the counts.

use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use rollstore::disk::counting::{CountingDisk, Op, OpKind};
use rollstore::disk::os::OsDisk;
use rollstore::{Budget, NewRollout, Plan, Reads, Results, RolloutId, RolloutStore};

/// Bytes of a frame beside its columns: header, descriptor and rounding.
const OVERHEAD_BYTES_MAX: u64 = 384;
/// The same for a rollout of one column.
const OVERHEAD_OF_ONE_COLUMN_BYTES: u64 = 256;

struct Counted {
    _dir: tempfile::TempDir,
    disk: CountingDisk,
    store: RolloutStore,
}

impl Counted {
    fn new(disk: CountingDisk) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&disk, &dir.path().join("rollouts"));
        // The first commit makes a segment and lists it: no commit after it does.
        store.set_cursor(b"begun").unwrap();
        Self { _dir: dir, disk, store }
    }

    fn with_rollouts(count: u64) -> Self {
        let counted = Self::new(CountingDisk::new(Arc::new(OsDisk)));
        for first in (0..count).step_by(10_000) {
            let mut batch = counted.store.batch();
            for id in first..count.min(first + 10_000) {
                batch.insert(NewRollout::new(id, 1).old_logps(vec![-0.5; 4], 0)).unwrap();
            }
            batch.commit().unwrap();
        }
        counted
    }

    /// Operations on segments and manifests while `act` ran.
    fn during(&self, act: impl FnOnce(&RolloutStore)) -> Vec<Op> {
        let begun = self.disk.tick();
        act(&self.store);
        let ended = self.disk.tick();
        let name = |op: &Op| op.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_log = |op: &Op| {
            let is_log = name(op).starts_with("seg-") || name(op).starts_with("MANIFEST");
            is_log && op.begun >= begun && op.ended < ended
        };
        self.disk.trace().into_iter().filter(of_log).collect()
    }
}

fn open(disk: &CountingDisk, dir: &Path) -> RolloutStore {
    RolloutStore::options().window(8).disk(Arc::new(disk.clone())).open(dir).unwrap()
}

fn written(ops: &[Op]) -> u64 {
    ops.iter().filter(|op| op.kind == OpKind::Write).map(|op| op.len).sum()
}

fn kinds(ops: &[Op]) -> Vec<OpKind> {
    ops.iter().map(|op| op.kind).collect()
}

fn compute(len: usize) -> impl FnMut(&Plan) -> Result<Results, Infallible> {
    move |work| Ok(work.ids().map(|id| (id, vec![-0.25; len])).collect())
}

fn padded(bytes: u64) -> u64 {
    bytes.next_multiple_of(64)
}

#[test]
fn an_advance_writes_one_frame_whatever_the_number_of_rollouts() {
    let cost = |rollouts| {
        let counted = Counted::with_rollouts(rollouts);
        let ops = counted.during(|store| {
            store.advance_ref_version(1, Some(7)).unwrap();
        });
        assert_eq!(kinds(&ops), [OpKind::Write, OpKind::SyncData], "{rollouts} rollouts");
        assert_eq!(counted.store.count_stale(), rollouts);
        written(&ops)
    };
    let bytes = cost(10);
    assert!(bytes <= OVERHEAD_OF_ONE_COLUMN_BYTES, "{bytes} bytes");
    assert_eq!((cost(1_000), cost(100_000)), (bytes, bytes));
}

#[test]
fn a_commit_of_512_rollouts_is_one_write_and_one_sync() {
    let counted = Counted::new(CountingDisk::new(Arc::new(OsDisk)));
    let logps = vec![-0.5; 1_024];
    let ops = counted.during(|store| {
        let mut batch = store.batch();
        for id in 0..512 {
            batch.insert(NewRollout::new(id, 1).old_logps(&logps, 0)).unwrap();
        }
        batch.cursor(b"row 512");
        batch.commit().unwrap();
    });
    assert_eq!(kinds(&ops), [OpKind::Write, OpKind::SyncData]);
    assert!(written(&ops) <= 512 * (4_096 + OVERHEAD_OF_ONE_COLUMN_BYTES) + OVERHEAD_BYTES_MAX);
}

#[test]
fn scans_touch_only_what_they_return() {
    const ROLLOUTS: u64 = 10_000;
    let counted = Counted::new(CountingDisk::new(Arc::new(OsDisk)));
    let store = &counted.store;
    let mut batch = store.batch();
    for id in 0..ROLLOUTS {
        batch.insert(NewRollout::new(id, id / 1_000).old_logps(vec![-0.5; 4], 0)).unwrap();
    }
    batch.commit().unwrap();
    let touched = || store.stats().unwrap().index_entries_touched;
    let cost = |scan: &dyn Fn() -> Vec<RolloutId>| {
        let before = touched();
        (scan().len() as u64, touched() - before)
    };
    assert_eq!(cost(&|| store.out_of_window(10)), (2_000, 2_000), "born at steps 0 and 1");
    assert_eq!(cost(&|| store.stale()), (0, 0));

    // Half of them get new log-probs, in random order: their entries move to where others stood.
    let mut ids: Vec<RolloutId> = (0..ROLLOUTS).map(RolloutId::new).collect();
    ids.shuffle(&mut StdRng::seed_from_u64(7));
    store.advance_ref_version(10, None).unwrap();
    for chunk in ids[..5_000].chunks(250) {
        store.get_or_compute(chunk, 10, compute(4)).unwrap();
    }
    assert_eq!(cost(&|| store.stale()), (5_000, 5_000));
    let old = ids[5_000..].iter().filter(|id| id.get() < 2_000).count() as u64;
    assert_eq!(cost(&|| store.out_of_window(10)), (old, old));
    assert_eq!(cost(&|| store.needs_recompute(10)), (5_000, 5_000), "those that are both are touched once");
    let before = touched();
    assert_eq!(
        (store.count_stale(), store.count_out_of_window(10), store.count_needs_recompute(10)),
        (5_000, old, 5_000)
    );
    assert_eq!(touched(), before, "a dry run looks at none of them");
}

#[test]
fn a_plan_under_a_budget_touches_little_more_than_it_hands_out() {
    const ROLLOUTS: u64 = 10_000;
    const BORN_TOGETHER: u64 = 100;
    let counted = Counted::new(CountingDisk::new(Arc::new(OsDisk)));
    let store = &counted.store;
    let mut batch = store.batch();
    for id in 0..ROLLOUTS {
        batch.insert(NewRollout::new(id, id / BORN_TOGETHER).old_logps(vec![-0.5; 4], 0)).unwrap();
    }
    batch.commit().unwrap();
    store.advance_ref_version(100, None).unwrap();
    let before = store.stats().unwrap().index_entries_touched;
    let plan = store.plan_due(100, Budget::rollouts(64)).unwrap();
    let touched = store.stats().unwrap().index_entries_touched - before;
    assert_eq!(plan.ids().collect::<Vec<_>>(), (0..64).map(RolloutId::new).collect::<Vec<_>>());
    assert!(touched <= 64 + BORN_TOGETHER, "{touched} entries for a plan of 64, of {ROLLOUTS} that are due");
}

#[test]
fn reading_logps_reads_no_byte_of_a_large_column_beside_them() {
    const EXTRA_BYTES: usize = 100 << 20;
    const TOKENS: usize = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let disk = CountingDisk::new(Arc::new(OsDisk)).without_maps();
    let store = open(&disk, dir.path());
    let extra = vec![3_u8; EXTRA_BYTES];
    let rollout = NewRollout::new(1, 1).old_logps(vec![-0.5; TOKENS], 0).sampler_logps(vec![-0.5; TOKENS]);
    store.insert(rollout.column("experts", &extra[..])).unwrap();
    store.close().unwrap();

    disk.clear();
    let store = open(&disk, dir.path());
    let opened = disk.counts().read_bytes;
    assert!(opened < 1 << 20, "opening read {opened} bytes");

    disk.clear();
    let view = store.get(1.into()).unwrap().unwrap();
    assert_eq!(view.old_logps().unwrap(), [-0.5; TOKENS]);
    let reads = reads(&disk);
    let bytes: u64 = reads.iter().map(|range| range.end - range.start).sum();
    assert!(bytes <= 4 * TOKENS as u64 + 2 * OVERHEAD_BYTES_MAX, "{bytes} bytes were read");

    // Reading the large column itself tells where it lies.
    disk.clear();
    let found = view.get::<u8>(rollstore::Column::from_name("experts")).unwrap();
    assert_eq!(found.len(), EXTRA_BYTES);
    let beside = self::reads(&disk).into_iter().max_by_key(|range| range.end - range.start).unwrap();
    assert_eq!(beside.end - beside.start, EXTRA_BYTES as u64);
    for range in reads {
        assert!(range.end <= beside.start || beside.end <= range.start, "{range:?} lies in {beside:?}");
    }
}

fn reads(disk: &CountingDisk) -> Vec<Range<u64>> {
    let reads = disk.trace().into_iter().filter(|op| op.kind == OpKind::Read);
    reads.map(|op| op.offset..op.offset + op.len).collect()
}

#[test]
fn a_recompute_writes_the_new_logps_alone() {
    const TOKENS: usize = 1_000;
    let counted = Counted::new(CountingDisk::new(Arc::new(OsDisk)));
    let experts = vec![3_u8; 1 << 20];
    for id in 0..3 {
        let rollout = NewRollout::new(id, 1).completion_ids(vec![1; TOKENS]).old_logps(vec![-0.5; TOKENS], 0);
        counted.store.insert(rollout.column("experts", &experts)).unwrap();
    }
    counted.store.advance_ref_version(2, None).unwrap();
    let ops = counted.during(|store| {
        assert_eq!(store.recompute(2, Budget::rollouts(2), compute(TOKENS)).unwrap().computed, 2);
    });
    assert_eq!(kinds(&ops), [OpKind::Write, OpKind::SyncData]);
    let bytes = written(&ops);
    let logps = padded(4 * TOKENS as u64);
    assert!(bytes >= 2 * logps && bytes <= 2 * (logps + OVERHEAD_OF_ONE_COLUMN_BYTES), "{bytes} bytes");
    let untouched = counted.store.get(0.into()).unwrap().unwrap();
    assert_eq!(untouched.get::<u8>(rollstore::Column::from_name("experts")).unwrap(), experts);
}

#[test]
fn a_record_costs_little_beyond_its_columns() {
    let counted = Counted::new(CountingDisk::new(Arc::new(OsDisk)));
    let cost = |rollout: NewRollout<'_>| {
        let ops = counted.during(|store| {
            store.insert(rollout).unwrap();
        });
        assert_eq!(kinds(&ops), [OpKind::Write, OpKind::SyncData]);
        written(&ops)
    };
    for tokens in [0_usize, 64, 1_000, 1_024] {
        let floats = padded(4 * tokens as u64);
        let one = cost(NewRollout::new(tokens as u64, 1).old_logps(vec![-0.5; tokens], 0)) - floats;
        assert!(one <= OVERHEAD_OF_ONE_COLUMN_BYTES, "{one} bytes beyond one column of {tokens} tokens");
        let six = NewRollout::new(10_000 + tokens as u64, 1)
            .group(3)
            .reward(1.0)
            .advantage(0.5)
            .prompt_ids(vec![1; 64])
            .completion_ids(vec![1; tokens])
            .loss_mask(vec![1; tokens])
            .old_logps(vec![-0.5; tokens], 0)
            .sampler_logps(vec![-0.5; tokens])
            .kl_ref_logps(vec![-0.5; tokens], 0);
        let six = cost(six) - 4 * floats - padded(tokens as u64) - 256;
        assert!(six <= OVERHEAD_BYTES_MAX, "{six} bytes beyond six columns of {tokens} tokens");
    }
}

#[test]
fn copied_reads_ask_for_what_is_used_alone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = CountingDisk::new(Arc::new(OsDisk));
    let store = RolloutStore::options().window(8).reads(Reads::Copied).disk(Arc::new(disk.clone()));
    let store = store.open(dir.path()).unwrap();
    store.insert(NewRollout::new(1, 1).old_logps(vec![-0.5; 1_000], 0).completion_ids(vec![1; 1_000])).unwrap();
    disk.clear();
    let view = store.get(1.into()).unwrap().unwrap();
    assert!(disk.counts().read_bytes <= OVERHEAD_BYTES_MAX, "a view alone reads header and descriptor");
    view.old_logps().unwrap();
    // Reads alone are counted: the thread of the index writes meanwhile.
    let once = disk.counts().read_bytes;
    view.old_logps().unwrap();
    assert_eq!(disk.counts().read_bytes, once, "a column is copied once a view");
}
