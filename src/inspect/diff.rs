//! Two stores or checkpoints side by side: the rollouts that only one has, what differs in those that both have, and clocks.
//!
//! Always true:
//! - D1. Columns are compared by their types, lengths and checksums: no array is read.
//! - D2. What files look like does not count: segments, numbers of frames and places may differ between equal stores.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::path::Path;

use crate::disk::Disk;
use crate::disk::os::OsDisk;
use crate::error::Result;
use crate::format::entry::Has;
use crate::format::meta::{ArchivedRolloutMeta, ColumnCode, ColumnRef, RolloutMeta};
use crate::ids::{Location, Lsn, RolloutId};
use crate::index::Entry;
use crate::inspect::content;
use crate::inspect::verify::Finding;
use crate::reason::Reason;
use crate::recovery::Recovered;

/// What differs between two stores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Differences {
    /// Rollouts that live in the first store alone, ascending.
    pub only_in_a: Vec<RolloutId>,
    /// Rollouts that live in the second store alone, ascending.
    pub only_in_b: Vec<RolloutId>,
    /// Rollouts that live in both and differ, by id.
    pub rollouts: Vec<RolloutChange>,
    /// Clocks, versions, options, the cursor and counters that differ.
    pub store: Vec<Changed>,
    /// Rollouts that live in both and are the same in all.
    pub same: u64,
    /// What could not be compared, of either store.
    pub damage: Vec<Finding>,
}

/// A rollout that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutChange {
    /// The rollout.
    pub id: RolloutId,
    /// What of it differs.
    pub changed: Vec<Changed>,
}

/// One thing that differs, in words that a person can compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// What it is: `clock`, `counters.asked`, `born_step`, `columns.old_logps`.
    pub what: String,
    /// The first store's; `None` where it has none.
    pub a: Option<String>,
    /// The second store's; `None` where it has none.
    pub b: Option<String>,
}

impl Differences {
    /// Whether the stores hold the same.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { only_in_a, only_in_b, rollouts, store, same: _, damage } = self;
        only_in_a.is_empty() && only_in_b.is_empty() && rollouts.is_empty() && store.is_empty() && damage.is_empty()
    }
}

