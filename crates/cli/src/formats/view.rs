//! A rollout as JSON: the interface of `get --json` and of `dump` in JSON Lines.
//!
//! May touch rollouts that were read. Knows nothing of where they came from.

use rollstore::{ColumnInfo, ColumnView, ErrorKind, LogpKind, Rollout};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::provenance::ProvenanceJson;
use super::values::{Float, Values};
use crate::exit::Outcome;
use crate::text::{hex, unhex};

/// A rollout with all its columns.
#[derive(Debug, Serialize)]
pub(crate) struct RolloutJson<'a> {
    id: String,
    key: Option<&'a str>,
    group: Option<String>,
    created_step: u64,
    born_step: u64,
    ref_version: u64,
    reward: Option<Float>,
    advantage: Option<Float>,
    token_count: u32,
    version_spans: Vec<(u64, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    columns: Columns<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_old_logps: Option<Values<'a>>,
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    first_error: Option<String>,
}

/// A column: what it is, and its values or why they could not be read.
#[derive(Debug, Serialize)]
pub(crate) struct ColumnJson<'a> {
    dtype: String,
    len: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<ProvenanceJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Values<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// User metadata: text where it is text.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Metadata<'a> {
    Text(&'a str),
    Bytes { hex: String },
}

#[derive(Debug)]
struct Columns<'a>(Vec<(String, ColumnJson<'a>)>);

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, column) in &self.0 {
            map.serialize_entry(name, column)?;
        }
        map.end()
    }
}

impl<'a> RolloutJson<'a> {
    /// Reads every column of the rollout. A damaged column becomes its error.
    pub(crate) fn new(rollout: &'a Rollout) -> Outcome<Self> {
        Self::of(rollout, rollout.columns().into_iter(), rollout.keeps_first_old_logps())
    }

    /// Reads these columns of the rollout, and its first old log-probs where they are asked for.
    pub(super) fn of(rollout: &'a Rollout, columns: impl Iterator<Item = ColumnInfo>, first: bool) -> Outcome<Self> {
        let columns = columns.map(|info| {
            let name = info.column.name().to_owned();
            Ok((name, ColumnJson::new(rollout, info)?))
        });
        let (first_old_logps, first_error) = match first.then(|| rollout.behaviour_logps()).transpose() {
            Ok(logps) => (logps.map(|logps| Values(ColumnView::F32(logps))), None),
            Err(error) if error.kind() == ErrorKind::Damaged => (None, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let metadata = rollout.metadata();
        Ok(Self {
            id: rollout.id().to_string(),
            key: rollout.key(),
            group: rollout.group().map(|group| group.to_string()),
            created_step: rollout.created_step(),
            born_step: rollout.born_step(),
            ref_version: rollout.ref_version(),
            reward: rollout.reward().map(Float),
            advantage: rollout.advantage().map(Float),
            token_count: rollout.token_count(),
            version_spans: rollout.version_spans(),
            metadata: (!metadata.is_empty()).then(|| Metadata::new(metadata)),
            columns: Columns(columns.collect::<Outcome<_>>()?),
            first_old_logps,
            first_error,
        })
    }

    /// The columns that could not be read: names and errors.
    pub(crate) fn damage(&self) -> impl Iterator<Item = (&str, &str)> {
        let first = self.first_error.iter().map(|error| ("first_old_logps", error.as_str()));
        self.columns.0.iter().filter_map(|(name, column)| Some((name.as_str(), column.error.as_deref()?))).chain(first)
    }
}

impl<'a> ColumnJson<'a> {
    /// Reads one column. Damage becomes part of it, any other error is the caller's.
    pub(crate) fn new(rollout: &'a Rollout, info: ColumnInfo) -> Outcome<Self> {
        let (values, error) = match rollout.values(&info.column) {
            Ok(values) => (Some(Values(values)), None),
            Err(error) if error.kind() == ErrorKind::Damaged => (None, Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let provenance = info.provenance.map(ProvenanceJson::new);
        Ok(Self { dtype: info.dtype.to_string(), len: info.len, version: info.version, provenance, values, error })
    }
}

/// The kind of log-probs, in a word.
pub(crate) fn kind_name(kind: LogpKind) -> &'static str {
    match kind {
        LogpKind::Raw => "raw",
        LogpKind::Processed => "processed",
    }
}

impl<'a> Metadata<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Bytes { hex: hex(bytes) },
        }
    }
}

/// [`Metadata`], on its way in.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum MetadataJson {
    Text(String),
    Bytes { hex: String },
}

impl MetadataJson {
    pub(super) fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Bytes { hex } => unhex(&hex).ok_or_else(|| "metadata: these are no hexadecimal digits".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_text_where_it_can_be_and_hex_where_not() {
        let json = |bytes| serde_json::to_string(&Metadata::new(bytes)).unwrap();
        assert_eq!(json("a\u{1b}\u{202e}日".as_bytes()), "\"a\\u001b\u{202e}日\"");
        assert_eq!(json(&[0x00, 0xff]), r#"{"hex":"00ff"}"#);
    }
}
