//! Goal: whatever is looked at beside a writer is a state that the writer passed through, never damage and never a failure.
//! Method: one thread commits, retires, compacts and checkpoints as fast as it can, while the program looks at the store and
//! the checkpoint two thousand times. Each batch is one step of a known course: what a look sees must be the whole of one
//! step, no older than what was acknowledged before the look, and no newer than what was begun after it.

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{json as object, json_lines, rollstore, stderr};
use rollstore::{CompactBudget, NewRollout, Reason, RolloutId, RolloutStore, limits};
use serde_json::{Value, json};

const LOOKS: u64 = 2000;
/// Programs that look at once.
const LOOKERS: u64 = 2;
/// Rollouts of a batch.
const BATCH: u64 = 4;
/// Batches after which three of its rollouts are retired, so that segments are left half dead; and after which the last is.
const SHORT: u64 = 10;
const LONG: u64 = 40;

/// What is alive after a batch.
fn alive(batch: u64) -> BTreeSet<u64> {
    let ids = (batch.saturating_sub(LONG - 1)..=batch)
        .flat_map(|born| (born * BATCH..(born + 1) * BATCH).map(move |id| (born, id)));
    ids.filter(|(born, id)| id % BATCH == 0 || born + SHORT > batch).map(|(_, id)| id).collect()
}

/// The batch that a list of live rollouts is the state of.
fn batch_of(ids: &BTreeSet<u64>) -> u64 {
    let batch = ids.last().expect("a store with rollouts") / BATCH;
    assert_eq!(*ids, alive(batch), "the state after batch {batch}, whole");
    batch
}

fn values(id: u64) -> Vec<f32> {
    let tokens = 64 + u16::try_from(id * 7 % 700).expect("a small number");
    (0..tokens).map(|token| -f32::from(token) / 8.0).collect()
}

/// Batches whose commit was begun, and was acknowledged; at the last checkpoint.
#[derive(Default)]
struct Course {
    begun: AtomicU64,
    acknowledged: AtomicU64,
    saved: AtomicU64,
    is_over: AtomicBool,
}

fn write(store: &RolloutStore, checkpoint: &Path, course: &Course) -> rollstore::Result<()> {
    for at in 0.. {
        if course.is_over.load(Ordering::SeqCst) {
            break;
        }
        course.begun.store(at, Ordering::SeqCst);
        let mut batch = store.batch();
        for id in at * BATCH..(at + 1) * BATCH {
            batch.insert(NewRollout::new(id, at).old_logps(values(id), 0))?;
        }
        let short = at.checked_sub(SHORT).into_iter().flat_map(|born| born * BATCH + 1..(born + 1) * BATCH);
        let long = at.checked_sub(LONG).map(|born| born * BATCH);
        let ended: Vec<RolloutId> = short.chain(long).map(Into::into).collect();
        batch.retire(&ended, Reason::Trained);
        batch.advance_ref_version(at, None);
        batch.commit()?;
        course.acknowledged.store(at, Ordering::SeqCst);
        if at % 64 == 0 {
            store.checkpoint(checkpoint)?;
            course.saved.store(at, Ordering::SeqCst);
        }
        if at % 100 == 99 {
            store.compact(CompactBudget::all())?;
        }
    }
    Ok(())
}

fn look(arguments: &[&str], path: &Path) -> Output {
    let output = rollstore().arg(arguments[0]).arg(path).args(&arguments[1..]).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    output
}

fn ids(lines: &[Value]) -> BTreeSet<u64> {
    lines.iter().map(|line| line["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")).collect()
}

