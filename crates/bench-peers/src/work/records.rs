//! Workload W and its relatives: a store's life in the order of a trainer's, each phase timed and checked.

use std::path::Path;
use std::time::Instant;

use super::figures::{Figures, count};
use super::shape::Shape;
use crate::content::{Content, RECOMPUTE_STEP, STEPS, below, first, sum};
use crate::meter::{Meter, anonymous_bytes, median, percentile, space_bytes};
use crate::outcome::{Outcome, expect};
use crate::peers::{DELETE_BATCH, Kind, Peer, Reader, Scope};

/// Ids of one call of a reader.
const READ_GROUP: usize = 256;
/// Records that a store of any size is asked for, where stores of several sizes are compared.
const READ_SET: u64 = 10_000;
/// Times that a scan is repeated; its figure is the median.
const SCANS: usize = 15;

/// One store on its way through the phases.
struct Run<'a> {
    shape: &'a Shape,
    content: &'a Content,
    dir: &'a Path,
    peer: Box<dyn Peer>,
    figures: Figures,
    /// The sum of each record's values, as last written.
    sums: Vec<f32>,
    firsts: Vec<f32>,
    is_recomputed: Vec<bool>,
}

pub(super) fn run(kind: Kind, shape: &Shape, dir: &Path) -> Outcome<Figures> {
    let shape = &shape.for_peer(kind);
    let content = &shape.content();
    let numbers = || 0..shape.count;
    let sums = numbers().map(|number| sum(bytemuck::cast_slice(content.values(number)))).collect();
    let firsts = numbers().map(|number| content.values(number)[0]).collect();
    let memory_before = anonymous_bytes();
    let began = Instant::now();
    let peer = kind.open(dir)?;
    let is_recomputed = vec![false; numbers().count()];
    let mut run = Run { shape, content, dir, peer, figures: Figures::default(), sums, firsts, is_recomputed };
    run.figures.set("records", count(shape.count));
    run.figures.set("create_ms", began.elapsed().as_secs_f64() * 1e3);
    run.ingest(memory_before)?;
    run.read_all()?;
    run.random_reads()?;
    run.threads()?;
    if kind.scope == Scope::All {
        run.scans("fresh", &[(1, 1), (10, 10)])?;
        let shuffled = content.shuffled();
        let (tenth, half) = (shuffled.len() / 10, shuffled.len() / 2);
        run.recompute(&shuffled[..tenth], Some("recompute"))?;
        run.recompute(&shuffled[tenth..half], None)?;
        run.scans("recomputed", &[(10, 20)])?;
        run.read_all()?;
        run.delete()?;
    }
    let began = Instant::now();
    run.peer.close()?;
    run.figures.set("close_ms", began.elapsed().as_secs_f64() * 1e3);
    run.figures.set("process_syncs", count(crate::syncs::waited()));
    Ok(run.figures)
}

