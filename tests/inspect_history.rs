//! A rollout's history: every frame of it that the log has, all incarnations, and what became of each.
//!
//! Method: rollouts whose lives are known, ended in each way that there is, before and after a compaction, are asked for.

use std::path::Path;

use rollstore::inspect::{self, Fate, History, Said};
use rollstore::{CompactBudget, NewRollout, Plan, Reason, Results, Rewind, RolloutId, RolloutStore};

const ID: RolloutId = RolloutId::new(7);

fn open(dir: &Path) -> RolloutStore {
    RolloutStore::options().window(8).background_compaction(false).open(dir).unwrap()
}

fn rollout(store: &RolloutStore, step: u64) -> NewRollout<'static> {
    NewRollout::new(ID, step).completion_ids(vec![1, 2]).old_logps(vec![-0.5; 2], store.ref_version())
}

fn compute(store: &RolloutStore, step: u64) {
    let results = |plan: &Plan| plan.ids().map(|id| (id, vec![-0.75; 2])).collect::<Results>();
    let plan = store.plan_for(&[ID], step).unwrap();
    let results = results(&plan);
    assert_eq!(store.apply(plan, results).unwrap().computed, 1);
}

fn history(dir: &Path) -> History {
    let history = inspect::history(dir, ID).unwrap();
    assert!(history.damage.is_empty(), "{history:?}");
    history
}

fn fates(history: &History) -> Vec<Fate> {
    history.frames.iter().map(|told| told.fate).collect()
}

#[test]
fn what_was_computed_again_is_superseded_and_the_newest_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.insert(rollout(&store, 0)).unwrap();
    store.insert(NewRollout::new(8, 0)).unwrap();
    store.advance_ref_version(1, None).unwrap();
    compute(&store, 1);
    store.advance_ref_version(2, None).unwrap();
    compute(&store, 2);
    let history = history(dir.path());
    let [_, first, second] = [0, 1, 2].map(|at| history.frames[at].frame.lsn);
    let expected = [Fate::PartlySuperseded { by: first }, Fate::Superseded { by: second }, Fate::Served];
    assert_eq!(fates(&history), expected);
    let versions: Vec<_> = history.frames.iter().map(|told| told.frame.said.clone()).collect();
    assert!(matches!(versions[0], Said::Insert { ref_version: Some(0), .. }), "{versions:?}");
    assert_eq!(versions[2], Said::OldLogps { born_step: 2, ref_version: 2 });
    assert!(history.frames.iter().all(|told| told.incarnation == history.frames[0].frame.lsn));
}

#[test]
fn each_way_to_end_is_told_with_its_reason_and_its_frame() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.insert(rollout(&store, 0)).unwrap();
    store.retire(&[ID], Reason::Trained).unwrap();
    store.insert(rollout(&store, 1)).unwrap();
    store.advance_ref_version(1, None).unwrap();
    store.retire_created_before(2, Reason::Evicted).unwrap();
    store.insert(rollout(&store, 3)).unwrap();
    store.replace(rollout(&store, 4)).unwrap();
    store.rewind(1, Rewind::Drop).unwrap();
    store.insert(rollout(&store, 1)).unwrap();
    let history = history(dir.path());
    let reasons: Vec<_> = history
        .frames
        .iter()
        .filter_map(|told| match told.fate {
            Fate::Ended { by, reason } => Some((reason.unwrap(), by.unwrap())),
            _ => None,
        })
        .collect();
    let by_reason: Vec<_> = reasons.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(by_reason, [Reason::Trained, Reason::Evicted, Reason::Superseded, Reason::Rewound]);
    for (_, by) in reasons {
        let end = history.frames.iter().find(|told| told.frame.lsn == by).unwrap();
        assert_eq!(end.fate, Fate::End);
    }
    assert_eq!(history.frames.last().unwrap().fate, Fate::Served, "the newest incarnation lives");
    assert_eq!(history.frames.len(), 9, "five inserts and four ends");
}

#[test]
fn pieces_are_part_of_the_history_and_end_with_the_rollout_that_they_become() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.begin_partial(NewRollout::new(ID, 0)).unwrap();
    store.append(ID, vec![1, 2], vec![-0.5, -0.5], (0, 2)).unwrap();
    assert_eq!(fates(&history(dir.path())), [Fate::Served, Fate::Served]);
    store.finish(NewRollout::new(ID, 0)).unwrap();
    let history = history(dir.path());
    let by = history.frames[2].frame.lsn;
    let ended = Fate::Ended { by: Some(by), reason: None };
    assert_eq!(fates(&history), [ended, ended, Fate::End, Fate::Served]);
}

#[test]
fn after_a_compaction_the_copy_is_served_and_what_was_given_back_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.insert(rollout(&store, 0)).unwrap();
    for id in 100..140 {
        store.insert(NewRollout::new(id, 0).column("ballast", vec![0_u8; 4096])).unwrap();
    }
    let gone: Vec<RolloutId> = (100..140).map(Into::into).collect();
    store.retire(&gone, Reason::Trained).unwrap();
    let saved = dir.path().join("saved");
    store.checkpoint(&saved).unwrap();
    assert!(store.compact(CompactBudget::bytes(64 << 20)).unwrap().copied_bytes > 0);
    let after = history(dir.path());
    assert_eq!(fates(&after), [Fate::Served]);
    assert!(after.frames[0].frame.is_moved);
    assert_eq!(fates(&history(&saved)), [Fate::Served], "a checkpoint is as it was");
    assert_eq!(inspect::history(dir.path(), 999.into()).unwrap().frames, [], "the log tells nothing of it");
}

#[test]
fn an_update_whose_insert_is_damaged_says_that_the_incarnation_is_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let insert = store.insert(rollout(&store, 0)).unwrap();
    store.advance_ref_version(1, None).unwrap();
    compute(&store, 1);
    store.close().unwrap();
    let place = history(dir.path()).frames[0].frame.clone();
    let segment = dir.path().join(format!("seg-{:08}.log", place.segment));
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[usize::try_from(place.offset).unwrap() + 20] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let history = inspect::history(dir.path(), ID).unwrap();
    assert_eq!((history.incomplete.as_slice(), history.damage.len()), ([insert].as_slice(), 1));
    assert_eq!(fates(&history), [Fate::Served]);
}
