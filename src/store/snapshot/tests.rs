//! An index that is whole and wrong gives an error that names the frame, never another rollout's arrays (D5, F20).
//!
//! Method: the index of a closed store is written again with entries that point to other valid frames.

use std::collections::BTreeSet;
use std::path::Path;

use crate::disk::Access;
use crate::disk::os::OsDisk;
use crate::error::{ErrorKind, Result};
use crate::format::names::INDEX;
use crate::ids::{Lsn, RolloutId};
use crate::index::{self, Changes, DiskIndex, Entry, Expected, FileOptions, Identity, Row};
use crate::recovery::manifests;
use crate::store::RolloutStore;
use crate::store::new_rollout::NewRollout;
use crate::store::options::Options;
use crate::store::plan::Results;

fn options() -> Options {
    RolloutStore::options().window(8)
}

/// What is done to the entries, in the order of their ids.
type Change = fn(&mut [Entry]);

/// Log-probs of a rollout as a version makes them.
fn logps(id: u64, version: u64) -> [f32; 4] {
    let number = u16::try_from(id * 16 + version).unwrap();
    [-f32::from(number); 4]
}

/// Eight rollouts, of which the even ones were recomputed twice: under versions 1 and 2.
fn closed(dir: &Path) -> Result<()> {
    let store = options().open(dir)?;
    for id in 0..8 {
        store.insert(NewRollout::new(id, 0).old_logps(&logps(id, 0)[..], 0))?;
    }
    for version in 1..=2 {
        store.advance_ref_version(0, None)?;
        let ids: Vec<RolloutId> = (0..8).step_by(2).map(RolloutId::new).collect();
        let plan = store.plan_for(&ids, 0)?;
        let results: Results = ids.iter().map(|id| (*id, logps(id.get(), version).to_vec())).collect();
        store.apply(plan, results)?;
    }
    store.close()
}

/// Writes the index again, with what `change` makes of its entries.
fn plant(dir: &Path, change: impl Fn(&mut [Entry])) {
    let manifest = manifests::newest(&OsDisk, dir).unwrap().unwrap();
    let identity = Identity { store: manifest.store_uuid, epoch: manifest.epoch };
    let segments: BTreeSet<_> = manifest.segments.iter().map(|record| record.id).collect();
    let expected = Expected { identity, log_end: manifest.state.lsn, segments: &segments };
    let path = dir.join(INDEX);
    let stored = index::open(&OsDisk, &path, Access::ReadWrite, &FileOptions::default()).unwrap();
    let loaded = stored.load(&expected).unwrap();
    let mut entries: Vec<Entry> = loaded.index.iter().collect();
    entries.sort_by_key(|entry| entry.id);
    change(&mut entries);
    let row = |entry: Entry| Row { entry, extra: loaded.index.extra(entry.id).copied().unwrap_or_default() };
    let changes = Changes { upserts: entries.into_iter().map(row).collect(), removed: Vec::new() };
    drop(loaded.disk);
    let mut index = DiskIndex::create(&OsDisk, &path, identity, &FileOptions::default()).unwrap();
    index.flush(&changes, &loaded.meta).unwrap();
    index.close().unwrap();
}

/// Looks at every rollout; returns how many are told to be damaged.
fn look(dir: &Path) -> usize {
    let store = options().open(dir).unwrap();
    assert_eq!(store.len(), 8);
    let damaged = |id: &RolloutId| {
        let view = store.get(*id).map(|view| view.unwrap());
        let read = view.and_then(|view| Ok((view.ref_version(), view.old_logps()?.to_vec())));
        match read {
            Ok((version, values)) => {
                assert_eq!(values, logps(id.get(), version), "rollout {id}, version {version}");
                assert_eq!(version, if id.get().is_multiple_of(2) { 2 } else { 0 }, "rollout {id}");
                false
            }
            Err(error) => {
                assert_eq!((error.kind(), error.rollout()), (ErrorKind::Damaged, Some(*id)), "{error}");
                true
            }
        }
    };
    store.ids().iter().filter(|id| damaged(id)).count()
}

#[test]
fn f20_an_entry_planted_on_another_valid_record_is_damage_and_never_the_wrong_array() {
    let cases: [(&str, Change, usize); 6] = [
        ("as it is", |_| {}, 0),
        ("places exchanged", |entries| swap_insert(entries, |_, _| {}), 2),
        ("places and numbers exchanged", |entries| swap_insert(entries, swap_lsns), 2),
        ("the results of another rollout", |entries| entries[0].old = entries[2].old, 1),
        ("and their number", |entries| (entries[0].old, entries[0].old_lsn) = (entries[2].old, entries[2].old_lsn), 1),
        (
            "the first log-probs of the same rollout under the last version",
            |entries| (entries[0].old, entries[0].old_lsn) = (entries[0].insert, entries[0].insert_lsn),
            1,
        ),
    ];
    for (what, change, damaged) in cases {
        let dir = tempfile::tempdir().unwrap();
        closed(dir.path()).unwrap();
        plant(dir.path(), change);
        assert_eq!(look(dir.path()), damaged, "{what}");
    }
}

/// Exchanges the places of two rollouts that were never recomputed.
fn swap_insert(entries: &mut [Entry], also: fn(&mut Entry, &mut Entry)) {
    let [_, first, _, second, ..] = entries else { panic!("eight entries") };
    std::mem::swap(&mut first.insert, &mut second.insert);
    std::mem::swap(&mut first.old, &mut second.old);
    also(first, second);
}

fn swap_lsns(first: &mut Entry, second: &mut Entry) {
    let swap = |a: &mut Lsn, b: &mut Lsn| std::mem::swap(a, b);
    swap(&mut first.insert_lsn, &mut second.insert_lsn);
    swap(&mut first.old_lsn, &mut second.old_lsn);
}
