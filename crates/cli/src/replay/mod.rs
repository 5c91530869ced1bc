//! `rollstore replay`: a recorded trainer run against a store, and what it did.
//!
//! May touch one trace, one store, and what [`place`] names beside the store. Knows nothing of any trace in particular.
//!
//! Always true:
//! - P1. The position in the trace and all totals are committed in the batch of the event that they count.
//! - P2. A replay that was killed at any instant goes on to the same result.
//! - P3. A trace's resume takes the store back, never the replay's own totals.

mod child;
mod crash;
mod engine;
mod events;
mod meter;
mod place;
mod progress;
mod report;
mod settings;
mod static_schedule;
#[cfg(test)]
mod tests;

use crate::args::ReplayArgs;
use crate::exit::{Outcome, Verdict};
use crate::output::Output;
use crate::trace::TraceReader;
use engine::Engine;
use meter::Meter;
use place::Place;
use report::Report;
use settings::Settings;

pub(crate) fn run(args: &ReplayArgs, out: &mut Output) -> Outcome<Verdict> {
    let settings = Settings::new(args);
    if args.report_to_parent {
        return child::serve(args, &settings, out).map(|()| Verdict::Sound);
    }
    let mut trace = TraceReader::open(&args.trace)?;
    let place = Place::new(args.store.as_deref())?;
    let end = if args.kill > 0 {
        child::run_and_kill(args, &settings, &place)?
    } else {
        let mut meter = Meter::new(trace.progress_bytes().1);
        let mut engine = Engine::open(&settings, &place)?;
        engine.play(&mut trace, &mut |trace| {
            meter.set(trace.progress_bytes().0);
            Ok(())
        })?;
        engine.finish(&trace)?
    };
    let report = Report::new(&args.trace, &settings, &end, args.kill);
    if args.json {
        out.json(&report)?;
    } else {
        report.print(out)?;
    }
    Ok(Verdict::Sound)
}
