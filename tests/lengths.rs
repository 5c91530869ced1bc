//! Lengths and numbers at the edges of 16, 31 and 32 bits are exact or refused by name, never wrapped.
//!
//! Method: values that depend on their place, at lengths around each edge, written, closed and read again.

use rollstore::{Column, Flat, NewRollout, Reason, RolloutId, RolloutStore, Stale};
use rollstore_testkit::scratch::{Scratch, bare, ids};

const LENGTHS: [usize; 7] = [1, 65_535, 65_536, 65_537, 131_072, 1_048_575, 1_048_576];

/// Token ids that a cut to any number of bits would change.
fn tokens(len: usize) -> Vec<u32> {
    let edges = [65_535, 65_536, 65_537, 151_936, u32::MAX >> 1, (u32::MAX >> 1) + 1, u32::MAX];
    (0..len).map(|place| edges[place % 7].wrapping_sub(u32::try_from(place / 7).unwrap())).collect()
}

fn logps(len: usize) -> Vec<f32> {
    (0..len).map(|place| -f32::from(u16::try_from(place % 50_021).unwrap()) / 1024.0).collect()
}

#[test]
fn s10_lengths_around_16_bits_and_beyond_come_back_whole() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let mut batch = store.batch();
    for (id, len) in (0..).zip(LENGTHS) {
        let rollout = NewRollout::new(id, 1).prompt_ids(tokens(len)).completion_ids(tokens(len));
        batch.insert(rollout.old_logps(logps(len), 0).column("experts", vec![7_u8; len])).unwrap();
    }
    batch.commit().unwrap();
    store.close().unwrap();

    let store = scratch.open();
    for (id, len) in (0..).zip(LENGTHS) {
        let view = store.get(RolloutId::new(id)).unwrap().unwrap();
        assert_eq!(view.token_count() as usize, 2 * len);
        assert!(view.completion_ids().unwrap() == tokens(len), "tokens of length {len}");
        assert!(view.old_logps().unwrap() == logps(len), "logps of length {len}");
        assert_eq!(view.get::<u8>(Column::from_name("experts")).unwrap().len(), len);
    }
    let mut flat = Flat::<f32>::default();
    let all: Vec<_> = ids(0..LENGTHS.len() as u64);
    store.gather(&all, Column::OldLogps, 1, Stale::Error, &mut flat).unwrap();
    let rows = flat.cu_seqlens.windows(2).map(|row| usize::try_from(row[1] - row[0]).unwrap());
    assert_eq!(rows.collect::<Vec<_>>(), LENGTHS);
    assert_eq!(store.stats().unwrap().tokens, LENGTHS.iter().map(|len| 2 * *len as u64).sum::<u64>());
}

#[test]
fn s10_ids_of_every_width_are_told_apart() {
    let numbers = [0, 65_535, 65_536, 65_537, 1 << 31, u64::from(u32::MAX), 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX];
    let scratch = Scratch::new();
    let store = scratch.open();
    for (created, id) in (0..).zip(numbers) {
        store.insert(bare(id, created).group(id).column("id", vec![i64::from_ne_bytes(id.to_ne_bytes())])).unwrap();
    }
    store.close().unwrap();
    let store = scratch.open();
    assert_eq!(store.ids(), ids(numbers));
    for id in numbers {
        let view = store.get(id.into()).unwrap().unwrap();
        assert_eq!(view.get::<i64>(Column::from_name("id")).unwrap()[0].to_ne_bytes(), id.to_ne_bytes());
        assert_eq!((view.id(), view.group()), (RolloutId::new(id), Some(id)));
    }
    assert_eq!(store.retire(&ids([65_536]), Reason::Trained).unwrap(), 1);
    assert!(store.get(0.into()).unwrap().is_some() && store.get((1 << 32).into()).unwrap().is_some());
}

#[test]
fn s10_steps_and_labels_of_64_bits_are_exact() {
    let far = 1 << 40;
    let scratch = Scratch::new();
    let store = scratch.open();
    store.advance_ref_version(far, Some(u64::MAX)).unwrap();
    store.insert(bare(1, far + 1).reward(f32::MIN_POSITIVE)).unwrap();
    store.close().unwrap();
    let store = scratch.open();
    assert_eq!((store.clock(), store.ref_version_of(u64::MAX)), (Some(far), Some(1)));
    let view = store.get(1.into()).unwrap().unwrap();
    assert_eq!((view.created_step(), view.reward()), (far + 1, Some(f32::MIN_POSITIVE)));
}

/// Writes rows of one small buffer, so that a batch beyond 2 GiB needs the disk and not the memory.
fn write_beyond_2_gib(store: &RolloutStore, piece: &[u8]) -> u64 {
    let rows = (1_u64 << 31) / piece.len() as u64 + 2;
    let mut batch = store.batch();
    for id in 0..rows {
        batch
            .insert(NewRollout::new(id, 1).column("piece", piece).column("id", vec![i64::try_from(id).unwrap()]))
            .unwrap();
    }
    batch.cursor(b"behind it all");
    batch.commit().unwrap();
    rows
}

#[test]
fn s10_a_batch_beyond_2_gib_is_whole() {
    let piece: Vec<u8> = (0..64_u32 << 20).map(|place| u8::try_from(place % 251).unwrap()).collect();
    let scratch = Scratch::new();
    let store = scratch.open();
    let rows = write_beyond_2_gib(&store, &piece);
    store.close().unwrap();
    let store = scratch.open();
    assert_eq!(store.cursor().as_deref(), Some(&b"behind it all"[..]));
    for id in 0..rows {
        let view = store.get(id.into()).unwrap().unwrap();
        assert_eq!(view.get::<i64>(Column::from_name("id")).unwrap(), [i64::try_from(id).unwrap()]);
        assert!(view.get::<u8>(Column::from_name("piece")).unwrap() == piece, "row {id}");
    }
}
