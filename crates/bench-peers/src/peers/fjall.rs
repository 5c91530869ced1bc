//! fjall: a log-structured merge tree whose large values lie in blob files.

use std::path::Path;

use fjall::config::CompressionPolicy;
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, OwnedWriteBatch, PersistMode,
};

use super::keys::{id_of, index_key, key, parse_header, value, values};
use super::{Kind, Opened, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "fjall",
    settings: "fjall 3.1; PersistMode::SyncData a batch; key-value separation from 1 KiB; no compression; cache 1 GiB; \
               memtable 64 MiB; 2 workers; reclaim is flush and major compaction, twice",
    scope: Scope::All,
    one_in: 1,
    open,
};

const CACHE_BYTES: u64 = 1 << 30;
const MEMTABLE_BYTES: u64 = 64 << 20;

#[derive(Clone)]
struct Fjall {
    database: Database,
    records: Keyspace,
    by_version: Keyspace,
    by_born: Keyspace,
}

fn open(dir: &Path) -> Opened {
    let builder = Database::builder(dir).cache_size(CACHE_BYTES).worker_threads(2);
    let database = builder.journal_compression(CompressionType::None).open()?;
    let options = || {
        let blobs = KvSeparationOptions::default().separation_threshold(1024).compression(CompressionType::None);
        KeyspaceCreateOptions::default()
            .max_memtable_size(MEMTABLE_BYTES)
            .data_block_compression_policy(CompressionPolicy::disabled())
            .expect_point_read_hits(true)
            .with_kv_separation(Some(blobs))
    };
    let records = database.keyspace("records", options)?;
    let by_version = database.keyspace("by_version", KeyspaceCreateOptions::default)?;
    let by_born = database.keyspace("by_born", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, records, by_version, by_born }))
}

impl Fjall {
    fn batch(&self) -> OwnedWriteBatch {
        self.database.batch().durability(Some(PersistMode::SyncData))
    }

    fn put(&self, batch: &mut OwnedWriteBatch, record: &Record<'_>) {
        let mut bytes = Vec::new();
        value(record, &mut bytes);
        batch.insert(&self.records, key(record.id), bytes);
        batch.insert(&self.by_version, index_key(record.version, record.id), b"");
        batch.insert(&self.by_born, index_key(record.born_step, record.id), b"");
    }

    fn unindex(&self, batch: &mut OwnedWriteBatch, id: u64) -> Outcome {
        let (born, version) = parse_header(&self.records.get(key(id))?.ok_or("a record is missing")?)?;
        batch.remove(&self.by_version, index_key(version, id));
        batch.remove(&self.by_born, index_key(born, id));
        Ok(())
    }

    fn below(keyspace: &Keyspace, bound: u64) -> Outcome<Vec<u64>> {
        keyspace.range(..index_key(bound, 0)).map(|row| id_of(&row.key()?)).collect()
    }
}

impl Peer for Fjall {
    fn insert(&mut self, records: &[Record<'_>]) -> Outcome {
        let mut batch = self.batch();
        records.iter().for_each(|record| self.put(&mut batch, record));
        Ok(batch.commit()?)
    }

    fn recompute(&mut self, records: &[Record<'_>]) -> Outcome {
        let mut batch = self.batch();
        for record in records {
            self.unindex(&mut batch, record.id)?;
            self.put(&mut batch, record);
        }
        Ok(batch.commit()?)
    }

    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>> {
        Self::below(&self.by_version, version_below)
    }

    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>> {
        Self::below(&self.by_born, born_below)
    }

    fn delete(&mut self, ids: &[u64]) -> Outcome {
        let mut batch = self.batch();
        for id in ids {
            self.unindex(&mut batch, *id)?;
            batch.remove(&self.records, key(*id));
        }
        Ok(batch.commit()?)
    }

    fn reclaim(&mut self) -> Outcome {
        for keyspace in [&self.records, &self.by_version, &self.by_born] {
            keyspace.rotate_memtable_and_wait()?;
            keyspace.major_compact()?;
        }
        // Blob files whose values died in the first go with the second.
        Ok(self.records.major_compact()?)
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        Ok(Box::new(self.clone()))
    }

    fn close(self: Box<Self>) -> Outcome {
        drop(self);
        Ok(())
    }
}

impl Reader for Fjall {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        for id in ids {
            if let Some(value) = self.records.get(key(*id))? {
                each(*id, values(&value));
            }
        }
        Ok(())
    }
}
