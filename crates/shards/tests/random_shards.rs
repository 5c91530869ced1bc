//! Goal: whatever lives in a set of shards, others made of it hold that and nothing else.
//!
//! Method: random lives of random numbers of shards, made into random numbers of others, one after the other, against the model:
//! the union of what each shard shows.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use rollstore::disk::Disk;
use rollstore::disk::sim::SimDisk;
use rollstore_shards::Shards;
use rollstore_testkit::shards::{Held, live, options};

/// A seed under which no step behind the seventh advances, and the shards' recomputes end at different steps.
const QUIET_END: u64 = 8_763_542_406_750_914_485;

#[test]
fn shards_whose_last_steps_advance_nothing_make_shards_that_hold_the_same() {
    assert_made_shards_hold_the_same(QUIET_END, 2, vec![1]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_shards_made_into_any_number_hold_the_same(
        seed: u64,
        given in 1_u64..6,
        numbers in prop::collection::vec(1_u32..9, 1..4),
    ) {
        assert_made_shards_hold_the_same(seed, given, numbers)?;
    }
}

fn assert_made_shards_hold_the_same(seed: u64, given: u64, numbers: Vec<u32>) -> Result<(), TestCaseError> {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
    let mut dirs: Vec<PathBuf> = Vec::new();
    for shard in 0..given {
        let dir = PathBuf::from(format!("given/{shard}"));
        let store = options(Arc::clone(&disk)).open(&dir).unwrap();
        live(&store, seed, shard, given).unwrap();
        store.close().unwrap();
        dirs.push(dir);
    }
    let held = Held::of(&disk, &dirs).unwrap();
    for (round, number) in numbers.into_iter().enumerate() {
        let to = format!("made-{round}");
        let shards = Shards::of(&dirs).disk(Arc::clone(&disk));
        let made = shards.reshard(NonZeroU32::new(number).unwrap(), &to).unwrap();
        prop_assert_eq!(made.before, made.after);
        dirs = made.stores.into_iter().map(|(dir, _)| dir).collect();
        Held::of(&disk, &dirs).unwrap().assert_same(&held, &format!("{number} shards"));
    }
    Ok(())
}
