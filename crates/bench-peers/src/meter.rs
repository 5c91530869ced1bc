//! What a run costs besides time: bytes that reach the device, memory, space. Read from the kernel, for this process where it
//! tells, for the device where it does not.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use crate::outcome::Outcome;
use crate::syncs;

/// Anonymous memory of this process, in bytes: heap, not the page cache.
pub(crate) fn anonymous_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    number_after(&status, "RssAnon:").unwrap_or(0) * 1024
}

/// Bytes that this process sent towards the device.
fn written_bytes() -> u64 {
    number_after(&fs::read_to_string("/proc/self/io").unwrap_or_default(), "write_bytes:").unwrap_or(0)
}

/// Bytes written to the device that holds `dir`, by whomever.
fn device_written_bytes(dir: &Path) -> Option<u64> {
    let device = fs::metadata(dir).ok()?.dev();
    let stat = fs::read_to_string(format!("/sys/dev/block/{}:{}/stat", libc::major(device), libc::minor(device)));
    let sectors: u64 = stat.ok()?.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

/// Space that the files below a directory take on disk.
pub(crate) fn space_bytes(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for file in files(dir)? {
        // A file that a peer removes meanwhile takes no space.
        bytes += fs::metadata(file).map_or(0, |found| found.blocks() * 512);
    }
    Ok(bytes)
}

/// Every file below a directory.
pub(crate) fn files(dir: &Path) -> Outcome<Vec<std::path::PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    Ok(found)
}

/// Counters from when it was started.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    dir: &'a Path,
    began: Instant,
    syncs: u64,
    hints: u64,
    written: u64,
    device: Option<u64>,
}

/// What happened between two instants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    pub(crate) syncs: f64,
    pub(crate) hints: f64,
    pub(crate) written_bytes: f64,
    pub(crate) device_bytes: Option<f64>,
}

impl<'a> Meter<'a> {
    pub(crate) fn start(dir: &'a Path) -> Self {
        let (syncs, hints) = (syncs::waited(), syncs::hinted());
        let (written, device) = (written_bytes(), device_written_bytes(dir));
        Self { dir, syncs, hints, written, device, began: Instant::now() }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures, not sums to check")]
    pub(crate) fn stop(self) -> Cost {
        let seconds = self.began.elapsed().as_secs_f64();
        let device = self.device.zip(device_written_bytes(self.dir)).map(|(before, now)| (now - before) as f64);
        Cost {
            seconds,
            syncs: (syncs::waited() - self.syncs) as f64,
            hints: (syncs::hinted() - self.hints) as f64,
            written_bytes: (written_bytes() - self.written) as f64,
            device_bytes: device,
        }
    }
}

/// The value below which `part` of the figures lie.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a slice"
)]
pub(crate) fn percentile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * part).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        even if even.is_multiple_of(2) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// A directory of a test, beside the build's files: the system's own place may be memory, which syncs nothing.
#[cfg(test)]
pub(crate) fn scratch() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_percentiles_at_their_place() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
        let figures: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!((percentile(&figures, 0.99), percentile(&figures, 1.0)), (99.0, 100.0));
    }
}
