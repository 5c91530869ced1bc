//! Goal: every program, in every version, sends a rollout to the same shard, and one shard more moves few.
//!
//! Method: known vectors, computed by hand from the definition, and counts over many ids.

use std::num::NonZeroU32;

use proptest::prelude::*;
use rollstore::RolloutId;
use rollstore_shards::Router;

fn router(shards: u32) -> Router {
    Router::new(NonZeroU32::new(shards).unwrap())
}

#[test]
fn r1_known_ids_go_to_known_shards() {
    let ids = [0, 1, 2, 3, 7, 42, 1 << 32, (1 << 63) | 1, u64::MAX];
    for (shards, expected) in [
        (1, [0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (2, [0, 1, 0, 0, 1, 1, 0, 0, 1]),
        (3, [0, 1, 0, 0, 1, 1, 2, 0, 2]),
        (8, [5, 3, 0, 0, 3, 5, 7, 4, 2]),
        (256, [236, 227, 140, 249, 118, 119, 243, 148, 159]),
    ] {
        let router = router(shards);
        assert_eq!(ids.map(|id| router.route(id.into())), expected, "{shards} shards");
    }
}

#[test]
fn counted_and_hashed_ids_spread_evenly() {
    const IDS: u64 = 80_000;
    let counted = (0..IDS).map(RolloutId::new).collect();
    let keyed = (0..IDS).map(|number| RolloutId::from_key(&format!("request-{number}"))).collect();
    // Whoever hands out ids in strides must not fill one shard.
    let strided = (0..IDS).map(|number| RolloutId::new(number << 20)).collect();
    for (what, ids) in [("counted", counted), ("keyed", keyed), ("strided", strided)] {
        let ids: Vec<RolloutId> = ids;
        for shards in [2_u32, 3, 8, 64] {
            let router = router(shards);
            let mut rows = vec![0_u64; shards as usize];
            ids.iter().for_each(|id| rows[router.route(*id) as usize] += 1);
            let mean = IDS / u64::from(shards);
            // The deviation of a shard is about the root of its mean: six of them do not happen.
            let slack = 6 * mean.isqrt();
            let even = rows.iter().all(|rows| rows.abs_diff(mean) <= slack);
            assert!(even, "{what} ids over {shards} shards: {rows:?}, {mean} each were expected");
        }
    }
}

proptest! {
    #[test]
    fn r2_one_shard_more_takes_rollouts_and_moves_none_between_the_others(id: u64, shards in 1_u32..300) {
        let (before, after) = (router(shards).route(id.into()), router(shards + 1).route(id.into()));
        prop_assert!(after == before || after == shards, "from {before} to {after}, the new one is {shards}");
    }
}
