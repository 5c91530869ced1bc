//! `rollstore dump`: rollouts with all their columns, as JSON Lines.

use rollstore::{ErrorKind, RolloutId, RolloutStore};

use super::chosen::chosen;
use super::view::RolloutJson;
use super::{Step, open};
use crate::args::DumpArgs;
use crate::exit::{Outcome, Verdict, note};
use crate::output::Output;

pub(crate) fn run(args: &DumpArgs, out: &mut Output) -> Outcome<Verdict> {
    let store = open(&args.store, args.at.window)?;
    let at = Step::of(&store, args.at.step)?;
    let mut verdict = Verdict::Sound;
    for id in chosen(&store, &args.filter, at.step) {
        if dump(&store, id, out)? == Verdict::Damaged {
            verdict = Verdict::Damaged;
        }
    }
    Ok(verdict)
}

/// Prints one rollout. Damage is told and passed.
fn dump(store: &RolloutStore, id: RolloutId, out: &mut Output) -> Outcome<Verdict> {
    let rollout = match store.get(id) {
        Ok(Some(rollout)) => rollout,
        // It was retired while the others were printed.
        Ok(None) => return Ok(Verdict::Sound),
        Err(error) if error.kind() == ErrorKind::Damaged => {
            note(&format!("rollout {id}: {error}"));
            out.json(&serde_json::json!({ "id": id.to_string(), "error": error.to_string() }))?;
            return Ok(Verdict::Damaged);
        }
        Err(error) => return Err(error.into()),
    };
    let json = RolloutJson::new(&rollout)?;
    let mut verdict = Verdict::Sound;
    for (column, error) in json.damage() {
        note(&format!("rollout {id}: {column}: {error}"));
        verdict = Verdict::Damaged;
    }
    out.json(&json)?;
    Ok(verdict)
}
