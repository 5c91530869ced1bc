//! A checked rollout to a frame without a place: descriptor and checksums, computed in the caller's thread.

use std::borrow::Cow;

use crate::error::Result;
use crate::format::dtype::DType;
use crate::format::entry::{EntryKind, FrameEntry};
use crate::format::meta::{self, ColumnCode, ColumnMeta, ProvenanceMeta, RolloutMeta, SpanMeta};
use crate::ids::{Lsn, RolloutId};
use crate::log::event::{NewFrame, count, entry_of, units};
use crate::store::column::{Column, ColumnValues, LogpKind, Provenance};
use crate::store::new_rollout::{NewRollout, VersionSpan, are_zero};

/// A rollout frame that waits for its place in the log.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    /// Place, numbers and version are told at the commit.
    pub(crate) entry: FrameEntry,
    arrays: Vec<ColumnValues<'a>>,
    meta: Vec<u8>,
    meta_crc: u32,
    /// Versions that made the old logps; empty where there are none.
    pub(crate) old_versions: Vec<u64>,
    pub(crate) kl_version: Option<u64>,
    pub(crate) key: Option<String>,
    /// Log-probs that were filled in rather than computed, by their look.
    pub(crate) has_zero_logps: bool,
    /// Old logps that were computed after those of this insert: a frame of their own.
    pub(crate) later: Option<Box<Prepared<'a>>>,
}

impl<'a> Prepared<'a> {
    /// Prepares an insert.
    pub(crate) fn insert(rollout: NewRollout<'a>) -> Result<Self> {
        Self::given(EntryKind::Insert, rollout)
    }

    /// Prepares a piece of a rollout that is still being generated.
    pub(crate) fn piece(piece: NewRollout<'a>) -> Result<Self> {
        Self::given(EntryKind::Piece, piece)
    }

    fn given(kind: EntryKind, mut rollout: NewRollout<'a>) -> Result<Self> {
        rollout.check()?;
        let later = rollout.take_later().map(Box::new);
        let has_zero_logps = rollout.has_zero_logps();
        let NewRollout { id, created_step, key, group, reward, advantage, mut columns, provenances, .. } = rollout;
        // Well-known columns first, by code, then the named ones in the order given: the descriptor's order.
        columns.sort_by_key(|(column, _)| column.code().map_or(u16::MAX, |code| code.0));
        let mut meta = RolloutMeta {
            created_step,
            kl_version: rollout.kl_version.unwrap_or_default(),
            spans: spans(&rollout.version_spans),
            old_spans: if let [(_, 0)] = rollout.old_spans.as_slice() { Vec::new() } else { spans(&rollout.old_spans) },
            metadata: rollout.metadata,
            key: key.clone().unwrap_or_default(),
            group: group.unwrap_or_default(),
            reward: reward.unwrap_or_default(),
            advantage: advantage.unwrap_or_default(),
            provenances: provenances.iter().map(|(_, provenance)| provenance_meta(provenance)).collect(),
            ..RolloutMeta::default()
        };
        let given = [
            (group.is_some(), RolloutMeta::GROUP),
            (reward.is_some(), RolloutMeta::REWARD),
            (advantage.is_some(), RolloutMeta::ADVANTAGE),
            (key.is_some(), RolloutMeta::KEY),
        ];
        meta.present = given.iter().filter(|(given, _)| *given).fold(0, |bits, (_, bit)| bits | bit);
        let mut arrays = Vec::with_capacity(columns.len());
        for (column, values) in columns {
            let provenance = provenances.iter().position(|(of, _)| *of == column);
            push_column(&mut meta, &column, &values, provenance);
            arrays.push(values);
        }
        let old_versions = rollout.old_spans.iter().map(|(version, _)| *version).collect();
        let kl_version = rollout.kl_version;
        let prepared = Self::of(kind, id, &meta, arrays);
        let mut prepared = Self { old_versions, kl_version, key, has_zero_logps, later, ..prepared };
        if let Some(stood) = rollout.stood {
            stood.tell(&mut prepared);
        }
        Ok(prepared)
    }

    /// Prepares newly computed log-probs of a rollout.
    pub(crate) fn update(
        kind: EntryKind,
        id: RolloutId,
        insert_lsn: Lsn,
        born_step: u64,
        version: u64,
        logps: impl Into<Cow<'a, [f32]>>,
    ) -> Self {
        let column = if kind == EntryKind::KlRefLogps { Column::KlRefLogps } else { Column::OldLogps };
        let kl_version = (kind == EntryKind::KlRefLogps).then_some(version);
        let mut meta = RolloutMeta { kl_version: kl_version.unwrap_or_default(), ..RolloutMeta::default() };
        let logps = logps.into();
        let has_zero_logps = are_zero(&logps);
        let values = ColumnValues::F32(logps);
        push_column(&mut meta, &column, &values, None);
        let mut prepared = Self::of(kind, id, &meta, vec![values]);
        prepared.has_zero_logps = has_zero_logps;
        prepared.entry.insert_lsn = insert_lsn;
        prepared.entry.born_step = born_step;
        prepared.entry.ref_version = if kl_version.is_some() { 0 } else { version };
        prepared
    }

    fn of(kind: EntryKind, id: RolloutId, meta: &RolloutMeta, arrays: Vec<ColumnValues<'a>>) -> Self {
        let entry = entry_of(kind, id, meta);
        let meta = meta::encode_rollout(meta);
        let meta_crc = crc32fast::hash(&meta);
        let (old_versions, kl_version, key) = (Vec::new(), None, None);
        Self { entry, arrays, meta, meta_crc, old_versions, kl_version, key, has_zero_logps: false, later: None }
    }

    /// The frame of `entry`, borrowing everything.
    pub(crate) fn frame(&self, entry: &FrameEntry) -> NewFrame<'_> {
        let arrays = self.arrays.iter().map(|values| Cow::Borrowed(values.as_bytes())).collect();
        NewFrame::of_rollout(entry, arrays, Cow::Borrowed(&self.meta), self.meta_crc)
    }
}

fn push_column(meta: &mut RolloutMeta, column: &Column, values: &ColumnValues<'_>, provenance: Option<usize>) {
    let code = column.code().or_else(|| {
        meta.names.push(column.name().to_owned());
        ColumnCode::named(meta.names.len() - 1)
    });
    let bytes = values.as_bytes();
    let offset_units = meta.columns.last().map_or(0, |last| last.offset_units + last_units(last));
    meta.columns.push(ColumnMeta {
        column: code.map_or(0, |code| code.0),
        dtype: values.dtype().code(),
        provenance: provenance.map_or(0, |place| u8::try_from(place + 1).unwrap_or(0)),
        offset_units,
        len: count(values.len()),
        crc: crc32fast::hash(bytes),
    });
}

/// Units that an array of the directory takes.
fn last_units(column: &ColumnMeta) -> u32 {
    let value_bytes = DType::from_code(column.dtype).map_or(0, DType::size_bytes);
    units(column.len as usize * value_bytes)
}

fn spans(spans: &[VersionSpan]) -> Vec<SpanMeta> {
    spans.iter().map(|(version, tokens)| SpanMeta { version: *version, token_count: *tokens, reserved: 0 }).collect()
}

fn provenance_meta(provenance: &Provenance) -> ProvenanceMeta {
    ProvenanceMeta {
        engine: provenance.engine.clone(),
        temperature: provenance.temperature,
        top_p: provenance.top_p,
        top_k: provenance.top_k,
        processed: u8::from(provenance.kind == LogpKind::Processed),
        reserved: [0; 3],
    }
}
