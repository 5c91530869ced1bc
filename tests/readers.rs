//! Readers see committed states alone, whatever writers do meanwhile.
//!
//! Method: what is written can be checked by whoever reads it. Rollouts come in pairs that only ever change together, in
//! one batch, and each array says which rollout, version and round it is of. Bounded by numbers of rounds, not by time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rollstore::{
    Budget, Column, Flat, NewRollout, Plan, Reads, Reason, Results, Rollout, RolloutId, RolloutStore, Stale,
};
use rollstore_testkit::values::logp;

const READERS: u64 = 8;
const PAIRS: u64 = 16;
const ROUNDS: u64 = 60;
/// Odd, and enough that segments of 64 KiB are rolled every other round.
const TOKENS: usize = 199;
const STEP: u64 = 1;

/// The partner of each id is the one that differs in the lowest bit.
fn pair(number: u64) -> [RolloutId; 2] {
    [RolloutId::new(number * 2), RolloutId::new(number * 2 + 1)]
}

/// Old logps that say which pair and which version they are of.
fn logps(pair: u64, version: u64) -> Vec<f32> {
    let mut values = vec![logp(version); TOKENS];
    values[0] = logp(pair);
    values
}

fn rollout(id: RolloutId, version: u64, round: u64) -> NewRollout<'static> {
    NewRollout::new(id, STEP)
        .completion_ids(vec![u32::try_from(round).unwrap(); TOKENS])
        .metadata(&round.to_le_bytes())
        .old_logps(logps(id.get() / 2, version), version)
}

fn open(reads: Reads) -> (tempfile::TempDir, RolloutStore) {
    let dir = tempfile::tempdir().unwrap();
    let options = RolloutStore::options().window(8).max_version_lag(0).segment_bytes(64 << 10).reads(reads);
    let store = options.open(dir.path().join("rollouts")).unwrap();
    (dir, store)
}

/// Every array of one view is of the rollout, the version and the round that the view says.
fn check_view(view: &Rollout) {
    let logps = view.old_logps().unwrap();
    let pair = view.id().get() / 2;
    assert_eq!(logps.len(), TOKENS);
    assert_eq!(logps[..1], [logp(pair)], "rollout {} shows another one's log-probs", view.id());
    let version = [logp(view.ref_version()); TOKENS - 1];
    assert_eq!(logps[1..], version, "rollout {} shows another version's log-probs", view.id());
    let round = u32::from_le_bytes(view.metadata()[..4].try_into().unwrap());
    assert_eq!(view.completion_ids().unwrap(), [round; TOKENS], "rollout {} mixes two incarnations", view.id());
    assert!(view.staleness(STEP).lag.is_some(), "no version was ever abandoned");
}

/// Both halves of a pair are there, of the same round and version, or neither is.
fn check_pair(store: &RolloutStore, number: u64) -> bool {
    let mut versions = Flat::<f32>::default();
    if store.gather(&pair(number), Column::OldLogps, STEP, Stale::Allow, &mut versions).is_err() {
        return false;
    }
    let (first, second) = versions.values.split_at(TOKENS);
    assert_eq!(first, second, "pair {number}: one call saw two states");
    assert_eq!(first[..1], [logp(number)]);
    let mut rounds = Flat::<u32>::default();
    if store.gather(&pair(number), Column::CompletionIds, STEP, Stale::Allow, &mut rounds).is_ok() {
        let round = rounds.values[0];
        assert!(rounds.values.iter().all(|value| *value == round), "pair {number}: one call saw two states");
    }
    true
}

fn read(store: &RolloutStore, reader: u64, done: &AtomicBool, seen: &AtomicU64) {
    let mut number = reader;
    let mut version = 0;
    // Once more after the writers are done, so that every reader reads something.
    let mut last = false;
    while !last {
        last = done.load(Ordering::Acquire);
        number = (number * 5 + 1) % PAIRS;
        if check_pair(store, number) {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        for id in pair(number) {
            if let Some(view) = store.get(id).unwrap() {
                check_view(&view);
            }
        }
        let now = store.ref_version();
        assert!(now >= version, "versions ran backwards: {version}, then {now}");
        version = now;
        assert_eq!(store.len() % 2, 0, "half a batch is seen");
        let all = store.ids();
        assert_eq!(all.len() % 2, 0, "half a batch is seen");
        assert_eq!(all.iter().map(|id| id.get() & 1).sum::<u64>() * 2, all.len() as u64);
        let plan = store.plan_due(STEP, Budget::rollouts(4)).unwrap();
        plan.rollouts().for_each(check_view);
    }
}

fn compute(work: &Plan) -> Results {
    work.ids().map(|id| (id, logps(id.get() / 2, work.ref_version()))).collect()
}

/// Replaces, retires, inserts and recomputes pairs, each change of a pair in one batch.
fn write(store: &RolloutStore, writer: u64, round: u64) {
    let version = store.ref_version();
    for number in (0..PAIRS).filter(|number| number % 2 == writer && (number / 2 + round).is_multiple_of(4)) {
        let live = store.get(pair(number)[0]).unwrap().is_some();
        let mut batch = store.batch();
        if live && round.is_multiple_of(3) {
            batch.retire(&pair(number), Reason::Trained);
        } else {
            for id in pair(number) {
                let rollout = rollout(id, version, round);
                if live { batch.replace(rollout).unwrap() } else { batch.insert(rollout).unwrap() }
            }
        }
        batch.commit().unwrap();
    }
    // One plan and one commit: both halves of a pair get the new version together.
    let mine: Vec<RolloutId> = store
        .ids()
        .into_iter()
        .filter(|id| id.get() / 2 % 2 == writer && (id.get() / 2 + round).is_multiple_of(5))
        .collect();
    let plan = store.plan_for(&mine, STEP).unwrap();
    let results = compute(&plan);
    store.apply(plan, results).unwrap();
}

fn readers_beside_writers(reads: Reads) {
    let (_dir, store) = open(reads);
    let (done, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (store, done, seen) = (&store, &done, &seen);
                scope.spawn(move || read(store, reader, done, seen))
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        write(store, writer, round);
                        if writer == 0 {
                            store.advance_ref_version(STEP, None).unwrap();
                        }
                    }
                })
            })
            .collect();
        let written = writers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>();
        done.store(true, Ordering::Release);
        let read = readers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>();
        assert!(written.iter().chain(&read).all(Result::is_ok), "a thread saw what it must not");
    });
    assert!(seen.load(Ordering::Relaxed) > 0, "readers met pairs");
    let stats = store.stats().unwrap();
    assert_eq!(stats.ref_version, ROUNDS);
    assert!(stats.appended_bytes > 4 * (64 << 10), "{} bytes: rolling was part of it", stats.appended_bytes);
    assert!(stats.counters.computed > 0 && stats.counters.retired_total() > 0);
}

#[test]
fn d5_readers_of_maps_see_committed_states_alone() {
    readers_beside_writers(Reads::Mapped);
}

#[test]
fn d5_readers_of_copies_see_committed_states_alone() {
    readers_beside_writers(Reads::Copied);
}
