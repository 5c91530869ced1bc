//! Verify: every byte of a store against its checksums, and its files against each other.

use std::path::Path;

use crate::disk::os::OsDisk;
use crate::disk::{Access, Disk};
use crate::error::{Damage, Error, ErrorKind, Result};
use crate::format::entry::FrameEntry;
use crate::format::footer::HeaderHash;
use crate::format::manifest::{Manifest, ManifestKind, SegmentRecord, SegmentState};
use crate::format::names::segment_file_name;
use crate::format::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, SegmentKind};
use crate::ids::{Lsn, RolloutId};
use crate::index::FileOptions;
use crate::inspect::walk::{Step, walk};
use crate::log::event::Event;
use crate::log::seal::read_footer;
use crate::log::segment::{ReadMode, damage_of, fault_at};
use crate::log::source::Source;
use crate::recovery::live::{self, Patience};
use crate::recovery::{Base, Request, Survey, manifests, scan_unsealed};

/// One damaged place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// File, offset, expected and found.
    pub damage: Damage,
    /// The rollouts whose data is affected, as far as the damaged bytes still tell.
    pub rollouts: Vec<RolloutId>,
}

impl Finding {
    /// What an error says to be damaged, or the error where it is of another kind.
    pub(super) fn of(error: Error) -> Result<Self> {
        let rollouts = error.rollout().into_iter().collect();
        error.damage().cloned().map(|damage| Self { damage, rollouts }).ok_or(error)
    }
}

/// What a verification saw.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verification {
    /// Whether it is a checkpoint, which never changes, and not a store. False where no manifest can be read.
    pub is_checkpoint: bool,
    /// Whether a manifest can be read. Without one nobody knows which segments there should be, and nothing can be repaired.
    pub has_manifest: bool,
    /// Segments that the manifest lists.
    pub segments: u64,
    /// Whole frames.
    pub frames: u64,
    /// Bytes of segments that were checked, each counted once.
    pub bytes: u64,
    /// Bytes behind the last whole batch of the segment being written: a write under way, or one that a crash cut short.
    pub in_flight_bytes: u64,
    /// The highest LSN of a whole frame.
    pub last_lsn: Lsn,
    /// Damage, in the order of files and offsets.
    pub findings: Vec<Finding>,
}

impl Verification {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Checks every byte of the store or checkpoint in `dir` and goes on past damage. Writes nothing and takes no lock.
///
/// # Is my store sound?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore, inspect};
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(1, 0).old_logps(&[-0.5][..], 0))?;
/// let verification = inspect::verify(dir.path().join("rollouts"))?;
/// assert!(verification.is_sound());
/// assert_eq!(verification.frames, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound` where there is no store, `TooNew`, `Io`. Damage is no error: it is what is reported.
pub fn verify(dir: impl AsRef<Path>) -> Result<Verification> {
    verify_on(&OsDisk, dir.as_ref())
}

/// [`verify`] on another file system.
///
/// # Errors
/// As for [`verify`].
pub fn verify_on(disk: &dyn Disk, dir: &Path) -> Result<Verification> {
    // A store that is written to meanwhile may drop a manifest or a segment, or seal one, between two reads.
    let is_doubtful = |looked: &Result<Verification>| !looked.as_ref().is_ok_and(Verification::is_sound);
    live::look(disk, dir, Patience::LONG, is_doubtful, || look(disk, dir))
}

fn look(disk: &dyn Disk, dir: &Path) -> Result<Verification> {
    let mut verifier = Verifier { disk, dir, seen: Verification::default() };
    match manifests::newest(disk, dir) {
        Ok(Some(manifest)) => {
            verifier.manifests()?;
            verifier.all(&manifest)?;
        }
        Ok(None) => return Err(Error::not_found(format!("{} holds no store", dir.display())).at(dir)),
        Err(error) => verifier.note(&error)?,
    }
    Ok(verifier.seen)
}

struct Verifier<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    seen: Verification,
}

