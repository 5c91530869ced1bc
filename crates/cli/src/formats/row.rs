//! A rollout as it came out of a file, on its way into a store.
//!
//! Knows nothing of files.

use half::{bf16, f16};
use rollstore::{Column, ColumnValues, DType, NewRollout, Provenance, RolloutId, VersionSpan, limits};

/// A rollout with all that a dump holds of it.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(super) key: Option<String>,
    pub(super) group: Option<u64>,
    pub(super) created_step: u64,
    pub(super) born_step: u64,
    pub(super) ref_version: u64,
    pub(super) kl_ref_version: Option<u64>,
    pub(super) reward: Option<f32>,
    pub(super) advantage: Option<f32>,
    pub(super) version_spans: Vec<VersionSpan>,
    pub(super) metadata: Vec<u8>,
    pub(super) columns: Vec<ColumnIn>,
    pub(super) first_old_logps: Option<Vec<f32>>,
}

/// One column of it.
#[derive(Debug)]
pub(super) struct ColumnIn {
    pub(super) column: Column,
    pub(super) values: ColumnValues<'static>,
    pub(super) provenance: Option<Provenance>,
}

impl Row {
    /// Bytes of its values, about.
    pub(crate) fn size_bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| column.values.len() * column.values.dtype().size_bytes());
        columns.sum::<usize>() + self.metadata.len() + self.first_old_logps.as_ref().map_or(0, |first| first.len() * 4)
    }

    /// The rollout as a store takes it.
    pub(crate) fn into_new(self) -> Result<NewRollout<'static>, String> {
        let id = self.id;
        let mut new = match &self.key {
            Some(key) if RolloutId::from_key(key).get() != id => return Err(format!("key {key:?} names another id")),
            Some(key) => NewRollout::with_key(key, self.created_step),
            None => NewRollout::new(id, self.created_step),
        };
        new = new
            .as_it_stood(self.born_step, self.ref_version)
            .version_spans(&self.version_spans)
            .metadata(&self.metadata);
        if let Some(group) = self.group {
            new = new.group(group);
        }
        if let Some(reward) = self.reward {
            new = new.reward(reward);
        }
        if let Some(advantage) = self.advantage {
            new = new.advantage(advantage);
        }
        for ColumnIn { column, values, provenance } in self.columns {
            new = match (&column, values) {
                (Column::OldLogps, ColumnValues::F32(logps)) => new.old_logps(logps, self.ref_version),
                (Column::KlRefLogps, ColumnValues::F32(logps)) => {
                    let version = self.kl_ref_version.ok_or("kl_ref_logps come without their version")?;
                    new.kl_ref_logps(logps, version)
                }
                (column, values) => new.column(column.name(), values),
            };
            if let Some(provenance) = provenance {
                new = new.provenance(column, provenance);
            }
        }
        Ok(match self.first_old_logps {
            Some(first) => new.first_old_logps(first),
            None => new,
        })
    }
}

/// Values from their little-endian bytes.
pub(super) fn values_of(dtype: DType, bytes: &[u8]) -> ColumnValues<'static> {
    match dtype {
        DType::F16 => ColumnValues::F16(each(bytes, f16::from_le_bytes).into()),
        DType::Bf16 => ColumnValues::Bf16(each(bytes, bf16::from_le_bytes).into()),
        DType::I32 => ColumnValues::I32(each(bytes, i32::from_le_bytes).into()),
        DType::I64 => ColumnValues::I64(each(bytes, i64::from_le_bytes).into()),
        DType::U32 => ColumnValues::U32(each(bytes, u32::from_le_bytes).into()),
        DType::U8 => ColumnValues::U8(bytes.to_vec().into()),
        // F32, and what a later version may add, which no file names yet.
        _ => ColumnValues::F32(floats_of(bytes).into()),
    }
}

/// As [`values_of`], for f32.
pub(super) fn floats_of(bytes: &[u8]) -> Vec<f32> {
    each(bytes, f32::from_le_bytes)
}

fn each<T, const BYTES: usize>(bytes: &[u8], value: fn([u8; BYTES]) -> T) -> Vec<T> {
    let (values, _) = bytes.as_chunks::<BYTES>();
    values.iter().map(|bytes| value(*bytes)).collect()
}

/// Refuses a length that no column of a store has, before memory is taken for it.
pub(super) fn check_bytes(bytes: u64, what: &str) -> Result<usize, String> {
    let max = limits::RECORD_BYTES_MAX;
    match usize::try_from(bytes) {
        Ok(len) if bytes <= max => Ok(len),
        _ => Err(format!("{what} has {bytes} bytes, the limit of a rollout is {max}")),
    }
}
