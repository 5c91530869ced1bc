//! Input that cannot be right: each gets an error that names it, and changes nothing.
//!
//! Method: a store with something in it is given the input; its outline afterwards, and again after a reopen, is what it
//! was before.

use rollstore::{
    Column, ColumnValues, Error, ErrorKind, NewRollout, Padded, Provenance, Reason, Results, RolloutId, RolloutStore,
    Stale, limits,
};
use rollstore_testkit::scratch::{Scratch, assert_says, bare, ids, model, outline, results, with_old};

/// Gives a store input that must be refused, and returns what it said.
#[track_caller]
fn refused<T>(give: impl FnOnce(&RolloutStore) -> Result<T, Error>) -> Error {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(with_old(100, 5, -1.0, 0)).unwrap();
    store.insert(bare(101, 5)).unwrap();
    store.set_cursor(b"row 7").unwrap();
    let before = outline(&store);
    let error = give(&store).err().expect("the input is refused");
    assert_eq!(outline(&store), before, "{error}");
    store.abandon();
    let store = scratch.open();
    assert_eq!(outline(&store), before, "after a reopen: {error}");
    assert_eq!(store.get(100.into()).unwrap().unwrap().old_logps().unwrap(), [-1.0; 3]);
    store.insert(bare(1, 5)).unwrap();
    error
}

#[test]
fn a_value_that_is_no_log_prob_is_named_with_its_row_and_place() {
    let bad = [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf"), (0.002, "0.002"), (7.0, "7")];
    for (value, text) in bad {
        let logps = vec![-0.5, value, -0.5];
        let error = refused(|store| store.insert(bare(7, 5).old_logps(logps.clone(), 0)));
        assert_says(&error, ErrorKind::Invalid, &["rollout 7", &format!("old_logps[1] is {text};")]);
        let error = refused(|store| store.insert(bare(7, 5).kl_ref_logps(logps.clone(), 0)));
        assert_says(&error, ErrorKind::Invalid, &["rollout 7", &format!("kl_ref_logps[1] is {text};")]);
        let error = refused(|store| {
            let plan = store.plan_for(&ids([101]), 5)?;
            let mut computed = Results::new();
            computed.push(101.into(), logps.clone());
            store.apply(plan, computed)
        });
        assert_says(&error, ErrorKind::Invalid, &["rollout 101", &format!("old_logps[1] is {text};")]);
        assert_eq!(error.rollout(), Some(101.into()));
    }
}

#[test]
fn a_value_under_a_loss_mask_of_zero_is_not_checked_and_one_beside_it_is() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let logps = [-0.5, f32::NAN, f32::INFINITY];
    let masked = |mask: &[u8]| bare(1, 5).loss_mask(mask.to_vec()).old_logps(logps.to_vec(), 0);
    let error = store.insert(masked(&[1, 0, 1])).unwrap_err();
    assert_says(&error, ErrorKind::Invalid, &["old_logps[2] is inf"]);
    store.insert(masked(&[1, 0, 0])).unwrap();
    let view = store.get(1.into()).unwrap().unwrap();
    assert_eq!(view.old_logps().unwrap().map_bits(), logps.map_bits());
}

/// Bits, since NaN is not equal to itself.
trait MapBits {
    fn map_bits(&self) -> Vec<u32>;
}

impl MapBits for [f32] {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|value| value.to_bits()).collect()
    }
}

#[test]
fn rounding_a_little_above_zero_is_accepted() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(bare(1, 5).old_logps(vec![1e-7, limits::LOGP_POSITIVE_MAX, -0.0], 0)).unwrap();
}

/// A rollout of these per-token columns, the last of which is one value longer than the others.
fn lopsided(first: &Column, second: &Column) -> NewRollout<'static> {
    [(first, 3), (second, 4)].into_iter().fold(NewRollout::new(7, 5), |rollout, (column, len)| match column {
        Column::CompletionIds => rollout.completion_ids(vec![1; len]),
        Column::LossMask => rollout.loss_mask(vec![1; len]),
        Column::OldLogps => rollout.old_logps(vec![-0.5; len], 0),
        Column::SamplerLogps => rollout.sampler_logps(vec![-0.5; len]),
        Column::KlRefLogps => rollout.kl_ref_logps(vec![-0.5; len], 0),
        other => panic!("{other} is not per token"),
    })
}

