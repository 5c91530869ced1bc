//! Goal: a replay that stops at any point goes on to the same totals. Method: a small trace with saves, crashes and
//! resumes is stopped after each event, and in each state that a kill can leave in the middle of a resume.

use std::path::{Path, PathBuf};

use rollstore::RolloutStore;

use super::engine::{Engine, counted};
use super::place::{Place, ResumeNote};
use super::progress::{End, Progress};
use super::settings::Settings;
use crate::args::{Clock, Mode};
use crate::exit::{Failure, Outcome};
use crate::trace::TraceReader;

const SETTINGS: Settings = Settings { mode: Mode::Refresh, clock: Clock::V, window: 8, lag: 0, every: 1 };

/// Two windows with a save, an abandoned future, a resume, and a second resume from the same save.
const TRACE: &str = r#"{"e":"header","format":1}
{"e":"put","v":0,"id":1,"completion":[5],"old_lp":"000000bf"}
{"e":"put","v":0,"id":2,"completion":[6],"old_lp":"000000bf"}
{"e":"access","v":0,"ids":[1,2],"lp":["000000bf","000000bf"]}
{"e":"version","v":1}
{"e":"access","v":1,"ids":[2,1],"lp":["000080bf","000080bf"]}
{"e":"save","v":1}
{"e":"version","v":2}
{"e":"access","v":2,"ids":[1],"lp":["000000c0"]}
{"e":"evict","v":2,"ids":[1,2,9]}
{"e":"put","v":2,"id":3,"completion":[7],"old_lp":"000040c0"}
{"e":"crash","v":2}
{"e":"resume","v":1}
{"e":"version","v":2}
{"e":"access","v":2,"ids":[1],"lp":["000000c0"]}
{"e":"resume","v":1}
{"e":"access","v":1,"ids":[1,2],"lp":["000080c0","000080c0"]}
{"e":"end"}
"#;

/// The lines of the two resumes.
const RESUMES: [u64; 2] = [13, 16];

struct Bench {
    folder: tempfile::TempDir,
    trace: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let trace = folder.path().join("trace");
        std::fs::write(&trace, TRACE).expect("the trace is written");
        Self { folder, trace }
    }

    fn place(&self, name: &str) -> Place {
        Place::new(Some(&self.folder.path().join(name))).expect("a place")
    }
}

/// Plays up to and with this line, then ends as a kill would.
fn play_until(line: u64, trace: &Path, place: &Place) -> Progress {
    let mut reader = TraceReader::open(trace).expect("the trace opens");
    let mut engine = Engine::open(&SETTINGS, place).expect("the store opens");
    let stopped = engine.play(&mut reader, &mut |reader| {
        if reader.position().lines < line { Ok(()) } else { Err(Failure::ReaderGone) }
    });
    assert!(matches!(stopped, Err(Failure::ReaderGone)), "{stopped:?}");
    let progress = engine.progress;
    engine.open.take().expect("an open store").abandon();
    progress
}

fn play_to_the_end(trace: &Path, place: &Place) -> Outcome<End> {
    let mut reader = TraceReader::open(trace)?;
    let mut engine = Engine::open(&SETTINGS, place)?;
    engine.play(&mut reader, &mut |_| Ok(()))?;
    engine.finish(&reader)
}

#[test]
fn the_totals_go_on_through_a_resume() {
    let bench = Bench::new();
    let end = play_to_the_end(&bench.trace, &bench.place("whole")).unwrap();
    let totals = end.totals;
    assert_eq!((totals.inserted, totals.retired, totals.advances), (3, 2, 3));
    assert_eq!((totals.checkpoints, totals.crashes, totals.restores), (1, 1, 2));
    // Lines 6, 9 and 15 compute 2, 1 and 1; the restored log-probs of line 6 are fresh again at line 17.
    assert_eq!((totals.access_rows, totals.recomputed_rows, totals.served_rows), (8, 4, 4));
    assert_eq!((totals.static_modulo_rows, totals.static_modulo_peak_rows, totals.peak_rows_per_step), (6, 2, 2));
    let served = [-0.5_f32, -0.5, -1.0, -1.0, -2.0, -2.0, -1.0, -1.0];
    let bytes: Vec<u8> = served.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!((totals.values_crc32, end.live), (crc32fast::hash(&bytes), 2));
}

#[test]
fn stopped_after_any_line_it_goes_on_to_the_same_end() {
    let bench = Bench::new();
    let whole = play_to_the_end(&bench.trace, &bench.place("whole")).unwrap();
    for line in 1..=18 {
        let place = bench.place(&format!("stopped-{line}"));
        play_until(line, &bench.trace, &place);
        assert_eq!(play_to_the_end(&bench.trace, &place).unwrap(), whole, "line {line}");
    }
}

#[test]
fn stopped_within_a_resume_it_goes_on_to_the_same_end() {
    let bench = Bench::new();
    let whole = play_to_the_end(&bench.trace, &bench.place("whole")).unwrap();
    for (line, is_restored) in RESUMES.into_iter().flat_map(|line| [(line, false), (line, true)]) {
        let place = bench.place(&format!("resume-{line}-{is_restored}"));
        let before = play_until(line - 1, &bench.trace, &place);
        let mut reader = TraceReader::open(&bench.trace).unwrap();
        while reader.position().lines < line {
            reader.next_line().unwrap();
        }
        let next = Progress { position: reader.position(), ..before };
        let then = counted(next, |totals| totals.restores += 1);
        place.write_note(&ResumeNote { lines_before: before.position.lines, then }).unwrap();
        if is_restored {
            RolloutStore::restore(&place.checkpoint, &place.store).unwrap();
        }
        assert_eq!(play_to_the_end(&bench.trace, &place).unwrap(), whole, "line {line}, restored: {is_restored}");
        assert!(place.read_note().unwrap().is_none());
    }
}

#[test]
fn a_note_of_an_older_replay_is_not_taken_for_this_one() {
    let bench = Bench::new();
    let whole = play_to_the_end(&bench.trace, &bench.place("whole")).unwrap();
    let place = bench.place("new");
    let then = Progress::default();
    place.write_note(&ResumeNote { lines_before: 12, then }).unwrap();
    assert_eq!(play_to_the_end(&bench.trace, &place).unwrap(), whole);
}

#[test]
fn a_checkpoint_of_an_older_replay_is_not_written_over() {
    let bench = Bench::new();
    let place = bench.place("store");
    std::fs::create_dir(&place.checkpoint).unwrap();
    let refused = play_to_the_end(&bench.trace, &place);
    assert!(matches!(refused, Err(Failure::CouldNotLook(message)) if message.contains("is in the way")));
}
