//! Opening: lock, manifest, recovery, and what the options say to it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::disk::{Access, EntryKind, FileSystem};
use crate::error::{Error, Result};
use crate::format::manifest::{Manifest, ManifestKind, StoredOptions};
use crate::format::names::{INDEX, LOCK};
use crate::index::{FileOptions, Identity};
use crate::limits;
use crate::log::segment::ReadMode;
use crate::recovery::manifests::{self, Listing};
use crate::recovery::{Base, Recovered, Request, Survey, live};
use crate::rules::Rules;
use crate::state::State;
use crate::store::clocks::Clocks;
use crate::store::compact::Compactor;
use crate::store::core::{Core, Published};
use crate::store::flusher::{FlushOptions, Flusher};
use crate::store::group::Group;
use crate::store::options::{Options, Reads};
use crate::store::owner::Owner;
use crate::store::quota::Quota;
use crate::store::reserve::Reserve;
use crate::store::sweep::aside::Asides;
use crate::store::syncer::Syncer;
use crate::store::transfer::sync_names_above;
use crate::store::usage::Usage;
use crate::store::writer::Writer;
use crate::store::{RolloutStore, last_checkpoint, random};
use crate::sync::{Mutex, RwLock};

/// Opens a store; the options were checked by themselves.
pub(crate) fn open(options: Options, dir: &Path) -> Result<RolloutStore> {
    let disk = Arc::clone(&options.disk);
    match disk.entry_kind(dir).map_err(|error| Error::io("look at", dir, error))? {
        Some(EntryKind::Directory) => {}
        Some(_) => return Err(Error::invalid(format!("{} is not a directory", dir.display())).at(dir)),
        None if options.create && !options.read_only => {
            disk.create_dir_all(dir).map_err(|error| Error::io("create directory", dir, error))?;
        }
        None => return Err(no_store(dir)),
    }
    let lock = if options.read_only { None } else { Some(lock_store(&options, dir)?) };
    let read_mode = read_mode(&options, dir)?;
    let access = if options.read_only { Access::Read } else { Access::ReadWrite };
    let index_file = &FileOptions { cache_bytes: options.index_cache_bytes, pace: Arc::default() };
    let request = Request { disk: &*disk, dir, access, read_mode, index_file };
    let recovered = match &lock {
        None => read_live(&options, &request)?,
        Some(owner) => {
            let reserve = Reserve::new(dir, options.reserve_bytes);
            reserve.retry(&*disk, || recover(&options, &request, owner))?
        }
    };
    RolloutStore::start(build(options, lock, &request, recovered))
}

/// Takes the lock of a store, or of a directory that one may be made in; leaves no lock file in any other.
fn lock_store(options: &Options, dir: &Path) -> Result<Owner> {
    let disk = &*options.disk;
    let mut term = 0;
    match manifests::newest(disk, dir) {
        Ok(Some(manifest)) => {
            check_live(&manifest, dir)?;
            term = manifest.owner;
        }
        Ok(None) if !options.create => return Err(no_store(dir)),
        Ok(None) => check_empty(&Listing::read(disk, dir)?, dir)?,
        // A writer at work may be in the middle of a generation: who holds the lock sees what is really wrong.
        Err(_) => {}
    }
    Owner::take(disk, dir, options.lock, term)
}

fn check_live(manifest: &Manifest, dir: &Path) -> Result<()> {
    if manifest.kind == ManifestKind::Checkpoint {
        let message = format!("{} is a checkpoint: open it read-only, or restore it into a directory", dir.display());
        return Err(Error::invalid(message).at(dir));
    }
    Ok(())
}

pub(crate) fn no_store(dir: &Path) -> Error {
    Error::not_found(format!("{} holds no store", dir.display())).at(dir)
}

fn has_clocks(dir: &Path) -> Error {
    Error::invalid(format!(
        "{} holds a store with clocks of its own and counters; only a new one takes others",
        dir.display()
    ))
    .at(dir)
}

fn read_mode(options: &Options, dir: &Path) -> Result<ReadMode> {
    let mapped = match options.reads {
        Reads::Mapped => true,
        Reads::Copied => false,
        Reads::Auto => match options.disk.file_system(dir) {
            Ok(file_system) => file_system == FileSystem::Local,
            Err(error) => return Err(Error::io("tell the file system of", dir, error)),
        },
    };
    Ok(ReadMode { mapped, recheck_always: options.recheck_always })
}

