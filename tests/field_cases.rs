//! Faults that people who run RL trainers reported of other stores: log-probs that are not numbers, that are missing, that
//! are of another kind or length, versions that are labelled wrongly, and buffers that hand out copies.
//!
//! Method: each case as its users met it, with values compared bit by bit and again after a reopen.

use std::collections::HashSet;

use rollstore::{
    Budget, Column, DType, ErrorKind, Flat, LogpKind, NewRollout, Padded, Provenance, Reason, Rollout, RolloutStore,
    Stale, narrow_bf16, narrow_f16,
};
use rollstore_testkit::scratch::{Scratch, bare, ids, model, outline, with_old};

/// What engines really report: two NaN payloads, the log of nothing, a negative zero, a subnormal, a rounding above zero.
const REPORTED_BITS: [u32; 6] = [0x7fc0_0000, 0xffc0_0001, 0xff80_0000, 0x8000_0000, 0x0000_0001, 0x33d6_bf95];

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn view(store: &RolloutStore, id: u64) -> Rollout {
    store.get(id.into()).unwrap().expect("a live rollout")
}

fn gather_bits(store: &RolloutStore, id: u64, column: Column) -> Vec<u32> {
    let mut flat = Flat::<f32>::default();
    store.gather(&ids([id]), column.clone(), 5, Stale::Error, &mut flat).unwrap();
    let mut tensor = vec![0.0; flat.values.len()];
    let mut padded = Padded::new(&mut tensor, flat.values.len(), 9.0);
    store.gather(&ids([id]), column, 5, Stale::Error, &mut padded).unwrap();
    assert_eq!(bits(&flat.values), bits(&tensor));
    bits(&tensor)
}

#[test]
fn r01_what_the_engine_reported_comes_back_bit_for_bit() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    let reported = REPORTED_BITS.map(f32::from_bits);
    assert!(reported[0].is_nan() && reported[1].is_nan(), "two payloads");
    store.insert(NewRollout::new(1, 5).sampler_logps(&reported[..])).unwrap();
    for reopened in [false, true] {
        if reopened {
            store.close().unwrap();
            store = scratch.open();
        }
        assert_eq!(bits(view(&store, 1).sampler_logps().unwrap()), REPORTED_BITS, "reopened: {reopened}");
        assert_eq!(bits(view(&store, 1).behaviour_logps().unwrap()), REPORTED_BITS, "reopened: {reopened}");
        assert_eq!(gather_bits(&store, 1, Column::SamplerLogps), REPORTED_BITS, "reopened: {reopened}");
    }
}

#[test]
fn r01_a_nan_at_a_masked_place_alone_is_kept_and_recomputed_around() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let logps = [-0.5, f32::from_bits(0xffc0_0001), -0.25];
    store.insert(bare(1, 5).loss_mask(&[1, 0, 1][..]).old_logps(&logps[..], 0)).unwrap();
    assert_eq!(gather_bits(&store, 1, Column::OldLogps), bits(&logps));
    store.advance_ref_version(5, None).unwrap();
    let computed = [-0.75, f32::from_bits(0x7fc0_0000), -0.125];
    store
        .get_or_compute(&ids([1]), 5, |work| {
            Ok::<_, std::convert::Infallible>(work.ids().map(|id| (id, computed.to_vec())).collect())
        })
        .unwrap();
    assert_eq!(gather_bits(&store, 1, Column::OldLogps), bits(&computed));
    assert_eq!(bits(view(&store, 1).behaviour_logps().unwrap()), bits(&logps), "the first ones stay");
}

