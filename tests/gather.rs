//! `gather` puts rows where the caller wants them, and changes no byte of a buffer that they do not fit into.
//!
//! Method: three rollouts of different lengths, gathered with padding on either side, flat, and into wrong buffers.

use rollstore::{Column, ErrorKind, Flat, NewRollout, PadSide, Padded, RolloutId, RolloutStore, Stale};

const PAD: f32 = 9.0;

fn store() -> (tempfile::TempDir, RolloutStore, Vec<RolloutId>) {
    let dir = tempfile::tempdir().unwrap();
    let store = RolloutStore::options().window(8).open(dir.path().join("rollouts")).unwrap();
    for (id, logps) in [(1, vec![-1.0, -2.0]), (2, vec![]), (3, vec![-3.0, -4.0, -5.0])] {
        store.insert(NewRollout::new(id, 0).prompt_ids(vec![7, 8]).old_logps(logps, 0)).unwrap();
    }
    (dir, store, [1, 2, 3].map(RolloutId::new).to_vec())
}

#[test]
fn a_step_before_the_birth_is_asked_about_and_nothing_is_to_be_computed() {
    let dir = tempfile::tempdir().unwrap();
    let store = RolloutStore::options().window(8).open(dir.path().join("rollouts")).unwrap();
    store.insert(NewRollout::new(1, 100).old_logps(&[-0.5][..], 0)).unwrap();
    let mut tensor = [PAD; 1];
    let ask = |out: &mut Padded<'_, f32>| store.gather(&[1.into()], Column::OldLogps, 3, Stale::Error, out);
    let refused = ask(&mut Padded::new(&mut tensor, 1, 0.0)).unwrap_err().to_string();
    assert!(refused.contains("born at step 100") && refused.contains("is 3 the trainer's step?"), "{refused}");
    assert!(!refused.contains("plan_for"), "{refused}");
}

#[test]
fn padding_goes_to_the_side_that_was_asked_for() {
    let (_dir, store, ids) = store();
    for (side, expected) in [
        (PadSide::Right, [-1.0, -2.0, PAD, PAD, PAD, PAD, -3.0, -4.0, -5.0]),
        (PadSide::Left, [PAD, -1.0, -2.0, PAD, PAD, PAD, -3.0, -4.0, -5.0]),
    ] {
        let mut tensor = [0.0; 9];
        let mut padded = Padded::new(&mut tensor, 3, PAD).side(side);
        store.gather(&ids, Column::OldLogps, 0, Stale::Error, &mut padded).unwrap();
        assert_eq!(padded.lens(), [2, 0, 3]);
        assert_eq!(tensor, expected, "{side:?}");
    }
}

#[test]
fn flat_rows_follow_each_other_with_their_offsets_in_the_order_asked() {
    let (_dir, store, ids) = store();
    let mut flat: Flat<f32> = Flat::default();
    let order = [ids[2], ids[0], ids[1], ids[2]];
    store.gather(&order, Column::OldLogps, 0, Stale::Error, &mut flat).unwrap();
    assert_eq!(flat.values, [-3.0, -4.0, -5.0, -1.0, -2.0, -3.0, -4.0, -5.0]);
    assert_eq!(flat.cu_seqlens, [0, 3, 5, 5, 8]);
}

#[test]
fn a_buffer_that_does_not_fit_is_refused_with_the_numbers_and_stays_as_it_was() {
    let (_dir, store, ids) = store();
    for (len, row_len, parts) in [
        (8, 3, vec!["8 values", "3 rows of 3"]),
        (6, 2, vec!["row 2 has 3 values", "hold 2"]),
        (9, usize::MAX, vec!["9 values", "3 rows"]),
    ] {
        let mut tensor = vec![PAD; len];
        let mut padded = Padded::new(&mut tensor, row_len, 0.0);
        let refused = store.gather(&ids, Column::OldLogps, 0, Stale::Error, &mut padded).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        for part in parts {
            assert!(refused.to_string().contains(part), "{part:?} is not in \"{refused}\"");
        }
        assert_eq!(tensor, vec![PAD; len]);
    }
}

#[test]
fn another_type_than_the_columns_is_refused() {
    let (_dir, store, ids) = store();
    let mut flat: Flat<f32> = Flat::default();
    let refused = store.gather(&ids, Column::PromptIds, 0, Stale::Error, &mut flat).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    let mut tokens: Flat<u32> = Flat::default();
    store.gather(&ids[..1], Column::PromptIds, 0, Stale::Error, &mut tokens).unwrap();
    assert_eq!(tokens.values, [7, 8]);
}
