//! What a file that keeps each column in one place must know before its first byte: the columns, and how much there is of each.
//!
//! May touch rollouts that were read. Knows nothing of formats.
//!
//! Always true:
//! - L1. Every rollout of a layout could be read in whole, each byte of it against its checksum.
//! - L2. No two names in a file are the same, whatever the columns are called.

use std::collections::{HashMap, HashSet};

use rollstore::{Column, ColumnView, DType, ErrorKind, Rollout, RolloutId};

use super::meter::Meter;
use super::provenance;
use super::source::{Found, Source};
use crate::exit::{Failure, Outcome, note};

/// Greatest number of columns in a file: each takes a place for every rollout.
const FIELDS_MAX: usize = 4096;

/// What a column's parts are called: its name with these behind it.
const PARTS: [&str; 6] = ["", ".offsets", ".present", ".versions", ".provenance", ".provenance.offsets"];

/// What the formats call what is no column.
const RESERVED: [&str; 30] = [
    "__metadata__",
    "id",
    "key",
    "group_id",
    "created_step",
    "born_step",
    "ref_version",
    "kl_ref_version",
    "reward",
    "advantage",
    "metadata",
    "version_spans",
    "ids",
    "keys",
    "keys.offsets",
    "group_ids",
    "group_ids.present",
    "created_steps",
    "born_steps",
    "ref_versions",
    "rewards",
    "rewards.present",
    "advantages",
    "advantages.present",
    "metadata.offsets",
    "version_spans.versions",
    "version_spans.token_counts",
    "version_spans.offsets",
    "",
    "index",
];

/// What a layout knows of the rollouts of a dump.
#[derive(Debug)]
pub(super) struct Layout {
    /// Those that could be read.
    pub(super) rows: Vec<RolloutId>,
    pub(super) damaged: u64,
    pub(super) fields: Vec<Field>,
    places: HashMap<(Which, DType), usize>,
    pub(super) groups: u64,
    pub(super) rewards: u64,
    pub(super) advantages: u64,
    pub(super) key_bytes: u64,
    pub(super) metadata_bytes: u64,
    pub(super) spans: u64,
}

/// One column of a file: those of a rollout's columns that have one name and one type.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) which: Which,
    pub(super) dtype: DType,
    /// What it is called in the file.
    pub(super) label: String,
    /// Rollouts that have it.
    pub(super) rows: u64,
    pub(super) values: u64,
    pub(super) provenance_bytes: u64,
}

/// What a field holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Which {
    Column(Column),
    /// The old log-probs that a rollout had first, where they were computed again and the sampler reported none.
    FirstOldLogps,
}

/// A rollout's part of a field.
#[derive(Debug)]
pub(super) struct Cell<'r> {
    pub(super) values: ColumnView<'r>,
    /// How it was made, as text; empty where nothing is known.
    pub(super) provenance: String,
}

impl Field {
    pub(super) fn new(which: Which, dtype: DType, label: String) -> Self {
        Self { which, dtype, label, rows: 0, values: 0, provenance_bytes: 0 }
    }
}

