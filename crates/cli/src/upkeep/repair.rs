//! `rollstore repair`: what is whole of a damaged store, after a question.

use std::collections::BTreeSet;
use std::path::Path;

use rollstore::inspect::{self, Finding, Verification};
use rollstore::{ErrorKind, Repaired, RolloutStore};
use serde::Serialize;

use super::question;
use crate::args::RepairArgs;
use crate::exit::{Failure, Outcome, Verdict, note};
use crate::findings::{self, FindingJson, within};
use crate::output::Output;
use crate::text;

pub(crate) fn run(args: &RepairArgs, out: &mut Output) -> Outcome<Verdict> {
    let verification = inspect::verify(&args.store)?;
    let repaired = if verification.is_sound() {
        Repaired::default()
    } else {
        // What would be refused at any rate is not asked about.
        if can_be_repaired(&verification) && !args.yes && !agreed(&args.store, &verification.findings)? {
            note("nothing was changed");
            return Ok(Verdict::Damaged);
        }
        RolloutStore::repair(&args.store).map_err(refused)?
    };
    if args.json {
        out.json(&RepairedJson::new(&args.store, &repaired))?;
    } else {
        print(&args.store, &repaired, out)?;
    }
    Ok(Verdict::Sound)
}

/// Whether there is a manifest to begin with, of a store that may change.
fn can_be_repaired(verification: &Verification) -> bool {
    verification.segments > 0 && !verification.is_checkpoint
}

/// A repair that could not be done left the store as it was.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
fn refused(error: rollstore::Error) -> Failure {
    let next = match error.kind() {
        ErrorKind::Damaged => "; without a manifest there is nothing to repair by: restore a checkpoint",
        _ => "",
    };
    Failure::could_not_look(format!("not repaired: {error}{next}"))
}

/// Shows what is damaged and what would be done, and asks.
fn agreed(store: &Path, found: &[Finding]) -> Outcome<bool> {
    let places = text::counted(u64::try_from(found.len()).unwrap_or(u64::MAX), "damaged place");
    let mut lines = vec![format!(" {}: {places}", text::path(store))];
    lines.extend(findings::lines(store, found));
    lines.extend([String::new(), " A repair".to_owned()]);
    lines.extend(moved(store, found));
    lines.extend([
        "   copies every whole frame of what it moves into new segments; a batch that lost a frame comes back in parts"
            .to_owned(),
        "   makes every rollout stale if an advance or a retirement may be among what is lost".to_owned(),
        String::new(),
    ]);
    question::show(&lines);
    if !question::can_ask() {
        return Err(Failure::could_not_look(
            "not repaired: there is no terminal to ask on; --yes repairs without asking",
        ));
    }
    Ok(question::ask(&format!("repair {}?", text::path(store))))
}

/// What will be moved. That a crash left a segment open is known to the repair alone.
fn moved(store: &Path, found: &[Finding]) -> Option<String> {
    let there = found.iter().map(|finding| &finding.damage.file).filter(|file| file.exists());
    let files: BTreeSet<String> = there.map(|file| within(store, file)).collect();
    let files = Vec::from_iter(files).join(", ");
    let open = "a segment that was never closed is moved with it";
    (!files.is_empty()).then(|| format!("   moves {files} to damaged/, unchanged; {open}"))
}

fn print(store: &Path, repaired: &Repaired, out: &mut Output) -> Outcome {
    out.line(out.bold(&format!(" {}", text::path(store))))?;
    if repaired.findings.is_empty() {
        return out.line(" sound      nothing was damaged, and nothing was changed");
    }
    let aside: Vec<String> = repaired.set_aside.iter().map(|file| within(store, file)).collect();
    let aside = if aside.is_empty() { "nothing: no damaged file was there".into() } else { aside.join(", ") };
    let places = text::counted(u64::try_from(repaired.findings.len()).unwrap_or(u64::MAX), "place");
    out.line(format_args!(" repaired   {places}; the store is sound now"))?;
    out.line(format_args!(" lost       {}", lost(repaired)))?;
    out.line(format_args!(" kept       {} of damaged files", text::counted(repaired.frames_kept, "whole frame")))?;
    out.line(format_args!(" set aside  {aside}"))?;
    for line in stale(repaired.all_stale) {
        out.line(line)?;
    }
    findings::lines(store, &repaired.findings).iter().try_for_each(|line| out.line(line))
}

/// The newest data of which rollouts, and how many places no longer tell whose they were.
fn lost(repaired: &Repaired) -> String {
    let nameless = repaired.findings.iter().filter(|finding| finding.rollouts.is_empty()).count();
    let nameless = text::counted(u64::try_from(nameless).unwrap_or(u64::MAX), "place");
    match (repaired.rollouts_lost.as_slice(), nameless.as_str()) {
        ([], nameless) => format!("what stood in {nameless} without a rollout's name"),
        (named, "0 places") => format!("the newest data of {}", findings::listed(named)),
        (named, nameless) => {
            format!(
                "the newest data of {}, and what stood in {nameless} without a rollout's name",
                findings::listed(named)
            )
        }
    }
}

fn stale(all_stale: bool) -> &'static [&'static str] {
    if all_stale {
        &[
            " stale      every rollout: an advance or a retirement may be among what was lost. Old log-probs are computed",
            "            again before they are served, and a rollout that had been retired may be back",
        ]
    } else {
        &[" stale      nothing more than before: no advance and no retirement was lost"]
    }
}

/// A repair as JSON: the interface of `repair --json`, told in its help.
#[derive(Debug, Serialize)]
struct RepairedJson<'a> {
    findings: Vec<FindingJson<'a>>,
    rollouts_lost: Vec<String>,
    frames_kept: u64,
    set_aside: Vec<String>,
    all_stale: bool,
}

impl<'a> RepairedJson<'a> {
    fn new(store: &Path, repaired: &'a Repaired) -> Self {
        Self {
            findings: findings::as_json(store, &repaired.findings),
            rollouts_lost: findings::ids(&repaired.rollouts_lost),
            frames_kept: repaired.frames_kept,
            set_aside: repaired.set_aside.iter().map(|file| within(store, file)).collect(),
            all_stale: repaired.all_stale,
        }
    }
}
