//! The log, frame by frame: every frame once, in order, as it says; past damage, beside a writer, after a compaction.
//!
//! Method: stores whose frames are known are read by `inspect::log`, also while a thread writes and compacts, and after bytes
//! of them were changed or cut off.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rollstore::inspect::{self, Log, LogFrame, LogItem, Said};
use rollstore::{CompactBudget, NewRollout, Reason, Results, RolloutId, RolloutStore, limits};

fn rollout(id: u64, step: u64, version: u64) -> NewRollout<'static> {
    NewRollout::new(id, step).completion_ids(vec![1, 2, 3]).old_logps(vec![-0.5; 3], version)
}

/// What the log tells until its end: frames, and how many places of damage.
fn told(log: &mut Log<'_>) -> (Vec<LogFrame>, usize) {
    let (mut frames, mut damaged) = (Vec::new(), 0);
    for item in log {
        match item.unwrap() {
            LogItem::Frame(frame) => frames.push(frame),
            LogItem::Damage(_) => damaged += 1,
            other => panic!("{other:?}"),
        }
    }
    (frames, damaged)
}

fn lsns(frames: &[LogFrame]) -> Vec<u64> {
    frames.iter().map(|frame| frame.lsn.get()).collect()
}

fn kinds(frames: &[LogFrame]) -> Vec<&'static str> {
    frames.iter().map(|frame| frame.kind).collect()
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    paths
}

/// An open store with a frame of nearly every kind.
fn store(dir: &Path) -> RolloutStore {
    let store = RolloutStore::options().window(8).background_compaction(false).open(dir).unwrap();
    store.insert(rollout(1, 0, 0).group(9)).unwrap();
    store.insert(rollout(2, 0, 0)).unwrap();
    store.advance_ref_version(3, Some(77)).unwrap();
    let plan = store.plan_for(&[1.into()], 3).unwrap();
    let results: Results = plan.ids().map(|id| (id, vec![-0.75; 3])).collect();
    store.apply(plan, results).unwrap();
    store.retire(&[2.into()], Reason::Trained).unwrap();
    store.begin_partial(NewRollout::new(5, 3)).unwrap();
    store.append(5.into(), vec![1, 2], vec![-0.5, -0.5], (3, 2)).unwrap();
    store.finish(NewRollout::new(5, 3).old_logps(vec![-0.5, -0.5], 1)).unwrap();
    store.set_cursor(b"row 4711").unwrap();
    store.retire_created_before(2, Reason::Evicted).unwrap();
    store
}

#[test]
fn each_frame_is_told_once_in_order_with_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (frames, damaged) = told(&mut inspect::log(dir.path()).unwrap());
    assert_eq!(damaged, 0);
    assert_eq!(lsns(&frames), (1..=store.stats().unwrap().last_lsn.get()).collect::<Vec<_>>());
    let said = |kind: &str| &frames.iter().find(|frame| frame.kind == kind).unwrap_or_else(|| panic!("no {kind}")).said;
    assert!(matches!(said("insert"), Said::Insert { token_count: 3, group: Some(9), ref_version: Some(0), .. }));
    assert_eq!(said("update"), &Said::OldLogps { born_step: 3, ref_version: 1 });
    assert_eq!(said("advance"), &Said::Advance { ref_version: 1, label: Some(77), step: Some(3) });
    assert!(matches!(said("piece"), Said::Piece { created_step: 3, tokens_before: 0, .. }));
    assert_eq!(said("cursor"), &Said::Cursor { bytes: 8 });
    let line = said("retire line");
    assert!(matches!(line, Said::RetireLine { created_before: 2, reason: Some(Reason::Evicted), rollouts: 1, .. }));
    let ended = frames.iter().filter(|frame| frame.kind == "retire").map(LogFrame::rollouts).collect::<Vec<_>>();
    assert_eq!(ended, [[RolloutId::new(2)], [RolloutId::new(5)]], "a retirement, and the pieces that became a rollout");
    let ends = frames.windows(2).all(|pair| pair[0].offset + pair[0].bytes == pair[1].offset);
    assert!(ends, "frames follow each other without a gap");
}

