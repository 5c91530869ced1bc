//! What a store or checkpoint is made of: for programs that take its files elsewhere and bring them back.

use std::path::Path;

use crate::disk::os::OsDisk;
use crate::error::Result;
use crate::format::manifest::{ManifestKind, SegmentRecord};
use crate::format::names::{manifest_file_name, segment_file_name};
use crate::ids::SegmentId;
use crate::recovery::manifests;

/// The files of a store or checkpoint, as its manifest lists them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The run that it belongs to: the same through every restore.
    pub run: [u8; 16],
    /// Whether it is a checkpoint, and not a store.
    pub is_checkpoint: bool,
    /// The trainer's clock when the manifest was written; `None` where it had not acted.
    pub clock: Option<u64>,
    /// The generation of the manifest, which names its file.
    pub generation: u64,
    /// The segments, by number.
    pub segments: Vec<SegmentPart>,
}

/// One segment file. Number, salt and length name its bytes: no other segment of a run has the same three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentPart {
    /// Its number.
    pub id: u32,
    /// A random number that it was given when it was begun.
    pub salt: u64,
    /// Bytes from the start that belong to it, fixed once it is finished. The file may be longer: behind them is nothing of the log. 0
    /// while it is written to.
    pub bytes: u64,
}

impl Parts {
    /// The name of the manifest's file.
    #[must_use]
    pub fn manifest_file_name(&self) -> String {
        manifest_file_name(self.generation)
    }
}

impl SegmentPart {
    /// The name of the segment's file.
    #[must_use]
    pub fn file_name(&self) -> String {
        segment_file_name(SegmentId(self.id))
    }

    fn of(record: &SegmentRecord) -> Self {
        Self { id: record.id.0, salt: record.salt, bytes: record.len() }
    }
}

/// What the store or checkpoint in `dir` is made of; `None` where there is none. Takes no lock. The files of a checkpoint never
/// change; those of a store may be others by the time that this returns.
///
/// # Which bytes has my new checkpoint that the last one had not?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore, inspect};
/// # let (first, second) = (dir.path().join("first"), dir.path().join("second"));
/// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
/// store.insert(NewRollout::new(1, 3))?;
/// store.checkpoint(&first)?;
/// store.insert(NewRollout::new(2, 3))?;
/// store.checkpoint(&second)?;
///
/// let (first, second) = (inspect::parts(&first)?.unwrap(), inspect::parts(&second)?.unwrap());
/// let new = second.segments.iter().filter(|segment| !first.segments.contains(segment)).count();
/// assert_eq!((first.segments.len(), second.segments.len(), new), (1, 2, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Damaged` where no manifest can be read, `TooNew`, `Io`.
pub fn parts(dir: impl AsRef<Path>) -> Result<Option<Parts>> {
    let Some(manifest) = manifests::newest(&OsDisk, dir.as_ref())? else { return Ok(None) };
    Ok(Some(Parts {
        run: manifest.run_uuid,
        is_checkpoint: manifest.kind == ManifestKind::Checkpoint,
        clock: manifest.state.clock,
        generation: manifest.generation,
        segments: manifest.segments.iter().map(SegmentPart::of).collect(),
    }))
}
