//! Everything that a store shows, as one value: two stores of equal states cannot be told apart by their readers.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write};

use rollstore::{DType, LogpKind, Lsn, Reason, Rollout, RolloutId, RolloutStore, Staleness, SweepStatus, VersionSpan};

/// Everything that a store shows of one committed state.
///
/// Left out is what a crash may take back: how often logps were asked for since the last commit. Uses that a commit
/// carried are seen in the counts of rollouts retired before any use.
#[derive(Clone, PartialEq, Default)]
pub struct StoreState {
    /// The highest step that the trainer acted at.
    pub clock: Option<u64>,
    /// The current ref version.
    pub ref_version: u64,
    /// The current version of the KL reference.
    pub kl_ref_version: u64,
    /// The trainer's own bytes.
    pub cursor: Option<Vec<u8>>,
    /// Rollouts inserted for the life of the lineage.
    pub inserted: u64,
    /// Logps computed and stored for the life of the lineage.
    pub computed: u64,
    /// Rollouts retired, by reason; reasons without any are left out.
    pub retired: BTreeMap<&'static str, u64>,
    /// What `RolloutStore::len` says.
    pub len: usize,
    /// Every live rollout.
    pub rollouts: BTreeMap<RolloutId, RolloutState>,
    /// Every rollout that is still being generated.
    pub partials: BTreeMap<RolloutId, PartialState>,
    /// All ids in order: oldest born first, then by id.
    pub order: Vec<RolloutId>,
    /// Stale ids, ascending.
    pub stale: Vec<RolloutId>,
    /// Ids that need a recompute at the clock, ascending.
    pub due: Vec<RolloutId>,
    /// How far named sweeps have come.
    pub sweeps: Vec<SweepState>,
}

/// How far a named sweep has come.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepState {
    /// Its name.
    pub name: String,
    /// The store's last LSN when the pass began.
    pub began: Lsn,
    /// The step and the version that it last computed with.
    pub with: (u64, u64),
    /// What it handed out last; `None` once it is finished.
    pub last: Option<RolloutId>,
}

/// Everything that a store shows of one rollout.
#[derive(Clone, PartialEq)]
pub struct RolloutState {
    /// The incarnation.
    pub insert_lsn: Lsn,
    /// The step at which it was sampled.
    pub created_step: u64,
    /// The step from which its old logps count as fresh.
    pub born_step: u64,
    /// The version of its old logps.
    pub ref_version: u64,
    /// Flags at the clock, lag and age included.
    pub staleness: Staleness,
    /// Group, reward, advantage.
    pub labels: (Option<u64>, Option<u32>, Option<u32>),
    /// The string key.
    pub key: Option<String>,
    /// The caller's own bytes.
    pub metadata: Vec<u8>,
    /// Bytes of every column, by name.
    pub columns: BTreeMap<String, ColumnState>,
    /// Bits of the behaviour logps, where there are any.
    pub behaviour: Option<Vec<u32>>,
}

/// Everything that a store shows of one partial rollout; numbers of log-probs are their bits.
#[derive(Debug, Clone, PartialEq)]
pub struct PartialState {
    /// The step at which its generation began.
    pub created_step: u64,
    /// The group.
    pub group: Option<u64>,
    /// Token ids of the prompt.
    pub prompt_ids: Option<Vec<u32>>,
    /// Token ids of the completion so far.
    pub completion_ids: Vec<u32>,
    /// Bits of the sampler's log-probs.
    pub sampler_logps: Vec<u32>,
    /// The sampler's versions with their numbers of tokens.
    pub version_spans: Vec<VersionSpan>,
}

/// One column of a rollout.
#[derive(Clone, PartialEq)]
pub struct ColumnState {
    /// The type of its values.
    pub dtype: DType,
    /// Its values as they lie on disk.
    pub bytes: Vec<u8>,
    /// The version that made it, for recomputable log-probs.
    pub version: Option<u64>,
    /// The engine and kind, where the caller said.
    pub provenance: Option<(String, LogpKind)>,
}

impl StoreState {
    /// Reads everything that `store` shows. Nobody may write meanwhile.
    ///
    /// # Errors
    /// What reading met.
    ///
    /// # Panics
    /// Where a rollout is listed and cannot be had.
    pub fn of(store: &RolloutStore) -> rollstore::Result<Self> {
        let (state, mut unreadable) = Self::of_readable(store)?;
        unreadable.pop().map_or(Ok(state), |(_, error)| Err(error))
    }

