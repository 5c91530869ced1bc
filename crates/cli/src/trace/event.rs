//! The events of a trace, and how one line becomes one.
//!
//! May touch nothing. Knows nothing of files.
//!
//! Fields that no replay needs (wall-clock times, losses) are passed over; an event of an unknown name is an error,
//! since skipping it could skip a change of the buffer.

use std::borrow::Cow;

use serde::Deserialize;

use super::hex::Logps;

/// The version of the trace format that this program reads.
const FORMAT: u64 = 1;

/// One line of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its number in the file, from 1.
    pub number: u64,
    /// When it happened.
    pub at: At,
    /// What happened.
    pub event: Event,
}

/// When an event happened, by the trainer's own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct At {
    /// The micro-step, where the event says it.
    pub micro: Option<u64>,
    /// The policy version, where the event says it.
    pub v: Option<u64>,
}

/// What happened in the recorded run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The run's configuration.
    Header,
    /// A window of rollouts was sampled: its puts follow.
    Generate(Generate),
    /// A rollout entered the buffer.
    Put(Put),
    /// The trainer used rollouts.
    Access(Access),
    /// An optimizer step made a new policy version.
    Version(Version),
    /// Log-probs taken for study; the trainer did not use them.
    Eval,
    /// Rollouts left the buffer.
    Evict(Evict),
    /// A checkpoint was taken.
    Save,
    /// The process ended without warning.
    Crash,
    /// The last checkpoint was loaded.
    Resume,
    /// The run was over.
    End,
}

/// A window of rollouts was sampled.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Generate {
    /// Its rollouts, in generation order.
    #[serde(default)]
    pub ids: Vec<u64>,
}

/// A rollout entered the buffer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Put {
    /// The rollout.
    pub id: u64,
    /// The rollouts of one prompt.
    #[serde(default)]
    pub group: Option<u64>,
    /// Token ids of the prompt.
    #[serde(default)]
    pub prompt: Option<Vec<u32>>,
    /// Token ids of the completion.
    pub completion: Vec<u32>,
    /// The reward.
    #[serde(default)]
    pub reward: Option<f32>,
    /// The advantage.
    #[serde(default)]
    pub adv: Option<f32>,
    /// Log-probs that the sampler reported.
    #[serde(default)]
    pub sampler_lp: Option<Logps>,
    /// Log-probs under the policy that generated, by the trainer's own forward pass.
    #[serde(default)]
    pub old_lp: Option<Logps>,
    /// Log-probs under the KL reference model.
    #[serde(default)]
    pub ref_lp: Option<Logps>,
}

/// The trainer used rollouts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Access {
    /// The rollouts, in training order.
    pub ids: Vec<u64>,
    /// Their log-probs under the policy at this moment.
    pub lp: Vec<Logps>,
}

/// An optimizer step made a new policy version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The new version.
    pub v: u64,
}

/// Rollouts left the buffer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Evict {
    /// The rollouts.
    pub ids: Vec<u64>,
}

/// What every event may say, read before the rest is.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    e: Cow<'a, str>,
    #[serde(default)]
    micro: Option<u64>,
    #[serde(default)]
    v: Option<u64>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    format: Option<u64>,
}

impl Line {
    /// Reads one line; the error says what is wrong with it.
    pub(super) fn parse(number: u64, json: &[u8]) -> Result<Self, String> {
        let head: Head<'_> = from_json(json)?;
        let event = match head.e.as_ref() {
            "header" => header(&from_json(json)?)?,
            "generate" => Event::Generate(from_json(json)?),
            "put" => Event::Put(checked_put(from_json(json)?)?),
            "access" => Event::Access(checked_access(from_json(json)?)?),
            "version" => Event::Version(Version { v: head.v.ok_or("a version event needs the field `v`")? }),
            "eval" => Event::Eval,
            "evict" => Event::Evict(from_json(json)?),
            "save" => Event::Save,
            "crash" => Event::Crash,
            "resume" => Event::Resume,
            "end" => Event::End,
            unknown => return Err(format!("unknown event {unknown:?}")),
        };
        Ok(Self { number, at: At { micro: head.micro, v: head.v }, event })
    }
}

