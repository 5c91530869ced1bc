//! sled: a B-link tree over a log.
//!
//! Its flush writes the log back by `sync_file_range`, which neither empties the device's cache nor keeps the file's length.
//! For the guarantee that the others give, its log file is synced after each flush.

#![expect(clippy::disallowed_types, reason = "the peer's own file is synced for it")]

use std::fs::File;
use std::sync::Arc;

use sled::{Batch, Config, Db, Mode};

use super::keys::{HEADER_BYTES, header, id_of, index_key, key, parse_header, values};
use super::{Kind, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "sled",
    settings: "sled 0.34; one tree with prefixed keys, so that a batch is atomic; apply_batch and flush a batch, and \
               fdatasync of its log, since its flush makes none; cache \
               1 GiB; HighThroughput; has no compaction on demand",
    scope: Scope::All,
    one_in: 1,
    open: |dir| {
        let config = Config::new().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
        let database = config.mode(Mode::HighThroughput).open()?;
        let log = Arc::new(File::open(dir.join("db"))?);
        Ok(Box::new(Sled { database, log }))
    },
};

const CACHE_BYTES: u64 = 1 << 30;
const RECORD: u8 = 0;
const BY_VERSION: u8 = 1;
const BY_BORN: u8 = 2;

#[derive(Clone)]
struct Sled {
    database: Db,
    log: Arc<File>,
}

fn prefixed(prefix: u8, key: &[u8]) -> Vec<u8> {
    [&[prefix][..], key].concat()
}

impl Sled {
    fn put(batch: &mut Batch, record: &Record<'_>) {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + size_of_val(record.values));
        bytes.extend_from_slice(&header(record));
        bytes.extend_from_slice(bytemuck::cast_slice(record.values));
        batch.insert(prefixed(RECORD, &key(record.id)), bytes);
        batch.insert(prefixed(BY_VERSION, &index_key(record.version, record.id)), &[]);
        batch.insert(prefixed(BY_BORN, &index_key(record.born_step, record.id)), &[]);
    }

    fn unindex(&self, batch: &mut Batch, id: u64) -> Outcome {
        let found = self.database.get(prefixed(RECORD, &key(id)))?.ok_or("a record is missing")?;
        let (born, version) = parse_header(&found)?;
        batch.remove(prefixed(BY_VERSION, &index_key(version, id)));
        batch.remove(prefixed(BY_BORN, &index_key(born, id)));
        Ok(())
    }

    fn commit(&self, batch: Batch) -> Outcome {
        self.database.apply_batch(batch)?;
        self.database.flush()?;
        Ok(self.log.sync_data()?)
    }

    fn below(&self, prefix: u8, bound: u64) -> Outcome<Vec<u64>> {
        let range = prefixed(prefix, &index_key(0, 0))..prefixed(prefix, &index_key(bound, 0));
        self.database.range(range).map(|row| id_of(&row?.0)).collect()
    }
}

impl Peer for Sled {
    fn insert(&mut self, records: &[Record<'_>]) -> Outcome {
        let mut batch = Batch::default();
        records.iter().for_each(|record| Self::put(&mut batch, record));
        self.commit(batch)
    }

    fn recompute(&mut self, records: &[Record<'_>]) -> Outcome {
        let mut batch = Batch::default();
        for record in records {
            self.unindex(&mut batch, record.id)?;
            Self::put(&mut batch, record);
        }
        self.commit(batch)
    }

    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>> {
        self.below(BY_VERSION, version_below)
    }

    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>> {
        self.below(BY_BORN, born_below)
    }

    fn delete(&mut self, ids: &[u64]) -> Outcome {
        let mut batch = Batch::default();
        for id in ids {
            self.unindex(&mut batch, *id)?;
            batch.remove(prefixed(RECORD, &key(*id)));
        }
        self.commit(batch)
    }

    fn reclaim(&mut self) -> Outcome {
        self.database.flush()?;
        Ok(())
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        Ok(Box::new(self.clone()))
    }

    fn close(self: Box<Self>) -> Outcome {
        drop(self);
        Ok(())
    }
}

impl Reader for Sled {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        for id in ids {
            if let Some(value) = self.database.get(prefixed(RECORD, &key(*id)))? {
                each(*id, values(&value));
            }
        }
        Ok(())
    }
}
