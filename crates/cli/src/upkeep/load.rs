//! `rollstore load`: a store of what dumps hold.
//!
//! Always true:
//! - D1. Before anything is made, every file is whole by its mark, and no rollout of theirs is live in the store.
//! - D2. A new store appears under its name when it is whole and on disk.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rollstore::{Durability, Options, RolloutId, RolloutStore};

use super::contents;
use crate::args::LoadArgs;
use crate::exit::{Failure, Outcome, Verdict, note};
use crate::formats::{DumpFile, Meter, StoreMark, folder, sync_folder};
use crate::output::Output;
use crate::text;

/// Bytes of a commit, about; a single rollout may have more.
const BATCH_BYTES: usize = 32 << 20;

/// Rollouts of a commit.
const BATCH_ROWS: usize = 4096;

pub(crate) fn run(args: &LoadArgs, out: &mut Output) -> Outcome<Verdict> {
    let files = args.files.iter().map(|path| DumpFile::open(path)).collect::<Outcome<Vec<_>>>()?;
    let newest = newest(&files)?;
    let is_new = is_new(&args.output)?;
    let store = if is_new { load_new(&files, newest, &args.output)? } else { load_into(&files, newest, &args.output)? };
    out.line(out.bold(&format!(" {}", text::path(&args.output))))?;
    let from = text::counted(files.len() as u64, "file");
    out.line(format_args!(" loaded     {} from {from}", text::counted(rows_of(&files), "rollout")))?;
    out.line(format_args!(" holds      {}", contents(&store)))?;
    let damaged = files.iter().filter(|file| file.mark.damaged > 0);
    damaged.clone().for_each(|file| {
        let left_out = text::counted(file.mark.damaged, "rollout");
        note(&format!("{}: {left_out} could not be read when it was dumped", text::path(file.path())));
    });
    Ok(if damaged.count() > 0 { Verdict::Damaged } else { Verdict::Sound })
}

/// Rollouts of all files, as their marks say.
fn rows_of(files: &[DumpFile]) -> u64 {
    files.iter().fold(0, |rows, file| rows.saturating_add(file.mark.rows))
}

/// Where the store stood that was dumped last; every file's versions must mean the same there.
fn newest(files: &[DumpFile]) -> Outcome<&StoreMark> {
    let stores = || files.iter().map(|file| &file.mark.store);
    let newest = stores().find(|newest| stores().all(|other| other.is_continued_by(newest)));
    newest.ok_or_else(|| {
        Failure::could_not_look(
            "the versions of one file mean something else in another: they are of different runs, or a rewind lies \
             between; load each into a store of its own",
        )
    })
}

/// Whether there is nothing yet under the name of the store, or an empty directory.
fn is_new(store: &Path) -> Outcome<bool> {
    match fs::read_dir(store) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(Failure::io("look at", store, &error)),
    }
}

fn options() -> Options {
    // What is loaded counts when all of it is there: it is synced once, at the end.
    let durability = Durability::Buffered { max_delay: Duration::from_hours(1) };
    RolloutStore::options().background_compaction(false).durability(durability)
}

fn load_new(files: &[DumpFile], newest: &StoreMark, path: &Path) -> Outcome<RolloutStore> {
    let made = Unfinished::beside(path)?;
    let options = options().window(newest.window).max_version_lag(newest.max_version_lag).clocks(newest.clocks());
    let options = match &newest.run_identity {
        Some(identity) => options.run_identity(identity),
        None => options,
    };
    let store = options.open(&made.0)?;
    load(files, &store)?;
    if let Some(cursor) = &newest.cursor {
        store.set_cursor(cursor)?;
    }
    store.close()?;
    made.name(path)?;
    Ok(RolloutStore::options().read_only(true).open(path)?)
}

/// A store is only added to: its clocks, options and cursor stay.
fn load_into(files: &[DumpFile], newest: &StoreMark, path: &Path) -> Outcome<RolloutStore> {
    let store = options().create(false).open(path)?;
    let ours = StoreMark::of(&store);
    if !newest.is_continued_by(&ours) {
        return Err(Failure::could_not_look(format!(
            "{} is at {}, the files are of a store at {}, and versions do not mean the same in both; load them into a new store",
            text::path(path),
            ours.words(),
            newest.words()
        )));
    }
    let live: HashSet<u64> = store.ids().into_iter().map(RolloutId::get).collect();
    check_ids(files, live, path)?;
    load(files, &store)?;
    store.close()?;
    Ok(RolloutStore::options().read_only(true).open(path)?)
}

/// Reads every file once, so that nothing is loaded of files that the store would refuse in part.
fn check_ids(files: &[DumpFile], mut taken: HashSet<u64>, store: &Path) -> Outcome {
    for file in files {
        for row in file.rows()? {
            let id = row?.id;
            if !taken.insert(id) {
                let what = format!(
                    "{}: rollout {id} is live in {}, or stands in the files twice; nothing was loaded: dump without it (--id), or \
                     load into a new store",
                    text::path(file.path()),
                    text::path(store)
                );
                return Err(Failure::could_not_look(what));
            }
        }
    }
    Ok(())
}

fn load(files: &[DumpFile], store: &RolloutStore) -> Outcome {
    let meter = Meter::new("loading", rows_of(files));
    let mut done = 0;
    for file in files {
        let mut found = 0;
        let mut rows = file.rows()?.peekable();
        while rows.peek().is_some() {
            let (mut batch, mut bytes, mut batched) = (store.batch(), 0, 0);
            while bytes < BATCH_BYTES
                && batched < BATCH_ROWS
                && let Some(row) = rows.next()
            {
                let row = row?;
                bytes += row.size_bytes();
                batched += 1;
                let id = row.id;
                let new = row.into_new().map_err(|what| file.refused(&format!("rollout {id}: {what}")))?;
                batch.insert(new).map_err(|error| file.refused(&error.to_string()))?;
            }
            batch.commit().map_err(|error| file.refused(&error.to_string()))?;
            found += batched as u64;
            done += batched as u64;
            meter.set(done);
        }
        if found != file.mark.rows {
            return Err(file.refused(&format!("it holds {found} rollouts, its mark says {}", file.mark.rows)));
        }
    }
    Ok(())
}

/// The directory of a store that is not whole yet: removed, unless it was given its name.
struct Unfinished(PathBuf);

impl Unfinished {
    fn beside(path: &Path) -> Outcome<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let dir = folder(path).join(format!(".{name}.loading-{}", std::process::id()));
        fs::create_dir_all(folder(path)).map_err(|error| Failure::io("create", folder(path), &error))?;
        fs::create_dir(&dir).map_err(|error| Failure::io("create", &dir, &error))?;
        Ok(Self(dir))
    }

    fn name(self, path: &Path) -> Outcome {
        fs::rename(&self.0, path).map_err(|error| Failure::io("name", path, &error))?;
        sync_folder(path)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Behind the new name there is nothing left to remove.
        let _ = fs::remove_dir_all(&self.0);
    }
}