impl Verifier<'_> {
    /// Every generation, the spare one too: it is what a store falls back to.
    fn manifests(&mut self) -> Result<()> {
        let listing = manifests::Listing::read(self.disk, self.dir)?;
        for generation in listing.generations.into_iter().rev() {
            let Err(error) = manifests::read(self.disk, self.dir, generation) else { continue };
            // A writer at work removes a spare when it has another one.
            let removed = || Ok(!manifests::Listing::read(self.disk, self.dir)?.generations.contains(&generation));
            if error.kind() != ErrorKind::Io || !removed()? {
                self.note(&error)?;
            }
        }
        Ok(())
    }

    fn all(&mut self, manifest: &Manifest) -> Result<()> {
        self.seen.is_checkpoint = manifest.kind == ManifestKind::Checkpoint;
        self.seen.has_manifest = true;
        self.seen.segments = manifest.segments.len() as u64;
        for record in &manifest.segments {
            if let Err(error) = self.segment(record, manifest.state.lsn) {
                self.note(&error)?;
            }
        }
        // What is said to be sound opens: the manifest may contradict frames of which each is whole.
        if self.seen.is_sound()
            && let Err(error) = self.open(manifest)
        {
            self.note(&error)?;
        }
        Ok(())
    }

    fn open(&self, manifest: &Manifest) -> Result<()> {
        let request = Request {
            disk: self.disk,
            dir: self.dir,
            access: Access::Read,
            read_mode: ReadMode { mapped: false, recheck_always: false },
            index_file: &FileOptions { cache_bytes: 0, ..FileOptions::default() },
        };
        Survey::read(&request, manifest.clone(), &Base::default())?.check_facts(self.disk)
    }

    /// Takes damage down; any other error ends the verification.
    fn note(&mut self, error: &Error) -> Result<()> {
        match error.damage() {
            Some(damage) => {
                self.find(damage.clone(), error.rollout());
                Ok(())
            }
            None => Err(Error::new(error.kind(), error.to_string())),
        }
    }

    fn find(&mut self, damage: Damage, rollout: impl IntoIterator<Item = RolloutId>) {
        self.seen.findings.push(Finding { damage, rollouts: rollout.into_iter().collect() });
    }

    fn segment(&mut self, record: &SegmentRecord, manifest_lsn: Lsn) -> Result<()> {
        let path = self.dir.join(segment_file_name(record.id));
        let damage = |offset, expected: String, found: String| {
            Error::damaged(Damage { file: path.clone(), offset, expected, found })
        };
        let file = self.disk.open(&path, Access::Read).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                damage(0, "a segment that the manifest lists".to_owned(), "no file".to_owned())
            }
            _ => Error::io("open segment", &path, error),
        })?;
        let file_len = file.len().map_err(|error| Error::io("tell the length of", &path, error))?;
        if !record.has_len(file_len) {
            let error =
                damage(file_len, format!("{} bytes by the manifest", record.len()), format!("{file_len} bytes"));
            self.note(&error)?;
        }
        let base_lsn = (record.kind == SegmentKind::Log).then_some(record.base_lsn);
        let (segment, salt) = (record.id, record.salt);
        let scan = Source {
            file: &*file,
            path: &path,
            segment,
            salt,
            start: SEGMENT_HEADER_BYTES as u64,
            end: file_len,
            base_lsn,
            ahead: None,
        };
        self.header(&scan, record)?;
        match record.state {
            SegmentState::Sealed { footer_crc, .. } => {
                self.seen.bytes += file_len;
                self.sealed(&scan, footer_crc)
            }
            SegmentState::Cut { end, .. } => {
                let end = end.min(file_len);
                self.seen.bytes += end;
                self.frames(&Source { end, ..scan }, false).map(drop)
            }
            SegmentState::Active => self.unsealed(&scan, record.base_lsn, manifest_lsn),
        }
    }

    /// The segment being written to: bytes behind the last whole batch are in flight unless they were acknowledged.
    fn unsealed(&mut self, scan: &Source<'_>, base_lsn: Lsn, manifest_lsn: Lsn) -> Result<()> {
        let (end, damaged) = match scan_unsealed(scan, base_lsn, manifest_lsn, drop) {
            Ok(tail) => (tail.end, None),
            Err(error) if error.kind() == ErrorKind::Damaged => (scan.end, Some(error)),
            Err(error) => return Err(error),
        };
        self.seen.bytes += end;
        self.seen.in_flight_bytes += scan.end - end;
        let known = self.seen.findings.len();
        self.frames(&Source { end, ..*scan }, false)?;
        // Every frame that is there may be whole, and acknowledged ones missing behind them.
        match damaged.filter(|_| self.seen.findings.len() == known) {
            Some(error) => self.note(&error),
            None => Ok(()),
        }
    }

    /// The segment's header. Frames are found without it: what they need of it, the manifest says too.
    fn header(&mut self, scan: &Source<'_>, record: &SegmentRecord) -> Result<()> {
        let mut header = vec![0; SEGMENT_HEADER_BYTES];
        let whole = scan.end >= SEGMENT_HEADER_BYTES as u64;
        if whole {
            scan.read(&mut header, 0, &mut 0)?;
        }
        let header = match SegmentHeader::decode(&header).map_err(|fault| fault_at(scan.path, 0, fault)) {
            Ok(header) => header,
            Err(error) if whole => return self.note(&error),
            Err(error) => return Err(error),
        };
        if (header.segment, header.salt) == (record.id, record.salt) {
            return Ok(());
        }
        let expected = format!("segment {} with salt {:#018x}", record.id, record.salt);
        let found = format!("segment {} with salt {:#018x}", header.segment, header.salt);
        Err(Error::damaged(Damage { file: scan.path.to_owned(), offset: 0, expected, found }))
    }

    /// A sealed segment: its frames up to where the footer begins, and the footer against them.
    fn sealed(&mut self, scan: &Source<'_>, footer_crc: u32) -> Result<()> {
        let footer = read_footer(scan, footer_crc, &mut 0);
        let footer = match footer {
            Ok(footer) => Some(footer),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                self.note(&error)?;
                None
            }
            Err(error) => return Err(error),
        };
        let end = footer.as_ref().map_or(scan.end, |(_, info)| info.offset);
        let known = self.seen.findings.len();
        let walked = self.frames(&Source { end, ..*scan }, footer.is_none())?;
        let Some((footer, info)) = footer else { return Ok(()) };
        let frames_sound = self.seen.findings.len() == known;
        let agrees = footer.entries == walked.entries && footer.header_hash == walked.hash.finish();
        if frames_sound && !agrees {
            let expected = format!("a footer of the {} frames before it", walked.frames);
            let found = format!("one of {} other frames", footer.frames);
            self.find(Damage { file: scan.path.to_owned(), offset: info.offset, expected, found }, None);
        }
        Ok(())
    }

    /// Every frame of a segment. Where its footer is damaged, that lies behind the last frame and was told already.
    fn frames(&mut self, scan: &Source<'_>, footer_behind: bool) -> Result<Walked> {
        let (mut walked, mut findings) = (Walked::default(), Vec::new());
        let mut expected = scan.base_lsn;
        walk(scan, SEGMENT_HEADER_BYTES as u64..scan.end, &mut 0, |step| {
            let rollout = step.rollout();
            match step {
                Step::Frame(frame) => {
                    let lsn = frame.header.lsn;
                    if let Some(expected) = expected.filter(|expected| *expected != lsn) {
                        let (expected, found) = (format!("frame {expected}"), format!("frame {lsn}"));
                        let (file, offset) = (scan.path.to_owned(), frame.offset);
                        findings.push((Damage { file, offset, expected, found }, None));
                    }
                    expected = scan.base_lsn.map(|_| lsn.next());
                    walked.add(lsn, &frame.header.encode(&scan.seed(frame.offset)), &frame.event);
                }
                Step::Damaged { header, offset, fault } => {
                    expected = scan.base_lsn.map(|_| header.lsn.next());
                    findings.push((damage_of(scan.path, offset, fault)?, rollout));
                }
                Step::Lost { next, .. } if footer_behind && next == scan.end => {}
                Step::Lost { offset, fault, .. } => {
                    // One finding tells of all the frames that stood here.
                    expected = None;
                    findings.push((damage_of(scan.path, offset, fault)?, rollout));
                }
            }
            Ok(())
        })?;
        self.seen.frames += walked.frames;
        self.seen.last_lsn = self.seen.last_lsn.max(walked.last_lsn);
        for (damage, rollout) in findings {
            self.find(damage, rollout);
        }
        walked.entries.sort_unstable_by_key(|entry| (entry.id, entry.lsn));
        Ok(walked)
    }
}

/// The frames of one segment, as its footer tells them.
#[derive(Default)]
struct Walked {
    frames: u64,
    last_lsn: Lsn,
    hash: HeaderHash,
    entries: Vec<FrameEntry>,
}

impl Walked {
    fn add(&mut self, lsn: Lsn, header: &[u8; crate::format::frame::HEADER_BYTES], event: &Event) {
        self.frames += 1;
        self.last_lsn = self.last_lsn.max(lsn);
        self.hash.update(header);
        if let Event::Rollout(entry) = event {
            self.entries.push(*entry);
        }
    }
}