fn header(header: &Header) -> Result<Event, String> {
    match header.format {
        None | Some(FORMAT) => Ok(Event::Header),
        Some(format) => Err(format!("the trace has format {format}, this program reads format {FORMAT}")),
    }
}

fn checked_put(put: Put) -> Result<Put, String> {
    let token_count = put.completion.len();
    for (name, logps) in [("sampler_lp", &put.sampler_lp), ("old_lp", &put.old_lp), ("ref_lp", &put.ref_lp)] {
        if let Some(Logps(values)) = logps
            && values.len() != token_count
        {
            let id = put.id;
            return Err(format!(
                "rollout {id}: {name} has {} values, completion has {token_count} tokens",
                values.len()
            ));
        }
    }
    Ok(put)
}

fn checked_access(access: Access) -> Result<Access, String> {
    if access.ids.len() == access.lp.len() {
        return Ok(access);
    }
    Err(format!("an access to {} rollouts has log-probs of {}", access.ids.len(), access.lp.len()))
}

/// Reads JSON; an error names the column, since the line is named by the caller.
fn from_json<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| {
        let told = error.to_string();
        let told = told.split(" at line ").next().unwrap_or_default();
        format!("column {}: {told}", error.column())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(json: &str) -> String {
        Line::parse(1, json.as_bytes()).unwrap_err()
    }

    #[test]
    fn an_event_carries_its_steps_and_ids_above_53_bits() {
        let json = r#"{"e":"evict","micro":8,"v":3,"ids":[18446744073709551615,9007199254740993],"t":1.5}"#;
        let line = Line::parse(7, json.as_bytes()).unwrap();
        assert_eq!((line.number, line.at), (7, At { micro: Some(8), v: Some(3) }));
        assert_eq!(line.event, Event::Evict(Evict { ids: vec![u64::MAX, (1 << 53) + 1] }));
    }

    #[test]
    fn a_completion_may_be_empty() {
        let line = Line::parse(1, br#"{"e":"put","id":1,"completion":[],"old_lp":""}"#).unwrap();
        let Event::Put(put) = line.event else { panic!("not a put: {line:?}") };
        assert_eq!(put.old_lp, Some(Logps(Vec::new())));
        assert_eq!(put.sampler_lp, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            (r#"{"e":"jump"}"#, "unknown event \"jump\""),
            ("{\"e\":\"\u{1b}[2J\"}", "column 7: control character"),
            (r#"{"e":"evict"}"#, "column 13: missing field `ids`"),
            (r#"{"micro":1}"#, "missing field `e`"),
            (r#"{"e":"version","micro":1}"#, "needs the field `v`"),
            (r#"{"e":"evict","ids":[-1]}"#, "invalid value: integer `-1`, expected u64"),
            (r#"{"e":"put","id":1,"completion":[4294967296]}"#, "integer `4294967296`, expected u32"),
            (
                r#"{"e":"put","id":5,"completion":[1,2],"old_lp":"0000803f"}"#,
                "rollout 5: old_lp has 1 values, completion has 2",
            ),
            (r#"{"e":"access","ids":[1,2],"lp":["00000080"]}"#, "an access to 2 rollouts has log-probs of 1"),
            (r#"{"e":"access","ids":[1],"lp":["0000008"]}"#, "7 hex digits are not a whole number"),
            (r#"{"e":"header","format":2}"#, "format 2, this program reads format 1"),
            (r#"{"e":"end"}{"e":"end"}"#, "trailing characters"),
            (r#"{"e":"end""#, "EOF while parsing an object"),
            ("[]", "column"),
        ];
        for (json, told) in cases {
            let error = error(json);
            assert!(error.contains(told), "{json}: {error}");
        }
    }
}
