//! One rollout of a list: what is known of it, as a line of a table and as JSON.
//!
//! May touch rollouts that were read. Knows nothing of which are listed, and in which order they come.

use rollstore::{Rollout, RolloutStore, Staleness};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::args::{RolloutColumn, RolloutOrder};
use crate::formats::values::{Float, float};
use crate::text;

/// Longest key that is shown, in characters.
const KEY_CHARS: usize = 40;

/// What stands in a list's column that a rollout has no value for.
const ABSENT: &str = "-";

/// What a list without a choice shows.
const USUAL: [RolloutColumn; 9] = [
    RolloutColumn::Id,
    RolloutColumn::Created,
    RolloutColumn::Born,
    RolloutColumn::Version,
    RolloutColumn::Age,
    RolloutColumn::Behind,
    RolloutColumn::Tokens,
    RolloutColumn::Group,
    RolloutColumn::State,
];

/// What is known of one rollout at a step.
#[derive(Debug)]
pub(super) struct Row {
    id: u64,
    key: Option<String>,
    group: Option<u64>,
    created_step: u64,
    born_step: u64,
    ref_version: Option<u64>,
    token_count: u32,
    bytes: u64,
    reward: Option<f32>,
    advantage: Option<f32>,
    staleness: Staleness,
}

impl Row {
    pub(super) fn new(rollout: &Rollout, step: u64) -> Self {
        let staleness = rollout.staleness(step);
        let bytes = rollout.columns().iter().map(|info| info.len as u64 * info.dtype.size_bytes() as u64).sum();
        Self {
            id: rollout.id().get(),
            key: rollout.key().map(str::to_owned),
            group: rollout.group(),
            created_step: rollout.created_step(),
            born_step: rollout.born_step(),
            ref_version: (!staleness.missing).then(|| rollout.ref_version()),
            token_count: rollout.token_count(),
            bytes,
            reward: rollout.reward(),
            advantage: rollout.advantage(),
            staleness,
        }
    }

    /// What rows are sorted by.
    pub(super) fn rank(&self, order: RolloutOrder) -> (Option<u64>, u64) {
        let rank = match order {
            RolloutOrder::Id => None,
            RolloutOrder::Created => Some(self.created_step),
            RolloutOrder::Version => self.ref_version,
            RolloutOrder::Age => Some(self.staleness.age),
            RolloutOrder::Tokens => Some(self.token_count.into()),
            RolloutOrder::Bytes => Some(self.bytes),
        };
        (rank, self.id)
    }

    fn text(&self, column: RolloutColumn) -> String {
        let dash = |value: Option<String>| value.unwrap_or_else(|| ABSENT.to_owned());
        let number = |value: Option<u64>| dash(value.map(|value| value.to_string()));
        match column {
            RolloutColumn::Id => self.id.to_string(),
            RolloutColumn::Key => dash(self.key.as_deref().map(shown_key)),
            RolloutColumn::Created => self.created_step.to_string(),
            RolloutColumn::Born => self.born_step.to_string(),
            RolloutColumn::Version => number(self.ref_version),
            RolloutColumn::Age => self.staleness.age.to_string(),
            RolloutColumn::Behind => number(self.staleness.lag),
            RolloutColumn::Tokens => self.token_count.to_string(),
            RolloutColumn::Bytes => text::bytes(self.bytes),
            RolloutColumn::Group => number(self.group),
            RolloutColumn::Reward => dash(self.reward.map(float)),
            RolloutColumn::Advantage => dash(self.advantage.map(float)),
            RolloutColumn::State => flags(&self.staleness),
        }
    }

    fn write_json<M: SerializeMap>(&self, column: RolloutColumn, map: &mut M) -> Result<(), M::Error> {
        let name = name(column);
        match column {
            RolloutColumn::Id => map.serialize_entry(name, &self.id.to_string()),
            RolloutColumn::Key => map.serialize_entry(name, &self.key),
            RolloutColumn::Created => map.serialize_entry(name, &self.created_step),
            RolloutColumn::Born => map.serialize_entry(name, &self.born_step),
            RolloutColumn::Version => map.serialize_entry(name, &self.ref_version),
            RolloutColumn::Age => map.serialize_entry(name, &self.staleness.age),
            RolloutColumn::Behind => map.serialize_entry(name, &self.staleness.lag),
            RolloutColumn::Tokens => map.serialize_entry(name, &self.token_count),
            RolloutColumn::Bytes => map.serialize_entry(name, &self.bytes),
            RolloutColumn::Group => map.serialize_entry(name, &self.group.map(|group| group.to_string())),
            RolloutColumn::Reward => map.serialize_entry(name, &self.reward.map(Float)),
            RolloutColumn::Advantage => map.serialize_entry(name, &self.advantage.map(Float)),
            RolloutColumn::State => map.serialize_entry(name, &flags(&self.staleness)),
        }
    }
}

/// Which columns a list has.
#[derive(Debug)]
pub(super) struct Shape {
    columns: Vec<RolloutColumn>,
    /// Whether keys follow the last column of rollouts that have one.
    shows_keys: bool,
}

