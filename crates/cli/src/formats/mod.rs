//! Rollouts in files that others read: JSON Lines, Parquet, safetensors, each with a mark that says that it is whole.
//!
//! May touch rollouts that were read, and files that are no part of a store. Knows nothing of options and commands.
//!
//! Always true:
//! - F1. A file appears under its name whole and synced, or not at all.
//! - F2. The checksum of a file is over every byte of it, its own eight digits read as zeros.
//! - F3. What a file says of lengths and counts is held against its size, or against a limit, before memory is taken for it.
//! - F4. Memory is bounded by a few rollouts, the list of ids, and buffers of a fixed size, whatever the size of the store.

mod file;
mod jsonl;
mod layout;
mod mark;
mod meter;
#[cfg_attr(not(feature = "parquet"), path = "no_parquet.rs")]
mod parquet;
mod provenance;
mod reader;
mod row;
mod safetensors;
mod seal;
mod source;
pub(crate) mod values;
pub(crate) mod view;

pub(crate) use file::{OutputFile, folder, sync_folder};
pub(crate) use mark::StoreMark;
pub(crate) use meter::Meter;
pub(crate) use reader::DumpFile;
pub(crate) use source::Source;

use std::io::{self, Write};
use std::path::Path;

use crate::args::{Compression, DumpFormat};
use crate::exit::{Failure, Outcome};

/// What a dump has come to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dumped {
    /// Rollouts in the file.
    pub(crate) rows: u64,
    /// Rollouts that could not be read, in whole or in part.
    pub(crate) damaged: u64,
    pub(crate) crc32: u32,
}

/// Writes JSON Lines to a stream.
pub(crate) fn write_lines(
    source: &Source<'_>,
    to: &mut dyn Write,
    failure: &dyn Fn(&io::Error) -> Failure,
) -> Outcome<Dumped> {
    jsonl::write::write(source, to, failure)
}

/// Writes a file in a format.
pub(crate) fn write_file(
    source: &Source<'_>,
    format: DumpFormat,
    compression: Compression,
    path: &Path,
) -> Outcome<Dumped> {
    let mut file = OutputFile::create(path)?;
    let dumped = match format {
        DumpFormat::Jsonl => {
            let failure = |error: &io::Error| Failure::io("write", path, error);
            jsonl::write::write(source, &mut file.buffered(), &failure)
        }
        DumpFormat::Parquet => parquet::write::write(source, compression, &mut file),
        DumpFormat::Safetensors => safetensors::write::write(source, &mut file),
    }?;
    file.keep()?;
    Ok(dumped)
}
