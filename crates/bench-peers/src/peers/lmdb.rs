//! LMDB through heed: a copy-on-write B+ tree in one memory map.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{CommitOrAbort, CompactionOption, Database, Env, EnvFlags, EnvOpenOptions, RwTxn, WithoutTls};

use super::keys::{HEADER_BYTES, header, id_of, index_key, key, parse_header, values};
use super::{Kind, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "lmdb",
    settings: "heed 0.23; default sync flags, NORDAHEAD; one transaction a batch; values written in place \
               (put_reserved); zero-copy reads, one read transaction for each group of 256; reclaim is a compacting copy",
    scope: Scope::All,
    one_in: 1,
    open: |dir| Ok(Box::new(Lmdb { tables: Some(Tables::open(dir)?), dir: dir.to_owned() })),
};

/// Greatest size of the map: address space, not memory.
const MAP_BYTES: usize = 64 << 30;

type Table = Database<'static, Bytes, Bytes>;

#[derive(Clone)]
struct Tables {
    env: Env<WithoutTls>,
    records: Table,
    by_version: Table,
    by_born: Table,
}

struct Lmdb {
    /// Absent only while the file is swapped for its compacted copy.
    tables: Option<Tables>,
    dir: PathBuf,
}

impl Tables {
    fn open(dir: &Path) -> Outcome<Self> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES).max_dbs(3).max_readers(126);
        let env = open_env(&mut options, dir)?;
        let made = env.create_databases_and_commit(env.write_txn()?, |make, txn| {
            let mut table = |name| make.create_database::<Bytes, Bytes>(txn, Some(name));
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit((
                table("records")?,
                table("by_version")?,
                table("by_born")?,
            )))
        })?;
        let CommitOrAbort::Commit((records, by_version, by_born)) = made else { return Err("aborted".into()) };
        Ok(Self { env, records, by_version, by_born })
    }

    fn put(&self, txn: &mut RwTxn<'_>, record: &Record<'_>) -> Outcome {
        let bytes: &[u8] = bytemuck::cast_slice(record.values);
        self.records.put_reserved(txn, &key(record.id), HEADER_BYTES + bytes.len(), |space| {
            std::io::Write::write_all(space, &header(record))?;
            std::io::Write::write_all(space, bytes)
        })?;
        self.by_version.put(txn, &index_key(record.version, record.id), &[])?;
        Ok(self.by_born.put(txn, &index_key(record.born_step, record.id), &[])?)
    }

    /// Takes the index rows of a record away.
    fn unindex(&self, txn: &mut RwTxn<'_>, id: u64) -> Outcome {
        let (born, version) = parse_header(self.records.get(txn, &key(id))?.ok_or("a record is missing")?)?;
        self.by_version.delete(txn, &index_key(version, id))?;
        self.by_born.delete(txn, &index_key(born, id))?;
        Ok(())
    }

    fn below(&self, table: Table, bound: u64) -> Outcome<Vec<u64>> {
        let (txn, end) = (self.env.read_txn()?, index_key(bound, 0));
        let range = (Bound::Unbounded, Bound::Excluded(&end[..]));
        table.range(&txn, &range)?.map(|row| id_of(row?.0)).collect()
    }
}

#[expect(unsafe_code, reason = "a memory map")]
fn open_env(options: &mut EnvOpenOptions<WithoutTls>, dir: &Path) -> heed::Result<Env<WithoutTls>> {
    // SAFETY: the flag changes what is read ahead, no guarantee.
    let options = unsafe { options.flags(EnvFlags::NO_READ_AHEAD) };
    // SAFETY: the file lies in a directory of this run's own; nothing else maps or changes it.
    unsafe { options.open(dir) }
}

impl Lmdb {
    fn tables(&self) -> Outcome<&Tables> {
        Ok(self.tables.as_ref().ok_or("closed")?)
    }
}

impl Peer for Lmdb {
    fn insert(&mut self, batch: &[Record<'_>]) -> Outcome {
        let tables = self.tables()?;
        let mut txn = tables.env.write_txn()?;
        batch.iter().try_for_each(|record| tables.put(&mut txn, record))?;
        Ok(txn.commit()?)
    }

    fn recompute(&mut self, batch: &[Record<'_>]) -> Outcome {
        let tables = self.tables()?;
        let mut txn = tables.env.write_txn()?;
        for record in batch {
            tables.unindex(&mut txn, record.id)?;
            tables.put(&mut txn, record)?;
        }
        Ok(txn.commit()?)
    }

    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>> {
        let tables = self.tables()?;
        tables.below(tables.by_version, version_below)
    }

    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>> {
        let tables = self.tables()?;
        tables.below(tables.by_born, born_below)
    }

    fn delete(&mut self, ids: &[u64]) -> Outcome {
        let tables = self.tables()?;
        let mut txn = tables.env.write_txn()?;
        for id in ids {
            tables.unindex(&mut txn, *id)?;
            tables.records.delete(&mut txn, &key(*id))?;
        }
        Ok(txn.commit()?)
    }

    fn reclaim(&mut self) -> Outcome {
        let tables = self.tables.take().ok_or("closed")?;
        let compacted = self.dir.join("compacted.mdb");
        tables.env.copy_to_path(&compacted, CompactionOption::Enabled)?.sync_all()?;
        tables.env.prepare_for_closing().wait();
        std::fs::rename(compacted, self.dir.join("data.mdb"))?;
        super::sync_dir(&self.dir)?;
        self.tables = Some(Tables::open(&self.dir)?);
        Ok(())
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        Ok(Box::new(self.tables()?.clone()))
    }

    fn close(mut self: Box<Self>) -> Outcome {
        let tables = self.tables.take().ok_or("closed")?;
        tables.env.prepare_for_closing().wait();
        Ok(())
    }
}

impl Reader for Tables {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        for group in ids.chunks(256) {
            let txn = self.env.read_txn()?;
            for id in group {
                if let Some(value) = self.records.get(&txn, &key(*id))? {
                    each(*id, values(value));
                }
            }
        }
        Ok(())
    }
}
