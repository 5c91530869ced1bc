//! Shards into others: everything is looked at before anything is made, and counted when it is.
//!
//! Always true:
//! - J1. Nothing has the new name until all of it is on disk and holds what the shards hold, as counted in both.
//! - J2. A call that was killed is gone on with by the same call; one that failed leaves nothing behind.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rollstore::disk::Disk;
use rollstore::disk::os::OsDisk;
use rollstore::{Clocks, Past, StatsCounters, VersionLine};

use crate::census::Census;
use crate::counters;
use crate::error::{Error, Result};
use crate::fill::{Common, Target};
use crate::place::Place;
use crate::rollout::Maps;
use crate::route::Router;
use crate::rows::Rows;
use crate::sources::{self, SHARDS_MAX, Source, shard_name, shard_number};
use crate::versions::{self, Counted};

/// What becomes of ids that more than one shard has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// They are an error, which names them.
    #[default]
    Error,
    /// The newest is taken: a whole one before a partial one, created last, then computed last, then of the shard named last; of
    /// partial ones the longest. The others count as [`Superseded`](rollstore::Reason::Superseded).
    Newest,
}

/// Which cursor is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TakeCursor {
    /// The one that all shards have; another in any of them is an error.
    #[default]
    Same,
    /// The one of the shard at this place, from 0.
    Of(usize),
    /// None.
    No,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The shards are looked at.
    Looking,
    /// Rollouts are copied.
    Copying,
    /// What was made is counted.
    Counting,
}

/// How far it has come, in rollouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Rollouts of this stage that are done.
    pub done: u64,
    /// All of them.
    pub rollouts: u64,
}

/// What was made, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Made {
    /// The stores, in their order, each with its number of rollouts.
    pub stores: Vec<(PathBuf, u64)>,
    /// What the shards held of it, in the versions of what was made.
    pub before: Census,
    /// What was made holds: the same.
    pub after: Census,
    /// Rollouts that were not taken, since a newer one of their id was.
    pub superseded: u64,
    /// Partial rollouts that were not taken, likewise.
    pub superseded_partials: u64,
    /// Sweeps of the shards, whose progress no other store can go on from: each shard with the names. They begin anew.
    pub sweeps: Vec<(PathBuf, Vec<String>)>,
}

type Watch<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// The shards of one run, and what is to be known to make others of them.
///
/// Rollouts come over as they stand: arrays bit for bit, born steps, versions and their labels, first old log-probs, whether
/// they were asked for; of the run its identity, options, clocks, cursor and counters, which add up (where there are several
/// stores, the first goes on with them). Partial rollouts come over too. How far a sweep has come does not, and is told in
/// [`Made::sweeps`]. A shard behind the others is told in the versions of the one that has come furthest.
///
/// Shards are opened read-only, and each is seen as of some moment: stop their trainer, or give checkpoints of one step. Memory
/// is taken for some 200 bytes a rollout, their index included, and for one batch of 32 MiB.
#[must_use = "nothing is made until `merge` or `reshard`"]
pub struct Shards<'a> {
    paths: Vec<PathBuf>,
    on_conflict: OnConflict,
    cursor: TakeCursor,
    disk: Arc<dyn Disk>,
    watch: Option<Box<Watch<'a>>>,
}

impl fmt::Debug for Shards<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { paths, on_conflict, cursor, .. } = self;
        let mut shards = f.debug_struct("Shards");
        shards.field("paths", paths).field("on_conflict", on_conflict).field("cursor", cursor).finish_non_exhaustive()
    }
}