impl Run<'_> {
    fn ingest(&mut self, memory_before: u64) -> Outcome {
        let bytes = count(self.content.bytes(0..self.shape.count));
        let (mut latencies, mut last) = (Vec::new(), Instant::now());
        let meter = Meter::start(self.dir);
        self.shape.insert(self.content, &mut *self.peer, &mut |_| {
            latencies.push(last.elapsed().as_secs_f64() * 1e3);
            last = Instant::now();
        })?;
        let cost = meter.stop();
        let records = count(self.shape.count);
        let set = &mut |name: &str, figure| self.figures.set(name, figure);
        set("ingest_mb_s", bytes / 1e6 / cost.seconds);
        set("ingest_us_record", cost.seconds * 1e6 / records);
        set("ingest_syncs_commit", cost.syncs / count(latencies.len()));
        set("ingest_hints_commit", cost.hints / count(latencies.len()));
        set("ingest_write_amp", cost.written_bytes / bytes);
        if let Some(device) = cost.device_bytes {
            set("ingest_device_write_amp", device / bytes);
        }
        set("commit_p50_ms", percentile(&latencies, 0.5));
        set("commit_p99_ms", percentile(&latencies, 0.99));
        let memory = anonymous_bytes().saturating_sub(memory_before);
        set("ingest_memory_mb", count(memory) / 1e6);
        set("ingest_memory_bytes_record", count(memory) / records);
        set("ingest_space_ratio", count(space_bytes(self.dir)?) / bytes);
        set("log_overhead_bytes_record", (count(log_bytes(self.dir)?) - bytes) / records);
        Ok(())
    }

    /// Reads every record, checks each, and leaves it warm.
    fn read_all(&mut self) -> Outcome {
        let ids = self.content.ids(0..self.shape.count);
        let mut found = Vec::with_capacity(ids.len());
        let mut reader = self.peer.reader()?;
        for group in ids.chunks(READ_GROUP) {
            reader.read(group, &mut |_, bytes| found.push(sum(bytes)))?;
        }
        expect("records read", &found.len(), &self.sums.len())?;
        let wrong = found.iter().zip(&self.sums).filter(|(found, expected)| found != expected).count();
        expect("records that differ", &wrong, &0)
    }

    fn random_reads(&mut self) -> Outcome {
        let mut reader = self.peer.reader()?;
        let (mut whole, mut one, mut set) = (Vec::new(), Vec::new(), Vec::new());
        let few = READ_SET.min(self.shape.count);
        for round in 0..2 {
            set.push(read_among(few, &mut *reader, self.content, self.shape.reads, round, &self.sums, sum)?);
            whole.push(read_random(&mut *reader, self.content, self.shape.reads, round, &self.sums, sum)?);
            one.push(read_random(&mut *reader, self.content, self.shape.reads, round, &self.firsts, first)?);
        }
        self.figures.set("get_set_sum_us", median(&set));
        self.figures.set("get_sum_us", median(&whole));
        self.figures.set("get_first_us", median(&one));
        Ok(())
    }

    /// So many readers at once, each with a share of the reads.
    fn threads(&mut self) -> Outcome {
        for threads in &self.shape.threads {
            let readers = (0..*threads).map(|_| self.peer.reader()).collect::<Outcome<Vec<_>>>()?;
            let (share, content, sums) = (self.shape.reads / *threads, self.content, &self.sums);
            let began = Instant::now();
            std::thread::scope(|scope| -> Outcome {
                let spawn = |(seed, mut reader): (u64, Box<dyn Reader>)| {
                    scope.spawn(move || read_random(&mut *reader, content, share, seed, sums, sum))
                };
                let running: Vec<_> = (100..).zip(readers).map(spawn).collect();
                for thread in running {
                    thread.join().map_err(|_| "a reader panicked")??;
                }
                Ok(())
            })?;
            let each = began.elapsed().as_secs_f64() * 1e6 / count(share * *threads);
            self.figures.set(&format!("get_sum_{threads}_threads_us"), each);
        }
        Ok(())
    }

    /// Scans that match so many percent of the records, which are those below a step or version. Bounds only grow: a store
    /// that counts advances cannot go back.
    fn scans(&mut self, state: &str, parts: &[(u64, u64)]) -> Outcome {
        for (part, bound) in parts.iter().copied() {
            self.peer.before_stale(bound)?;
            let expected = self.matching(|number| Content::version(number) < bound);
            self.scan(&format!("stale_{part}_{state}"), &expected, |peer| peer.stale(bound))?;
            let expected = self.matching(|number| self.content.born_step(number) < bound);
            self.scan(&format!("window_{part}_{state}"), &expected, |peer| peer.out_of_window(bound))?;
        }
        Ok(())
    }

    fn matching(&self, matches: impl Fn(u64) -> bool) -> Vec<u64> {
        let fresh = (0..self.shape.count).zip(&self.is_recomputed).filter(|(_, recomputed)| !**recomputed);
        let mut ids = self.content.ids(fresh.map(|(number, _)| number).filter(|number| matches(*number)));
        ids.sort_unstable();
        ids
    }

    fn scan(&mut self, name: &str, expected: &[u64], scan: impl Fn(&dyn Peer) -> Outcome<Vec<u64>>) -> Outcome {
        let (mut times, mut found) = (Vec::new(), Vec::new());
        for _ in 0..SCANS {
            let began = Instant::now();
            found = std::hint::black_box(scan(&*self.peer)?);
            times.push(began.elapsed().as_secs_f64());
        }
        found.sort_unstable();
        if found != expected {
            return Err(format!("{name}: {} ids found, {} expected, or others", found.len(), expected.len()).into());
        }
        self.figures.set(&format!("{name}_us"), median(&times) * 1e6);
        self.figures.set(&format!("{name}_ns_match"), median(&times) * 1e9 / count(expected.len().max(1)));
        Ok(())
    }

    fn recompute(&mut self, numbers: &[u64], name: Option<&str>) -> Outcome {
        let bytes = count(self.content.bytes(numbers.iter().copied()));
        let meter = Meter::start(self.dir);
        for batch in numbers.chunks(self.shape.batch) {
            let records: Vec<_> = batch.iter().map(|number| self.content.recomputed(*number)).collect();
            self.peer.recompute(&records)?;
        }
        let cost = meter.stop();
        for number in numbers {
            let at = usize::try_from(*number)?;
            self.sums[at] = sum(bytemuck::cast_slice(self.content.recomputed_values(*number)));
            self.is_recomputed[at] = true;
        }
        if let Some(name) = name {
            self.figures.set(&format!("{name}_mb_s"), bytes / 1e6 / cost.seconds);
            self.figures.set(&format!("{name}_us_record"), cost.seconds * 1e6 / count(numbers.len()));
            self.figures.set(&format!("{name}_syncs"), cost.syncs);
            self.figures.set(&format!("{name}_write_amp"), cost.written_bytes / bytes);
        }
        Ok(())
    }

    /// Takes the oldest half away, one quarter of all by its step and one by its ids, gives its space back, and checks what
    /// is left.
    fn delete(&mut self) -> Outcome {
        let half = self.shape.count / 2;
        let step = self.content.born_step(self.shape.count / 4);
        let oldest = (0..half).take_while(|number| self.content.born_step(*number) < step).count() as u64;
        let ids = self.content.ids(0..oldest);
        let began = Instant::now();
        self.peer.delete_created_before(step, &ids)?;
        self.figures.set("delete_oldest_us_record", began.elapsed().as_secs_f64() * 1e6 / count(oldest));
        let ids = self.content.ids(oldest..half);
        let began = Instant::now();
        ids.chunks(DELETE_BATCH).try_for_each(|batch| self.peer.delete(batch))?;
        self.figures.set("delete_us_record", began.elapsed().as_secs_f64() * 1e6 / count(half - oldest));
        let began = Instant::now();
        self.peer.reclaim()?;
        self.figures.set("reclaim_ms", began.elapsed().as_secs_f64() * 1e3);
        let (live, space) = (count(self.content.bytes(half..self.shape.count)), count(space_bytes(self.dir)?));
        self.figures.set("reclaimed_space_ratio", space / live);
        self.figures.set("reclaimed_space_mb", space / 1e6);
        self.figures.set("reclaimed_excess_mb", (space - live) / 1e6);

        let ids = self.content.ids(0..self.shape.count);
        let mut found = Vec::new();
        self.peer.reader()?.read(&ids, &mut |_, bytes| found.push(sum(bytes)))?;
        let kept = &self.sums[usize::try_from(half)?..];
        expect("records left", &found.len(), &kept.len())?;
        expect("what is left is whole", &found.iter().zip(kept).all(|(found, kept)| found == kept), &true)?;
        expect("index rows left", &self.peer.out_of_window(RECOMPUTE_STEP + 1)?.len(), &kept.len())?;
        debug_assert!(self.content.born_step(half) >= STEPS / 2 - 1);
        Ok(())
    }
}