/// What differs between two stores or checkpoints. Takes no lock: each is seen as of some moment.
///
/// # Did the restore bring everything back?
/// ```
/// # let dir = tempfile::tempdir()?;
/// # use rollstore::{NewRollout, RolloutStore, inspect};
/// let (run, saved) = (dir.path().join("rollouts"), dir.path().join("saved"));
/// let store = RolloutStore::options().window(8).open(&run)?;
/// store.insert(NewRollout::new(1, 0).old_logps(&[-0.5][..], 0))?;
/// store.checkpoint(&saved)?;
/// assert!(inspect::diff(&run, &saved)?.is_empty());
/// store.insert(NewRollout::new(2, 0))?;
/// assert_eq!(inspect::diff(&run, &saved)?.only_in_a, [2.into()]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where either does not open: `NotFound`, `Damaged`, `TooNew`, `Io`. Damage in single rollouts is part of the report.
pub fn diff(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Result<Differences> {
    diff_on(&OsDisk, a.as_ref(), b.as_ref())
}

fn diff_on(disk: &dyn Disk, a: &Path, b: &Path) -> Result<Differences> {
    let (a, b) = (content::read(disk, a)?, content::read(disk, b)?);
    let mut differences = Differences { store: changes(store_facts(&a), store_facts(&b)), ..Differences::default() };
    let mut only_in_a: Vec<RolloutId> = Vec::new();
    let mut both: Vec<(Entry, Entry)> = Vec::new();
    for entry in a.index.iter() {
        match b.index.get(entry.id) {
            Some(other) => both.push((entry, other)),
            None => only_in_a.push(entry.id),
        }
    }
    let only_in_b = b.index.iter().map(|entry| entry.id).filter(|id| a.index.get(*id).is_none());
    differences.only_in_b = only_in_b.collect();
    differences.only_in_b.sort_unstable();
    only_in_a.sort_unstable();
    differences.only_in_a = only_in_a;
    both.sort_unstable_by_key(|(entry, _)| entry.id);
    for (in_a, in_b) in both {
        let facts = [(&a, in_a), (&b, in_b)].map(|(store, entry)| rollout_facts(store, &entry));
        let [facts_a, facts_b] = match facts {
            [Ok(facts_a), Ok(facts_b)] => [facts_a, facts_b],
            damaged => {
                for error in damaged.into_iter().filter_map(std::result::Result::err) {
                    differences.damage.push(Finding::of(error.of(in_a.id))?);
                }
                continue;
            }
        };
        let changed = changes(facts_a, facts_b);
        if changed.is_empty() {
            differences.same += 1;
        } else {
            differences.rollouts.push(RolloutChange { id: in_a.id, changed });
        }
    }
    Ok(differences)
}

/// Named facts, in the order in which they are told.
#[derive(Default)]
struct Facts(Vec<(String, String)>);

impl Facts {
    fn add(&mut self, what: impl Into<String>, value: impl Display) {
        self.0.push((what.into(), value.to_string()));
    }

    fn add_some(&mut self, what: &str, value: Option<impl Display>) {
        value.into_iter().for_each(|value| self.add(what, value));
    }
}

fn changes(a: Facts, b: Facts) -> Vec<Changed> {
    let mut others: BTreeMap<String, String> = b.0.iter().cloned().collect();
    let mut changed = Vec::new();
    for (what, a) in a.0 {
        let b = others.remove(&what);
        if b.as_ref() != Some(&a) {
            changed.push(Changed { what, a: Some(a), b });
        }
    }
    let of_b_alone = b.0.into_iter().filter(|(what, _)| others.contains_key(what));
    changed.extend(of_b_alone.map(|(what, b)| Changed { what, a: None, b: Some(b) }));
    changed
}

fn store_facts(store: &Recovered) -> Facts {
    let (state, options) = (&store.state, &store.manifest.options);
    let mut facts = Facts::default();
    facts.add_some("clock", state.clock);
    facts.add("ref_version", state.ref_clock.current);
    facts.add("kl_ref_version", state.kl_clock.current);
    facts.add("window", options.window);
    facts.add("max_version_lag", options.max_version_lag);
    facts.add_some("cursor", state.cursor.as_deref().map(Blob));
    for (name, count) in [
        ("asked", state.counters.asked),
        ("served", state.counters.served),
        ("computed", state.counters.computed),
        ("dropped", state.counters.dropped),
        ("inserted", state.counters.inserted),
        ("retired_unused", state.counters.retired_unused),
    ] {
        facts.add(format!("counters.{name}"), count);
    }
    for (reason, count) in Reason::ALL.iter().zip(state.counters.retired) {
        facts.add(format!("counters.retired.{reason}"), count);
    }
    facts
}

fn rollout_facts(store: &Recovered, entry: &Entry) -> Result<Facts> {
    let frame = |at: Location, lsn: Lsn| content::frame(store, at, entry.id, lsn);
    let insert = frame(entry.insert, entry.insert_lsn)?;
    let meta = insert.meta()?;
    let mut facts = Facts::default();
    facts.add("created_step", entry.created_step);
    facts.add("born_step", entry.born_step);
    facts.add_some("ref_version", entry.has.contains(Has::OLD).then_some(entry.ref_version));
    facts.add_some("versions_behind", state_of(store, entry));
    facts.add_some("group", entry.group);
    facts.add_some("reward", meta.has(RolloutMeta::REWARD).then(|| meta.reward.to_native()));
    facts.add_some("advantage", meta.has(RolloutMeta::ADVANTAGE).then(|| meta.advantage.to_native()));
    facts.add_some("key", meta.has(RolloutMeta::KEY).then(|| meta.key.as_str()));
    facts.add_some("metadata", (!meta.metadata.is_empty()).then(|| Blob(meta.metadata.as_slice())));
    let spans = meta.spans.iter().map(|span| format!("{}x{}", span.token_count.to_native(), span.version.to_native()));
    let spans: Vec<String> = spans.collect();
    facts.add_some("version_spans", (!spans.is_empty()).then(|| spans.join(" ")));
    // What was computed again lies in frames of its own.
    let kl = store.index.extra(entry.id).and_then(|extra| extra.kl);
    let is_newer = |code| match code {
        ColumnCode::OLD_LOGPS => entry.old != entry.insert,
        ColumnCode::KL_REF_LOGPS => kl.is_some_and(|kl| kl.at != entry.insert),
        _ => false,
    };
    for column in meta.columns().filter(|column| !is_newer(column.code)) {
        facts.add(name_of(column.code, meta), Array(&column));
    }
    facts.add_some("kl_ref_version", kl.map(|kl| kl.version));
    let kl = kl.map(|kl| (ColumnCode::KL_REF_LOGPS, kl.at, kl.lsn));
    let newer = [(ColumnCode::OLD_LOGPS, entry.old, entry.old_lsn)].into_iter().chain(kl);
    for (code, at, lsn) in newer.filter(|(code, ..)| is_newer(*code)) {
        let frame = frame(at, lsn)?;
        facts.add_some(&name_of(code, meta), frame.column(code).as_ref().map(Array));
    }
    Ok(facts)
}

/// Advances of the ref version since that of the old log-probs; `abandoned` where a rewind left it behind.
fn state_of(store: &Recovered, entry: &Entry) -> Option<String> {
    let lag = store.state.ref_clock.lag(entry.ref_version);
    entry.has.contains(Has::OLD).then(|| lag.map_or_else(|| "abandoned".to_owned(), |lag| lag.to_string()))
}

fn name_of(code: ColumnCode, meta: &ArchivedRolloutMeta) -> String {
    let known = match code {
        ColumnCode::PROMPT_IDS => "prompt_ids",
        ColumnCode::COMPLETION_IDS => "completion_ids",
        ColumnCode::LOSS_MASK => "loss_mask",
        ColumnCode::OLD_LOGPS => "old_logps",
        ColumnCode::SAMPLER_LOGPS => "sampler_logps",
        ColumnCode::KL_REF_LOGPS => "kl_ref_logps",
        _ => "",
    };
    let named = code.name_index().and_then(|index| meta.names.get(index));
    // A column of the caller's own may be called as a field is.
    format!("columns.{}", named.map_or(known, |name| name.as_str()))
}

/// A column by what makes it equal to another.
struct Array<'a>(&'a ColumnRef);

impl Display for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ColumnRef { dtype, range, crc, .. } = self.0;
        let values = range.end.saturating_sub(range.start) / dtype.size_bytes() as u64;
        write!(f, "{values} {dtype} with checksum {crc:#010x}")
    }
}

/// Opaque bytes, likewise.
struct Blob<'a>(&'a [u8]);

impl Display for Blob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with checksum {:#010x}", self.0.len(), crc32fast::hash(self.0))
    }
}
