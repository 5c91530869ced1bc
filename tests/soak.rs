//! A long run stays flat: disk and memory are bounded by what is alive, whatever was written and however often the process
//! was killed; and nothing acknowledged is lost (D1).
//!
//! Method: this test binary runs itself as a trainer, which each step inserts a batch, retires what left the window by one
//! record, advances and computes a fifth again, and reports what it takes. The parent kills it with SIGKILL at random steps and
//! starts it again. In CI the run is scaled down; `cargo xtask soak` makes all of it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use rollstore::disk::os::OsDisk;
use rollstore::{Budget, Reason, RolloutStore};
use rollstore_testkit::child;
use rollstore_testkit::settings::{random, seed};
use rollstore_testkit::store::{check_content, forward, rollout_of};

/// Steps for which rollouts live.
const WINDOW: u64 = 8;

/// The size of a run.
#[derive(Debug, Clone, Copy)]
struct Size {
    steps: u64,
    rollouts: u64,
    tokens: usize,
    kills: u64,
    segment_bytes: u64,
}

fn size() -> Size {
    if std::env::var_os("ROLLSTORE_SOAK").is_some() {
        return Size { steps: 1_000, rollouts: 512, tokens: 1_024, kills: 30, segment_bytes: 32 << 20 };
    }
    Size { steps: 100, rollouts: 48, tokens: 1_024, kills: 4, segment_bytes: 2 << 20 }
}

/// What the trainer reports behind each step.
#[derive(Debug, Clone, Copy)]
struct Report {
    step: u64,
    segment_bytes: u64,
    live_bytes: u64,
    anonymous_kib: u64,
    appended_bytes: u64,
    compacted_bytes: u64,
}

impl Report {
    fn of(store: &RolloutStore, step: u64) -> Self {
        let stats = store.stats().unwrap();
        let segments = fs::read_dir(store.dir()).unwrap().map_while(Result::ok);
        let segments = segments.filter(|entry| entry.file_name().to_string_lossy().starts_with("seg-"));
        Self {
            step,
            // One may be removed between its name and its length.
            segment_bytes: segments.map(|entry| entry.metadata().map_or(0, |data| data.len())).sum(),
            live_bytes: stats.live_bytes,
            anonymous_kib: anonymous_kib(),
            appended_bytes: stats.appended_bytes,
            compacted_bytes: stats.compacted_bytes,
        }
    }

    fn line(&self) -> String {
        let Self { step, segment_bytes, live_bytes, anonymous_kib, appended_bytes, compacted_bytes } = self;
        format!("step {step} {segment_bytes} {live_bytes} {anonymous_kib} {appended_bytes} {compacted_bytes}")
    }

    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.strip_prefix("step ")?.split(' ').map_while(|word| word.parse().ok()).collect();
        let [step, segment_bytes, live_bytes, anonymous_kib, appended_bytes, compacted_bytes] = numbers[..] else {
            return None;
        };
        Some(Self { step, segment_bytes, live_bytes, anonymous_kib, appended_bytes, compacted_bytes })
    }
}

/// Memory of this process that is no file's.
fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn open(dir: &Path) -> RolloutStore {
    let options = RolloutStore::options().window(WINDOW).max_version_lag(2).segment_bytes(size().segment_bytes);
    options.disk(Arc::new(OsDisk)).open(dir).unwrap()
}

/// The step to do next: the cursor says how many there were.
fn next_step(store: &RolloutStore) -> u64 {
    store.cursor().map_or(0, |cursor| u64::from_le_bytes(cursor[..].try_into().unwrap()))
}

fn ids_of(step: u64) -> std::ops::Range<u64> {
    step * size().rollouts..(step + 1) * size().rollouts
}

fn train(store: &RolloutStore, step: u64) {
    let mut batch = store.batch();
    for id in ids_of(step) {
        batch.insert(rollout_of(id, step, store.ref_version(), size().tokens)).unwrap();
    }
    batch.retire_created_before((step + 1).saturating_sub(WINDOW), Reason::Trained);
    batch.advance_ref_version(step, Some(step));
    batch.cursor(&(step + 1).to_le_bytes());
    batch.commit().unwrap();
    store.recompute(step, Budget::rollouts(size().rollouts / 5), forward).unwrap();
}