#[test]
fn r03_one_row_of_another_length_keeps_the_whole_batch_out() {
    for len in [99, 101, 0] {
        let scratch = Scratch::new();
        let store = scratch.open();
        let before = outline(&store);
        let put = || -> rollstore::Result<_> {
            let mut batch = store.batch();
            for id in 0..4 {
                let len = if id == 2 { len } else { 100 };
                batch.insert(NewRollout::new(id, 5).completion_ids(vec![7; 100]).sampler_logps(vec![-0.5; len]))?;
            }
            batch.commit()
        };
        let refused = put().unwrap_err();
        assert_eq!((refused.kind(), refused.rollout()), (ErrorKind::Invalid, Some(2.into())));
        let text = refused.to_string();
        for part in ["rollout 2", "completion_ids has 100", &format!("sampler_logps has {len}")] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
        assert_eq!(outline(&store), before, "the other three are not there either");

        // A caller who passes over the error gets it again at the commit.
        let mut batch = store.batch();
        batch.insert(NewRollout::new(0, 5).completion_ids(vec![7; 100])).unwrap();
        batch.insert(NewRollout::new(2, 5).completion_ids(vec![7; 100]).sampler_logps(vec![-0.5; len])).unwrap_err();
        assert_eq!(batch.commit().unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(outline(&store), before);
    }
}

#[test]
fn r04_absent_is_not_zero() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 5)).unwrap();
    for column in [Column::SamplerLogps, Column::OldLogps, Column::KlRefLogps, Column::LossMask] {
        assert!(!view(&store, 1).has(&column));
        let absent = view(&store, 1).values(&column).map(|values| values.len()).unwrap_err();
        assert_eq!((absent.kind(), absent.rollout()), (ErrorKind::NotFound, Some(1.into())), "{column}");
        assert!(absent.to_string().contains(column.name()), "{absent}");
    }
    let mut flat = Flat::<f32>::default();
    let refused = store.gather(&ids([1]), Column::SamplerLogps, 5, Stale::Allow, &mut flat).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert_eq!(store.plan_for(&ids([1]), 5).unwrap().len(), 1, "the planner lists it");
    assert_eq!(store.stats().unwrap().missing, 1);
}

#[test]
fn r04_log_probs_that_are_all_zero_are_kept_and_warned_of() {
    let zeros = [0.0; 500];
    let zero = |id| NewRollout::new(id, 5).completion_ids(vec![7; 500]);
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(zero(1).sampler_logps(&[-0.5; 500][..]).old_logps(&[-0.5; 500][..], 0)).unwrap();
    store.insert(NewRollout::new(2, 5).sampler_logps(&zeros[..3])).unwrap();
    store.insert(NewRollout::new(3, 5).sampler_logps(&[][..])).unwrap();
    assert_eq!(store.stats().unwrap().warnings, Vec::<String>::new(), "a few tokens may all be certain");
    store.insert(zero(4).sampler_logps(&zeros[..])).unwrap();
    store.insert(zero(5).old_logps(&zeros[..], 0)).unwrap();
    store.insert(zero(6)).unwrap();
    store.get_or_compute(&ids([6]), 5, model(0.0)).unwrap();
    store.insert(zero(6).old_logps(&zeros[..], 0)).unwrap_err();
    let warnings = store.stats().unwrap().warnings;
    assert!(
        matches!(&warnings[..], [one] if one.starts_with("3 rollouts") && one.contains("all zero")),
        "{warnings:?}"
    );
    assert_eq!(view(&store, 4).sampler_logps().unwrap(), zeros);
}

#[test]
fn r06_the_version_is_the_callers_and_the_clock_is_the_last_durable_advance() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for label in [5, 9, 100] {
        store.advance_ref_version(1, Some(label)).unwrap();
    }
    let version = store.ref_version_of(9).unwrap();
    store.insert(with_old(1, 1, -1.0, version)).unwrap();
    assert_eq!(view(&store, 1).staleness(1).lag, Some(1), "gaps between labels are not advances");
    assert_eq!(store.advance_ref_version(1, Some(100)).unwrap(), 3, "the same again");
    store.abandon();
    let store = scratch.open();
    assert_eq!((store.ref_version(), store.clock()), (3, Some(1)));
    assert_eq!((view(&store, 1).ref_version(), view(&store, 1).born_step()), (2, 1));
    assert_eq!(store.advance_ref_version(1, Some(101)).unwrap(), 4, "one more, not two");
}

