//! One frame of the log, as a line of a table and as JSON.
//!
//! May touch nothing. Knows nothing of where frames come from.

use rollstore::inspect::{LogFrame, Said};
use rollstore::{Lsn, RolloutId};
use serde_json::{Map, Value, json};

use crate::text;

/// Rollouts of a list that are shown, and characters of a name; `--json` shows all.
const LISTED: usize = 4;
const NAME_CHARS: usize = 40;

/// The head of the columns of [`row`].
pub(super) fn head() -> String {
    format!(" {:>7} {:>10} {:>9} {:>12} {:<11} {}", "segment", "offset", "bytes", "lsn", "kind", "says")
}

/// A frame on one line.
pub(super) fn row(frame: &LogFrame) -> String {
    let LogFrame { segment, offset, bytes, lsn, kind, .. } = frame;
    let of = frame.rollout.map_or_else(String::new, |id| format!("rollout {id}: "));
    let moved = if frame.is_moved { " (moved here by compaction)" } else { "" };
    format!(" {segment:>7} {offset:>10} {bytes:>9} {lsn:>12} {kind:<11} {of}{}{moved}", words(&frame.said))
}

/// What a frame says, in words.
pub(super) fn words(said: &Said) -> String {
    let optional =
        |name: &str, value: &Option<u64>| value.map_or_else(String::new, |value| format!(", {name} {value}"));
    let because =
        |reason: &Option<rollstore::Reason>| reason.map_or("for a reason of a newer version", |reason| reason.name());
    match said {
        Said::Insert { created_step, ref_version, kl_ref_version, token_count, group, .. } => {
            let tokens = text::counted((*token_count).into(), "token");
            let old = ref_version.map_or_else(|| ", no old logps".to_owned(), |version| format!(", version {version}"));
            let (kl, group) = (optional("kl_ref", kl_ref_version), optional("group", group));
            format!("{tokens}, created at step {created_step}{old}{kl}{group}")
        }
        Said::OldLogps { born_step, ref_version } => {
            format!("old logps of version {ref_version}, born at step {born_step}")
        }
        Said::KlRefLogps { kl_ref_version } => format!("kl_ref logps of version {kl_ref_version}"),
        Said::Piece { created_step, tokens_before, token_count } => {
            let tokens = text::counted((*token_count).into(), "token");
            format!("{tokens} behind {tokens_before}, begun at step {created_step}")
        }
        Said::Retire { rollouts, reason, unused } => {
            format!("{} {}, {unused} of them unused", listed(rollouts.iter().map(|(id, _)| *id)), because(reason))
        }
        Said::EndPieces { rollouts } => format!("pieces of {} ended", listed(rollouts.iter().map(|(id, _)| *id))),
        Said::RetireLine { created_before, reason, rollouts, unused } => {
            let count = text::counted(*rollouts, "rollout");
            format!("{count} created before step {created_before} {}, {unused} of them unused", because(reason))
        }
        Said::Advance { ref_version, label, step } => {
            format!("ref version {ref_version}{}{}", optional("step", step), optional("label", label))
        }
        Said::AdvanceKlRef { kl_ref_version, label } => {
            format!("kl_ref version {kl_ref_version}{}", optional("label", label))
        }
        Said::Rewind { step, ref_version, kl_ref_version } => {
            format!("back to step {step}, ref version {ref_version}, kl_ref version {kl_ref_version}")
        }
        Said::Cursor { bytes } => format!("{bytes} bytes"),
        Said::Sweep { name, at, last } => {
            let name = text::cut(&text::escape(name), NAME_CHARS);
            let at =
                at.map_or_else(|| "forgotten".to_owned(), |(step, version)| format!("step {step}, version {version}"));
            let last = last.map_or_else(String::new, |id| format!(", up to rollout {id}"));
            format!("sweep {name}: {at}{last}")
        }
        Said::Tally { used } if used.is_empty() => "counters".to_owned(),
        Said::Tally { used } => format!("counters; {} asked for", listed(used.iter().copied())),
        _ => "nothing".to_owned(),
    }
}

