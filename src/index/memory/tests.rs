//! The index against a model that keeps every frame and works out each answer from all of them.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::index::Replay;
use crate::index::frame_size::rounded;

#[derive(Debug, Clone, Copy)]
enum Op {
    Insert {
        id: u64,
        created: u64,
        version: u64,
        has: u16,
    },
    Old {
        id: u64,
        born: u64,
        version: u64,
        used: bool,
    },
    Kl {
        id: u64,
        version: u64,
    },
    MarkUsed {
        id: u64,
    },
    Retire {
        id: u64,
    },
    /// Tell an earlier frame again.
    Again {
        nth: usize,
    },
    Flush,
}

fn op() -> impl Strategy<Value = Op> {
    let id = 0_u64..12;
    let step = 0_u64..6;
    prop_oneof![
        4 => (id.clone(), step.clone(), 0_u64..4, 0_u16..8)
            .prop_map(|(id, created, version, has)| Op::Insert { id, created, version, has }),
        4 => (id.clone(), step, 0_u64..4, any::<bool>())
            .prop_map(|(id, born, version, used)| Op::Old { id, born, version, used }),
        2 => (id.clone(), 0_u64..3).prop_map(|(id, version)| Op::Kl { id, version }),
        1 => id.clone().prop_map(|id| Op::MarkUsed { id }),
        2 => id.prop_map(|id| Op::Retire { id }),
        2 => any::<usize>().prop_map(|nth| Op::Again { nth }),
        1 => Just(Op::Flush),
    ]
}

/// A live rollout of the model: all frames that it is made of.
#[derive(Debug, Clone)]
struct Live {
    insert: FrameEntry,
    updates: Vec<FrameEntry>,
    marked_used: bool,
}

/// Each frame lies where its number says, so that a wrong location is seen.
fn place(lsn: Lsn) -> Location {
    let lsn = u32::try_from(lsn.get()).unwrap();
    Location { segment: SegmentId(lsn / 16), offset_units: lsn }
}

/// Each frame has a length of its own, some of them beyond what is kept exactly.
fn units(lsn: Lsn) -> u32 {
    u32::try_from(lsn.get() * 37 % 5000).unwrap() + 4
}

impl Live {
    fn of_kind(&self, kind: EntryKind) -> impl Iterator<Item = &FrameEntry> {
        self.updates.iter().filter(move |frame| frame.kind == kind)
    }

    fn row(&self) -> Row {
        let insert = &self.insert;
        let newest_old = self.of_kind(EntryKind::OldLogps).max_by_key(|frame| frame.lsn);
        let newest_kl = self.of_kind(EntryKind::KlRefLogps).max_by_key(|frame| frame.lsn);
        let with_old = newest_old.or(insert.has.contains(Has::OLD).then_some(insert));
        let with_kl = newest_kl.or(insert.has.contains(Has::KL_REF).then_some(insert));
        let used = self.marked_used || self.updates.iter().any(|frame| frame.has.contains(Has::USED));
        let facts = [(with_old.is_some(), Has::OLD), (with_kl.is_some(), Has::KL_REF), (used, Has::USED)];
        let has = facts.iter().filter(|(holds, _)| *holds).fold(insert.has, |has, (_, fact)| has.with(*fact));
        let has_behaviour = insert.has.contains(Has::OLD) || insert.has.contains(Has::SAMPLER);
        let first_old = self.of_kind(EntryKind::OldLogps).min_by_key(|frame| frame.lsn).filter(|_| !has_behaviour);
        let entry = Entry {
            id: insert.id,
            insert: place(insert.lsn),
            old: place(with_old.unwrap_or(insert).lsn),
            insert_lsn: insert.lsn,
            old_lsn: with_old.map_or(Lsn::NONE, |frame| frame.lsn),
            created_step: insert.created_step,
            born_step: with_old.unwrap_or(insert).born_step,
            ref_version: with_old.unwrap_or(insert).ref_version,
            token_count: insert.token_count,
            insert_units: rounded(insert.frame_units),
            old_units: rounded(with_old.unwrap_or(insert).frame_units),
            group: insert.group,
            has,
        };
        let kl = with_kl.map(|frame| KlEntry {
            at: place(frame.lsn),
            lsn: frame.lsn,
            units: frame.frame_units,
            version: frame.kl_version,
        });
        let first_old =
            first_old.map(|frame| FirstOld { at: place(frame.lsn), lsn: frame.lsn, units: frame.frame_units });
        Row { entry, extra: Extra { kl, first_old } }
    }
}

