//! `rollstore get --tokens`: a rollout token by token, the trainer's log-probs beside the sampler's.
//!
//! May touch rollouts that were read. Knows nothing of where they came from.

use rollstore::{Column, Rollout};
use serde::Serialize;

use crate::exit::{Failure, Outcome, Verdict, note};
use crate::formats::values::{Float, float};
use crate::output::Output;

/// What stands in a column that a rollout does not have.
const ABSENT: &str = "-";

/// One completion token: the interface of `get --tokens --json`. What the rollout does not have is null.
#[derive(Debug, Serialize)]
struct Token {
    position: usize,
    #[serde(rename = "token_id")]
    number: Option<u32>,
    old_logp: Option<Float>,
    sampler_logp: Option<Float>,
    /// `old_logp - sampler_logp`, in nats.
    difference: Option<Float>,
    /// `exp(difference)`: the importance ratio that corrects for the sampler.
    ratio: Option<Float>,
    /// The version of the weights that sampled it.
    version: Option<u64>,
    loss_mask: Option<u8>,
}

/// Prints the tokens. A damaged column is told, and shown as one that is not there.
pub(super) fn print(rollout: &Rollout, as_json: bool, out: &mut Output) -> Outcome<Verdict> {
    let mut reading = Reading { rollout, verdict: Verdict::Sound };
    let token_ids = reading.column(&Column::CompletionIds, Rollout::completion_ids)?;
    let old = reading.column(&Column::OldLogps, Rollout::old_logps)?;
    let sampler = reading.column(&Column::SamplerLogps, Rollout::sampler_logps)?;
    let mask = reading.column(&Column::LossMask, Rollout::loss_mask)?;
    let lens = [token_ids.map(<[_]>::len), old.map(<[_]>::len), sampler.map(<[_]>::len), mask.map(<[_]>::len)];
    let Some(len) = lens.into_iter().flatten().max() else {
        return Err(Failure::could_not_look(format!("rollout {} has no column with a value a token", rollout.id())));
    };
    let spans = rollout.version_spans();
    let mut versions = spans.iter().flat_map(|(version, tokens)| (0..*tokens).map(|_| *version));
    if !as_json {
        let head = format!(
            " {:>8} {:>9} {:>14} {:>14} {:>14} {:>12} {:>8} {:>4}",
            "position", "token", "old logp", "sampler logp", "difference", "ratio", "version", "mask"
        );
        out.line(out.bold(&head))?;
    }
    for position in 0..len {
        let at = |values: Option<&[f32]>| values.and_then(|values| values.get(position).copied());
        let (old_logp, sampler_logp) = (at(old), at(sampler));
        let difference = old_logp.zip(sampler_logp).map(|(old, sampler)| old - sampler);
        let token = Token {
            position,
            number: token_ids.and_then(|values| values.get(position).copied()),
            old_logp: old_logp.map(Float),
            sampler_logp: sampler_logp.map(Float),
            difference: difference.map(Float),
            ratio: difference.map(|difference| Float(difference.exp())),
            version: versions.next(),
            loss_mask: mask.and_then(|values| values.get(position).copied()),
        };
        if as_json { out.json(&token)? } else { out.line(token.row())? }
    }
    Ok(reading.verdict)
}

/// Reads columns, and keeps in mind whether all were whole.
struct Reading<'a> {
    rollout: &'a Rollout,
    verdict: Verdict,
}

impl<'a> Reading<'a> {
    fn column<T>(
        &mut self,
        column: &Column,
        read: impl FnOnce(&'a Rollout) -> rollstore::Result<&'a [T]>,
    ) -> Outcome<Option<&'a [T]>> {
        if !self.rollout.has(column) {
            return Ok(None);
        }
        match read(self.rollout).map_err(Failure::from) {
            Ok(values) => Ok(Some(values)),
            Err(Failure::Found(error)) => {
                note(&format!("rollout {}: {}: {error}", self.rollout.id(), column.name()));
                self.verdict = Verdict::Damaged;
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

impl Token {
    fn row(&self) -> String {
        let Self { position, number, old_logp, sampler_logp, difference, ratio, version, loss_mask } = self;
        let real = |value: &Option<Float>| value.map_or_else(|| ABSENT.to_owned(), |value| float(value.0));
        format!(
            " {position:>8} {:>9} {:>14} {:>14} {:>14} {:>12} {:>8} {:>4}",
            whole(*number),
            real(old_logp),
            real(sampler_logp),
            real(difference),
            real(ratio),
            whole(*version),
            whole(*loss_mask),
        )
    }
}

fn whole(value: Option<impl ToString>) -> String {
    value.map_or_else(|| ABSENT.to_owned(), |value| value.to_string())
}