/// `3 rollouts (4, 5, 9)`: some of them.
fn listed(ids: impl ExactSizeIterator<Item = RolloutId>) -> String {
    let count = ids.len();
    let shown: Vec<String> = ids.take(LISTED).map(|id| id.to_string()).collect();
    let more = if count > shown.len() { ", …" } else { "" };
    let counted = text::counted(count as u64, "rollout");
    if count == 0 { counted } else { format!("{counted} ({}{more})", shown.join(", ")) }
}

/// A frame as JSON: the interface of `log --json`, told in its help.
pub(super) fn as_json(frame: &LogFrame) -> Map<String, Value> {
    let json = json!({
        "segment": frame.segment,
        "offset": frame.offset,
        "bytes": frame.bytes,
        "lsn": frame.lsn.get(),
        "kind": frame.kind,
        "frames_in_batch": frame.frames_in_batch,
        "moved": frame.is_moved,
        "rollout": frame.rollout.map(|id| id.to_string()),
        "incarnation": frame.incarnation.map(Lsn::get),
        "said": said_json(&frame.said),
    });
    match json {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn said_json(said: &Said) -> Value {
    let victims = |rollouts: &[(RolloutId, Lsn)]| -> Vec<Value> {
        rollouts.iter().map(|(id, lsn)| json!({ "rollout": id.to_string(), "incarnation": lsn.get() })).collect()
    };
    let name = |reason: &Option<rollstore::Reason>| reason.map(rollstore::Reason::name);
    match said {
        Said::Insert {
            created_step,
            born_step,
            ref_version,
            kl_ref_version,
            has_sampler_logps,
            token_count,
            group,
        } => {
            json!({
                "created_step": created_step, "born_step": born_step, "ref_version": ref_version,
                "kl_ref_version": kl_ref_version, "has_sampler_logps": has_sampler_logps, "token_count": token_count,
                "group": group.map(|group| group.to_string()),
            })
        }
        Said::OldLogps { born_step, ref_version } => json!({ "born_step": born_step, "ref_version": ref_version }),
        Said::KlRefLogps { kl_ref_version } => json!({ "kl_ref_version": kl_ref_version }),
        Said::Piece { created_step, tokens_before, token_count } => {
            json!({ "created_step": created_step, "tokens_before": tokens_before, "token_count": token_count })
        }
        Said::Retire { rollouts, reason, unused } => {
            json!({ "rollouts": victims(rollouts), "reason": name(reason), "unused": unused })
        }
        Said::EndPieces { rollouts } => json!({ "pieces_of": victims(rollouts) }),
        Said::RetireLine { created_before, reason, rollouts, unused } => {
            json!({ "created_before": created_before, "reason": name(reason), "retired": rollouts, "unused": unused })
        }
        Said::Advance { ref_version, label, step } => {
            json!({ "ref_version": ref_version, "label": label.map(|label| label.to_string()), "step": step })
        }
        Said::AdvanceKlRef { kl_ref_version, label } => {
            json!({ "kl_ref_version": kl_ref_version, "label": label.map(|label| label.to_string()) })
        }
        Said::Rewind { step, ref_version, kl_ref_version } => {
            json!({ "step": step, "ref_version": ref_version, "kl_ref_version": kl_ref_version })
        }
        Said::Cursor { bytes } => json!({ "bytes": bytes }),
        Said::Sweep { name, at, last } => json!({
            "name": name, "step": at.map(|(step, _)| step), "version": at.map(|(_, version)| version),
            "last": last.map(|id| id.to_string()),
        }),
        Said::Tally { used } => json!({ "used": used.iter().map(ToString::to_string).collect::<Vec<_>>() }),
        _ => json!({}),
    }
}
