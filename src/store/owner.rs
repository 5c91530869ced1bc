//! Who writes: the lock of a store, by `flock` or, where a file system has none that works, by a heartbeat.
//!
//! Without a lock nobody can keep a second writer out, but the first can be stopped before it promises anything more.
//! `LOCK` names the owner, its term and its token, and a thread of the owner counts up a beat in it. Who takes over makes
//! a file of the next term, which only one can create, and renames it over `LOCK`.
//!
//! Always true:
//! - H1. An owner reads `LOCK` after its sync and before it acknowledges. Who takes over renames first and reads the log
//!   afterwards. So what was acknowledged by one is read by the next, and who was taken over from acknowledges no more.
//! - H2. Manifest generations and segment numbers of a term lie above those that an owner of an earlier term can still
//!   write before it notices; nobody removes a file of a later term.
//! - H3. Silence is measured by the one who listens, on its own clock: no two machines' clocks are compared.
//! - H4. An owner beats in the file that it made, whatever `LOCK` is by now.

mod beat;
mod note;
mod seen;

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::{Disk, DiskFile, DiskLock, LockError};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::Manifest;
use crate::format::names::{LOCK, claim_file_name};
use crate::limits;
use crate::recovery::manifests::Listing;
use crate::store::random;

use beat::Beat;
use note::Note;
use seen::{Seen, read_text};

/// Beats that a silence lasts at least, whatever was asked for: one may be late.
const SILENT_BEATS_MIN: u32 = 3;

/// How a second writer is kept out of a store.
///
/// # What do I do where `flock` does not work?
/// ```
/// # let dir = tempfile::tempdir()?;
/// use std::time::Duration;
/// use rollstore::{LockKind, RolloutStore, TakeOver};
/// // A job that was killed on another node is silent; a live one is left alone.
/// let lock = LockKind::heartbeat(TakeOver::AfterSilence(Duration::from_secs(60)));
/// let store = RolloutStore::options().window(8).lock(lock).open(dir.path().join("rollouts"))?;
/// # store.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LockKind {
    /// By `flock` on the file `LOCK`: the system lets it go with the process, however that ends. A file system on which it
    /// does not work is refused.
    #[default]
    File,
    /// By a heartbeat in the file `LOCK`: for file systems without a working `flock`. A second writer is not kept out for
    /// certain, but once it took over the first one acknowledges nothing more: its next commit is
    /// [`Fenced`](crate::ErrorKind::Fenced).
    Heartbeat {
        /// Time between two beats.
        every: Duration,
        /// What to do where someone else's name stands in the lock.
        take_over: TakeOver,
    },
}

impl LockKind {
    /// A heartbeat every [`limits::HEARTBEAT_DEFAULT`](crate::limits::HEARTBEAT_DEFAULT).
    #[must_use]
    pub const fn heartbeat(take_over: TakeOver) -> Self {
        Self::Heartbeat { every: limits::HEARTBEAT_DEFAULT, take_over }
    }
}

/// What to do where the lock names an owner that did not close the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TakeOver {
    /// Nothing: the store is `Locked`.
    Never,
    /// Listen for so long, and at least for three of the owner's own beats, by this machine's monotonic clock. An owner
    /// that beats meanwhile keeps the store, which is `Locked`; a silent one loses it. The opening waits for that time.
    AfterSilence(Duration),
    /// Take the store at once: whoever opens it knows that the owner is gone.
    Now,
}

/// The one writer of a store, as long as it lives.
#[derive(Debug)]
pub(crate) enum Owner {
    File(Box<dyn DiskLock>),
    Heartbeat(Heartbeat),
}

/// An owner by heartbeat.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    path: PathBuf,
    note: Note,
    beat: Beat,
    /// Whether nobody was the owner before, or it closed the store.
    pub(crate) after_close: bool,
}

impl Owner {
    /// Takes the store in `dir`. `term` is the one that the newest manifest tells.
    pub(crate) fn take(disk: &dyn Disk, dir: &Path, kind: LockKind, term: u64) -> Result<Self> {
        match kind {
            LockKind::File => Self::take_file(disk, dir, term),
            LockKind::Heartbeat { every, take_over } => {
                Heartbeat::take(disk, dir, every, take_over, term).map(Self::Heartbeat)
            }
        }
    }