/// The model: what was told, and what must hold.
#[derive(Debug, Default)]
struct Model {
    live: BTreeMap<u64, Live>,
    frames: Vec<FrameEntry>,
    /// The highest incarnation of each id that is over: retired, or replaced.
    over: BTreeMap<u64, Lsn>,
}

fn blank(kind: EntryKind, id: u64, lsn: Lsn, insert_lsn: Lsn) -> FrameEntry {
    FrameEntry {
        kind,
        id: RolloutId::new(id),
        lsn,
        insert_lsn,
        offset_units: place(lsn).offset_units,
        born_step: 0,
        ref_version: 0,
        created_step: 0,
        kl_version: 0,
        token_count: 0,
        frame_units: units(lsn),
        group: None,
        has: Has::default(),
    }
}

impl Model {
    fn is_over(&self, frame: &FrameEntry) -> bool {
        self.over.get(&frame.id.get()).is_some_and(|over| frame.insert_lsn <= *over)
    }

    fn end(&mut self, id: u64) -> Option<Live> {
        let live = self.live.remove(&id)?;
        self.over.insert(id, live.insert.lsn);
        Some(live)
    }

    /// Does one operation to the model and to the index.
    fn step(&mut self, op: Op, index: &mut MemoryIndex, told: &mut BTreeMap<RolloutId, Row>) {
        let lsn = Lsn::new(self.frames.len() as u64 + 1);
        let incarnation = |model: &Self, id| model.live.get(&id).map_or(Lsn::new(1), |live| live.insert.lsn);
        let frame = match op {
            Op::Insert { id, created, version, has } => {
                self.end(id);
                let token_count = u32::try_from(lsn.get()).unwrap() * 3;
                let blank = blank(EntryKind::Insert, id, lsn, lsn);
                let (created_step, born_step) = (created, created);
                FrameEntry {
                    created_step,
                    born_step,
                    ref_version: version,
                    kl_version: version,
                    token_count,
                    group: (id % 3 > 0).then_some(id % 3),
                    has: Has(has),
                    ..blank
                }
            }
            Op::Old { id, born, version, used } => {
                let has = if used { Has::OLD.with(Has::USED) } else { Has::OLD };
                let blank = blank(EntryKind::OldLogps, id, lsn, incarnation(self, id));
                FrameEntry { born_step: born, ref_version: version, has, ..blank }
            }
            Op::Kl { id, version } => {
                let blank = blank(EntryKind::KlRefLogps, id, lsn, incarnation(self, id));
                FrameEntry { kl_version: version, has: Has::KL_REF, ..blank }
            }
            Op::Again { nth } => {
                let Some(frame) = self.frames.get(nth % self.frames.len().max(1)).copied() else { return };
                if !self.is_over(&frame) {
                    index.apply(place(frame.lsn).segment, &frame);
                }
                return;
            }
            Op::MarkUsed { id } => {
                if let Some(live) = self.live.get_mut(&id) {
                    assert!(!index.mark_used(RolloutId::new(id), live.insert.lsn));
                    let news = !live.row().entry.has.contains(Has::USED);
                    assert_eq!(index.mark_used(RolloutId::new(id), live.insert.lsn.next()), news);
                    live.marked_used = true;
                }
                return;
            }
            Op::Retire { id } => {
                let expected = self.end(id).map(|live| live.row().entry);
                let insert_lsn = expected.map_or(Lsn::new(1), |entry| entry.insert_lsn);
                assert_eq!(index.retire(RolloutId::new(id), insert_lsn.next()), None);
                assert_eq!(index.retire(RolloutId::new(id), insert_lsn), expected);
                return;
            }
            Op::Flush => return flush(index, told),
        };
        index.apply(place(lsn).segment, &frame);
        self.frames.push(frame);
        if frame.kind == EntryKind::Insert {
            self.live.insert(frame.id.get(), Live { insert: frame, updates: Vec::new(), marked_used: false });
        } else if let Some(live) = self.live.get_mut(&frame.id.get()) {
            live.updates.push(frame);
        }
    }

    fn rows(&self) -> Vec<Row> {
        self.live.values().map(Live::row).collect()
    }
}