#[test]
fn it_goes_on_where_it_was_over_the_end_of_a_segment() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut log = inspect::log(dir.path()).unwrap();
    let (before, _) = told(&mut log);
    assert_eq!(told(&mut log).0, [], "nothing was written meanwhile");
    store.insert(rollout(30, 3, 1)).unwrap();
    store.checkpoint(dir.path().join("saved")).unwrap();
    store.insert(rollout(31, 3, 1)).unwrap();
    let (after, damaged) = told(&mut log);
    assert_eq!((damaged, after.last().unwrap().rollout), (0, Some(31.into())));
    assert!(after[0].segment < after[after.len() - 1].segment, "the checkpoint ended a segment");
    assert_eq!(lsns(&[before, after].concat()), (1..=store.stats().unwrap().last_lsn.get()).collect::<Vec<_>>());
}

#[test]
fn one_segment_or_one_rollout_can_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.checkpoint(dir.path().join("saved")).unwrap();
    store.insert(rollout(40, 3, 1)).unwrap();
    let log = || inspect::log(dir.path()).unwrap();
    let all = told(&mut log()).0;
    let listed = log().segments().unwrap();
    assert_eq!(listed.len(), 2);
    for segment in listed {
        let of_it: Vec<_> = all.iter().filter(|frame| frame.segment == segment).cloned().collect();
        assert_eq!(told(&mut log().of_segment(segment)).0, of_it);
    }
    let of_rollout = told(&mut log().of_rollout(1.into())).0;
    let kept = |frame: &&LogFrame| frame.rollout.is_none_or(|id| id == 1.into());
    assert_eq!(of_rollout, all.iter().filter(kept).cloned().collect::<Vec<_>>());
    let saved = told(&mut inspect::log(dir.path().join("saved")).unwrap()).0;
    assert_eq!(saved, all[..saved.len()], "a checkpoint has a log too");
}

#[test]
fn what_is_in_flight_is_neither_told_nor_called_damage() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path()).abandon();
    let whole = told(&mut inspect::log(dir.path()).unwrap()).0;
    let segment = segments(dir.path()).pop().unwrap();
    let bytes = fs::read(&segment).unwrap();
    let last = whole.last().unwrap();
    let end = usize::try_from(last.offset + last.bytes).unwrap();
    let torn = [&bytes[..end], &[0xf5, b'R', b'F', b'r', 1, 2, 3]].concat();
    fs::write(&segment, torn).unwrap();
    assert_eq!(told(&mut inspect::log(dir.path()).unwrap()), (whole, 0));
}

