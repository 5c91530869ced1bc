//! Values of a view in memory of the caller's own.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::disk::aligned::AlignedBuf;
use crate::disk::private::Private;
use crate::format::dtype::Element;
use crate::limits::WRITABLE_MAP_BYTES_MIN;
use crate::store::view::Rollout;

/// Values that may be written to: what is written stays in here. It outlives view and store.
pub struct Writable<T> {
    memory: Memory,
    of: PhantomData<T>,
}

/// Bytes that lie as values must: a column begins at a multiple of 64 in its file, and so does the copy.
enum Memory {
    /// Pages are copied as they are written to.
    Private(Private),
    Copied(AlignedBuf),
}

impl Rollout {
    /// Values that this view lent, to be written to. Large ones are not copied: they are mapped once more, privately, and
    /// the system copies a page when it is written to. Small ones are copied, as are those of a file that has lost its name
    /// (compaction removed it) and those of a store that reads copies.
    ///
    /// # How do I change log-probs without changing the store?
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # use rollstore::{NewRollout, RolloutStore};
    /// let store = RolloutStore::options().window(8).open(dir.path().join("rollouts"))?;
    /// store.insert(NewRollout::new(1, 100).old_logps(&[-0.5, -0.25][..], 0))?;
    /// let rollout = store.get(1.into())?.unwrap();
    /// let mut own = rollout.writable(rollout.old_logps()?);
    /// own[0] = -9.0;
    /// assert_eq!((rollout.old_logps()?, &own[..]), (&[-0.5, -0.25][..], &[-9.0, -0.25][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn writable<T: Element>(&self, values: &[T]) -> Writable<T> {
        let lent: &[u8] = bytemuck::cast_slice(values);
        let private = (lent.len() >= WRITABLE_MAP_BYTES_MIN).then(|| self.private(lent)).flatten();
        let memory = private.map_or_else(|| Memory::Copied(copy(lent)), Memory::Private);
        Writable { memory, of: PhantomData }
    }

    /// A private map of bytes of any of the frames that this view reads.
    fn private(&self, lent: &[u8]) -> Option<Private> {
        let parts = [&self.old, &self.kl, &self.first_old].into_iter().flatten();
        let frames = parts.filter_map(|part| part.frame(self.entry.id).ok());
        std::iter::once(&self.insert).chain(frames).find_map(|frame| frame.private(lent))
    }
}

fn copy(bytes: &[u8]) -> AlignedBuf {
    let mut copied = AlignedBuf::zeroed(bytes.len());
    copied.copy_from_slice(bytes);
    copied
}

impl<T> Writable<T> {
    /// Whether the values were copied at once, and not mapped.
    #[must_use]
    pub fn is_copied(&self) -> bool {
        matches!(self.memory, Memory::Copied(_))
    }
}

impl<T: Element> Deref for Writable<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(match &self.memory {
            Memory::Private(bytes) => bytes,
            Memory::Copied(bytes) => bytes,
        })
    }
}

impl<T: Element> DerefMut for Writable<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(match &mut self.memory {
            Memory::Private(bytes) => bytes,
            Memory::Copied(bytes) => bytes,
        })
    }
}

impl<T: Element> fmt::Debug for Writable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writable")
            .field("len", &self.len())
            .field("is_copied", &self.is_copied())
            .finish_non_exhaustive()
    }
}