#[test]
fn r15_what_is_asked_for_beyond_what_lives_is_fewer_and_never_twice() {
    let scratch = Scratch::new();
    let store = scratch.open();
    assert!(store.plan_due(0, Budget::rollouts(16)).unwrap().is_empty(), "nothing lives, nothing waits");
    // All of one age: ties are broken by id, not by the order of their coming.
    for id in [9, 3, 11, 5] {
        store.insert(with_old(id, 0, -1.0, 0)).unwrap();
    }
    store.advance_ref_version(0, None).unwrap();
    assert!(store.plan_due(0, Budget::rollouts(0)).unwrap().is_empty());
    let due: Vec<_> = store.plan_due(0, Budget::rollouts(16)).unwrap().ids().collect();
    assert_eq!(due, ids([3, 5, 9, 11]));
    let asked = ids([5, 3, 5, 5, 3]);
    let plan = store.plan_for(&asked, 0).unwrap();
    assert_eq!(plan.ids().collect::<Vec<_>>(), ids([5, 3]), "in the order asked, once each");
    assert_eq!(plan.positions(), [0, 1], "where each stands first among the ids asked for");
    let served = store.get_or_compute(&asked, 0, model(-0.5)).unwrap();
    assert_eq!(served.iter().map(|served| served.rollout().id()).collect::<Vec<_>>(), asked, "a row for each asked");
    store.retire(&due, Reason::Trained).unwrap();
    assert!(store.plan_due(0, Budget::unlimited()).unwrap().is_empty());
    let handed: HashSet<_> = store.allocate_ids(16).unwrap().collect();
    assert_eq!(handed.len(), 16);
}

#[test]
fn r16_log_probs_of_one_kind_do_not_pass_for_the_other() {
    let scratch = Scratch::new();
    let mut store = scratch.open();
    let rollout = bare(1, 5)
        .sampler_logps(vec![-0.7; 3])
        .provenance(Column::SamplerLogps, Provenance::processed("vllm 0.11", 0.7, 0.95, 50))
        .old_logps(vec![-1.0; 3], 0)
        .provenance(Column::OldLogps, Provenance::raw("fsdp"));
    store.insert(rollout).unwrap();
    store.close().unwrap();
    store = scratch.open();
    let rollout = view(&store, 1);
    assert_eq!(
        rollout.provenance(&Column::SamplerLogps),
        Some(Provenance::processed("vllm 0.11", 0.7, 0.95, 50)),
        "it travels with the values"
    );
    assert_eq!(rollout.get::<f32>(Column::SamplerLogps.of_kind(LogpKind::Processed)).unwrap(), [-0.7; 3]);
    let refused = rollout.get::<f32>(Column::SamplerLogps.of_kind(LogpKind::Raw)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("Processed (engine \"vllm 0.11\", temperature 0.7)"), "{refused}");
    let mut flat = Flat::<f32>::default();
    let mut gather = |column: Column, kind| store.gather(&ids([1]), column.of_kind(kind), 5, Stale::Error, &mut flat);
    gather(Column::OldLogps, LogpKind::Raw).unwrap();
    assert_eq!(gather(Column::OldLogps, LogpKind::Processed).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(gather(Column::SamplerLogps, LogpKind::Raw).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn r16_log_probs_that_say_nothing_of_their_kind_have_none() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(1, 5, -1.0, 0)).unwrap();
    for kind in [LogpKind::Raw, LogpKind::Processed] {
        let refused = view(&store, 1).get::<f32>(Column::OldLogps.of_kind(kind)).map(<[f32]>::to_vec).unwrap_err();
        assert!(refused.to_string().contains("unknown provenance"), "{refused}");
    }
}

#[test]
fn r16_nothing_is_cast_down_and_a_dtype_stays_what_it_was() {
    let values = [-1e-8, -17.000_001, -60_000.0];
    let scratch = Scratch::new();
    let store = scratch.open();
    let half = narrow_f16(&values).unwrap();
    let brain = narrow_bf16(&[-1e-8, -17.000_001, -70_000.0]).unwrap();
    let rollout = bare(1, 5).column("full", &values[..]).column("half", &half[..]).column("brain", &brain[..]);
    store.insert(rollout).unwrap();
    let refused = narrow_f16(&[-1e-8, -17.000_001, -70_000.0]).unwrap_err();
    assert_eq!((refused.index, refused.dtype), (2, DType::F16), "an infinity is not what was given");

    let rollout = view(&store, 1);
    let dtype = |name: &str| rollout.values(&Column::from_name(name)).unwrap().dtype();
    assert_eq!(["full", "half", "brain"].map(dtype), [DType::F32, DType::F16, DType::Bf16]);
    assert_eq!(bits(rollout.get::<f32>(Column::from_name("full")).unwrap()), bits(&values));
    let refused = rollout.get::<f32>(Column::from_name("half")).unwrap_err();
    assert!(refused.to_string().contains("nothing is cast"), "{refused}");
}