impl Layout {
    /// Reads every rollout once. What is damaged is told and left out.
    pub(super) fn of(source: &Source<'_>) -> Outcome<Self> {
        let mut layout = Self {
            rows: Vec::with_capacity(source.ids.len()),
            damaged: 0,
            fields: Vec::new(),
            places: HashMap::new(),
            groups: 0,
            rewards: 0,
            advantages: 0,
            key_bytes: 0,
            metadata_bytes: 0,
            spans: 0,
        };
        let meter = Meter::new("checking", source.ids.len() as u64);
        for (done, id) in (1..).zip(&source.ids) {
            let rollout = match source.get(*id)? {
                Found::Rollout(rollout) => rollout,
                Found::Gone => continue,
                Found::Damaged(_) => {
                    layout.damaged += 1;
                    continue;
                }
            };
            match cells(source, &rollout) {
                Ok(cells) => layout.add(&rollout, cells)?,
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    note(&format!("rollout {id}: {error}"));
                    layout.damaged += 1;
                }
                Err(error) => return Err(error.into()),
            }
            meter.set(done);
        }
        layout.name();
        Ok(layout)
    }

    fn add(&mut self, rollout: &Rollout, cells: Vec<(Which, Cell<'_>)>) -> Outcome {
        for (which, cell) in cells {
            let key = (which, cell.values.dtype());
            let place = self.places.get(&key).copied().unwrap_or(self.fields.len());
            if place == FIELDS_MAX {
                return Err(Failure::could_not_look(format!(
                    "the rollouts have more than {FIELDS_MAX} different columns, the limit of this format; choose some with \
                     --columns, or use --format jsonl"
                )));
            }
            if place == self.fields.len() {
                self.fields.push(Field::new(key.0.clone(), key.1, String::new()));
                self.places.insert(key, place);
            }
            let field = &mut self.fields[place];
            field.rows += 1;
            field.values += cell.values.len() as u64;
            field.provenance_bytes += cell.provenance.len() as u64;
        }
        self.rows.push(rollout.id());
        self.groups += u64::from(rollout.group().is_some());
        self.rewards += u64::from(rollout.reward().is_some());
        self.advantages += u64::from(rollout.advantage().is_some());
        self.key_bytes += rollout.key().map_or(0, |key| key.len() as u64);
        self.metadata_bytes += rollout.metadata().len() as u64;
        self.spans += rollout.version_spans().len() as u64;
        Ok(())
    }

    /// Gives every field a name of its own: the column's where it is free, else one with its type or a number behind it.
    fn name(&mut self) {
        let mut taken: HashSet<String> = RESERVED.iter().map(|name| (*name).to_owned()).collect();
        // The well-known ones first: they keep their names.
        let is_named = |field: &Field| matches!(&field.which, Which::Column(Column::Named(_)));
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        order.sort_by_key(|place| is_named(&self.fields[*place]));
        for place in order {
            let field = &mut self.fields[place];
            let column = match &field.which {
                Which::Column(column) => column.name(),
                Which::FirstOldLogps => "first_old_logps",
            };
            let typed = format!("{column}.{}", field.dtype);
            let numbered = (2_u64..).map(|number| format!("{typed}.{number}"));
            let candidates = [column.to_owned(), typed.clone()].into_iter().chain(numbered);
            let parts = |label: &str| PARTS.map(|part| format!("{label}{part}"));
            let free = candidates.into_iter().find(|label| parts(label).iter().all(|part| !taken.contains(part)));
            field.label = free.unwrap_or_default();
            taken.extend(parts(&field.label));
        }
    }

    /// What a rollout has in each field; it must be one of the layout's.
    pub(super) fn cells<'r>(&self, source: &Source<'_>, rollout: &'r Rollout) -> Outcome<Vec<Option<Cell<'r>>>> {
        let mut placed: Vec<Option<Cell<'r>>> = self.fields.iter().map(|_| None).collect();
        for (which, cell) in cells(source, rollout)? {
            let place = self.places.get(&(which, cell.values.dtype()));
            if let Some(place) = place.and_then(|place| placed.get_mut(*place)) {
                *place = Some(cell);
            }
        }
        Ok(placed)
    }
}

/// What is dumped of a rollout's values.
fn cells<'r>(source: &Source<'_>, rollout: &'r Rollout) -> rollstore::Result<Vec<(Which, Cell<'r>)>> {
    let mut cells = Vec::new();
    for info in source.columns(rollout) {
        let values = rollout.values(&info.column)?;
        let provenance = info.provenance.map(provenance::to_text).unwrap_or_default();
        cells.push((Which::Column(info.column), Cell { values, provenance }));
    }
    if source.takes_first(rollout) {
        let values = ColumnView::F32(rollout.behaviour_logps()?);
        cells.push((Which::FirstOldLogps, Cell { values, provenance: String::new() }));
    }
    Ok(cells)
}