/// One look. Gives the batch that it saw, where the command tells it.
fn one_look(number: u64, store: &Path, checkpoint: &Path, course: &Course) -> Option<u64> {
    match number % 10 {
        0 => Some(batch_of(&ids(&json_lines(&look(&["ls", "--json"], store))))),
        1 => {
            let lines = json_lines(&look(&["dump"], store));
            let lines: Vec<Value> = lines.into_iter().filter(|line| line.get("id").is_some()).collect();
            for line in &lines {
                let id: u64 = line["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
                assert_eq!(line["columns"]["old_logps"]["values"], json!(values(id)), "rollout {id}");
            }
            Some(batch_of(&ids(&lines)))
        }
        2 => {
            let stat = object(&look(&["stat", "--json"], store));
            let (live, clock) = (stat["live"].as_u64(), stat["clock"].as_u64().expect("a clock"));
            assert_eq!(live, Some(alive(clock).len() as u64), "the state after batch {clock}: {stat}");
            Some(clock)
        }
        3 => {
            assert_eq!(object(&look(&["verify", "--json"], store))["sound"], true);
            None
        }
        4 => {
            let segments = json_lines(&look(&["segments", "--json"], store));
            assert!(!segments.is_empty());
            None
        }
        5 => {
            let frames = json_lines(&look(&["log", "--json"], store));
            assert!(!frames.is_empty());
            None
        }
        6 => {
            // Of the newest batch that is known to be there.
            let batch = course.acknowledged.load(Ordering::SeqCst);
            let history = rollstore().arg("history").arg(store).args([&(batch * BATCH).to_string(), "--json"]).output();
            let history = history.expect("the program starts");
            if course.begun.load(Ordering::SeqCst) < batch + LONG {
                assert_eq!(history.status.code(), Some(0), "{}", stderr(&history));
                let frames = json_lines(&history);
                assert_eq!(frames.last().expect("its insert")["fate"], "served", "{frames:?}");
            }
            // Else it was retired meanwhile, and may be compacted away.
            None
        }
        7 => {
            assert_eq!(object(&look(&["verify", "--json"], checkpoint))["sound"], true);
            None
        }
        8 => Some(batch_of(&ids(&json_lines(&look(&["ls", "--json"], checkpoint))))),
        _ => {
            assert!(object(&look(&["diagnose", "--json"], store))["fresh"].is_u64());
            None
        }
    }
}

#[test]
fn two_thousand_looks_beside_a_writer_see_only_states_that_it_passed_through() {
    let folder = tempfile::tempdir().unwrap();
    let [store_dir, checkpoint] = ["store", "checkpoint"].map(|name| folder.path().join(name));
    let store =
        RolloutStore::options().window(1 << 40).segment_bytes(limits::SEGMENT_BYTES_MIN).open(&store_dir).unwrap();
    let course = &Course::default();
    let seen = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&store, &checkpoint, course));
        while course.acknowledged.load(Ordering::SeqCst) < LONG {
            assert!(!writer.is_finished(), "the writer goes on");
            std::thread::yield_now();
        }
        let lookers: Vec<_> = (0..LOOKERS)
            .map(|first| {
                let (store_dir, checkpoint) = (&store_dir, &checkpoint);
                scope.spawn(move || {
                    let mut seen = Vec::new();
                    for number in (first..LOOKS).step_by(usize::try_from(LOOKERS).unwrap()) {
                        let is_saved = number % 10 == 8;
                        let least = if is_saved { &course.saved } else { &course.acknowledged };
                        let least = least.load(Ordering::SeqCst);
                        let batch = one_look(number, store_dir, checkpoint, course);
                        let most = course.begun.load(Ordering::SeqCst);
                        if let Some(batch) = batch {
                            assert!((least..=most).contains(&batch), "look {number}: {batch} of {least} to {most}");
                            seen.push(batch);
                        }
                    }
                    seen
                })
            })
            .collect();
        let seen: Vec<_> = lookers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        course.is_over.store(true, Ordering::SeqCst);
        writer.join().unwrap().unwrap();
        seen.into_iter().flat_map(Result::unwrap).collect::<BTreeSet<u64>>()
    });
    let stats = store.stats().unwrap();
    assert!(stats.compacted_bytes > 0, "segments were copied meanwhile");
    assert!(seen.len() as u64 > LOOKS / 10, "the writer wrote meanwhile: {} states were seen", seen.len());
}
