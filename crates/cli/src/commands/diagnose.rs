//! `rollstore diagnose`: why rollouts are not fresh at a step, and which option would change that.

use rollstore::{Diagnosis, Help, RolloutStore};
use serde_json::{Value, json};

use super::Step;
use crate::args::DiagnoseArgs;
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &DiagnoseArgs, out: &mut Output) -> Outcome<Verdict> {
    let options = RolloutStore::options().read_only(true);
    let options = args.at.window.map_or(options.clone(), |window| options.window(window));
    let options = args.lag.map_or(options.clone(), |lag| options.max_version_lag(lag));
    let store = options.open(&args.store)?;
    let at = Step::of(&store, args.at.step)?;
    let (diagnosis, due) = (store.diagnose(at.step), store.count_needs_recompute(at.step));
    if args.json {
        out.json(&as_json(&store, &diagnosis, due))?;
        return Ok(Verdict::Sound);
    }
    let origin = |given: Option<u64>| if given.is_some() { "as given" } else { "as last used" };
    let (window, lag) = (text::bound(store.window()), text::bound(store.max_version_lag()));
    let (window_origin, lag_origin) = (origin(args.at.window), origin(args.lag));
    let Step { step, origin } = at;
    out.line(format_args!(" step {step} ({origin}), window {window} ({window_origin}), lag {lag} ({lag_origin})"))?;
    for part in diagnosis.to_string().split("; ") {
        out.line(format_args!(" {part}"))?;
    }
    out.line(format_args!(" {} due at step {step}", text::counted(due, "rollout")))?;
    Ok(Verdict::Sound)
}

fn as_json(store: &RolloutStore, diagnosis: &Diagnosis, due: u64) -> Value {
    json!({
        "step": diagnosis.step,
        "window": store.window(),
        "max_version_lag": store.max_version_lag(),
        "live": diagnosis.live,
        "fresh": diagnosis.fresh,
        "missing": diagnosis.missing,
        "stale": diagnosis.stale,
        "abandoned": diagnosis.abandoned,
        "out_of_window": diagnosis.out_of_window,
        "from_future": diagnosis.from_future,
        "due": due,
        "window_help": help(diagnosis.window_help),
        "lag_help": help(diagnosis.lag_help),
        "skew_help": help(diagnosis.skew_help),
    })
}

fn help(help: Option<Help>) -> Value {
    help.map_or(
        Value::Null,
        |help| json!({"at_least": help.at_least, "fresh": help.fresh, "for_all": help.for_all, "all": help.all}),
    )
}
