//! The bars: what rollstore must reach against its peers and its limits, in one run, and what it aims at.
//!
//! A ratio of two figures is taken within each round; the median of these counts.

use serde::{Deserialize, Serialize};

use super::results::Results;
use crate::meter::median;

/// One bar, and whether it was reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) unit: String,
    /// The bar is a least value; otherwise a greatest one.
    pub(crate) is_least: bool,
    pub(crate) must: f64,
    pub(crate) aim: Option<f64>,
    /// The median over the rounds.
    pub(crate) found: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) verdict: Verdict,
    pub(crate) note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Aim,
    Must,
    Missed,
    NotMeasured,
}

impl Verdict {
    pub(crate) fn told(self) -> &'static str {
        match self {
            Self::Aim => "aim reached",
            Self::Must => "must reached",
            Self::Missed => "MISSED",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Which way a bar points, and where it lies.
#[derive(Debug, Clone, Copy)]
enum Height {
    Least { must: f64, aim: Option<f64> },
    Most { must: f64, aim: Option<f64> },
}

fn least(must: f64, aim: f64) -> Height {
    Height::Least { must, aim: Some(aim) }
}

fn most(must: f64, aim: f64) -> Height {
    Height::Most { must, aim: Some(aim) }
}

impl Height {
    fn verdict(self, found: f64) -> Verdict {
        // A hair's breadth belongs to the arithmetic.
        let reaches = |bar: f64| match self {
            Self::Least { .. } => found >= bar * (1.0 - 1e-9),
            Self::Most { .. } => found <= bar * (1.0 + 1e-9),
        };
        let (Self::Least { must, aim } | Self::Most { must, aim }) = self;
        match aim {
            Some(aim) if reaches(aim) => Verdict::Aim,
            None if reaches(must) => Verdict::Aim,
            _ if reaches(must) => Verdict::Must,
            _ => Verdict::Missed,
        }
    }
}

/// Peers that hold whole stores with indexes: the best of them is meant by "the best peer".
const STORES: [&str; 6] = ["lmdb", "rocksdb", "fjall", "redb", "sqlite", "sled"];
/// Those of them that give space back when they are asked.
const RECLAIMERS: [&str; 5] = ["lmdb", "rocksdb", "fjall", "redb", "sqlite"];
/// Fixed space that is allowed on top of small stores: two segments.
const ALLOWED_MB: f64 = 2.0 * 268.435_456;

struct Table<'a> {
    results: &'a Results,
    bars: Vec<Bar>,
}

/// Every bar, in order.
pub(super) fn all(results: &Results) -> Vec<Bar> {
    let mut table = Table { results, bars: Vec::new() };
    table.ingest();
    table.reads_and_scans();
    table.changes();
    table.space();
    table.opening();
    table.size();
    table.others();
    table.bars
}

impl Table<'_> {
    /// A bar on a figure for each round.
    fn add(&mut self, what: &str, unit: &str, height: Height, found: &[f64], note: &str) {
        let (is_least, must, aim) = match height {
            Height::Least { must, aim } => (true, must, aim),
            Height::Most { must, aim } => (false, must, aim),
        };
        let middle = (!found.is_empty()).then(|| median(found));
        let verdict = middle.map_or(Verdict::NotMeasured, |found| height.verdict(found));
        let (what, unit, note) = (what.to_owned(), unit.to_owned(), note.to_owned());
        let min = found.iter().copied().reduce(f64::min);
        let max = found.iter().copied().reduce(f64::max);
        self.bars.push(Bar { what, unit, is_least, must, aim, found: middle, min, max, verdict, note });
    }

    /// Something of each round in which it can be had.
    fn rounds(&self, of: impl Fn(u64) -> Option<f64>) -> Vec<f64> {
        (0..self.results.rounds()).filter_map(of).filter(|found| found.is_finite()).collect()
    }

    fn own(&self, case: &str, name: &str) -> Vec<f64> {
        self.rounds(|round| self.results.figure(case, "rollstore", round, name))
    }

    /// How many times as much as the peer: of rates.
    fn times(&self, case: &str, peer: &str, name: &str) -> Vec<f64> {
        let figure = |peer, round| self.results.figure(case, peer, round, name);
        self.rounds(|round| Some(figure("rollstore", round)? / figure(peer, round)?))
    }

    /// How many times as fast as the peer: of times.
    fn faster(&self, case: &str, peer: &str, name: &str) -> Vec<f64> {
        let figure = |peer, round| self.results.figure(case, peer, round, name);
        self.rounds(|round| Some(figure(peer, round)? / figure("rollstore", round)?))
    }

