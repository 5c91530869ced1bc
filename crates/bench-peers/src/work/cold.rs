//! Random reads of a store that memory does not hold: the kernel is asked to forget every page of its files first.

use std::path::Path;
use std::time::Instant;

use super::figures::{Figures, count};
use super::shape::Shape;
use crate::content::{below, sum};
use crate::meter::{files, percentile};
use crate::outcome::{Outcome, expect};
use crate::peers::Kind;

pub(super) fn run(kind: Kind, shape: &Shape, dir: &Path) -> Outcome<Figures> {
    let shape = &shape.for_peer(kind);
    let content = shape.content();
    let mut peer = kind.open(dir)?;
    shape.insert(&content, &mut *peer, &mut |_| {})?;
    // A raw file's table is gone with its process: it reads in this one, through a map that is made anew.
    let peer = if kind.scope == crate::peers::Scope::All {
        peer.close()?;
        forget(dir)?;
        kind.open(dir)?
    } else {
        forget(dir)?;
        peer
    };
    let mut reader = peer.reader()?;
    let mut latencies = Vec::new();
    for read in 0..shape.reads {
        let number = below(read ^ 0xC01D, shape.count);
        let mut found = f32::NAN;
        let began = Instant::now();
        reader.read(&[content.id(number)], &mut |_, bytes| found = sum(bytes))?;
        latencies.push(began.elapsed().as_secs_f64() * 1e6);
        expect("a cold read", &found, &sum(bytemuck::cast_slice(content.values(number))))?;
    }
    let mut figures = Figures::default();
    figures.set("cold_get_mean_us", latencies.iter().sum::<f64>() / count(latencies.len()));
    figures.set("cold_get_p50_us", percentile(&latencies, 0.5));
    figures.set("cold_get_p99_us", percentile(&latencies, 0.99));
    Ok(figures)
}

/// Asks the kernel to drop what it holds of these files; clean pages that nothing maps go.
#[expect(clippy::disallowed_types, reason = "files of any peer")]
fn forget(dir: &Path) -> Outcome {
    use std::os::fd::AsRawFd;
    for path in files(dir)? {
        let file = std::fs::File::open(path)?;
        file.sync_all()?;
        #[expect(unsafe_code, reason = "a system call")]
        // SAFETY: the call takes an open descriptor and touches no memory of this process.
        let status = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        expect("posix_fadvise", &status, &0)?;
    }
    Ok(())
}
