//! What compaction and the index cost a commit: 10,000 commits with both running, against 10,000 without, interleaved.
//!
//! Settings: a commit inserts 4 rollouts of 1,024 f32 and retires as many older ones at random. In the first store segments
//! are of 16 MiB, each dies in pieces and is copied, and the index is flushed at every new segment. In the second store the
//! background is off and one segment takes everything, so that nothing is flushed. The sides take turns of 500 commits, and
//! the first one comes to rest before the second one's turn: it would slow the other's syncs too, and hide what it costs.
//! Both commit durably, with one sync each. Guarantee: the same on both sides. Printed: p50 and p99 of each side by round, and
//! the median of the five ratios, which is to be at most 2.
//!
//! A harness of its own: criterion has no percentiles.

#![expect(clippy::print_stdout, reason = "what a benchmark prints is its result")]

mod common;

use std::time::{Duration, Instant};

use common::{random, rows, scratch};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rollstore::{CompactBudget, NewRollout, Reason, RolloutId, RolloutStore};

const ROUNDS: usize = 5;
/// Turns of each side in a round, and commits of a turn.
const TURNS: usize = 4;
const COMMITS: usize = 500;
const INSERTS: usize = 4;
/// Rollouts that live: 66 MB of them.
const LIVE: usize = 16_000;

/// A store, and what is alive in it.
struct Side {
    store: RolloutStore,
    live: Vec<RolloutId>,
    random: StdRng,
    next: u64,
}

impl Side {
    fn new(dir: &tempfile::TempDir, in_background: bool) -> Self {
        let options = RolloutStore::options().window(8).background_compaction(in_background);
        let options = if in_background {
            options.segment_bytes(16 << 20)
        } else {
            options.segment_bytes(1 << 30).index_flush_changes(1 << 19)
        };
        let store = options.open(dir.path().join("store")).expect("the store opens");
        Self { store, live: Vec::new(), random: random(), next: 0 }
    }

    fn commit(&mut self, rows: &[Vec<f32>]) -> Duration {
        let mut batch = self.store.batch();
        for row in &rows[..INSERTS] {
            batch.insert(NewRollout::new(self.next, 0).old_logps(row, 0)).expect("a sound rollout");
            self.live.push(self.next.into());
            self.next += 1;
        }
        let surplus = self.live.len().saturating_sub(LIVE);
        let ended: Vec<RolloutId> = (0..surplus)
            .map(|_| {
                let place = self.random.random_range(0..self.live.len());
                self.live.swap_remove(place)
            })
            .collect();
        batch.retire(&ended, Reason::Trained);
        let began = Instant::now();
        batch.commit().expect("a commit");
        began.elapsed()
    }

    /// Returns once the background has nothing to do.
    fn come_to_rest(&self) {
        // It waits for the compaction under way, and copies nothing itself.
        self.store.compact(CompactBudget::bytes(0)).expect("a compaction");
        self.store.flush_index().expect("a flush");
    }
}

fn percentile(sorted: &[Duration], of_thousand: usize) -> Duration {
    sorted[(sorted.len() - 1) * of_thousand / 1000]
}

fn main() {
    // `cargo test --benches` asks for one pass, and `--bench` for all of it.
    let is_whole = std::env::args().any(|argument| argument == "--bench");
    let (rounds, commits) = if is_whole { (ROUNDS, COMMITS) } else { (1, 5) };
    let rows = rows(INSERTS, &mut random());
    let (with, without) = (scratch(), scratch());
    let mut sides = [Side::new(&with, true), Side::new(&without, false)];
    if is_whole {
        for side in &mut sides {
            while side.live.len() < LIVE {
                side.commit(&rows);
            }
        }
    }
    println!("round   with: p50       p99       max  without: p50       p99       max  ratio of p99");
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let mut took = [Vec::new(), Vec::new()];
        let mut order = [0, 1];
        for _ in 0..TURNS {
            order.shuffle(&mut sides[0].random);
            for side in order {
                sides[0].come_to_rest();
                for _ in 0..commits {
                    let one = sides[side].commit(&rows);
                    took[side].push(one);
                }
            }
        }
        took.iter_mut().for_each(|side| side.sort_unstable());
        let [with, without] = &took;
        let ratio = percentile(with, 990).as_secs_f64() / percentile(without, 990).as_secs_f64();
        let shown = |side: &[Duration]| {
            [500, 990, 1000].map(|of| format!("{:>6} us", percentile(side, of).as_micros())).join(" ")
        };
        println!("{round:>5}  {}            {}   {ratio:.2}", shown(with), shown(without));
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let stats = sides[0].store.stats().expect("an open store");
    println!(
        "median ratio {:.2}; compaction wrote {} MB beside {} MB of commits; segments {} MB for {} MB alive",
        ratios[ratios.len() / 2],
        stats.compacted_bytes >> 20,
        stats.appended_bytes >> 20,
        stats.log_bytes >> 20,
        stats.live_bytes >> 20,
    );
}
