//! `rollstore ls`: live rollouts, oldest born first, one a line.

use rollstore::{ErrorKind, Rollout, RolloutStore, Staleness};
use serde::Serialize;

use super::chosen::chosen;
use super::{Step, open};
use crate::args::LsArgs;
use crate::exit::{Outcome, Verdict, note};
use crate::output::Output;
use crate::text;

/// Longest key that is shown, in characters.
const KEY_CHARS: usize = 40;

pub(crate) fn run(args: &LsArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store, args.window)?;
    let at = Step::of(&store, args.step)?;
    let mut ids = chosen(&store, &args.filter, at.step);
    let found = ids.len();
    ids.truncate(args.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
    if !args.json {
        print_head(&store, args, at, found, ids.len(), out)?;
    }
    let mut verdict = Verdict::Sound;
    for id in ids {
        match store.get(id) {
            Ok(Some(rollout)) if args.json => out.json(&RowJson::new(&store, &rollout, at.step))?,
            Ok(Some(rollout)) => out.line(row(&rollout, at.step))?,
            // It was retired while the others were printed.
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::Damaged => {
                note(&format!("rollout {id}: {error}"));
                verdict = Verdict::Damaged;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(verdict)
}

fn print_head(store: &RolloutStore, args: &LsArgs, at: Step, found: usize, shown: usize, out: &mut Output) -> Outcome {
    let Step { step, origin } = at;
    let (window, lag) = (store.window(), store.max_version_lag());
    let window_origin = if args.window.is_some() { "as given" } else { "as last used" };
    out.line(format_args!(" step {step} ({origin}), window {window} ({window_origin}), lag {lag} (as last used)"))?;
    let live = store.len();
    let first = if shown < found { format!("the first {shown} of ") } else { String::new() };
    let partials = match store.partials().len() {
        0 => String::new(),
        open => format!(", {} still being generated", text::counted(open as u64, "partial rollout")),
    };
    out.line(format_args!(" {first}{found} listed, {live} live{partials}"))?;
    out.line("")?;
    let head = format!(
        " {:>20} {:>10} {:>10} {:>8} {:>6} {:>6} {:>8} {:>10}  {}",
        "id", "created", "born", "version", "age", "behind", "tokens", "group", "state"
    );
    out.line(out.bold(&head))
}

/// One rollout on one line. The numbers have fixed widths, so that lines can be printed as they are read.
fn row(rollout: &Rollout, step: u64) -> String {
    let staleness = rollout.staleness(step);
    let dash = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let key = rollout.key().map_or_else(String::new, |key| format!("  {}", text::cut(&text::escape(key), KEY_CHARS)));
    format!(
        " {:>20} {:>10} {:>10} {:>8} {:>6} {:>6} {:>8} {:>10}  {}{key}",
        rollout.id().get(),
        rollout.created_step(),
        rollout.born_step(),
        dash((!staleness.missing).then(|| rollout.ref_version())),
        staleness.age,
        dash(staleness.lag),
        rollout.token_count(),
        dash(rollout.group()),
        flags(&staleness),
    )
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
#[derive(Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own, any of which may be set together")]
struct RowJson<'a> {
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
    fn new(store: &RolloutStore, rollout: &'a Rollout, step: u64) -> Self {
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
