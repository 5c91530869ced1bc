//! How many records of what size, in what batches, and how they are read.

use serde::{Deserialize, Serialize};

use crate::content::Content;
pub(crate) use crate::content::Lengths;
use crate::outcome::Outcome;
use crate::peers::{Kind, Peer};

/// The shape of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// Records.
    pub(crate) count: u64,
    pub(crate) lengths: Lengths,
    /// Records of one durable commit.
    pub(crate) batch: usize,
    /// Ids are hashes instead of numbers in order.
    pub(crate) random_ids: bool,
    /// Random reads of each kind.
    pub(crate) reads: u64,
    /// Numbers of reader threads, besides one.
    pub(crate) threads: Vec<u64>,
}

/// About these bytes a commit, as 512 records of 4 KiB have.
const COMMIT_VALUES: usize = 512 * 1024;

impl Shape {
    /// Records of so many values each, as many as make `values` in all.
    pub(crate) fn of(values: u64, each: usize) -> Self {
        let count = (values / each as u64).max(64);
        let batch = (COMMIT_VALUES / each).clamp(16, 1000);
        Self { count, lengths: Lengths::Fixed(each), batch, random_ids: false, reads: count * 10, threads: Vec::new() }
    }

    /// The same for a peer that is given a part of the records only.
    pub(super) fn for_peer(&self, peer: Kind) -> Self {
        let count = (self.count / peer.one_in).max(64);
        Self { count, reads: (self.reads / peer.one_in).max(16), ..self.clone() }
    }

    pub(super) fn content(&self) -> Content {
        Content::new(self.count, self.lengths, self.random_ids)
    }

    /// Inserts all records, calling `after` with the number there are, after each commit.
    pub(super) fn insert(&self, content: &Content, peer: &mut dyn Peer, after: &mut dyn FnMut(u64)) -> Outcome {
        let mut batch = Vec::with_capacity(self.batch);
        let mut next = 0;
        while next < self.count {
            let end = self.count.min(next + self.batch as u64);
            batch.clear();
            batch.extend((next..end).map(|number| content.record(number)));
            peer.insert(&batch)?;
            next = end;
            after(next);
        }
        Ok(())
    }
}