/// Recovers a store for writing, or makes a new one.
fn recover(options: &Options, request: &Request<'_>, owner: &Owner) -> Result<Recovered> {
    let (disk, dir) = (request.disk, request.dir);
    let mut manifest = match manifests::newest(disk, dir)? {
        Some(_) if options.clocks.is_some() || options.past.is_some() => return Err(has_clocks(dir)),
        Some(manifest) => manifest,
        None => create(options, request, owner)?,
    };
    check_live(&manifest, dir)?;
    check_identity(options, &manifest, dir)?;
    let mut claims = owner.claim(dir, &mut manifest)?;
    if owner.may_have_company() {
        // Who comes back from a long silence would write into the file that it has open.
        let index = dir.join(INDEX);
        manifests::remove_if_there(disk, &index).map_err(|error| Error::io("remove", &index, error))?;
    }
    // A process that was killed may have left names that are seen and not durable: this manifest's, the store's own. They
    // must not be lost when what they replace is removed, nor when something is acknowledged below them.
    sync_names_above(disk, &dir.join(LOCK))?;
    let next_segment = Listing::read(disk, dir)?.next_segment(&manifest);
    let mut base = Base::load(request, &manifest);
    let mut survey = Survey::read(request, manifest, &base)?;
    check_resumed(options, &survey.end_state())?;
    if !survey.is_settled() {
        let manifest = survey.settle(request, next_segment, random::u64(), &mut base)?;
        claims = false;
        survey = Survey::read(request, manifest, &base)?;
    }
    let mut recovered = survey.load(request, base)?;
    let manifest = &mut recovered.manifest;
    manifest.next_segment_id = next_segment.0.max(manifest.next_segment_id);
    manifests::remove_orphans(disk, dir, manifest)?;
    let stored = stored_options(options, Some(manifest))?;
    if claims || stored != manifest.options {
        manifest.options = stored;
        manifest.generation += 1;
        manifest.state = recovered.state.to_snapshot();
        manifests::write(disk, dir, manifest)?;
    }
    Ok(recovered)
}

/// Reads a store that may be written to meanwhile.
fn read_live(options: &Options, request: &Request<'_>) -> Result<Recovered> {
    live::read(request.disk, request.dir, || {
        let manifest = manifests::newest(request.disk, request.dir)?.ok_or_else(|| no_store(request.dir))?;
        check_identity(options, &manifest, request.dir)?;
        let base = Base::load(request, &manifest);
        let mut recovered = Survey::read(request, manifest, &base)?.load(request, base)?;
        check_resumed(options, &recovered.state)?;
        recovered.manifest.options = stored_options(options, Some(&recovered.manifest))?;
        Ok(recovered)
    })
}

/// Makes a new store in an empty directory.
fn create(options: &Options, request: &Request<'_>, owner: &Owner) -> Result<Manifest> {
    let (disk, dir) = (request.disk, request.dir);
    check_empty(&Listing::read(disk, dir)?, dir)?;
    if !options.create {
        return Err(no_store(dir));
    }
    let mut state = options.clocks.as_ref().map_or_else(|| Ok(State::new()), Clocks::begin)?;
    if let Some(past) = &options.past {
        past.begin(&mut state)?;
    }
    let mut manifest = Manifest {
        generation: 1,
        kind: ManifestKind::Live,
        store_uuid: random::uuid(),
        run_uuid: random::uuid(),
        epoch: 0,
        owner: 0,
        lsn_ceiling: limits::LSNS_RESERVED,
        ref_version_ceiling: state.ref_clock.next - 1 + limits::VERSIONS_RESERVED,
        kl_version_ceiling: state.kl_clock.next - 1 + limits::VERSIONS_RESERVED,
        next_segment_id: 1,
        segments: Vec::new(),
        options: stored_options(options, None)?,
        run_identity: options.run_identity.clone().unwrap_or_default(),
        state: state.to_snapshot(),
        compaction: Vec::new(),
    };
    owner.claim(dir, &mut manifest)?;
    manifests::write(disk, dir, &manifest)?;
    // From the first day on: the disk may be full before the index is flushed for the first time.
    Reserve::new(dir, options.reserve_bytes).make(disk);
    Ok(manifest)
}

/// Refuses a directory that holds something: a store is made only in an empty one.
pub(crate) fn check_empty(listing: &Listing, dir: &Path) -> Result<()> {
    match listing.stranger() {
        Some(name) => {
            let what = format!("{} is not a store and not empty: it holds {}", dir.display(), name.display());
            Err(Error::invalid(what).at(dir))
        }
        None => Ok(()),
    }
}

