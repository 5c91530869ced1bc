//! `rollstore sweeps`: the sweeps whose progress is stored, and how far each has come.

use rollstore::SweepStatus;
use serde_json::{Value, json};

use super::open;
use crate::args::SweepsArgs;
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::text;

/// Longest name that is shown, in characters.
const NAME_CHARS: usize = 40;

pub(crate) fn run(args: &SweepsArgs, out: &mut Output) -> Outcome<Verdict> {
    let sweeps = open(&args.store, None)?.sweeps();
    if args.json {
        sweeps.iter().try_for_each(|sweep| out.json(&as_json(sweep)))?;
        return Ok(Verdict::Sound);
    }
    if sweeps.is_empty() {
        out.line(" no sweep has stored how far it came")?;
        return Ok(Verdict::Sound);
    }
    let head = format!(" {:<9} {:>10} {:>8} {:>20} {:>20}  {}", "state", "step", "version", "began", "last", "name");
    out.line(out.bold(&head))?;
    sweeps.iter().try_for_each(|sweep| out.line(row(sweep)))?;
    Ok(Verdict::Sound)
}

fn row(sweep: &SweepStatus) -> String {
    let state = if sweep.finished { "finished" } else { "under way" };
    let last = sweep.last.map_or_else(|| "-".to_owned(), |id| id.to_string());
    let name = text::cut(&text::escape(&sweep.name), NAME_CHARS);
    format!(" {state:<9} {:>10} {:>8} {:>20} {last:>20}  {name}", sweep.step, sweep.version, sweep.began.get())
}

fn as_json(sweep: &SweepStatus) -> Value {
    json!({
        "name": sweep.name,
        "finished": sweep.finished,
        "step": sweep.step,
        "version": sweep.version,
        "began": sweep.began.get(),
        "last": sweep.last.map(|id| id.to_string()),
    })
}