/// What a flush does to the rows on disk.
fn flush(index: &mut MemoryIndex, told: &mut BTreeMap<RolloutId, Row>) {
    let changes = index.take_changes();
    told.extend(changes.upserts.iter().map(|row| (row.entry.id, *row)));
    for id in &changes.removed {
        told.remove(id);
    }
}

fn rows(index: &MemoryIndex) -> Vec<Row> {
    let mut rows: Vec<Row> =
        index.iter().map(|entry| Row { entry, extra: index.extra(entry.id).copied().unwrap_or_default() }).collect();
    rows.sort_unstable_by_key(|row| row.entry.id);
    rows
}

fn ordered(rows: &[Row], wanted: impl Fn(&Entry) -> bool) -> Vec<RolloutId> {
    let mut found: Vec<_> =
        rows.iter().map(|row| row.entry).filter(wanted).map(|entry| (entry.born_step, entry.id)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, id)| id).collect()
}

fn sorted(mut ids: Vec<RolloutId>) -> Vec<RolloutId> {
    ids.sort_unstable();
    ids
}

fn check_scans(index: &MemoryIndex, rows: &[Row]) {
    for bound in [None, Some(0), Some(1), Some(3), Some(6), Some(u64::MAX)] {
        for stale_below in 0..=4 {
            let expected = ordered(rows, |entry| {
                bound.is_some_and(|bound| entry.born_step < bound) || entry.ref_version < stale_below
            });
            let before = index.touched();
            assert_eq!(index.count(bound, |version| version < stale_below), expected.len());
            assert_eq!(index.touched(), before);
            let selected = index.select(bound, |version| version < stale_below);
            assert_eq!(index.touched() - before, expected.len() as u64);
            let ordered: Vec<RolloutId> = index.select_in_order(bound, |version| version < stale_below).collect();
            assert_eq!(index.touched() - before, 2 * expected.len() as u64);
            assert_eq!((sorted(selected), ordered), (sorted(expected.clone()), expected));
        }
    }
    assert_eq!(index.all_in_order(), ordered(rows, |_| true));
    for bound in [0, 2, 5, u64::MAX] {
        let created: Vec<RolloutId> = {
            let mut created: Vec<_> = rows.iter().map(|row| row.entry).filter(|e| e.created_step < bound).collect();
            created.sort_unstable_by_key(|entry| entry.id);
            created.iter().map(|entry| entry.id).collect()
        };
        let mut found = index.created_before(bound);
        found.sort_unstable();
        assert_eq!((index.count_created_before(bound), found), (created.len(), created));
        let expected = ordered(rows, |entry| entry.born_step > bound);
        assert_eq!(index.count_born_above(bound), expected.len());
        assert_eq!(sorted(index.born_above(bound)), sorted(expected));
    }
}

fn check_groups(index: &MemoryIndex, rows: &[Row]) {
    for group in 0..4 {
        let members: Vec<_> =
            rows.iter().filter(|row| row.entry.group == Some(group)).map(|row| row.entry.id).collect();
        assert_eq!((index.group_len(group), index.group(group)), (members.len(), members));
    }
}