/// The options given, and for the others those last used.
fn stored_options(options: &Options, manifest: Option<&Manifest>) -> Result<StoredOptions> {
    let last = manifest.map(|manifest| manifest.options);
    let window = options.window.or(last.map(|last| last.window)).ok_or_else(|| {
        Error::invalid(
            "a new store needs a window: for how many steps do old logps count as fresh? open it with a window",
        )
    })?;
    let or_last = |given: Option<u64>, last: Option<u64>, default: u64| given.or(last).unwrap_or(default);
    Ok(StoredOptions {
        window,
        max_version_lag: or_last(options.max_version_lag, last.map(|last| last.max_version_lag), 0),
        step_skew: or_last(options.step_skew, last.map(|last| last.step_skew), limits::STEP_SKEW_DEFAULT),
        step_jump_max: or_last(
            options.step_jump_max,
            last.map(|last| last.step_jump_max),
            limits::STEP_JUMP_MAX_DEFAULT,
        ),
    })
}

fn check_identity(options: &Options, manifest: &Manifest, dir: &Path) -> Result<()> {
    match &options.run_identity {
        Some(given) if *given != manifest.run_identity => {
            let ours = start_of(given);
            let theirs = match manifest.run_identity.as_slice() {
                [] => "a run without an identity".to_owned(),
                theirs => format!("run \"{}\"", start_of(theirs)),
            };
            let message = format!(
                "{} belongs to {theirs}, this is run \"{ours}\"; give each run a directory of its own",
                dir.display()
            );
            Err(Error::invalid(message).at(dir))
        }
        _ => Ok(()),
    }
}

/// As much of a run identity as fits into a message.
fn start_of(identity: &[u8]) -> impl std::fmt::Display {
    const SHOWN_BYTES_MAX: usize = 256;
    identity.get(..SHOWN_BYTES_MAX).unwrap_or(identity).escape_ascii()
}

fn check_resumed(options: &Options, state: &State) -> Result<()> {
    match (options.resume_step, state.clock) {
        (Some(step), Some(clock)) if step < clock => Err(Error::invalid(format!(
            "store is at step {clock}, the trainer resumes at {step}; restore a checkpoint, or rewind to step \
                 {step} and keep or drop what came after"
        ))),
        _ => Ok(()),
    }
}

fn build(options: Options, lock: Option<Owner>, request: &Request<'_>, recovered: Recovered) -> Core {
    let Recovered { manifest, state, mut index, disk_index, segments, log_bytes_read } = recovered;
    let stored = manifest.options;
    let dir = options.disk.absolute(request.dir).unwrap_or_else(|_| request.dir.to_owned());
    let identity = Identity { store: manifest.store_uuid, epoch: manifest.epoch };
    let flushing = FlushOptions {
        flushes: options.index_flushes,
        changes: options.index_flush_changes,
        file: request.index_file.clone(),
    };
    let last_checkpoint = last_checkpoint::read(request.disk, request.dir, &manifest);
    if disk_index.is_none() {
        index.forget_changes();
    }
    let group = Group::new(state.lsn, options.durability);
    let published = Published {
        index,
        state: Arc::new(state.clone()),
        segments: segments.into_iter().map(|segment| (segment.id, segment)).collect(),
        active: None,
        log_end: None,
    };
    Core {
        pace: Arc::clone(&request.index_file.pace),
        flusher: Flusher::new(identity, &dir, disk_index, flushing),
        compactor: Compactor::new(options.background_compaction),
        quota: Quota::new(options.quota_bytes, options.segment_bytes),
        reserve: Reserve::new(&dir, options.reserve_bytes),
        disk: options.disk,
        dir,
        rules: Rules {
            window: stored.window,
            max_version_lag: stored.max_version_lag,
            step_skew: stored.step_skew,
            step_jump_max: stored.step_jump_max,
            retire_after: options.retire_after,
        },
        read_mode: request.read_mode,
        segment_bytes: options.segment_bytes,
        read_only: options.read_only,
        instance: random::u64(),
        pid: std::process::id(),
        published: RwLock::new(published),
        writer: Mutex::new(Writer::new(manifest, state)),
        group,
        syncer: Syncer::new(options.durability, options.unsynced_bytes_max),
        usage: Usage::default(),
        unreadable: Mutex::default(),
        gate: Arc::default(),
        asides: Asides::default(),
        checkpointing: Mutex::default(),
        last_checkpoint: Mutex::new(last_checkpoint),
        lock: Mutex::new(lock),
        closed: AtomicBool::new(false),
        open_log_bytes_read: log_bytes_read,
        appended_bytes: AtomicU64::new(0),
    }
}
