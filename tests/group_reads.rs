//! What a group read shows of a rollout is what a single read shows, in the order asked, in place, as of one state.
//!
//! Method: more rollouts than are looked up at a time, in several segments: inserted, recomputed, with KL reference
//! log-probs, missing, retired. Every answer of `get_many` and `with_rows` is held against that of `get`.

use rollstore::{Column, Error, ErrorKind, NewRollout, Options, Reason, Results, RolloutId, RolloutStore, Stale};

const ROLLOUTS: u64 = 200;
const STEP: u64 = 3;

fn options() -> Options {
    RolloutStore::options().window(8).segment_bytes(1 << 16)
}

fn logps(id: u64, version: u64) -> Vec<f32> {
    let value = |token| -f32::from(u16::try_from(id * 64 + version * 8 + token).unwrap());
    (0..=id % 5).map(value).collect()
}

/// Every third rollout is recomputed, every fifth has KL reference log-probs, every seventh none at all; 11 is retired.
fn filled(dir: &std::path::Path) -> RolloutStore {
    let store = options().open(dir).unwrap();
    for id in 0..ROLLOUTS {
        let rollout = NewRollout::new(id, id % 3).completion_ids(vec![1; usize::try_from(id % 5 + 1).unwrap()]);
        let rollout = if id % 7 == 0 { rollout } else { rollout.old_logps(logps(id, 0), 0) };
        let rollout = if id % 5 == 0 { rollout.kl_ref_logps(logps(id, 9), 0) } else { rollout };
        store.insert(rollout.column("ropes", vec![i64::try_from(id).unwrap()])).unwrap();
    }
    store.advance_ref_version(STEP, None).unwrap();
    let again: Vec<RolloutId> = (0..ROLLOUTS).filter(|id| id % 3 == 0 && id % 7 != 0).map(RolloutId::new).collect();
    let results: Results = again.iter().map(|id| (*id, logps(id.get(), 1))).collect();
    store.apply(store.plan_for(&again, STEP).unwrap(), results).unwrap();
    store.retire(&[11.into()], Reason::Trained).unwrap();
    store
}

/// Ids in an order of no meaning, one of them twice, with one that was retired and one that never was.
fn mixed() -> Vec<RolloutId> {
    let ids = (0..ROLLOUTS).map(|i| i * 77 % ROLLOUTS).chain([5, ROLLOUTS + 1]);
    ids.map(RolloutId::new).collect()
}

fn live_with_logps() -> Vec<RolloutId> {
    mixed().into_iter().filter(|id| id.get() < ROLLOUTS && id.get() != 11 && id.get() % 7 != 0).collect()
}

/// All that a view tells.
fn told(rollout: Option<&rollstore::Rollout>) -> String {
    let Some(rollout) = rollout else { return String::new() };
    let arrays = rollout.columns().into_iter().map(|info| format!("{:?}", rollout.values(&info.column).unwrap()));
    let arrays: Vec<_> = arrays.collect();
    let staleness = rollout.staleness(STEP);
    format!("{} {} {} {staleness:?} {arrays:?}", rollout.id(), rollout.born_step(), rollout.ref_version())
}

#[test]
fn many_views_tell_what_single_views_tell_in_the_order_asked() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let check = |store: &RolloutStore| {
        let many = store.get_many(&mixed()).unwrap();
        assert_eq!(many.len(), mixed().len());
        for (id, view) in mixed().into_iter().zip(&many) {
            assert_eq!(told(view.as_ref()), told(store.get(id).unwrap().as_ref()), "rollout {id}");
        }
        assert_eq!(many.iter().filter(|view| view.is_none()).count(), 2, "the retired one, and the one that never was");
    };
    check(&store);
    assert!(store.get_many(&[]).unwrap().is_empty());
    store.close().unwrap();
    // Nothing was checked by this opening.
    check(&options().open(dir.path()).unwrap());
}

#[test]
fn rows_are_the_very_bytes_that_views_borrow() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let ids = live_with_logps();
    let check = |store: &RolloutStore| {
        let views = store.get_many(&ids).unwrap();
        let rows = store.with_rows(&ids, Column::OldLogps, STEP, Stale::Allow, |rows: &[&[f32]]| {
            for (view, row) in views.iter().flatten().zip(rows) {
                let id = view.id().get();
                assert_eq!(*row, logps(id, u64::from(id % 3 == 0)), "rollout {id}");
                assert_eq!(row.as_ptr(), view.old_logps().unwrap().as_ptr(), "rollout {id} was copied");
            }
            Ok(rows.len())
        });
        assert_eq!(rows.unwrap(), ids.len());
    };
    check(&store);
    store.close().unwrap();
    let store = options().open(dir.path()).unwrap();
    check(&store);
    // The second time they are found without being opened.
    check(&store);
}

#[test]
fn rows_of_any_column_and_type_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let ids = live_with_logps();
    for _ in 0..2 {
        let own = |rows: &[&[i64]]| Ok(rows.iter().map(|row| row[0]).collect::<Vec<_>>());
        let own = store.with_rows(&ids, Column::from("ropes"), STEP, Stale::Error, own).unwrap();
        assert_eq!(own, ids.iter().map(|id| i64::try_from(id.get()).unwrap()).collect::<Vec<_>>());
        let tokens = |rows: &[&[u32]]| Ok(rows.iter().map(|row| row.len()).sum::<usize>() as u64);
        let tokens = store.with_rows(&ids, Column::CompletionIds, STEP, Stale::Error, tokens).unwrap();
        assert_eq!(tokens, ids.iter().map(|id| id.get() % 5 + 1).sum::<u64>());
    }
}

#[test]
fn what_cannot_be_read_is_refused_before_the_closure_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let refused = |ids: &[u64], column: Column, stale: Stale| {
        let ids: Vec<RolloutId> = ids.iter().copied().map(RolloutId::new).collect();
        let called = |_: &[&[f32]]| -> Result<(), Error> { panic!("called") };
        store.with_rows(&ids, column, STEP, stale, called).unwrap_err()
    };
    let cases = [
        (refused(&[1, 11], Column::OldLogps, Stale::Allow), ErrorKind::NotFound, "rollout 11 is not live"),
        (refused(&[1, 7], Column::OldLogps, Stale::Allow), ErrorKind::NotFound, "rollout 7 has no old_logps"),
        (refused(&[3, 1], Column::OldLogps, Stale::Error), ErrorKind::Invalid, "rollout 1: old_logps of version 0"),
        (refused(&[3], Column::CompletionIds, Stale::Allow), ErrorKind::Invalid, "float32 ones were asked for"),
    ];
    for (error, kind, part) in cases {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{part:?} is not in \"{error}\"");
    }
}

#[test]
fn an_error_of_the_closure_comes_back_and_counts_as_no_use() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    // The next commit carries the counts.
    let asked = || store.set_cursor(b"counted").and_then(|_| store.stats()).unwrap().counters.asked;
    // The first time through the views, the second without them.
    for _ in 0..2 {
        let before = asked();
        let fails = |_: &[&[f32]]| Err::<(), _>(Error::invalid("no rows like these"));
        let error = store.with_rows(&[1.into()], Column::OldLogps, STEP, Stale::Allow, fails).unwrap_err();
        assert_eq!(error.to_string(), Error::invalid("no rows like these").to_string());
        assert_eq!(asked(), before);
        store.with_rows(&[1.into()], Column::OldLogps, STEP, Stale::Allow, |_: &[&[f32]]| Ok(())).unwrap();
        assert_eq!(asked(), before + 1);
    }
}
