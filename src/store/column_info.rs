//! What a rollout's columns are, without their values: types, lengths, versions, provenance.

use crate::error::{Error, Result};
use crate::format::dtype::DType;
use crate::log::event::value_count;
use crate::log::frame::Frame;
use crate::store::column::{Column, LogpKind, Provenance};
use crate::store::view::Rollout;

/// What a column of a rollout is.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnInfo {
    /// The column.
    pub column: Column,
    /// The type of its values.
    pub dtype: DType,
    /// The number of its values.
    pub len: usize,
    /// The version of the weights that made it, for old and KL reference log-probs.
    pub version: Option<u64>,
    /// How it was made, where the caller said.
    pub provenance: Option<Provenance>,
}

impl Rollout {
    /// Every column that the rollout has, in the order of the well-known ones, then the named ones. One that cannot be read
    /// is among them: reading it says why.
    #[must_use]
    pub fn columns(&self) -> Vec<ColumnInfo> {
        let Ok(meta) = self.insert.meta() else { return Vec::new() };
        let mut columns: Vec<Column> = meta
            .columns()
            .filter_map(|column| {
                let named =
                    || meta.names.get(column.code.name_index()?).map(|name| Column::Named(name.as_str().to_owned()));
                Column::from_code(column.code).or_else(named)
            })
            .collect();
        for recomputable in [Column::OldLogps, Column::KlRefLogps] {
            if self.has(&recomputable) && !columns.contains(&recomputable) {
                columns.push(recomputable);
            }
        }
        columns.sort_by_key(|column| column.code().map_or(u16::MAX, |code| code.0));
        columns.into_iter().filter_map(|column| self.info(column)).collect()
    }

    fn info(&self, column: Column) -> Option<ColumnInfo> {
        let version = match column {
            Column::OldLogps => Some(self.entry.ref_version),
            Column::KlRefLogps => self.kl_version,
            _ => None,
        };
        let Ok(meta) = self.frame_of(&column).and_then(Frame::meta) else {
            // It is there, and reading it says what is wrong with it.
            let len = self.completion_len();
            return Some(ColumnInfo { dtype: DType::F32, len, version, provenance: None, column });
        };
        let found = column.find_in(meta)?;
        let len = value_count(&found) as usize;
        Some(ColumnInfo { dtype: found.dtype, len, version, provenance: self.provenance(&column), column })
    }

    /// Completion tokens, by the index.
    fn completion_len(&self) -> usize {
        let prompt = self.insert.meta().ok().and_then(|meta| Column::PromptIds.find_in(meta));
        let prompt = prompt.map_or(0, |column| value_count(&column));
        self.entry.token_count.saturating_sub(prompt) as usize
    }

    /// How a column was made, where the caller said. Log-probs that were computed again carry none.
    #[must_use]
    pub fn provenance(&self, column: &Column) -> Option<Provenance> {
        let meta = self.frame_of(column).ok()?.meta().ok()?;
        let provenance = meta.provenances.get(column.find_in(meta)?.provenance?)?;
        Some(Provenance {
            engine: provenance.engine.as_str().to_owned(),
            kind: if provenance.processed == 1 { LogpKind::Processed } else { LogpKind::Raw },
            temperature: provenance.temperature.to_native(),
            top_p: provenance.top_p.to_native(),
            top_k: provenance.top_k.to_native(),
        })
    }

    pub(crate) fn check_kind(&self, column: &Column, asked: LogpKind) -> Result<()> {
        let id = self.entry.id;
        let found = match self.provenance(column) {
            Some(provenance) if provenance.kind == asked => return Ok(()),
            Some(provenance) => format!(
                "{:?} (engine {:?}, temperature {})",
                provenance.kind, provenance.engine, provenance.temperature
            ),
            None => "of unknown provenance".to_owned(),
        };
        Err(Error::invalid(format!("rollout {id}: {column} are {found}, {asked:?} ones were asked for")).of(id))
    }
}