    /// Two figures of rollstore's own.
    fn grown(&self, from: (&str, &str), to: (&str, &str)) -> Vec<f64> {
        let figure = |(case, name): (&str, &str), round| self.results.figure(case, "rollstore", round, name);
        self.rounds(|round| Some(figure(to, round)? / figure(from, round)?))
    }

    /// The best of the peers by the median of a figure.
    fn best(&self, case: &str, name: &str, peers: &[&'static str], is_more_better: bool) -> Option<&'static str> {
        let sign = if is_more_better { -1.0 } else { 1.0 };
        let of = |peer: &&str| self.results.middle(case, peer, name).map(|middle| middle.median * sign);
        let measured = peers.iter().copied().filter(|peer| of(peer).is_some());
        measured.min_by(|one, other| of(one).unwrap_or(f64::NAN).total_cmp(&of(other).unwrap_or(f64::NAN)))
    }

    fn ingest(&mut self) {
        let name = "ingest_mb_s";
        let found = self.times("w", "raw", name);
        self.add("ingest against raw append and fdatasync", "×", least(0.65, 0.80), &found, "the same bytes and syncs");
        for (case, peer, must, aim) in
            [("w", "rocksdb", 2.5, 3.5), ("w", "lmdb", 3.5, 4.5), ("w-random", "lmdb", 7.0, 9.0)]
        {
            let ids = if case == "w" { "" } else { ", random ids" };
            let found = self.times(case, peer, name);
            let limit = self.rounds(|round| {
                let figure = |peer| self.results.figure(case, peer, round, name);
                Some(figure("raw")? / figure(peer)?)
            });
            let note = if limit.is_empty() {
                String::new()
            } else {
                format!("appending the same bytes to a raw file makes {:.2} × of {peer} on this disk", median(&limit))
            };
            self.add(&format!("ingest against {peer}{ids}"), "×", least(must, aim), &found, &note);
        }
    }

    fn reads_and_scans(&mut self) {
        let found = self.faster("w", "lmdb", "get_sum_us");
        self.add("get, whole array, against lmdb", "×", least(1.4, 1.8), &found, "memory itself allows about 2.4");
        let found = self.faster("w", "lmdb", "get_first_us");
        self.add("get, first value, against lmdb", "×", least(4.0, 6.0), &found, "");
        for (state, told) in [("fresh", "fresh store"), ("recomputed", "50 % recomputed in random order")] {
            for (scan, named) in [("stale", "stale"), ("window", "out-of-window")] {
                let found = self.faster("w", "lmdb", &format!("{scan}_10_{state}_us"));
                let note = "10 % of the rollouts match";
                self.add(&format!("{named} scan against lmdb, {told}"), "×", least(10.0, 50.0), &found, note);
            }
        }
    }

    fn changes(&mut self) {
        let best = self.best("w", "recompute_mb_s", &STORES, true).unwrap_or("fjall");
        let found = self.times("w", best, "recompute_mb_s");
        self.add("update against the best peer", "×", least(4.0, 5.0), &found, &format!("the best is {best}"));
        let name = "delete_oldest_us_record";
        let best = self.best("w", name, &STORES, false).unwrap_or("lmdb");
        let found = self.faster("w", best, name);
        let by_id = self.faster("w", best, "delete_us_record");
        let note = format!(
            "the oldest quarter, by its step: one record in the log; the peers look ids up by their index and delete them, and \
             the best is {best}. By id it is {:.1} ×",
            median(&by_id)
        );
        self.add("delete of the oldest against the best peer", "×", least(5.0, 8.0), &found, &note);
    }

    fn space(&mut self) {
        let found = self.own("12k", "log_overhead_bytes_record");
        self.add("log beyond the columns, 12 KiB records", "B/record", most(384.0, 256.0), &found, "");
        let found = self.own("12k", "ingest_device_write_amp");
        let least_found = found.iter().copied().reduce(f64::min);
        let note = "of the device, by whomever: the least of the rounds counts, since others only add";
        self.add("device write amplification, 12 KiB records", "×", most(1.08, 1.05), least_found.as_slice(), note);
        let ratio = self.own("w", "reclaimed_space_ratio");
        let excess = median(&self.own("w", "reclaimed_excess_mb"));
        let note = format!(
            "{excess:.0} MB beyond the live values, of which the first old logps of what was recomputed (they stay as \
             behaviour logps) and the reserve file; two segments ({ALLOWED_MB:.0} MB) are allowed on top of small stores"
        );
        self.add(
            "space after deleting 50 % and reclaiming, but for two segments",
            "×",
            most(1.25, 1.10),
            &ratio,
            &note,
        );
        if let Some(bar) = self.bars.last_mut().filter(|bar| bar.verdict == Verdict::Missed && excess <= ALLOWED_MB) {
            bar.verdict = Verdict::Must;
        }
        // A call that leaves the dead where they are is soon over: only who gets as far is compared.
        let left = |peer: &str| self.results.middle("w", peer, "reclaimed_space_ratio").map(|middle| middle.median);
        let gets_as_far = |peer: &&str| left(peer).is_some_and(|left| left <= median(&ratio));
        let as_far: Vec<&str> = RECLAIMERS.into_iter().filter(gets_as_far).collect();
        let best = self.best("w", "reclaim_ms", &as_far, false).unwrap_or("rocksdb");
        let found = self.faster("w", best, "reclaim_ms");
        let height = Height::Least { must: 3.0, aim: None };
        let note = format!("the best is {best}, of those that take no more space afterwards ({})", as_far.join(", "));
        self.add("time to reclaim against the best peer", "×", height, &found, &note);
    }

    fn opening(&mut self) {
        for (case, many) in [("open-100k", "100,000"), ("open-1m", "1,000,000")] {
            let found = self.grown((case, "open_ms"), (case, "log_alone_open_ms"));
            let what = format!("open after kill -9, {many} rollouts, against a full scan of the log");
            self.add(&what, "×", least(5.0, 20.0), &found, "the scan finds neither index nor footers");
        }
    }

    fn size(&mut self) {
        let found = self.own("open-1m", "opened_memory_bytes_record");
        let grown = median(&self.own("1m", "ingest_memory_bytes_record"));
        let note = format!("heap after opening; {grown:.0} B after ingest, with what waits to be written behind");
        self.add("memory a rollout at 1,000,000", "B", most(110.0, 64.0), &found, &note);
        for (what, name) in [
            ("ingest", "ingest_us_record"),
            ("get, whole array", "get_set_sum_us"),
            ("stale scan, a match", "stale_10_fresh_ns_match"),
        ] {
            let found = self.grown(("10k", name), ("1m", name));
            let note = if name.starts_with("get") { self.note_on_gets() } else { "records of 256 B".to_owned() };
            self.add(&format!("cost from 10 K to 1 M rollouts: {what}"), "×", most(1.3, 1.1), &found, &note);
        }
    }

    /// What the machine's memory does to gets, whoever makes them.
    fn note_on_gets(&self) -> String {
        let raw = |name: &str| {
            let figure = |case, round| self.results.figure(case, "raw", round, name);
            median(&self.rounds(|round| Some(figure("1m", round)? / figure("10k", round)?)))
        };
        let all = median(&self.grown(("10k", "get_sum_us"), ("1m", "get_sum_us")));
        format!(
            "records of 256 B; of either store the same number is read, 10,000 spread evenly over all, so that the work grows \
             with the store and not with what the processor's caches hold: raw, which maps one file, has {:.1} × there. Of \
             all records rollstore has {all:.1} ×, and raw {:.1} ×",
            raw("get_set_sum_us"),
            raw("get_sum_us")
        )
    }

    fn others(&mut self) {
        for (what, name) in [("ingest", "ingest_kept_against_raw_ratio"), ("reads", "reads_kept_against_raw_ratio")] {
            let found = self.own("beside", name);
            let note = "against the same readers beside a raw writer";
            self.add(&format!("8 readers during ingest: what {what} keeps"), "×", least(0.8, 0.95), &found, note);
        }
        let found = self.grown(("advance-1k", "advance_us"), ("advance-1m", "advance_us"));
        self.add("advance_ref_version at 1 M against 1 K rollouts", "×", most(1.2, 1.0), &found, "a sync each");
        let found = self.own("day", "store_share_percent");
        let height = Height::Most { must: 1.0, aim: None };
        self.add(
            "the trainer's day: the store's share of a 30 s step",
            "%",
            height,
            &found,
            "1 K rollouts x 4 K tokens a step",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_tells_aim_must_and_missed_apart() {
        let height = least(4.0, 6.0);
        let verdicts = [6.0, 5.9, 4.0, 3.9].map(|found| height.verdict(found));
        assert_eq!(verdicts, [Verdict::Aim, Verdict::Must, Verdict::Must, Verdict::Missed]);
        let height = most(1.2, 1.0);
        let verdicts = [1.0, 1.1, 1.2, 1.3].map(|found| height.verdict(found));
        assert_eq!(verdicts, [Verdict::Aim, Verdict::Must, Verdict::Must, Verdict::Missed]);
    }
}