#[test]
fn two_columns_of_different_lengths_are_named_with_both() {
    let columns = [Column::CompletionIds, Column::SamplerLogps, Column::OldLogps, Column::KlRefLogps, Column::LossMask];
    for first in &columns {
        for second in columns.iter().filter(|second| *second != first) {
            let error = refused(|store| store.insert(lopsided(first, second)));
            let named = [(first, 3), (second, 4)].map(|(column, len)| format!("{column} has {len}"));
            assert_says(&error, ErrorKind::Invalid, &["rollout 7", &named[0], &named[1]]);
        }
    }
}

#[test]
fn computed_log_probs_of_another_length_are_refused() {
    for len in [0, 2, 4] {
        let error = refused(|store| {
            let plan = store.plan_for(&ids([101]), 5)?;
            let mut computed = Results::new();
            computed.push(101.into(), vec![-0.5; len]);
            store.apply(plan, computed)
        });
        assert_says(&error, ErrorKind::Invalid, &["rollout 101", &format!("has {len} values"), "has 3"]);
    }
}

#[test]
fn results_that_do_not_belong_to_the_plan_are_refused() {
    let apply = |extra: u64| {
        refused(|store| {
            let plan = store.plan_for(&ids([101]), 5)?;
            let mut computed = results(&plan, -0.5);
            computed.push(extra.into(), vec![-0.5; 3]);
            store.apply(plan, computed)
        })
    };
    assert_says(&apply(100), ErrorKind::Invalid, &["rollout 100", "not part of the plan"]);
    assert_says(&apply(101), ErrorKind::Invalid, &["rollout 101", "two results"]);
}

#[test]
fn spans_that_do_not_cover_the_tokens_are_refused() {
    let error = refused(|store| store.insert(bare(7, 5).old_logps_spans(vec![-0.5; 3], &[(0, 1), (0, 1)])));
    assert_says(&error, ErrorKind::Invalid, &["spans of old_logps cover 2 tokens of 3"]);
    let error = refused(|store| store.insert(bare(7, 5).version_spans(&[(0, 4)])));
    assert_says(&error, ErrorKind::Invalid, &["spans of version_spans cover 4 tokens of 3"]);
}

#[test]
fn an_id_twice_is_refused_with_its_whole_batch() {
    for (second, what) in [(2, "stands in this batch already"), (100, "is live")] {
        let error = refused(|store| {
            let mut batch = store.batch();
            batch.insert(bare(2, 5))?;
            batch.cursor(b"row 8");
            batch.insert(bare(second, 5))?;
            batch.commit()
        });
        assert_says(&error, ErrorKind::Invalid, &[&format!("rollout {second}"), what]);
        assert_eq!(error.rollout(), Some(second.into()));
    }
}

#[test]
fn an_id_that_is_not_live_is_not_found() {
    type Give = fn(&RolloutStore) -> Result<(), Error>;
    let calls: [(&str, Give); 5] = [
        ("plan_for", |store| store.plan_for(&ids([100, 9]), 5).map(drop)),
        ("plan_kl_ref_for", |store| store.plan_kl_ref_for(&ids([100, 9]), 5).map(drop)),
        ("get_or_compute", |store| store.get_or_compute(&ids([101, 9]), 5, model(-0.5)).map(drop)),
        ("replace", |store| store.replace(bare(9, 5)).map(drop)),
        ("gather", |store| {
            let mut tensor = [0.0; 6];
            let mut out = Padded::new(&mut tensor, 3, 0.0);
            store.gather(&ids([100, 9]), Column::OldLogps, 5, Stale::Allow, &mut out)
        }),
    ];
    for (call, give) in calls {
        let error = refused(give);
        assert_says(&error, ErrorKind::NotFound, &["rollout 9 is not live"]);
        assert_eq!(error.rollout(), Some(9.into()), "{call}");
    }
    let scratch = Scratch::new();
    let store = scratch.open();
    assert!(store.get(9.into()).unwrap().is_none());
    assert_eq!(store.retire(&ids([9]), Reason::Trained).unwrap(), 0, "passed over");
}

