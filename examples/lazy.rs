//! Lazy recompute: an advance marks every rollout stale by one record, and only those that are used are computed.
//!
//! `cargo run --example lazy`

#![expect(clippy::print_stdout, reason = "a small program")]

use std::error::Error;

use rollstore::{NewRollout, Plan, Reason, Results, RolloutId, RolloutStore, ServedFrom};

const ROLLOUTS: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    let forward = |work: &Plan| -> rollstore::Result<Results> {
        println!("forward pass over {} rollouts, {} tokens", work.len(), work.token_count());
        work.rollouts().map(|rollout| Ok((rollout.id(), vec![-0.25; rollout.completion_ids()?.len()]))).collect()
    };

    let mut batch = store.batch();
    let tokens = [1, 2, 3, 4];
    for id in 0..ROLLOUTS {
        batch.insert(NewRollout::new(id, 0).completion_ids(&tokens[..]).old_logps(&[-0.5; 4][..], 0))?;
    }
    batch.commit()?;
    println!("{} rollouts inserted, {} stale", store.len(), store.count_stale());

    // The weights that old log-probs stand for change: one record, whatever the number of rollouts.
    let before = store.stats()?.last_lsn.get();
    store.advance_ref_version(1, None)?;
    println!("advance: {} record written, {} stale", store.stats()?.last_lsn.get() - before, store.count_stale());

    // The trainer takes ten of them. These are computed, in one closure call; nothing else is.
    let taken: Vec<RolloutId> = (0..10).map(RolloutId::new).collect();
    let served = store.get_or_compute(&taken, 1, forward)?;
    assert!(served.iter().all(|served| served.source() == ServedFrom::Computed));
    let served = store.get_or_compute(&taken, 1, forward)?;
    assert!(served.iter().all(|served| served.source() == ServedFrom::Stored));
    println!("{} served again from the store", served.len());

    // The buffer moves on: what no one used was never computed.
    store.retire(&store.ids(), Reason::Evicted)?;
    let counters = store.stats()?.counters;
    let (retired, unused) = (counters.retired_total(), counters.retired_unused);
    println!("{retired} retired, {unused} never used, {} computed in all", counters.computed);
    Ok(())
}
