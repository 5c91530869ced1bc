//! Readers beside a writer. With more threads than cores both slow down whatever the store does, so each is held against
//! the same beside a raw file's writer: what is lost beyond that is the store's.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::figures::{Figures, count};
use super::shape::Shape;
use crate::content::{Content, below, sum};
use crate::meter::median;
use crate::outcome::{Outcome, expect};
use crate::peers::{self, Peer, Reader};

const READERS: u64 = 8;
/// Rounds of writing whose median is the figure, raw and store in turn.
const ROUNDS: u64 = 3;

pub(super) fn run(shape: &Shape, dir: &Path) -> Outcome<Figures> {
    let [store_dir, raw_dir] = ["read", "raw"].map(|name| dir.join(name));
    std::fs::create_dir_all(&store_dir)?;
    std::fs::create_dir_all(&raw_dir)?;
    let mut store = peers::named("rollstore")?.open(&store_dir)?;
    let mut raw = peers::named("raw")?.open(&raw_dir)?;
    // What readers read is there from the start.
    let content = shape.content();
    shape.insert(&content, &mut *store, &mut |_| {})?;
    let sums: Vec<f32> = (0..shape.count).map(|number| sum(bytemuck::cast_slice(content.values(number)))).collect();
    check_all(&mut *store.reader()?, &content, &sums)?;

    let (mut raw_alone, mut store_alone) = (Vec::new(), Vec::new());
    let (mut raw_beside, mut store_beside) = (Vec::new(), Vec::new());
    let mut next = shape.count;
    for _ in 0..ROUNDS {
        raw_alone.push(write(&mut *raw, shape, &content, &mut next)?);
        store_alone.push(write(&mut *store, shape, &content, &mut next)?);
        // The readers read the store in both cases; what differs is who writes.
        let readers = (0..READERS).map(|_| store.reader()).collect::<Outcome<Vec<_>>>()?;
        raw_beside.push(beside(readers, &content, &sums, || write(&mut *raw, shape, &content, &mut next))?);
        let readers = (0..READERS).map(|_| store.reader()).collect::<Outcome<Vec<_>>>()?;
        store_beside.push(beside(readers, &content, &sums, || write(&mut *store, shape, &content, &mut next))?);
    }
    let median_of =
        |figures: &[(f64, f64)], which: fn(&(f64, f64)) -> f64| median(&figures.iter().map(which).collect::<Vec<_>>());
    let (raw_writes, raw_reads) = (median_of(&raw_beside, |both| both.0), median_of(&raw_beside, |both| both.1));
    let (store_writes, store_reads) =
        (median_of(&store_beside, |both| both.0), median_of(&store_beside, |both| both.1));
    let (raw_alone, store_alone) = (median(&raw_alone), median(&store_alone));
    let mut figures = Figures::default();
    figures.set("raw_alone_mb_s", raw_alone);
    figures.set("raw_beside_readers_mb_s", raw_writes);
    figures.set("store_alone_mb_s", store_alone);
    figures.set("store_beside_readers_mb_s", store_writes);
    figures.set("reads_beside_raw_per_s", raw_reads);
    figures.set("reads_beside_store_per_s", store_reads);
    figures.set("ingest_kept_against_raw_ratio", (store_writes / store_alone) / (raw_writes / raw_alone));
    figures.set("reads_kept_against_raw_ratio", store_reads / raw_reads);
    store.close()?;
    Ok(figures)
}

/// Inserts as many records as the shape has, with ids never used before; gives MB/s.
fn write(peer: &mut dyn Peer, shape: &Shape, content: &Content, next: &mut u64) -> Outcome<f64> {
    let end = *next + shape.count;
    let bytes = content.bytes(*next..end);
    let began = Instant::now();
    while *next < end {
        let last = end.min(*next + shape.batch as u64);
        peer.insert(&(*next..last).map(|number| content.record(number)).collect::<Vec<_>>())?;
        *next = last;
    }
    Ok(count(bytes) / 1e6 / began.elapsed().as_secs_f64())
}

/// Runs `work` while readers read at random; gives what it gives, and reads a second.
fn beside(
    readers: Vec<Box<dyn Reader>>,
    content: &Content,
    sums: &[f32],
    work: impl FnOnce() -> Outcome<f64>,
) -> Outcome<(f64, f64)> {
    let (is_over, reads) = (&AtomicBool::new(false), &AtomicU64::new(0));
    // Nobody begins before all are there.
    let start = &Barrier::new(readers.len() + 1);
    std::thread::scope(|scope| {
        let read = |(seed, mut reader): (u64, Box<dyn Reader>)| {
            scope.spawn(move || -> Outcome {
                start.wait();
                for read in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let number = below(read ^ seed << 40, content.count);
                    let mut found = f32::NAN;
                    reader.read(&[content.id(number)], &mut |_, bytes| found = sum(bytes))?;
                    expect("a read beside a writer", &found, &sums[usize::try_from(number)?])?;
                    reads.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let running: Vec<_> = (1..).zip(readers).map(read).collect();
        start.wait();
        let began = Instant::now();
        let worked = work();
        let rate = count(reads.load(Ordering::Relaxed)) / began.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        for thread in running {
            thread.join().map_err(|_| "a reader panicked")??;
        }
        Ok((worked?, rate))
    })
}

fn check_all(reader: &mut dyn Reader, content: &Content, sums: &[f32]) -> Outcome {
    let mut found = Vec::new();
    reader.read(&content.ids(0..content.count), &mut |_, bytes| found.push(sum(bytes)))?;
    expect("what was written is read", &(found == sums), &true)
}