impl Shape {
    /// The columns that were chosen; the usual ones where none was.
    pub(super) fn new(chosen: &[RolloutColumn]) -> Self {
        let columns = if chosen.is_empty() { USUAL.to_vec() } else { chosen.to_vec() };
        Self { columns, shows_keys: chosen.is_empty() }
    }

    pub(super) fn head(&self) -> String {
        self.columns.iter().map(|column| cell(*column, name(*column))).collect::<String>().trim_end().to_owned()
    }

    /// One rollout on one line. The columns have fixed widths, so that lines can be printed as they are read.
    pub(super) fn line(&self, row: &Row) -> String {
        let cells = self.columns.iter().map(|column| cell(*column, &row.text(*column))).collect::<String>();
        let key = row.key.as_deref().filter(|_| self.shows_keys);
        format!("{}{}", cells.trim_end(), key.map_or_else(String::new, |key| format!("  {}", shown_key(key))))
    }

    /// One rollout as an object with these columns, in this order.
    pub(super) fn json<'a>(&'a self, row: &'a Row) -> impl Serialize + 'a {
        ShapedRow { columns: &self.columns, row }
    }
}

/// One rollout by its chosen columns.
struct ShapedRow<'a> {
    columns: &'a [RolloutColumn],
    row: &'a Row,
}

impl Serialize for ShapedRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        self.columns.iter().try_for_each(|column| self.row.write_json(*column, &mut map))?;
        map.end()
    }
}

fn shown_key(key: &str) -> String {
    text::cut(&text::escape(key), KEY_CHARS)
}

/// The name of a column, as it is chosen by.
fn name(column: RolloutColumn) -> &'static str {
    match column {
        RolloutColumn::Id => "id",
        RolloutColumn::Key => "key",
        RolloutColumn::Created => "created",
        RolloutColumn::Born => "born",
        RolloutColumn::Version => "version",
        RolloutColumn::Age => "age",
        RolloutColumn::Behind => "behind",
        RolloutColumn::Tokens => "tokens",
        RolloutColumn::Bytes => "bytes",
        RolloutColumn::Group => "group",
        RolloutColumn::Reward => "reward",
        RolloutColumn::Advantage => "advantage",
        RolloutColumn::State => "state",
    }
}

fn cell(column: RolloutColumn, text: &str) -> String {
    match column {
        RolloutColumn::Id => format!(" {text:>20}"),
        RolloutColumn::Created | RolloutColumn::Born | RolloutColumn::Group | RolloutColumn::Bytes => {
            format!(" {text:>10}")
        }
        RolloutColumn::Version | RolloutColumn::Tokens => format!(" {text:>8}"),
        RolloutColumn::Age | RolloutColumn::Behind => format!(" {text:>6}"),
        RolloutColumn::Reward | RolloutColumn::Advantage => format!(" {text:>14}"),
        RolloutColumn::Key => format!("  {text:<KEY_CHARS$}"),
        RolloutColumn::State => format!("  {text:<21}"),
    }
}

/// The flags in words: meaning is never by colour alone.
pub(super) fn flags(staleness: &Staleness) -> String {
    let flags = [
        (staleness.missing, "missing"),
        (staleness.stale, "stale"),
        (staleness.out_of_window, "out-of-window"),
        (staleness.from_future, "from-future"),
    ];
    let set: Vec<&str> = flags.into_iter().filter_map(|(is_set, name)| is_set.then_some(name)).collect();
    if set.is_empty() { "fresh".to_owned() } else { set.join(",") }
}

/// One rollout as JSON: the interface of `ls --json`.
#[derive(Debug, serde::Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own, any of which may be set together")]
pub(super) struct RowJson<'a> {
    id: String,
    key: Option<&'a str>,
    group: Option<String>,
    created_step: u64,
    born_step: u64,
    ref_version: u64,
    token_count: u32,
    /// The step, window and lag that the flags are for.
    step: u64,
    window: u64,
    max_version_lag: u64,
    age: u64,
    versions_behind: Option<u64>,
    missing: bool,
    stale: bool,
    out_of_window: bool,
    from_future: bool,
}

impl<'a> RowJson<'a> {
    pub(super) fn new(store: &RolloutStore, rollout: &'a Rollout, step: u64) -> Self {
        let staleness = rollout.staleness(step);
        Self {
            id: rollout.id().to_string(),
            key: rollout.key(),
            group: rollout.group().map(|group| group.to_string()),
            created_step: rollout.created_step(),
            born_step: rollout.born_step(),
            ref_version: rollout.ref_version(),
            token_count: rollout.token_count(),
            step,
            window: store.window(),
            max_version_lag: store.max_version_lag(),
            age: staleness.age,
            versions_behind: staleness.lag,
            missing: staleness.missing,
            stale: staleness.stale,
            out_of_window: staleness.out_of_window,
            from_future: staleness.from_future,
        }
    }
}
