//! Manifest generations on disk: written under a new name, two kept, the newest sound one believed.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use crate::disk::{Access, Disk};
use crate::error::{Damage, Error, ErrorKind, Result};
use crate::format::manifest::{Manifest, SegmentState};
use crate::format::names::{
    CHECKPOINTED, INDEX, LOCK, RESERVE, UNFINISHED_CHECKPOINTED, manifest_file_name, parse_claim_file_name,
    parse_manifest_file_name, parse_segment_file_name, parse_unfinished_file_name, segment_file_name,
    unfinished_file_name,
};
use crate::ids::SegmentId;
use crate::limits;
use crate::log::segment::fault_at;
use crate::planted::{Bug, planted};

/// What the names in a directory say.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Manifest generations, newest first.
    pub(crate) generations: Vec<u64>,
    pub(crate) segments: Vec<SegmentId>,
    /// Owners of manifests that did not get their name.
    pub(crate) unfinished: Vec<u64>,
    /// Whether there is a note that did not get its name.
    unfinished_note: bool,
    /// Names that are no store's.
    pub(crate) foreign: Vec<PathBuf>,
}

impl Listing {
    /// Reads the names of a directory; an empty listing where there is no such directory.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let names = match disk.list(dir) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Error::io("list", dir, error)),
        };
        let mut listing = Self::default();
        for name in names {
            match name.to_str() {
                Some(LOCK | INDEX | RESERVE | CHECKPOINTED) => {}
                Some(UNFINISHED_CHECKPOINTED) => listing.unfinished_note = true,
                Some(text) if parse_claim_file_name(text).is_some() => {}
                Some(text) if let Some(owner) = parse_unfinished_file_name(text) => listing.unfinished.push(owner),
                Some(text) => match (parse_manifest_file_name(text), parse_segment_file_name(text)) {
                    (Some(generation), _) => listing.generations.push(generation),
                    (_, Some(segment)) => listing.segments.push(segment),
                    _ => listing.foreign.push(name.into()),
                },
                None => listing.foreign.push(name.into()),
            }
        }
        listing.generations.sort_unstable_by(|a, b| b.cmp(a));
        Ok(listing)
    }

    /// A name that is somebody's data. Those that file systems and desktops leave about are nobody's.
    pub(crate) fn stranger(&self) -> Option<&Path> {
        let is_nobodys =
            |name: &PathBuf| name.to_str().is_some_and(|name| name.starts_with('.') || name == "lost+found");
        self.foreign.iter().find(|name| !is_nobodys(name)).map(PathBuf::as_path)
    }

    /// The lowest number that no segment file has and the manifest did not give out. Orphans count as used.
    pub(crate) fn next_segment(&self, manifest: &Manifest) -> SegmentId {
        let above = self.segments.iter().map(|segment| segment.0.saturating_add(1)).max().unwrap_or(0);
        SegmentId(manifest.next_segment_id.max(above))
    }
}

/// The newest sound generation; `None` where the directory holds no store.
pub(crate) fn newest(disk: &dyn Disk, dir: &Path) -> Result<Option<Manifest>> {
    let mut listing = Listing::read(disk, dir)?;
    loop {
        let found = newest_of(disk, dir, &listing);
        // A writer at work replaces generations between a list of them and the opening: as long as there are newer ones,
        // what failed was one of the past.
        let gone = found.as_ref().is_err_and(|error| error.kind() == ErrorKind::Io);
        let now = if gone { Listing::read(disk, dir)? } else { return found };
        if now.generations.first() == listing.generations.first() {
            return found;
        }
        listing = now;
    }
}

fn newest_of(disk: &dyn Disk, dir: &Path, listing: &Listing) -> Result<Option<Manifest>> {
    let Some(newest) = listing.generations.first() else {
        return match listing.segments.iter().min() {
            None => Ok(None),
            Some(segment) => Err(Error::damaged(Damage {
                file: dir.join(segment_file_name(*segment)),
                offset: 0,
                expected: "a manifest beside it".to_owned(),
                found: "none".to_owned(),
            })),
        };
    };
    let refused = match read(disk, dir, *newest) {
        Ok(manifest) => return Ok(Some(manifest)),
        // A newer version wrote it: what an older generation says is not true any more.
        Err(error) if error.kind() == ErrorKind::TooNew => return Err(error),
        Err(error) => error,
    };
    // An older generation serves only where nothing happened since: else it would be a store of the past.
    for generation in listing.generations.iter().skip(1) {
        if let Ok(manifest) = read(disk, dir, *generation)
            && (matches_files(disk, dir, listing, &manifest)? || planted(Bug::BelieveOlderManifest))
        {
            tracing::warn!(error = %refused, generation, "the newest manifest is damaged, the one before matches every file");
            return Ok(Some(manifest));
        }
    }
    Err(refused)
}