impl<'a> Shards<'a> {
    /// These shards: directories of stores or checkpoints, or of shards called `shard-00000` and so on, or `rank-00000`.
    pub fn of(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            paths: paths.into_iter().map(Into::into).collect(),
            on_conflict: OnConflict::default(),
            cursor: TakeCursor::default(),
            disk: Arc::new(OsDisk),
            watch: None,
        }
    }

    /// What becomes of ids that more than one shard has; default [`OnConflict::Error`].
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.on_conflict = on_conflict;
        self
    }

    /// Which cursor is taken over; default [`TakeCursor::Same`].
    pub fn cursor(mut self, cursor: TakeCursor) -> Self {
        self.cursor = cursor;
        self
    }

    /// The file system of the shards and of what is made; default the operating system's.
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// Is called with every few thousand rollouts with how far it has come. It may say to stop: the call ends with
    /// [`Error::Interrupted`], and the same call again goes on.
    pub fn watch(mut self, watch: impl FnMut(Progress) -> ControlFlow<()> + 'a) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    /// Makes one store, which appears at `store` when it is whole and on disk. The directory must be free, or empty.
    ///
    /// Killed at any point, the same call goes on from what is there. Counts of what the shards held and of what was made are
    /// compared, and a difference is an error.
    ///
    /// # Errors
    /// [`Error`] names each; nothing is there then, and the shards are as they were.
    pub fn merge(self, store: impl AsRef<Path>) -> Result<Made> {
        self.make(None, store.as_ref())
    }

    /// Makes a directory of so many shards, `shard-00000` and so on, each with the rollouts that [`Router`] sends to it. As
    /// [`merge`](Self::merge) in all else.
    ///
    /// # Errors
    /// As for [`merge`](Self::merge).
    pub fn reshard(self, shards: NonZeroU32, dir: impl AsRef<Path>) -> Result<Made> {
        if shards.get() > SHARDS_MAX {
            return Err(Error::Invalid(format!("{shards} shards are too many, the limit is {SHARDS_MAX}")));
        }
        self.make(Some(shards), dir.as_ref())
    }

    /// One store that has the name itself, or so many below it.
    fn make(mut self, shards: Option<NonZeroU32>, name: &Path) -> Result<Made> {
        Place::check_free(&*self.disk, name)?;
        let sources = sources::open(&self.disk, &self.paths)?;
        let cursor = cursor_of(&sources, self.cursor)?;
        let live = sources.iter().map(|source| source.store.len() as u64).sum();
        let mut meter = Meter(self.watch.take());
        let mut rows = Rows::of(&sources, meter.of(Stage::Looking, live))?;
        let (clocks, maps) = common_clocks(&sources, &rows)?;
        match self.on_conflict {
            OnConflict::Error => rows.check_conflicts(&sources, &maps)?,
            OnConflict::Newest => rows.take_newest(),
        }
        let lag_max = sources.first().map_or(0, |source| source.store.max_version_lag());
        let before = census(&rows, &maps, &clocks, lag_max);
        let expected = counters::expected(&sources, &rows);
        rows.whole.sort_by_key(|row| (row.shard, row.born_step, row.id));
        let targets =
            targets(&rows, shards.unwrap_or(NonZeroU32::MIN), &counters::past(&sources, &rows, expected.clone()));

        let common = Common { disk: &self.disk, sources: &sources, maps: &maps, clocks, cursor };
        let place = Place::take(&self.disk, name)?;
        let dir = |above: &Path, shard| if shards.is_some() { above.join(shard_name(shard)) } else { above.to_owned() };
        let work = place.made();
        let mut run = || -> Result<Census> {
            if let Some(shards) = shards {
                place.keep(|name| shard_number(name).is_some_and(|shard| shard < shards.get()))?;
            }
            let mut tick = meter.of(Stage::Copying, before.rollouts);
            for (shard, target) in (0..).zip(&targets) {
                let dir = dir(&work, shard);
                let is_begun = common.is_begun(target, &dir, &mut tick)?;
                if !is_begun {
                    place.remove(&dir)?;
                }
                common.fill(target, &dir, is_begun, &mut tick)?;
            }
            drop(tick);
            let (mut after, mut counted) = (Census::default(), StatsCounters::default());
            let mut tick = meter.of(Stage::Counting, before.rollouts);
            for (shard, _) in (0..).zip(&targets) {
                let store = common.read(&dir(&work, shard))?;
                after.add_store(&store, &mut tick)?;
                counted += &store.past().counters;
            }
            check(&before, &after)?;
            counters::check(&expected, &counted)?;
            Ok(after)
        };
        let made = run().and_then(|after| place.name().map(|()| after));
        if !matches!(made, Err(Error::Interrupted)) {
            place.give_up();
        }
        let after = made?;
        let stores = (0..).zip(&targets).map(|(shard, target)| (dir(name, shard), target.rows.len() as u64)).collect();
        let Rows { superseded, superseded_partials, .. } = rows;
        Ok(Made { stores, before, after, superseded, superseded_partials, sweeps: sweeps(&sources) })
    }
}

/// Tells how far it has come, and learns whether to stop.
struct Meter<'a>(Option<Box<Watch<'a>>>);

impl Meter<'_> {
    /// A call for every few rollouts that are done.
    fn of(&mut self, stage: Stage, rollouts: u64) -> impl FnMut(usize) -> Result<()> {
        let mut done = 0;
        move |more| {
            done += more as u64;
            let said = self.0.as_mut().map(|watch| watch(Progress { stage, done, rollouts }));
            if said.is_some_and(|said| said.is_break()) { Err(Error::Interrupted) } else { Ok(()) }
        }
    }
}

