//! Makes the store of `tests/data/golden/store` anew: `cargo run -p rollstore-testkit --example golden_store DIR`.
//!
//! It is made once for each version of the format, and kept: every later version must read it. It has something of all that a
//! store can hold, in as few bytes as that takes.

use std::error::Error;
use std::path::Path;

use half::{bf16, f16};
use rollstore::{
    Budget, Column, CompactBudget, NewRollout, Plan, Provenance, Query, Reason, Results, Rewind, RolloutId,
    RolloutStore, limits,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let dir = std::env::args().nth(1).ok_or("say where the store goes: an empty directory")?;
    let dir = Path::new(&dir);
    let options = || RolloutStore::options().window(8).max_version_lag(2).background_compaction(false);
    let options = || options().segment_bytes(limits::SEGMENT_BYTES_MIN).run_identity(b"golden");
    let store = options().open(dir)?;
    many_that_end(&store)?;
    all_columns(&store)?;
    partials(&store)?;
    store.advance_ref_version(4, Some(400))?;
    store.recompute(4, Budget::rollouts(1), model)?;
    // In a segment of its own, which the next opening continues.
    store.close()?;
    let store = options().open(dir)?;
    let mut batch = store.batch();
    batch.insert(NewRollout::new(900, 6).group(8).completion_ids(&[3][..]).old_logps(&[-0.75][..], 1))?;
    batch.advance_ref_version(6, None);
    batch.advance_kl_ref_version(Some(7));
    batch.cursor(b"epoch 1, row 17");
    batch.commit()?;
    store.insert(NewRollout::new(901, 7).completion_ids(&[4, 5][..]))?;
    store.rewind(6, Rewind::Drop)?;
    store.get_or_compute(&[900.into(), 22.into()], 6, model)?;
    store.sweep("refresh", Query::All).micro_batch(2).run(6, Budget::rollouts(2), model)?;
    store.close()?;
    Ok(())
}

/// Log-probs that a reader can foretell.
fn model(plan: &Plan) -> rollstore::Result<Results> {
    let mut results = Results::new();
    for rollout in plan.rollouts() {
        let tokens = rollout.completion_ids().map(<[u32]>::len).or_else(|_| rollout.old_logps().map(<[f32]>::len))?;
        results.push(rollout.id(), vec![-0.125; tokens]);
    }
    Ok(results)
}

/// Enough for a segment that compaction copies, with an end for every reason.
fn many_that_end(store: &RolloutStore) -> Outcome {
    for id in 0..24 {
        let logps: Vec<f32> = (0..800_u16).map(|token| -f32::from(token) / 64.0).collect();
        store.insert(NewRollout::new(id, id / 8).group(id / 4).old_logps(logps, 0))?;
    }
    let ids = |of: std::ops::Range<u64>| of.map(RolloutId::new).collect::<Vec<_>>();
    for (reason, of) in
        [(Reason::Trained, 8..13), (Reason::Stale, 13..16), (Reason::Evicted, 16..19), (Reason::Other, 19..22)]
    {
        store.retire(&ids(of), reason)?;
    }
    store.retire_created_before(1, Reason::Trained)?;
    store.compact(CompactBudget::all())?;
    Ok(())
}

fn all_columns(store: &RolloutStore) -> Outcome {
    let nan = f32::from_bits(0x7fc0_1234);
    store.insert(
        NewRollout::new((1 << 53) + 1, 3)
            .group(u64::MAX)
            .reward(0.5)
            .advantage(-1.25)
            .prompt_ids(&[11, 12, 13][..])
            .completion_ids(&[21, 22, 23, 24][..])
            .loss_mask(&[1, 1, 0, 1][..])
            .old_logps_spans(&[-0.5, -0.25, f32::NEG_INFINITY, -1.0e-42][..], &[(0, 4)])
            .sampler_logps(&[-0.5, nan, f32::NAN, -0.0][..])
            .kl_ref_logps(&[-0.5, -0.375, -3.0, -2.0][..], 0)
            .provenance(Column::SamplerLogps, Provenance::processed("vllm 0.11", 0.5, 0.9, 20))
            .column("f16", vec![f16::MIN_POSITIVE, f16::MAX])
            .column("bf16", vec![bf16::NEG_INFINITY, bf16::ONE])
            .column("i32", vec![i32::MIN, -1, i32::MAX])
            .column("i64", vec![i64::MIN, i64::MAX])
            .column("u8", vec![0_u8, 255])
            .metadata(b"{\"source\": \"golden\"}"),
    )?;
    store.insert(NewRollout::with_key("prompt-7/sample-2", 3).group(7).completion_ids(&[31, 32][..]))?;
    store.replace(
        NewRollout::with_key("prompt-7/sample-2", 4)
            .group(7)
            .completion_ids(&[31, 33][..])
            .old_logps(&[-0.5, -0.25][..], 0),
    )?;
    Ok(())
}

fn partials(store: &RolloutStore) -> Outcome {
    for id in [500, 501] {
        store.begin_partial(NewRollout::new(id, 4).group(8).prompt_ids(&[1, 2][..]))?;
        store.append(id.into(), &[41, 42][..], &[-0.5, -0.25][..], (0, 2))?;
    }
    store.finish(NewRollout::new(500, 4).reward(1.0))?;
    Ok(())
}
