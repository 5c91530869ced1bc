//! `rollstore merge` and `rollstore reshard`: shards of a run into one store, or another number of shards.
//!
//! Always true:
//! - S1. Counts before and after are printed of what was made, and nothing is made where they differ.

use std::ops::ControlFlow;
use std::path::Path;

use rollstore_shards::{Census, Error, Made, OnConflict, Progress, Shards, Stage, TakeCursor};
use serde::Serialize;

use crate::args::{self, MergeArgs, ReshardArgs, ShardsArgs};
use crate::exit::{Failure, Outcome, Verdict, note};
use crate::formats::Meter;
use crate::output::Output;
use crate::text;

pub(crate) fn merge(args: &MergeArgs, out: &mut Output) -> Outcome<Verdict> {
    let mut meters = Meters::default();
    let made = shards(&args.of, &mut meters).merge(&args.output);
    tell(made, &args.output, args.of.json, out)
}

pub(crate) fn reshard(args: &ReshardArgs, out: &mut Output) -> Outcome<Verdict> {
    let mut meters = Meters::default();
    let made = shards(&args.of, &mut meters).reshard(args.shards, &args.output);
    tell(made, &args.output, args.of.json, out)
}

fn shards<'m>(args: &ShardsArgs, meters: &'m mut Meters) -> Shards<'m> {
    let on_conflict = match args.on_conflict {
        args::OnConflict::Error => OnConflict::Error,
        args::OnConflict::Newest => OnConflict::Newest,
    };
    let cursor = match (args.cursor_of, args.no_cursor) {
        (Some(shard), _) => TakeCursor::Of(shard),
        (None, true) => TakeCursor::No,
        (None, false) => TakeCursor::Same,
    };
    Shards::of(&args.from).on_conflict(on_conflict).cursor(cursor).watch(|progress| meters.show(progress))
}

/// The bar of the stage that is under way.
#[derive(Default)]
struct Meters(Option<(Stage, Meter)>);

impl Meters {
    fn show(&mut self, Progress { stage, done, rollouts }: Progress) -> ControlFlow<()> {
        if self.0.as_ref().is_none_or(|(shown, _)| *shown != stage) {
            let doing = match stage {
                Stage::Looking => "looking",
                Stage::Copying => "copying",
                Stage::Counting => "counting",
            };
            // The one before is taken away first: each clears its own line.
            self.0 = None;
            self.0 = Some((stage, Meter::new(doing, rollouts)));
        }
        self.0.iter().for_each(|(_, meter)| meter.set(done));
        ControlFlow::Continue(())
    }
}

fn tell(made: Result<Made, Error>, name: &Path, json: bool, out: &mut Output) -> Outcome<Verdict> {
    let made = made.map_err(failure)?;
    for (shard, names) in &made.sweeps {
        let what = if names.len() == 1 { "sweep begins" } else { "sweeps begin" };
        note(&format!("{}: its {what} anew in what was made: {}", text::path(shard), names.join(", ")));
    }
    if json {
        out.json(&MadeJson::new(&made))?;
        return Ok(Verdict::Sound);
    }
    out.line(out.bold(&format!(" {}", text::path(name))))?;
    out.line(format_args!(" before     {}", words(&made.before)))?;
    out.line(format_args!(" after      {}", words(&made.after)))?;
    for (version, count) in &made.after.versions {
        let (live, stale, missing) = (text::count(count.live), text::count(count.stale), text::count(count.missing));
        out.line(format_args!(" version    {version}: {live} live, {stale} stale, {missing} missing"))?;
    }
    if made.superseded + made.superseded_partials > 0 {
        let rollouts = text::counted(made.superseded + made.superseded_partials, "rollout");
        out.line(format_args!(" left out   {rollouts} of whose id a newer one was taken"))?;
    }
    for (store, rollouts) in made.stores.iter().filter(|(store, _)| store != name) {
        let shard = store.file_name().map(text::os).unwrap_or_default();
        out.line(format_args!(" made       {shard}: {}", text::counted(*rollouts, "rollout")))?;
    }
    Ok(Verdict::Sound)
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn failure(error: Error) -> Failure {
    let next = match error {
        Error::Conflicts { .. } => ": --on-conflict newest",
        Error::Cursors { .. } => ": --cursor-of N, or --no-cursor",
        _ => "",
    };
    let message = format!("{error}{next}");
    match error.kind() {
        rollstore::ErrorKind::Damaged => Failure::Found(message),
        _ => Failure::could_not_look(message),
    }
}

fn words(census: &Census) -> String {
    let (stale, missing) = census.stale_and_missing();
    let partials = match (census.partials, census.partial_tokens) {
        (0, _) => String::new(),
        (partials, tokens) => format!("; {} partial, {}", text::count(partials), text::counted(tokens, "token")),
    };
    format!(
        "{}, {} stale, {} missing; {}; arrays of {} bytes{partials}",
        text::counted(census.rollouts, "rollout"),
        text::count(stale),
        text::count(missing),
        text::counted(census.tokens, "token"),
        text::count(census.array_bytes)
    )
}

/// The JSON object.
#[derive(Serialize)]
struct MadeJson<'a> {
    before: CensusJson,
    after: CensusJson,
    superseded: u64,
    superseded_partials: u64,
    stores: Vec<StoreJson>,
    sweeps: Vec<SweepsJson<'a>>,
}

#[derive(Serialize)]
struct CensusJson {
    rollouts: u64,
    tokens: u64,
    array_bytes: u64,
    stale: u64,
    missing: u64,
    partials: u64,
    partial_tokens: u64,
    versions: Vec<VersionJson>,
}

#[derive(Serialize)]
struct VersionJson {
    version: u64,
    live: u64,
    stale: u64,
    missing: u64,
}

#[derive(Serialize)]
struct StoreJson {
    path: String,
    rollouts: u64,
}

#[derive(Serialize)]
struct SweepsJson<'a> {
    shard: String,
    names: &'a [String],
}

impl<'a> MadeJson<'a> {
    fn new(made: &'a Made) -> Self {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        Self {
            before: CensusJson::new(&made.before),
            after: CensusJson::new(&made.after),
            superseded: made.superseded,
            superseded_partials: made.superseded_partials,
            stores: made
                .stores
                .iter()
                .map(|(store, rollouts)| StoreJson { path: path(store), rollouts: *rollouts })
                .collect(),
            sweeps: made.sweeps.iter().map(|(shard, names)| SweepsJson { shard: path(shard), names }).collect(),
        }
    }
}

impl CensusJson {
    fn new(census: &Census) -> Self {
        let (stale, missing) = census.stale_and_missing();
        let version = |(version, count): (&u64, &rollstore_shards::VersionCount)| VersionJson {
            version: *version,
            live: count.live,
            stale: count.stale,
            missing: count.missing,
        };
        Self {
            rollouts: census.rollouts,
            tokens: census.tokens,
            array_bytes: census.array_bytes,
            stale,
            missing,
            partials: census.partials,
            partial_tokens: census.partial_tokens,
            versions: census.versions.iter().map(version).collect(),
        }
    }
}