#[test]
fn a_record_above_the_limit_is_refused_before_anything_is_written() {
    // One small buffer, lent to many columns: the limit is reached without the memory.
    let piece = vec![0_u8; 8 << 20];
    let largest = limits::RECORD_BYTES_MAX - limits::META_BYTES_MAX;
    let pieces = largest / piece.len() as u64;
    let rollout = |surplus: usize| {
        let full = (0..pieces).fold(NewRollout::new(7, 5), |rollout, number| {
            rollout.column(&format!("piece {number}"), ColumnValues::from(&piece))
        });
        full.column("surplus", ColumnValues::from(&piece[..surplus]))
    };
    let last = usize::try_from(largest % piece.len() as u64).unwrap();
    let error = refused(|store| store.insert(rollout(last + 1)));
    let numbers = [(largest + 1).to_string(), largest.to_string()];
    assert_says(&error, ErrorKind::Invalid, &["rollout 7", &numbers[0], &numbers[1]]);

    let scratch = Scratch::new();
    let store = scratch.open();
    let mut batch = store.batch();
    batch.insert(rollout(last)).unwrap();
    drop(batch);
}

/// A rollout with so many columns of its own, each with a provenance.
fn columns(count: usize) -> NewRollout<'static> {
    (0..count).map(|number| format!("column {number}")).fold(bare(7, 5), |rollout, name| {
        rollout.column(&name, vec![1_u8]).provenance(Column::Named(name), Provenance::raw("an engine"))
    })
}

#[test]
fn as_many_provenances_as_the_limit_says_come_back_after_a_crash() {
    let scratch = Scratch::new();
    let store = scratch.open();
    store.insert(columns(limits::PROVENANCES_MAX)).unwrap();
    store.abandon();
    let view = scratch.open().get(7.into()).unwrap().unwrap();
    for number in 0..limits::PROVENANCES_MAX {
        let column = Column::Named(format!("column {number}"));
        assert_eq!(view.provenance(&column), Some(Provenance::raw("an engine")), "{column}");
    }
}

#[test]
fn sizes_above_their_limits_are_refused() {
    let long = "n".repeat(limits::NAME_BYTES_MAX + 1);
    let rollouts = [
        bare(7, 5).metadata(&vec![0; limits::METADATA_BYTES_MAX + 1]),
        bare(7, 5).column(&long, vec![1_u8]),
        bare(7, 5).column("", vec![1_u8]),
        NewRollout::with_key(&long, 5),
        (0..=limits::NAMED_COLUMNS_MAX)
            .fold(bare(7, 5), |rollout, number| rollout.column(&format!("column {number}"), vec![1_u8])),
        (0..limits::NAMED_COLUMNS_MAX).fold(bare(7, 5), |rollout, number| {
            let name = format!("column {number}");
            rollout.column(&name, vec![1_u8]).provenance(Column::Named(name), Provenance::raw("vllm"))
        }),
        bare(7, 5).column("twice", vec![1_u8]).column("twice", vec![1_u8]),
        columns(limits::PROVENANCES_MAX + 1),
        columns(1).provenance(Column::from_name("column 0"), Provenance::raw("another engine")),
        bare(7, 5).column("old_logps", vec![-0.5_f32; 3]),
        bare(7, 5).column("sampler_logps", vec![1_i32; 3]),
    ];
    for rollout in rollouts {
        let error = refused(|store| store.insert(rollout));
        assert_says(&error, ErrorKind::Invalid, &["rollout "]);
    }
    let error = refused(|store| store.set_cursor(&vec![0; limits::CURSOR_BYTES_MAX + 1]));
    assert_says(&error, ErrorKind::Invalid, &["cursor", &limits::CURSOR_BYTES_MAX.to_string()]);
}

#[test]
fn completions_of_no_token_and_of_131_072_are_legal() {
    let scratch = Scratch::new();
    let store = scratch.open();
    for (id, len) in [(1, 0), (2, 131_072)] {
        let (tokens, logps) = (vec![7_u32; len], vec![-0.5_f32; len]);
        store.insert(NewRollout::new(id, 5).completion_ids(tokens).old_logps(logps, 0)).unwrap();
    }
    store.insert(NewRollout::new(3, 5).completion_ids(vec![])).unwrap();
    store.get_or_compute(&ids([3]), 5, model(-0.5)).unwrap();
    store.close().unwrap();
    let store = scratch.open();
    for (id, len) in [(1, 0), (2, 131_072), (3, 0)] {
        let view = store.get(RolloutId::new(id)).unwrap().unwrap();
        assert_eq!((view.old_logps().unwrap().len(), view.completion_ids().unwrap().len()), (len, len));
        assert!(view.old_logps().unwrap().iter().all(|logp| logp.to_bits() == (-0.5_f32).to_bits()));
    }
}
