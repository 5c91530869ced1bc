//! The table of pieces: any order, any number of times, any place.

use super::*;
use crate::format::entry::EntryKind;
use crate::index::testing;

const ID: u64 = 7;

fn id() -> RolloutId {
    RolloutId::new(ID)
}

/// A piece of so many tokens behind `before` others.
fn piece(lsn: u64, begin: u64, before: u64, tokens: u32, version: u64) -> FrameEntry {
    let offset_units = u32::try_from(lsn).unwrap();
    let of_id = testing::piece(ID, lsn, begin);
    FrameEntry { offset_units, ref_version: before, token_count: tokens, kl_version: version, ..of_id }
}

/// A prompt of three tokens, and five, two and four tokens of two versions.
fn whole() -> [(u32, FrameEntry); 4] {
    [(1, piece(10, 10, 0, 3, 0)), (1, piece(12, 10, 0, 5, 1)), (2, piece(20, 10, 5, 2, 1)), (3, piece(21, 10, 7, 4, 2))]
}

fn told(pieces: &[(u32, FrameEntry)]) -> MemoryIndex {
    let mut index = MemoryIndex::default();
    pieces.iter().for_each(|(segment, piece)| index.apply(SegmentId(*segment), piece));
    index
}

/// All orders of these.
fn orders<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let with = |place: usize| {
        let mut rest = of.to_vec();
        let first = rest.remove(place);
        orders(&rest).into_iter().map(move |order| [vec![first.clone()], order].concat())
    };
    (0..of.len()).flat_map(with).collect()
}

#[test]
fn pieces_told_in_any_order_and_twice_are_one_partial() {
    for order in orders(&whole()) {
        let index = told(&[order.clone(), order].concat());
        let partial = index.partials.get(id()).unwrap();
        assert_eq!((partial.prompt_len(), partial.len()), (3, 11));
        assert_eq!(partial.spans(), [(1, 7), (2, 4)]);
        assert_eq!((partial.begin_lsn(), partial.last_lsn()), (Lsn::new(10), Lsn::new(21)));
        assert_eq!(partial.gap(), None);
        assert_eq!([1, 2, 3].map(|segment| index.live_bytes(SegmentId(segment))), [2 * 5 * 64, 5 * 64, 5 * 64]);
        assert_eq!((index.len(), index.get(id())), (0, None), "no rollout");
    }
}

#[test]
fn a_missing_piece_is_noticed_wherever_it_was() {
    for missing in 0..3 {
        let mut pieces = whole().to_vec();
        pieces.remove(missing);
        let index = told(&pieces);
        let gap = index.partials.get(id()).unwrap().gap();
        assert_eq!(
            gap.map(|(piece, _)| piece.1.lsn),
            Some(pieces[missing].1.lsn).filter(|_| missing > 0).or(Some(pieces[0].1.lsn))
        );
    }
}

#[test]
fn a_newer_incarnation_takes_the_place_of_an_older_one_in_any_order() {
    let newer = (4, piece(30, 30, 0, 9, 0));
    for order in orders(&[whole()[0], whole()[1], newer]) {
        let index = told(&order);
        let partial = index.partials.get(id()).unwrap();
        assert_eq!((partial.begin_lsn(), partial.pieces().len()), (Lsn::new(30), 1));
        assert_eq!(index.live_bytes_total(), 5 * 64);
    }
}

#[test]
fn a_piece_moves_to_a_newer_segment_and_never_back() {
    let mut index = told(&whole());
    let moved = FrameEntry { offset_units: 99, ..whole()[1].1 };
    let at = |segment, offset_units| Location { segment: SegmentId(segment), offset_units };
    assert!(index.relocate(SegmentId(9), &moved));
    assert!(!index.relocate(SegmentId(1), &whole()[1].1) && !index.relocate(SegmentId(9), &moved));
    assert!(index.holds(id(), at(9, 99), Lsn::new(12)) && !index.holds(id(), at(1, 12), Lsn::new(12)));
    assert_eq!([1, 9].map(|segment| index.live_bytes(SegmentId(segment))), [5 * 64, 5 * 64]);
    let of_another = FrameEntry { insert_lsn: Lsn::new(11), ..moved };
    assert!(!index.relocate(SegmentId(12), &of_another), "another incarnation");
}

#[test]
fn only_its_own_incarnation_ends_a_partial() {
    let mut index = told(&whole());
    index.retire(id(), Lsn::new(12));
    index.retire_up_to(id(), Lsn::new(9));
    assert_eq!(index.partials.len(), 1);
    index.retire_up_to(id(), Lsn::new(10));
    assert_eq!((index.partials.len(), index.live_bytes_total()), (0, 0));
}

#[test]
fn a_rollout_takes_the_place_of_older_pieces_in_any_order_and_newer_pieces_come_behind_it() {
    let insert = FrameEntry { kind: EntryKind::Insert, ..piece(25, 25, 0, 9, 0) };
    for order in orders(&[whole()[0], whole()[1], (4, insert)]) {
        let index = told(&order);
        assert_eq!((index.partials.len(), index.len(), index.live_bytes_total()), (0, 1, 5 * 64));
    }
    for order in orders(&[whole()[0], whole()[1], (4, insert), (5, piece(30, 30, 0, 3, 0))]) {
        let index = told(&order);
        assert_eq!((index.partials.len(), index.len(), index.live_bytes_total()), (1, 0, 5 * 64));
        assert_eq!(index.partials.get(id()).map(Partial::begin_lsn), Some(Lsn::new(30)));
    }
}

#[test]
fn memory_that_is_given_back_takes_no_piece_along() {
    let mut index = told(&whole());
    let insert = |id: u64| {
        let lsn = Lsn::new(100 + id);
        let of = piece(lsn.get(), lsn.get(), 0, 1, 0);
        FrameEntry { kind: EntryKind::Insert, id: RolloutId::new(1_000 + id), ..of }
    };
    let inserts: Vec<FrameEntry> = (0..20_000).map(insert).collect();
    inserts.iter().for_each(|insert| index.apply(SegmentId(4), insert));
    let most = index.memory_bytes();
    assert!(inserts.iter().all(|insert| index.retire(insert.id, insert.insert_lsn).is_some()));
    assert!(index.memory_bytes() < most / 4, "given back");
    assert_eq!((index.partials.len(), index.live_bytes_total()), (1, 4 * 5 * 64));
}