/// Random reads of all records; gives microseconds a read.
pub(super) fn read_random(
    reader: &mut dyn Reader,
    content: &Content,
    reads: u64,
    seed: u64,
    expected: &[f32],
    look: impl Fn(&[u8]) -> f32,
) -> Outcome<f64> {
    read_among(content.count, reader, content, reads, seed, expected, look)
}

/// Random reads of so many records, which are spread evenly over all. What is read must add up to what was written.
fn read_among(
    many: u64,
    reader: &mut dyn Reader,
    content: &Content,
    reads: u64,
    seed: u64,
    expected: &[f32],
    look: impl Fn(&[u8]) -> f32,
) -> Outcome<f64> {
    let apart = content.count / many;
    let at = |read: u64| below(read.wrapping_mul(0x9E37) ^ seed << 40, many) * apart;
    let numbers: Vec<u64> = (0..reads).map(at).collect();
    let ids = content.ids(numbers.iter().copied());
    let (mut total, mut found) = (0.0_f64, 0_u64);
    let began = Instant::now();
    for group in ids.chunks(READ_GROUP) {
        reader.read(group, &mut |_, bytes| {
            total += f64::from(look(bytes));
            found += 1;
        })?;
    }
    let seconds = began.elapsed().as_secs_f64();
    expect("random reads", &found, &reads)?;
    let mut sums = 0.0_f64;
    for number in &numbers {
        sums += f64::from(expected[usize::try_from(*number)?]);
    }
    expect("the checksum of random reads", &total, &sums)?;
    Ok(seconds * 1e6 / count(reads))
}

/// Bytes of the log: of segments where there are any, of all files otherwise.
fn log_bytes(dir: &Path) -> Outcome<u64> {
    let files = crate::meter::files(dir)?;
    let segments: Vec<_> = files.iter().filter(|file| file.extension().is_some_and(|end| end == "log")).collect();
    let of = |file: &std::path::PathBuf| std::fs::metadata(file).map_or(0, |found| found.len());
    Ok(if segments.is_empty() { files.iter().map(of).sum() } else { segments.into_iter().map(of).sum() })
}
