//! SQLite: one file, pages, a write-ahead log.

use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Transaction, params};

use super::{Kind, Peer, Reader, Scope};
use crate::content::Record;
use crate::outcome::Outcome;

pub(super) const KIND: Kind = Kind {
    name: "sqlite",
    settings: "rusqlite 0.43, bundled; journal_mode=WAL, synchronous=FULL; pages of 32 KiB; mmap; page cache 256 MiB; \
               autocheckpoint 64 MiB; one transaction a batch, prepared statements; a connection a thread; reclaim is VACUUM",
    scope: Scope::All,
    one_in: 1,
    open: |dir| {
        let path = dir.join("data.sqlite");
        Ok(Box::new(Sqlite { connection: connect(&path)?, path }))
    },
};

const SETUP: &str = "
    PRAGMA page_size = 32768;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA mmap_size = 68719476736;
    PRAGMA cache_size = -262144;
    PRAGMA wal_autocheckpoint = 2048;
    PRAGMA temp_store = MEMORY;
    CREATE TABLE IF NOT EXISTS records (
        id INTEGER PRIMARY KEY, born_step INTEGER NOT NULL, version INTEGER NOT NULL, logps BLOB NOT NULL
    );
    CREATE INDEX IF NOT EXISTS by_version ON records (version, id);
    CREATE INDEX IF NOT EXISTS by_born ON records (born_step, id);
";

struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

fn connect(path: &Path) -> Outcome<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_mins(1))?;
    connection.execute_batch(SETUP)?;
    Ok(connection)
}

/// SQLite's integers are signed; ids here are below 2^63.
fn signed(number: u64) -> Outcome<i64> {
    Ok(i64::try_from(number)?)
}

impl Sqlite {
    fn write(&mut self, change: impl FnOnce(&Transaction<'_>) -> Outcome) -> Outcome {
        let txn = self.connection.transaction()?;
        change(&txn)?;
        Ok(txn.commit()?)
    }

    fn select(&self, sql: &str, bound: u64) -> Outcome<Vec<u64>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([signed(bound)?], |row| row.get::<_, i64>(0))?;
        rows.map(|id| Ok(u64::try_from(id?)?)).collect()
    }
}

impl Peer for Sqlite {
    fn insert(&mut self, batch: &[Record<'_>]) -> Outcome {
        self.write(|txn| {
            let mut statement = txn.prepare_cached("INSERT INTO records VALUES (?1, ?2, ?3, ?4)")?;
            for record in batch {
                let bytes: &[u8] = bytemuck::cast_slice(record.values);
                let (id, born, version) = (signed(record.id)?, signed(record.born_step)?, signed(record.version)?);
                statement.execute(params![id, born, version, bytes])?;
            }
            Ok(())
        })
    }

    fn recompute(&mut self, batch: &[Record<'_>]) -> Outcome {
        self.write(|txn| {
            let sql = "UPDATE records SET born_step = ?2, version = ?3, logps = ?4 WHERE id = ?1";
            let mut statement = txn.prepare_cached(sql)?;
            for record in batch {
                let bytes: &[u8] = bytemuck::cast_slice(record.values);
                let (id, born, version) = (signed(record.id)?, signed(record.born_step)?, signed(record.version)?);
                statement.execute(params![id, born, version, bytes])?;
            }
            Ok(())
        })
    }

    fn stale(&self, version_below: u64) -> Outcome<Vec<u64>> {
        self.select("SELECT id FROM records WHERE version < ?1", version_below)
    }

    fn out_of_window(&self, born_below: u64) -> Outcome<Vec<u64>> {
        self.select("SELECT id FROM records WHERE born_step < ?1", born_below)
    }

    fn delete(&mut self, ids: &[u64]) -> Outcome {
        self.write(|txn| {
            let mut statement = txn.prepare_cached("DELETE FROM records WHERE id = ?1")?;
            for id in ids {
                statement.execute([signed(*id)?])?;
            }
            Ok(())
        })
    }

    fn reclaim(&mut self) -> Outcome {
        Ok(self.connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?)
    }

    fn reader(&self) -> Outcome<Box<dyn Reader>> {
        Ok(Box::new(SqliteReader(connect(&self.path)?)))
    }

    fn close(self: Box<Self>) -> Outcome {
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

struct SqliteReader(Connection);

impl Reader for SqliteReader {
    fn read(&mut self, ids: &[u64], each: &mut dyn FnMut(u64, &[u8])) -> Outcome {
        for group in ids.chunks(256) {
            let txn = self.0.unchecked_transaction()?;
            let mut statement = txn.prepare_cached("SELECT logps FROM records WHERE id = ?1")?;
            for id in group {
                let mut rows = statement.query([signed(*id)?])?;
                if let Some(row) = rows.next()? {
                    let ValueRef::Blob(bytes) = row.get_ref(0)? else { return Err("no blob".into()) };
                    each(*id, bytes);
                }
            }
        }
        Ok(())
    }
}