    /// The same of a store that may be damaged: without the rollouts that cannot be read, which are told with their errors.
    ///
    /// # Errors
    /// Where the store is closed.
    ///
    /// # Panics
    /// Where a rollout is listed and cannot be found: the test that asks has failed.
    pub fn of_readable(store: &RolloutStore) -> rollstore::Result<(Self, Vec<(RolloutId, rollstore::Error)>)> {
        let stats = store.stats()?;
        let order = store.ids();
        let step = stats.clock.unwrap_or(0);
        let (mut rollouts, mut unreadable) = (BTreeMap::new(), Vec::new());
        for id in &order {
            let view =
                store.get(*id).map(|view| view.unwrap_or_else(|| panic!("rollout {id} is listed and not there")));
            match view.and_then(|view| RolloutState::of(&view, step)) {
                Ok(rollout) => drop(rollouts.insert(*id, rollout)),
                Err(error) => unreadable.push((*id, error)),
            }
        }
        let mut partials = BTreeMap::new();
        for open in store.partials() {
            match PartialState::of(store, open.id) {
                Ok(partial) => drop(partials.insert(open.id, partial)),
                Err(error) => unreadable.push((open.id, error)),
            }
        }
        let retired = stats.counters.retired.iter().filter(|(_, count)| *count > 0);
        let state = Self {
            clock: stats.clock,
            ref_version: stats.ref_version,
            kl_ref_version: stats.kl_ref_version,
            cursor: store.cursor().map(|cursor| cursor.to_vec()),
            inserted: stats.counters.inserted,
            computed: stats.counters.computed,
            retired: retired.map(|(reason, count): &(Reason, u64)| (reason.name(), *count)).collect(),
            len: store.len(),
            rollouts,
            partials,
            order,
            stale: crate::store::sorted(store.stale()),
            due: crate::store::sorted(store.needs_recompute(step)),
            sweeps: store.sweeps().into_iter().map(SweepState::of).collect(),
        };
        Ok((state, unreadable))
    }

    /// The same without LSNs, for the comparison with what never had any.
    #[must_use]
    pub fn without_lsns(mut self) -> Self {
        self.rollouts.values_mut().for_each(|rollout| rollout.insert_lsn = Lsn::NONE);
        self.sweeps.iter_mut().for_each(|sweep| sweep.began = Lsn::NONE);
        self
    }

    /// What differs from `other`, one line each; empty where nothing does.
    #[must_use]
    pub fn diff(&self, other: &Self) -> String {
        let mut out = Diff::default();
        out.field("clock", &self.clock, &other.clock);
        out.field("ref_version", &self.ref_version, &other.ref_version);
        out.field("kl_ref_version", &self.kl_ref_version, &other.kl_ref_version);
        out.field("cursor", &escaped(self.cursor.as_deref()), &escaped(other.cursor.as_deref()));
        out.field("inserted", &self.inserted, &other.inserted);
        out.field("computed", &self.computed, &other.computed);
        out.field("retired", &self.retired, &other.retired);
        out.field("len", &self.len, &other.len);
        for (id, rollout) in &self.rollouts {
            match other.rollouts.get(id) {
                Some(theirs) => rollout.diff(*id, theirs, &mut out),
                None => out.line(format_args!("rollout {id}: live / not live")),
            }
        }
        for id in other.rollouts.keys().filter(|id| !self.rollouts.contains_key(id)) {
            out.line(format_args!("rollout {id}: not live / live"));
        }
        for (id, partial) in &self.partials {
            out.field(&format!("partial {id}"), &Some(partial), &other.partials.get(id));
        }
        for id in other.partials.keys().filter(|id| !self.partials.contains_key(id)) {
            out.line(format_args!("partial {id}: not open / open"));
        }
        out.field("order", &self.order, &other.order);
        out.field("stale", &self.stale, &other.stale);
        out.field("due", &self.due, &other.due);
        out.field("sweeps", &self.sweeps, &other.sweeps);
        out.finish()
    }
}

impl SweepState {
    fn of(status: SweepStatus) -> Self {
        let SweepStatus { name, began, step, version, last, .. } = status;
        Self { name, began, with: (step, version), last }
    }
}

/// Asserts that a store shows what it should.
///
/// # Panics
/// With the differences where it does not.
pub fn assert_same(found: &StoreState, expected: &StoreState, when: impl fmt::Display) {
    assert!(found == expected, "{when}: found / expected\n{}", found.diff(expected));
}