/// Reads one generation.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, generation: u64) -> Result<Manifest> {
    let path = dir.join(manifest_file_name(generation));
    let file = disk.open(&path, Access::Read).map_err(|error| Error::io("open manifest", &path, error))?;
    let len = file.len().map_err(|error| Error::io("tell the length of", &path, error))?;
    let fitting = usize::try_from(len).ok().filter(|_| len <= limits::MANIFEST_BYTES_MAX);
    let Some(fitting) = fitting else {
        let expected = format!("at most {} bytes", limits::MANIFEST_BYTES_MAX);
        return Err(Error::damaged(Damage { file: path, offset: 0, expected, found: len.to_string() }));
    };
    let mut bytes = vec![0; fitting];
    file.read_exact_at(&mut bytes, 0).map_err(|error| Error::io("read manifest", &path, error))?;
    let manifest = Manifest::decode(&bytes).map_err(|fault| fault_at(&path, 0, fault))?;
    if manifest.generation == generation {
        return Ok(manifest);
    }
    let (expected, found) = (format!("generation {generation}"), format!("generation {}", manifest.generation));
    Err(Error::damaged(Damage { file: path, offset: 0, expected, found }))
}

/// Whether every listed file stands as the manifest says and no newer segment does.
fn matches_files(disk: &dyn Disk, dir: &Path, listing: &Listing, manifest: &Manifest) -> Result<bool> {
    if listing.segments.iter().any(|segment| segment.0 >= manifest.next_segment_id) {
        return Ok(false);
    }
    for record in &manifest.segments {
        let path = dir.join(segment_file_name(record.id));
        let len = match disk.open(&path, Access::Read).and_then(|file| file.len()) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(Error::io("open segment", &path, error)),
        };
        // An active one was written to: what it holds by now, only the damaged generation may have known.
        let stands = record.state != SegmentState::Active && record.has_len(len);
        if !stands {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes a generation and makes it durable: after a crash there is the one before, or this one.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let (unfinished, path) =
        (dir.join(unfinished_file_name(manifest.owner)), dir.join(manifest_file_name(manifest.generation)));
    let bytes = manifest.encode().map_err(|error| {
        let (what, max) = (error.what, error.bytes_max);
        Error::invalid(format!("{}: the {what} would exceed {max} bytes", path.display())).at(&path)
    })?;
    let written = || -> io::Result<()> {
        remove_if_there(disk, &unfinished)?;
        let file = disk.create(&unfinished)?;
        file.write_all_vectored_at(&mut [IoSlice::new(&bytes)], 0)?;
        if !planted(Bug::NameManifestBeforeSync) {
            file.sync_data()?;
        }
        disk.rename(&unfinished, &path)?;
        // Sync the directory too: otherwise the new name may vanish with the power.
        if planted(Bug::SkipManifestDirectorySync) { Ok(()) } else { disk.sync_dir(dir) }
    };
    written().map_err(|error| Error::io("write manifest", &path, error))?;
    // One generation is kept as a spare; a failure to remove an older one harms nobody.
    if let Some(old) = manifest.generation.checked_sub(2) {
        let _ = remove_if_there(disk, &dir.join(manifest_file_name(old)));
    }
    Ok(())
}

/// Removes what a crash left behind: segments that no manifest lists, and older generations. Other names are not ours, and
/// neither are numbers from the manifest's next ones on: a later owner may have given them.
pub(crate) fn remove_orphans(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let listing = Listing::read(disk, dir)?;
    let listed = |segment: &SegmentId| manifest.segments.iter().any(|record| record.id == *segment);
    let segments = listing.segments.iter().filter(|segment| !listed(segment) && segment.0 < manifest.next_segment_id);
    let segments = segments.map(|segment| segment_file_name(*segment));
    // One is kept as a spare. Owners by heartbeat leave numbers out between them.
    let old = listing.generations.iter().filter(|generation| **generation < manifest.generation).skip(1);
    let generations = old.map(|generation| manifest_file_name(*generation));
    let unfinished = listing.unfinished.iter().filter(|owner| **owner != 0 && **owner < manifest.owner);
    let unfinished = unfinished.map(|owner| unfinished_file_name(*owner));
    let note = listing.unfinished_note.then(|| UNFINISHED_CHECKPOINTED.to_owned());
    for name in segments.chain(generations).chain(unfinished).chain(note) {
        if let Err(error) = remove_if_there(disk, &dir.join(&name)) {
            tracing::warn!(%name, %error, "could not remove a file that the store no longer needs");
        }
    }
    Ok(())
}

/// Removes every generation before this one, and the index of the epoch before: the past of the store must not come back.
pub(crate) fn remove_past(disk: &dyn Disk, dir: &Path, manifest: &Manifest) -> Result<()> {
    let older =
        Listing::read(disk, dir)?.generations.into_iter().filter(|generation| *generation < manifest.generation);
    for name in older.map(manifest_file_name).chain([INDEX.to_owned()]) {
        let path = dir.join(name);
        remove_if_there(disk, &path).map_err(|error| Error::io("remove", &path, error))?;
    }
    Ok(())
}

/// Removes a file, if there is one.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
