//! What trainers do today: a file a rollout, each written beside its name, synced and renamed over it.

#![expect(clippy::disallowed_types, reason = "this peer is plain files")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::keys::{HEADER_BYTES, header, parse_header, values};
use super::{Kind, Opened, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "files",
    settings: "a file a rollout: write, fdatasync, rename; one fsync of the directory a batch; 256 folders by hash; a scan \
               reads the first 16 bytes of every file; given one record in 50",
    scope: Scope::All,
    one_in: 50,
    open,
};

/// Folders that the files are spread over.
const FOLDERS: u64 = 256;

#[derive(Clone)]
struct Files {
    dir: PathBuf,
    /// Reused from read to read.
    buffer: Vec<u8>,
}

fn open(dir: &Path) -> Opened {
    for folder in 0..FOLDERS {
        fs::create_dir_all(dir.join(format!("{folder:02x}")))?;
    }
    File::open(dir)?.sync_all()?;
    Ok(Box::new(Files { dir: dir.to_owned(), buffer: Vec::new() }))
}

impl Files {
    fn folder(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{:02x}", id % FOLDERS))
    }

    fn path(&self, id: u64) -> PathBuf {
        self.folder(id).join(id.to_string())
    }

    /// Syncs the folders of these ids, each once: names are durable then.
    fn sync_folders(&self, ids: impl Iterator<Item = u64>) -> Outcome {
        let mut folders: Vec<u64> = ids.map(|id| id % FOLDERS).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            File::open(self.folder(folder))?.sync_all()?;
        }
        Ok(())
    }

    fn scan(&self, matches: impl Fn((u64, u64)) -> bool) -> Outcome<Vec<u64>> {
        let mut found = Vec::new();
        for folder in 0..FOLDERS {
            for entry in fs::read_dir(self.folder(folder))? {
                let path = entry?.path();
                let mut header = [0; HEADER_BYTES];
                File::open(&path)?.read_exact(&mut header)?;
                if matches(parse_header(&header)?) {
                    let name = path.file_name().and_then(|name| name.to_str()).ok_or("a file of another's")?;
                    found.push(name.parse()?);
                }
            }
        }
        Ok(found)
    }
}

impl Peer for Files {
    fn insert(&mut self, batch: &[Record<'_>]) -> Outcome {
        for record in batch {
            let (path, unfinished) = (self.path(record.id), self.dir.join("unfinished"));
            let mut file = File::create(&unfinished)?;
            file.write_all(&header(record))?;
            file.write_all(bytemuck::cast_slice(record.values))?;
            file.sync_data()?;
            fs::rename(unfinished, path)?;
        }
        self.sync_folders(batch.iter().map(|record| record.id))
    }

    fn recompute(&mut self, batch: &[Record<'_>]) -> Outcome {
        self.insert(batch)
    }

    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>> {
        self.scan(|(_, version)| version < version_below)
    }

    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>> {
        self.scan(|(born, _)| born < born_below)
    }

    fn delete(&mut self, ids: &[u64]) -> Outcome {
        for id in ids {
            fs::remove_file(self.path(*id))?;
        }
        self.sync_folders(ids.iter().copied())
    }

    fn reclaim(&mut self) -> Outcome {
        Ok(())
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        Ok(Box::new(self.clone()))
    }

    fn close(self: Box<Self>) -> Outcome {
        Ok(())
    }
}

impl Reader for Files {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        for id in ids {
            let path = self.path(*id);
            self.buffer.clear();
            match File::open(path) {
                Ok(mut file) => file.read_to_end(&mut self.buffer)?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            each(*id, values(&self.buffer));
        }
        Ok(())
    }
}
