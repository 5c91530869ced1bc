//! Goal: every peer does what the trait says, or its figures are of something else. Method: the same small course for each.

use super::*;
use crate::content::{Content, Lengths, RECOMPUTE_STEP, STEPS, sum};

fn read(peer: &dyn Peer, ids: &[u64]) -> Vec<(u64, f32)> {
    let mut found = Vec::new();
    peer.reader().unwrap().read(ids, &mut |id, bytes| found.push((id, sum(bytes)))).unwrap();
    found
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

fn sum_of(values: &[f32]) -> f32 {
    sum(bytemuck::cast_slice(values))
}

/// Inserts 400 records of several lengths, recomputes every tenth, deletes every other.
fn plays_its_part(kind: Kind) {
    let dir = crate::meter::scratch();
    let content = Content::new(400, Lengths::LogNormal, true);
    let numbers: Vec<u64> = (0..400).collect();
    let ids = content.ids(numbers.iter().copied());
    let mut peer = kind.open(dir.path()).unwrap();
    for batch in numbers.chunks(64) {
        peer.insert(&batch.iter().map(|number| content.record(*number)).collect::<Vec<_>>()).unwrap();
    }
    let expected: Vec<_> =
        numbers.iter().map(|number| (content.id(*number), sum_of(content.values(*number)))).collect();
    assert_eq!(read(&*peer, &ids), expected, "{kind:?}: what was inserted is read");

    let tenth: Vec<u64> = numbers.iter().copied().step_by(10).collect();
    peer.recompute(&tenth.iter().map(|number| content.recomputed(*number)).collect::<Vec<_>>()).unwrap();
    let expected: Vec<_> = tenth.iter().map(|n| (content.id(*n), sum_of(content.recomputed_values(*n)))).collect();
    assert_eq!(read(&*peer, &content.ids(tenth.iter().copied())), expected, "{kind:?}: a recompute is read");
    if kind.scope == Scope::WritesAndReads {
        return;
    }

    let of = |matches: &dyn Fn(u64) -> bool| {
        let found = numbers.iter().copied().filter(|number| !number.is_multiple_of(10) && matches(*number));
        sorted(content.ids(found))
    };
    peer.before_stale(STEPS / 4).unwrap();
    assert_eq!(sorted(peer.stale(STEPS / 4).unwrap()), of(&|number| Content::version(number) < STEPS / 4), "{kind:?}");
    assert_eq!(sorted(peer.out_of_window(10).unwrap()), of(&|number| content.born_step(number) < 10), "{kind:?}");

    let (gone, kept): (Vec<u64>, Vec<u64>) = numbers.iter().partition(|number| number.is_multiple_of(2));
    peer.delete(&content.ids(gone.iter().copied())).unwrap();
    peer.reclaim().unwrap();
    peer.close().unwrap();
    let peer = kind.open(dir.path()).unwrap();
    assert_eq!(read(&*peer, &content.ids(gone)), [], "{kind:?}: what was deleted is gone");
    let expected: Vec<_> = kept.iter().map(|n| (content.id(*n), sum_of(content.values(*n)))).collect();
    assert_eq!(read(&*peer, &content.ids(kept)), expected, "{kind:?}: what was not is there after a reopen");
    let left = of(&|number| !number.is_multiple_of(2) && content.born_step(number) < 10);
    assert_eq!(sorted(peer.out_of_window(10).unwrap()), left, "{kind:?}: the indexes went with the records");
    assert_eq!(peer.out_of_window(RECOMPUTE_STEP + 1).unwrap().len(), 200, "{kind:?}");
}

#[test]
fn every_peer_does_what_it_is_measured_at() {
    ALL.iter().copied().for_each(plays_its_part);
}

#[test]
fn every_batch_is_synced_by_every_peer() {
    for kind in ALL {
        let dir = crate::meter::scratch();
        let content = Content::new(8, Lengths::Fixed(64), false);
        let mut peer = kind.open(dir.path()).unwrap();
        for number in 0..8 {
            let before = crate::syncs::waited();
            peer.insert(&[content.record(number)]).unwrap();
            assert!(crate::syncs::waited() > before, "{kind:?}: a commit returned without a sync");
        }
    }
}

#[test]
fn names_are_unique_and_settings_are_told() {
    for (at, kind) in ALL.iter().enumerate() {
        assert!(!kind.settings.is_empty());
        assert!(ALL[at + 1..].iter().all(|other| other.name != kind.name));
        assert_eq!(named(kind.name).unwrap().name, kind.name);
    }
    assert!(named("oracle").is_err());
}
