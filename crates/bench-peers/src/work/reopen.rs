//! Opening what a killed process left.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::OpenFrom;
use super::figures::{Figures, count};
use super::shape::Shape;
use crate::content::sum;
use crate::meter::{anonymous_bytes, files};
use crate::outcome::{Outcome, expect};
use crate::peers::Kind;

/// Inserts everything and is gone, as by `kill -9`.
pub(super) fn fill_and_die(kind: Kind, shape: &Shape, dir: &Path) -> Outcome<Figures> {
    let shape = &shape.for_peer(kind);
    let mut peer = kind.open(dir)?;
    shape.insert(&shape.content(), &mut *peer, &mut |_| {})?;
    die()
}

#[expect(unsafe_code, reason = "a signal to this process")]
fn die() -> ! {
    // SAFETY: the call asks for this process's number and touches no memory.
    let this = unsafe { libc::getpid() };
    // SAFETY: the call ends this process and touches no memory.
    unsafe { libc::kill(this, libc::SIGKILL) };
    unreachable!("nothing comes after SIGKILL")
}

pub(super) fn run(kind: Kind, shape: &Shape, from: OpenFrom, dir: &Path) -> Outcome<Figures> {
    let shape = &shape.for_peer(kind);
    let content = shape.content();
    if from == OpenFrom::LogAlone {
        forget_what_is_derived(dir)?;
    }
    let memory_before = anonymous_bytes();
    let began = Instant::now();
    let peer = kind.open(dir)?;
    let opened = began.elapsed();
    let mut found = Vec::new();
    let asked = [0, shape.count / 2, shape.count - 1];
    peer.reader()?.read(&content.ids(asked), &mut |_, bytes| found.push(sum(bytes)))?;
    let mut figures = Figures::default();
    figures.set("open_ms", opened.as_secs_f64() * 1e3);
    figures.set("open_and_get_ms", began.elapsed().as_secs_f64() * 1e3);
    let memory = anonymous_bytes().saturating_sub(memory_before);
    figures.set("opened_memory_bytes_record", count(memory) / count(shape.count));
    expect(
        "read after the kill",
        &found,
        &asked.map(|number| sum(bytemuck::cast_slice(content.values(number)))).to_vec(),
    )?;
    expect("records after the kill", &peer.out_of_window(u64::from(u32::MAX))?.len(), &usize::try_from(shape.count)?)?;
    // The next open finds what this one found, as far as the peer's recovery left it.
    std::mem::forget(peer);
    Ok(figures)
}

/// Removes a rollstore's index and makes every footer unreadable: the state must come from the frames.
fn forget_what_is_derived(dir: &Path) -> Outcome {
    for file in files(dir)? {
        let ends = |end| file.extension().is_some_and(|found| found == end);
        if ends("redb") {
            fs::remove_file(&file)?;
        } else if ends("log") {
            let mut bytes = fs::read(&file)?;
            // A segment ends with a trailer of 64 bytes, which points at its footer.
            if let Some(trailer) = bytes.last_chunk_mut::<64>() {
                trailer.iter_mut().for_each(|byte| *byte = !*byte);
            }
            fs::write(&file, bytes)?;
        }
    }
    Ok(())
}