    fn take_file(disk: &dyn Disk, dir: &Path, term: u64) -> Result<Self> {
        // One who beats holds no lock that would keep us out.
        if term > 0 {
            let all = Seen::all(disk, dir)?;
            if let Some(owner) = Seen::owner(&all).filter(|owner| owner.note.is_some() && !owner.is_released()) {
                return Err(locked(dir, owner, "open it with a heartbeat lock (LockKind::heartbeat)"));
            }
        }
        let path = dir.join(LOCK);
        disk.lock(&path, &note::holder()).map(Self::File).map_err(|error| match error {
            LockError::Held(holder) => {
                let dir_shown = dir.display();
                let what =
                    format!("{dir_shown} is held by another writer: {}; stop it, or open read-only", holder.trim());
                Error::new(ErrorKind::Locked, what).at(dir)
            }
            LockError::Io(error) if error.kind() == io::ErrorKind::Unsupported => {
                let what = "the file system has no working flock; open it with a heartbeat lock (LockKind::heartbeat)";
                let message = format!("could not lock: {}: {what}: {error}", path.display());
                Error::new(ErrorKind::Io, message).at(&path).caused_by(error)
            }
            LockError::Io(error) => Error::io("lock", &path, error),
        })
    }

    /// Whether an owner before may still be at work, so that files which both could write must be made anew.
    pub(crate) fn may_have_company(&self) -> bool {
        matches!(self, Self::Heartbeat(heartbeat) if !heartbeat.after_close)
    }

    /// Moves the numbers of a manifest above those that owners before may still use (H2); true where that is new to it.
    /// Refuses a manifest of a later owner: what is written from it would pass for that owner's own.
    pub(crate) fn claim(&self, dir: &Path, manifest: &mut Manifest) -> Result<bool> {
        let Self::Heartbeat(heartbeat) = self else { return Ok(false) };
        let Some(terms) = heartbeat.note.term.checked_sub(manifest.owner) else {
            return Err(heartbeat.fenced(dir, &format!("the owner of term {}", manifest.owner)));
        };
        let numbers = terms.saturating_mul(limits::TERM_NUMBERS);
        manifest.generation = manifest.generation.saturating_add(numbers);
        let next_segment = u64::from(manifest.next_segment_id).saturating_add(numbers);
        manifest.next_segment_id =
            u32::try_from(next_segment).ok().filter(|next| *next < limits::SEGMENT_ID_MAX).ok_or_else(|| {
                let what = format!("{} has no segment numbers left for term {}", dir.display(), heartbeat.note.term);
                Error::invalid(format!("{what}; begin a new store")).at(dir)
            })?;
        manifest.owner = heartbeat.note.term;
        Ok(terms > 0)
    }

    /// Refuses where the store is no longer ours.
    pub(crate) fn check(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        match self {
            Self::File(lock) if lock.is_current() => Ok(()),
            Self::File(_) => Err(lost(dir)),
            Self::Heartbeat(heartbeat) => heartbeat.check(disk, dir),
        }
    }

    /// The check between a sync and the acknowledgement (H1). A lock by `flock` needs none.
    pub(crate) fn check_before_acknowledging(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Heartbeat(heartbeat) => heartbeat.check(disk, dir),
        }
    }

    /// The check behind a manifest generation, before anything goes that an earlier one lists.
    pub(crate) fn check_generation(&self, disk: &dyn Disk, dir: &Path, generation: u64) -> Result<()> {
        let Self::Heartbeat(heartbeat) = self else { return Ok(()) };
        heartbeat.check(disk, dir)?;
        match Listing::read(disk, dir)?.generations.first() {
            Some(newest) if *newest > generation => {
                let what = format!("manifest generation {newest} of another writer, {generation} is ours");
                Err(heartbeat.fenced(dir, &what))
            }
            _ => Ok(()),
        }
    }

    /// Lets the lock go as a crash would: without a word to whom comes next.
    pub(crate) fn vanish(self) {
        if let Self::Heartbeat(mut heartbeat) = self {
            heartbeat.beat.stop();
        }
    }
}