#[test]
fn damage_stands_where_it_is_and_hides_no_frame_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    for is_sealed in [true, false] {
        let path = dir.path().join(format!("sealed-{is_sealed}"));
        let store = store(&path);
        if is_sealed {
            store.close().unwrap();
        } else {
            store.abandon();
        }
        let (whole, _) = told(&mut inspect::log(&path).unwrap());
        let segment = segments(&path).remove(0);
        let mut bytes = fs::read(&segment).unwrap();
        // The header of the second frame, and an array of the fourth.
        let (lost, hurt) = (&whole[1], &whole[3]);
        bytes[usize::try_from(lost.offset).unwrap() + 20] ^= 1;
        bytes[usize::try_from(hurt.offset + hurt.bytes).unwrap() - 60] ^= 1;
        fs::write(&segment, bytes).unwrap();
        let items: Vec<LogItem> = inspect::log(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(items.len(), whole.len(), "sealed {is_sealed}: {items:#?}");
        for (at, (item, frame)) in items.iter().zip(&whole).enumerate() {
            match item {
                LogItem::Frame(told) => assert_eq!(told, frame),
                LogItem::Damage(finding) => {
                    assert!([1, 3].contains(&at), "{finding:?}");
                    assert!((frame.offset..frame.offset + frame.bytes).contains(&finding.damage.offset));
                    assert!(at != 3 || finding.rollouts == [hurt.rollout.unwrap()], "its header still tells");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_missing_segment_is_damage_and_the_others_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.checkpoint(dir.path().join("saved")).unwrap();
    store.insert(rollout(40, 3, 1)).unwrap();
    store.close().unwrap();
    fs::remove_file(segments(dir.path()).remove(0)).unwrap();
    let (frames, damaged) = told(&mut inspect::log(dir.path()).unwrap());
    assert_eq!((damaged, frames[0].rollout), (1, Some(40.into())));
    fs::remove_dir_all(dir.path()).unwrap();
    assert_eq!(inspect::log(dir.path()).unwrap_err().kind(), rollstore::ErrorKind::NotFound);
}

#[test]
fn a_compaction_shows_as_moved_frames_with_their_old_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for id in 100..140 {
        store.insert(rollout(id, 3, 1).column("ballast", vec![0_u8; 4096])).unwrap();
    }
    let gone: Vec<RolloutId> = (100..139).map(Into::into).collect();
    store.retire(&gone, Reason::Trained).unwrap();
    store.checkpoint(dir.path().join("saved")).unwrap();
    let before = told(&mut inspect::log(dir.path()).unwrap()).0;
    let mut begun = inspect::log(dir.path()).unwrap();
    assert!(store.compact(CompactBudget::bytes(64 << 20)).unwrap().copied_bytes > 0);
    let (after, damaged) = told(&mut inspect::log(dir.path()).unwrap());
    assert_eq!((damaged, kinds(&after).contains(&"insert")), (0, true));
    let moved = after.iter().find(|frame| frame.rollout == Some(139.into())).unwrap();
    let original = before.iter().find(|frame| frame.rollout == Some(139.into())).unwrap();
    assert!(moved.is_moved && !original.is_moved && moved.segment > original.segment);
    assert_eq!((moved.lsn, &moved.said), (original.lsn, &original.said));
    // What was begun before finds the segments that it knows of gone, and what lives in others.
    let (frames, damaged) = told(&mut begun);
    let found: Vec<_> = frames.iter().filter(|frame| frame.rollout == Some(139.into())).collect();
    assert_eq!((damaged, found), (0, vec![moved]));
}

#[test]
fn beside_a_writer_every_frame_is_told_once_and_nothing_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        RolloutStore::options().window(8).segment_bytes(limits::SEGMENT_BYTES_MIN).background_compaction(false);
    let store = options.open(dir.path()).unwrap();
    let mut log = inspect::log(dir.path()).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        for step in 0..400 {
            let mut batch = store.batch();
            for id in step * 4..step * 4 + 4 {
                let tokens = 16 + usize::try_from(id * 7 % 300).unwrap();
                batch.insert(NewRollout::new(id, step).old_logps(vec![-0.5; tokens], store.ref_version())).unwrap();
            }
            batch.advance_ref_version(step, None);
            batch.commit().unwrap();
        }
        done.send(()).unwrap();
        store.stats().unwrap().last_lsn.get()
    });
    let mut seen = Vec::new();
    let mut passes = 0;
    let mut look = |log: &mut Log<'_>| {
        let (frames, damaged) = told(log);
        assert_eq!(damaged, 0, "in pass {passes}");
        passes += 1;
        seen.extend(lsns(&frames));
        if is_done.try_recv().is_ok() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    while look(&mut log).is_continue() {}
    let last = writer.join().unwrap();
    // What was written between the last look and the end.
    seen.extend(lsns(&told(&mut log).0));
    assert_eq!(seen, (1..=last).collect::<Vec<_>>());
    assert!(passes > 3, "{passes} passes");
}
