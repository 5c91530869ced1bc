//! A toy trainer that is killed and goes on where it was: it keeps its own position in the store's cursor.
//!
//! Run without arguments, it runs itself twice: once to the end, and once killed (SIGKILL) at random steps and started
//! again each time. Both must end with the same totals. `cargo run --example train_loop`

#![expect(clippy::print_stdout, clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a toy")]

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rollstore::{Budget, NewRollout, Plan, Reason, Results, RolloutId, RolloutStore};

const STEPS: u64 = 40;
/// Rollouts sampled every 4 steps, and kept for two such generations.
const GENERATION: u64 = 16;

/// The model: log-probs of tokens under the weights of a version.
fn forward(version: u64, tokens: &[u32]) -> Vec<f32> {
    tokens.iter().map(|token| -0.01 * ((u64::from(*token) * 31 + version * 17) % 97) as f32).collect()
}

fn compute(work: &Plan) -> rollstore::Result<Results> {
    work.rollouts().map(|row| Ok((row.id(), forward(work.ref_version(), row.completion_ids()?)))).collect()
}

fn ids(range: std::ops::Range<u64>) -> Vec<RolloutId> {
    range.map(RolloutId::new).collect()
}

/// Whatever commits a crash comes between, the step is done again from its cursor and gives the same.
fn train(dir: &Path) -> Result<(), Box<dyn Error>> {
    let store = RolloutStore::options().window(6).max_version_lag(1).run_identity(b"toy model").open(dir)?;
    let cursor = String::from_utf8(store.cursor().map_or(b"0 0".to_vec(), |cursor| cursor.to_vec()))?;
    let (step, loss) = cursor.split_once(' ').ok_or("not a cursor of this trainer")?;
    let mut loss = loss.parse::<f64>()?;
    for step in step.parse()?..STEPS {
        println!("step {step}");
        let (version, newest) = (store.ref_version(), step / 4 * GENERATION);
        let before = newest.saturating_sub(GENERATION);
        if step % 4 == 0 && store.get(newest.into())?.is_none() {
            let mut batch = store.batch();
            batch.retire(&ids(before.saturating_sub(GENERATION)..before), Reason::Trained);
            for id in ids(newest..newest + GENERATION) {
                let tokens: Vec<u32> = (0..8 + id.get() as u32 % 5).map(|at| id.get() as u32 + at).collect();
                let logps = forward(version, &tokens);
                batch.insert(NewRollout::new(id, step).completion_ids(tokens).old_logps(logps, version))?;
            }
            batch.commit()?;
        }
        // Lazy: of the rows to train on, only what is stale, out of window or missing is computed.
        let row = if step % 4 < 2 { newest } else { before } + step % 4 * 4;
        for served in store.get_or_compute(&ids(row..row + 4), step, compute)? {
            let new = forward(version, served.rollout().completion_ids()?);
            loss += new.iter().zip(served.old_logps()?).map(|(new, old)| f64::from((new - old).exp())).sum::<f64>();
        }
        // Ahead of need: at most two more, most urgent first. One commit with the new weights' version and the cursor.
        let plan = store.plan_due(step, Budget::rollouts(2))?;
        let results = compute(&plan)?;
        let mut batch = store.batch();
        batch.apply(plan, results)?;
        if step % 2 == 1 {
            batch.advance_ref_version(step, None);
        }
        batch.cursor(format!("{} {loss}", step + 1).as_bytes());
        batch.commit()?;
    }
    let counts = store.stats()?.counters;
    println!("{} inserted, {} computed, loss {loss:.6}", counts.inserted, counts.computed);
    Ok(())
}

/// Runs the trainer as a child and returns its last line; with `kill_after`, kills it once it said more lines than that.
fn run(dir: &Path, kill_after: Option<usize>) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?).arg(dir).stdout(Stdio::piped()).spawn()?;
    let mut last = String::new();
    for (said, line) in BufReader::new(child.stdout.take().ok_or("no output")?).lines().enumerate() {
        last = line?;
        (Some(said) == kill_after).then(|| child.kill()).transpose()?;
    }
    child.wait()?;
    Ok(last)
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(dir) = std::env::args_os().nth(1) {
        return train(Path::new(&dir));
    }
    let dir = tempfile::tempdir()?;
    let whole = run(&dir.path().join("whole"), None)?;
    println!("uninterrupted: {whole}");
    for _ in 0..3 {
        println!("killed at {}", run(&dir.path().join("killed"), Some(rand::random_range(0..12)))?);
    }
    let resumed = run(&dir.path().join("killed"), None)?;
    println!("resumed:       {resumed}");
    if whole == resumed { Ok(()) } else { Err("the totals differ".into()) }
}
