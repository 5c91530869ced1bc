//! redb: a copy-on-write B+ tree with a cache of its own.

use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use super::keys::{HEADER_BYTES, header, parse_header, values};
use super::{Kind, Opened, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "redb",
    settings: "redb 4.6; Durability::Immediate, one-phase commits; cache 1 GiB; insert_reserve; one transaction a batch; \
               one read transaction for each group of 256; reclaim is compact()",
    scope: Scope::All,
    one_in: 1,
    open,
};

const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
const BY_VERSION: TableDefinition<'_, (u64, u64), ()> = TableDefinition::new("by_version");
const BY_BORN: TableDefinition<'_, (u64, u64), ()> = TableDefinition::new("by_born");
const CACHE_BYTES: usize = 1 << 30;

struct Redb {
    database: Arc<Database>,
}

struct Tables<'a> {
    records: Table<'a, u64, &'static [u8]>,
    by_version: Table<'a, (u64, u64), ()>,
    by_born: Table<'a, (u64, u64), ()>,
}

fn open(dir: &Path) -> Opened {
    let database = Database::builder().set_cache_size(CACHE_BYTES).create(dir.join("data.redb"))?;
    let redb = Redb { database: Arc::new(database) };
    redb.write(|_| Ok(()))?;
    Ok(Box::new(redb))
}

impl Redb {
    fn write(&self, change: impl FnOnce(&mut Tables<'_>) -> Outcome) -> Outcome {
        let txn = self.database.begin_write()?;
        change(&mut Tables {
            records: txn.open_table(RECORDS)?,
            by_version: txn.open_table(BY_VERSION)?,
            by_born: txn.open_table(BY_BORN)?,
        })?;
        Ok(txn.commit()?)
    }

    fn below(&self, table: TableDefinition<'_, (u64, u64), ()>, bound: u64) -> Outcome<Vec<u64>> {
        let table = self.database.begin_read()?.open_table(table)?;
        table.range(..(bound, 0))?.map(|row| Ok(row?.0.value().1)).collect()
    }
}

impl Tables<'_> {
    fn put(&mut self, record: &Record<'_>) -> Outcome {
        let bytes: &[u8] = bytemuck::cast_slice(record.values);
        let mut space = self.records.insert_reserve(record.id, HEADER_BYTES + bytes.len())?;
        space.as_mut()[..HEADER_BYTES].copy_from_slice(&header(record));
        space.as_mut()[HEADER_BYTES..].copy_from_slice(bytes);
        drop(space);
        self.by_version.insert((record.version, record.id), ())?;
        self.by_born.insert((record.born_step, record.id), ())?;
        Ok(())
    }

    fn unindex(&mut self, id: u64) -> Outcome {
        let (born, version) = parse_header(self.records.get(id)?.ok_or("a record is missing")?.value())?;
        self.by_version.remove((version, id))?;
        self.by_born.remove((born, id))?;
        Ok(())
    }
}

impl Peer for Redb {
    fn insert(&mut self, batch: &[Record<'_>]) -> Outcome {
        self.write(|tables| batch.iter().try_for_each(|record| tables.put(record)))
    }

    fn recompute(&mut self, batch: &[Record<'_>]) -> Outcome {
        self.write(|tables| {
            batch.iter().try_for_each(|record| {
                tables.unindex(record.id)?;
                tables.put(record)
            })
        })
    }

    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>> {
        self.below(BY_VERSION, version_below)
    }

    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>> {
        self.below(BY_BORN, born_below)
    }

    fn delete(&mut self, ids: &[u64]) -> Outcome {
        self.write(|tables| {
            ids.iter().try_for_each(|id| {
                tables.unindex(*id)?;
                tables.records.remove(id)?;
                Ok(())
            })
        })
    }

    fn reclaim(&mut self) -> Outcome {
        let database = Arc::get_mut(&mut self.database).ok_or("a reader is left")?;
        while database.compact()? {}
        Ok(())
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        Ok(Box::new(RedbReader(Arc::clone(&self.database))))
    }

    fn close(self: Box<Self>) -> Outcome {
        drop(self);
        Ok(())
    }
}

struct RedbReader(Arc<Database>);

impl Reader for RedbReader {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        for group in ids.chunks(256) {
            let table = self.0.begin_read()?.open_table(RECORDS)?;
            for id in group {
                if let Some(value) = table.get(id)? {
                    each(*id, values(value.value()));
                }
            }
        }
        Ok(())
    }
}
