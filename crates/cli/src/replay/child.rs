//! `--kill`: the replay in a child process that is killed at random moments and started again.
//!
//! May touch the child's process and its pipes. Knows nothing of the store: the child finds its own way back.
//!
//! The child writes `at LINE` after each event and `done JSON` at its end, then waits until its input is closed. So a
//! kill always meets a living process, however fast the replay is, and as many kills happen as were asked for.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{self, ChildStdout, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rand::RngExt;

use super::engine::Engine;
use super::meter::Meter;
use super::place::Place;
use super::progress::End;
use super::settings::Settings;
use crate::args::{Clock, Mode, ReplayArgs};
use crate::exit::{Failure, Outcome};
use crate::output::Output;
use crate::program;
use crate::text;
use crate::trace::TraceReader;

/// Longest wait between a moment and its kill: some kills meet the event after the report, in the middle of its commit.
const AFTER_REPORT: Duration = Duration::from_millis(4);

/// Longest wait where the moment is past already: such a kill meets a child that is starting or recovering.
const AFTER_START: Duration = Duration::from_millis(30);

const SIGKILL: i32 = 9;

/// The child's side: plays the trace and reports each event.
pub(super) fn serve(args: &ReplayArgs, settings: &Settings, out: &mut Output) -> Outcome {
    let mut trace = TraceReader::open(&args.trace)?;
    let place = Place::new(args.store.as_deref())?;
    let mut engine = Engine::open(settings, &place)?;
    engine.play(&mut trace, &mut |trace| {
        out.line(format_args!("at {}", trace.position().lines))?;
        out.flush()
    })?;
    let end = engine.finish(&trace)?;
    let json = serde_json::to_string(&end)
        .map_err(|error| Failure::could_not_look(format!("could not write the result: {error}")))?;
    out.line(format_args!("done {json}"))?;
    out.flush()?;
    let mut rest = Vec::new();
    // However the input ends, the parent is done with this process.
    let _ = io::stdin().read_to_end(&mut rest);
    Ok(())
}

/// The parent's side: runs the replay to its end through `args.kill` kills.
pub(super) fn run_and_kill(args: &ReplayArgs, settings: &Settings, place: &Place) -> Outcome<End> {
    let is_file = std::fs::metadata(&args.trace).is_ok_and(|metadata| metadata.is_file());
    if !is_file {
        let trace = text::path(&args.trace);
        return Err(Failure::could_not_look(format!(
            "--kill reads the trace again after each kill: {trace} is no file"
        )));
    }
    let lines = TraceReader::open(&args.trace)?.count_lines()?;
    let mut moments: Vec<u64> = (0..args.kill).map(|_| rand::rng().random_range(0..=lines)).collect();
    moments.sort_unstable();
    let mut meter = Meter::new(lines);
    let mut reached = 0;
    for (kills, moment) in (1_u32..).zip(moments) {
        let mut child = Child::start(args, settings, place)?;
        if moment > reached {
            child.wait_for(moment, &mut meter)?;
            wait_at_most(AFTER_REPORT);
        } else {
            wait_at_most(AFTER_START);
        }
        reached = reached.max(child.kill()?);
        meter.set(reached);
        meter.set_kills(kills);
    }
    Child::start(args, settings, place)?.finish(&mut meter)
}

fn wait_at_most(longest: Duration) {
    thread::sleep(longest.mul_f64(rand::rng().random_range(0.0..1.0)));
}

/// What the child reported.
enum Report {
    At(u64),
    Done(End),
}

/// A child process that plays the trace.
struct Child {
    process: process::Child,
    reports: BufReader<ChildStdout>,
    /// The last line that was reported.
    at: u64,
}

impl Child {
    fn start(args: &ReplayArgs, settings: &Settings, place: &Place) -> Outcome<Self> {
        let failed = |error: io::Error| Failure::could_not_look(format!("could not start the child process: {error}"));
        let mut process = program::command()
            .map_err(failed)?
            .args(arguments(args, settings, place))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let reports = process.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { process, reports: BufReader::new(reports), at: 0 })
    }

    /// Waits until the child has played this line of the trace, or all of it.
    fn wait_for(&mut self, line: u64, meter: &mut Meter) -> Outcome {
        while self.at < line {
            match self.report()? {
                Some(Report::At(_)) => meter.set(self.at),
                Some(Report::Done(_)) => return Ok(()),
                None => return Err(self.ended()?),
            }
        }
        Ok(())
    }

    /// Kills the child and gives the last line that it reported.
    fn kill(mut self) -> Outcome<u64> {
        self.process.kill().map_err(lost)?;
        let status = self.process.wait().map_err(lost)?;
        if status.signal() != Some(SIGKILL) {
            return Err(failure(status));
        }
        while let Ok(Some(_)) = self.report() {}
        Ok(self.at)
    }

    /// Lets the child play to the end and gives its result.
    fn finish(mut self, meter: &mut Meter) -> Outcome<End> {
        loop {
            match self.report()? {
                Some(Report::At(line)) => meter.set(line),
                Some(Report::Done(end)) => {
                    drop(self.process.stdin.take());
                    let status = self.process.wait().map_err(lost)?;
                    return if status.success() { Ok(end) } else { Err(failure(status)) };
                }
                None => return Err(self.ended()?),
            }
        }
    }

    /// The next report; `None` once the child has ended.
    fn report(&mut self) -> Outcome<Option<Report>> {
        let mut line = String::new();
        self.reports.read_line(&mut line).map_err(lost)?;
        // A kill may cut the last line.
        let Some(line) = line.strip_suffix('\n') else { return Ok(None) };
        let report = match line.split_once(' ') {
            Some(("at", line)) => line.parse().ok().map(Report::At),
            Some(("done", json)) => serde_json::from_str(json).ok().map(Report::Done),
            _ => None,
        };
        if let Some(Report::At(line)) = report {
            self.at = line;
        }
        report.map(Some).ok_or_else(|| Failure::could_not_look(format!("the child process reported {line:?}")))
    }

    /// Why the child ended before its time.
    fn ended(&mut self) -> Outcome<Failure> {
        Ok(failure(self.process.wait().map_err(lost)?))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A parent that leaves early leaves no child behind; one that has ended is only reaped.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The child's command line: the parent's options, spelled out.
fn arguments(args: &ReplayArgs, settings: &Settings, place: &Place) -> Vec<OsString> {
    let mode = match settings.mode {
        Mode::Refresh => "refresh",
        Mode::Snapshot => "snapshot",
    };
    let clock = match settings.clock {
        Clock::V => "v",
        Clock::Micro => "micro",
    };
    let Settings { window, lag, every, .. } = settings;
    let words = ["replay", "--report-to-parent", "--mode", mode, "--clock", clock];
    let mut arguments: Vec<OsString> = words.map(OsString::from).to_vec();
    arguments
        .extend([("window", window), ("lag", lag), ("every", every)].map(|(name, n)| format!("--{name}={n}").into()));
    arguments.push("--store".into());
    arguments.push(place.store.clone().into());
    arguments.push("--".into());
    arguments.push(args.trace.clone().into());
    arguments
}

/// The failure of a child that ended on its own: with a code it has said why.
fn failure(status: ExitStatus) -> Failure {
    match status.code().map(u8::try_from) {
        Some(Ok(code)) if code != 0 => Failure::Child(code),
        _ => Failure::could_not_look(format!("the child process ended before its time: {status}")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn lost(error: io::Error) -> Failure {
    Failure::could_not_look(format!("lost the child process: {error}"))
}
