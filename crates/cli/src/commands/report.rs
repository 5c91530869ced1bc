//! `rollstore report`: a store as one page with charts, or the same figures as JSON.
//!
//! Always true:
//! - H1. The page is complete in itself: it loads nothing.
//! - H2. Its file is there as a whole or not at all, and never within a store.

use std::fs;
use std::io::Write;
use std::path::Path;

use rollstore::inspect::{self, Buffer, Drift, Past, Report};
use serde::Serialize;
use serde_json::Value;

use super::segments;
use crate::args::ReportArgs;
use crate::exit::{Failure, Outcome, Verdict, note};
use crate::findings::{self, FindingJson};
use crate::formats::{OutputFile, folder};
use crate::output::Output;
use crate::page;
use crate::text;

pub(crate) fn run(args: &ReportArgs, out: &mut Output) -> Outcome<Verdict> {
    let target = args.output.as_deref();
    target.map_or(Ok(()), |path| check_place(path, &args.store))?;
    let report = inspect::report(&args.store)?;
    let json = serde_json::to_string(&ReportJson::new(&args.store, &report))
        .map_err(|error| Failure::could_not_look(format!("could not write the report as JSON: {error}")))?;
    if args.json {
        out.line(&json)?;
    }
    if let Some(path) = target {
        let page = page::of(&json);
        let file = OutputFile::create(path)?;
        let mut whole = file.file();
        whole.write_all(page.as_bytes()).map_err(|error| file.failure(&error))?;
        file.keep()?;
        if !args.json {
            out.line(format_args!(" {} written, {}", text::path(path), text::bytes(page.len() as u64)))?;
        }
    }
    if report.damage.is_empty() {
        return Ok(Verdict::Sound);
    }
    let places = text::counted(report.damage.len() as u64, "place");
    note(&format!("{places} could not be read; the report names each"));
    Ok(Verdict::Damaged)
}

/// A report as JSON: the interface of `report --json`, and what the page draws. Serialised as it is, since a JSON value in
/// between would keep every f32 as the f64 that it equals.
#[derive(Serialize)]
struct ReportJson<'a> {
    store: String,
    buffer: Option<&'a Buffer>,
    past: &'a Past,
    drift: Option<&'a Drift>,
    segments: Vec<Value>,
    damage: Vec<FindingJson<'a>>,
}

impl<'a> ReportJson<'a> {
    fn new(store: &Path, report: &'a Report) -> Self {
        let Report { buffer, drift, past, segments, damage } = report;
        let clock = segments.clock;
        Self {
            store: text::path(store),
            buffer: buffer.as_ref(),
            past,
            drift: drift.as_ref(),
            segments: segments.segments.iter().map(|segment| segments::as_json(segment, clock)).collect(),
            damage: findings::as_json(store, damage),
        }
    }
}

/// Refuses a place within the store before anything is read.
fn check_place(path: &Path, store: &Path) -> Outcome {
    let folder = folder(path);
    let folder = fs::canonicalize(folder).map_err(|error| Failure::io("write to", folder, &error))?;
    if fs::canonicalize(store).is_ok_and(|store| folder.starts_with(store)) {
        let why = "is within the store, which is left as it is; name another place";
        return Err(Failure::could_not_look(format!("{} {why}", text::path(path))));
    }
    Ok(())
}
