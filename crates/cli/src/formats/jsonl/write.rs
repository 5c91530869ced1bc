//! JSON Lines, written.

use std::io::{self, Write};

use super::super::mark::{Mark, StoreMark};
use super::super::meter::Meter;
use super::super::source::{Found, Source};
use super::super::{Dumped, seal};
use super::{MARK_MIDDLE, mark_start};
use crate::exit::{Failure, Outcome, note};

/// Writes every rollout, and the mark. A rollout that cannot be read has an `error` in place of what is missing.
pub(in super::super) fn write(
    source: &Source<'_>,
    to: &mut dyn Write,
    failure: &dyn Fn(&io::Error) -> Failure,
) -> Outcome<Dumped> {
    let mut to = Summed { to, hasher: crc32fast::Hasher::new() };
    let (mut rows, mut damaged) = (0, 0);
    let meter = Meter::new("dumping", source.ids.len() as u64);
    for (done, id) in (1..).zip(&source.ids) {
        let is_whole = match source.get(*id)? {
            Found::Gone => continue,
            Found::Damaged(error) => {
                to.line(&serde_json::json!({ "id": id.to_string(), "error": error }))
                    .map_err(|error| failure(&error))?;
                false
            }
            Found::Rollout(rollout) => {
                let json = source.json(&rollout)?;
                for (column, error) in json.damage() {
                    note(&format!("rollout {id}: {column}: {error}"));
                }
                to.line(&json).map_err(|error| failure(&error))?;
                json.damage().next().is_none()
            }
        };
        rows += u64::from(is_whole);
        damaged += u64::from(!is_whole);
        meter.set(done);
    }
    let mark = Mark::new(rows, damaged, &[], StoreMark::of(source.store)).to_json();
    let start = mark_start();
    let line = |digits: &str| format!("{start}{digits}{MARK_MIDDLE}{mark}}}\n");
    to.hasher.update(line(seal::ZEROS).as_bytes());
    let crc32 = to.hasher.finalize();
    to.to.write_all(line(&seal::digits(crc32)).as_bytes()).map_err(|error| failure(&error))?;
    to.to.flush().map_err(|error| failure(&error))?;
    Ok(Dumped { rows, damaged, crc32 })
}

/// Takes what is written into the checksum.
struct Summed<'a> {
    to: &'a mut dyn Write,
    hasher: crc32fast::Hasher,
}

impl Summed<'_> {
    fn line(&mut self, json: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self, json)?;
        self.write_all(b"\n")
    }
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
