//! The recompute spike and how a budget spreads it: rows computed a step, drawn.
//!
//! A buffer of 256 rollouts: 16 come and 16 go each step, and every 8 steps the weights that old log-probs stand for
//! change. The static schedule computes the whole buffer at once; the store computes what is due, at most 40 a step.
//!
//! `cargo run --example budget`

#![expect(clippy::print_stdout, clippy::cast_possible_truncation, reason = "a small program")]

use std::convert::Infallible;
use std::error::Error;

use rollstore::{Budget, NewRollout, Reason, Results, RolloutId, RolloutStore};

const STEPS: u64 = 39;
const ARRIVALS: u64 = 16;
const LIVE: u64 = 256;
const EVERY: u64 = 8;
const BUDGET: u64 = 40;
const LOGPS: [f32; 4] = [-0.5; 4];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let store = RolloutStore::options().window(STEPS).open(dir.path().join("rollouts"))?;
    let mut batch = store.batch();
    for id in 0..LIVE {
        batch.insert(NewRollout::new(id, 0).old_logps(&LOGPS[..], 0))?;
    }
    batch.commit()?;

    let (mut fixed, mut budgeted) = (Vec::new(), Vec::new());
    for step in 1..=STEPS {
        // Sixteen go, sixteen come: those that go while they are stale are never computed.
        let mut batch = store.batch();
        let oldest = (step - 1) * ARRIVALS..step * ARRIVALS;
        batch.retire(&oldest.map(RolloutId::new).collect::<Vec<_>>(), Reason::Trained);
        for id in LIVE + (step - 1) * ARRIVALS..LIVE + step * ARRIVALS {
            batch.insert(NewRollout::new(id, step).old_logps(&LOGPS[..], store.ref_version()))?;
        }
        if step % EVERY == 0 {
            batch.advance_ref_version(step, None);
        }
        batch.commit()?;

        // What `if step % EVERY == 0: recompute all` computes, with this very buffer.
        fixed.push(if step % EVERY == 0 { store.len() as u64 } else { 0 });
        let done = store.recompute(step, Budget::rollouts(BUDGET), |work| {
            Ok::<_, Infallible>(work.ids().map(|id| (id, LOGPS.to_vec())).collect::<Results>())
        })?;
        budgeted.push(done.computed);
    }

    draw(&format!("static schedule, every {EVERY} steps"), &fixed);
    draw(&format!("rollstore, at most {BUDGET} a step"), &budgeted);
    Ok(())
}

/// One line a step, one mark for 4 rows.
fn draw(name: &str, rows: &[u64]) {
    println!("{name}: {} rows computed, worst step {}", rows.iter().sum::<u64>(), rows.iter().max().unwrap_or(&0));
    for (step, rows) in (1..).zip(rows) {
        println!("{step:>4} {rows:>4} {}", "#".repeat(rows.div_ceil(4) as usize));
    }
}
