//! The mark of a whole dump: how many rollouts it holds, in which columns, and where the store stood.
//!
//! Knows nothing of the formats that it stands in.

use rollstore::{Clocks, DType, RolloutStore, VersionLine};
use serde::{Deserialize, Serialize};

use super::layout::{Field, Which};

/// The version of the marks and layouts that this program writes.
const VERSION: u32 = 1;

/// Greatest size of a mark, in bytes: the largest cursor and identity as hexadecimal digits, and columns.
pub(super) const MARK_BYTES_MAX: u64 = 64 << 20;

/// What stands in a dump beside its rollouts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mark {
    version: u32,
    /// Rollouts in the file.
    pub(crate) rows: u64,
    /// Rollouts that could not be read when it was written, and are not among them.
    pub(crate) damaged: u64,
    /// The columns of formats that keep each in one place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    columns: Vec<ColumnMark>,
    /// Where the store stood.
    pub(crate) store: StoreMark,
}

/// One column of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ColumnMark {
    /// The rollout's column; `None` for the first old log-probs.
    column: Option<String>,
    dtype: String,
    /// What it is called in the file.
    label: String,
}

/// What a store of the same rollouts begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoreMark {
    pub(crate) window: u64,
    pub(crate) max_version_lag: u64,
    pub(crate) step: Option<u64>,
    ref_versions: LineMark,
    kl_ref_versions: LineMark,
    #[serde(default, with = "hex", skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<Vec<u8>>,
    #[serde(default, with = "hex", skip_serializing_if = "Option::is_none")]
    pub(crate) run_identity: Option<Vec<u8>>,
}

/// [`VersionLine`], as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LineMark {
    lineage: Vec<(u64, u64)>,
    next: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<(u64, u64)>,
}

impl Mark {
    pub(super) fn new(rows: u64, damaged: u64, fields: &[Field], store: StoreMark) -> Self {
        let columns = fields.iter().map(|field| ColumnMark {
            column: match &field.which {
                Which::Column(column) => Some(column.name().to_owned()),
                Which::FirstOldLogps => None,
            },
            dtype: field.dtype.to_string(),
            label: field.label.clone(),
        });
        Self { version: VERSION, rows, damaged, columns: columns.collect(), store }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The mark in these bytes, or why it is none.
    pub(super) fn parse(json: &[u8]) -> Result<Self, String> {
        let mark: Self = serde_json::from_slice(json).map_err(|error| format!("its mark cannot be read: {error}"))?;
        match mark.version {
            VERSION => Ok(mark),
            newer => {
                Err(format!("its mark has version {newer}, this program reads {VERSION}; a newer one may read it"))
            }
        }
    }

    /// The columns of the file.
    pub(super) fn fields(&self) -> Result<Vec<Field>, String> {
        let field = |mark: &ColumnMark| {
            let dtype = dtype_of(&mark.dtype)?;
            let which = mark.column.as_deref().map_or(Which::FirstOldLogps, |name| Which::Column(name.into()));
            Ok(Field::new(which, dtype, mark.label.clone()))
        };
        self.columns.iter().map(field).collect()
    }
}

/// The type of this name.
pub(super) fn dtype_of(name: &str) -> Result<DType, String> {
    use DType::{Bf16, F16, F32, I32, I64, U8, U32};
    let known = [F32, F16, Bf16, I32, I64, U32, U8].into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| format!("there is no type {name:?}"))
}

impl StoreMark {
    pub(crate) fn of(store: &RolloutStore) -> Self {
        let Clocks { step, ref_versions, kl_ref_versions } = store.clocks();
        let identity = store.run_identity();
        Self {
            window: store.window(),
            max_version_lag: store.max_version_lag(),
            step,
            ref_versions: LineMark::of(&ref_versions),
            kl_ref_versions: LineMark::of(&kl_ref_versions),
            cursor: store.cursor().map(|cursor| cursor.to_vec()),
            run_identity: (!identity.is_empty()).then_some(identity),
        }
    }

    pub(crate) fn clocks(&self) -> Clocks {
        let (ref_versions, kl_ref_versions) = (self.ref_versions.line(), self.kl_ref_versions.line());
        Clocks { step: self.step, ref_versions, kl_ref_versions }
    }

    /// Whether every version that this store issued means the same in the other.
    pub(crate) fn is_continued_by(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.clocks(), other.clocks());
        ours.ref_versions.is_continued_by(&theirs.ref_versions)
            && ours.kl_ref_versions.is_continued_by(&theirs.kl_ref_versions)
    }

    /// The versions that are current, in words.
    pub(crate) fn words(&self) -> String {
        let (ref_version, kl_version) = (self.ref_versions.current(), self.kl_ref_versions.current());
        format!("version {ref_version} (KL reference {kl_version})")
    }
}

impl LineMark {
    fn of(line: &VersionLine) -> Self {
        let lineage = line.lineage.iter().map(|range| (*range.start(), *range.end())).collect();
        Self { lineage, next: line.next, labels: line.labels.clone() }
    }

    fn line(&self) -> VersionLine {
        let lineage = self.lineage.iter().map(|(first, last)| *first..=*last).collect();
        VersionLine { lineage, next: self.next, labels: self.labels.clone() }
    }

    fn current(&self) -> u64 {
        self.lineage.last().map_or(0, |(_, last)| *last)
    }
}

/// Bytes as hexadecimal digits.
mod hex {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "the shape that serde calls it by")]
    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::text::hex(bytes.as_deref().unwrap_or_default()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        crate::text::unhex(&text).map(Some).ok_or_else(|| D::Error::custom("these are no hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(lineage: &[(u64, u64)], next: u64) -> LineMark {
        LineMark { lineage: lineage.to_vec(), next, labels: Vec::new() }
    }

    #[test]
    fn a_line_is_continued_by_one_that_went_on_from_it_and_by_no_other() {
        let ours = line(&[(0, 3), (7, 9)], 10);
        for (theirs, continued) in [
            (ours.clone(), true),
            (line(&[(0, 3), (7, 12)], 13), true),
            (line(&[(0, 3), (7, 9), (20, 21)], 22), true),
            (line(&[(0, 3), (7, 8)], 9), false),
            (line(&[(0, 9)], 10), false),
            (line(&[(10, 10)], 11), false),
        ] {
            assert_eq!(ours.line().is_continued_by(&theirs.line()), continued, "{theirs:?}");
        }
    }
}
