//! What `dump` takes beside `cp` and a sync of the same bytes: ratios of one run, in turns.
//!
//! `cargo bench -p rollstore-cli --bench dump -- [ROLLOUTS [ROUNDS [FOLDER]]]`; 100,000 rollouts of 30 KB, three rounds, and the
//! system's temporary folder unless given. It needs room for the store three times.

#![expect(clippy::print_stdout, reason = "what a benchmark prints is its result")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rollstore::{Durability, NewRollout, RolloutStore};

/// Tokens of a completion: six arrays of four bytes each make 30 KB.
const TOKENS: usize = 1250;

/// The dumps that are measured, and at which share of the copy's speed each must run.
const DUMPS: [(&str, Option<f64>); 3] =
    [("all.safetensors", Some(0.5)), ("all.parquet", Some(0.25)), ("all.jsonl", None)];

fn main() {
    // The harness of cargo gives an option of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let number =
        |place: usize, default: u64| arguments.get(place).map_or(default, |text| text.parse().expect("a number"));
    let (rollouts, rounds) = (number(0, 100_000), number(1, 3));
    let folder = arguments.get(2).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(folder).expect("a folder");
    let store = dir.path().join("store");
    fill(&store, rollouts);
    let mut times: Vec<Vec<Vec<Duration>>> = vec![vec![Vec::new(); 2]; DUMPS.len()];
    for _ in 0..rounds {
        for ((name, _), times) in DUMPS.iter().zip(&mut times) {
            let file = dir.path().join(name);
            times[0].push(timed(|| dump(&store, &file)));
            times[1].push(timed(|| copy(&file, &dir.path().join("copy"))));
            std::fs::remove_file(dir.path().join("copy")).expect("the copy is removed");
            report(name, &file, &times[0], &times[1]);
            std::fs::remove_file(&file).expect("the dump is removed");
        }
    }
    for ((name, least), times) in DUMPS.iter().zip(&times) {
        let share = median(&times[1]) / median(&times[0]);
        let verdict = least.map_or_else(|| "reported".to_owned(), |least| format!("at least {least}"));
        println!("{name:16} {share:.2} of the speed of cp and sync ({verdict})");
    }
}

fn fill(path: &Path, rollouts: u64) {
    let durability = Durability::Buffered { max_delay: Duration::from_secs(5) };
    let store = RolloutStore::options().window(8).durability(durability).open(path).expect("a store");
    // Values of all exponents that log-probs have: nothing that compresses or prints short.
    let mut state = 1_u32;
    let mut random = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state
    };
    let ids: Vec<u32> = (0..TOKENS).map(|_| random() >> 15).collect();
    let logps: Vec<f32> = (0..TOKENS).map(|_| -f32::from_bits(0x3a00_0000 | random() >> 6)).collect();
    for first in (0..rollouts).step_by(1024) {
        let mut batch = store.batch();
        for id in first..rollouts.min(first + 1024) {
            let new = NewRollout::new(id, id / 1024).group(id / 8).reward(0.5).prompt_ids(&ids).completion_ids(&ids);
            let new = new.old_logps(&logps, 0).sampler_logps(&logps).kl_ref_logps(&logps, 0).column("values", &logps);
            batch.insert(new).expect("a rollout");
        }
        batch.commit().expect("a commit");
    }
    store.close().expect("closed");
}

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn dump(store: &Path, file: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rollstore"));
    let done = command.arg("dump").arg(store).arg("-o").arg(file).output().expect("the program runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// As people copy: `cp`, and a sync of the one file.
fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("--reflink=never").arg(from).arg(to).status().expect("cp runs");
    let synced = Command::new("sync").arg(to).status().expect("sync runs");
    assert!(done.success() && synced.success(), "cp and sync");
}

fn report(name: &str, file: &Path, dumps: &[Duration], copies: &[Duration]) {
    let bytes = std::fs::metadata(file).expect("a file").len();
    let [dump, copy] = [dumps, copies].map(|times| times.last().map_or(0.0, Duration::as_secs_f64));
    println!("{name:16} {:6} MB  dump {dump:7.2} s  cp and sync {copy:7.2} s  {:.2}", bytes / 1_000_000, copy / dump);
}

fn median(times: &[Duration]) -> f64 {
    let mut times: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