fn cursor_of(sources: &[Source], take: TakeCursor) -> Result<Option<Arc<[u8]>>> {
    match take {
        TakeCursor::No => Ok(None),
        TakeCursor::Of(shard) => match sources.get(shard) {
            Some(source) => Ok(source.store.cursor()),
            None => Err(Error::Invalid(format!("there is no shard {shard}: there are {}, from 0", sources.len()))),
        },
        TakeCursor::Same => {
            let cursors: Vec<_> = sources.iter().map(|source| (&source.path, source.store.cursor())).collect();
            match cursors.windows(2).find(|pair| pair[0].1 != pair[1].1) {
                Some(pair) => Err(Error::Cursors { a: pair[0].0.clone(), b: pair[1].0.clone() }),
                None => Ok(cursors.into_iter().next().and_then(|(_, cursor)| cursor)),
            }
        }
    }
}

/// The clocks of what is made, and how each shard's versions are told in them.
fn common_clocks(sources: &[Source], rows: &Rows) -> Result<(Clocks, Vec<Maps>)> {
    let clocks: Vec<Clocks> = sources.iter().map(|source| source.store.clocks()).collect();
    // A shard in which nothing ever happened has nothing to tell.
    let used = |shard: &usize| !rows.used[*shard][0].is_empty() || clocks[*shard] != clocks_of_new();
    let mut places: Vec<usize> = (0..sources.len()).filter(used).collect();
    if places.is_empty() {
        places = vec![0];
    }
    let [ref_versions, kl_ref_versions] = [0, 1].map(|clock| {
        let line =
            |shard: &usize| if clock == 0 { &clocks[*shard].ref_versions } else { &clocks[*shard].kl_ref_versions };
        let counted = |shard| Counted { line: line(shard), used: rows.used[*shard][clock].clone() };
        versions::join(&places.iter().map(counted).collect::<Vec<_>>()).map_err(|untold| Error::Versions {
            shard: sources[places[untold.shard]].path.clone(),
            by: sources[places[untold.by]].path.clone(),
            clock: ["ref", "kl_ref"][clock],
            version: untold.version,
        })
    });
    let (ref_versions, kl_ref_versions) = (ref_versions?, kl_ref_versions?);
    let mut maps = vec![Maps::SAME; sources.len()];
    for (shard, (ref_map, kl_map)) in places.iter().zip(ref_versions.maps.into_iter().zip(kl_ref_versions.maps)) {
        maps[*shard] = Maps { ref_versions: ref_map, kl_ref_versions: kl_map };
    }
    let step = clocks.iter().filter_map(|clocks| clocks.step).max();
    Ok((Clocks { step, ref_versions: ref_versions.line, kl_ref_versions: kl_ref_versions.line }, maps))
}

fn clocks_of_new() -> Clocks {
    let line = || VersionLine { lineage: std::iter::once(0..=0).collect(), next: 1, labels: Vec::new() };
    Clocks { step: None, ref_versions: line(), kl_ref_versions: line() }
}

/// What the rollouts that are taken are, in the versions of what is made.
fn census(rows: &Rows, maps: &[Maps], clocks: &Clocks, lag_max: u64) -> Census {
    let mut census = Census::default();
    for row in &rows.whole {
        let version = maps[row.shard].ref_versions.of(row.version);
        let is_stale = clocks.ref_versions.lag(version).is_none_or(|lag| lag > lag_max);
        census.add(row.token_count, row.array_bytes, version, is_stale, row.is_missing);
    }
    rows.partial.iter().for_each(|partial| census.add_partial(partial.tokens));
    census
}

/// What goes where.
fn targets<'r>(rows: &'r Rows, shards: NonZeroU32, past: &Past) -> Vec<Target<'r>> {
    let router = Router::new(shards);
    let nothing = Past { counters: StatsCounters::default(), next_id: past.next_id };
    let new = |shard| {
        let past = if shard == 0 { past } else { &nothing };
        Target { rows: Vec::new(), partials: Vec::new(), past: past.clone() }
    };
    let mut targets: Vec<Target<'r>> = (0..shards.get()).map(new).collect();
    rows.whole.iter().for_each(|row| targets[router.route(row.id) as usize].rows.push(row));
    rows.partial.iter().for_each(|row| targets[router.route(row.id) as usize].partials.push(row));
    targets
}

fn sweeps(sources: &[Source]) -> Vec<(PathBuf, Vec<String>)> {
    let names = |Source { path, store }: &Source| {
        (path.clone(), store.sweeps().into_iter().map(|sweep| sweep.name).collect::<Vec<_>>())
    };
    sources.iter().map(names).filter(|(_, names)| !names.is_empty()).collect()
}

fn check(before: &Census, after: &Census) -> Result<()> {
    if before == after {
        return Ok(());
    }
    let versions = before.versions.keys().chain(after.versions.keys());
    let differ = versions.map(|at| (*at, before.versions.get(at), after.versions.get(at))).find(|(_, a, b)| a != b);
    let what = differ.map_or_else(String::new, |(version, a, b)| format!("; on version {version} {a:?} and {b:?}"));
    Err(Error::Miscount(format!("{before} before, {after} after{what}")))
}
