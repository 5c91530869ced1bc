//! The versions of one clock, and which of them are ancestors of the current one.

use rollstore::ErrorKind;

use super::Refused;

/// The versions of one clock that are ancestors of the current one, which is the last.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lineage {
    versions: Vec<u64>,
    /// The last label and its version.
    pub(super) label: Option<(u64, u64)>,
    /// Versions that the operation under way took.
    pub(super) issued: u64,
    pub(super) next: u64,
}

impl Default for Lineage {
    fn default() -> Self {
        Self { versions: vec![0], label: None, issued: 0, next: 1 }
    }
}

impl Lineage {
    pub(super) fn current(&self) -> u64 {
        self.versions.last().copied().unwrap_or(0)
    }

    pub(super) fn lag(&self, version: u64) -> Option<u64> {
        self.versions.iter().rev().position(|of_lineage| *of_lineage == version).map(|lag| lag as u64)
    }

    fn issue(&mut self) -> u64 {
        let version = self.next;
        self.next += 1;
        self.issued += 1;
        version
    }

    pub(super) fn advance(&mut self, label: Option<u64>) -> Result<bool, Refused> {
        if let (Some(label), Some((last, version))) = (label, self.label) {
            if label == last && version == self.current() {
                return Ok(false);
            }
            if label <= last {
                return Err(ErrorKind::Invalid);
            }
        }
        let version = self.issue();
        self.versions.push(version);
        if let Some(label) = label {
            self.label = Some((label, version));
        }
        Ok(true)
    }

    pub(super) fn restart(&mut self) {
        let version = self.issue();
        self.versions = vec![version];
        self.label = None;
    }
}