/// What is alive, counted from the rows: each frame once, wherever a row points to it twice.
fn check_live(index: &MemoryIndex, rows: &[Row]) {
    let mut live: BTreeMap<SegmentId, u64> = BTreeMap::new();
    for Row { entry, extra } in rows {
        let mut frames = BTreeMap::from([(place(entry.insert_lsn), entry.insert_units)]);
        frames.entry(entry.old).or_insert(entry.old_units);
        extra.kl.iter().for_each(|kl| {
            frames.entry(kl.at).or_insert(kl.units);
        });
        extra.first_old.iter().for_each(|first| {
            frames.entry(first.at).or_insert(first.units);
        });
        for (at, units) in frames {
            *live.entry(at.segment).or_default() += u64::from(units) * Location::UNIT_BYTES;
        }
    }
    assert_eq!(index.live_bytes_total(), live.values().sum::<u64>());
    for (segment, bytes) in live {
        assert_eq!(index.live_bytes(segment), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_index_answers_as_the_model_does(ops in prop::collection::vec(op(), 0..120)) {
        let (mut model, mut index, mut told) = (Model::default(), MemoryIndex::default(), BTreeMap::new());
        for op in ops {
            model.step(op, &mut index, &mut told);
        }
        let expected = model.rows();
        prop_assert_eq!(rows(&index), expected.clone());
        prop_assert_eq!(index.len(), expected.len());
        prop_assert_eq!(index.token_total(), expected.iter().map(|row| u64::from(row.entry.token_count)).sum::<u64>());
        for row in &expected {
            prop_assert_eq!(index.get(row.entry.id), Some(row.entry));
        }
        check_scans(&index, &expected);
        check_groups(&index, &expected);
        check_live(&index, &expected);
        flush(&mut index, &mut told);
        prop_assert_eq!(told.into_values().collect::<Vec<_>>(), expected);
        prop_assert_eq!(index.changes_len(), 0);
    }

    #[test]
    fn i2_any_order_of_a_history_gives_the_same_index(ops in prop::collection::vec(op(), 0..120), seed: u64) {
        let (mut model, mut index, mut told) = (Model::default(), MemoryIndex::default(), BTreeMap::new());
        for op in ops {
            model.step(op, &mut index, &mut told);
        }
        let mut frames = model.frames.clone();
        frames.shuffle(&mut StdRng::seed_from_u64(seed));
        let mut replay = Replay::new(MemoryIndex::default());
        for frame in frames.iter().filter(|frame| !model.is_over(frame)) {
            replay.apply(place(frame.lsn).segment, frame);
        }
        let mut replayed = replay.finish();
        for live in model.live.values().filter(|live| live.marked_used) {
            replayed.mark_used(live.insert.id, live.insert.lsn.next());
        }
        prop_assert_eq!(rows(&replayed), rows(&index));
        check_scans(&replayed, &model.rows());
    }
}

fn insert(id: u64, lsn: u64, born_step: u64, ref_version: u64) -> FrameEntry {
    let blank = blank(EntryKind::Insert, id, Lsn::new(lsn), Lsn::new(lsn));
    FrameEntry { born_step, created_step: born_step, ref_version, has: Has::OLD, token_count: 10, ..blank }
}

fn filled(rollouts: u64) -> MemoryIndex {
    let mut index = MemoryIndex::default();
    for id in 0..rollouts {
        index.apply(SegmentId(1), &insert(id, id + 1, 0, 0));
    }
    index
}

#[test]
fn i3_scans_touch_only_what_they_return_after_random_recomputes() {
    let mut index = filled(10_000);
    let mut ids: Vec<u64> = (0..10_000).collect();
    let mut random = StdRng::seed_from_u64(7);
    ids.shuffle(&mut random);
    for (nth, id) in ids.iter().take(5_000).enumerate() {
        let update = blank(EntryKind::OldLogps, *id, Lsn::new(10_001 + nth as u64), Lsn::new(*id + 1));
        let update = FrameEntry { born_step: random.random_range(1..4), ref_version: 1, ..update };
        index.apply(SegmentId(2), &update);
    }
    let mut untouched = ids.split_off(5_000);
    untouched.sort_unstable();
    let stale = sorted(index.select(Some(1), |version| version == 0));
    assert_eq!(stale.iter().map(|id| id.get()).collect::<Vec<_>>(), untouched);
    assert_eq!(index.touched(), 5_000);
    assert_eq!(index.count(Some(4), |_| false), 10_000);
    assert_eq!(index.touched(), 5_000, "a count looks at no rollout");
}

#[test]
fn a_union_is_handed_out_oldest_born_first_then_by_id() {
    let mut index = MemoryIndex::default();
    let rollouts = [(5, 1, 0), (1, 3, 0), (9, 1, 2), (2, 1, 1), (7, 2, 2), (3, 3, 2)];
    for (nth, (id, born, version)) in rollouts.into_iter().enumerate() {
        index.apply(SegmentId(1), &insert(id, nth as u64 + 1, born, version));
    }
    let selected: Vec<u64> = index.select_in_order(Some(2), |version| version == 0).map(RolloutId::get).collect();
    assert_eq!(selected, [2, 5, 9, 1]);
}

#[test]
fn equal_histories_give_equal_lists() {
    let scanned = || {
        let mut index = filled(3_000);
        for (nth, id) in (0..3_000).step_by(7).enumerate() {
            let update = blank(EntryKind::OldLogps, id, Lsn::new(3_001 + nth as u64), Lsn::new(id + 1));
            index.apply(SegmentId(2), &FrameEntry { born_step: id % 5, ref_version: id % 3, ..update });
            index.retire(RolloutId::new(id + 1), Lsn::new(id + 2));
        }
        (index.select(Some(3), |version| version == 1), index.born_above(2))
    };
    assert_eq!(scanned(), scanned());
}

#[test]
fn a_frame_told_twice_is_no_change() {
    let mut index = filled(2);
    index.take_changes();
    index.apply(SegmentId(1), &insert(0, 1, 0, 0));
    index.apply(SegmentId(9), &blank(EntryKind::OldLogps, 1, Lsn::new(9), Lsn::new(1)));
    assert_eq!(index.changes_len(), 0);
}

#[test]
fn a_late_older_frame_that_tells_of_a_use_is_a_change() {
    let mut index = filled(1);
    let update = |lsn, has| FrameEntry { has, ..blank(EntryKind::OldLogps, 0, Lsn::new(lsn), Lsn::new(1)) };
    index.apply(SegmentId(1), &update(9, Has::OLD));
    index.take_changes();
    index.apply(SegmentId(1), &update(8, Has::OLD.with(Has::USED)));
    let changes = index.take_changes();
    assert_eq!(changes.upserts.iter().map(|row| row.entry.old_lsn).collect::<Vec<_>>(), [Lsn::new(9)]);
    assert!(index.get(RolloutId::new(0)).unwrap().has.contains(Has::USED));
}

#[test]
fn frames_written_again_to_a_newer_segment_are_held_there_in_any_order() {
    let old = |lsn| FrameEntry { has: Has::OLD, ..blank(EntryKind::OldLogps, 0, Lsn::new(lsn), Lsn::new(1)) };
    let kl = FrameEntry { has: Has::KL_REF, ..blank(EntryKind::KlRefLogps, 0, Lsn::new(4), Lsn::new(1)) };
    let frames = [blank(EntryKind::Insert, 0, Lsn::new(1), Lsn::new(1)), old(2), old(3), kl];
    let tell = |index: &mut MemoryIndex, segment| {
        for frame in &frames {
            index.apply(SegmentId(segment), frame);
        }
    };
    let row = |segments: [u32; 2]| {
        let mut index = MemoryIndex::default();
        tell(&mut index, segments[0]);
        index.take_changes();
        tell(&mut index, segments[1]);
        (rows(&index), index.changes_len())
    };
    let ((forth, changed), (back, unchanged)) = (row([1, 2]), row([2, 1]));
    assert_eq!(forth, back);
    assert!(forth[0].frames().all(|(at, _)| at.segment == SegmentId(2)), "{forth:?}");
    assert_eq!(forth[0].frames().count(), 4, "insert, newest and first old logps, KL reference");
    assert_eq!((changed, unchanged), (1, 0));
}

#[test]
fn m7_who_was_asked_for_is_known_until_it_ends_and_its_row_says_nothing_of_it() {
    let ask = |index: &MemoryIndex, id: u64, lsn: u64| index.ask(RolloutId::new(id), Lsn::new(lsn));
    let asked = |index: &MemoryIndex, id: u64, lsn: u64| index.is_asked(RolloutId::new(id), Lsn::new(lsn));
    let mut index = filled(20_000);
    index.take_changes();
    assert_eq!(
        [ask(&index, 3, 4), ask(&index, 3, 4), ask(&index, 3, 5)],
        [true, false, false],
        "once, of this incarnation"
    );
    assert!(asked(&index, 3, 4) && !asked(&index, 3, 5) && !asked(&index, 4, 5));
    assert_eq!((index.changes_len(), index.get(RolloutId::new(3)).unwrap().has.contains(Has::USED)), (0, false));
    for id in 100..20_000 {
        index.retire(RolloutId::new(id), Lsn::new(id + 1));
    }
    assert!(asked(&index, 3, 4), "the index was made anew, smaller");
    assert_eq!((0..100).filter(|id| asked(&index, *id, id + 1)).count(), 1);
    index.retire(RolloutId::new(3), Lsn::new(4));
    index.apply(SegmentId(1), &insert(3, 30_000, 0, 0));
    assert!(!asked(&index, 3, 30_000), "a new rollout in the same slot");
    index.mark_used(RolloutId::new(3), Lsn::new(30_001));
    assert!(asked(&index, 3, 30_000) && !ask(&index, 3, 30_000), "an earlier life told of it");
}
