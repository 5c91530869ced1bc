//! `rollstore stat`: a store's clocks, options, sizes and counters, once or again and again.

use std::time::UNIX_EPOCH;

use indicatif::HumanDuration;
use rollstore::{LastCheckpoint, Stats};
use serde_json::{Map, Value, json};

use super::open;
use super::watch::{self, Watch};
use crate::args::{Period, StatArgs};
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &StatArgs, out: &mut Output) -> Outcome<Verdict> {
    let Some(Period(pause)) = args.every else {
        let look = Look::at(args)?;
        if args.json {
            out.json(&look.as_json())?;
        } else {
            print(args, &look, None, out)?;
        }
        return Ok(Verdict::Sound);
    };
    let mut watch = Watch::begin();
    for number in 0..args.count.unwrap_or(u64::MAX) {
        if number > 0 {
            out.wait(pause)?;
        }
        let look = Look::at(args)?;
        let (elapsed, rates) = watch.look(&look.stats);
        if args.json {
            let mut json = look.as_json();
            json["seconds"] = elapsed.as_secs_f64().into();
            json["per_second"] = json!(rates);
            out.json(&json)?;
        } else {
            out.next_look(number == 0)?;
            print(args, &look, Some(watch::words(rates.as_ref())), out)?;
        }
    }
    Ok(Verdict::Sound)
}

/// A store as it was at one moment.
struct Look {
    stats: Stats,
    cursor_bytes: Option<usize>,
}

impl Look {
    /// A store that is open read-only stays as it was: each look opens it anew.
    fn at(args: &StatArgs) -> Outcome<Self> {
        let store = open(&args.store, None)?;
        Ok(Self { stats: store.stats()?, cursor_bytes: store.cursor().map(|cursor| cursor.len()) })
    }

    fn as_json(&self) -> Value {
        as_json(&self.stats, self.cursor_bytes)
    }
}

fn print(args: &StatArgs, look: &Look, rates: Option<String>, out: &mut Output) -> Outcome {
    out.line(out.bold(&format!(" {}", text::path(&args.store))))?;
    let rates = rates.map(|rates| ("rates", rates));
    for (name, told) in rows(&look.stats, look.cursor_bytes).into_iter().chain(rates) {
        out.line(format_args!(" {name:<10} {told}"))?;
    }
    for warning in &look.stats.warnings {
        out.line(format_args!(" {:<10} {}", "warning", text::escape(warning)))?;
    }
    Ok(())
}

fn rows(stats: &Stats, cursor_bytes: Option<usize>) -> Vec<(&'static str, String)> {
    let count = text::count;
    let clock = stats.clock.map_or_else(|| "the trainer has not acted yet".into(), |step| format!("step {step}"));
    let oldest = stats.oldest_born_step.map_or_else(
        || "none".into(),
        |born| {
            let age = stats.clock.map(|clock| format!(", {} ago", text::counted(clock.saturating_sub(born), "step")));
            format!("born at step {born}{}", age.unwrap_or_default())
        },
    );
    let cursor = cursor_bytes.map_or_else(|| "none".into(), |bytes| format!("{bytes} bytes"));
    let counters = &stats.counters;
    let retired = counters.retired.iter().filter(|(_, rollouts)| *rollouts > 0);
    let retired: Vec<String> = retired.map(|(reason, rollouts)| format!("{} {reason}", count(*rollouts))).collect();
    vec![
        (
            "rollouts",
            format!(
                "{} live, {} stale, {} out of window, {} missing",
                count(stats.live),
                count(stats.stale),
                count(stats.out_of_window),
                count(stats.missing)
            ),
        ),
        ("partials", count(stats.partials)),
        ("tokens", count(stats.tokens)),
        ("clock", clock),
        ("oldest", oldest),
        ("versions", format!("ref {}, kl_ref {}", stats.ref_version, stats.kl_ref_version)),
        (
            "options",
            format!("window {}, lag {} (as last used)", text::bound(stats.window), text::bound(stats.max_version_lag)),
        ),
        ("cursor", cursor),
        (
            "log",
            format!(
                "{} in {}, {} of them alive",
                text::bytes(stats.log_bytes),
                text::counted(stats.segments, "segment"),
                text::bytes(stats.live_bytes)
            ),
        ),
        ("commits", format!("durable up to lsn {} of {}", stats.durable_lsn, stats.last_lsn)),
        ("checkpoint", stats.last_checkpoint.as_ref().map_or_else(|| "none".into(), checkpoint)),
        (
            "logps",
            format!(
                "{} asked for, {} served fresh, {} computed, {} dropped as late",
                count(counters.asked),
                count(counters.served),
                count(counters.computed),
                count(counters.dropped)
            ),
        ),
        (
            "inserted",
            format!("{}, {} retired before any use", count(counters.inserted), count(counters.retired_unused)),
        ),
        ("retired", if retired.is_empty() { "0".into() } else { retired.join(", ") }),
    ]
}

fn checkpoint(last: &LastCheckpoint) -> String {
    let step = last.step.map_or_else(|| "before the first step".into(), |step| format!("step {step}"));
    let ago = HumanDuration(last.taken_at.elapsed().unwrap_or_default());
    format!("{step}, lsn {}, {ago} ago", last.lsn)
}

fn as_json(stats: &Stats, cursor_bytes: Option<usize>) -> Value {
    let counters = &stats.counters;
    let retired: Map<String, Value> =
        counters.retired.iter().map(|(reason, rollouts)| (reason.to_string(), (*rollouts).into())).collect();
    json!({
        "live": stats.live,
        "partials": stats.partials,
        "stale": stats.stale,
        "out_of_window": stats.out_of_window,
        "missing": stats.missing,
        "tokens": stats.tokens,
        "oldest_born_step": stats.oldest_born_step,
        "clock": stats.clock,
        "ref_version": stats.ref_version,
        "kl_ref_version": stats.kl_ref_version,
        "window": stats.window,
        "max_version_lag": stats.max_version_lag,
        "cursor_bytes": cursor_bytes,
        "log_bytes": stats.log_bytes,
        "live_bytes": stats.live_bytes,
        "segments": stats.segments,
        "durable_lsn": stats.durable_lsn.get(),
        "last_lsn": stats.last_lsn.get(),
        "last_checkpoint": stats.last_checkpoint.as_ref().map(|last| json!({
            "lsn": last.lsn.get(),
            "step": last.step,
            "taken_at": last.taken_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        })),
        "counters": {
            "asked": counters.asked,
            "served": counters.served,
            "computed": counters.computed,
            "dropped": counters.dropped,
            "inserted": counters.inserted,
            "retired_unused": counters.retired_unused,
            "retired": retired,
        },
        "warnings": stats.warnings,
    })
}
