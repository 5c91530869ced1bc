//! What a store in a state shows, to be compared with what it does show.

use std::collections::BTreeMap;

use rollstore::{DType, Lsn, RolloutId};

use super::op::Row;
use super::passes::Pass;
use super::{Live, Model, Partial};
use crate::state::{ColumnState, PartialState, RolloutState, StoreState};
use crate::store;

impl Model {
    /// What a store in this state shows; LSNs are left out.
    #[must_use]
    pub fn state(&self) -> StoreState {
        let step = self.clock.unwrap_or(0);
        let ids = |ids: Vec<u64>| ids.into_iter().map(RolloutId::new).collect();
        let rollouts = self.rollouts.iter();
        StoreState {
            clock: self.clock,
            ref_version: self.ref_clock.current(),
            kl_ref_version: self.kl_clock.current(),
            cursor: self.cursor.clone(),
            inserted: self.inserted,
            computed: self.computed,
            retired: self.retired.clone(),
            len: self.rollouts.len(),
            rollouts: rollouts.map(|(id, live)| (RolloutId::new(*id), self.shown(live, step))).collect(),
            partials: self.partials.iter().map(|(id, partial)| (RolloutId::new(*id), partial.shown(*id))).collect(),
            order: ids(self.in_order(|_| true, step)),
            stale: store::sorted(ids(self.in_order(|staleness| staleness.stale, step))),
            due: store::sorted(ids(self.in_order(|staleness| staleness.stale || staleness.out_of_window, step))),
            sweeps: self.sweeps.iter().map(Pass::shown).collect(),
        }
    }

    fn shown(&self, live: &Live, step: u64) -> RolloutState {
        let Row { id, created_step, tokens, has_sampler, has_prompt, .. } = live.row;
        let old = |version: u64| store::old_logps(id, version, tokens);
        let sampler = has_sampler.then(|| store::sampler_logps(id, tokens));
        let mut columns = BTreeMap::new();
        let completion = store::completion_ids(id, tokens);
        let bytes = completion.iter().flat_map(|token| token.to_le_bytes()).collect();
        columns.insert("completion_ids".to_owned(), column(DType::U32, bytes, None));
        if has_prompt {
            let bytes = store::prompt_ids(id).iter().flat_map(|token| token.to_le_bytes()).collect();
            columns.insert("prompt_ids".to_owned(), column(DType::U32, bytes, None));
        }
        if live.has_old {
            let values = le_bytes(&old(live.ref_version));
            columns.insert("old_logps".to_owned(), column(DType::F32, values, Some(live.ref_version)));
        }
        if let Some(sampler) = &sampler {
            columns.insert("sampler_logps".to_owned(), column(DType::F32, le_bytes(sampler), None));
        }
        let behaviour = sampler.or_else(|| live.first_old.map(old));
        RolloutState {
            insert_lsn: Lsn::NONE,
            created_step,
            born_step: live.born_step,
            ref_version: live.ref_version,
            staleness: self.staleness(live, step),
            labels: (Some(id / 4), None, None),
            key: None,
            metadata: Vec::new(),
            columns,
            behaviour: behaviour.map(|logps| logps.into_iter().map(f32::to_bits).collect()),
        }
    }
}

impl Partial {
    fn shown(&self, id: u64) -> PartialState {
        PartialState {
            created_step: self.created_step,
            group: Some(id / 4),
            prompt_ids: Some(store::prompt_ids(id)),
            completion_ids: store::completion_ids(id, self.tokens),
            sampler_logps: store::sampler_logps(id, self.tokens).into_iter().map(f32::to_bits).collect(),
            version_spans: self.spans.clone(),
        }
    }
}

fn column(dtype: DType, bytes: Vec<u8>, version: Option<u64>) -> ColumnState {
    ColumnState { dtype, bytes, version, provenance: None }
}

fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
