//! RocksDB: a log-structured merge tree whose large values lie in blob files.

use std::path::Path;
use std::sync::Arc;

use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ColumnFamily, ColumnFamilyDescriptor, CompactOptions, DB,
    DBCompressionType, Options, ReadOptions, WriteBatch, WriteOptions,
};

use super::keys::{id_of, index_key, key, parse_header, value, values};
use super::{Kind, Opened, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "rocksdb",
    settings: "rocksdb 0.25; sync=true a batch; blob files from 512 B with a shared 1 GiB block and blob cache; blob \
               garbage collection at any age; no compression; write buffers 3 x 64 MiB; pipelined writes; 2 background jobs; \
               reclaim is flush and compact_range with the bottommost level forced",
    scope: Scope::All,
    one_in: 1,
    open,
};

const CACHE_BYTES: usize = 1 << 30;
const RECORDS: &str = "records";
const BY_VERSION: &str = "by_version";
const BY_BORN: &str = "by_born";

#[derive(Clone)]
struct Rocks(Arc<DB>);

fn open(dir: &Path) -> Opened {
    let cache = Cache::new_lru_cache(CACHE_BYTES);
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_bloom_filter(10.0, false);
    let mut index = Options::default();
    index.set_block_based_table_factory(&table);
    index.set_compression_type(DBCompressionType::None);
    let mut records = index.clone();
    records.set_write_buffer_size(64 << 20);
    records.set_max_write_buffer_number(3);
    records.set_enable_blob_files(true);
    records.set_min_blob_size(512);
    records.set_blob_compression_type(DBCompressionType::None);
    records.set_blob_file_size(64 << 20);
    records.set_enable_blob_gc(true);
    records.set_blob_gc_age_cutoff(1.0);
    records.set_blob_gc_force_threshold(0.2);
    records.set_blob_cache(&cache);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(2);
    options.set_bytes_per_sync(1 << 20);
    options.set_enable_pipelined_write(true);
    options.set_max_total_wal_size(512 << 20);
    options.set_keep_log_file_num(1);
    let families = [
        ColumnFamilyDescriptor::new("default", Options::default()),
        ColumnFamilyDescriptor::new(RECORDS, records),
        ColumnFamilyDescriptor::new(BY_VERSION, index.clone()),
        ColumnFamilyDescriptor::new(BY_BORN, index),
    ];
    Ok(Box::new(Rocks(Arc::new(DB::open_cf_descriptors(&options, dir, families)?))))
}

impl Rocks {
    fn family(&self, name: &str) -> Outcome<&ColumnFamily> {
        Ok(self.0.cf_handle(name).ok_or("a column family is missing")?)
    }

    fn commit(&self, batch: WriteBatch) -> Outcome {
        let mut options = WriteOptions::default();
        options.set_sync(true);
        Ok(self.0.write_opt(batch, &options)?)
    }

    fn put(&self, batch: &mut WriteBatch, bytes: &mut Vec<u8>, record: &Record<'_>) -> Outcome {
        value(record, bytes);
        batch.put_cf(self.family(RECORDS)?, key(record.id), bytes);
        batch.put_cf(self.family(BY_VERSION)?, index_key(record.version, record.id), b"");
        batch.put_cf(self.family(BY_BORN)?, index_key(record.born_step, record.id), b"");
        Ok(())
    }

    fn unindex(&self, batch: &mut WriteBatch, id: u64) -> Outcome {
        let found = self.0.get_pinned_cf(self.family(RECORDS)?, key(id))?.ok_or("a record is missing")?;
        let (born, version) = parse_header(&found)?;
        batch.delete_cf(self.family(BY_VERSION)?, index_key(version, id));
        batch.delete_cf(self.family(BY_BORN)?, index_key(born, id));
        Ok(())
    }

    fn below(&self, name: &str, bound: u64) -> Outcome<Vec<u64>> {
        let mut options = ReadOptions::default();
        options.set_iterate_upper_bound(index_key(bound, 0).to_vec());
        let mut rows = self.0.raw_iterator_cf_opt(self.family(name)?, options);
        rows.seek_to_first();
        let mut ids = Vec::new();
        while let Some(row) = rows.key() {
            ids.push(id_of(row)?);
            rows.next();
        }
        rows.status()?;
        Ok(ids)
    }
}

impl Peer for Rocks {
    fn insert(&mut self, records: &[Record<'_>]) -> Outcome {
        let (mut batch, mut bytes) = (WriteBatch::default(), Vec::new());
        records.iter().try_for_each(|record| self.put(&mut batch, &mut bytes, record))?;
        self.commit(batch)
    }

    fn recompute(&mut self, records: &[Record<'_>]) -> Outcome {
        let (mut batch, mut bytes) = (WriteBatch::default(), Vec::new());
        for record in records {
            self.unindex(&mut batch, record.id)?;
            self.put(&mut batch, &mut bytes, record)?;
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
        let mut batch = WriteBatch::default();
        for id in ids {
            self.unindex(&mut batch, *id)?;
            batch.delete_cf(self.family(RECORDS)?, key(*id));
        }
        self.commit(batch)
    }

    fn reclaim(&mut self) -> Outcome {
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        for name in [RECORDS, BY_VERSION, BY_BORN] {
            let family = self.family(name)?;
            self.0.flush_cf(family)?;
            self.0.compact_range_cf_opt(family, None::<&[u8]>, None::<&[u8]>, &options);
        }
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

impl Reader for Rocks {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        let family = self.family(RECORDS)?;
        for id in ids {
            if let Some(value) = self.0.get_pinned_cf(family, key(*id))? {
                each(*id, values(&value));
            }
        }
        Ok(())
    }
}