/// The trainer: not a test of its own, it returns at once where it is not asked for.
#[test]
fn child_trains_until_it_is_killed() {
    let Some((_, dir)) = child::role() else { return };
    let store = open(&dir);
    let mut out = std::io::stdout();
    for step in next_step(&store)..size().steps {
        train(&store, step);
        writeln!(out, "\n{}", Report::of(&store, step).line()).unwrap();
        out.flush().unwrap();
    }
}

/// Runs a trainer until it has reported `kill_at` steps, or to its end. Returns what it reported.
fn run(dir: &Path, kill_at: Option<usize>) -> Vec<Report> {
    let mut command = child::command("child_trains_until_it_is_killed", "trainer", dir);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut reports = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        reports.extend(Report::parse(&line));
        if Some(reports.len()) == kill_at {
            // Whatever it is doing by now; what it reports until it is dead counts too.
            child.kill().unwrap();
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success() || kill_at.is_some(), "the trainer ended with {status}");
    reports
}

/// All that was acknowledged is there, and nothing that ended.
fn check(dir: &Path, acknowledged: u64) {
    let store = open(dir);
    let steps = next_step(&store);
    assert!((acknowledged..=acknowledged + 1).contains(&steps), "{steps} steps, {acknowledged} were acknowledged");
    let mut live = store.ids();
    live.sort_unstable();
    let expected = ids_of(steps.saturating_sub(WINDOW)).start..ids_of(steps).start;
    assert!(live.iter().map(|id| id.get()).eq(expected), "the last {WINDOW} steps, whole");
    live.iter().step_by(7).for_each(|id| check_content(&store.get(*id).unwrap().unwrap()));
    store.abandon();
}

#[test]
fn a_long_run_takes_no_more_disk_and_memory_at_its_end_than_at_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, size) = (dir.path().join("rollouts"), size());
    let mut reports: Vec<Report> = Vec::new();
    let (mut appended, mut compacted) = (0, 0);
    for kill in 0..=size.kills {
        let most = size.steps / (size.kills + 1);
        let kill_at = (kill < size.kills).then(|| usize::try_from(1 + random(seed(), kill) % most).unwrap());
        let reported = run(&dir, kill_at);
        if let Some(last) = reported.last() {
            (appended, compacted) = (appended + last.appended_bytes, compacted + last.compacted_bytes);
        }
        // A process that is young has not come to its level yet.
        let warm = reported.iter().skip(usize::try_from(2 * WINDOW).unwrap());
        let acknowledged = reported.last().or(reports.last()).map_or(0, |last| last.step + 1);
        check(&dir, acknowledged);
        reports.extend(warm.copied());
    }
    let amplification = 1_000 + compacted * 1_000 / appended;
    let over = |report: &&Report| report.segment_bytes.saturating_sub(report.live_bytes * 3 / 2);
    let worst = reports.iter().max_by_key(over).expect("some steps were reported");
    let quarter = reports.len() / 4;
    let memory = |reports: &[Report]| {
        let mut kib: Vec<u64> = reports.iter().map(|report| report.anonymous_kib).collect();
        kib.sort_unstable();
        kib[kib.len() / 2]
    };
    let (early, late) = (memory(&reports[..quarter]), memory(&reports[reports.len() - quarter..]));
    println!("{size:?}: {} MB appended, write amplification {amplification} / 1000", appended >> 20);
    println!("most segments: {worst:?}; anonymous KiB, median: {early} in the first quarter, {late} in the last");
    assert!(over(&worst) <= 2 * size.segment_bytes, "{worst:?} is beyond 1.5 of what is alive and two segments");
    assert!(late <= early + early / 10 + 1024, "memory grows: {early} KiB early, {late} late");
    assert!(amplification <= 1_300, "write amplification is {amplification} / 1000");
}
