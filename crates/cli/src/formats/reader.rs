//! Files that a dump wrote: which format they are in, whether they are whole, and their rollouts.
//!
//! Always true: nothing of a file is handed out before its mark was found and its checksum was right.

use std::fs::OpenOptions;
use std::io::{BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::file::File;
use super::mark::Mark;
use super::meter::Meter;
use super::row::Row;
use super::{jsonl, parquet, safetensors, seal};
use crate::exit::{Failure, Outcome};
use crate::text;

/// Rollouts of a file, one after the other.
pub(crate) type Rows = Box<dyn Iterator<Item = Outcome<Row>>>;

/// A whole file that a dump wrote.
#[derive(Debug)]
pub(crate) struct DumpFile {
    path: PathBuf,
    file: File,
    format: Found,
    pub(crate) mark: Mark,
}

/// The format that a file shows.
#[derive(Debug, Clone, Copy)]
enum Found {
    Jsonl,
    Parquet,
    Safetensors,
}

/// Where a file has its mark, and where the digits of its checksum.
pub(super) struct Sealed {
    pub(super) mark: Mark,
    pub(super) digits_at: u64,
}

impl DumpFile {
    /// Opens a file and reads all of it once against its checksum.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        let failed = |error| Failure::io("read", path, &error);
        let file = OpenOptions::new().read(true).open(path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut start = [0; 9];
        let known = file.read_at(&mut start, 0).map_err(failed)?;
        let format = match &start[..known] {
            [b'P', b'A', b'R', b'1', ..] => Found::Parquet,
            [b'{', ..] => Found::Jsonl,
            [.., b'{'] if known == start.len() => Found::Safetensors,
            _ => return Err(refused(path, "it is no JSON Lines, Parquet or safetensors file")),
        };
        let sealed = match format {
            Found::Jsonl => jsonl::read::sealed(&file, len),
            Found::Parquet => parquet::read::sealed(&file, len),
            Found::Safetensors => safetensors::read::sealed(&file, len),
        };
        let Sealed { mark, digits_at } = sealed.map_err(|what| refused(path, &what))?;
        let meter = Meter::of_bytes("checking", len);
        (&file).seek(SeekFrom::Start(0)).map_err(failed)?;
        let (crc32, said) = seal::sum(&file, digits_at, |done| meter.set(done)).map_err(failed)?;
        if said != Some(crc32) {
            let said = said.map_or_else(|| "something else".to_owned(), |said| format!("{said:#010x}"));
            let what = format!("its checksum is {crc32:#010x}, its mark says {said}: it was cut or changed");
            return Err(refused(path, &what));
        }
        Ok(Self { path: path.to_owned(), file, format, mark })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about what the file holds.
    pub(crate) fn refused(&self, what: &str) -> Failure {
        refused(&self.path, what)
    }

    /// The rollouts.
    pub(crate) fn rows(&self) -> Outcome<Rows> {
        let failed = |error| Failure::io("read", &self.path, &error);
        let file = self.file.try_clone().map_err(failed)?;
        (&file).seek(SeekFrom::Start(0)).map_err(failed)?;
        let rows: Box<dyn Iterator<Item = Result<Row, String>>> = match self.format {
            Found::Jsonl => Box::new(jsonl::read::Lines::new(BufReader::with_capacity(1 << 20, file))),
            Found::Parquet => Box::new(self.told(parquet::read::Batches::new(file, &self.mark))?),
            Found::Safetensors => Box::new(self.told(safetensors::read::Tensors::new(&file, &self.mark))?),
        };
        let path = self.path.clone();
        Ok(Box::new(rows.fuse().map(move |row| row.map_err(|what| refused(&path, &what)))))
    }

    fn told<T>(&self, result: Result<T, String>) -> Outcome<T> {
        result.map_err(|what| self.refused(&what))
    }
}

fn refused(path: &Path, what: &str) -> Failure {
    Failure::could_not_look(format!("{}: {what}; dump the rollouts again", text::path(path)))
}