impl Heartbeat {
    fn take(disk: &dyn Disk, dir: &Path, every: Duration, take_over: TakeOver, term: u64) -> Result<Self> {
        let seen = Seen::all(disk, dir)?;
        let owner = Seen::owner(&seen);
        let after_close = owner.is_none_or(Seen::is_released);
        if let Some(owner) = owner.filter(|_| !after_close) {
            listen(disk, dir, owner, &seen, take_over)?;
        }
        let term = seen.iter().map(|seen| seen.term).max().unwrap_or(0).max(term).saturating_add(1);
        let note = Note::new(term, random::u64(), every);
        let claim = dir.join(claim_file_name(term));
        let file = match disk.create(&claim) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let what = format!(
                    "{} is being taken by another writer this moment; stop it, or open read-only",
                    dir.display()
                );
                return Err(Error::new(ErrorKind::Locked, what).at(dir));
            }
            created => created.map_err(|error| Error::io("create", &claim, error))?,
        };
        let named = write_note(&*file, &note)
            .map_err(|error| Error::io("write", &claim, error))
            .and_then(|()| name_owner(disk, dir, &claim, term));
        if let Err(error) = named {
            // Of our making: under either name it would look like an owner that is silent.
            let _ =
                file.write_all_vectored_at(&mut [IoSlice::new(note::beat_text(None).as_bytes())], note.beat_offset());
            let _ = disk.remove_file(&claim);
            return Err(error);
        }
        let path = dir.join(LOCK);
        let beat = Beat::start(file, &note).map_err(|error| Error::io("start the heartbeat of", &path, error))?;
        let heartbeat = Self { path, note, beat, after_close };
        heartbeat.check(disk, dir)?;
        Ok(heartbeat)
    }

    fn check(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        let text = match read_text(disk, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(lost(dir)),
            read => read.map_err(|error| Error::io("read", &self.path, error))?,
        };
        let found = Note::parse(&text);
        if found.as_ref().is_some_and(|found| found.is_of(&self.note)) {
            return Ok(());
        }
        let theirs = found.map_or_else(|| text.trim().to_owned(), |found| found.owner());
        Err(self.fenced(dir, &theirs))
    }

    fn fenced(&self, dir: &Path, by: &str) -> Error {
        let (dir_shown, ours) = (dir.display(), self.note.owner());
        let what =
            format!("{dir_shown} was taken over by {by}; this writer, {ours}, stops: nothing more is acknowledged");
        Error::new(ErrorKind::Fenced, what).at(dir)
    }
}

/// Gives the claim of this term the lock's name, unless another one came first.
fn name_owner(disk: &dyn Disk, dir: &Path, claim: &Path, term: u64) -> Result<()> {
    let failed = |error| Error::io("take", &dir.join(LOCK), error);
    let others = Seen::all(disk, dir)?.into_iter().filter(|seen| seen.path != claim).collect::<Vec<_>>();
    if let Some(other) = others.iter().find(|other| other.term >= term) {
        return Err(locked(dir, other, "stop it, or open read-only"));
    }
    // Unfinished claims of earlier terms: who made one finds it gone and does not become the owner.
    for old in others.iter().filter(|other| other.path != dir.join(LOCK)) {
        match disk.remove_file(&old.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed)?,
        }
    }
    disk.rename(claim, &dir.join(LOCK)).map_err(failed)?;
    disk.sync_dir(dir).map_err(failed)
}

/// Returns once an owner may be taken over from. Beats are heard in all that was `seen`: where a take-over was broken off,
/// the lock file's owner is still at work beside a silent claim.
fn listen(disk: &dyn Disk, dir: &Path, owner: &Seen, seen: &[Seen], take_over: TakeOver) -> Result<()> {
    let silence = match take_over {
        TakeOver::Now => return Ok(()),
        TakeOver::Never => return Err(locked(dir, owner, "stop it, or open read-only, or take over")),
        TakeOver::AfterSilence(silence) => silence,
    };
    let Some(note) = &owner.note else {
        // A holder of another kind does not beat: its silence says nothing.
        return Err(locked(dir, owner, "stop it, or take over by TakeOver::Now"));
    };
    let silence = silence.max(note.every.saturating_mul(SILENT_BEATS_MIN));
    let (begun, pause) = (Instant::now(), (note.every / 2).clamp(Duration::from_millis(1), Duration::from_secs(1)));
    tracing::info!(owner = %note.owner(), seconds = silence.as_secs(), "listening for the heartbeat of the store's owner");
    while begun.elapsed() < silence {
        thread::sleep(pause.min(silence));
        let all = Seen::all(disk, dir)?;
        if Seen::owner(&all).is_none_or(Seen::is_released) {
            return Ok(());
        }
        let is_silent = |now: &Seen| seen.iter().any(|before| before.path == now.path && before.text == now.text);
        if let Some(now) = all.iter().find(|now| !now.is_released() && !is_silent(now)) {
            return Err(locked(dir, now, "its heart beats; stop it, or open read-only"));
        }
    }
    tracing::warn!(owner = %note.owner(), "taking over from an owner that is silent");
    Ok(())
}

fn locked(dir: &Path, seen: &Seen, next: &str) -> Error {
    let holder = seen.note.as_ref().map_or_else(|| seen.text.trim().to_owned(), Note::owner);
    let holder = if holder.is_empty() { "an owner that has not said who it is".to_owned() } else { holder };
    Error::new(ErrorKind::Locked, format!("{} is held by another writer: {holder}; {next}", dir.display())).at(dir)
}

fn lost(dir: &Path) -> Error {
    let what = "the lock file was deleted or replaced, or the directory renamed";
    Error::invalid(format!("{}: {what}", dir.display())).at(dir)
}

fn write_note(file: &dyn DiskFile, note: &Note) -> io::Result<()> {
    file.write_all_vectored_at(&mut [IoSlice::new(note.text().as_bytes())], 0)?;
    file.sync_data()
}
