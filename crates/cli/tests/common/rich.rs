//! Stores whose rollouts carry everything that a rollout can carry.

use std::path::Path;

use half::{bf16, f16};
use rollstore::{Column, ColumnValues, NewRollout, Provenance, Reason, Results, Rewind, RolloutId, RolloutStore};

/// Fills a store with rollouts 1 to 8 and one of a key.
pub(crate) fn fill(store: &Path) {
    filled(store).and_then(RolloutStore::close).expect("the store is filled");
}

/// As [`fill`], rewound since, with a rollout of the time after.
pub(crate) fn rewound(store: &Path) {
    let rewind = || -> rollstore::Result<()> {
        let store = filled(store)?;
        // What is born after the clock and has first log-probs of its own would raise the clock of a store that takes it.
        store.retire(&[6.into()], Reason::Rewound)?;
        let version = store.rewind(101, Rewind::Keep)?;
        store.insert(NewRollout::new(20, 102).old_logps(vec![-0.5], version))?;
        store.close()
    };
    rewind().expect("the store is rewound");
}

fn filled(store: &Path) -> rollstore::Result<RolloutStore> {
    let store = RolloutStore::options().window(8).max_version_lag(1).run_identity(b"model \xff, T = 1").open(store)?;
    let nan = |bits| f32::from_bits(bits);
    store.insert(NewRollout::new(1, 100).old_logps(vec![-0.5, -0.25], 0).completion_ids(vec![7, u32::MAX]))?;
    store.insert(
        NewRollout::new(2, 100)
            .group(u64::MAX)
            .reward(nan(0x7fc0_0123))
            .advantage(f32::NEG_INFINITY)
            .prompt_ids(vec![1, 2, 3])
            .completion_ids(vec![4, 5, 6, 7])
            .loss_mask(vec![1, 1, 0, 1])
            .old_logps(vec![-0.1, -1e-45, f32::INFINITY, -0.0], 0)
            .sampler_logps(vec![nan(0x7fc0_0000), nan(0x7fc0_0001), nan(0xffc0_0000), -17.000_002])
            .kl_ref_logps(vec![-1.0, -2.0, nan(0x7f80_0001), -4.0], 0)
            .provenance(Column::SamplerLogps, Provenance::processed("engine \u{1f980}\n", 0.7, f32::NAN, 40))
            .provenance(Column::OldLogps, Provenance::raw("trainer"))
            .version_spans(&[(3, 1), (u64::MAX, 3)])
            .metadata(b"\x00\xff not UTF-8"),
    )?;
    let halves = [0x7e00, 0x7e01, 0xfe00, 0x0001, 0x3c00, 0xfc00].map(f16::from_bits).to_vec();
    let brains = [0x7fc0, 0x7fc1, 0xff80, 0x0001, 0x3f80].map(bf16::from_bits).to_vec();
    store.insert(
        NewRollout::new(3, 101)
            .completion_ids(vec![])
            .column("half", halves)
            .column("brain", brains)
            .column("signed", vec![i32::MIN, -1, i32::MAX])
            .column("wide", vec![i64::MIN, -1, i64::MAX])
            .column("words", vec![0_u32, u32::MAX])
            .column("bytes", vec![0_u8, 255])
            .column("nothing", Vec::<f32>::new())
            .metadata("text, \"quoted\"".as_bytes()),
    )?;
    // One name and two types, and names that files have for themselves.
    store.insert(
        NewRollout::new(4, 101).column("half", vec![1_u8]).column("ids", vec![1_i64]).column("id", vec![2_u8]),
    )?;
    store.insert(
        NewRollout::new(5, 101).column("old_logps.offsets", vec![9_i64]).column("half.uint8", vec![3_u8]).group(0),
    )?;
    for id in 6..=8 {
        let new =
            NewRollout::new(id, 101).group(1).reward(-0.0).completion_ids(vec![1, 2]).old_logps(vec![-3.0, -4.0], 0);
        let sampler: ColumnValues<'_> = vec![-3.5_f32, f32::NAN].into();
        store.insert(if id == 8 { new.column("sampler_logps", sampler) } else { new })?;
    }
    store.insert(NewRollout::with_key("prompt-\u{e4}/17", 102).old_logps_spans(vec![-1.0, -2.0], &[(0, 1), (0, 1)]))?;
    store.advance_ref_version(103, Some(17))?;
    store.advance_kl_ref_version(Some(3))?;
    store.advance_ref_version(104, None)?;
    // Computed again: 6 and 8, and 3 for the first time. The sampler of 6 reported nothing: its first ones stay its own.
    for (id, logps) in [(3, vec![]), (6, vec![-3.25, -4.25]), (8, vec![-3.75, -4.75])] {
        let plan = store.plan_for(&[id.into()], 104)?;
        store.apply(plan, Results::from_iter([(RolloutId::from(id), logps)]))?;
    }
    store.set_cursor(b"row 17")?;
    Ok(store)
}
