//! One rollout on its way from a shard into another store, and whether two of them are the same.
//!
//! May touch views. Knows nothing of files.

use rollstore::{Column, ColumnValues, ColumnView, NewRollout, Partial, Result, Rollout, RolloutStore};

use crate::versions::Map;

/// How the versions of a shard are told in the stores that are made.
#[derive(Debug, Clone)]
pub(crate) struct Maps {
    pub(crate) ref_versions: Map,
    pub(crate) kl_ref_versions: Map,
}

impl Maps {
    /// Of a store that counts as those that are made.
    pub(crate) const SAME: Self = Self { ref_versions: Map::Same, kl_ref_versions: Map::Same };
}

/// The rollout as another store takes it.
pub(crate) fn brought<'r>(store: &RolloutStore, rollout: &'r Rollout, maps: &Maps) -> Result<NewRollout<'r>> {
    let (id, created_step) = (rollout.id(), rollout.created_step());
    let version = maps.ref_versions.of(rollout.ref_version());
    let mut new = match rollout.key() {
        Some(key) => NewRollout::with_key(key, created_step),
        None => NewRollout::new(id, created_step),
    };
    new = new.as_it_stood(rollout.born_step(), version).as_asked(store.was_asked(id));
    new = new.version_spans(&rollout.version_spans()).metadata(rollout.metadata());
    if let Some(group) = rollout.group() {
        new = new.group(group);
    }
    if let Some(reward) = rollout.reward() {
        new = new.reward(reward);
    }
    if let Some(advantage) = rollout.advantage() {
        new = new.advantage(advantage);
    }
    for info in rollout.columns() {
        let values = borrowed(rollout.values(&info.column)?);
        new = match (&info.column, values, info.version) {
            (Column::OldLogps, ColumnValues::F32(logps), _) => new.old_logps(logps, version),
            (Column::KlRefLogps, ColumnValues::F32(logps), Some(kl)) => {
                new.kl_ref_logps(logps, maps.kl_ref_versions.of(kl))
            }
            (column, values, _) => new.column(column.name(), values),
        };
        if let Some(provenance) = info.provenance {
            new = new.provenance(info.column, provenance);
        }
    }
    Ok(if rollout.keeps_first_old_logps() { new.first_old_logps(rollout.behaviour_logps()?) } else { new })
}

fn borrowed(view: ColumnView<'_>) -> ColumnValues<'_> {
    match view {
        ColumnView::F32(values) => values.into(),
        ColumnView::F16(values) => values.into(),
        ColumnView::Bf16(values) => values.into(),
        ColumnView::I32(values) => values.into(),
        ColumnView::I64(values) => values.into(),
        ColumnView::U32(values) => values.into(),
        ColumnView::U8(values) => values.into(),
    }
}

/// A rollout, the store that it lies in, and how its versions are told.
type Lying<'a> = (&'a RolloutStore, &'a Rollout, &'a Maps);

/// Whether two rollouts are the same in all that a store keeps of them, bit for bit, versions told by the maps.
pub(crate) fn is_same(a: Lying<'_>, b: Lying<'_>) -> Result<bool> {
    let facts = |(store, rollout, maps): Lying<'_>| {
        (
            (
                rollout.id(),
                rollout.key().map(str::to_owned),
                rollout.group(),
                rollout.created_step(),
                rollout.born_step(),
            ),
            (
                maps.ref_versions.of(rollout.ref_version()),
                store.was_asked(rollout.id()),
                rollout.keeps_first_old_logps(),
            ),
            rollout.kl_ref_version().map(|version| maps.kl_ref_versions.of(version)),
            (rollout.reward().map(f32::to_bits), rollout.advantage().map(f32::to_bits)),
            (rollout.version_spans(), rollout.metadata().to_vec()),
        )
    };
    let ((_, a_row, _), (_, b_row, _)) = (a, b);
    let (a_columns, b_columns) = (a_row.columns(), b_row.columns());
    if facts(a) != facts(b) || a_columns.len() != b_columns.len() {
        return Ok(false);
    }
    for (a_info, b_info) in a_columns.iter().zip(&b_columns) {
        let is_like = (&a_info.column, a_info.dtype, a_info.len, &a_info.provenance)
            == (&b_info.column, b_info.dtype, b_info.len, &b_info.provenance);
        if !is_like || a_row.values(&a_info.column)?.as_bytes() != b_row.values(&b_info.column)?.as_bytes() {
            return Ok(false);
        }
    }
    let first = |rollout: &Rollout| rollout.behaviour_logps().map(bits);
    Ok(!a_row.keeps_first_old_logps() || first(a_row)? == first(b_row)?)
}

/// Whether two partial rollouts are the same, bit for bit.
pub(crate) fn is_same_partial(a: &Partial, b: &Partial) -> bool {
    let facts = |partial: &Partial| {
        (
            (partial.id, partial.created_step, partial.group, partial.key.clone()),
            (partial.prompt_ids.clone(), partial.completion_ids.clone()),
            (bits(&partial.sampler_logps), partial.version_spans.clone()),
        )
    };
    facts(a) == facts(b)
}

fn bits(logps: &[f32]) -> Vec<u32> {
    logps.iter().map(|logp| logp.to_bits()).collect()
}