impl PartialState {
    fn of(store: &RolloutStore, id: RolloutId) -> rollstore::Result<Self> {
        let partial = store.partial(id)?.unwrap_or_else(|| panic!("partial {id} is listed and not there"));
        Ok(Self {
            created_step: partial.created_step,
            group: partial.group,
            prompt_ids: partial.prompt_ids,
            completion_ids: partial.completion_ids,
            sampler_logps: partial.sampler_logps.into_iter().map(f32::to_bits).collect(),
            version_spans: partial.version_spans,
        })
    }
}

impl RolloutState {
    fn of(view: &Rollout, step: u64) -> rollstore::Result<Self> {
        let mut columns = BTreeMap::new();
        for info in view.columns() {
            let values = view.values(&info.column)?;
            let column = ColumnState {
                dtype: info.dtype,
                bytes: values.as_bytes().to_vec(),
                version: info.version,
                provenance: info.provenance.map(|provenance| (provenance.engine, provenance.kind)),
            };
            columns.insert(info.column.name().to_owned(), column);
        }
        let bits = |logps: &[f32]| logps.iter().map(|logp| logp.to_bits()).collect();
        Ok(Self {
            insert_lsn: view.insert_lsn(),
            created_step: view.created_step(),
            born_step: view.born_step(),
            ref_version: view.ref_version(),
            staleness: view.staleness(step),
            labels: (view.group(), view.reward().map(f32::to_bits), view.advantage().map(f32::to_bits)),
            key: view.key().map(str::to_owned),
            metadata: view.metadata().to_vec(),
            columns,
            behaviour: match view.behaviour_logps() {
                Ok(logps) => Some(bits(logps)),
                Err(error) if error.kind() == rollstore::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            },
        })
    }

    fn diff(&self, id: RolloutId, other: &Self, out: &mut Diff) {
        if self == other {
            return;
        }
        let mut field = |name: &str, a: &dyn Debug, b: &dyn Debug| out.text(&format!("rollout {id} {name}"), a, b);
        field("insert_lsn", &self.insert_lsn, &other.insert_lsn);
        field("created_step", &self.created_step, &other.created_step);
        field("born_step", &self.born_step, &other.born_step);
        field("ref_version", &self.ref_version, &other.ref_version);
        field("staleness", &self.staleness, &other.staleness);
        field("labels", &self.labels, &other.labels);
        field("key", &self.key, &other.key);
        field("metadata", &escaped(Some(&self.metadata)), &escaped(Some(&other.metadata)));
        field("behaviour", &self.behaviour, &other.behaviour);
        let names = self.columns.keys().chain(other.columns.keys().filter(|name| !self.columns.contains_key(*name)));
        for name in names {
            field(name, &self.columns.get(name), &other.columns.get(name));
        }
    }
}

/// A column in short: its bytes would fill the screen.
impl Debug for ColumnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dtype, bytes, version, provenance } = self;
        let head = bytes.get(..8).unwrap_or(bytes);
        write!(f, "{} bytes of {dtype} from {head:02x?}, sum {:#x}", bytes.len(), sum(bytes))?;
        write!(f, ", version {version:?}, provenance {provenance:?}")
    }
}

impl Debug for RolloutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rollout of {:?}, born {}", self.insert_lsn, self.born_step)
    }
}

impl Debug for StoreState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cursor = escaped(self.cursor.as_deref());
        write!(f, "{} rollouts, ref version {}, clock {:?}, cursor {cursor}", self.len, self.ref_version, self.clock)
    }
}

/// Lines of a difference, of which only so many are of use to a person.
#[derive(Default)]
struct Diff {
    text: String,
    lines: usize,
}

impl Diff {
    const LINES_MAX: usize = 40;

    fn field<T: PartialEq + Debug>(&mut self, name: &str, ours: &T, theirs: &T) {
        if ours != theirs {
            self.text(name, ours, theirs);
        }
    }

    /// A line where the two look different.
    fn text(&mut self, name: &str, ours: &dyn Debug, theirs: &dyn Debug) {
        let (ours, theirs) = (format!("{ours:?}"), format!("{theirs:?}"));
        if ours != theirs {
            self.line(format_args!("{name}: {ours} / {theirs}"));
        }
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        self.lines += 1;
        if self.lines <= Self::LINES_MAX {
            let _ = writeln!(self.text, "  {line}");
        }
    }

    fn finish(mut self) -> String {
        if self.lines > Self::LINES_MAX {
            let _ = writeln!(self.text, "  … and {} more", self.lines - Self::LINES_MAX);
        }
        self.text
    }
}

fn escaped(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "none".to_owned(), |bytes| format!("\"{}\"", bytes.escape_ascii()))
}

/// Tells two columns apart whose first bytes are the same.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
